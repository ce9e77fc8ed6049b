/* Measured limits of this processor: streaming copies from memory and from the private caches, and multiply-adds. The
 * kernels are compiled once per instruction set from limits_tmpl.c. */
#ifndef FALT_CPU_LIMITS_H
#define FALT_CPU_LIMITS_H

#include "core/cpu.h"
#include "core/thread.h"

typedef struct falt_limit_kernels {
  falt_isa isa;
  /* Copies whole cache lines past the caches; dst and src are aligned to 64, bytes is a multiple of 64. */
  void (*copy_memory)(void *dst, const void *src, size_t bytes);
  /* Copies `times` times over, within the caches. */
  void (*copy_cache)(void *dst, const void *src, size_t bytes, long times);
  /* `times` rounds of independent multiply-adds; returns something that depends on all of them. */
  double (*f32)(long times, float factor, float term);
  double (*f64)(long times, double factor, double term);
  int f32_flops, f64_flops; /* of one round */
  /* `times` rounds of products of bf16, and of u8 by s8, where one instruction adds several of them; else NULL. */
  void (*bf16)(long times);
  void (*s8)(long times);
  int bf16_flops, s8_flops;
} falt_limit_kernels;

/* The kernels for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_limit_kernels *falt_limit_kernels_for(falt_isa isa);

/* Estimates for an unknown processor of this level: nothing is measured. */
falt_limits falt_limits_guess(falt_isa isa, int threads);

/* Measures with these threads, for about a second. A failure leaves *limits unchanged. */
falt_status falt_limits_measure(falt_limits *limits, falt_isa isa, const falt_caches *caches, falt_threads *threads);

/* The processor's own name, with family, model and stepping if known; one line without control characters. */
void falt_cpu_model(char *text, size_t size);

#endif
