/* Responses are exchanged by one thread while another one processes; also run under the thread sanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "core/random.h"
#include "faltung/faltung.h"

#define UNUSED __attribute__((unused))

/* Three of the largest partitions and a fade are 104 blocks; an exchange may wait for the end of the one before. */
enum { TAPS = 9000, BLOCK = 64, EXCHANGES = 30, TAIL = 2 * 104 };

enum { OLD, NEW, BOTH, CONVOLVERS };

/* The same signal through the old responses, the new ones, and those that are exchanged. */
typedef struct session {
  falt_convolver *convolver[CONVOLVERS];
  float x[BLOCK], y[CONVOLVERS][BLOCK];
  _Atomic int64_t blocks;
  atomic_bool ends;
  int64_t failed, outside, old, new; /* calls that failed, outputs between neither, blocks of either */
} session;

static uint64_t seed = 11;

static void process_block(session *s, uint64_t *noise) {
  for (int i = 0; i < BLOCK; i++) s->x[i] = (float)(2 * falt_random_unit(noise) - 1);
  for (int c = 0; c < CONVOLVERS; c++)
    s->failed += falt_convolver_process(s->convolver[c], &(const void *){s->x}, &(void *){s->y[c]}, BLOCK) != FALT_OK;
  for (int i = 0; i < BLOCK; i++) {
    const double a = (double)s->y[OLD][i], b = (double)s->y[NEW][i], y = (double)s->y[BOTH][i];
    s->outside += !(y >= fmin(a, b) - 1e-4 && y <= fmax(a, b) + 1e-4);
  }
  s->old += memcmp(s->y[BOTH], s->y[OLD], sizeof s->y[OLD]) == 0;
  s->new += memcmp(s->y[BOTH], s->y[NEW], sizeof s->y[NEW]) == 0;
}

static void *process(void *context) {
  session *s = context;
  uint64_t noise = 5;
  for (int64_t left = TAIL; left > 0; left -= atomic_load(&s->ends)) {
    process_block(s, &noise);
    atomic_fetch_add(&s->blocks, 1);
  }
  return NULL;
}

static void wait_for_blocks(session *s, int64_t more) {
  const int64_t until = atomic_load(&s->blocks) + more;
  while (atomic_load(&s->blocks) < until) sched_yield();
}

/* Some exchanges come before the one before was taken, some during its fade, some after it. */
static void test_exchange_while_processing(UNUSED void **state) {
  static const int64_t waits[] = {0, 20, 100, 250, 300};
  static float h[2][TAPS];
  static session s;
  falt_device *device = NULL;
  falt_convolver_options options;
  pthread_t thread;
  falt_convolver_options_default(&options);
  options.taps = TAPS;
  for (int i = 0; i < 2 * TAPS; i++) h[i / TAPS][i % TAPS] = (float)(2 * falt_random_unit(&seed) - 1);
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  for (int c = 0; c < CONVOLVERS; c++)
    assert_int_equal(falt_convolver_create(&s.convolver[c], device, &options, &(const void *){h[c == NEW]}), FALT_OK);
  assert_int_equal(pthread_create(&thread, NULL, process, &s), 0);
  falt_status status = FALT_OK;
  for (int i = 1; i <= EXCHANGES && status == FALT_OK; i++) {
    status = falt_convolver_exchange(s.convolver[BOTH], &(const void *){h[i % 2]});
    wait_for_blocks(&s, waits[i % 5]);
  }
  const falt_status last = falt_convolver_exchange(s.convolver[BOTH], &(const void *){h[NEW]});
  atomic_store(&s.ends, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(status, FALT_OK);
  assert_int_equal(last, FALT_OK);
  assert_int_equal(s.failed, 0);
  assert_int_equal(s.outside, 0);
  assert_true(s.old > 0 && s.new > 0 && s.old + s.new < s.blocks); /* and blocks of fades */
  assert_memory_equal(s.y[BOTH], s.y[NEW], sizeof s.y[NEW]);
  for (int c = 0; c < CONVOLVERS; c++) falt_convolver_destroy(&s.convolver[c]);
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exchange_while_processing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
