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
  DEPTH = 20,                        /* of a group */
  WEIGHTS = SEGMENTS * TAPS * DEPTH, /* of a channel */
  VECTORS = CHANNELS + 1,            /* where groups leave most of their vectors empty */
  WIDEST = FALT_DEPTHWISE_WIDEST,
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
  falt_depthwise_unit unit;
  int64_t group, depth; /* results and sources of a group */
  falt_depthwise_segment segments[SEGMENTS];
  int64_t tables[SEGMENTS][TAPS * POSITIONS];
  const float *source; /* ends with the last channel of the last pixel */
  float by[POSITIONS * PIXEL], residual[POSITIONS * PIXEL], scale[CHANNELS], offset[CHANNELS];
  _Alignas(64) float results[POSITIONS * PIXEL], weights[VECTORS * WEIGHTS * WIDEST], sums[VECTORS * WEIGHTS * WIDEST];
} trial;

static void set_table(trial *t, int index, int64_t positions) {
  falt_depthwise_segment *s = &t->segments[index];
  for (int64_t i = 0; i < positions * s->taps; i++)
    t->tables[index][i] = pick(0, 3) ? (int64_t)pick(0, PIXELS - 1) * PIXEL : FALT_DEPTHWISE_NONE;
  s->at = t->tables[index];
  s->row = t->source;
}

static void set_segment(trial *t, int index, int64_t positions) {
  falt_depthwise_segment *s = &t->segments[index];
  const int64_t step = pick(1, 3), width = t->kernels->width;
  const bool down = pick(0, 1);
  *s = (falt_depthwise_segment){.taps = falt_depthwise_taps(t->unit.reads, pick(1, TAPS)),
                                .near = pick(0, 1),
                                .step = step * PIXEL,
                                .begin = pick(0, 1) ? 0 : pick(0, 5),
                                .depth = pick(0, 3) ? t->depth : 1};
  s->end = positions + s->taps - 1 - (pick(0, 1) ? 0 : pick(0, 5));
  s->tap_step = (s->near ? step : pick(0, 3)) * PIXEL;
  s->weight = (index * TAPS + (down ? s->taps - 1 : 0)) * DEPTH * width;
  s->weight_step = (down ? -DEPTH : DEPTH) * width;
  s->row = t->source + pick(0, 2) * PIXEL;
  if (!s->near && pick(0, 1)) set_table(t, index, positions);
}

/* Groups, and how many result channels there are of them. */
static int64_t set_unit(trial *t) {
  const int width = t->kernels->width, reads = pick(FALT_READS_EACH, FALT_READS_ALL);
  t->unit = (falt_depthwise_unit){.reads = (falt_depthwise_reads)reads};
  t->group = reads == FALT_READS_EACH ? 1 : pick(1, reads == FALT_READS_PICK ? width / 2 : 40);
  t->depth = reads == FALT_READS_EACH ? 1 : pick(1, reads == FALT_READS_PICK ? width / 2 : DEPTH);
  const int64_t larger = t->group > t->depth ? t->group : t->depth;
  const int64_t joined = reads == FALT_READS_ALL ? 1 : width / larger;
  t->unit.results = joined * t->group;
  t->unit.sources = joined * t->depth;
  for (int64_t i = 0; i < t->unit.results && reads == FALT_READS_PICK; i++)
    t->unit.pick[i] = (int32_t)(i / t->group * t->depth);
  return pick(1, (int)(CHANNELS / larger)) * t->group;
}

static void set_call(trial *t) {
  const int64_t n = set_unit(t), positions = pick(1, POSITIONS);
  static float *source;
  if (!source) source = guarded((int64_t)PIXELS * PIXEL);
  fill(source, (int64_t)PIXELS * PIXEL);
  t->source = source + PIXEL - n / t->group * t->depth;
  t->call = (falt_depthwise_call){.segments = t->segments,
                                  .count = pick(1, SEGMENTS),
                                  .unit = &t->unit,
                                  .weights = t->weights,
                                  .weights_pitch = (int64_t)WEIGHTS * t->kernels->width,
                                  .positions = positions,
                                  .n = n,
                                  .out = t->results,
                                  .out_step = PIXEL,
                                  .stream = pick(0, 1) && t->unit.results % WIDEST == 0,
                                  .ahead = {source},
                                  .ahead_count = pick(0, 1),
                                  .ahead_step = PIXEL};
  for (int i = 0; i < t->call.count; i++) set_segment(t, i, positions);
  fill(t->weights, sizeof t->weights / sizeof(float));
}

/* What tap s of position q reads as source j of result i; false where it reads nothing. */
static bool reads(const trial *t, const falt_depthwise_segment *s, int64_t q, int tap, int64_t i, int64_t j,
                  double *value) {
  int64_t at = q * s->step + tap * s->tap_step;
  if (s->at) at = s->at[tap * t->call.positions + q];
  if (s->at && at == FALT_DEPTHWISE_NONE) return false;
  if (s->near && (q + tap < s->begin || q + tap >= s->end)) return false;
  *value = (double)s->row[at + i / t->group * t->depth + j];
  return true;
}

