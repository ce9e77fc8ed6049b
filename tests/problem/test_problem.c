/* Problems: conventions of filters against scipy and the textbook, sizes, work. */
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

enum { LONGEST = 2048 };

static void parse(falt_problem *problem, const char *line) {
  falt_status status = falt_problem_parse(problem, NULL, line);
  if (status != FALT_OK) fail_msg("%s: %s", line, falt_message());
}

static void assert_same_fields(const falt_problem *a, const falt_problem *b, const char *line) {
  if (!falt_problem_equal(a, b)) fail_msg("fields differ after the round trip of: %s", line);
}

/* ------------------------------------------------------------------------------------------------ conventions */

static double input_at(const falt_problem *p, const double *x, int64_t n, int64_t g, int64_t h, int64_t w) {
  int64_t y = falt_axis_map(&p->axis[1], p->input.size[FALT_H], h);
  int64_t z = falt_axis_map(&p->axis[2], p->input.size[FALT_W], w);
  return y < 0 || z < 0 ? p->boundary_value : x[falt_tensor_at(&p->input, n, g, 0, 0, y, z)];
}

/* One output of a one-channel filter, straight from the header's formula. */
static double output_at(const falt_problem *p, const double *x, const double *taps, int64_t n, int64_t g, int64_t oh,
                        int64_t ow) {
  const falt_axis *y = &p->axis[1], *z = &p->axis[2];
  double sum = 0;
  for (int64_t r = 0; r < p->filter.size[FALT_H]; r++) {
    for (int64_t s = 0; s < p->filter.size[FALT_W]; s++) {
      int64_t h = oh * y->stride + r * y->dilation - y->pad[0], w = ow * z->stride + s * z->dilation - z->pad[0];
      sum += taps[falt_tensor_at(&p->filter, 0, g, 0, 0, r, s)] * input_at(p, x, n, g, h, w);
    }
  }
  return sum;
}

static void assert_row(const char *line, const double *x, const double *taps, int count, const double *expected) {
  falt_problem p;
  parse(&p, line);
  assert_int_equal(p.output.size[FALT_W], count);
  for (int i = 0; i < count; i++) assert_true(output_at(&p, x, taps, 0, 0, 0, i) == expected[i]);
}

static void test_textbook_rows(void **state) {
  (void)state;
  const double ramp[] = {1, 2, 3, 4, 5, 6, 7}, bell[] = {3, 4, 5, 4, 3};
  assert_row("correlate w=7 s=5 type=f64", ramp, bell, 7, (double[]){22, 38, 57, 76, 95, 90, 74});
  const double odd[] = {4, 1, 3, 2, 3}, three[] = {2, 1, 4};
  assert_row("correlate w=5 s=3 type=f64", odd, three, 5, (double[]){8, 21, 13, 20, 7});
  const double four[] = {1, 2, 3, 4}, half[] = {0.5, 0.5};
  assert_row("convolve w=4 s=2 mode=full type=f64", four, half, 5, (double[]){0.5, 1.5, 2.5, 3.5, 2});
  const double skew[] = {1, 10, 100}, pair[] = {1, 10};
  assert_row("correlate w=4 s=3 mode=valid", four, skew, 2, (double[]){321, 432});
  assert_row("convolve w=4 s=3 mode=valid", four, skew, 2, (double[]){123, 234});
  assert_row("correlate w=4 s=2", four, pair, 4, (double[]){10, 21, 32, 43}); /* even: the second tap is the centre */
  assert_row("convolve w=4 s=2", four, pair, 4, (double[]){12, 23, 34, 40});
  assert_row("correlate w=4 s=3 anchor=0 boundary=wrap", four, skew, 4, (double[]){321, 432, 143, 214});
  assert_row("correlate w=4 s=3 stride=2 boundary=edge", four, skew, 2, (double[]){211, 432});
}

static void test_textbook_image(void **state) {
  (void)state;
  const double image[] = {1, 2, 3, 4, 5, 2, 3, 4, 5, 6, 3, 4, 5, 6, 7, 4, 5, 6, 7, 8, 5, 6, 7, 8, 5};
  const double taps[] = {1, 2, 3, 2, 1, 2, 3, 4, 3, 2, 3, 4, 5, 4, 3, 2, 3, 4, 3, 2, 1, 2, 3, 2, 1};
  falt_problem p;
  parse(&p, "correlate h=5 w=5 r=5 s=5");
  assert_true(output_at(&p, image, taps, 0, 0, 2, 2) == 321);
}

