/* Input rows with their boundary: copied as runs inside the input, pixel by pixel outside. */
#include "solver/cpu/common/layer_slots.h"

#include "core/memory.h"

falt_slots falt_slots_for(const falt_layer *layer, int64_t across, int64_t lines, bool ends) {
  const falt_problem *p = &layer->p;
  const falt_axis *height = &p->axis[1], *width = &p->axis[2];
  const int64_t taps = p->filter.size[FALT_H];
  falt_slots s = {.ends = ends,
                  .near = falt_tensor_unit(&p->input, FALT_C),
                  .pixels = (across - 1) * width->stride + falt_extent(width, p->filter.size[FALT_W])};
  s.pixel_step = s.near ? layer->channels : 1;
  s.channel_step = s.near ? 1 : s.pixels;
  s.shared = !ends && height->dilation == 1 && height->stride < taps;
  s.height = s.shared ? (lines - 1) * height->stride + taps : lines * taps;
  s.count = s.height * p->filter.size[FALT_D];
  if (!falt_mul(s.pixels, layer->channels, &s.size)) s.size = INT64_MAX;
  s.position_step = width->stride * s.pixel_step;
  s.tap_step = width->dilation * s.pixel_step;
  return s;
}

void falt_slots_open(const falt_slots *slots, const falt_slot_memory *memory) {
  for (int64_t i = 0; i < slots->count; i++) memory->tags[i].n = -1;
}

/* Pixels [begin, end) of a slot, which are inside the input, from pixel `from` of its row on. */
static void copy_pixels(const falt_slots *slots, const falt_layer *layer, const void *row, int64_t from, void *slot,
                        int64_t begin, int64_t end) {
  const falt_tensor *x = &layer->p.input;
  const int64_t channels = layer->channels, pixels = end - begin;
  falt_layer_copy copy = {.from = falt_layer_at(layer, row, from * x->stride[FALT_W]),
                          .to = falt_layer_at(layer, slot, begin * slots->pixel_step)};
  if (slots->near) {
    const bool whole = x->stride[FALT_W] == channels;
    copy.step = 1;
    copy.n = whole ? pixels * channels : channels;
    copy.from_pitch = x->stride[FALT_W];
    copy.to_pitch = channels;
    copy.count = whole ? 1 : pixels;
  } else {
    copy.step = x->stride[FALT_W];
    copy.n = pixels;
    copy.from_pitch = x->stride[FALT_C];
    copy.to_pitch = slots->channel_step;
    copy.count = channels;
  }
  layer->kernels->copy(&copy);
}

static void fill_constant(const falt_slots *slots, const falt_layer *layer, void *slot, int64_t begin, int64_t end) {
  const int64_t runs = slots->near ? 1 : layer->channels, n = (end - begin) * slots->pixel_step;
  for (int64_t run = 0; run < runs; run++) {
    void *to = falt_layer_at(layer, slot, run * slots->channel_step + begin * slots->pixel_step);
    falt_layer_fill(layer->kernels, to, n, layer->p.boundary_value);
  }
}

/* Pixels [begin, end) beyond one end of the row, which is NULL if all are the constant. */
static void fill_outside(const falt_slots *slots, const falt_layer *layer, const void *row, int64_t first, void *slot,
                         int64_t begin, int64_t end) {
  const falt_axis *axis = &layer->p.axis[2];
  if (!row || axis->boundary[first + begin >= 0] == FALT_CONSTANT) {
    fill_constant(slots, layer, slot, begin, end);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    const int64_t w = falt_axis_map(axis, layer->p.input.size[FALT_W], first + i);
    copy_pixels(slots, layer, row, w, slot, i, i + 1);
  }
}

/* Pixels [begin, end), which are inside: all of them, or those read by positions that also read beyond an end. */
static void fill_inside(const falt_slots *slots, const falt_layer *layer, const void *row, int64_t first, void *slot,
                        int64_t begin, int64_t end) {
  const int64_t taps = falt_extent(&layer->p.axis[2], layer->p.filter.size[FALT_W]), stride = layer->p.axis[2].stride;
  const int64_t before = first < 0 ? falt_ceil_div(-first, stride) : 0; /* positions that begin outside */
  const int64_t room = layer->p.input.size[FALT_W] - taps - first, fit = room < 0 ? 0 : room / stride + 1;
  const int64_t left = slots->ends ? falt_min(end, before > 0 ? (before - 1) * stride + taps : 0) : end;
  const int64_t right = falt_max(falt_max(begin, left), fit * stride);
  if (begin < left) copy_pixels(slots, layer, row, first + begin, slot, begin, left);
  if (right < end) copy_pixels(slots, layer, row, first + right, slot, right, end);
}

static void fill_slot(const falt_slots *slots, const falt_layer *layer, const void *input, const falt_slot_tag *what,
                      void *slot) {
  const falt_problem *p = &layer->p;
  const falt_tensor *x = &p->input;
  const int64_t d = falt_axis_map(&p->axis[0], x->size[FALT_D], what->d);
  const int64_t h = falt_axis_map(&p->axis[1], x->size[FALT_H], what->h);
  const void *row =
      d < 0 || h < 0 ? NULL : falt_layer_at(layer, input, falt_tensor_at(x, what->n, what->g, 0, d, h, 0));
  const int64_t begin = row ? falt_min(slots->pixels, falt_max(0, -what->first)) : slots->pixels;
  const int64_t end = row ? falt_max(begin, falt_min(slots->pixels, x->size[FALT_W] - what->first)) : slots->pixels;
  fill_outside(slots, layer, row, what->first, slot, 0, begin);
  fill_inside(slots, layer, row, what->first, slot, begin, end);
  fill_outside(slots, layer, row, what->first, slot, end, slots->pixels);
}

const void *falt_slots_get(const falt_slots *slots, const falt_slot_memory *memory, const falt_layer *layer,
                           const void *input, const falt_slot_row *row, int64_t t, int64_t r) {
  const falt_axis *axis = layer->p.axis;
  const falt_slot_tag wanted = {.n = row->n,
                                .g = row->g,
                                .d = row->d * axis[0].stride + t * axis[0].dilation - axis[0].pad[0],
                                .h = row->h * axis[1].stride + r * axis[1].dilation - axis[1].pad[0],
                                .first = row->w * axis[2].stride - axis[2].pad[0]};
  const int64_t above = wanted.h + axis[1].pad[0]; /* never negative */
  const int64_t place = slots->shared ? above % slots->height : row->line * layer->p.filter.size[FALT_H] + r;
  const int64_t index = t * slots->height + place;
  falt_slot_tag *held = &memory->tags[index];
  void *slot = falt_layer_at(layer, memory->slots, index * slots->size);
  if (held->n != wanted.n || held->g != wanted.g || held->d != wanted.d || held->h != wanted.h ||
      held->first != wanted.first) {
    fill_slot(slots, layer, input, &wanted, slot);
    *held = wanted;
  }
  return slot;
}
