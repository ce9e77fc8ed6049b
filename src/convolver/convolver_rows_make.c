/* Makes convolvers of rows: checks, plans of bands, memory. A band is a part of the image with all of its window's rows
 * (falt_problem_part), so that one plan serves all bands of a size. */
#include "convolver/convolver_rows.h"

#include <string.h>

#include "core/copy.h"

enum { MOST_LATENCY = 65536, BAND_BYTES = 512 << 10, SPACE_PADDING = 64 };

/* ---- the problem */

static int axis_of(const falt_problem *p) {
  return 3 - p->space;
}

/* Elements from a row's first to its last in memory. */
static int64_t row_span(const falt_tensor *t, int dim) {
  int64_t span = 1;
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != dim) span += (t->size[i] - 1) * (t->stride[i] < 0 ? -t->stride[i] : t->stride[i]);
  return span;
}

static bool in_rows(const falt_tensor *t, int dim) {
  return t->size[dim] == 1 || t->stride[dim] >= row_span(t, dim);
}

static falt_rows_line line_of(const falt_tensor *t, int dim) {
  const int64_t bytes = (int64_t)falt_type_size(t->type), span = row_span(t, dim);
  int64_t lowest = t->offset;
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != dim && t->stride[i] < 0) lowest += (t->size[i] - 1) * t->stride[i];
  return (falt_rows_line){lowest * bytes, (t->size[dim] == 1 ? span : t->stride[dim]) * bytes, span * bytes};
}

static falt_status check_problem(const falt_problem *p) {
  const falt_axis *axis = &p->axis[axis_of(p)];
  const int dim = FALT_D + axis_of(p);
  if (p->operation != FALT_FORWARD)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: only forward problems can be computed row by row");
  if (p->input.size[FALT_N] != 1)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: a batch of %lld; rows belong to one image at a time",
                     (long long)p->input.size[FALT_N]);
  if (axis->boundary[0] == FALT_WRAP || axis->boundary[1] == FALT_WRAP)
    return falt_fail(FALT_INVALID_ARGUMENT,
                     "problem: boundary wrap along the rows' axis needs the last row first; use another boundary, or "
                     "falt_plan_create for the whole image");
  if (p->has_residual)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: a residual cannot be added row by row; leave it out");
  if (in_rows(&p->input, dim) && in_rows(&p->output, dim)) return FALT_OK;
  return falt_fail(FALT_INVALID_ARGUMENT,
                   "problem: rows do not follow each other in memory; interleave channels (layout=nhwc)");
}

static falt_status check_options(const falt_problem *p, const falt_convolver_rows_options *options) {
  FALT_TRY(FALT_CHECK_RESERVED(options, "falt_convolver_rows_options_default"));
  if ((unsigned)options->mode > FALT_FULL)
    return falt_fail(FALT_INVALID_ARGUMENT, "options.mode: no enumerator %d", (int)options->mode);
  if (options->latency < 0 || options->latency > MOST_LATENCY)
    return falt_fail(FALT_INVALID_ARGUMENT, "options.latency: %lld; use 0 to %d output rows",
                     (long long)options->latency, MOST_LATENCY);
  if (p->has_bias && !options->bias)
    return falt_fail(FALT_INVALID_ARGUMENT, "options.bias: NULL; the problem adds a bias");
  if (p->has_scale && !options->scale)
    return falt_fail(FALT_INVALID_ARGUMENT, "options.scale: NULL; the problem has a scale");
  return FALT_OK;
}

static falt_status check(const falt_device *device, const falt_problem *problem,
                         const falt_convolver_rows_options *options, const void *filter_values) {
  if (!device || !problem || !filter_values)
    return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL", !device ? "device" : !problem ? "problem" : "filter_values");
  if (strcmp(device->kind, "cpu") != 0)
    return falt_fail(FALT_INVALID_ARGUMENT, "device: %s; rows are convolved on a CPU, make one by falt_device_cpu",
                     device->name);
  FALT_TRY(falt_problem_check(problem));
  FALT_TRY(check_problem(problem));
  return check_options(problem, options);
}

static falt_rows_shape shape_of(const falt_problem *p, const falt_convolver_rows_options *options) {
  const int axis = axis_of(p), dim = FALT_D + axis;
  const falt_axis *a = &p->axis[axis];
  const int64_t extent = falt_extent(a, p->filter.size[dim]);
  return (falt_rows_shape){.axis = *a,
                           .taps = p->filter.size[dim],
                           .pool = p->pool[axis],
                           .before = a->pad[0],
                           .step = p->pool[axis] * a->stride,
                           .window = (p->pool[axis] - 1) * a->stride + extent,
                           .height = options->any_height ? 0 : p->input.size[dim],
                           .outputs = p->output.size[dim],
                           .is_filter = p->is_filter,
                           .mode = options->mode};
}

/* ---- plans */

/* The largest band and its results fit into the caches that are nearest to the threads, or it has as many rows as a
 * window. */
