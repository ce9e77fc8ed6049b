/* Tier 2, plan once and execute often: a convolutional layer with bias and ReLU from one line of text, its plan
 * printed, its time taken. */
#include <faltung/faltung.h>
#include <stdio.h>
#include <stdlib.h>

static void check(falt_status status) {
  if (status == FALT_OK) return;
  fprintf(stderr, "%s: %s\n", falt_status_name(status), falt_message());
  exit(EXIT_FAILURE);
}

static void *random_tensor(const falt_tensor *tensor, uint64_t seed) {
  const int64_t count = falt_tensor_span(tensor);
  void *data = malloc((size_t)count * falt_type_size(tensor->type));
  if (!data) exit(EXIT_FAILURE);
  falt_random_fill(data, tensor->type, count, seed);
  return data;
}

int main(void) {
  falt_problem problem;
  falt_budget budget;
  check(falt_problem_parse(&problem, &budget,
                           "forward n=4 c=32 h=28 w=28 k=32 r=3 s=3 pad=1 type=f32 layout=nhwc bias=1 act=relu"));
  falt_device *device = NULL;
  falt_plan *plan = NULL;
  check(falt_device_cpu(&device, NULL));
  void *filter = random_tensor(&problem.filter, 2);
  check(falt_plan_create(&plan, device, &problem, &budget, filter)); /* the values are known: packed into the plan */

  static float bias[32];
  falt_operands operands = {.input = random_tensor(&problem.input, 1),
                            .output = malloc((size_t)falt_tensor_span(&problem.output) * sizeof(float)),
                            .filter = filter,
                            .bias = bias,
                            .workspace = aligned_alloc(64, (falt_plan_workspace(plan) + 64) / 64 * 64)};
  check(falt_execute(plan, &operands));

  char text[256];
  falt_candidate time;
  falt_plan_print(plan, text, sizeof text);
  check(falt_plan_time(plan, &operands, 0.05, &time));
  printf("%s: %.3f ms, %.1f GFLOP/s, %.0f%% of the %s limit\n", text, time.seconds_median * 1e3, time.gflops,
         time.limit_share * 100, time.bound);

  free(operands.input), free(operands.output), free(operands.workspace), free(filter);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
  return EXIT_SUCCESS;
}
