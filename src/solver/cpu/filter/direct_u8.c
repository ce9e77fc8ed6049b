/* Solver direct-u8: 2D filters of u8 images with integer taps of 8 bits times a power of two, stride 1, known taps.
 * Sums are exact integers, four taps at a time by byte dot products (VNNI), with the bits of `direct` (proof:
 * docs/internals/filters.md). Tasks move down strips; a ring holds rows with their boundary, so kernels have no edges.
 * The planner picks it by cost. */
#include <math.h>
#include <stdlib.h>

#include "solver/common/factor.h"
#include "solver/cpu/filter/byte_lines.h"
#include "solver/cpu/filter/direct_u8_kernels.h"

enum { MOST_TAPS = 1024, STRIP = 8192 /* elements */ };

typedef struct direct_u8_plan {
  falt_plan base;
  falt_rows rows;
  const falt_direct_u8_kernels *kernels;
  int32_t taps[MOST_TAPS]; /* (r, words) */
  int words, step;
  float scale;
  bool stream; /* results bypass the caches */
  falt_byte_lines lines;
} direct_u8_plan;

/* ---- execute */

static void run_block(const falt_plan *base, const uint8_t **list, void **out, int64_t n, char *scratch) {
  const direct_u8_plan *plan = (const direct_u8_plan *)base;
  (void)scratch;
  plan->kernels->sums(&(falt_direct_u8_call){.rows = list,
                                             .taps = plan->taps,
                                             .out = out,
                                             .type = plan->rows.out_type,
                                             .n = n,
                                             .r = (int)plan->rows.taps[1],
                                             .words = plan->words,
                                             .step = plan->step,
                                             .scale = plan->scale,
                                             .stream = plan->stream});
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const direct_u8_plan *plan = (const direct_u8_plan *)base;
  falt_byte_lines_run(base, &plan->lines, &plan->rows, operands, run_block);
}

static void print(const falt_plan *base, falt_text *text) {
  const direct_u8_plan *plan = (const direct_u8_plan *)base;
  falt_text_add(text, "(direct-u8 %s %dx%d %s scale=%g strip=%lld threads=%d)", falt_isa_name(base->device->isa),
                plan->kernels->rows, plan->kernels->columns, falt_type_name(plan->rows.out_type), (double)plan->scale,
                (long long)plan->lines.block[2], falt_threads_count(base->device->threads));
}

/* ---- applicable */

static bool stores(falt_type type) {
  return type == FALT_F32 || falt_type_is_integer(type);
}

static const char *refusal(const falt_rows *rows, const falt_problem *p, const falt_direct_u8_kernels *kernels) {
  const char *reason = falt_byte_lines_refusal(rows, p, FALT_DIRECT_U8_STEP);
  return reason                                                        ? reason
         : !stores(rows->out_type)                                     ? "results are neither integers nor f32"
         : kernels->speed == 0                                         ? "the processor has no instructions that suit"
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

static void lay_memory(direct_u8_plan *plan) {
  const size_t beyond = (size_t)(plan->kernels->columns + 4 * plan->words * plan->step + FALT_DIRECT_U8_BEYOND);
  falt_byte_lines_init(&plan->lines, &plan->rows, plan->base.device, plan->kernels->rows, STRIP, beyond);
  falt_rows_place(&plan->base.layout, plan->base.device, &plan->lines.scratch);
  plan->base.workspace = plan->base.layout.total;
}

static falt_plan *plan_direct_u8(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = falt_plan_free};
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
    falt_free(plan);
    return falt_refuse(
        ask, "the taps are not integers of 8 bits, times a power of two, or their sums may need more than 24 bits");
  }
  lay_memory(plan);
  plan->stream = falt_bypasses_caches(ask->device, falt_problem_bytes(ask->problem));
  plan->base.packed = true;
  plan->base.cost.seconds = seconds(plan);
  return &plan->base;
}

extern const falt_solver falt_solver_direct_u8;
const falt_solver falt_solver_direct_u8 = {.name = "direct-u8", .device_kind = "cpu", .plan = plan_direct_u8};
