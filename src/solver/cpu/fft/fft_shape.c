/* Passes and tables of transforms, and the walk through a tile: see fft_shape.h.
 *
 * Decimation in frequency, Gentleman and Sande (1966); the inverse takes its order (Cooley and Tukey 1965). Rows are
 * cut depth first, so that a part that fits into the first cache passes through all later steps, the product and the
 * way back before the next is touched. */
#include "solver/cpu/fft/fft_shape.h"

#include <math.h>

#include "core/call.h"
#include "core/memory.h"

enum { LEAF = 24 << 10, LINE = 64 }; /* bytes of both planes that stay in the first cache */
enum { MOST_POWERS = 12 /* of a root that a pass or a group needs */ };

static const struct {
  int radix;
  double work; /* multiply-adds a point, twiddles and the load and store of each included */
} kinds[FALT_FFT_RADICES] = {
    [FALT_FFT_2] = {2, 5}, [FALT_FFT_3] = {3, 7}, [FALT_FFT_4] = {4, 7}, [FALT_FFT_5] = {5, 9}, [FALT_FFT_8] = {8, 10}};

/* ---- passes */

bool falt_fft_smooth(int64_t length) {
  static const int primes[] = {2, 3, 5};
  for (int i = 0; i < 3; i++)
    while (length % primes[i] == 0) length /= primes[i];
  return length == 1;
}

int64_t falt_fft_smooth_from(int64_t least) {
  while (!falt_fft_smooth(least)) least++;
  return least;
}

/* The kind of the next pass of a length that is not 1: of the powers of two the largest that leaves no 2 over. */
static falt_fft_radix next_kind(int64_t length, int widest) {
  if (length % 5 == 0) return FALT_FFT_5;
  if (length % 3 == 0) return FALT_FFT_3;
  if (widest == 8 && length % 8 == 0 && length != 16) return FALT_FFT_8;
  if (length % 4 == 0 && (widest == 8 || length != 8)) return FALT_FFT_4;
  return length % 8 == 0 ? FALT_FFT_8 : FALT_FFT_2;
}

double falt_fft_work(const falt_fft_lane *lane, int64_t length) {
  double work = 0;
  while (length > 1) {
    const falt_fft_radix kind = next_kind(length, lane->widest);
    work += kinds[kind].work;
    length /= kinds[kind].radix;
  }
  return 2 * work;
}

static size_t place(falt_fft_shape *shape, size_t bytes) {
  const size_t at = shape->table_bytes;
  shape->table_bytes = (at + bytes + LINE - 1) / LINE * LINE;
  return at;
}

static void set_axis(falt_fft_shape *shape, falt_fft_axis *axis, int64_t rows) {
  *axis = (falt_fft_axis){.rows = rows};
  for (int64_t length = rows; length > 1;) {
    const falt_fft_radix kind = next_kind(length, shape->lane->widest);
    const int radix = kinds[kind].radix;
    falt_fft_step *step = &axis->step[axis->count++];
    length /= radix;
    *step = (falt_fft_step){.kind = kind, .span = length};
    if (length > 1) step->twiddles = place(shape, (size_t)(2 * (radix - 1) * length) * shape->element);
  }
}

void falt_fft_shape_set(falt_fft_shape *shape, const falt_fft_lane *lane, size_t element, const int64_t size[3],
                        const bool transformed[3]) {
  const int64_t width = lane->width, vectors = size[2] / width, line = LINE / (int64_t)element;
  *shape = (falt_fft_shape){.lane = lane, .element = element};
  for (int i = 0; i < 3; i++) {
    shape->size[i] = size[i];
    set_axis(shape, &shape->axis[i], i == 2 ? vectors : transformed[i] ? size[i] : 1);
  }
  shape->group_rows = width / falt_gcd(vectors, width);
  shape->groups = shape->group_rows * vectors / width;
  shape->rows = falt_round_up(size[0] * size[1], shape->group_rows);
  shape->kept = shape->rows / shape->group_rows * shape->groups;
  if (!transformed[0] && !transformed[1])
    shape->kept = shape->groups;
  else if (!transformed[0] && size[1] % shape->group_rows == 0)
    shape->kept = size[1] / shape->group_rows * shape->groups;
  shape->pitch = size[2] + (shape->rows > 1 ? line : 0); /* rows that begin in different sets of a cache */
  shape->plane = falt_round_up(shape->rows * shape->pitch, 64 * line) + 33 * line;
  shape->turns = place(shape, (size_t)(shape->groups * 2 * width * lane->turns) * element);
  shape->places = place(shape, shape->group_rows > 1 ? (size_t)(shape->groups * width) * sizeof(int32_t) : 0);
}

