/* Solver wgrad-fewchannels: weight and bias gradients of layers with few input channels, as sums along lines of
 * positions.
 *
 *     dw[k, c, j] = sum over positions p of  x[p*stride + j*dilation - pad, c] * dy[p, k],    db[k] = sum of dy[p, k]
 *
 * Slices of the positions depend only on the problem and are added in order. */
#include <string.h>

#include "core/memory.h"
#include "solver/cpu/common/layer_slots.h"
#include "solver/cpu/common/rows.h"
#include "solver/cpu/wgrad/wgrad.h"

/* As in wgrad.c, rows of the sums are (tap, input channel), columns are output channels, and positions are the depth.
 * With few channels a pixel gives too few rows to fill a register block, so the rows of all taps share one block. Each
 * row has its own address, from which positions follow at the distance of the stride. That requires input rows that
 * continue beyond their ends: they are copied with their boundary into lines that stay in the cache for all taps and
 * the next rows of dy, so the inner loop looks up no address. dy is read in place if its channels fill whole vectors,
 * else from a panel that is copied for some lines of positions.
 *
 * If positions are adjacent in both operands (NCHW), sums are dot products along lines whose lanes are added at the
 * end: dy is neither transposed nor copied. With a stride each residue of the pixels is a line. */

enum {
  MOST_POSITIONS = 256, /* of a unit: its part of dy stays in a cache while all rows of sums go over it */
  DOT_POSITIONS = 512,  /* the same for dot products, which use few rows at a time */
  DOT_ROWS = 32,        /* of sums: for more of them transposing dy pays */
  MOST_LINES = 16,      /* of a unit */
  MOST_SLICES = 32,
  UNITS_OF_A_SLICE = 3,
  LINE = 16, /* elements */
};
static const int64_t MOST_LANES = 1 << 14, MOST_SUMS = 1 << 17, MOST_PARTIAL = 1 << 20,
                     MOST_SLOTS = 1 << 17; /* floats */

typedef struct scratch_map {
  size_t slots, tags, residues, list, panel, ones, lanes;
  falt_memory_layout parts;
} scratch_map;

typedef struct fewchannels_plan {
  falt_plan base;
  falt_layer layer; /* the forward one */
  const falt_outer_kernels *kernels;
  bool dots;                /* sums are dot products along lines */
  bool in_place;            /* dy is read in place */
  int64_t rows, columns;    /* of a group's sums: (t, r, s, c), and whole vectors of output channels */
  falt_layer_pieces panels; /* of vectors */
  int64_t across, pieces;   /* positions of a piece of a row of dy, and how many pieces */
  int64_t lines, bands;     /* rows of a unit, and units of a plane */
  int64_t units;            /* (group, image, plane, piece, band) */
  falt_layer_pieces slices; /* of a group's units */
  falt_slots slots;         /* of input rows */
  int64_t residue;          /* dots with a stride: elements of a line of every stride-th pixel of a slot */
  size_t sums;              /* floats of a group's */
  size_t partial;           /* sums of all groups' slices, an offset into the workspace */
  scratch_map at;           /* in each worker's scratch */
} fewchannels_plan;

typedef struct execution {
  const fewchannels_plan *plan;
  const falt_operands *operands;
  float *partial;
} execution;

/* Lines of positions of one plane. */
typedef struct unit {
  int64_t n, g, d;
  int64_t h, lines; /* rows of dy */
  int64_t w, count; /* positions of each */
} unit;

typedef struct task {
  const execution *run;
  const fewchannels_plan *plan;
  const falt_layer *layer;
  bool accumulate; /* an earlier unit left sums */
  falt_slot_memory slots;
  float *residues, *panel, *ones, *lanes, *sums;
  const float **list;
} task;

/* ---- input rows in */

/* A slot's channels, separately for every residue of the stride that taps read. */
static void part_slot(const task *t, const float *slot, float *to) {
  const fewchannels_plan *plan = t->plan;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t stride = axis->stride, extent = falt_extent(axis, t->layer->p.filter.size[FALT_W]);
  for (int64_t c = 0; c < t->layer->channels; c++, to += stride * plan->residue)
    for (int64_t i = 0; i < falt_min(stride, extent); i++)
      t->layer->kernels->copy(&(falt_layer_copy){.from = slot + c * plan->slots.channel_step + i,
                                                 .to = to + i * plan->residue,
                                                 .step = stride,
                                                 .n = falt_ceil_div(plan->slots.pixels - i, stride),
                                                 .count = 1});
}

