/* The verb verify: every solver against the reference, on one problem or on random ones. */
#include "verify.h"

#include <inttypes.h>
#include <string.h>

#include "verbs.h"

enum { DEFAULT_COUNT = 100, SHRUNK = 3 /* failures of each solver that are made smaller */ };
static const double default_limit = 120; /* seconds for one problem */

typedef struct report {
  const cli_run *run;
  int64_t failures, crashes, refusals;
  int shrunk[CLI_MOST_SOLVERS + 1]; /* by solver; the last: crashes and refusals */
} report;

/* ---- failures */

static void print_json(const cli_failure *f, const char *line, const char *shrunk) {
  const falt_verdict verdict = {.solver = f->solver[0] ? f->solver : NULL,
                                .max_abs_error = f->max_abs_error,
                                .max_rel_error = f->max_rel_error,
                                .tolerance = f->tolerance,
                                .seed = f->seed};
  cli_json json = cli_verdict_open(line, &verdict);
  if (f->why[0]) cli_json_text(&json, f->crashed ? "crash" : "refused", f->why);
  if (f->trouble[0]) cli_json_text(&json, "trouble", f->trouble);
  if (shrunk) cli_json_text(&json, "shrunk", shrunk);
  cli_json_close(&json);
}

static void print_text(const cli_failure *f, const char *line) {
  const char *solver = f->solver[0] ? f->solver : "planning";
  if (f->why[0])
    printf("FAILED %-12s %s, seed %" PRIu64 ": %s\n", solver, f->why, f->seed, line);
  else
    printf("FAILED %-12s error %.3g (relative %.3g), tolerance %.3g, seed %" PRIu64 ": %s\n", solver, f->max_abs_error,
           f->max_rel_error, f->tolerance, f->seed, line);
  if (f->trouble[0]) printf("       %s\n", f->trouble);
}

/* The first few failures of each solver are reduced; the rest usually fail in the same way. */
static bool may_shrink(report *r, const cli_failure *f) {
  const int solver = cli_solver_find(f->solver);
  return r->shrunk[solver < 0 ? CLI_MOST_SOLVERS : solver]++ < SHRUNK;
}

static void note_failure(void *context, const cli_failure *failure) {
  report *r = context;
  char line[CLI_LINE], shrunk[CLI_LINE];
  cli_failure smaller = *failure;
  cli_run_line(r->run, failure->index, line);
  snprintf(shrunk, sizeof shrunk, "%s", line);
  const bool found = may_shrink(r, failure) && cli_shrink(r->run, shrunk, &smaller);
  r->failures += !failure->why[0];
  r->crashes += failure->crashed;
  r->refusals += failure->why[0] && !failure->crashed;
  cli_failure told = *failure;
  memcpy(told.solver, smaller.solver, sizeof told.solver);
  cli_progress_end();
  if (r->run->options->json) {
    print_json(&told, line, found ? shrunk : NULL);
  } else {
    print_text(&told, line);
    if (found) printf("       shrunk: %s\n", shrunk);
  }
  fflush(stdout);
}

/* ---- totals */

typedef struct sums {
  int64_t checks;
  int worst; /* solver; -1: no error at all */
} sums;

static sums add(const cli_share *total) {
  sums s = {.worst = -1};
  for (int i = 0; i < CLI_MOST_SOLVERS; i++) {
    const cli_checks *one = &total->solver[i];
    s.checks += one->checks;
    if (one->worst > 0 && (s.worst < 0 || one->worst > total->solver[s.worst].worst)) s.worst = i;
  }
  return s;
}

static void print_table(const cli_run *run, const cli_share *total) {
  char line[CLI_LINE];
  printf("%-22s %12s %9s %8s  %s\n", "solver", "checks", "failed", "worst", "of its tolerance, on");
  for (int i = 0; i < CLI_MOST_SOLVERS && falt_solver_name(i); i++) {
    const cli_checks *one = &total->solver[i];
    if (!one->checks) continue;
    printf("%-22s %12" PRId64 " %9" PRId64 " %8.2g  %s\n", falt_solver_name(i), one->checks, one->failures, one->worst,
           one->worst > 0 ? cli_run_line(run, one->worst_index, line) : "");
  }
}

