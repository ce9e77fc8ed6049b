/* Patches whose rows become pixels, on the CPU's `generic`: images, volumes, forward and backward-filter. Against the
 * reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/random.h"
#include "core/types.h"
#include "planner/search.h"
#include "problem/operation.h"
#include "problem/problem.h"

extern const falt_solver falt_solver_space_to_depth, falt_solver_generic;
static falt_solver depth;
static const falt_solver *const list[] = {&depth, &falt_solver_generic, NULL};

static void *fill(const falt_tensor *t, uint64_t seed) {
  const int64_t count = falt_tensor_span(t);
  void *data = falt_alloc((size_t)count * falt_type_size(t->type));
  assert_non_null(data);
  falt_random_fill(data, t->type, count, seed);
  return data;
}

typedef struct operands {
  void *tensor[3]; /* x, w, y */
  void *bias, *residual;
} operands;

/* Runs a plan with a result of its own, which it returns. */
static void *run(falt_plan *plan, const falt_problem *p, const operands *o) {
  void *tensor[3] = {o->tensor[0], o->tensor[1], o->tensor[2]}, *workspace = falt_alloc(falt_plan_workspace(plan) + 1);
  const int which = p->operation == FALT_FORWARD ? 2 : 1;
  const falt_tensor *t = which == 2 ? &p->output : &p->filter;
  tensor[which] = fill(t, 99);
  const falt_operands all = {.input = tensor[0],
                             .filter = tensor[1],
                             .output = tensor[2],
                             .bias = o->bias,
                             .residual = o->residual,
                             .workspace = workspace};
  assert_int_equal(falt_execute(plan, &all), FALT_OK);
  falt_free(workspace);
  return tensor[which];
}

static falt_status plan_by(falt_plan **plan, falt_device *device, const falt_problem *p, const char *method) {
  falt_budget budget;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", method);
  return falt_plan_search(plan, list, device, p, &budget, NULL);
}

static void check(falt_device *device, const char *line) {
  falt_problem p;
  falt_plan *plan = NULL, *direct = NULL;
  assert_int_equal(falt_problem_parse(&p, NULL, line), FALT_OK);
  operands o = {{fill(&p.input, 1), fill(&p.filter, 2), fill(&p.output, 3)}, NULL, fill(&p.residual, 5)};
  o.bias = falt_alloc((size_t)(p.output.size[FALT_G] * p.output.size[FALT_C]) * sizeof(float));
  assert_non_null(o.bias);
  falt_random_fill(o.bias, FALT_F32, p.output.size[FALT_G] * p.output.size[FALT_C], 4);
  if (plan_by(&plan, device, &p, "depth") != FALT_OK) fail_msg("%s: %s", line, falt_message());
  assert_int_equal(plan_by(&direct, device, &p, "generic"), FALT_OK);
  void *y = run(plan, &p, &o), *expected = run(direct, &p, &o);
  const falt_tensor *t = p.operation == FALT_FORWARD ? &p.output : &p.filter;
  for (int64_t i = 0; i < falt_tensor_span(t); i++) {
    const double a = falt_load(y, t->type, i), b = falt_load(expected, t->type, i);
    if (!(fabs(a - b) <= 1e-4 * (1 + fabs(b)))) fail_msg("%s: result %lld is %g, not %g", line, (long long)i, a, b);
  }
  falt_plan_destroy(&plan);
  falt_plan_destroy(&direct);
  for (int i = 0; i < 3; i++) falt_free(o.tensor[i]);
  falt_free(o.bias);
  falt_free(o.residual);
  falt_free(y);
  falt_free(expected);
}

static falt_device *open_device(void) {
  falt_device *device = NULL;
  depth = falt_solver_space_to_depth;
  depth.name = "depth";
  depth.device_kind = "cpu";
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  return device;
}

static void test_results(void **state) {
  falt_device *device = open_device();
  (void)state;
  check(device, "forward n=2 c=3 h=8 w=12 k=5 r=4 s=4 stride=4 layout=nhwc bias=1");
  check(device, "backward-filter n=2 c=3 h=8 w=12 k=5 r=4 s=4 stride=4 layout=nhwc");
  check(device, "forward n=2 c=4 d=4 h=6 w=8 k=5 t=2 r=2 s=2 stride=2 layout=ndhwc bias=1 residual=1");
  check(device, "forward n=2 c=4 d=5 h=7 w=9 k=5 t=3 r=2 s=3 stride=2x1x3 pad=1x1x0 layout=ndhwc act=relu");
  check(device, "forward n=1 c=4 d=5 h=7 w=6 k=2 t=2 r=3 s=2 stride=1x1x2 dilation=2x1x1 pad=1x0x0 layout=ndhwc");
  check(device, "forward n=2 c=3 d=6 h=6 w=6 k=4 t=1 r=2 s=2 stride=1x2x2 layout=ndhwc");
  check(device, "backward-filter n=2 c=4 d=4 h=6 w=8 k=5 t=2 r=2 s=2 stride=2 layout=ndhwc");
  check(device, "backward-filter n=2 c=4 d=5 h=7 w=9 k=5 t=3 r=2 s=3 stride=2x1x3 pad=1x1x0 layout=ndhwc");
  falt_device_destroy(&device);
}

static void test_refusals(void **state) {
  static const struct {
    const char *line, *why;
  } refused[] = {{"forward c=4 d=4 h=6 w=9 k=5 t=2 r=2 s=2 stride=2 layout=ndhwc", "patches that cover"},
                 {"forward c=4 d=4 h=6 w=8 k=5 t=2 r=2 s=2 stride=2x2x1 layout=ndhwc", "patches that cover"},
                 {"forward c=4 d=4 h=6 w=8 k=5 t=2 r=2 s=2 stride=2 pad=0x0x1 layout=ndhwc", "patches that cover"},
                 {"forward c=4 h=7 w=8 k=5 r=2 s=2 stride=2 layout=nhwc", "patches that cover"},
                 {"forward c=4 d=4 h=6 w=8 k=5 t=2 r=2 s=2 stride=2", "do not follow"}};
  falt_device *device = open_device();
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    falt_problem p;
    falt_plan *plan = NULL;
    assert_int_equal(falt_problem_parse(&p, NULL, refused[i].line), FALT_OK);
    assert_int_not_equal(plan_by(&plan, device, &p, "depth"), FALT_OK);
    if (!strstr(falt_message(), refused[i].why)) fail_msg("%s: %s", refused[i].line, falt_message());
  }
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_results), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
