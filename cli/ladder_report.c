/* The ladder as text and as JSON. */
#include <math.h>
#include <string.h>

#include "counts.h"
#include "ladder.h"
#include "report.h"

double cli_climb_first(const cli_climb *climb) {
  for (int i = 0; i < climb->rungs; i++)
    if (!climb->rung[i].skipped) return climb->rung[i].seconds;
  return NAN;
}

/* ---- text */

static void print_rung(const cli_climb *climb, const cli_rung *r) {
  char time[32];
  if (r->skipped) {
    printf("  %-12s %10s  %s\n", r->name, "skipped", r->skipped);
    return;
  }
  printf("  %-12s %10s %8.2f %9.2f %8.2f %8.1fx %6.1f%% %11.2g  %s\n", r->name, cli_duration(r->seconds, time),
         climb->bytes / r->seconds * 1e-9, climb->operations / r->seconds * 1e-9, r->counts.operations_per_byte,
         cli_climb_first(climb) / r->seconds, 100 * climb->limit_seconds / r->seconds, r->difference, r->idea);
}

static bool has_blocks(const cli_climb *climb) {
  for (int i = 0; i < climb->rungs; i++)
    if (!climb->rung[i].skipped && climb->rung[i].counts.blocks) return true;
  return false;
}

/* Operations of steps that do not make the definition's. */
static void print_operations(const cli_climb *climb) {
  const int64_t *taps = &climb->problem.filter.size[FALT_D];
  const double outputs = climb->operations / (2 * (double)taps[0] * (double)taps[1] * (double)taps[2]);
  printf("\n  %-12s %14s %12s %12s\n", "on paper", "operations", "an output", "definition");
  for (int i = 0; i < climb->rungs; i++) {
    const cli_rung *r = &climb->rung[i];
    if (r->skipped || !(r->counts.operations > 0)) continue;
    printf("  %-12s %14.4g %12.1f %11.2fx\n", r->name, r->counts.operations, r->counts.operations / outputs,
           r->counts.operations / climb->operations);
  }
}

/* The GPU resources of the kernels. */
static void print_blocks(const cli_climb *climb) {
  printf("\n  %-12s %12s %8s %8s %12s %8s\n", "on paper", "blocks", "threads", "shared", "reads saved", "op/byte");
  for (int i = 0; i < climb->rungs; i++) {
    const cli_rung *r = &climb->rung[i];
    if (r->skipped || !r->counts.blocks) continue;
    printf("  %-12s %12lld %8d %8d %11.1fx %8.2f", r->name, (long long)r->counts.blocks, r->counts.block_threads,
           r->counts.shared_bytes, r->counts.reads_saved, r->counts.operations_per_byte);
    printf(climb->on_paper ? "  %s\n" : "\n", r->idea);
  }
}

static void print_times(const cli_climb *climb) {
  printf("  %-12s %10s %8s %9s %8s %9s %7s %11s  %s\n", "step", "time", "GB/s", "GFLOP/s", "op/byte", "speed-up",
         "limit", "difference", "what is new");
  for (int i = 0; i < climb->rungs; i++) print_rung(climb, &climb->rung[i]);
}

static void print_head(const cli_climb *climb) {
  char limit[32];
  printf("%s%s\non %s", climb->line, strcmp(climb->stage, "pooled") == 0 ? ", then ReLU and 2 x 2 max pooling" : "",
         climb->device);
  if (!climb->on_paper) printf(", %s limit %s\n", climb->bound, cli_duration(climb->limit_seconds, limit));
  putchar('\n');
}

static void print_ghosts(const falt_problem *p) {
  static const char *const axes[3] = {"depth", "height", "width"};
  const cli_counts counts = cli_count(p);
  printf("\n  ghost cells:");
  for (int a = 3 - p->space; a < 3; a++) {
    const int64_t before = p->axis[a].pad[0], taps = p->filter.size[FALT_D + a];
    printf(" %lld + %lld along %s,", (long long)before, (long long)(taps - 1 - before), axes[a]);
  }
  printf(" %.0f in all; %.0f multiplications, %.0f without theirs%s\n", counts.ghost_cells, counts.multiplications,
         counts.multiplications_inside, p->input.size[FALT_G] > 1 ? ", a channel" : "");
}

/* As tutorials end: how much faster, and how much it differs. */
static void print_gain(const cli_climb *climb) {
  const cli_rung *best = NULL;
  double worst = 0;
  for (int i = 0; i < climb->rungs; i++) {
    const cli_rung *r = &climb->rung[i];
    if (r->skipped) continue;
    if (!best || r->seconds < best->seconds) best = r;
    worst = fmax(worst, r->difference);
  }
  char first[32], least[32];
  if (best)
    printf("\n  %s: %s, %s: %s; speed-up %.1fx, max difference %.2g\n", climb->rung[0].name,
           cli_duration(cli_climb_first(climb), first), best->name, cli_duration(best->seconds, least),
           cli_climb_first(climb) / best->seconds, worst);
}

void cli_climb_text(const cli_climb *climb) {
  print_head(climb);
  if (!climb->on_paper) print_times(climb);
  if (has_blocks(climb)) print_blocks(climb);
  if (strcmp(climb->stage, "fft") == 0) print_operations(climb);
  if (cli_counts_apply(&climb->problem))
    print_ghosts(&climb->problem);
  else if (!climb->on_paper)
    print_gain(climb);
  putchar('\n');
}

/* ---- JSON */

static void print_rates(cli_json *json, const cli_climb *climb, const cli_rung *r) {
  cli_json_number(json, "seconds_min", r->seconds);
  cli_json_number(json, "gbytes_per_s", climb->bytes / r->seconds * 1e-9);
  cli_json_number(json, "gflops", climb->operations / r->seconds * 1e-9);
}

static void print_counts(cli_json *json, const cli_rung *r) {
  cli_json_number(json, "operations_per_byte", r->counts.operations_per_byte);
  cli_json_number(json, "reads_saved", r->counts.reads_saved);
  if (r->counts.operations > 0) cli_json_number(json, "operations", r->counts.operations);
  cli_json_integer(json, "blocks", r->counts.blocks);
  cli_json_integer(json, "block_threads", r->counts.block_threads);
  cli_json_integer(json, "shared_bytes", r->counts.shared_bytes);
}

static void print_shares(cli_json *json, const cli_climb *climb, const cli_rung *r) {
  cli_json_number(json, "speedup", cli_climb_first(climb) / r->seconds);
  cli_json_number(json, "limit_share", climb->limit_seconds / r->seconds);
  cli_json_text(json, "bound", climb->bound);
  cli_json_number(json, "difference", r->difference);
}

static void print_numbers(cli_json *json, const cli_climb *climb, const cli_rung *r) {
  if (!climb->on_paper) print_rates(json, climb, r);
  print_counts(json, r);
  if (!climb->on_paper) print_shares(json, climb, r);
}

void cli_climb_json(const cli_climb *climb) {
  for (int i = 0; i < climb->rungs; i++) {
    const cli_rung *r = &climb->rung[i];
    cli_json json = cli_json_open(stdout);
    cli_json_text(&json, "problem", climb->line);
    cli_json_text(&json, "device", climb->device);
    cli_json_text(&json, "stage", climb->stage);
    cli_json_text(&json, "step", r->name);
    cli_json_text(&json, "idea", r->idea);
    if (r->skipped)
      cli_json_text(&json, "skipped", r->skipped);
    else
      print_numbers(&json, climb, r);
    cli_json_close(&json);
  }
}
