/* The output paths of convolve and correlate: the last operand, or the inputs' names in it if it is a directory. */
#ifndef FALT_CLI_OUTPUTS_H
#define FALT_CLI_OUTPUTS_H

#include <limits.h>

#include "options.h"

/* Whether the last operand is a directory. With more than two operands it must be: false with *error otherwise. */
bool cli_outputs_check(const cli_options *options, bool *directory, io_error *error);
/* The output of operand i. In a directory two inputs of one name, and an input over itself, are refused. */
bool cli_outputs_name(const cli_options *options, int i, bool directory, char path[PATH_MAX], io_error *error);

#endif
