/* One problem by two methods, for the tests of solvers by fast transforms: random operands, a method's result, and the
 * same by the definition in f64. Included once by a test. */
#ifndef FALT_TESTS_FFT_TRIAL_H
#define FALT_TESTS_FFT_TRIAL_H

#include <math.h>

#include "api_fixture.h"
#include "core/cpu.h"
#include "core/random.h"
#include "core/types.h"
#include "problem/problem.h"

static uint64_t seed = 1;

typedef struct operand {
  falt_tensor tensor;
  int64_t count; /* elements, those between others included */
  void *data;
} operand;

/* Forward, or backward-filter, whose output is dy and whose filter is dw. */
typedef struct trial {
  falt_problem problem;
  operand input, filter, output, bias;
  operand *read, *result; /* beside the input */
} trial;

UNUSED static double at(const operand *o, int64_t i) {
  return falt_load(o->data, o->tensor.type, i);
}

UNUSED static void put(const operand *o, int64_t i, double value) {
  falt_store(o->data, o->tensor.type, i, value);
}

static operand operand_of(falt_tensor tensor) {
  operand o = {tensor, falt_tensor_span(&tensor), NULL};
  o.data = calloc((size_t)o.count, falt_type_size(tensor.type));
  assert_non_null(o.data);
  return o;
}

static void fill(const operand *o, double factor) {
  for (int64_t i = 0; i < o->count; i++) {
    const double value = 2 * falt_random_unit(&seed) - 1;
    put(o, i, falt_type_is_integer(o->tensor.type) ? rint(value * 100) : value * factor);
  }
}

/* Of zeros. */
static trial *allocate_trial(const falt_problem *p) {
  trial *t = malloc(sizeof *t);
  assert_non_null(t);
  *t = (trial){.problem = *p};
  t->input = operand_of(p->input);
  t->filter = operand_of(p->filter);
  t->output = operand_of(p->output);
  t->bias = operand_of(falt_operand_tensor(p, FALT_BIAS));
  t->read = p->operation == FALT_FORWARD ? &t->filter : &t->output;
  t->result = p->operation == FALT_FORWARD ? &t->output : &t->filter;
  return t;
}

/* Random numbers up to these two in the input and the other operand that is read. */
UNUSED static trial *open_trial(const char *line, double input, double other) {
  const falt_problem problem = parse(line);
  trial *t = allocate_trial(&problem);
  fill(&t->input, input);
  fill(t->read, other);
  return t;
}

UNUSED static void close_trial(trial *t) {
  free(t->input.data);
  free(t->filter.data);
  free(t->output.data);
  free(t->bias.data);
  free(t);
}

/* Executes by a method, with the filter known or given, and no more workspace than `most`. */
UNUSED static void run(const trial *t, const char *method, const char *isa, bool known, int64_t most) {
  falt_device *device = device_with(isa, 2);
  falt_plan *plan;
  falt_budget budget;
  falt_budget_default(&budget);
  budget.max_workspace = most;
  snprintf(budget.method, sizeof budget.method, "%s", method);
  if (falt_plan_create(&plan, device, &t->problem, &budget, known ? t->filter.data : NULL) != FALT_OK)
    fail_msg("%s: %s", method, falt_message());
  falt_operands operands = {.input = t->input.data, .output = t->output.data, .bias = t->bias.data};
  operands.filter = known ? NULL : t->filter.data;
  operands.workspace = aligned_alloc(64, (falt_plan_workspace(plan) + 64) / 64 * 64);
  assert_true(most < 0 || falt_plan_workspace(plan) <= (size_t)most);
  memset(t->result->data, 0xFF, (size_t)t->result->count * falt_type_size(t->result->tensor.type));
  if (falt_execute(plan, &operands) != FALT_OK) fail_msg("%s: %s", method, falt_message());
  free(operands.workspace);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

/* The same problem in f64 by its definition. */
UNUSED static trial *expected_of(const trial *t) {
  falt_problem p = t->problem;
  p.input.type = p.filter.type = p.output.type = p.accumulator = FALT_F64;
  trial *wide = allocate_trial(&p);
  for (int64_t i = 0; i < t->input.count; i++) put(&wide->input, i, at(&t->input, i));
  for (int64_t i = 0; i < t->read->count; i++) put(wide->read, i, at(t->read, i));
  run(wide, "generic", "", false, -1);
  return wide;
}

/* The largest magnitude, and their sum, of finite elements. */
UNUSED static double largest(const operand *o) {
  double found = 0;
  for (int64_t i = 0; i < o->count; i++) found = isfinite(at(o, i)) ? fmax(found, fabs(at(o, i))) : found;
  return found;
}
UNUSED static double weight(const operand *o) {
  double sum = 0;
  for (int64_t i = 0; i < o->count; i++) sum += isfinite(at(o, i)) ? fabs(at(o, i)) : 0;
  return sum;
}

UNUSED static void compare(const operand *y, const operand *expected, double most, const char *line, const char *isa) {
  for (int64_t i = 0; i < y->count; i++) {
    const double a = at(y, i), e = at(expected, i);
    const bool same = isnan(e) ? isnan(a) != 0 : isinf(e) ? a == e : fabs(a - e) <= most;
    if (!same)
      fail_msg("%s on %s: result %lld is %g instead of %g, at most %g away", line, isa, (long long)i, a, e, most);
  }
}

/* ---- planning */

typedef struct choice {
  const char *line;
  bool taken;
} choice;

UNUSED static void check_choices(const choice *cases, size_t count, const char *method) {
  falt_device *device = device_with("", 2);
  for (size_t i = 0; i < count; i++) {
    falt_plan *plan;
    assert_int_equal(falt_plan_create_line(&plan, device, cases[i].line, NULL), FALT_OK);
    if ((strcmp(falt_plan_solver(plan), method) == 0) != cases[i].taken)
      fail_msg("%s: by %s", cases[i].line, falt_plan_solver(plan));
    falt_plan_destroy(&plan);
  }
  falt_device_destroy(&device);
}

#endif
