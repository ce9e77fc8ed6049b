/* Solver depthwise-rowtile-wgrad: NHWC depthwise wgrad of 3x3 taps in blocks of three rows.
 *
 *     dw[g, j] = sum over images and positions p of  dy[p, g] * x[p*stride + j - pad, g]
 */
#include <string.h>

#include "solver/cpu/depthwise/depthwise_rowtile.h"

/* The loop nest of `depthwise-rowtile` with other roles: nine accumulators of a vector of channels stay in registers
 * for a block, five rows of x are read for three of dy, and elements are converted as they are loaded. Between blocks
 * the sums are in memory, in bands of rows that are added in order. The number of bands depends only on the problem,
 * and so do the bits of the output. */

enum { TAPS = 3 /* along either axis */ };

typedef struct wgrad_plan {
  falt_plan base;
  const falt_block_kernels *kernels;
  falt_layer_pieces blocks; /* of vectors */
  falt_layer_pieces bands;  /* of groups of all images */
  falt_tensor wide;         /* the output in f32 */
  size_t sums, room;        /* offsets into the workspace; room: for a narrow output in f32 */
} wgrad_plan;

/* ---- execute */

typedef struct execution {
  const wgrad_plan *plan;
  const falt_operands *operands;
  float *sums; /* (band, vector, sum, lane) */
  float *filter;
} execution;

/* Elements of a band's sums. */
static int64_t band_floats(const wgrad_plan *plan) {
  const int64_t width = plan->kernels->width;
  return falt_ceil_div(plan->base.problem.input.size[FALT_G], width) * FALT_BLOCK_SUMS * width;
}

static void run_task(void *context, int64_t index) {
  const execution *run = context;
  const wgrad_plan *plan = run->plan;
  const falt_problem *p = &plan->base.problem;
  const int64_t band = falt_generic_digit(&index, plan->bands.count), vector = FALT_BLOCK_SUMS * plan->kernels->width;
  const int64_t begin = falt_layer_piece(&plan->bands, band), end = falt_layer_piece(&plan->bands, band + 1);
  falt_block_gradient g = {
      .by_pixel = p->output.stride[FALT_W], .adds_by = p->has_bias, .sums = run->sums + band * band_floats(plan)};
  for (int64_t i = begin; i < end && !falt_cancelled(); i++) {
    g.block = falt_depthwise_block_of(p, plan->kernels, &plan->blocks, index, run->operands->input, i);
    falt_depthwise_block_rows(p, run->operands->output, i, g.by);
    const int64_t floats = (g.block.vectors - g.block.vector) * vector;
    if (i == begin) memset(g.sums + g.block.vector * vector, 0, (size_t)floats * sizeof *g.sums);
    plan->kernels->gradient(&g);
  }
}

/* Adds a vector's sums of all bands and stores them to dw. The channels that the last vector shares with the one before
 * are stored there. */
static void add_bands(void *context, int64_t v) {
  const execution *run = context;
  const wgrad_plan *plan = run->plan;
  const falt_problem *p = &plan->base.problem;
  const int64_t width = plan->kernels->width, count = FALT_BLOCK_SUMS * width, all = band_floats(plan);
  const int64_t first = falt_block_channel(v, width, p->input.size[FALT_G]);
  float *sums = run->sums + v * count;
  for (int64_t b = 1; b < plan->bands.count; b++)
    for (int64_t i = 0; i < count; i++) sums[i] += sums[b * all + i];
  for (int64_t i = v * width - first; i < width; i++) {
    for (int64_t tap = 0; tap < TAPS * TAPS; tap++) {
      const int64_t r = tap / TAPS, s = tap % TAPS;
      run->filter[falt_tensor_at(&plan->wide, 0, first + i, 0, 0, r, s)] = sums[tap * width + i];
    }
    if (p->has_bias) ((float *)run->operands->bias)[first + i] = sums[TAPS * TAPS * width + i];
  }
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  const falt_tensor *filter = &base->problem.filter;
  const bool narrow = filter->type != FALT_F32;
  char *workspace = operands->workspace;
  execution run = {.plan = plan,
                   .operands = operands,
                   .sums = (float *)(void *)(workspace + plan->sums),
                   .filter = narrow ? (float *)(void *)(workspace + plan->room) : operands->filter};
  falt_parallel_for(base->device->threads, plan->blocks.count * plan->bands.count, run_task, &run);
  falt_parallel_for(base->device->threads, falt_ceil_div(base->problem.input.size[FALT_G], plan->kernels->width),
                    add_bands, &run);
  if (narrow) falt_downconvert(base->device, &plan->wide, run.filter, filter, operands->filter);
}

