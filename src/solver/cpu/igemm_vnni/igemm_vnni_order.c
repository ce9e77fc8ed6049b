/* The element order of a panel of igemm-vnni, computed once when planning: for each tile of 16 columns, runs of groups
 * with equally spaced elements, and blocks of tiles that read the same stretch of a column. */
#include <stdlib.h>

#include "solver/cpu/igemm_vnni/igemm_vnni.h"

enum { MOST_STRETCH = 8192 /* bytes of a column, transposed in the second-level cache */, MOST_TILES = 32 };

static const int64_t none = INT64_MIN;

/* The element of a column that element `e` of a segment is, from the first one; `none`: a zero. */
static int64_t element_of(const falt_tiles_plan *plan, int64_t segment, int64_t e) {
  const falt_tensor *w = &plan->layer.p.filter;
  const int64_t width = w->size[FALT_W], height = w->size[FALT_H], depth = w->size[FALT_D];
  const int64_t channels = plan->layer.channels, length = plan->deep * (GROUP / plan->element);
  const int64_t within = plan->stacked ? e % length : e;
  if (within >= plan->row) return none;
  const int64_t s = plan->windows ? within / channels % width : segment % width, c = within % channels;
  const int64_t window = plan->stacked ? e / length : segment;
  int64_t plane = window / plan->steps, row = window % plan->steps * plan->joined + within / (width * channels);
  if (plan->stacked) {
    plane = window % depth;
    row = window / depth;
  } else if (!plan->windows) {
    plane = segment / width / height;
    row = segment / width % height;
  }
  if (row >= height) return none;
  return falt_tensor_at(w, 0, 0, c, plane, row, s) - w->offset;
}

/* ---- runs */

static falt_panel_run group_at(const falt_tiles_plan *plan, int64_t segment, int64_t first, int group) {
  falt_panel_run run = {.group = group, .groups = 1};
  for (int j = 0; j < GROUP / plan->element; j++) {
    const int64_t at = element_of(plan, segment, first + j);
    if (at == none) continue;
    run.at[j] = at;
    run.present |= 1u << j;
  }
  return run;
}

/* Whether a group continues a run, which then includes it. Transposed columns are read in whole groups. */
static bool extends(const falt_tiles_plan *plan, falt_panel_run *run, const falt_panel_run *next) {
  if (run->groups == 0 || next->present != run->present || next->group != run->group + run->groups) return false;
  const int first = __builtin_ctz(run->present);
  const int64_t step = run->groups > 1 ? run->step : next->at[first] - run->at[first];
  for (int j = 0; j < GROUP / plan->element; j++)
    if (run->present >> j & 1 && next->at[j] != run->at[j] + run->groups * step) return false;
  if (step * plan->element % GROUP != 0) return false;
  run->step = step;
  run->groups++;
  return true;
}

static void upconvert_stretch(falt_panel_tile *tile, const falt_panel_run *group, int64_t each) {
  for (int j = 0; j < each; j++) {
    if (!(group->present >> j & 1)) continue;
    tile->low = falt_min(tile->low, group->at[j]);
    tile->high = falt_max(tile->high, group->at[j]);
  }
}

/* A tile's runs, from `run` on if they are to be kept. */
static falt_panel_tile tile_at(const falt_tiles_plan *plan, int64_t segment, int64_t piece, falt_panel_run *run) {
  const int64_t each = GROUP / plan->element, first = piece * ROWS * each;
  falt_panel_tile tile = {.low = INT64_MAX, .high = INT64_MIN};
  falt_panel_run last = {0};
  int groups = 0;
  tile.index = plan->transposed ? piece * plan->segments + segment : segment * plan->pieces + piece;
  for (int g = 0; g < ROWS && first + g * each < plan->length; g++) {
    const falt_panel_run group = group_at(plan, segment, first + g * each, g);
    if (!group.present) continue;
    groups++;
    upconvert_stretch(&tile, &group, each);
    if (!extends(plan, &last, &group)) {
      last = group;
      tile.runs++;
    }
    if (run) run[tile.runs - 1] = last;
  }
  tile.whole = groups == ROWS;
  return tile;
}

/* Elements from the tile's first one on that are its groups in place; 0: there are none. */
static int64_t straight_length(const falt_tiles_plan *plan, int64_t segment, int64_t piece,
                               const falt_panel_tile *tile) {
  const int64_t first = piece * (FALT_TILE_BYTES / plan->element), most = FALT_TILE_BYTES / plan->element;
  int64_t length = 0;
  for (int64_t i = 0; i < most; i++) {
    const int64_t at = first + i < plan->length ? element_of(plan, segment, first + i) : none;
    if (at == none) continue;
    if (i > length || at != tile->low + i) return 0;
    length++;
  }
  return length;
}

/* ---- blocks */

