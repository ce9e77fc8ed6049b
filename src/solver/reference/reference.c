/* Solver reference: every problem by its definition, in code that follows the formulas below. It is the tests' oracle
 * and shares no code with other solvers: boundaries are folded by stepping, sums are double, or exact in 128-bit
 * integers if both operands are integers, and falt_store rounds each output once. */
#include <math.h>
#include <string.h>

#include "core/copy.h"
#include "planner/planner.h"

/* One relation connects the operations. Along each axis, output o and tap j read position u = o*stride + j*dilation -
 * pad, and fold(u) is the input element at u, or none (the constant). With x the input, w the filter, y the output, and
 * sums over every (o, j, i) with i = fold(u) on all three axes:
 *
 *   forward            y[n,g,k,o] = act(alpha*scale[g,k] * sum_{c,j} w[k,g,c,j] x[n,g,c,i]
 *                                       + (bias[g,k] + beta) + residual[n,g,k,o]);  x is boundary_value where i is none
 *                      with pool: the largest over o = pool*o' + q, 0 <= q < pool, for each output o', of
 *                      rounded values; NaN wins, and is 0 among integers
 *   backward-data      x[n,g,c,i] = alpha * sum_{k,o,j} w[k,g,c,j] y[n,g,k,o]
 *   backward-filter    w[k,g,c,j] = alpha * sum_{n,o} y[n,g,k,o] x[n,g,c,i];  x is boundary_value where i is none
 *                      bias[g,k]  = sum_{n,o} y[n,g,k,o]
 *   maxpool            y[n,g,o] = max_j x[n,g,i] over the i that exist; NaN wins; -infinity (or the type's least value)
 *                      where none exists
 *   avgpool            y[n,g,o] = alpha * sum_j x[n,g,i] / count(o), over the i that exist; 0 where count is 0
 *   backward-maxpool   dx[n,g,i] = sum of y[n,g,o] over the windows o whose first maximum, taps taken in the order
 *                      depth, height, width, is at i. A NaN is larger than any number
 *   backward-avgpool   x[n,g,i] = alpha * sum_{o,j} y[n,g,o] / count(o)
 *
 * count(o) is the number of taps j whose i exists. With count_pad it is the number of taps with an i that exists or a u
 * in [-pad[0], size + pad[1]) on every axis: the padding counts (as zeros), and positions beyond the padding do not,
 * which exist if the output's size was rounded up. torch and ONNX count the same way. beta, scale, bias, residual and
 * activation apply to `forward` only. A max ignores alpha. */

typedef struct reference_plan {
  falt_plan base;
  const void *values; /* the filter, from planning until it is copied */
  void *filter;       /* a copy of the values, or NULL */
} reference_plan;

typedef struct work {
  const falt_problem *p;
  const void *x, *w, *y, *residual, *scale, *bias;
  bool exact; /* both factors of every product are integers */
} work;

/* A sum of products, exact when the factors are integers. */
typedef struct sum {
  __int128 whole;
  double real;
} sum;

static void add_product(sum *s, bool exact, double a, double b) {
  if (exact)
    s->whole += (__int128)(int64_t)a * (int64_t)b;
  else
    s->real += a * b;
}

/* Asked for every element along a row: polls for every 64th. */
static bool is_cancelled(int64_t element) {
  return element % 64 == 0 && falt_cancelled();
}

static double sum_value(const sum *s) {
  return s->real + (double)s->whole;
}

/* ---- the relation of one axis */

static int64_t step_inwards(falt_boundary boundary, int64_t size, int64_t u) {
  switch (boundary) {
    case FALT_EDGE:
      return u < 0 ? 0 : size - 1;
    case FALT_SYMMETRIC:
      return u < 0 ? -1 - u : 2 * size - 1 - u;
    case FALT_REFLECT101:
      return size == 1 ? 0 : u < 0 ? -u : 2 * size - 2 - u;
    default:
      return u < 0 ? u + size : u - size; /* wrap */
  }
}

/* The input element at position u, or -1 for the constant. Each side's boundary continues the signal on its side. */
static int64_t fold(const falt_axis *axis, int64_t size, int64_t u) {
  const falt_boundary boundary = axis->boundary[u < 0 ? 0 : 1];
  while (u < 0 || u >= size) {
    if (boundary == FALT_CONSTANT) return -1;
    u = step_inwards(boundary, size, u);
  }
  return u;
}

