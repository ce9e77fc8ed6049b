/* cuDNN through its graph interface, loaded on first use; no cuDNN header is needed to build. Describes a graph of one
 * operation, asks the library's heuristics for engines, and builds an execution plan from the first one that fits or,
 * with tuning time, from the fastest measured one. */
#include "cuda/cudnn.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"

/* ---- the library */

/* cuDNN's own enumerators: kinds of descriptors, attributes, types of attributes, notes, modes, types of elements. */
enum { CONVOLUTION = 1, ENGINE = 2, CONFIG = 3, HEURISTICS = 4, PLAN = 5, GRAPH = 15, PACK = 16, TENSOR = 17 };
enum {
  CONVOLUTION_TYPE = 100,
  CONVOLUTION_MODE = 101,
  CONVOLUTION_DILATIONS = 102,
  CONVOLUTION_STRIDES = 103,
  CONVOLUTION_AFTER = 104,
  CONVOLUTION_BEFORE = 105,
  CONVOLUTION_AXES = 106,
  HEURISTICS_MODE = 200,
  HEURISTICS_GRAPH = 201,
  HEURISTICS_RESULTS = 202,
  CONFIG_ENGINE = 300,
  PLAN_HANDLE = 400,
  PLAN_CONFIG = 401,
  PLAN_WORKSPACE = 402,
  GRAPH_HANDLE = 800,
  GRAPH_OPERATIONS = 801,
  TENSOR_ALIGNMENT = 900,
  TENSOR_TYPE = 901,
  TENSOR_SIZES = 902,
  TENSOR_STRIDES = 903,
  TENSOR_ID = 906,
  PACK_IDS = 1000,
  PACK_POINTERS = 1001,
  PACK_WORKSPACE = 1003,
  ENGINE_INDEX = 1301,
  ENGINE_NOTES = 1303
};
enum {
  AS_HANDLE = 0,
  AS_TYPE = 1,
  AS_INTEGER = 3,
  AS_FLOAT = 4,
  AS_DOUBLE = 5,
  AS_POINTER = 6,
  AS_CONVOLUTION_MODE = 7,
  AS_HEURISTICS_MODE = 8,
  AS_NOTE = 11,
  AS_DESCRIPTOR = 15
};
enum { CROSS_CORRELATION = 1 };
enum { TENSOR_CORE = 0, DOWN_CONVERTS = 1, SHORT_SUMS = 2, NONDETERMINISTIC = 4, WINOGRAD_4X4 = 6, NOTES = 10 };

static struct {
  size_t (*version)(void);
  const char *(*error)(int status);
  int (*open)(void **handle);
  int (*close)(void *handle);
  int (*set_stream)(void *handle, void *stream);
  int (*create)(int kind, void **descriptor);
  int (*destroy)(void *descriptor);
  int (*finalize)(void *descriptor);
  int (*set)(void *descriptor, int attribute, int type, int64_t count, const void *values);
  int (*get)(void *descriptor, int attribute, int type, int64_t most, int64_t *count, void *values);
  int (*execute)(void *handle, void *plan, void *pack);
} dnn;

static char version[32]; /* empty: not available */

static void load_once(void) {
  static const char *const names[] = {"libcudnn.so.9"};
  const falt_cuda_entry entries[] = {{"cudnnGetVersion", &dnn.version},
                                     {"cudnnGetErrorString", &dnn.error},
                                     {"cudnnCreate", &dnn.open},
                                     {"cudnnDestroy", &dnn.close},
                                     {"cudnnSetStream", &dnn.set_stream},
                                     {"cudnnBackendCreateDescriptor", &dnn.create},
                                     {"cudnnBackendDestroyDescriptor", &dnn.destroy},
                                     {"cudnnBackendFinalize", &dnn.finalize},
                                     {"cudnnBackendSetAttribute", &dnn.set},
                                     {"cudnnBackendGetAttribute", &dnn.get},
                                     {"cudnnBackendExecute", &dnn.execute}};
  void *library = falt_cuda_open_named("FALTUNG_CUDNN", names, 1);
  if (!library || falt_cuda_find(library, entries, sizeof entries / sizeof *entries)) return;
  const size_t number = dnn.version();
  snprintf(version, sizeof version, "%zu.%zu.%zu", number / 10000, number / 100 % 100, number % 100);
}

