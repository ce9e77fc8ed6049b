/* Executes wgrad-pairs: a task owns a block of rows and of columns of dw and a slice of positions. It packs its
 * columns once for a chunk of positions, its rows 32 at a time, and shares nothing with other tasks. */
#include <string.h>

#include "solver/cpu/common/rows.h"
#include "solver/cpu/wgrad/wgrad_pairs.h"

enum {
  ROWS = FALT_TILE_ROWS,
  COLUMNS = FALT_TILES_COLUMNS,
  PIECE = FALT_PAIRS_PIECE,
  MOST = FALT_PAIRS_PIECES * PIECE,
  PAIR_BYTES = 4,
  SQUARE = FALT_PAIRS_SQUARE
};

typedef struct execution {
  const falt_pairs_plan *plan;
  const falt_operands *operands;
  float *partial;
} execution;

/* The sums of a pair of tiles of rows by a panel of columns, of a slice, are a square. */
static float *square_at(const execution *run, int64_t slice, int64_t group, int64_t pair, int64_t panel) {
  const falt_pairs_plan *plan = run->plan;
  const int64_t groups = plan->layer.p.filter.size[FALT_G];
  return run->partial + (((slice * groups + group) * plan->pairs + pair) * plan->panels + panel) * SQUARE;
}

/* ---- outputs out */

static int64_t rows_from(const falt_pairs_plan *plan, int64_t tile) {
  return falt_max(0, falt_min(plan->tile_rows, plan->rows.channels - tile * plan->tile_rows));
}

/* The first tile of a pair, of its tap's tiles. */
static int64_t first_tile(const falt_pairs_plan *plan, int64_t pair) {
  return 2 * (pair % plan->tap_pairs);
}

/* The element of dw of the first row of a pair's tile, and a panel's first column. */
static char *weight_at(const execution *run, int64_t group, int64_t pair, int64_t t, int64_t panel) {
  const falt_pairs_plan *plan = run->plan;
  const falt_tensor *w = &plan->layer.p.filter;
  const int64_t row = (first_tile(plan, pair) + t) * plan->tile_rows;
  const int64_t at = falt_tensor_at(w, 0, group, 0, 0, 0, 0) + falt_layer_tap_at(w, pair / plan->tap_pairs) +
                     row * plan->rows.filter + panel * COLUMNS * plan->columns.filter;
  return (char *)run->operands->filter + at * (int64_t)falt_type_size(w->type);
}

/* A tile's rows, as rows of dw. */
static void store_rows(const execution *run, const float *sums, char *to, int64_t rows, int64_t columns) {
  const falt_pairs_plan *plan = run->plan;
  int64_t at[FALT_TILES_ROWS];
  for (int64_t m = 0; m < rows; m++) at[m] = m * plan->rows.filter;
  plan->kernels->finish(&(falt_tiles_finish){.sums = sums,
                                             .plain = true,
                                             .type = plan->layer.p.filter.type,
                                             .out = to,
                                             .at = at,
                                             .rows = {(int)rows},
                                             .n = (int)columns});
}

/* The same transposed, and where elements of dw have gaps one by one. */
static void store_columns(const execution *run, const float *sums, char *to, int64_t rows, int64_t columns) {
  const falt_pairs_plan *plan = run->plan;
  const size_t size = falt_type_size(plan->layer.p.filter.type);
  const bool adjacent = plan->rows.filter == 1;
  _Alignas(64) float square[SQUARE], narrow[SQUARE];
  int64_t at[FALT_TILES_ROWS];
  plan->outer->transpose(&(falt_transpose){
      .from = sums, .to = square, .from_pitch = COLUMNS, .to_pitch = COLUMNS, .n = rows, .count = columns});
  for (int64_t i = 0; i < columns; i++) at[i] = i * (adjacent ? plan->columns.filter : COLUMNS);
  plan->kernels->finish(&(falt_tiles_finish){.sums = square,
                                             .plain = true,
                                             .type = plan->layer.p.filter.type,
                                             .out = adjacent ? to : (char *)narrow,
                                             .at = at,
                                             .rows = {(int)falt_min(ROWS, columns), (int)falt_max(0, columns - ROWS)},
                                             .n = (int)rows});
  for (int64_t i = 0; i < columns && !adjacent; i++)
    for (int64_t m = 0; m < rows; m++)
      memcpy(to + (i * plan->columns.filter + m * plan->rows.filter) * (int64_t)size,
             (char *)narrow + (size_t)(i * COLUMNS + m) * size, size);
}

