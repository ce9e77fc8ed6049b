/* Tests of measuring and remembering: tuning, wisdom and its text, the timer, the roofline, operands for trials. */
#include "fake_solver.h"

#include <math.h>
#include <stdio.h>

#include "core/random.h"
#include "planner/cost.h"
#include "planner/timer.h"
#include "planner/trial.h"

/* ------------------------------------------------------------------------------------------ tuning, wisdom */

static void test_tuning(void **state) {
  bench *b = *state;
  add(b, make("promises", 1e-6))->spin = 2e-3;
  add(b, make("keeps", 1e-4))->spin = 1e-4;
  add(b, make("later", 1e3));
  expect(b, "promises");
  b->budget.tune_seconds = 0.3; /* much: a busy machine may stop us for a while */
  double start = falt_seconds();
  expect(b, "keeps");
  assert_true(falt_seconds() - start < 10);
  assert_int_equal(b->solver[2].executed, 0); /* no time left for what takes so long */
  int executed = b->solver[0].executed;
  expect(b, "keeps"); /* known: not measured again */
  b->budget.tune_seconds = 0;
  expect(b, "keeps");
  assert_int_equal(b->solver[0].executed, executed);
  b->problem.boundary_value = 0.5;
  b->problem.alpha = 3;
  expect(b, "promises"); /* another problem */
  b->problem.alpha = 1;
  b->problem.boundary_value = 0;
  b->budget.max_workspace = 12345;
  expect(b, "promises"); /* another budget */
  b->budget.max_workspace = -1;
  falt_wisdom_clear(b->device.wisdom);
  expect(b, "promises");
}

/* What was learnt counts only among the same competitors. */
static void test_competitors(void **state) {
  bench *b = *state;
  add(b, make("promises", 1e-6))->spin = 2e-3;
  add(b, make("keeps", 1e-4))->spin = 1e-5;
  b->budget.tune_seconds = 0.3;
  expect(b, "keeps");
  b->budget.tune_seconds = 0;
  b->solver[1].refusal = "not for these values";
  expect(b, "promises");
  b->solver[1].refusal = NULL;
  add(b, make("special", 1e-8));
  expect(b, "special");
  b->list[2] = NULL;
  expect(b, "keeps");
}

static void test_tuning_stands_back(void **state) {
  bench *b = *state;
  add(b, make("alone", 1));
  b->budget.tune_seconds = 0.01;
  expect(b, "alone");
  assert_int_equal(b->solver[0].executed, 0);
  add(b, make("other", 2));
  strcpy(b->budget.method, "other");
  expect(b, "other");
  assert_int_equal(b->solver[1].executed, 0);
  assert_true(falt_wisdom_is_empty(b->device.wisdom));
  b->budget.method[0] = '\0';
  falt_wisdom_destroy(b->device.wisdom); /* a device without a memory tunes and forgets */
  b->device.wisdom = NULL;
  falt_status status;
  chosen(b, &status);
  assert_int_equal(status, FALT_OK);
  assert_true(b->solver[0].executed > 0);
}

static const char *fastest(bench *b, const void *filter_values) {
  falt_plan *plan = NULL;
  if (falt_plan_search(&plan, b->list, &b->device, &b->problem, &b->budget, filter_values) != FALT_OK)
    fail_msg("%s", falt_message());
  const char *name = plan->solver->name;
  falt_plan_destroy(&plan);
  return name;
}

/* What is measured for a filter that is known says nothing about one that is given, whatever the word. */
static void test_known_and_given_apart(void **state) {
  bench *b = *state;
  static const float taps[9] = {1};
  add(b, make("promises", 1e-6));
  add(b, make("keeps", 1e-4));
  b->solver[0].spin = 2e-3;
  b->budget.tune_seconds = 0.3;
  assert_string_equal(fastest(b, taps), "keeps");
  b->budget.tune_seconds = 0;
  assert_string_equal(fastest(b, taps), "keeps");
  assert_string_equal(fastest(b, NULL), "promises"); /* not measured yet */
  b->problem.filter_when = FALT_FILTER_KNOWN;
  assert_string_equal(fastest(b, taps), "keeps"); /* the same problem, said in a word */
}

static bool knows(bench *b, const char *line) {
  char solver[FALT_WISDOM_NAME];
  return falt_wisdom_find(b->device.wisdom, line, 7, solver) && strcmp(solver, "direct") == 0;
}

static const char line_a[] = "correlate h=16 w=16 r=3 s=3";
static const char line_b[] = "convolve w=100 s=5";

static void canonical(const char *line, char *out) {
  falt_problem problem;
  falt_budget budget;
  assert_int_equal(falt_problem_parse(&problem, &budget, line), FALT_OK);
  problem.filter_when = falt_problem_filter_when(&problem);
  assert_true(falt_problem_print(&problem, &budget, out, FALT_WISDOM_LINE) < FALT_WISDOM_LINE);
}

