/* The tensors that can be upconverted to f32, and their shapes in f32. */
#include "solver/common/upconverted.h"

#include <math.h>

#include "core/memory.h"

/* Whether f32 holds all sums of integers, and the terms of the epilogue. */
static bool sums_exactly(const falt_problem *p) {
  return !falt_problem_sums_integers(p) || falt_problem_sum_bound(p) + fabs(p->beta) + 0x1p16 < 0x1p24;
}

const char *falt_upconvert_refusal(const falt_problem *p) {
  return p->accumulator == FALT_F64 ? "it has no f64 sums"
         : !falt_type_fits_f32(p->input.type) || !falt_type_fits_f32(p->filter.type) || p->output.type == FALT_F64 ||
                 (p->has_residual && !falt_type_fits_f32(p->residual.type))
             ? "f32 does not hold its elements"
         : !sums_exactly(p) ? "f32 does not hold its integer sums"
                            : NULL;
}

/* ---- the f32 tensor */

static int64_t magnitude(int64_t a) {
  return a < 0 ? -a : a;
}

void falt_upconvert_order(const falt_tensor *t, int dims[FALT_DIMS]) {
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    int at = dim;
    for (; at > 0 && magnitude(t->stride[dims[at - 1]]) > magnitude(t->stride[dim]); at--) dims[at] = dims[at - 1];
    dims[at] = dim;
  }
}

bool falt_upconvert_shape(falt_tensor *wide, const falt_tensor *tensor, size_t *bytes) {
  int dims[FALT_DIMS];
  int64_t count = 1, total;
  falt_upconvert_order(tensor, dims);
  *wide = *tensor;
  wide->type = FALT_F32;
  wide->offset = 0;
  for (int i = 0; i < FALT_DIMS; i++) {
    const int dim = dims[i];
    if (tensor->stride[dim] == 0) continue;
    wide->stride[dim] = count;
    if (!falt_mul(count, tensor->size[dim], &count)) return false;
  }
  if (!falt_mul(count, (int64_t)sizeof(float), &total)) return false;
  *bytes = (size_t)total;
  return true;
}
