/* Gradients of every solver on the CPU, or on the first GPU with FALTUNG_DEVICE=cuda, against forward layers:
 *
 *     <conv(x, w), dy> = <x, backward_data(dy, w)> = <w, backward_filter(x, dy)>
 *
 * for each pair of solvers on small integers, exactly, and derivatives by differences in f64. test_gradients [PART
 * PARTS] runs every PARTS-th layer from PART on: compiling for a GPU takes longer than running. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/random.h"
#include "core/types.h"
#include "planner/planner.h"

enum { MOST_SOLVERS = 128, THREADS = 2 };

static falt_device *device;
static bool seen[MOST_SOLVERS]; /* solvers that computed something, in the order of falt_solvers */
static size_t part, parts = 1;

static falt_problem parse(const char *line) {
  falt_problem problem;
  if (falt_problem_parse(&problem, NULL, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  return problem;
}

/* Runs one solver; false if it does not apply. */
static bool run(int solver, const falt_problem *p, falt_operands operands, const void *filter) {
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", falt_solvers[solver]->name);
  if (falt_plan_create(&plan, device, p, &budget, filter) != FALT_OK) return false;
  if (falt_execute_host(plan, &operands) != FALT_OK) fail_msg("%s", falt_message());
  falt_plan_destroy(&plan);
  assert_true(solver < MOST_SOLVERS);
  seen[solver] = true;
  return true;
}

static bool runs_here(int solver) {
  const char *kind = falt_solvers[solver]->device_kind;
  return strncmp(falt_device_name(device), kind, strlen(kind)) == 0;
}

/* ---- data in the order of memory; what is dense has no gaps */

static void *make(const falt_tensor *t, uint64_t *state, bool integers) {
  const int64_t span = falt_tensor_span(t);
  void *data = falt_alloc((size_t)span * falt_type_size(t->type));
  for (int64_t i = 0; i < span; i++)
    falt_store(data, t->type, i, integers ? (double)falt_random_int(state, -2, 2) : 2 * falt_random_unit(state) - 1);
  return data;
}

static double dot(const falt_tensor *t, const void *a, const void *b, double *magnitude) {
  double sum = 0;
  for (int64_t i = 0; i < falt_tensor_span(t); i++) {
    const double product = falt_load(a, t->type, i) * falt_load(b, t->type, i);
    sum += product;
    if (magnitude) *magnitude += fabs(product);
  }
  return sum;
}

/* ---- adjoints */

static void compare(int solver, const char *line, double got, double *expected, double magnitude) {
  if (isnan(*expected)) *expected = got;
  const double tolerance = 1e-6 * magnitude; /* of transforms; others are exact */
  if (!(fabs(got - *expected) <= tolerance))
    fail_msg("%s: %.17g where the first had %.17g\n  %s", falt_solvers[solver]->name, got, *expected, line);
}

static void check_adjoints(const char *line, uint64_t seed) {
  falt_problem forward = parse(line), data = forward, filter = forward;
  data.operation = FALT_BACKWARD_DATA;
  filter.operation = FALT_BACKWARD_FILTER;
  uint64_t state = seed;
  void *x = make(&forward.input, &state, true), *w = make(&forward.filter, &state, true),
       *dy = make(&forward.output, &state, true);
  void *y = make(&forward.output, &state, true), *dx = make(&forward.input, &state, true),
       *dw = make(&forward.filter, &state, true);
  double expected = NAN, magnitude = 0;
  for (int s = 0; falt_solvers[s]; s++) {
    if (!runs_here(s)) continue;
    const void *values = seed % 2 ? w : NULL;
    if (run(s, &forward, (falt_operands){.input = x, .filter = w, .output = y}, values))
      compare(s, line, dot(&forward.output, y, dy, &magnitude), &expected, magnitude);
    if (run(s, &data, (falt_operands){.input = dx, .filter = w, .output = dy}, values))
      compare(s, line, dot(&forward.input, x, dx, NULL), &expected, magnitude);
    if (run(s, &filter, (falt_operands){.input = x, .filter = dw, .output = dy}, NULL))
      compare(s, line, dot(&forward.filter, w, dw, NULL), &expected, magnitude);
  }
  void *all[] = {x, w, dy, y, dx, dw};
  for (int i = 0; i < 6; i++) falt_free(all[i]);
}

static const char *const layers[] = {
    "forward n=2 c=20 h=13 w=15 k=36 r=3 s=3 pad=1 stride=2",
    "forward n=2 c=20 h=13 w=15 k=36 r=3 s=3 pad=1 stride=2 layout=nhwc",
    "forward n=3 c=3 h=24 w=24 k=33 r=7 s=7 pad=3 stride=2 layout=nhwc",
    "forward n=3 c=3 h=24 w=24 k=33 r=7 s=7 pad=3 stride=2",
    "forward n=1 c=3 h=32 w=32 k=70 r=8 s=8 stride=8 layout=nhwc",
    "forward n=2 c=1 h=28 w=28 k=16 r=5 s=5 pad=2",
    "forward n=2 c=32 h=14 w=17 k=32 r=3 s=3 pad=1 groups=32 layout=nhwc",
    "forward n=2 c=48 h=19 w=18 k=48 r=5 s=5 pad=2 stride=2 groups=48 layout=nhwc",
    "forward n=2 c=32 h=14 w=17 k=32 r=3 s=3 pad=1 groups=32",
    "forward n=2 c=64 h=11 w=9 k=64 r=3 s=3 pad=1 groups=16 layout=nhwc",
    "forward n=2 c=24 h=11 w=12 k=40 r=3 s=2 pad=2 dilation=2 groups=2 layout=nhwc",
    "forward n=2 c=24 w=300 k=40 s=9 pad=8:0 dilation=1",
    "forward n=1 c=6 d=7 h=9 w=8 k=20 t=3 r=3 s=3 pad=1 layout=ndhwc",
    "forward n=1 c=6 d=7 h=9 w=8 k=20 t=2 r=2 s=2 stride=2",
    "forward n=2 c=7 h=12 w=13 k=5 r=4 s=3 pad=2 boundary=reflect101",
    "forward n=2 c=9 h=12 w=13 k=17 r=1 s=1 layout=nhwc",
    "forward n=2 c=64 h=20 w=21 k=52 r=1 s=1 groups=2 layout=nhwc",
    "forward n=2 c=70 h=9 w=12 k=10 r=1 s=1 stride=2 layout=nhwc",
    "forward n=2 c=40 h=11 w=13 k=64 r=3 s=3 pad=1 layout=nhwc type=f16",
    "forward n=2 c=32 h=14 w=16 k=32 r=3 s=3 pad=1 layout=nhwc type=bf16",
    "forward n=2 c=24 h=13 w=16 k=40 r=3 s=3 pad=1 stride=2 type=f16",
    "forward n=2 c=3 h=24 w=24 k=64 r=7 s=7 pad=3 stride=2 layout=nhwc type=f16",
    "forward n=2 c=32 h=14 w=16 k=32 r=3 s=3 pad=1 groups=4 layout=nhwc type=f16",
    "forward n=2 c=48 h=14 w=16 k=48 r=3 s=3 pad=1 groups=48 layout=nhwc type=f16",
    "forward n=2 c=48 h=14 w=16 k=48 r=3 s=3 pad=1 groups=48 type=bf16",
    "forward n=1 c=16 d=6 h=8 w=9 k=32 t=3 r=3 s=3 pad=1 layout=ndhwc type=f16",
};

static bool is_cpu(void) {
  return strncmp(falt_device_name(device), "cpu", 3) == 0;
}

static void check_seen(const char *const *expected, size_t count) {
  for (size_t e = 0; e < count; e++) {
    int s = 0;
    while (falt_solvers[s] && strcmp(falt_solvers[s]->name, expected[e]) != 0) s++;
    if (!falt_solvers[s] || !seen[s]) fail_msg("%s never ran", expected[e]);
  }
}

static void test_adjoints(void **unused) {
  (void)unused;
  static const char *const on_cpu[] = {"direct-nhwc",   "igemm-nchw", "dgrad-strided",   "dgrad-pixelfold",
                                       "wgrad",         "depthwise",  "depthwise-wgrad", "grouped",
                                       "grouped-wgrad", "generic",    "wgrad-rows"};
  static const char *const on_gpu[] = {"cuda-igemm", "cuda-wgrad", "cuda-depthwise", "cuda-depthwise-wgrad",
                                       "cuda-generic"};
  for (uint64_t seed = 1; seed <= 2; seed++)
    for (size_t i = part; i < sizeof layers / sizeof *layers; i += parts) check_adjoints(layers[i], seed);
  const bool cpu = is_cpu();
  if (parts == 1)
    check_seen(cpu ? on_cpu : on_gpu, cpu ? sizeof on_cpu / sizeof *on_cpu : sizeof on_gpu / sizeof *on_gpu);
}

/* ---- differences: L = sum of dy*y along a direction in the input or in the filter */

typedef struct difference {
  const char *line;
  falt_operation backward;
} difference;

static double loss_at(const falt_problem *p, const void *dy, falt_operands operands, void *moved, double step,
                      const void *along) {
  const bool by_filter = operands.filter == moved;
  const falt_tensor *t = by_filter ? &p->filter : &p->input;
  void *kept = moved, *shifted = falt_alloc((size_t)falt_tensor_span(t) * sizeof(double));
  for (int64_t i = 0; i < falt_tensor_span(t); i++)
    ((double *)shifted)[i] = ((double *)kept)[i] + step * ((const double *)along)[i];
  *(by_filter ? &operands.filter : &operands.input) = shifted;
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_budget_default(&budget);
  assert_int_equal(falt_plan_create(&plan, device, p, &budget, NULL), FALT_OK);
  assert_int_equal(falt_execute_host(plan, &operands), FALT_OK);
  falt_plan_destroy(&plan);
  falt_free(shifted);
  return dot(&p->output, operands.output, dy, NULL);
}

static void check_difference(const difference *c) {
  const double step = 1e-6;
  uint64_t state = 7;
  const falt_problem p = parse(c->line);
  falt_problem back = p;
  back.operation = c->backward;
  const bool by_filter = c->backward == FALT_BACKWARD_FILTER;
  void *x = make(&p.input, &state, false), *w = make(&p.filter, &state, false), *dy = make(&p.output, &state, false),
       *y = make(&p.output, &state, false);
  const falt_tensor *t = by_filter ? &p.filter : &p.input;
  void *along = make(t, &state, false), *gradient = make(t, &state, false), *moved = by_filter ? w : x;
  const falt_operands forward = {.input = x, .filter = w, .output = y};
  const double slope =
      (loss_at(&p, dy, forward, moved, step, along) - loss_at(&p, dy, forward, moved, -step, along)) / (2 * step);
  falt_operands o = {.input = gradient, .filter = w, .output = dy};
  if (by_filter) o = (falt_operands){.input = x, .filter = gradient, .output = dy};
  if (c->backward == FALT_BACKWARD_MAXPOOL) o = (falt_operands){.input = x, .output = dy, .residual = gradient};
  int runs = 0;
  for (int s = 0; falt_solvers[s]; s++) {
    if (!runs_here(s) || !run(s, &back, o, NULL)) continue;
    runs++;
    const double got = dot(t, gradient, along, NULL);
    if (!(fabs(got - slope) <= 1e-7 * fmax(1, fabs(slope))))
      fail_msg("%s: slope %.12g, by differences %.12g\n  %s", falt_solvers[s]->name, got, slope, c->line);
  }
  assert_true(runs >= (is_cpu() ? 2 : 1)); /* of f64 on a GPU the general kernel may be the only one */
  void *all[] = {x, w, dy, y, along, gradient};
  for (int i = 0; i < 6; i++) falt_free(all[i]);
}

static void test_differences(void **unused) {
  (void)unused;
  static const char *const words[] = {
      "n=2 c=4 h=9 w=8 k=6 r=3 s=3 stride=2 pad=1 groups=2",
      "n=1 c=12 h=7 w=9 k=12 r=3 s=3 pad=1 groups=12 layout=nhwc",
      "n=2 c=3 h=8 w=7 k=9 r=4 s=2 pad=2:1x0:1 dilation=1x2 boundary=symmetric:wrap layout=nhwc",
      "n=2 c=5 w=40 k=4 s=5 pad=4 stride=3 boundary=edge", "n=1 c=3 d=4 h=5 w=6 k=4 t=2 r=3 s=2 pad=1"};
  char line[256];
  for (size_t i = part; i < sizeof words / sizeof *words; i += parts) {
    snprintf(line, sizeof line, "forward %s type=f64", words[i]);
    check_difference(&(difference){line, FALT_BACKWARD_DATA});
    check_difference(&(difference){line, FALT_BACKWARD_FILTER});
  }
  static const difference pools[] = {
      {"maxpool n=2 c=9 h=9 w=11 r=3 s=3 stride=2 pad=1 type=f64 layout=nhwc", FALT_BACKWARD_MAXPOOL},
      {"maxpool n=2 c=3 h=12 w=10 r=2 s=2 type=f64", FALT_BACKWARD_MAXPOOL},
      {"avgpool n=2 c=3 h=9 w=11 r=3 s=3 stride=2 pad=1 type=f64", FALT_BACKWARD_AVGPOOL},
      {"avgpool n=1 c=8 d=4 h=6 w=6 t=2 r=3 s=2 pad=1x1x0 count-pad=1 type=f64 layout=ndhwc", FALT_BACKWARD_AVGPOOL}};
  for (size_t i = part; i < sizeof pools / sizeof *pools; i += parts) check_difference(&pools[i]);
}

static falt_status open_device(void) {
  const char *name = getenv("FALTUNG_DEVICE");
  falt_cpu_options options;
  falt_cpu_options_default(&options);
  options.threads = THREADS;
  return name && strcmp(name, "cuda") == 0 ? falt_device_cuda(&device, NULL) : falt_device_cpu(&device, &options);
}

int main(int count, char **words) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_adjoints), cmocka_unit_test(test_differences)};
  if (count > 2) part = (size_t)atoi(words[1]), parts = (size_t)atoi(words[2]);
  if (open_device() != FALT_OK) {
    print_error("%s\n", falt_message());
    return 3;
  }
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  falt_device_destroy(&device);
  return failed;
}
