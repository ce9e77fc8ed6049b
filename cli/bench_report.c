/* Measurements of bench as a table and as JSON. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "bench.h"

/* ---- numbers */

double cli_bench_ratio(const cli_row *row, int entry) {
  const double ours = row->entry[CLI_FALTUNG].seconds;
  if (entry != CLI_FALTUNG) return row->entry[entry].seconds / ours;
  const int best = cli_bench_best(row);
  return best < 0 ? NAN : row->entry[best].seconds / ours;
}

int cli_bench_best(const cli_row *row) {
  int best = -1;
  for (int i = CLI_COPY + 1; i < row->entries; i++) {
    const double seconds = row->entry[i].seconds;
    if (seconds > 0 && (best < 0 || seconds < row->entry[best].seconds)) best = i;
  }
  return best;
}

int cli_bench_count(const cli_bench *bench, int *faster) {
  int count = 0;
  *faster = 0;
  for (int i = 0; i < bench->rows; i++) {
    const double ratio = cli_bench_ratio(&bench->row[i], CLI_FALTUNG);
    count += ratio > 0;
    *faster += ratio > 1;
  }
  return count;
}

int cli_bench_fastest(const cli_row *row, const char *library) {
  int fastest = -1;
  for (int i = CLI_COPY; i < row->entries; i++) {
    const bool is_it = strcmp(row->entry[i].library, library) == 0 && row->entry[i].seconds > 0;
    if (is_it && (fastest < 0 || row->entry[i].seconds < row->entry[fastest].seconds)) fastest = i;
  }
  return fastest;
}

static void operation_of(const cli_row *row, char operation[24]) {
  snprintf(operation, 24, "%.*s", (int)strcspn(row->line, " "), row->line);
}

bool cli_bench_operation(const cli_bench *bench, int i, char operation[24]) {
  char earlier[24];
  for (int row = 0; row < bench->rows; row++) {
    operation_of(&bench->row[row], operation);
    bool is_new = true;
    for (int before = 0; before < row && is_new; before++) {
      operation_of(&bench->row[before], earlier);
      is_new = strcmp(earlier, operation) != 0;
    }
    if (is_new && i-- == 0) return true;
  }
  return false;
}

double cli_bench_mean(const cli_bench *bench, const char *library, const char *operation, int *count) {
  double sum = 0;
  char own[24];
  *count = 0;
  for (int i = 0; i < bench->rows; i++) {
    const int entry = cli_bench_fastest(&bench->row[i], library);
    operation_of(&bench->row[i], own);
    if (entry < 0 || (operation && strcmp(own, operation) != 0)) continue;
    sum += log(cli_bench_ratio(&bench->row[i], entry));
    ++*count;
  }
  return *count ? exp(sum / *count) : NAN;
}

const char *cli_bench_suite(const cli_bench *bench, int i) {
  const cli_case *cases = bench->suite.cases;
  for (int at = 0; at < bench->suite.count; at++) {
    if (at > 0 && strcmp(cases[at - 1].suite, cases[at].suite) == 0) continue;
    if (i-- == 0) return cases[at].suite;
  }
  return NULL;
}

const char *cli_bench_column(const cli_bench *bench, int i) {
  if (i == 0) return "copy";
  return i <= bench->peers.libraries ? bench->peers.library[i - 1].name : NULL;
}

/* ---- the table */

/* A line of the table while it is put together, so that it ends without blanks. */
typedef struct table_line {
  char text[512];
  size_t used;
} table_line;

__attribute__((format(printf, 2, 3))) static void add(table_line *line, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const int more = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, list);
  va_end(list);
  if (more > 0 && (size_t)more < sizeof line->text - line->used) line->used += (size_t)more;
}

static void end(table_line *line) {
  while (line->used && line->text[line->used - 1] == ' ') line->used--;
  printf("%.*s\n", (int)line->used, line->text);
}

static int name_width(const cli_bench *bench) {
  int width = 20;
  for (int i = 0; i < bench->suite.count; i++) {
    const int length = (int)strlen(bench->suite.cases[i].name);
    if (length > width) width = length;
  }
  return width;
}

/* The columns that every line begins with. */
static void begin(table_line *line, const cli_bench *bench, const char *name, const char *time, const char *limit,
                  const char *rate, const char *solver) {
  *line = (table_line){.used = 0};
  add(line, "%-*s %9s  %-12s %7s  %-12s", name_width(bench), name, time, limit, rate, solver);
}

