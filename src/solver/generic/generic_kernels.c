/* Which table of generic kernels serves an instruction set: the portable one, raised level by level. */
#include "solver/generic/generic_kernels.h"

extern const falt_generic_kernels falt_generic_kernels_portable, falt_generic_kernels_neon, falt_generic_kernels_avx2,
    falt_generic_kernels_avx512;

static const falt_generic_kernels *const tables[FALT_ISA_COUNT] = {
    [FALT_ISA_PORTABLE] = &falt_generic_kernels_portable,
#ifdef FALT_HAVE_NEON
    [FALT_ISA_NEON] = &falt_generic_kernels_neon,
#endif
#ifdef FALT_HAVE_AVX2
    [FALT_ISA_AVX2] = &falt_generic_kernels_avx2,
#endif
#ifdef FALT_HAVE_AVX512
    [FALT_ISA_AVX512] = &falt_generic_kernels_avx512,
#endif
};

const falt_generic_kernels *falt_generic_kernels_for(falt_isa isa) {
  while (!tables[isa]) isa--;
  return tables[isa];
}
