/* Skips tests that compile kernels without NVRTC, or if FALTUNG_TEST_KERNELS is 0: under sanitizers they take minutes
 * in a library that was built without them. */
#ifndef FALT_TESTS_NEED_COMPILER_H
#define FALT_TESTS_NEED_COMPILER_H

#include <stdlib.h>
#include <string.h>

#include "cuda/compile.h"

static void need_compiler(void) {
  const char *kernels = getenv("FALTUNG_TEST_KERNELS");
  const bool unwanted = kernels && strcmp(kernels, "0") == 0;
  if (!unwanted && falt_cuda_compiler()) return;
  print_message(unwanted ? "skipped: FALTUNG_TEST_KERNELS is 0\n"
                         : "skipped: no NVRTC; install nvidia-cuda-nvrtc or set FALTUNG_CUDA_PATH\n");
  skip();
}

#endif
