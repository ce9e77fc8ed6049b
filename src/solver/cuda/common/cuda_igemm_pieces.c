/* Helpers of the CUDA implicit GEMM solvers: the operands of fprop and dgrad, limits of the kernels, channel vectors,
 * merged groups, and the launch of split-K sums. */
#include <math.h>

#include "solver/cuda/common/cuda_igemm.h"

/* ---- operands */

falt_igemm_roles falt_igemm_roles_of(const falt_problem *p) {
  return p->operation == FALT_FORWARD ? (falt_igemm_roles){&p->input, &p->output, FALT_K, FALT_C}
                                      : (falt_igemm_roles){&p->output, &p->input, FALT_C, FALT_K};
}

falt_igemm_axis falt_igemm_axis_of(const falt_problem *p, const falt_igemm_roles *r, int i) {
  return (falt_igemm_axis){.source = r->source->size[FALT_D + i],
                           .results = r->result->size[FALT_D + i],
                           .taps = p->filter.size[FALT_D + i],
                           .stride = p->axis[i].stride,
                           .dilation = p->axis[i].dilation,
                           .pad = p->axis[i].pad[0]};
}

/* ---- applicable */

bool falt_igemm_folds(const falt_problem *p) {
  for (int i = 0; i < 3; i++)
    if (p->axis[i].boundary[0] != FALT_CONSTANT || p->axis[i].boundary[1] != FALT_CONSTANT) return true;
  return false;
}

/* The kernel stages it as an element and multiplies it with zeros. */
bool falt_igemm_constant_fits(const falt_problem *p) {
  uint64_t bits = 0;
  falt_store(&bits, p->input.type, 0, p->boundary_value);
  return isfinite(p->boundary_value) && falt_load(&bits, p->input.type, 0) == p->boundary_value;
}

/* Positions, pixels and offsets are 32-bit numbers. */
static bool small_axes(const falt_problem *p) {
  const int64_t most = INT64_C(1) << 29;
  double pixels[2] = {(double)p->input.size[FALT_N], (double)p->input.size[FALT_N]};
  for (int i = 0; i < 3; i++) {
    const falt_axis *a = &p->axis[i];
    const int64_t in = p->input.size[FALT_D + i], out = p->output.size[FALT_D + i], taps = p->filter.size[FALT_D + i];
    if (in >= most || out >= most || taps >= most || a->pad[0] >= most || a->pad[0] <= -most) return false;
    if (a->stride >= most / out || a->dilation >= most / taps) return false;
    pixels[0] *= (double)in;
    pixels[1] *= (double)out;
  }
  return fmax(pixels[0], pixels[1]) < 0x1p31 - 1024;
}

static bool small_channels(const falt_problem *p) {
  const double most = 0x1p28, c = (double)p->filter.size[FALT_C], k = (double)p->filter.size[FALT_K];
  const double taps = (double)p->filter.size[FALT_D] * (double)p->filter.size[FALT_H] * (double)p->filter.size[FALT_W];
  return p->filter.size[FALT_G] <= FALT_IGEMM_GRID && c * taps < most && k * taps < most;
}

const char *falt_igemm_refusal(const falt_ask *ask, falt_type source, falt_type other) {
  const falt_problem *p = ask->problem;
  if (!falt_cuda_products(source, other)) return "tensor cores do not multiply these types";
  if ((p->accumulator == FALT_F64) != (source == FALT_F64)) return "the accumulator is not f32";
  if (falt_type_is_integer(source) && !(falt_cuda_bound(p) < 0x1p31)) return "sums of integers would not fit";
  if (!falt_gpu_about(ask->device->gpu)->architecture->async) return "the GPU is older than sm_80";
  if (p->operation != FALT_BACKWARD_DATA && !falt_igemm_constant_fits(p))
    return "the boundary's constant is not a finite number of the input's type";
  if (!small_axes(p) || !small_channels(p)) return "an axis, the pixels or the channels are too many";
  return NULL;
}

/* ---- tensors */

