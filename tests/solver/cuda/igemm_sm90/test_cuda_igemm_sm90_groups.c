/* Tests of cuda-igemm-sm90 on layers of one tap in groups: what it plans and refuses, that its tiles cover each group
 * once, its TMA descriptors, and its kernels for problem lines, where there is NVRTC. The GPU is described, not
 * present. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile_lines.h"
#include "core/memory.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda_maps.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static falt_device *device;

static const char *const lines[] = {
    "forward groups=36 c=23040 w=256 k=23040 s=1 layout=nwc type=f16 out-type=f32",
    "forward n=2 groups=5 c=200 h=8 w=12 k=120 r=1 s=1 layout=nhwc type=bf16 act=relu",
    "forward n=3 groups=2 c=128 d=3 h=5 w=7 k=256 t=1 r=1 s=1 layout=ndhwc type=f16 alpha=0.5 beta=2",
    ("forward groups=16 c=1024 w=193 k=2048 s=1 type=f16 out-type=f32 input-strides=0,12352,1,0,0,64 "
     "output-strides=0,24704,1,0,0,128"),
    "forward groups=4 c=64 w=64 k=32 s=1 layout=nwc type=bf16 out-type=f32"};

static const char *message(const char *line) {
  falt_plan *plan;
  if (falt_plan_create_line(&plan, device, line, NULL) == FALT_OK) {
    falt_plan_destroy(&plan);
    return NULL;
  }
  return falt_message();
}

/* The planner chooses it for matrices that are large enough, and it takes the others by name. */
static void test_planned(UNUSED void **state) {
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char line[256], text[512];
    falt_plan *plan;
    snprintf(line, sizeof line, "%s%s", lines[i], i == 0 ? "" : " method=cuda-igemm-sm90");
    if (falt_plan_create_line(&plan, device, line, NULL) != FALT_OK) fail_msg("%s: %s", line, falt_message());
    falt_plan_print(plan, text, sizeof text);
    assert_string_equal(plan->solver->name, "cuda-igemm-sm90");
    if (!strstr(text, " groups=")) fail_msg("%s: %s", line, text);
    assert_non_null(plan->fallback);
    assert_true(plan->alignment.input == 16 && plan->alignment.filter == 16 && plan->alignment.output == 16);
    falt_plan_destroy(&plan);
  }
}

