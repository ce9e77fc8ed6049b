/* The device and the budget from the options. */
#ifndef FALT_CLI_DEVICE_H
#define FALT_CLI_DEVICE_H

#include "options.h"

/* Creates the device (FALTUNG_DEVICE replaces --device; auto is the CPU) with its wisdom loaded. Prints an error and
 * returns its exit status, or CLI_DONE. cli_device_destroy afterwards. */
int cli_device_make(const cli_options *options, falt_device **device);
/* A GPU of the --device cuda:NAME, which executes nothing. */
bool cli_device_is_described(const falt_device *device);
/* Destroys it, and no signal interrupts it any more. */
void cli_device_destroy(falt_device **device);

/* Chooses the device: a GPU if there is one and it is faster for this problem, including start and transfers, else the
 * CPU. A GPU that does not work is reported in one line and not used. weights may be NULL. */
bool cli_device_is_auto(const cli_options *options);
int cli_device_choose(const cli_options *options, const falt_problem *problem, const falt_budget *budget,
                      const void *weights, falt_device **device);
/* The CPU in place of a GPU that failed with falt_message(), which is told unless --quiet. */
int cli_device_retreat(const cli_options *options, falt_device **device);

/* Fills *budget; an unknown --method is an error that suggests the nearest. */
int cli_budget_make(const cli_options *options, falt_budget *budget);

#endif
