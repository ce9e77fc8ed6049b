/* Relabels the axes of a filter problem so that rows are long and adjacent in memory. Only the strides distinguish the
 * axes, so a column image, a signal along the height, or an array in Fortran order runs like its transpose. */
#include <math.h>

#include "solver/cpu/common/rows.h"

static bool live(const falt_problem *problem, int axis) {
  int dim = FALT_D + axis;
  return problem->input.size[dim] > 1 || problem->output.size[dim] > 1 || problem->filter.size[dim] > 1;
}

/* The distance of neighbours along an axis; infinite if there are none. */
static double spread(const falt_problem *problem, int axis) {
  int dim = FALT_D + axis;
  if (!live(problem, axis)) return INFINITY;
  return fabs((double)problem->input.stride[dim]) + fabs((double)problem->output.stride[dim]);
}

static void relabel(falt_tensor *to, const falt_tensor *from, const int order[3]) {
  for (int i = 0; i < 3; i++) {
    to->size[FALT_D + i] = from->size[FALT_D + order[i]];
    to->stride[FALT_D + i] = from->stride[FALT_D + order[i]];
  }
}

void falt_rows_permute(falt_problem *permuted, const falt_problem *problem) {
  int order[3] = {0, 1, 2};
  for (int last = 2; last > 0; last--) /* the nearest neighbours last; equals stay */
    for (int i = last - 1; i >= 0; i--)
      if (spread(problem, order[i]) < spread(problem, order[last])) {
        int axis = order[i];
        order[i] = order[last];
        order[last] = axis;
      }
  *permuted = *problem;
  permuted->space = 3;
  relabel(&permuted->input, &problem->input, order);
  relabel(&permuted->filter, &problem->filter, order);
  relabel(&permuted->output, &problem->output, order);
  relabel(&permuted->residual, &problem->residual, order);
  for (int i = 0; i < 3; i++) permuted->axis[i] = problem->axis[order[i]];
}
