/* Sums of many equal terms, whose roundings all err to the same side. In f32 every solver stays within what a sum of
 * roundings of random sign may lose, so none adds a long sum up in one chain; in f64 within what one chain may lose. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/verify.h"
#include "core/memory.h"
#include "core/types.h"
#include "planner/planner.h"
#include "problem/problem.h"

static falt_device *device;
static int failures;

/* im2col's sums are those of the BLAS library that is found; some solvers are too slow for sums of this length. */
static bool is_left_out(const char *solver, double products) {
  const bool slow = strcmp(solver, "reference") == 0 || strncmp(solver, "generic", 7) == 0;
  return strcmp(solver, "im2col") == 0 || products > (slow ? 1e7 : 4e8);
}

typedef struct operands {
  void *input, *filter, *output;
} operands;

static void *filled(const falt_tensor *t, double value) {
  const int64_t n = falt_tensor_span(t);
  void *data = falt_alloc((size_t)n * falt_type_size(t->type));
  assert_non_null(data);
  for (int64_t i = 0; i < n; i++) falt_store(data, t->type, i, value);
  return data;
}

typedef struct largest {
  const void *data;
  falt_type type;
  double value, error; /* the exact sum of all terms; the largest difference from it */
} largest;

static void see_error(void *context, int64_t index) {
  largest *l = context;
  l->error = fmax(l->error, fabs(falt_load(l->data, l->type, index) - l->value));
}

/* All results are sums of falt_problem_depth terms: no window leaves the input. */
static bool check(const falt_problem *p, const char *line, const char *solver, bool known, operands o) {
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", solver);
  if (falt_plan_create(&plan, device, p, &budget, known ? o.filter : NULL) != FALT_OK) return false;
  falt_operands all = {.input = o.input, .filter = o.filter, .output = o.output};
  all.workspace = falt_alloc(falt_plan_workspace(plan) + 1);
  assert_int_equal(falt_execute(plan, &all), FALT_OK);
  const falt_operation_traits *traits = &falt_operations[p->operation];
  void *const data[FALT_OPERANDS] = {[FALT_INPUT] = o.input, [FALT_FILTER] = o.filter, [FALT_OUTPUT] = o.output};
  const falt_type types[FALT_OPERANDS] = {
      [FALT_INPUT] = p->input.type, [FALT_FILTER] = p->filter.type, [FALT_OUTPUT] = p->output.type};
  const falt_operand *factor = traits->factor;
  const double n = (double)falt_problem_depth(p);
  const falt_type type = falt_problem_result(p)->type;
  largest l = {data[traits->result], type, 0, 0};
  l.value = n * falt_load(data[factor[0]], types[factor[0]], 0) * falt_load(data[factor[1]], types[factor[1]], 0);
  falt_tensor_visit(falt_problem_result(p), see_error, &l);
  const double unit = type == FALT_F64 ? 0x1p-53 : 0x1p-24, units = l.error / (unit * l.value);
  const double most = 32 + (type == FALT_F64 ? n : 8 * sqrt(n));
  if (!(units <= most + plan->cost.error / unit)) {
    print_message("%s: an error of %.0f units of rounding, where %.0f are allowed\n  %s\n", solver, units, most, line);
    failures++;
  }
  falt_free(all.workspace);
  falt_plan_destroy(&plan);
  return true;
}

