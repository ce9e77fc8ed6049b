/* Packs the filter of igemm-vnni as panels: tiles of groups of 16 columns. If the elements of a column are close
 * together, stretches of 16 columns are transposed and groups collected from them. Otherwise rows of adjacent columns
 * are joined to groups, or first gathered. */
#include <stdlib.h>
#include <string.h>

#include "solver/cpu/common/rows.h"
#include "solver/cpu/igemm_vnni/igemm_vnni.h"

enum { LINE = COLUMNS * 2 /* bytes of a row of columns, at most */ };

/* A panel that is packed. */
typedef struct target {
  const falt_tiles_plan *plan;
  const char *from;    /* the first element of column 0 */
  int64_t size, apart; /* bytes of an element, and elements from column to column */
  int columns;
  char *to, *scratch;
} target;

static int64_t tile_count(const target *t) {
  return falt_ceil_div(t->columns, ROWS);
}

static char *tile_of(const target *t, const falt_panel_tile *tile, int64_t half, int64_t time) {
  return t->to + ((time * t->plan->order.tiles + tile->index) * tile_count(t) + half) * TILE;
}

static void clear_tile(const target *t, const falt_panel_tile *tile) {
  for (int64_t time = 0; time < t->plan->times && !tile->whole; time++)
    memset(tile_of(t, tile, 0, time), 0, (size_t)(tile_count(t) * TILE));
}

/* Groups of a run from transposed columns, where element `low` is the first. The halves of split f16 are adjacent; one
 * of them goes to both slots. */
static void collect_run(const target *t, const falt_panel_run *run, int64_t low, const char *columns, char *to,
                        int64_t time) {
  const falt_tiles_plan *plan = t->plan;
  falt_tiles_slots call = {.from = columns,
                           .to = to + run->group * FALT_TILE_BYTES,
                           .step = run->step * plan->element,
                           .width = (int)(plan->split ? 2 : plan->element),
                           .groups = run->groups,
                           .n = ROWS,
                           .present = plan->split ? 3 : run->present};
  for (int j = 0; j < GROUP / call.width; j++)
    call.at[j] = plan->split ? (run->at[0] - low) * GROUP + 2 * time : (run->at[j] - low) * plan->element;
  plan->kernels->collect(&call);
}

/* ---- columns */

/* A tile that is 16 columns in place. */
static void pack_straight(const target *t, const falt_panel_tile *tile, const char *const *columns, int n, char *to) {
  const char *rows[ROWS];
  const int64_t bytes = tile->straight * t->size;
  for (int k = 0; k < n; k++) rows[k] = columns[k] + tile->low * t->size;
  if (!t->plan->transposed) {
    t->plan->kernels->transpose(&(falt_tiles_transpose){rows, to, bytes, n});
    return;
  }
  if (n < ROWS || bytes < FALT_TILE_BYTES) memset(to, 0, TILE);
  for (int k = 0; k < n; k++) memcpy(to + k * FALT_TILE_BYTES, rows[k], (size_t)bytes);
}

static char *transpose_stretch(const target *t, const falt_panel_block *block, const char *const *columns, int n) {
  const falt_tiles_plan *plan = t->plan;
  const int64_t length = block->high - block->low + 1, bytes = length * plan->element;
  char *to = t->scratch, *wide = to + falt_round_up(bytes, FALT_TILE_BYTES) * ROWS;
  const char *rows[ROWS];
  for (int k = 0; k < n; k++, wide += bytes) {
    rows[k] = columns[k] + block->low * t->size;
    if (!falt_tiles_converts(plan)) continue;
    plan->kernels->upconvert(&(falt_tiles_upconvert){rows[k], plan->layer.p.filter.type, plan->split, wide, 1, length});
    rows[k] = wide;
  }
  plan->kernels->transpose(&(falt_tiles_transpose){rows, to, bytes, n});
  return to;
}

static void collect_tile(const target *t, const falt_panel_tile *tile, int64_t low, const char *columns, char *to,
                         int64_t time) {
  const falt_panel_run *run = t->plan->order.run + tile->first;
  for (int64_t i = 0; i < tile->runs; i++) collect_run(t, &run[i], low, columns, to, time);
  if (t->plan->transposed) t->plan->kernels->flip(to);
}

static void pack_columns(const target *t, const falt_panel_block *block, int64_t half) {
  const falt_panel_order *order = &t->plan->order;
  const int n = (int)falt_min(ROWS, t->columns - half * ROWS);
  const char *columns[ROWS];
  for (int k = 0; k < n; k++) columns[k] = t->from + (half * ROWS + k) * t->apart * t->size;
  const char *transposed = order->direct ? NULL : transpose_stretch(t, block, columns, n);
  for (int64_t i = block->begin; i < block->end; i++) {
    const falt_panel_tile *tile = &order->tile[i];
    if (tile->runs == 0) continue;
    if (order->direct)
      pack_straight(t, tile, columns, n, tile_of(t, tile, half, 0));
    else
      for (int64_t time = 0; time < t->plan->times; time++)
        collect_tile(t, tile, block->low, transposed, tile_of(t, tile, half, time), time);
  }
}

