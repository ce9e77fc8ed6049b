/* Solver cuda-wgrad: wgrad of layers, with the bias gradient, as implicit GEMM on tensor cores (MMA). Floating-point
 * types, any stride, dilation, padding, boundary, layout and alignment. Split-K slices of the pixels are added in a
 * fixed order, so the output is deterministic. Kernel: cuda_wgrad.cu. Tile search: cuda_wgrad_tiles.c. */
#include "core/memory.h"
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"

enum { LEAST_ROWS = 16, VECTOR = FALT_IGEMM_VECTOR };
enum { Y, X };

typedef struct wgrad_plan {
  falt_cuda_plan cuda; /* its memory: the constant, a one, tables */
  falt_cuda_igemm_wgrad_args args;
  falt_igemm_wgrad_tile tile;
  falt_igemm_piece piece[2];
  int merged;
  bool fold, split;
} wgrad_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  const falt_problem *p = &base->problem;
  falt_cuda_igemm_wgrad_args args = plan->args;
  args.y.data = falt_cuda_element(o->output, &p->output);
  args.x.data = falt_cuda_element(o->input, &p->input);
  args.y.aligned = (uintptr_t)args.y.data % (uintptr_t)plan->piece[Y].unit == 0;
  args.x.aligned = (uintptr_t)args.x.data % (uintptr_t)plan->piece[X].unit == 0;
  args.w = falt_cuda_element(o->filter, &p->filter);
  args.bias = p->has_bias ? o->bias : NULL;
  args.partial = plan->tile.split_k > 1 ? o->workspace : NULL;
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {plan->cuda.function,
                                  (int64_t)args.row_tiles * args.column_tiles,
                                  {32 * plan->tile.warps[0] * plan->tile.warps[1], 1},
                                  plan->tile.shared_bytes,
                                  o->stream};
  const int blocks_yz[2] = {args.split_k, args.groups};
  falt_gpu_start_early(base->device->gpu, &launch, blocks_yz, parameters);
  if (args.partial) falt_igemm_add_slices(base, plan->cuda.sum, &args, o);
}

static void print(const falt_plan *base, falt_text *text) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  const falt_igemm_wgrad_tile *t = &plan->tile;
  falt_text_add(text, "(cuda-wgrad %s %dx%d pixels=%d stages=%d warps=%dx%d blocks=%d split-k=%lld",
                plan->split ? "3xtf32" : "mma", t->bm, t->bn, t->pixels, t->stages, t->warps[0], t->warps[1], t->blocks,
                (long long)t->split_k);
  if (plan->piece[Y].gather || plan->piece[X].gather)
    falt_text_add(text, " gather=%dx%d", plan->piece[Y].gather, plan->piece[X].gather);
  if (plan->fold) falt_text_add(text, " fold");
  if (plan->merged > 1) falt_text_add(text, " merged=%d", plan->merged);
  falt_text_add(text, ")");
}

/* ---- applicable */

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (p->operation != FALT_BACKWARD_FILTER) return "it computes wgrad only";
  if (falt_type_is_integer(p->input.type)) return "tensor cores multiply 8-bit types along contiguous depth only";
  return falt_igemm_refusal(ask, p->output.type, p->input.type);
}

/* ---- plan: sizes */

static int64_t size_of(const falt_tensor *t) {
  return (int64_t)falt_type_size(t->type);
}

static int64_t taps_of(const falt_problem *p) {
  return p->filter.size[FALT_D] * p->filter.size[FALT_H] * p->filter.size[FALT_W];
}

static int64_t rows_of(const wgrad_plan *plan) {
  return plan->cuda.base.problem.output.size[FALT_C] * plan->merged;
}

static int64_t channels_of(const wgrad_plan *plan) {
  return plan->cuda.base.problem.input.size[FALT_C] * plan->merged;
}

/* Channels of a piece. */
static int64_t piece_channels(const wgrad_plan *plan, int which) {
  const falt_igemm_piece *piece = &plan->piece[which];
  return piece->gather ? piece->gather : piece->unit / size_of(&plan->cuda.base.problem.input);
}

