/* The convolver against sums in f64: many signals, calls of any size, exchanged responses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/random.h"
#include "faltung/faltung.h"

#define UNUSED __attribute__((unused))
enum { INPUTS = 3, OUTPUTS = 2 };

static falt_device *device;
static uint64_t seed = 7;

static float *signal_of(int64_t n) {
  float *x = malloc((size_t)(n ? n : 1) * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(2 * falt_random_unit(&seed) - 1);
  return x;
}

typedef struct fixture {
  int64_t taps, samples;
  float *x[INPUTS], *h[OUTPUTS * INPUTS], *y[OUTPUTS];
} fixture;

static void open_fixture(fixture *f, int64_t taps, int64_t samples) {
  *f = (fixture){.taps = taps, .samples = samples};
  for (int i = 0; i < INPUTS; i++) f->x[i] = signal_of(samples);
  for (int i = 0; i < OUTPUTS * INPUTS; i++) f->h[i] = i == 1 ? NULL : signal_of(taps);
  for (int o = 0; o < OUTPUTS; o++) f->y[o] = signal_of(samples);
}

static void close_fixture(fixture *f) {
  for (int i = 0; i < INPUTS; i++) free(f->x[i]);
  for (int i = 0; i < OUTPUTS * INPUTS; i++) free(f->h[i]);
  for (int o = 0; o < OUTPUTS; o++) free(f->y[o]);
}

static falt_convolver *make_late(const fixture *f, int64_t partition, int growth, int64_t latency) {
  falt_convolver *c = NULL;
  falt_convolver_options options;
  falt_convolver_options_default(&options);
  options.inputs = INPUTS, options.outputs = OUTPUTS, options.taps = f->taps;
  options.partition = partition, options.growth = growth, options.latency = latency;
  assert_int_equal(falt_convolver_create(&c, device, &options, (const void *const *)f->h), FALT_OK);
  return c;
}

static falt_convolver *make(const fixture *f, int64_t partition, int growth) {
  return make_late(f, partition, growth, 0);
}

/* Calls of 1 to `most` samples. */
static void run(falt_convolver *c, const fixture *f, int64_t most, float *const y[OUTPUTS]) {
  for (int64_t at = 0; at < f->samples;) {
    int64_t n = falt_random_int(&seed, 1, most);
    if (n > f->samples - at) n = f->samples - at;
    const void *in[INPUTS];
    void *out[OUTPUTS];
    for (int i = 0; i < INPUTS; i++) in[i] = f->x[i] + at;
    for (int o = 0; o < OUTPUTS; o++) out[o] = y[o] + at;
    assert_int_equal(falt_convolver_process(c, in, out, n), FALT_OK);
    at += n;
  }
}

static double exact_at(const fixture *f, int o, int64_t n, double *magnitude) {
  double sum = 0;
  *magnitude = 0;
  for (int i = 0; i < INPUTS; i++)
    for (int64_t j = 0; f->h[o * INPUTS + i] && j < f->taps && j <= n; j++) {
      const double product = (double)f->h[o * INPUTS + i][j] * (double)f->x[i][n - j];
      sum += product;
      *magnitude += fabs(product);
    }
  return sum;
}

static void check(const fixture *f, float *const y[OUTPUTS], int64_t step) {
  for (int o = 0; o < OUTPUTS; o++)
    for (int64_t n = 0; n < f->samples; n += n < 40 ? 1 : step) {
      double magnitude;
      const double exact = exact_at(f, o, n, &magnitude), error = fabs((double)y[o][n] - exact);
      if (!(error <= 4e-6 * magnitude + 1e-5))
        fail_msg("taps %lld, output %d, sample %lld: %g instead of %g", (long long)f->taps, o, (long long)n,
                 (double)y[o][n], exact);
    }
}

static void test_against_sums(UNUSED void **state) {
  static const int64_t taps[] = {1, 5, 511, 512, 513, 900, 5000, 20000, 70001};
  for (size_t i = 0; i < sizeof taps / sizeof *taps; i++) {
    fixture f;
    open_fixture(&f, taps[i], 3 * taps[i] < 30000 ? 30000 : 90000);
    falt_convolver *c = make(&f, 0, i % 2 ? 0 : 4);
    run(c, &f, 700, f.y);
    check(&f, f.y, 97 * (1 + taps[i] / 5000));
    falt_convolver_destroy(&c);
    close_fixture(&f);
  }
}

