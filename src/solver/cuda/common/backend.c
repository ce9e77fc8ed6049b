/* The operations of the CUDA back end for rewrites. convert_layout.cu transposes NCHW to NHWC, pad_channels.cu copies
 * adjacent channels to another pitch, expand_factors.cu makes taps or passes of factors. */
#include "planner/backend.h"

#include "core/memory.h"
#include "cuda/gpu.h"
#include "solver/cuda/common/convert_layout_args.h"
#include "solver/cuda/common/factors_args.h"

enum { VECTOR = 16, THREADS = FALT_CUDA_COPY_THREADS, COPIES = FALT_CUDA_COPIES, MOST_SIDE = 32 };

/* ---- copies: blocks */

/* Squares of a block: four along the channels and as many down the pixels as there are threads; more where lines are
 * short. */
static bool cut_squares(falt_cuda_copy *a, int64_t bytes) {
  const int64_t edge = VECTOR / bytes, across = falt_ceil_div(a->pitch, edge), down = falt_ceil_div(a->pixels, edge);
  int64_t side = 1, blocks;
  while (side < across && side < MOST_SIDE && (side < 4 || side * 2 * down <= THREADS)) side *= 2;
  const int64_t columns = falt_ceil_div(across, side), line_blocks = columns * falt_ceil_div(down, THREADS / side);
  const int64_t lines = (int64_t)a->lines[1] * a->lines[2];
  if (!falt_mul(lines, a->lines[0], &blocks) || !falt_mul(blocks, line_blocks, &blocks) || blocks > INT32_MAX / COPIES)
    return false;
  a->side = (int)side;
  a->columns = (unsigned)columns;
  a->line_blocks = (unsigned)line_blocks;
  a->blocks = (unsigned)blocks;
  return true;
}

/* Rows of a block: several words for each thread, and no word in two blocks. */
static bool cut_rows(falt_cuda_copy *a, const falt_copy *copy) {
  enum { LEAST = 16 * THREADS, MANY_BLOCKS = 1024, MOST_LOADS = 4, MOST_PITCH = 1 << 22 };
  const int64_t bytes = copy->row * copy->bytes;
  const int64_t loads = falt_min(falt_max(bytes * a->pixels / LEAST / MANY_BLOCKS, 1), MOST_LOADS);
  a->rows = (unsigned)falt_round_up(falt_max(LEAST * loads / bytes, 1), 4);
  a->blocks = (unsigned)falt_ceil_div(a->pixels, a->rows);
  return falt_max(copy->pixel, copy->pitch) < MOST_PITCH;
}

/* The kernel's argument; false if it has too many blocks or elements. */
static bool cut(const falt_copy *copy, falt_cuda_copy *a) {
  *a = (falt_cuda_copy){.from = copy->from,
                        .to = copy->to,
                        .channel = copy->channel,
                        .pixels = (unsigned)copy->pixels,
                        .channels = (unsigned)copy->channels,
                        .pitch = (unsigned)copy->pitch,
                        .pixel = (unsigned)copy->pixel};
  for (int i = 0; i < 3; i++) {
    if (copy->lines[i] >= INT32_MAX) return false;
    a->line[i] = copy->line[i];
    a->lines[i] = (unsigned)copy->lines[i];
  }
  const int64_t beyond = THREADS * (copy->pixel > 0 ? 1 : VECTOR);
  if (copy->channels >= INT32_MAX / 2 || copy->pixels >= INT32_MAX - beyond) return false;
  return copy->pixel > 0 ? cut_rows(a, copy) : cut_squares(a, copy->bytes);
}

static bool can_copy(const falt_copy *copy) {
  falt_cuda_copy a;
  return cut(copy, &a);
}

/* ---- copies: execution */

/* The widest loads that its lengths, its strides and its place allow. */
static int unit_of(const falt_copy *copy) {
  uint64_t all =
      (uintptr_t)copy->from | (uint64_t)(copy->pixels * copy->bytes) | (uint64_t)(copy->channel * copy->bytes);
  int unit = VECTOR;
  for (int i = 0; i < 3; i++) all |= (uint64_t)(copy->line[i] * copy->bytes);
  while (all % (uint64_t)unit) unit /= 2;
  return unit;
}

/* Whether whole vectors, or words of rows, may be stored. */
static bool stores_whole(const falt_copy *copy) {
  const uintptr_t to = (uintptr_t)copy->to;
  return copy->pixel > 0 ? to % 4 == 0 : copy->pitch * copy->bytes % VECTOR == 0 && to % VECTOR == 0;
}

static falt_status copy_ready(const falt_device *device, const falt_copy *copy, void **kernel) {
  const bool pads = copy->pixel > 0;
  falt_cu_function function;
  falt_cuda_kernel source = {.source = pads ? "pad_channels.cu" : "convert_layout.cu",
                             .entry = pads ? "falt_pad_channels" : "falt_convert_layout"};
  falt_cuda_define(&source, "SIZE=%d", (int)copy->bytes);
  FALT_TRY(falt_gpu_kernel(device->gpu, &source, &function));
  *kernel = function;
  return FALT_OK;
}

static void copy(const falt_device *device, void *kernel, const falt_copy *copies, int count, void *stream) {
  static const int one[2] = {1, 1};
  falt_cuda_copy_args args = {.copy = {{.blocks = 0}}};
  for (int i = 0; i < count; i++) {
    cut(&copies[i], &args.copy[i]);
    args.copy[i].unit = unit_of(&copies[i]);
    args.copy[i].whole = stores_whole(&copies[i]);
  }
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {.function = kernel,
                                  .blocks = (int64_t)args.copy[0].blocks + args.copy[1].blocks,
                                  .threads = {THREADS, 1},
                                  .stream = stream};
  if (launch.blocks > 0) falt_gpu_start_early(device->gpu, &launch, one, parameters);
}

/* ---- factors */

static falt_status factors_ready(const falt_device *device, bool expands, void **kernel) {
  falt_cu_function function;
  const falt_cuda_kernel source = {.source = "expand_factors.cu",
                                   .entry = expands ? "falt_expand_factors" : "falt_pass_factors"};
  FALT_TRY(falt_gpu_kernel(device->gpu, &source, &function));
  *kernel = function;
  return FALT_OK;
}

static void factors(const falt_device *device, void *kernel, const falt_factors *f, void *stream) {
  falt_cuda_factors_args args = {.values = f->values,
                                 .to = f->to,
                                 .size = {f->size[0], f->size[1], f->size[2]},
                                 .count = f->count,
                                 .backwards = {f->backwards[0], f->backwards[1], f->backwards[2]},
                                 .terms = (int)f->terms,
                                 .type = (int)f->type,
                                 .to_type = (int)f->to_type,
                                 .first = f->first};
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {.function = kernel,
                                  .blocks = falt_ceil_div(args.count, FALT_CUDA_FACTORS_THREADS),
                                  .threads = {FALT_CUDA_FACTORS_THREADS, 1},
                                  .stream = stream};
  falt_gpu_start(device->gpu, &launch, parameters);
}

extern const falt_backend falt_backend_cuda;
const falt_backend falt_backend_cuda = {.kind = "cuda",
                                        .can_copy = can_copy,
                                        .copy_ready = copy_ready,
                                        .copy = copy,
                                        .factors_ready = factors_ready,
                                        .factors = factors};
