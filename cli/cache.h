/* The cache, for `faltung info`. */
#ifndef FALT_CLI_CACHE_H
#define FALT_CLI_CACHE_H

#include "options.h"

enum { CLI_PATH = 4096 };

/* The cache's directory, or the advice to get one. */
const char *cli_cache_directory(char path[CLI_PATH]);
/* One line about a file in it. */
void cli_cache_print_file(const char *directory, const char *name);

/* Lists the files and the kernels, or removes the kernels. Both return the exit status. */
int cli_cache_show(const cli_options *options);
int cli_cache_clear(const cli_options *options);

#endif
