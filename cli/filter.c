/* The verbs convolve and correlate: apply one filter to a file and write another file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "candidates.h"
#include "device.h"
#include "filter.h"
#include "interrupt.h"
#include "outputs.h"
#include "report.h"
#include "verbs.h"

static bool flips(const filter_job *job) {
  return job->options->verb == CLI_CONVOLVE;
}

/* ---- the command line */

static int check_words(const cli_options *o, const char *verb) {
  if (o->operands < 2) {
    return cli_fail(CLI_WRONG, "%s: %d files given; write faltung %s INPUT OUTPUT --kernel K", verb, o->operands, verb);
  }
  if (!o->kernel) return cli_fail(CLI_WRONG, "%s: no kernel; add --kernel, such as --kernel gaussian:2", verb);
  if (o->anchor.count && o->origin.count) {
    return cli_fail(CLI_WRONG, "--origin: --anchor says the same in another way; give one of them");
  }
  if ((o->anchor.count || o->origin.count) && o->mode != FALT_SAME) {
    return cli_fail(CLI_WRONG, "--%s: only --mode same has one; leave it out", o->anchor.count ? "anchor" : "origin");
  }
  if (strcmp(o->operand[o->operands - 1], "-") == 0 && (o->json || o->explain)) {
    return cli_fail(CLI_WRONG, "--%s: standard output carries the array already; write to a file",
                    o->json ? "json" : "explain");
  }
  return CLI_DONE;
}

/* Which device is best is known when the problem is. */
static int open_device(filter_job *job) {
  const int status = cli_budget_make(job->options, &job->budget);
  if (status != CLI_DONE || cli_device_is_auto(job->options)) return status;
  return cli_device_make(job->options, &job->device);
}

static int choose_device(filter_job *job) {
  if (job->device) return CLI_DONE;
  return cli_device_choose(job->options, &job->problem, &job->budget, job->weights, &job->device);
}

static int open_input(filter_job *job, bool random) {
  io_error error;
  const cli_options *o = job->options;
  io_request request = {.space = (int)o->space, .volume = cli_kernel_is_volume(o->kernel), .random = random};
  if (o->page > 0) request.page = o->page;
  if (o->page == 0 && !io_holds_pages(job->out_path, o->format)) request.page = 1;
  io_close(&job->reader);
  job->reader = io_open(job->in_path, &request, &error);
  if (!job->reader) return cli_fail(CLI_WRONG, "%s", error.text);
  job->in = *io_reader_info(job->reader);
  return CLI_DONE;
}

/* Pages that nobody left out on purpose. */
static int tell_pages(filter_job *job) {
  if (job->options->page != 0 || job->in.in_file == job->in.pages || job->options->quiet) return CLI_DONE;
  fprintf(stderr,
          "faltung: note: %s: page 1 of %lld is filtered, as %s holds one; write .tif or .npy, or give --page\n",
          job->in_path, (long long)job->in.in_file, job->out_path);
  return CLI_DONE;
}

static int open_input_in_order(filter_job *job) {
  return open_input(job, false);
}

static int make_kernel(filter_job *job) {
  io_error error;
  const cli_options *o = job->options;
  if (!cli_kernel_make(o->kernel, job->in.space, false, &job->kernel, &error) ||
      (o->normalize && !cli_kernel_normalize(&job->kernel, &error))) {
    return cli_fail(CLI_WRONG, "%s", error.text);
  }
  if (job->kernel.rate > 0 && job->in.rate > 0 && fabs(job->kernel.rate - job->in.rate) > 0.5) {
    return cli_fail(CLI_WRONG, "--kernel %.200s: has %.0f Hz, and %.200s has %.0f Hz; resample one of them", o->kernel,
                    job->kernel.rate, job->in_path, job->in.rate);
  }
  falt_type type = cli_kernel_type(&job->kernel, job->in.type);
  job->weights = cli_kernel_pack(&job->kernel, type, &error);
  if (!job->weights) return cli_fail(CLI_WRONG, "%s", error.text);
  const int64_t *size = job->kernel.size;
  job->taps = falt_volume(job->weights, type, size[0], size[1], size[2]).tensor;
  return CLI_DONE;
}

