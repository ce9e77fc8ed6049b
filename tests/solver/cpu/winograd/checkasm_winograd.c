/* Winograd's transforms of every instruction set that this machine runs: each form's outputs, of transforms that are
 * multiplied element by element, against the sums of the taps in f64; their transposes, against gradients of the taps;
 * and what the transforms read and write.
 * FALT_SEED chooses another seed. */
#include "checkasm.h"
#include "solver/cpu/winograd/winograd_kernels.h"

enum { SIZE = FALT_WINOGRAD_SIZE, ELEMENTS = SIZE * SIZE, MOST = 64, PITCH = MOST + 16, VECTOR = 16 };

static const int outputs_of[FALT_WINOGRAD_FORMS] = {2, 4, 6, 2, 4}, taps_of[FALT_WINOGRAD_FORMS] = {3, 3, 3, 5, 5};
/* Largest error of one product, in 2^-24 of the largest input times the sum of the taps, with one axis and two. */
static const double most_error[FALT_WINOGRAD_FORMS][2] = {{4, 8}, {16, 100}, {40, 1000}, {16, 100}, {40, 1000}};
static const float canary = 12345;

/* ---- one tile */

typedef struct trial {
  const falt_winograd_kernels *kernels;
  falt_winograd_form form;
  int axes, outputs, taps, size, rows, channels, depth; /* rows: elements along the height */
  float pixels[ELEMENTS][PITCH], filter[ELEMENTS][PITCH];
  const float *list[ELEMENTS + SIZE];
  float input[ELEMENTS + 1][PITCH], weights[ELEMENTS + 1][PITCH], sums[ELEMENTS][PITCH], results[ELEMENTS + 1][PITCH];
} trial;

static void set_canaries(float (*rows)[PITCH], int count) {
  for (int i = 0; i < count; i++)
    for (int c = 0; c < PITCH; c++) rows[i][c] = canary;
}

static void check_canaries(float (*rows)[PITCH], int written, int count, int n) {
  for (int i = 0; i < count; i++)
    for (int c = i < written ? n : 0; c < PITCH; c++) assert_true(rows[i][c] == canary);
}

static void choose(trial *t) {
  t->outputs = outputs_of[t->form];
  t->taps = taps_of[t->form];
  t->size = t->outputs + t->taps - 1;
  t->rows = t->axes == 2 ? t->size : 1;
  t->channels = pick(1, MOST);
  t->depth = (t->channels + VECTOR - 1) / VECTOR * VECTOR;
  fill(t->pixels[0], ELEMENTS * PITCH);
  fill(t->filter[0], ELEMENTS * PITCH);
}

/* Pixels lie anywhere; their rows in the list are longer than a tile. */
static void run(trial *t) {
  const int row = t->size + (t->axes == 2 ? 1 : 0), offset = pick(0, 3), elements = t->rows * t->size;
  for (int i = 0; i < t->rows; i++)
    for (int j = 0; j < t->size; j++)
      t->list[i * row + j] = (const float *)((uintptr_t)t->pixels[i * t->size + j] - (size_t)offset * sizeof(float));
  set_canaries(t->input, ELEMENTS + 1);
  set_canaries(t->weights, ELEMENTS + 1);
  set_canaries(t->results, ELEMENTS + 1);
  const falt_winograd_input in = {t->list, t->input[0], row, offset, t->channels, t->depth, PITCH};
  t->kernels->input[t->axes - 1][t->form](&in);
  const falt_winograd_filter filter = {t->filter[0], t->weights[0], t->depth, PITCH, PITCH};
  t->kernels->filter[t->axes - 1][t->form](&filter);
  check_canaries(t->input, elements, ELEMENTS + 1, t->depth);
  check_canaries(t->weights, elements, ELEMENTS + 1, t->depth);
  for (int e = 0; e < elements; e++)
    for (int c = 0; c < t->depth; c++) t->sums[e][c] = t->input[e][c] * t->weights[e][c];
}

static bool finish(trial *t) {
  const falt_winograd_output out = {t->sums[0], t->results[0], t->depth, PITCH, PITCH};
  const bool finite = t->kernels->output[t->axes - 1][t->form](&out);
  check_canaries(t->results, t->axes == 2 ? t->outputs * t->outputs : t->outputs, ELEMENTS + 1, t->depth);
  return finite;
}

static void check_output(const trial *t, int y, int x, int c) {
  const int rows = t->axes == 2 ? t->taps : 1;
  double sum = 0, magnitude = 0;
  for (int r = 0; r < rows; r++)
    for (int s = 0; s < t->taps; s++) {
      const double w = (double)t->filter[r * t->taps + s][c];
      sum += w * (double)t->pixels[(y + r) * t->size + x + s][c];
      magnitude += fabs(w);
    }
  const double got = (double)t->results[y * t->outputs + x][c], most = most_error[t->form][t->axes - 1];
  if (c >= t->channels) assert_true(got == 0);
  if (c < t->channels && !(fabs(got - sum) <= most * 0x1p-24 * magnitude))
    fail_msg("form %d, %d axes: %g instead of %g, %.3g of 2^-24", t->form, t->axes, got, sum,
             fabs(got - sum) / magnitude * 0x1p24);
}

