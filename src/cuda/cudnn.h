/* cuDNN, NVIDIA's library of layers, if installed: one convolution or gradient as a graph of one operation. */
#ifndef FALT_CUDA_CUDNN_H
#define FALT_CUDA_CUDNN_H

#include "cuda/gpu.h"

typedef enum falt_cudnn_operation { FALT_CUDNN_FORWARD, FALT_CUDNN_DATA, FALT_CUDNN_FILTER } falt_cudnn_operation;

/* Batch or outputs, channels of all groups, depth, height, width. */
typedef struct falt_cudnn_tensor {
  int64_t size[5], stride[5];
  int alignment; /* bytes that divide its address */
} falt_cudnn_tensor;

enum { FALT_CUDNN_X, FALT_CUDNN_W, FALT_CUDNN_Y, FALT_CUDNN_TENSORS };

typedef struct falt_cudnn_layer {
  falt_cudnn_operation operation;
  falt_type type; /* of all tensors: f16, bf16, f32 or f64; sums are in f32 or f64 */
  int axes;       /* 2 or 3; of 2 the depth is 1 */
  falt_cudnn_tensor tensor[FALT_CUDNN_TENSORS];
  int64_t stride[3], dilation[3], before[3], after[3];
  bool allow_tf32, deterministic;
  int64_t max_workspace; /* bytes; negative: any */
  double seconds;        /* to measure engines; 0: the first proposed one that fits */
} falt_cudnn_layer;

typedef struct falt_cudnn falt_cudnn;

/* Such as "9.19.0", or NULL with the reason as this thread's message. */
const char *falt_cudnn_version(void);
/* An engine for a layer. FALT_NO_DEVICE where cuDNN is missing, FALT_NO_SOLVER where none of its engines fits. */
falt_status falt_cudnn_make(falt_cudnn **made, falt_gpu *gpu, const falt_cudnn_layer *layer);
void falt_cudnn_free(falt_cudnn *cudnn);
size_t falt_cudnn_workspace(const falt_cudnn *cudnn);
/* Its number, and of how many that were measured; 0 of none. */
int falt_cudnn_engine(const falt_cudnn *cudnn);
int falt_cudnn_measured(const falt_cudnn *cudnn);
/* Launches it on a stream. Errors are stored per thread; see falt_gpu_trouble. */
void falt_cudnn_run(falt_cudnn *cudnn, void *const data[FALT_CUDNN_TENSORS], void *workspace, void *stream);

#endif
