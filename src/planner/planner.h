/* The planner's interface: solver, plan, device, and the question that the planner asks each solver. Knows no
 * algorithm; a device is a name, limits and a list of solvers. */
#ifndef FALT_PLANNER_PLANNER_H
#define FALT_PLANNER_PLANNER_H

#include "core/call.h"
#include "core/cpu.h"
#include "core/layout.h"
#include "core/thread.h"
#include "problem/problem.h"

typedef struct falt_solver falt_solver;
typedef struct falt_ask falt_ask;

/* The estimate of a plan. The planner orders plans by seconds. */
typedef struct falt_cost {
  double seconds;
  double error; /* relative, beyond the rounding of the result: e.g. low-rank truncation. Rounding is not counted */
} falt_cost;

/* The error of products with operands rounded to tf32, as budget.allow_tf32 allows. */
#define FALT_TF32_ERROR 0x1p-10

typedef struct falt_plan_table {
  void (*execute)(const falt_plan *plan, const falt_operands *operands);
  void (*print)(const falt_plan *plan, falt_text *text); /* the s-expression, parentheses included */
  void (*destroy)(falt_plan *plan);                      /* frees the plan and its resources */
  /* Prepares resources that only a chosen plan needs, such as compiled kernels. Called once, before the first execution
   * and before the plan is shared, while the filter values of planning are still valid. NULL: nothing to do. */
  falt_status (*ready)(falt_plan *plan);
} falt_plan_table;

/* How a solver makes its plans. Every solver's file ends with `choose`, these steps and the solver, which look alike
 * because they are tables of what differs. */
typedef struct falt_plan_steps {
  size_t size; /* bytes of the plan */
  falt_plan_table table;
  const char *(*inapplicable)(
      const falt_ask *ask); /* why the problem is not the solver's, or NULL; need not be there */
  /* Chooses tiles and children, and sets cost, workspace and alignment. Returns why that failed, or NULL; the text may
   * be ask->reason, or belong to the plan. */
  const char *(*choose)(falt_plan *plan, falt_ask *ask);
} falt_plan_steps;

/* State of falt_execute_host for a plan: plans for parts of its problem, and their inputs. */
typedef struct falt_plan_parts falt_plan_parts;
struct falt_plan_parts {
  void (*destroy)(falt_plan_parts *parts);
};

/* The operand checks of falt_execute: planner/operands.h. */
typedef struct falt_plan_operands falt_plan_operands;

/* Bytes that divide the address of an operand's first element; 0: any address will do. */
typedef struct falt_alignment {
  int input, filter, output, residual;
} falt_alignment;

/* The base of every plan: solvers embed it as their first member. */
struct falt_plan {
  const falt_plan_table *table;
  const falt_solver *solver;
  falt_device *device;
  falt_problem problem;
  falt_cost cost;
  size_t workspace;          /* bytes */
  falt_memory_layout layout; /* the workspace's parts; without any it is one */
  bool packed;               /* holds the filter; operands.filter is not read */
  bool ready;                /* falt_plan_ready succeeded */
  bool spreads, factors;     /* as in falt_solver: of this plan's solver or of a child's */
  bool mixes;                /* as in falt_solver: of this plan's solver or of a child's */
  bool splits;              /* it, or a child, multiplies numbers in parts: a result with an infinite term may be NaN */
  falt_alignment alignment; /* of its operands; other operands use its fallback */
  falt_plan *fallback;      /* the same problem, within its workspace, for operands that are not aligned; or NULL */
  falt_plan_parts *parts;
  falt_plan_operands *operands; /* NULL in children, which only their parents execute */
};

/* For `ready` of solvers that read a known filter in its layout: *copy becomes a copy of *values, which becomes NULL.
 * Does nothing where *values is NULL. FALT_OK or FALT_NO_MEMORY. */
falt_status falt_plan_copy_filter(const falt_plan *plan, const void **values, void **copy);

/* Makes a plan ready to run, once, by its table; further calls do nothing. A plan made of children calls it for them in
 * its own `ready`. */
falt_status falt_plan_ready(falt_plan *plan);

/* Executes a plan, or its fallback if an operand is not aligned. Children, too, are executed only by this function. */
void falt_plan_run(const falt_plan *plan, const falt_operands *operands);

