/* Timing one problem with its chosen plan, for the verbs time, tune and bench. */
#ifndef FALT_CLI_TIMING_H
#define FALT_CLI_TIMING_H

#include "problem.h"
#include "report.h"
#include "suite.h"

/* The fields of `time --json`, without closing the object. */
void cli_time_fields(cli_json *json, const cli_question *question, const falt_plan *plan,
                     const falt_candidate *measured);

/* Times a problem with its chosen plan, the filter's values known when planning, and reports. one, if not NULL, gives
 * the taps. Prints an error and returns its exit status, or CLI_DONE. */
int cli_time_problem(const cli_options *options, cli_question *question, const cli_case *one);

#endif
