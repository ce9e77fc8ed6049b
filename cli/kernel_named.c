/* Named kernels: the text after the name becomes the arguments of a kernel function of the library (falt_kernel_*). */
#include <ctype.h>
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
  bool dense; /* taps are wanted, however many there are */
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

/* ---- from the library */

/* Few taps are dense: the weights of integer kernels stay integers, and any solver takes them. */
static bool is_expanded(const falt_kernel *made) {
  const int64_t small = 4096, *size = made->size;
  const double taps = (double)size[0] * (double)size[1] * (double)size[2];
  const bool one_axis = (size[0] > 1) + (size[1] > 1) + (size[2] > 1) <= 1;
  return taps <= (double)(one_axis ? CLI_MOST_TAPS : small);
}

/* Takes the values of a library's kernel, if it was made. */
static bool take(const arguments *a, falt_status status, falt_kernel *made, cli_kernel *kernel, io_error *error) {
  const bool product = status == FALT_OK && made->factors == 1;
  if (status == FALT_OK && made->factors && (a->dense || is_expanded(made))) status = falt_kernel_expand(made);
  if (status != FALT_OK) {
    falt_kernel_free(made);
    return wrong_form(a, falt_message(), error);
  }
  *kernel = (cli_kernel){.size = {made->size[0], made->size[1], made->size[2]},
                         .factors = made->factors,
                         .rank = product && !made->factors,
                         .value = malloc((size_t)made->count * sizeof *kernel->value)};
  if (kernel->value) memcpy(kernel->value, made->values, (size_t)made->count * sizeof *kernel->value);
  falt_kernel_free(made);
  return kernel->value || cli_wrong(error, "--kernel: out of memory; make it smaller");
}

static bool make_identity(arguments *a, cli_kernel *kernel, io_error *error) {
  falt_kernel made = {.factors = 0};
  if (a->text) return wrong_form(a, "it takes no number", error);
  return take(a, falt_kernel_identity(&made), &made, kernel, error);
}

static bool make_laplace(arguments *a, cli_kernel *kernel, io_error *error) {
  falt_kernel made = {.factors = 0};
  if (a->text) return wrong_form(a, "it takes no number", error);
  return take(a, falt_kernel_laplace(&made, a->space), &made, kernel, error);
}

static bool make_sharpen(arguments *a, cli_kernel *kernel, io_error *error) {
  falt_kernel made = {.factors = 0};
  if (a->text) return wrong_form(a, "it takes no number", error);
  return take(a, falt_kernel_sharpen(&made, a->space), &made, kernel, error);
}

static bool make_emboss(arguments *a, cli_kernel *kernel, io_error *error) {
  falt_kernel made = {.factors = 0};
  if (a->text) return wrong_form(a, "it takes no number", error);
  return take(a, falt_kernel_emboss(&made), &made, kernel, error);
}

static bool make_gradient(arguments *a, falt_gradient gradient, cli_kernel *kernel, io_error *error) {
  falt_kernel made = {.factors = 0};
  const int axis = a->text ? cli_find_name(a->text, cli_axis_names, 3) : -1;
  if (axis < 0) return wrong_form(a, "no axis", error);
  if (axis < 3 - a->space) return wrong_form(a, "the data has no such axis", error);
  return take(a, falt_kernel_gradient(&made, gradient, a->space, axis), &made, kernel, error);
}

static bool make_sobel(arguments *a, cli_kernel *kernel, io_error *error) {
  return make_gradient(a, FALT_SOBEL, kernel, error);
}

static bool make_prewitt(arguments *a, cli_kernel *kernel, io_error *error) {
  return make_gradient(a, FALT_PREWITT, kernel, error);
}

static bool make_scharr(arguments *a, cli_kernel *kernel, io_error *error) {
  return make_gradient(a, FALT_SCHARR, kernel, error);
}

static const double usual_truncate = 4;

