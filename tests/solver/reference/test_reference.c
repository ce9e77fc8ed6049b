/* The reference, and the generic solver beside it: worked examples, and properties that need no second implementation.
 * Every test runs on both, so that the oracle is itself held against something. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "problem/problem.h"

static falt_device *device;
static const char *const methods[] = {"reference", "generic"};
enum { METHODS = 2 };

static falt_problem parse(const char *line) {
  falt_problem problem;
  if (falt_problem_parse(&problem, NULL, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  return problem;
}

static void run(const char *method, const falt_problem *problem, falt_operands operands) {
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", method);
  if (falt_plan_create(&plan, device, problem, &budget, NULL) != FALT_OK) fail_msg("%s", falt_message());
  assert_int_equal(falt_plan_workspace(plan), 0);
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  falt_plan_destroy(&plan);
}

static double *random_data(int64_t count, uint64_t *state) {
  double *data = malloc((size_t)count * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++) data[i] = 2 * falt_random_unit(state) - 1;
  return data;
}

static double dot(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

static void assert_near(double value, double expected, double tolerance, const char *what) {
  if (!(fabs(value - expected) <= tolerance)) fail_msg("%s: %.17g, expected %.17g", what, value, expected);
}

/* ---- worked examples */

enum { MOST = 32 };

typedef struct example {
  const char *line;
  double input[MOST], filter[MOST], result[MOST];
  int first, count; /* of the results that are given */
} example;

static const example examples[] = {
    {"correlate w=7 s=5", {1, 2, 3, 4, 5, 6, 7}, {3, 4, 5, 4, 3}, {22, 38, 57, 76}, 0, 4},
    {"correlate w=7 s=5", {8, 2, 5, 4, 1, 7, 3}, {1, 3, 5, 3, 1}, {51}, 0, 1},
    {"correlate w=5 s=3", {4, 1, 3, 2, 3}, {2, 1, 4}, {8, 21, 13, 20, 7}, 0, 5},
    {"correlate w=5 s=3", {4, 1, 3, 2, 3}, {0, 1, 0}, {4, 1, 3, 2, 3}, 0, 5},
    {"correlate w=5 s=3", {4, 1, 3, 2, 3}, {0, 0, 1}, {1, 3, 2, 3, 0}, 0, 5},
    {"correlate w=5 s=3", {4, 1, 3, 2, 3}, {1, 0, 0}, {0, 4, 1, 3, 2}, 0, 5},
    {"correlate w=5 s=3", {4, 1, 3, 2, 3}, {-0.5, 0, 0.5}, {0.5, -0.5, 0.5, 0, -1}, 0, 5},
    {"correlate w=5 s=3", {3, 6, 9, 3, 12}, {1. / 3, 1. / 3, 1. / 3}, {3, 6, 6, 8, 5}, 0, 5},
    {"correlate w=5 s=3 anchor=0", {4, 1, 3, 2, 3}, {2, 1, 4}, {21, 13, 20, 7, 6}, 0, 5},
    {"correlate h=5 w=5 r=5 s=5",
     {1, 2, 3, 4, 5, 2, 3, 4, 5, 6, 3, 4, 5, 6, 7, 4, 5, 6, 7, 8, 5, 6, 7, 8, 5},
     {1, 2, 3, 2, 1, 2, 3, 4, 3, 2, 3, 4, 5, 4, 3, 2, 3, 4, 3, 2, 1, 2, 3, 2, 1},
     {[12] = 321},
     12,
     1},
    {"convolve w=4 s=2 mode=full", {1, 2, 3, 4}, {0.5, 0.5}, {0.5, 1.5, 2.5, 3.5, 2}, 0, 5},
    {"convolve w=3 s=3", {0, 1, 0}, {1, 2, 3}, {1, 2, 3}, 0, 3},
    {"correlate w=3 s=3", {0, 1, 0}, {1, 2, 3}, {3, 2, 1}, 0, 3},
    {"correlate w=4 s=5 boundary=edge", {1, 2, 3, 4}, {1, 0, 0, 0, 1}, {4, 5, 5, 6}, 0, 4},
    {"correlate w=4 s=5 boundary=symmetric", {1, 2, 3, 4}, {1, 0, 0, 0, 0}, {2, 1, 1, 2}, 0, 4},
    {"correlate w=4 s=5 boundary=reflect101", {1, 2, 3, 4}, {1, 0, 0, 0, 0}, {3, 2, 1, 2}, 0, 4},
    {"correlate w=4 s=5 boundary=wrap", {1, 2, 3, 4}, {1, 0, 0, 0, 0}, {3, 4, 1, 2}, 0, 4},
    {"correlate w=4 s=5 boundary=wrap", {1, 2, 3, 4}, {0, 0, 0, 0, 1}, {3, 4, 1, 2}, 0, 4},
    {"correlate w=4 s=5 boundary=constant value=9", {1, 2, 3, 4}, {1, 0, 0, 0, 1}, {12, 13, 10, 11}, 0, 4},
    {"correlate w=2 s=9 boundary=reflect101 pad=8:0 ", {1, 2}, {1}, {1, 2}, 0, 2},
    {"correlate w=1 s=3 boundary=reflect101", {5}, {1, 1, 1}, {15}, 0, 1},
    {"correlate w=6 s=2 stride=2 anchor=0", {1, 2, 3, 4, 5, 6}, {1, 10}, {21, 43, 65}, 0, 3},
    {"correlate w=6 s=2 dilation=3 anchor=0", {1, 2, 3, 4, 5, 6}, {1, 10}, {41, 52, 63, 4, 5, 6}, 0, 6},
};

