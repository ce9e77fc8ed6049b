/* The ladder of an image by transforms on the CPU: overlap-save in tiles, from the definition of the DFT to pairs.
 *
 *     y[i, j] = sum over r, s of w[r, s] * x[i + r - R/2, j + s - S/2],   zero outside
 *
 * A tile of P x P pixels is transformed along its columns and its rows, multiplied by the conjugate spectrum of the
 * filter and transformed back. The last R - 1 rows and S - 1 columns wrap around the tile and are dropped. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ladder/clones.h"
#include "ladder/fft.h"

enum { H = 1, W = 2, P = LADDER_FFT_SIDE, TILE = LADDER_FFT_TILE };

typedef struct tile {
  float re[TILE], im[TILE];
} tile;

/* A thread's memory. roots[h + i] is exp(-pi i i / h), for i < h and h = 1, 2, 4 to P/2. */
typedef struct scratch {
  float re[P], im[P];
  tile filter, data, spare;
} scratch;

/* Transforms in place. The spectrum may have any order that the inverse takes. */
typedef struct method {
  void (*forward)(scratch *room, tile *data), (*inverse)(scratch *room, tile *data);
} method;

static void exchange_parts(tile *data) {
  for (int i = 0; i < TILE; i++) {
    const float re = data->re[i];
    data->re[i] = data->im[i];
    data->im[i] = re;
  }
}

/* The filter's spectrum: its conjugate makes the product a correlation, and it takes the inverse's division by P^2. */
static void transform_filter(const ladder_task *k, const method *m, scratch *room) {
  memset(&room->filter, 0, sizeof room->filter);
  for (int64_t r = 0; r < k->taps[H]; r++)
    memcpy(room->filter.re + r * P, k->w + r * k->taps[W], (size_t)k->taps[W] * sizeof(float));
  m->forward(room, &room->filter);
  for (int i = 0; i < TILE; i++) {
    room->filter.re[i] /= TILE;
    room->filter.im[i] /= -TILE;
  }
}

static scratch *open_scratch(const ladder_task *k, const method *m) {
  const double pi = 3.14159265358979323846;
  scratch *room = malloc(sizeof *room);
  if (!room) return NULL;
  for (int h = 1; h < P; h *= 2)
    for (int i = 0; i < h; i++) {
      room->re[h + i] = (float)cos(pi * i / h);
      room->im[h + i] = (float)-sin(pi * i / h);
    }
  transform_filter(k, m, room);
  return room;
}

/* ---- tiles follow each other, row after row */

static void corner_of(const ladder_task *k, int64_t index, int64_t *row, int64_t *column) {
  const int64_t across = ladder_fft_tiles_along(k, 1);
  *row = index / across * ladder_fft_tile_kept(k, 0);
  *column = index % across * ladder_fft_tile_kept(k, 1);
}

static int64_t within(int64_t i, int64_t n) {
  return i < 0 ? 0 : i < n ? i : n;
}

/* Zero outside the image, and for a tile beyond the last. */
static void load_tile(const ladder_task *k, int64_t index, float *to) {
  int64_t row, column;
  corner_of(k, index, &row, &column);
  row -= k->taps[H] / 2, column -= k->taps[W] / 2;
  const int64_t begin = within(column, k->size[W]), end = within(column + P, k->size[W]);
  memset(to, 0, TILE * sizeof *to);
  for (int64_t y = within(row, k->size[H]); y < within(row + P, k->size[H]); y++)
    memcpy(to + (y - row) * P + begin - column, k->x + y * k->size[W] + begin, (size_t)(end - begin) * sizeof *to);
}

static void store_tile(const ladder_task *k, int64_t index, const float *from) {
  int64_t row, column;
  corner_of(k, index, &row, &column);
  for (int64_t r = 0; r < ladder_fft_tile_kept(k, 0) && row + r < k->size[H]; r++)
    for (int64_t s = 0; s < ladder_fft_tile_kept(k, 1) && column + s < k->size[W]; s++)
      k->y[(row + r) * k->size[W] + column + s] = from[r * P + s];
}

LADDER_CLONES static void multiply(tile *data, const tile *by) {
  for (int i = 0; i < TILE; i++) {
    const float re = data->re[i], im = data->im[i];
    data->re[i] = re * by->re[i] - im * by->im[i];
    data->im[i] = re * by->im[i] + im * by->re[i];
  }
}

/* Transforms [begin, end) of the image. One takes a tile as its real part; in pairs the next one is its imaginary
 * part. The filter is real, so the parts never mix. */
static void overlap_save(const ladder_task *k, const method *m, bool paired, int64_t begin, int64_t end) {
  scratch *room = open_scratch(k, m);
  for (int64_t i = begin; room && i < end; i++) {
    const int64_t first = i * (paired ? 2 : 1);
    load_tile(k, first, room->data.re);
    if (paired)
      load_tile(k, first + 1, room->data.im);
    else
      memset(room->data.im, 0, sizeof room->data.im);
    m->forward(room, &room->data);
    multiply(&room->data, &room->filter);
    m->inverse(room, &room->data);
    store_tile(k, first, room->data.re);
    if (paired) store_tile(k, first + 1, room->data.im);
  }
  free(room);
}

