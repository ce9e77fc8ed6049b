/* Tensors beyond 2^31 bytes and beyond 2^31 elements on the CPU, in memory of which only the touched pages exist.
 * Rows of small images, so far apart that offsets need 64 bits, give the results of dense images with every solver.
 * A stride of 0 repeats as many elements as a size can count. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/random.h"
#include "core/types.h"
#include "planner/planner.h"

static falt_device *device;

static falt_problem parse(const char *line) {
  falt_problem problem;
  if (falt_problem_parse(&problem, NULL, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  return problem;
}

/* ---- memory that is zero until it is written */

static void *reserve(const falt_tensor *t) {
  const size_t bytes = (size_t)falt_tensor_span(t) * falt_type_size(t->type);
  void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data != MAP_FAILED) return data;
  print_message("skipped: no address space for %zu bytes\n", bytes);
  skip();
  return NULL;
}

static void release(void *data, const falt_tensor *t) {
  munmap(data, (size_t)falt_tensor_span(t) * falt_type_size(t->type));
}

/* ---- the same problem with rows far apart */

/* Moves rows along dim to 2^31 elements and more from first to last. */
static void pull_apart(falt_tensor *t, int dim) {
  const int64_t rows = t->size[dim] - 1;
  if (rows > 0) t->stride[dim] = ((INT64_C(1) << 31) + rows) / rows + 1000003;
}

typedef struct operand {
  falt_tensor *near, *far;
  void *near_data, *far_data;
} operand;

typedef void visitor(void *context, int64_t near, int64_t far);

/* All elements of a tensor in either place. */
static void visit(const operand *o, visitor *body, void *context) {
  const int64_t *size = o->near->size;
  for (int64_t n = 0; n < size[0]; n++)
    for (int64_t g = 0; g < size[1]; g++)
      for (int64_t c = 0; c < size[2]; c++)
        for (int64_t d = 0; d < size[3]; d++)
          for (int64_t h = 0; h < size[4]; h++)
            for (int64_t w = 0; w < size[5]; w++)
              body(context, falt_tensor_at(o->near, n, g, c, d, h, w), falt_tensor_at(o->far, n, g, c, d, h, w));
}

typedef struct fill_context {
  const operand *o;
  uint64_t state;
} fill_context;

static void fill_one(void *context, int64_t near, int64_t far) {
  fill_context *f = context;
  const double value = (double)falt_random_int(&f->state, 0, 5);
  falt_store(f->o->near_data, f->o->near->type, near, value);
  falt_store(f->o->far_data, f->o->far->type, far, value);
}

typedef struct compare_context {
  const operand *o;
  const char *solver, *line;
} compare_context;

/* Data are whole numbers, so sums are exact, but for transforms: their tiles depend on the strides. */
static double tolerance_of(const char *solver) {
  return strncmp(solver, "fft", 3) == 0 || strcmp(solver, "winograd") == 0 ? 1e-3 : 0;
}

static void compare_one(void *context, int64_t near, int64_t far) {
  const compare_context *c = context;
  const double a = falt_load(c->o->near_data, c->o->near->type, near);
  const double b = falt_load(c->o->far_data, c->o->far->type, far);
  if (!(fabs(a - b) <= tolerance_of(c->solver)))
    fail_msg("%s: %g at element %lld where the dense image has %g\n  %s", c->solver, b, (long long)far, a, c->line);
}

static bool run(const char *solver, const falt_problem *p, falt_operands operands) {
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", solver);
  if (falt_plan_create(&plan, device, p, &budget, NULL) != FALT_OK) return false;
  operands.workspace = falt_alloc(falt_plan_workspace(plan));
  if (falt_execute(plan, &operands) != FALT_OK) fail_msg("%s", falt_message());
  falt_free(operands.workspace);
  falt_plan_destroy(&plan);
  return true;
}

/* Rows, images or channels of the operands apart; data and filters are small integers, whose sums are exact. */
static int check_far(const char *line, int dim) {
  falt_problem near = parse(line), far = near;
  pull_apart(&far.input, dim);
  pull_apart(&far.output, dim);
  assert_int_equal(falt_problem_check(&far), FALT_OK);
  operand o[3] = {{&near.input, &far.input, NULL, NULL},
                  {&near.output, &far.output, NULL, NULL},
                  {&near.filter, &far.filter, NULL, NULL}};
  for (int i = 0; i < 3; i++) {
    o[i].near_data = reserve(o[i].near);
    o[i].far_data = reserve(o[i].far);
    visit(&o[i], fill_one, &(fill_context){&o[i], (uint64_t)i + 1});
  }
  const falt_operands here = {.input = o[0].near_data, .output = o[1].near_data, .filter = o[2].near_data},
                      there = {.input = o[0].far_data, .output = o[1].far_data, .filter = o[2].far_data};
  const int result = near.operation == FALT_BACKWARD_DATA ? 0 : near.operation == FALT_BACKWARD_FILTER ? 2 : 1;
  int runs = 0;
  for (int s = 0; falt_solvers[s]; s++) {
    if (strcmp(falt_solvers[s]->device_kind, "cpu") != 0) continue;
    if (!run("reference", &near, here) || !run(falt_solvers[s]->name, &far, there)) continue;
    runs++;
    visit(&o[result], compare_one, &(compare_context){&o[result], falt_solvers[s]->name, line});
  }
  for (int i = 0; i < 3; i++) {
    release(o[i].near_data, o[i].near);
    release(o[i].far_data, o[i].far);
  }
  return runs;
}

