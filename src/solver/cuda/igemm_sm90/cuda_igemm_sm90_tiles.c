/* Tile search of cuda_igemm_sm90.cu: enumerates all shapes, rejects the illegal ones with a reason, and keeps the one
 * with the smallest estimated time. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_tiles.h"

enum {
  LINE = 128,
  BLOCK = 64 * LINE,
  MOST_STAGES = 8,
  FEWEST_STAGES = 3,
  ENOUGH_STAGES = 4,
  FEW_STEPS = 16,
  MOST_CLUSTER_K = 8
};

int falt_igemm_sm90_rows(const falt_igemm_sm90_tile *t) {
  return t->swapped || t->pingpong ? t->wg_rows : t->consumers * t->wg_rows;
}

/* ---- the work */

static int64_t pixels_of(const falt_igemm_sm90_problem *p, const falt_cuda_igemm_sm90_axis axis[3]) {
  const int64_t image = (int64_t)axis[0].pixels * axis[1].pixels * axis[2].pixels;
  return (p->grouped ? 1 : p->batch) * (p->boxes ? falt_round_up(image, FALT_IGEMM_SM90_SPAN) : image);
}

static double elements(const falt_igemm_sm90_problem *p, bool out) {
  double count = (double)p->batch * (double)(out ? p->results : p->channels);
  for (int i = 0; i < 3; i++) count *= (double)(out ? p->axis[i].out : p->axis[i].in);
  return count;
}

/* Of x, where strides step over pixels that no tap reads. */
static double share_read(const falt_igemm_sm90_problem *p) {
  double slice = 1;
  for (int i = 0; i < 3; i++) slice *= fmin(1, (double)p->axis[i].taps / (double)p->axis[i].stride);
  return slice;
}

/* Elements of a step that are not zero in every step, by 16. */
static int summed_of(const falt_igemm_sm90_problem *p) {
  const int64_t summed = p->operation == FALT_IGEMM_SM90_DATA ? p->results : p->channels;
  return p->operation == FALT_IGEMM_SM90_FILTER || summed > FALT_IGEMM_SM90_SPAN ? FALT_IGEMM_SM90_SPAN
                                                                                 : (int)falt_round_up(summed, 16);
}

/* Whether polyphase parts without taps are stored as tiles, so an image's outputs are written at about the same time:
 * if the cache does not merge the gaps, and products are short. Measured on an H200. */
static bool together(double elements, int64_t steps) {
  return elements > 32e6 && steps <= 8;
}

falt_igemm_sm90_work falt_igemm_sm90_work_of(const falt_igemm_sm90_problem *p,
                                             const falt_igemm_sm90_polyphase *polyphases, int count) {
  const int64_t taps = p->axis[0].taps * p->axis[1].taps * p->axis[2].taps;
  const bool by_filter = p->operation == FALT_IGEMM_SM90_FILTER, data = p->operation == FALT_IGEMM_SM90_DATA;
  falt_igemm_sm90_work w = {.polyphases = count,
                            .groups = p->grouped ? p->batch : 1,
                            .summed = summed_of(p),
                            .columns = data ? p->channels : p->results};
  const double x = elements(p, false) * (data ? 1 : share_read(p)), y = elements(p, true),
               filter = (double)w.groups * (double)(p->channels * p->results * taps);
  w.bytes = x * (data ? p->y_bytes * (p->residual ? 2 : 1) : 2) +
            y * (data || by_filter ? 2 : p->y_bytes * (p->residual ? 2 : 1)) + filter * (by_filter ? p->y_bytes : 2);
  if (by_filter) {
    w.rows[0] = p->results;
    w.steps[0] = falt_ceil_div(pixels_of(p, polyphases->axis), FALT_IGEMM_SM90_SPAN);
    w.columns = taps * falt_ceil_div(p->channels, FALT_IGEMM_SM90_SPAN) * FALT_IGEMM_SM90_SPAN;
    return w;
  }
  for (int i = 0; i < count; i++) {
    const falt_cuda_igemm_sm90_axis *a = polyphases[i].axis;
    w.rows[i] = pixels_of(p, a);
    w.steps[i] = (int64_t)a[0].taps * a[1].taps * a[2].taps *
                 falt_ceil_div(data ? p->results : p->channels, FALT_IGEMM_SM90_SPAN);
  }
  while (p->words && !together(x, w.steps[0]) && w.zeros < count - 1 && w.steps[count - 1 - w.zeros] == 0) w.zeros++;
  w.polyphases = count - w.zeros;
  for (int i = 0; i < w.polyphases; i++) w.written += (double)(w.groups * w.rows[i]) * (double)w.columns * p->y_bytes;
  return w;
}

