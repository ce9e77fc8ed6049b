/* Tests of falt_device_progress: told seldom, in the caller's thread, never falling, and 1 in the end; false cancels.
 */
#include "long_calls.h"

#include <pthread.h>

typedef struct log {
  int calls, phases;
  double last; /* of the phase that goes on */
  char phase[16], refuse_at[16];
  pthread_t thread;
  char trouble[128]; /* the first; empty: none */
} log_of_calls;

/* A failed assertion would leave by longjmp, and a callback must return. */
static void expect(log_of_calls *l, bool holds, const char *what, double done) {
  if (holds || l->trouble[0]) return;
  snprintf(l->trouble, sizeof l->trouble, "%s: %s: %g after %g", l->phase, what, done, l->last);
}

static bool note(void *context, const char *phase, double done) {
  log_of_calls *l = context;
  expect(l, pthread_equal(l->thread, pthread_self()), "another thread than the caller's", done);
  if (strcmp(l->phase, phase) != 0) {
    expect(l, !l->phases++ || l->last == 1, "the phase did not end with 1", done);
    snprintf(l->phase, sizeof l->phase, "%s", phase);
    l->last = 0;
  }
  expect(l, done >= l->last && done <= 1, "progress falls, or exceeds 1", done);
  l->last = done;
  l->calls++;
  return strcmp(phase, l->refuse_at) != 0;
}

/* Reports of one phase in so many seconds are at least a tenth of a second apart; the last may follow at once. */
static void expect_seldom(const log_of_calls *l, double seconds) {
  if (l->trouble[0]) fail_msg("%s", l->trouble);
  if (l->calls > seconds / 0.09 + 2) fail_msg("told %d times in %g s", l->calls, seconds);
}

static void listen_to(falt_device *device, log_of_calls *l, const char *refuse_at) {
  *l = (log_of_calls){.thread = pthread_self()};
  snprintf(l->refuse_at, sizeof l->refuse_at, "%s", refuse_at);
  falt_device_progress(device, note, l);
}

static const struct {
  const char *method, *line;
  int most; /* of the number in the line, which is 4 at first */
} told[] = {
    {"generic", "correlate h=%d w=2000 r=31 s=31 type=f64 boundary=wrap", 16384},
    {"direct", "correlate h=%d w=3000 r=63 s=63", 16384},
    {"reference", "correlate h=%d w=500 r=9 s=9", 16384},
    {"upconvert-f32", "forward n=%d c=128 h=64 w=64 k=128 r=3 s=3 pad=1 layout=nhwc type=f16", 256},
};

/* The seconds of an execution, whose reports are right. */
static double listen_once(const char *line, const char *method) {
  log_of_calls l;
  falt_device *device = device_with("portable", 2);
  falt_plan *plan = plan_by(device, line, method);
  assert_non_null(plan);
  set s = operands_of(plan);
  listen_to(device, &l, "");
  const double began = falt_seconds();
  assert_int_equal(falt_execute(plan, &s.operands), FALT_OK);
  const double seconds = falt_seconds() - began;
  expect_seldom(&l, seconds);
  if (seconds > 1 && l.calls < 4) fail_msg("%s: told %d times in %g s", line, l.calls, seconds);
  if (seconds < 0.4) assert_int_equal(l.calls, 0);
  if (l.calls) assert_string_equal(l.phase, "execute");
  if (l.calls) assert_true(l.last == 1);
  release(&s);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
  return seconds;
}

/* Executions of more than a second tell of it several times, and end with 1; short ones say nothing. */
static void test_progress(UNUSED void **state) {
  for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
    double seconds = 0;
    for (int number = 4; number <= told[i].most && seconds <= 1; number *= 2) {
      char line[128];
      snprintf(line, sizeof line, told[i].line, number);
      seconds = listen_once(line, told[i].method);
    }
    if (seconds <= 1) fail_msg("%s: %g s, too short to tell of", told[i].line, seconds);
  }
}

static void test_progress_refused(UNUSED void **state) {
  static const struct {
    const char *phase, *line;
    double tune_seconds;
    falt_status (*run)(question *q);
  } cases[] = {{"tune", "correlate h=1000 w=1000 r=9 s=9", 60, plan_once},
               {"measure", "correlate h=1000 w=1000 r=9 s=9", 0, explain},
               {"verify", "correlate h=1000 w=1000 r=15 s=15", 0, verify},
               {"measure", "correlate h=8 w=8 r=3 s=3", 0, time_plan}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    log_of_calls l;
    question q = {.device = device_with("", 2), .problem = parse(cases[i].line)};
    falt_budget_default(&q.budget);
    q.budget.tune_seconds = cases[i].tune_seconds;
    listen_to(q.device, &l, cases[i].phase);
    const falt_status status = cases[i].run(&q);
    if (l.trouble[0]) fail_msg("%s", l.trouble);
    if (status != FALT_CANCELLED) fail_msg("%s: %s", cases[i].phase, falt_status_name(status));
    expect_message("progress");
    assert_string_equal(l.phase, cases[i].phase);
    assert_false(falt_device_interrupted(q.device)); /* other calls go on */
    falt_device_progress(q.device, NULL, NULL);
    q.budget.tune_seconds = 0;
    assert_int_equal(plan_once(&q), FALT_OK);
    falt_device_destroy(&q.device);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_progress, set_up),
      cmocka_unit_test_setup(test_progress_refused, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