/* One algorithm on one device kind. */
struct falt_solver {
  const char *name;
  const char *device_kind; /* "cpu", "cuda" */
  bool only_by_name;       /* a vendor's library, or not yet verified on its device: chosen only by name */
  bool nondeterministic;   /* sums in an order that depends on threads */
  /* A plan, or NULL with ask->reason set. The plan must be allocated by falt_plan_new. */
  falt_plan *(*plan)(const falt_solver *solver, falt_ask *ask);
  const falt_plan_steps *steps; /* for falt_plan_make and falt_cuda_plan_make */
  bool takes_factors;           /* computes filters given as factors; asked for them only if set */
  bool pools;                   /* computes layers with max pooling; asked for them only if set */
  bool spreads; /* zeros or terms are multiplied by elements that an output does not read: NaN is possible if one is not
                 * finite */
  bool factors; /* sums terms of a filter, not its taps: its error is relative to all taps times all of the window */
  bool mixes;   /* sums all inputs before it takes windows apart: its error is relative to all taps times the largest */
  double avx2;  /* its plans take so many times their estimate, which counts AVX-512, with AVX2; 0: the estimate */
  bool last_resort; /* chosen only if no other solver fits, for any cost: the reference */
  /* Solvers that take operands at any address, one of which makes the fallback of each of its plans; NULL: its plans
   * need none. */
  const falt_solver *const *fallbacks;
};

/* The question. */
struct falt_ask {
  const falt_problem *problem;
  const falt_budget *budget;
  falt_device *device;
  const void *filter_values;         /* host memory, or NULL if the filter is given with each execution */
  char reason[160];                  /* why not, one clause without a capital or a stop */
  bool no_memory;                    /* the reason is a failed allocation */
  const falt_solver *const *solvers; /* the solvers of falt_plan_child; NULL: falt_solvers */
  int depth;                         /* 0 for the caller's problem, 1 for a child of it, ... */
  bool own_gaps;                     /* gaps between the output's rows belong to the parent plan and may be written */
  uint64_t pick;                     /* which child falt_plan_child takes; 0: the cheapest. Verification's alone */
  bool spreads, factors, mixes, splits; /* of the children; falt_plan_child sets them */
};

