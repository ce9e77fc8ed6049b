/* Solver direct: filters with one channel in and out per group, by direct convolution in register tiles. 1D to 3D, any
 * stride, dilation, boundary and type.
 *
 *     y[o] = sum over taps j of w[j] * x[o*stride + j*dilation - pad]
 */
#include "solver/cpu/filter/direct.h"
#include "core/memory.h"

/* Register tiles are several rows high (filter_lane.h, filter_25d.h). A task moves down a strip so narrow that the
 * rows of a tile's window stay in the L2 cache: every input byte is loaded from memory about once. Rows of the lane's
 * type are read in place, and only the columns at the edges use small windows; other rows are converted once into a
 * ring.
 *
 * Stride and dilation along y (x likewise): tap i of output o reads o*stride + i*dilation. With g = gcd(stride,
 * dilation), outputs dilation/g apart and taps stride/g apart shift their input by the same stride*dilation/g. So a
 * tile takes output rows with that distance, and taps fall into stride/g classes, each treated as a plane: no special
 * kernel, no cliff.
 *
 * A depthwise layer in NCHW is such a filter for each channel. An epilogue beyond scale and clip is applied to a task's
 * output in place, while it is in the L2 cache. */

/* Of a worker, whatever their number: deterministic plans are the same for any. */
static const size_t MOST_SCRATCH = (size_t)12 << 20;
enum { LEAST_STRIP = 64, NARROW = 384, LONG_ROW = 16384, CHUNK = 960, LINE = 64 };

/* ------------------------------------------------------------------------------------------------ parts, geometry */

/* Classes of the taps of one axis and the number of taps of the first ones; the others, from `full` on, have one less.
 */
typedef struct classes {
  int64_t count, full, taps;
} classes;

static classes classes_of(const falt_axis *axis, int64_t taps) {
  int64_t count = falt_min(taps, axis->stride / falt_gcd(axis->stride, axis->dilation));
  int64_t rest = taps % count;
  return (classes){count, rest ? rest : count, falt_ceil_div(taps, count)};
}

static void add_part(falt_direct_plan *plan, int64_t y_class, int64_t y_classes, int64_t r, int64_t x_class,
                     int64_t x_classes, int64_t s) {
  if (!y_classes || !x_classes) return;
  int64_t first = 0;
  if (plan->part_count) {
    const falt_direct_part *last = &plan->parts[plan->part_count - 1];
    first = last->first_tap + last->planes * last->r * last->s;
  }
  plan->parts[plan->part_count++] = (falt_direct_part){.first_tap = first,
                                                       .y_class = y_class,
                                                       .y_classes = y_classes,
                                                       .x_class = x_class,
                                                       .x_classes = x_classes,
                                                       .r = r,
                                                       .s = s,
                                                       .planes = plan->rows.taps[0] * y_classes * x_classes};
}

static void set_parts(falt_direct_plan *plan) {
  const falt_rows *rows = &plan->rows;
  const falt_axis *height = &rows->axis[1], *width = &rows->axis[2];
  classes y = classes_of(height, rows->taps[1]), x = classes_of(width, rows->taps[2]);
  add_part(plan, 0, y.full, y.taps, 0, x.full, x.taps);
  add_part(plan, 0, y.full, y.taps, x.full, x.count - x.full, x.taps - 1);
  add_part(plan, y.full, y.count - y.full, y.taps - 1, 0, x.full, x.taps);
  add_part(plan, y.full, y.count - y.full, y.taps - 1, x.full, x.count - x.full, x.taps - 1);
  plan->y_classes = y.count;
  plan->x_classes = x.count;
  plan->out_step = height->dilation / falt_gcd(height->stride, height->dilation);
  plan->in_step = plan->out_step * height->stride;
  plan->step = width->dilation / falt_gcd(width->stride, width->dilation) * rows->pixel;
}

/* The columns to read in place: none in narrow rows, where copying costs less than separate edges. */
static void set_interior(falt_direct_plan *plan) {
  const falt_rows *rows = &plan->rows;
  if (!rows->in_place) return;
  falt_rows_interior(rows, 0, rows->out[2], &plan->begin, &plan->end);
  int64_t line =
      LINE / (int64_t)rows->lane_size; /* the kernels stream whole lines: the edges take the columns beside them */
  plan->begin = falt_round_up(plan->begin, line);
  if (plan->end < rows->out[2]) plan->end = plan->end / line * line;
  if ((plan->end - plan->begin) * rows->pixel < NARROW) plan->begin = plan->end = 0;
}

