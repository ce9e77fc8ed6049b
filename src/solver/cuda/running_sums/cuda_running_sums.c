/* Solver cuda-running-sums: box filters, also with other weights at the ends of an axis (extended boxes), in a time
 * that does not depend on their size. One filter for all channels, known when planning. One pass for planes, and one
 * for rows and columns or one for each, with the sums between passes in the workspace. Kernel: cuda_running_sums.cu.
 * Tile search: cuda_running_sums_tiles.c. */
#include <math.h>

#include "core/memory.h"
#include "solver/common/boxes.h"
#include "solver/cuda/common/cuda_filter.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/running_sums/cuda_running_sums_args.h"
#include "solver/cuda/running_sums/cuda_running_sums_tiles.h"

enum { PLANE, ROW, COLUMN, MOST_PASSES = 3 };

/* A dense or strided operand of a pass: sizes of planes, rows, columns; strides of these and of two batches. */
typedef struct image {
  int64_t size[3], plane, row, batch[2];
  int type; /* of falt_type */
} image;

typedef struct pass {
  falt_running_pass shape;
  falt_running_tile tile;
  falt_cuda_running_args args;
  falt_cu_function function;
  image x, y;
  int axis[2][2]; /* boundaries of rows, of columns */
  bool weighted, far;
  size_t from, to; /* of the sums between passes, in the workspace */
} pass;

typedef struct running_plan {
  falt_plan base;
  falt_box box;
  int count, pixel;
  bool whole, wide, wide_real; /* sums of integers; of doubles; outputs are finished in double */
  pass pass[MOST_PASSES];
} running_plan;

/* ---- execute */

static bool aligned(const void *data, size_t bytes) {
  return (uintptr_t)data % bytes == 0;
}

static void start(const running_plan *plan, int i, const falt_operands *o) {
  const pass *s = &plan->pass[i];
  const falt_problem *p = &plan->base.problem;
  const int last = plan->count - 1;
  char *workspace = o->workspace;
  falt_cuda_running_args args = s->args;
  args.x = i == 0 ? falt_cuda_element(o->input, &p->input) : workspace + s->from;
  args.y = i == last ? falt_cuda_element(o->output, &p->output) : workspace + s->to;
  args.x_aligned &= aligned(args.x, (size_t)(s->tile.vector * s->shape.x_bytes));
  args.y_aligned &= aligned(args.y, (size_t)(s->tile.vector * s->shape.y_bytes));
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {
      s->function, s->tile.all_blocks, {s->tile.warps * FALT_WARP, 1}, (int)s->tile.shared_bytes, o->stream};
  falt_gpu_start(plan->base.device->gpu, &launch, parameters);
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const running_plan *plan = (const running_plan *)base;
  for (int i = 0; i < plan->count; i++) start(plan, i, o);
}

static void print(const falt_plan *base, falt_text *text) {
  const running_plan *plan = (const running_plan *)base;
  falt_text_add(text, "(%s", base->solver->name);
  for (int i = 0; i < plan->count; i++) {
    const pass *s = &plan->pass[i];
    falt_text_add(text, " %dx%d strip=%dx%d chunk=%dx%d warps=%d blocks=%d", s->shape.taps[0], s->shape.taps[1],
                  s->tile.band, s->tile.strip, s->tile.chunk[0], s->tile.chunk[1], s->tile.warps, s->tile.blocks);
  }
  falt_text_add(text, "%s)", plan->whole ? " s32" : plan->wide ? " f64" : "");
}

/* ---- ready */

static const char *sum_name(const running_plan *plan) {
  return plan->whole ? "int" : plan->wide ? "double" : "float";
}

static falt_status ready(falt_plan *base) {
  running_plan *plan = (running_plan *)base;
  for (int i = 0; i < plan->count; i++) {
    pass *s = &plan->pass[i];
    const bool last = i == plan->count - 1;
    falt_cuda_kernel kernel = {.source = "cuda_running_sums.cu", .entry = "falt_running_sums"};
    falt_running_defines(&kernel, &s->shape, &s->tile);
    for (int a = 0; a < 2; a++) falt_cuda_define(&kernel, "AXIS_%c=%d,%d", "RS"[a], s -> axis[a][0], s -> axis[a][1]);
    falt_cuda_define(&kernel, "FAR=%d", s->far);
    falt_cuda_define(&kernel, "ELEMENT_X=%s", falt_cuda_types[s->x.type].element);
    falt_cuda_define(&kernel, "ELEMENT_Y=%s", falt_cuda_types[s->y.type].element);
    falt_cuda_define(&kernel, "TYPE_X=%d", s->x.type);
    falt_cuda_define(&kernel, "TYPE_Y=%d", s->y.type);
    falt_cuda_define(&kernel, "SUM=%s", sum_name(plan));
    falt_cuda_define(&kernel, "REAL=%s", !last ? sum_name(plan) : plan->wide_real ? "double" : "float");
    falt_cuda_define(&kernel, "WEIGHTED=%d", s->weighted);
    FALT_TRY(falt_gpu_kernel(base->device->gpu, &kernel, &s->function));
  }
  return FALT_OK;
}

