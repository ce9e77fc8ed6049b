/* The operand choice of the verb bench: times all candidates of problems drawn from suites, and compares the planner's
 * choice with the fastest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_choice.h"
#include "device.h"
#include "interrupt.h"

/* All candidates use the same data and alternate in rounds; the least of the rounds' medians counts, which other
 * processes disturb least. */

enum { DEFAULT_COUNT = 300, DEFAULT_ROUNDS = 3 };
static const double default_seconds = 1; /* for all candidates of a problem */
static const double hopeless = 10;       /* times the best estimate: such candidates are not timed */
static const double slow = 2;            /* times the fastest in the first round: such candidates are not timed again */

/* One problem while it is measured. */
typedef struct contest {
  const cli_choice_run *run;
  falt_problem problem;
  falt_budget budget;
  cli_operands operands;
  falt_operands placed;
  const void *known;
  falt_plan *chosen;
  falt_plan *plan[CLI_MOST_RIVALS]; /* of each rival; NULL: not timed */
  cli_contest *out;
} contest;

/* ---- plans */

/* The planner's own plan, and how long planning took. The first planning may compile kernels; the second shows the
 * planner's own time. */
static int choose(contest *c) {
  for (int pass = 0; pass < 2; pass++) {
    falt_plan_destroy(&c->chosen);
    const double began = cli_seconds();
    const falt_status done = falt_plan_create(&c->chosen, c->run->device, &c->problem, &c->budget, c->known);
    if (done != FALT_OK) return cli_fail_library(done);
    c->out->planning = cli_seconds() - began;
  }
  return CLI_DONE;
}

static void note_rival(void *context, const falt_candidate *candidate) {
  contest *c = context;
  if (candidate->rejected || c->out->rivals == CLI_MOST_RIVALS) return;
  const bool chosen = strcmp(candidate->solver, falt_plan_solver(c->chosen)) == 0;
  cli_rival *rival = &c->out->rival[c->out->rivals];
  *rival = (cli_rival){.predicted = candidate->predicted_seconds, .seconds = INFINITY};
  snprintf(rival->solver, sizeof rival->solver, "%s", candidate->solver);
  if (chosen) c->out->chosen = c->out->rivals;
  c->out->rivals++;
}

/* A candidate that cannot be planned by name, for want of memory for instance, is not timed. */
static void plan_rival(contest *c, int i) {
  falt_budget named = c->budget;
  snprintf(named.method, sizeof named.method, "%s", c->out->rival[i].solver);
  if (falt_plan_create(&c->plan[i], c->run->device, &c->problem, &named, c->known) != FALT_OK) c->plan[i] = NULL;
}

static int plan_rivals(contest *c) {
  const falt_status done = falt_explain(c->run->device, &c->problem, &c->budget, c->known, 0, note_rival, c);
  if (done != FALT_OK) return cli_fail_library(done);
  double best = INFINITY;
  for (int i = 0; i < c->out->rivals; i++) best = fmin(best, c->out->rival[i].predicted);
  for (int i = 0; i < c->out->rivals && !cli_interrupted(); i++)
    if (i == c->out->chosen)
      c->plan[i] = c->chosen, c->chosen = NULL;
    else if (c->out->rival[i].predicted <= hopeless * best)
      plan_rival(c, i);
  return CLI_DONE;
}

/* The operands with the largest workspace of all plans. */
static int place(contest *c) {
  const falt_plan *largest = NULL;
  for (int i = 0; i < c->out->rivals; i++)
    if (c->plan[i] && (!largest || falt_plan_workspace(c->plan[i]) > falt_plan_workspace(largest)))
      largest = c->plan[i];
  return cli_operands_place(&c->operands, &c->problem, c->run->device, largest, &c->placed);
}

static int prepare(contest *c, const cli_case *one) {
  if (falt_problem_parse(&c->problem, &c->budget, one->line) != FALT_OK)
    return cli_fail(CLI_WRONG, "%s", falt_message());
  falt_problem_print(&c->problem, &c->budget, c->out->line, sizeof c->out->line);
  int status = cli_operands_random(&c->operands, &c->problem, (uint64_t)c->run->seed);
  if (status == CLI_DONE && c->operands.set.filter) status = cli_case_taps(one, &c->problem, c->operands.set.filter);
  c->known = cli_filter_known(&c->problem, c->operands.set.filter);
  if (status == CLI_DONE) status = choose(c);
  if (status == CLI_DONE) status = plan_rivals(c);
  return status == CLI_DONE ? place(c) : status;
}

