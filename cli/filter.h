/* Declarations that the steps of convolve and correlate share. */
#ifndef FALT_CLI_FILTER_H
#define FALT_CLI_FILTER_H

#include "band.h"
#include "kernel.h"
#include "options.h"

typedef struct filter_job {
  const cli_options *options;
  const char *verb, *in_path, *out_path;
  falt_device *device;
  falt_budget budget;
  io_reader *reader;
  io_info in, out;
  cli_kernel kernel;
  falt_tensor taps;
  void *weights;
  cli_boundaries boundaries;
  falt_problem problem;
  char line[1024];   /* the problem's */
  int64_t band_rows; /* 0: as cli_band_run likes */
  io_writer *writer;
  cli_range range; /* of the exact results, with --scale-to-type */
  cli_band_result result;
} filter_job;

/* Prints a summary line and a note on clipped outputs, or with --json an object. */
void cli_filter_report(const filter_job *job);

#endif
