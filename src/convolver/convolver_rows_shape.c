/* Which output rows can be computed from the rows so far: arithmetic without memory. */
#include "convolver/convolver_rows.h"

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

int64_t falt_rows_outputs(const falt_rows_shape *s, int64_t height) {
  if (s->height) return s->outputs;
  if (height < 1) return 0;
  if (!s->is_filter) {
    const int64_t space = height + s->axis.pad[0] + s->axis.pad[1] - falt_extent(&s->axis, s->taps);
    return space < 0 ? 0 : (space / s->axis.stride + 1) / s->pool;
  }
  /* the last window begins as falt_mode has it, from its anchor on */
  const int64_t last[] = {height - 1, height - s->window + s->before, height - 1 + s->before};
  return last[s->mode] < 0 ? 0 : last[s->mode] / s->step + 1;
}

/* The least height with an output o. */
static int64_t least_height(const falt_rows_shape *s, int64_t o) {
  const int64_t end = o * s->step - s->before + s->window;
  if (s->height) return 1;
  if (!s->is_filter) return end - s->axis.pad[1];
  return s->mode == FALT_SAME ? o * s->step + 1 : s->mode == FALT_VALID ? end : end - s->window + 1;
}

/* The rows that stand for those before the first one, as far as output o reads them. */
static int64_t needed_before(const falt_rows_shape *s, int64_t o) {
  const int64_t beyond = s->before - o * s->step;
  const falt_boundary boundary = s->axis.boundary[0];
  if (beyond <= 0 || boundary == FALT_CONSTANT || boundary == FALT_EDGE) return 1;
  return beyond + (boundary == FALT_REFLECT101);
}

int64_t falt_rows_needed(const falt_rows_shape *s, int64_t o, int64_t from) {
  const int64_t end = o * s->step - s->before + s->window;
  return falt_max(falt_max(end, least_height(s, o)), needed_before(s, from));
}

int64_t falt_rows_ready(const falt_rows_shape *s, int64_t rows, int64_t from) {
  if (rows < needed_before(s, from)) return from;
  const int64_t inside = floor_div(rows + s->before - s->window, s->step) + 1;
  return falt_max(from, falt_min(inside, falt_rows_outputs(s, rows)));
}

int64_t falt_rows_tail(const falt_rows_shape *s) {
  static const int64_t more[FALT_BOUNDARY_COUNT] = {[FALT_REFLECT101] = 1};
  const falt_boundary boundary = s->axis.boundary[1];
  const int64_t of_mode[] = {s->window - 1 - s->before, 0, s->window - 1};
  int64_t beyond = s->is_filter ? of_mode[s->mode] : s->axis.pad[1];
  if (s->height) beyond = (s->outputs - 1) * s->step - s->before + s->window - s->height;
  if (boundary == FALT_CONSTANT || beyond <= 0) return 0;
  return boundary == FALT_EDGE ? 1 : beyond + more[boundary];
}
