/* upconvert-f32 on a device whose caches are so small that every problem is cut: into images and the rest of the
 * batch, into first, middle and last bands, and into pieces whose gradients are added. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/verify.h"
#include "core/memory.h"
#include "planner/planner.h"

static falt_device *device_of(int threads, size_t cache) {
  falt_cpu_options options;
  falt_device *device = NULL;
  falt_cpu_options_default(&options);
  options.threads = threads;
  assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
  device->caches.l2 = cache;
  return device;
}

/* A solver, and how often it was checked. */
typedef struct watched {
  const char *solver;
  int runs;
} watched;

static void expect_fine(void *context, const falt_verdict *verdict) {
  watched *w = context;
  if (strcmp(verdict->solver, w->solver) == 0) w->runs++;
  if (!verdict->ok) fail_msg("%s: error %g, tolerance %g", verdict->solver, verdict->max_abs_error, verdict->tolerance);
}

static const char *const lines[] = {
    "forward n=5 c=16 h=9 w=7 k=16 r=3 s=3 pad=1 groups=16 type=bf16 layout=nhwc bias=1 act=silu residual=1",
    "forward n=1 c=8 h=40 w=12 k=8 r=5 s=3 stride=2 pad=2x1 groups=8 type=f16 layout=nhwc scale=1 bias=1",
    "forward n=2 c=8 h=31 w=12 k=8 r=3 s=3 dilation=2 pad=2 groups=2 type=bf16 layout=nchw",
    "forward n=1 c=8 h=31 w=12 k=8 r=3 s=3 pad=1 groups=2 type=bf16 layout=nhwc boundary=edge",
    "forward n=2 c=4 d=6 h=9 w=8 k=4 t=3 r=3 s=3 pad=1 groups=4 type=f16 layout=ndhwc",
    "forward n=1 c=16 h=33 w=9 k=16 r=3 s=3 pad=1 groups=16 type=u8 weight-type=s8 layout=nhwc",
    "backward-data n=7 c=16 h=9 w=7 k=16 r=3 s=3 stride=2 pad=1 groups=16 type=bf16 layout=nhwc",
    "backward-filter n=5 c=16 h=9 w=7 k=16 r=3 s=3 pad=1 groups=16 type=bf16 layout=nhwc bias=1",
    "backward-filter n=1 c=6 h=50 w=11 k=4 r=3 s=3 stride=2 pad=1 groups=2 type=f16 layout=nhwc bias=1",
    "backward-filter n=3 c=6 h=20 w=11 k=4 r=3 s=3 pad=1 type=f16 layout=nchw",
};

static void test_pieces(void **state) {
  (void)state;
  for (int threads = 1; threads <= 3; threads += 2) {
    falt_device *device = device_of(threads, 16384);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
      watched w = {"upconvert-f32", 0};
      falt_problem problem;
      falt_budget budget;
      falt_budget_default(&budget);
      assert_int_equal(falt_problem_parse(&problem, &budget, lines[i]), FALT_OK);
      assert_int_equal(falt_verify(device, &problem, &budget, i + 1, expect_fine, &w), FALT_OK);
      if (w.runs != 1) fail_msg("not upconverted: %s", lines[i]);
    }
    falt_device_destroy(&device);
  }
}

static falt_status plan_line(falt_plan **plan, falt_device *device, const char *line) {
  return falt_plan_create_line(plan, device, line, NULL);
}

/* Others, within one task each, where the solvers of small groups take them: blocks of channels that a cache has room
 * for, and windows that it has none for. */
