/* Solver split-pool: a forward layer and its max pooling as two problems on a GPU, with the layer's output in the
 * workspace. Rounding is monotonic, so the maximum of rounded values is the rounded maximum. The planner picks it for
 * layers that fill tensor cores; cuda-direct-nchw fuses both for small layers. */
#include <math.h>

#include "core/memory.h"
#include "solver/rewrite/fuse_pool.h"

typedef struct split_plan {
  falt_plan base;
  falt_plan *layer, *pooling;
  size_t results; /* where the layer's begin in the workspace, behind its own and the pooling's */
} split_plan;

static void execute(const falt_plan *base, const falt_operands *o) {
  const split_plan *plan = (const split_plan *)base;
  falt_operands layer = *o, pooling = {.output = o->output, .workspace = o->workspace, .stream = o->stream};
  layer.output = pooling.input = (char *)o->workspace + plan->results;
  falt_plan_run(plan->layer, &layer);
  falt_plan_run(plan->pooling, &pooling);
}

static void print(const falt_plan *base, falt_text *text) {
  const split_plan *plan = (const split_plan *)base;
  falt_text_add(text, "(split-pool ");
  plan->layer->table->print(plan->layer, text);
  falt_text_add(text, " ");
  plan->pooling->table->print(plan->pooling, text);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  split_plan *plan = (split_plan *)base;
  falt_plan_destroy(&plan->layer);
  falt_plan_destroy(&plan->pooling);
  falt_free(plan);
}

static falt_status ready(falt_plan *base) {
  split_plan *plan = (split_plan *)base;
  FALT_TRY(falt_plan_ready(plan->layer));
  return falt_plan_ready(plan->pooling);
}

static const char *inapplicable(const falt_ask *ask) {
  return falt_pooled_refusal(ask->problem);
}

/* Plans both children; they share the workspace, one after the other. */
static const char *choose(falt_plan *base, falt_ask *ask) {
  split_plan *plan = (split_plan *)base;
  falt_problem layer = falt_pooled_layer(ask->problem);
  const falt_problem pooling = falt_pooled_pooling(ask->problem, &layer.output);
  falt_problem_canonical(&layer);
  plan->layer = falt_plan_child(ask, &layer, ask->filter_values);
  if (!plan->layer) return ask->reason;
  plan->pooling = falt_plan_child(ask, &pooling, NULL);
  if (!plan->pooling) return ask->reason;
  const size_t inner =
      plan->layer->workspace > plan->pooling->workspace ? plan->layer->workspace : plan->pooling->workspace;
  plan->results = (size_t)falt_round_up((int64_t)inner, 256);
  plan->base.workspace = plan->results + (size_t)falt_tensor_span(&layer.output) * falt_type_size(layer.output.type);
  plan->base.packed = plan->layer->packed;
  plan->base.cost =
      (falt_cost){.seconds = plan->layer->cost.seconds + plan->pooling->cost.seconds, .error = plan->layer->cost.error};
  return NULL;
}

static const falt_plan_steps steps = {sizeof(split_plan), {execute, print, destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_split_pool;
const falt_solver falt_solver_split_pool = {
    .name = "split-pool", .device_kind = "cuda", .plan = falt_plan_make, .steps = &steps, .pools = true};
