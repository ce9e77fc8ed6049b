/* Convolution of an image row by row. Bands whose windows are inside the image run on the store of rows, or on the
 * caller's rows in place; the others on copies, with rows that the boundary continues. */
#include "convolver/convolver_rows.h"

#include <string.h>

/* The rows of one call, and the results. */
typedef struct call {
  falt_convolver_rows *r;
  const char *input;  /* row `first` */
  int64_t first, end; /* rows of the image: the caller's are [first, end) */
  char *output;       /* the next row */
} call;

static int64_t begin_of(const falt_convolver_rows *r, int64_t o) {
  return o * r->shape.step - r->shape.before;
}

static char *store_row(const falt_convolver_rows *r, int64_t u) {
  return r->store + (r->slot + u - r->low) * r->store_pitch;
}

static void copy_rows(char *to, int64_t to_pitch, const char *from, int64_t from_pitch, int64_t bytes, int64_t count) {
  if (count < 1) return;
  if (to_pitch == bytes && from_pitch == bytes) {
    memcpy(to, from, (size_t)(count * bytes));
    return;
  }
  for (int64_t i = 0; i < count; i++) memcpy(to + i * to_pitch, from + i * from_pitch, (size_t)bytes);
}

/* ---- the store */

/* The first row that later outputs need. Before its first window begins in the image, that may be any. */
static int64_t first_kept(const falt_convolver_rows *r, int64_t end) {
  if (r->ended) return r->low;
  if (r->shape.height && r->next == r->shape.outputs) return end;
  return falt_max(0, falt_min(begin_of(r, r->next), end - r->keeps));
}

static void drop(falt_convolver_rows *r, int64_t until) {
  if (until >= r->high) {
    r->low = r->high = until;
    r->slot = 0;
  } else if (until > r->low) {
    r->slot += until - r->low;
    r->low = until;
  }
}

/* Takes the caller's rows up to `until` into the store. */
static falt_status take(call *c, int64_t until) {
  falt_convolver_rows *r = c->r;
  drop(r, falt_min(first_kept(r, c->end), c->end));
  if (until <= r->high) return FALT_OK;
  if (r->slot + until - r->low > r->room) {
    memmove(r->store, store_row(r, r->low), (size_t)((r->high - r->low) * r->store_pitch));
    r->slot = 0;
  }
  if (until - r->low > r->room) return falt_fail(FALT_INTERNAL, "rows: the store is too small");
  copy_rows(store_row(r, r->high), r->store_pitch, c->input + (r->high - c->first) * r->input.pitch, r->input.pitch,
            r->input.bytes, until - r->high);
  r->high = until;
  return FALT_OK;
}

/* ---- a band beyond the image */

static void copy_edge_row(const falt_convolver_rows *r, char *to, const char *from) {
  const int64_t elements = r->input.bytes / (int64_t)falt_type_size(r->type);
  if (r->edge_type == r->type) {
    memcpy(to, from, (size_t)r->input.bytes);
    return;
  }
  for (int64_t i = 0; i < elements; i++) falt_store(to, r->edge_type, i, falt_load(from, r->type, i));
}

/* The rows [begin, end) with those that the boundary puts before and after the image. */
static falt_status fill_window(const falt_convolver_rows *r, int64_t begin, int64_t end) {
  const int64_t height = r->ended ? r->rows : INT64_MAX / 4; /* until then no row behind the last one is read */
  const size_t constant = (size_t)(r->input.bytes / (int64_t)falt_type_size(r->type)) * falt_type_size(r->edge_type);
  for (int64_t u = begin; u < end; u++) {
    char *to = r->edge + (u - begin) * r->edge_pitch;
    const int64_t row = falt_axis_map(&r->shape.axis, height, u);
    if (row >= 0 && (row < r->low || row >= r->high))
      return falt_fail(FALT_INTERNAL, "rows: row %lld is not kept", (long long)row);
    if (row < 0)
      memcpy(to, r->constant, constant);
    else
      copy_edge_row(r, to, store_row(r, row));
  }
  return FALT_OK;
}

/* ---- bands */

static int choose(const falt_convolver_rows *r, int plans, int64_t outputs) {
  int i = plans - 1;
  while (i > 0 && r->band[i] > outputs) i--;
  return i;
}

