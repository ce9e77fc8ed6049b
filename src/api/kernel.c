/* Named kernels. All but emboss and motion are sums of products of one line an axis, and come as factors:
 *
 *   gaussian   g(i) = exp(-i^2 / 2 sigma^2) / sum; its derivative of order n is He_n(i / sigma) / sigma^n g(i), with
 *              the Hermite polynomials He_(n+1)(t) = t He_n(t) - n He_(n-1)(t)
 *   log        sum over axes of the second derivative on that axis and g on the others
 *   laplace    sum over axes of 1 -2 1; sharpen: the identity less that */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "problem/box_chain.h"
#include "problem/problem.h"

enum { MOST_ORDER = 16, MOST_DENSE = 1 << 24, MOST_SIZE = 1 << 25 };

/* ---- values */

void falt_kernel_free(falt_kernel *kernel) {
  if (!kernel) return;
  falt_free(kernel->values);
  *kernel = (falt_kernel){.factors = 0};
}

/* Zeros. factors 0: dense taps. */
static falt_status allocate(falt_kernel *kernel, const int64_t size[3], int factors) {
  const int64_t count = factors ? factors * (size[0] + size[1] + size[2]) : size[0] * size[1] * size[2];
  *kernel = (falt_kernel){.size = {size[0], size[1], size[2]}, .factors = factors, .count = count};
  kernel->values = falt_alloc_zero((size_t)count * sizeof *kernel->values);
  if (kernel->values) return FALT_OK;
  *kernel = (falt_kernel){.factors = 0};
  return falt_fail(FALT_NO_MEMORY, "kernel: memory ran out; make it smaller");
}

/* Where the line of a term along an axis begins. */
static double *line_of(falt_kernel *kernel, int term, int axis) {
  double *at = kernel->values + term * (kernel->size[0] + kernel->size[1] + kernel->size[2]);
  for (int before = 0; before < axis; before++) at += kernel->size[before];
  return at;
}

/* First of all in each maker: a failure leaves an empty kernel. */
static void begin(falt_kernel *kernel) {
  if (kernel) *kernel = (falt_kernel){.factors = 0};
}

static falt_status check_space(const falt_kernel *kernel, int space) {
  if (!kernel) return falt_fail(FALT_INVALID_ARGUMENT, "kernel: NULL");
  if (space < 1 || space > 3) return falt_fail(FALT_INVALID_ARGUMENT, "space: %d; it is 1, 2 or 3", space);
  return FALT_OK;
}

/* ---- three taps an axis */

static const double delta3[3] = {0, 1, 0}, second3[3] = {1, -2, 1}, difference3[3] = {-1, 0, 1};

/* A term with `special` along one axis (-1: none) and `common` along the other axes of the space. */
static void set_term(falt_kernel *kernel, int term, int space, int axis, const double special[3],
                     const double common[3]) {
  for (int a = 0; a < 3; a++) {
    double *line = line_of(kernel, term, a);
    if (a < 3 - space)
      line[0] = 1;
    else
      memcpy(line, a == axis ? special : common, 3 * sizeof *line);
  }
}

static falt_status allocate_cube(falt_kernel *kernel, int space, int factors) {
  FALT_TRY(check_space(kernel, space));
  return allocate(kernel, (const int64_t[3]){space > 2 ? 3 : 1, space > 1 ? 3 : 1, 3}, factors);
}

falt_status falt_kernel_gradient(falt_kernel *kernel, falt_gradient gradient, int space, int axis) {
  begin(kernel);
  static const double smooth[][3] = {{1, 2, 1}, {1, 1, 1}, {3, 10, 3}};
  if ((unsigned)gradient > FALT_SCHARR)
    return falt_fail(FALT_INVALID_ARGUMENT, "gradient: no enumerator %d", (int)gradient);
  FALT_TRY(check_space(kernel, space));
  if (axis < 3 - space || axis > 2)
    return falt_fail(FALT_INVALID_ARGUMENT, "axis: %d; depth, height and width are 0 to 2, and %d of them exist", axis,
                     space);
  FALT_TRY(allocate_cube(kernel, space, 1));
  set_term(kernel, 0, space, axis, difference3, smooth[gradient]);
  return FALT_OK;
}

static falt_status make_laplace(falt_kernel *kernel, int space, double sign, int more) {
  FALT_TRY(allocate_cube(kernel, space, space + more));
  for (int term = 0; term < space; term++) {
    const int axis = 3 - space + term;
    set_term(kernel, term, space, axis, second3, delta3);
    for (int i = 0; i < 3; i++) line_of(kernel, term, axis)[i] *= sign;
  }
  return FALT_OK;
}

