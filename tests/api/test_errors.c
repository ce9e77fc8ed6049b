/* Illegal arguments: each is refused with the right status and a message that names the argument. Sizes, types and
 * budgets, for every solver of the library. test_problem_line.c has the mistakes in problem lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "faltung/faltung.h"

static falt_device *device;

typedef struct question {
  const char *line;
  falt_status status;
  const char *words[3]; /* of the message */
} question;

static falt_status ask(const char *line) {
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_status status = falt_problem_parse(&problem, &budget, line);
  if (status == FALT_OK) status = falt_plan_create(&plan, device, &problem, &budget, NULL);
  assert_true((status == FALT_OK) == (plan != NULL));
  falt_plan_destroy(&plan);
  return status;
}

static void check(const question *q) {
  const falt_status status = ask(q->line);
  if (status != q->status)
    fail_msg("%s: %s (%s), not %s", q->line, falt_status_name(status), falt_message(), falt_status_name(q->status));
  for (int i = 0; i < 3 && q->words[i]; i++)
    if (!strstr(falt_message(), q->words[i])) fail_msg("%s: \"%s\" lacks %s", q->line, falt_message(), q->words[i]);
  assert_null(strchr(falt_message(), '\n'));
}

static void test_questions(void **state) {
  (void)state;
  static const question questions[] = {
      /* shapes that leave nothing, channels that groups do not divide */
      {"forward c=4 h=3 w=9 k=4 r=5 s=5", FALT_INVALID_SHAPE, {"no output on axis h", "covers 5", "3"}},
      {"forward c=4 h=9 w=9 k=4 r=5 s=5 dilation=3", FALT_INVALID_SHAPE, {"no output", "covers 13"}},
      {"maxpool h=4 w=4 r=5 s=5", FALT_INVALID_SHAPE, {"no output"}},
      {"forward c=6 h=9 w=9 k=4 r=3 s=3 groups=4", FALT_INVALID_SHAPE, {"c=6", "divisible", "groups=4"}},
      {"backward-data c=8 h=9 w=9 k=6 r=3 s=3 groups=4", FALT_INVALID_SHAPE, {"k=6", "divisible", "groups=4"}},
      /* sizes whose product no integer holds */
      {"forward n=3000000000 c=3000000000 h=3 w=3 k=1 r=1 s=1", FALT_INVALID_SIZE, {"2^63"}},
      {"forward c=3000000000 h=1 w=1 k=3000000000 r=3 s=3", FALT_INVALID_SIZE, {"filter", "2^63"}},
      {"correlate h=9 w=9 r=3 s=3 stride=99999999999999", FALT_INVALID_SIZE, {"stride"}},
      {"forward c=1 w=9 k=1 s=3 pool=max:8", FALT_INVALID_SHAPE, {"no output", "pool takes 8", "7"}},
      /* types without a meaning together */
      {"backward-filter c=1 h=9 w=9 k=1 r=3 s=3 type=u8",
       FALT_INVALID_TYPE,
       {"backward-filter", "floating-point", "u8"}},
      {"forward c=1 h=9 w=9 k=1 r=3 s=3 acc=s32", FALT_INVALID_TYPE, {"acc=s32", "integer"}},
      {"maxpool h=9 w=9 r=3 s=3 type=s16 out-type=u8", FALT_INVALID_TYPE, {"maxpool", "s16", "u8"}},
      {"forward c=1 h=9 w=9 k=1 r=3 s=3 acc=u8", FALT_INVALID_TYPE, {"acc"}},
      /* results that meet themselves */
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 output-strides=0,0,1,0,7,1", FALT_INVALID_ARGUMENT, {"overlap"}},
      /* budgets: what excludes, and what is nearest */
      {"forward n=2 c=16 h=20 w=20 k=32 r=3 s=3 max-workspace=0 method=igemm-nchw",
       FALT_OVER_BUDGET,
       {"'igemm-nchw' needs", "bytes of workspace (the limit is 0)", "'generic' fits"}},
      {"forward n=2 c=16 h=20 w=20 k=32 r=3 s=3 layout=nhwc max-workspace=100 method=direct-nhwc",
       FALT_OVER_BUDGET,
       {"'direct-nhwc' needs", "the limit is 100", "fits"}},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 method=pooling", FALT_NO_SOLVER, {"'pooling'", "only pooling"}},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 method=cuda-generic", FALT_NO_SOLVER, {"'cuda-generic'", "cuda", "cpu"}},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 method=direct-nhcw", FALT_INVALID_METHOD, {"did you mean 'direct-nhwc'"}},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 max-workspace=-1", FALT_INVALID_SIZE, {"max-workspace"}},
      {"forward c=4 h=9 w=9 k=4 r=3 s=3 max-error=-1", FALT_INVALID_ARGUMENT, {"max-error"}},
  };
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) check(&questions[i]);
}

