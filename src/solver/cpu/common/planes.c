/* Images between NCHW and NHWC: blocks of channels by pixels, transposed in registers, in f32 or f64, or in
 * 16 bits if both sides have one 16-bit type. Other narrow elements are converted to f32 on the way, in blocks that fit
 * into the first-level cache. */
#include "solver/cpu/common/planes.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "solver/cpu/common/upconvert.h"
#include "solver/cpu/filter/filter_kernels.h"
#include "solver/cpu/fprop/layer_kernels.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"

enum {
  CHANNELS = 64, /* of a block */
  PIXELS = 64,
  TASK = 4,             /* blocks of a task along the pixels */
  FEWEST_CHANNELS = 16, /* of a task that writes whole planes */
  LINE = 64,            /* bytes of a cache line */
  SQUARE = FALT_TILES_ROWS
};

int64_t falt_planes_pixels(const falt_tensor *t) {
  return t->size[FALT_D] * t->size[FALT_H] * t->size[FALT_W];
}

bool falt_planes_adjacent(const falt_tensor *t) {
  int64_t stride = 1;
  for (int dim = FALT_W; dim >= FALT_D; dim--) {
    if (t->size[dim] > 1 && t->stride[dim] != stride) return false;
    stride *= t->size[dim];
  }
  return stride > 1;
}

falt_tensor falt_planes_packed(const falt_tensor *planar, int64_t images, falt_type type) {
  static const int outwards[] = {FALT_G, FALT_C, FALT_W, FALT_H, FALT_D, FALT_N};
  falt_tensor t = *planar;
  t.type = type;
  t.size[FALT_N] = images;
  falt_tensor_order(&t, outwards);
  return t;
}

/* Kernels below AVX-512 move 16-bit elements one by one. */
static bool transposes_halves(const falt_device *device) {
  return device->isa >= FALT_ISA_AVX512;
}

falt_type falt_planes_kept(const falt_device *device, falt_type planar) {
  return falt_type_is_half(planar) && transposes_halves(device) ? planar : FALT_F32;
}

/* ---- blocks */

/* Rows of `n` neighbours, `apart` elements from each other. */
typedef struct side {
  char *data;
  falt_type type;
  int64_t apart;
} side;

typedef struct moving {
  const falt_planes *planes;
  falt_type lane;
  const falt_layer_kernels *kernels;
  const falt_filter_kernels *rows;
  const falt_tiles_kernels *tiles;
  bool halves; /* 16-bit elements are transposed without a conversion, which would lose the sign of -0 */
  int64_t channels, pixels;
  int64_t task_channels, task_pixels;
  int64_t channel_tasks, pixel_tasks; /* of an image */
} moving;

/* `count` rows of n elements of one side in the lane: where they lie, or converted to `room`, at once if they are
 * adjacent, as the taps of neighbouring channels of a filter are. */
static side as_lanes(const moving *m, side from, int64_t count, int64_t n, float *room) {
  const int64_t apart = from.apart * (int64_t)falt_type_size(from.type);
  if (from.type == m->lane) return from;
  if (from.apart == n) {
    m->rows->load[FALT_LANE_F32][from.type](room, from.data, 1, count * n);
    return (side){(char *)room, FALT_F32, n};
  }
  for (int64_t k = 0; k < count; k++)
    m->rows->load[FALT_LANE_F32][from.type](room + k * n, from.data + k * apart, 1, n);
  return (side){(char *)room, FALT_F32, n};
}

/* A square of n <= 32 rows of 16-bit elements, `count` <= 32 of each. */
static void move_square(const moving *m, side from, side to, int64_t n, int64_t count) {
  static const uint16_t zeros[SQUARE];
  uint16_t room[SQUARE * SQUARE];
  const void *rows[SQUARE];
  const int64_t size = sizeof *room, apart = to.apart * size;
  const bool whole = n == SQUARE;
  for (int i = 0; i < SQUARE; i++) rows[i] = i < n ? from.data + i * from.apart * size : (const char *)zeros;
  m->tiles->transpose_rows(&(falt_tiles_square){rows, whole ? to.data : (char *)room,
                                                whole ? apart : (int64_t)sizeof *room * SQUARE, (int)count});
  for (int64_t j = 0; j < count && !whole; j++) memcpy(to.data + j * apart, room + j * SQUARE, (size_t)(n * size));
}

