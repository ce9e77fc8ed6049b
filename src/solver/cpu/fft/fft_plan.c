/* Parts of planning that the solvers of this family share: circular axes, the cheapest tile, printing and freeing a
 * plan. */
#include "solver/cpu/fft/fft_plan.h"

#include <math.h>

int64_t falt_fft_period(const falt_rows *rows, int i, int64_t reach, int64_t unit, double most) {
  const falt_axis *axis = &rows->axis[i];
  const int64_t period = rows->in[i] * (i == 2 ? rows->pixel : 1);
  const bool wraps = axis->boundary[0] == FALT_WRAP && axis->boundary[1] == FALT_WRAP && reach < rows->in[i];
  return wraps && period % unit == 0 && (double)period <= most && falt_fft_smooth(period / unit) ? period : 0;
}

double falt_fft_cheapest(const int count[3], falt_fft_cost *cost, const void *search, int best[3]) {
  double least = INFINITY;
  int at[3];
  for (at[0] = 0; at[0] < count[0]; at[0]++)
    for (at[1] = 0; at[1] < count[1]; at[1]++)
      for (at[2] = 0; at[2] < count[2]; at[2]++) {
        const double each = cost(search, at);
        if (each >= least) continue;
        least = each;
        for (int i = 0; i < 3; i++) best[i] = at[i];
      }
  return least;
}

falt_status falt_fft_made(bool fits) {
  return fits ? FALT_OK : falt_fail(FALT_NO_MEMORY, "planning: memory for the tables of a transform ran out");
}

void falt_fft_print(const falt_plan *plan, const falt_rows *rows, const falt_fft_shape *shape, int64_t slices,
                    falt_text *text) {
  const int64_t *size = shape->size;
  falt_text_add(text, "(%s %s %s tile=", plan->solver->name, falt_isa_name(rows->kernels->isa),
                falt_type_name(falt_lane_type(rows->lane)));
  if (size[0] > 1) falt_text_add(text, "%lldx", (long long)size[0]);
  if (size[0] > 1 || size[1] > 1) falt_text_add(text, "%lldx", (long long)size[1]);
  falt_text_add(text, "%lld", (long long)size[2]);
  if (slices > 1) falt_text_add(text, " slices=%lld", (long long)slices);
  falt_text_add(text, " threads=%d)", falt_threads_count(plan->device->threads));
}

void falt_fft_destroy(falt_plan *plan, falt_fft_shape *shape, void *taps, void *spectra, void *about) {
  falt_fft_shape_free(shape);
  falt_free(taps);
  falt_free(spectra);
  falt_free(about);
  falt_free(plan);
}
