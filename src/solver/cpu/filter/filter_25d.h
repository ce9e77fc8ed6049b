/* Filter kernels by 2.5D blocking, for filters of 2 to 7 rows. Included by the lane templates after filter_lane.h. */

/* A block of columns moves down. Its accumulators are a ring of r rows of registers: input row t is loaded once and
 * feeds all r output rows that it belongs to, through filter row i into output row t - i. Then output row t - r + 1 is
 * complete and is stored, and its registers serve row t + 1. Register tiles load some input rows for two tiles, which
 * limits small filters; this kernel loads each row once. The ring position must be a compile-time constant, so the loop
 * is unrolled r times and the number of rows must be r - 1 more than a multiple of r. The terms are
 * added row by row from the top, as in the kernel of register tiles, so both give the same bits. */

enum { BLOCKED_MOST = 7 };
enum { BLOCKED_2 = 8, BLOCKED_3 = 6, BLOCKED_4 = 6, BLOCKED_5 = 5, BLOCKED_6 = 4, BLOCKED_7 = 4 };
enum { BLOCKED_SUMS = 28 };

/* One tap of filter rows low..high; the rows' taps are s apart. */
FALT_INLINE void blocked_add(vec acc[BLOCKED_SUMS], int r, int64_t s, int width, const vec *in, const lane *tap,
                             int slot, int low, int high) {
  FALT_UNROLL
  for (int i = low; i <= high; i++) {
    vec w = vec_all(tap[i * s]);
    FALT_UNROLL
    for (int k = 0; k < width; k++) {
      vec *sum = &acc[(slot - i + r) % r * width + k];
      *sum = vec_madd(*sum, w, in[k]);
    }
  }
}

FALT_INLINE void blocked_load(vec *in, int width, int part, const lane *from, bool keep) {
  FALT_UNROLL
  for (int k = 0; k < width; k++) {
    vec v = take(from + k * VEC, part_of(k, width, part));
    in[k] = keep ? vec_keep(v) : v;
  }
}

/* Elements 1 .. VEC of two neighbouring vectors. */
FALT_INLINE vec blocked_shift(vec a, vec b) {
#if FALT_LANE_BITS == 32
  return (vec)_mm512_alignr_epi32((__m512i)b, (__m512i)a, 1);
#else
  return (vec)_mm512_alignr_epi64((__m512i)b, (__m512i)a, 1);
#endif
}

/* Three neighbouring taps of whole vectors, the first of them aligned: loads across cache lines are expensive, so
 * shuffles give the second. */
FALT_INLINE void blocked_three(vec acc[BLOCKED_SUMS], int r, int width, const lane *from, const lane *tap, int slot,
                               int low, int high) {
  vec in[Q + 3];
  blocked_load(in, width, 0, from, true);
  in[width] = vec_load_part(from + width * VEC, 2);
  blocked_add(acc, r, 3, width, in, tap, slot, low, high);
  FALT_UNROLL
  for (int k = 0; k < width; k++) in[k] = blocked_shift(in[k], in[k + 1]);
  blocked_add(acc, r, 3, width, in, tap + 1, slot, low, high);
  blocked_load(in, width, 0, from + 2, low < high);
  blocked_add(acc, r, 3, width, in, tap + 2, slot, low, high);
}

/* Input row t through filter rows low..high: the sums of output row t - i are at slot - i of the ring. three: the rows
 * have three neighbouring taps. */
FALT_INLINE void blocked_row(vec acc[BLOCKED_SUMS], int r, bool three, int width, int part, const block *b, int64_t t,
                             int slot, int low, int high) {
  const lane *tap = b->taps;
  int64_t s = b->s, rows = b->count + r - 1;
  for (int64_t plane = 0; plane < b->planes; plane++, tap += r * s) {
    const lane *from = b->rows[plane * rows + t] + b->x;
    if (three) {
      blocked_three(acc, r, width, from, tap, slot, low, high);
      continue;
    }
    for (int64_t j = 0; j < s; j++) {
      vec in[Q + 2];
      blocked_load(in, width, part, from + j * b->step, low < high);
      blocked_add(acc, r, s, width, in, tap + j, slot, low, high);
    }
  }
  if (b->prefetch && t < b->count)
    for (int i = 0; i < width * VEC; i += LINE) __builtin_prefetch(b->prefetch[t] + b->x + i, 0, 2);
}

FALT_INLINE void blocked_start(vec acc[BLOCKED_SUMS], int width, int slot) {
  FALT_UNROLL
  for (int k = 0; k < width; k++) acc[slot * width + k] = (vec){0};
}
FALT_INLINE void blocked_end(vec acc[BLOCKED_SUMS], int width, int part, const block *b, int64_t p, int slot) {
  FALT_UNROLL
  for (int k = 0; k < width; k++)
    put(b->out[p] + b->x + k * VEC, acc[slot * width + k], part_of(k, width, part), b->stream);
}

