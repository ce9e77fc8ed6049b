/* The ladder without a GPU: every step of the CPU against sums in f64, the textbook's counts, and every kernel of the
 * GPU's steps compiled for each architecture, none with spills. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "counts.h"
#include "ladder/cuda.h"
#include "ladder/fft.h"
#include "need_compiler.h"

#define UNUSED __attribute__((unused))
enum { D, H, W };

/* ---- tasks */

static ladder_task filter(int64_t depth, int64_t height, int64_t width, int64_t t, int64_t r, int64_t s) {
  return (ladder_task){.size = {depth, height, width}, .taps = {t, r, s}, .channels = 1, .pitch = width, .threads = 2};
}

static ladder_task layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t taps, int64_t stride, int64_t pad) {
  const int64_t out = (size + 2 * pad - taps) / stride + 1;
  return (ladder_task){.size = {1, size, size},
                       .taps = {1, taps, taps},
                       .channels = c,
                       .images = n,
                       .filters = k,
                       .stride = {stride, stride},
                       .pad = {pad, pad},
                       .out = {out, out},
                       .pooled = {out / 2, out / 2},
                       .threads = 2};
}

static float *floats(int64_t count) {
  float *data = test_malloc((size_t)count * sizeof *data);
  falt_random_fill(data, FALT_F32, count, 1);
  return data;
}

/* Runs steps; check compares results with sums in f64. */
static void run_steps(const ladder_step *steps, ladder_task *k, int64_t results, int64_t inputs, int64_t taps,
                      int is_layer, bool pooled) {
  float *x = floats(inputs), *w = floats(taps), *y = floats(results), *between = floats(4 * results + 64);
  if (pooled) between = test_realloc(between, (size_t)(k->images * k->filters * k->out[0] * k->out[1]) * sizeof *y);
  k->x = x, k->w = k->host_taps = w, k->y = y, k->between = between;
  for (const ladder_step *step = steps; step->name; step++) {
    ladder_counts counts;
    double seconds;
    memset(y, 0xff, (size_t)results * sizeof *y);
    if (step->solver) continue; /* the command's to run */
    const char *reason = ladder_refusal(step, k, &counts);
    if (reason && step->missing) continue; /* no BLAS here */
    assert_null(reason);
    assert_int_equal(ladder_time(step, k, 0, &seconds), FALT_OK);
    assert_true(counts.operations_per_byte >= 0.25 && seconds > 0);
    const double off = is_layer ? ladder_check_layer(k, x, y, pooled) : ladder_check_filter(k, x, y);
    if (!(off < 1e-5)) fail_msg("%s: differs by %g", step->name, off);
    memset(y, 0xff, (size_t)results / 2 * sizeof *y); /* NaN: results that were not written */
    assert_true(isnan(is_layer ? ladder_check_layer(k, x, y, pooled) : ladder_check_filter(k, x, y)));
  }
  test_free(x), test_free(w), test_free(y), test_free(between);
}

static void test_cpu_filters(UNUSED void **state) {
  ladder_task tasks[] = {filter(1, 1, 3000, 1, 1, 7), filter(1, 1, 3, 1, 1, 8),   filter(1, 61, 95, 1, 5, 4),
                         filter(1, 4, 70, 1, 9, 3),   filter(9, 11, 90, 3, 2, 5), filter(2, 3, 1, 5, 5, 5)};
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
    ladder_task *k = &tasks[i];
    const int64_t count = k->size[D] * k->size[H] * k->size[W];
    run_steps(ladder_cpu, k, count, count, k->taps[D] * k->taps[H] * k->taps[W], 0, false);
  }
}

static void test_cpu_layers(UNUSED void **state) {
  ladder_task tasks[] = {layer(2, 1, 28, 16, 5, 1, 2), layer(2, 3, 35, 5, 11, 4, 0),
                         layer(1, 4, 9, 3, 3, 1, 1),   layer(1, 2, 1100, 1, 3, 1, 1),
                         layer(3, 2, 6, 2, 3, 2, 5),   layer(3, 5, 13, 7, 3, 1, 0)}; /* an odd size for F(2,3) */
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
    ladder_task *k = &tasks[i];
    const int64_t planes = k->images * k->filters, inputs = k->images * k->channels * k->size[H] * k->size[W];
    const int64_t taps = k->filters * k->channels * k->taps[H] * k->taps[W];
    run_steps(ladder_cpu_layer, k, planes * k->out[0] * k->out[1], inputs, taps, 1, false);
    run_steps(ladder_cpu_pooled, k, planes * k->pooled[0] * k->pooled[1], inputs, taps, 1, true);
  }
}