/* What tap s of a row of them reads of channel c. */
static const float *line_of(const fewchannels_plan *plan, const float *slot, int64_t s, int64_t c) {
  const falt_axis *axis = &plan->layer.p.axis[2];
  if (plan->residue == 0) return slot + s * plan->slots.tap_step + c * plan->slots.channel_step;
  const int64_t at = s * axis->dilation;
  return slot + (c * axis->stride + at % axis->stride) * plan->residue + at / axis->stride;
}

/* Addresses of all rows of sums, line by line. */
static void list_rows(const task *t, const unit *u) {
  const fewchannels_plan *plan = t->plan;
  const falt_tensor *w = &t->layer->p.filter;
  const float *input = t->run->operands->input;
  float *residues = t->residues;
  for (int64_t line = 0; line < u->lines; line++) {
    const falt_slot_row row = {u->n, u->g, u->d, u->h + line, u->w, line};
    const float **list = t->list + line * plan->rows;
    for (int64_t i = 0; i < w->size[FALT_D]; i++)
      for (int64_t r = 0; r < w->size[FALT_H]; r++) {
        const float *slot = falt_slots_get(&plan->slots, &t->slots, t->layer, input, &row, i, r);
        if (plan->residue > 0) {
          part_slot(t, slot, residues);
          slot = residues;
          residues += t->layer->channels * t->layer->p.axis[2].stride * plan->residue;
        }
        for (int64_t s = 0; s < w->size[FALT_W]; s++)
          for (int64_t c = 0; c < t->layer->channels; c++) *list++ = line_of(plan, slot, s, c);
      }
  }
}

/* ---- output gradients in */

/* A panel's part of the unit, position by position. Columns beyond the channels stay zero. */
static void bring_panel(const task *t, const unit *u, int64_t first, int64_t width) {
  const falt_tensor *y = &t->layer->p.output;
  const int64_t channels = falt_min(width, t->layer->results - first);
  for (int64_t line = 0; line < u->lines; line++) {
    const float *from =
        (const float *)t->run->operands->output + falt_tensor_at(y, u->n, u->g, first, u->d, u->h + line, u->w);
    float *to = t->panel + line * u->count * width;
    if (channels < width) memset(to, 0, (size_t)(u->count * width) * sizeof *to);
    if (y->stride[FALT_W] == 1 && !falt_tensor_unit(y, FALT_C))
      t->plan->kernels->transpose(&(falt_transpose){.from = from,
                                                    .to = to,
                                                    .from_pitch = y->stride[FALT_C],
                                                    .to_pitch = width,
                                                    .n = channels,
                                                    .count = u->count});
    else
      t->layer->kernels->copy(&(falt_layer_copy){.from = from,
                                                 .step = channels == 1 ? 1 : y->stride[FALT_C],
                                                 .from_pitch = y->stride[FALT_W],
                                                 .to = to,
                                                 .to_pitch = width,
                                                 .n = channels,
                                                 .count = u->count});
  }
}

/* ---- sums */

/* A product whose depth is the unit's positions; `rows` of sums from addresses at `a`, line by line. */
static void multiply(const task *t, const unit *u, const float *const *a, int64_t a_pitch, int64_t skip, int64_t first,
                     int64_t width, float *sums, int64_t rows) {
  const fewchannels_plan *plan = t->plan;
  const falt_tensor *y = &t->layer->p.output;
  const float *there = (const float *)t->run->operands->output + falt_tensor_at(y, u->n, u->g, first, u->d, u->h, u->w);
  const falt_layer_pieces calls =
      falt_layer_cut(rows, falt_ceil_div(rows, t->layer->kernels->rows[width / t->layer->kernels->width]));
  for (int64_t i = 0; i < calls.count; i++) {
    const int64_t begin = falt_layer_piece(&calls, i), end = falt_layer_piece(&calls, i + 1);
    void *out[FALT_LAYER_ROWS];
    for (int64_t m = begin; m < end; m++) out[m - begin] = sums + m * plan->columns;
    t->layer->kernels->product(&(falt_layer_product){.a = (const void *const *)(a + begin),
                                                     .b = plan->in_place ? there : t->panel,
                                                     .out = out,
                                                     .a_pitch = a_pitch,
                                                     .segments = u->lines,
                                                     .depth = u->count,
                                                     .n = width,
                                                     .skip = skip,
                                                     .b_skip = plan->in_place ? y->stride[FALT_W] - width : 0,
                                                     .rows = (int)(end - begin),
                                                     .accumulate = t->accumulate});
  }
}

