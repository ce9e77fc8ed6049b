/* The report of bench as one self-contained page: a table with bars, the means, and the machine. */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "page.h"

static void put_bar(FILE *file, double share) {
  enum { WIDTH = 260 };
  fprintf(file, "<td><svg width=\"%d\" height=\"12\" role=\"img\"><rect width=\"%.1f\" height=\"12\"/></svg></td>",
          WIDTH, fmax(1, WIDTH * share));
}

static void put_entry(FILE *file, const cli_row *row, int i, double slowest) {
  const cli_entry *entry = &row->entry[i];
  char text[640];
  const bool is_ours = i == CLI_FALTUNG, is_timed = entry->seconds > 0;
  fprintf(file, "<tr%s>", is_ours ? " class=\"ours\"" : "");
  cli_page_cell(file, "", is_ours ? row->name : "");
  cli_page_cell(file, "", entry->implementation);
  cli_page_cell(file, "number", is_timed ? cli_duration(entry->seconds, text) : "");
  if (is_timed)
    put_bar(file, entry->seconds / slowest);
  else
    cli_page_cell(file, "wrong", entry->error);
  snprintf(text, sizeof text, "%.2f\u00d7", cli_bench_ratio(row, i));
  cli_page_cell(file, "number", cli_bench_ratio(row, i) > 0 ? text : "");
  int used = snprintf(text, sizeof text, "%.0f%% of %s limit, %.3g TFLOP/s", 100 * row->limit_seconds / entry->seconds,
                      row->bound, 1e-12 * row->flops / entry->seconds);
  if (row->target > 0) used += snprintf(text + used, sizeof text - (size_t)used, ", target %.3f ms", 1e3 * row->target);
  snprintf(text + used, sizeof text - (size_t)used, ", %s", row->plan);
  if (entry->differs)
    snprintf(text, sizeof text, "differs by %g, rounding explains %g", entry->difference, entry->tolerance);
  cli_page_cell(file, entry->differs ? "wrong" : "soft", is_ours || entry->differs ? text : "");
  fputs("</tr>\n", file);
}

static void put_row(FILE *file, const cli_row *row) {
  double slowest = 0;
  for (int i = 0; i < row->entries; i++) slowest = fmax(slowest, row->entry[i].seconds);
  fputs("<tbody>\n", file);
  for (int i = 0; i < row->entries; i++) put_entry(file, row, i, slowest);
  fputs("<tr><td></td><td colspan=\"5\"><code>", file);
  cli_page_text(file, row->line);
  fputs("</code></td></tr>\n</tbody>\n", file);
}

static void put_mean_rows(FILE *file, const cli_bench *bench, const char *operation) {
  for (int i = 0; cli_bench_column(bench, i); i++) {
    int count;
    const double mean = cli_bench_mean(bench, cli_bench_column(bench, i), operation, &count);
    if (count == 0) continue;
    fprintf(file, "<tr><td>%s %s</td><td>%s</td><td class=\"number\">%.2f\u00d7</td><td>%d</td></tr>\n",
            cli_bench_column(bench, i), i ? bench->peers.library[i - 1].version : "", operation ? operation : "all",
            mean, count);
  }
}

static void put_means(FILE *file, const cli_bench *bench) {
  char operation[24];
  fputs("<table>\n<tr><th>geometric mean of the ratio</th><th></th><th class=\"number\"></th><th>problems</th></tr>\n",
        file);
  put_mean_rows(file, bench, NULL);
  if (cli_bench_operation(bench, 1, operation))
    for (int i = 0; cli_bench_operation(bench, i, operation); i++) put_mean_rows(file, bench, operation);
  fputs("</table>\n", file);
}

static void put_count(FILE *file, const cli_bench *bench) {
  int faster;
  const int count = cli_bench_count(bench, &faster);
  if (count) fprintf(file, "<p>Faster than every peer on %d of %d problems.</p>\n", faster, count);
}

/* Where and when it ran. */
static void put_origin(FILE *file, const cli_bench *bench) {
  const cli_machine *machine = &bench->machine;
  fputs("<p>", file);
  cli_page_text(file, machine->processor);
  fprintf(file, ", %s, copy %.1f GB/s, f32 %.0f GFLOP/s<br>\n", falt_device_name(bench->device),
          1e-9 * bench->limits.copy_bytes_per_s, 1e-9 * bench->limits.f32_flops);
  fprintf(file, "faltung %s%s%s, ", falt_version(), machine->commit[0] ? " " : "", machine->commit);
  if (machine->driver[0]) fprintf(file, "driver %s, ", machine->driver);
  fprintf(file, "%s, %d rounds of %.2g s, load %.1f</p>\n", machine->date, bench->rounds,
          bench->seconds / bench->rounds, machine->load);
}

static void put_suites(FILE *file, const cli_bench *bench) {
  for (int i = 0; cli_bench_suite(bench, i); i++) {
    if (i) fputs(", ", file);
    cli_page_text(file, cli_bench_suite(bench, i));
  }
}

static void put_page(FILE *file, const void *context) {
  const cli_bench *bench = context;
  cli_page_head(file);
  fputs("<title>Faltung: ", file);
  put_suites(file, bench);
  fputs("</title>\n<h1>Faltung: ", file);
  put_suites(file, bench);
  fputs("</h1>\n", file);
  put_origin(file, bench);
  put_count(file, bench);
  put_means(file, bench);
  fputs(
      "<p>A ratio is the other's time over Faltung's: above 1, Faltung is faster; Faltung's own is the fastest "
      "peer's.\n"
      "copy is as many bytes as the problem reads and writes, copied on the device or, without peers there, at the\n"
      "measured limit of memory. All ran in turns on the same data with the same number of threads.</p>\n"
      "<table>\n<tr><th>problem</th><th>implementation</th><th class=\"number\">time</th><th></th>"
      "<th class=\"number\">ratio</th><th></th></tr>\n",
      file);
  for (int i = 0; i < bench->rows; i++) put_row(file, &bench->row[i]);
  fputs("</table>\n</html>\n", file);
}

int cli_bench_html(const cli_bench *bench, io_output *output) {
  return cli_page_write(output, "--html", put_page, bench);
}