const char *falt_cudnn_version(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_once);
  if (version[0]) return version;
  falt_fail(FALT_NO_DEVICE, "no cuDNN 9 was found; install nvidia-cudnn-cu13, or name libcudnn.so.9 in FALTUNG_CUDNN");
  return NULL;
}

/* ---- descriptors */

enum { OWNED = 16 };

struct falt_cudnn {
  falt_gpu *gpu;
  void *handle;
  pthread_mutex_t lock; /* of the handle, which serves one thread at a time */
  void *owned[OWNED];   /* descriptors, in the order in which they were made */
  int owned_count;
  int error; /* the first; nothing is done after it */
  void *graph, *config, *plan;
  int64_t workspace;
  int engine, measured;
};

static void check(falt_cudnn *c, int error) {
  if (!c->error) c->error = error;
}

static void *make(falt_cudnn *c, int kind) {
  void *descriptor = NULL;
  if (!c->error) c->error = dnn.create(kind, &descriptor);
  if (descriptor) c->owned[c->owned_count++] = descriptor;
  return descriptor;
}

static void set(falt_cudnn *c, void *descriptor, int attribute, int type, int64_t count, const void *values) {
  if (!c->error) c->error = dnn.set(descriptor, attribute, type, count, values);
}

static void finalize(falt_cudnn *c, void *descriptor) {
  if (!c->error) c->error = dnn.finalize(descriptor);
}

/* ---- the graph */

/* Batch and channels of five dimensions, then the axes that the layer has. */
static void pick(const int64_t from[5], int axes, int64_t to[5]) {
  for (int i = 0; i < axes + 2; i++) to[i] = from[i < 2 ? i : i + 3 - axes];
}

static void *make_tensor(falt_cudnn *c, const falt_cudnn_layer *layer, int which) {
  const falt_cudnn_tensor *t = &layer->tensor[which];
  const int type = falt_cuda_types[layer->type].cudnn, rank = layer->axes + 2;
  const int64_t id = 1 + which, alignment = t->alignment;
  int64_t size[5], stride[5];
  pick(t->size, layer->axes, size);
  pick(t->stride, layer->axes, stride);
  void *made = make(c, TENSOR);
  set(c, made, TENSOR_TYPE, AS_TYPE, 1, &type);
  set(c, made, TENSOR_SIZES, AS_INTEGER, rank, size);
  set(c, made, TENSOR_STRIDES, AS_INTEGER, rank, stride);
  set(c, made, TENSOR_ID, AS_INTEGER, 1, &id);
  set(c, made, TENSOR_ALIGNMENT, AS_INTEGER, 1, &alignment);
  finalize(c, made);
  return made;
}

static void *make_convolution(falt_cudnn *c, const falt_cudnn_layer *layer) {
  const int type = falt_cuda_types[falt_type_accumulator(layer->type)].cudnn, mode = CROSS_CORRELATION;
  const int64_t axes = layer->axes, skip = 3 - axes;
  void *made = make(c, CONVOLUTION);
  set(c, made, CONVOLUTION_AXES, AS_INTEGER, 1, &axes);
  set(c, made, CONVOLUTION_TYPE, AS_TYPE, 1, &type);
  set(c, made, CONVOLUTION_MODE, AS_CONVOLUTION_MODE, 1, &mode);
  set(c, made, CONVOLUTION_BEFORE, AS_INTEGER, axes, layer->before + skip);
  set(c, made, CONVOLUTION_AFTER, AS_INTEGER, axes, layer->after + skip);
  set(c, made, CONVOLUTION_STRIDES, AS_INTEGER, axes, layer->stride + skip);
  set(c, made, CONVOLUTION_DILATIONS, AS_INTEGER, axes, layer->dilation + skip);
  finalize(c, made);
  return made;
}

