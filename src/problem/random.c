/* Random legal problems. A recipe chooses the family of problems. Sizes near the tiles of solvers and all words come
 * from tables of weighted choices. Problems with too much work are made smaller, size by size. The weights limit the
 * mean work and give every solver its share: test_random counts both. */
#include "problem/random.h"

#include <string.h>

enum { TRIES = 1000, LOWERINGS = 200 };

enum {
  FILTERS = 1 << FALT_CORRELATE | 1 << FALT_CONVOLVE,
  FORWARD = 1 << (FALT_FIRST_OPERATION + FALT_FORWARD),
  DATA = 1 << (FALT_FIRST_OPERATION + FALT_BACKWARD_DATA),
  WEIGHTS = 1 << (FALT_FIRST_OPERATION + FALT_BACKWARD_FILTER),
  LAYERS = FORWARD | DATA | WEIGHTS,
  POOLS = 1 << (FALT_FIRST_OPERATION + FALT_MAXPOOL) | 1 << (FALT_FIRST_OPERATION + FALT_AVGPOOL),
  POOL_GRADIENTS =
      1 << (FALT_FIRST_OPERATION + FALT_BACKWARD_MAXPOOL) | 1 << (FALT_FIRST_OPERATION + FALT_BACKWARD_AVGPOOL)
};

static const falt_recipe recipes[] = {
    /* weight, verbs, channels, window, percent plain, innermost, pooled, bf16 */
    {280, FILTERS, FALT_FEW_CHANNELS, FALT_ANY_WINDOW, 10, 0, 0, 0},
    {40, FILTERS, FALT_FEW_CHANNELS, FALT_USUAL_WINDOW, 50, 0, 0, 0},
    {60, FILTERS, FALT_FEW_CHANNELS, FALT_FLAT_WINDOW, 40, 0, 0, 0},
    {75, FILTERS, FALT_FEW_CHANNELS, FALT_LONG_WINDOW, 30, 0, 0, 0},
    {310, FILTERS, FALT_FEW_CHANNELS, FALT_ROW_WINDOW, 50, 0, 0, 0},
    {270, LAYERS, FALT_FEW_CHANNELS, FALT_ANY_WINDOW, 0, 50, 10, 0},
    {60, FORWARD, FALT_MANY_CHANNELS, FALT_USUAL_WINDOW, 60, 20, 10, 0},
    {260, FORWARD, FALT_MANY_CHANNELS, FALT_SQUARE_WINDOW, 95, 60, 5, 0},
    {70, FORWARD, FALT_TILED, FALT_SQUARE_WINDOW, 70, 60, 5, 0},
    {95, WEIGHTS, FALT_TILED, FALT_SQUARE_WINDOW, 60, 92, 0, 0},
    {200, FORWARD, FALT_MANY_CHANNELS, FALT_USUAL_WINDOW, 60, 75, 5, 80},
    {80, DATA, FALT_MANY_CHANNELS, FALT_USUAL_WINDOW, 60, 40, 0, 0},
    {80, DATA, FALT_MANY_CHANNELS, FALT_USUAL_WINDOW, 70, 10, 0, 70},
    {100, WEIGHTS, FALT_MANY_CHANNELS, FALT_USUAL_WINDOW, 60, 50, 0, 0},
    {310, WEIGHTS, FALT_MANY_CHANNELS, FALT_USUAL_WINDOW, 75, 95, 0, 95},
    {30, FORWARD | WEIGHTS, FALT_FEW_IN, FALT_USUAL_WINDOW, 60, 60, 0, 0},
    {180, DATA, FALT_FEW_IN, FALT_USUAL_WINDOW, 70, 85, 0, 0},
    {35, FORWARD | WEIGHTS, FALT_FEW_OUT, FALT_USUAL_WINDOW, 60, 75, 0, 0},
    {70, LAYERS, FALT_SMALL_GROUPS, FALT_USUAL_WINDOW, 50, 75, 5, 0},
    {75, WEIGHTS, FALT_SMALL_GROUPS, FALT_USUAL_WINDOW, 60, 85, 0, 0},
    {50, LAYERS, FALT_DEPTHWISE, FALT_ANY_WINDOW, 20, 60, 5, 0},
    {250, FORWARD, FALT_WIDE_DEPTHWISE, FALT_SQUARE_WINDOW, 85, 95, 0, 0},
    {110, WEIGHTS, FALT_WIDE_DEPTHWISE, FALT_SQUARE_WINDOW, 85, 95, 0, 0},
    {25, DATA, FALT_WIDE_DEPTHWISE, FALT_SQUARE_WINDOW, 60, 85, 0, 0},
    {20, LAYERS, FALT_DEPTHWISE, FALT_LONG_WINDOW, 50, 60, 0, 0},
    {20, LAYERS, FALT_FEW_CHANNELS, FALT_LONG_WINDOW, 50, 50, 0, 0},
    {60, FORWARD | DATA, FALT_WIDE_DEPTHWISE, FALT_USUAL_WINDOW, 60, 0, 0, 0},
    {35, FILTERS, FALT_BYTES, FALT_USUAL_WINDOW, 50, 0, 0, 0},
    {240, FILTERS, FALT_BYTES, FALT_FLAT_WINDOW, 50, 0, 0, 0},
    {10, FORWARD | WEIGHTS, FALT_FEW_IN, FALT_PATCHES, 80, 80, 0, 0},
    {60, FORWARD, FALT_FEW_CHANNELS, FALT_USUAL_WINDOW, 40, 50, 100, 0},
    {105, POOLS, FALT_FEW_CHANNELS, FALT_ANY_WINDOW, 20, 50, 0, 0},
    {60, POOLS | POOL_GRADIENTS, FALT_MANY_CHANNELS, FALT_ANY_WINDOW, 30, 70, 0, 0},
    {100, POOL_GRADIENTS, FALT_FEW_CHANNELS, FALT_ANY_WINDOW, 20, 50, 0, 0},
};

