/* Tile search of cuda_25d.cu. Estimate: the larger of issue time and memory time plus a part of the smaller one, for
 * the multiprocessor with the most blocks. Few warps leave issue slots idle; few lines in flight leave memory idle. */
#include "solver/cuda/filter/cuda_25d_tiles.h"

#include <math.h>

#include "core/memory.h"

enum {
  MOST_REGISTERS = 224, /* of a thread, as estimated; the machine has 255 */
  PARTS = 4,            /* of a multiprocessor */
  MOST_WARPS = 64,
  MOST_BODY = 2800,  /* multiply-adds unrolled: beyond, the instruction cache misses */
  LARGE_BODY = 1900, /* beyond, it does so at times */
  FLIGHT = 32 << 10, /* bytes in flight to a multiprocessor that memory needs */
  MOST_MARKS = 32,   /* bits of a thread's mask: the lines and ends that are the constant */
  MANY_TAPS = 512,   /* from here on, lines that are the constant take far more registers */
  MANY_LINES = 24,   /* likewise */
  UNIFORM = 60,      /* taps that stay in uniform registers */
  SECTOR = 32,       /* bytes that the second-level cache gives at least */
  WIDE = 32,         /* bytes of a thread's line: a warp's accesses are adjacent */
  MOST_CHUNKS = 64   /* of a volume's planes */
};

enum { PLANE, ROW, COLUMN };

/* Measured on an H200: the fraction of issue slots that many warps fill, and that few miss; the same for memory's rate;
 * the fraction of the shorter time that is not hidden; of lines that neighbouring blocks also read, the fraction from
 * memory; the cost of uneven work among multiprocessors; the costs of loads of less than 32 bytes, of single lines, and
 * of few lines in flight. */
static const double issue_share = 0.92, squared_warps = 9, memory_share = 1.05, warps_missed = 1.3;
static const double shorter_share = 0.05, halo_share = 0.2, uneven_share = 0.5, narrow_cost = 1.06, line_cost = 1.1,
                    late_cost = 1.07, large_cost = 1.03;

/* ---- geometry */

/* Elements of one access: at most 16 bytes, by the alignment of rows; a thread that was moved inwards is at a row's
 * length less the width. */
static int vector_of(const falt_tile_problem *p, const falt_25d *s, int align, int bytes) {
  int vector = smaller(s->width, 16 / bytes);
  while (vector > 1 && (align % vector || p->out[COLUMN] % vector)) vector /= 2;
  return vector;
}

/* A thread's elements are inside the image; the rest of a window belongs to its neighbours. */
static bool place_window(const falt_tile_problem *p, falt_25d *s) {
  s->shift = p->pad[COLUMN] < 0 ? (int)falt_ceil_div(-(int64_t)p->pad[COLUMN], s->width) * s->width : 0;
  for (int tries = 0; tries < 2; tries++, s->shift += s->width) {
    s->left = p->pad[COLUMN] + s->shift;
    const int right = p->taps[COLUMN] - 1 - s->left;
    if (s->left <= s->width && right >= 0 && right <= s->width && p->out[COLUMN] + s->shift <= p->in[COLUMN])
      return true;
  }
  return false;
}

/* The last thread of a row is moved inwards where the width does not divide the row. */
static bool lonely(const falt_tile_problem *p, const falt_25d *s) {
  const int group = smaller(s->block[0], FALT_WARP);
  return p->out[COLUMN] % s->width != 0 || (p->out[COLUMN] / s->width - 1) % group == 0;
}

static int lines_of(const falt_tile_problem *p, const falt_25d *s) {
  return s->rows + p->taps[ROW] - 1;
}

static int ends_of(const falt_tile_problem *p, const falt_25d *s) {
  const int right = p->taps[COLUMN] - 1 - s->left;
  return s->both ? s->left + right : larger(s->left, right);
}

/* ---- work of a thread at a plane */

static int results_of(const falt_25d *s) {
  return s->width * s->rows;
}

