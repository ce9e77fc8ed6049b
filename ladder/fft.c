/* Segments and tiles of a convolution by transforms (overlap-save), and their operations on paper. */
#include "ladder/fft.h"

#include <math.h>

enum { H = 1, W = 2, LEAST_POINTS = 512, MOST_POINTS = 4096 };

/* Three quarters of a segment or more are kept, up to 1025 taps. */
int ladder_fft_points(const ladder_task *k) {
  int points = LEAST_POINTS;
  while (points < MOST_POINTS && points < 4 * (k->taps[W] - 1)) points *= 2;
  return points;
}

int64_t ladder_fft_kept(const ladder_task *k) {
  return ladder_fft_points(k) - k->taps[W] + 1;
}

int64_t ladder_fft_segments(const ladder_task *k) {
  return (k->size[W] + ladder_fft_kept(k) - 1) / ladder_fft_kept(k);
}

const char *ladder_fft_refusal(const ladder_task *k) {
  return 2 * k->taps[W] > MOST_POINTS ? "its segments of 4096 points hold at most 2048 taps" : NULL;
}

/* A spectrum of each segment or tile, and the filter's; an image of one row may be climbed as either. */
size_t ladder_fft_bytes(const ladder_task *k) {
  const bool is_image = k->size[H] > 1 || k->taps[H] > 1;
  const int64_t tiles = ladder_fft_tile_refusal(k) ? 0 : LADDER_FFT_TILE * (ladder_fft_tiles(k) + 1);
  const int64_t segments = is_image || ladder_fft_refusal(k) ? 0 : ladder_fft_points(k) * (ladder_fft_segments(k) + 1);
  return 2 * sizeof(float) * (size_t)(tiles > segments ? tiles : segments);
}

double ladder_fft_direct(const ladder_task *k) {
  return 2.0 * (double)k->taps[W];
}

static double segment(const ladder_task *k, double transform) {
  return (2 * transform + 6.0 * ladder_fft_points(k)) / (double)ladder_fft_kept(k);
}

double ladder_fft_by_definition(const ladder_task *k) {
  const double points = ladder_fft_points(k);
  return segment(k, 8 * points * points);
}

double ladder_fft_by_fft(const ladder_task *k) {
  const double points = ladder_fft_points(k);
  return segment(k, 5 * points * log2(points));
}

double ladder_fft_by_pairs(const ladder_task *k) {
  return ladder_fft_by_fft(k) / 2;
}

/* ---- tiles of an image */

int64_t ladder_fft_tile_kept(const ladder_task *k, int axis) {
  return LADDER_FFT_SIDE - k->taps[H + axis] + 1;
}

int64_t ladder_fft_tiles_along(const ladder_task *k, int axis) {
  return (k->size[H + axis] + ladder_fft_tile_kept(k, axis) - 1) / ladder_fft_tile_kept(k, axis);
}

int64_t ladder_fft_tiles(const ladder_task *k) {
  return ladder_fft_tiles_along(k, 0) * ladder_fft_tiles_along(k, 1);
}

double ladder_fft_tile_outputs(const ladder_task *k) {
  return (double)ladder_fft_tile_kept(k, 0) * (double)ladder_fft_tile_kept(k, 1);
}

const char *ladder_fft_tile_refusal(const ladder_task *k) {
  const int64_t most = LADDER_FFT_SIDE / 2 + 1;
  return k->taps[H] > most || k->taps[W] > most ? "its tiles of 64 x 64 pixels hold at most 33 x 33 taps" : NULL;
}

double ladder_fft_tile_direct(const ladder_task *k) {
  return 2.0 * (double)k->taps[H] * (double)k->taps[W];
}

static double tile(const ladder_task *k, double transform) {
  return (2 * transform + 6.0 * LADDER_FFT_TILE) / ladder_fft_tile_outputs(k);
}

double ladder_fft_tile_by_definition(const ladder_task *k) {
  return tile(k, 16.0 * LADDER_FFT_TILE * LADDER_FFT_SIDE);
}

double ladder_fft_tile_by_fft(const ladder_task *k) {
  return tile(k, 5.0 * LADDER_FFT_TILE * log2(LADDER_FFT_TILE));
}

double ladder_fft_tile_by_pairs(const ladder_task *k) {
  return ladder_fft_tile_by_fft(k) / 2;
}
