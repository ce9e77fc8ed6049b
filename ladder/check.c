/* Sums in f64 at some positions, the reference for the first step of every ladder. */
#include <math.h>

#include "core/random.h"
#include "ladder/ladder.h"

enum { D, H, W, SAMPLES = 20000 };

/* An index of [0, n): the ends and their neighbourhood often, the rest evenly. */
static int64_t draw(uint64_t *state, int64_t n) {
  const double where = falt_random_unit(state), unit = falt_random_unit(state);
  const int64_t near_end = n < 24 ? n : 24;
  const int64_t at = (int64_t)(unit * (double)(where < 0.5 ? n : near_end));
  const int64_t in = at < n ? at : n - 1;
  return where < 0.75 ? in : n - 1 - in;
}

typedef struct verdict {
  double most, scale;
} verdict;

double ladder_worse(double a, double b) {
  return isnan(a) || a >= b ? a : b;
}

static void judge(verdict *v, double is, double should) {
  const double gap = fabs(is - should);
  v->most = ladder_worse(v->most, gap);
  v->scale = fmax(v->scale, fabs(should));
}

static double share_of(const verdict *v) {
  return v->scale > 0 ? v->most / v->scale : v->most;
}

static double filter_sum(const ladder_task *k, const float *x, const int64_t at[3], int64_t channel) {
  const float *w = k->host_taps;
  double sum = 0;
  for (int64_t t = 0; t < k->taps[D]; t++)
    for (int64_t r = 0; r < k->taps[H]; r++)
      for (int64_t s = 0; s < k->taps[W]; s++, w++) {
        const int64_t z = at[D] + t - k->taps[D] / 2, u = at[H] + r - k->taps[H] / 2, v = at[W] + s - k->taps[W] / 2;
        if (z < 0 || z >= k->size[D] || u < 0 || u >= k->size[H] || v < 0 || v >= k->size[W]) continue;
        sum += (double)*w * (double)x[(z * k->size[H] + u) * k->pitch + v * k->channels + channel];
      }
  return sum;
}

double ladder_check_filter(const ladder_task *k, const float *x, const float *y) {
  verdict v = {0, 0};
  uint64_t state = 1;
  for (int i = 0; i < SAMPLES; i++) {
    int64_t at[3];
    for (int a = 0; a < 3; a++) at[a] = draw(&state, k->size[a]);
    const int64_t channel = i % k->channels;
    judge(&v, (double)y[(at[D] * k->size[H] + at[H]) * k->pitch + at[W] * k->channels + channel],
          filter_sum(k, x, at, channel));
  }
  return share_of(&v);
}

/* One result of the convolution. */
static double layer_sum(const ladder_task *k, const float *x, int64_t n, int64_t filter, int64_t u, int64_t v) {
  double sum = 0;
  for (int64_t c = 0; c < k->channels; c++)
    for (int64_t r = 0; r < k->taps[H]; r++)
      for (int64_t s = 0; s < k->taps[W]; s++) {
        const int64_t row = u * k->stride[0] - k->pad[0] + r, column = v * k->stride[1] - k->pad[1] + s;
        if (row < 0 || row >= k->size[H] || column < 0 || column >= k->size[W]) continue;
        sum += (double)k->host_taps[((filter * k->channels + c) * k->taps[H] + r) * k->taps[W] + s] *
               (double)x[((n * k->channels + c) * k->size[H] + row) * k->size[W] + column];
      }
  return sum;
}

static double pooled_at(const ladder_task *k, const float *x, int64_t n, int64_t filter, int64_t u, int64_t v) {
  double most = 0; /* ReLU */
  for (int i = 0; i < 4; i++) most = fmax(most, layer_sum(k, x, n, filter, 2 * u + i / 2, 2 * v + i % 2));
  return most;
}

double ladder_check_layer(const ladder_task *k, const float *x, const float *y, bool pooled) {
  const int64_t *size = pooled ? k->pooled : k->out;
  verdict worst = {0, 0};
  uint64_t state = 1;
  for (int i = 0; i < SAMPLES; i++) {
    const int64_t n = draw(&state, k->images), filter = draw(&state, k->filters);
    const int64_t u = draw(&state, size[0]), v = draw(&state, size[1]);
    judge(&worst, (double)y[((n * k->filters + filter) * size[0] + u) * size[1] + v],
          (pooled ? pooled_at : layer_sum)(k, x, n, filter, u, v));
  }
  return share_of(&worst);
}
