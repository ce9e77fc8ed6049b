/* Prints the candidates of a problem, for --explain and the verb explain. */
#include "candidates.h"

#include "report.h"

static void print_object(cli_candidates *list, const falt_candidate *candidate) {
  cli_json json = cli_json_open(list->file);
  cli_json_text(&json, "problem", list->problem);
  if (list->filter) cli_json_text(&json, "filter", list->filter);
  if (list->kernel) cli_json_text(&json, "kernel", list->kernel);
  cli_json_text(&json, "device", list->device);
  cli_json_text(&json, "solver", candidate->solver);
  cli_json_text(&json, "plan", candidate->rejected ? NULL : candidate->plan);
  cli_json_text(&json, "rejected", candidate->rejected);
  if (!candidate->rejected) {
    bool measured = candidate->seconds_median > 0;
    cli_json_flag(&json, "chosen", candidate->chosen);
    cli_json_number(&json, "predicted_seconds", candidate->predicted_seconds);
    if (measured) cli_json_number(&json, "seconds_median", candidate->seconds_median);
    if (measured) cli_json_number(&json, "seconds_min", candidate->seconds_min);
    cli_json_number(&json, "gbytes_per_s", candidate->gbytes_per_s);
    cli_json_number(&json, "gflops", candidate->gflops);
    cli_json_number(&json, "limit_share", candidate->limit_share);
    cli_json_text(&json, "bound", candidate->bound);
    cli_json_integer(&json, "workspace_bytes", (int64_t)candidate->workspace_bytes);
    cli_json_number(&json, "error", candidate->error);
  }
  cli_json_close(&json);
}

static void print_line(FILE *file, const falt_candidate *candidate) {
  if (candidate->rejected) {
    fprintf(file, "  %-14s rejected: %s\n", candidate->solver, candidate->rejected);
    return;
  }
  char predicted[32], measured[32] = "-";
  cli_duration(candidate->predicted_seconds, predicted);
  if (candidate->seconds_median > 0) cli_duration(candidate->seconds_median, measured);
  fprintf(file, "%c %-14s %10s %10s %5.0f%% of %-7s %10zu %8.1e  %s\n", candidate->chosen ? '*' : ' ',
          candidate->solver, predicted, measured, 100 * candidate->limit_share,
          candidate->bound ? candidate->bound : "-", candidate->workspace_bytes, candidate->error, candidate->plan);
}

void cli_candidates_print(void *context, const falt_candidate *candidate) {
  cli_candidates *list = context;
  if (candidate->rejected && candidate->out_of_scope && !list->all) {
    list->left_out++;
    return;
  }
  if (list->json) {
    print_object(list, candidate);
  } else {
    if (list->count == 0) {
      fprintf(list->file, "  %-14s %10s %10s %17s %10s %8s  %s\n", "solver", "predicted", "measured", "share of bound",
              "workspace", "error", "plan");
    }
    print_line(list->file, candidate);
  }
  list->count++;
}

void cli_candidates_end(const cli_candidates *list) {
  if (list->left_out > 0 && !list->json)
    fprintf(list->file, "  %d solvers for other kinds of problems are left out; --all lists them\n", list->left_out);
}
