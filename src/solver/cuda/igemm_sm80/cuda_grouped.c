/* Solver cuda-grouped: layers of small groups, fprop and dgrad, on tensor cores (MMA). Applies to NHWC, f16 and bf16,
 * 2D, zero padding, groups of 2 to 64 channels. Loads each halo tile once for all taps and reads the filter in place. A
 * strided dgrad is one launch for each polyphase part of the stride; dilation along height is one launch for each
 * residue. The launches run concurrently. Unaligned operands use the fallback plan. Kernel: cuda_grouped.cu. Tile
 * search: cuda_grouped_tiles.c. */
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/igemm_sm80/cuda_grouped_tiles.h"

enum { MOST_CALLS = 4, MOST_CHANNELS = 64 };

/* One polyphase part, with every n-th row of the source from one on. */
typedef struct call {
  falt_cu_function function;
  falt_cuda_grouped_args args;
  falt_grouped_shape shape;
  falt_grouped_tile tile;
  int64_t row, apart;
  int64_t x_first, w_first, y_first, r_first; /* elements from the operands' first */
} call;

typedef struct grouped_plan {
  falt_cuda_plan cuda;
  call calls[MOST_CALLS];
  int count, merged;
} grouped_plan;

typedef falt_igemm_roles roles;

/* ---- execute */

static char *element(const void *data, int64_t index, falt_type type) {
  return (char *)data + index * (int64_t)falt_type_size(type);
}

static void start(const grouped_plan *plan, const call *c, const falt_cuda_grouped_args *operands,
                  const falt_operands *o) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_cuda_grouped_args args = c->args;
  args.x = element(operands->x, c->x_first, falt_igemm_roles_of(p).source->type);
  args.w = element(operands->w, c->w_first, p->filter.type);
  args.y = element(operands->y, c->y_first, falt_igemm_roles_of(p).result->type);
  if (p->has_residual)
    args.residual = element(falt_cuda_element(o->residual, &p->residual), c->r_first, p->residual.type);
  falt_cuda_epilogue_bind(&args.epilogue, p, o);
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {
      c->function, c->tile.grid, {32 * c->tile.warps_c * c->tile.warps_p, 1}, c->tile.shared_bytes, o->stream};
  const int one[2] = {1, 1};
  falt_gpu_start_early(plan->cuda.base.device->gpu, &launch, one, parameters);
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const grouped_plan *plan = (const grouped_plan *)base;
  const falt_problem *p = &base->problem;
  const roles r = falt_igemm_roles_of(p);
  const falt_cuda_grouped_args operands = {.x = falt_cuda_element(falt_factor_data(p->operation, o, 0), r.source),
                                           .y = falt_cuda_element(falt_result_data(p->operation, o), r.result),
                                           .w = falt_cuda_plan_filter(&plan->cuda, o)};
  for (int i = 0; i < plan->count; i++) start(plan, &plan->calls[i], &operands, o);
}

static void print(const falt_plan *base, falt_text *text) {
  const grouped_plan *plan = (const grouped_plan *)base;
  const falt_grouped_tile *t = &plan->calls[0].tile;
  falt_text_add(text, "(cuda-grouped pixels=%dx%d bands=%d channels=%d warps=%dx%d stages=%d blocks=%d", t->height,
                t->width, t->bands, 16 * t->warps_c, t->warps_c, t->warps_p, t->stages, t->blocks);
  if (plan->merged > 1) falt_text_add(text, " merged=%d", plan->merged);
  if (plan->count > 1) falt_text_add(text, " polyphases=%d", plan->count);
  falt_text_add(text, ")");
}

/* ---- applicable */

/* All channels of all groups have the layout of one group. */
static bool side_by_side(const falt_tensor *t) {
  const bool joined = t->size[FALT_G] == 1 || t->size[FALT_C] == 1 || t->stride[FALT_G] == t->size[FALT_C];
  return joined && falt_igemm_channel_stride(t) == 1 && falt_igemm_strides_divide(t, (int)t->size[FALT_G], 8);
}

/* The number of merged groups that makes the channels a multiple of 8, or 0. */
static int merged_of(const falt_problem *p) {
  for (int merged = 1; merged <= 8; merged *= 2)
    if (p->filter.size[FALT_C] * merged % 8 == 0 && p->filter.size[FALT_K] * merged % 8 == 0)
      return p->filter.size[FALT_G] % merged ? 0 : merged;
  return 0;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (!falt_reads_filter(p->operation)) return "it computes fprop and dgrad only";
  const roles r = falt_igemm_roles_of(p);
  const char *why = falt_igemm_refusal(ask, r.source->type, p->filter.type);
  if (why) return why;
  return !falt_type_is_half(r.source->type) || p->filter.type != r.source->type
             ? "its operands are f16 or bf16, both the same"
         : !falt_type_is_half(r.result->type) && r.result->type != FALT_F32 ? "its output is f16, bf16 or f32"
         : !falt_cuda_is_flat(p)                                            ? "it takes 1D and 2D problems only"
         : falt_igemm_folds(p) || (p->operation == FALT_FORWARD && p->boundary_value != 0)
             ? "it takes zero padding only"
         : !falt_igemm_small_planes(r.source) ? "rows or columns are too far apart"
         : !side_by_side(r.source) || !side_by_side(r.result)
             ? "channels are not contiguous, or strides are not multiples of 16 bytes"
         : p->filter.size[FALT_C] == 1 ? "it sums over channels, of which a group has one"
         : r.source->size[FALT_C] > MOST_CHANNELS || merged_of(p) == 0
             ? "its groups have 2 to 64 channels, a multiple of 8 when merged"
             : NULL;
}

