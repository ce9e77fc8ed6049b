/* Which kernels for repeated boxes serve an instruction set. */
#include "solver/cpu/running_sums/repeated_boxes_kernels.h"

#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_boxes_kernels, falt_boxes_f32, FALT_ISA_VECTORS)
FALT_ISA_TABLE(falt_boxes_kernels, falt_boxes_f64, FALT_ISA_VECTORS)
