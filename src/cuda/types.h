/* Element types as CUDA and its libraries name them. */
#ifndef FALT_CUDA_TYPES_H
#define FALT_CUDA_TYPES_H

#include "core/types.h"

enum { FALT_CUDA_NONE = -1 };

typedef struct falt_cuda_type {
  const char *element;  /* C type in kernels; f16 and bf16 are their bits */
  const char *products; /* kind of tensor-core products of two such values, as kernels name it; or NULL */
  int map;              /* of CUtensorMap, or FALT_CUDA_NONE */
  int cudnn, cublas;    /* of cudnnDataType_t and of cudaDataType_t, or FALT_CUDA_NONE */
} falt_cuda_type;

extern const falt_cuda_type falt_cuda_types[FALT_TYPE_COUNT];

/* The kind of tensor-core products of values of two types, or NULL. */
const char *falt_cuda_products(falt_type a, falt_type b);
/* The unsigned C type with 1, 2, 4 or 8 bytes. */
const char *falt_cuda_bits(size_t bytes);

#endif