static void test_examples(void **state) {
  (void)state;
  for (size_t e = 0; e < sizeof examples / sizeof *examples; e++)
    for (int m = 0; m < METHODS; m++) {
      char line[128];
      example x = examples[e];
      double y[MOST] = {0};
      snprintf(line, sizeof line, "%s type=f64", x.line);
      const falt_problem problem = parse(line);
      run(methods[m], &problem, (falt_operands){.input = x.input, .filter = x.filter, .output = y});
      for (int i = x.first; i < x.first + x.count; i++) assert_near(y[i], x.result[i], 1e-14, line);
    }
}

/* Rounding to the nearest integer, ties to even, and saturation happen once, at the end. */
static void test_integers(void **state) {
  (void)state;
  static const struct {
    const char *line;
    float taps[2];
    uint8_t result[4];
  } cases[] = {
      {"correlate w=4 s=2 anchor=0 type=u8 weight-type=f32", {0.5f, 0}, {0, 2, 2, 128}},
      {"correlate w=4 s=2 anchor=0 type=u8 weight-type=f32", {2, 0}, {2, 6, 10, 255}},
      {"correlate w=4 s=2 anchor=0 type=u8 weight-type=f32", {-1, 1}, {2, 2, 250, 0}},
      {"correlate w=4 s=2 anchor=0 type=u8 weight-type=f32 beta=0.5", {1, 0}, {2, 4, 6, 255}},
  };
  uint8_t x[4] = {1, 3, 5, 255}, y[4];
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int m = 0; m < METHODS; m++) {
      const falt_problem problem = parse(cases[c].line);
      run(methods[m], &problem, (falt_operands){.input = x, .filter = (void *)cases[c].taps, .output = y});
      assert_memory_equal(y, cases[c].result, sizeof y);
    }
}

/* Sums that neither a double nor 64 bits hold: 2^31 * 2^31 four times, then all but 5 taken away again. */
static void test_wide_sums(void **state) {
  (void)state;
  const int32_t low = INT32_MIN;
  int32_t x[9] = {low, low, low, low, low, low, low, low, 5}, w[9] = {low, low, low, low, 0, 0, 0, 0, 1}, y;
  const falt_problem once = parse("correlate w=9 s=9 mode=valid type=s32 weight-type=s32");
  for (int m = 0; m < METHODS; m++) {
    run(methods[m], &once, (falt_operands){.input = x, .filter = w, .output = &y});
    assert_int_equal(y, INT32_MAX);
    w[4] = w[5] = INT32_MAX, w[6] = w[7] = INT32_MAX; /* -2^31 * (2^31 - 1), four times */
    run(methods[m], &once, (falt_operands){.input = x, .filter = w, .output = &y});
    assert_int_equal(y, INT32_MAX); /* 4 * 2^31 + 5 */
    x[0] = x[1] = low + 1, x[2] = x[3] = low + 1;
    run(methods[m], &once, (falt_operands){.input = x, .filter = w, .output = &y});
    assert_int_equal(y, 5); /* 4 * (2^31 - 1) * 2^31 - 4 * 2^31 * (2^31 - 1) + 5 */
    x[0] = x[1] = x[2] = x[3] = low;
    w[4] = w[5] = w[6] = w[7] = 0;
  }
}

