/* What the header promises about executions on a GPU: they can be captured into a graph, they follow one another
 * without a wait and run concurrently, plans are made and destroyed by any thread while others run, devices of two
 * contexts coexist, and all these give the same bits; memory that runs out is an error and not the end; and
 * the textbook's values come out of every solver. Plain C over the public header; prints what fails.
 *   contract          all of it
 *   contract quick    small, for compute-sanitizer */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>

#include "fixture.h"

enum { THREADS = 6, REPLAYS = 3, OVERLAPS = 8 };

/* ---- the driver, for streams, contexts and graphs of the caller's own */

static struct {
  int (*retain)(void **context, int device);
  int (*context_create)(void **context, unsigned flags, int device);
  int (*context_destroy)(void *context);
  int (*push)(void *context);
  int (*pop)(void **context);
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_destroy)(void *stream);
  int (*stream_synchronize)(void *stream);
  int (*capture)(void *stream, int mode);
  int (*capture_end)(void *stream, void **graph);
  int (*instantiate)(void **executable, void *graph, unsigned long long flags);
  int (*replay)(void *executable, void *stream);
  int (*executable_destroy)(void *executable);
  int (*graph_destroy)(void *graph);
} cu;

static bool load_driver(void) {
  const struct {
    const char *name;
    void *entry;
  } entries[] = {{"cuDevicePrimaryCtxRetain", &cu.retain},
                 {"cuCtxCreate_v2", &cu.context_create},
                 {"cuCtxDestroy_v2", &cu.context_destroy},
                 {"cuCtxPushCurrent_v2", &cu.push},
                 {"cuCtxPopCurrent_v2", &cu.pop},
                 {"cuStreamCreate", &cu.stream_create},
                 {"cuStreamDestroy_v2", &cu.stream_destroy},
                 {"cuStreamSynchronize", &cu.stream_synchronize},
                 {"cuStreamBeginCapture_v2", &cu.capture},
                 {"cuStreamEndCapture", &cu.capture_end},
                 {"cuGraphInstantiateWithFlags", &cu.instantiate},
                 {"cuGraphLaunch", &cu.replay},
                 {"cuGraphExecDestroy", &cu.executable_destroy},
                 {"cuGraphDestroy", &cu.graph_destroy}};
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  for (size_t i = 0; library && i < sizeof entries / sizeof *entries; i++) {
    void *symbol = dlsym(library, entries[i].name);
    if (!symbol) return false;
    memcpy(entries[i].entry, &symbol, sizeof symbol);
  }
  return library != NULL;
}

static const char *const lines[] = {
    "correlate h=67 w=512 r=3 s=3 boundary=symmetric",
    "correlate h=200 w=1024 r=5 s=5 boundary=wrap",
    "correlate pixel=3 h=50 w=320 r=5 s=5 boundary=reflect101 type=u8",
    "correlate w=100000 s=7 boundary=edge type=f16",
    "correlate d=20 h=33 w=128 t=3 r=3 s=3 type=f64",
    "correlate h=90 w=90 r=31 s=31 boundary=edge",
    "correlate h=100 w=200 r=5 s=5 stride=2",
    "correlate h=100 w=200 r=5 s=5 dilation=2 boundary=edge",
    "correlate h=100 w=300 r=15 s=15 rank=1 boundary=symmetric",
    "forward n=2 c=8 h=14 w=14 k=8 r=3 s=3 pad=1",
    "maxpool n=2 c=8 h=28 w=28 r=2 s=2 stride=2",
    "forward n=2 c=64 h=28 w=28 k=128 r=3 s=3 pad=1 type=f16 layout=nhwc",
    "backward-data n=2 c=64 h=28 w=28 k=128 r=3 s=3 pad=1 stride=2 type=f16 layout=nhwc",
    "backward-data n=4 c=64 h=28 w=28 k=128 r=1 s=1 stride=2 type=f16 layout=nhwc",
    "backward-filter n=8 c=64 h=28 w=28 k=128 r=3 s=3 pad=1 type=bf16 layout=nhwc",
    "forward n=2 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 type=f16",
    "backward-filter n=8 c=48 h=20 w=20 k=72 r=3 s=3 pad=1",
    "forward n=1 c=512 h=7 w=7 k=512 r=3 s=3 pad=1",
    "forward n=2 c=32 h=28 w=28 k=32 r=3 s=3 pad=1 groups=32 type=f16 layout=nhwc",
    "backward-filter n=4 c=32 h=28 w=28 k=32 r=7 s=7 pad=3 groups=32 type=f16 layout=nhwc",
    "forward n=4 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 groups=8 type=f16 layout=nhwc",
    "backward-filter n=4 c=3 h=60 w=60 k=64 r=7 s=7 pad=3 stride=2 type=f16 layout=nhwc",
    "backward-data n=1 c=16 d=12 h=12 w=12 k=32 t=3 r=3 s=3 pad=1 type=f16 layout=ndhwc",
    "forward n=2 c=32 h=14 w=14 k=40 r=3 s=3 pad=1 type=u8 layout=nhwc",
    "forward n=1 c=256 h=14 w=14 k=256 r=3 s=3 pad=1 type=f16 layout=nhwc",
    "backward-filter n=9 c=65 h=14 w=14 k=72 r=3 s=3 pad=1 type=f16 layout=nhwc",
    "backward-filter n=1 c=960 h=7 w=7 k=960 r=3 s=3 pad=1 groups=960 type=f16 layout=nhwc",
    "forward n=16 c=96 h=28 w=28 k=96 r=9 s=9 pad=4 groups=96 type=f16",
    "backward-filter n=32 c=48 h=28 w=28 k=48 r=7 s=7 pad=3 groups=48 type=f16",
    "backward-filter n=32 c=96 h=28 w=28 k=96 r=7 s=7 pad=3 groups=96 type=f16 layout=nhwc",
    "backward-data n=2 c=3 h=56 w=56 k=64 r=7 s=7 pad=3 stride=2 type=f16 layout=nhwc",
    "forward n=1 c=1 d=64 h=64 w=64 k=16 t=3 r=3 s=3 pad=1 type=f16 layout=ndhwc",
    "backward-filter n=32 c=512 h=14 w=14 k=512 r=3 s=3 pad=1 type=f16 layout=nhwc",
};
enum { LINES = sizeof lines / sizeof *lines };
static int line_count = LINES;

