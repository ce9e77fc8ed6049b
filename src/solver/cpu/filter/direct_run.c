/* Executes plans of the solver direct: a task moves down its box in bands of output rows. Inner columns of a band read
 * the source in place, columns at the edges read windows. */
#include <string.h>

#include "solver/cpu/filter/direct.h"
#include "solver/cpu/filter/filter_along.h"

enum { MOST_ROWS = FALT_DIRECT_MOST_BAND };

/* Columns of a task that read rows in the same way. */
typedef struct segment {
  int64_t begin, end; /* outputs */
  bool in_place;
  int64_t shift;            /* in place: bytes from a row's x = 0 to the first element of the first output */
  falt_row_window *windows; /* one for each class of columns; in place: the row of the constant */
} segment;

typedef struct execution execution;

typedef struct walk {
  const falt_direct_plan *plan;
  const execution *in_place; /* NULL, or the execution, whose output is its residual */
  const void *input;
  void *output;
  const char *taps;
  falt_row_task task;
  char *scratch;
  segment segments[3];
  int segment_count;
} walk;

struct execution {
  const falt_direct_plan *plan;
  const falt_operands *operands;
  const char *taps;
  const float *factors;
};

/* The epilogue of rows of channel `slice`, without rows, sums and outputs. */
static falt_layer_finish epilogue(const execution *e, int64_t slice) {
  const falt_direct_plan *plan = e->plan;
  const int64_t g = slice % plan->rows.groups;
  return (falt_layer_finish){.scale = e->factors + g,
                             .offset = e->factors + plan->layer.p.output.size[FALT_G] + g,
                             .rows = 1,
                             .curve = plan->layer.curve,
                             .slope.f32 = (float)plan->layer.p.act_a,
                             .low.f32 = (float)plan->layer.low,
                             .high.f32 = (float)plan->layer.high};
}

/* A band: `count` output rows from (z, y) on, out_step apart. */
typedef struct band {
  int64_t z, y;
  int count;
} band;

/* Reorders dense taps (T, R, S) to the order of the parts. */
static void pack_taps(const falt_direct_plan *plan, const char *dense, char *packed) {
  const falt_rows *rows = &plan->rows;
  size_t size = rows->lane_size;
  for (int i = 0; i < plan->part_count; i++) {
    const falt_direct_part *part = &plan->parts[i];
    char *to = packed + (size_t)part->first_tap * size;
    for (int64_t k = 0; k < rows->taps[0]; k++)
      for (int64_t y = part->y_class; y < part->y_class + part->y_classes; y++)
        for (int64_t x = part->x_class; x < part->x_class + part->x_classes; x++)
          for (int64_t r = 0; r < part->r; r++)
            for (int64_t s = 0; s < part->s; s++, to += size) {
              int64_t tap_y = y + r * plan->y_classes, tap_x = x + s * plan->x_classes;
              int64_t at = (k * rows->taps[1] + tap_y) * rows->taps[2] + tap_x;
              memcpy(to, dense + (size_t)at * size, size);
            }
  }
}

/* ---------------------------------------------------------------------------------------------------- segments */

static void open_windows(walk *w, segment *s, const falt_direct_windows *windows) {
  const falt_direct_plan *plan = w->plan;
  const falt_rows *rows = &plan->rows;
  const falt_axis *axis = &rows->axis[2];
  for (int64_t c = 0; c < plan->x_classes; c++) {
    int64_t taps = falt_ceil_div(rows->taps[2] - c, plan->x_classes);
    int64_t first = s->begin * axis->stride + c * axis->dilation - axis->pad[0];
    int64_t count = s->end - s->begin + (taps - 1) * (plan->step / rows->pixel);
    char *memory = w->scratch + windows->at + (size_t)c * windows->one.total;
    falt_row_window_open(&s->windows[c], rows, first, axis->stride, count, plan->depth, plan->height, memory,
                         memory + windows->slots);
  }
}

static void open_in_place(walk *w, segment *s) {
  const falt_rows *rows = &w->plan->rows;
  int64_t count = s->end - s->begin + (rows->taps[2] - 1) * rows->axis[2].dilation;
  s->shift = (s->begin - rows->axis[2].pad[0]) * rows->pixel * (int64_t)rows->lane_size;
  const falt_direct_windows *constant = &w->plan->scratch.constant;
  falt_row_window_open(s->windows, rows, 0, 1, count, 0, 0, NULL, w->scratch + constant->at + constant->slots);
}

