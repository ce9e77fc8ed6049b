/* Solver upconvert-f32: layers of narrow types on CPUs. Upconverts a piece of the operands to f32 in a private cache,
 * runs an f32 child plan on it, and converts the output back. */

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "planner/backend.h"
#include "solver/common/tasks.h"
#include "solver/common/upconverted.h"
#include "solver/rewrite/row_bands.h"

/* f32 represents every f16, bf16 and integer of up to 16 bits, so sums are f32 sums, and integer sums below 2^24 are
 * exact. A piece is a few images of the batch or a band of rows whose f32 operands fill a quarter of a private cache.
 * So memory moves narrow elements only. The planner plans the piece; for deterministic problems its choice does not
 * depend on the number of threads. Each thread takes whole pieces, or all threads work on one piece at a time.
 *
 * Wgrad sums the pieces in order in f32 and converts once. Dgrad is cut into images only, because the output rows of
 * bands overlap. */

/* First, middle and last bands, and the rest of a batch; problems with more kinds are not cut. */
enum { MOST_KINDS = 8 };
enum { MOST_ROOMS = 8 /* that a row of outputs may fill */ };
enum { INPUT, OUTPUT, RESIDUAL, OPERANDS };

/* Pieces that are the same problem, from band `from` on; the last may be of fewer images instead. */
typedef struct piece_kind {
  int64_t from;
  falt_problem part;  /* as the operands are */
  falt_problem inner; /* in f32 */
  falt_plan *child;
} piece_kind;

typedef struct upconvert_plan {
  falt_plan base;
  falt_row_bands bands;
  int64_t images; /* of a piece; 1 where images are cut */
  int kinds;
  piece_kind kind[MOST_KINDS];
  bool spread;        /* pieces go to threads; else each piece has all threads */
  falt_tensor filter; /* in f32 */
  size_t filter_bytes;
  float *values; /* its elements if they are known, until all children have packed them */
  /* in a worker's scratch, after the child's workspace: operands; a piece's sums of wgrad */
  size_t operand[OPERANDS], share, bias_share;
  falt_memory_layout scratch;
  size_t wide; /* in the workspace: the filter in f32, given or being summed */
} upconvert_plan;

/* ---- operands */

static const falt_tensor *tensor_of(const falt_problem *p, int operand) {
  return operand == INPUT ? &p->input : operand == OUTPUT ? &p->output : &p->residual;
}

static bool is_used(const falt_problem *p, int operand) {
  return operand != RESIDUAL || p->has_residual;
}

static bool is_written(const falt_problem *p, int operand) {
  return (p->operation == FALT_FORWARD && operand == OUTPUT) ||
         (p->operation == FALT_BACKWARD_DATA && operand == INPUT);
}

static bool sums_pieces(const falt_problem *p) {
  return p->operation == FALT_BACKWARD_FILTER;
}

/* Whether the child works on the caller's memory. */
static bool is_wide(const piece_kind *kind, int operand) {
  return !is_used(&kind->part, operand) || tensor_of(&kind->part, operand)->type == FALT_F32;
}

/* ---- execute */

typedef struct run {
  const upconvert_plan *plan;
  const falt_operands *operands;
  float *filter; /* in f32: read, or written by the first piece */
} run;

static int64_t piece_count(const upconvert_plan *plan) {
  return falt_ceil_div(plan->base.problem.input.size[FALT_N], plan->images) * plan->bands.count;
}

static const piece_kind *kind_of(const upconvert_plan *plan, int64_t index) {
  const piece_kind *kind = &plan->kind[plan->kinds - 1];
  if (plan->base.problem.input.size[FALT_N] % plan->images != 0)
    return &plan->kind[index == piece_count(plan) - 1]; /* images are not cut then */
  while (kind->from > index % plan->bands.count) kind--;
  return kind;
}

/* Which most pieces are of: the last may be of fewer rows or images, and the first and last end where the rest go on.
 */
static const piece_kind *usual_kind(const upconvert_plan *plan) {
  return kind_of(plan, (plan->bands.count - 1) / 2);
}

/* Where the caller's operands have the piece. */
static void find_piece(const upconvert_plan *plan, const falt_operands *operands, int64_t index,
                       void *place[OPERANDS]) {
  const falt_problem *p = &plan->base.problem;
  const falt_row_bands *bands = &plan->bands;
  const int64_t n = index / bands->count * plan->images, begin = index % bands->count * bands->rows;
  place[INPUT] = falt_row_band_at(bands, operands->input, &p->input, n, falt_row_band_first(bands, p, begin));
  place[OUTPUT] = falt_row_band_at(bands, operands->output, &p->output, n, begin);
  place[RESIDUAL] = p->has_residual ? falt_row_band_at(bands, operands->residual, &p->residual, n, begin) : NULL;
}

