/* Helpers of the depthwise solvers: applicability, and kernel arguments made from tensors and axes. */
#include <math.h>

#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/depthwise/cuda_depthwise.h"

enum { MOST_COLUMN_TAPS = 32, MOST_STRIDE = 1024 };

typedef struct roles {
  const falt_tensor *source, *result; /* of a weight gradient: x and y */
} roles;

static roles roles_of(const falt_problem *p) {
  const falt_tensor *source = falt_problem_factor(p, 0);
  return (roles){source, source == &p->input ? &p->output : &p->input};
}

/* ---- applicable */

/* Positions are counted in 32 bits, with room for a tile beyond each end. */
static bool small_axes(const falt_problem *p) {
  const int64_t most = INT64_C(1) << 28;
  for (int i = 0; i < 3; i++) {
    const falt_axis *a = &p->axis[i];
    const int64_t taps = p->filter.size[FALT_D + i];
    if (p->input.size[FALT_D + i] >= most || p->output.size[FALT_D + i] >= most / MOST_STRIDE) return false;
    if (a->stride > MOST_STRIDE) return false;
    if (a->dilation >= most / taps || a->pad[0] >= most || a->pad[0] <= -most) return false;
  }
  return true;
}

static bool small_channels(const falt_problem *p) {
  const int64_t most = INT64_C(1) << 28, *w = p->filter.size;
  const double taps = (double)w[FALT_D] * (double)w[FALT_H] * (double)w[FALT_W];
  return w[FALT_G] < most / w[FALT_K] && (double)(w[FALT_G] * w[FALT_K]) * taps < 0x1p28 &&
         p->input.size[FALT_N] < most;
}

const char *falt_depthwise_refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const bool filter = p->operation == FALT_BACKWARD_FILTER, data = p->operation == FALT_BACKWARD_DATA;
  if (p->filter.size[FALT_C] != 1) return "it sums over channels";
  if (falt_type_is_integer(p->input.type) || falt_type_is_integer(p->output.type) ||
      falt_type_is_integer(p->filter.type))
    return "it multiplies floats only";
  if (data && falt_igemm_folds(p)) return "dgrad takes zero padding only";
  if (!data && !falt_igemm_constant_fits(p))
    return "the boundary's constant is not a finite number of the input's type";
  if (falt_cuda_one_filter(p) && (filter || ask->filter_values)) /* solvers of filters keep it in the constant bank */
    return "the filter is one for all channels";
  if (p->filter.size[FALT_W] > MOST_COLUMN_TAPS) return "rows have more than 32 taps";
  if (!small_axes(p) || !small_channels(p)) return "an axis, a stride or the channels are too large";
  if (!falt_gpu_about(ask->device->gpu)->architecture->async) return "the GPU is older than sm_80";
  return NULL;
}

/* ---- shape */

falt_type falt_depthwise_sum_type(const falt_problem *p) {
  return falt_problem_has_f64(p) ? FALT_F64 : FALT_F32;
}

const char *falt_depthwise_sum(const falt_problem *p) {
  return falt_cuda_types[falt_depthwise_sum_type(p)].element;
}

/* Channels of one tensor: groups with their members. */
static int64_t channels_of(const falt_tensor *t) {
  return t->size[FALT_G] * t->size[FALT_C];
}

static bool has_channels_inside(const falt_tensor *t) {
  return channels_of(t) > 1 && falt_igemm_channel_stride(t) == 1 &&
         (t->size[FALT_C] == 1 || t->size[FALT_G] == 1 || t->stride[FALT_G] == t->size[FALT_C]);
}

/* The largest power of two up to 16 bytes that divides all distances between words. */
static int alignment(const falt_tensor *t, bool inner) {
  const int first = inner ? FALT_G : FALT_W;
  int64_t align = 16 / (int64_t)falt_type_size(t->type);
  if (inner ? falt_igemm_channel_stride(t) != 1 || channels_of(t) == 1 : !falt_tensor_unit(t, FALT_W)) return 1;
  while (inner && channels_of(t) % align) align /= 2;
  for (int dim = 0; dim < FALT_DIMS; dim++)
    while (dim != first && !(inner && dim == FALT_C) && falt_cuda_stride(t, dim) % align) align /= 2;
  return (int)align;
}

static falt_depthwise_axis axis_of(const falt_problem *p, const roles *r, int i) {
  const falt_axis *a = &p->axis[i];
  return (falt_depthwise_axis){
      p->filter.size[FALT_D + i], a->stride, a->dilation, a->pad[0], r->source->size[FALT_D + i],
      r->result->size[FALT_D + i]};
}

