/* Solver convert-layout: converts NCHW operands to NHWC in the workspace and plans the NHWC problem. Writes NCHW output
 * directly if the child can, else converts it back. dy of a wgrad stays NCHW if the child reads it. Fprop and dgrad cut
 * a batch into pieces if the workspace is too small for all of it. Solver pad-channels: copies NHWC operands whose
 * channels are not a multiple of 16 bytes to a pitch that is, where nothing is NCHW. Both need a back end that copies
 * on a stream; its copies run near memory speed. */
#include "solver/rewrite/convert_layout.h"

#include <string.h>

#include "core/memory.h"

enum { MOST_PIECES = 16 };
enum { SOURCE, OTHER, OPERANDS }; /* the tensor that is cut into pieces; the filter, or dy in wgrad */

typedef struct layout_plan {
  falt_parent parent;
  const falt_backend *backend;
  void *kernel[2]; /* that transposes, that pads: those that are needed */
  int64_t pieces;
  falt_conversion operand[OPERANDS];
  falt_conversion result; /* from the workspace back */
  size_t inner;           /* where the child's workspace begins */
} layout_plan;

/* ---- which operands */

static falt_tensor *operand_of(falt_problem *p, int which) {
  return falt_problem_tensor(p, falt_operations[p->operation].factor[which]);
}

static void **pointer_of(falt_operation operation, falt_operands *o, int which) {
  return falt_operand_at(o, falt_operations[operation].factor[which]);
}

/* ---- execute */

/* Queues copies by one kernel: those that pad, or those that transpose. */
static void start_copies(const layout_plan *plan, const falt_copy all[OPERANDS], bool pads, void *stream) {
  falt_copy copies[OPERANDS];
  int count = 0;
  for (int i = 0; i < OPERANDS; i++)
    if (all[i].bytes > 0 && (all[i].pixel > 0) == pads) copies[count++] = all[i];
  if (count > 0) plan->backend->copy(plan->parent.base.device, plan->kernel[pads], copies, count, stream);
}

static void start(const layout_plan *plan, const falt_copy copies[OPERANDS], void *stream) {
  start_copies(plan, copies, false, stream);
  start_copies(plan, copies, true, stream);
}

static void convert_operands(const layout_plan *plan, const falt_operands *o, bool first) {
  falt_copy copies[OPERANDS] = {{.bytes = 0}};
  falt_operands from = *o;
  falt_problem p = plan->parent.base.problem;
  for (int i = 0; i < (first ? OPERANDS : OTHER); i++) {
    const falt_conversion *c = &plan->operand[i];
    if (!c->wanted || (i == OTHER && plan->parent.base.packed)) continue;
    copies[i] = c->copy;
    copies[i].from = (char *)*pointer_of(p.operation, &from, i) + operand_of(&p, i)->offset * c->copy.bytes;
    copies[i].to = (char *)o->workspace + c->at;
  }
  start(plan, copies, o->stream);
}

static void convert_result(const layout_plan *plan, const falt_operands *o, void *result) {
  falt_copy copies[OPERANDS] = {plan->result.copy};
  copies[0].from = (char *)o->workspace + plan->result.at;
  copies[0].to = (char *)result + falt_problem_result(&plan->parent.base.problem)->offset * copies[0].bytes;
  start(plan, copies, o->stream);
}

/* To the first of a piece's images. */
static void *piece_of(void *data, const falt_tensor *t, int64_t images) {
  return data ? (char *)data + images * t->stride[FALT_N] * (int64_t)falt_type_size(t->type) : NULL;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const layout_plan *plan = (const layout_plan *)base;
  const falt_problem *p = &base->problem;
  for (int64_t i = 0; i < plan->pieces; i++) {
    const int64_t images = i * (p->input.size[FALT_N] / plan->pieces);
    falt_operands piece = *o;
    piece.input = piece_of(o->input, &p->input, images);
    piece.output = piece_of(o->output, &p->output, images);
    if (p->has_residual) piece.residual = piece_of(o->residual, &p->residual, images);
    convert_operands(plan, &piece, i == 0);
    for (int which = 0; which < OPERANDS; which++)
      if (plan->operand[which].wanted)
        *pointer_of(p->operation, &piece, which) = (char *)o->workspace + plan->operand[which].at;
    piece.workspace = (char *)o->workspace + plan->inner;
    void **result = falt_operand_at(&piece, falt_operations[p->operation].result), *planar = *result;
    if (plan->result.wanted) *result = (char *)o->workspace + plan->result.at;
    falt_plan_run(plan->parent.child, &piece);
    if (plan->result.wanted) convert_result(plan, o, planar);
  }
}

