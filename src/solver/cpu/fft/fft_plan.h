/* Parts of planning that the solvers of this family share. */
#ifndef FALT_SOLVER_CPU_FFT_FFT_PLAN_H
#define FALT_SOLVER_CPU_FFT_FFT_PLAN_H

#include "solver/cpu/common/rows.h"
#include "solver/cpu/fft/fft_shape.h"

/* Elements of a circular axis if a transform of them wraps as the boundary does, else 0: positions up to `reach` are
 * read, and a transform can have that many elements, a multiple of `unit` and `most` or fewer. */
int64_t falt_fft_period(const falt_rows *rows, int axis, int64_t reach, int64_t unit, double most);

/* The cost of a tile with the candidates of these numbers along each axis; infinite if it does not fit. */
typedef double falt_fft_cost(const void *search, const int at[3]);
/* The smallest cost of all combinations of so many candidates, and its numbers; infinite if none fits. */
double falt_fft_cheapest(const int count[3], falt_fft_cost *cost, const void *search, int best[3]);

/* What `ready` returns: tables and spectra do not fit if memory is short. */
falt_status falt_fft_made(bool fits);
/* "(NAME ISA TYPE tile=DxHxW slices=N threads=N)", slices only if there are several. */
void falt_fft_print(const falt_plan *plan, const falt_rows *rows, const falt_fft_shape *shape, int64_t slices,
                    falt_text *text);
/* Frees a plan, its shape, and what it keeps of a known filter, each of which may be NULL. */
void falt_fft_destroy(falt_plan *plan, falt_fft_shape *shape, void *taps, void *spectra, void *about);

#endif
