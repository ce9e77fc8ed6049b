/* SIGINT, SIGTERM and SIGHUP. Handlers call async-signal-safe functions only. */
#include "interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exchange.h"
#include "io/output.h"
#include "report.h"

enum { DEVICES = 8, PATIENCE_NANOSECONDS = 400000000 };
static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
enum { CAUGHT = sizeof caught / sizeof *caught };

static volatile sig_atomic_t interrupted, group;
static _Atomic(falt_device *) watched[DEVICES];
static pid_t owner;
static timer_t patience;
static bool has_patience;

int cli_interrupted(void) {
  return interrupted;
}

bool cli_interrupts_in_child(void) {
  return getpid() != owner;
}

static const char *line_of(int number) {
  static const char *const lines[CAUGHT] = {"faltung: interrupted: SIGINT came; unfinished output was removed\n",
                                            "faltung: interrupted: SIGTERM came; unfinished output was removed\n",
                                            "faltung: interrupted: SIGHUP came; unfinished output was removed\n"};
  int i = 0;
  while (i < CAUGHT - 1 && caught[i] != number) i++;
  return lines[i];
}

static void die_of(int number) {
  sigset_t set;
  signal(number, SIG_DFL);
  sigemptyset(&set);
  sigaddset(&set, number);
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* inside its own handler it waits for this */
}

static void say(int number) {
  static const char clear[] = "\r\033[K";
  const char *line = line_of(number);
  if (cli_bar_is_shown && write(STDERR_FILENO, clear, sizeof clear - 1) < 0) return;
  if (write(STDERR_FILENO, line, strlen(line)) < 0) return; /* nobody listens */
}

void cli_interrupts_die(void) {
  fflush(stdout);
  say(interrupted);
  die_of(interrupted);
}

/* Without the verb's help. */
static void end_at_once(void) {
  io_output_remove_temporaries();
  cli_exchange_remove();
  if (group > 0) kill(-(pid_t)group, SIGKILL);
  say(interrupted);
  die_of(interrupted);
}

static void on_alarm(int number) {
  (void)number;
  if (getpid() == owner && interrupted) end_at_once();
}

static void on_signal(int number) {
  const int kept = errno;
  const struct itimerspec soon = {.it_value = {.tv_nsec = PATIENCE_NANOSECONDS}};
  if (getpid() != owner) {
    die_of(number);
    return;
  }
  if (interrupted) end_at_once();
  interrupted = number;
  cli_muted = 1;
  for (int i = 0; i < DEVICES; i++) {
    falt_device *device = atomic_load(&watched[i]);
    if (device) falt_device_interrupt(device);
  }
  if (!has_patience || timer_settime(patience, 0, &soon, NULL) != 0) end_at_once();
  errno = kept;
}

/* Without SA_RESTART: a read that waits for another process returns. */
void cli_interrupts_catch(void) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  struct sigaction action = {.sa_handler = on_signal}, old;
  if (owner == getpid()) return;
  owner = getpid();
  has_patience = timer_create(CLOCK_MONOTONIC, &event, &patience) == 0;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < CAUGHT; i++) sigaddset(&action.sa_mask, caught[i]);
  sigaddset(&action.sa_mask, SIGALRM);
  for (int i = 0; i < CAUGHT; i++)
    if (sigaction(caught[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(caught[i], &action, NULL);
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, NULL);
}

void cli_interrupts_watch(falt_device *device) {
  for (int i = 0; i < DEVICES; i++) {
    falt_device *none = NULL;
    if (!atomic_compare_exchange_strong(&watched[i], &none, device)) continue;
    if (interrupted) falt_device_interrupt(device);
    return;
  }
}

void cli_interrupts_forget(const falt_device *device) {
  for (int i = 0; i < DEVICES; i++)
    if (device && atomic_load(&watched[i]) == device) atomic_store(&watched[i], NULL);
}

void cli_interrupts_group(pid_t number) {
  group = number;
}