static void print_summary(const report *r, const cli_share *total) {
  char line[CLI_LINE];
  const sums s = add(total);
  if (r->run->options->by_solver) print_table(r->run, total);
  printf("%" PRId64 " checks, %" PRId64 " failed", s.checks, r->failures);
  if (r->crashes) printf(", %" PRId64 " crashed", r->crashes);
  if (r->refusals) printf(", %" PRId64 " refused", r->refusals);
  if (s.worst >= 0) {
    const cli_checks *worst = &total->solver[s.worst];
    printf("; worst error %.2g of its tolerance (%s: %s)", worst->worst, falt_solver_name(s.worst),
           cli_run_line(r->run, worst->worst_index, line));
  }
  printf("\n");
}

/* One object for all, with one for each solver inside. */
static void print_json_summary(const report *r, const cli_share *total, double seconds) {
  char line[CLI_LINE];
  const sums s = add(total);
  cli_json json = cli_json_open(stdout);
  cli_json_integer(&json, "seed", (int64_t)r->run->seed);
  cli_json_integer(&json, "problems", total->problems);
  cli_json_integer(&json, "checks", s.checks);
  cli_json_integer(&json, "failures", r->failures);
  cli_json_integer(&json, "crashes", r->crashes);
  cli_json_integer(&json, "refusals", r->refusals);
  cli_json_number(&json, "worst", s.worst < 0 ? 0 : total->solver[s.worst].worst);
  cli_json_text(&json, "worst_solver", s.worst < 0 ? NULL : falt_solver_name(s.worst));
  cli_json_text(&json, "worst_problem",
                s.worst < 0 ? NULL : cli_run_line(r->run, total->solver[s.worst].worst_index, line));
  cli_json_number(&json, "seconds", seconds);
  cli_json_begin(&json, "solvers");
  for (int i = 0; i < CLI_MOST_SOLVERS && falt_solver_name(i); i++) {
    const cli_checks *one = &total->solver[i];
    if (!one->checks) continue;
    cli_json_begin(&json, falt_solver_name(i));
    cli_json_integer(&json, "checks", one->checks);
    cli_json_integer(&json, "failures", one->failures);
    cli_json_number(&json, "worst", one->worst);
    cli_json_end(&json);
  }
  cli_json_end(&json);
  cli_json_close(&json);
}

/* ---- the verb */

static cli_run run_of(const cli_options *options, const char *line) {
  cli_run run = {.options = options,
                 .line = *line ? line : NULL,
                 .seed = options->seed ? (uint64_t)options->seed : 1,
                 .count = options->count < 0 ? DEFAULT_COUNT : options->count,
                 .variants = options->variants ? options->variants : 1,
                 .processes = options->processes ? (int)options->processes : 1,
                 .limit = options->time_limit > 0 ? options->time_limit : default_limit};
  if (options->forever || run.count == 0) run.count = INT64_MAX;
  if (run.line) run.count = run.processes = 1;
  return run;
}

int falt_verb_verify(const cli_options *options) {
  char line[CLI_LINE] = "";
  if (options->operands) {
    const int joined = cli_line_join(options, 0, line);
    if (joined != CLI_DONE) return joined;
  }
  static cli_share total;
  const cli_run run = run_of(options, line);
  report r = {.run = &run};
  const double began = cli_seconds();
  const int status = cli_workers_run(&run, note_failure, &r, &total);
  if (status != CLI_DONE) return status;
  if (options->json && options->by_solver)
    print_json_summary(&r, &total, cli_seconds() - began);
  else if (!options->json && !options->quiet)
    print_summary(&r, &total);
  return r.failures + r.crashes + r.refusals ? CLI_CHECK_FAILED : CLI_DONE;
}