/* ---- applicable */

static bool one_channel(const falt_problem *p) {
  return p->filter.size[FALT_C] == 1 && p->filter.size[FALT_K] == 1;
}

/* Kernels count rows and columns in 32 bits. */
static bool small_axes(const falt_problem *p) {
  const int64_t channels = falt_cuda_interleaved(p) ? p->input.size[FALT_G] : 1, most = (INT64_C(1) << 29) / channels;
  for (int i = 0; i < 3; i++) {
    const int64_t in = p->input.size[FALT_D + i], out = p->output.size[FALT_D + i], taps = p->filter.size[FALT_D + i];
    const falt_axis *a = &p->axis[i];
    if (in >= most || out >= most || taps >= most || a->stride >= most || a->dilation >= most) return false;
    if (a->pad[0] >= most || a->pad[0] <= -most || (taps - 1) * a->dilation >= most) return false;
    if ((out + 4096) * a->stride >= most) return false;
  }
  return true;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const int64_t *taps = &p->filter.size[FALT_D];
  falt_box box;
  const bool columns = falt_tensor_unit(&p->input, FALT_W) && falt_tensor_unit(&p->output, FALT_W);
  if (p->operation != FALT_FORWARD) return "it computes forward filters only";
  if (!one_channel(p)) return "it sums over channels";
  if (!falt_cuda_epilogue_is_linear(p)) return "the epilogue is more than alpha and beta";
  if (!falt_cuda_interleaved(p) && !columns) return "columns are not contiguous";
  if (!small_axes(p)) return "an axis is longer than 2^29 elements";
  if (taps[0] * taps[1] * taps[2] == 1) return "the filter has one tap";
  for (int i = 0; i < 2; i++)
    if (taps[i] > 1 && p->axis[i].dilation > 1) return "the taps are apart along an axis other than the nearest one";
  return falt_box_of(&box, p, ask->filter_values);
}

/* ---- types */

/* Integers are summed as such where their sums have 31 bits, and else in f64, which holds 53. */
static const char *choose_types(running_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  const double largest = falt_box_largest_sum(&plan->box, p);
  const double results = largest * (falt_type_is_integer(p->filter.type) ? fmax(1, fabs(plan->box.weight)) : 1);
  if (isfinite(largest) && results >= 0x1p53) return "sums of integers would not be exact";
  plan->wide = falt_problem_has_f64(p) || p->input.type == FALT_S32 || (isfinite(largest) && largest >= 0x1p31);
  plan->whole = !plan->wide && isfinite(largest);
  plan->wide_real = plan->wide || p->output.type == FALT_S32 || (isfinite(results) && results >= 0x1p24);
  return NULL;
}

/* ---- passes */

static falt_type sum_type(const running_plan *plan) {
  return plan->whole ? FALT_S32 : plan->wide ? FALT_F64 : FALT_F32;
}

static image image_of(const falt_tensor *t, int pixel) {
  image m = {.plane = falt_cuda_stride_along(t, 0),
             .row = falt_cuda_stride_along(t, 1),
             .batch = {falt_cuda_batch_stride(t, FALT_N), pixel == 1 ? falt_cuda_batch_stride(t, FALT_G) : 0},
             .type = (int)t->type};
  for (int i = 0; i < 3; i++) m.size[i] = t->size[FALT_D + i] * (i == COLUMN ? pixel : 1);
  return m;
}

/* Sums between passes, without gaps, in rows of whole words. */
static image image_between(const running_plan *plan, const int64_t size[3]) {
  const int64_t channels = plan->pixel == 1 ? plan->base.problem.input.size[FALT_G] : 1;
  image m = {.row = falt_round_up(size[COLUMN], 4), .type = (int)sum_type(plan)};
  for (int i = 0; i < 3; i++) m.size[i] = size[i];
  m.plane = m.row * size[ROW];
  m.batch[1] = m.plane * size[PLANE];
  m.batch[0] = m.batch[1] * channels;
  return m;
}

static size_t bytes_between(const running_plan *plan, const image *m) {
  return (size_t)(m->batch[0] * plan->base.problem.input.size[FALT_N]) * falt_type_size((falt_type)m->type);
}

static bool vectors(const image *m, int64_t elements) {
  return m->plane % elements == 0 && m->row % elements == 0 && m->batch[0] % elements == 0 &&
         m->batch[1] % elements == 0;
}

static const falt_axis still = {.stride = 1, .dilation = 1};

