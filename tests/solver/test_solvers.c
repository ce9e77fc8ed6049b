/* Every solver against the reference, on random problems and on shapes at the edges of tiles, at every instruction
 * set of this processor, with one to three threads. falt_verify executes every plan that the planner considers.
 *
 *     test_solvers [SEED [COUNT]]     or FALTUNG_TEST_SEED, FALTUNG_TEST_COUNT in the environment
 *
 * A failure prints the problem's line and its seed: `faltung verify LINE --seed SEED` repeats it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/verify.h"
#include "core/random.h"
#include "planner/search.h"

enum { MOST_THREADS = 3, MOST_SOLVERS = 128, FEW = 100 };

static uint64_t first_seed = 1;
static int count = 500;

static falt_device *devices[FALT_ISA_COUNT][MOST_THREADS];
static falt_isa levels[FALT_ISA_COUNT];
static int level_count;

static int open_devices(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
    if (!falt_isa_runs((falt_isa)isa)) continue;
    for (int t = 0; t < MOST_THREADS; t++) {
      falt_cpu_options options;
      falt_cpu_options_default(&options);
      options.threads = t + 1;
      snprintf(options.isa, sizeof options.isa, "%s", falt_isa_name((falt_isa)isa));
      if (falt_device_cpu(&devices[level_count][t], &options) != FALT_OK) return -1;
    }
    levels[level_count++] = (falt_isa)isa;
  }
  return level_count > 0 ? 0 : -1;
}

static int close_devices(void **state) {
  (void)state;
  for (int l = 0; l < level_count; l++)
    for (int t = 0; t < MOST_THREADS; t++) falt_device_destroy(&devices[l][t]);
  return 0;
}

/* ---- verdicts */

typedef struct tally {
  const char *line;
  uint64_t seed;
  int problems, failures, factors; /* factors: problems whose filter comes as factors */
  struct {
    const char *solver;
    int runs;
  } solver[MOST_SOLVERS];
} tally;

static void note(void *context, const falt_verdict *verdict) {
  tally *t = context;
  int i = 0;
  while (t->solver[i].solver && strcmp(t->solver[i].solver, verdict->solver) != 0) i++;
  t->solver[i].solver = verdict->solver;
  t->solver[i].runs++;
  if (verdict->ok) return;
  t->failures++;
  print_error("%s: error %g (relative %g), tolerance %g, seed %llu\n  %s\n  %s\n", verdict->solver,
              verdict->max_abs_error, verdict->max_rel_error, verdict->tolerance, (unsigned long long)t->seed, t->line,
              falt_message());
}