/* scipy.ndimage: correlate in[i + m - a] w[m] with a = K/2 + o, convolve in[i + c - m] w[m] with c = K/2 + o. */
static void test_origins_as_scipy(void **state) {
  (void)state;
  const double x[] = {3, 1, 4, 1, 5, 9, 2}, taps[] = {1, 10, 100, 1000, 10000, 100000};
  const falt_axis edge = {.stride = 1, .dilation = 1, .boundary = {FALT_EDGE, FALT_EDGE}};
  for (int k = 1; k <= 6; k++) {
    for (int o = -(k / 2); o <= (k - 1) / 2; o++) {
      for (int flip = 0; flip < 2; flip++) {
        char line[128];
        falt_problem p;
        snprintf(line, sizeof line, "%s w=7 s=%d origin=%d boundary=edge", flip ? "convolve" : "correlate", k, o);
        parse(&p, line);
        for (int i = 0; i < 7; i++) {
          double sum = 0;
          for (int m = 0; m < k; m++)
            sum += taps[m] * x[falt_axis_map(&edge, 7, flip ? i + k / 2 + o - m : i + m - k / 2 - o)];
          assert_true(output_at(&p, x, taps, 0, 0, 0, i) == sum);
        }
      }
    }
  }
}

static void test_output_sizes(void **state) {
  (void)state;
  static const struct {
    const char *line;
    int64_t d, h, w;
  } cases[] = {{"correlate h=9 w=10 r=3 s=4", 1, 9, 10},
               {"correlate h=9 w=10 r=3 s=4 stride=2", 1, 5, 5},
               {"correlate h=9 w=10 r=3 s=4 mode=valid", 1, 7, 7},
               {"correlate h=9 w=10 r=3 s=4 mode=full", 1, 11, 13},
               {"correlate h=9 w=10 r=3 s=4 mode=full dilation=2 stride=3", 1, 5, 6},
               {"correlate h=9 w=10 r=3 s=4 mode=valid dilation=2 stride=3", 1, 2, 2},
               {"correlate d=2 h=3 w=4 t=9 r=9 s=9", 2, 3, 4},
               {"forward c=3 h=227 w=227 k=96 r=11 s=11 stride=4", 1, 55, 55},
               {"forward c=1 h=28 w=28 k=16 r=5 s=5 pad=2", 1, 28, 28},
               {"forward c=1 h=10 w=10 k=1 r=3 s=3 pad=1:0x0:2 dilation=2", 1, 7, 8},
               {"forward c=1 h=10 w=10 k=1 r=3 s=3 pad=-1", 1, 6, 6},
               {"maxpool h=28 w=29 r=2 s=2", 1, 14, 14},
               {"maxpool h=28 w=29 r=3 s=3 stride=2 pad=1", 1, 14, 15}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_problem p;
    parse(&p, cases[i].line);
    assert_int_equal(p.output.size[FALT_D], cases[i].d);
    assert_int_equal(p.output.size[FALT_H], cases[i].h);
    assert_int_equal(p.output.size[FALT_W], cases[i].w);
    falt_problem again = p;
    if (p.is_filter) {
      memset(again.output.size, 0, sizeof again.output.size);
      assert_int_equal(falt_problem_output(&again), FALT_OK);
      falt_problem_canonical(&again);
      assert_same_fields(&p, &again, cases[i].line);
    }
  }
}

static void test_output_follows_memory_order(void **state) {
  (void)state;
  falt_problem p;
  parse(&p, "forward n=2 c=4 h=5 w=6 k=8 r=3 s=3 layout=nhwc");
  p.input.stride[FALT_H] += 8; /* pitched: dense in no layout any more */
  p.input.stride[FALT_N] += 40;
  memset(p.output.stride, 0, sizeof p.output.stride);
  assert_int_equal(falt_problem_output(&p), FALT_OK);
  const int64_t expected[] = {96, 8, 1, 96, 32, 8}; /* groups and depth have one element */
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (p.output.size[dim] > 1) assert_int_equal(p.output.stride[dim], expected[dim]);
  }
}

static void assert_strides(const char *layout, const int64_t size[FALT_DIMS], const int64_t expected[FALT_DIMS]) {
  falt_tensor tensor = {.type = FALT_F32, .offset = 5};
  memcpy(tensor.size, size, sizeof tensor.size);
  assert_int_equal(falt_tensor_layout(&tensor, layout), FALT_OK);
  assert_memory_equal(tensor.stride, expected, sizeof tensor.stride);
  assert_int_equal(tensor.offset, 0);
  assert_int_equal(falt_tensor_span(&tensor), falt_tensor_count(&tensor));
}