static void print(const falt_plan *base, falt_text *text) {
  static const char *const names[] = {[FALT_INPUT] = " x", [FALT_FILTER] = " w", [FALT_OUTPUT] = " dy"};
  const layout_plan *plan = (const layout_plan *)base;
  falt_text_add(text, "(%s", base->solver->name);
  for (int i = 0; i < OPERANDS; i++)
    if (plan->operand[i].wanted) falt_text_add(text, "%s", names[falt_operations[base->problem.operation].factor[i]]);
  if (plan->result.wanted) falt_text_add(text, base->problem.operation == FALT_FORWARD ? " y" : " dx");
  if (plan->pieces > 1) falt_text_add(text, " pieces=%lld", (long long)plan->pieces);
  falt_text_add(text, " ");
  falt_parent_print(base, text);
}

static falt_status ready(falt_plan *base) {
  layout_plan *plan = (layout_plan *)base;
  const falt_conversion *const all[] = {&plan->operand[SOURCE], &plan->operand[OTHER], &plan->result};
  for (int i = 0; i < OPERANDS + 1; i++)
    if (all[i]->wanted)
      FALT_TRY(plan->backend->copy_ready(base->device, &all[i]->copy, &plan->kernel[falt_conversion_pads(all[i])]));
  return falt_parent_ready(base);
}

/* ---- applicable */

static const char *refusal(falt_problem *p) {
  return falt_is_pooling(p->operation)                               ? "it computes layers and their gradients"
         : p->is_filter                                              ? "filters are read in their layout"
         : p->filter.size[FALT_C] == 1 && p->filter.size[FALT_G] > 1 ? "depthwise layers are read in their layout"
         : falt_type_size(operand_of(p, SOURCE)->type) != falt_type_size(operand_of(p, OTHER)->type)
             ? "its factors' elements are not of one size"
             : NULL;
}

/* ---- plan: the child */

static falt_problem inner_of(const layout_plan *plan, int64_t pieces) {
  falt_problem inner = plan->parent.base.problem;
  for (int i = 0; i < OPERANDS; i++)
    if (plan->operand[i].wanted) *operand_of(&inner, i) = plan->operand[i].tensor;
  if (plan->result.wanted) *(inner.operation == FALT_FORWARD ? &inner.output : &inner.input) = plan->result.tensor;
  inner.input.size[FALT_N] /= pieces;
  inner.output.size[FALT_N] /= pieces;
  if (inner.has_residual) inner.residual.size[FALT_N] /= pieces;
  falt_problem_canonical(&inner);
  return inner;
}

/* Copies every element of the filter to its place in the converted tensor. */
static void convert_values(const falt_tensor *from, const char *values, const falt_tensor *to, char *converted) {
  const size_t size = falt_type_size(from->type);
  const int64_t *n = from->size;
  for (int64_t k = 0; k < n[0]; k++)
    for (int64_t g = 0; g < n[1]; g++)
      for (int64_t c = 0; c < n[2]; c++)
        for (int64_t t = 0; t < n[3]; t++)
          for (int64_t r = 0; r < n[4]; r++)
            for (int64_t s = 0; s < n[5]; s++)
              memcpy(converted + (size_t)falt_tensor_at(to, k, g, c, t, r, s) * size,
                     values + (size_t)falt_tensor_at(from, k, g, c, t, r, s) * size, size);
}

/* The filter's values for the child, or NULL; false if memory ran out. */
static bool find_values(layout_plan *plan, falt_ask *ask, const void **values) {
  const falt_conversion *w = &plan->operand[OTHER];
  *values = ask->filter_values;
  if (!ask->filter_values || ask->problem->operation == FALT_BACKWARD_FILTER || !w->wanted) return true;
  if (!plan->parent.values) {
    plan->parent.values = falt_alloc_zero(w->bytes);
    if (!plan->parent.values) return false;
    convert_values(&ask->problem->filter, ask->filter_values, &w->tensor, plan->parent.values);
  }
  *values = plan->parent.values;
  return true;
}

