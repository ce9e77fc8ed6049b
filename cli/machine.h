/* The description of the machine that accompanies a measurement. */
#ifndef FALT_CLI_MACHINE_H
#define FALT_CLI_MACHINE_H

#include "report.h"

typedef struct cli_machine {
  char processor[128];
  char date[32];      /* ISO 8601, UTC */
  double load;        /* processes that wanted a core in the last minute, before bench began */
  const char *commit; /* of the source that was configured; empty if that was no git checkout */
  char driver[80];    /* of the GPU; empty unless cli_machine_driver found it */
} cli_machine;

cli_machine cli_machine_describe(void);
/* Its processor, date, load and commit, as members of an object. */
void cli_machine_json(cli_json *json);
/* The version of NVIDIA's driver, where there is one. */
void cli_machine_driver(cli_machine *machine);

#endif
