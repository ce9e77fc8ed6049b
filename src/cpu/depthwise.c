/* Which table of depthwise kernels serves an instruction set: the portable one, raised level by level. */
#include "cpu/depthwise.h"

extern const falt_depthwise_kernels falt_depthwise_kernels_portable, falt_depthwise_kernels_neon,
    falt_depthwise_kernels_avx2, falt_depthwise_kernels_avx512;

static const falt_depthwise_kernels *const tables[FALT_ISA_COUNT] = {
    [FALT_ISA_PORTABLE] = &falt_depthwise_kernels_portable,
#ifdef FALT_HAVE_NEON
    [FALT_ISA_NEON] = &falt_depthwise_kernels_neon,
#endif
#ifdef FALT_HAVE_AVX2
    [FALT_ISA_AVX2] = &falt_depthwise_kernels_avx2,
#endif
#ifdef FALT_HAVE_AVX512
    [FALT_ISA_AVX512] = &falt_depthwise_kernels_avx512,
#endif
};

const falt_depthwise_kernels *falt_depthwise_kernels_for(falt_isa isa) {
  while (!tables[isa]) isa--;
  return tables[isa];
}
