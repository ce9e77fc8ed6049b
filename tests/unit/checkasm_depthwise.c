/* Every depthwise kernel of every instruction set that this machine runs, against what cpu/depthwise.h says, and timed.
 *
 * Sums are checked against a plain sum in f64, and their bits against calls of one position each. The source ends at a
 * page that cannot be read; what lies between results keeps its canary. FALT_SEED chooses another seed; FALT_BENCH=1
 * prints the speed of each instruction set. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/random.h"
#include "cpu/depthwise.h"

enum {
  SEGMENTS = 4,
  TAPS = FALT_DEPTHWISE_TAPS,
  POSITIONS = 40,
  CHANNELS = 70,
  PIXEL = 80,                        /* floats between pixels: whole lines, so that results can bypass the caches */
  PIXELS = 3 * POSITIONS + 3 * TAPS, /* of the source */
  WEIGHTS = SEGMENTS * TAPS,         /* of a channel */
  ROUNDS = 300
};
static const float canary = 9;

static uint64_t seed;

static int pick(int low, int high) {
  return (int)falt_random_int(&seed, low, high);
}

static void fill(float *to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = (float)(2 * falt_random_unit(&seed) - 1);
}

/* `floats` of them before a page without access; never released. */
static float *guarded(int64_t floats) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t bytes = ((size_t)floats * sizeof(float) + page - 1) / page * page;
  char *base = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(base != MAP_FAILED);
  assert_int_equal(mprotect(base + bytes, page, PROT_NONE), 0);
  return (float *)(void *)(base + bytes) - floats;
}

/* ---- calls */

typedef struct trial {
  const falt_depthwise_kernels *kernels;
  falt_depthwise_call call;
  falt_depthwise_finish finish;
  falt_depthwise_segment segments[SEGMENTS];
  int64_t tables[SEGMENTS][TAPS * POSITIONS];
  const float *source; /* ends with the last channel of the last pixel */
  float by[POSITIONS * PIXEL], residual[POSITIONS * PIXEL], scale[CHANNELS], offset[CHANNELS];
  _Alignas(64) float results[POSITIONS * PIXEL], weights[WEIGHTS * (CHANNELS + 64)], sums[WEIGHTS * (CHANNELS + 64)];
} trial;

static void set_table(trial *t, int index, int64_t positions) {
  falt_depthwise_segment *s = &t->segments[index];
  const int64_t length = s->near ? positions + s->taps - 1 : positions * s->taps;
  for (int64_t i = 0; i < length; i++)
    t->tables[index][i] = pick(0, 3) ? (int64_t)pick(0, PIXELS - 1) * PIXEL : FALT_DEPTHWISE_NONE;
  s->at = t->tables[index];
  s->row = t->source;
}

static void set_segment(trial *t, int index, int64_t positions) {
  falt_depthwise_segment *s = &t->segments[index];
  const int64_t step = pick(1, 3), width = t->kernels->width;
  const bool down = pick(0, 1);
  *s = (falt_depthwise_segment){.taps = pick(1, TAPS), .near = pick(0, 1), .step = step * PIXEL};
  s->tap_step = (s->near ? step : pick(0, 3)) * PIXEL;
  s->weight = (index * TAPS + (down ? s->taps - 1 : 0)) * width;
  s->weight_step = down ? -width : width;
  s->row = t->source + pick(0, 2) * PIXEL;
  if (pick(0, 1)) set_table(t, index, positions);
}

static void set_call(trial *t) {
  const int64_t n = pick(1, CHANNELS), positions = pick(1, POSITIONS);
  static float *source;
  if (!source) source = guarded((int64_t)PIXELS * PIXEL);
  fill(source, (int64_t)PIXELS * PIXEL);
  t->source = source + PIXEL - n;
  t->call = (falt_depthwise_call){.segments = t->segments,
                                  .count = pick(1, SEGMENTS),
                                  .weights = t->weights,
                                  .weights_pitch = (int64_t)WEIGHTS * t->kernels->width,
                                  .positions = positions,
                                  .n = n,
                                  .out = t->results,
                                  .out_step = PIXEL,
                                  .stream = pick(0, 1),
                                  .ahead = {source},
                                  .ahead_count = pick(0, 1),
                                  .ahead_step = PIXEL};
  for (int i = 0; i < t->call.count; i++) set_segment(t, i, positions);
  fill(t->weights, sizeof t->weights / sizeof(float));
}

