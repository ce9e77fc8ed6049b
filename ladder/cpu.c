/* The ladder on the CPU: naive, hoisted boundary, tiled, vectorised, threaded; each step keeps the techniques of the
 * previous one. Follows Hwu, Kirk, El Hajj, "Programming Massively Parallel Processors", the chapter on convolution,
 * with the caches of a CPU instead of a GPU's memories.
 *
 *     y[z,y,x] = sum over t, r, s of w[t,r,s] * x[z + t - T/2, y + r - R/2, x + s - S/2],   zero outside */
#include <stddef.h>
#include <string.h>

#include "ladder/clones.h"
#include "ladder/ladder.h"

enum { D, H, W };

static int64_t min_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t max_of(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int64_t tap_count(const ladder_task *k) {
  return k->taps[D] * k->taps[H] * k->taps[W];
}

/* ---- step 1, naive: the definition, one output at a time, a boundary test for every tap */

static float input_or_zero(const ladder_task *k, int64_t z, int64_t y, int64_t x) {
  const int inside = z >= 0 && z < k->size[D] && y >= 0 && y < k->size[H] && x >= 0 && x < k->size[W];
  return inside ? k->x[(z * k->size[H] + y) * k->size[W] + x] : 0;
}

static float output_at(const ladder_task *k, int64_t z, int64_t y, int64_t x) {
  const float *w = k->w;
  float sum = 0;
  for (int64_t t = 0; t < k->taps[D]; t++)
    for (int64_t r = 0; r < k->taps[H]; r++)
      for (int64_t s = 0; s < k->taps[W]; s++)
        sum += *w++ * input_or_zero(k, z + t - k->taps[D] / 2, y + r - k->taps[H] / 2, x + s - k->taps[W] / 2);
  return sum;
}

static void naive(const ladder_task *k) {
  float *out = k->y;
  for (int64_t z = 0; z < k->size[D]; z++)
    for (int64_t y = 0; y < k->size[H]; y++)
      for (int64_t x = 0; x < k->size[W]; x++) *out++ = output_at(k, z, y, x);
}

/* ---- step 2, hoisted boundary: the range of inside taps is computed once an output, not tested for every tap */

static void inside_range(int64_t position, int64_t size, int64_t taps, int64_t *first, int64_t *end) {
  *first = max_of(0, taps / 2 - position);
  *end = min_of(taps, size + taps / 2 - position);
}

static float output_hoisted(const ladder_task *k, int64_t z, int64_t y, int64_t x) {
  int64_t first[3], end[3];
  const int64_t at[3] = {z, y, x};
  for (int a = 0; a < 3; a++) inside_range(at[a], k->size[a], k->taps[a], &first[a], &end[a]);
  float sum = 0;
  for (int64_t t = first[D]; t < end[D]; t++)
    for (int64_t r = first[H]; r < end[H]; r++) {
      const float *w = k->w + (t * k->taps[H] + r) * k->taps[W];
      const float *in =
          k->x + ((z + t - k->taps[D] / 2) * k->size[H] + y + r - k->taps[H] / 2) * k->size[W] + x - k->taps[W] / 2;
      for (int64_t s = first[W]; s < end[W]; s++) sum += w[s] * in[s];
    }
  return sum;
}

static void hoisted(const ladder_task *k) {
  float *out = k->y;
  for (int64_t z = 0; z < k->size[D]; z++)
    for (int64_t y = 0; y < k->size[H]; y++)
      for (int64_t x = 0; x < k->size[W]; x++) *out++ = output_hoisted(k, z, y, x);
}

/* ---- step 3, tiled: a tap is loaded once and used for a tile of outputs that stay in the first-level cache */

enum { TILE = 512 };

/* Adds one tap's products to outputs [x0, x0 + n) of a row; outputs whose input is outside are unchanged. */
LADDER_CLONES static void add_tap(float *sums, const float *row, float tap, int64_t x0, int64_t n, int64_t shift,
                                  int64_t width) {
  const int64_t begin = max_of(0, -(x0 + shift)), end = min_of(n, width - (x0 + shift));
  const float *in = row + x0 + shift;
  for (int64_t i = begin; i < end; i++) sums[i] += tap * in[i];
}

static void tile_of_row(const ladder_task *k, int64_t z, int64_t y, int64_t x0, int64_t n) {
  float sums[TILE];
  memset(sums, 0, (size_t)n * sizeof *sums);
  int64_t first[2], end[2];
  inside_range(z, k->size[D], k->taps[D], &first[D], &end[D]);
  inside_range(y, k->size[H], k->taps[H], &first[H], &end[H]);
  for (int64_t t = first[D]; t < end[D]; t++)
    for (int64_t r = first[H]; r < end[H]; r++) {
      const float *row = k->x + ((z + t - k->taps[D] / 2) * k->size[H] + y + r - k->taps[H] / 2) * k->size[W];
      const float *w = k->w + (t * k->taps[H] + r) * k->taps[W];
      for (int64_t s = 0; s < k->taps[W]; s++) add_tap(sums, row, w[s], x0, n, s - k->taps[W] / 2, k->size[W]);
    }
  memcpy(k->y + (z * k->size[H] + y) * k->size[W] + x0, sums, (size_t)n * sizeof *sums);
}

static void tiled(const ladder_task *k) {
  for (int64_t z = 0; z < k->size[D]; z++)
    for (int64_t y = 0; y < k->size[H]; y++)
      for (int64_t x = 0; x < k->size[W]; x += TILE) tile_of_row(k, z, y, x, min_of(TILE, k->size[W] - x));
}

/* ---- step 4, vectorised: the sums of a block of outputs stay in registers, and each tap is loaded once for all of
 * them */

enum { LANES = LADDER_LANES, ROWS = 4, COLUMNS = 2 };

/* Rows y .. y+3, columns x .. x+31 of outputs whose windows are inside. */
LADDER_CLONES static void block_of_outputs(const ladder_task *k, int64_t z, int64_t y, int64_t x) {
  ladder_vector sums[ROWS][COLUMNS] = {{{0}}};
  const float *w = k->w;
  for (int64_t t = 0; t < k->taps[D]; t++)
    for (int64_t r = 0; r < k->taps[H]; r++) {
      const float *in =
          k->x + ((z + t - k->taps[D] / 2) * k->size[H] + y + r - k->taps[H] / 2) * k->size[W] + x - k->taps[W] / 2;
      for (int64_t s = 0; s < k->taps[W]; s++, w++)
        for (int p = 0; p < ROWS; p++)
          for (int q = 0; q < COLUMNS; q++)
            sums[p][q] += *w * *(const ladder_vector *)(in + p * k->size[W] + s + q * LANES);
    }
  for (int p = 0; p < ROWS; p++)
    for (int q = 0; q < COLUMNS; q++)
      *(ladder_vector *)(k->y + (z * k->size[H] + y + p) * k->size[W] + x + q * LANES) = sums[p][q];
}

/* One band of rows: blocks in the interior, tiles of one row at the edges. */
static void vectorised_band(const ladder_task *k, int64_t z, int64_t y, int64_t rows) {
  const int64_t left = k->taps[W] / 2, right = k->taps[W] - 1 - left, step = COLUMNS * LANES;
  const int inside = rows == ROWS && z >= k->taps[D] / 2 && z + k->taps[D] - k->taps[D] / 2 <= k->size[D] &&
                     y >= k->taps[H] / 2 && y + ROWS - 1 + k->taps[H] - k->taps[H] / 2 <= k->size[H];
  int64_t x = inside ? left : 0;
  if (inside && left + step + right <= k->size[W]) {
    for (; x + step + right <= k->size[W]; x += step) block_of_outputs(k, z, y, x);
    block_of_outputs(k, z, y, k->size[W] - right - step); /* the last block overlaps the one before */
    x = k->size[W] - right;
  }
  for (int64_t p = 0; p < rows; p++) {
    if (inside && left) tile_of_row(k, z, y + p, 0, min_of(left, k->size[W]));
    for (int64_t i = x; i < k->size[W]; i += TILE) tile_of_row(k, z, y + p, i, min_of(TILE, k->size[W] - i));
  }
}

/* A signal has no rows to share, so 8 vectors of its outputs share each tap instead. */
enum { SIGNAL_COLUMNS = 8 };

LADDER_CLONES static void block_of_signal(const ladder_task *k, int64_t x) {
  ladder_vector sums[SIGNAL_COLUMNS] = {{0}};
  const float *in = k->x + x - k->taps[W] / 2;
  for (int64_t s = 0; s < k->taps[W]; s++)
    for (int q = 0; q < SIGNAL_COLUMNS; q++) sums[q] += k->w[s] * *(const ladder_vector *)(in + s + q * LANES);
  for (int q = 0; q < SIGNAL_COLUMNS; q++) *(ladder_vector *)(k->y + x + q * LANES) = sums[q];
}

static int is_signal(const ladder_task *k) {
  return k->size[D] * k->size[H] * k->taps[D] * k->taps[H] == 1;
}

/* Work is handed out in items: samples of a signal, bands of four rows of anything else. */
static int64_t item_count(const ladder_task *k) {
  return is_signal(k) ? k->size[W] : k->size[D] * ((k->size[H] + ROWS - 1) / ROWS);
}

static void run_samples(const ladder_task *k, int64_t begin, int64_t end) {
  const int64_t step = SIGNAL_COLUMNS * LANES, left = k->taps[W] / 2, right = k->taps[W] - 1 - left;
  int64_t x = min_of(end, max_of(begin, left));
  for (int64_t i = begin; i < x; i += TILE) tile_of_row(k, 0, 0, i, min_of(TILE, x - i));
  for (; x + step <= min_of(end, k->size[W] - right); x += step) block_of_signal(k, x);
  for (; x < end; x += TILE) tile_of_row(k, 0, 0, x, min_of(TILE, end - x));
}

static void run_bands(const ladder_task *k, int64_t begin, int64_t end) {
  const int64_t bands = (k->size[H] + ROWS - 1) / ROWS;
  for (int64_t i = begin; i < end; i++) {
    const int64_t y = i % bands * ROWS;
    vectorised_band(k, i / bands, y, min_of(ROWS, k->size[H] - y));
  }
}

static void run_items(const ladder_task *k, int64_t begin, int64_t end) {
  (is_signal(k) ? run_samples : run_bands)(k, begin, end);
}

static void vectorised(const ladder_task *k) {
  run_items(k, 0, item_count(k));
}

/* ---- step 5, threaded: an equal part of the items for every core */

static void threaded(const ladder_task *k) {
  ladder_share(k, item_count(k), run_items);
}

/* ---- traffic of each step, as the textbook counts it: an access that its own level of reuse does not avoid is memory
 * traffic */

static double every_access(const ladder_task *k) {
  return 8.0 * (double)tap_count(k);
}
static double taps_reused(const ladder_task *k) {
  return 4.0 * (double)tap_count(k);
}

const ladder_step ladder_cpu[] = {
    {.name = "naive", .idea = "the definition", .book = "7.1", .bytes_per_output = every_access, .run = naive},
    {.name = "hoisted",
     .idea = "boundary tests leave the inner loop",
     .bytes_per_output = every_access,
     .run = hoisted},
    {.name = "tiled",
     .idea = "a tap is loaded once for 512 outputs",
     .book = "7.4",
     .bytes_per_output = taps_reused,
     .run = tiled},
    {.name = "vectorised",
     .idea = "sums of a block stay in vector registers",
     .book = "8.5",
     .bytes_per_output = taps_reused,
     .run = vectorised},
    {.name = "threaded", .idea = "bands of rows on every core", .bytes_per_output = taps_reused, .run = threaded},
    {.name = NULL},
};
