/* cuBLAS, NVIDIA's library of matrix products, if installed. */
#ifndef FALT_CUDA_CUBLAS_H
#define FALT_CUDA_CUBLAS_H

#include "cuda/gpu.h"

typedef struct falt_cublas falt_cublas;

enum { FALT_CUBLAS_WORKSPACE = 32 << 20 }; /* bytes; the size that cuBLAS recommends on Hopper */

/* Such as "13.1.0", or NULL with the reason as this thread's message. */
const char *falt_cublas_version(void);
/* For products of f16, bf16, f32 or f64, with sums in f32 or f64. FALT_NO_DEVICE where it is missing. */
falt_status falt_cublas_open(falt_cublas **made, falt_gpu *gpu, falt_type type, bool allow_tf32);
void falt_cublas_close(falt_cublas *cublas);

/* C = A B for a batch of row-major matrices: A is m by k, B is k by n, or n by k if transposed. */
typedef struct falt_cublas_product {
  const void *a, *b;
  void *c;
  bool transposed;
  int64_t m, n, k;
  int64_t row_a, row_b, row_c;    /* elements from one row to the next, of B as stored */
  int64_t next_a, next_b, next_c; /* from one matrix to the next */
  int64_t count;
} falt_cublas_product;

/* Launches it on a stream. Errors are stored per thread; see falt_gpu_trouble. */
void falt_cublas_multiply(falt_cublas *cublas, const falt_cublas_product *product, void *workspace, void *stream);

#endif