/* The attributes of the three operations are in the same order: alpha, beta, the convolution, then the tensors. */
static void *make_operation(falt_cudnn *c, const falt_cudnn_layer *layer) {
  static const struct {
    int kind, first, tensor[FALT_CUDNN_TENSORS];
  } kinds[] = {[FALT_CUDNN_FORWARD] = {10, 700, {704, 703, 705}},
               [FALT_CUDNN_DATA] = {12, 706, {710, 709, 711}},
               [FALT_CUDNN_FILTER] = {11, 712, {716, 715, 717}}};
  const int first = kinds[layer->operation].first;
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const bool wide = layer->type == FALT_F64;
  void *convolution = make_convolution(c, layer), *tensor[FALT_CUDNN_TENSORS];
  for (int i = 0; i < FALT_CUDNN_TENSORS; i++) tensor[i] = make_tensor(c, layer, i);
  void *made = make(c, kinds[layer->operation].kind);
  set(c, made, first, wide ? AS_DOUBLE : AS_FLOAT, 1, wide ? (const void *)&wide_one : &one);
  set(c, made, first + 1, wide ? AS_DOUBLE : AS_FLOAT, 1, wide ? (const void *)&wide_zero : &zero);
  set(c, made, first + 2, AS_DESCRIPTOR, 1, &convolution);
  for (int i = 0; i < FALT_CUDNN_TENSORS; i++)
    set(c, made, kinds[layer->operation].tensor[i], AS_DESCRIPTOR, 1, &tensor[i]);
  finalize(c, made);
  return made;
}

static void make_graph(falt_cudnn *c, const falt_cudnn_layer *layer) {
  void *operation = make_operation(c, layer);
  c->graph = make(c, GRAPH);
  set(c, c->graph, GRAPH_HANDLE, AS_HANDLE, 1, &c->handle);
  set(c, c->graph, GRAPH_OPERATIONS, AS_DESCRIPTOR, 1, &operation);
  finalize(c, c->graph);
}

/* ---- execution */

static int execute(const falt_cudnn *c, void *plan, void *const data[FALT_CUDNN_TENSORS], void *workspace,
                   void *stream) {
  static const int64_t ids[FALT_CUDNN_TENSORS] = {1, 2, 3};
  void *pack = NULL;
  int error = dnn.create(PACK, &pack);
  if (!error) error = dnn.set(pack, PACK_IDS, AS_INTEGER, FALT_CUDNN_TENSORS, ids);
  if (!error) error = dnn.set(pack, PACK_POINTERS, AS_POINTER, FALT_CUDNN_TENSORS, data);
  if (!error) error = dnn.set(pack, PACK_WORKSPACE, AS_POINTER, 1, &workspace);
  if (!error) error = dnn.finalize(pack);
  if (!error) error = dnn.set_stream(c->handle, stream);
  if (!error) error = dnn.execute(c->handle, plan, pack);
  if (pack) dnn.destroy(pack);
  return error;
}

typedef struct run {
  const falt_cudnn *cudnn;
  void *plan;
  void *const *data;
  void *workspace, *stream;
  int error;
} run;

static void execute_run(void *context) {
  run *r = context;
  r->error = execute(r->cudnn, r->plan, r->data, r->workspace, r->stream);
}

void falt_cudnn_run(falt_cudnn *c, void *const data[FALT_CUDNN_TENSORS], void *workspace, void *stream) {
  run r = {c, c->plan, data, workspace, stream, 0};
  char line[160];
  pthread_mutex_lock(&c->lock);
  const bool entered = falt_gpu_within(c->gpu, execute_run, &r);
  pthread_mutex_unlock(&c->lock);
  if (!entered || !r.error) return;
  snprintf(line, sizeof line, "cudnn: its engine %d does not start: %s; choose another method", c->engine,
           dnn.error(r.error));
  falt_gpu_fail(FALT_NO_DEVICE, line);
}

/* ---- measuring */

/* The buffers on which all candidates are timed. */
typedef struct trial {
  const falt_cudnn_layer *layer;
  void *data[FALT_CUDNN_TENSORS];
  double end;  /* no more are tried after this time */
  double best; /* seconds */
} trial;

static int64_t bytes_of(const falt_cudnn_layer *layer, int which) {
  const falt_cudnn_tensor *t = &layer->tensor[which];
  int64_t last = 0;
  for (int i = 0; i < 5; i++) last += (t->size[i] - 1) * t->stride[i];
  return (last + 1) * (int64_t)falt_type_size(layer->type);
}

static bool open_trial(const falt_cudnn *c, trial *t) {
  t->end = falt_seconds() + t->layer->seconds;
  t->best = INFINITY;
  bool all = t->layer->seconds > 0;
  for (int i = 0; i < FALT_CUDNN_TENSORS && all; i++)
    all = falt_gpu_allocate(c->gpu, &t->data[i], (size_t)bytes_of(t->layer, i)) == FALT_OK;
  return all;
}

