/* The ladder of a network layer on the CPU, followed by ReLU and 2 x 2 max pooling.
 *
 *     y[n,k,u,v] = sum over c, r, s of w[k,c,r,s] * x[n, c, u*stride + r - pad, v*stride + s - pad],   zero outside */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/blas.h"
#include "ladder/clones.h"
#include "ladder/ladder.h"

enum { D, H, W };

static int64_t min_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t max_of(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t ceil_of(int64_t a, int64_t b) { /* of any a */
  return a > 0 ? (a + b - 1) / b : -(-a / b);
}

static const float *plane_of(const ladder_task *k, int64_t n, int64_t c) {
  return k->x + (n * k->channels + c) * k->size[H] * k->size[W];
}

/* ---- step 1, naive: seven loops, a boundary test for every product */

static float output_at(const ladder_task *k, int64_t n, int64_t filter, int64_t u, int64_t v) {
  const float *w = k->w + filter * k->channels * k->taps[H] * k->taps[W];
  float sum = 0;
  for (int64_t c = 0; c < k->channels; c++)
    for (int64_t r = 0; r < k->taps[H]; r++)
      for (int64_t s = 0; s < k->taps[W]; s++, w++) {
        const int64_t row = u * k->stride[0] - k->pad[0] + r, column = v * k->stride[1] - k->pad[1] + s;
        if (row >= 0 && row < k->size[H] && column >= 0 && column < k->size[W])
          sum += *w * plane_of(k, n, c)[row * k->size[W] + column];
      }
  return sum;
}

static void naive(const ladder_task *k) {
  float *y = k->y;
  for (int64_t n = 0; n < k->images; n++)
    for (int64_t filter = 0; filter < k->filters; filter++)
      for (int64_t u = 0; u < k->out[0]; u++)
        for (int64_t v = 0; v < k->out[1]; v++) *y++ = output_at(k, n, filter, u, v);
}

/* ---- step 2, reordered: the columns become the innermost loop. It walks along rows of x and y with one tap, has no
 * test inside, and the compiler turns it into vector instructions. */

/* Adds one tap's products to outputs [v0, v0 + n) of a row; outputs whose input is outside are unchanged. */
LADDER_CLONES static void add_tap(float *sums, const float *row, float tap, int64_t v0, int64_t n, int64_t stride,
                                  int64_t shift, int64_t width) {
  const int64_t begin = max_of(0, ceil_of(-shift, stride) - v0), end = min_of(n, ceil_of(width - shift, stride) - v0);
  const float *in = row + v0 * stride + shift;
  for (int64_t i = begin; i < end; i++) sums[i] += tap * in[i * stride];
}

/* Outputs [v0, v0 + n) of row u of one filter's plane. */
static void row_of_outputs(const ladder_task *k, int64_t plane, int64_t u, int64_t v0, int64_t n, float *sums) {
  const int64_t image = plane / k->filters, filter = plane % k->filters;
  const float *w = k->w + filter * k->channels * k->taps[H] * k->taps[W];
  memset(sums, 0, (size_t)n * sizeof *sums);
  for (int64_t c = 0; c < k->channels; c++)
    for (int64_t r = 0; r < k->taps[H]; r++, w += k->taps[W]) {
      const int64_t row = u * k->stride[0] - k->pad[0] + r;
      if (row < 0 || row >= k->size[H]) continue;
      for (int64_t s = 0; s < k->taps[W]; s++)
        add_tap(sums, plane_of(k, image, c) + row * k->size[W], w[s], v0, n, k->stride[1], s - k->pad[1], k->size[W]);
    }
}

static void reordered(const ladder_task *k) {
  float *y = k->y;
  for (int64_t plane = 0; plane < k->images * k->filters; plane++)
    for (int64_t u = 0; u < k->out[0]; u++, y += k->out[1]) row_of_outputs(k, plane, u, 0, k->out[1], y);
}

/* ---- step 3, im2col: an image's patches become the columns of a matrix, and the layer one product of matrices, which
 * somebody else has made fast. Each pixel is written and read once for every tap. */

static const char *no_blas(const ladder_task *k) {
  (void)k;
  return falt_blas_load() ? NULL : "no BLAS was found; install libopenblas0";
}

static void fill_columns(const ladder_task *k, int64_t image, float *columns) {
  for (int64_t c = 0; c < k->channels; c++)
    for (int64_t r = 0; r < k->taps[H]; r++)
      for (int64_t s = 0; s < k->taps[W]; s++)
        for (int64_t u = 0; u < k->out[0]; u++, columns += k->out[1]) {
          const int64_t row = u * k->stride[0] - k->pad[0] + r;
          memset(columns, 0, (size_t)k->out[1] * sizeof *columns);
          if (row >= 0 && row < k->size[H])
            add_tap(columns, plane_of(k, image, c) + row * k->size[W], 1, 0, k->out[1], k->stride[1], s - k->pad[1],
                    k->size[W]);
        }
}

static void im2col(const ladder_task *k) {
  const int filters = (int)k->filters, positions = (int)(k->out[0] * k->out[1]),
            depth = (int)(k->channels * k->taps[H] * k->taps[W]);
  float *columns = malloc((size_t)depth * (size_t)positions * sizeof *columns);
  for (int64_t n = 0; columns && n < k->images; n++) {
    fill_columns(k, n, columns);
    falt_blas_load()->f32(FALT_BLAS_ROWS, FALT_BLAS_AS_IS, FALT_BLAS_AS_IS, filters, positions, depth, 1, k->w, depth,
                          columns, positions, 0, k->y + n * filters * positions, positions);
  }
  free(columns);
}

/* ---- step 4, vectorised: an image is padded with zeros once, so no window crosses its sides; the accumulators of 8
 * filters and 16 columns stay in registers over all taps, and a vector of the input serves 8 of them. */

enum { LANES = LADDER_LANES, FILTERS = 8 };

typedef struct margined {
  float *pixels; /* of one image; NULL: the task is not one for blocks, or memory ran out */
  int64_t pitch, image;
} margined;

static margined make_room(const ladder_task *k) {
  const int64_t reach = k->out[1] - 1 + k->taps[W], own = k->size[W] + max_of(k->pad[1], 0);
  margined room = {.pitch = max_of(own, reach), .image = -1};
  if (k->stride[1] == 1 && k->out[1] >= LANES && k->pad[1] >= 0)
    room.pixels = calloc((size_t)(k->channels * k->size[H] * room.pitch), sizeof *room.pixels);
  return room;
}

static void take_image(const ladder_task *k, margined *room, int64_t image) {
  if (!room->pixels || room->image == image) return;
  for (int64_t i = 0; i < k->channels * k->size[H]; i++)
    memcpy(room->pixels + i * room->pitch + k->pad[1], plane_of(k, image, 0) + i * k->size[W],
           (size_t)k->size[W] * sizeof(float));
  room->image = image;
}

/* Columns v .. v+15 of row u of 8 filters. */
LADDER_CLONES static void block_of_row(const ladder_task *k, const margined *room, int64_t filter, int64_t u, int64_t v,
                                       float *to, int64_t plane) {
  ladder_vector sums[FILTERS] = {{0}};
  const int64_t depth = k->channels * k->taps[H] * k->taps[W];
  const float *w = k->w + filter * depth;
  for (int64_t c = 0; c < k->channels; c++)
    for (int64_t r = 0; r < k->taps[H]; r++, w += k->taps[W]) {
      const int64_t row = u * k->stride[0] - k->pad[0] + r;
      if (row < 0 || row >= k->size[H]) continue;
      const float *in = room->pixels + (c * k->size[H] + row) * room->pitch + v;
      for (int64_t s = 0; s < k->taps[W]; s++)
        for (int f = 0; f < FILTERS; f++) sums[f] += w[f * depth + s] * *(const ladder_vector *)(in + s);
    }
  for (int f = 0; f < FILTERS; f++) *(ladder_vector *)(to + f * plane + v) = sums[f];
}

/* Row u of `count` filters of the image at hand, `plane` elements apart. */
static void rows_of_filters(const ladder_task *k, const margined *room, int64_t image, int64_t filter, int64_t count,
                            int64_t u, float *to, int64_t plane) {
  if (!room->pixels || count < FILTERS) {
    for (int64_t f = 0; f < count; f++)
      row_of_outputs(k, image * k->filters + filter + f, u, 0, k->out[1], to + f * plane);
    return;
  }
  for (int64_t v = 0; v < k->out[1]; v += LANES) /* the last block overlaps the one before */
    block_of_row(k, room, filter, u, min_of(v, k->out[1] - LANES), to, plane);
}

/* Work is handed out in items: 8 filters of an image. */
static int64_t blocks_of(const ladder_task *k) {
  return (k->filters + FILTERS - 1) / FILTERS;
}

static void convolve_items(const ladder_task *k, float *to, int64_t begin, int64_t end) {
  const int64_t plane = k->out[0] * k->out[1];
  margined room = make_room(k);
  for (int64_t i = begin; i < end; i++) {
    const int64_t image = i / blocks_of(k), filter = i % blocks_of(k) * FILTERS;
    take_image(k, &room, image);
    for (int64_t u = 0; u < k->out[0]; u++)
      rows_of_filters(k, &room, image, filter, min_of(FILTERS, k->filters - filter), u,
                      to + (image * k->filters + filter) * plane + u * k->out[1], plane);
  }
  free(room.pixels);
}

static void run_items(const ladder_task *k, int64_t begin, int64_t end) {
  convolve_items(k, k->y, begin, end);
}

static void vectorised(const ladder_task *k) {
  run_items(k, 0, k->images * blocks_of(k));
}

/* ---- step 5, threaded: an equal part of the items for every core */

static void threaded(const ladder_task *k) {
  ladder_share(k, k->images * blocks_of(k), run_items);
}

/* ---- step 6, winograd: F(2 x 2, 3 x 3). A tile of 4 x 4 inputs and a filter are each brought to 16 points; there a
 * product of matrices sums over the channels: 16 multiplications for 4 outputs instead of 36. S. Winograd, Arithmetic
 * Complexity of Computations, 1980; A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2016. */

enum { POINTS = 16 };

static const char *no_winograd(const ladder_task *k) {
  const bool fits = k->taps[H] == 3 && k->taps[W] == 3 && k->stride[0] == 1 && k->stride[1] == 1;
  return fits ? NULL : "F(2,3) computes 3 x 3 taps of stride 1";
}

/* Four inputs, d0 - d2, d1 + d2, d2 - d1, d1 - d3, in place. */
static void to_points(float *d, int64_t step) {
  const float d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
  d[0] = d0 - d2, d[step] = d1 + d2, d[2 * step] = d2 - d1, d[3 * step] = d1 - d3;
}

/* Three taps: g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2. */
static void taps_to_points(const float *g, int64_t from, float *u, int64_t to) {
  const float outer = g[0] + g[2 * from], middle = g[from];
  u[0] = g[0], u[to] = (outer + middle) / 2, u[2 * to] = (outer - middle) / 2, u[3 * to] = g[2 * from];
}

/* Two outputs: m0 + m1 + m2, m1 - m2 - m3. */
static void to_outputs(float *m, int64_t step) {
  const float m1 = m[step], m2 = m[2 * step];
  m[0] = m[0] + m1 + m2, m[step] = m1 - m2 - m[3 * step];
}

/* points[point][filter][channel], of `pairs` of filters and channels with those that fill the last block of filters */
static void transform_taps(const ladder_task *k, float *points, int64_t pairs) {
  for (int64_t i = 0; i < k->filters * k->channels; i++) {
    float rows[12], all[POINTS]; /* 4 x 3, 4 x 4 */
    for (int s = 0; s < 3; s++) taps_to_points(k->w + 9 * i + s, 3, rows + s, 3);
    for (int r = 0; r < 4; r++) taps_to_points(rows + 3 * r, 1, all + 4 * r, 1);
    for (int p = 0; p < POINTS; p++) points[p * pairs + i] = all[p];
  }
}

/* points[point][tile] of row `u` of tiles of one channel, points `pitch` apart */
static void transform_inputs(const ladder_task *k, const float *plane, int64_t u, float *points, int64_t pitch) {
  for (int64_t v = 0; 2 * v < k->out[1]; v++) {
    float tile[POINTS];
    for (int p = 0; p < POINTS; p++) {
      const int64_t row = 2 * u + p / 4 - k->pad[0], column = 2 * v + p % 4 - k->pad[1];
      const bool inside = row >= 0 && row < k->size[H] && column >= 0 && column < k->size[W];
      tile[p] = inside ? plane[row * k->size[W] + column] : 0;
    }
    for (int i = 0; i < 4; i++) to_points(tile + i, 4);
    for (int i = 0; i < 4; i++) to_points(tile + 4 * i, 1);
    for (int p = 0; p < POINTS; p++) points[p * pitch + v] = tile[p];
  }
}

/* One point of 8 filters and 16 tiles: their sums over the channels stay in registers. */
LADDER_CLONES static void multiply_point(const float *taps, int64_t channels, const float *inputs, float *sums,
                                         int64_t pitch) {
  ladder_vector all[FILTERS] = {{0}};
  for (int64_t c = 0; c < channels; c++)
    for (int f = 0; f < FILTERS; f++)
      all[f] += taps[f * channels + c] * *(const ladder_vector *)(inputs + c * POINTS * pitch);
  for (int f = 0; f < FILTERS; f++) *(ladder_vector *)(sums + f * POINTS * pitch) = all[f];
}

/* Two rows of one filter's outputs from sums[point][tile]; an odd size leaves part of the last tile out. */
static void store_outputs(const ladder_task *k, const float *sums, int64_t u, int64_t pitch, float *y) {
  for (int64_t v = 0; 2 * v < k->out[1]; v++) {
    float tile[POINTS];
    for (int p = 0; p < POINTS; p++) tile[p] = sums[p * pitch + v];
    for (int i = 0; i < 4; i++) to_outputs(tile + i, 4);
    for (int i = 0; i < 2; i++) to_outputs(tile + 4 * i, 1);
    for (int i = 0; i < 4; i++) {
      const int64_t row = 2 * u + i / 2, column = 2 * v + i % 2;
      if (row < k->out[0] && column < k->out[1]) y[row * k->out[1] + column] = tile[4 * (i / 2) + i % 2];
    }
  }
}

/* Row `u` of tiles of an image, whose inputs are points already. */
static void multiply_row(const ladder_task *k, const float *taps, int64_t pairs, const float *inputs, float *sums,
                         int64_t pitch, int64_t image, int64_t u) {
  for (int64_t filter = 0; filter < k->filters; filter += FILTERS) {
    for (int p = 0; p < POINTS; p++)
      for (int64_t v = 0; v < pitch; v += LANES)
        multiply_point(taps + p * pairs + filter * k->channels, k->channels, inputs + p * pitch + v,
                       sums + p * pitch + v, pitch);
    for (int64_t f = 0; f < min_of(FILTERS, k->filters - filter); f++)
      store_outputs(k, sums + f * POINTS * pitch, u, pitch,
                    k->y + (image * k->filters + filter + f) * k->out[0] * k->out[1]);
  }
}

/* Work is handed out in rows of tiles of an image. Zeros fill the last vector of tiles and the last block of filters.
 */
static void run_winograd(const ladder_task *k, int64_t begin, int64_t end) {
  const int64_t rows = ceil_of(k->out[0], 2), pitch = ceil_of(ceil_of(k->out[1], 2), LANES) * LANES;
  const int64_t pairs = blocks_of(k) * FILTERS * k->channels;
  float *taps = calloc((size_t)(POINTS * (pairs + (k->channels + FILTERS) * pitch)), sizeof *taps);
  if (!taps) return;
  float *inputs = taps + POINTS * pairs, *sums = inputs + k->channels * POINTS * pitch;
  transform_taps(k, taps, pairs);
  for (int64_t i = begin; i < end; i++) {
    for (int64_t c = 0; c < k->channels; c++)
      transform_inputs(k, plane_of(k, i / rows, c), i % rows, inputs + c * POINTS * pitch, pitch);
    multiply_row(k, taps, pairs, inputs, sums, pitch, i / rows, i % rows);
  }
  free(taps);
}

static void winograd(const ladder_task *k) {
  ladder_share(k, k->images * ceil_of(k->out[0], 2), run_winograd);
}

/* ---- step 7, apart: ReLU and pooling as separate passes over the convolution's output */

static float larger(float a, float b) {
  return a > b ? a : b;
}

static void pool_row(const float *upper, const float *lower, float *y, int64_t pooled) {
  for (int64_t v = 0; v < pooled; v++)
    y[v] = larger(larger(upper[2 * v], upper[2 * v + 1]), larger(lower[2 * v], lower[2 * v + 1]));
}

static void run_convolution(const ladder_task *k, int64_t begin, int64_t end) {
  convolve_items(k, k->between, begin, end);
}

static void run_relu(const ladder_task *k, int64_t begin, int64_t end) {
  const int64_t plane = k->out[0] * k->out[1];
  for (int64_t i = begin * plane; i < end * plane; i++) k->between[i] = larger(k->between[i], 0);
}

static void run_pooling(const ladder_task *k, int64_t begin, int64_t end) {
  for (int64_t plane = begin; plane < end; plane++)
    for (int64_t u = 0; u < k->pooled[0]; u++) {
      const float *upper = k->between + (plane * k->out[0] + 2 * u) * k->out[1];
      pool_row(upper, upper + k->out[1], k->y + (plane * k->pooled[0] + u) * k->pooled[1], k->pooled[1]);
    }
}

static void apart(const ladder_task *k) {
  const int64_t planes = k->images * k->filters;
  ladder_share(k, k->images * blocks_of(k), run_convolution);
  ladder_share(k, planes, run_relu);
  ladder_share(k, planes, run_pooling);
}

/* ---- step 8, fused: two rows of results are pooled while they are in the first-level cache, and never reach memory.
 * The largest of four is clipped instead of all four: ReLU keeps the order. */

static void fuse_rows(const ladder_task *k, const float *rows, int64_t count, float *y) {
  for (int64_t f = 0; f < count; f++) {
    const float *upper = rows + 2 * f * k->out[1];
    float *to = y + f * k->pooled[0] * k->pooled[1];
    pool_row(upper, upper + k->out[1], to, k->pooled[1]);
    for (int64_t v = 0; v < k->pooled[1]; v++) to[v] = larger(to[v], 0);
  }
}

static void run_fused(const ladder_task *k, int64_t begin, int64_t end) {
  margined room = make_room(k);
  float *rows = malloc((size_t)(2 * FILTERS * k->out[1]) * sizeof *rows); /* two of each filter */
  for (int64_t i = begin; rows && i < end; i++) {
    const int64_t image = i / blocks_of(k), filter = i % blocks_of(k) * FILTERS,
                  count = min_of(FILTERS, k->filters - filter);
    take_image(k, &room, image);
    for (int64_t u = 0; u < k->pooled[0]; u++) {
      for (int64_t half = 0; half < 2; half++)
        rows_of_filters(k, &room, image, filter, count, 2 * u + half, rows + half * k->out[1], 2 * k->out[1]);
      fuse_rows(k, rows, count, k->y + ((image * k->filters + filter) * k->pooled[0] + u) * k->pooled[1]);
    }
  }
  free(rows);
  free(room.pixels);
}

static void fused(const ladder_task *k) {
  ladder_share(k, k->images * blocks_of(k), run_fused);
}

/* ---- reads of each step, as the textbook counts them */

static double every_access(const ladder_task *k) {
  return 8.0 * (double)(k->taps[H] * k->taps[W]);
}
static double taps_reused(const ladder_task *k) {
  return 4.0 * (double)(k->taps[H] * k->taps[W]);
}
static double inputs_shared(const ladder_task *k) { /* among 8 filters, a tap among 16 columns */
  return taps_reused(k) / FILTERS + taps_reused(k) / LANES;
}

static double points_shared(const ladder_task *k) { /* 16 for 4 outputs; shared like the inputs before */
  (void)k;
  return 4.0 * POINTS / 4 * (1.0 / FILTERS + 1.0 / LANES);
}

const ladder_step ladder_cpu_layer[] = {
    {.name = "naive", .idea = "the definition", .book = "16.2", .bytes_per_output = every_access, .run = naive},
    {.name = "reordered",
     .idea = "columns innermost: no tests, vector instructions",
     .bytes_per_output = taps_reused,
     .run = reordered},
    {.name = "im2col",
     .idea = "patches as a matrix, multiplied by BLAS",
     .book = "16.4",
     .bytes_per_output = taps_reused,
     .run = im2col,
     .missing = no_blas},
    {.name = "vectorised",
     .idea = "sums of 8 filters x 16 columns stay in registers",
     .book = "8.5",
     .bytes_per_output = inputs_shared,
     .run = vectorised},
    {.name = "threaded",
     .idea = "8 filters of an image at a time on every core",
     .bytes_per_output = inputs_shared,
     .run = threaded},
    {.name = "winograd",
     .idea = "F(2,3): 16 multiplications for 4 outputs, not 36",
     .bytes_per_output = points_shared,
     .run = winograd,
     .missing = no_winograd},
    {.name = NULL},
};

const ladder_step ladder_cpu_pooled[] = {
    {.name = "apart",
     .idea = "threaded, then ReLU, then pooling: 3 passes",
     .book = "16.2",
     .bytes_per_output = inputs_shared,
     .run = apart},
    {.name = "fused",
     .idea = "two rows are pooled while in the cache",
     .bytes_per_output = inputs_shared,
     .run = fused},
    {.name = NULL},
};
