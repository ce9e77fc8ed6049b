/* Transforms of every instruction set that this machine runs: each spectrum against the sum that defines it, in f64,
 * and convolutions and correlations of tiles of one, two and three axes against their definition. FALT_SEED chooses
 * another seed; FALT_BENCH=1 prints the speed of each instruction set. */
#include "checkasm.h"
#include "core/memory.h"
#include "solver/cpu/fft/fft_shape.h"

/* ---- tiles */

typedef struct tile {
  falt_fft_shape shape;
  char *memory, *spectrum;
} tile;

static void tile_open(tile *t, falt_isa isa, size_t element, const int64_t size[3], const bool transformed[3]) {
  const falt_fft_lane *lane = falt_fft_lane_for(isa, element);
  falt_fft_shape_set(&t->shape, lane, element, size, transformed);
  assert_true(falt_fft_shape_ready(&t->shape));
  t->memory = falt_alloc_zero(2 * (size_t)t->shape.plane * element);
  t->spectrum = falt_alloc((size_t)falt_fft_spectrum_count(&t->shape) * element);
  assert_non_null(t->memory);
  assert_non_null(t->spectrum);
}

static void tile_close(tile *t) {
  falt_fft_shape_free(&t->shape);
  falt_free(t->memory);
  falt_free(t->spectrum);
}

static void put(const falt_fft_shape *shape, char *memory, int64_t at, double value) {
  if (shape->element == sizeof(float))
    ((float *)(void *)memory)[at] = (float)value;
  else
    ((double *)(void *)memory)[at] = value;
}

static double get(const falt_fft_shape *shape, const char *memory, int64_t at) {
  return shape->element == sizeof(float) ? (double)((const float *)(const void *)memory)[at]
                                         : ((const double *)(const void *)memory)[at];
}

static int64_t count_of(const tile *t) {
  return t->shape.size[0] * t->shape.size[1] * t->shape.size[2];
}

/* Elements between the real and the imaginary part of a point, and the point's place. */
static int64_t place_of(const tile *t, int64_t point) {
  return point / t->shape.size[2] * t->shape.pitch + point % t->shape.size[2];
}

static void load(tile *t, const double *re, const double *im) {
  for (int64_t i = 0; i < count_of(t); i++) {
    put(&t->shape, t->memory, place_of(t, i), re[i]);
    put(&t->shape, t->memory, place_of(t, i) + t->shape.plane, im[i]);
  }
}

static double epsilon_of(const tile *t) {
  return t->shape.element == sizeof(float) ? 0x1p-24 : 0x1p-53;
}

/* ---- spectra: one axis */

static int64_t slot_place(const tile *t, int64_t slot) {
  const int64_t width = t->shape.lane->width;
  return slot / width * 2 * width + slot % width;
}

/* Which frequency each slot of a spectrum has: of a pure tone all other slots are 0. */
static void find_frequencies(tile *t, int64_t *frequency) {
  const int64_t n = count_of(t);
  double *re = malloc((size_t)n * sizeof *re), *im = malloc((size_t)n * sizeof *im);
  for (int64_t i = 0; i < n; i++) frequency[i] = -1;
  for (int64_t f = 0; f < n; f++) {
    for (int64_t i = 0; i < n; i++) {
      const double angle = 2 * 3.14159265358979323846 * (double)(f * i % n) / (double)n;
      re[i] = cos(angle);
      im[i] = sin(angle);
    }
    load(t, re, im);
    falt_fft_spectrum(&t->shape, t->memory, t->spectrum, 1 / (double)n);
    for (int64_t slot = 0; slot < n; slot++) {
      const double value = get(&t->shape, t->spectrum, slot_place(t, slot));
      if (fabs(value) < 0.5) continue;
      assert_true(frequency[slot] < 0);
      frequency[slot] = f;
    }
  }
  for (int64_t i = 0; i < n; i++) assert_true(frequency[i] >= 0);
  free(re);
  free(im);
}

