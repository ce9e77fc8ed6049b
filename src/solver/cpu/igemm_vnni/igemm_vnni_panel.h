/* The product of a pair of row tiles and one panel of the filter: its arguments, and the kernel by vectors. A block of
 * rows x 2 vectors of accumulators stays in registers; each group of the rows is broadcast to all columns
 * (solver/cpu/common/vector_dots.h). Included by igemm_vnni_tmpl.c after cpu/vector.h. */
#ifndef FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_PANEL_H
#define FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_PANEL_H

#include <string.h>

#include "solver/cpu/common/vector_dots.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_finish.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_rows.h"

#if FALT_VECTOR_BYTES == 64
enum { BLOCK_ROWS = 8, BLOCK_VECTORS = 2 };
#elif defined(__aarch64__)
enum { BLOCK_ROWS = 6, BLOCK_VECTORS = 2 };
#else
enum { BLOCK_ROWS = 3, BLOCK_VECTORS = 2 };
#endif

static void finish(const falt_tiles_finish *f) {
  finish_some(f, 0, FALT_TILES_ROWS);
}

/* The product by one panel. */
typedef struct one_panel {
  const falt_tiles_product *call;
  const char *b;
  void *sums;
  int columns;
  const falt_tiles_finish *before; /* sums that are taken out meanwhile; NULL: none */
  char *to[2];                     /* where tiles go, `step` bytes from row to row: to sums, or where outputs belong */
  int64_t step, size;              /* bytes of an element there */
  int each, more;                  /* rows of a tile's blocks of vectors, and how many of these have one more */
} one_panel;

/* Whether plain outputs are narrowed before they leave the registers. */
FALT_INLINE bool leaves_narrow(const falt_tiles_finish *f) {
#if defined(__AVX512BF16__) && !defined(__AMX_TILE__)
  return f->type == FALT_BF16 && !f->whole;
#else
  return (void)f, false;
#endif
}

/* One or two vectors of sums that are neighbours. */
FALT_INLINE void store_sums(char *to, const vec_bits *sums, const int vectors, int64_t size) {
#if defined(__AVX512BF16__) && !defined(__AMX_TILE__)
  if (size == 2 && vectors == 2) {
    const __m512bh halves = _mm512_cvtne2ps_pbh((__m512)sums[1], (__m512)sums[0]);
    memcpy(to, &halves, sizeof halves);
    return;
  }
  if (size == 2) {
    const __m256bh halves = _mm512_cvtneps_pbh((__m512)sums[0]);
    memcpy(to, &halves, sizeof halves);
    return;
  }
#endif
  (void)size;
  FALT_UNROLL
  for (int q = 0; q < vectors; q++) memcpy(to + q * VEC * GROUP, &sums[q], sizeof sums[q]);
}

FALT_INLINE int tiles_in(int lines) {
  return (lines + FALT_TILE_ROWS - 1) / FALT_TILE_ROWS;
}
/* How many tiles of rows and of columns the sums have. */
FALT_INLINE int row_tiles(const one_panel *one) {
  return one->call->transposed ? tiles_in(one->columns) : one->call->tiles;
}
FALT_INLINE int column_tiles(const one_panel *one) {
  return one->call->transposed ? one->call->tiles : tiles_in(one->columns);
}

/* The sums of rows [m, m + rows) and of some vectors of columns from i on. Always inlined with constant rows, vectors
 * and kind. */
