/* Applies one problem to a file in bands of rows, for files larger than memory. */
#include "band.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "behind.h"
#include "interrupt.h"
#include "report.h"
#include "stream.h"

/* A GPU's band is so long that filling and draining its queues counts little. */
enum { BAND_BYTES = 32 << 20, GPU_BAND_BYTES = 256 << 20, WHOLE_BYTES = 48 << 20, PLANS = 4 };

/* ---- geometry: rows along the slowest axis */

typedef struct geometry {
  const falt_problem *problem;  /* of the whole file */
  int axis, dim;                /* the slowest axis, and where it is in falt_tensor */
  int64_t rows, out_rows;       /* of the file */
  int64_t extent;               /* rows under the filter */
  int64_t row_bytes, out_bytes; /* of one row */
  int64_t band_bytes;           /* wanted, in and out */
  int64_t band;                 /* output rows of a band */
  int64_t front, back;          /* see copied_rows */
  int64_t late;                 /* rows behind a window's that are read with it: a stream's latency, else 0 */
} geometry;

/* One band: output rows [out, out + count) of the file from the part's window rows, which are in [low, high) together
 * with rows kept for later. Rows count from the file's first; those outside [0, rows) are copies. */
typedef struct window {
  int64_t out, count, low, high;
  falt_part part;
} window;

static bool is_whole(const geometry *g) {
  return g->band >= g->out_rows;
}

static int64_t min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* A stream takes rows some time before a window has them, up to the last one of all, and goes on behind those. */
static void add_late_rows(const geometry *g, window *w) {
  const falt_axis *axis = &g->problem->axis[g->axis];
  const int64_t behind = g->extent - axis->pad[0], taken = (w->out - 1) * axis->stride + behind + g->late;
  const int64_t end = (g->out_rows - 1) * axis->stride + behind;
  const int64_t last = axis->boundary[1] == FALT_CONSTANT ? min64(end, g->rows) : end;
  if (w->out > 0) w->low = min64(w->low, taken);
  w->high = max64(w->high, min64((w->out + w->count - 1) * axis->stride + behind + g->late, last));
}

static window make_window(const geometry *g, int64_t out) {
  window w = {.out = out, .count = min64(g->band, g->out_rows - out)};
  falt_problem_part(&w.part, g->problem, g->axis, out, w.count); /* the rows are the problem's: it cannot fail */
  w.low = min64(w.part.first, g->back);
  w.high = max64(w.part.last, g->front);
  if (g->late && !is_whole(g)) add_late_rows(g, &w);
  return w;
}

static bool is_mirror(falt_boundary boundary) {
  return boundary == FALT_EDGE || boundary == FALT_SYMMETRIC || boundary == FALT_REFLECT101;
}

/* Mirrored rows are copied within the buffer: rows [0, front) must be in it together with those before the file's
 * begin, and rows from `back` on with those after its end. A wrapping boundary reads its rows again instead. */
static void copied_rows(geometry *g) {
  const falt_axis *axis = &g->problem->axis[g->axis];
  g->front = 0;
  g->back = INT64_MAX;
  if (is_whole(g)) return;
  const int64_t first = make_window(g, 0).part.first,
                last = make_window(g, (g->out_rows - 1) / g->band * g->band).part.last;
  for (int64_t u = first; u < 0 && is_mirror(axis->boundary[0]); u++)
    g->front = max64(g->front, falt_problem_row(g->problem, g->axis, u) + 1);
  for (int64_t u = g->rows; u < last && is_mirror(axis->boundary[1]); u++)
    g->back = min64(g->back, falt_problem_row(g->problem, g->axis, u));
}

/* Bytes of a tensor from one step of `dim` to the next. */
static int64_t step_bytes(const falt_tensor *tensor, int dim) {
  int64_t elements = 1;
  for (int i = 0; i < FALT_DIMS; i++) elements *= i == dim ? 1 : tensor->size[i];
  return elements * (int64_t)falt_type_size(tensor->type);
}

