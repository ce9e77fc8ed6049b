/* Layers in NCHW that are transposed to NHWC: narrow types, given filters, all directions; and given filters that the
 * tasks of many threads pack. The reference's results. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "core/types.h"
#include "faltung/faltung.h"

enum { MOST = 1 << 18 /* bytes of an operand */ };

typedef struct operands {
  _Alignas(64) char input[MOST], filter[MOST], output[MOST];
} operands;

static void run(falt_device *device, const char *line, const char *method, operands *o) {
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan = NULL;
  if (falt_problem_parse(&problem, &budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  snprintf(budget.method, sizeof budget.method, "%s", method);
  if (falt_plan_create(&plan, device, &problem, &budget, NULL) != FALT_OK)
    fail_msg("%s: %s: %s", method, line, falt_message());
  void *workspace = aligned_alloc(64, (falt_plan_workspace(plan) + 64) / 64 * 64);
  const falt_operands list = {.input = o->input, .filter = o->filter, .output = o->output, .workspace = workspace};
  assert_non_null(workspace);
  if (falt_execute(plan, &list) != FALT_OK) fail_msg("%s: %s: %s", method, line, falt_message());
  free(workspace);
  falt_plan_destroy(&plan);
}

/* Small integers, which every type holds and whose sums every path forms exactly. */
static void fill(char *to, falt_type type, uint64_t seed) {
  const int low = type == FALT_U8 ? 0 : -2;
  for (size_t i = 0; i < MOST / falt_type_size(type); i++)
    falt_store(to, type, (int64_t)i, (double)falt_random_int(&seed, low, 2));
}

static void check(falt_device *device, const char *method, const char *line, falt_type type, falt_type weights) {
  static operands found, expected;
  const bool wgrad = strncmp(line, "backward-filter", 15) == 0, backward = strncmp(line, "backward", 8) == 0;
  memset(&found, 0, sizeof found);
  fill(backward ? found.output : found.input, type, 3);
  fill(wgrad ? found.input : found.filter, wgrad ? type : weights, 4);
  expected = found;
  run(device, line, method, &found);
  run(device, line, "reference", &expected);
  if (memcmp(&found, &expected, sizeof found) != 0) fail_msg("%s: results differ from the reference's", line);
}

typedef struct sample {
  const char *method, *line;
  falt_type type, weights;
} sample;

static const sample samples[] = {
    {"depthwise-nchw", "forward n=2 c=38 h=9 w=11 k=38 r=3 s=3 groups=38 pad=1 type=bf16", FALT_BF16, FALT_BF16},
    {"depthwise-nchw", "forward n=1 c=70 h=20 w=17 k=70 r=7 s=7 groups=70 pad=3 type=f16", FALT_F16, FALT_F16},
    {"depthwise-nchw", "forward n=1 c=24 h=14 w=14 k=24 r=9 s=9 groups=24 pad=4 type=u8", FALT_U8, FALT_S8},
    {"depthwise-nchw", "forward n=1 c=20 w=700 k=20 s=9 groups=20 pad=4 type=s8", FALT_S8, FALT_S8},
    {"depthwise-nchw", "backward-data n=2 c=38 h=9 w=31 k=38 r=3 s=3 groups=38 pad=1 stride=2 type=f16", FALT_F16,
     FALT_F16},
    {"fprop-nchw", "forward n=2 c=38 h=9 w=11 k=70 r=3 s=3 pad=1 type=bf16", FALT_BF16, FALT_BF16},
    {"fprop-nchw", "forward n=3 c=70 h=20 w=17 k=9 r=1 s=1 type=f16", FALT_F16, FALT_F16},
    {"fprop-nchw", "forward n=1 c=24 h=14 w=14 k=24 r=3 s=3 stride=2 type=bf16 out-type=f32", FALT_BF16, FALT_BF16},
    {"fprop-nchw", "forward n=1 c=20 w=700 k=20 s=9 pad=4 type=u8 out-type=u8", FALT_U8, FALT_S8},
    {"dgrad-nchw", "backward-data n=2 c=38 h=9 w=11 k=70 r=3 s=3 pad=1 stride=2 type=bf16", FALT_BF16, FALT_BF16},
    {"dgrad-nchw", "backward-data n=3 c=70 h=20 w=17 k=9 r=1 s=1 stride=2 type=f16", FALT_F16, FALT_F16},
    {"dgrad-nchw", "backward-data n=1 c=24 h=14 w=14 k=20 r=3 s=3 pad=1 type=bf16", FALT_BF16, FALT_BF16},
    {"dgrad-nchw", "backward-data n=1 c=20 w=700 k=16 s=9 pad=4 stride=3 dilation=2 type=f16", FALT_F16, FALT_F16},
    {"fprop-nchw", "forward n=3 c=38 h=7 w=7 k=70 r=3 s=3 pad=1", FALT_F32, FALT_F32},
    {"fprop-nchw", "forward n=1 c=70 h=14 w=9 k=20 r=1 s=1 stride=2", FALT_F32, FALT_F32},
    {"dgrad-nchw", "backward-data n=3 c=38 h=7 w=7 k=70 r=3 s=3 pad=1", FALT_F32, FALT_F32},
    {"dgrad-nchw", "backward-data n=1 c=24 h=9 w=14 k=20 r=5 s=1 pad=2 stride=2", FALT_F32, FALT_F32},
    {"wgrad-nchw", "backward-filter n=2 c=38 h=9 w=11 k=70 r=3 s=3 pad=1 stride=2 type=bf16", FALT_BF16, FALT_BF16},
    {"wgrad-nchw", "backward-filter n=3 c=70 h=20 w=17 k=9 r=1 s=1 type=f16", FALT_F16, FALT_F16},
    {"wgrad-nchw", "backward-filter n=2 c=33 h=7 w=7 k=20 r=8 s=9 pad=4 type=f32", FALT_F32, FALT_F32},
    {"wgrad-nchw", "backward-filter n=2 c=38 h=9 w=31 k=38 r=3 s=3 groups=38 pad=1 type=bf16", FALT_BF16, FALT_BF16},
    {"wgrad-nchw", "backward-filter n=1 c=70 h=14 w=14 k=70 r=7 s=7 groups=70 pad=3 type=f32", FALT_F32, FALT_F32},
};

/* For eight threads. */
static const sample many[] = {
    {"depthwise-rowtile", "forward n=1 c=200 h=7 w=28 k=200 r=5 s=5 groups=200 pad=2 layout=nhwc", FALT_F32, FALT_F32},
    {"depthwise-rowtile", "forward n=2 c=37 h=9 w=15 k=37 r=3 s=3 groups=37 pad=1 layout=nhwc type=bf16", FALT_BF16,
     FALT_BF16},
    {"depthwise-rowtile", "forward n=1 c=96 h=14 w=14 k=96 r=7 s=7 groups=96 pad=3 layout=nhwc type=bf16", FALT_BF16,
     FALT_BF16},
    {"igemm-vnni", "forward n=2 c=64 h=14 w=14 k=100 r=3 s=3 pad=1 layout=nhwc type=bf16", FALT_BF16, FALT_BF16},
    {"igemm-vnni", "forward n=1 c=48 h=28 w=28 k=70 r=1 s=1 layout=nhwc type=u8 out-type=s32", FALT_U8, FALT_S8},
    {"direct-nhwc", "forward n=1 c=64 h=7 w=7 k=100 r=3 s=3 pad=1 layout=nhwc", FALT_F32, FALT_F32},
    {"direct-nhwc", "forward n=1 c=70 h=14 w=14 k=77 r=1 s=1 layout=nhwc", FALT_F32, FALT_F32},
    {"igemm-nchw", "forward n=1 c=70 h=14 w=14 k=77 r=3 s=3 pad=1", FALT_F32, FALT_F32},
    {"igemm-nchw-bf16", "forward n=1 c=70 h=14 w=14 k=77 r=3 s=3 pad=1 type=bf16", FALT_BF16, FALT_BF16},
    {"igemm-nchw-bf16", "forward n=1 c=64 h=7 w=7 k=320 r=1 s=1 type=bf16", FALT_BF16, FALT_BF16},
    {"dgrad-strided", "backward-data n=1 c=77 h=14 w=14 k=64 r=3 s=3 pad=1", FALT_F32, FALT_F32},
    {"dgrad-strided", "backward-data n=1 c=128 h=13 w=12 k=40 r=1 s=1", FALT_F32, FALT_F32},
    {"dgrad-strided", "backward-data n=1 c=100 h=7 w=8 k=64 r=3 s=3 pad=1 layout=nhwc", FALT_F32, FALT_F32},
    {"dgrad-nchw", "backward-data n=1 c=66 h=15 w=14 k=70 r=3 s=3 pad=1 stride=2", FALT_F32, FALT_F32},
};

static void check_all(falt_device *device, const sample *list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char line[256];
    const bool wgrad = strncmp(list[i].line, "backward-filter", 15) == 0; /* which takes no word for the filter */
    snprintf(line, sizeof line, "%s%s", list[i].line, wgrad ? "" : " filter=given");
    check(device, list[i].method, line, list[i].type, list[i].weights);
  }
}

static void test_samples(void **state) {
  (void)state;
  falt_device *device;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  check_all(device, samples, sizeof samples / sizeof *samples);
  falt_device_destroy(&device);
}

static void test_many_threads(void **state) {
  (void)state;
  const falt_cpu_options options = {.threads = 8};
  falt_device *device;
  assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
  check_all(device, many, sizeof many / sizeof *many);
  falt_device_destroy(&device);
}

/* Results that round to -0 keep their sign however few channels a task moves: 33 leave one for the last. */
static void test_negative_zeros(void **state) {
  (void)state;
  static operands o[2];
  static const int threads[2] = {1, 8};
  const char *line = "forward n=1 c=33 h=17 w=10 k=33 r=1 s=1 groups=33 type=f16 filter=given";
  for (int i = 0; i < 2; i++) {
    const falt_cpu_options options = {.threads = threads[i]};
    falt_device *device;
    assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
    for (int64_t k = 0; k < (int64_t)(MOST / sizeof(uint16_t)); k++) {
      falt_store(o[i].input, FALT_F16, k, 0x1p-24); /* the least one above 0 */
      falt_store(o[i].filter, FALT_F16, k, -0.25);
    }
    run(device, line, "depthwise-nchw", &o[i]);
    falt_device_destroy(&device);
  }
  assert_memory_equal(o[0].output, o[1].output, sizeof o->output);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples), cmocka_unit_test(test_many_threads),
                                     cmocka_unit_test(test_negative_zeros)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
