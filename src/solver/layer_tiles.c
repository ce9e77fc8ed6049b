/* Dense layers of 8-bit and 16-bit numbers, forward: tiles of up to 16 positions by 64 bytes of depth.
 *
 *     y[p, k] = sum over taps j and channels c of  x[p*stride + j*dilation - pad, c] * w[k, c, j]
 *
 * Where channels are adjacent in memory and fill whole pieces of 64 bytes, 16 positions of a row are a tile that is
 * read where it lies, one for each tap: only its address and the distance between pixels are written down. Tiles that
 * reach over the ends of rows or of the input are gathered into the scratch, once for all output channels. Otherwise
 * the taps and channels of a position are brought together in one row, padded with zeros: first layers, other layouts,
 * and types that are multiplied as f32.
 *
 * bf16 by bf16 and u8 or s8 by s8 are multiplied as they are, sums being f32 and s32 (exact); other pairs are widened
 * to f32. Matrix units take denormal bf16 for zero. */
#include "solver/layer_tiles.h"

#include <math.h>

#include "solver/filter_rows.h"

enum {
  BLOCK = 8 /* tiles */,
  PART = 12 /* pieces */,
  MOST_SEGMENTS = 1 << 14,
  MOST_LENGTH = 1 << 24,
  MOST_DEPTH = 1 << 16
};
enum { LEAST_ROW = 12 }; /* positions of rows whose ends are ends of tiles */

/* ---- execute: results */

/* Rows of sums, and where the results of group 0, channel 0 lie. */
typedef struct sums_out {
  const void *sums;
  int rows, n;
  int64_t channel;       /* of the first column, G*K numbering */
  int64_t out, residual; /* elements from group 0, channel 0 to the first column */
  const int64_t *at, *residual_at;
} sums_out;

static void store_vectors(const falt_tiles_task *t, const sums_out *r) {
  const falt_layer *layer = t->layer;
  const falt_problem *p = &layer->p;
  const falt_operands *operands = t->run->operands;
  const float *scale = t->run->factors + r->channel;
  char *out = (char *)operands->output + r->out * (int64_t)falt_type_size(p->output.type);
  const char *residual =
      p->has_residual ? (const char *)operands->residual + r->residual * (int64_t)falt_type_size(p->residual.type)
                      : NULL;
  t->plan->kernels->finish(&(falt_tiles_finish){.sums = r->sums,
                                                .whole = t->plan->kind <= FALT_TILES_S8,
                                                .type = p->output.type,
                                                .out = out,
                                                .at = r->at,
                                                .residual_type = p->residual.type,
                                                .residual = residual,
                                                .residual_at = r->residual_at,
                                                .scale = scale,
                                                .offset = scale + p->output.size[FALT_G] * layer->results,
                                                .rows = r->rows,
                                                .n = r->n,
                                                .curve = layer->curve,
                                                .slope = (float)p->act_a,
                                                .low = layer->low,
                                                .high = layer->high});
}

/* In f64, which holds whatever the kernels' f32 does not. */
static void store_singly(const falt_tiles_task *t, const sums_out *r) {
  const falt_problem *p = &t->layer->p;
  const falt_operands *operands = t->run->operands;
  const float *scale = operands->scale, *bias = operands->bias;
  for (int m = 0; m < r->rows; m++)
    for (int i = 0; i < r->n; i++) {
      const int at = m * COLUMNS + i;
      double y = t->plan->kind <= FALT_TILES_S8 ? ((const int32_t *)r->sums)[at] : ((const float *)r->sums)[at];
      y *= p->has_scale ? p->alpha * (double)scale[r->channel + i] : p->alpha;
      y += p->has_bias ? p->beta + (double)bias[r->channel + i] : p->beta;
      if (p->has_residual)
        y += falt_load(operands->residual, p->residual.type,
                       r->residual_at[m] + r->residual + i * p->residual.stride[FALT_C]);
      falt_store(operands->output, p->output.type, r->at[m] + r->out + i * p->output.stride[FALT_C],
                 falt_activate(p, y));
    }
}

/* ---- tasks */

