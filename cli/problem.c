/* A problem from the words of the command line, its budget, and its operands. */
#include "problem.h"

#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "report.h"

/* ---- the question */

static int fail_no_problem(void) {
  return cli_fail(CLI_WRONG, "no problem given: nothing to do; write one such as \"correlate h=480 w=640 r=3 s=3\"");
}

int cli_question_parse(const cli_options *options, const char *line, cli_question *question) {
  *question = (cli_question){.device = NULL};
  falt_status status = falt_problem_parse(&question->problem, &question->budget, line);
  if (status != FALT_OK) return cli_fail_library(status);
  falt_budget asked;
  const int made = cli_budget_make(options, &asked);
  if (made != CLI_DONE) return made;
  if (asked.max_workspace >= 0) question->budget.max_workspace = asked.max_workspace;
  if (asked.max_error > 0) question->budget.max_error = asked.max_error;
  if (asked.method[0]) memcpy(question->budget.method, asked.method, sizeof asked.method);
  question->budget.deterministic |= asked.deterministic;
  question->budget.allow_tf32 |= asked.allow_tf32;
  question->budget.no_transforms |= asked.no_transforms;
  falt_problem_print(&question->problem, &question->budget, question->line, sizeof question->line);
  return CLI_DONE;
}

int cli_question_read(const cli_options *options, const char *line, cli_question *question) {
  const int status = cli_question_parse(options, line, question);
  if (status != CLI_DONE) return status;
  if (options->verb != CLI_LAYER) return cli_device_make(options, &question->device);
  falt_problem asked = question->problem;
  asked.filter_when = FALT_FILTER_AUTO; /* the values are read later */
  return cli_device_choose(options, &asked, &question->budget, NULL, &question->device);
}

int cli_line_join(const cli_options *options, int first, char line[CLI_LINE]) {
  size_t used = 0;
  line[0] = '\0';
  for (int i = first; i < options->operands; i++) {
    const int more = snprintf(line + used, CLI_LINE - used, "%s%s", i > first ? " " : "", options->operand[i]);
    used += (size_t)more;
    if (used >= CLI_LINE) return cli_fail(CLI_WRONG, "problem: longer than %d characters; shorten it", CLI_LINE - 1);
  }
  return used ? CLI_DONE : fail_no_problem();
}

int cli_question_open(const cli_options *options, int first, cli_question *question) {
  char line[CLI_LINE];
  *question = (cli_question){.device = NULL};
  const int status = cli_line_join(options, first, line);
  return status == CLI_DONE ? cli_question_read(options, line, question) : status;
}

void cli_question_close(cli_question *question) {
  cli_device_destroy(&question->device);
}

/* ---- operands */

void *cli_allocate(int64_t size, const char *what) {
  enum { ALIGN = 64 };
  void *memory = size < INT64_MAX - ALIGN ? aligned_alloc(ALIGN, ((size_t)size + ALIGN) / ALIGN * ALIGN) : NULL;
  if (!memory)
    cli_fail(CLI_IMPOSSIBLE, "%s: %lld bytes of memory are not available; use a smaller problem", what,
             (long long)size);
  return memory;
}

int64_t cli_bias_count(const falt_problem *problem) {
  return problem->filter.size[FALT_K] * problem->filter.size[FALT_G];
}
falt_type cli_bias_type(const falt_problem *problem) {
  return problem->output.type == FALT_F64 ? FALT_F64 : FALT_F32;
}

void **cli_result(falt_operands *operands, falt_operation operation) {
  switch (operation) {
    case FALT_BACKWARD_DATA:
    case FALT_BACKWARD_AVGPOOL:
      return &operands->input;
    case FALT_BACKWARD_FILTER:
      return &operands->filter;
    case FALT_BACKWARD_MAXPOOL:
      return &operands->residual;
    default:
      return &operands->output;
  }
}

static bool fill(void **operand, falt_type type, int64_t count, uint64_t seed, const char *what) {
  *operand = cli_allocate(count * (int64_t)falt_type_size(type), what);
  if (*operand) falt_random_fill(*operand, type, count, seed);
  return *operand != NULL;
}

static bool fill_tensor(void **operand, const falt_tensor *tensor, uint64_t seed, const char *what) {
  return fill(operand, tensor->type, falt_tensor_span(tensor), seed, what);
}

/* Sums of `rank` outer products of random vectors, for filters of floating type, as the problem line's rank promises.
 */
static void lower_rank(float *taps, const int64_t size[3], int rank, uint64_t seed) {
  const int64_t total = size[0] + size[1] + size[2];
  float *vectors = cli_allocate(total * (int64_t)sizeof *vectors, "filter");
  if (!vectors) return;
  memset(taps, 0, (size_t)(size[0] * size[1] * size[2]) * sizeof *taps);
  for (int term = 0; term < rank; term++) {
    falt_random_fill(vectors, FALT_F32, total, seed + (uint64_t)term);
    float *out = taps;
    for (int64_t t = 0; t < size[0]; t++)
      for (int64_t r = 0; r < size[1]; r++)
        for (int64_t s = 0; s < size[2]; s++)
          *out++ += vectors[t] * vectors[size[0] + r] * vectors[size[0] + size[1] + s];
  }
  free(vectors);
}