static void test_wisdom_text(void **state) {
  bench *b = *state;
  char a[FALT_WISDOM_LINE], other[FALT_WISDOM_LINE];
  size_t length, again_length;
  int sections;
  canonical(line_a, a);
  canonical(line_b, other);
  add(b, make("direct", 1));
  assert_true(falt_wisdom_learn(b->device.wisdom, a, 7, "direct", 1.5e-5));
  assert_true(falt_wisdom_learn(b->device.wisdom, other, 7, "direct", 2e-5));
  assert_true(falt_wisdom_learn(b->device.wisdom, a, 7, "direct", 1e-5)); /* replaces */
  assert_false(falt_wisdom_learn(b->device.wisdom, a, 7, "a name of more than thirty-one letters", 1e-5));
  char *text = falt_wisdom_export(&b->device, b->list, NULL, &length);
  assert_int_equal(strlen(text), length);
  assert_non_null(strstr(text, "direct 1e-05 0000000000000007 correlate"));
  assert_null(strstr(text, "1.5e-05"));
  falt_wisdom_clear(b->device.wisdom);
  assert_false(knows(b, a));
  assert_int_equal(falt_wisdom_import(&b->device, b->list, text, length, &sections), FALT_OK);
  assert_int_equal(sections, 1);
  assert_true(knows(b, a) && knows(b, other));

  strcpy(b->device.name, "another"); /* its section comes first, the other one is kept */
  falt_wisdom_clear(b->device.wisdom);
  assert_int_equal(falt_wisdom_import(&b->device, b->list, text, length, &sections), FALT_OK);
  assert_int_equal(sections, 0);
  assert_true(falt_wisdom_is_empty(b->device.wisdom));
  falt_wisdom_learn(b->device.wisdom, a, 9, "direct", 3);
  char *both = falt_wisdom_export(&b->device, b->list, text, &length);
  char *again = falt_wisdom_export(&b->device, b->list, both, &again_length);
  assert_string_equal(both, again);
  strcpy(b->device.name, "fake");
  falt_wisdom_clear(b->device.wisdom);
  assert_int_equal(falt_wisdom_import(&b->device, b->list, both, length, &sections), FALT_OK);
  assert_int_equal(sections, 1);
  assert_true(knows(b, a) && knows(b, other));

  add(b, make("newcomer", 1)); /* another set of solvers: nothing measured then is believed now */
  falt_wisdom_clear(b->device.wisdom);
  assert_int_equal(falt_wisdom_import(&b->device, b->list, both, length, &sections), FALT_OK);
  assert_int_equal(sections, 0);
  falt_free(text);
  falt_free(both);
  falt_free(again);
}

/* Imports header + body and returns the status; what was known stays known if it fails. */
static falt_status import(bench *b, const char *header, const char *body) {
  char text[8192];
  int sections;
  snprintf(text, sizeof text, "%s%s", header, body);
  return falt_wisdom_import(&b->device, b->list, text, strlen(text), &sections);
}

static void test_wisdom_corrupt(void **state) {
  bench *b = *state;
  char a[FALT_WISDOM_LINE];
  size_t length;
  int sections;
  canonical(line_a, a);
  add(b, make("direct", 1));
  char *header = falt_wisdom_export(&b->device, b->list, NULL, &length);
  falt_wisdom_learn(b->device.wisdom, a, 7, "direct", 1);
  static const char *const bad[] = {
      "nonsense\n",
      "\n",
      "direct\n",
      "direct 1\n",
      "direct 1 0000000000000008\n",
      "direct 1 0000000000000008 \n",
      "direct x 0000000000000008 convolve w=100 s=5\n",
      "direct 0 0000000000000008 convolve w=100 s=5\n",
      "direct -1 0000000000000008 convolve w=100 s=5\n",
      "direct nan 0000000000000008 convolve w=100 s=5\n",
      "direct inf 0000000000000008 convolve w=100 s=5\n",
      "direct 1 8 convolve w=100 s=5\n",
      "direct 1 000000000000000G convolve w=100 s=5\n",
      "direct 1 0000000000000008 convulse w=100 s=5\n",
      "direct 1 0000000000000008 convolve w=100 s=5",
      "indirect 1 0000000000000008 convolve w=100 s=5\n",
      " direct 1 0000000000000008 convolve w=100 s=5\n",
      "direct 1 0000000000000008 convolve w=100 s=5\ndirect\n",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (import(b, header, bad[i]) != FALT_INVALID_TEXT) fail_msg("accepted: %s", bad[i]);
    assert_non_null(strstr(falt_message(), "wisdom: line "));
    assert_true(knows(b, a));
    assert_false(falt_wisdom_find(b->device.wisdom, "convolve w=100 s=5", 8, (char[FALT_WISDOM_NAME]){""}));
  }
  assert_int_equal(import(b, "", ""), FALT_INVALID_TEXT);
  assert_int_equal(import(b, "", "hello\n"), FALT_INVALID_TEXT);
  assert_int_equal(import(b, "", "direct 1 0000000000000008 convolve w=100 s=5\n"), FALT_INVALID_TEXT);
  assert_int_equal(falt_wisdom_import(&b->device, b->list, "faltung-wisdom 1\0\n", 18, &sections), FALT_INVALID_TEXT);
  assert_int_equal(import(b, header, "direct 1 0000000000000008 convolve w=100 s=5\n"), FALT_OK);
  assert_int_equal(import(b, "faltung-wisdom 2 of the future\n", "whatever it says\n"), FALT_OK);
  falt_free(header);
}

