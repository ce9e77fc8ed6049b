/* Checks one problem in a separate process, which may crash or hang. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "report.h"
#include "verify.h"

typedef struct answer {
  cli_outcome outcome;
  cli_failure failure;
} answer;

static void note(void *context, const falt_verdict *v) {
  answer *a = context;
  if (v->ok || a->outcome == CLI_FAILS) return;
  a->outcome = CLI_FAILS;
  a->failure.max_abs_error = v->max_abs_error;
  a->failure.max_rel_error = v->max_rel_error;
  a->failure.tolerance = v->tolerance;
  snprintf(a->failure.solver, sizeof a->failure.solver, "%s", v->solver);
  snprintf(a->failure.trouble, sizeof a->failure.trouble, "%s", falt_message());
}

/* In the new process: reports go to the pipe, nothing to the terminal. */
static void answer_for(const cli_run *run, const char *line, const char *method, uint64_t seed, int pipe) {
  answer a = {.outcome = CLI_PASSES};
  cli_question question;
  const int null = open("/dev/null", O_RDWR);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN); /* the first process ends this one */
  dup2(null, STDERR_FILENO);
  dup2(null, STDOUT_FILENO);
  if (cli_question_parse(run->options, line, &question) != CLI_DONE ||
      cli_device_make(run->options, &question.device) != CLI_DONE)
    _exit(CLI_WRONG);
  question.problem.filter_when = falt_problem_filter_when(&question.problem);
  if (*method) snprintf(question.budget.method, sizeof question.budget.method, "%s", method);
  const falt_status done = falt_verify(question.device, &question.problem, &question.budget, seed, note, &a);
  if (done != FALT_OK) {
    a.outcome = CLI_REFUSED;
    snprintf(a.failure.why, sizeof a.failure.why, "%s", falt_message());
  }
  const bool sent = write(pipe, &a, sizeof a) == sizeof a;
  _exit(sent ? CLI_DONE : CLI_BUG);
}

const char *cli_describe_end(int state, char text[64]) {
  if (WIFSIGNALED(state))
    snprintf(text, 64, "signal %d (%.40s)", WTERMSIG(state), strsignal(WTERMSIG(state)));
  else
    snprintf(text, 64, "exit status %d", WEXITSTATUS(state));
  return text;
}

/* Whether something came, or the end, before the time is over. */
static bool wait_for(int pipe, double seconds) {
  const double end = cli_seconds() + seconds;
  for (double left = seconds; left > 0; left = end - cli_seconds()) {
    struct pollfd one = {.fd = pipe, .events = POLLIN};
    const int ready = poll(&one, 1, (int)(1000 * left) + 1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

cli_outcome cli_probe(const cli_run *run, const char *line, const char *method, uint64_t seed, double seconds,
                      cli_failure *failure) {
  int ends[2], state = 0;
  answer a;
  fflush(stdout);
  fflush(stderr);
  if (pipe2(ends, O_CLOEXEC) != 0) return CLI_REFUSED;
  const pid_t pid = fork();
  if (pid == 0) answer_for(run, line, method, seed, ends[1]);
  close(ends[1]);
  const bool in_time = pid > 0 && wait_for(ends[0], seconds);
  const bool told = in_time && read(ends[0], &a, sizeof a) == sizeof a;
  close(ends[0]);
  if (pid < 0) return CLI_REFUSED;
  if (!told && !in_time) kill(pid, SIGKILL);
  while (waitpid(pid, &state, 0) < 0 && errno == EINTR) continue;
  if (told) {
    a.failure.index = failure->index;
    a.failure.seed = seed;
    if (a.outcome != CLI_PASSES) *failure = a.failure;
    return a.outcome;
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == CLI_WRONG) return CLI_REFUSED;
  char end[64];
  *failure = (cli_failure){.index = failure->index, .seed = seed, .crashed = true};
  snprintf(failure->solver, sizeof failure->solver, "%s", method);
  if (in_time)
    snprintf(failure->why, sizeof failure->why, "%s", cli_describe_end(state, end));
  else
    snprintf(failure->why, sizeof failure->why, "no end after %g s", seconds);
  return CLI_CRASHES;
}
