/* Execution of running-sums: rows are added along z, their sums along y, and the sums of these along x. A `slide`
 * keeps the sum of the rows under the filter along z or y. Integers add the row that enters and subtract the row
 * that leaves. Floats never subtract: rows are cut into blocks as high as the filter, independent of tasks, and a
 * window is the end of one block and the beginning of the next. Rows have the columns inside the image; the
 * boundary's columns are filled in before the sums along x. */
#include "solver/cpu/running_sums/running_sums.h"

#include <string.h>

#include "solver/cpu/common/arena.h"

enum { MOST_PIECES = 3 };

/* Neighbouring columns of the input, from `at` on in a row of sums. In positions. */
typedef struct piece {
  int64_t first, count, at;
} piece;

/* A row to be added: sums of the axis before, a copy, or the input (raw). */
typedef struct row_ref {
  const char *base; /* position 0 of the input's row, or of a row of sums */
  bool raw;
  size_t size;
  falt_type type;
} row_ref;

/* Sums of `taps` rows of an axis. */
typedef struct slide {
  char *sums;    /* of the window; with ends: of the beginning of the next block */
  char *ends;    /* floats whose windows share rows: the block's sums from each row to its last */
  char *out;     /* with ends: of the window */
  int64_t at;    /* the window's first row; negative: none */
  int64_t ahead; /* with ends: the first row that is not in `sums` */
} slide;

typedef struct strip {
  const falt_running *how;
  const falt_operands *io;
  falt_row_task task;
  int64_t first, positions; /* of the input, under the outputs */
  piece piece[MOST_PIECES];
  int pieces;
  int64_t inside[2]; /* positions [begin, end) of a row that are the first piece */
  int32_t *from;     /* of each other position: an element of the same row, or -1 for the constant */
  int64_t columns;   /* positions of a row: all under the outputs, then those of further pieces */
  size_t pitch;      /* bytes of a row */
  char *constant, *copy[2];
  bool has_constant; /* the row of the constant has been filled */
  char *fours, *sixteens, *along, *results;
  slide *depth; /* one for each row of a plane, or NULL */
  row_ref *plane;
  slide height;
  int64_t z; /* the output plane */
} strip;

/* -------------------------------------------------------------------------------------------------------- layout */

/* Adds columns [first, end) of the input, unless they are those of a piece. Returns the piece. */
static int add_piece(strip *s, int64_t first, int64_t end) {
  for (int i = 0; i < s->pieces; i++)
    if (first >= s->piece[i].first && end <= s->piece[i].first + s->piece[i].count) return i;
  s->piece[s->pieces] = (piece){first, end - first, s->columns};
  s->columns += end - first;
  return s->pieces++;
}

/* Says where positions [begin, end) of a row, which lie beyond an end of the input, come from. */
static void find_end(strip *s, int64_t begin, int64_t end) {
  const falt_rows *rows = &s->how->rows;
  int64_t low = INT64_MAX, high = -1;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = falt_axis_map(&rows->axis[2], rows->in[2], s->first + i);
    if (at < 0) continue;
    low = falt_min(low, at);
    high = falt_max(high, at);
  }
  const piece *p = high >= 0 ? &s->piece[add_piece(s, low, high + 1)] : NULL;
  for (int64_t i = begin; i < end && s->from; i++) {
    const int64_t at = falt_axis_map(&rows->axis[2], rows->in[2], s->first + i);
    s->from[i] = at < 0 ? -1 : (int32_t)(p->at + at - p->first);
  }
}

/* The columns of the input that the strip needs. */
static void find_columns(strip *s, falt_arena *memory) {
  const falt_rows *rows = &s->how->rows;
  falt_rows_reach(rows, 2, s->task.begin[2], s->task.end[2], &s->first, &s->positions);
  const int64_t low = falt_min(falt_max(0, s->first), s->first + s->positions);
  const int64_t high = falt_max(low, falt_min(rows->in[2], s->first + s->positions));
  s->columns = s->positions;
  s->pieces = 0;
  s->inside[0] = low - s->first;
  s->inside[1] = high - s->first;
  if (high > low) s->piece[s->pieces++] = (piece){low, high - low, s->inside[0]};
  s->from = falt_arena_take(memory, (size_t)s->positions * sizeof *s->from);
  find_end(s, 0, s->inside[0]);
  find_end(s, s->inside[1], s->positions);
}

