/* Tests of cuda-winograd and cuda-winograd-wgrad on GPUs that are described and not present: its kernels compile and do
 * not spill, where it is chosen, what it refuses, its declared errors, and pieces of a batch for small workspaces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile_lines.h"
#include "planner/planner.h"

#define UNUSED __attribute__((unused))

static falt_device *device;

static falt_plan *plan_line(const char *line) {
  falt_plan *plan;
  if (falt_plan_create_line(&plan, device, line, NULL) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  return plan;
}

/* Layers of diffusion U-Nets: the planner's choice. */
static void test_chosen(UNUSED void **state) {
  static const struct {
    const char *line, *solver;
  } cases[] = {
      {"forward n=1 c=1920 h=32 w=32 k=640 r=3 s=3 pad=1", "cuda-winograd"},
      {"backward-data n=1 c=1920 h=32 w=32 k=640 r=3 s=3 pad=1", "cuda-winograd"},
      {"backward-filter n=1 c=1920 h=32 w=32 k=640 r=3 s=3 pad=1", "cuda-winograd-wgrad"},
      {"forward n=8 c=640 h=32 w=32 k=640 r=3 s=3 pad=1 layout=nhwc bias=1 act=silu", "cuda-winograd"},
      {"backward-data n=8 c=640 h=32 w=32 k=640 r=3 s=3 pad=1 layout=nhwc", "cuda-winograd"},
      {"backward-filter n=8 c=320 h=64 w=64 k=320 r=3 s=3 pad=1 layout=nhwc", "cuda-winograd-wgrad"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_plan *plan = plan_line(cases[i].line);
    assert_string_equal(plan->solver->name, cases[i].solver);
    assert_true(plan->cost.error == 0 && plan->mixes);
    falt_plan_destroy(&plan);
  }
}

static void expect_refusal_by(const char *method, const char *line, const char *reason) {
  char text[256];
  falt_plan *plan;
  snprintf(text, sizeof text, "%s method=%s", line, method);
  assert_int_equal(falt_plan_create_line(&plan, device, text, NULL), FALT_NO_SOLVER);
  if (!strstr(falt_message(), reason)) fail_msg("%s: %s", line, falt_message());
}

static void expect_refusal(const char *line, const char *reason) {
  expect_refusal_by("cuda-winograd", line, reason);
}

static void test_refusals(UNUSED void **state) {
  expect_refusal("backward-filter c=512 h=9 w=9 k=512 r=3 s=3", "fprop and dgrad only");
  expect_refusal("forward c=512 h=9 w=9 k=512 r=3 s=3 type=u8", "only f32, f16 and bf16");
  expect_refusal("forward c=512 h=9 w=9 k=512 r=3 s=3 type=f16 weight-type=f32", "only f32, f16 and bf16");
  expect_refusal("forward c=512 h=9 w=9 k=512 r=7 s=7", "only filters of 3 or 5 taps");
  expect_refusal("forward c=512 h=9 w=9 k=512 r=3 s=5", "only filters of 3 or 5 taps");
  expect_refusal("forward c=512 h=9 w=9 k=512 r=3 s=3 stride=2", "only a stride and dilation of 1");
  expect_refusal("forward c=512 h=9 w=9 k=512 r=3 s=3 dilation=2", "only a stride and dilation of 1");
  expect_refusal("forward c=512 d=9 h=9 w=9 k=512 t=3 r=3 s=3", "along the depth");
  expect_refusal("forward c=512 h=9 w=9 k=512 r=3 s=3 tf32=1", "tf32");
  expect_refusal("backward-data c=512 h=9 w=9 k=512 r=3 s=3 pad=1 boundary=edge", "a boundary that is not constant");
  expect_refusal_by("cuda-winograd-wgrad", "forward c=512 h=9 w=9 k=512 r=3 s=3", "wgrad only");
  expect_refusal_by("cuda-winograd-wgrad", "backward-filter n=8 c=96 h=32 w=32 k=96 r=3 s=3 bias=1", "the bias");
  expect_refusal_by("cuda-winograd-wgrad", "backward-filter n=8 c=96 h=32 w=32 k=96 r=3 s=3 stride=2", "a stride");
  expect_refusal_by("cuda-winograd-wgrad", "backward-filter n=1 c=96 h=16 w=16 k=96 r=3 s=3", "relative error");
  expect_refusal_by("cuda-winograd-wgrad", "backward-filter n=8 c=96 h=32 w=32 k=96 r=3 s=3 max-workspace=1M",
                    "more workspace than is allowed");
}

/* Few channels have an error beyond rounding; more allow larger tiles. */
static void test_errors(UNUSED void **state) {
  static const struct {
    const char *line, *form;
    bool rounds;
  } cases[] = {{"forward n=4 c=64 h=32 w=32 k=512 r=3 s=3 pad=1 max-error=1e-4", "F(4,3)", false},
               {"forward n=4 c=96 h=32 w=32 k=512 r=3 s=3 pad=1", "F(2,3)", true},
               {"forward n=4 c=511 h=32 w=32 k=512 r=3 s=3 pad=1", "F(2,3)", true},
               {"forward n=4 c=512 h=32 w=32 k=512 r=3 s=3 pad=1", "F(4,3)", true},
               {"forward n=4 c=512 h=32 w=32 k=512 r=1 s=3 pad=0x1", "F(4,3) width", true},
               {"forward n=4 c=512 h=32 w=32 k=512 r=5 s=1 pad=2x0", "F(4,5) height", true},
               {"forward n=4 c=512 h=32 w=32 k=512 r=5 s=5 pad=2", "F(2,5)", true},
               {"backward-filter n=8 c=64 w=4096 k=64 s=5 pad=2", "F(4,5) width", true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[256], text[512];
    snprintf(line, sizeof line, "%s method=%s", cases[i].line,
             cases[i].line[0] == 'f' ? "cuda-winograd" : "cuda-winograd-wgrad");
    falt_plan *plan = plan_line(line);
    falt_plan_print(plan, text, sizeof text);
    if (!strstr(text, cases[i].form)) fail_msg("%s: %s", line, text);
    assert_true((plan->cost.error == 0) == cases[i].rounds && plan->cost.error < 1e-6);
    falt_plan_destroy(&plan);
  }
  expect_refusal("forward n=4 c=64 h=32 w=32 k=512 r=3 s=3 pad=1", "relative error");
}

/* Of 16 bits: transforms are rounded, so the error is declared, whatever the channels; coarser types have more of it.
 */
static void test_halves(UNUSED void **state) {
  static const char *const types[] = {"f16", "bf16"};
  double error[2];
  for (int i = 0; i < 2; i++) {
    char line[256];
    snprintf(line, sizeof line, "forward n=8 c=1280 h=32 w=32 k=1280 r=3 s=3 pad=1 layout=nhwc type=%s max-error=0.1",
             types[i]);
    falt_plan *plan = plan_line(line);
    assert_string_equal(plan->solver->name, "cuda-winograd");
    error[i] = plan->cost.error;
    falt_plan_destroy(&plan);
  }
  assert_true(error[0] >= 0x1p-11 && error[1] == 8 * error[0]);
  falt_plan *plan;
  const char *exact = "forward c=512 h=9 w=9 k=512 r=3 s=3 type=f16 layout=nhwc method=cuda-winograd";
  assert_int_equal(falt_plan_create_line(&plan, device, exact, NULL), FALT_OVER_BUDGET);
}

static void test_pieces(UNUSED void **state) {
  const char *line = "forward n=8 c=512 h=32 w=32 k=128 r=3 s=3 pad=1 method=cuda-winograd max-workspace=64M";
  char text[512];
  falt_plan *plan = plan_line(line);
  falt_plan_print(plan, text, sizeof text);
  if (!strstr(text, "pieces=")) fail_msg("%s: %s", line, text);
  assert_true(plan->workspace <= 64 << 20);
  falt_plan_destroy(&plan);
  expect_refusal("forward c=512 h=32 w=32 k=128 r=3 s=3 max-workspace=1M", "more workspace than is allowed");
}

static void test_kernels_compile(UNUSED void **state) {
  static const char *const gpus[] = {"sm_80", "sm_90a", "sm_100a", "sm_120a"};
  static const char *const lines[] = {
      "forward n=1 c=512 h=17 w=19 k=96 r=3 s=3 pad=1",
      "forward n=8 c=512 h=17 w=19 k=96 r=3 s=3 pad=1 layout=nhwc bias=1 scale=1 residual=1 act=gelu",
      "backward-data n=2 c=130 h=17 w=19 k=96 r=3 s=3 pad=1",
      "forward n=8 c=130 h=17 w=19 k=96 r=3 s=3 pad=3 boundary=reflect101 residual=1 act=tanh",
      "backward-data n=8 c=96 h=40 w=40 k=515 r=3 s=3 pad=1 layout=nhwc",
      "forward n=1 c=96 h=9 w=9 k=600 r=3 s=3 pad=1 boundary=wrap layout=nhwc",
      "backward-filter n=8 c=96 h=32 w=32 k=130 r=3 s=3 pad=1",
      "backward-filter n=1 c=130 h=40 w=37 k=96 r=3 s=3 pad=1 layout=nhwc",
      "backward-filter n=8 c=33 h=40 w=37 k=96 r=3 s=3 pad=2 boundary=edge layout=nhwc",
      "backward-filter n=2 c=96 h=40 w=37 k=33 r=3 s=3",
      "forward n=2 c=130 h=17 w=19 k=96 r=5 s=5 pad=2 max-error=1e-4",
      "forward n=2 c=600 h=17 w=19 k=96 r=5 s=1 pad=2x0 boundary=edge layout=nhwc",
      "backward-data n=2 c=96 w=900 k=600 s=5 pad=2",
      "forward n=2 c=96 h=17 w=19 k=96 r=3 s=3 pad=1 type=f16 residual=1 act=silu max-error=1",
      "forward n=2 c=96 h=17 w=19 k=96 r=5 s=5 pad=1 type=bf16 layout=nhwc out-type=f32 max-error=1",
      "backward-data n=2 c=96 h=17 w=19 k=96 r=3 s=1 pad=1x0 type=f16 layout=nhwc max-error=1",
      "backward-filter n=8 c=96 h=32 w=32 k=130 r=3 s=3 type=f16 max-error=1",
      "backward-filter n=8 c=96 h=32 w=32 k=130 r=5 s=5 pad=2 type=bf16 layout=nhwc max-error=1",
      "backward-filter n=8 c=96 h=64 w=32 k=130 r=1 s=5 max-error=1e-4",
  };
  compile_all_lines(&(compile_lines){.method = "cuda-winograd",
                                     .wgrad = "cuda-winograd-wgrad",
                                     .source = {"cuda_winograd"},
                                     .gpus = gpus,
                                     .gpu_count = sizeof gpus / sizeof *gpus,
                                     .lines = lines,
                                     .line_count = sizeof lines / sizeof *lines,
                                     .everywhere = 2,
                                     .kernels = 24});
}

static int set_up(UNUSED void **state) {
  falt_cuda_options options;
  falt_cuda_options_default(&options);
  snprintf(options.described, sizeof options.described, "h200");
  return falt_device_cuda(&device, &options) != FALT_OK;
}

static int tear_down(UNUSED void **state) {
  falt_device_destroy(&device);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_chosen), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_errors), cmocka_unit_test(test_halves),
                                     cmocka_unit_test(test_pieces), cmocka_unit_test(test_kernels_compile)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
