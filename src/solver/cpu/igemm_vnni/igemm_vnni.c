/* Solver igemm-vnni: fprop of dense layers of 8-bit and 16-bit types as implicit GEMM in VNNI order, by AMX if there is
 * one.
 *
 *     y[p, k] = sum over taps j and channels c of  x[p*stride + j*dilation - pad, c] * w[k, c, j]
 *
 * Tiles are up to 16 positions by 64 bytes of depth. */
#include "solver/cpu/igemm_vnni/igemm_vnni.h"

#include <math.h>

#include "solver/cpu/common/rows.h"

/* u8 or s8 by s8 is summed exactly in s32, bf16 by bf16 in f32 (denormal bf16 are zero). f16 is split into two bf16,
 * whose products are exact, where that is faster. Other type pairs are upconverted to f32. For NCHW output, weights are
 * rows. */

enum { MOST_SEGMENTS = 1 << 14, MOST_LENGTH = 1 << 20, MOST_DEPTH = 1 << 16 };
enum {
  LEAST_ROW = 12 /* positions of rows whose ends are ends of tiles */,
  LEAST_BLOCK = 6 /* the same for vectors, whose blocks are smaller */,
  LEAST_SPAN = 64,
  LEAST_PART = FALT_TILES_ROWS /* positions */,
  AGAIN = 1 << 16, /* bytes that a thread packs in the time of a barrier */
  FAR = 8,         /* bytes that a thread packs while it loads one that another of many threads has packed */
  LINE = 64        /* bytes that caches exchange */
};

static int64_t thread_count(const falt_tiles_plan *plan) {
  return falt_threads_count(plan->base.device->threads);
}

static int64_t task_count(const falt_tiles_plan *plan) {
  return plan->blocks.count * plan->chunks.count;
}

static int64_t wanted_tasks(const falt_tiles_plan *plan) {
  return thread_count(plan) == 1 ? 1 : 4 * thread_count(plan);
}

static void print(const falt_plan *base, falt_text *text) {
  static const char *const kinds[FALT_TILES_KIND_COUNT] = {"u8", "u8", "s8", "bf16", "f32"};
  const falt_tiles_plan *plan = (const falt_tiles_plan *)base;
  falt_text_add(text, "(igemm-vnni %s %s%s %lldx%d %s%s block=%lld threads=%d)", falt_isa_name(base->device->isa),
                kinds[plan->kind], plan->split ? " split" : "", (long long)plan->rows, FALT_TILE_BYTES,
                plan->transposed ? "transposed"
                : plan->slides   ? "lines"
                : plan->zipped   ? "zipped"
                : plan->in_place ? "in place"
                : plan->windows  ? "windows"
                                 : "pixels",
                plan->vectors ? "" : " singly", (long long)(falt_layer_most(&plan->blocks) * plan->tiles),
                (int)thread_count(plan));
}

static void destroy(falt_plan *base) {
  falt_tiles_plan *plan = (falt_tiles_plan *)base;
  falt_free(plan->packed);
  falt_free(plan->order.tile);
  falt_free(plan);
}

/* ---- applicable, in addition to the conditions of all layers */

static bool upconverts(falt_type type) {
  return falt_type_is_byte(type) || (falt_type_is_float(type) && type != FALT_F64);
}

static falt_tiles_kind kind_of(const falt_problem *p) {
  const falt_type x = p->input.type, w = p->filter.type;
  if (falt_type_is_byte(x) && w == FALT_S8) return x == FALT_U8 ? FALT_TILES_U8 : FALT_TILES_S8;
  return x == FALT_BF16 && w == FALT_BF16 && falt_layer_has_constant(p) ? FALT_TILES_BF16 : FALT_TILES_F32;
}

/* Whether f16 are faster as four products of bf16 than as f32. */
static bool splits(const falt_problem *p, const falt_tiles_kernels *kernels) {
  return p->input.type == FALT_F16 && p->filter.type == FALT_F16 && falt_layer_has_constant(p) &&
         kernels->speed[FALT_TILES_BF16] > 4 * kernels->speed[FALT_TILES_F32];
}

