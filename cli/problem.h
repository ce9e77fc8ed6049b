/* A problem from the words of the command line, its budget, and its operands. */
#ifndef FALT_CLI_PROBLEM_H
#define FALT_CLI_PROBLEM_H

#include "options.h"

enum { CLI_LINE = 2048 };

typedef struct cli_question {
  falt_problem problem;
  falt_budget budget;  /* the line's words, overridden by options */
  char line[CLI_LINE]; /* canonical, with the budget's words */
  falt_device *device;
} cli_question;

/* Joins the operands from `first` on into one problem line, reads it and makes the device. Prints an error and returns
 * its exit status, or CLI_DONE. */
int cli_question_open(const cli_options *options, int first, cli_question *question);
/* Only joins them. */
int cli_line_join(const cli_options *options, int first, char line[CLI_LINE]);
/* The same for a line at hand. */
int cli_question_read(const cli_options *options, const char *line, cli_question *question);
/* The same without a device. */
int cli_question_parse(const cli_options *options, const char *line, cli_question *question);
void cli_question_close(cli_question *question);

/* Operands of a problem, owned. */
typedef struct cli_operands {
  falt_operands set;
} cli_operands;

/* Random data for every operand: inputs over their type's range, taps in [-1, 1) or small integers, of the problem's
 * rank where it has one. Prints an error and returns its exit status, or CLI_DONE. */
int cli_operands_random(cli_operands *operands, const falt_problem *problem, uint64_t seed);
/* The filter alone, to be released by free; NULL for poolings. */
int cli_filter_random(void **filter, const falt_problem *problem, uint64_t seed);
/* The values if a plan is to know them: as the problem's word filter= says or, without it, for filters alone; or NULL.
 */
const void *cli_filter_known(const falt_problem *problem, const void *values);
/* "given" or "known", or NULL where the operation reads no filter. */
const char *cli_filter_when(const falt_problem *problem);
/* Adds the workspace that a plan needs. */
int cli_operands_workspace(cli_operands *operands, const falt_plan *plan);
void cli_operands_free(cli_operands *operands);
/* Copies in the memory of a GPU, the same memory for the CPU; a workspace for a plan included; released by
 * cli_operands_unplace. Prints an error and returns its exit status, or CLI_DONE. */
int cli_operands_place(const cli_operands *operands, const falt_problem *problem, falt_device *device,
                       const falt_plan *plan, falt_operands *placed);
void cli_operands_unplace(falt_device *device, falt_operands *placed);

/* The operand that the problem's operation writes. */
void **cli_result(falt_operands *operands, falt_operation operation);
/* Channels of the bias: outputs of all groups; and its type. */
int64_t cli_bias_count(const falt_problem *problem);
falt_type cli_bias_type(const falt_problem *problem);

/* size bytes aligned for the library, or NULL with the error printed; release with free. */
void *cli_allocate(int64_t size, const char *what);

#endif