static int64_t body_of(const falt_tile_problem *p, const falt_25d *s) {
  if (!p->terms) return (int64_t)p->taps[PLANE] * p->taps[ROW] * p->taps[COLUMN] * results_of(s);
  return p->terms * ((int64_t)lines_of(p, s) * p->taps[COLUMN] * s->width +
                     (int64_t)(p->taps[ROW] + p->taps[PLANE]) * results_of(s));
}

/* Planes of an iteration. */
static int cycle_of(const falt_tile_problem *p, const falt_25d *s) {
  return (int)falt_ceil_div(s->ahead, lines_of(p, s));
}

static int64_t unrolled_of(const falt_tile_problem *p, const falt_25d *s) {
  return body_of(p, s) * cycle_of(p, s);
}

/* Registers: accumulators, the lines in flight, a window, positions; the rest as compiled: more if elements are
 * converted, if terms have far ends, and for each plane of an iteration. */
static int fitted_registers(const falt_tile_problem *p, const falt_25d *s) {
  const int words = p->sum_bytes / 4, ends = ends_of(p, s), spare = p->converts ? 66 : words > 1 ? 52 : 38;
  const int line = (int)falt_ceil_div((int64_t)s->width * p->x_bytes, 4) + (int)falt_ceil_div(p->x_bytes, 4) * ends;
  const int window = s->width + p->taps[COLUMN] - 1;
  const int across = p->terms ? p->terms * results_of(s) + s->width + 32 * larger(0, ends - 2) : 0;
  const int parts = falt_tile_in_parts(p) ? s->width : 0;
  return (p->taps[PLANE] * results_of(s) + window + across + parts) * words + s->ahead * line + lines_of(p, s) + ends +
         spare + (p->fills ? 4 : 0) + 8 * (cycle_of(p, s) - 1);
}

/* Registers that kernels for sm_90 may need beyond that: for lines that are the constant, their ends, and conversions
 * of many lines. Fitted to several hundred tiles that were chosen for an H200 and compiled, with and without spills. */
static int missed_registers(const falt_tile_problem *p, const falt_25d *s) {
  const int down = lines_of(p, s) - 1, reach = p->taps[PLANE] * down, ends = s->both ? ends_of(p, s) : 0;
  if (p->sum_bytes > 4) return p->fills && !p->terms ? reach / 4 : 0;
  if (p->terms) return p->fills ? reach / 9 : 0;
  if (p->tiny) return p->fills && s->both ? reach / 2 : 0;
  const int taps = p->taps[PLANE] * p->taps[ROW] * p->taps[COLUMN];
  if (p->fills && (down >= MANY_LINES || (down > 0 && taps >= MANY_TAPS))) return 102;
  if (p->converts && p->fills) return larger(s->both ? reach : reach * 47 / 100, 4 * down) + 2 * ends;
  if (p->converts) return reach / 4 + 2 * ends;
  return p->fills ? (reach * 47 + ends * 550) / 100 : reach * reach / 256;
}

/* Warp instructions. */
static double issue_of(const falt_tile_problem *p, const falt_25d *s) {
  const double ends = ends_of(p, s), loads = (double)s->width / s->x_vector;
  const double along = 2.0 * (p->taps[COLUMN] - 1), convert = p->converts ? 1.5 * (s->width + ends) : 0;
  const double line = (along + 3 * ends + convert) * (p->sum_bytes / 4) + 3 * loads + 4;
  const double result = (p->y_bytes < 4 ? 3 : p->converts ? 1 : 0) + 3.0 / s->y_vector;
  const int taps = p->terms ? 0 : p->taps[PLANE] * p->taps[ROW] * p->taps[COLUMN]; /* loaded, two at a time */
  return (double)body_of(p, s) * (p->sum_bytes / 4) + (taps > UNIFORM ? taps / 2.0 : 0) + lines_of(p, s) * line +
         results_of(s) * result + 30;
}

