/* Cuts images into bands of output rows. */
#include "solver/rewrite/row_bands.h"

falt_row_bands falt_row_bands_cut(const falt_problem *p, int axis, int64_t most) {
  const falt_axis *a = &p->axis[axis];
  const int64_t all = p->output.size[FALT_D + axis];
  const bool whole = a->boundary[0] != FALT_CONSTANT || a->boundary[1] != FALT_CONSTANT;
  const int64_t count = falt_ceil_div(all, whole ? all : falt_max(1, falt_min(most, all)));
  const int64_t rows = falt_ceil_div(all, count); /* evenly */
  return (falt_row_bands){axis, rows, falt_ceil_div(all, rows)};
}

/* wgrad reads the same rows as the layer itself. */
falt_status falt_row_band(const falt_row_bands *bands, const falt_problem *p, int64_t images, int64_t band,
                          falt_problem *problem) {
  falt_problem some = *p;
  falt_part part;
  const int64_t begin = band * bands->rows, all = p->output.size[FALT_D + bands->axis];
  some.operation = FALT_FORWARD;
  some.input.size[FALT_N] = some.output.size[FALT_N] = images;
  if (some.has_residual) some.residual.size[FALT_N] = images;
  FALT_TRY(falt_problem_part(&part, &some, bands->axis, begin, falt_min(bands->rows, all - begin)));
  *problem = part.problem;
  problem->operation = p->operation;
  falt_problem_canonical(problem);
  return FALT_OK;
}

/* As falt_problem_part has it where boundaries are constant. */
int64_t falt_row_band_first(const falt_row_bands *bands, const falt_problem *p, int64_t begin) {
  const falt_axis *axis = &p->axis[bands->axis];
  const int64_t low = begin * p->pool[bands->axis] * axis->stride - axis->pad[0];
  return bands->count == 1 ? 0 : falt_max(0, falt_min(low, p->input.size[FALT_D + bands->axis] - 1));
}

void *falt_row_band_at(const falt_row_bands *bands, void *data, const falt_tensor *t, int64_t image, int64_t row) {
  const int64_t at = image * t->stride[FALT_N] + row * t->stride[FALT_D + bands->axis];
  return (char *)data + at * (int64_t)falt_type_size(t->type);
}
