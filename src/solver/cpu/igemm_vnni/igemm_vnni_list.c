/* Lists the row tiles of a block of positions, in place in the input or copied to the scratch. */
#include <string.h>

#include "solver/cpu/igemm_vnni/igemm_vnni.h"

/* One tap reads pixels in place. Otherwise each input row of a part is copied once, with its boundary, for all taps and
 * output channels: as pixels, so a tap is a shift; or as windows, all taps of a row together, for odd numbers of
 * channels, where tiles may cross the ends of short rows (7 x 7). For NCHW output, and where vectors read lines, the
 * copies are of groups: the 4 bytes of depth of neighbouring positions are adjacent, for each residue of the stride,
 * and a tap is again a shift. */

/* ---- groups */

/* Whether vectors may read lines whose elements are adjacent. */
static bool reads_lines(const falt_tiles_plan *plan) {
  const bool as_they_are = plan->kernels->together == 1 && !plan->split && plan->kind != FALT_TILES_F32;
  return as_they_are && plan->layer.p.input.stride[FALT_W] == 1 && !plan->transposed && !plan->flat && !plan->in_place;
}

/* Whether a line of a single channel is its positions' groups in place, at any byte. Elements after the last tap have
 * zero weights, and may be NaN. */
static bool slides(const falt_tiles_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const int64_t taps = p->filter.size[FALT_W];
  return reads_lines(plan) && plan->layer.channels == 1 && p->axis[2].dilation == 1 && taps > 1 &&
         (plan->kind <= FALT_TILES_S8 || taps * plan->element % GROUP == 0);
}

/* Whether tiles of positions cross the ends of lines, with separate copies for each tap: lines end within tiles, and
 * the outputs of consecutive lines are consecutive. */
static bool flattens(const falt_tiles_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const int64_t height = p->output.size[FALT_H], width = p->output.size[FALT_W];
  const bool follow = p->output.stride[FALT_H] == width && (!p->has_residual || p->residual.stride[FALT_H] == width);
  return plan->transposed && height > 1 && follow &&
         4 * height * falt_ceil_div(width, ROWS) >= 5 * falt_ceil_div(height * width, ROWS);
}

/* For transposed products, and for lines. Taps share groups of pixels, which may leave more of them empty. For vectors
 * the groups of consecutive rows are as far apart as those of one: one segment has all taps. */
void falt_tiles_set_groups(falt_tiles_plan *plan) {
  const falt_axis *axis = plan->layer.p.axis;
  const int64_t *taps = plan->layer.p.filter.size, channels = plan->layer.channels;
  plan->slides = slides(plan);
  plan->zipped = plan->transposed || plan->slides || (reads_lines(plan) && axis[2].stride == 1);
  if (!plan->zipped) return;
  plan->step = plan->slides ? axis[2].stride * plan->element : GROUP;
  plan->in_place = false;
  plan->flat = flattens(plan);
  plan->windows =
      plan->flat || falt_tiles_depth(plan, taps[FALT_W] * channels) < taps[FALT_W] * falt_tiles_depth(plan, channels);
  const bool follow = taps[FALT_H] == 1 || (axis[1].stride == 1 && axis[1].dilation == 1);
  plan->stacked = plan->windows && !plan->flat && follow && plan->kernels->together == 1;
}

/* ---- windows of several rows */

/* Approximate cycles of a position with windows of a number of tap rows: its pieces are loaded from the L2 cache and
 * multiplied by tiles of columns, and copied once for each residue of the stride. */
static int64_t window_cycles(const falt_tiles_plan *plan, int64_t joined) {
  const falt_problem *p = &plan->layer.p;
  const int64_t length = joined * p->filter.size[FALT_W] * plan->layer.channels;
  const int64_t pieces = falt_tiles_piece_count(length, plan->element),
                steps = falt_ceil_div(p->filter.size[FALT_H], joined);
  const int64_t products =
      falt_tiles_depth(plan, length) / plan->kernels->together * falt_ceil_div(plan->layer.results, ROWS);
  return steps * (3 * pieces + products) + 6 * pieces * falt_min(p->axis[1].stride, steps);
}