static int read_boundaries(filter_job *job) {
  const cli_options *o = job->options;
  cli_boundaries *b = &job->boundaries;
  io_error error;
  cli_boundaries_default(o->dialect, o->mode, b);
  if (o->boundary && !cli_boundaries_parse(o->boundary, o->dialect, job->in.space, b, &error)) {
    return cli_fail(CLI_WRONG, "%s", error.text);
  }
  if (!o->has_cval) return CLI_DONE;
  bool is_constant = false;
  for (int axis = 3 - job->in.space; axis < 3; axis++) {
    is_constant |= b->side[axis][0] == FALT_CONSTANT || b->side[axis][1] == FALT_CONSTANT;
  }
  if (!is_constant) return cli_fail(CLI_WRONG, "--cval: no boundary is constant; add --boundary constant");
  if (b->has_value && b->value != o->cval) {
    return cli_fail(CLI_WRONG, "--cval: --boundary says %g and this %g; give one of them", b->value, o->cval);
  }
  b->value = o->cval;
  return CLI_DONE;
}

/* ---- the problem */

/* Interleaved samples in d, h, w order. */
static falt_tensor describe(const io_info *info) {
  int64_t row = info->size[2] * info->channels;
  falt_tensor tensor = falt_image(NULL, info->type, info->size[1], info->size[2], info->channels, row).tensor;
  tensor.size[FALT_D] = info->size[0];
  tensor.stride[FALT_D] = info->size[1] * row;
  return tensor;
}

/* The anchor by axis, counted in the kernel as written, from --anchor or --origin; untouched without either. */
static bool resolve_anchor(const filter_job *job, int64_t anchor[3], io_error *error) {
  const cli_options *o = job->options;
  if (!o->anchor.count && !o->origin.count) return true;
  int64_t given[3] = {0};
  for (int axis = 0; axis < 3; axis++) anchor[axis] = job->kernel.size[axis] / 2;
  bool relative = o->origin.count != 0;
  const char *name = relative ? "--origin" : "--anchor";
  if (!relative) memcpy(given, anchor, sizeof given);
  if (!cli_axes_resolve(relative ? &o->origin : &o->anchor, job->in.space, name, given, error)) return false;
  for (int axis = 0; axis < 3; axis++) {
    int64_t taps = job->kernel.size[axis], least = relative ? -(taps / 2) : 0;
    if (given[axis] < least || given[axis] > least + taps - 1) {
      return cli_wrong(error, "%s: %s=%lld is outside the kernel; give %lld to %lld", name, cli_axis_names[axis],
                       (long long)given[axis], (long long)least, (long long)(least + taps - 1));
    }
    anchor[axis] = relative ? anchor[axis] + given[axis] : given[axis];
  }
  return true;
}

static bool resolve_steps(const filter_job *job, falt_options *options, io_error *error) {
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  if (!cli_axes_resolve(&job->options->stride, job->in.space, "--stride", stride, error)) return false;
  if (!cli_axes_resolve(&job->options->dilation, job->in.space, "--dilation", dilation, error)) return false;
  for (int axis = 0; axis < 3; axis++) {
    const char *wrong = stride[axis] < 1 ? "--stride" : dilation[axis] < 1 ? "--dilation" : NULL;
    if (wrong) return cli_wrong(error, "%s: below 1 on %s; 1 is the least", wrong, cli_axis_names[axis]);
    options->axis[axis].stride = stride[axis];
    options->axis[axis].dilation = dilation[axis];
    memcpy(options->axis[axis].boundary, job->boundaries.side[axis], sizeof job->boundaries.side[axis]);
  }
  return true;
}

static bool fill_options(const filter_job *job, falt_options *options, io_error *error) {
  falt_options_default(options);
  options->space = job->in.space;
  options->mode = job->options->mode;
  options->boundary_value = job->boundaries.value;
  options->alpha = job->options->alpha;
  options->beta = job->options->beta;
  options->budget = job->budget;
  return resolve_steps(job, options, error) && resolve_anchor(job, options->anchor, error);
}

/* The input position of the first output sample: that of the middle tap. */
static int64_t first_sample(const filter_job *job, int axis) {
  const falt_axis *a = &job->problem.axis[axis];
  const int64_t taps = job->kernel.size[axis], middle = flips(job) ? taps - 1 - taps / 2 : taps / 2;
  return job->options->mode == FALT_SAME ? 0 : middle * a->dilation - a->pad[0];
}

