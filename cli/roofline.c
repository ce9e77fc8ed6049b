/* The roofline of explain --html. Source: Williams, Waterman, Patterson: Roofline, an insightful visual performance
 * model for multicore architectures, CACM 52(4), 2009. All candidates do the problem's operations on the problem's
 * bytes, so their dots share one intensity. */
#include <math.h>

#include "counts.h"
#include "explain_page.h"
#include "page.h"
#include "report.h"

enum { WIDTH = 980, HEIGHT = 420, LEFT = 70, RIGHT = 330, TOP = 24, BOTTOM = 44, LABEL = 17, MOST_LABELS = 20 };

typedef struct roofline {
  double memory, compute;              /* bytes and operations a second */
  double intensity;                    /* of the problem, each operand moved once */
  double low_x, high_x, low_y, high_y; /* powers of ten */
} roofline;

/* The limits that the candidates' shares are measured by; the device's own where no candidate is bound by them. */
static void find_limits(const cli_explanation *e, roofline *r) {
  const falt_type type = e->question->problem.input.type;
  const falt_limits *l = &e->limits;
  const double narrow = type == FALT_U8 || type == FALT_S8 ? l->s8_flops : type == FALT_F32 ? 0 : l->f16_flops;
  r->memory = l->copy_bytes_per_s;
  r->compute = type == FALT_F64 ? l->f64_flops : narrow > 0 ? narrow : l->f32_flops;
  for (int i = 0; i < e->count; i++) {
    const falt_candidate *c = &e->candidate[i];
    if (c->rejected || !(c->limit_share > 0) || !c->bound) continue;
    const double least = c->limit_share * cli_candidate_seconds(c);
    if (c->bound[0] == 'm')
      r->memory = c->bytes / least;
    else
      r->compute = c->flops / least;
  }
}

static double rate_of(const falt_candidate *c) {
  return c->flops / cli_candidate_seconds(c);
}

static bool find_axes(const cli_explanation *e, roofline *r) {
  double least = INFINITY;
  for (int i = 0; i < e->count; i++) {
    const falt_candidate *c = &e->candidate[i];
    if (c->rejected) continue;
    r->intensity = c->flops / c->bytes;
    least = fmin(least, rate_of(c));
  }
  if (!(least > 0 && isfinite(least) && r->intensity > 0)) return false;
  const double ridge = r->compute / r->memory;
  r->low_x = floor(log10(fmin(0.2, r->intensity / 2)));
  r->high_x = ceil(log10(fmax(4 * ridge, 2 * r->intensity)));
  r->high_y = ceil(log10(1.2 * r->compute));
  r->low_y = fmin(floor(log10(least)), r->high_y - 3);
  return true;
}

static double x_of(const roofline *r, double intensity) {
  return LEFT + (WIDTH - LEFT - RIGHT) * (log10(intensity) - r->low_x) / (r->high_x - r->low_x);
}

static double y_of(const roofline *r, double rate) {
  return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (log10(rate) - r->low_y) / (r->high_y - r->low_y);
}

static void put_grid(FILE *file, const roofline *r) {
  for (double p = r->low_x; p <= r->high_x; p++) {
    const double x = x_of(r, pow(10, p));
    fprintf(file, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x, x, TOP, HEIGHT - BOTTOM);
    fprintf(file, "<text class=\"faint\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", x,
            HEIGHT - BOTTOM + 16, pow(10, p));
  }
  for (double p = r->low_y; p <= r->high_y; p++) {
    const double y = y_of(r, pow(10, p));
    fprintf(file, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT, WIDTH - RIGHT, y, y);
    fprintf(file, "<text class=\"faint\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 6, y + 4,
            1e-9 * pow(10, p));
  }
  fprintf(file, "<text class=\"faint\" x=\"%d\" y=\"%d\">operations per byte</text>\n", LEFT, HEIGHT - 8);
  fprintf(file, "<text class=\"faint\" x=\"%d\" y=\"%d\">GFLOP/s</text>\n", 8, TOP - 8);
}

static void put_roof(FILE *file, const roofline *r) {
  const double ridge = r->compute / r->memory, floor_rate = pow(10, r->low_y);
  double start = pow(10, r->low_x);
  if (start * r->memory < floor_rate) start = floor_rate / r->memory;
  fprintf(file, "<polyline class=\"roof\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n", x_of(r, start),
          y_of(r, start * r->memory), x_of(r, ridge), y_of(r, r->compute), x_of(r, pow(10, r->high_x)),
          y_of(r, r->compute));
}

static void put_mark(FILE *file, const roofline *r, double intensity, const char *name, int row) {
  const double x = x_of(r, intensity);
  fprintf(file, "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x, x, TOP, HEIGHT - BOTTOM);
  fprintf(file, "<text class=\"faint\" x=\"%.1f\" y=\"%d\">%s</text>\n", x + 4, HEIGHT - BOTTOM - 6 - row * 14, name);
}

/* The textbook's kernels, each with less traffic than the previous one. */
static void put_marks(FILE *file, const roofline *r, const falt_problem *problem) {
  if (cli_counts_apply(problem)) {
    put_mark(file, r, 0.25, "no reuse", 0);
    put_mark(file, r, 0.5, "filter cached", 1);
    const double tiled = cli_count(problem).tiled_intensity;
    if (tiled > 0 && log10(tiled) < r->high_x) put_mark(file, r, tiled, "tiles", 2);
  }
  put_mark(file, r, r->intensity, "each operand moved once", 3);
}

/* Labels are in a column at the right, in the order of the dots, best first. */
static void put_dots(FILE *file, const cli_explanation *e, const roofline *r) {
  const double x = x_of(r, r->intensity);
  double free_from = TOP;
  int labels = 0;
  for (int i = 0; i < e->count; i++) {
    const falt_candidate *c = &e->candidate[i];
    if (c->rejected) continue;
    char time[32];
    const double y = y_of(r, rate_of(c)), label = fmax(free_from, y);
    const char *kind = c->chosen ? "chosen" : "dot";
    if (labels++ < MOST_LABELS && label < HEIGHT - BOTTOM) {
      fprintf(file, "<polyline class=\"lead\" fill=\"none\" points=\"%.1f,%.1f %d,%.1f\"/>", x, y, WIDTH - RIGHT + 6,
              label);
      fprintf(file, "<text class=\"%s\" x=\"%d\" y=\"%.1f\">", c->chosen ? "chosen" : "", WIDTH - RIGHT + 10,
              label + 4);
      cli_page_text(file, c->solver);
      fprintf(file, ", %s</text>", cli_duration(cli_candidate_seconds(c), time));
      free_from = label + LABEL;
    }
    fprintf(file, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>\n", kind, x, y);
  }
}

void cli_roofline_draw(FILE *file, const cli_explanation *e) {
  roofline r = {.intensity = 0};
  find_limits(e, &r);
  if (!find_axes(e, &r)) return;
  fprintf(file, "<h2>Roofline</h2>\n<svg viewBox=\"0 0 %d %d\" width=\"100%%\" role=\"img\">\n", WIDTH, HEIGHT);
  put_grid(file, &r);
  put_marks(file, &r, &e->question->problem);
  put_roof(file, &r);
  put_dots(file, e, &r);
  fputs("</svg>\n", file);
}
