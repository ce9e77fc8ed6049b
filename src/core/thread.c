/* A pool of threads for one parallel loop at a time. */
#include "core/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "core/call.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/shares.h"

/* One word holds the state: the number of workers inside the loop, whether it is open, and its number. The caller fills
 * in the loop, opens it, takes part, closes it when the indices have run out, and waits until no worker is inside. A
 * worker enters by raising the count with a compare-and-swap that fails once the loop is closed, so a worker that wakes
 * late costs the caller nothing. Entering synchronises with opening, and the caller's wait with leaving.
 *
 * Workers poll the word for some microseconds after a loop, then sleep. Going to sleep and opening a loop are ordered
 * by sequentially consistent accesses: either the worker sees the new loop or the caller sees the sleeper. */

enum { MOST_THREADS = 4096, SECOND_NANOSECONDS = 1000000000, NAP_NANOSECONDS = SECOND_NANOSECONDS / 10 };

static const uint64_t INSIDE = 0xffff;               /* how many workers are in the loop */
static const uint64_t OPEN = UINT64_C(1) << 16;      /* more may enter */
static const uint64_t STOP = UINT64_C(1) << 17;      /* workers leave for good */
static const uint64_t NEXT_LOOP = UINT64_C(1) << 18; /* the bits from here on count the loops */
static const double WATCH_SECONDS = 50e-6;

typedef struct worker {
  pthread_t thread;
  falt_threads *threads;
  int64_t self; /* the index of its own share */
} worker;

struct falt_threads {
  _Alignas(FALT_ALIGN) _Atomic uint64_t state;
  /* the loop; written while it is closed and empty, read inside */
  _Alignas(FALT_ALIGN) void (*body)(void *context, int64_t index);
  void *context;
  falt_call *call; /* that the loop works for, or NULL */
  int64_t indices;
  _Atomic int64_t foreign; /* indices done by the caller's pool */
  int64_t shares;          /* the caller's is the first, worker i's the next after i */
  falt_share *share;
  /* who sleeps */
  _Alignas(FALT_ALIGN) atomic_int sleepers;
  atomic_bool caller_sleeps;
  pthread_mutex_t lock;
  pthread_cond_t opened, emptied;
  /* written by whoever holds `busy` */
  _Alignas(FALT_ALIGN) atomic_bool busy;
  bool started;
  int workers, forks;
  /* constant */
  int count;
  double watch_seconds;
  falt_pool pool;
  void *pool_data;
  worker worker[];
};

/* A forked child has the pool's memory but not its threads. */
static atomic_int forks;
static pthread_once_t watch_forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void) {
  atomic_fetch_add(&forks, 1);
}

static void watch_forks(void) {
  pthread_atfork(NULL, NULL, count_fork);
}

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static uint64_t number_of(uint64_t state) {
  return state & ~(NEXT_LOOP - 1);
}

/* Watches the state until (state & mask) differs from `old` or the time is over; true if it differs. */
static bool watch(falt_threads *threads, uint64_t mask, uint64_t old) {
  const double end = falt_seconds() + threads->watch_seconds;
  do {
    for (int i = 0; i < 32; i++) {
      if ((atomic_load_explicit(&threads->state, memory_order_acquire) & mask) != old) return true;
      relax();
    }
  } while (falt_seconds() < end);
  return false;
}

/* Enters a loop body for a call on this thread, as the caller's thread if `owns`; returns the previous state. */
static falt_place_in_call enter_body(falt_call *call, bool owns) {
  const falt_place_in_call before = falt_here;
  falt_here = (falt_place_in_call){call, before.depth + 1, owns && before.owns};
  return before;
}

/* Tells how many indices are done; every other thread inside the loop has one in hand. */
static void report(const falt_threads *threads) {
  if (!falt_progress_due()) return;
  const uint64_t inside = atomic_load_explicit(&threads->state, memory_order_relaxed) & INSIDE;
  const int64_t taken = threads->pool ? atomic_load_explicit(&threads->foreign, memory_order_relaxed)
                                      : falt_shares_taken(threads->share, threads->shares, threads->indices);
  falt_progress_at((double)(taken - (int64_t)inside) / (double)threads->indices);
}

static void run_indices(falt_threads *threads, int64_t self) {
  falt_taker taker = falt_taker_of(threads->share, threads->shares, self);
  const falt_place_in_call before = enter_body(threads->call, self == 0);
  for (int64_t index; !falt_call_is_over(threads->call) && falt_take(&taker, &index);) {
    threads->body(threads->context, index);
    if (self == 0) report(threads);
  }
  falt_here = before;
}