int cli_filter_random(void **filter, const falt_problem *p, uint64_t seed) {
  *filter = NULL;
  if (falt_problem_filter_elements(p) == 0) return CLI_DONE; /* pooling */
  if (!fill(filter, p->filter.type, falt_problem_filter_elements(p), seed, "filter")) return CLI_IMPOSSIBLE;
  const int64_t *taps = &p->filter.size[FALT_D];
  const bool one_filter = falt_tensor_span(&p->filter) == taps[0] * taps[1] * taps[2];
  if (p->rank > 0 && p->filter.type == FALT_F32 && one_filter) lower_rank(*filter, taps, p->rank, seed + 4);
  return CLI_DONE;
}

const void *cli_filter_known(const falt_problem *problem, const void *values) {
  return falt_problem_filter_when(problem) == FALT_FILTER_KNOWN ? values : NULL;
}

const char *cli_filter_when(const falt_problem *problem) {
  static const char *const names[] = {
      [FALT_FILTER_AUTO] = NULL, [FALT_FILTER_GIVEN] = "given", [FALT_FILTER_KNOWN] = "known"};
  return names[falt_problem_filter_when(problem)];
}

int cli_operands_random(cli_operands *operands, const falt_problem *p, uint64_t seed) {
  falt_operands *set = &operands->set;
  *operands = (cli_operands){.set = {.input = NULL}};
  const bool dx_apart = p->operation == FALT_BACKWARD_MAXPOOL;
  const falt_tensor *residual = dx_apart ? &p->input : &p->residual;
  const bool done = fill_tensor(&set->input, &p->input, seed, "input") &&
                    fill_tensor(&set->output, &p->output, seed + 1, "output") &&
                    cli_filter_random(&set->filter, p, seed + 2) == CLI_DONE &&
                    (!(dx_apart || p->has_residual) || fill_tensor(&set->residual, residual, seed + 3, "residual")) &&
                    (!p->has_bias || fill(&set->bias, cli_bias_type(p), cli_bias_count(p), seed + 4, "bias")) &&
                    (!p->has_scale || fill(&set->scale, cli_bias_type(p), cli_bias_count(p), seed + 5, "scale"));
  if (done) return CLI_DONE;
  cli_operands_free(operands);
  return CLI_IMPOSSIBLE;
}

int cli_operands_workspace(cli_operands *operands, const falt_plan *plan) {
  operands->set.workspace = cli_allocate((int64_t)falt_plan_workspace(plan), "workspace");
  return operands->set.workspace ? CLI_DONE : CLI_IMPOSSIBLE;
}

void cli_operands_free(cli_operands *operands) {
  falt_operands *set = &operands->set;
  void **all[] = {&set->input, &set->filter, &set->output, &set->bias, &set->scale, &set->residual, &set->workspace};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(*all[i]);
  *operands = (cli_operands){.set = {.input = NULL}};
}

/* ---- operands on a device */

static falt_status place(falt_device *device, void **there, const void *here, size_t bytes) {
  if (!here) return FALT_OK;
  const falt_status status = falt_device_alloc(device, there, bytes);
  return status == FALT_OK ? falt_device_write(device, *there, here, bytes) : status;
}

static size_t bytes_of(const falt_tensor *tensor) {
  return (size_t)falt_tensor_span(tensor) * falt_type_size(tensor->type);
}

static bool is_host(const falt_device *device) {
  return strncmp(falt_device_name(device), "cpu", 3) == 0;
}

int cli_operands_place(const cli_operands *operands, const falt_problem *p, falt_device *device, const falt_plan *plan,
                       falt_operands *placed) {
  const falt_operands *set = &operands->set;
  const size_t vector = (size_t)cli_bias_count(p) * falt_type_size(cli_bias_type(p));
  const size_t filter = (size_t)falt_problem_filter_elements(p) * falt_type_size(p->filter.type);
  const size_t residual = bytes_of(p->operation == FALT_BACKWARD_MAXPOOL ? &p->input : &p->residual);
  *placed = (falt_operands){.input = NULL};
  if (is_host(device)) { /* they are there already */
    *placed = *set;
    const falt_status made = falt_device_alloc(device, &placed->workspace, falt_plan_workspace(plan));
    return made == FALT_OK ? CLI_DONE : cli_fail_library(made);
  }
  falt_status status = place(device, &placed->input, set->input, bytes_of(&p->input));
  if (status == FALT_OK) status = place(device, &placed->output, set->output, bytes_of(&p->output));
  if (status == FALT_OK) status = place(device, &placed->filter, set->filter, filter);
  if (status == FALT_OK) status = place(device, &placed->residual, set->residual, residual);
  if (status == FALT_OK) status = place(device, &placed->bias, set->bias, vector);
  if (status == FALT_OK) status = place(device, &placed->scale, set->scale, vector);
  if (status == FALT_OK) status = falt_device_alloc(device, &placed->workspace, falt_plan_workspace(plan));
  if (status == FALT_OK) return CLI_DONE;
  cli_operands_unplace(device, placed);
  return cli_fail_library(status);
}

void cli_operands_unplace(falt_device *device, falt_operands *placed) {
  void **all[] = {&placed->input, &placed->filter,   &placed->output,   &placed->bias,
                  &placed->scale, &placed->residual, &placed->workspace}; /* the workspace is always its own */
  for (size_t i = is_host(device) ? 6 : 0; i < sizeof all / sizeof *all; i++) falt_device_free(device, all[i]);
}