static int check_line(const char *line) {
  falt_problem p;
  if (falt_problem_parse(&p, NULL, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  operands o = {filled(&p.input, 0.7), filled(&p.filter, 0.3), filled(&p.output, 0.9)};
  int checks = 0;
  for (int s = 0; falt_solvers[s]; s++) {
    if (strcmp(falt_solvers[s]->device_kind, "cpu") != 0) continue;
    if (is_left_out(falt_solvers[s]->name, falt_problem_flops(&p) / 2)) continue;
    for (int known = 0; known < (falt_reads_filter(p.operation) ? 2 : 1); known++)
      checks += check(&p, line, falt_solvers[s]->name, known, o);
  }
  falt_free(o.input);
  falt_free(o.filter);
  falt_free(o.output);
  return checks;
}

static void check_lines(const char *const *lines, int least) {
  failures = 0;
  for (; *lines; lines++) {
    const int checks = check_line(*lines);
    if (checks < least) fail_msg("%s: %d checks", *lines, checks);
  }
  assert_int_equal(failures, 0);
}

static void test_filters(void **state) {
  (void)state;
  check_lines(
      (const char *const[]){
          "correlate w=1400 s=1000 mode=valid", "correlate w=9000 s=1000 mode=valid stride=2 dilation=3 pixel=3",
          "correlate w=30300 s=30000 mode=valid", "correlate w=1000009 s=1000000 mode=valid",
          "correlate h=70 w=150 r=31 s=31 mode=valid", "correlate h=108 w=140 r=101 s=101 mode=valid",
          "correlate h=1008 w=40 r=1000 s=3 mode=valid stride=2", "correlate h=20 w=1300 r=5 s=1200 mode=valid",
          "correlate d=20 h=24 w=70 t=11 r=13 s=17 mode=valid", NULL},
      4);
}

static void test_layers(void **state) {
  (void)state;
  check_lines(
      (const char *const[]){
          "forward n=2 c=4096 h=3 w=3 k=16 r=1 s=1", "forward n=2 c=4096 h=3 w=3 k=16 r=1 s=1 layout=nhwc",
          "forward c=512 h=5 w=5 k=16 r=3 s=3", "forward c=100000 h=1 w=1 k=16 r=1 s=1 layout=nhwc",
          "forward n=2 c=4096 h=3 w=3 k=16 r=1 s=1 layout=nhwc type=f64",
          "forward c=512 h=5 w=5 k=16 r=3 s=3 layout=nhwc type=f64", "forward c=16 groups=16 h=48 w=50 k=16 r=41 s=41",
          "forward c=16 groups=16 h=48 w=50 k=16 r=41 s=41 layout=nhwc",
          "forward c=64 groups=8 h=40 w=40 k=64 r=21 s=21 layout=nhwc", "forward c=3 h=60 w=60 k=8 r=41 s=41 stride=2",
          NULL},
      4);
}

/* Gradients to the input whose padding lets all taps of all elements read dy. */
static void test_gradients_to_inputs(void **state) {
  (void)state;
  check_lines((const char *const[]){"backward-data c=16 h=3 w=3 k=8192 r=1 s=1",
                                    "backward-data c=16 h=3 w=3 k=8192 r=1 s=1 layout=nhwc",
                                    "backward-data c=16 h=3 w=3 k=8192 r=1 s=1 layout=nhwc type=f64",
                                    "backward-data c=16 groups=16 w=60 k=16 s=3000 pad=2999",
                                    "backward-data c=16 groups=16 w=60 k=16 s=3000 pad=2999 layout=nwc",
                                    "backward-data c=2 h=9 w=9 k=32 r=21 s=21 pad=20", NULL},
              2);
}

static void test_gradients_to_filters(void **state) {
  (void)state;
  check_lines((const char *const[]){"backward-filter n=8 c=4 h=90 w=90 k=4 r=3 s=3",
                                    "backward-filter n=8 c=4 h=90 w=90 k=4 r=3 s=3 layout=nhwc",
                                    "backward-filter n=4 c=8 h=90 w=90 k=8 r=3 s=3 groups=8",
                                    "backward-filter n=4 c=8 h=90 w=90 k=8 r=3 s=3 groups=8 layout=nhwc",
                                    "backward-filter n=4 c=4 h=200 w=200 k=8 r=1 s=1",
                                    "backward-filter n=4 c=4 h=200 w=200 k=8 r=1 s=1 type=bf16 weight-type=f32",
                                    "backward-filter n=8 c=16 h=90 w=90 k=8 r=3 s=3 type=bf16 weight-type=f32",
                                    "backward-filter n=4 c=40 h=200 w=50 k=72 r=1 s=1 stride=2 type=bf16 "
                                    "weight-type=f32 layout=nhwc",
                                    "backward-filter n=2 c=1 w=300000 k=1 s=3", NULL},
              3);
}

static int open_device(void **state) {
  (void)state;
  return falt_device_cpu(&device, NULL) == FALT_OK ? 0 : 1;
}

static int close_device(void **state) {
  (void)state;
  falt_device_destroy(&device);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_filters),
      cmocka_unit_test(test_layers),
      cmocka_unit_test(test_gradients_to_inputs),
      cmocka_unit_test(test_gradients_to_filters),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