/* Pieces one after the other, each with all threads: piece i's part of the progress. */
static falt_progress_range enter_piece(const upconvert_plan *plan, int64_t i) {
  const double count = (double)piece_count(plan);
  return falt_progress_enter((double)i / count, (double)(i + 1) / count);
}

/* Upconverts the piece's inputs, runs its child, converts its output back. */
static void run_piece(const run *r, int64_t index, char *scratch, void *filter, void *bias) {
  const upconvert_plan *plan = r->plan;
  const piece_kind *kind = kind_of(plan, index);
  const falt_problem *part = &kind->part, *inner = &kind->inner;
  const falt_backend *backend = falt_backend_of(plan->base.device);
  void *there[OPERANDS], *here[OPERANDS];
  find_piece(plan, r->operands, index, there);
  for (int i = 0; i < OPERANDS; i++) {
    here[i] = is_wide(kind, i) ? there[i] : scratch + plan->operand[i];
    if (!is_wide(kind, i) && !is_written(part, i))
      backend->convert(plan->base.device, tensor_of(part, i), there[i], tensor_of(inner, i), here[i]);
  }
  const falt_operands operands = {.input = here[INPUT],
                                  .filter = filter,
                                  .output = here[OUTPUT],
                                  .bias = bias,
                                  .scale = r->operands->scale,
                                  .residual = here[RESIDUAL],
                                  .workspace = scratch};
  falt_plan_run_shared(kind->child, &operands);
  for (int i = 0; i < OPERANDS; i++)
    if (!is_wide(kind, i) && is_written(part, i))
      backend->convert(plan->base.device, tensor_of(inner, i), here[i], tensor_of(part, i), there[i]);
}

static void run_task(void *context, int64_t index, void *scratch) {
  const run *r = context;
  run_piece(r, index, scratch, r->filter, r->operands->bias);
}

typedef struct addition {
  float *sums;
  const float *terms;
  int64_t n;
} addition;

enum { ADDED = 4096 };

static void add_some(void *context, int64_t index) {
  const addition *a = context;
  const int64_t end = falt_min((index + 1) * ADDED, a->n);
  for (int64_t i = index * ADDED; i < end; i++) a->sums[i] += a->terms[i];
}

static void add(const falt_device *device, addition a) {
  falt_parallel_for(device->threads, falt_ceil_div(a.n, ADDED), add_some, &a);
}

/* The first piece initializes the sums. */
static void sum_pieces(const run *r, char *scratch) {
  const upconvert_plan *plan = r->plan;
  const falt_problem *p = &plan->base.problem;
  float *share = (float *)(void *)(scratch + plan->share), *bias = (float *)(void *)(scratch + plan->bias_share);
  const falt_progress_range whole = enter_piece(plan, 0);
  run_piece(r, 0, scratch, r->filter, r->operands->bias);
  falt_progress_leave(whole);
  for (int64_t i = 1; i < piece_count(plan) && !falt_cancelled(); i++) {
    const falt_progress_range all = enter_piece(plan, i);
    run_piece(r, i, scratch, share, bias);
    add(plan->base.device, (addition){r->filter, share, (int64_t)(plan->filter_bytes / sizeof(float))});
    if (p->has_bias)
      add(plan->base.device, (addition){r->operands->bias, bias, p->output.size[FALT_G] * p->output.size[FALT_C]});
    falt_progress_leave(all);
  }
  falt_backend_of(plan->base.device)
      ->convert(plan->base.device, &plan->filter, r->filter, &p->filter, r->operands->filter);
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const upconvert_plan *plan = (const upconvert_plan *)base;
  const falt_problem *p = &base->problem;
  char *workspace = operands->workspace;
  run r = {plan, operands, plan->values};
  if (!plan->values && p->filter.type == FALT_F32 && !sums_pieces(p)) r.filter = operands->filter;
  if (!r.filter && workspace) r.filter = (float *)(void *)(workspace + plan->wide);
  if (sums_pieces(p)) {
    sum_pieces(&r, workspace);
    return;
  }
  if (!base->packed && p->filter.type != FALT_F32)
    falt_backend_of(base->device)->convert(base->device, &p->filter, operands->filter, &plan->filter, r.filter);
  if (plan->spread)
    falt_rows_run(base->device, &(falt_row_job){run_task, &r, piece_count(plan), plan->scratch.total}, workspace);
  else
    for (int64_t i = 0; i < piece_count(plan) && !falt_cancelled(); i++) {
      const falt_progress_range all = enter_piece(plan, i);
      run_task(&r, i, workspace);
      falt_progress_leave(all);
    }
}

