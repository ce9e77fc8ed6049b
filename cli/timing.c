/* The verbs time (the chosen plan on random data) and tune (measure the candidates, remember the winner). */
#include "timing.h"

#include <string.h>

#include "verbs.h"

static const double default_seconds = 0.5, default_tune_seconds = 2;

void cli_time_fields(cli_json *json, const cli_question *question, const falt_plan *plan,
                     const falt_candidate *measured) {
  char text[512];
  falt_plan_print(plan, text, sizeof text);
  cli_json_text(json, "problem", question->line);
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

/* Plans with the filter's values known, as the command's filters do. */
static int time_problem(const cli_options *options, cli_question *question) {
  cli_operands operands;
  falt_operands placed = {.input = NULL};
  falt_plan *plan = NULL;
  falt_candidate measured;
  int status = cli_operands_random(&operands, &question->problem, 1);
  if (status != CLI_DONE) return status;
  falt_status done =
      falt_plan_create(&plan, question->device, &question->problem, &question->budget, operands.set.filter);
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
  int status = cli_question_open(options, 0, &question);
  if (status == CLI_DONE) status = time_problem(options, &question);
  cli_question_close(&question);
  return status;
}

/* ---- tune */

/* The first tuning measures the machine too: what it remembers is only as good as the estimates it is compared with. */
static falt_status measure_once(falt_device *device) {
  falt_limits limits;
  falt_device_limits(device, &limits);
  return limits.measured ? FALT_OK : falt_device_measure(device);
}

static int tune_problem(const cli_options *options, cli_question *question) {
  const falt_status measured = measure_once(question->device);
  if (measured != FALT_OK) return cli_fail_library(measured);
  if (question->budget.tune_seconds <= 0)
    question->budget.tune_seconds = options->seconds >= 0 ? options->seconds : default_tune_seconds;
  const int status = time_problem(options, question);
  if (status != CLI_DONE) return status;
  const falt_status saved = falt_wisdom_save(question->device, NULL);
  return saved == FALT_OK ? CLI_DONE : cli_fail_library(saved);
}

static int tune_line(const cli_options *options, const char *line) {
  cli_question question;
  int status = cli_question_read(options, line, &question);
  if (status == CLI_DONE) status = tune_problem(options, &question);
  cli_question_close(&question);
  return status;
}

/* Each line of a file that is neither empty nor a comment. A suite's names, kernels and times are passed over. */
static int tune_file(const cli_options *options, FILE *file) {
  char line[CLI_LINE];
  int status = CLI_DONE;
  while (status == CLI_DONE && fgets(line, sizeof line, file)) {
    line[strcspn(line, "#\n@<")] = '\0';
    const char *start = line + strspn(line, " \t");
    const char *first = start + strcspn(start, " \t");
    const char *second = first + strspn(first, " \t");
    if (!*start) continue;
    const bool named = *second && !strchr(second, '=') ? false : memchr(second, '=', strcspn(second, " \t")) == NULL;
    status = tune_line(options, named && *second ? second : start);
  }
  return status;
}

int falt_verb_tune(const cli_options *options) {
  if (options->operands == 1 && !strchr(options->operand[0], ' ')) {
    FILE *file = fopen(options->operand[0], "r");
    if (!file)
      return cli_fail(CLI_WRONG, "%.200s: not a file that can be read and not a problem line; name either",
                      options->operand[0]);
    const int status = tune_file(options, file);
    fclose(file);
    return status;
  }
  cli_question question;
  int status = cli_question_open(options, 0, &question);
  if (status == CLI_DONE) status = tune_problem(options, &question);
  cli_question_close(&question);
  return status;
}
