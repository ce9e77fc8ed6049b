/* Tap splitting and tile search of cuda_toeplitz.cu. */
#include "solver/cuda/toeplitz/cuda_toeplitz_tiles.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/types.h"
#include "cuda/device/args.h"

/* Tap w becomes unit * (p0 + p1 + p2). Bytes: p0, p1, p2 are the signed digits of an integer to base 256, with weights
 * 1, 256 and 65536. Floats: p0 is w/unit rounded to the type, p1 the remainder rounded to it, p2 the rest. If all taps
 * are small multiples of one number (box, binomial and difference filters), that number is the unit and one part
 * suffices. Otherwise the parts hold at least 22 bits of each tap. */

enum { MOST_PARTS = 3, LANES = 32, MOST_SLOTS = 36, MOST_BYTES = 8355711 /* 127 * (65536 + 256 + 1) */ };

static int64_t count_of(const falt_toeplitz *b) {
  return (int64_t)b->taps[0] * b->taps[1] * b->taps[2];
}

/* ---- taps into parts */

static double round_to(falt_toeplitz_kind kind, double value) {
  uint32_t bits;
  float narrow = (float)value;
  if (kind == FALT_BANDS_HALVES) return falt_from_f16(falt_to_f16(value));
  memcpy(&bits, &narrow, sizeof bits);
  const int drop = kind == FALT_BANDS_BRAINS ? 16 : 13;
  bits = (bits + (UINT32_C(1) << (drop - 1)) - 1 + (bits >> drop & 1)) >> drop << drop;
  memcpy(&narrow, &bits, sizeof narrow);
  return narrow;
}

/* The parts of value = tap / unit, the largest first. */
static void split(const falt_toeplitz *b, double value, double part[MOST_PARTS]) {
  part[0] = part[1] = part[2] = 0;
  if (b->kind == FALT_BANDS_BYTES) {
    int64_t integer = llrint(value);
    for (int i = b->parts - 1; i >= 0; i--) {
      const int64_t digit = i == 0 ? integer : ((integer + 128) & 255) - 128;
      part[i] = (double)digit;
      integer = (integer - digit) / 256;
    }
    return;
  }
  for (int i = 0; i < b->parts; i++) {
    part[i] = round_to(b->kind, value);
    value -= part[i];
  }
}

static double whole_of(const falt_toeplitz *b, const double part[MOST_PARTS]) {
  if (b->kind != FALT_BANDS_BYTES) return part[0] + part[1] + part[2];
  double whole = 0;
  for (int i = 0; i < b->parts; i++) whole = whole * 256 + part[i];
  return whole;
}

/* The smallest and largest magnitude that is not 0, and the sum of all. */
typedef struct extent {
  double least, most, sum;
} extent;

static extent extent_of(const falt_toeplitz *b, const double *values) {
  extent e = {INFINITY, 0, 0};
  for (int64_t i = 0; i < count_of(b); i++) {
    const double size = fabs(values[i]);
    if (size > 0) e.least = fmin(e.least, size);
    e.most = fmax(e.most, size);
    e.sum += size;
  }
  return e;
}

/* Whether all taps are integers times the unit, to the precision of the f32 that they came as. */
static bool measures(const falt_toeplitz *b, const double *values, double unit, double tolerance) {
  for (int64_t i = 0; i < count_of(b); i++)
    if (fabs(values[i] - rint(values[i] / unit) * unit) > fabs(values[i]) * tolerance) return false;
  return true;
}

/* A number of which all taps are integer multiples, up to `most` times: a power of two, or a fraction of the smallest
 * tap. 0: none. */
static double common_unit(const falt_toeplitz *b, const double *values, const extent *e, double most) {
  for (int k = 0; k <= 30 && ldexp(e->most, k) <= most; k++)
    if (measures(b, values, ldexp(1, -k), 0)) return ldexp(1, -k);
  for (int k = 1; k <= 4 && e->most / e->least * k <= most; k++)
    if (measures(b, values, e->least / k, 0x1p-25)) return e->least / k;
  return 0;
}

