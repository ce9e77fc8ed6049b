/* What only a GPU can show, beyond `faltung verify --device cuda`: pointers that are not aligned, streams, threads that
 * share a plan, two devices in one process, errors. Plain C over the public header; prints what fails. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

enum { THREADS = 4, ROUNDS = 50 };

static const char *const lines[] = {
    "correlate h=67 w=512 r=3 s=3 boundary=symmetric",
    "correlate h=200 w=1024 r=5 s=5 boundary=wrap",
    "correlate pixel=3 h=50 w=320 r=5 s=5 boundary=reflect101 type=u8",
    "correlate w=100000 s=7 boundary=edge type=f16",
    "correlate d=20 h=33 w=128 t=3 r=3 s=3 type=f64",
    "correlate d=20 h=33 w=128 t=5 r=3 s=3 boundary=reflect101",
    "correlate h=40 w=40 r=31 s=31 boundary=edge",
    "correlate pixel=3 h=50 w=320 r=13 s=13 boundary=wrap type=u8 rank=1 method=cuda-separable-25d",
    "correlate h=50 w=132 r=5 s=9 boundary=symmetric type=u16 rank=1 method=cuda-separable-25d",
    "correlate h=50 w=320 r=9 s=17 boundary=reflect101 rank=1 method=cuda-separable-25d",
    "forward n=1 c=67 h=14 w=14 k=35 r=1 s=1 type=f16 layout=nhwc",
};
enum { LINES = sizeof lines / sizeof *lines };

static void test_alignment(falt_device *device) {
  for (int i = 0; i < LINES; i++) {
    run r;
    expect(open_run(&r, device, lines[i]), "plan", lines[i]);
    for (int64_t shift = 0; shift < 5; shift++)
      expect(same_when(&r, shift, (shift * 3) % 5, NULL), "misaligned operands", lines[i]);
    close_run(&r);
  }
}

typedef struct worker {
  const run *r;
  void *stream;
  bool fine;
} worker;

static void *work(void *context) {
  worker *w = context;
  w->fine = true;
  for (int i = 0; i < ROUNDS; i++) w->fine &= same_when(w->r, i % 2, 0, w->stream);
  return NULL;
}

/* One plan, several threads, each with its stream of the primary context. */
static void test_threads(falt_device *device) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*retain)(void **, int), (*push)(void *), (*create)(void **, unsigned), (*destroy)(void *);
  void *entry[] = {dlsym(driver, "cuDevicePrimaryCtxRetain"), dlsym(driver, "cuCtxPushCurrent_v2"),
                   dlsym(driver, "cuStreamCreate"), dlsym(driver, "cuStreamDestroy_v2")};
  memcpy(&retain, &entry[0], sizeof entry[0]);
  memcpy(&push, &entry[1], sizeof entry[0]);
  memcpy(&create, &entry[2], sizeof entry[0]);
  memcpy(&destroy, &entry[3], sizeof entry[0]);
  void *context = NULL;
  expect(retain(&context, 0) == 0 && push(context) == 0, "context", "primary");
  run r;
  expect(open_run(&r, device, lines[1]), "plan", lines[1]);
  worker workers[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.r = &r};
    expect(create(&workers[i].stream, 0) == 0, "stream", lines[1]);
    pthread_create(&threads[i], NULL, work, &workers[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    expect(workers[i].fine, "threads that share a plan", lines[1]);
    destroy(workers[i].stream);
  }
  close_run(&r);

  falt_device *borrowed = NULL; /* a device in the caller's context */
  const falt_cuda_options options = {.context = context};
  expect(falt_device_cuda(&borrowed, &options) == FALT_OK, "caller's context", "");
  expect(open_run(&r, borrowed, lines[0]) && same_when(&r, 0, 0, NULL), "caller's context", lines[0]);
  close_run(&r);
  falt_device_destroy(&borrowed);
}

static void test_errors(falt_device *device) {
  falt_device *none = NULL;
  void *memory = NULL;
  const falt_cuda_options options = {.ordinal = 4000};
  expect(falt_device_cuda(&none, &options) == FALT_NO_DEVICE && !none, "no such device", "cuda:4000");
  expect(falt_device_alloc(device, &memory, (size_t)1 << 50) == FALT_NO_MEMORY && !memory, "memory that is not there",
         "");
  expect(falt_device_alloc(device, &memory, 1 << 20) == FALT_OK, "the device after running out", "");
  falt_device_free(device, &memory);
}

