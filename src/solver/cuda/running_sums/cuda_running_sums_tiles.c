/* Tile search of cuda_running_sums.cu. Estimate: the larger of issue time and memory time plus a part of the smaller
 * one, for full waves of blocks. */
#include "solver/cuda/running_sums/cuda_running_sums_tiles.h"

#include <math.h>

#include "core/memory.h"

enum {
  WORD = 16,          /* bytes of sums of a thread or lane in shared memory */
  LONGEST_CHUNK = 17, /* along a row; odd */
  MOST_REGISTERS = 208,
  MOST_BANDS = 256,
  MOST_ROUNDS = 48, /* chunks of a lane */
  WARPS_NEEDED = 24 /* of a multiprocessor, to hide latency */
};

enum { DOWN, ALONG };

/* Fractions: of the issue slots and of memory's rate that are reached; of the shorter time that is not hidden; of the
 * columns that neighbouring strips share, the part that comes from memory. */
static const double issue_share = 0.6, memory_share = 0.85, shorter_share = 0.15, halo_share = 0.3;

static int inner_taps(const falt_running_pass *p, int axis) {
  return p->taps[axis] - (p->ends[axis] ? 2 : 0);
}

/* Elements that are loaded before a strip, to be aligned. */
static int shift_of(const falt_running_pass *p, int vector) {
  const int64_t first = -(int64_t)p->pad[ALONG] * p->pixel % vector;
  return (int)((first + vector) % vector);
}

static int64_t halo_of(const falt_running_pass *p) {
  return (int64_t)(p->taps[ALONG] - 1) * p->step;
}

/* Elements of a row under so many outputs. */
static int64_t window_of(const falt_running_pass *p, int64_t outputs) {
  return ((outputs / p->pixel - 1) * p->stride[ALONG] + 1) * p->pixel;
}

/* ---- shape */

/* Outputs of a strip whose input fits into so many columns; 0: none. */
static int64_t strip_in(const falt_running_pass *p, const falt_running_tile *t, int64_t columns) {
  const int64_t fits = (columns - shift_of(p, t->vector) - halo_of(p)) / p->pixel;
  if (fits < 1) return 0;
  const int64_t pixels = (fits - 1) / p->stride[ALONG] + 1;
  if (pixels * p->pixel >= p->out[ALONG]) return p->out[ALONG];
  return pixels / t->vector * t->vector * p->pixel; /* strips begin at whole words */
}

/* Chunks of a row, with those behind its outputs, and the elements that they span. */
static void count_chunks(const falt_running_pass *p, falt_running_tile *t) {
  const int64_t chunk = t->chunk[ALONG], chain = falt_ceil_div(window_of(p, t->strip), p->step);
  const int64_t own = falt_ceil_div(chain, chunk), behind = inner_taps(p, ALONG) / chunk;
  const int64_t elements = ((own + behind + 1) * chunk + (p->ends[ALONG] ? 2 : 0)) * p->step;
  const int64_t pitch = falt_max(t->columns, shift_of(p, t->vector) + elements);
  t->totals = p->taps[ALONG] > 1 ? (int)falt_round_up((own + behind) * p->step, t->vector) : 0;
  t->pitch = p->taps[ALONG] > 1 ? (int)falt_round_up(pitch, t->vector) : t->columns;
}

static int64_t queue_of(const falt_running_pass *p, const falt_running_tile *t) {
  const int taps = inner_taps(p, DOWN);
  return taps / t->chunk[DOWN] - (taps % t->chunk[DOWN] == 0);
}

static int64_t shared_of(const falt_running_pass *p, const falt_running_tile *t) {
  if (p->taps[DOWN] == 1) return (int64_t)t->warps * (t->pitch + t->totals) * p->sum_bytes;
  const int64_t rows = t->rows ? (int64_t)t->chunk[DOWN] * t->pitch + (int64_t)t->warps * t->totals : 0;
  const int64_t queue = queue_of(p, t) > 1 ? queue_of(p, t) * t->columns : 0;
  return (rows + queue) * p->sum_bytes;
}

/* Registers of a thread, as compiled: a chunk's ends, the rows that enter and a few sums of each column; or a chunk of
 * a row. Interleaved halves take more for their places. */
static int fitted_registers(const falt_running_pass *p, const falt_running_tile *t) {
  const int places = p->pixel > 1 && p->x_bytes == 2 ? 32 : 0;
  const int down = p->taps[DOWN] > 1 ? (2 * t->chunk[DOWN] + 5) * WORD / 4 + 56 + places : 0;
  const int along = (t->chunk[ALONG] + (int)falt_ceil_div(t->totals, FALT_WARP)) * p->sum_bytes / 4 + 40;
  return larger(down, along);
}

