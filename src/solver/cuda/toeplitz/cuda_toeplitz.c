/* Solver cuda-toeplitz: filters as Toeplitz products on tensor cores (MMA). One set of taps for all channels, unit
 * strides and dilations; u8, s8, f16 and bf16 images, and f32 images for large filters. u8 and s8 images use integer
 * taps: exact if the taps are multiples of one number, else rounded to 2^-23 of the largest. Other images use taps
 * split into two or three numbers of the image's type, which keep at least 22 bits. Kernel: cuda_toeplitz.cu. Tile
 * search: cuda_toeplitz_tiles.c. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/device/args.h"
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda_filter.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/toeplitz/cuda_toeplitz_tiles.h"

enum { PLANE, ROW, COLUMN };

typedef struct toeplitz_plan {
  falt_cuda_plan cuda; /* its memory: Toeplitz matrices, start values of sums, taps in f32 */
  falt_cuda_toeplitz_args args;
  falt_toeplitz bands;
  falt_toeplitz_cut cut;
  falt_toeplitz_bias bias;
  int pixel;
  bool linear, biased, ringed;
  int64_t blocks; /* of the launch */
  double *taps;   /* until the bands are on the GPU */
} toeplitz_plan;

/* ---- execute */

/* Whether vectors of 16 bytes begin at the same place in all rows. */
static bool is_aligned(int64_t row, int64_t plane, const long long batch[2], falt_type type) {
  const int64_t batches[] = {batch[0], batch[1]};
  return falt_cuda_alignment(row, plane, batches) * (int64_t)falt_type_size(type) >= 16;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const toeplitz_plan *plan = (const toeplitz_plan *)base;
  const falt_tensor *x = &base->problem.input, *y = &base->problem.output;
  const int64_t x_bytes = (int64_t)falt_type_size(x->type), y_bytes = (int64_t)falt_type_size(y->type);
  falt_cuda_toeplitz_args args = plan->args;
  args.x = (const char *)o->input + x->offset * x_bytes;
  args.y = (char *)o->output + y->offset * y_bytes;
  args.aligned_x = args.aligned_x && (uintptr_t)args.x % 16 == 0;
  args.aligned_y = args.aligned_y && (uintptr_t)args.y % 16 == 0;
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {
      plan->cuda.function, plan->blocks, {32 * FALT_BANDS_WARPS, 1}, plan->cut.shared_bytes, o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  static const char *const kinds[] = {"s8", "f16", "bf16", "tf32"}, *const places[] = {"registers", "shared", "global"};
  const toeplitz_plan *plan = (const toeplitz_plan *)base;
  const falt_toeplitz_cut *c = &plan->cut;
  falt_text_add(text, "(cuda-toeplitz %s parts=%d bands=%s tiles=%dx%d%s%s steps=%d)", kinds[plan->bands.kind],
                plan->bands.parts, places[c->place], c->tiles, c->groups,
                plan->bands.channels > 1 ? " channels-apart" : "", plan->linear ? " linear" : "", c->steps);
}

static void destroy(falt_plan *base) {
  falt_free(((toeplitz_plan *)base)->taps);
  falt_cuda_plan_destroy(base);
}

/* ---- applicable */

/* Their sums drift by a unit and a half for each 16 products. */
static bool drifts(const falt_problem *p) {
  enum { CHAIN = 128 };
  const int64_t *taps = p->filter.size;
  return p->input.type == FALT_F32 && taps[FALT_D] * taps[FALT_H] * taps[FALT_W] > CHAIN;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const falt_type x = p->input.type;
  const char *why = falt_cuda_filter_refusal(ask);
  if (why) return why;
  if (!falt_cuda_unit_steps(p)) return "a stride or dilation is not 1";
  if (!falt_cuda_products(x, x) || x == FALT_F64) return "tensor cores do not multiply the image's type";
  if (falt_problem_has_f64(p)) return "tensor cores do not sum in f64";
  if (drifts(p)) return "tensor cores round sums of so many f32 products towards zero";
  if (!falt_cuda_holds_fill(p)) return "the boundary's constant is not a number of the image's type";
  if (!falt_gpu_about(ask->device->gpu)->architecture->async) return "the GPU is older than sm_80";
  return NULL;
}

/* The error of the split taps, relative to the sum of magnitudes; 0 if it is below rounding. Outputs that are rounded
 * to integers hide small fractions of a unit. */
static double error_of(const toeplitz_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_type x = p->input.type, y = p->output.type;
  const double most = fmax(fabs(falt_type_min(x)), falt_type_max(x)), loss = plan->bands.error * fabs(p->alpha);
  const double rounding = falt_type_is_half(y) ? 0x1p-14 : 0x1p-21;
  if (falt_type_is_integer(x) && falt_type_is_integer(y) && loss * most < 0x1p-6) return 0;
  return plan->bands.relative_error < rounding ? 0 : plan->bands.relative_error;
}

/* ---- plan */

/* The axis of the problem behind the planes, the rows and the columns; -1: none. */
static void order_axes(const falt_problem *p, int axis[3]) {
  axis[PLANE] = p->filter.size[FALT_D] == 1 && p->output.size[FALT_D] == 1 && p->input.size[FALT_D] == 1 ? -1 : 0;
  axis[ROW] = 1;
  axis[COLUMN] = 2;
}

/* One long row, without anything beside it. */
static bool is_line(const falt_problem *p) {
  for (int dim = FALT_D; dim <= FALT_H; dim++)
    if (p->input.size[dim] != 1 || p->output.size[dim] != 1 || p->filter.size[dim] != 1 || p->axis[dim - FALT_D].pad[0])
      return false;
  return true;
}

static falt_toeplitz_kind kind_of(falt_type type) {
  switch (type) {
    case FALT_F16:
      return FALT_BANDS_HALVES;
    case FALT_BF16:
      return FALT_BANDS_BRAINS;
    case FALT_F32:
      return FALT_BANDS_WORDS;
    default:
      return FALT_BANDS_BYTES;
  }
}

/* The taps in their order; NULL without memory. */
static double *read_taps(const falt_problem *p, const void *values) {
  const falt_tensor *w = &p->filter;
  double *taps = falt_alloc((size_t)(w->size[FALT_D] * w->size[FALT_H] * w->size[FALT_W]) * sizeof *taps), *to = taps;
  if (!taps) return NULL;
  for (int64_t t = 0; t < w->size[FALT_D]; t++)
    for (int64_t r = 0; r < w->size[FALT_H]; r++)
      for (int64_t s = 0; s < w->size[FALT_W]; s++)
        *to++ = falt_load(values, w->type, falt_tensor_at(w, 0, 0, 0, t, r, s));
  return taps;
}

/* Band matrices hold a tap in parts, some of them as integers: infinite and NaN taps have none. */
static bool are_finite(const falt_problem *p, const double *taps) {
  const int64_t *size = p->filter.size, count = size[FALT_D] * size[FALT_H] * size[FALT_W];
  bool finite = true;
  for (int64_t i = 0; i < count; i++) finite &= isfinite(taps[i]);
  return finite;
}

static void set_args(toeplitz_plan *plan, const int axis[3]) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_tensor *x = &p->input, *y = &p->output;
  const bool planar = plan->pixel == 1;
  uint64_t fill = 0;
  falt_store(&fill, x->type, 0, p->boundary_value);
  plan->args = (falt_cuda_toeplitz_args){
      .x_row = falt_cuda_stride_along(x, axis[ROW]),
      .x_plane = falt_cuda_stride_along(x, axis[PLANE]),
      .x_batch = {falt_cuda_batch_stride(x, FALT_N), planar ? falt_cuda_batch_stride(x, FALT_G) : 0},
      .y_row = falt_cuda_stride_along(y, axis[ROW]),
      .y_plane = falt_cuda_stride_along(y, axis[PLANE]),
      .y_batch = {falt_cuda_batch_stride(y, FALT_N), planar ? falt_cuda_batch_stride(y, FALT_G) : 0},
      .in_columns = (int)(x->size[FALT_W] * plan->pixel),
      .in_rows = (int)falt_cuda_size_along(x, axis[ROW]),
      .in_planes = (int)falt_cuda_size_along(x, axis[PLANE]),
      .out_columns = (int)(y->size[FALT_W] * plan->pixel),
      .out_rows = (int)falt_cuda_size_along(y, axis[ROW]),
      .out_planes = (int)falt_cuda_size_along(y, axis[PLANE]),
      .batch = (int)(planar ? x->size[FALT_G] : 1),
      .fill = (unsigned)fill,
      .scale = (float)p->alpha,
      .beta = (float)p->beta};
}

