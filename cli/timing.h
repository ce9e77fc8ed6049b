/* Timing one problem with its chosen plan, for the verbs time and bench. */
#ifndef FALT_CLI_TIMING_H
#define FALT_CLI_TIMING_H

#include "problem.h"
#include "report.h"

/* The fields of `time --json`, without closing the object. */
void cli_time_fields(cli_json *json, const cli_question *question, const falt_plan *plan,
                     const falt_candidate *measured);

#endif