static void run_tiles(const ladder_task *k, const method *m) {
  overlap_save(k, m, false, 0, ladder_fft_tiles(k));
}

/* Exchanges rows and columns. */
static void transpose(tile *data) {
  for (int r = 0; r < P; r++)
    for (int s = 0; s < r; s++) {
      const float re = data->re[r * P + s], im = data->im[r * P + s];
      data->re[r * P + s] = data->re[s * P + r];
      data->im[r * P + s] = data->im[s * P + r];
      data->re[s * P + r] = re;
      data->im[s * P + r] = im;
    }
}

/* ---- step 1, direct: the definition of the convolution, R S products an output */

static void direct(const ladder_task *k) {
  for (int64_t i = 0; i < k->size[H]; i++)
    for (int64_t j = 0; j < k->size[W]; j++) {
      float sum = 0;
      for (int64_t r = 0; r < k->taps[H]; r++)
        for (int64_t s = 0; s < k->taps[W]; s++) {
          const int64_t y = i + r - k->taps[H] / 2, x = j + s - k->taps[W] / 2;
          if (y >= 0 && y < k->size[H] && x >= 0 && x < k->size[W])
            sum += k->w[r * k->taps[W] + s] * k->x[y * k->size[W] + x];
        }
      k->y[i * k->size[W] + j] = sum;
    }
}

/* ---- step 2, dft: the definition along each row, then along each column: P products for each of P^2 points, twice. A
 * DFT of P^2 points by the definition would take P^2 products for each. */

static void dft_rows(scratch *room, tile *data) {
  const int half = P / 2;
  for (int r = 0; r < P; r++)
    for (int k = 0; k < P; k++) {
      float re = 0, im = 0;
      for (int i = 0; i < P; i++) {
        const int turn = i * k % P; /* the second half of the circle is the first one negated */
        const float sign = turn < half ? 1 : -1, c = sign * room->re[half + turn % half],
                    s = sign * room->im[half + turn % half];
        re += data->re[r * P + i] * c - data->im[r * P + i] * s;
        im += data->re[r * P + i] * s + data->im[r * P + i] * c;
      }
      room->spare.re[r * P + k] = re;
      room->spare.im[r * P + k] = im;
    }
  *data = room->spare;
}

/* The spectrum stays transposed, and the inverse transposes it back. */
static void dft_forward(scratch *room, tile *data) {
  dft_rows(room, data);
  transpose(data);
  dft_rows(room, data);
}

/* Real and imaginary part exchanged, before and after: the inverse. */
static void dft_inverse(scratch *room, tile *data) {
  exchange_parts(data);
  dft_forward(room, data);
  exchange_parts(data);
}

static void dft(const ladder_task *k) {
  run_tiles(k, &(method){dft_forward, dft_inverse});
}

/* ---- step 3, radix-2: Cooley and Tukey's halves of halves for each row, then for each column */

static void join_halves(const scratch *room, const float *re, const float *im, int stride, float *to_re, float *to_im,
                        int n) {
  if (n == 1) {
    *to_re = *re;
    *to_im = *im;
    return;
  }
  const int h = n / 2;
  join_halves(room, re, im, 2 * stride, to_re, to_im, h);
  join_halves(room, re + stride, im + stride, 2 * stride, to_re + h, to_im + h, h);
  for (int i = 0; i < h; i++) {
    const float c = room->re[h + i], s = room->im[h + i];
    const float a = to_re[h + i] * c - to_im[h + i] * s, b = to_re[h + i] * s + to_im[h + i] * c;
    to_re[h + i] = to_re[i] - a;
    to_im[h + i] = to_im[i] - b;
    to_re[i] += a;
    to_im[i] += b;
  }
}

static void recursive_rows(scratch *room, tile *data) {
  for (int r = 0; r < P; r++)
    join_halves(room, data->re + r * P, data->im + r * P, 1, room->spare.re + r * P, room->spare.im + r * P, P);
  *data = room->spare;
}

static void recursive_forward(scratch *room, tile *data) {
  recursive_rows(room, data);
  transpose(data);
  recursive_rows(room, data);
}

static void recursive_inverse(scratch *room, tile *data) {
  exchange_parts(data);
  recursive_forward(room, data);
  exchange_parts(data);
}

static void radix_2(const ladder_task *k) {
  run_tiles(k, &(method){recursive_forward, recursive_inverse});
}

/* ---- step 4, in-place: along columns a butterfly joins two whole rows with one root, in vectors. Decimation in
 * frequency leaves rows in bit-reversed order, and the inverse starts from it: no row moves to its place. */

LADDER_CLONES static void split_rows(const scratch *room, tile *data, int h) {
  for (int first = 0; first < P; first += 2 * h)
    for (int i = 0; i < h; i++) {
      float *re = data->re + (first + i) * P, *im = data->im + (first + i) * P;
      const float c = room->re[h + i], s = room->im[h + i];
      for (int x = 0; x < P; x++) {
        const float a = re[x] - re[h * P + x], b = im[x] - im[h * P + x];
        re[x] += re[h * P + x];
        im[x] += im[h * P + x];
        re[h * P + x] = a * c - b * s;
        im[h * P + x] = a * s + b * c;
      }
    }
}

