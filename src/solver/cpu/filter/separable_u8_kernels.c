/* Which kernels for separable filters of bytes serve an instruction set. */
#include "solver/cpu/filter/separable_u8_kernels.h"

#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_separable_u8_kernels, falt_separable_u8_kernels, FALT_ISA_VECTORS)