/* Records the reason and returns NULL: return falt_refuse(ask, "the filter is not separable (rank %d)", rank). */
falt_plan *falt_refuse(falt_ask *ask, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same after a failed allocation: the planner then returns FALT_NO_MEMORY if nothing else fits. */
falt_plan *falt_refuse_memory(falt_ask *ask);

/* A zeroed plan of `size` bytes with its base filled, or NULL with the reason set. */
void *falt_plan_new(size_t size, const falt_plan_table *table, const falt_solver *solver, falt_ask *ask);

/* A solver's `plan`, by its steps; and the two halves of it, for devices whose plans share more than their base. */
falt_plan *falt_plan_make(const falt_solver *solver, falt_ask *ask);
void *falt_plan_begin(const falt_solver *solver, falt_ask *ask);
falt_plan *falt_plan_choose(falt_plan *plan, falt_ask *ask);

/* The base of plans that hand all of their problem to another plan: solvers embed it as their first member. */
typedef struct falt_parent {
  falt_plan base;
  falt_plan *child;
  void *values; /* the filter that was made for the child, until the child is ready; or NULL */
} falt_parent;
/* Plans the child, and takes its cost, workspace and `packed`. Returns why there is none, or NULL. */
const char *falt_parent_adopt(falt_parent *plan, falt_ask *ask, const falt_problem *problem, const void *filter_values);
void falt_plan_free(falt_plan *plan);      /* of plans that own nothing else */
void falt_parent_destroy(falt_plan *plan); /* the child and the values too */
falt_status falt_parent_ready(falt_plan *plan);
void falt_parent_print(const falt_plan *plan, falt_text *text); /* the child and the last parenthesis */

/* Plans a child problem. NULL with ask->reason set if nothing fits. The child is not ready to run, and filter_values
 * must be valid until it is. */
falt_plan *falt_plan_child(falt_ask *ask, const falt_problem *problem, const void *filter_values);
/* The budget of a child. */
typedef struct falt_child_terms {
  const falt_solver *const *solvers; /* NULL: falt_solvers */
  int64_t max_workspace;             /* bytes, as in falt_budget */
  bool own_gaps;                     /* the result is in the parent's memory: the child may write between its rows */
} falt_child_terms;

/* As falt_plan_child, with other terms than the parent's question. */
falt_plan *falt_plan_child_with(falt_ask *ask, const falt_problem *problem, const void *filter_values,
                                const falt_child_terms *terms);

/* Adds a child's workspace to a layout and returns its offset. */
static inline size_t falt_place_child(falt_memory_layout *layout, const falt_plan *child) {
  return child->layout.count ? falt_place_each(layout, 1, &child->layout) : falt_place_part(layout, child->workspace);
}

/* Executes a child that shares its workspace with another child, so the parent's layout does not know its gaps.
 * Sanitizers protect the gaps during the execution, and treat the workspace as unwritten before. */
void falt_plan_run_shared(const falt_plan *child, const falt_operands *operands);

/* Memory of devices that have their own, and waiting for them. */
typedef struct falt_device_memory {
  falt_status (*allocate)(falt_device *device, void **memory, size_t bytes); /* aligned to FALT_ALIGN at least */
  void (*release)(falt_device *device, void *memory);
  falt_status (*copy_in)(falt_device *device, void *to, const void *from, size_t bytes);
  falt_status (*copy_out)(falt_device *device, void *to, const void *from, size_t bytes);
  falt_status (*synchronize)(falt_device *device);
  falt_status (*trouble)(falt_device *device); /* the first failure of an execution on this thread, told once */
  bool (*reaches)(falt_device *device, const void *memory); /* whether kernels may read it; NULL: not known */
  /* Seconds of device time for a number of consecutive calls of body, which queue their work on the stream, by the
   * device's own clock; negative if that fails. NULL: the device has no clock. */
  double (*time)(falt_device *device, void *stream, void (*body)(void *context), void *context, long iterations);
} falt_device_memory;

/* Concurrent work: entries of one queue run in order, and concurrently with other queues. Marks are positions in
 * queues. All functions except wait return before the work is done. */
typedef struct falt_device_queues {
  falt_status (*room)(falt_device *device, size_t *bytes);              /* memory that is free */
  falt_status (*pin)(falt_device *device, void **memory, size_t bytes); /* host memory that copies reach directly */
  void (*unpin)(falt_device *device, void *memory);
  bool (*pinned)(falt_device *device, const void *memory); /* whether the caller's memory is of that kind */
  falt_status (*open)(falt_device *device, void **queue);
  void (*close)(falt_device *device, void *queue);
  falt_status (*make_mark)(falt_device *device, void **mark);
  void (*free_mark)(falt_device *device, void *mark);
  falt_status (*copy_in)(falt_device *device, void *to, const void *from, size_t bytes, void *queue);
  falt_status (*copy_out)(falt_device *device, void *to, const void *from, size_t bytes, void *queue);
  falt_status (*mark)(falt_device *device, void *mark, void *queue);   /* sets the mark after all queued work */
  falt_status (*follow)(falt_device *device, void *queue, void *mark); /* later work waits for the mark */
  falt_status (*wait)(falt_device *device, void *mark);                /* until the mark is passed */
  double (*between)(falt_device *device, void *begin, void *end);      /* seconds, of marks that are passed */
} falt_device_queues;

/* A place to run. Back ends embed it as their first member. */
struct falt_device {
  const char *kind;
  char name[96];
  falt_limits limits;
  falt_caches caches;
  falt_isa isa;          /* CPU devices */
  falt_threads *threads; /* CPU devices; the host's threads otherwise */
  struct falt_wisdom *wisdom;
  void (*destroy)(falt_device *device);
  falt_status (*measure)(falt_device *device);
  char model[64];                   /* identifies the processor: measurements hold for one machine only */
  unsigned verbose;                 /* the requested output: src/api/verbose.h */
  const falt_device_memory *memory; /* NULL: operands are in host memory, and executions end when they return */
  const falt_device_queues *queues; /* NULL: nothing overlaps */
  int64_t max_memory;               /* of falt_execute_host's slabs, in bytes; 0: a fraction of the free memory */
  struct falt_pipeline *pipeline;   /* falt_execute_host's buffers, once it was called */
  void *gpu;                        /* CUDA devices: the falt_gpu */
  bool described;                   /* not present: plans cannot be executed */
  falt_control control;             /* interrupting calls, and asking how far they are */
  /* Deterministic plans need the same solver in every run: a choice independent of this machine's speed, its threads
   * and measurements. This device has fixed limits and one thread; with budget.deterministic plans are chosen by their
   * cost there. NULL: by their own cost. */
  struct falt_device *steady;
};

/* Gives a device that is otherwise complete its steady twin; false if memory ran out. */
bool falt_device_steady_make(falt_device *device, const falt_limits *limits);
void falt_device_steady_free(falt_device *device);

/* Filters that come as factors and have so many taps at most, or one axis, can always be expanded to dense taps. */
enum { FALT_MOST_EXPANDED_TAPS = 1 << 16 };

/* NULL-terminated; defined by src/solver/registry.c. */
extern const falt_solver *const falt_solvers[];

/* Names that solvers had first, which budget.method takes until 0.3; ends with NULL. Defined there too. */
typedef struct falt_solver_alias {
  const char *old, *name;
} falt_solver_alias;
extern const falt_solver_alias falt_solver_aliases[];

/* The problems that a solver can compute in principle: a structure and a direction, or pooling. */
typedef enum falt_scope {
  FALT_SCOPE_FILTERS = 1 << 0,   /* one set of taps for all channels */
  FALT_SCOPE_DEPTHWISE = 1 << 1, /* one input channel in each group */
  FALT_SCOPE_LAYERS = 1 << 2,    /* sums over channels */
  FALT_SCOPE_POOLED = 1 << 3,    /* results that are the largest of several */
  FALT_SCOPE_FORWARD = 1 << 4,
  FALT_SCOPE_DATA = 1 << 5,    /* backward-data */
  FALT_SCOPE_WEIGHTS = 1 << 6, /* backward-filter */
  FALT_SCOPE_POOLING = 1 << 7  /* any operation of pooling */
} falt_scope;

typedef struct falt_solver_note {
  unsigned scope;    /* of falt_scope */
  const char *about; /* its problems and its method, one line */
} falt_solver_note;

/* In the order of falt_solvers; defined by src/solver/registry.c. */
extern const falt_solver_note falt_solver_notes[];
/* Whether the problem is of a solver's scope; true for solvers that are not in the list. */
bool falt_solver_covers(const falt_solver *solver, const falt_problem *problem);

/* Roofline: seconds for this much work at `efficiency` of the multiply-add peak of `type` (f32 or f64), never faster
 * than the bytes allow, plus a start-up of a few microseconds when threads must be woken. */
double falt_roofline(const falt_device *device, falt_type type, double flops, double efficiency, double bytes);
/* Whether the outputs of a call that moves so many bytes bypass the caches: the first are gone before the last come. */
bool falt_bypasses_caches(const falt_device *device, double bytes);
/* The number of f16 or bf16 products for each f32 product: `expected`, or the measured ratio of this machine if that is
 * less. Without a matrix unit some cores multiply pairs twice as fast as floats, some half as fast. */
double falt_halves_speed(const falt_device *device, double expected);
/* The time of so many equal tasks on the device's threads, divided by that of perfectly balanced work. */
double falt_load_imbalance(const falt_device *device, int64_t tasks);
/* Seconds in which all threads together load a filter of so many bytes for each of `blocks` blocks of positions.
 * Nothing if its `chunks` stay in the private caches, and for two threads, whose caches are near. */
double falt_filter_loads(const falt_device *device, double bytes, int64_t blocks, int64_t chunks);
/* Whether the device has so many threads that loading what another one has just written takes much longer than what a
 * thread wrote itself: more than two. */
bool falt_caches_are_far(const falt_device *device);
/* falt_load_imbalance where caches are far, else 1: estimates for two threads were fitted without it. */
double falt_far_imbalance(const falt_device *device, int64_t tasks);
/* Seconds in which a thread loads so many bytes that other threads have just written. Nothing for two threads, whose
 * caches are near. */
double falt_load_written(const falt_device *device, double bytes);
/* Seconds in which a thread loads so many bytes that every thread loads, such as a packed filter. */
double falt_load_shared(const falt_device *device, double bytes);
/* Seconds in which so many loops over all threads begin and end, beside the first one. Nothing for two threads. */
double falt_loop_starts(const falt_device *device, int64_t loops);
/* The estimate for one thread that corresponds to `seconds`: the cost of a child that runs inside a task. */
double falt_roofline_alone(const falt_device *device, double seconds);

#endif
