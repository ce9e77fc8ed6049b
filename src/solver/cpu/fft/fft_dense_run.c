/* Running the solver fft-dense: spectra of all input channels of a pair of tiles, products summed over channels, one
 * transform back for each output channel. */
#include <math.h>
#include <string.h>

#include "solver/cpu/fft/fft_dense.h"

typedef struct execution {
  const falt_fft_dense_plan *plan;
  const falt_operands *operands;
  char *workspace;
  const char *spectra;
  const falt_fft_dense_about *about;
} execution;

/* Two boxes of outputs as the parts of one complex tile. */
typedef struct pair {
  const execution *e;
  const falt_fft_dense_plan *plan;
  int count;
  int64_t group;
  falt_row_task box[2];
  char *planes, *inputs, *sums, *row, *spare, *direct; /* of the worker's scratch */
  bool wrong;                                          /* an input is not finite */
  int exponent;                                        /* by which the inputs' spectra are to be multiplied */
} pair;

static int64_t element_of(const falt_fft_dense_plan *plan) {
  return (int64_t)plan->rows.lane_size;
}

static int64_t plane_count(const falt_fft_dense_plan *plan) {
  return plan->shape.rows * plan->shape.pitch;
}

static char *plane_of(const falt_fft_dense_plan *plan, char *planes, int part) {
  return planes + part * plan->shape.plane * element_of(plan);
}

static char *line_at(const falt_fft_dense_plan *plan, char *plane, int64_t z, int64_t y) {
  return plane + (z * plan->shape.size[1] + y) * plan->shape.pitch * element_of(plan);
}

/* ---- exponents */

/* Exponents that are left to transforms: products of such numbers, and their sums, are normal numbers. */
static int far_exponent(const falt_fft_dense_plan *plan, double largest) {
  const int near = plan->rows.lane == FALT_LANE_F32 ? 30 : 300;
  int exponent = 0;
  if (largest > 0) frexp(largest, &exponent);
  return exponent > near || exponent < -near ? exponent : 0;
}

/* ---- the filter */

static double tap_at(const falt_fft_dense_plan *plan, const void *filter, int64_t index, int64_t c,
                     const int64_t at[3]) {
  const falt_tensor *w = &plan->problem.filter;
  const int64_t *taps = plan->rows.taps;
  if (!filter) {
    const int64_t tap = (at[0] * taps[1] + at[1]) * taps[2] + at[2], all = taps[0] * taps[1] * taps[2];
    return falt_fft_wgrad_get(plan->rows.lane, plan->taps, (index * plan->channels + c) * all + tap);
  }
  const int64_t element = falt_tensor_at(w, index % plan->outputs, index / plan->outputs, c, at[0], at[1], at[2]);
  return falt_load(filter, w->type, element);
}

void falt_fft_dense_taps(const falt_fft_dense_plan *plan, const void *filter, char *taps) {
  const int64_t *size = plan->rows.taps, all = size[0] * size[1] * size[2];
  memset(taps, 0, (size_t)(plan->groups * plan->outputs * plan->channels * all * element_of(plan)));
  for (int64_t i = 0; i < plan->groups * plan->outputs * plan->channels * all; i++) {
    const int64_t tap = i % all, at[3] = {tap / size[2] / size[1], tap / size[2] % size[1], tap % size[2]};
    const int64_t channel = i / all;
    const double value = tap_at(plan, filter, channel / plan->channels, channel % plan->channels, at);
    falt_fft_wgrad_add(plan->rows.lane, taps, i, value);
  }
}

/* The taps of one input channel, their dilation apart, times a power of two; what is not finite stays if `all`. */
static void place_taps(const falt_fft_dense_plan *plan, const void *filter, int64_t index, int64_t c, int exponent,
                       bool all, char *plane) {
  const falt_rows *rows = &plan->rows;
  const falt_axis *axis = rows->axis;
  memset(plane, 0, (size_t)(plane_count(plan) * element_of(plan)));
  for (int64_t t = 0; t < rows->taps[0]; t++)
    for (int64_t r = 0; r < rows->taps[1]; r++) {
      char *line = line_at(plan, plane, t * axis[0].dilation, r * axis[1].dilation);
      for (int64_t s = 0; s < rows->taps[2]; s++) {
        const double tap = tap_at(plan, filter, index, c, (int64_t[3]){t, r, s});
        if (all || isfinite(tap)) falt_fft_wgrad_add(rows->lane, line, s * axis[2].dilation, ldexp(tap, exponent));
      }
    }
}

