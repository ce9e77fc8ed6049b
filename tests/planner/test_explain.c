/* What falt_explain reports of each candidate, and which of them it executes. */
#include "fake_solver.h"

#include <math.h>
#include <stdio.h>

#include "planner/explain.h"

typedef struct heard {
  int count, chosen;
  char names[MOST][32], rejected[MOST][160], plan[MOST][64];
  falt_candidate candidate[MOST];
} heard;

static void hear(void *context, const falt_candidate *candidate) {
  heard *h = context;
  snprintf(h->names[h->count], sizeof h->names[0], "%s", candidate->solver);
  snprintf(h->rejected[h->count], sizeof h->rejected[0], "%s", candidate->rejected ? candidate->rejected : "");
  snprintf(h->plan[h->count], sizeof h->plan[0], "%s", candidate->plan);
  if (candidate->chosen) h->chosen = h->count;
  h->candidate[h->count++] = *candidate;
}

static heard explain(bench *b, double seconds, falt_status expected) {
  heard h = {.chosen = -1};
  falt_status status = falt_explain_search(b->list, &b->device, &b->problem, &b->budget, NULL, seconds, hear, &h);
  assert_string_equal(falt_status_name(status), falt_status_name(expected));
  return h;
}

static void test_explain(void **state) {
  bench *b = *state;
  add(b, make("spec", 1e-6))->base.last_resort = true;
  add(b, make("slow", 4e-3));
  add(b, make("picky", 1))->refusal = "not today";
  add(b, make("fast", 2e-3))->workspace = 32;
  add(b, make("greedy", 1e-3))->workspace = 1 << 20;
  add(b, make("rung", 1e-3))->base.only_by_name = true;
  b->budget.max_workspace = 64;
  heard h = explain(b, 0, FALT_OK);
  static const char *const order[] = {"fast", "slow", "spec", "greedy", "rung", "picky"};
  assert_int_equal(h.count, 6);
  for (int i = 0; i < 6; i++) assert_string_equal(h.names[i], order[i]);
  assert_int_equal(h.chosen, 0);
  assert_string_equal(h.plan[0], "(fast)");
  assert_string_equal(h.rejected[0], "");
  assert_string_equal(h.plan[3], "");
  assert_non_null(strstr(h.rejected[3], "1048576 bytes"));
  assert_non_null(strstr(h.rejected[4], "named"));
  assert_string_equal(h.rejected[5], "not today");
  const falt_candidate *c = &h.candidate[0];
  assert_true(c->predicted_seconds == 2e-3 && c->seconds_median == 0 && c->workspace_bytes == 32);
  assert_true(c->flops == falt_problem_flops(&b->problem) && c->bytes == falt_problem_bytes(&b->problem));
  assert_true(fabs(c->gflops - c->flops / 2e-3 * 1e-9) < 1e-12);
  assert_true(c->limit_share > 0 && c->limit_share < 1);
  assert_string_equal(c->bound, "memory");
}

static void test_explain_measured(void **state) {
  bench *b = *state;
  add(b, make("promises", 1e-6))->spin = 2e-3;
  add(b, make("keeps", 1e-3))->spin = 1e-4;
  add(b, make("spec", 1))->base.last_resort = true;
  b->solver[0].workspace = 1000;
  heard h = explain(b, 0.02, FALT_OK);
  assert_string_equal(h.names[0], "keeps");
  assert_int_equal(h.chosen, 1); /* what falt_plan_create takes without tuning */
  assert_true(h.candidate[0].seconds_min >= 1e-4 && h.candidate[0].seconds_median >= h.candidate[0].seconds_min);
  assert_true(h.candidate[1].seconds_min >= 2e-3);
  assert_true(h.candidate[2].seconds_min == 0); /* predicted to take longer than the time given: not run */
  assert_int_equal(b->solver[2].executed, 0);
}

/* Two limits of one execution, as predicted: the time given, and the lower of ten times the first's and 10 s. */
static void test_explain_lasting(void **state) {
  bench *b = *state;
  static const double predicted[] = {4e-3, 3e-2, 5e-2};
  for (int i = 0; i < 3; i++) add(b, make("some", predicted[i]));
  explain(b, 0.01, FALT_OK);
  for (int i = 0; i < 3; i++) assert_true((b->solver[i].executed > 0) == (i < 2));
}

static void test_explain_long(void **state) {
  bench *b = *state;
  add(b, make("long", 11));
  heard h = explain(b, 0.01, FALT_OK);
  assert_true(h.count == 1 && h.chosen == 0 && h.candidate[0].seconds_median == 0 && b->solver[0].executed == 0);
  explain(b, 12, FALT_OK);
  assert_true(b->solver[0].executed > 0);
}

/* Operands beyond the memory: predictions all the same. */
static void test_explain_large(void **state) {
  bench *b = *state;
  add(b, make("some", 1e-3))->workspace = (size_t)1 << 60;
  heard h = explain(b, 0.01, FALT_OK);
  assert_true(h.count == 1 && h.chosen == 0 && h.candidate[0].predicted_seconds == 1e-3 && b->solver[0].executed == 0);
}

static void test_explain_nothing(void **state) {
  bench *b = *state;
  add(b, make("large", 1))->workspace = 5;
  b->budget.max_workspace = 0;
  heard h = explain(b, 0, FALT_OVER_BUDGET);
  assert_int_equal(h.count, 1);
  assert_int_equal(h.chosen, -1);
  strcpy(b->budget.method, "lard");
  h = explain(b, 0, FALT_INVALID_METHOD);
  assert_int_equal(h.count, 0);
  falt_budget_default(&b->budget);
  explain(b, NAN, FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_explain_search(b->list, &b->device, &b->problem, NULL, NULL, 0, NULL, NULL),
                   FALT_INVALID_ARGUMENT);
}

/* A method that does not apply is refused for its own reason, not for that of the others. */
static void test_explain_named(void **state) {
  bench *b = *state;
  add(b, make("able", 1));
  add(b, make("picky", 1))->refusal = "not today";
  strcpy(b->budget.method, "picky");
  explain(b, 0, FALT_NO_SOLVER);
  assert_non_null(strstr(falt_message(), "'picky' does not apply: not today"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      PLANNER_TEST(test_explain),       PLANNER_TEST(test_explain_measured), PLANNER_TEST(test_explain_lasting),
      PLANNER_TEST(test_explain_long),  PLANNER_TEST(test_explain_large),    PLANNER_TEST(test_explain_nothing),
      PLANNER_TEST(test_explain_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
