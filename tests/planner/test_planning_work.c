/* Planning takes time and memory for the taps of the plan that runs, and next to none for the estimates: of every CPU
 * solver, whatever the size of the filter. Time is the process's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/sanitize.h"
#include "planner/planner.h"

/* Sanitized builds take several times as long. */
static const double slower = FALT_ANY_SANITIZER ? 10 : 1;

/* ---- bytes that the library asks for; cmake/tests.cmake wraps the function */

static size_t bytes_asked;

int __real_posix_memalign(void **memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size) {
  bytes_asked += size;
  return __real_posix_memalign(memory, alignment, size);
}

/* ---- what a step took */

typedef struct work {
  double seconds;
  size_t bytes;
} work;

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static work work_since(work before) {
  return (work){cpu_seconds() - before.seconds, bytes_asked - before.bytes};
}

static work work_now(void) {
  return (work){cpu_seconds(), bytes_asked};
}

static void check(const char *what, const char *solver, const char *line, work took, work most) {
  if (took.seconds > most.seconds || took.bytes > most.bytes)
    fail_msg("%s: %s: %s takes %.3f s and %zu bytes; at most %.3f s and %zu", line, solver, what, took.seconds,
             took.bytes, most.seconds, most.bytes);
}

/* ---- filters */

typedef enum known_taps { UNKNOWN, FULL_RANK, RANK_ONE } known_taps;

/* The taps as a caller has them, or NULL. */
static float *taps_of(const falt_problem *p, known_taps known) {
  const int64_t *size = p->filter.size, count = falt_tensor_count(&p->filter);
  float *taps = known == UNKNOWN ? NULL : malloc((size_t)count * sizeof *taps);
  for (int64_t i = 0; taps && i < count; i++) {
    const int64_t x = i % size[FALT_W], y = i / size[FALT_W];
    const int64_t number = known == RANK_ONE ? (1 + x % 7) * (1 + y % 5) : (i * i + 7 * i) % 65521 - 32768;
    taps[i] = (float)number / 7;
  }
  return taps;
}

typedef struct planned {
  const char *line;
  known_taps known;
} planned;

static const planned lines[] = {
    {"forward n=1 c=32 w=40000 s=40001 pad=20000 groups=32 k=32 layout=nwc", UNKNOWN},
    {"forward n=1 c=32 w=4000 s=4001 pad=20000 groups=32 k=32 layout=nwc boundary=reflect101", UNKNOWN},
    {"backward-data n=1 c=32 w=40000 s=40001 pad=20000 groups=32 k=32 layout=nwc", UNKNOWN},
    {"backward-data n=1 c=16 h=2000 w=8 r=1001 s=1 pad=y=500 groups=16 k=16 layout=nhwc boundary=wrap", UNKNOWN},
    {"backward-filter n=1 c=32 w=40000 s=40001 pad=20000 groups=32 k=32 layout=nwc", UNKNOWN},
    {"forward w=400000 s=40001 c=2 k=2 groups=2 pad=20000", UNKNOWN},
    {"forward w=100000 s=40001 c=1 k=1 pad=20000", UNKNOWN},
    {"correlate w=88200 s=44100", UNKNOWN},
    {"correlate w=88200 s=44100", FULL_RANK},
    {"correlate w=4000 s=3000001 boundary=wrap", UNKNOWN},
    {"correlate w=4000 s=3000001 boundary=wrap", FULL_RANK},
    {"correlate h=4000 w=4000 r=1001 s=1001", FULL_RANK},
    {"correlate h=4000 w=4000 r=1001 s=1001", RANK_ONE},
    {"correlate h=20 w=20 r=1001 s=1001", RANK_ONE},
    {"correlate d=100 h=100 w=100 t=61 r=61 s=61", FULL_RANK},
    {"correlate d=100 h=100 w=100 t=61 r=61 s=61", RANK_ONE},
    {"correlate h=4000 w=4000 r=1001 s=1001 rank=1", UNKNOWN},
};

static falt_device *make_device(const char *isa) {
  falt_cpu_options options;
  falt_device *device;
  falt_cpu_options_default(&options);
  options.threads = 1;
  if (isa) snprintf(options.isa, sizeof options.isa, "%s", isa);
  assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
  return device;
}

/* ---- tests */

/* Only solvers that factor a filter look at its taps. */
static size_t bytes_per_tap(const falt_problem *p) {
  return p->space > 1 && p->is_filter ? 32 : 0;
}

static void check_estimate(const falt_solver *solver, falt_ask *ask, const char *line) {
  const size_t taps = (size_t)falt_tensor_count(&ask->problem->filter);
  const work most = {0.2 * slower, (1 << 20) + bytes_per_tap(ask->problem) * taps};
  const work before = work_now();
  falt_plan *plan = solver->plan(solver, ask);
  const work took = work_since(before);
  falt_plan_destroy(&plan);
  check("its estimate", solver->name, line, took, most);
}

static void check_line(falt_device *device, const planned *one) {
  falt_problem problem;
  falt_budget budget;
  if (falt_problem_parse(&problem, &budget, one->line) != FALT_OK) fail_msg("%s: %s", one->line, falt_message());
  float *taps = taps_of(&problem, one->known);
  for (int i = 0; falt_solvers[i]; i++) {
    falt_ask ask = {.problem = &problem, .budget = &budget, .device = device, .filter_values = taps};
    if (strcmp(falt_solvers[i]->device_kind, "cpu") == 0) check_estimate(falt_solvers[i], &ask, one->line);
  }
  /* the plan, ready to run: a microsecond and 64 bytes a tap at most */
  const double count = (double)falt_tensor_count(&problem.filter);
  const work most = {slower * (0.5 + 1e-6 * count), (8 << 20) + 64 * (size_t)count}, before = work_now();
  falt_plan *plan;
  if (falt_plan_create(&plan, device, &problem, &budget, taps) != FALT_OK)
    fail_msg("%s: %s", one->line, falt_message());
  const work took = work_since(before);
  check("planning", falt_plan_solver(plan), one->line, took, most);
  falt_plan_destroy(&plan);
  free(taps);
}

static void check_device(const char *isa) {
  falt_device *device = make_device(isa);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) check_line(device, &lines[i]);
  falt_device_destroy(&device);
}

static void test_portable(void **state) {
  (void)state;
  check_device("portable");
}

static void test_this_machine(void **state) {
  (void)state;
  check_device(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_portable),
      cmocka_unit_test(test_this_machine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