static void finish(contest *c) {
  cli_operands_unplace(c->run->device, &c->placed);
  for (int i = 0; i < c->out->rivals; i++) falt_plan_destroy(&c->plan[i]);
  falt_plan_destroy(&c->chosen);
  cli_operands_free(&c->operands);
}

/* ---- times */

static int time_rival(contest *c, int i, double seconds) {
  falt_candidate measured;
  const falt_status done = falt_plan_time(c->plan[i], &c->placed, seconds, &measured);
  if (done != FALT_OK) return cli_fail_library(done);
  c->out->rival[i].seconds = fmin(c->out->rival[i].seconds, measured.seconds_median);
  return CLI_DONE;
}

static void find_best(cli_contest *out) {
  out->best = out->chosen;
  for (int i = 0; i < out->rivals; i++)
    if (out->rival[i].seconds < out->rival[out->best].seconds) out->best = i;
}

/* The chosen plan runs in every round. */
static bool runs(const contest *c, int i, int round) {
  const cli_contest *out = c->out;
  if (!c->plan[i]) return false;
  return round == 0 || i == out->chosen || out->rival[i].seconds <= slow * out->rival[out->best].seconds;
}

static int run_rounds(contest *c) {
  int status = CLI_DONE;
  for (int round = 0; round < c->run->rounds; round++) {
    int count = 0;
    for (int i = 0; i < c->out->rivals; i++) count += runs(c, i, round);
    const double seconds = c->run->seconds / c->run->rounds / (count ? count : 1);
    for (int i = 0; i < c->out->rivals && status == CLI_DONE && !cli_interrupted(); i++)
      if (runs(c, i, round)) status = time_rival(c, i, seconds);
    if (round == 0) find_best(c->out);
  }
  find_best(c->out);
  return status;
}

/* ---- all problems */

static int run_case(const cli_choice_run *run, const cli_case *one, cli_contest *out) {
  contest c = {.run = run, .out = out};
  *out = (cli_contest){.one = one};
  int status = prepare(&c, one);
  if (status == CLI_DONE) status = run_rounds(&c);
  finish(&c);
  if (status == CLI_DONE) out->ratio = out->rival[out->chosen].seconds / out->rival[out->best].seconds;
  return status;
}

static int run_cases(cli_choice_run *run) {
  cli_progress progress = cli_progress_begin(!run->options->quiet);
  cli_contest *out = malloc(sizeof *out);
  int status = out ? CLI_DONE : cli_fail(CLI_IMPOSSIBLE, "bench choice: memory ran out; close other programs");
  for (int i = 0; status == CLI_DONE && i < run->suite.count && !cli_interrupted(); i++) {
    status = run_case(run, &run->suite.cases[i], out);
    if (status != CLI_DONE || cli_interrupted()) break;
    cli_progress_end();
    cli_choice_add(run, out);
    fflush(stdout);
    cli_progress_step(&progress, i + 1, run->suite.count);
  }
  cli_progress_end();
  free(out);
  if (cli_interrupted()) return CLI_IMPOSSIBLE;
  if (status == CLI_DONE) cli_choice_end(run);
  return status;
}

static int open_suites(cli_choice_run *run) {
  const cli_options *options = run->options;
  const bool is_gpu = strncmp(falt_device_name(run->device), "cuda", 4) == 0;
  int status = options->operands > 1 ? CLI_DONE : cli_suite_add(is_gpu ? "choice-gpu" : "choice-cpu", &run->suite);
  for (int i = 1; status == CLI_DONE && i < options->operands; i++)
    status = cli_suite_add(options->operand[i], &run->suite);
  if (status == CLI_DONE) status = cli_suite_keep(options, &run->suite);
  if (status == CLI_DONE)
    status = cli_suite_draw(&run->suite, options->count > 0 ? options->count : DEFAULT_COUNT, (uint64_t)run->seed);
  return status;
}

int cli_bench_choice(const cli_options *options) {
  static cli_choice_run run;
  run = (cli_choice_run){.options = options, .seed = options->seed ? options->seed : 1};
  run.seconds = options->seconds >= 0 ? options->seconds : default_seconds;
  run.rounds = options->rounds ? (int)options->rounds : DEFAULT_ROUNDS;
  if (options->peers || options->html)
    return cli_fail(CLI_WRONG, "--%s: bench choice times Faltung's own solvers; leave it out",
                    options->peers ? "peers" : "html");
  falt_limits limits;
  int status = cli_bench_device(options, &run.device, &limits);
  if (status == CLI_DONE) status = open_suites(&run);
  if (status == CLI_DONE) status = run_cases(&run);
  cli_suite_free(&run.suite);
  cli_device_destroy(&run.device);
  return status;
}
