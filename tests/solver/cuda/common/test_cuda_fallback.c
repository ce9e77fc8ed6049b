/* Tests of the alignment that GPU solvers need, and of the solvers that make their fallback plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "planner/planner.h"

#define UNUSED __attribute__((unused))

/* cuda-igemm packs the filter into a workspace, which these layers have not: they fall back to cuda-generic. */
static const struct {
  const char *solver, *fallback;
  falt_alignment alignment;
  const char *line;
} cases[] = {
    {"cuda-grouped", "cuda-generic", {16, 0, 16, 0}, "forward c=64 h=28 w=28 k=64 groups=8 r=3 s=3 pad=1 layout=nhwc"},
    {"cuda-wgrad-halo", "cuda-wgrad", {16, 0, 16, 0}, "backward-filter c=16 h=28 w=28 k=16 r=3 s=3 layout=nhwc"},
    {"cuda-wgrad-halo", "cuda-wgrad", {4, 0, 16, 0}, "backward-filter c=3 h=30 w=30 k=64 r=3 s=3 layout=nhwc"},
    {"cuda-fewchannels-wgrad", "cuda-wgrad", {0, 0, 16, 0}, "backward-filter c=3 h=64 w=64 k=64 r=3 s=3 layout=nhwc"},
    {"cuda-wgrad-sm90-halo", "cuda-wgrad", {16, 0, 16, 0}, "backward-filter c=64 h=28 w=28 k=64 r=3 s=3 layout=nhwc"},
    {"cuda-wgrad-sm90-nchw", "cuda-wgrad", {16, 0, 16, 0}, "backward-filter c=64 h=28 w=28 k=64 r=3 s=3 pad=1"},
    {"cuda-igemm-sm90", "cuda-generic", {16, 16, 16, 0}, "forward c=64 h=28 w=28 k=64 r=3 s=3 layout=nhwc"},
    {"cuda-igemm-sm90", "cuda-generic", {16, 16, 16, 16}, "forward c=64 h=28 w=28 k=64 r=3 s=3 layout=nhwc residual=1"},
    {"cuda-igemm-sm90", "cuda-wgrad", {16, 16, 16, 0}, "backward-filter c=64 h=28 w=28 k=64 r=3 s=3 layout=nhwc"},
    {"cuda-igemm-sm90-halo", "cuda-generic", {16, 0, 16, 0}, "forward c=16 h=28 w=28 k=32 r=3 s=3 layout=nhwc"},
    {"cuda-igemm-sm90-halo",
     "cuda-generic",
     {16, 0, 16, 16},
     "forward c=16 h=28 w=28 k=32 r=3 s=3 layout=nhwc residual=1"},
    {"cuda-igemm-sm90-halo", "cuda-generic", {16, 0, 4, 0}, "forward c=16 h=28 w=28 k=12 r=3 s=3 layout=nhwc"},
    {"cuda-igemm-sm90-halo",
     "cuda-generic",
     {16, 0, 2, 2},
     "forward c=16 h=28 w=28 k=3 r=3 s=3 layout=nhwc residual=1"},
    {"cuda-igemm-sm90-halo", "cuda-generic", {2, 0, 16, 0}, "backward-data c=3 h=29 w=29 k=16 r=3 s=3 layout=nhwc"},
    {"cuda-depthwise-toeplitz", "cuda-depthwise", {16, 0, 4, 0}, "forward c=8 h=34 w=32 k=8 groups=8 r=7 s=7"},
    {"cuda-depthwise-toeplitz", "cuda-depthwise", {16, 0, 4, 0}, "backward-data c=8 h=34 w=32 k=8 groups=8 r=7 s=7"},
    {"cuda-depthwise-toeplitz-wgrad",
     "cuda-depthwise-wgrad",
     {16, 0, 4, 0},
     "backward-filter c=8 h=34 w=32 k=8 groups=8 r=7 s=7"},
};

static void check(falt_device *device, const char *line, int i) {
  char text[160];
  falt_plan *plan;
  const falt_alignment *expected = &cases[i].alignment;
  snprintf(text, sizeof text, "%s n=8 type=f16 method=%s", line, cases[i].solver);
  if (falt_plan_create_line(&plan, device, text, NULL) != FALT_OK) fail_msg("%s: %s", text, falt_message());
  const falt_alignment a = plan->alignment;
  if (a.input != expected->input || a.filter != expected->filter || a.output != expected->output ||
      a.residual != expected->residual)
    fail_msg("%s: input %d, filter %d, output %d, residual %d", text, a.input, a.filter, a.output, a.residual);
  if (!plan->fallback) fail_msg("%s: no fallback", text);
  assert_string_equal(plan->fallback->solver->name, cases[i].fallback);
  assert_true(plan->fallback->workspace <= plan->workspace && plan->fallback->ready);
  falt_plan_destroy(&plan);
}

static void test_alignment(UNUSED void **state) {
  falt_cuda_options options;
  falt_device *device;
  falt_cuda_options_default(&options);
  snprintf(options.described, sizeof options.described, "h200");
  assert_int_equal(falt_device_cuda(&device, &options), FALT_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(device, cases[i].line, (int)i);
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_alignment)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