/* Whether positions need more than one reflection to reach the axis. */
static bool reaches_far(const falt_axis *a, int64_t taps, int64_t in, int64_t out) {
  const int64_t last = (out - 1) * a->stride + (taps - 1) * a->dilation - a->pad[0];
  return a->pad[0] >= in || last >= 2 * in - 1;
}

/* The axes of a pass down and along; -1: none. Between planes it sums down these, and rows are its planes. */
static void set_shape(const running_plan *plan, pass *s, int down, int along) {
  const falt_problem *p = &plan->base.problem;
  const int axes[2] = {down, along};
  s->shape = (falt_running_pass){.pixel = plan->pixel,
                                 .x_bytes = (int)falt_type_size((falt_type)s->x.type),
                                 .y_bytes = (int)falt_type_size((falt_type)s->y.type),
                                 .sum_bytes = plan->wide ? 8 : 4};
  for (int i = 0; i < 2; i++) {
    const falt_axis *a = axes[i] < 0 ? &still : &p->axis[axes[i]];
    const int64_t pixel = i == 1 ? plan->pixel : 1;
    s->shape.taps[i] = axes[i] < 0 ? 1 : (int)p->filter.size[FALT_D + axes[i]];
    s->shape.ends[i] = axes[i] >= 0 && plan->box.ends[axes[i]];
    s->args.end[i] = axes[i] < 0 ? 1 : plan->box.end[axes[i]];
    s->shape.pad[i] = (int)a->pad[0];
    s->shape.in[i] = s->args.in[ROW + i];
    s->shape.out[i] = s->args.out[ROW + i];
    s->shape.stride[i] = s->shape.out[i] > pixel ? (int)a->stride : 1;
    s->axis[i][0] = (int)a->boundary[0];
    s->axis[i][1] = (int)a->boundary[1];
    s->far |= reaches_far(a, s->shape.taps[i], s->shape.in[i] / pixel, s->shape.out[i] / pixel);
  }
  s->shape.step = plan->pixel * (s->shape.taps[1] > 1 ? (int)p->axis[COLUMN].dilation : 1);
  s->shape.planes = s->args.out[PLANE] * (int64_t)s->args.batch * p->input.size[FALT_N];
}

static void set_args(const running_plan *plan, pass *s, const falt_axis *planes, bool between) {
  const image *x = &s->x, *y = &s->y;
  s->args = (falt_cuda_running_args){.x_plane = between ? x->row : x->plane,
                                     .x_row = between ? x->plane : x->row,
                                     .x_batch = {x->batch[0], x->batch[1]},
                                     .y_plane = between ? y->row : y->plane,
                                     .y_row = between ? y->plane : y->row,
                                     .y_batch = {y->batch[0], y->batch[1]},
                                     .plane_pad = (int)planes->pad[0],
                                     .plane_stride = (int)planes->stride,
                                     .plane_boundary = {(int)planes->boundary[0], (int)planes->boundary[1]},
                                     .batch = plan->pixel == 1 ? (unsigned)plan->base.problem.input.size[FALT_G] : 1,
                                     .weight = plan->box.weight,
                                     .scale = 1};
  for (int i = 0; i < 3; i++) {
    const int from = between && i < 2 ? 1 - i : i;
    s->args.in[i] = (int)x->size[from];
    s->args.out[i] = (int)y->size[from];
  }
}

/* Whether the outputs along an axis are its elements. */
static bool is_still(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  return p->filter.size[FALT_D + axis] == 1 && a->pad[0] == 0 && a->stride == 1 &&
         p->input.size[FALT_D + axis] == p->output.size[FALT_D + axis];
}

/* Planes of rows without gaps are one row each. */
static void join_rows(image *x, image *y) {
  if (x->row != x->size[COLUMN] || y->row != y->size[COLUMN] || x->size[ROW] * x->size[COLUMN] > INT32_MAX / 2) return;
  for (int i = 0; i < 2; i++) {
    image *m = i ? y : x;
    m->size[COLUMN] *= m->size[ROW];
    m->size[ROW] = 1;
  }
}

/* The image behind a pass that applies the problem's axes `does`; the output, if it is the last. */
static image image_behind(const running_plan *plan, const image *x, const bool does[3], bool last) {
  const falt_problem *p = &plan->base.problem;
  int64_t size[3];
  if (last) return image_of(&p->output, plan->pixel);
  for (int i = 0; i < 3; i++)
    size[i] = does[i] ? p->output.size[FALT_D + i] * (i == COLUMN ? plan->pixel : 1) : x->size[i];
  return image_between(plan, size);
}

