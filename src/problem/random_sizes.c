/* Sizes of random problems: one more and one less than the tiles, vectors and blocks of solvers, and what networks and
 * image filters use. */
#include "problem/random.h"

/* Along a row: vectors of 4 to 64 elements, blocks of 6, 7, 12 and 14 positions, rows of 64, 384 and 960. */
static const falt_odds positions[] = {
    {60, 1},  {30, 2},  {30, 3},  {30, 4},  {25, 5},  {25, 6},  {30, 7},   {25, 8},   {25, 9},   {15, 10}, {15, 11},
    {20, 12}, {20, 13}, {25, 14}, {25, 15}, {25, 16}, {25, 17}, {15, 20},  {15, 23},  {15, 24},  {15, 25}, {20, 28},
    {15, 29}, {15, 31}, {20, 32}, {15, 33}, {10, 47}, {12, 48}, {12, 56},  {12, 63},  {15, 64},  {12, 65}, {12, 95},
    {12, 96}, {12, 97}, {8, 112}, {9, 127}, {9, 128}, {9, 129}, {6, 255},  {6, 256},  {6, 257},  {4, 383}, {4, 384},
    {4, 385}, {3, 511}, {3, 512}, {3, 513}, {3, 959}, {3, 961}, {2, 1023}, {2, 1025}, {1, 4097},
};
/* Of signals. */
static const falt_odds lengths[] = {{5, 1000}, {5, 1023}, {5, 1024}, {5, 1025}, {5, 1920},  {4, 1921},
                                    {4, 2047}, {4, 4096}, {4, 4099}, {2, 8191}, {2, 16383}, {2, 16385}};
/* Channels of a group: panels of 4 to 64 columns, blocks of 12 rows, k-blocks of 2 and 4 elements. */
static const falt_odds channels[] = {
    {6, 1},   {6, 2},  {10, 3}, {10, 4},  {5, 5},   {6, 6},   {5, 7},   {12, 8},  {6, 9},   {8, 12},  {5, 14},  {6, 15},
    {14, 16}, {6, 17}, {8, 24}, {4, 28},  {7, 31},  {14, 32}, {7, 33},  {7, 48},  {5, 49},  {5, 63},  {10, 64}, {5, 65},
    {4, 80},  {5, 96}, {3, 97}, {3, 127}, {4, 128}, {3, 129}, {2, 192}, {2, 255}, {2, 256}, {2, 257}, {1, 512},
};
static const falt_odds few_channels[] = {{40, 1}, {20, 2}, {30, 3}, {15, 4}, {6, 5}, {6, 6}, {4, 7}, {5, 8}, {4, 9}};
static const falt_odds group_channels[] = {{10, 1}, {15, 2}, {10, 3},  {20, 4}, {4, 5},  {6, 6},  {3, 7},  {20, 8},
                                           {4, 9},  {3, 12}, {10, 16}, {3, 17}, {3, 24}, {5, 32}, {2, 33}, {2, 64}};
static const falt_odds groups[] = {{15, 1}, {15, 2}, {12, 3}, {12, 4}, {6, 5},  {5, 7},  {12, 8}, {5, 9}, {4, 15},
                                   {8, 16}, {4, 17}, {3, 31}, {8, 32}, {3, 33}, {2, 63}, {3, 64}, {2, 65}};
static const falt_odds depthwise_groups[] = {
    {6, 1},  {6, 2},   {6, 3},   {8, 4},   {6, 5},   {5, 7},   {8, 8},   {6, 9},   {5, 15},  {10, 16}, {6, 17},
    {5, 24}, {6, 31},  {12, 32}, {6, 33},  {5, 47},  {6, 48},  {5, 49},  {6, 63},  {8, 64},  {6, 65},  {5, 96},
    {3, 97}, {4, 127}, {4, 128}, {4, 129}, {3, 144}, {2, 192}, {2, 255}, {2, 257}, {1, 384}, {1, 577}};
static const falt_odds vectors_of_groups[] = {
    {5, 16}, {4, 17}, {2, 24}, {4, 31},  {8, 32},  {4, 33},  {4, 47},  {4, 48},  {3, 49},  {3, 63},  {6, 64},
    {3, 65}, {3, 80}, {4, 96}, {2, 112}, {2, 127}, {2, 128}, {2, 129}, {1, 192}, {1, 255}, {1, 257}, {1, 320}};
static const falt_odds batches[] = {{60, 1}, {15, 2}, {12, 3}, {4, 4},  {3, 5},  {2, 7},  {2, 8}, {2, 9},
                                    {1, 15}, {1, 16}, {1, 17}, {1, 31}, {1, 32}, {1, 33}, {1, 64}};

