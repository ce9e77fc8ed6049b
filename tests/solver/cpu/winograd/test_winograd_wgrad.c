/* Tests of the solver winograd-wgrad: the error of each form against f64, as its table declares it, and beside a sum in
 * sequence where it counts as rounding; which form a plan has; refusals; NaN, infinity and overflow. FALT_BENCH=1
 * prints the errors. */
#include "api_fixture.h"

#include <math.h>
#include <stdlib.h>

#include "core/random.h"
#include "solver/cpu/winograd/winograd.h"

enum { CHANNELS = 16, MOST = 1 << 20 };

static uint64_t seed = 20261129;
static float image[MOST], gradient[MOST], found[25 * CHANNELS * CHANNELS], wanted[25 * CHANNELS * CHANNELS];

static void fill(float *data, int64_t count, double scale) {
  for (int64_t i = 0; i < count; i++) data[i] = (float)(scale * (2 * falt_random_unit(&seed) - 1));
}

static falt_plan *plan_of(falt_device *device, const char *line) {
  falt_plan *plan = NULL;
  if (falt_plan_create_line(&plan, device, line, NULL) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  return plan;
}

static void run_plan(falt_device *device, const falt_plan *plan, float *filter) {
  void *workspace = NULL;
  assert_int_equal(falt_device_alloc(device, &workspace, falt_plan_workspace(plan) + 1), FALT_OK);
  const falt_operands operands = {.input = image, .output = gradient, .filter = filter, .workspace = workspace};
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  falt_device_free(device, &workspace);
}

/* ---- errors */

typedef struct layer {
  int rows, columns, r, s; /* outputs and taps along both axes */
} layer;

/* A tap in f64, in f32 in sequence, and the sum of the gradient's magnitudes. */
static void sum_tap(const layer *l, int k, int tap, int c, double *exact, float *sequence, double *magnitude) {
  const int width = l->columns + l->s - 1, r = tap / l->s, s = tap % l->s;
  *exact = *magnitude = 0;
  *sequence = 0;
  for (int y = 0; y < l->rows; y++)
    for (int x = 0; x < l->columns; x++) {
      const float dy = gradient[(y * l->columns + x) * CHANNELS + k];
      const float value = image[((y + r) * width + x + s) * CHANNELS + c];
      *exact += (double)dy * (double)value;
      *sequence += dy * value;
      *magnitude += fabs((double)dy);
    }
}

/* Compares a plan's taps with f64: none beyond the declared error, or on average below a sum in sequence. */
static void compare(const layer *l, const char *line, double declared) {
  double squares = 0, in_sequence = 0, largest = 0;
  int count = 0;
  for (int k = 0; k < CHANNELS; k += 5)
    for (int tap = 0; tap < l->r * l->s; tap++)
      for (int c = 0; c < CHANNELS; c++) {
        double exact, magnitude;
        float sequence;
        sum_tap(l, k, tap, c, &exact, &sequence, &magnitude);
        const double error = ((double)found[(k * l->r * l->s + tap) * CHANNELS + c] - exact) / magnitude * 0x1p24;
        squares += error * error;
        in_sequence += pow(((double)sequence - exact) / magnitude * 0x1p24, 2);
        largest = fmax(largest, fabs(error));
        count++;
      }
  if (getenv("FALT_BENCH"))
    print_message("%s: %.3f, at most %.2f; in sequence %.3f; declared %.2f\n", line, sqrt(squares / count), largest,
                  sqrt(in_sequence / count), declared * 0x1p24);
  if (declared > 0 && largest > declared * 0x1p24) fail_msg("%s: an error of %.2f", line, largest);
  if (declared == 0 && squares > in_sequence) fail_msg("%s: a larger error than a sum in sequence", line);
}

static void check_layer(falt_device *device, const layer *l, const char *words) {
  char line[200];
  const int h = l->rows + l->r - 1, w = l->columns + l->s - 1;
  snprintf(line, sizeof line, "backward-filter c=16 h=%d w=%d k=16 r=%d s=%d layout=nhwc method=winograd-wgrad%s", h, w,
           l->r, l->s, words);
  fill(image, (int64_t)h * w * CHANNELS, 1);
  fill(gradient, (int64_t)l->rows * l->columns * CHANNELS, 1);
  falt_plan *plan = plan_of(device, line);
  run_plan(device, plan, found);
  compare(l, line, plan->cost.error);
  falt_plan_destroy(&plan);
}

static void test_errors(UNUSED void **state) {
  static const layer layers[] = {{4, 6, 3, 3},    {14, 14, 3, 3}, {56, 56, 3, 3},  {128, 128, 3, 3}, {9, 8, 5, 5},
                                 {96, 100, 5, 5}, {1, 40, 1, 3},  {1, 4200, 1, 3}, {1, 30, 1, 5},    {1, 8200, 1, 5}};
  falt_device *device = device_with("", 2);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) check_layer(device, &layers[i], " max-error=1e-4");
  check_layer(device, &(layer){16, 16, 3, 3}, "");
  check_layer(device, &(layer){128, 128, 3, 3}, "");
  check_layer(device, &(layer){1, 4200, 1, 3}, "");
  falt_device_destroy(&device);
}

