/* Operands for falt_verify: in guarded memory, poisoned, filled with random data that leaves results in range. */
#include <math.h>
#include <string.h>

#include "api/verify.h"
#include "core/random.h"

enum { GUARD = FALT_GUARD, POISON = FALT_POISON };

/* ---- which operands a problem has */

static const struct {
  bool reads[FALT_OPERAND_COUNT];
  falt_operand writes;
} uses[FALT_OPERATION_COUNT] = {
    [FALT_FORWARD] = {{true, true}, FALT_OPERAND_Y},
    [FALT_BACKWARD_DATA] = {{false, true, true}, FALT_OPERAND_X},
    [FALT_BACKWARD_FILTER] = {{true, false, true}, FALT_OPERAND_W},
    [FALT_MAXPOOL] = {{true}, FALT_OPERAND_Y},
    [FALT_AVGPOOL] = {{true}, FALT_OPERAND_Y},
    [FALT_BACKWARD_MAXPOOL] = {{true, false, true}, FALT_OPERAND_RESIDUAL},
    [FALT_BACKWARD_AVGPOOL] = {{false, false, true}, FALT_OPERAND_X},
};

/* Bias and scale: one value an output channel. */
static falt_tensor vector_tensor(const falt_problem *p) {
  falt_tensor t = {.type = p->output.type == FALT_F64 ? FALT_F64 : FALT_F32};
  for (int dim = 0; dim < FALT_DIMS; dim++) t.size[dim] = 1;
  t.size[FALT_W] = p->output.size[FALT_G] * p->output.size[FALT_C];
  t.stride[FALT_W] = 1;
  return t;
}

static void describe(falt_bench *bench, const falt_problem *p) {
  falt_guarded *o = bench->operand;
  o[FALT_OPERAND_X].tensor = p->input;
  o[FALT_OPERAND_W].tensor = p->filter;
  o[FALT_OPERAND_Y].tensor = p->output;
  o[FALT_OPERAND_BIAS].tensor = o[FALT_OPERAND_SCALE].tensor = vector_tensor(p);
  o[FALT_OPERAND_RESIDUAL].tensor = p->operation == FALT_BACKWARD_MAXPOOL ? p->input : p->residual;
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) o[i].used = uses[p->operation].reads[i];
  o[FALT_OPERAND_BIAS].used = p->has_bias;
  o[FALT_OPERAND_SCALE].used = p->has_scale;
  o[FALT_OPERAND_RESIDUAL].used = p->has_residual;
  o[FALT_OPERAND_BIAS].written = p->has_bias && p->operation == FALT_BACKWARD_FILTER;
  o[uses[p->operation].writes].used = o[uses[p->operation].writes].written = true;
}

/* ---- memory */

static bool provide(falt_guarded *o) {
  int64_t bytes;
  if (!falt_mul(falt_tensor_span(&o->tensor), (int64_t)falt_type_size(o->tensor.type), &bytes)) return false;
  o->bytes = (size_t)bytes + 2 * GUARD;
  o->memory = falt_alloc(o->bytes);
  o->kept = falt_alloc(o->bytes);
  if (!o->memory || !o->kept) return false;
  memset(o->memory, POISON, o->bytes);
  return true;
}

falt_status falt_bench_open(falt_bench *bench, const falt_problem *problem) {
  *bench = (falt_bench){0};
  describe(bench, problem);
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) {
    if (!bench->operand[i].used || provide(&bench->operand[i])) continue;
    falt_bench_close(bench);
    return falt_fail(FALT_NO_MEMORY, "verify: the operands do not fit in memory; use a smaller problem");
  }
  return FALT_OK;
}

void falt_bench_close(falt_bench *bench) {
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) {
    falt_free(bench->operand[i].memory);
    falt_free(bench->operand[i].kept);
    bench->operand[i].memory = bench->operand[i].kept = NULL;
  }
}

void *falt_guarded_data(const falt_guarded *operand) {
  return operand->used ? operand->memory + GUARD : NULL;
}

falt_operands falt_bench_operands(const falt_bench *bench) {
  const falt_guarded *o = bench->operand;
  return (falt_operands){.input = falt_guarded_data(&o[FALT_OPERAND_X]),
                         .filter = falt_guarded_data(&o[FALT_OPERAND_W]),
                         .output = falt_guarded_data(&o[FALT_OPERAND_Y]),
                         .bias = falt_guarded_data(&o[FALT_OPERAND_BIAS]),
                         .scale = falt_guarded_data(&o[FALT_OPERAND_SCALE]),
                         .residual = falt_guarded_data(&o[FALT_OPERAND_RESIDUAL])};
}

void falt_tensor_visit(const falt_tensor *t, falt_visit visit, void *context) {
  int64_t i[FALT_DIMS];
  for (i[0] = 0; i[0] < t->size[0]; i[0]++)
    for (i[1] = 0; i[1] < t->size[1]; i[1]++)
      for (i[2] = 0; i[2] < t->size[2]; i[2]++)
        for (i[3] = 0; i[3] < t->size[3]; i[3]++)
          for (i[4] = 0; i[4] < t->size[4]; i[4]++)
            for (i[5] = 0; i[5] < t->size[5]; i[5]++)
              visit(context, falt_tensor_at(t, i[0], i[1], i[2], i[3], i[4], i[5]));
}

/* ---- data */

