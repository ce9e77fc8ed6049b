/* The process that runs the peers: Python, started once, which answers each line (a JSON object) with lines. */
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interrupt.h"
#include "share.h"

static const double patience = 900; /* seconds for one line: the slowest peers take a minute a run */

/* ---- starting and ending */

/* Whether the system's python3 has one of the GPU libraries: environments with these are seldom private. */
static bool has_gpu_library(void) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int null = open("/dev/null", O_RDWR);
    if (null >= 0) dup2(null, STDERR_FILENO);
    execlp("python3", "python3", "-c",
           "import sys, importlib.util as u; sys.exit(not any(map(u.find_spec, ('torch', 'cupy'))))", (char *)NULL);
    _exit(127);
  }
  int state = 1;
  while (pid > 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR) continue;
  return pid > 0 && WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

static bool find_python(const char *device, char path[PATH_MAX], char why[512]) {
  const char *named = getenv("FALTUNG_PEERS_PYTHON");
  if (named && *named) {
    snprintf(path, PATH_MAX, "%s", named);
    if (access(path, X_OK) == 0) return true;
    snprintf(why, 512, "FALTUNG_PEERS_PYTHON=%.200s: %s", named, strerror(errno));
    return false;
  }
  snprintf(path, PATH_MAX, "python3");
  if (strncmp(device, "cuda", 4) == 0 && has_gpu_library()) return true;
  if (cli_share_find("bench/.venv/bin/python", path, PATH_MAX)) return true;
  if (!cli_share_find("bench/setup", path, PATH_MAX)) snprintf(path, PATH_MAX, "bench/setup");
  snprintf(why, 512, "no Python environment for them; make it with `%.300s all`, or name one in FALTUNG_PEERS_PYTHON",
           path);
  return false;
}

/* In the child: a group of its own, so that a terminal's ^C reaches only the parent, which then ends the child. */
static void become_python(const int in[2], const int out[2], const char *python, const char *script, const char *device,
                          int threads) {
  char count[16];
  snprintf(count, sizeof count, "%d", threads);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_DFL);
  setenv("FALTUNG_THREADS", count, 1);
  if (dup2(in[0], STDIN_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0)
    execlp(python, python, script, device, (char *)NULL);
  _exit(127);
}

static bool start(cli_peers *peers, const char *script, const char *device, int threads) {
  int in[2] = {-1, -1}, out[2] = {-1, -1};
  if (pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0) peers->pid = fork();
  if (peers->pid == 0 && out[0] >= 0) become_python(in, out, peers->python, script, device, threads);
  if (in[0] >= 0) close(in[0]);
  if (out[1] >= 0) close(out[1]);
  cli_interrupts_group(peers->pid);
  peers->to = in[1] >= 0 ? fdopen(in[1], "w") : NULL;
  peers->from = out[0];
  return peers->pid > 0 && peers->to;
}

/* Ends the process if it still runs; how it ended. */
static int reap(cli_peers *peers, bool kill_it) {
  int state = 0;
  if (peers->to) fclose(peers->to); /* the end of its input is its word to leave */
  if (peers->from >= 0) close(peers->from);
  if (peers->pid > 0) {
    if (kill_it && kill(-peers->pid, SIGKILL) != 0) kill(peers->pid, SIGKILL); /* its group, once that is made */
    while (waitpid(peers->pid, &state, 0) < 0 && errno == EINTR) continue;
  }
  cli_interrupts_group(0);
  peers->pid = 0;
  peers->to = NULL;
  peers->from = -1;
  return state;
}

void cli_peers_stop(cli_peers *peers) {
  if (peers->pid > 0) reap(peers, true); /* it holds nothing that must be saved */
}

/* ---- talking */

static bool fail_silent(cli_peers *peers) {
  cli_fail(CLI_IMPOSSIBLE, "peers: %.200s did not answer for %.0f s; continuing without it", peers->python, patience);
  reap(peers, true);
  peers->failed = true;
  return false;
}