static void print(const falt_plan *base, falt_text *text) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  falt_text_add(text, "(depthwise-rowtile-wgrad %s %dx%d channels=%lld bands=%lld threads=%d)",
                falt_isa_name(base->device->isa), FALT_BLOCK_ROWS, plan->kernels->positions,
                (long long)(falt_layer_most(&plan->blocks) * plan->kernels->width), (long long)plan->bands.count,
                falt_threads_count(base->device->threads));
}

/* ---- applicable */

static bool is_float(falt_type type) {
  return falt_type_is_float(type) && type != FALT_F64;
}

static const char *refusal(const falt_problem *p, const falt_block_kernels *kernels) {
  return p->operation != FALT_BACKWARD_FILTER ? "only backward-filter"
         : p->input.type != p->output.type || !is_float(p->input.type) || !is_float(p->filter.type) ||
                 p->accumulator != FALT_F32
             ? "not of floats that are summed in f32"
         : p->filter.size[FALT_W] != TAPS ? "not 3x3 taps"
                                          : falt_depthwise_block_refusal(p, kernels);
}

/* ---- estimate */

static const double share = 0.6; /* of the multiply-add peak in the first-level cache */

static double estimate(const wgrad_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->base.problem;
  return falt_roofline(device, FALT_F32, falt_depthwise_block_flops(p, plan->kernels), share,
                       falt_problem_bytes(p) + 8 * (double)plan->bands.count * (double)band_floats(plan));
}

/* ---- plan */

static void set_tasks(wgrad_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  const falt_device *device = plan->base.device;
  const int64_t threads = falt_threads_count(device->threads), wanted = threads == 1 ? 1 : 4 * threads;
  const int64_t groups = p->input.size[FALT_N] * falt_depthwise_block_groups(p);
  plan->bands = falt_depthwise_bands(groups, FALT_BLOCK_ROWS * p->output.size[FALT_W], band_floats(plan));
  plan->blocks = falt_depthwise_block_cut(p, device, plan->kernels, falt_ceil_div(wanted, plan->bands.count));
}

static falt_plan *plan_wgrad(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = falt_plan_free};
  const falt_block_kernels *kernels = falt_block_kernels_for(ask->device->isa);
  const char *reason = refusal(ask->problem, kernels);
  if (reason) return falt_refuse(ask, "%s", reason);
  wgrad_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  const falt_tensor *filter = &plan->base.problem.filter;
  falt_memory_layout *all = &plan->base.layout;
  size_t wide = 0;
  plan->wide = *filter;
  if (filter->type != FALT_F32 && !falt_upconvert_shape(&plan->wide, filter, &wide)) {
    falt_free(plan);
    return falt_refuse(ask, "its filter in f32 exceeds 2^63 bytes");
  }
  plan->kernels = kernels;
  set_tasks(plan);
  plan->sums = falt_place_part(all, (size_t)(plan->bands.count * band_floats(plan)) * sizeof(float));
  plan->room = falt_place_part(all, wide);
  plan->base.workspace = all->total;
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_depthwise_rowtile_wgrad;
const falt_solver falt_solver_depthwise_rowtile_wgrad = {
    .name = "depthwise-rowtile-wgrad", .device_kind = "cpu", .plan = plan_wgrad};
