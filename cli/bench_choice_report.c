/* The output of `faltung bench choice`: problems on which the planner's choice is not the best, and sums. */
#include <math.h>
#include <string.h>

#include "bench_choice.h"
#include "machine.h"

static const double tolerated = 1.1, far = 2;

/* ---- sums */

static cli_estimates *estimates_of(cli_choice_run *run, const char *solver) {
  const int most = (int)(sizeof run->estimates / sizeof *run->estimates);
  for (int i = 0; i < run->solvers; i++)
    if (strcmp(run->estimates[i].solver, solver) == 0) return &run->estimates[i];
  if (run->solvers == most) return NULL;
  cli_estimates *added = &run->estimates[run->solvers++];
  snprintf(added->solver, sizeof added->solver, "%s", solver);
  return added;
}

static void add_estimate(cli_choice_run *run, const cli_rival *rival) {
  cli_estimates *estimates = isfinite(rival->seconds) ? estimates_of(run, rival->solver) : NULL;
  if (!estimates) return;
  const double ratio = rival->predicted / rival->seconds;
  estimates->count++;
  estimates->off += ratio > far || ratio < 1 / far;
  estimates->logarithms += log(ratio);
}

static double mean_of(const cli_estimates *estimates) {
  return exp(estimates->logarithms / estimates->count);
}

static double mean_loss(const cli_choice_run *run) {
  return run->problems ? exp(run->losses / run->problems) : 1;
}

/* ---- one problem */

static void print_rival(const cli_rival *rival) {
  char seconds[32], predicted[32];
  printf("%s %s (predicted %s)", rival->solver, cli_duration(rival->seconds, seconds),
         cli_duration(rival->predicted, predicted));
}

static void print_miss(const cli_contest *c) {
  const bool has_kernel = c->one->kernel[0];
  printf("%5.2fx  %s: %s%s%s\n        ", c->ratio, c->one->name, c->line, has_kernel ? " @ " : "", c->one->kernel);
  print_rival(&c->rival[c->chosen]);
  printf("; best: ");
  print_rival(&c->rival[c->best]);
  printf("\n");
}

static void print_json(const cli_choice_run *run, const cli_contest *c) {
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, "problem", c->line);
  cli_json_text(&json, "kernel", c->one->kernel[0] ? c->one->kernel : NULL);
  cli_json_text(&json, "device", falt_device_name(run->device));
  cli_json_text(&json, "suite", c->one->suite);
  cli_json_text(&json, "name", c->one->name);
  cli_json_text(&json, "chosen", c->rival[c->chosen].solver);
  cli_json_text(&json, "best", c->rival[c->best].solver);
  cli_json_number(&json, "ratio", c->ratio);
  cli_json_number(&json, "plan_seconds", c->planning);
  cli_json_begin(&json, "candidates");
  for (int i = 0; i < c->rivals; i++) {
    cli_json_begin(&json, c->rival[i].solver);
    cli_json_number(&json, "predicted_seconds", c->rival[i].predicted);
    cli_json_number(&json, "seconds_median", c->rival[i].seconds);
    cli_json_end(&json);
  }
  cli_json_end(&json);
  cli_json_close(&json);
}

void cli_choice_add(cli_choice_run *run, const cli_contest *contest) {
  const bool within = contest->ratio <= tolerated;
  run->problems++;
  run->within += within;
  run->losses += log(contest->ratio);
  run->planning_most = fmax(run->planning_most, contest->planning);
  for (int i = 0; i < contest->rivals; i++) add_estimate(run, &contest->rival[i]);
  if (run->options->json)
    print_json(run, contest);
  else if (!within)
    print_miss(contest);
}

/* ---- all of them */

static void print_json_sums(const cli_choice_run *run) {
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, "device", falt_device_name(run->device));
  cli_json_integer(&json, "seed", run->seed);
  cli_json_integer(&json, "problems", run->problems);
  cli_json_integer(&json, "within", run->within);
  cli_json_number(&json, "mean_ratio", mean_loss(run));
  cli_json_number(&json, "plan_seconds_most", run->planning_most);
  cli_machine_json(&json);
  cli_json_begin(&json, "estimates");
  for (int i = 0; i < run->solvers; i++) {
    const cli_estimates *one = &run->estimates[i];
    cli_json_begin(&json, one->solver);
    cli_json_integer(&json, "timed", one->count);
    cli_json_number(&json, "mean_ratio", mean_of(one));
    cli_json_integer(&json, "off", one->off);
    cli_json_end(&json);
  }
  cli_json_end(&json);
  cli_json_close(&json);
}

static void print_sums(const cli_choice_run *run) {
  char most[32];
  printf("\n%-24s %6s %19s %14s\n", "estimates", "timed", "predicted/measured", "off by over 2");
  for (int i = 0; i < run->solvers; i++) {
    const cli_estimates *one = &run->estimates[i];
    printf("%-24s %6d %18.2fx %14d\n", one->solver, one->count, mean_of(one), one->off);
  }
  printf(
      "\nThe choice is within 10%% of the best on %d of %d problems (%.1f%%), seed %lld; geometric mean %.3fx;"
      " planning at most %s\n",
      run->within, run->problems, 100.0 * run->within / (run->problems ? run->problems : 1), (long long)run->seed,
      mean_loss(run), cli_duration(run->planning_most, most));
}

void cli_choice_end(const cli_choice_run *run) {
  if (run->options->json)
    print_json_sums(run);
  else
    print_sums(run);
}