/* Operations a second, such as "17.6 T". */
static const char *rate_text(double flops, char text[32]) {
  const bool tera = flops >= 1e12;
  const double shown = flops * (tera ? 1e-12 : 1e-9);
  snprintf(text, 32, "%.*f %c", shown < 99.95 ? 1 : 0, shown, tera ? 'T' : 'G');
  return text;
}

static bool has_targets(const cli_bench *bench) {
  for (int i = 0; i < bench->suite.count; i++)
    if (bench->suite.cases[i].target > 0) return true;
  return false;
}

void cli_bench_print_head(const cli_bench *bench) {
  for (int i = 0; cli_bench_suite(bench, i); i++) printf("%s%s", i ? " " : "", cli_bench_suite(bench, i));
  printf(": %s, %s, copy %.1f GB/s, f32 %.0f GFLOP/s, %d rounds of %.2g s, load %.1f\n", bench->machine.processor,
         falt_device_name(bench->device), 1e-9 * bench->limits.copy_bytes_per_s, 1e-9 * bench->limits.f32_flops,
         bench->rounds, bench->seconds / bench->rounds, bench->machine.load);
  for (int i = 0; i < bench->peers.libraries; i++)
    printf("%s%s %s", i ? ", " : "", bench->peers.library[i].name, bench->peers.library[i].version);
  fputs(bench->peers.libraries ? "\n\n" : "\n", stdout);
  table_line line;
  begin(&line, bench, "", "faltung", "of limit", "FLOP/s", "solver");
  if (bench->peers.libraries) add(&line, "%9s", "best peer");
  for (int i = 0; cli_bench_column(bench, i); i++) add(&line, "  %16s", cli_bench_column(bench, i));
  if (has_targets(bench)) add(&line, "  %16s", "target");
  end(&line);
}

static const char *ratio_text(double times, bool differs, char text[32]) {
  const int digits = times < 10 ? 2 : times < 100 ? 1 : 0;
  if (times > 0)
    snprintf(text, 32, "%.*f%s", digits, times, differs ? "!" : "x");
  else
    snprintf(text, 32, "-");
  return text;
}

/* A time and its ratio, marked where the result differs. */
static void add_cell(table_line *line, double seconds, double ratio, bool differs) {
  char time[32], text[32];
  if (seconds > 0)
    add(line, "  %9s %6s", cli_duration(seconds, time), ratio_text(ratio, differs, text));
  else
    add(line, "  %9s %6s", "-", "");
}

static void add_entry_cell(table_line *line, const cli_row *row, int i) {
  if (i < 0)
    add_cell(line, 0, 0, false);
  else
    add_cell(line, row->entry[i].seconds, cli_bench_ratio(row, i), row->entry[i].differs);
}

void cli_bench_print_row(const cli_bench *bench, const cli_row *row) {
  char time[32], limit[32], rate[32], ratio[32];
  const double seconds = row->entry[CLI_FALTUNG].seconds;
  snprintf(limit, sizeof limit, "%3.0f%% %s", 100 * row->limit_seconds / seconds, row->bound);
  table_line line;
  begin(&line, bench, row->name, cli_duration(seconds, time), limit, rate_text(row->flops / seconds, rate),
        row->solver);
  if (bench->peers.libraries) add(&line, "%9s", ratio_text(cli_bench_ratio(row, CLI_FALTUNG), false, ratio));
  for (int i = 0; cli_bench_column(bench, i); i++)
    add_entry_cell(&line, row, cli_bench_fastest(row, cli_bench_column(bench, i)));
  if (has_targets(bench)) add_cell(&line, row->target, row->target / seconds, false);
  end(&line);
  for (int i = CLI_COPY + 1; i < row->entries; i++) {
    const cli_entry *entry = &row->entry[i];
    if (entry->error[0]) printf("  %s: %s\n", entry->implementation, entry->error);
    if (entry->differs)
      printf("  %s: differs from Faltung's result by %g (rounding explains %g)\n", entry->implementation,
             entry->difference, entry->tolerance);
  }
}

static bool is_copy_run(const cli_bench *bench) {
  return bench->rows > 0 && bench->row[0].entry[CLI_COPY].peer >= 0;
}