static const falt_odds taps[] = {{18, 1}, {14, 2}, {26, 3}, {9, 4},  {13, 5}, {5, 6},  {8, 7},
                                 {4, 8},  {4, 9},  {2, 11}, {2, 13}, {2, 15}, {1, 17}, {1, 25}};
static const falt_odds usual_taps[] = {{25, 1}, {50, 3}, {12, 5}, {13, 7}};
static const falt_odds square_taps[] = {{60, 3}, {20, 5}, {20, 7}};
static const falt_odds long_taps[3][14] = {{{10, 63},
                                            {10, 100},
                                            {8, 127},
                                            {8, 128},
                                            {8, 129},
                                            {8, 255},
                                            {8, 257},
                                            {8, 500},
                                            {8, 1000},
                                            {6, 4096},
                                            {3, 10007},
                                            {3, 65537},
                                            {1, 300000},
                                            {1, 1000000}},
                                           {{8, 1},
                                            {8, 2},
                                            {8, 3},
                                            {10, 15},
                                            {8, 16},
                                            {8, 21},
                                            {15, 31},
                                            {8, 32},
                                            {8, 33},
                                            {6, 51},
                                            {6, 63},
                                            {4, 101},
                                            {2, 257},
                                            {1, 1000}},
                                           {{8, 1},
                                            {8, 2},
                                            {8, 3},
                                            {10, 5},
                                            {10, 7},
                                            {8, 8},
                                            {8, 9},
                                            {6, 11},
                                            {6, 13},
                                            {6, 15},
                                            {4, 17},
                                            {3, 25},
                                            {3, 31},
                                            {1, 63}}};
static const falt_odds strides[] = {{45, 1}, {30, 2}, {10, 3}, {6, 4}, {3, 5}, {2, 7}, {1, 8}, {1, 16}, {1, 33}};
static const falt_odds dilations[] = {{40, 1}, {25, 2}, {12, 3}, {6, 4},  {4, 5},   {3, 6},   {3, 8},
                                      {2, 12}, {2, 18}, {1, 36}, {1, 64}, {1, 100}, {1, 1000}};
static const falt_odds pools[] = {{20, 1}, {50, 2}, {20, 3}, {4, 4}, {2, 5}};

/* ---- drawing */

static int64_t draw_taps(falt_draft *d) {
  switch (d->recipe.window) {
    case FALT_USUAL_WINDOW:
      return FALT_DRAW(d, usual_taps);
    case FALT_SQUARE_WINDOW:
      return FALT_DRAW(d, square_taps);
    case FALT_LONG_WINDOW:
      return FALT_DRAW(d, long_taps[d->space - 1]);
    default:
      return FALT_DRAW(d, taps);
  }
}

/* Squares of 3 or 5 taps, or a row of them. */
static void tile_window(falt_draft *d) {
  const int64_t side = falt_once_in(d, 2) ? 3 : 5;
  if (d->space > 2) d->line.taps[0] = 1;
  if (d->space > 1) d->line.taps[1] = falt_once_in(d, 3) ? 1 : side;
  d->line.taps[2] = side;
}

static void keep_one_axis(falt_draft *d) {
  const int64_t axis = falt_pick(d, 3 - d->space, 2);
  for (int i = 0; i < 3; i++) d->line.taps[i] = i == axis ? falt_max(d->line.taps[i], 3) : 1;
}

static void draw_window(falt_draft *d) {
  const bool square = d->plain || d->recipe.window == FALT_SQUARE_WINDOW ||
                      (d->recipe.window == FALT_USUAL_WINDOW && !falt_once_in(d, 3));
  for (int i = 3 - d->space; i < 3; i++)
    d->line.taps[i] =
        square && i > 3 - d->space && d->recipe.window != FALT_LONG_WINDOW ? d->line.taps[i - 1] : draw_taps(d);
  if (d->recipe.channels == FALT_TILED) tile_window(d);
  if (d->recipe.window == FALT_ROW_WINDOW) keep_one_axis(d);
  if (d->recipe.window != FALT_FLAT_WINDOW) return;
  for (int i = 1; i < 3; i++) d->line.taps[i] = falt_max(d->line.taps[i], 3);
}

