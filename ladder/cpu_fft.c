/* The ladder of a signal by transforms on the CPU: overlap-save, from the definition of the DFT to paired segments.
 *
 *     y[i] = sum over j of w[j] * x[i + j - K/2],   zero outside
 *
 * A segment of P samples is transformed, multiplied by the conjugate spectrum of the filter and transformed back. The
 * last K - 1 results wrap around the segment and are dropped. J. W. Cooley, J. W. Tukey, Math. Comp. 19, 1965. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ladder/clones.h"
#include "ladder/fft.h"

enum { W = 2 };

typedef struct points {
  float *re, *im;
} points;

/* A thread's memory, P points each. roots[h + i] is exp(-pi i i / h), for i < h and h = 1, 2, 4 to P/2. */
typedef struct scratch {
  float *memory;
  int64_t count; /* P */
  points roots, filter, data, spare;
} scratch;

/* Transforms in place. The spectrum may have any order that the inverse takes. */
typedef struct method {
  void (*forward)(const scratch *room, points data), (*inverse)(const scratch *room, points data);
} method;

static int64_t min_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t max_of(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* The filter's spectrum: its conjugate makes the product a correlation, and it takes the inverse's division by P. */
static void transform_filter(const ladder_task *k, const method *m, scratch *room) {
  memset(room->filter.re, 0, (size_t)room->count * 2 * sizeof(float));
  memcpy(room->filter.re, k->w, (size_t)k->taps[W] * sizeof(float));
  m->forward(room, room->filter);
  const float scale = 1 / (float)room->count;
  for (int64_t i = 0; i < room->count; i++) {
    room->filter.re[i] *= scale;
    room->filter.im[i] *= -scale;
  }
}

/* The memory is NULL if there is none. */
static scratch open_scratch(const ladder_task *k, const method *m) {
  const int64_t n = ladder_fft_points(k);
  const double pi = 3.14159265358979323846;
  scratch room = {.memory = malloc((size_t)n * 8 * sizeof(float)), .count = n};
  if (!room.memory) return room;
  points *all[] = {&room.roots, &room.filter, &room.data, &room.spare};
  for (int i = 0; i < 4; i++) *all[i] = (points){room.memory + 2 * i * n, room.memory + (2 * i + 1) * n};
  for (int64_t h = 1; h < n; h *= 2)
    for (int64_t i = 0; i < h; i++) {
      room.roots.re[h + i] = (float)cos(pi * (double)i / (double)h);
      room.roots.im[h + i] = (float)-sin(pi * (double)i / (double)h);
    }
  transform_filter(k, m, &room);
  return room;
}

/* Samples [first, first + n), zero outside the signal. */
static void load_segment(const ladder_task *k, int64_t first, int64_t n, float *to) {
  const int64_t begin = min_of(n, max_of(0, -first)), end = max_of(begin, min_of(n, k->size[W] - first));
  memset(to, 0, (size_t)n * sizeof *to);
  memcpy(to + begin, k->x + first + begin, (size_t)(end - begin) * sizeof *to);
}

static void store_segment(const ladder_task *k, int64_t first, const float *from) {
  const int64_t n = min_of(ladder_fft_kept(k), k->size[W] - first);
  if (n > 0) memcpy(k->y + first, from, (size_t)n * sizeof *from);
}

LADDER_CLONES static void multiply(points data, points by, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float re = data.re[i], im = data.im[i];
    data.re[i] = re * by.re[i] - im * by.im[i];
    data.im[i] = re * by.im[i] + im * by.re[i];
  }
}

/* Transforms [begin, end) of the signal. One takes a segment as its real part; in pairs the next one is its imaginary
 * part. The filter is real, so the parts never mix. */
static void overlap_save(const ladder_task *k, const method *m, bool paired, int64_t begin, int64_t end) {
  scratch room = open_scratch(k, m);
  const int64_t n = room.count, kept = ladder_fft_kept(k), left = k->taps[W] / 2;
  for (int64_t i = begin; room.memory && i < end; i++) {
    const int64_t first = i * kept * (paired ? 2 : 1);
    load_segment(k, first - left, n, room.data.re);
    if (paired)
      load_segment(k, first + kept - left, n, room.data.im);
    else
      memset(room.data.im, 0, (size_t)n * sizeof(float));
    m->forward(&room, room.data);
    multiply(room.data, room.filter, n);
    m->inverse(&room, room.data);
    store_segment(k, first, room.data.re);
    if (paired) store_segment(k, first + kept, room.data.im);
  }
  free(room.memory);
}

