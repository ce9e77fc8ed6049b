/* Execution of the solver fft: pairs of tiles are loaded, transformed and stored; tiles with NaN or infinity are
 * summed tap by tap. */
#include <math.h>
#include <string.h>

#include "solver/cpu/fft/fft.h"

typedef struct execution {
  const falt_fft_plan *plan;
  const falt_operands *operands;
  char *workspace;
  const char *taps, *spectra;
  const falt_fft_filter *about;
} execution;

/* Two boxes of outputs as the parts of one complex tile. */
typedef struct pair {
  const execution *e;
  int count;
  falt_row_task box[2];
  char *planes, *row; /* of the worker's scratch */
  const char *taps;
  falt_fft_filter about;
} pair;

static int64_t element_of(const falt_fft_plan *plan) {
  return (int64_t)plan->rows.lane_size;
}

static char *plane_of(const pair *p, int part) {
  return p->planes + part * p->e->plan->shape.plane * element_of(p->e->plan);
}

/* ---- filters */

static double tap_at(const falt_fft_plan *plan, const char *taps, int64_t i) {
  return plan->rows.lane == FALT_LANE_F32 ? (double)((const float *)(const void *)taps)[i]
                                          : ((const double *)(const void *)taps)[i];
}

falt_fft_filter falt_fft_filter_about(const falt_fft_plan *plan, const char *taps) {
  falt_fft_filter about = {0};
  double largest = 0;
  for (int64_t i = 0; i < plan->tap_count; i++) {
    const double size = fabs(tap_at(plan, taps, i));
    about.weight += size;
    largest = fmax(largest, size);
  }
  if (isfinite(about.weight)) frexp(largest, &about.exponent);
  return about;
}

static void add_tap(const falt_fft_plan *plan, char *at, double tap) {
  if (plan->rows.lane == FALT_LANE_F32)
    *(float *)(void *)at += (float)tap;
  else
    *(double *)(void *)at += tap;
}

/* Where a tap stands on an axis of the tile: backwards, because results sum what follows them. */
static int64_t tap_place(const falt_fft_plan *plan, int i, int64_t tap) {
  const int64_t size = plan->shape.size[i], step = plan->rows.axis[i].dilation * (i == 2 ? plan->rows.pixel : 1);
  return tap == 0 ? 0 : (size - tap % size * (step % size) % size) % size;
}

/* Row of a tile where the taps (t, r) stand, for plane and row of the axes that are not transformed. */
static int64_t tap_row(const falt_fft_plan *plan, int64_t t, int64_t r, int64_t plane, int64_t row) {
  const falt_fft_cut *cut = plan->tile.cut;
  const int64_t z = cut[0].transformed ? tap_place(plan, 0, t) : plane;
  return z * cut[1].size + (cut[1].transformed ? tap_place(plan, 1, r) : row);
}

/* Two factors of a power of two, which together may be beyond the range of doubles. */
typedef struct power {
  double half, rest;
} power;

static power power_of(int exponent) {
  return (power){ldexp(1, exponent / 2), ldexp(1, exponent - exponent / 2)};
}

/* Adds a row of taps to a line of the tile. Neighbouring taps stand a constant number of places apart. */
static void add_row(const falt_fft_plan *plan, char *line, const char *taps, int64_t first, power scale) {
  const int64_t size = plan->shape.size[2], back = (size - tap_place(plan, 2, 1)) % size;
  int64_t place = 0;
  for (int64_t s = 0; s < plan->rows.taps[2]; s++) {
    add_tap(plan, line + place * element_of(plan), tap_at(plan, taps, first + s) * scale.half * scale.rest);
    place -= back;
    if (place < 0) place += size;
  }
}

static void place_taps(const falt_fft_plan *plan, const char *taps, char *tile, int64_t plane, int64_t row,
                       int exponent) {
  const falt_rows *rows = &plan->rows;
  const power scale = power_of(-exponent);
  int64_t at = 0;
  for (int64_t t = 0; t < rows->taps[0]; t++)
    for (int64_t r = 0; r < rows->taps[1]; r++) {
      char *line = tile + tap_row(plan, t, r, plane, row) * plan->shape.pitch * element_of(plan);
      add_row(plan, line, taps, at, scale);
      at += rows->taps[2];
    }
}