/* Work that a problem may be: multiply-adds, and elements as so many of them. */
static const falt_odds limits[] = {{560, 20000}, {310, 80000}, {105, 400000}, {22, 2000000}, {3, 12000000}};
static const falt_odds tiled_limits[] = {{2, 200000}, {2, 800000}, {1, 2000000}};

int64_t falt_draw(falt_draft *draft, const falt_odds *table, int count) {
  int64_t sum = 0;
  for (int i = 0; i < count; i++) sum += table[i].weight;
  int64_t left = falt_pick(draft, 0, sum - 1);
  int at = 0;
  while (left >= table[at].weight) left -= table[at++].weight;
  return table[at].value;
}

static const falt_recipe *draw_recipe(falt_draft *draft) {
  enum { COUNT = sizeof recipes / sizeof *recipes };
  falt_odds odds[COUNT];
  for (int i = 0; i < COUNT; i++) odds[i] = (falt_odds){recipes[i].weight, i};
  return &recipes[falt_draw(draft, odds, COUNT)];
}

static int draw_verb(falt_draft *draft) {
  falt_odds odds[FALT_VERB_COUNT];
  for (int i = 0; i < FALT_VERB_COUNT; i++) odds[i] = (falt_odds){(int)(draft->recipe.verbs >> i & 1), i};
  return (int)FALT_DRAW(draft, odds);
}

static void draw(falt_draft *draft) {
  draft->recipe = *draw_recipe(draft);
  draft->plain = falt_percent(draft, draft->recipe.plain);
  falt_line_default(&draft->line);
  draft->line.verb = draw_verb(draft);
  falt_random_sizes(draft);
  falt_random_place(draft);
  falt_random_words(draft);
}

/* Steps by which the reference finds the outputs and taps that meet each input element, axis inside axis: all of an
 * axis where boundaries fold. */
