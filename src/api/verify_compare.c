/* The tolerance of outputs in falt_verify, and their comparison. */
#include <math.h>

#include "api/verify.h"

/* The tolerance follows from the terms of the sum. The reference is run a second time on the magnitudes of all
 * operands: that gives, for every output, the sum S of |w||x| (through the epilogue, without activation). A sum of n
 * terms in an arithmetic of rounding error eps, in any order, has an error of little more than sqrt(n)*eps*S if
 * roundings are random, so
 *
 *   tolerance = (16 + 4 sqrt n) * eps_acc * (L*S + |y|) + plan's own error * L*S + L * underflow
 *             + 2 * eps_out * |y| + smallest number
 *
 * with L a bound of the activation's slope, and underflow_of() below. S has other magnitudes for plans that factor
 * filters or mix inputs (falt_measure). Integer outputs of integer operands, without a fractional epilogue, must agree
 * to the bit. Other integer outputs may differ by one unit more, because a tie may be rounded in either direction. */

typedef struct comparison {
  const falt_verification *v;
  const falt_plan *plan;
  falt_operand which;
  falt_verdict *verdict;
  double largest;        /* of a result's magnitudes at most, where they are not known one by one */
  double underflow;      /* the possible loss of a sum */
  bool leaves_out;       /* a result that is NaN may be a number */
  bool spreads, factors; /* a number may be none; terms of a filter are summed, not its taps */
  bool mixes;            /* inputs are summed before windows are taken apart */
  double least;          /* of a result's magnitudes: dgrad by such a solver rounds where no dy reaches, too */
  bool splits, hides;    /* a result with an infinite term may be NaN; the reference does not show which have one */
} comparison;

static bool is_whole(double value) {
  return value == rint(value);
}

/* Integer operands and outputs, without fractional values in between. */
static bool is_exact(const falt_problem *p) {
  const falt_type result = falt_problem_result(p)->type;
  if (!falt_type_is_integer(result) || p->operation == FALT_AVGPOOL) return false;
  if (p->operation == FALT_MAXPOOL) return true;
  const bool activation = p->activation == FALT_IDENTITY || p->activation == FALT_RELU || p->activation == FALT_RELU6 ||
                          p->activation == FALT_CLIP;
  return p->operation == FALT_FORWARD && falt_problem_sums_integers(p) && is_whole(p->boundary_value) &&
         p->alpha == 1 && is_whole(p->beta) && !p->has_scale && !p->has_bias &&
         (!p->has_residual || falt_type_is_integer(p->residual.type)) && activation;
}

static double slope_bound(const falt_problem *p) {
  return p->activation == FALT_LEAKY ? fmax(1, fabs(p->act_a)) : 1.2; /* SiLU and GELU rise by up to 1.13 */
}

static double smallest_number(falt_type type) {
  const double subnormal = 2 * falt_type_epsilon(type) * falt_type_smallest(type);
  return falt_type_is_integer(type) ? 0 : fmax(subnormal, 0x1p-126);
}

static double tolerance_of(const comparison *c, falt_type type, double reference, double sum) {
  const falt_problem *p = c->v->problem;
  const double epsilon = falt_type_epsilon(falt_type_real(p->accumulator)), size = fabs(reference);
  const double rounding = (16 + 4 * sqrt((double)falt_problem_depth(p))) * epsilon;
  if (is_exact(p) || !isfinite(reference)) return 0;
  const double tolerance = rounding * size + slope_bound(p) * ((rounding + c->plan->cost.error) * sum + c->underflow);
  if (falt_type_is_integer(type)) return 1 + tolerance;
  return tolerance + 2 * falt_type_epsilon(type) * size + smallest_number(type);
}

/* A number of a type of small range, as f16 is, that overflowed is as far away as the next number would be. */
static double finite_value(falt_type type, double value) {
  return falt_type_beyond(type) < 0x1p80 && isinf(value) ? copysign(falt_type_beyond(type), value) : value;
}

/* Values that are not finite must agree in kind: NaN, or the same infinity. */
static double distance(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  return isfinite(a - b) ? fabs(a - b) : INFINITY;
}

