/* Helpers of the CUDA filter solvers: applicability, sizes and strides along the axes of space, and compile-time
 * parameters of an axis. */
#include "solver/cuda/common/cuda_filter.h"

#include <math.h>

/* ---- applicable */

static bool is_interleaved(const falt_tensor *t) {
  return t->size[FALT_G] > 1 && t->stride[FALT_G] == 1 &&
         (t->stride[FALT_W] == t->size[FALT_G] || t->size[FALT_W] == 1);
}

bool falt_cuda_interleaved(const falt_problem *p) {
  return is_interleaved(&p->input) && is_interleaved(&p->output);
}

/* Kernels count rows and columns in 32 bits. */
static bool small_axes(const falt_problem *p) {
  const int64_t most = INT64_C(1) << 30;
  for (int i = FALT_D; i < FALT_DIMS; i++) {
    const int64_t channels = i == FALT_W ? p->input.size[FALT_G] : 1;
    if (p->input.size[i] >= most / channels || p->output.size[i] >= most / channels || p->filter.size[i] >= 1024)
      return false;
    const falt_axis *a = &p->axis[i - FALT_D];
    if (a->pad[0] >= most / channels || a->pad[0] <= -most / channels) return false;
    if (a->stride >= most || a->dilation >= most || (p->filter.size[i] - 1) * a->dilation >= most / channels ||
        (p->output.size[i] + 4096) * a->stride >= most / channels)
      return false;
  }
  return true;
}

/* Sums of integers must be exact. */
static bool exact_enough(const falt_problem *p) {
  const double bound = falt_cuda_bound(p);
  return isinf(bound) || bound < (falt_problem_has_f64(p) ? 0x1p53 : 0x1p24);
}

bool falt_cuda_unit_steps(const falt_problem *p) {
  for (int i = 0; i < 3; i++)
    if (p->axis[i].stride != 1 || (p->axis[i].dilation != 1 && p->filter.size[FALT_D + i] > 1)) return false;
  return true;
}

const char *falt_cuda_filter_refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const bool columns = falt_tensor_unit(&p->input, FALT_W) && falt_tensor_unit(&p->output, FALT_W);
  if (p->operation != FALT_FORWARD) return "it computes forward filters only";
  if (p->filter.size[FALT_C] != 1 || !falt_cuda_one_filter(p)) return "the filter is not one for all channels";
  if (!ask->filter_values) return "the filter's values are not known when planning";
  if (!falt_cuda_epilogue_is_linear(p)) return "the epilogue is more than alpha and beta";
  if (p->input.type == FALT_S32 || p->output.type == FALT_S32) return "s32 does not fit its sums";
  if (!exact_enough(p)) return "sums of integers would not be exact";
  if (!falt_cuda_interleaved(p) && !columns) return "columns are not contiguous";
  if (!small_axes(p)) return "an axis is longer than 2^30 elements";
  return NULL;
}

bool falt_cuda_holds_fill(const falt_problem *p) {
  uint64_t bits = 0;
  falt_store(&bits, p->input.type, 0, p->boundary_value);
  const double stored = falt_load(&bits, p->input.type, 0);
  return stored == p->boundary_value || (isnan(stored) && isnan(p->boundary_value));
}

/* ---- axes */

int64_t falt_cuda_size_along(const falt_tensor *t, int axis) {
  return axis < 0 ? 1 : t->size[FALT_D + axis];
}

int64_t falt_cuda_stride_along(const falt_tensor *t, int axis) {
  return axis < 0 || t->size[FALT_D + axis] == 1 ? 0 : t->stride[FALT_D + axis];
}

int64_t falt_cuda_batch_stride(const falt_tensor *t, int dim) {
  return t->size[dim] == 1 ? 0 : t->stride[dim];
}

int falt_cuda_alignment(int64_t row, int64_t plane, const int64_t batch[2]) {
  int align = 16;
  while (row % align || plane % align || batch[0] % align || batch[1] % align) align /= 2;
  return align;
}

void falt_cuda_axis_defines(falt_cuda_kernel *kernel, const falt_problem *p, char letter, int axis) {
  const falt_axis none = {.stride = 1, .dilation = 1}, *a = axis < 0 ? &none : &p->axis[axis];
  falt_cuda_define(kernel, "TAPS_%c=%d", letter, (int)falt_cuda_size_along(&p->filter, axis));
  falt_cuda_define(kernel, "PAD_%c=%d", letter, (int)a->pad[0]);
  falt_cuda_define(kernel, "AXIS_%c=%d,%d", letter, (int)a->boundary[0], (int)a->boundary[1]);
}
