/* The verb layer: one network layer on .npy arrays, forward or backward, including pooling. */
#include <math.h>
#include <string.h>

#include "candidates.h"
#include "device.h"
#include "layer_files.h"
#include "report.h"
#include "stages.h"
#include "verbs.h"

typedef struct layer_job {
  const cli_options *options;
  cli_question *question;
  cli_operands operands;
  cli_layer_files files;
  cli_candidates list;
  falt_candidate chosen; /* its strings are gone */
  falt_stages stages;
  double began, read, write; /* seconds */
  size_t workspace;
  char plan[512], bound[16];
} layer_job;

static int check(layer_job *job) {
  const falt_problem *p = &job->question->problem;
  if (p->is_filter)
    return cli_fail(CLI_WRONG,
                    "layer: the problem is a filter; use `faltung correlate` or `faltung convolve` on files");
  job->files = cli_layer_files_list(job->options, p, &job->operands.set);
  return cli_layer_files_check(&job->files, job->options);
}

static int read_operands(layer_job *job) {
  job->began = cli_seconds();
  const int status = cli_layer_files_read(&job->files, &job->question->problem);
  job->read = cli_seconds() - job->began;
  return status;
}

static int create_results(layer_job *job) {
  return cli_layer_files_create(&job->files, &job->question->problem);
}

/* The filter's values for the plan. */
static const void *filter_values(const layer_job *job) {
  const falt_problem *p = &job->question->problem;
  const bool given = p->operation == FALT_BACKWARD_FILTER || p->filter_when == FALT_FILTER_GIVEN;
  return given ? NULL : job->operands.set.filter;
}

/* ---- the candidates: printed on request; the chosen one names the limit */

static void note_candidate(void *context, const falt_candidate *candidate) {
  layer_job *job = context;
  if (job->options->explain) cli_candidates_print(&job->list, candidate);
  if (!candidate->chosen) return;
  job->chosen = *candidate;
  snprintf(job->bound, sizeof job->bound, "%s", candidate->bound);
}

static int explain(layer_job *job) {
  const cli_question *q = job->question;
  job->list = (cli_candidates){.file = stdout,
                               .json = job->options->json,
                               .problem = q->line,
                               .device = falt_device_name(q->device),
                               .all = job->options->all};
  if (job->options->explain && !job->options->json) printf("%s\n", q->line);
  const falt_status status =
      falt_explain(q->device, &q->problem, &q->budget, filter_values(job), 0, note_candidate, job);
  if (status == FALT_OK && job->options->explain) cli_candidates_end(&job->list);
  return status == FALT_OK ? CLI_DONE : cli_fail_library(status);
}

/* ---- running */

static falt_status run_once(layer_job *job) {
  const cli_question *q = job->question;
  falt_plan *plan = NULL;
  falt_status status = falt_plan_create(&plan, q->device, &q->problem, &q->budget, filter_values(job));
  if (status == FALT_OK) {
    falt_plan_print(plan, job->plan, sizeof job->plan);
    job->workspace = falt_plan_workspace(plan);
    status = falt_execute_stages(plan, &job->operands.set, &job->stages);
  }
  falt_plan_destroy(&plan);
  return status;
}

/* A GPU that we chose ourselves and that fails is replaced. */
static int run(layer_job *job) {
  const bool chosen =
      cli_device_is_auto(job->options) && strncmp(falt_device_name(job->question->device), "cpu", 3) != 0;
  falt_status status = run_once(job);
  if (chosen && status >= FALT_NO_MEMORY) {
    const int retreat = cli_device_retreat(job->options, &job->question->device);
    if (retreat != CLI_DONE) return retreat;
    status = run_once(job);
  }
  return status == FALT_OK ? CLI_DONE : cli_fail_library(status);
}

static int write_results(layer_job *job) {
  const double start = cli_seconds();
  const int status = cli_layer_files_write(&job->files, &job->question->problem);
  job->write = cli_seconds() - start;
  return status;
}

/* ---- the report */

static double bytes(const layer_job *job, bool written) {
  return cli_layer_files_bytes(&job->files, &job->question->problem, written);
}

static int print_stages(layer_job *job) {
  const falt_stages *s = &job->stages;
  const bool copied = s->slabs > 0;
  const cli_stage stages[] = {{"read", job->read, bytes(job, false)},
                              {"copy in", copied ? s->copy_in : 0, s->bytes_in},
                              {"compute", s->compute, job->chosen.bytes},
                              {"copy out", copied ? s->copy_out : 0, s->bytes_out},
                              {"write", job->write, bytes(job, true)}};
  const double all = cli_seconds() - job->began;
  if (job->options->explain) cli_stages_print(stages, 5, all, s, job->options->json);
  return CLI_DONE;
}

static void print_json(const layer_job *job, double seconds, double share) {
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, "verb", "layer");
  cli_json_text(&json, "problem", job->question->line);
  cli_json_text(&json, "device", falt_device_name(job->question->device));
  cli_json_text(&json, "plan", job->plan);
  cli_json_number(&json, "seconds", seconds);
  cli_json_number(&json, "gbytes_per_s", job->chosen.bytes / seconds * 1e-9);
  cli_json_number(&json, "gflops", job->chosen.flops / seconds * 1e-9);
  cli_json_number(&json, "limit_share", share);
  cli_json_text(&json, "bound", job->bound);
  cli_json_integer(&json, "workspace_bytes", (int64_t)job->workspace);
  cli_json_close(&json);
}

static int report(layer_job *job) {
  const double seconds = fmax(job->stages.seconds, 1e-9);
  const double share = job->chosen.limit_share * job->chosen.predicted_seconds / seconds;
  char time[32];
  if (job->options->json)
    print_json(job, seconds, share);
  else if (!job->options->quiet)
    fprintf(stderr, "%s: %s, %s, %.0f%% of the %s limit\n", job->question->line, job->plan, cli_duration(seconds, time),
            100 * share, job->bound);
  return CLI_DONE;
}

int falt_verb_layer(const cli_options *options) {
  static int (*const steps[])(layer_job *) = {check, read_operands, create_results, explain,
                                              run,   write_results, print_stages,   report};
  cli_question question;
  layer_job job = {.options = options, .question = &question};
  int status = cli_question_open(options, 0, &question);
  for (size_t i = 0; status == CLI_DONE && i < sizeof steps / sizeof *steps; i++) status = steps[i](&job);
  cli_layer_files_abandon(&job.files);
  cli_operands_free(&job.operands);
  cli_question_close(&question);
  return status;
}
