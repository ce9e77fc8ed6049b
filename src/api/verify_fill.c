/* Data of falt_verify, by seed: plain, sparse, at the ends of the types' ranges, far from one, or not finite. Finite
 * data keep every sum in the accumulator's range: only one operand is large, and by less than the sum is long. */
#include <math.h>

#include "api/verify.h"
#include "core/memory.h"
#include "core/random.h"

typedef struct fill {
  const falt_guarded *to, *from;
  falt_filling filling;
  uint64_t state;
  double low, high;    /* of plain values */
  double factor, most; /* a power of two for floats; the largest of a float at the end of its range */
  int64_t one_in;      /* not finite: so rarely */
  bool only_nan;       /* not finite: never an infinity */
} fill;

static double draw_plain(fill *f) {
  if (falt_type_is_integer(f->to->tensor.type))
    return (double)falt_random_int(&f->state, (int64_t)f->low, (int64_t)f->high);
  return (f->low + falt_random_unit(&f->state) * (f->high - f->low)) * f->factor;
}

static double draw_sparse(fill *f) {
  if (falt_random_int(&f->state, 0, 7) == 0) return draw_plain(f);
  return falt_type_is_integer(f->to->tensor.type) || falt_random_int(&f->state, 0, 1) ? 0 : -0.0;
}

/* The smallest float and the smallest normal one. */
static void smallest(falt_type type, double *subnormal, double *normal) {
  *normal = falt_type_smallest(type);
  *subnormal = *normal * 2 * falt_type_epsilon(type);
}

static double draw_end(fill *f) {
  const falt_type type = f->to->tensor.type;
  const double minimum = falt_type_min(type), maximum = falt_type_max(type);
  const int64_t which = falt_random_int(&f->state, 0, 9);
  double subnormal, normal;
  if (which > 5) return draw_plain(f);
  if (falt_type_is_integer(type)) {
    const double ends[] = {minimum, maximum, minimum + 1, maximum - 1, 0, fmax(minimum, -1)};
    return ends[which];
  }
  smallest(type, &subnormal, &normal);
  const double ends[] = {f->most, -f->most, subnormal, -normal, 0, -0.0};
  return ends[which];
}

static double draw_not_finite(fill *f) {
  static const double values[] = {NAN, INFINITY, -INFINITY};
  const double plain = draw_plain(f);
  if (falt_type_is_integer(f->to->tensor.type) || falt_random_int(&f->state, 1, f->one_in) > 1) return plain;
  return values[falt_random_int(&f->state, 0, f->only_nan ? 0 : 2)];
}

static double (*const draw[FALT_FILL_COUNT])(fill *f) = {
    [FALT_FILL_PLAIN] = draw_plain,  [FALT_FILL_SPARSE] = draw_sparse,         [FALT_FILL_ENDS] = draw_end,
    [FALT_FILL_SCALED] = draw_plain, [FALT_FILL_NOT_FINITE] = draw_not_finite,
};

static void put(void *context, int64_t index) {
  fill *f = context;
  falt_store(falt_guarded_data(f->to), f->to->tensor.type, index, draw[f->filling](f));
}

static int64_t elements_of(const falt_tensor *t) {
  int64_t count = 1;
  for (int dim = 0; dim < FALT_DIMS; dim++) count *= t->size[dim];
  return count;
}

static bool has_small_range(falt_type type) {
  return falt_type_beyond(type) < 0x1p80;
}

/* The largest element for which a sum of products with values below one stays in the accumulator's range. */
static double most_of(const falt_problem *p, falt_type type, bool large) {
  if (has_small_range(type)) return falt_type_beyond(type) * (1 - falt_type_epsilon(type));
  if (!large) return 1;
  const double range =
      type == FALT_F64 && p->accumulator == FALT_F64 ? 0x1p1000 : 0x1p80; /* the other factor is at most 2^31 */
  return exp2(floor(log2(range / ((double)falt_problem_depth(p) * fmax(1, fabs(p->alpha))))));
}

