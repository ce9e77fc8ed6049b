/* Packs the filter of direct-nhwc: for each panel a row of columns for each tap and channel. */
#include <string.h>

#include "solver/cpu/fprop/direct_nhwc.h"

/* If one task alone multiplies a panel, or few tasks on many threads, it packs the panel itself (just in time): part by
 * part of the depth, into a buffer that stays in its L2 cache. Otherwise all threads pack the filter into the workspace
 * first. Rows are copied if output channels are adjacent (OHWI for backward-data), else transposed. */

enum { TASK = 1 << 14 }; /* the most elements that a task packs, so that tasks are short and threads have equal work */

/* ---- parts of the depth */

/* Whether a contiguous row of the filter runs over the taps of a channel first (OIHW). */
static bool taps_first(const falt_direct_nhwc_plan *plan) {
  const falt_tensor *w = &plan->layer.p.filter;
  return plan->layer.taps > 1 && (plan->tap_step == 1 || plan->tap_step == -1) && w->stride[FALT_K] != 1 &&
         !falt_tensor_unit(w, FALT_C);
}

/* How the depth is divided: into pieces of whole units of taps and of channels. A unit begins a chain of multiply-adds,
 * so a sum has the same bits whether its depth is divided or not. */
typedef struct cut {
  falt_layer_pieces taps, channels;
  int64_t tap_unit, channel_unit, tap_count, channel_count;
} cut;

/* Parts of an approximate number of rows: all taps of some channels, taps with all channels, or some channels of one
 * tap. */
static cut cut_depth(const falt_direct_nhwc_plan *plan, int64_t rows) {
  const int64_t taps = plan->layer.taps, channels = plan->layer.channels;
  const int64_t tap_unit = falt_layer_chain(channels, FALT_LAYER_CHAIN), tap_units = falt_ceil_div(taps, tap_unit);
  const int64_t channel_unit = FALT_LAYER_CHAIN, channel_units = falt_ceil_div(channels, channel_unit);
  int64_t tap_parts = 1, channel_parts = 1;
  if (taps_first(plan)) {
    channel_parts = falt_ceil_div(channels, falt_max(1, rows / taps));
  } else if (channels < rows) {
    tap_parts = falt_ceil_div(taps, rows / channels);
  } else {
    tap_parts = taps;
    channel_parts = falt_ceil_div(channels, rows);
  }
  return (cut){falt_layer_cut(tap_units, falt_min(tap_units, tap_parts)),
               falt_layer_cut(channel_units, falt_min(channel_units, channel_parts)),
               tap_unit,
               channel_unit,
               taps,
               channels};
}

/* The first tap and the first channel of a piece. */
static int64_t first_tap(const cut *c, int64_t piece) {
  return falt_min(c->tap_count, c->tap_unit * falt_layer_piece(&c->taps, piece));
}
static int64_t first_channel(const cut *c, int64_t piece) {
  return falt_min(c->channel_count, c->channel_unit * falt_layer_piece(&c->channels, piece));
}

static int64_t cut_count(const cut *c) {
  return c->taps.count * c->channels.count;
}

static falt_direct_nhwc_part part_at(const cut *c, int64_t index) {
  const int64_t t = index / c->channels.count, i = index % c->channels.count;
  falt_direct_nhwc_part part = {index, .tap = first_tap(c, t), .channel = first_channel(c, i)};
  part.taps = first_tap(c, t + 1) - part.tap;
  part.channels = first_channel(c, i + 1) - part.channel;
  return part;
}

/* Sums run over all channels of a tap before the next: a filter with contiguous taps is packed just in time only if a
 * whole panel fits into the cache. */