/* An odd number of cache lines, so that equal columns of neighbouring rows do not compete for one set of the cache. */
static size_t row_bytes(const strip *s, int64_t positions) {
  const int64_t bytes = positions * s->how->rows.pixel * (int64_t)s->how->size + FALT_RUNNING_BEYOND;
  return (size_t)(falt_ceil_div(bytes, FALT_ALIGN) | 1) * FALT_ALIGN;
}

static bool has_planes(const falt_running *how) {
  return how->rows.taps[0] > 1;
}

/* Whether windows of an axis share rows that floats keep sums of. */
static bool keeps_ends(const falt_running *how, int axis) {
  return !how->whole && how->rows.axis[axis].stride < how->rows.taps[axis];
}

static void lay_slide(const strip *s, slide *d, int axis, falt_arena *memory) {
  const falt_running *how = s->how;
  slide made = {.at = -1};
  made.sums = falt_arena_take(memory, s->pitch);
  if (keeps_ends(how, axis)) {
    made.out = falt_arena_take(memory, s->pitch);
    made.ends = falt_arena_take(memory, (size_t)how->rows.taps[axis] * s->pitch);
  }
  if (d) *d = made;
}

/* Rows of the input under a task's outputs. */
static int64_t plane_rows(const strip *s) {
  int64_t first, count;
  falt_rows_reach(&s->how->rows, 1, s->task.begin[1], s->task.end[1], &first, &count);
  return count;
}

/* Divides a worker's scratch for its task. Without memory (base NULL) only counts. */
static void lay_out(strip *s, falt_arena *memory) {
  const falt_running *how = s->how;
  const falt_rows *rows = &how->rows;
  find_columns(s, memory);
  s->pitch = row_bytes(s, s->columns);
  for (int i = 0; i < 2 && !how->in_place; i++) s->copy[i] = falt_arena_take(memory, s->pitch);
  s->constant = falt_arena_take(memory, s->pitch);
  s->has_constant = false;
  s->fours = falt_arena_take(memory, s->pitch);
  s->sixteens = falt_arena_take(memory, s->pitch);
  s->along = falt_arena_take(memory, s->pitch);
  s->results = falt_arena_take(memory, (size_t)((s->task.end[2] - s->task.begin[2]) * rows->pixel) * rows->lane_size);
  lay_slide(s, &s->height, 1, memory);
  if (!has_planes(how)) return;
  const int64_t count = plane_rows(s);
  s->depth = falt_arena_take(memory, (size_t)count * sizeof *s->depth);
  s->plane = falt_arena_take(memory, (size_t)count * sizeof *s->plane);
  for (int64_t i = 0; i < count; i++) lay_slide(s, s->depth ? &s->depth[i] : NULL, 0, memory);
}

/* ----------------------------------------------------------------------------------------------------------- rows */

/* A piece of a row of the input, converted to the lane's type, or copied where integers are not contiguous. */
static void copy_piece(const strip *s, const piece *p, const char *source, char *row) {
  const falt_rows *rows = &s->how->rows;
  const int64_t stride = rows->pixel > 1 ? 1 : rows->in_stride[4], count = p->count * rows->pixel;
  const char *from = source + p->first * rows->in_stride[4] * rows->in_size;
  if (!s->how->whole) {
    char *to = row + (size_t)(p->at * rows->pixel) * s->how->size;
    rows->kernels->load[rows->lane][rows->in_type](to, from, stride, count);
    return;
  }
  char *to = row + p->at * rows->pixel * rows->in_size;
  const size_t size = (size_t)rows->in_size;
  for (int64_t i = 0; i < count; i++) memcpy(to + (size_t)i * size, from + i * stride * rows->in_size, size);
}

