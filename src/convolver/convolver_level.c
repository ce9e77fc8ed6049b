/* One size of partitions: transforms of the inputs, products, transforms back, a share after each call.
 *
 * The right-angle transform makes the negacyclic convolution of 2n real samples by n complex points: Nussbaumer, Fast
 * Fourier Transform and Convolution Algorithms, 1982. The window of 2n samples is the last block and the one before;
 * the second half of the result holds n outputs (overlap-save). */
#include <math.h>
#include <string.h>

#include "convolver/convolver.h"
#include "core/memory.h"

enum { TRANSFORM_WORK = 8 }; /* in products of one partition */

static size_t spectrum_bytes(const falt_convolver *c, const falt_convolver_level *l) {
  return (size_t)(2 * l->size) * c->element;
}

/* ---- making */

static void put(char *to, size_t element, int64_t i, double value) {
  if (element == sizeof(float))
    ((float *)(void *)to)[i] = (float)value;
  else
    ((double *)(void *)to)[i] = value;
}

static void fill_twiddles(const falt_convolver *c, const falt_convolver_level *l) {
  const double quarter = 1.57079632679489661923;
  for (int64_t i = 0; i < l->size; i++) {
    put(l->twiddles, c->element, i, cos(quarter * (double)i / (double)l->size));
    put(l->twiddles, c->element, l->size + i, -sin(quarter * (double)i / (double)l->size));
  }
}

static bool make_level(falt_convolver *c, falt_convolver_level *l, const falt_fft_lane *lane) {
  const int64_t size[3] = {1, 1, l->size};
  const bool transformed[3] = {false, false, true};
  falt_fft_shape_set(&l->shape, lane, c->element, size, transformed);
  l->twiddles = falt_alloc((size_t)(2 * l->size) * c->element);
  l->sum = falt_alloc(spectrum_bytes(c, l));
  l->spectra = falt_alloc((size_t)(c->options.inputs * l->parts) * spectrum_bytes(c, l));
  if (!l->twiddles || !l->sum || !l->spectra || !falt_fft_shape_ready(&l->shape)) return false;
  fill_twiddles(c, l);
  return true;
}

/* Partitions grow while more than one of the next size is left. Latency stands before the taps like zeros. */
static void cut(falt_convolver *c) {
  const int64_t growth = c->options.growth, latency = c->options.latency, end = c->options.taps + latency;
  int64_t size = c->options.partition;
  c->head = falt_min(2 * size, end) - latency;
  for (int64_t at = 2 * size; at < end; size *= growth) {
    falt_convolver_level *l = &c->level[c->levels++];
    const int64_t next = 2 * growth * size;
    const bool is_last = growth == 1 || c->levels == FALT_CONVOLVER_LEVELS || growth * size > INT64_C(1) << 17 ||
                         end - next <= growth * size;
    const int64_t stop = is_last ? end : next;
    *l = (falt_convolver_level){.size = size, .first = at - latency, .parts = falt_ceil_div(stop - at, size)};
    at = stop;
  }
}

bool falt_convolver_levels_make(falt_convolver *c, falt_isa isa) {
  const bool is_f32 = c->element == sizeof(float);
  const falt_fft_lane *lane = falt_fft_lane_for(isa, c->element);
  c->lane = is_f32 ? falt_convolver_f32_for(isa) : falt_convolver_f64_for(isa);
  c->vector = lane->width;
  cut(c);
  const int64_t largest = c->levels ? c->level[c->levels - 1].size : c->options.partition;
  c->margin = falt_round_up(c->head + c->options.latency, FALT_ALIGN / (int64_t)c->element);
  c->ring = 4 * largest;
  for (int i = 0; i < c->levels; i++)
    if (!make_level(c, &c->level[i], lane)) return false;
  const int64_t plane = c->levels ? c->level[c->levels - 1].shape.plane : 0;
  const size_t chunk = (size_t)(c->options.partition + 8 * c->vector) * c->element;
  c->signals = falt_alloc((size_t)c->options.inputs * (size_t)(c->margin + c->ring + 8 * c->vector) * c->element);
  c->tile = falt_alloc((size_t)(2 * plane) * c->element);
  c->output = falt_alloc(chunk);
  c->other = falt_alloc(chunk);
  return c->signals && c->tile && c->output && c->other;
}

void falt_convolver_levels_free(falt_convolver *c) {
  for (int i = 0; i < c->levels; i++) {
    falt_free(c->level[i].twiddles);
    falt_free(c->level[i].sum);
    falt_free(c->level[i].spectra);
    falt_fft_shape_free(&c->level[i].shape);
  }
  falt_free(c->signals);
  falt_free(c->tile);
  falt_free(c->output);
  falt_free(c->other);
}

/* ---- work of a period */

static void begin_stage(falt_convolver_stage *s) {
  s->output = s->pair = s->part = 0;
}