/* A max pooling gradient sums contributions of different windows: their magnitudes are not those of |x|'s windows. */
static double magnitude_at(const comparison *c, int64_t index) {
  const falt_bench *bench = c->mixes                      ? &c->v->mixed_magnitudes
                            : c->factors && c->v->factors ? &c->v->term_magnitudes
                                                          : &c->v->magnitudes;
  const falt_guarded *m = &bench->operand[c->which];
  if (c->v->problem->operation == FALT_BACKWARD_MAXPOOL) return c->largest;
  return fmax(c->least, falt_load(falt_guarded_data(m), FALT_F64, index));
}

static void see_magnitude(void *context, int64_t index) {
  comparison *c = context;
  c->least = fmax(c->least, falt_load(falt_guarded_data(&c->v->mixed_magnitudes.operand[c->which]), FALT_F64, index));
}

static void see_largest(void *context, int64_t index) {
  comparison *c = context;
  const falt_guarded *dy = &c->v->magnitudes.operand[FALT_OUTPUT];
  c->largest = fmax(c->largest, falt_load(falt_guarded_data(dy), FALT_F64, index));
}

static double largest_of(const falt_verification *v, falt_operand which) {
  return falt_bench_largest(&v->magnitudes, which);
}

/* Of gradients by solvers that mix inputs: the largest result's, or all terms' where no dy reaches any result. */
static void set_least(comparison *c) {
  const falt_verification *v = c->v;
  const falt_operand other = v->problem->operation == FALT_BACKWARD_DATA ? FALT_FILTER : FALT_INPUT;
  falt_tensor_visit(&v->data.operand[c->which].tensor, see_magnitude, c);
  if (c->least == 0)
    c->least = largest_of(v, FALT_OUTPUT) * largest_of(v, other) * (double)falt_problem_depth(v->problem);
}

/* The bound of the operands of a problem's sums. */
static double largest_product(const falt_verification *v) {
  const falt_operand *factor = falt_operations[v->problem->operation].factor;
  return largest_of(v, factor[0]) * largest_of(v, factor[1]);
}

/* Whether a factor of the products, or both, are of a type. */
static bool has_factor(const falt_problem *p, falt_type type) {
  return falt_problem_factor(p, 0)->type == type || falt_problem_factor(p, 1)->type == type;
}

static bool are_both(const falt_problem *p, falt_type type) {
  return falt_problem_factor(p, 0)->type == type && falt_problem_factor(p, 1)->type == type;
}

/* The loss of an output by underflow, before activation: each product up to the accumulator's smallest number, times
 * the largest factor of a sum. bf16 dot products treat operands and sums below 2^-126 as zeros. Tensor cores multiply
 * f32 in parts of tf32, whose smallest number is 2^-136. They align products of f16 by the exponents of their operands,
 * which are 2^-14 for all smaller f16, and truncate 24 bits below the largest. The product alpha*scale, by which sums
 * are multiplied, loses half of the smallest number. */
static double underflow_of(const comparison *c) {
  const falt_verification *v = c->v;
  const falt_problem *p = v->problem;
  const double scale = fabs(p->alpha) * (p->has_scale ? largest_of(v, FALT_SCALE) : 1);
  const double factor = fmax(largest_of(v, FALT_INPUT), fmax(largest_of(v, FALT_FILTER), largest_of(v, FALT_OUTPUT)));
  const double flushed = 0x1p-126 * (1 + 2 * factor);
  const bool aligns = v->device->memory && are_both(p, FALT_F16);
  const double aligned = 0x1p-149 + 0x1p-38 * factor;
  const bool parts = v->device->memory && has_factor(p, FALT_F32);
  const double lost = p->accumulator == FALT_F64 ? 0x1p-1074
                      : are_both(p, FALT_BF16)   ? flushed
                      : aligns                   ? aligned
                      : parts                    ? 0x1p-149 + 0x1p-136 * factor
                                                 : 0x1p-149;
  const double of_factor = p->has_scale && p->accumulator != FALT_F64 ? 0x1p-150 * largest_product(v) : 0;
  return (double)falt_problem_depth(p) * (lost * scale + of_factor);
}

typedef struct elements {
  const falt_guarded *of;
  bool finite;
} elements;

static void see_not_finite(void *context, int64_t index) {
  elements *f = context;
  f->finite &= isfinite(falt_load(falt_guarded_data(f->of), f->of->tensor.type, index)) != 0;
}

static bool is_finite(const falt_guarded *operand) {
  elements f = {operand, true};
  if (operand->used && !operand->written) falt_tensor_visit(&operand->tensor, see_not_finite, &f);
  return f.finite;
}