/* A line becomes rows of a warp's width. */
static void fold_line(falt_cuda_toeplitz_args *a) {
  enum { WIDTH = 128 };
  a->x_row = a->y_row = WIDTH;
  a->out_rows = (int)falt_ceil_div(a->out_columns, WIDTH);
}

static void set_steps(falt_cuda_toeplitz_args *a, const falt_problem *p) {
  a->x_block = 4 * a->x_row * (int64_t)falt_type_size(p->input.type);
  a->y_block = 4 * a->y_row * (int64_t)falt_type_size(p->output.type);
  a->aligned_x = is_aligned(a->x_row, a->x_plane, a->x_batch, p->input.type);
  a->aligned_y = is_aligned(a->y_row, a->y_plane, a->y_batch, p->output.type);
}

/* Tiles along columns: lower ones at the ends of rows, and as first and last of the other columns. */
static void cut_rows(toeplitz_plan *plan) {
  falt_cuda_toeplitz_args *a = &plan->args;
  const falt_toeplitz_cut *c = &plan->cut;
  a->steps = c->steps;
  a->end_steps = c->end_steps;
  a->end_columns = plan->linear ? 0 : a->column_tiles < 2 ? a->column_tiles : 2;
  a->all_steps = (int)falt_ceil_div(a->out_rows, 4 * c->tiles);
  a->end_rows = (int)falt_ceil_div(a->all_steps, c->end_steps);
  const int between = a->all_steps - 2 * c->end_steps;
  a->row_tiles = between > 0 ? (int)falt_ceil_div(between, c->steps) : 0;
}

