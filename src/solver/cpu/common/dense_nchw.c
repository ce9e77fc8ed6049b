/* Dense layers of narrow types and of f64 whose pixels are adjacent in memory (NCHW), and dgrad of f32 with a stride
 * along rows: a few images are transposed to NHWC in the workspace, run by a plan for that layout, and transposed back.
 * Kernels of these types multiply groups of neighbouring channels: in NCHW they gather them, once for each tap and
 * block of outputs. */
#include "solver/cpu/common/dense_nchw.h"

#include "solver/cpu/common/planes.h"
#include "solver/cpu/common/upconvert.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"

enum {
  PIECE = 1 << 19,   /* elements of the images that are transposed at a time, if one has not more */
  LEAST_CHANNELS = 2 /* in and out */
};

typedef struct nchw_plan {
  falt_parent parent;
  int64_t images;
  size_t input, output, inner; /* offsets into the workspace; inner: the child's */
} nchw_plan;

/* ---- operands: backward-data reads the output's gradient and writes the input's */

static bool is_forward(const falt_problem *p) {
  return p->operation == FALT_FORWARD;
}

static falt_planes planes_of(const nchw_plan *plan, const falt_operands *operands, bool input) {
  const falt_problem *p = &plan->parent.base.problem;
  const falt_tensor *t = input ? &p->input : &p->output;
  return (falt_planes){.planar = t,
                       .data = input ? (void *)(uintptr_t)operands->input : operands->output,
                       .images = plan->images,
                       .channel = FALT_C,
                       .type = t->type,
                       .packed = (char *)operands->workspace + (input ? plan->input : plan->output),
                       .back = input != is_forward(p)};
}

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *operands) {
  const nchw_plan *plan = (const nchw_plan *)base;
  const falt_planes x = planes_of(plan, operands, true), y = planes_of(plan, operands, false);
  falt_operands inner = *operands;
  inner.workspace = (char *)operands->workspace + plan->inner;
  inner.input = x.packed;
  inner.output = y.packed;
  if (is_forward(&base->problem))
    falt_planes_run(plan->parent.child, &inner, x, y);
  else
    falt_planes_run(plan->parent.child, &inner, y, x);
}

static void print(const falt_plan *base, falt_text *text) {
  falt_text_add(text, "(%s images=%lld ", base->solver->name, (long long)((const nchw_plan *)base)->images);
  falt_parent_print(base, text);
}

/* ---- applicable */

static bool has_channels(const falt_tensor *t) {
  return t->size[FALT_G] == 1 && t->size[FALT_C] >= LEAST_CHANNELS;
}

static const char *refusal(const falt_problem *p, falt_operation operation) {
  return p->operation != operation ? operation == FALT_FORWARD ? "only forward" : "only backward-data"
         : !falt_problem_is_f64(p) && !(falt_type_fits_f32(p->input.type) && falt_type_fits_f32(p->output.type))
             ? "f32 does not hold its elements"
         : !has_channels(&p->input) || !has_channels(&p->output) ? "it has groups, or one channel in or out"
         : p->has_residual                                       ? "residuals are not transposed"
         : falt_problem_pools(p)                                 ? "it does not pool"
         : !falt_planes_adjacent(&p->input) || !falt_planes_adjacent(&p->output) ? "pixels are not adjacent in memory"
                                                                                 : NULL;
}

/* ---- plan */

static int64_t elements_of(const falt_tensor *t) {
  return t->size[FALT_C] * falt_planes_pixels(t);
}

/* As many images as stay in the caches, and divide the batch. */
static int64_t images_of(const falt_problem *p) {
  const int64_t batch = p->input.size[FALT_N], image = elements_of(&p->input) + elements_of(&p->output);
  int64_t images = falt_max(1, falt_min(batch, PIECE / image));
  while (batch % images) images--;
  return images;
}

static size_t bytes_of(const falt_tensor *t, int64_t images) {
  return (size_t)(images * elements_of(t)) * falt_type_size(t->type);
}

static bool reads_f32(const falt_problem *p) {
  return (is_forward(p) ? p->input.type : p->output.type) == FALT_F32;
}

static bool has_one_tap(const falt_problem *p) {
  const int64_t *taps = &p->filter.size[FALT_D];
  return taps[0] == 1 && taps[1] == 1 && taps[2] == 1;
}

/* Factor of f32 forward layers, and of bf16 layers on many threads: near ties go to solvers whose vectors run along the
 * pixels of NCHW. */
static const double f32_cost = 1.08, bf16_cost = 1.15;

static const char *choose(falt_plan *base, falt_ask *ask) {
  nchw_plan *plan = (nchw_plan *)base;
  const falt_problem *p = ask->problem;
  falt_problem inner = *p;
  plan->images = images_of(p);
  inner.input = falt_planes_packed(&p->input, plan->images, p->input.type);
  inner.output = falt_planes_packed(&p->output, plan->images, p->output.type);
  falt_problem_canonical(&inner);
  const char *why = falt_parent_adopt(&plan->parent, ask, &inner, ask->filter_values);
  if (why) return why;
  falt_memory_layout *all = &base->layout;
  plan->inner = falt_place_child(all, plan->parent.child);
  plan->input = falt_place_part(all, bytes_of(&p->input, plan->images));
  plan->output = falt_place_part(all, bytes_of(&p->output, plan->images));
  base->workspace = all->total;
  base->cost.seconds *= (double)(p->input.size[FALT_N] / plan->images);
  base->cost.seconds += falt_planes_seconds(ask->device, &p->input, p->input.type, !is_forward(p));
  base->cost.seconds += falt_planes_seconds(ask->device, &p->output, p->output.type, is_forward(p));
  if (reads_f32(p) && is_forward(p)) base->cost.seconds *= f32_cost;
  if (falt_tiles_multiplies_pairs(p->filter.type) && falt_caches_are_far(ask->device)) base->cost.seconds *= bf16_cost;
  /* Not for several taps of types that have no solver for NCHW of their own: those without a transpose are
   * underestimated as much. */
  if (has_one_tap(p) || reads_f32(p) || falt_tiles_multiplies_pairs(p->filter.type))
    base->cost.seconds += falt_planes_loads(ask->device, p) + falt_loop_starts(ask->device, 2);
  return NULL;
}

/* ---- steps */

static const char *fprop_inapplicable(const falt_ask *ask) {
  return refusal(ask->problem, FALT_FORWARD);
}

static const char *dgrad_inapplicable(const falt_ask *ask) {
  return refusal(ask->problem, FALT_BACKWARD_DATA);
}

#define TABLE \
  { execute, print, falt_parent_destroy, falt_parent_ready }
const falt_plan_steps falt_fprop_nchw_steps = {sizeof(nchw_plan), TABLE, fprop_inapplicable, choose};
const falt_plan_steps falt_dgrad_nchw_steps = {sizeof(nchw_plan), TABLE, dgrad_inapplicable, choose};
