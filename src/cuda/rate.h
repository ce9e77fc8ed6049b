/* Measured multiply-add rates of a GPU, which are below the rates that its clock promises. */
#ifndef FALT_CUDA_RATE_H
#define FALT_CUDA_RATE_H

#include "cuda/gpu.h"

/* Multiply-adds in float and double, and of halves on tensor cores with sums in float. */
typedef enum falt_gpu_rates { FALT_GPU_F32, FALT_GPU_F64, FALT_GPU_F16, FALT_GPU_RATES } falt_gpu_rates;

/* The source and parameters of a measurement. */
falt_cuda_kernel falt_gpu_rate_kernel(falt_gpu_rates which);

/* Operations a second; a multiply-add counts as two. *rate is unchanged if the kernel cannot be compiled or timed. */
void falt_gpu_rate(falt_gpu *gpu, falt_gpu_rates which, double *rate);

#endif
