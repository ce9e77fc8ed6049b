/* The solver fft-dense beside the definition in f64: errors are rounding of the largest input times the sum of |w|; NaN
 * and infinity, of the input or of the filter, reach exactly the outputs that read them; numbers far from one; limits
 * of the workspace; when the planner takes it. */
#include "fft_trial.h"

/* 2 eps log2(points) of the largest input times the magnitudes of an output channel's taps, with room for their
 * differences; and the rounding of narrow results. */
static double tolerance(const trial *t) {
  const double taps = (double)falt_problem_depth(&t->problem);
  const double lane = t->problem.accumulator == FALT_F64 ? 0x1p-53 : 0x1p-24;
  return 2 * (lane * fmax(8, log2(4 * taps)) + falt_type_epsilon(t->output.tensor.type)) * largest(&t->input) * taps *
         largest(&t->filter);
}

static void check_trial(trial *t, const char *line, const char *isa, bool known, int64_t most) {
  trial *expected = expected_of(t);
  run(t, "fft-dense", isa, known, most);
  compare(&t->output, &expected->output, tolerance(t), line, isa);
  close_trial(t);
  close_trial(expected);
}

static void check(const char *line, double x, double w, const char *isa, bool known, int64_t most) {
  check_trial(open_trial(line, x, w), line, isa, known, most);
}

static const char *const layers[] = {
    "forward n=3 c=3 w=1000 k=5 s=129 pad=64",
    "forward n=1 c=8 w=700 k=2 s=700 pad=699:0",                             /* causal */
    "forward n=2 c=4 w=256 k=3 s=200 pad=199:0 boundary=wrap",               /* circular */
    "forward n=2 c=3 h=40 w=50 k=4 r=15 s=13 pad=7x6 boundary=reflect101",   /* images */
    "forward n=1 c=2 h=32 w=48 k=3 r=9 s=9 pad=4 boundary=wrap act=relu",    /* circular images */
    "forward n=2 c=3 h=30 w=41 k=4 r=7 s=9 pad=3x4 stride=2x3 dilation=2x1", /* gaps */
    "forward n=2 c=6 h=20 w=90 k=4 groups=2 r=1 s=31 pad=0x15 stride=2x1",   /* rows apart, groups */
    "forward n=1 c=2 d=12 h=20 w=24 k=2 t=5 r=5 s=5 pad=2",                  /* volumes */
    "forward n=2 c=3 h=30 w=40 k=4 r=9 s=9 pad=4 layout=nhwc",
    "forward n=2 c=3 h=30 w=40 k=4 r=9 s=9 pad=4 type=f16",
    "forward n=2 c=1 h=30 w=40 k=4 r=9 s=9 pad=4 type=f64",
};
enum { LAYERS = sizeof layers / sizeof *layers };

static void test_errors_are_rounding(void **state) {
  (void)state;
  for (int isa = 0; isa <= FALT_ISA_AVX512; isa++)
    for (int i = 0; i < LAYERS && falt_isa_runs((falt_isa)isa); i++)
      check(layers[i], 1, 1, falt_isa_name((falt_isa)isa), (i + isa) % 2, -1);
}

static void test_numbers_far_from_one(void **state) {
  (void)state;
  static const int exponents[][2] = {{-120, 0}, {-60, -50}, {100, 0}, {100, -120}, {0, -120}, {-100, 120}, {60, 40}};
  for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++)
    for (int l = 0; l < 4; l++)
      check(layers[l], ldexp(1, exponents[i][0]), ldexp(1, exponents[i][1]), "", (int)i % 2 == l % 2, -1);
}

/* Input channels whose numbers have other exponents. */
static void test_channels_of_other_magnitudes(void **state) {
  (void)state;
  trial *t = open_trial("forward n=2 c=6 w=900 k=3 s=65 pad=32", 1, 1);
  for (int64_t i = 0; i < t->input.count; i++) put(&t->input, i, ldexp(at(&t->input, i), (int)(i / 900) * 10 - 60));
  check_trial(t, "channels of other magnitudes", "", true, -1);
}

static void check_contained(const char *line, double wrong, bool in_x, bool known) {
  trial *t = open_trial(line, 1, 1);
  const operand *o = in_x ? &t->input : &t->filter;
  for (int i = 0; i < 2; i++) put(o, falt_random_int(&seed, 0, o->count - 1), wrong);
  check_trial(t, line, "", known, -1);
}

static void test_not_finite_is_contained(void **state) {
  (void)state;
  static const double wrong[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < LAYERS; i++) check_contained(layers[i], wrong[i % 3], true, i % 2);
  for (int i = 0; i < 6; i++) /* no tap meets a constant beyond an edge */
    check_contained(i % 2 ? "forward n=3 c=3 w=600 k=5 s=129" : layers[3], wrong[i / 2], false, i % 2);
}

static void test_tiles_fit_the_workspace(void **state) {
  (void)state;
  static const int64_t limits[] = {8000000, 2000000};
  for (int i = 0; i < 2; i++) check("forward n=2 c=3 h=60 w=70 k=4 r=15 s=13 pad=7x6", 1, 1, "", i, limits[i]);
}

static void test_it_is_taken_where_it_pays(void **state) {
  (void)state;
  static const choice cases[] = {{"forward n=1 c=8 w=65536 k=8 s=4097 pad=4096:0", true},
                                 {"forward n=1 c=3 h=256 w=256 k=8 r=31 s=31 pad=15", true},
                                 {"forward n=1 c=16 h=128 w=128 k=16 r=15 s=15 pad=7", true},
                                 {"forward n=1 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3", false},
                                 {"forward n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1", false},
                                 {"forward n=1 c=64 h=56 w=56 k=64 r=7 s=7 pad=3", false}};
  check_choices(cases, sizeof cases / sizeof *cases, "fft-dense");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_errors_are_rounding, set_up),
      cmocka_unit_test_setup(test_numbers_far_from_one, set_up),
      cmocka_unit_test_setup(test_channels_of_other_magnitudes, set_up),
      cmocka_unit_test_setup(test_not_finite_is_contained, set_up),
      cmocka_unit_test_setup(test_tiles_fit_the_workspace, set_up),
      cmocka_unit_test_setup(test_it_is_taken_where_it_pays, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
