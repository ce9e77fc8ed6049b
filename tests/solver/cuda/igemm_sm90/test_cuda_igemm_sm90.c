/* Tests of the tile search of cuda-igemm-sm90 and of the order of its tiles; no GPU needed. Compiles its kernels
 * where there is NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "core/memory.h"
#include "core/status.h"
#include "cuda/compile.h"
#include "need_compiler.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static falt_igemm_sm90_problem layer(falt_igemm_sm90_operation operation, int64_t batch, int64_t channels,
                                     int64_t results, falt_igemm_sm90_axis axis) {
  return (falt_igemm_sm90_problem){.operation = operation,
                                   .batch = batch,
                                   .workspace = -1,
                                   .channels = channels,
                                   .results = results,
                                   .axis = {{1, 1, 1, 0, 1, 1}, axis, axis},
                                   .axes = 2,
                                   .y_bytes = 2};
}

/* ---- walks */

/* Where tap i of a result lies, as TMA finds it: box position plus offset. */
static int64_t place(const falt_cuda_igemm_sm90_axis *a, int64_t pixel, int tap) {
  return a->corner + pixel * a->stride + a->offset + (int64_t)tap * a->offset_step;
}

/* Every pair of a result and a tap that meet is walked once, and no other that lies in the tensor. */
static void check_axis(const falt_igemm_sm90_axis *a, falt_igemm_sm90_operation operation) {
  falt_igemm_sm90_axis one = {1, 1, 1, 0, 1, 1};
  falt_igemm_sm90_problem p = layer(operation, 1, 64, 64, *a);
  falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES];
  const int64_t results = operation == FALT_IGEMM_SM90_DATA ? a->in : a->out;
  const int64_t source = operation == FALT_IGEMM_SM90_DATA ? a->out : a->in;
  int64_t met = 0, walked = 0, seen = 0;
  int count;
  p.axis[1] = one;
  if (falt_igemm_sm90_polyphases(&p, polyphases, &count)) return; /* too far away */
  for (int64_t o = 0; o < a->out; o++)
    for (int64_t j = 0; j < a->taps; j++) {
      const int64_t i = o * a->stride + j * a->dilation - a->pad;
      met += i >= 0 && i < a->in;
    }
  for (int f = 0; f < count; f++) {
    const falt_cuda_igemm_sm90_axis *made = &polyphases[f].axis[2];
    assert_int_equal(place(made, made->pixels - 1, 0) - made->offset, polyphases[f].last[2] + source - 1);
    for (int64_t q = 0; q < made->pixels; q++, seen++)
      for (int i = 0; i < made->taps; i++) {
        const int64_t result = polyphases[f].first[2] + q * polyphases[f].pace[2], tap = made->first + i * made->step;
        const int64_t from = place(made, q, i);
        assert_true(result < results && tap < a->taps);
        if (operation == FALT_IGEMM_SM90_DATA)
          assert_int_equal(from * a->stride + tap * a->dilation - a->pad, result);
        else
          assert_int_equal(from, result * a->stride + tap * a->dilation - a->pad);
        walked += from >= 0 && from < source;
      }
  }
  assert_int_equal(seen, results);
  assert_int_equal(walked, met);
}

static void test_walks(UNUSED void **state) {
  for (int64_t taps = 1; taps <= 5; taps++)
    for (int64_t stride = 1; stride <= 4; stride++)
      for (int64_t dilation = 1; dilation <= 4; dilation++)
        for (int64_t pad = -1; pad <= 3; pad++)
          for (int64_t in = 6; in <= 25; in += 5) {
            const int64_t room = in + pad + 2 - (taps - 1) * dilation - 1;
            falt_igemm_sm90_axis a = {taps, stride, dilation, pad, in, room / stride + 1};
            if (room < 0) continue;
            check_axis(&a, FALT_IGEMM_SM90_FORWARD);
            check_axis(&a, FALT_IGEMM_SM90_DATA);
          }
}

