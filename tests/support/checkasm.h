/* What the checks of CPU kernels (checkasm_*.c) share: random numbers, and memory that ends at a page without access.
 * FALT_SEED chooses another seed. Included once by a test. */
#ifndef FALT_TESTS_CHECKASM_H
#define FALT_TESTS_CHECKASM_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/random.h"

/* ---- random numbers */

static uint64_t seed;

/* The first step of main. */
static inline void set_seed(uint64_t otherwise) {
  const char *chosen = getenv("FALT_SEED");
  seed = chosen ? strtoull(chosen, NULL, 0) : otherwise;
  printf("seed %llu\n", (unsigned long long)seed);
}

static inline int pick(int low, int high) {
  return (int)falt_random_int(&seed, low, high);
}

/* In [-1, 1). */
static inline double random_number(void) {
  return 2 * falt_random_unit(&seed) - 1;
}

static inline void fill(float *to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = (float)random_number();
}

/* ---- guarded memory: rows of whole pages, each followed by a page without access */

typedef struct guarded {
  char *base;
  size_t bytes, pitch; /* of a row; between rows */
  int rows;
} guarded;

static inline guarded guard(int rows, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
  guarded g = {.bytes = whole, .pitch = whole + page, .rows = rows};
  g.base = mmap(NULL, g.pitch * (size_t)rows, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.base != MAP_FAILED);
  for (int i = 0; i < rows; i++) assert_int_equal(mprotect(g.base + (size_t)i * g.pitch + whole, page, PROT_NONE), 0);
  return g;
}

static inline void unguard(guarded *g) {
  munmap(g->base, g->pitch * (size_t)g->rows);
}

/* The last `bytes` bytes before the guard of row i. */
static inline char *before_guard(const guarded *g, int i, size_t bytes) {
  return g->base + (size_t)i * g->pitch + g->bytes - bytes;
}

static inline float *floats_before_guard(const guarded *g, int i, int64_t floats) {
  return (float *)(void *)before_guard(g, i, (size_t)floats * sizeof(float));
}

/* A row that is never released: its end, or its last floats. */
static inline char *guarded_end(size_t bytes) {
  const guarded g = guard(1, bytes);
  return before_guard(&g, 0, 0);
}
static inline float *guarded_floats(int64_t floats) {
  return (float *)(void *)guarded_end((size_t)floats * sizeof(float)) - floats;
}

#endif
