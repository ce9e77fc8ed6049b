/* Sums in place: with the output as its own residual every solver of the GPU gives the same bits as with the residual
 * apart. Plain C over the public header; prints what fails. */
#include "fixture.h"

static const char *const lines[] = {
    "forward n=3 c=64 h=14 w=13 k=72 r=3 s=3 pad=1 type=f16 layout=nhwc bias=1 residual=1 act=relu",
    "forward n=2 c=256 h=14 w=14 k=256 r=3 s=3 pad=1 type=bf16 layout=nhwc residual=1 act=relu",
    "forward n=1 c=512 h=7 w=7 k=512 r=3 s=3 pad=1 type=f16 layout=nhwc residual=1",
    "forward n=5 c=128 h=15 w=17 k=136 r=1 s=1 type=f16 layout=nhwc residual=1 scale=1 bias=1",
    "forward n=2 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 type=f16 residual=1 act=relu",
    "forward n=2 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 type=f32 residual=1 act=relu",
    "forward n=2 c=64 h=29 w=27 k=40 r=3 s=3 pad=1 stride=2 type=f32 layout=nhwc residual=1 act=silu",
    "forward n=1 c=512 h=7 w=7 k=512 r=3 s=3 pad=1 type=f32 residual=1",
    "forward n=2 c=3 h=61 w=59 k=64 r=7 s=7 pad=3 stride=2 type=f16 layout=nhwc residual=1 act=relu",
    "forward n=2 c=3 h=61 w=59 k=64 r=7 s=7 pad=3 stride=2 type=f16 residual=1 act=relu",
    "forward n=2 c=3 h=64 w=64 k=96 r=4 s=4 stride=4 type=f16 layout=nhwc residual=1",
    "forward n=2 c=3 h=31 w=33 k=20 r=3 s=3 pad=1 type=f32 residual=1 bias=1",
    "forward n=2 c=24 h=31 w=33 k=16 r=3 s=3 pad=1 type=f16 layout=nhwc residual=1",
    "forward n=2 c=96 h=29 w=31 k=96 r=3 s=3 pad=1 groups=96 type=f16 layout=nhwc residual=1",
    "forward n=2 c=96 h=29 w=31 k=96 r=7 s=7 pad=3 groups=96 type=f32 residual=1 act=gelu",
    "forward n=2 c=32 h=14 w=14 k=32 r=31 s=31 pad=15 groups=32 type=f16 layout=nhwc residual=1",
    "forward n=2 c=64 h=29 w=31 k=64 r=3 s=3 pad=1 groups=8 type=f16 layout=nhwc residual=1 act=relu",
    "forward n=2 c=64 h=29 w=31 k=64 r=3 s=3 pad=1 groups=8 type=f32 residual=1 act=relu",
    "forward n=2 c=32 d=7 h=9 w=11 k=64 t=3 r=3 s=3 pad=1 type=f16 layout=ndhwc residual=1",
    "forward n=2 c=9 d=5 h=9 w=11 k=13 t=3 r=3 s=3 pad=1 type=f32 residual=1 boundary=wrap",
    "forward n=2 c=16 h=19 w=21 k=24 r=3 s=3 pad=1 type=u8 weight-type=s8 out-type=u8 alpha=0.01 residual=1",
    "forward n=2 c=16 h=19 w=21 k=24 r=3 s=3 pad=1 type=f64 residual=1 scale=1",
    "forward n=1 c=1 h=70 w=90 k=1 r=5 s=5 pad=2 type=f32 residual=1",
};

/* Random bytes of an operand on the device; NULL if the plan has none. */
static void *make(falt_device *device, const falt_plan *plan, const char *name, falt_type type, uint64_t seed) {
  const size_t bytes = falt_plan_bytes(plan, name);
  void *there = NULL, *here = malloc(bytes + 1);
  if (!bytes) return free(here), NULL;
  falt_random_fill(here, type, (int64_t)(bytes / falt_type_size(type)), seed);
  if (falt_device_alloc(device, &there, bytes) == FALT_OK) falt_device_write(device, there, here, bytes);
  free(here);
  return there;
}

static bool same_bits(falt_device *device, const void *a, const void *b, size_t bytes) {
  char *one = malloc(bytes), *other = malloc(bytes);
  const bool same = falt_device_read(device, one, a, bytes) == FALT_OK &&
                    falt_device_read(device, other, b, bytes) == FALT_OK && memcmp(one, other, bytes) == 0;
  free(one);
  free(other);
  return same;
}

static void compare(falt_device *device, const falt_plan *plan, const falt_problem *p, const char *what) {
  const falt_type scale = p->output.type == FALT_F64 ? FALT_F64 : FALT_F32;
  falt_operands o = {.input = make(device, plan, "input", p->input.type, 1),
                     .filter = make(device, plan, "filter", p->filter.type, 2),
                     .output = make(device, plan, "output", p->output.type, 6),
                     .bias = make(device, plan, "bias", scale, 4),
                     .scale = make(device, plan, "scale", scale, 5),
                     .residual = make(device, plan, "residual", p->output.type, 6)};
  expect(falt_device_alloc(device, &o.workspace, falt_plan_workspace(plan) + 64) == FALT_OK, "memory", what);
  falt_operands in_place = o;
  in_place.output = o.residual;
  expect(falt_execute(plan, &o) == FALT_OK, "apart", what);
  expect(falt_execute(plan, &in_place) == FALT_OK, "in place", what);
  expect(falt_device_synchronize(device) == FALT_OK, "run", what);
  expect(same_bits(device, o.output, o.residual, falt_plan_bytes(plan, "output")), "other bits in place", what);
  void *all[] = {o.input, o.filter, o.output, o.bias, o.scale, o.residual, o.workspace};
  for (int i = 0; i < 7; i++) falt_device_free(device, &all[i]);
}

int main(void) {
  falt_device *device;
  int plans = 0;
  if (falt_device_cuda(&device, NULL) != FALT_OK) {
    fprintf(stderr, "in_place: %s\n", falt_message());
    return 3;
  }
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    falt_problem problem;
    falt_budget budget;
    expect(falt_problem_parse(&problem, NULL, lines[i]) == FALT_OK, "line", lines[i]);
    for (int s = 0; falt_solver_name(s); s++) {
      falt_plan *plan;
      char what[512];
      falt_budget_default(&budget);
      budget.deterministic = true;
      snprintf(budget.method, sizeof budget.method, "%s", falt_solver_name(s));
      if (falt_plan_create(&plan, device, &problem, &budget, NULL) != FALT_OK) continue;
      falt_plan_print(plan, what, sizeof what);
      strncat(what, lines[i], sizeof what - strlen(what) - 1);
      compare(device, plan, &problem, what);
      falt_plan_destroy(&plan);
      plans++;
    }
  }
  printf("in_place: %d plans, %d failures\n", plans, failures);
  falt_device_destroy(&device);
  return failures > 0;
}