static void add_segment(walk *w, int64_t begin, int64_t end, bool in_place, const falt_direct_windows *placed) {
  if (begin >= end) return;
  falt_row_window *windows = (falt_row_window *)(void *)(w->scratch + w->plan->scratch.windows);
  segment *s = &w->segments[w->segment_count];
  *s = (segment){begin, end, in_place, 0, windows + w->segment_count * w->plan->x_classes};
  w->segment_count++;
  if (in_place)
    open_in_place(w, s);
  else
    open_windows(w, s, placed);
}

static void cut(walk *w) {
  const falt_direct_plan *plan = w->plan;
  int64_t low = w->task.begin[2], high = w->task.end[2];
  int64_t begin = falt_min(falt_max(plan->begin, low), high), end = falt_max(begin, falt_min(plan->end, high));
  if (begin == end) begin = end = high;
  add_segment(w, low, begin, false, &plan->scratch.left);
  add_segment(w, begin, end, true, NULL);
  add_segment(w, end, high, false, &plan->scratch.right);
}

/* -------------------------------------------------------------------------------------------------------- rows */

/* Rows y, y + in_step, ... of one plane and one class of columns. */
static void list_plane(const walk *w, const segment *s, int64_t z, int64_t y, int64_t x_class, int64_t count,
                       const char **list) {
  const falt_direct_plan *plan = w->plan;
  const falt_rows *rows = &plan->rows;
  if (!s->in_place) {
    falt_row_window_list(&s->windows[x_class], rows, w->input, w->task.slice, z, y, plan->in_step, count,
                         (const void **)list);
    return;
  }
  const char *constant = (const char *)falt_row_window_constant(s->windows, rows) - s->shift;
  falt_rows_sources(rows, w->input, w->task.slice, z, y, plan->in_step, count, constant, (const void **)list);
  for (int64_t t = 0; t < count; t++) list[t] += s->shift;
}

/* The input rows of a band, in the order that the kernels read them; returns the end of the list. */
static const char **list_rows(const walk *w, const segment *s, const falt_direct_part *part, const band *b,
                              const char **list) {
  const falt_direct_plan *plan = w->plan;
  const falt_axis *depth = &plan->rows.axis[0], *height = &plan->rows.axis[1];
  int64_t count = part->r + b->count - 1;
  for (int64_t k = 0; k < plan->rows.taps[0]; k++) {
    int64_t z = b->z * depth->stride + k * depth->dilation - depth->pad[0];
    for (int64_t yc = part->y_class; yc < part->y_class + part->y_classes; yc++) {
      int64_t y = b->y * height->stride + yc * height->dilation - height->pad[0];
      for (int64_t xc = part->x_class; xc < part->x_class + part->x_classes; xc++, list += count)
        list_plane(w, s, z, y, xc, count, list);
    }
  }
  return list;
}

/* The source rows that the next band reads and this one does not: below, or from the top of the next plane. */
static void list_next(const walk *w, const segment *s, const band *b, const char *here, const char **next) {
  const falt_direct_plan *plan = w->plan;
  const falt_rows *rows = &plan->rows;
  const falt_axis *depth = &rows->axis[0], *height = &rows->axis[1];
  bool below = b->y + b->count * plan->out_step < w->task.end[1];
  int64_t z = (b->z + !below) * depth->stride + (rows->taps[0] - 1) * depth->dilation - depth->pad[0];
  int64_t y = (below ? b->y : w->task.begin[1]) * height->stride - height->pad[0];
  if (below) y += (plan->parts[0].r + b->count - 1) * plan->in_step;
  int64_t shift = (s->begin - rows->axis[2].pad[0]) * rows->pixel * (int64_t)rows->lane_size;
  falt_rows_sources(rows, w->input, w->task.slice, z, y, plan->in_step, b->count, here - shift, (const void **)next);
  for (int p = 0; p < b->count; p++) next[p] += shift;
}

/* ------------------------------------------------------------------------------------------------------- bands */

static void call_kernel(const falt_rows *rows, const falt_filter_rows *call) {
  const falt_filter_kernels *kernels = rows->kernels;
  if (call->count == 1)
    falt_filter_single(kernels, rows->lane, call);
  else if (call->count == kernels->tile_rows)
    kernels->tile[rows->lane](call);
  else
    kernels->blocked[rows->lane](call);
}

/* Computes all parts over n positions and adds them. */
static void sum_parts(const walk *w, const band *b, const char **list, void *const *out, int64_t n,
                      const void *const *next) {
  const falt_direct_plan *plan = w->plan;
  const falt_rows *rows = &plan->rows;
  for (int i = 0; i < plan->part_count; i++) {
    const falt_direct_part *part = &plan->parts[i];
    falt_filter_rows call = {.rows = (const void *const *)list,
                             .taps = w->taps + (size_t)part->first_tap * rows->lane_size,
                             .out = out,
                             .n = n * rows->pixel,
                             .planes = (int)part->planes,
                             .r = (int)part->r,
                             .s = (int)part->s,
                             .step = plan->step,
                             .accumulate = i > 0,
                             .stream = plan->stream && rows->out_place && plan->part_count == 1,
                             .count = b->count,
                             .prefetch = next};
    call_kernel(rows, &call);
    list += part->planes * (part->r + b->count - 1);
  }
}

