/* Picks the kernel along rows of an instruction set. */
#include "cpu/filter_along.h"

#include <stddef.h>

#if FALT_HAVE_AVX512
falt_filter_along *falt_filter_along_f32_avx512(int64_t step);
#endif

falt_filter_along *falt_filter_along_for(falt_isa isa, falt_lane lane, int64_t step) {
  if (step < 1 || step > FALT_FILTER_ALONG_MOST) return NULL;
#if FALT_HAVE_AVX512
  if (isa == FALT_ISA_AVX512 && lane == FALT_LANE_F32) return falt_filter_along_f32_avx512(step);
#endif
  (void)isa;
  (void)lane;
  return NULL;
}
