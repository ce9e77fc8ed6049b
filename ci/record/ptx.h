/* The PTX of a kernel, as a number that does not depend on names. */
#ifndef FALT_RECORD_PTX_H
#define FALT_RECORD_PTX_H

#include <stdint.h>

#include "cuda/compile.h"

/* Compiles a kernel for an architecture such as "sm_90a" and hashes its PTX, without comments and with the functions,
 * parameters and variables that it declares numbered as they first appear. False, with a line on stderr, on failure. */
bool record_ptx(const falt_cuda_kernel *kernel, const char *arch, uint64_t *hash);

#endif
