/* Running the solver fft-wgrad: pairs of tiles of x and dy in, their products summed, the sums transformed back. */
#include <math.h>
#include <string.h>

#include "solver/cpu/fft/fft_wgrad.h"

typedef struct execution {
  const falt_fft_wgrad_plan *plan;
  const falt_operands *operands;
  char *workspace;
} execution;

/* The sums of one unit, or of one slice of its terms. */
typedef struct sums {
  char *spectrum, *direct;
  falt_fft_wgrad_about *about;
} sums;

/* A block of taps of one filter, and the worker's scratch. */
typedef struct unit {
  const execution *e;
  const falt_fft_wgrad_plan *plan;
  int64_t group, output;
  int64_t begin[3], count[3]; /* taps */
  char *planes, *row, *factors;
  sums to;
} unit;

/* A part of an image. */
typedef struct term {
  int64_t image;
  int64_t begin[3], count[3]; /* positions of dy */
  int64_t first[3], reach[3]; /* positions of x */
} term;

static int64_t element_of(const falt_fft_wgrad_plan *plan) {
  return (int64_t)plan->rows.lane_size;
}

static char *plane_of(const unit *u, int part) {
  return u->planes + part * u->plan->shape.plane * element_of(u->plan);
}

static int64_t plane_count(const falt_fft_wgrad_plan *plan) {
  return plan->shape.rows * plan->shape.pitch;
}

/* ---- units and terms */

static sums sums_at(const falt_fft_wgrad_plan *plan, char *memory) {
  return (sums){memory + plan->spectrum_at, memory + plan->direct_at,
                (falt_fft_wgrad_about *)(void *)(memory + plan->about_at)};
}

static sums slice_of(const execution *e, int64_t index) {
  const falt_fft_wgrad_plan *plan = e->plan;
  const int64_t pitch = falt_round_up((int64_t)plan->sums.total, FALT_ALIGN);
  return sums_at(plan, e->workspace + plan->sums_at + index * pitch);
}

static unit unit_of(const execution *e, int64_t index, char *scratch) {
  const falt_fft_wgrad_plan *plan = e->plan;
  unit u = {.e = e, .plan = plan};
  u.planes = scratch + plan->planes_at;
  u.row = scratch + plan->row_at;
  u.factors = scratch + plan->factors_at;
  for (int i = 2; i >= 0; i--) {
    const falt_fft_wgrad_cut *cut = &plan->tile.cut[i];
    u.begin[i] = index % cut->blocks * cut->block;
    u.count[i] = falt_min(cut->block, plan->rows.out[i] - u.begin[i]);
    index /= cut->blocks;
  }
  u.output = index % plan->outputs;
  u.group = index / plan->outputs;
  return u;
}

static term term_of(const unit *u, int64_t index) {
  const falt_rows *rows = &u->plan->rows;
  term t;
  for (int i = 2; i >= 0; i--) {
    const falt_fft_wgrad_cut *cut = &u->plan->tile.cut[i];
    const falt_axis *axis = &rows->axis[i];
    t.begin[i] = index % cut->parts * cut->part;
    t.count[i] = falt_min(cut->part, rows->taps[i] - t.begin[i]);
    t.first[i] = u->begin[i] * axis->stride + t.begin[i] * axis->dilation - axis->pad[0];
    t.reach[i] = cut->cyclic ? rows->in[i] : (u->count[i] - 1) * axis->stride + (t.count[i] - 1) * axis->dilation + 1;
    index /= cut->parts;
  }
  t.image = index;
  return t;
}

static int64_t slice_index(const unit *u, int64_t image) {
  return image * u->plan->rows.groups + u->group;
}

/* ---- tiles in */

static void load_input(const unit *u, const term *t, char *plane, void *seen) {
  const falt_fft_wgrad_plan *plan = u->plan;
  memset(plane, 0, (size_t)(plane_count(plan) * element_of(plan)));
  for (int64_t z = 0; z < t->reach[0]; z++)
    for (int64_t y = 0; y < t->reach[1] && !falt_cancelled(); y++) {
      char *to = plane + (z * plan->shape.size[1] + y) * plan->shape.pitch * element_of(plan);
      const void *source = falt_rows_source(&plan->rows, u->e->operands->input, slice_index(u, t->image),
                                            t->first[0] + z, t->first[1] + y);
      falt_rows_load(&plan->rows, source, t->first[2], 1, t->reach[2], to);
      plan->shape.lane->see(seen, to, t->reach[2]);
    }
}