static const char *refusal(const falt_tiles_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const falt_type x = p->input.type, w = p->filter.type;
  const bool whole = plan->kind <= FALT_TILES_S8;
  return x == FALT_F32 && w == FALT_F32                                 ? "it computes narrow types only"
         : !upconverts(x) || !upconverts(w)                             ? "only types of 8 and 16 bits, and f32"
         : p->accumulator == FALT_F64                                   ? "it has no f64 sums"
         : p->output.type == FALT_F64                                   ? "results in f64 are not formed here"
         : falt_type_is_byte(x) && w == FALT_U8                         ? "weights of 8 bits are s8"
         : whole && !falt_layer_has_constant(p)                         ? "the constant is no value of the input's type"
         : whole && plan->segments * plan->length > MOST_DEPTH          ? "its sums may not fit 32 bits"
         : plan->segments > MOST_SEGMENTS || plan->length > MOST_LENGTH ? "its filter has too many taps for a list"
                                                                        : NULL;
}

/* ---- estimate */

/* Fraction of the multiply-add peak, and overheads in f32 operations of vectors at that peak. */
static const double share = 0.85;
static const double per_result = 6, bent = 24, singly = 600, per_sums = 4000, per_tile = 3000;
static const double per_byte = 2, converted = 24,
                    apart = 128;                    /* of copies; of elements of other types, or not adjacent */
static const double zipped = 8, gathered = 60;      /* of elements of groups, at adjacent positions or not */
static const double per_run = 700, per_line = 2500; /* of copies of neighbours, and of lines of groups */

/* Rows that are copied for a part, and their elements, of all windows that contain a row. */
static int64_t copied_rows(const falt_tiles_plan *plan) {
  return falt_min(falt_tiles_copies(plan),
                  falt_layer_most(&plan->lines) * plan->steps * plan->layer.p.filter.size[FALT_D]);
}

static double copied(const falt_tiles_plan *plan) {
  const int64_t wide = plan->flat ? plan->layer.p.output.size[FALT_W] : plan->wide;
  return plan->in_place ? 0 : (double)(copied_rows(plan) * wide * plan->row);
}

/* The same in copies of neighbours, if other groups are between the channels of neighbouring pixels. */
static double runs(const falt_tiles_plan *plan) {
  const bool apart_from_neighbours = plan->windows && falt_tiles_groups(plan) > 1;
  return apart_from_neighbours ? copied(plan) / (double)plan->layer.channels : 0;
}

/* ---- estimate of a given filter with many threads, whose ways to cut tasks differ in these costs */

static bool has_ways(const falt_tiles_plan *plan) {
  return !plan->packed && falt_caches_are_far(plan->base.device);
}

/* Lines of groups that are copied for a part. Each takes its time even if it is short. */
static double lines_of_groups(const falt_tiles_plan *plan) {
  return plan->zipped && has_ways(plan) ? (double)(copied_rows(plan) * plan->residues * plan->deep) : 0;
}

/* The time of a few tasks, divided by that of perfectly balanced work. Of many tasks a thread takes more than another.
 */
static double imbalance(const falt_tiles_plan *plan) {
  const int64_t tasks = task_count(plan);
  return has_ways(plan) && tasks < wanted_tasks(plan) ? falt_load_imbalance(plan->base.device, tasks) : 1;
}

/* Seconds in which a thread loads data that it shares with other threads: packed panels, input pixels of other
 * threads' tasks, and cache lines of outputs that two blocks write. */
