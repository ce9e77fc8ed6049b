/* Which dot products serve an instruction set. */
#include "solver/cpu/fprop/inner_product_kernels.h"
#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_inner_kernels, falt_inner_kernels, FALT_ISA_VECTORS)
