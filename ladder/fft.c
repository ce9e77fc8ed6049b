/* Segments of a convolution by transforms (overlap-save), and their operations on paper. */
#include "ladder/fft.h"

#include <math.h>

enum { W = 2, LEAST_POINTS = 512, MOST_POINTS = 4096 };

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

size_t ladder_fft_bytes(const ladder_task *k) {
  if (ladder_fft_refusal(k)) return 0;
  return 2 * sizeof(float) * (size_t)ladder_fft_points(k) * (size_t)(ladder_fft_segments(k) + 1);
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
