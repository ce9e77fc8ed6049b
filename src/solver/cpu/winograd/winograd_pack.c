/* Transforms the filter of winograd: panel by panel, some channels at a time. Their taps are brought together first,
 * with output channels in rows. */
#include <string.h>

#include "core/memory.h"
#include "solver/cpu/winograd/winograd.h"

enum { CHANNELS = 4, TASK = 32, MOST_TAPS = 25 }; /* channels that are brought together; of a task */

typedef struct packing {
  const falt_winograd_plan *plan;
  const float *filter;
  float *packed;
  int64_t parts; /* of the channels */
} packing;

/* Taps of channels [c, c + count) and columns [k, k + n): to[(tap*CHANNELS + channel)*FALT_LAYER_WIDEST + column]. */
static void bring_taps(const falt_winograd_plan *plan, const float *from, int64_t count, int64_t n, float *to) {
  const falt_tensor *w = &plan->layer.p.filter;
  const falt_layer_kernels *kernels = plan->layer.kernels;
  if (!falt_tensor_unit(w, FALT_C)) {
    for (int64_t i = 0; i < count; i++)
      falt_layer_copy_taps(kernels, w, from + i * w->stride[FALT_C], w->stride[FALT_K], n, to + i * FALT_LAYER_WIDEST,
                           CHANNELS * FALT_LAYER_WIDEST);
    return;
  }
  for (int64_t tap = 0; tap < plan->layer.taps; tap++)
    kernels->copy(&(falt_layer_copy){.from = from + falt_layer_tap_at(w, tap),
                                     .to = to + tap * CHANNELS * FALT_LAYER_WIDEST,
                                     .step = w->stride[FALT_K],
                                     .from_pitch = w->stride[FALT_C],
                                     .to_pitch = FALT_LAYER_WIDEST,
                                     .n = n,
                                     .count = count});
}

/* Some channels of a panel. */
static void pack_task(void *context, int64_t index) {
  const packing *pack = context;
  const falt_winograd_plan *plan = pack->plan;
  const falt_layer *layer = &plan->layer;
  const int64_t part = index % pack->parts, panel = index / pack->parts % plan->panels.count;
  const int64_t group = index / pack->parts / plan->panels.count, k = falt_winograd_columns(plan, panel);
  const int64_t width = falt_winograd_columns(plan, panel + 1) - k, n = falt_min(width, layer->results - k);
  const int64_t end = falt_min(plan->depth, (part + 1) * TASK), pitch = plan->depth * width;
  float *to = pack->packed + (size_t)group * plan->group + (size_t)(k * plan->depth * plan->tiling.elements);
  float taps[MOST_TAPS * CHANNELS * FALT_LAYER_WIDEST];
  memset(taps, 0, sizeof taps); /* columns beyond the last channel */
  for (int64_t c = part * TASK; c < end && !falt_cancelled(); c += CHANNELS) {
    const int64_t count = falt_min(CHANNELS, layer->channels - c);
    if (count > 0)
      bring_taps(plan, pack->filter + falt_tensor_at(&layer->p.filter, k, group, c, 0, 0, 0), count, n, taps);
    for (int64_t i = 0; i < falt_min(CHANNELS, end - c); i++) {
      float *row = to + (c + i) * width;
      for (int64_t e = 0; i >= count && e < plan->tiling.elements; e++)
        memset(row + e * pitch, 0, (size_t)width * sizeof *row);
      if (i >= count) continue;
      plan->kernels->filter[plan->tiling.axes - 1][plan->tiling.form](
          &(falt_winograd_filter){.from = taps + i * FALT_LAYER_WIDEST,
                                  .to = row,
                                  .n = width,
                                  .from_pitch = CHANNELS * FALT_LAYER_WIDEST,
                                  .to_pitch = pitch});
    }
  }
}

void falt_winograd_pack(const falt_winograd_plan *plan, const float *filter, float *packed) {
  packing pack = {plan, filter, packed, falt_ceil_div(plan->depth, TASK)};
  falt_parallel_for(plan->base.device->threads, plan->layer.p.output.size[FALT_G] * plan->panels.count * pack.parts,
                    pack_task, &pack);
}

void falt_winograd_copy_taps(const falt_winograd_plan *plan, const float *filter, float *taps) {
  const falt_tensor *from = &plan->layer.p.filter, *to = &plan->taps_tensor;
  for (int64_t g = 0; g < from->size[FALT_G]; g++)
    for (int64_t c = 0; c < from->size[FALT_C]; c++)
      falt_layer_copy_taps(plan->layer.kernels, from, filter + falt_tensor_at(from, 0, g, c, 0, 0, 0),
                           from->stride[FALT_K], from->size[FALT_K], taps + falt_tensor_at(to, 0, g, c, 0, 0, 0),
                           to->stride[FALT_W]);
}

/* ---- estimate */

/* Operations in the time of transforming one element of the result, and of bringing a tap, as measured with AVX-512. */
static const double each_element = 40, each_tap = 32;

double falt_winograd_pack_work(const falt_winograd_plan *plan) {
  const double taps = (double)falt_tensor_count(&plan->layer.p.filter);
  const double elements = taps / (double)plan->layer.taps * (double)plan->tiling.elements;
  return plan->base.packed ? 0 : each_element * elements + each_tap * taps;
}