static void draw_space(falt_draft *d) {
  static const falt_odds spaces[] = {{22, 1}, {60, 2}, {18, 3}};
  d->space =
      d->recipe.window == FALT_FLAT_WINDOW || d->recipe.channels == FALT_WIDE_DEPTHWISE ? 2 : (int)FALT_DRAW(d, spaces);
  if (d->space == 2 && d->recipe.window == FALT_FLAT_WINDOW && falt_once_in(d, 4)) d->space = 3;
  for (int i = 3 - d->space; i < 3; i++) d->line.in[i] = FALT_DRAW(d, positions);
  static const falt_odds tiled[] = {{10, 6}, {10, 11}, {20, 12}, {15, 13}, {20, 16}, {10, 19}, {15, 24}, {5, 37}};
  if (d->recipe.channels == FALT_TILED)
    for (int i = falt_max(1, 3 - d->space); i < 3; i++) d->line.in[i] = FALT_DRAW(d, tiled);
  if (d->space == 1 && falt_once_in(d, 4)) d->line.in[2] = FALT_DRAW(d, lengths);
}

static void draw_filter_planes(falt_draft *d) {
  d->line.n = FALT_DRAW(d, batches);
  const int64_t count = falt_once_in(d, 2) ? 1 : FALT_DRAW(d, few_channels);
  const bool interleaved = falt_once_in(d, 2);
  if (count > 1) *(interleaved ? &d->line.pixel : &d->line.c) = count;
}

static void draw_groups(falt_draft *d) {
  static const falt_odds tiled_channels[] = {{10, 7},  {10, 8},  {20, 16}, {10, 17},
                                             {15, 31}, {20, 32}, {10, 48}, {5, 65}};
  switch (d->recipe.channels) {
    case FALT_FEW_CHANNELS:
      d->in = FALT_DRAW(d, few_channels);
      d->out = FALT_DRAW(d, few_channels);
      if (falt_once_in(d, 3)) d->groups = FALT_DRAW(d, groups);
      break;
    case FALT_MANY_CHANNELS:
      d->in = FALT_DRAW(d, channels);
      d->out = FALT_DRAW(d, channels);
      if (falt_once_in(d, 8)) d->groups = FALT_DRAW(d, groups);
      break;
    case FALT_TILED:
      d->in = FALT_DRAW(d, tiled_channels);
      d->out = FALT_DRAW(d, tiled_channels);
      if (falt_once_in(d, 8)) d->groups = 2;
      break;
    case FALT_FEW_IN:
      d->in = FALT_DRAW(d, few_channels);
      d->out = FALT_DRAW(d, channels);
      break;
    case FALT_FEW_OUT:
      d->in = FALT_DRAW(d, channels);
      d->out = FALT_DRAW(d, few_channels);
      break;
    case FALT_SMALL_GROUPS:
      d->in = FALT_DRAW(d, group_channels);
      d->out = falt_once_in(d, 3) ? FALT_DRAW(d, group_channels) : d->in;
      d->groups = FALT_DRAW(d, groups);
      break;
    case FALT_DEPTHWISE:
      d->out = falt_once_in(d, 4) ? FALT_DRAW(d, few_channels) : 1;
      d->groups = FALT_DRAW(d, depthwise_groups);
      break;
    default:
      d->groups = FALT_DRAW(d, vectors_of_groups);
      break;
  }
}

/* One number for all axes or one for each. */
static void draw_list(falt_draft *d, falt_list *list, const falt_odds *table, int count) {
  list->count = d->space == 1 || d->plain || falt_once_in(d, 2) ? 1 : d->space;
  for (int i = 0; i < list->count; i++) list->value[i] = falt_draw(d, table, count);
}
#define DRAW_LIST(d, list, table) draw_list(d, list, table, (int)(sizeof(table) / sizeof *(table)))

static void draw_steps(falt_draft *d) {
  if (d->recipe.window == FALT_PATCHES) {
    d->line.stride.count = d->space;
    for (int i = 0; i < d->space; i++) d->line.stride.value[i] = d->line.taps[3 - d->space + i];
  } else if (d->recipe.channels != FALT_BYTES && d->recipe.channels != FALT_TILED &&
             falt_once_in(d, d->recipe.channels == FALT_FEW_IN ? 2 : 3)) {
    DRAW_LIST(d, &d->line.stride, strides);
    if (d->plain) d->line.stride.value[0] = 2;
  }
  if (!d->plain && d->recipe.channels != FALT_TILED && falt_once_in(d, 4)) DRAW_LIST(d, &d->line.dilation, dilations);
  if (falt_percent(d, d->recipe.pooled) && d->line.verb == FALT_FIRST_OPERATION + FALT_FORWARD)
    DRAW_LIST(d, &d->line.pool, pools);
}

void falt_random_sizes(falt_draft *d) {
  d->in = d->out = d->groups = 1;
  draw_space(d);
  draw_window(d);
  if (falt_verb_family(d->line.verb) == FALT_OF_FILTERS) {
    draw_filter_planes(d);
  } else {
    d->line.n = FALT_DRAW(d, batches);
    draw_groups(d);
  }
  draw_steps(d);
}