static falt_fft_dense_about about_of(const falt_fft_dense_plan *plan, const void *filter, int64_t index) {
  const int64_t *taps = plan->rows.taps;
  double largest = 0;
  falt_fft_dense_about about = {0};
  for (int64_t c = 0; c < plan->channels; c++)
    for (int64_t i = 0; i < taps[0] * taps[1] * taps[2]; i++) {
      const int64_t at[3] = {i / taps[2] / taps[1], i / taps[2] % taps[1], i % taps[2]};
      const double size = fabs(tap_at(plan, filter, index, c, at));
      if (isfinite(size))
        largest = fmax(largest, size);
      else
        about.wrong = true;
    }
  about.exponent = far_exponent(plan, largest);
  return about;
}

void falt_fft_dense_filter(const falt_fft_dense_plan *plan, const void *filter, int64_t index, char *tile,
                           char *spectra, falt_fft_dense_about *about) {
  const int64_t *size = plan->shape.size;
  const double points = (double)size[0] * (double)size[1] * (double)size[2];
  *about = about_of(plan, filter, index);
  for (int64_t c = 0; c < plan->channels && !falt_cancelled(); c++) {
    place_taps(plan, filter, index, c, -about->exponent, false, tile);
    memset(plane_of(plan, tile, 1), 0, (size_t)(plane_count(plan) * element_of(plan)));
    falt_fft_spectrum(&plan->shape, tile, spectra + c * falt_fft_dense_spectrum(plan) * element_of(plan), 1 / points);
  }
}

/* ---- tiles in */

static void load_box(const pair *p, int i, int64_t channel, char *plane, void *seen) {
  const falt_fft_dense_plan *plan = p->plan;
  const falt_rows *rows = &plan->rows;
  const falt_row_task *box = &p->box[i];
  const char *input =
      (const char *)p->e->operands->input + channel * plan->problem.input.stride[FALT_C] * rows->in_size;
  int64_t first[3], count[3];
  for (int a = 0; a < 3; a++) {
    falt_rows_reach(rows, a, box->begin[a], box->end[a], &first[a], &count[a]);
    if (plan->cut[a].cyclic) count[a] = rows->in[a];
  }
  memset(plane, 0, (size_t)(plane_count(plan) * element_of(plan)));
  for (int64_t z = 0; z < count[0]; z++)
    for (int64_t y = 0; y < count[1] && !falt_cancelled(); y++) {
      char *to = line_at(plan, plane, z, y);
      const void *source = falt_rows_source(rows, input, box->slice, first[0] + z, first[1] + y);
      falt_rows_load(rows, source, first[2], 1, count[2], to);
      plan->shape.lane->see(seen, to, count[2]);
    }
}

static void clear_wrong(const falt_fft_dense_plan *plan, char *plane) {
  for (int64_t i = 0; i < plane_count(plan); i++)
    if (!isfinite(falt_fft_wgrad_get(plan->rows.lane, plane, i)))
      memset(plane + i * element_of(plan), 0, (size_t)element_of(plan));
}

/* One channel of both boxes, zeros for what is not finite. Returns the largest magnitude. */
static double load_channel(pair *p, int64_t channel) {
  const falt_fft_dense_plan *plan = p->plan;
  const falt_fft_lane *lane = plan->shape.lane;
  _Alignas(FALT_ALIGN) char seen[FALT_ALIGN] = {0}, left[FALT_ALIGN] = {0};
  for (int i = 0; i < p->count; i++) load_box(p, i, channel, plane_of(plan, p->planes, i), seen);
  if (p->count == 1) memset(plane_of(plan, p->planes, 1), 0, (size_t)(plane_count(plan) * element_of(plan)));
  if (isfinite(lane->largest(seen))) return lane->largest(seen);
  p->wrong = true;
  for (int i = 0; i < p->count; i++) {
    clear_wrong(plan, plane_of(plan, p->planes, i));
    lane->see(left, plane_of(plan, p->planes, i), plane_count(plan));
  }
  return lane->largest(left);
}