/* What tap s of position q reads; false where it reads nothing. */
static bool reads(const trial *t, const falt_depthwise_segment *s, int64_t q, int tap, int64_t i, double *value) {
  int64_t at = q * s->step + tap * s->tap_step;
  if (s->at) at = s->near ? s->at[q + tap] : s->at[tap * t->call.positions + q];
  if (s->at && at == FALT_DEPTHWISE_NONE) return false;
  *value = (double)s->row[at + i];
  return true;
}

static int64_t weight_at(const trial *t, const falt_depthwise_segment *s, int tap, int64_t i) {
  const int64_t width = t->kernels->width;
  return i / width * t->call.weights_pitch + s->weight + tap * s->weight_step + i % width;
}

/* ---- sums */

static double expected(const trial *t, int64_t q, int64_t i) {
  double sum = 0, x;
  for (const falt_depthwise_segment *s = t->segments; s < t->segments + t->call.count; s++)
    for (int tap = 0; tap < s->taps; tap++)
      if (reads(t, s, q, tap, i, &x)) sum += x * (double)t->weights[weight_at(t, s, tap, i)];
  if (!t->call.finish) return sum;
  sum = (double)t->scale[i] * sum + (double)t->offset[i];
  if (t->finish.residual) sum += (double)t->residual[q * PIXEL + i];
  return fmin(fmax(sum, (double)t->finish.low), (double)t->finish.high);
}

static void set_finish(trial *t) {
  t->finish = (falt_depthwise_finish){.scale = t->scale,
                                      .offset = t->offset,
                                      .residual = pick(0, 1) ? t->residual : NULL,
                                      .residual_step = PIXEL,
                                      .low = pick(0, 1) ? 0 : -INFINITY,
                                      .high = INFINITY};
  fill(t->scale, CHANNELS);
  fill(t->offset, CHANNELS);
  fill(t->residual, (int64_t)POSITIONS * PIXEL);
  if (pick(0, 1)) t->call.finish = &t->finish;
}

static void clear(trial *t) {
  for (int64_t i = 0; i < (int64_t)POSITIONS * PIXEL; i++) t->results[i] = canary;
}

/* Position q by a call of its own. */
static void one_position(const trial *t, int64_t q, float *out) {
  falt_depthwise_segment segments[SEGMENTS];
  falt_depthwise_finish finish = t->finish;
  falt_depthwise_call call = t->call;
  int64_t tables[SEGMENTS][TAPS];
  for (int s = 0; s < call.count; s++) {
    segments[s] = t->segments[s];
    for (int tap = 0; tap < segments[s].taps && segments[s].at; tap++)
      tables[s][tap] = segments[s].at[segments[s].near ? q + tap : tap * call.positions + q];
    if (segments[s].at)
      segments[s].at = tables[s];
    else
      segments[s].row += q * segments[s].step;
  }
  if (finish.residual) finish.residual += q * finish.residual_step;
  if (call.finish) call.finish = &finish;
  call.segments = segments;
  call.positions = 1;
  call.stream = false;
  call.out = out;
  t->kernels->sums(&call);
}

static void check_sums(const falt_depthwise_kernels *kernels) {
  static trial t;
  float alone[CHANNELS];
  t.kernels = kernels;
  for (int round = 0; round < ROUNDS; round++) {
    set_call(&t);
    set_finish(&t);
    clear(&t);
    kernels->sums(&t.call);
    for (int64_t q = 0; q < POSITIONS; q++) {
      if (q < t.call.positions) one_position(&t, q, alone);
      for (int64_t i = 0; i < PIXEL; i++) {
        const float got = t.results[q * PIXEL + i];
        const bool result = q < t.call.positions && i < t.call.n;
        assert_true(result ? got == alone[i] && fabs((double)got - expected(&t, q, i)) <= 0x1p-18 : got == canary);
      }
    }
  }
}

/* ---- gradient */

