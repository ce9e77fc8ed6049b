/* Filters that come as factors: a plan for every one of them on both kinds of devices, results as of the dense sum, and
 * the rules of the filter's pointer. */
#include "api_fixture.h"

#include <math.h>

#include "compile_kernels.h"
#include "core/memory.h"
#include "planner/planner.h"

static falt_device *described(void) {
  falt_device *device;
  falt_cuda_options options;
  falt_cuda_options_default(&options);
  strcpy(options.described, "h200");
  assert_int_equal(falt_device_cuda(&device, &options), FALT_OK);
  return device;
}

static float *values_of(const falt_problem *p) {
  const int64_t count = falt_problem_filter_elements(p);
  float *values = malloc((size_t)count * sizeof *values);
  assert_non_null(values);
  falt_random_fill(values, FALT_F32, count, 5);
  return values;
}

/* ---- a plan for every problem */

/* More taps than are expanded, several terms, constants, pixels, volumes, everything around a sum. */
static const char *const tall[] = {
    "correlate h=1080 w=1920 pixel=3 r=1361 s=1361 factors=1 type=u8 weight-type=f32",
    "correlate h=1080 w=1920 pixel=3 r=1361 s=1361 factors=2 type=u8 weight-type=f32",
    "convolve h=200 w=300 r=301 s=401 factors=3 value=2",
    "correlate n=2 c=3 h=50 w=60 r=301 s=401 factors=2 bias=1 residual=1 act=gelu",
    "correlate d=28 h=24 w=20 t=255 r=255 s=255 factors=1 boundary=symmetric",
    "correlate d=28 h=24 w=20 t=255 r=255 s=255 factors=3 boundary=symmetric",
    "correlate d=9 h=24 w=20 pixel=2 t=65 r=65 s=65 factors=2 value=1 type=f16 weight-type=f32",
    "correlate d=28 h=24 w=20 t=1001 r=1 s=101 factors=2 boundary=wrap",
    "correlate w=5000 s=100001 factors=4 value=1",
};

/* The solver that the planner takes with this budget; "" if there is none. */
static const char *chosen(falt_device *device, const falt_problem *p, const float *values, int64_t workspace) {
  falt_plan *plan;
  falt_budget budget;
  falt_budget_default(&budget);
  budget.max_workspace = workspace;
  if (falt_plan_create(&plan, device, p, &budget, values) != FALT_OK) return "";
  const char *solver = falt_plan_solver(plan);
  falt_plan_destroy(&plan);
  return solver;
}

static void test_every_problem_has_a_plan(UNUSED void **state) {
  falt_device *cpu = device_with("", 2), *gpu = described();
  for (size_t i = 0; i < sizeof tall / sizeof *tall; i++) {
    const falt_problem p = parse(tall[i]);
    float *values = values_of(&p);
    for (int given = 0; given < 2; given++) {
      const float *known = given ? NULL : values;
      const char *on_cpu = chosen(cpu, &p, known, -1), *on_gpu = chosen(gpu, &p, known, -1);
      if (!on_cpu[0] || strcmp(on_cpu, "reference") == 0) fail_msg("%s: '%s' on the CPU", tall[i], on_cpu);
      if (!on_gpu[0] || strcmp(on_gpu, "cuda-generic") == 0) fail_msg("%s: '%s' on a GPU", tall[i], on_gpu);
      assert_string_not_equal(chosen(cpu, &p, known, 0), "");
      assert_string_not_equal(chosen(gpu, &p, known, 0), "");
    }
    free(values);
  }
  falt_device_destroy(&cpu);
  falt_device_destroy(&gpu);
}

/* ---- results */

static void note(void *context, const falt_verdict *v) {
  if (!v->ok) fail_msg("%s: %s", v->solver, falt_message());
  *(int *)context += strcmp(v->solver, "separable-passes-cpu") == 0;
}

