/* Tensors: dense layouts, spans, and the views that images and volumes are. */
#include <string.h>

#include "problem/line.h"

const char *const falt_layout_names[FALT_LAYOUT_COUNT][3] = {{"ncw", "nchw", "ncdhw"},
                                                             {"nwc", "nhwc", "ndhwc"},
                                                             {"oiw", "oihw", "oidhw"},
                                                             {"owi", "ohwi", "odhwi"},
                                                             {"wio", "hwio", "dhwio"}};

/* What a letter of a layout stands for, slowest first. */
static const struct {
  char letter;
  int count, dims[2];
} letters[] = {{'n', 1, {FALT_N}}, {'c', 2, {FALT_G, FALT_C}}, {'o', 2, {FALT_G, FALT_K}}, {'i', 1, {FALT_C}},
               {'d', 1, {FALT_D}}, {'h', 1, {FALT_H}},         {'w', 1, {FALT_W}}};

static int find_letter(char letter) {
  int i = 0;
  while (letters[i].letter != letter) i++;
  return i;
}

bool falt_layout_dense(falt_tensor *tensor, falt_layout layout) {
  const char *name = falt_layout_names[layout][2]; /* absent axes have size 1 and do not show */
  int64_t next = 1;
  for (size_t at = strlen(name); at-- > 0;) {
    int letter = find_letter(name[at]);
    for (int i = letters[letter].count; i-- > 0;) {
      int dim = letters[letter].dims[i];
      tensor->stride[dim] = next;
      if (!falt_mul(next, tensor->size[dim], &next)) return false;
    }
  }
  tensor->offset = 0;
  return true;
}

void falt_tensor_order(falt_tensor *tensor, const int outwards[FALT_DIMS]) {
  int64_t stride = 1;
  for (int i = 0; i < FALT_DIMS; i++) {
    tensor->stride[outwards[i]] = stride;
    stride *= tensor->size[outwards[i]];
  }
  tensor->offset = 0;
}

bool falt_tensor_is(const falt_tensor *tensor, falt_layout layout) {
  falt_tensor dense = *tensor;
  if (!falt_layout_dense(&dense, layout)) return false;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (tensor->size[dim] > 1 && tensor->stride[dim] != dense.stride[dim]) return false;
  }
  return true;
}

static falt_status unknown_layout(const char *name) {
  const char *const *names = &falt_layout_names[0][0];
  const char *near = falt_nearest_name(name, strlen(name), names, FALT_LAYOUT_COUNT * 3);
  if (near) return falt_fail(FALT_INVALID_ARGUMENT, "layout: '%.16s' is unknown; did you mean '%s'?", name, near);
  return falt_fail(FALT_INVALID_ARGUMENT, "layout: '%.16s' is unknown; say nchw or nhwc, for filters oihw or ohwi",
                   name);
}

falt_status falt_tensor_layout(falt_tensor *tensor, const char *layout) {
  if (!tensor || !layout) return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL", tensor ? "layout" : "tensor");
  int found = falt_find_name(layout, strlen(layout), &falt_layout_names[0][0], FALT_LAYOUT_COUNT * 3);
  if (found < 0) return unknown_layout(layout);
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (tensor->size[dim] < 1)
      return falt_fail(FALT_INVALID_SIZE, "tensor: size[%d] is %lld; sizes are at least 1", dim,
                       (long long)tensor->size[dim]);
  }
  for (int dim = FALT_D; dim < FALT_W - found % 3; dim++) {
    if (tensor->size[dim] > 1)
      return falt_fail(FALT_INVALID_SHAPE, "layout: %s has no letter for axis %s, whose size is %lld", layout,
                       falt_axis_names[dim - FALT_D], (long long)tensor->size[dim]);
  }
  falt_tensor dense = *tensor;
  if (!falt_layout_dense(&dense, (falt_layout)(found / 3)))
    return falt_fail(FALT_INVALID_SIZE, "tensor: its sizes have a product beyond 2^63 - 1");
  *tensor = dense;
  return FALT_OK;
}

int64_t falt_tensor_count(const falt_tensor *tensor) {
  int64_t count = 1;
  for (int dim = 0; dim < FALT_DIMS; dim++) count *= tensor->size[dim];
  return count;
}

double falt_tensor_bytes(const falt_tensor *tensor) {
  return (double)falt_tensor_count(tensor) * (double)falt_type_size(tensor->type);
}

int64_t falt_tensor_span(const falt_tensor *tensor) {
  if (!tensor) return 0;
  int64_t last = tensor->offset;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    int64_t reach = 0;
    if (tensor->size[dim] < 1) return 0;
    if (tensor->size[dim] == 1 || tensor->stride[dim] <= 0) continue;
    if (!falt_mul(tensor->size[dim] - 1, tensor->stride[dim], &reach) || __builtin_add_overflow(last, reach, &last))
      return INT64_MAX;
  }
  return last < INT64_MAX ? last + 1 : INT64_MAX;
}