static void check_gradients(const falt_depthwise_kernels *kernels) {
  static trial t;
  static float old[sizeof t.sums / sizeof(float)];
  t.kernels = kernels;
  for (int round = 0; round < ROUNDS; round++) {
    set_call(&t);
    fill(t.by, (int64_t)POSITIONS * PIXEL);
    fill(t.sums, sizeof t.sums / sizeof(float));
    memcpy(old, t.sums, sizeof old);
    kernels->gradient(&(falt_depthwise_gradient){.call = t.call, .by = t.by, .by_step = PIXEL, .sums = t.sums});
    for (const falt_depthwise_segment *s = t.segments; s < t.segments + t.call.count; s++)
      for (int tap = 0; tap < s->taps; tap++)
        for (int64_t i = 0; i < t.call.n; i++) {
          const int64_t at = weight_at(&t, s, tap, i);
          double sum = (double)old[at], x;
          for (int64_t q = 0; q < t.call.positions; q++)
            if (reads(&t, s, q, tap, i, &x)) sum += x * (double)t.by[q * PIXEL + i];
          assert_true(fabs((double)t.sums[at] - sum) <= 0x1p-18);
        }
  }
}

/* ---- timing */

/* A row of 56 pixels of 64 channels, as many rows as taps. */
static void time_taps(const falt_depthwise_kernels *kernels, int taps) {
  enum { PLACES = 56, DEEP = 64 };
  static _Alignas(64) float rows[TAPS][(PLACES + TAPS) * DEEP], weights[TAPS * TAPS * DEEP], out[PLACES * DEEP];
  falt_depthwise_segment segments[TAPS];
  for (int r = 0; r < taps; r++) {
    fill(rows[r], sizeof rows[r] / sizeof(float));
    segments[r] = (falt_depthwise_segment){.row = rows[r],
                                           .step = DEEP,
                                           .tap_step = DEEP,
                                           .weight = (int64_t)r * taps * kernels->width,
                                           .weight_step = kernels->width,
                                           .taps = taps,
                                           .near = true};
  }
  fill(weights, (int64_t)taps * taps * DEEP);
  const falt_depthwise_call call = {.segments = segments,
                                    .count = taps,
                                    .weights = weights,
                                    .weights_pitch = (int64_t)taps * taps * kernels->width,
                                    .positions = PLACES,
                                    .n = DEEP,
                                    .out = out,
                                    .out_step = DEEP};
  const falt_depthwise_gradient gradient = {.call = call, .by = rows[0], .by_step = DEEP, .sums = weights};
  double best[2] = {INFINITY, INFINITY};
  for (int repeat = 0; repeat < 100; repeat++) {
    double start = falt_seconds();
    for (int i = 0; i < 20; i++) kernels->sums(&call);
    best[0] = fmin(best[0], (falt_seconds() - start) / 20);
    start = falt_seconds();
    for (int i = 0; i < 20; i++) kernels->gradient(&gradient);
    best[1] = fmin(best[1], (falt_seconds() - start) / 20);
    fill(weights, (int64_t)taps * taps * DEEP);
  }
  const double flops = 2.0 * PLACES * DEEP * taps * taps * 1e-9;
  printf("  %dx%d %6.1f, gradient %6.1f", taps, taps, flops / best[0], flops / best[1]);
}

static void bench(const falt_depthwise_kernels *kernels, falt_isa isa) {
  printf("%-9s", falt_isa_name(isa));
  for (int taps = 3; taps <= TAPS; taps += 2) time_taps(kernels, taps);
  printf(" GFLOP/s\n");
}

/* ---- tests */

static const falt_depthwise_kernels *table_of(int isa) {
  const falt_depthwise_kernels *kernels = falt_depthwise_kernels_for((falt_isa)isa);
  const bool own = isa == 0 || kernels != falt_depthwise_kernels_for((falt_isa)(isa - 1));
  return own && falt_isa_runs((falt_isa)isa) ? kernels : NULL;
}

static void test_sums(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (table_of(isa)) check_sums(table_of(isa));
}

static void test_gradient(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (table_of(isa)) check_gradients(table_of(isa));
}

int main(void) {
  const char *chosen = getenv("FALT_SEED");
  seed = chosen ? strtoull(chosen, NULL, 0) : 20261121;
  printf("seed %llu\n", (unsigned long long)seed);
  for (int isa = 0; isa < FALT_ISA_COUNT && getenv("FALT_BENCH"); isa++)
    if (table_of(isa)) bench(table_of(isa), (falt_isa)isa);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_gradient)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
