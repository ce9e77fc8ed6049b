/* VNNI tile kernels of one instruction set. igemm_vnni_kernels.h describes them, igemm_vnni_panel.h has the products by
 * vectors. Compiled once per level. With AMX, 2 x 2 accumulator tiles stay in the tile registers: 4 tiles are loaded
 * for 4 products, 32 cycles of loads under 64 cycles of products. */
#define FALT_LANE_BITS 32
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"

#include "cpu/amx.h"
#include "cpu/vector.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_columns.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_panel.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if defined(__AMX_TILE__)

/* ---- products by the matrix unit: tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 the panel */

_Static_assert(FALT_TILE_BYTES == 64 && FALT_TILE_ROWS == 16, "the shape of the matrix unit's tiles");

static void open_tiles(int rows) {
  falt_amx_open(rows);
}

static void close_tiles(void) {
  _tile_release();
}

#define MULTIPLY(kind, sum, rows, panel) \
  do {                                   \
    if ((kind) == FALT_TILES_BF16)       \
      _tile_dpbf16ps(sum, rows, panel);  \
    else if ((kind) == FALT_TILES_S8)    \
      _tile_dpbssd(sum, rows, panel);    \
    else if ((kind) == FALT_TILES_S8_U8) \
      _tile_dpbsud(sum, rows, panel);    \
    else                                 \
      _tile_dpbusd(sum, rows, panel);    \
  } while (0)

/* The next piece at `from`, loaded past the L1 cache if it is not used again soon. */
#define LOAD(tile, from, past)                          \
  do {                                                  \
    if (past)                                           \
      _tile_stream_loadd(tile, (from).at, (from).step); \
    else                                                \
      _tile_loadd(tile, (from).at, (from).step);        \
    (from).at += (from).next;                           \
  } while (0)

/* Outputs of the product before, a few rows at each step of this one. */
typedef struct outgoing {
  const falt_tiles_finish *finish;
  int next, each;
} outgoing;

FALT_INLINE outgoing open_outgoing(const one_panel *one) {
  const int64_t steps = one->call->segments * one->call->pieces;
  return (outgoing){.finish = one->before,
                    .next = one->before ? 0 : FALT_TILES_ROWS,
                    .each = steps < FALT_TILES_ROWS ? (int)((FALT_TILES_ROWS + steps - 1) / steps) : 1};
}

FALT_INLINE void take_out(outgoing *o) {
  if (o->next >= FALT_TILES_ROWS) return;
  const int end = o->next + o->each < FALT_TILES_ROWS ? o->next + o->each : FALT_TILES_ROWS;
  finish_some(o->finish, o->next, end);
  o->next = end;
}

/* The tiles of a segment, by rows and columns: those of the lists and those of the panel at b; one or two each. */
typedef struct sides {
  falt_tile_rows row[2], column[2];
} sides;

FALT_INLINE sides sides_at(const one_panel *one, int64_t segment, const char *b, const bool transposed,
                           const int listed, const int packed) {
  const falt_tile_rows *list = one->call->a + 2 * segment, first = list[0], second = listed > 1 ? list[1] : first;
  const falt_tile_rows upper = {b, FALT_TILE_BYTES, packed * FALT_TILE};
  const falt_tile_rows lower = {packed > 1 ? b + FALT_TILE : b, FALT_TILE_BYTES, packed * FALT_TILE};
  return transposed ? (sides){{upper, lower}, {first, second}} : (sides){{first, second}, {upper, lower}};
}

/* A panel that would leave the L1 cache before it is used again is loaded past it, which leaves the cache to the rows.
 * Always inlined with a constant kind and constant numbers of tiles. */
FALT_INLINE void tiles(const one_panel *one, const falt_tiles_kind kind, const bool transposed, const bool low,
                       const bool wide) {
  const falt_tiles_product *call = one->call;
  outgoing before = open_outgoing(one);
  const bool past = !call->near;
  const int listed = (transposed ? wide : low) ? 2 : 1, packed = (transposed ? low : wide) ? 2 : 1;
  const int64_t each = call->pieces * packed * FALT_TILE;
  const char *b = one->b;
  _tile_zero(0);
  if (wide) _tile_zero(1);
  if (low) _tile_zero(2);
  if (low && wide) _tile_zero(3);
  for (int64_t s = 0; s < call->segments; s++, b += each) {
    sides at = sides_at(one, s, b, transposed, listed, packed);
    for (int64_t p = 0; p < call->pieces; p++) {
      LOAD(6, at.column[0], past && !transposed);
      LOAD(4, at.row[0], past && transposed);
      MULTIPLY(kind, 0, 4, 6);
      if (wide) {
        LOAD(7, at.column[1], past && !transposed);
        MULTIPLY(kind, 1, 4, 7);
      }
      if (low) {
        LOAD(5, at.row[1], past && transposed);
        MULTIPLY(kind, 2, 5, 6);
        if (wide) MULTIPLY(kind, 3, 5, 7);
      }
      take_out(&before);
    }
  }
  _tile_stored(0, one->to[0], one->step);
  if (wide) _tile_stored(1, one->to[0] + FALT_TILE_BYTES, one->step);
  if (low) _tile_stored(2, one->to[1], one->step);
  if (low && wide) _tile_stored(3, one->to[1] + FALT_TILE_BYTES, one->step);
}

