/* Measured limits, kept between processes. */
#ifndef FALT_API_LIMITS_FILE_H
#define FALT_API_LIMITS_FILE_H

#include "planner/planner.h"

/* Takes the limits stored for a device of this name and processor; leaves the device alone if there are none. */
void falt_limits_load(falt_device *device);
/* Stores a device's limits, keeping those of other devices. */
falt_status falt_limits_store(const falt_device *device);

#endif
