/* Tests of fallback plans: made, readied, executed for operands that are not aligned, and destroyed by the planner. */
#include "fake_solver.h"

/* The bench's solver "fast", whose plans need `alignment`, and "any", which makes their fallbacks and is asked for
 * nothing else. */
typedef struct pair {
  fake_solver *fast;
  fake_solver any;
  const falt_solver *fallbacks[2];
} pair;

static void make_pair(pair *p, bench *b, falt_alignment alignment) {
  p->any = make("any", 9);
  p->fallbacks[0] = &p->any.base;
  p->fallbacks[1] = NULL;
  p->fast = add(b, make("fast", 1));
  p->fast->alignment = alignment;
  p->fast->base.fallbacks = p->fallbacks;
}

static falt_plan *plan_of(bench *b) {
  falt_plan *plan;
  assert_int_equal(falt_plan_search(&plan, b->list, &b->device, &b->problem, &b->budget, NULL), FALT_OK);
  return plan;
}

/* Addresses that nothing is read from. */
static falt_operands aligned_operands(void) {
  void *const at = (void *)4096;
  return (falt_operands){.input = at, .filter = at, .output = at, .residual = at};
}

/* Whether an execution took the fallback, and that it took one plan. */
static bool fell_back(const pair *p, const falt_plan *plan, const falt_operands *operands) {
  const int fast = p->fast->executed, any = p->any.executed;
  falt_plan_run(plan, operands);
  assert_int_equal(p->fast->executed + p->any.executed, fast + any + 1);
  return p->any.executed > any;
}

/* ---- execution */

static void test_unaligned(void **state) {
  pair p;
  make_pair(&p, *state, (falt_alignment){.input = 16, .filter = 2, .output = 8, .residual = 4});
  falt_plan *plan = plan_of(*state);
  for (int operand = 0; operand < 4; operand++)
    for (int shift = 0; shift < 32; shift++) {
      static const int bytes[4] = {16, 2, 8, 4};
      falt_operands o = aligned_operands();
      void **const data[4] = {&o.input, &o.filter, &o.output, &o.residual};
      *data[operand] = (char *)*data[operand] + shift;
      assert_int_equal(fell_back(&p, plan, &o), shift % bytes[operand] != 0);
    }
  falt_plan_destroy(&plan);
}

/* What counts is the address of the first element, which need not be the operand's. */
static void test_offsets(void **state) {
  bench *b = *state;
  pair p;
  make_pair(&p, b, (falt_alignment){.input = 16});
  b->problem.input.offset = 3; /* of 4 bytes */
  falt_plan *plan = plan_of(b);
  falt_operands o = aligned_operands();
  assert_true(fell_back(&p, plan, &o));
  o.input = (char *)o.input + 4;
  assert_false(fell_back(&p, plan, &o));
  falt_plan_destroy(&plan);
}

/* Operands that no alignment is asked of may begin anywhere, or be absent. */
static void test_any_address(void **state) {
  pair p;
  make_pair(&p, *state, (falt_alignment){.output = 16});
  falt_plan *plan = plan_of(*state);
  falt_operands o = {.input = (void *)4097, .output = (void *)4096};
  assert_false(fell_back(&p, plan, &o));
  falt_plan_destroy(&plan);
}

static void test_without_fallback(void **state) {
  pair p;
  make_pair(&p, *state, (falt_alignment){.input = 16});
  p.fast->base.fallbacks = NULL;
  falt_plan *plan = plan_of(*state);
  falt_operands o = aligned_operands();
  o.input = (char *)o.input + 1;
  assert_null(plan->fallback);
  assert_false(fell_back(&p, plan, &o));
  assert_int_equal(p.any.asked, 0);
  falt_plan_destroy(&plan);
}

static void test_callers(void **state) {
  bench *b = *state;
  pair p;
  static float input[16 * 16 + 1], filter[3 * 3], output[16 * 16];
  make_pair(&p, b, (falt_alignment){.input = 8});
  falt_plan *plan = plan_of(b);
  float *const even = input + ((uintptr_t)input % 8 != 0);
  falt_operands o = {.input = even, .filter = filter, .output = output};
  assert_int_equal(falt_execute(plan, &o), FALT_OK);
  assert_int_equal(p.fast->executed, 1);
  o.input = even == input ? input + 1 : input;
  assert_int_equal(falt_execute(plan, &o), FALT_OK);
  assert_int_equal(p.fast->executed, 1);
  assert_int_equal(p.any.executed, 1);
  falt_plan_destroy(&plan);
}

