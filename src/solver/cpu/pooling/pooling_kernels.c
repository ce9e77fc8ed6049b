/* Which pooling kernels serve an instruction set: the portable ones, raised level by level. */
#include "solver/cpu/pooling/pooling_kernels.h"

extern const falt_pooling_lane falt_pooling_f32_portable, falt_pooling_f32_neon, falt_pooling_f32_avx2,
    falt_pooling_f32_avx512;
extern const falt_pooling_lane falt_pooling_f64_portable, falt_pooling_f64_neon, falt_pooling_f64_avx2,
    falt_pooling_f64_avx512;

static const falt_pooling_kernels tables[FALT_ISA_COUNT] = {
    [FALT_ISA_PORTABLE] = {&falt_pooling_f32_portable, &falt_pooling_f64_portable},
#ifdef FALT_HAVE_NEON
    [FALT_ISA_NEON] = {&falt_pooling_f32_neon, &falt_pooling_f64_neon},
#endif
#ifdef FALT_HAVE_AVX2
    [FALT_ISA_AVX2] = {&falt_pooling_f32_avx2, &falt_pooling_f64_avx2},
#endif
#ifdef FALT_HAVE_AVX512
    [FALT_ISA_AVX512] = {&falt_pooling_f32_avx512, &falt_pooling_f64_avx512},
#endif
};

falt_pooling_kernels falt_pooling_kernels_for(falt_isa isa) {
  while (!tables[isa].f32) isa--;
  return tables[isa];
}