void falt_fft_filter_make(const falt_fft_plan *plan, const char *taps, int exponent, void *tile, void *spectrum) {
  const falt_fft_cut *cut = plan->tile.cut;
  double points = 1;
  memset(tile, 0, 2 * (size_t)plan->shape.plane * plan->rows.lane_size);
  for (int i = 0; i < 3; i++) points *= cut[i].transformed ? (double)cut[i].size : 1;
  /* rows that share the spectrum of one axis are all rows, those behind the tile's among them */
  const bool shared = !cut[0].transformed && !cut[1].transformed;
  const int64_t planes = cut[0].transformed || shared ? 1 : cut[0].size;
  const int64_t lines = cut[1].transformed ? 1 : shared ? plan->shape.rows : cut[1].size;
  for (int64_t z = 0; z < planes; z++)
    for (int64_t y = 0; y < lines; y++) place_taps(plan, taps, tile, z, y, exponent);
  falt_fft_spectrum(&plan->shape, tile, spectrum, 1 / points);
}

/* ---- tiles in */

/* Rows of a tile that hold input along an axis, and the position of the first; x in positions. */
static int64_t rows_of(const falt_fft_plan *plan, const falt_row_task *box, int i, int64_t *first) {
  const falt_fft_cut *cut = &plan->tile.cut[i];
  int64_t count;
  falt_rows_reach(&plan->rows, i, box->begin[i], box->end[i], first, &count);
  return cut->cyclic ? plan->rows.in[i] : cut->transformed ? count : box->end[i] - box->begin[i];
}

/* Position of a row of a tile on an axis whose first row has position `first`. */
static int64_t position_of(const falt_fft_plan *plan, int i, int64_t first, int64_t row) {
  return first + row * (plan->tile.cut[i].transformed ? 1 : plan->rows.axis[i].stride);
}

/* Where the rows of a box come from. */
typedef struct reading {
  const pair *p;
  const falt_row_task *box;
  int64_t first[3], count[3];
} reading;

static const void *source_of(const reading *r, int64_t z, int64_t y) {
  const falt_fft_plan *plan = r->p->e->plan;
  return falt_rows_source(&plan->rows, r->p->e->operands->input, r->box->slice, position_of(plan, 0, r->first[0], z),
                          position_of(plan, 1, r->first[1], y));
}

/* Brings the inside of a row that is read soon nearer. */
static void prefetch_row(const reading *r, int64_t z, int64_t y) {
  const falt_rows *rows = &r->p->e->plan->rows;
  const int64_t size = rows->pixel * rows->in_size, begin = falt_max(r->first[2], 0);
  const int64_t end = falt_min(r->first[2] + r->count[2], rows->in[2]);
  const char *source = rows->in_stride[4] == rows->pixel ? source_of(r, z, y) : NULL;
  for (int64_t at = begin * size; source && at < end * size; at += 64) __builtin_prefetch(source + at);
}

/* The tile of a box into a plane, zeros where nothing is read. Notes how large its numbers are. */
static void load_box(const pair *p, const falt_row_task *box, char *plane, void *seen) {
  enum { AHEAD = 4 };
  const falt_fft_plan *plan = p->e->plan;
  const falt_rows *rows = &plan->rows;
  const int64_t size = element_of(plan), width = plan->shape.size[2];
  reading r = {.p = p, .box = box};
  for (int i = 0; i < 3; i++) r.count[i] = rows_of(plan, box, i, &r.first[i]);
  const int64_t used = r.count[2] * rows->pixel;
  for (int64_t row = 0; row < plan->shape.rows && !falt_cancelled(); row++) {
    const int64_t z = row / plan->shape.size[1], y = row % plan->shape.size[1];
    char *to = plane + row * plan->shape.pitch * size;
    const bool reads = z < r.count[0] && y < r.count[1];
    if (reads) {
      if (y + AHEAD < r.count[1]) prefetch_row(&r, z, y + AHEAD);
      falt_rows_load(rows, source_of(&r, z, y), r.first[2], 1, r.count[2], to);
      plan->shape.lane->see(seen, to, used);
    }
    const int64_t done = reads ? used : 0;
    memset(to + done * size, 0, (size_t)((width - done) * size));
  }
}