static void test_layouts(void **state) {
  (void)state;
  const int64_t image[] = {2, 3, 4, 1, 5, 6}, volume[] = {2, 3, 4, 7, 5, 6}, row[] = {2, 3, 4, 1, 1, 6};
  assert_strides("nchw", image, (int64_t[]){360, 120, 30, 30, 6, 1});
  assert_strides("nhwc", image, (int64_t[]){360, 4, 1, 360, 72, 12});
  assert_strides("ncdhw", volume, (int64_t[]){2520, 840, 210, 30, 6, 1});
  assert_strides("ndhwc", volume, (int64_t[]){2520, 4, 1, 360, 72, 12});
  assert_strides("ncw", row, (int64_t[]){72, 24, 6, 6, 6, 1});
  assert_strides("nwc", row, (int64_t[]){72, 4, 1, 72, 72, 12});
  /* filters: the first size is K, and the output channel is g*K + k */
  assert_strides("oihw", image, (int64_t[]){120, 240, 30, 30, 6, 1});
  assert_strides("ohwi", image, (int64_t[]){120, 240, 1, 120, 24, 4});
  assert_strides("hwio", image, (int64_t[]){1, 2, 6, 720, 144, 24});
  falt_tensor tensor = {.size = {1, 1, 3, 2, 5, 5}};
  assert_int_equal(falt_tensor_layout(&tensor, "nchw"), FALT_INVALID_SHAPE);
  assert_int_equal(falt_tensor_layout(&tensor, "chwn"), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_tensor_layout(&tensor, NULL), FALT_INVALID_ARGUMENT);
  tensor.size[FALT_N] = 0;
  assert_int_equal(falt_tensor_layout(&tensor, "ncdhw"), FALT_INVALID_SIZE);
  tensor.size[FALT_N] = tensor.size[FALT_G] = INT64_C(1) << 40;
  assert_int_equal(falt_tensor_layout(&tensor, "ncdhw"), FALT_INVALID_SIZE);
}

static void test_span_counts_from_the_data(void **state) {
  (void)state;
  falt_tensor tensor = {.type = FALT_U8, .size = {1, 1, 1, 1, 3, 4}, .stride = {9, 9, 9, 9, -10, 2}, .offset = 25};
  assert_int_equal(falt_tensor_span(&tensor), 32);
  tensor.stride[FALT_W] = INT64_MAX;
  assert_int_equal(falt_tensor_span(&tensor), INT64_MAX);
}

/* ------------------------------------------------------------------------------------------ filters from the C API */

static void assert_filter(const falt_array *src, const falt_array *taps, falt_type out, bool flip,
                          const falt_options *options, const char *line) {
  falt_problem p, q;
  char text[LONGEST];
  falt_status status = falt_problem_filter(&p, &src->tensor, &taps->tensor, out, flip, options);
  if (status != FALT_OK) fail_msg("%s: %s", line, falt_message());
  falt_problem_print(&p, NULL, text, sizeof text);
  assert_string_equal(text, line);
  parse(&q, line);
  assert_same_fields(&p, &q, line);
}

