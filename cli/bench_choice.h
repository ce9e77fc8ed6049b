/* The measurements of `faltung bench choice`, and their output. */
#ifndef FALT_CLI_BENCH_CHOICE_H
#define FALT_CLI_BENCH_CHOICE_H

#include "bench.h"

enum { CLI_MOST_RIVALS = 64 };

/* A candidate that fits the budget. */
typedef struct cli_rival {
  char solver[40];
  double predicted, seconds; /* seconds: infinite if it was not timed */
} cli_rival;

/* One problem. */
typedef struct cli_contest {
  const cli_case *one;
  char line[CLI_LINE];
  cli_rival rival[CLI_MOST_RIVALS];
  int rivals, chosen, best; /* best: the fastest of those timed */
  double ratio;             /* the chosen candidate's time over the best's */
  double planning;          /* seconds */
} cli_contest;

/* The estimates of one solver. */
typedef struct cli_estimates {
  char solver[40];
  int count, off;    /* off: by more than a factor of two */
  double logarithms; /* of predicted over measured times */
} cli_estimates;

typedef struct cli_choice_run {
  const cli_options *options;
  cli_suite suite;
  falt_device *device;
  int64_t seed;
  double seconds; /* a problem, over all candidates and rounds */
  int rounds;
  /* The sums of cli_choice_add. */
  int problems, within;
  double losses;        /* logarithms of the ratios */
  double planning_most; /* seconds */
  cli_estimates estimates[128];
  int solvers;
} cli_choice_run;

/* Prints a problem, in text only a miss, and adds it to the sums. */
void cli_choice_add(cli_choice_run *run, const cli_contest *contest);
/* Prints the sums. */
void cli_choice_end(const cli_choice_run *run);

#endif
