/* Cuts a problem into slabs. */
#include "api/slabs.h"

#include <string.h>

/* The cut is along the batch, the channels of filters (groups that share their taps), or an axis: along the outermost
 * one in memory, so that a row of the cut (an image, a plane, a line) is one run of bytes. If one image is too large
 * for a slab, images are processed one by one and the cut is along an axis. All slabs have the same number of rows, so
 * one plan serves all: the last slab starts earlier instead of being shorter, and its recomputed rows are not copied.
 * Along an axis the slab's input has a halo and, beyond the ends, the rows that the boundary puts there. */

enum { ROW_ALIGN = 16, WORTH = 16 }; /* a slab has at least WORTH times the rows of its halo, if memory allows */

/* ---- which operands a problem reads and writes in rows */

static bool goes_back(const falt_problem *p) {
  return falt_problem_factor(p, 0) == &p->output;
}

static const falt_tensor *source_of(const falt_problem *p) {
  return falt_problem_factor(p, 0);
}

/* Bytes from a tensor's lowest element to its highest, with the dimensions of `walked` and `dim` at one index. */
static int64_t span_bytes(const falt_tensor *tensor, const bool walked[FALT_D], int dim) {
  int64_t elements = 1;
  for (int i = 0; i < FALT_DIMS; i++) {
    const int64_t stride = tensor->stride[i] < 0 ? -tensor->stride[i] : tensor->stride[i];
    if (i != dim && !(i < FALT_D && walked[i])) elements += (tensor->size[i] - 1) * stride;
  }
  return elements * (int64_t)falt_type_size(tensor->type);
}

static bool has_gaps(const falt_tensor *tensor, const bool walked[FALT_D], int dim) {
  int64_t elements = 1;
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != dim && !(i < FALT_D && walked[i])) elements *= tensor->size[i];
  return span_bytes(tensor, walked, dim) != elements * (int64_t)falt_type_size(tensor->type);
}

/* Whether a tensor's rows along dim are consecutive. */
static bool in_rows(const falt_tensor *tensor, const bool walked[FALT_D], int dim) {
  return tensor->stride[dim] * (int64_t)falt_type_size(tensor->type) >= span_bytes(tensor, walked, dim);
}

static bool shares_filter(const falt_problem *p) {
  return falt_is_pooling(p->operation) || p->filter.size[FALT_G] == 1 || p->filter.stride[FALT_G] == 0;
}

static bool independent(const falt_problem *p, int dim) {
  if (p->operation == FALT_BACKWARD_FILTER || p->operation == FALT_BACKWARD_MAXPOOL) return false;
  if (dim == FALT_N) return true;
  if (dim == FALT_G) return shares_filter(p) && !p->has_bias && !p->has_scale;
  return p->operation == FALT_FORWARD;
}

static bool can_cut(const falt_problem *p, const bool walked[FALT_D], int dim) {
  const falt_tensor *result = falt_problem_result(p);
  return independent(p, dim) && in_rows(source_of(p), walked, dim) && in_rows(result, walked, dim) &&
         !has_gaps(result, walked, dim) && (!p->has_residual || in_rows(&p->residual, walked, dim));
}

/* ---- the cut */

static bool is_axis(int dim) {
  return dim >= FALT_D;
}

/* Bytes of a slab with no rows, its halo alone, and of each row of its result. False if they cannot be counted. */
static bool weigh(const falt_slabs *s, int64_t *fixed, int64_t *each) {
  const falt_problem *p = s->problem;
  const int64_t source = span_bytes(source_of(p), s->walked, s->dim);
  const falt_axis *axis = &p->axis[is_axis(s->dim) ? s->dim - FALT_D : 0];
  const int64_t stride = is_axis(s->dim) ? axis->stride : 1;
  const int64_t extent = is_axis(s->dim) ? falt_extent(axis, p->filter.size[s->dim]) : 1;
  int64_t rows = span_bytes(falt_problem_result(p), s->walked, s->dim);
  if (p->has_residual) rows += span_bytes(&p->residual, s->walked, s->dim);
  return falt_mul(falt_max(extent - stride, 0), source, fixed) && falt_mul(stride, source, each) &&
         falt_mul(*each, is_axis(s->dim) ? p->pool[s->dim - FALT_D] : 1, each) && falt_add(*each, rows, each) &&
         *fixed <= INT64_MAX / WORTH;
}

/* Takes dim as the one to cut. */
static bool take(falt_slabs *s, int dim, int64_t wanted, int64_t most, int64_t *each) {
  int64_t fixed;
  s->dim = dim;
  s->rows = falt_problem_result(s->problem)->size[dim];
  if (!weigh(s, &fixed, each)) return false;
  const int64_t step = falt_max((wanted - fixed) / *each, WORTH * fixed / *each);
  s->step = falt_min(falt_max(falt_min(step, (most - fixed) / *each), 1), s->rows);
  return true;
}

