/* Any text as a problem line. What parses must print, parse back to the same fields and the same hash, and be safe to
 * reason about: no overflow in boundaries, interiors, spans and counts at the far ends of what the check allows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "problem/problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONGEST = 4096 };

static void require(bool holds) {
  if (!holds) abort();
}

static void visit_axis(const falt_problem *problem, int i) {
  const falt_axis *axis = &problem->axis[i];
  int64_t in = problem->input.size[FALT_D + i], taps = problem->filter.size[FALT_D + i];
  int64_t out = problem->output.size[FALT_D + i], begin, end;
  int64_t low = -axis->pad[0], high = (out - 1) * axis->stride + falt_extent(axis, taps) - 1 - axis->pad[0];
  falt_axis_interior(axis, in, taps, out, &begin, &end);
  require(0 <= begin && begin <= end && end <= out);
  const int64_t ends[] = {low, high};
  for (int e = 0; e < 2; e++) {
    int64_t at = falt_axis_map(axis, in, ends[e]), u = low - 1;
    require(at >= -1 && at < in);
    if (at >= 0) require(falt_axis_preimage(axis, in, at, low, high, &u) && falt_axis_map(axis, in, u) == at);
  }
}

static void visit(const falt_problem *problem) {
  const falt_tensor *tensors[] = {&problem->input, &problem->filter, &problem->output, &problem->residual};
  for (int i = 0; i < 3; i++) visit_axis(problem, i);
  for (int i = 0; i < 4; i++) require(falt_tensor_span(tensors[i]) > 0 && falt_tensor_count(tensors[i]) > 0);
  require(falt_problem_flops(problem) > 0 && falt_problem_bytes(problem) > 0 && falt_problem_depth(problem) > 0);
  falt_problem output = *problem;
  falt_problem_output(&output); /* may say no, must not stumble */
}

static void round_trip(const falt_problem *problem, const falt_budget *budget) {
  char line[LONGEST], again[LONGEST];
  falt_problem p;
  falt_budget b;
  require(falt_problem_print(problem, budget, line, sizeof line) < sizeof line);
  require(falt_problem_parse(&p, &b, line) == FALT_OK);
  require(falt_problem_equal(&p, problem) && falt_problem_hash(&p) == falt_problem_hash(problem));
  falt_problem_print(&p, &b, again, sizeof again);
  require(strcmp(line, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  falt_problem problem;
  falt_budget budget;
  char *line = malloc(size + 1);
  if (!line) return 0;
  memcpy(line, data, size);
  line[size] = '\0';
  if (falt_problem_parse(&problem, NULL, line) != FALT_OK) require(!strchr(falt_message(), '\n'));
  if (falt_problem_parse(&problem, &budget, line) == FALT_OK) {
    visit(&problem);
    round_trip(&problem, &budget);
  }
  free(line);
  return 0;
}
