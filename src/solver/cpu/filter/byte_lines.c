/* A ring of lines of bytes: its size, and how a line is filled. */
#include "solver/cpu/filter/byte_lines.h"

#include <math.h>
#include <string.h>

enum { BAND = 128 /* output rows */ };

/* ---- applicable */

/* A byte that the boundary puts outside. */
static bool is_byte(double value) {
  return value == rint(value) && value >= 0 && value <= UINT8_MAX;
}

static bool is_plain(const falt_problem *p) {
  return p->alpha == 1 && p->beta == 0 && p->activation == FALT_IDENTITY;
}

const char *falt_byte_lines_refusal(const falt_rows *rows, const falt_problem *p, int64_t most_step) {
  const falt_axis *x = &rows->axis[2], *y = &rows->axis[1];
  return rows->in_type != FALT_U8                                      ? "the input is not bytes (u8)"
         : !is_plain(p)                                                ? "alpha, beta and activations are not for it"
         : !is_byte(p->boundary_value)                                 ? "the boundary's value is not a byte"
         : rows->in[0] != 1 || rows->taps[0] != 1 || rows->out[0] != 1 ? "it has planes"
         : x->stride != 1 || y->stride != 1 || y->dilation != 1 ? "strides, and dilations across rows, are not for it"
         : rows->pixel * x->dilation > most_step                ? "taps lie more than 4 bytes apart"
         : rows->in_stride[4] != rows->pixel || rows->out_stride[4] != rows->pixel
             ? "neighbours along x are not adjacent"
         : p->filter.size[FALT_G] > 1 && p->filter.stride[FALT_G] != 0 ? "the groups have filters of their own"
                                                                       : NULL;
}

/* ---- sizes */

void falt_byte_lines_init(falt_byte_lines *lines, const falt_rows *rows, const falt_device *device, int64_t tile,
                          int64_t strip, size_t beyond) {
  const int64_t threads = falt_threads_count(device->threads);
  const int64_t shared = threads == 1 ? BAND : falt_ceil_div(rows->out[1], 4 * threads);
  lines->rows = tile;
  lines->block[0] = 1;
  lines->block[1] = falt_round_up(falt_max(tile, falt_min(BAND, shared)), tile);
  lines->block[2] = falt_min(rows->out[2], falt_max(1, strip / rows->pixel));
  lines->slots = tile + rows->taps[1] - 1;
  const int64_t columns = lines->block[2] + (rows->taps[2] - 1) * rows->axis[2].dilation;
  lines->pitch = (size_t)falt_round_up(columns * rows->pixel + (int64_t)beyond, FALT_ALIGN);
  lines->ring = falt_place_part(&lines->scratch, (size_t)lines->slots * lines->pitch);
  lines->idle = falt_place_part(&lines->scratch, (size_t)(lines->block[2] * rows->pixel * rows->out_size));
}

/* ---- lines */

/* One worker on one task. */
typedef struct byte_walk {
  const falt_byte_lines *lines;
  const falt_rows *rows;
  const falt_operands *operands;
  falt_row_task task;
  char *scratch;
  int64_t first; /* the task's first input row */
  int64_t ready; /* rows that were brought, from there on */
} byte_walk;

/* Positions [begin, end) of a line, from `first` on, which the boundary puts there. */
static void bring_outside(const falt_rows *rows, const uint8_t *source, int64_t first, int64_t begin, int64_t end,
                          uint8_t *line) {
  const size_t pixel = (size_t)rows->pixel;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = falt_axis_map(&rows->axis[2], rows->in[2], first + i);
    if (at < 0)
      memset(line + (size_t)i * pixel, (int)rows->boundary_value, pixel);
    else
      memcpy(line + (size_t)i * pixel, source + (size_t)at * pixel, pixel);
  }
}

