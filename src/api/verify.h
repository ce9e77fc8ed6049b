/* Private to falt_verify: operands in guarded memory, their data, and what the results may differ by. */
#ifndef FALT_API_VERIFY_H
#define FALT_API_VERIFY_H

#include "planner/planner.h"

enum { FALT_GUARD = 4096, FALT_POISON = 0xFF };

typedef enum falt_operand {
  FALT_OPERAND_X,
  FALT_OPERAND_W,
  FALT_OPERAND_Y,
  FALT_OPERAND_BIAS,
  FALT_OPERAND_SCALE,
  FALT_OPERAND_RESIDUAL,
  FALT_OPERAND_COUNT
} falt_operand;

/* An operand between two guards. Bytes that belong to no element of the tensor, guards included, are 0xFF: NaN for
 * floats, so that reading them shows in the result, and writing them shows afterwards. */
typedef struct falt_guarded {
  bool used, written;
  falt_tensor tensor;
  char *memory, *kept; /* guard, elements, guard; a copy */
  size_t bytes;        /* of all of it */
} falt_guarded;

typedef struct falt_bench {
  falt_guarded operand[FALT_OPERAND_COUNT];
} falt_bench;

/* Lays out the operands of a problem and poisons them. */
falt_status falt_bench_open(falt_bench *bench, const falt_problem *problem);
void falt_bench_close(falt_bench *bench);
void *falt_guarded_data(const falt_guarded *operand);
falt_operands falt_bench_operands(const falt_bench *bench);

/* The same operands, guards included, in a device's own memory. */
typedef struct falt_mirror {
  void *memory[FALT_OPERAND_COUNT];
} falt_mirror;

falt_status falt_mirror_open(falt_mirror *mirror, falt_device *device, const falt_bench *bench);
void falt_mirror_close(falt_mirror *mirror, falt_device *device);
falt_operands falt_mirror_operands(const falt_mirror *mirror);
/* Copies everything to the device, and back. */
falt_status falt_mirror_send(const falt_mirror *mirror, falt_device *device, const falt_bench *bench);
falt_status falt_mirror_fetch(const falt_mirror *mirror, falt_device *device, falt_bench *bench);

/* Random data for everything that is read; a filter of the problem's rank if it has one. Keeps a copy. */
void falt_bench_fill(falt_bench *bench, const falt_problem *problem, uint64_t seed);
/* Magnitudes of another bench's data, as f64, where that one's elements are. */
void falt_bench_fill_magnitudes(falt_bench *bench, const falt_bench *from);
/* Poisons what is written. */
void falt_bench_poison(falt_bench *bench);
/* Whether nothing but the elements of the results was written since. Poisons the results. */
bool falt_bench_intact(falt_bench *bench);

/* Visits every element of a tensor: its index from data[0]. */
typedef void (*falt_visit)(void *context, int64_t index);
void falt_tensor_visit(const falt_tensor *tensor, falt_visit visit, void *context);

#endif
