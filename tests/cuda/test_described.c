/* GPUs that are described, not present: every CUDA solver plans hundreds of random problems here, without a GPU and
 * without NVRTC; where there is an NVRTC, the kernels of representative problems are compiled and none may spill. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "cuda/cache.h"
#include "faltung/faltung.h"
#include "need_compiler.h"
#include "planner/planner.h"
#include "solver/cuda/filter/cuda_taps.h"

#define UNUSED __attribute__((unused))
enum { LINE = 2048, PROBLEMS = 400 };

static char directory[] = "/tmp/falt-described-XXXXXX";

static falt_device *describe(const char *name, bool compile) {
  falt_device *device;
  falt_cuda_options options;
  falt_cuda_options_default(&options);
  snprintf(options.described, sizeof options.described, "%s", name);
  options.compile = compile;
  if (falt_device_cuda(&device, &options) != FALT_OK) fail_msg("%s", falt_message());
  return device;
}

/* Values for a problem's filter, random ones or all 1; NULL where it has none. */
static void *values_of(const falt_problem *p, bool equal) {
  if (falt_is_pooling(p->operation)) return NULL;
  const int64_t count = falt_problem_filter_elements(p);
  void *values = calloc((size_t)count, falt_type_size(p->filter.type));
  assert_non_null(values);
  falt_random_fill(values, p->filter.type, count, 1);
  for (int64_t i = 0; equal && i < count; i++) falt_store(values, p->filter.type, i, 1);
  return values;
}

/* ---- what is known of them */

static void test_names(UNUSED void **state) {
  static const char *const good[] = {"h200", "h100", "b200", "a100", "l40s", "rtx5090", "sm_80", "sm_90", "sm_90a"};
  static const char *const bad[] = {"gtx", "sm_13", "sm_80a", "sm_", "sm_90b", "sm_900", "90"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    falt_device *device = describe(good[i], false);
    assert_non_null(strstr(falt_device_name(device), "described"));
    falt_device_destroy(&device);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    falt_cuda_options options;
    falt_device *device;
    falt_cuda_options_default(&options);
    strcpy(options.described, bad[i]);
    assert_int_equal(falt_device_cuda(&device, &options), FALT_INVALID_ARGUMENT);
    assert_non_null(strstr(falt_message(), "h200"));
    assert_null(device);
  }
}

/* What their data sheets promise: the estimates stand or fall with it. */
static void test_limits(UNUSED void **state) {
  static const struct {
    const char *name;
    double bytes_per_s, flops;
  } sheets[] = {{"h200", 4.8e12, 67e12},      {"h100", 3.35e12, 67e12}, {"a100", 2.04e12, 19.5e12},
                {"l40s", 864e9, 91.6e12},     {"b200", 8e12, 75e12},    {"rtx4090", 1.008e12, 82.6e12},
                {"rtx5090", 1.79e12, 105e12}, {"t4", 320e9, 8.1e12},    {"v100", 900e9, 15.7e12}};
  for (size_t i = 0; i < sizeof sheets / sizeof *sheets; i++) {
    falt_limits limits;
    falt_device *device = describe(sheets[i].name, false);
    falt_device_limits(device, &limits);
    const double memory = limits.copy_bytes_per_s / sheets[i].bytes_per_s, compute = limits.f32_flops / sheets[i].flops;
    if (memory < 0.8 || memory > 0.95 || compute < 0.85 || compute > 1.0)
      fail_msg("%s: %.2f of its bandwidth, %.2f of its multiply-adds", sheets[i].name, memory, compute);
    falt_device_destroy(&device);
  }
}

/* A described GPU takes the limits that were measured on a real one of its model. */
static void test_measured_limits(UNUSED void **state) {
  static const char text[] =
      "faltung-limits 4\n4.1e12 6e12 5.9e13 3e13 7e14 0 5e10 5e10 cuda:1 NVIDIA H200 sm_90a; NVIDIA H200, 132 SM\n";
  char path[64];
  falt_limits limits;
  snprintf(path, sizeof path, "%s/limits", directory);
  assert_int_equal(falt_file_write(path, text, strlen(text)), FALT_OK);
  falt_device *device = describe("h200", false), *other = describe("h100", false);
  falt_device_limits(device, &limits);
  assert_true(limits.measured && limits.copy_bytes_per_s == 4.1e12);
  falt_device_limits(other, &limits);
  assert_false(limits.measured);
  falt_device_destroy(&device);
  falt_device_destroy(&other);
  unlink(path);
}

/* ---- planning */