static void test_filters_from_arrays(void **state) {
  (void)state;
  falt_options options;
  falt_options_default(&options);
  falt_array photo = falt_image(NULL, FALT_U8, 480, 640, 3, 1920),
             padded = falt_image(NULL, FALT_U8, 480, 640, 3, 2048);
  falt_array taps = falt_volume(NULL, FALT_F32, 1, 5, 4), volume = falt_volume(NULL, FALT_F32, 7, 8, 9);
  falt_array cube = falt_volume(NULL, FALT_F32, 3, 3, 3), row = falt_volume(NULL, FALT_F32, 1, 1, 3);
  assert_filter(&photo, &taps, FALT_U8, false, NULL, "correlate pixel=3 h=480 w=640 r=5 s=4 type=u8");
  assert_filter(&photo, &taps, FALT_F32, true, &options, "convolve pixel=3 h=480 w=640 r=5 s=4 type=u8 out-type=f32");
  assert_filter(&padded, &taps, FALT_U8, false, NULL,
                "correlate pixel=3 h=480 w=640 r=5 s=4 type=u8 input-strides=0,1,0,0,2048,3");
  assert_filter(&volume, &taps, FALT_F32, false, NULL, "correlate n=7 h=8 w=9 r=5 s=4");
  options.space = 3;
  assert_filter(&volume, &cube, FALT_F32, false, &options, "correlate d=7 h=8 w=9 t=3 r=3 s=3");
  options.space = 1;
  options.alpha = 0.5;
  options.axis[2].boundary[0] = options.axis[2].boundary[1] = FALT_WRAP;
  options.axis[1].boundary[0] = FALT_EDGE; /* no axis of this problem */
  assert_filter(&volume, &row, FALT_F32, false, &options, "correlate n=56 w=9 s=3 boundary=wrap alpha=0.5");
  options.anchor[2] = 0;
  assert_filter(&volume, &row, FALT_F32, true, &options, "convolve n=56 w=9 s=3 anchor=0 boundary=wrap alpha=0.5");
  options.anchor[2] = FALT_ANCHOR_PAD;
  options.axis[2].pad[0] = 4;
  options.axis[2].pad[1] = -1;
  assert_filter(&volume, &row, FALT_F32, false, &options, "correlate n=56 w=9 s=3 pad=4:-1 boundary=wrap alpha=0.5");
}

/* Strides along dimensions of one element mean nothing, also where dimensions merge. */
static void test_filter_view(void **state) {
  (void)state;
  falt_tensor tensor = {.size = {1, 3, 1, 4, 1, 5}, .stride = {77, 20, 77, 5, 77, 1}};
  assert_int_equal(falt_tensor_filter_view(&tensor, 1), FALT_OK);
  const int64_t size[] = {4, 3, 1, 1, 1, 5};
  assert_memory_equal(tensor.size, size, sizeof size);
  assert_int_equal(tensor.stride[FALT_N], 5);
  assert_int_equal(tensor.stride[FALT_G], 20);
}

