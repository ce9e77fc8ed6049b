/* Running one problem over a file by bands of rows, so that files larger than memory pass through. */
#include "band.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "report.h"

enum { BAND_BYTES = 32 << 20, WHOLE_BYTES = 48 << 20, PLANS = 4 };

/* ---- geometry: rows along the slowest axis */

typedef struct geometry {
  falt_axis axis;
  int dim;                      /* the slowest axis in falt_tensor */
  int64_t rows, out_rows;       /* of the file */
  int64_t extent;               /* rows under the filter */
  int64_t row_bytes, out_bytes; /* of one row */
  int64_t band;                 /* output rows of a band */
  int64_t front, back;          /* see copied_rows */
} geometry;

/* One band: output rows [out, out + count) of the file from window rows [need, need_end), which lie with others that
 * are kept for later in [low, high). Rows count from the file's first; those outside [0, rows) are copies. */
typedef struct window {
  int64_t out, count, need, need_end, low, high;
} window;

static int64_t floor_mod(int64_t a, int64_t n) {
  int64_t m = a % n;
  return m < 0 ? m + n : m;
}

/* The row that stands at u, for every boundary but constant. */
static int64_t map_row(const geometry *g, int64_t u) {
  if (u >= 0 && u < g->rows) return u;
  int64_t n = g->rows, m;
  switch (g->axis.boundary[u < 0 ? 0 : 1]) {
    case FALT_SYMMETRIC:
      m = floor_mod(u, 2 * n);
      return m < n ? m : 2 * n - 1 - m;
    case FALT_REFLECT101:
      m = n == 1 ? 0 : floor_mod(u, 2 * n - 2);
      return m < n ? m : 2 * n - 2 - m;
    case FALT_WRAP:
      return floor_mod(u, n);
    default:
      return u < 0 ? 0 : n - 1;
  }
}

static int64_t window_begin(const geometry *g, int64_t out) {
  return out * g->axis.stride - g->axis.pad[0];
}

static int64_t window_end(const geometry *g, int64_t out_end) {
  return window_begin(g, out_end - 1) + g->extent;
}

static bool is_mirror(falt_boundary boundary) {
  return boundary == FALT_EDGE || boundary == FALT_SYMMETRIC || boundary == FALT_REFLECT101;
}

/* Mirrored rows are copied within the buffer: rows [0, front) must be in it together with those before the file's
 * begin, and rows from `back` on with those after its end. A wrapping boundary reads its rows again instead. */
static void copied_rows(geometry *g) {
  g->front = 0;
  g->back = INT64_MAX;
  for (int64_t u = window_begin(g, 0); u < 0 && is_mirror(g->axis.boundary[0]); u++) {
    int64_t row = map_row(g, u);
    if (row >= g->front) g->front = row + 1;
  }
  for (int64_t u = g->rows; u < window_end(g, g->out_rows) && is_mirror(g->axis.boundary[1]); u++) {
    int64_t row = map_row(g, u);
    if (row < g->back) g->back = row;
  }
}

static int64_t min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Bytes of a tensor from one step of `dim` to the next. */
static int64_t step_bytes(const falt_tensor *tensor, int dim) {
  int64_t elements = 1;
  for (int i = 0; i < FALT_DIMS; i++) elements *= i == dim ? 1 : tensor->size[i];
  return elements * (int64_t)falt_type_size(tensor->type);
}

static int64_t choose_band(const geometry *g) {
  double all = (double)g->rows * (double)g->row_bytes + (double)g->out_rows * (double)g->out_bytes;
  /* A filter nearly as tall as the file has a window of nearly all rows anyway. */
  if (all <= WHOLE_BYTES || g->extent > g->rows / 4) return g->out_rows;
  int64_t per_row = g->axis.stride * g->row_bytes + g->out_bytes;
  int64_t fitting = max64(0, BAND_BYTES - g->extent * g->row_bytes) / per_row;
  int64_t worth = g->extent / g->axis.stride; /* below this, most of a window would be halo */
  return min64(g->out_rows, max64(1, max64(fitting, worth)));
}

static geometry make_geometry(const falt_problem *problem, int64_t band) {
  int axis = 3 - problem->space;
  geometry g = {.axis = problem->axis[axis], .dim = FALT_D + axis};
  g.rows = problem->input.size[g.dim];
  g.out_rows = problem->output.size[g.dim];
  g.extent = g.axis.dilation * (problem->filter.size[g.dim] - 1) + 1;
  g.row_bytes = step_bytes(&problem->input, g.dim);
  g.out_bytes = step_bytes(&problem->output, g.dim);
  g.band = band ? min64(band, g.out_rows) : choose_band(&g);
  if (g.band < g.out_rows) copied_rows(&g);
  return g;
}

