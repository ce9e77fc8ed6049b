/* Tile search of cuda_tiled.cu. Estimate: issue time, plus the parts of shared memory time and memory time that it does
 * not hide. It grows with an incomplete last wave of blocks and with too few warps. */
#include "solver/cuda/filter/cuda_tiled_tiles.h"
#include "core/memory.h"

#include <math.h>

enum {
  MOST_REGISTERS = 232, /* of a thread, as estimated; the machine has 255 */
  LEAST_REGISTERS = 72, /* that staging and indices need */
  MOST_SUM_BYTES = 256, /* of a thread's sums */
  MOST_WALK = 256,      /* windows that a walk adds to an output */
  LONGEST_WINDOW = 16,  /* tap columns of the unrolled loop */
  SECTOR = 32,          /* bytes that memory takes at least */
  WARPS_NEEDED = 16     /* to hide the latency of shared memory */
};

/* Fractions measured on an H200: of the limit's multiply-adds; of the time of loads from shared memory; of the shorter
 * of compute and memory time; of repeated halo reads that come from memory. */
static const double issue_share = 1.0, read_share = 0.18, shorter_share = 0.7, halo_share = 0.5;
/* Warp instructions that take as long as finding a vector at the image's ends, element by element. */
static const double edge_vector = 150;

static int quad_of(const falt_tiled_problem *p) {
  return 16 / p->sum_bytes;
}

static int rounded(const falt_tiled_problem *p, int64_t count) {
  return (int)falt_ceil_div(count, quad_of(p)) * quad_of(p);
}

/* Sums of a thread. */
static int sums_of(const falt_tiled *b) {
  return b->depth * b->rows * b->groups * b->group;
}

/* Planes of outputs of a thread: a walk along the depth keeps its sums and moves on. */
static int planes_of(const falt_tiled *b) {
  return b->walk ? b->walk : b->depth;
}

static double results_of(const falt_tiled *b) {
  return (double)planes_of(b) * b->rows * b->groups * b->group;
}

/* The element of the input below the first tap of an output's element. */
static int64_t below(const falt_tiled_problem *p, int64_t element) {
  return element / p->pixel * p->stride[2] * p->pixel + element % p->pixel;
}

/* Elements of shared memory that a thread's window of `taps` columns takes, for one group. */
static int window_of(const falt_tiled_problem *p, const falt_tiled *b, int taps) {
  const int window = (b->group - 1) * b->next_result + (taps - 1) * b->next_tap + 1;
  return b->dense ? rounded(p, b->shift + window) : window;
}

/* ---- shape */

/* The outputs of a thread along a row: in separate groups of four, contiguous, spread so that windows of distant taps
 * overlap, or single. */
typedef enum layout { FOURS, DENSE, SPREAD, SINGLE, LAYOUTS } layout;

static void lay_out(const falt_tiled_problem *p, falt_tiled *b, layout kind) {
  const int far = p->pixel * p->dilation[2], common = (int)falt_gcd(p->stride[2], p->dilation[2]);
  const int64_t quad = quad_of(p), pad = p->pad % quad;
  b->spread = kind == SPREAD ? far / common : 1;
  b->dense = kind <= DENSE;
  b->space = b->dense ? 1 : far;
  b->next_result = b->dense ? p->stride[2] : kind == SPREAD ? p->stride[2] / common : 0;
  b->next_tap = b->dense ? far : 1;
  b->shift = (int)(pad > 0 ? quad - pad : -pad);
  b->chunk = p->taps[2] <= b->chunk ? 0 : b->chunk;
  b->rest = b->chunk ? (p->taps[2] - 1) % b->chunk + 1 : p->taps[2];
}

/* Threads: a few columns of threads, and as many lines as the image has use for. */
static void place_threads(const falt_tiled_problem *p, falt_tiled *b, int lanes, int threads) {
  const int unit = b->group == 1 ? p->pixel : b->spread; /* the columns of threads are a multiple of it */
  b->lanes = (int)falt_ceil_div(lanes, unit) * unit;
  b->lines = larger(1, threads / b->lanes);
  while (b->lines > 1 && (int64_t)(b->lines - 1) * b->rows >= p->out[1]) b->lines--;
}

/* Windows of a row of taps. */
static double windows_of(const falt_tiled_problem *p, const falt_tiled *b) {
  return 1 + (b->chunk ? (double)(p->taps[2] - b->rest) / b->chunk : 0);
}

