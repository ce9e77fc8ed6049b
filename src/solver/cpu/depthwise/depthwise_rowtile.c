/* Solver depthwise-rowtile: NHWC depthwise fprop of 3x3, 5x5 or 7x7 taps in blocks of three or two rows. `depthwise`
 * computes the rest: other taps, dilation, other boundaries, few channels, short rows. Both give the same bits.
 *
 *     y[p, g] = sum over taps j of  w[g, j] * x[p*stride + j - pad, g]
 */
#include <stdint.h>
#include <string.h>

#include "solver/common/tasks.h"
#include "solver/cpu/depthwise/depthwise_rowtile.h"

/* Nine multiply-adds take less time than loading an element from the L2 cache, and one output row at a time reads each
 * row of x three times. depthwise_rowtile_kernels.h reads five rows for three output rows of 3x3 taps, and eight rows
 * for two output rows of 7x7 taps. Narrow elements are read in place and converted to f32 in registers. */

typedef struct rowtile_plan {
  falt_plan base;
  falt_layer layer; /* the epilogue */
  const falt_block_kernels *kernels;
  int64_t channels, vectors;
  falt_layer_pieces blocks; /* of vectors */
  falt_layer_pieces bands;  /* of groups of all images */
  bool stream;              /* outputs bypass the caches */
  const void *values;       /* the filter, from planning until it is packed */
  float *packed;            /* or NULL if the filter is given with each execution */
  falt_tensor wide;         /* the filter in f32 */
  size_t wide_bytes;
  bool in_time;        /* each task packs the vectors of a given filter that it needs */
  size_t factors;      /* offset into the workspace */
  size_t filter, room; /* of a given filter, packed and in f32: there, or in each worker's scratch */
  falt_memory_layout scratch;
} rowtile_plan;

/* ---- packing: vectors of (tap, lane) */

typedef struct packing {
  const rowtile_plan *plan;
  const falt_layer_kernels *copies;
  const float *filter;
  float *packed;
  falt_layer_pieces tasks; /* of vectors */
} packing;

enum { PACKED_BY_TASK = 1 << 14 }; /* elements: less is not worth waking a thread for */

static int64_t vector_elements(const rowtile_plan *plan) {
  return plan->wide.size[FALT_H] * plan->wide.size[FALT_W] * plan->kernels->width;
}

static void pack_vectors(const packing *pack, int64_t begin, int64_t end) {
  const rowtile_plan *plan = pack->plan;
  const falt_tensor *w = &plan->wide;
  const int64_t width = plan->kernels->width;
  for (int64_t v = begin; v < end && !falt_cancelled(); v++) {
    const int64_t first = falt_block_channel(v, width, plan->channels);
    falt_layer_copy_taps(pack->copies, w, pack->filter + falt_tensor_at(w, 0, first, 0, 0, 0, 0), w->stride[FALT_G],
                         width, pack->packed + v * vector_elements(plan), width);
  }
}

static void pack_task(void *context, int64_t index) {
  const packing *pack = context;
  pack_vectors(pack, falt_layer_piece(&pack->tasks, index), falt_layer_piece(&pack->tasks, index + 1));
}

/* The vectors of a block, in memory for all of them. */
static void pack_block(const rowtile_plan *plan, const void *filter, int64_t block, float *room, float *packed) {
  const int64_t width = plan->kernels->width, begin = falt_layer_piece(&plan->blocks, block);
  const int64_t end = block + 1 == plan->blocks.count ? plan->vectors : falt_layer_piece(&plan->blocks, block + 1);
  falt_tensor given = plan->base.problem.filter, wide = plan->wide;
  const bool narrow = given.type != FALT_F32;
  if (narrow) {
    const int64_t first = falt_block_channel(begin, width, plan->channels);
    given.size[FALT_G] = wide.size[FALT_G] = falt_block_channel(end - 1, width, plan->channels) + width - first;
    given.offset += first * given.stride[FALT_G];
    falt_upconvert(plan->base.device, &given, filter, &wide, room + first * wide.stride[FALT_G]);
  }
  const packing p = {.plan = plan,
                     .copies = falt_layer_kernels_for(plan->base.device->isa),
                     .filter = narrow ? room : filter,
                     .packed = packed};
  pack_vectors(&p, begin, end);
}

/* `room` takes a narrow filter in f32. */
static void pack(const rowtile_plan *plan, const void *filter, float *room, float *packed) {
  const falt_tensor *given = &plan->base.problem.filter;
  if (given->type != FALT_F32) falt_upconvert(plan->base.device, given, filter, &plan->wide, room);
  const int64_t tasks = falt_ceil_div(plan->vectors * vector_elements(plan), PACKED_BY_TASK);
  packing p = {.plan = plan,
               .copies = falt_layer_kernels_for(plan->base.device->isa),
               .filter = given->type != FALT_F32 ? room : filter,
               .packed = packed,
               .tasks = falt_layer_cut(plan->vectors, falt_min(plan->vectors, tasks))};
  falt_parallel_for(plan->base.device->threads, p.tasks.count, pack_task, &p);
}

