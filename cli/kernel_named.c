/* Named kernels. All but emboss and motion are sums of products of one line an axis:
 *
 *   gaussian   g(z) g(y) g(x), g(i) = exp(-i^2 / 2 sigma^2) / sum, radius int(truncate * sigma + 1/2)   scipy.ndimage
 *   log        sum over axes of g'' on that axis and g on the others, g''(i) = g(i) (i^2/sigma^4 - 1/sigma^2)
 *   laplace    sum over axes of 1 -2 1
 *   sobel      -1 0 1 on one axis, 1 2 1 on the others; prewitt 1 1 1; scharr 3 10 3
 *   sharpen    identity - laplace
 *   unsharp    (1 + amount) identity - amount gaussian
 *
 * Taps are correlation taps: a derivative is positive where values rise along the axis. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "axes.h"
#include "kernel.h"
#include "report.h"

/* What stands behind the name. */
typedef struct arguments {
  const char *name, *text; /* text: behind the colon, or NULL */
  const char *form;        /* how it is written, for errors */
  int space;
  int numbers;
  double number[2];
} arguments;

static bool wrong_form(const arguments *a, const char *why, io_error *error) {
  return cli_wrong(error, "--kernel %s%s%.40s: %s; write %s", a->name, a->text ? ":" : "", a->text ? a->text : "", why,
                   a->form);
}

/* Numbers with commas between them, at least `least` of them. */
static bool read_numbers(arguments *a, int least, int most, io_error *error) {
  const char *at = a->text ? a->text : "";
  for (a->numbers = 0; *at && a->numbers < most; a->numbers++) {
    char *end;
    a->number[a->numbers] = strtod(at, &end);
    if (end == at || (*end && *end != ',') || !isfinite(a->number[a->numbers])) {
      return wrong_form(a, "not a finite number", error);
    }
    at = *end ? end + 1 : end;
  }
  if (*at) return wrong_form(a, "too many numbers", error);
  return a->numbers >= least || wrong_form(a, "a number is missing", error);
}

/* ---- sums of products of lines */

/* value[z][y][x] += factor * line[0][z] * line[1][y] * line[2][x]. */
static void add_product(cli_kernel *kernel, double factor, const double *const line[3]) {
  double *value = kernel->value;
  for (int64_t z = 0; z < kernel->size[0]; z++) {
    for (int64_t y = 0; y < kernel->size[1]; y++) {
      double outer = factor * line[0][z] * line[1][y];
      for (int64_t x = 0; x < kernel->size[2]; x++) *value++ += outer * line[2][x];
    }
  }
}

static const double one[1] = {1};

/* Adds factor times the product with `special` on one axis (-1: none) and `common` on the other axes of the space. */
static void add_lines(cli_kernel *kernel, int space, double factor, int axis, const double *special,
                      const double *common) {
  const double *line[3];
  for (int i = 0; i < 3; i++) line[i] = i < 3 - space ? one : i == axis ? special : common;
  add_product(kernel, factor, line);
}

static bool allocate_cube(cli_kernel *kernel, int space, int64_t taps, io_error *error) {
  return cli_kernel_allocate((const int64_t[3]){space > 2 ? taps : 1, space > 1 ? taps : 1, taps}, kernel, error);
}

static bool make_identity(arguments *a, cli_kernel *kernel, io_error *error) {
  if (a->text) return wrong_form(a, "it takes no number", error);
  if (!allocate_cube(kernel, 1, 1, error)) return false;
  kernel->value[0] = 1;
  kernel->rank = 1;
  return true;
}

static const double delta3[3] = {0, 1, 0}, second3[3] = {1, -2, 1};

static bool make_laplace(arguments *a, cli_kernel *kernel, io_error *error) {
  if (a->text) return wrong_form(a, "it takes no number", error);
  if (!allocate_cube(kernel, a->space, 3, error)) return false;
  for (int axis = 3 - a->space; axis < 3; axis++) add_lines(kernel, a->space, 1, axis, second3, delta3);
  return true;
}

