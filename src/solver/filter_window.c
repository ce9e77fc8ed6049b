/* Row windows: rings of rows that were converted and extended once and are read by several tiles. */
#include "solver/filter_rows.h"

enum { PAGE = 4096 };

static size_t slot_pitch(const falt_rows *rows, int64_t count) {
  size_t bytes = (size_t)falt_round_up(count * rows->pixel * (int64_t)rows->lane_size, FALT_ALIGN);
  return bytes % PAGE == 0 ? bytes + FALT_ALIGN : bytes; /* rows a page apart would share their cache sets */
}

static size_t tag_bytes(int64_t depth, int64_t height) {
  return (size_t)falt_round_up(depth * height * 2 * (int64_t)sizeof(int64_t), FALT_ALIGN);
}

size_t falt_row_window_bytes(const falt_rows *rows, int64_t count, int64_t depth, int64_t height) {
  return tag_bytes(depth, height) + (size_t)(depth * height + 1) * slot_pitch(rows, count);
}

void falt_row_window_open(falt_row_window *window, const falt_rows *rows, int64_t first, int64_t step, int64_t count,
                          int64_t depth, int64_t height, void *scratch) {
  *window = (falt_row_window){.first = first,
                              .step = step,
                              .count = count,
                              .depth = depth,
                              .height = height,
                              .pitch = slot_pitch(rows, count),
                              .slots = (char *)scratch + tag_bytes(depth, height),
                              .tags = scratch};
  for (int64_t i = 0; i < 2 * depth * height; i++) window->tags[i] = INT64_MIN;
  int most = (int)(sizeof window->runs / sizeof *window->runs);
  window->run_count = falt_rows_runs(rows, first, step, count, window->runs, most);
}

const void *falt_row_window_constant(falt_row_window *window, const falt_rows *rows) {
  char *row = window->slots + (size_t)(window->depth * window->height) * window->pitch;
  if (!window->constant) falt_rows_load(rows, NULL, 0, 1, window->count, row);
  window->constant = true;
  return row;
}

static int64_t modulo(int64_t u, int64_t period) {
  int64_t rest = u % period;
  return rest < 0 ? rest + period : rest;
}

/* The row of a slot, brought there if it holds another. */
static const void *take_slot(falt_row_window *window, const falt_rows *rows, const void *input, int64_t slice,
                             int64_t z, int64_t y, int64_t slot) {
  int64_t *tag = &window->tags[2 * slot];
  char *row = window->slots + (size_t)slot * window->pitch;
  if (tag[0] == z && tag[1] == y) return row;
  const void *source = falt_rows_source(rows, input, slice, z, y);
  if (!source) return falt_row_window_constant(window, rows);
  if (window->run_count)
    falt_rows_load_runs(rows, source, window->runs, window->run_count, row);
  else
    falt_rows_load(rows, source, window->first, window->step, window->count, row);
  tag[0] = z;
  tag[1] = y;
  return row;
}

const void *falt_row_window_get(falt_row_window *window, const falt_rows *rows, const void *input, int64_t slice,
                                int64_t z, int64_t y) {
  int64_t slot = modulo(z, window->depth) * window->height + modulo(y, window->height);
  return take_slot(window, rows, input, slice, z, y, slot);
}

void falt_row_window_list(falt_row_window *window, const falt_rows *rows, const void *input, int64_t slice, int64_t z,
                          int64_t y, int64_t step, int64_t count, const void **list) {
  int64_t base = modulo(z, window->depth) * window->height, at = modulo(y, window->height);
  for (int64_t i = 0; i < count; i++, y += step) {
    list[i] = take_slot(window, rows, input, slice, z, y, base + at);
    at += step;
    if (at >= window->height) at -= window->height;
  }
}