/* ---- tables */

static void put(const falt_fft_shape *shape, char *to, int64_t index, double value) {
  if (shape->element == sizeof(float))
    ((float *)(void *)to)[index] = (float)value;
  else
    ((double *)(void *)to)[index] = value;
}

/* exp(-2 pi i at / length), 0 <= at < length, each part rounded once: angles up to an eighth of a turn. */
static void root(int64_t at, int64_t length, double *re, double *im) {
  const double pi = 3.14159265358979323846;
  const int64_t quarter = 4 * at / length, rest = 4 * at - quarter * length; /* of a quarter, in 1/length */
  const bool beyond = 2 * rest > length;
  const double angle = pi / 2 * (double)(beyond ? length - rest : rest) / (double)length;
  const double c = beyond ? sin(angle) : cos(angle), s = beyond ? cos(angle) : sin(angle);
  const double cosines[] = {c, -s, -c, s}, sines[] = {-s, -c, s, c};
  *re = cosines[quarter];
  *im = sines[quarter];
}

typedef struct complex_number {
  double re, im;
} complex_number;

static complex_number product(complex_number a, complex_number b) {
  return (complex_number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* Powers 1 to `count` of the root at `at`: for f32 by products in f64, which round as the roots themselves. */
static void root_powers(const falt_fft_shape *shape, int64_t at, int64_t length, int count, complex_number *power) {
  for (int i = 0; i < count; i++)
    if (i == 0 || shape->element != sizeof(float))
      root(at * (i + 1) % length, length, &power[i].re, &power[i].im);
    else
      power[i] = product(power[i - 1], power[0]);
}

static void fill_step(const falt_fft_shape *shape, const falt_fft_step *step) {
  const int radix = kinds[step->kind].radix;
  char *to = shape->tables + step->twiddles;
  complex_number power[MOST_POWERS];
  if (step->span == 1) return;
  for (int64_t j = 0, i = 0; j < step->span; j++) {
    root_powers(shape, j, radix * step->span, radix - 1, power);
    for (int p = 1; p < radix; p++, i += 2) {
      put(shape, to, i, power[p - 1].re);
      put(shape, to, i + 1, power[p - 1].im);
    }
  }
}

/* The frequency of an axis's passes that stands at a position. */
static int64_t frequency_at(const falt_fft_axis *axis, int64_t position) {
  int64_t frequency = 0, weight = 1;
  for (int i = 0; i < axis->count; i++) {
    const falt_fft_step *step = &axis->step[i];
    frequency += position / step->span * weight;
    position %= step->span;
    weight *= kinds[step->kind].radix;
  }
  return frequency;
}

/* Powers 1, 2, 3 and 4, 8, 12 of the root of each vector's frequency, as far as there are lanes. */
static void fill_turns(const falt_fft_shape *shape) {
  const falt_fft_axis *axis = &shape->axis[2];
  const int width = shape->lane->width, low = width < 4 ? width : 4, turns = shape->lane->turns;
  const int most = turns < low ? turns : (turns - low + 1) * low;
  char *to = shape->tables + shape->turns;
  complex_number powers[MOST_POWERS];
  for (int64_t v = 0; v < shape->groups * width; v++) {
    const int64_t frequency = frequency_at(axis, v % axis->rows), group = v / width, at = v % width;
    root_powers(shape, frequency, shape->size[2], most, powers);
    for (int t = 0; t < turns; t++) {
      const int power = t < low - 1 ? t + 1 : (t - low + 2) * low;
      const int64_t first = (group * turns + t) * 2 * width + at;
      put(shape, to, first, powers[power - 1].re);
      put(shape, to, first + width, powers[power - 1].im);
    }
  }
}

static void fill_places(const falt_fft_shape *shape) {
  int32_t *to = (int32_t *)(void *)(shape->tables + shape->places);
  const int64_t vectors = shape->axis[2].rows, width = shape->lane->width;
  for (int64_t v = 0; shape->group_rows > 1 && v < shape->groups * width; v++)
    to[v] = (int32_t)(v / vectors * shape->pitch + v % vectors * width);
}

bool falt_fft_shape_ready(falt_fft_shape *shape) {
  shape->tables = falt_alloc(shape->table_bytes);
  if (!shape->tables) return false;
  for (int i = 0; i < 3; i++)
    for (int s = 0; s < shape->axis[i].count; s++) fill_step(shape, &shape->axis[i].step[s]);
  fill_turns(shape);
  fill_places(shape);
  return true;
}

void falt_fft_shape_free(falt_fft_shape *shape) {
  falt_free(shape->tables);
}

/* ---- the walk */

typedef enum walk_kind { CONVOLVE, SPECTRUM, CORRELATE, INVERSE } walk_kind;

/* What happens to rows: a transform, a product, and the way back. */
typedef struct walk {
  const falt_fft_shape *shape;
  walk_kind kind;
  const char *factors; /* the spectrum, or NULL */
  char *to;            /* where it goes, or sums */
  double scale;
} walk;

static bool goes_forward(const walk *w) {
  return w->kind != INVERSE;
}

static bool comes_back(const walk *w) {
  return w->kind == CONVOLVE || w->kind == INVERSE;
}

static void run_step(const falt_fft_shape *shape, const falt_fft_step *step, char *re, int64_t pitch, int64_t vectors,
                     int64_t blocks, bool back) {
  const falt_fft_pass pass = {pitch, vectors, step->span, blocks, shape->tables + step->twiddles};
  char *im = re + (size_t)shape->plane * shape->element;
  if (back)
    shape->lane->inverse[step->kind](im, re, &pass);
  else
    shape->lane->forward[step->kind](re, im, &pass);
}

/* All steps from one on, over one of its blocks. */
static void run_steps(const falt_fft_shape *shape, const falt_fft_axis *axis, int from, char *re, int64_t pitch,
                      int64_t vectors, bool back) {
  int64_t blocks = 1;
  if (!back) {
    for (int i = from; i < axis->count; i++) {
      run_step(shape, &axis->step[i], re, pitch, vectors, blocks, false);
      blocks *= kinds[axis->step[i].kind].radix;
    }
    return;
  }
  for (int i = from; i < axis->count; i++) blocks *= kinds[axis->step[i].kind].radix;
  for (int i = axis->count - 1; i >= from; i--) {
    blocks /= kinds[axis->step[i].kind].radix;
    run_step(shape, &axis->step[i], re, pitch, vectors, blocks, true);
  }
}

/* Groups across lanes; `at` counts groups of all rows. */
static void across(const walk *w, char *re, int64_t at, int64_t groups) {
  const falt_fft_shape *shape = w->shape;
  const int64_t width = shape->lane->width, first = at % shape->groups;
  const size_t each = (size_t)(2 * width * width) * shape->element;
  const falt_fft_lanes call = {
      .groups = groups,
      .places = shape->group_rows > 1 ? (const int32_t *)(const void *)(shape->tables + shape->places) : NULL,
      .twiddles = shape->tables + shape->turns + (size_t)(first * 2 * width * shape->lane->turns) * shape->element,
      .spectrum = w->factors ? w->factors + (size_t)(at % shape->kept) * each : NULL};
  char *im = re + (size_t)shape->plane * shape->element;
  char *to = w->to ? w->to + (size_t)(at % shape->kept) * each : NULL;
  switch (w->kind) {
    case CONVOLVE:
      shape->lane->multiply(re, im, &call);
      return;
    case SPECTRUM:
      shape->lane->spectrum(re, im, &call, to, w->scale);
      return;
    case CORRELATE:
      shape->lane->correlate(re, im, &call, to);
      return;
    case INVERSE:
      shape->lane->back(re, im, &call);
  }
}

/* A block of one row, `from` being the step that cuts it; `at` counts groups. */
static void run_row(const walk *w, int from, char *re, int64_t vectors, int64_t at) {
  const falt_fft_shape *shape = w->shape;
  const falt_fft_axis *axis = &shape->axis[2];
  const int64_t width = shape->lane->width;
  const size_t bytes = (size_t)(vectors * width) * shape->element;
  if (falt_cancelled()) return;
  if (2 * bytes <= LEAF || from == axis->count || axis->step[from].span % width) {
    if (goes_forward(w)) run_steps(shape, axis, from, re, width, 1, false);
    across(w, re, at, vectors / width);
    if (comes_back(w)) run_steps(shape, axis, from, re, width, 1, true);
    return;
  }
  const falt_fft_step *step = &axis->step[from];
  if (goes_forward(w)) run_step(shape, step, re, width, 1, 1, false);
  for (int p = 0; p < kinds[step->kind].radix; p++)
    run_row(w, from + 1, re + (size_t)(p * step->span * width) * shape->element, step->span,
            at + p * step->span / width);
  if (comes_back(w)) run_step(shape, step, re, width, 1, 1, true);
}

/* Rows that share groups. */
static void run_group_rows(const walk *w, char *re, int64_t at) {
  const falt_fft_shape *shape = w->shape;
  const size_t row = (size_t)shape->pitch * shape->element;
  const int64_t width = shape->lane->width, count = shape->group_rows;
  for (int64_t i = 0; goes_forward(w) && i < count; i++)
    run_steps(shape, &shape->axis[2], 0, re + (size_t)i * row, width, 1, false);
  across(w, re, at, shape->groups);
  for (int64_t i = 0; comes_back(w) && i < count; i++)
    run_steps(shape, &shape->axis[2], 0, re + (size_t)i * row, width, 1, true);
}

static void run_rows(const walk *w, char *re) {
  const falt_fft_shape *shape = w->shape;
  const size_t row = (size_t)shape->pitch * shape->element;
  for (int64_t y = 0; y < shape->rows; y += shape->group_rows) {
    const int64_t at = y / shape->group_rows * shape->groups;
    if (shape->group_rows == 1)
      run_row(w, 0, re + (size_t)y * row, shape->axis[2].rows, at);
    else
      run_group_rows(w, re + (size_t)y * row, at);
  }
}

/* Columns of one axis in a plane of rows `pitch` apart, as many at once as stay in the first cache. */
static void run_columns(const falt_fft_shape *shape, const falt_fft_axis *axis, char *re, int64_t pitch, bool back) {
  const int64_t width = shape->lane->width, all = shape->size[2] / width;
  const int64_t vector = width * (int64_t)shape->element, kept = LEAF / (2 * axis->rows * vector);
  const int64_t most = falt_max(kept, falt_max(1, LINE / vector));
  for (int64_t v = 0; v < all && !falt_cancelled(); v += most)
    run_steps(shape, axis, 0, re + (size_t)(v * vector), pitch, falt_min(most, all - v), back);
}

/* Columns of the axes above x, those of the depth first or, on the way back, last. */
static void run_planes(const falt_fft_shape *shape, char *re, bool back) {
  const size_t row = (size_t)shape->pitch * shape->element;
  const int64_t plane = shape->size[1] * shape->pitch;
  for (int turn = 0; turn < 2; turn++) {
    const int i = back ? 1 - turn : turn;
    const int64_t count = i == 0 ? shape->size[1] : shape->size[0];
    const size_t apart = i == 0 ? row : row * (size_t)shape->size[1];
    for (int64_t p = 0; shape->axis[i].count && p < count; p++)
      run_columns(shape, &shape->axis[i], re + (size_t)p * apart, i == 0 ? plane : shape->pitch, back);
  }
}

void falt_fft_scale(const falt_fft_shape *shape, void *x, int64_t count, int exponent) {
  const int most = 100;
  while (exponent) {
    const int step = exponent > most ? most : exponent < -most ? -most : exponent;
    shape->lane->scale(x, count, ldexp(1, step));
    exponent -= step;
  }
}

int64_t falt_fft_spectrum_count(const falt_fft_shape *shape) {
  return 2 * shape->kept * shape->lane->width * shape->lane->width;
}

void falt_fft_spectrum(const falt_fft_shape *shape, void *tile, void *spectrum, double scale) {
  const walk w = {.shape = shape, .kind = SPECTRUM, .to = spectrum, .scale = scale};
  run_planes(shape, tile, false);
  run_rows(&w, tile);
}

void falt_fft_convolve(const falt_fft_shape *shape, void *tile, const void *spectrum) {
  const walk w = {.shape = shape, .kind = CONVOLVE, .factors = spectrum};
  run_planes(shape, tile, false);
  run_rows(&w, tile);
  run_planes(shape, tile, true);
}

void falt_fft_correlate(const falt_fft_shape *shape, void *tile, const void *spectrum, void *sums) {
  const walk w = {.shape = shape, .kind = CORRELATE, .factors = spectrum, .to = sums};
  run_planes(shape, tile, false);
  run_rows(&w, tile);
}

void falt_fft_inverse(const falt_fft_shape *shape, const void *spectrum, void *tile) {
  const walk w = {.shape = shape, .kind = INVERSE, .factors = spectrum};
  run_rows(&w, tile);
  run_planes(shape, tile, true);
}