static double loads(const falt_tiles_plan *plan, const falt_device *device) {
  const int64_t rounds = falt_ceil_div(task_count(plan), thread_count(plan)), most = falt_layer_most(&plan->chunks);
  const int64_t positions =
      falt_layer_most(&plan->blocks) * falt_layer_most(&plan->lines) * falt_layer_most(&plan->spans);
  const bool shares = plan->transposed && positions * (int64_t)falt_type_size(plan->layer.p.output.type) < LINE;
  const int64_t panels = falt_min(rounds * most, falt_tiles_groups(plan) * plan->panels);
  const falt_tensor *x = &plan->layer.p.input;
  const double blocks = (double)plan->blocks.count, equal = 1 / (double)thread_count(plan);
  const double input = fmax(0, fmin(1, (double)rounds / blocks) - equal) * (double)falt_tensor_count(x) *
                       (double)falt_type_size(x->type);
  if (!has_ways(plan)) return 0;
  return falt_load_shared(device, (double)(plan->in_time ? 0 : panels * (int64_t)plan->panel) + input) +
         falt_load_written(device, (double)(shares && plan->blocks.count > 1 ? rounds * most * COLUMNS * LINE : 0));
}

static double estimate(const falt_tiles_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const falt_problem *p = &layer->p;
  const double parts = (double)(falt_layer_piece(&plan->blocks, plan->blocks.count));
  const double tiles = parts * (double)plan->tiles * (double)falt_tiles_groups(plan);
  const double steps = (double)(plan->segments * plan->times * falt_tiles_depth(plan, plan->length));
  const double columns = (double)falt_round_up(layer->results, ROWS), each = GROUP / (plan->split ? 2 : plan->element);
  const double listed = plan->kernels->speed[plan->kind];
  const double speed = plan->kind == FALT_TILES_BF16 ? falt_halves_speed(device, listed) : listed;
  const double products = 2 * (double)falt_max(plan->rows, 8) * steps * each * columns / speed;
  const double sums = per_sums * (double)plan->panels / (plan->vectors ? 1 : 0.5);
  const double bends = layer->curve != FALT_IDENTITY || p->has_residual ? bent : 1;
  const double results = (double)(plan->rows * layer->results) * per_result * (plan->vectors ? bends : singly);
  const double passes = (double)falt_ceil_div(plan->chunks.count, falt_tiles_groups(plan)); /* copies are repeated */
  const double element = plan->zipped && !plan->slides ? (plan->layer.p.axis[2].stride == 1 ? zipped : gathered)
                         : !falt_tensor_unit(&p->input, FALT_C) ? apart
                         : falt_tiles_converts(plan)            ? converted
                                                                : per_byte * (double)plan->element;
  const double packing = plan->packed ? 0 : falt_tiles_packing_work(plan);
  const double copies = parts * (double)falt_tiles_groups(plan) * passes *
                        (copied(plan) * element + runs(plan) * per_run + lines_of_groups(plan) * per_line);
  const double work = tiles * (products + sums + results + per_tile) + copies;
  const double filter = plan->in_time ? (double)falt_tensor_count(&p->filter) * (double)falt_type_size(p->filter.type)
                                      : (double)falt_tiles_groups(plan) * (double)plan->panels * (double)plan->panel;
  const double seconds = falt_roofline(device, FALT_F32, (work + (plan->in_time ? packing : 0)) * imbalance(plan),
                                       share, falt_problem_bytes(p)) +
                         falt_filter_loads(device, filter, plan->blocks.count, plan->chunks.count) +
                         loads(plan, device);
  return plan->packed || plan->in_time ? seconds : seconds + falt_roofline(device, FALT_F32, packing, share, 0);
}

/* ---- plan */

/* Whether outputs of neighbours along a dimension are adjacent, and f32 holds all values of the integer epilogue: sums
 * beyond it saturate. */