static falt_status execute(call *c, const falt_plan *plan, const char *input, int64_t band) {
  falt_convolver_rows *r = c->r;
  FALT_TRY(falt_execute(plan, &(falt_operands){.input = (void *)(uintptr_t)input,
                                               .output = c->output,
                                               .bias = r->bias,
                                               .scale = r->scale,
                                               .workspace = r->workspace}));
  c->output += band * r->output.pitch;
  r->next += band;
  return FALT_OK;
}

static falt_status run_edge(call *c, int64_t outputs) {
  falt_convolver_rows *r = c->r;
  const int64_t begin = begin_of(r, r->next);
  if (begin < 0) outputs = falt_min(outputs, falt_ceil_div(-begin, r->shape.step));
  const int i = choose(r, r->edge_plans, outputs);
  const int64_t band = r->band[i], end = begin + (band - 1) * r->shape.step + r->shape.window;
  const int64_t needed = falt_rows_needed(&r->shape, r->next + band - 1, r->next);
  FALT_TRY(take(c, falt_min(c->end, needed)));
  FALT_TRY(fill_window(r, begin, end));
  return execute(c, r->edge_plan[i], r->edge, band);
}

/* Some of the next outputs, whose windows are inside the image. Windows that begin before the caller's rows are in the
 * store as a whole. */
static falt_status run_inside(call *c, int64_t outputs) {
  falt_convolver_rows *r = c->r;
  const int64_t begin = begin_of(r, r->next);
  const bool here = r->direct && begin >= c->first;
  const int i = choose(r, r->plans, outputs);
  const int64_t band = r->band[i];
  if (here) return execute(c, r->plan[i], c->input + (begin - c->first) * r->input.pitch, band);
  FALT_TRY(take(c, begin + (band - 1) * r->shape.step + r->shape.window));
  return execute(c, r->plan[i], store_row(r, begin), band);
}

static falt_status run_band(call *c, int64_t outputs) {
  const falt_convolver_rows *r = c->r;
  const int64_t begin = begin_of(r, r->next), space = c->end - r->shape.window - begin;
  if (begin < 0 || space < 0) return run_edge(c, outputs);
  return run_inside(c, falt_min(outputs, space / r->shape.step + 1));
}

static falt_status run(call *c, int64_t outputs) {
  falt_convolver_rows *r = c->r;
  const int64_t begin = r->next, until = begin + outputs;
  while (r->next < until) {
    const double done = (double)(r->next - begin), all_of = (double)outputs;
    const falt_progress_range all = falt_progress_enter(done / all_of, (done + 1) / all_of);
    const falt_status status = run_band(c, until - r->next);
    falt_progress_leave(all);
    FALT_TRY(status);
  }
  return take(c, c->end);
}

/* Within one call, so that its bands end together where the device is interrupted. */
static falt_status run_call(call *c, int64_t outputs) {
  falt_convolver_rows *r = c->r;
  falt_call control;
  falt_call_begin(&control, &r->device->control, "execute");
  const falt_status status = falt_call_end(&control, run(c, outputs));
  r->lost = status != FALT_OK;
  return status;
}

/* ---- calls */

static falt_status check_rows(const falt_convolver_rows *r, const void *output, int64_t capacity,
                              const int64_t *written) {
  if (!r || !written) return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL", r ? "written" : "rows");
  if (capacity < 0) return falt_fail(FALT_INVALID_ARGUMENT, "capacity: %lld; use 0 or more rows", (long long)capacity);
  if (!output && capacity > 0) return falt_fail(FALT_INVALID_ARGUMENT, "output: NULL; capacity has its rows");
  if (r->lost) return falt_fail(FALT_INVALID_ARGUMENT, "rows: an earlier call failed; call falt_convolver_rows_reset");
  return FALT_OK;
}

static falt_status check_push(const falt_convolver_rows *r, const void *input, int64_t count) {
  if (count < 0) return falt_fail(FALT_INVALID_ARGUMENT, "count: %lld; use 0 or more rows", (long long)count);
  if (!input && count > 0) return falt_fail(FALT_INVALID_ARGUMENT, "input: NULL; count has its rows");
  if (r->ended) return falt_fail(FALT_INVALID_ARGUMENT, "rows: the image has ended; call falt_convolver_rows_reset");
  const int64_t most = r->shape.height ? r->shape.height : INT64_C(1) << 60;
  if (count <= most - r->rows) return FALT_OK;
  return falt_fail(FALT_INVALID_SIZE, "count: %lld rows after %lld; the image has %lld", (long long)count,
                   (long long)r->rows, (long long)most);
}

