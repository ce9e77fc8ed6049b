/* Repeated boxes along one axis, which approximate Gaussians, in a time that does not depend on their size.
 *
 * Applies where the filter's values are known when planning, lie along one axis, and are boxes convolved with each
 * other (problem/box_chain.h). Filters of several axes come here axis by axis, from separable-passes-cpu. Sums
 * are only added (van Herk, 1992), so what is not finite stays in its windows. How it runs: repeated_boxes_run.c. */
#include "solver/cpu/running_sums/repeated_boxes.h"

#include <math.h>

enum { MAX_SCRATCH = 64 << 20, MAX_SPAN = 1 << 22, MAX_STRIDE = 64, MAX_DEPTH = 1 << 24, MAX_TAPS = 1 << 15 };

typedef struct boxes_plan {
  falt_plan base;
  falt_repeated_boxes how;
} boxes_plan;

static void boxes_execute(const falt_plan *base, const falt_operands *operands) {
  falt_repeated_boxes_run(&((const boxes_plan *)base)->how, base->device, operands);
}

static void boxes_print(const falt_plan *base, falt_text *text) {
  const falt_repeated_boxes *how = &((const boxes_plan *)base)->how;
  const falt_box_chain *chain = &how->chain;
  falt_text_add(text, "(repeated-boxes %s %s %c=", falt_isa_name(base->device->isa),
                falt_type_name(falt_lane_type(how->rows.lane)), "zyx"[how->axis]);
  for (int i = 0; i < chain->count; i++) falt_text_add(text, "%lldx", (long long)chain->size[i]);
  falt_text_add(text, "%lld", (long long)chain->inner);
  if (chain->outer) falt_text_add(text, "+%lld", (long long)chain->outer);
  falt_text_add(text, " block=%lldx%lld threads=%d)", (long long)how->block[how->axis], (long long)how->lanes,
                falt_threads_count(base->device->threads));
}

/* ---- applicable */

static const char *find_axis(falt_repeated_boxes *how, const falt_problem *p) {
  const falt_rows *rows = &how->rows;
  int axes = 0;
  for (int i = 0; i < 3; i++)
    if (rows->taps[i] > 1) how->axis = i, axes++;
  const falt_axis *axis = &rows->axis[how->axis];
  return axes != 1                                                     ? "the filter does not lie along one axis"
         : p->filter.size[FALT_G] > 1 && p->filter.stride[FALT_G] != 0 ? "the groups have filters of their own"
         : axis->stride > MAX_STRIDE ? "a stride above 64: most sums would not be wanted"
         : (double)rows->taps[how->axis] * (double)axis->dilation > MAX_SPAN ? "the taps reach further than 2^22"
                                                                             : NULL;
}

/* Splits the taps into boxes; each before the last has a power of two for its weight, so that sums stay as large as
 * the elements. */
static const char *find_boxes(falt_repeated_boxes *how, const falt_problem *p, const void *values) {
  const int64_t count = how->rows.taps[how->axis];
  if (count > MAX_TAPS) return "more than 32768 taps";
  const double rounding = how->rows.lane == FALT_LANE_F32 ? ldexp(1, -22) : ldexp(1, -48);
  falt_box_chain *chain = &how->chain;
  double *taps = falt_alloc((size_t)count * sizeof *taps);
  if (!taps) return "memory for the filter's taps is short";
  falt_problem_taps(p, values, 0, FALT_F64, taps);
  const bool found = falt_box_chain_find(chain, taps, count, rounding);
  falt_free(taps);
  if (!found) return "the filter is not boxes, once or repeated";
  for (int i = 0; i < chain->count; i++) {
    const double up = ldexp(1, (int)ceil(log2((double)chain->size[i])));
    how->weight[i] = 1 / up;
    chain->at_inner *= up;
    chain->at_outer *= up;
  }
  const double largest = how->rows.lane == FALT_LANE_F32 ? 0x1p120 : 0x1p1000;
  return fabs(chain->at_inner) < largest && fabs(chain->at_outer) < largest ? NULL : "the taps are too large";
}