/* The cost of transposing, at nine tenths of a copy's rate, and of padding, at three quarters. */
static double copy_seconds(const layout_plan *plan, int64_t pieces) {
  const falt_conversion *const all[] = {&plan->operand[SOURCE], &plan->operand[OTHER], &plan->result};
  double seconds = 0;
  int64_t kernels[2] = {0}; /* that transpose, that pad */
  for (int i = 0; i < OPERANDS + 1; i++) {
    const bool pads = falt_conversion_pads(all[i]);
    if (!all[i]->wanted || (i == OTHER && plan->parent.values)) continue;
    seconds += 2 * (double)all[i]->bytes / ((pads ? 0.75 : 0.9) * plan->parent.base.device->limits.copy_bytes_per_s);
    kernels[pads] = i == OTHER ? falt_max(kernels[pads], 1) : kernels[pads] + (i == SOURCE ? pieces : 1);
  }
  return seconds + 2.4e-6 * (double)(kernels[0] + kernels[1]);
}

/* Offsets of the converted operands in the workspace; the child's workspace follows. */
static size_t lay_out(layout_plan *plan, int64_t pieces) {
  size_t total = 0;
  for (int i = 0; i < OPERANDS; i++) {
    falt_conversion *c = &plan->operand[i];
    c->at = total;
    if (c->wanted) total += (size_t)falt_round_up((int64_t)(c->bytes / (i == SOURCE ? (size_t)pieces : 1)), 256);
  }
  plan->result.at = total;
  if (plan->result.wanted) total += (size_t)falt_round_up((int64_t)plan->result.bytes, 256);
  return total;
}

/* The blocks of a piece's images only. */
static void cut_pieces(layout_plan *plan, int64_t pieces) {
  falt_conversion *source = &plan->operand[SOURCE];
  plan->pieces = pieces;
  if (!source->wanted || pieces == 1) return;
  falt_tensor t = *operand_of(&plan->parent.base.problem, SOURCE);
  t.size[FALT_N] /= pieces;
  const size_t at = source->at;
  *source = falt_conversion_of(plan->backend, &t, false);
  source->at = at;
}

/* Plans the child for a number of pieces and keeps it if it is better than the present one. */
static bool try_pieces(layout_plan *plan, falt_ask *ask, const void *values, int64_t pieces) {
  const size_t own = lay_out(plan, pieces);
  falt_child_terms terms = {ask->solvers, ask->budget->max_workspace, .own_gaps = plan->result.wanted};
  if (terms.max_workspace >= 0 && (size_t)terms.max_workspace < own)
    return falt_refuse(ask, "the converted operands need more workspace than is allowed") != NULL;
  if (terms.max_workspace >= 0) terms.max_workspace -= (int64_t)own;
  const falt_problem problem = inner_of(plan, pieces);
  falt_plan *child = falt_plan_child_with(ask, &problem, values, &terms);
  if (!child) return false;
  const double seconds = (double)pieces * child->cost.seconds + copy_seconds(plan, pieces);
  if (plan->parent.child && plan->parent.base.cost.seconds <= seconds) {
    falt_plan_destroy(&child);
    return false;
  }
  falt_plan_destroy(&plan->parent.child);
  plan->parent.child = child;
  plan->pieces = pieces;
  plan->inner = own;
  plan->parent.base.cost = (falt_cost){.seconds = seconds, .error = child->cost.error};
  plan->parent.base.workspace = own + child->workspace;
  plan->parent.base.packed = child->packed;
  return true;
}

static bool can_cut(const falt_problem *p, int64_t pieces) {
  return p->operation != FALT_BACKWARD_FILTER && p->input.size[FALT_N] % pieces == 0;
}

/* Keeps dy in NCHW if the child for that is better. */
static void try_planar(layout_plan *plan, falt_ask *ask) {
  falt_conversion *output = &plan->operand[OTHER];
  if (!output->wanted || !plan->operand[SOURCE].wanted) return;
  output->wanted = false;
  output->wanted = !try_pieces(plan, ask, NULL, 1);
}