static row_ref row_of_sums(const strip *s, const char *sums) {
  return (row_ref){sums, false, s->how->size, s->how->whole ? FALT_S32 : falt_lane_type(s->how->rows.lane)};
}

/* A row of the boundary's constant. */
static row_ref constant_row(strip *s) {
  const falt_running *how = s->how;
  const int64_t count = s->has_constant ? 0 : s->columns * how->rows.pixel;
  const row_ref row = row_of_sums(s, s->constant);
  for (int64_t i = 0; i < count; i++) falt_store(s->constant, row.type, i, how->rows.boundary_value);
  s->has_constant = true;
  return row;
}

/* The input's row at a logical position; a converted copy of it in `copy` if it cannot be read in place. */
static row_ref input_row(strip *s, int64_t z, int64_t y, char *copy) {
  const falt_running *how = s->how;
  const falt_rows *rows = &how->rows;
  const char *source = falt_rows_source(rows, s->io->input, s->task.slice, z, y);
  if (!source) return constant_row(s);
  if (how->in_place) return (row_ref){source, true, (size_t)rows->in_size, rows->in_type};
  for (int i = 0; i < s->pieces; i++) copy_piece(s, &s->piece[i], source, copy);
  return how->whole ? (row_ref){copy, false, (size_t)rows->in_size, rows->in_type} : row_of_sums(s, copy);
}

static const char *at_piece(const strip *s, const row_ref *row, const piece *p) {
  const falt_rows *rows = &s->how->rows;
  const int64_t first = row->raw ? p->first * rows->in_stride[4] : p->at * rows->pixel;
  return row->base + first * (int64_t)row->size;
}

/* Row r of an axis, counted from the filter's first tap at output 0. Along y: of the plane that `other` says. */
static row_ref row_along(strip *s, int axis, int64_t other, int64_t r, char *copy) {
  const falt_axis *z = &s->how->rows.axis[0], *y = &s->how->rows.axis[1];
  if (axis == 0) return input_row(s, r - z->pad[0], other - y->pad[0], copy);
  if (s->plane) return s->plane[r - s->task.begin[1] * y->stride];
  return input_row(s, other - z->pad[0], r - y->pad[0], copy);
}

/* --------------------------------------------------------------------------------------------------------- slides */

static void add_row(const strip *s, char *out, const char *sums, const row_ref *row, double weight) {
  const falt_running *how = s->how;
  for (int i = 0; i < s->pieces; i++) {
    const piece *p = &s->piece[i];
    const size_t at = (size_t)(p->at * how->rows.pixel) * how->size;
    how->kernels->add(out + at, sums ? sums + at : NULL, at_piece(s, row, p), weight, p->count * how->rows.pixel);
  }
}

/* A row enters the beginning of the next block, which makes the window with the end of this one. */
static void slide_row(const strip *s, const slide *d, const char *end, const row_ref *row, double weight) {
  const falt_running *how = s->how;
  for (int i = 0; i < s->pieces; i++) {
    const piece *p = &s->piece[i];
    const size_t at = (size_t)(p->at * how->rows.pixel) * how->size;
    how->kernels->slide(d->out + at, d->sums + at, end + at, at_piece(s, row, p), weight, p->count * how->rows.pixel);
  }
}

/* Rows may be absent (base NULL). */
static void move_rows(const strip *s, char *sums, const row_ref *enter, const row_ref *leave) {
  const falt_running *how = s->how;
  for (int i = 0; i < s->pieces; i++) {
    const piece *p = &s->piece[i];
    const int64_t n = p->count * how->rows.pixel;
    char *to = sums + (size_t)(p->at * how->rows.pixel) * how->size;
    const char *from = enter->base ? at_piece(s, enter, p) : NULL;
    const char *past = leave->base ? at_piece(s, leave, p) : NULL;
    if (from && past && enter->type != leave->type) {
      how->kernels->move(to, from, NULL, enter->type, n);
      from = NULL;
    }
    how->kernels->move(to, from, past, from ? enter->type : leave->type, n);
  }
}

