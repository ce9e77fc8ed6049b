/* Kernels for dense layers of 8-bit and 16-bit types: row loaders, products of tiles, epilogue. E. Georganas et al.,
 * "Harnessing Deep Learning via a Single Building Block", 2020. */
#ifndef FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_KERNELS_H
#define FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cpu.h"
#include "core/types.h"

/* A tile is 16 rows of 64 bytes. One AMX instruction multiplies a tile of rows by a tile of the panel and adds to a
 * tile of 16 x 16 accumulators. Both are loaded with a row pitch, so the pixels of an NHWC tensor are rows in place.
 * Elements come in groups of 4 bytes (VNNI order): 4 integers of 8 bits, 2 bf16 or 1 f32. A row of the panel holds one
 * group for each of 16 columns; its 16 rows are the groups of 64 bytes of depth. Instruction sets without AMX multiply
 * the same tiles by vectors.
 *
 * Sums of integers are exact and the same on every instruction set. */

enum {
  FALT_TILE_ROWS = 16,
  FALT_TILE_BYTES = 64,    /* of a row: a piece of the depth */
  FALT_TILE = 1024,        /* bytes */
  FALT_TILES_ROWS = 32,    /* of a call: two tiles */
  FALT_TILES_COLUMNS = 32, /* the same, and the pitch of sums */
  FALT_TILES_MOST_STEP = 64,
  FALT_TILES_MOST_TAPS = 16, /* elements of a span */
};

/* The operand types: columns of U8 and S8 are s8, those of S8_U8 are u8. */
typedef enum falt_tiles_kind {
  FALT_TILES_U8,
  FALT_TILES_S8_U8,
  FALT_TILES_S8,
  FALT_TILES_BF16,
  FALT_TILES_F32,
  FALT_TILES_KIND_COUNT
} falt_tiles_kind;

/* Whether pairs of elements are multiplied as they are: not as integers, and without conversion. */
static inline bool falt_tiles_multiplies_pairs(falt_type type) {
  return type == FALT_BF16;
}

/* Piece q of row m is the 64 bytes at at + q*next + m*step. All rows of a tile are readable, even if fewer are used.
 * `at` NULL means zeros, whose products are skipped; not with a matrix unit. */
typedef struct falt_tile_rows {
  const char *at;
  int64_t step, next;
} falt_tile_rows;

/* out[at[m] + i] = clip(bend(scale[i]*sums[m*32 + i] + offset[i] + residual[residual_at[m] + i])) for i < n and the
 * first rows[0] and rows[1] of 16 m each, rounded to the nearest integer, ties to even, and saturated where `type` is
 * an integer. s32 takes sums of integers as they are. `by_row`: scale[m] and offset[m]. */
typedef struct falt_tiles_finish {
  const void *sums; /* aligned to 64 */
  bool whole;       /* sums are s32 */
  bool plain;       /* only rounded and saturated: no factors, residual, curve or clip */
  bool adds;        /* plain f32 are added to the output */
  falt_type type;   /* u8, s8, f16, bf16, f32 or s32 */
  void *out;
  const int64_t *at;
  falt_type residual_type; /* u8, s8, f16, bf16 or f32 */
  const void *residual;    /* NULL: none */
  const int64_t *residual_at;
  const float *scale, *offset;
  bool by_row;
  int rows[2], n;
  int ahead[2];          /* rows of the next call, whose addresses follow in `at`: a hint */
  falt_activation curve; /* one that is no clip, or the identity */
  float slope;           /* of the leaky one */
  float low, high;       /* infinities: no clip. NaN passes */
} falt_tiles_finish;

/* Output of products: sums of one product are finished while those of the next are computed, since a matrix unit works
 * in parallel with the vectors. Starts with a count of 0. */
typedef struct falt_tiles_flow {
  void *sums; /* aligned to 64, of 2 x 32 x 32 */
  int64_t count;
  falt_tiles_finish finish[2];
} falt_tiles_flow;

/* sums[m*32 + i] = sum over segments, pieces and the elements j of a piece of row[m][j] * panel[j][i], as s32 or f32,
 * for each panel.
 *
 * Segment s of the first tile of rows, which are rows 0, 1, ... of the sums, is a[2*s], and of the second one, rows 16,
 * 17, ..., a[2*s + 1]. Vectors read groups of a row that are `distance` bytes apart: of lines of groups, whose
 * positions are rows. A panel is a tile for each segment, piece and (if columns > 16) half of its up to 32 columns.
 * Sums beyond rows and columns are undefined.
 *
 * `transposed`: sums[i*32 + m]. A panel's tiles are rows then, 16 columns i of 64 bytes of depth each, and the
 * lists have groups: row j of a piece has group j of 16 adjacent m. */
typedef struct falt_tiles_product {
  falt_tiles_kind kind;
  bool transposed;
  const falt_tile_rows *a;
  const char *b;         /* aligned to 64 */
  int64_t panels, pitch; /* bytes from panel to panel */
  int64_t segments, pieces;
  int groups;       /* of the last piece; behind them the panel is of zeros, that need not be multiplied */
  int64_t whole;    /* segments before this one are of whole pieces */
  int tiles, rows;  /* one or two tiles of these rows; transposed: 16 */
  int64_t distance; /* 4: contiguous; any for vectors; transposed: ignored */
  int64_t columns;  /* of all panels */
  int64_t apart;    /* elements of outputs from panel to panel */
  int64_t residual_apart;
  bool near;                       /* panels stay in the first-level cache */
  const falt_tiles_finish *finish; /* of panel 0, except its sums and n (transposed: rows); NULL: the sums of one panel
                                    * are left in flow->sums */
} falt_tiles_product;

/* Copies `parts` runs of `bytes` bytes, `apart` bytes apart from from + m*step on, to contiguous bytes at to + m*pitch
 * for m < count, with zeros behind them up to a multiple of 64. */
