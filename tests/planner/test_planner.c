/* Tests of the planner: search, budgets, children, what happens when memory runs out at any point, threads. */
#include "fake_solver.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "planner/explain.h"

/* -------------------------------------------------------------------------------------------------- search */

static void test_fastest_wins(void **state) {
  bench *b = *state;
  add(b, make("slow", 3));
  add(b, make("first", 1));
  add(b, make("second", 1));
  fake_solver *other = add(b, make("elsewhere", 0.1));
  other->base.device_kind = "cuda";
  add(b, make("unsure", NAN));
  expect(b, "first");
  assert_int_equal(other->asked, 0);
}

/* The factor counts with AVX2 alone. */
static void test_avx2(void **state) {
  bench *b = *state;
  add(b, make("wide", 2))->base.avx2 = 2;
  add(b, make("even", 3));
  expect(b, "wide");
  b->device.isa = FALT_ISA_AVX2;
  expect(b, "even");
  b->device.isa = FALT_ISA_AVX512;
  expect(b, "wide");
}

static void test_refusals(void **state) {
  bench *b = *state;
  EXPECT_FAILURE(b, FALT_NO_SOLVER, "no solver", "fake");
  add(b, make("picky", 1))->refusal = "the moon is not full";
  EXPECT_FAILURE(b, FALT_NO_SOLVER, "picky", "the moon is not full");
  add(b, make("plain", 9));
  expect(b, "plain");
}

static void test_last_resort(void **state) {
  bench *b = *state;
  add(b, make("spec", 1))->base.last_resort = true;
  expect(b, "spec");
  add(b, make("real", 100));
  expect(b, "real");
  b->solver[1].workspace = 10;
  b->budget.max_workspace = 0;
  expect(b, "spec");
  strcpy(b->budget.method, "spec");
  b->budget.max_workspace = -1;
  expect(b, "spec");
}

static void test_no_transforms(void **state) {
  bench *b = *state;
  add(b, make("spectra", 1))->base.mixes = true;
  add(b, make("sums", 2));
  expect(b, "spectra");
  b->budget.no_transforms = true;
  expect(b, "sums");
  strcpy(b->budget.method, "spectra");
  EXPECT_FAILURE(b, FALT_OVER_BUDGET, "'spectra' needs transforms", "'sums' fits");
}

/* Only the chosen plan is made ready; one that cannot be gives its place to the next. */
static void test_ready(void **state) {
  bench *b = *state;
  fake_solver *fast = add(b, make("fast", 1)), *middle = add(b, make("middle", 2)), *slow = add(b, make("slow", 3));
  expect(b, "fast");
  assert_true(fast->readied == 1 && middle->readied == 0 && slow->readied == 0);
  fast->unready = FALT_NO_DEVICE;
  expect(b, "middle");
  assert_true(fast->readied == 2 && middle->readied == 1 && slow->readied == 0);
  middle->unready = FALT_NO_MEMORY;
  expect(b, "slow");
  slow->unready = FALT_NO_DEVICE;
  EXPECT_FAILURE(b, FALT_NO_DEVICE, "is not ready");
  strcpy(b->budget.method, "middle");
  EXPECT_FAILURE(b, FALT_NO_MEMORY, "memory");
  strcpy(b->budget.method, "fast");
  EXPECT_FAILURE(b, FALT_NO_DEVICE, "fake: fast is not ready");
}

/* Neither a plan that the budget excludes nor the last resort is made ready while another runs. */
static void test_ready_only_if_chosen(void **state) {
  bench *b = *state;
  fake_solver *large = add(b, make("large", 1)), *spec = add(b, make("spec", 1)), *real = add(b, make("real", 2));
  large->workspace = 100;
  spec->base.last_resort = true;
  b->budget.max_workspace = 0;
  expect(b, "real");
  assert_true(large->readied == 0 && spec->readied == 0 && real->readied == 1);
  real->unready = FALT_NO_DEVICE;
  expect(b, "spec");
}

/* Tuning measures, and so makes ready, every candidate once; what fails there is out. */
static void test_ready_tuned(void **state) {
  bench *b = *state;
  fake_solver *broken = add(b, make("broken", 1)), *good = add(b, make("good", 2)), *other = add(b, make("other", 3));
  broken->unready = FALT_NO_DEVICE;
  other->spin = 1e-3;
  b->budget.tune_seconds = 0.02;
  expect(b, "good");
  assert_true(broken->executed == 0 && good->executed > 0 && good->readied == 1);
}

