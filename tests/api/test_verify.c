/* Tests of verification: a solver with one deliberate fault is reported, and a correct one is not. */
#include <math.h>
#include <stdio.h>

#include "api/verify.h"
#include "core/memory.h"
#include "fake_solver.h"
#include "planner/search.h"

typedef enum crime {
  NONE,
  BEYOND_PART,      /* writes the byte behind a part of its workspace */
  BEYOND_SCRATCH,   /* the same of a worker's scratch */
  BEYOND_WORKSPACE, /* the byte behind its workspace */
  READS_UNWRITTEN,  /* a bit of the result depends on workspace that it did not write */
  READS_GAP,        /* on what lies between elements of an operand */
  WRITES_GAP,       /* writes between elements of the result */
  WRITES_INPUT,
  COUNTS_THREADS, /* a bit of the result depends on the number of threads */
  COUNTS_RUNS,    /* on how often the plan was executed */
  SEES_OTHERS,    /* on another execution that happens at the same time */
  WANTS_ALIGNED,  /* rounds the input's address down to 64 bytes */
  FORGETS_RESULT, /* does not write the last element */
  NO_NAN,         /* writes 0 for NaN */
  NAN_FOR_INF,    /* NaN for infinities */
  NAN_BESIDE_INF, /* NaN for numbers where other results are infinite */
  CRIMES
} crime;

typedef struct culprit {
  falt_plan base;
  falt_plan *child;
  falt_memory_layout scratch;
  size_t first, second, inner;
} culprit;

static crime committed;
static bool says_splits; /* that its plans multiply in parts */
static _Atomic int runs, inside, children[2];
static _Atomic bool hidden; /* the element that was changed is NaN, and another NaN is as good */

/* Waits a little for an execution on another thread. */
static bool sees_another(void) {
  const double end = falt_seconds() + 0.005;
  bool others = ++inside > 1;
  while (!others && falt_seconds() < end) others = inside > 1;
  return others;
}

/* NaN for what is infinite; or for numbers, where something is infinite. */
static void lose_infinities(float y[5], bool numbers) {
  bool infinite = false;
  for (int i = 0; i < 5; i++) infinite |= isinf(y[i]);
  for (int i = 0; i < 5; i++)
    if (numbers ? infinite && isfinite(y[i]) : isinf(y[i])) y[i] = NAN;
}

/* The lowest bit of the first result changes within every tolerance. */
static bool tainted(const culprit *plan, const falt_operands *o, const unsigned char *workspace) {
  const unsigned char *gap = (const unsigned char *)o->input + 5 * sizeof(float);
  switch (committed) {
    case READS_UNWRITTEN:
      return workspace[plan->second] & 1;
    case READS_GAP:
      return *gap & 1;
    case COUNTS_THREADS:
      return falt_threads_count(plan->base.device->threads) & 1;
    case COUNTS_RUNS:
      return runs++ & 1;
    default:
      return false;
  }
}

static void commit(const culprit *plan, const falt_operands *o) {
  unsigned char *workspace = o->workspace, *result = o->output;
  if (committed == READS_UNWRITTEN || committed == READS_GAP) hidden |= isnan(((float *)o->output)[0]);
  if (committed == FORGETS_RESULT) hidden |= isnan(((float *)o->output)[4]);
  switch (committed) {
    case BEYOND_PART:
      workspace[plan->first + 10] = 1;
      break;
    case BEYOND_SCRATCH:
      workspace[plan->scratch.part[0].bytes] = 1;
      break;
    case BEYOND_WORKSPACE:
      workspace[plan->base.workspace] = 1;
      break;
    case WRITES_GAP:
      result[5 * sizeof(float)] = 1;
      break;
    case WRITES_INPUT:
      ((unsigned char *)o->input)[0] ^= 1;
      break;
    case FORGETS_RESULT:
      memset(result + 4 * sizeof(float), FALT_POISON, sizeof(float));
      break;
    case NO_NAN:
      for (int i = 0; i < 5; i++)
        if (((float *)o->output)[i] != ((float *)o->output)[i]) ((float *)o->output)[i] = 0;
      break;
    case NAN_FOR_INF:
    case NAN_BESIDE_INF:
      lose_infinities(o->output, committed == NAN_BESIDE_INF);
      break;
    default:
      break;
  }
  if (tainted(plan, o, workspace)) result[0] ^= 1;
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const culprit *plan = (const culprit *)base;
  falt_operands inner = *operands;
  if (committed == WANTS_ALIGNED) inner.input = (void *)((uintptr_t)inner.input / FALT_ALIGN * FALT_ALIGN);
  inner.workspace = (char *)operands->workspace + plan->inner;
  const bool others = committed == SEES_OTHERS && sees_another();
  falt_plan_run(plan->child, &inner);
  if (others) *(unsigned char *)operands->output ^= 1;
  if (committed == SEES_OTHERS) inside--;
  commit(plan, operands);
}

