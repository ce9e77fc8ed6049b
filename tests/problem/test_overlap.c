/* Operands that share elements: the exact test against counting every byte, what executions refuse, and sums into the
 * residual itself by every solver that adds one. */
#include "api_fixture.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/sanitize.h"
#include "planner/search.h"
#include "problem/overlap.h"
#include "solver_lines.h"

/* ---- two tensors */

enum { BYTES = 1 << 15 };

/* Marks each byte of a tensor's elements, or finds one that is marked. */
static bool walk(const falt_tensor *t, int64_t data, uint8_t *marks, bool find) {
  const int64_t bytes = (int64_t)falt_type_size(t->type);
  int64_t i[FALT_DIMS] = {0};
  for (;;) {
    int64_t at = t->offset;
    for (int d = 0; d < FALT_DIMS; d++) at += i[d] * t->stride[d];
    for (int64_t b = 0; b < bytes; b++) {
      assert_in_range(data + at * bytes + b, 0, BYTES - 1);
      if (find && marks[data + at * bytes + b]) return true;
      if (!find) marks[data + at * bytes + b] = 1;
    }
    int d = FALT_DIMS - 1;
    while (d >= 0 && ++i[d] == t->size[d]) i[d--] = 0;
    if (d < 0) return false;
  }
}

static falt_tensor random_tensor(uint64_t *state) {
  static const falt_type types[] = {FALT_U8, FALT_BF16, FALT_F32, FALT_F64};
  falt_tensor t = {.type = types[falt_random_int(state, 0, 3)]};
  const int64_t most = falt_random_int(state, 1, 60);
  for (int d = 0; d < FALT_DIMS; d++) {
    t.size[d] = falt_random_int(state, 0, 2) ? falt_random_int(state, 1, 4) : 1;
    t.stride[d] = falt_random_int(state, -most, most);
    if (t.stride[d] < 0) t.offset -= (t.size[d] - 1) * t.stride[d];
  }
  return t;
}

static void test_against_counting(UNUSED void **state) {
  static uint8_t marks[BYTES];
  uint64_t random = 7;
  int shared = 0, apart = 0;
  for (int round = 0; round < 20000; round++) {
    const falt_tensor a = random_tensor(&random), b = random_tensor(&random);
    const int64_t a_data = falt_random_int(&random, 0, 2000), b_data = falt_random_int(&random, 0, 2000);
    memset(marks, 0, sizeof marks);
    walk(&a, a_data, marks, false);
    const bool expected = walk(&b, b_data, marks, true);
    if (falt_tensors_overlap(&a, marks + a_data, &b, marks + b_data) != expected) fail_msg("round %d", round);
    assert_int_equal(falt_tensors_overlap(&b, marks + b_data, &a, marks + a_data), expected);
    shared += expected;
    apart += !expected;
  }
  print_message("%d share an element, %d do not\n", shared, apart);
  assert_true(shared > 1000 && apart > 1000);
}

static falt_tensor view(falt_type type, int64_t height, int64_t width, int64_t pitch, int64_t step, int64_t offset) {
  return (falt_tensor){
      .type = type, .size = {1, 1, 1, 1, height, width}, .stride = {0, 0, 0, 0, pitch, step}, .offset = offset};
}

/* Large views of one buffer: their elements cannot be counted, the answer is known. */
static void test_large_views(UNUSED void **state) {
  const struct {
    falt_tensor a, b;
    bool shared;
  } views[] = {
      {view(FALT_U8, 4000, 4000, 12000, 3, 0), view(FALT_U8, 4000, 4000, 12000, 3, 1), false},
      {view(FALT_U8, 4000, 4000, 12000, 3, 0), view(FALT_U8, 4000, 4000, 12000, 3, 3), true},
      {view(FALT_U8, 4000, 4000, 12001, 3, 0), view(FALT_U8, 4000, 4000, 12001, 3, 1), false},
      {view(FALT_F32, 4000, 2000, 4000, 1, 0), view(FALT_F32, 4000, 2000, 4000, 1, 2000), false},
      {view(FALT_F32, 4000, 2000, 4000, 1, 0), view(FALT_F32, 4000, 2001, 4000, 1, 1999), true},
      {view(FALT_F32, 2000, 4000, 8000, 1, 0), view(FALT_F32, 2000, 4000, 8000, 1, 4000), false},
      {view(FALT_F32, 4000, 4000, 4000, 1, 0), view(FALT_F32, 4000, 4000, -4000, -1, 15999999), true},
      {view(FALT_F32, 1, 1 << 30, 0, 2, 0), view(FALT_U8, 1, 1 << 30, 0, 8, 4), false},
      {view(FALT_F32, 1, 1 << 30, 0, 2, 0), view(FALT_U8, 1, 1 << 30, 0, 8, 3), true},
  };
  static char data;
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    if (falt_tensors_overlap(&views[i].a, &data, &views[i].b, &data) != views[i].shared) fail_msg("views %zu", i);
}

