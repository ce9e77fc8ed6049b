/* Helpers of the solvers cuda-winograd and cuda-winograd-wgrad: forms, applicability, kernel arguments, the child that
 * multiplies, and launches. */
#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "solver/cuda/winograd/cuda_winograd.h"

const falt_cuda_winograd_form falt_cuda_winograd_forms[FALT_CUDA_WINOGRAD_FORMS] = {
    {"F(2,3)", 3, 2, {{28, {160, 256}, {3, 4}}, {28, {96, 256}, {4, 6}}}},
    {"F(4,3)", 3, 4, {{80, {320, 256}, {10, 8}}, {106, {512, 320}, {16, 10}}}},
    {"F(2,5)", 5, 2, {{60, {256, 512}, {6, 8}}, {180, {160, 1280}, {7, 32}}}},
    {"F(4,5)", 5, 4, {{160, {512, 1024}, {16, 20}}, {500, {2560, 4096}, {40, 64}}}}};

static bool is_wgrad(const falt_problem *p) {
  return p->operation == FALT_BACKWARD_FILTER;
}

/* ---- forms: an axis of one tap is not transformed */

static int64_t taps_along(const falt_problem *p, int axis) {
  return p->filter.size[FALT_H + axis];
}

bool falt_cuda_winograd_applies(const falt_cuda_winograd_form *f, const falt_problem *p) {
  return f->taps == falt_max(taps_along(p, 0), taps_along(p, 1));
}

int64_t falt_cuda_winograd_outputs(const falt_cuda_winograd_form *f, const falt_problem *p, int axis) {
  return taps_along(p, axis) > 1 ? f->outputs : 1;
}

int64_t falt_cuda_winograd_points(const falt_cuda_winograd_form *f, const falt_problem *p) {
  int64_t points = 1;
  for (int i = 0; i < 2; i++) points *= falt_cuda_winograd_outputs(f, p, i) + taps_along(p, i) - 1;
  return points;
}

double falt_cuda_winograd_error(const falt_cuda_winograd_form *f, const falt_problem *p, int64_t terms) {
  const bool both = taps_along(p, 0) > 1 && taps_along(p, 1) > 1;
  const falt_cuda_winograd_accuracy *a = &f->accuracy[both];
  const falt_type type = falt_cuda_winograd_type(p);
  if (type != FALT_F32) return ldexp(a->half[is_wgrad(p)], type == FALT_F16 ? -11 : -8);
  return terms < a->least[is_wgrad(p)] ? ldexp(a->error / sqrt((double)terms), -24) : 0;
}

void falt_cuda_winograd_print(const falt_cuda_winograd_form *f, const falt_problem *p, falt_text *text) {
  falt_text_add(text, "%s%s", f->name, taps_along(p, 0) == 1 ? " width" : taps_along(p, 1) == 1 ? " height" : "");
}

falt_type falt_cuda_winograd_type(const falt_problem *p) {
  return falt_problem_factor(p, 0)->type;
}

int64_t falt_cuda_winograd_vector(const falt_problem *p) {
  return 16 / (int64_t)falt_type_size(falt_cuda_winograd_type(p));
}

/* ---- applicable */

static bool has_steps(const falt_axis *axis) {
  return axis->stride != 1 || axis->dilation != 1;
}

static bool is_flat(const falt_problem *p) {
  return p->filter.size[FALT_D] == 1 && p->axis[0].stride == 1 && p->axis[0].pad[0] == 0 &&
         p->input.size[FALT_D] == p->output.size[FALT_D];
}

/* Kernels count positions, channels and planes in 32 bits. */
static bool small_sizes(const falt_problem *p) {
  const int64_t most = INT64_C(1) << 28;
  for (int i = FALT_G; i < FALT_DIMS; i++) {
    if (p->input.size[i] >= most || p->output.size[i] >= most) return false;
    if (i >= FALT_D && llabs(p->axis[i - FALT_D].pad[0]) >= most) return false;
  }
  return true;
}

static bool takes_types(const falt_problem *p) {
  const falt_type type = falt_problem_factor(p, 0)->type, result = falt_problem_result(p)->type;
  return (type == FALT_F32 || falt_type_is_half(type)) && falt_problem_factor(p, 1)->type == type &&
         (result == FALT_F32 || falt_type_is_half(result)) && p->accumulator == FALT_F32 &&
         (!p->has_residual || falt_type_fits_f32(p->residual.type));
}

