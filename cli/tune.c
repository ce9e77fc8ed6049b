/* The verb tune: measures the candidates and stores the winner; with --compile-only, fills the cache with the kernels
 * for GPUs that need not be present. */
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "timing.h"
#include "verbs.h"

static const double default_seconds = 2;

/* ---- measuring */

/* The first tuning also measures the machine, because estimates depend on its limits. */
static falt_status measure_once(falt_device *device) {
  falt_limits limits;
  falt_device_limits(device, &limits);
  return limits.measured ? FALT_OK : falt_device_measure(device);
}

static int tune_problem(const cli_options *options, cli_question *question, const cli_case *one) {
  const falt_status measured = measure_once(question->device);
  if (measured != FALT_OK) return cli_fail_library(measured);
  if (question->budget.tune_seconds <= 0)
    question->budget.tune_seconds = options->seconds >= 0 ? options->seconds : default_seconds;
  const int status = cli_time_problem(options, question, one);
  if (status != CLI_DONE) return status;
  const falt_status saved = falt_wisdom_save(question->device, NULL);
  return saved == FALT_OK ? CLI_DONE : cli_fail_library(saved);
}

/* ---- compiling for GPUs elsewhere */

typedef struct compilation {
  const cli_options *options;
  const cli_question *question;
  const void *filter;
  falt_device *device;
} compilation;

/* By the planner's choice, then by each solver: on the GPU itself measurements may choose another. Only the choice must
 * succeed; solvers that do not apply say so by explain. */
static int compile_plans(const compilation *c) {
  falt_budget budget = c->question->budget;
  falt_plan *plan;
  char chosen[64];
  falt_status done = falt_plan_create(&plan, c->device, &c->question->problem, &budget, c->filter);
  if (done != FALT_OK) return cli_fail_library(done);
  snprintf(chosen, sizeof chosen, "%s", falt_plan_solver(plan));
  falt_plan_destroy(&plan);
  int solvers = 1;
  for (int i = 0; !budget.method[0] && falt_solver_name(i); i++) {
    falt_budget named = budget;
    snprintf(named.method, sizeof named.method, "%s", falt_solver_name(i));
    if (strcmp(named.method, chosen) == 0) continue;
    solvers += falt_plan_create(&plan, c->device, &c->question->problem, &named, c->filter) == FALT_OK;
    falt_plan_destroy(&plan);
  }
  if (c->options->json) {
    cli_json json = cli_json_open(stdout);
    cli_json_text(&json, "problem", c->question->line);
    cli_json_text(&json, "device", falt_device_name(c->device));
    cli_json_text(&json, "chosen", chosen);
    cli_json_integer(&json, "solvers", solvers);
    cli_json_close(&json);
  } else if (!c->options->quiet) {
    printf("%s\n  compiled %s and %d more solvers for %s\n", c->question->line, chosen, solvers - 1,
           falt_device_name(c->device));
  }
  return CLI_DONE;
}

static int compile_for(compilation *c, const char *name, size_t length) {
  falt_cuda_options cuda;
  falt_cuda_options_default(&cuda);
  cuda.compile = true;
  snprintf(cuda.described, sizeof cuda.described, "%.*s", (int)length, name);
  const falt_status made = falt_device_cuda(&c->device, &cuda);
  const int status = made == FALT_OK ? compile_plans(c) : cli_fail_library(made);
  falt_device_destroy(&c->device);
  return status;
}

static int compile_problem(const cli_options *options, const cli_question *question, const cli_case *one) {
  void *filter = NULL;
  int status = cli_filter_random(&filter, &question->problem, 1);
  if (status == CLI_DONE && one && filter) status = cli_case_taps(one, &question->problem, filter);
  compilation c = {.options = options, .question = question, .filter = cli_filter_known(&question->problem, filter)};
  for (const char *at = options->arch; status == CLI_DONE && *at;) {
    const size_t length = strcspn(at, ",");
    status = compile_for(&c, at, length);
    at += length + (at[length] == ',');
  }
  free(filter);
  return status;
}

/* ---- the verb */

static int run_line(const cli_options *options, const char *line, const cli_case *one) {
  cli_question question;
  int status = options->compile_only ? cli_question_parse(options, line, &question)
                                     : cli_question_read(options, line, &question);
  if (status == CLI_DONE)
    status = options->compile_only ? compile_problem(options, &question, one) : tune_problem(options, &question, one);
  cli_question_close(&question);
  return status;
}

static int run_suite(const cli_options *options) {
  cli_suite suite = {.count = 0};
  int status = cli_suite_add(options->operand[0], &suite);
  for (int i = 0; status == CLI_DONE && i < suite.count; i++)
    status = run_line(options, suite.cases[i].line, &suite.cases[i]);
  cli_suite_free(&suite);
  return status;
}

int falt_verb_tune(const cli_options *options) {
  char line[CLI_LINE];
  if (options->compile_only && !options->arch)
    return cli_fail(CLI_WRONG, "--compile-only: no GPU given; add --arch sm_90a, or h200, or a list");
  if (options->arch && !options->compile_only)
    return cli_fail(CLI_WRONG,
                    "--arch: tunes nothing, this GPU or CPU is measured; add --compile-only or leave it out");
  cli_case kernel;
  const cli_case *taps;
  int status = cli_case_of_option(options, &kernel, &taps);
  if (status != CLI_DONE) return status;
  if (options->operands == 1 && !strchr(options->operand[0], ' '))
    return taps ? cli_fail(CLI_WRONG, "--kernel: a file's lines name their own after @; leave it out")
                : run_suite(options);
  status = cli_line_join(options, 0, line);
  return status == CLI_DONE ? run_line(options, line, taps) : status;
}
