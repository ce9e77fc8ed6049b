/* ladder --exercise: questions on paper, in the manner of the textbook's; the answers are computed by the functions
 * that count for explain and for the ladder's steps. */
#include <math.h>
#include <string.h>

#include "counts.h"
#include "ladder.h"
#include "ladder/fft.h"
#include "report.h"

typedef enum quantity {
  GHOSTS,
  PRODUCTS_INSIDE,
  UNCACHED_INTENSITY,
  TILE_INTENSITY,
  READS_SAVED_32,
  SHARED_BYTES,
  BLOCKS,
  IDLE_THREADS,
  BALANCE,
  OVERLAP_SAVE
} quantity;

typedef struct exercise {
  const char *line, *question, *hint;
  quantity quantity;
} exercise;

static const exercise exercises[] = {
    {"correlate w=1000 s=5",
     "A signal of 1000 samples meets a filter of 5 taps, and the output has as many samples.\n"
     "How many ghost cells do the windows reach?",
     "count the positions beyond each end that the first and the last window touch", GHOSTS},
    {"correlate w=1000 s=5", "The same signal and filter: how many multiplications are left if ghost cells need none?",
     "each output multiplies 5 taps; near an end some of them lie on ghost cells", PRODUCTS_INSIDE},
    {"correlate h=200 w=300 r=5 s=5",
     "An image of 200 x 300 pixels meets a filter of 5 x 5 taps. How many ghost cells surround it?",
     "the image with its ghost cells has 204 x 304 positions", GHOSTS},
    {"correlate h=200 w=300 r=5 s=5",
     "The same image and filter: how many multiplications are left if ghost cells need none?",
     "the count of an image is the product of the counts of its two axes", PRODUCTS_INSIDE},
    {"correlate h=512 w=512 r=5 s=5",
     "A thread reads an f32 tap and an f32 pixel from memory for every product, and no cache helps.\n"
     "How many operations does it make for a byte?",
     "a multiplication and an addition for 8 bytes", UNCACHED_INTENSITY},
    {"correlate h=512 w=512 r=5 s=5",
     "A block of 32 x 32 threads loads an input tile of 32 x 32 f32 pixels; the filter has 5 x 5 taps in constant\n"
     "memory. How many operations does the block make for a byte that it loads?",
     "outputs times taps times 2, divided by the tile's bytes", TILE_INTENSITY},
    {"correlate h=512 w=512 r=9 s=9",
     "Output tiles of 32 x 32 pixels under 9 x 9 taps: how many times fewer reads than without tiles?",
     "outputs times taps, divided by the pixels of the tile with its halo", READS_SAVED_32},
    {"correlate h=512 w=512 r=5 s=5",
     "A block makes 16 x 16 outputs under 5 x 5 taps. How many bytes of shared memory does its input tile of f32\n"
     "pixels need?",
     "the halo adds 4 rows and 4 columns", SHARED_BYTES},
    {"correlate h=200 w=300 r=5 s=5", "How many such blocks of 16 x 16 outputs cover an image of 200 x 300 pixels?",
     "round up along each axis", BLOCKS},
    {"correlate h=512 w=512 r=5 s=5",
     "A block has a thread for each pixel of the input tile, and makes 16 x 16 outputs under 5 x 5 taps.\n"
     "How many of its threads idle while the others compute?",
     "subtract the pixels of the output tile from the pixels of the input tile", IDLE_THREADS},
    {"correlate d=64 h=64 w=64 t=3 r=3 s=3",
     "Output tiles of 32 x 32 x 32 voxels under 3 x 3 x 3 taps: how many times fewer reads than without tiles?",
     "as for an image, with one axis more", READS_SAVED_32},
    {"correlate h=512 w=512 r=5 s=5",
     "A GPU copies 2.0e12 bytes a second (reads and writes together) and computes 60e12 f32 operations a second.\n"
     "How many operations must a kernel make for a byte of traffic before computing, not memory, limits it?",
     "divide one rate by the other", BALANCE},
    {"correlate w=262144 s=129",
     "A signal meets 129 taps by overlap-save with segments of P = 512 points: two transforms of 5 P log2 P "
     "operations\n"
     "and a product of 6 P for each segment. How many operations does an output cost?",
     "a segment keeps 512 - 129 + 1 outputs", OVERLAP_SAVE},
};
/* Of the exercise BALANCE. */
static const double peak = 60e12, bandwidth = 2e12;

enum { EXERCISES = sizeof exercises / sizeof *exercises };

static double answer_of(const exercise *e) {
  falt_problem problem;
  if (falt_problem_parse(&problem, NULL, e->line) != FALT_OK) return NAN;
  const cli_counts c = cli_count(&problem);
  switch (e->quantity) {
    case GHOSTS:
      return c.ghost_cells;
    case PRODUCTS_INSIDE:
      return c.multiplications_inside;
    case UNCACHED_INTENSITY:
      return 2.0 / (sizeof(float) + sizeof(float));
    case TILE_INTENSITY:
      return c.tiled_intensity;
    case READS_SAVED_32:
      for (int i = 0; i < 4; i++)
        if (c.tile[i] == 32) return c.reads_saved[i];
      return NAN;
    case SHARED_BYTES:
      return c.tile_shared_bytes;
    case BLOCKS:
      return c.tile_blocks;
    case IDLE_THREADS:
      return c.tile_threads_in - c.tile_threads_out;
    case BALANCE:
      return peak / bandwidth;
    case OVERLAP_SAVE:
      return ladder_fft_by_fft(
          &(ladder_task){.size = {1, 1, problem.input.size[FALT_W]}, .taps = {1, 1, problem.filter.size[FALT_W]}});
  }
  return NAN;
}

static void print(int number) {
  printf("exercise %d: %s\n", number, exercises[number - 1].question);
}

void cli_exercises_list(void) {
  for (int i = 1; i <= EXERCISES; i++) print(i);
  printf("\n`faltung ladder --exercise N --answer X` checks an answer.\n");
}

/* Answers that are no integers count as right when rounded to 3 digits. */
int cli_exercise(int64_t number, double answer) {
  if (number < 1 || number > EXERCISES)
    return cli_fail(CLI_WRONG, "--exercise %lld: there are exercises 1 to %d", (long long)number, EXERCISES);
  const exercise *e = &exercises[number - 1];
  const double right = answer_of(e);
  if (isnan(answer)) {
    print((int)number);
    return CLI_DONE;
  }
  if (!(fabs(answer - right) <= (right == floor(right) ? 0 : 0.006 * right))) {
    printf("not right: %.10g; %s\n", answer, e->hint);
    return CLI_CHECK_FAILED;
  }
  printf("right: %.10g\n", right);
  return CLI_DONE;
}
