/* Tests of bands for tensor cores: needs no GPU. The products are carried out here, number by number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/types.h"
#include "solver/cuda/toeplitz/cuda_toeplitz_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static double number_of(falt_toeplitz_kind kind, uint32_t word, int i) {
  float value;
  if (kind == FALT_BANDS_BYTES) return (int8_t)(word >> 8 * i);
  if (kind == FALT_BANDS_HALVES) return falt_from_f16((uint16_t)(word >> 16 * i));
  if (kind == FALT_BANDS_BRAINS) word = i ? word & 0xffff0000u : word << 16;
  memcpy(&value, &word, sizeof value);
  return value;
}

/* The weight of part `part` of a tap. */
static double weight_of(const falt_toeplitz *b, int part) {
  return b->kind == FALT_BANDS_BYTES ? ldexp(1, 8 * (b->parts - 1 - part)) : 1;
}

/* What result m takes of the footprint's element (plane, row, column), by the layout that mma.cuh describes. */
static double band_at(const falt_toeplitz *b, const uint32_t *words, const int at[3], int m) {
  const int slot = at[2] / b->per_word, chunk = slot / b->slots, in_chunk = slot % b->slots;
  const int lane = m % 8 * 4 + at[1] % 4, half = m / 8, odd = in_chunk % 2,
            reg = b->transposed ? half * 2 + odd : odd * 2 + half;
  double sum = 0;
  for (int part = 0; part < b->parts; part++) {
    const int product = ((at[0] * b->chunks + chunk) * b->depth + at[1] / 4) * b->pairs + in_chunk / 2;
    const uint32_t word = words[((product * b->parts + part) * 32 + lane) * 4 + reg];
    sum += weight_of(b, part) * number_of(b->kind, word, at[2] % b->per_word);
  }
  return sum * b->unit;
}

static double tap_at(const falt_toeplitz *b, const double *taps, const int at[3], int m) {
  const int row = at[1] - m / 2 % 4;
  const int column = at[2] - (b->transposed ? m % 2 + 2 * (m / 8) : 2 * (m % 2) + m / 8);
  if (row < 0 || row >= b->taps[1] || column < 0 || column % b->pixel || column / b->pixel >= b->taps[2]) return 0;
  return taps[(at[0] * b->taps[1] + row) * b->taps[2] + column / b->pixel];
}

static void check_layout(falt_toeplitz_kind kind, const int size[3], int pixel, bool transposed, const double *taps,
                         double tolerance) {
  falt_toeplitz b;
  falt_toeplitz_make(&b, kind, size, pixel, taps);
  b.transposed = transposed;
  uint32_t *words = malloc(falt_toeplitz_bytes(&b));
  assert_non_null(words);
  falt_toeplitz_fill(&b, taps, words);
  assert_true(4 * b.depth >= size[1] + 3);
  assert_true(b.chunks * b.slots * b.per_word >= (size[2] - 1) * pixel + 1 + 3);
  for (int t = 0; t < size[0]; t++)
    for (int r = 0; r < 4 * b.depth; r++)
      for (int s = 0; s < b.chunks * b.slots * b.per_word; s++)
        for (int m = 0; m < 16; m++) {
          const int at[3] = {t, r, s};
          const double tap = tap_at(&b, taps, at, m);
          assert_true(fabs(band_at(&b, words, at, m) - tap) <= tolerance * fabs(tap));
        }
  free(words);
}

static void check(falt_toeplitz_kind kind, const int size[3], int pixel, const double *taps, double tolerance) {
  check_layout(kind, size, pixel, false, taps, tolerance);
  check_layout(kind, size, pixel, true, taps, tolerance);
}

static void test_every_tap_is_met(UNUSED void **state) {
  static const int sizes[][4] = {{1, 5, 5, 1},   {1, 3, 3, 1}, {3, 3, 3, 1},   {1, 1, 31, 1}, {1, 31, 1, 1},
                                 {1, 15, 15, 3}, {2, 4, 6, 2}, {1, 63, 63, 3}, {1, 2, 200, 1}};
  static double taps[64 * 64];
  for (int i = 0; i < 64 * 64; i++) taps[i] = (i % 2 ? 1 : -1) * (0.5 + fmod(i * 0.618033988749, 1));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    check(FALT_BANDS_BYTES, sizes[i], sizes[i][3], taps, 0x1p-18);
    check(FALT_BANDS_HALVES, sizes[i], sizes[i][3], taps, 0x1p-22);
    check(FALT_BANDS_BRAINS, sizes[i], sizes[i][3], taps, 0x1p-23);
    check(FALT_BANDS_WORDS, sizes[i], sizes[i][3], taps, 0x1p-22);
  }
}

