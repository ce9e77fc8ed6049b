/* Runs winograd. A task takes a block of tiles: it transforms their inputs for all channels, then panel by panel of the
 * output channels it multiplies each element of the transforms by the filter's, transforms the sums back, and stores
 * the outputs through the epilogue. Transforms and sums of a block stay in the second-level cache.
 *
 * Where an output of a tile is not finite, the panel's outputs of the tile are computed again tap by tap: an infinity
 * or NaN reaches every output of its tile by the transforms, and intermediate values may overflow. */
#include "solver/cpu/winograd/winograd.h"

typedef struct execution {
  const falt_winograd_plan *plan;
  const falt_operands *operands;
  const float *packed, *factors;
  const float *taps; /* the filter itself, as `tensor` says */
  const falt_tensor *tensor;
} execution;

typedef struct task {
  const execution *run;
  const falt_winograd_plan *plan;
  const falt_layer *layer;
  int64_t first, count, group; /* tiles */
  const float **pixels;
  float *gathered, *constant, *inputs;
  const void **list; /* of transforms, by chain and tile */
  float *sums, *outputs;
} task;

/* A tile: its image, depth and first output. */
typedef struct place {
  int64_t n, d, h, w;
} place;

static place place_of(const falt_winograd_plan *plan, int64_t tile) {
  const int64_t row = tile / plan->tiling.tiles[1], plane = row / plan->tiling.tiles[0];
  const int64_t depth = plan->layer.p.output.size[FALT_D];
  return (place){plane / depth, plane % depth, row % plan->tiling.tiles[0] * plan->tiling.outputs[0],
                 tile % plan->tiling.tiles[1] * plan->tiling.outputs[1]};
}

/* ---- inputs */

/* Pixels of a run of tiles: rows of them for the tiles' elements along the height, columns along the width. */
typedef struct tile_run {
  place at;
  int64_t tiles, columns;
} tile_run;

/* The row of the input that element i of a tile's height reads, at channel 0 of the group; NULL: the constant. */
static const float *row_of(const task *t, const place *at, int64_t i) {
  const falt_layer *layer = t->layer;
  const int64_t d = falt_layer_source(layer, 0, at->d, 0), h = falt_layer_source(layer, 1, at->h, i);
  return d < 0 || h < 0
             ? NULL
             : (const float *)t->run->operands->input + falt_tensor_at(&layer->p.input, at->n, t->group, 0, d, h, 0);
}

/* The part of a run's columns that lies inside the input. */
static void find_inside(const task *t, const tile_run *r, int64_t *begin, int64_t *end) {
  const int64_t first = r->at.w - t->layer->p.axis[2].pad[0], size = t->layer->p.input.size[FALT_W];
  *begin = falt_min(r->columns, falt_max(0, -first));
  *end = falt_max(*begin, falt_min(r->columns, size - first));
}

static void list_pixels(const task *t, const tile_run *r) {
  const int64_t step = t->layer->p.input.stride[FALT_W];
  for (int64_t i = 0; i < t->plan->tiling.size[0]; i++) {
    const float *row = row_of(t, &r->at, i), **list = t->pixels + i * r->columns;
    for (int64_t j = 0; j < r->columns; j++) {
      const int64_t w = row ? falt_layer_source(t->layer, 2, r->at.w, j) : -1;
      list[j] = w < 0 ? t->constant : row + w * step;
    }
  }
}

