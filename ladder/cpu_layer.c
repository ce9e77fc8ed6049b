/* The ladder of a network layer on the CPU, then ReLU and 2 x 2 max pooling.
 *
 *     y[n,k,u,v] = sum over c, r, s of w[k,c,r,s] * x[n, c, u*stride + r - pad, v*stride + s - pad],   zero outside */
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

/* Adds one tap's products to outputs [v0, v0 + n) of a row; those whose input lies outside are left alone. */
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

/* Planes, one for each image and filter, of results in `to`. */
static void convolve_planes(const ladder_task *k, float *to, int64_t begin, int64_t end) {
  for (int64_t plane = begin; plane < end; plane++)
    for (int64_t u = 0; u < k->out[0]; u++)
      row_of_outputs(k, plane, u, 0, k->out[1], to + (plane * k->out[0] + u) * k->out[1]);
}

static void run_planes(const ladder_task *k, int64_t begin, int64_t end) {
  convolve_planes(k, k->y, begin, end);
}

static void reordered(const ladder_task *k) {
  run_planes(k, 0, k->images * k->filters);
}

/* ---- step 3, threaded: planes of results on every core */

static void threaded(const ladder_task *k) {
  ladder_share(k, k->images * k->filters, run_planes);
}

/* ---- ReLU and pooling apart: each a pass over all of the convolution's results */

static float larger(float a, float b) {
  return a > b ? a : b;
}

static void pool_row(const float *upper, const float *lower, float *y, int64_t pooled) {
  for (int64_t v = 0; v < pooled; v++)
    y[v] = larger(larger(upper[2 * v], upper[2 * v + 1]), larger(lower[2 * v], lower[2 * v + 1]));
}

static void run_convolution(const ladder_task *k, int64_t begin, int64_t end) {
  convolve_planes(k, k->between, begin, end);
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
  ladder_share(k, planes, run_convolution);
  ladder_share(k, planes, run_relu);
  ladder_share(k, planes, run_pooling);
}

/* ---- fused: two rows of results are pooled while they are in the first-level cache, and never reach memory. The
 * largest of four is clipped instead of all four: ReLU keeps the order. */

enum { PIECE = 512 };

static void fused_row(const ladder_task *k, int64_t plane, int64_t u, float *y) {
  float rows[2][PIECE];
  for (int64_t v = 0; v < k->pooled[1]; v += PIECE / 2) {
    const int64_t n = min_of(PIECE / 2, k->pooled[1] - v);
    for (int i = 0; i < 2; i++) row_of_outputs(k, plane, 2 * u + i, 2 * v, 2 * n, rows[i]);
    pool_row(rows[0], rows[1], y + v, n);
    for (int64_t i = v; i < v + n; i++) y[i] = larger(y[i], 0);
  }
}

static void run_fused(const ladder_task *k, int64_t begin, int64_t end) {
  for (int64_t plane = begin; plane < end; plane++)
    for (int64_t u = 0; u < k->pooled[0]; u++) fused_row(k, plane, u, k->y + (plane * k->pooled[0] + u) * k->pooled[1]);
}

static void fused(const ladder_task *k) {
  ladder_share(k, k->images * k->filters, run_fused);
}

/* ---- what each step reads, as the textbook counts it */

static double every_access(const ladder_task *k) {
  return 8.0 * (double)(k->taps[H] * k->taps[W]);
}
static double taps_reused(const ladder_task *k) {
  return 4.0 * (double)(k->taps[H] * k->taps[W]);
}

const ladder_step ladder_cpu_layer[] = {
    {"naive", "the definition", every_access, naive, {NULL}},
    {"reordered", "columns innermost: no tests, vector instructions", taps_reused, reordered, {NULL}},
    {"threaded", "planes of results on every core", taps_reused, threaded, {NULL}},
    {.name = NULL},
};

const ladder_step ladder_cpu_pooled[] = {
    {"apart", "threaded, then ReLU, then pooling: 3 passes", taps_reused, apart, {NULL}},
    {"fused", "two rows are pooled while in the cache", taps_reused, fused, {NULL}},
    {.name = NULL},
};
