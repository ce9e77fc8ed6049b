/* Solver fuse-pool: a forward layer and its max pooling, band by band in a private cache of the CPU:
 *
 *     y[o] = max over q < pool of act(sum)[o*pool + q]
 *
 * Each band of rows is two child problems: the layer, and max pooling from the band to the output. M. Alwani, H. Chen,
 * M. Ferdman, P. Milder, "Fused-Layer CNN Accelerators", 2016, with one layer in the pyramid. */
#include <math.h>

#include "core/memory.h"
#include "planner/planner.h"
#include "solver/common/tasks.h"
#include "solver/rewrite/fuse_pool.h"
#include "solver/rewrite/row_bands.h"

/* The output of the layer itself never reaches memory: the layer's output of a band fills half of a private cache.
 * Rounding is monotonic, so the maximum of rounded values is the rounded maximum. Each thread takes whole bands; if
 * there are fewer bands than threads, all threads work on one band. */

/* First, middle and last bands, and those whose windows reach beyond both ends; problems with more kinds are not cut.
 */
enum { MOST_KINDS = 8 };

/* Bands that are the same two problems, from band `from` on. */
typedef struct band_kind {
  int64_t from;
  falt_plan *layer, *pooling;
} band_kind;

typedef struct fuse_plan {
  falt_plan base;
  falt_row_bands bands;
  int kinds;
  band_kind kind[MOST_KINDS];
  bool spread;                /* bands go to threads; else each band has all threads */
  size_t inner, results;      /* bytes: of the inner plans' workspace, of a band's outputs; then where these begin */
  falt_memory_layout scratch; /* of a worker, or the only one */
} fuse_plan;

/* ---- execute */

typedef struct run {
  const fuse_plan *plan;
  const falt_operands *operands;
} run;

/* Band `index` of all images. */
static void execute_band(void *context, int64_t index, void *scratch) {
  const run *r = context;
  const fuse_plan *plan = r->plan;
  const falt_problem *p = &plan->base.problem;
  const falt_row_bands *bands = &plan->bands;
  const int64_t n = index / bands->count, band = index % bands->count, begin = band * bands->rows;
  const band_kind *kind = &plan->kind[plan->kinds - 1];
  while (kind->from > band) kind--;
  falt_operands layer = *r->operands;
  layer.input = falt_row_band_at(bands, layer.input, &p->input, n, falt_row_band_first(bands, p, begin));
  layer.output = (char *)scratch + plan->results;
  layer.workspace = scratch;
  falt_plan_run_shared(kind->layer, &layer);
  const falt_operands pooling = {.input = layer.output,
                                 .output = falt_row_band_at(bands, r->operands->output, &p->output, n, begin),
                                 .workspace = scratch};
  falt_plan_run_shared(kind->pooling, &pooling);
}

static int64_t band_count(const fuse_plan *plan) {
  return plan->base.problem.input.size[FALT_N] * plan->bands.count;
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const fuse_plan *plan = (const fuse_plan *)base;
  run r = {plan, operands};
  const falt_row_job job = {execute_band, &r, band_count(plan), plan->scratch.total};
  if (plan->spread)
    falt_rows_run(base->device, &job, operands->workspace);
  else
    for (int64_t i = 0; i < job.tasks && !falt_cancelled(); i++) {
      const falt_progress_range all =
          falt_progress_enter((double)i / (double)job.tasks, (double)(i + 1) / (double)job.tasks);
      execute_band(&r, i, operands->workspace);
      falt_progress_leave(all);
    }
}

static void print(const falt_plan *base, falt_text *text) {
  const fuse_plan *plan = (const fuse_plan *)base;
  const band_kind *kind = &plan->kind[plan->kinds / 2];
  falt_text_add(text, "(fuse-pool rows=%lld ", (long long)plan->bands.rows);
  kind->layer->table->print(kind->layer, text);
  falt_text_add(text, " ");
  kind->pooling->table->print(kind->pooling, text);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  fuse_plan *plan = (fuse_plan *)base;
  for (int i = 0; i < plan->kinds; i++) {
    falt_plan_destroy(&plan->kind[i].layer);
    falt_plan_destroy(&plan->kind[i].pooling);
  }
  falt_free(plan);
}

static falt_status ready(falt_plan *base) {
  fuse_plan *plan = (fuse_plan *)base;
  for (int i = 0; i < plan->kinds; i++) {
    FALT_TRY(falt_plan_ready(plan->kind[i].layer));
    FALT_TRY(falt_plan_ready(plan->kind[i].pooling));
  }
  return FALT_OK;
}