/* The overhead of a band of `count` rows: rows above and below it are loaded twice. */
static int64_t band_cost(int64_t rows, int64_t count, int64_t r) {
  return rows / count * (2 * count + r - 1) + 3 * (rows % count);
}

/* Rows of the largest call: a tile, or a multiple that suits 2.5D blocking and leaves few rows over. */
static void set_band(falt_direct_plan *plan) {
  const falt_filter_kernels *kernels = plan->rows.kernels;
  int64_t r = plan->parts[0].r, rows = falt_ceil_div(plan->rows.out[1], plan->out_step);
  plan->band = kernels->tile_rows;
  plan->blocked = plan->part_count == 1 && r >= 2 && r <= kernels->blocked_most && rows >= 2 * r - 1 &&
                  rows > plan->band &&
                  falt_filter_is_chain(plan->rows.lane_size, plan->parts[0].planes, r, plan->parts[0].s);
  if (!plan->blocked) return;
  plan->band = 2 * r - 1;
  for (int64_t count = 3 * r - 1; count < FALT_DIRECT_MOST_BAND && count <= rows; count += r)
    if (band_cost(rows, count, r) <= band_cost(rows, plan->band, r)) plan->band = count;
}

/* -------------------------------------------------------------------------------------------------- blocks, scratch */

/* A length near `size` that cuts `whole` into equal pieces, a multiple of `unit` unless it is the whole. */
static int64_t even_cut(int64_t whole, int64_t size, int64_t unit) {
  if (size >= whole) return whole;
  int64_t pieces = falt_ceil_div(whole, falt_max(size, unit));
  return falt_min(whole, falt_round_up(falt_ceil_div(whole, pieces), unit));
}

/* Rows of input that outputs [0, count) of an axis read. */
static int64_t reach(const falt_rows *rows, int axis, int64_t count) {
  int64_t first, size;
  falt_rows_reach(rows, axis, 0, count, &first, &size);
  return size;
}

static int64_t band_height(const falt_direct_plan *plan) {
  return falt_min(plan->rows.out[1], plan->band * plan->out_step);
}

/* Whether planes of results share planes of input, which then stay near as a whole. */
static bool shares_planes(const falt_rows *rows) {
  return rows->taps[0] > 1 && rows->out[0] > 1;
}

/* Input rows that a task keeps near: a tile's window, or in 3D the windows of all bands of the block. */
static int64_t rows_kept(const falt_direct_plan *plan) {
  const falt_rows *rows = &plan->rows;
  const int64_t depth = rows->taps[0] > 1 ? reach(rows, 0, 1) : 1;
  return reach(rows, 1, shares_planes(rows) ? plan->block[1] : band_height(plan)) * depth;
}

static int64_t row_bytes(const falt_direct_plan *plan, int64_t outputs) {
  return reach(&plan->rows, 2, outputs) * plan->rows.pixel * (int64_t)plan->rows.lane_size;
}

/* The widest strip, then the highest block, whose window fits into half of the cache. */
static void fit_cache(falt_direct_plan *plan, int64_t widest) {
  const falt_rows *rows = &plan->rows;
  int64_t cache = (int64_t)plan->base.device->caches.l2 / 2, tile = band_height(plan);
  plan->block[0] = rows->out[0];
  plan->block[1] = tile;
  int64_t strip = cache / (rows_kept(plan) * rows->pixel * (int64_t)rows->lane_size);
  plan->block[2] = even_cut(rows->out[2], falt_max(falt_min(strip, widest), LEAST_STRIP), LEAST_STRIP);
  if (!shares_planes(rows)) {
    plan->block[1] = rows->out[1];
    return;
  }
  int64_t kept = cache / (row_bytes(plan, plan->block[2]) * reach(rows, 0, 1));
  int64_t high = (kept - falt_extent(&rows->axis[1], rows->taps[1])) / rows->axis[1].stride;
  plan->block[1] = even_cut(rows->out[1], falt_max(high, tile), tile);
}