int64_t falt_tensor_lowest_offset(const falt_tensor *tensor) {
  int64_t offset = 0;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    int64_t reach;
    if (tensor->size[dim] == 1 || tensor->stride[dim] >= 0) continue;
    if (!falt_mul(tensor->size[dim] - 1, -tensor->stride[dim], &reach) || !falt_add(offset, reach, &offset)) return 0;
  }
  return offset;
}

void falt_filter_flip(falt_tensor *filter) {
  for (int dim = FALT_D; dim < FALT_DIMS; dim++) {
    filter->offset += (filter->size[dim] - 1) * filter->stride[dim];
    filter->stride[dim] = -filter->stride[dim];
  }
}

/* Makes one dimension of two: the indices of `outer` and `inner` counted through in `into`, 1 in the other. */
static bool merge(falt_tensor *tensor, int outer, int inner, int into) {
  int64_t size[2] = {tensor->size[outer], tensor->size[inner]};
  int64_t stride[2] = {tensor->stride[outer], tensor->stride[inner]}, count, whole;
  if (size[0] > 1 && size[1] > 1) {
    if (__builtin_mul_overflow(size[1], stride[1], &whole) || whole != stride[0]) return false;
  }
  if (!falt_mul(size[0], size[1], &count)) return false;
  int other = into == outer ? inner : outer;
  tensor->size[into] = count;
  tensor->stride[into] = size[1] > 1 ? stride[1] : stride[0];
  tensor->size[other] = 1;
  return true;
}

falt_status falt_tensor_filter_view(falt_tensor *tensor, int space) {
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (tensor->size[dim] < 1)
      return falt_fail(FALT_INVALID_SIZE, "array: size[%d] is %lld; sizes are at least 1", dim,
                       (long long)tensor->size[dim]);
  }
  if (!merge(tensor, FALT_G, FALT_C, FALT_G))
    return falt_fail(FALT_INVALID_SHAPE, "array: groups and channels do not lie at one stride; filter them one by one");
  for (int dim = FALT_D; dim < FALT_DIMS - space; dim++) {
    if (!merge(tensor, FALT_N, dim, FALT_N))
      return falt_fail(FALT_INVALID_SHAPE,
                       "array: batch and axis %s have no common stride; filter the images one by one",
                       falt_axis_names[dim - FALT_D]);
  }
  return FALT_OK;
}

falt_array falt_image(void *data, falt_type type, int64_t height, int64_t width, int64_t channels, int64_t pitch) {
  falt_array image = {.data = data, .tensor = {.type = type}};
  const int64_t size[FALT_DIMS] = {1, channels, 1, 1, height, width};
  int64_t whole = 0;
  if (height < 0 || pitch < 0 || !falt_mul(height, pitch, &whole)) whole = 0; /* the check refuses such sizes */
  const int64_t stride[FALT_DIMS] = {whole, 1, 1, whole, pitch, channels};
  memcpy(image.tensor.size, size, sizeof size);
  memcpy(image.tensor.stride, stride, sizeof stride);
  return image;
}

falt_array falt_volume(void *data, falt_type type, int64_t depth, int64_t height, int64_t width) {
  falt_array volume = {.data = data, .tensor = {.type = type}};
  const int64_t size[FALT_DIMS] = {1, 1, 1, depth, height, width};
  memcpy(volume.tensor.size, size, sizeof size);
  if (depth < 0 || height < 0 || width < 0 || !falt_layout_dense(&volume.tensor, FALT_NCHW))
    memset(volume.tensor.stride, 0, sizeof volume.tensor.stride);
  return volume;
}

falt_const_array falt_const(falt_array array) {
  return (falt_const_array){array.data, array.tensor};
}

falt_const_array falt_const_image(const void *data, falt_type type, int64_t height, int64_t width, int64_t channels,
                                  int64_t pitch) {
  return (falt_const_array){data, falt_image(NULL, type, height, width, channels, pitch).tensor};
}

falt_const_array falt_const_volume(const void *data, falt_type type, int64_t depth, int64_t height, int64_t width) {
  return (falt_const_array){data, falt_volume(NULL, type, depth, height, width).tensor};
}

int64_t falt_tensor_tap_step(const falt_tensor *w) {
  static const int inner_first[3] = {FALT_W, FALT_H, FALT_D};
  int64_t step = 0, next = 0; /* `next`: what the following axis must have for its stride */
  for (int i = 0; i < 3; i++) {
    const int64_t size = w->size[inner_first[i]], stride = w->stride[inner_first[i]];
    if (size == 1) continue;
    if (next == 0) step = stride;
    if (next != 0 && stride != next) return 0;
    if (!falt_mul(stride, size, &next) || next == 0) return 0;
  }
  return next == 0 ? 1 : step;
}
