/* Faltung: convolution in every form, on signals, images, volumes and network layers.
 *
 * Three tiers, each complete in itself:
 *
 *   1. one call           falt_correlate, falt_convolve
 *   2. plan and execute   falt_problem_*, falt_plan_create, falt_execute
 *   3. wisdom             falt_wisdom_*, falt_explain, falt_verify: measure, remember, ask why
 *
 * Conventions that hold everywhere:
 *   - Sizes, strides and offsets are int64_t and count elements, never bytes, unless a name says so.
 *   - Logical order is batch, group, channel, depth, height, width, whatever the memory order.
 *   - Functions return falt_status. FALT_OK is 0. After any other value falt_message() says, in one line and
 *     for this thread, which argument was wrong and why. Any of them may return FALT_INVALID_ARGUMENT (NULL where
 *     an address is needed, a value outside its range) and FALT_NO_MEMORY; comments say what else one returns.
 *   - Structs are filled by their default function first, then changed field by field. Their `reserved` fields stay
 *     zero: anything else is FALT_INVALID_ARGUMENT.
 *   - Functions that return no status take NULL: they do nothing and return 0 or "", or as their comment says.
 *   - The library prints nothing, never exits, and falt_execute neither allocates, waits for a lock nor tunes.
 *   - Long calls can be interrupted, by falt_device_interrupt, and tell how far they are, by falt_device_progress.
 *   - A callback (falt_progress, falt_pool, the report functions) must return. It must not leave by longjmp, and no C++
 *     exception may leave it: other threads still work for the call and use its stack frames.
 *   - Handles are destroyed by a function that takes their address and sets them to NULL; NULL is accepted.
 *
 * The operation inside is always cross-correlation,
 *
 *     y[n,g,k,o] = sum over c and taps j of  w[k,g,c,j] * x[n,g,c, o*stride + j*dilation - pad],
 *
 * and a true convolution is the same thing with the filter's spatial strides negated.
 */
#ifndef FALTUNG_H
#define FALTUNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FALT_VERSION_MAJOR 0
#define FALT_VERSION_MINOR 1
#define FALT_VERSION_PATCH 0

#if defined(_WIN32)
#define FALT_API
#else
#define FALT_API __attribute__((visibility("default")))
#endif

/* ------------------------------------------------------------------------------------------------ status */

/* Ranges: 1.. the caller's mistake, 100.. impossible within the budget, 150.. ended by the caller, 200.. the
 * environment, 300.. a bug. */
typedef enum falt_status {
  FALT_OK = 0,
  FALT_INVALID_ARGUMENT = 1, /* a null pointer, a value outside its enumeration, an inconsistent struct */
  FALT_INVALID_TYPE,         /* types that have no meaning together */
  FALT_INVALID_SIZE,         /* a size is zero, negative, or the product exceeds 2^63 - 1 bytes */
  FALT_INVALID_SHAPE,        /* sizes that do not agree with each other */
  FALT_INVALID_TEXT,         /* a problem line or a wisdom text that does not parse */
  FALT_INVALID_METHOD,       /* no solver has this name */
  FALT_OVER_BUDGET = 100,    /* solvers apply, but none within workspace, error, determinism or tuning time */
  FALT_NO_SOLVER,            /* the named solver does not apply to this problem */
  FALT_CANCELLED = 150,      /* falt_device_interrupt, or a progress function that returned false */
  FALT_NO_MEMORY = 200,
  FALT_NO_DEVICE,     /* the device is absent or was lost */
  FALT_NO_FILE,       /* a cache or wisdom file cannot be read or written */
  FALT_INTERNAL = 300 /* a bug in the library: please report the problem line */
} falt_status;

/* The enumerator's name, such as "FALT_INVALID_SIZE". Never NULL. Since 0.1. */
FALT_API const char *falt_status_name(falt_status status);

/* The message of this thread's last failing call: one line, "argument: why; what to do". Never NULL.
 * Valid until the next failing call on the same thread. Since 0.1. */
FALT_API const char *falt_message(void);

/* "0.1.0". Since 0.1. */
FALT_API const char *falt_version(void);

/* ------------------------------------------------------------------------------------------------- types */

typedef enum falt_type {
  FALT_U8,
  FALT_S8,
  FALT_U16,
  FALT_S16,
  FALT_S32,
  FALT_F16,
  FALT_BF16,
  FALT_F32,
  FALT_F64,
  FALT_TYPE_COUNT
} falt_type;

/* "u8", "f32", ... Never NULL. Since 0.1. */
FALT_API const char *falt_type_name(falt_type type);
/* Bytes of one element. Since 0.1. */
FALT_API size_t falt_type_size(falt_type type);

/* How a boundary continues a signal a b c d beyond its ends. */
typedef enum falt_boundary {
  FALT_CONSTANT,   /* k k k [a b c d] k k k   the problem's boundary_value */
  FALT_EDGE,       /* a a a [a b c d] d d d */
  FALT_SYMMETRIC,  /* c b a [a b c d] d c b   half-sample: the edge is repeated */
  FALT_REFLECT101, /* d c b [a b c d] c b a   whole-sample: the edge is not repeated */
  FALT_WRAP,       /* b c d [a b c d] a b c */
  FALT_BOUNDARY_COUNT
} falt_boundary;

typedef enum falt_mode {
  FALT_SAME,  /* as large as the input (divided by the stride, rounded up) */
  FALT_VALID, /* only where the filter is inside the input */
  FALT_FULL   /* wherever the filter touches the input */
} falt_mode;

typedef enum falt_activation {
  FALT_IDENTITY,
  FALT_RELU,
  FALT_RELU6,
  FALT_LEAKY, /* x > 0 ? x : a*x        a = act_a, default 0.01 */
  FALT_SILU,  /* x / (1 + exp(-x)) */
  FALT_GELU,  /* x/2 * (1 + erf(x/sqrt 2)), the exact form */
  FALT_SIGMOID,
  FALT_TANH,
  FALT_CLIP, /* min(max(x, act_a), act_b) */
  FALT_ACTIVATION_COUNT
} falt_activation;

