/* The ladder as a picture: a bar for each step on a logarithmic time axis, and the machine's limit as a line. */
#include <math.h>
#include <string.h>

#include "ladder.h"
#include "page.h"
#include "report.h"

enum { WIDTH = 960, LEFT = 120, RIGHT = 190, BAR = 20, STEP = 28, HEAD = 66, FOOT = 44 };

static const char style[] =
    "<style>\n"
    "  text { font: 13px system-ui, 'DejaVu Sans', sans-serif; fill: #1b1f24 }\n"
    "  .title { font-size: 15px; font-weight: 600 } .soft { fill: #6b7280; font-size: 12px }\n"
    "  .bar { fill: #94a3b8 } .ours { fill: #0f766e } .grid { stroke: #e5e7eb } .limit { stroke: #b91c1c;\n"
    "  stroke-dasharray: 4 3 } .limit-text { fill: #b91c1c; font-size: 12px }\n"
    "</style>\n";

typedef struct axis {
  double low, high; /* powers of ten around all times, as exponents */
} axis;

static double place(const axis *a, double seconds) {
  const double share = (log10(seconds) - a->low) / (a->high - a->low);
  return LEFT + fmax(0, fmin(1, share)) * (WIDTH - LEFT - RIGHT);
}

/* From a little below the limit, so that no bar vanishes, to the slowest step. */
static axis find_axis(const cli_climb *climb) {
  double least = climb->limit_seconds, most = climb->limit_seconds;
  for (int i = 0; i < climb->rungs; i++) {
    const cli_rung *r = &climb->rung[i];
    if (r->skipped) continue;
    least = fmin(least, r->seconds);
    most = fmax(most, r->seconds);
  }
  axis a = {floor(log10(least * 0.7)), ceil(log10(most))};
  if (!(a.high > a.low)) a.high = a.low + 1;
  return a;
}

/* "100 µs" of a power of ten. */
static void name_power(double power, char text[32]) {
  static const char *const units[] = {"ns", "\u00b5s", "ms", "s"};
  const int unit = (int)fmax(0, fmin(3, floor(power / 3) + 3));
  snprintf(text, 32, "%g %s", pow(10, power + 9 - 3 * unit), units[unit]);
}

static void put_grid(FILE *file, const axis *a, double top, double bottom) {
  for (double power = a->low; power <= a->high; power++) {
    char text[32];
    const double x = place(a, pow(10, power));
    name_power(power, text);
    fprintf(file, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", x, x, top, bottom);
    fprintf(file, "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x, bottom + 16,
            text);
  }
}

static void put_rung(FILE *file, const cli_climb *climb, const cli_rung *r, const axis *a, double y) {
  const double middle = y + BAR / 2.0 + 4.5;
  fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 8, middle);
  cli_page_text(file, r->name);
  fputs("</text>\n", file);
  if (r->skipped) {
    fprintf(file, "<text class=\"soft\" x=\"%d\" y=\"%.1f\">skipped: ", LEFT + 6, middle);
    cli_page_text(file, r->skipped);
    fputs("</text>\n", file);
    return;
  }
  char time[32];
  const double end = place(a, r->seconds), share = 100 * climb->limit_seconds / r->seconds;
  fprintf(file, "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\"><title>",
          strcmp(r->name, "planner") == 0 ? "ours" : "bar", LEFT, y, fmax(1, end - LEFT), BAR);
  cli_page_text(file, r->idea);
  fprintf(file, "</title></rect>\n<text x=\"%.1f\" y=\"%.1f\">%s, %.*f%%, %.1f\u00d7</text>\n", end + 6, middle,
          cli_duration(r->seconds, time), share < 10, share, cli_climb_first(climb) / r->seconds);
}

/* One table from y on; returns where it ends. */
static double put_climb(FILE *file, const cli_climb *climb, double y) {
  const axis a = find_axis(climb);
  const double top = y + HEAD, bottom = top + climb->rungs * STEP;
  char limit[32];
  fprintf(file, "<text class=\"title\" x=\"16\" y=\"%.1f\">", y + 24);
  cli_page_text(file, climb->line);
  fputs(strcmp(climb->stage, "pooled") == 0 ? ", then ReLU and 2 x 2 max pooling" : "", file);
  fprintf(file, "</text>\n<text class=\"soft\" x=\"16\" y=\"%.1f\">", y + 42);
  cli_page_text(file, climb->device);
  fputs("; time, share of the limit, speed-up over the first step</text>\n", file);
  put_grid(file, &a, top - 6, bottom);
  for (int i = 0; i < climb->rungs; i++) put_rung(file, climb, &climb->rung[i], &a, top + i * STEP);
  const double x = place(&a, climb->limit_seconds);
  fprintf(file, "<line class=\"limit\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", x, x, top - 6, bottom);
  fprintf(file, "<text class=\"limit-text\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s limit %s</text>\n", x,
          bottom + 32, climb->bound, cli_duration(climb->limit_seconds, limit));
  return bottom + FOOT;
}

static void put_picture(FILE *file, const void *context) {
  const cli_climbs *climbs = context;
  double height = 8;
  for (int i = 0; i < climbs->count; i++) height += HEAD + climbs->climb[i].rungs * STEP + FOOT;
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n%s"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
          WIDTH, height, WIDTH, height, style);
  double y = 0;
  for (int i = 0; i < climbs->count; i++) y = put_climb(file, &climbs->climb[i], y);
  fputs("</svg>\n", file);
}

int cli_climbs_plot(const cli_climbs *climbs, io_output *output) {
  return cli_page_write(output, "--plot", put_picture, climbs);
}
