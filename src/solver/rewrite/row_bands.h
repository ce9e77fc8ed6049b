/* Bands of output rows, each a separate problem, for solvers that keep a band in a cache. */
#ifndef FALT_SOLVER_REWRITE_ROW_BANDS_H
#define FALT_SOLVER_REWRITE_ROW_BANDS_H

#include "planner/planner.h"

/* Images are cut along one axis, which must have a constant boundary. Band heights differ as little as possible, so
 * most bands are the same problem. */

typedef struct falt_row_bands {
  int axis;            /* along which images are cut */
  int64_t rows, count; /* outputs of a band along it; bands of an image */
} falt_row_bands;

/* Bands of at most `most` rows of outputs along `axis`: the whole where its boundary does not let rows alone. */
falt_row_bands falt_row_bands_cut(const falt_problem *problem, int axis, int64_t most);

/* The problem of a band of `images` images. Its operands begin at falt_row_band_at. */
falt_status falt_row_band(const falt_row_bands *bands, const falt_problem *problem, int64_t images, int64_t band,
                          falt_problem *part);

/* The input row that a band reads first; `begin` is its first row of outputs. */
int64_t falt_row_band_first(const falt_row_bands *bands, const falt_problem *problem, int64_t begin);
/* Where an operand has a row of an image. */
void *falt_row_band_at(const falt_row_bands *bands, void *data, const falt_tensor *tensor, int64_t image, int64_t row);

#endif