bool falt_tiles_copies_lines(const falt_tiles_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  return plan->windows && !plan->zipped && !falt_tiles_converts(plan) &&
         plan->layer.channels * plan->element < FALT_TILE_BYTES && falt_tensor_unit(&p->input, FALT_C) &&
         p->input.stride[FALT_W] == plan->layer.channels && p->axis[2].dilation == 1;
}

int64_t falt_tiles_joined(const falt_tiles_plan *plan) {
  const int64_t height = plan->layer.p.filter.size[FALT_H];
  int64_t best = 1;
  for (int64_t rows = 2; rows <= falt_min(height, MOST_JOINED) && falt_tiles_copies_lines(plan); rows++) {
    const bool fits = plan->kind <= FALT_TILES_S8 || height % rows == 0;
    if (fits && window_cycles(plan, rows) < window_cycles(plan, best)) best = rows;
  }
  return best;
}

/* ---- rows in */

static int64_t input_size(const falt_tiles_task *t) {
  return (int64_t)falt_type_size(t->layer->p.input.type);
}

/* n elements of the input, `step` elements apart, as elements of a tile. */
static void bring(const falt_tiles_task *t, const char *from, int64_t step, int64_t n, char *to) {
  if (falt_tiles_converts(t->plan))
    t->plan->kernels->upconvert(&(falt_tiles_upconvert){from, t->layer->p.input.type, t->plan->split, to, step, n});
  else
    falt_layer_gather(from, step, n, t->plan->element, to);
}

/* `count` pixels inside a row, all their channels. */
static void bring_inside(const falt_tiles_task *t, const char *from, int64_t count, char *to) {
  const falt_tensor *x = &t->layer->p.input;
  const int64_t channels = t->layer->channels, size = channels * t->plan->element,
                pixel = x->stride[FALT_W] * input_size(t);
  const int64_t step = falt_tensor_unit(x, FALT_C) ? 1 : x->stride[FALT_C];
  if (step == 1 && x->stride[FALT_W] == channels)
    bring(t, from, 1, count * channels, to);
  else if (step == 1 && !falt_tiles_converts(t->plan) && size % FALT_TILE_BYTES == 0)
    t->plan->kernels->spread(&(falt_tiles_spread){from, to, pixel, size, size, count, 1, 0});
  else
    for (int64_t i = 0; i < count; i++) bring(t, from + i * pixel, step, channels, to + i * size);
}

/* `count` neighbouring pixels of an input row from w on, which may be outside it; row NULL: the constant. */
static void bring_pixels(const falt_tiles_task *t, const char *row, int64_t w, int64_t count, char *to) {
  const falt_tensor *x = &t->layer->p.input;
  const int64_t size = t->layer->channels * t->plan->element, width = x->size[FALT_W];
  for (int64_t n; count > 0; count -= n, w += n, to += n * size) {
    const bool inside = w >= 0 && w < width;
    const int64_t source = inside || !row ? w : falt_axis_map(&t->layer->p.axis[2], width, w);
    n = inside && row ? falt_min(count, width - w) : 1;
    if (row && source >= 0) {
      bring_inside(t, row + source * x->stride[FALT_W] * input_size(t), n, to);
    } else if (t->layer->p.boundary_value == 0) {
      const bool before = w < 0 && t->layer->p.axis[2].boundary[0] == FALT_CONSTANT;
      n = !row ? count : before ? falt_min(count, -w) : 1;
      memset(to, 0, (size_t)(n * size));
    } else {
      memcpy(to, t->constant, (size_t)size);
    }
  }
}

/* The elements that the taps of a row read from pixel w on, followed by zeros. */
static void bring_window(const falt_tiles_task *t, const char *row, int64_t w, char *to) {
  const int64_t dilation = t->layer->p.axis[2].dilation, taps = t->layer->p.filter.size[FALT_W];
  const int64_t channels = t->layer->channels * t->plan->element;
  memset(to + falt_tiles_pixel(t->plan) - FALT_TILE_BYTES, 0, FALT_TILE_BYTES);
  if (dilation == 1)
    bring_pixels(t, row, w, taps, to);
  else
    for (int64_t s = 0; s < taps; s++) bring_pixels(t, row, w + s * dilation, 1, to + s * channels);
}

