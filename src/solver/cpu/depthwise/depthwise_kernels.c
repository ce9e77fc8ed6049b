/* Which table of depthwise kernels serves an instruction set: the portable one, raised level by level. */
#include "solver/cpu/depthwise/depthwise_kernels.h"

extern const falt_depthwise_kernels falt_depthwise_kernels_portable, falt_depthwise_kernels_neon,
    falt_depthwise_kernels_avx2, falt_depthwise_kernels_avx512;
extern const falt_depthwise_kernels falt_depthwise_bf16_kernels_portable, falt_depthwise_bf16_kernels_neon,
    falt_depthwise_bf16_kernels_avx2, falt_depthwise_bf16_kernels_avx512, falt_depthwise_bf16_kernels_bf16;
extern const falt_depthwise_kernels falt_depthwise_u8_kernels_portable, falt_depthwise_u8_kernels_neon,
    falt_depthwise_u8_kernels_avx2, falt_depthwise_u8_kernels_avx512, falt_depthwise_u8_kernels_vnni;

static const falt_depthwise_kernels *const tables[FALT_TILES_KIND_COUNT][FALT_ISA_COUNT] = {
    [FALT_TILES_F32][FALT_ISA_PORTABLE] = &falt_depthwise_kernels_portable,
    [FALT_TILES_BF16][FALT_ISA_PORTABLE] = &falt_depthwise_bf16_kernels_portable,
    [FALT_TILES_U8][FALT_ISA_PORTABLE] = &falt_depthwise_u8_kernels_portable,
#ifdef FALT_HAVE_NEON
    [FALT_TILES_F32][FALT_ISA_NEON] = &falt_depthwise_kernels_neon,
    [FALT_TILES_BF16][FALT_ISA_NEON] = &falt_depthwise_bf16_kernels_neon,
    [FALT_TILES_U8][FALT_ISA_NEON] = &falt_depthwise_u8_kernels_neon,
#endif
#ifdef FALT_HAVE_AVX2
    [FALT_TILES_F32][FALT_ISA_AVX2] = &falt_depthwise_kernels_avx2,
    [FALT_TILES_BF16][FALT_ISA_AVX2] = &falt_depthwise_bf16_kernels_avx2,
    [FALT_TILES_U8][FALT_ISA_AVX2] = &falt_depthwise_u8_kernels_avx2,
#endif
#ifdef FALT_HAVE_AVX512
    [FALT_TILES_F32][FALT_ISA_AVX512] = &falt_depthwise_kernels_avx512,
    [FALT_TILES_BF16][FALT_ISA_AVX512] = &falt_depthwise_bf16_kernels_avx512,
    [FALT_TILES_U8][FALT_ISA_AVX512] = &falt_depthwise_u8_kernels_avx512,
#endif
#ifdef FALT_HAVE_VNNI
    [FALT_TILES_U8][FALT_ISA_VNNI] = &falt_depthwise_u8_kernels_vnni,
#endif
#ifdef FALT_HAVE_BF16
    [FALT_TILES_BF16][FALT_ISA_BF16] = &falt_depthwise_bf16_kernels_bf16,
#endif
};

const falt_depthwise_kernels *falt_depthwise_kernels_for(falt_tiles_kind kind, falt_isa isa) {
  while (!tables[kind][isa]) isa--;
  return tables[kind][isa];
}