static void test_filters_refused(void **state) {
  (void)state;
  falt_problem p;
  falt_options options;
  falt_options_default(&options);
  falt_array image = falt_image(NULL, FALT_U8, 9, 9, 1, 9), taps = falt_volume(NULL, FALT_F32, 1, 3, 3);
  falt_tensor bad = image.tensor, *src = &image.tensor, *w = &taps.tensor;
  bad.size[FALT_W] = 0;
  assert_int_equal(falt_problem_filter(NULL, src, w, FALT_U8, false, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_problem_filter(&p, NULL, w, FALT_U8, false, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_problem_filter(&p, &bad, w, FALT_U8, false, NULL), FALT_INVALID_SIZE);
  assert_int_equal(falt_problem_filter(&p, src, &bad, FALT_U8, false, NULL), FALT_INVALID_SIZE);
  assert_int_equal(falt_problem_filter(&p, src, w, FALT_TYPE_COUNT, false, NULL), FALT_INVALID_ARGUMENT);
  bad = taps.tensor;
  bad.size[FALT_K] = 2;
  assert_int_equal(falt_problem_filter(&p, src, &bad, FALT_U8, false, NULL), FALT_INVALID_SHAPE);
  options.anchor[1] = 3;
  assert_int_equal(falt_problem_filter(&p, src, w, FALT_U8, false, &options), FALT_INVALID_SHAPE);
  options.anchor[1] = 0;
  options.mode = FALT_FULL;
  assert_int_equal(falt_problem_filter(&p, src, w, FALT_U8, false, &options), FALT_INVALID_ARGUMENT);
  options.anchor[1] = FALT_ANCHOR_CENTER;
  options.mode = FALT_VALID;
  options.axis[1].dilation = 5;
  assert_int_equal(falt_problem_filter(&p, src, w, FALT_U8, false, &options), FALT_INVALID_SHAPE);
  options.axis[1].dilation = 1;
  options.space = 1; /* rows of a pitched volume have no common stride */
  falt_array row = falt_volume(NULL, FALT_F32, 1, 1, 3), block = falt_volume(NULL, FALT_F32, 4, 9, 9);
  block.tensor.stride[FALT_D] += 9;
  assert_int_equal(falt_problem_filter(&p, &block.tensor, &row.tensor, FALT_F32, false, &options), FALT_INVALID_SHAPE);
}

/* -------------------------------------------------------------------------------------------------------- work */

static void test_work(void **state) {
  (void)state;
  falt_problem p;
  parse(&p, "forward n=2 c=4 h=10 w=10 k=8 r=3 s=3 pad=1 groups=2 bias=1 type=f16");
  assert_true(falt_problem_flops(&p) == 2.0 * 2 * 8 * 100 * 2 * 9);
  assert_true(falt_problem_bytes(&p) == 2.0 * (2 * 4 * 100 + 8 * 2 * 9 + 2 * 8 * 100) + 4.0 * 8);
  assert_int_equal(falt_problem_depth(&p), 2 * 9);
  parse(&p, "correlate h=10 w=10 r=3 s=3 c=3 type=u8");
  assert_true(falt_problem_bytes(&p) == 300 + 36 + 300); /* one filter for three channels */
  parse(&p, "backward-filter n=2 c=4 h=10 w=10 k=8 r=3 s=3");
  assert_int_equal(falt_problem_depth(&p), 2 * 64);
  assert_ptr_equal(falt_problem_result(&p), &p.filter);
  parse(&p, "backward-data n=2 c=4 h=10 w=10 k=8 r=3 s=3");
  assert_int_equal(falt_problem_depth(&p), 8 * 9);
  assert_ptr_equal(falt_problem_result(&p), &p.input);
  parse(&p, "backward-maxpool h=10 w=10 r=2 s=2");
  assert_ptr_equal(falt_problem_result(&p), &p.input);
  assert_true(falt_problem_bytes(&p) == 4.0 * (100 + 25 + 100));
  parse(&p, "correlate w=1000000000000 s=1000000000000000"); /* counted without walking the taps */
  assert_true(falt_problem_depth(&p) == INT64_C(1000000000000000));
}

/* No input element gathers more products than the depth says, whatever the boundary folds onto it. */
/* The table against what the public header says each operation reads and writes. */
static void test_operations(void **state) {
  (void)state;
  enum { X = 1 << FALT_INPUT, W = 1 << FALT_FILTER, Y = 1 << FALT_OUTPUT, R = 1 << FALT_RESIDUAL };
  static const unsigned used[][2] = {{X | W, Y}, {Y | W, X}, {X | Y, W}, {X, Y}, {X, Y}, {X | Y, R}, {Y, X}};
  for (falt_operation o = 0; o < FALT_OPERATION_COUNT; o++) {
    const falt_operation_traits *t = &falt_operations[o];
    char line[80];
    falt_problem p;
    snprintf(line, sizeof line, "%s c=2 h=5 w=5%s r=2 s=2", t->name, t->is_pooling ? "" : " k=2");
    parse(&p, line);
    assert_int_equal(p.operation, o);
    assert_int_equal(t->is_pooling, strstr(t->name, "pool") != NULL);
    assert_int_equal(t->is_gradient, strncmp(t->name, "backward", 8) == 0);
    assert_int_equal(t->reads, used[o][0]);
    assert_int_equal(falt_operands_written(&p), used[o][1]);
    assert_int_equal(falt_operands_used(&p), used[o][0] | used[o][1]);
    assert_int_equal(falt_reads_filter(o), (used[o][0] & W) != 0);
    for (int i = 0; i < 2; i++) assert_true(t->reads >> t->factor[i] & 1);
    assert_int_equal(t->factor[0] == t->factor[1], t->is_pooling);
    const falt_tensor result = falt_operand_tensor(&p, t->result);
    assert_memory_equal(&result, falt_problem_result(&p), sizeof result);
  }
}

static void test_operands(void **state) {
  (void)state;
  falt_operands o = {.input = &o.input,
                     .filter = &o.filter,
                     .output = &o.output,
                     .bias = &o.bias,
                     .scale = &o.scale,
                     .residual = &o.residual,
                     .workspace = &o.workspace};
  for (falt_operand i = 0; i < FALT_ADDRESSES; i++) {
    assert_ptr_equal(falt_operand_data(&o, i), falt_operand_at(&o, i));
    for (falt_operand j = 0; j < i; j++) assert_ptr_not_equal(falt_operand_data(&o, i), falt_operand_data(&o, j));
  }
  assert_ptr_equal(falt_factor_data(FALT_BACKWARD_FILTER, &o, 1), &o.output);
  assert_ptr_equal(falt_result_data(FALT_BACKWARD_MAXPOOL, &o), &o.residual);
  falt_problem p;
  parse(&p, "backward-data c=4 h=5 w=5 k=6 r=1 s=1 groups=2 type=f64");
  const falt_tensor bias = falt_operand_tensor(&p, FALT_BIAS);
  assert_int_equal(bias.type, FALT_F64);
  assert_int_equal(falt_tensor_count(&bias), 6);
  assert_ptr_equal(falt_problem_factor(&p, 0), &p.output);
  assert_null(falt_problem_tensor(&p, FALT_SCALE));
}

static void test_depth_bounds_gradients(void **state) {
  (void)state;
  int seen = 0;
  for (uint64_t seed = 0; seed < 4000; seed++) {
    char line[LONGEST];
    falt_problem p;
    falt_budget budget;
    falt_problem_random(seed, line, sizeof line);
    assert_int_equal(falt_problem_parse(&p, &budget, line), FALT_OK);
    if (p.operation != FALT_BACKWARD_DATA || p.space != 1) continue;
    int64_t *counts = calloc((size_t)p.input.size[FALT_W], sizeof *counts), most = 0;
    assert_non_null(counts);
    seen++;
    for (int64_t o = 0; o < p.output.size[FALT_W]; o++) {
      for (int64_t s = 0; s < p.filter.size[FALT_W]; s++) {
        int64_t u = o * p.axis[2].stride + s * p.axis[2].dilation - p.axis[2].pad[0];
        int64_t i = falt_axis_map(&p.axis[2], p.input.size[FALT_W], u);
        if (i >= 0) most = falt_max(most, ++counts[i]);
      }
    }
    assert_true(falt_problem_depth(&p) >= most * p.filter.size[FALT_K]);
    free(counts);
  }
  assert_true(seen > 20);
}

static void test_identity_epilogue(void **state) {
  (void)state;
  static const char *const words[] = {"alpha=2", "beta=1", "scale=1", "bias=1", "residual=1", "act=relu"};
  falt_problem p;
  parse(&p, "correlate w=9 s=3");
  assert_true(falt_epilogue_is_identity(&p));
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    char line[64];
    snprintf(line, sizeof line, "correlate w=9 s=3 %s", words[i]);
    parse(&p, line);
    assert_false(falt_epilogue_is_identity(&p));
  }
}

static void test_activations(void **state) {
  (void)state;
  falt_problem p;
  falt_problem_default(&p);
  const double x = -1.5;
  const double expected[] = {
      x, 0, 0, -0.015, x / (1 + exp(1.5)), x / 2 * (1 + erf(x / sqrt(2))), 1 / (1 + exp(1.5)), tanh(x), -1};
  for (int i = 0; i < FALT_ACTIVATION_COUNT; i++) {
    p.activation = (falt_activation)i;
    p.act_a = i == FALT_CLIP ? -1 : 0.01;
    p.act_b = 2;
    assert_true(fabs(falt_activate(&p, x) - expected[i]) < 1e-15);
    assert_true(isnan(falt_activate(&p, NAN)));
    assert_true(falt_activate(&p, 100) == (i == FALT_RELU6                       ? 6
                                           : i == FALT_CLIP                      ? 2
                                           : i == FALT_SIGMOID || i == FALT_TANH ? 1
                                                                                 : 100));
  }
}

static void test_defaults(void **state) {
  (void)state;
  falt_problem p, canonical;
  char text[LONGEST];
  falt_problem_default(&p);
  assert_int_equal(falt_problem_check(&p), FALT_OK);
  canonical = p;
  falt_problem_canonical(&canonical);
  assert_true(falt_problem_equal(&p, &canonical));
  falt_problem_print(&p, NULL, text, sizeof text);
  assert_string_equal(text, "forward c=1 h=1 w=1 k=1 r=1 s=1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_textbook_rows),
      cmocka_unit_test(test_textbook_image),
      cmocka_unit_test(test_origins_as_scipy),
      cmocka_unit_test(test_output_sizes),
      cmocka_unit_test(test_output_follows_memory_order),
      cmocka_unit_test(test_layouts),
      cmocka_unit_test(test_span_counts_from_the_data),
      cmocka_unit_test(test_filters_from_arrays),
      cmocka_unit_test(test_filter_view),
      cmocka_unit_test(test_filters_refused),
      cmocka_unit_test(test_work),
      cmocka_unit_test(test_operations),
      cmocka_unit_test(test_operands),
      cmocka_unit_test(test_depth_bounds_gradients),
      cmocka_unit_test(test_identity_epilogue),
      cmocka_unit_test(test_activations),
      cmocka_unit_test(test_defaults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
