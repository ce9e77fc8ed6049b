/* Repeated boxes: lines are interleaved, one a lane, extended by the boundary, and summed box after box in place.
 *
 * Along y and z neighbouring columns are lanes as they stand. Along x rows are, or parts of rows: they are transposed
 * in blocks, before and after. The windows of each box are those inside the extended line, so that the whole is one
 * filter under the problem's boundary. */
#include "solver/cpu/running_sums/repeated_boxes.h"

#include <string.h>

#include "solver/cpu/common/arena.h"

enum { EXTRA = 16 /* positions that a transposition may touch behind the last */ };

/* One worker's memory for a task. */
typedef struct lines {
  char *positions, *wide, *ends[2]; /* wide: of the inner box of two */
  char *rows;                       /* along x: before and after the transposition */
  const void **source;              /* of each position along y or z, where rows are read in place */
  char *constant;                   /* a row of the boundary's constant */
  size_t pitch, row_pitch;
} lines;

int64_t falt_repeated_boxes_reach(const falt_repeated_boxes *how, int64_t outputs) {
  const falt_axis *axis = &how->rows.axis[how->axis];
  return (outputs - 1) * axis->stride + falt_extent(axis, how->rows.taps[how->axis]);
}

/* Elements of a row that is a column of positions: pixels lie behind each other there. */
static int64_t depth_of(const falt_repeated_boxes *how, int64_t outputs) {
  return falt_repeated_boxes_reach(how, outputs) * (how->axis == 2 ? how->rows.pixel : 1);
}

/* An odd number of cache lines, so that equal columns of neighbouring rows do not compete for one set of the cache. */
static size_t odd_lines(int64_t bytes) {
  return (size_t)(falt_ceil_div(bytes, FALT_ALIGN) | 1) * FALT_ALIGN;
}

static int64_t widest(const falt_box_chain *chain) {
  int64_t most = falt_max(chain->inner, chain->outer);
  for (int i = 0; i < chain->count; i++) most = falt_max(most, chain->size[i]);
  return most;
}

static void lay_out(const falt_repeated_boxes *how, lines *l, falt_arena *memory) {
  const int64_t depth = depth_of(how, how->block[how->axis]), size = (int64_t)how->rows.lane_size;
  const bool across = how->axis == 2;
  const int64_t bytes = how->block[2] * how->rows.pixel * size;
  l->pitch = FALT_BOXES_BYTES;
  if (!across && !how->direct)
    l->pitch = (size_t)falt_max((int64_t)odd_lines(bytes), falt_round_up(bytes, FALT_BOXES_BYTES));
  l->positions = falt_arena_take(memory, (size_t)(depth + EXTRA) * l->pitch);
  if (how->chain.outer) l->wide = falt_arena_take(memory, (size_t)depth * FALT_BOXES_BYTES);
  for (int i = 0; i < 2; i++) l->ends[i] = falt_arena_take(memory, (size_t)(widest(&how->chain) * FALT_BOXES_BYTES));
  if (how->direct) {
    l->source = falt_arena_take(memory, (size_t)depth * sizeof *l->source);
    l->constant = falt_arena_take(memory, (size_t)bytes);
  }
  if (!across) return;
  l->row_pitch = odd_lines((depth + EXTRA) * size);
  l->rows = falt_arena_take(memory, (size_t)how->lanes * l->row_pitch);
}

/* ---- sums */

/* Where the last box writes. */
typedef struct results {
  char *base;
  size_t pitch;
  bool stream;
} results;

static void add_box(const falt_repeated_boxes *how, const lines *l, falt_boxes_sum *call, int64_t size, double weight) {
  call->size = size;
  call->weight = weight;
  call->ends[0] = l->ends[0];
  call->ends[1] = l->ends[1];
  how->kernels->sum(call);
}

/* All boxes over the positions or rows that the call has, in place in `at` but for the results of the last. */
static void add_boxes(const falt_repeated_boxes *how, const lines *l, falt_boxes_sum call, char *at,
                      const results *to) {
  const falt_box_chain *chain = &how->chain;
  const int64_t step = how->rows.axis[how->axis].dilation * (how->axis == 2 ? how->rows.pixel : 1);
  call.step = step;
  call.out = at;
  call.out_pitch = l->pitch;
  for (int i = 0; i < chain->count && !falt_cancelled(); i++) {
    if (chain->size[i] == 1) continue;
    add_box(how, l, &call, chain->size[i], how->weight[i]);
    call.count -= (chain->size[i] - 1) * step;
    call.in = at;
    call.in_pitch = l->pitch;
    call.rows = NULL;
  }
  if (chain->outer) {
    falt_boxes_sum inner = call;
    inner.in = at + (size_t)((chain->outer - chain->inner) / 2 * step) * l->pitch;
    inner.out = l->wide;
    inner.out_pitch = FALT_BOXES_BYTES;
    inner.count -= (chain->outer - chain->inner) * step;
    add_box(how, l, &inner, chain->inner, chain->at_inner);
    call.plus = l->wide;
  }
  call.out = to->base;
  call.out_pitch = to->pitch;
  call.stream = to->stream;
  add_box(how, l, &call, chain->outer ? chain->outer : chain->inner, chain->outer ? chain->at_outer : chain->at_inner);
}