LADDER_CLONES static void join_rows(const scratch *room, tile *data, int h) {
  for (int first = 0; first < P; first += 2 * h)
    for (int i = 0; i < h; i++) {
      float *re = data->re + (first + i) * P, *im = data->im + (first + i) * P;
      const float c = room->re[h + i], s = room->im[h + i];
      for (int x = 0; x < P; x++) {
        const float a = re[h * P + x] * c + im[h * P + x] * s, b = im[h * P + x] * c - re[h * P + x] * s;
        re[h * P + x] = re[x] - a;
        im[h * P + x] = im[x] - b;
        re[x] += a;
        im[x] += b;
      }
    }
}

static void in_place_forward(scratch *room, tile *data) {
  for (int h = P / 2; h > 0; h /= 2) split_rows(room, data, h);
  transpose(data);
  for (int h = P / 2; h > 0; h /= 2) split_rows(room, data, h);
}

static void in_place_inverse(scratch *room, tile *data) {
  for (int h = 1; h < P; h *= 2) join_rows(room, data, h);
  transpose(data);
  for (int h = 1; h < P; h *= 2) join_rows(room, data, h);
}

static void in_place(const ladder_task *k) {
  run_tiles(k, &(method){in_place_forward, in_place_inverse});
}

/* ---- step 5, paired: two tiles are the real and the imaginary part of one transform, half the work for each */

static int64_t pairs_of(const ladder_task *k) {
  return (ladder_fft_tiles(k) + 1) / 2;
}

static void run_pairs(const ladder_task *k, int64_t begin, int64_t end) {
  overlap_save(k, &(method){in_place_forward, in_place_inverse}, true, begin, end);
}

static void paired(const ladder_task *k) {
  run_pairs(k, 0, pairs_of(k));
}

/* ---- step 6, threaded: an equal part of the pairs for every core */

static void threaded(const ladder_task *k) {
  ladder_share(k, pairs_of(k), run_pairs);
}

/* ---- reads of each step for an output, in bytes: a point and its root, level by level */

static double of_tile(const ladder_task *k, double bytes_per_point) {
  return bytes_per_point * TILE / ladder_fft_tile_outputs(k);
}
static double direct_bytes(const ladder_task *k) {
  return 8.0 * (double)k->taps[H] * (double)k->taps[W];
}
static double dft_bytes(const ladder_task *k) { /* a point and a root a product, two axes, two transforms; a product */
  return of_tile(k, 4 + 4 * 16.0 * P + 16);
}
static double radix_2_bytes(const ladder_task *k) { /* a root for two points */
  return of_tile(k, 4 + 2 * 12 * log2(TILE) + 16);
}
static double in_place_bytes(const ladder_task *k) { /* a root for a row */
  return of_tile(k, 4 + 2 * 8 * log2(TILE) + 16);
}
static double paired_bytes(const ladder_task *k) {
  return of_tile(k, 4 + 8 * log2(TILE) + 8);
}

const ladder_step ladder_cpu_fft_image[] = {
    {.name = "direct",
     .idea = "the definition of the convolution",
     .book = "7.1",
     .bytes_per_output = direct_bytes,
     .operations_per_output = ladder_fft_tile_direct,
     .run = direct},
    {.name = "dft",
     .idea = "tiles' spectra by the DFT's definition, rows and columns: 16 P^3 each",
     .bytes_per_output = dft_bytes,
     .operations_per_output = ladder_fft_tile_by_definition,
     .run = dft,
     .missing = ladder_fft_tile_refusal},
    {.name = "radix-2",
     .idea = "halves of halves (Cooley-Tukey): 5 P^2 log2 P^2 each",
     .bytes_per_output = radix_2_bytes,
     .operations_per_output = ladder_fft_tile_by_fft,
     .run = radix_2,
     .missing = ladder_fft_tile_refusal},
    {.name = "in-place",
     .idea = "butterflies of whole rows; rows stay in bit-reversed order",
     .bytes_per_output = in_place_bytes,
     .operations_per_output = ladder_fft_tile_by_fft,
     .run = in_place,
     .missing = ladder_fft_tile_refusal},
    {.name = "paired",
     .idea = "two tiles as real and imaginary part of one",
     .bytes_per_output = paired_bytes,
     .operations_per_output = ladder_fft_tile_by_pairs,
     .run = paired,
     .missing = ladder_fft_tile_refusal},
    {.name = "threaded",
     .idea = "pairs of tiles on every core",
     .bytes_per_output = paired_bytes,
     .operations_per_output = ladder_fft_tile_by_pairs,
     .run = threaded,
     .missing = ladder_fft_tile_refusal},
    {.name = "engine", .idea = "what the library's transforms do", .solver = "fft"},
    {.name = NULL},
};
