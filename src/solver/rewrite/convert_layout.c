/* Layers and their gradients on GPUs whose pixels, or whose filter's taps, lie side by side, by solvers that want
 * channels so: what is read is turned into the workspace, and a problem of that order is the planner's. What is written
 * stays as it is where the child writes either order, or is turned back where a better child does not. Where channels
 * lie side by side but 16 bytes do not divide them, what is read is spread: its rows are copied to a pitch that 16
 * bytes do divide; or, where only the result lies so, that is written with such a pitch and copied back.
 *
 * src/solver/rewrite/convert_layout.cu turns nearly at the speed of memory, pad_channels.cu spreads. Of a gradient by
 * the filter that by the output stays planar where the child reads it so. Forward and by the data a batch is cut into
 * pieces of some images where the workspace has no room for all of it. */
#include <string.h>

#include "core/memory.h"
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda.h"
#include "solver/rewrite/convert_layout_args.h"

enum { VECTOR = 16, THREADS = FALT_CUDA_TURN_THREADS, TURNS = FALT_CUDA_TURNS, MOST_PIECES = 16 };
enum { SOURCE, OTHER }; /* what is cut into pieces; the filter, or of its gradient that by the output */
enum { MOST_SIDE = 32 };

/* One operand: as the child has it, and how it gets there. */
typedef struct turn {
  bool wanted;
  falt_tensor tensor;
  falt_cuda_turn args;
  size_t bytes, at; /* in the workspace */
} turn;

typedef struct turned_plan {
  falt_plan base;
  falt_plan *child;
  falt_cu_function turn_kernel, spread_kernel; /* those that are needed */
  int64_t pieces;
  turn turn[TURNS];
  turn result;  /* from the workspace back */
  size_t inner; /* where the child's workspace begins */
  void *values; /* the filter turned, until the child is ready */
} turned_plan;

/* ---- which operands */

static falt_tensor *operand_of(falt_problem *p, int which) {
  if (which == SOURCE) return p->operation == FALT_BACKWARD_DATA ? &p->output : &p->input;
  return p->operation == FALT_BACKWARD_FILTER ? &p->output : &p->filter;
}

static void **pointer_of(falt_operation operation, falt_operands *o, int which) {
  if (which == SOURCE) return operation == FALT_BACKWARD_DATA ? &o->output : &o->input;
  return operation == FALT_BACKWARD_FILTER ? &o->output : &o->filter;
}

/* ---- execute */

/* The widest loads that its lengths, its strides and its place allow. */
static int unit_of(const falt_cuda_turn *t, uint64_t size) {
  uint64_t all = (uintptr_t)t->from | t->pixels * size | (uint64_t)t->channel * size;
  int unit = VECTOR;
  for (int i = 0; i < 3; i++) all |= (uint64_t)t->line[i] * size;
  while (all % (uint64_t)unit) unit /= 2;
  return unit;
}

/* By one kernel, those that are its own; `spread`: whether it is that. */
static void start_kernel(const turned_plan *plan, const falt_cuda_turn_args *all, bool spread, void *stream) {
  static const int one[2] = {1, 1};
  falt_cuda_turn_args args = *all;
  for (int i = 0; i < TURNS; i++)
    if ((args.turn[i].pixel > 0) != spread) args.turn[i].blocks = 0;
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {spread ? plan->spread_kernel : plan->turn_kernel,
                                  (int64_t)args.turn[0].blocks + args.turn[1].blocks,
                                  {THREADS, 1},
                                  0,
                                  stream};
  if (launch.blocks > 0) falt_gpu_start_early(plan->base.device->gpu, &launch, one, parameters);
}

static void start(const turned_plan *plan, const falt_cuda_turn_args *args, void *stream) {
  start_kernel(plan, args, false, stream);
  start_kernel(plan, args, true, stream);
}

static void start_turns(const turned_plan *plan, const falt_operands *o, bool first) {
  falt_cuda_turn_args args = {.turn = {{.blocks = 0}}};
  falt_operands from = *o;
  falt_problem p = plan->base.problem;
  for (int i = 0; i < (first ? TURNS : OTHER); i++) {
    const turn *t = &plan->turn[i];
    const int64_t size = (int64_t)falt_type_size(t->tensor.type);
    if (!t->wanted || (i == OTHER && plan->base.packed)) continue;
    args.turn[i] = t->args;
    args.turn[i].from = (char *)*pointer_of(p.operation, &from, i) + operand_of(&p, i)->offset * size;
    args.turn[i].to = (char *)o->workspace + t->at;
    args.turn[i].unit = unit_of(&args.turn[i], (uint64_t)size);
    args.turn[i].whole = true;
  }
  start(plan, &args, o->stream);
}

