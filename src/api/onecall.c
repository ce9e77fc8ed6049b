/* Public entries that plan, execute and destroy in one call: falt_correlate and falt_convolve. */
#include <string.h>

#include "core/memory.h"
#include "planner/planner.h"
#include "problem/overlap.h"

static falt_status check_array(const falt_const_array *array, const char *name) {
  if (!array) return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL; describe it with falt_image or falt_volume", name);
  if (!array->data) return falt_fail(FALT_INVALID_ARGUMENT, "%s.data: NULL; point it to the elements", name);
  if ((unsigned)array->tensor.type >= FALT_TYPE_COUNT)
    return falt_fail(FALT_INVALID_ARGUMENT, "%s.tensor.type: %d is not a type", name, (int)array->tensor.type);
  return FALT_OK;
}

static void write_sizes(const falt_tensor *tensor, char *text, size_t size) {
  falt_text out = falt_text_over(text, size);
  for (int d = 0; d < FALT_DIMS; d++) falt_text_add(&out, "%s%lld", d ? "x" : "", (long long)tensor->size[d]);
}

/* dst must be as large as the problem's output; its strides are the caller's. */
static falt_status take_output(falt_problem *problem, const falt_array *dst) {
  falt_tensor view = dst->tensor;
  FALT_TRY(falt_tensor_filter_view(&view, problem->space));
  bool same = memcmp(view.size, problem->output.size, sizeof view.size) == 0;
  char have[160], need[160];
  write_sizes(&view, have, sizeof have);
  write_sizes(&problem->output, need, sizeof need);
  if (!same)
    return falt_fail(FALT_INVALID_SHAPE, "dst: its size is %s, the result's is %s; make them equal", have, need);
  problem->output = view;
  return FALT_OK;
}

static falt_status describe(falt_problem *problem, const falt_const_array *src, const falt_const_array *taps,
                            const falt_array *dst, const falt_options *options, bool flip) {
  FALT_TRY(check_array(src, "src"));
  FALT_TRY(check_array(taps, "taps"));
  if (!dst) return falt_fail(FALT_INVALID_ARGUMENT, "dst: NULL; describe it with falt_image or falt_volume");
  const falt_const_array result = falt_const(*dst);
  FALT_TRY(check_array(&result, "dst"));
  FALT_TRY(falt_problem_filter(problem, &src->tensor, &taps->tensor, dst->tensor.type, flip, options));
  FALT_TRY(take_output(problem, dst));
  FALT_TRY(falt_problem_check(problem)); /* spans cannot overflow below it */
  if (falt_tensors_overlap(&src->tensor, src->data, &dst->tensor, dst->data))
    return falt_fail(FALT_INVALID_ARGUMENT, "dst: overlaps src; filter into another array and copy");
  if (falt_tensors_overlap(&taps->tensor, taps->data, &dst->tensor, dst->data))
    return falt_fail(FALT_INVALID_ARGUMENT, "dst: overlaps taps; filter into another array");
  return FALT_OK;
}

static falt_status run(falt_device *device, const falt_problem *problem, const falt_budget *budget,
                       const falt_operands *operands) {
  falt_plan *plan;
  falt_call call;
  falt_call_begin(&call, &device->control, NULL);
  falt_status status = falt_plan_create(&plan, device, problem, budget, operands->filter);
  if (status == FALT_OK) status = falt_execute_host(plan, operands);
  falt_plan_destroy(&plan);
  return falt_call_end(&call, status);
}

/* falt_operands has the same pointer type for inputs and outputs. */
static void *read_only(const falt_const_array *array) {
  return (void *)(uintptr_t)array->data;
}

static falt_status filter(const falt_const_array *src, const falt_const_array *taps, const falt_array *dst,
                          const falt_options *options, bool flip) {
  falt_problem problem;
  FALT_TRY(describe(&problem, src, taps, dst, options, flip));
  falt_device *own = NULL, *device = options ? options->device : NULL;
  if (!device) {
    FALT_TRY(falt_device_cpu(&own, NULL));
    device = own;
  }
  falt_operands operands = {.input = read_only(src), .filter = read_only(taps), .output = dst->data};
  falt_status status = run(device, &problem, options ? &options->budget : NULL, &operands);
  falt_device_destroy(&own);
  return status;
}

falt_status falt_correlate(const falt_const_array *src, const falt_const_array *taps, const falt_array *dst,
                           const falt_options *options) {
  return filter(src, taps, dst, options, false);
}

falt_status falt_convolve(const falt_const_array *src, const falt_const_array *taps, const falt_array *dst,
                          const falt_options *options) {
  return filter(src, taps, dst, options, true);
}