/* ---- one tile */

/* Whether sums go to the workspace, and whether a tile's sums are finished by the slice. */
static bool keeps(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_tile *t) {
  return p->operation == FALT_IGEMM_SM90_FILTER && t->split_k > 1;
}

static bool sliced(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_tile *t) {
  return t->cluster_k > 1 || (p->operation == FALT_IGEMM_SM90_FILTER && !keeps(p, t));
}

/* Bytes of all blocks' sums of a slice, and of the sums sent to other slices. */
static int slice_bytes(const falt_igemm_sm90_tile *t) {
  const int parts = falt_igemm_sm90_rows(t) * t->columns * (int)sizeof(float);
  return parts + parts / t->cluster_k * (t->cluster_k - 1);
}

static int stage_bytes(const falt_igemm_sm90_tile *t) {
  return (falt_igemm_sm90_rows(t) + (t->resident ? 0 : t->columns)) * LINE;
}

/* Whether each warp's outputs are contiguous in memory, and in its part of the buffers. */
static bool sends_whole(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w,
                        const falt_igemm_sm90_tile *t) {
  return p->whole && w->polyphases + w->zeros == 1 && w->columns <= t->columns && !t->swapped && !t->rows &&
         !sliced(p, t) && t->wg_rows * w->columns * p->y_bytes <= t->buffers * BLOCK;
}

/* Shared memory besides the ring: the filter that stays, outputs or sums in flight, barriers. */
static int shared_beside(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_tile *t) {
  const int barriers = 2 * MOST_STAGES + 2 + t->buffers * t->consumers;
  const int results = keeps(p, t) || t->over ? 0 : sliced(p, t) ? slice_bytes(t) : t->consumers * t->buffers * BLOCK;
  return t->resident * t->columns * LINE + results + 8 * barriers;
}

static int shared_of(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_tile *t) {
  const int ring = t->stages * stage_bytes(t);
  return shared_beside(p, t) + (t->over ? larger(ring, slice_bytes(t)) : ring);
}

/* As many stages as fit, up to the steps of a slice. The sums of slices are beside them if they fit: over the ring they
 * wait for all products of the cluster. */
static void fill(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w, const falt_machine *m,
                 falt_igemm_sm90_tile *t) {
  const int64_t steps = falt_ceil_div(w->steps[0], t->cluster_k);
  const int most = sliced(p, t) ? larger(FEWEST_STAGES, (int)falt_min(steps, MOST_STAGES)) : MOST_STAGES;
  const int beside = shared_beside(p, t);
  const int stages = beside < m->arch->block_shared ? (m->arch->block_shared - beside) / stage_bytes(t) : 0;
  t->stages = smaller(stages, most);
  const int enough = t->cluster_k == 1 ? FEWEST_STAGES : smaller(most, steps > FEW_STEPS ? MOST_STAGES : ENOUGH_STAGES);
  if (sliced(p, t) && !t->over && t->stages < enough) {
    t->over = true;
    fill(p, w, m, t);
  }
  t->shared_bytes = shared_of(p, t);
}