typedef enum falt_operation {
  FALT_FORWARD,          /* reads input, filter; writes output */
  FALT_BACKWARD_DATA,    /* reads output (dy), filter; writes input (dx). Transposed convolution */
  FALT_BACKWARD_FILTER,  /* reads input, output (dy); writes filter (dw), and bias (db) where has_bias */
  FALT_MAXPOOL,          /* reads input; writes output. NaN wins over every number */
  FALT_AVGPOOL,          /* reads input; writes output */
  FALT_BACKWARD_MAXPOOL, /* reads input, output (dy); writes dx, laid out as the input, to operands.residual */
  FALT_BACKWARD_AVGPOOL, /* reads output (dy); writes input (dx) */
  FALT_OPERATION_COUNT
} falt_operation;

/* When the filter's values are given. A plan for known values may differ from one for values given later. */
typedef enum falt_filter_when {
  FALT_FILTER_AUTO,  /* as falt_plan_create's filter_values say */
  FALT_FILTER_GIVEN, /* with each execution, as weights in training */
  FALT_FILTER_KNOWN  /* at planning: falt_execute reads no filter, as in inference */
} falt_filter_when;

/* ----------------------------------------------------------------------------------------------- problem */

/* Index of each logical dimension in size[] and stride[]. A filter uses K where data uses N. */
enum { FALT_N = 0, FALT_K = 0, FALT_G = 1, FALT_C = 2, FALT_D = 3, FALT_H = 4, FALT_W = 5, FALT_DIMS = 6 };

/* One operand. Element (i0..i5) is at data[offset + sum of i*stride]. A stride of 0 repeats an element along that
 * dimension (inputs only); a negative stride walks backwards, with offset at the logical first element.
 *   input   {N, G, C,  D,  H,  W}    C channels in each of G groups
 *   filter  {K, G, C,  T,  R,  S}    K outputs in each group
 *   output  {N, G, K, OD, OH, OW}
 * Pooling has K = C = 1 and all channels in G; its filter has only T, R, S and no data. */
typedef struct falt_tensor {
  falt_type type;
  int64_t size[FALT_DIMS];
  int64_t stride[FALT_DIMS];
  int64_t offset;
} falt_tensor;

/* One spatial axis. out[i] = sum over j of in[i*stride + j*dilation - pad[0]] * w[j].
 *
 * The pads count the elements that lie beyond the input, where the boundary continues it: pad[0] before the first one,
 * pad[1] after the last one. Both may be any size, also negative: the input is then cropped. In layers pad[1] is the
 * caller's choice and decides the output's size. In filters pad[0] is the anchor times the dilation, the mode decides
 * the output's size, and pad[1] follows from it. For example an input of 5 elements and 3 taps at stride 1:
 *   pad {1,1}: 5 outputs. in[-1] and in[5] are beyond; out[0] reads in[-1] to in[1], out[4] reads in[3] to in[5].
 *   pad {2,0}: 5 outputs. Each sees the two elements before its own: a causal filter.
 *   pad {0,0}: 3 outputs, all inside.   pad {0,-1}: 2 outputs, as if in[4] were not there.
 * With stride 2 and an input of 6, pad {1,1} gives 3 outputs: in[6] is beyond but no output reads it. */
typedef struct falt_axis {
  int64_t stride;            /* at least 1 */
  int64_t dilation;          /* at least 1; 1 means none */
  int64_t pad[2];            /* before, after */
  falt_boundary boundary[2]; /* before, after */
} falt_axis;

/* What to compute. Plain data: copy it freely. */
typedef struct falt_problem {
  falt_operation operation;
  bool is_filter; /* written with a filter's words (correlate, convolve) rather than a layer's; changes no value */
  int space;      /* 1, 2 or 3: axes before the last `space` ones have size 1 */
  falt_tensor input, filter, output, residual;
  falt_axis axis[3];     /* depth, height, width */
  double boundary_value; /* the value beyond the edges for FALT_CONSTANT */
  falt_type accumulator; /* FALT_F32, FALT_F64 or FALT_S32 */
  int rank;              /* number of separable terms that the filter's values are known to have; 0: not known */
  /* y = act(alpha * scale[g,k] * acc + bias[g,k] + beta + residual), then rounded to the nearest integer, ties to even,
   * and saturated if y is an integer. scale and bias have G*K elements, of type f64 if the output is f64 and f32
   * otherwise. */
  double alpha, beta;
  bool has_scale, has_bias, has_residual;
  falt_activation activation;
  double act_a, act_b;
  bool count_pad; /* average pooling divides by the window's size even where it hangs over the edge */
  /* Forward layers without a residual: each result is the largest of pool[0] x pool[1] x pool[2] neighbouring values of
   * y, rounded to the output's type, and the output is that much smaller; y at the end that fills no window is left
   * out. NaN is the largest of floats and 0 among integers. 1 everywhere: no pooling */
  int64_t pool[3];              /* depth, height, width */
  falt_filter_when filter_when; /* other than FALT_FILTER_AUTO only where the operation reads a filter */
  /* 0: the filter's pointer holds its taps, as `filter` describes them. M > 0, for filters (is_filter) of floating type
   * and without rank: it holds M terms of one factor an axis, and tap [t][r][s] is the sum over the terms of
   * d[t] * h[r] * w[s]. Their M * (T + R + S) values lie densely, term by term, in each term the factor along depth,
   * then height, then width; an axis of one tap has one value. They are finite. `filter` keeps the sizes, the type and
   * the strides of dense taps, which no memory holds: one filter for all groups, backwards along all axes for a true
   * convolution. */
  int factors;
  uint64_t reserved[4];
} falt_problem;

/* Limits that a plan must obey. */
typedef struct falt_budget {
  int64_t max_workspace; /* bytes; negative: no limit. 0 is allowed and always possible */
  double tune_seconds;   /* 0: choose by estimate; otherwise measure the candidates for about so long */
  double max_error;      /* largest relative error allowed to trade for speed; 0: only rounding errors */
  /* Same bits in every run and for every number of threads. The planner then ignores measured limits, tuning and
   * wisdom, which belong to one machine. A workspace limit still excludes plans that need more, and some plans need
   * more with more threads: for the same bits with any number of threads set no limit, or 0. On a GPU a plan may have a
   * second kernel, with other bits, for operands whose addresses 16 bytes do not divide. */
  bool deterministic;
  bool allow_tf32;
  char method[32];    /* a solver's name, or empty for any */
  bool no_transforms; /* no FFT, no Winograd: sums of zeros are 0, sums of products >= 0 are >= 0. Since 0.1 */
  uint64_t reserved[8];
} falt_budget;