static void store_tile(const falt_tiles_task *t, int64_t i, int64_t panel) {
  const falt_tensor *y = &t->layer->p.output, *z = &t->layer->p.residual;
  const int64_t k = panel * COLUMNS;
  const sums_out r = {.sums = t->sums + i * ROWS * COLUMNS * 4,
                      .rows = falt_tiles_count(t->plan, t->tile + i),
                      .n = (int)falt_tiles_columns(t->plan, panel),
                      .channel = t->group * t->layer->results + k,
                      .out = t->group * y->stride[FALT_G] + k * y->stride[FALT_C],
                      .residual = t->group * z->stride[FALT_G] + k * z->stride[FALT_C],
                      .at = t->out + i * ROWS,
                      .residual_at = t->residual + i * ROWS};
  (t->plan->vectors ? store_vectors : store_singly)(t, &r);
}

/* Part by part of the depth, so that the panel's part is fetched once for all calls. */
static void run_panel(const falt_tiles_task *t, int64_t panel) {
  const falt_tiles_plan *plan = t->plan;
  const int64_t columns = falt_tiles_columns(plan, panel), step = falt_ceil_div(columns, ROWS) * TILE;
  const char *b = t->run->packed + (size_t)(t->group * plan->panels + panel) * plan->panel;
  falt_tiles_product call = {.kind = plan->kind, .rows = (int)plan->rows, .columns = (int)columns};
  for (int64_t part = 0; part < plan->parts; part++, b += call.segments * call.pieces * step) {
    const int64_t along = falt_ceil_div(plan->pieces, plan->part_pieces), segment = part / along * plan->part_segments;
    call.b = b;
    call.first = part % along * plan->part_pieces;
    call.pieces = falt_min(plan->part_pieces, plan->pieces - call.first);
    call.segments = falt_min(plan->part_segments, plan->segments - segment);
    call.accumulate = part > 0;
    for (int64_t i = 0; i < t->tiles; i += PAIR) {
      call.a = t->list + (i / PAIR * plan->segments + segment) * PAIR;
      call.sums = t->sums + i * ROWS * COLUMNS * 4;
      call.tiles = (int)falt_min(PAIR, t->tiles - i);
      plan->kernels->product(&call);
      if (part + 1 < plan->parts) continue;
      for (int tile = 0; tile < call.tiles; tile++) store_tile(t, i + tile, panel);
    }
  }
}

static void open_task(falt_tiles_task *t, char *memory) {
  const falt_tiles_plan *plan = t->plan;
  const falt_tiles_map *at = &plan->at;
  const falt_problem *p = &t->layer->p;
  t->list = (falt_tile_rows *)(void *)(memory + at->list);
  t->out = (int64_t *)(void *)(memory + at->out);
  t->residual = (int64_t *)(void *)(memory + at->residual);
  t->constant = memory + at->constant;
  t->copied = (const char **)(void *)(memory + at->copied);
  t->gathered = memory + at->gathered;
  t->sums = memory + at->sums;
  t->pixel = p->input.stride[FALT_W] * falt_tiles_input_size(t);
  const falt_type type = plan->kind == FALT_TILES_F32 ? FALT_F32 : p->input.type;
  for (int64_t i = 0; i < t->layer->channels; i++) falt_store(t->constant, type, i, p->boundary_value);
}