static bool cut_image(toeplitz_plan *plan) {
  falt_cuda_toeplitz_args *a = &plan->args;
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_machine machine = falt_cuda_machine(plan->cuda.base.device);
  const int64_t columns = plan->linear ? a->x_row : a->out_columns;
  const falt_toeplitz_image image = {{a->out_planes, a->out_rows, columns},
                                     a->batch * p->input.size[FALT_N],
                                     (int)falt_type_size(p->input.type),
                                     (int)falt_type_size(p->output.type),
                                     a->aligned_x && a->aligned_y};
  falt_toeplitz_choose(&plan->bands, &image, &machine, &plan->cut);
  a->column_tiles = (int)falt_ceil_div(columns, falt_toeplitz_width(&plan->bands, &plan->cut));
  a->images = a->out_planes * image.batch;
  cut_rows(plan);
  const int64_t others = a->column_tiles - a->end_columns;
  const double tiles =
      (double)(a->end_columns * a->end_rows) + (double)others * (a->row_tiles + (a->end_rows > 1 ? 2 : 1));
  a->tiles = (int64_t)(tiles * (double)a->images);
  return tiles * (double)a->images / FALT_BANDS_WARPS < INT32_MAX && tiles < INT32_MAX;
}

/* The persistent variant: rows pass through shared memory, and no more blocks start than fit on the GPU. */
static void choose_ring(toeplitz_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const int before = (int)p->axis[FALT_W - FALT_D].pad[0] * plan->pixel;
  const int64_t resident = (int64_t)falt_gpu_about(plan->cuda.base.device->gpu)->multiprocessors * plan->cut.blocks;
  plan->ringed = falt_toeplitz_ringed(&plan->bands, &plan->cut, before) && plan->args.aligned_x &&
                 plan->args.aligned_y && plan->args.tiles < INT32_MAX;
  plan->bands.transposed = plan->ringed;
  plan->blocks = falt_ceil_div(plan->args.tiles, FALT_BANDS_WARPS);
  if (plan->ringed && plan->blocks > resident) plan->blocks = resident;
}

