/* Tests of the thread pool: every index once, on no more threads than asked for, nested, shared, forked, starved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/sanitize.h"
#include "core/shares.h"
#include "core/thread.h"

#define UNUSED __attribute__((unused))

/* Counts visits without atomics: each index has one owner, and the loop's end makes the counts visible. */
static void visit(void *context, int64_t index) {
  ((int *)context)[index]++;
}

static void check_visits(falt_threads *threads, int64_t count) {
  int *visits = calloc((size_t)count + 1, sizeof *visits);
  assert_non_null(visits);
  falt_parallel_for(threads, count, visit, visits);
  for (int64_t i = 0; i < count; i++) assert_int_equal(visits[i], 1);
  assert_int_equal(visits[count], 0);
  free(visits);
}

static void test_every_index_once(UNUSED void **state) {
  static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 1000, 50000};
  for (int n = 1; n <= 9; n++) {
    falt_threads *threads = falt_threads_create(n, NULL, NULL);
    assert_int_equal(falt_threads_count(threads), n);
    for (int round = 0; round < 20; round++)
      for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) check_visits(threads, counts[i]);
    falt_threads_destroy(threads);
  }
  check_visits(NULL, 10);
}

static void test_negative_count_does_nothing(UNUSED void **state) {
  falt_threads *threads = falt_threads_create(3, NULL, NULL);
  falt_parallel_for(threads, -5, visit, NULL);
  falt_threads_destroy(threads);
}

/* Pauses of all lengths between loops and inside, so that workers and caller meet watching, going to sleep and asleep.
 */
static void dawdle(void *context, int64_t index) {
  ((int *)context)[index]++;
  if (index % 5 == 0) usleep((unsigned)(index % 7) * 20);
}

static void test_sleeping_and_waking(UNUSED void **state) {
  falt_threads *threads = falt_threads_create(4, NULL, NULL);
  for (int round = 0; round < 1500; round++) {
    int visits[16] = {0};
    falt_parallel_for(threads, 2 + round % 15, round % 3 ? visit : dawdle, visits);
    for (int i = 0; i < 16; i++) assert_int_equal(visits[i], i < 2 + round % 15);
    if (round % 4 == 0) usleep((unsigned)(round % 13) * 10);
  }
  falt_threads_destroy(threads);
}

/* Loops as short as can be: workers arrive when the loop has just ended or the next has begun. */
static void test_arriving_late(UNUSED void **state) {
  falt_threads *threads = falt_threads_create(2, NULL, NULL);
  for (int round = 0; round < 300000; round++) {
    int visits[3] = {0};
    falt_parallel_for(threads, 2 + round % 2, visit, visits);
    assert_true(visits[0] == 1 && visits[1] == 1 && visits[2] == round % 2);
  }
  falt_threads_destroy(threads);
}

typedef struct crowd {
  atomic_int now, most, met;
} crowd;

static void join_crowd(void *context, UNUSED int64_t index) {
  crowd *c = context;
  const int now = atomic_fetch_add(&c->now, 1) + 1;
  int most = atomic_load(&c->most);
  while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now)) continue;
  usleep(200);
  atomic_fetch_sub(&c->now, 1);
}

static void test_never_more_threads(UNUSED void **state) {
  for (int n = 1; n <= 4; n++) {
    falt_threads *threads = falt_threads_create(n, NULL, NULL);
    crowd c = {0};
    falt_parallel_for(threads, 100, join_crowd, &c);
    assert_in_range(c.most, 1, n);
    falt_threads_destroy(threads);
  }
}

/* Returns only when all threads have come: passes only if they run at the same time. */
static void meet(void *context, UNUSED int64_t index) {
  crowd *c = context;
  atomic_fetch_add(&c->met, 1);
  while (atomic_load(&c->met) < 3) sched_yield();
}

static void test_all_threads_take_part(UNUSED void **state) {
  falt_threads *threads = falt_threads_create(3, NULL, NULL);
  for (int i = 0; i < 200; i++) {
    crowd c = {0};
    falt_parallel_for(threads, 3, meet, &c);
    assert_int_equal(c.met, 3);
    if (i % 10 == 0) usleep(500);
  }
  falt_threads_destroy(threads);
}