static bool takes_taps(const falt_problem *p) {
  const int64_t most = falt_max(taps_along(p, 0), taps_along(p, 1));
  for (int i = 0; i < 2; i++)
    if (taps_along(p, i) != most && taps_along(p, i) != 1) return false;
  return most == 3 || most == 5;
}

const char *falt_cuda_winograd_refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const bool pools = p->pool[0] > 1 || p->pool[1] > 1 || p->pool[2] > 1;
  return p->factors || pools ? "it computes layers of dense taps without pooling"
         : !takes_types(p)   ? "only f32, f16 and bf16, both factors in the same, with sums in f32"
         : !takes_taps(p)    ? "only filters of 3 or 5 taps along one axis, or along both"
         : has_steps(&p->axis[1]) || has_steps(&p->axis[2]) ? "only a stride and dilation of 1"
         : p->input.size[FALT_C] == 1 && p->output.size[FALT_C] == 1
             ? "one channel in and out of a group gives no matrix product"
         : !is_flat(p) ? "more than one tap, or padding, along the depth"
         : ask->budget->allow_tf32 && falt_cuda_winograd_type(p) == FALT_F32
             ? "its transforms would amplify the errors of tf32, which is allowed"
         : !small_sizes(p) ? "an axis or the channels are too long"
                           : NULL;
}

/* ---- arguments */

void falt_cuda_winograd_set_source(falt_cuda_winograd_args *a, const falt_problem *p, const falt_tensor *x) {
  const bool is_dgrad = p->operation == FALT_BACKWARD_DATA;
  a->x_image = falt_cuda_stride(x, FALT_N);
  a->x_plane = falt_cuda_stride(x, FALT_D);
  a->x_group = falt_cuda_stride(x, FALT_G);
  a->x_channel = falt_cuda_stride(x, FALT_C);
  a->channels = (int)x->size[FALT_C];
  a->groups = (int)x->size[FALT_G];
  a->planes = (int)x->size[FALT_D];
  for (int i = 0; i < 2; i++) {
    const falt_axis *axis = &p->axis[1 + i];
    a->x_axis[i] = falt_cuda_stride(x, FALT_H + i);
    a->in[i] = (int)x->size[FALT_H + i];
    a->pad[i] = (int)(is_dgrad ? taps_along(p, i) - 1 - axis->pad[0] : axis->pad[0]);
    for (int side = 0; side < 2; side++) a->boundary[i][side] = (int)axis->boundary[side];
  }
  a->filled = !is_dgrad;
  a->fill = is_dgrad ? 0 : (float)p->boundary_value;
}

void falt_cuda_winograd_set_result(falt_cuda_winograd_args *a, const falt_tensor *y, const falt_tensor *z) {
  a->y_image = falt_cuda_stride(y, FALT_N);
  a->y_plane = falt_cuda_stride(y, FALT_D);
  a->y_group = falt_cuda_stride(y, FALT_G);
  a->y_channel = falt_cuda_stride(y, FALT_C);
  a->r_image = falt_cuda_stride(z, FALT_N);
  a->r_plane = falt_cuda_stride(z, FALT_D);
  a->r_group = falt_cuda_stride(z, FALT_G);
  a->r_channel = falt_cuda_stride(z, FALT_C);
  a->rows = (int)y->size[FALT_C];
  for (int i = 0; i < 2; i++) {
    a->y_axis[i] = falt_cuda_stride(y, FALT_H + i);
    a->r_axis[i] = falt_cuda_stride(z, FALT_H + i);
    a->out[i] = (int)y->size[FALT_H + i];
  }
}

bool falt_cuda_winograd_set_tiles(falt_cuda_winograd_args *a, const falt_cuda_winograd_form *f, const falt_problem *p,
                                  int64_t images) {
  for (int i = 0; i < 2; i++) a->tile[i] = (int)falt_ceil_div(a->out[i], falt_cuda_winograd_outputs(f, p, i));
  const double tiles = (double)images * a->planes * a->tile[0] * a->tile[1], rows = fmax(a->channels, a->rows);
  if (tiles >= 0x1p28 || fmax(tiles, rows) * rows * a->groups >= 0x1p34) return false;
  a->images = images;
  a->tiles = (int64_t)tiles;
  return true;
}

/* ---- the child */

static void set_matrices(falt_tensor *t, int row, int64_t rows, int64_t depth, int64_t matrices) {
  t->size[row] = rows;
  t->size[FALT_G] = matrices;
  t->size[FALT_C] = depth;
  t->stride[row] = depth;
  t->stride[FALT_G] = rows * depth;
}