static void choose_bands(falt_convolver_rows *r) {
  const falt_rows_shape *s = &r->shape;
  const double each = (double)s->step * (double)r->input.pitch + (double)r->output.pitch;
  const int64_t fitting = (int64_t)(BAND_BYTES * (double)falt_threads_count(r->device->threads) / each);
  const int64_t most = s->height ? s->outputs : INT64_MAX, least = s->window / s->step;
  int64_t band = 1;
  for (r->plans = 0; r->plans < FALT_ROWS_PLANS && band <= most; band *= FALT_ROWS_GROWTH) {
    r->band[r->plans++] = band;
    if (band >= least && band * FALT_ROWS_GROWTH > fitting) break;
  }
  r->latency = falt_min(r->latency, r->band[r->plans - 1] - 1);
  for (r->edge_plans = 1; r->edge_plans < r->plans; r->edge_plans++)
    if (r->band[r->edge_plans - 1] * s->step >= 2 * s->window) break;
}

/* The problem of `band` output rows in the middle of an image with as many rows as that needs. */
static falt_status band_problem(const falt_convolver_rows *r, const falt_problem *p, int64_t band,
                                falt_problem *problem) {
  const falt_rows_shape *s = &r->shape;
  const int axis = axis_of(p), dim = FALT_D + axis;
  const int64_t begin = falt_ceil_div(falt_max(s->before, 0), s->step);
  falt_problem whole = *p;
  falt_part part;
  whole.input.size[dim] = (begin + band - 1) * s->step - s->before + s->window;
  whole.output.size[dim] = begin + band + 1;
  FALT_TRY(falt_problem_part(&part, &whole, axis, begin, band));
  *problem = part.problem;
  problem->input.stride[dim] = r->store_pitch / (int64_t)falt_type_size(r->type);
  problem->input.offset = falt_tensor_lowest_offset(&problem->input);
  problem->output.stride[dim] = r->output.pitch / (int64_t)falt_type_size(p->output.type);
  problem->output.offset = falt_tensor_lowest_offset(&problem->output);
  return FALT_OK;
}

/* A later plan's progress begins where the one before ended. */
static falt_status make_plan(falt_convolver_rows *r, falt_plan **plan, const falt_problem *problem,
                             const falt_budget *budget, const void *filter_values, int index) {
  const double all = r->plans + (r->edge_type == r->type ? 0 : r->edge_plans);
  falt_budget own = *budget;
  own.tune_seconds /= all;
  const falt_progress_range range = falt_progress_enter(index / all, (index + 1) / all);
  const falt_status status = falt_plan_create(plan, r->device, problem, &own, filter_values);
  falt_progress_leave(range);
  return status;
}

static falt_status make_plans(falt_convolver_rows *r, const falt_problem *p, const falt_budget *budget,
                              const void *filter_values) {
  falt_problem problem;
  falt_budget any = *budget;
  any.method[0] = '\0';
  for (int i = 0; i < r->plans; i++) {
    FALT_TRY(band_problem(r, p, r->band[i], &problem));
    FALT_TRY(make_plan(r, &r->plan[i], &problem, budget, filter_values, i));
    if (i >= r->edge_plans) continue;
    r->edge_plan[i] = r->plan[i];
    if (r->edge_type == r->type) continue;
    r->edge_plan[i] = NULL;
    problem.input.type = r->edge_type;
    FALT_TRY(make_plan(r, &r->edge_plan[i], &problem, &any, filter_values, r->plans + i));
  }
  return FALT_OK;
}

/* ---- memory */

static falt_status fail_memory(void) {
  return falt_fail(FALT_NO_MEMORY,
                   "rows: memory for the rows of a window ran out; use a filter of fewer rows or a lower latency");
}

static void *allocate(int64_t rows, int64_t pitch) {
  int64_t bytes;
  return falt_mul(rows, pitch, &bytes) && falt_add(bytes, SPACE_PADDING, &bytes) ? falt_alloc((size_t)bytes) : NULL;
}

static void *copy_of(const void *from, int64_t count, falt_type type) {
  const size_t bytes = (size_t)count * falt_type_size(type);
  void *copy = falt_alloc(bytes);
  if (copy) memcpy(copy, from, bytes);
  return copy;
}

static bool copy_vectors(falt_convolver_rows *r, const falt_problem *p, const falt_convolver_rows_options *options) {
  const int64_t count = p->filter.size[FALT_G] * p->filter.size[FALT_K];
  const falt_type type = falt_type_real(p->output.type);
  if (p->has_bias) r->bias = copy_of(options->bias, count, type);
  if (p->has_scale) r->scale = copy_of(options->scale, count, type);
  return (r->bias || !p->has_bias) && (r->scale || !p->has_scale);
}

/* A row of the boundary's value. */
static bool fill_constant(falt_convolver_rows *r, double value) {
  const int64_t element = (int64_t)falt_type_size(r->edge_type);
  r->constant = allocate(1, r->edge_pitch);
  for (int64_t i = 0; r->constant && i < r->edge_pitch / element; i++) falt_store(r->constant, r->edge_type, i, value);
  return r->constant;
}

