/* What a GPU's multiprocessors reach, as opposed to what their clock promises. */
#ifndef FALT_CUDA_RATE_H
#define FALT_CUDA_RATE_H

#include "cuda/gpu.h"

/* What to compile for multiply-adds of a type, "float" or "double". */
falt_cuda_kernel falt_gpu_rate_kernel(const char *type);

/* Operations a second, a multiply-add counted as two. *rate stays as it is where nothing can be compiled or timed. */
void falt_gpu_rate(falt_gpu *gpu, const char *type, double *rate);

#endif