/* Channels [c, c + n) of the run's pixels, brought together. */
static void gather_pixels(const task *t, const tile_run *r, int64_t c, int64_t n) {
  const falt_tensor *x = &t->layer->p.input;
  falt_layer_copy copy = {
      .step = x->stride[FALT_C], .from_pitch = x->stride[FALT_W], .to_pitch = FALT_WINOGRAD_CHUNK, .n = n};
  int64_t begin, end;
  find_inside(t, r, &begin, &end);
  for (int64_t i = 0; i < t->plan->tiling.size[0]; i++) {
    const float *row = row_of(t, &r->at, i), **list = t->pixels + i * r->columns;
    float *to = t->gathered + i * r->columns * FALT_WINOGRAD_CHUNK;
    for (int64_t j = 0; j < r->columns; j += copy.count) {
      const int64_t w = row ? falt_layer_source(t->layer, 2, r->at.w, j) : -1;
      copy.count = j == begin && end > begin && row ? end - begin : 1;
      copy.to = to + j * FALT_WINOGRAD_CHUNK;
      for (int64_t m = 0; m < copy.count; m++) list[j + m] = w < 0 ? t->constant : to + (j + m) * FALT_WINOGRAD_CHUNK;
      if (w < 0) continue;
      copy.from = row + w * x->stride[FALT_W] + c * x->stride[FALT_C];
      t->layer->kernels->copy(&copy);
    }
  }
}

/* Channels [c, c + n) of a run of tiles, from pixels listed at channel `offset`. */
static void transform_channels(const task *t, const tile_run *r, float *to, int64_t c, int64_t n, int64_t offset) {
  const falt_winograd_plan *plan = t->plan;
  const bool ends = c + n == t->layer->channels;
  falt_winograd_input call = {
      .row = r->columns, .offset = offset, .n = n, .depth = (ends ? plan->depth : c + n) - c, .pitch = plan->pitch};
  for (int64_t i = 0; i < r->tiles; i++) {
    call.pixels = t->pixels + i * plan->tiling.outputs[1];
    call.to = to + i * plan->depth + c;
    plan->kernels->input[plan->tiling.axes - 1][plan->tiling.form](&call);
  }
}

static void transform_run(const task *t, const tile_run *r, float *to) {
  const int64_t channels = t->layer->channels;
  if (t->plan->in_place) {
    list_pixels(t, r);
    transform_channels(t, r, to, 0, channels, 0);
    return;
  }
  for (int64_t c = 0; c < channels && !falt_cancelled(); c += FALT_WINOGRAD_CHUNK) {
    const int64_t n = falt_min(FALT_WINOGRAD_CHUNK, channels - c);
    gather_pixels(t, r, c, n);
    transform_channels(t, r, to, c, n, 0);
  }
}

/* All tiles of the task, run by run of a row of tiles. */
static void transform_inputs(const task *t) {
  const falt_winograd_plan *plan = t->plan;
  for (int64_t i = 0, tiles; i < t->count && !falt_cancelled(); i += tiles) {
    const int64_t left = plan->tiling.tiles[1] - (t->first + i) % plan->tiling.tiles[1];
    tiles = falt_min(falt_min(left, t->count - i), FALT_WINOGRAD_RUN);
    const tile_run r = {.at = place_of(plan, t->first + i),
                        .tiles = tiles,
                        .columns = (tiles - 1) * plan->tiling.outputs[1] + plan->tiling.size[1]};
    transform_run(t, &r, t->inputs + i * plan->depth);
  }
}

/* ---- products */

static void list_transforms(const task *t) {
  const int64_t chain = t->plan->chain ? t->plan->chain : t->plan->depth;
  for (int64_t c = 0, s = 0; c < t->plan->depth; c += chain, s++)
    for (int64_t i = 0; i < t->count; i++) t->list[s * t->count + i] = t->inputs + i * t->plan->depth + c;
}