bool falt_slabs_cut(falt_slabs *slabs, const falt_problem *problem, int64_t wanted, int64_t most) {
  const falt_tensor *result = falt_problem_result(problem);
  int axis = FALT_D, dims[] = {FALT_N, FALT_G, FALT_W};
  while (axis < FALT_W && result->size[axis] == 1 && problem->input.size[axis] == 1) axis++;
  dims[2] = axis;
  *slabs = (falt_slabs){.problem = problem, .goes_back = goes_back(problem), .dim = -1};
  falt_slabs trial = *slabs;
  int64_t each = INT64_MAX;
  for (int i = 0; i < 3 && each > wanted; i++) {
    if (result->size[dims[i]] == 1 || !can_cut(problem, trial.walked, dims[i])) continue;
    if (!take(&trial, dims[i], wanted, most, &each)) break;
    *slabs = trial;
    if (i < 2) trial.walked[dims[i]] = true; /* one at a time, if these are still too large */
  }
  if (slabs->dim < 0) return false;
  slabs->count = falt_ceil_div(slabs->rows, slabs->step);
  for (int i = FALT_N; i <= FALT_G; i++)
    if (slabs->walked[i]) slabs->count *= result->size[i];
  return true;
}

/* ---- one slab */

/* A tensor on a buffer of the device: rows at their own pitch, no further than they need. */
static void place(falt_tensor *tensor, const falt_slab_rows *rows, int dim) {
  tensor->stride[dim] = rows->there_pitch / (int64_t)falt_type_size(tensor->type);
  tensor->offset = falt_tensor_lowest_offset(tensor);
}

/* The rows of an operand at the given indices of the outer dimensions. */
static falt_slab_rows rows_of(const falt_slabs *s, const falt_tensor *tensor, const int64_t at[FALT_D]) {
  const int64_t element = (int64_t)falt_type_size(tensor->type);
  falt_slab_rows rows = {.here_pitch = tensor->stride[s->dim] * element,
                         .row_bytes = span_bytes(tensor, s->walked, s->dim),
                         .size = tensor->size[s->dim]};
  int64_t lowest = tensor->offset;
  for (int i = 0; i < FALT_DIMS; i++) {
    const bool walked = i < FALT_D && s->walked[i];
    if (walked)
      lowest += at[i] * tensor->stride[i];
    else if (i != s->dim && tensor->stride[i] < 0)
      lowest += (tensor->size[i] - 1) * tensor->stride[i];
  }
  rows.here = lowest * element;
  const bool dense = rows.here_pitch < rows.row_bytes + ROW_ALIGN;
  rows.there_pitch = dense ? rows.here_pitch : falt_round_up(rows.row_bytes, ROW_ALIGN);
  return rows;
}

/* The index of a slab as indices of the walked dimensions and a first row. */
static int64_t locate(const falt_slabs *s, int64_t index, int64_t at[FALT_D]) {
  const int64_t along = falt_ceil_div(s->rows, s->step), first = index % along * s->step;
  index /= along;
  for (int i = FALT_D; i-- > 0;) {
    at[i] = 0;
    if (!s->walked[i]) continue;
    const int64_t size = falt_problem_result(s->problem)->size[i];
    at[i] = index % size;
    index /= size;
  }
  return first;
}

static void cut_batch(falt_problem *p, int dim, int64_t count) {
  p->input.size[dim] = p->output.size[dim] = count;
  if (p->has_residual) p->residual.size[dim] = count;
  if (dim == FALT_G) p->filter.size[dim] = count;
}

static void set_range(falt_slab_rows *rows, int64_t first, int64_t count, int64_t skip) {
  rows->first = first;
  rows->count = count;
  rows->skip = skip;
}

falt_status falt_slab_describe(const falt_slabs *s, int64_t index, falt_slab *slab) {
  const falt_problem *p = s->problem;
  int64_t at[FALT_D];
  const int64_t fresh = locate(s, index, at), begin = falt_min(fresh, s->rows - s->step);
  falt_part part = {.first = begin, .last = begin + s->step, .problem = *p};
  if (is_axis(s->dim))
    FALT_TRY(falt_problem_part(&part, p, s->dim - FALT_D, begin, s->step));
  else
    cut_batch(&part.problem, s->dim, s->step);
  for (int i = FALT_N; i <= FALT_G; i++)
    if (s->walked[i]) cut_batch(&part.problem, i, 1);
  *slab = (falt_slab){.problem = part.problem,
                      .source = rows_of(s, source_of(p), at),
                      .result = rows_of(s, falt_problem_result(p), at)};
  set_range(&slab->source, part.first, part.last - part.first, 0);
  set_range(&slab->result, begin, s->step, fresh - begin);
  if (is_axis(s->dim)) slab->source.axis = &p->axis[s->dim - FALT_D];
  place(&slab->problem.input, goes_back(p) ? &slab->result : &slab->source, s->dim);
  place(&slab->problem.output, goes_back(p) ? &slab->source : &slab->result, s->dim);
  if (p->has_residual) {
    slab->residual = rows_of(s, &p->residual, at);
    set_range(&slab->residual, begin, s->step, 0);
    place(&slab->problem.residual, &slab->residual, s->dim);
  }
  falt_problem_canonical(&slab->problem);
  return FALT_OK;
}

/* ---- copies */

falt_slab_piece falt_slab_next(const falt_slab_rows *rows, int64_t at, int64_t end) {
  const int64_t row = rows->skip + at / rows->row_bytes, inside = at % rows->row_bytes, u = rows->first + row;
  const bool own = u >= 0 && u < rows->size;
  const int64_t stands = own || !rows->axis ? u : falt_axis_map(rows->axis, rows->size, u);
  const bool dense = rows->here_pitch == rows->row_bytes && rows->there_pitch == rows->row_bytes;
  const int64_t together = own && dense ? rows->size - u : 1;
  return (falt_slab_piece){.here = rows->here + stands * rows->here_pitch + inside,
                           .there = row * rows->there_pitch + inside,
                           .bytes = falt_min(together * rows->row_bytes - inside, end - at)};
}