static const char *reason(const falt_machine *m, const falt_running_tile *t) {
  if (t->strip < 1) return "a window's row does not fit into shared memory";
  if (t->shared_bytes > m->arch->block_shared) return "its sums do not fit into shared memory";
  if (falt_ceil_div(t->totals, FALT_WARP) > MOST_ROUNDS) return "its rows have too many chunks";
  if (t->registers > MOST_REGISTERS || falt_blocks_by_quarters(t->warps, t->registers) < 1)
    return "its sums need more registers than a block has";
  if (t->all_blocks > INT32_MAX || t->tasks > INT32_MAX) return "the images have more parts than one launch can number";
  return NULL;
}

/* ---- estimate */

/* Warp instructions for the rows of a task: down the columns, for each word of a row that is staged; along them. */
static double issue_of(const falt_running_pass *p, const falt_running_tile *t) {
  const double words = ceil((double)t->columns / t->vector / FALT_WARP), wide = p->sum_bytes / 4.0;
  const double narrow = p->x_bytes < 4 ? 2 : 1;
  const double word = 14 + t->vector * (narrow + wide), windows = (double)(t->band - 1) * p->stride[DOWN] + 1;
  double down = words * word, along = 0;
  if (p->taps[DOWN] > 1) down = words * (2 * word + 5 * t->vector * wide) * (windows + p->taps[DOWN]) / windows;
  if (p->taps[ALONG] > 1)
    along = ceil((double)t->totals / FALT_WARP) * 8.5 * t->chunk[ALONG] * wide + 60 * log2(2 + p->taps[ALONG]);
  const double out = ceil((double)t->strip / t->vector / FALT_WARP) * (12 + 4 * t->vector);
  return windows * down + t->band * (along + out);
}

/* Bytes of a task from memory: each row as it enters, and again as it leaves if the cache has lost it. */
static double bytes_of(const falt_running_pass *p, const falt_machine *m, const falt_running_tile *t) {
  const double own = (double)window_of(p, t->strip), halo = fmax(0, t->columns - own) * halo_share;
  const double windows = (double)(t->band - 1) * p->stride[DOWN] + 1, resident = (double)m->multiprocessors * t->blocks;
  const double alive = resident * p->taps[DOWN] * t->columns * p->x_bytes;
  const double lost = p->taps[DOWN] > 1 ? fmin(1, alive / m->cache_bytes) : 0;
  const double rows = windows * (1 + lost) + p->taps[DOWN] - 1;
  return rows * (own + halo) * p->x_bytes + (double)t->band * t->strip * p->y_bytes;
}

static double seconds_of(const falt_running_pass *p, const falt_machine *m, const falt_running_tile *t) {
  const double resident = (double)m->multiprocessors * t->blocks, tasks = (double)t->tasks;
  const double waves = (double)t->all_blocks / resident, full = waves < 4 ? ceil(waves) / waves : 1 + 0.5 / waves;
  const double warps = t->blocks * t->warps, hidden = fmin(1, warps / WARPS_NEEDED);
  const double issue = tasks * issue_of(p, t) / (4 * issue_share * m->multiprocessors * m->clock_hz);
  const double memory = tasks * bytes_of(p, m, t) / (memory_share * m->bytes_per_s);
  return (fmax(issue, memory) + shorter_share * fmin(issue, memory)) * full / hidden;
}

/* ---- enumeration */

static void complete(const falt_running_pass *p, const falt_machine *m, falt_running_tile *t) {
  const bool down = p->taps[DOWN] > 1;
  t->strip = (int)strip_in(p, t, t->columns);
  if (t->strip > 0) {
    count_chunks(p, t);
    t->strips = falt_ceil_div(p->out[ALONG], t->strip);
    t->bands = falt_ceil_div(p->out[DOWN], t->band);
    t->tasks = t->strips * t->bands * p->planes;
    t->all_blocks = down ? t->tasks : falt_ceil_div(t->tasks, t->warps);
    t->shared_bytes = shared_of(p, t);
    t->registers = (fitted_registers(p, t) + 7) / 8 * 8;
  }
  t->rejected = reason(m, t);
  if (t->rejected) return;
  const int64_t threads = (int64_t)t->warps * FALT_WARP;
  t->blocks = (int)falt_min(falt_min(2048 / threads, falt_blocks_by_quarters(t->warps, t->registers)),
                            falt_min(32, falt_blocks_by_shared(m, falt_max(1, t->shared_bytes))));
  t->seconds = seconds_of(p, m, t);
}

