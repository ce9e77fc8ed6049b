/* Helpers of the solvers cuda-winograd and cuda-winograd-wgrad: forms, applicability, kernel arguments, the child that
 * multiplies, and launches. */
#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "solver/cuda/winograd/cuda_winograd.h"

const falt_cuda_winograd_form falt_cuda_winograd_forms[FALT_CUDA_WINOGRAD_FORMS] = {{"F(2,3)", 1, 28, 96, 256},
                                                                                    {"F(4,3)", 2, 106, 512, 320}};

double falt_cuda_winograd_error(const falt_cuda_winograd_form *f, int64_t terms, int64_t least) {
  return terms < least ? ldexp(f->error / sqrt((double)terms), -24) : 0;
}

int64_t falt_cuda_winograd_points(const falt_cuda_winograd_form *f) {
  const int64_t size = 2 * f->pairs + 2;
  return size * size;
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

const char *falt_cuda_winograd_refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const bool pools = p->pool[0] > 1 || p->pool[1] > 1 || p->pool[2] > 1;
  return p->factors || pools                               ? "it computes layers of dense taps without pooling"
         : !falt_problem_is_f32(p)                         ? "only f32"
         : p->has_residual && p->residual.type != FALT_F32 ? "only f32"
         : p->filter.size[FALT_H] != 3 || p->filter.size[FALT_W] != 3 ? "only filters of 3x3 taps"
         : has_steps(&p->axis[1]) || has_steps(&p->axis[2])           ? "only a stride and dilation of 1"
         : p->input.size[FALT_C] == 1 && p->output.size[FALT_C] == 1
             ? "one channel in and out of a group gives no matrix product"
         : !is_flat(p)             ? "more than one tap, or padding, along the depth"
         : ask->budget->allow_tf32 ? "its transforms would amplify the errors of tf32, which is allowed"
         : !small_sizes(p)         ? "an axis or the channels are too long"
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
    a->pad[i] = (int)(is_dgrad ? 2 - axis->pad[0] : axis->pad[0]);
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

bool falt_cuda_winograd_set_tiles(falt_cuda_winograd_args *a, const falt_cuda_winograd_form *f, int64_t images) {
  const int outputs = 2 * f->pairs;
  for (int i = 0; i < 2; i++) a->tile[i] = (int)falt_ceil_div(a->out[i], outputs);
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

falt_problem falt_cuda_winograd_products(int64_t matrices, int64_t far, int64_t near, int64_t depth) {
  falt_problem inner;
  falt_problem_default(&inner);
  inner.space = 1;
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
  falt_cuda_define(&kernel, "PAIRS=%d", f->pairs);
  falt_cuda_define(&kernel, "LANES=%d", lanes);
  falt_cuda_define(&kernel, "FOLD=%d", p->operation != FALT_BACKWARD_DATA && falt_igemm_folds(p));
  return kernel;
}