/* The sums of a tile of a pair, of a panel. */
static void store_tile(const execution *run, int64_t group, int64_t pair, int64_t t, int64_t panel, const float *sums) {
  const falt_pairs_plan *plan = run->plan;
  const int64_t columns = falt_min(COLUMNS, plan->columns.channels - panel * COLUMNS);
  const int64_t rows = rows_from(plan, first_tile(plan, pair) + t);
  if (rows == 0) return;
  (plan->columns.filter == 1 ? store_rows : store_columns)(run, sums, weight_at(run, group, pair, t, panel), rows,
                                                           columns);
}

static void store_square(const execution *run, int64_t group, int64_t pair, int64_t panel, const float *sums) {
  for (int64_t t = 0; t < 2; t++) store_tile(run, group, pair, t, panel, sums + t * ROWS * COLUMNS);
}

/* ---- operands in */

/* Positions of a chunk that follow each other in memory; `at` is the address of the first in channel 0. */
typedef struct span {
  int64_t m, count;
  const uint16_t *at;
} span;

typedef struct side {
  const falt_pairs_side *by;
  int count; /* of spans */
  span list[MOST];
  const uint16_t *pixels[MOST]; /* of positions, if channels are adjacent; NULL beyond the chunk */
} side;

typedef struct task {
  const execution *run;
  int64_t group, first, count, pieces; /* positions of the chunk, and pieces of them */
  side rows, columns;
  char *row_room, *column_room;
} task;

/* What positions [m, m + n) of the chunk, which are neighbours in memory, read. */
static void add_span(side *s, int64_t m, int64_t n, const uint16_t *at) {
  if (n <= 0) return;
  s->list[s->count++] = (span){m, n, at};
  for (int64_t i = 0; i < n && !s->by->lines; i++) s->pixels[m + i] = at + i * s->by->steps[3];
}

/* The same for n positions from p on, of one line, whose tap may be outside. */
static void add_line(const task *t, side *s, int64_t tap, const falt_layer_point *p, int64_t m, int64_t n,
                     const uint16_t *data) {
  const falt_layer *layer = &t->run->plan->layer;
  const falt_tensor *x = &layer->p.input;
  const falt_axis *axis = &layer->p.axis[2];
  const int64_t *taps = layer->p.filter.size, rest = tap / taps[FALT_W];
  const int64_t d = falt_layer_source(layer, 0, p->at[0], rest / taps[FALT_H]);
  const int64_t h = falt_layer_source(layer, 1, p->at[1], rest % taps[FALT_H]);
  const int64_t w = p->at[2] * axis->stride + tap % taps[FALT_W] * axis->dilation - axis->pad[0];
  if (d < 0 || h < 0) return;
  const int64_t begin = w < 0 ? falt_ceil_div(-w, axis->stride) : 0;
  const int64_t end = w < x->size[FALT_W] ? falt_min(n, (x->size[FALT_W] - 1 - w) / axis->stride + 1) : 0;
  const uint16_t *line = data + p->n * x->stride[FALT_N] + d * x->stride[FALT_D] + h * x->stride[FALT_H];
  add_span(s, m + begin, end - begin, line + (w + begin * axis->stride) * x->stride[FALT_W]);
}

static void find_positions(const task *t, side *s, int64_t tap) {
  const falt_pairs_side *by = s->by;
  const falt_problem *problem = &t->run->plan->layer.p;
  const falt_tensor *tensor = by->is_input ? &problem->input : &problem->output;
  const uint16_t *data = by->is_input ? t->run->operands->input : t->run->operands->output;
  data += falt_tensor_at(tensor, 0, t->group, 0, 0, 0, 0);
  s->count = 0;
  for (int64_t m = 0; m < t->pieces * PIECE && !by->lines; m++) s->pixels[m] = NULL;
  for (int64_t m = 0, n; m < t->count; m += n) {
    const falt_layer_point p = falt_layer_point_at(&t->run->plan->layer, t->first + m);
    n = falt_min(t->count - m, by->together - (t->first + m) % by->together);
    if (by->is_input && t->run->plan->edges)
      add_line(t, s, tap, &p, m, n, data);
    else
      add_span(s, m, n,
               data + p.n * by->steps[0] + p.at[0] * by->steps[1] + p.at[1] * by->steps[2] + p.at[2] * by->steps[3]);
  }
}