static const char *fit(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w, const falt_machine *m,
                       falt_igemm_sm90_tile *t) {
  const bool by_filter = p->operation == FALT_IGEMM_SM90_FILTER, slices = sliced(p, t);
  for (t->buffers = by_filter ? 2 : 4; t->buffers >= 2; t->buffers -= 2) {
    fill(p, w, m, t);
    if (t->stages >= ENOUGH_STAGES) break;
  }
  if (t->buffers < 2) t->buffers = 2;
  t->whole = sends_whole(p, w, t);
  if (t->shared_bytes > m->arch->block_shared) return "shared memory has no room for the sums";
  if (t->stages < FEWEST_STAGES) return "shared memory has no room for three stages";
  if ((p->transposed || by_filter) && t->columns % (64 * t->cluster)) return "the cluster cannot share its columns";
  if ((by_filter || slices) && (t->swapped || t->pingpong)) return "where sums are cut all warpgroups share a tile";
  if (t->rows && (by_filter || slices || t->swapped || p->residual || !p->words || t->columns < 256 || t->buffers < 4))
    return "warps store 256 channels of pixels as they are";
  if (t->rows && w->steps[0] > 1) return "warps that multiply for longer have no time to store";
  if (slices && (t->cluster > 1 || t->resident)) return "blocks that share a tile load different parts of it";
  if (slices && !by_filter && w->columns % 4) return "sums of slices are stored by fours of channels";
  if (t->swapped && p->y_bytes != 2) return "lines of 64 channels need f16 or bf16 output";
  if (t->pingpong && t->columns == 192 && !t->resident) return "three times as much is read of the filter as of pixels";
  if (p->grouped && (slices || t->rows)) return "outputs of groups are stored by TMA";
  if (t->resident && (w->polyphases > 1 || by_filter || p->grouped)) return "the filter is not the same for all tiles";
  return NULL;
}

/* Row tiles of a polyphase part, one for each cluster's blocks. No tile has rows of two groups. */
static int64_t row_tiles(const falt_igemm_sm90_work *w, const falt_igemm_sm90_tile *t, int polyphase) {
  return w->groups * falt_ceil_div(w->rows[polyphase], (int64_t)falt_igemm_sm90_rows(t) * t->cluster);
}

/* Whole rounds of all clusters at one place, whose source fits into a quarter of the cache: until all polyphase parts
 * have read it, it shares the cache with outputs. */
static void place(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w, const falt_machine *m,
                  falt_igemm_sm90_tile *t) {
  const int64_t rows = (int64_t)falt_igemm_sm90_rows(t) * t->cluster, columns = falt_ceil_div(w->columns, t->columns);
  const double round = (double)(t->clusters * rows * p->results) * 2 / (double)columns; /* bytes */
  int64_t least = INT32_MAX;
  for (int i = 0; i < w->polyphases; i++) least = falt_min(least, row_tiles(w, t, i) * columns);
  t->place = falt_min(least, t->clusters * falt_max(1, (int64_t)(m->cache_bytes / 4 / round)));
  t->places = least / t->place;
}

/* Tiles of all clusters, and of the busiest one. */
static void count(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w, const falt_machine *m,
                  falt_igemm_sm90_tile *t) {
  const int64_t columns = falt_ceil_div(w->columns, t->columns), most = m->multiprocessors / t->cluster;
  t->work = 0;
  for (int i = 0; i < w->polyphases; i++) t->work += row_tiles(w, t, i) * columns;
  t->work *= t->split_k;
  t->clusters = t->work < most || sliced(p, t) ? t->work : most;
  /* A block with a resident filter always computes the same columns. */
  if (t->resident) t->clusters = t->clusters < columns ? columns : t->clusters / columns * columns;
  place(p, w, m, t);
  t->workspace = 0;
  if (keeps(p, t)) t->workspace = (size_t)t->split_k * (size_t)w->rows[0] * (size_t)w->columns * sizeof(float);
}

/* Whether pixels are longer than a line and half of them start within a 32-byte sector: TMA then takes longer for a
 * line and delays the filter's rows, too. */