/* L1 cycles of a warp: 128 bytes each, and the lines that distant lanes touch. */
static double cache_of(const falt_tile_problem *p, const falt_25d *s) {
  const double in = fmax(1, fmin(FALT_WARP, (double)s->width * p->x_bytes * FALT_WARP / 128)) * s->width / s->x_vector;
  const double out = fmax(1, fmin(FALT_WARP, (double)s->width * p->y_bytes * FALT_WARP / 128)) * s->width / s->y_vector;
  return lines_of(p, s) * (in + 2 * ends_of(p, s)) + s->rows * out;
}

/* ---- legal */

static const char *reason(const falt_tile_problem *p, const falt_25d *s) {
  if (s->registers > MOST_REGISTERS) return "its sums and lines need more registers than a thread has";
  if (body_of(p, s) * falt_ceil_div(s->ahead, lines_of(p, s)) > MOST_BODY)
    return "its unrolled taps are more instructions than the cache holds";
  if (lines_of(p, s) + ends_of(p, s) > MOST_MARKS)
    return "a thread's lines and their ends are more than a mask has bits";
  if (s->rows > p->out[ROW] || (s->block[1] - 1) * s->rows >= p->out[ROW]) return "the image has fewer rows";
  return NULL;
}

static const char *problem_reason(const falt_tile_problem *p, falt_25d *s) {
  if (p->pixel > 1) return "channels are interleaved";
  if (p->taps[PLANE] == 1) return "the filter has one plane only";
  if (p->out[COLUMN] < s->width) return "rows are shorter than a thread's columns";
  if (!place_window(p, s)) return "windows reach farther along a row than neighbouring threads do";
  return NULL;
}

/* ---- estimate */

/* Blocks of the multiprocessor that has the most: whole rounds of as many as fit, then the rest. */
typedef struct load {
  double rounds, rest, most;
} load;

static load load_of(const falt_tile_problem *p, const falt_machine *m, const falt_25d *s) {
  const double blocks = (double)p->batch * (double)(s->count[PLANE] * s->count[ROW] * s->count[COLUMN]);
  load l = {.rounds = floor(blocks / (m->multiprocessors * s->blocks))};
  l.rest = ceil((blocks - l.rounds * m->multiprocessors * s->blocks) / m->multiprocessors);
  l.most = l.rounds * s->blocks + l.rest;
  return l;
}

/* Clocks that the blocks of a multiprocessor need to issue a plane's instructions: few warps leave slots empty. */
static double issue_clocks(const falt_tile_problem *p, const falt_25d *s, double blocks) {
  const double warps = blocks * s->block[0] * s->block[1] / FALT_WARP;
  return issue_of(p, s) * warps / PARTS / issue_share * (1 + squared_warps / (warps * warps)) *
         (s->ahead < 3 && lines_of(p, s) > 1 ? late_cost : 1) * (unrolled_of(p, s) > LARGE_BODY ? large_cost : 1);
}

/* Memory traffic: elements that neighbouring blocks also read come from memory in part. */
static double bytes_of(const falt_tile_problem *p, const falt_25d *s) {
  const double rows = (double)s->block[1] * s->rows, columns = (double)s->block[0] * s->width * p->x_bytes;
  const double sectors = s->count[COLUMN] > 1 ? (columns + 2 * SECTOR) / columns : 1,
               steps = s->planes + p->taps[PLANE] - 1;
  const double halo = (rows + p->taps[ROW] - 1) / rows * sectors * steps / s->planes - 1;
  const double results = (double)p->batch * (double)p->out[PLANE] * (double)p->out[ROW] * (double)p->out[COLUMN];
  return results * (p->y_bytes + p->x_bytes * (1 + halo_share * halo));
}