typedef struct nest {
  falt_threads *inner, *outer;
  int (*visits)[40];
  atomic_int strays;
  pthread_t self[40];
} nest;

typedef struct inner_loop {
  nest *nest;
  int *visits;
  pthread_t self;
} inner_loop;

static void visit_inner(void *context, int64_t index) {
  inner_loop *loop = context;
  loop->visits[index]++;
  if (index % 10 == 0) usleep(50); /* time for others to come, were they let in */
  if (!pthread_equal(loop->self, pthread_self())) atomic_fetch_add(&loop->nest->strays, 1);
}

static void nested(void *context, int64_t index) {
  nest *n = context;
  inner_loop loop = {n, n->visits[index], pthread_self()};
  falt_parallel_for(index % 2 ? n->inner : n->outer, 40, visit_inner, &loop);
}

/* A loop within a loop stays on its thread, whichever pool it names. */
static void test_nesting(UNUSED void **state) {
  static int visits[30][40];
  nest n = {falt_threads_create(3, NULL, NULL), falt_threads_create(3, NULL, NULL), visits, 0, {0}};
  falt_parallel_for(n.outer, 30, nested, &n);
  for (int i = 0; i < 30; i++)
    for (int j = 0; j < 40; j++) assert_int_equal(visits[i][j], 1);
  assert_int_equal(n.strays, 0);
  falt_parallel_for(n.outer, 1, nested, &n); /* also if the outer loop was too short for the pool */
  assert_int_equal(n.strays, 0);
  falt_threads_destroy(n.inner);
  falt_threads_destroy(n.outer);
}

static void *use_shared_pool(void *pool) {
  int64_t wrong = 0;
  for (int round = 0; round < 300; round++) {
    int visits[50] = {0};
    falt_parallel_for(pool, 50, visit, visits);
    for (int i = 0; i < 50; i++) wrong += visits[i] != 1;
  }
  return (void *)(intptr_t)wrong;
}

static void test_concurrent_callers(UNUSED void **state) {
  falt_threads *threads = falt_threads_create(3, NULL, NULL);
  pthread_t callers[4];
  for (int i = 0; i < 4; i++) pthread_create(&callers[i], NULL, use_shared_pool, threads);
  for (int i = 0; i < 4; i++) {
    void *wrong;
    pthread_join(callers[i], &wrong);
    assert_null(wrong);
  }
  falt_threads_destroy(threads);
}

/* A caller's pool that runs backwards in two halves, one on a thread of its own. */
typedef struct half {
  int64_t begin, end;
  void (*body)(void *context, int64_t index);
  void *context;
} half;

static void *run_half(void *argument) {
  const half *h = argument;
  for (int64_t i = h->end - 1; i >= h->begin; i--) h->body(h->context, i);
  return NULL;
}

static void own_pool(void *pool, int64_t count, void (*body)(void *context, int64_t index), void *context) {
  half low = {0, count / 2, body, context}, high = {count / 2, count, body, context};
  pthread_t thread;
  ++*(int *)pool;
  pthread_create(&thread, NULL, run_half, &low);
  run_half(&high);
  pthread_join(thread, NULL);
}

static void test_callers_pool(UNUSED void **state) {
  int calls = 0;
  falt_threads *threads = falt_threads_create(2, own_pool, &calls);
  check_visits(threads, 1000);
  assert_int_equal(calls, 1);
  static int visits[30][40];
  nest n = {threads, threads, visits, 0, {0}};
  falt_parallel_for(threads, 30, nested, &n); /* nested loops do not ask the pool again */
  assert_int_equal(calls, 2);
  assert_int_equal(n.strays, 0);
  for (int i = 0; i < 30; i++)
    for (int j = 0; j < 40; j++) assert_int_equal(visits[i][j], 1);
  falt_threads_destroy(threads);
}