/* Windows of positions ow, ow + 1, ...: the pixels of those inside are contiguous in memory, or equally spaced. */
static void bring_windows(const falt_tiles_task *t, const char *row, int64_t ow, int64_t count, char *to) {
  const falt_tensor *x = &t->layer->p.input;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t channels = t->layer->channels, taps = t->layer->p.filter.size[FALT_W],
                pitch = falt_tiles_pixel(t->plan);
  const bool even = row && falt_tensor_unit(x, FALT_C) && !falt_tiles_converts(t->plan);
  const bool together = taps == 1 || (x->stride[FALT_W] == channels && axis->dilation == 1);
  int64_t w = ow * axis->stride - axis->pad[0], i = 0;
  const int64_t last = x->size[FALT_W] - falt_extent(axis, taps); /* window's first pixel */
  const int64_t first = w >= 0 ? 0 : falt_min(count, falt_ceil_div(-w, axis->stride));
  const int64_t end = w > last ? 0 : falt_min(count, (last - w) / axis->stride + 1);
  for (; i < (even ? first : count); i++) bring_window(t, row, w + i * axis->stride, to + i * pitch);
  if (i < end) {
    const int64_t pixel = x->stride[FALT_W] * input_size(t);
    t->plan->kernels->spread(&(falt_tiles_spread){.from = row + (w + i * axis->stride) * pixel,
                                                  .to = to + i * pitch,
                                                  .step = axis->stride * pixel,
                                                  .pitch = pitch,
                                                  .bytes = (together ? taps : 1) * channels * t->plan->element,
                                                  .count = end - i,
                                                  .parts = together ? 1 : taps,
                                                  .apart = axis->dilation * pixel});
    i = end;
  }
  for (; i < count; i++) bring_window(t, row, w + i * axis->stride, to + i * pitch);
}

/* Windows of rows of adjacent pixels, copied with their boundary, so all are inside. */
static void bring_joined(const falt_tiles_task *t, const char *const *rows, int64_t ow, int64_t count, char *to) {
  const falt_tiles_plan *plan = t->plan;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t pixel = t->layer->channels * plan->element, taps = t->layer->p.filter.size[FALT_W];
  const int64_t pixels = (count - 1) * axis->stride + taps;
  for (int64_t r = 0; r < plan->joined; r++)
    bring_pixels(t, rows[r], ow * axis->stride - axis->pad[0], pixels, t->lines + r * plan->line);
  t->plan->kernels->spread(&(falt_tiles_spread){.from = t->lines,
                                                .to = to,
                                                .step = axis->stride * pixel,
                                                .pitch = falt_tiles_pixel(plan),
                                                .bytes = taps * pixel,
                                                .count = count,
                                                .parts = plan->joined,
                                                .apart = plan->line});
}

/* ---- groups in */

/* A channel's elements of a row from pixel w on: in place if they are contiguous, else copied to `room`. */
static const char *line_of(const falt_tiles_task *t, const char *row, int64_t c, int64_t w, int64_t count, char *room) {
  const falt_tensor *x = &t->layer->p.input;
  const int64_t size = t->plan->element, step = t->layer->p.axis[2].stride * x->stride[FALT_W];
  const char *line = row ? row + c * x->stride[FALT_C] * size : NULL;
  if (line && step == 1 && w >= 0 && w + count <= x->size[FALT_W]) return line + w * size;
  falt_layer_line(t->layer, line, w, count, t->constant, room);
  return room;
}

/* Groups of a copied row of `count` positions, 4 bytes of depth each; zeros beyond the depth. */
static void bring_groups(const falt_tiles_task *t, const char *row, int64_t ow, int64_t count, char *to) {
  const falt_tiles_plan *plan = t->plan;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t each = GROUP / plan->element, channels = t->layer->channels;
  for (int64_t i = 0; i < plan->residues * plan->deep; i++, to += plan->pitch) {
    const int64_t residue = i / plan->deep, e = i % plan->deep * each;
    falt_tiles_zip call = {.to = to, .n = count, .bytes = plan->element == 1};
    if (e >= plan->row) {
      memset(to, 0, (size_t)(count * GROUP));
      continue;
    }
    for (int64_t j = 0; j < each; j++) {
      char *room = t->lines + j * plan->wide * plan->element;
      const int64_t tap = (e + j) / channels, w = ow * axis->stride - axis->pad[0] + residue + tap * axis->dilation;
      call.rows[j] = room;
      if (e + j < plan->row)
        call.rows[j] = line_of(t, row, (e + j) % channels, w, count, room);
      else
        memset(room, 0, (size_t)(count * plan->element));
    }
    plan->kernels->zip(&call);
  }
}

