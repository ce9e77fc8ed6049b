/* The layouts of operands that cuda_igemm_sm90.c takes, and what the tile search knows of a problem. */
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90.h"

#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/cuda_maps.h"

int64_t falt_igemm_sm90_pixels(const falt_tensor *t) {
  return t->size[FALT_D] * t->size[FALT_H] * t->size[FALT_W];
}

/* Whether rows follow on each other without a gap, and planes too. */
static bool has_dense_planes(const falt_tensor *t) {
  int64_t pixels = 1;
  for (int dim = FALT_W; dim >= FALT_D; dim--) {
    if (t->size[dim] > 1 && t->stride[dim] != pixels) return false;
    pixels *= t->size[dim];
  }
  return true;
}

/* Whether TMA may walk it by boxes of pixels of channels. */
bool falt_igemm_sm90_has_boxes(const falt_tensor *t) {
  falt_tensor planes = *t;
  for (int dim = FALT_D; dim < FALT_W; dim++) planes.size[dim] = 1;
  return falt_map_takes(&planes, FALT_W) && has_dense_planes(t) && falt_igemm_sm90_pixels(t) < INT32_MAX / 2;
}

/* The tensor whose pixels number the rows of the product (in wgrad its steps). */
const falt_tensor *falt_igemm_sm90_numbered(const falt_problem *p) {
  return p->operation == FALT_BACKWARD_DATA ? &p->input : &p->output;
}

/* Pixels of one store to such a tensor, up to 16 bytes; 0 if pixels are not contiguous. Pixels of polyphase parts are
 * not contiguous, and rows with gaps between them are stored pixel by pixel. */
static int pixels_as_one(const falt_problem *p, const falt_tensor *t) {
  const int64_t size = (int64_t)falt_type_size(t->type);
  bool apart = !has_dense_planes(t);
  for (int i = 0; i < 3; i++) apart = apart || (p->operation == FALT_BACKWARD_DATA && p->axis[i].stride > 1);
  for (int i = 0; i < FALT_DIMS; i++)
    if (falt_cuda_stride(t, i) < 0) return 0;
  if (!falt_tensor_unit(t, FALT_W) || t->offset * size % 16) return 0;
  int64_t unit = apart ? 1 : 16 / size;
  while (falt_cuda_stride(t, FALT_C) % unit || falt_cuda_stride(t, FALT_N) % unit || falt_igemm_sm90_pixels(t) % unit)
    unit /= 2;
  return (int)unit;
}

/* Pixels of one store for NCHW output; 0: NHWC; negative: neither. wgrad is stored element by element if channels are
 * not contiguous. */
int falt_igemm_sm90_planar(const falt_problem *p) {
  const falt_tensor *y = falt_problem_result(p);
  if (p->operation == FALT_BACKWARD_FILTER) return falt_map_takes(y, FALT_C) && y->size[FALT_C] % 4 == 0 ? 0 : 1;
  if (falt_map_takes(y, FALT_C)) return 0;
  int unit = pixels_as_one(p, y);
  if (p->has_residual) unit = (int)falt_min(unit, pixels_as_one(p, &p->residual));
  return unit > 0 ? unit : -1;
}

/* Whether each output has one tap, at its own place. */
static bool is_pointwise(const falt_problem *p) {
  for (int i = 0; i < 3; i++)
    if (p->filter.size[FALT_D + i] != 1 || p->axis[i].stride != 1 || p->axis[i].pad[0] != 0 ||
        p->input.size[FALT_D + i] != p->output.size[FALT_D + i])
      return false;
  return true;
}

/* The number of NCHW operands, which only one tap may read; negative: an operand is neither. Boxes that fill an image
 * require an NCHW output, and if one operand is loaded in im2col mode there may be none. */
int falt_igemm_sm90_lines(const falt_problem *p) {
  const bool by_filter = p->operation == FALT_BACKWARD_FILTER;
  const falt_tensor *x = falt_problem_factor(p, 0), *y = &p->output;
  const bool x_lines = !falt_map_takes(x, FALT_C), y_lines = by_filter && !falt_map_takes(y, FALT_C);
  const bool whole = falt_igemm_sm90_pixels(falt_igemm_sm90_numbered(p)) % FALT_IGEMM_SM90_SPAN == 0;
  if ((x_lines && (!is_pointwise(p) || !falt_igemm_sm90_has_boxes(x))) || (y_lines && !falt_igemm_sm90_has_boxes(y)))
    return -1;
  if (by_filter ? x_lines > y_lines || (x_lines < y_lines && !whole)
                : x_lines && !whole && falt_igemm_sm90_planar(p) < 1)
    return -1;
  return x_lines + y_lines;
}

static bool has_walkable_filter(const falt_problem *p) {
  return p->operation == FALT_BACKWARD_FILTER || falt_map_takes(&p->filter, FALT_C) ||
         falt_map_takes(&p->filter, FALT_K);
}

/* Whether 16 bytes divide a pixel's outputs: TMA writes no less, beyond the last channel too. */
static bool has_words(const falt_tensor *t) {
  return t->size[FALT_C] * (int64_t)falt_type_size(t->type) % 16 == 0;
}

/* ---- groups */

