/* Compiles a representative set of kernels for every architecture, without a GPU: none may spill, and all must stay
 * within their registers. Skipped where there is no NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "cuda/cache.h"
#include "cuda/compile.h"

#define UNUSED __attribute__((unused))

static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100a", "sm_120"};

static void need_compiler(void) {
  if (falt_cuda_compiler()) return;
  print_message("skipped: no NVRTC; install nvidia-cuda-nvrtc or set FALTUNG_CUDA_PATH\n");
  skip();
}

/* The largest number that follows `before` or stands before `after` in the log. */
static int largest(const char *log, const char *before, const char *after) {
  int most = -1;
  for (const char *at = log; (at = strstr(at, before ? before : after)); at++) {
    const char *digits = before ? at + strlen(before) : at;
    while (!before && digits > log && digits[-1] >= '0' && digits[-1] <= '9') digits--;
    const int value = atoi(digits);
    if (value > most) most = value;
  }
  return most;
}

static void compile(const falt_cuda_kernel *kernel, const char *arch, int most_registers, int most_stack) {
  falt_cuda_binary binary;
  char *log;
  if (falt_cuda_compile(kernel, arch, &binary, &log) != FALT_OK) fail_msg("%s", falt_message());
  assert_non_null(log);
  const int registers = largest(log, "Used ", NULL), stack = largest(log, NULL, " bytes stack frame");
  if (registers < 8 || registers > most_registers || stack < 0 || stack > most_stack)
    fail_msg("%s for %s: %d registers, %d bytes of stack\n%s", kernel->source, arch, registers, stack, log);
  assert_true(binary.size > 1000);
  falt_free(binary.data);
  falt_free(log);
}

static falt_cuda_kernel generic(int operation, const char *sum, const char *real) {
  falt_cuda_kernel k = {.source = "generic.cu", .entry = "falt_generic"};
  falt_cuda_hole(&k, "OPERATION=%d", operation);
  falt_cuda_hole(&k, "SUM=%s", sum);
  falt_cuda_hole(&k, "REAL=%s", real);
  falt_cuda_hole(&k, "INDEX=unsigned");
  falt_cuda_hole(&k, "CHANNELS_FASTEST=%d", operation & 1);
  return k;
}

/* Calls of the mathematical library need a small frame; anything more is an array that left the registers. */
static void test_generic(UNUSED void **state) {
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++) {
    for (int operation = 0; operation < 7; operation++) {
      const falt_cuda_kernel kernel = generic(operation, "float", "float");
      compile(&kernel, architectures[a], 128, 64);
    }
    const falt_cuda_kernel exact = generic(0, "__int128", "double"), wide = generic(2, "double", "double");
    compile(&exact, architectures[a], 128, 64);
    compile(&wide, architectures[a], 128, 64);
  }
}

typedef struct shape {
  int taps[3], pixel, rows, width, vector, unroll, block[2], linear;
  const char *element;
  int type, boundary;
  const char *sum;
} shape;

static falt_cuda_kernel direct(const shape *s) {
  falt_cuda_kernel k = {.source = "direct.cu", .entry = "falt_direct"};
  for (int i = 0; i < 3; i++) {
    falt_cuda_hole(&k, "TAPS_%c=%d", "TRS"[i], s -> taps[i]);
    falt_cuda_hole(&k, "PAD_%c=%d", "TRS"[i], s -> taps[i] / 2);
    falt_cuda_hole(&k, "AXIS_%c=%d,%d", "TRS"[i], s -> boundary, s -> boundary);
  }
  falt_cuda_hole(&k, "PIXEL=%d", s->pixel);
  falt_cuda_hole(&k, "ELEMENT_X=%s", s->element);
  falt_cuda_hole(&k, "ELEMENT_Y=%s", s->element);
  falt_cuda_hole(&k, "TYPE_X=%d", s->type);
  falt_cuda_hole(&k, "TYPE_Y=%d", s->type);
  falt_cuda_hole(&k, "SUM=%s", s->sum);
  falt_cuda_hole(&k, "THREAD=%d", s->width);
  falt_cuda_hole(&k, "VECTOR_X=%d", s->vector);
  falt_cuda_hole(&k, "VECTOR_Y=%d", s->vector);
  falt_cuda_hole(&k, "ROWS=%d", s->rows);
  falt_cuda_hole(&k, "STEPS=%d", s->linear ? 1 : 32);
  falt_cuda_hole(&k, "UNROLL=%d", s->unroll);
  falt_cuda_hole(&k, "BLOCK_X=%d", s->block[0]);
  falt_cuda_hole(&k, "BLOCK_Y=%d", s->block[1]);
  falt_cuda_hole(&k, "BLOCKS=%d", 4);
  falt_cuda_hole(&k, "LINEAR=%d", s->linear);
  falt_cuda_hole(&k, "SCALED=1");
  return k;
}

