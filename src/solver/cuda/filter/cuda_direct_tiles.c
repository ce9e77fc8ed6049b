/* Tile search of cuda_direct.cu. Estimate: the largest of issue time, L1 time and memory time plus a part of the
 * others. It grows if too few warps hide the memory latency, and if the last wave of blocks is not full. */
#include "solver/cuda/filter/cuda_direct_tiles.h"

#include <math.h>
#include "core/memory.h"

enum {
  MOST_REGISTERS = 200, /* of a thread, as estimated; the machine has 255 */
  MOST_BODY = 2400,     /* multiply-adds unrolled: beyond, the instruction cache misses */
  LONGEST_WINDOW = 192, /* elements from a line's first to its last */
  WARPS_NEEDED = 20     /* to hide latency */
};

enum { PLANE, ROW, COLUMN };

/* Fractions measured on an H200: of the clock's instructions; of loads repeated by neighbours that reach memory; of a
 * flat filter's compute rate on a volume; of the counted issue of separable terms that is not needed. */
static const double issue_share = 0.85, halo_share = 0.1, volume_share = 0.65, terms_share = 1.28;

/* ---- geometry */

/* Elements that one load may take: at most 16 bytes, within a thread's width, as rows are aligned. */
static int vector_of(int width, int align, int bytes) {
  int vector = 16 / bytes;
  while (vector > 1 && (width % vector || align % vector)) vector /= 2;
  return vector;
}

/* Elements loaded before the window to align the loads. */
static int shift_of(const falt_tile_problem *p, const falt_tile *t) {
  const int rest = (p->pad[COLUMN] * p->pixel) % t->x_vector;
  return rest > 0 ? t->x_vector - rest : -rest;
}

/* Elements from one tap along a row to the next. */
static int64_t next_of(const falt_tile_problem *p) {
  return (int64_t)p->pixel * p->dilation[COLUMN];
}

/* The element of a line below the first tap of a thread's output v: strides count pixels. */
static int64_t below(const falt_tile_problem *p, int v) {
  return v / p->pixel * (int64_t)p->pixel * p->stride[COLUMN] + v % p->pixel;
}

/* Elements of a line from the first that a thread needs to the last. */
static int64_t window_of(const falt_tile_problem *p, const falt_tile *t) {
  return below(p, t->width - 1) + (p->taps[COLUMN] - 1) * next_of(p) + 1;
}

static int64_t vectors_of(const falt_tile_problem *p, const falt_tile *t) {
  return falt_ceil_div(shift_of(p, t) + window_of(p, t), t->x_vector);
}

/* A window's elements that are needed, and the vectors that hold them. */
static void count_window(const falt_tile_problem *p, falt_tile *t) {
  bool needed[LONGEST_WINDOW + 16] = {false};
  const int shift = shift_of(p, t), next = (int)next_of(p);
  for (int v = 0; v < t->width; v++)
    for (int s = 0; s < p->taps[COLUMN]; s++) needed[shift + below(p, v) + s * next] = true;
  t->loads = t->elements = 0;
  for (int i = 0, last = -1; i < shift + window_of(p, t); i++) {
    if (!needed[i]) continue;
    t->loads += i / t->x_vector != last;
    t->elements++;
    last = i / t->x_vector;
  }
}

/* Lines from one of a thread's rows or planes to the next, where the filter's gaps are left out. */
static int step_of(const falt_tile_problem *p, int axis) {
  return p->stride[axis] / (int)falt_gcd(p->stride[axis], p->dilation[axis]);
}

static int spread_of(const falt_tile_problem *p, int axis, int many) {
  return many > 1 ? p->dilation[axis] / (int)falt_gcd(p->stride[axis], p->dilation[axis]) : 1;
}

/* Rows of an image that a tile holds; pieces of one row are counted one by one. */
static int height_of(const falt_tile *t) {
  return t->linear ? 1 : t->rows;
}

/* Tiles whose first output, of `many` outputs `spread` apart, is before `result`. */
static int64_t tiles_before(int64_t result, int many, int spread) {
  const int64_t whole = (int64_t)many * spread, rest = result % whole;
  return result <= 0 ? 0 : result / whole * spread + (rest < spread ? rest : spread);
}

