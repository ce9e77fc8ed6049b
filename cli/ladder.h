/* The tables of a ladder run: the verb fills them, the reports print or draw them. */
#ifndef FALT_CLI_LADDER_H
#define FALT_CLI_LADDER_H

#include "io/output.h"
#include "ladder/ladder.h"
#include "problem.h"

enum { CLI_RUNGS = 16, CLI_CLIMBS = 6 };

/* One step as measured, or skipped. */
typedef struct cli_rung {
  const char *name;
  char idea[96];
  const char *skipped; /* why; NULL: it ran */
  double seconds;      /* the least */
  double difference;   /* the largest from the first step, or of the first from sums in f64; relative to the largest */
  ladder_counts counts;
} cli_rung;

/* One table: the steps of a problem, or of a layer up to one stage. */
typedef struct cli_climb {
  const char *stage;   /* "filter", "convolution", "pooled" */
  char line[CLI_LINE]; /* of the problem */
  char device[128];
  falt_problem problem;
  double operations, bytes; /* of the problem: a multiply-add is two operations; bytes read and written */
  double limit_seconds;
  const char *bound; /* "memory" or "compute" */
  cli_rung rung[CLI_RUNGS];
  int rungs;
  bool on_paper; /* no times: the GPU is only described */
} cli_climb;

typedef struct cli_climbs {
  cli_climb climb[CLI_CLIMBS];
  int count;
} cli_climbs;

/* Seconds of the first step that ran. */
double cli_climb_first(const cli_climb *climb);
void cli_climb_text(const cli_climb *climb);
void cli_climb_json(const cli_climb *climb);

/* The steps of all ladders, or of those that the operand and --device name. */
void cli_ladder_list(const cli_options *options);
/* Prints the source of the steps of the name --show. Prints an error and returns its exit status, or CLI_DONE. */
int cli_ladder_show(const cli_options *options);

void cli_exercises_list(void);
/* Prints the question where the answer is NaN, else whether it is right: CLI_DONE or CLI_CHECK_FAILED. */
int cli_exercise(int64_t number, double answer);

/* Bars of all steps on one logarithmic axis of time, with the limit of each table: an SVG image into the open output,
 * which is committed or discarded. Prints an error and returns its exit status, or CLI_DONE. */
int cli_climbs_plot(const cli_climbs *climbs, io_output *output);

#endif