static int64_t choose_band(const geometry *g) {
  const int64_t stride = g->problem->axis[g->axis].stride;
  double all = (double)g->rows * (double)g->row_bytes + (double)g->out_rows * (double)g->out_bytes;
  /* A filter nearly as tall as the file has a window of nearly all rows anyway. */
  if (all <= WHOLE_BYTES || g->extent > g->rows / 4) return g->out_rows;
  int64_t per_row = stride * g->row_bytes + g->out_bytes;
  int64_t fitting = max64(0, g->band_bytes - g->extent * g->row_bytes) / per_row;
  int64_t worth = g->extent / stride; /* below this, most of a window would be halo */
  return min64(g->out_rows, max64(1, max64(fitting, worth)));
}

static geometry make_geometry(const falt_problem *problem, int64_t band, bool gpu) {
  geometry g = {.problem = problem, .axis = 3 - problem->space, .band_bytes = gpu ? GPU_BAND_BYTES : BAND_BYTES};
  g.dim = FALT_D + g.axis;
  g.rows = problem->input.size[g.dim];
  g.out_rows = problem->output.size[g.dim];
  g.extent = problem->axis[g.axis].dilation * (problem->filter.size[g.dim] - 1) + 1;
  g.row_bytes = step_bytes(&problem->input, g.dim);
  g.out_bytes = step_bytes(&problem->output, g.dim);
  g.back = INT64_MAX;
  g.band = band ? min64(band, g.out_rows) : choose_band(&g);
  copied_rows(&g);
  return g;
}

static bool is_gpu(const falt_device *device) {
  return strncmp(falt_device_name(device), "cuda", 4) == 0;
}

static bool wraps(const geometry *g) {
  const falt_axis *axis = &g->problem->axis[g->axis];
  return axis->boundary[0] == FALT_WRAP || axis->boundary[1] == FALT_WRAP;
}

bool cli_band_is_random(const falt_problem *problem, int64_t rows, const falt_device *device) {
  geometry g = make_geometry(problem, rows, is_gpu(device));
  return wraps(&g) && !is_whole(&g);
}

/* A stream has no reason to read a file as a whole but a boundary whose first rows are the file's last. */
static void make_late(geometry *g, int64_t band, int64_t late) {
  const int64_t per_row = g->problem->axis[g->axis].stride * g->row_bytes + g->out_bytes;
  g->late = late;
  if (!band && !wraps(g)) g->band = min64(g->out_rows, max64(1, g->band_bytes / per_row));
  copied_rows(g);
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
  char *input, *output[2]; /* one is written while the other is computed */
  cli_behind behind;
  cli_stream *stream; /* computes the bands, or NULL */
  int64_t room;       /* rows in input */
  int64_t low, high;  /* rows that input holds now */
  int64_t page;       /* the file's first row of this page */
  void *workspace;
  size_t workspace_bytes;
  shaped_plan plans[PLANS], exact_plans[PLANS]; /* exact: results in the accumulator's type */
  int next_plan;
  void *exact; /* a band's exact results, or NULL */
  int64_t largest;
  cli_band_result *result;
} runner;

static int fail_device(runner *r, falt_status status) {
  r->result->device_failed = status >= FALT_NO_MEMORY;
  return r->result->device_failed && r->job->forgiving ? CLI_IMPOSSIBLE : cli_fail_library(status);
}

static int grow_workspace(runner *r, size_t bytes) {
  if (bytes <= r->workspace_bytes) return CLI_DONE;
  free(r->workspace);
  r->workspace = allocate((int64_t)bytes);
  r->workspace_bytes = r->workspace ? bytes : 0;
  r->result->workspace = bytes;
  if (r->workspace) return CLI_DONE;
  return cli_fail(CLI_IMPOSSIBLE, "workspace: %zu bytes are not available; set --max-workspace", bytes);
}

