/* Tests of the CPU device: names, options, environment, limits measured, stored and believed. */
#include "api_fixture.h"

#include <math.h>

#include "api/limits_file.h"
#include "core/clock.h"
#include "core/file.h"

/* ------------------------------------------------------------------------------------------------- devices */

static void expect_name(const char *isa, int threads, const char *name) {
  falt_device *device = device_with(isa, threads);
  assert_string_equal(falt_device_name(device), name);
  falt_device_destroy(&device);
  assert_null(device);
}

static void test_device(UNUSED void **state) {
  char name[96];
  expect_name("portable", 3, "cpu portable threads=3");
  snprintf(name, sizeof name, "cpu %s threads=%d", falt_isa_name(falt_isa_best()), falt_cores_available());
  expect_name("", 0, name);
  falt_device *device;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  assert_string_equal(falt_device_name(device), name);
  falt_device_destroy(&device);
  falt_device_destroy(&device);
  falt_device_destroy(NULL);
  assert_int_equal(falt_device_cpu(NULL, NULL), FALT_INVALID_ARGUMENT);
}

/* A cap falls to the best level that runs: on any machine every name is legal. */
static void test_isa_cap(UNUSED void **state) {
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
    falt_device *device = device_with(falt_isa_name((falt_isa)isa), 1);
    assert_true(device->isa <= (falt_isa)isa && falt_isa_runs(device->isa));
    if (falt_isa_runs((falt_isa)isa)) assert_int_equal(device->isa, isa);
    falt_device_destroy(&device);
  }
}

static void test_environment(UNUSED void **state) {
  setenv("FALTUNG_ISA", "portable", 1);
  setenv("FALTUNG_THREADS", "5", 1);
  setenv("FALTUNG_DEVICE", "cpu", 1);
  expect_name("", 0, "cpu portable threads=5");
  expect_name("", 2, "cpu portable threads=2");
  static const struct {
    const char *name, *value, *word;
    falt_status status;
  } bad[] = {
      {"FALTUNG_ISA", "sse9", "avx512", FALT_INVALID_ARGUMENT},
      {"FALTUNG_THREADS", "0", "from 1", FALT_INVALID_ARGUMENT},
      {"FALTUNG_THREADS", "two", "'two'", FALT_INVALID_ARGUMENT},
      {"FALTUNG_THREADS", "99999999999999999999", "from 1", FALT_INVALID_ARGUMENT},
      {"FALTUNG_DEVICE", "gpu", "cuda[:N]", FALT_INVALID_ARGUMENT},
      {"FALTUNG_DEVICE", "cuda:x", "cuda[:N]", FALT_INVALID_ARGUMENT},
      {"FALTUNG_DEVICE", "cuda:1", "cuda:1", FALT_NO_DEVICE},
      {"FALTUNG_VERBOSE", "plan,tine", "'tine'", FALT_INVALID_ARGUMENT},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    set_up(NULL);
    setenv(bad[i].name, bad[i].value, 1);
    falt_device *device = (falt_device *)1;
    assert_int_equal(falt_device_cpu(&device, NULL), bad[i].status);
    assert_null(device);
    expect_message(bad[i].name);
    expect_message(bad[i].word);
  }
  set_up(NULL);
  setenv("FALTUNG_DEVICE", "cuda", 1); /* who gives options has chosen the CPU */
  expect_name("portable", 1, "cpu portable threads=1");
  set_up(NULL);
  setenv("FALTUNG_ISA", "", 1); /* empty is unset */
  setenv("FALTUNG_THREADS", "", 1);
  expect_name("portable", 1, "cpu portable threads=1");
}

static void test_options(UNUSED void **state) {
  falt_device *device;
  falt_cpu_options options;
  falt_cpu_options_default(&options);
  options.threads = -1;
  assert_int_equal(falt_device_cpu(&device, &options), FALT_INVALID_ARGUMENT);
  expect_message("options.threads");
  falt_cpu_options_default(&options);
  strcpy(options.isa, "mmx");
  assert_int_equal(falt_device_cpu(&device, &options), FALT_INVALID_ARGUMENT);
  expect_message("options.isa");
  memset(options.isa, 'x', sizeof options.isa);
  assert_int_equal(falt_device_cpu(&device, &options), FALT_INVALID_ARGUMENT);
  expect_message("options.isa");
}

static void pool_in_order(void *pool, int64_t count, void (*body)(void *context, int64_t index), void *context) {
  ++*(int *)pool;
  for (int64_t i = 0; i < count; i++) body(context, i);
}