/* The addresses of `channel` in the 32 pixels of a piece; zeros beyond the chunk. */
static void place_rows(const side *s, int64_t piece, int64_t channel, const void *rows[PIECE]) {
  static const uint16_t zeros[COLUMNS];
  for (int i = 0; i < PIECE; i++) {
    const uint16_t *pixel = s->pixels[piece * PIECE + i];
    rows[i] = pixel ? pixel + channel : zeros;
  }
}

/* A piece of up to 32 adjacent channels as tiles of pairs of positions. */
static void pack_pairs(const task *t, const side *s, int64_t piece, int64_t channel, int64_t n, char *to) {
  const void *rows[PIECE];
  place_rows(s, piece, channel, rows);
  t->run->plan->kernels->pair(&(falt_tiles_square){rows, to, 0, (int)n});
}

/* Every step-th of n elements. */
static void copy_span(const falt_tiles_kernels *kernels, const uint16_t *from, int64_t step, int64_t n, uint16_t *to) {
  if (step == 1)
    memcpy(to, from, (size_t)n * sizeof *to);
  else if (step < 1 || step > FALT_TILES_MOST_STEP)
    falt_layer_gather((const char *)from, step, n, sizeof *to, (char *)to);
  else
    for (int64_t i = 0; i < n; i += PIECE)
      kernels->gather((const char *)(from + i * step), step, (int)falt_min(PIECE, n - i), (char *)(to + i));
}

/* Lines of positions: channels in place if the chunk is a span of whole multiples, else copies with zeros behind. */
typedef struct lines {
  const char *at;
  int64_t pitch;
} lines;

static lines bring_lines(const task *t, const side *s, int64_t channel, int64_t n, int64_t rows, int64_t multiple,
                         char *room) {
  const falt_pairs_side *by = s->by;
  const int64_t pitch = t->pieces * PIECE;
  uint16_t *to = (uint16_t *)(void *)room;
  const bool whole = s->count == 1 && s->list[0].count == t->count;
  if (whole && n == rows && by->steps[3] == 1 && t->count % multiple == 0)
    return (lines){(const char *)(s->list[0].at + channel * by->channel), by->channel * 2};
  for (int64_t c = 0; c < n; c++, to += pitch) {
    memset(to, 0, (size_t)pitch * sizeof *to);
    for (int i = 0; i < s->count; i++)
      copy_span(t->run->plan->kernels, s->list[i].at + (channel + c) * by->channel, by->steps[3], s->list[i].count,
                to + s->list[i].m);
  }
  memset(to, 0, (size_t)((rows - n) * pitch) * sizeof *to);
  return (lines){room, pitch * 2};
}

/* A panel of columns from positions that are adjacent. */
static void cross_panel(const task *t, int64_t channel, int64_t n, char *to) {
  const falt_pairs_plan *plan = t->run->plan;
  const lines from = bring_lines(t, &t->columns, channel, n, n, PIECE, t->row_room);
  for (int64_t piece = 0; piece < t->pieces; piece++, to += falt_ceil_div(n, ROWS) * FALT_TILE) {
    const void *rows[COLUMNS];
    for (int64_t c = 0; c < n; c++) rows[c] = from.at + c * from.pitch + piece * FALT_TILE_BYTES;
    plan->kernels->cross(&(falt_tiles_square){rows, to, 0, (int)n});
  }
}

/* The pixels of a piece, at channels that are read next. */
static void fetch_piece(const side *s, int64_t piece, int64_t channel) {
  for (int i = 0; i < PIECE; i++) {
    const uint16_t *pixel = s->pixels[piece * PIECE + i];
    if (pixel) __builtin_prefetch(pixel + channel);
  }
}