typedef struct filling {
  const falt_guarded *to, *from;
  uint64_t state;
  double low, high;
} filling;

static void put_random(void *context, int64_t index) {
  filling *f = context;
  const falt_type type = f->to->tensor.type;
  const double value = falt_type_is_integer(type)
                           ? (double)falt_random_int(&f->state, (int64_t)f->low, (int64_t)f->high)
                           : f->low + falt_random_unit(&f->state) * (f->high - f->low);
  falt_store(falt_guarded_data(f->to), type, index, value);
}

/* Floats in [-1, 1). Integers over their whole range, or only near zero, so that sums do not all saturate. */
static void fill_random(falt_guarded *o, uint64_t *state, bool whole_range, double small) {
  const falt_type type = o->tensor.type;
  filling f = {.to = o, .low = -1, .high = 1};
  if (falt_type_is_integer(type)) {
    f.low = whole_range ? falt_type_min(type) : fmax(falt_type_min(type), -small);
    f.high = whole_range ? falt_type_max(type) : small;
  }
  f.state = falt_random(state);
  falt_tensor_visit(&o->tensor, put_random, &f);
}

/* A filter that is a sum of so many separable terms: multiples of 1/4 (integers: -1, 0, 1), so that products of three
 * are exact in every type. One factor of a term depends on the position along one axis and on the channels. */
static double separable_value(const falt_tensor *w, int rank, uint64_t seed, const int64_t i[FALT_DIMS]) {
  const bool whole = falt_type_is_integer(w->type);
  double sum = 0;
  for (int term = 0; term < rank; term++) {
    double product = 1;
    for (int axis = FALT_D; axis < FALT_DIMS; axis++) {
      uint64_t state = seed;
      const int64_t words[] = {
          term, axis, i[axis], w->stride[0] ? i[0] : 0, w->stride[1] ? i[1] : 0, w->stride[2] ? i[2] : 0};
      for (int word = 0; word < 6; word++) state = falt_random(&state) + (uint64_t)words[word];
      if (w->size[axis] == 1) continue;
      product *= whole ? (double)falt_random_int(&state, falt_type_min(w->type) < 0 ? -1 : 0, 1)
                       : (double)falt_random_int(&state, -4, 4) / 4;
    }
    sum += product;
  }
  return sum;
}

static void fill_separable(falt_guarded *o, int rank, uint64_t seed) {
  const falt_tensor *w = &o->tensor;
  int64_t i[FALT_DIMS];
  for (i[0] = 0; i[0] < w->size[0]; i[0]++)
    for (i[1] = 0; i[1] < w->size[1]; i[1]++)
      for (i[2] = 0; i[2] < w->size[2]; i[2]++)
        for (i[3] = 0; i[3] < w->size[3]; i[3]++)
          for (i[4] = 0; i[4] < w->size[4]; i[4]++)
            for (i[5] = 0; i[5] < w->size[5]; i[5]++)
              falt_store(falt_guarded_data(o), w->type, falt_tensor_at(w, i[0], i[1], i[2], i[3], i[4], i[5]),
                         separable_value(w, rank, seed, i));
}

static void keep(falt_guarded *o) {
  if (o->used) memcpy(o->kept, o->memory, o->bytes);
}

void falt_bench_fill(falt_bench *bench, const falt_problem *problem, uint64_t seed) {
  static const double small[FALT_OPERAND_COUNT] = {15, 3, 15, 8, 8, 20};
  uint64_t state = seed;
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) {
    falt_guarded *o = &bench->operand[i];
    const bool whole_range = falt_random(&state) >> 63;
    if (!o->used) continue;
    if (i == FALT_OPERAND_W && !o->written && problem->rank > 0)
      fill_separable(o, problem->rank, state);
    else if (!o->written)
      fill_random(o, &state, whole_range, small[i]);
    keep(o);
  }
}

static void put_magnitude(void *context, int64_t index) {
  const filling *f = context;
  const double value = falt_load(falt_guarded_data(f->from), f->from->tensor.type, index);
  falt_store(falt_guarded_data(f->to), FALT_F64, index, fabs(value));
}

void falt_bench_fill_magnitudes(falt_bench *bench, const falt_bench *from) {
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) {
    filling f = {.to = &bench->operand[i], .from = &from->operand[i]};
    if (f.to->used && !f.to->written) falt_tensor_visit(&f.to->tensor, put_magnitude, &f);
  }
}

/* ---- guards */

void falt_bench_poison(falt_bench *bench) {
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) {
    falt_guarded *o = &bench->operand[i];
    if (o->used && o->written) memset(o->memory, POISON, o->bytes);
  }
}

static void poison_element(void *context, int64_t index) {
  const falt_guarded *o = context;
  const size_t size = falt_type_size(o->tensor.type);
  memset((char *)falt_guarded_data(o) + (size_t)index * size, POISON, size);
}

/* Results are poisoned again, and then all must be as it was before. */
bool falt_bench_intact(falt_bench *bench) {
  bool intact = true;
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) {
    falt_guarded *o = &bench->operand[i];
    if (!o->used) continue;
    if (!o->written) {
      intact &= memcmp(o->memory, o->kept, o->bytes) == 0;
      continue;
    }
    falt_tensor_visit(&o->tensor, poison_element, o);
    for (size_t at = 0; at < o->bytes; at++) intact &= (unsigned char)o->memory[at] == POISON;
  }
  return intact;
}