/* Integers: as few bytes as hold them exactly; else three, as large as sums of 32 bits allow. */
static void choose_bytes(falt_toeplitz *b, const double *values, const extent *e) {
  static const double most[MOST_PARTS] = {127, 127 * 257, MOST_BYTES};
  for (b->parts = 1; b->parts <= MOST_PARTS; b->parts++)
    if ((b->unit = common_unit(b, values, e, most[b->parts - 1])) != 0) return;
  b->parts = MOST_PARTS;
  int exponent; /* a power of two, so the weights of parts are exact floats */
  frexp(fmax(e->most / MOST_BYTES, e->sum / 0x1.fp30), &exponent);
  b->unit = ldexp(1, exponent);
}

/* The power of two by which taps below 2^exponent are divided: it moves f16 parts near the top of their range, so none
 * is subnormal. Other parts have the range of f32: small taps become larger, because a product with a small element
 * would underflow, and large ones stay. Only taps that would round to infinity are halved. */
static double power_unit(falt_toeplitz_kind kind, int exponent) {
  enum { F16_TOP = 14, F32_TOP = 127 };
  if (kind == FALT_BANDS_HALVES) return ldexp(1, exponent - F16_TOP);
  return exponent <= 0 ? ldexp(1, exponent) : exponent <= F32_TOP ? 1 : ldexp(1, exponent - F32_TOP);
}

static void choose_floats(falt_toeplitz *b, const double *values, const extent *e) {
  static const int parts[] = {[FALT_BANDS_HALVES] = 2, [FALT_BANDS_BRAINS] = 3, [FALT_BANDS_WORDS] = 2};
  static const double most[] = {[FALT_BANDS_HALVES] = 2048, [FALT_BANDS_BRAINS] = 256, [FALT_BANDS_WORDS] = 2048};
  b->parts = 1;
  b->unit = common_unit(b, values, e, most[b->kind]);
  if (b->unit != 0) return;
  int exponent;
  frexp(e->most, &exponent);
  b->unit = power_unit(b->kind, exponent);
  b->parts = parts[b->kind];
}

static void measure_error(falt_toeplitz *b, const double *values) {
  double part[MOST_PARTS];
  for (int64_t i = 0; i < count_of(b); i++) {
    split(b, values[i] / b->unit, part);
    const double error = fabs(whole_of(b, part) * b->unit - values[i]);
    b->error = sqrt(b->error * b->error + error * error);
    if (values[i] != 0) b->relative_error = fmax(b->relative_error, error / fabs(values[i]));
  }
}

/* A lane holds a piece of a row at a time; all but a single piece keep vectors aligned. */
static void choose_pieces(falt_toeplitz *b) {
  const int words = ((b->taps[2] - 1) * b->pixel + 1 + 3 + b->per_word - 1) / b->per_word;
  b->chunks = (words + MOST_SLOTS - 1) / MOST_SLOTS;
  b->slots = b->chunks == 1 ? words : ((words + b->chunks - 1) / b->chunks + 3) / 4 * 4;
  b->pairs = (b->slots + 1) / 2;
}

void falt_toeplitz_make(falt_toeplitz *b, falt_toeplitz_kind kind, const int taps[3], int pixel, const double *values) {
  static const int per_word[] = {4, 2, 2, 1};
  *b = (falt_toeplitz){.kind = kind, .pixel = pixel, .channels = 1, .per_word = per_word[kind], .parts = 1, .unit = 1};
  memcpy(b->taps, taps, sizeof b->taps);
  b->depth = (taps[1] + 3 + 3) / 4;
  choose_pieces(b);
  const extent e = extent_of(b, values);
  if (e.most == 0) return;
  if (kind == FALT_BANDS_BYTES)
    choose_bytes(b, values, &e);
  else
    choose_floats(b, values, &e);
  measure_error(b, values);
}

/* ---- sums as the bits of floats */

enum { BIAS = 12582912 /* the start value of sums, as a float */, MOST_SUM = 1 << 22 };

