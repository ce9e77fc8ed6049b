/* Which table of outer-product kernels serves an instruction set: the portable one, raised level by level. */
#include "solver/cpu/wgrad/wgrad_kernels.h"

extern const falt_outer_kernels falt_outer_kernels_portable, falt_outer_kernels_neon, falt_outer_kernels_avx2,
    falt_outer_kernels_avx512;

static const falt_outer_kernels *const tables[FALT_ISA_COUNT] = {
    [FALT_ISA_PORTABLE] = &falt_outer_kernels_portable,
#ifdef FALT_HAVE_NEON
    [FALT_ISA_NEON] = &falt_outer_kernels_neon,
#endif
#ifdef FALT_HAVE_AVX2
    [FALT_ISA_AVX2] = &falt_outer_kernels_avx2,
#endif
#ifdef FALT_HAVE_AVX512
    [FALT_ISA_AVX512] = &falt_outer_kernels_avx512,
#endif
};

const falt_outer_kernels *falt_outer_kernels_for(falt_isa isa) {
  while (!tables[isa]) isa--;
  return tables[isa];
}
