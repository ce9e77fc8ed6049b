/* The plan of cuda-igemm: cuda_igemm.c creates it, cuda_igemm_run.c prepares and executes it. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_IGEMM_H
#define FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_IGEMM_H

#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"

typedef struct falt_igemm_plan {
  falt_cuda_plan cuda; /* its memory: the constant, polyphase parts, table; its filter is packed */
  falt_cu_function pack;
  falt_cuda_igemm_args args;
  falt_cuda_igemm_pack_args pack_args;
  falt_igemm_tile tile;
  falt_igemm_polyphase (*polyphase)[3]; /* until the tables are on the GPU */
  int polyphases, groups, merged;       /* groups after merging; groups in one */
  int64_t blocks, pack_blocks;          /* along x */
  int64_t filter_bytes, partial_at;     /* partial_at: offset of the split-K sums in the workspace */
  falt_igemm_piece piece;               /* of the source */
  falt_igemm_evenly evenly;             /* with spans */
  bool fold, planar, split, y_aligned, spans;
} falt_igemm_plan;

static inline int64_t falt_igemm_size_of(const falt_tensor *t) {
  return (int64_t)falt_type_size(t->type);
}

/* The pieces of the depth of a product. */
falt_igemm_depth falt_igemm_depth_of(const falt_igemm_plan *plan, const falt_igemm_roles *r);
/* Pieces of a step of the depth: entries of the table. */
int falt_igemm_step_pieces(const falt_igemm_plan *plan);
/* Describes all polyphase parts with their offsets in the table and in the packed filter, and counts the entries and
 * bytes of both. `to` may be NULL. */
void falt_igemm_place_polyphases(const falt_igemm_plan *plan, const falt_igemm_roles *r, falt_cuda_igemm_polyphase *to,
                                 int64_t *entries, int64_t *bytes);

/* Compiles the kernels, uploads the tables, and packs a known filter. */
falt_status falt_igemm_ready(falt_plan *base);
void falt_igemm_execute(const falt_plan *base, const falt_operands *o);

#endif