static bool enter(falt_threads *threads, uint64_t state) {
  const uint64_t number = number_of(state);
  while (state & OPEN && number_of(state) == number)
    if (atomic_compare_exchange_weak_explicit(&threads->state, &state, state + 1, memory_order_acq_rel,
                                              memory_order_acquire))
      return true;
  return false;
}

static void wake_caller(falt_threads *threads) {
  pthread_mutex_lock(&threads->lock);
  pthread_cond_signal(&threads->emptied);
  pthread_mutex_unlock(&threads->lock);
}

static void leave(falt_threads *threads) {
  const uint64_t left = atomic_fetch_sub(&threads->state, 1) - 1;
  if (!(left & (INSIDE | OPEN)) && atomic_load(&threads->caller_sleeps)) wake_caller(threads);
}

static void sleep_until_opened(falt_threads *threads, uint64_t last) {
  pthread_mutex_lock(&threads->lock);
  atomic_fetch_add(&threads->sleepers, 1);
  const uint64_t state = atomic_load(&threads->state);
  if (!(state & STOP) && number_of(state) == last) pthread_cond_wait(&threads->opened, &threads->lock);
  atomic_fetch_sub(&threads->sleepers, 1);
  pthread_mutex_unlock(&threads->lock);
}

static void *work(void *argument) {
  const worker *me = argument;
  falt_threads *threads = me->threads;
  const uint64_t news = ~(NEXT_LOOP - 1) | STOP;
  uint64_t last = 0;
  for (;;) {
    if (!watch(threads, news, last)) sleep_until_opened(threads, last);
    const uint64_t state = atomic_load_explicit(&threads->state, memory_order_acquire);
    if (state & STOP) return NULL;
    if (number_of(state) == last) continue;
    last = number_of(state);
    if (!enter(threads, state)) continue;
    run_indices(threads, me->self);
    leave(threads);
  }
}