static int64_t position(const falt_axis *axis, int64_t o, int64_t j) {
  return o * axis->stride + j * axis->dilation - axis->pad[0];
}

/* Input element that output o and tap j of axis a meet. */
static int64_t met(const work *k, int a, int64_t o, int64_t j) {
  return fold(&k->p->axis[a], k->p->input.size[FALT_D + a], position(&k->p->axis[a], o, j));
}

/* Whether tap j of output o counts in an average along axis a. */
static bool counts(const work *k, int a, int64_t o, int64_t j) {
  const falt_axis *axis = &k->p->axis[a];
  const int64_t u = position(axis, o, j);
  if (k->p->count_pad && u >= -axis->pad[0] && u < k->p->input.size[FALT_D + a] + axis->pad[1]) return true;
  return met(k, a, o, j) >= 0;
}

static bool folds(const falt_axis *axis) {
  return axis->boundary[0] != FALT_CONSTANT || axis->boundary[1] != FALT_CONSTANT;
}

/* The pairs (output, tap) of axis a that meet input element i: start with {-1, taps - 1}. */
typedef struct pair {
  int64_t o, j;
} pair;

static pair before_first(const work *k, int a, int64_t i) {
  const falt_axis *axis = &k->p->axis[a];
  const int64_t taps = k->p->filter.size[FALT_D + a];
  pair start = {-1, taps - 1};
  const int64_t first = (i + axis->pad[0] - (taps - 1) * axis->dilation) / axis->stride - 1;
  if (!folds(axis) && first > 0)
    start.o = first - 1; /* no earlier output reaches so far: saves time, changes nothing */
  return start;
}

/* Without folding one tap of an output at most meets element i, and no output does whose first tap lies beyond i. */
static bool next_output(const work *k, int a, int64_t i, pair *at) {
  const falt_axis *axis = &k->p->axis[a];
  while (++at->o < k->p->output.size[FALT_D + a]) {
    const int64_t away = i - position(axis, at->o, 0);
    if (away < 0) return false;
    at->j = away / axis->dilation;
    if (away % axis->dilation == 0 && at->j < k->p->filter.size[FALT_D + a]) return true;
  }
  return false;
}

static bool next_pair(const work *k, int a, int64_t i, pair *at) {
  if (!folds(&k->p->axis[a])) return next_output(k, a, i, at);
  for (;;) {
    if (++at->j == k->p->filter.size[FALT_D + a]) {
      at->j = 0;
      at->o++;
    }
    if (at->o >= k->p->output.size[FALT_D + a]) return false;
    if (met(k, a, at->o, at->j) == i) return true;
  }
}

/* ---- elements by logical position */

static double input_at(const work *k, int64_t n, int64_t g, int64_t c, int64_t d, int64_t h, int64_t w) {
  if (d < 0 || h < 0 || w < 0) return k->p->boundary_value;
  return falt_load(k->x, k->p->input.type, falt_tensor_at(&k->p->input, n, g, c, d, h, w));
}

/* Factors are multiplied and their terms are summed in double. */
static double filter_at(const work *k, int64_t o, int64_t g, int64_t c, int64_t t, int64_t r, int64_t s) {
  if (k->p->factors) return falt_factors_tap(k->p, k->w, t, r, s);
  return falt_load(k->w, k->p->filter.type, falt_tensor_at(&k->p->filter, o, g, c, t, r, s));
}

static double output_at(const work *k, int64_t n, int64_t g, int64_t c, int64_t d, int64_t h, int64_t w) {
  return falt_load(k->y, k->p->output.type, falt_tensor_at(&k->p->output, n, g, c, d, h, w));
}

/* ---- the value of one element of the result, i being its logical position */

static double forward_epilogue(const work *k, const int64_t i[FALT_DIMS], double value) {
  const falt_problem *p = k->p;
  const int64_t channel = i[FALT_G] * p->output.size[FALT_C] + i[FALT_C];
  double scale = p->alpha, offset = p->beta;
  if (p->has_scale) scale *= falt_load(k->scale, falt_type_real(p->output.type), channel);
  if (p->has_bias) offset += falt_load(k->bias, falt_type_real(p->output.type), channel);
  value = value * scale + offset;
  if (p->has_residual)
    value += falt_load(k->residual, p->residual.type, falt_tensor_at(&p->residual, i[0], i[1], i[2], i[3], i[4], i[5]));
  return falt_activate(p, value);
}