/* The same in place. */
static void add_in_place(const falt_repeated_boxes *how, const lines *l, char *at, int64_t count) {
  add_boxes(how, l, (falt_boxes_sum){.in = at, .in_pitch = l->pitch, .count = count}, at,
            &(results){at, l->pitch, false});
}

/* ---- tasks */

typedef struct run {
  const falt_repeated_boxes *how;
  const falt_operands *io;
} run;

static const void *source_of(const run *r, int64_t slice, int64_t z, int64_t y) {
  return falt_rows_source(&r->how->rows, r->io->input, slice, z, y);
}

/* Input position of an output where an axis has one tap, or the first one under the filter. */
static int64_t input_of(const falt_rows *rows, int axis, int64_t output) {
  return output * rows->axis[axis].stride - rows->axis[axis].pad[0];
}

/* A task of columns: of one plane (axis y), or of all planes (z). */
typedef struct columns {
  const run *r;
  lines l;
  falt_row_task task;
  int64_t count, width; /* positions; elements of a position */
} columns;

static const void *column_source(const columns *c, int64_t i) {
  const falt_repeated_boxes *how = c->r->how;
  const int axis = how->axis;
  const int64_t along = input_of(&how->rows, axis, c->task.begin[axis]) + i;
  const int64_t fixed = input_of(&how->rows, 1 - axis, c->task.begin[1 - axis]);
  return axis == 0 ? source_of(c->r, c->task.slice, along, fixed) : source_of(c->r, c->task.slice, fixed, along);
}

static char *column_target(const columns *c, int64_t o) {
  const int axis = c->r->how->axis;
  const int64_t *begin = c->task.begin;
  return falt_rows_target(&c->r->how->rows, c->r->io->output, c->task.slice, axis == 0 ? o : begin[0],
                          axis == 0 ? begin[1] : o, begin[2]);
}

/* `width` elements of each position, from `at` on, to the output. */
static void store_columns(const columns *c, const char *positions, int64_t at, int64_t width) {
  const falt_repeated_boxes *how = c->r->how;
  const falt_rows *rows = &how->rows;
  const int axis = how->axis;
  const int64_t step = rows->pixel > 1 ? 1 : rows->out_stride[4];
  const size_t pitch = c->l.pitch * (size_t)rows->axis[axis].stride;
  for (int64_t o = c->task.begin[axis]; o < c->task.end[axis] && !falt_cancelled(); o++, positions += pitch)
    rows->kernels->store[rows->lane][rows->out_type](column_target(c, o) + at * step * rows->out_size, step, positions,
                                                     width, &rows->epilogue, how->stream);
}

/* Columns that are converted first. */
static void load_and_sum(columns *c) {
  const falt_repeated_boxes *how = c->r->how;
  const falt_rows *rows = &how->rows;
  const int64_t bytes = c->width * (int64_t)rows->lane_size;
  for (int64_t i = 0; i < c->count && !falt_cancelled(); i++)
    falt_rows_load(rows, column_source(c, i), input_of(rows, 2, c->task.begin[2]), rows->axis[2].stride,
                   c->task.end[2] - c->task.begin[2], c->l.positions + (size_t)i * c->l.pitch);
  for (int64_t at = 0; at < bytes && !falt_cancelled(); at += FALT_BOXES_BYTES)
    add_in_place(how, &c->l, c->l.positions + at, c->count);
  store_columns(c, c->l.positions, 0, c->width);
}

/* Rows that the boxes read where they lie. */
static void find_sources(columns *c) {
  const falt_rows *rows = &c->r->how->rows;
  const int64_t first = input_of(rows, 2, c->task.begin[2]) * rows->in_stride[4] * rows->in_size;
  bool filled = false;
  for (int64_t i = 0; i < c->count; i++) {
    const char *source = column_source(c, i);
    c->l.source[i] = source ? source + first : c->l.constant;
    if (source || filled) continue;
    for (int64_t e = 0; e < c->width; e++)
      falt_store(c->l.constant, falt_lane_type(rows->lane), e, rows->boundary_value);
    filled = true;
  }
}