/* ---- plan */

/* How images are cut: along the outermost axis that has outputs to cut, into as many rows as fill half of a private
 * cache. */
static void cut(fuse_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  int axis = 0;
  while (axis < 2 && p->output.size[FALT_D + axis] == 1) axis++;
  falt_problem image = *p;
  image.output.size[FALT_N] = 1;
  image.output.size[FALT_D + axis] = 1;
  const falt_tensor row = falt_pooled_layer(&image).output;
  const int64_t fit =
      (int64_t)plan->base.device->caches.l2 / 2 / (int64_t)falt_type_size(row.type) / falt_tensor_count(&row);
  plan->bands = falt_row_bands_cut(p, axis, fit);
}

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static bool add_kind(fuse_plan *plan, falt_ask *ask, const falt_problem *band, int64_t from) {
  const falt_problem layer = falt_pooled_layer(band), pooling = falt_pooled_pooling(band, &layer.output);
  band_kind *kind = &plan->kind[plan->kinds++];
  *kind = (band_kind){from, falt_plan_child(ask, &layer, ask->filter_values), NULL};
  if (kind->layer) kind->pooling = falt_plan_child(ask, &pooling, NULL);
  if (!kind->pooling) return false;
  const size_t results = (size_t)falt_tensor_count(&layer.output) * falt_type_size(layer.output.type);
  plan->inner = larger(plan->inner, larger(kind->layer->workspace, kind->pooling->workspace));
  plan->results = larger(plan->results, results);
  plan->base.packed = plan->base.packed && kind->layer->packed;
  plan->base.cost.error = fmax(plan->base.cost.error, kind->layer->cost.error);
  return true;
}

/* Walks the bands; *many if they are of too many kinds. */
static bool add_kinds(fuse_plan *plan, falt_ask *ask, bool *many) {
  falt_problem last, band;
  *many = false;
  for (int64_t i = 0; i < plan->bands.count; i++) {
    if (falt_row_band(&plan->bands, &plan->base.problem, 1, i, &band) != FALT_OK)
      return falt_refuse(ask, "its bands are not legal") != NULL;
    if (i > 0 && falt_problem_equal(&band, &last)) continue;
    last = band;
    *many = plan->kinds == MOST_KINDS;
    if (*many || !add_kind(plan, ask, &band, i)) return false;
  }
  return true;
}

/* The cost of bands in cache, or the memory traffic of the whole. */
static double estimate(const fuse_plan *plan, const falt_device *device) {
  const band_kind *kind = &plan->kind[plan->kinds / 2];
  const double layer = kind->layer->cost.seconds, pooling = kind->pooling->cost.seconds;
  const double bands = (double)band_count(plan),
               memory = falt_roofline(device, FALT_F32, 0, 1, falt_problem_bytes(&plan->base.problem));
  if (!plan->spread) return fmax(memory, bands * (layer + pooling));
  const double band = falt_roofline_alone(device, layer) + falt_roofline_alone(device, pooling);
  return fmax(memory, falt_roofline(device, FALT_F32, 0, 1, 0) + bands * band / falt_threads_count(device->threads));
}

static void lay_memory(fuse_plan *plan) {
  falt_memory_layout *all = &plan->base.layout;
  falt_place_part(&plan->scratch, plan->inner);
  plan->results = falt_place_part(&plan->scratch, plan->results);
  if (plan->spread)
    falt_rows_place(all, plan->base.device, &plan->scratch);
  else
    falt_place_each(all, 1, &plan->scratch);
  plan->base.workspace = all->total;
}

static falt_plan *plan_fuse(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy, .ready = ready};
  const char *reason = falt_pooled_refusal(ask->problem);
  if (reason) return falt_refuse(ask, "%s", reason);
  fuse_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  bool many;
  plan->base.packed = ask->filter_values != NULL;
  cut(plan);
  if (!add_kinds(plan, ask, &many)) {
    if (many) falt_refuse(ask, "its bands are of more than %d kinds", MOST_KINDS);
    destroy(&plan->base);
    return NULL;
  }
  plan->spread = band_count(plan) >= falt_threads_count(ask->device->threads);
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_fuse_pool;
const falt_solver falt_solver_fuse_pool = {.name = "fuse-pool", .device_kind = "cpu", .plan = plan_fuse, .pools = true};
