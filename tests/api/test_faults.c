/* Faults of the environment: every allocation of whole scenarios fails once, the disk is full, a writer is killed, the
 * cache cannot be written, many processes share it. The answer is a clear status or a computation without the cache. */
#include "api_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/limits_file.h"
#include "core/memory.h"
#include "core/random.h"
#include "planner/wisdom.h"

/* ------------------------------------------------------------------------------------------- allocation failure */

typedef falt_status (*scenario)(falt_device *device, const char *line);

static void ignore_candidate(UNUSED void *context, UNUSED const falt_candidate *candidate) {}
static void ignore_verdict(UNUSED void *context, UNUSED const falt_verdict *verdict) {}

static falt_status execute_random(falt_plan *plan) {
  static const char *const names[] = {"input", "filter", "output", "bias", "scale", "residual"};
  void *memory[6] = {NULL}, *workspace = malloc(falt_plan_workspace(plan) + 64);
  for (int i = 0; i < 6; i++) memory[i] = calloc(1, falt_plan_bytes(plan, names[i]) + 1);
  const falt_operands operands = {.input = memory[0],
                                  .filter = memory[1],
                                  .output = memory[2],
                                  .bias = memory[3],
                                  .scale = memory[4],
                                  .residual = memory[5],
                                  .workspace = (char *)workspace + (-(uintptr_t)workspace & 63)};
  const falt_status status = falt_execute(plan, &operands);
  for (int i = 0; i < 6; i++) free(memory[i]);
  free(workspace);
  return status;
}

