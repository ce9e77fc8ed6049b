/* Atomic output files: written under a temporary name in the same directory, then synced and renamed. The temporary
 * file is removed on failure and at exit. A signal handler that ends the process calls the function for that. */
#ifndef FALT_CLI_IO_OUTPUT_H
#define FALT_CLI_IO_OUTPUT_H

#include "io/io.h"

typedef struct io_output {
  char *path;         /* as the user named it, for messages; without the member */
  char *member;       /* of an archive: the array's name; NULL: not given */
  char *target;       /* the destination, symbolic links followed */
  char *temporary;    /* has the extension; NULL if written directly: a pipe or standard output */
  char extension[32]; /* of the format, with its dot */
  int fd;             /* open for writing */
  int sink;           /* a pipe or standard output, to which the complete temporary is copied; -1: it is renamed */
  int slot;           /* in the table that the signal handler reads; -1 if none */
} io_output;

/* Creates the temporary; extension NULL is the path's own. "-" and pipes are written in place if direct; else their
 * temporary stands in TMPDIR. */
bool io_output_open(io_output *output, const char *path, const char *extension, bool direct, io_error *error);
/* Gives the file its length in advance where the file system can; false if it has no room for it. */
bool io_output_reserve(const io_output *output, int64_t bytes, io_error *error);
/* Writes all bytes at the descriptor's position. */
bool io_output_write(const io_output *output, const void *data, int64_t bytes, io_error *error);
/* Syncs the file and gives it its name, or copies it to the pipe; releases *output in both cases. */
bool io_output_commit(io_output *output, io_error *error);
/* Removes the temporaries of all outputs that are open. For signal handlers. */
void io_output_remove_temporaries(void);
/* Removes the temporary and releases *output. */
void io_output_discard(io_output *output);

#endif
