/* Solver wgrad-pairs: weight gradients of dense bf16 layers, as GEMM in VNNI order by independent tasks.
 *
 *     dw[k, c, j] = sum over positions p of  x[p*stride + j*dilation - pad, c] * dy[p, k]
 *
 * Positions are the depth, in pairs. x at a tap gives rows of the product, dy the columns; with one tap that reads
 * inside, the roles may change. Adjacent channels (NHWC) are interleaved by pairs of positions. Adjacent positions
 * (NCHW) are pairs already: rows are read in place or copied, columns are transposed by pairs. Slices of positions
 * depend on the problem alone and are added in order. */
#include "solver/cpu/wgrad/wgrad_pairs.h"

#include <math.h>

#include "solver/cpu/common/rows.h"

enum {
  FEW_TASKS = 8,       /* below, positions are sliced */
  SHORT_SLICE = 12,    /* pieces */
  MOST_SUMS = 1 << 26, /* bytes of all slices, beyond one */
  TASKS_A_THREAD = 4,
};

static void print(const falt_plan *base, falt_text *text) {
  const falt_pairs_plan *plan = (const falt_pairs_plan *)base;
  falt_text_add(text, "(wgrad-pairs %s %s rows %lldx%lld slices=%lld threads=%d)", falt_isa_name(base->device->isa),
                plan->rows.is_input ? "input" : "output", (long long)plan->blocks[0].count,
                (long long)plan->blocks[1].count, (long long)plan->slices.count,
                falt_threads_count(base->device->threads));
}

/* ---- applicable, in addition to the conditions of all layers */

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  return p->operation != FALT_BACKWARD_FILTER                                ? "only backward-filter"
         : p->input.type != FALT_BF16 || p->output.type != FALT_BF16         ? "only bf16"
         : p->accumulator != FALT_F32                                        ? "sums are f32"
         : !falt_type_is_float(p->filter.type) || p->filter.type == FALT_F64 ? "only filters in bf16, f16 or f32"
         : !falt_layer_zeros_outside(p)                                      ? "only zeros outside"
         : p->has_bias                                                       ? "it has no bias gradient"
                                                                             : NULL;
}

/* ---- estimate */

/* Costs in f32 operations at the vectors' peak rate. For each element: columns and rows packed from NHWC, columns
 * transposed from NCHW, or copied. For each sum of a slice. For each element of dw: stored in place, after a transpose,
 * or alone because dw has gaps. AVX2 packs element by element. */
typedef struct expense {
  double paired, rows, crossed, copied, sum, result, transposed, apart;
} expense;
static const expense by_vectors = {8, 8, 8, 3, 6, 12, 40, 320}, by_avx2 = {80, 80, 64, 3, 6, 12, 40, 320},
                     by_matrix = {8, 16, 8, 3, 6, 12, 40, 320};
static const double share = 0.9;
static const double far_share = 1.02;       /* the same on more than two threads, by nine layers on 16 */
static const double per_span = 300;         /* overhead of copying a contiguous span of a channel's positions */
static const double per_padded_span = 1500; /* the same where a tap may read padding, so each line is clipped */
static const double accumulators = 8;       /* independent sums that hide the latency of a multiply-add */
static const double rows_apart = 1.5;       /* factor of loading operands whose rows are apart */
static const double repacking = 2;          /* factor of packing x again for each tap */
static const double matrix_share = 0.65;    /* of a matrix unit's rate, beside `share` */
static const double single_vector = 1.25;   /* factor of a panel of one vector, in which each product needs a load */

/* Of a position, for the channels of rows or columns that a task packs. */
static double packing(const falt_pairs_side *side, bool rows, bool edges, const expense *by) {
  const bool in_place = !edges && side->steps[3] == 1 && side->together % FALT_PAIRS_PIECE == 0;
  const double copied = in_place ? 0 : by->copied + (edges ? per_padded_span : per_span) / (double)side->together;
  const double pairs = (rows ? by->rows : by->paired) * (edges && rows ? repacking : 1);
  return side->lines ? (double)side->channels * (copied + (rows ? 0 : by->crossed))
                     : (double)falt_max(side->channels, FALT_TILE_ROWS) * pairs;
}

