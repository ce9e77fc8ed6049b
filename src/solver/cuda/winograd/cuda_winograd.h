/* Shared by the solvers cuda-winograd and cuda-winograd-wgrad. */
#ifndef FALT_SOLVER_CUDA_WINOGRAD_CUDA_WINOGRAD_H
#define FALT_SOLVER_CUDA_WINOGRAD_CUDA_WINOGRAD_H

#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/winograd/cuda_winograd_args.h"

enum { FALT_WINOGRAD_THREADS = 128 /* of a block */, FALT_CUDA_WINOGRAD_FORMS = 4 };

/* The errors of a form along one axis, or along both. Units are those of a relative error: of the largest input times
 * the sum of the other factor's magnitudes. docs/internals/cuda-winograd.md has the measurements. */
typedef struct falt_cuda_winograd_accuracy {
  /* f32: of products of one term, in 2^-24; it falls with the root of the terms. From so many terms on it is below
   * that of a sum in sequence, and counts as rounding. */
  double error;
  int64_t least[2];
  double half[2]; /* 16 bits: of transforms, in units of their rounding; it does not count as rounding */
} falt_cuda_winograd_accuracy;

typedef struct falt_cuda_winograd_form {
  const char *name;
  int taps, outputs;                       /* along an axis */
  falt_cuda_winograd_accuracy accuracy[2]; /* one axis, two; in arrays of them: fprop and dgrad, wgrad */
} falt_cuda_winograd_form;
extern const falt_cuda_winograd_form falt_cuda_winograd_forms[FALT_CUDA_WINOGRAD_FORMS];

/* Whether a form has a problem's taps; its outputs and the elements of its transform along the height (0) or width. */
bool falt_cuda_winograd_applies(const falt_cuda_winograd_form *form, const falt_problem *problem);
int64_t falt_cuda_winograd_outputs(const falt_cuda_winograd_form *form, const falt_problem *problem, int axis);
/* Points of the transforms along both axes. */
int64_t falt_cuda_winograd_points(const falt_cuda_winograd_form *form, const falt_problem *problem);
/* Its declared error for so many terms; 0: it counts as rounding. */
double falt_cuda_winograd_error(const falt_cuda_winograd_form *form, const falt_problem *problem, int64_t terms);
/* Prints the form, and where only one axis is transformed which. */
void falt_cuda_winograd_print(const falt_cuda_winograd_form *form, const falt_problem *problem, falt_text *text);

/* The type of both factors, and of their transforms; a channel's or a tile's rows are padded to whole 16 bytes. */
falt_type falt_cuda_winograd_type(const falt_problem *problem);
int64_t falt_cuda_winograd_vector(const falt_problem *problem);

/* The reason that no form applies to a layer or a gradient, or NULL. */
const char *falt_cuda_winograd_refusal(const falt_ask *ask);

/* The arguments that belong to the source, in wgrad the input; and to the output and its residual. */
void falt_cuda_winograd_set_source(falt_cuda_winograd_args *args, const falt_problem *problem, const falt_tensor *x);
void falt_cuda_winograd_set_result(falt_cuda_winograd_args *args, const falt_tensor *y, const falt_tensor *residual);
/* The tiles of so many images; false if a launch cannot number them. */
bool falt_cuda_winograd_set_tiles(falt_cuda_winograd_args *args, const falt_cuda_winograd_form *form,
                                  const falt_problem *problem, int64_t images);

/* The products as a layer of 1x1 taps: `matrices` products of `far` rows and `near` rows, each of `depth` elements of a
 * type. The child packs the near ones, and rows of its output, in f32, have one element for each of them. */
falt_problem falt_cuda_winograd_products(falt_type type, int64_t matrices, int64_t far, int64_t near, int64_t depth);

/* Blocks whose threads are `lanes` neighbours along one dimension, and the others along the other one. */
int64_t falt_cuda_winograd_blocks(int64_t near, int64_t far, int lanes, int64_t groups);
void falt_cuda_winograd_start(falt_gpu *gpu, falt_cu_function function, int64_t blocks, falt_cuda_winograd_args *args,
                              void *stream);

/* Transforms in f16 are scaled by the largest magnitudes of their operand: whether they are; the kernels, which are
 * found if they are; the launches for x or dy, of the first of LARGEST floats; and for the filter, for each output
 * channel `row`, with the bytes that these take. */
typedef struct falt_cuda_winograd_finders {
  falt_cu_function parts, rows, all; /* of parts of an operand in f16, or of output channels; of all parts */
} falt_cuda_winograd_finders;
enum { FALT_WINOGRAD_LARGEST = FALT_WINOGRAD_PARTS + 1 };
bool falt_cuda_winograd_scales(const falt_problem *problem);
falt_status falt_cuda_winograd_find_kernels(falt_gpu *gpu, const falt_problem *problem,
                                            falt_cuda_winograd_finders *finders);
void falt_cuda_winograd_find_largest(falt_gpu *gpu, const falt_cuda_winograd_finders *finders,
                                     const falt_tensor *tensor, const void *data, double constant, float *largest,
                                     void *stream);
size_t falt_cuda_winograd_rows_bytes(const falt_tensor *filter, int row);
void falt_cuda_winograd_find_rows(falt_gpu *gpu, const falt_cuda_winograd_finders *finders, const falt_tensor *filter,
                                  int row, const void *data, float *largest, void *stream);

/* A kernel of the family with its common parameters. */
falt_cuda_kernel falt_cuda_winograd_kernel(const falt_problem *problem, const falt_cuda_winograd_form *form,
                                           const char *source, const char *entry, int lanes);

#endif