/* Bounds each part's sums. */
static void bound_sums(const falt_toeplitz *b, const double *values, double most, double bound[MOST_PARTS]) {
  bound[0] = bound[1] = bound[2] = 0;
  for (int64_t i = 0; i < count_of(b); i++) {
    double part[MOST_PARTS];
    split(b, values[i] / b->unit, part);
    for (int p = 0; p < b->parts; p++) bound[p] += fabs(part[p]) * most;
  }
}

/* The largest power of two that a float is a multiple of. */
static double grain_of(float value) {
  int exponent;
  frexp(value, &exponent);
  double grain = ldexp(1, exponent - 24);
  while (value != 0 && fmod(value, 2 * grain) == 0) grain *= 2;
  return grain;
}

/* Bounds the loss by roundings, one a part: nothing if all terms are multiples of the last weight's grain and below
 * 2^24 of it. If the offset subtracts the bias of all parts at once, the bias of the later ones is present from the
 * start. */
static double rounding_of(const falt_toeplitz *b, const falt_toeplitz_bias *bias, const double bound[MOST_PARTS],
                          double beta) {
  const double grain = grain_of(bias->weight[b->parts - 1]);
  double most = 0, error = 0;
  for (int p = 0; p < b->parts; p++) {
    double now = fabs(beta);
    for (int q = 0; q <= p; q++) now += fabs(bias->weight[q]) * bound[q];
    for (int q = p + 1; q < b->parts && bias->folded; q++) now += fabs(bias->weight[q]) * BIAS;
    most = fmax(most, now);
    error += 0x1p-24 * now;
  }
  return fmod(beta, grain) == 0 && most < 0x1p24 * grain ? 0 : error;
}

bool falt_toeplitz_bias_make(falt_toeplitz_bias *bias, const falt_toeplitz *b, const double *values, double most,
                             double alpha, double beta) {
  double bound[MOST_PARTS], weights = 0, reach = 0;
  const double scale = (float)(alpha * b->unit);
  *bias = (falt_toeplitz_bias){.offset = (float)beta};
  bound_sums(b, values, most, bound);
  for (int p = 0; p < b->parts; p++) {
    if (!(bound[p] < MOST_SUM)) return false;
    bias->weight[p] = (float)ldexp(scale, 8 * (b->parts - 1 - p));
    weights += bias->weight[p];
    reach += fabs(bias->weight[p]) * bound[p];
  }
  const double enough = 0x1p-20 * (reach + fabs(beta)); /* the error of f32 sums */
  const double offset = beta - BIAS * weights;
  bias->folded = (float)offset == offset;
  if (bias->folded && rounding_of(b, bias, bound, beta) > enough) bias->folded = false;
  if (bias->folded) bias->offset = (float)offset;
  const double scaling = fabs(scale - alpha * b->unit) / fmax(fabs(scale), 0x1p-126) * reach;
  bias->error = rounding_of(b, bias, bound, beta) + scaling + fabs((float)beta - beta);
  return bias->error <= enough;
}

/* ---- parts into bands */

size_t falt_toeplitz_bytes(const falt_toeplitz *b) {
  return (size_t)b->taps[0] * (size_t)b->depth * (size_t)b->chunks * (size_t)b->pairs * (size_t)b->parts * LANES * 4 *
         sizeof(uint32_t);
}

/* The tap of output m of a tile at the footprint's row and column; 0 if there is none. Output m is in row m/2%4, column
 * 2*(m%2) + m/8 of the tile, or 2*(m/8) + m%2 if transposed, so a lane's outputs are neighbours. */
static double tap_at(const falt_toeplitz *b, const double *values, int plane, int m, int row, int column) {
  row -= m / 2 % 4;
  column -= b->transposed ? 2 * (m / 8) + m % 2 : 2 * (m % 2) + m / 8;
  if (row < 0 || row >= b->taps[1] || column < 0 || column % b->pixel || column / b->pixel >= b->taps[2]) return 0;
  return values[((int64_t)plane * b->taps[1] + row) * b->taps[2] + column / b->pixel];
}

