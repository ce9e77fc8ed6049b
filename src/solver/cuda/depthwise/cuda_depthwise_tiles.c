/* Tile search of the direct depthwise kernels: enumerates the tiles that fit into registers and keeps the one with the
 * smallest estimated time. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/depthwise/cuda_depthwise_tiles.h"

enum { PLANE, ROW, COLUMN };
enum {
  MOST_REGISTERS = 230,
  WHOLE_WORDS = 72,
  PART_WORDS = 40,
  MOST_WORDS = 128,
  MOST_PRODUCTS = 5600,
  MOST_SPAN = 160,
  LARGE_BLOCK = 512, /* threads */
  GRID = 65535
};

/* ---- resources of a thread */

typedef struct work {
  int channels;    /* of a thread */
  int taps[2];     /* of a part: along rows, along columns */
  int span[2];     /* lines and columns that a tile reads */
  int used[2];     /* of these, multiplied */
  int loads;       /* of a line */
  int line_words;  /* registers of a line */
  int outer;       /* planes of taps, and parts */
  int64_t advance; /* columns of the source from tile to tile */
  double products; /* of a part, as the compiler unrolls them */
  double met;      /* fraction of the lines that are not skipped */
} work;

static int span_of(const falt_depthwise_shape *s, const falt_depthwise_axis *a, int results, int taps) {
  const int64_t reach = (taps - 1) * a->dilation;
  const int64_t span =
      (s->kind == FALT_DEPTHWISE_DATA ? (results - 1 + reach) / a->stride : (results - 1) * a->stride + reach) + 1;
  return span > MOST_SPAN ? MOST_SPAN + 1 : (int)span;
}

/* Neighbouring outputs with dilated taps share elements; outputs that are far apart do not. */
static int used_of(const falt_depthwise_shape *s, const falt_depthwise_axis *a, int results, int taps) {
  const int span = span_of(s, a, results, taps);
  return s->kind == FALT_DEPTHWISE_DATA ? span : smaller(span, results * taps);
}

/* Fraction of the products along an axis whose source is inside. */
static double inside_of(const falt_depthwise_shape *s, const falt_depthwise_axis *a) {
  int64_t inside = 0;
  if (!s->constant || a->taps * a->results > 1 << 12) return 1;
  for (int64_t o = 0; o < a->results; o++)
    for (int64_t j = 0; j < a->taps; j++) {
      const bool data = s->kind == FALT_DEPTHWISE_DATA;
      const int64_t way = o + a->pad - j * a->dilation,
                    at = data ? way / a->stride : o * a->stride + j * a->dilation - a->pad;
      inside += at >= 0 && at < a->source && !(data && (way < 0 || way % a->stride));
    }
  return (double)inside * (s->kind == FALT_DEPTHWISE_DATA ? (double)a->stride : 1) / (double)(a->taps * a->results);
}

/* Loads of a line; elements that only the edge of a tile needs are loaded separately. */
static int loads_of(const falt_depthwise_shape *s, const falt_depthwise_tile *t, const work *w) {
  if (s->inner || t->unit == 1) return w->used[1];
  return (int)falt_ceil_div(w->advance, t->unit) + (w->span[1] > w->advance ? 2 : 0);
}

static work work_of(const falt_depthwise_shape *s, const falt_depthwise_tile *t) {
  const bool data = s->kind == FALT_DEPTHWISE_DATA;
  const falt_depthwise_axis *r = &s->axis[ROW], *c = &s->axis[COLUMN];
  const int results[2] = {t->rows, t->columns}, word = (t->unit * s->x_bytes + 3) / 4;
  work w = {.channels = s->inner ? t->unit : 1,
            .taps = {(int)falt_ceil_div(r->taps, t->parts), (int)c->taps},
            .outer = (int)s->axis[PLANE].taps * t->parts * (data ? s->members : 1),
            .advance = data ? t->columns / c->stride : t->columns * c->stride,
            .products = (double)t->rows * t->columns,
            .met = t->parts > 1 ? inside_of(s, r) : 1};
  for (int i = 0; i < 2; i++) {
    const falt_depthwise_axis *a = &s->axis[ROW + i];
    w.span[i] = span_of(s, a, results[i], w.taps[i]);
    w.used[i] = used_of(s, a, results[i], w.taps[i]);
    w.products *= data ? (double)w.taps[i] / (double)a->stride : w.taps[i];
  }
  if (t->columns >= c->results) w.used[1] = smaller(w.used[1], (int)c->source), w.products *= inside_of(s, c);
  w.products *= w.channels;
  w.loads = loads_of(s, t, &w);
  w.line_words = s->inner || t->unit == 1 ? w.used[1] * word : (w.used[1] * s->x_bytes + 3) / 4 + 2;
  return w;
}