/* Segments of every size, and signals shorter than the filter; the last segment has no partner in some. */
static void test_cpu_fft(UNUSED void **state) {
  static const int64_t sizes[][2] = {{5, 9}, {384, 129}, {1500, 129}, {1000, 130}, {900, 257}, {2000, 2048}, {700, 1}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    ladder_task k = filter(1, 1, sizes[i][0], 1, 1, sizes[i][1]);
    assert_null(ladder_fft_refusal(&k));
    run_steps(ladder_cpu_fft, &k, sizes[i][0], sizes[i][0], sizes[i][1], 0, false);
  }
  const ladder_task longest = filter(1, 1, 9000, 1, 1, 2049);
  assert_non_null(ladder_fft_refusal(&longest));
}

/* Tiles at every edge; an odd number of them, whose last one has no partner; images smaller than the filter. */
static void test_cpu_fft_image(UNUSED void **state) {
  static const int64_t sizes[][4] = {
      {70, 90, 31, 9}, {5, 4, 9, 33}, {64, 64, 1, 1}, {33, 200, 33, 33}, {120, 61, 4, 5}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    ladder_task k = filter(1, sizes[i][0], sizes[i][1], 1, sizes[i][2], sizes[i][3]);
    assert_null(ladder_fft_tile_refusal(&k));
    const int64_t count = sizes[i][0] * sizes[i][1];
    run_steps(ladder_cpu_fft_image, &k, count, count, sizes[i][2] * sizes[i][3], 0, false);
  }
  const ladder_task largest = filter(1, 90, 90, 1, 34, 3);
  assert_non_null(ladder_fft_tile_refusal(&largest));
}

/* ---- counts */

static ladder_counts counts_of(const ladder_step *steps, const char *name, const ladder_task *task) {
  ladder_counts counts = {.blocks = -1};
  while (strcmp(steps->name, name) != 0) steps++;
  assert_null(ladder_refusal(steps, task, &counts));
  return counts;
}

static void assert_near(double is, double should) {
  if (!(fabs(is - should) <= 0.006 * should)) fail_msg("%g instead of %g", is, should);
}

static void test_image_counts(UNUSED void **state) {
  const ladder_task five = filter(1, 8192, 8192, 1, 5, 5), nine = filter(1, 8192, 8192, 1, 9, 9);
  assert_near(counts_of(ladder_cuda_image, "global", &five).operations_per_byte, 0.25);
  assert_near(counts_of(ladder_cuda_image, "constant", &five).operations_per_byte, 0.5);
  const ladder_counts in = counts_of(ladder_cuda_image, "input-tile", &five);
  assert_near(in.operations_per_byte, 9.57); /* (28^2 * 5^2 * 2) / (32^2 * 4) */
  assert_int_equal(in.block_threads, 32 * 32);
  assert_int_equal(in.blocks, 293 * 293); /* ceil(8192 / 28)^2 */
  assert_int_equal(in.shared_bytes, 32 * 32 * 4);
  const ladder_counts out = counts_of(ladder_cuda_image, "output-tile", &five);
  assert_near(out.reads_saved, 19.7); /* O = 32, M = 5 */
  assert_int_equal(out.block_threads, 32 * 32);
  assert_int_equal(out.blocks, 256 * 256);
  assert_int_equal(out.shared_bytes, 36 * 36 * 4);
  assert_near(counts_of(ladder_cuda_image, "output-tile", &nine).reads_saved, 51.8);
  assert_near(counts_of(ladder_cuda_image, "cached-halo", &five).reads_saved, 25);
}

static void test_other_counts(UNUSED void **state) {
  const ladder_task signal = filter(1, 1, 1000, 1, 1, 11), volume = filter(20, 20, 20, 3, 3, 3);
  const ladder_counts tiled = counts_of(ladder_cuda_signal, "tiled", &signal);
  assert_near(tiled.reads_saved, 256.0 * 11 / (256 + 10)); /* B(2n+1) / (B+2n) */
  assert_int_equal(tiled.blocks, 4);
  assert_int_equal(tiled.shared_bytes, 266 * 4);
  const ladder_counts cube = counts_of(ladder_cuda_volume, "tiled", &volume);
  assert_near(cube.reads_saved, 27.0 * 512 / 1000);
  assert_int_equal(cube.block_threads, 512);
  assert_int_equal(cube.blocks, 27);
  assert_int_equal(cube.shared_bytes, 4000);
  const ladder_task tutorial = layer(64, 1, 28, 16, 5, 1, 2);
  const ladder_counts shared = counts_of(ladder_cuda_layer, "shared", &tutorial);
  assert_int_equal(shared.blocks, 64 * 16 * 4);
  assert_int_equal(shared.block_threads, 14 * 14);
  assert_int_equal(shared.shared_bytes, 18 * 18 * 4);
}

