/* Problems that a solver once got wrong: every plan of each, at every instruction set of this processor, by one thread
 * and by three. A line stands for a class of mistakes, which the comment beside it names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/cpu.h"
#include "faltung/faltung.h"

static const char *const lines[] = {
    /* grouped, fold-results: stored integers of 16 bits as f32 */
    "forward c=6 d=1 h=6 w=4 k=6 t=2 r=2 s=1 pad=1x3x2 type=bf16 out-type=s16 layout=ndhwc",
    "forward n=3 c=6 w=3 k=4 s=2 pad=9:7 out=9 type=bf16 out-type=u16 layout=nwc bias=1",
    "forward n=1 c=8 h=5 w=9 k=6 r=3 s=3 pad=1 groups=2 type=u8 weight-type=s8 out-type=u16 layout=nhwc",
    "forward n=1 c=8 h=5 w=9 k=6 r=3 s=3 pad=1 groups=2 type=u8 weight-type=s8 out-type=s16 layout=nhwc alpha=0.5",
    /* channels: cut all positions once for each span when slots did not fit */
    "backward-data n=2 c=1 d=3 h=14 w=12 k=6 t=5 r=4 s=2 pad=4:3x9:9x1:3 layout=ndhwc",
    /* lines, widened: took slots of one pixel for pixels of adjacent channels */
    "backward-filter c=5 h=47 w=1 k=2 r=2 s=1",
    "backward-filter c=3 h=36 w=44 k=6 r=4 s=1 dilation=2 out=1",
    "backward-filter c=10 d=4 h=5 w=1 k=12 t=2 r=4 s=1 groups=2 pad=3x0x0",
    "backward-filter n=2 c=12 d=6 h=8 w=1 k=12 t=5 r=4 s=1 groups=3 stride=3x2x1 value=2",
    "backward-filter n=2 c=3 d=9 h=12 w=1 k=1 t=2 r=5 s=1 pad=19:11x1:3x0:0 type=bf16 bias=1",
    /* outer, outer-rows: had kernels read rows in place at a step that is not positive */
    "backward-filter c=20 w=40 k=3 s=3 input-strides=800,0,40,0,0,-1 input-offset=39",
    "backward-filter c=20 w=40 k=3 s=3 input-strides=800,0,2,0,0,0",
    "backward-filter n=2 c=32 h=6 w=40 k=8 r=3 s=3 layout=nhwc weight-layout=ohwi output-strides=0,0,1,0,0,0",
    /* separable: terms cancel where the filter is zero, and their roundings are left */
    "correlate h=1 w=1 r=3 s=7 mode=full weight-type=u16 rank=3",
    "correlate h=1 w=1 r=5 s=9 mode=full rank=3",
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
    t.line = lines[i];
    if (falt_problem_parse(&problem, NULL, t.line) != FALT_OK) fail_msg("%s: %s", t.line, falt_message());
    for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
      t.isa = (falt_isa)isa;
      for (int n = 0; n < THREADS && devices[isa][n]; n++)
        if (falt_verify(devices[isa][n], &problem, NULL, 1 + i, note, &t) != FALT_OK)
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_known_filter)};
  return cmocka_run_group_tests(tests, open_devices, close_devices);
}