/* One element of all tiles' transforms by the filter's. Meanwhile the filter's next element is fetched. */
static void multiply_element(const task *t, int64_t element, const float *filter, int64_t width) {
  const falt_winograd_plan *plan = t->plan;
  const falt_layer_pieces pieces = falt_layer_cut(t->count, falt_ceil_div(t->count, plan->rows));
  const int64_t whole = plan->depth * width, fetched = plan->depth * (int64_t)(64 / sizeof(float));
  const int64_t chain = plan->chain ? plan->chain : plan->depth;
  const float *b = filter + element * whole;
  float *sums = t->sums + element * plan->sums_pitch;
  void *rows[FALT_LAYER_ROWS];
  falt_layer_product call = {.a_pitch = t->count,
                             .b = b,
                             .out = rows,
                             .offset = element * plan->pitch,
                             .segments = plan->depth / chain,
                             .depth = chain,
                             .n = width,
                             .chain = chain};
  for (int64_t i = 0; i < pieces.count; i++) {
    const int64_t begin = falt_layer_piece(&pieces, i);
    call.a = t->list + begin;
    call.rows = (int)(falt_layer_piece(&pieces, i + 1) - begin);
    for (int m = 0; m < call.rows; m++) rows[m] = sums + (begin + m) * plan->width;
    const bool fetches = element + 1 < plan->tiling.elements && (i + 1) * fetched <= whole;
    call.ahead = fetches ? b + whole + i * fetched : NULL;
    call.ahead_run = plan->depth;
    t->layer->kernels->product(&call);
  }
}

/* ---- outputs */

/* Output (h, w) of the tile at columns [k, k + n), tap by tap. */
static void compute_output(const task *t, const place *at, int64_t k, int64_t n, float *sums) {
  const falt_tensor *x = &t->layer->p.input, *w = t->run->tensor;
  const int64_t taps[2] = {w->size[FALT_H], w->size[FALT_W]};
  for (int64_t i = 0; i < n; i++) sums[i] = 0;
  for (int64_t tap = 0; tap < taps[0] * taps[1]; tap++) {
    const float *row = row_of(t, at, tap / taps[1]);
    const int64_t source = falt_layer_source(t->layer, 2, at->w, tap % taps[1]);
    const float *pixel = row && source >= 0 ? row + source * x->stride[FALT_W] : NULL;
    const float *filter = t->run->taps + falt_layer_tap_at(w, tap) + falt_tensor_at(w, k, t->group, 0, 0, 0, 0);
    for (int64_t c = 0; c < t->layer->channels; c++, filter += w->stride[FALT_C]) {
      const float value = pixel ? pixel[c * x->stride[FALT_C]] : t->constant[0];
      for (int64_t i = 0; i < n; i++) sums[i] += value * filter[i * w->stride[FALT_K]];
    }
  }
}

/* The part of a tile that the output has. */
static void clip_tile(const falt_winograd_plan *plan, const place *at, int64_t count[2]) {
  const falt_tensor *y = &plan->layer.p.output;
  count[0] = falt_min(plan->tiling.outputs[0], y->size[FALT_H] - at->h);
  count[1] = falt_min(plan->tiling.outputs[1], y->size[FALT_W] - at->w);
}

static void compute_again(const task *t, const place *at, int64_t k, int64_t n) {
  int64_t count[2];
  clip_tile(t->plan, at, count);
  for (int64_t i = 0; i < count[0] * count[1] && !falt_cancelled(); i++) {
    const int64_t h = i / count[1], w = i % count[1];
    compute_output(t, &(place){at->n, at->d, at->h + h, at->w + w}, k, n,
                   t->outputs + (h * t->plan->tiling.outputs[1] + w) * FALT_LAYER_WIDEST);
  }
}

static void store_tile(const task *t, const place *at, int64_t k, int64_t n) {
  const falt_tensor *y = &t->layer->p.output, *z = &t->layer->p.residual;
  int64_t out[FALT_WINOGRAD_SIZE], residual[FALT_WINOGRAD_SIZE], count[2];
  clip_tile(t->plan, at, count);
  for (int64_t h = 0; h < count[0]; h++) {
    for (int64_t w = 0; w < count[1]; w++) {
      out[w] = falt_tensor_at(y, at->n, t->group, k, at->d, at->h + h, at->w + w);
      residual[w] = falt_tensor_at(z, at->n, t->group, k, at->d, at->h + h, at->w + w);
    }
    falt_layer_store(t->layer, t->run->operands,
                     &(falt_layer_block){.sums = t->outputs + h * t->plan->tiling.outputs[1] * FALT_LAYER_WIDEST,
                                         .pitch = FALT_LAYER_WIDEST,
                                         .n = n,
                                         .rows = (int)count[1],
                                         .out = out,
                                         .residual = residual,
                                         .out_step = y->stride[FALT_C],
                                         .residual_step = z->stride[FALT_C],
                                         .channel = t->group * t->layer->results + k,
                                         .factors = t->run->factors});
  }
}

