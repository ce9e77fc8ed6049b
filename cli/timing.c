/* The verb time: the chosen plan on random data. */
#include "timing.h"

#include <string.h>

#include "verbs.h"

static const double default_seconds = 0.5;

void cli_time_fields(cli_json *json, const cli_question *question, const falt_plan *plan,
                     const falt_candidate *measured) {
  char text[512];
  falt_plan_print(plan, text, sizeof text);
  cli_json_text(json, "problem", question->line);
  if (cli_filter_when(&question->problem)) cli_json_text(json, "filter", cli_filter_when(&question->problem));
  cli_json_text(json, "device", falt_device_name(question->device));
  cli_json_text(json, "plan", text);
  cli_json_number(json, "seconds_median", measured->seconds_median);
  cli_json_number(json, "seconds_min", measured->seconds_min);
  cli_json_number(json, "gbytes_per_s", measured->gbytes_per_s);
  cli_json_number(json, "gflops", measured->gflops);
  cli_json_number(json, "limit_share", measured->limit_share);
  cli_json_integer(json, "workspace_bytes", (int64_t)falt_plan_workspace(plan));
  cli_json_text(json, "bound", measured->bound);
}

static void report(const cli_options *options, const cli_question *question, const falt_plan *plan,
                   const falt_candidate *measured) {
  if (options->json) {
    cli_json json = cli_json_open(stdout);
    cli_time_fields(&json, question, plan, measured);
    cli_json_close(&json);
    return;
  }
  char text[512], median[32], least[32];
  falt_plan_print(plan, text, sizeof text);
  printf(
      "%s\n  %s on %s\n  median %s, minimum %s, %.1f GB/s, %.1f GFLOP/s, %.0f%% of the %s limit, workspace %zu bytes\n",
      question->line, text, falt_device_name(question->device), cli_duration(measured->seconds_median, median),
      cli_duration(measured->seconds_min, least), measured->gbytes_per_s, measured->gflops, 100 * measured->limit_share,
      measured->bound, falt_plan_workspace(plan));
}

int cli_time_problem(const cli_options *options, cli_question *question, const cli_case *one) {
  cli_operands operands;
  falt_operands placed = {.input = NULL};
  falt_plan *plan = NULL;
  falt_candidate measured;
  int status = cli_operands_random(&operands, &question->problem, 1);
  if (status != CLI_DONE) return status;
  if (one) status = cli_case_taps(one, &question->problem, operands.set.filter);
  if (status != CLI_DONE) {
    cli_operands_free(&operands);
    return status;
  }
  falt_status done = falt_plan_create(&plan, question->device, &question->problem, &question->budget,
                                      cli_filter_known(&question->problem, operands.set.filter));
  if (done == FALT_OK) status = cli_operands_place(&operands, &question->problem, question->device, plan, &placed);
  if (done == FALT_OK && status == CLI_DONE) {
    done = falt_plan_time(plan, &placed, options->seconds >= 0 ? options->seconds : default_seconds, &measured);
    if (done == FALT_OK) report(options, question, plan, &measured);
  }
  if (done != FALT_OK) status = cli_fail_library(done);
  cli_operands_unplace(question->device, &placed);
  falt_plan_destroy(&plan);
  cli_operands_free(&operands);
  return status;
}

int falt_verb_time(const cli_options *options) {
  cli_question question;
  cli_case kernel;
  const cli_case *taps;
  int status = cli_question_open(options, 0, &question);
  if (status == CLI_DONE) status = cli_case_of_option(options, &kernel, &taps);
  if (status == CLI_DONE) status = cli_time_problem(options, &question, taps);
  cli_question_close(&question);
  return status;
}
