/* Problems that a solver once computed wrongly: every plan of each, at every instruction set of this processor, with
 * one and three threads. A line represents a class of mistakes; its comment names it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/cpu.h"
#include "faltung/faltung.h"

typedef struct regression {
  const char *line;
  uint64_t seed; /* of the data; 0: any */
} regression;

static const regression lines[] = {
    /* grouped, fprop-pixelfold: stored integers of 16 bits as f32 */
    {"forward c=6 d=1 h=6 w=4 k=6 t=2 r=2 s=1 pad=1x3x2 type=bf16 out-type=s16 layout=ndhwc", 0},
    {"forward n=3 c=6 w=3 k=4 s=2 pad=9:7 out=9 type=bf16 out-type=u16 layout=nwc bias=1", 0},
    {"forward n=1 c=8 h=5 w=9 k=6 r=3 s=3 pad=1 groups=2 type=u8 weight-type=s8 out-type=u16 layout=nhwc", 0},
    {"forward n=1 c=8 h=5 w=9 k=6 r=3 s=3 pad=1 groups=2 type=u8 weight-type=s8 out-type=s16 layout=nhwc alpha=0.5", 0},
    /* channels: cut all positions once for each span when slots did not fit */
    {"backward-data n=2 c=1 d=3 h=14 w=12 k=6 t=5 r=4 s=2 pad=4:3x9:9x1:3 layout=ndhwc", 0},
    /* generic: walked all taps for each fold of a boundary, whether they met anything or not */
    {"backward-data c=1 w=2 k=1 s=2048 dilation=12 pad=12282 boundary=symmetric weight-type=f32 type=f64", 0},
    /* dgrad-strided: circular axes, dense and depthwise, wider than a turn; beside an axis that is not circular */
    {"backward-data n=3 c=2 h=9 w=20 k=2 r=5 s=7 pad=2x3 groups=2 boundary=wrap", 0},
    {"backward-data n=2 c=4 h=9 w=20 k=6 r=3 s=3 pad=4:0x2 dilation=2 boundary=wrap layout=nhwc", 0},
    {"backward-data n=2 c=4 w=16 k=4 s=40 pad=39:0 groups=4 boundary=wrap type=f16", 0},
    {"backward-data n=1 c=3 h=12 w=10 k=2 r=4 s=3 pad=1x1 stride=2x1 boundary=y=constant,x=wrap", 0},
    /* fft-wgrad: a tile of one position took two taps; strides and bias beyond every boundary */
    {"backward-filter c=1 h=1 w=2 k=1 r=2 s=1 stride=2 pad=1", 0},
    {"backward-filter n=3 c=2 h=9 w=20 k=4 r=5 s=7 pad=4x6 groups=2 boundary=symmetric bias=1 stride=2", 0},
    /* wgrad-fewchannels, upconvert-f32: took slots of one pixel for pixels of adjacent channels */
    {"backward-filter c=5 h=47 w=1 k=2 r=2 s=1", 0},
    {"backward-filter c=3 h=36 w=44 k=6 r=4 s=1 dilation=2 out=1", 0},
    {"backward-filter c=10 d=4 h=5 w=1 k=12 t=2 r=4 s=1 groups=2 pad=3x0x0", 0},
    {"backward-filter n=2 c=12 d=6 h=8 w=1 k=12 t=5 r=4 s=1 groups=3 stride=3x2x1 value=2", 0},
    {"backward-filter n=2 c=3 d=9 h=12 w=1 k=1 t=2 r=5 s=1 pad=19:11x1:3x0:0 type=bf16 bias=1", 0},
    /* outer, wgrad-rows: had kernels read rows in place at a step that is not positive */
    {"backward-filter c=20 w=40 k=3 s=3 input-strides=800,0,40,0,0,-1 input-offset=39", 0},
    {"backward-filter c=20 w=40 k=3 s=3 input-strides=800,0,2,0,0,0", 0},
    {"backward-filter n=2 c=32 h=6 w=40 k=8 r=3 s=3 layout=nhwc weight-layout=ohwi output-strides=0,0,1,0,0,0", 0},
    /* wgrad-vnni: took rows of one pixel for adjacent pixels of a width that is the problem's height */
    {"backward-filter c=4 h=8 w=1 k=4 r=1 s=1 type=bf16 layout=nhwc output-strides=0,0,-1,0,4,0 output-offset=5", 0},
    {"backward-filter c=1 d=15 h=2 w=1 k=2 t=1 r=1 s=1 type=bf16 output-strides=0,0,0,0,0,0", 0},
    /* separable: terms cancel where the filter is zero, and their roundings are left */
    {"correlate h=1 w=1 r=3 s=7 mode=full weight-type=u16 rank=3", 0},
    {"correlate h=1 w=1 r=5 s=9 mode=full rank=3", 0},
    /* generic: the largest of rounded values depended on the order where one was NaN, which is 0 among integers */
    {"forward n=2 c=3 w=15 k=5 s=3 pad=3 boundary=wrap weight-type=s32 out-type=s16 layout=nwc pool=max:2", 2000919},
    {"forward c=7 h=11 w=15 k=14 r=3 s=3 groups=7 pad=-1:18x1:1 type=bf16 out-type=u8 bias=1 pool=max:1x3", 2000307},
    /* the verification: NaN of zeros that meet an infinity, where the result is an infinity by another element */
    {"forward c=9 h=7 w=7 k=2 r=5 s=5 pad=0:1x1:0 boundary=edge type=bf16 layout=nhwc pool=max:2", 2000059},
    /* direct: sums of integers beyond 2^53 in f64, where the accumulator's type was f64 */
    {"forward n=2 c=31 h=3 w=31 k=31 r=3 s=3 groups=31 pad=1 boundary=symmetric:constant value=1 type=s32 layout=nhwc",
     71000111},
    {"forward c=9 h=1 w=2 k=9 r=3 s=1 groups=9 pad=1x0 boundary=edge type=s32", 81000978},
    /* the verification: products of bf16 below the smallest normal number are zeros */
    {"backward-filter c=1 h=5 w=12 k=26 r=5 s=1 stride=4 type=bf16", 44000815},
    /* the verification: transforms round relative to the constant beyond the edges, and where no dy reaches */
    {"forward c=1 h=1 w=1 k=1 r=1 s=1 pad=1 value=0.5", 81235202},
    {"backward-data c=1 h=1 w=4 k=1 r=1 s=1 out=1x2 type=bf16", 81237857},
    {"backward-data c=10 h=1 w=16 k=10 r=7 s=7 groups=10 dilation=2 pad=1:0x1:1 out=1", 89616512434012},
    /* upconvert-f32: sums of whole numbers by transforms, which round */
    {"forward c=4 h=9 w=8 k=4 r=1 s=1 groups=4 pad=1:1x0:-3 boundary=x=reflect101 value=1 type=u8 weight-type=u16 "
     "acc=s32 "
     "filter=known",
     89616512559872},
    /* separable: terms of infinities cancel to NaN; terms are close to all taps, not to each */
    {"correlate h=9 w=40 r=7 s=9 mode=full weight-type=s8 out-type=s32 rank=2", 281474976710663},
    {"correlate h=9 w=40 r=7 s=9 mode=full weight-type=s8 out-type=u16 rank=3", 4785074604081159},
    {"correlate h=1 w=2 r=3 s=7 rank=2", 281474976710663},
    /* layer kernels: rows of a panel that lie in one place */
    {"backward-filter n=2 c=1 d=1 h=1 w=1 k=16 t=1 r=1 s=1 output-strides=0,0,1,0,0,0", 0},
    {"backward-filter c=1 h=1 w=18 k=16 r=1 s=1 type=bf16 output-strides=0,0,1,0,0,0", 0},
    /* direct: 1,000 equal terms in one chain of roundings */
    {"correlate n=31 w=9 s=1000 stride=2 dilation=18 anchor=501 boundary=edge filter=known filter-strides=0,0,0,0,0,0 "
     "filter-offset=1",
     157862755472083},
    /* the verification: products that underflow before a large scale */
    {"forward c=31 h=1 w=6 k=31 r=3 s=3 groups=31 stride=2 pad=1 layout=nhwc scale=1 act=relu", 2000547},
    /* igemm-vnni: formed an address from a tile without positions, which no list had filled */
    {"forward c=1 h=25 w=31 k=2 r=1 s=1 type=bf16", 235698592551252},
};