/* ---- adjoints: <conv(x,w),y> = <x,backward_data(y,w)> = <w,backward_filter(x,y)> */

static int pick(uint64_t *state, int low, int high) {
  return (int)falt_random_int(state, low, high);
}

/* Random forward layers in f64, every boundary on every side. */
static void random_layer(uint64_t *state, char *line, size_t size) {
  static const char axes[] = "dhw", taps[] = "trs";
  const int space = pick(state, 1, 3), groups = pick(state, 1, 3);
  falt_text text = falt_text_over(line, size);
  falt_text_add(&text, "forward n=%d groups=%d", pick(state, 1, 2), groups);
  falt_text_add(&text, " c=%d", groups * pick(state, 1, 3));
  falt_text_add(&text, " k=%d", groups * pick(state, 1, 3));
  for (int a = 3 - space; a < 3; a++) {
    falt_text_add(&text, " %c=%d", axes[a], pick(state, 1, space == 3 ? 5 : 9));
    falt_text_add(&text, " %c=%d", taps[a], pick(state, 1, 4));
  }
  static const char *const words[] = {"stride", "dilation"};
  for (int w = 0; w < 2; w++) {
    falt_text_add(&text, " %s=", words[w]);
    for (int a = 0; a < space; a++) falt_text_add(&text, "%s%d", a ? "x" : "", pick(state, 1, 3));
  }
  falt_text_add(&text, " pad=");
  for (int a = 0; a < space; a++) {
    const int before = pick(state, 0, 14), after = pick(state, 9, 14); /* large: the window always fits */
    falt_text_add(&text, "%s%d:%d", a ? "x" : "", before, after);
  }
  falt_text_add(&text, " boundary=");
  for (int a = 3 - space; a < 3; a++) {
    const int before = pick(state, 0, FALT_BOUNDARY_COUNT - 1), after = pick(state, 0, FALT_BOUNDARY_COUNT - 1);
    falt_text_add(&text, "%s%c=%s:%s", a > 3 - space ? "," : "", "zyx"[a], falt_boundary_names[before],
                  falt_boundary_names[after]);
  }
  falt_text_add(&text, " type=f64%s",
                pick(state, 0, 1) ? ""
                : space == 3      ? " layout=ndhwc"
                : space == 2      ? " layout=nhwc"
                                  : " layout=nwc");
}

static void check_adjoint(const char *method, const char *line, uint64_t *state) {
  const falt_problem forward = parse(line);
  falt_problem data = forward, filter = forward;
  data.operation = FALT_BACKWARD_DATA;
  filter.operation = FALT_BACKWARD_FILTER;
  const int64_t nx = falt_tensor_count(&forward.input), nw = falt_tensor_count(&forward.filter),
                ny = falt_tensor_count(&forward.output);
  double *x = random_data(nx, state), *w = random_data(nw, state), *y = random_data(ny, state);
  double *cy = random_data(ny, state), *dx = random_data(nx, state), *dw = random_data(nw, state);
  run(method, &forward, (falt_operands){.input = x, .filter = w, .output = cy});
  run(method, &data, (falt_operands){.input = dx, .filter = w, .output = y});
  run(method, &filter, (falt_operands){.input = x, .filter = dw, .output = y});
  double magnitude = 1;
  for (int64_t i = 0; i < ny; i++) magnitude += fabs(cy[i] * y[i]);
  const double a = dot(cy, y, ny), b = dot(x, dx, nx), c = dot(w, dw, nw);
  assert_near(b, a, 1e-12 * magnitude, line);
  assert_near(c, a, 1e-12 * magnitude, line);
  double *all[] = {x, w, y, cy, dx, dw};
  for (int i = 0; i < 6; i++) free(all[i]);
}

static void test_adjoints(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    uint64_t state = seed;
    char line[512];
    random_layer(&state, line, sizeof line);
    for (int m = 0; m < METHODS; m++) check_adjoint(methods[m], line, &state);
  }
}

/* ---- linearity, impulse, shift */

