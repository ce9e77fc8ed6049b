/* Packs the filter of igemm-vnni: panels of columns in tiles, by segments and pieces of 64 bytes. */
#include <string.h>

#include "solver/cpu/fprop/igemm_vnni.h"

typedef struct packing {
  const falt_tiles_plan *plan;
  const void *filter;
  char *packed;
} packing;

/* Where element e of a segment's column k lies within a panel of so many tiles. */
static int64_t element_at(const falt_tiles_plan *plan, int64_t segment, int64_t e, int64_t k, int64_t tiles) {
  const int64_t byte = e * plan->element, piece = byte / FALT_TILE_BYTES, group = byte % FALT_TILE_BYTES / GROUP;
  const int64_t before = plan->turned ? piece * plan->segments + segment : segment * plan->pieces + piece;
  const int64_t row = plan->turned ? k % ROWS : group, column = plan->turned ? group : k % ROWS;
  return (before * tiles + k / ROWS) * TILE + row * FALT_TILE_BYTES + column * GROUP + byte % GROUP;
}

/* A bf16 twice, for both halves of what it meets. */
static void pack_split(uint16_t half, char *to) {
  memcpy(to, &half, sizeof half);
  memcpy(to + sizeof half, &half, sizeof half);
}

static void pack_element(const packing *pack, int64_t from, char *to, int64_t time) {
  const falt_type type = pack->plan->layer.p.filter.type;
  const char *w = (const char *)pack->filter + from * (int64_t)falt_type_size(type);
  if (pack->plan->split) {
    uint16_t halves[2];
    pack->plan->kernels->widen(&(falt_tiles_widen){w, type, true, halves, 1, 1});
    pack_split(halves[time], to);
  } else if (pack->plan->kind == FALT_TILES_F32) {
    const float value = (float)falt_load(pack->filter, type, from);
    memcpy(to, &value, sizeof value);
  } else {
    memcpy(to, w, (size_t)pack->plan->element);
  }
}

/* Element c of a tap, within the tiles of a panel of so many. */
static int64_t weight_at(const falt_tiles_plan *plan, int64_t tap, int64_t c, int64_t k, int64_t tiles) {
  const int64_t width = plan->layer.p.filter.size[FALT_W], height = plan->layer.p.filter.size[FALT_H];
  const int64_t row = tap / width % height, plane = tap / width / height;
  if (!plan->windows) return element_at(plan, tap, c, k, tiles);
  const int64_t e = (row % plan->joined * width + tap % width) * plan->layer.channels + c;
  if (!plan->stacked) return element_at(plan, plane * plan->steps + row / plan->joined, e, k, tiles);
  const int64_t before = (row * plan->layer.p.filter.size[FALT_D] + plane) * plan->deep * (GROUP / plan->element);
  return element_at(plan, 0, before + e, k, tiles);
}

/* Column `k` of a group's panel that begins at channel `first`. */
static void pack_column(const packing *pack, int64_t g, int64_t first, int64_t k, int64_t tiles, char *to,
                        int64_t time) {
  const falt_tiles_plan *plan = pack->plan;
  const falt_tensor *w = &plan->layer.p.filter;
  int64_t tap = 0;
  for (int64_t t = 0; t < w->size[FALT_D]; t++)
    for (int64_t r = 0; r < w->size[FALT_H]; r++)
      for (int64_t s = 0; s < w->size[FALT_W]; s++, tap++) {
        const int64_t from = falt_tensor_at(w, first + k, g, 0, t, r, s);
        for (int64_t c = 0; c < plan->layer.channels; c++)
          pack_element(pack, from + c * w->stride[FALT_C], to + weight_at(plan, tap, c, k, tiles), time);
      }
}

static void pack_panel(void *context, int64_t index) {
  const packing *pack = context;
  const falt_tiles_plan *plan = pack->plan;
  const int64_t g = index / plan->panels, panel = index % plan->panels, columns = falt_tiles_columns(plan, panel);
  const int64_t tiles = falt_ceil_div(columns, ROWS), each = plan->segments * plan->pieces * tiles * TILE;
  char *to = pack->packed + (size_t)index * plan->panel;
  memset(to, 0, plan->panel);
  for (int64_t time = 0; time < plan->times; time++)
    for (int64_t k = 0; k < columns; k++) pack_column(pack, g, panel * COLUMNS, k, tiles, to + time * each, time);
}

void falt_tiles_pack(const falt_tiles_plan *plan, const void *filter, char *packed) {
  packing p = {plan, filter, packed};
  falt_parallel_for(plan->base.device->threads, falt_tiles_groups(plan) * plan->panels, pack_panel, &p);
}

float falt_tiles_weight(const falt_tiles_task *t, int64_t k, int64_t tap, int64_t c) {
  const falt_tiles_plan *plan = t->plan;
  const int64_t panel = k / COLUMNS, tiles = falt_ceil_div(falt_tiles_columns(plan, panel), ROWS);
  const char *from = t->run->packed + (size_t)(t->group * plan->panels + panel) * plan->panel +
                     weight_at(plan, tap, c, k % COLUMNS, tiles);
  return (float)(falt_load(from, FALT_BF16, 0) +
                 falt_load(from + plan->segments * plan->pieces * tiles * TILE, FALT_BF16, 0));
}
