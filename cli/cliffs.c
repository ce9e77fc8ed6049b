/* Cliffs in the walks of a suite: points that cost more than twice as much per unit of work as a neighbour. */
#include <math.h>
#include <stdlib.h>

#include "bench.h"
#include "walk.h"

/* The unit of work is the time that the point's bytes or operations need at the machine's measured limits, whichever is
 * longer, plus a little for the call, so points that are too small to matter are not cliffs. */

static const double call_seconds = 5e-6, steep = 2;

typedef struct cliff {
  const cli_row *row, *neighbour;
  int entry, beside; /* the implementation's number in either row */
  double rise;
} cliff;

typedef void cliff_visitor(const cli_bench *bench, const cliff *found);

/* The fastest of a library's implementations; Faltung is the library NULL. */
static int entry_of(const cli_row *row, const char *library) {
  return library ? cli_bench_fastest(row, library) : CLI_FALTUNG;
}

/* The time of the fastest run, which excludes other load on the machine. */
static double cost_of(const cli_row *row, const char *library) {
  const int entry = entry_of(row, library);
  return entry < 0 ? NAN : row->entry[entry].least / (row->limit_seconds + call_seconds);
}

static int visit_walk(const cli_bench *bench, int first, int count, const char *library, cliff_visitor *visit) {
  const cli_row *row = &bench->row[first];
  double *cost = malloc((size_t)count * sizeof *cost);
  int found = 0;
  for (int i = 0; cost && i < count; i++) cost[i] = cost_of(&row[i], library);
  for (int i = 0; cost && i < count; i++) {
    int beside;
    const double rise = cli_walk_rise(cost, count, i, &beside);
    if (!(rise > steep)) continue;
    found++;
    visit(bench, &(cliff){&row[i], &row[beside], entry_of(&row[i], library), entry_of(&row[beside], library), rise});
  }
  free(cost);
  return found;
}

/* Visits the cliffs of one library, in the order of the suite; how many. */
static int visit_library(const cli_bench *bench, const char *library, cliff_visitor *visit) {
  const cli_case *cases = bench->suite.cases;
  int found = 0;
  for (int first = 0, end; first < bench->rows; first = end) {
    for (end = first + 1; end < bench->rows && cases[end].walk == cases[first].walk;) end++;
    if (cases[first].walk) found += visit_walk(bench, first, end - first, library, visit);
  }
  return found;
}

static double share_of(const cli_row *row, int entry) {
  return row->limit_seconds / row->entry[entry].least;
}

static void print_cliff(const cli_bench *bench, const cliff *c) {
  char time[32], beside[32];
  (void)bench;
  printf("  %.1fx  %s %s, %.0f%% of limit; %s %s, %.0f%%\n        %s\n", c->rise, c->row->name,
         cli_duration(c->row->entry[c->entry].least, time), 100 * share_of(c->row, c->entry), c->neighbour->name,
         cli_duration(c->neighbour->entry[c->beside].least, beside), 100 * share_of(c->neighbour, c->beside),
         c->row->line);
}

static void print_json(const cli_bench *bench, const cliff *c) {
  (void)bench;
  const cli_entry *entry = &c->row->entry[c->entry];
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, "problem", c->row->line);
  cli_json_text(&json, "suite", c->row->suite);
  cli_json_text(&json, "name", c->row->name);
  cli_json_text(&json, "implementation", entry->implementation);
  cli_json_number(&json, "seconds_min", entry->least);
  cli_json_number(&json, "limit_share", share_of(c->row, c->entry));
  cli_json_number(&json, "cliff", c->rise);
  cli_json_text(&json, "neighbour", c->neighbour->name);
  cli_json_close(&json);
}

static void count_only(const cli_bench *bench, const cliff *c) {
  (void)bench, (void)c;
}

void cli_bench_cliffs(const cli_bench *bench) {
  if (bench->suite.walks == 0) return;
  const bool is_json = bench->options->json;
  for (int i = -1; i < bench->peers.libraries; i++) {
    const char *library = i < 0 ? NULL : bench->peers.library[i].name;
    const int count = is_json ? 0 : visit_library(bench, library, count_only);
    if (!is_json)
      printf("\n%s: %d of %d points cost more than %g times as much per unit of work as a neighbour%s\n",
             library ? library : "faltung", count, bench->rows, steep, count ? ":" : ".");
    visit_library(bench, library, is_json ? print_json : print_cliff);
  }
}
