/* Solver im2col: layers by explicit im2col and BLAS GEMM (OpenBLAS or BLIS). A yardstick, used only if named.
 *
 *     col[(c, j), o] = x[n, g, c, o*stride + j*dilation - pad]        y = act(scale * (w col) + offset)
 *
 * K. Chellapilla, S. Puri, P. Simard, "High Performance Convolutional Neural Networks for Document Processing", 2006.
 */
#include <limits.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/blas.h"
#include "planner/planner.h"
#include "solver/common/im2col.h"
#include "solver/cpu/common/rows.h"

/* Every pixel is copied once for each tap, and a second pass over the product applies the epilogue. Positions are
 * processed in bands whose matrix fits into half of a private cache. A band is one task and one product, so the bits of
 * the output do not depend on the number of threads. */

typedef struct im2col_plan {
  falt_plan base;
  const falt_blas *blas;
  int64_t depth;                  /* rows of the matrix: channels times taps */
  int64_t positions, band, bands; /* of an image; of a band; bands of an image */
  size_t element;                 /* bytes */
  bool by_row;                    /* outputs of a channel are contiguous, else the channels of a position */
  void *packed;                   /* the filter as a matrix, outputs by depth, or NULL */
  falt_memory_layout columns;     /* a worker's scratch */
  size_t filter;                  /* else its offset in the workspace */
} im2col_plan;

/* ---- elements of 4 or 8 bytes */

static void copy(void *to, const void *from, int64_t step, int64_t count, size_t element) {
  if (step == 1) {
    memcpy(to, from, (size_t)count * element);
  } else if (element == 4) {
    for (int64_t i = 0; i < count; i++) ((uint32_t *)to)[i] = ((const uint32_t *)from)[i * step];
  } else {
    for (int64_t i = 0; i < count; i++) ((uint64_t *)to)[i] = ((const uint64_t *)from)[i * step];
  }
}

/* ---- the filter: (k, g, c, t, r, s) as a dense matrix for each group */

static void pack(const im2col_plan *plan, const void *from, void *to) {
  const falt_tensor *w = &plan->base.problem.filter;
  char *at = to;
  for (int64_t g = 0; g < w->size[FALT_G]; g++)
    for (int64_t k = 0; k < w->size[FALT_K]; k++)
      for (int64_t c = 0; c < w->size[FALT_C]; c++)
        for (int64_t t = 0; t < w->size[FALT_D]; t++)
          for (int64_t r = 0; r < w->size[FALT_H]; r++) {
            const int64_t row = falt_tensor_at(w, k, g, c, t, r, 0);
            copy(at, (const char *)from + row * (int64_t)plan->element, w->stride[FALT_W], w->size[FALT_W],
                 plan->element);
            at += (size_t)w->size[FALT_W] * plan->element;
          }
}

/* ---- columns */

typedef struct task {
  const im2col_plan *plan;
  const falt_operands *operands;
  int64_t n, g, first, count; /* positions [first, first + count) of an image */
  char *columns;
} task;

static int64_t source(const falt_problem *p, int axis, int64_t o, int64_t j) {
  const falt_axis *a = &p->axis[axis];
  return falt_axis_map(a, p->input.size[FALT_D + axis], o * a->stride + j * a->dilation - a->pad[0]);
}

static void put_constant(const falt_problem *p, void *to, int64_t count) {
  for (int64_t i = 0; i < count; i++) falt_store(to, p->input.type, i, p->boundary_value);
}

/* The elements of tap s at columns [w, w + count) of an output row, from an input row; NULL: all are the constant. */
static void fill_row(const task *t, const char *row, int64_t s, int64_t w, int64_t count, char *to) {
  const falt_problem *p = &t->plan->base.problem;
  const falt_axis *a = &p->axis[2];
  const int64_t element = (int64_t)t->plan->element, step = p->input.stride[FALT_W];
  int64_t begin, end; /* outputs whose element for this tap is inside */
  falt_axis shifted = *a;
  shifted.pad[0] -= s * a->dilation;
  falt_axis_interior(&shifted, p->input.size[FALT_W], 1, p->output.size[FALT_W], &begin, &end);
  begin = falt_min(falt_max(begin - w, 0), count);
  end = row ? falt_max(begin, falt_min(end - w, count)) : begin;
  for (int64_t i = 0; i < count; i++) {
    if (i == begin) i = end;
    if (i == count) break;
    const int64_t at = row ? source(p, 2, w + i, s) : -1;
    if (at < 0)
      put_constant(p, to + i * element, 1);
    else
      copy(to + i * element, row + at * step * element, 1, 1, t->plan->element);
  }
  if (end > begin)
    copy(to + begin * element, row + ((w + begin) * a->stride + s * a->dilation - a->pad[0]) * step * element,
         a->stride * step, end - begin, t->plan->element);
}