static falt_status upload(toeplitz_plan *plan) {
  enum { STARTS = 4 };
  falt_gpu *gpu = plan->cuda.base.device->gpu;
  const falt_tensor *w = &plan->cuda.base.problem.filter;
  const int64_t count = w->size[FALT_D] * w->size[FALT_H] * w->size[FALT_W];
  const size_t bytes = falt_toeplitz_bytes(&plan->bands), first_tap = bytes + STARTS * sizeof(int32_t);
  const size_t all = first_tap + (size_t)count * sizeof(float);
  char *host = falt_alloc(all);
  if (!host) return falt_fail(FALT_NO_MEMORY, "cuda-toeplitz: memory ran out");
  int32_t *starts = (int32_t *)(void *)(host + bytes);
  float *narrow = (float *)(void *)(host + first_tap);
  falt_toeplitz_fill(&plan->bands, plan->taps, host);
  for (int i = 0; i < STARTS; i++) starts[i] = FALT_BANDS_START;
  for (int64_t i = 0; i < count; i++) narrow[i] = (float)plan->taps[i];
  const falt_status status = falt_cuda_upload(gpu, &plan->cuda.memory, host, all);
  falt_free(host);
  if (status != FALT_OK) return status;
  plan->args.bands = plan->cuda.memory;
  plan->args.start = (const char *)plan->cuda.memory + bytes;
  plan->args.taps = (const float *)(const void *)((const char *)plan->cuda.memory + first_tap);
  return FALT_OK;
}

/* Whether a boundary reaches beyond one more length of an axis. */
static bool reaches_far(const falt_problem *p) {
  for (int i = 0; i < 3; i++) {
    const int64_t size = p->input.size[FALT_D + i], reach = p->output.size[FALT_D + i] + p->filter.size[FALT_D + i] - 1;
    if (p->axis[i].pad[0] >= size || reach - p->axis[i].pad[0] >= 2 * size) return true;
  }
  return false;
}

static void add_defines(const toeplitz_plan *plan, falt_cuda_kernel *kernel) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_type x = p->input.type, taps = falt_type_is_byte(x) ? FALT_S8 : x;
  int axis[3];
  order_axes(p, axis);
  falt_cuda_define(kernel, "KIND=%s", falt_cuda_products(taps, x));
  falt_cuda_axis_defines(kernel, p, 'T', axis[PLANE]);
  falt_cuda_axis_defines(kernel, p, 'R', axis[ROW]);
  falt_cuda_axis_defines(kernel, p, 'S', axis[COLUMN]);
  falt_cuda_define(kernel, "FAR=%d", reaches_far(p));
  falt_cuda_define(kernel, "PIXEL=%d", plan->pixel);
  falt_cuda_define(kernel, "CHANNELS=%d", plan->bands.channels);
  falt_cuda_define(kernel, "ELEMENT_Y=%s", falt_cuda_types[p->output.type].element);
  falt_cuda_define(kernel, "TYPE_X=%d", (int)p->input.type);
  falt_cuda_define(kernel, "TYPE_Y=%d", (int)p->output.type);
  falt_cuda_define(kernel, "PARTS=%d", plan->bands.parts);
  falt_cuda_define(kernel, "BIASED=%d", !plan->biased ? 0 : plan->bias.folded ? 1 : 2);
  falt_cuda_define(kernel, "CHUNKS=%d", plan->bands.chunks);
  falt_cuda_define(kernel, "SLOTS=%d", plan->bands.slots);
  falt_cuda_define(kernel, "GROUPS=%d", plan->cut.groups);
  falt_cuda_define(kernel, "TILES=%d", plan->cut.tiles);
  falt_cuda_define(kernel, "BANDS=%d", (int)plan->cut.place);
  falt_cuda_define(kernel, "WARPS=%d", FALT_BANDS_WARPS);
  falt_cuda_define(kernel, "BLOCKS=%d", plan->cut.blocks);
  falt_cuda_define(kernel, "LINEAR=%d", plan->linear);
  falt_cuda_define(kernel, "RINGED=%d", plan->ringed);
}