/* Row after row into the second cache: columns read a few lines of each row, which memory serves slowly. */
static void fetch_sources(const columns *c, int64_t bytes) {
  for (int64_t i = 0; i < c->count; i++)
    for (int64_t at = 0; at < bytes; at += FALT_ALIGN) __builtin_prefetch((const char *)c->l.source[i] + at, 0, 2);
}

/* Results of whole positions lie as the output does. */
static bool writes_in_place(const columns *c, results *to) {
  const falt_repeated_boxes *how = c->r->how;
  const falt_rows *rows = &how->rows;
  const int64_t pitch = rows->out_stride[2 + how->axis] * rows->out_size;
  if (!rows->out_place || rows->axis[how->axis].stride > 1) return false;
  to->base = column_target(c, c->task.begin[how->axis]);
  to->pitch = (size_t)pitch;
  to->stream = how->stream && ((uintptr_t)to->base | (uintptr_t)pitch) % FALT_ALIGN == 0;
  return true;
}

/* Columns of FALT_BOXES_BYTES, read from the input's rows; the last ones, if they are fewer, from a copy. */
static void sum_directly(columns *c) {
  const falt_repeated_boxes *how = c->r->how;
  const int64_t size = (int64_t)how->rows.lane_size, bytes = c->width * size;
  results target = {0};
  const bool in_place = writes_in_place(c, &target);
  find_sources(c);
  if (how->stream) fetch_sources(c, bytes);
  for (int64_t at = 0; at < bytes && !falt_cancelled(); at += FALT_BOXES_BYTES) {
    falt_boxes_sum call = {.rows = c->l.source, .offset = (size_t)at, .count = c->count};
    results to = {c->l.positions, c->l.pitch, false};
    const bool whole = bytes - at >= FALT_BOXES_BYTES;
    if (!whole) {
      for (int64_t i = 0; i < c->count; i++)
        memcpy(c->l.positions + (size_t)i * c->l.pitch, (const char *)c->l.source[i] + at, (size_t)(bytes - at));
      call = (falt_boxes_sum){.in = c->l.positions, .in_pitch = c->l.pitch, .count = c->count};
    }
    if (whole && in_place) to = (results){target.base + at, target.pitch, target.stream};
    add_boxes(how, &c->l, call, c->l.positions, &to);
    if (!(whole && in_place))
      store_columns(c, c->l.positions, at / size, falt_min(FALT_BOXES_BYTES, bytes - at) / size);
  }
}

static void run_columns(const run *r, int64_t index, void *scratch) {
  const falt_repeated_boxes *how = r->how;
  columns c = {.r = r, .task = falt_rows_task(&how->rows, how->block, index)};
  falt_arena memory = {scratch, 0};
  lay_out(how, &c.l, &memory);
  c.count = depth_of(how, c.task.end[how->axis] - c.task.begin[how->axis]);
  c.width = (c.task.end[2] - c.task.begin[2]) * how->rows.pixel;
  if (how->direct)
    sum_directly(&c);
  else
    load_and_sum(&c);
  falt_arena_close(&memory);
}

/* Keeps every stride-th pixel of the positions. */
static void skip_positions(const falt_repeated_boxes *how, char *positions, int64_t outputs) {
  const int64_t pixel = how->rows.pixel, stride = how->rows.axis[2].stride;
  for (int64_t o = 1; o < outputs; o++)
    memmove(positions + o * pixel * FALT_BOXES_BYTES, positions + o * stride * pixel * FALT_BOXES_BYTES,
            (size_t)(pixel * FALT_BOXES_BYTES));
}

/* Lines of a task along x: row after row, parts of a row after each other. */
static falt_row_task line_of(const falt_repeated_boxes *how, int64_t line) {
  const int64_t block[3] = {1, 1, how->block[2]};
  return falt_rows_task(&how->rows, block, line);
}

/* The next line: as line_of, without its divisions. */
static void next_line(const falt_repeated_boxes *how, falt_row_task *t) {
  const int64_t *out = how->rows.out;
  const int64_t block[3] = {1, 1, how->block[2]};
  int axis = 2;
  while (axis >= 0 && t->end[axis] == out[axis]) {
    t->begin[axis] = 0;
    t->end[axis] = falt_min(block[axis], out[axis]);
    axis--;
  }
  if (axis < 0) {
    t->slice++;
    return;
  }
  t->begin[axis] = t->end[axis];
  t->end[axis] = falt_min(t->end[axis] + block[axis], out[axis]);
}

static int64_t line_count(const falt_repeated_boxes *how) {
  const int64_t block[3] = {1, 1, how->block[2]};
  return falt_rows_task_count(&how->rows, block);
}

