/* Tests of slabs: how problems are cut, and that results computed slab by slab are those of the whole, on a CPU device
 * that pretends to have memory and queues of its own. */
#include "counted_memory.h"

#include <math.h>
#include <pthread.h>

#include "api/slabs.h"
#include "core/clock.h"
#include "core/memory.h"
#include "planner/planner.h"

/* ------------------------------------------------------------------------------------------- a made-up device */

static int failing_mark, marks_set; /* of one thread at a time: the pipeline is locked */
static const void *pinned_array;

static falt_status nothing(UNUSED falt_device *device) {
  return FALT_OK;
}

static falt_status room(UNUSED falt_device *device, size_t *bytes) {
  *bytes = (size_t)1 << 30;
  return FALT_OK;
}

static bool pinned(UNUSED falt_device *device, UNUSED const void *memory) {
  return pinned_array != NULL;
}

static falt_status open_queue(UNUSED falt_device *device, void **queue) {
  return allocate(device, queue, 1);
}

static falt_status queue_copy(falt_device *device, void *to, const void *from, size_t bytes, void *queue) {
  assert_non_null(queue);
  return copy(device, to, from, bytes);
}

static falt_status make_mark(falt_device *device, void **mark) {
  return allocate(device, mark, sizeof(double));
}

static falt_status set_mark(UNUSED falt_device *device, void *mark, void *queue) {
  assert_non_null(queue);
  if (++marks_set == failing_mark) return falt_fail(FALT_NO_DEVICE, "device: lost");
  *(double *)mark = falt_seconds();
  return FALT_OK;
}

static falt_status follow(UNUSED falt_device *device, void *queue, void *mark) {
  assert_true(queue && mark);
  return FALT_OK;
}

static falt_status wait_for(UNUSED falt_device *device, void *mark) {
  assert_true(*(double *)mark > 0);
  return FALT_OK;
}

static double between(UNUSED falt_device *device, void *begin, void *end) {
  return *(double *)end - *(double *)begin;
}

static const falt_device_memory memory = {.allocate = allocate,
                                          .release = release,
                                          .copy_in = copy,
                                          .copy_out = copy,
                                          .synchronize = nothing,
                                          .trouble = nothing};
static const falt_device_queues queues = {.room = room,
                                          .pin = allocate,
                                          .unpin = release,
                                          .pinned = pinned,
                                          .open = open_queue,
                                          .close = release,
                                          .make_mark = make_mark,
                                          .free_mark = release,
                                          .copy_in = queue_copy,
                                          .copy_out = queue_copy,
                                          .mark = set_mark,
                                          .follow = follow,
                                          .wait = wait_for,
                                          .between = between};

static falt_device *pretend(int64_t max_memory) {
  falt_device *device = device_with("", 2);
  device->memory = &memory;
  device->queues = &queues;
  device->max_memory = max_memory;
  return device;
}

/* ------------------------------------------------------------------------------------------------- results */

typedef struct arrays {
  void *memory[6];
  size_t bytes[6];
  falt_operands set;
} arrays;

static void *provide(arrays *a, int i, falt_type type, int64_t count, uint64_t seed) {
  a->bytes[i] = (size_t)count * falt_type_size(type);
  a->memory[i] = falt_alloc(a->bytes[i]);
  falt_random_fill(a->memory[i], type, count, seed);
  return a->memory[i];
}

static arrays arrays_of(const falt_problem *p) {
  arrays a = {.set = {.input = NULL}};
  const int64_t vector = p->filter.size[FALT_G] * p->filter.size[FALT_K];
  a.set.input = provide(&a, 0, p->input.type, falt_tensor_span(&p->input), 1);
  a.set.filter = provide(&a, 1, p->filter.type, falt_tensor_span(&p->filter), 2);
  a.set.output = provide(&a, 2, p->output.type, falt_tensor_span(&p->output), 3);
  a.set.bias = provide(&a, 3, FALT_F32, vector, 4);
  a.set.scale = provide(&a, 4, FALT_F32, vector, 5);
  a.set.residual = provide(&a, 5, p->residual.type, p->has_residual ? falt_tensor_span(&p->residual) : 1, 6);
  return a;
}

static void free_arrays(arrays *a) {
  for (int i = 0; i < 6; i++) falt_free(a->memory[i]);
}

static int result_of(const falt_problem *p) {
  return falt_problem_result(p) == &p->input ? 0 : falt_problem_result(p) == &p->filter ? 1 : 2;
}

