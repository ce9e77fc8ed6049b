/* Row access of the filter solvers: problems as rows, loads and stores of rows, tasks and workers. row_window.c has the
 * windows, row_taps.c the taps. */
#include "solver/cpu/common/rows.h"

#include <math.h>

/* ------------------------------------------------------------------------------------------ the problem in rows */

static bool clips(const falt_problem *problem, falt_row_epilogue *epilogue) {
  epilogue->low = -INFINITY;
  epilogue->high = INFINITY;
  switch (problem->activation) {
    case FALT_IDENTITY:
      return true;
    case FALT_RELU:
      epilogue->low = 0;
      return true;
    case FALT_RELU6:
      epilogue->low = 0;
      epilogue->high = 6;
      return true;
    case FALT_CLIP:
      epilogue->low = problem->act_a;
      epilogue->high = problem->act_b;
      return true;
    default:
      return false;
  }
}

/* Whether the groups of a tensor are the colours of its pixels. */
static bool interleaved(const falt_tensor *tensor) {
  return tensor->stride[FALT_G] == 1 && tensor->stride[FALT_W] == tensor->size[FALT_G];
}

static bool one_filter(const falt_tensor *filter) {
  return filter->size[FALT_G] == 1 || filter->stride[FALT_G] == 0;
}

static void copy_strides(int64_t to[5], const falt_tensor *tensor) {
  static const int dims[5] = {FALT_N, FALT_G, FALT_D, FALT_H, FALT_W};
  for (int i = 0; i < 5; i++) to[i] = tensor->stride[dims[i]];
}

static void copy_shape(falt_rows *rows, const falt_problem *problem) {
  const falt_tensor *in = &problem->input, *out = &problem->output;
  for (int i = 0; i < 3; i++) {
    rows->in[i] = in->size[FALT_D + i];
    rows->out[i] = out->size[FALT_D + i];
    rows->taps[i] = problem->filter.size[FALT_D + i];
    rows->axis[i] = problem->axis[i];
  }
  copy_strides(rows->in_stride, in);
  copy_strides(rows->out_stride, out);
  rows->in_offset = in->offset;
  rows->out_offset = out->offset;
  rows->batch = in->size[FALT_N];
  rows->groups = in->size[FALT_G];
  rows->pixel = 1;
  if (rows->groups > 1 && rows->axis[2].stride == 1 && interleaved(in) && interleaved(out) &&
      one_filter(&problem->filter)) {
    rows->pixel = rows->groups;
    rows->groups = 1;
  }
}

/* Whether neighbours along x are adjacent: one pixel apart, or a single position. */
static bool adjacent(int64_t stride, int64_t size, int64_t pixel) {
  return stride == pixel || (size == 1 && pixel == 1);
}

const char *falt_rows_init(falt_rows *rows, const falt_problem *problem, falt_isa isa, const void *values) {
  *rows = (falt_rows){.in_type = problem->input.type, .out_type = problem->output.type};
  rows->in_size = (int64_t)falt_type_size(rows->in_type);
  rows->out_size = (int64_t)falt_type_size(rows->out_type);
  rows->epilogue.alpha = problem->alpha;
  rows->epilogue.beta = problem->beta;
  rows->boundary_value = problem->boundary_value;
  if (problem->operation != FALT_FORWARD) return "it is not a forward convolution";
  if (problem->filter.size[FALT_C] != 1) return "it sums over channels";
  if (problem->filter.size[FALT_K] != 1) return "a group has several output channels";
  if (problem->has_scale || problem->has_bias || problem->has_residual)
    return "scale, bias and residual are not for it";
  if (!clips(problem, &rows->epilogue)) return "the activation is not a clip";
  rows->lane = falt_rows_lane(problem, values);
  if (rows->lane == FALT_LANE_COUNT) return "these integers' sums may need more than 53 bits";
  falt_type type = falt_lane_type(rows->lane);
  rows->lane_size = falt_type_size(type);
  rows->kernels = falt_filter_kernels_for(isa);
  copy_shape(rows, problem);
  bool plain = problem->alpha == 1 && problem->beta == 0 && problem->activation == FALT_IDENTITY;
  rows->in_place =
      rows->in_type == type && adjacent(rows->in_stride[4], rows->in[2], rows->pixel) && rows->axis[2].stride == 1;
  rows->out_place = rows->out_type == type && adjacent(rows->out_stride[4], rows->out[2], rows->pixel) && plain;
  return NULL;
}

/* ------------------------------------------------------------------------------------------------- rows in, rows out
 */

static int64_t slice_at(const falt_rows *rows, const int64_t stride[5], int64_t slice) {
  return slice / rows->groups * stride[0] + slice % rows->groups * stride[1];
}

const void *falt_rows_source(const falt_rows *rows, const void *input, int64_t slice, int64_t z, int64_t y) {
  int64_t d = falt_axis_map(&rows->axis[0], rows->in[0], z), h = falt_axis_map(&rows->axis[1], rows->in[1], y);
  if (d < 0 || h < 0) return NULL;
  int64_t at =
      rows->in_offset + slice_at(rows, rows->in_stride, slice) + d * rows->in_stride[2] + h * rows->in_stride[3];
  return (const char *)input + at * rows->in_size;
}

void falt_rows_sources(const falt_rows *rows, const void *input, int64_t slice, int64_t z, int64_t y, int64_t step,
                       int64_t count, const void *constant, const void **list) {
  int64_t d = falt_axis_map(&rows->axis[0], rows->in[0], z), size = rows->in_size;
  int64_t base = rows->in_offset + slice_at(rows, rows->in_stride, slice) + d * rows->in_stride[2];
  for (int64_t i = 0; i < count; i++, y += step) {
    int64_t h = y;
    if (h < 0 || h >= rows->in[1]) h = falt_axis_map(&rows->axis[1], rows->in[1], y);
    list[i] = d < 0 || h < 0 ? constant : (const char *)input + (base + h * rows->in_stride[3]) * size;
  }
}