static int64_t shared_of(const falt_tiled_problem *p, falt_tiled *b) {
  const int64_t far = (int64_t)p->pixel * p->dilation[2];
  const int64_t columns = below(p, (int64_t)b->lanes * b->groups * b->group - 1) + (b->band[1] - 1) * far + 1;
  const int64_t lines =
      ((int64_t)b->lines * b->rows - 1) * p->stride[1] + (b->band[0] - 1) * (int64_t)p->dilation[1] + 1;
  const int64_t pitch = falt_ceil_div(b->shift + columns, quad_of(p)) * quad_of(p);
  const int64_t taps = (int64_t)b->depth * b->band[0] * rounded(p, b->band[1]);
  const int64_t sums = p->epilogue > 1 ? (int64_t)sums_of(b) * b->lanes * b->lines : 0;
  const int64_t elements = (pitch * lines + taps) * b->buffers;
  const int64_t bytes = (elements > sums ? elements : sums) * p->sum_bytes;
  if (bytes > INT32_MAX) return INT64_MAX;
  b->pitch = (int)pitch;
  b->tile_elements = (int)(pitch * lines);
  b->buffer_elements = (int)(pitch * lines + taps);
  b->shared_bytes = (int)bytes;
  return bytes;
}

/* In one chain of additions the sum of many taps drifts: those of a window are summed separately, and after FLUSH
 * windows a thread's sums are added to totals in its memory. In 2.5D blocking the sums move on and have no totals. */
static void split_sums(const falt_tiled_problem *p, falt_tiled *b) {
  enum { CHAIN = 128, FLUSH = 32 };
  const double windows = (double)p->taps[0] * p->taps[1] * windows_of(p, b);
  b->apart = p->sum_bytes == 4 && (double)p->taps[0] * p->taps[1] * p->taps[2] > CHAIN;
  b->flush = b->apart && !b->walk && windows > 2 * FLUSH ? FLUSH : 0;
}

/* The most tap rows, then tap columns, that fit into shared memory. */
static void choose_bands(const falt_tiled_problem *p, const falt_machine *m, falt_tiled *b) {
  const int64_t least = p->epilogue > 1 ? (int64_t)sums_of(b) * b->lanes * b->lines * p->sum_bytes : 0;
  const int64_t most = larger(m->arch->block_shared / 2, (int)least);
  b->band[0] = p->taps[1];
  b->band[1] = p->taps[2];
  while (b->band[0] > 1 && shared_of(p, b) > most) b->band[0] = (b->band[0] + 1) / 2;
  while (b->chunk && b->band[1] > b->chunk && shared_of(p, b) > most)
    b->band[1] = larger(1, b->band[1] / 2 / b->chunk) * b->chunk;
  shared_of(p, b);
}

/* Sums, windows, a row of taps, addresses. */
static int fitted_registers(const falt_tiled_problem *p, const falt_tiled *b) {
  const int words = p->sum_bytes / 4, taps = larger(b->chunk, b->rest);
  const int window = b->groups * (window_of(p, b, taps) + (b->dense ? 0 : b->shift));
  const bool parts = b->groups > 2 && words * window <= 48; /* loaded as they are used */
  const int held = parts ? window - window / 4 : window;
  const int apart = b->apart ? b->groups * b->group : 0;
  return words * (sums_of(b) + held + apart + rounded(p, taps)) + (parts ? 16 : 24);
}

static const char *reason(const falt_tiled_problem *p, const falt_machine *m, const falt_tiled *b) {
  if (b->lanes > 256 || b->lanes * b->lines > 512) return "interleaved channels and dilation put columns too far apart";
  if (b->shared_bytes == 0 || b->shared_bytes > m->arch->block_shared) return "its tile does not fit in shared memory";
  if (b->registers > MOST_REGISTERS) return "its sums and windows need more registers than a thread has";
  if (b->rows > 1 && b->rows >= 2 * p->out[1]) return "the image has fewer rows";
  if (b->depth > 1 && !b->walk && b->depth >= 2 * p->out[0]) return "the image has fewer planes";
  if (b->walk > 32 && b->walk >= 2 * p->out[0]) return "the walk is longer than the image";
  if (b->walk && b->apart && p->taps[0] * p->taps[1] * windows_of(p, b) > MOST_WALK)
    return "2.5D blocking would add its many taps in one chain";
  if (b->walk && (b->band[0] < p->taps[1] || b->band[1] < p->taps[2])) return "2.5D blocking needs all taps of a plane";
  return NULL;
}

/* ---- estimate */

static int64_t blocks_along(const falt_tiled_problem *p, const falt_tiled *b, int axis) {
  const int64_t size[] = {planes_of(b), (int64_t)b->lines * b->rows, (int64_t)b->lanes * b->groups * b->group};
  return falt_ceil_div(p->out[axis], size[axis]);
}

