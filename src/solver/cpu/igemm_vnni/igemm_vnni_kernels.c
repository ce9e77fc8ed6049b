/* The table of VNNI tile kernels by instruction set. */
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"
#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_tiles_kernels, falt_tiles_kernels, FALT_ISA_ALL)
