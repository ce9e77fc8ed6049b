/* The kernels of transforms for one lane: passes over rows of vectors, transforms across lanes with the product by a
 * spectrum, and scans. Define FALT_LANE_BITS and FALT_FFT_LANE, the table's name without its level, before. */
#include <math.h>

#include "cpu/vector_exchange.h"
#include "solver/cpu/fft/fft_butterfly.h"
#include "solver/cpu/fft/fft_kernels.h"

/* ---- passes */

FALT_INLINE void dft(complex_vec *x, int radix) {
  switch (radix) {
    case 2:
      dft2(x);
      return;
    case 3:
      dft3(x);
      return;
    case 4:
      dft4(x);
      return;
    case 5:
      dft5(x);
      return;
    default:
      dft8(x);
  }
}

typedef enum direction { FORWARD, INVERSE } direction;

/* One column of vectors of a butterfly: rows `apart` elements from each other. */
FALT_INLINE void butterfly(lane *re, lane *im, int64_t apart, const complex_vec *twiddle, int radix, direction way) {
  complex_vec x[8];
  FALT_UNROLL
  for (int p = 0; p < radix; p++) {
    x[p] = (complex_vec){vec_load(re + p * apart), vec_load(im + p * apart)};
    if (way == INVERSE && twiddle && p > 0) x[p] = times(x[p], twiddle[p - 1]);
  }
  dft(x, radix);
  FALT_UNROLL
  for (int p = 0; p < radix; p++) {
    if (way == FORWARD && twiddle && p > 0) x[p] = times(x[p], twiddle[p - 1]);
    vec_store(re + p * apart, x[p].re);
    vec_store(im + p * apart, x[p].im);
  }
}

/* Row j of every block, with its twiddles. */
FALT_INLINE void row_of(lane *re, lane *im, const falt_fft_pass *pass, int64_t vectors, int64_t j, int radix,
                        direction way) {
  const lane *from = (const lane *)pass->twiddles + 2 * (radix - 1) * j;
  complex_vec twiddle[7];
  FALT_UNROLL
  for (int p = 0; p + 1 < radix; p++) twiddle[p] = (complex_vec){vec_all(from[2 * p]), vec_all(from[2 * p + 1])};
  const int64_t apart = pass->span * pass->pitch, at = j * pass->pitch;
  for (int64_t v = 0; v < vectors; v++) butterfly(re + at + v * VEC, im + at + v * VEC, apart, twiddle, radix, way);
}

FALT_INLINE void pass_of(lane *re, lane *im, const falt_fft_pass *pass, int64_t vectors, int radix, direction way) {
  const int64_t block = radix * pass->span * pass->pitch;
  for (int64_t b = 0; b < pass->blocks; b++, re += block, im += block) {
    if (pass->span > 1)
      for (int64_t j = 0; j < pass->span; j++) row_of(re, im, pass, vectors, j, radix, way);
    else
      for (int64_t v = 0; v < vectors; v++) butterfly(re + v * VEC, im + v * VEC, pass->pitch, NULL, radix, way);
  }
}

#define PASS(radix, name, way)                                                \
  static void name##_##radix(void *re, void *im, const falt_fft_pass *pass) { \
    if (pass->vectors == 1)                                                   \
      pass_of(re, im, pass, 1, radix, way);                                   \
    else                                                                      \
      pass_of(re, im, pass, pass->vectors, radix, way);                       \
  }
#define PASSES(radix) PASS(radix, forward, FORWARD) PASS(radix, inverse, INVERSE)
PASSES(2)
PASSES(3)
PASSES(4)
PASSES(5)
PASSES(8)

/* ---- across lanes */

/* Twiddles w^1 .. w^(VEC-1) of a group, from w^1, w^2, w^3 and w^4, w^8, w^12. */
enum { LOW = VEC < 4 ? VEC : 4, HIGH = VEC / LOW, TURNS = LOW - 1 + HIGH - 1 };

FALT_INLINE complex_vec complex_at(const lane *from) {
  return (complex_vec){vec_load(from), vec_load(from + VEC)};
}

FALT_INLINE void load_turns(const lane *from, complex_vec *w) {
  FALT_UNROLL
  for (int i = 1; i < LOW; i++) w[i] = complex_at(from + 2 * VEC * (i - 1));
  FALT_UNROLL
  for (int h = 1; h < HIGH; h++) {
    w[h * LOW] = complex_at(from + 2 * VEC * (LOW + h - 2));
    FALT_UNROLL
    for (int i = 1; i < LOW; i++) w[h * LOW + i] = times(w[h * LOW], w[i]);
  }
}