static void close_trial(const falt_cudnn *c, trial *t) {
  for (int i = 0; i < FALT_CUDNN_TENSORS; i++) falt_gpu_release(c->gpu, t->data[i]);
}

/* Seconds of one execution, the least of a few, or of one where that is far from the best; infinite where it fails. */
static double measure(const falt_cudnn *c, const trial *t, void *plan, int64_t bytes) {
  enum { RUNS = 3, SAMPLES = 3 };
  run r = {.cudnn = c, .plan = plan, .data = t->data};
  double least = INFINITY;
  if (bytes && falt_gpu_allocate(c->gpu, &r.workspace, (size_t)bytes) != FALT_OK) return least;
  execute_run(&r);
  for (int i = 0; i < SAMPLES && !r.error && (i == 0 || least < 1.5 * t->best); i++) {
    const double seconds = falt_gpu_time(c->gpu, NULL, execute_run, &r, RUNS) / RUNS;
    if (seconds > 0 && seconds < least) least = seconds;
  }
  if (falt_gpu_synchronize(c->gpu) != FALT_OK) r.error = -1;
  falt_gpu_release(c->gpu, r.workspace);
  return r.error ? INFINITY : least;
}

/* ---- engines */

/* Whether an engine computes in the requested precision, by cuDNN's numerical notes. */
static bool is_exact_enough(const falt_cudnn_layer *layer, const int notes[NOTES], int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const int note = notes[i];
    if (note == DOWN_CONVERTS || note == SHORT_SUMS || (note >= WINOGRAD_4X4 && note < WINOGRAD_4X4 + 3)) return false;
    if (note == TENSOR_CORE && layer->type == FALT_F32 && !layer->allow_tf32) return false;
    if (note == NONDETERMINISTIC && layer->deterministic) return false;
  }
  return true;
}

/* The engine's number, negative where it may not be taken. */
static int judge(const falt_cudnn_layer *layer, void *config) {
  void *engine = NULL;
  int notes[NOTES];
  int64_t count = 0, noted = 0, index = -1;
  int error = dnn.create(ENGINE, &engine);
  if (!error) error = dnn.get(config, CONFIG_ENGINE, AS_DESCRIPTOR, 1, &count, &engine);
  if (!error) error = dnn.get(engine, ENGINE_NOTES, AS_NOTE, NOTES, &noted, notes);
  if (!error) error = dnn.get(engine, ENGINE_INDEX, AS_INTEGER, 1, &count, &index);
  if (engine) dnn.destroy(engine);
  return error || !is_exact_enough(layer, notes, noted) ? -1 : (int)index;
}

/* A plan by a configured engine and its workspace, or NULL. */
static void *make_plan(const falt_cudnn *c, const falt_cudnn_layer *layer, void *config, int64_t *workspace) {
  void *plan = NULL;
  int64_t count = 0;
  int error = dnn.create(PLAN, &plan);
  if (!error) error = dnn.set(plan, PLAN_HANDLE, AS_HANDLE, 1, &c->handle);
  if (!error) error = dnn.set(plan, PLAN_CONFIG, AS_DESCRIPTOR, 1, &config);
  if (!error) error = dnn.finalize(plan);
  if (!error) error = dnn.get(plan, PLAN_WORKSPACE, AS_INTEGER, 1, &count, workspace);
  if (!error && (layer->max_workspace < 0 || *workspace <= layer->max_workspace)) return plan;
  if (plan) dnn.destroy(plan);
  return NULL;
}

/* Keeps a configuration if it is the first or the fastest. Returns whether it took ownership. */
static bool try_config(falt_cudnn *c, trial *t, bool measures, void *config) {
  int64_t workspace = 0;
  const int engine = judge(t->layer, config);
  void *plan = engine >= 0 ? make_plan(c, t->layer, config, &workspace) : NULL;
  if (!plan) return false;
  const double seconds = measures ? measure(c, t, plan, workspace) : 0;
  c->measured += measures && isfinite(seconds);
  if (measures && !(seconds < t->best)) {
    dnn.destroy(plan);
    return false;
  }
  if (c->plan) dnn.destroy(c->plan);
  if (c->config) dnn.destroy(c->config);
  t->best = seconds;
  c->plan = plan;
  c->config = config;
  c->workspace = workspace;
  c->engine = engine;
  return true;
}

