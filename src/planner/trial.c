/* Trial executions: operands as the problem describes them, from data[0] to the last element that the strides reach. */
#include "planner/trial.h"

#include <string.h>
#include <unistd.h>

#include "core/copy.h"
#include "core/memory.h"
#include "core/random.h"

enum { PATTERN = 16381 }; /* random elements, which the rest repeats; a prime, so that rows differ */

static double random_value(falt_type type, uint64_t *state) {
  double unit = falt_random_unit(state);
  if (!falt_type_is_integer(type)) return 2 * unit - 1;
  return falt_type_min(type) + unit * (falt_type_max(type) - falt_type_min(type));
}

static void fill(void *data, falt_type type, int64_t count) {
  uint64_t state = 1;
  int64_t drawn = falt_min(count, PATTERN);
  for (int64_t i = 0; i < drawn; i++) falt_store(data, type, i, random_value(type, &state));
  size_t bytes = falt_type_size(type) * (size_t)count;
  for (size_t done = falt_type_size(type) * (size_t)drawn; done < bytes && !falt_cancelled(); done *= 2)
    falt_copy_large((char *)data + done, data, done < bytes - done ? done : bytes - done);
}

static void *keep(falt_trial *trial, size_t bytes) {
  void *memory = NULL;
  const falt_device_memory *own = trial->device->memory;
  if (!own) memory = falt_alloc(bytes);
  if (own && own->allocate(trial->device, &memory, bytes) != FALT_OK) return NULL;
  if (memory) trial->memory[trial->count++] = memory;
  return memory;
}

/* Fills device memory through host memory. */
static bool fill_there(falt_device *device, void *there, falt_type type, int64_t count) {
  const size_t bytes = falt_type_size(type) * (size_t)count;
  void *here = falt_alloc(bytes);
  if (here) fill(here, type, count);
  const bool copied = here && device->memory->copy_in(device, there, here, bytes) == FALT_OK;
  falt_free(here);
  return copied;
}

static bool provide(falt_trial *trial, void **operand, const falt_tensor *tensor) {
  const falt_type type = tensor->type;
  const int64_t count = falt_tensor_span(tensor);
  *operand = keep(trial, (size_t)count * falt_type_size(type));
  if (!*operand) return false;
  if (trial->device->memory) return fill_there(trial->device, *operand, type, count);
  fill(*operand, type, count);
  return true;
}

static bool machine_has(const falt_device *device, const falt_problem *problem, size_t workspace) {
  if (device->memory) return true; /* a request beyond the free memory fails at once */
  double available = 0.75 * (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  const falt_tensor *tensors[] = {&problem->input, &problem->output, &problem->residual};
  double needed = (double)workspace;
  needed += (double)falt_problem_filter_elements(problem) * (double)falt_type_size(problem->filter.type);
  for (int i = 0; i < 3; i++) needed += (double)falt_tensor_span(tensors[i]) * (double)falt_type_size(tensors[i]->type);
  return needed <= available;
}

static bool provide_all(falt_trial *trial, const falt_problem *problem, size_t workspace) {
  const unsigned used = falt_operands_used(problem);
  for (falt_operand i = 0; i < FALT_OPERANDS; i++) {
    const falt_tensor tensor = falt_operand_tensor(problem, i);
    if (used >> i & 1 && !provide(trial, falt_operand_at(&trial->operands, i), &tensor)) return false;
  }
  return !workspace || (trial->operands.workspace = keep(trial, workspace));
}

falt_status falt_trial_open(falt_trial *trial, falt_device *device, const falt_problem *problem, size_t workspace) {
  *trial = (falt_trial){.device = device};
  if (machine_has(device, problem, workspace) && provide_all(trial, problem, workspace)) return FALT_OK;
  falt_trial_close(trial);
  return falt_fail(FALT_NO_MEMORY, "measuring: the operands do not fit in memory; use a smaller problem");
}

void falt_trial_close(falt_trial *trial) {
  const falt_device_memory *own = trial->device->memory;
  while (trial->count > 0) {
    void *memory = trial->memory[--trial->count];
    if (own)
      own->release(trial->device, memory);
    else
      falt_free(memory);
  }
}

typedef struct execution {
  const falt_plan *plan;
  const falt_operands *operands;
} execution;

static void execute(void *context) {
  const execution *call = context;
  falt_plan_run(call->plan, call->operands);
}

static void wait(void *context) {
  const execution *call = context;
  call->plan->device->memory->synchronize(call->plan->device);
}

static double measure(void *context, long iterations) {
  const execution *call = context;
  falt_device *device = call->plan->device;
  return device->memory->time(device, call->operands->stream, execute, context, iterations);
}

falt_status falt_trial_time(const falt_plan *plan, const falt_operands *operands, double seconds, falt_timing *timing) {
  execution call = {plan, operands};
  const falt_device_memory *own = plan->device->memory;
  const falt_timed timed = {execute, own ? wait : NULL, &call, own && own->time ? measure : NULL};
  *timing = falt_time(&timed, seconds);
  return own ? own->trouble(plan->device) : FALT_OK;
}