/* Threads along a column request the same bytes. */
static double memory_seconds(const falt_tile_problem *p, const falt_machine *m, const falt_25d *s, double blocks) {
  const double threads = blocks * s->block[0] * s->block[1], ahead = (double)s->ahead / lines_of(p, s);
  const double flight = threads * results_of(s) * p->x_bytes * fmax(1, ahead);
  const double idle = flight < FLIGHT ? sqrt(sqrt(FLIGHT / flight)) : 1;
  const double apart = s->width * p->x_bytes < WIDE ? narrow_cost : 1, alone = lines_of(p, s) == 1 ? line_cost : 1;
  return bytes_of(p, s) / (m->bytes_per_s * memory_share) * idle * apart * alone *
         (1 + warps_missed * FALT_WARP / threads);
}

static double seconds_of(const falt_tile_problem *p, const falt_machine *m, const falt_25d *s) {
  const load l = load_of(p, m, s);
  const double steps = s->planes + p->taps[PLANE] - 1, clock = m->flops / 256 / m->multiprocessors;
  const double rest = l.rest > 0 ? issue_clocks(p, s, l.rest) : 0;
  const double issue = steps * (l.rounds * issue_clocks(p, s, s->blocks) + rest) / clock;
  const double cache = steps * l.most * s->block[0] * s->block[1] / FALT_WARP * cache_of(p, s) / clock;
  const double blocks = (double)p->batch * (double)(s->count[PLANE] * s->count[ROW] * s->count[COLUMN]);
  const double uneven = l.most * m->multiprocessors / blocks;
  const double memory = memory_seconds(p, m, s, l.rounds > 0 ? s->blocks : l.rest) * (1 + uneven_share * (uneven - 1));
  return fmax(fmax(issue, memory) + shorter_share * fmin(issue, memory), cache);
}

/* ---- enumeration */

/* As many blocks along the planes as serve best: more even out the multiprocessors' work, fewer repeat less. */
static void estimate(const falt_tile_problem *p, const falt_machine *m, falt_25d *s) {
  const int64_t all = p->out[PLANE];
  falt_25d best;
  falt_tile_search search = falt_tile_search_best(&best, sizeof best);
  for (int64_t planes = all + 1; (planes = falt_piece_below(all, MOST_CHUNKS, planes)) > 0;) {
    s->planes = (int)planes;
    s->count[PLANE] = falt_ceil_div(all, planes);
    s->seconds = seconds_of(p, m, s);
    falt_tile_offer(&search, s, NULL, s->seconds);
  }
  *s = best;
}

double falt_25d_scattered(const falt_tile_problem *p, const falt_machine *m, const falt_25d *s) {
  const int touched = smaller(s->width * p->y_bytes, SECTOR);                /* sectors, by a store of 32 threads */
  const double written = SECTOR / 2.0 * touched / (FALT_WARP * s->y_vector); /* bytes that take as long as an output */
  const double results = (double)p->batch * (double)p->out[PLANE] * (double)p->out[ROW] * (double)p->out[COLUMN];
  return results * fmax(0, written - p->y_bytes) / (m->bytes_per_s * memory_share);
}

/* Blocks that fit on a multiprocessor, whose four parts have their own registers. */
static int blocks_of(const falt_25d *s) {
  const int warps = s->block[0] * s->block[1] / FALT_WARP;
  return (int)falt_min(MOST_WARPS / warps, falt_blocks_by_quarters(warps, larger(40, s->registers)));
}

/* Registers that a thread may have if that many blocks run. */
static int limit_of(const falt_25d *s) {
  return smaller(255, FALT_REGISTERS / (s->block[0] * s->block[1] * s->blocks) / 8 * 8);
}

static void complete(const falt_tile_problem *p, const falt_machine *m, falt_25d *s) {
  s->both = lonely(p, s);
  s->x_vector = vector_of(p, s, p->x_align, p->x_bytes);
  s->y_vector = vector_of(p, s, p->y_align, p->y_bytes);
  s->count[ROW] = falt_ceil_div(p->out[ROW], (int64_t)s->rows * s->block[1]);
  s->count[COLUMN] = falt_ceil_div(p->out[COLUMN], (int64_t)s->width * s->block[0]);
  s->registers = fitted_registers(p, s) + m->arch->registers_25d;
  s->blocks = blocks_of(s);
  const int missed = missed_registers(p, s);
  if (s->blocks > 0 && s->registers + missed > limit_of(s)) {
    s->registers += missed;
    s->blocks = blocks_of(s);
  }
}

