/* Suites: lists of problem lines to measure. A line of the file is
 *
 *   [NAME] PROBLEM [@ KERNEL] [<= MILLISECONDS ms]        # comment */
#ifndef FALT_CLI_SUITE_H
#define FALT_CLI_SUITE_H

#include "kernel.h"
#include "problem.h"

/* Braces and brackets make a line expand to many (walk.h). A line without a name (its second word has an equals sign)
 * is named by its number. The time is the target of a finished implementation on the machine that the suite was written
 * for. */

typedef struct cli_case {
  char suite[64], name[48], kernel[512]; /* kernel: empty for random taps */
  char line[CLI_LINE];
  double target; /* seconds, or 0 */
  int number;    /* of the line in the file */
  int walk;      /* number of the walk, from 1; 0: none */
} cli_case;

typedef struct cli_suite {
  cli_case *cases;
  int count, room;
  int walks;
} cli_suite;

/* Reads the suite of that name (`faltung bench quick`) or that file, checks every line of it, and adds it to *suite,
 * which begins as zeros. Prints an error and returns its exit status, or CLI_DONE; cli_suite_free afterwards in either
 * case. */
int cli_suite_add(const char *word, cli_suite *suite);
void cli_suite_free(cli_suite *suite);
/* Keeps the cases whose name contains text. */
void cli_suite_filter(cli_suite *suite, const char *text);
/* Sets the type of the cases that name none, and removes cases that are not defined for it. */
void cli_suite_retype(cli_suite *suite, falt_type type);

/* Filters and retypes as the options --filter and --type say. Prints an error and returns its exit status, where no
 * case is left; or CLI_DONE. */
int cli_suite_keep(const cli_options *options, cli_suite *suite);
/* Keeps `count` cases drawn at random, equally often from each line of the files, in the lines' order. Prints an error
 * and returns its exit status, or CLI_DONE. */
int cli_suite_draw(cli_suite *suite, int64_t count, uint64_t seed);

/* Makes a case of the option --kernel and sets *taps to it, or to NULL without the option. Prints an error and returns
 * its exit status, or CLI_DONE. */
int cli_case_of_option(const cli_options *options, cli_case *one, const cli_case **taps);
/* The kernel of a case that names one; false and *error if its size is not the problem's. */
bool cli_case_kernel(const cli_case *one, const falt_problem *problem, cli_kernel *kernel, io_error *error);
/* Gives a filter, filled at random, the values of the case: its kernel's, or weights of an average where random taps
 * would saturate an integer output. Prints an error and returns its exit status, or CLI_DONE. */
int cli_case_taps(const cli_case *one, const falt_problem *problem, void *filter);

#endif
