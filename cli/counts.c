/* The textbook's counts of a filter, after Hwu, Kirk, El Hajj: Programming Massively Parallel Processors, the chapter
 * on convolution. N outputs and M taps an axis; products over the axes in 2D and 3D. */
#include "counts.h"

#include <math.h>

#include "report.h"

enum { INTENSITY_TILE = 32, SIGNAL_INTENSITY_TILE = 1024, BLOCK_TILE = 16, SIGNAL_BLOCK_TILE = 128 };

bool cli_counts_apply(const falt_problem *problem) {
  return problem->is_filter;
}

/* Products along one axis with input inside, summed over all outputs. */
static double inside_of_axis(const falt_axis *axis, int64_t in, int64_t taps, int64_t out) {
  double inside = 0;
  for (int64_t j = 0; j < taps; j++) { /* outputs o with 0 <= o*stride + shift < in */
    const int64_t shift = j * axis->dilation - axis->pad[0];
    const int64_t first = shift >= 0 ? 0 : (-shift + axis->stride - 1) / axis->stride;
    const int64_t end = in - shift <= 0 ? 0 : (in - shift - 1) / axis->stride + 1;
    const int64_t count = (end < out ? end : out) - first;
    inside += count > 0 ? (double)count : 0;
  }
  return inside;
}

/* Positions that the outputs of one axis reach, inside or not. */
static double reach_of_axis(const falt_axis *axis, int64_t in, int64_t taps, int64_t out) {
  const int64_t low = -axis->pad[0], high = (out - 1) * axis->stride + (taps - 1) * axis->dilation - axis->pad[0] + 1;
  return (double)((high > in ? high : in) - (low < 0 ? low : 0));
}

/* Inputs that a tile of `side` outputs reads, and its operations per byte when each is read once: out*M*2 / (in*4). */
static double tile_inputs(const falt_problem *p, int side, double *reused) {
  double inputs = 1, outputs = 1, taps = 1;
  for (int a = 3 - p->space; a < 3; a++) {
    const double m = (double)p->filter.size[FALT_D + a];
    inputs *= side + m - 1;
    outputs *= side;
    taps *= m;
  }
  *reused = outputs * taps / inputs;
  return inputs;
}

cli_counts cli_count(const falt_problem *p) {
  cli_counts c = {.multiplications = 1, .multiplications_inside = 1, .tile_blocks = 1, .tile_threads_out = 1};
  double reach = 1, inputs = 1, in_tile = 1, out_tile = 1, taps = 1;
  const int intensity = p->space == 1 ? SIGNAL_INTENSITY_TILE : INTENSITY_TILE;
  const int block = p->space == 1 ? SIGNAL_BLOCK_TILE : BLOCK_TILE;
  for (int a = 3 - p->space; a < 3; a++) {
    const int64_t in = p->input.size[FALT_D + a], m = p->filter.size[FALT_D + a], out = p->output.size[FALT_D + a];
    c.multiplications *= (double)out * (double)m;
    c.multiplications_inside *= inside_of_axis(&p->axis[a], in, m, out);
    reach *= reach_of_axis(&p->axis[a], in, m, out);
    inputs *= (double)in;
    in_tile *= intensity;
    out_tile *= fmax(0, (double)(intensity - m + 1));
    taps *= (double)m;
    c.tile_blocks *= ceil((double)out / block);
    c.tile_threads_out *= block;
  }
  c.ghost_cells = reach - inputs;
  c.tiled_intensity = out_tile * taps * 2 / (in_tile * 4);
  static const int image_tiles[] = {8, 16, 32, 64}, signal_tiles[] = {32, 128, 256, 1024},
                   volume_tiles[] = {4, 8, 16, 32};
  const int *tiles = p->space == 1 ? signal_tiles : p->space == 2 ? image_tiles : volume_tiles;
  for (int i = 0; i < 4; i++) {
    c.tile[i] = tiles[i];
    tile_inputs(p, tiles[i], &c.reads_saved[i]);
  }
  double unused;
  c.tile_threads_in = tile_inputs(p, block, &unused);
  c.tile_shared_bytes = c.tile_threads_in * 4;
  return c;
}

void cli_counts_print(FILE *file, const falt_problem *p) {
  const cli_counts c = cli_count(p);
  const int block = p->space == 1 ? SIGNAL_BLOCK_TILE : BLOCK_TILE;
  fprintf(file, "\nOn paper, for one channel:\n");
  fprintf(file, "  multiplications            %.0f, zeros beyond the edges counted; %.0f without\n", c.multiplications,
          c.multiplications_inside);
  fprintf(file, "  ghost cells                %.0f\n", c.ghost_cells);
  fprintf(
      file,
      "  operations per byte (f32)  0.25 with every tap and sample read from memory, 0.5 with the filter cached,\n");
  fprintf(file, "                             %.2f with input tiles of %d\n", c.tiled_intensity,
          p->space == 1 ? SIGNAL_INTENSITY_TILE : INTENSITY_TILE);
  fprintf(file, "  reads saved by tiling     ");
  for (int i = 0; i < 4; i++) fprintf(file, " %.2f (tile %d)%s", c.reads_saved[i], c.tile[i], i < 3 ? "," : "\n");
  fprintf(file,
          "  tiled kernel, tile %-3d     %.0f blocks; %.0f threads if the block is the input tile, %.0f if the output "
          "tile;\n",
          block, c.tile_blocks, c.tile_threads_in, c.tile_threads_out);
  fprintf(file, "                             %.0f bytes of shared memory\n", c.tile_shared_bytes);
}

void cli_counts_json(FILE *file, const char *line, const falt_problem *p) {
  const cli_counts c = cli_count(p);
  cli_json json = cli_json_open(file);
  cli_json_text(&json, "problem", line);
  cli_json_number(&json, "multiplications", c.multiplications);
  cli_json_number(&json, "multiplications_inside", c.multiplications_inside);
  cli_json_number(&json, "ghost_cells", c.ghost_cells);
  cli_json_number(&json, "operations_per_byte_uncached", 0.25);
  cli_json_number(&json, "operations_per_byte_filter_cached", 0.5);
  cli_json_number(&json, "operations_per_byte_tiled", c.tiled_intensity);
  for (int i = 0; i < 4; i++) {
    char key[40];
    snprintf(key, sizeof key, "reads_saved_tile_%d", c.tile[i]);
    cli_json_number(&json, key, c.reads_saved[i]);
  }
  cli_json_number(&json, "tile_blocks", c.tile_blocks);
  cli_json_number(&json, "tile_threads_input", c.tile_threads_in);
  cli_json_number(&json, "tile_threads_output", c.tile_threads_out);
  cli_json_number(&json, "tile_shared_bytes", c.tile_shared_bytes);
  cli_json_close(&json);
}
