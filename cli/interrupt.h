/* SIGINT, SIGTERM and SIGHUP: the command ends soon in any state, prints one line, and leaves no temporary files. */
#ifndef FALT_CLI_INTERRUPT_H
#define FALT_CLI_INTERRUPT_H

#include <sys/types.h>

#include "faltung/faltung.h"

/* The first signal interrupts the devices and lets the verb clean up and return. A second one, or 0.4 s without a
 * return, removes the temporary files and ends the process from within the handler. Signals that were ignored when the
 * command started stay ignored. A forked child dies of them as by default. */

/* Before the verb runs; further calls do nothing. */
void cli_interrupts_catch(void);
/* Whether this is a process that was forked since: it has no terminal of its own to draw on. */
bool cli_interrupts_in_child(void);
/* The number of the received signal, or 0. cli_fail prints nothing after it. */
int cli_interrupted(void);
/* Prints the line and dies of the signal that came, as the shell expects. */
void cli_interrupts_die(void);

/* From now on a signal interrupts the device, also one that came before. Forget it before it is destroyed. */
void cli_interrupts_watch(falt_device *device);
void cli_interrupts_forget(const falt_device *device);
/* A process group to end with the command; 0: none. */
void cli_interrupts_group(pid_t group);

#endif
