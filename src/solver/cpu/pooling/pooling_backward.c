/* Gradients of pooling: dx[i] = sum over the windows o that contain i of their contribution. */
#include <math.h>

#include "solver/cpu/pooling/pooling.h"

/* A row of dx gathers from the output rows whose windows contain it. The contributions of each such row are computed
 * once, kept while the rows of dx below need them, and added tap by tap to the rows of dx split by residue modulo the
 * stride: there the positions of neighbouring outputs are neighbours. The gradient of an average gives dy over its
 * window's count to each tap, so rows are summed first and taps then. The gradient of a maximum gives dy to the tap of
 * its first maximum, which is found by comparing the taps in order. Every sum has one order. */

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

/* The contributions of the windows of an output row. */
typedef struct kept_row {
  int64_t d, h; /* -1: none */
  char *values, *which;
} kept_row;

/* One piece of the width of dx. */
typedef struct piece {
  const falt_pooling_task *t;
  int64_t w, count;   /* positions of dx */
  int64_t o, outputs; /* existing windows that may contain them */
  int64_t shift;      /* positions from the polyphase parts' start to output o's first tap */
  int64_t skipped;    /* elements of a polyphase part before position w */
  int64_t pitch;      /* elements of a polyphase part */
  char *top, *polyphases, *rows;
  kept_row *kept;
} piece;

static size_t element(const piece *p) {
  return p->t->plan->lane->element;
}

/* ---- contributions of windows */

/* Tags of the first existing taps, which receive the gradient of a window of -infinity only. */
static void first_tags(const piece *p, const falt_pooling_box *box, char *which) {
  const falt_pooling_plan *plan = p->t->plan;
  const falt_axis *a = &plan->p.axis[2];
  const int64_t *taps = plan->p.filter.size, channels = p->t->channels;
  const int64_t tag = (box->begin[0] * taps[FALT_H] + box->begin[1]) * taps[FALT_W];
  plan->lane->fill_tags(which, tag, p->outputs * channels);
  for (int64_t i = 0; i < p->outputs && (p->o + i) * a->stride < a->pad[0]; i++)
    plan->lane->fill_tags(which + (size_t)(i * channels) * element(p),
                          tag + falt_ceil_div(a->pad[0] - (p->o + i) * a->stride, a->dilation), channels);
}

/* The input under the windows of one row of taps. */
static const void *line_under(const piece *p, int64_t z, int64_t y) {
  const falt_pooling_task *t = p->t;
  const falt_tensor *x = &t->plan->p.input;
  const falt_axis *a = &t->plan->p.axis[2];
  const falt_pooling_part part =
      falt_pooling_inside(t->plan, p->o * a->stride - a->pad[0],
                          (p->outputs - 1) * a->stride + falt_extent(a, t->plan->p.filter.size[FALT_W]));
  const int64_t count = part.end - part.begin, w = part.first + part.begin;
  const void *there = falt_pooling_in_place(t, x, t->operands->input, z, y, w);
  if (there && count == part.length) return there;
  falt_pooling_load(t, x, t->operands->input, z, y, w, count,
                    t->line + (size_t)(part.begin * t->channels) * element(p));
  falt_pooling_margins(t, &part, -INFINITY);
  return t->line;
}

static void compare(const piece *p, const void *line, int64_t tag, char *which) {
  const falt_pooling_plan *plan = p->t->plan;
  const falt_pooling_view view = falt_pooling_open(p->t, line, p->outputs);
  const int64_t taps = plan->p.filter.size[FALT_W];
  for (int64_t segment = 0; segment < view.segments; segment++) {
    const size_t at = (size_t)(segment * view.n) * element(p);
    for (int64_t j = 0; j < taps; j += FALT_POOLING_LIST) {
      const void *list[FALT_POOLING_LIST];
      const int64_t count = falt_min(FALT_POOLING_LIST, taps - j);
      falt_pooling_rows(&view, segment, j, count, list);
      plan->lane->first(list, (int)count, tag + j, view.n, p->top + at, which + at);
    }
  }
}

static void find_maxima(const piece *p, int64_t d, int64_t h, char *which) {
  const falt_pooling_plan *plan = p->t->plan;
  const int64_t *taps = plan->p.filter.size;
  const falt_pooling_box box = falt_pooling_box_of(plan, d, h);
  first_tags(p, &box, which);
  plan->lane->fill(p->top, -INFINITY, p->outputs * p->t->channels);
  for (int64_t i = box.begin[0]; i < box.end[0]; i++)
    for (int64_t j = box.begin[1]; j < box.end[1]; j++)
      compare(p, line_under(p, falt_pooling_position(plan, 0, d, i), falt_pooling_position(plan, 1, h, j)),
              (i * taps[FALT_H] + j) * taps[FALT_W], which);
}

