/* Declares the functions of each filter template and instruction set, named after both, such as falt_filter_f32_avx2.
 */
#ifndef FALT_SOLVER_CPU_FILTER_FILTER_TABLE_H
#define FALT_SOLVER_CPU_FILTER_FILTER_TABLE_H

#include "solver/cpu/filter/filter_kernels.h"

typedef void falt_filter_fill(falt_filter_kernels *kernels);

falt_filter_fill falt_filter_f32_portable, falt_filter_f64_portable, falt_filter_move_portable;
falt_filter_fill falt_filter_f32_neon, falt_filter_f64_neon, falt_filter_move_neon;
falt_filter_fill falt_filter_f32_avx2, falt_filter_f64_avx2, falt_filter_move_avx2;
falt_filter_fill falt_filter_f32_avx512, falt_filter_f64_avx512, falt_filter_move_avx512;

/* The name of a template's function in this compilation. */
#ifdef FALT_ISA_SUFFIX
#define FALT_PASTE(part, isa) falt_filter_##part##_##isa
#define FALT_PASTE_ISA(part, isa) FALT_PASTE(part, isa)
#define FALT_FILTER_TABLE(part) FALT_PASTE_ISA(part, FALT_ISA_SUFFIX)
#endif

#endif
