/* Tests of the solver winograd: the error of each form against f64, beside that of a sum in sequence, as its table
 * declares it; which form a plan has; NaN, infinity and overflow. FALT_BENCH=1 prints the errors. */
#include "api_fixture.h"

#include <math.h>

#include "core/random.h"
#include "solver/cpu/winograd/winograd.h"

static uint64_t seed = 20261123;

static float draw(bool positive) {
  const double value = 2 * falt_random_unit(&seed) - 1;
  return (float)(positive ? fmax(0, value) : value);
}

/* ---- errors */

enum { CHANNELS = 512, COLUMNS = 16, TILES = 12, ELEMENTS = FALT_WINOGRAD_SIZE * FALT_WINOGRAD_SIZE, TAPS = 25 };

/* Tiles of one form, and a filter, multiplied as the solver does. */
typedef struct model {
  falt_winograd_form form;
  int axes, channels, size, elements, outputs, rows, taps, filter_rows;
  bool positive;
  float pixels[ELEMENTS][CHANNELS], filter[TAPS][CHANNELS][COLUMNS];
  float input[ELEMENTS][CHANNELS], weights[ELEMENTS][CHANNELS][COLUMNS];
  float sums[ELEMENTS][COLUMNS], results[ELEMENTS][COLUMNS];
} model;

typedef struct errors {
  double squares, largest, count;
} errors;

static void note_error(errors *e, double error) {
  e->squares += error * error;
  e->largest = fmax(e->largest, fabs(error));
  e->count++;
}

static double mean_error(const errors *e) {
  return sqrt(e->squares / e->count) * 0x1p24;
}

static void set_model(model *m) {
  const falt_winograd_traits *traits = &falt_winograd_forms[m->form];
  m->outputs = traits->outputs;
  m->taps = traits->taps;
  m->size = m->outputs + m->taps - 1;
  m->elements = m->axes == 2 ? m->size * m->size : m->size;
  m->rows = m->axes == 2 ? m->outputs : 1;
  m->filter_rows = m->axes == 2 ? m->taps : 1;
  for (int e = 0; e < m->elements; e++)
    for (int c = 0; c < m->channels; c++) m->pixels[e][c] = draw(m->positive);
  for (int tap = 0; tap < m->taps * m->filter_rows; tap++)
    for (int c = 0; c < m->channels; c++)
      for (int k = 0; k < COLUMNS; k++) m->filter[tap][c][k] = draw(false);
}

static void transform(model *m) {
  const falt_winograd_kernels *kernels = falt_winograd_kernels_for(falt_isa_best());
  const float *pixels[ELEMENTS];
  for (int e = 0; e < m->elements; e++) pixels[e] = m->pixels[e];
  kernels->input[m->axes - 1][m->form](
      &(falt_winograd_input){pixels, m->input[0], m->size, 0, m->channels, m->channels, CHANNELS});
  for (int c = 0; c < m->channels; c++)
    kernels->filter[m->axes - 1][m->form](
        &(falt_winograd_filter){m->filter[0][c], m->weights[0][c], COLUMNS, CHANNELS * COLUMNS, CHANNELS * COLUMNS});
}

static void multiply(model *m) {
  const falt_layer_kernels *kernels = falt_layer_kernels_for(falt_isa_best());
  const int most = (int)falt_winograd_forms[m->form].chain, chain = most && most < m->channels ? most : m->channels;
  const void *list[CHANNELS];
  for (int e = 0; e < m->elements; e++) {
    for (int k = 0; k < COLUMNS; k += kernels->width) {
      float packed[CHANNELS * COLUMNS];
      void *out[1] = {m->sums[e] + k};
      for (int s = 0; s * chain < m->channels; s++) list[s] = m->input[e] + s * chain;
      for (int c = 0; c < m->channels; c++)
        memcpy(packed + c * kernels->width, m->weights[e][c] + k, (size_t)kernels->width * sizeof(float));
      kernels->product(&(falt_layer_product){.a = list,
                                             .b = packed,
                                             .out = out,
                                             .a_pitch = 1,
                                             .segments = m->channels / chain,
                                             .depth = chain,
                                             .n = kernels->width,
                                             .rows = 1,
                                             .chain = chain});
    }
  }
}

/* Output (y, x) of column k: in sequence, and exactly; the errors are relative to the sum of the filter's magnitudes,
 * as the largest input is 1. */