static bool make_gaussian(arguments *a, cli_kernel *kernel, io_error *error) {
  falt_kernel made = {.factors = 0};
  if (!read_numbers(a, 1, 2, error)) return false;
  const double sigma[3] = {a->number[0], a->number[0], a->number[0]};
  const double truncate = a->numbers > 1 ? a->number[1] : usual_truncate;
  return take(a, falt_kernel_gaussian(&made, a->space, sigma, NULL, truncate), &made, kernel, error);
}

static bool make_gaussian_fast(arguments *a, cli_kernel *kernel, io_error *error) {
  falt_kernel made = {.factors = 0};
  if (!read_numbers(a, 1, 1, error)) return false;
  const double sigma[3] = {a->number[0], a->number[0], a->number[0]};
  return take(a, falt_kernel_gaussian_fast(&made, a->space, sigma), &made, kernel, error);
}

static bool make_log(arguments *a, cli_kernel *kernel, io_error *error) {
  falt_kernel made = {.factors = 0};
  if (!read_numbers(a, 1, 2, error)) return false;
  const double sigma[3] = {a->number[0], a->number[0], a->number[0]};
  const double truncate = a->numbers > 1 ? a->number[1] : usual_truncate;
  return take(a, falt_kernel_log(&made, a->space, sigma, truncate), &made, kernel, error);
}

static bool make_unsharp(arguments *a, cli_kernel *kernel, io_error *error) {
  falt_kernel made = {.factors = 0};
  if (!read_numbers(a, 2, 2, error)) return false;
  const double sigma[3] = {a->number[0], a->number[0], a->number[0]};
  return take(a, falt_kernel_unsharp(&made, a->space, sigma, a->number[1], usual_truncate), &made, kernel, error);
}

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
  falt_kernel made = {.factors = 0};
  int64_t read[3], size[3] = {1, 1, 1};
  int count;
  if (!read_sizes(a, read, &count, error)) return false;
  if (count > a->space) return wrong_form(a, "more sizes than the data has axes", error);
  const int axes = count == 1 ? a->space : count;
  for (int i = 0; i < axes; i++) size[3 - axes + i] = read[count == 1 ? 0 : i];
  return take(a, falt_kernel_box(&made, size), &made, kernel, error);
}

static bool make_motion(arguments *a, cli_kernel *kernel, io_error *error) {
  falt_kernel made = {.factors = 0};
  if (!read_numbers(a, 1, 2, error)) return false;
  return take(a, falt_kernel_motion(&made, a->number[0], a->numbers > 1 ? a->number[1] : 0), &made, kernel, error);
}

/* ---- the table */

static const struct {
  const char *name, *form, *about;
  int least, most; /* axes of data that it has a meaning for */
  bool (*make)(arguments *a, cli_kernel *kernel, io_error *error);
} named[] = {
    {"gaussian", "gaussian:SIGMA or gaussian:SIGMA,TRUNCATE, such as gaussian:2",
     "a bell of standard deviation SIGMA, cut at TRUNCATE (4) times SIGMA; sum 1", 1, 3, make_gaussian},
    {"gaussian-fast", "gaussian-fast:SIGMA, such as gaussian-fast:20",
     "a bell made of boxes, in a time that does not depend on SIGMA; sum 1", 1, 3, make_gaussian_fast},
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

bool cli_kernel_named(const char *text, int space, bool dense, cli_kernel *kernel, io_error *error) {
  int i = find(text);
  const char *colon = strchr(text, ':');
  if (i < 0) return cli_wrong(error, "--kernel %.60s: unknown name", text);
  arguments a = {
      .name = named[i].name, .text = colon ? colon + 1 : NULL, .form = named[i].form, .space = space, .dense = dense};
  if (space < named[i].least || space > named[i].most) {
    return cli_wrong(error, "--kernel %s: only for images, and this input has %d ax%s; choose another kernel", a.name,
                     space, space == 1 ? "is" : "es");
  }
  *kernel = (cli_kernel){0};
  if (named[i].make(&a, kernel, error)) return true;
  cli_kernel_free(kernel);
  return false;
}
