/* Private to the ladder: the segments of a signal and the tiles of an image in a convolution by transforms
 * (overlap-save), and their operations on paper. */
#ifndef FALT_LADDER_FFT_H
#define FALT_LADDER_FFT_H

#include "ladder/ladder.h"

/* Points of a segment, a power of two; outputs of one; segments of the signal. */
int ladder_fft_points(const ladder_task *task);
int64_t ladder_fft_kept(const ladder_task *task);
int64_t ladder_fft_segments(const ladder_task *task);
/* Why segments cannot hold the filter, or NULL. */
const char *ladder_fft_refusal(const ladder_task *task);

/* Operations for an output, as textbooks count: 2 K of the definition; of P points 8 P^2 for a DFT by its definition, 5
 * P log2 P for an FFT, 6 P for the product; a segment takes two transforms. The filter's own is not counted. */
double ladder_fft_direct(const ladder_task *task);
double ladder_fft_by_definition(const ladder_task *task);
double ladder_fft_by_fft(const ladder_task *task);
double ladder_fft_by_pairs(const ladder_task *task); /* one FFT for two segments */

/* An image is cut into tiles of this many pixels a side. Outputs of one along the height (0) or the width (1); tiles
 * along it, and in all. */
enum { LADDER_FFT_SIDE = 64, LADDER_FFT_TILE = LADDER_FFT_SIDE * LADDER_FFT_SIDE };
int64_t ladder_fft_tile_kept(const ladder_task *task, int axis);
int64_t ladder_fft_tiles_along(const ladder_task *task, int axis);
int64_t ladder_fft_tiles(const ladder_task *task);
double ladder_fft_tile_outputs(const ladder_task *task);
/* Why tiles cannot hold the filter, or NULL. */
const char *ladder_fft_tile_refusal(const ladder_task *task);

/* Operations for an output, of tiles of P x P pixels: 2 R S of the definition; 16 P^3 for a DFT by its definition along
 * rows and columns, 5 P^2 log2(P^2) for an FFT, 6 P^2 for the product; a tile takes two transforms. */
double ladder_fft_tile_direct(const ladder_task *task);
double ladder_fft_tile_by_definition(const ladder_task *task);
double ladder_fft_tile_by_fft(const ladder_task *task);
double ladder_fft_tile_by_pairs(const ladder_task *task); /* one FFT for two tiles */

#endif