/* The same for a line that slides: once for each group, from its first element on. */
static void bring_lines(const falt_tiles_task *t, const char *row, int64_t ow, int64_t count, char *to) {
  const falt_tiles_plan *plan = t->plan;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t each = GROUP / plan->element, elements = (count - 1) * axis->stride + each;
  for (int64_t i = 0; i < plan->deep; i++, to += plan->pitch)
    bring_pixels(t, row, ow * axis->stride - axis->pad[0] + i * each, elements, to);
}

/* ---- parts */

/* Lines [at.at[1], + lines) and positions [at.at[2], + width) of a plane of outputs. */
typedef struct part {
  falt_layer_point at;
  int64_t lines, width;
  char *copies, *filled; /* its rows, and whether they are there */
} part;

static part part_at(const falt_tiles_task *t, int64_t i) {
  const falt_tiles_plan *plan = t->plan;
  int64_t index = t->part + i;
  const int64_t span = index % plan->spans.count;
  index /= plan->spans.count;
  const int64_t lines = index % plan->lines.count;
  index /= plan->lines.count;
  const int64_t depth = t->layer->p.output.size[FALT_D], copies = falt_tiles_copies(plan);
  part p = {.at = {index / depth,
                   {index % depth, falt_layer_piece(&plan->lines, lines), falt_layer_piece(&plan->spans, span)}},
            .copies = t->copies + i * falt_tiles_slots_of(plan) * plan->slot,
            .filled = t->filled + i * copies};
  p.lines = falt_layer_piece(&plan->lines, lines + 1) - p.at.at[1];
  p.width = falt_layer_piece(&plan->spans, span + 1) - p.at.at[2];
  return p;
}

/* The copy of a part that taps (j, r), r counted in windows, of a line read. Copies of consecutive lines are
 * consecutive; if stacked, all copies of a line are consecutive. */
static int64_t slot_of(const falt_tiles_plan *plan, int64_t j, int64_t r, int64_t line) {
  const falt_axis *axis = &plan->layer.p.axis[1];
  const int64_t reach = r * falt_tiles_down(plan);
  const int64_t first = plan->own ? r * plan->class : reach % axis->stride * plan->class + reach / axis->stride;
  return plan->stacked ? (first + line) * plan->layer.p.filter.size[FALT_D] + j : j * plan->slots + first + line;
}

/* The address of that copy. Groups of all lines of a tap are in one slot if tiles cross their ends. */
static char *copy_of(const falt_tiles_plan *plan, const part *p, int64_t j, int64_t r, int64_t line) {
  if (plan->flat && plan->zipped) return p->copies + (j * plan->steps + r) * plan->slot + line * p->width * GROUP;
  return p->copies + slot_of(plan, j, r, line) * plan->slot;
}

/* The input row that taps (j, r) of a line read; NULL: the constant. */
static const char *row_of(const falt_tiles_task *t, const part *p, int64_t j, int64_t r, int64_t line) {
  const falt_tensor *x = &t->layer->p.input;
  const int64_t d = falt_layer_source(t->layer, 0, p->at.at[0], j);
  const int64_t h = falt_layer_source(t->layer, 1, p->at.at[1] + line, r);
  const int64_t index = p->at.n * x->stride[FALT_N] + d * x->stride[FALT_D] + h * x->stride[FALT_H];
  return d < 0 || h < 0 ? NULL : t->input + index * input_size(t);
}