/* The taps, and for the bias gradient a piece whose first column is ones. */
static int64_t columns_of(const wgrad_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  return taps_of(p) * channels_of(plan) + (p->has_bias ? 1 : 0);
}

static int64_t pixels_of(const falt_problem *p) {
  const int64_t *out = p->output.size;
  return out[FALT_N] * out[FALT_D] * out[FALT_H] * out[FALT_W];
}

/* A pixel's bits are one for each tap of each axis. */
static bool needs_places(const falt_problem *p) {
  return p->filter.size[FALT_D] + p->filter.size[FALT_H] + p->filter.size[FALT_W] > FALT_CUDA_IGEMM_BITS;
}

/* ---- plan: the tile */

static bool choose_tile(wgrad_plan *plan, falt_ask *ask) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_machine machine = falt_cuda_machine(plan->cuda.base.device);
  const falt_igemm_wgrad_shape shape = {.pixels = pixels_of(p),
                                        .rows = rows_of(plan),
                                        .columns = columns_of(plan),
                                        .groups = p->filter.size[FALT_G] / plan->merged,
                                        .bytes = falt_problem_bytes(p),
                                        .x_bytes = (int)size_of(&p->input),
                                        .unit = {plan->piece[Y].unit, plan->piece[X].unit},
                                        .gather = {plan->piece[Y].gather != 0, plan->piece[X].gather != 0},
                                        .split = plan->split,
                                        .fold = plan->fold,
                                        .workspace = ask->budget->max_workspace};
  falt_igemm_wgrad_choose(&shape, &machine, &plan->tile);
  if (plan->tile.bm == 0) falt_refuse(ask, "no tile fits the GPU");
  return plan->tile.bm > 0;
}

/* ---- plan: arguments */

static falt_igemm_axis axis_of(const falt_problem *p, int i) {
  return (falt_igemm_axis){.source = p->input.size[FALT_D + i],
                           .results = p->output.size[FALT_D + i],
                           .taps = p->filter.size[FALT_D + i],
                           .stride = p->axis[i].stride,
                           .dilation = p->axis[i].dilation,
                           .pad = p->axis[i].pad[0]};
}

static const falt_igemm_polyphase one_tap[3] = {{.taps = 1, .pace = 1}, {.taps = 1, .pace = 1}, {.taps = 1, .pace = 1}};

static void find_polyphase(const wgrad_plan *plan, falt_igemm_polyphase polyphase[3]) {
  for (int i = 0; i < 3; i++) {
    const falt_igemm_axis axis = axis_of(&plan->cuda.base.problem, i);
    polyphase[i] = falt_igemm_forward(&axis);
  }
}

/* The pixels, and the taps that one factor has at each. */
static falt_cuda_igemm_polyphase device_polyphase(const falt_problem *p, const falt_igemm_polyphase polyphase[3]) {
  falt_cuda_igemm_polyphase d = {.pixels = (int)pixels_of(p), .apart = 1};
  for (int i = 0; i < 3; i++) {
    d.out[i] = (int)p->output.size[FALT_D + i];
    d.first[i] = (int)polyphase[i].first;
    d.delta[i] = (int)polyphase[i].delta;
    d.taps[i] = (int)polyphase[i].taps;
    falt_igemm_divisor(d.out[i], &d.reciprocal[i], &d.shift[i]);
  }
  return d;
}

