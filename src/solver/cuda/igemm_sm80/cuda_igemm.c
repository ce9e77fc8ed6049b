/* Solver cuda-igemm: fprop and dgrad as implicit GEMM on tensor cores (MMA). Any stride, dilation, padding, boundary,
 * layout and alignment. f16, bf16 and 8-bit types multiply directly; f32 as tf32 if allowed, else as 3xTF32, which
 * keeps 22 bits. A kernel packs the filter by depth: when planning if its values are known, else before each execution
 * in the workspace. With spans (channels that are not a multiple of 16 bytes) it packs one copy for each offset modulo
 * 16 bytes. Kernel: cuda_igemm.cu. Index relation: common/igemm.c. Tile search: cuda_igemm_tiles.c. Execution:
 * cuda_igemm_run.c. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/igemm_sm80/cuda_igemm.h"

enum { VECTOR = FALT_IGEMM_VECTOR };

static void print(const falt_plan *base, falt_text *text) {
  const falt_igemm_plan *plan = (const falt_igemm_plan *)base;
  const falt_igemm_tile *t = &plan->tile;
  falt_text_add(text, "(cuda-igemm %s %dx%dx%d stages=%d warps=%dx%d blocks=%d",
                t->wgmma      ? "3xtf32 wgmma"
                : plan->split ? "3xtf32"
                              : "mma",
                t->bm, t->bn, t->row, t->stages, t->warps[0], t->warps[1], t->blocks);
  if (t->split_k > 1) falt_text_add(text, " split-k=%d", t->split_k);
  if (plan->piece.gather) falt_text_add(text, " gather=%d", plan->piece.gather);
  if (plan->fold) falt_text_add(text, " fold");
  if (plan->spans) falt_text_add(text, " spans");
  if (plan->polyphases > 1) falt_text_add(text, " polyphases=%d", plan->polyphases);
  if (plan->merged > 1) falt_text_add(text, " merged=%d", plan->merged);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  falt_free(((falt_igemm_plan *)base)->polyphase);
  falt_cuda_plan_destroy(base);
}

/* ---- applicable */

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (!falt_reads_filter(p->operation)) return "it computes fprop and dgrad only";
  if (p->operation == FALT_BACKWARD_DATA && falt_igemm_folds(p))
    return "it takes no dgrad with a boundary that is not constant";
  return falt_igemm_refusal(ask, falt_igemm_roles_of(p).source->type, p->filter.type);
}

/* ---- plan: groups */

static int64_t channels_of(const falt_igemm_plan *plan, const falt_tensor *t) {
  return t->size[FALT_C] * plan->merged;
}

/* Merges as many groups as make a tap's channels a step and their outputs a tile, if columns come by eights and
 * channels by chunks: then no product mixes two groups. */
static int merge(const falt_problem *p, const falt_igemm_roles *r) {
  const int64_t bytes = r->source->size[FALT_C] * falt_igemm_size_of(r->source), rows = r->result->size[FALT_C];
  if (p->filter.size[FALT_G] == 1 || bytes % VECTOR || rows % 8 || falt_igemm_size_of(r->source) == 8) return 1;
  for (int step = 128; step >= 64; step /= 2) {
    const int merged = (int)(step / bytes);
    const int64_t columns = merged * rows;
    if (merged < 2 || step % bytes || (columns != 16 && columns != 32 && columns != 64)) continue;
    if (falt_igemm_merge(p, 1, merged) == merged) return merged;
  }
  return 1;
}

static void choose_groups(falt_igemm_plan *plan, const falt_igemm_roles *r) {
  plan->merged = merge(&plan->cuda.base.problem, r);
  plan->piece = falt_igemm_piece_of(r->source, plan->merged);
  if (plan->merged == 1 || plan->piece.unit == VECTOR) return;
  plan->merged = 1;
  plan->piece = falt_igemm_piece_of(r->source, 1);
}

/* ---- plan: polyphase parts */

