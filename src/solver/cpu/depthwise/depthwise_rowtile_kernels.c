/* The table of row tile kernels by instruction set. */
#include "solver/cpu/depthwise/depthwise_rowtile_kernels.h"
#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_block_kernels, falt_block_kernels, FALT_ISA_AMX_TOO)