/* Cuts blocks until every thread has several: first the outermost axis that loses least by it. */
static void cut_for_threads(falt_direct_plan *plan, int64_t wanted) {
  const falt_rows *rows = &plan->rows;
  int64_t tasks = falt_rows_task_count(rows, plan->block);
  if (tasks >= wanted) return;
  int axis = rows->taps[0] > 1 && rows->out[0] >= 2 * rows->taps[0] ? 0 : rows->out[1] > 1 ? 1 : 2;
  int64_t unit = axis == 0 ? 1 : axis == 1 ? band_height(plan) : LEAST_STRIP;
  int64_t halo = falt_extent(&rows->axis[axis], rows->taps[axis]) - 1;
  int64_t size = plan->block[axis] * tasks / wanted;
  plan->block[axis] = even_cut(plan->block[axis], falt_max(size, 2 * halo), unit);
}

/* Windows of `count` positions each at most. */
static void place_windows(falt_direct_scratch *s, falt_direct_windows *windows, const falt_rows *rows, int64_t number,
                          int64_t count, int64_t depth, int64_t height) {
  falt_place_part(&windows->one, falt_row_window_tags(depth, height));
  windows->slots = falt_place_part(&windows->one, falt_row_window_slots(rows, count, depth, height));
  windows->at = falt_place_each(&s->parts, number, &windows->one);
}

/* Columns of the window of a segment of outputs: the first class has the most taps. */
static void place_segment(falt_direct_plan *plan, falt_direct_windows *windows, int64_t outputs) {
  const falt_rows *rows = &plan->rows;
  const int64_t beyond = (falt_ceil_div(rows->taps[2], plan->x_classes) - 1) * (plan->step / rows->pixel);
  if (outputs <= 0) return;
  place_windows(&plan->scratch, windows, rows, plan->x_classes, outputs + beyond, plan->depth, plan->height);
}

static void lay_scratch(falt_direct_plan *plan) {
  const falt_rows *rows = &plan->rows;
  falt_direct_scratch *s = &plan->scratch;
  bool place_all = plan->begin < plan->end;
  plan->depth = rows->taps[0] > 1 ? reach(rows, 0, 1) : 1;
  plan->height = reach(rows, 1, shares_planes(rows) ? plan->block[1] : band_height(plan));
  plan->chunk = falt_max(1, CHUNK / rows->pixel);
  plan->chunk = falt_min(plan->chunk, plan->block[2]);
  int64_t pointers = 0, most = plan->band, block = plan->block[2], wide = rows->out[2];
  for (int i = 0; i < plan->part_count; i++) pointers += plan->parts[i].planes * (plan->parts[i].r + most - 1);
  int64_t right = place_all ? falt_min(block, wide - plan->end) : 0;
  int64_t left = place_all ? falt_min(block, falt_max(plan->begin, wide - plan->end)) : block;
  *s = (falt_direct_scratch){0};
  s->pointers = falt_place_part(&s->parts, (size_t)pointers * sizeof(void *));
  s->windows = falt_place_part(&s->parts, 3 * (size_t)plan->x_classes * sizeof(falt_row_window));
  s->sums = falt_place_part(&s->parts, (size_t)(most * plan->chunk * rows->pixel) * rows->lane_size);
  place_segment(plan, &s->left, left);
  place_segment(plan, &s->right, right);
  if (place_all) place_windows(s, &s->constant, rows, 1, reach(rows, 2, block), 0, 0);
}

/* Work that fits a cache and some microseconds is left whole. */
static int64_t wanted_tasks(const falt_direct_plan *plan) {
  double bytes = falt_problem_bytes(&plan->problem), flops = falt_problem_flops(&plan->problem);
  int64_t threads = falt_threads_count(plan->base.device->threads);
  bool small = bytes < 65536 && flops < 2e6;
  return small || threads == 1 ? 1 : 4 * threads;
}

/* Blocks that obey cache, threads and memory; false if even narrow strips need too much. */
static bool set_blocks(falt_direct_plan *plan) {
  const falt_rows *rows = &plan->rows;
  int64_t widest = rows->out[1] == 1 && rows->out[0] == 1 ? LONG_ROW : rows->out[2];
  for (;; widest = falt_max(LEAST_STRIP, plan->block[2] / 2)) {
    fit_cache(plan, widest);
    cut_for_threads(plan, wanted_tasks(plan));
    lay_scratch(plan);
    plan->base.layout = (falt_memory_layout){0};
    falt_rows_place(&plan->base.layout, plan->base.device, &plan->scratch.parts);
    plan->base.workspace = plan->base.layout.total;
    if (plan->scratch.parts.total <= MOST_SCRATCH) return true;
    if (plan->block[2] <= LEAST_STRIP) return false;
  }
}