static bool find_polyphases(falt_igemm_plan *plan, falt_ask *ask, const falt_igemm_roles *r) {
  const falt_problem *p = &plan->cuda.base.problem;
  const bool forward = p->operation == FALT_FORWARD;
  falt_igemm_axis axis[3];
  int64_t count[3];
  for (int i = 0; i < 3; i++) {
    axis[i] = falt_igemm_axis_of(p, r, i);
    count[i] = forward ? 1 : falt_igemm_polyphases(&axis[i]);
  }
  plan->groups = (int)(p->filter.size[FALT_G] / plan->merged);
  if (fmax(fmax((double)count[0], (double)count[1]), (double)count[2]) > FALT_IGEMM_GRID ||
      (double)count[0] * (double)count[1] * (double)count[2] > FALT_IGEMM_GRID) {
    falt_refuse(ask, "groups and polyphase parts are more than one launch can number");
    return false;
  }
  plan->polyphases = (int)(count[0] * count[1] * count[2]);
  plan->polyphase = falt_alloc((size_t)plan->polyphases * sizeof *plan->polyphase);
  if (!plan->polyphase) {
    falt_refuse_memory(ask);
    return false;
  }
  for (int64_t i = 0; i < plan->polyphases; i++) {
    const int64_t at[3] = {i / count[2] / count[1], i / count[2] % count[1], i % count[2]};
    for (int a = 0; a < 3; a++)
      plan->polyphase[i][a] = forward ? falt_igemm_forward(&axis[a]) : falt_igemm_backward(&axis[a], at[a]);
  }
  return true;
}

static int64_t taps_of(const falt_igemm_polyphase polyphase[3]) {
  return polyphase[0].taps * polyphase[1].taps * polyphase[2].taps;
}

/* The number of polyphase parts: of spans, or of a strided dgrad. */
static int64_t pixels_of(const falt_igemm_plan *plan, int i) {
  const falt_igemm_polyphase *polyphase = plan->polyphase[i];
  const int64_t all =
      plan->cuda.base.problem.input.size[FALT_N] * polyphase[0].results * polyphase[1].results * polyphase[2].results;
  return plan->spans && !plan->evenly.groups ? falt_ceil_div(all - i, plan->polyphases) : all;
}

/* A pixel's bits are one for each tap of each axis. */
static bool needs_places(const falt_igemm_plan *plan) {
  if (falt_igemm_folds(&plan->cuda.base.problem)) return true;
  for (int i = 0; i < plan->polyphases; i++)
    if (plan->polyphase[i][0].taps + plan->polyphase[i][1].taps + plan->polyphase[i][2].taps > FALT_CUDA_IGEMM_BITS)
      return true;
  return false;
}

/* ---- plan: the tile */

falt_igemm_depth falt_igemm_depth_of(const falt_igemm_plan *plan, const falt_igemm_roles *r) {
  const int64_t size = falt_igemm_size_of(r->source);
  falt_igemm_depth depth = {.channels = channels_of(plan, r->source),
                            .piece = plan->piece.gather ? plan->piece.gather : plan->piece.unit / size,
                            .channel_bytes = falt_igemm_channel_stride(r->source) * size,
                            .even = plan->evenly.even};
  for (int i = 0; i < 3; i++) depth.axis_bytes[i] = falt_cuda_stride(r->source, FALT_D + i) * size;
  return depth;
}

/* Of the depth. */
static int64_t tap_bytes(const falt_igemm_plan *plan, const falt_igemm_roles *r) {
  const falt_igemm_depth depth = falt_igemm_depth_of(plan, r);
  return plan->spans ? falt_igemm_span_bytes(&depth) : depth.channels * falt_igemm_size_of(r->source);
}

/* Bytes between neighbouring pixels with contiguous channels, or 0; for spans modulo 16. */
static int64_t apart_of(const falt_igemm_plan *plan, const falt_igemm_roles *r) {
  if (plan->spans) return plan->evenly.apart;
  if (!plan->piece.gather || falt_igemm_channel_stride(r->source) != 1) return 0;
  return falt_cuda_stride(r->source, FALT_W) * plan->polyphase[0][2].step * falt_igemm_size_of(r->source);
}

