/* Which Winograd transforms serve an instruction set. */
#include "solver/cpu/winograd/winograd_kernels.h"
#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_winograd_kernels, falt_winograd_kernels, FALT_ISA_VECTORS)