static void print(const falt_plan *base, falt_text *text) {
  const upconvert_plan *plan = (const upconvert_plan *)base;
  const piece_kind *kind = usual_kind(plan);
  falt_text_add(text, "(upconvert-f32 images=%lld rows=%lld ", (long long)plan->images, (long long)plan->bands.rows);
  kind->child->table->print(kind->child, text);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  upconvert_plan *plan = (upconvert_plan *)base;
  for (int i = 0; i < plan->kinds; i++) falt_plan_destroy(&plan->kind[i].child);
  falt_free(plan->values);
  falt_free(plan);
}

static falt_status ready(falt_plan *base) {
  upconvert_plan *plan = (upconvert_plan *)base;
  bool packed = true;
  for (int i = 0; i < plan->kinds; i++) {
    FALT_TRY(falt_plan_ready(plan->kind[i].child));
    packed = packed && plan->kind[i].child->packed;
  }
  if (packed) falt_free(plan->values);
  if (packed) plan->values = NULL;
  return FALT_OK;
}

/* ---- applicable */

static const char *refusal(const falt_problem *p) {
  return falt_is_pooling(p->operation) ? "only layers"
         : p->is_filter                ? "filter solvers read every type directly"
         : falt_tensors_are_f32(p)     ? "all its operands are f32"
                                       : falt_upconvert_refusal(p);
}

/* ---- plan: pieces */

/* The part of a band, and the same in f32; false if it is not legal or too large. */
static bool fill_kind(const upconvert_plan *plan, const falt_row_bands *bands, int64_t images, int64_t band,
                      piece_kind *kind, size_t bytes[OPERANDS]) {
  falt_tensor *const tensors[] = {&kind->inner.input, &kind->inner.output, &kind->inner.residual};
  if (falt_row_band(bands, &plan->base.problem, images, band, &kind->part) != FALT_OK) return false;
  kind->inner = kind->part;
  kind->inner.accumulator = FALT_F32;
  kind->inner.filter = plan->filter;
  for (int i = 0; i < OPERANDS; i++) {
    falt_tensor *const t = tensors[i], wide;
    bytes[i] = 0;
    if (!is_used(&kind->part, i)) continue;
    if (!falt_upconvert_shape(&wide, t, &bytes[i])) return false;
    if (t->type != FALT_F32) *t = wide;
  }
  falt_problem_canonical(&kind->inner);
  return true;
}

/* Bytes of a piece in f32; infinite if it is none. */
static double piece_bytes(const upconvert_plan *plan, int axis, int64_t images, int64_t rows) {
  const falt_row_bands bands = falt_row_bands_cut(&plan->base.problem, axis, rows);
  piece_kind kind;
  size_t bytes[OPERANDS];
  if (!fill_kind(plan, &bands, images, bands.count / 2, &kind, bytes)) return INFINITY;
  return (double)bytes[INPUT] + (double)bytes[OUTPUT] + (double)bytes[RESIDUAL];
}

/* The most rows of a piece that fits. */
static int64_t rows_within(const upconvert_plan *plan, int axis, double room) {
  int64_t fit = 1, beyond = plan->base.problem.output.size[FALT_D + axis] + 1;
  while (fit + 1 < beyond) {
    const int64_t middle = fit + (beyond - fit) / 2;
    if (piece_bytes(plan, axis, 1, middle) <= room)
      fit = middle;
    else
      beyond = middle;
  }
  return fit;
}

/* A quarter of a private cache, beside the child's own; a weight gradient is added up for each piece, which should
 * not be less work. */
static double room_of(const upconvert_plan *plan) {
  const double share = (double)plan->base.device->caches.l2 / 4;
  return sums_pieces(&plan->base.problem) ? fmax(share, (double)plan->filter_bytes) : share;
}

