/* The verb bench: times every problem of a suite on Faltung and, with --peers, on the libraries that people use
 * instead. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"
#include "exchange.h"
#include "interrupt.h"
#include "library.h"
#include "report.h"
#include "verbs.h"

/* All libraries use the same data. They alternate in rounds (Faltung, peer, peer, ..., Faltung, ...), so a change of
 * the machine's speed affects all of them. Only one runs at a time, and the median over the rounds counts. */

static const double default_seconds = 1, hopeless = 2;
enum { DEFAULT_ROUNDS = 3 };

/* One problem while it is measured. */
typedef struct turn {
  cli_bench *bench;
  cli_row *row;
  falt_problem problem;
  falt_budget budget;
  cli_operands operands;
  falt_operands placed; /* where the device reads and writes them */
  falt_plan *plan;
  falt_plan *vendor; /* the same by the vendor's library, or NULL, in a workspace of its own */
  void *vendor_workspace;
} turn;

/* ---- data */

/* Executes once and copies the output back, as the reference of the peers. */
static falt_status execute_once(turn *t) {
  void **there = cli_result(&t->placed, t->problem.operation),
       **here = cli_result(&t->operands.set, t->problem.operation);
  const falt_tensor *result = t->problem.operation == FALT_BACKWARD_FILTER ? &t->problem.filter
                              : there == &t->placed.output                 ? &t->problem.output
                                                                           : &t->problem.input;
  const size_t bytes = (size_t)falt_tensor_span(result) * falt_type_size(result->type);
  falt_status done = falt_execute(t->plan, &t->placed);
  if (done == FALT_OK) done = falt_device_synchronize(t->bench->device);
  if (done == FALT_OK && *there != *here) done = falt_device_read(t->bench->device, *here, *there, bytes);
  return done;
}

/* Operands, plan, and one execution on a poisoned output that shows unwritten elements. */
static int prepare(turn *t, const cli_case *one) {
  if (falt_problem_parse(&t->problem, &t->budget, one->line) != FALT_OK)
    return cli_fail(CLI_WRONG, "%s", falt_message());
  falt_problem_print(&t->problem, &t->budget, t->row->line, sizeof t->row->line);
  int status = cli_operands_random(&t->operands, &t->problem, 1);
  if (status == CLI_DONE && t->operands.set.filter) status = cli_case_taps(one, &t->problem, t->operands.set.filter);
  if (status != CLI_DONE) return status;
  t->row->filter = cli_filter_when(&t->problem);
  falt_status done = falt_plan_create(&t->plan, t->bench->device, &t->problem, &t->budget,
                                      cli_filter_known(&t->problem, t->operands.set.filter));
  if (done == FALT_OK) status = cli_operands_place(&t->operands, &t->problem, t->bench->device, t->plan, &t->placed);
  if (done == FALT_OK && status == CLI_DONE) done = execute_once(t);
  if (done != FALT_OK) return cli_fail_library(done);
  falt_plan_print(t->plan, t->row->plan, sizeof t->row->plan);
  t->row->solver = falt_plan_solver(t->plan);
  t->row->workspace = (int64_t)falt_plan_workspace(t->plan);
  return status;
}

static void finish(turn *t) {
  falt_device_free(t->bench->device, &t->vendor_workspace);
  falt_plan_destroy(&t->vendor);
  cli_operands_unplace(t->bench->device, &t->placed);
  falt_plan_destroy(&t->plan);
  cli_operands_free(&t->operands);
}

/* ---- giving the data to the peers */

typedef struct part {
  const char *name;
  const falt_tensor *tensor;
  const void *data;
} part;

static const char *result_name(falt_operation operation) {
  if (operation == FALT_BACKWARD_DATA || operation == FALT_BACKWARD_AVGPOOL) return "input";
  if (operation == FALT_BACKWARD_FILTER) return "filter";
  return operation == FALT_BACKWARD_MAXPOOL ? "residual" : "output";
}