/* Fills *problem with a forward f32 problem of one element. Since 0.1. */
FALT_API void falt_problem_default(falt_problem *problem);
/* Fills *budget: no limits, estimate, flags off, any method. Since 0.1. */
FALT_API void falt_budget_default(falt_budget *budget);

/* Reads one problem line, such as "correlate h=480 w=640 r=3 s=3 boundary=edge type=u8"; docs/guide/problem-line.md
 * lists the words. The result passed falt_problem_check. budget may be NULL; words that belong to it are then an error.
 * Returns FALT_INVALID_TEXT or what falt_problem_check returns. Since 0.1. */
FALT_API falt_status falt_problem_parse(falt_problem *problem, falt_budget *budget, const char *line);

/* Writes the canonical line, NUL-terminated, into text[0..size), cut if it does not fit. budget may be NULL.
 * Returns the length of the whole line without the NUL, as snprintf does. Parsing that line gives an equal problem.
 * Since 0.1. */
FALT_API size_t falt_problem_print(const falt_problem *problem, const falt_budget *budget, char *text, size_t size);

/* Whether the problem makes sense: every size, stride, type and enumeration. Returns FALT_INVALID_TYPE,
 * FALT_INVALID_SIZE or FALT_INVALID_SHAPE. Since 0.1. */
FALT_API falt_status falt_problem_check(const falt_problem *problem);

/* 64-bit hash of the canonical problem; equal problems have equal hashes on every machine. Since 0.1. */
FALT_API uint64_t falt_problem_hash(const falt_problem *problem);

/* When the filter is there, for callers without a pointer that decides: as the problem says, otherwise given for layers
 * and known for filters (correlate, convolve). FALT_FILTER_AUTO for operations that read no filter, and for NULL. Never
 * fails. Since 0.1. */
FALT_API falt_filter_when falt_problem_filter_when(const falt_problem *problem);

/* The number of elements that the filter's pointer holds, from the first to the last of `filter`, or factors *
 * (T + R + S). 0 for pooling and for NULL. The problem passed falt_problem_check. Since 0.1. */
FALT_API int64_t falt_problem_filter_elements(const falt_problem *problem);

/* Gives a tensor dense strides for a layout: "nchw" "nhwc" "ncdhw" "ndhwc" "ncw" "nwc" for data (the channel is G*C
 * with G outermost), "oihw" "ohwi" "hwio" and their 1D and 3D forms for filters. The letters name the order in memory,
 * slowest first. Sets stride and offset, reads size. Returns FALT_INVALID_SIZE, or FALT_INVALID_SHAPE where the layout
 * has no letter for a dimension. Since 0.1. */
FALT_API falt_status falt_tensor_layout(falt_tensor *tensor, const char *layout);

/* Sets output.size (and dense strides in the order of the input's) from the input, the filter, stride, dilation and pad
 * of each axis: floor((I + pad[0] + pad[1] - E) / stride) + 1 with E = dilation*(K-1) + 1, and that over pool, rounded
 * down. Returns FALT_INVALID_SIZE, or FALT_INVALID_SHAPE where that leaves no output. Since 0.1. */
FALT_API falt_status falt_problem_output(falt_problem *problem);

/* A range of output rows along one axis as a separate problem, for arrays that are computed in parts. */
typedef struct falt_part {
  int64_t first, last;  /* the input rows [first, last) that the part reads; may be outside the input */
  falt_problem problem; /* computes the rows; its input's row 0 is `first`, its output's row 0 is `begin` */
} falt_part;

/* Describes output rows [begin, begin + count) along axis 0, 1 or 2 (depth, height, width) of a forward problem. In
 * place of a row outside the input the caller puts a copy of the row that falt_problem_row names; rows beyond a
 * constant boundary are never among them. All rows at once are the problem itself. For example the first 100 rows of an
 * image whose rows come one after the other, `width` pixels each (input.stride[FALT_H] == width):
 *
 *   falt_part part;
 *   falt_problem_part(&part, &problem, 1, 0, 100);               axis 1: the height
 *   for (int64_t r = part.first; r < part.last; r++)             from -1 to 101 for 3 taps and the boundary edge
 *     memcpy(rows + (r - part.first) * width, row(falt_problem_row(&problem, 1, r)), width * sizeof *rows);
 *   falt_plan_create(&plan, device, &part.problem, NULL, taps);  input: rows; output: the result's rows 0 to 99
 *
 * Since 0.1. */
FALT_API falt_status falt_problem_part(falt_part *part, const falt_problem *problem, int axis, int64_t begin,
                                       int64_t count);
/* The input row at any `row` of an axis, as its boundary continues it; -1 for the constant, and for NULL.
 * Since 0.1. */
FALT_API int64_t falt_problem_row(const falt_problem *problem, int axis, int64_t row);

/* ------------------------------------------------------------------------------------------------ device */

/* Where plans run. A device owns its threads; any number of plans may share it, from any thread. A CPU device's threads
 * start with its first plan, and no execution starts any. A device without plans has none. After fork the child
 * has none of them: there a plan runs on the calling thread alone. A device made by the child has threads again; make
 * plans in the child on that one, and do not fork while another thread plans. */
typedef struct falt_device falt_device;

/* Runs body(context, i) for every i in [0, count), in any order and on any threads, and returns when all are done. */
typedef void (*falt_pool)(void *pool, int64_t count, void (*body)(void *context, int64_t index), void *context);

typedef struct falt_cpu_options {
  int threads;    /* 0: FALTUNG_THREADS if set, else one per core this process may use. Never exceeded */
  char isa[16];   /* highest instruction set: "portable" "avx2" "avx512" "vnni" "bf16" "amx" "neon"; empty: FALTUNG_ISA,
                     else the best */
  falt_pool pool; /* NULL: the device's own threads */
  void *pool_data; /* first argument of pool */
  uint64_t reserved[8];
} falt_cpu_options;

/* Fills *options: every core, the best instruction set, the device's own threads. Since 0.1. */
FALT_API void falt_cpu_options_default(falt_cpu_options *options);
/* Makes a CPU device in *device, NULL on failure. options may be NULL for defaults. Words in the environment that mean
 * nothing are FALT_INVALID_ARGUMENT; without options a FALTUNG_DEVICE that is no CPU is FALT_NO_DEVICE. Destroy it
 * after its plans. Since 0.1. */