static bool is_uneven(const falt_igemm_sm90_problem *p) {
  const int64_t bytes = 2 * (p->operation == FALT_IGEMM_SM90_DATA ? p->results : p->channels);
  return p->operation != FALT_IGEMM_SM90_FILTER && bytes % 32 != 0 && bytes > LINE;
}

static double gathering_cycles(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_tile *t) {
  const int rows = falt_igemm_sm90_rows(t), beside = t->resident ? 0 : t->columns / t->cluster;
  if (p->operation == FALT_IGEMM_SM90_FILTER)
    return keeps(p, t) ? 0 : (t->consumers == 1 && t->cluster_k == 1 ? 3.2 : 2.4) * (rows + t->columns);
  return is_uneven(p) ? 5.3 * (rows + beside) : 4.2 * rows;
}

/* Cycles of a multiprocessor for a tile's step: of the tensor cores, which power keeps at two thirds of their rate; of
 * shared memory, that they read and TMA fills; of TMA, pixel by pixel. As measured on an H200.
 */
static double step_cycles(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_tile *t) {
  const int width = t->swapped ? t->wg_rows : t->columns, blocks = falt_igemm_sm90_rows(t) * t->columns / (64 * width);
  const double products = blocks * 4 * width / 2 / 0.7;
  const double shared = blocks * 4 * (16 + width / 4) + (double)stage_bytes(t) / LINE;
  return fmax(fmax(products, shared / 0.75), gathering_cycles(p, t));
}

static double sending_cycles(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_tile *t) {
  return 600 + falt_igemm_sm90_rows(t) * (double)t->columns * p->y_bytes / (t->consumers * 12.0);
}

/* Between a tile's last product and the next tile's first: waiting, and sending outputs unless the other warpgroup then
 * multiplies; warps that store them themselves do so at its cost. To other blocks of a cluster go 14 bytes a cycle.
 */
static double tile_cycles(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_tile *t) {
  const double results = falt_igemm_sm90_rows(t) * (double)t->columns, sums = results * sizeof(float);
  if (keeps(p, t)) return 600 + sums / 32;
  if (sliced(p, t)) return 600 + sums / 32 + sums * (t->cluster_k - 1) / t->cluster_k / 14;
  return (t->pingpong ? 0.2 : 1) * sending_cycles(p, t) + (t->rows ? results * p->y_bytes / 25 : 0);
}

static double tiles_of(const falt_igemm_sm90_work *w, const falt_igemm_sm90_tile *t, int polyphase) {
  return (double)row_tiles(w, t, polyphase) * (double)falt_ceil_div(w->columns, t->columns) * t->split_k;
}

/* Concurrent blocks. Those of a cluster are in one GPC of 16 or 18 multiprocessors, some of fewer: of an H200's 132
 * multiprocessors 120 run clusters of four or eight concurrently. */
static int room_for(const falt_machine *m, int cluster_k) {
  return cluster_k > 2 ? m->multiprocessors / 8 * 7 : m->multiprocessors / cluster_k * cluster_k;
}

/* Tiles, or parts of them, that the busiest multiprocessor computes in sequence. */
static double rounds(const falt_igemm_sm90_problem *p, const falt_machine *m, const falt_igemm_sm90_tile *t) {
  return sliced(p, t) ? ceil((double)t->work * t->cluster_k / room_for(m, t->cluster_k))
                      : ceil((double)t->work / (double)t->clusters);
}

/* Where each block takes one tile of few steps, and with fewer stages two blocks fit on a multiprocessor, as they do by
 * registers if one warpgroup multiplies: the next kernel's begin beside the last one's. */
