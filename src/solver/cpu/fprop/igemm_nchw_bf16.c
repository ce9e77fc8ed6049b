/* Solver igemm-nchw-bf16: fprop of dense NCHW layers in bf16 as implicit GEMM in VNNI order, by AMX if there is one.
 *
 *     y[k, p] = sum over channels c and taps j of  w[k, c, j] * x[c, p*stride + j*dilation - pad]
 *
 * Rows are output channels of the filter, columns are positions, and outputs leave in their order in memory. A panel
 * has 32 positions: each load takes as many neighbours of one channel at one tap, with zeros for those that are outside
 * the input, and the loads of two successive elements of the depth are interleaved. So the input is not copied first
 * and no thread waits for another. Where all axes have a stride of 1 and lines of the output are as long as those of
 * the input, a tap reads at a fixed distance from its position, and panels go over the ends of rows. */
#include "solver/cpu/fprop/igemm_nchw_bf16.h"

#include <math.h>

#include "core/memory.h"
#include "solver/common/tasks.h"
#include "solver/cpu/common/planes.h"

enum { PIECE = FALT_NCHW_BF16_PIECE, COLUMNS = FALT_TILES_COLUMNS, ROWS = FALT_TILE_ROWS, MOST_DEPTH = 1 << 16 };

static int64_t thread_count(const falt_nchw_bf16_plan *plan) {
  return falt_threads_count(plan->base.device->threads);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_nchw_bf16_plan *plan = (const falt_nchw_bf16_plan *)base;
  falt_text_add(text, "(igemm-nchw-bf16 %s %s%s tasks=%lldx%lld threads=%d)", falt_isa_name(base->device->isa),
                plan->images ? "images" : "rows",
                plan->in_place   ? " in place"
                : plan->own_rows ? " just-in-time"
                                 : "",
                (long long)plan->chunks.count, (long long)plan->bands.count, (int)thread_count(plan));
}

static void destroy(falt_plan *base) {
  falt_nchw_bf16_plan *plan = (falt_nchw_bf16_plan *)base;
  falt_free(plan->offset);
  falt_free(plan->tap);
  falt_free(plan->packed);
  falt_free(plan);
}

/* ---- applicable, in addition to the conditions of all layers */

static bool is_narrow_float(falt_type type) {
  return falt_type_is_float(type) && type != FALT_F64;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  return p->operation != FALT_FORWARD                                                                  ? "only forward"
         : !falt_tiles_multiplies_pairs(p->input.type) || !falt_tiles_multiplies_pairs(p->filter.type) ? "only bf16"
         : !is_narrow_float(p->output.type)                      ? "only outputs in bf16, f16 or f32"
         : p->has_residual && !is_narrow_float(p->residual.type) ? "only residuals in bf16, f16 or f32"
         : p->accumulator != FALT_F32                            ? "sums are f32"
         : !falt_layer_zeros_outside(p)                          ? "only zeros outside"
         : p->axis[2].stride > 2 && p->output.size[FALT_W] > 1   ? "its stride along the width is more than 2"
                                                                 : NULL;
}

/* Whether all elements of a row are one run, `inner` of them before the next of the outer ones. */
static bool is_run(int64_t inner, int64_t outer, int64_t step, int64_t apart) {
  return (step == 1 || inner == 1) && (apart == inner || outer == 1);
}

/* How rows of the filter are packed, and the order of their elements. */
static void find_rows(falt_nchw_bf16_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *w = &layer->p.filter;
  const int64_t step = falt_tensor_tap_step(w), channels = layer->channels, taps = layer->taps;
  const int64_t distance = step < 0 ? -step : step; /* 0: taps are not equally spaced */
  plan->channels = channels;
  plan->packing = FALT_ROWS_COPIED;
  if (taps == 1 && !falt_tensor_unit(w, FALT_C) && falt_tensor_unit(w, FALT_K)) {
    plan->packing = FALT_ROWS_TRANSPOSED;
  } else if (distance > 0 && is_run(channels, taps, w->stride[FALT_C], distance)) {
    plan->backwards = step < 0 && taps > 1;
  } else if (distance > 0 && is_run(taps, channels, distance, w->stride[FALT_C])) {
    plan->taps_inner = true;
    plan->backwards = step < 0 && taps > 1;
  } else {
    plan->packing = FALT_ROWS_GATHERED;
    plan->channels = falt_round_up(channels, 2);
  }
}

