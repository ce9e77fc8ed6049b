/* Gradient of max pooling with vectors along the width: dx[i] = sum of dy over the windows whose first maximum is at i.
 */
#include <math.h>
#include <string.h>

#include "solver/generic/generic.h"

/* A tile is some rows of one depth of dx. The windows that reach it are visited row by row: vectors find the tap of
 * each window's first maximum, then its dy is added to that element if it is in the tile. Windows that reach two tiles
 * are visited for both, so no two threads write the same element. */

enum { AT_ONCE = 512, MOST_ELEMENTS = 2048, FEW_JOBS = 16 };

typedef struct job {
  const falt_generic_run *run, *windows;
  falt_link link[3]; /* of the windows */
  int64_t rows, width, row_tiles, pieces;
} job;

typedef struct tile {
  const job *job;
  int64_t n, g, d, h, w, rows, width;
  _Alignas(64) char top[AT_ONCE * sizeof(double)], x[AT_ONCE * sizeof(double)], dy[AT_ONCE * sizeof(double)];
  int32_t which[AT_ONCE];
  _Alignas(64) char sums[MOST_ELEMENTS * sizeof(double)];
} tile;

/* Outputs whose windows reach positions [low, high) of an axis. */
static void reaching(const falt_generic_plan *plan, int axis, int64_t low, int64_t high, int64_t *begin, int64_t *end) {
  const falt_axis *a = &plan->p.axis[axis];
  const int64_t out = plan->p.output.size[FALT_D + axis];
  const int64_t first = low + a->pad[0] - falt_extent(a, plan->p.filter.size[FALT_D + axis]) + 1;
  const int64_t last = high - 1 + a->pad[0];
  *begin = first > 0 ? falt_ceil_div(first, a->stride) : 0;
  *end = last < 0 ? 0 : falt_min(out, last / a->stride + 1);
}

/* First tap of output o inside the input. */
static int64_t first_inside(const falt_axis *a, int64_t o) {
  const int64_t first = o * a->stride - a->pad[0];
  return first < 0 ? falt_ceil_div(-first, a->dilation) : 0;
}

/* The tap of the first maximum of windows (d, h, o..o+n). */
static void find_maxima(tile *t, int64_t d, int64_t h, int64_t o, int64_t n) {
  const falt_generic_run *windows = t->job->windows;
  const falt_generic_plan *plan = windows->plan;
  const falt_link *link = t->job->link;
  const int64_t *taps = plan->p.filter.size;
  const int64_t first = first_inside(&plan->p.axis[0], d) * taps[FALT_H] + first_inside(&plan->p.axis[1], h);
  for (int64_t i = 0; i < n; i++) t->which[i] = (int32_t)(first * taps[FALT_W] + first_inside(&plan->p.axis[2], o + i));
  falt_generic_fill(plan, t->top, -INFINITY, n);
  for (int64_t i = 0; i < taps[FALT_D]; i++)
    for (int64_t j = 0; j < taps[FALT_H]; j++) {
      const int64_t xd = falt_link_source(&link[0], d, i), xh = falt_link_source(&link[1], h, j);
      if (xd < 0 || xh < 0) continue;
      const int64_t row = falt_tensor_at(&plan->source, t->n, t->g, 0, xd, xh, 0);
      for (int64_t k = 0; k < taps[FALT_W]; k++) {
        falt_generic_load_row(windows, t->x, row, link[2].base + link[2].step * o + link[2].tap_step * k, link[2].step,
                              n, &link[2]);
        plan->lane->first_largest(t->x, (int32_t)((i * taps[FALT_H] + j) * taps[FALT_W] + k), n, t->top, t->which);
      }
    }
}

static void add(tile *t, int64_t at, int64_t i) {
  if (t->job->run->plan->lane_index == FALT_GENERIC_F32)
    ((float *)t->sums)[at] += ((const float *)t->dy)[i];
  else
    ((double *)t->sums)[at] += ((const double *)t->dy)[i];
}