/* Filters whose taps are multiples of one number need one part, and lose nothing. */
static void test_exact(UNUSED void **state) {
  static const int size[3] = {1, 3, 3};
  static const double box[] = {1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f};
  static const double sobel[] = {-1, 0, 1, -2, 0, 2, -1, 0, 1}, none[9] = {0};
  static const double binomial[] = {.0625, .125, .0625, .125, .25, .125, .0625, .125, .0625};
  static const double *const filters[] = {box, sobel, none, binomial};
  for (int kind = FALT_BANDS_BYTES; kind <= FALT_BANDS_WORDS; kind++)
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
      falt_toeplitz b;
      falt_toeplitz_make(&b, (falt_toeplitz_kind)kind, size, 1, filters[i]);
      assert_int_equal(b.parts, 1);
      check((falt_toeplitz_kind)kind, size, 1, filters[i], 0x1p-25);
    }
}

/* Integers stay what they are, by as many bytes as they need. */
static void test_integers(UNUSED void **state) {
  static const int size[3] = {1, 1, 3};
  static const double taps[][3] = {{-127, 5, 127}, {-128, 77, 255}, {32767, -32768, 11}, {65535, -3, 40000}};
  static const int parts[] = {1, 2, 3, 3};
  for (size_t i = 0; i < sizeof taps / sizeof *taps; i++) {
    falt_toeplitz b;
    falt_toeplitz_make(&b, FALT_BANDS_BYTES, size, 1, taps[i]);
    assert_true(b.unit == 1 && b.error == 0);
    assert_int_equal(b.parts, parts[i]);
    check(FALT_BANDS_BYTES, size, 1, taps[i], 0);
  }
}

/* Parts with the range of f32 are not made smaller: their products with small elements would underflow. No part is
 * rounded to infinity. */
static void test_range_of_parts(UNUSED void **state) {
  static const int size[3] = {1, 1, 3};
  static const double taps[][3] = {
      {0x1.2345p30, 0x1.fedcbp12, -3}, {0x1.fffffep127, 0x1.234567p100, 1}, {0x1.2345p-99, 0x1.fedcbp-101, 0x1p-130}};
  static const double units[] = {1, 2, 0x1p-98};
  for (int kind = FALT_BANDS_BRAINS; kind <= FALT_BANDS_WORDS; kind++)
    for (size_t i = 0; i < sizeof taps / sizeof *taps; i++) {
      falt_toeplitz b;
      falt_toeplitz_make(&b, (falt_toeplitz_kind)kind, size, 1, taps[i]);
      assert_true(b.unit == units[i] && b.relative_error < 0x1p-21);
    }
}

/* ---- sums whose bits are floats */

static float float_of(int32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

typedef struct scaling {
  double alpha, beta;
  bool exact; /* nothing is rounded */
} scaling;

/* A result as the kernel forms it, and as it is. */
static double biased_result(const falt_toeplitz *b, const falt_toeplitz_bias *bias, const double *taps, const int *x,
                            int count, double *exact) {
  float value = bias->offset;
  *exact = 0;
  for (int p = 0; p < b->parts; p++) {
    int32_t sum = FALT_BANDS_START;
    for (int i = 0; i < count; i++) {
      int64_t integer = llrint(taps[i] / b->unit), digit = integer;
      for (int q = b->parts - 1; q >= p; q--) {
        digit = q == 0 ? integer : ((integer + 128) & 255) - 128;
        integer = (integer - digit) / 256;
      }
      sum += (int32_t)digit * x[i];
    }
    value = fmaf(bias->weight[p], float_of(sum) - (bias->folded ? 0 : 0x1.8p23f), value);
  }
  for (int i = 0; i < count; i++) *exact += rint(taps[i] / b->unit) * b->unit * x[i];
  return (double)value;
}

static void check_bias(const double *taps, int side, const scaling *s) {
  const int size[3] = {1, side, side};
  falt_toeplitz b;
  falt_toeplitz_bias bias;
  falt_toeplitz_make(&b, FALT_BANDS_BYTES, size, 1, taps);
  assert_true(falt_toeplitz_bias_make(&bias, &b, taps, 255, s->alpha, s->beta));
  if (s->exact) assert_true(bias.error == 0);
  double reach = 0;
  for (int i = 0; i < side * side; i++) reach += 255 * fabs(taps[i] * s->alpha);
  assert_true(bias.error <= 0x1p-20 * (reach + fabs(s->beta)));
  for (int round = 0; round < 200; round++) {
    int x[15 * 15];
    double exact;
    for (int i = 0; i < side * side; i++) x[i] = round == 0 ? 255 : round == 1 ? (taps[i] > 0) * 255 : rand() % 256;
    const double got = biased_result(&b, &bias, taps, x, side * side, &exact);
    assert_true(fabs(got - (s->alpha * exact + s->beta)) <= bias.error + 0x1p-45 * reach);
  }
}

static void test_bias(UNUSED void **state) {
  static const scaling plain = {1, 0, false}, exact = {1, 0, true};
  static const scaling others[] = {{0.5, 1, false}, {1, 0.3, false}, {-1 / 7., 128, false}};
  double box[9], integers[25], any[15 * 15];
  for (int i = 0; i < 9; i++) box[i] = 1 / 9.f;
  for (int i = 0; i < 25; i++) integers[i] = i * 20 - 240;
  for (int i = 0; i < 15 * 15; i++) any[i] = (float)((fmod(i * 0.618033988749, 1) - 0.3) / 40);
  check_bias(integers, 5, &exact);
  check_bias(box, 3, &plain);
  for (int side = 1; side <= 15; side += 2) check_bias(any, side, &plain);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    check_bias(integers, 5, &others[i]);
    check_bias(box, 3, &others[i]);
    check_bias(any, 7, &others[i]);
  }
}