static int make_problem(filter_job *job) {
  io_error error;
  falt_options options;
  if (!fill_options(job, &options, &error)) return cli_fail(CLI_WRONG, "%s", error.text);
  falt_tensor source = describe(&job->in);
  int wanted = job->options->out_type;
  falt_type out_type = wanted < 0 ? job->in.type : (falt_type)wanted;
  cli_range limits;
  if (job->options->scale_to_type && !cli_clip_limits(out_type, &limits)) {
    return cli_fail(CLI_WRONG, "--scale-to-type: %s has no range to fill; add an integer --out-type, such as u8",
                    falt_type_name(out_type));
  }
  falt_problem *problem = &job->problem;
  falt_status status = falt_problem_filter(problem, &source, &job->taps, out_type, flips(job), &options);
  if (status != FALT_OK) return cli_fail_library(status);
  problem->factors = job->kernel.factors;
  if (problem->rank == 0) problem->rank = job->kernel.rank;
  job->out = job->in;
  job->out.type = out_type;
  for (int axis = 0; axis < 3; axis++) {
    job->out.size[axis] = problem->output.size[FALT_D + axis];
    job->out.step[axis] = problem->axis[axis].stride;
    job->out.origin[axis] = first_sample(job, axis);
  }
  problem->output = describe(&job->out);
  status = falt_problem_check(problem);
  if (status != FALT_OK) return cli_fail_library(status);
  falt_problem_print(problem, &job->budget, job->line, sizeof job->line);
  return CLI_DONE;
}

/* Rows in any order need another reader; standard input, which cannot be opened again, is held as a whole. */
static int choose_bands(filter_job *job) {
  job->band_rows = job->options->band_rows;
  if (!cli_band_is_random(&job->problem, job->band_rows, job->device)) return CLI_DONE;
  if (strcmp(job->in_path, "-") != 0) return open_input(job, true);
  job->band_rows = INT64_MAX;
  return CLI_DONE;
}

/* ---- running */

static int explain(filter_job *job) {
  if (!job->options->explain) return CLI_DONE;
  cli_candidates list = {.file = stdout,
                         .json = job->options->json,
                         .problem = job->line,
                         .device = falt_device_name(job->device),
                         .all = job->options->all};
  if (!list.json) printf("%s\n", job->line);
  falt_status status =
      falt_explain(job->device, &job->problem, &job->budget, job->weights, 0, cli_candidates_print, &list);
  if (status == FALT_OK) cli_candidates_end(&list);
  return status == FALT_OK ? CLI_DONE : cli_fail_library(status);
}

static int open_output(filter_job *job) {
  io_error error;
  job->writer = io_create(job->out_path, job->options->format, &job->out, job->reader, &error);
  return job->writer ? CLI_DONE : cli_fail(CLI_WRONG, "%s", error.text);
}

/* Whether outputs can exceed the output's type. Means of values inside it cannot. */
static bool can_clip(const filter_job *job) {
  const falt_problem *p = &job->problem;
  cli_range in, out;
  if (!cli_clip_limits(p->output.type, &out)) return false;
  double magnitudes, least = 0;
  const double sum = cli_kernel_sum(&job->kernel, &magnitudes);
  for (int64_t i = 0; i < cli_kernel_count(&job->kernel); i++) least = fmin(least, job->kernel.value[i]);
  const double slack = p->output.type == FALT_S32 ? 0 : 1e-6;
  const bool mean = least >= 0 && sum <= 1 + slack && p->alpha == 1 && p->beta == 0;
  const bool inside = cli_clip_limits(p->input.type, &in) && in.low >= out.low && in.high <= out.high &&
                      p->boundary_value >= out.low && p->boundary_value <= out.high;
  return !(mean && inside);
}

static cli_band_task task_of(const filter_job *job) {
  const bool told = job->options->json || !job->options->quiet;
  return told && !job->options->scale_to_type && can_clip(job) ? CLI_BAND_COUNT : CLI_BAND_WRITE;
}

static int run_once(filter_job *job, cli_band_task task, bool forgiving) {
  cli_band_job bands = {.problem = &job->problem,
                        .weights = job->weights,
                        .budget = &job->budget,
                        .device = job->device,
                        .reader = job->reader,
                        .pages = job->in.pages,
                        .writer = job->writer,
                        .rows = job->band_rows,
                        .task = task,
                        .progress = !job->options->quiet,
                        .forgiving = forgiving};
  return cli_band_run(&bands, &job->result);
}