FALT_INLINE void tiles_of(const one_panel *one, const falt_tiles_kind kind, const bool transposed) {
  const bool low = row_tiles(one) > 1, wide = column_tiles(one) > 1;
  if (low && wide)
    tiles(one, kind, transposed, true, true);
  else if (low)
    tiles(one, kind, transposed, true, false);
  else if (wide)
    tiles(one, kind, transposed, false, true);
  else
    tiles(one, kind, transposed, false, false);
}

FALT_INLINE void narrow_product(const one_panel *one, const falt_tiles_kind kind) {
  if (one->call->transposed)
    tiles_of(one, kind, true);
  else
    tiles_of(one, kind, false);
}

/* Prefetches the outputs of the next call in the columns of panel i: tiles are stored row by row, each when its line
 * has arrived. */
FALT_INLINE void fetch_ahead(const one_panel *one, int64_t i) {
  const falt_tiles_finish *f = one->call->finish;
  for (int q = 0; q < FALT_TILES_ROWS; q++) {
    if (q % FALT_TILE_ROWS >= f->ahead[q / FALT_TILE_ROWS]) continue;
    const float *to = (const float *)f->out + i * one->call->apart + f->at[FALT_TILES_ROWS + q];
    __builtin_prefetch(to, 1);
    __builtin_prefetch(to + one->columns - 1, 1);
  }
}

#else

static void open_tiles(int rows) {
  (void)rows;
}
static void close_tiles(void) {}
FALT_INLINE void fetch_ahead(const one_panel *one, int64_t i) {
  (void)one, (void)i;
}
FALT_INLINE void narrow_product(const one_panel *one, const falt_tiles_kind kind) {
  product_of(one, kind);
}

#endif

static void product_u8(const one_panel *one) {
  narrow_product(one, FALT_TILES_U8);
}
static void product_s8_u8(const one_panel *one) {
  narrow_product(one, FALT_TILES_S8_U8);
}
static void product_s8(const one_panel *one) {
  narrow_product(one, FALT_TILES_S8);
}
static void product_bf16(const one_panel *one) {
  narrow_product(one, FALT_TILES_BF16);
}

/* The row pitch of the output if sums are outputs without epilogue and rows of whole tiles are equally spaced; else 0.
 */
static int64_t straight_step(const falt_tiles_product *call) {
  const falt_tiles_finish *f = call->finish;
  if (!f || !f->plain || f->adds || call->rows < 2) return 0;
  if (f->type != (f->whole ? FALT_S32 : FALT_F32) && !leaves_narrow(f)) return 0;
  const int64_t step = f->at[1] - f->at[0];
  if (call->transposed) return f->n == call->tiles * FALT_TILE_ROWS ? step : 0; /* channels are equally spaced */
  for (int tile = 0; tile < call->tiles; tile++) {
    const int64_t *at = f->at + (ptrdiff_t)tile * FALT_TILE_ROWS;
    if (f->rows[tile] != call->rows) return 0;
    for (int m = 1; m < call->rows; m++)
      if (at[m] != at[0] + m * step) return 0;
  }
  return step;
}

/* Panel i past the sums. */
FALT_INLINE void send_straight(one_panel *one, int64_t i, int64_t step) {
  const falt_tiles_finish *f = one->call->finish;
  one->size = f->type == FALT_S32 ? GROUP : (int64_t)size_of(f->type);
  one->step = step * one->size;
  char *out = (char *)f->out + i * one->call->apart * one->size;
  one->to[0] = out + f->at[0] * one->size;
  if (row_tiles(one) > 1) one->to[1] = out + f->at[FALT_TILE_ROWS] * one->size;
  if (one->call->transposed)
    fetch_rows(f, out, 0, one->columns);
  else
    fetch_ahead(one, i);
}

/* The finish of panel i, from that of the first. */
FALT_INLINE void set_finish(falt_tiles_finish *to, const one_panel *one, int64_t i) {
  const falt_tiles_finish *first = one->call->finish;
  const int64_t apart = i * one->call->apart, residual_apart = i * one->call->residual_apart;
  const int64_t columns = i * FALT_TILES_COLUMNS;
  *to = *first;
  to->sums = one->sums;
  if (one->call->transposed) {
    to->rows[0] = one->columns < FALT_TILE_ROWS ? one->columns : FALT_TILE_ROWS;
    to->rows[1] = one->columns - to->rows[0];
  } else {
    to->n = one->columns;
  }
  to->out = (char *)first->out + apart * (int64_t)(first->type == FALT_S32 ? 4 : size_of(first->type));
  if (first->residual)
    to->residual = (const char *)first->residual + residual_apart * (int64_t)size_of(first->residual_type);
  to->scale = first->scale + columns;
  to->offset = first->offset + columns;
}

