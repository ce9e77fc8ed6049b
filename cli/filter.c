/* The verbs convolve and correlate: a file through one filter into another file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "band.h"
#include "candidates.h"
#include "device.h"
#include "kernel.h"
#include "report.h"
#include "stages.h"
#include "verbs.h"

typedef struct filter_job {
  const cli_options *options;
  const char *verb, *in_path, *out_path;
  falt_device *device;
  falt_budget budget;
  io_reader *reader;
  io_info in, out;
  cli_kernel kernel;
  falt_tensor taps;
  void *weights;
  cli_boundaries boundaries;
  falt_problem problem;
  char line[1024];   /* the problem's */
  int64_t band_rows; /* 0: as cli_band_run likes */
  io_writer *writer;
  cli_band_result result;
} filter_job;

static bool flips(const filter_job *job) {
  return job->options->verb == CLI_CONVOLVE;
}

/* ---- the command line */

static int check_words(filter_job *job) {
  const cli_options *o = job->options;
  if (o->operands != 2) {
    return cli_fail(CLI_WRONG, "%s: %d files given; write faltung %s INPUT OUTPUT --kernel K", job->verb, o->operands,
                    job->verb);
  }
  if (!o->kernel) return cli_fail(CLI_WRONG, "%s: no kernel; add --kernel, such as --kernel gaussian:2", job->verb);
  if (o->anchor.count && o->origin.count) {
    return cli_fail(CLI_WRONG, "--origin: --anchor says the same in another way; give one of them");
  }
  if ((o->anchor.count || o->origin.count) && o->mode != FALT_SAME) {
    return cli_fail(CLI_WRONG, "--%s: only --mode same has one; leave it out", o->anchor.count ? "anchor" : "origin");
  }
  job->in_path = o->operand[0];
  job->out_path = o->operand[1];
  if (strcmp(job->out_path, "-") == 0 && (o->json || o->explain)) {
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
  if (o->page == 0 && !io_holds_pages(job->out_path)) request.page = 1;
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
  if (!cli_kernel_make(o->kernel, job->in.space, o->normalize, &job->kernel, &error)) {
    return cli_fail(CLI_WRONG, "%s", error.text);
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

/* The input sample that the first output sample stands on: where the middle tap lies on it. */
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
  falt_problem *problem = &job->problem;
  falt_status status = falt_problem_filter(problem, &source, &job->taps, out_type, flips(job), &options);
  if (status != FALT_OK) return cli_fail_library(status);
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
  job->writer = io_create(job->out_path, &job->out, job->reader, &error);
  return job->writer ? CLI_DONE : cli_fail(CLI_WRONG, "%s", error.text);
}

static int run_once(filter_job *job, bool forgiving) {
  cli_band_job bands = {.problem = &job->problem,
                        .weights = job->weights,
                        .budget = &job->budget,
                        .device = job->device,
                        .reader = job->reader,
                        .pages = job->in.pages,
                        .writer = job->writer,
                        .rows = job->band_rows,
                        .progress = !job->options->quiet,
                        .forgiving = forgiving};
  return cli_band_run(&bands, &job->result);
}

/* A GPU that we chose ourselves and that fails is replaced, if the input can be read again. */
static int run_bands(filter_job *job) {
  const bool chosen = cli_device_is_auto(job->options) && strncmp(falt_device_name(job->device), "cpu", 3) != 0;
  const bool forgiving = chosen && strcmp(job->in_path, "-") != 0;
  int status = run_once(job, forgiving);
  if (!forgiving || !job->result.device_failed) return status;
  io_abandon(&job->writer);
  status = cli_device_retreat(job->options, &job->device);
  if (status == CLI_DONE) status = open_input_in_order(job);
  if (status == CLI_DONE) status = choose_bands(job);
  if (status == CLI_DONE) status = open_output(job);
  return status == CLI_DONE ? run_once(job, false) : status;
}

static int close_output(filter_job *job) {
  io_error error;
  return io_finish(&job->writer, &error) ? CLI_DONE : cli_fail(CLI_WRONG, "%s", error.text);
}

/* ---- the report */

/* What the run moved and computed: each operand once, each multiply-add as two. */
typedef struct work {
  double bytes, flops, share;
  const char *bound; /* "memory" or "compute" */
} work;

static double tensor_count(const falt_tensor *tensor) {
  double count = 1;
  for (int i = 0; i < FALT_DIMS; i++) count *= (double)tensor->size[i];
  return count;
}

/* Multiply-adds of one output that cannot be saved: a product of lines needs one line after the other. */
static double least_taps(const cli_kernel *kernel) {
  double sum = 0;
  for (int axis = 0; axis < 3; axis++) sum += kernel->size[axis] > 1 ? (double)kernel->size[axis] : 0;
  return kernel->rank == 1 ? fmax(sum, 1) : (double)cli_kernel_count(kernel);
}

/* The share of the limit that binds. A fast algorithm may need fewer multiply-adds than counted here and so pass the
 * compute limit; what then binds is memory. */
static work measure(const filter_job *job) {
  const falt_problem *p = &job->problem;
  double inputs = tensor_count(&p->input), outputs = tensor_count(&p->output),
         seconds = fmax(job->result.seconds, 1e-9);
  falt_limits limits;
  falt_device_limits(job->device, &limits);
  bool is_double = p->accumulator == FALT_F64;
  const double pages = (double)job->in.pages;
  inputs *= pages;
  outputs *= pages;
  work w = {.bytes = inputs * (double)falt_type_size(p->input.type) + outputs * (double)falt_type_size(p->output.type),
            .flops = 2 * outputs * (double)cli_kernel_count(&job->kernel)};
  double memory = w.bytes / limits.copy_bytes_per_s / seconds;
  double least = 2 * outputs * least_taps(&job->kernel);
  double compute = least / (is_double ? limits.f64_flops : limits.f32_flops) / seconds;
  bool computes = compute > memory && compute <= 1;
  w.share = computes ? compute : memory;
  w.bound = computes ? "compute" : "memory";
  return w;
}

static void print_json(const filter_job *job, const work *w) {
  char boundary[160];
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, "verb", job->verb);
  cli_json_text(&json, "input", job->in_path);
  cli_json_text(&json, "output", job->out_path);
  cli_json_text(&json, "kernel", job->options->kernel);
  cli_json_text(&json, "boundary", cli_boundaries_print(&job->boundaries, job->in.space, boundary, sizeof boundary));
  cli_json_text(&json, "problem", job->line);
  cli_json_integer(&json, "pages", job->in.pages);
  cli_json_text(&json, "device", falt_device_name(job->device));
  cli_json_text(&json, "plan", job->result.plan);
  cli_json_integer(&json, "bands", job->result.bands);
  cli_json_number(&json, "seconds", job->result.seconds);
  cli_json_number(&json, "gbytes_per_s", w->bytes / fmax(job->result.seconds, 1e-9) * 1e-9);
  cli_json_number(&json, "gflops", w->flops / fmax(job->result.seconds, 1e-9) * 1e-9);
  cli_json_number(&json, "limit_share", w->share);
  cli_json_text(&json, "bound", w->bound);
  cli_json_integer(&json, "workspace_bytes", (int64_t)job->result.workspace);
  cli_json_close(&json);
}

/* Sizes of the axes that exist, and channels if there are several: "2160x3840x3". */
static const char *print_sizes(const int64_t size[3], int space, int64_t channels, char text[96]) {
  size_t at = 0;
  for (int axis = 3 - space; axis < 3; axis++) {
    at += (size_t)snprintf(text + at, 96 - at, "%s%lld", at ? "x" : "", (long long)size[axis]);
  }
  if (channels > 1) snprintf(text + at, 96 - at, "x%lld", (long long)channels);
  return text;
}

/* The kernel's name without its numbers, or nothing for files and literals. */
static int name_length(const char *kernel) {
  return cli_kernel_is_name(kernel) ? (int)strlen(kernel) : 0;
}

static void print_summary(const filter_job *job, const work *w) {
  char in[96], out[96], taps[96], boundary[160], time[32];
  const io_info *a = &job->in, *b = &job->out;
  const char *kernel = job->options->kernel;
  fprintf(stderr, "%s ", job->verb);
  if (a->pages > 1) fprintf(stderr, "%lld pages of ", (long long)a->pages);
  fprintf(stderr, "%s %s", print_sizes(a->size, a->space, a->channels, in), falt_type_name(a->type));
  if (a->type != b->type || memcmp(a->size, b->size, sizeof a->size) != 0) {
    fprintf(stderr, " -> %s %s", print_sizes(b->size, b->space, b->channels, out), falt_type_name(b->type));
  }
  fprintf(stderr, ", %.*s%skernel %s", name_length(kernel), kernel, name_length(kernel) ? " " : "",
          print_sizes(job->kernel.size, a->space, 1, taps));
  if (job->options->mode != FALT_VALID) {
    fprintf(stderr, ", boundary %s%s", cli_boundaries_print(&job->boundaries, a->space, boundary, sizeof boundary),
            job->boundaries.is_default ? " (default)" : "");
  }
  fprintf(stderr, ", %s, ", job->result.plan);
  if (job->result.bands > a->pages) fprintf(stderr, "%lld bands, ", (long long)job->result.bands);
  fprintf(stderr, "%s, %.0f%% of the %s limit\n", cli_duration(job->result.seconds, time), 100 * w->share, w->bound);
}

static double file_bytes(const filter_job *job, const falt_tensor *tensor) {
  return (double)job->in.pages * tensor_count(tensor) * (double)falt_type_size(tensor->type);
}

static int print_stages(filter_job *job) {
  const falt_stages *s = &job->result.stages;
  const bool copied = s->slabs > 0;
  const falt_problem *p = &job->problem;
  const cli_stage stages[] = {{"read", job->result.read, file_bytes(job, &p->input)},
                              {"copy in", copied ? s->copy_in : 0, s->bytes_in},
                              {"compute", s->compute, file_bytes(job, &p->input) + file_bytes(job, &p->output)},
                              {"copy out", copied ? s->copy_out : 0, s->bytes_out},
                              {"write", job->result.write, file_bytes(job, &p->output)}};
  if (job->options->explain) cli_stages_print(stages, 5, job->result.all, s, job->options->json);
  return CLI_DONE;
}

static int report(filter_job *job) {
  work w = measure(job);
  if (job->options->json) {
    print_json(job, &w);
  } else if (!job->options->quiet) {
    print_summary(job, &w);
  }
  return CLI_DONE;
}

static void clean_up(filter_job *job) {
  io_abandon(&job->writer);
  io_close(&job->reader);
  cli_kernel_free(&job->kernel);
  free(job->weights);
  cli_device_destroy(&job->device);
}

static int run_filter(const cli_options *options, const char *verb) {
  static int (*const steps[])(filter_job *) = {
      check_words,  open_device,   open_input_in_order, make_kernel,  read_boundaries,
      make_problem, choose_device, choose_bands,        open_output,  tell_pages,
      explain,      run_bands,     close_output,        print_stages, report};
  filter_job job = {.options = options, .verb = verb};
  int status = CLI_DONE;
  for (size_t i = 0; status == CLI_DONE && i < sizeof steps / sizeof *steps; i++) status = steps[i](&job);
  clean_up(&job);
  return status;
}

int falt_verb_convolve(const cli_options *options) {
  return run_filter(options, "convolve");
}

int falt_verb_correlate(const cli_options *options) {
  return run_filter(options, "correlate");
}