static void test_linearity(void **unused) {
  (void)unused;
  uint64_t state = 7;
  const falt_problem p = parse("forward n=2 c=4 h=9 w=11 k=6 r=3 s=4 groups=2 pad=2 boundary=reflect101 type=f64");
  const int64_t nx = falt_tensor_count(&p.input), nw = falt_tensor_count(&p.filter), ny = falt_tensor_count(&p.output);
  double *x1 = random_data(nx, &state), *x2 = random_data(nx, &state), *w = random_data(nw, &state);
  double *y[3] = {random_data(ny, &state), random_data(ny, &state), random_data(ny, &state)};
  for (int m = 0; m < METHODS; m++) {
    double *both = random_data(nx, &state);
    for (int64_t i = 0; i < nx; i++) both[i] = 2 * x1[i] - 3 * x2[i];
    double *const inputs[] = {x1, x2, both};
    for (int i = 0; i < 3; i++) run(methods[m], &p, (falt_operands){.input = inputs[i], .filter = w, .output = y[i]});
    for (int64_t i = 0; i < ny; i++) assert_near(y[2][i], 2 * y[0][i] - 3 * y[1][i], 1e-12, "linearity");
    free(both);
  }
  double *all[] = {x1, x2, w, y[0], y[1], y[2]};
  for (int i = 0; i < 6; i++) free(all[i]);
}

/* An impulse gives back the filter, flipped by correlation; a convolution gives it as it is. */
static void test_impulse(void **unused) {
  (void)unused;
  static const char *const verbs[] = {"correlate", "convolve"};
  uint64_t state = 3;
  double x[7 * 9] = {0}, y[7 * 9], *w = random_data(15, &state);
  x[3 * 9 + 4] = 1;
  for (int verb = 0; verb < 2; verb++)
    for (int m = 0; m < METHODS; m++) {
      char line[64];
      snprintf(line, sizeof line, "%s h=7 w=9 r=3 s=5 type=f64", verbs[verb]);
      const falt_problem p = parse(line);
      run(methods[m], &p, (falt_operands){.input = x, .filter = w, .output = y});
      for (int i = 0; i < 7; i++)
        for (int j = 0; j < 9; j++) {
          const int r = verb ? i - 2 : 4 - i, s = verb ? j - 2 : 6 - j;
          const bool inside = r >= 0 && r < 3 && s >= 0 && s < 5;
          assert_true(y[i * 9 + j] == (inside ? w[r * 5 + s] : 0));
        }
    }
  free(w);
}

/* With wrap, filtering commutes with shifting the signal round. */
static void test_shift(void **unused) {
  (void)unused;
  enum { N = 37, BY = 11 };
  uint64_t state = 5;
  double *x = random_data(N, &state), *w = random_data(8, &state), shifted[N], y[N], z[N];
  for (int i = 0; i < N; i++) shifted[i] = x[(i + BY) % N];
  const falt_problem p = parse("correlate w=37 s=8 boundary=wrap type=f64");
  for (int m = 0; m < METHODS; m++) {
    run(methods[m], &p, (falt_operands){.input = x, .filter = w, .output = y});
    run(methods[m], &p, (falt_operands){.input = shifted, .filter = w, .output = z});
    for (int i = 0; i < N; i++) assert_near(z[i], y[(i + BY) % N], 1e-14, "shift");
  }
  free(x);
  free(w);
}

/* ---- finite differences: of an activation-free layer and of both poolings, along a random direction */

static void check_difference(const char *method, const char *forward_line, falt_operation backward, double step) {
  uint64_t state = 11;
  const falt_problem p = parse(forward_line);
  falt_problem back = p;
  back.operation = backward;
  const int64_t nx = falt_tensor_count(&p.input), ny = falt_tensor_count(&p.output), nw = falt_tensor_count(&p.filter);
  double *x = random_data(nx, &state), *along = random_data(nx, &state), *dy = random_data(ny, &state);
  double *y = random_data(ny, &state), *dx = random_data(nx, &state), *w = random_data(nw, &state), loss[2];
  for (int side = 0; side < 2; side++) {
    double *moved = random_data(nx, &state);
    for (int64_t i = 0; i < nx; i++) moved[i] = x[i] + (side ? step : -step) * along[i];
    run(method, &p, (falt_operands){.input = moved, .filter = w, .output = y});
    loss[side] = dot(y, dy, ny);
    free(moved);
  }
  falt_operands o = {.input = dx, .filter = w, .output = dy};
  if (backward == FALT_BACKWARD_MAXPOOL) o = (falt_operands){.input = x, .output = dy, .residual = dx};
  run(method, &back, o);
  assert_near(dot(dx, along, nx), (loss[1] - loss[0]) / (2 * step), 1e-6, forward_line);
  double *all[] = {x, along, dy, y, dx, w};
  for (int i = 0; i < 6; i++) free(all[i]);
}