/* Writes the files and sends their paths; false and *error if the peers cannot have them. */
static bool hand_over(turn *t, const cli_exchange *exchange, const char *kernel, io_error *error) {
  const falt_problem *p = &t->problem;
  const falt_operands *set = &t->operands.set;
  const falt_tensor *residual = p->operation == FALT_BACKWARD_MAXPOOL ? &p->input : &p->residual;
  const part parts[] = {{"input", &p->input, set->input},
                        {"filter", &p->filter, set->filter},
                        {"output", &p->output, set->output},
                        {"residual", residual, set->residual}};
  char order[4][FALT_DIMS + 1], path[PATH_MAX], key[32];
  for (int i = 0; i < 4; i++)
    if (parts[i].data && !cli_exchange_tensor(exchange, parts[i].name, parts[i].tensor, parts[i].data, order[i], error))
      return false;
  if (set->bias && !cli_exchange_vector(exchange, "bias", cli_bias_type(p), cli_bias_count(p), set->bias, error))
    return false;
  cli_json request = cli_peers_ask(&t->bench->peers, "load");
  cli_json_text(&request, "problem", t->row->line);
  cli_json_text(&request, "kernel", *kernel ? kernel : NULL);
  cli_json_text(&request, "result", result_name(p->operation));
  for (int i = 0; i < 4; i++) {
    if (!parts[i].data) continue;
    snprintf(key, sizeof key, "%s_order", parts[i].name);
    cli_json_text(&request, parts[i].name, cli_exchange_path(exchange, parts[i].name, path));
    cli_json_text(&request, key, order[i]);
  }
  if (set->bias) cli_json_text(&request, "bias", cli_exchange_path(exchange, "bias", path));
  cli_peers_send(&request);
  return true;
}

static cli_entry *add_entry(cli_row *row, const char *library, const char *implementation, const char *version) {
  if (row->entries == CLI_ENTRIES || !library || !implementation || !version) return NULL;
  cli_entry *entry = &row->entry[row->entries++];
  *entry = (cli_entry){.difference = NAN, .tolerance = NAN, .seconds = NAN, .least = INFINITY, .peer = -1};
  snprintf(entry->library, sizeof entry->library, "%s", library);
  snprintf(entry->implementation, sizeof entry->implementation, "%s", implementation);
  snprintf(entry->version, sizeof entry->version, "%s", version);
  return entry;
}

/* The peer of that number. A copy that runs takes the place of the computed one. */
static void add_peer(cli_row *row, const cli_answer *answer, int number) {
  const char *library = cli_answer_text(answer, "library"), *implementation = cli_answer_text(answer, "implementation"),
             *version = cli_answer_text(answer, "version");
  const bool is_copy = library && strcmp(library, "copy") == 0;
  if (is_copy) row->entries = CLI_COPY;
  cli_entry *entry = add_entry(row, library, implementation, version);
  if (entry) entry->peer = number;
}

static int load_peers(turn *t, const char *kernel) {
  cli_exchange exchange;
  io_error error;
  int64_t bytes = 1 << 20;
  const falt_tensor *tensors[] = {&t->problem.input, &t->problem.filter, &t->problem.output, &t->problem.residual};
  for (int i = 0; i < 4; i++) bytes += falt_tensor_span(tensors[i]) * (int64_t)falt_type_size(tensors[i]->type);
  if (!cli_exchange_open(&exchange, bytes, &error)) return cli_fail(CLI_IMPOSSIBLE, "peers: %s", error.text);
  const bool given = hand_over(t, &exchange, kernel, &error);
  cli_answer *answer = given ? malloc(sizeof *answer) : NULL;
  for (int number = 0; answer && cli_peers_answer(&t->bench->peers, answer); number++) add_peer(t->row, answer, number);
  free(answer);
  cli_exchange_close(&exchange);
  return given ? CLI_DONE : cli_fail(CLI_IMPOSSIBLE, "%s: %s", t->row->name, error.text);
}

/* ---- the vendor's library in this process */

static const char vendor_library[] = "cudnn";
static const double vendor_seconds = 0.5;