static double searches(const falt_problem *p) {
  double outside = (double)p->input.size[FALT_N] * (double)p->input.size[FALT_G] * (double)p->input.size[FALT_C];
  double steps = 0;
  for (int i = 0; i < 3; i++) {
    const falt_axis *axis = &p->axis[i];
    const bool ends = axis->boundary[0] == FALT_CONSTANT && axis->boundary[1] == FALT_CONSTANT;
    const double taps = (double)p->filter.size[FALT_D + i], pairs = taps * (double)p->output.size[FALT_D + i];
    double inside = 1;
    for (int j = i; j < 3; j++) inside *= (double)p->input.size[FALT_D + j];
    steps += outside * inside * (ends ? 2 * taps : pairs);
    outside *= pairs;
  }
  return steps;
}

/* Elements of the input and of the padding that windows meet: what folds back onto it, what transforms pass over. */
static double spanned(const falt_problem *p) {
  double elements = (double)p->input.size[FALT_N] * (double)p->input.size[FALT_G] * (double)p->input.size[FALT_C];
  for (int i = 0; i < 3; i++) {
    const int64_t steps = (p->output.size[FALT_D + i] - 1) * p->axis[i].stride;
    elements *= (double)(steps + falt_extent(&p->axis[i], p->filter.size[FALT_D + i]));
  }
  return elements;
}

/* Checking costs what the operands' elements and the multiply-adds cost: each element is filled, copied, and compared
 * once a solver if it is a result. Whole numbers below 2^53 as a rule: the same on every machine. */
static double work_of(falt_problem *p) {
  static const double element = 6, result = 24, transformed = 1 / 32.0;
  falt_problem dense = *p; /* the reference multiplies the factors for every tap */
  dense.factors = 0;
  double work = falt_problem_flops(&dense) / (falt_is_pooling(p->operation) ? 1 : 2) * (1 + 2 * p->factors);
  for (falt_operand which = 0; which < FALT_OPERANDS; which++) {
    const falt_tensor *t = falt_problem_tensor(p, which);
    if (!t || (which == FALT_RESIDUAL && !p->has_residual)) continue;
    work += element * (double)falt_tensor_span(t);
  }
  work += transformed * spanned(p); /* taps 1000 apart are a large filter */
  if (falt_problem_result(p) == &p->input) work += searches(p) / 2 + spanned(p);
  return work + result * (double)falt_tensor_count(falt_problem_result(p));
}

/* False if what is drawn is not legal, or does not become small enough. */
static bool build(falt_draft *draft, falt_problem *problem) {
  const bool tiled = draft->recipe.channels == FALT_TILED;
  const double limit = (double)(tiled ? FALT_DRAW(draft, tiled_limits) : FALT_DRAW(draft, limits));
  for (int i = 0; i < LOWERINGS; i++) {
    falt_random_settle(draft);
    if (falt_line_build(&draft->line, problem) != FALT_OK) return false;
    if (work_of(problem) <= limit) return true;
    if (!falt_random_lower(draft)) return false;
  }
  return false;
}

static bool attempt(falt_draft *draft, falt_problem *problem) {
  draw(draft);
  if (!build(draft, problem)) return false;
  falt_problem moved = *problem;
  falt_random_move(draft, &moved);
  if (falt_problem_check(&moved) == FALT_OK) *problem = moved;
  falt_problem_canonical(problem);
  return true;
}

size_t falt_problem_random(uint64_t seed, char *line, size_t size) {
  falt_problem problem;
  falt_draft draft = {.state = seed};
  for (int i = 0; i < TRIES; i++) {
    if (attempt(&draft, &problem)) return falt_problem_print(&problem, &draft.line.budget, line, size);
  }
  falt_problem_default(&problem); /* one element: as good as unreachable, and legal */
  return falt_problem_print(&problem, NULL, line, size);
}