FALT_API falt_status falt_device_cpu(falt_device **device, const falt_cpu_options *options);

typedef struct falt_cuda_options {
  int ordinal;   /* the GPU's number, from 0; default 0 */
  void *context; /* the caller's CUcontext, which must outlive the device; NULL: the GPU's primary context */
  int threads;   /* of the host, which copy for falt_execute_host; 0: FALTUNG_THREADS if set, else up to 16 */
  int64_t
      max_memory; /* bytes that falt_execute_host uses for arrays that it can pass in slabs; 0: a quarter of the free */
  /* "h200" or "sm_90a": describes a GPU. Neither the GPU nor a driver need exist. Plans on it can be made, printed and
   * explained by estimate, but not executed. Empty: the GPU itself. */
  char described[32];
  bool compile; /* kernels for the described GPU are compiled, with NVRTC, into the cache, to be used elsewhere */
  uint64_t reserved[8];
} falt_cuda_options;

/* Counts the GPUs: 0 also where there is no driver. FALT_NO_DEVICE where a driver is there and does not work. Since
 * 0.1.
 */
FALT_API falt_status falt_cuda_count(int *count);
/* Fills *options: GPU 0, its primary context. Since 0.1. */
FALT_API void falt_cuda_options_default(falt_cuda_options *options);
/* Makes a CUDA device in *device. options may be NULL for defaults. Operands of its plans are pointers into the GPU's
 * memory, operands.stream is a CUstream of its context (NULL: the default stream), and falt_execute returns when the
 * work is on the stream. Needs NVIDIA's driver, and NVRTC for kernels that are not in the cache; FALT_NO_DEVICE says
 * which is missing. Destroy it after its plans. Since 0.1. */
FALT_API falt_status falt_device_cuda(falt_device **device, const falt_cuda_options *options);
/* Ends a device of either kind and sets *device to NULL; its plans must be gone. Since 0.1. */
FALT_API void falt_device_destroy(falt_device **device);

/* Memory in which operands of the device's plans may lie, aligned to 64 bytes; its contents are undefined. Sets
 * *memory, to NULL on failure. Release it by falt_device_free, which sets it to NULL, before the device is destroyed.
 * Since 0.1.
 */
FALT_API falt_status falt_device_alloc(falt_device *device, void **memory, size_t bytes);
FALT_API void falt_device_free(falt_device *device, void **memory);
/* Copies between the host's memory and the device's, and waits for it. Work on streams that do not wait for the default
 * stream must have ended. Since 0.1. */
FALT_API falt_status falt_device_write(falt_device *device, void *to, const void *from, size_t bytes);
/* The reverse of falt_device_write. Since 0.1. */
FALT_API falt_status falt_device_read(falt_device *device, void *to, const void *from, size_t bytes);
/* Waits for everything that was started on the device. Returns FALT_NO_DEVICE if it was lost. Since 0.1. */
FALT_API falt_status falt_device_synchronize(falt_device *device);

/* Interrupts a device: every call under way on it returns FALT_CANCELLED soon, and so does every later one at once,
 * until falt_device_resume. May be called by any thread and by a signal handler, as often as one likes, while the
 * device lives. It concerns the calls that take long: planning, executing, timing, explaining, verifying and measuring.
 * Usually they return within 0.1 s; a kernel that a GPU runs and a compilation by NVRTC are waited for. The contents of
 * outputs and of the workspace are then undefined; plans, wisdom and limits stay as they were before the call. Work
 * that falt_execute has put on a GPU's stream runs on. Since 0.1. */
FALT_API void falt_device_interrupt(falt_device *device);
/* Ends the interruption: calls that begin after it run. Calls that were under way are cancelled all the same, also if
 * they have not returned yet. Async-signal-safe, too. Since 0.1. */
FALT_API void falt_device_resume(falt_device *device);
/* Whether the device is interrupted and not resumed. Async-signal-safe, too. Since 0.1. */
FALT_API bool falt_device_interrupted(const falt_device *device);

/* Receives a call's progress: `done` in [0, 1] never falls within a phase, and ends with 1 if it was told at all. The
 * phase is one word: "plan" (candidates that were asked), "tune" and "measure" (candidates or samples), "execute"
 * (tasks, or slabs of falt_execute_host), "verify" (solvers); it is valid until the function returns. False cancels the
 * call, which then returns FALT_CANCELLED. It must return: no longjmp, no C++ exception. */
typedef bool (*falt_progress)(void *context, const char *phase, double done);

/* Calls `progress` (NULL: nothing) from then on in the thread that made a call, while the call takes longer than half a
 * second, at most about ten times a second. The function must not call this library, except falt_device_interrupt and
 * the other functions of its group. Set it while no call is under way. GPUs tell of slabs and candidates, not of the
 * kernels of a falt_execute. Since 0.1. */
FALT_API void falt_device_progress(falt_device *device, falt_progress progress, void *context);

/* Measured or assumed limits of a device. */
typedef struct falt_limits {
  double copy_bytes_per_s;  /* read + write, from and to memory */
  double cache_bytes_per_s; /* the same within the last private cache, all threads */
  double f32_flops;         /* multiply-adds counted as two, all threads */
  double f64_flops;
  double f16_flops; /* products of f16 or bf16 with sums in f32 where matrix units do them; 0: as f32 */
  double s8_flops;  /* products of integers of 8 bits with sums in s32 where one instruction adds several; 0: as f32 */
  double in_bytes_per_s; /* from the host's memory to the device's; 0 where they are the same */
  double out_bytes_per_s;
  bool measured; /* false: built-in estimates */
} falt_limits;

/* Copies the limits in use, measured or assumed, into *limits. Since 0.1. */
FALT_API void falt_device_limits(const falt_device *device, falt_limits *limits);
/* Measures the limits (about a second), uses them from now on and stores them in the cache if that can be written.
 * Returns FALT_OK also when the cache is read-only. Since 0.1. */
FALT_API falt_status falt_device_measure(falt_device *device);
/* One line, such as "cpu avx512 threads=2". Valid while the device lives. Since 0.1. */
FALT_API const char *falt_device_name(const falt_device *device);
/* Threads that a plan on this device may use, the caller's included. Since 0.1. */
FALT_API int falt_device_threads(const falt_device *device);

/* -------------------------------------------------------------------------------------- plan and execute */

/* How to compute a problem on a device. Immutable; may be executed by several threads at once if each brings its own
 * workspace. */
