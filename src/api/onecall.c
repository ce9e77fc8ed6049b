/* One call: an array, some taps, an array. Plans, executes and forgets. */
#include <string.h>

#include "core/memory.h"
#include "planner/planner.h"

typedef struct span {
  uintptr_t begin, end;
} span;

/* The bytes that an array's elements lie in. */
static span span_of(const falt_array *array) {
  const falt_tensor *t = &array->tensor;
  int64_t lowest = t->offset, element = (int64_t)falt_type_size(t->type);
  for (int d = 0; d < FALT_DIMS; d++)
    if (t->stride[d] < 0) lowest += (t->size[d] - 1) * t->stride[d];
  uintptr_t data = (uintptr_t)array->data;
  return (span){data + (uintptr_t)(lowest * element), data + (uintptr_t)(falt_tensor_span(t) * element)};
}

static bool overlap(const falt_array *a, const falt_array *b) {
  span x = span_of(a), y = span_of(b);
  return x.begin < y.end && y.begin < x.end;
}

static falt_status check_array(const falt_array *array, const char *name) {
  if (!array) return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL; describe it with falt_image or falt_volume", name);
  if (!array->data) return falt_fail(FALT_INVALID_ARGUMENT, "%s.data: NULL; point it to the elements", name);
  if ((unsigned)array->tensor.type >= FALT_TYPE_COUNT)
    return falt_fail(FALT_INVALID_ARGUMENT, "%s.tensor.type: %d is no type", name, (int)array->tensor.type);
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

static falt_status describe(falt_problem *problem, const falt_array *src, const falt_array *taps, const falt_array *dst,
                            const falt_options *options, bool flip) {
  FALT_TRY(check_array(src, "src"));
  FALT_TRY(check_array(taps, "taps"));
  FALT_TRY(check_array(dst, "dst"));
  FALT_TRY(falt_problem_filter(problem, &src->tensor, &taps->tensor, dst->tensor.type, flip, options));
  FALT_TRY(take_output(problem, dst));
  FALT_TRY(falt_problem_check(problem)); /* so that the spans below cannot overflow */
  if (overlap(src, dst))
    return falt_fail(FALT_INVALID_ARGUMENT, "dst: overlaps src; filter into another array and copy");
  if (overlap(taps, dst)) return falt_fail(FALT_INVALID_ARGUMENT, "dst: overlaps taps; filter into another array");
  return FALT_OK;
}

static falt_status run(falt_device *device, const falt_problem *problem, const falt_budget *budget,
                       const falt_operands *operands) {
  falt_plan *plan;
  FALT_TRY(falt_plan_create(&plan, device, problem, budget, operands->filter));
  falt_status status = falt_execute_host(plan, operands);
  falt_plan_destroy(&plan);
  return status;
}

static falt_status filter(const falt_array *src, const falt_array *taps, const falt_array *dst,
                          const falt_options *options, bool flip) {
  falt_problem problem;
  FALT_TRY(describe(&problem, src, taps, dst, options, flip));
  falt_device *own = NULL, *device = options ? options->device : NULL;
  if (!device) {
    FALT_TRY(falt_device_cpu(&own, NULL));
    device = own;
  }
  falt_operands operands = {.input = src->data, .filter = taps->data, .output = dst->data};
  falt_status status = run(device, &problem, options ? &options->budget : NULL, &operands);
  falt_device_destroy(&own);
  return status;
}

falt_status falt_correlate(const falt_array *src, const falt_array *taps, const falt_array *dst,
                           const falt_options *options) {
  return filter(src, taps, dst, options, false);
}

falt_status falt_convolve(const falt_array *src, const falt_array *taps, const falt_array *dst,
                          const falt_options *options) {
  return filter(src, taps, dst, options, true);
}
