// Boundaries: the index of the element at position u, or -1 for the constant.
#pragma once

enum Boundary { CONSTANT, EDGE, SYMMETRIC, REFLECT101, WRAP };

template <typename I>
__device__ inline I modulo(I u, I n) {
  const I m = u % n;
  return m < 0 ? m + n : m;
}

// One reflection is nearly always enough; positions farther outside use the period (PERIODS).
template <typename I, bool PERIODS = true>
__device__ inline I continued(int boundary, I size, I u) {
  I m;
  switch (boundary) {
    case EDGE:
      return u < 0 ? 0 : size - 1;
    case SYMMETRIC:
      m = u < 0 ? -1 - u : 2 * size - 1 - u;
      if (!PERIODS || (m >= 0 && m < size)) return m;
      m = modulo<I>(u, 2 * size);
      return m < size ? m : 2 * size - 1 - m;
    case REFLECT101:
      m = u < 0 ? -u : 2 * size - 2 - u;
      if (!PERIODS || (m >= 0 && m < size)) return m;
      if (size == 1) return 0;
      m = modulo<I>(u, 2 * size - 2);
      return m < size ? m : 2 * size - 2 - m;
    case WRAP:
      m = u < 0 ? u + size : u - size;
      return !PERIODS || (m >= 0 && m < size) ? m : modulo<I>(u, size);
    default:
      return -1;
  }
}

// Each side's boundary continues the signal on its side.
template <typename I, bool PERIODS = true>
__device__ inline I fold(int before, int after, I size, I u) {
  if (u >= 0 && u < size) return u;
  return continued<I, PERIODS>(u < 0 ? before : after, size, u);
}
