/* The table of generic kernels by instruction set. */
#include "solver/generic/generic_kernels.h"
#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_generic_kernels, falt_generic_kernels, FALT_ISA_VECTORS)