/* Rows of both calls' memory, from the first element to the last. */
static bool share_memory(const call *c, int64_t outputs) {
  const falt_convolver_rows *r = c->r;
  const uintptr_t input = (uintptr_t)c->input, output = (uintptr_t)c->output;
  const int64_t count = c->end - c->first;
  if (count < 1 || outputs < 1) return false;
  return input < output + (uintptr_t)((outputs - 1) * r->output.pitch + r->output.bytes) &&
         output < input + (uintptr_t)((count - 1) * r->input.pitch + r->input.bytes);
}

/* The rows that a call takes, and returns the outputs that it writes. With too little capacity it takes the fewest
 * rows. The image's last outputs wait for nothing: later rows would not complete any. */
static int64_t plan_push(const falt_convolver_rows *r, int64_t count, int64_t capacity, int64_t *end) {
  *end = r->rows + count;
  int64_t ready = falt_rows_ready(&r->shape, *end, r->next) - r->next;
  const bool last = r->shape.height && r->next + ready == r->shape.outputs;
  const int64_t wanted = falt_max(capacity, last ? 1 : r->latency + 1);
  if (ready > wanted || (last && ready > capacity)) {
    const int64_t needed = falt_rows_needed(&r->shape, r->next + wanted - 1, r->next);
    *end = falt_max(r->rows, falt_min(*end, needed));
    ready = falt_rows_ready(&r->shape, *end, r->next) - r->next;
  }
  return ready > r->latency || last ? falt_min(ready, capacity) : 0;
}

falt_status falt_convolver_rows_push(falt_convolver_rows *r, const void *input, int64_t count, int64_t *taken,
                                     void *output, int64_t capacity, int64_t *written) {
  if (taken) *taken = 0;
  if (written) *written = 0;
  FALT_TRY(check_rows(r, output, capacity, written));
  FALT_TRY(check_push(r, input, count));
  call c = {.r = r, .first = r->rows};
  const int64_t outputs = plan_push(r, count, capacity, &c.end);
  if (!taken &&
      (c.end < r->rows + count || falt_rows_ready(&r->shape, c.end, r->next) - r->next - outputs > r->latency))
    return falt_fail(FALT_INVALID_SIZE,
                     "capacity: %lld; these rows make more output rows, pass taken and the remaining ones again",
                     (long long)capacity);
  if (count > 0) c.input = (const char *)input + r->input.lowest;
  if (outputs > 0) c.output = (char *)output + r->output.lowest;
  if (share_memory(&c, outputs))
    return falt_fail(FALT_INVALID_ARGUMENT, "output: shares memory with input; give it memory of its own");
  FALT_TRY(run_call(&c, outputs));
  if (taken) *taken = c.end - r->rows;
  *written = outputs;
  r->rows = c.end;
  return FALT_OK;
}

falt_status falt_convolver_rows_finish(falt_convolver_rows *r, void *output, int64_t capacity, int64_t *written) {
  if (written) *written = 0;
  FALT_TRY(check_rows(r, output, capacity, written));
  if (r->shape.height && r->rows < r->shape.height)
    return falt_fail(FALT_INVALID_SIZE, "rows: %lld of the problem's %lld came; push the others, or set any_height",
                     (long long)r->rows, (long long)r->shape.height);
  r->ended = true;
  call c = {.r = r, .first = r->rows, .end = r->rows};
  const int64_t outputs = falt_min(capacity, falt_rows_outputs(&r->shape, r->rows) - r->next);
  if (outputs < 1) return FALT_OK;
  c.output = (char *)output + r->output.lowest;
  FALT_TRY(run_call(&c, outputs));
  *written = outputs;
  return FALT_OK;
}

void falt_convolver_rows_reset(falt_convolver_rows *r) {
  if (!r) return;
  r->low = r->high = r->slot = r->rows = r->next = 0;
  r->ended = r->lost = false;
}