static void trim(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w, const falt_machine *m,
                 falt_igemm_sm90_tile *t) {
  const int64_t steps = falt_ceil_div(w->steps[0], (int64_t)t->split_k * t->cluster_k);
  falt_igemm_sm90_tile less = *t;
  less.buffers = 2;
  less.whole = sends_whole(p, w, &less);
  const int needed = smaller(t->stages, larger(FEWEST_STAGES, (int)falt_min(steps, MOST_STAGES)));
  const int fit = ((m->arch->block_shared + FALT_BLOCK_RESERVED) / 2 - FALT_BLOCK_RESERVED - shared_beside(p, &less)) /
                  stage_bytes(t);
  if (rounds(p, m, t) > 1 || t->consumers > 1 || t->rows || steps > FEW_STEPS || fit < smaller(needed, ENOUGH_STAGES))
    return;
  less.stages = smaller(needed, fit);
  less.shared_bytes = shared_of(p, &less);
  if (less.shared_bytes > (m->arch->block_shared + FALT_BLOCK_RESERVED) / 2 - FALT_BLOCK_RESERVED) return;
  *t = less;
}

/* Bytes that TMA loads, mostly from the second-level cache. */
static double fetched(const falt_igemm_sm90_work *w, const falt_igemm_sm90_tile *t) {
  const double shared = t->resident || t->cluster == 1 ? 0 : t->columns * LINE / 4.0; /* loaded by multicast */
  const double stage = stage_bytes(t) - shared;
  double steps = 0;
  for (int i = 0; i < w->polyphases; i++) steps += tiles_of(w, t, i) * t->cluster * (double)w->steps[i] / t->split_k;
  return steps * stage;
}

/* Where a block has one tile, the other warpgroup has nothing to multiply while outputs are sent. */
static double alone_cycles(const falt_igemm_sm90_problem *p, const falt_machine *m, const falt_igemm_sm90_tile *t) {
  return t->pingpong && rounds(p, m, t) <= 1 ? 0.8 * sending_cycles(p, t) : 0;
}

static void estimate(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w, const falt_machine *m,
                     falt_igemm_sm90_tile *t) {
  const double cached = 0.3; /* cost of a byte from the cache relative to memory */
  double cycles = 0;
  for (int i = 0; i < w->polyphases; i++)
    cycles += tiles_of(w, t, i) *
              (ceil((double)w->steps[i] / (t->split_k * t->cluster_k)) * step_cycles(p, t) + tile_cycles(p, t));
  const double pace = 1 + 0.02 * (t->cluster - 1); /* of blocks that wait for each other */
  const double compute =
      (cycles / (double)t->work * rounds(p, m, t) * pace + alone_cycles(p, m, t) + 2500) / m->clock_hz;
  const double again = fmax(0, fetched(w, t) - w->bytes);
  /* The lines of a pixel are stored at different times; the cache merges them only while it holds them. */
  const bool apart = p->words && !t->rows && !t->whole && w->columns * p->y_bytes > LINE && w->written > m->cache_bytes;
  const double memory =
      (w->bytes + (apart ? 0.12 * w->written : 0) + (double)t->workspace + cached * again) / (0.9 * m->bytes_per_s);
  t->seconds = fmax(compute, memory) + 0.1 * fmin(compute, memory) + 0.8e-6;
  if (t->workspace)
    t->seconds += 2.6e-6 + 2 * (double)t->workspace / m->bytes_per_s; /* adding the split-K slices' sums */
}

static void visit_tile(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w, const falt_machine *m,
                       falt_igemm_sm90_tile t, falt_tile_search *search) {
  t.rejected = fit(p, w, m, &t);
  if (!t.rejected) {
    count(p, w, m, &t);
    trim(p, w, m, &t);
    if (p->workspace >= 0 && t.workspace > (size_t)p->workspace) t.rejected = "it needs more workspace than is allowed";
    if (t.workspace && (double)w->rows[0] * (double)w->columns > INT32_MAX)
      t.rejected = "it has more sums than one launch can number";
    if (t.work > INT32_MAX) t.rejected = "it has more tiles than one launch can number";
  }
  if (!t.rejected) estimate(p, w, m, &t);
  falt_tile_offer(search, &t, t.rejected, t.seconds);
}

