/* Tests of devices with memory of their own, on a CPU device that pretends to have some: staging for falt_execute_host,
 * guards for falt_verify, operands for falt_plan_time's trials, and that nothing is left allocated. */
#include "counted_memory.h"

#include <unistd.h>

#include "core/memory.h"
#include "planner/planner.h"

static int waits;

static falt_status wait_for(UNUSED falt_device *device) {
  waits++;
  return FALT_OK;
}

static falt_status trouble(UNUSED falt_device *device) {
  return FALT_OK;
}

static const falt_device_memory own = {.allocate = allocate,
                                       .release = release,
                                       .copy_in = copy,
                                       .copy_out = copy,
                                       .synchronize = wait_for,
                                       .trouble = trouble};
static falt_status lose(UNUSED falt_device *device) {
  return falt_fail(FALT_NO_DEVICE, "device: lost");
}
static const falt_device_memory lost = {.allocate = allocate,
                                        .release = release,
                                        .copy_in = copy,
                                        .copy_out = copy,
                                        .synchronize = wait_for,
                                        .trouble = lose};

static bool reach_nothing(UNUSED falt_device *device, UNUSED const void *memory) {
  return false;
}

/* Pointers that kernels cannot follow are refused before anything runs. */
static void test_reach(UNUSED void **state) {
  falt_device_memory far = own;
  falt_device *device = device_with("", 1);
  const falt_problem problem = parse("correlate h=3 w=4 r=3 s=3");
  float x[12] = {0}, w[9] = {0}, y[12];
  falt_plan *plan;
  far.reaches = reach_nothing;
  assert_int_equal(falt_plan_create(&plan, device, &problem, NULL, w), FALT_OK);
  device->memory = &far;
  assert_int_equal(falt_execute(plan, &(falt_operands){.input = x, .output = y}), FALT_INVALID_ARGUMENT);
  expect_message("operands.input");
  device->memory = NULL;
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

static void test_memory(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  for (int i = 0; i < 2; i++) {
    int32_t in[3] = {1, 2, 3}, out[3] = {0};
    void *memory;
    device->memory = i ? &own : NULL;
    assert_int_equal(falt_device_alloc(device, &memory, sizeof in), FALT_OK);
    assert_int_equal(falt_device_write(device, memory, in, sizeof in), FALT_OK);
    assert_int_equal(falt_device_read(device, out, memory, sizeof out), FALT_OK);
    assert_int_equal(falt_device_synchronize(device), FALT_OK);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(live, i);
    falt_device_free(device, &memory);
    assert_null(memory);
  }
  assert_int_equal(falt_device_alloc(device, NULL, 1), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_device_synchronize(NULL), FALT_INVALID_ARGUMENT);
  falt_device_destroy(&device);
}

static const char *const lines[] = {
    "correlate h=30 w=40 r=3 s=3 boundary=wrap",         "forward n=2 c=3 h=9 w=8 k=4 r=3 s=3 pad=1 bias=1 act=relu",
    "backward-data n=2 c=3 h=9 w=8 k=4 r=3 s=3 pad=1",   "backward-filter n=2 c=3 h=9 w=8 k=4 r=3 s=3 pad=1 bias=1",
    "maxpool n=1 c=2 h=8 w=8 r=2 s=2 stride=2",          "avgpool n=1 c=2 h=8 w=8 r=2 s=2 stride=2",
    "backward-maxpool n=1 c=2 h=8 w=8 r=2 s=2 stride=2", "backward-avgpool n=1 c=2 h=8 w=8 r=2 s=2 stride=2",
};

/* All operands in one block of floats, so that whole blocks can be compared: every line above is f32. */
enum { ROOM = 4096, OPERANDS = 6 };

static void fill(float *block) {
  falt_random_fill(block, FALT_F32, ROOM * OPERANDS, 7);
}

static falt_operands within(float *block) {
  return (falt_operands){.input = block,
                         .filter = block + ROOM,
                         .output = block + 2 * ROOM,
                         .bias = block + 3 * ROOM,
                         .scale = block + 4 * ROOM,
                         .residual = block + 5 * ROOM};
}

static void test_execute_host(UNUSED void **state) {
  static float here[ROOM * OPERANDS], there[ROOM * OPERANDS], before[ROOM * OPERANDS];
  falt_device *device = device_with("", 1);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    const falt_problem problem = parse(lines[i]);
    falt_plan *plan;
    assert_int_equal(falt_plan_create(&plan, device, &problem, NULL, NULL), FALT_OK);
    fill(before);
    fill(here);
    fill(there);
    falt_operands operands = within(here);
    assert_int_equal(falt_execute_host(plan, &operands), FALT_OK);
    device->memory = &own;
    waits = 0;
    operands = within(there);
    assert_int_equal(falt_execute_host(plan, &operands), FALT_OK);
    assert_memory_equal(here, there, sizeof here);
    assert_true(memcmp(here, before, sizeof here) != 0 && waits > 0 && live == 0);
    device->memory = &lost;
    assert_int_equal(falt_execute_host(plan, &operands), FALT_NO_DEVICE);
    assert_int_equal(live, 0);
    device->memory = NULL;
    falt_plan_destroy(&plan);
  }
  falt_device_destroy(&device);
}

static void count_fine(void *context, const falt_verdict *verdict) {
  *(int *)context += verdict->ok;
  assert_true(verdict->ok);
}

static void count_broken(void *context, const falt_verdict *verdict) {
  *(int *)context += !verdict->ok;
}

static void test_verify(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    const falt_problem problem = parse(lines[i]);
    int fine = 0, broken = 0;
    device->memory = &own;
    assert_int_equal(falt_verify(device, &problem, NULL, 3, count_fine, &fine), FALT_OK);
    assert_true(fine >= 2 && live == 0);
    device->memory = &lost; /* an execution that fails is a wrong result */
    assert_int_equal(falt_verify(device, &problem, NULL, 3, count_broken, &broken), FALT_OK);
    assert_int_equal(broken, fine);
  }
  device->memory = NULL;
  falt_device_destroy(&device);
}

static void test_tuning(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  const falt_problem problem = parse(lines[0]);
  falt_budget budget;
  falt_plan *plan;
  falt_budget_default(&budget);
  budget.tune_seconds = 0.02;
  device->memory = &own;
  waits = 0;
  assert_int_equal(falt_plan_create(&plan, device, &problem, &budget, NULL), FALT_OK);
  assert_true(waits > 0 && live == 0);
  falt_plan_destroy(&plan);
  device->memory = NULL;
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_memory, set_up),       cmocka_unit_test_setup(test_reach, set_up),
      cmocka_unit_test_setup(test_execute_host, set_up), cmocka_unit_test_setup(test_verify, set_up),
      cmocka_unit_test_setup(test_tuning, set_up),
  };
  if (!mkdtemp(directory)) return 1;
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  set_up(NULL);
  return failed || rmdir(directory) != 0;
}