/* Integers: the window from row `first` on. */
static char *slide_whole(strip *s, slide *d, int axis, int64_t other, int64_t first) {
  const int64_t taps = s->how->rows.taps[axis];
  const bool goes_on = d->at >= 0 && first - d->at < taps;
  if (!goes_on) memset(d->sums, 0, s->pitch);
  for (int64_t r = goes_on ? d->at + taps : first; r < first + taps && !falt_cancelled(); r++) {
    const row_ref enter = row_along(s, axis, other, r, s->copy[0]);
    const row_ref leave = goes_on ? row_along(s, axis, other, r - taps, s->copy[1]) : (row_ref){0};
    move_rows(s, d->sums, &enter, &leave);
  }
  d->at = first;
  return d->sums;
}

/* Floats whose windows share no rows. */
static char *slide_apart(strip *s, slide *d, int axis, int64_t other, int64_t first, double weight) {
  for (int64_t r = first; r < first + s->how->rows.taps[axis] && !falt_cancelled(); r++) {
    const row_ref row = row_along(s, axis, other, r, s->copy[0]);
    add_row(s, d->sums, r > first ? d->sums : NULL, &row, weight);
  }
  return d->sums;
}

/* The sums of rows r, r + 1, ... to the end of its block. */
static char *end_from(const strip *s, const slide *d, int axis, int64_t r) {
  return d->ends + (size_t)(r % s->how->rows.taps[axis]) * s->pitch;
}

/* Floats whose windows share rows. A block's first window decides from which row on its ends are needed. */
static char *slide_blocks(strip *s, slide *d, int axis, int64_t other, int64_t first, double weight) {
  const int64_t taps = s->how->rows.taps[axis], next = (first / taps + 1) * taps;
  if (d->at < 0 || d->at / taps != first / taps) {
    for (int64_t r = next - 1; r >= first && !falt_cancelled(); r--) {
      const row_ref row = row_along(s, axis, other, r, s->copy[0]);
      add_row(s, end_from(s, d, axis, r), r < next - 1 ? end_from(s, d, axis, r + 1) : NULL, &row, weight);
    }
    d->ahead = next;
  }
  d->at = first;
  if (first + taps == next) return end_from(s, d, axis, first);
  for (; d->ahead < first + taps - 1 && !falt_cancelled(); d->ahead++) {
    const row_ref row = row_along(s, axis, other, d->ahead, s->copy[0]);
    add_row(s, d->sums, d->ahead > next ? d->sums : NULL, &row, weight);
  }
  const row_ref last = row_along(s, axis, other, first + taps - 1, s->copy[0]);
  if (first + taps - 1 == next) memset(d->sums, 0, s->pitch);
  slide_row(s, d, end_from(s, d, axis, first), &last, weight);
  d->ahead = first + taps;
  return d->out;
}

/* The sums of the rows under output o of an axis. */
static char *slide_to(strip *s, slide *d, int axis, int64_t other, int64_t o) {
  const falt_running *how = s->how;
  const int64_t first = o * how->rows.axis[axis].stride;
  const double weight = axis == 0 || !has_planes(how) ? how->weight : 1;
  return how->whole ? slide_whole(s, d, axis, other, first)
         : d->ends  ? slide_blocks(s, d, axis, other, first, weight)
                    : slide_apart(s, d, axis, other, first, weight);
}

/* ---------------------------------------------------------------------------------------------------------- along x */

/* The sum of a column outside the image. */
static double constant_sum(const falt_running *how) {
  const double rows = (double)how->rows.taps[0] * (double)how->rows.taps[1];
  return how->rows.boundary_value * rows * (how->whole ? 1 : how->weight);
}

#define FILL(element, value)                    \
  for (int64_t i = begin; i < end; i++)         \
    for (int64_t c = 0; c < pixel; c++)         \
      ((element *)(void *)row)[i * pixel + c] = \
          s->from[i] < 0 ? (value) : ((element *)(void *)row)[s->from[i] * pixel + c];