/* The same as dot products, by all output channels, some of which stay in the first-level cache for all rows. */
static void multiply_lines(const task *t, const unit *u, const float *const *a, int64_t a_pitch, float *lanes,
                           int64_t rows) {
  const fewchannels_plan *plan = t->plan;
  const falt_tensor *y = &t->layer->p.output;
  const float *dy = (const float *)t->run->operands->output + falt_tensor_at(y, u->n, u->g, 0, u->d, u->h, u->w);
  const falt_layer_pieces calls = falt_layer_cut(rows, falt_ceil_div(rows, plan->kernels->dot_rows));
  for (int64_t k = 0, columns; k < t->layer->results; k += columns) {
    columns = t->layer->results - k >= plan->kernels->dot_columns ? plan->kernels->dot_columns : 1;
    for (int64_t i = 0; i < calls.count; i++) {
      const int64_t row = falt_layer_piece(&calls, i);
      plan->kernels->dots(&(falt_dots){.a = a + row,
                                       .b = dy + k * y->stride[FALT_C],
                                       .out = lanes + (row * plan->columns + k) * t->layer->kernels->width,
                                       .a_pitch = a_pitch,
                                       .b_pitch = y->stride[FALT_C],
                                       .b_apart = y->stride[FALT_H],
                                       .pitch = plan->columns,
                                       .segments = u->lines,
                                       .depth = u->count,
                                       .rows = (int)(falt_layer_piece(&calls, i + 1) - row),
                                       .columns = (int)columns,
                                       .accumulate = t->accumulate});
    }
  }
}

static void add_unit(const task *t, const unit *u) {
  const fewchannels_plan *plan = t->plan;
  const float *ones[MOST_LINES];
  list_rows(t, u);
  for (int64_t line = 0; line < u->lines; line++) ones[line] = t->ones;
  if (plan->dots) {
    float *bias = t->lanes + plan->rows * plan->columns * t->layer->kernels->width;
    multiply_lines(t, u, t->list, plan->rows, t->lanes, plan->rows);
    if (plan->base.problem.has_bias) multiply_lines(t, u, ones, 1, bias, 1);
    return;
  }
  for (int64_t panel = 0; panel < plan->panels.count; panel++) {
    const int64_t vector = t->layer->kernels->width, first = falt_layer_piece(&plan->panels, panel) * vector;
    const int64_t width = falt_layer_piece(&plan->panels, panel + 1) * vector - first;
    float *sums = t->sums + first;
    if (!plan->in_place) bring_panel(t, u, first, width);
    multiply(t, u, t->list, plan->rows, plan->slots.position_step - 1, first, width, sums, plan->rows);
    if (plan->base.problem.has_bias) multiply(t, u, ones, 1, 0, first, width, sums + plan->rows * plan->columns, 1);
  }
}

static unit unit_at(const fewchannels_plan *plan, int64_t g, int64_t index) {
  const falt_tensor *y = &plan->layer.p.output;
  const int64_t band = index % plan->bands, rest = index / plan->bands, piece = rest % plan->pieces;
  const int64_t plane = rest / plan->pieces;
  unit u = {.n = plane / y->size[FALT_D], .g = g, .d = plane % y->size[FALT_D]};
  u.h = band * plan->lines;
  u.lines = falt_min(plan->lines, y->size[FALT_H] - u.h);
  u.w = piece * plan->across;
  u.count = falt_min(plan->across, y->size[FALT_W] - u.w);
  return u;
}

/* The sums of dot products. */
static void add_lanes(const task *t) {
  const int64_t width = t->layer->kernels->width;
  for (size_t i = 0; i < t->plan->sums; i++) {
    float sum = 0;
    for (int64_t l = 0; l < width; l++) sum += t->lanes[(int64_t)i * width + l];
    t->sums[i] = sum;
  }
}

