/* Fixture of the planner's tests: fake solvers, a fake device, and questions. */
#ifndef FALT_TESTS_FAKE_SOLVER_H
#define FALT_TESTS_FAKE_SOLVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"
#include "planner/search.h"
#include "planner/wisdom.h"

#define UNUSED __attribute__((unused))

/* ------------------------------------------------------------------------------------------- made-up solvers */

typedef struct fake_solver {
  falt_solver base;
  double seconds, error;
  double steady;                     /* seconds on the device's steady twin; 0: the same */
  size_t workspace, least_workspace; /* least: the limit below which it refuses */
  double spin;                       /* seconds that an execution takes */
  falt_alignment alignment;          /* of its plans */
  const char *refusal;
  bool out_of_memory, wants_child, wants_itself;
  falt_status unready; /* what making its plans ready returns, but for FALT_OK */
  int asked, executed; /* of one thread */
  int readied;
  falt_budget budget; /* as last asked with */
} fake_solver;

typedef struct fake_plan {
  falt_plan base;
  falt_plan *child;
  void *table;
} fake_plan;

UNUSED static int live_plans; /* made and not destroyed */

UNUSED static void fake_execute(const falt_plan *plan, const falt_operands *operands) {
  fake_solver *solver = (fake_solver *)plan->solver;
  double end = falt_seconds() + solver->spin;
  solver->executed++;
  if (plan->workspace) memset(operands->workspace, 1, plan->workspace);
  if (((const fake_plan *)plan)->child) falt_plan_run(((const fake_plan *)plan)->child, operands);
  while (falt_seconds() < end) continue;
}

UNUSED static falt_status fake_ready(falt_plan *plan) {
  fake_solver *solver = (fake_solver *)plan->solver;
  __atomic_add_fetch(&solver->readied, 1, __ATOMIC_RELAXED);
  return solver->unready ? falt_fail(solver->unready, "fake: %s is not ready", solver->base.name) : FALT_OK;
}

UNUSED static void fake_print(const falt_plan *plan, falt_text *text) {
  const fake_plan *own = (const fake_plan *)plan;
  falt_text_add(text, "(%s", plan->solver->name);
  if (own->child) {
    falt_text_add(text, " ");
    own->child->table->print(own->child, text);
  }
  falt_text_add(text, ")");
}

UNUSED static void fake_destroy(falt_plan *plan) {
  fake_plan *own = (fake_plan *)plan;
  falt_plan_destroy(&own->child);
  falt_free(own->table);
  falt_free(own);
  __atomic_sub_fetch(&live_plans, 1, __ATOMIC_RELAXED);
}

UNUSED static bool add_child(fake_plan *plan, const fake_solver *solver, falt_ask *ask) {
  falt_problem smaller = *ask->problem;
  if (!solver->wants_itself) smaller.alpha = 2; /* children of another kind, see fake_ask */
  plan->child = falt_plan_child(ask, &smaller, NULL);
  return plan->child != NULL;
}

UNUSED static falt_plan *fake_ask(const falt_solver *base, falt_ask *ask) {
  static const falt_plan_table table = {
      .execute = fake_execute, .print = fake_print, .destroy = fake_destroy, .ready = fake_ready};
  fake_solver *solver = (fake_solver *)base;
  __atomic_add_fetch(&solver->asked, 1, __ATOMIC_RELAXED);
  if (ask->depth > 0) solver->budget = *ask->budget;
  if (solver->refusal) return falt_refuse(ask, "%s", solver->refusal);
  if (solver->out_of_memory) return falt_refuse_memory(ask);
  if (solver->wants_child && ask->problem->alpha == 2) return falt_refuse(ask, "alpha is 2");
  if (ask->budget->max_workspace >= 0 && ask->budget->max_workspace < (int64_t)solver->least_workspace)
    return falt_refuse(ask, "cannot do with so little workspace");
  fake_plan *plan = falt_plan_new(sizeof *plan, &table, base, ask);
  if (!plan) return NULL;
  __atomic_add_fetch(&live_plans, 1, __ATOMIC_RELAXED);
  plan->table = falt_alloc(64);
  const bool on_twin = !ask->device->wisdom && solver->steady > 0;
  plan->base.cost = (falt_cost){on_twin ? solver->steady : solver->seconds, solver->error};
  plan->base.workspace = solver->workspace;
  plan->base.alignment = solver->alignment;
  falt_plan *made = &plan->base;
  if (plan->table && (!solver->wants_child || add_child(plan, solver, ask))) return made;
  if (!plan->table) falt_refuse_memory(ask);
  falt_plan_destroy(&made);
  return NULL;
}

UNUSED static fake_solver make(const char *name, double seconds) {
  return (fake_solver){.base = {.name = name, .device_kind = "fake", .plan = fake_ask}, .seconds = seconds};
}

/* ------------------------------------------------------------------------------------------------- fixture */

enum { MOST = 8 };

typedef struct bench {
  fake_solver solver[MOST];
  const falt_solver *list[MOST + 1];
  falt_device device;
  falt_problem problem;
  falt_budget budget;
} bench;

UNUSED static fake_solver *add(bench *b, fake_solver solver) {
  int i = 0;
  while (b->list[i]) i++;
  b->solver[i] = solver;
  b->list[i] = &b->solver[i].base;
  return &b->solver[i];
}

UNUSED static int set_up(void **state) {
  bench *b = calloc(1, sizeof *b);
  if (!b) return 1;
  b->device = (falt_device){
      .kind = "fake",
      .name = "fake",
      .model = "none",
      .limits = {.copy_bytes_per_s = 1e10, .cache_bytes_per_s = 1e11, .f32_flops = 1e12, .f64_flops = 5e11},
      .caches = {.l1d = 1 << 15, .l2 = 1 << 20, .l3 = 1 << 22}};
  b->device.wisdom = falt_wisdom_create();
  falt_budget_default(&b->budget);
  live_plans = 0;
  *state = b;
  return !b->device.wisdom || falt_problem_parse(&b->problem, NULL, "correlate h=16 w=16 r=3 s=3 type=f32") != FALT_OK;
}

UNUSED static int tear_down(void **state) {
  bench *b = *state;
  falt_alloc_fail_after(-1);
  falt_wisdom_destroy(b->device.wisdom);
  free(b);
  assert_int_equal(live_plans, 0);
  return 0;
}

/* Plans and returns the chosen solver's name; "" with *status otherwise. */
UNUSED static const char *chosen(bench *b, falt_status *status) {
  falt_plan *plan = (falt_plan *)1;
  *status = falt_plan_search(&plan, b->list, &b->device, &b->problem, &b->budget, NULL);
  if (*status != FALT_OK) {
    assert_null(plan);
    return "";
  }
  const char *name = plan->solver->name;
  assert_ptr_equal(plan->device, &b->device);
  falt_plan_destroy(&plan);
  assert_null(plan);
  return name;
}

UNUSED static void expect(bench *b, const char *name) {
  falt_status status;
  assert_string_equal(chosen(b, &status), name);
  assert_int_equal(status, FALT_OK);
}

/* The status, and that the message has these words in it. */
UNUSED static void expect_failure(bench *b, falt_status expected, const char *const words[3]) {
  falt_status status;
  chosen(b, &status);
  assert_string_equal(falt_status_name(status), falt_status_name(expected));
  for (int i = 0; i < 3 && words[i]; i++)
    if (!strstr(falt_message(), words[i])) fail_msg("no '%s' in '%s'", words[i], falt_message());
}

#define EXPECT_FAILURE(bench, status, ...) expect_failure(bench, status, (const char *const[3]){__VA_ARGS__})

#define PLANNER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