/* Rows of the outermost axis, or of the first where a row has room; the bytes of a piece. */
static double cut_rows(upconvert_plan *plan, double room) {
  const falt_problem *p = &plan->base.problem;
  double least = INFINITY;
  for (int axis = 0; axis < 3; axis++) {
    const int64_t rows = rows_within(plan, axis, room);
    const double bytes = piece_bytes(plan, axis, 1, rows);
    if (p->output.size[FALT_D + axis] == 1 || !(bytes < least) || least <= room) continue;
    least = bytes;
    plan->bands = falt_row_bands_cut(p, axis, rows);
  }
  return least;
}

static bool cut(upconvert_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  const double room = room_of(plan);
  int axis = 0;
  while (axis < 2 && p->output.size[FALT_D + axis] == 1) axis++;
  plan->bands = falt_row_bands_cut(p, axis, p->output.size[FALT_D + axis]);
  plan->images = 1;
  const double image = piece_bytes(plan, axis, 1, plan->bands.rows);
  const bool whole = image <= room || p->operation == FALT_BACKWARD_DATA;
  if ((whole ? image : cut_rows(plan, room)) > MOST_ROOMS * room) return false;
  if (whole) plan->images = falt_max(1, falt_min(p->input.size[FALT_N], (int64_t)(room / image)));
  return true;
}

/* ---- plan: children */

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static bool add_kind(upconvert_plan *plan, falt_ask *ask, int64_t images, int64_t band, size_t most[OPERANDS + 1]) {
  piece_kind *kind = &plan->kind[plan->kinds];
  const falt_problem *before = plan->kinds > 0 ? &kind[-1].part : NULL;
  size_t bytes[OPERANDS];
  if (plan->kinds == MOST_KINDS) return falt_refuse(ask, "its pieces are of more than %d kinds", MOST_KINDS) != NULL;
  if (!fill_kind(plan, &plan->bands, images, band, kind, bytes))
    return falt_refuse(ask, "its pieces are not legal") != NULL;
  if (before && falt_problem_equal(before, &kind->part)) return true;
  const void *values = plan->values                                 ? plan->values
                       : plan->base.problem.filter.type == FALT_F32 ? ask->filter_values
                                                                    : NULL;
  kind->from = band;
  kind->child = falt_plan_child(ask, &kind->inner, values);
  if (!kind->child) return false;
  plan->kinds++;
  for (int i = 0; i < OPERANDS; i++) most[i] = larger(most[i], is_wide(kind, i) ? 0 : bytes[i]);
  most[OPERANDS] = larger(most[OPERANDS], kind->child->workspace);
  plan->base.packed = plan->base.packed && (kind->child->packed || plan->values);
  plan->base.cost.error = fmax(plan->base.cost.error, kind->child->cost.error);
  return true;
}

/* Visits the bands of an image, then the rest of the batch. */
static bool add_kinds(upconvert_plan *plan, falt_ask *ask, size_t most[OPERANDS + 1]) {
  const int64_t rest = plan->base.problem.input.size[FALT_N] % plan->images;
  for (int64_t i = 0; i < plan->bands.count; i++)
    if (!add_kind(plan, ask, plan->images, i, most)) return false;
  return rest == 0 || add_kind(plan, ask, rest, 0, most);
}

/* The filter's values in f32, if they are known. */
static bool take_filter(upconvert_plan *plan, falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (!falt_upconvert_shape(&plan->filter, &p->filter, &plan->filter_bytes))
    return falt_refuse(ask, "its filter is too large") != NULL;
  if (p->filter.type == FALT_F32 && !sums_pieces(p)) plan->filter = p->filter;
  plan->base.packed = ask->filter_values != NULL && !sums_pieces(p);
  if (!plan->base.packed || p->filter.type == FALT_F32) return true;
  plan->values = falt_alloc(plan->filter_bytes);
  if (!plan->values) return falt_refuse_memory(ask) != NULL;
  falt_backend_of(ask->device)->convert(ask->device, &p->filter, ask->filter_values, &plan->filter, plan->values);
  return true;
}