void falt_direct_nhwc_set_parts(falt_direct_nhwc_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const int64_t width = falt_layer_most(&plan->panels) * layer->kernels->width;
  const int64_t cached = (int64_t)(plan->base.device->caches.l2 / layer->kernels->lane_size) / width; /* rows */
  const int64_t depth = plan->segments * plan->length;
  const bool alone = plan->owned || (plan->spans * plan->blocks.count == 1 && !plan->folds && plan->joined == 1);
  plan->just_in_time = !plan->base.packed && alone && (!taps_first(plan) || depth <= cached / 2);
  plan->part_rows = plan->just_in_time ? falt_max(1, taps_first(plan) ? cached / 2 : cached / 8) : depth;
  const cut parts = cut_depth(plan, plan->part_rows);
  plan->parts = cut_count(&parts);
  plan->part_most = falt_min(parts.tap_count, parts.tap_unit * falt_layer_most(&parts.taps)) *
                    falt_min(parts.channel_count, parts.channel_unit * falt_layer_most(&parts.channels));
}

falt_direct_nhwc_part falt_direct_nhwc_part_of(const falt_direct_nhwc_plan *plan, int64_t index) {
  if (plan->parts == 1) return (falt_direct_nhwc_part){.taps = plan->segments, .channels = plan->length};
  const cut parts = cut_depth(plan, plan->part_rows);
  return part_at(&parts, index);
}

/* ---- packing */

typedef struct packing {
  const falt_direct_nhwc_plan *plan;
  const void *filter;
  void *packed;
  cut parts;
} packing;

/* Packs columns of one of the problem's groups: rows of a tap are `width` apart, taps tap_pitch. */
typedef struct columns {
  const void *from; /* the first column at the part's first tap and channel */
  void *to;
  int64_t n, width, tap_pitch;
} columns;

/* Transposes all taps of each channel, or copies or transposes all channels of each tap. */
static void pack_columns(const falt_direct_nhwc_plan *plan, const falt_direct_nhwc_part *part, const columns *c) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *w = &layer->p.filter;
  falt_layer_copy copy = {.step = w->stride[FALT_K], .n = c->n};
  if (taps_first(plan)) {
    copy.from_pitch = plan->tap_step;
    copy.to_pitch = c->tap_pitch;
    copy.count = part->taps;
    for (int64_t i = 0; i < part->channels; i++) {
      copy.from = falt_layer_at(layer, c->from, i * w->stride[FALT_C]);
      copy.to = falt_layer_at(layer, c->to, i * c->width);
      layer->kernels->copy(&copy);
    }
    return;
  }
  copy.from_pitch = w->stride[FALT_C];
  copy.to_pitch = c->width;
  copy.count = part->channels;
  const int64_t first = falt_layer_tap_at(&layer->p.filter, part->tap);
  for (int64_t i = 0; i < part->taps; i++) {
    copy.from = falt_layer_at(layer, c->from, falt_layer_tap_at(&layer->p.filter, part->tap + i) - first);
    copy.to = falt_layer_at(layer, c->to, i * c->tap_pitch);
    layer->kernels->copy(&copy);
  }
}

/* Packs a part of a panel; rows of the first tap start at `to`. */
static void pack_part(const falt_direct_nhwc_plan *plan, const void *filter, int64_t group, int64_t panel,
                      const falt_direct_nhwc_part *part, void *to, int64_t tap_channels) {
  const falt_layer *layer = &plan->layer;
  const int64_t k = falt_direct_nhwc_columns(plan, panel), width = falt_direct_nhwc_columns(plan, panel + 1) - k;
  const int64_t n = falt_min(width, layer->results - k), each = n / plan->joined;
  const int64_t first = falt_layer_tap_at(&layer->p.filter, part->tap);
  columns c = {.n = each, .width = width, .tap_pitch = tap_channels * width};
  for (int64_t i = 0; n < width && i < part->taps; i++)
    memset(falt_layer_at(layer, to, i * c.tap_pitch), 0, (size_t)(part->channels * width) * layer->kernels->lane_size);
  for (int64_t i = 0; i < plan->joined; i++) {
    const int64_t at = falt_tensor_at(&layer->p.filter, k, group * plan->joined + i, part->channel, 0, 0, 0);
    c.from = falt_layer_at(layer, filter, first + at);
    c.to = falt_layer_at(layer, to, i * each);
    pack_columns(plan, part, &c);
  }
}

void falt_direct_nhwc_pack_part(const falt_direct_nhwc_plan *plan, const void *filter, int64_t group, int64_t panel,
                                const falt_direct_nhwc_part *part, void *to) {
  pack_part(plan, filter, group, panel, part, to, part->channels);
}