static int64_t rounded_rows(const falt_pairs_plan *plan, int64_t channels) {
  const int64_t tiles = falt_ceil_div(channels, FALT_TILE_ROWS);
  return tiles * (plan->matrix ? FALT_TILE_ROWS : falt_ceil_div(channels, tiles));
}

static const expense *expense_of(const falt_pairs_plan *plan) {
  return plan->matrix ? &by_matrix : plan->base.device->isa < FALT_ISA_AVX512 ? &by_avx2 : &by_vectors;
}

/* Products at a time, in f32 multiply-adds. */
static double speed_of(const falt_pairs_plan *plan, const falt_device *device) {
  const double speed = plan->kernels->speed[FALT_TILES_BF16];
  return falt_halves_speed(device, plan->matrix ? matrix_share * speed : speed);
}

/* The operations of a group. */
static double cost(const falt_pairs_plan *plan, const falt_pairs_side *rows, const falt_pairs_side *columns) {
  const falt_device *device = plan->base.device;
  const expense *by = expense_of(plan);
  const double speed = speed_of(plan, device);
  const double positions = (double)plan->layer.positions, m = (double)rows->channels, n = (double)columns->channels;
  const int64_t whole = columns->channels / FALT_TILES_COLUMNS * FALT_TILES_COLUMNS, rest = columns->channels - whole;
  const double wide = (double)whole + (rest == 0               ? 0
                                       : rest > FALT_TILE_ROWS ? FALT_TILES_COLUMNS
                                                               : (plan->matrix ? 1 : single_vector) * FALT_TILE_ROWS);
  const double taps = (double)plan->layer.taps, sums = taps * (double)rounded_rows(plan, rows->channels) * wide;
  const double alone = 2 * (double)falt_min(rows->channels, FALT_TILE_ROWS); /* vectors of a tile's sums */
  const double products = 2 * sums * positions / speed * (alone < accumulators ? accumulators / alone : 1);
  const double packed = positions * (taps * packing(rows, true, plan->edges, by) * (double)plan->blocks[1].count +
                                     packing(columns, false, false, by) * (double)plan->blocks[0].count);
  const double result = columns->filter == 1 ? by->result : rows->filter == 1 ? by->transposed : by->apart;
  return products + packed + sums * by->sum * (double)plan->slices.count + taps * m * n * result;
}

static double share_of(const falt_device *device) {
  return falt_caches_are_far(device) ? far_share : share;
}

static int64_t task_count(const falt_pairs_plan *plan) {
  return plan->layer.p.filter.size[FALT_G] * plan->blocks[0].count * plan->blocks[1].count * plan->slices.count;
}

/* Seconds in which a thread loads the operands of its tasks: neighbouring tasks are slices of one block, then blocks of
 * rows of the same columns. */
static double loading(const falt_pairs_plan *plan, const falt_device *device) {
  const int64_t slices = plan->slices.count, across = plan->blocks[0].count;
  const int64_t tasks = falt_ceil_div(task_count(plan), falt_threads_count(device->threads));
  const int64_t rows = falt_min(plan->rows.channels, falt_layer_most(&plan->blocks[0]) * FALT_TILES_ROWS);
  const int64_t columns = falt_min(plan->columns.channels, falt_layer_most(&plan->blocks[1]) * FALT_TILES_COLUMNS);
  const int64_t channels = rows * falt_min(falt_ceil_div(tasks, slices), across) + columns;
  const double positions = (double)plan->layer.positions / (double)slices;
  const double bytes = (double)(falt_min(tasks, slices) * channels) * positions * sizeof(uint16_t);
  return rows_apart * falt_wgrad_loading(device, &plan->base.problem, bytes);
}

/* Seconds in which a thread stores its sums and joins slices: most of its tiles are of its own part, whose slices are
 * the tasks of several threads. Loading takes a third of storing. */