typedef struct falt_plan falt_plan;

/* Plans for *problem on *device within *budget (NULL: no limits). filter_values may be NULL. If it is not, it points to
 * the filter in host memory, as problem->filter and problem->factors describe it. The plan copies and packs the values
 * and may use their properties (separable, low rank, integer); falt_execute then ignores operands.filter. Values where
 * problem->filter_when is FALT_FILTER_GIVEN, and none where it is FALT_FILTER_KNOWN, are FALT_INVALID_ARGUMENT. On
 * failure *plan is NULL. Returns the statuses of falt_problem_check; FALT_INVALID_METHOD for a name that no solver has,
 * FALT_NO_SOLVER where the named solver does not apply, FALT_OVER_BUDGET where none fits (falt_message names the
 * nearest); FALT_NO_DEVICE where a kernel cannot be compiled. Since 0.1. */
FALT_API falt_status falt_plan_create(falt_plan **plan, falt_device *device, const falt_problem *problem,
                                      const falt_budget *budget, const void *filter_values);
/* The same for a problem line, its budget's words included: for languages that call C without its structs. Returns what
 * falt_problem_parse does, too. Since 0.1. */
FALT_API falt_status falt_plan_create_line(falt_plan **plan, falt_device *device, const char *line,
                                           const void *filter_values);
/* Frees *plan, which no thread may be executing, and sets it to NULL. Since 0.1. */
FALT_API void falt_plan_destroy(falt_plan **plan);

/* The tensors of the problem by their forward names; falt_operation says which are inputs and which is the output.
 * For FALT_BACKWARD_MAXPOOL, input is x, output is dy and residual receives dx, laid out as the input.
 * Unused ones may be NULL. Alignment to the element's size is enough; where more is faster the plan looks.
 *
 * No output element, the db of a backward-filter included, may share memory with an element of another operand.
 * Elements count, not the bytes between them: channels of one interleaved buffer, or tiles of one image, may be input
 * and output. One exception: the output of a forward problem may be the residual itself, in the same order and of the
 * same type (the sum is then in place). workspace must have falt_plan_workspace bytes, aligned to 64, share nothing
 * with the operands and serve one execution at a time. This struct stays as it is: eight pointers. */
typedef struct falt_operands {
  void *input, *filter, *output, *bias, *scale, *residual;
  void *workspace;
  void *stream; /* of the device, for devices that have streams */
} falt_operands;

/* Sets all pointers to NULL: for languages without designated initialisers. Since 0.1. */
FALT_API void falt_operands_default(falt_operands *operands);

/* Computes. Never allocates, from the first call on; the first call does what every other one does. Returns
 * FALT_INVALID_ARGUMENT if an operand that the plan needs is NULL, an output shares elements with another operand,
 * the workspace is not aligned, or a pointer or the stream is not the device's; FALT_NO_DEVICE if the device
 * was lost. Since 0.1. */
FALT_API falt_status falt_execute(const falt_plan *plan, const falt_operands *operands);

/* falt_execute for operands in host memory, on any device; waits. On a GPU, results that can be cut along the batch,
 * the groups or the outermost axis in memory pass in slabs: copying in, computing and copying out overlap, and arrays
 * may be larger than the GPU's memory. Other problems are copied in, computed and copied out. The first call makes
 * plans for the slabs; buffers stay with the device. operands.workspace may be NULL and serves CPU devices only;
 * operands.stream is ignored. Returns what falt_execute does, too. Since 0.1. */
FALT_API falt_status falt_execute_host(const falt_plan *plan, const falt_operands *operands);

/* Where the time of a falt_execute_host went. The stages overlap: their sum may exceed `seconds`. */
typedef struct falt_stages {
  double seconds;                    /* from call to return */
  double copy_in, compute, copy_out; /* the device at work in each */
  double staging;                    /* the host copying into and out of memory that the device reads */
  double bytes_in, bytes_out;        /* over the bus */
  int64_t slabs;                     /* 0: nothing was copied, the operands were used where they are */
} falt_stages;

/* falt_execute_host that fills *stages too, also after a failure. Since 0.1. */
FALT_API falt_status falt_execute_stages(const falt_plan *plan, const falt_operands *operands, falt_stages *stages);

/* Bytes from the first to the last element of an operand, by its name in falt_operands ("input", "output", ...); 0 if
 * the plan does not use it, such as the filter of a plan that holds it; SIZE_MAX if no operand has that name. Since
 * 0.1. */
FALT_API size_t falt_plan_bytes(const falt_plan *plan, const char *operand);
/* Bytes of workspace that falt_execute needs. Since 0.1. */
FALT_API size_t falt_plan_workspace(const falt_plan *plan);
/* The plan as an s-expression, such as "(direct avx512 4x6 threads=2)", cut and returned as by snprintf. Since 0.1. */
FALT_API size_t falt_plan_print(const falt_plan *plan, char *text, size_t size);
/* The solver's name. Since 0.1. */
FALT_API const char *falt_plan_solver(const falt_plan *plan);

/* ---------------------------------------------------------------------------------------------- one call */

typedef struct falt_options {
  int space;         /* 1, 2 or 3: how many of the last dimensions the filter covers; default 2 */
  falt_mode mode;    /* default FALT_SAME */
  falt_axis axis[3]; /* stride, dilation and boundary by axis; pad is used only where anchor is FALT_ANCHOR_PAD */
  double boundary_value;
  int64_t anchor[3];   /* depth, height, width; FALT_ANCHOR_CENTER for K/2 */
  double alpha, beta;  /* dst = round(alpha * sum + beta) */
  falt_device *device; /* NULL: a CPU device made for this call */
  falt_budget budget;
  uint64_t reserved[8];
} falt_options;

#define FALT_ANCHOR_CENTER INT64_MIN
#define FALT_ANCHOR_PAD (INT64_MIN + 1)

/* An output array of the one-call functions. */
typedef struct falt_array {
  void *data;
  falt_tensor tensor;
} falt_array;

/* An input array of the one-call functions. */
typedef struct falt_const_array {
  const void *data;
  falt_tensor tensor;
} falt_const_array;

/* Fills *options: an image filter of the same size, anchored at its centre, stride and dilation 1, zeros beyond the
 * edges, alpha 1, beta 0, a CPU device for the call, no limits. Since 0.1. */
FALT_API void falt_options_default(falt_options *options);