/* ---- the textbook's values */

typedef struct example {
  const char *line, *x, *w, *y;
} example;

static const example examples[] = {
    {"correlate w=7 s=5", "1 2 3 4 5 6 7", "3 4 5 4 3", "22 38 57 76 95 90 74"},
    {"correlate w=7 s=5", "8 2 5 4 1 7 3", "1 3 5 3 1", "51 53 52 47 46 51 37"},
    {"correlate w=5 s=3", "4 1 3 2 3", "2 1 4", "8 21 13 20 7"},
    {"correlate w=5 s=3", "4 1 3 2 3", "0 1 0", "4 1 3 2 3"},
    {"correlate w=5 s=3", "4 1 3 2 3", "0 0 1", "1 3 2 3 0"},
    {"correlate w=5 s=3", "4 1 3 2 3", "1 0 0", "0 4 1 3 2"},
    {"correlate w=5 s=3", "4 1 3 2 3", "-.5 0 .5", ".5 -.5 .5 0 -1"},
    {"convolve w=4 s=2 mode=full", "1 2 3 4", ".5 .5", ".5 1.5 2.5 3.5 2"},
    {"correlate h=5 w=5 r=5 s=5 mode=valid", "1 2 3 4 5 2 3 4 5 6 3 4 5 6 7 4 5 6 7 8 5 6 7 8 5",
     "1 2 3 2 1 2 3 4 3 2 3 4 5 4 3 2 3 4 3 2 1 2 3 2 1", "321"},
};

static int64_t read_floats(const char *text, float *values, int64_t most) {
  int64_t count = 0;
  for (char *end; count < most; text = end) {
    values[count] = strtof(text, &end);
    if (end == text) break;
    count++;
  }
  return count;
}

static float largest(const float *values, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; i++) most = fmaxf(most, fabsf(values[i]));
  return most;
}

static void check_example(falt_device *device, const example *e, const char *method) {
  float x[32], w[32], y[32], expected[32];
  falt_problem p;
  falt_budget budget;
  falt_plan *plan;
  read_floats(e->x, x, 32);
  read_floats(e->w, w, 32);
  const int64_t count = read_floats(e->y, expected, 32);
  expect(falt_problem_parse(&p, &budget, e->line) == FALT_OK && falt_tensor_span(&p.output) == count, "parse", e->line);
  snprintf(budget.method, sizeof budget.method, "%s", method);
  if (falt_plan_create(&plan, device, &p, &budget, w) != FALT_OK) return; /* does not apply */
  for (int i = 0; i < 32; i++) y[i] = NAN;
  const falt_operands host = {.input = x, .filter = w, .output = y};
  const float rounding = strncmp(method, "cuda-fft", 8) == 0 ? 1e-6F : 0; /* transforms mix all elements */
  bool fine = falt_execute_host(plan, &host) == FALT_OK;
  for (int64_t i = 0; i < count; i++) fine &= fabsf(y[i] - expected[i]) <= rounding * largest(expected, count);
  expect(fine, method, e->line);
  falt_plan_destroy(&plan);
}