/* A child's operands are its parent's to choose: the child is asked, not the parent. */
static void test_children(void **state) {
  bench *b = *state;
  pair p;
  fake_solver *parent = add(b, make("parent", 1));
  parent->wants_child = true;
  make_pair(&p, b, (falt_alignment){.input = 16});
  strcpy(b->budget.method, "parent");
  falt_plan *plan = plan_of(b);
  falt_plan *child = ((fake_plan *)plan)->child;
  falt_operands o = aligned_operands();
  assert_null(plan->fallback);
  assert_non_null(child->fallback);
  assert_false(fell_back(&p, plan, &o));
  o.input = (char *)o.input + 1;
  assert_true(fell_back(&p, plan, &o));
  assert_int_equal(parent->executed, 2);
  const int before = p.any.executed;
  falt_plan_run_shared(child, &o);
  assert_int_equal(p.any.executed, before + 1);
  falt_plan_destroy(&plan);
}

/* ---- planning */

static void test_ready(void **state) {
  bench *b = *state;
  pair p;
  make_pair(&p, b, (falt_alignment){.input = 16});
  add(b, make("slow", 2));
  falt_plan *plan = plan_of(b);
  assert_true(plan->ready && plan->fallback->ready);
  assert_int_equal(falt_plan_ready(plan), FALT_OK);
  assert_int_equal(p.fast->readied, 1);
  assert_int_equal(p.any.readied, 1);
  assert_int_equal(live_plans, 2);
  falt_plan_destroy(&plan);
  assert_int_equal(live_plans, 0);
  p.any.unready = FALT_NO_DEVICE;
  expect(b, "slow");
  p.fast->base.only_by_name = true; /* of plans that are not chosen none is made ready */
  p.any.readied = 0;
  expect(b, "slow");
  assert_int_equal(p.any.readied, 0);
}

/* Both plans use one workspace, as large as the first one's and in one part. */
static void test_workspace(void **state) {
  bench *b = *state;
  pair p;
  make_pair(&p, b, (falt_alignment){.input = 16});
  p.fast->workspace = 100;
  p.any.workspace = 100;
  falt_plan *plan = plan_of(b);
  assert_int_equal(plan->workspace, 100);
  assert_int_equal(plan->layout.count, 0);
  assert_int_equal(p.any.budget.max_workspace, 100);
  falt_plan_destroy(&plan);
  p.any.workspace = 101;
  EXPECT_FAILURE(b, FALT_NO_SOLVER, "fast", "operands that are not aligned");
  add(b, make("slow", 2));
  expect(b, "slow");
}

static void test_taken_over(void **state) {
  pair p;
  make_pair(&p, *state, (falt_alignment){.input = 16});
  p.any.base.spreads = true;
  falt_plan *plan = plan_of(*state);
  assert_true(plan->spreads);
  assert_false(plan->factors);
  assert_true(plan->cost.seconds == 1);
  falt_plan_destroy(&plan);
}

static void test_out_of_memory(void **state) {
  pair p;
  make_pair(&p, *state, (falt_alignment){.input = 16});
  p.any.out_of_memory = true;
  EXPECT_FAILURE(*state, FALT_NO_MEMORY, "memory");
}

/* Whichever allocation fails, nothing is left behind. */
static void test_starving(void **state) {
  bench *b = *state;
  pair p;
  make_pair(&p, b, (falt_alignment){.input = 16});
  falt_status status = FALT_NO_MEMORY;
  for (int64_t n = 0; status != FALT_OK; n++) {
    falt_alloc_fail_after(n);
    chosen(b, &status);
    falt_alloc_fail_after(-1);
    assert_true(status == FALT_OK || status == FALT_NO_MEMORY);
    assert_int_equal(live_plans, 0);
    assert_true(n < 100);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      PLANNER_TEST(test_unaligned),   PLANNER_TEST(test_offsets),
      PLANNER_TEST(test_any_address), PLANNER_TEST(test_without_fallback),
      PLANNER_TEST(test_callers),     PLANNER_TEST(test_children),
      PLANNER_TEST(test_ready),       PLANNER_TEST(test_workspace),
      PLANNER_TEST(test_taken_over),  PLANNER_TEST(test_out_of_memory),
      PLANNER_TEST(test_starving),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