/* Describes an image of interleaved pixels: data[y*pitch + x*channels + c]. Since 0.1. */
FALT_API falt_array falt_image(void *data, falt_type type, int64_t height, int64_t width, int64_t channels,
                               int64_t pitch);
/* Describes dense single-channel data in d, h, w order; 1 where a dimension is absent. Since 0.1. */
FALT_API falt_array falt_volume(void *data, falt_type type, int64_t depth, int64_t height, int64_t width);
/* falt_image for inputs. Since 0.1. */
FALT_API falt_const_array falt_const_image(const void *data, falt_type type, int64_t height, int64_t width,
                                           int64_t channels, int64_t pitch);
/* falt_volume for inputs. Since 0.1. */
FALT_API falt_const_array falt_const_volume(const void *data, falt_type type, int64_t depth, int64_t height,
                                            int64_t width);
/* The same array as an input: the output of one call becomes the source of the next. Since 0.1. */
FALT_API falt_const_array falt_const(falt_array array);

/* Filters src into dst, which must have the size that the mode gives. dst shares no element with src or the taps;
 * channels and tiles of one buffer may be both (falt_operands). The taps are one filter for all channels. falt_convolve
 * flips the taps, falt_correlate does not. options may be NULL. Returns FALT_INVALID_SHAPE if dst has another size, and
 * what falt_plan_create and falt_execute_host return. Since 0.1. */
FALT_API falt_status falt_correlate(const falt_const_array *src, const falt_const_array *taps, const falt_array *dst,
                                    const falt_options *options);
/* falt_correlate with the taps flipped: a true convolution. Since 0.1. */
FALT_API falt_status falt_convolve(const falt_const_array *src, const falt_const_array *taps, const falt_array *dst,
                                   const falt_options *options);

/* Fills *problem for a filter as falt_correlate would: sizes of src and taps, options; output sizes follow the mode.
 * flip asks for a true convolution. Returns what falt_problem_check does. Since 0.1. */
FALT_API falt_status falt_problem_filter(falt_problem *problem, const falt_tensor *src, const falt_tensor *taps,
                                         falt_type out_type, bool flip, const falt_options *options);

/* --------------------------------------------------------------------------------------- named kernels */

/* The values of a filter: factors, in the order of falt_problem.factors, or dense taps, row by row. They are
 * correlation taps, which a true convolution flips; a derivative is positive where values rise along its axis.
 *
 * The functions below overwrite *kernel, which falt_kernel_free frees; after a failure it has no values. `space` is 1,
 * 2 or 3: the kernel covers that many of the last axes, and arrays by axis (depth, height, width) are read there. They
 * return FALT_INVALID_SIZE for a kernel that is too large: 2^25 taps along an axis are the most. */
typedef struct falt_kernel {
  int64_t size[3]; /* depth, height, width */
  int factors;     /* terms; 0: values are dense taps */
  int64_t count;   /* of values */
  double *values;
  uint64_t reserved[4];
} falt_kernel;

typedef enum falt_gradient {
  FALT_SOBEL,   /* -1 0 1 along the axis, 1 2 1 across it */
  FALT_PREWITT, /* 1 1 1 across it */
  FALT_SCHARR   /* 3 10 3 across it */
} falt_gradient;

/* A Gaussian of standard deviation sigma[axis], 0 or more, or its derivative of order[axis], 0 to 16 (NULL: 0), with
 * int(truncate * sigma + 1/2) taps to each side; scipy's truncate is 4. The taps of order 0 add up to 1. One term.
 * Since 0.1. */
FALT_API falt_status falt_kernel_gaussian(falt_kernel *kernel, int space, const double sigma[3], const int order[3],
                                          double truncate);
/* A Gaussian, approximated by three boxes and one of two levels along each axis, which CPUs compute in a time that does
 * not depend on sigma. Variance and sum are exact. Sigma 2; 5; 16 and more: taps differ by at most 0.9%; 0.3%; 0.2% of
 * the peak, and the differences along an axis add up to 1.5%; 0.4%; 0.3%. Below 2: falt_kernel_gaussian. Since 0.1. */
FALT_API falt_status falt_kernel_gaussian_fast(falt_kernel *kernel, int space, const double sigma[3]);
/* The Laplacian of a Gaussian: the sum of its second derivatives, a term an axis. sigma is above 0. Since 0.1. */
FALT_API falt_status falt_kernel_log(falt_kernel *kernel, int space, const double sigma[3], double truncate);
/* An unsharp mask: adds `amount` times what a Gaussian blurs away. Two terms. Since 0.1. */
FALT_API falt_status falt_kernel_unsharp(falt_kernel *kernel, int space, const double sigma[3], double amount,
                                         double truncate);
/* The mean of size[axis] elements, at least 1. One term. Since 0.1. */
FALT_API falt_status falt_kernel_box(falt_kernel *kernel, const int64_t size[3]);
/* The derivative along an axis (depth, height, width: 0 to 2), smoothed across it. One term. Since 0.1. */
FALT_API falt_status falt_kernel_gradient(falt_kernel *kernel, falt_gradient gradient, int space, int axis);
/* The sum of the second differences 1 -2 1 along all axes, a term each. Since 0.1. */
FALT_API falt_status falt_kernel_laplace(falt_kernel *kernel, int space);
/* The identity minus the Laplacian. Since 0.1. */
FALT_API falt_status falt_kernel_sharpen(falt_kernel *kernel, int space);
/* A relief with light from the upper left, in images: nine dense taps. Since 0.1. */
FALT_API falt_status falt_kernel_emboss(falt_kernel *kernel);
/* The mean along a line of `length` pixels, 1 to 10000, `angle` degrees anticlockwise from the x axis, in images whose
 * y points down. Dense taps. Since 0.1. */
FALT_API falt_status falt_kernel_motion(falt_kernel *kernel, double length, double angle);
/* One tap of 1. Since 0.1. */
FALT_API falt_status falt_kernel_identity(falt_kernel *kernel);

/* Replaces factors by the dense taps that they stand for, 2^24 at most (else FALT_INVALID_SIZE). Since 0.1. */
FALT_API falt_status falt_kernel_expand(falt_kernel *kernel);
/* falt_problem_filter for a kernel, whose values will have `type`: sets problem->factors, too. Since 0.1. */
FALT_API falt_status falt_kernel_problem(falt_problem *problem, const falt_tensor *src, const falt_kernel *kernel,
                                         falt_type type, falt_type out_type, bool flip, const falt_options *options);
