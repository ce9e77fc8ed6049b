/* Solver pooling: maximum and average pooling and their gradients, in any dimension and layout: the plan and row
 * access.
 *
 *     y[o] = max over taps j of x[o*stride + j*dilation - pad],   or the sum of them over their count
 *
 * Vectors run along channels if these are adjacent in memory, otherwise along positions. */
#include "solver/cpu/pooling/pooling.h"

#include <math.h>
#include <stdlib.h>

#include "solver/cpu/common/rows.h"

/* With a stride, a line of positions is split by residue, so that elements of neighbouring outputs are neighbours. */

/* ---- rows */

static const falt_row_epilogue as_is = {.alpha = 1, .low = -INFINITY, .high = INFINITY};

static char *address(const falt_pooling_task *t, const falt_tensor *tensor, const void *data, int64_t d, int64_t h,
                     int64_t w) {
  return (char *)data + falt_tensor_at(tensor, t->n, t->g, 0, d, h, w) * (int64_t)falt_type_size(tensor->type);
}

/* Whether positions follow each other as in a line. */
static bool is_together(const falt_pooling_task *t, const falt_tensor *tensor) {
  const bool channels = t->channels == 1 || tensor->stride[FALT_G] == 1;
  return channels && (tensor->stride[FALT_W] == t->channels || tensor->size[FALT_W] == 1);
}

void *falt_pooling_in_place(const falt_pooling_task *t, const falt_tensor *tensor, const void *data, int64_t d,
                            int64_t h, int64_t w) {
  const bool is = tensor->type == t->plan->lane_type && is_together(t, tensor);
  return is ? address(t, tensor, data, d, h, w) : NULL;
}

/* A row as `pieces` runs of n elements, `step` apart in the tensor. */
typedef struct runs {
  int64_t pieces, n, step;
} runs;

static runs runs_of(const falt_pooling_task *t, const falt_tensor *tensor, int64_t count) {
  if (is_together(t, tensor)) return (runs){1, count * t->channels, 1};
  if (t->channels == 1) return (runs){1, count, tensor->stride[FALT_W]};
  return (runs){count, t->channels, tensor->stride[FALT_G]};
}

void falt_pooling_load(const falt_pooling_task *t, const falt_tensor *tensor, const void *data, int64_t d, int64_t h,
                       int64_t w, int64_t count, void *to) {
  const falt_pooling_plan *plan = t->plan;
  const runs r = runs_of(t, tensor, count);
  for (int64_t i = 0; i < r.pieces; i++)
    plan->convert->load[plan->lane_index][tensor->type]((char *)to + (size_t)(i * r.n) * plan->lane->element,
                                                        address(t, tensor, data, d, h, w + i), r.step, r.n);
}

void falt_pooling_store(const falt_pooling_task *t, const falt_tensor *tensor, void *data, int64_t d, int64_t h,
                        int64_t w, int64_t count, const void *from) {
  const falt_pooling_plan *plan = t->plan;
  const runs r = runs_of(t, tensor, count);
  for (int64_t i = 0; i < r.pieces; i++)
    plan->convert->store[plan->lane_index][tensor->type](address(t, tensor, data, d, h, w + i), r.step,
                                                         (const char *)from + (size_t)(i * r.n) * plan->lane->element,
                                                         r.n, &as_is, false);
}

/* ---- windows along an axis */

/* Taps [*begin, *end) whose position is in [low, high). */
static void taps_within(const falt_pooling_plan *plan, int axis, int64_t o, int64_t low, int64_t high, int64_t *begin,
                        int64_t *end) {
  const falt_axis *a = &plan->p.axis[axis];
  const int64_t first = o * a->stride - a->pad[0], taps = plan->p.filter.size[FALT_D + axis];
  *begin = first < low ? falt_ceil_div(low - first, a->dilation) : 0;
  *end = falt_max(*begin, first < high ? falt_min(taps, falt_ceil_div(high - first, a->dilation)) : 0);
}

falt_pooling_box falt_pooling_box_of(const falt_pooling_plan *plan, int64_t d, int64_t h) {
  falt_pooling_box box;
  taps_within(plan, 0, d, 0, plan->p.input.size[FALT_D], &box.begin[0], &box.end[0]);
  taps_within(plan, 1, h, 0, plan->p.input.size[FALT_H], &box.begin[1], &box.end[1]);
  return box;
}

double falt_pooling_count(const falt_pooling_plan *plan, int axis, int64_t o) {
  const int64_t *pad = plan->p.axis[axis].pad, size = plan->p.input.size[FALT_D + axis];
  const int64_t before = plan->p.count_pad ? falt_max(0, pad[0]) : 0,
                after = plan->p.count_pad ? falt_max(0, pad[1]) : 0;
  int64_t begin, end;
  taps_within(plan, axis, o, -before, size + after, &begin, &end);
  return (double)(end - begin);
}

