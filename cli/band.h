/* Applies one problem to a file in bands of rows, for files larger than memory. */
#ifndef FALT_CLI_BAND_H
#define FALT_CLI_BAND_H

#include "clip.h"

/* A band is a range of output rows. Its input is a window of rows in a buffer that moves down the file; each row is
 * read once. Beyond the file's ends the buffer holds copies of the rows that the boundary puts there, so the plan of a
 * band needs no boundary along the slowest axis. A constant boundary needs no copies and stays with the plan. A small
 * file is one band, which the library sees as the whole problem. */

/* The destination of a run's outputs. */
typedef enum cli_band_task {
  CLI_BAND_WRITE, /* writes them */
  CLI_BAND_COUNT, /* writes them, and counts those that the integer type clipped */
  CLI_BAND_RANGE  /* finds the range of the exact ones, and writes nothing */
} cli_band_task;

typedef struct cli_band_job {
  const falt_problem *problem; /* of the whole file: interleaved rows, dense, offset 0 */
  const void *weights;
  const falt_budget *budget;
  falt_device *device;
  io_reader *reader;
  int64_t pages; /* consecutive images of the file, each an input of the problem */
  io_writer *writer;
  int64_t rows; /* output rows of a band; 0: all of them if the file is small, else about 32 MiB, 256 on a GPU */
  cli_band_task task;
  bool progress;
  bool forgiving; /* a device that fails is not told but noted in the result */
} cli_band_job;

typedef struct cli_band_result {
  double seconds;     /* computing, and copying where the device has its own memory */
  falt_stages stages; /* of all bands */
  double read, write; /* seconds; writing overlaps the next band's read and computation */
  double all;         /* seconds from the first band's reading to the last one's writing */
  bool device_failed; /* falt_message() says how */
  int64_t bands;
  int64_t clipped; /* -1: not counted */
  cli_range range;
  size_t workspace;
  char plan[256]; /* of the largest band */
} cli_band_result;

/* Whether the rows cannot be read in rising order: a wrapping boundary over more than one band. */
bool cli_band_is_random(const falt_problem *problem, int64_t rows, const falt_device *device);

/* Reads, computes and writes every band. Prints an error and returns its exit status, or CLI_DONE. */
int cli_band_run(const cli_band_job *job, cli_band_result *result);

#endif
