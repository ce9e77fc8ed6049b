/* Kernels for separable filters of bytes, compiled once per instruction set: separable_u8_kernels.h says what they
 * compute.
 *
 * A block of VEC rows is filtered along y with a lane a column, transposed in registers, and filtered along x with a
 * lane a row. So both passes read whole vectors only, and share one register tile; symmetric taps are folded. */
#define FALT_LANE_BITS 32
#include "solver/cpu/filter/separable_u8_kernels.h"

#include "cpu/convert.h"
#include "cpu/vector_transpose.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* A register tile has TILE outputs; with symmetric taps two windows of as many inputs stay in registers beside it. */
enum { TILE = FALT_VECTOR_BYTES == 64 ? 8 : 4, GROUP = 4 * VEC /* columns that leave together */ };

/* ---- sums of vectors */

/* Vectors `step` apart, or those at column x of rows of bytes. */
typedef struct inputs {
  const lane *vectors;
  int64_t step;
  const uint8_t *const *rows;
  int64_t x;
} inputs;

FALT_INLINE vec input(const inputs *from, int64_t i) {
  return vec_keep(from->rows ? load_bytes(from->rows[i] + from->x, false) : vec_load(from->vectors + i * from->step));
}

/* TILE outputs: output p is the sum of value[j] * input p + j. Input p + j waits in slot (p + j) % TILE of a window,
 * and so does its mirror image in another one: every input is loaded once or twice. */
FALT_INLINE void sum_folded(const inputs *from, const falt_separable_u8_taps *taps, vec sum[TILE]) {
  const int half = taps->count / 2, last_tap = taps->count - 1;
  vec first[TILE], last[TILE];
  FALT_UNROLL
  for (int p = 0; p < TILE; p++) {
    first[p] = input(from, p);
    last[p] = input(from, last_tap + p);
    sum[p] = (vec){0};
  }
  for (int j = 0;; j += TILE) {
    FALT_UNROLL
    for (int u = 0; u < TILE; u++) {
      const vec w = vec_all(taps->value[j + u]);
      if (j + u == half) {
        if (taps->count % 2 == 0) return;
        FALT_UNROLL
        for (int p = 0; p < TILE; p++) sum[p] = vec_madd(sum[p], w, first[(p + u) % TILE]);
        return;
      }
      FALT_UNROLL
      for (int p = 0; p < TILE; p++) sum[p] = vec_madd(sum[p], w, first[(p + u) % TILE] + last[(p - u + TILE) % TILE]);
      first[u] = input(from, j + u + TILE);
      last[TILE - 1 - u] = input(from, last_tap - 1 - j - u);
    }
  }
}

FALT_INLINE void sum_plain(const inputs *from, const falt_separable_u8_taps *taps, vec sum[TILE]) {
  vec window[TILE];
  FALT_UNROLL
  for (int p = 0; p < TILE; p++) {
    window[p] = input(from, p);
    sum[p] = (vec){0};
  }
  for (int j = 0;; j += TILE) {
    FALT_UNROLL
    for (int u = 0; u < TILE; u++) {
      const vec w = vec_all(taps->value[j + u]);
      FALT_UNROLL
      for (int p = 0; p < TILE; p++) sum[p] = vec_madd(sum[p], w, window[(p + u) % TILE]);
      if (j + u + 1 == taps->count) return;
      window[u] = input(from, j + u + TILE);
    }
  }
}

/* Outputs may take the place of the first inputs. */
FALT_INLINE void run_tile(const inputs *from, const falt_separable_u8_taps *taps, lane *to, int64_t step) {
  vec sum[TILE];
  if (taps->symmetric)
    sum_folded(from, taps, sum);
  else
    sum_plain(from, taps, sum);
  FALT_UNROLL
  for (int p = 0; p < TILE; p++) vec_store(to + p * step, sum[p]);
}

/* ---- space: the columns of a block after the pass along y, and rows of VEC of them */

/* Output columns that are filtered together: whole tiles of the pass along x, and whole groups. */
FALT_INLINE int64_t columns_of(int step) {
  enum { MOST = 256 };
  const int unit = GROUP * step;
  return unit * (MOST / unit > 0 ? MOST / unit : 1);
}

static int64_t column_count(int s, int step) {
  return columns_of(step) + (int64_t)(s - 1) * step + GROUP;
}

