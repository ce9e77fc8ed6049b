/* The verb ladder: the textbook's steps for one filter or one network layer, each timed and checked against the first,
 * which is checked against sums in f64. The planner's choice is the last step. */
#include "ladder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "ladder/timing.h"
#include "ladder_task.h"
#include "report.h"
#include "verbs.h"

static const double default_seconds = 0.5, tolerance = 1e-5;

/* The steps' workloads: names[i] on the CPU, on a GPU. */
enum { NAMES = 5, FFT = 4, MOST_LINES = 3 };
static const char *const names[NAMES] = {"1d", "2d", "3d", "layer", "fft"};
static const char tutorial_layer[] = "forward n=64 c=1 h=28 w=28 k=16 r=5 s=5 pad=2";
static const char *const cpu_lines[NAMES][MOST_LINES] = {
    {"correlate w=16777216 s=7"},
    {"correlate h=2048 w=2048 r=5 s=5"},
    {"correlate d=128 h=128 w=128 t=3 r=3 s=3"},
    {tutorial_layer},
    {"correlate w=262144 s=129", "correlate h=512 w=512 r=31 s=31"}};
static const char *const cuda_lines[NAMES][MOST_LINES] = {
    {"correlate w=67108864 s=7"},
    {"correlate h=8192 w=8192 r=5 s=5", "correlate h=8192 w=8192 pixel=3 r=5 s=5"},
    {"correlate d=512 h=512 w=512 t=3 r=3 s=3"},
    {tutorial_layer, "forward n=64 c=64 h=56 w=56 k=64 r=3 s=3 pad=1",
     "forward n=128 c=3 h=227 w=227 k=96 r=11 s=11 stride=4"},
    {"correlate w=16777216 s=257", "correlate h=4096 w=4096 r=31 s=31"}};

typedef struct ladder_run {
  const cli_options *options;
  falt_device *device;
  double seconds; /* for each step */
  cli_climbs climbs;
} ladder_run;

/* ---- rungs */

static cli_rung *add_rung(cli_climb *climb, const char *name, const char *idea) {
  if (climb->rungs == CLI_RUNGS) return NULL;
  cli_rung *rung = &climb->rung[climb->rungs++];
  *rung = (cli_rung){.name = name, .counts = {.reads_saved = 1}};
  snprintf(rung->idea, sizeof rung->idea, "%s", idea);
  return rung;
}

/* ---- steps by plans: a solver's, or the planner's own */

typedef struct planned {
  falt_plan *plan;
  falt_operands operands;
  falt_device *device;
  falt_status status;
} planned;

static void run_plans(void *context, long runs) {
  planned *p = context;
  for (long i = 0; i < runs; i++) {
    const falt_status status = falt_execute(p->plan, &p->operands);
    if (p->status == FALT_OK) p->status = status;
  }
  const falt_status done = falt_device_synchronize(p->device);
  if (p->status == FALT_OK) p->status = done;
}

/* The problem of a stage: of all three operations as one. */
static falt_status problem_of(const cli_task *task, falt_problem *problem) {
  char line[CLI_LINE];
  *problem = task->question.problem;
  if (task->stage != CLI_POOLED) return FALT_OK;
  snprintf(line, sizeof line, "%.*s act=relu pool=max:2x2", (int)sizeof line - 32, task->question.line);
  return falt_problem_parse(problem, NULL, line);
}

/* `solver`: NULL for any. */
static falt_status make_plan(planned *p, const cli_task *task, const char *solver) {
  falt_problem problem;
  falt_budget budget = task->question.budget;
  const falt_status status = problem_of(task, &problem);
  if (status != FALT_OK) return status;
  if (solver) snprintf(budget.method, sizeof budget.method, "%s", solver);
  p->operands = (falt_operands){.input = (void *)(uintptr_t)task->ladder.x,
                                .filter = (void *)(uintptr_t)task->ladder.w,
                                .output = task->ladder.y};
  const falt_status made =
      falt_plan_create(&p->plan, p->device, &problem, &budget, cli_filter_known(&problem, task->ladder.host_taps));
  if (made != FALT_OK) return made;
  return falt_device_alloc(p->device, &p->operands.workspace, falt_plan_workspace(p->plan));
}

/* The lower bound of the problem's time: the larger of its bytes and its operations at the machine's limits. */
static falt_status find_limit(const ladder_run *run, const planned *p, cli_climb *climb) {
  falt_candidate measured;
  const falt_status status = falt_plan_time(p->plan, &p->operands, 0, &measured);
  if (status != FALT_OK) return status;
  falt_limits limits;
  falt_device_limits(run->device, &limits);
  const double whole = measured.limit_share * measured.seconds_median;
  const bool by_memory = strcmp(measured.bound, "memory") == 0;
  const double rate = by_memory ? measured.bytes / whole : limits.copy_bytes_per_s;
  const double compute = climb->operations / limits.f32_flops, memory = climb->bytes / rate;
  climb->limit_seconds = fmax(compute, memory);
  climb->bound = compute > memory ? "compute" : "memory";
  return FALT_OK;
}

