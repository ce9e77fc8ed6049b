/* Helpers of the solvers of dense layers: applicability, positions, and the epilogue. */
#include "solver/cpu/common/layer.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"

/* ---- the problem */

static const char *refusal(const falt_problem *p) {
  return p->operation != FALT_FORWARD ? "only forward"
         : p->input.size[FALT_C] == 1 && p->output.size[FALT_C] == 1
             ? "one channel in and out of a group gives no matrix product"
             : NULL;
}

/* Activations are a clip or a curve. */
void falt_layer_epilogue(falt_layer *layer, const falt_problem *p) {
  layer->p = *p;
  layer->plain = falt_epilogue_is_identity(p);
  const falt_activation act = p->activation;
  const bool clips = act == FALT_RELU || act == FALT_RELU6 || act == FALT_CLIP;
  layer->curve = clips ? FALT_IDENTITY : act;
  layer->low = act == FALT_CLIP ? p->act_a : clips ? 0 : -INFINITY;
  layer->high = act == FALT_CLIP ? p->act_b : act == FALT_RELU6 ? 6 : INFINITY;
}

bool falt_layer_has_constant(const falt_problem *p) {
  double stored[1];
  falt_store(stored, p->input.type, 0, p->boundary_value);
  return falt_load(stored, p->input.type, 0) == p->boundary_value;
}

bool falt_layer_zeros_outside(const falt_problem *p) {
  for (int a = 0; a < 3; a++) {
    const falt_axis *axis = &p->axis[a];
    const int64_t last = (p->output.size[FALT_D + a] - 1) * axis->stride - axis->pad[0] +
                         (p->filter.size[FALT_D + a] - 1) * axis->dilation;
    const bool zero =
        axis->boundary[0] == FALT_CONSTANT && axis->boundary[1] == FALT_CONSTANT && p->boundary_value == 0;
    if (!zero && (axis->pad[0] > 0 || last >= p->input.size[FALT_D + a])) return false;
  }
  return true;
}

/* Whether a tensor continues along `outer` at the end of the width, so both form one dimension. */
static bool goes_on(const falt_tensor *t, int outer) {
  return t->stride[outer] == t->stride[FALT_W] * t->size[FALT_W] || t->size[outer] == 1 || t->size[FALT_W] == 1;
}

static bool one_tap_in_place(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  return p->filter.size[FALT_D + axis] == 1 && a->stride == 1 && a->pad[0] == 0 &&
         p->input.size[FALT_D + axis] == p->output.size[FALT_D + axis];
}

static void join(falt_tensor *t, int outer) {
  if (t->size[FALT_W] == 1) t->stride[FALT_W] = t->stride[outer];
  t->size[FALT_W] *= t->size[outer];
  t->size[outer] = 1;
}

/* If taps read at the positions of their outputs, all positions that are consecutive in memory form one row. */
static void join_axes(falt_problem *p) {
  static const int outer[] = {FALT_H, FALT_D, FALT_N};
  falt_tensor *const tensors[] = {&p->input, &p->output, &p->residual};
  const int count = p->has_residual ? 3 : 2;
  for (int o = 0; o < 3 && one_tap_in_place(p, 2); o++) {
    if (outer[o] != FALT_N && !one_tap_in_place(p, outer[o] - FALT_D)) return;
    for (int i = 0; i < count; i++)
      if (!goes_on(tensors[i], outer[o])) return;
    for (int i = 0; i < count; i++) join(tensors[i], outer[o]);
  }
}

/* Rows, planes and images of the outputs (and of the residual) that go on where the one before ends. */
static int64_t count_together(const falt_problem *p) {
  static const int outwards[] = {FALT_H, FALT_D, FALT_N};
  int64_t count = p->output.size[FALT_W];
  for (int i = 0; i < 3; i++) {
    const int dim = outwards[i];
    const bool goes = p->output.stride[dim] == count * p->output.stride[FALT_W] &&
                      (!p->has_residual || p->residual.stride[dim] == count * p->residual.stride[FALT_W]);
    if (p->output.size[dim] > 1 && !goes) return count;
    count *= p->output.size[dim];
  }
  return count;
}