static double forward_at(const work *k, const int64_t i[FALT_DIMS]) {
  const int64_t *taps = k->p->filter.size;
  sum total = {0};
  for (int64_t t = 0; t < taps[FALT_D]; t++) {
    const int64_t d = met(k, 0, i[FALT_D], t);
    for (int64_t r = 0; r < taps[FALT_H]; r++) {
      const int64_t h = met(k, 1, i[FALT_H], r);
      for (int64_t s = 0; s < taps[FALT_W] && !is_cancelled(s); s++) {
        const int64_t w = met(k, 2, i[FALT_W], s);
        for (int64_t c = 0; c < taps[FALT_C]; c++)
          add_product(&total, k->exact, filter_at(k, i[FALT_C], i[FALT_G], c, t, r, s),
                      input_at(k, i[FALT_N], i[FALT_G], c, d, h, w));
      }
    }
  }
  return forward_epilogue(k, i, sum_value(&total));
}

/* As it is stored. */
static double rounded(falt_type type, double value) {
  double memory;
  falt_store(&memory, type, 0, value);
  return falt_load(&memory, type, 0);
}

static double forward(const work *k, const int64_t i[FALT_DIMS]) {
  const int64_t *pool = k->p->pool;
  double top = NAN;
  for (int64_t q = 0; q < pool[0] * pool[1] * pool[2]; q++) {
    const int64_t at[FALT_DIMS] = {i[FALT_N],
                                   i[FALT_G],
                                   i[FALT_C],
                                   i[FALT_D] * pool[0] + q / pool[2] / pool[1],
                                   i[FALT_H] * pool[1] + q / pool[2] % pool[1],
                                   i[FALT_W] * pool[2] + q % pool[2]};
    const double value = rounded(k->p->output.type, forward_at(k, at));
    if (q == 0 || value > top || isnan(value)) top = value;
  }
  return top;
}

static double backward_data(const work *k, const int64_t i[FALT_DIMS]) {
  sum total = {0};
  for (pair d = before_first(k, 0, i[FALT_D]); next_pair(k, 0, i[FALT_D], &d);)
    for (pair h = before_first(k, 1, i[FALT_H]); next_pair(k, 1, i[FALT_H], &h);)
      for (pair w = before_first(k, 2, i[FALT_W]); next_pair(k, 2, i[FALT_W], &w) && !falt_cancelled();)
        for (int64_t o = 0; o < k->p->filter.size[FALT_K]; o++)
          add_product(&total, k->exact, filter_at(k, o, i[FALT_G], i[FALT_C], d.j, h.j, w.j),
                      output_at(k, i[FALT_N], i[FALT_G], o, d.o, h.o, w.o));
  return k->p->alpha * sum_value(&total);
}

static double backward_filter(const work *k, const int64_t i[FALT_DIMS]) {
  const int64_t *out = k->p->output.size;
  sum total = {0};
  for (int64_t n = 0; n < out[FALT_N]; n++)
    for (int64_t od = 0; od < out[FALT_D]; od++)
      for (int64_t oh = 0; oh < out[FALT_H]; oh++)
        for (int64_t ow = 0; ow < out[FALT_W] && !is_cancelled(ow); ow++)
          add_product(&total, k->exact, output_at(k, n, i[FALT_G], i[FALT_K], od, oh, ow),
                      input_at(k, n, i[FALT_G], i[FALT_C], met(k, 0, od, i[FALT_D]), met(k, 1, oh, i[FALT_H]),
                               met(k, 2, ow, i[FALT_W])));
  return k->p->alpha * sum_value(&total);
}

typedef struct best {
  double value;
  pair d, h, w; /* the taps of the first maximum; .j < 0 when the window meets nothing */
} best;

static best window_max(const work *k, int64_t n, int64_t g, int64_t od, int64_t oh, int64_t ow) {
  const int64_t *taps = k->p->filter.size;
  best top = {.value = -INFINITY, .w = {0, -1}};
  for (int64_t t = 0; t < taps[FALT_D]; t++)
    for (int64_t r = 0; r < taps[FALT_H]; r++)
      for (int64_t s = 0; s < taps[FALT_W] && !is_cancelled(s); s++) {
        const int64_t d = met(k, 0, od, t), h = met(k, 1, oh, r), w = met(k, 2, ow, s);
        if (d < 0 || h < 0 || w < 0) continue;
        const double value = input_at(k, n, g, 0, d, h, w);
        const bool wins = top.w.j < 0 || value > top.value || (isnan(value) && !isnan(top.value));
        if (wins) top = (best){value, {od, t}, {oh, r}, {ow, s}};
      }
  return top;
}