/* Writes the kernel's `count` values as elements of a type: what falt_plan_create takes as filter_values. Returns
 * FALT_INVALID_TYPE where the type does not hold one of them. Since 0.1. */
FALT_API falt_status falt_kernel_pack(const falt_kernel *kernel, falt_type type, void *values);
/* Frees the values; NULL, and kernels without any, are accepted. Since 0.1. */
FALT_API void falt_kernel_free(falt_kernel *kernel);

/* ------------------------------------------------------------------------------ asking why; remembering */

/* One candidate of a problem, as falt_explain reports it. */
typedef struct falt_candidate {
  const char *solver;
  const char *plan;     /* s-expression; empty if rejected */
  const char *rejected; /* NULL, or why the solver does not apply or does not fit the budget */
  bool chosen;
  double predicted_seconds;
  double seconds_median, seconds_min; /* 0 unless measured */
  double flops, bytes;                /* work as the problem counts it: multiply-adds as two, each operand once */
  double gbytes_per_s, gflops, limit_share;
  const char *bound; /* "memory" or "compute" */
  size_t workspace_bytes;
  double error;      /* predicted relative error */
  bool out_of_scope; /* the solver is for other operations or kinds of problems, and rejects all like this one */
} falt_candidate;

/* Calls report once for each solver of the device, best first, the rejected last. measure_seconds > 0 times each,
 * unless the device is only described, memory for the operands is missing, or an execution is predicted to take longer
 * and either 10 s or ten times as long as the best.
 * The strings live until report returns. filter_values and errors as in falt_plan_create; where no candidate fits, all
 * are reported before it returns. Since 0.1. */
FALT_API falt_status falt_explain(falt_device *device, const falt_problem *problem, const falt_budget *budget,
                                  const void *filter_values, double measure_seconds,
                                  void (*report)(void *context, const falt_candidate *candidate), void *context);

/* Times a plan on the operands for about `seconds` and fills the measured fields of *candidate. Returns what
 * falt_execute does. Since 0.1. */
FALT_API falt_status falt_plan_time(const falt_plan *plan, const falt_operands *operands, double seconds,
                                    falt_candidate *candidate);

/* ---------------------------------------------------------------------------------------- stateful convolution */

/* Convolves signals of unknown length with long responses, block by block and without added latency: after each call
 * the outputs of the samples given so far are there. Partitioned convolution: the first taps directly, the others by
 * transforms of growing size (Gardner 1995), whose work is spread over the calls. */
typedef struct falt_convolver falt_convolver;

typedef struct falt_convolver_options {
  int inputs, outputs; /* signals */
  int64_t taps;        /* of each response */
  falt_type type;      /* of signals and responses: FALT_F32 or FALT_F64 */
  int64_t partition;   /* samples of the smallest transform, a power of two from 256 to 65536; 0: 256 */
  int growth;          /* of partitions, a power of two up to 64; 1: all of one size; 0: 8 */
  int64_t fade;        /* samples in which falt_convolver_exchange goes over; 0: at once */
  int64_t latency;     /* samples by which outputs are late, 0 to 2 partitions; then no tap is summed directly */
  uint64_t reserved[3];
} falt_convolver_options;

/* Fills *options: one input, one output, one tap, f32, a fade of 512 samples, no latency. Since 0.1. */
FALT_API void falt_convolver_options_default(falt_convolver_options *options);
/* responses[o * inputs + i] holds the taps from input i to output o, or is NULL where there is none; they are copied.
 * y[o][n] is the sum over inputs i and taps j of responses[o * inputs + i][j] * x[i][n - latency - j], zero before the
 * start.
 * *convolver is NULL on failure. The device is a CPU and may be destroyed before the convolver.
 * Returns FALT_INVALID_ARGUMENT, FALT_INVALID_TYPE or FALT_NO_MEMORY. Since 0.1. */
FALT_API falt_status falt_convolver_create(falt_convolver **convolver, const falt_device *device,
                                           const falt_convolver_options *options, const void *const *responses);
/* The next `samples` of all signals: reads input[i], writes output[o], which may be one of the inputs. Does not
 * allocate, lock or wait. Results do not depend on how a signal is cut into calls. A sample that is not finite
 * makes later outputs not finite, for the response's length and two of its largest partitions at most. One call at a
 * time. Since 0.1. */
FALT_API falt_status falt_convolver_process(falt_convolver *convolver, const void *const *input, void *const *output,
                                            int64_t samples);
/* Exchanges the responses from another thread while process runs. When transforms with the new ones are ready (after at
 * most three of the largest partitions), outputs change to them within `fade` samples. Of several waiting exchanges
 * the latest is made. Computes and allocates in the calling thread. Responses as for create. Since 0.1. */
FALT_API falt_status falt_convolver_exchange(falt_convolver *convolver, const void *const *responses);
/* Forgets all samples; responses stay. Not during process. NULL does nothing. Since 0.1. */
FALT_API void falt_convolver_reset(falt_convolver *convolver);
/* Sets *convolver to NULL. Since 0.1. */
FALT_API void falt_convolver_destroy(falt_convolver **convolver);

/* Convolves an image whose rows arrive one after the other, such as a scanner's, or a file larger than memory. For
 * integers the result is the same as filtering the whole image at once; floating-point results may differ by rounding.
 * It buffers one window of rows and the rows that the boundary repeats, whatever the height. A row is one position of
 * the outermost axis: a row of an image (space=2), a slice of a volume, a sample of a signal. */
typedef struct falt_convolver_rows falt_convolver_rows;

typedef struct falt_convolver_rows_options {
  bool any_height; /* the problem's height is an example: falt_convolver_rows_finish tells the image's */
  falt_mode mode;  /* of filters of any height, whose pad[0] the problem has; layers follow both pads */
  int64_t latency; /* output rows, 0 to 65536, that may wait to be computed together: faster where few rows arrive */
  const void *bias, *scale; /* as operands, where the problem has them; copied */
  falt_budget budget;
  uint64_t reserved[4];
} falt_convolver_rows_options;