static uint32_t bits_of(falt_toeplitz_kind kind, double part) {
  const float narrow = (float)part;
  uint32_t bits;
  if (kind == FALT_BANDS_BYTES) return (uint8_t)(int8_t)part;
  if (kind == FALT_BANDS_HALVES) return falt_to_f16(part);
  memcpy(&bits, &narrow, sizeof bits);
  return kind == FALT_BANDS_BRAINS ? bits >> 16 : bits;
}

/* A product's place: plane, block of four rows, its first slot among all words of a row. */
typedef struct spot {
  int plane, block, slot;
} spot;

/* Row m of the place's slot, lane t of four: per_word contiguous taps. */
static uint32_t word_at(const falt_toeplitz *b, const double *values, spot at, int part, int m, int t) {
  uint32_t word = 0;
  for (int i = 0; i < b->per_word; i++) {
    double parts[MOST_PARTS];
    split(b, tap_at(b, values, at.plane, m, 4 * at.block + t, at.slot * b->per_word + i) / b->unit, parts);
    word |= bits_of(b->kind, parts[part]) << (32 / b->per_word * i);
  }
  return word;
}

/* All lanes' registers of one product: outputs g and g+8 of the first slot, then of the second; transposed: outputs g
 * of both slots, then outputs g+8. */
static uint32_t *fill_product(const falt_toeplitz *b, const double *values, spot at, int part, uint32_t *to) {
  for (int lane = 0; lane < LANES; lane++)
    for (int i = 0; i < 4; i++) {
      const int slot = b->transposed ? i % 2 : i / 2, half = b->transposed ? i / 2 : i % 2;
      const spot one = {at.plane, at.block, at.slot + slot};
      *to++ = word_at(b, values, one, part, lane / 4 + 8 * half, lane % 4);
    }
  return to;
}

void falt_toeplitz_fill(const falt_toeplitz *b, const double *values, void *memory) {
  uint32_t *to = memory;
  for (int plane = 0; plane < b->taps[0]; plane++)
    for (int chunk = 0; chunk < b->chunks; chunk++)
      for (int block = 0; block < b->depth; block++)
        for (int pair = 0; pair < b->pairs; pair++)
          for (int part = 0; part < b->parts; part++)
            to = fill_product(b, values, (spot){plane, block, chunk * b->slots + 2 * pair}, part, to);
}

/* ---- how an image is cut */

enum {
  MOST_KEPT = 168,          /* registers of a thread: three blocks of 128 threads on a multiprocessor */
  MOST_APART = 200,         /* the same for separated channels: two blocks pay */
  MOST_REGISTERS = 240,     /* the machine has 255 */
  BLOCK_SHARED = 88 * 1024, /* of the 99 KB that a block may have on every GPU since sm_80 */
  FILE_SHARED = 160 * 1024,
  WARPS_NEEDED = 8,  /* to hide latency */
  RING_STEPS = 16,   /* most of persistent warps: taller tiles are slower, as measured, being far apart in memory */
  END_STEPS = 8,     /* of warps at the image's edges */
  SLOW_END_STEPS = 4 /* at edges, which are slower because they are not prefetched */
};

int falt_toeplitz_width(const falt_toeplitz *b, const falt_toeplitz_cut *cut) {
  return 32 * cut->groups * b->channels;
}

int falt_toeplitz_height(const falt_toeplitz_cut *cut) {
  return 4 * cut->tiles * cut->steps;
}

bool falt_toeplitz_ringed(const falt_toeplitz *b, const falt_toeplitz_cut *c, int before) {
  const int own = c->groups * b->channels, left = (before + 3) / 4;
  const int words = (c->groups - 1 + b->slots) * b->channels,
            right = (4 * left - before + 4 * words + 3) / 4 - left - own;
  return b->kind == FALT_BANDS_BYTES && b->depth <= 2 && c->place == FALT_BANDS_REGISTERS && before >= 0 &&
         left <= own && right <= own;
}

/* Registers: accumulators, the window (the next one, too), resident Toeplitz matrices; the rest, as measured on
 * compiled kernels, is addresses and stores. */