static double maxpool(const work *k, const int64_t i[FALT_DIMS]) {
  return window_max(k, i[FALT_N], i[FALT_G], i[FALT_D], i[FALT_H], i[FALT_W]).value;
}

static double window_count(const work *k, int64_t od, int64_t oh, int64_t ow) {
  const int64_t o[3] = {od, oh, ow};
  double count = 1;
  for (int a = 0; a < 3; a++) {
    int64_t along = 0;
    for (int64_t j = 0; j < k->p->filter.size[FALT_D + a]; j++) along += counts(k, a, o[a], j);
    count *= (double)along;
  }
  return count;
}

static double avgpool(const work *k, const int64_t i[FALT_DIMS]) {
  const int64_t *taps = k->p->filter.size;
  const double count = window_count(k, i[FALT_D], i[FALT_H], i[FALT_W]);
  double total = 0;
  for (int64_t t = 0; t < taps[FALT_D]; t++)
    for (int64_t r = 0; r < taps[FALT_H]; r++)
      for (int64_t s = 0; s < taps[FALT_W] && !is_cancelled(s); s++) {
        const int64_t d = met(k, 0, i[FALT_D], t), h = met(k, 1, i[FALT_H], r), w = met(k, 2, i[FALT_W], s);
        if (d >= 0 && h >= 0 && w >= 0) total += input_at(k, i[FALT_N], i[FALT_G], 0, d, h, w);
      }
  return count > 0 ? k->p->alpha * (total / count) : 0;
}

static bool is_at(const best *top, const pair *d, const pair *h, const pair *w) {
  return top->d.j == d->j && top->h.j == h->j && top->w.j == w->j;
}

static double backward_maxpool(const work *k, const int64_t i[FALT_DIMS]) {
  double total = 0;
  for (pair d = before_first(k, 0, i[FALT_D]); next_pair(k, 0, i[FALT_D], &d);)
    for (pair h = before_first(k, 1, i[FALT_H]); next_pair(k, 1, i[FALT_H], &h);)
      for (pair w = before_first(k, 2, i[FALT_W]); next_pair(k, 2, i[FALT_W], &w) && !falt_cancelled();) {
        const best top = window_max(k, i[FALT_N], i[FALT_G], d.o, h.o, w.o);
        if (is_at(&top, &d, &h, &w)) total += output_at(k, i[FALT_N], i[FALT_G], 0, d.o, h.o, w.o);
      }
  return total;
}

static double backward_avgpool(const work *k, const int64_t i[FALT_DIMS]) {
  double total = 0;
  for (pair d = before_first(k, 0, i[FALT_D]); next_pair(k, 0, i[FALT_D], &d);)
    for (pair h = before_first(k, 1, i[FALT_H]); next_pair(k, 1, i[FALT_H], &h);)
      for (pair w = before_first(k, 2, i[FALT_W]); next_pair(k, 2, i[FALT_W], &w) && !falt_cancelled();)
        total += output_at(k, i[FALT_N], i[FALT_G], 0, d.o, h.o, w.o) / window_count(k, d.o, h.o, w.o);
  return k->p->alpha * total;
}

/* ---- execute */

static double (*const value_of[FALT_OPERATION_COUNT])(const work *k, const int64_t i[FALT_DIMS]) = {
    [FALT_FORWARD] = forward,
    [FALT_BACKWARD_DATA] = backward_data,
    [FALT_BACKWARD_FILTER] = backward_filter,
    [FALT_MAXPOOL] = maxpool,
    [FALT_AVGPOOL] = avgpool,
    [FALT_BACKWARD_MAXPOOL] = backward_maxpool,
    [FALT_BACKWARD_AVGPOOL] = backward_avgpool,
};

static void bias_gradient(const work *k, void *bias) {
  const int64_t *out = k->p->output.size;
  for (int64_t g = 0; g < out[FALT_G]; g++)
    for (int64_t c = 0; c < out[FALT_C]; c++) {
      sum total = {0};
      for (int64_t n = 0; n < out[FALT_N]; n++)
        for (int64_t d = 0; d < out[FALT_D]; d++)
          for (int64_t h = 0; h < out[FALT_H]; h++)
            for (int64_t w = 0; w < out[FALT_W] && !is_cancelled(w); w++)
              add_product(&total, falt_type_is_integer(k->p->output.type), 1, output_at(k, n, g, c, d, h, w));
      falt_store(bias, falt_type_real(k->p->output.type), g * out[FALT_C] + c, sum_value(&total));
    }
}