/* Every latency, with taps before, at and behind the first level. */
static void test_latency(UNUSED void **state) {
  static const int64_t taps[] = {1, 256, 513, 3000, 20000}, latency[] = {1, 300, 512};
  for (size_t i = 0; i < 5; i++)
    for (size_t j = 0; j < 3; j++) {
      fixture f;
      open_fixture(&f, taps[i], 30000 + latency[j]);
      falt_convolver *c = make_late(&f, 0, i % 2 ? 1 : 4, latency[j]);
      run(c, &f, 700, f.y);
      float *y[OUTPUTS];
      for (int o = 0; o < OUTPUTS; o++) {
        for (int64_t n = 0; n < latency[j]; n++) assert_true(fabsf(f.y[o][n]) <= 1e-4F);
        y[o] = f.y[o] + latency[j];
      }
      f.samples -= latency[j];
      check(&f, y, 97 * (1 + taps[i] / 5000));
      falt_convolver_destroy(&c);
      close_fixture(&f);
    }
}

/* Bits do not depend on the sizes of calls, and a reset forgets everything. */
static void test_calls(UNUSED void **state) {
  fixture f;
  open_fixture(&f, 9000, 40000);
  falt_convolver *c = make(&f, 0, 0);
  float *again[OUTPUTS] = {signal_of(f.samples), signal_of(f.samples)};
  run(c, &f, 3, f.y);
  falt_convolver_reset(c);
  run(c, &f, 100000, again);
  for (int o = 0; o < OUTPUTS; o++) {
    assert_memory_equal(again[o], f.y[o], (size_t)f.samples * sizeof(float));
    free(again[o]);
  }
  falt_convolver_destroy(&c);
  close_fixture(&f);
}

/* Outputs go over to the new responses, each between the two results, and stay with them. */
static void test_exchange(UNUSED void **state) {
  fixture f, other;
  open_fixture(&f, 3000, 40000);
  other = f;
  for (int i = 0; i < OUTPUTS * INPUTS; i++) other.h[i] = f.h[i] ? signal_of(f.taps) : NULL;
  float *new[OUTPUTS] = {signal_of(f.samples), signal_of(f.samples)};
  float *both[OUTPUTS] = {signal_of(f.samples), signal_of(f.samples)};
  falt_convolver *a = make(&f, 0, 0), *b = make(&other, 0, 0), *c = make(&f, 0, 0);
  run(a, &f, 500, f.y);
  run(b, &f, 500, new);
  assert_int_equal(falt_convolver_exchange(c, (const void *const *)other.h), FALT_OK);
  run(c, &f, 500, both);
  for (int o = 0; o < OUTPUTS; o++) {
    int64_t n = 0;
    while (n < f.samples && both[o][n] == f.y[o][n]) n++;
    assert_in_range(n, 256, 3 * 2048);
    for (int64_t i = n; i < n + 512; i++) {
      const double low = fmin((double)f.y[o][i], (double)new[o][i]), high = fmax((double)f.y[o][i], (double)new[o][i]);
      assert_true((double)both[o][i] >= low - 1e-4 && (double)both[o][i] <= high + 1e-4);
    }
    assert_memory_equal(both[o] + n + 512, new[o] + n + 512, (size_t)(f.samples - n - 512) * sizeof(float));
    free(new[o]), free(both[o]);
  }
  falt_convolver_destroy(&a), falt_convolver_destroy(&b), falt_convolver_destroy(&c);
  for (int i = 0; i < OUTPUTS * INPUTS; i++) free(other.h[i]);
  close_fixture(&f);
}

/* In place, in f64, and an exchange that waits when the convolver ends. */
static void test_in_place(UNUSED void **state) {
  double x[3000], y[3000], h[600];
  for (int i = 0; i < 3000; i++) x[i] = y[i] = falt_random_unit(&seed);
  for (int i = 0; i < 600; i++) h[i] = falt_random_unit(&seed);
  falt_convolver_options options;
  falt_convolver *c = NULL;
  falt_convolver_options_default(&options);
  options.taps = 600, options.type = FALT_F64;
  assert_int_equal(falt_convolver_create(&c, device, &options, &(const void *){h}), FALT_OK);
  assert_int_equal(falt_convolver_process(c, &(const void *){y}, &(void *){y}, 3000), FALT_OK);
  for (int n = 0; n < 3000; n += 7) {
    double sum = 0;
    for (int j = 0; j < 600 && j <= n; j++) sum += h[j] * x[n - j];
    assert_true(fabs(sum - y[n]) <= 1e-11);
  }
  assert_int_equal(falt_convolver_exchange(c, &(const void *){h}), FALT_OK);
  falt_convolver_destroy(&c);
  assert_null(c);
  falt_convolver_destroy(&c);
  falt_convolver_reset(NULL);
}

static void refuse(const falt_convolver_options *options, falt_status status, const char *word) {
  falt_convolver *c = NULL;
  const float tap = 1;
  assert_int_equal(falt_convolver_create(&c, device, options, &(const void *){&tap}), status);
  assert_null(c);
  if (!strstr(falt_message(), word)) fail_msg("%s", falt_message());
}