/* A block's panels of columns, tiles of pairs of positions. Adjacent channels are read in the order of memory. */
static void pack_columns(const task *t, int64_t begin, int64_t end) {
  const falt_pairs_plan *plan = t->run->plan;
  const bool by_lines = plan->columns.lines;
  for (int64_t piece = 0; piece < (by_lines ? 1 : t->pieces); piece++)
    for (int64_t panel = begin; panel < end; panel++) {
      const int64_t channel = panel * COLUMNS, n = falt_min(COLUMNS, plan->columns.channels - channel);
      char *to = t->column_room + (panel - begin) * t->pieces * 2 * FALT_TILE;
      if (!by_lines && piece + 1 < t->pieces) fetch_piece(&t->columns, piece + 1, channel);
      if (by_lines)
        cross_panel(t, channel, n, to);
      else
        pack_pairs(t, &t->columns, piece, channel, n, to + piece * falt_ceil_div(n, ROWS) * FALT_TILE);
    }
}

/* Packs rows of a piece. Vectors take the format of the columns: pairs of positions. A matrix unit takes the positions
 * of each channel in a row. */
static void pack_rows(const task *t, int64_t piece, int64_t channel, int64_t n, char *to) {
  const void *rows[PIECE];
  if (!t->run->plan->matrix) {
    pack_pairs(t, &t->rows, piece, channel, n, to);
    return;
  }
  place_rows(&t->rows, piece, channel, rows);
  t->run->plan->kernels->transpose_rows(&(falt_tiles_square){rows, to, FALT_TILE_BYTES, (int)n});
}

/* The rows of a pair of tiles. */
static void bring_rows(const task *t, int64_t pair, int tiles, falt_tile_rows list[2]) {
  const falt_pairs_plan *plan = t->run->plan;
  const int64_t each = plan->tile_rows, first = first_tile(plan, pair), channel = first * each;
  if (plan->rows.lines) {
    const int64_t n = falt_min(tiles * each, plan->rows.channels - channel);
    const lines from = bring_lines(t, &t->rows, channel, n, tiles * each, plan->matrix ? PIECE : 2, t->row_room);
    for (int i = 0; i < tiles; i++)
      list[i] = (falt_tile_rows){from.at + i * each * from.pitch, from.pitch, FALT_TILE_BYTES};
    return;
  }
  const int together = each == ROWS ? tiles : 1; /* tiles that are packed at once */
  for (int i = 0; i < tiles; i += together) {
    char *to = t->row_room + i * t->pieces * FALT_TILE;
    const int64_t n = rows_from(plan, first + i) + (together > 1 ? rows_from(plan, first + 1) : 0);
    const int64_t next = falt_ceil_div(n, ROWS) * FALT_TILE;
    for (int64_t piece = 0; piece < t->pieces; piece++) pack_rows(t, piece, channel + i * each, n, to + piece * next);
    for (int j = 0; j < together; j++)
      list[i + j] = (falt_tile_rows){to + j * FALT_TILE, plan->matrix ? FALT_TILE_BYTES : PAIR_BYTES, next};
  }
}

/* Fetches the rows of a pair of tiles into the second-level cache: they are too far apart for the hardware. */
static void fetch_rows(const task *t, int64_t pair) {
  enum { LINE = 32 };
  const falt_pairs_plan *plan = t->run->plan;
  const falt_pairs_side *by = &plan->rows;
  const int64_t channel = first_tile(plan, pair) * plan->tile_rows,
                n = falt_min(2 * plan->tile_rows, by->channels - channel);
  if (!by->lines)
    for (int64_t m = 0; m < t->count; m++)
      if (t->rows.pixels[m]) __builtin_prefetch(t->rows.pixels[m] + channel, 0, 2);
  for (int64_t c = channel; by->lines && c < channel + n; c++)
    for (int i = 0; i < t->rows.count; i++) {
      const span *s = &t->rows.list[i];
      for (int64_t m = 0; m < s->count * by->steps[3]; m += LINE) __builtin_prefetch(s->at + c * by->channel + m, 0, 2);
    }
}

/* ---- sums */