static void test_differences(void **unused) {
  (void)unused;
  static const struct {
    const char *line;
    falt_operation backward;
  } cases[] = {
      {"forward n=1 c=2 h=6 w=7 k=3 r=3 s=3 stride=2 pad=2:1x1:3 boundary=symmetric:wrap type=f64", FALT_BACKWARD_DATA},
      {"maxpool n=2 c=3 h=8 w=9 r=3 s=2 stride=2x1 pad=1 type=f64", FALT_BACKWARD_MAXPOOL},
      {"maxpool n=1 c=20 d=4 h=5 w=6 t=2 r=3 s=3 dilation=1x1x2 pad=0x1x1 type=f64 layout=ndhwc",
       FALT_BACKWARD_MAXPOOL},
      {"avgpool n=2 c=3 h=8 w=9 r=3 s=2 stride=2x1 pad=1 type=f64", FALT_BACKWARD_AVGPOOL},
      {"avgpool n=1 c=20 h=8 w=9 r=3 s=3 stride=2 pad=1 count-pad=1 type=f64 layout=nhwc", FALT_BACKWARD_AVGPOOL},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int m = 0; m < METHODS; m++) check_difference(methods[m], cases[c].line, cases[c].backward, 1e-6);
}

/* ---- pooling by brute force over a padded copy */

enum { SIDE = 13, PAD = 3, WIDE = SIDE + 2 * PAD + 16 };

static void pool_by_hand(const double *x, int taps, int stride, int pad, bool count_pad, int out, double *most,
                         double *mean) {
  static double padded[WIDE][WIDE];
  for (int i = 0; i < WIDE; i++)
    for (int j = 0; j < WIDE; j++) {
      const bool inside = i >= PAD && i < PAD + SIDE && j >= PAD && j < PAD + SIDE;
      padded[i][j] = inside ? x[(i - PAD) * SIDE + j - PAD] : NAN;
    }
  for (int i = 0; i < out; i++)
    for (int j = 0; j < out; j++) {
      double top = -INFINITY, sum = 0;
      int seen = 0, counted = 0;
      for (int r = 0; r < taps; r++)
        for (int s = 0; s < taps; s++) {
          const int u = i * stride + r - pad, v = j * stride + s - pad;
          const double value = padded[u + PAD][v + PAD];
          counted += u < SIDE + pad && v < SIDE + pad;
          if (isnan(value)) continue;
          seen++;
          sum += value;
          top = value > top ? value : top;
        }
      most[i * out + j] = top;
      mean[i * out + j] = sum / (count_pad ? counted : seen);
    }
}

static void test_pooling(void **unused) {
  (void)unused;
  uint64_t state = 17;
  double *x = random_data(SIDE * SIDE, &state), most[WIDE * WIDE], mean[WIDE * WIDE], y[WIDE * WIDE];
  for (int taps = 1; taps <= 5; taps++)
    for (int stride = 1; stride <= 4; stride++)
      for (int pad = 0; pad <= taps / 2; pad++)
        for (int extra = 0; extra < 2; extra++) { /* extra: as if the size had been rounded up */
          int out = (SIDE + 2 * pad - taps) / stride + 1;
          if (extra && (out * stride >= SIDE + pad || (out + 1) * stride > SIDE + pad + taps)) continue;
          out += extra;
          for (int kind = 0; kind < 3; kind++)
            for (int m = 0; m < METHODS; m++) {
              char line[160];
              snprintf(line, sizeof line, "%s h=%d w=%d r=%d s=%d stride=%d pad=%d out=%d type=f64%s",
                       kind ? "avgpool" : "maxpool", SIDE, SIDE, taps, taps, stride, pad, out,
                       kind == 2 ? " count-pad=1" : "");
              const falt_problem p = parse(line);
              run(methods[m], &p, (falt_operands){.input = x, .output = y});
              pool_by_hand(x, taps, stride, pad, kind == 2, out, most, mean);
              for (int i = 0; i < out * out; i++) assert_near(y[i], kind ? mean[i] : most[i], 1e-14, line);
            }
        }
  free(x);
}

