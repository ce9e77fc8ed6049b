/* Writes a page or a picture beside the answer, atomically. */
#ifndef FALT_CLI_PAGE_H
#define FALT_CLI_PAGE_H

#include <stdio.h>

#include "io/io.h"
#include "io/output.h"

/* The head of an HTML page: colours for light and dark, tables, and drawings' classes. */
void cli_page_head(FILE *file);
/* Text of HTML or SVG: special characters as entities. */
void cli_page_text(FILE *file, const char *text);
/* <td class="kind">text</td> */
void cli_page_cell(FILE *file, const char *kind, const char *text);

/* Writes what `put` prints and commits it; discards the output after an error, which is told under the option's name.
 * The exit status. */
int cli_page_write(io_output *output, const char *option, void (*put)(FILE *file, const void *context),
                   const void *context);

#endif
