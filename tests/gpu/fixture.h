/* Shared by the tests on a GPU: a planned problem, its operands, and its expected output. */
#ifndef FALT_TESTS_GPU_FIXTURE_H
#define FALT_TESTS_GPU_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faltung/faltung.h"

#define UNUSED __attribute__((unused))

enum { INPUT, FILTER, OUTPUT, TENSORS, PAD = 512 };
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
  char *host[TENSORS]; /* one of them what must come out */
  size_t bytes[TENSORS];
  int result; /* which */
} run;

UNUSED static const falt_tensor *tensor_of(const falt_problem *p, int i) {
  return i == INPUT ? &p->input : i == FILTER ? &p->filter : &p->output;
}

UNUSED static int result_of(const falt_problem *p) {
  return p->operation == FALT_BACKWARD_DATA ? INPUT : p->operation == FALT_BACKWARD_FILTER ? FILTER : OUTPUT;
}

UNUSED static falt_operands operands_of(char *const tensor[TENSORS]) {
  return (falt_operands){.input = tensor[INPUT], .filter = tensor[FILTER], .output = tensor[OUTPUT]};
}

/* Small integers, whose sums are exact in every type: -2 to 2, unsigned 0 to 4. */
UNUSED static void fill_integers(char *data, falt_type type, int64_t count, uint64_t seed) {
  static const uint16_t f16[] = {0xc000, 0xbc00, 0, 0x3c00, 0x4000}, bf16[] = {0xc000, 0xbf80, 0, 0x3f80, 0x4000};
  unsigned char *random = malloc((size_t)count);
  falt_random_fill(random, FALT_U8, count, seed);
  for (int64_t i = 0; i < count; i++) {
    const int value = random[i] % 5 - 2;
    switch (type) {
      case FALT_F16:
      case FALT_BF16:
        memcpy(data + 2 * i, (type == FALT_F16 ? f16 : bf16) + value + 2, 2);
        break;
      case FALT_F32:
        memcpy(data + 4 * i, &(float){(float)value}, 4);
        break;
      case FALT_F64:
        memcpy(data + 8 * i, &(double){value}, 8);
        break;
      default: /* of 8 bits */
        data[i] = (char)(value + (type == FALT_U8 ? 2 : 0));
    }
  }
  free(random);
}

/* Turns random taps of an image's filter into products of the first row and the first column. */
UNUSED static void make_rank_one(const falt_problem *p, float *taps) {
  const int64_t rows = p->filter.size[FALT_H], columns = p->filter.size[FALT_W];
  taps[0] = 1;
  for (int64_t i = 1; i < rows; i++)
    for (int64_t j = 1; j < columns; j++) taps[i * columns + j] = taps[i * columns] * taps[j];
}

/* Operands on the host, and what comes out of the plan. The values of filters are known when planning, those of layers'
 * are not. */
UNUSED static bool open_run_of(run *r, falt_device *device, const char *line, bool integers) {
  falt_budget budget;
  *r = (run){.line = line, .device = device};
  falt_budget_default(&budget);
  if (falt_problem_parse(&r->problem, &budget, line) != FALT_OK) return false;
  const falt_problem *p = &r->problem;
  r->result = result_of(p);
  for (int i = 0; i < TENSORS; i++) {
    const falt_tensor *t = tensor_of(p, i);
    const int64_t span = falt_tensor_span(t);
    r->bytes[i] = (size_t)span * falt_type_size(t->type);
    r->host[i] = calloc(1, r->bytes[i]);
    if (i == r->result) continue;
    if (integers)
      fill_integers(r->host[i], t->type, span, (uint64_t)i + 1);
    else
      falt_random_fill(r->host[i], t->type, span, (uint64_t)i + 1);
    if (i == FILTER && p->rank == 1 && t->type == FALT_F32) make_rank_one(p, (float *)(void *)r->host[i]);
  }
  const falt_operands host = operands_of(r->host);
  return falt_plan_create(&r->plan, device, p, &budget, p->is_filter ? r->host[FILTER] : NULL) == FALT_OK &&
         falt_execute_host(r->plan, &host) == FALT_OK;
}

UNUSED static bool open_run(run *r, falt_device *device, const char *line) {
  return open_run_of(r, device, line, false);
}

UNUSED static void close_run(run *r) {
  falt_plan_destroy(&r->plan);
  for (int i = 0; i < TENSORS; i++) free(r->host[i]);
}

/* The operands on the device. */
typedef struct placed {
  void *memory[TENSORS];
  falt_operands set;
  char *result; /* where in the device's memory, and what was read back */
  char *back;
} placed;

/* Places operands `shift` elements behind an aligned address, and the result `result_shift` elements. */
UNUSED static bool place(const run *r, placed *p, int64_t shift, int64_t result_shift, void *stream) {
  char *at[TENSORS];
  *p = (placed){.back = malloc(r->bytes[r->result])};
  bool fine = true;
  for (int i = 0; i < TENSORS; i++) {
    const int64_t size = (int64_t)falt_type_size(tensor_of(&r->problem, i)->type);
    fine = fine && falt_device_alloc(r->device, &p->memory[i], r->bytes[i] + PAD) == FALT_OK;
    at[i] = (char *)p->memory[i] + (i == r->result ? result_shift : shift) * size;
    if (i != r->result) fine = fine && falt_device_write(r->device, at[i], r->host[i], r->bytes[i]) == FALT_OK;
  }
  p->set = operands_of(at);
  p->set.stream = stream;
  p->result = at[r->result];
  return fine && falt_device_alloc(r->device, &p->set.workspace, falt_plan_workspace(r->plan)) == FALT_OK;
}

UNUSED static void unplace(const run *r, placed *p) {
  for (int i = 0; i < TENSORS; i++) falt_device_free(r->device, &p->memory[i]);
  falt_device_free(r->device, &p->set.workspace);
  free(p->back);
}

/* Fills the result with what no result is. */
UNUSED static bool poison(const run *r, placed *p) {
  memset(p->back, 0xff, r->bytes[r->result]);
  return falt_device_write(r->device, p->result, p->back, r->bytes[r->result]) == FALT_OK;
}

UNUSED static bool came_out(const run *r, placed *p) {
  return falt_device_synchronize(r->device) == FALT_OK &&
         falt_device_read(r->device, p->back, p->result, r->bytes[r->result]) == FALT_OK &&
         memcmp(p->back, r->host[r->result], r->bytes[r->result]) == 0;
}

/* Executes with the operands so many elements behind an aligned place, on a stream. */
UNUSED static bool same_when(const run *r, int64_t shift, int64_t result_shift, void *stream) {
  placed p;
  const bool fine = place(r, &p, shift, result_shift, stream) && poison(r, &p) &&
                    falt_execute(r->plan, &p.set) == FALT_OK && came_out(r, &p);
  unplace(r, &p);
  return fine;
}

#endif