static bool goes_by_vectors(const falt_tiles_plan *plan, int dim) {
  const falt_problem *p = &plan->layer.p;
  const falt_type y = p->output.type;
  const bool near = falt_tensor_unit(&p->output, dim) && (!p->has_residual || falt_tensor_unit(&p->residual, dim));
  const bool sums = y == FALT_S32 && plan->layer.plain && plan->kind <= FALT_TILES_S8;
  const bool small = !falt_type_is_byte(y) || fabs(p->beta) < 0x1p20;
  return near && (sums || (upconverts(y) && small && (!p->has_residual || upconverts(p->residual.type))));
}

/* Positions as columns, if their outputs are adjacent; for a single channel, if those of the input are. */
static void set_direction(falt_tiles_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const bool channels = falt_tensor_unit(&p->output, FALT_C);
  const bool positions = !channels || (plan->layer.results == 1 && !falt_tensor_unit(&p->input, FALT_C));
  plan->transposed = positions && !falt_tiles_converts(plan) && goes_by_vectors(plan, FALT_W);
  plan->vectors = plan->transposed || goes_by_vectors(plan, FALT_C);
  if (plan->transposed && plan->kind == FALT_TILES_U8) plan->kind = FALT_TILES_S8_U8;
}

static void set_segments(falt_tiles_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const int64_t *taps = layer->p.filter.size;
  const bool matrix = plan->kernels->together > 1; /* reads whole pieces; vectors read groups */
  const bool whole = layer->channels * plan->element % FALT_TILE_BYTES == 0;
  const bool readable = layer->channels * plan->element % (matrix ? FALT_TILE_BYTES : GROUP) == 0;
  const bool narrow = layer->p.output.size[FALT_W] < (matrix ? LEAST_ROW : LEAST_BLOCK);
  plan->in_place = readable && layer->taps == 1 && !falt_tiles_converts(plan) && !narrow &&
                   falt_tensor_unit(&layer->p.input, FALT_C);
  plan->windows = !plan->in_place && (!whole || narrow);
  plan->flat = narrow;
  falt_tiles_set_groups(plan);
  plan->joined = falt_tiles_joined(plan);
  plan->steps = falt_ceil_div(taps[FALT_H], plan->joined);
  plan->segments = plan->stacked ? 1 : plan->windows ? taps[FALT_D] * plan->steps : layer->taps;
  plan->row = plan->windows ? plan->joined * taps[FALT_W] * layer->channels : layer->channels;
  plan->deep = falt_tiles_depth(plan, plan->row);
  plan->length = plan->stacked ? taps[FALT_D] * taps[FALT_H] * plan->deep * (GROUP / plan->element) : plan->row;
  plan->pieces = falt_tiles_piece_count(plan->length, plan->element);
  plan->groups = falt_ceil_div(plan->length * plan->element, GROUP) - (plan->pieces - 1) * ROWS;
  plan->times = plan->split ? 2 : 1;
  plan->panels = falt_ceil_div(layer->results, COLUMNS);
  plan->panel = (size_t)(plan->segments * plan->times) * (size_t)plan->pieces * 2 * TILE;
}

/* Bytes that `lines` lines of a plane load, without those shared with neighbours. */
static int64_t line_bytes(const falt_tiles_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const bool own = plan->flat && plan->zipped;
  const int64_t rows = (own ? plan->steps : falt_min(p->axis[1].stride, plan->steps)) * p->filter.size[FALT_D];
  const int64_t pixels = p->output.size[FALT_W] * (plan->windows ? 1 : p->axis[2].stride);
  return rows * pixels * falt_tiles_pixel(plan);
}

static int64_t all_parts(const falt_tiles_plan *plan) {
  const int64_t *size = plan->layer.p.output.size;
  return size[FALT_N] * size[FALT_D] * plan->lines.count * plan->spans.count;
}

/* Parts whose rows fit into the L2 cache beside panels; larger ones if these come from beyond or are a task's own, or
 * if neighbours would copy as many lines for themselves as for their own outputs. */
