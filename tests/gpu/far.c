/* Tensors beyond 2^31 elements on a GPU, by every CUDA solver that applies: images, planes or rows so far apart that
 * offsets need 64 bits; batches of so many images; and one row of so many samples. Values are small integers, whose
 * sums are exact: what is near tells what must come out. Needs some 20 GiB of the GPU's memory. Prints what fails. far
 * [PART PARTS]      every PARTS-th case from PART on: compiling takes longer than running */
#include <math.h>

#include "core/types.h"
#include "fixture.h"

static const int64_t far_away = INT64_C(1) << 31;

/* ---- zeros */

static falt_status alloc_zeros(falt_device *device, void **memory, size_t bytes) {
  static char zeros[1 << 26];
  falt_status status = falt_device_alloc(device, memory, bytes);
  for (size_t at = 0; at < bytes && status == FALT_OK; at += sizeof zeros) {
    const size_t count = bytes - at < sizeof zeros ? bytes - at : sizeof zeros;
    status = falt_device_write(device, (char *)*memory + at, zeros, count);
  }
  return status;
}

/* Whether operands are there; what the GPU has no memory for is passed over. */
static bool is_there(falt_status status, const char *line) {
  if (status == FALT_NO_MEMORY)
    printf("far: skipped, no memory: %s\n", line);
  else
    expect(status == FALT_OK, "far operands", line);
  return status == FALT_OK;
}

/* ---- problems with pieces that lie elsewhere */

/* The outermost dimension in memory. */
static int outermost(const falt_tensor *t) {
  int dim = FALT_W;
  for (int i = FALT_DIMS - 1; i >= 0; i--)
    if (t->size[i] > 1 && t->stride[i] > t->stride[dim]) dim = i;
  return dim;
}

typedef struct far_tensor {
  falt_tensor tensor;
  void *memory;
  size_t piece;             /* bytes of one piece, */
  int64_t pieces, distance; /* and bytes from piece to piece, far away */
} far_tensor;

/* Pulls the pieces of a tensor apart, or puts as many of zeros between the first and the last that both are far apart.
 */
static void set_far(far_tensor *f, const falt_tensor *near, bool many) {
  const int dim = outermost(near);
  const int64_t size = (int64_t)falt_type_size(near->type), last = near->size[dim] - 1;
  *f = (far_tensor){.tensor = *near, .pieces = near->size[dim], .piece = (size_t)(near->stride[dim] * size)};
  if (many)
    f->tensor.size[dim] = far_away / near->stride[dim] + 2;
  else
    f->tensor.stride[dim] = (far_away / last / 64 + 1) * 64;
  f->distance = (many ? f->tensor.size[dim] - 1 : 1) * f->tensor.stride[dim] * size;
}

static falt_status copy_pieces(falt_device *device, const far_tensor *f, char *host, bool back) {
  falt_status status = FALT_OK;
  for (int64_t i = 0; i < f->pieces && status == FALT_OK; i++) {
    char *there = (char *)f->memory + i * f->distance, *here = host + (size_t)i * f->piece;
    status = back ? falt_device_read(device, here, there, f->piece) : falt_device_write(device, there, here, f->piece);
  }
  return status;
}

/* Whether a result is what must come out: the same bits, or the same numbers but for the rounding of transforms. */
static bool is_right(const run *r, const char *back, const char *solver) {
  const falt_type type = tensor_of(&r->problem, r->result)->type;
  const char *want = r->host[r->result];
  if (strncmp(solver, "cuda-fft", 8) != 0) return memcmp(back, want, r->bytes[r->result]) == 0;
  for (int64_t i = 0; i < (int64_t)(r->bytes[r->result] / falt_type_size(type)); i++) {
    const double a = falt_load(back, type, i), b = falt_load(want, type, i);
    if (!(fabs(a - b) <= 1e-3 * (1 + fabs(b)))) return false;
  }
  return true;
}