/* The same problem before rounding, by any method. */
static falt_status create_exact(runner *r, const window *w, falt_plan **plan) {
  falt_problem problem = w->part.problem;
  falt_budget budget = *r->job->budget;
  problem.output.type = problem.accumulator;
  budget.method[0] = '\0';
  return falt_plan_create(plan, r->job->device, &problem, &budget, r->job->weights);
}

static int make_plan(runner *r, const window *w, bool exact, shaped_plan *slot) {
  falt_plan_destroy(&slot->plan);
  falt_status status =
      exact ? create_exact(r, w, &slot->plan)
            : falt_plan_create(&slot->plan, r->job->device, &w->part.problem, r->job->budget, r->job->weights);
  if (status != FALT_OK) return fail_device(r, status);
  if (w->count > r->largest && !exact) {
    r->largest = w->count;
    falt_plan_print(slot->plan, r->result->plan, sizeof r->result->plan);
  }
  return grow_workspace(r, falt_plan_workspace(slot->plan));
}

static int find_plan(runner *r, const window *w, bool exact, const falt_plan **plan) {
  shaped_plan *plans = exact ? r->exact_plans : r->plans;
  int64_t rows = w->part.last - w->part.first, pad = w->part.problem.axis[r->g.axis].pad[0];
  for (int i = 0; i < PLANS; i++) {
    shaped_plan *slot = &plans[i];
    *plan = slot->plan;
    if (slot->plan && slot->rows == rows && slot->count == w->count && slot->pad == pad) return CLI_DONE;
  }
  shaped_plan *slot = &plans[r->next_plan++ % PLANS];
  slot->rows = rows;
  slot->count = w->count;
  slot->pad = pad;
  int status = make_plan(r, w, exact, slot);
  *plan = slot->plan;
  return status;
}

/* ---- the window's rows */

static char *row_at(const runner *r, int64_t u) {
  return r->input + (u - r->low) * r->g.row_bytes;
}

/* Fills row u, outside the file, from the row that the boundary puts there. */
static bool copy_row(runner *r, int64_t u, io_error *error) {
  int64_t row = falt_problem_row(r->g.problem, r->g.axis, u);
  if (row < r->low || row >= r->high) return io_read(r->job->reader, r->page + row, 1, row_at(r, u), error);
  memcpy(row_at(r, u), row_at(r, row), (size_t)r->g.row_bytes);
  return true;
}

/* Moves the buffer to rows [low, high): keeps present rows, reads new rows of the file, then copies. */
static bool slide(runner *r, int64_t low, int64_t high, io_error *error) {
  int64_t had = r->high;
  low = min64(low, had); /* a stride wider than the filter skips rows, a reader does not */
  if (had > low && low > r->low) memmove(r->input, row_at(r, low), (size_t)((had - low) * r->g.row_bytes));
  r->low = low;
  r->high = high = max64(had, high);
  int64_t first = max64(had, 0), last = min64(high, r->g.rows);
  if (first < last && !io_read(r->job->reader, r->page + first, last - first, row_at(r, first), error)) return false;
  for (int64_t u = had; u < min64(high, 0); u++) {
    if (!copy_row(r, u, error)) return false;
  }
  for (int64_t u = max64(had, r->g.rows); u < high; u++) {
    if (!copy_row(r, u, error)) return false;
  }
  return true;
}

/* Rows of the largest window, including those that slide keeps between windows. */
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

static int start(runner *r) {
  const geometry *g = &r->g;
  int64_t input_bytes, output_bytes;
  r->room = window_room(g);
  if (!__builtin_mul_overflow(r->room, g->row_bytes, &input_bytes)) r->input = allocate(input_bytes);
  const bool computed = !__builtin_mul_overflow(g->band, g->out_bytes, &output_bytes);
  const int buffers = is_whole(g) && r->job->pages == 1 ? 1 : 2;
  for (int i = 0; computed && i < buffers; i++) r->output[i] = allocate(output_bytes);
  if (r->input && r->output[buffers - 1]) return CLI_DONE;
  return cli_fail(CLI_IMPOSSIBLE, "memory: %lld rows of %lld bytes do not fit; use a smaller filter or file",
                  (long long)r->room, (long long)g->row_bytes);
}