static void spread_row(const falt_fft_wgrad_plan *plan, char *to, const char *row, int64_t count, int64_t step) {
  const int64_t size = element_of(plan);
  for (int64_t i = 0; i < count; i++) memcpy(to + i * step * size, row + i * size, (size_t)size);
}

static void load_output(const unit *u, const term *t, char *plane, void *seen) {
  const falt_fft_wgrad_plan *plan = u->plan;
  const falt_axis *axis = plan->rows.axis;
  const char *dy = (const char *)u->e->operands->output + u->output * plan->by_step * plan->by.in_size;
  memset(plane, 0, (size_t)(plane_count(plan) * element_of(plan)));
  for (int64_t z = 0; z < t->count[0]; z++)
    for (int64_t y = 0; y < t->count[1] && !falt_cancelled(); y++) {
      const int64_t row = z * axis[0].dilation * plan->shape.size[1] + y * axis[1].dilation;
      char *line = plane + row * plan->shape.pitch * element_of(plan);
      char *to = axis[2].dilation == 1 ? line : u->row;
      const void *source = falt_rows_source(&plan->by, dy, slice_index(u, t->image), t->begin[0] + z, t->begin[1] + y);
      falt_rows_load(&plan->by, source, t->begin[2], 1, t->count[2], to);
      plan->shape.lane->see(seen, to, t->count[2]);
      if (to != line) spread_row(plan, line, to, t->count[2], axis[2].dilation);
    }
}

typedef void (*load_plane)(const unit *u, const term *t, char *plane, void *seen);

static void clear_wrong(const falt_fft_wgrad_plan *plan, char *plane) {
  for (int64_t i = 0; i < plane_count(plan); i++)
    if (!isfinite(falt_fft_wgrad_get(plan->rows.lane, plane, i)))
      memset(plane + i * element_of(plan), 0, (size_t)element_of(plan));
}

/* A pair of tiles as one complex tile, zeros for what is not finite. Returns the largest magnitude. */
static double load_pair(const unit *u, const term *terms, int count, load_plane load, bool *wrong) {
  const falt_fft_wgrad_plan *plan = u->plan;
  const falt_fft_lane *lane = plan->shape.lane;
  _Alignas(FALT_ALIGN) char seen[FALT_ALIGN] = {0}, left[FALT_ALIGN] = {0};
  for (int i = 0; i < count; i++) load(u, &terms[i], plane_of(u, i), seen);
  if (count == 1) memset(plane_of(u, 1), 0, (size_t)(plane_count(plan) * element_of(plan)));
  if (isfinite(lane->largest(seen))) return lane->largest(seen);
  *wrong = true;
  for (int i = 0; i < count; i++) {
    clear_wrong(plan, plane_of(u, i));
    lane->see(left, plane_of(u, i), plane_count(plan));
  }
  return lane->largest(left);
}

/* ---- sums of products of spectra */

/* Exponents that are left to transforms: products of such numbers, and their sums, are normal numbers. */
static int near_one(const falt_fft_wgrad_plan *plan) {
  return plan->rows.lane == FALT_LANE_F32 ? 30 : 300;
}

static int exponent_of(const falt_fft_wgrad_plan *plan, double largest) {
  int exponent = 0;
  if (largest > 0) frexp(largest, &exponent);
  return exponent > near_one(plan) || exponent < -near_one(plan) ? exponent : 0;
}

static void scale_planes(const unit *u, int exponent) {
  for (int i = 0; i < 2 && exponent; i++)
    falt_fft_scale(&u->plan->shape, plane_of(u, i), plane_count(u->plan), exponent);
}

static int64_t spectrum_count(const falt_fft_wgrad_plan *plan) {
  return falt_fft_spectrum_count(&plan->shape);
}

/* Gives sums an exponent that is no smaller than another one. */
static void raise(const falt_fft_wgrad_plan *plan, sums *s, int exponent) {
  if (!s->about->summed) {
    memset(s->spectrum, 0, (size_t)(spectrum_count(plan) * element_of(plan)));
    s->about->exponent = exponent;
    s->about->summed = true;
  }
  if (exponent <= s->about->exponent) return;
  falt_fft_scale(&plan->shape, s->spectrum, spectrum_count(plan), s->about->exponent - exponent);
  s->about->exponent = exponent;
}