static void test_only_by_name(void **state) {
  bench *b = *state;
  add(b, make("rung", 1))->base.only_by_name = true;
  EXPECT_FAILURE(b, FALT_NO_SOLVER, "runs only when it is named");
  add(b, make("real", 2));
  expect(b, "real");
  strcpy(b->budget.method, "rung");
  expect(b, "rung");
}

static void test_workspace(void **state) {
  bench *b = *state;
  add(b, make("large", 1))->workspace = 4096;
  add(b, make("small", 2))->workspace = 100;
  add(b, make("none", 3));
  expect(b, "large");
  b->budget.max_workspace = 4096;
  expect(b, "large");
  b->budget.max_workspace = 4095;
  expect(b, "small");
  b->budget.max_workspace = 0;
  expect(b, "none");
  b->solver[2].refusal = "gone";
  EXPECT_FAILURE(b, FALT_OVER_BUDGET, "'small'", "100 bytes of workspace", "limit is 0");
}

static void test_own_refusal_by_budget(void **state) {
  bench *b = *state;
  add(b, make("hungry", 1))->least_workspace = 1000;
  expect(b, "hungry");
  b->budget.max_workspace = 10;
  EXPECT_FAILURE(b, FALT_OVER_BUDGET, "'hungry'", "budget");
}

static void test_deterministic_and_error(void **state) {
  bench *b = *state;
  add(b, make("racy", 1))->base.nondeterministic = true;
  add(b, make("rough", 2))->error = 1e-3;
  add(b, make("broken", 0.5))->error = NAN;
  add(b, make("exact", 3));
  expect(b, "racy");
  b->budget.deterministic = true;
  expect(b, "exact");
  b->budget.max_error = 1e-3;
  expect(b, "rough");
  b->budget.max_error = 0.9e-3;
  expect(b, "exact");
  b->solver[3].refusal = "gone";
  b->solver[0].workspace = 8;
  EXPECT_FAILURE(b, FALT_OVER_BUDGET, "'rough'", "error of 0.001", "limit is 0.0009");
}

/* What is known of this machine and of no other, its speed, wisdom and measurements, chooses nothing then. */
static void test_steady_choice(void **state) {
  bench *b = *state;
  add(b, make("here", 1))->steady = 2;
  add(b, make("anywhere", 3))->steady = 1;
  b->solver[0].spin = 1e-6;
  b->solver[1].spin = 1e-4;
  assert_true(falt_device_steady_make(&b->device, &b->device.limits));
  expect(b, "here");
  b->budget.deterministic = true;
  expect(b, "anywhere");
  b->budget.tune_seconds = 0.01;
  expect(b, "anywhere");
  assert_int_equal(b->solver[0].executed + b->solver[1].executed, 0);
  b->budget.deterministic = false;
  expect(b, "here");
  b->budget.tune_seconds = 0;
  b->budget.deterministic = true;
  expect(b, "anywhere");
  b->solver[1].unready = FALT_NO_MEMORY;
  expect(b, "here");
  falt_device_steady_free(&b->device);
}

static void test_halves(void **state) {
  bench *b = *state;
  b->device.limits = (falt_limits){.f32_flops = 4e9, .f16_flops = 2e9};
  assert_true(falt_halves_speed(&b->device, 2) == 2); /* guessed */
  b->device.limits.measured = true;
  assert_true(falt_halves_speed(&b->device, 2) == 0.5);
  b->device.limits.f16_flops = 64e9;
  assert_true(falt_halves_speed(&b->device, 2) == 2);
  b->device.limits.f16_flops = 0;
  assert_true(falt_halves_speed(&b->device, 2) == 2);
}

static void test_method(void **state) {
  bench *b = *state;
  add(b, make("direct", 1));
  add(b, make("separable", 2));
  add(b, make("tensor", 1))->base.device_kind = "cuda";
  strcpy(b->budget.method, "separable");
  expect(b, "separable");
  assert_int_equal(b->solver[0].asked, 0);
  strcpy(b->budget.method, "seperable");
  EXPECT_FAILURE(b, FALT_INVALID_METHOD, "'seperable'", "did you mean 'separable'");
  strcpy(b->budget.method, "zzzzzzzzzzzzzzzzzzzz");
  EXPECT_FAILURE(b, FALT_INVALID_METHOD, "zzzz");
  strcpy(b->budget.method, "tensor");
  EXPECT_FAILURE(b, FALT_NO_SOLVER, "cuda", "fake");
  strcpy(b->budget.method, "separable");
  b->solver[1].refusal = "the filter has rank 3";
  EXPECT_FAILURE(b, FALT_NO_SOLVER, "'separable' does not apply", "the filter has rank 3");
  b->solver[1].refusal = NULL;
  b->solver[1].workspace = 77;
  b->budget.max_workspace = 7;
  EXPECT_FAILURE(b, FALT_OVER_BUDGET, "'separable' needs 77 bytes", "limit is 7", "'direct' fits");
  b->solver[0].refusal = "gone";
  EXPECT_FAILURE(b, FALT_OVER_BUDGET, "'separable' needs 77 bytes", "allow it");
  assert_null(strstr(falt_message(), "fits"));
}

