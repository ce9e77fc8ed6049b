/* The kernel cache: keys, the file's format, directories that are read-only, full, damaged or shared by processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory.h"
#include "cuda/cache.h"

#define UNUSED __attribute__((unused))

static char directory[] = "/tmp/falt-cache-XXXXXX";
static char content[] = "a cubin\nwith a \0 inside";

static falt_cuda_kernel kernel_of(int taps) {
  falt_cuda_kernel k = {.source = "direct.cu", .entry = "falt_direct"};
  falt_cuda_define(&k, "TAPS_S=%d", taps);
  falt_cuda_define(&k, "ELEMENT_X=unsigned char");
  return k;
}

static falt_cuda_binary binary_of(void) {
  return (falt_cuda_binary){
      .data = content, .size = sizeof content, .compiler = 12004, .use = {.registers = 40, .shared_bytes = 512}};
}

static void write_kernel(const char *key) {
  const falt_cuda_kernel kernel = kernel_of(5);
  const falt_cuda_binary binary = binary_of();
  falt_cuda_cache_write(key, &kernel, "sm_90a", &binary);
}

static bool reads(const char *key) {
  falt_cuda_binary back;
  if (!falt_cuda_cache_read(key, &back)) return false;
  const bool same = back.size == sizeof content && memcmp(back.data, content, sizeof content) == 0;
  assert_true(same && back.compiler == 12004 && back.use.registers == 40);
  falt_free(back.data);
  return true;
}

static void path_of(const char *key, char path[128]) {
  snprintf(path, 128, "%s/cuda/%s.cubin", directory, key);
}

static const char *key_of(int taps) {
  static char key[FALT_CUDA_KEY];
  const falt_cuda_kernel kernel = kernel_of(taps);
  falt_cuda_key(&kernel, "sm_90a", key);
  return key;
}

/* ---- keys and files */

static void test_keys(UNUSED void **state) {
  char one[FALT_CUDA_KEY], other[FALT_CUDA_KEY];
  const falt_cuda_kernel a = kernel_of(5), b = kernel_of(7);
  falt_cuda_key(&a, "sm_80", one);
  falt_cuda_key(&a, "sm_80", other);
  assert_string_equal(one, other);
  falt_cuda_key(&b, "sm_80", other);
  assert_string_not_equal(one, other);
  falt_cuda_key(&a, "sm_90a", other);
  assert_string_not_equal(one, other);
}

/* A source that changed, a header too, has another digest, and its kernels other keys. */
static void test_digests(UNUSED void **state) {
  char one[FALT_CUDA_KEY], other[FALT_CUDA_KEY];
  falt_cuda_source sources[] = {{"direct.cu", "", "11"}, {"header.cuh", "", "22"}, {NULL, NULL, NULL}};
  falt_cuda_kernel kernel = kernel_of(5);
  kernel.sources = sources;
  falt_cuda_key(&kernel, "sm_90a", one);
  sources[1].digest = "23";
  falt_cuda_key(&kernel, "sm_90a", other);
  assert_string_not_equal(one, other);
  for (const falt_cuda_source *a = falt_cuda_sources; a->name; a++) {
    assert_int_equal(strspn(a->digest, "0123456789abcdef"), 64);
    for (const falt_cuda_source *b = falt_cuda_sources; b < a; b++)
      if (strcmp(a->text, b->text) != 0) assert_string_not_equal(a->digest, b->digest);
  }
}

static void test_format(UNUSED void **state) {
  const falt_cuda_kernel kernel = kernel_of(5);
  const falt_cuda_binary binary = binary_of();
  falt_cuda_binary back;
  falt_cubin_label label;
  size_t length;
  char *packed = falt_cubin_pack(&kernel, "sm_90a", &binary, &length), *copy = malloc(length);
  assert_true(packed && copy);
  for (size_t at = 0; at < length; at++) { /* any byte that changes, and any end that is missing, makes it worthless */
    memcpy(copy, packed, length);
    copy[at] ^= 1;
    assert_false(falt_cubin_unpack(copy, length, &back, NULL));
    memcpy(copy, packed, length);
    assert_false(falt_cubin_unpack(copy, at, &back, NULL));
  }
  memcpy(copy, packed, length);
  assert_true(falt_cubin_unpack(copy, length, &back, &label));
  assert_memory_equal(back.data, content, sizeof content);
  assert_string_equal(label.source, "direct.cu");
  assert_string_equal(label.entry, "falt_direct");
  assert_string_equal(label.arch, "sm_90a");
  assert_string_equal(label.defines, "TAPS_S=5; ELEMENT_X=unsigned char");
  falt_free(packed);
  free(copy);
}

static void test_files(UNUSED void **state) {
  char path[128];
  const char *key = key_of(3);
  assert_false(reads(key));
  write_kernel(key);
  assert_true(reads(key));
  path_of(key, path);
  assert_int_equal(truncate(path, 60), 0);
  assert_false(reads(key));
  write_kernel(key); /* replaced */
  assert_true(reads(key));
}

/* ---- the list */

typedef struct seen {
  int kernels, damaged;
  char last[64];
} seen;