static double factor_of(falt_type type, int operand, uint64_t *state) {
  const bool channel = operand == FALT_SCALE || operand == FALT_BIAS;
  const int reach = has_small_range(type) || channel ? 6 : 40;
  const double factor = exp2((double)falt_random_int(state, -reach, reach));
  return falt_type_is_integer(type) ? 1 : factor;
}

/* Floats in [-1, 1). Integers over their whole range, or only near zero, so not all sums saturate. */
static void plain_range(fill *f, bool whole_range, double small) {
  const falt_type type = f->to->tensor.type;
  const bool whole = falt_type_is_integer(type);
  f->low = !whole ? -1 : whole_range ? falt_type_min(type) : fmax(falt_type_min(type), -small);
  f->high = !whole ? 1 : whole_range ? falt_type_max(type) : small;
}

/* A filter that is a sum of separable terms: multiples of 1/4 (integers: -1, 0, 1), so products of three are exact in
 * every type. One factor of a term depends on the position along one axis and on the channels. */
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

/* A filter of rank one whose taps are all equal. */
static double box_value(const falt_tensor *w, uint64_t seed) {
  const bool whole = falt_type_is_integer(w->type);
  return (double)falt_random_int(&seed, 1, 3) * (whole ? 1 : 0.25);
}

/* Kind 0: a box. 1: a box of two levels. 2: two equal boxes, convolved, where so few taps have such. */
static double box_level(int64_t kind, int64_t count, int64_t i) {
  const int64_t edge = falt_min(i, count - 1 - i);
  const bool two_boxes = kind == 2 && count % 2 == 1 && count < 32;
  return two_boxes ? (double)edge + 1 : kind > 0 && edge > 0 ? 2 : 1;
}

/* The axis of a filter that lies along one; -1 otherwise. */
static int only_axis(const falt_tensor *w) {
  int axis = -1, axes = 0;
  for (int k = FALT_D; k < FALT_DIMS; k++)
    if (w->size[k] > 1) axis = k, axes++;
  return axes == 1 ? axis : -1;
}

/* A filter of rank one along one axis is a box or two; of the others every second is a box. */
static void fill_separable(const falt_guarded *o, int rank, uint64_t seed) {
  const falt_tensor *w = &o->tensor;
  const int axis = only_axis(w);
  const bool box = rank == 1 && (falt_random_int(&seed, 0, 1) == 0 || axis >= 0);
  const double value = box_value(w, seed);
  const int64_t kind = falt_random_int(&seed, 0, 2);
  int64_t i[FALT_DIMS];
  for (i[0] = 0; i[0] < w->size[0]; i[0]++)
    for (i[1] = 0; i[1] < w->size[1]; i[1]++)
      for (i[2] = 0; i[2] < w->size[2]; i[2]++)
        for (i[3] = 0; i[3] < w->size[3]; i[3]++)
          for (i[4] = 0; i[4] < w->size[4]; i[4]++)
            for (i[5] = 0; i[5] < w->size[5]; i[5]++) {
              const double tap = !box       ? separable_value(w, rank, seed, i)
                                 : axis < 0 ? value
                                            : value * box_level(kind, w->size[axis], i[axis]);
              falt_store(falt_guarded_data(o), w->type, falt_tensor_at(w, i[0], i[1], i[2], i[3], i[4], i[5]), tap);
            }
}

/* The kind of data of an operand. A weight that is not finite may be multiplied by a zero beyond the edge, which
 * outputs may skip, so most data has none. dgrad solvers multiply it with zeros around dy, too. */
static falt_filling filling_of(const falt_problem *p, int operand, falt_filling filling, bool weights) {
  const bool gradient = p->operation == FALT_BACKWARD_FILTER && operand == FALT_OUTPUT;
  const bool weight = operand == FALT_FILTER || gradient;
  const bool stays = weight && (!weights || p->operation == FALT_BACKWARD_DATA || p->factors);
  const bool ends = filling == FALT_FILL_ENDS || filling == FALT_FILL_SPARSE; /* products would overflow, or be zeros */
  if (weight && p->factors && ends) return FALT_FILL_PLAIN;
  return filling == FALT_FILL_NOT_FINITE && stays ? FALT_FILL_PLAIN : filling;
}

