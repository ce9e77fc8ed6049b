/* Repeated boxes: lines are interleaved, one a lane, extended by the boundary, and summed box after box in place.
 *
 * Along y and z neighbouring columns are lanes as they stand. Along x rows are, or parts of rows: they are transposed
 * in blocks, before and after. The windows of each box are those inside the extended line, so that the whole is one
 * filter under the problem's boundary. */
#include "solver/cpu/filter/repeated_boxes.h"

#include <string.h>

#include "solver/cpu/common/arena.h"

enum { EXTRA = 16 /* positions that a transposition may touch behind the last */ };

/* One worker's memory for a task. */
typedef struct lines {
  char *positions, *wide, *ends[2]; /* wide: of the inner box of two */
  char *rows;                       /* along x: before and after the transposition */
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
  l->pitch = across ? FALT_BOXES_BYTES : odd_lines(how->block[2] * how->rows.pixel * size);
  if (!across)
    l->pitch =
        (size_t)falt_max((int64_t)l->pitch, falt_round_up(how->block[2] * how->rows.pixel * size, FALT_BOXES_BYTES));
  l->positions = falt_arena_take(memory, (size_t)(depth + EXTRA) * l->pitch);
  if (how->chain.outer) l->wide = falt_arena_take(memory, (size_t)depth * FALT_BOXES_BYTES);
  for (int i = 0; i < 2; i++) l->ends[i] = falt_arena_take(memory, (size_t)(widest(&how->chain) * FALT_BOXES_BYTES));
  if (!across) return;
  l->row_pitch = odd_lines((depth + EXTRA) * size);
  l->rows = falt_arena_take(memory, (size_t)how->lanes * l->row_pitch);
}

/* ---- sums */

static void add_box(const falt_repeated_boxes *how, const lines *l, falt_boxes_sum *call, int64_t size, double weight) {
  call->size = size;
  call->weight = weight;
  call->ends[0] = l->ends[0];
  call->ends[1] = l->ends[1];
  how->kernels->sum(call);
}

/* All boxes over `count` positions, in place. */
static void add_boxes(const falt_repeated_boxes *how, const lines *l, char *at, int64_t count) {
  const falt_box_chain *chain = &how->chain;
  const int64_t step = how->rows.axis[how->axis].dilation * (how->axis == 2 ? how->rows.pixel : 1);
  falt_boxes_sum call = {
      .in = at, .out = at, .in_pitch = l->pitch, .out_pitch = l->pitch, .count = count, .step = step};
  for (int i = 0; i < chain->count && !falt_cancelled(); i++) {
    if (chain->size[i] == 1) continue;
    add_box(how, l, &call, chain->size[i], how->weight[i]);
    call.count -= (chain->size[i] - 1) * step;
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
  add_box(how, l, &call, chain->outer ? chain->outer : chain->inner, chain->outer ? chain->at_outer : chain->at_inner);
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

/* Neighbouring columns of one plane (axis y), or of all planes (z). */
static void run_columns(const run *r, int64_t index, void *scratch) {
  const falt_repeated_boxes *how = r->how;
  const falt_rows *rows = &how->rows;
  const int axis = how->axis, other = 1 - axis;
  const falt_row_task task = falt_rows_task(rows, how->block, index);
  const int64_t columns = task.end[2] - task.begin[2], first = input_of(rows, axis, task.begin[axis]);
  const int64_t count = depth_of(how, task.end[axis] - task.begin[axis]), stride = rows->axis[axis].stride;
  const int64_t fixed = input_of(rows, other, task.begin[other]);
  falt_arena memory = {scratch, 0};
  lines l = {0};
  lay_out(how, &l, &memory);
  for (int64_t i = 0; i < count && !falt_cancelled(); i++) {
    const int64_t z = axis == 0 ? first + i : fixed, y = axis == 0 ? fixed : first + i;
    falt_rows_load(rows, source_of(r, task.slice, z, y), input_of(rows, 2, task.begin[2]), rows->axis[2].stride,
                   columns, l.positions + (size_t)i * l.pitch);
  }
  const int64_t bytes = columns * rows->pixel * (int64_t)rows->lane_size;
  for (int64_t at = 0; at < bytes && !falt_cancelled(); at += FALT_BOXES_BYTES)
    add_boxes(how, &l, l.positions + at, count);
  for (int64_t o = task.begin[axis]; o < task.end[axis] && !falt_cancelled(); o++) {
    const int64_t z = axis == 0 ? o : task.begin[0], y = axis == 0 ? task.begin[1] : o;
    falt_rows_store(rows, falt_rows_target(rows, r->io->output, task.slice, z, y, task.begin[2]),
                    l.positions + (size_t)((o - task.begin[axis]) * stride) * l.pitch, columns, how->stream);
  }
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

static int64_t line_count(const falt_repeated_boxes *how) {
  const int64_t block[3] = {1, 1, how->block[2]};
  return falt_rows_task_count(&how->rows, block);
}

static void run_lines(const run *r, int64_t index, void *scratch) {
  const falt_repeated_boxes *how = r->how;
  const falt_rows *rows = &how->rows;
  const int64_t begin = index * how->lanes, end = falt_min(begin + how->lanes, line_count(how));
  falt_arena memory = {scratch, 0};
  lines l = {0};
  int64_t outputs = 0; /* of the longest line */
  lay_out(how, &l, &memory);
  for (int64_t line = begin; line < end && !falt_cancelled(); line++) {
    const falt_row_task t = line_of(how, line);
    outputs = falt_max(outputs, t.end[2] - t.begin[2]);
    falt_rows_load(rows, source_of(r, t.slice, input_of(rows, 0, t.begin[0]), input_of(rows, 1, t.begin[1])),
                   input_of(rows, 2, t.begin[2]), 1, falt_repeated_boxes_reach(how, t.end[2] - t.begin[2]),
                   l.rows + (size_t)(line - begin) * l.row_pitch);
  }
  const int64_t count = depth_of(how, outputs);
  how->kernels->to_positions(l.positions, l.rows, l.row_pitch, count);
  add_boxes(how, &l, l.positions, count);
  if (rows->axis[2].stride > 1) skip_positions(how, l.positions, outputs);
  how->kernels->to_lines(l.rows, l.row_pitch, l.positions, outputs * rows->pixel);
  for (int64_t line = begin; line < end && !falt_cancelled(); line++) {
    const falt_row_task t = line_of(how, line);
    falt_rows_store(rows, falt_rows_target(rows, r->io->output, t.slice, t.begin[0], t.begin[1], t.begin[2]),
                    l.rows + (size_t)(line - begin) * l.row_pitch, t.end[2] - t.begin[2], how->stream);
  }
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
