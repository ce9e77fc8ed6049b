/* The time of each stage of a run over files. */
#ifndef FALT_CLI_STAGES_H
#define FALT_CLI_STAGES_H

#include "faltung/faltung.h"

typedef struct cli_stage {
  const char *name;
  double seconds, bytes; /* 0 seconds: the run had no such stage */
} cli_stage;

/* A line a stage: time, percentage of the whole, bytes a second; and the overlap of the stages on a device. */
void cli_stages_print(const cli_stage *stages, int count, double seconds, const falt_stages *device, bool json);

#endif