/* The norm of the error over the norm of the spectrum, in units of eps*log2(n). */
static double spectrum_error(tile *t, const int64_t *frequency) {
  const int64_t n = count_of(t), width = t->shape.lane->width;
  double *re = malloc((size_t)n * sizeof *re), *im = malloc((size_t)n * sizeof *im), wrong = 0, norm = 0;
  for (int64_t i = 0; i < n; i++) {
    re[i] = (double)(float)random_number();
    im[i] = (double)(float)random_number();
  }
  load(t, re, im);
  falt_fft_spectrum(&t->shape, t->memory, t->spectrum, 1);
  for (int64_t slot = 0; slot < n; slot++) {
    long double a = 0, b = 0;
    for (int64_t i = 0; i < n; i++) {
      const long double turns = (long double)(frequency[slot] * i % n) / (long double)n;
      const long double c = cosl(2 * 3.14159265358979323846L * turns), s = -sinl(2 * 3.14159265358979323846L * turns);
      a += (long double)re[i] * c - (long double)im[i] * s;
      b += (long double)re[i] * s + (long double)im[i] * c;
    }
    const int64_t at = slot_place(t, slot);
    const double da = get(&t->shape, t->spectrum, at) - (double)a;
    const double db = get(&t->shape, t->spectrum, at + width) - (double)b;
    wrong += da * da + db * db;
    norm += (double)(a * a + b * b);
  }
  free(re);
  free(im);
  return sqrt(wrong / norm) / (epsilon_of(t) * log2((double)n));
}

static void check_length(falt_isa isa, size_t element, int64_t n) {
  tile t;
  tile_open(&t, isa, element, (int64_t[3]){1, 1, n}, (bool[3]){false, false, true});
  int64_t *frequency = malloc((size_t)n * sizeof *frequency);
  find_frequencies(&t, frequency);
  const double error = spectrum_error(&t, frequency);
  if (!(error < 1)) fail_msg("%s, %zu bytes, length %lld: error %g", falt_isa_name(isa), element, (long long)n, error);
  free(frequency);
  tile_close(&t);
}

/* ---- convolutions */

/* Points of a tile by axis, as a cyclic shift needs them; an axis that is not transformed does not shift. */
static int64_t shifted(const int64_t size[3], const bool transformed[3], int64_t point, int64_t tap) {
  int64_t at = 0, scale = 1;
  for (int i = 2; i >= 0; i--) {
    const int64_t x = point % size[i], j = tap % size[i];
    at += (transformed[i] ? (x - j + size[i]) % size[i] : x) * scale;
    scale *= size[i];
    point /= size[i];
    tap /= size[i];
  }
  return at;
}

enum { TAPS = 9 };