/* Beyond TMA's reach: corners of 8 bits and offsets of 255 in 2D, of 5 bits and 31 in 3D. */
static void test_reach(UNUSED void **state) {
  static const struct {
    falt_igemm_sm90_axis axis;
    int axes;
    bool fits;
  } cases[] = {
      {{3, 1, 1, 128, 64, 318}, 2, true},   {{3, 1, 1, 129, 64, 320}, 2, false}, {{128, 1, 2, 127, 64, 64}, 2, true},
      {{129, 1, 2, 128, 64, 64}, 2, false}, {{3, 1, 15, 15, 64, 64}, 3, true},   {{3, 1, 16, 16, 64, 64}, 3, false},
      {{3, 8, 1, 1, 64, 8}, 2, true},       {{3, 9, 1, 1, 64, 8}, 2, false},     {{9001, 1, 1, 4500, 64, 64}, 1, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_igemm_sm90_problem p = layer(FALT_IGEMM_SM90_FORWARD, 1, 64, 64, (falt_igemm_sm90_axis){1, 1, 1, 0, 1, 1});
    falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES];
    int count;
    p.axis[2] = cases[i].axis;
    p.axes = cases[i].axes;
    const char *why = falt_igemm_sm90_polyphases(&p, polyphases, &count);
    if ((why == NULL) != cases[i].fits) fail_msg("case %zu: %s", i, why ? why : "fits");
  }
}

/* ---- tiles */

static void check_tile(void *context, const void *candidate) {
  const falt_igemm_sm90_tile *t = candidate;
  tally *sum = context;
  const falt_igemm_sm90_problem *p = sum->problem;
  if (t->rejected) return;
  count_legal(sum, t->seconds);
  assert_true(t->shared_bytes <= h200.arch->block_shared);
  assert_true(t->stages >= 3 && t->clusters >= 1);
  assert_true(t->buffers >= (t->rows ? 4 : 2));
  if (t->whole) {
    const int64_t columns = p->operation == FALT_IGEMM_SM90_DATA ? p->channels : p->results;
    assert_true(columns <= t->columns && t->wg_rows * columns * p->y_bytes <= t->buffers * 8192);
  }
  if (t->cluster_k > 1 || (p->operation == FALT_IGEMM_SM90_FILTER && t->split_k == 1)) {
    assert_int_equal(falt_igemm_sm90_rows(t) % t->cluster_k, 0);
    assert_true(t->workspace == 0 && t->clusters == t->work && t->cluster == 1 && t->cluster_k <= 8);
  } else {
    assert_true(t->clusters * t->cluster <= 132 * t->cluster);
  }
  if (p->transposed) assert_int_equal(t->columns % (64 * t->cluster), 0);
}

static falt_igemm_sm90_tile choose(const falt_igemm_sm90_problem *p) {
  falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES];
  falt_igemm_sm90_tile best;
  tally sum = {.problem = p};
  int count;
  assert_null(falt_igemm_sm90_polyphases(p, polyphases, &count));
  const falt_igemm_sm90_work work = falt_igemm_sm90_work_of(p, polyphases, count);
  falt_igemm_sm90_each(p, &work, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  assert_true(falt_igemm_sm90_choose(p, &work, &h200, &best));
  check_best(&sum, best.seconds);
  return best;
}

/* No estimate beats the machine's limits; the same layer in more images takes longer. */
static void test_tiles(UNUSED void **state) {
  static const struct {
    int64_t channels, results;
    falt_igemm_sm90_axis axis;
  } layers[] = {{64, 64, {3, 1, 1, 1, 56, 56}},   {256, 64, {1, 1, 1, 0, 56, 56}},  {64, 256, {1, 1, 1, 0, 56, 56}},
                {128, 128, {3, 1, 1, 1, 28, 28}}, {128, 128, {3, 2, 1, 1, 56, 28}}, {512, 512, {3, 1, 1, 1, 7, 7}},
                {24, 40, {5, 1, 1, 2, 33, 33}}};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int operation = FALT_IGEMM_SM90_FORWARD; operation <= FALT_IGEMM_SM90_FILTER; operation++) {
      const falt_igemm_sm90_axis *a = &layers[i].axis;
      falt_igemm_sm90_problem p =
          layer((falt_igemm_sm90_operation)operation, 256, layers[i].channels, layers[i].results, *a);
      p.transposed = operation == FALT_IGEMM_SM90_DATA;
      const falt_igemm_sm90_tile many = choose(&p);
      const double flops = 2.0 * 256 * (double)(a->out * a->out * a->taps * a->taps * p.channels * p.results);
      assert_true(many.seconds > flops / 989e12);
      p.batch = 1;
      const falt_igemm_sm90_tile one = choose(&p);
      assert_true(one.seconds < many.seconds);
    }
}