bool falt_igemm_small_planes(const falt_tensor *t) {
  const int64_t most = INT64_C(1) << 22;
  for (int dim = FALT_G; dim < FALT_DIMS; dim++)
    if (dim != FALT_C && dim != FALT_D && (falt_cuda_stride(t, dim) > most || falt_cuda_stride(t, dim) < -most))
      return false;
  return true;
}

int falt_igemm_unit(const falt_tensor *t, int along, int most) {
  int64_t all = most;
  for (int dim = 0; dim < FALT_DIMS; dim++)
    if (dim != along) all |= falt_cuda_stride(t, dim);
  return (int)(all & -all);
}

int64_t falt_igemm_channel_stride(const falt_tensor *t) {
  return t->size[FALT_C] > 1 ? t->stride[FALT_C] : falt_cuda_stride(t, FALT_G);
}

/* Whether the channels of neighbouring groups have the layout of one group. */
static bool groups_join(const falt_tensor *t) {
  return t->size[FALT_C] == 1 || t->stride[FALT_G] == t->size[FALT_C] * t->stride[FALT_C];
}

int falt_igemm_merge(const falt_problem *p, int64_t channels, int64_t least) {
  int merged = 1;
  if (!groups_join(&p->input) || !groups_join(&p->output) || (p->has_residual && !groups_join(&p->residual))) return 1;
  while (merged * channels < least && p->filter.size[FALT_G] % (2 * merged) == 0) merged *= 2;
  return merged;
}

bool falt_igemm_strides_divide(const falt_tensor *t, int merged, int64_t elements) {
  if (t->size[FALT_G] > merged && (t->stride[FALT_G] * merged) % elements) return false;
  for (int dim = 0; dim < FALT_DIMS; dim++)
    if (dim != FALT_C && dim != FALT_G && falt_cuda_stride(t, dim) % elements) return false;
  return true;
}

falt_igemm_piece falt_igemm_piece_of(const falt_tensor *t, int merged) {
  const int64_t size = (int64_t)falt_type_size(t->type), channels = t->size[FALT_C] * merged;
  const bool dense = channels == 1 || falt_igemm_channel_stride(t) == 1;
  falt_igemm_piece piece = {.unit = FALT_IGEMM_VECTOR};
  for (; dense && piece.unit >= 4 && piece.unit >= size; piece.unit /= 2)
    if (channels * size % piece.unit == 0 && falt_igemm_strides_divide(t, merged, piece.unit / size)) return piece;
  piece = (falt_igemm_piece){(int)size, (int)(FALT_IGEMM_VECTOR / size)};
  while (channels % piece.gather) piece.gather /= 2;
  return piece;
}

bool falt_igemm_find_spans(const falt_tensor *t, const falt_igemm_polyphase polyphase[3], falt_igemm_evenly *evenly) {
  const int64_t size = (int64_t)falt_type_size(t->type), image = falt_cuda_stride(t, FALT_N) * size;
  int64_t results[4] = {t->size[FALT_N]}, step_bytes[4] = {image}, bytes[4] = {image}, taps = 0;
  if (size > 2 || falt_igemm_channel_stride(t) != 1) return false;
  for (int i = 0; i < 3; i++) {
    taps += polyphase[i].taps;
    results[i + 1] = polyphase[i].results;
    bytes[i + 1] = falt_cuda_stride(t, FALT_D + i) * size;
    step_bytes[i + 1] = bytes[i + 1] * polyphase[i].step;
  }
  return taps <= FALT_CUDA_IGEMM_SPAN_BITS &&
         falt_igemm_lie_evenly(results, step_bytes, bytes, falt_cuda_stride(t, FALT_G) * size, evenly);
}

falt_cuda_igemm_source falt_igemm_source_of(const falt_problem *p, const falt_tensor *t, int merged) {
  const int64_t size = (int64_t)falt_type_size(t->type);
  falt_cuda_igemm_source s = {.image = falt_cuda_stride(t, FALT_N) * size,
                              .group = falt_cuda_stride(t, FALT_G) * merged * size,
                              .channel = falt_igemm_channel_stride(t) * size,
                              .step = {1, 1, 1}};
  for (int i = 0; i < 3; i++) {
    s.axis[i] = falt_cuda_stride(t, FALT_D + i) * size;
    s.in[i] = (int)t->size[FALT_D + i];
    for (int side = 0; side < 2; side++) s.boundary[i][side] = (int)p->axis[i].boundary[side];
  }
  return s;
}

