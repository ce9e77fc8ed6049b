/* Tests of falt_device_interrupt, from a thread and from a signal handler: during execution by every solver of the CPU,
 * planning, tuning, measuring and verifying; and of the device afterwards. test_slabs interrupts slabs. */
#include "long_calls.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "core/sanitize.h"

/* Calls usually end within 0.02 s. On a machine that runs other tests the clock goes on while this process waits for a
 * core, so the processor's time is limited, and the clock's only against a call that waits for ever. */
static const double soon = FALT_ANY_SANITIZER ? 15 : 0.5, ever = 30, delay = 0.03;

/* Bytes of operands and workspace. Sanitizers take long to fill more, and the smaller problems take long enough there.
 */
static const size_t most_bytes = FALT_ANY_SANITIZER ? (size_t)64 << 20 : SIZE_MAX;

/* ---- interrupting from a thread */

typedef struct alarm_clock {
  pthread_t thread;
  falt_device *device;
  double delay;
  double rang, worked; /* the clock's seconds and the process's when it rang */
} alarm_clock;

static double seconds_worked(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void note_time(alarm_clock *c) {
  c->rang = falt_seconds();
  c->worked = seconds_worked();
}

static void expect_soon(const alarm_clock *c) {
  const double waited = falt_seconds() - c->rang, worked = seconds_worked() - c->worked;
  if (getenv("FALT_TEST_TIMES"))
    print_message("%.4f s after, %.4f s of work, interrupted at %.4f s\n", waited, worked, c->delay);
  if (waited > ever || (waited > soon && worked > soon))
    fail_msg("ended %.2f s after the interrupt, after %.2f s of work", waited, worked);
}

static void *ring(void *context) {
  alarm_clock *c = context;
  usleep((useconds_t)(c->delay * 1e6));
  note_time(c);
  falt_device_interrupt(c->device);
  return NULL;
}

/* Calls once and interrupts the call after some seconds; the device then works again. */
static falt_status interrupt_once(falt_device *device, double seconds, falt_status (*call)(void *), void *context) {
  alarm_clock c = {.device = device, .delay = seconds};
  assert_int_equal(pthread_create(&c.thread, NULL, ring, &c), 0);
  const falt_status status = call(context);
  pthread_join(c.thread, NULL);
  expect_soon(&c);
  if (status == FALT_CANCELLED) expect_message("falt_device_interrupt");
  assert_true(falt_device_interrupted(device));
  falt_device_resume(device);
  assert_false(falt_device_interrupted(device));
  return status;
}

/* A call of many times `seconds` is cancelled soon. On fast machines a call may end before the interrupt: the next try
 * interrupts earlier. */
static void expect_cancelled(falt_device *device, double seconds, falt_status (*call)(void *), void *context,
                             const char *what) {
  falt_status status = FALT_OK;
  for (int i = 0; i < 5 && status == FALT_OK; i++)
    status = interrupt_once(device, ldexp(seconds, -2 * i), call, context);
  if (status != FALT_CANCELLED) fail_msg("%s: %s instead of FALT_CANCELLED", what, falt_status_name(status));
}

/* ---- every solver of the CPU */

/* Problems that take a second and more by this method on two threads; some in few tasks, some with long rows. */
static const struct {
  const char *method, *line;
} slow[] = {
    {"reference", "correlate h=2000 w=2000 r=9 s=9"},
    {"reference", "backward-filter n=16 c=8 h=128 w=128 k=8 r=3 s=3 pad=1"},
    {"reference", "correlate h=1 w=4000 r=1 s=100001 boundary=wrap"},
    {"reference", "backward-maxpool n=1 c=64 h=128 w=128 r=9 s=9 pad=4"},
    {"generic", "correlate h=4000 w=4000 r=31 s=31 type=f64 boundary=wrap"},
    {"generic", "correlate w=4000 s=3000001 boundary=wrap"},
    {"generic", "forward c=512 h=16 w=16 k=128 r=17 s=17 pad=8 layout=nhwc type=f64"},
    {"generic", "backward-filter n=64 c=64 h=64 w=64 k=64 r=5 s=5 pad=2 type=f64"},
    {"generic", "backward-maxpool n=8 c=64 h=256 w=256 r=31 s=31 pad=15"},
    {"generic", "backward-data n=8 c=64 h=128 w=128 k=64 r=5 s=5 pad=2 type=f64"},
    {"generic", "forward n=8 c=64 h=128 w=128 k=64 r=9 s=9 pad=4 groups=64 type=f64 layout=nhwc"},
    {"direct", "correlate h=4000 w=4000 r=63 s=63"},
    {"direct", "correlate w=400000 s=40001"},
    {"direct", "correlate d=200 h=200 w=200 t=15 r=15 s=15"},
    {"direct-u8", "correlate h=8000 w=8000 r=31 s=31 type=u8"},
    {"separable", "correlate h=6000 w=6000 r=255 s=255 rank=1"},
    {"separable-u8", "correlate h=12000 w=12000 r=255 s=255 type=u8 rank=1"},
    {"separable", "correlate d=300 h=300 w=300 t=101 r=101 s=101 rank=1"},
    {"running-sums", "correlate h=12000 w=12000 r=301 s=301 rank=1"},
    {"running-sums", "correlate d=300 h=300 w=300 t=31 r=31 s=31 rank=1"},
    {"separable", "correlate h=6000 w=6000 r=255 s=255 factors=2"},
    {"expand-factors", "correlate h=4000 w=4000 r=63 s=63 factors=2"},
    {"separable-passes-cpu", "correlate h=4000 w=4000 r=1001 s=1001 factors=2"},
    {"separable-passes-cpu", "correlate d=300 h=300 w=300 t=101 r=101 s=101 factors=1"},
    {"fft", "correlate h=8000 w=8000 r=127 s=127"},
    {"fft", "correlate w=20000000 s=3000001"},
    {"repeated-boxes", "correlate h=12000 w=12000 r=1 s=301 rank=1"},
    {"fft", "correlate d=300 h=300 w=300 t=31 r=31 s=31 type=f64"},
    {"fft-dense", "forward n=4 c=16 h=512 w=512 k=16 r=31 s=31 pad=15"},
    {"fft-wgrad", "backward-filter n=16 c=64 w=65536 k=64 s=65536 pad=65535:0 groups=64"},
    {"direct-nhwc", "forward n=4 c=256 h=64 w=64 k=256 r=9 s=9 pad=4 layout=nhwc"},
    {"direct-nhwc", "forward c=16384 h=1 w=1 k=8192 r=1 s=1 layout=nhwc"}, /* most of it packs, as in the next */
    {"dgrad-strided", "backward-data c=4096 h=9 w=9 k=2048 r=3 s=3 pad=1"},
    {"inner-product", "forward n=4 c=65536 h=1 w=1 k=8192 r=1 s=1"},
    {"fprop-nchw", "forward n=32 c=512 h=64 w=64 k=512 r=7 s=7 pad=3 type=bf16"},
    {"igemm-nchw", "forward n=4 c=256 h=64 w=64 k=256 r=9 s=9 pad=4"},
    {"igemm-nchw-bf16", "forward n=32 c=512 h=64 w=64 k=512 r=7 s=7 pad=3 type=bf16"},
    {"winograd", "forward n=16 c=512 h=128 w=128 k=512 r=3 s=3 pad=1 layout=nhwc"},
    {"winograd", "forward n=8 c=1024 h=64 w=64 k=1024 r=3 s=3 pad=1 groups=2"},
    {"igemm-vnni", "forward n=32 c=512 h=64 w=64 k=512 r=7 s=7 pad=3 layout=nhwc type=bf16"},
    {"igemm-vnni", "forward n=1 c=8192 h=3 w=3 k=4096 r=3 s=3 layout=nhwc weight-layout=hwio type=bf16"},
    {"dgrad-strided", "backward-data n=4 c=256 h=64 w=64 k=256 r=9 s=9 pad=4 layout=nhwc"},
    {"winograd-wgrad", "backward-filter n=8 c=1024 h=64 w=64 k=1024 r=3 s=3 pad=1 layout=nhwc"},
    {"wgrad", "backward-filter n=4 c=256 h=64 w=64 k=256 r=9 s=9 pad=4"},
    {"wgrad-rows", "backward-filter n=4 c=256 h=64 w=64 k=256 r=9 s=9 pad=4 layout=nhwc"},
    {"wgrad-nchw", "backward-filter n=4 c=256 h=64 w=64 k=256 r=9 s=9 pad=4"},
    {"wgrad-pairs", "backward-filter n=64 c=1024 h=64 w=64 k=1024 r=1 s=1 layout=nhwc type=bf16"},
    {"wgrad-vnni", "backward-filter n=32 c=512 h=64 w=64 k=512 r=7 s=7 pad=3 layout=nhwc type=bf16"},
    {"depthwise-rowtile", "forward n=64 c=512 h=128 w=128 r=3 s=3 pad=1 groups=512 k=512 layout=nhwc"},
    {"depthwise-rowtile-wgrad", "backward-filter n=64 c=512 h=64 w=64 r=3 s=3 pad=1 groups=512 k=512 layout=nhwc"},
    {"depthwise", "forward n=1 c=32 w=40000 s=40001 pad=20000 groups=32 k=32 layout=nwc"},
    {"depthwise", "forward n=16 c=256 h=64 w=64 r=31 s=31 pad=15 groups=256 k=256 layout=nhwc"},
    {"depthwise-nchw", "forward n=64 c=256 h=64 w=64 r=31 s=31 pad=15 groups=256 k=256"},
    {"depthwise-wgrad", "backward-filter n=16 c=256 h=64 w=64 r=31 s=31 pad=15 groups=256 k=256 layout=nhwc"},
    {"grouped", "forward n=16 c=256 h=128 w=128 r=7 s=7 pad=3 groups=64 k=256 layout=nhwc"},
    {"grouped-wgrad", "backward-filter n=16 c=256 h=128 w=128 r=7 s=7 pad=3 groups=64 k=256 layout=nhwc"},
    {"dgrad-pixelfold", "backward-data n=16 c=3 h=512 w=512 k=64 r=7 s=7 pad=3 stride=2 layout=nhwc"},
    {"fprop-pixelfold", "forward n=8 c=64 h=256 w=256 k=3 r=9 s=9 pad=4 layout=nhwc"},
    {"dgrad-nchw", "backward-data n=16 c=512 h=64 w=64 k=512 r=7 s=7 pad=3 stride=2 type=bf16"},
    {"dgrad-col2im", "backward-data n=16 c=3 h=512 w=512 k=64 r=7 s=7 pad=3 stride=2 layout=nhwc"},
    {"wgrad-fewchannels", "backward-filter n=16 c=3 h=512 w=512 k=64 r=7 s=7 pad=3 stride=2 layout=nhwc"},
    {"pooling", "maxpool n=16 c=256 h=256 w=256 r=31 s=31 pad=15 layout=nhwc"},
    {"pooling", "backward-maxpool n=4 c=256 h=256 w=256 r=31 s=31 pad=15 layout=nhwc"},
    {"fuse-pool", "forward n=4 c=256 h=64 w=64 k=256 r=9 s=9 pad=4 layout=nhwc pool=max:2x2"},
    {"upconvert-f32", "forward n=64 c=256 h=64 w=64 k=256 r=3 s=3 pad=1 layout=nhwc type=f16"},
    {"upconvert-f32", "backward-filter n=4 c=256 h=64 w=64 k=256 r=9 s=9 pad=4 layout=nhwc type=f16"},
    {"im2col", "forward n=4 c=256 h=64 w=64 k=256 r=9 s=9 pad=4"},
};

typedef struct execution {
  falt_plan *plan;
  set set;
} execution;

static falt_status execute(void *context) {
  execution *e = context;
  return falt_execute(e->plan, &e->set.operands);
}

static bool is_small(const falt_plan *plan) {
  static const char *const names[] = {"input", "filter", "output"};
  size_t bytes = falt_plan_workspace(plan);
  for (int i = 0; i < 3; i++) bytes += falt_plan_bytes(plan, names[i]);
  return bytes <= most_bytes;
}

static void cancel_one(falt_device *device, const char *method, const char *line) {
  falt_plan *plan = plan_by(device, line, method);
  if (plan && !is_small(plan)) falt_plan_destroy(&plan);
  if (!plan) return;
  execution e = {plan, operands_of(plan)};
  expect_cancelled(device, delay, execute, &e, line);
  release(&e.set);
  falt_plan_destroy(&plan);
}

static void test_solvers(UNUSED void **state) {
  falt_device *device = device_with("", 2);
  for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) cancel_one(device, slow[i].method, slow[i].line);
  falt_device_destroy(&device);
}

