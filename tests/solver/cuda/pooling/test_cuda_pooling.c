/* Tests of cuda-pooling on described GPUs: the work of a thread, refusals, and its kernels, which are compiled without
 * a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile_kernels.h"
#include "compile_lines.h"
#include "problem/operation.h"

#define UNUSED __attribute__((unused))

static falt_device *device;

static int set_up(UNUSED void **state) {
  falt_cuda_options options;
  falt_cuda_options_default(&options);
  snprintf(options.described, sizeof options.described, "h200");
  return falt_device_cuda(&device, &options);
}

static int tear_down(UNUSED void **state) {
  falt_device_destroy(&device);
  return 0;
}

static falt_status make(falt_plan **plan, const char *line) {
  falt_problem problem;
  falt_budget budget;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "cuda-pooling");
  if (falt_problem_parse(&problem, NULL, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  return falt_plan_create(plan, device, &problem, &budget, NULL);
}

/* ---- the work of a thread: rows x columns x channels */

static void test_vectors(UNUSED void **state) {
  static const char *const cases[][2] = {
      /* two rows where windows overlap; columns of 16 bytes, which the width and the stride of windows allow */
      {"maxpool n=2 c=8 h=32 w=64 r=2 s=2 stride=2", "1x2x1"},
      {"maxpool n=2 c=8 h=32 w=64 r=3 s=3 stride=2 pad=1 type=f16", "2x4x1"},
      {"maxpool n=2 c=8 h=32 w=63 r=3 s=3 stride=2 pad=1 type=f16", "2x1x1"},
      {"avgpool n=2 c=8 h=32 w=66 r=3 s=3 stride=3 type=f16", "1x1x1"},
      /* channels of 16 bytes, as far as their number allows */
      {"maxpool n=2 c=64 h=56 w=56 r=3 s=3 stride=2 pad=1 layout=nhwc type=f16", "2x1x8"},
      {"maxpool n=2 c=64 h=56 w=56 r=2 s=2 stride=2 layout=nhwc", "1x1x4"},
      {"avgpool n=2 c=60 h=56 w=56 r=3 s=3 stride=2 pad=1 layout=nhwc type=f16", "2x1x4"},
      {"avgpool n=2 c=33 h=56 w=56 r=3 s=3 stride=2 pad=1 layout=nhwc type=f16", "2x1x1"},
      /* gradients keep all that their windows read in registers */
      {"backward-avgpool n=2 c=64 h=56 w=56 r=3 s=3 stride=2 pad=1 layout=nhwc type=f16", "1x1x8"},
      {"backward-maxpool n=2 c=64 h=56 w=56 r=3 s=3 stride=2 pad=1 layout=nhwc", "1x1x4"},
      {"backward-maxpool n=2 c=64 h=56 w=56 r=5 s=5 stride=2 pad=2 layout=nhwc", "1x1x1"},
      {"backward-maxpool n=2 c=8 h=32 w=64 r=2 s=2 stride=2 type=f16", "1x4x1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256], expected[64];
    falt_plan *plan;
    if (make(&plan, cases[i][0]) != FALT_OK) fail_msg("%s: %s", cases[i][0], falt_message());
    falt_plan_print(plan, text, sizeof text);
    snprintf(expected, sizeof expected, "(cuda-pooling %s)", cases[i][1]);
    if (!strstr(text, expected)) fail_msg("%s: %s instead of %s", cases[i][0], text, expected);
    falt_plan_destroy(&plan);
  }
}

static void test_refusals(UNUSED void **state) {
  static const char *const cases[][2] = {
      {"forward n=2 c=8 h=32 w=64 k=8 r=2 s=2", "pooling only"},
      {"maxpool n=2 c=8 d=8 h=8 w=8 t=2 r=2 s=2", "1D and 2D"},
      {"maxpool n=2 c=8 h=32 w=64 r=2 s=2 type=f64", "in f32"},
      {"maxpool n=2 c=8 h=32 w=64 r=9 s=8", "too many taps"},
      {"maxpool n=2 c=8 h=32 w=640 r=2 s=2 stride=65", "too long"},
      {"backward-maxpool n=2 c=64 h=56 w=56 r=7 s=7 stride=2 pad=3 layout=nhwc", "do not fit a thread"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_plan *plan = NULL;
    assert_int_not_equal(make(&plan, cases[i][0]), FALT_OK);
    if (!strstr(falt_message(), cases[i][1])) fail_msg("%s: %s", cases[i][0], falt_message());
  }
}

/* ---- kernels */

static const char *const gpus[] = {"h200", "a100", "b200"};
static const char *const lines[] = {
    "maxpool n=2 c=64 h=56 w=56 r=3 s=3 stride=2 pad=1 layout=nhwc type=f16",
    "backward-maxpool n=2 c=64 h=56 w=56 r=3 s=3 stride=2 pad=1 layout=nhwc",
    "maxpool n=2 c=8 h=32 w=63 r=3 s=3 stride=2 pad=1 type=u8",
    "avgpool n=2 c=8 h=32 w=64 r=2 s=2 stride=2 count-pad=1",
    "avgpool n=2 c=60 w=56 s=3 stride=2 pad=1 layout=nwc type=bf16",
    "backward-avgpool n=2 c=64 h=56 w=56 r=3 s=3 stride=2 pad=1 layout=nhwc type=f16",
    "backward-maxpool n=2 c=8 h=32 w=64 r=2 s=2 stride=2 dilation=2 type=f16",
    "backward-avgpool n=2 c=8 h=32 w=63 r=5 s=4 stride=3 pad=2x1 type=bf16",
};

static void test_lines_compile(UNUSED void **state) {
  const compile_lines c = {.method = "cuda-pooling",
                           .source = {"cuda_pooling"},
                           .gpus = gpus,
                           .lines = lines,
                           .gpu_count = sizeof gpus / sizeof *gpus,
                           .line_count = sizeof lines / sizeof *lines,
                           .everywhere = 0,
                           .kernels = 8};
  compile_all_lines(&c);
}

static falt_cuda_kernel pooling(int operation, int taps, int stride, int width) {
  falt_cuda_kernel k = {.source = "cuda_pooling.cu", .entry = "falt_pooling"};
  for (int i = 0; i < 2; i++) {
    falt_cuda_define(&k, "TAPS_%c=%d", "RS"[i], taps);
    falt_cuda_define(&k, "STRIDE_%c=%d", "HW"[i], stride);
    falt_cuda_define(&k, "DILATE_%c=1", "RS"[i]);
    falt_cuda_define(&k, "ELEMENT_%c=unsigned short", "XY"[i]);
    falt_cuda_define(&k, "TYPE_%c=%d", "XY"[i], FALT_F16);
  }
  falt_cuda_define(&k, "OPERATION=%d", operation);
  falt_cuda_define(&k, "SUM=float");
  falt_cuda_define(&k, "TINY=0");
  falt_cuda_define(&k, "ROWS=%d", falt_operations[operation].is_gradient ? 1 : 2);
  falt_cuda_define(&k, "PAD_R=1");
  falt_cuda_define(&k, "PAD_S=1");
  falt_cuda_define(&k, "COLUMNS=%d", width == 1 ? 4 : 1);
  falt_cuda_define(&k, "WIDTH=%d", width);
  falt_cuda_define(&k, "LAST=%d", width > 1);
  return k;
}

static void test_registers(UNUSED void **state) {
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (int operation = FALT_MAXPOOL; operation <= FALT_BACKWARD_AVGPOOL; operation++) {
      const int width = operation == FALT_BACKWARD_MAXPOOL ? 4 : 8;
      const falt_cuda_kernel wide = pooling(operation, 3, 2, width), single = pooling(operation, 3, 2, 1);
      compile(&wide, architectures[a], operation == FALT_BACKWARD_MAXPOOL ? 200 : 128, 0);
      compile(&single, architectures[a], operation == FALT_BACKWARD_MAXPOOL ? 160 : 96, 0);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_lines_compile), cmocka_unit_test(test_registers)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