static void print_means(const cli_bench *bench, const char *name, const char *operation) {
  table_line line;
  begin(&line, bench, name, "", "", "", "");
  if (bench->peers.libraries) add(&line, "%9s", "");
  for (int i = 0; cli_bench_column(bench, i); i++) {
    int count;
    const double mean = cli_bench_mean(bench, cli_bench_column(bench, i), operation, &count);
    char text[48] = "";
    if (count) snprintf(text, sizeof text, "%.2fx of %d", mean, count);
    add(&line, "  %16s", text);
  }
  end(&line);
}

void cli_bench_print_foot(const cli_bench *bench) {
  char operation[24];
  print_means(bench, "geometric mean", NULL);
  if (cli_bench_operation(bench, 1, operation))
    for (int i = 0; cli_bench_operation(bench, i, operation); i++) print_means(bench, operation, operation);
  int faster;
  const int count = cli_bench_count(bench, &faster);
  putchar('\n');
  if (count) printf("Faster than every peer on %d of %d problems.\n", faster, count);
  printf(
      "Ratios are the other's time over Faltung's. copy: as many bytes as the problem reads and writes, %s.\n"
      "Libraries with several functions show the fastest.\n",
      is_copy_run(bench) ? "copied on the device" : "at the\nmeasured limit of memory");
}

/* ---- JSON */

static void print_measured(cli_json *json, const cli_bench *bench, const cli_row *row, int entry) {
  const cli_entry *e = &row->entry[entry];
  const bool is_ours = entry == CLI_FALTUNG;
  cli_json_text(json, "problem", row->line);
  if (row->filter) cli_json_text(json, "filter", row->filter);
  cli_json_text(json, "device", falt_device_name(bench->device));
  cli_json_text(json, "plan", is_ours ? row->plan : NULL);
  cli_json_number(json, "seconds_median", e->seconds);
  cli_json_number(json, "seconds_min", e->least);
  cli_json_number(json, "gbytes_per_s", 1e-9 * row->bytes / e->seconds);
  cli_json_number(json, "gflops", 1e-9 * row->flops / e->seconds);
  cli_json_number(json, "limit_share", row->limit_seconds / e->seconds);
  cli_json_number(json, "workspace_bytes", is_ours ? (double)row->workspace : NAN);
  cli_json_text(json, "bound", row->bound);
  cli_json_text(json, "suite", row->suite);
  cli_json_text(json, "name", row->name);
  cli_json_text(json, "implementation", e->implementation);
  cli_json_text(json, "version", e->version);
  cli_json_number(json, "ratio_to_peer", cli_bench_ratio(row, entry));
  if (is_ours && row->target > 0) cli_json_number(json, "target_seconds", row->target);
}

static void print_machine(cli_json *json, const cli_bench *bench) {
  cli_json_text(json, "machine", bench->machine.processor);
  cli_json_integer(json, "threads", falt_device_threads(bench->device));
  cli_json_text(json, "date", bench->machine.date);
  if (bench->machine.driver[0]) cli_json_text(json, "driver", bench->machine.driver);
  cli_json_number(json, "load", bench->machine.load);
  cli_json_text(json, "commit", bench->machine.commit[0] ? bench->machine.commit : NULL);
  cli_json_number(json, "copy_gbytes_per_s", 1e-9 * bench->limits.copy_bytes_per_s);
  cli_json_number(json, "f32_gflops", 1e-9 * bench->limits.f32_flops);
  cli_json_integer(json, "rounds", bench->rounds);
}

void cli_bench_json(const cli_bench *bench, const cli_row *row) {
  for (int i = 0; i < row->entries; i++) {
    const cli_entry *entry = &row->entry[i];
    cli_json json = cli_json_open(stdout);
    print_measured(&json, bench, row, i);
    if (!isnan(entry->tolerance)) {
      cli_json_number(&json, "max_abs_difference", entry->difference);
      cli_json_number(&json, "tolerance", entry->tolerance);
      cli_json_flag(&json, "agrees", !entry->differs);
    }
    if (entry->error[0]) cli_json_text(&json, "error", entry->error);
    if (row == bench->row && i == CLI_FALTUNG) print_machine(&json, bench);
    cli_json_close(&json);
  }
}