static void advance(const char **list, const char **end, size_t bytes) {
  for (; list < end; list++) *list += bytes;
}

/* The rows of a band from position x on. */
static void list_targets(const walk *w, const band *b, int64_t x, void **list) {
  const falt_rows *rows = &w->plan->rows;
  char *first = falt_rows_target(rows, w->output, w->task.slice, b->z, b->y, x);
  int64_t pitch = w->plan->out_step * rows->out_stride[3] * rows->out_size;
  for (int p = 0; p < b->count; p++) list[p] = first + p * pitch;
}

/* Adds n sums of a row from the scratch to the residual in the output's place. */
static void add_in_place(const walk *w, const float *sums, float *target, int64_t n) {
  const void *residual = target;
  void *out = target;
  falt_layer_finish call = epilogue(w->in_place, w->task.slice);
  call.sums = sums;
  call.out = &out;
  call.residual = &residual;
  call.n = n;
  w->plan->layer.kernels->finish_by_row(&call);
}

/* Sums wait in the scratch, chunk by chunk, and leave through the epilogue. */
static void run_chunks(const walk *w, const segment *s, const band *b, const char **list, const char **list_end) {
  const falt_direct_plan *plan = w->plan;
  const falt_rows *rows = &plan->rows;
  size_t bytes = (size_t)(plan->chunk * rows->pixel) * rows->lane_size;
  void *out[MOST_ROWS], *target[MOST_ROWS];
  for (int p = 0; p < b->count; p++) out[p] = w->scratch + plan->scratch.sums + (size_t)p * bytes;
  for (int64_t x = s->begin; x < s->end; x += plan->chunk, advance(list, list_end, bytes)) {
    int64_t n = falt_min(plan->chunk, s->end - x);
    sum_parts(w, b, list, out, n, NULL);
    list_targets(w, b, x, target);
    for (int p = 0; p < b->count; p++) {
      if (w->in_place)
        add_in_place(w, out[p], target[p], n);
      else
        falt_rows_store(rows, target[p], out[p], n, plan->stream);
    }
  }
}

static void run_whole(const walk *w, const segment *s, const band *b, const char **list) {
  void *out[MOST_ROWS];
  const char *next[MOST_ROWS];
  list_targets(w, b, s->begin, out);
  bool prefetch = w->plan->prefetch && w->plan->rows.in_place && b->count > 1;
  if (prefetch) list_next(w, s, b, list[0], next);
  sum_parts(w, b, list, out, s->end - s->begin, prefetch ? (const void *const *)next : NULL);
}

static void run_band(const walk *w, const band *b) {
  const falt_direct_plan *plan = w->plan;
  const char **list = (const char **)(void *)(w->scratch + plan->scratch.pointers);
  for (int i = 0; i < w->segment_count; i++) {
    const segment *s = &w->segments[i];
    const char **end = list;
    for (int part = 0; part < plan->part_count; part++) end = list_rows(w, s, &plan->parts[part], b, end);
    if (plan->rows.out_place && plan->part_count == 1 && !w->in_place)
      run_whole(w, s, b, list);
    else
      run_chunks(w, s, b, list, end);
  }
}

/* How many of `left` rows the next call computes: by 2.5D blocking, a tile or one. */
static int64_t next_count(const falt_direct_plan *plan, int64_t left) {
  int64_t r = plan->parts[0].r, tile = plan->rows.kernels->tile_rows;
  if (plan->blocked && left >= 2 * r - 1 && left > tile) {
    int64_t count = (left + 1) / r * r - 1;
    if (count != tile) return count;
  }
  return left >= tile ? tile : 1;
}

/* Rows y, y + out_step, ... up to a band of them. */
static void run_rows(const walk *w, int64_t z, int64_t y) {
  const falt_direct_plan *plan = w->plan;
  int64_t step = plan->out_step, left = falt_min(plan->band, falt_ceil_div(w->task.end[1] - y, step));
  int64_t tile = plan->rows.kernels->tile_rows;
  while (left > 0) {
    int64_t count = next_count(plan, left), again = tile - left;
    if (count == 1 && left > 1 && y - again * step >= w->task.begin[1] && !w->in_place) {
      y -= again * step; /* a tile that repeats rows above is cheaper than two rows one by one; in place none may */
      left = count = tile;
    }
    run_band(w, &(band){z, y, (int)count});
    y += count * step;
    left -= count;
  }
}