/* With --scale-to-type the file is read twice: for the range of the exact outputs over all pages and channels, then
 * with the factor and the offset that map this range to the type's. Equal outputs all become the type's least value. */
static int scale_results(filter_job *job) {
  falt_problem *p = &job->problem;
  cli_range limits;
  if (!job->options->scale_to_type) return CLI_DONE;
  if (strcmp(job->in_path, "-") == 0)
    return cli_fail(CLI_WRONG,
                    "--scale-to-type: standard input can be read only once, and this reads twice; name a file");
  int status = run_once(job, CLI_BAND_RANGE, false);
  if (status == CLI_DONE) status = open_input_in_order(job);
  if (status == CLI_DONE) status = choose_bands(job);
  if (status != CLI_DONE) return status;
  cli_range *range = &job->range;
  *range = job->result.range;
  if (range->low > range->high)
    return cli_fail(CLI_WRONG, "--scale-to-type: no result is finite, so there is no range; check the input");
  cli_clip_limits(p->output.type, &limits);
  const double factor = range->high > range->low ? (limits.high - limits.low) / (range->high - range->low) : 0;
  p->beta = range->high > range->low ? (p->beta - range->low) * factor + limits.low : limits.low;
  p->alpha *= factor;
  const falt_status checked = falt_problem_check(p);
  if (checked != FALT_OK) return cli_fail_library(checked);
  falt_problem_print(p, &job->budget, job->line, sizeof job->line);
  return CLI_DONE;
}

/* A GPU that we chose ourselves and that fails is replaced, if the input can be read again. */
static int run_bands(filter_job *job) {
  const bool chosen = cli_device_is_auto(job->options) && strncmp(falt_device_name(job->device), "cpu", 3) != 0;
  const bool forgiving = chosen && strcmp(job->in_path, "-") != 0;
  int status = run_once(job, task_of(job), forgiving);
  if (!forgiving || !job->result.device_failed) return status;
  io_abandon(&job->writer);
  status = cli_device_retreat(job->options, &job->device);
  if (status == CLI_DONE) status = open_input_in_order(job);
  if (status == CLI_DONE) status = choose_bands(job);
  if (status == CLI_DONE) status = open_output(job);
  return status == CLI_DONE ? run_once(job, task_of(job), false) : status;
}

static int close_output(filter_job *job) {
  io_error error;
  return io_finish(&job->writer, &error) ? CLI_DONE : cli_fail(CLI_WRONG, "%s", error.text);
}

static void clean_up(filter_job *job) {
  io_abandon(&job->writer);
  io_close(&job->reader);
  cli_kernel_free(&job->kernel);
  free(job->weights);
  cli_device_destroy(&job->device);
}

static int run_file(const cli_options *options, const char *verb, const char *input, const char *output) {
  static int (*const steps[])(filter_job *) = {
      open_device, open_input_in_order, make_kernel,   read_boundaries, make_problem, choose_device, choose_bands,
      open_output, tell_pages,          scale_results, explain,         run_bands,    close_output};
  filter_job job = {.options = options, .verb = verb, .in_path = input, .out_path = output};
  int status = CLI_DONE;
  for (size_t i = 0; status == CLI_DONE && i < sizeof steps / sizeof *steps; i++) status = steps[i](&job);
  if (status == CLI_DONE) cli_filter_report(&job);
  clean_up(&job);
  return status;
}

/* Processes every input, even after an error; returns the worst status. */
static int run_filter(const cli_options *options, const char *verb) {
  io_error error;
  bool directory;
  int worst = check_words(options, verb);
  if (worst != CLI_DONE) return worst;
  if (!cli_outputs_check(options, &directory, &error)) return cli_fail(CLI_WRONG, "%s", error.text);
  for (int i = 0; i + 1 < options->operands && !cli_interrupted(); i++) {
    char output[PATH_MAX];
    const bool named = cli_outputs_name(options, i, directory, output, &error);
    if (options->operands > 2) cli_fail_about(options->operand[i]);
    const int status =
        named ? run_file(options, verb, options->operand[i], output) : cli_fail(CLI_WRONG, "%s", error.text);
    if (status > worst) worst = status;
  }
  return worst;
}

int falt_verb_convolve(const cli_options *options) {
  return run_filter(options, "convolve");
}

int falt_verb_correlate(const cli_options *options) {
  return run_filter(options, "correlate");
}