falt_problem falt_cuda_winograd_products(falt_type type, int64_t matrices, int64_t far, int64_t near, int64_t depth) {
  falt_problem inner;
  falt_problem_default(&inner);
  inner.space = 1;
  inner.input.type = inner.filter.type = type;
  inner.output.type = FALT_F32;
  set_matrices(&inner.input, FALT_W, far, depth, matrices);
  set_matrices(&inner.filter, FALT_K, near, depth, matrices);
  set_matrices(&inner.output, FALT_W, far, near, matrices);
  falt_problem_canonical(&inner);
  return inner;
}

/* ---- kernels */

int64_t falt_cuda_winograd_blocks(int64_t near, int64_t far, int lanes, int64_t groups) {
  return falt_ceil_div(near, lanes) * falt_ceil_div(far, FALT_WINOGRAD_THREADS / lanes) * groups;
}

void falt_cuda_winograd_start(falt_gpu *gpu, falt_cu_function function, int64_t blocks, falt_cuda_winograd_args *args,
                              void *stream) {
  static const int one[2] = {1, 1};
  void *parameters[] = {args};
  const falt_gpu_launch launch = {function, blocks, {FALT_WINOGRAD_THREADS, 1}, 0, stream};
  falt_gpu_start_early(gpu, &launch, one, parameters);
}

falt_cuda_kernel falt_cuda_winograd_kernel(const falt_problem *p, const falt_cuda_winograd_form *f, const char *source,
                                           const char *entry, int lanes) {
  falt_cuda_kernel kernel = {.source = source, .entry = entry};
  const int type = (int)falt_cuda_winograd_type(p);
  const falt_cuda_named_define defines[] = {{"TAPS_H", (int)taps_along(p, 0)},
                                            {"OUTPUTS_H", (int)falt_cuda_winograd_outputs(f, p, 0)},
                                            {"TAPS_W", (int)taps_along(p, 1)},
                                            {"OUTPUTS_W", (int)falt_cuda_winograd_outputs(f, p, 1)},
                                            {"TYPE", type},
                                            {"LANES", lanes},
                                            {"FOLD", p->operation != FALT_BACKWARD_DATA && falt_igemm_folds(p)}};
  falt_cuda_defines(&kernel, defines, sizeof defines / sizeof *defines);
  return kernel;
}

/* ---- magnitudes */

bool falt_cuda_winograd_scales(const falt_problem *p) {
  return falt_cuda_winograd_type(p) == FALT_F16;
}

falt_status falt_cuda_winograd_find_kernels(falt_gpu *gpu, const falt_problem *p, falt_cuda_winograd_finders *f) {
  const struct {
    falt_cu_function *function;
    const char *entry;
    falt_type type;
  } kernels[] = {{&f->parts, "falt_winograd_largest", FALT_F16},
                 {&f->all, "falt_winograd_largest", FALT_F32},
                 {&f->rows, "falt_winograd_largest_rows", FALT_F16}};
  for (int i = 0; i < 3 && falt_cuda_winograd_scales(p); i++) {
    falt_cuda_kernel kernel = {.source = "cuda_winograd_largest.cu", .entry = kernels[i].entry};
    falt_cuda_define(&kernel, "TYPE=%d", (int)kernels[i].type);
    FALT_TRY(falt_gpu_kernel(gpu, &kernel, kernels[i].function));
  }
  return FALT_OK;
}

/* Adds a dimension outwards; one that follows on the last one without a gap lengthens it, if it may. */
static void add_dimension(falt_cuda_winograd_largest_args *a, int64_t size, int64_t stride, bool merges) {
  const int last = a->dims - 1;
  if (merges && last >= 0 && a->stride[last] * a->size[last] == stride) {
    a->size[last] *= size;
    return;
  }
  a->size[a->dims] = size;
  a->stride[a->dims++] = stride;
}

/* Adds those of `dims` with more than one element, in the order of their strides. */
static void add_dimensions(falt_cuda_winograd_largest_args *a, const falt_tensor *t, const int *dims, int count) {
  int64_t before = 0;
  for (;;) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < count; i++) {
      const int64_t stride = llabs(t->stride[dims[i]]);
      if (t->size[dims[i]] > 1 && stride > before) least = falt_min(least, stride);
    }
    if (least == INT64_MAX) break;
    for (int i = 0; i < count; i++)
      if (t->size[dims[i]] > 1 && llabs(t->stride[dims[i]]) == least)
        add_dimension(a, t->size[dims[i]], t->stride[dims[i]], true);
    before = least;
  }
  if (a->dims == 0) add_dimension(a, 1, 1, false);
}