/* Runs the far problem by one solver and compares; false if it does not apply. */
static bool check_solver(const run *r, const falt_problem *far, far_tensor place[TENSORS], const char *solver) {
  falt_budget budget;
  falt_plan *plan = NULL;
  void *workspace = NULL;
  far_tensor *result = &place[r->result];
  const size_t bytes = r->bytes[r->result];
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", solver);
  if (falt_plan_create(&plan, r->device, far, &budget, far->is_filter ? r->host[FILTER] : NULL) != FALT_OK)
    return false;
  char *back = malloc(bytes), *at[] = {place[INPUT].memory, place[FILTER].memory, place[OUTPUT].memory};
  memset(back, 0xff, bytes);
  falt_operands set = operands_of(at);
  bool fine = copy_pieces(r->device, result, back, false) == FALT_OK &&
              falt_device_alloc(r->device, &workspace, falt_plan_workspace(plan)) == FALT_OK;
  set.workspace = workspace;
  fine = fine && falt_execute(plan, &set) == FALT_OK && falt_device_synchronize(r->device) == FALT_OK &&
         copy_pieces(r->device, result, back, true) == FALT_OK && is_right(r, back, solver);
  expect(fine, solver, r->line);
  falt_device_free(r->device, &workspace);
  falt_plan_destroy(&plan);
  free(back);
  return true;
}

/* Both tensors have as many images as the smaller one needs. */
static void set_images(far_tensor place[TENSORS]) {
  int64_t *in = &place[INPUT].tensor.size[FALT_N], *out = &place[OUTPUT].tensor.size[FALT_N];
  *in = *out = *in > *out ? *in : *out;
  place[INPUT].distance = (*in - 1) * (int64_t)place[INPUT].piece;
  place[OUTPUT].distance = (*in - 1) * (int64_t)place[OUTPUT].piece;
}

static falt_status put(const run *r, far_tensor place[TENSORS], bool many) {
  falt_status status = FALT_OK;
  for (int i = 0; i < TENSORS && status == FALT_OK; i++) {
    const falt_tensor *t = &place[i].tensor;
    const size_t bytes = (size_t)falt_tensor_span(t) * falt_type_size(t->type) + PAD;
    status = (many ? alloc_zeros : falt_device_alloc)(r->device, &place[i].memory, bytes);
    if (status == FALT_OK && i != r->result) status = copy_pieces(r->device, &place[i], r->host[i], false);
  }
  return status;
}

/* A dense problem of few images, planes or rows; `many`: of two images. */
static void check_far(falt_device *device, const char *line, bool many) {
  run r;
  far_tensor place[TENSORS];
  int runs = 0;
  expect(open_run_of(&r, device, line, true), "near", line);
  for (int i = 0; i < TENSORS; i++) {
    const falt_tensor *near = tensor_of(&r.problem, i);
    place[i] = (far_tensor){.tensor = *near, .pieces = 1, .piece = r.bytes[i]};
    if (i != FILTER) set_far(&place[i], near, many);
  }
  if (many) set_images(place);
  falt_problem far = r.problem;
  far.input = place[INPUT].tensor;
  far.output = place[OUTPUT].tensor;
  expect(falt_problem_check(&far) == FALT_OK, "far problem", line);
  if (is_there(put(&r, place, many), line)) {
    for (int s = 0; falt_solver_name(s); s++)
      if (strncmp(falt_solver_name(s), "cuda", 4) == 0) runs += check_solver(&r, &far, place, falt_solver_name(s));
    expect(runs >= 2, "too few solvers", line);
    printf("far: %d solvers: %s%s\n", runs, many ? "many images of " : "", line);
  }
  for (int i = 0; i < TENSORS; i++) falt_device_free(device, &place[i].memory);
  close_run(&r);
}

