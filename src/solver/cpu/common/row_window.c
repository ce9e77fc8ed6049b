/* Row windows: rings of converted rows with their boundary, prepared once and read by several tiles. */
#include "solver/cpu/common/rows.h"

enum { PAGE = 4096 };

static size_t slot_pitch(const falt_rows *rows, int64_t count) {
  size_t bytes = (size_t)falt_round_up(count * rows->pixel * (int64_t)rows->lane_size, FALT_ALIGN);
  return bytes % PAGE == 0 ? bytes + FALT_ALIGN : bytes; /* rows a page apart would share their cache sets */
}

size_t falt_row_window_tags(int64_t depth, int64_t height) {
  return (size_t)(depth * height) * sizeof(falt_row_tag);
}

size_t falt_row_window_slots(const falt_rows *rows, int64_t count, int64_t depth, int64_t height) {
  return (size_t)(depth * height + 1) * slot_pitch(rows, count);
}

void falt_row_window_open(falt_row_window *window, const falt_rows *rows, int64_t first, int64_t step, int64_t count,
                          int64_t depth, int64_t height, void *tags, void *slots) {
  *window = (falt_row_window){.first = first,
                              .step = step,
                              .count = count,
                              .depth = depth,
                              .height = height,
                              .pitch = slot_pitch(rows, count),
                              .slots = slots,
                              .tags = tags};
  for (int64_t i = 0; i < depth * height; i++) window->tags[i] = (falt_row_tag){INT64_MIN, INT64_MIN, NULL};
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

/* Loads row (z, y) to a slot. */
static void fill_slot(falt_row_window *window, const falt_rows *rows, const void *input, int64_t slice, int64_t z,
                      int64_t y, int64_t slot) {
  char *row = window->slots + (size_t)slot * window->pitch;
  const void *source = falt_rows_source(rows, input, slice, z, y);
  falt_row_tag *tag = &window->tags[slot];
  *tag = (falt_row_tag){z, y, source ? row : falt_row_window_constant(window, rows)};
  if (!source) return;
  if (window->run_count)
    falt_rows_load_runs(rows, source, window->runs, window->run_count, row);
  else
    falt_rows_load(rows, source, window->first, window->step, window->count, row);
}

/* The row of a slot, loaded if the slot holds another. */
static inline const void *take_slot(falt_row_window *window, const falt_rows *rows, const void *input, int64_t slice,
                                    int64_t z, int64_t y, int64_t slot) {
  const falt_row_tag *tag = &window->tags[slot];
  if (tag->z != z || tag->y != y) fill_slot(window, rows, input, slice, z, y, slot);
  return tag->row;
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
