/* Solver dgrad-col2im: dgrad of layers with few input channels, by a GEMM of all taps of a row whose columns are added
 * (col2im). A. Anderson et al., "Low-memory GEMM-based convolution algorithms for deep neural networks", 2017.
 *
 *     z[o, (s, c)]          = sum over k and the taps r that row i reads of  dy[(o_r, o), k] * w[k, c, r, s]
 *     dx[i, o*stride + s - pad, c] += z[o, (s, c)] */
#include <string.h>

#include "core/memory.h"
#include "planner/planner.h"
#include "solver/cpu/common/layer.h"
#include "solver/cpu/common/rows.h"

/* Vectors along so few channels would be mostly empty, so a row of taps fills them: S*C columns are one product whose
 * depth is the output channels and the taps of the other axes that reach a row of dx. The products of neighbouring
 * outputs overlap by S - stride pixels and are added in a line in the L1 cache. Windows are always inside dy, and
 * columns beyond the ends of dx fall off the line, so the boundary needs no test.
 *
 * With stride and dilation a row of dx reads every step-th tap of an axis. Taps are packed in this order, last tap
 * first as outputs advance. One list of addresses serves all rows, with different first elements. */

enum { CHUNK = 96, ROWS_OF_A_TASK = 4, TASKS_OF_A_THREAD = 8 };

/* Offsets into a worker's scratch. */
typedef struct scratch_map {
  size_t list, sums, line;
  falt_memory_layout parts;
} scratch_map;

typedef struct col2im_plan {
  falt_plan base;
  falt_layer layer;         /* the forward one */
  int64_t columns, vectors; /* of a row of taps */
  falt_layer_pieces panels; /* of vectors */
  falt_layer_pieces taps;   /* of the height, by polyphase part: piece f has taps f, f + step, ... */
  falt_layer_pieces tasks;  /* of rows of dx */
  int64_t lead, length;     /* pixels of the line: before dx, and in all */
  int64_t chunk;            /* outputs that are summed before they are added */
  size_t group;             /* floats of a group's packed filter */
  const float *values;      /* the filter, from planning until it is packed */
  float *packed;            /* or NULL if the filter is given with each execution */
  size_t filter;            /* of the packed filter, an offset into the workspace */
  scratch_map at;           /* in each worker's scratch */
} col2im_plan;

/* ---- packing: panel by panel, for each (t, r) one row of columns for each output channel */

typedef struct packing {
  const col2im_plan *plan;
  const float *filter;
  float *packed;
} packing;

/* The number of the tap that is packed `place`-th. */
static int64_t tap_at(const falt_layer_pieces *taps, int64_t place) {
  int64_t polyphase = 0;
  while (falt_layer_piece(taps, polyphase + 1) <= place) polyphase++;
  return polyphase + (falt_layer_piece(taps, polyphase + 1) - 1 - place) * taps->count;
}

static void pack_columns(const packing *pack, int64_t g, int64_t t, int64_t r, int64_t first, int64_t width,
                         float *to) {
  const falt_layer *layer = &pack->plan->layer;
  const falt_tensor *w = &layer->p.filter;
  const int64_t count = falt_min(width, pack->plan->columns - first);
  for (int64_t k = 0; k < w->size[FALT_K]; k++, to += width) {
    const float *from = pack->filter + falt_tensor_at(w, k, g, 0, t, r, 0);
    for (int64_t i = 0; i < width; i++) {
      const int64_t s = (first + i) / layer->channels, c = (first + i) % layer->channels;
      to[i] = i < count ? from[s * w->stride[FALT_W] + c * w->stride[FALT_C]] : 0;
    }
  }
}