static void test_refusals(UNUSED void **state) {
  static const struct {
    const char *line, *reason;
  } cases[] = {
      {"forward n=2 groups=4 c=256 h=9 w=8 k=64 r=3 s=3 type=f16 layout=nhwc", "one tap"},
      {"forward n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 stride=2 type=f16 layout=nhwc", "no stride"},
      {"forward n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 pad=1 type=f16 layout=nhwc", "no padding"},
      {"backward-data n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 type=f16 layout=nhwc", "gradients take one group"},
      {"backward-filter n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 type=f16 layout=nhwc", "gradients take one group"},
      {"forward n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 type=f16 layout=nhwc bias=1", "no bias, scale or residual"},
      {"forward n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 type=f16 layout=nhwc scale=1", "no bias, scale or residual"},
      {"forward n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 type=f16 layout=nhwc residual=1", "no bias, scale or residual"},
      {"forward n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 type=f16", "channels of groups are not contiguous"},
      {"forward n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 type=f16 layout=nhwc output-strides=4608,1152,72,4608,8,1",
       "channels of groups are not contiguous"},
      {"forward n=2 groups=4 c=240 h=9 w=8 k=60 r=1 s=1 type=f16 layout=nhwc", "multiples of 16 bytes"},
      {"forward groups=4 c=256 w=64 k=64 s=1 type=f16 input-strides=0,4100,1,0,0,64 output-strides=0,1024,1,0,0,16",
       "multiples of 16 bytes"},
      {"forward n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 type=f16 layout=nhwc input-strides=20736,64,1,0,2304,256",
       "not at one distance"},
      {"forward n=2 groups=4 c=256 h=9 w=8 k=64 r=1 s=1 layout=nhwc", "f16 or bf16"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[256];
    snprintf(line, sizeof line, "%s method=cuda-igemm-sm90", cases[i].line);
    const char *text = message(line);
    if (!text || !strstr(text, cases[i].reason)) fail_msg("%s: %s", line, text ? text : "planned");
  }
  /* Other solvers of the family take one group. */
  const char *text = message(
      "forward groups=4 c=64 h=28 w=28 k=64 r=3 s=3 type=f16 layout=nhwc "
      "method=cuda-igemm-sm90-halo");
  assert_true(text && strstr(text, "one group of channels"));
}

/* ---- tiles */

typedef struct groups {
  tally sum;
  int64_t groups, pixels, columns;
} groups;

/* Walks a tile search's candidate as the kernel's tile_at does: rows of all groups and all columns are stored once. */
static void check_tile(void *context, const void *candidate) {
  const falt_igemm_sm90_tile *t = candidate;
  groups *g = context;
  if (t->rejected) return;
  count_legal(&g->sum, t->seconds);
  assert_true(t->cluster_k == 1 && !t->resident && !t->rows && !t->whole && t->workspace == 0);
  const int64_t rows = falt_igemm_sm90_rows(t), column_tiles = falt_ceil_div(g->columns, t->columns);
  const int64_t row_tiles = falt_ceil_div(g->pixels, rows * t->cluster) * t->cluster;
  const int64_t tiles = row_tiles / t->cluster * column_tiles;
  assert_int_equal(t->work, g->groups * tiles);
  assert_true(row_tiles * rows >= g->pixels && (row_tiles - t->cluster) * rows < g->pixels);
  int64_t stored = 0;
  for (int64_t work = 0; work < t->work; work++)
    for (int rank = 0; rank < t->cluster; rank++) {
      const int64_t group = work / tiles, one = work % tiles;
      const int64_t row = (one / column_tiles * t->cluster + rank) * rows, column = one % column_tiles * t->columns;
      assert_true(group < g->groups && column < g->columns);
      for (int64_t piece = row; piece < row + rows && piece < g->pixels; piece += 64)
        stored += falt_min(64, g->pixels - piece) * falt_min(t->columns, g->columns - column);
    }
  assert_int_equal(stored, g->groups * g->pixels * g->columns);
}

static double seconds_of(int64_t count, int64_t pixels, int64_t channels, int64_t results) {
  const falt_igemm_sm90_axis one = {1, 1, 1, 0, 1, 1};
  const falt_igemm_sm90_problem p = {.operation = FALT_IGEMM_SM90_FORWARD,
                                     .batch = count,
                                     .workspace = -1,
                                     .channels = channels,
                                     .results = results,
                                     .axis = {one, one, {1, 1, 1, 0, pixels, pixels}},
                                     .axes = 1,
                                     .y_bytes = 4,
                                     .grouped = true,
                                     .words = true};
  falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES];
  falt_igemm_sm90_tile best;
  groups g = {.groups = count, .pixels = pixels, .columns = results};
  int parts;
  assert_null(falt_igemm_sm90_polyphases(&p, polyphases, &parts));
  const falt_igemm_sm90_work work = falt_igemm_sm90_work_of(&p, polyphases, parts);
  assert_true(work.rows[0] == pixels && work.groups == count && work.columns == results);
  assert_true(work.bytes == (double)(count * (2 * pixels * channels + 4 * pixels * results + 2 * channels * results)));
  falt_igemm_sm90_each(&p, &work, &h200, &(falt_tile_search){.visit = check_tile, .context = &g});
  assert_true(falt_igemm_sm90_choose(&p, &work, &h200, &best));
  check_best(&g.sum, best.seconds);
  assert_true(best.seconds > 2.0 * (double)(count * pixels * channels * results) / 989e12);
  assert_true(best.seconds > work.bytes / 4.8e12);
  return best.seconds;
}

