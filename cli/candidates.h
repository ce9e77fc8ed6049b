/* How the candidates of a problem are printed: for --explain and the verb explain alike. */
#ifndef FALT_CLI_CANDIDATES_H
#define FALT_CLI_CANDIDATES_H

#include <stdio.h>

#include "faltung/faltung.h"

typedef struct cli_candidates {
  FILE *file;
  bool json;
  const char *problem, *device; /* the problem's line and the device's name, for JSON */
  int count;
} cli_candidates;

/* A callback for falt_explain; context is a cli_candidates. */
void cli_candidates_print(void *context, const falt_candidate *candidate);

#endif