/* ------------------------------------------------------------------------------------- the epilogue of a layer */

/* Rows [begin, end) of the task's plane z, as one row if they are contiguous in memory. */
static void finish_plane(const execution *e, const walk *w, int64_t z) {
  const falt_direct_plan *plan = e->plan;
  const falt_rows *rows = &plan->rows;
  const falt_tensor *more = &plan->layer.p.residual;
  const int64_t n = w->task.slice / rows->groups, g = w->task.slice % rows->groups, x = w->task.begin[2];
  const int64_t width = w->task.end[2] - x, pitch = more->stride[FALT_H];
  const bool together = rows->out_stride[3] == width && (!plan->layer.p.has_residual || pitch == width);
  const int64_t step = together ? w->task.end[1] - w->task.begin[1] : 1;
  falt_layer_finish call = epilogue(e, w->task.slice);
  call.n = step * width;
  for (int64_t y = w->task.begin[1]; y < w->task.end[1]; y += step) {
    void *out = falt_rows_target(rows, w->output, w->task.slice, z, y, x);
    const void *residual;
    if (plan->layer.p.has_residual) {
      residual = (const float *)e->operands->residual + falt_tensor_at(more, n, g, 0, z, y, x);
      call.residual = &residual;
    }
    call.sums = out;
    call.out = &out;
    plan->layer.kernels->finish_by_row(&call);
  }
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *e = context;
  const falt_direct_plan *plan = e->plan;
  walk w = {.plan = plan, .input = e->operands->input, .output = e->operands->output, .scratch = scratch};
  if (plan->layer.p.has_residual && e->operands->residual == e->operands->output) w.in_place = e;
  w.task = falt_rows_task(&plan->rows, plan->block, index);
  int64_t filter = plan->tap_groups > 1 ? w.task.slice % plan->rows.groups : 0;
  w.taps = e->taps + (size_t)(filter * plan->tap_count) * plan->rows.lane_size;
  cut(&w);
  int64_t rows = plan->band * plan->out_step;
  for (int64_t z = w.task.begin[0]; z < w.task.end[0]; z++) {
    for (int64_t y = w.task.begin[1]; y < w.task.end[1] && !falt_cancelled(); y += rows)
      for (int64_t i = y; i < falt_min(y + plan->out_step, w.task.end[1]); i++) run_rows(&w, z, i);
    if (plan->finishes && !w.in_place) finish_plane(e, &w, z);
  }
}

/* ------------------------------------------------------------------------------------------- the taps of all groups */

enum { PACKED_BY_TASK = 1 << 10 /* taps */ };

typedef struct packing {
  const falt_direct_plan *plan;
  const void *filter;
  char *dense, *packed;
  int64_t groups; /* of a task */
} packing;

static void pack_task(void *context, int64_t index) {
  const packing *p = context;
  const falt_direct_plan *plan = p->plan;
  const size_t bytes = (size_t)plan->tap_count * plan->rows.lane_size;
  const int64_t end = falt_min((index + 1) * p->groups, plan->tap_groups);
  for (int64_t g = index * p->groups; g < end && !falt_cancelled(); g++) {
    char *const dense = p->dense + (size_t)g * bytes;
    falt_problem_taps(&plan->problem, p->filter, g, falt_lane_type(plan->rows.lane), dense);
    pack_taps(plan, dense, p->packed + (size_t)g * bytes);
  }
}

void falt_direct_pack(const falt_direct_plan *plan, const void *filter, char *dense, char *packed) {
  packing p = {plan, filter, dense, packed, falt_max(1, PACKED_BY_TASK / plan->tap_count)};
  falt_parallel_for(plan->base.device->threads, falt_ceil_div(plan->tap_groups, p.groups), pack_task, &p);
}

/* Taps that are given with the execution. */
static const char *pack_now(const falt_direct_plan *plan, const void *filter, char *workspace) {
  falt_direct_pack(plan, filter, workspace + plan->dense, workspace + plan->packed);
  return workspace + plan->packed;
}

void falt_direct_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_direct_plan *plan = (const falt_direct_plan *)base;
  execution e = {.plan = plan, .operands = operands, .taps = plan->taps};
  if (plan->finishes) {
    float *factors = (float *)(void *)((char *)operands->workspace + plan->factors);
    falt_layer_factors(&plan->layer, operands, factors);
    e.factors = factors;
  }
  if (!e.taps) e.taps = pack_now(plan, operands->filter, operands->workspace);
  falt_row_job job = {.run = run_task,
                      .context = &e,
                      .tasks = falt_rows_task_count(&plan->rows, plan->block),
                      .scratch = plan->scratch.parts.total};
  falt_rows_run(base->device, &job, operands->workspace);
}
