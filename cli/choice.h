/* Named values, such as types and modes, for options, completions and the verb list. */
#ifndef FALT_CLI_CHOICE_H
#define FALT_CLI_CHOICE_H

#include "io/io.h"

/* The i-th name, from 0; NULL after the last. */
typedef const char *(*cli_choice)(int i);

const char *cli_choice_type(int i);
const char *cli_choice_mode(int i); /* in the order of falt_mode */
const char *cli_choice_dialect(int i);
const char *cli_choice_boundary(int i);
const char *cli_choice_kernel(int i);
const char *cli_choice_method(int i); /* auto, then every solver */
const char *cli_choice_device(int i);
const char *cli_choice_ladder(int i);
const char *cli_choice_format(int i); /* those that outputs often have */
const char *cli_choice_page(int i);
const char *cli_choice_list(int i); /* operands of the verb list */
const char *cli_choice_shell(int i);

/* Index of text. Otherwise -1 and "TEXT: unknown KIND; did you mean X?" in *error. */
int cli_choice_find(cli_choice choice, const char *text, const char *kind, io_error *error);

#endif