/* The fraction of blocks that test the position of each element: at the image's ends, or all if vectors do not fit. */
static double edged_share(const falt_tiled_problem *p, const falt_tiled *b) {
  const double rows = (double)blocks_along(p, b, 1), columns = (double)blocks_along(p, b, 2);
  const double ends = p->taps[1] > 1 ? 2 : 0;
  return p->unaligned ? 1 : 1 - fmax(0, rows - ends) / rows * fmax(0, columns - 2) / columns;
}

/* Planes and lines that a thread walks through, tap columns' windows, and how often a tap row meets an output's row. */
typedef struct walk {
  double planes, lines, windows, hits, steps;
} walk;

static walk walk_of(const falt_tiled_problem *p, const falt_tiled *b) {
  const double bands = (double)falt_ceil_div(p->taps[1], b->band[0]);
  const double reach = (planes_of(b) - 1.0) * p->stride[0] + (double)(p->taps[0] - 1) * p->dilation[0] + 1;
  const double read = (double)planes_of(b) * p->taps[0];
  walk w = {.planes = reach < read ? reach : read};
  w.lines = bands * ((b->rows - 1.0) * p->stride[1] + 1) + (p->taps[1] - bands) * p->dilation[1];
  w.windows = windows_of(p, b);
  w.hits = (b->walk ? w.planes : (double)b->depth) * b->rows * p->taps[0] * p->taps[1];
  w.steps = w.planes * bands * (double)falt_ceil_div(p->taps[2], b->band[1]);
  return w;
}

/* The number of shared memory reads that bank conflicts turn one read into. */
static int conflicts_of(const falt_tiled *b) {
  return b->dense ? (int)falt_gcd(b->group * b->next_result / 4, 8) : b->group == 1 ? 1 : larger(1, b->next_result);
}

/* Warp instructions that a step's barriers and loads cost: a walk's next plane arrives during this one's sums. */
static double wait_of(const falt_tiled *b, double steps) {
  return b->walk ? 300 : steps > 1 ? 900 : 100;
}

/* Warp instructions of a thread, without multiply-adds; in *reads, clocks that shared memory needs for a warp's loads:
 * a word of every lane a clock, for any number of addresses. */
static double overhead_of(const falt_tiled_problem *p, const falt_tiled *b, double *reads) {
  const walk w = walk_of(p, b);
  const int threads = b->lanes * b->lines, quad = quad_of(p);
  const int words = p->sum_bytes / 4;
  const double loads = b->groups * (double)window_of(p, b, larger(b->chunk, b->rest)) / (b->dense ? quad : 1);
  const double vector = edged_share(p, b) * edge_vector + (p->x_bytes < p->sum_bytes ? 18 : 10);
  const double stage = (double)b->tile_elements / quad / threads * vector;
  const double finish = results_of(b) * (p->epilogue > 1 ? 100 : 2) + (b->walk ? w.planes * sums_of(b) : 0);
  const double tests = b->walk && b->rows == 1 ? 0 : 2.0 * b->depth * b->rows;
  const double windows = w.planes * w.lines * w.windows, taps = w.hits * (w.windows + (double)p->taps[2] / quad);
  *reads = windows * loads * (b->dense ? 4 : words) * conflicts_of(b) + w.hits * p->taps[2] * words;
  return windows * (loads + (b->chunk ? 30 : 10) + tests) + taps + w.hits * w.windows * 2 +
         w.steps * (stage + wait_of(b, w.steps)) + finish;
}

static double memory_of(const falt_tiled_problem *p, const falt_machine *m, const falt_tiled *b) {
  const double results = (double)p->out[0] * (double)p->out[1] * (double)p->out[2] * (double)p->batch;
  const double once = (double)p->stride[0] * p->stride[1] * p->stride[2];
  const double staged = walk_of(p, b).steps * b->tile_elements /
                        (results_of(b) * b->lanes * b->lines); /* elements staged for an output */
  const double halo = staged > once ? staged - once : 0;
  const double run = b->group > 1 && !b->dense ? (double)b->spread * p->y_bytes / SECTOR : 1; /* of a store */
  const double stored = p->y_bytes / (run < 1 ? run : 1);
  return results * (stored + p->x_bytes * (once + halo_share * halo)) / m->bytes_per_s;
}