static falt_status ready(falt_plan *base) {
  toeplitz_plan *plan = (toeplitz_plan *)base;
  falt_cuda_kernel kernel = {
      .source = "cuda_toeplitz.cu", .entry = "falt_toeplitz", .shared_bytes = plan->cut.shared_bytes};
  add_defines(plan, &kernel);
  FALT_TRY(falt_gpu_kernel(base->device->gpu, &kernel, &plan->cuda.function));
  FALT_TRY(upload(plan));
  falt_free(plan->taps);
  plan->taps = NULL;
  return FALT_OK;
}

/* Interleaved bytes are separated if rows stay in registers: the Toeplitz matrices are then denser. False if the image
 * has too many tiles. */
static bool make_bands(toeplitz_plan *plan, const int taps[3]) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_toeplitz_kind kind = kind_of(p->input.type);
  const bool bytes = kind == FALT_BANDS_BYTES && falt_type_size(p->output.type) == 1;
  if (bytes && plan->pixel > 1 && plan->pixel <= 3 && !plan->linear) {
    falt_toeplitz_make(&plan->bands, kind, taps, 1, plan->taps);
    plan->bands.channels = plan->pixel;
    if (cut_image(plan) && plan->cut.place == FALT_BANDS_REGISTERS) return true;
  }
  falt_toeplitz_make(&plan->bands, kind, taps, plan->pixel, plan->taps);
  return cut_image(plan);
}

/* Outputs whose every sum is an integer stay exact. */
static void make_bias(toeplitz_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_type x = p->input.type;
  const double most = fmax(fabs(falt_type_min(x)), falt_type_max(x));
  if (plan->bands.kind != FALT_BANDS_BYTES || !falt_type_is_integer(p->output.type)) return;
  plan->biased = falt_toeplitz_bias_make(&plan->bias, &plan->bands, plan->taps, most, p->alpha, p->beta) &&
                 (plan->bias.error == 0 || isinf(falt_cuda_bound(p)));
  if (!plan->biased) return;
  memcpy(plan->args.weight, plan->bias.weight, sizeof plan->args.weight);
  plan->args.beta = plan->bias.offset;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  toeplitz_plan *plan = (toeplitz_plan *)base;
  const falt_problem *p = ask->problem;
  int axis[3], taps[3];
  plan->cuda.values = NULL; /* the matrices hold the filter */
  plan->taps = read_taps(p, ask->filter_values);
  if (!plan->taps) {
    falt_refuse_memory(ask);
    return ask->reason;
  }
  if (!are_finite(p, plan->taps)) return "the filter has infinite or undefined taps";
  order_axes(p, axis);
  for (int i = 0; i < 3; i++) taps[i] = (int)falt_cuda_size_along(&p->filter, axis[i]);
  plan->pixel = falt_cuda_interleaved(p) ? (int)p->input.size[FALT_G] : 1;
  plan->linear = is_line(p);
  set_args(plan, axis);
  if (plan->linear) fold_line(&plan->args);
  set_steps(&plan->args, p);
  if (!make_bands(plan, taps)) return "the image has more tiles than one launch can number";
  choose_ring(plan);
  plan->args.alpha = (float)(p->alpha * plan->bands.unit);
  make_bias(plan);
  base->cost.error = error_of(plan);
  base->cost.seconds = 2e-6 + plan->cut.seconds;
  return NULL;
}

static const falt_plan_steps steps = {sizeof(toeplitz_plan), {execute, print, destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_toeplitz;
const falt_solver falt_solver_cuda_toeplitz = {
    .name = "cuda-toeplitz", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps};