/* Output rows with open accumulators. */
static int rows_waiting(const falt_depthwise_shape *s, const falt_depthwise_tile *t, const work *w) {
  const falt_depthwise_axis *r = &s->axis[ROW];
  const int64_t reach = (w->taps[0] - 1) * r->dilation + 1;
  if (w->outer > 1) return t->rows;
  return smaller(t->rows,
                 (int)(s->kind == FALT_DEPTHWISE_DATA ? reach + r->stride - 1 : falt_ceil_div(reach, r->stride)));
}

static int fitted_registers(const falt_depthwise_shape *s, const falt_depthwise_tile *t, const work *w) {
  const int sum = s->sum_bytes / 4, taps = w->taps[0] * w->taps[1] * w->channels * sum;
  const int lines = (t->ahead + 1) * w->line_words, y_word = (t->unit * s->y_bytes + 3) / 4;
  if (s->kind != FALT_DEPTHWISE_FILTER)
    return rows_waiting(s, t, w) * t->columns * w->channels * sum + taps + lines + (s->finish ? 34 : 20);
  return taps + t->rows * t->columns * y_word / (s->inner ? 1 : t->unit) + lines + (s->x_bytes > 2 ? 30 : 20);
}

/* ---- legal */

/* Tiles of a dgrad have outputs of all polyphase parts of the stride. */
static int polyphases_of(const falt_depthwise_shape *s, int axis) {
  return s->kind == FALT_DEPTHWISE_DATA ? (int)s->axis[axis].stride : 1;
}

/* Parts are shifts of whole rows. */
static bool parts_fit(const falt_depthwise_shape *s, int parts) {
  return s->kind != FALT_DEPTHWISE_DATA || parts == 1 || s->axis[ROW].stride == 1;
}

static bool words_fit(const falt_depthwise_shape *s, const falt_depthwise_tile *t, const work *w) {
  if (t->unit > s->x_align || t->unit * larger(s->x_bytes, s->inner ? s->y_bytes : 1) > 16) return false;
  if ((s->inner || s->kind == FALT_DEPTHWISE_FILTER) && t->unit > s->y_align) return false;
  return s->inner || (w->advance % t->unit == 0 && (s->kind != FALT_DEPTHWISE_FILTER || t->columns % t->unit == 0));
}

static bool fits(const falt_depthwise_shape *s, const falt_depthwise_tile *t, const work *w) {
  const int sum = s->sum_bytes / 4, taps = w->taps[0] * w->taps[1] * w->channels * sum;
  if (taps > MOST_WORDS || w->products > MOST_PRODUCTS) return false;
  if (w->span[0] > MOST_SPAN || w->span[1] > MOST_SPAN || t->registers > MOST_REGISTERS) return false;
  return s->kind != FALT_DEPTHWISE_FILTER || s->axis[PLANE].taps * t->parts < GRID;
}

/* ---- cost */

/* Instructions of a tile. */
static double instructions_of(const falt_depthwise_shape *s, const falt_depthwise_tile *t, const work *w) {
  const bool filter = s->kind == FALT_DEPTHWISE_FILTER;
  const double results = (double)t->rows * t->columns * w->channels, lines = w->used[0] * w->met;
  const double products = w->products * w->met * (s->sum_bytes == 8 ? 2 : 1);
  const double converted = s->x_bytes == 2 ? lines * w->used[1] * w->channels : 0;
  const double taps = filter ? 0 : (double)(w->taps[0] * w->taps[1]) * (s->inner ? (w->channels + 3) / 4 : 2);
  const double stored = filter ? results * 2 / t->y_unit + results : results * 3 / t->y_unit + results / 2;
  return (products + converted + lines * w->loads * 1.5 + taps + 20) * w->outer + stored + 60;
}

