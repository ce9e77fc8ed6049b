/* Solver depthwise-nchw: NCHW depthwise layers, fprop and dgrad. Transposes a few images to NHWC in f32 in the
 * workspace, runs an NHWC plan, and transposes its output back. */
#include <math.h>

#include "core/memory.h"
#include "planner/planner.h"
#include "solver/cpu/common/widen.h"
#include "solver/cpu/filter/filter_kernels.h"
#include "solver/cpu/fprop/layer_kernels.h"

/* Kernels along channels take a fraction of the time of kernels along rows where rows are short, and a transpose in
 * registers costs little more than a copy. The images of one step are so few that both tensors stay in the caches. */

enum {
  CHANNELS = 64, /* of a task */
  PIXELS = 256,
  CONVERTED = 16,  /* channels that are widened or narrowed at a time */
  PIECE = 3 << 18, /* elements of the images that are transposed at a time, if one has not more */
  LEAST_CHANNELS = 8
};

typedef struct nchw_plan {
  falt_plan base;
  falt_plan *child;
  const falt_layer_kernels *kernels;
  int64_t images, pieces;
  size_t source, result, inner; /* offsets into the workspace; inner: the child's */
} nchw_plan;

/* ---- tensors */

static falt_tensor *source_of(falt_problem *p) {
  return p->operation == FALT_FORWARD ? &p->input : &p->output;
}

static falt_tensor *result_of(falt_problem *p) {
  return p->operation == FALT_FORWARD ? &p->output : &p->input;
}

static int64_t pixels_of(const falt_tensor *t) {
  return t->size[FALT_D] * t->size[FALT_H] * t->size[FALT_W];
}

/* Whether the pixels of a channel follow each other. */
static bool has_adjacent_pixels(const falt_tensor *t) {
  int64_t stride = 1;
  for (int dim = FALT_W; dim >= FALT_D; dim--) {
    if (t->size[dim] > 1 && t->stride[dim] != stride) return false;
    stride *= t->size[dim];
  }
  return stride > 1;
}

/* A number of images of the same shape in f32 with adjacent channels. */
static falt_tensor transposed(const falt_tensor *from, int64_t images) {
  static const int outwards[] = {FALT_G, FALT_C, FALT_W, FALT_H, FALT_D, FALT_N};
  falt_tensor t = *from;
  int64_t stride = 1;
  t.type = FALT_F32;
  t.size[FALT_N] = images;
  t.offset = 0;
  for (int i = 0; i < FALT_DIMS; i++) {
    t.stride[outwards[i]] = stride;
    stride *= t.size[outwards[i]];
  }
  return t;
}

static falt_problem inner_problem(const nchw_plan *plan) {
  falt_problem inner = plan->base.problem;
  inner.input = transposed(&inner.input, plan->images);
  inner.output = transposed(&inner.output, plan->images);
  inner.accumulator = FALT_F32;
  falt_problem_canonical(&inner);
  return inner;
}

/* ---- transposes */

typedef struct transposing {
  const falt_layer_kernels *kernels;
  const falt_filter_kernels *rows; /* convert rows of narrow elements */
  const falt_tensor *planar;       /* the caller's tensor */
  char *data;                      /* its first image and group */
  float *packed;                   /* the workspace */
  bool back;
  int64_t channel_blocks, pixel_blocks;
} transposing;

/* Rows of `pixels` neighbours, `step` apart, one for each of some channels. */
typedef struct planar_rows {
  char *data;
  int64_t step, channels, pixels;
} planar_rows;

static void transpose_floats(const transposing *job, planar_rows rows, float *packed) {
  const int64_t channels = job->planar->size[FALT_G];
  float *planar = (float *)(void *)rows.data;
  if (job->back)
    job->kernels->copy(&(falt_layer_copy){.from = packed,
                                          .to = planar,
                                          .step = channels,
                                          .from_pitch = 1,
                                          .to_pitch = rows.step,
                                          .n = rows.pixels,
                                          .count = rows.channels});
  else
    job->kernels->copy(&(falt_layer_copy){.from = planar,
                                          .to = packed,
                                          .step = rows.step,
                                          .from_pitch = 1,
                                          .to_pitch = channels,
                                          .n = rows.channels,
                                          .count = rows.pixels});
}