/* Gives all spectra up to `channel` the exponent of the largest. */
static void raise(pair *p, int64_t channel, int exponent) {
  const int64_t spectrum = falt_fft_dense_spectrum(p->plan);
  falt_fft_scale(&p->plan->shape, p->inputs, channel * spectrum, p->exponent - exponent);
  p->exponent = exponent;
}

static void transform_inputs(pair *p) {
  const falt_fft_dense_plan *plan = p->plan;
  const int64_t spectrum = falt_fft_dense_spectrum(plan);
  for (int64_t c = 0; c < plan->channels && !falt_cancelled(); c++) {
    const double largest = load_channel(p, c);
    const int exponent = far_exponent(plan, largest);
    if (c == 0) p->exponent = exponent;
    if (exponent > p->exponent) raise(p, c, exponent);
    for (int i = 0; i < 2; i++)
      falt_fft_scale(&plan->shape, plane_of(plan, p->planes, i), plane_count(plan), -p->exponent);
    falt_fft_spectrum(&plan->shape, p->planes, p->inputs + c * spectrum * element_of(plan), 1);
  }
}

/* ---- products that are not finite */

static void add_direct(const pair *p, int i, int64_t k) {
  const falt_fft_dense_plan *plan = p->plan;
  const falt_row_task *box = &p->box[i];
  _Alignas(FALT_ALIGN) char seen[FALT_ALIGN] = {0};
  falt_fft_wgrad_direct d = {.rows = &plan->rows,
                             .cut = plan->cut,
                             .shape = &plan->shape,
                             .x = plane_of(plan, p->spare, 0),
                             .dy = plane_of(plan, p->spare, 1),
                             .sums = p->direct};
  for (int a = 0; a < 3; a++) {
    int64_t first;
    falt_rows_reach(&plan->rows, a, box->begin[a], box->end[a], &first, &d.in[a]);
    if (plan->cut[a].cyclic) d.in[a] = plan->rows.in[a];
    d.out[a] = plan->rows.taps[a];
    d.block[a] = box->end[a] - box->begin[a];
  }
  memset(p->direct, 0, (size_t)(d.block[0] * d.block[1] * d.block[2] * element_of(plan)));
  for (int64_t c = 0; c < plan->channels && !falt_cancelled(); c++) {
    load_box(p, i, c, plane_of(plan, p->spare, 0), seen);
    place_taps(plan, plan->taps ? NULL : p->e->operands->filter, p->group * plan->outputs + k, c, 0, true,
               plane_of(plan, p->spare, 1));
    falt_fft_wgrad_direct_add(&d);
  }
}

/* ---- tiles out */

static double factor_at(const falt_fft_dense_plan *plan, const void *factors, int64_t channel) {
  return falt_load(factors, plan->problem.output.type == FALT_F64 ? FALT_F64 : FALT_F32, channel);
}

static falt_rows rows_out(const pair *p, int64_t k) {
  const falt_problem *problem = &p->plan->problem;
  const int64_t channel = p->group * p->plan->outputs + k;
  falt_rows rows = p->plan->rows;
  rows.epilogue.alpha *= problem->has_scale ? factor_at(p->plan, p->e->operands->scale, channel) : 1;
  rows.epilogue.beta += problem->has_bias ? factor_at(p->plan, p->e->operands->bias, channel) : 0;
  return rows;
}

static void store_box(const pair *p, int i, int64_t k, bool direct) {
  const falt_fft_dense_plan *plan = p->plan;
  const falt_row_task *box = &p->box[i];
  const falt_rows rows = rows_out(p, k);
  const falt_axis *axis = rows.axis;
  const int64_t count = box->end[2] - box->begin[2], size = element_of(plan);
  char *output = (char *)p->e->operands->output + k * plan->problem.output.stride[FALT_C] * rows.out_size;
  int64_t sum = 0;
  for (int64_t z = box->begin[0]; z < box->end[0]; z++)
    for (int64_t y = box->begin[1]; y < box->end[1] && !falt_cancelled(); y++) {
      const char *line = line_at(plan, plane_of(plan, p->planes, i), (z - box->begin[0]) * axis[0].stride,
                                 (y - box->begin[1]) * axis[1].stride);
      for (int64_t x = 0; x < count; x++) memcpy(p->row + x * size, line + x * axis[2].stride * size, (size_t)size);
      for (int64_t x = 0; direct && x < count; x++, sum++)
        falt_fft_wgrad_add(rows.lane, p->row, x, falt_fft_wgrad_get(rows.lane, p->direct, sum));
      falt_rows_store(&rows, falt_rows_target(&rows, output, box->slice, z, y, box->begin[2]), p->row, count, false);
    }
}