/* All panels of one (group, t, place of r). */
static void pack_taps(void *context, int64_t index) {
  const packing *pack = context;
  const col2im_plan *plan = pack->plan;
  const falt_tensor *w = &plan->layer.p.filter;
  const int64_t rows = w->size[FALT_D] * w->size[FALT_H], place = index % w->size[FALT_H];
  const int64_t t = index / w->size[FALT_H] % w->size[FALT_D], g = index / rows, vector = plan->layer.kernels->width;
  for (int64_t panel = 0; panel < plan->panels.count; panel++) {
    const int64_t first = falt_layer_piece(&plan->panels, panel) * vector;
    const int64_t width = falt_layer_piece(&plan->panels, panel + 1) * vector - first;
    float *to = pack->packed + (size_t)g * plan->group + (size_t)(first * rows * w->size[FALT_K]);
    pack_columns(pack, g, t, tap_at(&plan->taps, place), first, width,
                 to + (t * w->size[FALT_H] + place) * w->size[FALT_K] * width);
  }
}

static void pack(const col2im_plan *plan, const float *filter, float *packed) {
  const falt_tensor *w = &plan->layer.p.filter;
  packing p = {plan, filter, packed};
  falt_parallel_for(plan->base.device->threads, w->size[FALT_G] * w->size[FALT_D] * w->size[FALT_H], pack_taps, &p);
}

/* ---- execute */

typedef struct execution {
  const col2im_plan *plan;
  const falt_operands *operands;
  const float *packed;
} execution;

typedef struct task {
  const execution *run;
  const col2im_plan *plan;
  const falt_layer *layer;
  const void **list; /* of taps of a polyphase part and outputs of a chunk, as seen from dy's first element */
  float *sums, *line;
} task;

/* The outputs [output, output + count*next) of an axis that read an input element, by taps one step apart. */
typedef struct meeting {
  int64_t polyphase, output, next, count;
  int64_t last; /* the tap of the first output, by number within its polyphase part */
} meeting;

/* Outputs in ascending order, so taps in descending order. */
static meeting meet(const falt_problem *p, int a, int64_t input) {
  const falt_axis *axis = &p->axis[a];
  const int64_t step = falt_axis_tap_step(axis), taps = p->filter.size[FALT_D + a];
  const int64_t u = input + axis->pad[0], outputs = p->output.size[FALT_D + a];
  meeting m = {.next = step * axis->dilation / axis->stride};
  while (m.polyphase < step && (u - m.polyphase * axis->dilation) % axis->stride != 0) m.polyphase++;
  if (m.polyphase == step) return m;
  for (int64_t i = 0, tap = m.polyphase; tap < taps; i++, tap += step) {
    const int64_t reach = u - tap * axis->dilation;
    if (reach < 0) break;
    if (reach / axis->stride >= outputs) continue;
    m.last = i;
    m.output = reach / axis->stride;
    m.count++;
  }
  return m;
}

/* The position of a row of dx, and the outputs that read it. */
typedef struct row {
  int64_t n, d, h;
  meeting depth, height;
} row;

/* Sums of outputs [first, first + count) for the taps of one t, all r, columns of one panel. */
static void multiply(const task *t, const row *at, int64_t g, int64_t m, int64_t panel, int64_t first, int64_t count) {
  const col2im_plan *plan = t->plan;
  const falt_problem *p = &t->layer->p;
  const falt_tensor *y = &p->output, *w = &p->filter;
  const int64_t depth = w->size[FALT_K], height = w->size[FALT_H], vector = t->layer->kernels->width;
  const int64_t column = falt_layer_piece(&plan->panels, panel) * vector;
  const int64_t width = falt_layer_piece(&plan->panels, panel + 1) * vector - column;
  const int64_t tap = at->depth.polyphase + (at->depth.last - m) * falt_axis_tap_step(&p->axis[0]);
  const int64_t place = falt_layer_piece(&plan->taps, at->height.polyphase + 1) - 1 - at->height.last;
  const falt_layer_pieces calls = falt_layer_cut(count, falt_ceil_div(count, t->layer->kernels->rows[width / vector]));
  const int64_t d = at->depth.output + m * at->depth.next;
  for (int64_t i = 0; i < calls.count; i++) {
    const int64_t begin = falt_layer_piece(&calls, i), end = falt_layer_piece(&calls, i + 1);
    void *out[FALT_LAYER_ROWS];
    for (int64_t j = begin; j < end; j++) out[j - begin] = t->sums + j * width;
    t->layer->kernels->product(&(falt_layer_product){
        .a = t->list + begin,
        .a_pitch = plan->chunk,
        .b = t->run->packed + (size_t)g * plan->group + (column * w->size[FALT_D] * height) * depth +
             ((tap * height + place) * depth) * width,
        .out = out,
        .offset = falt_tensor_at(y, at->n, g, 0, d, at->height.output, first) - y->offset,
        .segments = at->height.count,
        .depth = depth,
        .n = width,
        .rows = (int)(end - begin),
        .accumulate = m > 0});
  }
}

