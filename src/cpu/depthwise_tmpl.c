/* Depthwise kernels of one instruction set: cpu/depthwise.h says what they compute. Compiled once per level.
 *
 * A tile of neighbouring positions of one vector of channels keeps its sums in registers over all segments. In a near
 * segment, the usual one, a vector of the source is loaded once for all taps that read it: 3 taps of 14 positions are
 * 16 vectors and 3 of weights for 42 multiply-adds, and a column that a table leaves out takes its multiply-adds with
 * it. Elsewhere (strides, dilations) each multiply-add has a load of its own, which two loads a cycle just feed.
 * Channels are the inner loop and positions the outer one, so that memory is read in order. */
#define FALT_LANE_BITS 32
#include "cpu/depthwise.h"
#include "cpu/layer_activate.h"
#include "cpu/vector.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

enum { LINE = 64 };
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { TILE = 14 };
#else
enum { TILE = 7 };
#endif

/* Columns of a tile are more than FALT_UNROLL unrolls. */
#if defined(__clang__)
#define UNROLL_COLUMNS _Pragma("clang loop unroll(full)")
#else
#define UNROLL_COLUMNS _Pragma("GCC unroll 32")
#endif

FALT_INLINE vec load(const lane *from, int n) {
  return n == VEC ? vec_load(from) : vec_load_part(from, n);
}

/* Lines are written whole by vectors of their size alone. */
FALT_INLINE void store(lane *to, vec y, int n, bool stream) {
  if (stream && VEC * sizeof(lane) == LINE && n == VEC)
    vec_stream(to, y);
  else if (n == VEC)
    vec_store(to, y);
  else
    vec_store_part(to, y, n);
}

FALT_INLINE void look_ahead(const falt_depthwise_call *call, int64_t q, int64_t i, int64_t positions) {
  for (int a = 0; a < call->ahead_count; a++)
    for (int64_t p = 0; p < positions; p++) __builtin_prefetch(call->ahead[a] + (q + p) * call->ahead_step + i, 0, 2);
}

/* ---- sums */

/* The functions below are inlined with constant positions, taps and edge, so that sums stay in registers; n is VEC for
 * all vectors but the last. */
FALT_INLINE void add_near(vec *sum, const falt_depthwise_segment *segment, const lane *x, const int64_t *at,
                          const lane *w, int n, const int positions, const int taps, const bool edge) {
  vec weight[FALT_DEPTHWISE_TAPS];
  FALT_UNROLL
  for (int s = 0; s < taps; s++) weight[s] = vec_keep(vec_load(w + s * segment->weight_step));
  UNROLL_COLUMNS
  for (int c = 0; c < positions + taps - 1; c++, x += edge ? 0 : segment->step) {
    if (edge && at[c] == FALT_DEPTHWISE_NONE) continue;
    const vec column = vec_keep(load(edge ? x + at[c] : x, n));
    FALT_UNROLL
    for (int s = 0; s < taps; s++)
      if (c >= s && c - s < positions) sum[c - s] = vec_madd(sum[c - s], weight[s], column);
  }
}

FALT_INLINE void add_near_taps(vec *sum, const falt_depthwise_segment *segment, const lane *x, const int64_t *at,
                               const lane *w, int n, const int positions, const bool edge) {
  switch (segment->taps) {
    case 1:
      add_near(sum, segment, x, at, w, n, positions, 1, edge);
      break;
    case 2:
      add_near(sum, segment, x, at, w, n, positions, 2, edge);
      break;
    case 3:
      add_near(sum, segment, x, at, w, n, positions, 3, edge);
      break;
    case 4:
      add_near(sum, segment, x, at, w, n, positions, 4, edge);
      break;
    case 5:
      add_near(sum, segment, x, at, w, n, positions, 5, edge);
      break;
    case 6:
      add_near(sum, segment, x, at, w, n, positions, 6, edge);
      break;
    default:
      add_near(sum, segment, x, at, w, n, positions, 7, edge);
  }
}