/* Rows that may be kept when a band is done, in doubles first, which do not overflow. */
static bool choose_room(falt_convolver_rows *r) {
  const falt_rows_shape *s = &r->shape;
  const double most = 0x1p60, band = (double)r->band[r->plans - 1];
  const int64_t crop = s->is_filter ? 0 : falt_max(0, -s->axis.pad[1]);
  const double kept = (double)falt_max(falt_max(s->window + crop, s->before + 2), r->keeps) +
                      (double)(r->latency + 1) * (double)s->step;
  const double room = 2 * kept + band * (double)s->step + (double)s->window;
  if (s->height && room > (double)s->height) {
    r->room = s->height;
    return true;
  }
  r->room = room < most ? (int64_t)room : 0;
  return r->room;
}

static falt_status make_memory(falt_convolver_rows *r, const falt_problem *p,
                               const falt_convolver_rows_options *options) {
  size_t workspace = 0;
  int64_t window;
  for (int i = 0; i < r->plans; i++) {
    workspace = workspace > falt_plan_workspace(r->plan[i]) ? workspace : falt_plan_workspace(r->plan[i]);
    const size_t edge = falt_plan_workspace(r->edge_plan[i]);
    workspace = workspace > edge ? workspace : edge;
  }
  if (!choose_room(r) || !falt_mul(r->band[r->edge_plans - 1] - 1, r->shape.step, &window) ||
      !falt_add(window, r->shape.window, &window))
    return fail_memory();
  r->store = allocate(r->room, r->store_pitch);
  r->edge = allocate(window, r->edge_pitch);
  r->workspace = falt_alloc(workspace);
  if (!r->store || !r->edge || !r->workspace || !fill_constant(r, p->boundary_value) || !copy_vectors(r, p, options))
    return fail_memory();
  return FALT_OK;
}

/* ---- making */

/* The input's type, unless it does not hold the value of a constant boundary. */
static falt_type choose_edge_type(const falt_problem *p) {
  const falt_axis *axis = &p->axis[axis_of(p)];
  double held;
  falt_store(&held, p->input.type, 0, p->boundary_value);
  const bool holds = falt_load(&held, p->input.type, 0) == p->boundary_value;
  const bool constant = axis->boundary[0] == FALT_CONSTANT || axis->boundary[1] == FALT_CONSTANT;
  return holds || !constant ? p->input.type : p->accumulator;
}

static falt_status make(falt_convolver_rows *r, const falt_problem *p, const falt_convolver_rows_options *options,
                        const void *filter_values) {
  const int dim = FALT_D + axis_of(p);
  r->shape = shape_of(p, options);
  r->type = p->input.type;
  r->latency = options->latency;
  r->input = line_of(&p->input, dim);
  r->output = line_of(&p->output, dim);
  r->direct = r->input.pitch <= 2 * r->input.bytes;
  r->store_pitch = r->direct ? r->input.pitch : r->input.bytes;
  r->edge_type = choose_edge_type(p);
  r->edge_pitch = r->store_pitch / (int64_t)falt_type_size(r->type) * (int64_t)falt_type_size(r->edge_type);
  r->keeps = falt_rows_tail(&r->shape);
  choose_bands(r);
  FALT_TRY(make_plans(r, p, &options->budget, filter_values));
  return make_memory(r, p, options);
}

void falt_convolver_rows_options_default(falt_convolver_rows_options *options) {
  if (!options) return;
  *options = (falt_convolver_rows_options){.mode = FALT_SAME};
  falt_budget_default(&options->budget);
}

falt_status falt_convolver_rows_create(falt_convolver_rows **rows, falt_device *device, const falt_problem *problem,
                                       const falt_convolver_rows_options *options, const void *filter_values) {
  falt_convolver_rows_options usual;
  falt_call call;
  if (!rows) return falt_fail(FALT_INVALID_ARGUMENT, "rows: NULL; pass the address of a falt_convolver_rows pointer");
  *rows = NULL;
  falt_convolver_rows_options_default(&usual);
  if (!options) options = &usual;
  FALT_TRY(check(device, problem, options, filter_values));
  falt_convolver_rows *r = falt_alloc_zero(sizeof *r);
  if (!r) return fail_memory();
  r->device = device;
  falt_call_begin(&call, &device->control, NULL);
  const falt_status status = falt_call_end(&call, make(r, problem, options, filter_values));
  *rows = r;
  if (status != FALT_OK) falt_convolver_rows_destroy(rows);
  return status;
}

void falt_convolver_rows_destroy(falt_convolver_rows **rows) {
  if (!rows || !*rows) return;
  falt_convolver_rows *r = *rows;
  for (int i = 0; i < FALT_ROWS_PLANS; i++) {
    if (r->edge_plan[i] != r->plan[i]) falt_plan_destroy(&r->edge_plan[i]);
    falt_plan_destroy(&r->plan[i]);
  }
  void *const memory[] = {r->store, r->edge, r->constant, r->workspace, r->bias, r->scale, r};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) falt_free(memory[i]);
  *rows = NULL;
}