/* ---- execute */

typedef struct execution {
  const rowtile_plan *plan;
  const char *source;
  char *result;
  const float *weights; /* NULL: tasks pack */
  const void *filter;
  const falt_block_finish *finish;
  bool stream;
} execution;

static void run_group(const execution *run, int64_t group, int64_t index, const float *weights) {
  const falt_problem *p = &run->plan->base.problem;
  falt_block block = falt_depthwise_block_of(p, run->plan->kernels, &run->plan->blocks, index, run->source, group);
  const void *rows[FALT_BLOCK_ROWS];
  falt_depthwise_block_rows(p, run->result, group, rows);
  for (int r = 0; r < block.rows; r++) block.out[r] = (void *)(uintptr_t)rows[r];
  block.result_type = p->output.type;
  block.out_pixel = p->output.stride[FALT_W];
  block.weights = weights;
  block.finish = run->finish;
  block.stream = run->stream;
  run->plan->kernels->sums(&block);
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const rowtile_plan *plan = run->plan;
  const float *weights = run->weights;
  const int64_t band = falt_generic_digit(&index, plan->bands.count);
  const int64_t last = falt_layer_piece(&plan->bands, band + 1);
  if (!weights) {
    float *packed = (float *)(void *)((char *)scratch + plan->filter);
    pack_block(plan, run->filter, index, (float *)(void *)((char *)scratch + plan->room), packed);
    weights = packed;
  }
  for (int64_t group = falt_layer_piece(&plan->bands, band); group < last && !falt_cancelled(); group++)
    run_group(run, group, index, weights);
}

static void run_shared(void *context, int64_t index) {
  run_task(context, index, NULL);
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const rowtile_plan *plan = (const rowtile_plan *)base;
  char *workspace = operands->workspace;
  falt_block_finish finish = {.curve = plan->layer.curve,
                              .slope = (float)base->problem.act_a,
                              .low = (float)plan->layer.low,
                              .high = (float)plan->layer.high};
  execution run = {.plan = plan, .source = operands->input, .result = operands->output, .weights = plan->packed};
  run.filter = operands->filter;
  if (!plan->packed && !plan->in_time) {
    float *filter = (float *)(void *)(workspace + plan->filter);
    pack(plan, operands->filter, (float *)(void *)(workspace + plan->room), filter);
    run.weights = filter;
  }
  if (!plan->layer.plain) {
    float *factors = (float *)(void *)(workspace + plan->factors);
    falt_layer_factors(&plan->layer, operands, factors);
    finish.scale = factors;
    finish.offset = factors + plan->channels;
    run.finish = &finish;
  }
  run.stream = plan->stream && (uintptr_t)run.result % FALT_ALIGN == 0;
  const int64_t tasks = plan->blocks.count * plan->bands.count;
  if (plan->in_time)
    falt_rows_run(base->device, &(falt_row_job){run_task, &run, tasks, plan->scratch.total}, workspace);
  else
    falt_parallel_for(base->device->threads, tasks, run_shared, &run);
}