static void test_arguments(void **state) {
  bench *b = *state;
  falt_plan *plan;
  add(b, make("a", 1));
  assert_int_equal(falt_plan_search(NULL, b->list, &b->device, &b->problem, NULL, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_plan_search(&plan, b->list, NULL, &b->problem, NULL, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_plan_search(&plan, b->list, &b->device, NULL, NULL, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_plan_search(&plan, b->list, &b->device, &b->problem, NULL, NULL), FALT_OK);
  falt_plan_destroy(&plan);
  falt_plan_destroy(&plan);
  falt_plan_destroy(NULL);
  b->budget.tune_seconds = NAN;
  EXPECT_FAILURE(b, FALT_INVALID_ARGUMENT, "tune_seconds");
  b->budget.tune_seconds = INFINITY;
  EXPECT_FAILURE(b, FALT_INVALID_ARGUMENT, "tune_seconds");
  b->budget.tune_seconds = 0;
  b->budget.max_error = -1;
  EXPECT_FAILURE(b, FALT_INVALID_ARGUMENT, "max_error");
  b->budget.max_error = 0;
  memset(b->budget.method, 'x', sizeof b->budget.method);
  EXPECT_FAILURE(b, FALT_INVALID_ARGUMENT, "method");
  falt_budget_default(&b->budget);
  b->problem.input.size[FALT_W] = 0;
  EXPECT_FAILURE(b, FALT_INVALID_SIZE, "size");
}

/* ------------------------------------------------------------------------------------------------ children */

static void test_children(void **state) {
  bench *b = *state;
  falt_plan *plan;
  char text[64];
  add(b, make("parent", 1))->wants_child = true;
  fake_solver *inner = add(b, make("inner", 2));
  b->budget.max_workspace = 500;
  b->budget.tune_seconds = 1e-3;
  strcpy(b->budget.method, "parent");
  assert_int_equal(falt_plan_search(&plan, b->list, &b->device, &b->problem, &b->budget, NULL), FALT_OK);
  falt_plan_print(plan, text, sizeof text);
  assert_string_equal(text, "(parent (inner))");
  assert_int_equal(live_plans, 2);
  falt_plan_destroy(&plan);
  assert_string_equal(inner->budget.method, "");
  assert_true(inner->budget.tune_seconds == 0);
  assert_int_equal(inner->budget.max_workspace, 500);
  inner->refusal = "too small";
  EXPECT_FAILURE(b, FALT_NO_SOLVER, "inner problem", "too small");
}

/* A solver that hands its own problem on without end is stopped. */
static void test_depth(void **state) {
  bench *b = *state;
  fake_solver *loop = add(b, make("loop", 1));
  loop->wants_child = loop->wants_itself = true;
  EXPECT_FAILURE(b, FALT_NO_SOLVER, "loop");
  assert_in_range(loop->asked, 2, 20);
  add(b, make("plain", 5));
  expect(b, "loop"); /* the innermost is plain */
}

/* ------------------------------------------------------------------------------------------ out of memory */

typedef falt_status attempt(bench *b);

static falt_status plan_once(bench *b) {
  falt_plan *plan;
  falt_status status = falt_plan_search(&plan, b->list, &b->device, &b->problem, &b->budget, NULL);
  falt_plan_destroy(&plan);
  return status;
}

static void ignore(void *context, const falt_candidate *candidate) {
  (void)context;
  (void)candidate;
}

static falt_status explain_once(bench *b) {
  return falt_explain_search(b->list, &b->device, &b->problem, &b->budget, NULL, 1e-4, ignore, NULL);
}

static falt_status exchange_once(bench *b) {
  size_t length;
  int sections;
  char *text = falt_wisdom_export(&b->device, b->list, NULL, &length);
  if (!text) return FALT_NO_MEMORY;
  falt_status status = falt_wisdom_import(&b->device, b->list, text, length, &sections);
  falt_free(text);
  return status;
}

/* Every allocation fails once: the answer is "no memory" or a plan that did without, and nothing leaks (tear_down
 * counts plans, the sanitizer the rest). */
static void starve(bench *b, attempt *once, bool may_do_without) {
  falt_status status = FALT_INTERNAL;
  int64_t n = 0;
  int spared = 0; /* attempts that succeeded although the probe failed: one, unless they can do without */
  for (bool failed = true; failed; n++) {
    falt_alloc_fail_after(n);
    status = once(b);
    void *probe = falt_alloc(1); /* fails if one of the attempt's did */
    falt_alloc_fail_after(-1);
    failed = probe == NULL;
    falt_free(probe);
    assert_int_equal(live_plans, 0);
    spared += status == FALT_OK && failed;
    if (status != FALT_OK) assert_string_equal(falt_status_name(status), "FALT_NO_MEMORY");
    assert_true(n < 1000);
  }
  assert_int_equal(status, FALT_OK);
  if (!may_do_without) assert_int_equal(spared, 1);
}

static void test_starving(void **state) {
  bench *b = *state;
  add(b, make("parent", 1))->wants_child = true;
  add(b, make("inner", 2))->workspace = 10;
  add(b, make("spec", 3))->base.last_resort = true;
  starve(b, plan_once, true);
  b->budget.tune_seconds = 1e-4;
  starve(b, plan_once, true);
  starve(b, explain_once, true);
  strcpy(b->budget.method, "parent");
  b->list[2] = NULL; /* now every allocation is needed */
  starve(b, plan_once, false);
  strcpy(b->budget.method, "inter");
  assert_int_equal(plan_once(b), FALT_INVALID_METHOD);
  falt_alloc_fail_after(0);
  assert_int_equal(plan_once(b), FALT_INVALID_METHOD);
  falt_alloc_fail_after(-1);
  falt_wisdom_learn(b->device.wisdom, "correlate w=9 s=3", 7, "parent", 1);
  starve(b, exchange_once, false);
}

static void test_solver_out_of_memory(void **state) {
  bench *b = *state;
  add(b, make("large", 1))->out_of_memory = true;
  EXPECT_FAILURE(b, FALT_NO_MEMORY, "memory");
  add(b, make("small", 2));
  expect(b, "small");
}

/* ------------------------------------------------------------------------------------------------- threads */

static void *plan_often(void *context) {
  bench *b = context;
  for (int i = 0; i < 200; i++) {
    falt_plan *plan;
    falt_budget budget;
    falt_budget_default(&budget);
    if (i % 50 == 0) budget.tune_seconds = 1e-4;
    if (i % 70 == 0) falt_wisdom_clear(b->device.wisdom);
    if (falt_plan_search(&plan, b->list, &b->device, &b->problem, &budget, NULL) != FALT_OK) return b;
    falt_plan_destroy(&plan);
  }
  return NULL;
}

static falt_plan *steady_ask(const falt_solver *solver, falt_ask *ask);

static void steady_execute(const falt_plan *plan, const falt_operands *operands) {
  (void)plan, (void)operands;
}

static void steady_destroy(falt_plan *plan) {
  falt_free(plan);
}

static falt_plan *steady_ask(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = steady_execute, .print = fake_print, .destroy = steady_destroy};
  fake_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  return plan ? &plan->base : NULL;
}

static void test_threads(void **state) {
  bench *b = *state;
  static const falt_solver one = {.name = "one", .device_kind = "fake", .plan = steady_ask};
  static const falt_solver two = {.name = "two", .device_kind = "fake", .plan = steady_ask};
  b->list[0] = &one;
  b->list[1] = &two;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, plan_often, b), 0);
  for (int i = 0; i < 4; i++) {
    void *result;
    pthread_join(threads[i], &result);
    assert_null(result);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      PLANNER_TEST(test_fastest_wins),
      PLANNER_TEST(test_avx2),
      PLANNER_TEST(test_refusals),
      PLANNER_TEST(test_last_resort),
      PLANNER_TEST(test_no_transforms),
      PLANNER_TEST(test_ready),
      PLANNER_TEST(test_ready_only_if_chosen),
      PLANNER_TEST(test_ready_tuned),
      PLANNER_TEST(test_only_by_name),
      PLANNER_TEST(test_workspace),
      PLANNER_TEST(test_own_refusal_by_budget),
      PLANNER_TEST(test_deterministic_and_error),
      PLANNER_TEST(test_steady_choice),
      PLANNER_TEST(test_halves),
      PLANNER_TEST(test_method),
      PLANNER_TEST(test_arguments),
      PLANNER_TEST(test_children),
      PLANNER_TEST(test_depth),
      PLANNER_TEST(test_starving),
      PLANNER_TEST(test_solver_out_of_memory),
      PLANNER_TEST(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