/* One line: the columns under the filter, and zeros behind them. */
static void bring_row(const byte_walk *w, int64_t y, uint8_t *line) {
  const falt_rows *rows = w->rows;
  const falt_axis *axis = &rows->axis[2];
  const int64_t first = w->task.begin[2] - axis->pad[0];
  const int64_t count = w->task.end[2] - w->task.begin[2] + (rows->taps[2] - 1) * axis->dilation;
  const int64_t z = -rows->axis[0].pad[0]; /* of the one plane, which may lie outside the input */
  const uint8_t *source = falt_rows_source(rows, w->operands->input, w->task.slice, z, y);
  const size_t pixel = (size_t)rows->pixel, bytes = (size_t)count * pixel;
  memset(line + bytes, 0, w->lines->pitch - bytes);
  if (!source) {
    memset(line, (int)rows->boundary_value, bytes);
    return;
  }
  const int64_t begin = falt_min(falt_max(-first, 0), count);
  const int64_t end = falt_max(begin, falt_min(rows->in[2] - first, count));
  if (begin < end)
    memcpy(line + (size_t)begin * pixel, source + (first + begin) * rows->pixel, (size_t)(end - begin) * pixel);
  bring_outside(rows, source, first, 0, begin, line);
  bring_outside(rows, source, first, end, count, line);
}

static uint8_t *line_of(const byte_walk *w, int64_t row) {
  return (uint8_t *)w->scratch + w->lines->ring + (size_t)(row % w->lines->slots) * w->lines->pitch;
}

static byte_walk walk_open(const falt_byte_lines *lines, const falt_rows *rows, const falt_operands *operands,
                           int64_t task, void *scratch) {
  byte_walk w = {.lines = lines, .rows = rows, .operands = operands, .scratch = scratch};
  w.task = falt_rows_task(rows, lines->block, task);
  w.first = w.task.begin[1] - rows->axis[1].pad[0];
  return w;
}

/* Where the kernel's block at output row y reads and writes. Lines behind the last row that is needed repeat it. */
static void walk_block(byte_walk *w, int64_t y, const uint8_t **list, void **out) {
  const int64_t tile = w->lines->rows, count = falt_min(tile, w->task.end[1] - y);
  const int64_t top = y - w->task.begin[1], last = top + count + w->rows->taps[1] - 2;
  for (; w->ready <= last; w->ready++) bring_row(w, w->first + w->ready, line_of(w, w->ready));
  for (int64_t i = 0; i < w->lines->slots; i++) list[i] = line_of(w, falt_min(top + i, last));
  for (int64_t p = 0; p < tile; p++)
    out[p] = p < count ? falt_rows_target(w->rows, w->operands->output, w->task.slice, 0, y + p, w->task.begin[2])
                       : w->scratch + w->lines->idle;
}

/* ---- execute */

/* Of the largest kernel: the rows of a block, and with them its taps down a column. */
enum { MOST_ROWS = 16, MOST_LINES = MOST_ROWS + 1024 };

typedef struct execution {
  const falt_plan *plan;
  const falt_byte_lines *lines;
  const falt_rows *rows;
  const falt_operands *operands;
  falt_byte_kernel *kernel;
} execution;

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const uint8_t *list[MOST_LINES];
  void *out[MOST_ROWS];
  byte_walk walk = walk_open(run->lines, run->rows, run->operands, index, scratch);
  const int64_t n = (walk.task.end[2] - walk.task.begin[2]) * run->rows->pixel;
  for (int64_t y = walk.task.begin[1]; y < walk.task.end[1] && !falt_cancelled(); y += run->lines->rows) {
    walk_block(&walk, y, list, out);
    run->kernel(run->plan, list, out, n, scratch);
  }
}

void falt_byte_lines_run(const falt_plan *plan, const falt_byte_lines *lines, const falt_rows *rows,
                         const falt_operands *operands, falt_byte_kernel *kernel) {
  execution run = {plan, lines, rows, operands, kernel};
  const falt_row_job job = {run_task, &run, falt_rows_task_count(rows, lines->block), lines->scratch.total};
  falt_rows_run(plan->device, &job, operands->workspace);
}