/* A stream of a context that is not the device's, and operands in the host's memory. */
static void test_foreign(falt_device *device) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL, *stream = NULL, *x = NULL, *y = NULL, *before;
  int (*create)(void **, unsigned, int), (*destroy)(void *), (*make)(void **, unsigned), (*pop)(void **);
  void *entry[] = {dlsym(driver, "cuCtxCreate_v2"), dlsym(driver, "cuCtxDestroy_v2"), dlsym(driver, "cuStreamCreate"),
                   dlsym(driver, "cuCtxPopCurrent_v2")};
  memcpy(&create, &entry[0], sizeof entry[0]);
  memcpy(&destroy, &entry[1], sizeof entry[0]);
  memcpy(&make, &entry[2], sizeof entry[0]);
  memcpy(&pop, &entry[3], sizeof entry[0]);
  run r;
  expect(create(&context, 0, 0) == 0 && make(&stream, 0) == 0 && pop(&before) == 0, "a second context", "");
  expect(open_run(&r, device, lines[0]), "plan", lines[0]);
  expect(falt_device_alloc(device, &x, r.bytes[INPUT]) == FALT_OK &&
             falt_device_alloc(device, &y, r.bytes[OUTPUT]) == FALT_OK,
         "memory", lines[0]);
  falt_operands set = {.input = x, .output = y, .stream = stream};
  expect(falt_execute(r.plan, &set) == FALT_INVALID_ARGUMENT, "a stream of another context", falt_message());
  set.stream = NULL;
  expect(falt_execute(r.plan, &set) == FALT_OK, "the device's own stream after it", lines[0]);
  set.input = r.host[INPUT]; /* some machines let kernels read all of the host's memory */
  const falt_status status = falt_execute(r.plan, &set);
  expect(status == FALT_INVALID_ARGUMENT || status == FALT_OK, "the host's memory", falt_message());
  printf("host memory in falt_execute: %s\n", status == FALT_OK ? "reached" : falt_message());
  expect(falt_device_synchronize(device) == FALT_OK, "the device after it", lines[0]);
  falt_device_free(device, &x);
  falt_device_free(device, &y);
  close_run(&r);
  destroy(context);
}

/* f16 in which sums are exact: -1, 0 and 1; and every so many an infinity. */
static void fill_whole(uint16_t *to, int64_t count, unsigned seed, int64_t every) {
  static const uint16_t numbers[] = {0xbc00, 0, 0x3c00}, infinities[] = {0x7c00, 0xfc00};
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525 + 1013904223;
    to[i] = every && i % every == every / 2 ? infinities[seed >> 31] : numbers[(seed >> 16) % 3];
  }
}

static bool is_nan(uint16_t f16) {
  return (f16 & 0x7fff) > 0x7c00;
}

/* Layers whose kernels multiply more than a result's own window: pixels that others share, channels and taps that are
 * padding. */
static const char *const shared_windows[] = {
    "backward-data n=2 c=3 h=38 w=42 k=64 r=7 s=7 stride=2 pad=3 type=f16 layout=nhwc method=cuda-igemm-sm90-halo",
    "backward-data n=2 c=3 h=38 w=42 k=64 r=7 s=7 stride=2 pad=3 type=f16 layout=nhwc "
    "input-strides=4788,4788,1596,1596,42,1",
    "forward n=2 c=3 h=38 w=42 k=64 r=7 s=7 stride=2 pad=3 type=f16 layout=nhwc method=cuda-fewchannels-nhwc",
    "forward n=2 c=5 h=30 w=34 k=40 r=3 s=3 pad=1 type=f16 method=cuda-fewchannels-nhwc",
    "forward n=2 c=1 d=6 h=14 w=72 k=12 t=3 r=3 s=3 pad=1 type=f16 method=cuda-fewchannels-nchw",
    "forward n=2 c=3 h=14 w=67 k=20 r=2 s=5 pad=2 type=f16 method=cuda-fewchannels-nchw",
    "forward n=3 c=12 h=20 w=23 k=12 r=7 s=7 pad=3 groups=12 type=f16 method=cuda-depthwise-toeplitz",
    "forward n=3 c=16 h=20 w=23 k=16 r=7 s=7 pad=3 groups=16 type=f16 layout=nhwc method=cuda-depthwise-toeplitz",
    "backward-data n=3 c=16 h=20 w=22 k=16 r=5 s=7 pad=2:2x3:3 groups=16 type=f16 layout=nhwc "
    "method=cuda-depthwise-toeplitz",
    "forward n=2 c=32 h=14 w=15 k=32 r=3 s=3 pad=1 groups=8 type=f16 layout=nhwc method=cuda-grouped",
    "forward n=2 c=24 h=14 w=15 k=40 r=3 s=3 pad=1 type=f16 layout=nhwc method=cuda-igemm-sm90",
    "forward n=2 c=19 h=14 w=15 k=21 r=3 s=3 pad=1 type=f16 layout=nhwc method=cuda-igemm",
    "forward n=2 c=33 h=14 w=15 k=35 r=3 s=3 pad=1 type=f16 layout=nhwc method=cuda-igemm",
    "backward-data n=2 c=72 h=14 w=15 k=72 r=1 s=3 pad=0x1 groups=8 type=f16 layout=nhwc method=cuda-igemm",
};