static bool is_whole(const geometry *g) {
  return g->band >= g->out_rows;
}

static window make_window(const geometry *g, int64_t out) {
  window w = {.out = out, .count = min64(g->band, g->out_rows - out)};
  if (is_whole(g)) {
    w.need_end = w.high = g->rows;
    return w;
  }
  w.need = window_begin(g, out);
  w.need_end = window_end(g, out + w.count);
  if (g->axis.boundary[0] == FALT_CONSTANT) {
    w.need = max64(w.need, 0);
    w.need_end = max64(w.need_end, 1);
  }
  if (g->axis.boundary[1] == FALT_CONSTANT) {
    w.need = min64(w.need, g->rows - 1);
    w.need_end = min64(w.need_end, g->rows);
  }
  w.low = min64(w.need, g->back);
  w.high = max64(w.need_end, g->front);
  return w;
}

bool cli_band_is_random(const falt_problem *problem, int64_t rows) {
  geometry g = make_geometry(problem, rows);
  bool wraps = g.axis.boundary[0] == FALT_WRAP || g.axis.boundary[1] == FALT_WRAP;
  return wraps && !is_whole(&g);
}

/* ---- memory */

/* Large pages where the system gives them: fewer faults on the first touch. */
static void *allocate(int64_t bytes) {
  enum { PAGE = 2 << 20 };
  size_t align = bytes >= 2 * PAGE ? PAGE : 64, size = ((size_t)bytes + align - 1) / align * align;
  void *data = bytes < 0 || (size_t)bytes > SIZE_MAX - align ? NULL : aligned_alloc(align, size ? size : align);
#ifdef MADV_HUGEPAGE
  if (data && align == PAGE) madvise(data, size, MADV_HUGEPAGE);
#endif
  return data;
}

/* ---- plans: bands of equal shape share one */

typedef struct shaped_plan {
  int64_t rows, count, pad;
  falt_plan *plan;
} shaped_plan;

typedef struct runner {
  const cli_band_job *job;
  geometry g;
  char *input, *output;
  int64_t room;      /* rows in input */
  int64_t low, high; /* rows that input holds now */
  void *workspace;
  size_t workspace_bytes;
  shaped_plan plans[PLANS];
  int next_plan;
  int64_t largest;
  cli_band_result *result;
} runner;

/* The whole problem cut down to the rows of a window. */
static falt_problem band_problem(const runner *r, const window *w) {
  falt_problem problem = *r->job->problem;
  if (is_whole(&r->g)) return problem;
  falt_axis *axis = &problem.axis[r->g.dim - FALT_D];
  problem.input.size[r->g.dim] = w->need_end - w->need;
  problem.output.size[r->g.dim] = w->count;
  axis->pad[0] = w->need - window_begin(&r->g, w->out);
  axis->pad[1] = window_end(&r->g, w->out + w->count) - w->need_end;
  axis->boundary[0] = axis->boundary[1] = FALT_CONSTANT; /* met only where it was constant before */
  return problem;
}

static int grow_workspace(runner *r, size_t bytes) {
  if (bytes <= r->workspace_bytes) return CLI_DONE;
  free(r->workspace);
  r->workspace = allocate((int64_t)bytes);
  r->workspace_bytes = r->workspace ? bytes : 0;
  r->result->workspace = bytes;
  if (r->workspace) return CLI_DONE;
  return cli_fail(CLI_IMPOSSIBLE, "workspace: %zu bytes are not to be had; set --max-workspace", bytes);
}

static int make_plan(runner *r, const window *w, shaped_plan *slot) {
  falt_problem problem = band_problem(r, w);
  falt_plan_destroy(&slot->plan);
  falt_status status = falt_plan_create(&slot->plan, r->job->device, &problem, r->job->budget, r->job->weights);
  if (status != FALT_OK) return cli_fail_library(status);
  if (w->count > r->largest) {
    r->largest = w->count;
    falt_plan_print(slot->plan, r->result->plan, sizeof r->result->plan);
  }
  return grow_workspace(r, falt_plan_workspace(slot->plan));
}

static int find_plan(runner *r, const window *w, const falt_plan **plan) {
  int64_t rows = w->need_end - w->need, pad = is_whole(&r->g) ? 0 : w->need - window_begin(&r->g, w->out);
  for (int i = 0; i < PLANS; i++) {
    shaped_plan *slot = &r->plans[i];
    *plan = slot->plan;
    if (slot->plan && slot->rows == rows && slot->count == w->count && slot->pad == pad) return CLI_DONE;
  }
  shaped_plan *slot = &r->plans[r->next_plan++ % PLANS];
  slot->rows = rows;
  slot->count = w->count;
  slot->pad = pad;
  int status = make_plan(r, w, slot);
  *plan = slot->plan;
  return status;
}