falt_tile_box falt_tile_inside(const falt_tile_problem *p, const falt_tile *t) {
  const int many[] = {t->planes, height_of(t), t->width};
  const int64_t before[] = {p->pad[PLANE], p->pad[ROW], (int64_t)p->pad[COLUMN] * p->pixel + shift_of(p, t)};
  falt_tile_box box;
  bool empty = false;
  for (int i = PLANE; i <= COLUMN; i++) {
    const int64_t reach = (many[i] - 1) * (int64_t)t->spread[i]; /* from a thread's first output to its last */
    const int64_t window = i == COLUMN ? vectors_of(p, t) * t->x_vector
                                       : reach * p->stride[i] + (p->taps[i] - 1) * (int64_t)p->dilation[i] + 1;
    const int64_t last = p->in[i] - window + before[i]; /* of the positions where a window may begin */
    const int64_t inside = last < 0 ? 0 : last / p->stride[i] + 1, whole = p->out[i] - reach;
    box.all[i] = falt_ceil_div(p->out[i], many[i] * (int64_t)t->spread[i]) * t->spread[i];
    box.begin[i] = before[i] > 0 ? tiles_before(falt_ceil_div(before[i], p->stride[i]), many[i], t->spread[i]) : 0;
    box.end[i] = tiles_before(inside < whole ? inside : whole, many[i], t->spread[i]);
    empty |= box.begin[i] >= box.end[i];
  }
  for (int i = PLANE; i <= COLUMN && empty; i++) box.begin[i] = box.end[i] = 0;
  return box;
}

/* Columns are covered from the image's edge on, which keeps warps aligned. */
void falt_tile_blocks(const falt_tile *t, const falt_tile_box *box, int64_t blocks[3]) {
  blocks[PLANE] = box->end[PLANE] - box->begin[PLANE];
  blocks[ROW] = falt_ceil_div(box->end[ROW] - box->begin[ROW], t->block[1]);
  blocks[COLUMN] = falt_ceil_div(box->end[COLUMN], t->block[0] * (t->linear ? t->rows : 1));
}

int64_t falt_tile_frame(const falt_tile_box *box) {
  int64_t all = 1, inner = 1;
  for (int i = PLANE; i <= COLUMN; i++) {
    all *= box->all[i];
    inner *= box->end[i] - box->begin[i];
  }
  return all - inner;
}

/* ---- work */

static int results_of(const falt_tile *t) {
  return t->width * t->rows * t->planes;
}

/* Lines that a number of a thread's rows or planes read. */
static int lines_along(const falt_tile_problem *p, int axis, int many) {
  const int step = step_of(p, axis), taps = p->taps[axis];
  return (many - 1) * (step < taps ? step : taps) + taps;
}

static int lines_of(const falt_tile_problem *p, const falt_tile *t) {
  return t->linear ? t->rows : lines_along(p, PLANE, t->planes) * lines_along(p, ROW, t->rows);
}

/* Multiply-adds of a thread. */
static int64_t body_of(const falt_tile_problem *p, const falt_tile *t) {
  if (!p->terms) return (int64_t)p->taps[PLANE] * p->taps[ROW] * p->taps[COLUMN] * results_of(t);
  const int64_t along = (int64_t)lines_of(p, t) * p->taps[COLUMN] * t->width;
  const int64_t across = (int64_t)lines_along(p, PLANE, t->planes) * p->taps[ROW] * t->rows * t->width;
  const int64_t through = p->taps[PLANE] > 1 ? (int64_t)p->taps[PLANE] * results_of(t) : 0;
  return p->terms * (along + across + through);
}

/* Registers, as compiled. Of a tile: accumulators, two lines in flight, a window; pieces of one row read their windows
 * in place. Of a thread of the frame: positions too, and more of them for several rows. */
static int fitted_registers(const falt_tile_problem *p, const falt_tile *t) {
  const int words = p->sum_bytes / 4, raw = t->loads * (int)falt_ceil_div((int64_t)t->x_vector * p->x_bytes, 4);
  const int across = p->terms ? t->width + (p->taps[PLANE] > 1 ? p->terms * t->rows * t->width : 0) : 0;
  const int parts = falt_tile_in_parts(p) ? t->width : 0;
  const int window = t->elements * words, sums = (results_of(t) + across + parts) * words;
  const int tile = t->linear ? sums + window + 12 : sums + 2 * raw + window + 20;
  const int frame = t->width * words + raw + 2 * window + (p->converts ? 28 : 44);
  return larger(tile, p->taps[PLANE] * p->taps[ROW] == 1 ? 2 * window + 6 : frame);
}

static const char *problem_reason(const falt_tile_problem *p, const falt_tile *t) {
  if (p->stride[COLUMN] > 1 && t->width % p->pixel) return "a thread's outputs must be whole pixels";
  if (window_of(p, t) > LONGEST_WINDOW) return "its taps along a row are too far apart";
  return NULL;
}

static const char *reason(const falt_tile_problem *p, const falt_tile *t) {
  if (t->registers > MOST_REGISTERS) return "its sums and window need more registers than a thread has";
  if (body_of(p, t) > MOST_BODY) return "its unrolled taps are more instructions than the cache holds";
  if (!t->linear && t->rows > 1 && (int64_t)t->rows * t->spread[ROW] > p->out[ROW]) return "the image has fewer rows";
  if (t->planes > 1 && (int64_t)t->planes * t->spread[PLANE] > p->out[PLANE]) return "the image has fewer planes";
  return NULL;
}