static void run_segments(const ladder_task *k, const method *m) {
  overlap_save(k, m, false, 0, ladder_fft_segments(k));
}

/* ---- step 1, direct: the definition of the convolution, K products an output */

static void direct(const ladder_task *k) {
  const int64_t left = k->taps[W] / 2;
  for (int64_t i = 0; i < k->size[W]; i++) {
    float sum = 0;
    for (int64_t j = 0; j < k->taps[W]; j++) {
      const int64_t at = i + j - left;
      if (at >= 0 && at < k->size[W]) sum += k->w[j] * k->x[at];
    }
    k->y[i] = sum;
  }
}

/* ---- step 2, dft: the definition, X[k] = sum over n of x[n] exp(-2 pi i n k / P): P products for each of P points.
 * For 512 points that is far more than the convolution needs. */

static void dft_forward(const scratch *room, points data) {
  const int64_t n = room->count, half = n / 2;
  for (int64_t k = 0; k < n; k++) {
    float re = 0, im = 0;
    for (int64_t i = 0; i < n; i++) {
      const int64_t turn = i * k % n; /* the second half of the circle is the first one negated */
      const float sign = turn < half ? 1 : -1, c = sign * room->roots.re[half + turn % half],
                  s = sign * room->roots.im[half + turn % half];
      re += data.re[i] * c - data.im[i] * s;
      im += data.re[i] * s + data.im[i] * c;
    }
    room->spare.re[k] = re;
    room->spare.im[k] = im;
  }
  memcpy(data.re, room->spare.re, (size_t)n * sizeof(float));
  memcpy(data.im, room->spare.im, (size_t)n * sizeof(float));
}

/* Real and imaginary part exchanged, before and after: the inverse. */
static void dft_inverse(const scratch *room, points data) {
  dft_forward(room, (points){data.im, data.re});
}

static void dft(const ladder_task *k) {
  run_segments(k, &(method){dft_forward, dft_inverse});
}

/* ---- step 3, radix-2: the even and the odd points are two transforms of half the size; P/2 butterflies join them.
 * Cooley and Tukey's algorithm as it is written: it calls itself, and each level copies. */

static void join_halves(const scratch *room, points from, int64_t stride, points to, int64_t n) {
  if (n == 1) {
    *to.re = *from.re;
    *to.im = *from.im;
    return;
  }
  const int64_t h = n / 2;
  join_halves(room, from, 2 * stride, to, h);
  join_halves(room, (points){from.re + stride, from.im + stride}, 2 * stride, (points){to.re + h, to.im + h}, h);
  for (int64_t i = 0; i < h; i++) {
    const float c = room->roots.re[h + i], s = room->roots.im[h + i];
    const float re = to.re[h + i] * c - to.im[h + i] * s, im = to.re[h + i] * s + to.im[h + i] * c;
    to.re[h + i] = to.re[i] - re;
    to.im[h + i] = to.im[i] - im;
    to.re[i] += re;
    to.im[i] += im;
  }
}

static void recursive_forward(const scratch *room, points data) {
  const size_t bytes = (size_t)room->count * sizeof(float);
  join_halves(room, data, 1, room->spare, room->count);
  memcpy(data.re, room->spare.re, bytes);
  memcpy(data.im, room->spare.im, bytes);
}

static void recursive_inverse(const scratch *room, points data) {
  recursive_forward(room, (points){data.im, data.re});
}

static void radix_2(const ladder_task *k) {
  run_segments(k, &(method){recursive_forward, recursive_inverse});
}

/* ---- step 4, in-place: the forward transform decimates in frequency and leaves bit-reversed order. The filter's
 * spectrum has the same order, and the inverse decimates in time and starts from it: no point moves to its place. */

LADDER_CLONES static void split_level(points data, points roots, int64_t n, int64_t h) {
  for (int64_t first = 0; first < n; first += 2 * h)
    for (int64_t i = 0; i < h; i++) {
      const int64_t a = first + i, b = a + h;
      const float re = data.re[a] - data.re[b], im = data.im[a] - data.im[b];
      data.re[a] += data.re[b];
      data.im[a] += data.im[b];
      data.re[b] = re * roots.re[h + i] - im * roots.im[h + i];
      data.im[b] = re * roots.im[h + i] + im * roots.re[h + i];
    }
}