static int fitted_registers(const falt_toeplitz *b, const falt_toeplitz_cut *c, const falt_machine *m) {
  const bool kept = c->place == FALT_BANDS_REGISTERS, apart = b->channels > 1;
  const int sums = c->groups * 4 * (b->kind == FALT_BANDS_BYTES ? b->parts : 1);
  const int window = (c->groups - 1) * 4 / b->per_word + b->slots;
  const int bands = kept ? b->depth * b->slots * 2 * b->parts : 4 * b->parts;
  const int rests = b->kind == FALT_BANDS_WORDS ? window : 0;
  const int older = m->arch->toeplitz_registers + (apart ? 8 : 0);
  const int others = (kept ? 24 : 20) + 7 * window / 4 + (b->taps[0] > 1 ? 24 : 0) + older;
  const int rows = b->channels * ((kept ? b->depth : c->tiles) + 1) * window, out = apart ? c->groups * b->channels : 0;
  const int all = c->tiles * sums + rows + 1 + bands + rests + others + out;
  return falt_toeplitz_ringed(b, c, 0) ? larger(all, 80 + 16 * b->parts + 28 * (b->channels - 1)) : all;
}

static int blocks_of(const falt_toeplitz_cut *c, int static_bytes) {
  const int by_registers = (int)falt_blocks_by_registers(32 * FALT_BANDS_WARPS, c->registers);
  const int by_shared = FILE_SHARED / (c->shared_bytes + static_bytes);
  return larger(1, smaller(smaller(by_registers, by_shared), 64 / FALT_BANDS_WARPS));
}

/* Cycles of a multiprocessor before a warp's first product. */
static double startup_of(const falt_toeplitz *b, const falt_toeplitz_cut *c) {
  if (c->place == FALT_BANDS_REGISTERS) return 40 * (b->depth + 2) * b->channels;
  return 100 + c->shared_bytes / 128.0;
}

/* The fractions are measured on an H200. */
static double compute_of(const falt_toeplitz *b, const falt_toeplitz_image *i, const falt_toeplitz_cut *c,
                         const falt_machine *m) {
  const int products =
      b->kind == FALT_BANDS_WORDS ? 4 * (b->parts + 1) : b->parts; /* tf32: half the rate, and its feed */
  const bool kept = c->place == FALT_BANDS_REGISTERS;
  const double slots = kept ? b->slots + 0.4 * (b->slots % 2) : b->slots; /* half a product takes 0.7 of its time */
  const double count = 0.5 * slots * b->chunks * b->depth * b->taps[0] * products; /* for 16 x 8 outputs */
  const double feed = kept ? 1 : 1 + 0.6 / (c->tiles * c->groups / 4.0);
  const double reach = 1 + (b->slots * b->per_word - 4) / (4.0 * c->groups); /* loaded for an output */
  const double blocks = kept ? 1 : 1 + (double)(b->depth + c->tiles - 1) * b->chunks * b->taps[0] / c->tiles;
  const double passes =
      kept ? 0.02 * reach + 0.007 * b->parts + (b->channels > 1 ? 0.04 : 0) : 0.05 * blocks * reach + 0.02 * b->parts;
  const double others = 128 * (passes + (i->aligned ? 0 : 0.4 + 0.1 * blocks));
  const double results = (double)falt_toeplitz_width(b, c) * falt_toeplitz_height(c);
  const bool ringed = i->aligned && falt_toeplitz_ringed(b, c, 0);
  const double share = !ringed ? 1 : b->channels > 1 ? 0.76 : 0.84; /* factor of a warp's time for a tile */
  return share * results / 128 * (count * feed / m->arch->mma_starts + others) + startup_of(b, c);
}

/* Seconds: cycles of all warps on all multiprocessors, or bytes over bandwidth, the larger and a part of the other,
 * stretched by too few warps to hide latency and by the last wave. */