static void compare(const model *m, int y, int x, int k, errors *found, errors *sequence) {
  double exact = 0, magnitude = 0;
  float sum = 0;
  for (int tap = 0; tap < m->taps * m->filter_rows; tap++) {
    const int pixel = (y + tap / m->taps) * m->size + x + tap % m->taps;
    for (int c = 0; c < m->channels; c++) {
      const double w = (double)m->filter[tap][c][k], product = w * (double)m->pixels[pixel][c];
      exact += product;
      sum = (float)((double)sum + product);
      magnitude += fabs(w);
    }
  }
  note_error(found, ((double)m->results[y * m->outputs + x][k] - exact) / magnitude);
  note_error(sequence, ((double)sum - exact) / magnitude);
}

static void measure(model *m, errors *found, errors *sequence) {
  const falt_winograd_kernels *kernels = falt_winograd_kernels_for(falt_isa_best());
  *found = *sequence = (errors){0};
  for (int tile = 0; tile < TILES; tile++) {
    set_model(m);
    transform(m);
    multiply(m);
    kernels->output[m->axes - 1][m->form](
        &(falt_winograd_output){m->sums[0], m->results[0], COLUMNS, COLUMNS, COLUMNS});
    for (int i = 0; i < m->rows * m->outputs; i++)
      for (int k = 0; k < COLUMNS; k++) compare(m, i / m->outputs, i % m->outputs, k, found, sequence);
  }
}

/* A form whose error counts as rounding stays below a sum in sequence; others below what they declare. */
static void check_errors(model *m) {
  const falt_winograd_traits *traits = &falt_winograd_forms[m->form];
  errors found, sequence;
  measure(m, &found, &sequence);
  const double few = fmax(1, sqrt(16.0 / m->channels));
  const double declared = few * traits->error[m->axes - 1], largest = found.largest * 0x1p24;
  const bool rounds = m->channels >= traits->least_channels[m->axes - 1];
  if (getenv("FALT_BENCH"))
    print_message("%s %d axes, %3d channels%s: %.3f, at most %.2f; in sequence %.3f, at most %.2f%s\n", traits->name,
                  m->axes, m->channels, m->positive ? " of no sign" : "", mean_error(&found), largest,
                  mean_error(&sequence), sequence.largest * 0x1p24, rounds ? "; counts as rounding" : "");
  if (largest > declared) fail_msg("%s: an error of %.2f, and %.2f is declared", traits->name, largest, declared);
  if (rounds && found.squares > sequence.squares)
    fail_msg("%s, %d axes, %d channels: an error of %.3f, and a sum in sequence has %.3f", traits->name, m->axes,
             m->channels, mean_error(&found), mean_error(&sequence));
}

static void check_channels(int first, int last) {
  static model m;
  for (int form = 0; form < FALT_WINOGRAD_FORMS; form++)
    for (m.axes = 1; m.axes <= 2; m.axes++)
      for (m.channels = first; m.channels <= last; m.channels *= 2)
        for (int positive = 0; positive < 2; positive++) {
          m.form = (falt_winograd_form)form;
          m.positive = positive;
          check_errors(&m);
        }
}

static void test_errors(UNUSED void **state) {
  check_channels(16, CHANNELS);
  check_channels(1, 8);
}

/* ---- plans */