/* Plans by one solver or by any; false if it does not apply. */
static bool plans(falt_device *device, const falt_problem *p, const char *method, const void *values) {
  falt_budget budget;
  falt_plan *plan;
  char text[512];
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", method);
  const falt_status status = falt_plan_create(&plan, device, p, &budget, values);
  if (status == FALT_INTERNAL) fail_msg("%s", falt_message());
  if (status != FALT_OK) return false;
  assert_true(falt_plan_print(plan, text, sizeof text) > 2 && text[0] == '(');
  assert_true(plan->cost.seconds > 0 && plan->cost.seconds < 1e6);
  falt_plan_destroy(&plan);
  return true;
}

/* By every solver that has not planned `most` problems yet, with taps that are known and, if asked for, with those that
 * are not. */
static void plan_all(falt_device *device, const char *line, bool equal, bool unknown, int most, int *planned) {
  falt_problem p;
  falt_budget budget;
  if (falt_problem_parse(&p, &budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  p.filter_when = FALT_FILTER_AUTO;
  void *values = values_of(&p, equal);
  if (!plans(device, &p, "", values)) fail_msg("%s: %s", line, falt_message());
  for (int i = 0; falt_solvers[i]; i++) {
    if (strcmp(falt_solvers[i]->device_kind, "cuda") != 0 || planned[i] >= most) continue;
    planned[i] += plans(device, &p, falt_solvers[i]->name, values);
    if (unknown) planned[i] += plans(device, &p, falt_solvers[i]->name, NULL);
  }
  free(values);
}

static const char *const fixed[] = {
    "correlate w=100000 s=7 boundary=edge type=f16",
    "correlate w=65536 s=31",
    "correlate h=480 w=640 r=3 s=3 boundary=symmetric",
    "correlate h=480 w=640 r=5 s=5 pixel=3 boundary=reflect101 type=u8",
    "convolve h=480 w=640 r=15 s=15 boundary=wrap",
    "correlate h=480 w=640 r=5 s=5 stride=2",
    "correlate h=480 w=640 r=5 s=5 dilation=3 type=u16",
    "correlate h=480 w=640 r=31 s=31 rank=1 boundary=edge",
    "correlate n=16 h=256 w=256 r=3 s=3 type=bf16",
    "correlate d=64 h=64 w=64 t=3 r=3 s=3",
    "correlate h=480 w=640 r=5 s=5 boundary=wrap type=s16",
    "forward n=8 c=64 h=28 w=28 k=128 r=3 s=3 pad=1 type=f16 layout=nhwc bias=1",
    "backward-data n=8 c=64 h=28 w=28 k=128 r=3 s=3 pad=1 stride=2 type=bf16 layout=nhwc",
    "backward-data n=8 c=64 h=28 w=28 k=64 groups=8 r=3 s=3 pad=1 stride=2 type=f16 layout=nhwc",
    "backward-filter n=8 c=64 w=500 k=128 s=3 pad=1 type=f16 layout=nwc",
    "backward-filter n=8 c=3 h=64 w=64 k=64 r=7 s=7 stride=2 pad=3 type=f16 layout=nhwc",
    "backward-filter n=8 c=64 h=32 w=32 k=64 r=3 s=3 pad=1 type=f16",
    "backward-filter n=8 c=64 h=28 w=28 k=64 groups=64 r=7 s=7 pad=3 type=f16",
    "forward n=8 c=64 h=28 w=28 k=128 r=3 s=3 pad=1 type=f16 residual=1",
    "backward-data n=1 c=96 h=12 w=13 k=512 r=3 s=3 pad=1",
    "backward-filter n=2 c=96 h=32 w=32 k=512 r=3 s=3 pad=1",
    "forward n=8 c=3 h=64 w=64 k=96 r=16 s=16 stride=16 type=f16 layout=nhwc",
    "correlate h=480 w=640 pixel=3 r=31 s=31 factors=2 type=u8",
    "convolve h=480 w=640 r=1361 s=1361 factors=2 value=3",
};

static void test_plans(UNUSED void **state) {
  int planned[128] = {0};
  char line[LINE];
  falt_device *device = describe("h200", false), *small = describe("t4", false);
  for (uint64_t seed = 1; seed <= PROBLEMS; seed++) {
    falt_problem_random(seed, line, sizeof line);
    plan_all(seed % 4 ? device : small, line, false, true, INT_MAX, planned);
  }
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    for (int equal = 0; equal < 2; equal++) plan_all(device, fixed[i], equal, true, INT_MAX, planned);
  for (int i = 0; falt_solvers[i]; i++) {
    const bool cuda = strcmp(falt_solvers[i]->device_kind, "cuda") == 0;
    const bool needs_gpu = falt_solvers[i]->only_by_name; /* vendors' libraries */
    if (cuda && !needs_gpu && !planned[i]) fail_msg("%s plans nothing of %d problems", falt_solvers[i]->name, PROBLEMS);
  }
  falt_device_destroy(&device);
  falt_device_destroy(&small);
}

/* TMA writes 16 bytes at least: where so many do not divide a line of results, other stores keep what lies
 * behind it. */
static void test_gaps(UNUSED void **state) {
  static const struct {
    const char *line, *part; /* of what the plan prints; NULL: there is none */
    bool there;
  } cases[] = {
      {"forward n=2 c=64 h=9 w=8 k=64 r=1 s=1 type=f16 input-strides=5120,0,80,0,8,1 output-strides=5120,0,80,0,8,1 "
       "method=cuda-igemm-sm90",
       " boxes", true},
      {"forward n=2 c=64 h=9 w=7 k=64 r=1 s=1 type=f16 input-strides=5120,0,80,0,7,1 output-strides=5120,0,80,0,7,1 "
       "method=cuda-igemm-sm90",
       " boxes", false},
      {"forward c=8 d=9 h=24 w=40 k=16 t=3 r=3 s=3 pad=1 type=f16 layout=ndhwc weight-layout=oidhw "
       "output-strides=138240,0,8640,960,40,1 method=cuda-igemm-sm90-halo",
       " planar", true},
      {"forward c=8 d=9 h=24 w=37 k=16 t=3 r=3 s=3 pad=1 type=f16 layout=ndhwc weight-layout=oidhw "
       "output-strides=138240,0,8640,960,40,1 method=cuda-igemm-sm90-halo",
       NULL, false},
  };
  falt_device *device = describe("h200", false);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_plan *plan;
    char text[512] = "";
    const bool planned = falt_plan_create_line(&plan, device, cases[i].line, NULL) == FALT_OK;
    if (planned) falt_plan_print(plan, text, sizeof text);
    if (planned != (cases[i].part != NULL)) fail_msg("%s: %s", cases[i].line, planned ? text : falt_message());
    if (planned && (strstr(text, cases[i].part) != NULL) != cases[i].there) fail_msg("%s: %s", cases[i].line, text);
    falt_plan_destroy(&plan);
  }
  falt_device_destroy(&device);
}

/* Bands hold taps in parts, which infinities and NaN have not. */
static void test_taps_not_finite(UNUSED void **state) {
  static const char *const types[] = {"u8", "s8", "f16", "bf16", "f32"};
  static const float odd[] = {INFINITY, -INFINITY, NAN};
  falt_device *device = describe("h200", false);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    float taps[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
    char line[LINE];
    falt_problem p;
    snprintf(line, sizeof line, "correlate h=48 w=64 r=3 s=3 type=%s weight-type=f32", types[i]);
    assert_int_equal(falt_problem_parse(&p, NULL, line), FALT_OK);
    assert_true(plans(device, &p, "cuda-toeplitz", taps));
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
      taps[4] = odd[k];
      assert_false(plans(device, &p, "cuda-toeplitz", taps));
      assert_true(plans(device, &p, "", taps));
    }
  }
  falt_device_destroy(&device);
}

