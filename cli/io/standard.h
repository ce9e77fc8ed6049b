/* Standard input as a file. An .npy array is read from the stream. The libraries of other formats read in any order, so
 * their bytes are copied to a temporary file first, which is removed at exit. */
#ifndef FALT_CLI_IO_STANDARD_H
#define FALT_CLI_IO_STANDARD_H

#include <sys/types.h>

#include "io/io.h"

/* Tells the format from the first bytes. *path becomes NULL for an .npy array, else the temporary file that holds
 * standard input, with the extension of its format. May be called again. */
bool io_standard_open(const char **path, io_error *error);

/* read(2) of standard input, beginning with the bytes that io_standard_open took. */
ssize_t io_standard_read(void *buffer, size_t bytes);

#endif
