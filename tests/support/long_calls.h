/* Long calls, for the tests of cancellation and progress. */
#ifndef FALT_TESTS_LONG_CALLS_H
#define FALT_TESTS_LONG_CALLS_H

#include "api_fixture.h"

#include "core/clock.h"
#include "core/memory.h"
#include "planner/planner.h"

/* ---- operands */

typedef struct set {
  falt_operands operands;
  void *memory[7];
} set;

UNUSED static void *provide(set *s, int i, size_t bytes) {
  s->memory[i] = falt_alloc_zero(bytes + 64);
  assert_non_null(s->memory[i]);
  return s->memory[i];
}

UNUSED static set operands_of(const falt_plan *plan) {
  static const char *const names[] = {"input", "filter", "output", "bias", "scale", "residual"};
  set s = {.memory = {NULL}};
  void **const to[] = {&s.operands.input, &s.operands.filter, &s.operands.output,
                       &s.operands.bias,  &s.operands.scale,  &s.operands.residual};
  for (int i = 0; i < 6; i++) *to[i] = provide(&s, i, falt_plan_bytes(plan, names[i]));
  s.operands.workspace = provide(&s, 6, falt_plan_workspace(plan));
  return s;
}

UNUSED static void release(set *s) {
  for (int i = 0; i < 7; i++) falt_free(s->memory[i]);
}

/* A filter's values, of rank 1. */
UNUSED static float *ones_for(const char *line) {
  const falt_problem problem = parse(line);
  const int64_t count = falt_tensor_span(&problem.filter);
  float *ones = falt_alloc((size_t)count * sizeof *ones);
  for (int64_t i = 0; ones && i < count; i++) ones[i] = 1;
  return ones;
}

UNUSED static falt_plan *plan_by(falt_device *device, const char *line, const char *method) {
  char text[256];
  falt_plan *plan;
  snprintf(text, sizeof text, "%s%s%s", line, method ? " method=" : "", method ? method : "");
  static const char *const reading[] = {"separable", "separable-u8", "direct-u8", "running-sums", "repeated-boxes"};
  bool needs_values = false;
  for (size_t i = 0; method && i < sizeof reading / sizeof *reading; i++)
    needs_values |= strcmp(method, reading[i]) == 0;
  float *ones = needs_values ? ones_for(line) : NULL;
  const falt_status status = falt_plan_create_line(&plan, device, text, ones);
  falt_free(ones);
  if (status == FALT_OK) return plan;
  print_message("skipped: %s: %s\n", text, falt_message());
  return NULL;
}

/* ---- calls other than executions */

UNUSED static void ignore_candidate(UNUSED void *context, UNUSED const falt_candidate *candidate) {}

UNUSED static void ignore_verdict(UNUSED void *context, UNUSED const falt_verdict *verdict) {}

typedef struct question {
  falt_device *device;
  falt_problem problem;
  falt_budget budget;
  void *values;
} question;

UNUSED static falt_status plan_once(question *q) {
  falt_plan *plan;
  const falt_status status = falt_plan_create(&plan, q->device, &q->problem, &q->budget, q->values);
  assert_true(status == FALT_OK || !plan);
  falt_plan_destroy(&plan);
  return status;
}

/* Until interrupted: one planning may be over too soon. */
UNUSED static falt_status plan_on(question *q) {
  falt_status status = FALT_OK;
  for (const double end = falt_seconds() + 60; status == FALT_OK && falt_seconds() < end;) status = plan_once(q);
  return status;
}

UNUSED static falt_status explain(question *q) {
  return falt_explain(q->device, &q->problem, &q->budget, q->values, 10, ignore_candidate, NULL);
}

UNUSED static falt_status verify(question *q) {
  return falt_verify(q->device, &q->problem, &q->budget, 1, ignore_verdict, NULL);
}

UNUSED static falt_status time_plan(question *q) {
  falt_candidate candidate;
  falt_plan *plan = plan_by(q->device, "correlate h=64 w=64 r=3 s=3", NULL);
  set s = operands_of(plan);
  const falt_status status = falt_plan_time(plan, &s.operands, 60, &candidate);
  release(&s);
  falt_plan_destroy(&plan);
  return status;
}

#endif
