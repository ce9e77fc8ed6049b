/* A sum of separable terms applied in one pass: layout of a worker's scratch, the passes, the walk over a task. */
#include "solver/cpu/filter/separable_rows.h"

#include <string.h>

#include "solver/cpu/common/arena.h"

enum { MAX_LINES = 16, TILES = 4 };

/* Positions first, first + step, ... of the input's x axis, at position `at` of a row of this strip. */
typedef struct piece {
  bool raw; /* read where it lies */
  int64_t first, step, count, at;
  falt_row_window window; /* unless raw */
} piece;

/* Elements beyond the ends of the input, filled after the first pass: element begin + i is element from[i] of the same
 * row, or what the pass makes of the constant where that is negative. */
typedef struct row_end {
  int64_t begin, count;
  int32_t *from;
} row_end;

/* One worker on one task. */
typedef struct strip {
  const falt_separable *how;
  const falt_operands *io;
  falt_row_task task;
  piece *pieces;
  row_end ends[2];
  int64_t positions; /* of a row: all pieces and ends */
  size_t pitch;      /* bytes of a row */
  const char *base;  /* position (0, 0, 0) of the slice */
  char *constant;    /* a row of it, for raw pieces */
  char *columns;     /* `lines` rows after the pass along y */
  char *sums;        /* `lines` rows after the pass along x */
  char *ring;        /* rows after the pass along z, by group, plane, y modulo the ring */
  int64_t *tags;     /* which y a slot of the ring holds */
  int64_t z, made_z; /* output planes that the ring holds */
  const void **table[3];
} strip;

/* -------------------------------------------------------------------------------------------------------- layout */

/* Piece k of the rows behind outputs [begin, end). */
static piece cut(const falt_separable *how, int64_t begin, int64_t end, int64_t k) {
  const falt_rows *rows = &how->rows;
  const falt_axis *axis = &rows->axis[2];
  return (piece){.first = begin * axis->stride - axis->pad[0] + k * axis->dilation,
                 .step = axis->stride,
                 .count = end - begin + (rows->taps[2] - 1 - k) / how->period * how->advance};
}

int64_t falt_separable_span(const falt_rows *rows, int axis, int64_t made) {
  return (made - 1) * rows->axis[axis].stride + (rows->taps[axis] - 1) * rows->axis[axis].dilation + 1;
}

/* Where the elements of one end come from, if all of them come from positions [low, high) of the input. */
static bool find_end(const strip *s, row_end *end, int64_t first, int64_t low, int64_t high, const piece *whole) {
  const falt_rows *rows = &s->how->rows;
  for (int64_t i = 0; i < end->count / rows->pixel; i++) {
    const int64_t from = falt_axis_map(&rows->axis[2], rows->in[2], first + i);
    if (from >= 0 && (from < low || from >= high)) return false;
    for (int64_t c = 0; c < rows->pixel && end->from; c++)
      end->from[i * rows->pixel + c] = from < 0 ? -1 : (int32_t)((from - whole->first) * rows->pixel + c);
  }
  return true;
}

/* Reduces a piece of all positions to those inside the input, if the ends can be made from them. */
static void trim(strip *s, piece *part, falt_arena *memory) {
  const falt_rows *rows = &s->how->rows;
  const piece whole = *part;
  const int64_t past = whole.first + whole.count;
  const int64_t low = falt_min(falt_max(0, whole.first), past), high = falt_max(low, falt_min(rows->in[2], past));
  row_end ends[2] = {{0, (low - whole.first) * rows->pixel, NULL},
                     {(high - whole.first) * rows->pixel, (past - high) * rows->pixel, NULL}};
  for (int i = 0; i < 2; i++) ends[i].from = falt_arena_take(memory, (size_t)ends[i].count * sizeof *ends[i].from);
  if (low == high || !find_end(s, &ends[0], whole.first, low, high, &whole) ||
      !find_end(s, &ends[1], high, low, high, &whole))
    return;
  memcpy(s->ends, ends, sizeof ends);
  part->raw = rows->in_place;
  part->first = low;
  part->count = high - low;
  part->at = low - whole.first;
}