static void copy_row(const falt_tiles_task *t, const part *p, int64_t j, int64_t r, int64_t line) {
  const falt_tiles_plan *plan = t->plan;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t slot = slot_of(plan, j, r, line);
  if (p->filled[slot]) return;
  p->filled[slot] = 1;
  const char *rows[MOST_JOINED];
  for (int64_t i = 0; i < plan->joined; i++) rows[i] = row_of(t, p, j, r * plan->joined + i, line);
  const int64_t reach = falt_extent(axis, t->layer->p.filter.size[FALT_W]) - 1;
  char *to = copy_of(plan, p, j, r, line);
  if (plan->zipped) {
    const int64_t positions = p->width + (plan->windows ? 0 : reach / axis->stride);
    (plan->slides ? bring_lines : bring_groups)(t, rows[0], p->at.at[2], positions, to);
    return;
  }
  if (plan->windows) {
    if (plan->line > 0)
      bring_joined(t, rows, p->at.at[2], p->width, to);
    else
      bring_windows(t, rows[0], p->at.at[2], p->width, to);
    return;
  }
  const int64_t pixels = (p->width - 1) * axis->stride + reach + 1;
  bring_pixels(t, rows[0], p->at.at[2] * axis->stride - axis->pad[0], pixels, to);
}

static void copy_rows(const falt_tiles_task *t, const part *p) {
  const int64_t *taps = t->layer->p.filter.size;
  memset(p->filled, 0, (size_t)falt_tiles_copies(t->plan));
  for (int64_t j = 0; j < taps[FALT_D]; j++)
    for (int64_t line = 0; line < p->lines; line++)
      for (int64_t r = 0; r < t->plan->steps; r++) copy_row(t, p, j, r, line);
}

/* Whether a part's tiles read only inside: one tap, and tiles that may extend beyond the part's end. */
static bool lies_inside(const falt_tiles_task *t, const part *p) {
  const falt_tiles_plan *plan = t->plan;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t first = p->at.at[2] * axis->stride - axis->pad[0];
  const int64_t last = first + (plan->along * plan->rows - 1) * axis->stride;
  if (!plan->in_place || first < 0 || last >= t->layer->p.input.size[FALT_W]) return false;
  for (int64_t line = 0; line < p->lines; line++)
    if (!row_of(t, p, 0, 0, line)) return false;
  return true;
}

/* ---- lists */

/* Whether products by rows of zeros are skipped: for vectors, if a tile's positions are in one line; not for f16, whose
 * weights may be infinite. */
static bool leaves_out(const falt_tiles_plan *plan) {
  return plan->kernels->together == 1 && !falt_tiles_converts(plan) && !plan->flat && plan->joined == 1 &&
         plan->layer.p.boundary_value == 0;
}

/* One tile for each segment, positions from `first` of a line (of all of them where they are flat) on. */
static void list_rows(const falt_tiles_task *t, const part *p, int64_t line, int64_t first, falt_tile_rows *list) {
  const falt_tiles_plan *plan = t->plan;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t *taps = t->layer->p.filter.size, pixel = falt_tiles_pixel(plan);
  const int64_t step = plan->windows ? pixel : axis->stride * pixel, others = plan->windows ? 1 : taps[FALT_W];
  for (int64_t time = 0; time < plan->times; time++)
    for (int64_t j = 0; j < taps[FALT_D]; j++)
      for (int64_t r = 0; r < plan->steps; r++) {
        const char *row = p->copies + slot_of(plan, j, r, line) * plan->slot + first * step;
        const bool outside = leaves_out(plan) && !row_of(t, p, j, r, line);
        for (int64_t s = 0; s < others; s++, list += PAIR)
          *list = (falt_tile_rows){outside ? NULL : row + s * axis->dilation * pixel, step, FALT_TILE_BYTES};
      }
}