static void test_direct(UNUSED void **state) {
  static const shape shapes[] = {
      {{1, 1, 7}, 1, 2, 4, 4, 1, {128, 1}, 1, "float", FALT_F32, 2, "float"},
      {{1, 1, 31}, 1, 2, 4, 4, 1, {128, 1}, 1, "float", FALT_F32, 3, "float"},
      {{3, 1, 3}, 1, 1, 4, 4, 3, {128, 1}, 0, "float", FALT_F32, 2, "float"},
      {{5, 1, 5}, 1, 1, 4, 4, 5, {128, 1}, 0, "float", FALT_F32, 4, "float"},
      {{7, 1, 7}, 1, 1, 4, 4, 7, {128, 1}, 0, "float", FALT_F32, 1, "float"},
      {{9, 1, 9}, 1, 1, 4, 4, 1, {128, 1}, 0, "float", FALT_F32, 2, "float"},
      {{5, 1, 5}, 3, 1, 8, 8, 5, {128, 1}, 0, "unsigned char", FALT_U8, 3, "float"},
      {{5, 1, 5}, 1, 1, 8, 8, 1, {128, 1}, 0, "unsigned short", FALT_F16, 2, "float"},
      {{3, 3, 3}, 1, 2, 4, 4, 1, {32, 4}, 0, "float", FALT_F32, 0, "float"},
      {{5, 5, 5}, 1, 1, 4, 4, 1, {32, 4}, 0, "float", FALT_F32, 2, "float"},
      {{3, 1, 3}, 1, 1, 2, 2, 1, {128, 1}, 0, "double", FALT_F64, 2, "double"},
  };
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      const falt_cuda_kernel kernel = direct(&shapes[i]);
      compile(&kernel, architectures[a], 128, 0);
    }
}

static void test_bad_source(UNUSED void **state) {
  need_compiler();
  falt_cuda_kernel kernel = generic(0, "no_such_type", "float");
  falt_cuda_binary binary;
  assert_int_equal(falt_cuda_compile(&kernel, "sm_90a", &binary, NULL), FALT_INTERNAL);
  assert_non_null(strstr(falt_message(), "error"));
  kernel = (falt_cuda_kernel){.source = "no_such.cu"};
  assert_int_equal(falt_cuda_compile(&kernel, "sm_90a", &binary, NULL), FALT_INTERNAL);
}

/* ---- the cache */

static char directory[] = "/tmp/falt-cuda-XXXXXX";

static void path_of(const char *key, char path[128]) {
  snprintf(path, 128, "%s/cuda/%s.cubin", directory, key);
}

static void test_keys(UNUSED void **state) {
  char one[FALT_CUDA_KEY], other[FALT_CUDA_KEY];
  falt_cuda_kernel a = generic(0, "float", "float"), b = generic(0, "double", "float");
  falt_cuda_key(&a, "sm_80", one);
  falt_cuda_key(&a, "sm_80", other);
  assert_string_equal(one, other);
  falt_cuda_key(&b, "sm_80", other);
  assert_string_not_equal(one, other);
  falt_cuda_key(&a, "sm_90a", other);
  assert_string_not_equal(one, other);
}

static void test_cache(UNUSED void **state) {
  char data[] = "a cubin\nwith a \0 inside", path[128];
  falt_cuda_binary binary = {data, sizeof data}, back;
  assert_false(falt_cuda_cache_read("00", &back));
  falt_cuda_cache_write("00", &binary);
  assert_true(falt_cuda_cache_read("00", &back));
  assert_int_equal(back.size, sizeof data);
  assert_memory_equal(back.data, data, sizeof data);
  falt_free(back.data);
  path_of("00", path);
  struct stat facts;
  assert_int_equal(stat(path, &facts), 0);
  for (long at = 0; at < facts.st_size; at++) { /* any byte that changes makes it worthless */
    FILE *file = fopen(path, "r+");
    fseek(file, at, SEEK_SET);
    const int was = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(was ^ 1, file);
    fclose(file);
    assert_false(falt_cuda_cache_read("00", &back));
    falt_cuda_cache_write("00", &binary); /* replaced */
    assert_true(falt_cuda_cache_read("00", &back));
    falt_free(back.data);
  }
  assert_int_equal(truncate(path, facts.st_size - 1), 0);
  assert_false(falt_cuda_cache_read("00", &back));
}

static int set_up(UNUSED void **state) {
  return !mkdtemp(directory) || setenv("FALTUNG_CACHE", directory, 1);
}

static int tear_down(UNUSED void **state) {
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", directory);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_keys),    cmocka_unit_test(test_cache),  cmocka_unit_test(test_bad_source),
      cmocka_unit_test(test_generic), cmocka_unit_test(test_direct),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
