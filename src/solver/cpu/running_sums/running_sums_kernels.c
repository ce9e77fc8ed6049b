/* Which kernels for box filters serve an instruction set. */
#include "solver/cpu/running_sums/running_sums_kernels.h"

#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_running_kernels, falt_running_u32, FALT_ISA_VECTORS)
FALT_ISA_TABLE(falt_running_kernels, falt_running_f32, FALT_ISA_VECTORS)
FALT_ISA_TABLE(falt_running_kernels, falt_running_f64, FALT_ISA_VECTORS)
