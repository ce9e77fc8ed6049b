/* Solver winograd-wgrad: wgrad of dense f32 NHWC layers of 3 or 5 taps and stride 1, by the transposes of winograd's
 * transforms, since the layer is linear in its filter and in its output:
 *
 *     dW = G^T [ sum over tiles of (A dY A^T) .* (B^T X B) ] G
 *
 * A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016. The transforms of x and dy go to the
 * workspace; a child problem multiplies. The planner picks it where there are many tiles and channels. */
#include <math.h>

#include "solver/cpu/winograd/winograd.h"

/* The child is the wgrad of a 1x1 layer with a group for each element of a tile, and for each group of the layer.
 * Matrix e*G + g of each operand has rows of channels filled up to whole vectors: tiles of the transforms of x and dy,
 * output channels of the products. */

/* PAD: unused floats after each matrix: without them the elements of a tile, one in each matrix, would often map to the
 * same cache set. */
enum { ELEMENTS = FALT_WINOGRAD_SIZE * FALT_WINOGRAD_SIZE, TAPS = 25, CHUNK = 64, PAD = 16 };

typedef struct wgrad_plan {
  falt_parent parent;
  falt_layer layer;
  const falt_winograd_kernels *kernels;
  falt_winograd_tiling tiling;
  int64_t channels, results;                          /* of a group, rounded up to whole vectors */
  size_t constants, input, gradient, products, inner; /* offsets into the workspace; inner: the child's */
} wgrad_plan;

/* Floats from one matrix to the next. */
static int64_t pitch_of(int64_t rows, int64_t columns) {
  return rows * columns + PAD;
}

typedef struct execution {
  const wgrad_plan *plan;
  const falt_operands *operands;
  float *constant, *zeros; /* pixels beyond the ends of x, and beyond those of dy */
  float *input, *gradient, *products;
} execution;

/* ---- transforms: a task is a row of tiles */

typedef struct place {
  int64_t n, g, d, h;
} place;

static place place_of(const wgrad_plan *plan, int64_t row) {
  const int64_t depth = plan->layer.p.output.size[FALT_D], groups = plan->layer.p.output.size[FALT_G];
  const int64_t plane = row / plan->tiling.tiles[0], image = plane / depth;
  return (place){image / groups, image % groups, plane % depth, row % plan->tiling.tiles[0] * plan->tiling.outputs[0]};
}

/* The number of a row's first tile within its group. */
static int64_t first_tile(const wgrad_plan *plan, const place *at) {
  return ((at->n * plan->layer.p.output.size[FALT_D] + at->d) * plan->tiling.tiles[0] +
          at->h / plan->tiling.outputs[0]) *
         plan->tiling.tiles[1];
}

static void list_inputs(const execution *run, const place *at, int64_t w, const float **pixels) {
  const falt_layer *layer = &run->plan->layer;
  const falt_tensor *x = &layer->p.input;
  for (int64_t i = 0; i < run->plan->tiling.size[0]; i++) {
    const int64_t d = falt_layer_source(layer, 0, at->d, 0), h = falt_layer_source(layer, 1, at->h, i);
    for (int64_t j = 0; j < run->plan->tiling.size[1]; j++) {
      const int64_t source = falt_layer_source(layer, 2, w, j);
      const bool inside = d >= 0 && h >= 0 && source >= 0;
      *pixels++ = inside ? (const float *)run->operands->input + falt_tensor_at(x, at->n, at->g, 0, d, h, source)
                         : run->constant;
    }
  }
}

static void list_outputs(const execution *run, const place *at, int64_t w, const float **pixels) {
  const falt_tensor *y = &run->plan->layer.p.output;
  for (int64_t i = 0; i < run->plan->tiling.outputs[0]; i++)
    for (int64_t j = 0; j < run->plan->tiling.outputs[1]; j++) {
      const bool inside = at->h + i < y->size[FALT_H] && w + j < y->size[FALT_W];
      *pixels++ =
          inside ? (const float *)run->operands->output + falt_tensor_at(y, at->n, at->g, 0, at->d, at->h + i, w + j)
                 : run->zeros;
    }
}