static void start_result(const turned_plan *plan, const falt_operands *o, void *result) {
  const int64_t size = (int64_t)falt_type_size(plan->result.tensor.type);
  falt_cuda_turn_args args = {.turn = {plan->result.args}};
  falt_cuda_turn *t = &args.turn[0];
  t->from = (char *)o->workspace + plan->result.at;
  t->to = (char *)result + falt_problem_result(&plan->base.problem)->offset * size;
  t->unit = unit_of(t, (uint64_t)size);
  t->whole = t->pixel > 0 ? (uintptr_t)t->to % 4 == 0 : t->pitch * size % VECTOR == 0 && (uintptr_t)t->to % VECTOR == 0;
  start(plan, &args, o->stream);
}

/* To the first of a piece's images. */
static void *piece_of(void *data, const falt_tensor *t, int64_t images) {
  return data ? (char *)data + images * t->stride[FALT_N] * (int64_t)falt_type_size(t->type) : NULL;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const turned_plan *plan = (const turned_plan *)base;
  const falt_problem *p = &base->problem;
  for (int64_t i = 0; i < plan->pieces; i++) {
    const int64_t images = i * (p->input.size[FALT_N] / plan->pieces);
    falt_operands piece = *o;
    piece.input = piece_of(o->input, &p->input, images);
    piece.output = piece_of(o->output, &p->output, images);
    if (p->has_residual) piece.residual = piece_of(o->residual, &p->residual, images);
    start_turns(plan, &piece, i == 0);
    for (int which = 0; which < TURNS; which++)
      if (plan->turn[which].wanted)
        *pointer_of(p->operation, &piece, which) = (char *)o->workspace + plan->turn[which].at;
    piece.workspace = (char *)o->workspace + plan->inner;
    void **result = p->operation == FALT_FORWARD ? &piece.output : &piece.input, *planar = *result;
    if (plan->result.wanted) *result = (char *)o->workspace + plan->result.at;
    plan->child->table->execute(plan->child, &piece);
    if (plan->result.wanted) start_result(plan, o, planar);
  }
}

static void print(const falt_plan *base, falt_text *text) {
  static const char *const names[3][TURNS] = {
      [FALT_FORWARD] = {" x", " w"}, [FALT_BACKWARD_DATA] = {" dy", " w"}, [FALT_BACKWARD_FILTER] = {" x", " dy"}};
  const turned_plan *plan = (const turned_plan *)base;
  falt_text_add(text, "(convert-layout");
  for (int i = 0; i < TURNS; i++)
    if (plan->turn[i].wanted) falt_text_add(text, "%s", names[base->problem.operation][i]);
  if (plan->result.wanted) falt_text_add(text, base->problem.operation == FALT_FORWARD ? " y" : " dx");
  if (plan->pieces > 1) falt_text_add(text, " pieces=%lld", (long long)plan->pieces);
  falt_text_add(text, " ");
  plan->child->table->print(plan->child, text);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  turned_plan *plan = (turned_plan *)base;
  falt_plan_destroy(&plan->child);
  falt_free(plan->values);
  falt_free(plan);
}

static falt_status find_kernel(turned_plan *plan, const turn *t) {
  const bool spread = t->args.pixel > 0;
  falt_cuda_kernel kernel = {.source = spread ? "pad_channels.cu" : "convert_layout.cu",
                             .entry = spread ? "falt_spread" : "falt_turn"};
  falt_cuda_hole(&kernel, "SIZE=%d", (int)falt_type_size(t->tensor.type));
  return falt_gpu_kernel(plan->base.device->gpu, &kernel, spread ? &plan->spread_kernel : &plan->turn_kernel);
}

static falt_status ready(falt_plan *base) {
  turned_plan *plan = (turned_plan *)base;
  const turn *const turns[] = {&plan->turn[SOURCE], &plan->turn[OTHER], &plan->result};
  for (int i = 0; i < TURNS + 1; i++)
    if (turns[i]->wanted) FALT_TRY(find_kernel(plan, turns[i]));
  FALT_TRY(falt_plan_ready(plan->child));
  falt_free(plan->values);
  plan->values = NULL;
  return FALT_OK;
}