/* ---- what follows from other words */

static int64_t at(const falt_list *list, int axis, int space, int64_t absent) {
  return !list->count ? absent : list->value[list->count == 1 ? 0 : axis - (3 - space)];
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : falt_min(value, high);
}

static void keep_size(falt_draft *d) {
  d->line.pad.count = d->space;
  for (int i = 3 - d->space; i < 3; i++) {
    int64_t *pad = d->line.pad.value[i - (3 - d->space)];
    pad[0] = pad[1] = at(&d->line.dilation, i, d->space, 1) * (d->line.taps[i] - 1) / 2;
  }
}

static void keep_anchor(falt_draft *d) {
  for (int i = 3 - d->space; i < 3; i++) {
    const int j = i - (3 - d->space);
    const int64_t count = d->line.taps[i];
    if (j < d->line.anchor.count) d->line.anchor.value[j] = clamp(d->line.anchor.value[j], 0, count - 1);
    if (j < d->line.origin.count)
      d->line.origin.value[j] = clamp(d->line.origin.value[j], -(count / 2), (count - 1) / 2);
  }
}

void falt_random_settle(falt_draft *d) {
  if (d->same) keep_size(d);
  keep_anchor(d);
  if (falt_verb_family(d->line.verb) == FALT_OF_FILTERS) return;
  d->line.c = d->groups * d->in;
  d->line.k = d->groups * d->out;
  if (falt_verb_family(d->line.verb) == FALT_OF_POOLS) {
    d->line.k = 0;
  } else {
    d->line.groups = d->groups;
  }
}

/* ---- less work */

/* A smaller size, one of the table's as a rule. */
static void lower(falt_draft *d, int64_t *size) {
  int64_t next = FALT_DRAW(d, positions);
  if (next >= *size) next = falt_pick(d, falt_max(1, *size / 2), *size - 1);
  *size = falt_max(next, *size / 4);
}

/* What is lowered: batch, space, channels in, out, groups, planes of filters, taps, out, pads. */
enum { BATCH, SPACE, WIDTH, SUMMED, RESULTS, GROUPS, PLANES, TAPS, OUT, PADS, LOWERED };
static const int lowering[][LOWERED] = {
    [FALT_ANY_WINDOW] = {8, 10, 8, 2, 2, 2, 3, 3, 6, 6},    [FALT_USUAL_WINDOW] = {8, 10, 5, 2, 2, 2, 3, 0, 6, 6},
    [FALT_SQUARE_WINDOW] = {8, 10, 2, 0, 0, 1, 3, 0, 6, 6}, [FALT_LONG_WINDOW] = {8, 10, 8, 6, 6, 6, 6, 1, 6, 6},
    [FALT_FLAT_WINDOW] = {8, 10, 8, 2, 2, 2, 3, 1, 6, 6},   [FALT_ROW_WINDOW] = {8, 10, 8, 2, 2, 2, 3, 1, 6, 6},
    [FALT_PATCHES] = {8, 10, 8, 3, 3, 2, 3, 0, 6, 6},
};

bool falt_random_lower(falt_draft *d) {
  falt_line *l = &d->line;
  const bool is_filter = falt_verb_family(l->verb) == FALT_OF_FILTERS;
  const struct {
    int kind;
    int64_t *size;
  } sizes[] = {{BATCH, &l->n},
               {SPACE, &l->in[0]},
               {SPACE, &l->in[1]},
               {WIDTH, &l->in[2]},
               {SUMMED, &d->in},
               {RESULTS, &d->out},
               {GROUPS, &d->groups},
               {PLANES, is_filter ? &l->c : &l->n},
               {PLANES, &l->pixel},
               {TAPS, &l->taps[0]},
               {TAPS, &l->taps[1]},
               {TAPS, &l->taps[2]},
               {OUT, &l->out.value[0]},
               {OUT, &l->out.value[1]},
               {OUT, &l->out.value[2]},
               {PADS, &l->pad.value[0][0]},
               {PADS, &l->pad.value[1][0]},
               {PADS, &l->pad.value[2][0]},
               {PADS, &l->pad.value[0][1]},
               {PADS, &l->pad.value[1][1]},
               {PADS, &l->pad.value[2][1]}};
  enum { COUNT = sizeof sizes / sizeof *sizes };
  falt_odds odds[COUNT];
  bool any = false;
  for (int i = 0; i < COUNT; i++) {
    odds[i] = (falt_odds){*sizes[i].size > 1 ? lowering[d->recipe.window][sizes[i].kind] : 0, i};
    any |= odds[i].weight > 0;
  }
  if (any) lower(d, sizes[FALT_DRAW(d, odds)].size);
  return any;
}