/* A pair of a block up to `last` and panels [begin, end), of a slice; adds: to the sums of earlier chunks. */
typedef struct place {
  int64_t slice, pair, last, begin, end;
  bool adds;
} place;

/* Where the sums of a pair of tiles by panels from `begin` on go: into squares, or straight to dw where its elements
 * along the columns are adjacent; else nowhere. */
static falt_tiles_finish target_of(const task *t, int64_t slice, int64_t pair, int64_t begin, int64_t *at) {
  const execution *run = t->run;
  const falt_pairs_plan *plan = run->plan;
  const bool squares = plan->kept;
  for (int i = 0; i < 2; i++)
    for (int m = 0; m < ROWS; m++)
      at[i * ROWS + m] = squares ? (i * ROWS + m) * COLUMNS : (i * plan->tile_rows + m) * plan->rows.filter;
  return (falt_tiles_finish){
      .plain = true,
      .type = squares ? FALT_F32 : plan->layer.p.filter.type,
      .out = squares ? (char *)square_at(run, slice, t->group, pair, begin) : weight_at(run, t->group, pair, 0, begin),
      .at = at,
      .rows = {(int)rows_from(plan, first_tile(plan, pair)), (int)rows_from(plan, first_tile(plan, pair) + 1)}};
}

/* A pair of tiles of rows by a block of panels. */
static void multiply(const task *t, const place *at) {
  const falt_pairs_plan *plan = t->run->plan;
  const bool straight = plan->kept || plan->columns.filter == 1;
  _Alignas(64) float room[2 * SQUARE];
  falt_tile_rows list[2];
  int64_t rows[FALT_TILES_ROWS];
  falt_tiles_flow flow = {.sums = room};
  falt_tiles_finish finish = target_of(t, at->slice, at->pair, at->begin, rows);
  finish.adds = at->adds;
  falt_tiles_product call = {.kind = FALT_TILES_BF16,
                             .a = list,
                             .b = t->column_room,
                             .panels = straight ? at->end - at->begin : 1,
                             .pitch = t->pieces * 2 * FALT_TILE,
                             .segments = 1,
                             .pieces = t->pieces,
                             .groups = (int)falt_ceil_div(t->count - (t->pieces - 1) * PIECE, 2),
                             .distance = plan->rows.lines ? PAIR_BYTES : FALT_TILE_BYTES,
                             .tiles = (int)falt_min(2, plan->tiles - first_tile(plan, at->pair)),
                             .rows = (int)plan->tile_rows,
                             .columns = falt_min(plan->columns.channels, at->end * COLUMNS) - at->begin * COLUMNS,
                             .apart = plan->kept ? SQUARE : COLUMNS,
                             .finish = straight ? &finish : NULL};
  bring_rows(t, at->pair, call.tiles, list);
  if (at->pair + 1 < at->last && (at->pair + 1) % plan->tap_pairs > 0) fetch_rows(t, at->pair + 1);
  for (int64_t panel = at->begin; panel < at->end;
       panel += call.panels, call.b += call.pitch, call.columns -= COLUMNS) {
    plan->kernels->product(&call, &flow);
    if (!straight) store_square(t->run, t->group, at->pair, panel, room);
  }
  plan->kernels->flush(&flow);
}

/* A part of a group's dw: the pairs and panels of a block of each. */
typedef struct part {
  int64_t group, first_pair, last_pair, first_panel, last_panel;
} part;

static int64_t part_count(const falt_pairs_plan *plan) {
  return plan->layer.p.filter.size[FALT_G] * plan->blocks[0].count * plan->blocks[1].count;
}

static part part_at(const falt_pairs_plan *plan, int64_t index) {
  const falt_layer_pieces *across = &plan->blocks[0], *along = &plan->blocks[1];
  const int64_t block = index % across->count, rest = index / across->count, panels = rest % along->count;
  return (part){rest / along->count, falt_layer_piece(across, block), falt_layer_piece(across, block + 1),
                falt_layer_piece(along, panels), falt_layer_piece(along, panels + 1)};
}