/* Whether taps read at a fixed distance from the positions of an image, wherever its rows end. */
static bool runs_on(const falt_problem *p) {
  const int64_t *x = p->input.size, *y = p->output.size;
  for (int a = 0; a < 3; a++)
    if (p->axis[a].stride != 1 && y[FALT_D + a] > 1) return false;
  return x[FALT_W] == y[FALT_W] && (y[FALT_D] == 1 || x[FALT_H] == y[FALT_H]) && falt_planes_adjacent(&p->input) &&
         falt_planes_adjacent(&p->output) && (!p->has_residual || falt_planes_adjacent(&p->residual));
}

/* Whether neighbouring positions of a line have adjacent outputs, and read inputs that are `apart` elements from each
 * other. */
static bool has_neighbours(const falt_nchw_bf16_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const bool input = p->input.stride[FALT_W] == 1 || p->output.size[FALT_W] == 1;
  return plan->images || (input && falt_tensor_unit(&p->output, FALT_W) &&
                          (!p->has_residual || falt_tensor_unit(&p->residual, FALT_W)));
}

/* Whether tiles may be the rows of the caller's filter: matrix units read whole tiles, vectors pairs. */
static bool reads_in_place(const falt_nchw_bf16_plan *plan) {
  const int64_t unit = plan->kernels->together > 1 ? PIECE : 2;
  return plan->packing == FALT_ROWS_COPIED && plan->depth % unit == 0 &&
         plan->tiles * plan->tile_rows == plan->layer.results;
}

/* ---- estimate */

/* In f32 operations at the vectors' peak rate: for each element of a panel; for each sum; for each product of a panel
 * and a pair of tiles; for each panel; for each element of a packed row, and each two channels that are gathered. AVX2
 * packs panels element by element. */
static const double per_element = 8, per_element_avx2 = 80, per_sum = 6, per_product = 3000, per_panel = 4000;
static const double apart = 4; /* factor of elements of a panel that are 2 apart */
static const double per_packed = 6, per_gather = 8000;
static const double share = 0.85;         /* of the multiply-add peak */
static const double matrix_share = 0.65;  /* of a matrix unit's rate, beside `share` */
static const double single_vector = 1.25; /* factor of products of a panel of one tile by vectors */
static const double in_order = 0.5;       /* of the time of loading one line after the other */

/* Columns that are multiplied, of a group: whole tiles. Vectors load one for each product of a panel of one tile. */
static double columns_of(const falt_nchw_bf16_plan *plan) {
  const int64_t whole = plan->length / COLUMNS * COLUMNS, rest = plan->length - whole;
  const double alone = plan->kernels->together > 1 ? 1 : single_vector;
  const double last = rest == 0 ? 0 : rest > ROWS ? COLUMNS : alone * ROWS;
  return (double)plan->lines * ((double)whole + last);
}

/* Of all groups' rows. A gathering call has two channels of 32 rows at a few taps; one tap that is alone costs as much.
 */
static double packing(const falt_nchw_bf16_plan *plan) {
  const double elements = (double)(falt_nchw_bf16_groups(plan) * falt_nchw_bf16_packed(plan));
  const double calls = elements / (double)(2 * 2 * plan->tile_rows * plan->layer.taps);
  return elements * per_packed + (plan->packing == FALT_ROWS_GATHERED ? calls * per_gather : 0);
}

static double work(const falt_nchw_bf16_plan *plan, const falt_device *device) {
  const bool matrix = plan->kernels->together > 1;
  const double listed = plan->kernels->speed[FALT_TILES_BF16] * (matrix ? matrix_share : 1);
  const double speed = falt_halves_speed(device, listed), depth = (double)falt_nchw_bf16_row(plan);
  const double columns = columns_of(plan), rows = (double)(plan->tiles * plan->tile_rows);
  const double panels = (double)(plan->lines * plan->panels), chunks = (double)plan->chunks.count;
  const double element = device->isa < FALT_ISA_AVX512 ? per_element_avx2
                         : plan->apart == 1            ? per_element
                                                       : apart * per_element;
  const double products = 2 * rows * columns * depth / speed + rows * columns * per_sum +
                          panels * (double)falt_nchw_bf16_pairs(plan) * per_product;
  const double packed = chunks * (columns * depth * element + panels * per_panel);
  const double own = plan->own_rows ? (double)plan->bands.count * packing(plan) : 0;
  return (double)falt_nchw_bf16_groups(plan) * (products + packed) + own;
}