static int rising(const void *left, const void *right) {
  const falt_panel_tile *a = left, *b = right;
  if (a->low != b->low) return a->low < b->low ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

/* Whether a tile has the elements of another one a few elements further, so that taps of rows are packed together. */
static bool follows(const falt_panel_order *order, const falt_panel_tile *first, const falt_panel_tile *tile) {
  const int64_t shift = tile->low - first->low;
  if (tile->runs != first->runs || shift >= FALT_TILES_MOST_TAPS) return false;
  for (int64_t i = 0; i < tile->runs; i++) {
    const falt_panel_run *a = &order->run[first->first + i], *b = &order->run[tile->first + i];
    if (a->group != b->group || a->groups != b->groups || a->present != b->present) return false;
    if (a->groups > 1 && a->step != b->step) return false;
    for (int j = 0; j < GROUP; j++)
      if (a->present >> j & 1 && b->at[j] - a->at[j] != shift) return false;
  }
  return true;
}

/* Whether the rows of columns that are not adjacent have elements of 16 bits, that need no conversion. */
static bool has_taps(const falt_tiles_plan *plan) {
  const falt_tensor *w = &plan->layer.p.filter;
  return plan->element == 2 && !falt_tiles_converts(plan) && w->stride[FALT_K] != 1;
}

/* Tiles that follow each other, as many as read one stretch, or as have taps of the same rows. */
static void cut_blocks(const falt_tiles_plan *plan, falt_panel_order *order, int64_t most) {
  const bool taps = has_taps(plan);
  for (int64_t i = 0; i < order->tiles; i++) {
    const falt_panel_tile *tile = &order->tile[i];
    falt_panel_block *block = order->blocks > 0 ? &order->block[order->blocks - 1] : NULL;
    const bool empty = tile->runs == 0;
    const int64_t room = order->columns ? MOST_TILES : taps ? FALT_TILES_MOST_TAPS : 1;
    const bool goes_on = block && block->end - block->begin < room &&
                         (order->columns ? empty || tile->high - block->low < most
                                         : !empty && follows(order, &order->tile[block->begin], tile));
    if (!goes_on) {
      block = &order->block[order->blocks++];
      *block = (falt_panel_block){.begin = i, .low = empty ? 0 : tile->low, .high = empty ? 0 : tile->high};
    }
    block->end = i + 1;
    if (!empty) block->high = falt_max(block->high, tile->high);
    order->longest = falt_max(order->longest, block->high - block->low + 1);
  }
}

static void add_tiles(const falt_tiles_plan *plan, falt_panel_order *order, int64_t *longest) {
  int64_t runs = 0;
  order->direct = true;
  for (int64_t i = 0; i < order->tiles; i++) {
    const int64_t segment = i / plan->pieces, piece = i % plan->pieces;
    falt_panel_tile *tile = &order->tile[i];
    *tile = tile_at(plan, segment, piece, order->run + runs);
    tile->first = runs;
    runs += tile->runs;
    if (tile->runs == 0) continue;
    tile->straight = straight_length(plan, segment, piece, tile);
    order->direct &= tile->straight > 0;
    *longest = falt_max(*longest, tile->high - tile->low + 1);
  }
}

static int64_t count_runs(const falt_tiles_plan *plan, int64_t tiles) {
  int64_t runs = 0;
  for (int64_t i = 0; i < tiles; i++) runs += tile_at(plan, i / plan->pieces, i % plan->pieces, NULL).runs;
  return runs;
}

/* Elements from the first to the last of a column. */
static int64_t extent_of(const falt_tiles_plan *plan) {
  const falt_tensor *w = &plan->layer.p.filter;
  int64_t extent = 1;
  for (int dim = FALT_C; dim <= FALT_W; dim++) extent += (w->size[dim] - 1) * llabs(w->stride[dim]);
  return extent;
}

bool falt_tiles_order(falt_tiles_plan *plan) {
  falt_panel_order *order = &plan->order;
  const int64_t tiles = plan->segments * plan->pieces, runs = count_runs(plan, tiles);
  const int64_t most = MOST_STRETCH / plan->element, all = plan->layer.taps * plan->layer.channels;
  order->tile =
      falt_alloc((size_t)tiles * (sizeof *order->tile + sizeof *order->block) + (size_t)runs * sizeof *order->run);
  if (!order->tile) return false;
  order->tiles = tiles;
  order->run = (falt_panel_run *)(void *)(order->tile + tiles);
  order->block = (falt_panel_block *)(void *)(order->run + runs);
  int64_t longest = 0;
  add_tiles(plan, order, &longest);
  order->columns = extent_of(plan) <= 4 * all && (order->direct || longest <= most);
  order->direct &= order->columns && !falt_tiles_converts(plan);
  qsort(order->tile, (size_t)tiles, sizeof *order->tile, rising);
  cut_blocks(plan, order, most);
  return true;
}
