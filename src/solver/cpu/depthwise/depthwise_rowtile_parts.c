/* Helpers of the row tile solvers: applicability and blocks. */
#include "solver/cpu/depthwise/depthwise_rowtile.h"

/* ---- which problems */

/* Taps of dilation 1, or three of dilation 2; zero padding. */
static bool is_plain(const falt_axis *a, int64_t taps) {
  return a->dilation == 1 && (a->stride == 1 || (a->stride == 2 && taps == 3)) && a->boundary[0] == FALT_CONSTANT &&
         a->boundary[1] == FALT_CONSTANT;
}

/* Columns beyond the last that the last output reads. */
static int64_t beyond(const falt_problem *p) {
  const falt_axis *a = &p->axis[2];
  return (p->output.size[FALT_W] - 1) * a->stride - a->pad[0] + p->filter.size[FALT_W] - p->input.size[FALT_W];
}

const char *falt_depthwise_block_refusal(const falt_problem *p, const falt_block_kernels *kernels) {
  const falt_axis *height = &p->axis[1], *width = &p->axis[2];
  const int64_t taps = p->filter.size[FALT_W];
  return p->is_filter                   ? "only layers"
         : falt_depthwise_is_grouped(p) ? "a group has more than one channel in and out"
         : p->filter.size[FALT_D] != 1 || p->output.size[FALT_D] != 1 || p->axis[0].pad[0] != 0
             ? "planes of their own only"
         : !falt_block_has(p->input.type, taps) || p->filter.size[FALT_H] != taps
             ? "not so many taps of a type as there are kernels for"
         : !is_plain(height, taps) || !is_plain(width, taps) || height->stride != width->stride ||
                 p->boundary_value != 0
             ? "not stride 1, or 2 of 3x3 taps, among zeros"
         : width->pad[0] > taps / 2 || beyond(p) > taps / 2 ? "more columns outside than half of the taps"
         : !falt_tensor_unit(&p->input, FALT_G) || !falt_tensor_unit(&p->output, FALT_G)
             ? "channels are not adjacent in memory"
         : p->input.type == FALT_F16 && kernels->width < 8 ? "no instruction upconverts f16"
         : p->input.size[FALT_G] < kernels->width          ? "fewer channels than a vector"
                                                           : NULL;
}

/* ---- blocks */

falt_layer_pieces falt_depthwise_block_cut(const falt_problem *p, const falt_device *device,
                                           const falt_block_kernels *kernels, int64_t wanted) {
  const int64_t vectors = p->input.size[FALT_G] / kernels->width;
  const double vector = (double)p->input.size[FALT_W] * kernels->width * (double)falt_type_size(p->input.type);
  const double most = (double)device->caches.l2 / 2 / (FALT_BLOCK_LINES * vector);
  const int64_t line = falt_max(1, FALT_ALIGN / kernels->width);
  const int64_t fit = most >= (double)vectors ? vectors : falt_max(line, (int64_t)most);
  return falt_layer_cut(vectors, falt_max(falt_ceil_div(vectors, fit), falt_min(vectors, wanted)));
}

/* Lines under the windows of output rows [row, row + count) of an image; NULL outside. */
static void list_lines(const falt_problem *p, const char *x, int64_t image, int64_t row, int64_t count,
                       const void **lines) {
  const falt_axis *axis = &p->axis[1];
  const int64_t first = row * axis->stride - axis->pad[0], size = (int64_t)falt_type_size(p->input.type);
  for (int64_t i = 0; i < (count - 1) * axis->stride + p->filter.size[FALT_H]; i++) {
    const bool inside = first + i >= 0 && first + i < p->input.size[FALT_H];
    lines[i] = inside ? x + falt_tensor_at(&p->input, image, 0, 0, 0, first + i, 0) * size : NULL;
  }
}

falt_block falt_depthwise_block_of(const falt_problem *p, const falt_block_kernels *kernels,
                                   const falt_layer_pieces *blocks, int64_t index, const void *x, int64_t group) {
  const bool last = index + 1 == blocks->count;
  const int64_t groups = falt_depthwise_block_groups(p), row = group % groups * falt_block_rows(p->filter.size[FALT_H]);
  falt_block block = {
      .type = p->input.type,
      .taps = (int)p->filter.size[FALT_W],
      .stride = (int)p->axis[2].stride,
      .pixel = p->input.stride[FALT_W],
      .width = p->input.size[FALT_W],
      .before = p->axis[2].pad[0],
      .positions = p->output.size[FALT_W],
      .channels = p->input.size[FALT_G],
      .vector = falt_layer_piece(blocks, index),
      .vectors = last ? falt_ceil_div(p->input.size[FALT_G], kernels->width) : falt_layer_piece(blocks, index + 1),
      .rows = (int)falt_min(falt_block_rows(p->filter.size[FALT_H]), p->output.size[FALT_H] - row)};
  list_lines(p, x, group / groups, row, block.rows, block.lines);
  return block;
}

void falt_depthwise_block_rows(const falt_problem *p, const void *y, int64_t group, const void *rows[FALT_BLOCK_ROWS]) {
  const int64_t groups = falt_depthwise_block_groups(p),
                first = group % groups * falt_block_rows(p->filter.size[FALT_H]);
  const int64_t size = (int64_t)falt_type_size(p->output.type);
  for (int64_t r = 0; r < falt_block_rows(p->filter.size[FALT_H]) && first + r < p->output.size[FALT_H]; r++)
    rows[r] = (const char *)y + falt_tensor_at(&p->output, group / groups, 0, 0, 0, first + r, 0) * size;
}

/* ---- estimates */

/* The additional cost of a narrow element, in operations. */
static const double upconverting = 3, narrowing = 4;

double falt_depthwise_block_flops(const falt_problem *p, const falt_block_kernels *kernels) {
  const double channels = (double)p->input.size[FALT_G];
  const double lanes = (double)(falt_ceil_div(p->input.size[FALT_G], kernels->width) * kernels->width) / channels;
  const double rows = (double)(falt_depthwise_block_groups(p) * falt_block_rows(p->filter.size[FALT_H])) /
                      (double)p->output.size[FALT_H];
  double flops = falt_problem_flops(p) * falt_depthwise_inside(p, 1) * falt_depthwise_inside(p, 2) * lanes * rows;
  if (p->input.type != FALT_F32) flops += upconverting * (double)falt_tensor_count(&p->input);
  if (p->output.type != FALT_F32) flops += narrowing * (double)falt_tensor_count(&p->output);
  return flops;
}
