/* Goldens: what scipy and torch computed (tests/golden/generate.py) and what ONNX defines (tests/golden/onnx.py), run
 * through every solver that applies. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/types.h"
#include "problem/problem.h"

enum { INPUT, FILTER, OUTPUT, BIAS, RESIDUAL, SCALE, OPERANDS };
static const char *const operand_names[OPERANDS] = {"input", "filter", "output", "bias", "residual", "scale"};

typedef struct golden_case {
  char line[512];
  double *values[OPERANDS];
  int64_t counts[OPERANDS];
} golden_case;

static falt_device *device;

/* The numbers of one line into a new array. */
static double *read_numbers(const char *text, int64_t *count) {
  int64_t capacity = 16;
  double *values = falt_alloc((size_t)capacity * sizeof *values);
  *count = 0;
  for (char *end; *text; text = end) {
    const double value = strtod(text, &end);
    if (end == text) break;
    if (*count == capacity) {
      double *larger = falt_alloc((size_t)(capacity * 2) * sizeof *values);
      memcpy(larger, values, (size_t)capacity * sizeof *values);
      falt_free(values);
      values = larger;
      capacity *= 2;
    }
    values[(*count)++] = value;
  }
  return values;
}

static void clear_case(golden_case *c) {
  for (int i = 0; i < OPERANDS; i++) falt_free(c->values[i]);
  memset(c, 0, sizeof *c);
}

/* Which operand an operation writes. */
static int result_of(falt_operation operation) {
  static const int results[FALT_OPERATION_COUNT] = {OUTPUT, INPUT, FILTER, OUTPUT, OUTPUT, RESIDUAL, INPUT};
  return results[operation];
}

static const falt_tensor *tensor_of(const falt_problem *p, int operand) {
  switch (operand) {
    case INPUT:
      return &p->input;
    case FILTER:
      return &p->filter;
    case OUTPUT:
      return &p->output;
    default:
      return p->operation == FALT_BACKWARD_MAXPOOL ? &p->input : &p->residual;
  }
}

static bool is_vector(int operand) {
  return operand == BIAS || operand == SCALE;
}

static falt_type type_of(const falt_problem *p, int operand) {
  return is_vector(operand) ? (p->output.type == FALT_F64 ? FALT_F64 : FALT_F32) : tensor_of(p, operand)->type;
}

static int64_t span_of(const falt_problem *p, int operand) {
  return is_vector(operand) ? p->filter.size[FALT_K] * p->filter.size[FALT_G] : falt_tensor_span(tensor_of(p, operand));
}

static void fill(void *data[OPERANDS], const golden_case *c, const falt_problem *p, bool written[OPERANDS]) {
  for (int i = 0; i < OPERANDS; i++) {
    if (!c->values[i]) continue;
    const falt_type type = type_of(p, i);
    const int64_t span = span_of(p, i);
    if (span != c->counts[i])
      fail_msg("%s: %s has %ld values, not %ld", c->line, operand_names[i], (long)c->counts[i], (long)span);
    data[i] = falt_alloc((size_t)span * falt_type_size(type));
    memset(data[i], 0xff, (size_t)span * falt_type_size(type));
    for (int64_t j = 0; j < span && !written[i]; j++) falt_store(data[i], type, j, c->values[i][j]);
  }
}

static void compare(const golden_case *c, const falt_problem *p, const char *solver, int operand, const void *data) {
  const falt_type type = type_of(p, operand);
  for (int64_t j = 0; j < c->counts[operand]; j++) {
    const double want = c->values[operand][j], got = falt_load(data, type, j);
    if (!(fabs(want - got) <= 1e-12 * fmax(1, fabs(want))))
      fail_msg("%s: %s: %s[%ld] is %.17g, not %.17g", solver, c->line, operand_names[operand], (long)j, got, want);
  }
}

/* Runs one solver; false if it does not apply. */
static bool run_solver(const golden_case *c, const falt_problem *p, const char *solver, bool packed) {
  falt_budget budget;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", solver);
  const int result = result_of(p->operation);
  bool written[OPERANDS] = {false};
  written[result] = true;
  written[BIAS] = p->operation == FALT_BACKWARD_FILTER;
  void *data[OPERANDS] = {NULL};
  fill(data, c, p, written);
  falt_plan *plan = NULL;
  const bool applies = falt_plan_create(&plan, device, p, &budget, packed ? data[FILTER] : NULL) == FALT_OK;
  if (applies) {
    void *workspace = falt_alloc(falt_plan_workspace(plan));
    const falt_operands operands = {.input = data[INPUT],
                                    .filter = data[FILTER],
                                    .output = data[OUTPUT],
                                    .bias = data[BIAS],
                                    .scale = data[SCALE],
                                    .residual = data[RESIDUAL],
                                    .workspace = workspace};
    if (falt_execute(plan, &operands) != FALT_OK) fail_msg("%s: %s: %s", solver, c->line, falt_message());
    compare(c, p, solver, result, data[result]);
    if (written[BIAS] && data[BIAS]) compare(c, p, solver, BIAS, data[BIAS]);
    falt_free(workspace);
  }
  falt_plan_destroy(&plan);
  for (int i = 0; i < OPERANDS; i++) falt_free(data[i]);
  return applies;
}

static int run_case(const golden_case *c) {
  falt_problem p;
  if (falt_problem_parse(&p, NULL, c->line) != FALT_OK) fail_msg("%s: %s", c->line, falt_message());
  int runs = 0;
  for (int i = 0; falt_solver_name(i); i++) {
    const bool alone = run_solver(c, &p, falt_solver_name(i), false);
    if (!strcmp(falt_solver_name(i), "reference") || !strcmp(falt_solver_name(i), "generic"))
      if (!alone) fail_msg("%s refuses %s: %s", falt_solver_name(i), c->line, falt_message());
    runs += alone;
    if (c->values[FILTER] && result_of(p.operation) != FILTER) runs += run_solver(c, &p, falt_solver_name(i), true);
  }
  return runs;
}

static void run_file(const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", FALT_TEST_DATA, name);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("cannot read %s", path);
  golden_case c = {0};
  int cases = 0, runs = 0;
  char *line = NULL;
  size_t size = 0;
  for (bool more = true; more;) {
    more = getline(&line, &size, file) > 0;
    if (more) line[strcspn(line, "\n")] = 0;
    if (!more || !strncmp(line, "problem ", 8)) {
      if (c.line[0]) runs += run_case(&c), cases++;
      clear_case(&c);
      if (more) snprintf(c.line, sizeof c.line, "%s", line + 8);
    }
    for (int i = 0; more && i < OPERANDS; i++) {
      const size_t length = strlen(operand_names[i]);
      if (!strncmp(line, operand_names[i], length) && line[length] == ' ')
        c.values[i] = read_numbers(line + length, &c.counts[i]);
    }
  }
  free(line);
  fclose(file);
  print_message("%s: %d cases, %d runs\n", name, cases, runs);
  assert_true(cases > 100 && runs >= 2 * cases);
}

static void test_scipy(void **state) {
  (void)state, run_file("golden-scipy.txt");
}
static void test_torch(void **state) {
  (void)state, run_file("golden-torch.txt");
}
static void test_onnx(void **state) {
  (void)state, run_file("golden-onnx.txt");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_scipy), cmocka_unit_test(test_torch),
                                     cmocka_unit_test(test_onnx)};
  falt_cpu_options options;
  falt_cpu_options_default(&options);
  options.threads = 2;
  if (falt_device_cpu(&device, &options) != FALT_OK) return 1;
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  falt_device_destroy(&device);
  return failed;
}