static int chunk_along(const falt_running_pass *p) {
  const int taps = inner_taps(p, ALONG);
  return taps >= LONGEST_CHUNK ? LONGEST_CHUNK : taps - 1 + taps % 2 > 0 ? taps - 1 + taps % 2 : 1;
}

static void offer(const falt_running_pass *p, const falt_machine *m, falt_running_tile tile, falt_tile_search *search) {
  complete(p, m, &tile);
  falt_tile_offer(search, &tile, tile.rejected, tile.seconds);
}

/* A warp a row: strips of several lengths. */
static void each_row(const falt_running_pass *p, const falt_machine *m, falt_running_tile tile,
                     falt_tile_search *search) {
  const int64_t whole = falt_round_up(shift_of(p, tile.vector) + window_of(p, p->out[ALONG]) + halo_of(p), tile.vector);
  for (int64_t outputs = 256; outputs <= 1 << 16; outputs *= 2) {
    const int64_t columns = falt_round_up(shift_of(p, tile.vector) + outputs + halo_of(p), tile.vector);
    tile.columns = (int)falt_min(columns, whole);
    for (tile.warps = 1; tile.warps <= 8; tile.warps *= 2) offer(p, m, tile, search);
    if (columns >= whole) break;
  }
}

/* Threads own columns and loop over the rows of a band. */
static void each_band(const falt_running_pass *p, const falt_machine *m, falt_running_tile tile,
                      falt_tile_search *search) {
  static const int warps[] = {1, 2, 3, 4, 6, 8, 12, 16};
  const int taps = inner_taps(p, DOWN), chunks[] = {smaller(taps, 8), smaller(taps, 12), smaller(taps, 16)};
  for (size_t c = 0; c < (taps > 12 ? 3 : taps > 8 ? 2 : 1); c++)
    for (size_t w = 0; w < sizeof warps / sizeof *warps; w++) {
      tile.chunk[DOWN] = chunks[c];
      tile.warps = warps[w];
      tile.columns = warps[w] * FALT_WARP * tile.vector;
      for (int64_t rows = p->out[DOWN] + 1; (rows = falt_piece_below(p->out[DOWN], MOST_BANDS, rows)) > 0;) {
        tile.band = (int)rows;
        offer(p, m, tile, search);
      }
    }
}

void falt_running_each(const falt_running_pass *p, const falt_machine *m, falt_tile_search *search) {
  falt_running_tile tile = {.vector = WORD / p->sum_bytes, .chunk = {1, chunk_along(p)}, .band = 1};
  const bool shifts = shift_of(p, tile.vector) != 0;
  tile.rows = p->taps[DOWN] == 1 || p->taps[ALONG] > 1 || p->stride[ALONG] > 1 || shifts;
  if (p->taps[DOWN] == 1)
    each_row(p, m, tile, search);
  else
    each_band(p, m, tile, search);
}

bool falt_running_choose(const falt_running_pass *pass, const falt_machine *machine, falt_running_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_running_each(pass, machine, &search);
  return search.found;
}

void falt_running_defines(falt_cuda_kernel *kernel, const falt_running_pass *p, const falt_running_tile *t) {
  const falt_cuda_named_define defines[] = {{"TAPS_R", p->taps[DOWN]},
                                            {"TAPS_S", p->taps[ALONG]},
                                            {"ENDS_R", p->ends[DOWN]},
                                            {"ENDS_S", p->ends[ALONG]},
                                            {"STRIDE_R", p->stride[DOWN]},
                                            {"STRIDE_S", p->stride[ALONG]},
                                            {"PAD_R", p->pad[DOWN]},
                                            {"PAD_S", p->pad[ALONG]},
                                            {"PIXEL", p->pixel},
                                            {"STEP", p->step},
                                            {"VECTOR", t->vector},
                                            {"CHUNK_R", t->chunk[DOWN]},
                                            {"CHUNK_S", t->chunk[ALONG]},
                                            {"COLUMNS", t->columns},
                                            {"PITCH", t->pitch},
                                            {"TOTALS", t->totals},
                                            {"WARPS", t->warps},
                                            {"BLOCKS", t->blocks},
                                            {"ROWS", t->rows}};
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
  kernel->shared_bytes = (int)t->shared_bytes;
}
