/* Words of random problems beside the sizes: where the filter goes, what continues the input, types, layouts, the
 * epilogue, the budget. */
#include "problem/random.h"

#include <math.h>
#include <string.h>

/* ---- where the filter goes */

static void draw_list(falt_draft *d, falt_list *list, int64_t low, int64_t high) {
  list->count = falt_once_in(d, 2) ? 1 : d->space;
  for (int i = 0; i < list->count; i++) list->value[i] = falt_pick(d, low, high);
}

/* Mostly small; past the whole input, or so that windows lie outside; or cropping. */
static int64_t draw_pad(falt_draft *d, int axis) {
  static const falt_odds kinds[] = {{20, 0}, {50, 1}, {8, 2}, {6, 3}, {8, 4}};
  const int64_t in = d->line.in[axis], taps = d->line.taps[axis];
  switch (FALT_DRAW(d, kinds)) {
    case 0:
      return 0;
    case 1:
      return falt_pick(d, 0, 3);
    case 2:
      return falt_pick(d, in, 2 * falt_min(in, 100) + 3);
    case 3:
      return taps + falt_pick(d, 0, 3);
    default:
      return -falt_pick(d, 1, falt_max(1, falt_min(3, in / 3)));
  }
}

static void draw_pads(falt_draft *d) {
  d->line.pad.count = d->space;
  for (int i = 3 - d->space; i < 3; i++) {
    int64_t *pad = d->line.pad.value[i - (3 - d->space)];
    pad[0] = draw_pad(d, i);
    pad[1] = falt_once_in(d, 2) ? pad[0] : draw_pad(d, i);
  }
}

/* Pools must see an element in every window. */
static void draw_pool_pads(falt_draft *d) {
  d->line.pad.count = d->space;
  for (int i = 3 - d->space; i < 3; i++) {
    int64_t *pad = d->line.pad.value[i - (3 - d->space)];
    pad[0] = falt_pick(d, 0, falt_min(3, d->line.taps[i] - 1));
    pad[1] = falt_once_in(d, 2) ? pad[0] : falt_pick(d, 0, falt_min(3, d->line.taps[i] - 1));
  }
}

static void draw_out(falt_draft *d) {
  static const falt_odds sizes[] = {{40, 1}, {10, 2}, {10, 3}, {8, 5},  {8, 7},
                                    {8, 8},  {6, 12}, {6, 16}, {4, 17}, {2, 33}};
  falt_list *out = &d->line.out;
  out->count = falt_once_in(d, 2) ? 1 : d->space;
  for (int i = 0; i < out->count; i++) out->value[i] = FALT_DRAW(d, sizes);
}

static void place_filter(falt_draft *d) {
  enum { SAME, VALID, FULL, ANCHOR, ORIGIN, PAD, OUT };
  static const falt_odds places[] = {{30, SAME},   {14, VALID}, {10, FULL}, {12, ANCHOR},
                                     {10, ORIGIN}, {14, PAD},   {10, OUT}};
  if (d->plain) return;
  switch (FALT_DRAW(d, places)) {
    case VALID:
      d->line.mode = FALT_VALID;
      break;
    case FULL:
      d->line.mode = FALT_FULL;
      break;
    case ANCHOR:
      draw_list(d, &d->line.anchor, 0, 12);
      break;
    case ORIGIN:
      draw_list(d, &d->line.origin, -3, 3);
      break;
    case PAD:
      draw_pads(d);
      break;
    case OUT:
      draw_out(d);
      break;
    default:
      break;
  }
}

static void place_layer(falt_draft *d) {
  const bool patches = d->recipe.window == FALT_PATCHES;
  d->same = patches ? false : d->plain ? !falt_once_in(d, 5) : falt_once_in(d, 3);
  if (d->plain || d->same) return;
  if (!falt_once_in(d, 4)) draw_pads(d);
  if (falt_once_in(d, 7)) draw_out(d);
}

void falt_random_place(falt_draft *d) {
  d->same = false;
  switch (falt_verb_family(d->line.verb)) {
    case FALT_OF_FILTERS:
      place_filter(d);
      break;
    case FALT_OF_LAYERS:
      place_layer(d);
      break;
    default:
      if (falt_once_in(d, 2)) draw_pool_pads(d);
      break;
  }
}

/* ---- beyond the ends */