/* Every solver that a CPU may choose has a line above. */
static void test_all_solvers(UNUSED void **state) {
  for (int i = 0; falt_solvers[i]; i++) {
    bool listed = strcmp(falt_solvers[i]->device_kind, "cpu") != 0;
    for (size_t j = 0; j < sizeof slow / sizeof *slow; j++)
      listed |= strcmp(falt_solvers[i]->name, slow[j].method) == 0;
    if (!listed) fail_msg("%s is in no line of this test", falt_solvers[i]->name);
  }
}

/* ---- the device afterwards, and signal handlers */

static falt_device *of_handler;

static void on_alarm(UNUSED int number) {
  falt_device_interrupt(of_handler);
}

static void ring_by_signal(double seconds) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  static timer_t timer;
  static bool made;
  if (!made) assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  made = true;
  const struct itimerspec when = {.it_value = {.tv_nsec = (long)(seconds * 1e9)}};
  assert_int_equal(timer_settime(timer, 0, &when, NULL), 0);
}

/* The same plan, interrupted several times by a handler, then computes what it did before. */
static void test_handler(UNUSED void **state) {
  signal(SIGALRM, on_alarm);
  for (int threads = 1; threads <= 3; threads += 2) {
    falt_device *device = of_handler = device_with("", threads);
    falt_plan *plan = plan_by(device, "correlate h=1000 w=1000 r=31 s=31 boundary=wrap", "generic");
    set s = operands_of(plan);
    const int64_t n = 1000 * 1000;
    falt_random_fill(s.operands.input, FALT_F32, n, 1);
    falt_random_fill(s.operands.filter, FALT_F32, 31 * 31, 2);
    assert_int_equal(falt_execute(plan, &s.operands), FALT_OK);
    float *expected = falt_alloc((size_t)n * sizeof *expected);
    memcpy(expected, s.operands.output, (size_t)n * sizeof *expected);
    for (int i = 0; i < 3; i++) {
      ring_by_signal(0.002);
      falt_status status = FALT_OK;
      for (int calls = 0; calls < 1000 && status == FALT_OK; calls++) status = falt_execute(plan, &s.operands);
      assert_int_equal(status, FALT_CANCELLED);
      assert_int_equal(falt_execute(plan, &s.operands), FALT_CANCELLED); /* until it is resumed */
      falt_device_resume(device);
    }
    memset(s.operands.output, 0xff, (size_t)n * sizeof *expected);
    assert_int_equal(falt_execute(plan, &s.operands), FALT_OK);
    assert_memory_equal(s.operands.output, expected, (size_t)n * sizeof *expected);
    falt_free(expected);
    release(&s);
    falt_plan_destroy(&plan);
    falt_device_destroy(&device);
  }
  signal(SIGALRM, SIG_DFL);
}

