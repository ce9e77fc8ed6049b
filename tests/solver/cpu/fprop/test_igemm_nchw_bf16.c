/* igemm-nchw-bf16 on every instruction set, by 1 to 3 threads, with filters given and known: the reference's results,
 * for numbers whose sums are exact. Operands end or begin at pages without access, so any read outside them ends the
 * test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkasm.h"
#include "core/types.h"
#include "isa_devices.h"
#include "problem/problem.h"

static const char *const lines[] = {
    "forward n=2 c=70 h=7 w=7 k=37 r=3 s=3 pad=1",
    "forward n=3 c=64 h=14 w=14 k=48 r=1 s=1",
    "forward c=33 h=9 w=13 k=40 r=1 s=1 weight-layout=hwio",
    "forward c=70 h=9 w=8 k=20 r=3 s=3 pad=1 weight-layout=ohwi",
    "forward n=2 c=9 h=19 w=35 k=17 r=3 s=3",
    "forward c=40 h=12 w=70 k=33 r=3 s=3 stride=2 pad=1",
    "forward c=38 h=13 w=14 k=20 r=1 s=1 stride=2",
    "forward c=6 d=4 h=5 w=3 k=12 t=2 r=3 s=5 pad=0x1x2 groups=2",
    "forward n=2 c=40 w=100 k=64 s=7 dilation=3 pad=9",
    "forward c=32 h=6 w=6 k=32 r=3 s=3 pad=1 bias=1 residual=1 act=relu",
    "forward c=72 h=9 w=9 k=24 r=1 s=7 pad=0x3 out-type=f32 scale=1",
    "forward c=40 h=4 w=4 k=24 r=9 s=9 pad=4",
    "forward n=2 c=8 h=9 w=1 k=16 r=3 s=3 pad=1 layout=nhwc",
    "forward n=2 c=8 h=40 w=1 k=16 r=3 s=3 pad=1 stride=1x2",
    "forward c=8 h=40 w=1 k=16 r=3 s=3 pad=1x5",
    "forward n=2 c=8 h=1 w=9 k=16 r=3 s=3 pad=2x1 input-strides=72,72,9,0,0,1",
    "forward n=2 c=8 h=9 w=1 k=16 r=3 s=3 pad=1 input-strides=72,72,9,0,1,0",
    "forward n=2 c=8 d=1 h=3 w=3 k=16 t=3 r=3 s=3 pad=2x1x1 input-strides=72,72,9,-5,3,1",
    "backward-data c=40 h=12 w=12 k=80 r=3 s=3 pad=1",
    "backward-data n=2 c=1 h=7 w=8 k=32 r=3 s=3 pad=1",
    "backward-data c=16 h=7 w=8 k=32 r=3 s=3 pad=1 groups=16",
    "backward-data n=2 c=37 h=7 w=7 k=64 r=1 s=1",
    "backward-data n=2 c=50 h=13 w=75 k=33 r=3 s=3 stride=2 pad=1",
    "backward-data c=33 h=9 w=9 k=40 r=5 s=7 pad=2x3",
    "backward-data c=40 h=9 w=9 k=24 r=3 s=3 pad=1 weight-layout=ohwi",
};

/* An operand, its last byte before a page without access or its first byte behind one. */
typedef struct placed {
  guarded pages;
  char *data;
} placed;

static placed place(const falt_tensor *t, uint64_t from, bool at_end) {
  const size_t bytes = (size_t)falt_tensor_count(t) * falt_type_size(t->type);
  placed p = {.pages = guard(2, bytes)};
  p.data = at_end ? before_guard(&p.pages, 1, bytes) : p.pages.base + p.pages.pitch;
  for (int64_t i = 0; i < falt_tensor_count(t); i++)
    falt_store(p.data, t->type, i, (double)falt_random_int(&from, -2, 2));
  return p;
}