const char *falt_layer_init(falt_layer *layer, const falt_problem *problem, falt_isa isa) {
  const char *reason = falt_layer_shape(layer, problem, isa);
  return reason ? reason : falt_problem_is_f32(problem) ? NULL : "only f32";
}

const char *falt_layer_init_lane(falt_layer *layer, const falt_problem *problem, falt_isa isa) {
  const char *reason = falt_layer_shape(layer, problem, isa);
  if (reason || falt_problem_is_f32(problem)) return reason;
  layer->kernels = falt_layer_kernels_f64_for(isa);
  return falt_problem_is_f64(problem) ? NULL : "only f32 and f64";
}

const char *falt_layer_init_gradient(falt_layer *layer, const falt_problem *problem, falt_isa isa) {
  falt_problem forward = *problem;
  if (problem->operation != FALT_BACKWARD_FILTER) return "only backward-filter";
  forward.operation = FALT_FORWARD;
  forward.has_bias = false;
  return falt_layer_init(layer, &forward, isa);
}

const char *falt_layer_shape(falt_layer *layer, const falt_problem *problem, falt_isa isa) {
  const char *reason = refusal(problem);
  if (reason) return reason;
  *layer = (falt_layer){.kernels = falt_layer_kernels_for(isa)};
  falt_layer_epilogue(layer, problem);
  falt_problem *p = &layer->p;
  join_axes(p);
  layer->positions = p->output.size[FALT_N];
  layer->taps = 1;
  for (int dim = FALT_D; dim <= FALT_W; dim++) {
    layer->positions *= p->output.size[dim];
    layer->taps *= p->filter.size[dim];
  }
  layer->together = count_together(p);
  layer->channels = p->input.size[FALT_C];
  layer->results = p->output.size[FALT_C];
  return NULL;
}

/* ---- positions */

falt_layer_point falt_layer_point_at(const falt_layer *layer, int64_t position) {
  falt_layer_point point;
  for (int axis = 2; axis >= 0; axis--) {
    const int64_t size = layer->p.output.size[FALT_D + axis];
    point.at[axis] = position % size;
    position /= size;
  }
  point.n = position;
  return point;
}

void falt_layer_advance(const falt_layer *layer, falt_layer_point *point, int64_t count) {
  point->at[2] += count;
  for (int axis = 2; axis > 0 && point->at[axis] == layer->p.output.size[FALT_D + axis]; axis--) {
    point->at[axis] = 0;
    point->at[axis - 1]++;
  }
  if (point->at[0] == layer->p.output.size[FALT_D]) {
    point->at[0] = 0;
    point->n++;
  }
}

void falt_layer_gather(const char *from, int64_t step, int64_t n, int64_t size, char *restrict to) {
  if (step == 1)
    memcpy(to, from, (size_t)(n * size));
  else if (size == 8)
    for (int64_t i = 0; i < n; i++) memcpy(to + 8 * i, from + 8 * i * step, 8);
  else if (size == 4)
    for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, from + 4 * i * step, 4);
  else if (size == 2)
    for (int64_t i = 0; i < n; i++) memcpy(to + 2 * i, from + 2 * i * step, 2);
  else
    for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
}

