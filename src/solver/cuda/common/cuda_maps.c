/* TMA descriptors of tensors, the alignment that TMA requires, and the split-K sums of the sm_90a kernels. */
#include "solver/cuda/common/cuda_maps.h"

#include "core/memory.h"
#include "solver/cuda/common/cuda.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_args.h"

void falt_map_dimension(falt_gpu_map *m, int i, const falt_tensor *t, int dim) {
  const uint64_t below = i > 0 ? m->size[i - 1] * m->stride[i - 1] : 0;
  m->size[i] = (uint64_t)t->size[dim];
  m->stride[i] = i == 0              ? falt_type_size(t->type)
                 : t->size[dim] == 1 ? (below + 15) / 16 * 16
                                     : (uint64_t)t->stride[dim] * falt_type_size(t->type);
  m->box[i] = m->pace[i] = 1;
}

falt_gpu_map falt_map_planes(const falt_tensor *t, void *data, int span) {
  falt_tensor pixels = *t;
  falt_gpu_map m = {.type = t->type, .rank = 5, .data = data};
  pixels.size[FALT_W] = t->size[FALT_D] * t->size[FALT_H] * t->size[FALT_W];
  pixels.size[FALT_D] = pixels.size[FALT_H] = 1;
  pixels.stride[FALT_W] = 1;
  static const int dims[5] = {FALT_W, FALT_C, FALT_N, FALT_H, FALT_D};
  for (int i = 0; i < 5; i++) falt_map_dimension(&m, i, &pixels, dims[i]);
  m.box[0] = m.box[1] = (uint32_t)span;
  return m;
}

falt_gpu_map falt_map_rows(const falt_tensor *t, void *data, int rows) {
  enum { LINE = 128 };
  falt_gpu_map m = {.type = t->type, .rank = 5, .data = data};
  static const int dims[5] = {FALT_C, FALT_W, FALT_N, FALT_H, FALT_D};
  for (int i = 0; i < 5; i++) falt_map_dimension(&m, i, t, dims[i]);
  m.box[0] = (uint32_t)(LINE / falt_type_size(t->type));
  m.box[1] = (uint32_t)rows;
  return m;
}

bool falt_map_takes(const falt_tensor *t, int unit) {
  const int64_t size = (int64_t)falt_type_size(t->type), most = INT64_C(1) << 40;
  if (t->stride[unit] != 1 && t->size[unit] != 1) return false;
  if (t->offset * size % 16) return false;
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != unit && t->size[i] > 1 && (t->stride[i] <= 0 || t->stride[i] * size % 16 || t->stride[i] >= most / size))
      return false;
  return true;
}

bool falt_map_aligned(const void *data, const falt_tensor *t) {
  return ((uintptr_t)data + (uintptr_t)(t->offset * (int64_t)falt_type_size(t->type))) % 16 == 0;
}

static void start_sums(falt_gpu *gpu, falt_cu_function sum, int64_t threads, void *args, void *stream) {
  enum { THREADS = 256 };
  const falt_gpu_launch launch = {sum, falt_ceil_div(threads, THREADS), {THREADS, 1}, 0, stream};
  const int one[2] = {1, 1};
  falt_gpu_start_early(gpu, &launch, one, &args);
}

/* The threads for each four sums: enough to fill the GPU, with at least eight split-K slices each. */
static int parts_of(const falt_gpu *gpu, int64_t fours, int split_k) {
  enum { THREADS = 1024, MOST = 16, LEAST_SLICES = 8 };
  const int64_t full = (int64_t)falt_gpu_about(gpu)->multiprocessors * THREADS;
  int parts = 1;
  while (parts < MOST && fours * parts < full && split_k >= 2 * parts * LEAST_SLICES) parts *= 2;
  return parts;
}

void falt_map_add_sums(falt_cu_function sum, const falt_plan *plan, const falt_operands *o, falt_map_sums s) {
  const falt_tensor *w = &plan->problem.filter;
  const int64_t fours = s.rows * s.columns / 4;
  falt_cuda_igemm_sm90_sum_args a = {.sums = o->workspace,
                                     .w = falt_cuda_tensor_of(w),
                                     .fours = (unsigned)fours,
                                     .row_fours = (unsigned)(s.columns / 4),
                                     .split_k = s.split_k,
                                     .parts = parts_of(plan->device->gpu, fours, s.split_k),
                                     .tap_columns = s.tap_columns,
                                     .alpha = (float)plan->problem.alpha};
  a.w.data = falt_cuda_element(o->filter, w);
  start_sums(plan->device->gpu, sum, fours * a.parts, &a, o->stream);
}

static bool has_zero_ends(const falt_problem *p) {
  for (int i = 0; i < 3; i++) {
    const falt_axis *a = &p->axis[i];
    const int64_t in = p->input.size[FALT_D + i], out = p->output.size[FALT_D + i];
    const int64_t end = (out - 1) * a->stride - a->pad[0] + falt_extent(a, p->filter.size[FALT_D + i]);
    const bool zeros[2] = {a->boundary[0] == FALT_CONSTANT && p->boundary_value == 0,
                           a->boundary[1] == FALT_CONSTANT && p->boundary_value == 0};
    if ((a->pad[0] > 0 && !zeros[0]) || (end > in && !zeros[1])) return false;
  }
  return true;
}

static bool is_result(falt_type type) {
  return falt_type_is_half(type) || type == FALT_F32;
}

const char *falt_map_type_refusal(const falt_ask *ask, falt_type factor, falt_type other) {
  const falt_problem *p = ask->problem;
  if (!falt_gpu_about(ask->device->gpu)->architecture->wgmma) return "the GPU has no wgmma (sm_90a has)";
  if (!falt_gpu_has_maps(ask->device->gpu)) return "the driver is older than CUDA 12";
  return !falt_type_is_half(factor) || other != factor           ? "its operands are f16 or bf16, both the same"
         : !is_result(falt_problem_result(p)->type)              ? "its results are f16, bf16 or f32"
         : p->accumulator != FALT_F32                            ? "it sums in f32"
         : p->input.size[FALT_G] != 1                            ? "it takes one group of channels"
         : !has_zero_ends(p)                                     ? "it takes zero padding only"
         : p->has_residual && p->residual.type != p->output.type ? "the residual is of another type than the output"
                                                                 : NULL;
}

const char *falt_map_refusal(const falt_ask *ask, falt_type factor, falt_type other) {
  const falt_problem *p = ask->problem;
  const char *why = falt_map_type_refusal(ask, factor, other);
  if (why) return why;
  return !falt_map_takes(&p->input, FALT_C) || !falt_map_takes(&p->output, FALT_C)
             ? "channels are not contiguous, or strides are not multiples of 16 bytes"
         : p->has_residual && !falt_map_takes(&p->residual, FALT_C) ? "the residual does not have the output's layout"
                                                                    : NULL;
}
