/* igemm-vnni on random layers of every kind of numbers, with filters in every order in memory: known to the plan and
 * given with the execution it must have the reference's bits. Numbers are so small that all sums are exact.
 *
 * FALT_SEED chooses another seed, FALT_COUNT another number of layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/cpu.h"
#include "core/random.h"
#include "core/types.h"
#include "solver/cpu/igemm_vnni/igemm_vnni.h"

enum { DIMS = 6, LINE = 600 };

static uint64_t seed;

static int pick(int low, int high) {
  return (int)falt_random_int(&seed, low, high);
}

/* ---- layers */

static const char *const kinds[] = {
    "type=u8 out-type=s32",
    "type=s8 out-type=s32",
    "type=bf16",
    "type=f16",
    "type=bf16 out-type=f32",
    "type=f16 weight-type=bf16 out-type=f32",
    "type=u8 weight-type=f16 acc=f32 out-type=f32",
    "type=s8 weight-type=s8 out-type=f32",
};

/* Strides of the filter's six dimensions in a random order: with gaps, backwards, or the same element again. */
static void add_strides(char *line, const int64_t size[DIMS]) {
  int order[DIMS] = {0, 1, 2, 3, 4, 5};
  int64_t stride[DIMS], step = 1;
  for (int i = DIMS - 1; i > 0; i--) {
    const int j = pick(0, i), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  for (int i = 0; i < DIMS; i++) {
    const int dim = order[i];
    if (pick(0, 5) == 0) step += pick(1, 3);
    stride[dim] = pick(0, 15) == 0 ? 0 : pick(0, 7) == 0 ? -step : step;
    step *= size[dim];
  }
  char *end = line + strlen(line);
  snprintf(end, (size_t)(line + LINE - end), " filter-strides=%lld,%lld,%lld,%lld,%lld,%lld", (long long)stride[0],
           (long long)stride[1], (long long)stride[2], (long long)stride[3], (long long)stride[4],
           (long long)stride[5]);
}

static int few(int most) {
  return pick(0, 3) == 0 ? most : pick(1, most);
}

static void describe(char *line) {
  const int space = pick(0, 9) == 0 ? 3 : pick(1, 2), groups = pick(0, 3) ? 1 : pick(2, 3);
  const bool last = pick(0, 1);
  static const char *const layouts[2][3] = {{"ncw", "nchw", "ncdhw"}, {"nwc", "nhwc", "ndhwc"}};
  static const int channels[] = {1, 2, 3, 8, 16, 31, 32, 33, 48, 64, 70};
  const int c = channels[pick(0, 10)], k = channels[pick(c == 1 ? 1 : 0, 10)];
  const int t = space > 2 ? pick(1, 2) : 1, r = space > 1 ? few(3) : 1, s = few(5);
  char axes[120] = "";
  if (space > 2) snprintf(axes, sizeof axes, "d=4 t=%d", t);
  if (space > 1) snprintf(axes + strlen(axes), sizeof axes - strlen(axes), " h=%d r=%d", pick(5, 9), r);
  snprintf(line, LINE, "forward n=%d c=%d k=%d groups=%d %s w=%d s=%d stride=%d dilation=%d pad=%d layout=%s %s",
           pick(1, 2), c * groups, k * groups, groups, axes, pick(9, 40), s, pick(1, 2), pick(0, 3) ? 1 : 2, pick(0, 1),
           layouts[last][space - 1], kinds[pick(0, (int)(sizeof kinds / sizeof kinds[0]) - 1)]);
  if (pick(0, 2)) add_strides(line, (const int64_t[DIMS]){k, groups, c, t, r, s});
}

/* ---- memory whose ends are those of the operand */

typedef struct memory {
  char *whole, *at;
  size_t bytes;
} memory;

static memory room(size_t bytes, size_t before) {
  char *whole = malloc(bytes + before + 1);
  assert_non_null(whole);
  return (memory){whole, whole + before, bytes};
}

static void fill(const memory *m, falt_type type) {
  const int64_t count = (int64_t)(m->bytes / falt_type_size(type));
  const int low = type == FALT_U8 ? 0 : -3;
  for (int64_t i = 0; i < count; i++) falt_store(m->at, type, i, pick(low, 3));
}

/* ---- runs */

static bool run(falt_device *device, const char *line, const char *method, bool known, const memory *input,
                const memory *filter, const memory *output) {
  char whole[LINE + 40];
  falt_plan *plan = NULL;
  snprintf(whole, sizeof whole, "%s method=%s", line, method);
  const falt_status status = falt_plan_create_line(&plan, device, whole, known ? filter->at : NULL);
  if (status == FALT_NO_SOLVER) return false;
  if (status != FALT_OK) fail_msg("%s: %s", whole, falt_message());
  const size_t bytes = falt_plan_workspace(plan);
  char *workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
  assert_non_null(workspace);
  memset(workspace, -1, bytes);
  memset(output->at, 0, output->bytes);
  const falt_operands operands = {
      .input = input->at, .filter = known ? NULL : filter->at, .output = output->at, .workspace = workspace};
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  free(workspace);
  falt_plan_destroy(&plan);
  return true;
}

/* Whether the solver takes it. `method` says what is right. */
static bool check(falt_device *device, const char *line, const char *method) {
  falt_problem p;
  falt_plan *plan = NULL;
  if (falt_problem_parse(&p, NULL, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  if (falt_plan_create(&plan, device, &p, NULL, NULL) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  const memory input = room(falt_plan_bytes(plan, "input"), falt_type_size(p.input.type));
  const memory filter = room(falt_plan_bytes(plan, "filter"), falt_type_size(p.filter.type));
  const memory wanted = room(falt_plan_bytes(plan, "output"), 0), found = room(wanted.bytes, 0);
  falt_plan_destroy(&plan);
  fill(&input, p.input.type);
  fill(&filter, p.filter.type);
  const bool taken = run(device, line, "igemm-vnni", false, &input, &filter, &found);
  if (taken) {
    assert_true(run(device, line, method, false, &input, &filter, &wanted));
    if (memcmp(found.at, wanted.at, wanted.bytes)) fail_msg("given: %s on %s", line, falt_device_name(device));
    assert_true(run(device, line, "igemm-vnni", true, &input, &filter, &found));
    if (memcmp(found.at, wanted.at, wanted.bytes)) fail_msg("known: %s on %s", line, falt_device_name(device));
  }
  free(input.whole);
  free(filter.whole);
  free(wanted.whole);
  free(found.whole);
  return taken;
}

static void test_filters(void **state) {
  (void)state;
  const char *wanted = getenv("FALT_COUNT");
  const int count = wanted ? atoi(wanted) : 80;
  int taken = 0;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
    if (!falt_isa_runs((falt_isa)isa)) continue;
    falt_cpu_options options;
    falt_device *device = NULL;
    falt_cpu_options_default(&options);
    options.threads = 2;
    snprintf(options.isa, sizeof options.isa, "%s", falt_isa_name((falt_isa)isa));
    assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
    for (int i = 0; i < count; i++) {
      char line[LINE];
      describe(line);
      taken += check(device, line, "reference");
    }
    falt_device_destroy(&device);
  }
  assert_true(taken > count / 2);
}

/* Layers large enough for tasks that pack a part of the panels, and for several tasks that share panels. */
static void test_large(void **state) {
  (void)state;
  static const char *const lines[] = {
      "forward n=1 c=512 h=7 w=7 k=256 r=3 s=3 pad=1 layout=nhwc type=bf16 out-type=f32",
      "forward n=1 c=256 h=14 w=14 k=256 r=3 s=3 pad=1 layout=nchw type=bf16 out-type=f32",
      "forward n=2 c=256 h=28 w=28 k=128 r=3 s=3 pad=1 layout=nchw weight-layout=ohwi type=u8 out-type=s32",
      "forward n=4 c=256 h=28 w=28 k=512 r=1 s=1 layout=nhwc weight-layout=hwio type=bf16 out-type=f32",
      "forward n=4 c=64 h=56 w=56 k=128 r=3 s=3 pad=1 layout=nhwc weight-layout=oihw type=f16",
      "forward n=1 c=64 h=30 w=30 k=64 r=11 s=11 pad=5 layout=nhwc weight-layout=oihw type=s8 out-type=s32",
  };
  falt_device *device = NULL;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) assert_true(check(device, lines[i], "generic"));
  falt_device_destroy(&device);
}

/* Filters of gradients: columns at a small distance, with taps between them that tiles share, some of them backwards.
 */
static void test_taps(void **state) {
  (void)state;
  static const char *const lines[] = {
      "layout=nhwc r=3 s=3 type=bf16 filter-strides=9,1,%d,1,3,1",
      "layout=nchw r=3 s=3 type=bf16 filter-strides=9,1,%d,1,-3,-1",
      "layout=nhwc r=2 s=2 type=bf16 filter-strides=9,1,%d,1,6,2",
      "layout=nchw r=5 s=5 type=bf16 filter-strides=25,1,%d,1,5,1",
      "layout=nhwc r=1 s=3 type=bf16 filter-strides=-40,1,%d,1,5,4",
      "layout=nhwc r=3 s=3 type=s8 out-type=s32 filter-strides=9,1,%d,1,3,1",
      "layout=nhwc r=3 s=3 type=f16 filter-strides=9,1,%d,1,3,1",
  };
  static const int channels[] = {16, 24, 33, 64, 70};
  falt_device *device = NULL;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  for (size_t i = 0; i < 5 * sizeof lines / sizeof lines[0]; i++) {
    char line[LINE];
    const int c = channels[i % 5], k = channels[pick(0, 4)];
    int end = snprintf(line, sizeof line, "forward n=1 c=%d k=%d h=9 w=%d pad=0 ", c, k, pick(7, 20));
    snprintf(line + end, sizeof line - (size_t)end, lines[i / 5], 40 * k + pick(0, 1));
    assert_true(check(device, line, "reference"));
  }
  falt_device_destroy(&device);
}

static bool cuts_by_panels(falt_device *device, const char *line) {
  char whole[LINE + 40];
  falt_plan *plan = NULL;
  snprintf(whole, sizeof whole, "%s method=igemm-vnni", line);
  if (falt_plan_create_line(&plan, device, whole, NULL) != FALT_OK) fail_msg("%s: %s", whole, falt_message());
  const bool by_panels = ((const falt_tiles_plan *)plan)->by_panels;
  falt_plan_destroy(&plan);
  return by_panels;
}

/* Few positions and a large filter: of many threads each packs panels of its own, for all positions. Two threads share
 * all panels. */
static void test_panels(void **state) {
  (void)state;
  static const char *const lines[] = {
      "forward n=1 c=384 h=8 w=8 k=384 r=1 s=3 pad=0x1 layout=nhwc type=bf16 out-type=f32",
      "forward n=2 c=256 h=14 w=14 k=250 r=3 s=3 pad=1 layout=nhwc type=bf16 out-type=f32",
      "forward n=1 c=512 h=14 w=14 k=512 r=3 s=3 pad=1 layout=nhwc type=u8 out-type=s32",
      "forward n=1 c=256 h=14 w=14 k=512 r=1 s=1 layout=nchw type=bf16 out-type=f32",
      "forward n=1 c=256 h=14 w=14 k=512 r=3 s=3 pad=1 groups=2 layout=nhwc weight-layout=ohwi type=f16",
  };
  falt_cpu_options options;
  int by_panels = 0;
  for (int threads = 2; threads <= 16; threads *= 8) {
    falt_device *device = NULL;
    falt_cpu_options_default(&options);
    options.threads = threads;
    assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
      const bool cut = cuts_by_panels(device, lines[i]);
      assert_false(cut && threads == 2);
      by_panels += cut;
      assert_true(check(device, lines[i], "generic"));
    }
    falt_device_destroy(&device);
  }
  assert_true(by_panels > 1);
}

/* 1x1 layers whose pixels are whole groups of 4 bytes: vectors read them in place, except at the ends of lines. */
static void test_pixels(void **state) {
  (void)state;
  falt_device *device = NULL;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  for (int i = 0; i < 60; i++) {
    char line[LINE];
    const int groups = pick(0, 3) ? 1 : 2;
    snprintf(line, sizeof line, "forward n=%d c=%d k=%d groups=%d h=%d w=%d r=1 s=1 stride=%d pad=%d layout=nhwc %s",
             pick(1, 3), 4 * pick(1, 20) * groups, pick(1, 70) * groups, groups, pick(1, 6), pick(6, 40), pick(1, 2),
             pick(0, 3) == 0, kinds[pick(0, 2)]);
    assert_true(check(device, line, "reference"));
  }
  falt_device_destroy(&device);
}

static void expect_weights(const falt_tiles_task *task, const memory *filter) {
  const falt_tensor *w = &task->layer->p.filter;
  for (int64_t k = 0; k < w->size[FALT_N]; k++)
    for (int64_t tap = 0; tap < task->layer->taps; tap++)
      for (int64_t c = 0; c < w->size[FALT_C]; c++) {
        const int64_t s = tap % w->size[FALT_W], r = tap / w->size[FALT_W];
        const double wanted = falt_load(filter->at, FALT_F16, falt_tensor_at(w, k, task->group, c, 0, r, s));
        assert_true((double)falt_tiles_weight(task, k, tap, c) == wanted);
      }
}

static void check_split(falt_device *device, const char *line) {
  falt_plan *base = NULL;
  if (falt_plan_create_line(&base, device, line, NULL) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  const falt_tiles_plan *plan = (const falt_tiles_plan *)base;
  const int64_t groups = falt_tiles_groups(plan), panels = groups * plan->panels;
  const memory filter = room(falt_plan_bytes(base, "filter"), 2);
  for (size_t i = 0; i < filter.bytes / 2; i++)
    falt_store(filter.at, FALT_F16, (int64_t)i, falt_random_unit(&seed) - 0.5);
  char *packed = aligned_alloc(64, (size_t)panels * plan->panel), *scratch = aligned_alloc(64, 1 << 20);
  assert_non_null(packed);
  assert_non_null(scratch);
  assert_true(plan->split);
  assert_in_range(falt_tiles_packing(plan), 0, 1 << 20);
  memset(packed, -1, (size_t)panels * plan->panel);
  falt_tiles_pack(plan, filter.at, 0, panels, packed, scratch);
  falt_tiles_task task = {.plan = plan, .layer = &plan->layer, .packed = packed};
  for (; task.group < groups; task.group++) expect_weights(&task, &filter);
  free(packed);
  free(scratch);
  free(filter.whole);
  falt_plan_destroy(&base);
}

/* Panels of f16 that are split in two, as matrix units take them: both halves of each weight are where products look
 * for them. Packing needs no matrix unit. */
static void test_split(void **state) {
  (void)state;
  const falt_tiles_kernels *kernels = falt_tiles_kernels_for(FALT_ISA_AMX); /* vectors, with some compilers */
  if (!falt_isa_runs(FALT_ISA_BF16) || kernels->speed[FALT_TILES_BF16] <= 4 * kernels->speed[FALT_TILES_F32]) skip();
  falt_device *device = NULL;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  const falt_isa isa = device->isa;
  device->isa = FALT_ISA_AMX;
  for (int i = 0; i < 40; i++) {
    char line[LINE + 40];
    static const char *const orders[] = {"oihw", "ohwi", "hwio"};
    const int groups = pick(1, 2), c = pick(1, 70), k = pick(2, 70), r = pick(1, 3), s = pick(1, 5);
    snprintf(line, sizeof line,
             "forward c=%d k=%d h=9 w=20 r=%d s=%d groups=%d type=f16 layout=nhwc weight-layout=%s method=igemm-vnni",
             c * groups, k * groups, r, s, groups, orders[i % 3]);
    if (i % 4 == 3) add_strides(line, (const int64_t[DIMS]){k, groups, c, 1, r, s});
    check_split(device, line);
  }
  device->isa = isa;
  falt_device_destroy(&device);
}

int main(void) {
  const char *chosen = getenv("FALT_SEED");
  seed = chosen ? strtoull(chosen, NULL, 0) : 20261123;
  printf("seed %llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_filters), cmocka_unit_test(test_large),
                                     cmocka_unit_test(test_taps),    cmocka_unit_test(test_panels),
                                     cmocka_unit_test(test_pixels),  cmocka_unit_test(test_split)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