/* The transform across a group; 16 leave their frequencies in an order that the inverse takes. */
FALT_INLINE void across(complex_vec *x, direction way) {
  if (VEC == 16)
    way == FORWARD ? dft16_forward(x) : dft16_inverse(x);
  else
    dft(x, VEC);
}

FALT_INLINE int64_t place_of(const falt_fft_lanes *call, int64_t group, int i) {
  return call->places ? call->places[group * VEC + i] : (group * VEC + i) * VEC;
}

FALT_INLINE void load_group(complex_vec *x, const lane *re, const lane *im, const falt_fft_lanes *call, int64_t g) {
  vec part[VEC];
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) part[i] = vec_load(re + place_of(call, g, i));
  vec_exchange(part);
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) {
    x[i].re = part[i];
    part[i] = vec_load(im + place_of(call, g, i));
  }
  vec_exchange(part);
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) x[i].im = part[i];
}

FALT_INLINE void store_group(const complex_vec *x, lane *re, lane *im, const falt_fft_lanes *call, int64_t g) {
  vec part[VEC];
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) part[i] = x[i].re;
  vec_exchange(part);
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) {
    vec_store(re + place_of(call, g, i), part[i]);
    part[i] = x[i].im;
  }
  vec_exchange(part);
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) vec_store(im + place_of(call, g, i), part[i]);
}

/* A group's transform, in registers. */
FALT_INLINE void forward_group(complex_vec *x, const complex_vec *turns) {
  FALT_UNROLL
  for (int i = 1; i < VEC; i++) x[i] = times(x[i], turns[i]);
  across(x, FORWARD);
}

/* The inverse exchanges parts: conjugate, transform, conjugate would do the same. */
FALT_INLINE void inverse_group(complex_vec *x, const complex_vec *turns) {
  complex_vec y[VEC];
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) y[i] = (complex_vec){x[i].im, x[i].re};
  across(y, INVERSE);
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) x[i] = (complex_vec){y[i].im, y[i].re};
  FALT_UNROLL
  for (int i = 1; i < VEC; i++) x[i] = times_conjugate(x[i], turns[i]);
}

static void multiply(void *re, void *im, const falt_fft_lanes *call) {
  for (int64_t g = 0; g < call->groups; g++) {
    const lane *factors = (const lane *)call->spectrum + g * 2 * VEC * VEC;
    complex_vec x[VEC], turns[VEC];
    load_turns((const lane *)call->twiddles + g * 2 * VEC * TURNS, turns);
    load_group(x, re, im, call, g);
    forward_group(x, turns);
    FALT_UNROLL
    for (int i = 0; i < VEC; i++) x[i] = times(x[i], complex_at(factors + 2 * VEC * i));
    inverse_group(x, turns);
    store_group(x, re, im, call, g);
  }
}

static void spectrum(const void *re, const void *im, const falt_fft_lanes *call, void *to, double scale) {
  for (int64_t g = 0; g < call->groups; g++) {
    lane *factors = (lane *)to + g * 2 * VEC * VEC;
    complex_vec x[VEC], turns[VEC];
    load_turns((const lane *)call->twiddles + g * 2 * VEC * TURNS, turns);
    load_group(x, re, im, call, g);
    forward_group(x, turns);
    FALT_UNROLL
    for (int i = 0; i < VEC; i++) {
      vec_store(factors + 2 * VEC * i, x[i].re * (lane)scale);
      vec_store(factors + 2 * VEC * i + VEC, x[i].im * (lane)scale);
    }
  }
}

static void back(void *re, void *im, const falt_fft_lanes *call) {
  for (int64_t g = 0; g < call->groups; g++) {
    const lane *from = (const lane *)call->spectrum + g * 2 * VEC * VEC;
    complex_vec x[VEC], turns[VEC];
    load_turns((const lane *)call->twiddles + g * 2 * VEC * TURNS, turns);
    FALT_UNROLL
    for (int i = 0; i < VEC; i++) x[i] = complex_at(from + 2 * VEC * i);
    inverse_group(x, turns);
    store_group(x, re, im, call, g);
  }
}