/* A few taps at random places; along an axis that is not transformed each point has all of them. */
static void check_tile(falt_isa isa, size_t element, const int64_t size[3], const bool transformed[3]) {
  tile t;
  tile_open(&t, isa, element, size, transformed);
  const int64_t n = count_of(&t);
  double *re = calloc((size_t)n, sizeof *re), *im = calloc((size_t)n, sizeof *im), taps[TAPS], points = 1, wrong = 0;
  double *filter = calloc((size_t)n, sizeof *filter);
  int64_t place[TAPS];
  for (int k = 0; k < TAPS; k++) {
    place[k] = falt_random_int(&seed, 0, n - 1);
    taps[k] = (double)(float)random_number();
  }
  for (int i = 0; i < 3; i++) points *= i == 2 || transformed[i] ? (double)size[i] : 1;
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i, other = 0, scale = 1; /* the point at 0 of the axes that shift */
    for (int a = 2; a >= 0; a--) {
      other += transformed[a] || a == 2 ? 0 : rest % size[a] * scale;
      scale *= size[a];
      rest /= size[a];
    }
    for (int k = 0; k < TAPS; k++) {
      rest = place[k], scale = 1;
      int64_t at = other;
      for (int a = 2; a >= 0; a--) {
        at += transformed[a] || a == 2 ? rest % size[a] * scale : 0;
        scale *= size[a];
        rest /= size[a];
      }
      if (at == i) filter[i] += taps[k];
    }
    re[i] = (double)(float)random_number();
    im[i] = (double)(float)random_number();
  }
  double *zeros = calloc((size_t)n, sizeof *zeros);
  load(&t, filter, zeros);
  for (int64_t y = size[0] * size[1]; !transformed[0] && !transformed[1] && y < t.shape.rows; y++)
    memcpy(t.memory + (size_t)(y * t.shape.pitch) * element, t.memory, (size_t)size[2] * element);
  falt_fft_spectrum(&t.shape, t.memory, t.spectrum, 1 / points);
  load(&t, re, im);
  falt_fft_convolve(&t.shape, t.memory, t.spectrum);
  for (int64_t i = 0; i < n; i++) {
    double a = 0, b = 0;
    for (int k = 0; k < TAPS; k++) {
      const int64_t from = shifted(size, (bool[3]){transformed[0], transformed[1], true}, i, place[k]);
      a += taps[k] * re[from];
      b += taps[k] * im[from];
    }
    wrong = fmax(wrong, fabs(get(&t.shape, t.memory, place_of(&t, i)) - a));
    wrong = fmax(wrong, fabs(get(&t.shape, t.memory, place_of(&t, i) + t.shape.plane) - b));
  }
  if (!(wrong < 2 * TAPS * epsilon_of(&t) * log2(points + 1)))
    fail_msg("%s, %zu bytes, %lldx%lldx%lld: error %g", falt_isa_name(isa), element, (long long)size[0],
             (long long)size[1], (long long)size[2], wrong);
  free(re);
  free(im);
  free(filter);
  free(zeros);
  tile_close(&t);
}

/* ---- correlations */

static int64_t width_of(falt_isa isa, size_t element) {
  return falt_fft_lane_for(isa, element)->width;
}

/* Two tiles that are transformed along all axes: the sum over points o of a[o + j] * conj(b[o]), added up twice. */
static void check_correlation(falt_isa isa, size_t element, const int64_t size[3]) {
  const bool transformed[3] = {true, true, true};
  tile t;
  tile_open(&t, isa, element, size, transformed);
  const int64_t n = count_of(&t);
  double *a = calloc(4 * (size_t)n, sizeof *a), *b = a + 2 * n, wrong = 0, weight = 0;
  char *sums = falt_alloc_zero((size_t)falt_fft_spectrum_count(&t.shape) * element);
  for (int64_t i = 0; i < 4 * n; i++) a[i] = (double)(float)random_number();
  for (int64_t i = 0; i < 2 * n; i++) weight += fabs(b[i]);
  load(&t, b, b + n);
  falt_fft_spectrum(&t.shape, t.memory, t.spectrum, 1 / (double)n);
  for (int turn = 0; turn < 2; turn++) {
    load(&t, a, a + n);
    falt_fft_correlate(&t.shape, t.memory, t.spectrum, sums);
  }
  falt_fft_inverse(&t.shape, sums, t.memory);
  for (int64_t j = 0; j<n; j += n> 64 ? 7 : 1) {
    double re = 0, im = 0;
    for (int64_t o = 0; o < n; o++) {
      const int64_t z = (o / size[2] / size[1] + j / size[2] / size[1]) % size[0];
      const int64_t y = (o / size[2] % size[1] + j / size[2] % size[1]) % size[1];
      const int64_t i = (z * size[1] + y) * size[2] + (o % size[2] + j % size[2]) % size[2];
      re += a[i] * b[o] + a[n + i] * b[n + o];
      im += a[n + i] * b[o] - a[i] * b[n + o];
    }
    wrong = fmax(wrong, fabs(get(&t.shape, t.memory, place_of(&t, j)) - 2 * re));
    wrong = fmax(wrong, fabs(get(&t.shape, t.memory, place_of(&t, j) + t.shape.plane) - 2 * im));
  }
  if (!(wrong < 4 * weight * epsilon_of(&t) * log2((double)n + 1)))
    fail_msg("%s, %zu bytes, %lldx%lldx%lld: error %g", falt_isa_name(isa), element, (long long)size[0],
             (long long)size[1], (long long)size[2], wrong);
  free(a);
  falt_free(sums);
  tile_close(&t);
}

