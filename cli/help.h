/* Help, the manual page and completions, all printed from the tables of verbs and of options. */
#ifndef FALT_CLI_HELP_H
#define FALT_CLI_HELP_H

#include <stdio.h>

#include "verbs.h"

/* `faltung --help` */
void cli_help_all(FILE *file);
/* `faltung help VERB` */
void cli_help_verb(FILE *file, const cli_verb *verb);
/* Every option as a row of a Markdown table: the one in docs/guide/options.md. */
void cli_help_options(FILE *file);
/* The verbs of a set, such as "convolve, correlate", in text; "every verb with a device" where that is the set. */
const char *cli_help_verbs(unsigned verbs, char *text, size_t size);

/* Exit statuses and variables of the environment: i from 0 until false. */
typedef struct cli_help_row {
  const char *name, *meaning;
} cli_help_row;
bool cli_help_status(int i, cli_help_row *row);
bool cli_help_variable(int i, cli_help_row *row);

/* faltung.1, in man(7)'s macros. */
void cli_manual_print(FILE *file);

/* The completion of each shell, in the order of cli_choice_shell. */
extern void (*const cli_completion_print[])(FILE *file);

#endif
