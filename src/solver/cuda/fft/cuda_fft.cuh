// Complex transforms of a tile of 2^LOG points by one block, over up to three axes: in place, without reordering.
// Forward passes decimate in frequency (Gentleman and Sande 1966), inverse ones take the order that they leave.
// Compile-time parameters: LOG_Z LOG_Y LOG_X SUM.

// The index of a point in the tile has LOG bits: those of x below those of y below those of z. A thread holds 16 points
// which differ in four adjacent bits, the window. It transforms along these bits in registers, and then the block
// exchanges points through shared memory: each thread gets those of the next lower window. The first window has the
// highest bits. A transform along several bits of one axis ends with a product by twiddles of the axis's lower bits.
#pragma once

typedef SUM Real;

constexpr int LOG = LOG_Z + LOG_Y + LOG_X, POINTS = 1 << LOG, SLOTS = 16, THREADS = POINTS / SLOTS;
constexpr int FIRST = LOG - 4;  // the lowest bit of the first window

struct alignas(2 * sizeof(Real)) Complex {
  Real re, im;
};

__device__ inline Complex times(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

__device__ inline Complex times_conjugate(Complex a, Complex b) {
  return {a.re * b.re + a.im * b.im, a.im * b.re - a.re * b.im};
}

// ---- the plan of passes

// The lowest bit of the window that transforms bit `top - 1`, and of the axis that has it.
__device__ constexpr int window_of(int top) {
  return LOG - ((LOG - top) / 4 + 1) * 4 > 0 ? LOG - ((LOG - top) / 4 + 1) * 4 : 0;
}

__device__ constexpr int axis_of(int top) {
  return top > LOG_X + LOG_Y ? LOG_X + LOG_Y : top > LOG_X ? LOG_X : 0;
}

// The lowest bit of the pass whose highest is top - 1.
__device__ constexpr int low_of(int top) {
  return window_of(top) > axis_of(top) ? window_of(top) : axis_of(top);
}

// Twiddles before those of this pass. Each pass of r bits has the powers 1, 2, .. 2^(r-1) of its roots.
__device__ constexpr int twiddles_before(int top) {
  int at = 0;
  for (int t = LOG; t > top; t = low_of(t))
    if (low_of(t) > axis_of(t)) at += (t - low_of(t)) << (low_of(t) - axis_of(t));
  return at;
}

// ---- in registers

// Times exp(-2 pi i k / 16), or its conjugate.
__device__ inline Complex rotated(Complex a, int k, bool inverse) {
  constexpr double c1 = 0.92387953251128675613, s1 = 0.38268343236508977173, h = 0.70710678118654752440;
  constexpr double c[8] = {1, c1, h, s1, 0, -s1, -h, -c1}, s[8] = {0, s1, h, c1, 1, c1, h, s1};
  if (k == 0) return a;
  if (k == 4) return inverse ? Complex{-a.im, a.re} : Complex{a.im, -a.re};
  const Real cosine = (Real)c[k], sine = inverse ? (Real)s[k] : -(Real)s[k];
  if (k == 2) {
    const Real sum = a.re + a.im, difference = a.im - a.re;
    return inverse ? Complex{-difference * cosine, sum * cosine} : Complex{sum * cosine, difference * cosine};
  }
  return times(a, {cosine, sine});
}

// Transforms of 2^BITS points along the bits from AT on of the slots' numbers. Slot s of a transform gets the frequency
// whose bits are those of s, reversed.
template <int AT, int BITS>
__device__ inline void dft(Complex v[SLOTS]) {
#pragma unroll
  for (int level = BITS - 1; level >= 0; level--)
#pragma unroll
    for (int i = 0; i < SLOTS / 2; i++) {
      const int bit = 1 << (AT + level), low = i / bit * 2 * bit + i % bit, high = low + bit;
      const int k = ((low >> AT) & ((1 << level) - 1)) << (3 - level);
      const Complex a = v[low], b = v[high];
      v[low] = {a.re + b.re, a.im + b.im};
      v[high] = rotated({a.re - b.re, a.im - b.im}, k, false);
    }
}

// The inverse, times 2^BITS.
template <int AT, int BITS>
__device__ inline void inverse_dft(Complex v[SLOTS]) {
#pragma unroll
  for (int level = 0; level < BITS; level++)
#pragma unroll
    for (int i = 0; i < SLOTS / 2; i++) {
      const int bit = 1 << (AT + level), low = i / bit * 2 * bit + i % bit, high = low + bit;
      const int k = ((low >> AT) & ((1 << level) - 1)) << (3 - level);
      const Complex a = v[low], b = rotated(v[high], k, true);
      v[low] = {a.re + b.re, a.im + b.im};
      v[high] = {a.re - b.re, a.im - b.im};
    }
}

// Times the twiddles of a pass: to the power of each slot's frequency, two of its bits at a time.
template <int AT, int BITS, int SPAN, bool INVERSE>
__device__ inline void twist(Complex v[SLOTS], const Complex *twiddles, int j) {
#pragma unroll
  for (int k = 0; k < BITS; k += 2) {
    const bool two = k + 1 < BITS;
    const Complex one = twiddles[(k << SPAN) + j], second = two ? twiddles[((k + 1) << SPAN) + j] : one;
    const Complex both = times(one, second);
#pragma unroll
    for (int p = 0; p < SLOTS; p++) {
      const int s = p >> AT, a = s >> (BITS - 1 - k) & 1, b = two ? s >> (BITS - 2 - k) & 1 : 0;
      const Complex w = a && b ? both : a ? one : second;
      if (a || b) v[p] = INVERSE ? times_conjugate(v[p], w) : times(v[p], w);
    }
  }
}

// ---- passes

// The place in shared memory of the thread's slot in the window from bit BASE on; a gap after each 16 points keeps the
// threads of a warp in different banks.
template <int BASE>
__device__ inline int place(unsigned thread, int slot) {
  const unsigned low = thread & ((1u << BASE) - 1);
  const int gaps = BASE < 4 ? slot >> (4 - BASE) : slot << (BASE - 4);  // between the thread's slots
  return (int)((thread - low) * (SLOTS + 1) + low + (BASE > 4 ? low / SLOTS : 0)) + (slot << BASE) + gaps;
}

template <int FROM, int TO>
__device__ inline void exchange(Complex v[SLOTS], Complex *shared) {
  const int thread = threadIdx.x;
#pragma unroll
  for (int p = 0; p < SLOTS; p++) shared[place<FROM>(thread, p)] = v[p];
  __syncthreads();
#pragma unroll
  for (int p = 0; p < SLOTS; p++) v[p] = shared[place<TO>(thread, p)];
}

// The number of the twiddle of this thread's points.
template <int BASE, int START>
__device__ inline int twiddle_of() {
  return (threadIdx.x & ((1 << BASE) - 1)) >> START;
}

// From the bit below TOP down. The thread's points are left in the window from bit 0 on.
template <int TOP>
__device__ inline void forward(Complex v[SLOTS], Complex *shared, const Complex *twiddles) {
  constexpr int base = window_of(TOP), axis = axis_of(TOP), low = low_of(TOP), bits = TOP - low, span = low - axis;
  dft<low - base, bits>(v);
  if constexpr (span > 0)
    twist<low - base, bits, span, false>(v, twiddles + twiddles_before(TOP), twiddle_of<base, axis>());
  if constexpr (low > 0) {
    if constexpr (window_of(low) != base) exchange<base, window_of(low)>(v, shared);
    forward<low>(v, shared, twiddles);
  }
}

// The way back, times POINTS.
template <int TOP>
__device__ inline void inverse(Complex v[SLOTS], Complex *shared, const Complex *twiddles) {
  constexpr int base = window_of(TOP), axis = axis_of(TOP), low = low_of(TOP), bits = TOP - low, span = low - axis;
  if constexpr (low > 0) {
    inverse<low>(v, shared, twiddles);
    if constexpr (window_of(low) != base) exchange<window_of(low), base>(v, shared);
  }
  if constexpr (span > 0)
    twist<low - base, bits, span, true>(v, twiddles + twiddles_before(TOP), twiddle_of<base, axis>());
  inverse_dft<low - base, bits>(v);
}
