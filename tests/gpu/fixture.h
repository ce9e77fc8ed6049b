/* What the tests on a GPU share: a problem planned there, its operands, and what it must give. */
#ifndef FALT_TESTS_GPU_FIXTURE_H
#define FALT_TESTS_GPU_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faltung/faltung.h"

#define UNUSED __attribute__((unused))

enum { PAD = 64 };
UNUSED static int failures;

UNUSED static void expect(bool fine, const char *what, const char *line) {
  if (!fine) fprintf(stderr, "FAILED %s: %s (%s)\n", what, line, falt_message());
  failures += !fine;
}

typedef struct run {
  const char *line;
  falt_device *device;
  falt_problem problem;
  falt_plan *plan;
  size_t x_bytes, y_bytes;
  char *x, *expected; /* on the host */
} run;

UNUSED static bool open_run(run *r, falt_device *device, const char *line) {
  *r = (run){.line = line, .device = device};
  if (falt_problem_parse(&r->problem, NULL, line) != FALT_OK) return false;
  const falt_problem *p = &r->problem;
  r->x_bytes = (size_t)falt_tensor_span(&p->input) * falt_type_size(p->input.type);
  r->y_bytes = (size_t)falt_tensor_span(&p->output) * falt_type_size(p->output.type);
  const int64_t taps = falt_tensor_span(&p->filter);
  char *w = malloc((size_t)taps * 8);
  r->x = malloc(r->x_bytes);
  r->expected = calloc(1, r->y_bytes);
  falt_random_fill(r->x, p->input.type, falt_tensor_span(&p->input), 1);
  falt_random_fill(w, p->filter.type, taps, 2);
  const falt_operands host = {.input = r->x, .filter = w, .output = r->expected};
  const bool fine =
      falt_plan_create(&r->plan, device, p, NULL, w) == FALT_OK && falt_execute_host(r->plan, &host) == FALT_OK;
  free(w);
  return fine;
}

UNUSED static void close_run(run *r) {
  falt_plan_destroy(&r->plan);
  free(r->x);
  free(r->expected);
}

/* Executes with the operands so many elements behind an aligned place, on a stream. */
UNUSED static bool same_when(const run *r, int64_t x_shift, int64_t y_shift, void *stream) {
  char *x = NULL, *y = NULL, *back = malloc(r->y_bytes);
  void *workspace = NULL;
  x_shift *= (int64_t)falt_type_size(r->problem.input.type);
  y_shift *= (int64_t)falt_type_size(r->problem.output.type);
  bool fine = falt_device_alloc(r->device, (void **)&x, r->x_bytes + PAD * 8) == FALT_OK &&
              falt_device_alloc(r->device, (void **)&y, r->y_bytes + PAD * 8) == FALT_OK &&
              falt_device_alloc(r->device, &workspace, falt_plan_workspace(r->plan)) == FALT_OK &&
              falt_device_write(r->device, x + x_shift, r->x, r->x_bytes) == FALT_OK;
  const falt_operands there = {.input = x + x_shift, .output = y + y_shift, .workspace = workspace, .stream = stream};
  fine = fine && falt_execute(r->plan, &there) == FALT_OK && falt_device_synchronize(r->device) == FALT_OK &&
         falt_device_read(r->device, back, y + y_shift, r->y_bytes) == FALT_OK;
  fine = fine && memcmp(back, r->expected, r->y_bytes) == 0;
  falt_device_free(r->device, (void **)&x);
  falt_device_free(r->device, (void **)&y);
  falt_device_free(r->device, &workspace);
  free(back);
  return fine;
}

#endif