static falt_depthwise_shape shape_of(const falt_ask *ask, bool narrow) {
  const falt_problem *p = ask->problem;
  const roles r = roles_of(p);
  falt_depthwise_shape s = {.kind = p->operation == FALT_FORWARD         ? FALT_DEPTHWISE_FORWARD
                                    : p->operation == FALT_BACKWARD_DATA ? FALT_DEPTHWISE_DATA
                                                                         : FALT_DEPTHWISE_FILTER,
                            .images = p->input.size[FALT_N],
                            .channels = channels_of(r.result),
                            .members = (int)p->filter.size[FALT_K],
                            .inner = has_channels_inside(r.source) && has_channels_inside(r.result),
                            .constant = !falt_igemm_folds(p),
                            .finish = p->operation == FALT_FORWARD && !falt_epilogue_is_identity(p),
                            .x_bytes = (int)falt_type_size(r.source->type),
                            .y_bytes = (int)falt_type_size(r.result->type),
                            .sum_bytes = (int)falt_type_size(falt_depthwise_sum_type(p)),
                            .x_align = 1,
                            .y_align = 1,
                            .workspace = ask->budget->max_workspace};
  for (int i = 0; i < 3; i++) s.axis[i] = axis_of(p, &r, i);
  s.scattered = !s.inner && (!falt_tensor_unit(r.source, FALT_W) || !falt_tensor_unit(r.result, FALT_W));
  if (narrow) return s;
  s.x_align = s.inner && s.members > 1 ? 1 : alignment(r.source, s.inner);
  s.y_align = s.inner && s.members > 1 ? 1 : alignment(r.result, s.inner);
  return s;
}

bool falt_depthwise_cut_of(falt_depthwise_cut *cut, const falt_ask *ask, bool narrow) {
  const falt_machine machine = falt_cuda_machine(ask->device);
  cut->shape = shape_of(ask, narrow);
  return falt_depthwise_choose(&cut->shape, &machine, &cut->tile);
}

/* ---- arguments and parameters */

falt_cuda_depthwise_args falt_depthwise_args_of(const falt_problem *p) {
  const roles r = roles_of(p);
  const falt_tensor *x = r.source, *y = r.result, *w = &p->filter, *residual = &p->residual;
  falt_cuda_depthwise_args a = {.x_image = falt_cuda_stride(x, FALT_N),
                                .x_channel = falt_cuda_stride(x, FALT_G),
                                .x_next = falt_cuda_stride(x, FALT_C),
                                .x_plane = falt_cuda_stride(x, FALT_D),
                                .y_image = falt_cuda_stride(y, FALT_N),
                                .y_channel = falt_cuda_stride(y, FALT_G),
                                .y_next = falt_cuda_stride(y, FALT_C),
                                .y_plane = falt_cuda_stride(y, FALT_D),
                                .w_channel = falt_cuda_stride(w, FALT_G),
                                .w_next = falt_cuda_stride(w, FALT_K),
                                .fill = p->boundary_value,
                                .epilogue = falt_cuda_epilogue_of(p)};
  for (int i = 0; i < 3; i++) a.w_axis[i] = falt_cuda_stride(w, FALT_D + i);
  if (p->operation == FALT_BACKWARD_DATA) a.epilogue.beta = 0;
  if (!p->has_residual) return a;
  a.r_image = falt_cuda_stride(residual, FALT_N);
  a.r_channel = falt_cuda_stride(residual, FALT_G);
  a.r_next = falt_cuda_stride(residual, FALT_C);
  for (int i = 0; i < 3; i++) a.r_axis[i] = falt_cuda_stride(residual, FALT_D + i);
  return a;
}

falt_cuda_depthwise_args falt_depthwise_bind(const falt_cuda_depthwise_args *args, const falt_problem *p,
                                             const falt_operands *o) {
  falt_cuda_depthwise_args a = *args;
  char *const x = falt_cuda_element(o->input, &p->input), *const y = falt_cuda_element(o->output, &p->output);
  const bool data = p->operation == FALT_BACKWARD_DATA;
  a.x = data ? y : x;
  a.y = data ? x : y;
  if (p->has_residual) a.residual = falt_cuda_element(o->residual, &p->residual);
  falt_cuda_epilogue_bind(&a.epilogue, p, o);
  if (p->operation != FALT_BACKWARD_FILTER) return a;
  a.w = falt_cuda_element(o->filter, &p->filter);
  a.partial = o->workspace;
  return a;
}

static bool fills(const falt_problem *p) {
  return p->operation != FALT_BACKWARD_DATA && p->boundary_value != 0;
}