/* One row of the matrix: the elements of tap (t, r, s) of a channel at the band's positions. */
static void fill_positions(const task *t, int64_t c, const int64_t tap[3], char *to) {
  const falt_problem *p = &t->plan->base.problem;
  const int64_t width = p->output.size[FALT_W], height = p->output.size[FALT_H], end = t->first + t->count;
  for (int64_t at = t->first, n; at < end; at += n) {
    const int64_t w = at % width, d = source(p, 0, at / width / height, tap[0]),
                  h = source(p, 1, at / width % height, tap[1]);
    const int64_t row = d < 0 || h < 0 ? 0 : falt_tensor_at(&p->input, t->n, t->g, c, d, h, 0);
    n = falt_min(width - w, end - at);
    fill_row(t, d < 0 || h < 0 ? NULL : (const char *)t->operands->input + row * (int64_t)t->plan->element, tap[2], w,
             n, to);
    to += (size_t)n * t->plan->element;
  }
}

static void fill_columns(const task *t) {
  const int64_t *taps = t->plan->base.problem.filter.size;
  char *to = t->columns;
  for (int64_t c = 0; c < taps[FALT_C]; c++)
    for (int64_t q = 0; q < taps[FALT_D] * taps[FALT_H] * taps[FALT_W]; q++) {
      const int64_t tap[3] = {q / taps[FALT_W] / taps[FALT_H], q / taps[FALT_W] % taps[FALT_H], q % taps[FALT_W]};
      fill_positions(t, c, tap, to);
      to += (size_t)t->count * t->plan->element;
    }
}

/* ---- the product */

/* Output (k, position i of the band) is element k*row + i*column of `at`. */
typedef struct results {
  void *at;
  int64_t row, column;
} results;

static results results_of(const task *t) {
  const falt_tensor *y = &t->plan->base.problem.output;
  const int64_t column = t->plan->positions > 1 ? y->stride[y->size[FALT_W] > 1   ? FALT_W
                                                            : y->size[FALT_H] > 1 ? FALT_H
                                                                                  : FALT_D]
                                                : 1;
  const int64_t at = falt_tensor_at(y, t->n, t->g, 0, 0, 0, 0) + t->first * column;
  return (results){(char *)t->operands->output + at * (int64_t)t->plan->element, y->stride[FALT_C], column};
}

static void multiply(const task *t, const void *filter, const results *y) {
  const im2col_plan *plan = t->plan;
  const int k = (int)plan->base.problem.output.size[FALT_C], n = (int)t->count, depth = (int)plan->depth;
  const bool f64 = plan->base.problem.input.type == FALT_F64, rows = plan->by_row;
  const int m = rows ? k : n, columns = rows ? n : k, trans = rows ? FALT_BLAS_AS_IS : FALT_BLAS_TRANSPOSED;
  const void *a = rows ? filter : t->columns, *b = rows ? t->columns : filter;
  const int lda = rows ? depth : n, ldb = rows ? n : depth;
  const int ldc = (int)falt_max(rows ? (k > 1 ? y->row : n) : (n > 1 ? y->column : k), columns);
  if (f64)
    plan->blas->f64(FALT_BLAS_ROWS, trans, trans, m, columns, depth, 1, a, lda, b, ldb, 0, y->at, ldc);
  else
    plan->blas->f32(FALT_BLAS_ROWS, trans, trans, m, columns, depth, 1, a, lda, b, ldb, 0, y->at, ldc);
}

static void finish(const task *t, const results *y) {
  const falt_problem *p = &t->plan->base.problem;
  const falt_type type = p->output.type;
  for (int64_t k = 0; k < p->output.size[FALT_C]; k++) {
    const int64_t channel = t->g * p->output.size[FALT_C] + k;
    const double scale = p->has_scale ? p->alpha * falt_load(t->operands->scale, type, channel) : p->alpha;
    const double offset = p->has_bias ? p->beta + falt_load(t->operands->bias, type, channel) : p->beta;
    for (int64_t i = 0; i < t->count; i++) {
      const int64_t at = k * y->row + i * y->column;
      falt_store(y->at, type, at, falt_activate(p, falt_load(y->at, type, at) * scale + offset));
    }
  }
}

/* ---- execute */

typedef struct run {
  const im2col_plan *plan;
  const falt_operands *operands;
  const char *filter;
} run;

