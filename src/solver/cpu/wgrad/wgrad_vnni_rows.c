/* Loaders of wgrad-vnni: x transposed, dy in pairs of positions. */
#include <string.h>

#include "solver/cpu/wgrad/wgrad_vnni.h"

/* Lines of a plane from one on, and some of their positions. */
typedef struct part {
  falt_layer_point at;
  int64_t lines, width;
} part;

static part part_at(const falt_outer_tiles_run *run, int64_t i) {
  const falt_outer_tiles_plan *plan = run->plan;
  const int64_t *size = plan->layer.p.output.size, index = run->first + i, cut = index / plan->span_cuts;
  const int64_t plane = cut / plan->line_cuts;
  part p = {.at = {plane / size[FALT_D],
                   {plane % size[FALT_D], cut % plan->line_cuts * plan->lines, index % plan->span_cuts * plan->span}}};
  p.lines = falt_min(plan->lines, size[FALT_H] - p.at.at[1]);
  p.width = falt_min(plan->span, size[FALT_W] - p.at.at[2]);
  return p;
}

/* ---- x, transposed: for each part, tap of the depth and residue a matrix of channels by positions */

/* The matrix of x for tap j of the depth. */
typedef struct matrix {
  part p;
  int64_t j, polyphase;
  char *to;
} matrix;

static matrix matrix_at(const falt_outer_tiles_run *run, int64_t index) {
  const int64_t polyphase = index % falt_outer_tiles_polyphases(run->plan),
                rest = index / falt_outer_tiles_polyphases(run->plan);
  const int64_t depth = run->plan->layer.p.filter.size[FALT_D], j = rest % depth, i = rest / depth;
  return (matrix){part_at(run, i), j, polyphase, falt_outer_tiles_transposed(run, i, j, polyphase)};
}

/* Column 0 of the line of x that a line of a matrix is, as an element of group 0; -1: the constant. */
static int64_t line_at(const falt_outer_tiles_run *run, const matrix *m, int64_t line) {
  const falt_outer_tiles_plan *plan = run->plan;
  const falt_tensor *x = &plan->layer.p.input;
  const falt_axis *axis = &plan->layer.p.axis[1];
  const int64_t v = (m->p.at.at[1] + line) * axis->stride + m->polyphase / plan->polyphases[1] - axis->pad[0];
  const int64_t d = falt_layer_source(&plan->layer, 0, m->p.at.at[0], m->j);
  const int64_t h = v >= 0 && v < x->size[FALT_H] ? v : falt_axis_map(axis, x->size[FALT_H], v);
  return d < 0 || h < 0 ? -1 : falt_tensor_at(x, m->p.at.n, 0, 0, d, h, 0);
}

/* The pixel that the first tap reads at a position of a line. */
static int64_t pixel_of(const falt_outer_tiles_plan *plan, const matrix *m, int64_t along) {
  const falt_axis *axis = &plan->layer.p.axis[2];
  return (m->p.at.at[2] + along) * axis->stride + m->polyphase % plan->polyphases[1] - axis->pad[0];
}

/* A window with taps outside, gathered in `room`; with one tap in place, or NULL. The constant is 0. */
static const uint16_t *window_outside(const falt_outer_tiles_run *run, const uint16_t *line, int64_t u,
                                      uint16_t *room) {
  const falt_outer_tiles_plan *plan = run->plan;
  const falt_tensor *x = &plan->layer.p.input;
  const falt_axis *axis = &plan->layer.p.axis[2];
  const int64_t width = x->size[FALT_W], channels = plan->layer.channels, taps = plan->length / channels;
  for (int64_t s = 0; s < taps; s++) {
    const int64_t w = u + s * axis->dilation, at = w >= 0 && w < width ? w : falt_axis_map(axis, width, w);
    if (taps == 1) return at < 0 ? NULL : line + at * x->stride[FALT_W];
    if (at < 0)
      memset(room + s * channels, 0, (size_t)channels * sizeof *room);
    else
      memcpy(room + s * channels, line + at * x->stride[FALT_W], (size_t)channels * sizeof *room);
  }
  return room;
}

