/* Checks problems in several processes, each taking every n-th one. The first process only supervises: it restarts a
 * process that crashed or took too long, collects failures, and adds up. Only the new processes open GPUs, because a
 * CUDA context does not survive a fork. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "interrupt.h"
#include "verify.h"

int cli_solver_find(const char *name) {
  const char *one;
  for (int i = 0; i < CLI_MOST_SOLVERS && (one = falt_solver_name(i)); i++)
    if (strcmp(one, name) == 0) return i;
  return -1;
}

const char *cli_run_line(const cli_run *run, int64_t index, char text[CLI_LINE]) {
  if (run->line)
    snprintf(text, CLI_LINE, "%s", run->line);
  else
    falt_problem_random(run->seed + (uint64_t)index, text, CLI_LINE);
  return text;
}

/* ---- in a process of its own */

typedef struct work {
  const cli_run *run;
  cli_share *share;
  int pipe;
  int64_t index;
  cli_question question;
} work;

cli_json cli_verdict_open(const char *line, const falt_verdict *v) {
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, "problem", line);
  cli_json_text(&json, "solver", v->solver);
  cli_json_number(&json, "max_abs_error", v->max_abs_error);
  cli_json_number(&json, "max_rel_error", v->max_rel_error);
  cli_json_number(&json, "tolerance", v->tolerance);
  cli_json_flag(&json, "ok", v->ok);
  cli_json_integer(&json, "seed", (int64_t)v->seed);
  return json;
}

static void send_failure(const work *w, const cli_failure *failure) {
  if (write(w->pipe, failure, sizeof *failure) != sizeof *failure) exit(CLI_BUG);
}

static void count_verdict(const work *w, const falt_verdict *v) {
  const int solver = cli_solver_find(v->solver);
  if (solver < 0) return;
  cli_checks *checks = &w->share->solver[solver];
  const double share = v->tolerance > 0 ? v->max_abs_error / v->tolerance : 0;
  checks->checks++;
  checks->failures += !v->ok;
  if (!v->ok || share <= checks->worst) return;
  checks->worst = share;
  checks->worst_index = w->index;
}

/* The process that ran a check reports success, a line at a time. */
static void print_passed(const work *w, const falt_verdict *v) {
  if (w->run->options->json && !w->run->options->by_solver) {
    cli_json json = cli_verdict_open(w->question.line, v);
    cli_json_close(&json);
  } else if (!w->run->options->json && w->run->line) {
    printf("ok     %-12s error %.3g (relative %.3g), tolerance %.3g, seed %" PRIu64 ": %s\n", v->solver,
           v->max_abs_error, v->max_rel_error, v->tolerance, v->seed, w->question.line);
  }
  fflush(stdout);
}

static void note(void *context, const falt_verdict *v) {
  const work *w = context;
  count_verdict(w, v);
  if (v->ok) {
    print_passed(w, v);
    return;
  }
  cli_failure failure = {.index = w->index,
                         .seed = v->seed,
                         .max_abs_error = v->max_abs_error,
                         .max_rel_error = v->max_rel_error,
                         .tolerance = v->tolerance};
  snprintf(failure.solver, sizeof failure.solver, "%s", v->solver);
  snprintf(failure.trouble, sizeof failure.trouble, "%s", falt_message());
  send_failure(w, &failure);
}

/* Data of variant v of problem i: seeds that no other problem of a run begins with. */
static uint64_t data_seed(const cli_run *run, int64_t index, int64_t variant) {
  return run->seed + (uint64_t)index + ((uint64_t)variant << 48);
}

/* A refusal is a failure where the problem is random: it is legal, and its budget can be kept. */
static int check(work *w) {
  const cli_run *run = w->run;
  falt_status done = FALT_OK;
  for (int64_t v = 0; v < run->variants && done == FALT_OK; v++) {
    const uint64_t seed = data_seed(run, w->index, v);
    done = falt_verify(w->question.device, &w->question.problem, &w->question.budget, seed, note, w);
    if (done == FALT_OK) continue;
    if (run->line) return cli_fail_library(done);
    cli_failure failure = {.index = w->index, .seed = seed};
    snprintf(failure.why, sizeof failure.why, "%s", falt_message());
    send_failure(w, &failure);
  }
  return CLI_DONE;
}

static int run_share(work *w, int64_t first) {
  char line[CLI_LINE];
  falt_device *device = NULL;
  int status = cli_device_make(w->run->options, &device);
  for (w->index = first; status == CLI_DONE && w->index < w->run->count; w->index += w->run->processes) {
    status = cli_question_parse(w->run->options, cli_run_line(w->run, w->index, line), &w->question);
    if (status != CLI_DONE) break;
    w->question.problem.filter_when = falt_problem_filter_when(&w->question.problem);
    w->question.device = device;
    w->share->began = (int64_t)(1e6 * cli_seconds());
    w->share->index = w->index;
    status = check(w);
    w->share->index = -1;
    w->share->problems++;
  }
  falt_device_destroy(&device);
  return status;
}

/* ---- the first process */

typedef struct worker {
  pid_t pid; /* 0: ended */
  bool late;
} worker;

typedef struct watch {
  const cli_run *run;
  worker *workers;
  cli_share *shares; /* one a process */
  int pipe[2], status;
  void (*fail)(void *context, const cli_failure *failure);
  void *context;
  cli_progress progress;
} watch;

static void start(watch *w, int which, int64_t first) {
  w->shares[which].index = -1;
  fflush(stdout);
  fflush(stderr);
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) {
    work own = {.run = w->run, .share = &w->shares[which], .pipe = w->pipe[1]};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); /* the first process ends this one */
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    exit(getppid() == parent ? run_share(&own, first) : CLI_BUG);
  }
  w->workers[which] = (worker){.pid = pid < 0 ? 0 : pid};
  if (pid < 0) w->status = cli_fail(CLI_IMPOSSIBLE, "verify: cannot start a process: %s; use fewer", strerror(errno));
}