typedef struct operand {
  uint16_t *data;
  int64_t count;
} operand;

static operand make_operand(const falt_tensor *t, unsigned seed, int64_t every) {
  const operand o = {calloc((size_t)falt_tensor_span(t), sizeof *o.data), falt_tensor_span(t)};
  if (o.data && seed) fill_whole(o.data, o.count, seed, every);
  return o;
}

static bool compute(falt_device *device, const char *line, const operand *input, const operand *w,
                    const operand *output) {
  falt_plan *plan = NULL;
  const falt_operands o = {.input = input->data, .filter = w->data, .output = output->data};
  const bool fine =
      falt_plan_create_line(&plan, device, line, w->data) == FALT_OK && falt_execute_host(plan, &o) == FALT_OK;
  falt_plan_destroy(&plan);
  return fine;
}

/* What is not finite must reach the results of its own taps alone. */
static void test_infinities(falt_device *device, falt_device *cpu, const char *line) {
  falt_problem p;
  falt_budget budget;
  expect(falt_problem_parse(&p, &budget, line) == FALT_OK, "problem", line);
  const bool forward = p.operation == FALT_FORWARD;
  const falt_tensor *from = forward ? &p.input : &p.output, *to = forward ? &p.output : &p.input;
  const operand x = make_operand(from, 1, 4001), w = make_operand(&p.filter, 2, 0), found = make_operand(to, 0, 0),
                wanted = make_operand(to, 0, 0);
  const char *method = strstr(line, " method=");
  char reference[200];
  snprintf(reference, sizeof reference, "%.*s method=reference", (int)(method ? method - line : (long)strlen(line)),
           line);
  bool fine = x.data && w.data && found.data && wanted.data;
  fine = fine && compute(cpu, reference, forward ? &x : &wanted, &w, forward ? &wanted : &x) &&
         compute(device, line, forward ? &x : &found, &w, forward ? &found : &x);
  int64_t infinite = 0;
  for (int64_t i = 0; fine && i < found.count; i++) {
    fine = wanted.data[i] == found.data[i] || (is_nan(wanted.data[i]) && is_nan(found.data[i]));
    infinite += (wanted.data[i] & 0x7c00) == 0x7c00;
  }
  expect(fine && infinite > 0 && infinite < found.count / 2, "infinities", line);
  free(x.data);
  free(w.data);
  free(found.data);
  free(wanted.data);
}

int main(void) {
  falt_device *device = NULL, *second = NULL, *cpu = NULL;
  if (falt_device_cuda(&device, NULL) != FALT_OK) {
    fprintf(stderr, "%s\n", falt_message());
    return 3;
  }
  test_errors(device);
  test_alignment(device);
  test_threads(device);
  test_foreign(device);
  expect(falt_device_cpu(&cpu, NULL) == FALT_OK, "the CPU", "");
  for (size_t i = 0; i < sizeof shared_windows / sizeof *shared_windows; i++)
    test_infinities(device, cpu, shared_windows[i]);
  falt_device_destroy(&cpu);
  expect(falt_device_cuda(&second, NULL) == FALT_OK, "a second device", "");
  test_alignment(second);
  falt_device_destroy(&second);
  falt_device_destroy(&device);
  printf("test_gpu: %d failed\n", failures);
  return failures != 0;
}