static void start_blocks(falt_gpu *gpu, falt_cu_function function, int64_t blocks, falt_cuda_winograd_largest_args *a,
                         void *stream) {
  static const int one[2] = {1, 1};
  void *parameters[] = {a};
  const falt_gpu_launch launch = {function, blocks, {2 * FALT_WINOGRAD_THREADS, 1}, 0, stream};
  falt_gpu_start_early(gpu, &launch, one, parameters);
}

static void find(falt_gpu *gpu, falt_cu_function function, int64_t blocks, falt_cuda_winograd_largest_args *a,
                 void *stream) {
  a->all_pieces = falt_ceil_div(a->size[0], FALT_WINOGRAD_PIECE);
  for (int i = 1; i < a->dims; i++) a->all_pieces *= a->size[i];
  a->pieces = falt_ceil_div(a->all_pieces, blocks);
  start_blocks(gpu, function, blocks, a, stream);
}

void falt_cuda_winograd_find_largest(falt_gpu *gpu, const falt_cuda_winograd_finders *f, const falt_tensor *t,
                                     const void *data, double constant, float *largest, void *stream) {
  static const int dims[] = {FALT_N, FALT_G, FALT_C, FALT_D, FALT_H, FALT_W};
  const double least = fabs(constant);
  float *parts = largest + FALT_WINOGRAD_LARGEST - FALT_WINOGRAD_PARTS;
  falt_cuda_winograd_largest_args a = {.data = data, .largest = parts, .least = least <= 65504 ? (float)least : 0};
  add_dimensions(&a, t, dims, FALT_DIMS);
  find(gpu, f->parts, FALT_WINOGRAD_PARTS, &a, stream);
  falt_cuda_winograd_largest_args all = {.data = parts, .largest = largest};
  add_dimension(&all, FALT_WINOGRAD_PARTS, 1, false);
  find(gpu, f->all, 1, &all, stream);
}

size_t falt_cuda_winograd_rows_bytes(const falt_tensor *w, int row) {
  return (size_t)(1 + FALT_WINOGRAD_SPLITS) * (size_t)w->size[row] * (size_t)w->size[FALT_G] * sizeof(float);
}

/* Output channels are neighbours: parts of 32 of them, and then of each all parts. */
static void find_near_rows(falt_gpu *gpu, const falt_cuda_winograd_finders *f, falt_cuda_winograd_largest_args *a,
                           float *largest, void *stream) {
  const int64_t rows = (int64_t)a->rows * a->groups;
  a->largest = largest + rows;
  a->all_pieces = 1;
  for (int i = 0; i < a->dims; i++) a->all_pieces *= a->size[i];
  a->pieces = falt_ceil_div(a->all_pieces, FALT_WINOGRAD_SPLITS);
  start_blocks(gpu, f->rows, falt_ceil_div(a->rows, 32) * a->groups * FALT_WINOGRAD_SPLITS, a, stream);
  falt_cuda_winograd_largest_args all = {.data = a->largest, .largest = largest};
  add_dimension(&all, FALT_WINOGRAD_SPLITS, rows, false);
  add_dimension(&all, rows, 1, false);
  find(gpu, f->all, rows, &all, stream);
}

void falt_cuda_winograd_find_rows(falt_gpu *gpu, const falt_cuda_winograd_finders *f, const falt_tensor *w, int row,
                                  const void *data, float *largest, void *stream) {
  const int dims[] = {row == FALT_K ? FALT_C : FALT_K, FALT_D, FALT_H, FALT_W};
  falt_cuda_winograd_largest_args a = {.data = data,
                                       .largest = largest,
                                       .row = falt_cuda_stride(w, row),
                                       .group = falt_cuda_stride(w, FALT_G),
                                       .rows = (int)w->size[row],
                                       .groups = (int)w->size[FALT_G]};
  add_dimensions(&a, w, dims, 4);
  if (llabs(a.row) < llabs(a.stride[a.dims - 1])) {
    find_near_rows(gpu, f, &a, largest, stream);
    return;
  }
  add_dimension(&a, a.rows, a.row, false);
  add_dimension(&a, a.groups, a.group, false);
  find(gpu, f->parts, (int64_t)a.rows * a.groups, &a, stream);
}