static int time_plan(const ladder_run *run, cli_task *task, const cli_climb *climb, planned *p, cli_rung *rung) {
  rung->counts.operations_per_byte = climb->operations / climb->bytes;
  const int status = cli_task_poison(task);
  if (status != CLI_DONE) return status;
  run_plans(p, 1);
  if (p->status == FALT_OK) rung->seconds = ladder_least_time(run_plans, p, run->seconds);
  return p->status == FALT_OK ? cli_task_judge(task, &rung->difference) : cli_fail_library(p->status);
}

/* Skipped, with the library's reason, if the solver or its library is missing. */
static int run_solver(const ladder_run *run, cli_task *task, const cli_climb *climb, const ladder_step *step,
                      cli_rung *rung) {
  planned p = {.device = run->device};
  const falt_status made = make_plan(&p, task, step->solver);
  int status = CLI_DONE;
  if (made == FALT_OK) {
    status = time_plan(run, task, climb, &p, rung);
  } else {
    snprintf(rung->idea, sizeof rung->idea, "%s", falt_message());
    rung->skipped = rung->idea;
  }
  falt_device_free(run->device, &p.operands.workspace);
  falt_plan_destroy(&p.plan);
  return status;
}

static int run_planner(const ladder_run *run, cli_task *task, cli_climb *climb) {
  planned p = {.device = run->device};
  cli_rung *rung = add_rung(climb, "planner", "");
  if (!rung) return CLI_DONE;
  falt_status made = make_plan(&p, task, NULL);
  if (made == FALT_OK) made = find_limit(run, &p, climb);
  if (made == FALT_OK) snprintf(rung->idea, sizeof rung->idea, "%s", falt_plan_solver(p.plan));
  const int status = made == FALT_OK ? time_plan(run, task, climb, &p, rung) : cli_fail_library(made);
  falt_device_free(run->device, &p.operands.workspace);
  falt_plan_destroy(&p.plan);
  return status;
}

/* ---- one step */

static int run_step(const ladder_run *run, cli_task *task, cli_climb *climb, const ladder_step *step) {
  cli_rung *rung = add_rung(climb, step->name, step->idea);
  if (!rung) return CLI_DONE;
  if (step->solver && task->on_paper) rung->skipped = "a solver of the library: `faltung explain` predicts its time";
  if (rung->skipped) return CLI_DONE;
  if (step->solver) return run_solver(run, task, climb, step, rung);
  rung->skipped = ladder_refusal(step, &task->ladder, &rung->counts);
  if (rung->skipped || task->on_paper) return CLI_DONE;
  int status = cli_task_poison(task);
  if (status != CLI_DONE) return status;
  const falt_status timed = ladder_time(step, &task->ladder, run->seconds, &rung->seconds);
  if (timed != FALT_OK) return cli_fail_library(timed);
  return cli_task_judge(task, &rung->difference);
}

/* ---- one table */

static const ladder_step *steps_of(const cli_task *task) {
  static const ladder_step *const filters[3] = {ladder_cuda_signal, ladder_cuda_image, ladder_cuda_volume};
  const bool on_gpu = task->on_gpu;
  static const ladder_step *const transforms[2][2] = {{ladder_cpu_fft, ladder_cpu_fft_image},
                                                      {ladder_cuda_fft, ladder_cuda_fft_image}};
  const bool is_image = task->question.problem.space == 2;
  if (task->by_transforms) return transforms[on_gpu][is_image];
  if (task->stage == CLI_FILTER) return on_gpu ? filters[task->question.problem.space - 1] : ladder_cpu;
  if (task->stage == CLI_POOLED) return on_gpu ? ladder_cuda_pooled : ladder_cpu_pooled;
  return on_gpu ? ladder_cuda_layer : ladder_cpu_layer;
}

static int check(const cli_climb *climb) {
  for (int i = 0; i < climb->rungs; i++) {
    const cli_rung *rung = &climb->rung[i];
    if (!rung->skipped && !(rung->difference <= tolerance))
      return cli_fail(CLI_CHECK_FAILED, "ladder: step %s differs from the definition by %g; this is a bug", rung->name,
                      rung->difference);
  }
  return CLI_DONE;
}