/* ---- tiles out */

/* Sums of one row of outputs, `apart` elements of the row for each position. */
static void store_row(const pair *p, const falt_rows *rows, const falt_row_task *box, int64_t z, int64_t y,
                      char *sums) {
  const int64_t count = box->end[2] - box->begin[2], stride = rows->axis[2].stride;
  if (stride > 1) {
    rows->kernels->load[rows->lane][falt_lane_type(rows->lane)](p->row, sums, stride, count);
    sums = p->row;
  }
  falt_rows_store(rows, falt_rows_target(rows, p->e->operands->output, box->slice, z, y, box->begin[2]), sums, count,
                  p->e->plan->stream);
}

static int64_t out_row(const falt_fft_plan *plan, int i, int64_t o) {
  return o * (plan->tile.cut[i].transformed ? plan->rows.axis[i].stride : 1);
}

/* One element of a layer's scale or bias. */
static double factor_at(const falt_fft_plan *plan, const void *factors, int64_t group) {
  return falt_load(factors, plan->problem.output.type == FALT_F64 ? FALT_F64 : FALT_F32, group);
}

/* The problem's rows with the epilogue of a box's group, for sums that are to be multiplied by `back`. */
static falt_rows rows_out(const pair *p, const falt_row_task *box, double back) {
  const falt_fft_plan *plan = p->e->plan;
  const falt_problem *problem = &plan->problem;
  falt_rows rows = plan->rows;
  const int64_t group = box->slice % rows.groups;
  rows.epilogue.alpha *= back * (problem->has_scale ? factor_at(plan, p->e->operands->scale, group) : 1);
  rows.epilogue.beta += problem->has_bias ? factor_at(plan, p->e->operands->bias, group) : 0;
  return rows;
}

/* A plane's results, which are to be multiplied by `back`, a power of two. */
static void store_box(const pair *p, const falt_row_task *box, char *plane, double back) {
  const falt_fft_plan *plan = p->e->plan;
  const int64_t width = ((box->end[2] - box->begin[2] - 1) * plan->rows.axis[2].stride + 1) * plan->rows.pixel;
  const falt_rows rows = rows_out(p, box, plan->exact ? 1 : back);
  for (int64_t z = box->begin[0]; z < box->end[0]; z++)
    for (int64_t y = box->begin[1]; y < box->end[1]; y++) {
      const int64_t row =
          out_row(plan, 0, z - box->begin[0]) * plan->shape.size[1] + out_row(plan, 1, y - box->begin[1]);
      char *sums = plane + row * plan->shape.pitch * element_of(plan);
      if (plan->exact) plan->shape.lane->whole(sums, width, back);
      store_row(p, &rows, box, z, y, sums);
    }
}

/* ---- sums, where a transform would spread what is not finite */

/* Adds what one row of taps gives to a row of sums: its taps in parts, as many as fit into the planes with the
 * positions that they read. */
static void sum_row(const pair *p, const falt_row_task *box, const void *source, const char *taps, bool first_row) {
  const falt_fft_plan *plan = p->e->plan;
  const falt_rows *rows = &plan->rows;
  const falt_axis *axis = &rows->axis[2];
  const int64_t span = (box->end[2] - box->begin[2] - 1) * axis->stride + 1, size = element_of(plan);
  const int64_t most = ((2 * plan->shape.plane - plan->shape.size[2]) / rows->pixel - span) / axis->dilation + 1;
  char *out = plane_of(p, 0), *in = out + plan->shape.size[2] * size;
  for (int64_t s = 0; s < rows->taps[2] && !falt_cancelled(); s += most) {
    const int64_t count = falt_min(most, rows->taps[2] - s);
    const int64_t first = box->begin[2] * axis->stride - axis->pad[0] + s * axis->dilation;
    falt_rows_load(rows, source, first, 1, span + (count - 1) * axis->dilation, in);
    const void *const list[] = {in};
    void *const sums[] = {out};
    const falt_filter_rows call = {.rows = list,
                                   .taps = taps + s * size,
                                   .out = sums,
                                   .n = span * rows->pixel,
                                   .planes = 1,
                                   .r = 1,
                                   .s = (int)count,
                                   .step = axis->dilation * rows->pixel,
                                   .accumulate = s > 0 || !first_row,
                                   .count = 1};
    rows->kernels->single[rows->lane](&call);
  }
}