static void test_create_and_destroy(UNUSED void **state) {
  falt_threads_destroy(NULL);
  for (int i = 0; i < 200; i++) {
    falt_threads *threads = falt_threads_create(i % 5, NULL, NULL);
    assert_int_equal(falt_threads_count(threads), i % 5 ? i % 5 : 1);
    if (i % 3) check_visits(threads, 10); /* else destroyed unused */
    if (i % 2) usleep(100);
    falt_threads_destroy(threads);
  }
  falt_alloc_fail_after(0);
  assert_null(falt_threads_create(2, NULL, NULL));
  falt_alloc_fail_after(-1);
}

static void check_child(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* All indices of a loop, without cmocka's help: for forked children. */
static bool loop_is_right(falt_threads *threads) {
  int visits[100] = {0};
  bool right = true;
  falt_parallel_for(threads, 100, visit, visits);
  for (int i = 0; i < 100; i++) right &= visits[i] == 1;
  return right;
}

static void test_forked_child(UNUSED void **state) {
  falt_threads *threads = falt_threads_create(3, NULL, NULL);
  check_visits(threads, 100);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const bool right = loop_is_right(threads) && loop_is_right(threads);
    falt_threads_destroy(threads);
    _exit(!right);
  }
  check_child(child);
  check_visits(threads, 100);
  falt_threads_destroy(threads);
}

/* Address space for the stacks of a few workers only. */
static void test_too_few_threads(UNUSED void **state) {
  if (FALT_ANY_SANITIZER) skip();
  const pid_t child = fork();
  if (child == 0) {
    const struct rlimit limit = {200 << 20, 200 << 20};
    alarm(20);
    setrlimit(RLIMIT_AS, &limit);
    falt_threads *threads = falt_threads_create(1000, NULL, NULL);
    const bool right = threads && loop_is_right(threads) && loop_is_right(threads);
    falt_threads_destroy(threads);
    _exit(!right);
  }
  check_child(child);
}

/* A taker begins with its own share, and takes what the others have left; each index goes to one. */
static void test_shares(UNUSED void **state) {
  enum { SHARES = 3, COUNT = 10 };
  static const int64_t firsts[SHARES] = {0, 4, 7};
  falt_share share[SHARES];
  falt_taker taker[SHARES];
  int taken[COUNT] = {0};
  int64_t index = -1;
  falt_shares_cut(share, SHARES, COUNT);
  for (int i = 0; i < SHARES; i++) {
    taker[i] = falt_taker_of(share, SHARES, i + SHARES); /* whoever is beyond the shares begins with one of them */
    assert_true(falt_take(&taker[i], &index));
    assert_int_equal(index, firsts[i]);
    taken[index]++;
  }
  while (falt_take(&taker[1], &index)) taken[index]++;
  for (int i = 0; i < COUNT; i++) assert_int_equal(taken[i], 1);
  for (int i = 0; i < SHARES; i++) assert_false(falt_take(&taker[i], &index));
}

static void test_cores(UNUSED void **state) {
  cpu_set_t all, one;
  const int cores = falt_cores_available();
  assert_in_range(cores, 1, sysconf(_SC_NPROCESSORS_CONF));
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  sched_setaffinity(0, sizeof one, &one);
  assert_int_equal(falt_cores_available(), 1);
  sched_setaffinity(0, sizeof all, &all);
  assert_int_equal(falt_cores_available(), cores);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_index_once),
      cmocka_unit_test(test_negative_count_does_nothing),
      cmocka_unit_test(test_sleeping_and_waking),
      cmocka_unit_test(test_arriving_late),
      cmocka_unit_test(test_never_more_threads),
      cmocka_unit_test(test_all_threads_take_part),
      cmocka_unit_test(test_nesting),
      cmocka_unit_test(test_concurrent_callers),
      cmocka_unit_test(test_callers_pool),
      cmocka_unit_test(test_create_and_destroy),
      cmocka_unit_test(test_forked_child),
      cmocka_unit_test(test_too_few_threads),
      cmocka_unit_test(test_shares),
      cmocka_unit_test(test_cores),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
