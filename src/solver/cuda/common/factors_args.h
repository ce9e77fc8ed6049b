/* Arguments of expand_factors.cu: a plain struct for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_COMMON_FACTORS_ARGS_H
#define FALT_SOLVER_CUDA_COMMON_FACTORS_ARGS_H

enum { FALT_CUDA_FACTORS_THREADS = 256 };

/* Terms of one factor an axis, of so many values each, and where what is made of them goes. Types are the numbers of
 * the public enumeration. */
typedef struct falt_cuda_factors_args {
  const void *values;
  void *to;
  long long size[3], count; /* count: of values that are made */
  int backwards[3];         /* whether an axis's taps run from the last to the first */
  int terms, type, to_type;
  int first; /* the axis whose factor takes those of the axes of one tap */
} falt_cuda_factors_args;

#endif