void falt_layer_line(const falt_layer *layer, const void *line, int64_t w, int64_t count, const void *constant,
                     void *to) {
  const falt_tensor *x = &layer->p.input;
  const falt_axis *axis = &layer->p.axis[2];
  const int64_t width = x->size[FALT_W], size = (int64_t)falt_type_size(x->type), step = axis->stride;
  const int64_t pixel = x->stride[FALT_W] * size, first = w >= 0 ? 0 : falt_min(count, falt_ceil_div(-w, step));
  const int64_t end = line && w < width ? falt_max(first, falt_min(count, (width - 1 - w) / step + 1)) : first;
  const char *from = line;
  char *out = to;
  for (int64_t i = 0; i < count; i++) {
    if (i == first && end > first) {
      falt_layer_gather(from + (w + i * step) * pixel, step * x->stride[FALT_W], end - first, size, out + i * size);
      i = end - 1;
      continue;
    }
    const int64_t source = line ? falt_axis_map(axis, width, w + i * step) : -1;
    memcpy(out + i * size, source >= 0 ? from + source * pixel : (const char *)constant, (size_t)size);
  }
}

void falt_layer_copy_taps(const falt_layer_kernels *kernels, const falt_tensor *w, const float *from, int64_t step,
                          int64_t n, float *to, int64_t to_pitch) {
  const int64_t taps = w->size[FALT_D] * w->size[FALT_H] * w->size[FALT_W], even = falt_tensor_tap_step(w);
  falt_layer_copy copy = {.step = step, .to_pitch = to_pitch, .n = n};
  copy.from_pitch = even ? even : w->stride[FALT_W];
  copy.count = even ? taps : w->size[FALT_W];
  for (int64_t tap = 0; tap < taps; tap += copy.count) {
    copy.from = from + falt_layer_tap_at(w, tap);
    copy.to = to + tap * to_pitch;
    kernels->copy(&copy);
  }
}

void falt_layer_fill(const falt_layer_kernels *kernels, void *to, int64_t n, double value) {
  const bool wide = kernels->lane_size == sizeof(double);
  for (int64_t i = 0; wide && i < n; i++) ((double *)to)[i] = value;
  for (int64_t i = 0; !wide && i < n; i++) ((float *)to)[i] = (float)value;
}

falt_status falt_layer_room(float **packed, size_t floats) {
  *packed = falt_alloc(floats * sizeof **packed);
  return *packed ? FALT_OK : falt_fail(FALT_NO_MEMORY, "planning: memory for the packed filter ran out");
}

/* ---- outputs */