/* Bytes of L1 lines that a thread's loads and stores touch: lanes that are far apart touch more than they use. */
static double line_bytes_of(const falt_depthwise_shape *s, const falt_depthwise_tile *t, const work *w) {
  const double results = (double)t->rows * t->columns * w->channels, lines = w->used[0] * w->met * w->outer;
  const double taps = (double)w->taps[0] * w->taps[1] * w->channels * 4 * w->outer;
  const double beside = (double)falt_ceil_div(s->axis[COLUMN].results, t->columns); /* tiles */
  const double word = t->unit * s->x_bytes, far = s->scattered ? 8 : 1;
  const double apart = far * fmax((double)(w->advance * s->x_bytes), 128 / beside);
  const double load = s->inner ? word : fmin(128, fmax(word, apart));
  return lines * w->loads * load + (s->kind == FALT_DEPTHWISE_FILTER ? 0 : taps) + results * s->y_bytes * far;
}

static double tiles_of(const falt_depthwise_shape *s, const falt_depthwise_tile *t, const work *w) {
  double tiles = (double)s->images * (double)s->axis[PLANE].results * (double)(s->channels / w->channels);
  tiles *=
      (double)falt_ceil_div(s->axis[ROW].results, t->rows) * (double)falt_ceil_div(s->axis[COLUMN].results, t->columns);
  return tiles;
}

typedef struct bytes {
  double x, y;
} bytes;

static bytes bytes_of(const falt_depthwise_shape *s) {
  const double channels = (double)s->images * (double)s->channels;
  bytes b = {s->x_bytes * channels, s->y_bytes * channels};
  for (int i = 0; i < 3; i++) b.x *= (double)s->axis[i].source, b.y *= (double)s->axis[i].results;
  if (s->kind == FALT_DEPTHWISE_DATA)
    b.x *= s->members;
  else
    b.x /= s->members;
  return b;
}

/* Sectors that a thread fills by halves are written twice. */
static bool halves_sectors(const falt_depthwise_shape *s, const falt_depthwise_tile *t) {
  return s->kind != FALT_DEPTHWISE_FILTER && !s->inner && t->columns > t->y_unit;
}

/* Contiguous bytes of neighbouring lanes in a wgrad block; the cost of fewer. */
static double segment_cost(const falt_depthwise_shape *s, const work *w, int lanes) {
  const int64_t near = (int64_t)lanes * w->channels * s->x_bytes, all = s->channels * s->x_bytes;
  return near >= 128 || near >= all ? 1 : near >= 64 ? 1.15 : 1.35;
}

/* Lanes that have no channels, and threads of the block that have no lane; a large block waits for its slowest warp. */
static double lanes_cost(const falt_depthwise_shape *s, const work *w, int lanes, int threads) {
  const int64_t vectors = s->channels / w->channels;
  const double idle = (double)(falt_ceil_div(vectors, lanes) * lanes) / (double)vectors;
  const double left = (double)threads / (double)(threads / lanes * lanes);
  return (0.8 + 0.2 * idle * left) * segment_cost(s, w, lanes) * (threads == LARGE_BLOCK ? 1.03 : 1);
}

/* The memory time beyond the bytes. L1 lines add to it; few threads, lines that are not prefetched, small words and
 * tall tiles, whose rows are in many pages, prolong it. */
static double memory_seconds(const falt_depthwise_shape *s, const falt_machine *m, const work *w,
                             const falt_depthwise_tile *t) {
  static const double waiting[] = {1.09, 1.02, 1, 1.02}; /* by the lines in flight */
  const double lines = tiles_of(s, t, w) * line_bytes_of(s, t, w) / (m->flops / 2);
  const double threads = (double)t->threads * t->blocks;
  const bytes b = bytes_of(s);
  double seconds =
      (b.x + b.y * (halves_sectors(s, t) ? 1.7 : 1)) * 0.96 / m->bytes_per_s + lines * (s->inner ? 0.6 : 0.45);
  seconds *= fmax(1, 1.2 - 0.2 * threads / 768) *
             (1 + (s->inner ? 0.012 * larger(0, t->rows - 8) : 0.018 * larger(0, t->rows - 4)));
  if (w->used[0] > 1) seconds *= waiting[t->ahead];
  if (t->unit * s->x_bytes < 4) seconds *= 1.2;
  return s->kind == FALT_DEPTHWISE_FILTER && s->inner ? seconds * lanes_cost(s, w, t->lanes, t->threads) : seconds;
}