static void draw_boundaries(falt_draft *d) {
  const bool by_axis = falt_once_in(d, 4);
  falt_boundary before = FALT_CONSTANT, after = FALT_CONSTANT;
  for (int i = 3 - d->space; i < 3; i++) {
    if (by_axis || i == 3 - d->space) {
      before = (falt_boundary)falt_pick(d, 0, FALT_BOUNDARY_COUNT - 1);
      after = falt_once_in(d, 4) ? (falt_boundary)falt_pick(d, 0, FALT_BOUNDARY_COUNT - 1) : before;
    }
    d->line.boundary[i][0] = before;
    d->line.boundary[i][1] = after;
  }
}

/* Numbers as a table of text would have them; eighths. */
static double draw_eighths(falt_draft *d, const falt_odds *table, int count) {
  return (double)falt_draw(d, table, count) / 8;
}

static void draw_boundary(falt_draft *d) {
  static const falt_odds values[] = {{10, -24}, {20, -8}, {20, 8}, {10, 24}, {10, 4}, {2, 2000}, {2, 1}};
  const bool is_filter = falt_verb_family(d->line.verb) == FALT_OF_FILTERS;
  if (!falt_once_in(d, d->plain && is_filter ? 2 : is_filter ? 3 : 5)) {
    if (!d->plain || is_filter) draw_boundaries(d);
  }
  if (!d->plain && falt_once_in(d, 5)) d->line.value = draw_eighths(d, values, sizeof values / sizeof *values);
}

/* ---- types */

static const falt_odds types[] = {{10, FALT_U8},  {9, FALT_S8},    {5, FALT_U16},  {5, FALT_S16}, {5, FALT_S32},
                                  {14, FALT_F16}, {15, FALT_BF16}, {28, FALT_F32}, {9, FALT_F64}};
static const falt_odds float_types[] = {{20, FALT_F16}, {28, FALT_BF16}, {40, FALT_F32}, {12, FALT_F64}};

/* What users combine: input, weights, output (-1: the default). */
static const struct {
  int input, weights, output;
} usual[] = {{FALT_F32, -1, -1},      {FALT_F16, -1, -1},       {FALT_BF16, -1, -1},       {FALT_BF16, -1, FALT_F32},
             {FALT_U8, -1, -1},       {FALT_S8, -1, -1},        {FALT_U8, -1, FALT_U8},    {FALT_S8, -1, FALT_S8},
             {FALT_U8, -1, FALT_F32}, {FALT_F16, -1, FALT_F32}, {FALT_BF16, FALT_F32, -1}, {FALT_U8, FALT_F32, FALT_U8},
             {FALT_F64, -1, -1},      {FALT_S16, -1, -1}};
static const falt_odds usual_odds[] = {{40, 0}, {12, 1}, {18, 2}, {5, 3},  {4, 4},  {4, 5},  {4, 6},
                                       {4, 7},  {2, 8},  {2, 9},  {2, 10}, {2, 11}, {4, 12}, {2, 13}};

static bool is_integer(int type) {
  return falt_type_is_integer((falt_type)type);
}

static void draw_usual_types(falt_draft *d, bool floats) {
  const int64_t i = FALT_DRAW(d, usual_odds);
  d->line.type = usual[i].input;
  d->line.weight_type = usual[i].weights;
  d->line.out_type = usual[i].output;
  if (!floats || !is_integer(d->line.type)) return;
  d->line.type = (int)FALT_DRAW(d, float_types);
  d->line.weight_type = d->line.out_type = -1;
}

/* Any pair of input and weights, any output. */
static void draw_types(falt_draft *d, bool floats) {
  static const falt_odds sums[] = {{4, FALT_F64}, {2, FALT_F32}};
  falt_line *l = &d->line;
  l->type = (int)(floats ? FALT_DRAW(d, float_types) : FALT_DRAW(d, types));
  if (falt_once_in(d, floats ? 3 : 2))
    l->weight_type = (int)(floats ? FALT_DRAW(d, float_types) : falt_pick(d, FALT_U8, FALT_F64));
  if (falt_once_in(d, 2)) l->out_type = (int)(floats ? FALT_DRAW(d, float_types) : FALT_DRAW(d, types));
  if (falt_once_in(d, 10)) l->accumulator = (int)FALT_DRAW(d, sums);
  if (is_integer(l->type) && is_integer(l->weight_type < 0 ? FALT_F32 : l->weight_type) && falt_once_in(d, 4))
    l->accumulator = FALT_S32;
}