/* ---- applicable */

static const char *refusal(falt_problem *p) {
  return p->operation > FALT_BACKWARD_FILTER                         ? "it computes layers and their gradients"
         : p->is_filter                                              ? "filters are read as they lie"
         : p->filter.size[FALT_C] == 1 && p->filter.size[FALT_G] > 1 ? "depthwise layers are read as they lie"
         : falt_type_size(operand_of(p, SOURCE)->type) != falt_type_size(operand_of(p, OTHER)->type)
             ? "its factors' elements are not of one size"
             : NULL;
}

/* ---- plan: an operand */

/* Its channels, those of all groups where they follow on each other, and the way from one to the next. */
typedef struct channels {
  bool joined;
  int64_t count, stride;
} channels;

static channels channels_of(const falt_tensor *t, bool is_filter) {
  const int64_t g = t->size[FALT_G], c = t->size[FALT_C];
  const bool joined = !is_filter && g > 1 && (c == 1 || t->stride[FALT_G] == c * t->stride[FALT_C]);
  if (!joined) return (channels){false, c, t->stride[FALT_C]};
  return (channels){true, g * c, c > 1 ? t->stride[FALT_C] : t->stride[FALT_G]};
}

/* The same tensor, its channels side by side and filled up to whole vectors; false if it is too large. */
static bool shape_turned(turn *made, const falt_tensor *t, const channels *c) {
  static const int order[] = {FALT_W, FALT_H, FALT_D, FALT_G, FALT_N};
  int64_t next = falt_round_up(c->count, VECTOR / (int64_t)falt_type_size(t->type));
  made->args.pitch = (unsigned)next;
  made->tensor = *t;
  made->tensor.offset = 0;
  made->tensor.stride[FALT_C] = 1;
  made->tensor.stride[FALT_G] = t->size[FALT_C];
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    if (order[i] == FALT_G && c->joined) continue;
    made->tensor.stride[order[i]] = next;
    if (!falt_mul(next, t->size[order[i]], &next)) return false;
  }
  if (!falt_mul(next, (int64_t)falt_type_size(t->type), &next)) return false;
  made->bytes = (size_t)next;
  return true;
}

/* Its pixels that follow on each other, and the axes of the lines that these are; false if it has none or too many. */
static bool find_lines(turn *made, const falt_tensor *t, const channels *c) {
  static const int order[] = {FALT_W, FALT_H, FALT_D, FALT_G, FALT_N};
  falt_cuda_turn *a = &made->args;
  int64_t pixels = 1, lines[3] = {1, 1, 1};
  int axes = 0; /* from the last on */
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    const int64_t size = t->size[order[i]], stride = t->stride[order[i]];
    if (size == 1 || (order[i] == FALT_G && c->joined)) continue;
    if (axes == 0 && stride == pixels) {
      pixels *= size;
    } else if (axes > 0 && stride == a->line[3 - axes] * lines[3 - axes]) {
      lines[3 - axes] *= size;
    } else {
      if (pixels == 1 || axes == 3) return false;
      a->line[3 - ++axes] = stride;
      lines[3 - axes] = size;
    }
  }
  for (int i = 0; i < 3; i++) {
    if (lines[i] >= INT32_MAX) return false;
    a->lines[i] = (unsigned)lines[i];
  }
  a->pixels = (unsigned)pixels;
  return pixels < INT32_MAX - THREADS * VECTOR;
}

/* Squares of a block: four along the channels and as many down the pixels as there are threads; more where lines are
 * short. */
static bool cut_blocks(falt_cuda_turn *a, int64_t size) {
  const int64_t edge = VECTOR / size, across = falt_ceil_div(a->pitch, edge), down = falt_ceil_div(a->pixels, edge);
  int64_t side = 1, blocks;
  while (side < across && side < MOST_SIDE && (side < 4 || side * 2 * down <= THREADS)) side *= 2;
  const int64_t columns = falt_ceil_div(across, side), line_blocks = columns * falt_ceil_div(down, THREADS / side);
  const int64_t lines = (int64_t)a->lines[1] * a->lines[2];
  if (!falt_mul(lines, a->lines[0], &blocks) || !falt_mul(blocks, line_blocks, &blocks) || blocks > INT32_MAX / TURNS)
    return false;
  a->side = (int)side;
  a->columns = (unsigned)columns;
  a->line_blocks = (unsigned)line_blocks;
  a->blocks = (unsigned)blocks;
  return true;
}

