/* Which table of tile kernels serves an instruction set: the portable one, raised level by level. */
#include "solver/cpu/fprop/igemm_vnni_kernels.h"

extern const falt_tiles_kernels falt_tiles_kernels_portable, falt_tiles_kernels_neon, falt_tiles_kernels_avx2,
    falt_tiles_kernels_avx512, falt_tiles_kernels_vnni, falt_tiles_kernels_bf16, falt_tiles_kernels_amx;

static const falt_tiles_kernels *const tables[FALT_ISA_COUNT] = {
    [FALT_ISA_PORTABLE] = &falt_tiles_kernels_portable,
#ifdef FALT_HAVE_NEON
    [FALT_ISA_NEON] = &falt_tiles_kernels_neon,
#endif
#ifdef FALT_HAVE_AVX2
    [FALT_ISA_AVX2] = &falt_tiles_kernels_avx2,
#endif
#ifdef FALT_HAVE_AVX512
    [FALT_ISA_AVX512] = &falt_tiles_kernels_avx512,
#endif
#ifdef FALT_HAVE_VNNI
    [FALT_ISA_VNNI] = &falt_tiles_kernels_vnni,
#endif
#ifdef FALT_HAVE_BF16
    [FALT_ISA_BF16] = &falt_tiles_kernels_bf16,
#endif
#ifdef FALT_HAVE_AMX
    [FALT_ISA_AMX] = &falt_tiles_kernels_amx,
#endif
};

const falt_tiles_kernels *falt_tiles_kernels_for(falt_isa isa) {
  while (!tables[isa]) isa--;
  return tables[isa];
}
