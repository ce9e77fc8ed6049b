/* The sources of the kernels, embedded by cmake/embed.cmake. */
#ifndef FALT_CUDA_SOURCES_H
#define FALT_CUDA_SOURCES_H

typedef struct falt_cuda_source {
  const char *name;   /* as #include spells it: "cuda_generic.cu", "boundary.cuh" */
  const char *text;   /* NUL-terminated */
  const char *digest; /* the text's SHA-256, in hexadecimal */
} falt_cuda_source;

/* Ends with a NULL name. */
extern const falt_cuda_source falt_cuda_sources[];

#endif