static bool set_args(wgrad_plan *plan, falt_ask *ask) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_tensor *w = &p->filter;
  const falt_igemm_wgrad_tile *t = &plan->tile;
  falt_cuda_igemm_wgrad_args *a = &plan->args;
  falt_igemm_polyphase polyphase[3];
  find_polyphase(plan, polyphase);
  *a = (falt_cuda_igemm_wgrad_args){.y = falt_igemm_source_of(p, &p->output, plan->merged),
                                    .x = falt_igemm_source_of(p, &p->input, plan->merged),
                                    .y_polyphase = device_polyphase(p, one_tap),
                                    .x_polyphase = device_polyphase(p, polyphase),
                                    .tile = {t->bm, t->bn},
                                    .row_tiles = (int)falt_ceil_div(rows_of(plan), t->bm),
                                    .column_tiles = (int)falt_ceil_div(columns_of(plan), t->bn),
                                    .split_k = (int)t->split_k,
                                    .slice_steps = (int)t->slice_steps,
                                    .groups = (int)(w->size[FALT_G] / plan->merged),
                                    .rows = (int)p->output.size[FALT_C],
                                    .channels = (int)p->input.size[FALT_C],
                                    .merged = plan->merged,
                                    .columns = (int)columns_of(plan),
                                    .w_group = falt_cuda_stride(w, FALT_G),
                                    .w_row = falt_cuda_stride(w, FALT_K),
                                    .w_channel = falt_cuda_stride(w, FALT_C),
                                    .alpha = p->alpha};
  for (int i = 0; i < 3; i++) {
    a->x.step[i] = (int)p->axis[i].stride;
    a->taps[i] = (int)w->size[FALT_D + i];
    a->w_axis[i] = falt_cuda_stride(w, FALT_D + i);
  }
  if ((double)a->row_tiles * a->column_tiles * t->bm * t->bn < 0x1p38) return true;
  falt_refuse(ask, "the filter is larger than one launch can number");
  return false;
}

/* ---- ready */

static int64_t entries_of(const wgrad_plan *plan, int which) {
  const int64_t columns =
      which == Y ? (int64_t)plan->args.row_tiles * plan->tile.bm : (int64_t)plan->args.column_tiles * plan->tile.bn;
  return falt_ceil_div(columns, piece_channels(plan, which));
}

static size_t entry_bytes(const wgrad_plan *plan) {
  return plan->fold ? sizeof(falt_cuda_igemm_place) : sizeof(falt_cuda_igemm_entry);
}

static falt_igemm_depth depth_of(const wgrad_plan *plan, int which) {
  const falt_cuda_igemm_source *source = which == Y ? &plan->args.y : &plan->args.x;
  return (falt_igemm_depth){.channels = which == Y ? rows_of(plan) : channels_of(plan),
                            .piece = piece_channels(plan, which),
                            .entries = entries_of(plan, which),
                            .axis_bytes = {source->axis[0], source->axis[1], source->axis[2]},
                            .channel_bytes = source->channel};
}

static bool fill_table(const wgrad_plan *plan, int which, const falt_igemm_polyphase polyphase[3], char *table) {
  const falt_igemm_depth depth = depth_of(plan, which);
  return plan->fold ? falt_igemm_places(&depth, polyphase, (falt_cuda_igemm_place *)(void *)table)
                    : falt_igemm_entries(&depth, polyphase, (falt_cuda_igemm_entry *)(void *)table);
}

/* The entry behind the taps becomes a one, which sums y alone. */
static void add_one(const wgrad_plan *plan, char *table) {
  const int64_t at = taps_of(&plan->cuda.base.problem) * channels_of(plan) / piece_channels(plan, X);
  if (plan->fold)
    ((falt_cuda_igemm_place *)(void *)table)[at].channel = FALT_CUDA_IGEMM_ONES;
  else
    ((falt_cuda_igemm_entry *)(void *)table)[at].bits = FALT_CUDA_IGEMM_ONE | FALT_CUDA_IGEMM_EXISTS;
}

static bool fill_tables(const wgrad_plan *plan, char *y, char *x) {
  falt_igemm_polyphase polyphase[3];
  find_polyphase(plan, polyphase);
  if (!fill_table(plan, Y, one_tap, y) || !fill_table(plan, X, polyphase, x)) return false;
  if (plan->cuda.base.problem.has_bias) add_one(plan, x);
  return true;
}

/* The constant, a one, and the tables. */
static falt_status upload_tables(wgrad_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const int64_t size = size_of(&p->input), bytes = (int64_t)entry_bytes(plan);
  const int64_t y_at = (int64_t)2 * VECTOR, x_at = falt_round_up(y_at + entries_of(plan, Y) * bytes, VECTOR);
  const size_t all = (size_t)(x_at + entries_of(plan, X) * bytes);
  char *host = falt_alloc_zero(all);
  if (!host) return falt_fail(FALT_NO_MEMORY, "cuda-wgrad: memory ran out");
  for (int64_t i = 0; i < VECTOR / size; i++) falt_store(host, p->input.type, i, p->boundary_value);
  falt_store(host + VECTOR, p->input.type, 0, 1);
  const falt_status status = fill_tables(plan, host + y_at, host + x_at)
                                 ? falt_cuda_upload(plan->cuda.base.device->gpu, &plan->cuda.memory, host, all)
                                 : falt_fail(FALT_NO_SOLVER, "cuda-wgrad: a window is larger than 2 GB");
  falt_free(host);
  if (status != FALT_OK) return status;
  char *memory = plan->cuda.memory;
  plan->args.x.fill = memory;
  plan->args.x.one = memory + VECTOR;
  plan->args.y.table = memory + y_at;
  plan->args.x.table = memory + x_at;
  return FALT_OK;
}

