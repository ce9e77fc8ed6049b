/* A problem of boxes beside the reference: its operands, runs by a method on every instruction set with 1 to 3 threads,
 * and comparisons. Included once by a test. */
#ifndef FALT_TESTS_BOX_SAMPLE_H
#define FALT_TESTS_BOX_SAMPLE_H

#include <math.h>

#include "box_lines.h"
#include "core/memory.h"
#include "core/random.h"
#include "isa_devices.h"
#include "problem/problem.h"

typedef struct sample {
  char line[LINE];
  falt_problem problem;
  falt_budget budget;
  void *taps, *input, *expected, *output;
  size_t bytes;         /* of the output */
  double weight, scale; /* of all taps; the largest |sum| of a window */
} sample;

/* How far an output may be from the expected value. */
typedef double tolerance_of(const sample *s, double expected);

static void *zeros(const falt_tensor *t) {
  void *data = calloc((size_t)falt_tensor_span(t), falt_type_size(t->type));
  assert_non_null(data);
  return data;
}

/* The taps are the caller's to set, and their weight. */
static void open_sample(sample *s, const char *line) {
  *s = (sample){.weight = 0};
  snprintf(s->line, sizeof s->line, "%s", line);
  if (falt_problem_parse(&s->problem, &s->budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  s->taps = zeros(&s->problem.filter);
  s->input = zeros(&s->problem.input);
  s->expected = zeros(&s->problem.output);
  s->output = zeros(&s->problem.output);
  s->bytes = (size_t)falt_tensor_span(&s->problem.output) * falt_type_size(s->problem.output.type);
}

static void drop_sample(sample *s) {
  free(s->taps);
  free(s->input);
  free(s->expected);
  free(s->output);
}

static void set_input(sample *s, uint64_t *seed, double factor) {
  const falt_tensor *t = &s->problem.input;
  double largest = fabs(s->problem.boundary_value);
  for (int64_t i = 0, count = falt_tensor_span(t); i < count; i++) {
    const bool whole = falt_type_is_integer(t->type);
    const double low = fmax(falt_type_min(t->type), -0x1p31), high = fmin(falt_type_max(t->type), 0x1p31 - 1);
    const double value =
        whole ? (double)falt_random_int(seed, (int64_t)low, (int64_t)high) : (2 * falt_random_unit(seed) - 1) * factor;
    falt_store(s->input, t->type, i, value);
    largest = fmax(largest, fabs(value));
  }
  s->scale = largest * s->weight;
}

static void run(const sample *s, falt_device *device, const char *method, void *output) {
  falt_plan *plan = NULL;
  falt_budget budget = s->budget;
  snprintf(budget.method, sizeof budget.method, "%s", method);
  if (falt_plan_create(&plan, device, &s->problem, &budget, s->taps) != FALT_OK)
    fail_msg("%s: %s", s->line, falt_message());
  falt_operands operands = {.input = s->input, .output = output};
  operands.workspace = falt_alloc(falt_plan_workspace(plan) + 1);
  assert_non_null(operands.workspace);
  memset(operands.workspace, 0xff, falt_plan_workspace(plan));
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  falt_free((void *)operands.workspace);
  falt_plan_destroy(&plan);
}

static void compare(const sample *s, const char *isa, tolerance_of *tolerance) {
  const falt_type type = s->problem.output.type;
  for (int64_t i = 0, count = falt_tensor_span(&s->problem.output); i < count; i++) {
    const double is = falt_load(s->output, type, i), should = falt_load(s->expected, type, i);
    const bool equal = is == should || (isnan(is) && isnan(should)) || fabs(is - should) <= tolerance(s, should);
    if (!equal) fail_msg("%s, %s: element %lld is %.17g and not %.17g", s->line, isa, (long long)i, is, should);
  }
}

/* Every instruction set beside the reference, and the same bits for all numbers of threads. */
static void check(sample *s, const char *method, tolerance_of *tolerance) {
  run(s, devices[FALT_ISA_PORTABLE][0], "reference", s->expected);
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
    if (!falt_isa_runs((falt_isa)isa)) continue;
    run(s, devices[isa][0], method, s->output);
    compare(s, falt_isa_name((falt_isa)isa), tolerance);
    void *again = malloc(s->bytes);
    for (int i = 1; i < THREADS; i++) {
      memcpy(again, s->output, s->bytes);
      run(s, devices[isa][i], method, again);
      if (memcmp(again, s->output, s->bytes) != 0) fail_msg("%s: other bits with %d threads", s->line, i + 1);
    }
    free(again);
  }
}

#endif