static void lay_piece(strip *s, piece *part, falt_arena *memory) {
  const falt_rows *rows = &s->how->rows;
  part->at = s->positions;
  s->positions += part->count;
  if (part->step == 1) trim(s, part, memory);
  if (part->raw) {
    s->constant = falt_arena_take(memory, (size_t)(part->count * rows->pixel) * rows->lane_size);
    return;
  }
  const int64_t depth = s->how->has_z ? falt_separable_span(rows, 0, s->how->planes) : 1;
  const int64_t height = s->how->has_z ? 1 : falt_separable_span(rows, 1, s->how->lines);
  void *tags = falt_arena_take(memory, falt_row_window_tags(depth, height));
  void *slots = falt_arena_take(memory, falt_row_window_slots(rows, part->count, depth, height));
  if (!slots) return;
  falt_row_window_open(&part->window, rows, part->first, part->step, part->count, depth, height, tags, slots);
}

/* Room for a kernel to read lines beyond the end, and an odd number of cache lines, so that equal columns of
 * neighbouring rows do not compete for one set of the cache. */
static size_t row_pitch(int64_t elements, size_t size) {
  const int64_t lines = falt_ceil_div(elements * (int64_t)size + FALT_FILTER_ALONG_BEYOND, FALT_ALIGN);
  return (size_t)(lines | 1) * FALT_ALIGN;
}

/* Lines that leave together, and of which sums are kept: one, or a tile's where the kernel along x is the tile. */
static int64_t group_of(const falt_separable *how) {
  return how->along ? 1 : how->rows.kernels->tile_rows;
}
static int64_t kept_sums(const falt_separable *how) {
  return how->factors.terms == 1 ? group_of(how) : how->lines;
}

/* Divides a worker's scratch for its task. Without memory (base NULL) only counts. */
static void lay_out(strip *s, falt_arena *memory) {
  const falt_separable *how = s->how;
  const falt_rows *rows = &how->rows;
  s->pieces = falt_arena_take(memory, (size_t)how->period * sizeof *s->pieces);
  for (int64_t k = 0; k < how->period; k++) {
    piece part = cut(how, s->task.begin[2], s->task.end[2], k);
    lay_piece(s, &part, memory);
    if (s->pieces) s->pieces[k] = part;
  }
  s->pitch = row_pitch(s->positions * rows->pixel, rows->lane_size);
  const size_t lines = (size_t)how->lines;
  s->columns = falt_arena_take(memory, lines * s->pitch);
  s->sums = falt_arena_take(
      memory, (size_t)kept_sums(how) * row_pitch((s->task.end[2] - s->task.begin[2]) * rows->pixel, rows->lane_size));
  for (int axis = 0; axis < 3; axis++)
    s->table[axis] = falt_arena_take(memory, (size_t)(rows->taps[axis] + MAX_LINES) * sizeof *s->table[axis]);
  if (!how->has_z) return;
  s->ring = falt_arena_take(memory, (size_t)(how->factors.groups * how->planes * how->ring) * s->pitch);
  s->tags = falt_arena_take(memory, (size_t)how->ring * sizeof *s->tags);
}

/* --------------------------------------------------------------------------------------------- passes along z, y */

/* `made` output rows along an axis from the rows that `row` finds at positions of that axis. */
typedef struct pass {
  int axis;
  const void *taps;
  int64_t first, made; /* first output */
  const void *(*row)(strip *s, const struct pass *p, int64_t position);
  piece *part;   /* of source rows */
  int64_t other; /* source rows: their position along the other axis; rows of the ring: group*planes + plane */
  char *out;
  size_t out_pitch;
  int64_t elements;
} pass;

static const void *term_taps(const falt_separable *how, int term, int axis) {
  return how->taps + (falt_factors_taps(&how->factors, term, axis) - how->factors.taps) * (int64_t)how->rows.lane_size;
}