static const struct {
  const char *line;
  bool many;
} cases[] = {
    {"correlate h=40 w=80 r=3 s=3 boundary=reflect101", false},
    {"correlate h=40 w=80 pixel=3 r=5 s=5 type=u8 weight-type=u8 out-type=s32", false},
    {"correlate d=12 h=9 w=40 t=3 r=3 s=3", false},
    {"forward n=3 c=18 h=9 w=20 k=40 r=3 s=3 pad=1 layout=nhwc", false},
    {"forward n=3 c=64 h=9 w=16 k=64 r=3 s=3 pad=1 layout=nhwc type=f16", false},
    {"backward-data n=3 c=64 h=12 w=20 k=64 r=3 s=3 pad=1 stride=2 layout=nhwc type=f16", false},
    {"backward-filter n=3 c=64 h=12 w=20 k=64 r=3 s=3 pad=1 layout=nhwc type=f16", false},
    {"forward n=3 c=64 h=9 w=16 k=64 r=3 s=3 pad=1 type=f16", false},
    {"backward-filter n=3 c=16 h=12 w=16 k=40 r=3 s=3 pad=1", false},
    {"forward n=3 c=40 h=9 w=20 k=40 r=3 s=3 pad=1 layout=nhwc groups=40 type=f16", false},
    {"backward-filter n=3 c=40 h=9 w=20 k=40 r=3 s=3 pad=1 groups=40", false},
    {"forward n=3 c=64 h=9 w=20 k=64 r=3 s=3 pad=1 layout=nhwc groups=8 type=bf16", false},
    {"forward n=2 c=64 h=9 w=20 k=64 r=3 s=3 pad=1 layout=nhwc type=u8", false},
    {"forward n=3 c=3 h=20 w=20 k=16 r=3 s=3 pad=1 act=relu pool=max:2", false},
    {"maxpool n=2 c=20 h=24 w=20 r=2 s=2", false},
    {"avgpool n=2 c=20 h=24 w=20 r=2 s=2 type=u8 layout=nhwc", false},
    {"forward n=2 c=64 h=56 w=56 k=64 r=1 s=1 layout=nhwc type=f16", true},
    {"backward-filter n=2 c=64 h=56 w=56 k=64 r=1 s=1 layout=nhwc type=f16", true},
    {"forward n=2 c=32 h=56 w=56 k=32 r=3 s=3 pad=1 groups=32 layout=nhwc type=f16", true},
    {"maxpool n=2 c=64 h=56 w=56 r=2 s=2 layout=nhwc type=f16", true},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- one row: zeros, and a one here and there, around which the flipped taps must lie */

enum { TAPS = 7, RADIUS = 3 };

static void check_row_by(falt_device *device, const falt_problem *p, void *x, void *y, const char *solver) {
  static const unsigned char taps[TAPS] = {1, 2, 3, 4, 5, 6, 7};
  const int64_t places[] = {5, far_away - 4, far_away + 9, p->input.size[FALT_W] - 4};
  falt_budget budget;
  falt_plan *plan = NULL;
  void *workspace = NULL;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", solver);
  if (falt_plan_create(&plan, device, p, &budget, taps) != FALT_OK) return;
  bool fine = falt_device_alloc(device, &workspace, falt_plan_workspace(plan)) == FALT_OK &&
              falt_execute(plan, &(falt_operands){.input = x, .output = y, .workspace = workspace}) == FALT_OK &&
              falt_device_synchronize(device) == FALT_OK;
  for (int i = 0; i < 4; i++) {
    unsigned char around[TAPS] = {0};
    fine = fine && falt_device_read(device, around, (char *)y + places[i] - RADIUS, TAPS) == FALT_OK;
    for (int j = 0; j < TAPS; j++) fine = fine && around[j] == taps[TAPS - 1 - j];
  }
  expect(fine, solver, "one long row");
  falt_device_free(device, &workspace);
  falt_plan_destroy(&plan);
}

static void check_row(falt_device *device) {
  falt_problem p;
  void *x = NULL, *y = NULL;
  expect(falt_problem_parse(&p, NULL, "correlate w=2200000000 s=7 type=u8 weight-type=u8") == FALT_OK, "parse", "row");
  const int64_t places[] = {5, far_away - 4, far_away + 9, p.input.size[FALT_W] - 4};
  falt_status status = alloc_zeros(device, &x, (size_t)p.input.size[FALT_W]);
  if (status == FALT_OK) status = falt_device_alloc(device, &y, (size_t)p.output.size[FALT_W]);
  for (int i = 0; i < 4 && status == FALT_OK; i++)
    status = falt_device_write(device, (char *)x + places[i], &(unsigned char){1}, 1);
  const bool there = is_there(status, "one long row");
  for (int s = 0; there && falt_solver_name(s); s++)
    if (strncmp(falt_solver_name(s), "cuda", 4) == 0) check_row_by(device, &p, x, y, falt_solver_name(s));
  falt_device_free(device, &x);
  falt_device_free(device, &y);
}

int main(int count, char **words) {
  const int part = count > 2 ? atoi(words[1]) : 0, parts = count > 2 ? atoi(words[2]) : 1;
  falt_device *device = NULL;
  if (falt_device_cuda(&device, NULL) != FALT_OK) {
    fprintf(stderr, "%s\n", falt_message());
    return 3;
  }
  for (int i = part; i < CASES; i += parts) check_far(device, cases[i].line, cases[i].many);
  if (part == parts - 1) check_row(device);
  falt_device_destroy(&device);
  printf("far: %d failed\n", failures);
  return failures != 0;
}