/* Makes the workers, as many as the system gives. They take no signals: handlers belong to the program's threads. */
static void start(falt_threads *threads) {
  sigset_t all, before;
  threads->started = true;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 0; i < threads->count - 1; i++, threads->workers++) {
    worker *made = &threads->worker[i];
    made->threads = threads;
    made->self = i + 1;
    if (pthread_create(&made->thread, NULL, work, made) != 0) break;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void wake_workers(falt_threads *threads, int64_t wanted) {
  if (atomic_load(&threads->sleepers) == 0) return;
  pthread_mutex_lock(&threads->lock);
  const int sleepers = atomic_load(&threads->sleepers);
  for (int64_t i = wanted - (threads->workers - sleepers); i > 0; i--) pthread_cond_signal(&threads->opened);
  pthread_mutex_unlock(&threads->lock);
}

static struct timespec end_of_nap(void) {
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_nsec += NAP_NANOSECONDS;
  if (end.tv_nsec < SECOND_NANOSECONDS) return end;
  return (struct timespec){end.tv_sec + 1, end.tv_nsec - SECOND_NANOSECONDS};
}

/* Until nobody is inside, or for a while where progress is to be told meanwhile. */
static void sleep_until_empty(falt_threads *threads) {
  const bool awaited = threads->call && threads->call->report;
  const struct timespec end = end_of_nap();
  pthread_mutex_lock(&threads->lock);
  atomic_store(&threads->caller_sleeps, true);
  int status = 0;
  while (status == 0 && atomic_load(&threads->state) & INSIDE)
    status = awaited ? pthread_cond_timedwait(&threads->emptied, &threads->lock, &end)
                     : pthread_cond_wait(&threads->emptied, &threads->lock);
  atomic_store(&threads->caller_sleeps, false);
  pthread_mutex_unlock(&threads->lock);
}

static void close_and_wait(falt_threads *threads) {
  uint64_t state = atomic_fetch_and(&threads->state, ~OPEN) & ~OPEN;
  while (state & INSIDE) {
    if (!watch(threads, INSIDE, state & INSIDE)) sleep_until_empty(threads);
    report(threads);
    state = atomic_load_explicit(&threads->state, memory_order_acquire);
  }
}

static void run_on_workers(falt_threads *threads, int64_t count) {
  if (!threads->started) start(threads);
  threads->shares = falt_min(threads->workers + 1, count);
  falt_shares_cut(threads->share, threads->shares, count);
  const uint64_t state = atomic_load_explicit(&threads->state, memory_order_relaxed);
  atomic_store(&threads->state, (state + NEXT_LOOP) | OPEN);
  wake_workers(threads, falt_min(threads->workers, count - 1));
  run_indices(threads, 0);
  close_and_wait(threads);
}

/* `busy` is enough: whoever holds it has started the workers or is about to. Not in a forked child, which has none. */
void falt_threads_start(falt_threads *threads) {
  if (threads->pool || threads->forks != atomic_load_explicit(&forks, memory_order_relaxed)) return;
  if (atomic_exchange_explicit(&threads->busy, true, memory_order_acquire)) return;
  if (!threads->started) start(threads);
  atomic_store_explicit(&threads->busy, false, memory_order_release);
}

static void run_here(int64_t count, void (*body)(void *context, int64_t index), void *context) {
  const falt_place_in_call before = enter_body(falt_here.call, true);
  for (int64_t i = 0; i < count && !falt_call_is_over(before.call); i++) {
    body(context, i);
    if (falt_progress_due()) falt_progress_at((double)(i + 1) / (double)count);
  }
  falt_here = before;
}

/* One index on a thread of the caller's pool. */
static void run_foreign(void *context, int64_t index) {
  falt_threads *threads = context;
  if (falt_call_is_over(threads->call)) return;
  const falt_place_in_call before = enter_body(threads->call, falt_here.call == threads->call);
  threads->body(threads->context, index);
  atomic_fetch_add_explicit(&threads->foreign, 1, memory_order_relaxed);
  report(threads);
  falt_here = before;
}

static bool try_acquire(falt_threads *threads) {
  if (falt_here.depth || threads->forks != atomic_load_explicit(&forks, memory_order_relaxed)) return false;
  return !atomic_exchange_explicit(&threads->busy, true, memory_order_acquire);
}

void falt_parallel_for(falt_threads *threads, int64_t count, void (*body)(void *context, int64_t index),
                       void *context) {
  if (count <= 1 || !threads || (threads->count == 1 && !threads->pool) || !try_acquire(threads)) {
    run_here(count, body, context);
    return;
  }
  threads->body = body;
  threads->context = context;
  threads->call = falt_here.call;
  threads->indices = count;
  atomic_store_explicit(&threads->foreign, 0, memory_order_relaxed);
  if (threads->pool)
    threads->pool(threads->pool_data, count, run_foreign, threads);
  else
    run_on_workers(threads, count);
  atomic_store_explicit(&threads->busy, false, memory_order_release);
}

/* A condition variable with a monotonic clock. */
static void init_monotonic(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

falt_threads *falt_threads_create(int count, falt_pool pool, void *pool_data) {
  count = count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : count;
  pthread_once(&watch_forks_once, watch_forks);
  falt_threads *threads = falt_alloc_zero(sizeof *threads + (size_t)count * sizeof threads->worker[0]);
  falt_share *shares = falt_alloc((size_t)count * sizeof *shares);
  if (!threads || !shares) {
    falt_free(threads);
    falt_free(shares);
    return NULL;
  }
  threads->share = shares;
  pthread_mutex_init(&threads->lock, NULL);
  pthread_cond_init(&threads->opened, NULL);
  init_monotonic(&threads->emptied);
  threads->count = count;
  threads->pool = pool;
  threads->pool_data = pool_data;
  threads->forks = atomic_load(&forks);
  /* watching takes a core from a thread that works if there are more threads than cores */
  threads->watch_seconds = count <= falt_cores_available() ? WATCH_SECONDS : 0;
  return threads;
}

static void stop(falt_threads *threads) {
  atomic_fetch_or(&threads->state, STOP);
  pthread_mutex_lock(&threads->lock);
  pthread_cond_broadcast(&threads->opened);
  pthread_mutex_unlock(&threads->lock);
  for (int i = 0; i < threads->workers; i++) pthread_join(threads->worker[i].thread, NULL);
  pthread_cond_destroy(&threads->emptied);
  pthread_cond_destroy(&threads->opened);
  pthread_mutex_destroy(&threads->lock);
}

void falt_threads_destroy(falt_threads *threads) {
  if (!threads) return;
  if (threads->forks == atomic_load(&forks)) stop(threads);
  falt_free(threads->share);
  falt_free(threads);
}

int falt_threads_count(const falt_threads *threads) {
  return threads->count;
}
