/* The operations of the CPU's back end for rewrites: conversions of types, and of a filter's layout. */
#include "planner/backend.h"

#include "solver/cpu/common/layer.h"
#include "solver/cpu/common/upconvert.h"

enum { CHANNELS = 64 /* that a call transposes */ };

static void convert(const falt_device *device, const falt_tensor *from, const void *data, const falt_tensor *to,
                    void *out) {
  if (to->type == FALT_F32 && from->type != FALT_F32)
    falt_upconvert(device, from, data, to, out);
  else
    falt_downconvert(device, from, data, to, out);
}

/* ---- the layout of a filter */

typedef struct reordering {
  const falt_layer_kernels *kernels;
  const falt_tensor *from, *to;
  const float *taps;
  float *out;
} reordering;

/* All channels of one output channel. */
static void reorder_channels(void *context, int64_t index) {
  const reordering *r = context;
  const falt_tensor *w = r->from;
  const int64_t k = index % w->size[FALT_K], g = index / w->size[FALT_K], channels = w->size[FALT_C];
  for (int64_t c = 0; c < channels && !falt_cancelled(); c += CHANNELS)
    falt_layer_copy_taps(r->kernels, w, r->taps + falt_tensor_at(w, k, g, c, 0, 0, 0), w->stride[FALT_C],
                         falt_min(CHANNELS, channels - c), r->out + falt_tensor_at(r->to, k, g, c, 0, 0, 0), channels);
}

static void reorder_filter(const falt_device *device, const falt_tensor *from, const float *taps, const falt_tensor *to,
                           float *out) {
  reordering r = {falt_layer_kernels_for(device->isa), from, to, taps, out};
  falt_parallel_for(device->threads, from->size[FALT_K] * from->size[FALT_G], reorder_channels, &r);
}

extern const falt_backend falt_backend_cpu;
const falt_backend falt_backend_cpu = {.kind = "cpu",
                                       .convert = convert,
                                       .upconvert_flops = falt_upconvert_flops,
                                       .downconvert_flops = falt_downconvert_flops,
                                       .reorder_filter = reorder_filter};
