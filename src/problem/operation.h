/* Operations and operands: one table defines what each operation reads and writes. */
#ifndef FALT_PROBLEM_OPERATION_H
#define FALT_PROBLEM_OPERATION_H

#include "core/types.h"

typedef enum falt_operand {
  FALT_INPUT,
  FALT_FILTER,
  FALT_OUTPUT,
  FALT_BIAS,
  FALT_SCALE,
  FALT_RESIDUAL,
  FALT_OPERANDS,                  /* how many a problem has */
  FALT_WORKSPACE = FALT_OPERANDS, /* which a plan has besides */
  FALT_ADDRESSES
} falt_operand;

typedef struct falt_operation_traits {
  const char *name; /* the problem line's word */
  bool is_pooling, is_gradient;
  falt_operand factor[2]; /* the operands of its products; pooling has one, twice */
  falt_operand result;    /* its output, in addition to a bias */
  falt_operand shape;     /* the tensor of the result */
  unsigned reads;         /* a bit for each operand; without epilogue */
} falt_operation_traits;

extern const falt_operation_traits falt_operations[FALT_OPERATION_COUNT];

bool falt_is_pooling(falt_operation operation);
/* Whether the filter is one of the factors. */
bool falt_reads_filter(falt_operation operation);

/* The tensor that the operation writes. */
const falt_tensor *falt_problem_result(const falt_problem *problem);
/* The tensors of the two factors. */
const falt_tensor *falt_problem_factor(const falt_problem *problem, int which);
/* A tensor of the problem; NULL for bias and scale. */
falt_tensor *falt_problem_tensor(falt_problem *problem, falt_operand which);
/* Any operand as the operation uses it: of bias and scale the vector along K, of the residual of backward-maxpool dx.
 */
falt_tensor falt_operand_tensor(const falt_problem *problem, falt_operand which);

/* A bit for each operand that a problem has, and for each that it writes. */
unsigned falt_operands_used(const falt_problem *problem);
unsigned falt_operands_written(const falt_problem *problem);

/* The pointer to an operand or to the workspace. */
void **falt_operand_at(falt_operands *operands, falt_operand which);
void *falt_operand_data(const falt_operands *operands, falt_operand which);
/* The pointer to a factor and to the result of an operation. */
void *falt_factor_data(falt_operation operation, const falt_operands *operands, int which);
void *falt_result_data(falt_operation operation, const falt_operands *operands);

/* Whether the input, the output, the filter (if any), or the accumulator is f64. */
bool falt_problem_has_f64(const falt_problem *problem);
/* Whether the same, or an s32 in the input or output, keeps it from f32. */
bool falt_problem_fits_f32(const falt_problem *problem);
/* Whether all tensors are f32, and whether sums are too. */
bool falt_tensors_are_f32(const falt_problem *problem);
bool falt_problem_is_f32(const falt_problem *problem);
bool falt_problem_is_f64(const falt_problem *problem);
/* Whether input and filter are integers, whose sums must be exact. */
bool falt_problem_sums_integers(const falt_problem *problem);

#endif