static void count(void *context, const falt_candidate *candidate) {
  assert_true(candidate->seconds_median == 0 && (candidate->rejected || candidate->predicted_seconds > 0));
  ++*(int *)context;
}

/* Estimates, no measurements; and nothing that would run. */
static void test_refusals(UNUSED void **state) {
  falt_device *device = describe("sm_90a", false);
  falt_problem p;
  falt_plan *plan;
  void *memory;
  char byte = 0;
  int candidates = 0;
  assert_int_equal(falt_problem_parse(&p, NULL, fixed[2]), FALT_OK);
  void *values = values_of(&p, false);
  assert_int_equal(falt_explain(device, &p, NULL, values, 0.1, count, &candidates), FALT_OK);
  assert_true(candidates > 1);
  assert_int_equal(falt_plan_create(&plan, device, &p, NULL, values), FALT_OK);
  char *const far = (char *)((uintptr_t)1 << 40); /* apart; nobody reads there */
  const falt_operands operands = {.input = far,
                                  .filter = far + ((size_t)1 << 40),
                                  .output = far + ((size_t)2 << 40),
                                  .workspace = far + ((size_t)3 << 40)};
  assert_int_equal(falt_execute_host(plan, &operands), FALT_NO_DEVICE);
  assert_non_null(strstr(falt_message(), "described, not present"));
  assert_int_equal(falt_execute(plan, &operands), FALT_NO_DEVICE);
  assert_int_equal(falt_device_alloc(device, &memory, 64), FALT_NO_DEVICE);
  assert_int_equal(falt_device_write(device, &byte, &byte, 1), FALT_NO_DEVICE);
  assert_int_equal(falt_device_read(device, &byte, &byte, 1), FALT_NO_DEVICE);
  assert_int_equal(falt_device_synchronize(device), FALT_NO_DEVICE);
  assert_int_equal(falt_device_measure(device), FALT_NO_DEVICE);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
  free(values);
}

