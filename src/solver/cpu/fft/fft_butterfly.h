/* Transforms of 2, 3, 4, 5, 8 and 16 complex vectors in registers, of the forward sign; results in digit-reversed
 * order where FFT_REVERSED says so. After FALT_LANE_BITS. */
#ifndef FALT_SOLVER_CPU_FFT_FFT_BUTTERFLY_H
#define FALT_SOLVER_CPU_FFT_FFT_BUTTERFLY_H

#include "cpu/vector.h"

typedef struct complex_vec {
  vec re, im;
} complex_vec;

FALT_INLINE complex_vec add(complex_vec a, complex_vec b) {
  return (complex_vec){a.re + b.re, a.im + b.im};
}
FALT_INLINE complex_vec sub(complex_vec a, complex_vec b) {
  return (complex_vec){a.re - b.re, a.im - b.im};
}
FALT_INLINE complex_vec times(complex_vec a, complex_vec b) {
  return (complex_vec){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
FALT_INLINE complex_vec times_conjugate(complex_vec a, complex_vec b) {
  return (complex_vec){a.re * b.re + a.im * b.im, a.im * b.re - a.re * b.im};
}
/* -i*a */
FALT_INLINE complex_vec turn(complex_vec a) {
  return (complex_vec){a.im, -a.re};
}
FALT_INLINE complex_vec scaled(complex_vec a, lane factor) {
  return (complex_vec){a.re * factor, a.im * factor};
}

FALT_INLINE void dft2(complex_vec *x) {
  const complex_vec a = x[0], b = x[1];
  x[0] = add(a, b);
  x[1] = sub(a, b);
}

FALT_INLINE void dft3(complex_vec *x) {
  const lane sine = (lane)0.86602540378443864676;
  const complex_vec sum = add(x[1], x[2]), apart = scaled(turn(sub(x[1], x[2])), sine);
  const complex_vec middle = {x[0].re - (lane)0.5 * sum.re, x[0].im - (lane)0.5 * sum.im};
  x[0] = add(x[0], sum);
  x[1] = add(middle, apart);
  x[2] = sub(middle, apart);
}

FALT_INLINE void dft4(complex_vec *x) {
  const complex_vec a = add(x[0], x[2]), b = sub(x[0], x[2]), c = add(x[1], x[3]), d = turn(sub(x[1], x[3]));
  x[0] = add(a, c);
  x[1] = add(b, d);
  x[2] = sub(a, c);
  x[3] = sub(b, d);
}

FALT_INLINE void dft5(complex_vec *x) {
  const lane c1 = (lane)0.30901699437494742410, c2 = (lane)-0.80901699437494742410;
  const lane s1 = (lane)0.95105651629515357212, s2 = (lane)0.58778525229247312917;
  const complex_vec a = add(x[1], x[4]), b = add(x[2], x[3]), c = turn(sub(x[1], x[4])), d = turn(sub(x[2], x[3]));
  const complex_vec first = {x[0].re + c1 * a.re + c2 * b.re, x[0].im + c1 * a.im + c2 * b.im};
  const complex_vec second = {x[0].re + c2 * a.re + c1 * b.re, x[0].im + c2 * a.im + c1 * b.im};
  const complex_vec third = {s1 * c.re + s2 * d.re, s1 * c.im + s2 * d.im};
  const complex_vec fourth = {s2 * c.re - s1 * d.re, s2 * c.im - s1 * d.im};
  x[0] = add(x[0], add(a, b));
  x[1] = add(first, third);
  x[2] = add(second, fourth);
  x[3] = sub(second, fourth);
  x[4] = sub(first, third);
}

/* Frequencies in order. */
FALT_INLINE void dft8(complex_vec *x) {
  const lane half = (lane)0.70710678118654752440;
  complex_vec even[4], odd[4];
  FALT_UNROLL
  for (int i = 0; i < 4; i++) {
    even[i] = add(x[i], x[i + 4]);
    odd[i] = sub(x[i], x[i + 4]);
  }
  const complex_vec b = odd[1], d = odd[3];
  odd[1] = scaled((complex_vec){b.re + b.im, b.im - b.re}, half);
  odd[2] = turn(odd[2]);
  odd[3] = scaled((complex_vec){d.im - d.re, -d.re - d.im}, half);
  dft4(even);
  dft4(odd);
  FALT_UNROLL
  for (int i = 0; i < 4; i++) {
    x[2 * i] = even[i];
    x[2 * i + 1] = odd[i];
  }
}

/* Twiddles inside a transform of 16: (cos, -sin) of p*q*22.5 degrees, p and q in 1 to 3. */
#define C1 (lane)0.92387953251128675613
#define S1 (lane)0.38268343236508977173
#define H (lane)0.70710678118654752440
static const lane sixteenth[3][3][2] = {
    {{C1, -S1}, {H, -H}, {S1, -C1}}, {{H, -H}, {0, -1}, {-H, -H}}, {{S1, -C1}, {-H, -H}, {-C1, S1}}};
#undef C1
#undef S1
#undef H

FALT_INLINE complex_vec sixteenth_of(int p, int q) {
  return (complex_vec){vec_all(sixteenth[p - 1][q - 1][0]), vec_all(sixteenth[p - 1][q - 1][1])};
}

/* The transform of 16 by two of 4: frequency p + 4*q stands at 4*p + q. */
FALT_INLINE void dft16_forward(complex_vec *x) {
  FALT_UNROLL
  for (int j = 0; j < 4; j++) {
    complex_vec y[4] = {x[j], x[j + 4], x[j + 8], x[j + 12]};
    dft4(y);
    x[j] = y[0];
    FALT_UNROLL
    for (int p = 1; p < 4; p++) x[j + 4 * p] = j == 0 ? y[p] : times(y[p], sixteenth_of(p, j));
  }
  FALT_UNROLL
  for (int p = 0; p < 4; p++) dft4(x + 4 * p);
}

/* From that order. */
FALT_INLINE void dft16_inverse(complex_vec *x) {
  FALT_UNROLL
  for (int p = 0; p < 4; p++) dft4(x + 4 * p);
  FALT_UNROLL
  for (int j = 0; j < 4; j++) {
    complex_vec y[4] = {x[j], x[j + 4], x[j + 8], x[j + 12]};
    FALT_UNROLL
    for (int p = 1; p < 4; p++)
      if (j > 0) y[p] = times(y[p], sixteenth_of(p, j));
    dft4(y);
    FALT_UNROLL
    for (int p = 0; p < 4; p++) x[j + 4 * p] = y[p];
  }
}

#endif