void falt_bench_fill(falt_bench *bench, const falt_problem *problem, falt_filling filling, uint64_t seed) {
  static const double small[FALT_OPERANDS] = {15, 3, 15, 8, 8, 20};
  uint64_t state = seed;
  const int64_t large = falt_random_int(&state, 0, FALT_OPERANDS - 1);
  for (int i = 0; i < FALT_OPERANDS; i++) {
    const falt_guarded *o = &bench->operand[i];
    const bool whole_range = falt_random(&state) >> 63;
    const double factor = factor_of(o->tensor.type, i, &state);
    fill f = {.to = o, .filling = filling_of(problem, i, filling, seed % 4 == 0), .state = falt_random(&state)};
    if (!o->used || o->written) continue;
    f.most = most_of(problem, o->tensor.type, i == large);
    f.factor = filling == FALT_FILL_SCALED ? factor : 1;
    if (i == FALT_FILTER && problem->factors) f.factor = exp2(trunc(log2(f.factor) / 3)); /* each is one of three */
    f.one_in = falt_max(1, elements_of(&o->tensor) / 2);
    f.only_nan = i == FALT_SCALE; /* a sum that rounds to 0 or beside it, times infinity, is NaN or infinite */
    plain_range(&f, whole_range, small[i]);
    if (i == FALT_FILTER && problem->rank > 0)
      fill_separable(o, problem->rank, f.state);
    else
      falt_tensor_visit(&o->tensor, put, &f);
  }
  falt_bench_keep(bench);
}

static double magnitude_of(const fill *f, int64_t index) {
  const double value = fabs(falt_load(falt_guarded_data(f->from), f->from->tensor.type, index));
  return isfinite(value) ? value : 0;
}

static void put_magnitude(void *context, int64_t index) {
  const fill *f = context;
  falt_store(falt_guarded_data(f->to), FALT_F64, index, fmax(f->low, magnitude_of(f, index)));
}

static void add_magnitude(void *context, int64_t index) {
  fill *f = context;
  f->low += magnitude_of(f, index);
}

static void see_magnitude(void *context, int64_t index) {
  fill *f = context;
  f->low = fmax(f->low, magnitude_of(f, index));
}

double falt_bench_largest(const falt_bench *bench, falt_operand which) {
  fill f = {.from = &bench->operand[which]};
  if (f.from->used && !f.from->written) falt_tensor_visit(&f.from->tensor, see_magnitude, &f);
  return f.low;
}

/* Which operands have one magnitude everywhere. */
static bool is_flat(const falt_problem *p, falt_operand which, falt_measure measure) {
  const bool data = p->operation == FALT_BACKWARD_DATA;
  return measure == FALT_MEASURE_MIXED &&
         (which == (data ? FALT_OUTPUT : FALT_INPUT) || (data && which == FALT_FILTER));
}

void falt_bench_fill_magnitudes(falt_bench *bench, const falt_problem *problem, const falt_bench *from,
                                falt_measure measure) {
  for (int i = 0; i < FALT_OPERANDS; i++) {
    fill f = {.to = &bench->operand[i], .from = &from->operand[i]};
    if (!f.to->used || f.to->written) continue;
    if (i == FALT_FILTER && measure == FALT_MEASURE_FACTORED) falt_tensor_visit(&f.to->tensor, add_magnitude, &f);
    if (is_flat(problem, (falt_operand)i, measure))
      f.low = fmax(falt_bench_largest(from, (falt_operand)i), i == FALT_INPUT ? fabs(problem->boundary_value) : 0);
    falt_tensor_visit(&f.to->tensor, put_magnitude, &f);
  }
  falt_bench_keep(bench);
}