/* First pixels of windows that are read in place: [0, end). */
static int64_t windows_end(const falt_outer_tiles_plan *plan) {
  const falt_tensor *x = &plan->layer.p.input;
  const falt_axis *axis = &plan->layer.p.axis[2];
  const int64_t taps = plan->length / plan->layer.channels;
  const bool together = taps == 1 || (axis->dilation == 1 && x->stride[FALT_W] == plan->layer.channels);
  return together ? x->size[FALT_W] - taps + 1 : 0;
}

/* The windows at a chunk of positions: element of group 0 of the lines where they begin, and their first pixels. */
typedef struct places {
  int64_t lines[CHUNK], pixels[CHUNK]; /* lines < 0: zeros */
} places;

static places places_of(const falt_outer_tiles_run *run, const matrix *m, int64_t chunk) {
  const falt_outer_tiles_plan *plan = run->plan;
  const int64_t stride = plan->layer.p.axis[2].stride;
  places p;
  for (int64_t i = 0, end; i < CHUNK; i = end) {
    const int64_t line = (chunk * CHUNK + i) / plan->width, along = (chunk * CHUNK + i) % plan->width;
    const int64_t at = line < plan->height ? line_at(run, m, line) : -1, first = pixel_of(plan, m, along);
    end = falt_min(CHUNK, i + plan->width - along);
    for (int64_t q = i; q < end; q++) {
      p.lines[q] = at;
      p.pixels[q] = first + (q - i) * stride;
    }
  }
  return p;
}

/* One chunk of positions of all rows, of adjacent channels; zeros beyond all lines. */
static void transpose_x(void *context, int64_t index) {
  const falt_outer_tiles_run *run = context;
  const falt_outer_tiles_plan *plan = run->plan;
  const falt_tensor *x = &plan->layer.p.input;
  const int64_t chunk = index % plan->reach, length = plan->length, end = windows_end(plan);
  const matrix m = matrix_at(run, index / plan->reach);
  const places at = places_of(run, &m, chunk);
  uint16_t room[CHUNK * MOST_LENGTH];
  char *to = m.to + chunk * FALT_TILE_BYTES;
  for (int64_t g = 0; g < falt_outer_tiles_groups(plan); g++, to += plan->tiles * plan->rows * plan->pitch) {
    const uint16_t *input = (const uint16_t *)run->operands->input + g * x->stride[FALT_G];
    const uint16_t *windows[CHUNK];
    for (int i = 0; i < CHUNK; i++) {
      const int64_t line = at.lines[i], pixel = at.pixels[i];
      const bool inside = pixel >= 0 && pixel < end;
      windows[i] = line < 0 ? NULL
                   : inside ? input + line + pixel * x->stride[FALT_W]
                            : window_outside(run, input + line, pixel, plan->windows ? room + i * length : NULL);
    }
    for (int64_t first = 0; first < length; first += CHUNK) {
      const void *rows[CHUNK];
      for (int i = 0; i < CHUNK; i++) rows[i] = windows[i] ? (const void *)(windows[i] + first) : run->zeros;
      plan->kernels->transpose_rows(
          &(falt_tiles_square){rows, to + first * plan->pitch, plan->pitch, (int)falt_min(CHUNK, length - first)});
    }
  }
}

/* One line of positions of all rows, of adjacent pixels; the last line has zeros behind it. */
static void copy_x(void *context, int64_t index) {
  const falt_outer_tiles_run *run = context;
  const falt_outer_tiles_plan *plan = run->plan;
  const falt_tensor *x = &plan->layer.p.input;
  const falt_axis *axis = &plan->layer.p.axis[2];
  const int64_t line = index % plan->height, channels = plan->layer.channels;
  const matrix m = matrix_at(run, index / plan->height);
  const int64_t at = line_at(run, &m, line), u = pixel_of(plan, &m, 0);
  const int64_t rest = line + 1 < plan->height ? 0 : plan->reach * CHUNK - plan->height * plan->width;
  char *to = m.to + line * plan->width * 2;
  for (int64_t g = 0; g < falt_outer_tiles_groups(plan);
       g++, to += (plan->tiles * plan->rows - plan->length) * plan->pitch)
    for (int64_t e = 0; e < plan->length; e++, to += plan->pitch) {
      const int64_t from = at + g * x->stride[FALT_G] + e % channels * x->stride[FALT_C];
      falt_layer_line(&plan->layer, at < 0 ? NULL : (const uint16_t *)run->operands->input + from,
                      u + e / channels * axis->dilation, plan->width, run->zeros, to);
      memset(to + plan->width * 2, 0, (size_t)rest * 2);
    }
}