/* Stores the sums of a task that has all positions. */
static void store_part(const execution *run, const part *own) {
  for (int64_t pair = own->first_pair; pair < own->last_pair; pair++)
    for (int64_t panel = own->first_panel; panel < own->last_panel; panel++)
      store_square(run, own->group, pair, panel, square_at(run, 0, own->group, pair, panel));
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const falt_pairs_plan *plan = run->plan;
  const int64_t slice = index % plan->slices.count;
  const part own = part_at(plan, index / plan->slices.count);
  const int64_t first = falt_layer_piece(&plan->slices, slice), last = falt_layer_piece(&plan->slices, slice + 1);
  place at = {.slice = slice, .last = own.last_pair, .begin = own.first_panel, .end = own.last_panel};
  task t; /* of several pages, which are not cleared */
  t.run = run;
  t.group = own.group;
  t.rows.by = &plan->rows;
  t.columns.by = &plan->columns;
  t.row_room = (char *)scratch + plan->at.rows;
  t.column_room = (char *)scratch + plan->at.columns;
  plan->kernels->open((int)plan->tile_rows);
  for (int64_t piece = first; piece < last && !falt_cancelled(); piece += t.pieces) {
    t.pieces = falt_min(FALT_PAIRS_PIECES, last - piece);
    t.first = piece * PIECE;
    t.count = falt_min(t.pieces * PIECE, plan->layer.positions - t.first);
    find_positions(&t, &t.columns, 0);
    pack_columns(&t, at.begin, at.end);
    at.adds = piece > first;
    for (at.pair = own.first_pair; at.pair < at.last && !falt_cancelled(); at.pair++) {
      if (at.pair == own.first_pair || at.pair % plan->tap_pairs == 0)
        find_positions(&t, &t.rows, at.pair / plan->tap_pairs);
      multiply(&t, &at);
    }
  }
  plan->kernels->close();
  if (plan->kept && plan->slices.count == 1 && !falt_cancelled()) store_part(run, &own);
}

/* Tiles of the largest part. */
static int64_t most_tiles(const falt_pairs_plan *plan) {
  return 2 * falt_layer_most(&plan->blocks[0]) * falt_layer_most(&plan->blocks[1]);
}

/* Adds the slices of a tile of rows by a panel, in order, and stores them. The tiles of a part are neighbours: most of
 * them are added by the threads that have multiplied them. */
static void join(void *context, int64_t index) {
  const execution *run = context;
  const falt_pairs_plan *plan = run->plan;
  const part own = part_at(plan, index / most_tiles(plan));
  const int64_t tile = index % most_tiles(plan), panels = own.last_panel - own.first_panel;
  const int64_t pair = own.first_pair + tile / 2 / panels, panel = own.first_panel + tile / 2 % panels, t = tile % 2;
  _Alignas(64) float sums[ROWS * COLUMNS];
  int64_t at[ROWS];
  if (pair >= own.last_pair || first_tile(plan, pair) + t >= plan->tiles) return;
  for (int m = 0; m < ROWS; m++) at[m] = m * COLUMNS;
  memcpy(sums, square_at(run, 0, own.group, pair, panel) + t * ROWS * COLUMNS, sizeof sums);
  for (int64_t slice = 1; slice < plan->slices.count; slice++)
    plan->kernels->finish(
        &(falt_tiles_finish){.sums = square_at(run, slice, own.group, pair, panel) + t * ROWS * COLUMNS,
                             .plain = true,
                             .adds = true,
                             .type = FALT_F32,
                             .out = (char *)sums,
                             .at = at,
                             .rows = {(int)plan->tile_rows},
                             .n = (int)falt_min(COLUMNS, plan->columns.channels - panel * COLUMNS)});
  store_tile(run, own.group, pair, t, panel, sums);
}

void falt_pairs_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_pairs_plan *plan = (const falt_pairs_plan *)base;
  execution run = {plan, operands, (float *)(void *)((char *)operands->workspace + plan->partial)};
  const falt_row_job job = {run_task, &run, part_count(plan) * plan->slices.count, plan->at.parts.total};
  falt_rows_run(base->device, &job, operands->workspace);
  if (plan->slices.count > 1 && !falt_cancelled())
    falt_parallel_for(base->device->threads, part_count(plan) * most_tiles(plan), join, &run);
}