/* P = 512, 384 outputs a segment; P = 1024, 768 outputs. */
static void test_fft_counts(UNUSED void **state) {
  const ladder_task small = filter(1, 1, 3840, 1, 1, 129), large = filter(1, 1, 76801, 1, 1, 257);
  assert_near(counts_of(ladder_cpu_fft, "direct", &small).operations, 2.0 * 129 * 3840);
  assert_near(counts_of(ladder_cpu_fft, "dft", &small).operations, 10.0 * (2 * 8 * 512 * 512 + 6 * 512));
  assert_near(counts_of(ladder_cpu_fft, "radix-2", &small).operations, 10.0 * (2 * 5 * 512 * 9 + 6 * 512));
  assert_near(counts_of(ladder_cpu_fft, "threaded", &small).operations, 5.0 * (2 * 5 * 512 * 9 + 6 * 512));
  const ladder_counts apart = counts_of(ladder_cuda_fft, "registers", &large);
  assert_int_equal(apart.blocks, 101);
  assert_int_equal(apart.block_threads, 128);
  assert_int_equal(apart.shared_bytes, (1024 + 64) * 8);
  assert_near(apart.reads_saved, 8 * 257.0 / (20 * 1024.0 / 768));
  assert_int_equal(counts_of(ladder_cuda_fft, "shared", &large).block_threads, 512);
  assert_int_equal(counts_of(ladder_cuda_fft, "paired", &large).blocks, 51);
  assert_int_equal(ladder_fft_bytes(&large), (101 + 1) * 1024 * 8);
}

/* Tiles of 64 x 64, 34 x 34 outputs each. */
static void test_fft_image_counts(UNUSED void **state) {
  const ladder_task k = filter(1, 102, 340, 1, 31, 31);
  const double tiles = 30, n = 64;
  assert_near(counts_of(ladder_cpu_fft_image, "direct", &k).operations, 2.0 * 31 * 31 * 102 * 340);
  assert_near(counts_of(ladder_cpu_fft_image, "dft", &k).operations, tiles * (2 * 16 * n * n * n + 6 * n * n));
  assert_near(counts_of(ladder_cpu_fft_image, "radix-2", &k).operations, tiles * (2 * 5 * n * n * 12 + 6 * n * n));
  assert_near(counts_of(ladder_cpu_fft_image, "threaded", &k).operations, tiles / 2 * (2 * 5 * n * n * 12 + 6 * n * n));
  const ladder_counts apart = counts_of(ladder_cuda_fft_image, "registers", &k);
  assert_int_equal(apart.blocks, 30);
  assert_int_equal(apart.block_threads, 512);
  assert_int_equal(apart.shared_bytes, (4096 + 256) * 8);
  assert_near(apart.reads_saved, 8 * 31.0 * 31 / (20 * n * n / (34 * 34)));
  assert_int_equal(counts_of(ladder_cuda_fft_image, "shared", &k).shared_bytes, 4096 * 8);
  assert_int_equal(counts_of(ladder_cuda_fft_image, "paired", &k).blocks, 15);
  assert_int_equal(ladder_fft_bytes(&k), (30 + 1) * 4096 * 8);
}

static void assert_saved(const char *line, const double saved[4]) {
  falt_problem problem;
  assert_int_equal(falt_problem_parse(&problem, NULL, line), FALT_OK);
  const cli_counts counts = cli_count(&problem);
  for (int i = 0; i < 4; i++) assert_near(counts.reads_saved[i], saved[i]);
}

static void test_counts_on_paper(UNUSED void **state) {
  assert_saved("correlate w=4096 s=11", (double[]){8.4, 10.2, 10.6, 10.9}); /* blocks of 32, 128, 256, 1024 */
  assert_saved("correlate h=512 w=512 r=5 s=5", (double[]){11.1, 16, 19.7, 22.1});
  assert_saved("correlate h=512 w=512 r=9 s=9", (double[]){20.3, 36, 51.8, 64});
  falt_problem signal, image;
  assert_int_equal(falt_problem_parse(&signal, NULL, "correlate w=100 s=7"), FALT_OK);
  assert_int_equal(falt_problem_parse(&image, NULL, "correlate h=64 w=64 r=5 s=5"), FALT_OK);
  const cli_counts line = cli_count(&signal), square = cli_count(&image);
  assert_true(line.multiplications == 700 && line.multiplications_inside == 700 - 3 * 4); /* NM - r(r+1) */
  assert_true(square.multiplications_inside == (64 * 5 - 6) * (64 * 5 - 6));
  assert_true(square.ghost_cells == 4 * 64 * 2 + 4 * 2 * 2); /* 4Nr + 4r^2 */
  assert_near(square.tiled_intensity, 9.57);
}

/* ---- kernels */

/* A kernel that is compiled for a number of threads is started with it. */
static void assert_threads(const ladder_launch *launch) {
  int threads = 0;
  for (int i = 0; i < launch->kernel.defines; i++)
    if (sscanf(launch->kernel.define[i], "THREADS=%d", &threads) == 1) assert_int_equal(threads, launch->threads[0]);
}

