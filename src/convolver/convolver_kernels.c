/* Which kernels of the convolver serve an instruction set. */
#include "convolver/convolver_kernels.h"

#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_convolver_lane, falt_convolver_f32, FALT_ISA_VECTORS)
FALT_ISA_TABLE(falt_convolver_lane, falt_convolver_f64, FALT_ISA_VECTORS)
