/* NVIDIA's libraries without a GPU: the layers that they are asked for, that they are chosen only if named, and the
 * message where they are missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cublas.h"
#include "cuda/cudnn.h"
#include "faltung/faltung.h"

#define UNUSED __attribute__((unused))

static falt_device *device;

static int open_device(UNUSED void **state) {
  falt_cuda_options options;
  falt_cuda_options_default(&options);
  strcpy(options.described, "h200");
  return falt_device_cuda(&device, &options) == FALT_OK ? 0 : -1;
}

static int close_device(UNUSED void **state) {
  falt_device_destroy(&device);
  return 0;
}

static void expect(const char *line, const char *why) {
  falt_plan *plan = NULL;
  const falt_status status = falt_plan_create_line(&plan, device, line, NULL);
  if (status != FALT_NO_SOLVER || !strstr(falt_message(), why)) fail_msg("%s: %s", line, falt_message());
  assert_null(plan);
}

static void test_refusals(UNUSED void **state) {
  static const char *const lines[][2] = {
      {"forward c=8 h=9 w=9 k=8 r=3 s=3 pad=1 method=cudnn", "cuDNN needs the GPU itself"},
      {"backward-data c=8 h=9 w=9 k=8 r=3 s=3 pad=1:0x1:0 groups=4 layout=nhwc type=bf16 method=cudnn",
       "the GPU itself"},
      {"backward-filter c=6 w=99 k=9 s=3 groups=3 dilation=2 stride=3 type=f64 method=cudnn", "the GPU itself"},
      {"maxpool c=8 h=9 w=9 r=3 s=3 method=cudnn", "only layers and their gradients"},
      {"forward c=8 h=9 w=9 k=8 r=3 s=3 type=s8 method=cudnn", "only f16, bf16, f32 and f64"},
      {"forward c=8 h=9 w=9 k=8 r=3 s=3 type=f16 out-type=f32 method=cudnn", "its types differ"},
      {"forward c=8 h=9 w=9 k=8 r=3 s=3 act=relu method=cudnn", "without an epilogue"},
      {"forward c=8 h=9 w=9 k=8 r=3 s=3 pad=1 boundary=edge method=cudnn", "zero padding only"},
      {"forward c=8 h=9 w=9 k=8 r=3 s=3 pad=-1 method=cudnn", "zero padding only"},
      {"backward-data c=1 d=2 h=1 w=1 k=1 t=4 r=2 s=1 pad=3x2x1 type=bf16 method=cudnn", "wholly in padding"},
      {"convolve h=9 w=9 r=3 s=3 method=cudnn", "backwards or in place"},
      {"forward c=8 h=9 w=9 k=8 r=3 s=3 pad=1 boundary=wrap method=cuda-im2col", "cuBLAS needs the GPU itself"},
      {"backward-data c=8 h=9 w=9 k=8 r=3 s=3 method=cuda-im2col", "only forward"},
      {"forward c=8 h=9 w=9 k=8 r=3 s=3 weight-layout=hwio method=cudnn", "neither oihw nor ohwi"},
      {"forward c=8 h=9 w=9 k=8 r=3 s=3 bias=1 method=cuda-im2col", "without an epilogue"},
      {"forward c=8 h=9 w=9 k=8 r=3 s=3 weight-layout=hwio method=cuda-im2col", "taps do not lie together"}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) expect(lines[i][0], lines[i][1]);
}

static void test_never_chosen(UNUSED void **state) {
  falt_plan *plan = NULL;
  assert_int_equal(falt_plan_create_line(&plan, device, "forward n=4 c=64 h=28 w=28 k=64 r=3 s=3 type=f16", NULL),
                   FALT_OK);
  assert_string_not_equal(falt_plan_solver(plan), "cudnn");
  assert_string_not_equal(falt_plan_solver(plan), "cuda-im2col");
  falt_plan_destroy(&plan);
}

/* Each is looked for once: what the variables name is not there. */
static void test_absent(UNUSED void **state) {
  setenv("FALTUNG_CUDNN", "/nonexistent/libcudnn.so.9", 1);
  setenv("FALTUNG_CUBLAS", "/nonexistent/libcublas.so.13", 1);
  assert_null(falt_cudnn_version());
  assert_non_null(strstr(falt_message(), "FALTUNG_CUDNN"));
  assert_null(falt_cublas_version());
  assert_non_null(strstr(falt_message(), "FALTUNG_CUBLAS"));
  falt_cudnn *cudnn;
  falt_cublas *cublas;
  assert_int_equal(falt_cudnn_make(&cudnn, NULL, &(falt_cudnn_layer){.axes = 2}), FALT_NO_DEVICE);
  assert_int_equal(falt_cublas_open(&cublas, NULL, FALT_F32, false), FALT_NO_DEVICE);
  assert_null(cudnn);
  assert_null(cublas);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals), cmocka_unit_test(test_never_chosen),
                                     cmocka_unit_test(test_absent)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