static void transform_row(void *context, int64_t index) {
  const execution *run = context;
  const wgrad_plan *plan = run->plan;
  const int64_t groups = plan->layer.p.output.size[FALT_G], axis = plan->tiling.axes - 1;
  const int64_t inputs = pitch_of(plan->tiling.all, plan->channels),
                gradients = pitch_of(plan->tiling.all, plan->results);
  const place at = place_of(plan, index);
  const float *pixels[ELEMENTS];
  for (int64_t i = 0; i < plan->tiling.tiles[1] && !falt_cancelled(); i++) {
    const int64_t tile = first_tile(plan, &at) + i, w = i * plan->tiling.outputs[1];
    list_inputs(run, &at, w, pixels);
    plan->kernels->input[axis][plan->tiling.form](
        &(falt_winograd_input){.pixels = pixels,
                               .to = run->input + at.g * inputs + tile * plan->channels,
                               .row = plan->tiling.size[1],
                               .n = plan->layer.channels,
                               .depth = plan->channels,
                               .pitch = groups * inputs});
    list_outputs(run, &at, w, pixels);
    plan->kernels->gradient[axis][plan->tiling.form](
        &(falt_winograd_input){.pixels = pixels,
                               .to = run->gradient + at.g * gradients + tile * plan->results,
                               .row = plan->tiling.outputs[1],
                               .n = plan->layer.results,
                               .depth = plan->results,
                               .pitch = groups * gradients});
  }
}

/* ---- results: a task is an output channel */

/* The sum of a tap over all outputs, for channel c and output channel k of a group. */
static float direct_sum(const execution *run, int64_t g, int64_t k, int64_t c, int64_t tap) {
  const falt_layer *layer = &run->plan->layer;
  const falt_tensor *x = &layer->p.input, *y = &layer->p.output;
  const float *input = run->operands->input, *output = run->operands->output;
  float sum = 0;
  for (int64_t i = 0; i < layer->positions && !falt_cancelled(); i++) {
    const falt_layer_point at = falt_layer_point_at(layer, i);
    const int64_t d = falt_layer_source(layer, 0, at.at[0], 0);
    const int64_t h = falt_layer_source(layer, 1, at.at[1], tap / layer->p.filter.size[FALT_W]);
    const int64_t w = falt_layer_source(layer, 2, at.at[2], tap % layer->p.filter.size[FALT_W]);
    const bool inside = d >= 0 && h >= 0 && w >= 0;
    sum += (inside ? input[falt_tensor_at(x, at.n, g, c, d, h, w)] : run->constant[0]) *
           output[falt_tensor_at(y, at.n, g, k, at.at[0], at.at[1], at.at[2])];
  }
  return sum;
}

/* Channels [c, c + n) of an output channel: their taps are at `taps`, CHUNK apart. */
static void store_taps(const execution *run, int64_t g, int64_t k, int64_t c, int64_t n, const float *taps) {
  const falt_tensor *w = &run->plan->layer.p.filter;
  float *to = (float *)run->operands->filter + falt_tensor_at(w, k, g, c, 0, 0, 0);
  for (int64_t tap = 0; tap < run->plan->layer.taps; tap++)
    for (int64_t i = 0; i < n; i++) to[falt_layer_tap_at(w, tap) + i * w->stride[FALT_C]] = taps[tap * CHUNK + i];
}

static void finish_row(void *context, int64_t index) {
  const execution *run = context;
  const wgrad_plan *plan = run->plan;
  const falt_layer *layer = &plan->layer;
  const int64_t g = index / layer->results, k = index % layer->results, groups = layer->p.output.size[FALT_G];
  const int64_t matrix = pitch_of(plan->results, plan->channels);
  float taps[TAPS * CHUNK];
  for (int64_t c = 0; c < layer->channels && !falt_cancelled(); c += CHUNK) {
    const int64_t n = falt_min(CHUNK, layer->channels - c);
    const falt_winograd_output call = {.from = run->products + g * matrix + k * plan->channels + c,
                                       .to = taps,
                                       .n = falt_min(CHUNK, plan->channels - c),
                                       .from_pitch = groups * matrix,
                                       .to_pitch = CHUNK};
    if (!plan->kernels->products[plan->tiling.axes - 1][plan->tiling.form](&call))
      for (int64_t i = 0; i < layer->taps * n; i++)
        taps[i / n * CHUNK + i % n] = direct_sum(run, g, k, c + i % n, i / n);
    store_taps(run, g, k, c, n, taps);
  }
}

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *operands) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  const falt_layer *layer = &plan->layer;
  const int64_t groups = layer->p.output.size[FALT_G];
  char *workspace = operands->workspace;
  execution run = {.plan = plan,
                   .operands = operands,
                   .constant = (float *)(void *)(workspace + plan->constants),
                   .zeros = (float *)(void *)(workspace + plan->constants) + layer->channels,
                   .input = (float *)(void *)(workspace + plan->input),
                   .gradient = (float *)(void *)(workspace + plan->gradient),
                   .products = (float *)(void *)(workspace + plan->products)};
  for (int64_t c = 0; c < layer->channels; c++) run.constant[c] = (float)layer->p.boundary_value;
  for (int64_t k = 0; k < layer->results; k++) run.zeros[k] = 0;
  const int64_t rows = layer->p.output.size[FALT_N] * groups * layer->p.output.size[FALT_D] * plan->tiling.tiles[0];
  falt_parallel_for(base->device->threads, rows, transform_row, &run);
  const falt_operands inner = {
      .input = run.input, .filter = run.products, .output = run.gradient, .workspace = workspace + plan->inner};
  if (!falt_cancelled()) falt_plan_run(plan->parent.child, &inner);
  if (!falt_cancelled()) falt_parallel_for(base->device->threads, groups * layer->results, finish_row, &run);
}

