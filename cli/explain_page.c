/* explain --html: the page. Candidates with bars, the roofline, the tile with its halo, the textbook's counts. */
#include "explain_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "page.h"
#include "report.h"

/* ---- candidates */

static char *copy_text(const char *text) {
  char *copy = text ? malloc(strlen(text) + 1) : NULL;
  return copy ? strcpy(copy, text) : NULL;
}

void cli_explanation_add(cli_explanation *e, const falt_candidate *candidate) {
  if (candidate->rejected && candidate->out_of_scope) return;
  falt_candidate *more = realloc(e->candidate, (size_t)(e->count + 1) * sizeof *more);
  if (!more) {
    e->is_full = true;
    return;
  }
  e->candidate = more;
  falt_candidate *to = &more[e->count++];
  *to = *candidate;
  to->solver = copy_text(candidate->solver);
  to->plan = copy_text(candidate->plan);
  to->rejected = copy_text(candidate->rejected);
  e->is_full |= !to->solver || !to->plan != !candidate->plan || !to->rejected != !candidate->rejected;
}

void cli_explanation_free(cli_explanation *e) {
  for (int i = 0; i < e->count; i++) {
    free((void *)(uintptr_t)e->candidate[i].solver);
    free((void *)(uintptr_t)e->candidate[i].plan);
    free((void *)(uintptr_t)e->candidate[i].rejected);
  }
  free(e->candidate);
}

double cli_candidate_seconds(const falt_candidate *c) {
  return c->seconds_median > 0 ? c->seconds_median : c->predicted_seconds;
}

/* ---- table */

static void put_bar(FILE *file, double share) {
  enum { WIDTH = 200 };
  fprintf(file, "<td><svg width=\"%d\" height=\"12\" role=\"img\"><rect width=\"%.1f\" height=\"12\"/></svg></td>",
          WIDTH, fmax(1, WIDTH * fmin(1, share)));
}

/* Bars are shares of the limit: longer is better. */
static void put_candidate(FILE *file, const falt_candidate *c) {
  char text[64];
  fprintf(file, "<tr%s>", c->chosen ? " class=\"ours\"" : "");
  cli_page_cell(file, "", c->solver);
  cli_page_cell(file, "number", cli_duration(c->predicted_seconds, text));
  cli_page_cell(file, "number", c->seconds_median > 0 ? cli_duration(c->seconds_median, text) : "");
  put_bar(file, c->limit_share);
  snprintf(text, sizeof text, "%.0f%% of %s", 100 * c->limit_share, c->bound ? c->bound : "the limit");
  cli_page_cell(file, "number", text);
  snprintf(text, sizeof text, "%zu", c->workspace_bytes);
  cli_page_cell(file, "number", text);
  cli_page_cell(file, "soft", c->plan);
  fputs("</tr>\n", file);
}

static void put_table(FILE *file, const cli_explanation *e) {
  fputs(
      "<h2>Candidates, best first</h2>\n<table>\n<tr><th>solver</th><th class=\"number\">predicted</th>"
      "<th class=\"number\">measured</th><th>share of the limit</th><th></th><th class=\"number\">workspace, "
      "bytes</th><th>plan</th></tr>\n<tbody>\n",
      file);
  for (int i = 0; i < e->count; i++)
    if (!e->candidate[i].rejected) put_candidate(file, &e->candidate[i]);
  fputs("</tbody>\n</table>\n", file);
}

static void put_rejected(FILE *file, const cli_explanation *e) {
  fputs("<h2>Rejected</h2>\n<table>\n<tbody>\n", file);
  for (int i = 0; i < e->count; i++) {
    if (!e->candidate[i].rejected) continue;
    fputs("<tr>", file);
    cli_page_cell(file, "", e->candidate[i].solver);
    cli_page_cell(file, "soft", e->candidate[i].rejected);
    fputs("</tr>\n", file);
  }
  fputs("</tbody>\n</table>\n", file);
}

/* ---- page */

static void put_counts(FILE *file, const falt_problem *problem) {
  fputs("<pre>", file);
  char *text = NULL;
  size_t size = 0;
  FILE *memory = open_memstream(&text, &size);
  if (memory) cli_counts_print(memory, problem);
  if (memory && fclose(memory) == 0) cli_page_text(file, text);
  free(text);
  fputs("</pre>\n", file);
}

static void put_page(FILE *file, const void *context) {
  const cli_explanation *e = context;
  const falt_problem *problem = &e->question->problem;
  cli_page_head(file);
  fputs("<title>Faltung explains: ", file);
  cli_page_text(file, e->question->line);
  fputs("</title>\n<h1>", file);
  cli_page_text(file, e->question->line);
  fputs("</h1>\n<p>on ", file);
  cli_page_text(file, falt_device_name(e->question->device));
  fprintf(file, "; copies %.4g GB/s, f32 %.4g GFLOP/s, %s; faltung %s</p>\n", 1e-9 * e->limits.copy_bytes_per_s,
          1e-9 * e->limits.f32_flops, e->limits.measured ? "measured" : "assumed", falt_version());
  put_table(file, e);
  cli_roofline_draw(file, e);
  cli_halo_draw(file, problem);
  if (cli_counts_apply(problem)) put_counts(file, problem);
  put_rejected(file, e);
  fputs("</html>\n", file);
}

int cli_explain_page(const cli_explanation *explanation, io_output *output) {
  if (!explanation->is_full) return cli_page_write(output, "--html", put_page, explanation);
  io_output_discard(output);
  return cli_fail(CLI_IMPOSSIBLE, "--html: memory ran out; close other programs");
}