static bool make_sharpen(arguments *a, cli_kernel *kernel, io_error *error) {
  if (!make_laplace(a, kernel, error)) return false;
  for (int64_t i = 0; i < cli_kernel_count(kernel); i++) kernel->value[i] = -kernel->value[i];
  add_lines(kernel, a->space, 1, -1, NULL, delta3);
  return true;
}

/* ---- derivatives of first order */

static bool make_derivative(arguments *a, const double smooth[3], cli_kernel *kernel, io_error *error) {
  static const double difference[3] = {-1, 0, 1};
  int axis = a->text ? cli_find_name(a->text, cli_axis_names, 3) : -1;
  if (axis < 0) return wrong_form(a, "no axis", error);
  if (axis < 3 - a->space) return wrong_form(a, "the data has no such axis", error);
  if (!allocate_cube(kernel, a->space, 3, error)) return false;
  add_lines(kernel, a->space, 1, axis, difference, smooth);
  kernel->rank = 1;
  return true;
}

static bool make_sobel(arguments *a, cli_kernel *kernel, io_error *error) {
  return make_derivative(a, (const double[3]){1, 2, 1}, kernel, error);
}

static bool make_prewitt(arguments *a, cli_kernel *kernel, io_error *error) {
  return make_derivative(a, (const double[3]){1, 1, 1}, kernel, error);
}

static bool make_scharr(arguments *a, cli_kernel *kernel, io_error *error) {
  return make_derivative(a, (const double[3]){3, 10, 3}, kernel, error);
}

/* ---- gaussians */

/* The line g of 2*radius + 1 numbers, then its second derivative in as many. NULL and *error if it is too long. */
static double *make_bell(const arguments *a, double sigma, double truncate, int64_t *radius, io_error *error) {
  double reach = truncate * sigma + 0.5;
  if (!(sigma >= 0 && truncate >= 0)) return (void)wrong_form(a, "negative", error), NULL;
  if (reach > 1e6) return (void)wrong_form(a, "too wide", error), NULL;
  *radius = (int64_t)reach;
  int64_t taps = 2 * *radius + 1;
  double *g = malloc(2 * (size_t)taps * sizeof *g), *second = g + taps, sum = 0;
  if (!g) return (void)cli_wrong(error, "--kernel: out of memory; make it smaller"), NULL;
  for (int64_t i = 0; i < taps; i++) {
    double t = i == *radius ? 0 : (double)(i - *radius) / sigma;
    g[i] = exp(-0.5 * t * t);
    sum += g[i];
  }
  for (int64_t i = 0; i < taps; i++) {
    double t = i == *radius ? 0 : (double)(i - *radius) / sigma;
    g[i] /= sum;
    second[i] = g[i] * (t * t - 1) / (sigma * sigma);
  }
  return g;
}

static bool make_gaussian(arguments *a, cli_kernel *kernel, io_error *error) {
  int64_t radius;
  if (!read_numbers(a, 1, 2, error)) return false;
  double *g = make_bell(a, a->number[0], a->numbers > 1 ? a->number[1] : 4, &radius, error);
  bool ok = g && allocate_cube(kernel, a->space, 2 * radius + 1, error);
  if (ok) {
    add_lines(kernel, a->space, 1, -1, NULL, g);
    kernel->rank = 1;
  }
  free(g);
  return ok;
}

static bool make_log(arguments *a, cli_kernel *kernel, io_error *error) {
  int64_t radius;
  if (!read_numbers(a, 1, 2, error)) return false;
  if (!(a->number[0] > 0)) return wrong_form(a, "SIGMA must be above 0", error);
  double *g = make_bell(a, a->number[0], a->numbers > 1 ? a->number[1] : 4, &radius, error);
  bool ok = g && allocate_cube(kernel, a->space, 2 * radius + 1, error);
  for (int axis = 3 - a->space; ok && axis < 3; axis++) {
    add_lines(kernel, a->space, 1, axis, g + 2 * radius + 1, g);
  }
  free(g);
  return ok;
}