/* Cut or changed anywhere, a text is taken whole or refused whole, and nothing crashes. */
static void test_wisdom_damaged(void **state) {
  bench *b = *state;
  char a[FALT_WISDOM_LINE], other[FALT_WISDOM_LINE];
  size_t length;
  int sections;
  uint64_t seed = 5;
  canonical(line_a, a);
  canonical(line_b, other);
  add(b, make("direct", 1));
  falt_wisdom_learn(b->device.wisdom, a, 7, "direct", 1e-5);
  falt_wisdom_learn(b->device.wisdom, other, 7, "direct", 1e-5);
  char *text = falt_wisdom_export(&b->device, b->list, NULL, &length);
  for (size_t cut = 0; cut < length; cut++) {
    falt_wisdom_clear(b->device.wisdom);
    falt_status status = falt_wisdom_import(&b->device, b->list, text, cut, &sections);
    bool whole_lines = cut > 0 && text[cut - 1] == '\n';
    assert_int_equal(status, whole_lines ? FALT_OK : FALT_INVALID_TEXT);
    if (status != FALT_OK) assert_true(falt_wisdom_is_empty(b->device.wisdom));
  }
  for (int i = 0; i < 3000; i++) {
    char *changed = malloc(length);
    memcpy(changed, text, length);
    changed[falt_random_int(&seed, 0, (int64_t)length - 1)] = (char)falt_random_int(&seed, 0, 255);
    falt_wisdom_clear(b->device.wisdom);
    falt_status status = falt_wisdom_import(&b->device, b->list, changed, length, &sections);
    if (status != FALT_OK) assert_true(falt_wisdom_is_empty(b->device.wisdom));
    free(changed);
  }
  falt_free(text);
}

/* ------------------------------------------------------------------------------------- timer, cost, trials */

typedef struct spinner {
  double seconds;
  int calls;
} spinner;

static void spin(void *context) {
  spinner *s = context;
  double end = falt_seconds() + s->seconds;
  s->calls++;
  while (falt_seconds() < end) continue;
}

/* A device's clock, on which every call takes a millisecond; one that fails. */
static double measure_millisecond(void *context, long iterations) {
  ((spinner *)context)->calls += (int)iterations;
  return 1e-3 * (double)iterations;
}
static double measure_nothing(UNUSED void *context, UNUSED long iterations) {
  return -1;
}

static void test_timer_of_device(UNUSED void **state) {
  spinner s = {.seconds = 0};
  falt_timing timing = falt_time(&(falt_timed){spin, NULL, &s, measure_millisecond}, 0.02);
  assert_true(timing.median == 1e-3 && timing.min == 1e-3 && s.calls > 3);
  timing = falt_time(&(falt_timed){spin, NULL, &s, measure_nothing}, 0.001);
  assert_true(timing.median > 0 && timing.median < 1e-4); /* the host's clock counts */
}

static void test_timer(UNUSED void **state) {
  spinner s = {.seconds = 1e-4};
  const falt_timed timed = {spin, NULL, &s, NULL};
  falt_timing timing = falt_time(&timed, 0.02);
  assert_true(timing.min >= 1e-4 && timing.min < 1.5e-4 && timing.median >= timing.min);
  s = (spinner){.seconds = 0.01};
  timing = falt_time(&timed, 0.005); /* longer than the time given: once */
  assert_true(s.calls == 1 && timing.min >= 0.01 && timing.median == timing.min);
  s = (spinner){.seconds = 0};
  double start = falt_seconds();
  timing = falt_time(&timed, 0.01);
  assert_true(falt_seconds() - start < 0.5);
  assert_true(timing.min > 0 && timing.min < 1e-5); /* far below the clock's resolution of a sample, yet not 0 */
}