static const kept_row *windows_of(const piece *p, int64_t d, int64_t h) {
  const falt_pooling_task *t = p->t;
  const falt_pooling_plan *plan = t->plan;
  kept_row *row = &p->kept[d % plan->kept[0] * plan->kept[1] + h % plan->kept[1]];
  if (row->d == d && row->h == h) return row;
  row->d = d;
  row->h = h;
  falt_pooling_load(t, &plan->p.output, t->operands->output, d, h, p->o, p->outputs, row->values);
  if (plan->largest)
    find_maxima(p, d, h, row->which);
  else
    falt_pooling_average(t, d, h, p->o, p->outputs, row->values);
  return row;
}

/* ---- a row of dx */

/* Where tap j of the first output adds. */
static char *target(const piece *p, int64_t j) {
  const falt_axis *a = &p->t->plan->p.axis[2];
  const int64_t at = p->shift + j * a->dilation;
  return p->polyphases + (size_t)(at % a->stride * p->pitch + at / a->stride * p->t->channels) * element(p);
}

static void add_maxima(const piece *p, const kept_row *row, int64_t tag) {
  const falt_pooling_lane *lane = p->t->plan->lane;
  for (int64_t j = 0; j < p->t->plan->p.filter.size[FALT_W]; j++)
    lane->add_where(row->values, row->which, tag + j, p->outputs * p->t->channels, target(p, j));
}

static void add_row(const piece *p, const void *row, char *sums) {
  p->t->plan->lane->fold[FALT_POOLING_SUM]((const void *const[]){sums, row}, 2, p->outputs * p->t->channels, sums);
}

/* The output whose tap j is at position i of dx along an axis; -1 if there is none. */
static int64_t output_at(const falt_pooling_plan *plan, int axis, int64_t i, int64_t j) {
  const falt_axis *a = &plan->p.axis[axis];
  const int64_t u = i + a->pad[0] - j * a->dilation;
  return u >= 0 && u % a->stride == 0 && u / a->stride < plan->p.output.size[FALT_D + axis] ? u / a->stride : -1;
}

static void gather(const piece *p, int64_t h) {
  const falt_pooling_plan *plan = p->t->plan;
  const int64_t *taps = plan->p.filter.size;
  if (!plan->largest) plan->lane->fill(p->rows, 0, p->outputs * p->t->channels);
  for (int64_t i = 0; i < taps[FALT_D]; i++)
    for (int64_t j = 0; j < taps[FALT_H]; j++) {
      const int64_t od = output_at(plan, 0, p->t->d, i), oh = output_at(plan, 1, h, j);
      if (od < 0 || oh < 0) continue;
      const kept_row *row = windows_of(p, od, oh);
      if (plan->largest)
        add_maxima(p, row, (i * taps[FALT_H] + j) * taps[FALT_W]);
      else
        add_row(p, row->values, p->rows);
    }
  for (int64_t j = 0; j < taps[FALT_W] && !plan->largest; j++) add_row(p, p->rows, target(p, j));
}

static void give(const piece *p, int64_t h) {
  const falt_pooling_task *t = p->t;
  const falt_pooling_plan *plan = t->plan;
  const falt_tensor *x = &plan->p.input;
  void *dx = plan->largest ? t->operands->residual : t->operands->input;
  void *there = falt_pooling_in_place(t, x, dx, t->d, h, p->w);
  plan->lane->join(&(falt_pooling_polyphases){.line = there ? there : t->line,
                                              .split = p->polyphases + (size_t)p->skipped * element(p),
                                              .positions = p->count,
                                              .inner = t->channels,
                                              .polyphases = plan->p.axis[2].stride,
                                              .pitch = p->pitch});
  if (!there) falt_pooling_store(t, x, dx, t->d, h, p->w, p->count, t->line);
}

/* ---- pieces */

