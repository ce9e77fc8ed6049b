/* Packs the filter of igemm-nchw: for each group and output channel a row of (channel, tap). */
#include "solver/cpu/fprop/igemm_nchw.h"

/* For backward-data the filter has adjacent output channels or adjacent taps. Rows of one tap are transposed; adjacent
 * taps are copied as one run. Tasks are blocks of rows and channels, so one task uses memory that is close together,
 * and threads have equal work. With one panel of positions, the task that multiplies a row packs it just in time. On
 * many threads each task may pack all of its rows for itself. */

/* Of a task: channels, whose pages of the filter fit into the L1 TLB, and the approximate number of elements. */
enum { CHANNELS = 32, TASK = 1 << 14 };

typedef struct packing {
  const falt_igemm_nchw_plan *plan;
  const float *filter;
  float *packed;
  falt_layer_pieces rows, channels;
} packing;

typedef struct block {
  const float *from; /* the first row's first channel, at the tap that is summed first */
  float *to;
  int64_t pitch, rows, channels;
} block;

/* Whether taps of a channel are adjacent, in either direction. */
static bool has_runs(const falt_igemm_nchw_plan *plan) {
  return plan->tap_step == 1 || plan->tap_step == -1;
}

/* Rows whose taps are adjacent, or that have one tap. */
static void copy_runs(const falt_igemm_nchw_plan *plan, const block *b) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *w = &layer->p.filter;
  for (int64_t k = 0; k < b->rows; k++)
    layer->kernels->copy(&(falt_layer_copy){.from = b->from + k * w->stride[FALT_K],
                                            .step = 1,
                                            .from_pitch = w->stride[FALT_C],
                                            .to = b->to + k * b->pitch,
                                            .to_pitch = layer->taps,
                                            .n = layer->taps,
                                            .count = b->channels});
}

/* The one tap of all rows. */
static void transpose_rows(const falt_igemm_nchw_plan *plan, const block *b) {
  const falt_tensor *w = &plan->layer.p.filter;
  plan->layer.kernels->copy(&(falt_layer_copy){.from = b->from,
                                               .step = w->stride[FALT_C],
                                               .from_pitch = w->stride[FALT_K],
                                               .to = b->to,
                                               .to_pitch = b->pitch,
                                               .n = b->channels,
                                               .count = b->rows});
}

static int64_t magnitude(int64_t stride) {
  return stride < 0 ? -stride : stride;
}

/* Rows of taps: row by row of the block for each channel where output channels are nearer than channels, else channel
 * by channel for each row. */
static void copy_taps(const falt_igemm_nchw_plan *plan, const block *b) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *w = &layer->p.filter;
  const bool by_channel = magnitude(w->stride[FALT_K]) < magnitude(w->stride[FALT_C]);
  const int64_t from[2] = {w->stride[FALT_K], w->stride[FALT_C]}, to[2] = {b->pitch, layer->taps};
  const int64_t count[2] = {b->rows, b->channels};
  falt_layer_copy copy = {.step = w->stride[FALT_W],
                          .from_pitch = from[!by_channel],
                          .to_pitch = to[!by_channel],
                          .n = w->size[FALT_W],
                          .count = count[!by_channel]};
  for (int64_t i = 0; i < count[by_channel]; i++)
    for (int64_t tap = 0; tap < layer->taps; tap += copy.n) {
      copy.from = b->from + i * from[by_channel] + falt_layer_tap_at(w, tap);
      copy.to = b->to + i * to[by_channel] + tap;
      layer->kernels->copy(&copy);
    }
}

void falt_igemm_nchw_pack_part(const falt_igemm_nchw_plan *plan, const float *filter, const falt_igemm_nchw_part *part,
                               float *to, int64_t pitch) {
  const falt_layer *layer = &plan->layer;
  const block b = {.from = falt_igemm_nchw_source(plan, filter, part),
                   .to = to,
                   .pitch = pitch,
                   .rows = part->rows,
                   .channels = part->channels};
  if (layer->taps == 1)
    transpose_rows(plan, &b);
  else if (has_runs(plan))
    copy_runs(plan, &b);
  else
    copy_taps(plan, &b);
}