static double points_of(const falt_fft_wgrad_plan *plan) {
  const int64_t *size = plan->shape.size;
  return (double)size[0] * (double)size[1] * (double)size[2];
}

/* ---- products that are not finite */

static int64_t block_count(const falt_fft_wgrad_plan *plan) {
  const falt_fft_wgrad_cut *cut = plan->tile.cut;
  return cut[0].block * cut[1].block * cut[2].block;
}

static void begin_direct(const falt_fft_wgrad_plan *plan, sums *s) {
  if (!s->about->direct) memset(s->direct, 0, (size_t)(block_count(plan) * element_of(plan)));
  s->about->direct = true;
}

static void add_direct(unit *u, const term *t) {
  _Alignas(FALT_ALIGN) char seen[FALT_ALIGN] = {0};
  falt_fft_wgrad_direct d = {.rows = &u->plan->rows,
                             .cut = u->plan->tile.cut,
                             .shape = &u->plan->shape,
                             .x = plane_of(u, 0),
                             .dy = plane_of(u, 1),
                             .sums = u->to.direct};
  begin_direct(u->plan, &u->to);
  load_input(u, t, plane_of(u, 0), seen);
  load_output(u, t, plane_of(u, 1), seen);
  for (int i = 0; i < 3; i++) {
    d.in[i] = t->reach[i];
    d.out[i] = t->count[i];
    d.block[i] = u->count[i];
  }
  falt_fft_wgrad_direct_add(&d);
}

/* ---- a pair of terms */

static void add_spectra(unit *u, const term *terms, int count, bool *wrong) {
  const falt_fft_wgrad_plan *plan = u->plan;
  const double dy = load_pair(u, terms, count, load_output, wrong);
  const int of_dy = exponent_of(plan, dy);
  if (falt_cancelled()) return;
  scale_planes(u, -of_dy);
  if (dy > 0) falt_fft_spectrum(&plan->shape, u->planes, u->factors, 1 / points_of(plan));
  const double x = load_pair(u, terms, count, load_input, wrong);
  const int of_x = exponent_of(plan, x);
  if (falt_cancelled() || dy == 0 || x == 0) return;
  raise(plan, &u->to, of_x + of_dy);
  scale_planes(u, of_dy - u->to.about->exponent);
  falt_fft_correlate(&plan->shape, u->planes, u->factors, u->to.spectrum);
}

static void add_bias(unit *u, const term *t) {
  const falt_fft_wgrad_plan *plan = u->plan;
  _Alignas(FALT_ALIGN) char seen[FALT_ALIGN] = {0};
  if (!plan->base.problem.has_bias || u->begin[0] || u->begin[1] || u->begin[2]) return;
  load_output(u, t, plane_of(u, 0), seen);
  for (int64_t i = 0; i < plane_count(plan); i++)
    u->to.about->bias += falt_fft_wgrad_get(plan->rows.lane, plane_of(u, 0), i);
}

static void add_pair(unit *u, int64_t first) {
  term terms[2];
  int count = 0;
  bool wrong = false;
  for (int64_t i = first; i < u->plan->terms && count < 2; i++) terms[count++] = term_of(u, i);
  add_spectra(u, terms, count, &wrong);
  for (int i = 0; i < count; i++) add_bias(u, &terms[i]);
  for (int i = 0; i < count && wrong && !falt_cancelled(); i++) add_direct(u, &terms[i]);
}

/* ---- taps out */

/* A row of sums to the row of a worker's scratch, `step` places apart. */
static void gather_row(const unit *u, const char *from, int64_t step) {
  const int64_t size = element_of(u->plan), all = u->plan->shape.size[2];
  for (int64_t i = 0, at = 0; i < u->count[2]; i++, at = (at + step) % all)
    memcpy(u->row + i * size, from + at * size, (size_t)size);
}

