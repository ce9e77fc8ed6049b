/* Files that are shipped with the command: suites and peers, in the source tree or installed. */
#ifndef FALT_CLI_SHARE_H
#define FALT_CLI_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the path of `relative`, such as "bench/suites": beside an installed command (../share/faltung), else in the
 * source tree it was built from, else in the configured data directory. False if it is in none. */
bool cli_share_find(const char *relative, char *path, size_t size);

#endif