static void print(const falt_plan *base, falt_text *text) {
  (void)base;
  falt_text_add(text, "(culprit %d)", (int)committed);
}

static void destroy(falt_plan *base) {
  culprit *plan = (culprit *)base;
  falt_plan_destroy(&plan->child);
  falt_free(plan);
}

static int asked[2]; /* with the filter given, and known */
extern const falt_solver falt_solver_generic, falt_solver_reference;

static falt_plan *plan_culprit(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy};
  static const falt_solver *const honest[] = {&falt_solver_generic, NULL};
  falt_ask inner = *ask;
  asked[ask->filter_values != NULL]++;
  culprit *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  falt_place_part(&plan->scratch, 64);
  falt_place_part(&plan->scratch, 64);
  falt_place_each(&plan->base.layout, 2, &plan->scratch);
  plan->first = falt_place_part(&plan->base.layout, 10);
  plan->second = falt_place_part(&plan->base.layout, 100);
  inner.solvers = honest;
  plan->child = falt_plan_child(&inner, ask->problem, NULL);
  assert_non_null(plan->child);
  plan->inner = falt_place_child(&plan->base.layout, plan->child);
  plan->base.splits = says_splits;
  plan->base.workspace = plan->base.layout.total;
  if (committed == BEYOND_WORKSPACE) {
    plan->base.workspace--; /* allocations are rounded up: falt_execute_host's stays whole */
    plan->base.layout = (falt_memory_layout){0};
  }
  return &plan->base;
}

static const falt_solver solver = {.name = "culprit", .device_kind = "cpu", .plan = plan_culprit};

typedef struct outcome {
  int verdicts, failures;
  char message[512];
} outcome;

static void note(void *context, const falt_verdict *verdict) {
  outcome *o = context;
  o->verdicts++;
  if (verdict->ok) return;
  o->failures++;
  snprintf(o->message, sizeof o->message, "%s", falt_message());
}

/* Rows of five elements, one apart from the next. */
static const char gaps[] = "correlate h=4 w=5 r=1 s=3 type=f32 input-strides=0,0,0,0,6,1 output-strides=0,0,0,0,6,1";

static outcome verify_line(const falt_solver *const *solvers, crime wrong, uint64_t seed, const char *line) {
  falt_device *device;
  falt_problem problem;
  outcome o = {0};
  const falt_cpu_options options = {.threads = 2};
  committed = wrong;
  runs = inside = 0;
  hidden = false;
  assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
  assert_int_equal(falt_problem_parse(&problem, NULL, line), FALT_OK);
  assert_int_equal(falt_verify_solvers(solvers, device, &problem, NULL, seed, note, &o), FALT_OK);
  falt_device_destroy(&device);
  assert_int_equal(o.verdicts, 1);
  return o;
}

static outcome verify(const falt_solver *const *solvers, crime wrong, uint64_t seed) {
  return verify_line(solvers, wrong, seed, gaps);
}

static const falt_solver *const culprits[] = {&solver, NULL};

enum { SEEDS = 64 };

static void test_innocent(UNUSED void **state) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    const outcome o = verify(culprits, NONE, seed);
    if (o.failures) fail_msg("seed %llu: %s", (unsigned long long)seed, o.message);
  }
}

/* With the filter given, known, or both where the line does not say. */
static void test_filter_when(UNUSED void **state) {
  static const char *const lines[] = {"correlate w=9 s=3", "correlate w=9 s=3 filter=given",
                                      "correlate w=9 s=3 filter=known"};
  for (int i = 0; i < 3; i++) {
    asked[0] = asked[1] = 0;
    assert_int_equal(verify_line(culprits, NONE, 0, lines[i]).failures, 0);
    assert_int_equal(asked[0] > 0, i != 2);
    assert_int_equal(asked[1] > 0, i != 1);
  }
}