static void add_stages(falt_stages *sum, const falt_stages *more) {
  sum->seconds += more->seconds;
  sum->copy_in += more->copy_in;
  sum->compute += more->compute;
  sum->copy_out += more->copy_out;
  sum->staging += more->staging;
  sum->bytes_in += more->bytes_in;
  sum->bytes_out += more->bytes_out;
  sum->slabs += more->slabs;
}

/* Adds the seconds since *began and restarts the clock. */
static void lap(double *began, double *seconds) {
  const double now = cli_seconds();
  *seconds += now - *began;
  *began = now;
}

/* Computes a band's exact results into r->exact. */
static int run_exact(runner *r, const window *w) {
  const geometry *g = &r->g;
  const falt_plan *plan;
  int64_t bytes = g->out_bytes / (int64_t)falt_type_size(g->problem->output.type);
  const bool fits = !__builtin_mul_overflow(bytes * (int64_t)falt_type_size(g->problem->accumulator), g->band, &bytes);
  if (!r->exact && fits) r->exact = allocate(bytes);
  if (!r->exact)
    return cli_fail(CLI_IMPOSSIBLE, "memory: the exact results do not fit into memory, too; set --band-rows");
  int status = find_plan(r, w, true, &plan);
  if (status != CLI_DONE) return status;
  falt_operands operands = {.input = row_at(r, w->part.first), .output = r->exact, .workspace = r->workspace};
  falt_status executed = falt_execute(plan, &operands);
  return executed == FALT_OK ? CLI_DONE : fail_device(r, executed);
}

/* Only outputs at the ends of the type can be clipped; if there are any, exact outputs decide. */
static int count_clipped(runner *r, const window *w, const void *output) {
  const falt_problem *p = r->g.problem;
  const falt_type type = p->output.type;
  const int64_t count = w->count * r->g.out_bytes / (int64_t)falt_type_size(type);
  if (!cli_clip_is_possible(output, type, count)) return CLI_DONE;
  const int status = run_exact(r, w);
  if (status == CLI_DONE) r->result->clipped += cli_clip_count(r->exact, p->accumulator, count, type);
  return status;
}

static int find_range(runner *r, const window *w) {
  const falt_problem *p = r->g.problem;
  const int64_t count = w->count * r->g.out_bytes / (int64_t)falt_type_size(p->output.type);
  const int status = run_exact(r, w);
  if (status == CLI_DONE) cli_clip_range(r->exact, p->accumulator, count, &r->result->range);
  return status == CLI_DONE && cli_interrupted() ? CLI_IMPOSSIBLE : status;
}

/* By a plan. */
static int execute(runner *r, const window *w, char *output) {
  falt_stages stages;
  const falt_plan *plan;
  const int status = find_plan(r, w, false, &plan);
  if (status != CLI_DONE) return status;
  double began = cli_seconds();
  falt_operands operands = {.input = row_at(r, w->part.first), .output = output, .workspace = r->workspace};
  const falt_status executed = falt_execute_stages(plan, &operands, &stages);
  lap(&began, &r->result->seconds);
  add_stages(&r->result->stages, &stages);
  return executed == FALT_OK ? CLI_DONE : fail_device(r, executed);
}

/* By the stream, unless it leaves the band to a plan. */
static int compute(runner *r, const window *w, char *output) {
  const cli_stream_rows rows = {r->input, r->low, r->high};
  double began = cli_seconds(), seconds = 0;
  const bool done = r->stream && cli_stream_run(r->stream, &rows, w->out, w->count, output);
  lap(&began, &seconds);
  r->result->seconds += seconds;
  add_stages(&r->result->stages, &(falt_stages){.seconds = seconds, .compute = seconds});
  return done ? CLI_DONE : execute(r, w, output);
}