/* ---- executions */

static falt_plan *plan_for(falt_device *device, const falt_problem *problem) {
  falt_plan *plan;
  if (falt_plan_create(&plan, device, problem, NULL, NULL) != FALT_OK) fail_msg("%s", falt_message());
  return plan;
}

static void expect_refusal(const falt_plan *plan, const falt_operands *operands, const char *one, const char *other) {
  assert_int_equal(falt_execute(plan, operands), FALT_INVALID_ARGUMENT);
  expect_message(one);
  expect_message(other);
  assert_int_equal(falt_execute_host(plan, operands), FALT_INVALID_ARGUMENT);
  expect_message(one);
}

static void test_refusals(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  falt_problem problem = parse("forward n=1 c=4 h=8 w=8 k=4 r=3 s=3 pad=1 bias=1 residual=1");
  falt_plan *plan = plan_for(device, &problem);
  static float x[4 * 64], w[4 * 4 * 9 + 256], y[4 * 64 + 1], z[4 * 64], b[4];
  char *workspace = falt_alloc_zero(falt_plan_workspace(plan) + FALT_ALIGN);
  const falt_operands good = {x, w, y, b, NULL, z, workspace, NULL};
  falt_operands bad = good;
  assert_int_equal(falt_execute(plan, &good), FALT_OK);
  bad.output = x + 255;
  expect_refusal(plan, &bad, "operands.input", "operands.output");
  bad.output = w + 4;
  expect_refusal(plan, &bad, "operands.filter", "operands.output");
  bad = good;
  bad.bias = y + 252;
  expect_refusal(plan, &bad, "operands.output", "operands.bias");
  bad = good;
  bad.residual = y + 1;
  expect_refusal(plan, &bad, "operands.output", "operands.residual");
  bad.residual = y;
  assert_int_equal(falt_execute(plan, &bad), FALT_OK);
  falt_plan_destroy(&plan);
  for (int axis = FALT_H; axis <= FALT_W; axis++) /* rows become columns: the output's elements in another order */
    problem.residual.stride[axis] = problem.output.stride[axis == FALT_H ? FALT_W : FALT_H];
  plan = plan_for(device, &problem);
  falt_free(workspace);
  bad.workspace = workspace = falt_alloc_zero(falt_plan_workspace(plan) + FALT_ALIGN);
  expect_refusal(plan, &bad, "operands.output", "operands.residual");
  bad.residual = z;
  assert_int_equal(falt_execute(plan, &bad), FALT_OK);
  falt_plan_destroy(&plan);
  falt_free(workspace);

  problem = parse("backward-filter n=1 c=4 h=8 w=8 k=4 r=3 s=3 pad=1 bias=1");
  plan = plan_for(device, &problem);
  workspace = falt_alloc_zero(falt_plan_workspace(plan) + FALT_ALIGN);
  bad = (falt_operands){x, w, y, x, NULL, NULL, workspace, NULL};
  expect_refusal(plan, &bad, "operands.input", "operands.bias"); /* db */
  bad.bias = w;
  expect_refusal(plan, &bad, "operands.filter", "operands.bias");
  bad.bias = b;
  assert_int_equal(falt_execute(plan, &bad), FALT_OK);
  falt_plan_destroy(&plan);
  falt_free(workspace);
  falt_device_destroy(&device);
}

