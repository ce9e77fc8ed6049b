/* The verb verify: every solver against the reference, on one problem or on random ones. */
#include <inttypes.h>

#include "device.h"
#include "problem.h"
#include "report.h"
#include "verbs.h"

enum { DEFAULT_COUNT = 100 };

typedef struct tally {
  const cli_options *options;
  falt_device *device;
  const char *line;
  int64_t checks, failures;
  double worst; /* error as a share of its tolerance */
  char worst_line[CLI_LINE], worst_solver[64];
} tally;

static void print_verdict(const tally *t, const falt_verdict *v) {
  if (t->options->json) {
    cli_json json = cli_json_open(stdout);
    cli_json_text(&json, "problem", t->line);
    cli_json_text(&json, "solver", v->solver);
    cli_json_number(&json, "max_abs_error", v->max_abs_error);
    cli_json_number(&json, "max_rel_error", v->max_rel_error);
    cli_json_number(&json, "tolerance", v->tolerance);
    cli_json_flag(&json, "ok", v->ok);
    if (!v->ok) cli_json_text(&json, "trouble", falt_message());
    cli_json_integer(&json, "seed", (int64_t)v->seed);
    cli_json_close(&json);
  } else if (!v->ok || t->options->operands > 0) {
    printf("%s %-12s error %.3g (relative %.3g), tolerance %.3g, seed %" PRIu64 ": %s\n", v->ok ? "ok    " : "FAILED",
           v->solver, v->max_abs_error, v->max_rel_error, v->tolerance, v->seed, t->line);
    if (!v->ok) printf("       %s\n", falt_message());
  }
}

static void count_verdict(void *context, const falt_verdict *v) {
  tally *t = context;
  t->checks++;
  t->failures += !v->ok;
  const double share = v->tolerance > 0 ? v->max_abs_error / v->tolerance : 0;
  if (share > t->worst) {
    t->worst = share;
    snprintf(t->worst_line, sizeof t->worst_line, "%s", t->line);
    snprintf(t->worst_solver, sizeof t->worst_solver, "%s", v->solver);
  }
  print_verdict(t, v);
}

static int verify_line(tally *t, const char *line, uint64_t seed) {
  cli_question question;
  int status = cli_question_parse(t->options, line, &question);
  if (status == CLI_DONE) {
    t->line = question.line;
    const falt_status done = falt_verify(t->device, &question.problem, &question.budget, seed, count_verdict, t);
    if (done != FALT_OK) status = cli_fail_library(done);
  }
  return status;
}

static int verify_random(tally *t, uint64_t seed) {
  const int64_t count = t->options->count ? t->options->count : DEFAULT_COUNT;
  cli_progress progress = cli_progress_begin(!t->options->quiet);
  int status = CLI_DONE;
  for (int64_t i = 0; i < count && status == CLI_DONE; i++) {
    char line[CLI_LINE];
    falt_problem_random(seed + (uint64_t)i, line, sizeof line);
    status = verify_line(t, line, seed + (uint64_t)i);
    cli_progress_step(&progress, i + 1, count);
  }
  cli_progress_end();
  return status;
}

int falt_verb_verify(const cli_options *options) {
  tally t = {.options = options};
  char line[CLI_LINE] = "";
  size_t used = 0;
  for (int i = 0; i < options->operands && used < sizeof line; i++)
    used += (size_t)snprintf(line + used, sizeof line - used, "%s ", options->operand[i]);
  if (used >= sizeof line) return cli_fail(CLI_WRONG, "problem: longer than %d characters; shorten it", CLI_LINE - 1);
  const uint64_t seed = options->seed ? (uint64_t)options->seed : 1;
  int status = cli_device_make(options, &t.device);
  if (status == CLI_DONE) status = used ? verify_line(&t, line, seed) : verify_random(&t, seed);
  falt_device_destroy(&t.device);
  if (status != CLI_DONE) return status;
  if (!options->json && !options->quiet) {
    printf("%" PRId64 " checks, %" PRId64 " failed", t.checks, t.failures);
    if (t.worst > 0) printf("; worst error %.2g of its tolerance (%s: %s)", t.worst, t.worst_solver, t.worst_line);
    printf("\n");
  }
  return t.failures ? CLI_CHECK_FAILED : CLI_DONE;
}