/* ---- compiling */

typedef struct summary {
  int kernels, spilling;
  char worst[512];
} summary;

/* The generic kernel calls the mathematical library, which saves registers; the others are to stay within theirs. */
static void examine(void *context, const falt_cached_kernel *k) {
  summary *s = context;
  assert_null(k->damage);
  assert_true(k->registers >= 8 && k->registers <= 255);
  assert_true(k->shared_bytes <= 48 << 10); /* more must be asked for as dynamic shared memory */
  s->kernels++;
  if (strcmp(k->source, "cuda_generic.cu") == 0 || k->spill_bytes == 0) return;
  s->spilling++;
  snprintf(s->worst, sizeof s->worst, "%s %s: %d bytes spilled, %s", k->source, k->arch, k->spill_bytes, k->holes);
}

/* Each problem with one kind of taps, each solver with a few problems: a kernel takes the compiler a second or two, and
 * every solver has a test that compiles its kernels. */
static void compile_all(const char *name) {
  falt_device *device = describe(name, true);
  int planned[128] = {0};
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) plan_all(device, fixed[i], i % 2, false, 3, planned);
  falt_device_destroy(&device);
}

static void test_compile(UNUSED void **state) {
  summary first = {.kernels = 0}, again = {.kernels = 0};
  need_compiler();
  compile_all("h200");
  assert_int_equal(falt_cache_kernels(examine, &first), FALT_OK);
  if (first.spilling) fail_msg("%d kernels spill; %s", first.spilling, first.worst);
  assert_true(first.kernels >= 8);
  compile_all("h200"); /* finds them */
  assert_int_equal(falt_cache_kernels(examine, &again), FALT_OK);
  assert_int_equal(first.kernels, again.kernels);
}

static void *plan_some(void *device) {
  falt_problem p;
  falt_plan *plan;
  bool planned = true;
  for (size_t i = 0; i < 4; i++) {
    planned &= falt_problem_parse(&p, NULL, fixed[i]) == FALT_OK;
    planned &= falt_plan_create(&plan, device, &p, NULL, NULL) == FALT_OK;
    falt_plan_destroy(&plan);
  }
  return planned ? device : NULL;
}

/* Threads compile at the same time, the same kernels too: each plan finds its own. */
static void test_threads_compile(UNUSED void **state) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  need_compiler();
  falt_device *device = describe("h100", true);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, plan_some, device), 0);
  for (int i = 0; i < THREADS; i++) {
    void *planned = NULL;
    assert_int_equal(pthread_join(threads[i], &planned), 0);
    assert_ptr_equal(planned, device);
  }
  falt_device_destroy(&device);
}

/* Compiling for elsewhere without a place to put it is an error, unlike compiling for here. */
static void test_nowhere(UNUSED void **state) {
  falt_problem p;
  falt_plan *plan;
  need_compiler();
  falt_device *device = describe("h200", true);
  assert_int_equal(falt_problem_parse(&p, NULL, fixed[2]), FALT_OK);
  setenv("FALTUNG_CACHE", "/proc/self/none", 1);
  assert_int_equal(falt_plan_create(&plan, device, &p, NULL, NULL), FALT_NO_FILE);
  setenv("FALTUNG_CACHE", directory, 1);
  falt_device_destroy(&device);
}

static int set_up(UNUSED void **state) {
  return !mkdtemp(directory) || setenv("FALTUNG_CACHE", directory, 1);
}

static int tear_down(UNUSED void **state) {
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", directory);
  return system(command);
}

/* ---- taps of separable tiles */

/* Bytes are tiny floats to the kernel and taps are scaled to meet them: what threads at the image's edge make of the
 * terms must stay finite, and be the filter times one power of two. */