static double storing(const falt_pairs_plan *plan, const falt_device *device) {
  const double groups = (double)plan->layer.p.filter.size[FALT_G], threads = falt_threads_count(device->threads);
  const double result =
      (double)(falt_tensor_count(&plan->layer.p.filter)) * (double)falt_type_size(plan->layer.p.filter.type) / threads;
  if (plan->slices.count == 1) return falt_wgrad_storing(device, result);
  const double squares = groups * (double)(plan->pairs * plan->panels * plan->slices.count);
  const double sums = squares * FALT_PAIRS_SQUARE * sizeof(float) / threads;
  const double others = fmax(0, 1 - (double)task_count(plan) / (threads * (double)plan->slices.count));
  return falt_wgrad_storing(device, result + sums * (1 + others / 3)) + falt_loop_starts(device, 1);
}

/* The operations of all tasks, and of threads that wait for the last ones. */
static double work(const falt_pairs_plan *plan, const falt_device *device) {
  return (double)plan->layer.p.filter.size[FALT_G] * cost(plan, &plan->rows, &plan->columns) *
         falt_far_imbalance(device, task_count(plan));
}

/* ---- plan */

/* lines_alone: lines are not joined, because their ends may read outside. */
static falt_pairs_side side_of(const falt_problem *p, bool is_input, bool lines_alone) {
  const falt_tensor *t = is_input ? &p->input : &p->output;
  falt_pairs_side side = {.is_input = is_input,
                          .lines = !falt_tensor_unit(t, FALT_C),
                          .steps = {t->stride[FALT_N]},
                          .channel = t->stride[FALT_C],
                          .channels = t->size[FALT_C],
                          .filter = p->filter.stride[is_input ? FALT_C : FALT_K]};
  for (int a = 0; a < 3; a++) side.steps[1 + a] = t->stride[FALT_D + a] * (is_input ? p->axis[a].stride : 1);
  const int64_t sizes[4] = {p->output.size[FALT_N], p->output.size[FALT_D], p->output.size[FALT_H],
                            p->output.size[FALT_W]};
  side.together = sizes[3];
  for (int i = 2; i >= 0 && !lines_alone && (sizes[i] == 1 || side.steps[i] == side.steps[3] * side.together); i--)
    side.together *= sizes[i];
  return side;
}

/* Blocks of rows and of columns: enough tasks, and as little as possible packed more than once. A block's columns stay
 * in the second-level cache. */
static void set_blocks(falt_pairs_plan *plan) {
  const falt_device *device = plan->base.device;
  const int64_t threads = falt_threads_count(device->threads);
  const int64_t wanted = threads == 1 ? 1 : falt_ceil_div(TASKS_A_THREAD * threads, plan->slices.count);
  const int64_t pieces = falt_min(FALT_PAIRS_PIECES, falt_layer_most(&plan->slices));
  const int64_t most = falt_max(1, (int64_t)device->caches.l2 / 2 / (pieces * 2 * FALT_TILE));
  const int64_t least = falt_ceil_div(plan->panels, most);
  double lowest = 0;
  for (int64_t across = 1; across <= falt_min(plan->pairs, wanted); across++) {
    const int64_t along = falt_min(plan->panels, falt_max(least, falt_ceil_div(wanted, across)));
    const falt_pairs_plan before = *plan;
    plan->blocks[0] = falt_layer_cut(plan->pairs, across);
    plan->blocks[1] = falt_layer_cut(plan->panels, along);
    const double few = 1 + (double)falt_max(0, wanted - across * along) / (double)wanted;
    const double seconds = work(plan, device) / (share_of(device) * device->limits.f32_flops);
    const double now = few * (seconds + loading(plan, device) + storing(plan, device));
    if (across == 1 || now < lowest)
      lowest = now;
    else
      *plan = before;
  }
}

/* Bytes of the sums of a slice. */
static double slice_bytes(const falt_problem *p) {
  const int64_t *taps = p->filter.size, square = FALT_TILES_COLUMNS;
  const double all = (double)taps[FALT_D] * (double)taps[FALT_H] * (double)taps[FALT_W] * (double)taps[FALT_G];
  return all * (double)falt_ceil_div(p->input.size[FALT_C], square) *
         (double)falt_ceil_div(p->output.size[FALT_C], square) * FALT_PAIRS_SQUARE * sizeof(float);
}

