/* Measurements of bench, and their three output formats. */
#ifndef FALT_CLI_BENCH_H
#define FALT_CLI_BENCH_H

#include "io/output.h"
#include "machine.h"
#include "peers.h"
#include "problem.h"
#include "suite.h"

enum { CLI_MAX_ROUNDS = 64, CLI_ENTRIES = CLI_PEERS + 3, CLI_FALTUNG = 0, CLI_COPY = 1 };

/* One implementation on one problem. */
typedef struct cli_entry {
  char library[24], implementation[64], version[40];
  double sample[CLI_MAX_ROUNDS]; /* medians of the rounds */
  int samples;
  double seconds, least;        /* the median of the samples; the minimum of all runs */
  double difference, tolerance; /* from Faltung's result; NaN where they were not compared */
  bool differs;
  int peer;        /* its number among those that the peers' process has loaded; -1 for all others */
  bool vendor;     /* a plan of this process by the vendor's library */
  char error[160]; /* why it has no time, or empty */
} cli_entry;

/* One problem: entry 0 is Faltung, 1 a copy, at the measured limit or run where peers run one, then the peers. */
typedef struct cli_row {
  const char *suite, *name, *solver, *bound;
  const char *filter; /* "given" or "known"; NULL without a filter */
  char line[CLI_LINE], plan[512];
  double bytes, flops, limit_seconds;
  double target; /* seconds that the suite asks for, or 0 */
  int64_t workspace;
  cli_entry entry[CLI_ENTRIES];
  int entries;
} cli_row;

typedef struct cli_bench {
  const cli_options *options;
  cli_suite suite;
  cli_machine machine;
  falt_device *device;
  falt_limits limits;
  double seconds; /* an implementation and problem, over all rounds */
  int rounds;
  cli_peers peers;
  bool vendor; /* its library exists: it is a peer in this process */
  cli_row *row;
  int rows; /* finished */
} cli_bench;

/* The device of the options, its limits measured. Prints an error and returns its exit status, or CLI_DONE. */
int cli_bench_device(const cli_options *options, falt_device **device, falt_limits *limits);
/* `faltung bench choice [SUITE...]`: how good the planner's choices are. Returns the exit status. */
int cli_bench_choice(const cli_options *options);
/* `faltung bench convolver [NAME=N...]`: the time of a block of the convolver. Returns the exit status. */
int cli_bench_convolver(const cli_options *options);

/* The peer's time over Faltung's; for Faltung, the fastest peer's over its own. NaN if there is none. */
double cli_bench_ratio(const cli_row *row, int entry);
/* The fastest peer, or -1. */
int cli_bench_best(const cli_row *row);
/* The fastest entry of a library, or -1. */
int cli_bench_fastest(const cli_row *row, const char *library);
/* Geometric mean of the fastest entries' ratios over the problems of an operation, NULL for all, and how many. */
double cli_bench_mean(const cli_bench *bench, const char *library, const char *operation, int *count);
/* The i-th of the problems' operations; false after the last. */
bool cli_bench_operation(const cli_bench *bench, int i, char operation[24]);
/* How many problems have a peer's time, and on how many of them Faltung is faster than every peer. */
int cli_bench_count(const cli_bench *bench, int *faster);
/* The i-th suite, in order; NULL after the last. */
const char *cli_bench_suite(const cli_bench *bench, int i);
/* Column i of a table: "copy", then the libraries; NULL at the end. */
const char *cli_bench_column(const cli_bench *bench, int i);

void cli_bench_print_head(const cli_bench *bench);
void cli_bench_print_row(const cli_bench *bench, const cli_row *row);
void cli_bench_print_foot(const cli_bench *bench);
/* Where the suite walks: the points that fall behind their neighbours, as a list or as JSON. */
void cli_bench_cliffs(const cli_bench *bench);
void cli_bench_json(const cli_bench *bench, const cli_row *row);
/* Writes the page and gives the file its name; releases *output. Prints an error and returns its exit status, or
 * CLI_DONE. */
int cli_bench_html(const cli_bench *bench, io_output *output);

#endif
