/* The row filter kernel for vectors of 64 bytes. solver/cpu/filter/filter_along.h describes it. */
#define FALT_LANE_BITS 32
#include "cpu/vector.h"
#include "solver/cpu/filter/filter_along.h"

#if FALT_VECTOR_BYTES == 64 && defined(__x86_64__)

enum { WIDE = 8, NARROW = FALT_FILTER_ALONG_STEP / VEC }; /* vectors of a block */

falt_filter_along *falt_filter_along_f32_avx512(int64_t step);

/* Elements k .. k + VEC - 1 of two neighbouring vectors. The memory sanitizer knows the permutation only lane by lane.
 */
FALT_INLINE vec straddle(vec a, vec b, int k) {
#if defined(FALT_MSAN)
  vec both;
  for (int i = 0; i < VEC; i++) both[i] = k + i < VEC ? a[k + i] : b[k + i - VEC];
  return both;
#else
  const __m512i from =
      _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), _mm512_set1_epi32(k));
  return (vec)_mm512_permutex2var_ps((__m512)a, from, (__m512)b);
#endif
}

/* Two taps of five are put together in registers: that keeps loads and arithmetic equally busy. */
FALT_INLINE bool by_shuffle(int tap) {
  return tap % 5 == 1 || tap % 5 == 3;
}

/* `width` vectors of sums. VEC taps cover a whole number of vectors, so the shift of each is known to the compiler; the
 * aligned vectors that shifted ones are put together from wait in registers. A row that starts `past` elements after a
 * line is read from there, as if the filter began with as many taps that are left out. */
FALT_INLINE void along_block(const falt_filter_rows *call, int row, int64_t x, int width, int step, bool stream) {
  vec acc[WIDE];
  lane *out = (lane *)call->out[row] + x;
  FALT_UNROLL
  for (int q = 0; q < width; q++) acc[q] = (vec){0};
  const lane *from = (const lane *)call->rows[row] + x, *taps = call->taps;
  const int64_t past = step == 1 ? (int64_t)((uintptr_t)from / sizeof(lane) % VEC) : 0;
  from -= past;
  for (int64_t j = -past; j < call->s; j += VEC, from += VEC * step) {
    vec window[WIDE + FALT_FILTER_ALONG_MOST + 1];
    FALT_UNROLL
    for (int q = 0; q <= width; q++) window[q] = vec_keep(vec_load(from + q * VEC));
    FALT_UNROLL
    for (int i = 0; i < VEC; i++) {
      const int base = i * step / VEC, k = i * step % VEC;
      if (base > 0 && k < step) window[base + width] = vec_keep(vec_load(from + (base + width) * VEC));
      if ((uint64_t)(j + i) >= (uint64_t)call->s) continue;
      const vec w = vec_all(taps[j + i]);
      FALT_UNROLL
      for (int q = 0; q < width; q++) {
        const vec in = k == 0          ? window[base + q]
                       : by_shuffle(i) ? straddle(window[base + q], window[base + q + 1], k)
                                       : vec_load(from + i * step + q * VEC);
        acc[q] = vec_madd(acc[q], w, in);
      }
    }
  }
  FALT_UNROLL
  for (int q = 0; q < width; q++) {
    const vec sum = call->accumulate ? vec_load(out + q * VEC) + acc[q] : acc[q];
    if (stream)
      vec_stream(out + q * VEC, sum);
    else
      vec_store(out + q * VEC, sum);
  }
}

FALT_INLINE void along(const falt_filter_rows *call, int step) {
  for (int row = 0; row < call->count; row++) {
    const bool stream = call->stream && (uintptr_t)call->out[row] % FALT_VECTOR_BYTES == 0;
    int64_t x = 0;
    for (; x + WIDE * VEC <= call->n; x += WIDE * VEC) {
      const lane *ahead = call->prefetch ? (const lane *)call->prefetch[row] + x : NULL;
      for (int q = 0; ahead && q < WIDE; q++) __builtin_prefetch(ahead + q * VEC, 0, 2);
      along_block(call, row, x, WIDE, step, stream);
    }
    for (; x < call->n; x += NARROW * VEC) along_block(call, row, x, NARROW, step, stream);
  }
  if (call->stream) vec_stream_end();
}

#define STEP(step)                                                      \
  static void piece_##step(const falt_filter_rows *call) {              \
    along(call, step);                                                  \
  }                                                                     \
  static void along_##step(const falt_filter_rows *call, int count) {   \
    falt_filter_rows counted = *call;                                   \
    counted.count = count;                                              \
    falt_filter_in_pieces(&counted, count, sizeof(lane), piece_##step); \
  }
STEP(1)
STEP(2)
STEP(3)
STEP(4)

falt_filter_along *falt_filter_along_f32_avx512(int64_t step) {
  static falt_filter_along *const by_step[FALT_FILTER_ALONG_MOST] = {along_1, along_2, along_3, along_4};
  return by_step[step - 1];
}

#endif