static size_t space_of(int s, int step) {
  return (size_t)((column_count(s, step) + VEC) * VEC) * sizeof(lane);
}

/* ---- along y */

FALT_INLINE void transpose(const lane *from, lane *to) {
  vec row[VEC];
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) row[i] = vec_keep(vec_load(from + i * VEC));
  vec_transpose(row);
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) vec_store(to + i * VEC, row[i]);
}

/* Columns x .. x + GROUP - 1 as vectors. */
static void make_columns(const falt_separable_u8_call *call, int64_t x, lane *rows, lane *to) {
  for (int k = 0; k < GROUP; k += VEC) {
    for (int p = 0; p < VEC; p += TILE)
      run_tile(&(inputs){.rows = call->rows + p, .x = x + k}, &call->along_y, rows + p * VEC, VEC);
    transpose(rows, to + k * VEC);
  }
}

/* ---- along x */

FALT_INLINE vec_bits byte_of(const lane *from) {
  const vec inside = vec_at_most(vec_at_least(vec_all(0), vec_load(from)), vec_all(UINT8_MAX));
  return (vec_bits)(inside + vec_all(0x1p23f)); /* rounds; the byte is the lowest */
}

FALT_INLINE void store_group(uint8_t *to, vec bytes, bool stream) {
  if (stream && (uintptr_t)to % FALT_VECTOR_BYTES == 0)
    vec_stream((lane *)(void *)to, bytes);
  else
    memcpy(to, &bytes, sizeof bytes);
}

/* Four columns to a vector, a row a word; transposed, a vector is GROUP bytes of a row. */
static void store_columns(const falt_separable_u8_call *call, const lane *from, int64_t x) {
  void *const *out = call->out;
  const bool stream = call->stream;
  const int64_t left = call->n - x;
  vec row[VEC];
  FALT_UNROLL
  for (int k = 0; k < VEC; k++) {
    const lane *four = from + 4 * k * VEC;
    row[k] = (vec)((byte_of(four) & 0xff) | byte_of(four + VEC) << 8 | byte_of(four + 2 * VEC) << 16 |
                   byte_of(four + 3 * VEC) << 24);
  }
  vec_transpose(row);
  FALT_UNROLL
  for (int p = 0; p < VEC; p++) {
    if (left >= GROUP)
      store_group((uint8_t *)out[p] + x, row[p], stream);
    else
      memcpy((uint8_t *)out[p] + x, &row[p], (size_t)left);
  }
}

/* ---- both */

/* The pass along x is in place. */
FALT_INLINE void run_rows(const falt_separable_u8_call *call, const int step) {
  const int64_t most = columns_of(step), halo = (int64_t)(call->along_x.count - 1) * step, unit = TILE * step;
  lane *columns = call->space, *rows = columns + column_count(call->along_x.count, step) * VEC;
  int64_t made = 0; /* columns from x on */
  for (int64_t x = 0; x < call->n; x += most) {
    const int64_t left = (call->n - x + unit - 1) / unit * unit, count = left < most ? left : most;
    for (; made < count + halo; made += GROUP) make_columns(call, x + made, rows, columns + made * VEC);
    for (int64_t i = 0; i < count; i += unit)
      for (int64_t c = i; c < i + step; c++)
        run_tile(&(inputs){.vectors = columns + c * VEC, .step = step * VEC}, &call->along_x, columns + c * VEC,
                 step * VEC);
    for (int64_t i = 0; i < count && x + i < call->n; i += GROUP) store_columns(call, columns + i * VEC, x + i);
    made -= count;
    memmove(columns, columns + count * VEC, (size_t)(made * VEC) * sizeof(lane));
  }
}

static void run(const falt_separable_u8_call *call) {
  switch (call->step) { /* steps that are known have their own loops */
    case 1:
      run_rows(call, 1);
      break;
    case 2:
      run_rows(call, 2);
      break;
    case 3:
      run_rows(call, 3);
      break;
    default:
      run_rows(call, 4);
  }
  if (call->stream) vec_stream_end();
}

extern const falt_separable_u8_kernels JOIN(falt_separable_u8_kernels_, FALT_ISA_SUFFIX);
const falt_separable_u8_kernels JOIN(falt_separable_u8_kernels_, FALT_ISA_SUFFIX) = {
    .rows = VEC, .space = space_of, .run = run};