/* ---- plan: polyphase parts */

/* With taps in the order of the source. */
static falt_igemm_polyphase ordered(falt_igemm_polyphase f) {
  if (f.taps == 1) f.delta = 1;
  if (f.delta > 0) return f;
  f.first += (f.taps - 1) * f.delta;
  f.from += (f.taps - 1) * f.pace;
  f.delta = -f.delta, f.pace = -f.pace;
  return f;
}

/* Every `apart`-th output from `from` on: taps that are `apart` rows apart are neighbours among every n-th row of the
 * source, from `row` on. */
static falt_igemm_polyphase rows_of(const falt_igemm_polyphase *f, int64_t from, int64_t apart, int64_t *row) {
  const int64_t at = from + f->first;
  *row = (at % apart + apart) % apart;
  falt_igemm_polyphase part = *f;
  part.begin += f->pitch * from;
  part.pitch *= apart;
  part.results = falt_ceil_div(f->results - from, apart);
  part.first = (at - *row) / apart;
  part.delta = 1;
  return part;
}

static void describe(const grouped_plan *plan, const roles *r, const falt_igemm_polyphase f[2], falt_grouped_shape *s) {
  const falt_problem *p = &plan->cuda.base.problem;
  *s = (falt_grouped_shape){.images = p->input.size[FALT_N],
                            .out = {f[0].results, f[1].results},
                            .results = r->result->size[FALT_C] * p->filter.size[FALT_G],
                            .depth = r->source->size[FALT_C] * plan->merged,
                            .rows = r->result->size[FALT_C] * plan->merged,
                            .own_depth = r->source->size[FALT_C],
                            .own_rows = r->result->size[FALT_C],
                            .taps = {f[0].taps, f[1].taps},
                            .stride = {f[0].step, f[1].step},
                            .dilation = f[1].delta,
                            .finish = p->has_scale || p->has_bias || p->has_residual || p->activation != FALT_IDENTITY,
                            .bytes = falt_problem_bytes(p) / plan->count};
}

static void set_args(const grouped_plan *plan, const roles *r, const falt_igemm_polyphase f[2], call *c) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_tensor *x = r->source, *y = r->result, *w = &p->filter, *residual = &p->residual;
  const falt_grouped_tile *t = &c->tile;
  falt_cuda_grouped_args *a = &c->args;
  const int64_t size = (int64_t)falt_type_size(x->type);
  *a = (falt_cuda_grouped_args){.x_image = falt_cuda_stride(x, FALT_N) * size,
                                .y_image = falt_cuda_stride(y, FALT_N),
                                .r_image = falt_cuda_stride(residual, FALT_N),
                                .r_group = falt_cuda_stride(residual, FALT_G),
                                .r_channel = falt_cuda_stride(residual, FALT_C),
                                .w_group = falt_cuda_stride(w, FALT_G),
                                .w_row = falt_cuda_stride(w, r->row),
                                .w_channel = falt_cuda_stride(w, r->depth),
                                .all_tiles = (int)t->tiles,
                                .parts = (int)t->parts,
                                .sources = (int)(x->size[FALT_G] * x->size[FALT_C]),
                                .results = (int)c->shape.results,
                                .first_call = c == plan->calls,
                                .epilogue = falt_cuda_epilogue_of(p)};
  for (int i = 0; i < 2; i++) {
    const int dim = FALT_H + i;
    a->x_axis[i] = (int)(falt_cuda_stride(x, dim) * size * (i == 0 ? c->apart : 1));
    a->y_axis[i] = falt_cuda_stride(y, dim) * f[i].pitch;
    a->r_axis[i] = falt_cuda_stride(residual, dim) * f[i].pitch;
    a->w_axis[i] = falt_cuda_stride(w, dim) * f[i].pace;
    a->in[i] = (int)(i == 0 ? falt_ceil_div(x->size[dim] - c->row, c->apart) : x->size[dim]);
    a->out[i] = (int)f[i].results;
    a->first[i] = (int)f[i].first;
    c->w_first += falt_cuda_stride(w, dim) * f[i].from;
    c->y_first += falt_cuda_stride(y, dim) * f[i].begin;
    c->r_first += falt_cuda_stride(residual, dim) * f[i].begin;
  }
  c->x_first = falt_cuda_stride(x, FALT_H) * c->row;
  a->tiles[0] = (int)falt_ceil_div(c->shape.out[0], t->height);
  a->tiles[1] = (int)falt_ceil_div(c->shape.out[1], t->width);
}