falt_status falt_kernel_laplace(falt_kernel *kernel, int space) {
  begin(kernel);
  return make_laplace(kernel, space, 1, 0);
}

falt_status falt_kernel_sharpen(falt_kernel *kernel, int space) {
  begin(kernel);
  FALT_TRY(make_laplace(kernel, space, -1, 1));
  set_term(kernel, space, space, -1, NULL, delta3);
  return FALT_OK;
}

falt_status falt_kernel_emboss(falt_kernel *kernel) {
  begin(kernel);
  static const double taps[9] = {-2, -1, 0, -1, 1, 1, 0, 1, 2};
  FALT_TRY(allocate_cube(kernel, 2, 0));
  memcpy(kernel->values, taps, sizeof taps);
  return FALT_OK;
}

/* ---- lines of any length */

falt_status falt_kernel_identity(falt_kernel *kernel) {
  begin(kernel);
  return falt_kernel_box(kernel, (const int64_t[3]){1, 1, 1});
}

falt_status falt_kernel_box(falt_kernel *kernel, const int64_t size[3]) {
  begin(kernel);
  if (!kernel || !size) return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL", kernel ? "size" : "kernel");
  for (int a = 0; a < 3; a++)
    if (size[a] < 1 || size[a] > MOST_SIZE)
      return falt_fail(FALT_INVALID_SIZE, "size: a size of %lld; it is 1 to 2^25", (long long)size[a]);
  FALT_TRY(allocate(kernel, size, 1));
  for (int a = 0; a < 3; a++)
    for (int64_t i = 0; i < size[a]; i++) line_of(kernel, 0, a)[i] = 1 / (double)size[a];
  return FALT_OK;
}

/* He_n(t). */
static double hermite(int n, double t) {
  double low = 0, high = 1; /* He_(k-1), He_k */
  for (int k = 0; k < n; k++) {
    const double next = t * high - k * low;
    low = high;
    high = next;
  }
  return high;
}

/* The derivative of a Gaussian as a line of n numbers. Sigma 0 has one, where nothing is divided by it. Zeros stay,
 * though the polynomial may be infinite there. */
static void set_bell(double *line, int64_t n, double sigma, int order) {
  const int64_t middle = n / 2;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    const double t = i == middle ? 0 : (double)(i - middle) / sigma;
    line[i] = exp(-0.5 * t * t);
    sum += line[i];
  }
  for (int64_t i = 0; i < n; i++) {
    const double t = i == middle ? 0 : (double)(i - middle) / sigma;
    if (line[i] != 0) line[i] = line[i] / sum * (order ? hermite(order, t) / pow(sigma, order) : 1);
  }
}

/* Sizes of Gaussians that are cut at `truncate` times sigma. */
static falt_status bell_sizes(int space, const double sigma[3], double truncate, int64_t size[3]) {
  if (!(truncate >= 0)) return falt_fail(FALT_INVALID_ARGUMENT, "truncate: %g; it is 0 or more", truncate);
  for (int a = 0; a < 3; a++) {
    size[a] = 1;
    if (a < 3 - space) continue;
    if (!(sigma[a] >= 0)) return falt_fail(FALT_INVALID_ARGUMENT, "sigma: %g; it is 0 or more", sigma[a]);
    const double reach = truncate * sigma[a] + 0.5;
    if (!(2 * reach < MOST_SIZE))
      return falt_fail(FALT_INVALID_SIZE, "sigma: %g, cut at %g times that, is too wide; 2^25 taps are the most",
                       sigma[a], truncate);
    size[a] = 2 * (int64_t)reach + 1;
  }
  return FALT_OK;
}

/* Bells of the given orders along the axes of the space. */
static void set_bells(falt_kernel *kernel, int term, int space, const double sigma[3], const int order[3]) {
  for (int a = 0; a < 3; a++) {
    double *line = line_of(kernel, term, a);
    line[0] = 1;
    if (a >= 3 - space) set_bell(line, kernel->size[a], sigma[a], order[a]);
  }
}

static falt_status check_gaussian(const falt_kernel *kernel, int space, const double sigma[3]) {
  FALT_TRY(check_space(kernel, space));
  return sigma ? FALT_OK : falt_fail(FALT_INVALID_ARGUMENT, "sigma: NULL");
}

static falt_status check_order(int order, double sigma) {
  if (order < 0 || order > MOST_ORDER)
    return falt_fail(FALT_INVALID_ARGUMENT, "order: %d; it is 0 to %d", order, MOST_ORDER);
  if (order > 0 && !(sigma > 0))
    return falt_fail(FALT_INVALID_ARGUMENT, "sigma: %g; that of a derivative is above 0", sigma);
  if (order > 0 && !isfinite(1 / pow(sigma, order)))
    return falt_fail(FALT_INVALID_ARGUMENT, "sigma: %g; the derivative's taps would be infinite", sigma);
  return FALT_OK;
}