static void estimate(const falt_toeplitz *b, const falt_toeplitz_image *i, const falt_machine *m,
                     falt_toeplitz_cut *c) {
  const double warps = (double)falt_ceil_div(i->out[2], falt_toeplitz_width(b, c)) *
                       (double)falt_ceil_div(i->out[1], falt_toeplitz_height(c)) * (double)i->out[0] * (double)i->batch;
  const double results = warps * falt_toeplitz_width(b, c) * falt_toeplitz_height(c);
  const double compute = warps * compute_of(b, i, c, m) / (m->flops / 256);
  const double halo = (b->taps[1] - 1.0) / falt_toeplitz_height(c);
  const double memory = results * (i->y_bytes + i->x_bytes * (1 + 0.2 * halo)) / m->bytes_per_s;
  const double resident = (double)c->blocks * FALT_BANDS_WARPS, slots = m->multiprocessors * resident;
  const double hidden = resident < WARPS_NEEDED ? resident / WARPS_NEEDED : 1;
  const double rounds = warps / slots;
  const double rest = falt_toeplitz_ringed(b, c, 0) && rounds > 1 ? ceil(rounds) / rounds : 1 + 0.3 / rounds;
  c->seconds = (fmax(compute, memory) + 0.3 * fmin(compute, memory)) / hidden * rest;
}

static void complete(const falt_toeplitz *b, const falt_toeplitz_image *i, const falt_machine *m,
                     falt_toeplitz_cut *c) {
  const int width = falt_toeplitz_width(b, c), staged = FALT_BANDS_WARPS * 4 * width * i->y_bytes;
  const int ring =
      falt_toeplitz_ringed(b, c, 0) ? FALT_BANDS_WARPS * FALT_CUDA_BANDED_RING * 5 * width * i->x_bytes : 0;
  if (c->place == FALT_BANDS_SHARED) c->shared_bytes = (int)falt_toeplitz_bytes(b);
  c->registers = fitted_registers(b, c, m);
  c->blocks = blocks_of(c, staged + ring);
  estimate(b, i, m, c);
}

/* Band matrices of volumes do not stay in registers, and resident ones are not shared by tiles. */
static bool is_possible(const falt_toeplitz *b, const falt_toeplitz_cut *c, const falt_machine *m) {
  const size_t bytes = falt_toeplitz_bytes(b);
  if (c->place == FALT_BANDS_REGISTERS)
    return b->taps[0] == 1 && b->chunks == 1 && c->tiles == 1 &&
           fitted_registers(b, c, m) <= (b->channels > 1 ? MOST_APART : MOST_KEPT);
  if ((c->place == FALT_BANDS_SHARED) != (bytes <= BLOCK_SHARED)) return false;
  return fitted_registers(b, c, m) <= MOST_REGISTERS ||
         (c->tiles == 1 && c->groups == (b->kind == FALT_BANDS_BYTES ? 4 : 2));
}

void falt_toeplitz_each(const falt_toeplitz *b, const falt_toeplitz_image *image, const falt_machine *m,
                        falt_tile_search *search) {
  static const int steps[] = {1, 2, 4, 8, 16, 24};
  for (int place = FALT_BANDS_REGISTERS; place <= FALT_BANDS_GLOBAL; place++)
    for (int groups = b->kind == FALT_BANDS_BYTES ? 4 : 2; groups <= 4; groups += 2)
      for (int tiles = 1; tiles <= 2; tiles++)
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
          falt_toeplitz_cut cut = {
              .place = (falt_toeplitz_place)place, .groups = groups, .tiles = tiles, .steps = steps[s]};
          if (!is_possible(b, &cut, m)) continue;
          const bool ringed = falt_toeplitz_ringed(b, &cut, 0);
          if (ringed && cut.steps > RING_STEPS) continue;
          cut.end_steps =
              place == FALT_BANDS_REGISTERS ? smaller(cut.steps, ringed ? END_STEPS : SLOW_END_STEPS) : cut.steps;
          complete(b, image, m, &cut);
          falt_tile_offer(search, &cut, NULL, cut.seconds);
        }
}

void falt_toeplitz_choose(const falt_toeplitz *b, const falt_toeplitz_image *image, const falt_machine *m,
                          falt_toeplitz_cut *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_toeplitz_each(b, image, m, &search);
}