/* Polyphases without taps have no tiles where their results lie in words, unless they are many and products few. */
static void test_zeros(UNUSED void **state) {
  static const struct {
    int64_t batch;
    falt_igemm_sm90_axis axis;
    bool words;
    int polyphases, zeros;
  } cases[] = {{16, {1, 2, 1, 0, 56, 28}, true, 1, 3},  {16, {1, 2, 1, 0, 55, 28}, true, 1, 3},
               {16, {1, 2, 1, 0, 56, 28}, false, 4, 0}, {16, {3, 2, 1, 1, 56, 28}, true, 4, 0},
               {16, {3, 2, 2, 2, 56, 28}, true, 1, 3},  {16, {1, 2, 1, 1, 1, 1}, true, 1, 0},
               {256, {1, 2, 1, 0, 56, 28}, true, 4, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_igemm_sm90_problem p = layer(FALT_IGEMM_SM90_DATA, cases[i].batch, 256, 512, cases[i].axis);
    falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES];
    int count;
    p.words = cases[i].words;
    assert_null(falt_igemm_sm90_polyphases(&p, polyphases, &count));
    const falt_igemm_sm90_work work = falt_igemm_sm90_work_of(&p, polyphases, count);
    assert_int_equal(work.polyphases, cases[i].polyphases);
    assert_int_equal(work.zeros, cases[i].zeros);
    assert_int_equal(work.polyphases + work.zeros, count);
  }
}

/* Places are as large as a part of the cache, and each polyphase part has tiles for all of them. */
static void test_places(UNUSED void **state) {
  static const struct { int64_t batch, size, places; } cases[] = {{1, 56, 1}, {64, 56, 1}, {256, 56, 3}, {256, 55, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const falt_igemm_sm90_axis axis = {3, 2, 1, 1, cases[i].size, 28};
    falt_igemm_sm90_problem p = layer(FALT_IGEMM_SM90_DATA, cases[i].batch, 128, 128, axis);
    p.transposed = true;
    const falt_igemm_sm90_tile t = choose(&p);
    const int64_t rows = falt_igemm_sm90_rows(&t) * t.cluster;
    assert_int_equal(t.places, cases[i].places);
    if (t.places > 1) assert_true(t.place % t.clusters == 0 && t.place * rows * 128 * 2 <= h200.cache_bytes / 4);
    assert_true(t.place * t.places * 4 <= t.work);
  }
}

/* One image has few tiles: clusters share them, with no workspace, and the machine is full but not twice. */
static void test_shares(UNUSED void **state) {
  static const struct { int64_t channels, size; } layers[] = {{256, 14}, {512, 7}};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int operation = FALT_IGEMM_SM90_FORWARD; operation <= FALT_IGEMM_SM90_FILTER; operation++) {
      const falt_igemm_sm90_axis axis = {3, 1, 1, 1, layers[i].size, layers[i].size};
      const falt_igemm_sm90_problem p =
          layer((falt_igemm_sm90_operation)operation, 1, layers[i].channels, layers[i].channels, axis);
      const falt_igemm_sm90_tile t = choose(&p);
      assert_int_equal(t.workspace, 0);
      if (operation != FALT_IGEMM_SM90_FILTER)
        assert_true(t.cluster_k > 1 && t.work * t.cluster_k <= h200.multiprocessors);
    }
}

/* 72 channels take longer than 80, which 32 bytes divide, and their blocks share the filter's rows, as was measured. */
static void test_uneven(UNUSED void **state) {
  const falt_igemm_sm90_axis axis = {3, 1, 1, 1, 28, 28};
  const falt_igemm_sm90_problem uneven = layer(FALT_IGEMM_SM90_FORWARD, 64, 72, 64, axis),
                                even = layer(FALT_IGEMM_SM90_FORWARD, 64, 80, 64, axis);
  const falt_igemm_sm90_tile best = choose(&uneven);
  assert_true(best.seconds > 1.15 * choose(&even).seconds);
  assert_int_equal(best.cluster, 2);
}

