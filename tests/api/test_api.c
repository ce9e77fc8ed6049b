/* Tests of the public functions about plans, one call, explain and wisdom, on the CPU. */
#include "api_fixture.h"
#include "planner/planner.h"

#include <math.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "planner/search.h"

/* --------------------------------------------------------------------------------------------------- plans */

static void test_plan(UNUSED void **state) {
  falt_device *device = device_with("", 2);
  falt_problem problem = parse("correlate h=5 w=6 r=3 s=3");
  falt_plan *plan;
  float x[30], w[9] = {0, 0, 0, 0, 2, 0, 0, 0, 0}, y[30];
  for (int i = 0; i < 30; i++) x[i] = (float)i;
  assert_int_equal(falt_plan_create(&plan, device, &problem, NULL, w), FALT_OK);
  memset(w, 0, sizeof w); /* the plan has its own copy */
  char text[200], cut[4];
  size_t length = falt_plan_print(plan, text, sizeof text);
  assert_true(length == strlen(text) && text[0] == '(' && text[length - 1] == ')');
  assert_int_equal(falt_plan_print(plan, cut, sizeof cut), length);
  assert_int_equal(strlen(cut), 3);
  assert_non_null(falt_plan_solver(plan));
  void *workspace = falt_alloc(falt_plan_workspace(plan));
  falt_operands operands = {.input = x, .output = y, .workspace = workspace};
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  for (int i = 0; i < 30; i++) assert_true(y[i] == 2 * (float)i);
  falt_free(workspace);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

static void test_missing_operands(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  static const struct {
    const char *line, *operand;
  } cases[] = {
      {"forward c=2 w=6 k=2 s=3 pad=1", "input"},
      {"forward c=2 w=6 k=2 s=3 pad=1", "filter"},
      {"forward c=2 w=6 k=2 s=3 pad=1", "output"},
      {"forward c=2 w=6 k=2 s=3 pad=1 bias=1", "bias"},
      {"forward c=2 w=6 k=2 s=3 pad=1 residual=1", "residual"},
      {"backward-data c=2 w=6 k=2 s=3 pad=1", "input"},
      {"backward-filter c=2 w=6 k=2 s=3 pad=1", "filter"},
      {"backward-filter c=2 w=6 k=2 s=3 pad=1 bias=1", "bias"},
      {"maxpool c=2 w=6 s=2", "output"},
      {"backward-maxpool c=2 w=6 s=2", "residual"},
  };
  double room[6 * 64] __attribute__((aligned(64))) = {0};
  static char workspace[1 << 18] __attribute__((aligned(64)));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_problem problem = parse(cases[i].line);
    falt_plan *plan;
    assert_int_equal(falt_plan_create(&plan, device, &problem, NULL, NULL), FALT_OK);
    static const char *const names[] = {"input", "filter", "output", "bias", "scale", "residual"};
    void *at[6];
    for (int j = 0; j < 6; j++) at[j] = strcmp(names[j], cases[i].operand) ? room + 64 * j : NULL;
    falt_operands operands = {at[0], at[1], at[2], at[3], at[4], at[5], workspace, NULL};
    assert_true(falt_plan_workspace(plan) <= sizeof workspace);
    assert_int_equal(falt_execute(plan, &operands), FALT_INVALID_ARGUMENT);
    expect_message(cases[i].operand);
    assert_int_equal(falt_execute(plan, NULL), FALT_INVALID_ARGUMENT);
    falt_plan_destroy(&plan);
  }
  assert_int_equal(falt_execute(NULL, &(falt_operands){0}), FALT_INVALID_ARGUMENT);
  falt_device_destroy(&device);
}

static void needy_execute(const falt_plan *plan, const falt_operands *operands) {
  memset(operands->workspace, 0, plan->workspace);
}

static void needy_print(UNUSED const falt_plan *plan, falt_text *text) {
  falt_text_add(text, "(needy)");
}

