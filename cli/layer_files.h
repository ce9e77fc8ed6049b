/* The .npy files of a layer: the operands that its operation reads and writes, and the check of their arrays. Functions
 * that return an int print an error and return its exit status, or CLI_DONE. */
#ifndef FALT_CLI_LAYER_FILES_H
#define FALT_CLI_LAYER_FILES_H

#include "io/io.h"
#include "problem.h"

typedef struct cli_layer_file {
  const char *option, *path; /* path: NULL if it was not given */
  const falt_tensor *tensor; /* NULL: a vector with one value an output channel */
  void **operand;
  bool is_filter, is_written;
  io_array_writer *writer;
} cli_layer_file;

enum { CLI_LAYER_FILES = 8 };
typedef struct cli_layer_files {
  cli_layer_file file[CLI_LAYER_FILES];
  int count;
  unsigned layouts; /* in which all that was read has its shape; with one channel these are several */
} cli_layer_files;

/* The arrays of the operation, by the options' names; operands go to *set. The gradient of a loss by the output is
 * --grad. */
cli_layer_files cli_layer_files_list(const cli_options *options, const falt_problem *problem, falt_operands *set);
/* Whether each path has its use, and standard input and output one each. */
int cli_layer_files_check(const cli_layer_files *files, const cli_options *options);
/* Reads the input arrays to memory. */
int cli_layer_files_read(cli_layer_files *files, const falt_problem *problem);
/* Allocates the output arrays, and creates their files under temporary names, so that errors are reported before the
 * work. */
int cli_layer_files_create(cli_layer_files *files, const falt_problem *problem);
/* Writes the results; only when all are written do files get their names. */
int cli_layer_files_write(cli_layer_files *files, const falt_problem *problem);
/* Removes files that were created and have no final name yet. */
void cli_layer_files_abandon(cli_layer_files *files);
/* Bytes of all that is written, or read. */
double cli_layer_files_bytes(const cli_layer_files *files, const falt_problem *problem, bool written);

#endif