/* Found with at least so many of the seeds, those that hide it included; for some of them with these words. */
static void expect_found(crime wrong, int least, const char *words) {
  int found = 0, told = 0, open = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    const outcome o = verify(culprits, wrong, seed);
    told += o.failures && strstr(o.message, words);
    found += o.failures || hidden;
    open += !hidden;
  }
  if (found < least || !told || open < SEEDS / 2)
    fail_msg("'%s' was found with %d of %d seeds, and told %d times; %d seeds show it", words, found, SEEDS, told,
             open);
}

/* A sanitizer ends the program where these are committed. */
static void test_writes(UNUSED void **state) {
  if (FALT_EXACT_ALLOCATION) skip();
  expect_found(BEYOND_PART, SEEDS, "between parts of the workspace");
  expect_found(BEYOND_SCRATCH, SEEDS, "between parts of the workspace");
  expect_found(BEYOND_WORKSPACE, SEEDS, "beside the workspace");
}

static void test_reads(UNUSED void **state) {
  expect_found(READS_UNWRITTEN, SEEDS - SEEDS / 8, "other bits"); /* falt_execute_host's workspace has any bits */
  expect_found(READS_GAP, SEEDS, "other bits");
}

static void test_operands(UNUSED void **state) {
  expect_found(WRITES_GAP, SEEDS, "beside a result");
  expect_found(WRITES_INPUT, SEEDS, "only read");
  expect_found(FORGETS_RESULT, SEEDS, "");
  if (!FALT_EXACT_ALLOCATION) expect_found(WANTS_ALIGNED, SEEDS / 4, "wrong results");
}

static void test_conditions(UNUSED void **state) {
  expect_found(COUNTS_THREADS, 1, "another number of threads");
  expect_found(COUNTS_RUNS, SEEDS / 4, "other bits");
  expect_found(NO_NAN, 1, "wrong results");
}

/* Only infinities may become NaN, and only by plans that multiply in parts. */
static void test_splits(UNUSED void **state) {
  expect_found(NAN_FOR_INF, 1, "wrong results");
  says_splits = true;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) assert_int_equal(verify(culprits, NAN_FOR_INF, seed).failures, 0);
  expect_found(NAN_BESIDE_INF, 1, "wrong results");
  says_splits = false;
}

static void test_at_once(UNUSED void **state) {
  expect_found(SEES_OTHERS, SEEDS / 16, "execution");
}

/* ---- children */

static falt_plan *plan_parent(const falt_solver *self, falt_ask *ask);
static falt_plan *plan_first(const falt_solver *self, falt_ask *ask);
static falt_plan *plan_second(const falt_solver *self, falt_ask *ask);

static const falt_solver parent = {.name = "parent", .device_kind = "cpu", .plan = plan_parent},
                         first = {.name = "first", .device_kind = "cpu", .plan = plan_first},
                         second = {.name = "second", .device_kind = "cpu", .plan = plan_second};

static falt_plan *plan_parent(const falt_solver *self, falt_ask *ask) {
  static const falt_solver *const both[] = {&first, &second, NULL};
  falt_ask inner = *ask;
  inner.solvers = both;
  (void)self;
  falt_plan *plan = falt_plan_child(&inner, ask->problem, NULL);
  assert_non_null(plan);
  children[plan->solver == &second]++;
  plan->solver = &parent;
  return plan;
}

/* An honest plan under another name, at this cost. */
static falt_plan *plan_honest(const falt_solver *self, falt_ask *ask, double seconds) {
  falt_plan *plan = falt_solver_generic.plan(&falt_solver_generic, ask);
  if (!plan) return NULL;
  plan->solver = self;
  plan->cost.seconds = seconds;
  return plan;
}

static falt_plan *plan_first(const falt_solver *self, falt_ask *ask) {
  return plan_honest(self, ask, 1);
}

static falt_plan *plan_second(const falt_solver *self, falt_ask *ask) {
  return plan_honest(self, ask, 2);
}

static void test_children(UNUSED void **state) {
  static const falt_solver *const parents[] = {&parent, NULL};
  children[0] = children[1] = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) assert_int_equal(verify(parents, NONE, seed).failures, 0);
  assert_true(children[0] > SEEDS / 4);
  assert_true(children[1] > SEEDS / 8);
}