/* Pixels [first, first + count) of a line with its boundary, with contiguous channels. NULL: zeros. */
static void copy_pixels(const falt_layer *layer, const uint16_t *line, int64_t first, int64_t count, uint16_t *to) {
  const falt_axis *axis = &layer->p.axis[2];
  const int64_t width = layer->p.input.size[FALT_W], channels = layer->channels;
  const int64_t begin = falt_min(count, falt_max(0, -first)), end = falt_max(begin, falt_min(count, width - first));
  const size_t pixel = (size_t)channels * sizeof *to;
  if (!line) {
    memset(to, 0, (size_t)count * pixel);
    return;
  }
  memcpy(to + begin * channels, line + (first + begin) * channels, (size_t)(end - begin) * pixel);
  for (int64_t i = begin > 0 ? 0 : end; i < count; i = i + 1 == begin ? end : i + 1) {
    const int64_t at = falt_axis_map(axis, width, first + i);
    if (at < 0)
      memset(to + i * channels, 0, pixel);
    else
      memcpy(to + i * channels, line + at * channels, pixel);
  }
}

/* One line of pairs: each element and that of the next position. */
static void pair_x(void *context, int64_t index) {
  const falt_outer_tiles_run *run = context;
  const falt_outer_tiles_plan *plan = run->plan;
  const int64_t line = index % plan->height, stride = plan->layer.p.axis[2].stride * plan->layer.channels;
  const matrix m = matrix_at(run, index / plan->height);
  const int64_t at = line_at(run, &m, line);
  char *to = m.to + line * plan->pitch;
  uint16_t *pixels = (uint16_t *)(void *)(to + plan->pairs * PAIR_BYTES);
  copy_pixels(&plan->layer, at < 0 ? NULL : (const uint16_t *)run->operands->input + at, pixel_of(plan, &m, 0),
              (plan->pairs + stride) / plan->layer.channels, pixels);
  plan->kernels->zip(&(falt_tiles_zip){.rows = {pixels, pixels + stride}, .to = to, .n = plan->pairs});
}

/* ---- dy, as panels: the chunks of all parts of a block */

static char *paired_at(const falt_outer_tiles_run *run, int64_t panel, int64_t i, int64_t chunk, int64_t n) {
  const falt_outer_tiles_plan *plan = run->plan;
  return run->paired + (size_t)panel * plan->y_panel +
         (size_t)((i * plan->chunks + chunk) * falt_ceil_div(n, ROWS) * TILE);
}

/* Positions of a chunk that are neighbours of one line; `at` is their first element of group 0, channel 0. */
typedef struct stretch {
  int64_t m, count, at;
} stretch;

static int stretches_of(const falt_outer_tiles_run *run, const part *p, int64_t chunk, stretch *list) {
  const falt_outer_tiles_plan *plan = run->plan;
  const falt_tensor *y = &plan->layer.p.output;
  int count = 0;
  for (int64_t m = 0, n; m < CHUNK; m += n) {
    const int64_t line = (chunk * CHUNK + m) / plan->width, along = (chunk * CHUNK + m) % plan->width;
    n = falt_min(CHUNK - m, plan->width - along);
    const int64_t inside = line < p->lines ? falt_min(n, p->width - along) : 0;
    const int64_t at = falt_tensor_at(y, p->at.n, 0, 0, p->at.at[0], p->at.at[1] + line, p->at.at[2] + along);
    if (inside > 0) list[count++] = (stretch){m, inside, at};
  }
  return count;
}