/* Plans with the library if it can compute the problem: its fastest engine, measured for at least half a second. */
static void load_vendor(turn *t) {
  falt_budget budget = t->budget;
  char printed[sizeof t->row->plan];
  if (!t->bench->vendor) return;
  snprintf(budget.method, sizeof budget.method, "%s", vendor_library);
  budget.tune_seconds = fmax(t->bench->seconds, vendor_seconds);
  if (falt_plan_create(&t->vendor, t->bench->device, &t->problem, &budget,
                       cli_filter_known(&t->problem, t->operands.set.filter)) != FALT_OK)
    return;
  const size_t bytes = falt_plan_workspace(t->vendor);
  falt_plan_print(t->vendor, printed, sizeof printed);
  const char *by = strstr(printed, " by ");
  cli_entry *entry = by && (!bytes || falt_device_alloc(t->bench->device, &t->vendor_workspace, bytes) == FALT_OK)
                         ? add_entry(t->row, vendor_library, "cudnn", "")
                         : NULL;
  if (!entry) return;
  entry->vendor = true;
  snprintf(entry->implementation, sizeof entry->implementation, "%.*s", (int)(by - printed - 1), printed + 1);
  snprintf(entry->version, sizeof entry->version, "%.*s", (int)strcspn(by + 4, ")"), by + 4);
}

/* ---- measuring */

static void add_sample(cli_entry *entry, double median, double least) {
  if (entry->samples < CLI_MAX_ROUNDS) entry->sample[entry->samples++] = median;
  entry->least = fmin(entry->least, least);
}

