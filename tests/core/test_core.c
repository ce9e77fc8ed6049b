/* Tests of text, status, hash, random numbers, allocation, files and facts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/cpu.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/sanitize.h"
#include "core/status.h"
#include "core/text.h"

#define UNUSED __attribute__((unused))

/* ------------------------------------------------------------------------------------------------- text */

static void test_read_int(UNUSED void **state) {
  static const struct {
    const char *text;
    bool ok;
    int64_t value;
  } cases[] = {{"0", 1, 0},
               {"-0", 1, 0},
               {"+7", 1, 7},
               {"007", 1, 7},
               {"9223372036854775807", 1, INT64_MAX},
               {"-9223372036854775808", 1, INT64_MIN},
               {"9223372036854775808", 0, 0},
               {"-9223372036854775809", 0, 0},
               {"99999999999999999999999", 0, 0},
               {"", 0, 0},
               {"-", 0, 0},
               {"+", 0, 0},
               {"1 ", 0, 0},
               {" 1", 0, 0},
               {"1.0", 0, 0},
               {"0x10", 0, 0},
               {"1e3", 0, 0},
               {"--1", 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t value = 0;
    assert_int_equal(falt_read_int(cases[i].text, strlen(cases[i].text), &value), cases[i].ok);
    assert_int_equal(value, cases[i].value);
  }
  int64_t value;
  assert_true(falt_read_int("12345", 3, &value) && value == 123); /* reads no further than told */
}

static void test_read_double(UNUSED void **state) {
  static const char *const good[] = {"0", "-0", "1.5", ".5", "5.", "1e3", "+1E-3", "inf", "-Infinity", "1e-400", "0.1"};
  static const char *const bad[] = {"",      ".",     "e5",     "1e",     "1,5",   " 1",    "1 ",
                                    "0x1p3", "1e999", "-1e999", "nan(1)", "1.2.3", "infin", "--1"};
  double value;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_true(falt_read_double(good[i], strlen(good[i]), &value));
    assert_true(value == strtod(good[i], NULL));
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_false(falt_read_double(bad[i], strlen(bad[i]), &value));
  assert_true(falt_read_double("NaN", 3, &value) && isnan(value));
  assert_true(falt_read_double("2.5x", 3, &value) && value == 2.5);
  assert_false(falt_read_double("1\0", 2, &value));
  char many[600];
  memset(many, '1', sizeof many);
  assert_false(falt_read_double(many, sizeof many, &value));
}

static double random_double(uint64_t *seed) {
  const uint64_t bits = falt_random(seed);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void check_printed(double value, const char *expected) {
  char data[64];
  falt_text text = falt_text_over(data, sizeof data);
  falt_text_add_double(&text, value);
  assert_string_equal(data, expected);
}

static void test_add_double(UNUSED void **state) {
  check_printed(0, "0");
  check_printed(-0.0, "-0");
  check_printed(0.1, "0.1");
  check_printed(3, "3");
  check_printed(100, "100");
  check_printed(1.0 / 3, "0.3333333333333333");
  check_printed(1e22, "1e+22");
  check_printed(0.1f, "0.10000000149011612");
  check_printed(NAN, "nan");
  check_printed(-NAN, "nan");
  check_printed(-INFINITY, "-inf");
  check_printed(0x1p-1074, "5e-324");
  uint64_t seed = 5;
  for (int i = 0; i < 100000; i++) {
    const double value = random_double(&seed);
    if (isnan(value)) continue;
    char data[64];
    falt_text text = falt_text_over(data, sizeof data);
    falt_text_add_double(&text, value);
    double back;
    assert_true(falt_read_double(data, text.length, &back));
    assert_memory_equal(&back, &value, sizeof value);
  }
}

static void test_locale(UNUSED void **state) {
  if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8")) skip();
  double value;
  assert_true(strtod("1,5", NULL) == 1.5); /* the program's own numbers have a comma now */
  check_printed(1.5, "1.5");
  assert_true(falt_read_double("1.5", 3, &value) && value == 1.5);
  assert_true(strtod("1,5", NULL) == 1.5);
  setlocale(LC_ALL, "C");
}

static void test_text_cuts(UNUSED void **state) {
  char data[8] = "xxxxxxx";
  falt_text text = falt_text_over(data, 5);
  assert_string_equal(data, "");
  falt_text_add(&text, "%s", "abc");
  falt_text_add(&text, "%d", 12345);
  falt_text_add(&text, "more");
  assert_string_equal(data, "abc1");
  assert_int_equal(text.length, 12);
  assert_int_equal(data[5], 'x');
  falt_text count = falt_text_over(NULL, 0);
  falt_text_add(&count, "%s", "four");
  falt_text_add_double(&count, 0.25);
  assert_int_equal(count.length, 8);
}

static void test_names(UNUSED void **state) {
  static const char *const names[] = {"constant", "edge", NULL, "symmetric", "reflect101", "wrap", "gaussian", "max"};
  static const struct {
    const char *text, *nearest;
  } cases[] = {{"edgs", "edge"},
               {"EDGE", "edge"},
               {"egde", "edge"},
               {"reflect", "reflect101"},
               {"wrpa", "wrap"},
               {"simmetrik", "symmetric"},
               {"gauss", "gaussian"},
               {"amx", "max"},
               {"cnostatn", "constant"},
               {"onstantxyz", "constant"},
               {"erfelct011", "reflect101"},
               {"nstantab", "constant"},
               {"nstantabc", NULL},
               {"zzzz", NULL},
               {"", NULL},
               {"q", NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *nearest = falt_nearest_name(cases[i].text, strlen(cases[i].text), names, 8);
    if (cases[i].nearest)
      assert_string_equal(nearest, cases[i].nearest);
    else
      assert_null(nearest);
  }
  char longest[200];
  memset(longest, 'a', sizeof longest);
  assert_null(falt_nearest_name(longest, sizeof longest, names, 8));
  assert_int_equal(falt_find_name("edge", 4, names, 8), 1);
  assert_int_equal(falt_find_name("edge", 3, names, 8), -1);
  assert_int_equal(falt_find_name("wrap=", 4, names, 8), 5);
  assert_int_equal(falt_find_name("Edge", 4, names, 8), -1);
}

/* ----------------------------------------------------------------------------------- status, hash, random */

/* Whether another thread starts without a message. */
static void *other_message(void *is_empty) {
  *(bool *)is_empty = falt_message()[0] == '\0';
  falt_fail(FALT_NO_FILE, "theirs");
  return NULL;
}

static void test_status(UNUSED void **state) {
  assert_int_equal(falt_fail(FALT_INVALID_SIZE, "size: %d\nis %s", 3, "odd"), FALT_INVALID_SIZE);
  assert_string_equal(falt_message(), "size: 3 is odd");
  pthread_t thread;
  bool is_empty = false;
  pthread_create(&thread, NULL, other_message, &is_empty);
  pthread_join(thread, NULL);
  assert_true(is_empty);
  falt_fail(FALT_INVALID_SIZE, "line 7: %s", falt_message()); /* wraps itself */
  assert_string_equal(falt_message(), "line 7: size: 3 is odd");
  falt_fail(FALT_INTERNAL, "%2000d", 1);
  assert_int_equal(strlen(falt_message()), 511);
  assert_string_equal(falt_status_name(FALT_OK), "FALT_OK");
  assert_string_equal(falt_status_name(FALT_INVALID_METHOD), "FALT_INVALID_METHOD");
  assert_string_equal(falt_status_name(FALT_INTERNAL), "FALT_INTERNAL");
  assert_non_null(falt_status_name((falt_status)-5));
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", FALT_VERSION_MAJOR, FALT_VERSION_MINOR, FALT_VERSION_PATCH);
  assert_string_equal(falt_version(), version);
}

static void test_hash(UNUSED void **state) { /* values published with the algorithm */
  assert_true(falt_hash(FALT_HASH_START, "", 0) == UINT64_C(0xcbf29ce484222325));
  assert_true(falt_hash(FALT_HASH_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
  assert_true(falt_hash(FALT_HASH_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
}

static void test_random(UNUSED void **state) {
  uint64_t seed = 1234567; /* first values of the published generator for this seed */
  assert_true(falt_random(&seed) == UINT64_C(6457827717110365317));
  assert_true(falt_random(&seed) == UINT64_C(3203168211198807973));
  assert_true(falt_random(&seed) == UINT64_C(9817491932198370423));
  int seen[7] = {0};
  for (int i = 0; i < 70000; i++) seen[falt_random_int(&seed, -3, 3) + 3]++;
  for (int i = 0; i < 7; i++) assert_in_range(seen[i], 9500, 10500);
  assert_int_equal(falt_random_int(&seed, 5, 5), 5);
  /* 2^64 is 8/3 of this range: without care two of three values would come up three times for each two of the third */
  int residues[3] = {0};
  for (int i = 0; i < 30000; i++) residues[falt_random_int(&seed, 0, 3 * (INT64_C(1) << 61) - 1) % 3]++;
  for (int i = 0; i < 3; i++) assert_in_range(residues[i], 9700, 10300);
  bool negative = false, positive = false;
  for (int i = 0; i < 100; i++) {
    const int64_t value = falt_random_int(&seed, INT64_MIN, INT64_MAX);
    negative |= value < 0;
    positive |= value > 0;
    assert_true(falt_random_int(&seed, INT64_MAX - 1, INT64_MAX) >= INT64_MAX - 1);
    const double unit = falt_random_unit(&seed);
    assert_true(unit >= 0 && unit < 1);
  }
  assert_true(negative && positive);
}

/* ------------------------------------------------------------------------------------------ memory, facts */

static void test_memory(UNUSED void **state) {
  for (size_t size = 0; size < 300; size++) {
    unsigned char *memory = falt_alloc_zero(size);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % FALT_ALIGN, 0);
    for (size_t i = 0; i < size; i++) assert_int_equal(memory[i], 0);
    falt_free(memory);
  }
  falt_free(NULL);
  const volatile size_t huge = SIZE_MAX;
  assert_null(falt_alloc(huge));
  assert_null(falt_alloc(huge - 63));
  assert_null(falt_alloc_zero(huge / 2));
}

/* Blocks that huge pages can hold begin with one; sanitizers have their own order. */
static void test_large_memory(UNUSED void **state) {
  const size_t page = 2 << 20;
  for (size_t size = page; size < 8 * page; size += page / 2 + 12345) {
    unsigned char *memory = falt_alloc(size);
    assert_non_null(memory);
    memset(memory, 1, size);
    if (!FALT_EXACT_ALLOCATION && size >= 2 * page) assert_int_equal((uintptr_t)memory % page, 0);
    falt_free(memory);
  }
}

static void test_failure_injection(UNUSED void **state) {
  for (int n = 0; n < 5; n++) {
    falt_alloc_fail_after(n);
    for (int i = 0; i < 10; i++) {
      void *memory = i % 2 ? falt_alloc(10) : falt_alloc_zero(10);
      assert_int_equal(memory != NULL, i < n);
      falt_free(memory);
    }
  }
  falt_alloc_fail_after(-1);
  void *memory = falt_alloc(10);
  assert_non_null(memory);
  falt_free(memory);
}

static void test_checked_sizes(UNUSED void **state) {
  int64_t result;
  assert_true(falt_mul(3037000499, 3037000499, &result) && result == INT64_C(9223372030926249001));
  assert_false(falt_mul(3037000500, 3037000500, &result));
  assert_true(falt_mul(0, INT64_MAX, &result) && result == 0);
  assert_true(falt_add(INT64_MAX - 1, 1, &result) && result == INT64_MAX);
  assert_false(falt_add(INT64_MAX, 1, &result));
  assert_int_equal(falt_ceil_div(7, 3), 3);
  assert_int_equal(falt_round_up(64, 64), 64);
  assert_int_equal(falt_round_up(65, 64), 128);
}

static void test_facts(UNUSED void **state) {
  const falt_isa best = falt_isa_best();
  assert_true(falt_isa_runs(FALT_ISA_PORTABLE) && falt_isa_runs(best));
  for (falt_isa isa = 0; isa < FALT_ISA_COUNT; isa++) {
    assert_int_equal(falt_isa_find(falt_isa_name(isa)), isa);
    if (isa > best) assert_false(falt_isa_runs(isa));
  }
  assert_int_equal(falt_isa_find("avx"), -1);
#if defined(__x86_64__)
  assert_false(falt_isa_runs(FALT_ISA_NEON));
  __builtin_cpu_init();
  assert_int_equal(falt_isa_runs(FALT_ISA_AVX512),
                   __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
  assert_int_equal(falt_isa_runs(FALT_ISA_AVX2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#endif
  const falt_caches caches = falt_cpu_caches();
  assert_in_range(caches.l1d, 4 << 10, 1 << 20);
  assert_in_range(caches.l2, caches.l1d, 1 << 28);
  assert_true(caches.l3 >= caches.l2);
  const double start = falt_seconds();
  usleep(2000);
  assert_true(falt_seconds() - start >= 0.002);
}

/* ------------------------------------------------------------------------------------------------ files */

static char directory[] = "/tmp/faltung-core-XXXXXX";

static const char *at(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

static int entries(const char *path) {
  int count = 0;
  DIR *listing = opendir(path);
  assert_non_null(listing);
  while (readdir(listing)) count++;
  closedir(listing);
  return count - 2; /* itself and its parent */
}

static void check_file(const char *path, const char *expected) {
  char *text;
  size_t length;
  assert_int_equal(falt_file_read(path, 1 << 20, &text, &length), FALT_OK);
  assert_int_equal(length, strlen(expected));
  assert_string_equal(text, expected);
  falt_free(text);
}

static void test_file_write(UNUSED void **state) {
  assert_int_equal(falt_file_write(at("a/b/c/file"), "one", 3), FALT_NO_FILE);
  assert_non_null(strstr(falt_message(), "there is no directory"));
  assert_non_null(strstr(falt_message(), "a/b/c; make it first"));
  assert_int_equal(access(at("a"), F_OK), -1); /* and none was made */
  assert_int_equal(falt_cache_write(at("a/b/c/file"), "one", 3), FALT_OK);
  check_file(at("a/b/c/file"), "one");
  assert_int_equal(falt_file_write(at("a/b/c/file"), "two, longer", 11), FALT_OK);
  check_file(at("a/b/c/file"), "two, longer");
  assert_int_equal(falt_file_write(at("a/b/c/file"), "", 0), FALT_OK);
  check_file(at("a/b/c/file"), "");
  assert_int_equal(falt_file_write(at("a/b/c/file/below"), "x", 1), FALT_NO_FILE); /* a file is no directory */
  assert_non_null(strstr(falt_message(), "file/below: cannot be written: Not a directory"));
  assert_int_equal(falt_file_write(at("a/b"), "x", 1), FALT_NO_FILE); /* nor the other way round */
  assert_int_equal(falt_file_write("", "x", 1), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_file_write("/proc/nowhere/file", "x", 1), FALT_NO_FILE);
  assert_int_equal(entries(at("a/b/c")), 1); /* nothing temporary stays */
  assert_int_equal(entries(at("a")), 1);
}

static void test_file_read(UNUSED void **state) {
  char *text;
  size_t length;
  assert_int_equal(falt_file_write(at("ten"), "0123456789", 10), FALT_OK);
  assert_int_equal(falt_file_read(at("ten"), 10, &text, &length), FALT_OK);
  falt_free(text);
  assert_int_equal(falt_file_read(at("ten"), 9, &text, &length), FALT_NO_FILE);
  assert_null(text);
  assert_int_equal(falt_file_read(at("none"), 9, &text, &length), FALT_NO_FILE);
  assert_int_equal(falt_file_read(directory, 9, &text, &length), FALT_NO_FILE);
  assert_int_equal(falt_file_read("/dev/zero", 1000, &text, &length), FALT_NO_FILE);
  assert_int_equal(falt_file_read("/dev/null", 1000, &text, &length), FALT_OK);
  assert_int_equal(length, 0);
  falt_free(text);
  falt_alloc_fail_after(0);
  assert_int_equal(falt_file_read(at("ten"), 10, &text, &length), FALT_NO_MEMORY);
  falt_alloc_fail_after(-1);
  char head[5];
  assert_true(falt_file_head(at("ten"), head, sizeof head));
  assert_string_equal(head, "0123");
  assert_false(falt_file_head(at("none"), head, sizeof head));
  assert_string_equal(head, "");
}

typedef struct writer {
  pthread_t thread;
  const char *path;
  char letter;
  int failed;
} writer;

static void *keep_writing(void *argument) {
  writer *self = argument;
  char text[2000];
  memset(text, self->letter, sizeof text);
  for (int i = 0; i < 50; i++) self->failed += falt_file_write(self->path, text, sizeof text) != FALT_OK;
  return NULL;
}

/* Two writers and a reader: the reader always gets all of one text. */
static void test_file_is_whole(UNUSED void **state) {
  const char *path = at("shared");
  writer writers[2] = {{.path = path, .letter = 'a'}, {.path = path, .letter = 'b'}};
  assert_int_equal(falt_file_write(path, "", 0), FALT_OK);
  for (int i = 0; i < 2; i++) pthread_create(&writers[i].thread, NULL, keep_writing, &writers[i]);
  for (int i = 0; i < 200; i++) {
    char *text;
    size_t length;
    assert_int_equal(falt_file_read(path, 4000, &text, &length), FALT_OK);
    assert_true(length == 0 || length == 2000);
    assert_int_equal(strspn(text, text[0] == 'a' ? "a" : "b"), length);
    falt_free(text);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(writers[i].thread, NULL);
    assert_int_equal(writers[i].failed, 0);
  }
}

static void test_cache_path(UNUSED void **state) {
  char path[64];
  setenv("FALTUNG_CACHE", "/c", 1);
  setenv("XDG_CACHE_HOME", "/x", 1);
  setenv("HOME", "/h", 1);
  assert_true(falt_cache_path("wisdom", path, sizeof path));
  assert_string_equal(path, "/c/wisdom");
  assert_false(falt_cache_path("wisdom", path, 9));
  setenv("FALTUNG_CACHE", "", 1);
  assert_true(falt_cache_path("wisdom", path, sizeof path));
  assert_string_equal(path, "/x/faltung/wisdom");
  setenv("XDG_CACHE_HOME", "relative", 1);
  assert_true(falt_cache_path("wisdom", path, sizeof path));
  assert_string_equal(path, "/h/.cache/faltung/wisdom");
  unsetenv("HOME");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("FALTUNG_CACHE");
  assert_false(falt_cache_path("wisdom", path, sizeof path));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_read_int),      cmocka_unit_test(test_read_double),
      cmocka_unit_test(test_add_double),    cmocka_unit_test(test_locale),
      cmocka_unit_test(test_text_cuts),     cmocka_unit_test(test_names),
      cmocka_unit_test(test_status),        cmocka_unit_test(test_hash),
      cmocka_unit_test(test_random),        cmocka_unit_test(test_memory),
      cmocka_unit_test(test_large_memory),  cmocka_unit_test(test_failure_injection),
      cmocka_unit_test(test_checked_sizes), cmocka_unit_test(test_facts),
      cmocka_unit_test(test_file_write),    cmocka_unit_test(test_file_read),
      cmocka_unit_test(test_file_is_whole), cmocka_unit_test(test_cache_path),
  };
  if (!mkdtemp(directory)) return 1;
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", directory);
  return system(command) != 0 || failed;
}