/* The same for groups; transposed: each piece separately. */
static void list_groups(const falt_tiles_task *t, const part *p, int64_t line, int64_t first, falt_tile_rows *list) {
  const falt_tiles_plan *plan = t->plan;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t *taps = t->layer->p.filter.size, others = plan->windows ? 1 : taps[FALT_W];
  const int64_t rows = plan->segments / others, pieces = plan->transposed ? plan->pieces : 1;
  const int64_t piece = ROWS * plan->pitch, step = plan->transposed ? plan->pitch : plan->step;
  for (int64_t q = 0; q < pieces; q++)
    for (int64_t r = 0; r < rows; r++) {
      const char *row = copy_of(plan, p, r / taps[FALT_H], r % taps[FALT_H], line) + q * piece;
      for (int64_t s = 0; s < others; s++, list += PAIR) {
        const int64_t reach = s * axis->dilation, residue = reach % axis->stride;
        const char *at = row + residue * plan->deep * plan->pitch + (reach / axis->stride + first) * plan->step;
        *list = (falt_tile_rows){at, step, piece};
      }
    }
}

static void list_inside(const falt_tiles_task *t, const part *p, int64_t line, int64_t first, falt_tile_rows *list) {
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t pixel = t->layer->p.input.stride[FALT_W] * input_size(t);
  const int64_t w = (p->at.at[2] + first) * axis->stride - axis->pad[0];
  *list = (falt_tile_rows){row_of(t, p, 0, 0, line) + w * pixel, axis->stride * pixel, FALT_TILE_BYTES};
}

static void list_places(const falt_tensor *t, const falt_layer_point *at, int64_t count, int64_t *places) {
  int64_t place = falt_tensor_at(t, at->n, 0, 0, at->at[0], at->at[1], at->at[2]);
  for (int64_t i = 0; i < count; i++, place += t->stride[FALT_W]) places[i] = place;
}

static void list_results(const falt_tiles_task *t, const falt_tiles_tile *tile, int64_t p) {
  const falt_problem *q = &t->layer->p;
  falt_layer_point at = tile->at;
  for (int64_t m = 0, run; m < tile->count; m += run) {
    run = falt_layer_run(t->layer, &at, tile->count - m);
    list_places(&q->output, &at, run, t->out + p + m);
    if (q->has_residual) list_places(&q->residual, &at, run, t->residual + p + m);
    falt_layer_advance(t->layer, &at, run);
  }
}

/* Positions of a line, or of all lines where they are flat. */
static int64_t length_of(const falt_tiles_plan *plan, const part *p) {
  return plan->flat ? p->lines * p->width : p->width;
}

/* Positions [first, first + rows) of a line, or of all lines where they are flat. */
static void list_tile(falt_tiles_task *t, const part *p, int64_t line, int64_t first, bool inside) {
  const falt_tiles_plan *plan = t->plan;
  const int64_t i = t->count++, length = length_of(plan, p);
  falt_tile_rows *list = t->list + i / PAIR * falt_tiles_listed(plan) * PAIR + i % PAIR;
  falt_tiles_tile *tile = &t->tiles[i];
  *tile = (falt_tiles_tile){p->at, (int)falt_max(0, falt_min(plan->rows, length - first))};
  const int64_t over = plan->flat ? first / p->width : 0;
  tile->at.at[1] += line + over;
  tile->at.at[2] += first - over * p->width;
  list_results(t, tile, i * ROWS);
  (inside ? list_inside : plan->zipped ? list_groups : list_rows)(t, p, line, first, list);
}

/* A smaller part has fewer tiles: a pair whose first tile had no position would be stored at no address. */
static void list_part(falt_tiles_task *t, const part *p) {
  const falt_tiles_plan *plan = t->plan;
  const int64_t lines = plan->flat ? 1 : p->lines, tiles = falt_ceil_div(length_of(plan, p), plan->rows);
  const int64_t along = plan->transposed ? falt_round_up(tiles, PAIR) : tiles;
  const bool inside = lies_inside(t, p);
  if (!inside) copy_rows(t, p);
  for (int64_t line = 0; line < lines; line++)
    for (int64_t i = 0; i < along; i++) list_tile(t, p, line, i * plan->rows, inside);
}

void falt_tiles_list(falt_tiles_task *t, int64_t group) {
  t->group = group;
  t->count = 0;
  t->input =
      (const char *)t->run->operands->input + falt_tensor_at(&t->layer->p.input, 0, group, 0, 0, 0, 0) * input_size(t);
  for (int64_t i = 0; i < t->parts; i++) {
    const part p = part_at(t, i);
    list_part(t, &p);
  }
}
