/* Compiles the plans of a solver for problem lines on described GPUs, which are not present. No kernel may spill. */
#ifndef FALT_TESTS_COMPILE_LINES_H
#define FALT_TESTS_COMPILE_LINES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cache.h"
#include "cuda/compile.h"
#include "faltung/faltung.h"
#include "need_compiler.h"

typedef struct compile_lines {
  const char *method, *wgrad; /* of gradients of filters: wgrad; NULL: the method as well */
  const char *source[2];      /* how their kernels' files begin */
  const char *const *gpus, *const *lines;
  size_t gpu_count, line_count;
  size_t everywhere; /* so many lines for all GPUs, the others for one each: compiling takes long */
  int kernels;       /* the minimum number of compiled kernels */
} compile_lines;

typedef struct compiled_lines {
  const char *const *source;
  int kernels;
} compiled_lines;

static void check_compiled(void *context, const falt_cached_kernel *kernel) {
  compiled_lines *c = context;
  bool is_theirs = false;
  for (int i = 0; i < 2; i++)
    is_theirs |= c->source[i] && strncmp(kernel->source, c->source[i], strlen(c->source[i])) == 0;
  if (!is_theirs) return;
  c->kernels++;
  if (kernel->spill_bytes || kernel->registers > 255)
    fail_msg("%s for %s: %d registers, %d bytes spilled: %s", kernel->source, kernel->arch, kernel->registers,
             kernel->spill_bytes, kernel->holes);
}

static void compile_line(falt_device *device, const char *line, const compile_lines *c) {
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan;
  falt_budget_default(&budget);
  if (falt_problem_parse(&problem, &budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  const char *method = problem.operation == FALT_BACKWARD_FILTER && c->wgrad ? c->wgrad : c->method;
  snprintf(budget.method, sizeof budget.method, "%s", method);
  if (falt_plan_create(&plan, device, &problem, &budget, NULL) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  falt_plan_destroy(&plan);
}

static void compile_all_lines(const compile_lines *c) {
  char directory[] = "/tmp/falt-lines-XXXXXX", command[64];
  int64_t removed;
  compiled_lines compiled = {.source = c->source};
  need_compiler();
  assert_non_null(mkdtemp(directory));
  setenv("FALTUNG_CACHE", directory, 1);
  for (size_t g = 0; g < c->gpu_count; g++) {
    falt_cuda_options options;
    falt_device *device;
    falt_cuda_options_default(&options);
    snprintf(options.described, sizeof options.described, "%s", c->gpus[g]);
    options.compile = true;
    assert_int_equal(falt_device_cuda(&device, &options), FALT_OK);
    for (size_t i = 0; i < c->line_count; i++)
      if (i < c->everywhere || i % c->gpu_count == g) compile_line(device, c->lines[i], c);
    falt_device_destroy(&device);
  }
  assert_int_equal(falt_cuda_cache_each(check_compiled, &compiled), FALT_OK);
  assert_true(compiled.kernels >= c->kernels);
  falt_cuda_cache_clear(&removed);
  snprintf(command, sizeof command, "rm -r %s", directory);
  assert_int_equal(system(command), 0);
}

#endif
