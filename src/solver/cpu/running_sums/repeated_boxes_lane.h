/* Sums of neighbouring positions in one lane: repeated_boxes_kernels.h says what they compute. Floats are only added
 * (van Herk, 1992; Gil and Werman, 1993): a window is the end of a block of `size` positions and the beginning of the
 * next one. The beginnings and the next block's ends are summed in one loop, as two chains. Define FALT_LANE_BITS,
 * FALT_BOXES_LANE, the table's name without its level, and turn_block before. */
#include "core/memory.h"
#include "solver/cpu/running_sums/repeated_boxes_kernels.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

enum { WIDE = FALT_BOXES_BYTES / FALT_VECTOR_BYTES, LANES = FALT_BOXES_BYTES / sizeof(lane) };

/* One chain of positions: every step-th one. */
typedef struct chain {
  const char *in;
  const void *const *rows; /* NULL: `in` and its pitch */
  size_t offset;           /* in each of the rows */
  char *out;
  const char *plus;
  size_t in_pitch, out_pitch, plus_pitch;
  int64_t step, size;
  vec weight;
  bool stream;
} chain;

FALT_INLINE const lane *position(const void *base, size_t pitch, int64_t i) {
  return (const lane *)(const void *)((const char *)base + i * (int64_t)pitch);
}

FALT_INLINE const lane *input_at(const chain *c, int64_t i) {
  if (c->rows) return (const lane *)(const void *)((const char *)c->rows[i * c->step] + c->offset);
  return position(c->in, c->in_pitch, i);
}

/* sum += weight * in[i]; the sum is kept as the end from there on. */
FALT_INLINE void add_end(const chain *c, lane *ends, vec sum[WIDE], int64_t first, int64_t i) {
  const lane *from = input_at(c, first + i);
  FALT_UNROLL
  for (int k = 0; k < WIDE; k++) {
    sum[k] = vec_madd(sum[k], vec_load(from + k * VEC), c->weight);
    vec_store(ends + i * LANES + k * VEC, sum[k]);
  }
}

/* The window at i: an end, the beginning behind it, and what is added. */
FALT_INLINE void put_window(const chain *c, const lane *end, const vec sum[WIDE], int64_t i) {
  lane *to = (lane *)(void *)(c->out + i * (int64_t)c->out_pitch);
  const lane *plus = position(c->plus, c->plus_pitch, i);
  FALT_UNROLL
  for (int k = 0; k < WIDE; k++) {
    vec window = vec_load(end + k * VEC) + sum[k];
    if (c->plus) window += vec_load(plus + k * VEC);
    if (c->stream)
      vec_stream(to + k * VEC, window);
    else
      vec_store(to + k * VEC, window);
  }
}

FALT_INLINE void add_beginning(const chain *c, vec sum[WIDE], int64_t i) {
  const lane *from = input_at(c, i);
  FALT_UNROLL
  for (int k = 0; k < WIDE; k++) sum[k] = vec_madd(sum[k], vec_load(from + k * VEC), c->weight);
}

FALT_INLINE void run_chain(const chain *c, lane *ends, lane *next, int64_t windows) {
  const int64_t size = c->size;
  vec back[WIDE] = {{0}}, none[WIDE] = {{0}};
  for (int64_t i = size - 1; i >= 0; i--) add_end(c, ends, back, 0, i);
  for (int64_t first = 0; first < windows; first += size) {
    const int64_t behind = first + size, made = falt_min(size, windows - first);
    const bool goes_on = behind < windows;
    vec ahead[WIDE] = {{0}}, end[WIDE] = {{0}};
    put_window(c, ends, none, first);
    if (goes_on) {
      for (int64_t i = 1; i < size; i++) {
        add_beginning(c, ahead, behind + i - 1);
        add_end(c, next, end, behind, size - i);
        put_window(c, ends + i * LANES, ahead, first + i);
      }
      add_end(c, next, end, behind, 0);
    } else {
      for (int64_t i = 1; i < made; i++) {
        add_beginning(c, ahead, behind + i - 1);
        put_window(c, ends + i * LANES, ahead, first + i);
      }
    }
    lane *swap = ends;
    ends = next;
    next = swap;
  }
}

/* A loop of its own for each way to read and write. */
static void run_kind(const chain *c, lane *ends, lane *next, int64_t windows) {
#define RUN(from, more, around)                                                                                        \
  run_chain(&(chain){c->in, from, c->offset, c->out, more, c->in_pitch, c->out_pitch, c->plus_pitch, c->step, c->size, \
                     c->weight, around},                                                                               \
            ends, next, windows)
  if (c->plus && c->stream)
    RUN(NULL, c->plus, true);
  else if (c->plus)
    RUN(NULL, c->plus, false);
  else if (c->rows && c->stream)
    RUN(c->rows, NULL, true);
  else if (c->rows)
    RUN(c->rows, NULL, false);
  else if (c->stream)
    RUN(NULL, NULL, true);
  else
    RUN(NULL, NULL, false);
#undef RUN
}

static void sum_boxes(const falt_boxes_sum *call) {
  const int64_t step = call->step, all = call->count - (call->size - 1) * step;
  for (int64_t at = 0; at < falt_min(step, all); at++) {
    chain c = {.in = call->in,
               .out = (char *)call->out + at * (int64_t)call->out_pitch,
               .in_pitch = call->in_pitch * (size_t)step,
               .out_pitch = call->out_pitch * (size_t)step,
               .plus_pitch = (size_t)(FALT_BOXES_BYTES * step),
               .step = step,
               .size = call->size,
               .weight = vec_all((lane)call->weight),
               .stream = call->stream};
    if (call->rows)
      c.rows = call->rows + at, c.offset = call->offset;
    else
      c.in += at * (int64_t)call->in_pitch;
    if (call->plus) c.plus = (const char *)call->plus + at * FALT_BOXES_BYTES;
    run_kind(&c, call->ends[0], call->ends[1], falt_ceil_div(all - at, step));
  }
  if (call->stream) vec_stream_end();
}

static void to_positions(void *positions, const void *lines, size_t pitch, int64_t count) {
  vec block[VEC];
  for (int64_t i = 0; i < count; i += VEC)
    for (int r = 0; r < LANES; r += VEC) {
      for (int k = 0; k < VEC; k++) block[k] = vec_load(position(lines, pitch, r + k) + i);
      turn_block(block);
      for (int k = 0; k < VEC; k++) vec_store((lane *)positions + (i + k) * LANES + r, block[k]);
    }
}

static void to_lines(void *lines, size_t pitch, const void *positions, int64_t count) {
  vec block[VEC];
  for (int64_t i = 0; i < count; i += VEC)
    for (int r = 0; r < LANES; r += VEC) {
      for (int k = 0; k < VEC; k++) block[k] = vec_load((const lane *)positions + (i + k) * LANES + r);
      turn_block(block);
      for (int k = 0; k < VEC; k++) vec_store((lane *)(void *)((char *)lines + (size_t)(r + k) * pitch) + i, block[k]);
    }
}

extern const falt_boxes_kernels JOIN(FALT_BOXES_LANE, FALT_ISA_SUFFIX);
const falt_boxes_kernels JOIN(FALT_BOXES_LANE, FALT_ISA_SUFFIX) = {
    .sum = sum_boxes, .to_positions = to_positions, .to_lines = to_lines};
