/* Operands as .npy files in a private directory, from which the peers read them. */
#ifndef FALT_CLI_EXCHANGE_H
#define FALT_CLI_EXCHANGE_H

#include <limits.h>

#include "io/io.h"

typedef struct cli_exchange {
  char directory[PATH_MAX - 64]; /* empty: none */
} cli_exchange;

/* Makes the directory, in memory (/dev/shm) if that has room for the bytes, else in $TMPDIR or /tmp. */
bool cli_exchange_open(cli_exchange *exchange, int64_t bytes, io_error *error);
/* Writes data as NAME.npy with six axes in the order of memory; order receives their letters, slowest first, of n, g,
 * c, d, h and w (a filter's outputs are n). Repeated axes have size 1. False also for tensors with gaps. */
bool cli_exchange_tensor(const cli_exchange *exchange, const char *name, const falt_tensor *tensor, const void *data,
                         char order[FALT_DIMS + 1], io_error *error);
/* Writes a vector. */
bool cli_exchange_vector(const cli_exchange *exchange, const char *name, falt_type type, int64_t count,
                         const void *data, io_error *error);
const char *cli_exchange_path(const cli_exchange *exchange, const char *name, char path[PATH_MAX]);
/* Removes the files and the directory. */
void cli_exchange_close(cli_exchange *exchange);
/* The same for the exchange that is open, if there is one; for signal handlers. */
void cli_exchange_remove(void);

#endif