/* Seconds in which a thread loads the input once more for each further chunk, and rows that it packs or that others
 * have packed. */
static double loads(const falt_nchw_bf16_plan *plan, const falt_device *device) {
  const double chunks = (double)plan->chunks.count, threads = falt_threads_count(device->threads);
  const double rows = falt_tensor_bytes(&plan->layer.p.filter) / chunks;
  const double input = falt_tensor_bytes(&plan->layer.p.input) * (chunks - 1) / threads;
  const double rounds = ceil((double)falt_nchw_bf16_tasks(plan) / threads);
  return in_order * falt_load_shared(device, input + (plan->own_rows ? rounds * rows : 0)) +
         falt_load_written(device, falt_nchw_bf16_packs_all(plan) ? rows : 0) +
         falt_filter_loads(device, falt_tensor_bytes(&plan->layer.p.filter), plan->bands.count, plan->chunks.count);
}

/* The work of the thread with most of it, as a multiple of an equal share. */
static double uneven(const falt_nchw_bf16_plan *plan, double threads) {
  const double rounds = ceil((double)falt_nchw_bf16_tasks(plan) / threads);
  const double most = (double)(falt_layer_most(&plan->bands) * falt_layer_most(&plan->chunks));
  const double all = (double)(falt_nchw_bf16_groups(plan) * plan->lines * plan->panels * falt_nchw_bf16_pairs(plan));
  return fmax(1, rounds * most * threads / all);
}

static double estimate(const falt_nchw_bf16_plan *plan, const falt_device *device) {
  const double all = work(plan, device) * uneven(plan, falt_threads_count(device->threads));
  const double before = falt_nchw_bf16_packs_all(plan) ? falt_roofline(device, FALT_F32, packing(plan), share, 0) : 0;
  return falt_roofline(device, FALT_F32, all, share, falt_problem_bytes(&plan->layer.p)) + loads(plan, device) + before;
}

/* ---- plan */

static void keep_better(falt_nchw_bf16_plan *plan, int64_t chunks, int64_t bands, bool own) {
  falt_nchw_bf16_plan other = *plan;
  other.chunks = falt_layer_cut(falt_nchw_bf16_pairs(plan), chunks);
  other.bands = falt_layer_cut(plan->lines * plan->panels, bands);
  other.own_rows = own;
  other.base.cost.seconds = estimate(&other, plan->base.device);
  if (plan->chunks.count == 0 || other.base.cost.seconds < plan->base.cost.seconds) *plan = other;
}

/* Chunks of rows by bands of panels: one task a thread, or a few. */
static void set_tasks(falt_nchw_bf16_plan *plan) {
  enum { MOST_TASKS = 4 /* of a thread */ };
  const int64_t threads = thread_count(plan), most = falt_min(falt_nchw_bf16_pairs(plan), MOST_TASKS * threads);
  const int64_t panels = plan->lines * plan->panels, l2 = (int64_t)plan->base.device->caches.l2;
  const bool packs = !plan->base.packed && !plan->in_place;
  for (int64_t chunks = 1; chunks <= most; chunks++)
    for (int64_t each = 1; each <= MOST_TASKS; each *= 2) {
      const int64_t wanted = threads == 1 ? 1 : each * threads;
      const int64_t bands = falt_min(panels, falt_ceil_div(wanted, chunks * falt_nchw_bf16_groups(plan)));
      const int64_t rows = falt_ceil_div(falt_nchw_bf16_pairs(plan), chunks) * 2 * plan->tile_rows;
      keep_better(plan, chunks, bands, false);
      if (packs && rows * falt_nchw_bf16_row(plan) * 2 <= l2 / 2) keep_better(plan, chunks, bands, true);
    }
}