static void test_examples(falt_device *device) {
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
    for (int s = 0; falt_solver_name(s); s++)
      if (strncmp(falt_solver_name(s), "cuda", 4) == 0) check_example(device, &examples[i], falt_solver_name(s));
}

/* ---- graphs */

/* Mode 0 refuses, while capturing, whatever might wait or allocate. */
static bool capture(const run *r, const placed *p, void **executable) {
  void *graph = NULL;
  if (cu.capture(p->set.stream, 0) != 0) return false;
  const bool executed = falt_execute(r->plan, &p->set) == FALT_OK;
  const bool ended = cu.capture_end(p->set.stream, &graph) == 0;
  const bool made = executed && ended && graph && cu.instantiate(executable, graph, 0) == 0;
  if (graph) cu.graph_destroy(graph);
  return made;
}

static void test_graphs(falt_device *device) {
  void *stream = NULL, *executable;
  expect(cu.stream_create(&stream, 0) == 0, "stream", "graphs");
  for (int i = 0; i < line_count; i++) {
    run r;
    placed p;
    expect(open_run(&r, device, lines[i]) && place(&r, &p, 0, 0, stream), "plan", lines[i]);
    if (capture(&r, &p, &executable)) {
      for (int replay = 0; replay < REPLAYS; replay++)
        expect(poison(&r, &p) && cu.replay(executable, stream) == 0 && came_out(&r, &p), "graph", lines[i]);
      cu.executable_destroy(executable);
    } else {
      expect(false, "capture", lines[i]);
    }
    unplace(&r, &p);
    close_run(&r);
  }
  cu.stream_destroy(stream);
}

/* ---- executions that overlap */

/* The result of other data than the seeds of open_run give. */
static bool reopen(run *r) {
  const int changed = r->result == OUTPUT ? INPUT : OUTPUT;
  const falt_operands host = operands_of(r->host);
  const falt_type type = tensor_of(&r->problem, changed)->type;
  falt_random_fill(r->host[changed], type, (int64_t)(r->bytes[changed] / falt_type_size(type)), 77);
  return falt_execute_host(r->plan, &host) == FALT_OK;
}

/* One plan, alternating between two sets of operands: a kernel that PDL starts before the workspace is ready shows
 * where the other set's data differ. */
static void overlap(const run *a, const run *b, void *const stream[2], bool share) {
  placed p, q;
  bool fine = place(a, &p, 0, 0, stream[0]) && place(b, &q, 0, 0, stream[1]) && poison(a, &p) && poison(b, &q);
  void *own = q.set.workspace;
  if (share) q.set.workspace = p.set.workspace;
  for (int i = 0; fine && i < OVERLAPS; i++)
    fine = falt_execute(a->plan, &p.set) == FALT_OK && falt_execute(a->plan, &q.set) == FALT_OK;
  expect(fine && came_out(a, &p) && came_out(b, &q), share ? "one after another" : "concurrent", a->line);
  q.set.workspace = own;
  unplace(a, &p);
  unplace(b, &q);
}

static void test_overlaps(falt_device *device) {
  void *stream[2] = {NULL, NULL};
  expect(cu.stream_create(&stream[0], 1) == 0 && cu.stream_create(&stream[1], 1) == 0, "streams", "overlaps");
  for (int i = 0; i < line_count; i++) {
    run a, b;
    expect(open_run(&a, device, lines[i]) && open_run(&b, device, lines[i]) && reopen(&b), "plan", lines[i]);
    overlap(&a, &b, (void *[]){stream[0], stream[0]}, true);
    overlap(&a, &b, stream, false);
    close_run(&a);
    close_run(&b);
  }
  for (int i = 0; i < 2; i++) cu.stream_destroy(stream[i]);
}

/* ---- threads that plan, run and destroy at the same time */

typedef struct worker {
  falt_device *device;
  int first, rounds;
  bool fine;
} worker;

/* Integers, since operands that are not aligned may be summed in another order. */
static void *plan_and_run(void *context) {
  worker *w = context;
  void *stream = NULL, *primary = NULL;
  w->fine = cu.retain(&primary, 0) == 0 && cu.push(primary) == 0 && cu.stream_create(&stream, 1) == 0;
  for (int i = 0; w->fine && i < w->rounds; i++) {
    run r;
    w->fine = open_run_of(&r, w->device, lines[(w->first + i) % line_count], true) && same_when(&r, i % 2, 0, stream);
    close_run(&r); /* while the others' kernels run */
  }
  if (stream) cu.stream_destroy(stream);
  return NULL;
}