/* Columns of a chunk: as many as the rows of all its tiles keep in the first cache, in whole blocks of the kernel. */
static int64_t chunk_of(const falt_rows *rows, int64_t count, const pass *p) {
  enum { NEAR = 24 << 10, BLOCK = 384 };
  if (p->made < 2 * rows->kernels->tile_rows) return p->elements;
  return falt_max(1, NEAR / BLOCK / count) * BLOCK / (int64_t)rows->lane_size;
}

/* `made` output rows, a multiple of the tile's, from `count` rows of the table: tile after tile down a chunk. */
static void run_tiles(strip *s, const pass *p, falt_filter_rows call, void **out, int64_t made) {
  const falt_rows *rows = &s->how->rows;
  const void **table = s->table[p->axis];
  const int64_t count = call.r + made - 1, chunk = chunk_of(rows, count, p);
  for (int64_t left = p->elements; left > 0; left -= call.n) {
    call.n = left < 2 * chunk ? left : chunk;
    for (int64_t m = 0; m < made; m += rows->kernels->tile_rows) {
      call.rows = table + m;
      call.out = out + m;
      rows->kernels->tile[rows->lane](&call);
    }
    for (int64_t i = 0; i < count; i++) table[i] = (const char *)table[i] + (size_t)call.n * rows->lane_size;
    for (int64_t m = 0; m < made; m++) out[m] = (char *)out[m] + (size_t)call.n * rows->lane_size;
  }
}

static void run_pass(strip *s, const pass *p) {
  const falt_rows *rows = &s->how->rows;
  const falt_axis *axis = &rows->axis[p->axis];
  const int taps = (int)rows->taps[p->axis];
  const void **table = s->table[p->axis];
  void *out[MAX_LINES];
  for (int64_t m = 0; m < p->made; m++) out[m] = p->out + (size_t)m * p->out_pitch;
  falt_filter_rows call = {.rows = table, .taps = p->taps, .n = p->elements, .planes = 1, .r = taps, .s = 1, .step = 1};
  const int64_t first = p->first * axis->stride - axis->pad[0], tile = rows->kernels->tile_rows;
  const int64_t tiled = axis->stride == axis->dilation ? p->made / tile * tile : 0;
  for (int64_t i = 0; tiled > 0 && i < taps + tiled - 1; i++) table[i] = p->row(s, p, first + i * axis->stride);
  if (tiled > 0) run_tiles(s, p, call, out, tiled);
  for (int64_t m = tiled; m < p->made; m++) {
    for (int i = 0; i < taps; i++) table[i] = p->row(s, p, first + m * axis->stride + i * axis->dilation);
    call.out = out + m;
    rows->kernels->single[rows->lane](&call);
  }
}

/* Index along z or y of the source row at a logical position, or negative for the constant. */
static int64_t index_of(const falt_rows *rows, int axis, int64_t position) {
  if (position >= 0 && position < rows->in[axis]) return position;
  return falt_axis_map(&rows->axis[axis], rows->in[axis], position);
}

static const void *source_row(strip *s, piece *part, int64_t z, int64_t y) {
  const falt_rows *rows = &s->how->rows;
  if (!part->raw) return falt_row_window_get(&part->window, rows, s->io->input, s->task.slice, z, y);
  const int64_t d = index_of(rows, 0, z), h = index_of(rows, 1, y), *stride = rows->in_stride;
  if (d < 0 || h < 0) return s->constant;
  return s->base + (d * stride[2] + h * stride[3] + part->first * stride[4]) * (int64_t)rows->lane_size;
}

static const void *source_along_z(strip *s, const pass *p, int64_t z) {
  return source_row(s, p->part, z, p->other);
}

static const void *source_along_y(strip *s, const pass *p, int64_t y) {
  return source_row(s, p->part, p->other, y);
}

static double pass_constant(const falt_separable *how, const pass *p) {
  const falt_type type = falt_lane_type(how->rows.lane);
  double sum = 0;
  for (int64_t i = 0; i < how->rows.taps[p->axis]; i++) sum += falt_load(p->taps, type, i);
  return sum * how->rows.boundary_value;
}

