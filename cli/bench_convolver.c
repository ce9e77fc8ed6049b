/* The verb `bench convolver`: the CPU time of falt_convolver_process, block by block, in the calling thread. Every
 * channel has its own response. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "device.h"
#include "interrupt.h"
#include "machine.h"

enum { CHANNELS, BLOCK, RATE, TAPS, PARTITION, GROWTH, LATENCY, SETTINGS };

typedef struct setting {
  const char *name;
  int64_t value, least, most;
} setting;

typedef struct convolver_run {
  setting set[SETTINGS];
  falt_convolver *convolver;
  float *signals, *responses;
  const void **input, **response;
  void **output;
  double *seconds; /* of each block */
  int64_t blocks;
} convolver_run;

static const double default_seconds = 10; /* of signal */

/* ---- settings: "channels=64" and the like */

static int read_setting(convolver_run *run, const char *text) {
  for (int i = 0; i < SETTINGS; i++) {
    setting *s = &run->set[i];
    const size_t length = strlen(s->name);
    if (strncmp(text, s->name, length) != 0 || text[length] != '=') continue;
    char *end;
    const long long value = strtoll(text + length + 1, &end, 10);
    if (*end || end == text + length + 1 || value < s->least || value > s->most)
      return cli_fail(CLI_WRONG, "bench convolver: %s: not an integer from %lld to %lld", text, (long long)s->least,
                      (long long)s->most);
    s->value = value;
    return CLI_DONE;
  }
  return cli_fail(CLI_WRONG,
                  "bench convolver: %s: no setting; use channels=N, block=N, rate=N, taps=N,"
                  " partition=N, growth=N or latency=N",
                  text);
}

static int read_settings(convolver_run *run, const cli_options *options) {
  int status = CLI_DONE;
  const char *other = options->peers    ? "peers"
                      : options->html   ? "html"
                      : options->filter ? "filter"
                      : options->rounds ? "rounds"
                      : options->seed   ? "seed"
                                        : NULL;
  if (other) return cli_fail(CLI_WRONG, "--%s: not for bench convolver, which runs one problem; leave it out", other);
  if (options->count >= 0) return cli_fail(CLI_WRONG, "--count: not for bench convolver; use --seconds");
  for (int i = 1; status == CLI_DONE && i < options->operands; i++) status = read_setting(run, options->operand[i]);
  const double seconds = options->seconds >= 0 ? options->seconds : default_seconds;
  run->blocks = (int64_t)fmax(1, ceil(seconds * (double)run->set[RATE].value / (double)run->set[BLOCK].value));
  return status;
}

/* ---- signals */

static bool make_signals(convolver_run *run) {
  const int64_t channels = run->set[CHANNELS].value, block = run->set[BLOCK].value, taps = run->set[TAPS].value;
  run->signals = malloc((size_t)(channels * block) * sizeof *run->signals);
  run->responses = malloc((size_t)(channels * taps) * sizeof *run->responses);
  run->input = calloc((size_t)channels, sizeof *run->input);
  run->output = calloc((size_t)channels, sizeof *run->output);
  run->response = calloc((size_t)(channels * channels), sizeof *run->response);
  run->seconds = malloc((size_t)run->blocks * sizeof *run->seconds);
  if (!run->signals || !run->responses || !run->input || !run->output || !run->response || !run->seconds) return false;
  falt_random_fill(run->responses, FALT_F32, channels * taps, 1);
  for (int64_t c = 0; c < channels; c++) {
    run->input[c] = run->output[c] = run->signals + c * block;
    run->response[c * channels + c] = run->responses + c * taps;
  }
  return true;
}

static int make(convolver_run *run, const falt_device *device) {
  falt_convolver_options options;
  falt_convolver_options_default(&options);
  options.inputs = options.outputs = (int)run->set[CHANNELS].value;
  options.taps = run->set[TAPS].value;
  options.partition = run->set[PARTITION].value;
  options.growth = (int)run->set[GROWTH].value;
  options.latency = run->set[LATENCY].value;
  if (!make_signals(run))
    return cli_fail(CLI_IMPOSSIBLE, "bench convolver: memory ran out; use fewer channels or taps");
  const falt_status status = falt_convolver_create(&run->convolver, device, &options, run->response);
  return status == FALT_OK ? CLI_DONE : cli_fail_library(status);
}