/* ---- layouts */

static void count_gap(void *context, char *gap, size_t bytes) {
  (void)context;
  memset(gap, 1, bytes);
}

/* Gaps are all that is in no part: behind the parts' bytes, behind the parts, and in each block of an inner layout. */
static void test_gaps(UNUSED void **state) {
  falt_memory_layout inner = {0}, outer = {0};
  char memory[2048] = {0};
  const size_t before = falt_place_apart(FALT_RED_ZONE);
  assert_int_equal(before, 0);
  assert_int_equal(falt_place_part(&inner, 65), 0);
  assert_int_equal(inner.total, 192);
  assert_int_equal(falt_place_each(&outer, 3, &inner), 0);
  assert_int_equal(falt_place_part(&outer, 0), 576);
  assert_int_equal(falt_place_part(&outer, 1), 576);
  assert_int_equal(outer.total, 704);
  assert_int_equal(falt_place_apart(before), FALT_RED_ZONE);
  falt_place_gaps(&outer, memory, count_gap, memory);
  for (size_t i = 0; i < sizeof memory; i++) {
    const bool part = i < 576 ? i % 192 < 65 : i == 576;
    assert_int_equal(memory[i], i < outer.total && !part);
  }
}

/* Parts beyond those that a layout remembers belong to its last one, without gaps. */
static void test_many_parts(UNUSED void **state) {
  falt_memory_layout layout = {0};
  char memory[64 * (FALT_MEMORY_PARTS + 5)] = {0};
  for (int i = 0; i < FALT_MEMORY_PARTS + 5; i++) assert_int_equal(falt_place_part(&layout, 64), 64 * i);
  falt_place_gaps(&layout, memory, count_gap, memory);
  for (size_t i = 0; i < sizeof memory; i++) assert_int_equal(memory[i], 0);
}

static void add_bytes(void *context, char *gap, size_t bytes) {
  (void)gap;
  *(size_t *)context += bytes;
}

/* Bytes in gaps of the workspace that a solver asks for while red zones are asked for. */
static size_t gap_bytes(const char *line, const char *method, const void *filter_values) {
  falt_device *device;
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan;
  size_t sum = 0;
  const falt_cpu_options options = {.threads = 2};
  assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
  assert_int_equal(falt_problem_parse(&problem, NULL, line), FALT_OK);
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", method);
  const size_t apart = falt_place_apart(FALT_RED_ZONE);
  assert_int_equal(falt_plan_search(&plan, falt_solvers, device, &problem, &budget, filter_values), FALT_OK);
  falt_place_apart(apart);
  char *workspace = falt_alloc(falt_plan_workspace(plan));
  assert_non_null(workspace);
  falt_place_gaps(&plan->layout, workspace, add_bytes, &sum);
  falt_free(workspace);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
  return sum;
}

/* A zone behind each part of both workers' scratch, and behind the queue of tasks. */
static void test_red_zones(UNUSED void **state) {
  const float ones[25] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  assert_true(gap_bytes("maxpool h=9 w=9 r=2 s=2 stride=2", "pooling", NULL) >= (2 * 4 + 1) * FALT_RED_ZONE);
  assert_true(gap_bytes("backward-maxpool h=9 w=9 r=2 s=2 stride=2", "pooling", NULL) >= (2 * 9 + 1) * FALT_RED_ZONE);
  assert_true(gap_bytes("correlate h=64 w=64 r=5 s=5", "separable", ones) >= (2 + 1) * FALT_RED_ZONE);
  /* pointers, windows and sums; tags and slots of the windows of both column classes */
  assert_true(gap_bytes("correlate h=64 w=64 r=5 s=5 stride=2", "direct", ones) >=
              (2 * (3 + 2 * 2) + 1) * FALT_RED_ZONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gaps),        cmocka_unit_test(test_many_parts), cmocka_unit_test(test_innocent),
      cmocka_unit_test(test_filter_when), cmocka_unit_test(test_writes),     cmocka_unit_test(test_reads),
      cmocka_unit_test(test_operands),    cmocka_unit_test(test_conditions), cmocka_unit_test(test_at_once),
      cmocka_unit_test(test_children),    cmocka_unit_test(test_red_zones),  cmocka_unit_test(test_splits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