static falt_igemm_shape shape_of(const falt_igemm_plan *plan, const falt_igemm_roles *r, int64_t workspace) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_igemm_shape s = {
      .channels = channels_of(plan, r->result),
      .products = (int64_t)plan->groups * plan->polyphases,
      .bytes = falt_problem_bytes(p),
      .x_bytes = (int)falt_igemm_size_of(r->source),
      .y_bytes = (int)falt_igemm_size_of(r->result),
      .unit = plan->piece.unit,
      .merged = plan->merged,
      .step = plan->merged > 1 ? (int)(channels_of(plan, r->source) * falt_igemm_size_of(r->source)) : 0,
      .gather = plan->piece.gather,
      .apart = apart_of(plan, r),
      .fold = plan->fold,
      .spans = plan->spans,
      .split = plan->split,
      .planar = plan->planar,
      .ragged = !plan->planar && !plan->y_aligned,
      .split_k = plan->polyphases == 1,
      .real = falt_cuda_finishes_in_float(p),
      .workspace = workspace};
  double depth = 0;
  for (int i = 0; i < plan->polyphases; i++) {
    s.pixels = falt_max(s.pixels, pixels_of(plan, i));
    depth += (double)taps_of(plan->polyphase[i]) / plan->polyphases;
  }
  s.depth = (int64_t)ceil(depth * (double)tap_bytes(plan, r));
  if (plan->spans) s.bytes += (plan->polyphases - 1) * (double)s.depth * (double)s.channels * plan->groups;
  return s;
}

static void choose_tile(falt_igemm_plan *plan, const falt_ask *ask, const falt_igemm_roles *r) {
  const falt_machine machine = falt_cuda_machine(plan->cuda.base.device);
  const falt_igemm_shape shape = shape_of(plan, r, ask->budget->max_workspace);
  falt_igemm_choose(&shape, &machine, &plan->tile);
}

/* ---- plan: arguments */

static int64_t steps_of(const falt_igemm_plan *plan, const falt_igemm_roles *r,
                        const falt_igemm_polyphase polyphase[3]) {
  return falt_ceil_div(taps_of(polyphase) * tap_bytes(plan, r), plan->tile.row);
}

int falt_igemm_step_pieces(const falt_igemm_plan *plan) {
  return plan->piece.gather ? plan->tile.row / (plan->piece.gather * plan->piece.unit)
                            : plan->tile.row / plan->piece.unit;
}

/* Bytes between a multiple of 16 and the first positions of a polyphase part's pixels. */
static int64_t lead_of(const falt_igemm_plan *plan, const falt_igemm_roles *r, int i) {
  int64_t lead = i * plan->evenly.apart;
  for (int axis = 0; axis < 3; axis++)
    lead += plan->polyphase[i][axis].first * falt_cuda_stride(r->source, FALT_D + axis) * falt_igemm_size_of(r->source);
  return lead & (VECTOR - 1);
}

static falt_cuda_igemm_polyphase device_polyphase(const falt_igemm_plan *plan, const falt_igemm_roles *r, int index) {
  const falt_igemm_polyphase *polyphase = plan->polyphase[index];
  falt_cuda_igemm_polyphase d = {
      .pixels = (int)pixels_of(plan, index), .steps = (int)steps_of(plan, r, polyphase), .apart = 1};
  if (plan->spans) d.lead = (int)lead_of(plan, r, index);
  if (plan->spans && plan->evenly.groups) d.group = index;
  if (plan->spans && !plan->evenly.groups) d.begin = index, d.apart = plan->polyphases;
  for (int i = 0; i < 3; i++) {
    d.y += polyphase[i].begin * falt_cuda_stride(r->result, FALT_D + i);
    d.out[i] = (int)polyphase[i].results;
    d.first[i] = (int)polyphase[i].first;
    d.delta[i] = (int)polyphase[i].delta;
    d.taps[i] = (int)polyphase[i].taps;
    d.from[i] = (int)polyphase[i].from;
    d.pace[i] = (int)polyphase[i].pace;
    falt_igemm_divisor(d.out[i], &d.reciprocal[i], &d.shift[i]);
  }
  return d;
}

void falt_igemm_place_polyphases(const falt_igemm_plan *plan, const falt_igemm_roles *r, falt_cuda_igemm_polyphase *to,
                                 int64_t *entries, int64_t *bytes) {
  *entries = *bytes = 0;
  for (int i = 0; i < plan->polyphases; i++) {
    falt_cuda_igemm_polyphase d = device_polyphase(plan, r, i);
    d.table = (int)*entries;
    d.b = *bytes;
    *entries += (int64_t)d.steps * falt_igemm_step_pieces(plan);
    *bytes += (int64_t)d.steps * plan->tile.row * channels_of(plan, r->result) * plan->groups;
    if (to) to[i] = d;
  }
  if (plan->tile.wgmma) *bytes *= 2; /* the low parts behind the high ones */
}