/* Fills the ends of a row that a pass has made. */
static void extend(const strip *s, char *row, const pass *p) {
  if (s->ends[0].count + s->ends[1].count == 0) return;
  const double constant = pass_constant(s->how, p);
  for (int side = 0; side < 2; side++) {
    const row_end *end = &s->ends[side];
    float *f32 = (float *)(void *)row;
    double *f64 = (double *)(void *)row;
    if (s->how->rows.lane == FALT_LANE_F32)
      for (int64_t i = 0; i < end->count; i++)
        f32[end->begin + i] = end->from[i] < 0 ? (float)constant : f32[end->from[i]];
    else
      for (int64_t i = 0; i < end->count; i++) f64[end->begin + i] = end->from[i] < 0 ? constant : f64[end->from[i]];
  }
}

/* The same pass over every piece. */
static void run_pieces(strip *s, pass p) {
  const falt_rows *rows = &s->how->rows;
  char *out = p.out;
  for (int64_t k = 0; k < s->how->period; k++) {
    p.part = &s->pieces[k];
    p.out = out + (size_t)(p.part->at * rows->pixel) * rows->lane_size;
    p.elements = p.part->count * rows->pixel;
    run_pass(s, &p);
  }
  for (int64_t m = 0; m < p.made; m++) extend(s, out + (size_t)m * p.out_pitch, &p);
}

/* The pass along z for all groups of terms and all planes at one y. */
static void fill_ring(strip *s, int64_t y, int64_t slot) {
  const falt_separable *how = s->how;
  const falt_factors *factors = &how->factors;
  const size_t plane_pitch = (size_t)how->ring * s->pitch;
  for (int term = 0; term < factors->terms; term++) {
    if (term > 0 && factors->group[term] == factors->group[term - 1]) continue;
    run_pieces(
        s, (pass){.axis = 0,
                  .taps = term_taps(how, term, 0),
                  .first = s->z,
                  .made = s->made_z,
                  .row = source_along_z,
                  .other = y,
                  .out = s->ring + (size_t)(factors->group[term] * how->planes) * plane_pitch + (size_t)slot * s->pitch,
                  .out_pitch = plane_pitch});
  }
  s->tags[slot] = y;
}

static const void *ring_along_y(strip *s, const pass *p, int64_t y) {
  const int64_t rest = y % s->how->ring, slot = rest < 0 ? rest + s->how->ring : rest;
  if (s->tags[slot] != y) fill_ring(s, y, slot);
  return s->ring + (size_t)(p->other * s->how->ring + slot) * s->pitch;
}

/* Columns of one term for output rows [y, y + made) of output plane z. */
static void run_columns(strip *s, int term, int64_t z, int64_t y, int64_t made) {
  const falt_separable *how = s->how;
  const falt_axis *depth = &how->rows.axis[0];
  pass p = {
      .axis = 1, .taps = term_taps(how, term, 1), .first = y, .made = made, .out = s->columns, .out_pitch = s->pitch};
  if (how->has_z) {
    p.row = ring_along_y;
    p.other = how->factors.group[term] * how->planes + (z - s->z);
    p.elements = s->positions * how->rows.pixel;
    run_pass(s, &p);
    return;
  }
  p.row = source_along_y;
  p.other = z * depth->stride - depth->pad[0];
  run_pieces(s, p);
}

/* -------------------------------------------------------------------------------------------------- pass along x */

/* Every tap is a row of its own, since taps of different pieces are not a fixed step apart. */
static void run_row_by_taps(strip *s, falt_filter_rows call, const char *columns, void *const *out) {
  const falt_separable *how = s->how;
  const falt_rows *rows = &how->rows;
  const void **table = s->table[2];
  for (int64_t j = 0; j < rows->taps[2]; j++) {
    const int64_t position = s->pieces[j % how->period].at + j / how->period * how->advance;
    table[j] = columns + (size_t)(position * rows->pixel) * rows->lane_size;
  }
  call.rows = table;
  call.out = out;
  call.r = (int)rows->taps[2];
  call.s = 1;
  rows->kernels->single[rows->lane](&call);
}

/* The rows that the pass along y of the next lines reads besides those of these: the pass along x, which works in the
 * caches, has time to bring them nearer. */