static void store_row(const unit *u, int64_t t, int64_t r) {
  const falt_fft_wgrad_plan *plan = u->plan;
  const falt_rows *rows = &plan->rows;
  const falt_axis *axis = rows->axis;
  const int64_t z = t * axis[0].stride % plan->shape.size[0], y = r * axis[1].stride % plan->shape.size[1];
  gather_row(u, plane_of(u, 0) + (z * plan->shape.size[1] + y) * plan->shape.pitch * element_of(plan), axis[2].stride);
  const int64_t tap = (t * u->count[1] + r) * u->count[2];
  for (int64_t s = 0; u->to.about->direct && s < u->count[2]; s++)
    falt_fft_wgrad_add(plan->rows.lane, u->row, s, falt_fft_wgrad_get(plan->rows.lane, u->to.direct, tap + s));
  const int64_t slice = u->output * rows->groups + u->group;
  void *to = falt_rows_target(rows, u->e->operands->filter, slice, u->begin[0] + t, u->begin[1] + r, u->begin[2]);
  falt_rows_store(rows, to, u->row, u->count[2], false);
}

static void store_unit(const unit *u) {
  const falt_fft_wgrad_plan *plan = u->plan;
  const falt_problem *p = &plan->base.problem;
  if (u->to.about->summed) {
    falt_fft_inverse(&plan->shape, u->to.spectrum, u->planes);
    falt_fft_scale(&plan->shape, plane_of(u, 0), plane_count(plan), u->to.about->exponent);
  } else {
    memset(plane_of(u, 0), 0, (size_t)(plane_count(plan) * element_of(plan)));
  }
  for (int64_t t = 0; t < u->count[0]; t++)
    for (int64_t r = 0; r < u->count[1] && !falt_cancelled(); r++) store_row(u, t, r);
  if (p->has_bias && !u->begin[0] && !u->begin[1] && !u->begin[2])
    falt_store(u->e->operands->bias, falt_operand_tensor(p, FALT_BIAS).type, u->group * plan->outputs + u->output,
               u->to.about->bias);
}

/* ---- tasks */

static void add_elements(const falt_fft_wgrad_plan *plan, char *to, const char *from, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    falt_fft_wgrad_add(plan->rows.lane, to, i, falt_fft_wgrad_get(plan->rows.lane, from, i));
}

static void add_slice(unit *u, sums *from) {
  const falt_fft_wgrad_plan *plan = u->plan;
  u->to.about->bias += from->about->bias;
  if (from->about->direct) {
    begin_direct(plan, &u->to);
    add_elements(plan, u->to.direct, from->direct, block_count(plan));
  }
  if (!from->about->summed) return;
  raise(plan, &u->to, from->about->exponent);
  raise(plan, from, u->to.about->exponent);
  add_elements(plan, u->to.spectrum, from->spectrum, spectrum_count(plan));
}

static void run_task(void *context, int64_t task, void *scratch) {
  const execution *e = context;
  const falt_fft_wgrad_plan *plan = e->plan;
  const int64_t pairs = falt_ceil_div(plan->terms, 2), slice = task % plan->slices;
  unit u = unit_of(e, task / plan->slices, scratch);
  u.to = plan->slices > 1 ? slice_of(e, task) : sums_at(plan, (char *)scratch + plan->own_at);
  *u.to.about = (falt_fft_wgrad_about){0};
  for (int64_t i = pairs * slice / plan->slices; i < pairs * (slice + 1) / plan->slices && !falt_cancelled(); i++)
    add_pair(&u, 2 * i);
  if (plan->slices == 1) store_unit(&u);
}

/* Adds the slices of a unit in order. */
static void run_unit(void *context, int64_t index, void *scratch) {
  const execution *e = context;
  const int64_t slices = e->plan->slices;
  unit u = unit_of(e, index, scratch);
  u.to = slice_of(e, index * slices);
  for (int64_t i = 1; i < slices; i++) {
    sums from = slice_of(e, index * slices + i);
    add_slice(&u, &from);
  }
  store_unit(&u);
}

void falt_fft_wgrad_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_fft_wgrad_plan *plan = (const falt_fft_wgrad_plan *)base;
  execution e = {plan, operands, operands->workspace};
  falt_row_job job = {
      .run = run_task, .context = &e, .tasks = plan->units * plan->slices, .scratch = plan->scratch.total};
  falt_rows_run(base->device, &job, operands->workspace);
  job.run = run_unit;
  job.tasks = plan->slices > 1 ? plan->units : 0;
  falt_rows_run(base->device, &job, operands->workspace);
}