static void sum_box(const pair *p, const falt_row_task *box) {
  const falt_fft_plan *plan = p->e->plan;
  const falt_rows *rows = &plan->rows;
  const falt_rows out = rows_out(p, box, 1);
  const falt_axis *axis = rows->axis;
  for (int64_t z = box->begin[0]; z < box->end[0]; z++)
    for (int64_t y = box->begin[1]; y < box->end[1] && !falt_cancelled(); y++) {
      const char *taps = p->taps;
      for (int64_t t = 0; t < rows->taps[0]; t++)
        for (int64_t r = 0; r < rows->taps[1]; r++, taps += rows->taps[2] * element_of(plan)) {
          const void *source = falt_rows_source(rows, p->e->operands->input, box->slice,
                                                z * axis[0].stride - axis[0].pad[0] + t * axis[0].dilation,
                                                y * axis[1].stride - axis[1].pad[0] + r * axis[1].dilation);
          sum_row(p, box, source, taps, t == 0 && r == 0);
        }
      store_row(p, &out, box, z, y, plane_of(p, 0));
    }
}

/* ---- a pair */

/* Whether no sum of magnitudes leaves the lane's range. */
static bool stays_finite(const pair *p, double largest) {
  const double limit = p->e->plan->rows.lane == FALT_LANE_F32 ? 0x1p126 : 0x1p1022;
  return largest <= limit && p->about.weight <= limit && largest * p->about.weight < limit;
}

/* Exponents that are left to the epilogue, and to transforms. */
static int near_one(const falt_fft_plan *plan) {
  return plan->rows.lane == FALT_LANE_F32 ? 60 : 500;
}

/* The exponent of the power of two by which tiles are multiplied whose numbers are far from 1, so that products stay
 * normal numbers. */
static int exponent_of(const falt_fft_plan *plan, double largest) {
  int exponent = 0;
  if (largest > 0) frexp(largest, &exponent);
  return exponent > near_one(plan) || exponent < -near_one(plan) ? -exponent : 0;
}

/* Multiplies the planes by so many powers of two, in steps that are normal numbers. */
static void scale_planes(const pair *p, int exponent) {
  const falt_fft_plan *plan = p->e->plan;
  const int most = near_one(plan);
  while (exponent) {
    const int step = exponent > most ? most : exponent < -most ? -most : exponent;
    for (int i = 0; i < p->count; i++)
      plan->shape.lane->scale(plane_of(p, i), plan->shape.rows * plan->shape.pitch, ldexp(1, step));
    exponent -= step;
  }
}

static void run_pair(const pair *p, const char *spectrum) {
  const falt_fft_plan *plan = p->e->plan;
  const int64_t plane = plan->shape.rows * plan->shape.pitch;
  _Alignas(FALT_ALIGN) char seen[FALT_ALIGN] = {0};
  for (int i = 0; i < p->count; i++) load_box(p, &p->box[i], plane_of(p, i), seen);
  const double largest = plan->shape.lane->largest(seen);
  if (falt_cancelled()) return;
  if (!stays_finite(p, largest)) {
    for (int i = 0; i < p->count; i++) sum_box(p, &p->box[i]);
    return;
  }
  if (p->count == 1) memset(plane_of(p, 1), 0, (size_t)(plane * element_of(plan)));
  const int exponent = exponent_of(plan, largest);
  scale_planes(p, exponent);
  falt_fft_convolve(&plan->shape, p->planes, spectrum);
  int back = p->about.exponent - exponent;
  if (back > near_one(plan) || back < -near_one(plan)) {
    scale_planes(p, back);
    back = 0;
  }
  for (int i = 0; i < p->count && !falt_cancelled(); i++) store_box(p, &p->box[i], plane_of(p, i), ldexp(1, back));
}

