/* Executions of falt_verify: the workspace is poisoned, guarded, and has gaps between its parts. */
#include <string.h>

#include "api/verify.h"
#include "core/memory.h"
#include "core/thread.h"

static const char wrote_guard[] = "wrote beside the workspace", wrote_gap[] = "wrote between parts of the workspace",
                  wrote_operand[] = "wrote beside a result, or to an operand that is only read",
                  failed[] = "the execution failed", short_of_memory[] = "memory ran out";

/* ---- the workspace */

typedef struct room {
  falt_device *device;
  const falt_plan *plan;
  unsigned char *memory; /* on the host: guard, workspace, guard */
  void *there;           /* the same on the device; memory itself where the device has none of its own */
  size_t size;
  unsigned char poison;
  bool touched;
} room;

static void forbid(void *context, char *gap, size_t bytes) {
  (void)context;
  FALT_FORBID(gap, bytes);
}

static void allow(void *context, char *gap, size_t bytes) {
  (void)context;
  FALT_ALLOW(gap, bytes);
  FALT_WRITTEN(gap, bytes);
}

static void check_gap(void *context, char *gap, size_t bytes) {
  room *r = context;
  for (size_t i = 0; i < bytes; i++) r->touched |= (unsigned char)gap[i] != r->poison;
}

static void *workspace_of(const room *r) {
  return r->there ? (char *)r->there + FALT_GUARD : NULL;
}

static const char *open_room(room *r, falt_device *device, const falt_plan *plan, unsigned char poison) {
  const size_t size = falt_plan_workspace(plan) + 2 * FALT_GUARD;
  *r = (room){.device = device, .plan = plan, .size = size, .poison = poison, .memory = falt_alloc(size)};
  if (!r->memory) return short_of_memory;
  memset(r->memory, poison, size);
  FALT_UNWRITTEN(r->memory, size);
  if (!device->memory) {
    r->there = r->memory;
    falt_place_gaps(&plan->layout, workspace_of(r), forbid, NULL);
    return NULL;
  }
  if (falt_device_alloc(device, &r->there, size) != FALT_OK) return short_of_memory;
  return falt_device_write(device, r->there, r->memory, size) == FALT_OK ? NULL : failed;
}

/* Whether nothing but the plan's parts was written. */
static const char *inspect(room *r) {
  if (r->device->memory && falt_device_read(r->device, r->memory, r->there, r->size) != FALT_OK) return failed;
  char *workspace = (char *)r->memory + FALT_GUARD;
  falt_place_gaps(&r->plan->layout, workspace, allow, NULL);
  falt_place_gaps(&r->plan->layout, workspace, check_gap, r);
  if (r->touched) return wrote_gap;
  FALT_WRITTEN(r->memory, FALT_GUARD);
  FALT_WRITTEN(r->memory + r->size - FALT_GUARD, FALT_GUARD);
  for (size_t i = 0; i < FALT_GUARD; i++)
    r->touched |= r->memory[i] != r->poison || r->memory[r->size - FALT_GUARD + i] != r->poison;
  return r->touched ? wrote_guard : NULL;
}

static void close_room(room *r) {
  if (r->there != r->memory) falt_device_free(r->device, &r->there);
  falt_free(r->memory);
}

/* ---- one execution */

static const char *execute_in_room(falt_device *device, const falt_plan *plan, falt_operands operands,
                                   unsigned char poison) {
  room r;
  const char *trouble = open_room(&r, device, plan, poison);
  operands.workspace = workspace_of(&r);
  if (plan->packed) operands.filter = NULL;
  if (!trouble && falt_execute(plan, &operands) != FALT_OK) trouble = failed;
  if (!trouble) trouble = inspect(&r);
  close_room(&r);
  return trouble;
}

/* The same in host or device memory, as the device requires. */
static const char *execute_plainly(falt_verification *v, const falt_plan *plan) {
  if (!v->device->memory) return execute_in_room(v->device, plan, falt_bench_operands(&v->data), v->data.poison);
  if (falt_mirror_send(&v->mirror, v->device, &v->data) != FALT_OK) return failed;
  const char *trouble = execute_in_room(v->device, plan, falt_mirror_operands(&v->mirror), v->data.poison);
  if (trouble) return trouble;
  return falt_mirror_fetch(&v->mirror, v->device, &v->data) == FALT_OK ? NULL : failed;
}

static const char *execute_from_host(falt_verification *v, const falt_plan *plan) {
  falt_operands operands = falt_bench_operands(&v->data);
  if (plan->packed) operands.filter = NULL;
  return falt_execute_host(plan, &operands) == FALT_OK ? NULL : failed;
}

/* ---- two concurrent executions of one plan */

typedef struct twins {
  falt_verification *v;
  const falt_plan *plan;
  const char *trouble[2];
} twins;

static void execute_twin(void *context, int64_t index) {
  twins *t = context;
  const falt_bench *bench = index ? &t->v->other : &t->v->data;
  t->trouble[index] = execute_in_room(t->v->device, t->plan, falt_bench_operands(bench), t->v->data.poison);
}

static const char *execute_at_once(falt_verification *v, const falt_plan *plan) {
  if (v->device->memory) return execute_plainly(v, plan); /* its executions queue up */
  twins t = {.v = v, .plan = plan};
  falt_threads *threads = falt_threads_create(2, NULL, NULL);
  if (!threads) return short_of_memory;
  falt_bench_copy(&v->other, &v->data);
  falt_parallel_for(threads, 2, execute_twin, &t);
  falt_threads_destroy(threads);
  if (t.trouble[0] || t.trouble[1]) return t.trouble[0] ? t.trouble[0] : t.trouble[1];
  if (!falt_bench_intact(&v->other)) return wrote_operand;
  return falt_bench_same(&v->data, &v->other, NULL) ? NULL : "two executions at once gave different bits";
}

/* A plan keeps nothing of its last operands. */
static const char *execute_after_other_data(falt_verification *v, const falt_plan *plan) {
  for (int i = 0; i < FALT_OPERANDS; i++) {
    const falt_guarded *o = &v->data.operand[i];
    const int64_t count = o->used && !o->written ? falt_tensor_span(&o->tensor) : 0;
    if (i != FALT_FILTER || !plan->packed) falt_random_fill(falt_guarded_data(o), o->tensor.type, count, v->seed + 1);
  }
  const char *trouble = execute_plainly(v, plan);
  falt_bench_poison(&v->data, v->data.poison);
  return trouble ? trouble : execute_plainly(v, plan);
}

const char *falt_verify_execute(falt_verification *v, const falt_plan *plan, falt_manner manner, unsigned char poison) {
  static const char *(*const execute[FALT_MANNER_COUNT])(falt_verification *, const falt_plan *) = {
      [FALT_PLAINLY] = execute_plainly,
      [FALT_FROM_HOST] = execute_from_host,
      [FALT_TWICE_AT_ONCE] = execute_at_once,
      [FALT_AFTER_OTHER_DATA] = execute_after_other_data,
  };
  falt_bench_poison(&v->data, poison);
  const char *trouble = execute[manner](v, plan);
  if (trouble) return trouble;
  return falt_bench_intact(&v->data) ? NULL : wrote_operand;
}
