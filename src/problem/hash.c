/* The hash of a problem: its canonical fields, each as eight little-endian bytes in a fixed order. */
#include "core/hash.h"

#include <string.h>

#include "problem/line.h"

static uint64_t add_int(uint64_t hash, int64_t value) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)value >> 8 * i);
  return falt_hash(hash, bytes, sizeof bytes);
}

static uint64_t add_double(uint64_t hash, double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return add_int(hash, bits);
}

static uint64_t add_tensor(uint64_t hash, const falt_tensor *tensor) {
  hash = add_int(hash, tensor->type);
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    hash = add_int(hash, tensor->size[dim]);
    hash = add_int(hash, tensor->stride[dim]);
  }
  return add_int(hash, tensor->offset);
}

static uint64_t add_axis(uint64_t hash, const falt_axis *axis) {
  hash = add_int(hash, axis->stride);
  hash = add_int(hash, axis->dilation);
  for (int side = 0; side < 2; side++) {
    hash = add_int(hash, axis->pad[side]);
    hash = add_int(hash, axis->boundary[side]);
  }
  return hash;
}

uint64_t falt_problem_hash(const falt_problem *problem) {
  falt_problem p = *problem;
  falt_problem_canonical(&p);
  const int64_t flags[] = {p.operation, p.is_filter, p.space,        p.accumulator, p.rank,
                           p.has_scale, p.has_bias,  p.has_residual, p.activation,  p.count_pad};
  const double values[] = {p.boundary_value, p.alpha, p.beta, p.act_a, p.act_b};
  uint64_t hash = FALT_HASH_START;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) hash = add_int(hash, flags[i]);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) hash = add_double(hash, values[i]);
  for (int i = 0; i < 3; i++) hash = add_axis(hash, &p.axis[i]);
  for (int which = 0; which < FALT_TENSOR_COUNT; which++) hash = add_tensor(hash, falt_problem_tensor(&p, which));
  return hash;
}