static void compile(const ladder_kernel *kernel, const ladder_task *task, const char *arch) {
  ladder_launch launch;
  falt_cuda_binary binary;
  char *log;
  if (ladder_launch_make(kernel, task, &launch)) return; /* too large for this kernel */
  assert_threads(&launch);
  if (falt_cuda_compile(&launch.kernel, arch, &binary, &log) != FALT_OK) fail_msg("%s", falt_message());
  if (!strstr(log, " 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") ||
      strstr(log, "cumulative stack"))
    fail_msg("%s for %s leaves the registers:\n%s", kernel->entry, arch, log);
  falt_free(binary.data);
  falt_free(log);
}

/* For one architecture, and for one of the others in turn from task to task. */
static void compile_steps(const ladder_step *steps, const ladder_task *task, size_t turn) {
  static const char *const architectures[] = {"sm_90a", "sm_80", "sm_100a", "sm_120"};
  need_compiler();
  for (; steps->name; steps++)
    for (int i = 0; i < 3 && steps->kernel[i]; i++)
      for (size_t a = 0; a < 2; a++) compile(steps->kernel[i], task, architectures[a ? 1 + turn % 3 : 0]);
}

static void test_signal_kernels(UNUSED void **state) {
  const ladder_task tasks[] = {filter(1, 1, 9999, 1, 1, 7), filter(1, 1, 9999, 1, 1, 96), filter(1, 1, 9, 1, 1, 1000)};
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) compile_steps(ladder_cuda_signal, &tasks[i], i);
}

static void test_image_kernels(UNUSED void **state) {
  ladder_task tasks[] = {filter(1, 999, 999, 1, 5, 5), filter(1, 999, 999, 1, 31, 31), filter(1, 999, 999, 1, 3, 9)};
  tasks[2].channels = 3;
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) compile_steps(ladder_cuda_image, &tasks[i], i);
}

static void test_volume_kernels(UNUSED void **state) {
  const ladder_task tasks[] = {filter(99, 99, 99, 3, 3, 3), filter(99, 99, 99, 7, 7, 7)};
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) compile_steps(ladder_cuda_volume, &tasks[i], i);
}

static void test_layer_kernels(UNUSED void **state) {
  const ladder_task tasks[] = {layer(64, 1, 28, 16, 5, 1, 2), layer(64, 3, 227, 96, 11, 4, 0)};
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
    compile_steps(ladder_cuda_layer, &tasks[i], i);
    compile_steps(ladder_cuda_pooled, &tasks[i], i);
  }
}

static void test_fft_kernels(UNUSED void **state) {
  const ladder_task tasks[] = {filter(1, 1, 9999, 1, 1, 129), filter(1, 1, 9999, 1, 1, 257),
                               filter(1, 1, 9999, 1, 1, 400), filter(1, 1, 9, 1, 1, 2048)};
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) compile_steps(ladder_cuda_fft, &tasks[i], i);
}

static void test_fft_image_kernels(UNUSED void **state) {
  const ladder_task tasks[] = {filter(1, 999, 999, 1, 31, 31), filter(1, 99, 999, 1, 1, 33)};
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) compile_steps(ladder_cuda_fft_image, &tasks[i], i);
}

/* ---- sources */

static void test_sources(UNUSED void **state) {
  for (const ladder_track *track = ladder_tracks; track->names; track++)
    for (const ladder_step *step = track->steps; step->name; step++) {
      char *text = NULL;
      size_t size = 0;
      FILE *file = open_memstream(&text, &size);
      ladder_print_source(file, track, step);
      fclose(file);
      for (int i = 0; i < 3 && step->kernel[i]; i++) assert_non_null(strstr(text, step->kernel[i]->entry));
      if (step->kernel[0]) assert_null(strstr(text, "#if STEP"));
      if (step->run) assert_non_null(strstr(text, "/* ---- "));
      assert_true((step->solver != NULL) == (size == 0));
      free(text);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu_filters),       cmocka_unit_test(test_cpu_layers),
      cmocka_unit_test(test_cpu_fft),           cmocka_unit_test(test_fft_counts),
      cmocka_unit_test(test_cpu_fft_image),     cmocka_unit_test(test_fft_image_counts),
      cmocka_unit_test(test_fft_image_kernels), cmocka_unit_test(test_fft_kernels),
      cmocka_unit_test(test_image_counts),      cmocka_unit_test(test_other_counts),
      cmocka_unit_test(test_counts_on_paper),   cmocka_unit_test(test_signal_kernels),
      cmocka_unit_test(test_image_kernels),     cmocka_unit_test(test_volume_kernels),
      cmocka_unit_test(test_layer_kernels),     cmocka_unit_test(test_sources),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