static falt_cuda_kernel kernel_of(const wgrad_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_igemm_wgrad_tile *t = &plan->tile;
  falt_cuda_kernel kernel = {.source = "cuda_wgrad.cu", .entry = "falt_igemm_wgrad", .shared_bytes = t->shared_bytes};
  falt_cuda_define(&kernel, "KIND=%s", falt_cuda_products(p->output.type, p->input.type));
  falt_cuda_define(&kernel, "SPLIT=%d", plan->split);
  falt_cuda_define(&kernel, "TYPE_X=%d", (int)p->input.type);
  falt_cuda_define(&kernel, "TYPE_W=%d", (int)p->filter.type);
  falt_cuda_define(&kernel, "BM=%d", t->bm);
  falt_cuda_define(&kernel, "BN=%d", t->bn);
  falt_cuda_define(&kernel, "WARPS_M=%d", t->warps[0]);
  falt_cuda_define(&kernel, "WARPS_N=%d", t->warps[1]);
  falt_cuda_define(&kernel, "PIXELS=%d", t->pixels);
  falt_cuda_define(&kernel, "STAGES=%d", t->stages);
  falt_cuda_define(&kernel, "FOLD=%d", plan->fold);
  falt_cuda_define(&kernel, "FILL=%d", p->boundary_value != 0);
  falt_cuda_define(&kernel, "ONES=%d", p->has_bias);
  falt_cuda_define(&kernel, "SPANS=0");
  falt_cuda_define(&kernel, "PROMOTE=%d", t->promote);
  falt_cuda_define(&kernel, "BLOCKS=%d", t->blocks);
  falt_cuda_define(&kernel, "UNIT_Y=%d", plan->piece[Y].unit);
  falt_cuda_define(&kernel, "GATHER_Y=%d", plan->piece[Y].gather);
  falt_cuda_define(&kernel, "UNIT_X=%d", plan->piece[X].unit);
  falt_cuda_define(&kernel, "GATHER_X=%d", plan->piece[X].gather);
  return kernel;
}

static falt_status ready(falt_plan *base) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_cuda_kernel kernel = kernel_of(plan);
  const falt_type type = falt_type_accumulator(base->problem.input.type);
  const falt_cuda_kernel sum = falt_igemm_sum_kernel(&base->problem, falt_cuda_types[type].element);
  FALT_TRY(falt_cuda_plan_ready(base, &kernel, &sum));
  return upload_tables(plan);
}

/* ---- plan */

static const char *choose(falt_plan *base, falt_ask *ask) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_problem *p = &base->problem;
  plan->merged = falt_igemm_merge(p, p->output.size[FALT_C], LEAST_ROWS);
  plan->piece[Y] = falt_igemm_piece_of(&p->output, plan->merged);
  plan->piece[X] = falt_igemm_piece_of(&p->input, plan->merged);
  plan->split = base->splits = p->input.type == FALT_F32 && !ask->budget->allow_tf32;
  plan->fold = falt_igemm_folds(p) || needs_places(p);
  if (!choose_tile(plan, ask) || !set_args(plan, ask)) return ask->reason;
  base->workspace = (size_t)plan->tile.workspace;
  base->cost.seconds = 3e-6 + plan->tile.seconds;
  if (p->input.type == FALT_F32 && !plan->split) base->cost.error = FALT_TF32_ERROR;
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(wgrad_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_wgrad;
const falt_solver falt_solver_cuda_wgrad = {
    .name = "cuda-wgrad", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps};