/* ---- estimate */

/* Warp instructions of a thread of the box. */
static double issue_of(const falt_tile_problem *p, const falt_tile *t) {
  const double lines = lines_of(p, t), convert = p->converts ? 1.5 * lines * t->elements : 0;
  const double out = p->y_bytes < 4 ? 3 : p->converts ? 1 : 0;
  const double parts = falt_tile_in_parts(p) ? 1.0 / smaller(p->taps[COLUMN], 32) : 0;
  return (double)body_of(p, t) * (1 + parts) * (p->sum_bytes / 4) + convert + 5 * lines * t->loads +
         out * results_of(t) + 3.0 * results_of(t) / t->y_vector + 60;
}

/* L1 cycles of a warp of the box: 128 bytes each, and the lines that distant lanes touch. */
static double cache_of(const falt_tile_problem *p, const falt_tile *t) {
  const double apart = (double)t->width * p->stride[COLUMN] * p->x_bytes * 32 / 128, spread = apart < 32 ? apart : 32;
  const double whole = (double)t->x_vector * p->x_bytes * 32 / 128;
  const double out = (double)t->width * p->y_bytes * 32 / 128;
  return lines_of(p, t) * t->loads *
             (spread > whole ? spread
              : whole > 1    ? whole
                             : 1) +
         (double)t->rows * t->planes * out * t->width / t->y_vector;
}

/* Warp instructions of a thread of the frame, and L1 cycles of a warp: it has one row of a tile, tests every element,
 * and its lanes are far apart. */
static double frame_issue(const falt_tile_problem *p, const falt_tile *t) {
  const double along = (double)p->taps[COLUMN] * (t->width + 3 * p->terms) * (p->sum_bytes / 4);
  return (double)p->taps[PLANE] * p->taps[ROW] * (10.0 * t->elements + along + 40) + 60;
}

static double frame_cache(const falt_tile_problem *p, const falt_tile *t) {
  return (double)p->taps[PLANE] * p->taps[ROW] * t->loads * 24;
}

/* Elements that an output reads from memory: each once, and a fraction of the lines that neighbouring blocks also read.
 */
static double read_of(const falt_tile_problem *p, const falt_tile *t) {
  const int step = step_of(p, ROW), sector = 32 / p->x_bytes;
  const double once = smaller(p->stride[PLANE], p->taps[PLANE]) * (double)smaller(p->stride[ROW], p->taps[ROW]);
  const double lines = (double)lines_of(p, t) / (t->rows * t->planes);
  const double beside = t->block[1] > t->spread[ROW] ? (double)t->block[1] / t->spread[ROW] : 1;
  const double shared = (double)larger(0, p->taps[ROW] - step) / t->rows * (beside - 1) / beside;
  const double halo = t->linear || lines <= shared + once ? 0 : lines - shared - once;
  return (once + halo_share * halo) * smaller(p->stride[COLUMN], sector * p->taps[COLUMN]);
}

/* Seconds of a thread of a volume's frame, which waits for line after line. */
static double frame_alone(const falt_tile_problem *p) {
  return p->taps[PLANE] > 1 ? 0.9e-6 * p->taps[PLANE] * p->taps[ROW] : 0;
}

static void estimate(const falt_tile_problem *p, const falt_machine *m, falt_tile *t) {
  int64_t blocks[3];
  const falt_tile_box box = falt_tile_inside(p, t);
  falt_tile_blocks(t, &box, blocks);
  const double threads = t->block[0] * t->block[1], images = (double)p->batch;
  const double inner = (double)(blocks[PLANE] * blocks[ROW] * blocks[COLUMN]);
  const double frame = (double)falt_tile_frame(&box) * t->planes * height_of(t) / threads;
  const double clocks = m->flops / 256; /* of a multiprocessor, times their number */
  const double issue = images * threads / 128 * (inner * issue_of(p, t) + frame * frame_issue(p, t));
  const double cache = images * threads / 32 * (inner * cache_of(p, t) + frame * frame_cache(p, t));
  const double share = (p->taps[PLANE] > 1 ? volume_share : 1) * (p->terms > 0 ? terms_share : 1);
  const double compute = (issue / issue_share > cache ? issue / issue_share : cache) / (clocks * share);
  const double results = images * (double)p->out[PLANE] * (double)p->out[ROW] * (double)p->out[COLUMN];
  const double memory = results * (p->y_bytes + p->x_bytes * read_of(p, t)) / m->bytes_per_s;
  const double warps = t->blocks * threads / 32, hidden = warps < WARPS_NEEDED ? warps / WARPS_NEEDED : 1;
  const double waves = images * (inner + frame) / ((double)m->multiprocessors * t->blocks);
  const double longer = compute > memory ? compute : memory, shorter = compute > memory ? memory : compute;
  t->seconds = (longer + 0.15 * shorter) / hidden * (1 + 0.3 / (waves > 0.1 ? waves : 0.1));
  if (frame > 0) t->seconds = fmax(t->seconds, frame_alone(p));
}