/* ---- the devices */

enum { THREADS = 2 };
static falt_device *devices[FALT_ISA_COUNT][THREADS];

static int open_devices(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
    for (int t = 0; t < THREADS && falt_isa_runs((falt_isa)isa); t++) {
      falt_cpu_options options;
      falt_cpu_options_default(&options);
      options.threads = t == 0 ? 1 : 3;
      snprintf(options.isa, sizeof options.isa, "%s", falt_isa_name((falt_isa)isa));
      if (falt_device_cpu(&devices[isa][t], &options) != FALT_OK) return -1;
    }
  }
  return 0;
}

static int close_devices(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    for (int t = 0; t < THREADS; t++) falt_device_destroy(&devices[isa][t]);
  return 0;
}

/* ---- the problems */

typedef struct tally {
  const char *line;
  falt_isa isa;
  int verdicts, failures;
} tally;

static void note(void *context, const falt_verdict *verdict) {
  tally *t = context;
  t->verdicts++;
  if (verdict->ok) return;
  t->failures++;
  print_error("%s on %s: error %g, tolerance %g\n  %s\n", verdict->solver, falt_isa_name(t->isa),
              verdict->max_abs_error, verdict->tolerance, t->line);
}

static void test_lines(void **state) {
  (void)state;
  tally t = {0};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    falt_problem problem;
    t.line = lines[i].line;
    if (falt_problem_parse(&problem, NULL, t.line) != FALT_OK) fail_msg("%s: %s", t.line, falt_message());
    for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
      t.isa = (falt_isa)isa;
      for (int n = 0; n < THREADS && devices[isa][n]; n++)
        if (falt_verify(devices[isa][n], &problem, NULL, lines[i].seed ? lines[i].seed : 1 + i, note, &t) != FALT_OK)
          fail_msg("%s: %s", t.line, falt_message());
    }
  }
  assert_true(t.verdicts > 0);
  assert_int_equal(t.failures, 0);
}