/* Bytes, and taps that their dot products take or that only passes along the axes do. */
static void draw_byte_types(falt_draft *d) {
  static const falt_odds outputs[] = {{75, -1}, {10, FALT_S16}, {5, FALT_S32}, {10, FALT_F32}};
  d->line.type = FALT_U8;
  const bool flat = d->recipe.window == FALT_FLAT_WINDOW;
  d->line.weight_type = flat && !falt_once_in(d, 4) ? FALT_F32 : FALT_S8;
  d->line.out_type = (int)FALT_DRAW(d, outputs);
}

static void draw_pool_types(falt_draft *d, bool forward) {
  falt_line *l = &d->line;
  l->type = (int)(forward ? FALT_DRAW(d, types) : FALT_DRAW(d, float_types));
  const bool keeps = is_integer(l->type) && l->verb == FALT_FIRST_OPERATION + FALT_MAXPOOL;
  if (!keeps && falt_once_in(d, 5))
    l->out_type = (int)(is_integer(l->type) ? FALT_DRAW(d, types) : FALT_DRAW(d, float_types));
  if (falt_once_in(d, 3)) l->count_pad = true;
}

/* ---- layouts, epilogue, budget */

static void draw_layout(falt_draft *d, bool weights) {
  d->line.layout = falt_percent(d, d->recipe.inner) ? FALT_NHWC : FALT_NCHW;
  d->line.layout_space = d->line.weight_layout_space = d->space;
  if (weights && falt_once_in(d, 3)) d->line.weight_layout = (int)falt_pick(d, FALT_OIHW, FALT_HWIO);
}

static void draw_activation(falt_draft *d) {
  static const falt_odds bounds[] = {{20, -8}, {10, 0}, {10, -16}, {5, -800}};
  static const falt_odds spans[] = {{20, 16}, {10, 4}, {5, 0}, {5, 1600}};
  static const falt_odds slopes[] = {{10, 2}, {3, -4}, {3, 16}, {3, 0}};
  static const falt_odds usual_acts[] = {{50, FALT_RELU}, {15, FALT_RELU6},  {10, FALT_LEAKY}, {15, FALT_SILU},
                                         {10, FALT_GELU}, {8, FALT_SIGMOID}, {6, FALT_TANH},   {6, FALT_CLIP}};
  falt_line *l = &d->line;
  l->activation = (falt_activation)(d->plain ? FALT_DRAW(d, usual_acts) : falt_pick(d, 1, FALT_ACTIVATION_COUNT - 1));
  if (l->activation == FALT_LEAKY && falt_once_in(d, 2)) l->act_a = draw_eighths(d, slopes, 4);
  if (l->activation != FALT_CLIP) return;
  l->act_a = draw_eighths(d, bounds, 4);
  l->act_b = l->act_a + draw_eighths(d, spans, 4);
}

static void draw_epilogue(falt_draft *d) {
  static const falt_odds factors[] = {{20, 4}, {20, -10}, {10, 1}, {5, 16}, {3, 0}};
  static const falt_odds summands[] = {{10, -32}, {20, -8}, {20, 8}, {10, 32}, {10, 4}, {2, 1600}};
  falt_line *l = &d->line;
  const bool filter = falt_verb_family(l->verb) == FALT_OF_FILTERS, pools = l->pool.count > 0;
  const bool row = d->recipe.window == FALT_ROW_WINDOW; /* for boxes, which take no scale and no bias */
  if (falt_once_in(d, d->plain ? 8 : 4)) l->alpha = draw_eighths(d, factors, 5);
  if (!d->plain && falt_once_in(d, 4)) l->beta = draw_eighths(d, summands, 6);
  if (!(filter && d->plain)) {
    l->scale = falt_once_in(d, row ? 8 : 5);
    l->bias = falt_once_in(d, row ? 8 : d->plain ? 2 : 3);
    l->residual = !pools && falt_once_in(d, 5);
  }
  if (l->residual && !d->plain && falt_once_in(d, 4)) l->residual_type = (int)FALT_DRAW(d, types);
  if (falt_once_in(d, d->plain ? 2 : 3)) draw_activation(d);
}

