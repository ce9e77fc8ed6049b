/* Pooling kernels of every instruction set that this machine runs, against plain C, where random problems do not reach:
 * not-a-number and infinities among maxima, and which of equal maxima is the first. Nothing beyond n may change. */
#include "checkasm.h"
#include "solver/cpu/pooling/pooling_kernels.h"

enum { ROWS = 7, MOST = 70, ROUNDS = 200 };

/* Few values, so that equal ones meet often. */
static float value(void) {
  static const float values[] = {0, 1, -1, 2, 2, INFINITY, -INFINITY, NAN};
  return values[falt_random_int(&seed, 0, 7)];
}

static bool same(float a, float b) {
  return a == b || (isnan(a) && isnan(b));
}

static bool wins(float x, float top) {
  return x > top || (isnan(x) && !isnan(top));
}

static void check(const falt_pooling_lane *lane, int count, int n) {
  float rows[ROWS][MOST], out[MOST], top[MOST];
  int32_t which[MOST];
  const void *list[ROWS];
  for (int k = 0; k < count; k++) {
    list[k] = rows[k];
    for (int i = 0; i < MOST; i++) rows[k][i] = value();
  }
  for (int i = 0; i < MOST; i++) {
    out[i] = top[i] = i < n ? -INFINITY : 5;
    which[i] = -1;
  }
  lane->fold[FALT_POOLING_LARGEST](list, count, n, out);
  lane->first(list, count, 10, n, top, which);
  for (int i = 0; i < MOST; i++) {
    float most = i < n ? -INFINITY : 5;
    int32_t at = -1;
    for (int k = 0; k < count && i < n; k++) {
      if (wins(rows[k][i], most)) at = 10 + k;
      if (wins(rows[k][i], most)) most = rows[k][i];
    }
    assert_true(same(out[i], most) && same(top[i], most));
    assert_int_equal(which[i], at);
  }
}

static void check_runs(const falt_pooling_lane *lane, int taps) {
  float x[3 * MOST], out[3];
  for (int i = 0; i < 3 * MOST; i++) x[i] = value();
  lane->runs[FALT_POOLING_LARGEST](x, MOST, taps, 3, out);
  for (int o = 0; o < 3; o++) {
    float most = -INFINITY;
    for (int j = 0; j < taps; j++) most = wins(x[o * MOST + j], most) ? x[o * MOST + j] : most;
    assert_true(same(out[o], most));
  }
}

/* Folds at distances that overlap in what they read; what stands between the results stays. */
static void check_folds(const falt_pooling_lane *lane, int count, int n, bool sums) {
  enum { COPIES = 3, STEP = 5, ROW = MOST + STEP * COPIES };
  float rows[ROWS][ROW], out[COPIES * (MOST + 1)];
  const void *list[ROWS];
  for (int k = 0; k < count; k++) {
    list[k] = rows[k];
    for (int i = 0; i < ROW; i++) rows[k][i] = sums ? (float)falt_random_int(&seed, -99, 99) : value();
  }
  for (int i = 0; i < COPIES * (MOST + 1); i++) out[i] = 5;
  lane->folds[sums ? FALT_POOLING_SUM : FALT_POOLING_LARGEST](
      &(falt_pooling_folds){list, out, count, n, COPIES, STEP, MOST + 1});
  for (int copy = 0; copy < COPIES; copy++)
    for (int i = 0; i <= MOST; i++) {
      float most = rows[0][(i < n ? i : 0) + copy * STEP];
      for (int k = 1; k < count && i < n; k++) {
        const float x = rows[k][i + copy * STEP];
        most = sums ? most + x : wins(x, most) ? x : most;
      }
      assert_true(same(out[copy * (MOST + 1) + i], i < n ? most : 5));
    }
}

static void test_maxima(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    for (int round = 0; round < ROUNDS && falt_isa_runs((falt_isa)isa); round++) {
      const falt_pooling_lane *lane = falt_pooling_kernels_for((falt_isa)isa).f32;
      check(lane, (int)falt_random_int(&seed, 1, ROWS), (int)falt_random_int(&seed, 1, MOST));
      check_runs(lane, (int)falt_random_int(&seed, 1, MOST));
      check_folds(lane, (int)falt_random_int(&seed, 1, ROWS), (int)falt_random_int(&seed, 1, MOST), round % 2 == 1);
    }
}

int main(void) {
  set_seed(1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_maxima)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