/* One slice of a group. */
static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const fewchannels_plan *plan = run->plan;
  char *memory = scratch;
  const int64_t slice = index % plan->slices.count, group = index / plan->slices.count;
  task t = {.run = run, .plan = plan, .layer = &plan->layer};
  t.slots.slots = memory + plan->at.slots;
  t.slots.tags = (falt_slot_tag *)(void *)(memory + plan->at.tags);
  t.residues = (float *)(void *)(memory + plan->at.residues);
  t.list = (const float **)(void *)(memory + plan->at.list);
  t.panel = (float *)(void *)(memory + plan->at.panel);
  t.ones = (float *)(void *)(memory + plan->at.ones);
  t.lanes = (float *)(void *)(memory + plan->at.lanes);
  t.sums = run->partial + (size_t)index * plan->sums;
  falt_slots_open(&plan->slots, &t.slots);
  for (int64_t i = 0; i < plan->across; i++) t.ones[i] = 1;
  const int64_t end = falt_layer_piece(&plan->slices, slice + 1);
  for (int64_t i = falt_layer_piece(&plan->slices, slice); i < end && !falt_cancelled(); i++) {
    const unit u = unit_at(plan, group, i);
    add_unit(&t, &u);
    t.accumulate = true;
  }
  if (plan->dots) add_lanes(&t);
}

/* Adds the slices of a row of sums, and writes it where it belongs. */
static void join(void *context, int64_t index) {
  const execution *run = context;
  const fewchannels_plan *plan = run->plan;
  const falt_tensor *w = &plan->layer.p.filter;
  const int64_t height = plan->rows + plan->base.problem.has_bias, g = index / height, row = index % height;
  float *sums = run->partial + (size_t)(g * plan->slices.count) * plan->sums + row * plan->columns;
  for (int64_t slice = 1; slice < plan->slices.count; slice++)
    for (int64_t k = 0; k < plan->layer.results; k++) sums[k] += sums[(size_t)slice * plan->sums + (size_t)k];
  if (row == plan->rows) {
    memcpy((float *)run->operands->bias + g * plan->layer.results, sums, (size_t)plan->layer.results * sizeof *sums);
    return;
  }
  const int64_t c = row % plan->layer.channels, tap = row / plan->layer.channels, s = tap % w->size[FALT_W];
  const int64_t r = tap / w->size[FALT_W] % w->size[FALT_H], t = tap / w->size[FALT_W] / w->size[FALT_H];
  float *to = (float *)run->operands->filter + falt_tensor_at(w, 0, g, c, t, r, s);
  for (int64_t k = 0; k < plan->layer.results; k++) to[k * w->stride[FALT_K]] = sums[k];
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const fewchannels_plan *plan = (const fewchannels_plan *)base;
  const int64_t groups = plan->layer.p.filter.size[FALT_G];
  execution run = {plan, operands, (float *)(void *)((char *)operands->workspace + plan->partial)};
  const falt_row_job job = {run_task, &run, groups * plan->slices.count, plan->at.parts.total};
  falt_rows_run(base->device, &job, operands->workspace);
  falt_parallel_for(base->device->threads, groups * (plan->rows + base->problem.has_bias), join, &run);
}

static void print(const falt_plan *base, falt_text *text) {
  const fewchannels_plan *plan = (const fewchannels_plan *)base;
  falt_text_add(text, "(wgrad-fewchannels %s %lldx%lld%s unit=%lldx%lld slices=%lld threads=%d)",
                falt_isa_name(base->device->isa), (long long)plan->rows, (long long)plan->columns,
                plan->dots       ? " dots"
                : plan->in_place ? ""
                                 : " copied",
                (long long)plan->lines, (long long)plan->across, (long long)plan->slices.count,
                falt_threads_count(base->device->threads));
}

/* ---- applicable, in addition to the conditions of all layers */