static const char *add_call(grouped_plan *plan, const roles *r, const falt_igemm_polyphase f[2], call *c) {
  const falt_machine machine = falt_cuda_machine(plan->cuda.base.device);
  describe(plan, r, f, &c->shape);
  const char *why = falt_grouped_refusal(&c->shape);
  if (why) return why;
  if (!falt_grouped_choose(&c->shape, &machine, &c->tile)) return "no tile fits the GPU";
  set_args(plan, r, f, c);
  plan->cuda.base.cost.seconds += c->tile.seconds;
  return NULL;
}

/* One polyphase part, by one launch for each residue of the tap distance along height. Returns the reason if
 * impossible, or NULL. */
static const char *add_polyphase(grouped_plan *plan, const roles *r, const falt_igemm_polyphase f[2], int64_t apart,
                                 call *calls) {
  if (f[0].taps == 0 || f[1].taps == 0) return "some outputs have no tap";
  if (f[0].delta != apart) return "taps are dilated along height";
  for (int64_t i = 0; i < apart; i++) {
    falt_igemm_polyphase part[2] = {f[0], f[1]};
    calls[i].apart = apart;
    if (apart > 1) part[0] = rows_of(&f[0], i, apart, &calls[i].row);
    const char *why = add_call(plan, r, part, &calls[i]);
    if (why) return why;
  }
  return NULL;
}

static const char *add_calls(grouped_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const roles r = falt_igemm_roles_of(p);
  const bool forward = p->operation == FALT_FORWARD;
  const falt_igemm_axis axis[2] = {falt_igemm_axis_of(p, &r, 1), falt_igemm_axis_of(p, &r, 2)};
  const int64_t polyphases[2] = {forward ? 1 : falt_igemm_polyphases(&axis[0]),
                                 forward ? 1 : falt_igemm_polyphases(&axis[1])};
  const int64_t apart = axis[0].taps > 1 && axis[0].stride == 1 ? axis[0].dilation : 1;
  if (apart > falt_min(MOST_CALLS, axis[0].results)) return "taps are too far apart along height";
  if (polyphases[0] > MOST_CALLS || polyphases[1] > MOST_CALLS || polyphases[0] * polyphases[1] * apart > MOST_CALLS)
    return "the gradient has more than four polyphase parts";
  plan->count = (int)(polyphases[0] * polyphases[1] * apart);
  for (int64_t i = 0; i < polyphases[0] * polyphases[1]; i++) {
    const int64_t at[2] = {i / polyphases[1], i % polyphases[1]};
    falt_igemm_polyphase f[2];
    for (int k = 0; k < 2; k++)
      f[k] = ordered(forward ? falt_igemm_forward(&axis[k]) : falt_igemm_backward(&axis[k], at[k]));
    const char *why = add_polyphase(plan, &r, f, apart, &plan->calls[i * apart]);
    if (why) return why;
  }
  return NULL;
}

/* ---- ready */

static falt_status ready_call(const grouped_plan *plan, call *c) {
  const falt_problem *p = &plan->cuda.base.problem;
  const roles r = falt_igemm_roles_of(p);
  falt_cuda_kernel kernel = {
      .source = "cuda_grouped.cu", .entry = "falt_grouped", .shared_bytes = c->tile.shared_bytes};
  falt_cuda_define(&kernel, "KIND=%s", falt_cuda_products(r.source->type, p->filter.type));
  falt_igemm_result_defines(p, r.result->type, &kernel);
  falt_grouped_defines(&kernel, &c->shape, &c->tile);
  return falt_gpu_kernel(plan->cuda.base.device->gpu, &kernel, &c->function);
}

static falt_status ready(falt_plan *base) {
  grouped_plan *plan = (grouped_plan *)base;
  for (int i = 0; i < plan->count; i++) FALT_TRY(ready_call(plan, &plan->calls[i]));
  return falt_cuda_plan_keep_filter(&plan->cuda);
}

/* ---- plan */

static const char *choose(falt_plan *base, falt_ask *ask) {
  grouped_plan *plan = (grouped_plan *)base;
  plan->merged = merged_of(ask->problem);
  base->alignment = (falt_alignment){.input = FALT_IGEMM_VECTOR, .output = FALT_IGEMM_VECTOR};
  return add_calls(plan);
}

static const falt_plan_steps steps = {
    sizeof(grouped_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_grouped;
const falt_solver falt_solver_cuda_grouped = {.name = "cuda-grouped",
                                              .device_kind = "cuda",
                                              .plan = falt_cuda_plan_make,
                                              .steps = &steps,
                                              .fallbacks = falt_cuda_fallbacks};