/* Columns [k, k + n) of all tiles, from their sums. */
static void finish_panel(const task *t, int64_t k, int64_t n, int64_t width) {
  const falt_winograd_plan *plan = t->plan;
  for (int64_t i = 0; i < t->count && !falt_cancelled(); i++) {
    const place at = place_of(plan, t->first + i);
    const falt_winograd_output call = {.from = t->sums + i * plan->width,
                                       .to = t->outputs,
                                       .n = width,
                                       .from_pitch = plan->sums_pitch,
                                       .to_pitch = FALT_LAYER_WIDEST};
    if (!plan->kernels->output[plan->tiling.axes - 1][plan->tiling.form](&call)) compute_again(t, &at, k, n);
    store_tile(t, &at, k, n);
  }
}

static void run_panel(const task *t, int64_t panel) {
  const falt_winograd_plan *plan = t->plan;
  const int64_t k = falt_winograd_columns(plan, panel), width = falt_winograd_columns(plan, panel + 1) - k;
  const float *filter =
      t->run->packed + (size_t)t->group * plan->group + (size_t)(k * plan->depth * plan->tiling.elements);
  for (int64_t e = 0; e < plan->tiling.elements && !falt_cancelled(); e++) multiply_element(t, e, filter, width);
  finish_panel(t, k, falt_min(width, t->layer->results - k), width);
}

/* ---- execute */

static void open_task(task *t, char *memory) {
  const falt_winograd_scratch *at = &t->plan->at;
  t->pixels = (const float **)(void *)(memory + at->pixels);
  t->gathered = (float *)(void *)(memory + at->gathered);
  t->constant = (float *)(void *)(memory + at->constant);
  t->inputs = (float *)(void *)(memory + at->inputs);
  t->list = (const void **)(void *)(memory + at->list);
  t->sums = (float *)(void *)(memory + at->sums);
  t->outputs = (float *)(void *)(memory + at->outputs);
  for (int64_t c = 0; c < t->layer->channels; c++) t->constant[c] = (float)t->layer->p.boundary_value;
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const falt_winograd_plan *plan = run->plan;
  const int64_t chunk = index % plan->chunks.count, block = index / plan->chunks.count;
  task t = {
      .run = run, .plan = plan, .layer = &plan->layer, .group = -1, .first = falt_layer_piece(&plan->blocks, block)};
  t.count = falt_layer_piece(&plan->blocks, block + 1) - t.first;
  open_task(&t, scratch);
  list_transforms(&t);
  for (int64_t i = falt_layer_piece(&plan->chunks, chunk); i < falt_layer_piece(&plan->chunks, chunk + 1); i++) {
    if (falt_cancelled()) return;
    if (i / plan->panels.count != t.group) {
      t.group = i / plan->panels.count;
      transform_inputs(&t);
    }
    run_panel(&t, i % plan->panels.count);
  }
}

void falt_winograd_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_winograd_plan *plan = (const falt_winograd_plan *)base;
  char *workspace = operands->workspace;
  float *factors = (float *)(void *)(workspace + plan->factors), *filter = (float *)(void *)(workspace + plan->filter);
  const bool known = plan->packed != NULL;
  execution run = {.plan = plan,
                   .operands = operands,
                   .packed = known ? plan->packed : filter,
                   .factors = factors,
                   .taps = known ? plan->taps : operands->filter,
                   .tensor = known ? &plan->taps_tensor : &plan->layer.p.filter};
  if (!known) falt_winograd_pack(plan, operands->filter, filter);
  falt_layer_factors(&plan->layer, operands, factors);
  const falt_row_job job = {run_task, &run, plan->blocks.count * plan->chunks.count, plan->at.parts.total};
  falt_rows_run(base->device, &job, workspace);
}