static void verify(tally *t, falt_device *device, const char *line, uint64_t seed) {
  falt_problem problem;
  falt_budget budget;
  t->line = line;
  t->seed = seed;
  t->problems++;
  if (falt_problem_parse(&problem, &budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  t->factors += problem.factors > 0;
  if (falt_verify(device, &problem, &budget, seed, note, t) != FALT_OK) fail_msg("%s: %s", line, falt_message());
}

static int runs_of(const tally *t, const char *solver) {
  for (int i = 0; t->solver[i].solver; i++)
    if (strcmp(t->solver[i].solver, solver) == 0) return t->solver[i].runs;
  return 0;
}

/* Those that apply to everything, to all dense taps and to all filters as factors ran everywhere, and nothing failed.
 */
static void conclude(const tally *t) {
  for (int i = 0; t->solver[i].solver; i++) print_message("  %-12s %d\n", t->solver[i].solver, t->solver[i].runs);
  assert_int_equal(t->failures, 0);
  assert_int_equal(runs_of(t, "reference"), t->problems);
  assert_int_equal(runs_of(t, "generic"), t->problems - t->factors);
  assert_int_equal(runs_of(t, "expand-factors"), t->factors);
}

static void test_random(void **state) {
  (void)state;
  tally t = {0};
  print_message("seed %llu, %d problems\n", (unsigned long long)first_seed, count);
  for (int i = 0; i < count && t.failures < 10; i++) {
    char line[2048];
    const uint64_t seed = first_seed + (uint64_t)i;
    assert_true(falt_problem_random(seed, line, sizeof line) < sizeof line);
    verify(&t, devices[i % level_count][i / level_count % MOST_THREADS], line, seed);
  }
  conclude(&t);
}

/* Layers in f32 with few channels on one side, whose solvers random problems seldom meet. */
static void random_layer(uint64_t state, char *line, size_t size) {
  static const char *const operations[] = {"forward", "backward-data", "backward-filter"};
  static const char *const layouts[2][3] = {{"nwc", "nhwc", "ndhwc"}, {"ncw", "nchw", "ncdhw"}};
  static const char axes[] = "dhw", taps[] = "trs";
  const int operation = (int)falt_random_int(&state, 0, 2), space = (int)falt_random_int(&state, 1, 3);
  const int many = (int)falt_random_int(&state, 1, 40), few = (int)falt_random_int(&state, 1, 9);
  const bool few_in = falt_random_int(&state, 0, 2) > 0;
  falt_text text = falt_text_over(line, size);
  falt_text_add(&text, "%s n=%d c=%d k=%d", operations[operation], (int)falt_random_int(&state, 1, 2),
                few_in ? few : many, few_in ? many : few);
  for (int a = 3 - space; a < 3; a++) {
    falt_text_add(&text, " %c=%d", axes[a], (int)falt_random_int(&state, 1, space == 3 ? 9 : space == 2 ? 20 : 90));
    falt_text_add(&text, " %c=%d", taps[a], (int)falt_random_int(&state, 1, space == 3 ? 4 : 9));
  }
  const char *const words[] = {"stride", "dilation", "pad"};
  for (int w = 0; w < 3; w++) {
    falt_text_add(&text, " %s=", words[w]);
    for (int a = 0; a < space; a++)
      falt_text_add(&text, "%s%d", a ? "x" : "",
                    w == 2 ? (int)falt_random_int(&state, 0, 9) + 8 * 8 * (falt_random_int(&state, 0, 15) == 0)
                           : (int)falt_random_int(&state, 1, w == 1 && a == space - 1 ? 1 : 3));
  }
  falt_text_add(&text, " layout=%s", layouts[falt_random_int(&state, 0, 3) == 0][space - 1]);
  if (operation == 2 && falt_random_int(&state, 0, 1)) falt_text_add(&text, " bias=1");
  if (operation == 0 && falt_random_int(&state, 0, 1)) falt_text_add(&text, " bias=1 act=relu");
  if (operation != 1 && falt_random_int(&state, 0, 3) == 0) falt_text_add(&text, " value=2");
}

static void test_layers(void **state) {
  (void)state;
  tally t = {0};
  falt_problem problem;
  for (int i = 0; i < count / 3 && t.failures < 10; i++) {
    char line[512];
    const uint64_t seed = first_seed + (uint64_t)i;
    random_layer(seed, line, sizeof line);
    if (falt_problem_parse(&problem, NULL, line) != FALT_OK) continue; /* a window that does not fit */
    verify(&t, devices[i % level_count][i / level_count % MOST_THREADS], line, seed);
  }
  conclude(&t);
}

/* Larger than random problems are: several tiles along every direction, and each of the ways to cut them. */
static const char *const edges[] = {
    "correlate w=9001 s=7 boundary=wrap type=f32",
    "correlate w=5000 s=301 boundary=reflect101 type=f32",
    "correlate w=3000 s=5 dilation=700 boundary=symmetric type=f64",
    "correlate w=4100 s=3 stride=2 boundary=edge type=u8",
    "correlate h=37 w=2100 r=3 s=3 type=f16",
    "correlate h=3 w=40 r=31 s=31 boundary=reflect101 type=f32",
    "correlate h=300 w=1 r=9 s=1 boundary=wrap:edge type=f32",
    "correlate d=6 h=20 w=24 t=3 r=3 s=3 boundary=z=wrap,y=edge,x=symmetric type=s16",
    "correlate h=24 w=50 pixel=3 r=5 s=5 boundary=reflect101 type=u8",
    "correlate w=64 s=40 type=u16 weight-type=u16 out-type=f64",
    "correlate w=50 s=9 type=s32 weight-type=s32 out-type=s32",
    "forward n=1 c=3 h=9 w=9 k=5 r=3 s=3 type=s32 weight-type=s32 layout=nhwc out-type=f64",
    "forward n=2 c=70 h=6 w=5 k=9 r=3 s=3 pad=1 type=f32 layout=nhwc",
    "forward n=2 c=9 h=6 w=5 k=70 r=3 s=3 pad=1 type=f32 layout=nhwc bias=1 act=relu",
    "forward n=2 c=9 h=6 w=15 k=70 r=3 s=3 pad=1 type=f64 scale=1 residual=1 act=gelu",
    "forward n=3 c=32 h=7 w=7 k=24 r=3 s=3 pad=1 type=f32",
    "forward n=40 c=30 w=1 k=20 s=1 type=f32",
    "forward n=2 c=16 h=9 w=9 k=16 r=3 s=3 pad=2 boundary=wrap type=u8 weight-type=s8 layout=nhwc",
    "forward n=1 c=150 h=6 w=7 k=150 r=3 s=3 pad=1 groups=150 type=f32 layout=nhwc",
    "forward n=1 c=20 h=7 w=9 k=40 r=9 s=9 pad=4 groups=20 type=f32 layout=nhwc",
    "forward n=1 c=48 h=6 w=5 k=24 r=3 s=3 pad=1 value=2 groups=12 type=f32 layout=nhwc",
    "forward n=3 c=21 h=13 w=11 k=133 r=3 s=3 pad=1 type=f32 layout=nhwc residual=1 scale=1",
    "forward n=5 c=3 h=27 w=25 k=40 r=5 s=7 stride=2 pad=3x2 boundary=reflect101 type=f32 layout=nhwc bias=1",
    "forward n=5 c=3 h=27 w=25 k=40 r=5 s=7 stride=2 pad=3x2 type=f32 value=1 act=relu6",
    "forward n=2 c=96 h=9 w=8 k=48 r=3 s=3 pad=1 groups=12 type=f32 value=2 layout=nhwc bias=1 residual=1",
    "forward n=2 c=48 h=9 w=8 k=96 r=3 s=3 pad=1 groups=24 type=f32 boundary=wrap layout=nhwc scale=1",
    "forward n=1 c=64 h=19 w=8 k=64 r=3 s=3 pad=1 groups=2 stride=2 type=f32 layout=nhwc",
    "forward n=4 c=150 h=7 w=7 k=90 r=1 s=1 type=f32 residual=1 act=relu",
    "forward n=1 c=700 w=150 k=19 s=9 dilation=3 pad=12 type=f32 bias=1",
    "forward n=1 c=40 d=5 h=6 w=7 k=36 t=3 r=2 s=3 pad=1 stride=2x1x2 groups=2 type=f32 layout=ndhwc act=clip:-1:1",
    "forward n=1 c=40 d=5 h=6 w=7 k=36 t=3 r=2 s=3 pad=1 boundary=edge groups=2 type=f32",
    "forward n=5 c=1 h=28 w=28 k=16 r=5 s=5 pad=2 type=f32 bias=1 act=relu pool=max:2",
    "forward n=1 c=16 h=131 w=61 k=40 r=3 s=3 pad=1 type=f32 layout=nhwc bias=1 act=tanh pool=max:3x2",
    "forward n=1 c=24 h=190 w=90 k=32 r=3 s=3 pad=40 stride=2 dilation=2 groups=2 type=f32 value=1 pool=max:2x3",
    "forward n=1 c=1 w=300000 k=2 s=9 type=f32 pool=max:7",
    "forward n=1 c=3 d=9 h=31 w=40 k=20 t=3 r=3 s=3 pad=1 type=u8 out-type=u8 alpha=0.03 layout=ndhwc pool=max:2x3x1",
    "forward n=2 c=3 d=5 h=11 w=12 k=20 t=3 r=3 s=3 pad=1 boundary=wrap layout=ndhwc act=relu pool=max:2x3x1",
    "forward n=3 c=64 h=7 w=7 k=70 r=3 s=3 pad=1 type=bf16 layout=nhwc bias=1 act=relu",
    "forward n=2 c=96 h=17 w=11 k=40 r=5 s=3 pad=2 stride=3x2 dilation=2x1 type=bf16 layout=nhwc boundary=wrap",
    "forward n=2 c=32 h=40 w=50 k=33 r=3 s=3 pad=1 stride=2 type=bf16 layout=nhwc residual=1 act=silu",
    "forward n=1 c=64 h=10 w=150 k=40 r=1 s=1 type=bf16 layout=nhwc scale=1 boundary=constant=2 pad=1",
    "forward n=2 c=6 h=37 w=90 k=20 r=7 s=7 pad=3 stride=2 groups=2 type=bf16 layout=nhwc value=1",
    "forward n=1 c=64 w=2000 k=8 s=9 pad=40 dilation=10 type=bf16 layout=nwc",
    "forward n=3 c=64 h=14 w=14 k=40 r=3 s=3 pad=1 type=u8 weight-type=s8 out-type=u8 alpha=0.01 layout=nhwc",
    "forward n=1 c=128 d=2 h=6 w=13 k=20 t=2 r=3 s=3 pad=1 groups=2 type=s8 out-type=s8 alpha=0.003 layout=ndhwc",
    "forward n=2 c=48 h=13 w=29 k=40 r=3 s=3 pad=1 type=f16 layout=nhwc act=relu6",
    "forward n=1 c=70 w=700 k=77 s=5 pad=9:3 dilation=4 type=bf16 layout=ncw bias=1 residual=1 act=gelu",
    "forward n=2 c=40 h=9 w=61 k=20 r=3 s=4 pad=2 stride=2x3 boundary=wrap type=bf16 groups=2",
    "forward n=1 c=3 h=21 w=50 k=40 r=7 s=7 pad=3 stride=2 value=2 type=bf16 act=relu",
    "forward n=1 c=130 h=6 w=33 k=50 r=3 s=3 pad=1 type=u8 weight-type=s8 out-type=u8 alpha=0.01 bias=1",
    "forward n=1 c=9 d=5 h=6 w=40 k=17 t=2 r=2 s=3 pad=1 type=s8 out-type=s32",
    "forward n=1 c=1 w=9000 k=100 s=10 stride=5 type=u8 weight-type=s8 out-type=s32",
    "forward n=1 c=1 h=40 w=60 k=8 r=15 s=15 pad=7 type=u8 weight-type=s8 out-type=s32 layout=nhwc",
    "forward n=2 c=3 h=30 w=41 k=40 r=7 s=7 stride=2 pad=3 boundary=reflect101 type=u8 weight-type=s8 layout=nhwc",
    "forward n=1 c=3 h=21 w=130 k=40 r=3 s=3 pad=1 value=2 type=bf16 layout=nhwc bias=1",
    "forward n=2 c=1 d=5 h=9 w=22 k=16 t=3 r=3 s=3 pad=1 type=bf16 layout=ndhwc boundary=reflect101",
    "forward n=2 c=1 d=6 h=9 w=37 k=19 t=3 r=3 s=3 pad=1 value=2 type=bf16 layout=ndhwc bias=1 act=relu",
    "forward n=2 c=1 d=5 h=9 w=22 k=16 t=3 r=3 s=3 pad=1 type=u8 layout=ndhwc boundary=wrap",
    "forward n=2 c=1 h=29 w=62 k=40 r=3 s=6 stride=3 dilation=2x1 pad=3 type=bf16 layout=nhwc",
    "forward n=1 c=2 d=6 h=9 w=37 k=17 t=2 r=3 s=3 pad=2 dilation=2 type=s8",
    "forward n=1 c=1 w=1603 k=70 s=10 stride=5 type=u8",
    "forward n=1 c=3 h=21 w=130 k=40 r=3 s=3 pad=1 type=f32 layout=nhwc",
    "backward-data n=2 c=70 h=13 w=29 k=64 r=3 s=3 pad=1 stride=2 type=bf16 layout=nhwc",
    "backward-data n=2 c=10 h=14 w=13 k=70 r=3 s=3 pad=1 stride=2 type=f32",
    "backward-data n=2 c=10 h=14 w=13 k=70 r=3 s=3 pad=1 stride=2 type=f32 layout=nhwc",
    "backward-data n=1 c=80 h=9 w=9 k=5 r=4 s=4 pad=9 boundary=wrap stride=2x3 dilation=2 type=f64 layout=nhwc",
    "backward-data n=1 c=1 h=2 w=560 k=2 r=2 s=4 pad=5x12 boundary=symmetric dilation=1x3 type=f32",
    "backward-data n=1 c=1 w=3000 k=1 s=9 stride=4 pad=3 type=f32",
    "backward-data n=1 c=40 h=5 w=6 k=40 r=3 s=3 pad=7 boundary=reflect101 groups=40 type=f32 layout=nhwc",
    "backward-data n=1 c=2 h=4 w=5 k=2 r=1 s=1 stride=7 type=f32",
    "backward-data n=2 c=70 h=13 w=11 k=33 r=5 s=3 pad=-1:4x2:-2 stride=3x2 dilation=2x3 type=f32 layout=nhwc groups=1",
    "backward-data n=1 c=24 d=6 h=7 w=8 k=40 t=2 r=3 s=1 pad=1x1x0 stride=2x3x4 type=f32 layout=ndhwc groups=4",
    "backward-data n=2 c=20 h=15 w=40 k=20 r=3 s=3 pad=1 stride=2 dilation=2 groups=20 type=f16",
    "backward-data n=2 c=3 h=19 w=30 k=40 r=7 s=7 pad=3 stride=2 type=f32 layout=nhwc",
    "backward-data n=1 c=3 h=16 w=24 k=70 r=8 s=8 stride=8 type=f32 layout=nhwc",
    "backward-data n=1 c=2 d=4 h=5 w=15 k=17 t=2 r=3 s=2 pad=0x1x-2:4 stride=1x2x5 type=f32 layout=ndhwc",
    "backward-data n=2 c=16 h=6 w=12 k=1 r=4 s=8 pad=-1:4x-1:1 stride=3 type=f32 layout=nhwc",
    "forward n=3 c=1 h=5 w=2 k=16 r=3 s=3 pad=1x2 type=f32 layout=nhwc",
    "forward n=2 c=4 h=18 w=24 k=5 r=3 s=5 pad=2 stride=2 boundary=edge type=bf16 layout=nhwc scale=1 bias=1 act=relu",
    "backward-data n=1 c=3 h=16 w=24 k=70 r=8 s=8 stride=8 type=bf16 layout=nhwc",
    "backward-data n=2 c=3 h=19 w=30 k=40 r=7 s=7 pad=3 stride=2 type=f16 layout=nhwc",
    "backward-filter n=3 c=30 h=12 w=11 k=20 r=3 s=3 pad=1 type=f32 bias=1",
    "backward-filter n=2 c=30 h=8 w=7 k=50 r=3 s=3 pad=1 type=f32 layout=nhwc bias=1",
    "backward-filter n=2 c=3 h=20 w=20 k=70 r=5 s=5 stride=2 pad=2 boundary=wrap type=f32 layout=nhwc",
    "backward-filter n=2 c=90 h=9 w=9 k=90 r=3 s=3 pad=1 groups=90 type=f32 layout=nhwc",
    "backward-filter n=2 c=9 h=9 w=900 k=9 r=3 s=3 pad=1 groups=9 type=f32 value=1",
    "backward-filter n=1 c=1 w=2500 k=1 s=40 type=f64",
    "backward-filter n=1 c=20 d=5 h=6 w=7 k=12 t=3 r=2 s=3 pad=1 type=f16 layout=ndhwc",
    "backward-filter n=3 c=3 h=37 w=35 k=70 r=7 s=7 stride=2 pad=3 type=f32 layout=nhwc bias=1",
    "backward-filter n=2 c=140 h=13 w=11 k=133 r=3 s=2 pad=-1:4x2:-2 stride=3x2 dilation=2x3 type=f32 layout=nhwc",
    "backward-filter n=9 c=21 h=13 w=14 k=20 r=1 s=1 type=f32 bias=1",
    "backward-filter n=2 c=24 d=6 h=7 w=8 k=40 t=2 r=3 s=1 pad=1x1x0 stride=2x3x4 type=f32 groups=4 boundary=edge",
    "backward-filter n=2 c=24 w=700 k=40 s=9 pad=12 dilation=3 type=f32 layout=nwc value=2 bias=1 weight-layout=oiw",
    "backward-filter n=2 c=40 h=9 w=10 k=35 r=3 s=3 pad=1 type=bf16 layout=nhwc bias=1",
    "backward-filter n=2 c=33 h=19 w=17 k=20 r=5 s=3 pad=2 stride=2x3 dilation=3x2 type=bf16 layout=nhwc boundary=wrap",
    "backward-filter n=1 c=3 h=40 w=41 k=33 r=7 s=7 pad=3 stride=2 type=bf16 weight-type=f32 layout=nhwc",
    "backward-filter n=1 c=8 w=17000 k=16 s=1 type=bf16 layout=nwc weight-layout=oiw bias=1",
    "backward-filter n=2 c=36 d=3 h=6 w=7 k=20 t=2 r=3 s=3 pad=1 groups=2 type=bf16 layout=ndhwc",
    "backward-filter n=2 c=24 w=700 k=70 s=9 pad=12 dilation=3 type=bf16 layout=ncw bias=1",
    "backward-filter n=2 c=33 h=19 w=17 k=20 r=5 s=3 pad=2 stride=2x3 dilation=3x2 type=bf16 boundary=wrap groups=1",
    "backward-filter n=1 c=1 w=9000 k=100 s=10 stride=5 type=bf16 weight-type=f32",
    "backward-filter n=2 c=6 h=6 w=27 k=70 r=3 s=5 pad=3 dilation=2 type=bf16 layout=nhwc groups=2",
    "backward-filter n=2 c=48 h=15 w=13 k=33 r=1 s=1 stride=2 type=bf16 layout=nhwc",
    "backward-filter n=2 c=48 h=15 w=13 k=32 r=1 s=1 stride=2 type=bf16",
    "backward-filter n=5 c=64 h=40 w=40 k=70 r=1 s=1 groups=2 type=bf16 weight-type=f32",
    "backward-filter n=2 c=3 h=64 w=64 k=40 r=16 s=16 stride=16 type=bf16 layout=nhwc bias=1",
    "backward-filter n=2 c=1 h=40 w=30 k=8 r=5 s=15 pad=7 boundary=wrap type=bf16 layout=nhwc bias=1",
    "backward-filter n=2 c=3 d=4 h=9 w=31 k=8 t=2 r=3 s=3 pad=1 stride=1x3x2 type=bf16 layout=ndhwc",
    "maxpool n=2 c=200 h=9 w=8 r=3 s=3 stride=2 pad=1 type=f32 layout=nhwc",
    "maxpool n=2 c=3 h=40 w=50 r=3 s=3 stride=2 pad=1 type=s16",
    "maxpool n=3 c=7 h=20 w=12 r=2 s=2 type=f32",
    "avgpool n=3 c=7 h=21 w=13 r=3 s=3 stride=2 pad=1 type=f32",
    "avgpool n=2 c=9 h=12 w=14 r=3 s=2 type=f64",
    "maxpool n=2 c=5 d=5 h=30 w=300 t=2 r=3 s=3 stride=1x1x2 dilation=1x1x3 pad=0x1x2 type=f32",
    "avgpool n=2 c=3 h=900 w=6 r=5 s=3 stride=3x1 pad=1 count-pad=1 type=f32 out-type=f16",
    "avgpool n=2 c=200 h=9 w=8 r=3 s=3 stride=2 pad=1 type=f32 layout=nhwc count-pad=1",
    "avgpool n=2 c=3 h=40 w=50 r=3 s=3 stride=2 pad=1 type=u8",
    "backward-maxpool n=2 c=140 h=9 w=8 r=3 s=3 stride=2 pad=1 type=f32 layout=nhwc",
    "backward-maxpool n=2 c=2 h=9 w=1400 r=2 s=3 pad=1 type=f64",
    "backward-avgpool n=2 c=140 h=9 w=8 r=3 s=3 stride=2 pad=1 type=f32 layout=nhwc",
    "backward-avgpool n=2 c=2 h=9 w=1400 r=2 s=3 pad=1 count-pad=1 type=f64",
};

/* On every level, or on one each in turn where few problems are asked for: the reference takes most of the time. */
/* Where few problems are asked for, as under sanitizers, every other line; which half, the seed decides. */
static size_t edge_step(void) {
  return count < FEW ? 2 : 1;
}

static size_t first_edge(void) {
  return (size_t)first_seed % edge_step();
}

static void test_edges(void **state) {
  (void)state;
  tally t = {0};
  const size_t devices_each = count < FEW ? 1 : (size_t)level_count;
  for (size_t i = first_edge(); i < sizeof edges / sizeof *edges; i += edge_step())
    for (size_t level = i; level < i + devices_each; level++)
      verify(&t, devices[level % (size_t)level_count][i % MOST_THREADS], edges[i], first_seed + i);
  conclude(&t);
}

/* ---- the same bits for any number of threads */

static bool execute(falt_device *device, const falt_solver *solver, const falt_problem *problem, falt_bench *bench) {
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_budget_default(&budget);
  budget.max_error = 1;
  budget.deterministic = true;
  snprintf(budget.method, sizeof budget.method, "%s", solver->name);
  falt_bench_poison(bench, FALT_POISON);
  if (falt_plan_create(&plan, device, problem, &budget, NULL) != FALT_OK) return false;
  falt_operands operands = falt_bench_operands(bench);
  operands.workspace = falt_alloc(falt_plan_workspace(plan));
  assert_non_null(operands.workspace);
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  falt_free(operands.workspace);
  falt_plan_destroy(&plan);
  return true;
}

static void compare_bits(const falt_solver *solver, const char *line, const falt_bench *one, const falt_bench *other,
                         const char *what) {
  if (!falt_bench_same(one, other, NULL)) fail_msg("%s: other bits %s\n  %s", solver->name, what, line);
}

/* One thread, three, and three once more. */
static void check_threads(const char *line, uint64_t seed) {
  falt_problem problem;
  falt_budget budget;
  falt_bench one, three;
  if (falt_problem_parse(&problem, &budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  problem.filter_when = FALT_FILTER_AUTO;
  assert_int_equal(falt_bench_open(&one, &problem, 0), FALT_OK);
  assert_int_equal(falt_bench_open(&three, &problem, 0), FALT_OK);
  falt_bench_fill(&one, &problem, FALT_FILL_PLAIN, seed);
  falt_bench_fill(&three, &problem, FALT_FILL_PLAIN, seed);
  falt_device *const *best = devices[level_count - 1];
  for (int s = 0; falt_solvers[s]; s++) {
    if (falt_solvers[s]->nondeterministic || strcmp(falt_solvers[s]->device_kind, "cpu") != 0) continue;
    if (strcmp(falt_solvers[s]->name, "reference") == 0) continue; /* has no threads */
    if (!execute(best[0], falt_solvers[s], &problem, &one)) continue;
    assert_true(execute(best[2], falt_solvers[s], &problem, &three));
    compare_bits(falt_solvers[s], line, &one, &three, "with three threads");
    assert_true(execute(best[2], falt_solvers[s], &problem, &one));
    compare_bits(falt_solvers[s], line, &one, &three, "in a second run");
  }
  falt_bench_close(&one);
  falt_bench_close(&three);
}

static void test_threads(void **state) {
  (void)state;
  for (int i = 0; i < count / 5; i++) {
    char line[2048];
    falt_problem_random(first_seed + (uint64_t)i, line, sizeof line);
    check_threads(line, first_seed + (uint64_t)i);
  }
  for (size_t i = first_edge(); i < sizeof edges / sizeof *edges; i += edge_step())
    check_threads(edges[i], first_seed + i);
}

/* ---- bytes: the same bits by every solver on every instruction set, requantised or not */

static const char *const byte_layers[] = {
    "forward n=2 c=40 h=11 w=13 k=36 r=3 s=3 pad=1 type=u8 layout=nhwc",
    "forward n=2 c=40 h=11 w=13 k=36 r=3 s=3 pad=1 stride=2 type=s8 layout=nhwc value=-7",
    "forward n=2 c=67 h=9 w=14 k=33 r=1 s=1 type=u8 out-type=u8 layout=nhwc scale=1 bias=1 value=100 beta=3",
    "forward n=1 c=24 h=12 w=12 k=50 r=3 s=3 pad=1 type=s8 weight-type=s8 out-type=s8 scale=1 bias=1 act=relu",
    "forward n=2 c=32 h=10 w=11 k=32 r=3 s=3 pad=1 groups=32 type=u8 out-type=u8 layout=nhwc scale=1 bias=1",
    "forward n=2 c=16 h=10 w=11 k=24 r=3 s=3 pad=1 groups=2 type=u8 out-type=s8 scale=1 bias=1 residual=1",
    "forward n=1 c=8 w=200 k=20 s=5 pad=4:0 type=u8 out-type=f32 layout=nwc scale=1",
    "forward n=1 c=6 d=5 h=6 w=7 k=9 t=2 r=3 s=3 pad=1 type=s8 layout=ndhwc",
};

static void check_bytes(const char *line, uint64_t seed) {
  falt_problem problem;
  falt_bench first, other;
  int runs = 0;
  if (falt_problem_parse(&problem, NULL, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  assert_int_equal(falt_bench_open(&first, &problem, 0), FALT_OK);
  assert_int_equal(falt_bench_open(&other, &problem, 0), FALT_OK);
  falt_bench_fill(&first, &problem, FALT_FILL_PLAIN, seed);
  falt_bench_fill(&other, &problem, FALT_FILL_PLAIN, seed);
  for (int s = 0; falt_solvers[s]; s++) {
    if (strcmp(falt_solvers[s]->device_kind, "cpu") != 0) continue;
    for (int level = 0; level < level_count; level++)
      if (execute(devices[level][1], falt_solvers[s], &problem, runs ? &other : &first) && runs++)
        compare_bits(falt_solvers[s], line, &first, &other, falt_isa_name(levels[level]));
  }
  assert_true(runs > level_count);
  falt_bench_close(&first);
  falt_bench_close(&other);
}

static void test_bytes(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof byte_layers / sizeof *byte_layers; i++) check_bytes(byte_layers[i], first_seed + i);
}

/* ---- what falt_verify refuses, and that it notices */

static void ignore(void *context, const falt_verdict *verdict) {
  (void)context;
  (void)verdict;
}

static void test_arguments(void **state) {
  (void)state;
  falt_problem problem;
  falt_problem_default(&problem);
  assert_int_equal(falt_verify(NULL, &problem, NULL, 1, ignore, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_verify(devices[0][0], NULL, NULL, 1, ignore, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_verify(devices[0][0], &problem, NULL, 1, NULL, NULL), FALT_INVALID_ARGUMENT);
  problem.input.size[FALT_W] = 0;
  assert_int_equal(falt_verify(devices[0][0], &problem, NULL, 1, ignore, NULL), FALT_INVALID_SIZE);
}

static void set_element(void *context, int64_t index) {
  const falt_guarded *o = context;
  falt_store(falt_guarded_data(o), o->tensor.type, index, 1);
}

/* Writes a byte of y, relative to its first element. */
static void touch(falt_bench *bench, int64_t at) {
  ((unsigned char *)falt_guarded_data(&bench->operand[FALT_OUTPUT]))[at] = 0;
  assert_false(falt_bench_intact(bench));
  falt_bench_poison(bench, FALT_POISON);
  assert_true(falt_bench_intact(bench));
}

/* The guards see one byte too much on either side, in a gap, and in what is only read. */
static void test_guards(void **state) {
  (void)state;
  falt_problem problem;
  falt_bench bench;
  assert_int_equal(falt_problem_parse(&problem, NULL, "correlate h=3 w=4 r=1 s=1 type=u8 output-strides=0,0,0,0,6,1"),
                   FALT_OK);
  assert_int_equal(falt_bench_open(&bench, &problem, 0), FALT_OK);
  falt_bench_fill(&bench, &problem, FALT_FILL_PLAIN, 1);
  falt_guarded *y = &bench.operand[FALT_OUTPUT], *x = &bench.operand[FALT_INPUT];
  const int64_t span = falt_tensor_span(&y->tensor), gaps[] = {4, 5}, guards[] = {-1, -4096, span, span + 4095};
  falt_tensor_visit(&y->tensor, set_element, y);
  assert_true(falt_bench_intact(&bench));
  for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) touch(&bench, gaps[i]);
  for (size_t i = 0; FALT_GUARD && i < sizeof guards / sizeof *guards; i++) touch(&bench, guards[i]);
  ((unsigned char *)falt_guarded_data(x))[3] ^= 1;
  assert_false(falt_bench_intact(&bench));
  falt_bench_close(&bench);
}

static void read_settings(int argc, char **argv) {
  const char *seed = argc > 1 ? argv[1] : getenv("FALTUNG_TEST_SEED");
  const char *number = argc > 2 ? argv[2] : getenv("FALTUNG_TEST_COUNT");
  if (seed) first_seed = strtoull(seed, NULL, 0);
  if (number) count = atoi(number);
}

int main(int argc, char **argv) {
  read_settings(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),  cmocka_unit_test(test_layers),    cmocka_unit_test(test_edges),
      cmocka_unit_test(test_threads), cmocka_unit_test(test_arguments), cmocka_unit_test(test_guards),
      cmocka_unit_test(test_bytes),
  };
  return cmocka_run_group_tests(tests, open_devices, close_devices);
}