static const void *const *next_rows(strip *s, const void **rows, int64_t z, int64_t y, int64_t made) {
  const falt_axis *axis = &s->how->rows.axis[1], *depth = &s->how->rows.axis[0];
  if (s->how->has_z || !s->pieces[0].raw || axis->stride != axis->dilation) return NULL;
  const int64_t first = (y + made + s->how->rows.taps[1] - 1) * axis->stride - axis->pad[0];
  for (int64_t m = 0; m < made; m++)
    rows[m] = source_row(s, &s->pieces[0], z * depth->stride - depth->pad[0], first + m * axis->stride);
  return rows;
}

/* As many elements as the kernel along rows takes; the call, its rows and sums become what is left. */
static void run_along(const falt_separable *how, falt_filter_rows *call, int64_t made, const void **columns,
                      void **sums) {
  const int64_t elements = call->n, whole = elements / FALT_FILTER_ALONG_STEP * FALT_FILTER_ALONG_STEP;
  call->n = whole;
  how->along(call, (int)made);
  for (int64_t m = 0; m < made; m++) {
    columns[m] = (const char *)columns[m] + (size_t)whole * how->rows.lane_size;
    sums[m] = (char *)sums[m] + (size_t)whole * how->rows.lane_size;
  }
  call->n = elements - whole;
  call->prefetch = NULL;
}

/* Lines [first, first + made) of the columns, made at most a tile's. */
static void run_x(strip *s, int term, int64_t first, int64_t made, void *const *out, const void *const *prefetch,
                  bool stream) {
  const falt_separable *how = s->how;
  const falt_rows *rows = &how->rows;
  const void *columns[MAX_LINES];
  void *sums[MAX_LINES];
  for (int64_t m = 0; m < made; m++) {
    columns[m] = s->columns + (size_t)(first + m) * s->pitch;
    sums[m] = out[first + m];
  }
  const int64_t elements = (s->task.end[2] - s->task.begin[2]) * rows->pixel;
  falt_filter_rows call = {.rows = columns,
                           .taps = term_taps(how, term, 2),
                           .out = sums,
                           .n = elements,
                           .planes = 1,
                           .r = 1,
                           .s = (int)rows->taps[2],
                           .step = how->advance * rows->pixel,
                           .accumulate = term > 0,
                           .stream = stream,
                           .prefetch = prefetch ? prefetch + first : NULL};
  if (how->along) run_along(how, &call, made, columns, sums);
  if (call.n == 0) return;
  if (how->period == 1 && made == rows->kernels->tile_rows) {
    rows->kernels->tile[rows->lane](&call);
    return;
  }
  for (int64_t m = 0; m < made; m++) {
    call.rows = columns + m;
    call.out = sums + m;
    if (how->period == 1)
      rows->kernels->single[rows->lane](&call);
    else
      run_row_by_taps(s, call, columns[m], sums + m);
  }
}

/* Output rows [y, y + made) of plane z. What leaves by the epilogue does so line by line, while it is near. */
static void run_lines(strip *s, int64_t z, int64_t y, int64_t made) {
  const falt_separable *how = s->how;
  const falt_rows *rows = &how->rows;
  const int64_t width = s->task.end[2] - s->task.begin[2], group = group_of(how);
  const size_t pitch = row_pitch(width * rows->pixel, rows->lane_size);
  const int last = how->factors.terms - 1;
  const bool in_place = rows->out_place && last == 0;
  void *targets[MAX_LINES], *sums[MAX_LINES];
  for (int64_t m = 0; m < made; m++) {
    targets[m] = falt_rows_target(rows, s->io->output, s->task.slice, z, y + m, s->task.begin[2]);
    sums[m] = in_place ? targets[m] : s->sums + (size_t)(m % kept_sums(how)) * pitch;
  }
  const void *rows_ahead[MAX_LINES], *const *prefetch = next_rows(s, rows_ahead, z, y, made);
  for (int term = 0; term <= last; term++) {
    run_columns(s, term, z, y, made);
    for (int64_t m = 0; m < made; m += group) {
      const int64_t count = falt_min(group, made - m);
      run_x(s, term, m, count, sums, prefetch, in_place && how->stream);
      for (int64_t i = m; i < m + count && term == last && !in_place; i++)
        falt_rows_store(rows, targets[i], sums[i], width, how->stream);
    }
  }
}

