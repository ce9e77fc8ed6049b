/* Processor limits: defaults for an unknown processor, and the measurement of this one. */
#include "cpu/limits.h"

#include <string.h>
#include <unistd.h>

#include "core/call.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"
#include "cpu/isa_table.h"

/* Copies count bytes read and written. "Memory" copies arrays far larger than the last-level cache with non-temporal
 * stores, "cache" copies within half of each core's private cache. Every measurement is repeated and the best one kept,
 * because other load on the machine only reduces it. */

FALT_ISA_TABLE(falt_limit_kernels, falt_limit_kernels, FALT_ISA_ALL)

/* ---- guessing */

static const double clock_hertz = 2.6e9;
static const double memory_per_core = 20e9, memory_per_socket = 160e9;

/* Of one core in one cycle: f32 operations (two ports, multiply and add), bytes copied within its own cache, operations
 * of bf16 and of bytes. */
static const struct {
  double flops, cache_bytes, halves, bytes;
} per_cycle[FALT_ISA_COUNT] = {
    [FALT_ISA_PORTABLE] = {8, 18, 0, 0},   [FALT_ISA_NEON] = {16, 18, 0, 0},   [FALT_ISA_AVX2] = {32, 20, 0, 0},
    [FALT_ISA_AVX512] = {64, 24, 0, 0},    [FALT_ISA_VNNI] = {64, 24, 0, 256}, [FALT_ISA_BF16] = {64, 24, 128, 256},
    [FALT_ISA_AMX] = {64, 24, 1024, 2048},
};

falt_limits falt_limits_guess(falt_isa isa, int threads) {
  double copy = memory_per_core * threads;
  return (falt_limits){.copy_bytes_per_s = copy < memory_per_socket ? copy : memory_per_socket,
                       .cache_bytes_per_s = per_cycle[isa].cache_bytes * clock_hertz * threads,
                       .f32_flops = per_cycle[isa].flops * clock_hertz * threads,
                       .f64_flops = per_cycle[isa].flops * clock_hertz * threads / 2,
                       .f16_flops = per_cycle[isa].halves * clock_hertz * threads,
                       .s8_flops = per_cycle[isa].bytes * clock_hertz * threads,
                       .measured = false};
}

/* ---- measuring */

enum { PIECE = 1 << 20, LINE = 64, STEPS = 6 };
static const double sample_seconds = 0.004; /* threads wake in microseconds; a scheduler's slice is not much longer */
static const double enough_seconds = 0.2;   /* of samples, of which the best counts */

typedef struct measurement {
  const falt_limit_kernels *kernels;
  falt_threads *threads;
  char *dst, *src;
  int64_t bytes; /* of each array, or of each thread's part of it */
  long times;
  int step;
  falt_progress_range progress; /* of all steps */
} measurement;

static void touch_piece(void *context, int64_t index) {
  const measurement *m = context;
  for (int64_t i = index * PIECE; i < (index + 1) * PIECE; i += LINE) m->src[i] = m->dst[i] = (char)index;
}

static void copy_piece(void *context, int64_t index) {
  const measurement *m = context;
  m->kernels->copy_memory(m->dst + index * PIECE, m->src + index * PIECE, PIECE);
}

static void copy_own(void *context, int64_t index) {
  const measurement *m = context;
  m->kernels->copy_cache(m->dst + index * m->bytes, m->src + index * m->bytes, (size_t)m->bytes, m->times);
}

/* A factor just below 1 keeps the sums normal numbers for ever. */
static void multiply_f32(void *context, int64_t index) {
  measurement *m = context;
  volatile double result = m->kernels->f32(m->times, 0.5f, 1.0f + (float)index);
  (void)result;
}

static void multiply_f64(void *context, int64_t index) {
  measurement *m = context;
  volatile double result = m->kernels->f64(m->times, 0.5, 1.0 + (double)index);
  (void)result;
}

static void multiply_bf16(void *context, int64_t index) {
  (void)index;
  const measurement *m = context;
  m->kernels->bf16(m->times);
}

static void multiply_s8(void *context, int64_t index) {
  (void)index;
  const measurement *m = context;
  m->kernels->s8(m->times);
}