static bool fail_ended(cli_peers *peers) {
  const int state = reap(peers, false);
  if (WIFSIGNALED(state))
    cli_fail(CLI_IMPOSSIBLE, "peers: %.200s was ended by signal %d (%s); continuing without it", peers->python,
             WTERMSIG(state), strsignal(WTERMSIG(state)));
  else
    cli_fail(CLI_IMPOSSIBLE, "peers: %.200s ended with status %d; continuing without it", peers->python,
             WEXITSTATUS(state));
  peers->failed = true;
  return false;
}

static bool fail_garbage(cli_peers *peers, const char *line) {
  cli_fail(CLI_IMPOSSIBLE, "peers: %.200s answered \"%.60s\", which is not the protocol; going on without it",
           peers->python, line);
  reap(peers, true);
  peers->failed = true;
  return false;
}

/* Waits for bytes; false if none will come, with the process then gone. */
static bool wait_for_bytes(cli_peers *peers) {
  const double end = cli_seconds() + patience;
  while (!cli_interrupted()) {
    struct pollfd source = {.fd = peers->from, .events = POLLIN};
    const int ready = poll(&source, 1, 200);
    if (ready > 0) return true;
    if (cli_seconds() > end) return fail_silent(peers);
  }
  reap(peers, true);
  return false;
}

/* Moves the next line into `line`, without its end. */
static bool read_line(cli_peers *peers, char line[CLI_ANSWER_LINE]) {
  for (;;) {
    char *end = memchr(peers->text, '\n', peers->filled);
    if (end) {
      const size_t length = (size_t)(end - peers->text), rest = peers->filled - length - 1;
      snprintf(line, CLI_ANSWER_LINE, "%.*s", (int)length, peers->text);
      memmove(peers->text, end + 1, rest);
      peers->filled = rest;
      return true;
    }
    if (peers->filled == sizeof peers->text) return fail_garbage(peers, "a line without an end");
    if (!wait_for_bytes(peers)) return false;
    const ssize_t got = read(peers->from, peers->text + peers->filled, sizeof peers->text - peers->filled);
    if (got == 0) return fail_ended(peers);
    if (got > 0) peers->filled += (size_t)got;
  }
}

cli_json cli_peers_ask(cli_peers *peers, const char *what) {
  cli_json request = cli_json_open(peers->to);
  cli_json_text(&request, "do", what);
  return request;
}

void cli_peers_send(cli_json *request) {
  cli_json_close(request);
  fflush(request->file); /* if it has ended, reading its answer will say so */
}

bool cli_peers_answer(cli_peers *peers, cli_answer *answer) {
  if (peers->pid <= 0 || !read_line(peers, answer->line)) return false;
  char line[64];
  snprintf(line, sizeof line, "%.63s", answer->line);
  if (!cli_answer_parse(answer)) return fail_garbage(peers, line);
  return isnan(cli_answer_number(answer, "done"));
}

/* ---- which libraries there are */

static void note_library(cli_peers *peers, const cli_answer *answer) {
  const char *name = cli_answer_text(answer, "library"), *version = cli_answer_text(answer, "version");
  if (name && version && peers->libraries < CLI_LIBRARIES) {
    cli_library *library = &peers->library[peers->libraries++];
    snprintf(library->name, sizeof library->name, "%s", name);
    snprintf(library->version, sizeof library->version, "%s", version);
  } else if (name && !version) {
    const size_t used = strlen(peers->missing);
    snprintf(peers->missing + used, sizeof peers->missing - used, "%s%s", used ? ", " : "", name);
  }
}

bool cli_peers_start(cli_peers *peers, const char *device, int threads, char why[512]) {
  *peers = (cli_peers){.from = -1};
  why[0] = '\0';
  if (!find_python(device, peers->python, why)) return false;
  char script[PATH_MAX], kind[32];
  snprintf(kind, sizeof kind, "%.*s", (int)strcspn(device, " "), device);
  if (!cli_share_find("bench/peers/peers.py", script, sizeof script)) {
    snprintf(why, 512, "bench/peers/peers.py is not installed; install Faltung again");
    return false;
  }
  if (!start(peers, script, kind, threads)) {
    snprintf(why, 512, "no process can be started: %s", strerror(errno));
    reap(peers, true);
    return false;
  }
  cli_answer *answer = malloc(sizeof *answer);
  while (answer && cli_peers_answer(peers, answer)) note_library(peers, answer);
  free(answer);
  return peers->pid > 0;
}
