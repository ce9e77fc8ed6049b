/* Maximum and average pooling, forward, separably: the rows of a window are reduced to one line along depth and height,
 * then the taps along the line. An output costs about r + s/stride steps instead of r*s, and each input row is read
 * from memory once. Long runs of neighbours (global averages) are reduced one by one, narrow rows many at once
 * (pooling_narrow.c). */
#include <math.h>

#include "solver/cpu/pooling/pooling.h"

/* Rows that are reduced to one in order. */
typedef struct folding {
  void (*fold)(const void *const *rows, int count, int64_t n, void *out);
  const void *rows[FALT_POOLING_LIST];
  int count;
  int64_t n;
  void *out;
} folding;

static void fold_waiting(folding *f) {
  f->fold(f->rows, f->count, f->n, f->out);
  f->rows[0] = f->out;
  f->count = 1;
}

static void fold_row(folding *f, const void *row) {
  if (f->count == FALT_POOLING_LIST) fold_waiting(f);
  f->rows[f->count++] = row;
}

/* The line of one output row: the reduction of all rows of its windows. In place if it is a single row. */
static const void *fold_rows(const falt_pooling_task *t, int64_t d, int64_t h, const falt_pooling_part *part) {
  const falt_pooling_plan *plan = t->plan;
  const falt_tensor *x = &plan->p.input;
  const falt_pooling_box b = falt_pooling_box_of(plan, d, h);
  const int64_t count = part->end - part->begin, w = part->first + part->begin;
  const bool one = (b.end[0] - b.begin[0]) * (b.end[1] - b.begin[1]) == 1;
  char *inside = t->line + (size_t)(part->begin * t->channels) * plan->lane->element;
  folding f = {.fold = plan->lane->fold[falt_pooling_way(plan)], .n = count * t->channels, .out = inside};
  for (int64_t i = b.begin[0]; i < b.end[0]; i++)
    for (int64_t j = b.begin[1]; j < b.end[1]; j++) {
      const int64_t z = falt_pooling_position(plan, 0, d, i), y = falt_pooling_position(plan, 1, h, j);
      const void *row = falt_pooling_in_place(t, x, t->operands->input, z, y, w);
      if (row && one && count == part->length) return row;
      if (!row) {
        falt_pooling_load(t, x, t->operands->input, z, y, w, count, f.count ? t->row : inside);
        row = f.count ? t->row : inside;
      }
      fold_row(&f, row);
      if (row == t->row) fold_waiting(&f);
    }
  if (f.count > 1 || f.rows[0] != inside) fold_waiting(&f);
  falt_pooling_margins(t, part, plan->largest ? -INFINITY : 0);
  return t->line;
}

static void fold_taps(const falt_pooling_task *t, const void *line, int64_t count, char *out) {
  const falt_pooling_plan *plan = t->plan;
  const falt_axis *a = &plan->p.axis[2];
  const int64_t taps = plan->p.filter.size[FALT_W];
  const bool neighbours = t->channels == 1 && a->dilation == 1 && a->stride > 1 && taps >= plan->lane->width;
  if (neighbours) {
    plan->lane->runs[falt_pooling_way(plan)](line, a->stride, taps, count, out);
    return;
  }
  const falt_pooling_view view = falt_pooling_open(t, line, count);
  for (int64_t segment = 0; segment < view.segments; segment++, out += (size_t)view.n * plan->lane->element) {
    const void *list[FALT_POOLING_LIST];
    for (int64_t j = 0, kept = 0; j < taps; kept = 1) {
      const int64_t step = falt_min(FALT_POOLING_LIST - kept, taps - j);
      list[0] = out;
      falt_pooling_rows(&view, segment, j, step, list + kept);
      plan->lane->fold[falt_pooling_way(plan)](list, (int)(kept + step), view.n, out);
      j += step;
    }
  }
}

void falt_pooling_average(const falt_pooling_task *t, int64_t d, int64_t h, int64_t w, int64_t count, char *out) {
  const falt_pooling_plan *plan = t->plan;
  const int64_t taps = plan->p.filter.size[FALT_W];
  const double rows = falt_pooling_count(plan, 0, d) * falt_pooling_count(plan, 1, h);
  const size_t position = (size_t)t->channels * plan->lane->element;
  int64_t begin, end;
  falt_axis_interior(&plan->p.axis[2], plan->p.input.size[FALT_W], taps, plan->p.output.size[FALT_W], &begin, &end);
  begin = falt_min(falt_max(begin - w, 0), count);
  end = falt_max(begin, falt_min(end - w, count));
  plan->lane->divide(out + (size_t)begin * position, rows * (double)taps, (end - begin) * t->channels);
  for (int64_t i = begin == 0 ? end : 0; i < count; i = i + 1 == begin ? end : i + 1)
    plan->lane->divide(out + (size_t)i * position, rows * falt_pooling_count(plan, 2, w + i), t->channels);
}

static void pool_piece(const falt_pooling_task *t, int64_t h, int64_t w, int64_t count) {
  const falt_pooling_plan *plan = t->plan;
  const falt_tensor *y = &plan->p.output;
  const falt_axis *a = &plan->p.axis[2];
  const falt_pooling_part part = falt_pooling_inside(
      plan, w * a->stride - a->pad[0], (count - 1) * a->stride + falt_extent(a, plan->p.filter.size[FALT_W]));
  char *there = falt_pooling_in_place(t, y, t->operands->output, t->d, h, w), *out = there ? there : t->out;
  fold_taps(t, fold_rows(t, t->d, h, &part), count, out);
  if (!plan->largest) falt_pooling_average(t, t->d, h, w, count, out);
  if (!there) falt_pooling_store(t, y, t->operands->output, t->d, h, w, count, out);
}

void falt_pooling_forward(const falt_pooling_task *t) {
  const int64_t width = t->plan->p.output.size[FALT_W], piece = t->plan->piece;
  for (int64_t h = t->h, rows; h < t->h_end; h += rows) {
    rows = falt_pooling_narrow(t, h);
    for (int64_t w = 0; rows == 0 && w < width; w += piece) pool_piece(t, h, w, falt_min(piece, width - w));
    rows = falt_max(rows, 1);
  }
}

bool falt_pooling_forward_lay(falt_pooling_plan *plan) {
  const falt_axis *a = &plan->p.axis[2];
  const int64_t taps = plan->p.filter.size[FALT_W];
  if (taps > FALT_POOLING_LINE || a->dilation > FALT_POOLING_LINE || falt_extent(a, taps) > FALT_POOLING_LINE)
    return false;
  const int64_t extent = falt_extent(a, taps), most = FALT_POOLING_LINE / extent;
  if (plan->channels > 1) plan->channels = falt_min(plan->channels, most);
  plan->piece = falt_min((FALT_POOLING_LINE / plan->channels - extent) / a->stride + 1, plan->p.output.size[FALT_W]);
  falt_pooling_lay_narrow(plan);
  plan->line =
      falt_pooling_line(falt_max(((plan->piece - 1) * a->stride + extent) * plan->channels, plan->rows * plan->pitch));
  return true;
}