static void needy_destroy(falt_plan *plan) {
  falt_free(plan);
}

static falt_plan *needy_ask(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = needy_execute, .print = needy_print, .destroy = needy_destroy};
  falt_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (plan) plan->workspace = 64;
  return plan;
}

static void test_workspace(UNUSED void **state) {
  static const falt_solver needy = {.name = "needy", .device_kind = "cpu", .plan = needy_ask};
  static const falt_solver *const list[] = {&needy, NULL};
  falt_device *device = device_with("portable", 1);
  falt_problem problem = parse("correlate w=4 s=1");
  falt_plan *plan;
  float x[4], w[1], y[4];
  char room[128] __attribute__((aligned(64)));
  falt_operands operands = {.input = x, .filter = w, .output = y};
  assert_int_equal(falt_plan_search(&plan, list, device, &problem, NULL, NULL), FALT_OK);
  assert_int_equal(falt_plan_workspace(plan), 64);
  assert_int_equal(falt_execute(plan, &operands), FALT_INVALID_ARGUMENT);
  expect_message("workspace: NULL");
  operands.workspace = room + 4;
  assert_int_equal(falt_execute(plan, &operands), FALT_INVALID_ARGUMENT);
  expect_message("align");
  operands.workspace = room;
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  falt_alloc_fail_after(0); /* execution allocates nothing */
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  falt_alloc_fail_after(-1);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

/* Start-up: a plan for a small filter costs less than running it once. Generous, for sanitizers and busy machines. */
static void test_planning_is_quick(UNUSED void **state) {
  falt_device *device = device_with("", 2);
  falt_problem problem = parse("correlate h=512 w=512 r=3 s=3 type=u8");
  const uint8_t w[4 * 9] = {0};
  falt_problem f = parse("correlate h=512 w=512 r=3 s=3");
  double best = 1;
  for (int i = 0; i < 50; i++) {
    falt_plan *plan;
    double start = falt_seconds();
    assert_int_equal(falt_plan_create(&plan, device, i % 2 ? &problem : &f, NULL, w), FALT_OK);
    best = fmin(best, falt_seconds() - start);
    falt_plan_destroy(&plan);
  }
  print_message("a plan for a 3x3 filter takes %.1f us\n", best * 1e6);
  assert_true(best < 1e-3);
  falt_device_destroy(&device);
}

static void test_solver_names(UNUSED void **state) {
  int count = 0;
  while (falt_solver_name(count)) assert_true(strlen(falt_solver_name(count++)) < 32);
  assert_true(count >= 1);
  for (int i = 0; i < count; i++)
    for (int j = 0; j < i; j++) assert_string_not_equal(falt_solver_name(i), falt_solver_name(j));
  assert_null(falt_solver_name(-1));
  assert_null(falt_solver_name(count + 1));
}

/* ------------------------------------------------------------------------------------------------ one call */

static falt_array row(float *data, int64_t count) {
  return falt_volume(data, FALT_F32, 1, 1, count);
}

static falt_const_array read_row(const float *data, int64_t count) {
  return falt_const_volume(data, FALT_F32, 1, 1, count);
}

/* The worked examples that every textbook has. */
static void test_one_dimension(UNUSED void **state) {
  float x[] = {4, 1, 3, 2, 3}, w[] = {2, 1, 4}, y[5];
  static const float expected[] = {8, 21, 13, 20, 7};
  falt_options options;
  falt_options_default(&options);
  options.space = 1;
  falt_const_array src = read_row(x, 5), taps = read_row(w, 3);
  falt_array dst = row(y, 5);
  assert_int_equal(falt_correlate(&src, &taps, &dst, &options), FALT_OK);
  for (int i = 0; i < 5; i++) assert_true(y[i] == expected[i]);

  float signal[] = {1, 2, 3, 4}, half[] = {0.5f, 0.5f}, all[5];
  static const float sums[] = {0.5f, 1.5f, 2.5f, 3.5f, 2};
  options.mode = FALT_FULL;
  src = read_row(signal, 4), taps = read_row(half, 2), dst = row(all, 5);
  assert_int_equal(falt_convolve(&src, &taps, &dst, &options), FALT_OK);
  for (int i = 0; i < 5; i++) assert_true(all[i] == sums[i]);
}

/* An impulse becomes the filter under convolve, its mirror image under correlate, in every channel. */
static void test_impulse(UNUSED void **state) {
  float x[5 * 5 * 3] = {0}, y[5 * 5 * 3], w[9];
  for (int i = 0; i < 9; i++) w[i] = (float)(i + 1);
  for (int c = 0; c < 3; c++) x[(2 * 5 + 2) * 3 + c] = (float)(c + 1);
  falt_const_array src = falt_const_image(x, FALT_F32, 5, 5, 3, 15), taps = falt_const_volume(w, FALT_F32, 1, 3, 3);
  falt_array dst = falt_image(y, FALT_F32, 5, 5, 3, 15);
  for (int flip = 0; flip < 2; flip++) {
    assert_int_equal((flip ? falt_convolve : falt_correlate)(&src, &taps, &dst, NULL), FALT_OK);
    for (int i = 0; i < 9; i++)
      for (int c = 0; c < 3; c++)
        assert_true(y[((i / 3 + 1) * 5 + i % 3 + 1) * 3 + c] == (float)((c + 1) * (flip ? i + 1 : 9 - i)));
  }
}

static void test_one_call_refusals(UNUSED void **state) {
  float x[64] = {0}, w[3] = {1, 1, 1}, y[64];
  falt_const_array src = read_row(x, 8), taps = read_row(w, 3);
  falt_array dst = row(y, 8), none = row(NULL, 8), shorter = row(y, 7), same = row(x, 8);
  assert_int_equal(falt_correlate(NULL, &taps, &dst, NULL), FALT_INVALID_ARGUMENT);
  expect_message("src");
  assert_int_equal(falt_correlate(&src, NULL, &dst, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_correlate(&src, &taps, NULL, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_correlate(&src, &taps, &none, NULL), FALT_INVALID_ARGUMENT);
  expect_message("dst.data");
  assert_int_equal(falt_correlate(&src, &taps, &shorter, NULL), FALT_INVALID_SHAPE);
  expect_message("1x1x1x1x1x7");
  expect_message("1x1x1x1x1x8");
  falt_array late = row(x + 7, 8), after = row(x + 8, 8), on_taps = row(w, 3);
  falt_const_array short_src = read_row(x, 3);
  assert_int_equal(falt_correlate(&src, &taps, &same, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_correlate(&src, &taps, &late, NULL), FALT_INVALID_ARGUMENT);
  expect_message("overlaps src");
  assert_int_equal(falt_correlate(&short_src, &taps, &on_taps, NULL), FALT_INVALID_ARGUMENT);
  expect_message("overlaps taps");
  memset(x, 0, sizeof x);
  assert_int_equal(falt_correlate(&src, &taps, &after, NULL), FALT_OK);
  falt_const_array odd = src;
  odd.tensor.type = (falt_type)77;
  assert_int_equal(falt_correlate(&odd, &taps, &dst, NULL), FALT_INVALID_ARGUMENT);
  setenv("FALTUNG_THREADS", "many", 1);
  assert_int_equal(falt_correlate(&src, &taps, &dst, NULL), FALT_INVALID_ARGUMENT);
}

/* The caller's device and budget are used. */
static void test_one_call_options(UNUSED void **state) {
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, w[3] = {0, 1, 0}, y[8];
  falt_options options;
  falt_options_default(&options);
  options.device = device_with("portable", 1);
  falt_const_array src = read_row(x, 8), taps = read_row(w, 3);
  falt_array dst = row(y, 8);
  setenv("FALTUNG_THREADS", "many", 1); /* not read: the device is there */
  strcpy(options.budget.method, "reference");
  assert_int_equal(falt_correlate(&src, &taps, &dst, &options), FALT_OK);
  assert_memory_equal(x, y, sizeof x);
  strcpy(options.budget.method, "referenze");
  assert_int_equal(falt_correlate(&src, &taps, &dst, &options), FALT_INVALID_METHOD);
  expect_message("'reference'");
  falt_device_destroy(&options.device);
}

/* Every allocation of a whole call may fail. */
static void test_starving(UNUSED void **state) {
  float x[64] = {0}, w[9] = {0}, y[64];
  falt_const_array src = falt_const_volume(x, FALT_F32, 1, 8, 8), taps = falt_const_volume(w, FALT_F32, 1, 3, 3);
  falt_array dst = falt_volume(y, FALT_F32, 1, 8, 8);
  bool failed = true;
  for (int n = 0; failed; n++) {
    assert_true(n < 1000);
    falt_alloc_fail_after(n);
    falt_status status = falt_correlate(&src, &taps, &dst, NULL);
    void *probe = falt_alloc(1);
    falt_alloc_fail_after(-1);
    failed = probe == NULL;
    falt_free(probe);
    if (status != FALT_OK) assert_string_equal(falt_status_name(status), "FALT_NO_MEMORY");
    if (n == 0) assert_int_equal(status, FALT_NO_MEMORY);
  }
}

/* ------------------------------------------------------------------------------------------ asking, remembering */

typedef struct tally {
  int count, chosen, rejected, measured;
} tally;

static void tally_one(void *context, const falt_candidate *c) {
  tally *t = context;
  t->count++;
  t->chosen += c->chosen;
  t->rejected += c->rejected != NULL;
  t->measured += c->seconds_min > 0;
  assert_true(c->rejected || c->plan[0] == '(');
  assert_true(!c->chosen || (!c->rejected && c->predicted_seconds > 0));
  assert_true(c->flops == 2.0 * 64 * 64 * 9);
  assert_true(c->rejected || (c->gflops > 0 && c->gbytes_per_s > 0 && c->limit_share > 0));
}

static void test_explain(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  falt_problem problem = parse("correlate h=64 w=64 r=3 s=3");
  int solvers = 0;
  for (int i = 0; falt_solvers[i]; i++) solvers += strcmp(falt_solvers[i]->device_kind, "cpu") == 0;
  tally t = {0};
  assert_int_equal(falt_explain(device, &problem, NULL, NULL, 1e-3, tally_one, &t), FALT_OK);
  assert_int_equal(t.count, solvers);
  assert_int_equal(t.chosen, 1);
  assert_true(t.measured >= 1 && t.measured + t.rejected <= t.count);
  assert_int_equal(falt_explain(NULL, &problem, NULL, NULL, 0, tally_one, &t), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_explain(device, NULL, NULL, NULL, 0, tally_one, &t), FALT_INVALID_ARGUMENT);
  falt_device_destroy(&device);
}

static void test_time(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  falt_problem problem = parse("correlate h=64 w=64 r=3 s=3");
  falt_plan *plan;
  static float x[64 * 64], w[9], y[64 * 64];
  falt_candidate c;
  assert_int_equal(falt_plan_create(&plan, device, &problem, NULL, w), FALT_OK);
  void *workspace = falt_alloc(falt_plan_workspace(plan));
  falt_operands operands = {.input = x, .output = y, .workspace = workspace};
  assert_int_equal(falt_plan_time(plan, &operands, 0.01, &c), FALT_OK);
  assert_true(c.seconds_min > 0 && c.seconds_median >= c.seconds_min && c.seconds_median < 1);
  assert_true(fabs(c.gflops * c.seconds_median * 1e9 / c.flops - 1) < 1e-9);
  assert_true(fabs(c.gbytes_per_s * c.seconds_median * 1e9 / c.bytes - 1) < 1e-9);
  assert_true(c.bytes == 4.0 * (2 * 64 * 64 + 9) && c.limit_share > 0);
  assert_string_equal(c.solver, falt_plan_solver(plan));
  assert_int_equal(falt_plan_time(plan, &operands, -1, &c), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_plan_time(plan, &operands, 1, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_plan_time(plan, &(falt_operands){0}, 1, &c), FALT_INVALID_ARGUMENT);
  falt_free(workspace);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

static void test_wisdom(UNUSED void **state) {
  char path[256];
  falt_device *device = device_with("portable", 1), *other = device_with("portable", 2);
  snprintf(path, sizeof path, "%s/my-wisdom", directory);
  assert_int_equal(falt_wisdom_load(device, NULL), FALT_NO_FILE);
  assert_int_equal(falt_wisdom_load(device, path), FALT_NO_FILE);
  assert_int_equal(falt_wisdom_load(NULL, path), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_wisdom_save(NULL, path), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_wisdom_save(device, NULL), FALT_OK);
  assert_int_equal(falt_wisdom_save(device, path), FALT_OK);
  assert_int_equal(falt_wisdom_load(device, path), FALT_OK);
  assert_int_equal(falt_wisdom_load(other, NULL), FALT_OK);           /* knows nothing of this device: no harm */
  assert_int_equal(falt_wisdom_load(other, path), FALT_INVALID_TEXT); /* the file that was meant is not for it */
  expect_message("another device");
  assert_int_equal(falt_wisdom_save(other, path), FALT_OK); /* both */
  assert_int_equal(falt_wisdom_load(other, path), FALT_OK);
  assert_int_equal(falt_wisdom_load(device, path), FALT_OK);
  assert_int_equal(falt_file_write(path, "rubbish\n", 8), FALT_OK);
  assert_int_equal(falt_wisdom_load(device, path), FALT_INVALID_TEXT);
  snprintf(path, sizeof path, "%s/no/such/wisdom", directory);
  assert_int_equal(falt_wisdom_save(device, path), FALT_NO_FILE);
  expect_message("/no/such; make it first");
  snprintf(path, sizeof path, "%s/no", directory);
  assert_int_equal(access(path, F_OK), -1); /* only the cache makes its directories */
  setenv("FALTUNG_CACHE", path, 1);
  assert_int_equal(falt_wisdom_save(device, NULL), FALT_OK);
  assert_int_equal(access(path, F_OK), 0);
  falt_wisdom_forget(device);
  falt_wisdom_forget(NULL);
  unsetenv("FALTUNG_CACHE");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  assert_int_equal(falt_wisdom_save(device, NULL), FALT_NO_FILE);
  falt_device_destroy(&device);
  falt_device_destroy(&other);
}

/* Tuning a real problem remembers a real solver, and the file brings it to another device of the same name. */
static void test_tune(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  falt_problem problem = parse("correlate h=64 w=64 r=3 s=3");
  falt_budget budget;
  falt_plan *plan;
  falt_budget_default(&budget);
  budget.tune_seconds = 0.01;
  assert_int_equal(falt_plan_create(&plan, device, &problem, &budget, NULL), FALT_OK);
  const char *winner = falt_plan_solver(plan);
  falt_plan_destroy(&plan);
  assert_int_equal(falt_wisdom_save(device, NULL), FALT_OK);
  falt_device_destroy(&device);
  device = device_with("", 1);
  assert_int_equal(falt_wisdom_load(device, NULL), FALT_OK);
  assert_int_equal(falt_plan_create(&plan, device, &problem, NULL, NULL), FALT_OK);
  assert_string_equal(falt_plan_solver(plan), winner);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

/* Standard error of a call, as text. */
static void capture(void (*body)(void), char *text, size_t size) {
  char path[256];
  snprintf(path, sizeof path, "%s/stderr", directory);
  fflush(stderr);
  int saved = dup(2);
  FILE *file = fopen(path, "w+");
  dup2(fileno(file), 2);
  body();
  fflush(stderr);
  dup2(saved, 2);
  close(saved);
  rewind(file);
  text[fread(text, 1, size - 1, file)] = '\0';
  fclose(file);
}

static void filter_once(void) {
  float x[8] = {0}, w[3] = {0, 1, 0}, y[8];
  falt_const_array src = read_row(x, 8), taps = read_row(w, 3);
  falt_array dst = row(y, 8);
  assert_int_equal(falt_correlate(&src, &taps, &dst, NULL), FALT_OK);
}

static int lines_in(const char *text) {
  int count = 0;
  for (; *text; text++) count += *text == '\n';
  return count;
}

static void test_verbose(UNUSED void **state) {
  char text[4096];
  capture(filter_once, text, sizeof text);
  assert_string_equal(text, "");
  setenv("FALTUNG_VERBOSE", "plan", 1);
  capture(filter_once, text, sizeof text);
  assert_int_equal(lines_in(text), 1);
  assert_non_null(strstr(text, "faltung: plan: correlate "));
  setenv("FALTUNG_VERBOSE", "time,plan", 1);
  capture(filter_once, text, sizeof text);
  assert_int_equal(lines_in(text), 2);
  assert_non_null(strstr(text, "faltung: time: ("));
}

/* What languages without C's structs call. */
static void test_line(UNUSED void **state) {
  static const char line[] = "forward n=2 c=3 h=5 w=5 k=4 r=3 s=3 pad=1 type=f32 bias=1 max-workspace=0";
  static float filter[4 * 3 * 3 * 3];
  falt_device *device = device_with("", 1);
  falt_plan *plan = (falt_plan *)1;
  assert_int_equal(falt_plan_create_line(&plan, device, line, NULL), FALT_OK);
  assert_int_equal(falt_plan_bytes(plan, "input"), 2 * 3 * 5 * 5 * sizeof(float));
  assert_int_equal(falt_plan_bytes(plan, "filter"), sizeof filter);
  assert_int_equal(falt_plan_bytes(plan, "output"), 2 * 4 * 5 * 5 * sizeof(float));
  assert_int_equal(falt_plan_bytes(plan, "bias"), 4 * sizeof(float));
  assert_int_equal(falt_plan_bytes(plan, "residual"), 0);
  assert_int_equal(falt_plan_bytes(plan, "nothing"), SIZE_MAX);
  assert_int_equal(falt_plan_workspace(plan), 0);
  falt_plan_destroy(&plan);
  assert_int_equal(falt_plan_create_line(&plan, device, "forward n=2 bogus=1", filter), FALT_INVALID_TEXT);
  assert_null(plan);
  assert_int_equal(falt_plan_create_line(&plan, NULL, line, filter), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_plan_create_line(NULL, device, line, filter), FALT_INVALID_ARGUMENT);
  assert_int_equal(sizeof(falt_operands), 8 * sizeof(void *));
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_line, set_up),
      cmocka_unit_test_setup(test_plan, set_up),
      cmocka_unit_test_setup(test_missing_operands, set_up),
      cmocka_unit_test_setup(test_workspace, set_up),
      cmocka_unit_test_setup(test_planning_is_quick, set_up),
      cmocka_unit_test_setup(test_solver_names, set_up),
      cmocka_unit_test_setup(test_one_dimension, set_up),
      cmocka_unit_test_setup(test_impulse, set_up),
      cmocka_unit_test_setup(test_one_call_refusals, set_up),
      cmocka_unit_test_setup(test_one_call_options, set_up),
      cmocka_unit_test_setup(test_starving, set_up),
      cmocka_unit_test_setup(test_explain, set_up),
      cmocka_unit_test_setup(test_time, set_up),
      cmocka_unit_test_setup(test_wisdom, set_up),
      cmocka_unit_test_setup(test_tune, set_up),
      cmocka_unit_test_setup(test_verbose, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