static void run_task(void *context, int64_t index, void *scratch) {
  const falt_tiles_run *run = context;
  const falt_tiles_plan *plan = run->plan;
  falt_tiles_task t = {.run = run, .plan = plan, .layer = &plan->layer, .group = -1};
  const int64_t chunk = index % plan->chunks.count, block = index / plan->chunks.count;
  t.tile = falt_layer_piece(&plan->blocks, block) * PAIR;
  t.tiles = falt_min(falt_layer_piece(&plan->blocks, block + 1) * PAIR, falt_tiles_all(plan)) - t.tile;
  const int64_t begin = falt_layer_piece(&plan->chunks, chunk), end = falt_layer_piece(&plan->chunks, chunk + 1);
  open_task(&t, scratch);
  plan->kernels->open((int)plan->rows);
  for (int64_t i = begin; i < end; i++) {
    if (i / plan->panels != t.group) falt_tiles_list(&t, i / plan->panels);
    run_panel(&t, i % plan->panels);
  }
  plan->kernels->close();
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const falt_tiles_plan *plan = (const falt_tiles_plan *)base;
  char *workspace = operands->workspace, *filter = workspace + plan->filter;
  float *factors = (float *)(void *)(workspace + plan->factors);
  falt_tiles_run run = {plan, operands, plan->packed ? plan->packed : filter, factors};
  if (!plan->packed) falt_tiles_pack(plan, operands->filter, filter);
  falt_layer_factors(&plan->layer, operands, factors);
  falt_rows_run(base->device,
                &(falt_row_job){.run = run_task,
                                .context = &run,
                                .tasks = plan->blocks.count * plan->chunks.count,
                                .scratch = plan->at.total},
                workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  static const char *const kinds[FALT_TILES_KIND_COUNT] = {"u8", "s8", "bf16", "f32"};
  const falt_tiles_plan *plan = (const falt_tiles_plan *)base;
  falt_text_add(text, "(tiles %s %s %lldx%d%s%s block=%lld threads=%d)", falt_isa_name(base->device->isa),
                kinds[plan->kind], (long long)plan->rows, FALT_TILE_BYTES, plan->in_place ? "" : " gathered",
                plan->vectors ? "" : " singly", (long long)falt_layer_most(&plan->blocks) * PAIR,
                falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *plan) {
  falt_free(((falt_tiles_plan *)plan)->packed);
  falt_free(plan);
}

/* ---- applicable, besides what all layers must be */

static bool is_byte(falt_type type) {
  return type == FALT_U8 || type == FALT_S8;
}

static bool widens(falt_type type) {
  return is_byte(type) || type == FALT_F16 || type == FALT_BF16 || type == FALT_F32;
}

/* Whether the constant, if there is one, is a number of the input's type. */
static bool has_constant(const falt_problem *p) {
  double stored[1];
  falt_store(stored, p->input.type, 0, p->boundary_value);
  return falt_load(stored, p->input.type, 0) == p->boundary_value;
}

static falt_tiles_kind kind_of(const falt_problem *p) {
  const falt_type x = p->input.type, w = p->filter.type;
  if (is_byte(x) && w == FALT_S8) return x == FALT_U8 ? FALT_TILES_U8 : FALT_TILES_S8;
  return x == FALT_BF16 && w == FALT_BF16 && has_constant(p) ? FALT_TILES_BF16 : FALT_TILES_F32;
}

static const char *refusal(const falt_tiles_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const falt_type x = p->input.type, w = p->filter.type;
  const bool whole = plan->kind <= FALT_TILES_S8;
  return x == FALT_F32 && w == FALT_F32                                 ? "f32 has solvers of its own"
         : !widens(x) || !widens(w)                                     ? "only types of 8 and 16 bits, and f32"
         : p->accumulator == FALT_F64                                   ? "sums in f64 are not formed here"
         : p->output.type == FALT_F64                                   ? "results in f64 are not formed here"
         : is_byte(x) && w == FALT_U8                                   ? "weights of 8 bits are s8"
         : whole && !has_constant(p)                                    ? "the constant is no value of the input's type"
         : whole && plan->segments * plan->length > MOST_DEPTH          ? "its sums may not fit 32 bits"
         : plan->segments > MOST_SEGMENTS || plan->length > MOST_LENGTH ? "its filter has too many taps for a list"
                                                                        : NULL;
}

/* ---- estimate */

/* Share of the multiply-add peak, and what else takes time, in f32 multiply-adds of vectors. */
static const double share = 0.6;
static const double per_result = 32, per_row = 400, per_piece = 128, per_element = 16, per_element_apart = 256;

/* Share of tiles that are gathered: those with the end of a row, and at both borders the taps that reach over. Copied
 * rows cost a tap's share of that. */
static double gathered_share(const falt_tiles_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const double width = (double)layer->p.output.size[FALT_W], ends = layer->positions > width ? ROWS / width : 0;
  const double borders = layer->p.filter.size[FALT_W] > 1 ? ROWS / width / 2 : 0;
  return plan->by_rows ? 1 / (double)layer->taps : fmin(1, ends + borders);
}

static double estimate(const falt_tiles_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const double groups = (double)falt_tiles_groups(plan), positions = (double)layer->positions * groups;
  const double depth = (double)(plan->segments * plan->pieces * FALT_TILE_BYTES / plan->element);
  const double columns = (double)falt_round_up(layer->results, ROWS);
  const double waste = (double)(ROWS * plan->tiles) / (double)plan->line;
  const double products =
      2 * positions * (plan->rows < ROWS ? 1 : waste) * columns * depth / plan->kernels->speed[plan->kind];
  const double passes = (double)falt_ceil_div(plan->chunks.count, (int64_t)groups); /* a block's lists are made anew */
  const double element = falt_tensor_unit(&layer->p.input, FALT_C) ? per_element : per_element_apart;
  const double rows = (double)plan->segments * (per_row + per_piece * (double)plan->pieces);
  const double lists = plan->in_place ? gathered_share(plan) * rows
                                      : (double)layer->taps * (per_row + element * (double)layer->channels);
  const double results = positions * (double)layer->results * per_result * (plan->vectors ? 1 : 30);
  const double filter = plan->packed ? 0 : 100 * (double)falt_tensor_count(&layer->p.filter);
  return falt_roofline(device, FALT_F32, products + positions * passes * lists + results + filter, share,
                       falt_problem_bytes(&layer->p));
}

/* ---- plan */

/* Whether f32 holds all that the epilogue of integers meets: sums beyond it saturate. */
static bool goes_by_vectors(const falt_tiles_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const falt_type y = p->output.type;
  const bool near =
      falt_tensor_unit(&p->output, FALT_C) && (!p->has_residual || falt_tensor_unit(&p->residual, FALT_C));
  const bool sums = y == FALT_S32 && plan->layer.plain && plan->kind <= FALT_TILES_S8;
  const bool small = !is_byte(y) || fabs(p->beta) < 0x1p20;
  return near && (sums || (widens(y) && small && (!p->has_residual || widens(p->residual.type))));
}

static void set_segments(falt_tiles_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const bool whole = layer->channels * plan->element % FALT_TILE_BYTES == 0;
  plan->in_place = whole && plan->kind != FALT_TILES_F32 && falt_tensor_unit(&layer->p.input, FALT_C);
  plan->segments = plan->in_place ? layer->taps : 1;
  plan->length = plan->in_place ? layer->channels : layer->taps * layer->channels;
  plan->pieces = falt_ceil_div(plan->length * plan->element, FALT_TILE_BYTES);
  plan->panels = falt_ceil_div(layer->results, COLUMNS);
  plan->panel = (size_t)plan->segments * (size_t)plan->pieces * 2 * TILE;
}

/* Rows with ends of their own leave no tile to be gathered where taps reach over these: their input rows are copied. */
static void set_rows(falt_tiles_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_axis *axis = &layer->p.axis[2];
  const int64_t width = layer->p.output.size[FALT_W], taps = layer->p.filter.size[FALT_W];
  plan->by_rows = plan->in_place && taps > 1 && width >= LEAST_ROW;
  plan->line = plan->by_rows ? width : layer->positions;
  plan->tiles = falt_ceil_div(plan->line, ROWS);
  plan->rows = plan->by_rows ? falt_ceil_div(width, plan->tiles) : ROWS;
  plan->wide = plan->by_rows ? (plan->tiles * plan->rows - 1) * axis->stride + falt_extent(axis, taps) : 0;
}

/* Short sums are one part. */
static void set_parts(falt_tiles_plan *plan) {
  const int64_t whole = plan->segments * plan->pieces > 2 * PART ? PART : 2 * PART;
  plan->part_pieces = falt_min(plan->pieces, whole);
  plan->part_segments = plan->part_pieces < plan->pieces ? 1 : falt_max(1, whole / plan->pieces);
  plan->parts = falt_ceil_div(plan->segments, plan->part_segments) * falt_ceil_div(plan->pieces, plan->part_pieces);
}

/* Blocks whose gathered rows stay in the second-level cache beside a panel, and so small that threads have enough of
 * them; chunks of panels where positions are too few. */
static void set_tasks(falt_tiles_plan *plan) {
  const int64_t panels = falt_tiles_groups(plan) * plan->panels; /* of all groups */
  const int64_t threads = falt_threads_count(plan->base.device->threads), wanted = threads == 1 ? 1 : 4 * threads;
  const int64_t tile = plan->segments * plan->pieces * TILE, all = falt_tiles_all(plan);
  const int64_t room = (int64_t)plan->base.device->caches.l2 * 3 / 4 / tile / PAIR * PAIR;
  int64_t block = falt_max(PAIR, falt_min(BLOCK, room));
  while (block >= 2 * PAIR && falt_ceil_div(all, block) * panels < wanted) block = block / 2 / PAIR * PAIR;
  const int64_t calls = falt_ceil_div(all, PAIR);
  plan->blocks = falt_layer_cut(calls, falt_ceil_div(calls, block / PAIR));
  plan->chunks = falt_layer_cut(panels, falt_min(panels, falt_ceil_div(wanted, plan->blocks.count)));
}

static size_t place(size_t *total, size_t bytes) {
  const size_t at = *total;
  *total += (bytes + FALT_ALIGN - 1) / FALT_ALIGN * FALT_ALIGN;
  return at;
}

/* Input rows that a block may copy: of each output row that it touches. */
static size_t most_copies(const falt_tiles_plan *plan) {
  const int64_t *taps = plan->layer.p.filter.size;
  const int64_t rows = falt_layer_most(&plan->blocks) * PAIR / plan->tiles + 2;
  return plan->by_rows ? (size_t)(rows * taps[FALT_D] * taps[FALT_H]) : 0;
}

static void lay_memory(falt_tiles_plan *plan) {
  const size_t tiles = 2 * (size_t)falt_layer_most(&plan->blocks), segments = (size_t)plan->segments;
  const size_t pieces = (size_t)plan->pieces, groups = (size_t)falt_tiles_groups(plan);
  falt_tiles_map *at = &plan->at;
  at->list = place(&at->total, tiles * segments * sizeof(falt_tile_rows));
  at->out = place(&at->total, tiles * ROWS * sizeof(int64_t));
  at->residual = place(&at->total, tiles * ROWS * sizeof(int64_t));
  at->constant = place(&at->total, pieces * FALT_TILE_BYTES);
  at->copied = place(&at->total, most_copies(plan) * sizeof(char *));
  at->gathered = place(&at->total, plan->by_rows ? most_copies(plan) * (size_t)plan->wide * pieces * FALT_TILE_BYTES
                                                 : tiles * segments * pieces * TILE);
  at->sums = place(&at->total, tiles * ROWS * COLUMNS * sizeof(float));
  size_t total = falt_rows_workspace(plan->base.device, at->total);
  plan->factors = place(&total, 2 * groups * (size_t)plan->layer.results * sizeof(float));
  plan->filter = place(&total, plan->packed ? 0 : groups * (size_t)plan->panels * plan->panel);
  plan->base.workspace = total;
}

static bool take_filter(falt_tiles_plan *plan, const void *values) {
  if (!values) return true;
  plan->packed = falt_alloc((size_t)falt_tiles_groups(plan) * (size_t)plan->panels * plan->panel);
  if (plan->packed) falt_tiles_pack(plan, values, plan->packed);
  plan->base.packed = plan->packed != NULL;
  return plan->base.packed;
}

static falt_plan *plan_tiles(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy};
  static const int64_t elements[FALT_TILES_KIND_COUNT] = {1, 1, 2, 4};
  falt_layer layer;
  const char *reason = falt_layer_shape(&layer, ask->problem, ask->device->isa);
  if (reason) return falt_refuse(ask, "%s", reason);
  falt_tiles_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->layer = layer;
  plan->kernels = falt_tiles_kernels_for(ask->device->isa);
  plan->kind = kind_of(&layer.p);
  plan->element = elements[plan->kind];
  set_segments(plan);
  set_rows(plan);
  set_parts(plan);
  plan->vectors = goes_by_vectors(plan);
  if ((reason = refusal(plan))) {
    destroy(&plan->base);
    return falt_refuse(ask, "%s", reason);
  }
  set_tasks(plan);
  if (!take_filter(plan, ask->filter_values)) {
    destroy(&plan->base);
    return falt_refuse_memory(ask);
  }
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_tiles;
const falt_solver falt_solver_tiles = {.name = "tiles", .device_kind = "cpu", .plan = plan_tiles};
