/* The process that runs the peers: Python, started once, which answers each line (a JSON object) with lines.
 * bench/peers/peers.py is the other side. */
#ifndef FALT_CLI_PEERS_H
#define FALT_CLI_PEERS_H

#include <limits.h>
#include <stdio.h>
#include <sys/types.h>

#include "answer.h"
#include "report.h"

/*   at the start        <- {"library": "opencv", "version": "5.0.0"} or {"library": "torch", "missing": why} for each
 *   {"do": "load", ..}  -> {"library": .., "implementation": .., "version": ..} for each that can do the problem
 *   {"do": "time", ..}  -> {"seconds_median": .., "seconds_min": .., "runs": .., ..} or {"error": why}
 *   {"do": "drop"}      -> forgets the problem
 *
 * Every answer ends with {"done": true}. */

enum { CLI_LIBRARIES = 8, CLI_PEERS = 12 };

typedef struct cli_library {
  char name[24], version[40];
} cli_library;

typedef struct cli_peers {
  pid_t pid; /* 0: not running */
  FILE *to;
  int from;
  char python[PATH_MAX];
  cli_library library[CLI_LIBRARIES]; /* the installed ones */
  int libraries;
  char missing[256]; /* names of the missing ones, or empty */
  bool failed;       /* it ended or talked nonsense, and an error was printed */
  size_t filled;     /* bytes of text */
  char text[2 * CLI_ANSWER_LINE];
} cli_peers;

/* Starts the process for the peers on a device, "cpu ..." or "cuda:N ...", with a number of threads for every peer.
 * False if there is none: *why then says how to get one, or is empty if an error was printed. FALTUNG_PEERS_PYTHON
 * selects the interpreter. */
bool cli_peers_start(cli_peers *peers, const char *device, int threads, char why[512]);
/* Begins a request; close it with cli_peers_send. */
cli_json cli_peers_ask(cli_peers *peers, const char *what);
void cli_peers_send(cli_json *request);
/* The next line of the answer; false at its end, and when the process failed, which ends it. */
bool cli_peers_answer(cli_peers *peers, cli_answer *answer);
void cli_peers_stop(cli_peers *peers);

#endif
