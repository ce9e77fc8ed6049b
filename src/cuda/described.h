/* GPUs that are described but not present: enough of a driver to plan on them and to compile for them. */
#ifndef FALT_CUDA_DESCRIBED_H
#define FALT_CUDA_DESCRIBED_H

#include "cuda/driver.h"

/* The number of a GPU called "h200" or, of several of one architecture the first, "sm_90a". FALT_INVALID_ARGUMENT, with
 * the names there are, if none is. */
falt_status falt_cuda_described_find(const char *name, int *ordinal);

/* A driver whose devices are the GPUs of the table. Memory is addresses only, copies do nothing, modules and functions
 * are accepted; a launch fails. A function that requests more shared memory than the GPU has is refused. */
const falt_cuda_driver *falt_cuda_described_driver(void);

#endif
