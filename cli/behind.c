/* Background writes with one thread for each band: starting a thread costs little compared with writing megabytes. */
#include "behind.h"

#include "report.h"

static void *write_rows(void *context) {
  cli_behind *b = context;
  const double began = cli_seconds();
  b->fine = io_write(b->writer, b->rows, b->data, &b->error);
  b->seconds += cli_seconds() - began;
  return NULL;
}

bool cli_behind_write(cli_behind *behind, int64_t rows, const void *data, io_error *error) {
  if (!cli_behind_wait(behind, error)) return false;
  behind->rows = rows;
  behind->data = data;
  behind->running = pthread_create(&behind->thread, NULL, write_rows, behind) == 0;
  if (behind->running) return true;
  write_rows(behind);
  *error = behind->error;
  return behind->fine;
}

bool cli_behind_wait(cli_behind *behind, io_error *error) {
  if (!behind->running) return true;
  pthread_join(behind->thread, NULL);
  behind->running = false;
  *error = behind->error;
  return behind->fine;
}