static void estimate(const falt_tiled_problem *p, const falt_machine *m, falt_tiled *b) {
  const double blocks =
      (double)blocks_along(p, b, 0) * (double)blocks_along(p, b, 1) * (double)blocks_along(p, b, 2) * (double)p->batch;
  const double warps = blocks * (double)falt_ceil_div(b->lanes * b->lines, 32);
  const double wide = p->sum_bytes == 8 ? m->flops / m->wide_flops : 1;
  double reads;
  const double overhead = overhead_of(p, b, &reads);
  const walk w = walk_of(p, b);
  const double terms = p->taps[2] + (b->apart ? w.windows : 0);
  const double adds = w.hits * b->groups * b->group * terms * wide;
  const double issue = overhead + adds > 4 * reads ? overhead + adds : 4 * reads;
  const double compute = warps * (issue + 4 * read_share * reads) * 64 / (m->flops * issue_share);
  const double slots = (double)m->multiprocessors * b->blocks;
  const double resident = (double)b->blocks * (double)falt_ceil_div(b->lanes * b->lines, 32);
  const double hidden = resident < WARPS_NEEDED ? 0.6 + 0.4 * resident / WARPS_NEEDED : 1;
  const double memory = memory_of(p, m, b);
  const double longer = compute > memory ? compute : memory, shorter = compute > memory ? memory : compute;
  b->seconds = (longer + shorter_share * shorter) / hidden * (1 + 0.5 * slots / blocks);
}

/* ---- enumeration */

static void complete(const falt_tiled_problem *p, const falt_machine *m, falt_tiled *b) {
  split_sums(p, b);
  choose_bands(p, m, b);
  b->registers = fitted_registers(p, b);
  b->rejected = reason(p, m, b);
  if (b->rejected) return;
  const int threads = b->lanes * b->lines;
  const int64_t by_registers = falt_blocks_by_registers(threads, larger(LEAST_REGISTERS, b->registers));
  const int64_t by_shared = falt_blocks_by_shared(m, b->shared_bytes);
  b->blocks = (int)falt_max(1, falt_min(falt_min(2048 / threads, by_registers), by_shared));
  estimate(p, m, b);
}

static void each_layout(const falt_tiled_problem *p, const falt_machine *m, int results, falt_tiled b,
                        falt_tile_search *search) {
  static const int group[LAYOUTS] = {4, 0, 0, 1}, lanes[] = {8, 16, 32, 128}, chunks[] = {LONGEST_WINDOW, 8, 4};
  for (int k = 0; k < LAYOUTS; k++)
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
      for (size_t l = 0; l < sizeof lanes / sizeof *lanes; l++) {
        if (k <= DENSE && p->pixel > 1 && p->stride[2] > 1) continue; /* a window would jump between pixels */
        b.group = group[k] ? group[k] : results;
        if (k == DENSE && b.group != 8) continue; /* wider ones store far apart */
        if (k == SPREAD && p->pixel * p->dilation[2] == 1) continue;
        b.groups = results / b.group;
        b.chunk = chunks[c];
        lay_out(p, &b, (layout)k);
        place_threads(p, &b, lanes[l], 128);
        complete(p, m, &b);
        falt_tile_offer(search, &b, b.rejected, b.seconds);
      }
}

static void each_walk(const falt_tiled_problem *p, const falt_machine *m, falt_tile_search *search) {
  static const int lengths[] = {16, 32, 64, 128};
  const bool near = p->stride[0] == 1 && p->dilation[0] == 1;
  if (!near || p->epilogue > 1 || p->taps[0] == 1 || p->taps[0] * 8 * p->sum_bytes > 2 * MOST_SUM_BYTES) return;
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    const falt_tiled block = {.depth = p->taps[0], .rows = 1, .walk = lengths[i], .buffers = 2};
    each_layout(p, m, 8, block, search);
  }
}

void falt_tiled_each(const falt_tiled_problem *p, const falt_machine *m, falt_tile_search *search) {
  static const struct {
    int depth, rows, results; /* outputs of a thread along a row */
  } shapes[] = {{1, 8, 8}, {1, 4, 8},  {1, 4, 4}, {1, 2, 8}, {1, 4, 16}, {1, 1, 8},
                {1, 1, 4}, {1, 1, 16}, {4, 2, 8}, {8, 1, 8}, {4, 1, 8}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const int depth = shapes[i].depth, rows = shapes[i].rows, results = shapes[i].results;
    if (depth * rows * results * p->sum_bytes > MOST_SUM_BYTES) continue;
    if ((depth > 1 && p->taps[0] == 1) || (rows > 1 && p->out[1] == 1)) continue;
    each_layout(p, m, results, (falt_tiled){.depth = depth, .rows = rows, .buffers = 1}, search);
  }
  each_walk(p, m, search);
}

bool falt_tiled_choose(const falt_tiled_problem *problem, const falt_machine *machine, falt_tiled *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_tiled_each(problem, machine, &search);
  return search.found;
}
