/* Dense layers in tiles: the filter as panels, and the tiles of a block of positions: where they lie in the input, or
 * copied to the scratch. */
#include <string.h>

#include "solver/layer_tiles.h"

/* ---- packing */

typedef struct packing {
  const falt_tiles_plan *plan;
  const void *filter;
  char *packed;
} packing;

/* Where element e of a segment's column k lies within the segment's tiles. */
static int64_t tile_offset(const falt_tiles_plan *plan, int64_t e, int64_t k, int64_t tiles) {
  const int64_t byte = e * plan->element, piece = byte / FALT_TILE_BYTES, group = byte % FALT_TILE_BYTES / 4;
  return (piece * tiles + k / ROWS) * TILE + group * FALT_TILE_BYTES + k % ROWS * 4 + byte % 4;
}

static void pack_element(const packing *pack, int64_t from, char *to) {
  const falt_type type = pack->plan->layer.p.filter.type;
  if (pack->plan->kind == FALT_TILES_F32) {
    const float value = (float)falt_load(pack->filter, type, from);
    memcpy(to, &value, sizeof value);
  } else if (pack->plan->element == 2) {
    memcpy(to, (const char *)pack->filter + 2 * from, 2);
  } else {
    *to = ((const char *)pack->filter)[from];
  }
}

/* Column `k` of a group's panel that begins at channel `first`. */
static void pack_column(const packing *pack, int64_t g, int64_t first, int64_t k, int64_t tiles, char *to) {
  const falt_tiles_plan *plan = pack->plan;
  const falt_tensor *w = &plan->layer.p.filter;
  int64_t tap = 0;
  for (int64_t t = 0; t < w->size[FALT_D]; t++)
    for (int64_t r = 0; r < w->size[FALT_H]; r++)
      for (int64_t s = 0; s < w->size[FALT_W]; s++, tap++) {
        const int64_t from = falt_tensor_at(w, first + k, g, 0, t, r, s);
        const int64_t segment = plan->in_place ? tap : 0, e = plan->in_place ? 0 : tap * plan->layer.channels;
        char *const tile = to + segment * plan->pieces * tiles * TILE;
        for (int64_t c = 0; c < plan->layer.channels; c++)
          pack_element(pack, from + c * w->stride[FALT_C], tile + tile_offset(plan, e + c, k, tiles));
      }
}

static void pack_panel(void *context, int64_t index) {
  const packing *pack = context;
  const falt_tiles_plan *plan = pack->plan;
  const int64_t g = index / plan->panels, panel = index % plan->panels, columns = falt_tiles_columns(plan, panel);
  char *to = pack->packed + (size_t)index * plan->panel;
  memset(to, 0, plan->panel);
  for (int64_t k = 0; k < columns; k++) pack_column(pack, g, panel * COLUMNS, k, falt_ceil_div(columns, ROWS), to);
}

void falt_tiles_pack(const falt_tiles_plan *plan, const void *filter, char *packed) {
  packing p = {plan, filter, packed};
  falt_parallel_for(plan->base.device->threads, falt_tiles_groups(plan) * plan->panels, pack_panel, &p);
}

/* ---- rows in */

/* Positions of a tile that lie in one output row. */
typedef struct stretch {
  falt_layer_point at;
  int begin, end;
  const char *row; /* of the input, for the taps at hand; NULL: the constant */
} stretch;

/* Input rows of all runs for taps (j, r). */
static void find_rows(const falt_tiles_task *t, stretch *runs, int count, int64_t j, int64_t r) {
  const falt_tensor *x = &t->layer->p.input;
  for (int i = 0; i < count; i++) {
    const falt_layer_point *at = &runs[i].at;
    const int64_t d = falt_layer_source(t->layer, 0, at->at[0], j), h = falt_layer_source(t->layer, 1, at->at[1], r);
    const int64_t index = at->n * x->stride[FALT_N] + d * x->stride[FALT_D] + h * x->stride[FALT_H];
    runs[i].row = d < 0 || h < 0 ? NULL : t->input + index * falt_tiles_input_size(t);
  }
}

/* The pixel at w of an input row, which may lie outside it; the constant's if there is none. */
static const char *pixel_at(const falt_tiles_task *t, const char *row, int64_t w) {
  const int64_t size = t->layer->p.input.size[FALT_W];
  if (row && (w < 0 || w >= size)) w = falt_axis_map(&t->layer->p.axis[2], size, w);
  return row && w >= 0 ? row + w * t->pixel : t->constant;
}