/* Warps store whole pixels where writing takes the time, TMA lines of them where multiplying does. */
static void test_rows(UNUSED void **state) {
  static const struct {
    falt_igemm_sm90_operation operation;
    int64_t channels, results;
    falt_igemm_sm90_axis axis;
    bool residual, rows;
  } cases[] = {{FALT_IGEMM_SM90_FORWARD, 64, 256, {1, 1, 1, 0, 56, 56}, false, true},
               {FALT_IGEMM_SM90_DATA, 256, 64, {1, 1, 1, 0, 56, 56}, false, true},
               {FALT_IGEMM_SM90_FORWARD, 64, 256, {1, 1, 1, 0, 56, 56}, true, false},
               {FALT_IGEMM_SM90_FORWARD, 256, 64, {1, 1, 1, 0, 56, 56}, false, false},
               {FALT_IGEMM_SM90_FORWARD, 128, 512, {1, 1, 1, 0, 28, 28}, false, false},
               {FALT_IGEMM_SM90_DATA, 128, 128, {3, 2, 1, 1, 56, 28}, false, false},
               {FALT_IGEMM_SM90_FORWARD, 256, 256, {3, 1, 1, 1, 14, 14}, false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_igemm_sm90_problem p = layer(cases[i].operation, 256, cases[i].channels, cases[i].results, cases[i].axis);
    p.words = true;
    p.residual = cases[i].residual;
    p.transposed = p.operation == FALT_IGEMM_SM90_DATA;
    if (choose(&p).rows != cases[i].rows) fail_msg("case %zu", i);
  }
}

/* Pixels that follow on each other leave whole where a tile has all their channels, and of few summed channels none is
 * multiplied that is zero. */
static void test_whole(UNUSED void **state) {
  static const struct {
    falt_igemm_sm90_operation operation;
    int64_t channels, results;
    falt_igemm_sm90_axis axis;
    bool whole;
    int summed;
  } cases[] = {{FALT_IGEMM_SM90_DATA, 144, 24, {1, 1, 1, 0, 56, 56}, true, 32},
               {FALT_IGEMM_SM90_FORWARD, 16, 96, {1, 1, 1, 0, 112, 112}, true, 16},
               {FALT_IGEMM_SM90_FORWARD, 40, 96, {1, 1, 1, 0, 56, 56}, true, 48},
               {FALT_IGEMM_SM90_FORWARD, 72, 416, {1, 1, 1, 0, 28, 28}, false, 64},
               {FALT_IGEMM_SM90_DATA, 144, 24, {3, 2, 1, 1, 56, 28}, false, 32},
               {FALT_IGEMM_SM90_DATA, 144, 24, {1, 2, 1, 0, 56, 28}, false, 32}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_igemm_sm90_problem p = layer(cases[i].operation, 256, cases[i].channels, cases[i].results, cases[i].axis);
    falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES];
    int count;
    p.words = p.whole = true;
    p.transposed = p.operation == FALT_IGEMM_SM90_DATA;
    if (choose(&p).whole != cases[i].whole) fail_msg("case %zu", i);
    assert_null(falt_igemm_sm90_polyphases(&p, polyphases, &count));
    assert_int_equal(falt_igemm_sm90_work_of(&p, polyphases, count).summed, cases[i].summed);
  }
}

/* Wgrad with few tiles is summed in clusters, not in a second kernel; where tiles are enough
 * for all multiprocessors the largest take the ring's place with their sums. */
