/* Selects the row filter kernel of an instruction set, and cuts rows that must not be read beyond their ends. */
#include "solver/cpu/filter/filter_along.h"

#include <stddef.h>
#include <stdint.h>

#if FALT_HAVE_AVX512
falt_filter_along *falt_filter_along_f32_avx512(int64_t step);
#endif

falt_filter_along *falt_filter_along_for(falt_isa isa, falt_lane lane, int64_t step) {
  if (step < 1 || step > FALT_FILTER_ALONG_MOST) return NULL;
#if FALT_HAVE_AVX512
  if (isa >= FALT_ISA_AVX512 && lane == FALT_LANE_F32) return falt_filter_along_f32_avx512(step);
#endif
  (void)isa;
  (void)lane;
  return NULL;
}

/* The call for elements [begin, begin + n) of its only row; row and out are where it keeps their addresses. */
static falt_filter_rows cut(const falt_filter_rows *call, int64_t begin, int64_t n, const void **row, void **out) {
  falt_filter_rows piece = *call;
  *row = (const float *)call->rows[0] + begin;
  *out = (float *)call->out[0] + begin;
  piece.rows = row;
  piece.out = out;
  piece.n = n;
  return piece;
}

/* Whole lines in the middle, far enough from the ends to read nothing beyond them. */
void falt_filter_single(const falt_filter_kernels *kernels, falt_lane lane, const falt_filter_rows *call) {
  enum { LEAST_TAPS = 9, LEAST = 1024, LINE = FALT_FILTER_ALONG_ALIGN / sizeof(float), UNIT = 128 };
  const bool apt = call->planes == 1 && call->r == 1 && call->step == 1 && call->s >= LEAST_TAPS && call->n >= LEAST;
  falt_filter_along *along = apt ? falt_filter_along_for(kernels->isa, lane, 1) : NULL;
  if (!along) {
    kernels->single[lane](call);
    return;
  }
  const int64_t past = (int64_t)((uintptr_t)call->out[0] / sizeof(float) % LINE);
  const int64_t begin = 2 * LINE - past,
                middle = (call->n - begin - FALT_FILTER_ALONG_BEYOND / (int64_t)sizeof(float)) / UNIT * UNIT,
                end = begin + middle;
  const int64_t cuts[4] = {0, begin, end, call->n};
  for (int i = 0; i < 3; i++) {
    const void *row;
    void *out;
    const falt_filter_rows piece = cut(call, cuts[i], cuts[i + 1] - cuts[i], &row, &out);
    if (i == 1)
      along(&piece, 1);
    else
      kernels->single[lane](&piece);
  }
}