/* ---------------------------------------------------------------------------------------------------------- taps */

static void set_taps(falt_direct_plan *plan, const void *values) {
  const falt_rows *rows = &plan->rows;
  const falt_tensor *filter = &plan->problem.filter;
  plan->tap_count = rows->taps[0] * rows->taps[1] * rows->taps[2];
  plan->tap_groups = rows->groups == 1 || filter->stride[FALT_G] == 0 ? 1 : rows->groups;
  plan->values = values;
  plan->base.packed = values != NULL;
  if (values) return;
  const size_t one = (size_t)plan->tap_count * rows->lane_size;
  plan->dense = falt_place_part(&plan->base.layout, one * (size_t)plan->tap_groups);
  plan->packed = falt_place_part(&plan->base.layout, one * (size_t)plan->tap_groups);
  plan->base.workspace = plan->base.layout.total;
}

/* Packs a filter that is known: only for the plan that was chosen. */
static falt_status ready(falt_plan *base) {
  falt_direct_plan *plan = (falt_direct_plan *)base;
  const size_t one = (size_t)plan->tap_count * plan->rows.lane_size;
  if (!plan->values) return FALT_OK;
  plan->taps = falt_alloc(one * (size_t)plan->tap_groups);
  char *dense = falt_alloc(one * (size_t)plan->tap_groups);
  const bool fits = plan->taps && dense;
  if (fits) falt_direct_pack(plan, plan->values, dense, plan->taps);
  falt_free(dense);
  plan->values = NULL;
  return fits ? FALT_OK : falt_fail(FALT_NO_MEMORY, "planning: memory for the packed filter ran out");
}

/* ------------------------------------------------------------------------------------------------------ estimate */

/* Fraction of the multiply-add peak: tap rows at the tile's edges feed fewer outputs, and a single row is limited by
 * loads, of its first taps most. */
static double efficiency(const falt_direct_plan *plan) {
  const falt_direct_part *part = &plan->parts[0];
  double rows = (double)part->r, again = plan->blocked ? 1 : 0.55 * (plan->rows.kernels->tile_rows - 1);
  if (plan->rows.out[1] < plan->rows.kernels->tile_rows * plan->out_step)
    return 0.65 * rows / (rows + 5.0 / (double)part->s);
  const double pieces = falt_filter_is_chain(plan->rows.lane_size, part->planes, part->r, part->s) ? 1 : 0.8;
  return 0.95 * pieces * rows / (rows + again) * (double)part->s / ((double)part->s + 0.5);
}

/* Bytes that move for each element: whole lines if neighbours are not contiguous. */
static double line_share(falt_type type, int64_t stride, int64_t pixel) {
  double size = (double)falt_type_size(type), apart = (double)(stride < 0 ? -stride : stride) / (double)pixel * size;
  return apart <= size ? 1 : (apart < 64 ? apart : 64) / size;
}

/* Operations in the time of setting up the slices of a layer and their rows, as measured on depthwise layers of 7 x 7
 * to 56 x 56 with AVX-512. */
static double setting_up(const falt_rows *rows) {
  const double slice = 3e4, row = 1.5e3, slices = (double)rows->batch * (double)rows->groups;
  return slices > 8
             ? slices * (slice + row * (double)rows->out[0] * (double)rows->out[1] * (double)rows->axis[1].stride)
             : 0;
}

static void estimate(falt_direct_plan *plan) {
  const falt_rows *rows = &plan->rows;
  const falt_device *device = plan->base.device;
  double waste = line_share(rows->in_type, rows->in_stride[4], rows->pixel);
  double waste_out = line_share(rows->out_type, rows->out_stride[4], rows->pixel);
  double bytes = falt_problem_bytes(&plan->problem) * (waste > waste_out ? waste : waste_out);
  double converted = 0, results = (double)falt_tensor_count(&plan->problem.output);
  if (plan->begin == plan->end) converted += (double)falt_tensor_count(&plan->problem.input);
  if (!rows->out_place || plan->finishes) converted += results;
  falt_type type = falt_lane_type(rows->lane);
  double flops = falt_problem_flops(&plan->problem) + efficiency(plan) * (8 * converted + setting_up(rows));
  plan->base.cost.seconds = falt_roofline(device, type, flops, efficiency(plan), bytes);
}