/* A workspace on an operand, of a plan that has one. */
static void test_workspace(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  falt_problem problem = parse("forward n=3 c=32 h=7 w=7 k=24 r=3 s=3 pad=1 type=f32");
  falt_plan *plan = plan_for(device, &problem);
  const size_t bytes = falt_plan_workspace(plan);
  assert_true(bytes > 0);
  static float w[32 * 24 * 9], y[3 * 24 * 49];
  char *room = falt_alloc_zero(bytes + sizeof(float) * 3 * 32 * 49 + FALT_ALIGN);
  falt_operands operands = {.input = room + bytes, .filter = w, .output = y, .workspace = room};
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  operands.input = room + bytes - 4;
  expect_refusal(plan, &operands, "operands.workspace", "operands.input");
  falt_free(room);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

/* From one channel of interleaved pixels into another, and from a tile of an image into the next. */
static void test_slices(UNUSED void **state) {
  uint8_t pixels[6 * 7 * 3], before[sizeof pixels];
  const uint8_t one[1] = {1};
  for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)i;
  memcpy(before, pixels, sizeof pixels);
  falt_array red = falt_image(pixels, FALT_U8, 6, 7, 1, 21), blue = falt_image(pixels + 2, FALT_U8, 6, 7, 1, 21);
  red.tensor.stride[FALT_W] = blue.tensor.stride[FALT_W] = 3;
  const falt_const_array from = falt_const(red), tap = falt_const_volume(one, FALT_U8, 1, 1, 1);
  assert_int_equal(falt_correlate(&from, &tap, &blue, NULL), FALT_OK);
  for (size_t i = 0; i < sizeof pixels; i++) assert_int_equal(pixels[i], before[i % 3 == 2 ? i - 2 : i]);
  const falt_array right = falt_image(pixels + 9, FALT_U8, 6, 3, 3, 21);
  const falt_const_array left = falt_const_image(pixels, FALT_U8, 6, 3, 3, 21);
  assert_int_equal(falt_correlate(&left, &tap, &right, NULL), FALT_OK);
  for (int y = 0; y < 6; y++) assert_memory_equal(pixels + 21 * y, pixels + 21 * y + 9, 9);
  const falt_array over = falt_image(pixels + 8, FALT_U8, 6, 3, 3, 21);
  assert_int_equal(falt_correlate(&left, &tap, &over, NULL), FALT_INVALID_ARGUMENT);
  expect_message("overlaps src");
}

/* ---- sums in place */

static void *random_room(const falt_plan *plan, const char *operand, falt_type type, uint64_t seed) {
  const size_t bytes = falt_plan_bytes(plan, operand);
  void *memory = falt_alloc_zero(bytes);
  assert_non_null(memory);
  falt_random_fill(memory, type, (int64_t)(bytes / falt_type_size(type)), seed);
  return memory;
}

static int wrong;

/* True if the solver applies: the same bits with the residual apart and as the output. */
static bool sums_in_place(falt_device *device, const char *solver, falt_problem problem, const char *line) {
  falt_budget budget;
  falt_plan *plan;
  if (!problem.has_residual || problem.residual.type != problem.output.type) return false;
  falt_budget_default(&budget);
  budget.max_error = 1;
  budget.deterministic = true;
  snprintf(budget.method, sizeof budget.method, "%s", solver);
  if (falt_plan_create(&plan, device, &problem, &budget, NULL) != FALT_OK) return false;
  const falt_type scale = problem.output.type == FALT_F64 ? FALT_F64 : FALT_F32;
  falt_operands o = {.input = random_room(plan, "input", problem.input.type, 1),
                     .filter = random_room(plan, "filter", problem.filter.type, 2),
                     .output = random_room(plan, "output", problem.output.type, 3),
                     .bias = random_room(plan, "bias", scale, 4),
                     .scale = random_room(plan, "scale", scale, 5),
                     .residual = random_room(plan, "residual", problem.output.type, 6),
                     .workspace = falt_alloc_zero(falt_plan_workspace(plan))};
  falt_operands in_place = o;
  in_place.output = in_place.residual;
  memcpy(o.output, o.residual, falt_plan_bytes(plan, "output")); /* gaps between elements stay as they are */
  assert_int_equal(falt_execute(plan, &o), FALT_OK);
  assert_int_equal(falt_execute(plan, &in_place), FALT_OK);
  if (memcmp(o.output, in_place.output, falt_plan_bytes(plan, "output")) != 0) {
    print_error("%s: writes an element before it reads the residual's: %s\n", solver, line);
    wrong++;
  }
  void *const all[] = {o.input, o.filter, o.output, o.bias, o.scale, o.residual, o.workspace};
  for (int i = 0; i < 7; i++) falt_free(all[i]);
  falt_plan_destroy(&plan);
  return true;
}

