/* The twiddles of a tile, in the order in which cuda_fft.cuh's passes read them. */
#include <math.h>

#include "solver/cuda/fft/cuda_fft_tiles.h"

/* exp(-2 pi i k / 2^log). */
static void set_root(double *to, int64_t k, int log) {
  const double angle = 2 * 3.14159265358979323846 * (double)k / ldexp(1, log);
  to[0] = cos(angle);
  to[1] = -sin(angle);
}

/* The passes of `low` to `top` bits of an axis that begins at bit `start`: the powers 1, 2, 4, .. of each root. */
static size_t set_pass(int start, int low, int top, double *to) {
  const int64_t span = INT64_C(1) << (low - start);
  if (low == start) return 0;
  for (int k = 0; to && k < top - low; k++)
    for (int64_t j = 0; j < span; j++) set_root(to + 2 * (k * span + j), j << k, top - start);
  return (size_t)((top - low) * span);
}

size_t falt_cuda_fft_twiddles(const int log[3], double *to) {
  const int all = log[0] + log[1] + log[2];
  size_t count = 0;
  for (int top = all, low; top > 0; top = low) {
    const int start = top > log[2] + log[1] ? log[2] + log[1] : top > log[2] ? log[2] : 0;
    const int window = larger(0, all - ((all - top) / 4 + 1) * 4);
    low = larger(window, start);
    count += set_pass(start, low, top, to ? to + 2 * count : NULL);
  }
  return count;
}