/* ---- plan: an operand whose channels lie side by side */

/* Its pixels, if all follow on each other at one distance. */
static bool find_rows(turn *made, const falt_tensor *t, const channels *c) {
  static const int order[] = {FALT_W, FALT_H, FALT_D, FALT_G, FALT_N};
  int64_t pixels = 1, pixel = c->count;
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    if (t->size[order[i]] == 1 || (order[i] == FALT_G && c->joined)) continue;
    if (pixels == 1) pixel = t->stride[order[i]];
    if (t->stride[order[i]] != pixel * pixels) return false;
    pixels *= t->size[order[i]];
  }
  made->args.pixels = (unsigned)pixels;
  made->args.pixel = (unsigned)pixel;
  return pixel >= c->count && pixels < INT32_MAX - THREADS;
}

/* Rows of a block: several words for each thread, and words that do not lie in two blocks. */
static bool cut_rows(falt_cuda_turn *a, int64_t size) {
  enum { LEAST = 16 * THREADS, MANY_BLOCKS = 1024, MOST_LOADS = 4, MOST_PITCH = 1 << 22 };
  const int64_t bytes = (int64_t)a->pitch * size;
  const int64_t loads = falt_min(falt_max(bytes * a->pixels / LEAST / MANY_BLOCKS, 1), MOST_LOADS);
  a->rows = (unsigned)falt_round_up(falt_max(LEAST * loads / bytes, 1), 4);
  a->blocks = (unsigned)falt_ceil_div(a->pixels, a->rows);
  return falt_max(a->pixel, a->pitch) < MOST_PITCH;
}

static bool has_vectors(const falt_tensor *t, const channels *c) {
  int64_t all = t->offset;
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != FALT_C && !(i == FALT_G && c->joined) && t->size[i] > 1) all |= t->stride[i];
  return all * (int64_t)falt_type_size(t->type) % VECTOR == 0;
}

/* How an operand is spread, if it can be. */
static bool can_spread(turn *made, const falt_tensor *t, const channels *c) {
  return c->stride == 1 && !has_vectors(t, c) && find_rows(made, t, c) && shape_turned(made, t, c) &&
         cut_rows(&made->args, (int64_t)falt_type_size(t->type));
}

/* How an operand is turned or spread, if it should and can be. */
static turn turn_of(const falt_tensor *t, bool is_filter) {
  const channels c = channels_of(t, is_filter);
  turn made = {.tensor = *t, .args = {.channel = c.stride, .channels = (unsigned)c.count}};
  made.wanted = c.count > 1 && c.count < INT32_MAX / 2 &&
                (can_spread(&made, t, &c) || (c.stride != 1 && find_lines(&made, t, &c) && shape_turned(&made, t, &c) &&
                                              cut_blocks(&made.args, (int64_t)falt_type_size(t->type))));
  return made;
}

/* How a result that was written spread is copied back, if it can be: it lies without gaps. */
static turn spread_result_of(const falt_problem *p) {
  const falt_tensor *y = falt_problem_result(p);
  turn made = p->operation == FALT_BACKWARD_FILTER || p->has_residual ? (turn){.tensor = *y} : turn_of(y, false);
  falt_cuda_turn *a = &made.args;
  made.wanted = made.wanted && a->pixel == a->channels;
  a->pixel = a->pitch;
  a->pitch = a->channels;
  return made;
}

/* How the result is turned back, if it can be: it lies planar without gaps, and is all that the child would write. */
static turn result_of(const falt_problem *p) {
  const falt_tensor *y = falt_problem_result(p);
  const channels c = channels_of(y, false);
  const int64_t size = (int64_t)falt_type_size(y->type);
  const int64_t pixels = y->size[FALT_D] * y->size[FALT_H] * y->size[FALT_W];
  turn made = {.tensor = *y};
  falt_tensor dense = *y;
  if (p->operation == FALT_BACKWARD_FILTER || p->has_residual || c.count == 1 || c.count >= INT32_MAX / 2 ||
      pixels >= INT32_MAX / 2 || y->size[FALT_N] >= INT32_MAX || falt_tensor_layout(&dense, "ncdhw") != FALT_OK)
    return made;
  for (int i = 0; i < FALT_DIMS; i++)
    if (y->size[i] > 1 && y->stride[i] != dense.stride[i]) return made;
  if (!shape_turned(&made, y, &c)) return made;
  made.args.channel = made.args.pitch;
  made.args.line[2] = pixels * made.args.pitch;
  made.args.lines[0] = made.args.lines[1] = 1;
  made.args.lines[2] = (unsigned)y->size[FALT_N];
  made.args.pixels = (unsigned)c.count;
  made.args.channels = made.args.pitch = (unsigned)pixels;
  made.wanted = cut_blocks(&made.args, size);
  return made;
}