/* One row of dx of one group, in the line. */
static void sum_row(const task *t, const row *at, int64_t g) {
  const col2im_plan *plan = t->plan;
  const falt_problem *p = &t->layer->p;
  const int64_t stride = p->axis[2].stride, channels = t->layer->channels, vector = t->layer->kernels->width;
  const int64_t first_pixel = plan->lead - p->axis[2].pad[0], outputs = p->output.size[FALT_W];
  memset(t->line, 0, (size_t)(plan->length * channels) * sizeof *t->line);
  if (at->height.count == 0) return;
  for (int64_t first = 0, count; first < outputs && at->depth.count > 0; first += count) {
    count = falt_min(plan->chunk, outputs - first);
    for (int64_t panel = 0; panel < plan->panels.count; panel++) {
      const int64_t column = falt_layer_piece(&plan->panels, panel) * vector;
      const int64_t width = falt_layer_piece(&plan->panels, panel + 1) * vector - column;
      for (int64_t m = 0; m < at->depth.count; m++) multiply(t, at, g, m, panel, first, count);
      t->layer->kernels->overlap(
          &(falt_layer_overlap){.from = t->sums,
                                .to = t->line + (first_pixel + first * stride) * channels + column,
                                .pitch = width,
                                .step = stride * channels,
                                .n = falt_min(width, plan->columns - column),
                                .count = count});
    }
  }
}