/* Loads `count` lines from `t` on; outputs of the longest one. */
static int64_t load_lines(const run *r, const lines *l, falt_row_task t, int64_t count) {
  enum { MOST_RUNS = 5 };
  const falt_repeated_boxes *how = r->how;
  const falt_rows *rows = &how->rows;
  falt_row_run runs[MOST_RUNS];
  int64_t most = 0, begin = -1;
  int run_count = 0;
  for (int64_t i = 0; i < count && !falt_cancelled(); i++, next_line(how, &t)) {
    const int64_t outputs = t.end[2] - t.begin[2], first = input_of(rows, 2, t.begin[2]);
    const int64_t positions = falt_repeated_boxes_reach(how, outputs);
    const void *source = source_of(r, t.slice, input_of(rows, 0, t.begin[0]), input_of(rows, 1, t.begin[1]));
    char *to = l->rows + (size_t)i * l->row_pitch;
    most = falt_max(most, outputs);
    if (t.begin[2] != begin) run_count = falt_rows_runs(rows, first, 1, positions, runs, MOST_RUNS);
    begin = t.begin[2];
    if (source && run_count)
      falt_rows_load_runs(rows, source, runs, run_count, to);
    else
      falt_rows_load(rows, source, first, 1, positions, to);
  }
  return most;
}

/* The columns under a line's outputs into the second cache. */
static void fetch_line(const run *r, const falt_row_task *t) {
  const falt_rows *rows = &r->how->rows;
  const char *source = source_of(r, t->slice, input_of(rows, 0, t->begin[0]), input_of(rows, 1, t->begin[1]));
  const int64_t step = rows->in_stride[4] * rows->in_size, end = falt_min(t->end[2], rows->in[2]) * step;
  for (int64_t at = t->begin[2] * step; source && at < end; at += FALT_ALIGN) __builtin_prefetch(source + at, 0, 2);
}

/* Stores lines. While memory takes them, it gives the lines of the next task, from `ahead` on. */
static void store_lines(const run *r, const lines *l, falt_row_task t, int64_t count, falt_row_task ahead) {
  const falt_rows *rows = &r->how->rows;
  const bool fetch = r->how->stream && rows->in_place;
  for (int64_t i = 0; i < count && !falt_cancelled(); i++, next_line(r->how, &t), next_line(r->how, &ahead)) {
    if (fetch && ahead.slice < rows->batch * rows->groups) fetch_line(r, &ahead);
    falt_rows_store(rows, falt_rows_target(rows, r->io->output, t.slice, t.begin[0], t.begin[1], t.begin[2]),
                    l->rows + (size_t)i * l->row_pitch, t.end[2] - t.begin[2], r->how->stream);
  }
}

static void run_lines(const run *r, int64_t index, void *scratch) {
  const falt_repeated_boxes *how = r->how;
  const falt_rows *rows = &how->rows;
  const int64_t begin = index * how->lanes, lines_here = falt_min(how->lanes, line_count(how) - begin);
  const falt_row_task first = line_of(how, begin);
  falt_arena memory = {scratch, 0};
  lines l = {0};
  lay_out(how, &l, &memory);
  const int64_t outputs = load_lines(r, &l, first, lines_here), count = depth_of(how, outputs);
  how->kernels->to_positions(l.positions, l.rows, l.row_pitch, count);
  add_in_place(how, &l, l.positions, count);
  if (rows->axis[2].stride > 1) skip_positions(how, l.positions, outputs);
  how->kernels->to_lines(l.rows, l.row_pitch, l.positions, outputs * rows->pixel);
  store_lines(r, &l, first, lines_here, line_of(how, begin + lines_here));
  falt_arena_close(&memory);
}

static void run_task(void *context, int64_t index, void *scratch) {
  const run *r = context;
  if (r->how->axis == 2)
    run_lines(r, index, scratch);
  else
    run_columns(r, index, scratch);
}

void falt_repeated_boxes_run(const falt_repeated_boxes *how, const falt_device *device, const falt_operands *operands) {
  run context = {how, operands};
  const int64_t tasks =
      how->axis == 2 ? falt_ceil_div(line_count(how), how->lanes) : falt_rows_task_count(&how->rows, how->block);
  const falt_row_job job = {run_task, &context, tasks, how->scratch.total};
  falt_rows_run(device, &job, operands->workspace);
}

size_t falt_repeated_boxes_scratch(const falt_repeated_boxes *how) {
  falt_arena memory = {NULL, 0};
  lines l = {0};
  lay_out(how, &l, &memory);
  return memory.used;
}