/* ---------------------------------------------------------------------------------------------------------- plan */

static void print(const falt_plan *base, falt_text *text) {
  const falt_direct_plan *plan = (const falt_direct_plan *)base;
  const falt_filter_kernels *kernels = plan->rows.kernels;
  falt_text_add(text, "(direct %s %dx%d %s%s strip=%lld threads=%d)", falt_isa_name(kernels->isa), kernels->tile_rows,
                kernels->tile_vectors, plan->rows.lane == FALT_LANE_F32 ? "f32" : "f64", plan->blocked ? " 2.5d" : "",
                (long long)plan->block[2], falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *base) {
  falt_free(((falt_direct_plan *)base)->taps);
  falt_free(base);
}

static const falt_plan_table table = {falt_direct_execute, print, destroy, ready};

/* Whether the epilogue is a layer's: more than the row kernels apply when they store. */
static bool has_layer_epilogue(const falt_problem *p) {
  const falt_activation act = p->activation;
  const bool clips = act == FALT_IDENTITY || act == FALT_RELU || act == FALT_RELU6 || act == FALT_CLIP;
  return p->operation == FALT_FORWARD && (p->has_scale || p->has_bias || p->has_residual || !clips);
}

/* The problem whose outputs are the sums. */
static falt_problem without_epilogue(const falt_problem *p) {
  falt_problem sums = *p;
  sums.alpha = 1;
  sums.beta = 0;
  sums.has_scale = sums.has_bias = sums.has_residual = false;
  sums.activation = FALT_IDENTITY;
  return sums;
}

/* Rows as the kernels store them: plain sums if a layer's epilogue follows. */
static const char *init_rows(falt_rows *rows, const falt_problem *permuted, const falt_ask *ask, bool finishes) {
  const falt_problem sums = without_epilogue(permuted);
  const char *reason = falt_rows_init(rows, finishes ? &sums : permuted, ask->device->isa, ask->filter_values);
  if (reason || !finishes) return reason;
  return !falt_problem_is_f32(permuted) ? "scale, bias and residual are for f32 alone"
         : rows->pixel != 1             ? "channels of one pixel have a scale or bias each"
         : !rows->out_place || (permuted->has_residual && !falt_tensor_unit(&permuted->residual, FALT_W))
             ? "the epilogue's rows are not adjacent in memory"
             : NULL;
}

/* Factors behind the rest of the workspace. */
static void set_epilogue(falt_direct_plan *plan, const falt_device *device) {
  const size_t bytes = 2 * (size_t)plan->problem.output.size[FALT_G] * sizeof(float);
  plan->layer.kernels = falt_layer_kernels_for(device->isa);
  falt_layer_epilogue(&plan->layer, &plan->problem);
  plan->factors = falt_place_part(&plan->base.layout, bytes);
  plan->base.workspace = plan->base.layout.total;
}

static falt_plan *plan_direct(const falt_solver *solver, falt_ask *ask) {
  falt_problem permuted;
  falt_rows rows;
  const bool finishes = has_layer_epilogue(ask->problem);
  falt_rows_permute(&permuted, ask->problem);
  const char *reason = init_rows(&rows, &permuted, ask, finishes);
  if (reason) return falt_refuse(ask, "%s", reason);
  falt_direct_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->problem = permuted;
  plan->rows = rows;
  plan->finishes = finishes;
  set_parts(plan);
  set_interior(plan);
  set_band(plan);
  if (!set_blocks(plan)) {
    destroy(&plan->base);
    return falt_refuse(ask, "the rows under the filter need more than %d MiB a thread", (int)(MOST_SCRATCH >> 20));
  }
  set_taps(plan, ask->filter_values);
  if (finishes) set_epilogue(plan, ask->device);
  double bytes = falt_problem_bytes(&permuted);
  plan->stream = !finishes && falt_bypasses_caches(ask->device, bytes);
  plan->prefetch = plan->y_classes == 1 && bytes > (double)ask->device->caches.l2;
  estimate(plan);
  return &plan->base;
}

extern const falt_solver falt_solver_direct;
const falt_solver falt_solver_direct = {.name = "direct", .device_kind = "cpu", .avx2 = 1.35, .plan = plan_direct};