/* ---- rows */

/* Rows of all columns as elements of a tile: those of each half are groups, as for transposed columns. */
static void upconvert_run(const target *t, const falt_panel_run *run) {
  const falt_tiles_plan *plan = t->plan;
  char *to = t->scratch;
  if (t->columns < COLUMNS) memset(to, 0, (size_t)(2 * TILE));
  for (int64_t g = 0; g < run->groups; g++, to += 2 * FALT_TILE_BYTES) {
    const char *from = t->from + (run->at[0] + g * run->step) * t->size;
    plan->kernels->upconvert(
        &(falt_tiles_upconvert){from, plan->layer.p.filter.type, plan->split, to, t->apart, t->columns});
  }
}

static void convert_run(const target *t, const falt_panel_tile *tile, const falt_panel_run *run) {
  falt_panel_run upconverted = *run;
  upconvert_run(t, run);
  upconverted.step = 2;
  for (int64_t half = 0; half < tile_count(t); half++) {
    upconverted.at[0] = half;
    for (int64_t time = 0; time < t->plan->times; time++)
      collect_run(t, &upconverted, 0, t->scratch, tile_of(t, tile, half, time), time);
  }
}

/* Gathers columns that are not adjacent. */
static void gather_row(const target *t, const char *from, char *to) {
  if (t->size == 2 && t->apart > 0 && t->apart <= FALT_TILES_MOST_STEP)
    t->plan->kernels->gather(from, t->apart, t->columns, to);
  else
    falt_layer_gather(from, t->apart, t->columns, t->size, to);
}

static void join_run(const target *t, const falt_panel_tile *tile, const falt_panel_run *run) {
  const int64_t each = GROUP / t->size;
  const bool adjacent = t->apart == 1;
  falt_tiles_slots call = {.from = adjacent ? t->from : t->scratch,
                           .to = tile_of(t, tile, 0, 0) + run->group * FALT_TILE_BYTES,
                           .step = adjacent ? run->step * t->size : each * LINE,
                           .width = (int)t->size,
                           .groups = run->groups,
                           .n = t->columns,
                           .present = run->present};
  for (int64_t j = 0; j < each; j++) {
    call.at[j] = adjacent ? run->at[j] * t->size : j * LINE;
    for (int64_t g = 0; g < run->groups && !adjacent && (run->present >> j & 1); g++)
      gather_row(t, t->from + (run->at[j] + g * run->step) * t->size, t->scratch + (g * each + j) * LINE);
  }
  t->plan->kernels->join(&call);
}

/* Prefetches the rows of a tile, which are far apart. Only to the L2 cache, as they may share few sets of L1. */
static void fetch_rows(const target *t, const falt_panel_tile *tile) {
  const falt_panel_run *run = t->plan->order.run + tile->first, *end = run + tile->runs;
  for (; run < end; run++)
    for (int j = 0; j < GROUP; j++)
      for (int g = 0; g < run->groups && (run->present >> j & 1); g++)
        __builtin_prefetch(t->from + (run->at[j] + g * run->step) * t->size, 0, 2);
}

/* Whether a pass over two rows, which gives all of their taps, takes less time than gathering each tap. Measured on Zen
 * 4 for 16 columns: a pass 30 ns, a tap 12 ns at a distance of 9 columns and 31 at 25. */
static bool pays_together(double taps, int64_t apart) {
  return taps > 1 && taps * (double)(6 + llabs(apart)) >= 40;
}

/* Prefetches to the L2 cache what two rows have `ahead` elements further. */
static void fetch_taps(const target *t, const falt_tiles_taps *call, int64_t ahead) {
  const int64_t bytes = (call->n - 1) * call->apart + call->span * t->size;
  for (int j = 0; j < 2; j++)
    for (int64_t i = 0; call->rows[j] && i < bytes; i += FALT_TILE_BYTES)
      __builtin_prefetch(call->rows[j] + ahead * t->size + i, 0, 2);
}