/* ---- plan: the child */

static falt_problem inner_of(const turned_plan *plan, int64_t pieces) {
  falt_problem inner = plan->base.problem;
  for (int i = 0; i < TURNS; i++)
    if (plan->turn[i].wanted) *operand_of(&inner, i) = plan->turn[i].tensor;
  if (plan->result.wanted) *(inner.operation == FALT_FORWARD ? &inner.output : &inner.input) = plan->result.tensor;
  inner.input.size[FALT_N] /= pieces;
  inner.output.size[FALT_N] /= pieces;
  if (inner.has_residual) inner.residual.size[FALT_N] /= pieces;
  falt_problem_canonical(&inner);
  return inner;
}

/* Every element of the filter where its turned tensor has it. */
static void turn_values(const falt_tensor *from, const char *values, const falt_tensor *to, char *turned) {
  const size_t size = falt_type_size(from->type);
  const int64_t *n = from->size;
  for (int64_t k = 0; k < n[0]; k++)
    for (int64_t g = 0; g < n[1]; g++)
      for (int64_t c = 0; c < n[2]; c++)
        for (int64_t t = 0; t < n[3]; t++)
          for (int64_t r = 0; r < n[4]; r++)
            for (int64_t s = 0; s < n[5]; s++)
              memcpy(turned + (size_t)falt_tensor_at(to, k, g, c, t, r, s) * size,
                     values + (size_t)falt_tensor_at(from, k, g, c, t, r, s) * size, size);
}

/* What the child reads of the filter's values, or NULL; false if memory ran out. */
static bool find_values(turned_plan *plan, falt_ask *ask, const void **values) {
  const turn *w = &plan->turn[OTHER];
  *values = ask->filter_values;
  if (!ask->filter_values || ask->problem->operation == FALT_BACKWARD_FILTER || !w->wanted) return true;
  if (!plan->values) {
    plan->values = falt_alloc_zero(w->bytes);
    if (!plan->values) return false;
    turn_values(&ask->problem->filter, ask->filter_values, &w->tensor, plan->values);
  }
  *values = plan->values;
  return true;
}

/* Of turning, at nine tenths of a copy's rate, and of spreading, at three quarters. */
static double turning_seconds(const turned_plan *plan, int64_t pieces) {
  const turn *const turns[] = {&plan->turn[SOURCE], &plan->turn[OTHER], &plan->result};
  double seconds = 0;
  int64_t kernels[2] = {0}; /* that turn, that spread */
  for (int i = 0; i < TURNS + 1; i++) {
    const bool spread = turns[i]->args.pixel > 0;
    if (!turns[i]->wanted || (i == OTHER && plan->values)) continue;
    seconds += 2 * (double)turns[i]->bytes / ((spread ? 0.75 : 0.9) * plan->base.device->limits.copy_bytes_per_s);
    kernels[spread] = i == OTHER ? falt_max(kernels[spread], 1) : kernels[spread] + (i == SOURCE ? pieces : 1);
  }
  return seconds + 2.4e-6 * (double)(kernels[0] + kernels[1]);
}

/* Places of the turned operands in the workspace, the child's behind them. */
static size_t lay_out(turned_plan *plan, int64_t pieces) {
  size_t total = 0;
  for (int i = 0; i < TURNS; i++) {
    turn *t = &plan->turn[i];
    t->at = total;
    if (t->wanted) total += (size_t)falt_round_up((int64_t)(t->bytes / (i == SOURCE ? (size_t)pieces : 1)), 256);
  }
  plan->result.at = total;
  if (plan->result.wanted) total += (size_t)falt_round_up((int64_t)plan->result.bytes, 256);
  return total;
}

/* The blocks of a piece's images only. */
static void cut_pieces(turned_plan *plan, int64_t pieces) {
  turn *source = &plan->turn[SOURCE];
  plan->pieces = pieces;
  if (!source->wanted || pieces == 1) return;
  falt_tensor t = *operand_of(&plan->base.problem, SOURCE);
  t.size[FALT_N] /= pieces;
  const size_t at = source->at;
  *source = turn_of(&t, false);
  source->at = at;
}