bool falt_verify_leaves_out(const falt_verification *v) {
  if (v->filling != FALT_FILL_NOT_FINITE) return false;
  const falt_problem *p = v->problem;
  bool beyond = false;
  for (int a = 0; a < 3; a++) {
    const falt_axis *axis = &p->axis[a];
    const int64_t last = (p->output.size[FALT_D + a] * p->pool[a] - 1) * axis->stride +
                         (p->filter.size[FALT_D + a] - 1) * axis->dilation - axis->pad[0];
    beyond |= axis->boundary[0] == FALT_CONSTANT && axis->pad[0] > 0;
    beyond |= axis->boundary[1] == FALT_CONSTANT && last >= p->input.size[FALT_D + a];
  }
  const falt_operand weight = p->operation == FALT_BACKWARD_FILTER ? FALT_OUTPUT : FALT_FILTER;
  const bool reads = p->operation == FALT_FORWARD || p->operation == FALT_BACKWARD_FILTER;
  return reads && beyond && p->boundary_value == 0 && !is_finite(&v->data.operand[weight]);
}

/* An infinite term leaves a result that is not finite, but for an activation, for integers and for pooling. */
static bool hides_terms(const falt_problem *p) {
  return p->activation != FALT_IDENTITY || falt_type_is_integer(falt_problem_result(p)->type) ||
         p->pool[0] * p->pool[1] * p->pool[2] > 1;
}

/* Whether the plan may give something else than the reference where one of them is not finite. A tap that is 0 is a
 * rounding error as a sum of terms: times infinity it is infinite, where 0 is NaN. */
static bool is_open(const comparison *c, falt_type type, double y, double reference) {
  const bool whole = falt_type_is_integer(type), none = isnan(y) || whole;
  return (c->leaves_out && (isnan(reference) || whole)) || (c->factors && isnan(reference)) || (c->spreads && none) ||
         (c->splits && none && (c->hides || !isfinite(reference)));
}

static void compare_element(void *context, int64_t index) {
  comparison *c = context;
  const falt_guarded *got = &c->v->data.operand[c->which], *expected = &c->v->expected.operand[c->which];
  const falt_type type = got->tensor.type;
  const double is = falt_load(falt_guarded_data(got), type, index), y = finite_value(type, is);
  const double should = falt_load(falt_guarded_data(expected), type, index), reference = finite_value(type, should);
  if (is_open(c, type, is, should)) return;
  const double sum = magnitude_at(c, index), error = distance(y, reference);
  const double tolerance = tolerance_of(c, type, reference, sum);
  c->verdict->max_rel_error = fmax(c->verdict->max_rel_error, error == 0 ? 0 : error / fmax(sum, 0x1p-1000));
  const bool fails = !(error <= tolerance), first_failure = fails && c->verdict->ok;
  if (!first_failure && (fails != !c->verdict->ok || error < c->verdict->max_abs_error)) return;
  c->verdict->ok &= !fails;
  c->verdict->max_abs_error = error; /* of an element that fails if there is one, and the tolerance that it had */
  c->verdict->tolerance = tolerance;
}

void falt_verify_compare(const falt_verification *v, const falt_plan *plan, falt_verdict *verdict) {
  for (int i = 0; i < FALT_OPERANDS; i++) {
    const falt_guarded *o = &v->data.operand[i];
    if (!o->used || !o->written) continue;
    comparison c = {.v = v, .plan = plan, .which = (falt_operand)i, .verdict = verdict};
    c.underflow = underflow_of(&c);
    c.leaves_out = falt_verify_leaves_out(v);
    c.spreads = v->filling == FALT_FILL_NOT_FINITE && plan->spreads;
    c.factors = (v->factors || v->problem->factors) && plan->factors;
    c.mixes = plan->mixes;
    if (c.mixes && falt_operations[v->problem->operation].is_gradient) set_least(&c);
    c.splits = v->filling == FALT_FILL_NOT_FINITE && plan->splits;
    c.hides = hides_terms(v->problem);
    if (v->problem->operation == FALT_BACKWARD_MAXPOOL) {
      falt_tensor_visit(&v->problem->output, see_largest, &c);
      c.largest *= (double)falt_problem_depth(v->problem);
    }
    falt_tensor_visit(&o->tensor, compare_element, &c);
  }
}