static void set_source(falt_igemm_plan *plan, const falt_tensor *source) {
  plan->args.source = falt_igemm_source_of(&plan->cuda.base.problem, source, plan->merged);
  for (int i = 0; i < 3; i++) plan->args.source.step[i] = (int)plan->polyphase[0][i].step;
}

static void set_result(falt_igemm_plan *plan, const falt_tensor *result) {
  falt_cuda_igemm_args *a = &plan->args;
  const falt_tensor *residual = &plan->cuda.base.problem.residual;
  a->y_image = falt_cuda_stride(result, FALT_N);
  a->y_group = falt_cuda_stride(result, FALT_G) * plan->merged;
  a->y_channel = falt_igemm_channel_stride(result);
  a->r_image = falt_cuda_stride(residual, FALT_N);
  a->r_group = falt_cuda_stride(residual, FALT_G) * plan->merged;
  a->r_channel = falt_igemm_channel_stride(residual);
  for (int i = 0; i < 3; i++) {
    a->y_axis[i] = falt_cuda_stride(result, FALT_D + i) * plan->polyphase[0][i].pitch;
    a->r_axis[i] = falt_cuda_stride(residual, FALT_D + i);
  }
  a->groups = plan->groups;
  a->group_apart = plan->spans && plan->evenly.groups ? plan->polyphases : 1;
  a->channels = (int)channels_of(plan, result);
  a->channel_tiles = (int)falt_ceil_div(a->channels, plan->tile.bn);
  a->split_k = plan->tile.split_k;
  a->slice_steps = plan->tile.slice_steps;
  a->epilogue = falt_cuda_epilogue_of(&plan->cuda.base.problem);
}

static void set_pack(falt_igemm_plan *plan, const falt_igemm_roles *r) {
  const falt_tensor *w = &plan->cuda.base.problem.filter;
  plan->pack_args = (falt_cuda_igemm_pack_args){
      .w_group = falt_cuda_stride(w, FALT_G),
      .w_row = falt_cuda_stride(w, r->row),
      .w_channel = falt_cuda_stride(w, r->depth),
      .w_axis = {falt_cuda_stride(w, FALT_D), falt_cuda_stride(w, FALT_H), falt_cuda_stride(w, FALT_W)},
      .rows = (int)r->result->size[FALT_C],
      .channels = (int)r->source->size[FALT_C],
      .merged = plan->merged,
      .group_apart = plan->args.group_apart,
      .span = (int)(tap_bytes(plan, r) / falt_igemm_size_of(r->source)),
      .step_bytes = plan->tile.row};
  if (!plan->spans) return;
  for (int i = 0; i < 3; i++)
    plan->pack_args.lead_step[i] = (int)(plan->polyphase[0][i].delta * plan->args.source.axis[i] & (VECTOR - 1));
}

static bool set_args(falt_igemm_plan *plan, falt_ask *ask, const falt_igemm_roles *r) {
  int64_t entries, pixels = 0;
  falt_igemm_place_polyphases(plan, r, NULL, &entries, &plan->filter_bytes);
  for (int i = 0; i < plan->polyphases; i++) pixels = falt_max(pixels, pixels_of(plan, i));
  set_source(plan, r->source);
  set_result(plan, r->result);
  set_pack(plan, r);
  if (plan->tile.wgmma) plan->args.b_low = plan->pack_args.low = plan->filter_bytes / 2;
  plan->blocks = falt_ceil_div(pixels, plan->tile.bm) * plan->args.channel_tiles * plan->groups;
  plan->pack_blocks = falt_min(
      falt_ceil_div(plan->filter_bytes / falt_igemm_size_of(r->source) / plan->polyphases, 256 * plan->groups), 1024);
  plan->pack_blocks = falt_max(plan->pack_blocks, 1);
  if (entries < INT32_MAX / 16 && plan->blocks <= INT32_MAX) return true;
  falt_refuse(ask, "the filter or the output is larger than one launch can number");
  return false;
}

/* ---- plan: spans */

static bool find_spans(falt_igemm_plan *plan, const falt_igemm_roles *r) {
  if (plan->piece.unit == VECTOR || plan->merged > 1 || plan->polyphases > 1 || plan->fold) return false;
  return falt_igemm_find_spans(r->source, plan->polyphase[0], &plan->evenly) &&
         (!plan->evenly.groups || plan->groups % plan->evenly.polyphases == 0);
}

