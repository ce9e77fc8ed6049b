/* The verb explain: every candidate for a problem, predicted and measured, or why it was rejected. */
#include <stdlib.h>

#include "candidates.h"
#include "counts.h"
#include "problem.h"
#include "report.h"
#include "verbs.h"

static const double default_seconds = 0.1; /* of measuring, for each candidate */

/* The heading waits for the first candidate, so that a question without an answer prints its error alone. */
static void print_candidate(void *context, const falt_candidate *candidate) {
  cli_candidates *list = context;
  if (list->count == 0 && !list->json) printf("%s\non %s\n\n", list->problem, list->device);
  cli_candidates_print(context, candidate);
}

static int explain(const cli_options *options, cli_question *question) {
  void *filter; /* its values may make a difference; other operands are made where something is measured */
  const int status = cli_filter_random(&filter, &question->problem, 1);
  if (status != CLI_DONE) return status;
  cli_candidates list = {.file = stdout,
                         .json = options->json,
                         .all = options->all,
                         .problem = question->line,
                         .filter = cli_filter_when(&question->problem),
                         .device = falt_device_name(question->device)};
  const double seconds = options->seconds >= 0 ? options->seconds : default_seconds;
  const falt_status done = falt_explain(question->device, &question->problem, &question->budget,
                                        cli_filter_known(&question->problem, filter), seconds, print_candidate, &list);
  free(filter);
  if (done != FALT_OK) return cli_fail_library(done);
  cli_candidates_end(&list);
  if (cli_counts_apply(&question->problem)) {
    if (options->json)
      cli_counts_json(stdout, question->line, &question->problem);
    else
      cli_counts_print(stdout, &question->problem);
  }
  return CLI_DONE;
}

int falt_verb_explain(const cli_options *options) {
  cli_question question;
  int status = cli_question_open(options, 0, &question);
  if (status == CLI_DONE) status = explain(options, &question);
  cli_question_close(&question);
  return status;
}
