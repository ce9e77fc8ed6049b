/* explain --html: the candidates of a problem as a page with drawings. */
#ifndef FALT_CLI_EXPLAIN_PAGE_H
#define FALT_CLI_EXPLAIN_PAGE_H

#include "io/output.h"
#include "problem.h"

/* What explain found, kept for the page. */
typedef struct cli_explanation {
  const cli_question *question;
  falt_limits limits;
  falt_candidate *candidate; /* owned, with their strings */
  int count;
  bool is_full; /* memory ran out */
} cli_explanation;

/* Appends a copy. */
void cli_explanation_add(cli_explanation *explanation, const falt_candidate *candidate);
void cli_explanation_free(cli_explanation *explanation);

/* Writes the page and commits the output. Prints an error and returns its exit status, or CLI_DONE. */
int cli_explain_page(const cli_explanation *explanation, io_output *output);

/* Seconds of a candidate: measured, or else predicted. */
double cli_candidate_seconds(const falt_candidate *candidate);
/* The roofline of the device with a dot for each candidate: log10 of operations per byte and of operations a second. */
void cli_roofline_draw(FILE *file, const cli_explanation *explanation);
/* A corner of the input: the tile that the first outputs read, its halo and its ghost cells. */
void cli_halo_draw(FILE *file, const falt_problem *problem);

#endif
