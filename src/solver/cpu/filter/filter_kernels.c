/* The table of filter kernels by instruction set, and calls for filters of many taps. */
#include "solver/cpu/filter/filter_kernels.h"

#include <pthread.h>

#include "core/memory.h"
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

/* The taps from (plane, row, column) on, whose sums are added to those before them. */
static falt_filter_rows taps_from(const falt_filter_rows *call, size_t lane_size, int plane, int row, int column) {
  falt_filter_rows rest = *call;
  const int64_t tap = ((int64_t)plane * call->r + row) * call->s + column;
  rest.taps = (const char *)call->taps + (size_t)tap * lane_size;
  rest.planes -= plane;
  rest.r -= row;
  rest.s -= column;
  rest.accumulate = true;
  rest.prefetch = NULL;
  return rest;
}

/* Halves the planes, else the rows, else the columns, these at whole cache lines of f32. */
void falt_filter_in_pieces(const falt_filter_rows *call, int rows, size_t lane_size,
                           void (*kernel)(const falt_filter_rows *call)) {
  enum { LINE = 16 };
  if (falt_filter_is_chain(lane_size, call->planes, call->r, call->s)) {
    kernel(call);
    return;
  }
  falt_filter_rows first = *call, rest;
  const void *moved[FALT_FILTER_MOST_ROWS];
  first.stream = false;
  if (call->planes > 1) {
    first.planes /= 2;
    rest = taps_from(call, lane_size, first.planes, 0, 0);
    rest.rows = call->rows + first.planes * (call->r + rows - 1);
  } else if (call->r > 1) {
    first.r /= 2;
    rest = taps_from(call, lane_size, 0, first.r, 0);
    rest.rows = call->rows + first.r;
  } else {
    first.s = (int)falt_round_up(first.s / 2, LINE);
    rest = taps_from(call, lane_size, 0, 0, first.s);
    for (int i = 0; i < rows; i++) moved[i] = (const char *)call->rows[i] + (size_t)(first.s * call->step) * lane_size;
    rest.rows = moved;
  }
  falt_filter_in_pieces(&first, rows, lane_size, kernel);
  falt_filter_in_pieces(&rest, rows, lane_size, kernel);
}