/* Terms that could be fewer multiply-adds than the taps, and now and then more. Rows have one as a rule: boxes. */
static void draw_rank(falt_draft *d) {
  static const falt_odds ranks[] = {{50, 1}, {25, 2}, {12, 3}, {5, 4}, {2, 9}};
  const bool row = d->recipe.window == FALT_ROW_WINDOW, flat = row || d->recipe.window == FALT_FLAT_WINDOW;
  if (flat ? !falt_once_in(d, row ? 400 : 10) : falt_once_in(d, 12)) d->line.rank = FALT_DRAW(d, ranks);
  if (d->line.rank && d->recipe.channels == FALT_BYTES && falt_once_in(d, 2)) d->line.rank = 1;
  if (d->line.rank && row) d->line.rank = 1;
}

/* In place of a rank, for filters of floating type. */
static void draw_factors(falt_draft *d) {
  static const falt_odds terms[] = {{50, 1}, {30, 2}, {15, 3}, {5, 6}};
  falt_line *l = &d->line;
  const int seldom = d->recipe.window == FALT_FLAT_WINDOW ? 2 : d->recipe.window == FALT_ROW_WINDOW ? 60 : 8;
  if (falt_verb_family(l->verb) != FALT_OF_FILTERS || !falt_once_in(d, seldom)) return;
  l->rank = 0;
  l->factors = d->recipe.channels == FALT_BYTES && falt_once_in(d, 2) ? 1 : FALT_DRAW(d, terms);
  if (l->weight_type >= 0 && is_integer(l->weight_type)) l->weight_type = -1;
  if (l->accumulator == FALT_S32) l->accumulator = -1;
}

static void draw_filter_when(falt_draft *d, int operation) {
  static const falt_odds whens[] = {{1, FALT_FILTER_AUTO}, {1, FALT_FILTER_GIVEN}, {1, FALT_FILTER_KNOWN}};
  if (falt_reads_filter((falt_operation)operation)) d->line.filter_when = (int)FALT_DRAW(d, whens);
  if (d->recipe.channels == FALT_BYTES) d->line.filter_when = FALT_FILTER_KNOWN;
}

static void draw_budget(falt_draft *d) {
  static const falt_odds workspaces[] = {{30, 0}, {10, 64}, {10, 1 << 10}, {10, 1 << 14}, {10, 1 << 17}, {5, 1 << 20}};
  falt_budget *b = &d->line.budget;
  b->deterministic = falt_once_in(d, 16);
  b->allow_tf32 = falt_once_in(d, 20);
  if (falt_once_in(d, 16)) b->max_workspace = FALT_DRAW(d, workspaces);
  const bool may_be_winograd = d->recipe.channels == FALT_MANY_CHANNELS && d->recipe.window == FALT_SQUARE_WINDOW;
  if (d->recipe.channels == FALT_TILED) b->max_error = ldexp(1, -(int)falt_pick(d, 14, 22));
  if (may_be_winograd && !falt_once_in(d, 6)) b->max_error = 0x1p-12; /* few channels have errors beyond rounding */
  b->no_transforms = falt_once_in(d, 64);
}

void falt_random_words(falt_draft *d) {
  const unsigned family = falt_verb_family(d->line.verb);
  const int operation = family == FALT_OF_FILTERS ? FALT_FORWARD : d->line.verb - FALT_FIRST_OPERATION;
  const bool forward = !falt_operations[operation].is_gradient;
  if (family == FALT_OF_POOLS) {
    draw_pool_types(d, forward);
  } else {
    draw_boundary(d);
    if (d->recipe.channels == FALT_BYTES) {
      draw_byte_types(d);
    } else if (d->recipe.channels == FALT_TILED) {
      d->line.type = FALT_F32;
    } else if (falt_percent(d, d->recipe.bf16)) {
      d->line.type = FALT_BF16;
    } else if (d->plain) {
      draw_usual_types(d, !forward);
    } else {
      draw_types(d, !forward);
    }
    draw_rank(d);
  }
  if (family != FALT_OF_FILTERS) draw_layout(d, family == FALT_OF_LAYERS);
  const bool finishes = operation == FALT_FORWARD && d->recipe.channels != FALT_BYTES;
  if (finishes && !falt_once_in(d, family == FALT_OF_FILTERS ? 2 : 3)) draw_epilogue(d);
  if (operation == FALT_BACKWARD_FILTER) d->line.bias = falt_once_in(d, 3);
  draw_budget(d);
  draw_filter_when(d, operation);
  draw_factors(d);
}