/* Makes images of a tensor's groups, and one axis of all pixels of a group; false if these are not at one distance. */
static bool take_groups(falt_tensor *t) {
  static const int outer[] = {FALT_H, FALT_D, FALT_N};
  for (int i = 0; i < 3; i++) {
    const int dim = outer[i];
    if (t->size[dim] == 1) continue;
    if (t->size[FALT_W] == 1) t->stride[FALT_W] = t->stride[dim];
    if (t->stride[dim] != t->size[FALT_W] * t->stride[FALT_W]) return false;
    t->size[FALT_W] *= t->size[dim];
    t->size[dim] = 1;
  }
  t->size[FALT_N] = t->size[FALT_G];
  t->stride[FALT_N] = t->stride[FALT_G];
  t->size[FALT_G] = 1;
  return true;
}

const char *falt_igemm_sm90_view(const falt_problem *p, falt_problem *view) {
  *view = *p;
  if (p->input.size[FALT_G] == 1) return NULL;
  const char *why = p->operation != FALT_FORWARD                     ? "gradients take one group of channels"
                    : !is_pointwise(p)                               ? "groups take one tap, no stride and no padding"
                    : p->has_bias || p->has_scale || p->has_residual ? "groups have no bias, scale or residual"
                    : !falt_map_takes(&p->input, FALT_C) || !falt_map_takes(&p->output, FALT_C)
                        ? "channels of groups are not contiguous, or strides are not multiples of 16 bytes"
                    : !take_groups(&view->input) || !take_groups(&view->output)
                        ? "pixels of a group are not at one distance"
                        : NULL;
  if (why) *view = *p, view->input.size[FALT_G] = 1;
  return why;
}

/* ---- applicable */

static const char *layout_refusal(const falt_problem *p, bool own_gaps) {
  return p->operation == FALT_BACKWARD_FILTER && p->has_bias ? "it has no bias gradient"
         : falt_igemm_sm90_lines(p) < 0 || falt_igemm_sm90_planar(p) < 0
             ? "channels are not contiguous, or strides are not multiples of 16 bytes"
         : p->operation != FALT_BACKWARD_FILTER && falt_igemm_sm90_planar(p) == 0 &&
                 !has_words(falt_problem_result(p)) && !own_gaps
             ? "pixels of the output are not multiples of 16 bytes"
         : p->has_residual && falt_igemm_sm90_planar(p) == 0 && !falt_map_takes(&p->residual, FALT_C)
             ? "the residual does not have the output's layout"
         : !has_walkable_filter(p)
             ? "the filter's channels are not contiguous, or strides are not multiples of 16 bytes"
             : NULL;
}

const char *falt_igemm_sm90_refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  falt_problem view;
  falt_ask viewed = *ask;
  if (falt_is_pooling(p->operation)) return "it computes layers and their gradients";
  const char *groups = falt_igemm_sm90_view(p, &view);
  viewed.problem = &view;
  const char *types = falt_map_type_refusal(&viewed, falt_problem_factor(p, 0)->type, falt_problem_factor(p, 1)->type);
  return types ? types : groups ? groups : layout_refusal(&view, ask->own_gaps);
}

/* ---- the tile search's problem */

/* Whether each pixel follows on the last one, from row to row and from image to image. */
static bool has_no_gaps(const falt_tensor *t) {
  static const int dims[] = {FALT_C, FALT_W, FALT_H, FALT_D, FALT_N};
  int64_t next = 1;
  for (int i = 0; i < 5; next *= t->size[dims[i++]])
    if (t->size[dims[i]] > 1 && t->stride[dims[i]] != next) return false;
  return true;
}

/* Whether neighbouring pixels' outputs may leave as one: as halves that nothing is added to. Where a pixel is whole
 * lines of 128 bytes, these are as fast. */
static bool are_whole(const falt_problem *p) {
  const falt_tensor *y = falt_problem_result(p);
  return p->operation != FALT_BACKWARD_FILTER && p->filter.size[FALT_G] == 1 && has_no_gaps(y) &&
         falt_igemm_sm90_lines(p) == 0 && !p->has_residual && falt_type_size(y->type) == 2 &&
         y->size[FALT_C] % 16 == 0 && y->size[FALT_C] % 64 != 0;
}

void falt_igemm_sm90_describe(const falt_problem *p, falt_igemm_sm90_problem *layer) {
  *layer = (falt_igemm_sm90_problem){.operation = (falt_igemm_sm90_operation)p->operation,
                                     .batch = p->input.size[FALT_N],
                                     .channels = p->input.size[FALT_C],
                                     .results = p->output.size[FALT_C],
                                     .axes = 1,
                                     .y_bytes = (int)falt_type_size(falt_problem_result(p)->type),
                                     .residual = p->has_residual,
                                     .grouped = p->filter.size[FALT_G] > 1,
                                     .words = falt_igemm_sm90_planar(p) == 0 && has_words(falt_problem_result(p)),
                                     .whole = are_whole(p),
                                     .boxes = falt_igemm_sm90_lines(p) > 0};
  for (int i = 0; i < 3; i++) {
    const falt_axis *a = &p->axis[i];
    const int64_t in = p->input.size[FALT_D + i], out = p->output.size[FALT_D + i], taps = p->filter.size[FALT_D + i];
    layer->axis[i] = (falt_igemm_sm90_axis){taps, a->stride, taps > 1 ? a->dilation : 1, a->pad[0], in, out};
    if (in == 1 && out == 1 && taps == 1 && a->pad[0] == 0)
      layer->axis[i].stride = 1;
    else if (layer->axes < 3 - i)
      layer->axes = 3 - i;
  }
  const int summed = p->operation == FALT_FORWARD ? FALT_C : FALT_K;
  layer->transposed = p->operation != FALT_BACKWARD_FILTER && !falt_map_takes(&p->filter, summed);
}