/* The windows that contain positions [w, w + count), and the start of them and of the piece in the split rows. */
static void place(piece *p) {
  const falt_pooling_plan *plan = p->t->plan;
  const falt_axis *a = &plan->p.axis[2];
  const int64_t extent = falt_extent(a, plan->p.filter.size[FALT_W]), channels = p->t->channels;
  const int64_t low = floor_div(p->w + a->pad[0] - (extent - 1), a->stride);
  const int64_t high = floor_div(p->w + p->count - 1 + a->pad[0], a->stride);
  const int64_t before = p->w + a->pad[0] - low * a->stride; /* positions of the piece after the first tap of `low` */
  const int64_t skipped = falt_ceil_div(before, a->stride);  /* of a polyphase part */
  p->o = falt_max(low, 0);
  p->outputs = falt_max(0, falt_min(high + 1, plan->p.output.size[FALT_W]) - p->o);
  p->shift = skipped * a->stride - before + (p->o - low) * a->stride;
  p->skipped = skipped * channels;
  p->pitch = (high - low + 2 + (extent - 1) / a->stride) * channels;
}

static void open(piece *p) {
  const falt_pooling_plan *plan = p->t->plan;
  const size_t row = (size_t)plan->window * plan->lane->element;
  const int64_t count = plan->kept[0] * plan->kept[1];
  char *scratch = p->t->scratch, *rows = scratch + plan->at[FALT_POOLING_AT_WINDOWS];
  p->top = scratch + plan->at[FALT_POOLING_AT_TOP];
  p->rows = scratch + plan->at[FALT_POOLING_AT_SUMS];
  p->polyphases = scratch + plan->at[FALT_POOLING_AT_POLYPHASES];
  p->kept = (kept_row *)(void *)(scratch + plan->at[FALT_POOLING_AT_KEPT]);
  for (int64_t i = 0; i < count; i++, rows += 2 * row) p->kept[i] = (kept_row){-1, -1, rows, rows + row};
}

void falt_pooling_backward(const falt_pooling_task *t) {
  const falt_pooling_plan *plan = t->plan;
  const int64_t width = plan->p.input.size[FALT_W];
  for (int64_t w = 0; w < width; w += plan->piece) {
    piece p = {.t = t, .w = w, .count = falt_min(plan->piece, width - w)};
    open(&p);
    place(&p);
    for (int64_t h = t->h; h < t->h_end; h++) {
      plan->lane->fill(p.polyphases, 0, p.pitch * plan->p.axis[2].stride);
      if (p.outputs > 0) gather(&p, h);
      give(&p, h);
    }
  }
}

/* Output rows whose windows contain one row of dx along an axis; at most `most`, else 1: nothing is kept. */
static int64_t rows_kept(const falt_pooling_plan *plan, int axis, int64_t most) {
  const falt_axis *a = &plan->p.axis[axis];
  const int64_t count = falt_ceil_div(falt_extent(a, plan->p.filter.size[FALT_D + axis]), a->stride);
  return count <= most ? count : 1;
}

bool falt_pooling_backward_lay(falt_pooling_plan *plan) {
  enum { MOST_KEPT = 16, LEAST = 16 };
  const falt_axis *a = &plan->p.axis[2];
  const int64_t taps = plan->p.filter.size[FALT_W], limit = FALT_POOLING_LINE / 8;
  if (taps > limit || a->dilation > limit || a->stride > limit || falt_extent(a, taps) > limit) return false;
  const int64_t around = 2 * (falt_extent(a, taps) + a->stride);
  if (plan->channels > 1) plan->channels = falt_min(plan->channels, FALT_POOLING_LINE / (around + LEAST));
  plan->piece = falt_min(FALT_POOLING_LINE / plan->channels - around, plan->p.input.size[FALT_W]);
  plan->window = ((plan->piece + falt_extent(a, taps)) / a->stride + 2) * plan->channels;
  plan->kept[0] = rows_kept(plan, 0, MOST_KEPT);
  plan->kept[1] = rows_kept(plan, 1, MOST_KEPT / plan->kept[0]);
  plan->line = falt_pooling_line((plan->piece + around) * plan->channels);
  return true;
}

void falt_pooling_backward_place(falt_pooling_plan *plan) {
  const size_t line = plan->line * plan->lane->element, kept = (size_t)(plan->kept[0] * plan->kept[1]);
  const size_t windows = kept * 2 * (size_t)plan->window * plan->lane->element;
  plan->at[FALT_POOLING_AT_TOP] = falt_place_part(&plan->scratch, line);
  plan->at[FALT_POOLING_AT_SUMS] = falt_place_part(&plan->scratch, line);
  plan->at[FALT_POOLING_AT_POLYPHASES] = falt_place_part(&plan->scratch, 2 * line);
  plan->at[FALT_POOLING_AT_WINDOWS] = falt_place_part(&plan->scratch, windows);
  plan->at[FALT_POOLING_AT_KEPT] = falt_place_part(&plan->scratch, kept * sizeof(kept_row));
}