falt_pooling_part falt_pooling_inside(const falt_pooling_plan *plan, int64_t first, int64_t length) {
  const int64_t begin = falt_min(falt_max(-first, 0), length);
  const int64_t end = falt_max(begin, falt_min(plan->p.input.size[FALT_W] - first, length));
  return (falt_pooling_part){first, length, begin, end};
}

void falt_pooling_margins(const falt_pooling_task *t, const falt_pooling_part *part, double value) {
  const falt_pooling_lane *lane = t->plan->lane;
  const size_t position = (size_t)t->channels * lane->element;
  lane->fill(t->line, value, part->begin * t->channels);
  lane->fill(t->line + (size_t)part->end * position, value, (part->length - part->end) * t->channels);
}

falt_pooling_view falt_pooling_open(const falt_pooling_task *t, const void *line, int64_t count) {
  const falt_pooling_plan *plan = t->plan;
  const falt_axis *a = &plan->p.axis[2];
  const int64_t position = t->channels * (int64_t)plan->lane->element;
  falt_pooling_view view = {line, 1, count * t->channels, 0, a->dilation, 1, 0, position};
  if (count == 1 || a->stride == 1) return view;
  if (t->channels >= plan->lane->width) {
    view.segments = count;
    view.n = t->channels;
    view.step = a->stride * position;
    return view;
  }
  const int64_t length = (count - 1) * a->stride + falt_extent(a, plan->p.filter.size[FALT_W]);
  const falt_pooling_polyphases split = {.line = (void *)line,
                                         .split = t->split,
                                         .positions = length,
                                         .inner = t->channels,
                                         .polyphases = a->stride,
                                         .pitch = falt_ceil_div(length, a->stride) * t->channels};
  plan->lane->split(&split);
  view.base = t->split;
  view.stride = a->stride;
  view.pitch = split.pitch * (int64_t)plan->lane->element;
  return view;
}

void falt_pooling_rows(const falt_pooling_view *view, int64_t segment, int64_t j, int64_t count, const void **list) {
  for (int64_t k = 0; k < count; k++) {
    const int64_t at = (j + k) * view->dilation;
    list[k] = view->base + segment * view->step + at % view->stride * view->pitch + at / view->stride * view->position;
  }
}

/* ---- execute */

typedef struct execution {
  const falt_pooling_plan *plan;
  const falt_operands *operands;
} execution;

static bool is_forward(const falt_problem *p) {
  return p->operation == FALT_MAXPOOL || p->operation == FALT_AVGPOOL;
}

static int64_t digit(int64_t *index, int64_t base) {
  const int64_t rest = *index % base;
  *index /= base;
  return rest;
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *e = context;
  const falt_pooling_plan *plan = e->plan;
  const int64_t *size = falt_problem_result(&plan->p)->size;
  falt_pooling_task t = {.plan = plan, .operands = e->operands, .scratch = scratch};
  t.line = t.scratch + plan->at[FALT_POOLING_AT_LINE];
  t.row = t.scratch + plan->at[FALT_POOLING_AT_ROW];
  t.out = t.scratch + plan->at[FALT_POOLING_AT_OUT];
  t.split = t.scratch + plan->at[FALT_POOLING_AT_SPLIT];
  t.h = digit(&index, plan->bands) * plan->band;
  t.h_end = falt_min(t.h + plan->band, size[FALT_H]);
  t.d = digit(&index, size[FALT_D]);
  t.g = digit(&index, plan->chunks) * plan->channels;
  t.channels = falt_min(plan->channels, size[FALT_G] - t.g);
  t.n = index;
  if (is_forward(&plan->p))
    falt_pooling_forward(&t);
  else
    falt_pooling_backward(&t);
}

