/* The device and the budget that the options ask for. */
#ifndef FALT_CLI_DEVICE_H
#define FALT_CLI_DEVICE_H

#include "options.h"

/* Makes the device (FALTUNG_DEVICE stands in for --device) with its wisdom loaded. Prints an error and returns its exit
 * status, or CLI_DONE. falt_device_destroy afterwards. */
int cli_device_make(const cli_options *options, falt_device **device);

/* Fills *budget; an unknown --method is an error that suggests the nearest. */
int cli_budget_make(const cli_options *options, falt_budget *budget);

#endif