/* Fitted to 384 timings of 36 layers on an H200. Of the slots of instructions three fifths are used at best; the last
 * threads work alone. */
static double estimate(const falt_depthwise_shape *s, const falt_machine *m, const work *w,
                       const falt_depthwise_tile *t) {
  const double lanes = m->flops / 2, clock = lanes / m->multiprocessors / 128;
  const double instructions = instructions_of(s, t, w), threads = (double)t->threads * t->blocks;
  const double memory = memory_seconds(s, m, w, t);
  const double rate = (s->kind == FALT_DEPTHWISE_FILTER ? 0.58 : 0.65) * fmin(1, 0.4 + threads / 640);
  const double issue = tiles_of(s, t, w) * instructions / lanes / rate, alone = (instructions * 4 + 1500) / clock;
  const double waits =
      s->kind == FALT_DEPTHWISE_DATA ? 1300.0 * (s->members - 1) / clock : 0; /* for taps, then lines */
  return sqrt(sqrt(pow(memory, 4) + pow(issue, 4))) + 0.3 * alone + waits;
}

/* ---- all of them */

typedef struct visitor {
  const falt_depthwise_shape *shape;
  const falt_machine *machine;
  falt_tile_search *search;
} visitor;

/* As many split-K slices as fill the GPU a few times, so few multiprocessors wait for the last. */
static int64_t split_k_of(const visitor *v, const falt_depthwise_tile *t, int64_t blocks) {
  const int64_t slots = (int64_t)v->machine->multiprocessors * t->blocks, strips = t->threads / t->lanes;
  const int64_t most = smaller(GRID, (int)fmin(GRID, (double)falt_ceil_div(t->tiles, strips)));
  int64_t best = 1;
  double least = INFINITY;
  for (int waves = 1; waves <= 6; waves++) {
    const int64_t split_k = waves * slots / blocks;
    const double idle = (double)(waves * slots) / (double)(larger(1, (int)split_k) * blocks) + 0.03 * waves;
    if (split_k > 0 && idle < least) least = idle, best = split_k;
  }
  return best < most ? best : most;
}

/* A gradient's blocks. One split-K slice's sums are the gradient: they need no workspace. */
static void set_split_k(const visitor *v, const work *w, falt_depthwise_tile *t) {
  const falt_depthwise_shape *s = v->shape;
  const int64_t vectors = s->channels / w->channels, parts = s->axis[PLANE].taps * t->parts;
  const int64_t sums =
      (s->axis[PLANE].taps * s->axis[ROW].taps * s->axis[COLUMN].taps + 1) * s->channels * s->sum_bytes;
  t->tiles = t->tiles / vectors;
  t->split_k = split_k_of(v, t, falt_ceil_div(vectors, t->lanes) * parts);
  if (s->workspace >= 0 && t->split_k * sums > s->workspace) t->split_k = falt_max(1, s->workspace / sums);
  t->partial = t->split_k > 1 ? t->split_k * sums : 0;
  t->seconds += (double)t->partial / v->machine->bytes_per_s * 4;
}

/* Weight gradients read y as they read x. */
static int y_unit_of(const falt_depthwise_shape *s, const falt_depthwise_tile *t) {
  int unit = s->y_align;
  if (s->inner || s->kind == FALT_DEPTHWISE_FILTER) return t->unit;
  while (t->columns % unit || s->axis[COLUMN].results % unit) unit /= 2;
  return unit;
}

/* As many as a gradient's channels have tiles for. */
static int threads_of(const falt_depthwise_shape *s, const falt_depthwise_tile *t, const work *w) {
  const double needed = tiles_of(s, t, w) * w->channels / (double)s->channels * t->lanes;
  int threads = 256;
  if (s->kind != FALT_DEPTHWISE_FILTER) return 128;
  while (threads > 64 && threads / 2 >= needed) threads /= 2;
  return threads;
}

/* As many vectors of channels as divide a warp, with the least cost. */
static double set_lanes(const falt_depthwise_shape *s, const work *w, falt_depthwise_tile *t) {
  double least = INFINITY;
  t->lanes = 1;
  for (int lanes = 32; s->inner && lanes >= 1; lanes /= 2) {
    if (lanes * w->channels * s->sum_bytes > 256) continue; /* of shared memory, for each tap and warp */
    if (lanes_cost(s, w, lanes, 32) < least) least = lanes_cost(s, w, lanes, 32), t->lanes = lanes;
  }
  t->threads = threads_of(s, t, w);
  return least;
}

