/* Solver direct-u8: 2D filters of u8 images with integer taps of 8 bits times a power of two, stride 1, known taps.
 * Sums are exact integers, four taps at a time by byte dot products (VNNI), with the bits of `direct` (proof:
 * docs/internals/filters.md). Tasks move down strips; a ring holds rows with their boundary, so kernels have no edges.
 * The planner picks it by cost. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "solver/common/factor.h"
#include "solver/cpu/common/rows.h"
#include "solver/cpu/filter/direct_u8_kernels.h"

enum { MOST_TAPS = 1024, STRIP = 8192 /* elements */, BAND = 64 /* output rows */ };

typedef struct direct_u8_plan {
  falt_plan base;
  falt_rows rows;
  const falt_direct_u8_kernels *kernels;
  int64_t block[3];
  int32_t taps[MOST_TAPS]; /* (r, words) */
  int words, step;
  float scale;
  bool stream;       /* outputs bypass the caches */
  int64_t slots;     /* lines of the ring */
  size_t pitch;      /* of a line */
  size_t ring, idle; /* in a worker's scratch; idle: outputs of rows beyond the task */
  falt_memory_layout scratch;
} direct_u8_plan;

/* ---- execute */

typedef struct execution {
  const direct_u8_plan *plan;
  const falt_operands *operands;
} execution;

