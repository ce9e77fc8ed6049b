/* Background writes: a thread writes one band of the output while the next one is read and computed. */
#ifndef FALT_CLI_BEHIND_H
#define FALT_CLI_BEHIND_H

#include <pthread.h>

#include "io/io.h"

typedef struct cli_behind {
  io_writer *writer;
  double seconds; /* spent writing so far, while nothing is being written */
  pthread_t thread;
  bool running, fine;
  int64_t rows;
  const void *data;
  io_error error;
} cli_behind;

/* Starts to write the next rows, whose data must stay until cli_behind_wait; waits for earlier ones. False if writing
 * those failed. */
bool cli_behind_write(cli_behind *behind, int64_t rows, const void *data, io_error *error);
/* Waits until all is written; false with the error if that failed. May be called at any time, and again. */
bool cli_behind_wait(cli_behind *behind, io_error *error);

#endif