static int64_t room(const falt_tiles_plan *plan) {
  const int64_t l2 = (int64_t)plan->base.device->caches.l2, panels = plan->panels * (int64_t)plan->panel;
  const int64_t halo = (plan->steps - 1) * falt_tiles_down(plan) / plan->layer.p.axis[1].stride;
  const bool beyond = plan->by_panels || panels > l2 / 2;
  return beyond || (plan->windows && halo * line_bytes(plan) > l2 / 16) ? l2 / 2 : l2 / 8;
}

/* The wanted tasks of all parts, and of each one. If all panels fit into the L2 cache, tasks are cut by positions, so
 * each writes whole output rows: a few columns of many rows are a few lines in each of many pages. The same holds for
 * transposed products, so no row is loaded twice. */
static int64_t wanted_of_parts(const falt_tiles_plan *plan) {
  return plan->by_panels ? 1 : wanted_tasks(plan);
}

static int64_t tasks_of_part(const falt_tiles_plan *plan) {
  const int64_t panels = falt_tiles_groups(plan) * plan->panels;
  return plan->transposed || panels * (int64_t)plan->panel <= (int64_t)plan->base.device->caches.l2 / 4 ? 1 : panels;
}

static void set_parts(falt_tiles_plan *plan) {
  const int64_t *size = plan->layer.p.output.size, height = size[FALT_H], width = size[FALT_W];
  const int64_t bytes = line_bytes(plan), most = room(plan);
  const int64_t wanted = falt_ceil_div(wanted_of_parts(plan), tasks_of_part(plan) * size[FALT_N] * size[FALT_D]);
  int64_t lines = falt_max(1, falt_min(height, most / bytes));
  while (lines > 1 && lines / 2 * width >= LEAST_PART && falt_ceil_div(height, lines) < wanted) lines /= 2;
  plan->lines = falt_layer_cut(height, falt_ceil_div(height, lines));
  int64_t spans = plan->flat ? 1 : falt_ceil_div(bytes, most);
  if (height == 1 && !plan->flat) spans = falt_max(spans, wanted);
  plan->spans = falt_layer_cut(width, falt_max(1, falt_min(spans, width / LEAST_SPAN)));
}

/* Tiles of equal rows: a product takes as many cycles as its tile has. */
static void set_tiles(falt_tiles_plan *plan) {
  const int64_t width = falt_layer_most(&plan->spans), lines = falt_layer_most(&plan->lines);
  const int64_t line = plan->flat ? lines * width : width, least = falt_ceil_div(line, ROWS);
  plan->along = least;
  plan->rows = falt_ceil_div(line, plan->along);
  const int64_t more = falt_ceil_div(line, least + 1);
  if (more >= 14 && more * (least + 1) < plan->rows * least) {
    plan->along = least + 1;
    plan->rows = more;
  }
  if (plan->transposed) { /* pairs are in one line; the last tile may be empty */
    plan->along = falt_round_up(least, PAIR);
    plan->rows = ROWS;
  }
  plan->tiles = plan->flat ? plan->along : lines * plan->along;
}

/* Copied rows: of all taps in order, by residues of the stride, or of each tap separately. */
static void set_copies(falt_tiles_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const falt_axis *axis = &p->axis[1];
  const int64_t taps = plan->steps, lines = falt_layer_most(&plan->lines);
  const int64_t residues = taps == 1 ? 1 : axis->stride;
  const int64_t together = lines + (taps - 1) * falt_tiles_down(plan) / axis->stride;
  plan->own = (plan->flat && plan->zipped) || taps * lines <= residues * together;
  plan->class = plan->own ? lines : together;
  plan->slots = plan->own ? taps * lines : residues * together;
  const int64_t positions = plan->along * plan->rows, reach = falt_extent(&p->axis[2], p->filter.size[FALT_W]) - 1;
  plan->wide = plan->flat && !plan->zipped ? p->output.size[FALT_W]
               : plan->windows             ? positions
               : plan->zipped              ? positions + reach / p->axis[2].stride
                                           : (positions - 1) * p->axis[2].stride + reach + 1;
  const int64_t pixels = (plan->wide - 1) * p->axis[2].stride + reach + 1;
  plan->line = falt_tiles_copies_lines(plan) ? pixels * plan->layer.channels * plan->element : 0;
  plan->residues = plan->windows || p->filter.size[FALT_W] == 1 ? 1 : p->axis[2].stride;
  const int64_t line = (plan->wide - 1) * plan->step + GROUP;
  plan->pitch = (falt_ceil_div(line, FALT_TILE_BYTES) | 1) * FALT_TILE_BYTES; /* odd: sets of their own */
  plan->slot = plan->zipped ? plan->residues * plan->deep * plan->pitch : plan->wide * falt_tiles_pixel(plan);
}