static void test_tiles(UNUSED void **state) {
  static const int64_t pixels[] = {1, 49, 64, 192, 200, 256, 320, 1024}, results[] = {8, 72, 320, 640};
  for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
    for (size_t k = 0; k < sizeof results / sizeof *results; k++) {
      const double few = seconds_of(2, pixels[i], 640, results[k]), many = seconds_of(64, pixels[i], 640, results[k]);
      assert_true(few < many);
    }
}

/* ---- descriptors */

/* The element of a box at some coordinates, as TMA finds it; negative: none. */
static int64_t element_of(const falt_gpu_map *m, const int64_t c[3]) {
  int64_t at = 0;
  for (int i = 0; i < 3; i++) {
    if (c[i] < 0 || c[i] >= (int64_t)m->size[i]) return -1;
    at += c[i] * (int64_t)(m->stride[i] / falt_type_size(m->type));
  }
  return at;
}

static int64_t place_of(const falt_tensor *t, int64_t group, int64_t pixel, int64_t channel) {
  const int64_t w = pixel % t->size[FALT_W], h = pixel / t->size[FALT_W] % t->size[FALT_H];
  const int64_t rest = pixel / t->size[FALT_W] / t->size[FALT_H], d = rest % t->size[FALT_D],
                n = rest / t->size[FALT_D];
  return falt_tensor_at(t, n, group, channel, d, h, w);
}

/* Channels, rows and groups of boxes are those of the tensor, in the order of its pixels, and nothing is beyond. */
static void check_map(const falt_tensor *t, const falt_tensor *view, int rows) {
  const falt_gpu_map m = falt_map_rows(view, NULL, rows);
  const int64_t pixels = t->size[FALT_N] * t->size[FALT_D] * t->size[FALT_H] * t->size[FALT_W];
  assert_true(m.box[0] * falt_type_size(t->type) == 128 && m.box[1] == (uint32_t)rows);
  for (int i = 1; i < 5; i++) assert_true(m.stride[i] % 16 == 0 && (i < 3 || m.size[i] == 1));
  for (int i = 2; i < 5; i++) assert_int_equal(m.box[i], 1);
  for (int64_t group = 0; group <= t->size[FALT_G]; group++)
    for (int64_t pixel = 0; pixel < pixels + 64; pixel += 1 + pixel / 7)
      for (int64_t channel = 0; channel < t->size[FALT_C] + 64; channel += 5) {
        const bool inside = group < t->size[FALT_G] && pixel < pixels && channel < t->size[FALT_C];
        const int64_t c[3] = {channel, pixel, group};
        assert_int_equal(element_of(&m, c), inside ? place_of(t, group, pixel, channel) - t->offset : -1);
      }
}

static void test_maps(UNUSED void **state) {
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    falt_problem p, view;
    assert_int_equal(falt_problem_parse(&p, NULL, lines[i]), FALT_OK);
    assert_null(falt_igemm_sm90_view(&p, &view));
    check_map(&p.input, &view.input, 256);
    check_map(&p.output, &view.output, 64);
  }
}

static void test_kernels(UNUSED void **state) {
  static const char *const gpus[] = {"h200"};
  compile_all_lines(&(compile_lines){.method = "cuda-igemm-sm90",
                                     .source = {"cuda_igemm_sm90"},
                                     .gpus = gpus,
                                     .lines = lines,
                                     .gpu_count = 1,
                                     .line_count = sizeof lines / sizeof *lines,
                                     .everywhere = sizeof lines / sizeof *lines,
                                     .kernels = 4});
}

static int make(UNUSED void **state) {
  falt_cuda_options options;
  falt_cuda_options_default(&options);
  snprintf(options.described, sizeof options.described, "h200");
  return falt_device_cuda(&device, &options) == FALT_OK ? 0 : -1;
}

static int unmake(UNUSED void **state) {
  falt_device_destroy(&device);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_planned), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_tiles), cmocka_unit_test(test_maps),
                                     cmocka_unit_test(test_kernels)};
  return cmocka_run_group_tests(tests, make, unmake);
}