static void test_own_pool(UNUSED void **state) {
  int calls = 0;
  falt_device *device;
  falt_cpu_options options;
  falt_cpu_options_default(&options);
  options.threads = 4;
  options.pool = pool_in_order;
  options.pool_data = &calls;
  assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
  assert_int_equal(falt_device_measure(device), FALT_OK);
  assert_true(calls > 0);
  falt_device_destroy(&device);
}

/* -------------------------------------------------------------------------------------------------- limits */

static void expect_sane(const falt_limits *l) {
  assert_true(l->copy_bytes_per_s > 1e8 && l->copy_bytes_per_s < 1e13);
  assert_true(l->cache_bytes_per_s > 1e8 && l->cache_bytes_per_s < 1e14);
  assert_true(l->f32_flops > 1e8 && l->f32_flops < 1e14);
  assert_true(l->f64_flops > 1e8 && l->f64_flops < l->f32_flops * 1.5);
  /* an instruction that adds several bytes' products is there for nothing else; older compilers do without; one of
   * pairs of bf16 may still be the slower way */
  assert_true(l->s8_flops == 0 || l->s8_flops > l->f32_flops);
  assert_true(l->f16_flops == 0 || (l->f16_flops > 1e8 && l->f16_flops < l->s8_flops));
}

static void test_limits(UNUSED void **state) {
  falt_limits one, four, limits;
  falt_device *device = device_with("", 4);
  falt_device_limits(device, &four);
  falt_device_destroy(&device);
  device = device_with("", 1);
  falt_device_limits(device, &one);
  assert_false(one.measured);
  expect_sane(&one);
  assert_true(four.f32_flops == 4 * one.f32_flops);
  double start = falt_seconds();
  assert_int_equal(falt_device_measure(device), FALT_OK);
  assert_true(falt_seconds() - start < 30);
  falt_device_limits(device, &limits);
  assert_true(limits.measured);
  expect_sane(&limits);
  falt_device_destroy(&device);

  falt_limits loaded;
  device = device_with("", 1); /* the next process finds them */
  falt_device_limits(device, &loaded);
  assert_true(loaded.measured && fabs(loaded.f32_flops / limits.f32_flops - 1) < 1e-3);
  assert_true(fabs(loaded.s8_flops - limits.s8_flops) <= 1e-3 * limits.s8_flops);
  falt_device_destroy(&device);
  device = device_with("", 2); /* another number of threads does not */
  falt_device_limits(device, &loaded);
  assert_false(loaded.measured);
  assert_int_equal(falt_device_measure(NULL), FALT_INVALID_ARGUMENT);
  falt_device_destroy(&device);
}

static falt_limits limits_of(const char *isa, int threads) {
  falt_limits limits;
  falt_device *device = device_with(isa, threads);
  falt_device_limits(device, &limits);
  falt_device_destroy(&device);
  return limits;
}

static void store(int threads, double flops) {
  falt_device *device = device_with("portable", threads);
  device->limits.f32_flops = flops;
  assert_int_equal(falt_limits_store(device), FALT_OK);
  falt_device_destroy(&device);
}

/* One line a device; a file that makes no sense is ignored, and replaced by the next measurement. */
static void test_limits_file(UNUSED void **state) {
  char path[256];
  snprintf(path, sizeof path, "%s/limits", directory);
  store(1, 1e10);
  store(2, 2e10);
  store(1, 3e10);
  assert_true(limits_of("portable", 1).f32_flops == 3e10);
  assert_true(limits_of("portable", 2).f32_flops == 2e10);
  static const char *const damaged[] = {"",
                                        "faltung-limits 3\n",
                                        "faltung-limits 4\n1 2 3",
                                        "\n\n",
                                        "faltung-limits 4\n0 0 0 0 0 0 0 0 x\n",
                                        "faltung-limits 4\nnan nan nan nan nan nan nan nan \n"};
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    assert_int_equal(falt_file_write(path, damaged[i], strlen(damaged[i])), FALT_OK);
    assert_false(limits_of("portable", 1).measured);
    store(1, 5e9);
    assert_true(limits_of("portable", 1).f32_flops == 5e9);
  }
  setenv("FALTUNG_CACHE", "/proc/none", 1);
  assert_false(limits_of("portable", 1).measured);
  falt_device *device = device_with("portable", 1);
  assert_int_not_equal(falt_limits_store(device), FALT_OK);
  assert_int_equal(falt_device_measure(device), FALT_OK); /* a cache that cannot be written is no failure */
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_device, set_up),      cmocka_unit_test_setup(test_isa_cap, set_up),
      cmocka_unit_test_setup(test_environment, set_up), cmocka_unit_test_setup(test_options, set_up),
      cmocka_unit_test_setup(test_own_pool, set_up),    cmocka_unit_test_setup(test_limits, set_up),
      cmocka_unit_test_setup(test_limits_file, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