/* Blocks of 16-bit elements of one type stay narrow. The last square overlaps the one before it, so
 * that it is full. */
static void move_halves(const moving *m, side from, side to, int64_t n, int64_t count) {
  const int64_t size = (int64_t)falt_type_size(from.type);
  for (int64_t i = 0; i < n; i += SQUARE)
    for (int64_t j = 0; j < count; j += SQUARE) {
      const int64_t row = n < SQUARE ? 0 : falt_min(i, n - SQUARE);
      const side source = {from.data + (row * from.apart + j) * size, from.type, from.apart};
      const side result = {to.data + (j * to.apart + row) * size, to.type, to.apart};
      move_square(m, source, result, falt_min(SQUARE, n), falt_min(SQUARE, count - j));
    }
}

/* Element j of each of n rows of `from` to row j of `to`. */
static void move_block(const moving *m, side from, side to, int64_t n, int64_t count) {
  static const falt_row_epilogue none = {.alpha = 1, .low = -INFINITY, .high = INFINITY};
  const int64_t apart = to.apart * (int64_t)falt_type_size(to.type);
  float loaded[CHANNELS * PIXELS], transposed[CHANNELS * PIXELS];
  if (m->halves && from.type == to.type) {
    move_halves(m, from, to, n, count);
    return;
  }
  const side source = as_lanes(m, from, n, count, loaded);
  const side result = to.type == m->lane ? to : (side){(char *)transposed, FALT_F32, n};
  m->kernels->copy(&(falt_layer_copy){.from = source.data,
                                      .to = result.data,
                                      .step = source.apart,
                                      .from_pitch = 1,
                                      .to_pitch = result.apart,
                                      .n = n,
                                      .count = count});
  if (to.type == m->lane) return;
  const int64_t calls = to.apart == n ? 1 : count, each_call = to.apart == n ? n * count : n;
  for (int64_t k = 0; k < calls; k++)
    m->rows->store[FALT_LANE_F32][to.type](to.data + k * apart, 1, transposed + k * n, each_call, &none, false);
}

static side side_at(void *data, falt_type type, int64_t at, int64_t apart) {
  return (side){(char *)data + at * (int64_t)falt_type_size(type), type, apart};
}

static void move_task(void *context, int64_t index) {
  const moving *m = context;
  const falt_planes *p = m->planes;
  const falt_tensor *t = p->planar;
  const int64_t apart = t->stride[p->channel];
  const int64_t begin = index % m->pixel_tasks * m->task_pixels, rest = index / m->pixel_tasks;
  const int64_t channel = rest % m->channel_tasks * m->task_channels, image = rest / m->channel_tasks;
  const int64_t channels = falt_min(m->task_channels, m->channels - channel);
  const int64_t end = falt_min(begin + m->task_pixels, m->pixels);
  const int64_t plane = t->offset + (p->first + image) * t->stride[FALT_N] + channel * apart;
  for (int64_t pixel = begin; pixel < end && !falt_cancelled(); pixel += PIXELS) {
    const int64_t pixels = falt_min(PIXELS, end - pixel);
    const side planar = side_at(p->data, t->type, plane + pixel, apart);
    const side packed = side_at(p->packed, p->type, (image * m->pixels + pixel) * m->channels + channel, m->channels);
    if (p->back)
      move_block(m, packed, planar, pixels, channels);
    else
      move_block(m, planar, packed, channels, pixels);
  }
}

/* Two cores that write parts of one cache line take it from each other. On many threads, where the planes of NCHW are
 * not whole lines, a task writes all pixels of few channels, unless threads would be left without a task. Fewer
 * channels cost more time in the caches: 16 up to twice that of 64. */
