/* Kernel dispatch by instruction set. Every *_tmpl.c is compiled once for each level and defines a table NAME_LEVEL.
 * FALT_ISA_TABLE defines the function that returns the table of the highest built level up to the requested one. */
#ifndef FALT_CPU_ISA_TABLE_H
#define FALT_CPU_ISA_TABLE_H

#include "core/cpu.h"

#ifdef FALT_HAVE_NEON
#define FALT_IF_NEON(...) __VA_ARGS__
#else
#define FALT_IF_NEON(...)
#endif
#ifdef FALT_HAVE_AVX2
#define FALT_IF_AVX2(...) __VA_ARGS__
#else
#define FALT_IF_AVX2(...)
#endif
#ifdef FALT_HAVE_AVX512
#define FALT_IF_AVX512(...) __VA_ARGS__
#else
#define FALT_IF_AVX512(...)
#endif
#ifdef FALT_HAVE_VNNI
#define FALT_IF_VNNI(...) __VA_ARGS__
#else
#define FALT_IF_VNNI(...)
#endif
#ifdef FALT_HAVE_BF16
#define FALT_IF_BF16(...) __VA_ARGS__
#else
#define FALT_IF_BF16(...)
#endif
#ifdef FALT_HAVE_AMX
#define FALT_IF_AMX(...) __VA_ARGS__
#else
#define FALT_IF_AMX(...)
#endif

/* The levels of a table; the portable one always is. cmake/isa.cmake says which files have which. */
#define FALT_ISA_VECTORS(EACH, NAME)   \
  FALT_IF_NEON(EACH(NAME, neon, NEON)) \
  FALT_IF_AVX2(EACH(NAME, avx2, AVX2)) FALT_IF_AVX512(EACH(NAME, avx512, AVX512))
#define FALT_ISA_VNNI_TOO(EACH, NAME) FALT_ISA_VECTORS(EACH, NAME) FALT_IF_VNNI(EACH(NAME, vnni, VNNI))
#define FALT_ISA_BF16_TOO(EACH, NAME) FALT_ISA_VECTORS(EACH, NAME) FALT_IF_BF16(EACH(NAME, bf16, BF16))
#define FALT_ISA_AMX_TOO(EACH, NAME) FALT_ISA_BF16_TOO(EACH, NAME) FALT_IF_AMX(EACH(NAME, amx, AMX))
#define FALT_ISA_ALL(EACH, NAME) FALT_ISA_AMX_TOO(EACH, NAME) FALT_IF_VNNI(EACH(NAME, vnni, VNNI))

#define FALT_ISA_DECLARED(NAME, LEVEL, ISA) , NAME##_##LEVEL
#define FALT_ISA_ENTRY(NAME, LEVEL, ISA) [FALT_ISA_##ISA] = &NAME##_##LEVEL,

/* const TYPE *NAME_for(falt_isa isa), from tables of that type. */
#define FALT_ISA_TABLE(TYPE, NAME, LEVELS)                                                     \
  extern const TYPE NAME##_portable LEVELS(FALT_ISA_DECLARED, NAME);                           \
  const TYPE *NAME##_for(falt_isa isa);                                                        \
  const TYPE *NAME##_for(falt_isa isa) {                                                       \
    static const TYPE *const tables[FALT_ISA_COUNT] = {[FALT_ISA_PORTABLE] = &NAME##_portable, \
                                                       LEVELS(FALT_ISA_ENTRY, NAME)};          \
    while (!tables[isa]) isa--;                                                                \
    return tables[isa];                                                                        \
  }

#endif