/* The failure of a process that ended in the middle of a problem. */
static void tell_crash(watch *w, int which, int state) {
  char end[64];
  const int64_t index = w->shares[which].index;
  cli_failure failure = {.index = index, .seed = data_seed(w->run, index, 0), .crashed = true};
  if (w->workers[which].late)
    snprintf(failure.why, sizeof failure.why, "no end after %g s", w->run->limit);
  else
    snprintf(failure.why, sizeof failure.why, "%s", cli_describe_end(state, end));
  w->shares[which].problems++;
  w->fail(w->context, &failure);
}

static void end_of(watch *w, int which, int state) {
  const int64_t index = w->shares[which].index;
  const bool exited = WIFEXITED(state), refused = exited && WEXITSTATUS(state) > CLI_CHECK_FAILED;
  const bool told = refused && WEXITSTATUS(state) <= CLI_BUG && (index < 0 || w->run->line);
  char end[64];
  if (exited && WEXITSTATUS(state) == CLI_DONE) {
    w->workers[which].pid = 0;
  } else if (told) {
    w->status = WEXITSTATUS(state);
    w->workers[which].pid = 0;
  } else if (index < 0) {
    w->status = cli_fail(CLI_BUG, "verify: a process ended with %s between problems", cli_describe_end(state, end));
    w->workers[which].pid = 0;
  } else {
    tell_crash(w, which, state);
    start(w, which, index + w->run->processes);
  }
}

static void reap(watch *w) {
  for (int i = 0; i < w->run->processes && w->status == CLI_DONE; i++) {
    int state = 0;
    if (w->workers[i].pid && waitpid(w->workers[i].pid, &state, WNOHANG) > 0) end_of(w, i, state);
  }
}

static void stop_late(watch *w) {
  const double now = cli_seconds();
  for (int i = 0; i < w->run->processes; i++) {
    worker *one = &w->workers[i];
    if (!one->pid || one->late || w->shares[i].index < 0) continue;
    one->late = now - 1e-6 * (double)w->shares[i].began > w->run->limit;
    if (one->late) kill(one->pid, SIGKILL);
  }
}

static bool any_left(const watch *w) {
  for (int i = 0; i < w->run->processes; i++)
    if (w->workers[i].pid) return true;
  return false;
}

static void add(const watch *w, cli_share *total) {
  memset(total, 0, sizeof *total);
  for (int i = 0; i < w->run->processes; i++) {
    total->problems += w->shares[i].problems;
    for (int s = 0; s < CLI_MOST_SOLVERS; s++) {
      const cli_checks *from = &w->shares[i].solver[s];
      cli_checks *to = &total->solver[s];
      to->checks += from->checks;
      to->failures += from->failures;
      if (from->worst <= to->worst) continue;
      to->worst = from->worst;
      to->worst_index = from->worst_index;
    }
  }
}

static void read_failures(watch *w, int milliseconds) {
  struct pollfd one = {.fd = w->pipe[0], .events = POLLIN};
  cli_failure failure;
  while (poll(&one, 1, milliseconds) > 0 && read(w->pipe[0], &failure, sizeof failure) == sizeof failure) {
    if (cli_interrupted()) return;
    w->fail(w->context, &failure);
    milliseconds = 0;
  }
}

static void show_progress(watch *w) {
  int64_t done = 0;
  for (int i = 0; i < w->run->processes; i++) done += w->shares[i].problems;
  if (w->run->count < INT64_MAX) cli_progress_step(&w->progress, done, w->run->count);
}

static void watch_all(watch *w) {
  enum { PAUSE = 50 /* milliseconds */ };
  for (int i = 0; i < w->run->processes && w->status == CLI_DONE; i++)
    if (i < w->run->count) start(w, i, i);
  while (any_left(w) && w->status == CLI_DONE && !cli_interrupted()) {
    read_failures(w, PAUSE);
    stop_late(w);
    reap(w);
    show_progress(w);
  }
  cli_progress_end();
  if (!cli_interrupted()) read_failures(w, 0);
  for (int i = 0; i < w->run->processes; i++)
    if (w->workers[i].pid) kill(w->workers[i].pid, SIGKILL);
  /* After a signal the totals come first: the driver of a GPU may take seconds to end a process. */
  for (int i = 0; i < w->run->processes && !cli_interrupted(); i++)
    while (w->workers[i].pid && waitpid(w->workers[i].pid, NULL, 0) < 0 && errno == EINTR) continue;
}

int cli_workers_run(const cli_run *run, void (*fail)(void *context, const cli_failure *failure), void *context,
                    cli_share *total) {
  watch w = {.run = run, .fail = fail, .context = context, .status = CLI_DONE};
  const size_t bytes = (size_t)run->processes * sizeof *w.shares;
  w.shares = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  w.workers = calloc((size_t)run->processes, sizeof *w.workers);
  if (w.shares == MAP_FAILED || !w.workers || pipe2(w.pipe, O_CLOEXEC) != 0) {
    free(w.workers);
    return cli_fail(CLI_IMPOSSIBLE, "verify: %d processes cannot be started; use fewer", run->processes);
  }
  w.progress = cli_progress_begin(!run->options->quiet);
  cli_interrupts_catch();
  watch_all(&w);
  add(&w, total);
  close(w.pipe[0]);
  close(w.pipe[1]);
  munmap(w.shares, bytes);
  free(w.workers);
  return w.status;
}
