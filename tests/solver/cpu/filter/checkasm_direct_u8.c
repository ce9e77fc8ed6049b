/* Every kernel for filters of bytes of every instruction set that this machine runs, against plain sums, to the bit.
 *
 * Rows end at a page that cannot be read, as far behind the last column as the kernels may read. FALT_SEED chooses
 * another seed; FALT_BENCH=1 prints the speed of each instruction set. */
#include "checkasm.h"
#include "solver/cpu/filter/direct_u8_kernels.h"

enum {
  MOST_R = 9,
  MOST_WORDS = 3,
  LINES = FALT_DIRECT_U8_ROWS + MOST_R - 1,
  MOST_N = 300,
  CANARY = 64, /* bytes behind results */
  ROUNDS = 3000
};
static const falt_type types[] = {FALT_U8, FALT_S8, FALT_U16, FALT_S16, FALT_S32, FALT_F32};
enum { TYPES = sizeof types / sizeof *types };

typedef struct trial {
  falt_direct_u8_call call;
  const uint8_t *rows[LINES];
  int32_t taps[MOST_R * MOST_WORDS];
  void *out[FALT_DIRECT_U8_ROWS];
  _Alignas(64) char results[FALT_DIRECT_U8_ROWS][MOST_N * sizeof(float) + CANARY];
} trial;

static void set_rows(trial *t) {
  static char *ends[LINES];
  const int64_t bytes = t->call.n + 4 * t->call.words * t->call.step + FALT_DIRECT_U8_BEYOND;
  for (int i = 0; i < LINES; i++) {
    if (!ends[i]) ends[i] = guarded_end(1);
    uint8_t *row = (uint8_t *)ends[i] - bytes;
    for (int64_t x = 0; x < bytes; x++) row[x] = (uint8_t)(pick(0, 3) ? pick(0, 255) : 255);
    t->rows[i] = row;
  }
}

static void set_trial(trial *t, falt_type type, int64_t n) {
  static const float scales[] = {1, 1, 0.5f, 0.0625f, 0x1p-9f};
  t->call = (falt_direct_u8_call){.rows = t->rows,
                                  .taps = t->taps,
                                  .out = t->out,
                                  .type = type,
                                  .n = n,
                                  .r = pick(1, MOST_R),
                                  .words = pick(1, MOST_WORDS),
                                  .step = pick(1, FALT_DIRECT_U8_STEP),
                                  .scale = scales[pick(0, 4)],
                                  .stream = pick(0, 1)};
  const int least = pick(0, 1) ? -128 : -2, most = least == -2 ? 2 : 127;
  for (int i = 0; i < MOST_R * MOST_WORDS; i++) {
    t->taps[i] = 0;
    for (int j = 0; j < 4; j++) t->taps[i] |= (int32_t)((uint32_t)(pick(least, most) & 0xff) << 8 * j);
  }
  set_rows(t);
  for (int p = 0; p < FALT_DIRECT_U8_ROWS; p++) t->out[p] = t->results[p];
  memset(t->results, 0x5a, sizeof t->results);
}

/* ---- what should come out */

static double sum_of(const trial *t, int p, int64_t x) {
  const falt_direct_u8_call *c = &t->call;
  int64_t sum = 0;
  for (int i = 0; i < c->r; i++)
    for (int j = 0; j < 4 * c->words; j++) {
      const uint32_t word = (uint32_t)c->taps[i * c->words + j / 4];
      sum += (int8_t)(word >> 8 * (j % 4)) * (int64_t)c->rows[p + i][x + j * c->step];
    }
  return (double)sum * (double)c->scale;
}

static double converted(double sum, falt_type type) {
  return type == FALT_F32 ? sum : fmin(fmax(nearbyint(sum), falt_type_min(type)), falt_type_max(type));
}

static void check_trial(const trial *t, int rows, const char *isa) {
  const falt_direct_u8_call *c = &t->call;
  const size_t bytes = (size_t)c->n * falt_type_size(c->type);
  for (int p = 0; p < rows; p++) {
    for (int64_t x = 0; x < c->n; x++) {
      const double expected = converted(sum_of(t, p, x), c->type), found = falt_load(t->results[p], c->type, x);
      if (found != expected)
        fail_msg("%s: %s: row %d, column %lld of %lld, r=%d words=%d step=%d scale=%g: %g and not %g", isa,
                 falt_type_name(c->type), p, (long long)x, (long long)c->n, c->r, c->words, c->step, (double)c->scale,
                 found, expected);
    }
    for (size_t i = bytes; i < bytes + CANARY; i++) assert_int_equal(t->results[p][i], 0x5a);
  }
}

static void test_sums(void **state) {
  (void)state;
  static trial t;
  for (int level = 0; level < FALT_ISA_COUNT; level++) {
    const falt_direct_u8_kernels *kernels = falt_direct_u8_kernels_for((falt_isa)level);
    if (!falt_isa_runs((falt_isa)level)) continue;
    for (int i = 0; i < ROUNDS; i++) {
      set_trial(&t, pick(0, 2) ? FALT_U8 : types[pick(0, TYPES - 1)], pick(1, MOST_N));
      kernels->sums(&t.call);
      check_trial(&t, kernels->rows, falt_isa_name((falt_isa)level));
    }
  }
}

/* Results of bytes a second, of 3x3 taps. */
static void test_speed(void **state) {
  (void)state;
  static trial t;
  if (!getenv("FALT_BENCH")) skip();
  for (int level = 0; level < FALT_ISA_COUNT; level++) {
    const falt_direct_u8_kernels *kernels = falt_direct_u8_kernels_for((falt_isa)level);
    if (!falt_isa_runs((falt_isa)level)) continue;
    set_trial(&t, FALT_U8, 256);
    t.call.r = 3;
    t.call.words = t.call.step = 1;
    t.call.scale = 1;
    t.call.stream = false;
    double best = INFINITY;
    for (int i = 0; i < 2000; i++) {
      const double start = falt_seconds();
      kernels->sums(&t.call);
      best = fmin(best, falt_seconds() - start);
    }
    printf("%-8s %8.2f results/ns\n", falt_isa_name((falt_isa)level), 256e-9 * kernels->rows / best);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_speed)};
  set_seed(1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