/* Blocks of parts, so few that threads have enough of them; chunks of panels where positions are too few. */
static void set_tasks(falt_tiles_plan *plan) {
  const int64_t panels = falt_tiles_groups(plan) * plan->panels; /* of all groups */
  const int64_t wanted = wanted_of_parts(plan), all = all_parts(plan);
  const int64_t bytes = line_bytes(plan) * falt_layer_most(&plan->lines) / plan->spans.count;
  const int64_t together = falt_max(1, falt_min(room(plan) / falt_max(1, bytes), all * tasks_of_part(plan) / wanted));
  plan->blocks = falt_layer_cut(all, falt_ceil_div(all, together));
  const int64_t chunks = plan->by_panels ? panels : falt_min(panels, falt_ceil_div(wanted, plan->blocks.count));
  plan->chunks = falt_layer_cut(panels, chunks);
  plan->near = falt_max(1, (int64_t)(plan->base.device->caches.l2 / 4 / plan->panel));
  if (plan->transposed && plan->panel <= NEAR) plan->near = 1; /* lines of few channels are written at once */
}

/* Whether tasks pack their own panels: each panel is used once, or packing it again takes less time than a barrier of
 * all threads between packing and products, and than loading panels from the caches of other cores. */
static bool packs_in_time(const falt_tiles_plan *plan) {
  const int64_t bytes = falt_tiles_groups(plan) * plan->panels * (int64_t)plan->panel, blocks = plan->blocks.count;
  const int64_t threads = thread_count(plan);
  const bool far = falt_caches_are_far(plan->base.device);
  const int64_t loaded = far ? FAR * falt_min(blocks, threads) * bytes : 0; /* by all threads */
  return (blocks - 1) * bytes <= AGAIN * threads + loaded;
}

/* The cost of the plan with its tasks cut by panels alone, or by positions first. A given filter is not packed yet. */
static double cut(falt_tiles_plan *plan, bool by_panels, bool given) {
  plan->by_panels = by_panels;
  set_parts(plan);
  set_tiles(plan);
  set_copies(plan);
  set_tasks(plan);
  plan->in_time = given && (by_panels || packs_in_time(plan));
  return estimate(plan, plan->base.device);
}

/* Many threads that cut few positions, too, pack a large filter's panels several times, or load them from one another's
 * caches. */
static void set_cut(falt_tiles_plan *plan, bool given) {
  const double by_positions = cut(plan, false, given);
  if (!given || !has_ways(plan)) return;
  const double by_panels = cut(plan, true, given);
  if (by_panels >= by_positions || plan->blocks.count > 1) cut(plan, false, given);
}

