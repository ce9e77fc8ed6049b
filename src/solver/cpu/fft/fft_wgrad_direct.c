/* Products of a tile of which a factor is not finite, one by one, for fft-wgrad and fft-dense (there dy is the filter,
 * and taps are the outputs). Their sums are NaN or infinite in exactly the taps that such a factor reaches. Once all
 * taps are NaN nothing can change them, so a tile full of NaN takes no longer than its transforms: positions are
 * visited from the middle on, which reach the most taps. */
#include <math.h>

#include "solver/cpu/fft/fft_wgrad.h"

/* Where position u of x meets tap j: the position of dy in the tile, or -1. */
static int64_t met_by(const falt_fft_wgrad_direct *d, int i, int64_t u, int64_t j) {
  const falt_fft_wgrad_cut *cut = &d->cut[i];
  const falt_axis *axis = &d->rows->axis[i];
  int64_t at = u - j * axis->stride;
  if (cut->cyclic) at = (at % cut->size + cut->size) % cut->size;
  return at < 0 || at % axis->dilation || at / axis->dilation >= d->out[i] ? -1 : at;
}

/* Where a position of dy, counted in the tile, meets tap j. */
static int64_t meets(const falt_fft_wgrad_direct *d, int i, int64_t at, int64_t j) {
  return (at + j * d->rows->axis[i].stride) % d->cut[i].size;
}

static int64_t element_at(const falt_fft_wgrad_direct *d, int64_t z, int64_t y, int64_t x) {
  return (z * d->shape->size[1] + y) * d->shape->pitch + x;
}

/* Adds what x[z, y, u] gives. */
static void add_input(const falt_fft_wgrad_direct *d, int64_t z, int64_t y, int64_t u, double value) {
  int64_t tap = 0;
  for (int64_t t = 0; t < d->block[0]; t++)
    for (int64_t r = 0; r < d->block[1]; r++) {
      const int64_t oz = met_by(d, 0, z, t), oy = met_by(d, 1, y, r);
      for (int64_t s = 0; s < d->block[2]; s++, tap++) {
        const int64_t ox = oz < 0 || oy < 0 ? -1 : met_by(d, 2, u, s);
        if (ox >= 0)
          falt_fft_wgrad_add(d->rows->lane, d->sums, tap,
                             value * falt_fft_wgrad_get(d->rows->lane, d->dy, element_at(d, oz, oy, ox)));
      }
    }
}

/* Adds what dy gives with numbers of x, at places of the tile. */
static void add_output(const falt_fft_wgrad_direct *d, int64_t z, int64_t y, int64_t x, double value) {
  int64_t tap = 0;
  for (int64_t t = 0; t < d->block[0]; t++)
    for (int64_t r = 0; r < d->block[1]; r++)
      for (int64_t s = 0; s < d->block[2]; s++, tap++) {
        const int64_t at = element_at(d, meets(d, 0, z, t), meets(d, 1, y, r), meets(d, 2, x, s));
        const double other = falt_fft_wgrad_get(d->rows->lane, d->x, at);
        if (isfinite(other)) falt_fft_wgrad_add(d->rows->lane, d->sums, tap, value * other);
      }
}

static bool all_nan(const falt_fft_wgrad_direct *d) {
  const int64_t taps = d->block[0] * d->block[1] * d->block[2];
  for (int64_t i = 0; i < taps; i++)
    if (!isnan(falt_fft_wgrad_get(d->rows->lane, d->sums, i))) return false;
  return true;
}

/* The i-th position from the middle of `count`, to both sides. */
static int64_t from_middle(int64_t i, int64_t count) {
  return (count - 1) / 2 + (i % 2 ? (i + 1) / 2 : -(i / 2));
}

typedef void (*add_one)(const falt_fft_wgrad_direct *d, int64_t z, int64_t y, int64_t x, double value);

/* All of a plane's rows of `count` elements, `step` places apart; false once all taps are NaN. */
static bool add_plane(const falt_fft_wgrad_direct *d, const char *plane, const int64_t count[3], const int64_t step[3],
                      add_one add) {
  for (int64_t z = 0; z < count[0]; z++)
    for (int64_t y = 0; y < count[1]; y++)
      for (int64_t i = 0; i < count[2]; i++) {
        const int64_t place = from_middle(i, count[2]) * step[2];
        const double value = falt_fft_wgrad_get(d->rows->lane, plane, element_at(d, z * step[0], y * step[1], place));
        if (isfinite(value)) continue;
        if (falt_cancelled() || all_nan(d)) return false;
        add(d, z * step[0], y * step[1], place, value);
      }
  return true;
}

void falt_fft_wgrad_direct_add(const falt_fft_wgrad_direct *d) {
  const falt_axis *axis = d->rows->axis;
  const int64_t one[3] = {1, 1, 1}, steps[3] = {axis[0].dilation, axis[1].dilation, axis[2].dilation};
  if (add_plane(d, d->x, d->in, one, add_input)) add_plane(d, d->dy, d->out, steps, add_output);
}
