/* A filter problem for tile searches, with as many outputs as inputs. */
#ifndef FALT_TESTS_TILE_PROBLEM_H
#define FALT_TESTS_TILE_PROBLEM_H

#include "solver/cuda/filter/cuda_direct_tiles.h"
#include "tile_tally.h"

/* Taps, and sizes, of planes, rows and columns. */
static falt_tile_problem tile_problem(const int taps[3], const int64_t size[3]) {
  falt_tile_problem p = {
      .batch = 1, .pixel = 1, .x_bytes = 4, .y_bytes = 4, .sum_bytes = 4, .x_align = 16, .y_align = 16};
  for (int i = 0; i < 3; i++) {
    p.taps[i] = taps[i];
    p.pad[i] = taps[i] / 2;
    p.stride[i] = p.dilation[i] = 1;
    p.in[i] = p.out[i] = size[i];
  }
  return p;
}

#endif