/* Cluster split-K for few tiles, so more multiprocessors have work; in fprop and dgrad not for the largest problems,
 * and by eight blocks only for the smallest, as measured on an H200. */
static void visit_clusters(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w, const falt_machine *m,
                           falt_igemm_sm90_tile t, falt_tile_search *search) {
  const bool shared = p->operation == FALT_IGEMM_SM90_FILTER || (t.wg_rows == 64 && t.columns <= 128);
  const int most = t.consumers == 1 && t.columns == 64 ? MOST_CLUSTER_K : MOST_CLUSTER_K / 2;
  double tiles = 0;
  for (int i = 0; i < w->polyphases; i++) tiles += tiles_of(w, &t, i);
  visit_tile(p, w, m, t, search);
  while (shared && (t.cluster_k *= 2) <= most && t.cluster_k <= w->steps[0] &&
         tiles * t.cluster_k <= room_for(m, t.cluster_k))
    visit_tile(p, w, m, t, search);
}

/* wgrad: split-K slices such that all multiprocessors have work, once to six times. */
static void visit_splits(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w, const falt_machine *m,
                         falt_igemm_sm90_tile t, falt_tile_search *search) {
  const int64_t tiles = falt_ceil_div(w->rows[0], falt_igemm_sm90_rows(&t)) * falt_ceil_div(w->columns, t.columns);
  int64_t before = 1;
  visit_clusters(p, w, m, t, search);
  for (int waves = 1; waves <= 6; waves++) {
    int64_t split_k = (int64_t)m->multiprocessors * waves / tiles;
    if (split_k > w->steps[0]) split_k = w->steps[0];
    if (split_k <= before) continue;
    t.split_k = (int)split_k;
    before = split_k;
    visit_tile(p, w, m, t, search);
  }
}

typedef struct shape {
  int consumers, wg_rows, columns;
  bool swapped, pingpong;
} shape;

static const shape shapes[] = {
    {2, 64, 256, false, false}, {2, 128, 128, false, false}, {2, 64, 192, false, false}, {3, 64, 128, false, false},
    {2, 64, 128, false, false}, {2, 128, 64, false, false},  {2, 64, 64, false, false},  {1, 64, 256, false, false},
    {1, 64, 192, false, false}, {1, 64, 128, false, false},  {1, 64, 64, false, false},  {2, 64, 256, false, true},
    {2, 128, 128, false, true}, {2, 256, 64, true, true},    {2, 128, 64, true, true},   {2, 256, 128, true, false},
    {2, 64, 192, false, true},
};

void falt_igemm_sm90_each(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_work *w, const falt_machine *m,
                          falt_tile_search *search) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int cluster = 1; cluster <= 2; cluster++)
      for (int kind = 0; kind < 4; kind++) {
        const bool stays = kind & 1;
        const falt_igemm_sm90_tile t = {.consumers = shapes[i].consumers,
                                        .wg_rows = shapes[i].wg_rows,
                                        .columns = shapes[i].columns,
                                        .swapped = shapes[i].swapped,
                                        .pingpong = shapes[i].pingpong,
                                        .rows = kind & 2,
                                        .cluster = cluster,
                                        .split_k = 1,
                                        .cluster_k = 1,
                                        .resident = stays && w->steps[0] < 16 ? (int)w->steps[0] : 0};
        if (stays && !t.resident) continue;
        if (p->operation == FALT_IGEMM_SM90_FILTER)
          visit_splits(p, w, m, t, search);
        else
          visit_clusters(p, w, m, t, search);
      }
}

bool falt_igemm_sm90_choose(const falt_igemm_sm90_problem *problem, const falt_igemm_sm90_work *work,
                            const falt_machine *machine, falt_igemm_sm90_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_igemm_sm90_each(problem, work, machine, &search);
  return search.found;
}