FALT_INLINE void add_apart(vec *sum, const falt_depthwise_segment *segment, const lane *row, const lane *w, int n,
                           const int positions) {
  for (int s = 0; s < segment->taps; s++, row += segment->tap_step, w += segment->weight_step) {
    const vec weight = vec_keep(vec_load(w));
    const lane *x = row;
    FALT_UNROLL
    for (int p = 0; p < positions; p++, x += segment->step) sum[p] = vec_madd(sum[p], weight, load(x, n));
  }
}

FALT_INLINE void add_listed(vec *sum, const falt_depthwise_segment *segment, const lane *row, const int64_t *at,
                            int64_t pitch, const lane *w, int n, const int positions) {
  for (int s = 0; s < segment->taps; s++, at += pitch, w += segment->weight_step) {
    const vec weight = vec_keep(vec_load(w));
    FALT_UNROLL
    for (int p = 0; p < positions; p++)
      if (at[p] != FALT_DEPTHWISE_NONE) sum[p] = vec_madd(sum[p], weight, load(row + at[p], n));
  }
}

/* Kept out of the tiles: few instructions each, and there are many tiles. */
static __attribute__((noinline)) void finish(const falt_depthwise_call *call, const vec *sum, int64_t q, int64_t i,
                                             int n, int positions) {
  const falt_depthwise_finish *f = call->finish;
  const vec low = vec_all(f->low), high = vec_all(f->high);
  const vec scale = load(f->scale + i, n), offset = load(f->offset + i, n);
  for (int p = 0; p < positions; p++) {
    vec y = vec_madd(offset, scale, sum[p]);
    if (f->residual) y += load(f->residual + (q + p) * f->residual_step + i, n);
    if (f->curve != FALT_IDENTITY) y = vec_bend(y, f->curve, f->slope);
    store(call->out + (q + p) * call->out_step + i, vec_clip(y, low, high), n, call->stream);
  }
}

/* Positions [q, q + positions) of channels [i, i + n). */
FALT_INLINE void tile(const falt_depthwise_call *call, int64_t q, int64_t i, int n, const int positions) {
  vec sum[TILE];
  look_ahead(call, q, i, positions);
  const lane *weights = call->weights + i / VEC * call->weights_pitch;
  FALT_UNROLL
  for (int p = 0; p < positions; p++) sum[p] = (vec){0};
  for (const falt_depthwise_segment *s = call->segments; s < call->segments + call->count; s++) {
    const lane *w = weights + s->weight;
    if (s->at && s->near)
      add_near_taps(sum, s, s->row + i, s->at + q, w, n, positions, true);
    else if (s->at)
      add_listed(sum, s, s->row + i, s->at + q, call->positions, w, n, positions);
    else if (s->near)
      add_near_taps(sum, s, s->row + q * s->step + i, NULL, w, n, positions, false);
    else
      add_apart(sum, s, s->row + q * s->step + i, w, n, positions);
  }
  if (call->finish) {
    vec sums[TILE];
    FALT_UNROLL
    for (int p = 0; p < positions; p++) sums[p] = sum[p];
    finish(call, sums, q, i, n, positions);
    return;
  }
  lane *out = call->out + q * call->out_step + i;
  FALT_UNROLL
  for (int p = 0; p < positions; p++, out += call->out_step) store(out, sum[p], n, call->stream);
}

FALT_INLINE void all_channels(const falt_depthwise_call *call, int64_t q, const int positions) {
  int64_t i = 0;
  for (; i + VEC <= call->n; i += VEC) tile(call, q, i, VEC, positions);
  if (i < call->n) tile(call, q, i, (int)(call->n - i), positions);
}

/* The sizes that sums() needs, for the compiler to know. */
#define POSITIONS(count)                                                      \
  static void positions_##count(const falt_depthwise_call *call, int64_t q) { \
    all_channels(call, q, count);                                             \
  }
POSITIONS(1)
POSITIONS(2)
POSITIONS(3)
POSITIONS(4)
POSITIONS(5)
POSITIONS(6)
POSITIONS(7)
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
POSITIONS(14)
#endif