static bool make_unsharp(arguments *a, cli_kernel *kernel, io_error *error) {
  int64_t radius;
  if (!read_numbers(a, 2, 2, error)) return false;
  double *g = make_bell(a, a->number[0], 4, &radius, error), amount = a->number[1];
  bool ok = g && allocate_cube(kernel, a->space, 2 * radius + 1, error);
  if (ok) {
    add_lines(kernel, a->space, -amount, -1, NULL, g);
    kernel->value[cli_kernel_count(kernel) / 2] += 1 + amount;
  }
  free(g);
  return ok;
}

/* ---- the rest */

static bool read_sizes(const arguments *a, int64_t size[3], int *count, io_error *error) {
  const char *at = a->text ? a->text : "";
  for (*count = 0; isdigit((unsigned char)*at) && *count < 3;) {
    char *end;
    size[(*count)++] = strtoll(at, &end, 10);
    if (*end == '\0') return true;
    if (*end != 'x') break;
    at = end + 1;
  }
  return wrong_form(a, "not a size", error);
}

static bool make_box(arguments *a, cli_kernel *kernel, io_error *error) {
  int64_t read[3], size[3] = {1, 1, 1};
  int count;
  if (!read_sizes(a, read, &count, error)) return false;
  if (count > a->space) return wrong_form(a, "more sizes than the data has axes", error);
  int axes = count == 1 ? a->space : count;
  for (int i = 0; i < axes; i++) size[3 - axes + i] = read[count == 1 ? 0 : i];
  if (!cli_kernel_allocate(size, kernel, error)) return false;
  int64_t taps = cli_kernel_count(kernel);
  for (int64_t i = 0; i < taps; i++) kernel->value[i] = 1.0 / (double)taps;
  kernel->rank = 1;
  return true;
}

static bool make_emboss(arguments *a, cli_kernel *kernel, io_error *error) {
  static const double taps[9] = {-2, -1, 0, -1, 1, 1, 0, 1, 2};
  if (a->text) return wrong_form(a, "it takes no number", error);
  if (!allocate_cube(kernel, 2, 3, error)) return false;
  memcpy(kernel->value, taps, sizeof taps);
  return true;
}

/* Distance of (x, y) from the segment of length 2*half through the origin in direction (c, s). */
static double segment_distance(double x, double y, double c, double s, double half) {
  double along = fabs(x * c + y * s), across = x * s - y * c;
  const double beyond = along > half ? along - half : 0;
  return sqrt(beyond * beyond + across * across);
}

/* A line of LENGTH pixels, ANGLE degrees anticlockwise from the x axis as the picture is seen (y points down). A pixel
 * weighs 1 less its distance from the line, so that a line between pixels is shared by them. */
static bool make_motion(arguments *a, cli_kernel *kernel, io_error *error) {
  if (!read_numbers(a, 1, 2, error)) return false;
  if (!(a->number[0] >= 1 && a->number[0] <= 1e4)) return wrong_form(a, "LENGTH must be 1 to 10000", error);
  double half = (a->number[0] - 1) / 2, angle = a->numbers > 1 ? fmod(a->number[1], 360) * (M_PI / 180) : 0;
  double c = cos(angle), s = -sin(angle), small = 1e-9, sum = 0;
  int64_t rx = (int64_t)ceil(half * fabs(c) + 1 - small) - 1, ry = (int64_t)ceil(half * fabs(s) + 1 - small) - 1;
  if (!cli_kernel_allocate((const int64_t[3]){1, 2 * ry + 1, 2 * rx + 1}, kernel, error)) return false;
  double *value = kernel->value;
  for (int64_t y = -ry; y <= ry; y++) {
    for (int64_t x = -rx; x <= rx; x++, value++) {
      double weight = 1 - segment_distance((double)x, (double)y, c, s, half);
      *value = weight > small ? weight : 0;
      sum += *value;
    }
  }
  for (int64_t i = 0; i < cli_kernel_count(kernel); i++) kernel->value[i] /= sum;
  return true;
}