falt_status falt_kernel_gaussian(falt_kernel *kernel, int space, const double sigma[3], const int order[3],
                                 double truncate) {
  begin(kernel);
  static const int smooth[3] = {0, 0, 0};
  int64_t size[3];
  FALT_TRY(check_gaussian(kernel, space, sigma));
  if (!order) order = smooth;
  for (int a = 3 - space; a < 3; a++) FALT_TRY(check_order(order[a], sigma[a]));
  FALT_TRY(bell_sizes(space, sigma, truncate, size));
  FALT_TRY(allocate(kernel, size, 1));
  set_bells(kernel, 0, space, sigma, order);
  return FALT_OK;
}

falt_status falt_kernel_log(falt_kernel *kernel, int space, const double sigma[3], double truncate) {
  begin(kernel);
  int64_t size[3];
  FALT_TRY(check_gaussian(kernel, space, sigma));
  for (int a = 3 - space; a < 3; a++) FALT_TRY(check_order(2, sigma[a]));
  FALT_TRY(bell_sizes(space, sigma, truncate, size));
  FALT_TRY(allocate(kernel, size, space));
  for (int term = 0; term < space; term++) {
    int order[3] = {0, 0, 0};
    order[3 - space + term] = 2;
    set_bells(kernel, term, space, sigma, order);
  }
  return FALT_OK;
}

falt_status falt_kernel_unsharp(falt_kernel *kernel, int space, const double sigma[3], double amount, double truncate) {
  begin(kernel);
  static const int smooth[3] = {0, 0, 0};
  int64_t size[3];
  FALT_TRY(check_gaussian(kernel, space, sigma));
  if (!isfinite(amount)) return falt_fail(FALT_INVALID_ARGUMENT, "amount: %g; it is finite", amount);
  FALT_TRY(bell_sizes(space, sigma, truncate, size));
  FALT_TRY(allocate(kernel, size, 2));
  set_bells(kernel, 0, space, sigma, smooth);
  for (int64_t i = 0; i < size[2]; i++) line_of(kernel, 0, 2)[i] *= -amount;
  for (int a = 0; a < 3; a++) line_of(kernel, 1, a)[size[a] / 2] = a == 2 ? 1 + amount : 1;
  return FALT_OK;
}

/* ---- Gaussians of boxes */

enum { LEAST_FAST = 2 /* sigma: narrower ones are as fast by their taps */ };

/* The chain of an axis that has one; the sizes of all axes. */
static falt_status fast_sizes(int space, const double sigma[3], falt_box_chain chain[3], int64_t size[3]) {
  const double widest = MOST_SIZE / 9.0, usual_truncate = 4;
  FALT_TRY(bell_sizes(space, sigma, usual_truncate, size));
  for (int a = 3 - space; a < 3; a++) {
    if (sigma[a] < LEAST_FAST) continue;
    if (!(sigma[a] < widest))
      return falt_fail(FALT_INVALID_SIZE, "sigma: %g is too wide; 2^25 taps are the most", sigma[a]);
    if (!falt_box_chain_gaussian(&chain[a], sigma[a])) return falt_fail(FALT_NO_MEMORY, "kernel: memory ran out");
    size[a] = falt_box_chain_length(&chain[a]);
  }
  return FALT_OK;
}

falt_status falt_kernel_gaussian_fast(falt_kernel *kernel, int space, const double sigma[3]) {
  begin(kernel);
  falt_box_chain chain[3];
  int64_t size[3];
  FALT_TRY(check_gaussian(kernel, space, sigma));
  FALT_TRY(fast_sizes(space, sigma, chain, size));
  double *scratch = falt_alloc((size_t)falt_max(size[0], falt_max(size[1], size[2])) * sizeof *scratch);
  if (!scratch) return falt_fail(FALT_NO_MEMORY, "kernel: memory ran out; make it smaller");
  const falt_status status = allocate(kernel, size, 1);
  for (int a = 0; a < 3 && status == FALT_OK; a++) {
    double *line = line_of(kernel, 0, a);
    line[0] = 1;
    if (a >= 3 - space && sigma[a] >= LEAST_FAST)
      falt_box_chain_taps(&chain[a], line, scratch);
    else if (a >= 3 - space)
      set_bell(line, size[a], sigma[a], 0);
  }
  falt_free(scratch);
  return status;
}

/* ---- motion */

/* Distance of (x, y) from the segment of length 2*half through the origin in direction (c, s). */
static double segment_distance(double x, double y, double c, double s, double half) {
  const double along = fabs(x * c + y * s), across = x * s - y * c;
  const double beyond = along > half ? along - half : 0;
  return sqrt(beyond * beyond + across * across); /* hypot would need glibc 2.35 */
}