static void print(const falt_plan *base, falt_text *text) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  falt_text_add(text, "(winograd-wgrad %s %s%s ", falt_isa_name(base->device->isa),
                falt_winograd_forms[plan->tiling.form].name, plan->tiling.axes == 2 ? "x2" : "");
  falt_parent_print(base, text);
}

/* ---- applicable */

static const char *inapplicable(const falt_ask *ask) {
  falt_layer layer;
  const char *reason = falt_layer_init_gradient(&layer, ask->problem, ask->device->isa);
  if (!reason) reason = falt_winograd_refusal(&layer.p);
  return reason                   ? reason
         : ask->problem->has_bias ? "it computes no gradient of the bias"
         : !falt_tensor_unit(&layer.p.input, FALT_C) || !falt_tensor_unit(&layer.p.output, FALT_C)
             ? "channels are not adjacent in memory"
             : NULL;
}

/* ---- plan */

static void set_form(wgrad_plan *plan, falt_winograd_form form) {
  const int axes = plan->layer.p.filter.size[FALT_H] > 1 ? 2 : 1;
  plan->tiling = falt_winograd_tile(form, axes, &plan->layer.p.output);
}

static double error_of(const wgrad_plan *plan) {
  const falt_winograd_traits *traits = &falt_winograd_forms[plan->tiling.form];
  const int axis = plan->tiling.axes - 1;
  return plan->tiling.all < traits->least_tiles[axis]
             ? ldexp(traits->wgrad_error[axis] / sqrt((double)plan->tiling.all), -24)
             : 0;
}

static void set_matrices(falt_tensor *t, int row, int64_t rows, int64_t columns, int64_t matrices) {
  t->size[row] = rows;
  t->size[FALT_G] = matrices;
  t->size[FALT_C] = columns;
  t->stride[row] = columns;
  t->stride[FALT_G] = pitch_of(rows, columns);
}

static falt_problem products_of(const wgrad_plan *plan) {
  const int64_t matrices = plan->tiling.elements * plan->layer.p.output.size[FALT_G];
  falt_problem inner;
  falt_problem_default(&inner);
  inner.operation = FALT_BACKWARD_FILTER;
  inner.space = 1;
  set_matrices(&inner.input, FALT_W, plan->tiling.all, plan->channels, matrices);
  set_matrices(&inner.output, FALT_W, plan->tiling.all, plan->results, matrices);
  set_matrices(&inner.filter, FALT_K, plan->results, plan->channels, matrices);
  falt_problem_canonical(&inner);
  return inner;
}

/* Floats of the transforms of x and dy, and of the products. */
static double floats_of(const wgrad_plan *plan) {
  const double matrices = (double)plan->tiling.elements * (double)plan->layer.p.output.size[FALT_G];
  const double channels = (double)plan->channels, results = (double)plan->results;
  return matrices * ((double)plan->tiling.all * (channels + results) + channels * results);
}

/* Operations in the time of transforming an element and storing it, and of storing an isolated result, as measured; and
 * how often memory moves transforms that do not stay in the last cache. */
static const double each = 16, apart = 24, moves = 4;
/* Part of the cost of a byte that another core has written: transforms are written and read in order, which the
 * hardware fetches ahead. Fitted to five layers on 16 threads of a Xeon. */