static void divide(moving *m, const falt_device *device) {
  const falt_planes *p = m->planes;
  const int64_t threads = falt_threads_count(device->threads), bytes = (int64_t)falt_type_size(p->planar->type);
  const int64_t usual = p->images * falt_ceil_div(m->channels, CHANNELS) * falt_ceil_div(m->pixels, TASK * PIXELS);
  int64_t few = CHANNELS;
  while (few > FEWEST_CHANNELS && p->images * falt_ceil_div(m->channels, few) < threads) few /= 2;
  const bool enough = p->images * falt_ceil_div(m->channels, few) >= falt_min(threads, usual);
  const bool whole = p->back && m->pixels * bytes % LINE && enough && falt_caches_are_far(device);
  m->task_channels = whole ? few : CHANNELS;
  m->task_pixels = whole ? m->pixels : TASK * PIXELS;
  m->channel_tasks = falt_ceil_div(m->channels, m->task_channels);
  m->pixel_tasks = falt_ceil_div(m->pixels, m->task_pixels);
}

void falt_planes_move(const falt_device *device, const falt_planes *planes) {
  const bool wide = planes->planar->type == FALT_F64;
  moving m = {.planes = planes,
              .lane = wide ? FALT_F64 : FALT_F32,
              .kernels = wide ? falt_layer_kernels_f64_for(device->isa) : falt_layer_kernels_for(device->isa),
              .rows = falt_filter_kernels_for(device->isa),
              .tiles = falt_tiles_kernels_for(device->isa),
              .halves = falt_type_is_half(planes->planar->type) && transposes_halves(device),
              .channels = planes->planar->size[planes->channel],
              .pixels = falt_planes_pixels(planes->planar)};
  m.halves &= falt_min(m.channels, m.pixels) >= SQUARE / 2; /* for all blocks alike: their sizes depend on threads */
  divide(&m, device);
  falt_parallel_for(device->threads, planes->images * m.channel_tasks * m.pixel_tasks, move_task, &m);
}

void falt_planes_run(const falt_plan *child, const falt_operands *packed, falt_planes in, falt_planes out) {
  const int64_t pieces = in.planar->size[FALT_N] / in.images;
  for (int64_t i = 0; i < pieces && !falt_cancelled(); i++) {
    const falt_progress_range all = falt_progress_enter((double)i / (double)pieces, (double)(i + 1) / (double)pieces);
    in.first = out.first = i * in.images;
    falt_planes_move(child->device, &in);
    falt_plan_run(child, packed);
    falt_planes_move(child->device, &out);
    falt_progress_leave(all);
  }
}

/* ---- estimate */

/* Operations in the time of transposing an element, in the caches: what comes from memory is in the child's estimate.
 */
static const double each = 16, each_half = 8;

double falt_planes_seconds(const falt_device *device, const falt_tensor *planar, falt_type type, bool back) {
  const falt_type lane = planar->type == FALT_F64 ? FALT_F64 : FALT_F32;
  const falt_tensor packed = falt_planes_packed(planar, planar->size[FALT_N], type);
  const bool halves = falt_type_is_half(type) && type == planar->type && transposes_halves(device);
  double flops = (halves ? each_half : each) * (double)falt_tensor_count(planar);
  if (halves) return falt_roofline(device, lane, flops, 1, 0);
  if (planar->type != lane) flops += (back ? falt_downconvert_flops : falt_upconvert_flops)(planar);
  if (type != lane) flops += (back ? falt_upconvert_flops : falt_downconvert_flops)(&packed);
  return falt_roofline(device, lane, flops, 1, 0);
}

/* Of the pixels of a transposed input, those that a forward layer reads: with a stride beyond its taps not all. */
static double read_pixels(const falt_problem *problem) {
  double share = 1;
  for (int a = 0; a < 3 && problem->operation == FALT_FORWARD; a++)
    share *= fmin(1, (double)problem->filter.size[FALT_D + a] / (double)problem->axis[a].stride);
  return share;
}

double falt_planes_loads(const falt_device *device, const falt_problem *problem) {
  const double bytes = read_pixels(problem) * falt_tensor_bytes(&problem->input) + falt_tensor_bytes(&problem->output);
  return falt_load_written(device, bytes / (double)falt_threads_count(device->threads));
}