static void test_scaled_terms(UNUSED void **state) {
  static const char *const lines[] = {"correlate d=9 h=31 w=132 t=3 r=5 s=5 type=u8 method=cuda-separable",
                                      "correlate d=9 h=31 w=132 t=3 r=5 s=5 type=u16 method=cuda-separable",
                                      "correlate h=31 w=132 r=9 s=9 type=u8 method=cuda-separable"};
  falt_device *device = describe("h200", false);
  for (size_t l = 0; l < sizeof lines / sizeof *lines; l++) {
    falt_problem p;
    falt_budget budget;
    falt_plan *plan = NULL;
    float factor[3][9], taps[9 * 9 * 9];
    assert_int_equal(falt_problem_parse(&p, &budget, lines[l]), FALT_OK);
    const int n[3] = {(int)p.filter.size[FALT_D], (int)p.filter.size[FALT_H], (int)p.filter.size[FALT_W]};
    for (int a = 0; a < 3; a++)
      for (int i = 0; i < n[a]; i++) factor[a][i] = (float)(4 - i % 3); /* integers stay such */
    for (int i = 0; i < n[0] * n[1] * n[2]; i++)
      taps[i] = factor[0][i / n[2] / n[1]] * factor[1][i / n[2] % n[1]] * factor[2][i % n[2]];
    budget.max_error = 1e-6;
    if (falt_plan_create(&plan, device, &p, &budget, taps) != FALT_OK) fail_msg("%s", falt_message());
    const float *of = (const float *)(const void *)((const falt_taps_plan *)plan)->values;
    const float *g = of + n[0], *h = g + n[1], first = (n[0] == 1 ? 1 : of[0]) * g[0] * h[0] / taps[0];
    for (int i = 0; i < n[0] * n[1] * n[2]; i++) {
      const float tap = (n[0] == 1 ? 1 : of[i / n[2] / n[1]]) * g[i / n[2] % n[1]] * h[i % n[2]];
      if (!(fabsf(tap / taps[i] / first - 1) < 1e-5f)) fail_msg("%s: tap %d becomes %g", lines[l], i, (double)tap);
    }
    falt_plan_destroy(&plan);
  }
  falt_device_destroy(&device);
}

/* ---- the constant beyond the ends */

/* Elements may be tiny floats only where the constant is one of them. The kernels make it of the value itself. */
static void test_constants(UNUSED void **state) {
  static const struct {
    const char *line;
    bool tiny;
  } cases[] = {{"correlate h=31 w=132 r=3 s=3 value=3 type=u8 method=cuda-direct", true},
               {"correlate h=31 w=132 r=3 s=3 value=-3 type=u8 method=cuda-direct", false},
               {"correlate h=31 w=132 r=3 s=3 value=256 type=u8 method=cuda-direct", false},
               {"correlate h=31 w=132 r=3 s=3 value=256 type=u16 method=cuda-25d", true},
               {"correlate h=31 w=132 r=3 s=3 value=0.5 type=u8 method=cuda-25d", false},
               {"correlate h=31 w=132 r=3 s=3 value=-3 boundary=wrap type=u8 method=cuda-direct", true},
               {"correlate d=3 h=4 w=5 t=3 r=5 s=3 mode=full value=-3 type=u8 out-type=u16 method=cuda-direct", false}};
  falt_device *device = describe("h200", false);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_problem p;
    falt_budget budget;
    falt_plan *plan = NULL;
    falt_cuda_kernel kernel = {.defines = 0};
    assert_int_equal(falt_problem_parse(&p, &budget, cases[i].line), FALT_OK);
    void *values = values_of(&p, true);
    if (falt_plan_create(&plan, device, &p, &budget, values) != FALT_OK) fail_msg("%s", falt_message());
    falt_taps_defines(&kernel, (const falt_taps_plan *)plan);
    bool tiny = false;
    for (int h = 0; h < kernel.defines; h++) tiny |= strcmp(kernel.define[h], "TINY=1") == 0;
    if (tiny != cases[i].tiny) fail_msg("%s: tiny %d", cases[i].line, tiny);
    assert_true(((const falt_taps_plan *)plan)->args.fill == p.boundary_value);
    falt_plan_destroy(&plan);
    free(values);
  }
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),           cmocka_unit_test(test_limits),
      cmocka_unit_test(test_measured_limits), cmocka_unit_test(test_plans),
      cmocka_unit_test(test_refusals),        cmocka_unit_test(test_compile),
      cmocka_unit_test(test_threads_compile), cmocka_unit_test(test_nowhere),
      cmocka_unit_test(test_scaled_terms),    cmocka_unit_test(test_gaps),
      cmocka_unit_test(test_taps_not_finite), cmocka_unit_test(test_constants),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