void falt_igemm_result_defines(const falt_problem *p, falt_type result, falt_cuda_kernel *kernel) {
  const bool forward = p->operation == FALT_FORWARD;
  falt_cuda_define(kernel, "TYPE_Y=%d", (int)result);
  falt_cuda_define(kernel, "TYPE_R=%d", p->has_residual ? (int)p->residual.type : -1);
  falt_cuda_define(kernel, "REAL=%s", falt_cuda_finishes_in_float(p) ? "float" : "double");
  falt_cuda_define(kernel, "ACTIVATION=%d", (int)(forward ? p->activation : FALT_IDENTITY));
}

falt_cuda_igemm_wgrad_args falt_igemm_slices_of(const falt_problem *p, int merged, int split_k, int columns) {
  const falt_tensor *w = &p->filter;
  falt_cuda_igemm_wgrad_args a = {.tile = {1, 1},
                                  .row_tiles = (int)p->output.size[FALT_C] * merged,
                                  .column_tiles = columns,
                                  .split_k = split_k,
                                  .groups = (int)w->size[FALT_G] / merged,
                                  .rows = (int)p->output.size[FALT_C],
                                  .channels = (int)p->input.size[FALT_C],
                                  .merged = merged,
                                  .columns = columns - p->has_bias,
                                  .w_group = falt_cuda_stride(w, FALT_G),
                                  .w_row = falt_cuda_stride(w, FALT_K),
                                  .w_channel = falt_cuda_stride(w, FALT_C),
                                  .alpha = p->alpha};
  for (int i = 0; i < 3; i++) {
    a.taps[i] = (int)w->size[FALT_D + i];
    a.w_axis[i] = falt_cuda_stride(w, FALT_D + i);
  }
  return a;
}

falt_cuda_kernel falt_igemm_sum_kernel(const falt_problem *p, const char *sum) {
  falt_cuda_kernel kernel = {.source = "cuda_wgrad_sum.cu", .entry = "falt_igemm_wgrad_sum"};
  falt_cuda_define(&kernel, "SUM=%s", sum);
  falt_cuda_define(&kernel, "TYPE_W=%d", (int)p->filter.type);
  return kernel;
}

/* Launches blocks that fill the multiprocessors; their threads loop over further rows. A thread has eight loads in
 * flight and sums that many split-K slices before they are split into parts. */
void falt_igemm_add_slices(const falt_plan *plan, falt_cu_function kernel, const falt_cuda_igemm_wgrad_args *args,
                           const falt_operands *o) {
  enum { COLUMNS = 32, ROWS = 8, EACH = 2048 / (COLUMNS * ROWS) };
  const falt_problem *p = &plan->problem;
  falt_gpu *gpu = plan->device->gpu;
  falt_cuda_igemm_wgrad_args a = *args;
  a.partial = o->workspace;
  a.w = falt_cuda_element(o->filter, &p->filter);
  a.bias = p->has_bias ? o->bias : NULL;
  for (a.parts = 0; a.parts < 3 && a.split_k >= 16 << a.parts;) a.parts++;
  const int64_t across = falt_ceil_div((int64_t)a.column_tiles * a.tile[1], COLUMNS);
  const int64_t down = falt_ceil_div((int64_t)a.row_tiles * a.tile[0], ROWS >> a.parts);
  const int64_t wanted = falt_ceil_div((int64_t)EACH * falt_gpu_about(gpu)->multiprocessors, across * a.groups);
  const falt_gpu_launch launch = {kernel, across, {COLUMNS, ROWS}, 0, o->stream};
  const int blocks_yz[2] = {(int)falt_min(down, wanted), a.groups};
  void *parameters[] = {&a};
  falt_gpu_start_early(gpu, &launch, blocks_yz, parameters);
}