static void lay_memory(upconvert_plan *plan, const size_t most[OPERANDS + 1]) {
  const falt_problem *p = &plan->base.problem;
  const bool several = sums_pieces(p) && piece_count(plan) > 1;
  const size_t filter = plan->filter_bytes;
  const size_t bias = (size_t)(p->output.size[FALT_G] * p->output.size[FALT_C]) * sizeof(float);
  falt_place_part(&plan->scratch, most[OPERANDS]);
  for (int i = 0; i < OPERANDS; i++) plan->operand[i] = falt_place_part(&plan->scratch, most[i]);
  plan->share = falt_place_part(&plan->scratch, several ? filter : 0);
  plan->bias_share = falt_place_part(&plan->scratch, several && p->has_bias ? bias : 0);
  falt_memory_layout *all = &plan->base.layout;
  if (plan->spread)
    falt_rows_place(all, plan->base.device, &plan->scratch);
  else
    falt_place_each(all, 1, &plan->scratch);
  plan->wide = falt_place_part(all, sums_pieces(p) || (!plan->values && p->filter.type != FALT_F32) ? filter : 0);
  plan->base.workspace = all->total;
}

/* ---- estimate */

static double conversions(const piece_kind *kind, const falt_device *device) {
  const falt_backend *backend = falt_backend_of(device);
  const falt_problem *part = &kind->part;
  double flops = 0;
  for (int i = 0; i < OPERANDS; i++)
    if (!is_wide(kind, i))
      flops += (is_written(part, i) ? backend->downconvert_flops : backend->upconvert_flops)(tensor_of(part, i));
  return flops;
}

/* Pieces are smaller than the problems on which children were measured. */
static const double smaller = 1.2;

/* Of the time of one line after the other: children read their operands in order. */
static const double in_order = 0.25;

/* Seconds in which a thread loads its share of the operands that other threads have just converted. */
static double loads_converted(const piece_kind *kind, const falt_device *device) {
  double elements = 0;
  for (int i = 0; i < OPERANDS; i++)
    if (!is_wide(kind, i)) elements += (double)falt_tensor_count(tensor_of(&kind->part, i));
  return in_order * falt_load_written(device, elements * sizeof(float) / falt_threads_count(device->threads));
}

/* The cost of all pieces, one after the other on all threads, or in parallel. */
static double pieces_seconds(const upconvert_plan *plan, const falt_device *device, bool spread) {
  const piece_kind *kind = usual_kind(plan);
  const double threads = falt_threads_count(device->threads), child = kind->child->cost.seconds;
  const double flops = conversions(kind, device);
  const int64_t rounds = spread ? falt_ceil_div(piece_count(plan), (int64_t)threads) : piece_count(plan);
  const double seconds = spread ? falt_roofline_alone(device, child) + flops * threads / device->limits.f32_flops
                                : child + falt_roofline(device, FALT_F32, flops, 1, 0) + loads_converted(kind, device);
  return smaller * (double)rounds * seconds;
}

/* The cost of pieces in cache, or the memory traffic of the whole, plus the conversion of an unknown filter. */
static double estimate(const upconvert_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->base.problem;
  const double memory = falt_roofline(device, FALT_F32, 0, 1, falt_problem_bytes(p));
  const double pieces = (double)piece_count(plan), filter = (double)plan->filter_bytes;
  const double times = sums_pieces(p) ? 3 * pieces - 2 : plan->values || p->filter.type == FALT_F32 ? 0 : 1;
  const falt_backend *backend = falt_backend_of(device);
  const double converting =
      times > 0 ? (sums_pieces(p) ? backend->downconvert_flops : backend->upconvert_flops)(&p->filter) : 0;
  const double moving = times > 0 ? falt_roofline(device, FALT_F32, converting, 1, times * filter) : 0;
  return moving + fmax(memory, pieces_seconds(plan, device, plan->spread));
}

/* ---- plan */

static bool fill_plan(upconvert_plan *plan, falt_ask *ask) {
  size_t most[OPERANDS + 1] = {0};
  if (!take_filter(plan, ask)) return false;
  if (!cut(plan)) return falt_refuse(ask, "a piece that can be cut is larger than a cache") != NULL;
  if (!add_kinds(plan, ask, most)) return false;
  plan->spread =
      !sums_pieces(ask->problem) && pieces_seconds(plan, ask->device, true) <= pieces_seconds(plan, ask->device, false);
  lay_memory(plan, most);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return true;
}

static falt_plan *plan_upconvert(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy, .ready = ready};
  const char *reason = refusal(ask->problem);
  if (reason) return falt_refuse(ask, "%s", reason);
  upconvert_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan || fill_plan(plan, ask)) return plan ? &plan->base : NULL;
  destroy(&plan->base);
  return NULL;
}

extern const falt_solver falt_solver_upconvert_f32;
const falt_solver falt_solver_upconvert_f32 = {
    .name = "upconvert-f32", .device_kind = "cpu", .avx2 = 0.75, .plan = plan_upconvert};