/* Or all of a pixel's, if that leaves fewer threads idle: with stride 1 and few taps, where it was found to pay. */
static void set_threads(const falt_depthwise_shape *s, const work *w, falt_depthwise_tile *t) {
  const int64_t vectors = s->channels / w->channels;
  double least = set_lanes(s, w, t);
  if (s->kind != FALT_DEPTHWISE_FILTER || !s->inner || s->axis[COLUMN].stride > 1) return;
  if (w->taps[0] * w->taps[1] > 9) return;
  for (int threads = 256; threads <= LARGE_BLOCK; threads *= 2) {
    if (vectors > threads || t->registers > FALT_REGISTERS / LARGE_BLOCK) continue;
    if (tiles_of(s, t, w) < (double)threads || lanes_cost(s, w, (int)vectors, threads) >= least) continue;
    least = lanes_cost(s, w, (int)vectors, threads);
    t->lanes = (int)vectors;
    t->threads = threads;
  }
}

/* At least twice as large as the problem. */
static bool too_large(const falt_depthwise_shape *s, const falt_depthwise_tile *t) {
  return (t->rows > polyphases_of(s, ROW) && t->rows >= 2 * s->axis[ROW].results) ||
         (t->columns > polyphases_of(s, COLUMN) && t->columns >= 2 * s->axis[COLUMN].results);
}

static void consider(const visitor *v, falt_depthwise_tile t) {
  const falt_depthwise_shape *s = v->shape;
  if (too_large(s, &t)) return;
  const work w = work_of(s, &t);
  t.y_unit = y_unit_of(s, &t);
  t.registers = fitted_registers(s, &t, &w);
  if (!words_fit(s, &t, &w) || !fits(s, &t, &w)) return;
  set_threads(s, &w, &t);
  t.blocks = (int)falt_min(2048 / t.threads, falt_blocks_by_registers(t.threads, t.registers));
  t.blocks = larger(1, smaller(t.blocks, (s->inner && s->kind == FALT_DEPTHWISE_FILTER ? 512 : 1536) / t.threads));
  const double tiles = tiles_of(s, &t, &w);
  if (tiles >= 0x1p31) return;
  t.tiles = (int64_t)tiles;
  t.seconds = estimate(s, v->machine, &w, &t);
  if (s->kind == FALT_DEPTHWISE_FILTER) set_split_k(v, &w, &t);
  falt_tile_offer(v->search, &t, NULL, t.seconds);
}

/* As few parts as their taps' registers allow; 0: none do. */
static int parts_of(const falt_depthwise_shape *s, int channels) {
  const int64_t line = s->axis[COLUMN].taps * channels * s->sum_bytes / 4, rows = PART_WORDS / line;
  if (!parts_fit(s, 2) || line * s->axis[ROW].taps <= WHOLE_WORDS) return 1;
  return rows ? (int)falt_ceil_div(s->axis[ROW].taps, rows) : 0;
}

void falt_depthwise_each(const falt_depthwise_shape *s, const falt_machine *m, falt_tile_search *search) {
  static const int counts[] = {1, 2, 4, 7, 8, 14, 16}; /* rows: up to 14 */
  enum { COUNTS = sizeof counts / sizeof *counts };
  const visitor v = {s, m, search};
  for (int unit = 1; unit <= 8; unit *= 2) {
    const int parts = parts_of(s, s->inner ? unit : 1);
    for (int r = 0; parts && r < COUNTS - 1; r++)
      for (int c = 0; c < COUNTS; c++)
        for (int ahead = 0; ahead <= (parts > 1 || counts[r] == 1 ? 0 : 3); ahead++)
          consider(&v, (falt_depthwise_tile){.rows = counts[r] * polyphases_of(s, ROW),
                                             .columns = counts[c] * polyphases_of(s, COLUMN),
                                             .unit = unit,
                                             .parts = parts,
                                             .ahead = ahead});
  }
}

bool falt_depthwise_choose(const falt_depthwise_shape *shape, const falt_machine *machine, falt_depthwise_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_depthwise_each(shape, machine, &search);
  return search.found;
}