/* ---- plans */

static void expect_form(falt_device *device, const char *line, const char *form) {
  char text[300];
  falt_plan *plan = plan_of(device, line);
  falt_plan_print(plan, text, sizeof text);
  if (!strstr(text, form)) fail_msg("%s: %s has no %s", line, text, form);
  falt_plan_destroy(&plan);
}

static void expect_refusal(falt_device *device, const char *words, falt_status status, const char *reason) {
  char line[200];
  falt_plan *plan = NULL;
  snprintf(line, sizeof line, "backward-filter c=64 k=64 %s method=winograd-wgrad", words);
  assert_int_equal(falt_plan_create_line(&plan, device, line, NULL), status);
  expect_message(reason);
}

static void test_forms(UNUSED void **state) {
  falt_device *device = device_with("", 2);
  expect_form(device, "backward-filter n=16 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 layout=nhwc", "(winograd-wgrad ");
  expect_form(device, "backward-filter n=16 c=128 h=28 w=28 k=128 r=3 s=3 pad=1", "(winograd-wgrad ");
  expect_form(device, "backward-filter c=128 h=28 w=28 k=128 r=3 s=3 pad=1 layout=nhwc", " F(2,3)x2 ");
  expect_form(device, "backward-filter n=8 c=128 h=56 w=56 k=128 r=3 s=3 pad=1 layout=nhwc", " F(4,3)x2 ");
  expect_refusal(device, "h=9 w=9 r=3 s=3 layout=nhwc", FALT_OVER_BUDGET, "a relative error of ");
  expect_refusal(device, "h=9 w=9 r=3 s=3", FALT_NO_SOLVER, "channels are not adjacent");
  expect_refusal(device, "h=9 w=9 r=3 s=3 stride=2 layout=nhwc", FALT_NO_SOLVER, "a stride and dilation of 1");
  expect_refusal(device, "h=9 w=9 r=7 s=7 layout=nhwc", FALT_NO_SOLVER, "3 or 5 taps");
  expect_refusal(device, "h=30 w=30 r=3 s=3 layout=nhwc bias=1", FALT_NO_SOLVER, "the bias");
  falt_device_destroy(&device);
}

/* ---- values that are not finite: the same results as by definition */

static const char *const small = "backward-filter c=16 h=11 w=11 k=16 r=3 s=3 pad=1 layout=nhwc max-error=1e-4 method=";

static void run_method(falt_device *device, const char *method, float *filter) {
  char line[200];
  snprintf(line, sizeof line, "%s%s", small, method);
  falt_plan *plan = plan_of(device, line);
  run_plan(device, plan, filter);
  falt_plan_destroy(&plan);
}

static void expect_same(falt_device *device) {
  run_method(device, "winograd-wgrad", found);
  run_method(device, "reference", wanted);
  for (int i = 0; i < 9 * CHANNELS * CHANNELS; i++) {
    const double is = (double)found[i], should = (double)wanted[i];
    if (isnan(should) ? !isnan(is) : isinf(should) ? is != should : !(fabs(is - should) < 1e-2))
      fail_msg("tap %d: %g instead of %g", i, is, should);
  }
}

static void test_not_finite(UNUSED void **state) {
  static const float values[] = {NAN, INFINITY, -INFINITY};
  falt_device *device = device_with("", 2);
  for (int i = 0; i < 12; i++) {
    fill(image, (int64_t)121 * CHANNELS, 1);
    fill(gradient, (int64_t)121 * CHANNELS, 1);
    (i % 2 ? image : gradient)[i * 37 % 121 * CHANNELS + i] = values[i % 3];
    expect_same(device);
  }
  fill(image, (int64_t)121 * CHANNELS, 0x1p125); /* transforms overflow, gradients do not */
  fill(gradient, (int64_t)121 * CHANNELS, 0x1p-125);
  expect_same(device);
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_errors, set_up),
                                     cmocka_unit_test_setup(test_forms, set_up),
                                     cmocka_unit_test_setup(test_not_finite, set_up)};
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
