/* The table of filter kernels by instruction set. */
#include "solver/cpu/filter/filter_kernels.h"

#include <pthread.h>

#include "solver/cpu/filter/filter_table.h"

/* By rising level, each with the templates that fill it; levels that were not built are absent. */
static const struct {
  falt_isa isa;
  falt_filter_fill *fill[3];
} levels[] = {
    {FALT_ISA_PORTABLE, {falt_filter_f32_portable, falt_filter_f64_portable, falt_filter_move_portable}},
#if FALT_HAVE_NEON
    {FALT_ISA_NEON, {falt_filter_f32_neon, falt_filter_f64_neon, falt_filter_move_neon}},
#endif
#if FALT_HAVE_AVX2
    {FALT_ISA_AVX2, {falt_filter_f32_avx2, falt_filter_f64_avx2, falt_filter_move_avx2}},
#endif
#if FALT_HAVE_AVX512
    {FALT_ISA_AVX512, {falt_filter_f32_avx512, falt_filter_f64_avx512, falt_filter_move_avx512}},
#endif
};
enum { LEVELS = sizeof levels / sizeof *levels };

static falt_filter_kernels tables[LEVELS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void) {
  for (int i = 0; i < LEVELS; i++) {
    tables[i].isa = levels[i].isa;
    for (int part = 0; part < 3; part++) levels[i].fill[part](&tables[i]);
  }
}

const falt_filter_kernels *falt_filter_kernels_for(falt_isa isa) {
  pthread_once(&once, fill_tables);
  int best = 0;
  for (int i = 1; i < LEVELS; i++)
    if (levels[i].isa <= isa) best = i;
  return &tables[best];
}
