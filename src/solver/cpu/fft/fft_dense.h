/* The plan of the solver fft-dense: shared by its planning half (fft_dense.c) and its running half (fft_dense_run.c).
 */
#ifndef FALT_SOLVER_CPU_FFT_FFT_DENSE_H
#define FALT_SOLVER_CPU_FFT_FFT_DENSE_H

#include "solver/cpu/fft/fft_wgrad.h"

/* What is known of the taps of an output channel. */
typedef struct falt_fft_dense_about {
  int exponent; /* of the power of two by which its taps are divided before they are transformed */
  bool wrong;   /* a tap is not finite; its transform holds zeros in place of such */
} falt_fft_dense_about;

typedef struct falt_fft_dense_plan {
  falt_plan base;
  falt_problem problem;      /* axes relabelled */
  falt_rows rows;            /* of one input channel and one output channel */
  falt_fft_wgrad_cut cut[3]; /* `block` outputs and all taps of a tile */
  falt_fft_shape shape;
  int64_t groups, channels, outputs; /* of a group */
  int64_t boxes;                     /* of a group: those of all images */
  const void *values;                /* the filter, from planning until the plan is ready */
  char *taps, *spectra;              /* dense, and of all taps; NULL if they are made at execution */
  falt_fft_dense_about *about;       /* of all output channels, with them */
  size_t spectra_at, about_at;       /* their offsets in the workspace */
  size_t planes_at, inputs_at, sums_at, row_at, spare_at, direct_at; /* in a worker's scratch */
  falt_memory_layout scratch;
} falt_fft_dense_plan;

/* Elements between spectra. */
static inline int64_t falt_fft_dense_spectrum(const falt_fft_dense_plan *plan) {
  return falt_fft_spectrum_count(&plan->shape);
}

/* All taps of a filter, dense, by output channel (groups outermost) and input channel. */
void falt_fft_dense_taps(const falt_fft_dense_plan *plan, const void *filter, char *taps);
/* The spectra of the taps of output channel `index`; `tile` has room for two planes. A filter of NULL: plan->taps. */
void falt_fft_dense_filter(const falt_fft_dense_plan *plan, const void *filter, int64_t index, char *tile,
                           char *spectra, falt_fft_dense_about *about);
void falt_fft_dense_execute(const falt_plan *plan, const falt_operands *operands);

#endif