/* Fills *options: the problem's height, FALT_SAME, no latency, no limits. Since 0.1. */
FALT_API void falt_convolver_rows_options_default(falt_convolver_rows_options *options);
/* The problem is a forward one of one image without a residual, whose rows follow each other in memory (one channel, or
 * layout=nhwc), with any boundary but FALT_WRAP along them: else FALT_INVALID_ARGUMENT. filter_values as for
 * falt_plan_create, not NULL; options may be NULL. *rows is NULL on failure. The device is a CPU and destroyed later.
 * Returns what falt_plan_create does. Since 0.1. */
FALT_API falt_status falt_convolver_rows_create(falt_convolver_rows **rows, falt_device *device,
                                                const falt_problem *problem, const falt_convolver_rows_options *options,
                                                const void *filter_values);
/* Takes the next `count` rows and writes the output rows that they complete, `capacity` at most. Both lie as the
 * problem's tensors describe them, from their row 0 on, and share no memory. *taken receives the rows that were taken:
 * fewer than `count` where `capacity` ends first; pass the others again. taken may be NULL: then too little capacity is
 * FALT_INVALID_SIZE, and nothing is done. Rows beyond the problem's height are FALT_INVALID_SIZE. Does not allocate;
 * one call at a time. After another failure (FALT_CANCELLED) the image is lost: reset. Since 0.1. */
FALT_API falt_status falt_convolver_rows_push(falt_convolver_rows *rows, const void *input, int64_t count,
                                              int64_t *taken, void *output, int64_t capacity, int64_t *written);
/* Ends the image and writes the remaining output rows, `capacity` at most: call it until it writes none. Failures as of
 * push; FALT_INVALID_SIZE while rows of the problem's height are missing. Since 0.1. */
FALT_API falt_status falt_convolver_rows_finish(falt_convolver_rows *rows, void *output, int64_t capacity,
                                                int64_t *written);
/* Begins another image. NULL does nothing. Since 0.1. */
FALT_API void falt_convolver_rows_reset(falt_convolver_rows *rows);
/* Sets *rows to NULL. Since 0.1. */
FALT_API void falt_convolver_rows_destroy(falt_convolver_rows **rows);

/* Result of one solver against the reference. If it is not ok, falt_message() says why until report returns. */
typedef struct falt_verdict {
  const char *solver;
  double max_abs_error, max_rel_error, tolerance;
  bool ok;
  uint64_t seed;
} falt_verdict;

/* Runs every solver that applies on data by the seed, in poisoned and guarded memory, and compares it with the
 * reference: with the filter given, known, or, where problem->filter_when is FALT_FILTER_AUTO, both. Returns FALT_OK
 * also if a verdict is not ok, and what falt_plan_create returns. Since 0.1. */
FALT_API falt_status falt_verify(falt_device *device, const falt_problem *problem, const falt_budget *budget,
                                 uint64_t seed, void (*report)(void *context, const falt_verdict *verdict),
                                 void *context);

/* A random legal problem of modest size, as its line, now and then with words of a budget: parse it with one. Equal
 * seeds give equal lines. Returns as snprintf. Since 0.1. */
FALT_API size_t falt_problem_random(uint64_t seed, char *line, size_t size);

/* Fills count elements: integers over their whole range, floats in [-1, 1). Since 0.1. */
FALT_API void falt_random_fill(void *data, falt_type type, int64_t count, uint64_t seed);

/* Elements from data[0] to the last element of a tensor, both included: as many as to allocate. Since 0.1. */
FALT_API int64_t falt_tensor_span(const falt_tensor *tensor);

/* Names of all solvers: i from 0 until NULL. Since 0.1. */
FALT_API const char *falt_solver_name(int i);
/* The problems and the method of that solver, in one line; NULL as for its name. Since 0.1. */
FALT_API const char *falt_solver_about(int i);

/* Wisdom: which solver was the fastest for a problem on this device, as measured. falt_plan_create with tune_seconds
 * adds to it and every falt_plan_create consults it. Text, one line a problem; import is all or nothing. A NULL path
 * means the file in FALTUNG_CACHE. Returns FALT_NO_FILE if it cannot be read, FALT_INVALID_TEXT if it does not parse
 * or, where a path was given, holds nothing for this device. Since 0.1. */
FALT_API falt_status falt_wisdom_load(falt_device *device, const char *path);
/* Writes the device's wisdom into a file and keeps other devices' wisdom there. Returns FALT_NO_FILE if it cannot be
 * written. A missing cache directory is made; the directory of a given path must exist. Since 0.1. */
FALT_API falt_status falt_wisdom_save(const falt_device *device, const char *path);
/* Drops the device's wisdom from memory; files stay as they are. Since 0.1. */
FALT_API void falt_wisdom_forget(falt_device *device);

/* The cache: FALTUNG_CACHE, else XDG_CACHE_HOME/faltung, else HOME/.cache/faltung. It holds the files "limits" and
 * "wisdom" and, in the directory "cuda", compiled kernels. Kernels do not depend on the machine that compiled them: a
 * copy of the directory serves every machine with a GPU of the same architecture, also without NVRTC. */

/* The most bytes of kernels; the oldest are removed first. */
enum { FALT_CACHE_BYTES = 256 << 20 };

/* A file of the kernel cache, as falt_cache_kernels reports it. */
typedef struct falt_cached_kernel {
  const char *path;
  const char *damage;                        /* NULL, or why it is not used; the fields below are then empty */
  const char *source, *entry, *arch, *holes; /* "direct.cu", "falt_direct", "sm_90a", "TAPS_T=5; PIXEL=3" */
  int nvrtc;                                 /* the version that compiled it: major*1000 + minor */
  int registers, spill_bytes, shared_bytes;  /* a thread's, a thread's, a block's without the dynamic; -1: not known */
  int64_t bytes, written;                    /* size; seconds since 1970 */
} falt_cached_kernel;

/* Writes the cache's directory into path, cut and returned as by snprintf; 0 if there is none. Since 0.1. */
FALT_API size_t falt_cache_directory(char *path, size_t size);
/* Calls report for each kernel in the cache, newest first. The strings live until report returns. Since 0.1. */
FALT_API falt_status falt_cache_kernels(void (*report)(void *context, const falt_cached_kernel *kernel), void *context);
/* Removes the kernels, nothing else; *removed, which may be NULL, receives how many. Returns FALT_NO_FILE if some
 * cannot be removed. Since 0.1. */
FALT_API falt_status falt_cache_clear(int64_t *removed);

#ifdef __cplusplus
}
#endif
#endif