/* Every byte of the result is compared where sums are exact, gaps included; floats may round differently in a slab. */
static void expect_same(const falt_problem *p, const arrays *expected, const arrays *got, const char *line) {
  const int result = result_of(p);
  const falt_type type = falt_problem_result(p)->type;
  if (type != FALT_F32 && type != FALT_F64) {
    if (memcmp(expected->memory[result], got->memory[result], got->bytes[result]) != 0) fail_msg("%s: differs", line);
    return;
  }
  for (int64_t i = 0; i < (int64_t)(got->bytes[result] / falt_type_size(type)); i++) {
    const double a = falt_load(expected->memory[result], type, i), b = falt_load(got->memory[result], type, i);
    if (!(fabs(a - b) <= 1e-4 * (1 + fabs(a)))) fail_msg("%s: element %lld is %g, not %g", line, (long long)i, b, a);
  }
}

/* The result of the line in slabs within max_memory, against the whole on a plain CPU. Returns the number of slabs. */
static int64_t compare(const char *line, int64_t max_memory, bool known_filter) {
  const falt_problem p = parse(line);
  falt_device *plain = device_with("", 1), *device = pretend(max_memory);
  arrays expected = arrays_of(&p), got = arrays_of(&p);
  const void *values = known_filter ? expected.set.filter : NULL;
  falt_plan *plan;
  falt_stages stages;
  assert_int_equal(falt_plan_create(&plan, plain, &p, NULL, values), FALT_OK);
  assert_int_equal(falt_execute_host(plan, &expected.set), FALT_OK);
  falt_plan_destroy(&plan);
  assert_int_equal(falt_plan_create(&plan, device, &p, NULL, values), FALT_OK);
  for (int i = 0; i < 2; i++) {
    if (falt_execute_stages(plan, &got.set, &stages) != FALT_OK) fail_msg("%s: %s", line, falt_message());
    expect_same(&p, &expected, &got, line);
  }
  falt_plan_destroy(&plan);
  falt_device_destroy(&plain);
  falt_device_destroy(&device);
  free_arrays(&expected);
  free_arrays(&got);
  assert_int_equal(live, 0);
  return stages.slabs;
}

static const char *const boundaries[] = {"constant",        "constant=7",      "edge",
                                         "symmetric",       "reflect101",      "wrap",
                                         "wrap:constant=3", "edge:reflect101", "constant=2:symmetric"};
enum { BOUNDARIES = sizeof boundaries / sizeof *boundaries };

static void test_boundaries(UNUSED void **state) {
  static const char *const shapes[] = {
      "correlate h=97 w=64 r=5 s=3 type=u8",   "correlate h=97 w=64 r=4 s=3 type=u8 dilation=3x1 stride=2 anchor=3x0",
      "correlate h=60 w=50 r=3 s=3 mode=full", "correlate h=90 w=20 r=3 s=3 mode=valid pixel=3 type=u8",
      "convolve w=4001 s=9 type=s16",          "correlate d=31 h=9 w=11 t=3 r=3 s=3",
      "correlate h=50 w=40 r=71 s=1",
  };
  char line[256];
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int b = 0; b < BOUNDARIES; b++)
      for (int64_t most = 3000; most < 100000; most *= 3) {
        snprintf(line, sizeof line, "%s boundary=%s", shapes[i], boundaries[b]);
        compare(line, most, b % 2);
      }
}

static void test_cuts(UNUSED void **state) {
  assert_true(compare("correlate h=97 w=64 r=5 s=5 boundary=wrap", 30000, true) > 5);
  assert_true(compare("correlate n=5 c=3 h=40 w=40 r=5 s=5 boundary=edge", 30000, true) > 15);
  assert_true(compare("correlate n=7 h=40 w=40 r=5 s=5 boundary=edge", 100000, true) == 4);
  assert_true(compare("forward n=9 c=4 h=10 w=10 k=3 r=3 s=3 pad=1 bias=1 residual=1 act=relu", 40000, false) > 2);
  assert_true(compare("forward c=4 h=50 w=10 k=3 r=3 s=3 pad=1 bias=1 residual=1 layout=nhwc stride=2", 9000, true) >
              2);
  assert_true(compare("forward c=4 h=50 w=10 k=3 r=3 s=3 pad=1", 9000, true) == 1); /* channels are outermost */
  assert_true(compare("backward-data n=9 c=4 h=10 w=10 k=3 r=3 s=3 pad=1", 30000, false) > 2);
  assert_true(compare("backward-filter n=9 c=4 h=10 w=10 k=3 r=3 s=3 pad=1", 30000, false) == 1);
  assert_true(compare("maxpool n=9 c=4 h=10 w=10 r=2 s=2 stride=2", 10000, false) > 2);
  assert_true(compare("backward-avgpool n=9 c=4 h=10 w=10 r=2 s=2 stride=2", 10000, false) > 2);
  assert_true(compare("correlate h=97 w=64 r=5 s=5 boundary=wrap", 0, true) == 1);
}