void falt_depthwise_defines(const falt_problem *p, const falt_depthwise_cut *cut, falt_cuda_kernel *kernel) {
  const falt_depthwise_shape *s = &cut->shape;
  const falt_depthwise_tile *t = &cut->tile;
  const roles r = roles_of(p);
  for (int i = 0; i < 3; i++) {
    const falt_depthwise_axis *a = &s->axis[i];
    const falt_boundary *boundary = p->axis[i].boundary;
    const int taps = (int)(i == 1 ? (a->taps + t->parts - 1) / t->parts : a->taps);
    falt_cuda_define(kernel, "AXIS_%c=%d,%d,%d,%d,%d,%d,%d,%d", "TRS"[i], taps, (int)a -> stride, (int)a -> dilation,
                     (int)a -> pad, (int)a -> source, (int)a -> results, (int)boundary[0], (int)boundary[1]);
  }
  falt_cuda_define(kernel, "TYPE_X=%d", (int)r.source->type);
  falt_cuda_define(kernel, "TYPE_Y=%d", (int)r.result->type);
  falt_cuda_define(kernel, "SUM=%s", falt_depthwise_sum(p));
  falt_cuda_define(kernel, "INNER=%d", s->inner);
  falt_cuda_define(kernel, "UNIT=%d", t->unit);
  falt_cuda_define(kernel, "ROWS=%d", t->rows);
  falt_cuda_define(kernel, "COLS=%d", t->columns);
  falt_cuda_define(kernel, "X_R=%lld", (long long)falt_cuda_stride(r.source, FALT_H));
  falt_cuda_define(kernel, "X_S=%lld", (long long)falt_cuda_stride(r.source, FALT_W));
  falt_cuda_define(kernel, "Y_R=%lld", (long long)falt_cuda_stride(r.result, FALT_H));
  falt_cuda_define(kernel, "Y_S=%lld", (long long)falt_cuda_stride(r.result, FALT_W));
  falt_cuda_define(kernel, "CHANNELS=%lld", (long long)s->channels);
  falt_cuda_define(kernel, "MULTIPLE=%d", s->members);
  falt_cuda_define(kernel, "BACKWARD=%d", s->kind == FALT_DEPTHWISE_DATA);
  falt_cuda_define(kernel, "FILL=%d", fills(p));
  falt_cuda_define(kernel, "PARTS=%d", t->parts);
  falt_cuda_define(kernel, "ALL_TAPS_R=%d", (int)s->axis[1].taps);
  falt_cuda_define(kernel, "AHEAD=%d", t->ahead);
  falt_cuda_define(kernel, "THREADS=%d", t->threads);
  falt_cuda_define(kernel, "BLOCKS=%d", t->blocks);
}

bool falt_depthwise_aligned(const falt_cuda_depthwise_args *a, const falt_depthwise_cut *cut) {
  return (uintptr_t)a->x % (uintptr_t)(cut->tile.unit * cut->shape.x_bytes) == 0 &&
         (uintptr_t)a->y % (uintptr_t)(cut->tile.y_unit * cut->shape.y_bytes) == 0;
}

void falt_depthwise_print(const falt_depthwise_cut *cut, falt_text *text) {
  const falt_depthwise_tile *t = &cut->tile;
  falt_text_add(text, "%s %dx%d words=%d,%d ahead=%d blocks=%d", cut->shape.inner ? "channels" : "columns", t->rows,
                t->columns, t->unit, t->y_unit, t->ahead, t->blocks);
  if (t->parts > 1) falt_text_add(text, " parts=%d", t->parts);
}

/* ---- start */

/* An early launch (PDL) saves a microsecond; longer kernels of long rows lose a tenth, as measured. */
bool falt_depthwise_is_short(const falt_plan *plan) {
  return plan->cost.seconds < 30e-6;
}

void falt_depthwise_start(const falt_plan *plan, const falt_gpu_launch *launch, const int blocks_yz[2],
                          void **parameters) {
  if (falt_depthwise_is_short(plan))
    falt_gpu_start_early(plan->device->gpu, launch, blocks_yz, parameters);
  else
    falt_gpu_start_grid(plan->device->gpu, launch, blocks_yz, 1, parameters);
}

/* ---- split-K slices of a weight gradient */

falt_status falt_depthwise_sum_kernel(const falt_plan *plan, falt_cu_function *function) {
  const falt_problem *p = &plan->problem;
  falt_cuda_kernel kernel = {.source = "cuda_depthwise_sum.cu", .entry = "falt_depthwise_sum"};
  falt_cuda_define(&kernel, "SUM=%s", falt_depthwise_sum(p));
  falt_cuda_define(&kernel, "TYPE_W=%d", (int)p->filter.type);
  for (int i = 0; i < 3; i++) falt_cuda_define(&kernel, "TAPS_%c=%d", "TRS"[i], (int)p -> filter.size[FALT_D + i]);
  falt_cuda_define(&kernel, "CHANNELS=%lld", (long long)(p->filter.size[FALT_G] * p->filter.size[FALT_K]));
  falt_cuda_define(&kernel, "MULTIPLE=%d", (int)p->filter.size[FALT_K]);
  falt_cuda_define(&kernel, "BIAS=%d", p->has_bias);
  return falt_gpu_kernel(plan->device->gpu, &kernel, function);
}

void falt_depthwise_add_slices(falt_cu_function function, const falt_plan *plan, falt_cuda_depthwise_args *args,
                               void *stream) {
  enum { SUMS = 32, MOST_WARPS = 32 }; /* of a block */
  const falt_problem *p = &plan->problem;
  const int64_t sums =
      falt_tensor_count(&p->filter) + (p->has_bias ? p->filter.size[FALT_G] * p->filter.size[FALT_K] : 0);
  const int warps = (int)falt_min(args->split_k, MOST_WARPS);
  const falt_gpu_launch launch = {function, falt_ceil_div(sums, SUMS), {32 * warps, 1}, 0, stream};
  void *parameters[] = {args};
  const int one[2] = {1, 1};
  falt_gpu_start_early(plan->device->gpu, &launch, one, parameters);
}