static void execute_band(void *context, int64_t index, void *scratch) {
  const run *r = context;
  const im2col_plan *plan = r->plan;
  const falt_problem *p = &plan->base.problem;
  const int64_t groups = p->output.size[FALT_G], image = index / plan->bands;
  task t = {.plan = plan, .operands = r->operands, .n = image / groups, .g = image % groups, .columns = scratch};
  t.first = index % plan->bands * plan->band;
  t.count = falt_min(plan->band, plan->positions - t.first);
  const results y = results_of(&t);
  fill_columns(&t);
  multiply(&t, r->filter + (size_t)(t.g * p->output.size[FALT_C] * plan->depth) * plan->element, &y);
  if (!falt_epilogue_is_identity(p)) finish(&t, &y);
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const im2col_plan *plan = (const im2col_plan *)base;
  run r = {plan, operands, plan->packed ? plan->packed : (char *)operands->workspace + plan->filter};
  if (!plan->packed) pack(plan, operands->filter, (char *)operands->workspace + plan->filter);
  const falt_row_job job = {execute_band, &r,
                            base->problem.output.size[FALT_N] * base->problem.output.size[FALT_G] * plan->bands,
                            plan->columns.total};
  falt_rows_run(base->device, &job, operands->workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  const im2col_plan *plan = (const im2col_plan *)base;
  falt_text_add(text, "(im2col %lldx%lld by %s)", (long long)plan->depth, (long long)plan->band, plan->blas->name);
}

static void destroy(falt_plan *plan) {
  falt_free(((im2col_plan *)plan)->packed);
  falt_free(plan);
}

/* ---- applicable */

static bool fits(int64_t a) {
  return a >= 0 && a <= INT_MAX;
}

static const char *refusal(const falt_problem *p) {
  const falt_type type = p->input.type;
  const falt_tensor *y = &p->output;
  return p->operation != FALT_FORWARD                                          ? "only forward"
         : type != FALT_F32 && type != FALT_F64                                ? "only f32 and f64"
         : p->filter.type != type || y->type != type || p->accumulator != type ? "its types differ"
         : p->has_residual                                                     ? "residuals are not added here"
         : !falt_im2col_is_even(y)                                             ? "an image's results do not lie evenly"
         : !falt_im2col_is_by_row(y) && y->size[FALT_C] > 1 && y->stride[FALT_C] != 1
             ? "neither positions nor channels of the output are contiguous"
         : !fits(falt_im2col_positions(y)) || !fits(y->size[FALT_C]) || !fits(falt_tensor_count(&p->filter)) ||
                 (y->size[FALT_C] > 1 && !fits(y->stride[FALT_C])) || !fits(y->stride[FALT_W])
             ? "its matrices are too large for BLAS"
             : NULL;
}

/* ---- plan */

static size_t filter_bytes(const im2col_plan *plan) {
  const falt_tensor *w = &plan->base.problem.filter;
  return (size_t)(w->size[FALT_G] * w->size[FALT_K] * plan->depth) * plan->element;
}

static falt_plan *plan_im2col(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy};
  const falt_problem *p = ask->problem;
  if (strcmp(ask->budget->method, solver->name) != 0)
    return falt_refuse(ask, "runs only when it is named as the method");
  const char *reason = refusal(p);
  if (reason) return falt_refuse(ask, "%s", reason);
  const falt_blas *blas = falt_blas_load();
  if (!blas)
    return falt_refuse(ask, "no BLAS was found; install libopenblas0 or libblis4, or name one in FALTUNG_BLAS");
  im2col_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->blas = blas;
  plan->element = falt_type_size(p->input.type);
  plan->depth = p->filter.size[FALT_C] * p->filter.size[FALT_D] * p->filter.size[FALT_H] * p->filter.size[FALT_W];
  plan->positions = falt_im2col_positions(&p->output);
  plan->by_row = falt_im2col_is_by_row(&p->output);
  const int64_t most = (int64_t)ask->device->caches.l2 / 2 / plan->depth / (int64_t)plan->element;
  plan->bands = falt_ceil_div(plan->positions, falt_max(most, 16));
  plan->band = falt_ceil_div(plan->positions, plan->bands);
  plan->bands = falt_ceil_div(plan->positions, plan->band);
  plan->base.packed = ask->filter_values != NULL;
  falt_place_part(&plan->columns, (size_t)(plan->depth * plan->band) * plan->element);
  falt_rows_place(&plan->base.layout, ask->device, &plan->columns);
  plan->filter = falt_place_part(&plan->base.layout, plan->base.packed ? 0 : filter_bytes(plan));
  plan->base.workspace = plan->base.layout.total;
  const double columns = (double)p->output.size[FALT_N] * (double)p->output.size[FALT_G] * (double)plan->depth *
                         (double)plan->positions * (double)plan->element;
  plan->base.cost.seconds =
      falt_roofline(ask->device, p->input.type, falt_problem_flops(p), 0.5, falt_problem_bytes(p) + 2 * columns);
  if (!plan->base.packed) return &plan->base;
  plan->packed = falt_alloc(filter_bytes(plan));
  if (plan->packed) {
    pack(plan, ask->filter_values, plan->packed);
    return &plan->base;
  }
  destroy(&plan->base);
  return falt_refuse_memory(ask);
}

extern const falt_solver falt_solver_im2col;
const falt_solver falt_solver_im2col = {
    .name = "im2col", .device_kind = "cpu", .plan = plan_im2col, .only_by_name = true};