static void print(const falt_plan *base, falt_text *text) {
  const rowtile_plan *plan = (const rowtile_plan *)base;
  falt_text_add(text, "(depthwise-rowtile %s %dx%d channels=%lld rows=%lld threads=%d)",
                falt_isa_name(base->device->isa), falt_block_rows(base->problem.filter.size[FALT_W]),
                plan->kernels->positions,
                (long long)falt_min(plan->channels, falt_layer_most(&plan->blocks) * plan->kernels->width),
                (long long)falt_layer_most(&plan->bands) * falt_block_rows(base->problem.filter.size[FALT_W]),
                falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *base) {
  falt_free(((rowtile_plan *)base)->packed);
  falt_free(base);
}

/* ---- applicable */

static bool all_f32(const falt_problem *p) {
  return p->input.type == FALT_F32 && p->filter.type == FALT_F32 && p->output.type == FALT_F32 &&
         p->accumulator == FALT_F32;
}

static const char *refusal(const falt_problem *p, const falt_block_kernels *kernels) {
  return p->operation != FALT_FORWARD                                       ? "only forward"
         : !falt_block_has(p->output.type, 3) && p->output.type != FALT_S32 ? "the output's type has no kernel"
         : !all_f32(p) && falt_upconvert_refusal(p)                         ? falt_upconvert_refusal(p)
         : falt_depthwise_block_refusal(p, kernels)                         ? falt_depthwise_block_refusal(p, kernels)
         : p->has_residual                                                  ? "residuals are not fused here"
         : p->output.size[FALT_W] < kernels->positions                      ? "fewer positions than a block"
                                                                            : NULL;
}

/* ---- estimate */

/* Fraction of the multiply-add peak in the L1 cache: of 3x3 taps, and of more. */
static const double share = 0.7, larger_share = 0.85;
static const double float_packed = 32; /* operations in the time of packing an element in a transpose */

static double estimate(const rowtile_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->base.problem;
  const double filter = plan->base.packed ? 0 : float_packed * (double)falt_tensor_count(&p->filter);
  return falt_roofline(device, FALT_F32, falt_depthwise_block_flops(p, plan->kernels) + filter,
                       p->filter.size[FALT_W] > 3 ? larger_share : share, falt_problem_bytes(p));
}

/* ---- plan */

/* Enough tasks for all threads. */
static void set_tasks(rowtile_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  const falt_device *device = plan->base.device;
  const int64_t threads = falt_threads_count(device->threads), wanted = threads == 1 ? 1 : 4 * threads;
  const int64_t groups = p->input.size[FALT_N] * falt_depthwise_block_groups(p), bands = falt_min(groups, wanted);
  plan->blocks = falt_depthwise_block_cut(p, device, plan->kernels, falt_ceil_div(wanted, bands));
  plan->bands = falt_layer_cut(groups, falt_min(groups, falt_ceil_div(wanted, plan->blocks.count)));
}

/* Whether every vector of the outputs begins at a line. */
static bool whole_lines(const rowtile_plan *plan) {
  const falt_tensor *y = &plan->base.problem.output;
  const int64_t line = FALT_ALIGN / (int64_t)sizeof(float);
  return y->type == FALT_F32 && plan->kernels->width == line && plan->channels % line == 0 && y->offset % line == 0 &&
         y->stride[FALT_N] % line == 0 && y->stride[FALT_H] % line == 0 && y->stride[FALT_W] % line == 0;
}

/* Whether packing a block's vectors again for each band takes a thread less time than waiting for others and loading
 * what they packed from their caches. Measured on 16 threads; two are faster together. */
static bool packs_in_time(const rowtile_plan *plan) {
  const int64_t all = plan->vectors * vector_elements(plan), threads = falt_threads_count(plan->base.device->threads);
  return !plan->base.packed && threads > 2 && (plan->bands.count - 1) * all <= PACKED_BY_TASK * threads;
}

static size_t packed_bytes(const rowtile_plan *plan) {
  return (size_t)(plan->vectors * vector_elements(plan)) * sizeof(float);
}

static void lay_memory(rowtile_plan *plan) {
  const bool packs = !plan->base.packed;
  falt_memory_layout *all = &plan->base.layout, *filter = plan->in_time ? &plan->scratch : all;
  plan->filter = falt_place_part(filter, packs ? packed_bytes(plan) : 0);
  plan->room = falt_place_part(filter, packs && plan->base.problem.filter.type != FALT_F32 ? plan->wide_bytes : 0);
  if (plan->in_time) falt_rows_place(all, plan->base.device, &plan->scratch);
  plan->factors = falt_place_part(all, plan->layer.plain ? 0 : 2 * (size_t)plan->channels * sizeof(float));
  plan->base.workspace = all->total;
}

/* Packs a filter that is known: only for the plan that was chosen. */
static falt_status ready(falt_plan *base) {
  rowtile_plan *plan = (rowtile_plan *)base;
  if (!plan->values) return FALT_OK;
  float *room = falt_alloc(plan->wide_bytes);
  plan->packed = falt_alloc(packed_bytes(plan));
  const bool fits = room && plan->packed;
  if (fits) pack(plan, plan->values, room, plan->packed);
  falt_free(room);
  plan->values = NULL;
  return fits ? FALT_OK : falt_fail(FALT_NO_MEMORY, "planning: memory for the packed filter ran out");
}

static falt_plan *plan_rowtile(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  const falt_block_kernels *kernels = falt_block_kernels_for(ask->device->isa);
  const char *reason = refusal(ask->problem, kernels);
  if (reason) return falt_refuse(ask, "%s", reason);
  rowtile_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  const falt_problem *p = &plan->base.problem;
  plan->wide = p->filter;
  if (p->filter.type != FALT_F32 && !falt_upconvert_shape(&plan->wide, &p->filter, &plan->wide_bytes)) {
    destroy(&plan->base);
    return falt_refuse(ask, "its filter in f32 exceeds 2^63 bytes");
  }
  falt_layer_epilogue(&plan->layer, p);
  plan->kernels = kernels;
  plan->channels = p->input.size[FALT_G];
  plan->vectors = falt_ceil_div(plan->channels, kernels->width);
  set_tasks(plan);
  plan->stream = falt_bypasses_caches(ask->device, falt_problem_bytes(p)) && whole_lines(plan);
  plan->values = ask->filter_values;
  plan->base.packed = plan->values != NULL;
  plan->in_time = packs_in_time(plan);
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_depthwise_rowtile;
const falt_solver falt_solver_depthwise_rowtile = {
    .name = "depthwise-rowtile", .device_kind = "cpu", .avx2 = 2, .plan = plan_rowtile};