static void test_sums(UNUSED void **state) {
  static const struct {
    int64_t batch, channels, results;
    falt_igemm_sm90_axis axis;
    int cluster_k;
  } cases[] = {{32, 384, 64, {1, 1, 1, 0, 14, 14}, 8},    {256, 512, 2048, {1, 1, 1, 0, 7, 7}, 2},
               {256, 1024, 2048, {1, 2, 1, 0, 14, 7}, 2}, {32, 256, 1024, {1, 1, 1, 0, 14, 14}, 2},
               {1, 256, 256, {3, 1, 1, 1, 56, 56}, 2},    {256, 1024, 4096, {1, 1, 1, 0, 7, 7}, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const falt_igemm_sm90_problem p =
        layer(FALT_IGEMM_SM90_FILTER, cases[i].batch, cases[i].channels, cases[i].results, cases[i].axis);
    const falt_igemm_sm90_tile t = choose(&p);
    if (t.cluster_k != cases[i].cluster_k || t.workspace != 0)
      fail_msg("case %zu: %d blocks share a tile", i, t.cluster_k);
    if (t.cluster_k == 1) assert_true(t.over && t.columns == 256);
  }
}

/* Of one tile a block with few steps two fit on a multiprocessor; many steps want all stages, and where two warpgroups
 * multiply registers are for one block. */
static void test_room(UNUSED void **state) {
  static const struct {
    int64_t channels, results;
    falt_igemm_sm90_axis axis;
    bool room;
  } cases[] = {{64, 256, {1, 1, 1, 0, 56, 56}, false},
               {256, 64, {1, 1, 1, 0, 56, 56}, true},
               {512, 128, {1, 1, 1, 0, 28, 28}, true},
               {256, 256, {3, 1, 1, 1, 14, 14}, true},
               {512, 512, {3, 1, 1, 1, 28, 28}, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const falt_igemm_sm90_problem p =
        layer(FALT_IGEMM_SM90_FORWARD, 1, cases[i].channels, cases[i].results, cases[i].axis);
    const falt_igemm_sm90_tile t = choose(&p);
    assert_int_equal(t.shared_bytes + 1024 <= (228 << 10) / 2, cases[i].room);
  }
}

/* ---- kernels */

static falt_cuda_kernel kernel_of(const falt_igemm_sm90_problem *p, const falt_igemm_sm90_tile *t,
                                  const falt_igemm_sm90_work *work, int type_y, int planar) {
  falt_cuda_kernel k = {.source = "cuda_igemm_sm90.cu", .entry = "falt_igemm_sm90"};
  const int lines = planar && work->polyphases == 1 ? 1 + (p->operation == FALT_IGEMM_SM90_FILTER) : 0;
  const struct {
    const char *name;
    int value;
  } defines[] = {{"OPERATION", (int)p->operation},
                 {"AXES", p->axes},
                 {"TYPE_Y", t->workspace ? (int)FALT_F32 : type_y},
                 {"ACTIVATION", p->operation == FALT_IGEMM_SM90_FILTER ? 0 : FALT_GELU},
                 {"SCALED", p->operation != FALT_IGEMM_SM90_FILTER && !p->grouped},
                 {"BIASED", p->operation != FALT_IGEMM_SM90_FILTER && !p->grouped},
                 {"RESIDUAL", p->residual},
                 {"TRANSPOSED_B", p->transposed && lines < 2},
                 {"CONSUMERS", t->consumers},
                 {"WG_ROWS", t->wg_rows},
                 {"COLUMNS", t->columns},
                 {"STAGES", t->stages},
                 {"BUFFERS", t->buffers},
                 {"CLUSTER", t->cluster},
                 {"RESIDENT", t->resident},
                 {"POLYPHASES", work->polyphases},
                 {"ZEROS", work->zeros},
                 {"SWAPPED", t->swapped},
                 {"PINGPONG", t->pingpong},
                 {"CLUSTER_K", t->cluster_k},
                 {"OVER", t->over},
                 {"KEEPS", t->workspace > 0},
                 {"PLANAR", p->operation == FALT_IGEMM_SM90_FILTER ? planar > 0 : planar},
                 {"BY_ROWS", t->rows},
                 {"WHOLE", t->whole ? p->y_bytes * (int)work->columns : 0},
                 {"SUMMED", work->summed},
                 {"BOXED", lines == 1 && planar == 4 && type_y != FALT_F32 && t->cluster_k == 1},
                 {"LINES", lines},
                 {"GROUPED", p->grouped}};
  falt_cuda_define(&k, "PAIR=\"f16.f16\"");
  for (size_t i = 0; i < sizeof defines / sizeof *defines; i++)
    falt_cuda_define(&k, "%s=%d", defines[i].name, defines[i].value);
  return k;
}

typedef struct compiled {
  const falt_igemm_sm90_problem *problem;
  const falt_igemm_sm90_work *work;
  int type_y, tried, planar;
} compiled;

/* Every thirteenth tile: nothing may spill. */
static void compile(void *context, const void *candidate) {
  const falt_igemm_sm90_tile *t = candidate;
  compiled *c = context;
  falt_cuda_binary binary;
  if (t->rejected || c->tried++ % 13) return;
  const falt_cuda_kernel kernel = kernel_of(c->problem, t, c->work, c->type_y, c->planar);
  if (falt_cuda_compile(&kernel, "sm_90a", &binary, NULL) != FALT_OK) fail_msg("%s", falt_message());
  if (binary.use.spill_bytes != 0 || binary.use.stack_bytes != 0)
    fail_msg("%d warpgroups of %dx%d: %d bytes spilled", t->consumers, t->wg_rows, t->columns, binary.use.spill_bytes);
  falt_free(binary.data);
}

/* Fewer of them. */
static void compile_some(void *context, const void *candidate) {
  const falt_igemm_sm90_tile *t = candidate;
  if (t->columns == 64 || t->consumers == 3) compile(context, t);
}

/* Groups of one tap, of 16 and 32 bits. */
static void compile_groups(int y_bytes, int type_y) {
  falt_igemm_sm90_problem p = layer(FALT_IGEMM_SM90_FORWARD, 36, 640, 640, (falt_igemm_sm90_axis){1, 1, 1, 0, 16, 16});
  falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES];
  int count;
  p.axis[1] = p.axis[0];
  p.axes = 1;
  p.grouped = p.words = true;
  p.y_bytes = y_bytes;
  p.transposed = type_y == FALT_F32;
  assert_null(falt_igemm_sm90_polyphases(&p, polyphases, &count));
  const falt_igemm_sm90_work work = falt_igemm_sm90_work_of(&p, polyphases, count);
  compiled c = {&p, &work, type_y, 0, 0};
  falt_igemm_sm90_each(&p, &work, &h200, &(falt_tile_search){.visit = compile_some, .context = &c});
}

static void test_kernels(UNUSED void **state) {
  need_compiler();
  const falt_cuda_kernel sum = {.source = "cuda_igemm_sm90_sum.cu", .entry = "falt_igemm_sm90_sum"};
  falt_cuda_binary binary;
  if (falt_cuda_compile(&sum, "sm_90a", &binary, NULL) != FALT_OK) fail_msg("%s", falt_message());
  assert_int_equal(binary.use.stack_bytes, 0);
  falt_free(binary.data);
  static const falt_igemm_sm90_operation operations[] = {FALT_IGEMM_SM90_FORWARD, FALT_IGEMM_SM90_DATA,
                                                         FALT_IGEMM_SM90_FILTER, FALT_IGEMM_SM90_FORWARD,
                                                         FALT_IGEMM_SM90_DATA};
  for (int i = 0; i < 5; i++) {
    const falt_igemm_sm90_axis axis =
        i == 4 ? (falt_igemm_sm90_axis){1, 2, 1, 0, 28, 14} : (falt_igemm_sm90_axis){3, 2, 1, 1, 28, 14};
    falt_igemm_sm90_problem p = layer(operations[i], 8, 128, 512, axis);
    falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES];
    int count;
    p.transposed = p.operation != FALT_IGEMM_SM90_FORWARD;
    p.residual = i == 0;
    p.words = true;
    if (i == 3) p.y_bytes = 4;
    assert_null(falt_igemm_sm90_polyphases(&p, polyphases, &count));
    falt_igemm_sm90_work work = falt_igemm_sm90_work_of(&p, polyphases, count);
    compiled c = {&p, &work, i == 3 ? FALT_F32 : FALT_F16, 0, 0};
    falt_igemm_sm90_each(&p, &work, &h200, &(falt_tile_search){.visit = compile, .context = &c});
    /* The same as NCHW, other tiles of it. */
    c.planar = i == 0 ? 1 : 4;
    c.tried = 6;
    p.words = false;
    work = falt_igemm_sm90_work_of(&p, polyphases, count);
    falt_igemm_sm90_each(&p, &work, &h200, &(falt_tile_search){.visit = compile_some, .context = &c});
  }
  /* Whole pixels by warps. */
  falt_igemm_sm90_problem p = layer(FALT_IGEMM_SM90_FORWARD, 256, 64, 256, (falt_igemm_sm90_axis){1, 1, 1, 0, 56, 56});
  falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES];
  int count;
  p.words = true;
  assert_null(falt_igemm_sm90_polyphases(&p, polyphases, &count));
  const falt_igemm_sm90_work work = falt_igemm_sm90_work_of(&p, polyphases, count);
  const falt_igemm_sm90_tile tile = choose(&p);
  compiled c = {&p, &work, FALT_F16, 0, 0};
  assert_true(tile.rows);
  compile(&c, &tile);
  /* Whole tiles of pixels, of few summed channels. */
  p.channels = 24, p.results = 144, p.whole = true;
  const falt_igemm_sm90_work few = falt_igemm_sm90_work_of(&p, polyphases, count);
  c.work = &few;
  c.tried = 0;
  falt_igemm_sm90_each(&p, &few, &h200, &(falt_tile_search){.visit = compile, .context = &c});
  compile_groups(2, FALT_F16);
  compile_groups(4, FALT_F32);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_walks),  cmocka_unit_test(test_reach),  cmocka_unit_test(test_tiles),
      cmocka_unit_test(test_shares), cmocka_unit_test(test_uneven), cmocka_unit_test(test_whole),
      cmocka_unit_test(test_rows),   cmocka_unit_test(test_sums),   cmocka_unit_test(test_room),
      cmocka_unit_test(test_zeros),  cmocka_unit_test(test_places), cmocka_unit_test(test_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