static falt_problem parse_with_budget(const char *line, falt_budget *budget) {
  falt_problem problem;
  if (falt_problem_parse(&problem, budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  return problem;
}

static falt_status plan_and_run(falt_device *device, const char *line, bool known) {
  falt_plan *plan;
  falt_budget budget;
  const falt_problem problem = parse_with_budget(line, &budget);
  const size_t bytes = (size_t)falt_tensor_span(&problem.filter) * falt_type_size(problem.filter.type);
  void *filter = known && problem.operation != FALT_BACKWARD_FILTER ? calloc(1, bytes) : NULL;
  falt_status status = falt_plan_create_line(&plan, device, line, filter);
  free(filter);
  if (status != FALT_OK) return status;
  status = execute_random(plan);
  falt_plan_destroy(&plan);
  return status;
}

static falt_status run_known(falt_device *device, const char *line) {
  return plan_and_run(device, line, true);
}

static falt_status run_given(falt_device *device, const char *line) {
  return plan_and_run(device, line, false);
}

static falt_status run_tuned(falt_device *device, const char *line) {
  falt_plan *plan;
  falt_budget budget;
  const falt_problem problem = parse(line);
  falt_budget_default(&budget);
  budget.tune_seconds = 1e-4;
  falt_wisdom_forget(device);
  const falt_status status = falt_plan_create(&plan, device, &problem, &budget, NULL);
  falt_plan_destroy(&plan);
  return status;
}

static falt_status run_explain(falt_device *device, const char *line) {
  const falt_problem problem = parse(line);
  return falt_explain(device, &problem, NULL, NULL, 1e-5, ignore_candidate, NULL);
}

static falt_status run_verify(falt_device *device, const char *line) {
  const falt_problem problem = parse(line);
  return falt_verify(device, &problem, NULL, 1, ignore_verdict, NULL);
}

static falt_status run_rows(falt_device *device, UNUSED const char *line) {
  static const float taps[9] = {1};
  const falt_problem problem = parse(
      "forward c=3 h=9 w=9 k=3 groups=3 r=1 s=1 layout=nhwc bias=1 type=u8 weight-type=f32 value=0.5 "
      "boundary=edge:constant");
  falt_convolver_rows *rows;
  falt_convolver_rows_options options;
  falt_convolver_rows_options_default(&options);
  options.bias = taps;
  const falt_status status = falt_convolver_rows_create(&rows, device, &problem, &options, taps);
  falt_convolver_rows_destroy(&rows);
  return status;
}

static falt_status run_exchange(falt_device *device, UNUSED const char *line) {
  falt_status status = falt_wisdom_save(device, NULL);
  if (status == FALT_OK) status = falt_limits_store(device);
  if (status == FALT_OK) status = falt_wisdom_load(device, NULL);
  return status;
}

static falt_status run_devices(UNUSED falt_device *device, UNUSED const char *line) {
  falt_device *own;
  const falt_status status = falt_device_cpu(&own, NULL);
  falt_device_destroy(&own);
  return status;
}

/* One line for each family of solvers; those with a name in them compose. */
static const char *const lines[] = {
    "correlate h=9 w=11 r=3 s=3 boundary=edge",
    "correlate d=5 h=9 w=11 t=3 r=3 s=3 type=u8",
    "correlate h=20 w=20 r=9 s=9 rank=1",
    "forward n=2 c=8 h=9 w=9 k=8 r=3 s=3 pad=1 layout=nhwc bias=1 act=relu",
    "forward n=2 c=8 h=9 w=9 k=8 r=3 s=3 pad=1 residual=1",
    "forward n=1 c=16 h=8 w=8 k=16 r=3 s=3 pad=1 layout=nhwc type=bf16",
    "forward n=1 c=16 h=8 w=8 k=16 r=3 s=3 pad=1 layout=nhwc type=u8 weight-type=s8",
    "forward n=1 c=8 h=9 w=9 k=8 r=3 s=3 pad=1 pool=max:2",
    "forward n=1 c=16 h=9 w=9 k=16 r=3 s=3 pad=1 groups=16 layout=nhwc",
    "forward n=1 c=16 h=9 w=9 k=16 r=3 s=3 pad=1 groups=4 layout=nhwc",
    "forward n=1 c=8 h=9 w=9 k=3 r=3 s=3 pad=1 layout=nhwc method=fprop-pixelfold",
    "forward n=1 c=8 h=9 w=9 k=8 r=3 s=3 type=f16 method=upconvert-f32",
    "backward-data n=1 c=8 h=9 w=9 k=8 r=3 s=3 stride=2 layout=nhwc",
    "backward-data n=1 c=3 h=9 w=9 k=8 r=3 s=3 stride=2 pad=1 layout=nhwc",
    "backward-filter n=2 c=8 h=9 w=9 k=8 r=3 s=3 pad=1 layout=nhwc bias=1",
    "backward-filter n=2 c=3 h=9 w=9 k=8 r=3 s=3 pad=1",
    "backward-filter n=2 c=8 h=9 w=9 k=8 r=3 s=3 pad=1 groups=8 layout=nhwc",
    "maxpool n=2 c=4 h=8 w=8 r=2 s=2 stride=2",
    "backward-maxpool n=2 c=4 h=8 w=8 r=2 s=2 stride=2",
};

/* Fails the n-th allocation and all after it, for every n until the scenario needs no more. */
static void starve(scenario run, const char *line) {
  falt_device *device = device_with("", 2);
  bool failed = true;
  for (int n = 0; failed; n++) {
    falt_alloc_fail_after(n);
    const falt_status status = run(device, line);
    void *probe = falt_alloc(1);
    falt_alloc_fail_after(-1);
    failed = probe == NULL;
    falt_free(probe);
    if (status != FALT_OK && status != FALT_NO_MEMORY)
      fail_msg("%s: allocation %d failed: %s: %s", line, n, falt_status_name(status), falt_message());
    if (!failed && status != FALT_OK) fail_msg("%s: %s", line, falt_message());
    if (n > 20000) fail_msg("%s: allocates without an end", line);
  }
  if (run(device, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  falt_device_destroy(&device);
}

static void test_starving(UNUSED void **state) {
  static const scenario runs[] = {run_known, run_given};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) starve(runs[r], lines[i]);
}

static void test_starving_asked(UNUSED void **state) {
  static const scenario runs[] = {run_tuned, run_explain, run_verify, run_rows, run_exchange, run_devices};
  for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) starve(runs[r], lines[3]);
}

/* ------------------------------------------------------------------------------------------------ files */

/* What forked children call makes no assertions: one that failed there would go on with the parent's tests. */
static bool learn(falt_device *device, int problems) {
  bool learnt = true;
  for (int i = 0; i < problems; i++) {
    char line[64];
    snprintf(line, sizeof line, "correlate w=%d s=3", 10 + i);
    learnt &= falt_wisdom_learn(device->wisdom, line, 7, "direct", 1e-5);
  }
  return learnt;
}

static falt_device *open_portable(void) {
  falt_device *device = NULL;
  falt_cpu_options options;
  falt_cpu_options_default(&options);
  options.threads = 1;
  strcpy(options.isa, "portable");
  falt_device_cpu(&device, &options);
  return device;
}

static void count_entry(void *context, UNUSED const char *line, UNUSED uint64_t among, UNUSED const char *solver,
                        UNUSED double seconds) {
  ++*(int *)context;
}

/* Problems that the file remembers; -1 if it cannot be read. */
static int remembered(void) {
  falt_device *device = open_portable();
  int count = device && falt_wisdom_load(device, NULL) == FALT_OK ? 0 : -1;
  if (count == 0) falt_wisdom_each(device->wisdom, count_entry, &count);
  falt_device_destroy(&device);
  return count;
}

/* Makes every file of the cache two minutes older. */
static void age_cache(void) {
  DIR *open = opendir(directory);
  const struct timespec old = {.tv_sec = time(NULL) - 120}, times[2] = {old, old};
  assert_non_null(open);
  for (struct dirent *entry; (entry = readdir(open));)
    if (entry->d_name[0] != '.') assert_int_equal(utimensat(dirfd(open), entry->d_name, times, 0), 0);
  closedir(open);
}

static int files_in_cache(void) {
  DIR *open = opendir(directory);
  int count = 0;
  for (struct dirent *entry; open && (entry = readdir(open));) count += entry->d_name[0] != '.';
  if (open) closedir(open);
  return count;
}

static falt_status save(int problems) {
  falt_device *device = open_portable();
  falt_status status = device && learn(device, problems) ? falt_wisdom_save(device, NULL) : FALT_NO_MEMORY;
  if (status == FALT_OK) status = falt_limits_store(device);
  falt_device_destroy(&device);
  return status;
}

/* A limit on the size of files stands for the full disk. What was there stays; nothing else is left. */
static void test_disk_full(UNUSED void **state) {
  struct rlimit before, tight;
  assert_int_equal(save(5), FALT_OK);
  const int files = files_in_cache();
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  for (rlim_t bytes = 0; bytes < 400; bytes += 57) {
    tight = before;
    tight.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    const falt_status status = save(90);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, FALT_NO_FILE);
    expect_message("cannot be written");
    assert_int_equal(remembered(), 5);
    assert_int_equal(files_in_cache(), files);
  }
  signal(SIGXFSZ, SIG_DFL);
}

static void test_no_cache(UNUSED void **state) {
  setenv("FALTUNG_CACHE", "/proc/self/none", 1);
  assert_int_equal(save(5), FALT_NO_FILE);
  falt_device *device = device_with("", 1);
  assert_int_equal(run_tuned(device, lines[0]), FALT_OK);
  assert_int_equal(run_known(device, lines[0]), FALT_OK);
  falt_device_destroy(&device);
}

/* A writer is killed at any moment: the file holds what one of its writers wrote, whole. */
static void test_killed(UNUSED void **state) {
  uint64_t seed = 11;
  assert_int_equal(save(3), FALT_OK);
  for (int round = 0; round < 60; round++) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
      for (int i = 0;; i++) save(i % 2 ? 3 : 200);
    usleep((useconds_t)falt_random_int(&seed, 0, 12000));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    const int count = remembered();
    if (count != 3 && count != 200) fail_msg("round %d: the file remembers %d problems", round, count);
  }
  age_cache();
  assert_int_equal(save(4), FALT_OK); /* removes the temporary files of the killed */
  assert_int_equal(remembered(), 4);
  assert_int_equal(files_in_cache(), 2);
}

/* Sixteen processes tune, save and load at once: each gets right answers, and the file is whole at any time. */
static void test_processes(UNUSED void **state) {
  enum { PROCESSES = 16, ROUNDS = 6 };
  pid_t child[PROCESSES];
  for (int p = 0; p < PROCESSES; p++) {
    child[p] = fork();
    assert_true(child[p] >= 0);
    if (child[p]) continue;
    int wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
      wrong += save(1 + p) != FALT_OK;
      wrong += remembered() < 1;
    }
    _exit(wrong != 0);
  }
  for (int p = 0; p < PROCESSES; p++) {
    int status;
    assert_int_equal(waitpid(child[p], &status, 0), child[p]);
    assert_int_equal(status, 0);
  }
  assert_true(remembered() >= 1);
  assert_int_equal(files_in_cache(), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_starving, set_up),  cmocka_unit_test_setup(test_starving_asked, set_up),
      cmocka_unit_test_setup(test_disk_full, set_up), cmocka_unit_test_setup(test_no_cache, set_up),
      cmocka_unit_test_setup(test_killed, set_up),    cmocka_unit_test_setup(test_processes, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
