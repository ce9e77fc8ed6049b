/* The table of u8 filter kernels by instruction set. */
#include "solver/cpu/filter/direct_u8_kernels.h"

#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_direct_u8_kernels, falt_direct_u8_kernels, FALT_ISA_VNNI_TOO)