static void sums(const falt_depthwise_call *call) {
  static void (*const sizes[])(const falt_depthwise_call *, int64_t) = {
      NULL, positions_1, positions_2, positions_3, positions_4, positions_5, positions_6, positions_7};
  int64_t q = 0;
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
  for (; q + 14 <= call->positions; q += 14) positions_14(call, q);
#endif
  while (q < call->positions) { /* 8 are 4 and 4 rather than 7 and 1 */
    const int64_t left = call->positions - q;
    const int64_t size = left <= 7 ? left : left < 14 ? (left + 1) / 2 : 7;
    sizes[size](call, q);
    q += size;
  }
  if (call->stream) vec_stream_end();
}

/* ---- gradient */

/* The products of one segment's taps; inlined with constant taps and edge. */
FALT_INLINE void gather_taps(const falt_depthwise_gradient *g, const falt_depthwise_segment *segment, const lane *x,
                             int64_t q, int64_t count, const lane *by, lane *to, int n, const int taps,
                             const bool edge) {
  vec sum[FALT_DEPTHWISE_TAPS];
  const int64_t near = segment->near ? 1 : g->call.positions; /* the table's step from tap to tap */
  FALT_UNROLL
  for (int s = 0; s < taps; s++) sum[s] = vec_load(to + s * segment->weight_step);
  for (int64_t p = 0; p < count; p++, by += g->by_step, x += edge ? 0 : segment->step) {
    const vec factor = vec_keep(load(by, n));
    FALT_UNROLL
    for (int s = 0; s < taps; s++) {
      const int64_t at = edge ? segment->at[q + p + s * near] : s * segment->tap_step;
      if (!edge || at != FALT_DEPTHWISE_NONE) sum[s] = vec_madd(sum[s], factor, load(x + at, n));
    }
  }
  FALT_UNROLL
  for (int s = 0; s < taps; s++) vec_store(to + s * segment->weight_step, sum[s]);
}

FALT_INLINE void gather(const falt_depthwise_gradient *g, const falt_depthwise_segment *segment, int64_t q,
                        int64_t count, int64_t i, int n, const bool edge) {
  const lane *x = segment->row + i + (edge ? 0 : q * segment->step), *by = g->by + q * g->by_step + i;
  lane *to = g->sums + i / VEC * g->call.weights_pitch + segment->weight;
  switch (segment->taps) {
    case 1:
      gather_taps(g, segment, x, q, count, by, to, n, 1, edge);
      break;
    case 2:
      gather_taps(g, segment, x, q, count, by, to, n, 2, edge);
      break;
    case 3:
      gather_taps(g, segment, x, q, count, by, to, n, 3, edge);
      break;
    case 4:
      gather_taps(g, segment, x, q, count, by, to, n, 4, edge);
      break;
    case 5:
      gather_taps(g, segment, x, q, count, by, to, n, 5, edge);
      break;
    case 6:
      gather_taps(g, segment, x, q, count, by, to, n, 6, edge);
      break;
    default:
      gather_taps(g, segment, x, q, count, by, to, n, 7, edge);
  }
}

FALT_INLINE void gather_segments(const falt_depthwise_gradient *g, int64_t q, int64_t count, int64_t i, int n) {
  look_ahead(&g->call, q, i, count);
  for (const falt_depthwise_segment *s = g->call.segments; s < g->call.segments + g->call.count; s++) {
    if (s->at)
      gather(g, s, q, count, i, n, true);
    else
      gather(g, s, q, count, i, n, false);
  }
}

/* Few positions at a time, so that chains of different segments overlap in the processor and memory is read in order.
 */
static void gradient(const falt_depthwise_gradient *g) {
  enum { RUN = 14 };
  const falt_depthwise_call *call = &g->call;
  for (int64_t q = 0; q < call->positions; q += RUN) {
    const int64_t count = q + RUN < call->positions ? RUN : call->positions - q;
    int64_t i = 0;
    for (; i + VEC <= call->n; i += VEC) gather_segments(g, q, count, i, VEC);
    if (i < call->n) gather_segments(g, q, count, i, (int)(call->n - i));
  }
}

extern const falt_depthwise_kernels JOIN(falt_depthwise_kernels_, FALT_ISA_SUFFIX);
const falt_depthwise_kernels JOIN(falt_depthwise_kernels_, FALT_ISA_SUFFIX) = {
    .width = VEC, .tile = TILE, .sums = sums, .gradient = gradient};