static const double in_order = 0.35;

static double own_seconds(const wgrad_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->layer.p;
  const double scattered = falt_tensor_unit(&p->filter, FALT_C) ? 0 : apart * (double)falt_tensor_count(&p->filter);
  const double floats = floats_of(plan), bytes = sizeof(float) * floats;
  const double moved = bytes > (double)device->caches.l3 / 2 ? moves * bytes : 0;
  return falt_roofline(device, FALT_F32, each * floats + scattered, 1, falt_problem_bytes(p) + moved) +
         in_order * falt_load_written(device, bytes / (double)falt_threads_count(device->threads));
}

/* The estimate of the form that is set. Forms have different bits, so a deterministic choice knows nothing of this
 * machine: it is by products for each output. */
static double expected_of(const wgrad_plan *plan, falt_ask *ask) {
  const falt_problem inner = products_of(plan);
  if (ask->budget->deterministic)
    return (double)plan->tiling.elements / (double)(plan->tiling.outputs[0] * plan->tiling.outputs[1]);
  falt_plan *child = falt_plan_child(ask, &inner, NULL);
  const double seconds = child ? child->cost.seconds + own_seconds(plan, ask->device) : INFINITY;
  falt_plan_destroy(&child);
  return seconds;
}

/* The form of the lowest estimate among those whose error is allowed; if there is none, that of the smallest error. */
static falt_winograd_form best_form(wgrad_plan *plan, falt_ask *ask) {
  falt_winograd_form best = FALT_WINOGRAD_FORMS;
  double seconds = INFINITY, error = INFINITY;
  for (int i = 0; i < FALT_WINOGRAD_FORMS; i++) {
    if (falt_winograd_forms[i].taps != plan->layer.p.filter.size[FALT_W]) continue;
    set_form(plan, (falt_winograd_form)i);
    const double excess = fmax(error_of(plan), ask->budget->max_error);
    if (excess > error || floats_of(plan) >= 0x1p40) continue;
    const double expected = excess > ask->budget->max_error ? 0 : expected_of(plan, ask);
    if (excess == error && expected >= seconds) continue;
    best = (falt_winograd_form)i;
    seconds = expected;
    error = excess;
  }
  return best;
}

static void lay_memory(wgrad_plan *plan) {
  const size_t matrices = (size_t)(plan->tiling.elements * plan->layer.p.output.size[FALT_G]) * sizeof(float);
  falt_memory_layout *layout = &plan->parent.base.layout;
  plan->inner = falt_place_child(layout, plan->parent.child);
  plan->constants = falt_place_part(layout, (size_t)(plan->layer.channels + plan->layer.results) * sizeof(float));
  plan->input = falt_place_part(layout, matrices * (size_t)pitch_of(plan->tiling.all, plan->channels));
  plan->gradient = falt_place_part(layout, matrices * (size_t)pitch_of(plan->tiling.all, plan->results));
  plan->products = falt_place_part(layout, matrices * (size_t)pitch_of(plan->results, plan->channels));
  plan->parent.base.workspace = layout->total;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  wgrad_plan *plan = (wgrad_plan *)base;
  falt_layer_init_gradient(&plan->layer, ask->problem, ask->device->isa);
  plan->kernels = falt_winograd_kernels_for(ask->device->isa);
  plan->channels = falt_round_up(plan->layer.channels, plan->layer.kernels->width);
  plan->results = falt_round_up(plan->layer.results, plan->layer.kernels->width);
  const falt_winograd_form form = best_form(plan, ask);
  if (form == FALT_WINOGRAD_FORMS) return "its transforms would be too large";
  set_form(plan, form);
  const falt_problem inner = products_of(plan);
  const char *why = falt_parent_adopt(&plan->parent, ask, &inner, NULL);
  if (why) return why;
  lay_memory(plan);
  base->cost.seconds += own_seconds(plan, ask->device);
  base->cost.error = fmax(base->cost.error, error_of(plan));
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(wgrad_plan), {execute, print, falt_parent_destroy, falt_parent_ready}, inapplicable, choose};

extern const falt_solver falt_solver_winograd_wgrad;
const falt_solver falt_solver_winograd_wgrad = {
    .name = "winograd-wgrad", .device_kind = "cpu", .mixes = true, .plan = falt_plan_make, .steps = &steps};