/* NaN wins; among equals the first in the window's order gets the gradient. */
static void test_maxima(void **unused) {
  (void)unused;
  static const struct {
    double x[6], y[2], dx[6];
  } cases[] = {
      {{1, 5, 5, 5, 2, 3}, {5, 5}, {0, 10, 0, 20, 0, 0}},
      {{NAN, 5, NAN, 4, 9, 2}, {NAN, 9}, {10, 0, 0, 0, 20, 0}},
      {{3, NAN, 7, -INFINITY, -INFINITY, -INFINITY}, {NAN, -INFINITY}, {0, 10, 0, 20, 0, 0}},
      {{-1, -2, -3, -3, -2, -1}, {-1, -1}, {10, 0, 0, 0, 0, 20}},
  };
  static const char *const lines[] = {"maxpool w=6 s=3 stride=3 type=f64",
                                      "maxpool w=6 s=3 stride=3 n=1 c=16 layout=nwc type=f64"};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int l = 0; l < 2; l++)
      for (int m = 0; m < METHODS; m++) {
        const int channels = l ? 16 : 1;
        double x[6 * 16], y[2 * 16], dy[2 * 16], dx[6 * 16];
        const falt_problem p = parse(lines[l]);
        falt_problem back = p;
        back.operation = FALT_BACKWARD_MAXPOOL;
        for (int i = 0; i < 6 * channels; i++) x[i] = cases[c].x[i / channels];
        for (int i = 0; i < 2 * channels; i++) dy[i] = i / channels ? 20 : 10;
        run(methods[m], &p, (falt_operands){.input = x, .output = y});
        run(methods[m], &back, (falt_operands){.input = x, .output = dy, .residual = dx});
        for (int i = 0; i < 2 * channels; i++) {
          const double expected = cases[c].y[i / channels];
          assert_true(isnan(expected) ? isnan(y[i]) : y[i] == expected);
        }
        for (int i = 0; i < 6 * channels; i++) assert_true(dx[i] == cases[c].dx[i / channels]);
      }
}

/* ---- epilogue and bias gradient */

static void test_epilogue(void **unused) {
  (void)unused;
  const char *line = "forward n=1 c=1 w=3 k=2 s=1 type=f64 alpha=2 beta=1 scale=1 bias=1 residual=1 act=clip:-4:9";
  double x[3] = {1, 2, -3}, w[2] = {1, -1}, scale[2] = {0.5, 3}, bias[2] = {10, 20},
         residual[6] = {-7, -7, -7, 0, 1, 2};
  const double expected[6] = {5, 6, 1, 9, 9, 9}; /* 2*0.5*x + 11 - 7; 2*3*(-x) + 21 + 0, 1, 2 */
  for (int m = 0; m < METHODS; m++) {
    double y[6];
    const falt_problem p = parse(line);
    run(methods[m], &p,
        (falt_operands){.input = x, .filter = w, .output = y, .scale = scale, .bias = bias, .residual = residual});
    for (int i = 0; i < 6; i++) assert_near(y[i], expected[i], 1e-14, line);
  }
}

static void test_bias_gradient(void **unused) {
  (void)unused;
  static const char *const layouts[] = {"nchw", "nhwc"};
  uint64_t state = 23;
  for (int l = 0; l < 2; l++)
    for (int m = 0; m < METHODS; m++) {
      char line[128];
      snprintf(line, sizeof line, "backward-filter n=3 c=4 h=5 w=6 k=34 r=1 s=1 groups=2 bias=1 type=f64 layout=%s",
               layouts[l]);
      const falt_problem p = parse(line);
      double *x = random_data(3 * 4 * 30, &state), *dy = random_data(3 * 34 * 30, &state), dw[34 * 2], db[34];
      run(methods[m], &p, (falt_operands){.input = x, .filter = dw, .output = dy, .bias = db});
      for (int k = 0; k < 34; k++) {
        double sum = 0;
        for (int n = 0; n < 3; n++)
          for (int i = 0; i < 30; i++) sum += dy[l ? (n * 30 + i) * 34 + k : (n * 34 + k) * 30 + i];
        assert_near(db[k], sum, 1e-12, line);
      }
      free(x);
      free(dy);
    }
}

int main(void) {
  if (falt_device_cpu(&device, NULL) != FALT_OK) {
    fprintf(stderr, "%s\n", falt_message());
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_examples), cmocka_unit_test(test_integers),    cmocka_unit_test(test_wide_sums),
      cmocka_unit_test(test_adjoints), cmocka_unit_test(test_linearity),   cmocka_unit_test(test_impulse),
      cmocka_unit_test(test_shift),    cmocka_unit_test(test_differences), cmocka_unit_test(test_pooling),
      cmocka_unit_test(test_maxima),   cmocka_unit_test(test_epilogue),    cmocka_unit_test(test_bias_gradient),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  falt_device_destroy(&device);
  return failed;
}
