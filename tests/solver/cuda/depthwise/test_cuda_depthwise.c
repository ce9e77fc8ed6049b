/* Tests of depthwise layers on GPUs; no GPU needed. Tiles satisfy the kernels' conditions, and a representative set
 * of plans compiles for every architecture without spills. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile_lines.h"
#include "core/random.h"
#include "machines.h"
#include "solver/cuda/depthwise/cuda_depthwise_tiles.h"

#define UNUSED __attribute__((unused))

static int64_t between(uint64_t *state, int64_t low, int64_t high) {
  return falt_random_int(state, low, high);
}

/* ---- tiles */

static falt_depthwise_axis random_axis(uint64_t *state, bool data) {
  falt_depthwise_axis a;
  int64_t input, output;
  do {
    a = (falt_depthwise_axis){.taps = between(state, 1, 9),
                              .stride = between(state, 1, 4),
                              .dilation = between(state, 1, 3),
                              .pad = between(state, -2, 9)};
    input = between(state, 1, 60);
    output = (input + a.pad + between(state, 0, 9) - (a.dilation * (a.taps - 1) + 1)) / a.stride + 1;
  } while (output < 1);
  a.source = data ? output : input;
  a.results = data ? input : output;
  return a;
}

static falt_depthwise_shape random_shape(uint64_t *state) {
  falt_depthwise_shape s = {.kind = (falt_depthwise_kind)between(state, 0, 2),
                            .images = between(state, 1, 40),
                            .channels = between(state, 1, 70),
                            .members = 1,
                            .inner = between(state, 0, 1) == 1,
                            .constant = true,
                            .x_bytes = 1 << between(state, 1, 3),
                            .y_bytes = 1 << between(state, 1, 3),
                            .workspace = (int64_t[]){-1, 0, 1 << 20}[between(state, 0, 2)]};
  s.sum_bytes = s.x_bytes == 8 || s.y_bytes == 8 ? 8 : 4;
  s.axis[0] = (falt_depthwise_axis){1, 1, 1, 0, 1, 1};
  for (int i = 1; i < 3; i++) s.axis[i] = random_axis(state, s.kind == FALT_DEPTHWISE_DATA);
  s.x_align = 16 / s.x_bytes, s.y_align = 16 / s.y_bytes;
  while (s.inner ? s.channels % s.x_align : s.axis[2].source % s.x_align) s.x_align /= 2;
  while (s.inner ? s.channels % s.y_align : s.axis[2].results % s.y_align) s.y_align /= 2;
  return s;
}

typedef struct seen {
  const falt_depthwise_shape *shape;
  int tiles;
  double least;
} seen;

/* What the kernels assert or take for granted. */
static void check_tile(void *context, const void *candidate) {
  const falt_depthwise_tile *t = candidate;
  seen *v = context;
  const falt_depthwise_shape *s = v->shape;
  const falt_depthwise_axis *columns = &s->axis[2];
  const bool data = s->kind == FALT_DEPTHWISE_DATA, filter = s->kind == FALT_DEPTHWISE_FILTER;
  const int64_t advance = data ? t->columns / columns->stride : t->columns * columns->stride;
  assert_true(t->unit <= s->x_align && t->y_unit <= s->y_align && t->unit * s->x_bytes <= 16);
  assert_true(s->inner ? t->y_unit == t->unit && s->channels % t->unit == 0 : advance % t->unit == 0);
  assert_true(s->inner || (t->columns % t->y_unit == 0 && columns->results % t->y_unit == 0));
  if (data) assert_true(t->rows % s->axis[1].stride == 0 && t->columns % columns->stride == 0);
  if (data && s->axis[1].stride > 1) assert_int_equal(t->parts, 1);
  if (filter) {
    const int strips = t->threads / t->lanes, vector = s->inner ? t->unit : 1;
    assert_true(t->lanes >= 1 && (32 % t->lanes == 0 || (s->inner && t->lanes * vector == s->channels)));
    assert_true(strips >= 1 && (32 % t->lanes ? strips : t->threads / 32) * t->lanes * vector * s->sum_bytes <= 32768);
    assert_true(t->split_k >= 1 && (t->split_k == 1 || t->split_k <= (t->tiles + strips - 1) / strips));
    if (s->workspace >= 0) assert_true(t->partial <= s->workspace);
    assert_true((t->partial > 0) == (t->split_k > 1));
  }
  assert_true(t->threads % 32 == 0 && t->blocks * t->threads * t->registers <= 65536);
  assert_true(t->seconds > 0);
  if (!v->tiles++ || t->seconds < v->least) v->least = t->seconds;
}

static void test_tiles(UNUSED void **state) {
  uint64_t seed = 1;
  for (int i = 0; i < 1000; i++) {
    const falt_depthwise_shape s = random_shape(&seed);
    falt_depthwise_tile best;
    seen v = {.shape = &s};
    falt_depthwise_each(&s, &h200, &(falt_tile_search){.visit = check_tile, .context = &v});
    assert_int_equal(falt_depthwise_choose(&s, &h200, &best), v.tiles > 0);
    if (v.tiles) assert_true(best.seconds == v.least);
    if (s.axis[1].taps * s.axis[2].taps <= 49 && s.sum_bytes == 4) assert_true(v.tiles > 0);
  }
}

