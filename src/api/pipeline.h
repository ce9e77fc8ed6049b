/* The pipeline of slabs: host copies, device copies in and out, and computation, all concurrent. */
#ifndef FALT_API_PIPELINE_H
#define FALT_API_PIPELINE_H

#include "api/slabs.h"
#include "planner/planner.h"

typedef struct falt_pipeline falt_pipeline;

/* Cuts the plan's problem for its device; false if it is to be done as a whole. */
bool falt_pipeline_cut(const falt_plan *plan, falt_slabs *slabs);

/* Runs all slabs on operands in host memory. Adds to *stages. FALT_NO_SOLVER or FALT_OVER_BUDGET before anything is
 * written if there is no plan for a slab. Concurrent calls run one after the other. */
falt_status falt_pipeline_run(const falt_plan *plan, const falt_slabs *slabs, const falt_operands *operands,
                              falt_stages *stages);

/* Frees a device's pipeline. */
void falt_pipeline_destroy(falt_device *device);

#endif
