/* The tile of explain --html: the inputs that a square of outputs in the image's corner reads. Cells of the tile proper
 * are inputs below the outputs; the halo is what the windows reach around them; ghost cells lie outside the image. */
#include "explain_page.h"

enum { SIDE = 8, MOST_CELLS = 36, MOST_PIXELS = 520, MOST_PIXEL = 22 };

/* One axis: inputs low to high, of which first to last lie below the outputs. */
typedef struct span {
  int64_t low, high, first, last, size;
  int64_t window, dilation, taps; /* of the output that is drawn: its first input */
  int outputs;
} span;

static span find_span(const falt_problem *p, int a, int outputs) {
  const falt_axis *axis = &p->axis[a];
  const int64_t taps = p->filter.size[FALT_D + a], reach = (taps - 1) * axis->dilation;
  const int64_t last = (outputs - 1) * axis->stride, middle = reach / 2 < axis->pad[0] ? reach / 2 : axis->pad[0];
  span s = {.low = -axis->pad[0],
            .high = last + reach - axis->pad[0],
            .first = middle - axis->pad[0],
            .last = last + middle - axis->pad[0],
            .size = p->input.size[FALT_D + a],
            .dilation = axis->dilation,
            .taps = taps,
            .outputs = outputs};
  s.window = outputs / 2 * axis->stride - axis->pad[0];
  return s;
}

/* As many outputs as fit into the picture; 0 where not even one window does. */
static int count_outputs(const falt_problem *p) {
  int outputs = SIDE;
  for (int a = 3 - (p->space < 2 ? 1 : 2); a < 3; a++) {
    while (outputs > 1 && outputs > p->output.size[FALT_D + a]) outputs--;
    while (outputs > 0 && find_span(p, a, outputs).high - find_span(p, a, outputs).low >= MOST_CELLS) outputs--;
  }
  return outputs;
}

static bool is_outside(const span *s, int64_t i) {
  return i < 0 || i >= s->size;
}

static bool is_below(const span *s, int64_t i) {
  return i >= s->first && i <= s->last;
}

static const char *kind_of(const span *y, const span *x, int64_t i, int64_t j) {
  return is_outside(y, i) || is_outside(x, j) ? "ghost" : is_below(y, i) && is_below(x, j) ? "tile" : "halo";
}

static void put_cells(FILE *file, const span *y, const span *x, double side) {
  for (int64_t i = y->low; i <= y->high; i++)
    for (int64_t j = x->low; j <= x->high; j++)
      fprintf(file, "<rect class=\"%s cell\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
              kind_of(y, x, i, j), (double)(j - x->low) * side, (double)(i - y->low) * side, side, side);
}

/* The taps of one output, apart from each other where they are dilated. */
static void put_window(FILE *file, const span *y, const span *x, double side) {
  const bool apart = y->dilation > 1 || x->dilation > 1;
  const int64_t rows = apart ? y->taps : 1, columns = apart ? x->taps : 1;
  const double height = side * (apart ? 1 : (double)y->taps), width = side * (apart ? 1 : (double)x->taps);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t s = 0; s < columns; s++)
      fprintf(file, "<rect class=\"window\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
              (double)(x->window - x->low + s * x->dilation) * side,
              (double)(y->window - y->low + r * y->dilation) * side, width, height);
}

static void put_legend(FILE *file, const span *y, const span *x) {
  const int64_t rows = y->high - y->low + 1, columns = x->high - x->low + 1;
  fprintf(file,
          "<p><svg width=\"12\" height=\"12\"><rect class=\"tile\" width=\"12\" height=\"12\"/></svg> inputs below a "
          "tile of %d &times; %d outputs in the corner, "
          "<svg width=\"12\" height=\"12\"><rect class=\"halo\" width=\"12\" height=\"12\"/></svg> their halo, "
          "<svg width=\"12\" height=\"12\"><rect class=\"ghost\" width=\"12\" height=\"12\"/></svg> ghost cells beyond "
          "the edges; framed: the window of one output. The tile reads %lld &times; %lld inputs once instead of "
          "%lld for each of its outputs.</p>\n",
          y->outputs, x->outputs, (long long)rows, (long long)columns, (long long)(y->taps * x->taps));
}

void cli_halo_draw(FILE *file, const falt_problem *problem) {
  const int outputs = count_outputs(problem);
  if (outputs == 0) return;
  const span x = find_span(problem, 2, outputs), y = find_span(problem, 1, problem->space < 2 ? 1 : outputs);
  const double columns = (double)(x.high - x.low + 1), rows = (double)(y.high - y.low + 1);
  const double most = columns > rows ? columns : rows;
  const double side = most * MOST_PIXEL < MOST_PIXELS ? MOST_PIXEL : MOST_PIXELS / most;
  fprintf(file,
          "<h2>Tile and halo</h2>\n<svg width=\"%.0f\" height=\"%.0f\" viewBox=\"-2 -2 %.1f %.1f\" role=\"img\">\n",
          columns * side + 4, rows * side + 4, columns * side + 4, rows * side + 4);
  put_cells(file, &y, &x, side);
  put_window(file, &y, &x, side);
  fputs("</svg>\n", file);
  put_legend(file, &y, &x);
}