static int rising(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void take_median(cli_entry *entry) {
  if (entry->samples == 0) return;
  qsort(entry->sample, (size_t)entry->samples, sizeof *entry->sample, rising);
  entry->seconds = entry->sample[entry->samples / 2];
}

static int time_plan(turn *t, int index, double seconds, falt_candidate *measured) {
  const bool vendor = t->row->entry[index].vendor;
  falt_operands operands = t->placed;
  if (vendor) operands.workspace = t->vendor_workspace;
  const falt_status status = falt_plan_time(vendor ? t->vendor : t->plan, &operands, seconds, measured);
  if (status != FALT_OK) return cli_fail_library(status);
  add_sample(&t->row->entry[index], measured->seconds_median, measured->seconds_min);
  return CLI_DONE;
}

static int time_faltung(turn *t, double seconds) {
  falt_candidate measured;
  const int status = time_plan(t, CLI_FALTUNG, seconds, &measured);
  if (status != CLI_DONE) return status;
  cli_row *row = t->row;
  row->bytes = measured.bytes;
  row->flops = measured.flops;
  row->bound = measured.bound;
  row->limit_seconds = measured.limit_share * measured.seconds_median;
  return CLI_DONE;
}

static void note_answer(cli_entry *entry, const cli_answer *answer) {
  const char *error = cli_answer_text(answer, "error");
  const double median = cli_answer_number(answer, "seconds_median"), least = cli_answer_number(answer, "seconds_min");
  if (error || !(median > 0)) {
    snprintf(entry->error, sizeof entry->error, "%s", error ? error : "gave no time");
    entry->samples = 0;
    return;
  }
  add_sample(entry, median, least > 0 ? least : median);
  if (isnan(cli_answer_number(answer, "tolerance"))) return;
  entry->difference = cli_answer_number(answer, "max_abs_difference");
  entry->tolerance = cli_answer_number(answer, "tolerance");
  entry->differs = cli_answer_number(answer, "agrees") != 1;
}

/* A peer that takes many times its part of the time is not run again. */
static void time_peer(turn *t, int index, double seconds) {
  cli_entry *entry = &t->row->entry[index];
  const bool is_slow = entry->samples && entry->sample[0] > hopeless * t->bench->seconds;
  if (entry->peer < 0 || entry->error[0] || is_slow || t->bench->peers.pid <= 0) return;
  cli_json request = cli_peers_ask(&t->bench->peers, "time");
  cli_json_integer(&request, "peer", entry->peer);
  cli_json_number(&request, "seconds", seconds);
  cli_peers_send(&request);
  cli_answer *answer = malloc(sizeof *answer);
  while (answer && cli_peers_answer(&t->bench->peers, answer)) note_answer(entry, answer);
  free(answer);
}

/* Threads that have just worked watch for more for some microseconds: they are given the time to go to sleep. */
static void settle(void) {
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static int run_round(turn *t, double seconds) {
  falt_candidate unused;
  int status = time_faltung(t, seconds);
  settle();
  for (int i = CLI_COPY; i < t->row->entries && status == CLI_DONE && !cli_interrupted(); i++) {
    if (t->row->entry[i].vendor)
      status = time_plan(t, i, seconds, &unused);
    else
      time_peer(t, i, seconds);
  }
  return status;
}

static int run_rounds(turn *t) {
  const double share = t->bench->seconds / t->bench->rounds;
  int status = CLI_DONE;
  for (int round = 0; round < t->bench->rounds && status == CLI_DONE && !cli_interrupted(); round++)
    status = run_round(t, share);
  if (status != CLI_DONE) return status;
  for (int i = 0; i < t->row->entries; i++) take_median(&t->row->entry[i]);
  return CLI_DONE;
}

/* ---- a problem, a suite */

static void drop_peers(cli_bench *bench) {
  if (bench->peers.pid <= 0) return;
  cli_json request = cli_peers_ask(&bench->peers, "drop");
  cli_peers_send(&request);
  cli_answer *answer = malloc(sizeof *answer);
  while (answer && cli_peers_answer(&bench->peers, answer)) continue;
  free(answer);
}

static int run_case(cli_bench *bench, const cli_case *one) {
  cli_row *row = &bench->row[bench->rows];
  *row = (cli_row){.suite = one->suite, .name = one->name, .target = one->target};
  add_entry(row, "faltung", "faltung", falt_version());
  add_entry(row, "copy", "copy", "limit");
  turn t = {.bench = bench, .row = row};
  int status = prepare(&t, one);
  if (status == CLI_DONE && bench->peers.pid > 0 && !t.problem.factors) status = load_peers(&t, one->kernel);
  if (status == CLI_DONE) load_vendor(&t);
  if (status == CLI_DONE) status = run_rounds(&t);
  cli_entry *copy = &row->entry[CLI_COPY];
  if (copy->peer < 0) copy->seconds = copy->least = row->bytes / bench->limits.copy_bytes_per_s;
  finish(&t);
  drop_peers(bench);
  return status;
}

static void show(cli_bench *bench, const cli_row *row) {
  cli_progress_end();
  if (bench->options->json)
    cli_bench_json(bench, row);
  else
    cli_bench_print_row(bench, row);
  fflush(stdout);
}

static int run_suite(cli_bench *bench) {
  cli_progress progress = cli_progress_begin(!bench->options->quiet);
  int status = CLI_DONE;
  if (!bench->options->json) cli_bench_print_head(bench);
  for (int i = 0; status == CLI_DONE && i < bench->suite.count && !cli_interrupted(); i++) {
    status = run_case(bench, &bench->suite.cases[i]);
    if (cli_interrupted() || status != CLI_DONE) break;
    bench->rows++;
    show(bench, &bench->row[i]);
    cli_progress_step(&progress, i + 1, bench->suite.count);
  }
  cli_progress_end();
  if (cli_interrupted()) return CLI_IMPOSSIBLE;
  if (!bench->options->json) cli_bench_print_foot(bench);
  if (status == CLI_DONE) cli_bench_cliffs(bench);
  return status;
}

/* ---- the verb */

static int open_suite(cli_bench *bench) {
  const cli_options *options = bench->options;
  int status = options->operands ? CLI_DONE : cli_suite_add("", &bench->suite);
  for (int i = 0; status == CLI_DONE && i < options->operands; i++)
    status = cli_suite_add(options->operand[i], &bench->suite);
  if (status != CLI_DONE) return status;
  status = cli_suite_keep(options, &bench->suite);
  if (status != CLI_DONE) return status;
  bench->row = calloc((size_t)bench->suite.count, sizeof *bench->row);
  return bench->row ? CLI_DONE : cli_fail(CLI_IMPOSSIBLE, "bench: out of memory; use --filter");
}

static bool is_gpu(const cli_bench *bench) {
  return strncmp(falt_device_name(bench->device), "cuda", 4) == 0;
}

int cli_bench_device(const cli_options *options, falt_device **device, falt_limits *limits) {
  const int status = cli_device_make(options, device);
  if (status != CLI_DONE) return status;
  falt_device_limits(*device, limits);
  if (limits->measured) return CLI_DONE;
  const falt_status measured = falt_device_measure(*device);
  if (measured != FALT_OK) return cli_fail_library(measured);
  falt_device_limits(*device, limits);
  return CLI_DONE;
}

static int open_device(cli_bench *bench) {
  const int status = cli_bench_device(bench->options, &bench->device, &bench->limits);
  if (status == CLI_DONE && is_gpu(bench)) cli_machine_driver(&bench->machine);
  return status;
}

/* Libraries whose threads wait by spinning suffer most from a busy core. */
static void warn_if_busy(const cli_bench *bench) {
  if (bench->machine.load < 0.5) return;
  fprintf(stderr, "The machine is busy (load %.1f): times will be longer than they need be, some peers' most of all.\n",
          bench->machine.load);
}

/* The vendor's library has a column with its peers from Python, or of its own. */
static void find_vendor(cli_bench *bench) {
  char text[CLI_LIBRARY_TEXT];
  cli_peers *peers = &bench->peers;
  if (!bench->options->peers || !cli_library_is_for(vendor_library, bench->device)) return;
  bench->vendor = cli_library_find(vendor_library, bench->device, text);
  if (!bench->vendor) fprintf(stderr, "No peer in this process: %s.\n", text);
  for (int i = 0; i < peers->libraries; i++)
    if (strcmp(peers->library[i].name, vendor_library) == 0) return;
  if (!bench->vendor || peers->libraries == CLI_LIBRARIES) return;
  cli_library *added = &peers->library[peers->libraries++];
  snprintf(added->name, sizeof added->name, "%s", vendor_library);
  snprintf(added->version, sizeof added->version, "%.39s", text);
}

static void start_peers(cli_bench *bench) {
  char why[512];
  if (!bench->options->peers) return;
  if (!cli_peers_start(&bench->peers, falt_device_name(bench->device), falt_device_threads(bench->device), why)) {
    if (why[0]) fprintf(stderr, "No peers: %s. Timing Faltung alone.\n", why);
    return;
  }
  if (bench->peers.missing[0])
    fprintf(stderr, "Peers that %s lacks: %s; `bench/setup %s` in the source tree makes an environment with them.\n",
            bench->peers.python, bench->peers.missing, is_gpu(bench) ? "cuda" : "all");
  warn_if_busy(bench);
}

/* Opens the report before the work: a path that cannot be written should not cost minutes. */
static int run_with_report(cli_bench *bench) {
  io_output output;
  io_error error;
  if (!io_output_open(&output, bench->options->html, NULL, true, &error))
    return cli_fail(CLI_WRONG, "--html %s", error.text);
  const int status = run_suite(bench);
  if (status == CLI_DONE) return cli_bench_html(bench, &output);
  io_output_discard(&output);
  return status;
}

static int bench_suites(const cli_options *options) {
  cli_bench bench = {.options = options, .machine = cli_machine_describe(), .peers = {.from = -1}};
  bench.seconds = options->seconds >= 0 ? options->seconds : default_seconds;
  bench.rounds = options->rounds ? (int)options->rounds : DEFAULT_ROUNDS;
  int status = open_suite(&bench);
  if (status == CLI_DONE) status = open_device(&bench);
  if (status == CLI_DONE) start_peers(&bench);
  if (status == CLI_DONE) find_vendor(&bench);
  if (status == CLI_DONE) status = options->html ? run_with_report(&bench) : run_suite(&bench);
  if (status == CLI_DONE && bench.peers.failed) status = CLI_IMPOSSIBLE;
  cli_peers_stop(&bench.peers);
  cli_device_destroy(&bench.device);
  cli_suite_free(&bench.suite);
  free(bench.row);
  return status;
}

int falt_verb_bench(const cli_options *options) {
  if (options->operands && strcmp(options->operand[0], "choice") == 0) return cli_bench_choice(options);
  if (options->operands && strcmp(options->operand[0], "convolver") == 0) return cli_bench_convolver(options);
  if (options->count >= 0 || options->seed)
    return cli_fail(CLI_WRONG, "--%s: only bench choice draws problems; write faltung bench choice SUITE",
                    options->count >= 0 ? "count" : "seed");
  return bench_suites(options);
}