/* Rows with a pitch: what lies between them stays. */
static void test_pitch(UNUSED void **state) {
  falt_problem p = parse("correlate h=50 w=30 r=3 s=3 boundary=symmetric type=u8");
  falt_device *plain = device_with("", 1), *device = pretend(4000);
  p.input.stride[FALT_H] = 100;
  p.input.offset = 17;
  p.output.stride[FALT_H] = 41;
  p.output.offset = 5;
  arrays expected = arrays_of(&p), got = arrays_of(&p);
  falt_plan *a, *b;
  falt_stages stages;
  assert_int_equal(falt_plan_create(&a, plain, &p, NULL, expected.set.filter), FALT_OK);
  assert_int_equal(falt_plan_create(&b, device, &p, NULL, expected.set.filter), FALT_OK);
  for (int round = 0; round < 2; round++) {
    pinned_array = round ? got.set.input : NULL;
    assert_int_equal(falt_execute_host(a, &expected.set), FALT_OK);
    assert_int_equal(falt_execute_stages(b, &got.set, &stages), FALT_OK);
    assert_true(stages.slabs > 2 && stages.seconds > 0 && stages.bytes_in >= 50 * 30);
    expect_same(&p, &expected, &got, "pitch");
  }
  pinned_array = NULL;
  falt_plan_destroy(&a);
  falt_plan_destroy(&b);
  falt_device_destroy(&plain);
  falt_device_destroy(&device);
  free_arrays(&expected);
  free_arrays(&got);
}

/* Memory that copies reach directly is not staged. */
static void test_pinned(UNUSED void **state) {
  pinned_array = "all";
  for (int b = 0; b < BOUNDARIES; b++) {
    char line[128];
    snprintf(line, sizeof line, "correlate h=97 w=64 r=5 s=3 type=u8 boundary=%s", boundaries[b]);
    assert_true(compare(line, 10000, true) > 2);
  }
  pinned_array = NULL;
}

/* Whatever fails, and wherever: a status, and nothing is left behind. */
static void test_failures(UNUSED void **state) {
  const falt_problem p = parse("correlate h=97 w=64 r=5 s=5 boundary=wrap");
  arrays a = arrays_of(&p);
  falt_plan *plan;
  for (int64_t n = 0; n < 60; n++) {
    falt_device *device = pretend(30000);
    assert_int_equal(falt_plan_create(&plan, device, &p, NULL, a.set.filter), FALT_OK);
    falt_alloc_fail_after(n);
    const falt_status status = falt_execute_host(plan, &a.set);
    falt_alloc_fail_after(-1);
    assert_true(status == FALT_OK || status == FALT_NO_MEMORY);
    assert_int_equal(falt_execute_host(plan, &a.set), FALT_OK);
    falt_plan_destroy(&plan);
    falt_device_destroy(&device);
    assert_int_equal(live, 0);
  }
  falt_device *device = pretend(30000);
  assert_int_equal(falt_plan_create(&plan, device, &p, NULL, a.set.filter), FALT_OK);
  for (failing_mark = 1; failing_mark < 20; failing_mark++) {
    marks_set = 0;
    assert_int_equal(falt_execute_host(plan, &a.set), FALT_NO_DEVICE);
  }
  failing_mark = 0;
  falt_operands none = a.set;
  none.input = NULL;
  assert_int_equal(falt_execute_host(plan, &none), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_execute_stages(plan, &a.set, NULL), FALT_INVALID_ARGUMENT);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
  free_arrays(&a);
  assert_int_equal(live, 0);
}

/* ------------------------------------------------------------------------------------------------- threads */

typedef struct worker {
  pthread_t thread;
  const falt_plan *plan;
  arrays a;
  falt_status status;
} worker;

static void *work(void *context) {
  worker *w = context;
  for (int i = 0; i < 20 && w->status == FALT_OK; i++) w->status = falt_execute_host(w->plan, &w->a.set);
  return NULL;
}