/* Group `group` of all tiles of a block, from one pass over two rows. */
static void take_taps(const target *t, const falt_panel_block *block, const falt_panel_run *run, int64_t group) {
  const falt_panel_tile *tile = t->plan->order.tile + block->begin;
  falt_tiles_taps call = {.apart = t->apart * t->size, .n = t->columns, .count = (int)(block->end - block->begin)};
  for (int j = 0; j < 2; j++)
    call.rows[j] = run->present >> j & 1 ? t->from + (run->at[j] + group * run->step) * t->size : NULL;
  for (int i = 0; i < call.count; i++) {
    call.at[i] = (int)(tile[i].low - tile[0].low);
    call.to[i] = tile_of(t, &tile[i], 0, 0) + (run->group + group) * FALT_TILE_BYTES;
  }
  call.span = call.at[call.count - 1] + 1;
  if (block->end < t->plan->order.tiles) fetch_taps(t, &call, tile[call.count].low - tile[0].low);
  t->plan->kernels->taps(&call);
}

static void pack_taps(const target *t, const falt_panel_block *block) {
  const falt_panel_order *order = &t->plan->order;
  const falt_panel_run *run = order->run + order->tile[block->begin].first, *end = run + order->tile[block->begin].runs;
  for (; run < end; run++)
    for (int64_t g = 0; g < run->groups; g++) take_taps(t, block, run, g);
}

static void pack_rows(const target *t, const falt_panel_tile *tile) {
  const falt_panel_run *run = t->plan->order.run + tile->first;
  for (int64_t i = 0; i < tile->runs; i++) (falt_tiles_converts(t->plan) ? convert_run : join_run)(t, tile, &run[i]);
}

static void flip_tile(const target *t, const falt_panel_tile *tile) {
  for (int64_t half = 0; half < tile_count(t) && t->plan->transposed; half++)
    t->plan->kernels->flip(tile_of(t, tile, half, 0));
}

/* ---- panels */

static void pack_block(const target *t, const falt_panel_block *block) {
  const falt_panel_order *order = &t->plan->order;
  const bool together = !order->columns && pays_together((double)(block->end - block->begin), t->apart);
  for (int64_t i = block->begin; i < block->end; i++) clear_tile(t, &order->tile[i]);
  for (int64_t half = 0; half < tile_count(t) && order->columns; half++) pack_columns(t, block, half);
  if (order->columns) return;
  if (together) pack_taps(t, block);
  if (!together && block->end < order->tiles) fetch_rows(t, &order->tile[block->end]);
  for (int64_t i = block->begin; i < block->end; i++) {
    if (!together) pack_rows(t, &order->tile[i]);
    flip_tile(t, &order->tile[i]);
  }
}

/* Panel `index` of all groups. */
static target target_of(const falt_tiles_plan *plan, const void *filter, int64_t index, char *to, void *scratch) {
  const falt_tensor *w = &plan->layer.p.filter;
  const int64_t panel = index % plan->panels, size = (int64_t)falt_type_size(w->type);
  const int64_t first = falt_tensor_at(w, panel * COLUMNS, index / plan->panels, 0, 0, 0, 0);
  return (target){.plan = plan,
                  .from = (const char *)filter + first * size,
                  .size = size,
                  .apart = w->stride[FALT_N],
                  .columns = (int)falt_tiles_columns(plan, panel),
                  .to = to,
                  .scratch = scratch};
}

/* The i-th panel or column to pack: a column is read through; of rows all panels' columns, which are adjacent. */
typedef struct part {
  int64_t panel, block;
} part;

static part part_of(const falt_panel_order *order, int64_t panels, int64_t i) {
  return order->columns ? (part){i / order->blocks, i % order->blocks} : (part){i % panels, i / panels};
}

void falt_tiles_pack(const falt_tiles_plan *plan, const void *filter, int64_t begin, int64_t end, char *packed,
                     void *scratch) {
  const falt_panel_order *order = &plan->order;
  for (int64_t i = 0; i < (end - begin) * order->blocks && !falt_cancelled(); i++) {
    const part at = part_of(order, end - begin, i);
    const target t = target_of(plan, filter, begin + at.panel, packed + (size_t)at.panel * plan->panel, scratch);
    pack_block(&t, &order->block[at.block]);
  }
}

typedef struct packing {
  const falt_tiles_plan *plan;
  const void *filter;
  char *packed;
  size_t at;
} packing;

static void pack_task(void *context, int64_t index, void *scratch) {
  const packing *pack = context;
  const falt_tiles_plan *plan = pack->plan;
  const part at = part_of(&plan->order, falt_tiles_groups(plan) * plan->panels, index);
  char *to = pack->packed + (size_t)at.panel * plan->panel;
  const target t = target_of(plan, pack->filter, at.panel, to, (char *)scratch + pack->at);
  pack_block(&t, &plan->order.block[at.block]);
}

void falt_tiles_pack_all(const falt_tiles_plan *plan, const void *filter, char *packed, void *workspace, size_t scratch,
                         size_t at) {
  packing pack = {plan, filter, packed, at};
  const int64_t panels = falt_tiles_groups(plan) * plan->panels;
  const falt_row_job job = {pack_task, &pack, panels * plan->order.blocks, scratch};
  falt_rows_run(plan->base.device, &job, workspace);
}