static void check_tile(trial *t) {
  choose(t);
  run(t);
  assert_true(finish(t));
  for (int y = 0; y < (t->axes == 2 ? t->outputs : 1); y++)
    for (int x = 0; x < t->outputs; x++)
      for (int c = 0; c < t->depth; c++) check_output(t, y, x, c);
}

/* One sum that is not finite, or a pixel, makes some output so. */
static void check_infinity(trial *t) {
  static const float values[] = {INFINITY, -INFINITY, NAN};
  choose(t);
  t->pixels[pick(0, t->rows * t->size - 1)][pick(0, t->channels - 1)] = values[pick(0, 2)];
  run(t);
  assert_false(finish(t));
  choose(t);
  run(t);
  t->sums[pick(0, t->rows * t->size - 1)][pick(0, t->depth - 1)] = values[pick(0, 2)];
  assert_false(finish(t));
}

/* ---- the transposes, for wgrad: t->filter has the tile's outputs */

static bool run_transposes(trial *t) {
  const int outputs = t->axes == 2 ? t->outputs * t->outputs : t->outputs, elements = t->rows * t->size;
  const int taps = t->axes == 2 ? t->taps * t->taps : t->taps;
  run(t);
  for (int i = 0; i < outputs; i++) t->list[i] = t->filter[i];
  set_canaries(t->weights, ELEMENTS + 1);
  set_canaries(t->results, ELEMENTS + 1);
  const falt_winograd_input gradient = {t->list, t->weights[0], t->outputs, 0, t->channels, t->depth, PITCH};
  t->kernels->gradient[t->axes - 1][t->form](&gradient);
  check_canaries(t->weights, elements, ELEMENTS + 1, t->depth);
  for (int e = 0; e < elements; e++)
    for (int c = 0; c < t->depth; c++) t->sums[e][c] = t->input[e][c] * t->weights[e][c];
  const falt_winograd_output products = {t->sums[0], t->results[0], t->depth, PITCH, PITCH};
  const bool finite = t->kernels->products[t->axes - 1][t->form](&products);
  check_canaries(t->results, taps, ELEMENTS + 1, t->depth);
  return finite;
}

static void check_tap(const trial *t, int r, int s, int c) {
  double sum = 0, magnitude = 0;
  for (int y = 0; y < (t->axes == 2 ? t->outputs : 1); y++)
    for (int x = 0; x < t->outputs; x++) {
      const double dy = (double)t->filter[y * t->outputs + x][c];
      sum += dy * (double)t->pixels[(y + r) * t->size + x + s][c];
      magnitude += fabs(dy);
    }
  const double got = (double)t->results[r * t->taps + s][c], most = 2 * most_error[t->form][t->axes - 1];
  if (c >= t->channels) assert_true(got == 0);
  if (c < t->channels && !(fabs(got - sum) <= most * 0x1p-24 * magnitude))
    fail_msg("form %d, %d axes, a tap: %g instead of %g, %.3g of 2^-24", t->form, t->axes, got, sum,
             fabs(got - sum) / magnitude * 0x1p24);
}

static void check_gradient(trial *t) {
  choose(t);
  assert_true(run_transposes(t));
  for (int r = 0; r < (t->axes == 2 ? t->taps : 1); r++)
    for (int s = 0; s < t->taps; s++)
      for (int c = 0; c < t->depth; c++) check_tap(t, r, s, c);
  t->filter[pick(0, t->axes == 2 ? t->outputs * t->outputs - 1 : t->outputs - 1)][pick(0, t->channels - 1)] = INFINITY;
  assert_false(run_transposes(t));
}

static void each_form(void (*check)(trial *t), int rounds) {
  static trial t;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
    t.kernels = falt_winograd_kernels_for((falt_isa)isa);
    if (!falt_isa_runs((falt_isa)isa)) continue;
    for (int form = 0; form < FALT_WINOGRAD_FORMS; form++)
      for (t.axes = 1; t.axes <= 2; t.axes++)
        for (int i = 0; i < rounds; i++) {
          t.form = (falt_winograd_form)form;
          check(&t);
        }
  }
}

static void test_tiles(void **state) {
  (void)state;
  each_form(check_tile, 20);
}

static void test_gradients(void **state) {
  (void)state;
  each_form(check_gradient, 20);
}

static void test_infinities(void **state) {
  (void)state;
  each_form(check_infinity, 5);
}

int main(void) {
  set_seed(20261123);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles), cmocka_unit_test(test_gradients),
                                     cmocka_unit_test(test_infinities)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