/* ------------------------------------------------------------------------------------------------------- execute */

typedef struct run {
  const falt_separable *how;
  const falt_operands *io;
} run;

static void run_task(void *context, int64_t index, void *scratch) {
  const run *r = context;
  const falt_separable *how = r->how;
  const falt_rows *rows = &how->rows;
  strip s = {.how = how, .io = r->io, .task = falt_rows_task(rows, how->block, index)};
  falt_arena memory = {scratch, 0};
  lay_out(&s, &memory);
  s.base = falt_rows_source(rows, r->io->input, s.task.slice, 0, 0);
  if (s.constant) falt_rows_load(rows, NULL, 0, 1, s.pieces[0].count, s.constant);
  for (s.z = s.task.begin[0]; s.z < s.task.end[0]; s.z += how->planes) {
    s.made_z = falt_min(how->planes, s.task.end[0] - s.z);
    for (int64_t i = 0; i < how->ring; i++) s.tags[i] = INT64_MIN;
    for (int64_t y = s.task.begin[1]; y < s.task.end[1] && !falt_cancelled(); y += how->lines)
      for (int64_t z = s.z; z < s.z + s.made_z; z++) run_lines(&s, z, y, falt_min(how->lines, s.task.end[1] - y));
  }
  falt_arena_close(&memory);
}

void falt_separable_run(const falt_separable *how, const falt_device *device, const falt_operands *operands) {
  run context = {how, operands};
  const falt_row_job job = {run_task, &context, falt_rows_task_count(&how->rows, how->block), how->scratch.total};
  falt_rows_run(device, &job, operands->workspace);
}

/* -------------------------------------------------------------------------------------------------------- set up */

size_t falt_separable_scratch(const falt_separable *how) {
  const int64_t width = how->rows.out[2];
  size_t most = 0;
  for (int64_t x = 0; x < width; x += how->block[2]) {
    strip s = {.how = how, .task = {.begin = {0, 0, x}, .end = {1, 1, falt_min(width, x + how->block[2])}}};
    falt_arena memory = {NULL, 0};
    lay_out(&s, &memory);
    if (memory.used > most) most = memory.used;
  }
  return most;
}

/* The factors as the lane's type. Without a pass along z its single tap goes to x. */
static bool pack(falt_separable *how) {
  const falt_factors *factors = &how->factors;
  const int64_t *size = factors->size, count = factors->terms * (size[0] + size[1] + size[2]);
  how->taps = falt_alloc((size_t)count * how->rows.lane_size);
  if (!how->taps) return false;
  for (int term = 0; term < factors->terms && !how->has_z; term++)
    for (int64_t j = 0; j < size[2]; j++)
      falt_factors_taps(factors, term, 2)[j] *= falt_factors_taps(factors, term, 0)[0];
  const falt_type type = falt_lane_type(how->rows.lane);
  for (int64_t i = 0; i < count; i++) falt_store(how->taps, type, i, factors->taps[i]);
  return true;
}

bool falt_separable_init(falt_separable *how) {
  const falt_rows *rows = &how->rows;
  const falt_axis *x = &rows->axis[2];
  const int64_t common = falt_gcd(x->stride, x->dilation);
  how->has_z = rows->taps[0] > 1;
  how->lines = falt_min((rows->in_place ? 1 : TILES) * rows->kernels->tile_rows, MAX_LINES);
  how->planes = how->has_z ? rows->kernels->tile_rows : 1;
  how->period = falt_min(x->stride / common, rows->taps[2]);
  how->advance = x->dilation / common;
  how->ring = how->has_z ? falt_separable_span(rows, 1, how->lines) : 0;
  how->along =
      how->period == 1 ? falt_filter_along_for(rows->kernels->isa, rows->lane, how->advance * rows->pixel) : NULL;
  return pack(how);
}

void falt_separable_free(falt_separable *how) {
  falt_factors_free(&how->factors);
  falt_free(how->taps);
}
