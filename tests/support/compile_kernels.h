/* Compiles kernels for every architecture without a GPU, and reads their resource usage. Skipped without NVRTC. */
#ifndef FALT_TESTS_COMPILE_KERNELS_H
#define FALT_TESTS_COMPILE_KERNELS_H

#include "core/memory.h"
#include "cuda/compile.h"
#include "faltung/faltung.h"
#include "need_compiler.h"

/* Everything is compiled for the first, and each specialisation for one of the others in turn. */
static const char *const architectures[] = {"sm_90a", "sm_80", "sm_100a", "sm_120"};

__attribute__((unused)) static bool is_turn(size_t architecture, size_t specialisation) {
  return architecture == 0 || architecture == 1 + specialisation % 3;
}

/* Fails if it spills or needs more than it may. */
static void compile(const falt_cuda_kernel *kernel, const char *arch, int most_registers, int most_stack) {
  falt_cuda_binary binary;
  char *log;
  if (falt_cuda_compile(kernel, arch, &binary, &log) != FALT_OK) fail_msg("%s", falt_message());
  assert_non_null(log);
  const falt_cuda_use *use = &binary.use;
  if (use->registers < 8 || use->registers > most_registers || use->stack_bytes < 0 || use->stack_bytes > most_stack)
    fail_msg("%s for %s: %d registers, %d bytes of stack\n%.3000s", kernel->source, arch, use->registers,
             use->stack_bytes, log);
  assert_true(binary.size > 1000);
  falt_free(binary.data);
  falt_free(log);
}

/* The common parameters of filter kernels with taps in parameters. */
__attribute__((unused)) static void filter_defines(falt_cuda_kernel *k, const int taps[3], int terms, int boundary,
                                                   const char *element, falt_type type) {
  for (int i = 0; i < 3; i++) {
    falt_cuda_define(k, "TAPS_%c=%d", "TRS"[i], taps[i]);
    falt_cuda_define(k, "PAD_%c=%d", "TRS"[i], taps[i] / 2);
    falt_cuda_define(k, "AXIS_%c=%d,%d", "TRS"[i], boundary, boundary);
  }
  falt_cuda_define(k, "ELEMENT_X=%s", element);
  falt_cuda_define(k, "ELEMENT_Y=%s", element);
  falt_cuda_define(k, "TYPE_X=%d", (int)type);
  falt_cuda_define(k, "TYPE_Y=%d", (int)type);
  falt_cuda_define(k, "SUM=%s", type == FALT_F64 ? "double" : "float");
  falt_cuda_define(k, "TINY=%d", type == FALT_U8 || type == FALT_U16);
  falt_cuda_define(k, "TERMS=%d", terms);
  falt_cuda_define(k, "SCALED=1");
}

#endif