/* The pass that applies the axes `does`. Returns why there is none, or NULL. */
static const char *make_pass(const running_plan *plan, pass *s, const bool does[3]) {
  const falt_problem *p = &plan->base.problem;
  const falt_machine machine = falt_cuda_machine(plan->base.device);
  const bool between = does[PLANE] && p->filter.size[FALT_D] > 1;
  if (between && (!does[COLUMN] || is_still(p, COLUMN))) join_rows(&s->x, &s->y);
  set_args(plan, s, does[PLANE] && !between ? &p->axis[PLANE] : &still, between);
  set_shape(plan, s, between ? PLANE : does[ROW] ? ROW : -1, does[COLUMN] ? COLUMN : -1);
  if (!falt_running_choose(&s->shape, &machine, &s->tile)) return s->tile.rejected;
  s->args.strips = (int)s->tile.strips;
  s->args.bands = (int)s->tile.bands;
  s->args.strip = s->tile.strip;
  s->args.band = s->tile.band;
  s->args.tasks = (unsigned)s->tile.tasks;
  s->args.x_aligned = vectors(&s->x, s->tile.vector);
  s->args.y_aligned = vectors(&s->y, s->tile.vector);
  return NULL;
}

/* The sum of the taps along an axis, those inside counting one each. */
static double taps_along(const running_plan *plan, int axis) {
  const double taps = (double)plan->base.problem.filter.size[FALT_D + axis];
  return plan->box.ends[axis] ? taps - 2 + 2 * plan->box.end[axis] : taps;
}

/* The passes of `order`, which apply each axis once. Returns why there are none, or NULL. */
static const char *make_passes(running_plan *plan, const bool (*order)[3], int count) {
  const falt_problem *p = &plan->base.problem;
  image x = image_of(&p->input, plan->pixel);
  double fill = p->boundary_value;
  plan->count = count;
  plan->base.layout = (falt_memory_layout){0};
  plan->base.cost.seconds = 0;
  for (int i = 0; i < count; i++) {
    pass *s = &plan->pass[i];
    const bool last = i == count - 1;
    *s = (pass){.x = x, .weighted = i == 0 && !plan->whole && plan->box.weight != 1};
    if (i > 0) s->from = plan->pass[i - 1].to;
    x = s->y = image_behind(plan, &s->x, order[i], last);
    const char *why = make_pass(plan, s, order[i]);
    if (why) return why;
    s->args.fill = fill;
    if (i == 0 && !plan->whole) fill *= plan->box.weight;
    for (int axis = 0; axis < 3; axis++) fill *= order[i][axis] ? taps_along(plan, axis) : 1;
    if (!last) s->to = falt_place_part(&plan->base.layout, bytes_between(plan, &x));
    plan->base.cost.seconds += 2e-6 + s->tile.seconds;
  }
  pass *end = &plan->pass[count - 1];
  end->args.scale = p->alpha * (plan->whole ? plan->box.weight : 1);
  end->args.offset = p->beta;
  plan->base.workspace = plan->base.layout.total;
  return NULL;
}

/* ---- plan */

/* Two axes in one pass or one after the other, whichever is estimated to be faster and keeps to the workspace. */
static const char *choose_passes(running_plan *plan, const falt_ask *ask) {
  static const bool all[][3] = {{true, true, true}};
  static const bool planes[][3] = {{true, false, false}, {false, true, true}},
                    rows[][3] = {{true, true, false}, {false, false, true}};
  static const bool each[][3] = {{true, false, false}, {false, true, false}, {false, false, true}};
  const falt_problem *p = ask->problem;
  const int64_t *taps = &p->filter.size[FALT_D], most = ask->budget->max_workspace;
  const bool deep = taps[0] > 1, one = !deep || is_still(p, ROW);
  const char *why = one ? make_passes(plan, all, 1) : make_passes(plan, planes, 2);
  if (taps[2] == 1 || (one && taps[0] * taps[1] == 1)) return why;
  const running_plan first = *plan;
  const char *other = one ? make_passes(plan, rows, 2) : make_passes(plan, each, 3);
  const bool fits = most < 0 || plan->base.workspace <= (size_t)most;
  if (!other && fits && (why || plan->base.cost.seconds < first.base.cost.seconds)) return NULL;
  *plan = first;
  return why;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  running_plan *plan = (running_plan *)base;
  falt_box_of(&plan->box, ask->problem, ask->filter_values);
  plan->pixel = falt_cuda_interleaved(ask->problem) ? (int)ask->problem->input.size[FALT_G] : 1;
  base->packed = true;
  const char *why = choose_types(plan);
  return why ? why : choose_passes(plan, ask);
}

static const falt_plan_steps steps = {
    sizeof(running_plan), {execute, print, falt_plan_free, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_running_sums;
const falt_solver falt_solver_cuda_running_sums = {
    .name = "cuda-running-sums", .device_kind = "cuda", .plan = falt_plan_make, .steps = &steps, .takes_factors = true};