/* By way of a few rows in f32 that stay in the first cache. */
static void transpose_narrow(const transposing *job, planar_rows rows, float *packed) {
  static const falt_row_epilogue none = {.alpha = 1, .low = -INFINITY, .high = INFINITY};
  const falt_type type = job->planar->type;
  const int64_t apart = rows.step * (int64_t)falt_type_size(type);
  float wide[CONVERTED * PIXELS];
  for (int64_t c = 0; c < rows.channels; c += CONVERTED) {
    const int64_t channels = falt_min(CONVERTED, rows.channels - c);
    char *narrow = rows.data + c * apart;
    for (int64_t k = 0; k < channels && !job->back; k++)
      job->rows->load[FALT_LANE_F32][type](wide + k * PIXELS, narrow + k * apart, 1, rows.pixels);
    transpose_floats(job, (planar_rows){(char *)wide, PIXELS, channels, rows.pixels}, packed + c);
    for (int64_t k = 0; k < channels && job->back; k++)
      job->rows->store[FALT_LANE_F32][type](narrow + k * apart, 1, wide + k * PIXELS, rows.pixels, &none, false);
  }
}

static void transpose_block(void *context, int64_t index) {
  const transposing *job = context;
  const falt_tensor *t = job->planar;
  const int64_t channels = t->size[FALT_G], pixels = pixels_of(t), apart = t->stride[FALT_G];
  const int64_t pixel = index % job->pixel_blocks * PIXELS, rest = index / job->pixel_blocks;
  const int64_t channel = rest % job->channel_blocks * CHANNELS, image = rest / job->channel_blocks;
  const int64_t at = image * t->stride[FALT_N] + channel * apart + pixel;
  const planar_rows rows = {.data = job->data + at * (int64_t)falt_type_size(t->type),
                            .step = apart,
                            .channels = falt_min(CHANNELS, channels - channel),
                            .pixels = falt_min(PIXELS, pixels - pixel)};
  float *packed = job->packed + (image * pixels + pixel) * channels + channel;
  if (!falt_cancelled()) (t->type == FALT_F32 ? transpose_floats : transpose_narrow)(job, rows, packed);
}

/* Images [first, first + plan->images) of a tensor to the workspace, or back from it. */
static void transpose(const nchw_plan *plan, const falt_tensor *planar, void *data, int64_t first, void *packed,
                      bool back) {
  transposing job = {.kernels = plan->kernels, .planar = planar, .packed = packed, .back = back};
  job.rows = falt_filter_kernels_for(plan->base.device->isa);
  job.data = (char *)data + (planar->offset + first * planar->stride[FALT_N]) * (int64_t)falt_type_size(planar->type);
  job.channel_blocks = falt_ceil_div(planar->size[FALT_G], CHANNELS);
  job.pixel_blocks = falt_ceil_div(pixels_of(planar), PIXELS);
  falt_parallel_for(plan->base.device->threads, plan->images * job.channel_blocks * job.pixel_blocks, transpose_block,
                    &job);
}

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *operands) {
  const nchw_plan *plan = (const nchw_plan *)base;
  const bool forward = base->problem.operation == FALT_FORWARD;
  falt_problem p = base->problem;
  char *workspace = operands->workspace;
  falt_operands inner = *operands;
  inner.workspace = workspace + plan->inner;
  inner.input = workspace + (forward ? plan->source : plan->result);
  inner.output = workspace + (forward ? plan->result : plan->source);
  for (int64_t i = 0; i < plan->pieces && !falt_cancelled(); i++) {
    const int64_t first = i * plan->images;
    const falt_progress_range all =
        falt_progress_enter((double)i / (double)plan->pieces, (double)(i + 1) / (double)plan->pieces);
    transpose(plan, source_of(&p), forward ? operands->input : operands->output, first, workspace + plan->source,
              false);
    falt_plan_run(plan->child, &inner);
    transpose(plan, result_of(&p), forward ? operands->output : operands->input, first, workspace + plan->result, true);
    falt_progress_leave(all);
  }
}