static void fill(const falt_rows *rows, void *dst, int64_t begin, int64_t end) {
  int64_t first = begin * rows->pixel, last = end * rows->pixel;
  if (rows->lane == FALT_LANE_F32)
    for (int64_t i = first; i < last; i++) ((float *)dst)[i] = (float)rows->boundary_value;
  else
    for (int64_t i = first; i < last; i++) ((double *)dst)[i] = rows->boundary_value;
}

static void load_run(const falt_rows *rows, const void *source, const falt_row_run *run, char *dst) {
  void (*load)(void *, const void *, int64_t, int64_t) = rows->kernels->load[rows->lane][rows->in_type];
  int64_t stride = rows->in_stride[4], size = rows->in_size, pixel = rows->pixel;
  int64_t count = run->end - run->begin, lane = (int64_t)rows->lane_size;
  const char *from = (const char *)source + run->at * stride * size;
  char *to = dst + run->begin * pixel * lane;
  if (run->at < 0) {
    fill(rows, dst, run->begin, run->end);
  } else if (pixel == 1) {
    load(to, from, run->by * stride, count);
  } else if (run->by == 1) {
    load(to, from, 1, count * pixel);
  } else {
    for (int64_t v = 0; v < count; v++) load(to + v * pixel * lane, from + v * run->by * stride * size, 1, pixel);
  }
}

/* The run from `begin` on. */
static falt_row_run next_run(const falt_rows *rows, int64_t first, int64_t step, int64_t begin, int64_t count) {
  const falt_axis *axis = &rows->axis[2];
  int64_t size = rows->in[2], u = first + begin * step;
  falt_row_run run = {begin, count, falt_axis_map(axis, size, u), step};
  if (u >= 0 && u < size) {
    run.end = falt_min(count, begin + falt_ceil_div(size - u, step));
    return run;
  }
  if (u < 0) run.end = falt_min(count, begin + falt_ceil_div(-u, step)); /* at most up to the inside */
  if (run.at < 0) return run;
  int64_t last = run.end;
  run.end = begin + 1;
  if (run.end == last) return run;
  run.by = falt_axis_map(axis, size, u + step) - run.at;
  while (run.end < last && falt_axis_map(axis, size, first + run.end * step) == run.at + (run.end - begin) * run.by)
    run.end++;
  return run;
}

int falt_rows_runs(const falt_rows *rows, int64_t first, int64_t step, int64_t count, falt_row_run *runs, int most) {
  int found = 0;
  for (int64_t begin = 0; begin < count; begin = runs[found++].end) {
    if (found == most) return 0;
    runs[found] = next_run(rows, first, step, begin, count);
  }
  return found;
}

void falt_rows_load_runs(const falt_rows *rows, const void *source, const falt_row_run *runs, int count, void *dst) {
  for (int i = 0; i < count; i++) load_run(rows, source, &runs[i], dst);
}

void falt_rows_load(const falt_rows *rows, const void *source, int64_t first, int64_t step, int64_t count, void *dst) {
  if (!source) {
    fill(rows, dst, 0, count);
    return;
  }
  for (int64_t begin = 0; begin < count;) {
    falt_row_run run = next_run(rows, first, step, begin, count);
    load_run(rows, source, &run, dst);
    begin = run.end;
  }
}

void *falt_rows_target(const falt_rows *rows, void *output, int64_t slice, int64_t z, int64_t y, int64_t x) {
  const int64_t *stride = rows->out_stride;
  int64_t at = rows->out_offset + slice_at(rows, stride, slice) + z * stride[2] + y * stride[3] + x * stride[4];
  return (char *)output + at * rows->out_size;
}

void falt_rows_store(const falt_rows *rows, void *target, const void *sums, int64_t count, bool stream) {
  int64_t stride = rows->pixel > 1 ? 1 : rows->out_stride[4];
  rows->kernels->store[rows->lane][rows->out_type](target, stride, sums, count * rows->pixel, &rows->epilogue, stream);
}

void falt_rows_interior(const falt_rows *rows, int64_t low, int64_t high, int64_t *begin, int64_t *end) {
  falt_axis_interior(&rows->axis[2], rows->in[2], rows->taps[2], rows->out[2], begin, end);
  *begin = falt_min(falt_max(*begin, low), high);
  *end = falt_max(*begin, falt_min(*end, high));
}

void falt_rows_reach(const falt_rows *rows, int axis, int64_t low, int64_t high, int64_t *first, int64_t *count) {
  const falt_axis *a = &rows->axis[axis];
  *first = low * a->stride - a->pad[0];
  *count = (high - 1 - low) * a->stride + falt_extent(a, rows->taps[axis]);
}

/* ------------------------------------------------------------------------------------------------------------ tasks */

int64_t falt_rows_task_count(const falt_rows *rows, const int64_t block[3]) {
  int64_t count = rows->batch * rows->groups;
  for (int i = 0; i < 3; i++) count *= falt_ceil_div(rows->out[i], block[i]);
  return count;
}

falt_row_task falt_rows_task(const falt_rows *rows, const int64_t block[3], int64_t index) {
  falt_row_task task;
  for (int i = 2; i >= 0; i--) {
    int64_t blocks = falt_ceil_div(rows->out[i], block[i]);
    task.begin[i] = index % blocks * block[i];
    task.end[i] = falt_min(task.begin[i] + block[i], rows->out[i]);
    index /= blocks;
  }
  task.slice = index;
  return task;
}