static void test_threads(falt_device *device, int rounds) {
  worker workers[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.device = device, .first = i, .rounds = rounds};
    pthread_create(&threads[i], NULL, plan_and_run, &workers[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    expect(workers[i].fine, "threads that plan, run and destroy", "");
  }
}

/* A plan goes while another one's kernels are on their way; then a whole device does. */
static void test_destroy_while_running(falt_device *device) {
  static const char long_line[] = "correlate h=3000 w=3000 r=9 s=9 boundary=edge";
  run r, other;
  placed p;
  void *stream = NULL;
  falt_device *second = NULL;
  expect(cu.stream_create(&stream, 1) == 0 && falt_device_cuda(&second, NULL) == FALT_OK, "second device", "");
  expect(open_run(&r, device, long_line) && place(&r, &p, 0, 0, stream) && poison(&r, &p), "plan", long_line);
  expect(open_run(&other, second, lines[9]), "plan", lines[9]);
  for (int i = 0; i < 20; i++) expect(falt_execute(r.plan, &p.set) == FALT_OK, "execute", long_line);
  close_run(&other);
  falt_device_destroy(&second);
  expect(came_out(&r, &p), "destroyed others while running", long_line);
  unplace(&r, &p);
  close_run(&r);
  cu.stream_destroy(stream);
}

/* ---- two contexts */

static void test_contexts(falt_device *device) {
  void *context = NULL, *before;
  falt_device *other = NULL;
  expect(cu.context_create(&context, 0, 0) == 0 && cu.pop(&before) == 0, "a second context", "");
  const falt_cuda_options options = {.context = context};
  expect(falt_device_cuda(&other, &options) == FALT_OK, "its device", "");
  for (int i = 0; other && i < line_count; i++) {
    run here, there;
    expect(open_run(&here, device, lines[i]) && open_run(&there, other, lines[i]), "plans in two contexts", lines[i]);
    expect(same_when(&here, 0, 0, NULL) && same_when(&there, 0, 0, NULL), "two contexts", lines[i]);
    expect(memcmp(here.host[here.result], there.host[there.result], here.bytes[here.result]) == 0,
           "the same in two contexts", lines[i]);
    close_run(&here);
    close_run(&there);
  }
  falt_device_destroy(&other);
  cu.context_destroy(context);
}

/* ---- memory that runs out */

enum { BLOCKS = 4096 };

static int exhaust(falt_device *device, void *block[BLOCKS]) {
  int count = 0;
  for (size_t bytes = (size_t)8 << 30; bytes >= (size_t)1 << 20; bytes /= 2)
    while (count < BLOCKS && falt_device_alloc(device, &block[count], bytes) == FALT_OK) count++;
  return count;
}

/* What does not fit is refused by name; with memory back, everything works again. */
static void test_exhaustion(falt_device *device) {
  static void *block[BLOCKS];
  run r, large;
  expect(open_run(&r, device, lines[0]), "plan", lines[0]);
  int count = exhaust(device, block);
  expect(count > 0 && count < BLOCKS, "memory ends", "");
  /* More than the buffers hold that falt_execute_host keeps of the runs before. */
  const bool planned = open_run(&large, device, "forward n=1 c=1024 h=14 w=14 k=1024 r=7 s=7 pad=3");
  expect(!planned && strstr(falt_message(), "memory"), "planning or running without memory", "");
  close_run(&large);
  while (count > 0) falt_device_free(device, &block[--count]);
  expect(same_when(&r, 0, 0, NULL), "after memory ran out", lines[0]);
  close_run(&r);
}

int main(int count, char **words) {
  const bool quick = count > 1 && strcmp(words[1], "quick") == 0;
  falt_device *device = NULL;
  void *primary = NULL;
  if (falt_device_cuda(&device, NULL) != FALT_OK) {
    fprintf(stderr, "%s\n", falt_message());
    return 3;
  }
  if (!load_driver() || cu.retain(&primary, 0) != 0 || cu.push(primary) != 0) {
    fprintf(stderr, "contract: the driver lacks an entry point of the tests\n");
    return 3;
  }
  test_examples(device);
  test_graphs(device);
  test_overlaps(device);
  test_contexts(device);
  test_threads(device, quick ? 2 : 40);
  if (!quick) test_destroy_while_running(device);
  if (!quick) test_exhaustion(device);
  falt_device_destroy(&device);
  printf("contract: %d failed\n", failures);
  return failures != 0;
}