/* ---- estimate */

/* f32 operations of vectors that take as long as packing a byte of a panel, with the filter in the last-level cache.
 * Measured on Zen 4. Vectors of less than 64 bytes move groups one by one. */
static const double straight = 3, collected = 4.5, collected_bytes = 5.5, joined = 4.5, flipped = 2;
static const double per_step = 1.5, by_element = 80, splits = 9, upconverts = 3, upconverts_apart = 25;
static const double by_group = 20, of_taps = 3.5, per_pass = 2500;

static double byte_work(const falt_tiles_plan *plan) {
  const falt_panel_order *order = &plan->order;
  const double converts = plan->split ? splits : falt_tiles_converts(plan) ? upconverts : 0;
  const double size = (double)falt_type_size(plan->layer.p.filter.type), apart = (double)plan->layer.p.filter.stride[0];
  const double vectors = plan->base.device->isa < FALT_ISA_AVX512 ? by_group : 0;
  const double flips = plan->transposed && !order->direct ? flipped : 0;
  if (order->columns)
    return vectors + flips + converts + (order->direct ? straight : plan->element == 1 ? collected_bytes : collected);
  if (converts > 0) return vectors + (apart == 1 ? collected + converts : upconverts_apart);
  const double taps = (double)order->tiles / (double)order->blocks;
  if (pays_together(taps, (int64_t)apart)) return vectors + flips + of_taps + per_pass / (taps * ROWS * GROUP);
  const bool gathers = size == 2 && apart > 0 && apart <= FALT_TILES_MOST_STEP;
  return vectors + flips + joined + (apart == 1 ? 0 : gathers ? per_step * apart : by_element / size);
}

double falt_tiles_packing_work(const falt_tiles_plan *plan) {
  const int64_t columns = falt_ceil_div(plan->layer.results, ROWS) * falt_tiles_groups(plan);
  const int64_t times = plan->times * (plan->in_time ? plan->blocks.count : 1);
  return (double)(columns * plan->order.tiles * times * TILE) * byte_work(plan);
}

/* ---- scratch */

size_t falt_tiles_packing(const falt_tiles_plan *plan) {
  const falt_panel_order *order = &plan->order;
  const int64_t bytes = order->longest * plan->element;
  if (!order->columns) return (size_t)(ROWS * GROUP * LINE);
  if (order->direct) return 0;
  return (size_t)((falt_round_up(bytes, FALT_TILE_BYTES) + (falt_tiles_converts(plan) ? bytes : 0)) * ROWS);
}

/* ---- weights of packed panels */

/* The position of element e of a segment's column k in a panel of a number of tiles. */
static int64_t place_of(const falt_tiles_plan *plan, int64_t segment, int64_t e, int64_t k, int64_t tiles) {
  const int64_t byte = e * plan->element, piece = byte / FALT_TILE_BYTES, group = byte % FALT_TILE_BYTES / GROUP;
  const int64_t before = plan->transposed ? piece * plan->segments + segment : segment * plan->pieces + piece;
  const int64_t row = plan->transposed ? k % ROWS : group, column = plan->transposed ? group : k % ROWS;
  return (before * tiles + k / ROWS) * TILE + row * FALT_TILE_BYTES + column * GROUP + byte % GROUP;
}

/* The position of element c of a tap in a panel of a number of tiles. */
static int64_t weight_at(const falt_tiles_plan *plan, int64_t tap, int64_t c, int64_t k, int64_t tiles) {
  const int64_t width = plan->layer.p.filter.size[FALT_W], height = plan->layer.p.filter.size[FALT_H];
  const int64_t row = tap / width % height, plane = tap / width / height;
  if (!plan->windows) return place_of(plan, tap, c, k, tiles);
  const int64_t e = (row % plan->joined * width + tap % width) * plan->layer.channels + c;
  if (!plan->stacked) return place_of(plan, plane * plan->steps + row / plan->joined, e, k, tiles);
  const int64_t before = (row * plan->layer.p.filter.size[FALT_D] + plane) * plan->deep * (GROUP / plan->element);
  return place_of(plan, 0, before + e, k, tiles);
}

float falt_tiles_weight(const falt_tiles_task *t, int64_t k, int64_t tap, int64_t c) {
  const falt_tiles_plan *plan = t->plan;
  const int64_t panel = k / COLUMNS, tiles = falt_ceil_div(falt_tiles_columns(plan, panel), ROWS);
  const char *from = t->packed + (size_t)(t->group * plan->panels + panel - t->from) * plan->panel +
                     weight_at(plan, tap, c, k % COLUMNS, tiles);
  return (float)(falt_load(from, FALT_BF16, 0) +
                 falt_load(from + plan->segments * plan->pieces * tiles * TILE, FALT_BF16, 0));
}