/* The two operands that are multiplied, and the constant if it can be one of them, are all integers. */
static bool is_exact(const falt_problem *p) {
  const bool constant = p->boundary_value == rint(p->boundary_value) && fabs(p->boundary_value) < 0x1p53;
  return (constant || falt_problem_factor(p, 0) != &p->input) &&
         falt_type_is_integer(falt_problem_factor(p, 0)->type) && falt_type_is_integer(falt_problem_factor(p, 1)->type);
}

/* The share of all elements before the row of element i. */
static double done_before(const int64_t i[FALT_DIMS], const int64_t size[FALT_DIMS]) {
  double share = 0, step = 1;
  for (int d = 0; d < FALT_W; d++) {
    step /= (double)size[d];
    share += (double)i[d] * step;
  }
  return share;
}

static void execute(const falt_plan *plan, const falt_operands *operands) {
  const falt_problem *p = &plan->problem;
  const reference_plan *own = (const reference_plan *)plan;
  const work k = {.p = p,
                  .x = operands->input,
                  .w = own->filter ? own->filter : operands->filter,
                  .y = operands->output,
                  .residual = operands->residual,
                  .scale = operands->scale,
                  .bias = operands->bias,
                  .exact = is_exact(p)};
  const falt_tensor *result = falt_problem_result(p);
  void *data = falt_result_data(p->operation, operands);
  int64_t i[FALT_DIMS];
  for (i[0] = 0; i[0] < result->size[0]; i[0]++)
    for (i[1] = 0; i[1] < result->size[1]; i[1]++)
      for (i[2] = 0; i[2] < result->size[2]; i[2]++)
        for (i[3] = 0; i[3] < result->size[3]; i[3]++)
          for (i[4] = 0; i[4] < result->size[4]; i[4]++) {
            falt_progress_at(done_before(i, result->size));
            for (i[5] = 0; i[5] < result->size[5] && !is_cancelled(i[5]); i[5]++)
              falt_store(data, result->type, falt_tensor_at(result, i[0], i[1], i[2], i[3], i[4], i[5]),
                         value_of[p->operation](&k, i));
          }
  if (p->operation == FALT_BACKWARD_FILTER && p->has_bias) bias_gradient(&k, operands->bias);
}

static void print(const falt_plan *plan, falt_text *text) {
  (void)plan;
  falt_text_add(text, "(reference)");
}

static void destroy(falt_plan *plan) {
  falt_free(((reference_plan *)plan)->filter);
  falt_free(plan);
}

/* ---- plan: applies to everything */

/* One thread, and about 20 operations of the processor for each of the problem: far below any other estimate. */
static double estimate(const falt_problem *p, const falt_device *device) {
  return falt_roofline(device, FALT_F64, falt_problem_flops(p), 1e-3, falt_problem_bytes(p));
}

/* Copies a known filter in its layout, for the chosen plan only. */
static falt_status ready(falt_plan *base) {
  reference_plan *plan = (reference_plan *)base;
  const falt_problem *p = &base->problem;
  const size_t bytes = (size_t)falt_problem_filter_elements(p) * falt_type_size(p->filter.type);
  if (!plan->values) return FALT_OK;
  plan->filter = falt_alloc(bytes);
  if (!plan->filter) return falt_fail(FALT_NO_MEMORY, "planning: memory for a copy of the filter ran out");
  falt_copy_large(plan->filter, plan->values, bytes);
  plan->values = NULL;
  return FALT_OK;
}

static bool reads_filter(falt_operation operation) {
  return operation == FALT_FORWARD || operation == FALT_BACKWARD_DATA;
}

static falt_plan *plan_reference(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  reference_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->base.packed = ask->filter_values && reads_filter(ask->problem->operation);
  plan->values = plan->base.packed ? ask->filter_values : NULL;
  plan->base.cost.seconds = estimate(ask->problem, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_reference;
const falt_solver falt_solver_reference = {.name = "reference",
                                           .device_kind = "cpu",
                                           .plan = plan_reference,
                                           .takes_factors = true,
                                           .pools = true,
                                           .last_resort = true};