/* The child for so many pieces if it is better than the one there is. */
static bool try_pieces(turned_plan *plan, falt_ask *ask, const void *values, int64_t pieces) {
  const size_t own = lay_out(plan, pieces);
  falt_child_terms terms = {ask->solvers, ask->budget->max_workspace, .own_gaps = plan->result.wanted};
  if (terms.max_workspace >= 0 && (size_t)terms.max_workspace < own)
    return falt_refuse(ask, "what is turned needs more workspace than is allowed") != NULL;
  if (terms.max_workspace >= 0) terms.max_workspace -= (int64_t)own;
  const falt_problem problem = inner_of(plan, pieces);
  falt_plan *child = falt_plan_child_with(ask, &problem, values, &terms);
  if (!child) return false;
  const double seconds = (double)pieces * child->cost.seconds + turning_seconds(plan, pieces);
  if (plan->child && plan->base.cost.seconds <= seconds) {
    falt_plan_destroy(&child);
    return false;
  }
  falt_plan_destroy(&plan->child);
  plan->child = child;
  plan->pieces = pieces;
  plan->inner = own;
  plan->base.cost = (falt_cost){.seconds = seconds, .error = child->cost.error};
  plan->base.workspace = own + child->workspace;
  plan->base.packed = child->packed;
  return true;
}

static bool can_cut(const falt_problem *p, int64_t pieces) {
  return p->operation != FALT_BACKWARD_FILTER && p->input.size[FALT_N] % pieces == 0;
}

/* The gradient by the output as it lies, if the child for that is better. */
static void try_planar(turned_plan *plan, falt_ask *ask) {
  turn *output = &plan->turn[OTHER];
  if (!output->wanted || !plan->turn[SOURCE].wanted) return;
  output->wanted = false;
  output->wanted = !try_pieces(plan, ask, NULL, 1);
}

/* The result turned back, if the child for that is better by a tenth: estimates of what planar results cost are no
 * closer. */
static void try_result(turned_plan *plan, falt_ask *ask, const void *values) {
  const falt_problem *p = &plan->base.problem;
  if (falt_type_size(falt_problem_result(p)->type) != falt_type_size(plan->turn[SOURCE].tensor.type)) return;
  plan->result = result_of(p);
  if (!plan->result.wanted) return;
  const double seconds = plan->base.cost.seconds;
  plan->base.cost.seconds *= 0.9;
  plan->result.wanted = try_pieces(plan, ask, values, 1);
  if (!plan->result.wanted) plan->base.cost.seconds = seconds;
}

/* The fastest child, in pieces only where the workspace holds no more. */
static bool choose_child(turned_plan *plan, falt_ask *ask) {
  const void *values;
  if (!find_values(plan, ask, &values)) return falt_refuse_memory(ask) != NULL;
  if (plan->result.wanted) return try_pieces(plan, ask, values, 1);
  try_pieces(plan, ask, values, 1);
  if (plan->base.problem.operation == FALT_BACKWARD_FILTER) try_planar(plan, ask);
  if (plan->child) try_result(plan, ask, values);
  for (int64_t pieces = 2; !plan->child && pieces <= MOST_PIECES && can_cut(&plan->base.problem, pieces); pieces *= 2)
    try_pieces(plan, ask, values, pieces);
  if (!plan->child) return false;
  lay_out(plan, plan->pieces);
  cut_pieces(plan, plan->pieces);
  return true;
}

/* ---- plan */

static falt_plan *plan_turned(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  falt_problem problem = *ask->problem;
  const char *why = refusal(&problem);
  if (why) return falt_refuse(ask, "%s", why);
  turned_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  for (int i = 0; i < TURNS; i++) {
    const falt_tensor *t = operand_of(&problem, i);
    plan->turn[i] = turn_of(t, t == &problem.filter);
  }
  const bool reads = plan->turn[SOURCE].wanted || plan->turn[OTHER].wanted;
  if (!reads) plan->result = spread_result_of(&problem);
  if (!reads && !plan->result.wanted)
    falt_refuse(ask, "nothing it reads has its pixels side by side, and 16 bytes divide its rows");
  else if (choose_child(plan, ask))
    return &plan->base;
  destroy(&plan->base);
  return NULL;
}

extern const falt_solver falt_solver_convert_layout;
const falt_solver falt_solver_convert_layout = {.name = "convert-layout", .device_kind = "cuda", .plan = plan_turned};
