/* Executions allocate nothing and start no thread, the first one included: each CPU solver on a device of its own,
 * with a counting allocator. */
#include "api_fixture.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/sanitize.h"
#include "planner/search.h"
#include "solver_lines.h"

/* ---- counting */

static atomic_long calls;

/* Sanitizers bring their own allocator. There the count stays 0 and falt_alloc's fuse is the test. */
#if defined(__GLIBC__) && !FALT_ANY_SANITIZER
#define COUNTED 1
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
  atomic_fetch_add(&calls, 1);
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  atomic_fetch_add(&calls, 1);
  return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
  atomic_fetch_add(&calls, 1);
  return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  atomic_fetch_add(&calls, 1);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  atomic_fetch_add(&calls, 1);
  *memory = __libc_memalign(alignment, size);
  return *memory ? 0 : 12;
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
  atomic_fetch_add(&calls, 1);
  return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}
#else
#define COUNTED 0
#endif

static int threads_of_this_process(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  if (!tasks) return 0;
  while (readdir(tasks)) count++;
  closedir(tasks);
  return count;
}

/* The counters count: else every test here would pass. */
static void test_counters(UNUSED void **state) {
  if (!COUNTED) skip();
  atomic_store(&calls, 0);
  void *memory = falt_alloc(1);
  assert_int_equal(atomic_load(&calls), 1);
  falt_free(memory);
}

/* ---- problems */

static void *room(size_t bytes) {
  void *memory = falt_alloc_zero(bytes + FALT_ALIGN);
  assert_non_null(memory);
  return memory;
}

static void fill_operands(const falt_plan *plan, falt_operands *operands) {
  void **const at[] = {&operands->input, &operands->filter, &operands->output,
                       &operands->bias,  &operands->scale,  &operands->residual};
  static const char *const names[] = {"input", "filter", "output", "bias", "scale", "residual"};
  *operands = (falt_operands){0};
  for (int i = 0; i < 6; i++) *at[i] = room(falt_plan_bytes(plan, names[i]));
  operands->workspace = room(falt_plan_workspace(plan));
}

static void free_operands(falt_operands *o) {
  void *const all[] = {o->input, o->filter, o->output, o->bias, o->scale, o->residual, o->workspace};
  for (int i = 0; i < 7; i++) falt_free(all[i]);
}

static void execute_counted(const falt_plan *plan, const falt_operands *operands, const char *line) {
  const int threads = threads_of_this_process();
  for (int i = 0; i < 3; i++) {
    falt_alloc_fail_after(0); /* falt_alloc would fail */
    atomic_store(&calls, 0);
    const falt_status status = falt_execute(plan, operands);
    const long counted = atomic_load(&calls);
    falt_alloc_fail_after(-1);
    if (status != FALT_OK) fail_msg("%s: %s: %s", falt_plan_solver(plan), line, falt_message());
    if (counted) fail_msg("%s: %s: %ld allocations in execution %d", falt_plan_solver(plan), line, counted, i);
  }
  assert_true(threads_of_this_process() <= threads); /* a thread that was joined may have been listed still */
}

/* True if the solver applies. The device is new: nothing has run on its threads. */
static bool try(const char *solver, const char *line, const void *taps) {
  falt_device *device = device_with("", 3);
  falt_problem problem = parse(line);
  falt_budget budget;
  falt_plan *plan;
  falt_budget_default(&budget);
  budget.max_error = 1;
  snprintf(budget.method, sizeof budget.method, "%s", solver);
  const bool applies = falt_plan_create(&plan, device, &problem, &budget, taps) == FALT_OK;
  if (applies) {
    falt_operands operands;
    fill_operands(plan, &operands);
    execute_counted(plan, &operands, line);
    free_operands(&operands);
  }
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
  return applies;
}