static void correlate(const void *re, const void *im, const falt_fft_lanes *call, void *sums) {
  for (int64_t g = 0; g < call->groups; g++) {
    const lane *factors = (const lane *)call->spectrum + g * 2 * VEC * VEC;
    lane *to = (lane *)sums + g * 2 * VEC * VEC;
    complex_vec x[VEC], turns[VEC];
    load_turns((const lane *)call->twiddles + g * 2 * VEC * TURNS, turns);
    load_group(x, re, im, call, g);
    forward_group(x, turns);
    FALT_UNROLL
    for (int i = 0; i < VEC; i++) {
      const complex_vec sum =
          add(complex_at(to + 2 * VEC * i), times_conjugate(x[i], complex_at(factors + 2 * VEC * i)));
      vec_store(to + 2 * VEC * i, sum.re);
      vec_store(to + 2 * VEC * i + VEC, sum.im);
    }
  }
}

/* Several vectors at once, whose sums stay in registers for all terms. */
static void combine(void *sums, const void *x, int64_t x_step, const void *w, int64_t w_step, int64_t terms,
                    int64_t n) {
  enum { AT_ONCE = VEC < 4 ? VEC : 4 };
  for (int64_t i = 0; i < n; i += 2 * VEC * AT_ONCE) {
    const lane *a = (const lane *)x + i, *b = (const lane *)w + i;
    complex_vec sum[AT_ONCE];
    FALT_UNROLL
    for (int v = 0; v < AT_ONCE; v++)
      sum[v] = times_conjugate(complex_at(a + 2 * VEC * v), complex_at(b + 2 * VEC * v));
    for (int64_t t = 1; t < terms; t++) {
      a += x_step, b += w_step;
      FALT_UNROLL
      for (int v = 0; v < AT_ONCE; v++)
        sum[v] = add(sum[v], times_conjugate(complex_at(a + 2 * VEC * v), complex_at(b + 2 * VEC * v)));
    }
    FALT_UNROLL
    for (int v = 0; v < AT_ONCE; v++) {
      vec_store((lane *)sums + i + 2 * VEC * v, sum[v].re);
      vec_store((lane *)sums + i + 2 * VEC * v + VEC, sum[v].im);
    }
  }
}

/* ---- scans */

/* Magnitudes as integers: their order is that of the numbers, and NaN is the largest. */
static void see(void *seen, const void *x, int64_t n) {
  const vec_bits magnitude = all_bits((lane_bits)(~(uint64_t)0 >> (65 - FALT_LANE_BITS)));
  vec_bits most = load_bits(seen);
  for (int64_t i = 0; i < n; i += VEC) {
    const vec part = n - i < VEC ? vec_load_part((const lane *)x + i, (int)(n - i)) : vec_load((const lane *)x + i);
    const vec_bits bits = (vec_bits)part & magnitude, more = bits > most;
    most = (bits & more) | (most & ~more);
  }
  memcpy(seen, &most, sizeof most);
}

static double largest(const void *seen) {
  lane_bits most = 0;
  lane value;
  for (int i = 0; i < VEC; i++) most = ((const lane_bits *)seen)[i] > most ? ((const lane_bits *)seen)[i] : most;
  memcpy(&value, &most, sizeof value);
  return (double)value;
}

static void scale(void *x, int64_t n, double factor) {
  for (int64_t i = 0; i < n; i++) ((lane *)x)[i] *= (lane)factor;
}

/* Beside this number the neighbours are whole. */
static void whole(void *x, int64_t n, double factor) {
  const lane large = FALT_LANE_BITS == 32 ? (lane)0x1.8p23 : (lane)0x1.8p52;
  for (int64_t i = 0; i < n; i++) {
    const lane near = ((lane *)x)[i] * (lane)factor + large;
    ((lane *)x)[i] = near - large;
  }
}

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
extern const falt_fft_lane JOIN(FALT_FFT_LANE, FALT_ISA_SUFFIX);
const falt_fft_lane JOIN(FALT_FFT_LANE, FALT_ISA_SUFFIX) = {
    .width = VEC,
    .widest = FALT_VECTOR_BYTES == 64 ? 8 : 4,
    .turns = TURNS,
    .forward = {forward_2, forward_3, forward_4, forward_5, forward_8},
    .inverse = {inverse_2, inverse_3, inverse_4, inverse_5, inverse_8},
    .multiply = multiply,
    .spectrum = spectrum,
    .back = back,
    .correlate = correlate,
    .combine = combine,
    .see = see,
    .largest = largest,
    .scale = scale,
    .whole = whole,
};