static void test_rows(void **state) {
  (void)state;
  static const struct {
    const char *solver, *line;
  } cases[] = {
      {"depthwise", "forward n=5 c=40 h=9 w=7 k=40 r=3 s=3 pad=1 groups=40 type=bf16 layout=nhwc act=silu residual=1"},
      {"depthwise", "forward n=2 c=24 h=14 w=30 k=24 r=31 s=31 pad=15 groups=24 type=u8 weight-type=s8 layout=nhwc"},
      {"depthwise", "forward n=1 c=8 h=40 w=12 k=8 r=5 s=3 stride=2 pad=2x1 groups=8 type=f16 layout=nhwc scale=1"},
      {"depthwise", "forward n=1 c=9 h=12 w=12 k=9 r=3 s=3 pad=2 groups=9 type=s8 layout=nhwc value=3"},
      {"depthwise", "forward n=2 c=4 d=6 h=9 w=8 k=4 t=3 r=3 s=3 pad=1 groups=4 type=f16 layout=ndhwc boundary=edge"},
      {"depthwise", "backward-data n=3 c=16 h=9 w=7 k=16 r=3 s=3 stride=2 pad=1 groups=16 type=bf16 layout=nhwc"},
      {"depthwise-rowtile", "forward n=3 c=40 h=20 w=19 k=40 r=3 s=3 pad=1 groups=40 layout=nhwc bias=1 act=relu6"},
      {"depthwise-rowtile", "forward n=2 c=32 h=30 w=31 k=32 r=3 s=3 pad=1 groups=32 stride=2 layout=nhwc act=gelu"},
      {"depthwise-rowtile", "forward n=2 c=33 h=8 w=40 k=33 r=3 s=3 pad=3x0 groups=33 type=bf16 layout=nhwc scale=1"},
      {"depthwise-rowtile", "forward n=1 c=48 h=17 w=15 k=48 r=3 s=3 pad=1 groups=48 stride=2 type=u8 layout=nhwc"},
      {"depthwise-rowtile",
       "forward n=1 c=16 h=9 w=9 k=16 r=3 s=3 pad=1 groups=16 type=s8 out-type=u8 layout=nhwc bias=1"},
      {"depthwise-rowtile", "forward n=2 c=40 h=11 w=19 k=40 r=5 s=5 pad=2 groups=40 type=bf16 layout=nhwc bias=1"},
      {"depthwise-rowtile", "forward n=2 c=33 h=7 w=7 k=33 r=7 s=7 pad=3 groups=33 layout=nhwc act=relu"},
      {"depthwise-rowtile", "forward n=1 c=64 h=9 w=12 k=64 r=7 s=7 pad=1 groups=64 type=u8 layout=nhwc"},
      {"depthwise-rowtile-wgrad", "backward-filter n=3 c=40 h=20 w=19 k=40 r=3 s=3 pad=1 groups=40 layout=nhwc bias=1"},
      {"depthwise-rowtile-wgrad",
       "backward-filter n=9 c=33 h=41 w=8 k=33 r=3 s=3 pad=1 groups=33 type=bf16 layout=nhwc"},
      {"depthwise-rowtile-wgrad",
       "backward-filter c=16 h=9 w=3 k=16 r=3 s=3 stride=2 pad=1 groups=16 type=f16 layout=nhwc"},
      {"depthwise-wgrad", "backward-filter n=5 c=40 h=9 w=7 k=40 r=3 s=3 pad=1 groups=40 type=bf16 layout=nhwc bias=1"},
      {"grouped", "forward n=1 c=8 h=31 w=12 k=8 r=3 s=3 pad=1 groups=2 type=bf16 layout=nhwc boundary=reflect101"},
      {"grouped", "backward-data n=2 c=16 h=9 w=7 k=32 r=3 s=3 pad=1 groups=4 type=f16 layout=nhwc"},
      {"grouped-wgrad", "backward-filter n=2 c=6 h=50 w=11 k=4 r=3 s=3 pad=1 groups=2 type=f16 layout=nhwc bias=1"},
  };
  for (int threads = 1; threads <= 3; threads += 2) {
    falt_device *device = device_of(threads, 65536);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      watched w = {cases[i].solver, 0};
      falt_problem problem;
      falt_budget budget;
      falt_budget_default(&budget);
      assert_int_equal(falt_problem_parse(&problem, &budget, cases[i].line), FALT_OK);
      assert_int_equal(falt_verify(device, &problem, &budget, i + 1, expect_fine, &w), FALT_OK);
      if (w.runs != 1) fail_msg("not by %s: %s", w.solver, cases[i].line);
    }
    falt_device_destroy(&device);
  }
}

/* The workspace follows the cache, not the tensor; types that f32 does not hold are refused. */
static void test_limits(void **state) {
  (void)state;
  falt_plan *plan = NULL;
  falt_device *device = device_of(1, 65536);
  assert_int_equal(plan_line(&plan, device,
                             "forward n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 groups=64 type=bf16 layout=nhwc "
                             "method=upconvert-f32"),
                   FALT_OK);
  assert_in_range(falt_plan_workspace(plan), 1, 6 * 65536);
  falt_plan_destroy(&plan);
  static const char *const refused[] = {
      "forward c=8 h=9 w=9 k=8 r=3 s=3 groups=8 layout=nhwc method=upconvert-f32",
      "forward c=8 h=9 w=9 k=8 r=3 s=3 groups=8 type=s32 layout=nhwc method=upconvert-f32",
      "forward n=2 c=8 h=4 w=9999 k=8 r=3 s=3 pad=1 groups=8 type=bf16 layout=nhwc method=depthwise",
      "forward n=2 c=64 h=9 w=9 k=64 r=3 s=3 pad=2 groups=64 layout=nhwc method=depthwise-rowtile",
      "forward c=8 h=99 w=99 k=8 r=31 s=31 groups=8 type=u8 weight-type=s8 layout=nhwc method=upconvert-f32",
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    assert_int_equal(plan_line(&plan, device, refused[i]), FALT_NO_SOLVER);
  falt_device_destroy(&device);
}

/* Whether any solver in the plan rounds transformed inputs. */
static bool is_transformed(falt_device *device, const char *line) {
  falt_plan *plan = NULL;
  assert_int_equal(plan_line(&plan, device, line), FALT_OK);
  const bool mixes = plan->mixes;
  falt_plan_destroy(&plan);
  return mixes;
}

/* Sums of integers are exact in f32: a rewrite that plans them in f32 does not get fft, as floats do here. */
static void test_integers(void **state) {
  (void)state;
#define LAYER "forward c=8 h=128 w=128 k=8 r=21 s=21 groups=8 pad=10 filter=given method=depthwise-nchw"
  falt_device *device = device_of(1, 1 << 20);
  assert_true(is_transformed(device, LAYER " type=bf16"));
  assert_false(is_transformed(device, LAYER " type=u8 weight-type=s8"));
#undef LAYER
  falt_device_destroy(&device);
}

/* Planning and making ready fail as a whole, wherever memory runs out. */
static void test_memory(void **state) {
  (void)state;
  falt_device *device = device_of(1, 16384);
  static const char line[] =
      "backward-filter n=5 c=16 h=9 w=7 k=16 r=3 s=3 groups=16 type=bf16 layout=nhwc method=upconvert-f32";
  falt_plan *plan = NULL;
  int64_t after = 0;
  for (falt_status status = FALT_NO_MEMORY; status != FALT_OK; after++) {
    falt_alloc_fail_after(after);
    status = plan_line(&plan, device, line);
    falt_alloc_fail_after(-1);
    assert_true(status == FALT_OK || status == FALT_NO_MEMORY || status == FALT_NO_SOLVER);
  }
  assert_true(after > 1);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pieces),   cmocka_unit_test(test_rows),   cmocka_unit_test(test_limits),
      cmocka_unit_test(test_integers), cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