/* ---- times */

static double thread_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int rising(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int time_blocks(convolver_run *run) {
  const int64_t count = run->set[CHANNELS].value * run->set[BLOCK].value;
  for (int64_t i = 0; i < run->blocks; i++) {
    if (cli_interrupted()) return CLI_IMPOSSIBLE;
    falt_random_fill(run->signals, FALT_F32, count, (uint64_t)i);
    const double began = thread_seconds();
    const falt_status status = falt_convolver_process(run->convolver, run->input, run->output, run->set[BLOCK].value);
    run->seconds[i] = thread_seconds() - began;
    if (status != FALT_OK) return cli_fail_library(status);
  }
  qsort(run->seconds, (size_t)run->blocks, sizeof *run->seconds, rising);
  return CLI_DONE;
}

/* The least time that a share of the blocks does not exceed. */
static double quantile(const convolver_run *run, double share) {
  const int64_t rank = (int64_t)ceil(share * (double)run->blocks);
  return run->seconds[rank > 0 ? rank - 1 : 0];
}

static double mean(const convolver_run *run) {
  double sum = 0;
  for (int64_t i = 0; i < run->blocks; i++) sum += run->seconds[i];
  return sum / (double)run->blocks;
}

/* ---- output */

static void print_json(const convolver_run *run, const falt_device *device, double deadline) {
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, "suite", "convolver");
  cli_json_text(&json, "device", falt_device_name(device));
  for (int i = 0; i < SETTINGS; i++) cli_json_integer(&json, run->set[i].name, run->set[i].value);
  cli_json_integer(&json, "blocks", run->blocks);
  cli_json_number(&json, "seconds_deadline", deadline);
  cli_json_number(&json, "seconds_median", quantile(run, 0.5));
  cli_json_number(&json, "seconds_mean", mean(run));
  cli_json_number(&json, "seconds_p99", quantile(run, 0.99));
  cli_json_number(&json, "seconds_p999", quantile(run, 0.999));
  cli_json_number(&json, "seconds_max", quantile(run, 1));
  cli_json_text(&json, "implementation", "faltung");
  cli_json_text(&json, "version", falt_version());
  cli_machine_json(&json);
  cli_json_close(&json);
}

static void print_text(const convolver_run *run, const falt_device *device, double deadline) {
  static const struct {
    const char *name;
    double share;
  } rows[] = {{"median", 0.5}, {"99%", 0.99}, {"99.9%", 0.999}, {"maximum", 1}};
  char time[32];
  printf("convolver: %s, %lld channels, %lld taps, blocks of %lld samples at %lld Hz, deadline %s\n",
         falt_device_name(device), (long long)run->set[CHANNELS].value, (long long)run->set[TAPS].value,
         (long long)run->set[BLOCK].value, (long long)run->set[RATE].value, cli_duration(deadline, time));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const double seconds = quantile(run, rows[i].share);
    printf("%-8s %9s  %4.0f%% of the deadline\n", rows[i].name, cli_duration(seconds, time), 100 * seconds / deadline);
  }
}

static void free_run(convolver_run *run) {
  falt_convolver_destroy(&run->convolver);
  free(run->signals), free(run->responses), free(run->input), free(run->output), free(run->response);
  free(run->seconds);
}

int cli_bench_convolver(const cli_options *options) {
  convolver_run run = {.set = {{"channels", 64, 1, 1024},
                               {"block", 64, 1, 1 << 16},
                               {"rate", 48000, 1, 1 << 20},
                               {"taps", 96000, 1, 1 << 24},
                               {"partition", 0, 0, 1 << 16},
                               {"growth", 0, 0, 64},
                               {"latency", 0, 0, 1 << 17}}};
  falt_device *device = NULL;
  int status = read_settings(&run, options);
  if (status == CLI_DONE) status = cli_device_make(options, &device);
  if (status == CLI_DONE) status = make(&run, device);
  if (status == CLI_DONE) status = time_blocks(&run);
  const double deadline = (double)run.set[BLOCK].value / (double)run.set[RATE].value;
  if (status == CLI_DONE) (options->json ? print_json : print_text)(&run, device, deadline);
  free_run(&run);
  cli_device_destroy(&device);
  return status;
}