/* ---- enumeration */

static void complete(const falt_tile_problem *p, falt_tile *t) {
  count_window(p, t);
  t->registers = fitted_registers(p, t);
  const int threads = t->block[0] * t->block[1];
  t->blocks = larger(1, smaller(2048 / threads, (int)falt_blocks_by_registers(threads, larger(40, t->registers))));
}

static void consider(const falt_tile_problem *p, const falt_machine *m, falt_tile tile, falt_tile_search *search) {
  tile.x_vector = vector_of(tile.width, p->x_align, p->x_bytes);
  tile.y_vector = vector_of(tile.width, p->y_align, p->y_bytes);
  tile.spread[PLANE] = spread_of(p, PLANE, tile.planes);
  tile.spread[ROW] = spread_of(p, ROW, height_of(&tile));
  tile.spread[COLUMN] = 1;
  tile.rejected = problem_reason(p, &tile);
  if (!tile.rejected) {
    complete(p, &tile);
    tile.rejected = reason(p, &tile);
  }
  if (!tile.rejected) estimate(p, m, &tile);
  falt_tile_offer(search, &tile, tile.rejected, tile.seconds);
}

bool falt_tile_in_parts(const falt_tile_problem *p) {
  enum { CHAIN = 512 };
  const double terms = p->terms ? p->taps[COLUMN] : (double)p->taps[PLANE] * p->taps[ROW] * p->taps[COLUMN];
  return p->sum_bytes == 4 && terms > CHAIN;
}

bool falt_tile_reaches_far(const falt_tile_problem *p) {
  for (int i = 0; i < 3; i++) {
    const int64_t pixel = i == COLUMN ? p->pixel : 1, size = p->in[i] / pixel, out = p->out[i] / pixel;
    const int64_t last = (out - 1) * p->stride[i] + (p->taps[i] - 1) * (int64_t)p->dilation[i] - p->pad[i];
    if (p->pad[i] >= size || last >= 2 * size - 1) return true;
  }
  return false;
}

void falt_tiles_each(const falt_tile_problem *p, const falt_machine *m, falt_tile_search *search) {
  static const int widths[] = {2, 4, 8, 16, 3, 6, 12}, counts[] = {1, 2, 4, 8};
  static const int blocks[][2] = {{32, 4}, {32, 8}, {128, 1}, {64, 1}, {16, 8}, {8, 16}};
  const bool flat = p->taps[PLANE] == 1, line = p->taps[ROW] == 1 && p->in[ROW] == 1 && p->out[ROW] == 1;
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
    const bool whole = p->pixel > 1 && p->stride[COLUMN] > 1; /* pixels */
    if (widths[w] % 3 == 0 && !(whole && p->pixel == 3)) continue;
    if (widths[w] * p->x_bytes > (whole ? 48 : line && flat ? 32 : 16))
      continue; /* a warp's loads would not be
                 * contiguous */
    for (size_t r = 0; r < sizeof counts / sizeof *counts; r++)
      for (size_t n = 0; n < (flat ? 1 : sizeof counts / sizeof *counts); n++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
          if (line && flat ? blocks[b][1] > 1 : blocks[b][1] == 1) continue;
          if (blocks[b][0] < 32 && 2 * blocks[b][0] * widths[w] <= p->out[COLUMN]) continue; /* of narrow images */
          consider(p, m,
                   (falt_tile){.width = widths[w],
                               .rows = counts[r],
                               .planes = counts[n],
                               .block = {blocks[b][0], blocks[b][1]},
                               .linear = line && flat},
                   search);
        }
  }
}

bool falt_tiles_choose(const falt_tile_problem *problem, const falt_machine *machine, falt_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_tiles_each(problem, machine, &search);
  return search.found;
}

void falt_tile_defines(falt_cuda_kernel *kernel, const falt_tile_problem *p, const falt_tile *t) {
  for (int i = 0; i < 3; i++) {
    falt_cuda_define(kernel, "STRIDE_%c=%d", "TRS"[i], p -> stride[i]);
    falt_cuda_define(kernel, "DILATE_%c=%d", "TRS"[i], p -> dilation[i]);
  }
  const falt_cuda_named_define defines[] = {
      {"PIXEL", p->pixel},       {"THREAD", t->width},      {"ROWS", t->rows},        {"PLANES", t->planes},
      {"VECTOR_X", t->x_vector}, {"VECTOR_Y", t->y_vector}, {"BLOCK_X", t->block[0]}, {"BLOCK_Y", t->block[1]},
      {"BLOCKS", t->blocks},     {"LINEAR", t->linear}};
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
}
