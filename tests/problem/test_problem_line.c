/* The problem line: there and back, and its canonical form. */
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

enum { LINES = 20000, LONGEST = 2048 };

static void parse(falt_problem *problem, const char *line) {
  falt_status status = falt_problem_parse(problem, NULL, line);
  if (status != FALT_OK) fail_msg("%s: %s", line, falt_message());
}

static void assert_prints(const char *line, const char *canonical) {
  falt_problem problem;
  char text[LONGEST];
  parse(&problem, line);
  falt_problem_print(&problem, NULL, text, sizeof text);
  assert_string_equal(text, canonical);
}

/* ------------------------------------------------------------------------------------------- lines, in and out */

static void assert_same_fields(const falt_problem *a, const falt_problem *b, const char *line) {
  if (!falt_problem_equal(a, b)) fail_msg("fields differ after the round trip of: %s", line);
}

/* A random problem, and its line without a budget. */
static void draw(falt_problem *p, char line[LONGEST], uint64_t seed) {
  falt_budget budget;
  assert_true(falt_problem_random(seed, line, LONGEST) < LONGEST);
  if (falt_problem_parse(p, &budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  falt_problem_print(p, NULL, line, LONGEST);
}

/* Puts noise into every field that changes no value. */
static void add_noise(falt_problem *p, uint64_t *random) {
  falt_tensor *tensors[] = {&p->input, &p->filter, &p->output, &p->residual};
  for (int i = 0; i < 4; i++) {
    for (int dim = 0; dim < FALT_DIMS; dim++) {
      if (tensors[i]->size[dim] == 1) tensors[i]->stride[dim] = falt_random_int(random, -9, 9);
    }
  }
  if (!p->has_residual) p->residual.size[FALT_W] = falt_random_int(random, 1, 99);
  if (p->activation == FALT_IDENTITY) p->act_a = p->act_b = falt_random_unit(random);
  if (p->activation == FALT_LEAKY) p->act_b = 3;
  if (p->is_filter) p->axis[2].pad[1] = falt_random_int(random, -9, 9);
  if (p->operation == FALT_MAXPOOL) p->count_pad = true;
  if (falt_is_pooling(p->operation)) p->filter.type = FALT_S16;
  if (p->beta == 0) p->beta = -0.0;
}

static void test_noise_in_unused_fields_changes_nothing(void **state) {
  (void)state;
  uint64_t random = 11;
  for (uint64_t seed = 0; seed < LINES / 4; seed++) {
    char line[LONGEST], again[LONGEST];
    falt_problem p, noisy;
    draw(&p, line, seed);
    noisy = p;
    add_noise(&noisy, &random);
    assert_int_equal(falt_problem_check(&noisy), FALT_OK);
    falt_problem_print(&noisy, NULL, again, sizeof again);
    assert_string_equal(line, again);
    assert_true(falt_problem_hash(&noisy) == falt_problem_hash(&p));
    falt_problem_canonical(&noisy);
    assert_same_fields(&p, &noisy, line);
  }
}

/* Any strides that the check lets pass come back. */
static void test_random_strides_round_trip(void **state) {
  (void)state;
  uint64_t random = 5;
  int legal = 0;
  for (uint64_t seed = 0; seed < LINES; seed++) {
    char line[LONGEST];
    falt_problem p, q;
    draw(&p, line, seed);
    falt_tensor *tensors[] = {&p.input, &p.filter, &p.output, &p.residual};
    for (int i = 0; i < 4; i++) {
      if (falt_random_int(&random, 0, 2)) continue;
      for (int dim = 0; dim < FALT_DIMS; dim++) tensors[i]->stride[dim] = falt_random_int(&random, -40, 400);
      tensors[i]->offset = falt_random_int(&random, 0, 90000);
    }
    if (falt_problem_check(&p) != FALT_OK) continue;
    legal++;
    falt_problem_print(&p, NULL, line, sizeof line);
    parse(&q, line);
    falt_problem_canonical(&p);
    assert_same_fields(&p, &q, line);
  }
  assert_true(legal > LINES / 20);
}

static int by_hash(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* As many hashes as lines: no field is left out of the hash, and no two lines share one. */
static void test_hashes_tell_lines_apart(void **state) {
  (void)state;
  uint64_t *hashes = calloc(LINES, sizeof *hashes);
  char **lines = calloc(LINES, sizeof *lines), line[LONGEST];
  int different_hashes = 1, different_lines = 1;
  for (int i = 0; i < LINES; i++) {
    falt_problem p;
    draw(&p, line, (uint64_t)i);
    hashes[i] = falt_problem_hash(&p);
    lines[i] = strdup(line);
  }
  qsort(hashes, LINES, sizeof *hashes, by_hash);
  qsort(lines, LINES, sizeof *lines, by_text);
  for (int i = 1; i < LINES; i++) {
    different_hashes += hashes[i] != hashes[i - 1];
    different_lines += strcmp(lines[i], lines[i - 1]) != 0;
  }
  for (int i = 0; i < LINES; i++) free(lines[i]);
  free(lines);
  free(hashes);
  assert_int_equal(different_hashes, different_lines);
}

/* Each word alone changes the hash, and no two words in the same way. */
static void test_hash_sees_every_word(void **state) {
  (void)state;
  static const char *const layers[] = {"",
                                       "n=2",
                                       "groups=2",
                                       "stride=2",
                                       "stride=2x1",
                                       "dilation=2",
                                       "pad=1",
                                       "pad=0:1",
                                       "out=3",
                                       "boundary=edge",
                                       "boundary=x=edge",
                                       "boundary=edge:constant",
                                       "value=2",
                                       "type=f64",
                                       "weight-type=f16",
                                       "out-type=f16",
                                       "acc=f64",
                                       "layout=nhwc",
                                       "weight-layout=hwio",
                                       "rank=1",
                                       "filter=given",
                                       "filter=known",
                                       "alpha=2",
                                       "beta=2",
                                       "scale=1",
                                       "bias=1",
                                       "residual=1",
                                       "residual=1 residual-type=f16",
                                       "act=relu",
                                       "act=leaky",
                                       "act=leaky:2",
                                       "act=clip:0:1",
                                       "act=clip:0:2",
                                       "input-offset=1",
                                       "filter-offset=1",
                                       "output-offset=1",
                                       "residual=1 residual-offset=1",
                                       "input-strides=0,0,0,0,9,1"};
  uint64_t hashes[64];
  int count = 0;
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    char line[LONGEST];
    falt_problem p;
    snprintf(line, sizeof line, "forward c=4 h=8 w=8 k=4 r=3 s=3 %s", layers[i]);
    parse(&p, line);
    hashes[count++] = falt_problem_hash(&p);
  }
  static const char *const others[] = {"avgpool w=8 s=2",
                                       "avgpool w=8 s=2 count-pad=1",
                                       "maxpool w=8 s=2",
                                       "backward-avgpool w=8 s=2",
                                       "correlate w=8 s=2",
                                       "correlate w=8 s=2 factors=1",
                                       "correlate w=8 s=2 factors=2",
                                       "correlate w=8 s=2 rank=1"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    falt_problem p;
    parse(&p, others[i]);
    hashes[count++] = falt_problem_hash(&p);
  }
  qsort(hashes, (size_t)count, sizeof *hashes, by_hash);
  for (int i = 1; i < count; i++) assert_true(hashes[i] != hashes[i - 1]);
}

/* The word comes back as it was said, and who has no pointer learns the default. */
static void test_filter_when(void **state) {
  (void)state;
  static const struct {
    const char *line;
    falt_filter_when said, when;
  } cases[] = {{"correlate w=9 s=3", FALT_FILTER_AUTO, FALT_FILTER_KNOWN},
               {"convolve w=9 s=3 filter=given", FALT_FILTER_GIVEN, FALT_FILTER_GIVEN},
               {"correlate w=9 s=3 filter=known", FALT_FILTER_KNOWN, FALT_FILTER_KNOWN},
               {"forward c=1 w=9 k=1 s=3", FALT_FILTER_AUTO, FALT_FILTER_GIVEN},
               {"backward-data c=1 w=9 k=1 s=3", FALT_FILTER_AUTO, FALT_FILTER_GIVEN},
               {"backward-data c=1 w=9 k=1 s=3 filter=known", FALT_FILTER_KNOWN, FALT_FILTER_KNOWN},
               {"forward c=1 w=9 k=1 s=3 filter=given", FALT_FILTER_GIVEN, FALT_FILTER_GIVEN},
               {"backward-filter c=1 w=9 k=1 s=3", FALT_FILTER_AUTO, FALT_FILTER_AUTO},
               {"maxpool w=9 s=3", FALT_FILTER_AUTO, FALT_FILTER_AUTO}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_problem p;
    parse(&p, cases[i].line);
    assert_int_equal(p.filter_when, cases[i].said);
    assert_int_equal(falt_problem_filter_when(&p), cases[i].when);
    assert_prints(cases[i].line, cases[i].line);
  }
  assert_int_equal(falt_problem_filter_when(NULL), FALT_FILTER_AUTO);
}

/* The word comes back, also where the taps run backwards, and the pointer holds the factors alone. */
static void test_factors(void **state) {
  (void)state;
  static const struct {
    const char *line;
    int64_t elements;
  } cases[] = {{"correlate w=9 s=3 factors=1", 5},
               {"convolve h=9 w=9 r=4 s=3 factors=2", 16},
               {"convolve c=3 d=9 h=9 w=9 t=7 r=1 s=3 type=u8 factors=5 filter=given", 55},
               {"correlate h=9 w=9 r=200001 s=300001 factors=1", 500003},
               {"correlate h=9 w=9 r=4 s=3", 12},
               {"maxpool h=9 w=9 r=4 s=3", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_problem p;
    parse(&p, cases[i].line);
    assert_int_equal(falt_problem_filter_elements(&p), cases[i].elements);
  }
  assert_prints("convolve r=4 s=3 h=9 w=9 factors=2 filter=known", "convolve h=9 w=9 r=4 s=3 factors=2 filter=known");
  assert_prints("correlate w=9 s=3 factors=1 type=u8", "correlate w=9 s=3 type=u8 factors=1");
  assert_int_equal(falt_problem_filter_elements(NULL), 0);
}

/* Values go from first to last along an axis, or backwards; the dense tap is the sum of the terms' products. */
static void test_factors_expand(void **state) {
  (void)state;
  static const float values[] = {2, 1, 10, 3, 5, 7, 1, 1, -1, 100, 200, 300}; /* d, h, w of two terms */
  static const double forwards[] = {106, 210, 314, -40, -100, -160}, backwards[] = {-160, -100, -40, 314, 210, 106};
  for (int flip = 0; flip < 2; flip++) {
    falt_problem p;
    double taps[6];
    parse(&p, flip ? "convolve h=9 w=9 r=2 s=3 factors=2" : "correlate h=9 w=9 r=2 s=3 factors=2");
    falt_factors_expand(&p, values, FALT_F64, taps);
    for (int i = 0; i < 6; i++) assert_true(taps[i] == (flip ? backwards : forwards)[i]);
  }
}

static void test_default_types(void **state) {
  (void)state;
  static const struct {
    const char *line;
    falt_type weights, out, accumulator;
  } cases[] = {{"correlate w=9 s=3", FALT_F32, FALT_F32, FALT_F32},
               {"correlate w=9 s=3 type=f16", FALT_F16, FALT_F16, FALT_F32},
               {"correlate w=9 s=3 type=u8", FALT_F32, FALT_U8, FALT_F32},
               {"correlate w=9 s=3 type=s32", FALT_F32, FALT_S32, FALT_F32},
               {"correlate w=9 s=3 type=u8 weight-type=s8", FALT_S8, FALT_U8, FALT_F32},
               {"correlate w=9 s=3 type=u8 weight-type=s16", FALT_S16, FALT_U8, FALT_F64},
               {"correlate w=9 s=3 type=u16 weight-type=u8", FALT_U8, FALT_U16, FALT_F64},
               {"correlate w=9 s=3 type=u8 out-type=f64", FALT_F32, FALT_F64, FALT_F64},
               {"forward c=1 k=1 w=9 s=3 type=bf16", FALT_BF16, FALT_BF16, FALT_F32},
               {"forward c=1 k=1 w=9 s=3 type=u8", FALT_S8, FALT_S32, FALT_S32},
               {"forward c=1 k=1 w=9 s=3 type=s8 weight-type=f32", FALT_F32, FALT_S32, FALT_F32},
               {"forward c=1 k=1 w=9 s=3 type=u16", FALT_S16, FALT_S32, FALT_F64},
               {"forward c=1 k=1 w=9 s=3 type=s32", FALT_S32, FALT_S32, FALT_F64},
               {"forward c=1 k=1 w=9 s=3 type=f32 weight-type=f64", FALT_F64, FALT_F32, FALT_F64},
               {"avgpool w=9 s=3 type=u8", FALT_U8, FALT_U8, FALT_F32},
               {"avgpool w=9 s=3 type=s32", FALT_S32, FALT_S32, FALT_F64},
               {"maxpool w=9 s=3 type=f64", FALT_F64, FALT_F64, FALT_F64}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_problem p;
    parse(&p, cases[i].line);
    assert_int_equal(p.filter.type, cases[i].weights);
    assert_int_equal(p.output.type, cases[i].out);
    assert_int_equal(p.accumulator, cases[i].accumulator);
  }
}

static void test_hash_is_the_same_everywhere(void **state) {
  (void)state;
  falt_problem p;
  parse(&p, "forward n=2 c=4 h=9 w=9 k=8 r=3 s=3 pad=1 type=f16 layout=nhwc bias=1 act=leaky:0.5");
  assert_true(falt_problem_hash(&p) == UINT64_C(0xe306a4b32035c746));
}

static void test_canonical_lines(void **state) {
  (void)state;
  static const char *const lines[][2] = {
      {"correlate h=8192 w=8192 r=5 s=5 boundary=symmetric type=f32",
       "correlate h=8192 w=8192 r=5 s=5 boundary=symmetric"},
      {" convolve\ts=7  w=16777216 ", "convolve w=16777216 s=7"},
      {"convolve w=9 s=1", "correlate w=9 s=1"},
      {"correlate h=4096 w=4096 pixel=3 r=5 s=5 type=u8", "correlate pixel=3 h=4096 w=4096 r=5 s=5 type=u8"},
      {"correlate c=1 h=4 w=4 pixel=1 r=5 s=5 n=1", "correlate h=4 w=4 r=5 s=5"},
      {"correlate h=9 w=9 r=3 s=3 anchor=1", "correlate h=9 w=9 r=3 s=3"},
      {"correlate h=9 w=9 r=3 s=3 anchor=0x1", "correlate h=9 w=9 r=3 s=3 anchor=0x1"},
      {"correlate h=9 w=9 r=4 s=4 origin=-1x0", "correlate h=9 w=9 r=4 s=4 anchor=1x2"},
      {"convolve h=9 w=9 r=4 s=4 origin=-1", "convolve h=9 w=9 r=4 s=4 anchor=1"},
      {"correlate h=9 w=9 r=3 s=3 anchor=0 out=7", "correlate h=9 w=9 r=3 s=3 mode=valid"},
      {"correlate h=9 w=9 r=3 s=3 pad=2", "correlate h=9 w=9 r=3 s=3 mode=full"},
      {"correlate h=9 w=9 r=3 s=3 out=5x6", "correlate h=9 w=9 r=3 s=3 out=5x6"},
      {"correlate w=9 s=3 pad=7:-2", "correlate w=9 s=3 pad=7:-2"},
      {"correlate w=9 s=3 boundary=nearest", "correlate w=9 s=3 boundary=edge"},
      {"correlate w=9 s=3 boundary=tile", "correlate w=9 s=3 boundary=wrap"},
      {"correlate w=9 s=3 boundary=mirror101", "correlate w=9 s=3 boundary=reflect101"},
      {"correlate w=9 s=3 boundary=constant=3", "correlate w=9 s=3 value=3"},
      {"correlate w=9 s=3 boundary=constant=3 value=3.0", "correlate w=9 s=3 value=3"},
      {"correlate w=9 s=3 boundary=edge value=3", "correlate w=9 s=3 boundary=edge"},
      {"correlate h=9 w=9 r=3 s=3 boundary=x=edge:constant=2",
       "correlate h=9 w=9 r=3 s=3 boundary=x=edge:constant value=2"},
      {"correlate h=9 w=9 r=3 s=3 boundary=w=edge,h=edge", "correlate h=9 w=9 r=3 s=3 boundary=edge"},
      {"correlate h=9 w=9 r=3 s=3 type=u8 weight-type=f32 out-type=u8 acc=f32", "correlate h=9 w=9 r=3 s=3 type=u8"},
      {"forward c=4 w=9 k=4 s=3 pad=1:1 layout=ncw groups=1", "forward c=4 w=9 k=4 s=3 pad=1"},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 pad=1x2", "forward c=4 h=9 w=9 k=4 r=3 s=3 pad=1x2"},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 pad=1:0", "forward c=4 h=9 w=9 k=4 r=3 s=3 pad=1:0x1:0"},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 out=7", "forward c=4 h=9 w=9 k=4 r=3 s=3"},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 type=u8 weight-type=s8 out-type=s32 acc=s32",
       "forward c=4 h=9 w=9 k=4 r=3 s=3 type=u8"},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 layout=nhwc weight-layout=ohwi", "forward c=4 h=9 w=9 k=4 r=3 s=3 layout=nhwc"},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 weight-layout=hwio", "forward c=4 h=9 w=9 k=4 r=3 s=3 weight-layout=hwio"},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 pool=max:2x2 act=relu", "forward c=4 h=9 w=9 k=4 r=3 s=3 act=relu pool=max:2"},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 pool=max:1x3 out=7x2", "forward c=4 h=9 w=9 k=4 r=3 s=3 pool=max:1x3"},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 pool=max:1 out=7", "forward c=4 h=9 w=9 k=4 r=3 s=3"},
      {"forward c=4 w=9 k=4 s=3 act=leaky:0.01 alpha=1.0", "forward c=4 w=9 k=4 s=3 act=leaky"},
      {"maxpool n=64 c=16 h=28 w=28 r=2 s=2 stride=2", "maxpool n=64 c=16 h=28 w=28 r=2 s=2"},
      {"avgpool h=28 w=28 r=2 s=3 stride=2x3 count-pad=1", "avgpool h=28 w=28 r=2 s=3 count-pad=1"},
      {"avgpool h=28 w=28 r=3 s=3 stride=1 count-pad=0", "avgpool h=28 w=28 r=3 s=3 stride=1"},
      {"correlate h=2 w=3 r=1 s=1 input-strides=0,0,0,0,3,1", "correlate h=2 w=3 r=1 s=1"},
      {"correlate h=2 w=3 r=1 s=1 input-strides=0,0,0,0,-3,-1",
       "correlate h=2 w=3 r=1 s=1 input-strides=0,0,0,0,-3,-1"},
      {"correlate h=2 w=3 r=1 s=1 input-strides=0,0,0,0,-3,-1 input-offset=5",
       "correlate h=2 w=3 r=1 s=1 input-strides=0,0,0,0,-3,-1"},
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    assert_prints(lines[i][0], lines[i][1]);
    assert_prints(lines[i][1], lines[i][1]);
  }
}

