/* The table of pooling kernels by instruction set. */
#include "solver/cpu/pooling/pooling_kernels.h"

#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_pooling_lane, falt_pooling_f32, FALT_ISA_VECTORS)
FALT_ISA_TABLE(falt_pooling_lane, falt_pooling_f64, FALT_ISA_VECTORS)

falt_pooling_kernels falt_pooling_kernels_for(falt_isa isa) {
  return (falt_pooling_kernels){falt_pooling_f32_for(isa), falt_pooling_f64_for(isa)};
}
