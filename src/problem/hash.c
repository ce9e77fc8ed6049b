/* Equality and the hash of problems: the fields as a list of numbers in a fixed order, since a struct's padding is
 * anybody's. Each number is hashed as eight little-endian bytes, so that hashes agree between machines. */
#include "core/hash.h"

#include <string.h>

#include "problem/line.h"

enum { FIELDS = 96 };

typedef struct fields {
  int count;
  int64_t value[FIELDS];
} fields;

static void add(fields *list, int64_t value) {
  list->value[list->count++] = value;
}

static void add_double(fields *list, double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  add(list, bits);
}

static void add_tensor(fields *list, const falt_tensor *tensor) {
  add(list, tensor->type);
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    add(list, tensor->size[dim]);
    add(list, tensor->stride[dim]);
  }
  add(list, tensor->offset);
}

static void add_axis(fields *list, const falt_axis *axis) {
  add(list, axis->stride);
  add(list, axis->dilation);
  for (int side = 0; side < 2; side++) {
    add(list, axis->pad[side]);
    add(list, axis->boundary[side]);
  }
}

static fields fields_of(const falt_problem *p) {
  const int64_t flags[] = {p->operation, p->is_filter, p->space,        p->accumulator, p->rank,
                           p->has_scale, p->has_bias,  p->has_residual, p->activation,  p->count_pad};
  const double values[] = {p->boundary_value, p->alpha, p->beta, p->act_a, p->act_b};
  const falt_tensor *tensors[] = {&p->input, &p->filter, &p->output, &p->residual};
  fields list = {.count = 0};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) add(&list, flags[i]);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) add_double(&list, values[i]);
  for (int i = 0; i < 3; i++) add_axis(&list, &p->axis[i]);
  for (int i = 0; i < 4; i++) add_tensor(&list, tensors[i]);
  for (int i = 0; i < 3 && falt_problem_pools(p); i++)
    add(&list, p->pool[i]); /* only where there is something to say */
  if (p->filter_when || p->factors) {
    add(&list, p->filter_when);
    add(&list, p->factors);
  }
  return list;
}

bool falt_problem_equal(const falt_problem *a, const falt_problem *b) {
  fields x = fields_of(a), y = fields_of(b);
  return x.count == y.count && memcmp(x.value, y.value, (size_t)x.count * sizeof *x.value) == 0;
}

uint64_t falt_problem_hash(const falt_problem *problem) {
  if (!problem) return 0;
  falt_problem canonical = *problem;
  falt_problem_canonical(&canonical);
  fields list = fields_of(&canonical);
  uint64_t hash = FALT_HASH_START;
  for (int i = 0; i < list.count; i++) {
    unsigned char bytes[8];
    for (int byte = 0; byte < 8; byte++) bytes[byte] = (unsigned char)((uint64_t)list.value[i] >> 8 * byte);
    hash = falt_hash(hash, bytes, sizeof bytes);
  }
  return hash;
}
