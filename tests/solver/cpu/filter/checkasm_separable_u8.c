/* Every kernel for separable filters of bytes of every instruction set that this machine runs, against sums in double.
 *
 * Rows end at a page that cannot be read, as far behind the last column as the kernels may read. FALT_SEED chooses
 * another seed; FALT_BENCH=1 prints the speed of each instruction set. */
#include "checkasm.h"
#include "solver/cpu/filter/separable_u8_kernels.h"

enum {
  MOST_TAPS = 37,
  LINES = FALT_SEPARABLE_U8_ROWS + MOST_TAPS - 1,
  MOST_N = 700,
  CANARY = 64, /* bytes behind results */
  ROUNDS = 300
};

typedef struct trial {
  falt_separable_u8_call call;
  bool exact; /* the taps are integers */
  const uint8_t *rows[LINES];
  float along_y[MOST_TAPS], along_x[MOST_TAPS];
  void *out[FALT_SEPARABLE_U8_ROWS];
  _Alignas(64) uint8_t results[FALT_SEPARABLE_U8_ROWS][MOST_N + CANARY];
} trial;

static void set_rows(trial *t) {
  static char *ends[LINES];
  const int64_t bytes = t->call.n + (t->call.along_x.count - 1) * t->call.step + FALT_SEPARABLE_U8_BEYOND;
  for (int i = 0; i < LINES; i++) {
    if (!ends[i]) ends[i] = guarded_end(1);
    uint8_t *row = (uint8_t *)ends[i] - bytes;
    for (int64_t x = 0; x < bytes; x++) row[x] = (uint8_t)(pick(0, 3) ? pick(0, 255) : 255);
    t->rows[i] = row;
  }
}

static falt_separable_u8_taps make_taps(float *values, bool exact, bool symmetric) {
  const int count = pick(1, MOST_TAPS);
  for (int i = 0; i < count; i++) {
    values[i] = exact ? (float)pick(-3, 4) : (float)pick(-99, 999) / (500.0f * (float)count);
    if (symmetric && i >= count / 2) values[i] = i == count - 1 - i ? values[i] : values[count - 1 - i];
  }
  return (falt_separable_u8_taps){values, count, symmetric};
}

static void set_trial(trial *t, const falt_separable_u8_kernels *kernels) {
  t->exact = pick(0, 1);
  t->call = (falt_separable_u8_call){.rows = t->rows,
                                     .out = t->out,
                                     .along_y = make_taps(t->along_y, t->exact, pick(0, 2)),
                                     .along_x = make_taps(t->along_x, t->exact, pick(0, 2)),
                                     .step = pick(1, FALT_SEPARABLE_U8_STEP),
                                     .n = pick(0, 3) ? pick(1, MOST_N) : pick(1, 40),
                                     .stream = pick(0, 1)};
  const size_t space = kernels->space(t->call.along_x.count, t->call.step);
  t->call.space = aligned_alloc(64, (space + 63) / 64 * 64);
  assert_non_null(t->call.space);
  set_rows(t);
  for (int p = 0; p < FALT_SEPARABLE_U8_ROWS; p++) t->out[p] = t->results[p];
  memset(t->results, 0x5a, sizeof t->results);
}

/* ---- what should come out */

static double sum_of(const trial *t, int p, int64_t x) {
  const falt_separable_u8_call *c = &t->call;
  double sum = 0;
  for (int i = 0; i < c->along_y.count; i++) {
    double row = 0;
    for (int j = 0; j < c->along_x.count; j++)
      row += (double)c->along_x.value[j] * c->rows[p + i][x + (int64_t)j * c->step];
    sum += row * (double)c->along_y.value[i];
  }
  return sum;
}

/* The nearest byte; of sums that f32 rounds either neighbour, where they are as near as rounding tells. */
static bool is_right(double sum, bool exact, uint8_t found) {
  const double inside = fmin(fmax(sum, 0), UINT8_MAX);
  return exact ? found == nearbyint(inside) : fabs(found - inside) <= 0.5 + 1e-3;
}

static void check_trial(const trial *t, int rows, const char *isa) {
  const falt_separable_u8_call *c = &t->call;
  for (int p = 0; p < rows; p++) {
    for (int64_t x = 0; x < c->n; x++) {
      const double sum = sum_of(t, p, x);
      if (!is_right(sum, t->exact, t->results[p][x]))
        fail_msg("%s: row %d, column %lld of %lld, %dx%d taps, step %d, symmetric %d %d: %d and not %g", isa, p,
                 (long long)x, (long long)c->n, c->along_y.count, c->along_x.count, c->step, c->along_y.symmetric,
                 c->along_x.symmetric, t->results[p][x], sum);
    }
    for (size_t i = (size_t)c->n; i < (size_t)c->n + CANARY; i++) assert_int_equal(t->results[p][i], 0x5a);
  }
}

static void test_sums(void **state) {
  (void)state;
  static trial t;
  for (int level = 0; level < FALT_ISA_COUNT; level++) {
    const falt_separable_u8_kernels *kernels = falt_separable_u8_kernels_for((falt_isa)level);
    if (!falt_isa_runs((falt_isa)level)) continue;
    for (int i = 0; i < ROUNDS; i++) {
      set_trial(&t, kernels);
      kernels->run(&t.call);
      check_trial(&t, kernels->rows, falt_isa_name((falt_isa)level));
      free(t.call.space);
    }
  }
}

/* Results a second of a Gaussian of 9x9 taps on pixels of three bytes. */
static void test_speed(void **state) {
  (void)state;
  static trial t;
  if (!getenv("FALT_BENCH")) skip();
  for (int level = 0; level < FALT_ISA_COUNT; level++) {
    const falt_separable_u8_kernels *kernels = falt_separable_u8_kernels_for((falt_isa)level);
    if (!falt_isa_runs((falt_isa)level)) continue;
    set_trial(&t, kernels);
    free(t.call.space);
    t.call.along_x = t.call.along_y = (falt_separable_u8_taps){t.along_x, 9, true};
    t.call.step = 3;
    t.call.n = 576;
    t.call.stream = false;
    t.call.space = aligned_alloc(64, (kernels->space(9, 3) + 63) / 64 * 64);
    set_rows(&t);
    double best = INFINITY;
    for (int i = 0; i < 2000; i++) {
      const double start = falt_seconds();
      kernels->run(&t.call);
      best = fmin(best, falt_seconds() - start);
    }
    printf("%-8s %8.2f results/ns\n", falt_isa_name((falt_isa)level), 576e-9 * kernels->rows / best);
    free(t.call.space);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_speed)};
  set_seed(1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