/* Two products alternate. */
FALT_INLINE void keep_sums(one_panel *one, const falt_tiles_flow *flow) {
  one->size = GROUP;
  one->step = PITCH * GROUP;
  one->sums = (char *)flow->sums + flow->count % 2 * (FALT_TILES_ROWS * one->step);
  one->to[0] = one->sums;
  one->to[1] = one->to[0] + FALT_TILE_ROWS * one->step;
}

static void product(const falt_tiles_product *call, falt_tiles_flow *flow) {
  static void (*const kinds[FALT_TILES_KIND_COUNT])(const one_panel *) = {
      [FALT_TILES_U8] = product_u8,     [FALT_TILES_S8_U8] = product_s8_u8, [FALT_TILES_S8] = product_s8,
      [FALT_TILES_BF16] = product_bf16, [FALT_TILES_F32] = product_f32,
  };
  void (*const multiply_panel)(const one_panel *) = kinds[call->kind];
  const int64_t step = straight_step(call);
  const int blocks = (call->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  one_panel one = {.call = call, .b = call->b, .each = call->rows / blocks, .more = call->rows % blocks};
  for (int64_t i = 0; i < call->panels; i++, one.b += call->pitch) {
    const int64_t left = call->columns - i * FALT_TILES_COLUMNS;
    one.columns = (int)(left < FALT_TILES_COLUMNS ? left : FALT_TILES_COLUMNS);
    one.before = flow->count > 0 ? &flow->finish[(flow->count - 1) % 2] : NULL;
    const bool straight = step != 0 && one.columns % FALT_TILE_ROWS == 0;
    if (straight)
      send_straight(&one, i, step);
    else
      keep_sums(&one, flow);
    multiply_panel(&one);
    if (straight)
      flow->count = 0;
    else if (call->finish)
      set_finish(&flow->finish[flow->count++ % 2], &one, i);
  }
}

static void flush(falt_tiles_flow *flow) {
  if (flow->count > 0) finish(&flow->finish[(flow->count - 1) % 2]);
  flow->count = 0;
}

static bool numbers(const float *sums, const int rows[2], int n) {
  const int last = (n - 1) % VEC + 1;
  vec_bits wrong = {0};
  int32_t any = 0;
  for (int q = 0; q < FALT_TILES_ROWS; q++, sums += PITCH) {
    if (q % FALT_TILE_ROWS >= rows[q / FALT_TILE_ROWS]) continue;
    for (int i = 0; i < n - last; i += VEC) wrong |= vec_load(sums + i) != vec_load(sums + i);
    const vec x = vec_load_part(sums + n - last, last);
    wrong |= x != x;
  }
  for (int i = 0; i < VEC; i++) any |= wrong[i];
  return !any;
}

extern const falt_tiles_kernels JOIN(falt_tiles_kernels_, FALT_ISA_SUFFIX);
const falt_tiles_kernels JOIN(falt_tiles_kernels_, FALT_ISA_SUFFIX) = {
#if defined(__AMX_TILE__)
    .together = GROUPS,
    .speed = {[FALT_TILES_U8] = 30,
              [FALT_TILES_S8_U8] = 30,
              [FALT_TILES_S8] = 28,
              [FALT_TILES_BF16] = 13,
              [FALT_TILES_F32] = 1},
#elif defined(__AVX512VNNI__)
    .together = 1,
    .speed = {[FALT_TILES_U8] = 4,
              [FALT_TILES_S8_U8] = 4,
              [FALT_TILES_S8] = 2.7,
#if defined(__AVX512BF16__)
              [FALT_TILES_BF16] = 2,
#else
              [FALT_TILES_BF16] = 0.7,
#endif
              [FALT_TILES_F32] = 1},
#else
    .together = 1,
    .speed = {[FALT_TILES_U8] = 1,
              [FALT_TILES_S8_U8] = 1,
              [FALT_TILES_S8] = 0.9,
#if FALT_VECTOR_BYTES == 32
              [FALT_TILES_BF16] = 0.55, /* blocks of 3 rows instead of 8 share the upconversion of a word of weights */
#else
              [FALT_TILES_BF16] = 0.7,
#endif
              [FALT_TILES_F32] = 1},
#endif
    .open = open_tiles,
    .close = close_tiles,
    .product = product,
    .flush = flush,
    .spread = spread,
    .upconvert = upconvert,
    .zip = zip,
    .pair = pair,
    .pair_kept = pair_kept,
    .transpose_rows = transpose_rows,
    .cross = cross,
    .transpose = transpose,
    .collect = collect,
    .join = join,
    .flip = flip,
    .gather = gather,
    .taps = taps,
    .finish = finish,
    .numbers = numbers,
};