static void test_sums_in_place(UNUSED void **state) {
  enum { MOST_RUNS = FALT_ANY_SANITIZER ? 4 : SOLVER_LINES }; /* of a solver */
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
    if (!falt_isa_runs((falt_isa)isa)) continue;
    falt_device *device = device_with(falt_isa_name((falt_isa)isa), 2);
    int solvers = 0;
    for (int s = 0; falt_solvers[s]; s++) {
      int runs = 0;
      if (strcmp(falt_solvers[s]->device_kind, "cpu") != 0) continue;
      for (int i = 0; i < SOLVER_LINES && runs < MOST_RUNS; i++)
        runs += sums_in_place(device, falt_solvers[s]->name, parse(solver_lines[i]), solver_lines[i]);
      solvers += runs > 0;
    }
    print_message("%s: %d solvers\n", falt_isa_name((falt_isa)isa), solvers);
    assert_true(solvers >= 7);
    falt_device_destroy(&device);
  }
  assert_int_equal(wrong, 0);
}

/* Sizes that no tile divides, strides, boundaries and types of all kinds. */
static void test_random_sums_in_place(UNUSED void **state) {
  enum { SEEDS = FALT_ANY_SANITIZER ? 100 : 400 };
  falt_device *device = device_with("", 3);
  int runs = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    char line[2048];
    assert_true(falt_problem_random(seed, line, sizeof line) < sizeof line);
    falt_problem problem;
    falt_budget budget; /* whose words a line may have */
    assert_int_equal(falt_problem_parse(&problem, &budget, line), FALT_OK);
    if (problem.operation != FALT_FORWARD || falt_problem_pools(&problem)) continue;
    problem.has_residual = true;
    problem.residual = problem.output;
    problem.filter_when = FALT_FILTER_AUTO;
    if (falt_problem_check(&problem) != FALT_OK) continue;
    for (int s = 0; falt_solvers[s]; s++)
      if (strcmp(falt_solvers[s]->device_kind, "cpu") == 0)
        runs += sums_in_place(device, falt_solvers[s]->name, problem, line);
  }
  print_message("%d sums in place\n", runs);
  assert_true(runs > SEEDS * 3 / 4);
  assert_int_equal(wrong, 0);
  falt_device_destroy(&device);
}

/* What the checks cost: an execution of nearly nothing. Generous, for sanitizers and busy machines. */
static void test_execution_is_quick(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  falt_problem problem = parse("correlate w=1 s=1");
  falt_plan *plan = plan_for(device, &problem);
  float x[1] = {1}, w[1] = {1}, y[1];
  const falt_operands operands = {.input = x, .filter = w, .output = y};
  double best = 1;
  for (int i = 0; i < 200; i++) {
    const double start = falt_seconds();
    for (int j = 0; j < 100; j++) falt_execute(plan, &operands);
    const double seconds = (falt_seconds() - start) / 100;
    if (seconds < best) best = seconds;
  }
  print_message("an execution of one product takes %.0f ns\n", best * 1e9);
  assert_true(best < 2e-5);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_against_counting, set_up),
      cmocka_unit_test_setup(test_large_views, set_up),
      cmocka_unit_test_setup(test_refusals, set_up),
      cmocka_unit_test_setup(test_workspace, set_up),
      cmocka_unit_test_setup(test_slices, set_up),
      cmocka_unit_test_setup(test_sums_in_place, set_up),
      cmocka_unit_test_setup(test_execution_is_quick, set_up),
      cmocka_unit_test_setup(test_random_sums_in_place, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