const float *falt_igemm_nchw_source(const falt_igemm_nchw_plan *plan, const float *filter,
                                    const falt_igemm_nchw_part *part) {
  const falt_tensor *w = &plan->layer.p.filter;
  const int64_t first = plan->backwards ? falt_layer_tap_at(w, plan->layer.taps - 1) : 0;
  return filter + falt_tensor_at(w, part->row, part->group, part->channel, 0, 0, 0) + first;
}

void falt_igemm_nchw_pack_rows(const falt_igemm_nchw_plan *plan, const float *filter, int64_t group, int64_t row,
                               int64_t rows, float *to) {
  const falt_layer *layer = &plan->layer;
  for (int64_t c = 0; c < layer->channels && !falt_cancelled(); c += CHANNELS) {
    const falt_igemm_nchw_part part = {group, row, rows, c, falt_min(CHANNELS, layer->channels - c)};
    falt_igemm_nchw_pack_part(plan, filter, &part, to + c * layer->taps, plan->depth);
  }
}

static void pack_task(void *context, int64_t index) {
  const packing *pack = context;
  const falt_igemm_nchw_plan *plan = pack->plan;
  const falt_layer *layer = &plan->layer;
  const int64_t c = index % pack->channels.count, rest = index / pack->channels.count;
  const int64_t i = rest % pack->rows.count;
  falt_igemm_nchw_part part = {.group = rest / pack->rows.count,
                               .row = falt_layer_piece(&pack->rows, i),
                               .channel = falt_layer_piece(&pack->channels, c)};
  part.rows = falt_layer_piece(&pack->rows, i + 1) - part.row;
  part.channels = falt_layer_piece(&pack->channels, c + 1) - part.channel;
  if (falt_cancelled()) return;
  falt_igemm_nchw_pack_part(
      plan, pack->filter, &part,
      pack->packed + (part.group * layer->results + part.row) * plan->depth + part.channel * layer->taps, plan->depth);
}

void falt_igemm_nchw_pack(const falt_igemm_nchw_plan *plan, const float *filter, float *packed) {
  const falt_layer *layer = &plan->layer;
  packing p = {.plan = plan, .filter = filter, .packed = packed};
  const int64_t rows = falt_min(layer->results, falt_ceil_div(TASK, CHANNELS * layer->taps));
  p.rows = falt_layer_cut(layer->results, falt_ceil_div(layer->results, rows));
  p.channels = falt_layer_cut(layer->channels, falt_ceil_div(layer->channels, CHANNELS));
  falt_parallel_for(plan->base.device->threads, layer->p.filter.size[FALT_G] * p.rows.count * p.channels.count,
                    pack_task, &p);
}

/* Operations in the time of moving one element, measured with AVX-512: in a run, in a transpose, one by one, and to
 * rows so far apart that each element is in another line; less if the kernel prefetches the data to be packed next. */
static const double in_runs = 28, transposed = 32, alone = 110, scattered = 800, just_in_time = 0.5;

static double cost_of_element(const falt_igemm_nchw_plan *plan) {
  const falt_tensor *w = &plan->layer.p.filter;
  const bool unit = w->stride[FALT_K] == 1 || w->stride[FALT_C] == 1;
  if (plan->layer.taps == 1) return unit ? transposed : alone;
  return has_runs(plan) ? in_runs : w->stride[FALT_K] == 1 ? scattered : alone;
}

double falt_igemm_nchw_pack_work(const falt_igemm_nchw_plan *plan) {
  const double share = plan->just_in_time ? just_in_time : plan->own_rows ? (double)plan->bands.count : 1;
  return plan->base.packed || plan->step > 0
             ? 0
             : share * cost_of_element(plan) * (double)falt_tensor_count(&plan->layer.p.filter);
}