/* An interrupted device refuses all long calls; a call that was under way is cancelled though the device resumed. */
static void test_states(UNUSED void **state) {
  falt_device *device = device_with("", 1);
  falt_plan *plan = plan_by(device, "correlate h=100 w=100 r=3 s=3", NULL), *other = NULL;
  set s = operands_of(plan);
  falt_candidate candidate;
  falt_limits before, after;
  falt_device_limits(device, &before);
  falt_device_resume(device); /* of nothing */
  assert_int_equal(falt_execute(plan, &s.operands), FALT_OK);
  falt_device_interrupt(device);
  falt_device_interrupt(device);
  assert_int_equal(falt_execute(plan, &s.operands), FALT_CANCELLED);
  assert_int_equal(falt_execute_host(plan, &s.operands), FALT_CANCELLED);
  assert_int_equal(falt_plan_time(plan, &s.operands, 0.1, &candidate), FALT_CANCELLED);
  assert_int_equal(falt_plan_create_line(&other, device, "correlate h=10 w=10 r=3 s=3", NULL), FALT_CANCELLED);
  assert_null(other);
  assert_int_equal(falt_device_measure(device), FALT_CANCELLED);
  falt_device_limits(device, &after);
  assert_memory_equal(&before, &after, sizeof after);
  falt_device_resume(device);
  assert_int_equal(falt_execute(plan, &s.operands), FALT_OK);
  assert_string_equal(falt_status_name(FALT_CANCELLED), "FALT_CANCELLED");
  release(&s);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

/* Resumed at once: the call does not see the interruption itself, only that there was one. */
static void *ring_and_resume(void *context) {
  alarm_clock *c = context;
  usleep((useconds_t)(c->delay * 1e6));
  note_time(c);
  falt_device_interrupt(c->device);
  falt_device_resume(c->device);
  return NULL;
}

static void test_resumed(UNUSED void **state) {
  falt_device *device = device_with("", 2);
  falt_plan *plan = plan_by(device, "correlate h=4000 w=4000 r=63 s=63 type=f64 boundary=wrap", "generic");
  set s = operands_of(plan);
  alarm_clock c = {.device = device, .delay = delay};
  assert_int_equal(pthread_create(&c.thread, NULL, ring_and_resume, &c), 0);
  assert_int_equal(falt_execute(plan, &s.operands), FALT_CANCELLED);
  pthread_join(c.thread, NULL);
  expect_soon(&c);
  release(&s);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

/* ---- the caller's own threads */

static void run_in_order(UNUSED void *pool, int64_t count, void (*body)(void *context, int64_t index), void *context) {
  for (int64_t i = 0; i < count; i++) body(context, i);
}

static void test_own_pool(UNUSED void **state) {
  falt_cpu_options options;
  falt_device *device;
  falt_cpu_options_default(&options);
  options.pool = run_in_order;
  options.threads = 3;
  assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
  cancel_one(device, "generic", "correlate h=4000 w=4000 r=31 s=31 type=f64 boundary=wrap");
  cancel_one(device, "direct", "correlate h=4000 w=4000 r=63 s=63");
  falt_device_destroy(&device);
}

/* ---- planning, tuning, timing, explaining, verifying, measuring */

static falt_status measure(question *q) {
  falt_status status = FALT_OK;
  for (int i = 0; i < 100 && status == FALT_OK; i++) status = falt_device_measure(q->device);
  return status;
}

static falt_status call_once(question *q) {
  const int64_t n = 3000;
  float *memory = falt_alloc_zero((size_t)(2 * n * n) * sizeof *memory);
  const falt_array dst = falt_volume(memory + n * n, FALT_F32, 1, n, n);
  const falt_const_array src = falt_const(falt_volume(memory, FALT_F32, 1, n, n));
  const falt_const_array taps = falt_const(falt_volume(q->values, FALT_F32, 1, 99, 99));
  falt_options options;
  falt_options_default(&options);
  options.device = q->device;
  const falt_status status = falt_correlate(&src, &taps, &dst, &options);
  falt_free(memory);
  return status;
}

static const struct {
  const char *name, *line;
  double tune_seconds, delay;
  falt_status (*run)(question *q);
} long_calls[] = {
    {"planning", "correlate h=4000 w=4000 r=301 s=301", 0, 0.05, plan_on},
    {"planning 1D", "correlate w=400000 s=40001", 0, 0.05, plan_on},
    {"planning 3D", "correlate d=100 h=100 w=100 t=61 r=61 s=61", 0, 0.05, plan_on},
    {"planning 1D layer", "forward w=400000 s=40001 c=2 k=2 groups=2 pad=20000", 0, 0.05, plan_on},
    {"packing", "forward c=1024 h=8 w=8 k=1024 r=7 s=7 pad=3", 0, 0.02, plan_on},
    {"packing nhwc", "forward c=1024 h=8 w=8 k=1024 r=7 s=7 pad=3 layout=nhwc type=bf16", 0, 0.02, plan_on},
    {"tuning", "correlate h=1000 w=1000 r=9 s=9", 60, 0.1, plan_once},
    {"tuning, first run", "correlate h=8000 w=8000 r=99 s=99", 1, 0.1, plan_once},
    {"explaining", "correlate h=1000 w=1000 r=9 s=9", 0, 0.1, explain},
    {"verifying", "correlate h=1000 w=1000 r=15 s=15", 0, 0.3, verify},
    {"verifying, data", "correlate h=1000 w=10000 r=15 s=15", 0, 0.02, verify},
    {"verifying, solvers", "correlate h=500 w=500 r=31 s=31", 0, 0.4, verify},
    {"measuring", "correlate h=8 w=8 r=3 s=3", 0, 0.1, measure},
    {"measuring, rates", "correlate h=8 w=8 r=3 s=3", 0, 0.7, measure},
    {"timing", "correlate h=8 w=8 r=3 s=3", 0, 0.1, time_plan},
    {"one call", "correlate h=8 w=8 r=99 s=99", 0, 0.1, call_once},
};

typedef struct long_call {
  falt_status (*run)(question *q);
  question *question;
} long_call;

static falt_status run_long_call(void *context) {
  const long_call *c = context;
  return c->run(c->question);
}

static void test_long_calls(UNUSED void **state) {
  for (size_t i = 0; i < sizeof long_calls / sizeof *long_calls; i++) {
    question q = {.device = device_with("", 2), .problem = parse(long_calls[i].line)};
    const falt_tensor *w = &q.problem.filter;
    falt_budget_default(&q.budget);
    q.budget.tune_seconds = long_calls[i].tune_seconds;
    q.values = falt_alloc((size_t)falt_tensor_span(w) * falt_type_size(w->type));
    falt_random_fill(q.values, w->type, falt_tensor_span(w), 1);
    expect_cancelled(q.device, long_calls[i].delay, run_long_call, &(long_call){long_calls[i].run, &q},
                     long_calls[i].name);
    falt_free(q.values);
    falt_device_destroy(&q.device);
  }
}

/* What tuning had measured so far is no wisdom: the plan is the one by estimate. */
static void test_no_wisdom(UNUSED void **state) {
  question q = {.device = device_with("", 1), .problem = parse("correlate h=500 w=500 r=5 s=5")};
  falt_budget_default(&q.budget);
  q.budget.tune_seconds = 60;
  expect_cancelled(q.device, 0.1, run_long_call, &(long_call){plan_once, &q}, "tuning");
  assert_int_equal(falt_wisdom_save(q.device, NULL), FALT_OK);
  char path[128], text[4096];
  snprintf(path, sizeof path, "%s/wisdom", directory);
  FILE *file = fopen(path, "r");
  const size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[length] = '\0';
  assert_null(strstr(text, "h=500"));
  falt_device_destroy(&q.device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_solvers, set_up),    cmocka_unit_test_setup(test_all_solvers, set_up),
      cmocka_unit_test_setup(test_handler, set_up),    cmocka_unit_test_setup(test_states, set_up),
      cmocka_unit_test_setup(test_resumed, set_up),    cmocka_unit_test_setup(test_own_pool, set_up),
      cmocka_unit_test_setup(test_long_calls, set_up), cmocka_unit_test_setup(test_no_wisdom, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