static void list_outputs(const task *t) {
  const falt_problem *p = &t->layer->p;
  const falt_tensor *y = &p->output;
  const falt_axis *axis = &p->axis[1];
  const int64_t next = falt_axis_tap_step(axis) * axis->dilation / axis->stride;
  const float *from = (const float *)t->run->operands->output + y->offset;
  for (int64_t j = 0; j < falt_min(falt_layer_most(&t->plan->taps), y->size[FALT_H]); j++)
    for (int64_t o = 0; o < t->plan->chunk; o++)
      t->list[j * t->plan->chunk + o] = from + j * next * y->stride[FALT_H] + o * y->stride[FALT_W];
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const col2im_plan *plan = run->plan;
  const falt_problem *p = &plan->layer.p;
  const falt_tensor *x = &p->input;
  char *memory = scratch;
  const task t = {.run = run,
                  .plan = plan,
                  .layer = &plan->layer,
                  .list = (const void **)(void *)(memory + plan->at.list),
                  .sums = (float *)(void *)(memory + plan->at.sums),
                  .line = (float *)(void *)(memory + plan->at.line)};
  list_outputs(&t);
  for (int64_t i = falt_layer_piece(&plan->tasks, index); i < falt_layer_piece(&plan->tasks, index + 1); i++) {
    const int64_t image = i / x->size[FALT_H];
    row at = {.n = image / x->size[FALT_D], .d = image % x->size[FALT_D], .h = i % x->size[FALT_H]};
    at.depth = meet(p, 0, at.d);
    at.height = meet(p, 1, at.h);
    for (int64_t g = 0; g < x->size[FALT_G] && !falt_cancelled(); g++) {
      sum_row(&t, &at, g);
      memcpy((float *)run->operands->input + falt_tensor_at(x, at.n, g, 0, at.d, at.h, 0),
             t.line + plan->lead * plan->layer.channels,
             (size_t)(x->size[FALT_W] * plan->layer.channels) * sizeof(float));
    }
  }
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const col2im_plan *plan = (const col2im_plan *)base;
  char *workspace = operands->workspace;
  float *filter = (float *)(void *)(workspace + plan->filter);
  execution run = {plan, operands, plan->packed ? plan->packed : filter};
  if (!plan->packed) pack(plan, operands->filter, filter);
  const falt_row_job job = {run_task, &run, plan->tasks.count, plan->at.parts.total};
  falt_rows_run(base->device, &job, workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  const col2im_plan *plan = (const col2im_plan *)base;
  falt_text_add(text, "(dgrad-col2im %s %lldx%lld threads=%d)", falt_isa_name(base->device->isa),
                (long long)plan->layer.kernels->rows[falt_layer_most(&plan->panels)],
                (long long)(falt_layer_most(&plan->panels) * plan->layer.kernels->width),
                falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *plan) {
  falt_free(((col2im_plan *)plan)->packed);
  falt_free(plan);
}

/* ---- applicable, in addition to the conditions of all layers */

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const falt_tensor *x = &p->input;
  return p->operation != FALT_BACKWARD_DATA      ? "only backward-data"
         : falt_problem_folds(p)                 ? "gradients beyond the boundary are added to elements inside"
         : p->filter.size[FALT_W] == 1           ? "rows of one tap do not overlap"
         : p->axis[2].dilation != 1              ? "taps are dilated along the width"
         : !falt_tensor_unit(&p->output, FALT_C) ? "channels of the output are not adjacent in memory"
         : !falt_tensor_unit(x, FALT_C) || (x->stride[FALT_W] != x->size[FALT_C] && x->size[FALT_W] > 1)
             ? "pixels of the input are not adjacent in memory"
             : NULL;
}

/* ---- estimate */

/* The multiply-adds that take as long as adding a vector of overlapping outputs, and as reading an element of the
 * packed filter, which every row of dx reads again. */
static const double added = 300, read = 1.5;

/* Seconds in which a thread loads the filter that all threads have packed: each task reads all of it. */
static double loads_packed(const col2im_plan *plan, const falt_device *device) {
  const double elements = (double)plan->layer.p.output.size[FALT_G] * (double)plan->group;
  return plan->base.packed ? 0 : falt_load_written(device, elements * sizeof(float));
}

static double estimate(const col2im_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->layer.p;
  const double padded = (double)(plan->vectors * plan->layer.kernels->width);
  const double rows = (double)p->input.size[FALT_N] * (double)p->input.size[FALT_D] * (double)p->input.size[FALT_H];
  const double sums = rows * (double)p->output.size[FALT_W] * (double)p->output.size[FALT_G] * (double)plan->vectors;
  const double step = (double)(falt_axis_tap_step(&p->axis[0]) * falt_axis_tap_step(&p->axis[1]));
  const double reads = rows * (double)p->output.size[FALT_G] * (double)plan->group / step;
  const double filter = plan->base.packed ? 0 : 100 * (double)falt_tensor_count(&p->filter);
  return falt_roofline(
             device, FALT_F32,
             falt_problem_flops(p) * padded / (double)plan->columns + 2 * added * sums + 2 * read * reads + filter,
             falt_layer_share(falt_layer_most(&plan->panels)), falt_problem_bytes(p)) +
         loads_packed(plan, device);
}

/* ---- plan */

/* Elements of the packed filter and of the line; false if they overflow. */
static bool set_sizes(col2im_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const falt_axis *axis = &p->axis[2];
  const int64_t windows = (p->output.size[FALT_W] - 1) * axis->stride + p->filter.size[FALT_W] - axis->pad[0];
  int64_t group, all, columns, line;
  if (!falt_mul(p->filter.size[FALT_W], plan->layer.channels, &columns)) return false;
  plan->columns = columns;
  plan->vectors = falt_ceil_div(columns, plan->layer.kernels->width);
  plan->lead = falt_max(axis->pad[0], 0);
  plan->length = plan->lead + falt_max(p->input.size[FALT_W], windows);
  if (!falt_mul(plan->vectors * plan->layer.kernels->width, p->filter.size[FALT_D] * p->filter.size[FALT_H], &group) ||
      !falt_mul(group, p->filter.size[FALT_K], &group) || !falt_mul(group, p->filter.size[FALT_G], &all) ||
      !falt_mul(all, (int64_t)sizeof(float), &all) ||
      !falt_mul(plan->length * (int64_t)sizeof(float), plan->layer.channels, &line))
    return false;
  plan->group = (size_t)group;
  return true;
}

static void set_tasks(col2im_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const falt_layer_kernels *kernels = plan->layer.kernels;
  const int64_t threads = falt_threads_count(plan->base.device->threads);
  const int64_t rows = p->input.size[FALT_N] * p->input.size[FALT_D] * p->input.size[FALT_H];
  plan->panels = falt_layer_cut(plan->vectors, falt_ceil_div(plan->vectors, kernels->vectors));
  plan->taps = falt_layer_cut(p->filter.size[FALT_H], falt_axis_tap_step(&p->axis[1]));
  plan->tasks = falt_layer_cut(rows, falt_min(falt_ceil_div(rows, ROWS_OF_A_TASK), TASKS_OF_A_THREAD * threads));
  plan->chunk = falt_min(CHUNK, p->output.size[FALT_W]);
}

static void lay_memory(col2im_plan *plan) {
  const size_t chunk = (size_t)plan->chunk;
  const size_t width = (size_t)(falt_layer_most(&plan->panels) * plan->layer.kernels->width);
  scratch_map *at = &plan->at;
  at->list = falt_place_part(&at->parts, chunk * (size_t)falt_layer_most(&plan->taps) * sizeof(float *));
  at->sums = falt_place_part(&at->parts, chunk * width * sizeof(float));
  at->line = falt_place_part(&at->parts, (size_t)(plan->length * plan->layer.channels) * sizeof(float));
  falt_memory_layout *all = &plan->base.layout;
  falt_rows_place(all, plan->base.device, &at->parts);
  plan->filter = falt_place_part(
      all, plan->base.packed ? 0 : (size_t)plan->layer.p.filter.size[FALT_G] * plan->group * sizeof(float));
  plan->base.workspace = all->total;
}

/* Packs a filter that is known: only for the plan that was chosen. */
static falt_status ready(falt_plan *base) {
  col2im_plan *plan = (col2im_plan *)base;
  if (!plan->values) return FALT_OK;
  FALT_TRY(falt_layer_room(&plan->packed, (size_t)plan->layer.p.filter.size[FALT_G] * plan->group));
  pack(plan, plan->values, plan->packed);
  plan->values = NULL;
  return FALT_OK;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  col2im_plan *plan = (col2im_plan *)base;
  falt_problem forward = *ask->problem;
  forward.operation = FALT_FORWARD;
  const char *why = falt_layer_init(&plan->layer, &forward, ask->device->isa);
  if (why) return why;
  if (!set_sizes(plan)) return "its packed filter or a row exceeds 2^63 bytes";
  set_tasks(plan);
  plan->values = ask->filter_values;
  base->packed = plan->values != NULL;
  lay_memory(plan);
  base->cost.seconds = estimate(plan, ask->device);
  return NULL;
}

static const falt_plan_steps steps = {sizeof(col2im_plan), {execute, print, destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_dgrad_col2im;
const falt_solver falt_solver_dgrad_col2im = {
    .name = "dgrad-col2im", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps};