static int64_t weight_at(const trial *t, const falt_depthwise_segment *s, int tap, int64_t i, int64_t j) {
  const int64_t width = t->kernels->width, vectors = (t->unit.results + width - 1) / width;
  const int64_t within = i % t->unit.results, vector = i / t->unit.results * vectors + within / width;
  return vector * t->call.weights_pitch + s->weight + tap * s->weight_step + j * width + within % width;
}

/* ---- sums */

static double expected(const trial *t, int64_t q, int64_t i) {
  double sum = 0, x;
  for (const falt_depthwise_segment *s = t->segments; s < t->segments + t->call.count; s++)
    for (int tap = 0; tap < s->taps; tap++)
      for (int64_t j = 0; j < s->depth; j++)
        if (reads(t, s, q, tap, i, j, &x)) sum += x * (double)t->weights[weight_at(t, s, tap, i, j)];
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
    segments[s].begin -= q;
    segments[s].end -= q;
    for (int tap = 0; tap < segments[s].taps && segments[s].at; tap++)
      tables[s][tap] = segments[s].at[tap * call.positions + q];
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
        assert_true(result ? got == alone[i] && fabs((double)got - expected(&t, q, i)) <= 0x1p-14 : got == canary);
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
        for (int64_t i = 0; i < t.call.n * s->depth; i++) {
          const int64_t k = i / s->depth, j = i % s->depth, at = weight_at(&t, s, tap, k, j);
          double sum = (double)old[at], x;
          for (int64_t q = 0; q < t.call.positions; q++)
            if (reads(&t, s, q, tap, k, j, &x)) sum += x * (double)t.by[q * PIXEL + k];
          assert_true(fabs((double)t.sums[at] - sum) <= 0x1p-18);
        }
  }
}

/* ---- timing */

/* A row of 56 pixels of 64 channels in groups, as many rows as taps. */
static void time_taps(const falt_depthwise_kernels *kernels, int taps, int group) {
  enum { PLACES = 56, DEEP = 64, MOST = TAPS * TAPS * DEEP * DEEP };
  static _Alignas(64) float rows[TAPS][(PLACES + TAPS) * DEEP], weights[MOST], out[PLACES * DEEP];
  const int width = kernels->width, joined = width >= group ? width / group : 1;
  falt_depthwise_unit unit = {.reads = group == 1   ? FALT_READS_EACH
                                       : joined > 1 ? FALT_READS_PICK
                                                    : FALT_READS_ALL,
                              .results = joined * group,
                              .sources = joined * group};
  for (int i = 0; i < width && joined > 1; i++) unit.pick[i] = i / group * group;
  falt_depthwise_segment segments[TAPS * TAPS];
  int count = 0;
  for (int r = 0; r < taps; r++) fill(rows[r], sizeof rows[r] / sizeof(float));
  for (int tap = 0; tap < taps * taps; tap += segments[count++].taps)
    segments[count] = (falt_depthwise_segment){.row = rows[tap / taps] + (int64_t)(tap % taps) * DEEP,
                                               .step = DEEP,
                                               .tap_step = DEEP,
                                               .end = PLACES + taps - 1,
                                               .weight = (int64_t)tap * group * width,
                                               .weight_step = (int64_t)group * width,
                                               .taps = falt_depthwise_taps(unit.reads, taps - tap % taps),
                                               .depth = group,
                                               .near = true};
  fill(weights, MOST);
  const falt_depthwise_call call = {.segments = segments,
                                    .count = count,
                                    .unit = &unit,
                                    .weights = weights,
                                    .weights_pitch = (int64_t)taps * taps * group * width,
                                    .positions = PLACES,
                                    .n = DEEP,
                                    .out = out,
                                    .out_step = DEEP};
  const falt_depthwise_gradient gradient = {.call = call, .by = rows[0], .by_step = DEEP, .sums = weights};
  double best[2] = {INFINITY, INFINITY};
  for (int repeat = 0; repeat < 50; repeat++) {
    double start = falt_seconds();
    for (int i = 0; i < 20; i++) kernels->sums(&call);
    best[0] = fmin(best[0], (falt_seconds() - start) / 20);
    start = falt_seconds();
    for (int i = 0; i < 20; i++) kernels->gradient(&gradient);
    best[1] = fmin(best[1], (falt_seconds() - start) / 20);
    fill(weights, MOST);
  }
  const double flops = 2.0 * PLACES * DEEP * taps * taps * group * 1e-9;
  printf("  %dx%d of %d %6.1f, gradient %6.1f", taps, taps, group, flops / best[0], flops / best[1]);
}

static void bench(const falt_depthwise_kernels *kernels, falt_isa isa) {
  printf("%-9s", falt_isa_name(isa));
  for (int taps = 3; taps <= TAPS; taps += 2) time_taps(kernels, taps, 1);
  for (int group = 4; group <= 16; group *= 2) time_taps(kernels, 3, group);
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
