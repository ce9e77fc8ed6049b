/* Private declarations of falt_verify: guarded operands, their data, executions and tolerances. */
#ifndef FALT_API_VERIFY_H
#define FALT_API_VERIFY_H

#include "core/sanitize.h"
#include "planner/planner.h"

/* Bytes before and behind an operand or a workspace. A sanitizer guards allocations itself, to the byte, and would take
 * guards for a part of them. */
enum { FALT_GUARD = FALT_EXACT_ALLOCATION ? 0 : 4096 };

/* The content of memory that no execution may read: NaN in floats and -1 in integers, or large finite numbers. */
enum { FALT_POISON = 0xFF, FALT_POISON_FINITE = 0x5A };

/* ---- operands */

/* An operand that starts `skew` elements after an address aligned to FALT_ALIGN. Bytes of no element, guards included,
 * are poisoned: reading them shows in the output, writing them is detected afterwards. */
typedef struct falt_guarded {
  bool used, written;
  falt_tensor tensor;
  size_t lead, bytes;             /* before data[0], guard included; of all of it */
  unsigned char *memory;          /* guard, skew, elements, guard */
  unsigned char *kept, *elements; /* a copy of the inputs; 0xFF where memory belongs to an element, else 0 */
} falt_guarded;

typedef struct falt_bench {
  falt_guarded operand[FALT_OPERANDS];
  unsigned char poison; /* as last poisoned */
} falt_bench;

/* Lays out the operands of a problem and poisons them. Equal seeds give equal skews; 0 gives none. */
falt_status falt_bench_open(falt_bench *bench, const falt_problem *problem, uint64_t seed);
void falt_bench_close(falt_bench *bench);
void *falt_guarded_data(const falt_guarded *operand);
falt_operands falt_bench_operands(const falt_bench *bench);
/* Fills all that is neither read nor an element of something read with the byte. */
void falt_bench_poison(falt_bench *bench, unsigned char byte);
/* Copies the inputs. */
void falt_bench_keep(falt_bench *bench);
/* Copies everything into a bench of the same problem and seed. */
void falt_bench_copy(falt_bench *to, const falt_bench *from);
/* Restores the inputs from the copy, with the present poison in gaps. */
void falt_bench_restore(falt_bench *bench);
/* Whether nothing but the elements of the results was written since the bench was poisoned and kept. */
bool falt_bench_intact(const falt_bench *bench);
/* Whether the results have the same bits; any NaN is as good as another. Elements that are NaN in `open` may differ;
 * NULL: none. */
bool falt_bench_same(const falt_bench *a, const falt_bench *b, const falt_bench *open);

/* Visits every element of a tensor: its index from data[0]. */
typedef void (*falt_visit)(void *context, int64_t index);
void falt_tensor_visit(const falt_tensor *tensor, falt_visit visit, void *context);

/* The same operands, guards included, in a device's own memory. */
typedef struct falt_mirror {
  void *memory[FALT_OPERANDS];
  size_t lead[FALT_OPERANDS];
} falt_mirror;

falt_status falt_mirror_open(falt_mirror *mirror, falt_device *device, const falt_bench *bench);
void falt_mirror_close(falt_mirror *mirror, falt_device *device);
falt_operands falt_mirror_operands(const falt_mirror *mirror);
/* Copies everything to the device, and back. */
falt_status falt_mirror_send(const falt_mirror *mirror, falt_device *device, const falt_bench *bench);
falt_status falt_mirror_fetch(const falt_mirror *mirror, falt_device *device, falt_bench *bench);

/* ---- data */

typedef enum falt_filling {
  FALT_FILL_PLAIN,      /* floats in [-1, 1), integers near zero or over their range */
  FALT_FILL_SPARSE,     /* the same, mostly zeros of both signs */
  FALT_FILL_ENDS,       /* many elements at the ends of the type's range, as far as sums stay in the accumulator's */
  FALT_FILL_SCALED,     /* magnitudes far from one: a power of two for each operand */
  FALT_FILL_NOT_FINITE, /* a few NaNs and infinities among the floats */
  FALT_FILL_COUNT
} falt_filling;

/* Random data for everything that is read; a filter of the problem's rank if it has one. Keeps a copy. */
void falt_bench_fill(falt_bench *bench, const falt_problem *problem, falt_filling filling, uint64_t seed);
/* What a result's error is relative to. */
typedef enum falt_measure {
  FALT_MEASURE_TERMS,    /* the magnitudes of its products */
  FALT_MEASURE_FACTORED, /* each tap is the sum of all: a filter is close to its terms in that measure only */
  FALT_MEASURE_MIXED     /* each input is the largest of all; backward-data, which leaves taps out, also each tap */
} falt_measure;

/* Magnitudes of another bench's data, as f64, where that one's elements are; 0 for what is not finite. */
void falt_bench_fill_magnitudes(falt_bench *bench, const falt_problem *problem, const falt_bench *from,
                                falt_measure measure);
/* The largest magnitude of an operand's finite elements; 0 of one that is not read. */
double falt_bench_largest(const falt_bench *bench, falt_operand which);

/* ---- executions */

/* How a plan is executed. */
typedef enum falt_manner {
  FALT_PLAINLY,
  FALT_FROM_HOST, /* by falt_execute_host, which finds the workspace itself */
  FALT_TWICE_AT_ONCE,
  FALT_AFTER_OTHER_DATA,
  FALT_MANNER_COUNT
} falt_manner;

enum { FALT_TROUBLE = 320 };

/* The state of verifying one problem. */
typedef struct falt_verification {
  const falt_solver *const *solvers;
  falt_device *device, *host; /* the reference runs on the host */
  falt_device *rival;         /* gives the same bits with another number of threads; or NULL */
  uint64_t pick;              /* which children plans have: falt_ask.pick */
  falt_mirror mirror;         /* of data, where the device has memory of its own */
  const falt_problem *problem;
  const falt_budget *budget;
  uint64_t seed;
  falt_filling filling;
  falt_bench data, expected, magnitudes; /* operands; the reference's results; sums of magnitudes */
  falt_bench term_magnitudes;            /* the same for solvers that factor filters */
  falt_bench mixed_magnitudes;           /* and for those that mix inputs, once one of them was met */
  bool factors;                          /* whether the problem has a filter that they might factor */
  bool mixed;                            /* whether the magnitudes of mixed inputs are there */
  falt_bench before, other;              /* results of another execution; operands of one that happens beside it */
  falt_verdict *verdicts;                /* one a solver, in the order of solvers */
  char (*troubles)[FALT_TROUBLE];        /* the same; empty: nothing */
} falt_verification;

/* Executes on poisoned memory; the output is in v->data. Returns NULL, or an error other than a wrong output. */
const char *falt_verify_execute(falt_verification *v, const falt_plan *plan, falt_manner manner, unsigned char poison);

/* Whether results may be numbers where the reference is NaN: a product of a weight that is not finite and the zero
 * beyond an edge may be NaN or left out. */
bool falt_verify_leaves_out(const falt_verification *v);
/* Compares v->data with the expected output and updates the verdict. */
void falt_verify_compare(const falt_verification *v, const falt_plan *plan, falt_verdict *verdict);

/* falt_verify over a list of solvers. */
falt_status falt_verify_solvers(const falt_solver *const *solvers, falt_device *device, const falt_problem *problem,
                                const falt_budget *budget, uint64_t seed,
                                void (*report)(void *context, const falt_verdict *verdict), void *context);

#endif