LADDER_CLONES static void join_level(points data, points roots, int64_t n, int64_t h) {
  for (int64_t first = 0; first < n; first += 2 * h)
    for (int64_t i = 0; i < h; i++) {
      const int64_t a = first + i, b = a + h;
      const float re = data.re[b] * roots.re[h + i] + data.im[b] * roots.im[h + i];
      const float im = data.im[b] * roots.re[h + i] - data.re[b] * roots.im[h + i];
      data.re[b] = data.re[a] - re;
      data.im[b] = data.im[a] - im;
      data.re[a] += re;
      data.im[a] += im;
    }
}

static void in_place_forward(const scratch *room, points data) {
  for (int64_t h = room->count / 2; h > 0; h /= 2) split_level(data, room->roots, room->count, h);
}

static void in_place_inverse(const scratch *room, points data) {
  for (int64_t h = 1; h < room->count; h *= 2) join_level(data, room->roots, room->count, h);
}

static void in_place(const ladder_task *k) {
  run_segments(k, &(method){in_place_forward, in_place_inverse});
}

/* ---- step 5, paired: two segments are the real and the imaginary part of one transform, half the work for each */

static const method paired_method = {in_place_forward, in_place_inverse};

static int64_t pairs_of(const ladder_task *k) {
  return (ladder_fft_segments(k) + 1) / 2;
}

static void run_pairs(const ladder_task *k, int64_t begin, int64_t end) {
  overlap_save(k, &paired_method, true, begin, end);
}

static void paired(const ladder_task *k) {
  run_pairs(k, 0, pairs_of(k));
}

/* ---- step 6, registers: two levels while four points are in registers, half the reads and writes of each level */

LADDER_CLONES static void split_two_levels(points data, points roots, int64_t n, int64_t q) {
  for (int64_t first = 0; first < n; first += 4 * q)
    for (int64_t i = 0; i < q; i++) {
      float *re = data.re + first + i, *im = data.im + first + i;
      const float c1 = roots.re[2 * q + i], s1 = roots.im[2 * q + i], c2 = roots.re[q + i], s2 = roots.im[q + i];
      const float re0 = re[0] + re[2 * q], im0 = im[0] + im[2 * q], re1 = re[q] + re[3 * q], im1 = im[q] + im[3 * q];
      const float re2 = re[0] - re[2 * q], im2 = im[0] - im[2 * q];
      const float re3 = im[q] - im[3 * q], im3 = re[3 * q] - re[q]; /* times -i */
      const float d1 = re0 - re1, e1 = im0 - im1, d2 = re2 + re3, e2 = im2 + im3, d3 = re2 - re3, e3 = im2 - im3;
      const float c3 = c1 * c2 - s1 * s2, s3 = c1 * s2 + s1 * c2;
      re[0] = re0 + re1, im[0] = im0 + im1;
      re[q] = d1 * c2 - e1 * s2, im[q] = d1 * s2 + e1 * c2;
      re[2 * q] = d2 * c1 - e2 * s1, im[2 * q] = d2 * s1 + e2 * c1;
      re[3 * q] = d3 * c3 - e3 * s3, im[3 * q] = d3 * s3 + e3 * c3;
    }
}

/* The same with conjugate roots, backwards. */
LADDER_CLONES static void join_two_levels(points data, points roots, int64_t n, int64_t q) {
  for (int64_t first = 0; first < n; first += 4 * q)
    for (int64_t i = 0; i < q; i++) {
      float *re = data.re + first + i, *im = data.im + first + i;
      const float c1 = roots.re[2 * q + i], s1 = roots.im[2 * q + i], c2 = roots.re[q + i], s2 = roots.im[q + i];
      const float c3 = c1 * c2 - s1 * s2, s3 = c1 * s2 + s1 * c2;
      const float re1 = re[q] * c2 + im[q] * s2, im1 = im[q] * c2 - re[q] * s2;
      const float re2 = re[2 * q] * c1 + im[2 * q] * s1, im2 = im[2 * q] * c1 - re[2 * q] * s1;
      const float re3 = re[3 * q] * c3 + im[3 * q] * s3, im3 = im[3 * q] * c3 - re[3 * q] * s3;
      const float d0 = re[0] + re1, e0 = im[0] + im1, d1 = re[0] - re1, e1 = im[0] - im1;
      const float d2 = re2 + re3, e2 = im2 + im3, d3 = im3 - im2, e3 = re2 - re3; /* times i */
      re[0] = d0 + d2, im[0] = e0 + e2;
      re[q] = d1 + d3, im[q] = e1 + e3;
      re[2 * q] = d0 - d2, im[2 * q] = e0 - e2;
      re[3 * q] = d1 - d3, im[3 * q] = e1 - e3;
    }
}