static double element(const void *data, bool wide, int64_t i) {
  return wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void set_element(void *data, bool wide, int64_t i, double value) {
  if (wide)
    ((double *)data)[i] = value;
  else
    ((float *)data)[i] = (float)value;
}

void falt_layer_factors(const falt_layer *layer, const falt_operands *operands, void *factors) {
  const falt_problem *p = &layer->p;
  const int64_t count = p->output.size[FALT_G] * p->output.size[FALT_C];
  const bool wide = p->output.type == FALT_F64;
  const double beta = layer->plain ? -0.0 : p->beta; /* adding 0 would change the sign of a sum that rounded to -0 */
  for (int64_t k = 0; k < count; k++) {
    set_element(factors, wide, k, p->has_scale ? p->alpha * element(operands->scale, wide, k) : p->alpha);
    set_element(factors, wide, count + k, p->has_bias ? p->beta + element(operands->bias, wide, k) : beta);
  }
}

/* Copies residual elements with gaps to adjacent ones. */
static void collect(const falt_layer *layer, const falt_operands *operands, const falt_layer_block *block,
                    void *together) {
  for (int m = 0; m < block->rows; m++)
    layer->kernels->copy(
        &(falt_layer_copy){.from = falt_layer_at(layer, operands->residual, block->residual[m] + block->residual_shift),
                           .step = block->residual_step,
                           .to = falt_layer_at(layer, together, m * FALT_LAYER_WIDEST),
                           .n = block->n,
                           .count = 1});
}

/* Stores finished sums to outputs with gaps. */
static void spread(const falt_layer *layer, const falt_layer_block *block, void *output) {
  const bool wide = layer->kernels->lane_size == sizeof(double);
  for (int m = 0; m < block->rows; m++)
    for (int64_t i = 0; i < block->n; i++)
      set_element(output, wide, block->out[m] + block->out_shift + i * block->out_step,
                  element(block->sums, wide, m * block->pitch + i));
}

/* together: the residual's elements if they have gaps, else NULL. */
static void finish(const falt_layer *layer, const falt_operands *operands, const falt_layer_block *block,
                   const void *together) {
  const falt_problem *p = &layer->p;
  const int64_t channels = p->output.size[FALT_G] * p->output.size[FALT_C];
  void *out[FALT_LAYER_ROWS];
  const void *residual[FALT_LAYER_ROWS];
  const bool near = block->out_step == 1;
  for (int m = 0; m < block->rows; m++) {
    out[m] = near ? falt_layer_at(layer, operands->output, block->out[m] + block->out_shift)
                  : falt_layer_at(layer, block->sums, m * block->pitch);
    if (p->has_residual)
      residual[m] = together ? falt_layer_at(layer, together, m * FALT_LAYER_WIDEST)
                             : falt_layer_at(layer, operands->residual, block->residual[m] + block->residual_shift);
  }
  const falt_layer_finish call = {.sums = block->sums,
                                  .out = out,
                                  .residual = p->has_residual ? residual : NULL,
                                  .scale = falt_layer_at(layer, block->factors, block->channel),
                                  .offset = falt_layer_at(layer, block->factors, channels + block->channel),
                                  .pitch = block->pitch,
                                  .n = block->n,
                                  .rows = block->rows,
                                  .curve = layer->curve,
                                  .slope = falt_layer_number_of(layer->kernels, p->act_a),
                                  .low = falt_layer_number_of(layer->kernels, layer->low),
                                  .high = falt_layer_number_of(layer->kernels, layer->high)};
  if (block->by_row)
    layer->kernels->finish_by_row(&call);
  else
    layer->kernels->finish_by_column(&call);
  if (!near) spread(layer, block, operands->output);
}

/* Out of line: its memory makes the stack of others slow. */
__attribute__((noinline)) static void finish_apart(const falt_layer *layer, const falt_operands *operands,
                                                   const falt_layer_block *block) {
  double together[FALT_LAYER_ROWS * FALT_LAYER_WIDEST]; /* of either lane */
  collect(layer, operands, block, together);
  finish(layer, operands, block, together);
}

void falt_layer_store(const falt_layer *layer, const falt_operands *operands, const falt_layer_block *block) {
  if (layer->p.has_residual && block->residual_step != 1)
    finish_apart(layer, operands, block);
  else
    finish(layer, operands, block, NULL);
}

void falt_layer_store_rows(const falt_layer *layer, const falt_operands *operands, const falt_layer_rows *r) {
  const falt_tensor *y = &layer->p.output, *z = &layer->p.residual;
  int64_t out[FALT_LAYER_ROWS], residual[FALT_LAYER_ROWS];
  for (int64_t done = 0, count; done < r->count; done += count) {
    const falt_layer_point at = falt_layer_point_at(layer, r->first + done);
    count = falt_layer_together(layer, r->first + done, r->count - done);
    for (int m = 0; m < r->rows; m++) {
      out[m] = falt_tensor_at(y, at.n, r->group, r->channel + m, at.at[0], at.at[1], at.at[2]);
      residual[m] = falt_tensor_at(z, at.n, r->group, r->channel + m, at.at[0], at.at[1], at.at[2]);
    }
    falt_layer_store(layer, operands,
                     &(falt_layer_block){.sums = r->sums + done,
                                         .pitch = r->pitch,
                                         .n = count,
                                         .rows = r->rows,
                                         .by_row = true,
                                         .out = out,
                                         .residual = residual,
                                         .out_step = y->stride[FALT_W],
                                         .residual_step = z->stride[FALT_W],
                                         .channel = r->group * layer->results + r->channel,
                                         .factors = r->factors});
  }
}