FALT_INLINE void block(const one_panel *one, const falt_tiles_kind kind, const int rows, const int vectors, int m0,
                       int i0) {
  const falt_tiles_product *call = one->call;
  const char *b = one->b;
  const bool transposed = call->transposed;
  const int64_t distance = transposed ? GROUP : call->distance;
  const int64_t next = tiles_in(one->columns) * FALT_TILE; /* from piece to piece of the panel */
  vec_bits sum[BLOCK_ROWS * BLOCK_VECTORS] = {0}, moved[BLOCK_VECTORS] = {0};
  char *to = one->to[m0 / FALT_TILE_ROWS] + m0 % FALT_TILE_ROWS * one->step + i0 * one->size;
  const split move = {.first = all_bits((int32_t)0x80808080u)};
  for (int64_t s = 0; s < call->segments; s++, b += call->pieces * next) {
    const falt_tile_rows *list = call->a + 2 * s;
    if (!list[(transposed ? i0 : m0) / FALT_TILE_ROWS].at) continue;
    const falt_tile_rows panel = {b + (transposed ? m0 : i0) / FALT_TILE_ROWS * FALT_TILE, FALT_TILE_BYTES, next};
    const falt_tile_rows left = transposed ? panel : list[m0 / FALT_TILE_ROWS];
    const falt_tile_rows right = transposed ? list[i0 / FALT_TILE_ROWS] : panel;
    const char *row[2], *groups[BLOCK_VECTORS]; /* every fourth row: others are found by addressing */
    FALT_UNROLL
    for (int q = 0; q < vectors; q++) {
      const int tile = q * VEC / FALT_TILE_ROWS; /* beyond that of the first vector */
      const char *at = tile == 0 ? right.at : transposed ? list[1].at : right.at + FALT_TILE;
      groups[q] = at + (i0 + q * VEC) % FALT_TILE_ROWS * GROUP;
    }
    row[0] = left.at + m0 % FALT_TILE_ROWS * left.step;
    row[1] = row[0] + 4 * left.step;
    for (int64_t p = 0; p < call->pieces; p++) {
      const int wanted = p + 1 < call->pieces || s < call->whole ? GROUPS : call->groups;
      for (int j = 0; j < wanted; j++) {
        split column[BLOCK_VECTORS];
        FALT_UNROLL
        for (int q = 0; q < vectors; q++) {
          column[q] = split_column(load_bits(groups[q] + j * right.step), kind);
          if (is_moved(kind)) moved[q] = multiply(moved[q], move, column[q], kind);
        }
        FALT_UNROLL
        for (int m = 0; m < rows; m++) {
          int32_t group;
          memcpy(&group, row[m / 4] + m % 4 * left.step, sizeof group);
          const split x = split_row(all_bits(group), kind);
          FALT_UNROLL
          for (int q = 0; q < vectors; q++) sum[m * vectors + q] = multiply(sum[m * vectors + q], x, column[q], kind);
        }
        row[0] += distance;
        row[1] += distance;
      }
      row[0] += left.next - wanted * distance;
      row[1] += left.next - wanted * distance;
      FALT_UNROLL
      for (int q = 0; q < vectors; q++) groups[q] += right.next;
    }
  }
  if (is_moved(kind)) {
    FALT_UNROLL
    for (int i = 0; i < rows * vectors; i++) sum[i] -= moved[i % vectors];
  }
  FALT_UNROLL
  for (int m = 0; m < rows; m++, to += one->step) store_sums(to, sum + m * vectors, vectors, one->size);
}

/* A block of any number of rows up to BLOCK_ROWS. */
FALT_INLINE void block_of(const one_panel *one, const falt_tiles_kind kind, int rows, const int vectors, int m, int i) {
  switch (rows) {
#if FALT_VECTOR_BYTES == 64
    case 8:
      block(one, kind, 8, vectors, m, i);
      break;
    case 7:
      block(one, kind, 7, vectors, m, i);
      break;
#endif
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
    case 6:
      block(one, kind, 6, vectors, m, i);
      break;
    case 5:
      block(one, kind, 5, vectors, m, i);
      break;
    case 4:
      block(one, kind, 4, vectors, m, i);
      break;
#endif
    case 3:
      block(one, kind, 3, vectors, m, i);
      break;
    case 2:
      block(one, kind, 2, vectors, m, i);
      break;
    default:
      block(one, kind, 1, vectors, m, i);
  }
}

/* All rows by some vectors of columns from i on. Rows of a block are in one tile, so their pieces have one distance.
 * Blocks of a tile have equal rows, because few sums in a block wait for each other. */
FALT_INLINE void rows_by(const one_panel *one, const falt_tiles_kind kind, const int vectors, int i) {
  for (int tile = 0; tile < row_tiles(one); tile++)
    for (int q = 0, m = 0, rows; m < one->call->rows; q++, m += rows) {
      rows = one->each + (q < one->more);
      block_of(one, kind, rows, vectors, tile * FALT_TILE_ROWS + m, i);
    }
}

FALT_INLINE void product_of(const one_panel *one, const falt_tiles_kind kind) {
  const int wide = column_tiles(one) * FALT_TILE_ROWS;
  if (one->before) finish(one->before);
  if (FALT_TILE_ROWS < BLOCK_VECTORS * VEC && wide == FALT_TILE_ROWS)
    rows_by(one, kind, 1, 0);
  else
    for (int i = 0; i < wide; i += BLOCK_VECTORS * VEC) rows_by(one, kind, BLOCK_VECTORS, i);
}

static void product_f32(const one_panel *one) {
  product_of(one, FALT_TILES_F32);
}

#endif