/* ---- the window's rows */

static char *row_at(const runner *r, int64_t u) {
  return r->input + (u - r->low) * r->g.row_bytes;
}

/* Fills row u, outside the file, from the row that stands there. */
static bool copy_row(runner *r, int64_t u, io_error *error) {
  int64_t row = map_row(&r->g, u);
  if (row < r->low || row >= r->high) return io_read(r->job->reader, row, 1, row_at(r, u), error);
  memcpy(row_at(r, u), row_at(r, row), (size_t)r->g.row_bytes);
  return true;
}

/* Moves the buffer on to rows [low, high): keeps what it has of them, reads the file's own rows, then copies. */
static bool slide(runner *r, int64_t low, int64_t high, io_error *error) {
  int64_t had = r->high;
  low = min64(low, had); /* a stride wider than the filter skips rows, a reader does not */
  if (had > low && low > r->low) memmove(r->input, row_at(r, low), (size_t)((had - low) * r->g.row_bytes));
  r->low = low;
  r->high = high = max64(had, high);
  int64_t first = max64(had, 0), last = min64(high, r->g.rows);
  if (first < last && !io_read(r->job->reader, first, last - first, row_at(r, first), error)) return false;
  for (int64_t u = had; u < min64(high, 0); u++) {
    if (!copy_row(r, u, error)) return false;
  }
  for (int64_t u = max64(had, r->g.rows); u < high; u++) {
    if (!copy_row(r, u, error)) return false;
  }
  return true;
}

/* Rows that the largest window holds, those included that slide keeps so as to skip none. */
static int64_t window_room(const geometry *g) {
  int64_t room = 0, had = min64(make_window(g, 0).low, 0);
  for (int64_t out = 0; out < g->out_rows; out += g->band) {
    window w = make_window(g, out);
    int64_t high = max64(had, w.high);
    room = max64(room, high - min64(w.low, had));
    had = high;
  }
  return room;
}

/* ---- running */

static volatile sig_atomic_t interrupted;

static void note_interrupt(int number) {
  interrupted = number;
}

int cli_band_interrupted(void) {
  return interrupted;
}

/* The first interrupt lets the run clean up; the second has the usual effect. */
static void catch_interrupts(void) {
  struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

static int start(runner *r) {
  const geometry *g = &r->g;
  int64_t input_bytes, output_bytes;
  r->room = window_room(g);
  r->low = r->high = min64(make_window(g, 0).low, 0);
  if (!__builtin_mul_overflow(r->room, g->row_bytes, &input_bytes)) r->input = allocate(input_bytes);
  if (!__builtin_mul_overflow(g->band, g->out_bytes, &output_bytes)) r->output = allocate(output_bytes);
  if (r->input && r->output) return CLI_DONE;
  return cli_fail(CLI_IMPOSSIBLE, "memory: %lld rows of %lld bytes do not fit; use a smaller filter or file",
                  (long long)r->room, (long long)g->row_bytes);
}

static int run_band(runner *r, const window *w) {
  io_error error;
  const falt_plan *plan;
  int status = find_plan(r, w, &plan);
  if (status != CLI_DONE) return status;
  if (!slide(r, w->low, w->high, &error)) return cli_fail(CLI_WRONG, "%s", error.text);
  falt_operands operands = {.input = row_at(r, w->need), .output = r->output, .workspace = r->workspace};
  double began = cli_seconds();
  falt_status executed = falt_execute_host(plan, &operands);
  r->result->seconds += cli_seconds() - began;
  r->result->bands++;
  if (executed != FALT_OK) return cli_fail_library(executed);
  if (interrupted) return CLI_IMPOSSIBLE;
  if (!io_write(r->job->writer, w->count, r->output, &error)) return cli_fail(CLI_WRONG, "%s", error.text);
  return interrupted ? CLI_IMPOSSIBLE : CLI_DONE;
}

int cli_band_run(const cli_band_job *job, cli_band_result *result) {
  *result = (cli_band_result){0};
  runner r = {.job = job, .g = make_geometry(job->problem, job->rows), .result = result};
  cli_progress progress = cli_progress_begin(job->progress);
  catch_interrupts();
  int status = start(&r);
  for (int64_t out = 0; status == CLI_DONE && out < r.g.out_rows; out += r.g.band) {
    window w = make_window(&r.g, out);
    status = run_band(&r, &w);
    cli_progress_step(&progress, out + w.count, r.g.out_rows);
  }
  cli_progress_end();
  for (int i = 0; i < PLANS; i++) falt_plan_destroy(&r.plans[i].plan);
  free(r.input);
  free(r.output);
  free(r.workspace);
  return status;
}