/* Sums that would leave the range of such floats are refused. */
static void test_bias_range(UNUSED void **state) {
  static const int size[3] = {1, 31, 31};
  static double taps[31 * 31];
  falt_toeplitz b;
  falt_toeplitz_bias bias;
  for (int i = 0; i < 31 * 31; i++) taps[i] = 127;
  falt_toeplitz_make(&b, FALT_BANDS_BYTES, size, 1, taps);
  assert_false(falt_toeplitz_bias_make(&bias, &b, taps, 255, 1, 0));
}

/* ---- cuts */

static void check_cut(void *context, const void *candidate) {
  const falt_toeplitz_cut *c = candidate;
  tally *t = context;
  count_legal(t, c->seconds);
  assert_true(c->blocks >= 1 && c->blocks * FALT_BANDS_WARPS <= 64);
  assert_true(c->place != FALT_BANDS_REGISTERS || c->tiles == 1);
  assert_true(c->shared_bytes <= 96 * 1024);
}

static void test_cuts(UNUSED void **state) {
  static double taps[63 * 63];
  for (int i = 0; i < 63 * 63; i++) taps[i] = sqrt(i + 1);
  for (int kind = FALT_BANDS_BYTES; kind <= FALT_BANDS_WORDS; kind++)
    for (int side = 1; side <= 63; side += side < 15 ? 1 : 8)
      for (int pixel = 1; pixel <= 4; pixel++) {
        const int size[3] = {1, side, side};
        const falt_toeplitz_image image = {{1, 4096, 4096 * pixel}, 1, 4 / (1 + (kind < 3) + 2 * (kind < 1)), 4, true};
        falt_toeplitz b;
        falt_toeplitz_cut best;
        tally sum = {0};
        falt_toeplitz_make(&b, (falt_toeplitz_kind)kind, size, pixel, taps);
        falt_toeplitz_each(&b, &image, &h200, &(falt_tile_search){.visit = check_cut, .context = &sum});
        falt_toeplitz_choose(&b, &image, &h200, &best);
        check_best(&sum, best.seconds);
        const double bytes = 4096.0 * 4096 * pixel * (image.x_bytes + image.y_bytes);
        assert_true(best.seconds >= bytes / h200.bytes_per_s); /* no estimate beats the limit */
      }
}

/* Rows come through shared memory where a window reaches no farther than a neighbouring lane's words. */
static void test_ring(UNUSED void **state) {
  static const double taps[49] = {.1, .2, .3};
  static const struct {
    falt_toeplitz_kind kind;
    int side, channels, before;
    bool ringed;
  } cases[] = {{FALT_BANDS_BYTES, 5, 1, 2, true},    {FALT_BANDS_BYTES, 5, 3, 6, true},
               {FALT_BANDS_BYTES, 3, 1, 16, true},   {FALT_BANDS_BYTES, 3, 1, 17, false},
               {FALT_BANDS_BYTES, 5, 1, -16, false}, {FALT_BANDS_BYTES, 7, 1, 3, false},
               {FALT_BANDS_HALVES, 5, 1, 2, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int size[3] = {1, cases[i].side, cases[i].side};
    falt_toeplitz_cut cut = {.place = FALT_BANDS_REGISTERS, .groups = 4, .tiles = 1};
    falt_toeplitz b;
    falt_toeplitz_make(&b, cases[i].kind, size, 1, taps);
    b.channels = cases[i].channels;
    assert_int_equal(falt_toeplitz_ringed(&b, &cut, cases[i].before), cases[i].ringed);
    cut.place = FALT_BANDS_SHARED;
    assert_false(falt_toeplitz_ringed(&b, &cut, cases[i].before));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_tap_is_met),
      cmocka_unit_test(test_exact),
      cmocka_unit_test(test_integers),
      cmocka_unit_test(test_range_of_parts),
      cmocka_unit_test(test_bias),
      cmocka_unit_test(test_bias_range),
      cmocka_unit_test(test_cuts),
      cmocka_unit_test(test_ring),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