static void lay_memory(falt_nchw_bf16_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const int64_t *taps = &layer->p.filter.size[FALT_D];
  const int64_t rows = falt_layer_most(&plan->chunks) * 2 * plan->tile_rows, groups = falt_nchw_bf16_groups(plan);
  falt_memory_layout *all = &plan->base.layout;
  plan->at.panel = falt_place_part(&plan->at.parts, (size_t)plan->pieces * 2 * FALT_TILE);
  plan->at.rows = falt_place_part(&plan->at.parts, plan->own_rows ? (size_t)(rows * falt_nchw_bf16_row(plan)) * 2 : 0);
  plan->at.inside = falt_place_part(&plan->at.parts, (size_t)(taps[0] + taps[1] + taps[2]) * sizeof(uint32_t));
  plan->at.keep = falt_place_part(&plan->at.parts, (size_t)(layer->taps + 1) * sizeof(uint32_t));
  falt_rows_place(all, plan->base.device, &plan->at.parts);
  plan->factors = falt_place_part(all, 2 * (size_t)(groups * layer->results) * sizeof(float));
  plan->filter =
      falt_place_part(all, falt_nchw_bf16_packs_all(plan) ? (size_t)(groups * falt_nchw_bf16_packed(plan)) * 2 : 0);
  plan->base.workspace = all->total;
}

/* Panels that go over the ends of rows and planes take an axis of size 1 for what its neighbours make it, whatever its
 * stride. */
static void set_steps(falt_nchw_bf16_plan *plan) {
  const falt_tensor *x = &plan->layer.p.input;
  int64_t step = 1;
  for (int a = 2; a >= 0; a--) {
    plan->step[a] = plan->images ? step : x->stride[FALT_D + a];
    step *= x->size[FALT_D + a];
  }
}

static void set_sizes(falt_nchw_bf16_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_problem *p = &layer->p;
  const int64_t *y = p->output.size;
  const bool matrix = plan->kernels->together > 1;
  plan->depth = plan->channels * layer->taps;
  plan->pieces = falt_ceil_div(plan->depth, PIECE);
  plan->tiles = falt_ceil_div(layer->results, ROWS);
  plan->tile_rows = matrix || !layer->plain || plan->packing == FALT_ROWS_GATHERED
                        ? ROWS
                        : falt_ceil_div(layer->results, plan->tiles);
  plan->images = runs_on(p);
  set_steps(plan);
  plan->apart = plan->images ? 1 : p->axis[2].stride;
  plan->length = plan->images ? y[FALT_D] * y[FALT_H] * y[FALT_W] : y[FALT_W];
  plan->lines = layer->positions / plan->length;
  plan->panels = falt_ceil_div(plan->length, COLUMNS);
}

/* Packs a filter that is known. */
static falt_status take_filter(falt_nchw_bf16_plan *plan) {
  plan->packed = falt_alloc((size_t)(falt_nchw_bf16_groups(plan) * falt_nchw_bf16_packed(plan)) * sizeof *plan->packed);
  if (!plan->packed) return falt_fail(FALT_NO_MEMORY, "planning: memory for the packed filter ran out");
  falt_nchw_bf16_pack(plan, plan->values, plan->packed);
  plan->values = NULL;
  return FALT_OK;
}

/* What only the chosen plan needs. */
static falt_status ready(falt_plan *base) {
  falt_nchw_bf16_plan *plan = (falt_nchw_bf16_plan *)base;
  const size_t row = (size_t)falt_nchw_bf16_row(plan);
  plan->offset = falt_alloc(row * sizeof *plan->offset);
  plan->tap = falt_alloc(row * sizeof *plan->tap);
  if (!plan->offset || !plan->tap) return falt_fail(FALT_NO_MEMORY, "planning: memory for a list of taps ran out");
  falt_nchw_bf16_order(plan);
  return plan->values ? take_filter(plan) : FALT_OK;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  falt_nchw_bf16_plan *plan = (falt_nchw_bf16_plan *)base;
  const char *why = falt_layer_shape(&plan->layer, ask->problem, ask->device->isa);
  if (why) return why;
  find_rows(plan);
  plan->kernels = falt_tiles_kernels_for(ask->device->isa);
  set_sizes(plan);
  if (!has_neighbours(plan)) return "pixels of a row are not adjacent";
  if (plan->depth > MOST_DEPTH) return "a panel of all its taps does not fit into a cache";
  plan->values = ask->filter_values;
  base->packed = plan->values != NULL;
  plan->in_place = !base->packed && reads_in_place(plan);
  set_tasks(plan);
  lay_memory(plan);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(falt_nchw_bf16_plan), {falt_nchw_bf16_execute, print, destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_igemm_nchw_bf16;
const falt_solver falt_solver_igemm_nchw_bf16 = {
    .name = "igemm-nchw-bf16", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps};