/* Rows that fill groups, that are cut into leaves, and that share groups. */
static void check_correlations(falt_isa isa, size_t element) {
  const int64_t width = width_of(isa, element);
  check_correlation(isa, element, (int64_t[3]){1, 1, 3 * width * width});
  check_correlation(isa, element, (int64_t[3]){1, 1, 4096});
  check_correlation(isa, element, (int64_t[3]){1, 5, width});
  check_correlation(isa, element, (int64_t[3]){1, 12, 3 * width});
  check_correlation(isa, element, (int64_t[3]){3, 4, 2 * width});
}

/* ---- speed */

static void time_tile(falt_isa isa, size_t element, int64_t h, int64_t w) {
  tile t;
  tile_open(&t, isa, element, (int64_t[3]){1, h, w}, (bool[3]){false, h > 1, true});
  memset(t.spectrum, 0, (size_t)falt_fft_spectrum_count(&t.shape) * element);
  double best = INFINITY;
  for (int round = 0; round < 50; round++) {
    const double begin = falt_seconds();
    falt_fft_convolve(&t.shape, t.memory, t.spectrum);
    best = fmin(best, falt_seconds() - begin);
  }
  print_message("%s %zu bytes %lldx%lld: %.2f ns a real sample\n", falt_isa_name(isa), element, (long long)h,
                (long long)w, best / (double)(2 * h * w) * 1e9);
  tile_close(&t);
}

/* ---- tests */

static void each_isa(void (*check)(falt_isa isa, size_t element)) {
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (falt_isa_runs((falt_isa)isa) && isa <= FALT_ISA_AVX512)
      for (size_t element = 4; element <= 8; element += 4) check((falt_isa)isa, element);
}

/* Every kind of pass, first, last and between others; leaves and blocks. */
static void check_lengths(falt_isa isa, size_t element) {
  static const int64_t groups[] = {1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16};
  const int64_t width = width_of(isa, element);
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (groups[i] * width * width <= 1024) check_length(isa, element, groups[i] * width * width);
}

static void check_tiles(falt_isa isa, size_t element) {
  const int64_t width = width_of(isa, element);
  const bool row[3] = {false, false, true}, plane[3] = {false, true, true}, volume[3] = {true, true, true};
  for (int64_t n = 1; n <= 30; n++) {
    if (!falt_fft_smooth(n)) continue;
    check_tile(isa, element, (int64_t[3]){1, 1, n * width * width}, row);
    check_tile(isa, element, (int64_t[3]){1, n, 3 * width}, plane);
    check_tile(isa, element, (int64_t[3]){2, 3, n * width}, row);
    check_tile(isa, element, (int64_t[3]){4, n, width}, volume);
    check_tile(isa, element, (int64_t[3]){n, 2, 2 * width}, (bool[3]){true, false, true});
  }
  check_tile(isa, element, (int64_t[3]){1, 1, 1 << 16}, row);
  check_tile(isa, element, (int64_t[3]){1, 1, 40000 * 32 / 25 / width / width * width * width}, row);
  check_tile(isa, element, (int64_t[3]){1, 240, 256}, plane);
}

static void check_speed(falt_isa isa, size_t element) {
  if (!getenv("FALT_BENCH")) return;
  for (int64_t n = 1024; n <= 1 << 20; n *= 2) time_tile(isa, element, 1, n);
  for (int64_t n = 64; n <= 512; n *= 2) time_tile(isa, element, n, 256);
}

static void test_spectra(void **state) {
  (void)state;
  each_isa(check_lengths);
}

static void test_convolutions(void **state) {
  (void)state;
  each_isa(check_tiles);
}

static void test_correlations(void **state) {
  (void)state;
  each_isa(check_correlations);
}

static void test_speed(void **state) {
  (void)state;
  each_isa(check_speed);
}

int main(void) {
  set_seed(1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_spectra), cmocka_unit_test(test_convolutions),
                                     cmocka_unit_test(test_correlations), cmocka_unit_test(test_speed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