static bool take_spans(falt_igemm_plan *plan) {
  const int polyphases = plan->evenly.polyphases;
  falt_igemm_polyphase(*polyphase)[3] = falt_alloc((size_t)polyphases * sizeof *polyphase);
  if (!polyphase) return false;
  for (int i = 0; i < polyphases; i++) memcpy(polyphase[i], plan->polyphase[0], sizeof *polyphase);
  plan->polyphase = polyphase;
  plan->polyphases = polyphases;
  if (plan->evenly.groups) plan->groups /= polyphases;
  plan->spans = true;
  plan->piece = (falt_igemm_piece){.unit = VECTOR};
  return true;
}

static int64_t packed_bytes(const falt_igemm_plan *plan, const falt_igemm_roles *r) {
  int64_t entries, bytes;
  falt_igemm_place_polyphases(plan, r, NULL, &entries, &bytes);
  return bytes;
}

/* The estimate of a plan. A filter of unknown values is packed before each execution; a known one is loaded while the
 * preceding kernel ends, together with the tables. */
static double seconds_of(const falt_igemm_plan *plan, const falt_ask *ask, const falt_igemm_roles *r) {
  const double bytes = (double)packed_bytes(plan, r),
               slower = falt_tensor_unit(&ask->problem->filter, r->depth) ? 2.2 : 3;
  const double packing = 2e-6 + slower * bytes / plan->cuda.base.device->limits.copy_bytes_per_s;
  return plan->tile.seconds + (ask->filter_values ? 2.2e-6 : 3e-6 + packing);
}

/* Where they cost no more, and the workspace has room for the filter if it is packed there. */
static bool are_better(const falt_igemm_plan *spans, const falt_igemm_plan *plan, const falt_ask *ask,
                       const falt_igemm_roles *r) {
  const int64_t most = ask->budget->max_workspace;
  if (spans->tile.bm == 0) return false;
  if (!ask->filter_values && most >= 0 && packed_bytes(spans, r) > most) return false;
  return plan->tile.bm == 0 || seconds_of(spans, ask, r) <= seconds_of(plan, ask, r);
}

static bool choose_spans(falt_igemm_plan *plan, falt_ask *ask, const falt_igemm_roles *r) {
  falt_igemm_plan spans = *plan;
  if (!take_spans(&spans)) {
    falt_refuse_memory(ask);
    return false;
  }
  choose_tile(&spans, ask, r);
  const bool better = are_better(&spans, plan, ask, r);
  falt_free(better ? plan->polyphase : spans.polyphase);
  if (better) *plan = spans;
  return true;
}

/* ---- plan */

static bool make(falt_igemm_plan *plan, falt_ask *ask, const falt_igemm_roles *r) {
  choose_groups(plan, r);
  plan->split = plan->cuda.base.splits = r->source->type == FALT_F32 && !ask->budget->allow_tf32;
  plan->planar = channels_of(plan, r->result) > 1 && falt_igemm_channel_stride(r->result) != 1 &&
                 falt_tensor_unit(r->result, FALT_W);
  plan->y_aligned = falt_igemm_channel_stride(r->result) == 1 &&
                    channels_of(plan, r->result) * falt_igemm_size_of(r->result) % VECTOR == 0 &&
                    falt_igemm_strides_divide(r->result, plan->merged, VECTOR / falt_igemm_size_of(r->result));
  if (!find_polyphases(plan, ask, r)) return false;
  plan->fold = needs_places(plan);
  choose_tile(plan, ask, r);
  if (find_spans(plan, r) && !choose_spans(plan, ask, r)) return false;
  if (plan->tile.bm > 0) return set_args(plan, ask, r);
  falt_refuse(ask, "no tile fits the GPU");
  return false;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  falt_igemm_plan *plan = (falt_igemm_plan *)base;
  const falt_igemm_roles r = falt_igemm_roles_of(&base->problem);
  if (!make(plan, ask, &r)) return ask->reason;
  base->cost.seconds = seconds_of(plan, ask, &r);
  plan->partial_at = plan->cuda.values ? 0 : falt_round_up(plan->filter_bytes, 256);
  base->workspace = (size_t)(plan->partial_at + plan->tile.workspace);
  if (r.source->type == FALT_F32 && !plan->split) base->cost.error = FALT_TF32_ERROR;
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(falt_igemm_plan), {falt_igemm_execute, print, destroy, falt_igemm_ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_igemm;
const falt_solver falt_solver_cuda_igemm = {
    .name = "cuda-igemm", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps};
