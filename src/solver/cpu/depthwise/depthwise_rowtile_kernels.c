/* Which table of block kernels serves an instruction set: the portable one, raised level by level. */
#include "solver/cpu/depthwise/depthwise_rowtile_kernels.h"

extern const falt_block_kernels falt_block_kernels_portable, falt_block_kernels_neon, falt_block_kernels_avx2,
    falt_block_kernels_avx512, falt_block_kernels_bf16, falt_block_kernels_amx;

static const falt_block_kernels *const tables[FALT_ISA_COUNT] = {
    [FALT_ISA_PORTABLE] = &falt_block_kernels_portable,
#ifdef FALT_HAVE_NEON
    [FALT_ISA_NEON] = &falt_block_kernels_neon,
#endif
#ifdef FALT_HAVE_AVX2
    [FALT_ISA_AVX2] = &falt_block_kernels_avx2,
#endif
#ifdef FALT_HAVE_AVX512
    [FALT_ISA_AVX512] = &falt_block_kernels_avx512,
#endif
#ifdef FALT_HAVE_BF16
    [FALT_ISA_BF16] = &falt_block_kernels_bf16,
#endif
#ifdef FALT_HAVE_AMX
    [FALT_ISA_AMX] = &falt_block_kernels_amx,
#endif
};

const falt_block_kernels *falt_block_kernels_for(falt_isa isa) {
  while (!tables[isa]) isa--;
  return tables[isa];
}
