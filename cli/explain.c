/* The verb explain: every candidate for a problem, with its predicted and measured time or the reason for its
 * rejection. */
#include <math.h>
#include <stdlib.h>

#include "candidates.h"
#include "counts.h"
#include "device.h"
#include "explain_page.h"
#include "problem.h"
#include "report.h"
#include "suite.h"
#include "verbs.h"

static const double default_seconds = 0.1; /* of measuring, for each candidate */

/* The heading is printed with the first candidate, so a failure prints its error alone. */
typedef struct answer {
  cli_candidates list;
  cli_explanation *page; /* NULL: no page was requested */
  int measured;
} answer;

static void print_candidate(void *context, const falt_candidate *candidate) {
  answer *a = context;
  if (a->list.count == 0 && !a->list.json) printf("%s\non %s\n\n", a->list.problem, a->list.device);
  cli_candidates_print(&a->list, candidate);
  if (candidate->seconds_median > 0) a->measured++;
  if (a->page) cli_explanation_add(a->page, candidate);
}

static int explain(const cli_options *options, cli_question *question, cli_explanation *page) {
  void *filter; /* its values may make a difference; other operands are made where something is measured */
  cli_case kernel;
  const cli_case *taps;
  int status = cli_case_of_option(options, &kernel, &taps);
  if (status == CLI_DONE) status = cli_filter_random(&filter, &question->problem, 1);
  if (status != CLI_DONE) return status;
  if (taps) status = cli_case_taps(taps, &question->problem, filter);
  if (status != CLI_DONE) {
    free(filter);
    return status;
  }
  answer a = {.list = {.file = stdout,
                       .json = options->json,
                       .all = options->all,
                       .problem = question->line,
                       .filter = cli_filter_when(&question->problem),
                       .kernel = options->kernel,
                       .device = falt_device_name(question->device)},
              .page = page};
  const double seconds = options->seconds >= 0 ? options->seconds : default_seconds;
  const falt_status done = falt_explain(question->device, &question->problem, &question->budget,
                                        cli_filter_known(&question->problem, filter), seconds, print_candidate, &a);
  free(filter);
  if (done != FALT_OK) return cli_fail_library(done);
  cli_candidates_end(&a.list);
  if (seconds > 0 && a.measured == 0 && !options->json && !cli_device_is_described(question->device))
    printf(
        "  nothing was measured: an execution is predicted to take longer than %g s, which --seconds can raise, or "
        "its\n"
        "  operands do not fit in memory\n",
        fmax(seconds, 10));
  if (cli_counts_apply(&question->problem)) {
    if (options->json)
      cli_counts_json(stdout, question->line, &question->problem);
    else
      cli_counts_print(stdout, &question->problem);
  }
  return CLI_DONE;
}

/* Opens the page before the work: a path that cannot be written should not cost minutes. */
static int explain_with_page(const cli_options *options, cli_question *question) {
  io_output output;
  io_error error;
  if (!io_output_open(&output, options->html, NULL, true, &error)) return cli_fail(CLI_WRONG, "--html %s", error.text);
  cli_explanation page = {.question = question};
  int status = explain(options, question, &page);
  falt_device_limits(question->device, &page.limits);
  if (status == CLI_DONE)
    status = cli_explain_page(&page, &output);
  else
    io_output_discard(&output);
  cli_explanation_free(&page);
  return status;
}

int falt_verb_explain(const cli_options *options) {
  cli_question question;
  int status = cli_question_open(options, 0, &question);
  if (status == CLI_DONE && options->html)
    status = explain_with_page(options, &question);
  else if (status == CLI_DONE)
    status = explain(options, &question, NULL);
  cli_question_close(&question);
  return status;
}