/* One chunk, of adjacent channels. */
static void pair_y(void *context, int64_t index) {
  const falt_outer_tiles_run *run = context;
  const falt_outer_tiles_plan *plan = run->plan;
  const falt_tensor *y = &plan->layer.p.output;
  const int64_t chunk = index % plan->chunks, i = index / plan->chunks;
  const part p = part_at(run, i);
  const uint16_t *pixels[CHUNK] = {NULL};
  stretch list[CHUNK];
  const int count = stretches_of(run, &p, chunk, list);
  for (int q = 0; q < count; q++)
    for (int64_t m = 0; m < list[q].count; m++)
      pixels[list[q].m + m] = (const uint16_t *)run->operands->output + list[q].at + m * y->stride[FALT_W];
  for (int64_t panel = 0; panel < falt_outer_tiles_groups(plan) * plan->panels; panel++) {
    const void *rows[CHUNK];
    const int64_t k = panel % plan->panels * COLUMNS, n = falt_min(COLUMNS, plan->layer.results - k);
    const int64_t at = panel / plan->panels * y->stride[FALT_G] + k;
    for (int m = 0; m < CHUNK; m++) rows[m] = pixels[m] ? (const void *)(pixels[m] + at) : run->zeros;
    plan->kernels->pair(&(falt_tiles_square){rows, paired_at(run, panel, i, chunk, n), 0, (int)n});
  }
}

/* One chunk of a panel, of adjacent pixels: rows in place, or gathered with zeros between lines. */
static void cross_chunk(const falt_outer_tiles_run *run, const part *p, int64_t i, int64_t panel, int64_t chunk) {
  const falt_outer_tiles_plan *plan = run->plan;
  const falt_tensor *y = &plan->layer.p.output;
  const int64_t k = panel % plan->panels * COLUMNS, n = falt_min(COLUMNS, plan->layer.results - k);
  const uint16_t *from =
      (const uint16_t *)run->operands->output + panel / plan->panels * y->stride[FALT_G] + k * y->stride[FALT_C];
  uint16_t room[CHUNK * CHUNK];
  const void *rows[CHUNK];
  stretch list[CHUNK];
  const int count = stretches_of(run, p, chunk, list);
  const bool whole = count == 1 && list[0].count == CHUNK;
  if (!whole) memset(room, 0, sizeof room);
  for (int64_t c = 0; c < n; c++, from += y->stride[FALT_C]) {
    rows[c] = whole ? from + list[0].at : room + c * CHUNK;
    for (int q = 0; q < count && !whole; q++)
      memcpy(room + c * CHUNK + list[q].m, from + list[q].at, (size_t)list[q].count * sizeof *room);
  }
  plan->kernels->cross(&(falt_tiles_square){rows, paired_at(run, panel, i, chunk, n), 0, (int)n});
}

/* A part's lines of one panel. */
static void cross_y(void *context, int64_t index) {
  const falt_outer_tiles_run *run = context;
  const int64_t panels = falt_outer_tiles_groups(run->plan) * run->plan->panels, i = index / panels;
  const part p = part_at(run, i);
  for (int64_t chunk = 0; chunk < run->plan->chunks; chunk++) cross_chunk(run, &p, i, index % panels, chunk);
}

int64_t falt_outer_tiles_x_tasks(const falt_outer_tiles_plan *plan, int64_t parts) {
  const int64_t matrices = parts * plan->layer.p.filter.size[FALT_D] * falt_outer_tiles_polyphases(plan);
  return matrices * (plan->spaced || plan->x_lines ? plan->height : plan->reach);
}

int64_t falt_outer_tiles_y_tasks(const falt_outer_tiles_plan *plan, int64_t parts) {
  return parts * (plan->y_lines ? falt_outer_tiles_groups(plan) * plan->panels : plan->chunks);
}

void falt_outer_tiles_bring(const falt_outer_tiles_run *run) {
  const falt_outer_tiles_plan *plan = run->plan;
  falt_threads *threads = plan->base.device->threads;
  falt_outer_tiles_run context = *run;
  const int64_t x_tasks = falt_outer_tiles_x_tasks(plan, run->parts);
  const int64_t y_tasks = falt_outer_tiles_y_tasks(plan, run->parts);
  falt_parallel_for(threads, x_tasks, plan->spaced ? pair_x : plan->x_lines ? copy_x : transpose_x, &context);
  falt_parallel_for(threads, y_tasks, plan->y_lines ? cross_y : pair_y, &context);
}