/* Converts the output back if the child for that is better by a tenth: estimates of NCHW stores are no more precise. */
static void try_result(layout_plan *plan, falt_ask *ask, const void *values) {
  const falt_problem *p = &plan->parent.base.problem;
  if (falt_type_size(falt_problem_result(p)->type) != falt_type_size(plan->operand[SOURCE].tensor.type)) return;
  plan->result = falt_conversion_of_result(plan->backend, p);
  if (!plan->result.wanted) return;
  const double seconds = plan->parent.base.cost.seconds;
  plan->parent.base.cost.seconds *= 0.9;
  plan->result.wanted = try_pieces(plan, ask, values, 1);
  if (!plan->result.wanted) plan->parent.base.cost.seconds = seconds;
}

/* The fastest child, in pieces only where the workspace holds no more. */
static bool choose_child(layout_plan *plan, falt_ask *ask) {
  const void *values;
  if (!find_values(plan, ask, &values)) return falt_refuse_memory(ask) != NULL;
  if (plan->result.wanted) return try_pieces(plan, ask, values, 1);
  try_pieces(plan, ask, values, 1);
  if (plan->parent.base.problem.operation == FALT_BACKWARD_FILTER) try_planar(plan, ask);
  if (plan->parent.child) try_result(plan, ask, values);
  for (int64_t pieces = 2; !plan->parent.child && pieces <= MOST_PIECES && can_cut(&plan->parent.base.problem, pieces);
       pieces *= 2)
    try_pieces(plan, ask, values, pieces);
  if (!plan->parent.child) return false;
  lay_out(plan, plan->pieces);
  cut_pieces(plan, plan->pieces);
  return true;
}

/* ---- plan */

extern const falt_solver falt_solver_convert_layout, falt_solver_pad_channels;

/* Whether an operand is NCHW, or the output, which may have to be converted back. */
static bool meets_nchw(const layout_plan *plan) {
  for (int i = 0; i < OPERANDS; i++)
    if (plan->operand[i].wanted && !falt_conversion_pads(&plan->operand[i])) return true;
  return falt_conversion_of_result(plan->backend, &plan->parent.base.problem).wanted;
}

/* The conversions of the operands. Where none is wanted that of the output; returns why that is not wanted either. */
static const char *find_conversions(layout_plan *plan) {
  const bool pads = plan->parent.base.solver == &falt_solver_pad_channels;
  falt_problem problem = plan->parent.base.problem;
  for (int i = 0; i < OPERANDS; i++) {
    const falt_tensor *t = operand_of(&problem, i);
    plan->operand[i] = falt_conversion_of(plan->backend, t, t == &problem.filter);
  }
  const bool reads = plan->operand[SOURCE].wanted || plan->operand[OTHER].wanted;
  if (reads && meets_nchw(plan) == pads) return pads ? "convert-layout also pads" : "no operand is NCHW";
  if (reads) return NULL;
  plan->result = falt_conversion_of_padded_result(plan->backend, &problem);
  if (pads) return plan->result.wanted ? NULL : "channels are multiples of 16 bytes, or not contiguous";
  return "no operand is NCHW";
}

static const char *inapplicable(const falt_ask *ask) {
  falt_problem problem = *ask->problem;
  return falt_backend_of(ask->device)->copy ? refusal(&problem) : "the device has no copies on a stream";
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  layout_plan *plan = (layout_plan *)base;
  plan->backend = falt_backend_of(ask->device);
  const char *why = find_conversions(plan);
  if (why) return why;
  return choose_child(plan, ask) ? NULL : ask->reason;
}

static const falt_plan_steps steps = {
    sizeof(layout_plan), {execute, print, falt_parent_destroy, ready}, inapplicable, choose};

const falt_solver falt_solver_convert_layout = {
    .name = "convert-layout", .device_kind = "cuda", .plan = falt_plan_make, .steps = &steps};
const falt_solver falt_solver_pad_channels = {
    .name = "pad-channels", .device_kind = "cuda", .plan = falt_plan_make, .steps = &steps};
