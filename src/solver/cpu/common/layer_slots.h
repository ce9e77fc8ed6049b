/* Copies of input rows with the boundary's elements before and after, for layers of few channels, where the address of
 * each pixel costs more than its products. */
#ifndef FALT_SOLVER_CPU_COMMON_LAYER_SLOTS_H
#define FALT_SOLVER_CPU_COMMON_LAYER_SLOTS_H

#include "solver/cpu/common/layer.h"

/* A slot holds a copy of an input row, or of a piece of it, so that all positions of an output row read at equal
 * distances. It stays in the cache for all taps. If output rows follow each other, slots are a ring along the height
 * and also serve the next rows. */

/* Of a plan: position i of a piece, tap s of a row and channel c are i*position_step + s*tap_step + c*channel_step
 * elements from a slot's first. Channels are contiguous if the input's are. */
typedef struct falt_slots {
  bool ends;
  bool near;            /* a pixel's channels are adjacent; else its pixels are, channel by channel */
  int64_t pixels, size; /* of a slot; its elements, INT64_MAX where they cannot be counted */
  int64_t pixel_step, position_step, tap_step, channel_step;
  bool shared; /* output rows share slots, by their height modulo `height`; else slots are ordered by line and tap, as
                * rows of a block need that start at different positions */
  int64_t height, count; /* slots for a plane of taps, and in all */
} falt_slots;

/* The input row that a slot holds. */
typedef struct falt_slot_tag {
  int64_t n, g, d, h, first;
} falt_slot_tag;

/* Slots of one thread, and their contents. */
typedef struct falt_slot_memory {
  void *slots; /* elements of the layer's lane */
  falt_slot_tag *tags;
} falt_slot_memory;

/* An output row, from position w on, and its number among those that are used together. */
typedef struct falt_slot_row {
  int64_t n, g, d, h, w, line;
} falt_slot_row;

/* For pieces of `across` positions, and `lines` neighbouring output rows that are used together. With `ends`, slots are
 * filled only for positions that read beyond an end of the row; others read the input. */
falt_slots falt_slots_for(const falt_layer *layer, int64_t across, int64_t lines, bool ends);

void falt_slots_open(const falt_slots *slots, const falt_slot_memory *memory);

/* The address that the first tap of row (t, r) of the filter reads for an output row. `input` is the operand. */
const void *falt_slots_get(const falt_slots *slots, const falt_slot_memory *memory, const falt_layer *layer,
                           const void *input, const falt_slot_row *row, int64_t t, int64_t r);

#endif