static void print(const falt_plan *base, falt_text *text) {
  const nchw_plan *plan = (const nchw_plan *)base;
  falt_text_add(text, "(depthwise-nchw images=%lld ", (long long)plan->images);
  plan->child->table->print(plan->child, text);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  nchw_plan *plan = (nchw_plan *)base;
  falt_plan_destroy(&plan->child);
  falt_free(plan);
}

static falt_status ready(falt_plan *base) {
  return falt_plan_ready(((nchw_plan *)base)->child);
}

/* ---- applicable */

static const char *refusal(falt_problem *p) {
  const bool maps = p->operation == FALT_FORWARD || p->operation == FALT_BACKWARD_DATA;
  return !maps                                                        ? "only forward and backward-data"
         : !falt_problem_is_f32(p) && falt_widen_refusal(p)           ? falt_widen_refusal(p)
         : p->filter.size[FALT_C] != 1 || p->filter.size[FALT_K] != 1 ? "a group has more than one channel in or out"
         : p->filter.size[FALT_G] < LEAST_CHANNELS                    ? "too few channels for vectors"
         : p->has_residual                                            ? "residuals are not transposed"
         : falt_problem_pools(p)                                      ? "it does not pool"
         : !has_adjacent_pixels(source_of(p)) || !has_adjacent_pixels(result_of(p))
             ? "pixels are not adjacent in memory"
             : NULL;
}

/* ---- plan */

/* As many images as stay in the caches, and divide the batch. */
static void set_pieces(nchw_plan *plan) {
  falt_problem p = plan->base.problem;
  const int64_t batch = p.input.size[FALT_N];
  const int64_t image = p.filter.size[FALT_G] * falt_max(1, pixels_of(&p.input) + pixels_of(&p.output));
  plan->images = falt_max(1, falt_min(batch, PIECE / image));
  while (batch % plan->images) plan->images--;
  plan->pieces = batch / plan->images;
}

static size_t bytes_of(const nchw_plan *plan, const falt_tensor *t) {
  return (size_t)(plan->images * t->size[FALT_G] * pixels_of(t)) * sizeof(float);
}

/* Operations in the time of transposing an element in the caches; memory traffic is in the child's estimate. */
static const double each = 16;

static double seconds_of(const nchw_plan *plan, const falt_tensor *t, double conversion) {
  const double elements = (double)(bytes_of(plan, t) / sizeof(float));
  const double flops = each * elements + (t->type == FALT_F32 ? 0 : conversion / (double)plan->pieces);
  return falt_roofline(plan->base.device, FALT_F32, flops, 1, 0);
}

static falt_plan *plan_nchw(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy, .ready = ready};
  falt_problem p = *ask->problem;
  const char *reason = refusal(&p);
  if (reason) return falt_refuse(ask, "%s", reason);
  nchw_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->kernels = falt_layer_kernels_for(ask->device->isa);
  set_pieces(plan);
  const falt_problem inner = inner_problem(plan);
  plan->child = falt_plan_child(ask, &inner, ask->filter_values);
  if (!plan->child) {
    destroy(&plan->base);
    return NULL;
  }
  falt_memory_layout *all = &plan->base.layout;
  plan->inner = falt_place_child(all, plan->child);
  plan->source = falt_place_part(all, bytes_of(plan, source_of(&p)));
  plan->result = falt_place_part(all, bytes_of(plan, result_of(&p)));
  plan->base.workspace = all->total;
  plan->base.packed = plan->child->packed;
  plan->base.cost = plan->child->cost;
  plan->base.cost.seconds += seconds_of(plan, source_of(&p), falt_widen_flops(source_of(&p)));
  plan->base.cost.seconds += seconds_of(plan, result_of(&p), falt_narrow_flops(result_of(&p)));
  plan->base.cost.seconds *= (double)plan->pieces;
  return &plan->base;
}

extern const falt_solver falt_solver_depthwise_nchw;
const falt_solver falt_solver_depthwise_nchw = {.name = "depthwise-nchw", .device_kind = "cpu", .plan = plan_nchw};