static int64_t work_of(const falt_convolver *c, const falt_convolver_level *l, int bank) {
  return c->bank[bank]->pairs * l->parts + TRANSFORM_WORK * c->options.outputs;
}

/* Counts as done: the other work keeps its pace. */
void falt_convolver_levels_drop(falt_convolver *c, int bank) {
  for (int i = 0; i < c->levels; i++) {
    falt_convolver_level *l = &c->level[i];
    const falt_convolver_stage *s = &c->bank[bank]->stage[i];
    const int64_t done = s->pair * l->parts + s->part + TRANSFORM_WORK * s->output;
    if (s->runs) l->spent += work_of(c, l, bank) - done;
  }
}

static void begin_period(falt_convolver *c, int i) {
  falt_convolver_level *l = &c->level[i];
  l->began = c->time;
  l->newest = (l->newest + 1) % l->parts;
  l->input = l->spent = 0;
  l->work = TRANSFORM_WORK * c->options.inputs;
  for (int b = 0; b < 2 && c->bank[b]; b++) {
    falt_convolver_stage *s = &c->bank[b]->stage[i];
    if (s->runs) s->periods++;
    if (s->runs) s->now = !s->now;
    s->runs = true;
    begin_stage(s);
    l->work += work_of(c, l, b);
  }
}

static const char *block_before(const falt_convolver *c, const falt_convolver_level *l, int64_t blocks) {
  const int64_t at = (l->began + 2 * c->ring - blocks * l->size) % c->ring;
  return falt_convolver_signal(c, l->input) + (size_t)at * c->element;
}

/* The next input's block that was whole when the period began. */
static void transform_input(falt_convolver *c, falt_convolver_level *l) {
  char *im = c->tile + (size_t)l->shape.plane * c->element;
  char *to = l->spectra + (size_t)(l->input * l->parts + l->newest) * spectrum_bytes(c, l);
  c->lane->twist(block_before(c, l, 2), block_before(c, l, 1), l->twiddles, c->tile, im, l->size);
  falt_fft_spectrum(&l->shape, c->tile, to, 1);
  l->input++;
  l->spent += TRANSFORM_WORK;
}

static void transform_output(falt_convolver *c, falt_convolver_level *l, falt_convolver_stage *s) {
  const char *im = c->tile + (size_t)l->shape.plane * c->element;
  char *to = s->result[!s->now] + (size_t)(s->output * l->size) * c->element;
  falt_fft_inverse(&l->shape, l->sum, c->tile);
  c->lane->untwist(c->tile, im, l->twiddles, to, l->size);
  s->output++;
  l->spent += TRANSFORM_WORK;
}

/* The next product of a bank, or the way back of the output that has all of its products. */
static void advance_stage(falt_convolver *c, falt_convolver_level *l, const falt_convolver_bank *bank,
                          falt_convolver_stage *s) {
  const bool has_pair = s->pair < bank->pairs && bank->pair[s->pair].output == s->output;
  const bool has_more = s->part > 0 || (s->pair > 0 && bank->pair[s->pair - 1].output == s->output);
  if (!has_more) memset(l->sum, 0, spectrum_bytes(c, l));
  if (!has_pair) {
    transform_output(c, l, s);
    return;
  }
  const int64_t slot = (l->newest + l->parts - s->part) % l->parts, input = bank->pair[s->pair].input;
  const size_t bytes = spectrum_bytes(c, l);
  c->lane->multiply(l->sum, l->spectra + (size_t)(input * l->parts + slot) * bytes,
                    s->filter + (size_t)(s->pair * l->parts + s->part) * bytes, l->size);
  if (++s->part == l->parts) {
    s->part = 0;
    s->pair++;
  }
  l->spent++;
}

/* The inputs first, then one bank after the other. */
static void advance_once(falt_convolver *c, int i) {
  falt_convolver_level *l = &c->level[i];
  if (l->input < c->options.inputs) {
    transform_input(c, l);
    return;
  }
  for (int b = 0; b < 2 && c->bank[b]; b++) {
    falt_convolver_stage *s = &c->bank[b]->stage[i];
    if (s->runs && s->output < c->options.outputs) {
      advance_stage(c, l, c->bank[b], s);
      return;
    }
  }
}

void falt_convolver_level_advance(falt_convolver *c, int i) {
  falt_convolver_level *l = &c->level[i];
  const double share = (double)(c->time - l->began) / (double)l->size;
  while ((double)l->spent < share * (double)l->work) advance_once(c, i);
  if (c->time - l->began == l->size) begin_period(c, i);
}

void falt_convolver_levels_reset(falt_convolver *c) {
  const size_t signal = (size_t)(c->margin + c->ring + 8 * c->vector) * c->element;
  memset(c->signals, 0, (size_t)c->options.inputs * signal);
  for (int i = 0; i < c->levels; i++) {
    falt_convolver_level *l = &c->level[i];
    memset(l->spectra, 0, (size_t)(c->options.inputs * l->parts) * spectrum_bytes(c, l));
    begin_period(c, i);
  }
}