/* Gives each of the windows' dy to the element of its first maximum. */
static void scatter(tile *t, int64_t d, int64_t h, int64_t o, int64_t n) {
  const falt_link *link = t->job->link;
  const int64_t *taps = t->job->run->plan->p.filter.size;
  const int32_t across = (int32_t)taps[FALT_W], down = (int32_t)taps[FALT_H];
  for (int64_t i = 0; i < n; i++) {
    const int32_t row = t->which[i] / across, k = t->which[i] % across;
    const int64_t y = falt_link_source(&link[1], h, row % down) - t->h;
    const int64_t x = falt_link_source(&link[2], o + i, k) - t->w;
    if (falt_link_source(&link[0], d, row / down) == t->d && y >= 0 && y < t->rows && x >= 0 && x < t->width)
      add(t, y * t->width + x, i);
  }
}

static void visit_row(tile *t, int64_t d, int64_t h) {
  const falt_generic_run *run = t->job->run;
  const falt_tensor *y = &run->plan->p.output;
  int64_t begin, end;
  reaching(run->plan, 2, t->w, t->w + t->width, &begin, &end);
  for (int64_t o = begin; o < end; o += AT_ONCE) {
    const int64_t n = falt_min(AT_ONCE, end - o);
    find_maxima(t, d, h, o, n);
    falt_generic_load(run->plan, t->dy, run->operands->output, y->type, falt_tensor_at(y, t->n, t->g, 0, d, h, o),
                      y->stride[FALT_W], n);
    scatter(t, d, h, o, n);
  }
}

static void compute(tile *t) {
  const falt_generic_plan *plan = t->job->run->plan;
  const falt_tensor *x = &plan->result;
  int64_t d, d_end, h_begin, h_end;
  memset(t->sums, 0, (size_t)(t->rows * t->width) * plan->lane->sum);
  reaching(plan, 0, t->d, t->d + 1, &d, &d_end);
  reaching(plan, 1, t->h, t->h + t->rows, &h_begin, &h_end);
  for (; d < d_end; d++)
    for (int64_t h = h_begin; h < h_end && !falt_cancelled(); h++) visit_row(t, d, h);
  for (int64_t r = 0; r < t->rows; r++)
    falt_generic_store(t->job->run, t->sums + (size_t)(r * t->width) * plan->lane->sum, t->width,
                       &(falt_generic_target){.index = falt_tensor_at(x, t->n, t->g, 0, t->d, t->h + r, t->w),
                                              .stride = x->stride[FALT_W]});
}

static void run_tile(void *context, int64_t index) {
  const job *j = context;
  const int64_t *size = j->run->plan->result.size;
  tile t;
  t.job = j;
  t.w = falt_generic_digit(&index, j->pieces) * j->width;
  t.h = falt_generic_digit(&index, j->row_tiles) * j->rows;
  t.d = falt_generic_digit(&index, size[FALT_D]);
  t.g = falt_generic_digit(&index, size[FALT_G]);
  t.n = index;
  t.width = falt_min(j->width, size[FALT_W] - t.w);
  t.rows = falt_min(j->rows, size[FALT_H] - t.h);
  compute(&t);
}

void falt_generic_maxima_rows(const falt_generic_run *run) {
  const int64_t *size = run->plan->result.size;
  falt_generic_plan windows_plan;
  falt_generic_run windows;
  falt_generic_windows(run, &windows_plan, &windows);
  job j = {.run = run, .windows = &windows};
  for (int a = 0; a < 3; a++) falt_link_first(&windows_plan, a, falt_polyphase_at(&windows_plan, a, 0), &j.link[a]);
  j.width = falt_min(size[FALT_W], AT_ONCE);
  j.pieces = falt_ceil_div(size[FALT_W], j.width);
  j.rows = falt_min(size[FALT_H], MOST_ELEMENTS / j.width);
  const int64_t planes = size[FALT_N] * size[FALT_G] * size[FALT_D] * j.pieces;
  while (j.rows > 8 && planes * falt_ceil_div(size[FALT_H], j.rows) < FEW_JOBS) j.rows /= 2;
  j.row_tiles = falt_ceil_div(size[FALT_H], j.rows);
  falt_parallel_for(run->plan->base.device->threads, planes * j.row_tiles, run_tile, &j);
}