static const char *refusal(const fewchannels_plan *plan) {
  int64_t rows, sums, slots, list;
  return !falt_mul(plan->layer.taps, plan->layer.channels, &rows) || !falt_mul(rows + 1, plan->columns, &sums) ||
                 sums > MOST_SUMS
             ? "a group's sums do not stay in a cache"
         : !falt_mul(plan->slots.size, plan->slots.count, &slots) || slots > MOST_SLOTS ||
                 !falt_mul(plan->lines, rows, &list) || list > MOST_SLOTS
             ? "the input rows of an output row do not fit into a cache"
             : NULL;
}

/* ---- estimate */

/* The multiply-adds that take as long as moving an element: in runs, transposed in squares, alone; as moving a row of
 * sums in and out of a block for each unit, by its elements; and as starting a call. In operations, an element of the
 * output that is cleared, summed and stored. */
static const double near = 3, transposed = 12, apart = 64, kept = 4, begun = 3200, leaving = 120;

static double estimate(const fewchannels_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->layer.p;
  const falt_tensor *y = &p->output;
  const double positions = (double)(plan->lines * plan->across), rows = (double)plan->rows;
  const double lanes = plan->dots
                           ? (double)falt_round_up(plan->across, plan->layer.kernels->width) / (double)plan->across
                           : (double)plan->columns / (double)plan->layer.results;
  const double panel = plan->in_place || plan->dots  ? 0
                       : falt_tensor_unit(y, FALT_C) ? near
                       : y->stride[FALT_W] == 1      ? transposed
                                                     : apart;
  const double block = (double)plan->layer.kernels->rows[falt_layer_most(&plan->panels)];
  const double width = (double)(falt_layer_most(&plan->panels) * plan->layer.kernels->width);
  const double read = (double)p->filter.size[FALT_D] * (double)p->axis[2].stride * (double)plan->layer.channels *
                      (double)(plan->slots.shared ? p->axis[1].stride : p->filter.size[FALT_H]);
  const double x = falt_tensor_unit(&p->input, FALT_C) || p->input.stride[FALT_W] == 1 ? near + 300 / positions : apart;
  const double stretch = lanes * (1 + kept / positions + begun / (falt_min(block, rows) * width * positions)) +
                         panel / rows + x * read / (rows * (double)plan->layer.results);
  return falt_roofline(device, FALT_F32,
                       falt_problem_flops(&plan->base.problem) * stretch *
                               falt_load_imbalance(device, p->filter.size[FALT_G] * plan->slices.count) +
                           leaving * (double)falt_tensor_count(&p->filter),
                       falt_layer_gradient_share(falt_layer_most(&plan->panels)),
                       falt_problem_bytes(&plan->base.problem)) +
         falt_loop_starts(device, 1);
}

/* ---- plan */

/* Whether positions are adjacent in both operands, and fill most lanes of vectors along a line. */
static bool takes_dots(const falt_layer *layer) {
  const falt_problem *p = &layer->p;
  const int64_t width = p->output.size[FALT_W], lanes = falt_round_up(width, layer->kernels->width);
  const bool planar = p->input.stride[FALT_W] == 1 && (layer->channels == 1 || p->input.stride[FALT_C] != 1);
  return layer->channels <= DOT_ROWS / layer->taps && layer->results <= MOST_LANES / DOT_ROWS && planar &&
         p->output.stride[FALT_W] == 1 && 4 * width >= 3 * lanes;
}

/* Units of some lines where rows of dy follow each other, and of pieces of a row where they are long. */
static void set_units(fewchannels_plan *plan) {
  const falt_tensor *y = &plan->layer.p.output;
  plan->dots = takes_dots(&plan->layer);
  const int64_t most = plan->dots ? DOT_POSITIONS : MOST_POSITIONS, stride = plan->layer.p.axis[2].stride;
  const bool whole = y->size[FALT_W] <= most;
  const bool follow = !plan->in_place || plan->dots || y->stride[FALT_H] == y->size[FALT_W] * y->stride[FALT_W];
  plan->pieces = falt_ceil_div(y->size[FALT_W], most);
  plan->across = falt_ceil_div(y->size[FALT_W], plan->pieces);
  plan->lines = whole && follow ? falt_min(falt_min(MOST_LINES, y->size[FALT_H]), most / plan->across) : 1;
  plan->slots = falt_slots_for(&plan->layer, plan->across, plan->lines, false);
  while (plan->lines > 1 && plan->slots.count > MOST_SLOTS / 2 / plan->slots.size)
    plan->slots = falt_slots_for(&plan->layer, plan->across, --plan->lines, false);
  plan->residue = plan->dots && stride > 1 ? falt_round_up(falt_ceil_div(plan->slots.pixels, stride), LINE) : 0;
  plan->bands = falt_ceil_div(y->size[FALT_H], plan->lines);
  plan->units = y->size[FALT_N] * y->size[FALT_D] * plan->pieces * plan->bands;
}