typedef struct walk {
  const direct_u8_plan *plan;
  const execution *run;
  falt_row_task task;
  uint8_t *ring, *idle;
  int64_t first; /* the task's first input row */
  int64_t ready; /* loaded rows, from there on */
} walk;

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
static void bring_row(const walk *w, int64_t y, uint8_t *line) {
  const falt_rows *rows = &w->plan->rows;
  const falt_axis *axis = &rows->axis[2];
  const int64_t first = w->task.begin[2] - axis->pad[0];
  const int64_t count = w->task.end[2] - w->task.begin[2] + (rows->taps[2] - 1) * axis->dilation;
  const uint8_t *source = falt_rows_source(rows, w->run->operands->input, w->task.slice, 0, y);
  const size_t pixel = (size_t)rows->pixel, bytes = (size_t)count * pixel;
  memset(line + bytes, 0, w->plan->pitch - bytes);
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

static uint8_t *line_of(const walk *w, int64_t row) {
  return w->ring + (size_t)(row % w->plan->slots) * w->plan->pitch;
}

/* Output rows [y, y + count). */
static void run_rows(walk *w, int64_t y, int64_t count) {
  const direct_u8_plan *plan = w->plan;
  const falt_rows *rows = &plan->rows;
  const int64_t top = y - w->task.begin[1], last = top + count + rows->taps[1] - 2;
  const uint8_t *list[FALT_DIRECT_U8_ROWS + MOST_TAPS];
  void *out[FALT_DIRECT_U8_ROWS];
  for (; w->ready <= last; w->ready++) bring_row(w, w->first + w->ready, line_of(w, w->ready));
  for (int64_t i = 0; i < plan->kernels->rows + rows->taps[1] - 1; i++) list[i] = line_of(w, falt_min(top + i, last));
  for (int64_t p = 0; p < plan->kernels->rows; p++)
    out[p] = p < count ? falt_rows_target(rows, w->run->operands->output, w->task.slice, 0, y + p, w->task.begin[2])
                       : w->idle;
  plan->kernels->sums(&(falt_direct_u8_call){.rows = list,
                                             .taps = plan->taps,
                                             .out = out,
                                             .type = rows->out_type,
                                             .n = (w->task.end[2] - w->task.begin[2]) * rows->pixel,
                                             .r = (int)rows->taps[1],
                                             .words = plan->words,
                                             .step = plan->step,
                                             .scale = plan->scale,
                                             .stream = plan->stream});
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const direct_u8_plan *plan = run->plan;
  walk w = {.plan = plan, .run = run, .ring = (uint8_t *)scratch + plan->ring, .idle = (uint8_t *)scratch + plan->idle};
  w.task = falt_rows_task(&plan->rows, plan->block, index);
  w.first = w.task.begin[1] - plan->rows.axis[1].pad[0];
  for (int64_t y = w.task.begin[1]; y < w.task.end[1] && !falt_cancelled(); y += plan->kernels->rows)
    run_rows(&w, y, falt_min(plan->kernels->rows, w.task.end[1] - y));
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const direct_u8_plan *plan = (const direct_u8_plan *)base;
  execution run = {plan, operands};
  const falt_row_job job = {.run = run_task,
                            .context = &run,
                            .tasks = falt_rows_task_count(&plan->rows, plan->block),
                            .scratch = plan->scratch.total};
  falt_rows_run(base->device, &job, operands->workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  const direct_u8_plan *plan = (const direct_u8_plan *)base;
  falt_text_add(text, "(direct-u8 %s %dx%d %s scale=%g strip=%lld threads=%d)", falt_isa_name(base->device->isa),
                plan->kernels->rows, plan->kernels->columns, falt_type_name(plan->rows.out_type), (double)plan->scale,
                (long long)plan->block[2], falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *base) {
  falt_free(base);
}

/* ---- applicable */

static bool stores(falt_type type) {
  return type == FALT_F32 || falt_type_is_integer(type);
}

/* A byte that the boundary puts outside. */
static bool is_byte(double value) {
  return value == rint(value) && value >= 0 && value <= UINT8_MAX;
}

static bool is_plain(const falt_problem *p) {
  return p->alpha == 1 && p->beta == 0 && p->activation == FALT_IDENTITY;
}

static const char *refusal(const falt_rows *rows, const falt_problem *p, const falt_direct_u8_kernels *kernels) {
  const falt_axis *x = &rows->axis[2], *y = &rows->axis[1];
  return rows->in_type != FALT_U8                                      ? "the input is not bytes (u8)"
         : !stores(rows->out_type)                                     ? "results are neither integers nor f32"
         : kernels->speed == 0                                         ? "the processor has no instructions that suit"
         : !is_plain(p)                                                ? "alpha, beta and activations are not for it"
         : !is_byte(p->boundary_value)                                 ? "the boundary's value is not a byte"
         : rows->in[0] != 1 || rows->taps[0] != 1 || rows->out[0] != 1 ? "it has planes"
         : x->stride != 1 || y->stride != 1 || y->dilation != 1 ? "strides, and dilations across rows, are not for it"
         : rows->pixel * x->dilation > FALT_DIRECT_U8_STEP      ? "taps lie more than 4 bytes apart"
         : rows->in_stride[4] != rows->pixel || rows->out_stride[4] != rows->pixel
             ? "neighbours along x are not adjacent"
         : p->filter.size[FALT_G] > 1 && p->filter.stride[FALT_G] != 0 ? "the groups have different filters"
         : rows->taps[1] * falt_round_up(rows->taps[2], 4) > MOST_TAPS ? "the filter has more than 1024 taps"
                                                                       : NULL;
}

/* ---- taps */

/* Four taps along a row to a word. False if they are not integers of 8 bits, times a power of two, or if f32 might
 * round a sum of them. */
static bool pack_taps(direct_u8_plan *plan, const void *values) {
  const double most_scale = 65536; /* far above the underflow of f32 */
  const int64_t r = plan->rows.taps[1], s = plan->rows.taps[2];
  double dense[MOST_TAPS], most = 0;
  falt_problem_taps(&plan->base.problem, values, 0, FALT_F64, dense);
  const double scale = falt_integer_scale(dense, r * s, 7);
  if (scale == 0 || scale > most_scale) return false;
  for (int64_t i = 0; i < r * s; i++) {
    const int32_t tap = (int32_t)(dense[i] * scale);
    most += abs(tap) * (double)UINT8_MAX;
    if (tap > INT8_MAX || most >= 0x1p24) return false;
    plan->taps[i / s * plan->words + i % s / 4] |= (int32_t)((uint32_t)(tap & 0xff) << 8 * (i % s % 4));
  }
  plan->scale = (float)(1 / scale);
  return true;
}

/* ---- estimate */

/* Cost of an output in f32 multiply-adds: words of taps, words of bytes, which the rows of a tile share, and the store.
 */
static double seconds(const direct_u8_plan *plan) {
  const falt_rows *rows = &plan->rows;
  const double efficiency = 0.9, r = (double)rows->taps[1], tile = plan->kernels->rows;
  const double dots = r * plan->words * (4 / plan->kernels->speed), windows = plan->words * (tile + r - 1) / tile;
  const double results = (rows->out_type == FALT_U8 ? 5 : 12) + (plan->scale != 1 ? 2 : 0);
  const double outputs = (double)falt_tensor_count(&plan->base.problem.output);
  return falt_roofline(plan->base.device, FALT_F32, 2 * outputs * (dots + windows + results), efficiency,
                       falt_problem_bytes(&plan->base.problem));
}

/* ---- plan */

static void set_blocks(direct_u8_plan *plan) {
  const falt_rows *rows = &plan->rows;
  const int64_t threads = falt_threads_count(plan->base.device->threads), tile = plan->kernels->rows;
  const int64_t shared = threads == 1 ? BAND : falt_ceil_div(rows->out[1], 4 * threads);
  plan->block[0] = 1;
  plan->block[1] = falt_round_up(falt_max(tile, falt_min(BAND, shared)), tile);
  plan->block[2] = falt_min(rows->out[2], STRIP / rows->pixel);
}

static void lay_memory(direct_u8_plan *plan) {
  const falt_rows *rows = &plan->rows;
  const int64_t line = plan->block[2] * rows->pixel, tile = plan->kernels->columns;
  plan->slots = plan->kernels->rows + rows->taps[1] - 1;
  plan->pitch = (size_t)falt_round_up(falt_round_up(line, tile) + 4 * plan->words * plan->step + FALT_DIRECT_U8_BEYOND,
                                      FALT_ALIGN);
  plan->ring = falt_place_part(&plan->scratch, (size_t)plan->slots * plan->pitch);
  plan->idle = falt_place_part(&plan->scratch, (size_t)(line * rows->out_size));
  falt_rows_place(&plan->base.layout, plan->base.device, &plan->scratch);
  plan->base.workspace = plan->base.layout.total;
}

static falt_plan *plan_direct_u8(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy};
  const falt_direct_u8_kernels *kernels = falt_direct_u8_kernels_for(ask->device->isa);
  falt_rows rows;
  if (!ask->filter_values) return falt_refuse(ask, "the filter's values are not known when planning");
  const char *reason = falt_rows_init(&rows, ask->problem, ask->device->isa, NULL);
  if (!reason) reason = refusal(&rows, ask->problem, kernels);
  if (reason) return falt_refuse(ask, "%s", reason);
  direct_u8_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->rows = rows;
  plan->kernels = kernels;
  plan->words = (int)falt_ceil_div(rows.taps[2], 4);
  plan->step = (int)(rows.pixel * rows.axis[2].dilation);
  if (!pack_taps(plan, ask->filter_values)) {
    destroy(&plan->base);
    return falt_refuse(
        ask, "the taps are not integers of 8 bits, times a power of two, or their sums may need more than 24 bits");
  }
  set_blocks(plan);
  lay_memory(plan);
  plan->stream = falt_problem_bytes(ask->problem) > 4 * (double)ask->device->caches.l2;
  plan->base.packed = true;
  plan->base.cost.seconds = seconds(plan);
  return &plan->base;
}

extern const falt_solver falt_solver_direct_u8;
const falt_solver falt_solver_direct_u8 = {.name = "direct-u8", .device_kind = "cpu", .plan = plan_direct_u8};