static void lay_memory(falt_tiles_plan *plan, bool given) {
  const int64_t together = falt_min(falt_min(plan->near, plan->panels), falt_layer_most(&plan->chunks));
  const size_t parts = (size_t)falt_layer_most(&plan->blocks), tiles = parts * (size_t)plan->tiles + 1;
  const size_t pixel = (size_t)falt_tiles_pixel(plan), copies = parts * (size_t)falt_tiles_copies(plan);
  const size_t slots = parts * (size_t)falt_tiles_slots_of(plan);
  const size_t groups = (size_t)falt_tiles_groups(plan);
  falt_tiles_map *at = &plan->at;
  at->list = falt_place_part(&at->parts, tiles * (size_t)falt_tiles_listed(plan) * sizeof(falt_tile_rows));
  at->tiles = falt_place_part(&at->parts, tiles * sizeof(falt_tiles_tile));
  at->out = falt_place_part(&at->parts, tiles * ROWS * sizeof(int64_t));
  at->residual = falt_place_part(&at->parts, tiles * ROWS * sizeof(int64_t));
  at->constant = falt_place_part(&at->parts, pixel);
  at->lines = falt_place_part(&at->parts, (size_t)(plan->zipped ? plan->wide * GROUP : plan->joined * plan->line));
  at->copies = falt_place_part(&at->parts, slots * (size_t)plan->slot + ROWS * pixel); /* tiles may reach beyond */
  at->filled = falt_place_part(&at->parts, copies);
  at->sums = falt_place_part(&at->parts, 2 * PAIR * ROWS * COLUMNS * sizeof(float));
  at->packing = falt_place_part(&at->parts, given ? falt_tiles_packing(plan) : 0);
  at->panels = falt_place_part(&at->parts, plan->in_time ? (size_t)together * plan->panel : 0);
  falt_memory_layout *all = &plan->base.layout;
  falt_rows_place(all, plan->base.device, &at->parts);
  plan->factors = falt_place_part(all, 2 * groups * (size_t)plan->layer.results * sizeof(float));
  plan->filter = falt_place_part(all, given && !plan->in_time ? groups * (size_t)plan->panels * plan->panel : 0);
  plan->base.workspace = all->total;
}

/* The filter's values as panels; false if memory ran out. */
static bool take_filter(falt_tiles_plan *plan, const void *values) {
  falt_memory_layout scratch = {0}, workspace = {0};
  falt_place_part(&scratch, falt_tiles_packing(plan));
  falt_rows_place(&workspace, plan->base.device, &scratch);
  void *memory = falt_alloc(workspace.total);
  plan->packed = falt_alloc((size_t)falt_tiles_groups(plan) * (size_t)plan->panels * plan->panel);
  plan->base.packed = plan->packed != NULL;
  const bool done = memory && plan->packed;
  if (done) falt_tiles_pack_all(plan, values, plan->packed, memory, scratch.total, 0);
  falt_free(memory);
  falt_free(plan->order.tile);
  plan->order = (falt_panel_order){0};
  return done;
}

static falt_plan *plan_igemm_vnni(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = falt_tiles_execute, .print = print, .destroy = destroy};
  static const int64_t elements[FALT_TILES_KIND_COUNT] = {1, 1, 1, 2, 4};
  falt_layer layer;
  const char *reason = falt_layer_shape(&layer, ask->problem, ask->device->isa);
  if (reason) return falt_refuse(ask, "%s", reason);
  falt_tiles_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->layer = layer;
  plan->kernels = falt_tiles_kernels_for(ask->device->isa);
  plan->kind = kind_of(&layer.p);
  plan->split = splits(&layer.p, plan->kernels);
  if (plan->split) plan->kind = FALT_TILES_BF16;
  plan->element = plan->split ? 4 : elements[plan->kind];
  set_direction(plan);
  set_segments(plan);
  if ((reason = refusal(plan))) {
    destroy(&plan->base);
    return falt_refuse(ask, "%s", reason);
  }
  const bool ordered = falt_tiles_order(plan);
  if (ordered) set_cut(plan, !ask->filter_values);
  if (!ordered || (ask->filter_values && !take_filter(plan, ask->filter_values))) {
    destroy(&plan->base);
    return falt_refuse_memory(ask);
  }
  lay_memory(plan, !ask->filter_values);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_igemm_vnni;
const falt_solver falt_solver_igemm_vnni = {.name = "igemm-vnni", .device_kind = "cpu", .plan = plan_igemm_vnni};