/* The pixels that positions meet at tap s. */
static void find_pixels(const falt_tiles_task *t, const stretch *r, int64_t s, const char **from) {
  const falt_axis *axis = &t->layer->p.axis[2];
  int64_t w = r->at.at[2] * axis->stride + s * axis->dilation - axis->pad[0];
  for (int m = r->begin; m < r->end; m++, w += axis->stride) from[m] = pixel_at(t, r->row, w);
}

/* Whether all positions of a tile are in one row and meet pixels of one input row, or none. */
static bool is_regular(const falt_tiles_task *t, const stretch *runs, int count, int64_t s, falt_tile_rows *rows) {
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t first = runs->at.at[2] * axis->stride + s * axis->dilation - axis->pad[0];
  if (count > 1) return false;
  *rows = (falt_tile_rows){t->constant, 0, FALT_TILE_BYTES};
  if (!runs->row) return true;
  *rows = (falt_tile_rows){runs->row + first * t->pixel, axis->stride * t->pixel, FALT_TILE_BYTES};
  return first >= 0 && first + (t->plan->rows - 1) * axis->stride < t->layer->p.input.size[FALT_W];
}

/* A copy of an input row with what stands before and behind it, which serves all taps and the tiles of several output
 * rows. */
static const char *wide_row(falt_tiles_task *t, const char *row) {
  const int64_t pixel = t->layer->channels * t->plan->element, pad = t->layer->p.axis[2].pad[0];
  for (int i = t->copies - 1; i >= 0; i--)
    if (t->copied[i] == row) return t->gathered + i * t->plan->wide * pixel;
  char *const copy = t->gathered + t->copies * t->plan->wide * pixel;
  t->copied[t->copies++] = row;
  for (int64_t begin = 0; begin < t->plan->wide; begin += ROWS) {
    const char *from[ROWS];
    const int count = (int)falt_min(ROWS, t->plan->wide - begin);
    for (int i = 0; i < count; i++) from[i] = pixel_at(t, row, begin + i - pad);
    t->plan->kernels->parts(&(falt_tiles_parts){from, copy + begin * pixel, pixel, pixel, count});
  }
  return copy;
}

static falt_tile_rows tile_of_wide_row(falt_tiles_task *t, const stretch *r, int64_t s) {
  const int64_t pixel = t->layer->channels * t->plan->element;
  const falt_axis *axis = &t->layer->p.axis[2];
  const char *row = wide_row(t, r->row) + (r->at.at[2] * axis->stride + s * axis->dilation) * pixel;
  return (falt_tile_rows){row, axis->stride * pixel, FALT_TILE_BYTES};
}

static falt_tile_rows gathered_tile(const falt_tiles_task *t, const stretch *runs, int count, int64_t s, char *to) {
  const char *from[ROWS];
  for (int i = 0; i < count; i++) find_pixels(t, &runs[i], s, from);
  t->plan->kernels->gather(&(falt_tiles_gather){from, to, t->plan->pieces, runs[count - 1].end});
  return (falt_tile_rows){to, FALT_TILE_BYTES, TILE};
}

/* A tile for each tap, where it lies or copied. */
static void list_taps(falt_tiles_task *t, stretch *runs, int count, falt_tile_rows *list, char *gathered) {
  const int64_t *taps = t->layer->p.filter.size;
  for (int64_t j = 0; j < taps[FALT_D]; j++)
    for (int64_t r = 0; r < taps[FALT_H]; r++) {
      find_rows(t, runs, count, j, r);
      for (int64_t s = 0; s < taps[FALT_W]; s++, list += PAIR, gathered += t->plan->pieces * TILE) {
        if (is_regular(t, runs, count, s, list)) continue;
        *list = t->plan->by_rows ? tile_of_wide_row(t, runs, s) : gathered_tile(t, runs, count, s, gathered);
      }
    }
}

/* n elements of the input, `step` elements apart, as elements of a tile. */
static void bring(const falt_tiles_task *t, const char *from, int64_t step, int64_t n, char *to) {
  if (t->plan->kind == FALT_TILES_F32)
    t->plan->kernels->widen(&(falt_tiles_widen){from, t->layer->p.input.type, (float *)(void *)to, step, n});
  else if (step == 1)
    memcpy(to, from, (size_t)(n * t->plan->element));
  else if (t->plan->element == 2)
    for (int64_t i = 0; i < n; i++) memcpy(to + 2 * i, from + 2 * i * step, 2);
  else
    for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
}