static void test_refusals(UNUSED void **state) {
  falt_convolver_options good, bad;
  falt_convolver_options_default(&good);
  bad = good, bad.inputs = 0, refuse(&bad, FALT_INVALID_ARGUMENT, "0 inputs");
  bad = good, bad.taps = 0, refuse(&bad, FALT_INVALID_ARGUMENT, "options.taps: 0");
  bad = good, bad.partition = 100, refuse(&bad, FALT_INVALID_ARGUMENT, "options.partition: 100");
  bad = good, bad.growth = 3, refuse(&bad, FALT_INVALID_ARGUMENT, "options.growth: 3");
  bad = good, bad.latency = -1, refuse(&bad, FALT_INVALID_ARGUMENT, "options.latency: -1");
  bad = good, bad.latency = 513, refuse(&bad, FALT_INVALID_ARGUMENT, "use 0 to 512");
  bad = good, bad.fade = -1, refuse(&bad, FALT_INVALID_ARGUMENT, "options.fade: -1");
  bad = good, bad.type = FALT_U8, refuse(&bad, FALT_INVALID_TYPE, "f32 or f64");
  bad = good, bad.reserved[0] = 1, refuse(&bad, FALT_INVALID_ARGUMENT, "reserved");
  refuse(NULL, FALT_INVALID_ARGUMENT, "options is NULL");
  assert_int_equal(falt_convolver_process(NULL, NULL, NULL, 0), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_exchange(NULL, NULL), FALT_INVALID_ARGUMENT);
}

/* Gigantic numbers are refused, or memory is. */
static void test_gigantic(UNUSED void **state) {
  static const void *none[1];
  const int64_t most = INT64_C(1) << 40;
  falt_convolver_options good, bad;
  falt_convolver *c = NULL;
  falt_convolver_options_default(&good);
  bad = good, bad.inputs = 65537, refuse(&bad, FALT_INVALID_ARGUMENT, "65537 inputs");
  bad = good, bad.outputs = INT32_MAX, refuse(&bad, FALT_INVALID_ARGUMENT, "1 to 65536");
  bad = good, bad.outputs = -1, refuse(&bad, FALT_INVALID_ARGUMENT, "-1 outputs");
  bad = good, bad.taps = most + 1, refuse(&bad, FALT_INVALID_ARGUMENT, "2^40");
  bad = good, bad.taps = INT64_MIN, refuse(&bad, FALT_INVALID_ARGUMENT, "options.taps");
  bad = good, bad.partition = INT64_MAX, refuse(&bad, FALT_INVALID_ARGUMENT, "options.partition");
  bad = good, bad.growth = INT32_MIN, refuse(&bad, FALT_INVALID_ARGUMENT, "options.growth");
  bad = good, bad.latency = INT64_MAX, refuse(&bad, FALT_INVALID_ARGUMENT, "options.latency");
  bad = good, bad.fade = INT64_MAX, refuse(&bad, FALT_INVALID_ARGUMENT, "options.fade");
  bad = good, bad.type = (falt_type)99, refuse(&bad, FALT_INVALID_TYPE, "f32 or f64");
  assert_int_equal(falt_convolver_create(NULL, device, &good, none), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_create(&c, NULL, &good, none), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_create(&c, device, &good, NULL), FALT_INVALID_ARGUMENT);
  assert_null(c);
}

/* Signals that are NULL, no samples and less than none: refused before anything is taken. No response: zeros. */
static void test_hostile_calls(UNUSED void **state) {
  float x[600], y[600];
  falt_convolver_options options;
  falt_convolver *c = NULL;
  falt_convolver_options_default(&options);
  options.taps = 2000, options.inputs = 2;
  for (int i = 0; i < 600; i++) x[i] = y[i] = 1;
  const void *none[2] = {NULL, NULL};
  assert_int_equal(falt_convolver_create(&c, device, &options, none), FALT_OK);
  assert_int_equal(falt_convolver_process(c, (const void *[]){x, NULL}, &(void *){y}, 600), FALT_INVALID_ARGUMENT);
  assert_string_equal(falt_message(), "input[1] is NULL");
  assert_int_equal(falt_convolver_process(c, (const void *[]){x, x}, &(void *){NULL}, 600), FALT_INVALID_ARGUMENT);
  assert_string_equal(falt_message(), "output[0] is NULL");
  assert_int_equal(falt_convolver_process(c, (const void *[]){x, x}, &(void *){y}, -1), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_process(c, (const void *[]){x, x}, &(void *){y}, INT64_MIN), FALT_INVALID_ARGUMENT);
  assert_true(y[0] == 1 && y[599] == 1);
  assert_int_equal(falt_convolver_process(c, none, &(void *){NULL}, 0), FALT_OK);
  assert_int_equal(falt_convolver_process(c, (const void *[]){x, x}, &(void *){y}, 600), FALT_OK);
  for (int i = 0; i < 600; i++) assert_true(y[i] == 0);
  falt_convolver_destroy(&c);
}

