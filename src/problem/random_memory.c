/* Memory layouts for the tensors of a random problem: pitch, gaps, other orders of the axes, reversed axes, repeated
 * and overlapping elements of inputs, and offsets that leave the first element unaligned. */
#include "problem/random.h"

/* Dense, the axes in a random order. */
static void reorder(falt_draft *d, falt_tensor *t) {
  int order[FALT_DIMS];
  int64_t stride = 1;
  for (int i = 0; i < FALT_DIMS; i++) order[i] = i;
  for (int i = FALT_DIMS - 1; i >= 0; i--) {
    const int64_t other = falt_pick(d, 0, i);
    const int dim = order[other];
    order[other] = order[i];
    t->stride[dim] = stride;
    stride *= t->size[dim];
  }
}

/* Elements apart. */
static void spread(falt_draft *d, falt_tensor *t) {
  const int64_t gap = falt_pick(d, 2, 3);
  for (int dim = 0; dim < FALT_DIMS; dim++) t->stride[dim] *= gap;
}

/* Rows of a larger image: everything outside one dimension steps further. */
static void pitch(falt_draft *d, falt_tensor *t) {
  static const falt_odds more[] = {{10, 1}, {5, 2}, {5, 3}, {8, 4}, {5, 5}, {4, 7}, {6, 8}, {4, 16}, {3, 64}};
  const int64_t dim = falt_pick(d, 0, FALT_DIMS - 1), by = FALT_DRAW(d, more), inner = t->stride[dim];
  if (t->size[dim] == 1 || inner <= 0) return;
  for (int i = 0; i < FALT_DIMS; i++) {
    if (i == dim || t->stride[i] < inner) continue;
    t->stride[i] += by * falt_max(1, t->stride[i] / inner);
  }
  t->stride[dim] += by;
}

static void reverse(falt_draft *d, falt_tensor *t) {
  for (int dim = 0; dim < FALT_DIMS; dim++)
    if (falt_once_in(d, 3)) t->stride[dim] = -t->stride[dim];
}

/* One element for a whole axis. */
static void repeat(falt_draft *d, falt_tensor *t) {
  for (int dim = 0; dim < FALT_DIMS; dim++)
    if (falt_once_in(d, 4)) t->stride[dim] = 0;
}

/* Rows or images that share elements. */
static void overlap(falt_draft *d, falt_tensor *t) {
  const int64_t from = falt_pick(d, 0, FALT_DIMS - 1), to = falt_pick(d, 0, FALT_DIMS - 1);
  t->stride[to] = t->stride[from];
}

typedef void (*mover)(falt_draft *draft, falt_tensor *tensor);

static const struct {
  mover move;
  bool only_read;
} movers[] = {{NULL, false},    {pitch, false}, {spread, false}, {reverse, false},
              {reorder, false}, {repeat, true}, {overlap, true}};
static const falt_odds mover_odds[] = {{20, 0}, {25, 1}, {10, 2}, {20, 3}, {15, 4}, {7, 5}, {4, 6}};

static void move_tensor(falt_draft *d, falt_tensor *t, bool only_read) {
  static const falt_odds offsets[] = {{50, 0}, {20, 1}, {5, 2}, {10, 3}, {3, 4}, {5, 5}, {3, 8}, {3, 17}};
  const int times = falt_once_in(d, 4) ? 2 : 1;
  for (int i = 0; i < times; i++) {
    const int64_t which = FALT_DRAW(d, mover_odds);
    if (movers[which].move && (only_read || !movers[which].only_read)) movers[which].move(d, t);
  }
  t->offset = falt_tensor_lowest_offset(t) + FALT_DRAW(d, offsets);
}

void falt_random_move(falt_draft *d, falt_problem *problem) {
  if (d->plain || !falt_once_in(d, 2)) return;
  for (falt_operand which = 0; which < FALT_OPERANDS; which++) {
    falt_tensor *tensor = falt_problem_tensor(problem, which);
    if (which == FALT_FILTER && problem->factors) continue; /* which lie densely */
    if (tensor && falt_once_in(d, 3)) move_tensor(d, tensor, tensor != falt_problem_result(problem));
  }
}