typedef struct falt_tiles_spread {
  const char *from;
  char *to;
  int64_t step, pitch, bytes, count;
  int64_t parts, apart;
} falt_tiles_spread;

/* to[i] = from[i*step], u8, s8, f16, bf16 or f32, as f32 for i < n; with `split` f16 as the sum of two bf16, the larger
 * one first. */
typedef struct falt_tiles_upconvert {
  const void *from;
  falt_type type;
  bool split;
  void *to;
  int64_t step, n;
} falt_tiles_upconvert;

/* to[i*4 + j] = rows[j][i] (bytes; of 16 bits to[i*2 + j]) for i < n: groups of four or two rows. */
typedef struct falt_tiles_zip {
  const void *rows[4];
  char *to;
  int64_t n;
  bool bytes; /* four rows of bytes; else two of 16 bits */
} falt_tiles_zip;

/* 32 rows of n <= 32 elements of 16 bits, which need no alignment. `pair`: as the tiles of a panel, one for each 16
 * columns; element i of rows 2*g and 2*g + 1 is group g of column i; columns beyond n are zeros. `transpose_rows`:
 * element i of row m goes to to[i*pitch + 2*m] (bytes). `cross`, of n rows of 32 elements: the same tiles; elements 2*g
 * and 2*g + 1 of row i are group g of column i. */
typedef struct falt_tiles_square {
  const void *const *rows;
  char *to;
  int64_t pitch;
  int n;
} falt_tiles_square;

/* 32 rows of n <= 32 elements of 16 bits that are 1 or 2 apart, as the tiles that `pair` makes. Row m begins offset[m]
 * elements from `from`. Its element i is read only if bit i of keep[mask[m]] is set, else it is 0: no bit from n on may
 * be set. A row may begin outside the operand. */
typedef struct falt_tiles_kept {
  const void *from;
  const int64_t *offset;
  const int32_t *mask;
  const uint32_t *keep;
  char *to;
  int n, apart;
} falt_tiles_kept;

/* The address of element i of row m. */
static inline const void *falt_tiles_kept_at(const falt_tiles_kept *call, int m, int64_t i) {
  return (const void *)((uintptr_t)call->from + (uintptr_t)(call->offset[m] + i * call->apart) * 2);
}

/* to[i*64 + 4*k + b] = rows[k][4*i + b] for n <= 16 rows of `bytes` bytes: the groups of 16 columns become adjacent.
 * Zeros follow a row's end, up to a multiple of 64 bytes, and replace rows beyond n. */
typedef struct falt_tiles_transpose {
  const char *const *rows;
  char *to;
  int64_t bytes;
  int n;
} falt_tiles_transpose;

/* Groups of columns from slots of `width` bytes: 4/width of them form a group. Slot j of group g of column k is
 *
 * `collect`: at byte (at[j] + g*step) of column k < 16 of transposed rows, where step is a multiple of 4;
 * `join`:    at from + at[j] + g*step + k*width for k < n <= 32, zero beyond n.
 *
 * It is stored at to + 64*g + 4*k + j*width, columns from 16 on one tile further. Slots that are not `present` (bit j)
 * are zeros. */
typedef struct falt_tiles_slots {
  const char *from;
  char *to;
  int64_t at[4], step;
  int width, groups, n;
  unsigned present;
} falt_tiles_slots;

/* Groups of columns from elements of two rows of 16 bits. Of a column, `apart` bytes after the one before, `span`
 * elements may be read. For each i < count, group k of to[i] is element at[i] of column k of both rows, for k < n <=
 * 32, columns from 16 on one tile further. A row that is NULL is of zeros, and so are columns from n on in the tiles
 * that are written. */
typedef struct falt_tiles_taps {
  const char *rows[2];
  int64_t apart;
  int n, span, count;
  int at[FALT_TILES_MOST_TAPS];
  char *to[FALT_TILES_MOST_TAPS];
} falt_tiles_taps;

typedef struct falt_tiles_kernels {
  double speed[FALT_TILES_KIND_COUNT]; /* of products, in f32 multiply-adds of the instruction set's vectors */
  int together;                        /* groups of one instruction, even if fewer are used */
  /* Around a thread's products: the rows of their tiles. */
  void (*open)(int rows);
  void (*close)(void);
  void (*product)(const falt_tiles_product *call, falt_tiles_flow *flow);
  void (*flush)(falt_tiles_flow *flow); /* pending products */
  void (*spread)(const falt_tiles_spread *call);
  void (*upconvert)(const falt_tiles_upconvert *call);
  void (*zip)(const falt_tiles_zip *call);
  void (*pair)(const falt_tiles_square *call);
  void (*pair_kept)(const falt_tiles_kept *call);
  void (*transpose_rows)(const falt_tiles_square *call);
  void (*cross)(const falt_tiles_square *call);
  void (*transpose)(const falt_tiles_transpose *call);
  void (*collect)(const falt_tiles_slots *call);
  void (*join)(const falt_tiles_slots *call);
  void (*flip)(char *tile); /* group g of column k and group k of column g change places */
  /* to[i] = from[i*step], of 16 bits at any address, for i < n <= 32 and 1 <= step <= FALT_TILES_MOST_STEP. */
  void (*gather)(const char *from, int64_t step, int n, char *to);
  void (*taps)(const falt_tiles_taps *call);
  void (*finish)(const falt_tiles_finish *call);
  /* Whether none of n sums in the first rows[0] and rows[1] of 16 rows each is NaN. */
  bool (*numbers)(const float *sums, const int rows[2], int n);
} falt_tiles_kernels;

/* The table for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_tiles_kernels *falt_tiles_kernels_for(falt_isa isa);

#endif
