/* The verb ladder: the textbook's steps for one filter, each checked against the definition and timed, then the
 * planner. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ladder/ladder.h"
#include "problem.h"
#include "report.h"
#include "verbs.h"

static const double default_seconds = 0.5, tolerance = 1e-5;
enum { MAX_STEPS = 16 };

/* One step as measured. */
typedef struct rung {
  const char *name, *idea;
  double seconds, difference; /* largest difference from the first step, relative to the largest sum */
  double operations_per_byte;
} rung;

typedef struct climb {
  const cli_options *options;
  cli_question question;
  cli_operands operands;
  ladder_task task;
  float *expected;
  double limit_seconds; /* of the problem on this device */
  rung rungs[MAX_STEPS];
  int count;
} climb;

static const char *const default_lines[4] = {NULL, "correlate w=16777216 s=7", "correlate h=2048 w=2048 r=5 s=5",
                                             "correlate d=128 h=128 w=128 t=3 r=3 s=3"};

static int64_t count_of(const int64_t size[3]) {
  return size[0] * size[1] * size[2];
}

static double difference(const climb *c) {
  double most = 0, scale = 0;
  for (int64_t i = 0; i < count_of(c->task.size); i++) {
    const double gap = fabs((double)c->task.y[i] - (double)c->expected[i]);
    most = gap <= most ? most : gap; /* NaN wins */
    scale = fmax(scale, fabs((double)c->expected[i]));
  }
  return scale > 0 ? most / scale : most;
}

/* Least time of runs until the seconds are over; at least one. */
static double time_step(const ladder_step *step, const ladder_task *task, double seconds) {
  double least = INFINITY;
  for (const double end = cli_seconds() + seconds; isinf(least) || cli_seconds() < end;) {
    const double start = cli_seconds();
    step->run(task);
    least = fmin(least, cli_seconds() - start);
  }
  return least;
}

static void add_rung(climb *c, rung one) {
  if (c->count < MAX_STEPS) c->rungs[c->count++] = one;
}

static void run_step(climb *c, const ladder_step *step, double seconds) {
  memset(c->task.y, 0xff, (size_t)count_of(c->task.size) * sizeof(float)); /* NaN: what is not written shows */
  const double least = time_step(step, &c->task, seconds);
  if (c->count == 0) memcpy(c->expected, c->task.y, (size_t)count_of(c->task.size) * sizeof(float));
  const double flops = 2.0 * (double)count_of(c->task.taps);
  add_rung(c, (rung){step->name, step->idea, least, difference(c), flops / step->bytes_per_output(&c->task)});
}

static int run_planner(climb *c, double seconds) {
  falt_plan *plan = NULL;
  falt_candidate measured;
  memset(c->task.y, 0xff, (size_t)count_of(c->task.size) * sizeof(float));
  falt_status status =
      falt_plan_create(&plan, c->question.device, &c->question.problem, &c->question.budget, c->operands.set.filter);
  int result = CLI_DONE;
  if (status == FALT_OK) result = cli_operands_workspace(&c->operands, plan);
  if (status == FALT_OK && result == CLI_DONE) status = falt_plan_time(plan, &c->operands.set, seconds, &measured);
  if (status == FALT_OK && result == CLI_DONE) {
    c->limit_seconds = measured.limit_share * measured.seconds_median;
    add_rung(c, (rung){"planner", falt_plan_solver(plan), measured.seconds_min, difference(c),
                       measured.flops / measured.bytes});
  }
  falt_plan_destroy(&plan);
  return status == FALT_OK ? result : cli_fail_library(status);
}

static void print_text(const climb *c) {
  const double flops = 2.0 * (double)count_of(c->task.size) * (double)count_of(c->task.taps);
  const double bytes = 8.0 * (double)count_of(c->task.size);
  printf("%s\non %s\n\n  %-11s %10s %8s %9s %8s %9s %7s %11s  %s\n", c->question.line,
         falt_device_name(c->question.device), "step", "time", "GB/s", "GFLOP/s", "op/byte", "speed-up", "limit",
         "difference", "what is new");
  for (int i = 0; i < c->count; i++) {
    const rung *r = &c->rungs[i];
    char time[32];
    printf("  %-11s %10s %8.2f %9.2f %8.2f %8.1fx %6.1f%% %11.2g  %s\n", r->name, cli_duration(r->seconds, time),
           bytes / r->seconds * 1e-9, flops / r->seconds * 1e-9, r->operations_per_byte,
           c->rungs[0].seconds / r->seconds, 100 * c->limit_seconds / r->seconds, r->difference, r->idea);
  }
}