static bool has_odd_level(const scratch *room) {
  int64_t n = room->count;
  while (n > 2) n /= 4;
  return n == 2;
}

/* An odd number of levels leaves the shortest to itself. */
static void registers_forward(const scratch *room, points data) {
  for (int64_t q = room->count / 4; q > 0; q /= 4) split_two_levels(data, room->roots, room->count, q);
  if (has_odd_level(room)) split_level(data, room->roots, room->count, 1);
}

static void registers_inverse(const scratch *room, points data) {
  const bool odd = has_odd_level(room);
  if (odd) join_level(data, room->roots, room->count, 1);
  for (int64_t q = odd ? 2 : 1; q < room->count; q *= 4) join_two_levels(data, room->roots, room->count, q);
}

static void run_registers(const ladder_task *k, int64_t begin, int64_t end) {
  overlap_save(k, &(method){registers_forward, registers_inverse}, true, begin, end);
}

static void registers(const ladder_task *k) {
  run_registers(k, 0, pairs_of(k));
}

/* ---- step 7, threaded: an equal part of the pairs for every core */

static void threaded(const ladder_task *k) {
  ladder_share(k, pairs_of(k), run_registers);
}

/* ---- reads of each step for an output, in bytes: a point and its root, level by level */

static double of_segment(const ladder_task *k, double bytes_per_point) {
  return bytes_per_point * ladder_fft_points(k) / (double)ladder_fft_kept(k);
}
static double direct_bytes(const ladder_task *k) {
  return 8.0 * (double)k->taps[W];
}
static double dft_bytes(const ladder_task *k) { /* a complex point and a root a product; then the spectra's product */
  return of_segment(k, 4 + 2 * 16.0 * ladder_fft_points(k) + 16);
}
static double radix_2_bytes(const ladder_task *k) { /* a root for two points */
  return of_segment(k, 4 + 2 * 12 * log2(ladder_fft_points(k)) + 16);
}
static double paired_bytes(const ladder_task *k) {
  return of_segment(k, 4 + 12 * log2(ladder_fft_points(k)) + 8);
}
static double registers_bytes(const ladder_task *k) { /* two roots for four points in two levels */
  return of_segment(k, 4 + 6 * log2(ladder_fft_points(k)) + 8);
}

const ladder_step ladder_cpu_fft[] = {
    {.name = "direct",
     .idea = "the definition of the convolution",
     .book = "7.1",
     .bytes_per_output = direct_bytes,
     .operations_per_output = ladder_fft_direct,
     .run = direct},
    {.name = "dft",
     .idea = "segments' spectra by the definition of the DFT: 8 P^2 each",
     .bytes_per_output = dft_bytes,
     .operations_per_output = ladder_fft_by_definition,
     .run = dft,
     .missing = ladder_fft_refusal},
    {.name = "radix-2",
     .idea = "halves of halves (Cooley-Tukey): 5 P log2 P each",
     .bytes_per_output = radix_2_bytes,
     .operations_per_output = ladder_fft_by_fft,
     .run = radix_2,
     .missing = ladder_fft_refusal},
    {.name = "in-place",
     .idea = "spectra stay in bit-reversed order: nothing is moved",
     .bytes_per_output = radix_2_bytes,
     .operations_per_output = ladder_fft_by_fft,
     .run = in_place,
     .missing = ladder_fft_refusal},
    {.name = "paired",
     .idea = "two segments as real and imaginary part of one",
     .bytes_per_output = paired_bytes,
     .operations_per_output = ladder_fft_by_pairs,
     .run = paired,
     .missing = ladder_fft_refusal},
    {.name = "registers",
     .idea = "two levels while points are in registers: radix 4",
     .bytes_per_output = registers_bytes,
     .operations_per_output = ladder_fft_by_pairs,
     .run = registers,
     .missing = ladder_fft_refusal},
    {.name = "threaded",
     .idea = "pairs of segments on every core",
     .bytes_per_output = registers_bytes,
     .operations_per_output = ladder_fft_by_pairs,
     .run = threaded,
     .missing = ladder_fft_refusal},
    {.name = "engine", .idea = "what the library's transforms do", .solver = "fft"},
    {.name = NULL},
};