/* A pixel weighs 1 less its distance from the line, which pixels beside it share. y points down. */
falt_status falt_kernel_motion(falt_kernel *kernel, double length, double angle) {
  begin(kernel);
  const double pi = 3.14159265358979323846, small = 1e-9, longest = 1e4;
  if (!kernel) return falt_fail(FALT_INVALID_ARGUMENT, "kernel: NULL");
  if (!(length >= 1 && length <= longest)) return falt_fail(FALT_INVALID_SIZE, "length: %g; it is 1 to 10000", length);
  if (!isfinite(angle)) return falt_fail(FALT_INVALID_ARGUMENT, "angle: %g; it is finite", angle);
  const double half = (length - 1) / 2, radians = fmod(angle, 360) * (pi / 180), c = cos(radians), s = -sin(radians);
  const int64_t rx = (int64_t)ceil(half * fabs(c) + 1 - small) - 1, ry = (int64_t)ceil(half * fabs(s) + 1 - small) - 1;
  if ((2 * rx + 1) * (2 * ry + 1) > MOST_DENSE)
    return falt_fail(FALT_INVALID_SIZE, "length: %g at %g degrees has more than 2^24 taps; make it shorter", length,
                     angle);
  FALT_TRY(allocate(kernel, (const int64_t[3]){1, 2 * ry + 1, 2 * rx + 1}, 0));
  double *value = kernel->values, sum = 0;
  for (int64_t y = -ry; y <= ry; y++)
    for (int64_t x = -rx; x <= rx; x++, value++) {
      const double weight = 1 - segment_distance((double)x, (double)y, c, s, half);
      *value = weight > small ? weight : 0;
      sum += *value;
    }
  for (int64_t i = 0; i < kernel->count; i++) kernel->values[i] /= sum;
  return FALT_OK;
}

/* ---- using them */

falt_status falt_kernel_expand(falt_kernel *kernel) {
  falt_kernel dense;
  int64_t taps;
  if (!kernel || !kernel->values) return falt_fail(FALT_INVALID_ARGUMENT, "kernel: NULL, or without values");
  if (kernel->factors == 0) return FALT_OK;
  const int64_t *size = kernel->size;
  if (!falt_mul(size[0], size[1], &taps) || !falt_mul(taps, size[2], &taps) || taps > MOST_DENSE)
    return falt_fail(FALT_INVALID_SIZE, "kernel: more than %d taps; use its factors", MOST_DENSE);
  FALT_TRY(allocate(&dense, size, 0));
  for (int term = 0; term < kernel->factors; term++) {
    const double *d = line_of(kernel, term, 0), *h = line_of(kernel, term, 1), *w = line_of(kernel, term, 2);
    double *value = dense.values;
    for (int64_t z = 0; z < size[0]; z++)
      for (int64_t y = 0; y < size[1]; y++) {
        const double outer = d[z] * h[y];
        for (int64_t x = 0; x < size[2]; x++) *value++ += outer * w[x];
      }
  }
  falt_kernel_free(kernel);
  *kernel = dense;
  return FALT_OK;
}

falt_status falt_kernel_pack(const falt_kernel *kernel, falt_type type, void *values) {
  if (!kernel || !kernel->values || !values)
    return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL, or without values",
                     kernel && kernel->values ? "values" : "kernel");
  if ((unsigned)type >= FALT_TYPE_COUNT) return falt_fail(FALT_INVALID_ARGUMENT, "type: no enumerator %d", (int)type);
  for (int64_t i = 0; i < kernel->count; i++) {
    falt_store(values, type, i, kernel->values[i]);
    const double kept = falt_load(values, type, i);
    if (falt_type_is_integer(type) ? kept != kernel->values[i] : !isfinite(kept))
      return falt_fail(FALT_INVALID_TYPE, "type: %s does not hold a tap of %g; use f32 or f64", falt_type_name(type),
                       kernel->values[i]);
  }
  return FALT_OK;
}

falt_status falt_kernel_problem(falt_problem *problem, const falt_tensor *src, const falt_kernel *kernel,
                                falt_type type, falt_type out_type, bool flip, const falt_options *options) {
  falt_problem made;
  if (!kernel || !problem) return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL", problem ? "kernel" : "problem");
  const int64_t *size = kernel->size;
  const falt_tensor taps = falt_volume(NULL, type, size[0], size[1], size[2]).tensor;
  FALT_TRY(falt_problem_filter(&made, src, &taps, out_type, flip, options));
  made.factors = kernel->factors;
  FALT_TRY(falt_problem_check(&made));
  *problem = made;
  return FALT_OK;
}