static void test_budget_words(void **state) {
  (void)state;
  falt_problem p;
  falt_budget budget;
  char text[LONGEST];
  const char *line =
      "correlate w=9 s=3 tune=0.5 method=direct max-error=1e-3 max-workspace=32M no-transforms=1 tf32=1 "
      "deterministic=1";
  assert_int_equal(falt_problem_parse(&p, &budget, line), FALT_OK);
  assert_int_equal(budget.max_workspace, 32 << 20);
  assert_true(budget.deterministic && budget.allow_tf32 && budget.no_transforms && budget.max_error == 1e-3 &&
              budget.tune_seconds == 0.5);
  assert_string_equal(budget.method, "direct");
  falt_problem_print(&p, &budget, text, sizeof text);
  assert_string_equal(
      text,
      "correlate w=9 s=3 deterministic=1 tf32=1 no-transforms=1 max-workspace=33554432 max-error=0.001 method=direct "
      "tune=0.5");
  falt_problem_print(&p, NULL, text, sizeof text);
  assert_string_equal(text, "correlate w=9 s=3");
  assert_int_equal(falt_problem_parse(&p, &budget, text), FALT_OK);
  assert_int_equal(budget.max_workspace, -1);
  assert_false(budget.deterministic || budget.allow_tf32 || budget.no_transforms || budget.max_error != 0 ||
               budget.tune_seconds != 0);
  assert_string_equal(budget.method, "");
  assert_int_equal(falt_problem_parse(&p, &budget, "correlate w=9 s=3 max-workspace=0"), FALT_OK);
  assert_int_equal(budget.max_workspace, 0);
}

static void test_print_cuts_as_snprintf(void **state) {
  (void)state;
  falt_problem p;
  char text[32];
  parse(&p, "correlate w=9 s=3");
  assert_int_equal(falt_problem_print(&p, NULL, NULL, 0), 17);
  memset(text, 'x', sizeof text);
  assert_int_equal(falt_problem_print(&p, NULL, text, 10), 17);
  assert_string_equal(text, "correlate");
  assert_int_equal(text[10], 'x');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_noise_in_unused_fields_changes_nothing),
      cmocka_unit_test(test_random_strides_round_trip),
      cmocka_unit_test(test_hashes_tell_lines_apart),
      cmocka_unit_test(test_hash_sees_every_word),
      cmocka_unit_test(test_filter_when),
      cmocka_unit_test(test_factors),
      cmocka_unit_test(test_factors_expand),
      cmocka_unit_test(test_default_types),
      cmocka_unit_test(test_hash_is_the_same_everywhere),
      cmocka_unit_test(test_canonical_lines),
      cmocka_unit_test(test_budget_words),
      cmocka_unit_test(test_print_cuts_as_snprintf),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
