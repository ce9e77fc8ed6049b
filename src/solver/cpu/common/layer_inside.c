/* Skips taps outside the input: the box of inside taps of each position, an order of positions by boxes, and its cut
 * into kernel calls. */
#include "solver/cpu/common/layer_inside.h"

/* ---- spans */

/* Pairs of a position and a tap of the axis that read the constant. */
static int64_t count_outside(const falt_layer *layer, int axis) {
  const falt_axis *a = &layer->p.axis[axis];
  const int64_t in = layer->p.input.size[FALT_D + axis], out = layer->p.output.size[FALT_D + axis];
  int64_t count = 0;
  for (int64_t j = 0; j < layer->p.filter.size[FALT_D + axis]; j++) {
    const int64_t from = a->pad[0] - j * a->dilation; /* positions at or after from/stride read no less than 0 */
    const int64_t inside = from > 0 ? falt_min(out, falt_ceil_div(from, a->stride)) : 0;
    const int64_t end = from + in > 0 ? falt_min(out, falt_ceil_div(from + in, a->stride)) : 0;
    if (a->boundary[0] == FALT_CONSTANT) count += inside;
    if (a->boundary[1] == FALT_CONSTANT) count += out - end;
  }
  return count;
}

double falt_inside_share(const falt_layer *layer) {
  double share = 1;
  for (int axis = 0; axis < 3 && layer->p.boundary_value == 0; axis++)
    share *= 1 - (double)count_outside(layer, axis) /
                     ((double)layer->p.output.size[FALT_D + axis] * (double)layer->p.filter.size[FALT_D + axis]);
  return share;
}

static falt_span span_at(const falt_layer *layer, int axis, int64_t o) {
  const int32_t taps = (int32_t)layer->p.filter.size[FALT_D + axis];
  falt_span span = {0, taps};
  while (span.begin < taps && falt_layer_source(layer, axis, o, span.begin) < 0) span.begin++;
  while (span.end > span.begin && falt_layer_source(layer, axis, o, span.end - 1) < 0) span.end--;
  return span.begin < span.end ? span : (falt_span){taps, 0};
}

static bool are_equal(falt_span a, falt_span b) {
  return a.begin == b.begin && a.end == b.end;
}

void falt_inside_init(falt_inside *inside, const falt_layer *layer) {
  const int64_t width = layer->p.output.size[FALT_W];
  *inside = (falt_inside){.edges = {0}};
  for (int64_t o = 0; o < width; o++) {
    const falt_span span = span_at(layer, 2, o);
    if (inside->classes > 0 && are_equal(span, inside->spans[inside->classes - 1])) continue;
    if (inside->classes == FALT_INSIDE_CLASSES) { /* too many to distinguish */
      inside->classes = 1;
      inside->spans[0] = (falt_span){0, (int32_t)layer->p.filter.size[FALT_W]};
      break;
    }
    inside->edges[inside->classes] = o;
    inside->spans[inside->classes++] = span;
  }
  inside->edges[inside->classes] = width;
}

/* ---- order */

/* Rows of positions, numbered over images and planes, that have equal spans along depth and height. */
typedef struct band {
  int64_t begin, end;
  falt_box taps;
} band;

static band band_from(const falt_layer *layer, int64_t row, int64_t end) {
  const int64_t width = layer->p.output.size[FALT_W];
  band all = {.begin = row, .end = row};
  for (; all.end < end; all.end++) {
    const falt_layer_point at = falt_layer_point_at(layer, all.end * width);
    const falt_span d = span_at(layer, 0, at.at[0]), h = span_at(layer, 1, at.at[1]);
    if (all.end == row) all.taps = (falt_box){{d, h, {0, 0}}};
    if (!are_equal(d, all.taps.axis[0]) || !are_equal(h, all.taps.axis[1])) break;
  }
  return all;
}

/* Every other time from the right to the left: the last of a row's classes is near the first of the next. */
void falt_inside_walk(const falt_inside *inside, const falt_layer *layer, int64_t first, int64_t count,
                      falt_inside_take take, void *context) {
  const int64_t width = layer->p.output.size[FALT_W], end = falt_ceil_div(first + count, width);
  bool back = false;
  band all;
  for (int64_t row = first / width; row < end; row = all.end, back = !back) {
    all = band_from(layer, row, end);
    for (int i = 0; i < inside->classes; i++) {
      const int class = back ? inside->classes - 1 - i : i;
      all.taps.axis[2] = inside->spans[class];
      for (int64_t r = all.begin; r < all.end; r++) {
        const int64_t from = falt_max(first, r * width + inside->edges[class]);
        const int64_t to = falt_min(first + count, r * width + inside->edges[class + 1]);
        const falt_layer_point at = falt_layer_point_at(layer, from);
        if (from < to) take(context, &at, to - from, &all.taps);
      }
    }
  }
}

/* ---- calls */

static falt_box hull(falt_box a, const falt_box *b) {
  for (int axis = 0; axis < 3; axis++) {
    if (b->axis[axis].begin < a.axis[axis].begin) a.axis[axis].begin = b->axis[axis].begin;
    if (b->axis[axis].end > a.axis[axis].end) a.axis[axis].end = b->axis[axis].end;
  }
  return a;
}

static int64_t volume(const falt_box *box) {
  int64_t count = 1;
  for (int axis = 0; axis < 3; axis++) count *= falt_max(0, box->axis[axis].end - box->axis[axis].begin);
  return count;
}

/* Time of a call: of less than half of the rows it is that of loading the panel; of beginning and storing sums it is
 * that of half a tap. */
static int64_t cost_of(int64_t rows, int64_t most, const falt_box *taps) {
  return falt_max(2 * rows, most) * volume(taps) + most;
}

/* The cheapest of all cuts of the order, from its end to its begin. */
int64_t falt_inside_cut(const falt_box *boxes, int64_t positions, int64_t most, falt_inside_call *calls) {
  calls[positions].cost = 0;
  for (int64_t p = positions - 1; p >= 0; p--) {
    falt_box taps = boxes[p];
    calls[p].cost = INT64_MAX;
    for (int64_t n = 1; n <= falt_min(most, positions - p); n++) {
      taps = hull(taps, &boxes[p + n - 1]);
      const int64_t cost = cost_of(n, most, &taps) + calls[p + n].cost;
      if (cost < calls[p].cost) calls[p] = (falt_inside_call){p, n, cost, taps};
    }
  }
  int64_t count = 0;
  for (int64_t p = 0; p < positions; p += calls[count++].count) calls[count] = calls[p];
  return count;
}

int64_t falt_inside_list(const falt_layer *layer, const falt_box *taps, int32_t *list) {
  const int64_t *size = layer->p.filter.size;
  const falt_span *t = taps->axis;
  int64_t count = 0;
  for (int64_t d = t[0].begin; d < t[0].end; d++)
    for (int64_t h = t[1].begin; h < t[1].end; h++)
      for (int64_t w = t[2].begin; w < t[2].end; w++)
        list[count++] = (int32_t)((d * size[FALT_H] + h) * size[FALT_W] + w);
  return count;
}
