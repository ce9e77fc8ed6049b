/* Instruction sets and cache sizes of this processor. */
#ifndef FALT_CORE_CPU_H
#define FALT_CORE_CPU_H

#include <stddef.h>

/* Ascending levels within one architecture; a kernel table is filled up to the requested level. */
typedef enum falt_isa {
  FALT_ISA_PORTABLE,
  FALT_ISA_NEON,
  FALT_ISA_AVX2,
  FALT_ISA_AVX512,
  FALT_ISA_VNNI,
  FALT_ISA_BF16,
  FALT_ISA_AMX,
  FALT_ISA_COUNT
} falt_isa;

const char *falt_isa_name(falt_isa isa); /* "portable" "neon" "avx2" "avx512" "vnni" "bf16" "amx" */
int falt_isa_find(const char *name);     /* -1 if unknown */
/* The best level of this processor and operating system. avx2 implies FMA and F16C; avx512 implies F, BW, DQ, VL; vnni
 * is AVX-512 with byte dot products; bf16 is vnni with bf16 dot products; amx is bf16 with tiles of both, which the
 * operating system must grant: this function requests that. */
falt_isa falt_isa_best(void);
/* Whether this processor runs this level. */
int falt_isa_runs(falt_isa isa);

typedef struct falt_caches {
  size_t l1d, l2, l3; /* bytes; l1d and l2 of one core, l3 as one core sees it; guesses where unknown, never 0 */
} falt_caches;
falt_caches falt_cpu_caches(void);

#endif