/* Layers that memory limits are expected to take little longer than their bytes. */
static void test_estimates(UNUSED void **state) {
  for (int kind = 0; kind < 3; kind++)
    for (int inner = 0; inner < 2; inner++) {
      const falt_depthwise_axis axis = {3, 1, 1, 1, 56, 56};
      const falt_depthwise_shape s = {.kind = (falt_depthwise_kind)kind,
                                      .axis = {{1, 1, 1, 0, 1, 1}, axis, axis},
                                      .images = 128,
                                      .channels = 144,
                                      .members = 1,
                                      .inner = inner,
                                      .constant = true,
                                      .x_bytes = 2,
                                      .y_bytes = 2,
                                      .sum_bytes = 4,
                                      .x_align = 8,
                                      .y_align = 8,
                                      .workspace = -1};
      const double limit = 4.0 * 128 * 144 * 56 * 56 / h200.bytes_per_s;
      falt_depthwise_tile best;
      assert_true(falt_depthwise_choose(&s, &h200, &best));
      assert_true(best.seconds > limit && best.seconds < 1.5 * limit);
    }
}

/* Gradients of 3x3 filters: all channels of a pixel in a block where lanes that divide a warp would leave more idle. */
static void test_lanes(UNUSED void **state) {
  static const struct {
    int channels, stride, lanes, threads;
  } cases[] = {{144, 1, 72, 512}, {96, 1, 48, 256}, {24, 1, 12, 256}, {192, 1, 32, 256}, {144, 2, 32, 256}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const falt_depthwise_axis axis = {3, cases[i].stride, 1, 1, 56, 56 / cases[i].stride};
    const falt_depthwise_shape s = {.kind = FALT_DEPTHWISE_FILTER,
                                    .axis = {{1, 1, 1, 0, 1, 1}, axis, axis},
                                    .images = 128,
                                    .channels = cases[i].channels,
                                    .members = 1,
                                    .inner = true,
                                    .constant = true,
                                    .x_bytes = 2,
                                    .y_bytes = 2,
                                    .sum_bytes = 4,
                                    .x_align = 8,
                                    .y_align = 8,
                                    .workspace = -1};
    falt_depthwise_tile best;
    assert_true(falt_depthwise_choose(&s, &h200, &best));
    assert_int_equal(best.lanes * best.unit, cases[i].lanes * 2);
    assert_int_equal(best.threads, cases[i].threads);
  }
}

/* ---- compilation */

static void test_compile(UNUSED void **state) {
  static const char *const gpus[] = {"a100", "h200", "b200", "rtx5090"};
  static const char *const lines[] = {
      "forward n=128 c=144 h=56 w=56 k=144 r=3 s=3 pad=1 groups=144 layout=nhwc type=f16 bias=1 act=relu6",
      "forward n=128 c=96 h=56 w=56 k=96 r=7 s=7 pad=3 groups=96 layout=nhwc type=bf16 residual=1",
      "backward-data n=128 c=96 h=112 w=112 k=96 r=3 s=3 stride=2 pad=1 groups=96 type=f16",
      "backward-filter n=128 c=96 h=56 w=56 k=96 r=7 s=7 pad=3 groups=96 layout=nhwc type=f16 bias=1",
      "backward-filter n=64 c=96 h=56 w=56 k=96 r=7 s=7 pad=3 groups=96 type=f32",
      "forward n=128 c=384 h=14 w=14 k=384 r=31 s=31 pad=15 groups=384 layout=nhwc type=f16",
      "forward n=16 c=1536 w=8192 k=1536 s=4 pad=3:0 groups=1536 layout=ncw type=bf16 act=silu",
      "forward n=8 c=64 d=8 h=28 w=28 k=128 t=3 r=3 s=3 pad=1 groups=64 type=f32 boundary=reflect101",
      "backward-filter n=128 c=144 h=56 w=56 k=144 r=3 s=3 pad=1 groups=144 layout=nhwc type=f16 bias=1",
      "backward-filter n=1 c=960 h=7 w=7 k=960 r=3 s=3 pad=1 groups=960 layout=nhwc type=f16",
  };
  compile_all_lines(&(compile_lines){.method = "cuda-depthwise",
                                     .wgrad = "cuda-depthwise-wgrad",
                                     .source = {"cuda_depthwise"},
                                     .gpus = gpus,
                                     .gpu_count = sizeof gpus / sizeof *gpus,
                                     .lines = lines,
                                     .line_count = sizeof lines / sizeof *lines,
                                     .everywhere = 1,
                                     .kernels = 16});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles), cmocka_unit_test(test_estimates),
                                     cmocka_unit_test(test_lanes), cmocka_unit_test(test_compile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
