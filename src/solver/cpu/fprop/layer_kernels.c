/* The tables of layer kernels by instruction set. */
#include "solver/cpu/fprop/layer_kernels.h"
#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_layer_kernels, falt_layer_kernels, FALT_ISA_VECTORS)
FALT_ISA_TABLE(falt_layer_kernels, falt_layer_kernels_f64, FALT_ISA_VECTORS)