static int run_band(runner *r, const window *w) {
  io_error error;
  double began = cli_seconds();
  if (!slide(r, w->low, w->high, &error)) return cli_fail(CLI_WRONG, "%s", error.text);
  lap(&began, &r->result->read);
  if (r->job->task == CLI_BAND_RANGE) return find_range(r, w);
  char *output = r->output[r->result->bands++ % 2];
  int status = compute(r, w, output);
  if (status != CLI_DONE) return status;
  if (cli_interrupted()) return CLI_IMPOSSIBLE;
  if (r->job->task == CLI_BAND_COUNT) status = count_clipped(r, w, output);
  if (status != CLI_DONE) return status;
  if (!cli_behind_write(&r->behind, w->count, output, &error)) return cli_fail(CLI_WRONG, "%s", error.text);
  return cli_interrupted() ? CLI_IMPOSSIBLE : CLI_DONE;
}

/* Pages do not touch: each begins with an empty window and has boundaries of its own. */
static int run_page(runner *r, int64_t page, cli_progress *progress) {
  const geometry *g = &r->g;
  int status = CLI_DONE;
  r->page = page * g->rows;
  r->low = r->high = min64(make_window(g, 0).low, 0);
  if (r->stream) cli_stream_rewind(r->stream);
  for (int64_t out = 0; status == CLI_DONE && out < g->out_rows; out += g->band) {
    window w = make_window(g, out);
    cli_progress_next(w.count);
    status = run_band(r, &w);
    cli_progress_step(progress, page * g->out_rows + out + w.count, r->job->pages * g->out_rows);
  }
  return status;
}

/* Waits for the last band; the error counts unless another came before. */
static int finish(runner *r, int status) {
  io_error error;
  const bool written = cli_behind_wait(&r->behind, &error);
  r->result->write = r->behind.seconds;
  if (status == CLI_DONE && !written) return cli_fail(CLI_WRONG, "%s", error.text);
  return status == CLI_DONE && cli_interrupted() ? CLI_IMPOSSIBLE : status;
}

/* Plans that compute bands for the stream are not the result's. */
static void open_stream(runner *r) {
  const cli_band_job *job = r->job;
  r->stream = cli_stream_open(job->problem, job->weights, job->budget, job->device);
  if (!r->stream) return;
  make_late(&r->g, job->rows, cli_stream_latency(r->stream));
  cli_stream_print(r->stream, r->result->plan, sizeof r->result->plan);
  r->largest = INT64_MAX;
}

int cli_band_run(const cli_band_job *job, cli_band_result *result) {
  *result = (cli_band_result){.clipped = job->task == CLI_BAND_COUNT ? 0 : -1, .range = {INFINITY, -INFINITY}};
  runner r = {.job = job,
              .g = make_geometry(job->problem, job->rows, is_gpu(job->device)),
              .behind = {.writer = job->writer},
              .result = result};
  if (job->task != CLI_BAND_RANGE) open_stream(&r);
  const double began = cli_seconds();
  cli_progress progress = cli_progress_begin(job->progress);
  cli_progress_step(&progress, 0, job->pages * r.g.out_rows);
  int status = start(&r);
  for (int64_t page = 0; status == CLI_DONE && page < job->pages; page++) status = run_page(&r, page, &progress);
  cli_progress_end();
  status = finish(&r, status);
  result->all = cli_seconds() - began;
  for (int i = 0; i < PLANS; i++) falt_plan_destroy(&r.plans[i].plan);
  for (int i = 0; i < PLANS; i++) falt_plan_destroy(&r.exact_plans[i].plan);
  cli_stream_close(&r.stream);
  free(r.exact);
  free(r.input);
  for (int i = 0; i < 2; i++) free(r.output[i]);
  free(r.workspace);
  return status;
}