/* Against the reference: terms, the copies of a constant, runs of axes that are one, those that are not. */
static void test_verified(UNUSED void **state) {
  static const char *const lines[] = {
      "correlate h=6 w=7 r=261 s=261 factors=2",
      "convolve h=12 w=14 pixel=3 r=31 s=41 factors=3 value=2 type=u8",
      "correlate n=2 c=3 h=9 w=8 r=5 s=6 factors=2 value=-1 bias=1 residual=1 act=gelu",
      "correlate n=2 d=5 h=9 w=8 pixel=2 t=1 r=5 s=6 factors=2 stride=2 boundary=wrap",
      "correlate n=2 c=2 d=6 h=7 w=8 t=5 r=4 s=3 factors=3 value=1 dilation=2 boundary=y=edge type=f64",
      "convolve d=6 h=7 w=8 t=9 r=1 s=5 factors=4 mode=full type=f16",
      "correlate n=2 c=3 d=5 h=9 w=8 t=1 r=5 s=6 factors=2 output-strides=2000,620,620,120,12,1",
  };
  falt_device *device = device_with("", 2);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    const falt_problem p = parse(lines[i]);
    int passes = 0;
    assert_int_equal(falt_verify(device, &p, NULL, i + 1, note, &passes), FALT_OK);
    if (passes != 1) fail_msg("%s: %d verdicts on passes", lines[i], passes);
  }
  falt_device_destroy(&device);
}

/* ---- the filter's pointer */

typedef struct operands {
  falt_operands set;
  float *output;
  int64_t count;
} operands;

static operands operands_of(const falt_problem *p, const falt_plan *plan, float *values) {
  operands o = {.count = falt_tensor_span(&p->output)};
  const int64_t in = falt_tensor_span(&p->input);
  o.set.input = malloc((size_t)in * sizeof(float));
  o.set.output = o.output = malloc((size_t)o.count * sizeof(float));
  o.set.filter = values;
  o.set.workspace = falt_alloc(falt_plan_workspace(plan) + 1);
  assert_true(o.set.input && o.set.output && o.set.workspace);
  falt_random_fill(o.set.input, FALT_F32, in, 9);
  return o;
}

static void release(operands *o) {
  free(o->set.input);
  free(o->set.output);
  falt_free(o->set.workspace);
}

/* Given factors may change from one execution to the next; known ones need not stay. The slabs of a host's execution
 * take both. */
static void test_pointer(UNUSED void **state) {
  const falt_problem p = parse("convolve h=40 w=50 r=301 s=201 factors=2 boundary=symmetric");
  const size_t bytes = (size_t)falt_problem_filter_elements(&p) * sizeof(float);
  falt_device *device = device_with("", 2);
  falt_plan *given, *known;
  float *values = values_of(&p), *other = malloc(bytes);
  assert_int_equal(bytes, 2 * (1 + 301 + 201) * sizeof(float));
  memcpy(other, values, bytes);
  assert_int_equal(falt_plan_create(&given, device, &p, NULL, NULL), FALT_OK);
  assert_int_equal(falt_plan_create(&known, device, &p, NULL, other), FALT_OK);
  for (size_t i = 0; i < bytes / sizeof *other; i++) other[i] = NAN; /* known factors were copied */
  assert_int_equal(falt_plan_bytes(given, "filter"), bytes);
  assert_int_equal(falt_plan_bytes(known, "filter"), 0);
  operands a = operands_of(&p, given, values), b = operands_of(&p, known, NULL);
  assert_int_equal(falt_execute(known, &b.set), FALT_OK);
  for (int host = 0; host < 2; host++) {
    memset(a.output, 0, (size_t)a.count * sizeof(float));
    assert_int_equal(host ? falt_execute_host(given, &a.set) : falt_execute(given, &a.set), FALT_OK);
    for (int64_t i = 0; i < a.count; i++) assert_true(fabsf(a.output[i] - b.output[i]) < 1e-2f);
  }
  for (size_t i = 0; i < bytes / sizeof *values; i++) values[i] = 0;
  assert_int_equal(falt_execute(given, &a.set), FALT_OK);
  for (int64_t i = 0; i < a.count; i++) assert_true(a.output[i] == 0);
  a.set.filter = NULL;
  assert_int_equal(falt_execute(given, &a.set), FALT_INVALID_ARGUMENT);
  expect_message("filter");
  release(&a);
  release(&b);
  falt_plan_destroy(&given);
  falt_plan_destroy(&known);
  falt_device_destroy(&device);
  free(values);
  free(other);
}

/* ---- kernels */

static void test_kernels(UNUSED void **state) {
  static const char *const entries[] = {"falt_expand_factors", "falt_pass_factors"};
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
      const falt_cuda_kernel kernel = {.source = "expand_factors.cu", .entry = entries[i]};
      compile(&kernel, architectures[a], 64, 0);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_every_problem_has_a_plan, set_up),
                                     cmocka_unit_test_setup(test_verified, set_up),
                                     cmocka_unit_test_setup(test_pointer, set_up), cmocka_unit_test(test_kernels)};
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