static void test_roofline(void **state) {
  bench *b = *state;
  const falt_device *d = &b->device;
  double start = falt_roofline(d, FALT_F32, 0, 1, 0);
  assert_true(start > 0.5e-6 && start < 5e-6);
  assert_true(fabs(falt_roofline(d, FALT_F32, 1e12, 1, 0) - 1) < 1e-4);
  assert_true(fabs(falt_roofline(d, FALT_F64, 1e12, 0.5, 0) - 4) < 1e-4);
  assert_true(fabs(falt_roofline(d, FALT_F32, 1e12, 1, 2e10) - 2) < 1e-4);        /* memory is slower */
  assert_true(fabs(falt_roofline(d, FALT_F32, 0, 1, 1e6) - start - 1e-5) < 1e-9); /* in the cache */
  double last = 0;
  for (double bytes = 1; bytes < 1e12; bytes *= 1.3) {
    double seconds = falt_roofline(d, FALT_F32, 8 * bytes, 0.7, bytes);
    assert_true(seconds >= last);
    last = seconds;
  }
}

static void test_roofline_threads(void **state) {
  bench *b = *state;
  b->device.threads = falt_threads_create(4, NULL, NULL);
  assert_non_null(b->device.threads);
  double tiny = falt_roofline(&b->device, FALT_F32, 1e6, 1, 0); /* 1 us with four, 4 us alone, 6 us with waking */
  double large = falt_roofline(&b->device, FALT_F32, 1e9, 1, 0);
  assert_true(tiny > 4e-6 && tiny < 6e-6);
  assert_true(large > 1e-3 && large < 1.01e-3);
  falt_threads_destroy(b->device.threads);
}

static void test_limit(void **state) {
  bench *b = *state;
  falt_limit limit = falt_problem_limit(&b->device, &b->problem);
  assert_true(limit.seconds == fmax(limit.compute_seconds, limit.memory_seconds));
  assert_string_equal(falt_limit_bound(&limit), "memory");
  assert_int_equal(falt_problem_parse(&b->problem, NULL, "correlate h=64 w=64 r=63 s=63"), FALT_OK);
  limit = falt_problem_limit(&b->device, &b->problem);
  assert_string_equal(falt_limit_bound(&limit), "compute");
}

/* Operands reach every element that the problem names: the sanitizer watches. */
static void test_trial(UNUSED void **state) {
  falt_device host = {.kind = "cpu"};
  static const char *const lines[] = {
      "correlate h=9 w=7 pixel=3 r=3 s=3 type=u8",
      "forward n=2 c=4 h=5 w=6 k=6 r=3 s=3 pad=1 groups=2 bias=1 residual=1 layout=nhwc type=f16",
      "forward c=2 w=6 k=2 s=3 pad=1 bias=1 type=f64",
      "backward-maxpool n=1 c=2 h=8 w=8 r=2 s=2 stride=2",
      "backward-filter n=1 c=2 h=8 w=8 k=3 r=2 s=2 bias=1",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    falt_problem p;
    falt_trial trial;
    if (falt_problem_parse(&p, NULL, lines[i]) != FALT_OK) fail_msg("%s: %s", lines[i], falt_message());
    assert_int_equal(falt_trial_open(&trial, &host, &p, 100), FALT_OK);
    const falt_operands *o = &trial.operands;
    int64_t last = falt_tensor_span(&p.input) - 1;
    double value = falt_load(o->input, p.input.type, last);
    assert_true(value == value);
    assert_true(o->output && o->workspace && (uintptr_t)o->workspace % FALT_ALIGN == 0);
    assert_int_equal(o->bias != NULL, p.has_bias);
    assert_int_equal(o->residual != NULL, p.has_residual || p.operation == FALT_BACKWARD_MAXPOOL);
    assert_int_equal(o->filter != NULL, !falt_is_pooling(p.operation));
    falt_trial_close(&trial);
  }
  falt_problem huge;
  falt_trial trial;
  assert_int_equal(falt_problem_parse(&huge, NULL, "correlate h=1000000000 w=1000000 r=3 s=3"), FALT_OK);
  assert_int_equal(falt_trial_open(&trial, &host, &huge, 0), FALT_NO_MEMORY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      PLANNER_TEST(test_tuning),
      PLANNER_TEST(test_known_and_given_apart),
      PLANNER_TEST(test_competitors),
      PLANNER_TEST(test_tuning_stands_back),
      PLANNER_TEST(test_wisdom_text),
      PLANNER_TEST(test_wisdom_corrupt),
      PLANNER_TEST(test_wisdom_damaged),
      PLANNER_TEST(test_timer),
      PLANNER_TEST(test_timer_of_device),
      PLANNER_TEST(test_roofline),
      PLANNER_TEST(test_roofline_threads),
      PLANNER_TEST(test_limit),
      PLANNER_TEST(test_trial),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