/* ---- the table */

static const struct {
  const char *name, *form, *about;
  int least, most; /* axes of data that it has a meaning for */
  bool (*make)(arguments *a, cli_kernel *kernel, io_error *error);
} named[] = {
    {"gaussian", "gaussian:SIGMA or gaussian:SIGMA,TRUNCATE, such as gaussian:2",
     "a bell of standard deviation SIGMA, cut at TRUNCATE (4) times SIGMA; sum 1", 1, 3, make_gaussian},
    {"box", "box:N, box:5x5 or box:3x3x3", "equal taps, sum 1: the mean", 1, 3, make_box},
    {"sobel", "sobel:x, sobel:y or sobel:z", "derivative along an axis, smoothed by 1 2 1 across it", 1, 3, make_sobel},
    {"prewitt", "prewitt:x, prewitt:y or prewitt:z", "derivative along an axis, smoothed by 1 1 1 across it", 1, 3,
     make_prewitt},
    {"scharr", "scharr:x, scharr:y or scharr:z", "derivative along an axis, smoothed by 3 10 3 across it", 1, 3,
     make_scharr},
    {"laplace", "laplace", "sum of the second differences along all axes", 1, 3, make_laplace},
    {"log", "log:SIGMA or log:SIGMA,TRUNCATE, such as log:1.5", "Laplacian of a Gaussian of standard deviation SIGMA",
     1, 3, make_log},
    {"sharpen", "sharpen", "the identity minus the Laplacian", 1, 3, make_sharpen},
    {"unsharp", "unsharp:SIGMA,AMOUNT, such as unsharp:2,0.5",
     "unsharp mask: adds AMOUNT times what a Gaussian blurs away", 1, 3, make_unsharp},
    {"emboss", "emboss", "relief with light from the upper left; images only", 2, 2, make_emboss},
    {"motion", "motion:LENGTH,ANGLE, such as motion:15,30",
     "a line of LENGTH pixels at ANGLE degrees, sum 1; images only", 2, 2, make_motion},
    {"identity", "identity", "one tap of 1: a copy", 1, 3, make_identity},
};
enum { NAMED = sizeof named / sizeof *named };

static int find(const char *text) {
  size_t length = strcspn(text, ":");
  for (int i = 0; i < NAMED; i++) {
    if (strlen(named[i].name) == length && memcmp(named[i].name, text, length) == 0) return i;
  }
  return -1;
}

const char *cli_kernel_name(int i, const char **form, const char **about) {
  if (i < 0 || i >= NAMED) return NULL;
  if (form) *form = named[i].form;
  if (about) *about = named[i].about;
  return named[i].name;
}

bool cli_kernel_is_name(const char *text) {
  return find(text) >= 0;
}

const char *cli_kernel_suggestion(const char *text, char *hint, size_t size) {
  const char *names[NAMED];
  for (int i = 0; i < NAMED; i++) names[i] = named[i].name;
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
  return cli_suggestion(name, names, NAMED, hint, size);
}

bool cli_kernel_named(const char *text, int space, cli_kernel *kernel, io_error *error) {
  int i = find(text);
  const char *colon = strchr(text, ':');
  if (i < 0) return cli_wrong(error, "--kernel %.60s: unknown name", text);
  arguments a = {.name = named[i].name, .text = colon ? colon + 1 : NULL, .form = named[i].form, .space = space};
  if (space < named[i].least || space > named[i].most) {
    return cli_wrong(error, "--kernel %s: only for images, and this input has %d ax%s; choose another kernel", a.name,
                     space, space == 1 ? "is" : "es");
  }
  *kernel = (cli_kernel){0};
  if (named[i].make(&a, kernel, error)) return true;
  cli_kernel_free(kernel);
  return false;
}