static void set_columns(fewchannels_plan *plan) {
  const falt_layer_kernels *kernels = plan->layer.kernels;
  const int64_t vectors = falt_ceil_div(plan->layer.results, kernels->width);
  plan->columns = vectors * kernels->width;
  plan->panels = falt_layer_cut(vectors, falt_ceil_div(vectors, kernels->vectors));
  plan->in_place = plan->layer.p.output.stride[FALT_C] == 1 && plan->layer.results == plan->columns;
}

/* Slices by the problem alone: the order of sums must not depend on threads. */
static void set_slices(fewchannels_plan *plan) {
  plan->rows = plan->layer.taps * plan->layer.channels;
  plan->sums = (size_t)((plan->rows + plan->base.problem.has_bias) * plan->columns);
  const int64_t groups = plan->layer.p.filter.size[FALT_G], room = MOST_PARTIAL / (int64_t)plan->sums;
  const int64_t most = falt_min(falt_min(MOST_SLICES, room) / groups, plan->units / UNITS_OF_A_SLICE);
  int64_t slices = 1;
  while (2 * slices <= most) slices *= 2; /* a number that most thread counts divide */
  plan->slices = falt_layer_cut(plan->units, slices);
}

/* Elements of all lines of residues. */
static int64_t residue_count(const fewchannels_plan *plan) {
  const int64_t *taps = plan->layer.p.filter.size;
  return plan->lines * taps[FALT_D] * taps[FALT_H] * plan->layer.channels * plan->layer.p.axis[2].stride *
         plan->residue;
}

static void lay_memory(fewchannels_plan *plan) {
  const size_t slots = (size_t)plan->slots.count;
  const size_t width = (size_t)(falt_layer_most(&plan->panels) * plan->layer.kernels->width);
  scratch_map *at = &plan->at;
  at->slots = falt_place_part(&at->parts, slots * (size_t)plan->slots.size * sizeof(float));
  at->tags = falt_place_part(&at->parts, slots * sizeof(falt_slot_tag));
  at->residues = falt_place_part(&at->parts, (size_t)residue_count(plan) * sizeof(float));
  at->list = falt_place_part(&at->parts, (size_t)(plan->lines * plan->rows) * sizeof(float *));
  at->panel = falt_place_part(
      &at->parts, plan->in_place || plan->dots ? 0 : (size_t)(plan->lines * plan->across) * width * sizeof(float));
  at->ones = falt_place_part(&at->parts, (size_t)plan->across * sizeof(float));
  at->lanes =
      falt_place_part(&at->parts, plan->dots ? plan->sums * (size_t)plan->layer.kernels->width * sizeof(float) : 0);
  falt_memory_layout *all = &plan->base.layout;
  falt_rows_place(all, plan->base.device, &at->parts);
  plan->partial = falt_place_part(
      all, (size_t)(plan->layer.p.filter.size[FALT_G] * plan->slices.count) * plan->sums * sizeof(float));
  plan->base.workspace = all->total;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  fewchannels_plan *plan = (fewchannels_plan *)base;
  const char *why = falt_layer_init_gradient(&plan->layer, ask->problem, ask->device->isa);
  if (why) return why;
  plan->kernels = falt_outer_kernels_for(ask->device->isa);
  set_columns(plan);
  set_units(plan);
  why = refusal(plan);
  if (why) return why;
  set_slices(plan);
  lay_memory(plan);
  base->cost.seconds = estimate(plan, ask->device);
  return NULL;
}

static const falt_plan_steps steps = {sizeof(fewchannels_plan), {execute, print, falt_plan_free, NULL}, NULL, choose};

extern const falt_solver falt_solver_wgrad_fewchannels;
const falt_solver falt_solver_wgrad_fewchannels = {
    .name = "wgrad-fewchannels", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps};