static const char *block_reason(const falt_25d *s) {
  return s->blocks < 1 ? "a block needs more registers than a multiprocessor has" : NULL;
}

static void consider(const falt_tile_problem *p, const falt_machine *m, falt_25d tile, falt_tile_search *search) {
  tile.rejected = problem_reason(p, &tile);
  if (!tile.rejected) {
    complete(p, m, &tile);
    tile.rejected = reason(p, &tile);
    if (!tile.rejected) tile.rejected = block_reason(&tile);
  }
  if (!tile.rejected) estimate(p, m, &tile);
  falt_tile_offer(search, &tile, tile.rejected, tile.seconds);
}

/* The number of lines in flight. A thread that reads several lines of a plane has at least two and at most all of them
 * in flight. */
static int ahead_of(const falt_tile_problem *p, const falt_25d *s, int wanted) {
  return lines_of(p, s) == 1 ? wanted : larger(2, smaller(wanted, lines_of(p, s)));
}

void falt_25d_each(const falt_tile_problem *p, const falt_machine *m, falt_tile_search *search) {
  static const int widths[] = {1, 2, 4, 8, 16}, rows[] = {1, 2, 4}, ahead[] = {1, 2, 3, 5};
  static const int blocks[][2] = {{128, 1}, {128, 2}, {128, 4}, {64, 1},  {64, 2},  {64, 4}, {64, 6},
                                  {64, 8},  {32, 4},  {32, 8},  {32, 12}, {32, 16}, {16, 8}, {8, 16}};
  enum { WIDTHS = sizeof widths / sizeof *widths, ROWS = sizeof rows / sizeof *rows };
  enum { BLOCKS = sizeof blocks / sizeof *blocks, AHEADS = sizeof ahead / sizeof *ahead };
  for (int i = 0; i < WIDTHS * ROWS * BLOCKS * AHEADS; i++) {
    const int b = i % BLOCKS, r = i / BLOCKS % ROWS, w = i / BLOCKS / ROWS % WIDTHS, a = i / BLOCKS / ROWS / WIDTHS;
    falt_25d tile = {.width = widths[w], .rows = rows[r], .ahead = ahead[a], .block = {blocks[b][0], blocks[b][1]}};
    const int bytes = tile.width * p->x_bytes;
    const bool narrow = bytes < WIDE / 4 && 4 * tile.width <= p->out[COLUMN];
    if (lines_of(p, &tile) == 1 && ahead[a] > 3) continue; /* planes of an iteration */
    tile.ahead = ahead_of(p, &tile, ahead[a]);
    if (a > 0 && tile.ahead == ahead_of(p, &tile, ahead[a - 1])) continue; /* the same tile again */
    if (bytes <= WIDE && !narrow) consider(p, m, tile, search);
  }
}

bool falt_25d_choose(const falt_tile_problem *problem, const falt_machine *machine, falt_25d *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_25d_each(problem, machine, &search);
  return search.found;
}

void falt_25d_defines(falt_cuda_kernel *kernel, const falt_25d *s) {
  const falt_cuda_named_define defines[] = {
      {"LEFT", s->left},        {"SHIFT", s->shift},      {"BOTH", s->both},         {"THREAD", s->width},
      {"ROWS", s->rows},        {"AHEAD", s->ahead},      {"VECTOR_X", s->x_vector}, {"VECTOR_Y", s->y_vector},
      {"BLOCK_X", s->block[0]}, {"BLOCK_Y", s->block[1]}, {"BLOCKS", s->blocks}};
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
}
