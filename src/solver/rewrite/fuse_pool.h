/* A layer with max pooling as two problems: the layer, and max pooling of its output. */
#ifndef FALT_SOLVER_REWRITE_FUSE_POOL_H
#define FALT_SOLVER_REWRITE_FUSE_POOL_H

#include "planner/planner.h"

/* Why a problem is not these two, or NULL. */
const char *falt_pooled_refusal(const falt_problem *problem);
/* The layer alone; its outputs are dense, in the order of the output's channels. */
falt_problem falt_pooled_layer(const falt_problem *problem);
/* Pooling from those outputs to the problem's output. */
falt_problem falt_pooled_pooling(const falt_problem *problem, const falt_tensor *results);

#endif
