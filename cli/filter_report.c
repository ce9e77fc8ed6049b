/* The report of convolve and correlate about a run. */
#include "filter.h"

#include <math.h>
#include <string.h>

#include "report.h"
#include "stages.h"

/* The bytes and operations of the run: each operand once, each multiply-add as two. */
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
  const int terms = kernel->rank == 1 ? 1 : kernel->factors;
  return terms ? terms * fmax(sum, 1) : (double)cli_kernel_count(kernel);
}

/* Multiply-adds of one output as the dense filter has them. */
static double all_taps(const cli_kernel *kernel) {
  return (double)kernel->size[0] * (double)kernel->size[1] * (double)kernel->size[2];
}

/* The fraction of the binding limit. A fast algorithm may need fewer multiply-adds than counted here and so exceed the
 * compute limit; then memory binds. */
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
            .flops = 2 * outputs * all_taps(&job->kernel)};
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
  if (job->result.clipped >= 0) cli_json_integer(&json, "clipped", job->result.clipped);
  if (job->options->scale_to_type) {
    cli_json_number(&json, "scaled_from", job->range.low);
    cli_json_number(&json, "scaled_to", job->range.high);
  }
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
  if (job->options->scale_to_type)
    fprintf(stderr, ", results %g to %g scaled to %s", job->range.low, job->range.high, falt_type_name(b->type));
  fprintf(stderr, ", %s, ", job->result.plan);
  if (job->result.bands > a->pages) fprintf(stderr, "%lld bands, ", (long long)job->result.bands);
  fprintf(stderr, "%s, %.0f%% of the %s limit\n", cli_duration(job->result.seconds, time), 100 * w->share, w->bound);
}

static double file_bytes(const filter_job *job, const falt_tensor *tensor) {
  return (double)job->in.pages * tensor_count(tensor) * (double)falt_type_size(tensor->type);
}

static void print_stages(const filter_job *job) {
  const falt_stages *s = &job->result.stages;
  const bool copied = s->slabs > 0;
  const falt_problem *p = &job->problem;
  const cli_stage stages[] = {{"read", job->result.read, file_bytes(job, &p->input)},
                              {"copy in", copied ? s->copy_in : 0, s->bytes_in},
                              {"compute", s->compute, file_bytes(job, &p->input) + file_bytes(job, &p->output)},
                              {"copy out", copied ? s->copy_out : 0, s->bytes_out},
                              {"write", job->result.write, file_bytes(job, &p->output)}};
  cli_stages_print(stages, 5, job->result.all, s, job->options->json);
}

/* An output type that clips less. */
static const char *wider(falt_type type) {
  const size_t bytes = cli_type_is_integer(type) ? falt_type_size(type) : 0;
  return bytes == 1 ? "--out-type s16" : bytes == 2 ? "--out-type s32" : "--out-type f64";
}

/* Told unless nothing was clipped. */
static void print_clipped(const filter_job *job) {
  const double all = (double)job->in.pages * tensor_count(&job->problem.output), clipped = (double)job->result.clipped;
  if (clipped <= 0) return;
  fprintf(stderr, "faltung: note: %.0f of %.0f results (%.2g%%) were clipped to %s; use --scale-to-type or %s\n",
          clipped, all, 100 * clipped / all, falt_type_name(job->out.type), wider(job->out.type));
}

void cli_filter_report(const filter_job *job) {
  const work w = measure(job);
  if (job->options->explain) print_stages(job);
  if (job->options->json) {
    print_json(job, &w);
  } else if (!job->options->quiet) {
    print_summary(job, &w);
    print_clipped(job);
  }
}