static void see(void *context, const falt_cached_kernel *kernel) {
  seen *s = context;
  s->kernels += !kernel->damage;
  s->damaged += kernel->damage != NULL;
  snprintf(s->last, sizeof s->last, "%s %s %s", kernel->source, kernel->arch, kernel->holes);
}

static void put(const char *name, const char *text) {
  char path[192];
  snprintf(path, sizeof path, "%s/cuda/%s", directory, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void test_list(UNUSED void **state) {
  int64_t removed;
  char name[96];
  seen s = {.kernels = 0};
  falt_cache_clear(NULL);
  write_kernel(key_of(3));
  snprintf(name, sizeof name, "%s.cubin", key_of(4));
  put(name, "faltung-cubin 1 old");
  snprintf(name, sizeof name, "%s.cubin.12.3.tmp", key_of(5));
  put(name, "left behind");
  put("README", "somebody's");
  assert_int_equal(falt_cache_kernels(see, &s), FALT_OK);
  assert_true(s.kernels == 1 && s.damaged == 2);
  assert_int_equal(falt_cache_clear(&removed), FALT_OK);
  assert_int_equal(removed, 3);
  snprintf(name, sizeof name, "%s/cuda/README", directory);
  assert_int_equal(unlink(name), 0); /* it was left alone */
  write_kernel(key_of(3));
  assert_int_equal(falt_cache_kernels(see, &s), FALT_OK);
  assert_string_equal(s.last, "direct.cu sm_90a TAPS_S=5; ELEMENT_X=unsigned char");
  assert_int_equal(falt_cache_kernels(NULL, NULL), FALT_INVALID_ARGUMENT);
}

/* ---- directories that do not behave */

static int files_in_cache(void) {
  char path[128];
  snprintf(path, sizeof path, "%s/cuda", directory);
  DIR *open = opendir(path);
  int count = 0;
  for (struct dirent *entry; open && (entry = readdir(open));) count += entry->d_name[0] != '.';
  if (open) closedir(open);
  return count;
}

/* Nowhere to write, for root too. */
static void test_read_only(UNUSED void **state) {
  setenv("FALTUNG_CACHE", "/proc/self/none", 1);
  write_kernel(key_of(3));
  assert_false(reads(key_of(3)));
  seen s = {.kernels = 0};
  assert_int_equal(falt_cache_kernels(see, &s), FALT_OK);
  assert_int_equal(s.kernels + s.damaged, 0);
  setenv("FALTUNG_CACHE", directory, 1);
}

/* A disk that fills up while the file is written leaves nothing behind. */
static void test_full(UNUSED void **state) {
  struct rlimit before, tight;
  falt_cache_clear(NULL);
  getrlimit(RLIMIT_FSIZE, &before);
  tight = before;
  tight.rlim_cur = 100;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tight);
  write_kernel(key_of(3));
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
  assert_false(reads(key_of(3)));
  assert_int_equal(files_in_cache(), 0);
  write_kernel(key_of(3));
  assert_true(reads(key_of(3)));
}

static void grow(int taps, off_t size, time_t written) {
  char path[128];
  path_of(key_of(taps), path);
  const int file = open(path, O_CREAT | O_WRONLY, 0600);
  const struct timespec times[2] = {{.tv_sec = written}, {.tv_sec = written}};
  assert_true(file >= 0 && ftruncate(file, size) == 0 && futimens(file, times) == 0);
  close(file);
}

/* Sparse files: only their sizes count. */
static void test_bound(UNUSED void **state) {
  char path[128];
  falt_cache_clear(NULL);
  grow(3, FALT_CACHE_BYTES / 2, 1000);
  grow(4, FALT_CACHE_BYTES / 2, 2000);
  write_kernel(key_of(5));
  path_of(key_of(3), path);
  assert_int_not_equal(access(path, F_OK), 0); /* the oldest went */
  path_of(key_of(4), path);
  assert_int_equal(access(path, F_OK), 0);
  assert_true(reads(key_of(5)));
  falt_cache_clear(NULL);
}

/* Writers and readers of the same kernels: a reader never gets a part of a file. */
static void test_processes(UNUSED void **state) {
  enum { PROCESSES = 16, ROUNDS = 8, KEYS = 3 };
  falt_cache_clear(NULL);
  pid_t child[PROCESSES];
  for (int p = 0; p < PROCESSES; p++) {
    child[p] = fork();
    assert_true(child[p] >= 0);
    if (child[p]) continue;
    for (int i = 0; i < ROUNDS; i++) {
      write_kernel(key_of(3 + (i + p) % KEYS));
      for (int k = 0; k < 12 * KEYS; k++) reads(key_of(3 + k % KEYS)); /* absent is fine, wrong is not */
    }
    _exit(reads(key_of(3)) ? 0 : 1);
  }
  for (int p = 0; p < PROCESSES; p++) {
    int status;
    assert_int_equal(waitpid(child[p], &status, 0), child[p]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(files_in_cache(), KEYS);
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
      cmocka_unit_test(test_keys),  cmocka_unit_test(test_digests), cmocka_unit_test(test_format),
      cmocka_unit_test(test_files), cmocka_unit_test(test_list),    cmocka_unit_test(test_read_only),
      cmocka_unit_test(test_full),  cmocka_unit_test(test_bound),   cmocka_unit_test(test_processes),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