typedef struct layer {
  falt_problem problem;
  placed input, filter, output, residual, factors;
} layer;

static layer make_layer(const char *line, const char *method, bool known, bool at_end) {
  layer l;
  falt_budget budget;
  char text[256];
  snprintf(text, sizeof text, "%s type=bf16 method=%s", line, method);
  if (falt_problem_parse(&l.problem, &budget, text) != FALT_OK) fail_msg("%s: %s", text, falt_message());
  l.problem.filter_when = known ? FALT_FILTER_KNOWN : FALT_FILTER_GIVEN;
  const falt_tensor factors = {.type = FALT_F32, .size = {1, 1, 256, 1, 1, 1}};
  l.input = place(&l.problem.input, 1, at_end);
  l.filter = place(&l.problem.filter, 2, at_end);
  l.output = place(&l.problem.output, 3, at_end);
  l.residual = place(l.problem.has_residual ? &l.problem.residual : &l.problem.output, 4, at_end);
  l.factors = place(&factors, 5, at_end);
  return l;
}

static void drop_layer(layer *l) {
  placed *const all[] = {&l->input, &l->filter, &l->output, &l->residual, &l->factors};
  for (int i = 0; i < 5; i++) unguard(&all[i]->pages);
}

static void run(falt_device *device, layer *l, const char *method, const char *line) {
  falt_budget budget;
  falt_plan *plan;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", method);
  const void *values = l->problem.filter_when == FALT_FILTER_KNOWN ? l->filter.data : NULL;
  if (falt_plan_create(&plan, device, &l->problem, &budget, values) != FALT_OK)
    fail_msg("%s: %s: %s", method, line, falt_message());
  void *workspace = aligned_alloc(64, (falt_plan_workspace(plan) + 64) / 64 * 64);
  assert_non_null(workspace);
  float *factors = (float *)(void *)l->factors.data;
  const falt_operands operands = {.input = l->input.data,
                                  .filter = l->filter.data,
                                  .output = l->output.data,
                                  .residual = l->problem.has_residual ? l->residual.data : NULL,
                                  .bias = l->problem.has_bias ? factors : NULL,
                                  .scale = l->problem.has_scale ? factors : NULL,
                                  .workspace = workspace};
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  free(workspace);
  falt_plan_destroy(&plan);
}

/* Gradients of the input go through dgrad-strided, whose child is the solver or, on some machines, another. */
static const char *method_of(const char *line) {
  return strncmp(line, "forward", 7) == 0 ? "igemm-nchw-bf16" : "dgrad-strided";
}

static const falt_tensor *result_of(const layer *l, const char **data) {
  const bool forward = l->problem.operation == FALT_FORWARD;
  *data = forward ? l->output.data : l->input.data;
  return forward ? &l->problem.output : &l->problem.input;
}

static void check(falt_device *device, const char *line, const layer *expected, bool known, bool at_end) {
  const char *method = method_of(line), *a, *b;
  layer found = make_layer(line, method, known, at_end);
  const falt_tensor *t = result_of(&found, &a);
  result_of(expected, &b);
  run(device, &found, method, line);
  for (int64_t i = 0; i < falt_tensor_count(t); i++)
    if (falt_load(a, t->type, i) != falt_load(b, t->type, i))
      fail_msg("%s: element %d is %g, the reference's %g", line, (int)i, falt_load(a, t->type, i),
               falt_load(b, t->type, i));
  drop_layer(&found);
}

static void check_line(const char *line) {
  layer expected = make_layer(line, "reference", false, false);
  run(devices[0][0], &expected, "reference", line);
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    for (int i = 0; i < THREADS && devices[isa][i]; i++)
      for (int way = 0; way < 4; way++) check(devices[isa][i], line, &expected, way % 2, way / 2);
  drop_layer(&expected);
}

static void test_lines(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) check_line(lines[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines)};
  return cmocka_run_group_tests(tests, make_devices, drop_devices);
}