falt_direct_nhwc_source falt_direct_nhwc_source_of(const falt_direct_nhwc_plan *plan, const void *filter, int64_t group,
                                                   int64_t panel, const falt_direct_nhwc_part *part) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *w = &layer->p.filter;
  const int64_t k = falt_direct_nhwc_columns(plan, panel), end = falt_direct_nhwc_columns(plan, panel + 1);
  const int64_t n = falt_min(end, layer->results) - k, first = falt_layer_tap_at(&layer->p.filter, part->tap);
  const int64_t last = falt_layer_tap_at(&layer->p.filter, part->tap + part->taps - 1);
  const bool together = part->taps == 1 || taps_first(plan) || plan->tap_step == layer->channels;
  const int64_t at = falt_tensor_at(w, k, group, part->channel, 0, 0, 0) + falt_min(first, last);
  const int64_t line = 64 / (int64_t)layer->kernels->lane_size; /* elements of a cache line */
  falt_direct_nhwc_source s = {.from = falt_layer_at(layer, filter, at)};
  if (w->stride[FALT_K] == 1 && part->taps == 1) {
    s.count = part->channels;
    s.lines = falt_ceil_div(n, line);
    s.step = w->stride[FALT_C];
  } else if (together && (falt_tensor_unit(w, FALT_C) || taps_first(plan))) {
    s.count = n;
    s.lines = falt_ceil_div(part->taps * part->channels, line);
    s.step = w->stride[FALT_K];
  }
  return s;
}

static void pack_task(void *context, int64_t index) {
  const packing *pack = context;
  const falt_direct_nhwc_plan *plan = pack->plan;
  const falt_layer *layer = &plan->layer;
  const int64_t parts = cut_count(&pack->parts), panel = index / parts % plan->panels.count;
  const int64_t group = index / parts / plan->panels.count, k = falt_direct_nhwc_columns(plan, panel);
  const int64_t width = falt_direct_nhwc_columns(plan, panel + 1) - k;
  const falt_direct_nhwc_part part = part_at(&pack->parts, index % parts);
  if (falt_cancelled()) return;
  const int64_t row = part.tap * layer->channels + part.channel;
  pack_part(plan, pack->filter, group, panel, &part,
            falt_layer_at(layer, pack->packed,
                          group * (int64_t)plan->group + k * layer->taps * layer->channels + row * width),
            layer->channels);
}

void falt_direct_nhwc_pack(const falt_direct_nhwc_plan *plan, const void *filter, void *packed) {
  const int64_t width = falt_layer_most(&plan->panels) * plan->layer.kernels->width;
  packing p = {plan, filter, packed, cut_depth(plan, falt_max(1, TASK / width))};
  falt_parallel_for(plan->base.device->threads,
                    plan->layer.p.output.size[FALT_G] * plan->panels.count * cut_count(&p.parts), pack_task, &p);
}

/* ---- estimate */

/* Operations in the time of moving one element, measured with AVX-512: in rows, in a transpose, and one by one; less if
 * the kernel prefetches the data to be packed next, so that nothing waits for memory. */
static const double in_rows = 16, transposed = 32, alone = 110, just_in_time = 0.45;
static const double taps_apart = 120; /* in a transpose whose rows are a tap of the workspace apart */

double falt_direct_nhwc_pack_work(const falt_direct_nhwc_plan *plan) {
  const falt_tensor *w = &plan->layer.p.filter;
  const bool rows = w->stride[FALT_K] == 1, transposes = falt_tensor_unit(w, FALT_C) || taps_first(plan);
  const double first = plan->just_in_time ? transposed : taps_apart;
  const double each = rows ? in_rows : taps_first(plan) ? first : transposes ? transposed : alone;
  const double share = plan->just_in_time && (rows || transposes) ? just_in_time : 1;
  const double times = plan->just_in_time ? (double)plan->blocks.count : 1;
  return plan->base.packed ? 0 : times * share * each * (double)falt_tensor_count(w);
}
