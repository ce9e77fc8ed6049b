/* The verb verify: checks problems in separate processes, so a crash ends only one of them and is reported; reduces
 * failing problems; adds up by solver. */
#ifndef FALT_CLI_VERIFY_H
#define FALT_CLI_VERIFY_H

#include <stdatomic.h>

#include "problem.h"
#include "report.h"

enum { CLI_MOST_SOLVERS = 128 };

/* One failed check. Sent through a pipe: smaller than PIPE_BUF, so writes are atomic. */
typedef struct cli_failure {
  int64_t index; /* of the problem in the run */
  uint64_t seed; /* of the data */
  bool crashed;  /* nothing is known but `why` */
  double max_abs_error, max_rel_error, tolerance;
  char solver[32];   /* empty where no solver is to blame */
  char why[160];     /* empty where a result is wrong */
  char trouble[160]; /* the error */
} cli_failure;

/* Checks of one solver. `worst` is an error relative to its tolerance. */
typedef struct cli_checks {
  int64_t checks, failures;
  double worst;
  int64_t worst_index;
} cli_checks;

/* The state of one process, in memory shared with the first. */
typedef struct cli_share {
  _Atomic int64_t index;               /* of the problem in work; -1: none */
  _Atomic int64_t began;               /* when, in microseconds of cli_seconds */
  _Atomic int64_t problems;            /* done */
  cli_checks solver[CLI_MOST_SOLVERS]; /* by falt_solver_name */
} cli_share;

/* What to check. */
typedef struct cli_run {
  const cli_options *options;
  const char *line; /* one problem; NULL: random ones */
  uint64_t seed;    /* of the first; the next have the next seeds */
  int64_t count, variants;
  int processes;
  double limit; /* seconds for one problem */
} cli_run;

/* The line of problem `index`, in text. */
const char *cli_run_line(const cli_run *run, int64_t index, char text[CLI_LINE]);
/* Index of a solver's name, or -1. */
int cli_solver_find(const char *name);

/* ---- workers.c: runs everything and gives each failure to `fail` as it comes. Adds up in *total. Returns CLI_DONE,
 * also with failures and when interrupted, or the exit status of an error that was printed. */
int cli_workers_run(const cli_run *run, void (*fail)(void *context, const cli_failure *failure), void *context,
                    cli_share *total);
/* One verdict as a line of JSON; more fields may follow before cli_json_close. */
cli_json cli_verdict_open(const char *line, const falt_verdict *verdict);

/* ---- probe.c: one problem in a process of its own. */
typedef enum cli_outcome { CLI_PASSES, CLI_FAILS, CLI_CRASHES, CLI_REFUSED } cli_outcome;
/* Checks `line` by the solver `method` alone (empty: by all), within a number of seconds. *failure is of the failing
 * solver or says how the process ended. */
cli_outcome cli_probe(const cli_run *run, const char *line, const char *method, uint64_t seed, double seconds,
                      cli_failure *failure);
/* "signal 11 (Segmentation fault)" or "exit status 1", from waitpid's state. */
const char *cli_describe_end(int state, char text[64]);

/* ---- shrink.c: sets `line` to the smallest line found that fails in the same way by the same solver; false if the
 * failure did not recur. *failure becomes that line's. Finds the solver of a crash. */
bool cli_shrink(const cli_run *run, char line[CLI_LINE], cli_failure *failure);

#endif