/* Without workspace every problem has a plan. */
static void test_no_workspace(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    char line[2048];
    falt_problem problem;
    falt_budget budget;
    falt_plan *plan = NULL;
    falt_problem_random(seed, line, sizeof line);
    assert_int_equal(falt_problem_parse(&problem, &budget, line), FALT_OK);
    falt_budget_default(&budget);
    budget.max_workspace = 0;
    budget.deterministic = true;
    problem.filter_when = FALT_FILTER_AUTO;
    if (falt_plan_create(&plan, device, &problem, &budget, NULL) != FALT_OK) fail_msg("%s: %s", line, falt_message());
    assert_int_equal(falt_plan_workspace(plan), 0);
    falt_plan_destroy(&plan);
  }
}

static void ignore(void *context, const falt_candidate *candidate) {
  (void)context;
  (void)candidate;
}

/* The pointer decides; a word that says otherwise is refused, by every function that takes both. */
static void test_filter_word(void **state) {
  (void)state;
  static const float taps[9] = {1};
  static const struct {
    const char *line;
    const void *values;
    const char *says; /* NULL: accepted */
  } cases[] = {{"correlate h=9 w=9 r=3 s=3", NULL, NULL},
               {"correlate h=9 w=9 r=3 s=3", taps, NULL},
               {"correlate h=9 w=9 r=3 s=3 filter=given", NULL, NULL},
               {"correlate h=9 w=9 r=3 s=3 filter=known", taps, NULL},
               {"correlate h=9 w=9 r=3 s=3 filter=given", taps, "filter=given; pass NULL"},
               {"forward c=1 k=1 h=9 w=9 r=3 s=3 filter=known", NULL, "filter=known; pass the values"},
               {"backward-data c=1 k=1 h=9 w=9 r=3 s=3 filter=given", taps, "filter=given; pass NULL"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const falt_status expected = cases[i].says ? FALT_INVALID_ARGUMENT : FALT_OK;
    falt_plan *plan = (falt_plan *)1;
    falt_problem problem;
    assert_int_equal(falt_problem_parse(&problem, NULL, cases[i].line), FALT_OK);
    assert_int_equal(falt_explain(device, &problem, NULL, cases[i].values, 0, ignore, NULL), expected);
    assert_int_equal(falt_plan_create_line(&plan, device, cases[i].line, cases[i].values), expected);
    if (cases[i].says) {
      assert_null(plan);
      assert_non_null(strstr(falt_message(), cases[i].says));
    }
    falt_plan_destroy(&plan);
  }
}

/* Functions that report something report nothing about NULL. */
static void test_nothing(void **state) {
  (void)state;
  char text[8] = "text";
  falt_limits limits;
  memset(&limits, 0xff, sizeof limits);
  assert_int_equal(falt_plan_workspace(NULL), 0);
  assert_int_equal(falt_plan_bytes(NULL, "input"), 0);
  assert_true(falt_plan_bytes(NULL, "inptu") == SIZE_MAX && falt_plan_bytes(NULL, NULL) == SIZE_MAX);
  assert_int_equal(falt_plan_print(NULL, text, sizeof text), 0);
  assert_string_equal(text, "");
  assert_string_equal(falt_plan_solver(NULL), "");
  assert_string_equal(falt_device_name(NULL), "");
  assert_int_equal(falt_device_threads(NULL), 0);
  falt_device_interrupt(NULL);
  falt_device_resume(NULL);
  assert_false(falt_device_interrupted(NULL));
  falt_device_progress(NULL, NULL, NULL);
  falt_device_limits(NULL, &limits);
  assert_true(limits.copy_bytes_per_s == 0 && !limits.measured);
  falt_device_limits(device, NULL);
  text[0] = 'x';
  assert_int_equal(falt_problem_print(NULL, NULL, text, sizeof text), 0);
  assert_string_equal(text, "");
  assert_int_equal(falt_problem_hash(NULL), 0);
  assert_int_equal(falt_problem_row(NULL, 1, 0), -1);
  assert_int_equal(falt_tensor_span(NULL), 0);
  falt_random_fill(NULL, FALT_F32, 1, 1);
  falt_problem_default(NULL);
  falt_budget_default(NULL);
  falt_options_default(NULL);
  falt_operands_default(NULL);
  falt_cpu_options_default(NULL);
  falt_cuda_options_default(NULL);
  falt_plan_destroy(NULL);
  falt_device_destroy(NULL);
  falt_device_free(NULL, NULL);
  assert_int_equal(falt_device_write(device, NULL, text, 1), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_device_read(device, text, NULL, 1), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_device_write(device, NULL, NULL, 0), FALT_OK);
}

/* ---- reserved fields, to the last one */

static struct {
  falt_problem problem;
  falt_budget budget;
  falt_options options;
  falt_cpu_options cpu;
  falt_cuda_options cuda;
} given;

static falt_status call_check(void) {
  return falt_problem_check(&given.problem);
}

static falt_status call_plan(void) {
  falt_plan *plan;
  const falt_status status = falt_plan_create(&plan, device, &given.problem, &given.budget, NULL);
  falt_plan_destroy(&plan);
  return status;
}

static falt_status call_describe(void) {
  falt_problem problem;
  const falt_tensor one = given.problem.input;
  return falt_problem_filter(&problem, &one, &one, FALT_F32, false, &given.options);
}

static falt_status call_correlate(void) {
  float x[1] = {1}, y[1];
  const falt_const_array src = falt_const_volume(x, FALT_F32, 1, 1, 1);
  const falt_array dst = falt_volume(y, FALT_F32, 1, 1, 1);
  return falt_correlate(&src, &src, &dst, &given.options);
}

static falt_status call_cpu(void) {
  falt_device *made;
  const falt_status status = falt_device_cpu(&made, &given.cpu);
  falt_device_destroy(&made);
  return status;
}

static falt_status call_cuda(void) {
  falt_device *made;
  const falt_status status = falt_device_cuda(&made, &given.cuda);
  falt_device_destroy(&made);
  return status;
}

static void test_reserved(void **state) {
  (void)state;
  static const struct {
    uint64_t *field;
    size_t bytes;
    const char *name;
    falt_status (*call)(void);
  } cases[] = {
      {given.problem.reserved, sizeof given.problem.reserved, "problem", call_check},
      {given.budget.reserved, sizeof given.budget.reserved, "budget", call_plan},
      {given.options.reserved, sizeof given.options.reserved, "options", call_describe},
      {given.options.reserved, sizeof given.options.reserved, "options", call_correlate},
      {given.options.budget.reserved, sizeof given.options.budget.reserved, "budget", call_correlate},
      {given.cpu.reserved, sizeof given.cpu.reserved, "options", call_cpu},
      {given.cuda.reserved, sizeof given.cuda.reserved, "options", call_cuda},
  };
  falt_problem_default(&given.problem);
  falt_budget_default(&given.budget);
  falt_options_default(&given.options);
  falt_cpu_options_default(&given.cpu);
  falt_cuda_options_default(&given.cuda);
  strcpy(given.cuda.described, "h200");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(cases[i].call(), FALT_OK);
    for (size_t j = 0; j < cases[i].bytes / sizeof(uint64_t); j++) {
      char name[64];
      snprintf(name, sizeof name, "%s.reserved[%zu]", cases[i].name, j);
      cases[i].field[j] = 1;
      assert_int_equal(cases[i].call(), FALT_INVALID_ARGUMENT);
      if (!strstr(falt_message(), name)) fail_msg("\"%s\" does not name %s", falt_message(), name);
      cases[i].field[j] = 0;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_questions), cmocka_unit_test(test_filter_word),
                                     cmocka_unit_test(test_no_workspace), cmocka_unit_test(test_nothing),
                                     cmocka_unit_test(test_reserved)};
  if (falt_device_cpu(&device, NULL) != FALT_OK) return 1;
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  falt_device_destroy(&device);
  return failed;
}