/* An empty table for the task's next stage. */
static cli_climb *begin(ladder_run *run, cli_task *task, cli_stage stage) {
  static const char *const stages[] = {"filter", "convolution", "pooled"};
  cli_climb *climb = &run->climbs.climb[run->climbs.count++];
  cli_task_begin(task, stage);
  climb->stage = task->by_transforms ? "fft" : stages[stage];
  climb->on_paper = task->on_paper;
  climb->problem = task->question.problem;
  climb->operations = ladder_operations(&task->ladder, stage != CLI_FILTER);
  climb->bytes = 4 * cli_task_elements(task);
  snprintf(climb->line, sizeof climb->line, "%s", task->question.line);
  snprintf(climb->device, sizeof climb->device, "%s", falt_device_name(run->device));
  return climb;
}

static int run_stage(ladder_run *run, cli_task *task, cli_stage stage) {
  if (run->climbs.count == CLI_CLIMBS) return CLI_DONE;
  cli_climb *climb = begin(run, task, stage);
  int status = CLI_DONE;
  const ladder_step *steps = steps_of(task);
  int count = 0;
  while (steps[count].name) count++;
  cli_progress progress = cli_progress_begin(!run->options->quiet);
  for (int i = 0; i < count && status == CLI_DONE; i++) {
    status = run_step(run, task, climb, &steps[i]);
    cli_progress_step(&progress, i + 1, count + 1);
  }
  if (status == CLI_DONE && !task->on_paper) status = run_planner(run, task, climb);
  cli_progress_end();
  if (status != CLI_DONE) return status;
  (run->options->json ? cli_climb_json : cli_climb_text)(climb);
  return task->on_paper ? CLI_DONE : check(climb);
}

static int run_line(ladder_run *run, const char *line) {
  cli_task task = {.by_transforms = cli_find_name(run->options->operand[0], names, NAMES) == FFT};
  int status = cli_task_open(&task, run->options, run->device, line);
  if (status == CLI_DONE && task.stage == CLI_FILTER) status = run_stage(run, &task, CLI_FILTER);
  if (status == CLI_DONE && task.stage == CLI_CONVOLUTION) {
    status = run_stage(run, &task, CLI_CONVOLUTION);
    if (status == CLI_DONE && task.ladder.pooled[0] * task.ladder.pooled[1] > 0)
      status = run_stage(run, &task, CLI_POOLED);
  }
  cli_task_close(&task);
  return status;
}

/* ---- the verb */

static int run_operands(ladder_run *run) {
  const cli_options *options = run->options;
  const int which = cli_find_name(options->operand[0], names, NAMES);
  if (options->operands > 1 || which < 0) {
    char line[CLI_LINE];
    const int status = cli_line_join(options, which >= 0, line);
    return status == CLI_DONE ? run_line(run, line) : status;
  }
  const bool on_gpu = strncmp(falt_device_name(run->device), "cuda", 4) == 0;
  const char *const *lines = on_gpu ? cuda_lines[which] : cpu_lines[which];
  int status = CLI_DONE;
  for (int i = 0; i < MOST_LINES && lines[i] && status == CLI_DONE; i++) status = run_line(run, lines[i]);
  return status;
}

/* Opens the picture before the work: a path that cannot be written should not cost minutes. */
static int run_with_plot(ladder_run *run) {
  io_output output;
  io_error error;
  if (cli_device_is_described(run->device))
    return cli_fail(CLI_WRONG, "--plot: a described GPU has no times to draw; leave it out, or use a GPU that is here");
  if (!io_output_open(&output, run->options->plot, NULL, false, &error))
    return cli_fail(CLI_WRONG, "--plot %s", error.text);
  const int status = run_operands(run);
  if (status == CLI_DONE) return cli_climbs_plot(&run->climbs, &output);
  io_output_discard(&output);
  return status;
}

/* Of the options that only read: an exit status, or NOTHING_READ. */
enum { NOTHING_READ = -1 };

static int read_only(const cli_options *options) {
  if (!isnan(options->answer) && !options->exercise)
    return cli_fail(CLI_WRONG, "--answer: of which exercise? write --exercise N too");
  if (options->exercise) return cli_exercise(options->exercise, options->answer);
  if (options->show) return cli_ladder_show(options);
  if (!options->list) return NOTHING_READ;
  cli_ladder_list(options);
  return CLI_DONE;
}

int falt_verb_ladder(const cli_options *options) {
  const int done = read_only(options);
  if (done != NOTHING_READ) return done;
  if (options->operands == 0)
    return cli_fail(CLI_WRONG,
                    "ladder: which one? write 1d, 2d, 3d, layer or fft, or a problem line; --list names the steps");
  ladder_run *run = calloc(1, sizeof *run);
  if (!run) return cli_fail(CLI_IMPOSSIBLE, "ladder: memory ran out; close other programs");
  run->options = options;
  run->seconds = options->seconds >= 0 ? options->seconds : default_seconds;
  int status = cli_device_make(options, &run->device);
  if (status == CLI_DONE) status = options->plot ? run_with_plot(run) : run_operands(run);
  cli_device_destroy(&run->device);
  free(run);
  return status;
}
