/* Measured multiply-add rates of a GPU, which are below the rates that its clock promises. */
#ifndef FALT_CUDA_RATE_H
#define FALT_CUDA_RATE_H

#include "cuda/gpu.h"

/* Multiply-adds in float and double, and of halves on tensor cores with sums in float. */
typedef enum falt_gpu_rates { FALT_GPU_F32, FALT_GPU_F64, FALT_GPU_F16, FALT_GPU_RATES } falt_gpu_rates;

/* What to compile for one. */
falt_cuda_kernel falt_gpu_rate_kernel(falt_gpu_rates which);

/* Operations a second, a multiply-add counted as two. *rate stays as it is where nothing can be compiled or timed. */
void falt_gpu_rate(falt_gpu *gpu, falt_gpu_rates which, double *rate);

#endif