/* Whether the first sum can read rows in place: all columns are inside them, and one sum reads them. */
static bool is_direct(const falt_repeated_boxes *how) {
  const falt_rows *rows = &how->rows;
  const falt_box_chain *chain = &how->chain;
  bool one = !chain->outer;
  for (int i = 0; i < chain->count; i++) one |= chain->size[i] > 1;
  return how->axis != 2 && one && rows->in_place && rows->axis[2].pad[0] <= 0 &&
         rows->out[2] - rows->axis[2].pad[0] <= rows->in[2];
}

/* Along z: rows that follow each other in input and output are one. */
static void merge_rows(falt_rows *rows) {
  const falt_axis *y = &rows->axis[1], *x = &rows->axis[2];
  if (rows->in[1] != rows->out[1] || rows->in[2] != rows->out[2] || y->stride > 1 || x->stride > 1) return;
  if (y->pad[0] || x->pad[0] || rows->in_stride[3] != rows->in[2] * rows->in_stride[4] ||
      rows->out_stride[3] != rows->out[2] * rows->out_stride[4])
    return;
  rows->in[2] *= rows->in[1];
  rows->out[2] = rows->in[2];
  rows->in[1] = rows->out[1] = 1;
}

/* ---- sizes: of the problem and the caches, not of the number of threads, so that results do not depend on it */

static int64_t position_bytes(const falt_repeated_boxes *how, int64_t lanes) {
  const int64_t size = (int64_t)how->rows.lane_size, wide = how->chain.outer ? FALT_BOXES_BYTES : 0;
  return how->axis == 2 ? (2 * FALT_BOXES_BYTES + wide) * how->rows.pixel : lanes * size + wide;
}

/* Outputs of a task along the filter's axis: as many as half of the second cache holds, and enough that what they read
 * beside themselves is less than they are. */
static int64_t block_of(const falt_repeated_boxes *how, const falt_device *device, int64_t lanes) {
  const int64_t out = how->rows.out[how->axis], stride = how->rows.axis[how->axis].stride;
  const int64_t reach = falt_repeated_boxes_reach(how, 1);
  const int64_t fits = (int64_t)(0.5 * (double)device->caches.l2) / position_bytes(how, lanes) - reach;
  const int64_t most = falt_max(fits, 2 * reach) / stride + 1;
  return falt_ceil_div(out, falt_ceil_div(out, most));
}

static void choose_blocks(falt_repeated_boxes *how, const falt_device *device) {
  enum { GROUPS = 4, DIRECT_GROUPS = 32 };
  const falt_rows *rows = &how->rows;
  const int64_t lanes = FALT_BOXES_BYTES / (int64_t)rows->lane_size, reach = falt_repeated_boxes_reach(how, 1);
  how->block[0] = how->block[1] = how->block[2] = 1;
  how->lanes = lanes;
  if (how->axis != 2) {
    int64_t groups = how->direct ? DIRECT_GROUPS : GROUPS;
    while (groups > 1 && (double)(4 * reach * position_bytes(how, groups * lanes)) > 0.5 * (double)device->caches.l2)
      groups /= 2;
    how->block[2] = falt_min(rows->out[2], falt_max(1, groups * lanes / rows->pixel));
    how->lanes = how->block[2] * rows->pixel;
  }
  how->block[how->axis] = block_of(how, device, how->lanes);
}