/* Threads that share a plan and its device take turns. */
static void test_threads(UNUSED void **state) {
  enum { WORKERS = 4 };
  const falt_problem p = parse("correlate h=97 w=64 r=5 s=5 boundary=wrap");
  falt_device *device = pretend(30000);
  worker workers[WORKERS];
  falt_plan *plan;
  arrays filter = arrays_of(&p);
  assert_int_equal(falt_plan_create(&plan, device, &p, NULL, filter.set.filter), FALT_OK);
  for (int i = 0; i < WORKERS; i++) {
    workers[i] = (worker){.plan = plan, .a = arrays_of(&p), .status = FALT_OK};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < WORKERS; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_int_equal(workers[i].status, FALT_OK);
    expect_same(&p, &workers[0].a, &workers[i].a, "threads");
  }
  for (int i = 0; i < WORKERS; i++) free_arrays(&workers[i].a);
  free_arrays(&filter);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

/* ---------------------------------------------------------------------------------------------------- parts */

static void expect_part(const char *line, int64_t begin, int64_t count, int64_t first, int64_t last) {
  const falt_problem p = parse(line);
  falt_part part;
  assert_int_equal(falt_problem_part(&part, &p, 2, begin, count), FALT_OK);
  assert_int_equal(part.first, first);
  assert_int_equal(part.last, last);
  assert_int_equal(falt_problem_check(&part.problem), FALT_OK);
}

static void test_parts(UNUSED void **state) {
  expect_part("correlate w=100 s=5 boundary=wrap", 0, 100, 0, 100);
  expect_part("correlate w=100 s=5 boundary=wrap", 0, 10, -2, 12);
  expect_part("correlate w=100 s=5 boundary=wrap", 90, 10, 88, 102);
  expect_part("correlate w=100 s=5 boundary=constant", 0, 10, 0, 12);
  expect_part("correlate w=100 s=5 boundary=constant:edge", 90, 10, 88, 102);
  expect_part("correlate w=100 s=5 stride=3 dilation=2", 4, 2, 8, 20);
  const falt_problem p = parse("correlate w=100 s=5 boundary=symmetric:wrap");
  const falt_problem back = parse("backward-data n=2 c=3 h=9 w=8 k=4 r=3 s=3");
  falt_part part;
  assert_int_equal(falt_problem_row(&p, 2, -1), 0);
  assert_int_equal(falt_problem_row(&p, 2, -2), 1);
  assert_int_equal(falt_problem_row(&p, 2, 100), 0);
  assert_int_equal(falt_problem_part(&part, &p, 2, 95, 6), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_problem_part(&part, &p, 3, 0, 6), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_problem_part(&part, &p, 2, 0, 0), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_problem_part(&part, &back, 2, 0, 1), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_problem_part(NULL, &p, 2, 0, 1), FALT_INVALID_ARGUMENT);
}

/* ------------------------------------------------------------------------------- interrupts and progress */

typedef struct watch_slabs {
  falt_device *device;
  double last;
  int calls;
  bool interrupts;
} watch_slabs;

static bool note_slabs(void *context, const char *phase, double done) {
  watch_slabs *w = context;
  assert_string_equal(phase, "execute");
  assert_true(done >= w->last && done <= 1);
  w->last = done;
  w->calls++;
  if (w->interrupts && w->calls == 2) falt_device_interrupt(w->device);
  return true;
}

/* In many slabs of an execution of over a second: told of it, then interrupted, then as before. */
static void test_interrupt(UNUSED void **state) {
  falt_device *device = pretend(3 << 20);
  watch_slabs w = {.device = device};
  falt_problem problem = parse("correlate h=4000 w=1000 r=31 s=31 boundary=wrap");
  falt_budget budget;
  falt_plan *plan;
  falt_stages stages;
  falt_budget_default(&budget);
  strcpy(budget.method, "generic");
  assert_int_equal(falt_plan_create(&plan, device, &problem, &budget, NULL), FALT_OK);
  arrays a = arrays_of(&problem);
  falt_device_progress(device, note_slabs, &w);
  assert_int_equal(falt_execute_stages(plan, &a.set, &stages), FALT_OK);
  const int64_t slabs = stages.slabs;
  const size_t bytes = a.bytes[2];
  assert_true(slabs > 4);
  if (stages.seconds > 1) assert_true(w.calls > 2);
  if (w.calls) assert_true(w.last == 1);
  float *expected = falt_alloc(bytes);
  memcpy(expected, a.memory[2], bytes);
  w = (watch_slabs){.device = device, .interrupts = true};
  const falt_status status = falt_execute_stages(plan, &a.set, &stages);
  if (w.calls >= 2) {
    assert_int_equal(status, FALT_CANCELLED);
    assert_true(stages.slabs < slabs);
  }
  falt_device_resume(device);
  falt_device_progress(device, NULL, NULL);
  memset(a.memory[2], 0xff, bytes);
  assert_int_equal(falt_execute_stages(plan, &a.set, &stages), FALT_OK);
  assert_int_equal(stages.slabs, slabs);
  assert_memory_equal(a.memory[2], expected, bytes);
  falt_free(expected);
  free_arrays(&a);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
  assert_int_equal(live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_boundaries, set_up), cmocka_unit_test_setup(test_cuts, set_up),
      cmocka_unit_test_setup(test_pitch, set_up),      cmocka_unit_test_setup(test_pinned, set_up),
      cmocka_unit_test_setup(test_failures, set_up),   cmocka_unit_test_setup(test_parts, set_up),
      cmocka_unit_test_setup(test_threads, set_up),    cmocka_unit_test_setup(test_interrupt, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