static void set_sizes(falt_pairs_plan *plan) {
  const falt_pairs_side x = side_of(&plan->layer.p, true, plan->edges), y = side_of(&plan->layer.p, false, false);
  const int64_t pieces = falt_ceil_div(plan->layer.positions, FALT_PAIRS_PIECE);
  const int64_t parts = falt_ceil_div(plan->layer.taps * x.channels * y.channels, 256 * 256);
  plan->blocks[0] = plan->blocks[1] = falt_layer_cut(1, 1);
  const int64_t room = falt_max(1, (int64_t)((double)MOST_SUMS / slice_bytes(&plan->layer.p)));
  const int64_t slices = falt_min(FEW_TASKS / falt_min(FEW_TASKS, parts), pieces / SHORT_SLICE);
  plan->slices = falt_layer_cut(pieces, falt_max(1, falt_min(slices, room)));
  const bool input_rows = plan->edges || cost(plan, &x, &y) < cost(plan, &y, &x);
  plan->rows = input_rows ? x : y;
  plan->columns = input_rows ? y : x;
  plan->tiles = falt_ceil_div(plan->rows.channels, FALT_TILE_ROWS);
  plan->tile_rows = plan->matrix ? FALT_TILE_ROWS : falt_ceil_div(plan->rows.channels, plan->tiles);
  plan->tap_pairs = falt_ceil_div(plan->tiles, 2);
  plan->pairs = plan->layer.taps * plan->tap_pairs;
  plan->panels = falt_ceil_div(plan->columns.channels, FALT_TILES_COLUMNS);
  plan->kept = plan->slices.count > 1 || pieces > FALT_PAIRS_PIECES;
  set_blocks(plan);
}

static void lay_memory(falt_pairs_plan *plan) {
  const size_t panel = (size_t)falt_min(FALT_PAIRS_PIECES, falt_layer_most(&plan->slices)) * 2 * FALT_TILE;
  const size_t squares = (size_t)(plan->layer.p.filter.size[FALT_G] * plan->pairs * plan->panels * plan->slices.count);
  falt_memory_layout *all = &plan->base.layout;
  plan->at.rows = falt_place_part(&plan->at.parts, panel);
  plan->at.columns = falt_place_part(&plan->at.parts, (size_t)falt_layer_most(&plan->blocks[1]) * panel);
  falt_rows_place(all, plan->base.device, &plan->at.parts);
  plan->partial = falt_place_part(all, plan->kept ? squares * FALT_PAIRS_SQUARE * sizeof(float) : 0);
  plan->base.workspace = all->total;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  falt_pairs_plan *plan = (falt_pairs_plan *)base;
  falt_problem forward = *ask->problem;
  forward.operation = FALT_FORWARD;
  const char *why = falt_layer_shape(&plan->layer, &forward, ask->device->isa);
  if (why) return why;
  const falt_problem *p = &plan->layer.p;
  if (!falt_wgrad_is_contiguous(&p->input)) return "neither channels nor pixels of the input are adjacent";
  if (!falt_wgrad_is_contiguous(&p->output)) return "neither channels nor pixels of the output are adjacent";
  plan->kernels = falt_tiles_kernels_for(ask->device->isa);
  plan->outer = falt_outer_kernels_for(ask->device->isa);
  if (slice_bytes(p) > (double)INT32_MAX) return "its sums exceed 2 GB";
  plan->matrix = plan->kernels->together > 1;
  plan->edges = !falt_wgrad_is_pointwise(p);
  set_sizes(plan);
  lay_memory(plan);
  base->cost.seconds = falt_roofline(ask->device, FALT_F32, work(plan, ask->device), share_of(ask->device),
                                     falt_problem_bytes(ask->problem)) +
                       loading(plan, ask->device) + storing(plan, ask->device);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(falt_pairs_plan), {falt_pairs_execute, print, falt_plan_free, NULL}, inapplicable, choose};

extern const falt_solver falt_solver_wgrad_pairs;
const falt_solver falt_solver_wgrad_pairs = {
    .name = "wgrad-pairs", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps};