static void see_separable(void *context, const falt_verdict *verdict) {
  *(bool *)context |= strcmp(verdict->solver, "separable") == 0;
}

/* Verification plans once more with the values of the filter, which some solvers ask for. */
static void test_known_filter(void **state) {
  (void)state;
  bool seen = false;
  falt_problem problem;
  assert_int_equal(falt_problem_parse(&problem, NULL, "correlate h=9 w=40 r=5 s=9 rank=1"), FALT_OK);
  assert_int_equal(falt_verify(devices[0][0], &problem, NULL, 1, see_separable, &seen), FALT_OK);
  assert_true(seen);
}

/* SiLU and GELU end at 0 and at infinity, where their formulas may give NaN. */
static void check_limits(falt_device *device, const char *line) {
  enum { CHANNELS = 16, PIXELS = 20 };
  static float x[PIXELS * CHANNELS], w[CHANNELS * CHANNELS], y[PIXELS * CHANNELS];
  falt_problem problem;
  falt_plan *plan;
  for (int i = 0; i < PIXELS * CHANNELS; i++) x[i] = i / CHANNELS % 2 ? INFINITY : -INFINITY;
  for (int i = 0; i < CHANNELS * CHANNELS; i++) w[i] = 1;
  assert_int_equal(falt_problem_parse(&problem, NULL, line), FALT_OK);
  if (falt_plan_create(&plan, device, &problem, NULL, NULL)) fail_msg("%s: %s", line, falt_message());
  const falt_operands operands = {.input = x, .filter = w, .output = y};
  assert_int_equal(falt_execute_host(plan, &operands), FALT_OK);
  falt_plan_destroy(&plan);
  for (int i = 0; i < PIXELS * CHANNELS; i++)
    if (y[i] != (i / CHANNELS % 2 ? INFINITY : 0)) fail_msg("%s: element %d is %g", line, i, (double)y[i]);
}

static void test_limits(void **state) {
  (void)state;
  static const char *const layers[] = {
      "forward c=16 h=1 w=20 k=16 r=1 s=1 layout=nhwc act=silu",
      "forward c=16 h=1 w=20 k=16 r=1 s=1 layout=nhwc act=gelu",
      "forward c=16 h=1 w=20 k=16 r=1 s=1 layout=nhwc groups=16 act=silu",
      "forward c=16 h=1 w=20 k=16 r=1 s=1 layout=nhwc groups=16 act=gelu",
  };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
      if (devices[isa][0]) check_limits(devices[isa][0], layers[i]);
}

/* The solvers of a plan, which are its text up to what depends on threads. */
static void see_plan(falt_device *device, const char *line, char text[1024]) {
  falt_plan *plan = NULL;
  assert_int_equal(falt_plan_create_line(&plan, device, line, NULL), FALT_OK);
  falt_plan_print(plan, text, 1024);
  text[strcspn(text, " ")] = '\0';
  falt_plan_destroy(&plan);
}

/* A worker's rows may be large: direct was refused where many workers' were too much together. */
static void test_deterministic_choice(void **state) {
  (void)state;
  static const char *const filters[] = {
      "correlate pixel=2 h=1 w=2 r=2 s=2 dilation=975 boundary=wrap out-type=f64 filter=given deterministic=1",
      "correlate h=40 w=3000 r=900 s=3 boundary=edge filter=given deterministic=1",
      "correlate d=9 h=9 w=40000 t=9 r=9 s=3 boundary=edge filter=given deterministic=1",
  };
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    for (size_t i = 0; devices[isa][0] && i < sizeof filters / sizeof *filters; i++) {
      char alone[1024], many[1024];
      see_plan(devices[isa][0], filters[i], alone);
      see_plan(devices[isa][1], filters[i], many);
      assert_string_equal(alone, many);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_known_filter),
                                     cmocka_unit_test(test_limits), cmocka_unit_test(test_deterministic_choice)};
  return cmocka_run_group_tests(tests, open_devices, close_devices);
}
