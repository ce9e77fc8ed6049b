/* The file of a compiled kernel: one line of facts, one readable line, and the cubin. */
#ifndef FALT_CUDA_CUBIN_H
#define FALT_CUDA_CUBIN_H

#include "cuda/compile.h"

enum { FALT_CUBIN_DEFINES = 2400 };

/* The facts in the file. */
typedef struct falt_cubin_label {
  char source[48], entry[48], arch[16];
  char defines[FALT_CUBIN_DEFINES]; /* "TAPS_T=5; PIXEL=3" */
} falt_cubin_label;

/* The file's text, allocated by falt_alloc, or NULL if memory ran out. */
char *falt_cubin_pack(const falt_cuda_kernel *kernel, const char *arch, const falt_cuda_binary *binary, size_t *length);

/* Parses a file: false unless every byte is as packed. Afterwards binary->data is text, with the cubin at its front.
 * label may be NULL. */
bool falt_cubin_unpack(char *text, size_t length, falt_cuda_binary *binary, falt_cubin_label *label);

#endif
