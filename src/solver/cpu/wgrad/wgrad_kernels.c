/* The table of outer-product kernels by instruction set. */
#include "solver/cpu/wgrad/wgrad_kernels.h"
#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_outer_kernels, falt_outer_kernels, FALT_ISA_VECTORS)