static falt_plan *plan_of(falt_device *device, const char *line, const void *filter) {
  falt_plan *plan = NULL;
  if (falt_plan_create_line(&plan, device, line, filter) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  return plan;
}

static void expect_form(falt_device *device, const char *line, const char *form) {
  char text[200];
  falt_plan *plan = plan_of(device, line, NULL);
  falt_plan_print(plan, text, sizeof text);
  if (!strstr(text, form)) fail_msg("%s: %s has no %s", line, text, form);
  falt_plan_destroy(&plan);
}

static void test_forms(UNUSED void **state) {
  falt_device *device = device_with("", 2);
  expect_form(device, "forward c=256 h=112 w=112 k=128 r=3 s=3 pad=1 method=winograd", " F(4,3)x2 ");
  expect_form(device, "forward c=64 h=28 w=28 k=128 r=3 s=3 pad=1 method=winograd", " F(2,3)x2 ");
  expect_form(device, "forward c=64 h=112 w=112 k=128 r=3 s=3 pad=1 method=winograd max-error=1e-6", " F(4,3)x2 ");
  expect_form(device, "forward c=128 h=240 w=240 k=128 r=3 s=3 pad=1 method=winograd max-error=1e-5", " F(6,3)x2 ");
  expect_form(device, "forward c=128 w=4000 k=128 s=3 pad=1 method=winograd", " F(4,3) ");
  expect_form(device, "forward c=256 h=28 w=28 k=128 r=5 s=5 pad=2 method=winograd", " F(2,5)x2 ");
  falt_plan *plan = NULL;
  assert_int_equal(falt_plan_create_line(&plan, device, "forward c=4 h=9 w=9 k=9 r=3 s=3 method=winograd", NULL),
                   FALT_OVER_BUDGET);
  expect_message("a relative error of 9.5e-07 (the limit is 0)");
  falt_device_destroy(&device);
}

/* ---- values that are not finite */

enum { EDGE = 11, DEPTH = 20, RESULTS = 24, INPUTS = EDGE * EDGE * DEPTH, OUTPUTS = EDGE * EDGE * RESULTS };

static float image[INPUTS], weights[RESULTS * 9 * DEPTH], found[OUTPUTS], wanted[OUTPUTS];

static void run(falt_device *device, const char *method, bool known, float *output) {
  char line[200];
  snprintf(line, sizeof line, "forward c=20 h=11 w=11 k=24 r=3 s=3 pad=1 layout=nhwc max-error=1e-5 method=%s", method);
  falt_plan *plan = plan_of(device, line, known ? weights : NULL);
  void *workspace = NULL;
  assert_int_equal(falt_device_alloc(device, &workspace, falt_plan_workspace(plan) + 1), FALT_OK);
  const falt_operands operands = {
      .input = image, .filter = known ? NULL : weights, .output = output, .workspace = workspace};
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  falt_device_free(device, &workspace);
  falt_plan_destroy(&plan);
}

static void fill_all(double scale) {
  for (int i = 0; i < INPUTS; i++) image[i] = (float)(scale * (double)draw(false));
  for (int i = 0; i < RESULTS * 9 * DEPTH; i++) weights[i] = (float)((double)draw(false) / scale);
}

/* Exactly the outputs whose windows hold the pixel. */
static void expect_window(int h, int w, float value) {
  for (int i = 0; i < OUTPUTS; i++) {
    const int y = i / RESULTS / EDGE, x = i / RESULTS % EDGE;
    const bool holds = abs(y - h) <= 1 && abs(x - w) <= 1;
    if (isfinite(found[i]) == holds) fail_msg("%g at (%d, %d): %g at (%d, %d)", value, h, w, found[i], y, x);
    assert_true(holds ? isnan(value) ? isnan(found[i]) : found[i] == wanted[i]
                      : fabs((double)found[i] - (double)wanted[i]) < 1e-3);
  }
}

static void test_containment(UNUSED void **state) {
  static const float values[] = {NAN, INFINITY, -INFINITY};
  falt_device *device = device_with("", 2);
  fill_all(1);
  for (int pixel = 0; pixel < EDGE * EDGE; pixel++) {
    float *at = &image[pixel * DEPTH + pixel % DEPTH];
    const float kept = *at;
    *at = values[pixel % 3];
    run(device, "winograd", pixel % 2, found);
    run(device, "reference", false, wanted);
    expect_window(pixel / EDGE, pixel % EDGE, *at);
    *at = kept;
  }
  falt_device_destroy(&device);
}

/* A weight that is not finite makes its channel so, and no other. */
static void test_weights(UNUSED void **state) {
  falt_device *device = device_with("", 2);
  fill_all(1);
  weights[7 * 9 * DEPTH + 4 * DEPTH + 3] = NAN; /* the middle tap of channel 7 */
  for (int known = 0; known < 2; known++) {
    run(device, "winograd", known, found);
    for (int i = 0; i < OUTPUTS; i++) assert_true(isnan(found[i]) == (i % RESULTS == 7));
  }
  falt_device_destroy(&device);
}

/* Transforms of inputs near the largest float overflow where the outputs do not. */
static void test_overflow(UNUSED void **state) {
  falt_device *device = device_with("", 2);
  fill_all(0x1p126);
  run(device, "winograd", true, found);
  run(device, "reference", false, wanted);
  for (int i = 0; i < OUTPUTS; i++) assert_true(fabs((double)found[i] - (double)wanted[i]) < 1e-3);
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors),
      cmocka_unit_test_setup(test_forms, set_up),
      cmocka_unit_test_setup(test_containment, set_up),
      cmocka_unit_test_setup(test_weights, set_up),
      cmocka_unit_test_setup(test_overflow, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
