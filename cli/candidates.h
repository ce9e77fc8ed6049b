/* Prints the candidates of a problem, for --explain and the verb explain. */
#ifndef FALT_CLI_CANDIDATES_H
#define FALT_CLI_CANDIDATES_H

#include <stdio.h>

#include "faltung/faltung.h"

typedef struct cli_candidates {
  FILE *file;
  bool json;
  const char *problem, *device; /* the problem's line and the device's name, for JSON */
  const char *filter;           /* "given" or "known", for JSON; NULL: omitted */
  const char *kernel;           /* as it was typed, for JSON; NULL: omitted */
  bool all;                     /* include solvers for other kinds of problems */
  int count;                    /* printed */
  int left_out;                 /* not printed */
} cli_candidates;

/* A callback for falt_explain; context is a cli_candidates. */
void cli_candidates_print(void *context, const falt_candidate *candidate);
/* After the last candidate: how many were left out, if any were. Nothing for JSON. */
void cli_candidates_end(const cli_candidates *list);

#endif
