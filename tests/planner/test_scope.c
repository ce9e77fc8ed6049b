/* The list of solvers: no solver computes a problem outside its scope, on the CPU and on a described GPU; old names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/planner.h"

enum { LINE = 2048 };

typedef struct census {
  const char *line;
  int covered, outside;
} census;

static falt_device *make(bool gpu) {
  falt_device *device;
  falt_cuda_options options;
  falt_cuda_options_default(&options);
  strcpy(options.described, "h200");
  if ((gpu ? falt_device_cuda(&device, &options) : falt_device_cpu(&device, NULL)) != FALT_OK)
    fail_msg("%s", falt_message());
  return device;
}

static void judge(void *context, const falt_candidate *candidate) {
  census *c = context;
  c->covered += !candidate->out_of_scope;
  c->outside += candidate->out_of_scope;
  if (candidate->out_of_scope && !candidate->rejected)
    fail_msg("%s computes what its scope has not: %s", candidate->solver, c->line);
}

/* falt_explain with weights of 1, whose low rank lets more solvers in, and without any, whatever the line's word. */
static void explain(falt_device *device, census *c) {
  falt_problem problem;
  falt_budget budget;
  assert_int_equal(falt_problem_parse(&problem, &budget, c->line), FALT_OK);
  problem.filter_when = FALT_FILTER_AUTO;
  falt_explain(device, &problem, &budget, NULL, 0, judge, c);
  if (falt_is_pooling(problem.operation) || problem.filter.type != FALT_F32) return;
  const int64_t count = falt_problem_filter_elements(&problem);
  float *ones = malloc((size_t)count * sizeof *ones);
  assert_non_null(ones);
  for (int64_t i = 0; i < count; i++) ones[i] = 1;
  falt_explain(device, &problem, &budget, ones, 0, judge, c);
  free(ones);
}

static void explain_random(bool gpu) {
  const char *asked = getenv("FALTUNG_TEST_COUNT");
  falt_device *device = make(gpu);
  census c = {NULL, 0, 0};
  for (uint64_t seed = 1; seed <= (asked ? strtoull(asked, NULL, 10) : 300); seed++) {
    char line[LINE];
    falt_problem_random(seed, line, sizeof line);
    c.line = line;
    explain(device, &c);
  }
  assert_true(c.covered > 0 && c.outside > 0);
  falt_device_destroy(&device);
}

static void test_cpu(void **state) {
  (void)state;
  explain_random(false);
}

static void test_gpu(void **state) {
  (void)state;
  explain_random(true);
}

/* Lines that random problems are too small or too rarely like: large dense, planar, few channels, narrow types. */
static void test_layers(void **state) {
  static const char *const shapes[] = {"n=4 c=64 h=56 w=56 k=64 r=3 s=3 pad=1",
                                       "n=4 c=3 h=64 w=64 k=64 r=7 s=7 pad=3 stride=2",
                                       "n=4 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 groups=64",
                                       "n=4 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 groups=8",
                                       "n=4 c=64 h=28 w=28 k=128 r=3 s=3 pad=1 groups=64",
                                       "n=4 c=64 h=28 w=28 k=64 r=15 s=15 pad=7 groups=64",
                                       "n=4 c=3 h=64 w=64 k=96 r=4 s=4 stride=4",
                                       "n=1 c=1 h=64 w=64 k=1 r=5 s=5 pad=2",
                                       "n=1 c=1 h=64 w=64 k=16 r=5 s=5 pad=2",
                                       "n=2 c=32 d=16 h=16 w=16 k=32 t=3 r=3 s=3 pad=1"};
  static const char *const verbs[] = {"forward", "backward-data", "backward-filter"};
  static const char *const words[] = {"", "type=f16", "type=f16 layout=%s", "type=bf16 layout=%s", "layout=%s"};
  (void)state;
  falt_device *devices[] = {make(false), make(true)};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes * 3 * 5; i++) {
    char line[LINE], more[64];
    const char *shape = shapes[i / 15];
    snprintf(more, sizeof more, words[i % 5], strstr(shape, " d=") ? "ndhwc" : "nhwc");
    snprintf(line, sizeof line, "%s %s %s", verbs[i / 5 % 3], shape, more);
    for (int d = 0; d < 2; d++) explain(devices[d], &(census){line, 0, 0});
    if (i / 5 % 3 == 0 && !strstr(shape, " d=")) {
      snprintf(line, sizeof line, "forward %s %s pool=max:2", shape, more);
      for (int d = 0; d < 2; d++) explain(devices[d], &(census){line, 0, 0});
    }
  }
  for (int d = 0; d < 2; d++) falt_device_destroy(&devices[d]);
}

static bool is_solver(const char *name) {
  bool found = false;
  for (int i = 0; falt_solvers[i]; i++) found |= strcmp(falt_solvers[i]->name, name) == 0;
  return found;
}

/* Old names are no solver's, and mean one that is there. */
static void test_aliases(void **state) {
  (void)state;
  falt_device *device = make(false);
  falt_plan *plan;
  int count = 0;
  for (const falt_solver_alias *a = falt_solver_aliases; a->old; a++, count++)
    if (is_solver(a->old) || !is_solver(a->name)) fail_msg("%s for %s", a->old, a->name);
  assert_true(count > 0);
  const char *line = "forward c=8 h=9 w=9 k=8 r=3 s=3 pad=1 method=channels";
  if (falt_plan_create_line(&plan, device, line, NULL) != FALT_OK) fail_msg("%s", falt_message());
  assert_string_equal(falt_plan_solver(plan), "direct-nhwc");
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cpu), cmocka_unit_test(test_gpu),
                                     cmocka_unit_test(test_layers), cmocka_unit_test(test_aliases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