static int64_t task_count(const falt_pooling_plan *plan) {
  const int64_t *size = falt_problem_result(&plan->p)->size;
  return size[FALT_N] * plan->chunks * size[FALT_D] * plan->bands;
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const falt_pooling_plan *plan = (const falt_pooling_plan *)base;
  execution e = {plan, operands};
  const falt_row_job job = {run_task, &e, task_count(plan), plan->scratch.total};
  falt_rows_run(base->device, &job, operands->workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_pooling_plan *plan = (const falt_pooling_plan *)base;
  falt_text_add(text, "(pooling %s %s %s piece=%lld threads=%d)", plan->channels > 1 ? "channels" : "positions",
                falt_type_name(plan->lane_type), falt_isa_name(base->device->isa), (long long)plan->piece,
                falt_threads_count(base->device->threads));
}

/* ---- applicable */

static const char *refusal(const falt_problem *p) {
  const int64_t *taps = p->filter.size;
  int64_t all = 0;
  return !falt_is_pooling(p->operation) ? "only pooling"
         : !falt_mul(taps[FALT_D], taps[FALT_H], &all) || !falt_mul(all, taps[FALT_W], &all) || all > INT32_MAX
             ? "a window has more taps than numbers for them"
             : NULL;
}

/* ---- estimate */

/* Elements that folding moves in the time of a multiply-add at the peak, all in cache; measured with AVX-512. */
static const double share = 0.1;

static double estimate(const falt_pooling_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->p;
  const int64_t *taps = p->filter.size;
  const double rows = (double)taps[FALT_D] * (double)taps[FALT_H], s = (double)taps[FALT_W];
  const double stride = (double)falt_min(p->axis[2].stride, p->input.size[FALT_W]);
  const bool product = p->operation == FALT_BACKWARD_MAXPOOL;
  const double steps = product ? 3 * rows * s : rows * stride + s;
  const double lanes = plan->channels > 1 ? fmin(1, (double)plan->channels / plan->lane->width) : 1;
  const double moved = p->input.type == plan->lane_type ? 1 : 4;
  return falt_roofline(device, plan->lane_type,
                       2 * (double)falt_tensor_count(&p->output) * steps * moved / fmax(lanes, 0.1),
                       is_forward(p) ? share : share / 2, falt_problem_bytes(p));
}

/* ---- plan */

/* Sums of integers are exact, and so are all maxima. */
static falt_lane lane_of(const falt_problem *p) {
  const bool sums = p->operation == FALT_AVGPOOL && falt_type_is_integer(p->input.type);
  const double bound = falt_type_max(p->input.type) * (double)falt_problem_depth(p);
  const bool wide = falt_problem_has_f64(p) || p->input.type == FALT_S32 || (sums && bound >= 0x1p24);
  return wide ? FALT_LANE_F64 : FALT_LANE_F32;
}

static bool one_position(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  return p->input.size[FALT_D + axis] == 1 && p->output.size[FALT_D + axis] == 1 &&
         p->filter.size[FALT_D + axis] == 1 && a->pad[0] == 0;
}

/* Windows along the width that tile it: outer rows can continue at the end of a row. */
static bool tiles_width(const falt_problem *p) {
  const falt_axis *a = &p->axis[2];
  const int64_t in = p->input.size[FALT_W], out = p->output.size[FALT_W];
  return a->pad[0] == 0 && falt_extent(a, p->filter.size[FALT_W]) <= a->stride && out <= in / a->stride &&
         out * a->stride == in;
}

/* One window that is the whole axis. */
static bool is_whole(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  const int64_t in = p->input.size[FALT_D + axis];
  return p->output.size[FALT_D + axis] == 1 && p->filter.size[FALT_D + axis] == in && a->pad[0] == 0 &&
         (a->dilation == 1 || in == 1);
}

static void forget(falt_problem *p, int dim) {
  p->input.size[dim] = p->output.size[dim] = 1;
  if (dim < FALT_D) return;
  p->filter.size[dim] = 1;
  p->axis[dim - FALT_D] = (falt_axis){.stride = 1, .dilation = 1};
}

/* Moves the last axis that has more than one position to the width. */
static void shift_axes(falt_problem *p) {
  for (int axis = 1; axis >= 0 && one_position(p, 2); axis--) {
    if (one_position(p, axis)) continue;
    falt_tensor *const tensors[] = {&p->input, &p->output, &p->filter};
    for (int i = 0; i < 3; i++) {
      tensors[i]->size[FALT_W] = tensors[i]->size[FALT_D + axis];
      tensors[i]->stride[FALT_W] = tensors[i]->stride[FALT_D + axis];
    }
    p->axis[2] = p->axis[axis];
    forget(p, FALT_D + axis);
  }
}

/* Axes that one window covers become one axis; the order of taps stays. */
static void join_whole_axes(falt_problem *p) {
  for (int axis = 1; axis >= 0; axis--) {
    const int64_t in = p->input.size[FALT_W], outer = p->input.size[FALT_D + axis];
    if (!is_whole(p, 2) || !is_whole(p, axis) || outer > FALT_POOLING_LINE / in) return;
    if (outer > 1 && p->input.stride[FALT_D + axis] != in * p->input.stride[FALT_W]) return;
    p->input.size[FALT_W] = p->filter.size[FALT_W] = in * outer;
    forget(p, FALT_D + axis);
    p->axis[2] = (falt_axis){.stride = p->input.size[FALT_W], .dilation = 1};
  }
}

/* The largest number that divides `count` and is at most `most`. */
static int64_t divisor(int64_t count, int64_t most) {
  int64_t f = falt_max(1, falt_min(count, most));
  while (count % f) f--;
  return f;
}

/* Consecutive rows of tiling windows, over all channels and images, become one row as long as a line of the scratch,
 * and the rest becomes the height. */
static void join_rows(falt_problem *p) {
  static const int outer[] = {FALT_G, FALT_N};
  falt_tensor *x = &p->input, *y = &p->output;
  for (int i = 0; i < 2; i++) {
    const int64_t count = x->size[outer[i]];
    if (!one_position(p, 0) || !one_position(p, 1) || !tiles_width(p)) return;
    if (count > 1 && (x->stride[outer[i]] != x->size[FALT_W] * x->stride[FALT_W] ||
                      y->stride[outer[i]] != y->size[FALT_W] * y->stride[FALT_W]))
      return;
    const int64_t together = divisor(count, FALT_POOLING_LINE / x->size[FALT_W]);
    x->size[FALT_W] *= together;
    y->size[FALT_W] *= together;
    forget(p, outer[i]);
    p->axis[2].pad[1] = 0;
    p->axis[1] = (falt_axis){.stride = 1, .dilation = 1};
    x->size[FALT_H] = y->size[FALT_H] = count / together;
    x->stride[FALT_H] = x->size[FALT_W] * x->stride[FALT_W];
    y->stride[FALT_H] = y->size[FALT_W] * y->stride[FALT_W];
  }
}

static bool channels_are_closer(const falt_problem *p) {
  const falt_tensor *longer = p->input.size[FALT_W] > 1 ? &p->input : &p->output;
  return p->input.size[FALT_G] > 1 &&
         (longer->size[FALT_W] == 1 || llabs(longer->stride[FALT_G]) < llabs(longer->stride[FALT_W]));
}

/* Several bands a thread, not so low that neighbours read much twice. */
static void cut_bands(falt_pooling_plan *plan) {
  enum { EACH = 4, LEAST = 8 };
  const int64_t height = falt_problem_result(&plan->p)->size[FALT_H];
  const int64_t threads = falt_threads_count(plan->base.device->threads);
  plan->chunks = falt_ceil_div(plan->p.input.size[FALT_G], plan->channels);
  plan->band = height;
  plan->bands = 1;
  const int64_t wanted = threads == 1 ? 1 : EACH * threads, tasks = task_count(plan);
  if (tasks >= wanted) return;
  plan->band = falt_max(falt_min(LEAST, height), falt_ceil_div(height, falt_ceil_div(wanted, tasks)));
  plan->bands = falt_ceil_div(height, plan->band);
}

/* Scratch of the workers, and the workspace that holds it. */
static void place(falt_pooling_plan *plan) {
  const size_t line = plan->line * plan->lane->element;
  plan->at[FALT_POOLING_AT_LINE] = falt_place_part(&plan->scratch, line);
  plan->at[FALT_POOLING_AT_ROW] = falt_place_part(&plan->scratch, line);
  plan->at[FALT_POOLING_AT_OUT] = falt_place_part(&plan->scratch, line);
  plan->at[FALT_POOLING_AT_SPLIT] = falt_place_part(&plan->scratch, 2 * line);
  if (!is_forward(&plan->p)) falt_pooling_backward_place(plan);
  falt_rows_place(&plan->base.layout, plan->base.device, &plan->scratch);
  plan->base.workspace = plan->base.layout.total;
}

static bool lay(falt_pooling_plan *plan, falt_isa isa) {
  falt_problem *p = &plan->p;
  shift_axes(p);
  const bool by_channels = channels_are_closer(p);
  if (!by_channels) {
    join_whole_axes(p);
    join_rows(p);
    if (is_forward(p)) falt_pooling_join_planes(p);
  }
  const falt_pooling_kernels kernels = falt_pooling_kernels_for(isa);
  plan->lane_index = lane_of(p);
  plan->lane_type = falt_lane_type(plan->lane_index);
  plan->lane = plan->lane_index == FALT_LANE_F32 ? kernels.f32 : kernels.f64;
  plan->convert = falt_filter_kernels_for(isa);
  plan->largest = p->operation == FALT_MAXPOOL || p->operation == FALT_BACKWARD_MAXPOOL;
  plan->channels = by_channels ? p->input.size[FALT_G] : 1;
  return is_forward(p) ? falt_pooling_forward_lay(plan) : falt_pooling_backward_lay(plan);
}

static falt_plan *plan_pooling(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = falt_plan_free};
  const char *reason = refusal(ask->problem);
  if (reason) return falt_refuse(ask, "%s", reason);
  falt_pooling_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->p = *ask->problem;
  if (!lay(plan, ask->device->isa)) {
    falt_free(plan);
    return falt_refuse(ask, "a window is wider than a piece of a row");
  }
  cut_bands(plan);
  place(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_pooling;
const falt_solver falt_solver_pooling = {.name = "pooling", .device_kind = "cpu", .plan = plan_pooling};