static double seconds_of(measurement *m, int64_t count, void (*body)(void *context, int64_t index)) {
  double start = falt_seconds();
  falt_parallel_for(m->threads, count, body, m);
  return falt_seconds() - start;
}

static double best_of(measurement *m, int64_t count, void (*body)(void *context, int64_t index)) {
  double end = falt_seconds() + enough_seconds, best = seconds_of(m, count, body);
  while (falt_seconds() < end && !falt_cancelled()) {
    double seconds = seconds_of(m, count, body);
    if (seconds < best) best = seconds;
  }
  return best;
}

/* Progress counts the steps; the loops within one, which run again and again, tell nothing. */
static void begin_step(measurement *m) {
  const double done = (double)m->step++ / STEPS;
  falt_progress_leave(m->progress);
  falt_progress_enter(done, done);
}

/* Work per second, if one call of body on each thread does `work` times m->times. */
static double rate(measurement *m, double work, void (*body)(void *context, int64_t index)) {
  begin_step(m);
  int64_t count = falt_threads_count(m->threads);
  m->times = 1;
  while (seconds_of(m, count, body) < sample_seconds && !falt_cancelled()) m->times *= 2;
  return work * (double)m->times * (double)count / best_of(m, count, body);
}

/* Twice the last cache for each of both arrays, but never much of a small machine. */
static int64_t memory_size(const falt_caches *caches) {
  int64_t machine = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
  int64_t wanted = falt_min(falt_max(2 * (int64_t)caches->l3, 64 << 20), 512 << 20);
  return falt_max(falt_min(wanted, machine / 16) / PIECE, 1) * PIECE;
}

static bool open_arrays(measurement *m, int64_t bytes) {
  m->dst = falt_alloc((size_t)bytes);
  m->src = falt_alloc((size_t)bytes);
  return m->dst && m->src;
}

static void close_arrays(measurement *m) {
  falt_free(m->dst);
  falt_free(m->src);
  m->dst = m->src = NULL;
}

static bool measure_memory(measurement *m, const falt_caches *caches, double *bytes_per_s) {
  begin_step(m);
  m->bytes = memory_size(caches);
  bool opened = open_arrays(m, m->bytes);
  if (opened) {
    seconds_of(m, m->bytes / PIECE, touch_piece);
    *bytes_per_s = 2 * (double)m->bytes / best_of(m, m->bytes / PIECE, copy_piece);
  }
  close_arrays(m);
  return opened;
}

static bool measure_cache(measurement *m, const falt_caches *caches, double *bytes_per_s) {
  int64_t total;
  m->bytes = falt_max((int64_t)caches->l2 / 4 / LINE, 1) * LINE;
  bool opened = falt_mul(m->bytes, falt_threads_count(m->threads), &total) && open_arrays(m, total);
  if (opened) memset(m->src, 1, (size_t)total); /* pages never written to share one page of zeros */
  if (opened) *bytes_per_s = rate(m, 2 * (double)m->bytes, copy_own);
  close_arrays(m);
  return opened;
}

falt_status falt_limits_measure(falt_limits *limits, falt_isa isa, const falt_caches *caches, falt_threads *threads) {
  measurement m = {.kernels = falt_limit_kernels_for(isa), .threads = threads, .progress = falt_progress_enter(0, 1)};
  falt_limits found = {.measured = true};
  if (!measure_memory(&m, caches, &found.copy_bytes_per_s) || !measure_cache(&m, caches, &found.cache_bytes_per_s))
    return falt_fail(FALT_NO_MEMORY, "measuring: memory for the arrays to copy ran out");
  found.f32_flops = rate(&m, m.kernels->f32_flops, multiply_f32);
  found.f64_flops = rate(&m, m.kernels->f64_flops, multiply_f64);
  if (m.kernels->bf16) found.f16_flops = rate(&m, m.kernels->bf16_flops, multiply_bf16);
  if (m.kernels->s8) found.s8_flops = rate(&m, m.kernels->s8_flops, multiply_s8);
  if (falt_cancelled()) return FALT_CANCELLED;
  *limits = found;
  return FALT_OK;
}