static void test_every_solver(UNUSED void **state) {
  enum {
    MOST_RUNS = FALT_ANY_SANITIZER ? 4 : 2 * SOLVER_LINES
  }; /* of a solver; the slowest test of sanitized builds */
  static float taps[1 << 18];
  int missing = 0;
  for (size_t i = 0; i < sizeof taps / sizeof *taps; i++) taps[i] = 1; /* rank 1 */
  for (int s = 0; falt_solvers[s]; s++) {
    const char *name = falt_solvers[s]->name;
    int runs = 0;
    if (strcmp(falt_solvers[s]->device_kind, "cpu") != 0) continue;
    for (int i = 0; i < SOLVER_LINES && runs < MOST_RUNS; i++)
      runs += try(name, solver_lines[i], NULL) + try(name, solver_lines[i], taps);
    if (runs || solver_may_be_absent(name)) continue;
    print_error("%s: none of the problems is for it; add one\n", name);
    missing++;
  }
  assert_int_equal(missing, 0);
}

/* Neither does a convolver of rows: the first row, bands of every size, both boundaries, too little capacity. */
static void test_rows(UNUSED void **state) {
  enum { HEIGHT = 100, WIDTH = 30 };
  static uint8_t x[HEIGHT * WIDTH], y[HEIGHT * WIDTH];
  static const float taps[25] = {1, 2, 3};
  falt_device *device = device_with("", 3);
  const falt_problem problem = parse("correlate h=100 w=30 r=5 s=5 boundary=constant:edge value=0.5 type=u8");
  falt_convolver_rows *rows;
  assert_int_equal(falt_convolver_rows_create(&rows, device, &problem, NULL, taps), FALT_OK);
  for (int64_t at = 0, done = 0, count = 1; done < HEIGHT; count++) {
    int64_t taken = 0, written = 0;
    const int64_t left = at + count < HEIGHT ? count : HEIGHT - at, capacity = HEIGHT - done;
    void *const to = y + done * WIDTH;
    falt_alloc_fail_after(0);
    atomic_store(&calls, 0);
    const falt_status status = at < HEIGHT ? falt_convolver_rows_push(rows, x + at * WIDTH, left, &taken, to,
                                                                      count % 3 ? capacity : 0, &written)
                                           : falt_convolver_rows_finish(rows, to, 1, &written);
    const long counted = atomic_load(&calls);
    falt_alloc_fail_after(-1);
    if (status != FALT_OK || counted) fail_msg("row %ld: %ld allocations, %s", (long)at, counted, falt_message());
    at += taken;
    done += written;
  }
  falt_convolver_rows_destroy(&rows);
  falt_device_destroy(&device);
}

/* Devices cost no thread until something is planned. */
static void test_devices_are_idle(UNUSED void **state) {
  const int before = threads_of_this_process();
  falt_device *device = device_with("", 3);
  falt_plan *plan;
  assert_int_equal(threads_of_this_process(), before);
  assert_int_equal(falt_plan_create_line(&plan, device, "correlate w=9 s=3", NULL), FALT_OK);
  if (before) assert_int_equal(threads_of_this_process(), before + 2);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

static bool shifts(falt_plan *plan) {
  static float x[5000], y[5000];
  float w[3] = {1, 0, 0};
  for (int i = 0; i < 5000; i++) x[i] = (float)i, y[i] = -1;
  const falt_operands operands = {.input = x, .filter = w, .output = y};
  bool right = falt_execute(plan, &operands) == FALT_OK;
  for (int i = 1; i < 5000; i++) right &= y[i] == (float)(i - 1);
  return right;
}

/* A child of fork has none of the device's threads: old plans, new plans and the end of both work without them. */
static void test_fork(UNUSED void **state) {
  static const char line[] = "correlate w=5000 s=3 max-workspace=0";
  falt_device *device = device_with("", 3);
  falt_plan *plan;
  int ended;
  assert_int_equal(falt_plan_create_line(&plan, device, line, NULL), FALT_OK);
  const pid_t child = fork();
  if (child == 0) {
    falt_plan *other = NULL;
    alarm(20);
    bool right = shifts(plan) && falt_plan_create_line(&other, device, line, NULL) == FALT_OK && shifts(other);
    right = right && threads_of_this_process() <= 3; /* one, "." and ".." */
    falt_plan_destroy(&other);
    falt_plan_destroy(&plan);
    falt_device_destroy(&device);
    _exit(!right);
  }
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
  assert_true(shifts(plan));
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_counters, set_up),     cmocka_unit_test_setup(test_devices_are_idle, set_up),
      cmocka_unit_test_setup(test_fork, set_up),         cmocka_unit_test_setup(test_rows, set_up),
      cmocka_unit_test_setup(test_every_solver, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