/* The steps of the start, the loop and the end. Their numbers are constants at each call, so rings become registers;
 * steps that a filter of r rows does not have vanish. */
FALT_INLINE void blocked_head(vec acc[BLOCKED_SUMS], int r, bool three, int width, int part, const block *b, int t) {
  if (t >= r - 1) return;
  blocked_start(acc, width, t);
  blocked_row(acc, r, three, width, part, b, t, t, 0, t);
}
FALT_INLINE void blocked_body(vec acc[BLOCKED_SUMS], int r, bool three, int width, int part, const block *b, int64_t t,
                              int i) {
  if (i >= r) return;
  int slot = (r - 1 + i) % r;
  blocked_start(acc, width, slot);
  blocked_row(acc, r, three, width, part, b, t + i, slot, 0, r - 1);
  blocked_end(acc, width, part, b, t + i - r + 1, i);
}
FALT_INLINE void blocked_tail(vec acc[BLOCKED_SUMS], int r, bool three, int width, int part, const block *b,
                              int below) {
  if (below >= r) return;
  int64_t t = b->count - 1 + below;
  blocked_row(acc, r, three, width, part, b, t, (r - 2 + below) % r, below, r - 1);
  blocked_end(acc, width, part, b, t - r + 1, below - 1);
}

FALT_INLINE void blocked_block(const block *b, int r, bool three, int width, int part) {
  vec acc[BLOCKED_SUMS];
  blocked_head(acc, r, three, width, part, b, 0);
  blocked_head(acc, r, three, width, part, b, 1);
  blocked_head(acc, r, three, width, part, b, 2);
  blocked_head(acc, r, three, width, part, b, 3);
  blocked_head(acc, r, three, width, part, b, 4);
  blocked_head(acc, r, three, width, part, b, 5);
  for (int64_t t = r - 1; t < b->count; t += r) {
    blocked_body(acc, r, three, width, part, b, t, 0);
    blocked_body(acc, r, three, width, part, b, t, 1);
    blocked_body(acc, r, three, width, part, b, t, 2);
    blocked_body(acc, r, three, width, part, b, t, 3);
    blocked_body(acc, r, three, width, part, b, t, 4);
    blocked_body(acc, r, three, width, part, b, t, 5);
    blocked_body(acc, r, three, width, part, b, t, 6);
  }
  blocked_tail(acc, r, three, width, part, b, 1);
  blocked_tail(acc, r, three, width, part, b, 2);
  blocked_tail(acc, r, three, width, part, b, 3);
  blocked_tail(acc, r, three, width, part, b, 4);
  blocked_tail(acc, r, three, width, part, b, 5);
  blocked_tail(acc, r, three, width, part, b, 6);
}

FALT_INLINE void blocked_few(const block *b, int r, bool three, int most, int width, int part) {
  if (width == 1) blocked_block(b, r, three, 1, part);
  if (width == 2 && most > 2) blocked_block(b, r, three, 2, part);
  if (width == 3 && most > 3) blocked_block(b, r, three, 3, part);
  if (width == 4 && most > 4) blocked_block(b, r, three, 4, part);
}

#define HEIGHT(r)                                                      \
  static void blocked_##r##_whole(const block *b) {                    \
    blocked_block(b, r, false, BLOCKED_##r, 0);                        \
  }                                                                    \
  static void blocked_##r##_few(const block *b, int width, int part) { \
    blocked_few(b, r, false, BLOCKED_##r, width, part);                \
  }
HEIGHT(2)
HEIGHT(3)
HEIGHT(4)
HEIGHT(5)
HEIGHT(6)
HEIGHT(7)

static void blocked_three_3_whole(const block *b) {
  blocked_block(b, 3, true, BLOCKED_3, 0);
}
static void blocked_three_3_few(const block *b, int width, int part) {
  if (part == VEC)
    blocked_few(b, 3, true, BLOCKED_3, width, VEC);
  else
    blocked_few(b, 3, false, BLOCKED_3, width, part);
}

static void blocked(const falt_filter_rows *call) {
  static const blocks by_height[BLOCKED_MOST - 1] = {
      {blocked_2_whole, blocked_2_few, BLOCKED_2, 4}, {blocked_3_whole, blocked_3_few, BLOCKED_3, 4},
      {blocked_4_whole, blocked_4_few, BLOCKED_4, 4}, {blocked_5_whole, blocked_5_few, BLOCKED_5, 4},
      {blocked_6_whole, blocked_6_few, BLOCKED_6, 3}, {blocked_7_whole, blocked_7_few, BLOCKED_7, 3}};
  static const blocks three = {blocked_three_3_whole, blocked_three_3_few, BLOCKED_3, 4};
  bool aligned = (uintptr_t)call->rows[0] % FALT_VECTOR_BYTES == 0;
  bool few_loads = call->r == 3 && call->s == 3 && call->step == 1 && aligned;
  run_columns(call, call->count, few_loads ? &three : &by_height[call->r - 2]);
}
