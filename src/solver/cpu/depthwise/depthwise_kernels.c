/* The table of depthwise kernels by instruction set and operand type. */
#include "solver/cpu/depthwise/depthwise_kernels.h"

#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_depthwise_kernels, falt_depthwise_kernels, FALT_ISA_VECTORS)
FALT_ISA_TABLE(falt_depthwise_kernels, falt_depthwise_bf16_kernels, FALT_ISA_BF16_TOO)
FALT_ISA_TABLE(falt_depthwise_kernels, falt_depthwise_u8_kernels, FALT_ISA_VNNI_TOO)

const falt_depthwise_kernels *falt_depthwise_kernels_of(falt_tiles_kind kind, falt_isa isa) {
  static const falt_depthwise_kernels *(*const pick[FALT_TILES_KIND_COUNT])(falt_isa isa) = {
      [FALT_TILES_F32] = falt_depthwise_kernels_for,
      [FALT_TILES_BF16] = falt_depthwise_bf16_kernels_for,
      [FALT_TILES_U8] = falt_depthwise_u8_kernels_for,
  };
  return pick[kind](isa);
}