static void test_rows_far_apart(void **state) {
  (void)state;
  static const struct {
    const char *line;
    int dim;
  } cases[] = {
      {"correlate h=40 w=70 r=3 s=3 boundary=reflect101 type=f32", FALT_H},
      {"correlate h=40 w=70 pixel=3 r=5 s=5 type=u8 weight-type=u8 out-type=s32", FALT_H},
      {"correlate d=12 h=9 w=40 t=3 r=3 s=3 type=f32", FALT_D},
      {"forward n=3 c=18 h=9 w=20 k=40 r=3 s=3 pad=1 layout=nhwc", FALT_H},
      {"forward n=3 c=18 h=9 w=20 k=40 r=3 s=3 pad=1 layout=nhwc", FALT_N},
      {"forward n=3 c=18 h=9 w=20 k=40 r=3 s=3 pad=1", FALT_H},
      {"forward n=3 c=18 h=9 w=20 k=40 r=3 s=3 pad=1", FALT_C},
      {"forward n=2 c=64 h=9 w=20 k=64 r=3 s=3 pad=1 layout=nhwc type=u8", FALT_H},
      {"forward n=2 c=40 h=9 w=20 k=40 r=3 s=3 pad=1 layout=nhwc groups=40", FALT_H},
      {"forward n=3 c=3 h=20 w=20 k=16 r=3 s=3 pad=1 act=relu pool=max:2", FALT_N},
      {"backward-data n=2 c=18 h=12 w=20 k=40 r=3 s=3 pad=1 stride=2 layout=nhwc", FALT_H},
      {"backward-filter n=2 c=18 h=12 w=20 k=40 r=3 s=3 pad=1 layout=nhwc", FALT_H},
      {"backward-filter n=2 c=40 h=12 w=20 k=40 r=3 s=3 pad=1 layout=nhwc groups=40", FALT_H},
      {"maxpool n=2 c=20 h=24 w=20 r=2 s=2", FALT_H},
      {"avgpool n=2 c=20 h=24 w=20 r=2 s=2 stride=1 type=u8 layout=nhwc", FALT_N},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int runs = check_far(cases[i].line, cases[i].dim);
    if (runs < 2) fail_msg("%d solvers: %s", runs, cases[i].line);
  }
}

/* ---- more than 2^31 bytes in one row, and of these only some are touched: one window in ten million positions */
static void test_one_long_row(void **state) {
  (void)state;
  falt_problem p = parse("correlate w=5000000000 s=9 stride=10000000 mode=valid type=u8 weight-type=u8 out-type=s32");
  unsigned char *x = reserve(&p.input), taps[9];
  int32_t y[600];
  const int64_t count = p.output.size[FALT_W];
  assert_int_equal(count, 500);
  for (int i = 0; i < 9; i++) taps[i] = (unsigned char)(i + 1);
  for (int64_t o = 0; o < count; o++) x[o * 10000000 + o % 9] = (unsigned char)(o % 251);
  int runs = 0;
  for (int s = 0; falt_solvers[s]; s++) {
    if (strcmp(falt_solvers[s]->device_kind, "cpu") != 0) continue;
    memset(y, 0xff, sizeof y);
    if (!run(falt_solvers[s]->name, &p, (falt_operands){.input = x, .filter = taps, .output = y})) continue;
    runs++;
    for (int64_t o = 0; o < count; o++)
      if (y[o] != o % 251 * (o % 9 + 1)) fail_msg("%s: y[%lld] is %d", falt_solvers[s]->name, (long long)o, (int)y[o]);
  }
  assert_true(runs >= 2);
  release(x, &p.input);
}

/* ---- more than 2^31 elements in 2048 places: each pixel stands for a million channels, and one weight for all */
static void test_repeated_elements(void **state) {
  (void)state;
  falt_problem p =
      parse("forward c=1048577 h=2 w=1024 k=1 r=1 s=1 input-strides=0,0,0,0,1024,1 filter-strides=0,0,0,0,0,0");
  assert_true(falt_tensor_count(&p.input) > INT64_C(1) << 31);
  static float pixels[2048], y[2048];
  float one = 1;
  for (int i = 0; i < 2048; i++) pixels[i] = (float)(i % 7);
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_budget_default(&budget);
  assert_int_equal(falt_plan_create(&plan, device, &p, &budget, NULL), FALT_OK);
  falt_operands operands = {.input = pixels, .filter = &one, .output = y};
  operands.workspace = falt_alloc(falt_plan_workspace(plan));
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  for (int i = 0; i < 2048; i++) assert_true(y[i] == (float)(i % 7) * 1048577);
  falt_free(operands.workspace);
  falt_plan_destroy(&plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_far_apart), cmocka_unit_test(test_one_long_row),
                                     cmocka_unit_test(test_repeated_elements)};
  falt_cpu_options options;
  falt_cpu_options_default(&options);
  options.threads = 2;
  if (falt_device_cpu(&device, &options) != FALT_OK) return 1;
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  falt_device_destroy(&device);
  return failed;
}