static bool place(boxes_plan *plan, falt_ask *ask) {
  falt_repeated_boxes *how = &plan->how;
  const int64_t limit = ask->budget->max_workspace;
  const double depth = (double)falt_repeated_boxes_reach(how, how->block[how->axis]) * (double)how->rows.pixel;
  if (depth > MAX_DEPTH) return falt_refuse(ask, "its lines are longer than 2^24");
  const size_t scratch = falt_repeated_boxes_scratch(how);
  falt_place_part(&how->scratch, scratch);
  falt_rows_place(&plan->base.layout, ask->device, &how->scratch);
  plan->base.workspace = plan->base.layout.total;
  if (scratch <= MAX_SCRATCH && (limit < 0 || plan->base.workspace <= (size_t)limit)) return true;
  return falt_refuse(ask, "its lines need %zu bytes of workspace", plan->base.workspace);
}

/* ---- estimate */

/* In multiply-adds at the peak, as measured with AVX-512: the sums of a box, and loads, stores and transpositions.
 * Lanes without a line cost as much as others. */
static double seconds(const boxes_plan *plan) {
  const falt_repeated_boxes *how = &plan->how;
  const falt_rows *rows = &how->rows;
  const double box = 11, move = how->axis == 2 ? 50 : 30, each_row = 400;
  const double outputs = (double)falt_tensor_count(&plan->base.problem.output);
  const int64_t block = how->block[how->axis], size = (int64_t)rows->lane_size;
  const double reads = (double)falt_repeated_boxes_reach(how, block) / (double)block;
  const int64_t widest = falt_max(how->chain.inner, how->chain.outer), blocks = 3 * widest * FALT_BOXES_BYTES;
  const double far = blocks > (int64_t)plan->base.device->caches.l1d ? 1.8 : 1; /* two blocks and their elements */
  const double boxes = far * (how->chain.count + 1 + (how->chain.outer > 0));
  double filled = (double)how->lanes, lines = outputs / (double)(block * rows->pixel);
  if (how->axis == 2) {
    filled = fmin(filled, lines);
    filled /= (double)how->lanes;
  } else {
    filled /= (double)(falt_round_up(how->lanes * size, FALT_BOXES_BYTES) / size);
  }
  const double row = each_row / (double)(how->axis == 2 ? block * rows->pixel : how->lanes);
  return falt_roofline(plan->base.device, falt_lane_type(rows->lane),
                       2 * outputs * (reads * (box * boxes + move) / filled + row), 1,
                       falt_problem_bytes(&plan->base.problem));
}

/* ---- plan */

static falt_plan *plan_boxes(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = boxes_execute, .print = boxes_print, .destroy = falt_plan_free};
  falt_problem permuted;
  falt_repeated_boxes how = {.chain = {.count = 0}};
  if (!ask->filter_values) return falt_refuse(ask, "the filter's values are not known when planning");
  falt_rows_permute(&permuted, ask->problem);
  if (falt_problem_depth(&permuted) > FALT_FILTER_CHAIN && !falt_type_is_integer(permuted.input.type))
    permuted.accumulator = FALT_F64; /* a window is two chains of sums */
  const char *why = falt_rows_init(&how.rows, &permuted, ask->device->isa, ask->filter_values);
  if (!why) why = find_axis(&how, &permuted);
  if (!why) why = find_boxes(&how, &permuted, ask->filter_values);
  if (why) return falt_refuse(ask, "%s", why);
  boxes_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  how.kernels =
      how.rows.lane == FALT_LANE_F32 ? falt_boxes_f32_for(ask->device->isa) : falt_boxes_f64_for(ask->device->isa);
  how.stream = falt_bypasses_caches(ask->device, falt_problem_bytes(ask->problem));
  if (how.axis == 0) merge_rows(&how.rows);
  how.direct = is_direct(&how);
  plan->how = how;
  choose_blocks(&plan->how, ask->device);
  if (!place(plan, ask)) {
    falt_plan_free(&plan->base);
    return NULL;
  }
  plan->base.packed = true;
  plan->base.cost.seconds = seconds(plan);
  return &plan->base;
}

extern const falt_solver falt_solver_repeated_boxes;
const falt_solver falt_solver_repeated_boxes = {
    .name = "repeated-boxes", .device_kind = "cpu", .plan = plan_boxes, .factors = true};