static void try_configs(falt_cudnn *c, trial *t, bool measures, void **configs, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const bool enough = c->plan && (!measures || falt_seconds() > t->end);
    if (enough || !try_config(c, t, measures, configs[i])) dnn.destroy(configs[i]);
  }
}

/* The engines that one of the heuristics proposes, best first. */
static void ask(falt_cudnn *c, trial *t, bool measures, int mode) {
  enum { MOST = 64 };
  void *heuristics = NULL, *configs[MOST];
  int64_t count = 0, made = 0;
  int error = dnn.create(HEURISTICS, &heuristics);
  if (!error) error = dnn.set(heuristics, HEURISTICS_GRAPH, AS_DESCRIPTOR, 1, &c->graph);
  if (!error) error = dnn.set(heuristics, HEURISTICS_MODE, AS_HEURISTICS_MODE, 1, &mode);
  if (!error) error = dnn.finalize(heuristics);
  if (!error) error = dnn.get(heuristics, HEURISTICS_RESULTS, AS_DESCRIPTOR, 0, &count, NULL);
  while (!error && made < count && made < MOST) error = dnn.create(CONFIG, &configs[made++]);
  if (error && made) made--;
  count = 0;
  if (!error) error = dnn.get(heuristics, HEURISTICS_RESULTS, AS_DESCRIPTOR, made, &count, configs);
  try_configs(c, t, measures, configs, error ? 0 : count);
  for (int64_t i = error ? 0 : count; i < made; i++) dnn.destroy(configs[i]);
  if (heuristics) dnn.destroy(heuristics);
}

static void choose(falt_cudnn *c, const falt_cudnn_layer *layer) {
  enum { QUICK = 3, SLOW = 1, FALLBACK = 2 };
  static const int modes[] = {QUICK, SLOW, FALLBACK};
  trial t = {.layer = layer};
  const bool measures = open_trial(c, &t);
  for (size_t i = 0; i < sizeof modes / sizeof *modes && (measures || !c->plan); i++) ask(c, &t, measures, modes[i]);
  close_trial(c, &t);
}

/* ---- making */

typedef struct question {
  falt_cudnn *cudnn;
  const falt_cudnn_layer *layer;
} question;

static void answer(void *context) {
  const question *q = context;
  check(q->cudnn, dnn.open(&q->cudnn->handle));
  make_graph(q->cudnn, q->layer);
  if (!q->cudnn->error) choose(q->cudnn, q->layer);
}

falt_status falt_cudnn_make(falt_cudnn **made, falt_gpu *gpu, const falt_cudnn_layer *layer) {
  *made = NULL;
  if (!falt_cudnn_version()) return FALT_NO_DEVICE;
  falt_cudnn *c = falt_alloc_zero(sizeof *c);
  if (!c) return falt_fail(FALT_NO_MEMORY, "memory ran out");
  c->gpu = gpu;
  pthread_mutex_init(&c->lock, NULL);
  question q = {c, layer};
  const bool entered = falt_gpu_within(gpu, answer, &q);
  *made = c;
  if (c->plan) return FALT_OK;
  falt_status status = FALT_NO_SOLVER;
  if (!entered)
    status = falt_gpu_trouble();
  else if (c->error)
    falt_fail(status, "cuDNN %s refuses it (%s)", version, dnn.error(c->error));
  else
    falt_fail(status, "cuDNN %s has no engine for it", version);
  falt_cudnn_free(c);
  *made = NULL;
  return status;
}

static void release(void *context) {
  falt_cudnn *c = context;
  if (c->plan) dnn.destroy(c->plan);
  if (c->config) dnn.destroy(c->config);
  while (c->owned_count) dnn.destroy(c->owned[--c->owned_count]);
  if (c->handle) dnn.close(c->handle);
}

void falt_cudnn_free(falt_cudnn *c) {
  if (!c) return;
  falt_gpu_within(c->gpu, release, c);
  pthread_mutex_destroy(&c->lock);
  falt_free(c);
}

size_t falt_cudnn_workspace(const falt_cudnn *c) {
  return (size_t)c->workspace;
}

int falt_cudnn_engine(const falt_cudnn *c) {
  return c->engine;
}

int falt_cudnn_measured(const falt_cudnn *c) {
  return c->measured;
}