static void print_json(const climb *c) {
  const double flops = 2.0 * (double)count_of(c->task.size) * (double)count_of(c->task.taps);
  for (int i = 0; i < c->count; i++) {
    const rung *r = &c->rungs[i];
    cli_json json = cli_json_open(stdout);
    cli_json_text(&json, "problem", c->question.line);
    cli_json_text(&json, "device", falt_device_name(c->question.device));
    cli_json_text(&json, "step", r->name);
    cli_json_number(&json, "seconds_min", r->seconds);
    cli_json_number(&json, "gbytes_per_s", 8.0 * (double)count_of(c->task.size) / r->seconds * 1e-9);
    cli_json_number(&json, "gflops", flops / r->seconds * 1e-9);
    cli_json_number(&json, "operations_per_byte", r->operations_per_byte);
    cli_json_number(&json, "speedup", c->rungs[0].seconds / r->seconds);
    cli_json_number(&json, "limit_share", c->limit_seconds / r->seconds);
    cli_json_number(&json, "difference", r->difference);
    cli_json_close(&json);
  }
}

/* The steps know one kind of problem: f32, one channel, zero beyond the edges, anchor in the middle, nothing else. */
static bool is_ladders(const falt_problem *p) {
  bool plain = p->is_filter && p->input.type == FALT_F32 && p->filter.type == FALT_F32 && p->output.type == FALT_F32 &&
               p->boundary_value == 0 && p->alpha == 1 && p->beta == 0 && p->activation == FALT_IDENTITY &&
               !p->has_bias && !p->has_scale && !p->has_residual &&
               p->input.size[FALT_N] * p->input.size[FALT_G] * p->input.size[FALT_C] == 1;
  for (int a = 0; a < 3; a++) {
    const falt_axis *axis = &p->axis[a];
    plain = plain && axis->stride == 1 && axis->dilation == 1 && axis->pad[0] == p->filter.size[FALT_D + a] / 2 &&
            axis->boundary[0] == FALT_CONSTANT && axis->boundary[1] == FALT_CONSTANT &&
            p->output.size[FALT_D + a] == p->input.size[FALT_D + a] &&
            (p->filter.size[FALT_D + a] == 1 || p->filter.stride[FALT_D + a] > 0);
  }
  return plain;
}

static int open_task(climb *c) {
  const falt_problem *p = &c->question.problem;
  if (!is_ladders(p))
    return cli_fail(CLI_WRONG,
                    "ladder: the steps compute only a plain correlation (f32, one channel, \"same\", zero beyond the "
                    "edges); write one such as \"%s\"",
                    default_lines[p->space]);
  int status = cli_operands_random(&c->operands, p, 1);
  if (status != CLI_DONE) return status;
  falt_limits limits;
  falt_device_limits(c->question.device, &limits);
  c->task = (ladder_task){.x = c->operands.set.input,
                          .w = c->operands.set.filter,
                          .y = c->operands.set.output,
                          .threads = falt_device_threads(c->question.device)};
  for (int a = 0; a < 3; a++) c->task.size[a] = p->input.size[FALT_D + a], c->task.taps[a] = p->filter.size[FALT_D + a];
  c->expected = cli_allocate(count_of(c->task.size) * (int64_t)sizeof(float), "ladder");
  return c->expected ? CLI_DONE : CLI_IMPOSSIBLE;
}

static int run_climb(climb *c) {
  if (strncmp(falt_device_name(c->question.device), "cpu", 3) != 0)
    return cli_fail(CLI_IMPOSSIBLE, "ladder: its steps are written for the CPU; use --device cpu");
  int status = open_task(c);
  if (status != CLI_DONE) return status;
  const double seconds = c->options->seconds >= 0 ? c->options->seconds : default_seconds;
  for (const ladder_step *step = ladder_cpu; step->name; step++) run_step(c, step, seconds);
  status = run_planner(c, seconds);
  if (status != CLI_DONE) return status;
  (c->options->json ? print_json : print_text)(c);
  for (int i = 0; i < c->count; i++)
    if (!(c->rungs[i].difference <= tolerance))
      return cli_fail(CLI_CHECK_FAILED, "ladder: step %s differs from the definition by %g; this is a bug",
                      c->rungs[i].name, c->rungs[i].difference);
  return CLI_DONE;
}

int falt_verb_ladder(const cli_options *options) {
  static const char *const names[] = {"1d", "2d", "3d"};
  if (options->operands == 0) return cli_fail(CLI_WRONG, "ladder: which one? write 1d, 2d or 3d, or a problem line");
  const int space = cli_find_name(options->operand[0], names, 3) + 1;
  climb c = {.options = options};
  int status = options->operands > 1 || !space ? cli_question_open(options, space > 0, &c.question)
                                               : cli_question_read(options, default_lines[space], &c.question);
  if (status == CLI_DONE) status = run_climb(&c);
  free(c.expected);
  cli_operands_free(&c.operands);
  cli_question_close(&c.question);
  return status;
}