static void store_output(const pair *p, int64_t k) {
  const falt_fft_dense_plan *plan = p->plan;
  const int64_t spectrum = falt_fft_dense_spectrum(plan), index = p->group * plan->outputs + k;
  const falt_fft_dense_about *about = &p->e->about[index];
  const char *filter = p->e->spectra + index * plan->channels * spectrum * element_of(plan);
  plan->shape.lane->combine(p->sums, p->inputs, spectrum, filter, spectrum, plan->channels, spectrum);
  falt_fft_inverse(&plan->shape, p->sums, p->planes);
  for (int i = 0; i < p->count && !falt_cancelled(); i++) {
    const bool direct = p->wrong || about->wrong;
    falt_fft_scale(&plan->shape, plane_of(plan, p->planes, i), plane_count(plan), p->exponent + about->exponent);
    if (direct) add_direct(p, i, k);
    store_box(p, i, k, direct);
  }
}

/* ---- tasks */

/* The i-th box of a group: groups lie inside the batch. */
static falt_row_task box_of(const falt_fft_dense_plan *plan, int64_t group, int64_t i) {
  const int64_t each = plan->boxes / plan->rows.batch, slice = i / each * plan->groups + group;
  return falt_rows_task(&plan->rows, (int64_t[3]){plan->cut[0].block, plan->cut[1].block, plan->cut[2].block},
                        slice * each + i % each);
}

static void run_task(void *context, int64_t task, void *memory) {
  const execution *e = context;
  const falt_fft_dense_plan *plan = e->plan;
  const int64_t pairs = falt_ceil_div(plan->boxes, 2);
  char *scratch = memory;
  pair p = {.e = e, .plan = plan, .group = task / pairs};
  p.planes = scratch + plan->planes_at;
  p.inputs = scratch + plan->inputs_at;
  p.sums = scratch + plan->sums_at;
  p.row = scratch + plan->row_at;
  p.spare = scratch + plan->spare_at;
  p.direct = scratch + plan->direct_at;
  for (int64_t i = 2 * (task % pairs); i < plan->boxes && p.count < 2; i++) p.box[p.count++] = box_of(plan, p.group, i);
  transform_inputs(&p);
  for (int64_t k = 0; k < plan->outputs && !falt_cancelled(); k++) store_output(&p, k);
}

static void make_filter(void *context, int64_t index, void *scratch) {
  const execution *e = context;
  const falt_fft_dense_plan *plan = e->plan;
  const int64_t each = plan->channels * falt_fft_dense_spectrum(plan) * element_of(plan);
  falt_fft_dense_filter(plan, e->operands->filter, index, (char *)scratch + plan->planes_at,
                        e->workspace + plan->spectra_at + index * each,
                        (falt_fft_dense_about *)(void *)(e->workspace + plan->about_at) + index);
}

void falt_fft_dense_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_fft_dense_plan *plan = (const falt_fft_dense_plan *)base;
  execution e = {plan, operands, operands->workspace, plan->spectra, plan->about};
  falt_row_job job = {.context = &e, .scratch = plan->scratch.total};
  if (!plan->spectra) {
    job.run = make_filter;
    job.tasks = plan->groups * plan->outputs;
    falt_rows_run(base->device, &job, operands->workspace);
    e.spectra = e.workspace + plan->spectra_at;
    e.about = (const falt_fft_dense_about *)(const void *)(e.workspace + plan->about_at);
  }
  job.run = run_task;
  job.tasks = plan->groups * falt_ceil_div(plan->boxes, 2);
  falt_rows_run(base->device, &job, operands->workspace);
}