/* What all taps s of a row meet, next to each other, for one position; w: of the first tap. */
static void bring_taps(const falt_tiles_task *t, const char *row, int64_t w, char *to) {
  const falt_tensor *x = &t->layer->p.input;
  const int64_t c = t->layer->channels, step = falt_tensor_unit(x, FALT_C) ? 1 : x->stride[FALT_C];
  for (int64_t s = 0; s < t->layer->p.filter.size[FALT_W]; s++, to += c * t->plan->element) {
    const char *from = pixel_at(t, row, w + s * t->layer->p.axis[2].dilation);
    if (from == t->constant)
      memcpy(to, from, (size_t)(c * t->plan->element));
    else
      bring(t, from, step, c, to);
  }
}

/* The same for all positions of a stretch. Those that lie within the row are neighbours in memory. */
static void bring_stretch(const falt_tiles_task *t, const stretch *r, char *to, int64_t pitch) {
  const falt_tensor *x = &t->layer->p.input;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t c = t->layer->channels, taps = t->layer->p.filter.size[FALT_W];
  const bool together = falt_tensor_unit(x, FALT_C) && x->stride[FALT_W] == c && axis->dilation == 1 && r->row;
  const char *from[ROWS];
  int count = 0;
  char *line = to + r->begin * pitch, *first = line;
  int64_t w = r->at.at[2] * axis->stride - axis->pad[0];
  for (int m = r->begin; m < r->end; m++, w += axis->stride, line += pitch) {
    if (!together || w < 0 || w + taps > x->size[FALT_W]) {
      bring_taps(t, r->row, w, line);
    } else if (t->plan->kind == FALT_TILES_F32) {
      bring(t, r->row + w * t->pixel, 1, taps * c, line);
    } else {
      if (count == 0) first = line;
      from[count++] = r->row + w * t->pixel;
    }
  }
  t->plan->kernels->parts(&(falt_tiles_parts){from, first, taps * c * t->plan->element, pitch, count});
}

/* All taps and channels of each position in one line, zeros behind them. */
static void list_together(falt_tiles_task *t, stretch *runs, int count, falt_tile_rows *list, char *gathered) {
  const int64_t *taps = t->layer->p.filter.size, pitch = t->plan->pieces * FALT_TILE_BYTES;
  const int64_t row = taps[FALT_W] * t->layer->channels * t->plan->element;
  char *to = gathered;
  for (int m = 0; m < ROWS; m++) memset(gathered + (m + 1) * pitch - FALT_TILE_BYTES, 0, FALT_TILE_BYTES);
  for (int64_t j = 0; j < taps[FALT_D]; j++)
    for (int64_t r = 0; r < taps[FALT_H]; r++, to += row) {
      find_rows(t, runs, count, j, r);
      for (int i = 0; i < count; i++) bring_stretch(t, &runs[i], to, pitch);
    }
  *list = (falt_tile_rows){gathered, pitch, FALT_TILE_BYTES};
}

static void list_results(const falt_tiles_task *t, const stretch *r, int64_t p) {
  const falt_tensor *y = &t->layer->p.output, *z = &t->layer->p.residual;
  const falt_layer_point *at = &r->at;
  const int64_t out = falt_tensor_at(y, at->n, 0, 0, at->at[0], at->at[1], at->at[2]);
  const int64_t residual = falt_tensor_at(z, at->n, 0, 0, at->at[0], at->at[1], at->at[2]);
  for (int64_t m = r->begin; m < r->end; m++) {
    t->out[p + m] = out + (m - r->begin) * y->stride[FALT_W];
    t->residual[p + m] = residual + (m - r->begin) * z->stride[FALT_W];
  }
}

/* Lists of the block's i-th tile. */
static void list_tile(falt_tiles_task *t, int64_t i) {
  const falt_tiles_plan *plan = t->plan;
  const int most = falt_tiles_count(plan, t->tile + i);
  falt_tile_rows *list = t->list + i / PAIR * plan->segments * PAIR + i % PAIR;
  char *gathered = t->gathered + i * plan->segments * plan->pieces * TILE;
  falt_layer_point at = falt_layer_point_at(t->layer, falt_tiles_first(plan, t->tile + i));
  stretch runs[ROWS];
  int count = 0;
  for (int m = 0; m < most; m = runs[count++].end) {
    runs[count] = (stretch){at, m, m + (int)falt_layer_run(t->layer, &at, most - m), NULL};
    list_results(t, &runs[count], i * ROWS);
    falt_layer_advance(t->layer, &at, runs[count].end - m);
  }
  (plan->in_place ? list_taps : list_together)(t, runs, count, list, gathered);
}

void falt_tiles_list(falt_tiles_task *t, int64_t group) {
  t->group = group;
  t->copies = 0;
  t->input = (const char *)t->run->operands->input +
             falt_tensor_at(&t->layer->p.input, 0, group, 0, 0, 0, 0) * falt_tiles_input_size(t);
  for (int64_t i = 0; i < t->tiles; i++) list_tile(t, i);
}