static void fill_end(const strip *s, char *row, int64_t begin, int64_t end) {
  const int64_t pixel = s->how->rows.pixel;
  const double constant = constant_sum(s->how);
  if (s->how->whole) {
    FILL(int32_t, (int32_t)constant)
  } else if (s->how->rows.lane == FALT_LANE_F32) {
    FILL(float, (float)constant)
  } else {
    FILL(double, constant)
  }
}

/* A row of columns' sums to the output. */
static void finish_row(const strip *s, char *row, int64_t y) {
  const falt_running *how = s->how;
  const falt_rows *rows = &how->rows;
  const falt_axis *axis = &rows->axis[2];
  const int64_t count = s->task.end[2] - s->task.begin[2], n = ((count - 1) * axis->stride + 1) * rows->pixel;
  void *target = falt_rows_target(rows, s->io->output, s->task.slice, s->z, y, s->task.begin[2]);
  fill_end(s, row, 0, s->inside[0]);
  fill_end(s, row, s->inside[1], s->positions);
  char *sums = rows->taps[2] > 1 ? s->along : row;
  if (sums != row)
    how->kernels->along(&(falt_running_along){.out = s->along,
                                              .fours = s->fours,
                                              .sixteens = s->sixteens,
                                              .row = row,
                                              .taps = rows->taps[2],
                                              .step = axis->dilation * rows->pixel,
                                              .n = n});
  void *results = rows->out_place && !how->stream ? target : s->results;
  if (how->whole)
    how->kernels->scale[rows->lane](results, sums, axis->stride, how->weight, count * rows->pixel);
  else if (axis->stride > 1)
    rows->kernels->load[rows->lane][falt_lane_type(rows->lane)](results, sums, axis->stride, count);
  else
    results = sums;
  if (results != target) falt_rows_store(rows, target, results, count, how->stream);
}

/* ------------------------------------------------------------------------------------------------------- execute */

typedef struct run {
  const falt_running *how;
  const falt_operands *io;
} run;

/* Sums along z of all rows under the task's outputs. */
static void slide_plane(strip *s) {
  const int64_t first = s->task.begin[1] * s->how->rows.axis[1].stride, count = plane_rows(s);
  for (int64_t i = 0; i < count && !falt_cancelled(); i++)
    s->plane[i] = row_of_sums(s, slide_to(s, &s->depth[i], 0, first + i, s->z));
}

static void run_task(void *context, int64_t index, void *scratch) {
  const run *r = context;
  const falt_rows *rows = &r->how->rows;
  strip s = {.how = r->how, .io = r->io, .task = falt_rows_task(rows, r->how->block, index)};
  falt_arena memory = {scratch, 0};
  lay_out(&s, &memory);
  for (s.z = s.task.begin[0]; s.z < s.task.end[0] && !falt_cancelled(); s.z++) {
    if (s.plane) slide_plane(&s);
    s.height.at = -1;
    for (int64_t y = s.task.begin[1]; y < s.task.end[1] && !falt_cancelled(); y++)
      finish_row(&s, slide_to(&s, &s.height, 1, s.z * rows->axis[0].stride, y), y);
  }
  falt_arena_close(&memory);
}

void falt_running_run(const falt_running *how, const falt_device *device, const falt_operands *operands) {
  run context = {how, operands};
  const falt_row_job job = {run_task, &context, falt_rows_task_count(&how->rows, how->block), how->scratch.total};
  falt_rows_run(device, &job, operands->workspace);
}

size_t falt_running_scratch(const falt_running *how) {
  const falt_rows *rows = &how->rows;
  int64_t inside, outside;
  size_t most = 0;
  falt_rows_interior(rows, 0, rows->out[2], &inside, &outside);
  for (int64_t x = 0; x < rows->out[2]; x += how->block[2]) {
    strip s = {.how = how};
    s.task = (falt_row_task){.begin = {0, 0, x}, .end = {1, how->block[1], falt_min(rows->out[2], x + how->block[2])}};
    falt_arena memory = {NULL, 0};
    lay_out(&s, &memory);
    if (memory.used > most) most = memory.used;
    if (x >= inside && x + how->block[2] <= outside) x += (outside - x) / how->block[2] * how->block[2] - how->block[2];
  }
  return most;
}