/* Boxes of one filter: those of all slices that it serves. */
static int64_t boxes_of(const falt_fft_plan *plan) {
  return falt_rows_task_count(&plan->rows, plan->block) / plan->filters;
}

/* The i-th box of a filter: groups lie inside the batch. */
static falt_row_task box_of(const falt_fft_plan *plan, int64_t filter, int64_t i) {
  const int64_t slices = plan->rows.batch * plan->rows.groups / plan->filters, each = boxes_of(plan) / slices;
  const int64_t slice = plan->filters == 1 ? i / each : i / each * plan->rows.groups + filter;
  return falt_rows_task(&plan->rows, plan->block, slice * each + i % each);
}

static void run_boxes(const execution *e, int64_t filter, int64_t first, char *scratch, const char *spectrum) {
  const falt_fft_plan *plan = e->plan;
  pair p = {.e = e, .planes = scratch + plan->planes_at, .row = scratch + plan->row_at, .about = e->about[filter]};
  p.taps = e->taps + filter * plan->tap_count * element_of(plan);
  for (int64_t i = first; i < boxes_of(plan) && p.count < 2; i++) p.box[p.count++] = box_of(plan, filter, i);
  run_pair(&p, spectrum);
}

static size_t spectrum_bytes(const falt_fft_plan *plan) {
  return (size_t)falt_fft_spectrum_count(&plan->shape) * plan->rows.lane_size;
}

/* A pair of tiles; or all of a filter, with its spectrum. */
static void run_task(void *context, int64_t task, void *scratch) {
  const execution *e = context;
  const falt_fft_plan *plan = e->plan;
  const int64_t boxes = boxes_of(plan), pairs = falt_ceil_div(boxes, 2);
  if (!plan->each) {
    const char *spectrum = e->spectra + (size_t)(task / pairs) * spectrum_bytes(plan);
    run_boxes(e, task / pairs, 2 * (task % pairs), scratch, spectrum);
    return;
  }
  char *spectrum = (char *)scratch + plan->spectrum_at;
  const char *taps = e->taps + task * plan->tap_count * element_of(plan);
  falt_fft_filter_make(plan, taps, e->about[task].exponent, (char *)scratch + plan->planes_at, spectrum);
  for (int64_t i = 0; i < boxes && !falt_cancelled(); i += 2) run_boxes(e, task, i, scratch, spectrum);
}

/* ---- filters that come with the execution */

static void make_filter(void *context, int64_t filter, void *scratch) {
  const execution *e = context;
  const falt_fft_plan *plan = e->plan;
  char *taps = e->workspace + plan->taps_at + filter * plan->tap_count * element_of(plan);
  falt_fft_filter *about = (falt_fft_filter *)(void *)(e->workspace + plan->about_at);
  falt_problem_taps(&plan->problem, e->operands->filter, filter, falt_lane_type(plan->rows.lane), taps);
  about[filter] = falt_fft_filter_about(plan, taps);
  if (!plan->each)
    falt_fft_filter_make(plan, taps, about[filter].exponent, (char *)scratch + plan->planes_at,
                         e->workspace + plan->spectra_at + (size_t)filter * spectrum_bytes(plan));
}

static void make_filters(execution *e) {
  const falt_fft_plan *plan = e->plan;
  const falt_row_job job = {make_filter, e, plan->filters, plan->scratch.total};
  falt_rows_run(plan->base.device, &job, e->workspace);
  e->taps = e->workspace + plan->taps_at;
  e->spectra = e->workspace + plan->spectra_at;
  e->about = (const falt_fft_filter *)(const void *)(e->workspace + plan->about_at);
}

void falt_fft_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_fft_plan *plan = (const falt_fft_plan *)base;
  execution e = {plan, operands, operands->workspace, plan->taps, plan->spectra, plan->about};
  if (!plan->taps) make_filters(&e);
  const falt_row_job job = {.run = run_task,
                            .context = &e,
                            .tasks = plan->filters * (plan->each ? 1 : falt_ceil_div(boxes_of(plan), 2)),
                            .scratch = plan->scratch.total};
  falt_rows_run(base->device, &job, operands->workspace);
}