/* A NaN is heard for the response's length and two of the largest partitions at most, and responses that are not finite
 * until they are exchanged. */
static void test_not_finite(UNUSED void **state) {
  enum { TAPS = 20000, SAMPLES = 60000, AT = 1234, LARGEST = 2048 };
  static float x[SAMPLES], y[SAMPLES], h[TAPS], bad[TAPS];
  falt_convolver_options options;
  falt_convolver *c = NULL;
  falt_convolver_options_default(&options);
  options.taps = TAPS;
  for (int i = 0; i < SAMPLES; i++) x[i] = i == AT ? NAN : 1;
  for (int i = 0; i < TAPS; i++) h[i] = bad[i] = 1;
  bad[7] = INFINITY, bad[TAPS - 1] = NAN;
  assert_int_equal(falt_convolver_create(&c, device, &options, &(const void *){h}), FALT_OK);
  assert_int_equal(falt_convolver_process(c, &(const void *){x}, &(void *){y}, SAMPLES), FALT_OK);
  for (int i = 0; i < AT; i++) assert_true(isfinite(y[i]));
  for (int i = AT; i < AT + TAPS; i++) assert_true(isnan(y[i]));
  for (int i = AT + TAPS + 2 * LARGEST; i < SAMPLES; i++) assert_true(fabsf(y[i] - TAPS) < 1);
  x[AT] = 1;
  falt_convolver_destroy(&c);
  assert_int_equal(falt_convolver_create(&c, device, &options, &(const void *){bad}), FALT_OK);
  assert_int_equal(falt_convolver_exchange(c, &(const void *){h}), FALT_OK);
  assert_int_equal(falt_convolver_process(c, &(const void *){x}, &(void *){y}, SAMPLES), FALT_OK);
  for (int i = TAPS; i < SAMPLES; i++) assert_true(fabsf(y[i] - TAPS) < 1);
  falt_convolver_destroy(&c);
}

/* Each allocation of create and exchange fails once; a failed exchange leaves the responses; process allocates nothing.
 */
static void test_allocation_failure(UNUSED void **state) {
  enum { TAPS = 3000, SAMPLES = 6000, MOST = 200 };
  static float h[TAPS], x[SAMPLES], y[SAMPLES], expected[SAMPLES];
  falt_convolver_options options;
  falt_convolver *c = NULL;
  int made = 0, exchanged = 0;
  falt_convolver_options_default(&options);
  options.taps = TAPS, options.growth = 1;
  for (int i = 0; i < TAPS; i++) h[i] = (float)falt_random_unit(&seed);
  for (int i = 0; i < SAMPLES; i++) x[i] = (float)falt_random_unit(&seed);
  for (falt_status status = FALT_NO_MEMORY; status != FALT_OK; made++) {
    assert_true(made < MOST);
    falt_alloc_fail_after(made);
    status = falt_convolver_create(&c, device, &options, &(const void *){h});
    falt_alloc_fail_after(-1);
    assert_true(status == FALT_OK ? c != NULL : status == FALT_NO_MEMORY && !c);
  }
  assert_true(made > 1);
  assert_int_equal(falt_convolver_process(c, &(const void *){x}, &(void *){expected}, SAMPLES), FALT_OK);
  falt_convolver_reset(c);
  for (falt_status status = FALT_NO_MEMORY; status != FALT_OK; exchanged++) {
    assert_true(exchanged < MOST);
    falt_alloc_fail_after(exchanged);
    status = falt_convolver_exchange(c, &(const void *){h});
    falt_alloc_fail_after(status == FALT_OK ? -1 : 0);
    assert_true(status == FALT_OK || status == FALT_NO_MEMORY);
    if (status == FALT_OK) break;
    assert_int_equal(falt_convolver_process(c, &(const void *){x}, &(void *){y}, SAMPLES), FALT_OK);
    assert_memory_equal(y, expected, sizeof y);
    falt_convolver_reset(c);
  }
  falt_alloc_fail_after(-1);
  assert_true(exchanged > 0);
  falt_convolver_destroy(&c);
}

int main(void) {
  if (falt_device_cpu(&device, NULL) != FALT_OK) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_sums), cmocka_unit_test(test_calls),
                                     cmocka_unit_test(test_latency),      cmocka_unit_test(test_exchange),
                                     cmocka_unit_test(test_in_place),     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_gigantic),     cmocka_unit_test(test_hostile_calls),
                                     cmocka_unit_test(test_not_finite),   cmocka_unit_test(test_allocation_failure)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  falt_device_destroy(&device);
  return failed;
}
