/* Compiles a representative set of kernels for every architecture, without a GPU: none may spill, and all must stay
 * within their registers. Skipped where there is no NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "compile_kernels.h"
#include "core/memory.h"
#include "core/types.h"
#include "cuda/rate.h"
#include "machines.h"
#include "solver/cuda/filter/cuda_25d_tiles.h"
#include "solver/cuda/filter/cuda_tiled_tiles.h"
#include "solver/cuda/fprop_direct/cuda_direct_nchw_tiles.h"
#include "solver/cuda/toeplitz/cuda_toeplitz_tiles.h"

#define UNUSED __attribute__((unused))

static falt_cuda_kernel generic(int operation, const char *sum, const char *real, bool pooled, bool factors) {
  falt_cuda_kernel k = {.source = "cuda_generic.cu", .entry = "falt_generic"};
  falt_cuda_define(&k, "OPERATION=%d", operation);
  falt_cuda_define(&k, "SUM=%s", sum);
  falt_cuda_define(&k, "REAL=%s", real);
  falt_cuda_define(&k, "INDEX=unsigned");
  falt_cuda_define(&k, "POOLED=%d", pooled);
  falt_cuda_define(&k, "FACTORS=%d", factors);
  falt_cuda_define(&k, "CHANNELS_FASTEST=%d", operation & 1);
  return k;
}

/* Calls of the mathematical library need a small frame; anything more is an array that left the registers. */
static void test_generic(UNUSED void **state) {
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++) {
    for (int operation = 0; operation < 7; operation++) {
      if (!is_turn(a, (size_t)operation)) continue;
      const falt_cuda_kernel kernel = generic(operation, "float", "float", false, false);
      compile(&kernel, architectures[a], 128, 64);
    }
    const falt_cuda_kernel others[] = {
        generic(0, "__int128", "double", false, false), generic(2, "double", "double", false, false),
        generic(0, "float", "float", true, false), generic(0, "float", "float", false, true)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
      if (is_turn(a, i)) compile(&others[i], architectures[a], 128, 64);
  }
}

typedef struct shape {
  int taps[3], terms, pixel, tile[3], vector, block[2], blocks, linear;
  const char *element;
  falt_type type;
  int boundary;
  int stride, dilation; /* along all axes */
} shape;

static falt_cuda_kernel tile(const shape *s) {
  falt_cuda_kernel k = {.source = "cuda_direct.cu", .entry = "falt_tile"};
  falt_tile_problem p = {.pixel = s->pixel};
  const falt_tile t = {.planes = s->tile[0],
                       .rows = s->tile[1],
                       .width = s->tile[2],
                       .x_vector = s->vector,
                       .y_vector = s->vector,
                       .block = {s->block[0], s->block[1]},
                       .blocks = s->blocks,
                       .linear = s->linear};
  for (int i = 0; i < 3; i++) {
    p.stride[i] = s->stride;
    p.dilation[i] = s->taps[i] > 1 ? s->dilation : 1;
  }
  filter_defines(&k, s->taps, s->terms, s->boundary, s->element, s->type);
  falt_cuda_define(&k, "FAR=%d", s->boundary == 2);
  falt_tile_defines(&k, &p, &t);
  return k;
}

static void test_tile(UNUSED void **state) {
  static const shape shapes[] = {
      {{1, 1, 7}, 0, 1, {1, 2, 4}, 4, {128, 1}, 8, 1, "float", FALT_F32, 2, 1, 1},
      {{1, 1, 31}, 0, 1, {1, 2, 4}, 4, {128, 1}, 4, 1, "float", FALT_F32, 3, 1, 1},
      {{1, 3, 3}, 0, 1, {1, 8, 4}, 4, {32, 4}, 6, 0, "float", FALT_F32, 2, 1, 1},
      {{1, 5, 5}, 0, 1, {1, 8, 4}, 4, {32, 4}, 6, 0, "float", FALT_F32, 4, 1, 1},
      {{1, 7, 7}, 0, 1, {1, 8, 4}, 4, {32, 4}, 5, 0, "float", FALT_F32, 1, 1, 1},
      {{1, 9, 9}, 1, 1, {1, 8, 4}, 4, {32, 4}, 4, 0, "float", FALT_F32, 2, 1, 1},
      {{1, 5, 5}, 2, 1, {1, 8, 4}, 4, {32, 4}, 4, 0, "float", FALT_F32, 0, 1, 1},
      {{1, 5, 5}, 1, 3, {1, 8, 8}, 8, {32, 4}, 4, 0, "unsigned char", FALT_U8, 3, 1, 1},
      {{1, 5, 5}, 0, 1, {1, 4, 8}, 8, {32, 4}, 5, 0, "unsigned short", FALT_F16, 2, 1, 1},
      {{1, 3, 3}, 0, 1, {1, 8, 4}, 1, {32, 4}, 5, 0, "float", FALT_F32, 2, 1, 1},
      {{3, 3, 3}, 0, 1, {4, 2, 4}, 4, {32, 4}, 4, 0, "float", FALT_F32, 0, 1, 1},
      {{5, 5, 5}, 1, 1, {4, 2, 4}, 4, {32, 4}, 3, 0, "float", FALT_F32, 2, 1, 1},
      {{1, 3, 3}, 0, 1, {1, 8, 2}, 2, {32, 4}, 4, 0, "double", FALT_F64, 2, 1, 1},
      {{1, 5, 5}, 0, 1, {1, 8, 4}, 4, {32, 4}, 5, 0, "float", FALT_F32, 2, 1, 2},
      {{1, 5, 5}, 0, 1, {1, 8, 4}, 4, {32, 4}, 4, 0, "float", FALT_F32, 0, 2, 3},
      {{1, 5, 5}, 1, 1, {1, 4, 8}, 8, {32, 4}, 4, 0, "unsigned char", FALT_U8, 3, 2, 1},
      {{3, 3, 3}, 0, 1, {4, 2, 4}, 4, {32, 4}, 4, 0, "float", FALT_F32, 1, 1, 2},
      {{1, 5, 5}, 0, 3, {1, 8, 6}, 2, {32, 4}, 4, 0, "unsigned char", FALT_U8, 3, 2, 1},
  };
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      if (!is_turn(a, i)) continue;
      const falt_cuda_kernel kernel = tile(&shapes[i]);
      compile(&kernel, architectures[a], 168, 0);
    }
}

typedef struct volume {
  int taps[3], terms, columns;
  const char *element;
  falt_type type;
  int boundary;
} volume;

/* As the solver fills the parameters, with the cut that it would choose for a GPU of an H200's or an A100's size. */
static falt_cuda_kernel kernel_25d(const volume *v, const char *architecture, bool small) {
  static const falt_machine sizes[] = {H200, A100};
  falt_machine machine = sizes[small];
  const int number = atoi(architecture + strlen("sm_"));
  machine.arch = falt_architecture_of(number / 10, number % 10);
  const int bytes = (int)falt_type_size(v->type), wide = v->type == FALT_F64;
  falt_tile_problem p = {.terms = v->terms,
                         .in = {256, 256, v->columns},
                         .out = {256, 256, v->columns},
                         .batch = 1,
                         .pixel = 1,
                         .x_bytes = bytes,
                         .y_bytes = bytes,
                         .sum_bytes = wide ? 8 : 4,
                         .converts = bytes < 4,
                         .tiny = v->type == FALT_U8,
                         .fills = v->boundary == 0,
                         .x_align = v->columns % 4 ? 1 : 16,
                         .y_align = v->columns % 4 ? 1 : 16};
  falt_cuda_kernel k = {.source = "cuda_25d.cu", .entry = "falt_25d"};
  falt_25d s;
  for (int i = 0; i < 3; i++) {
    p.taps[i] = v->taps[i];
    p.pad[i] = v->taps[i] / 2;
  }
  assert_true(falt_25d_choose(&p, &machine, &s));
  falt_cuda_define(&k, "FAR=0");
  filter_defines(&k, p.taps, v->terms, v->boundary, v->element, v->type);
  falt_25d_defines(&k, &s);
  return k;
}

static void test_25d(UNUSED void **state) {
  static const volume volumes[] = {
      {{3, 3, 3}, 0, 256, "float", FALT_F32, 2},          {{3, 3, 3}, 0, 256, "float", FALT_F32, 0},
      {{3, 3, 3}, 0, 509, "float", FALT_F32, 4},          {{5, 5, 5}, 0, 256, "float", FALT_F32, 2},
      {{5, 5, 5}, 0, 256, "float", FALT_F32, 0},          {{7, 7, 7}, 0, 256, "float", FALT_F32, 3},
      {{5, 5, 5}, 1, 256, "float", FALT_F32, 2},          {{7, 7, 7}, 1, 256, "float", FALT_F32, 0},
      {{3, 3, 3}, 0, 256, "unsigned char", FALT_U8, 2},   {{5, 5, 5}, 0, 256, "unsigned char", FALT_U8, 0},
      {{3, 3, 3}, 0, 256, "unsigned short", FALT_F16, 2}, {{5, 5, 5}, 0, 256, "unsigned short", FALT_BF16, 1},
      {{3, 3, 3}, 0, 256, "double", FALT_F64, 2},         {{5, 5, 5}, 0, 256, "double", FALT_F64, 0},
  };
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof volumes / sizeof *volumes; i++) {
      if (!is_turn(a, i)) continue;
      for (int small = 0; small < 2; small++) {
        const falt_cuda_kernel kernel = kernel_25d(&volumes[i], architectures[a], small);
        compile(&kernel, architectures[a], 255, 0);
      }
    }
}

/* Both orders of the matrix, narrow and wide. */
static void test_im2col(UNUSED void **state) {
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (int by_row = 0; by_row < 2; by_row++) {
      falt_cuda_kernel k = {.source = "cuda_im2col.cu", .entry = "falt_im2col"};
      falt_cuda_define(&k, "ELEMENT=%s", by_row ? "unsigned long long" : "unsigned short");
      falt_cuda_define(&k, "INDEX=%s", by_row ? "unsigned long long" : "unsigned");
      falt_cuda_define(&k, "BY_ROW=%d", by_row);
      falt_cuda_define(&k, "CHANNELS_FIRST=%d", by_row);
      compile(&k, architectures[a], 64, 0);
    }
}

/* Each size of elements. */
static void test_copies(UNUSED void **state) {
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (int size = 1; size <= 8; size *= 2) {
      if (!is_turn(a, (size_t)size)) continue;
      falt_cuda_kernel k = {.source = "convert_layout.cu", .entry = "falt_convert_layout"};
      falt_cuda_kernel pad = {.source = "pad_channels.cu", .entry = "falt_pad_channels"};
      falt_cuda_define(&k, "SIZE=%d", size);
      falt_cuda_define(&pad, "SIZE=%d", size);
      compile(&k, architectures[a], size == 1 ? 255 : 128, 0);
      compile(&pad, architectures[a], 64, 0);
    }
}

/* All blocks of a multiprocessor must run at once: 2048 threads with 32 registers each, or 1024 with 64. */
static void test_rate(UNUSED void **state) {
  need_compiler();
  const int most_registers[FALT_GPU_RATES] = {[FALT_GPU_F32] = 32, [FALT_GPU_F64] = 32, [FALT_GPU_F16] = 64};
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (int which = 0; which < FALT_GPU_RATES; which++) {
      const falt_cuda_kernel kernel = falt_gpu_rate_kernel((falt_gpu_rates)which);
      compile(&kernel, architectures[a], most_registers[which], 0);
    }
}

typedef struct band {
  const char *kind, *element;
  int type, taps[3], pixel, channels;
} band;

/* As the solver fills the parameters, with the cut that it would choose for a large image. */
static falt_cuda_kernel toeplitz_kernel(const band *s, const falt_toeplitz *bands, const falt_toeplitz_cut *cut) {
  falt_cuda_kernel k = {.source = "cuda_toeplitz.cu", .entry = "falt_toeplitz"};
  for (int i = 0; i < 3; i++) {
    falt_cuda_define(&k, "TAPS_%c=%d", "TRS"[i], s -> taps[i]);
    falt_cuda_define(&k, "PAD_%c=%d", "TRS"[i], s -> taps[i] / 2);
    falt_cuda_define(&k, "AXIS_%c=%d,%d", "TRS"[i], s -> type % 5, s -> type % 5);
  }
  falt_cuda_define(&k, "KIND=%s", s->kind);
  falt_cuda_define(&k, "PIXEL=%d", s->pixel);
  falt_cuda_define(&k, "ELEMENT_Y=%s", s->element);
  falt_cuda_define(&k, "TYPE_X=%d", s->type);
  falt_cuda_define(&k, "TYPE_Y=%d", s->type);
  falt_cuda_define(&k, "PARTS=%d", bands->parts);
  falt_cuda_define(&k, "CHUNKS=%d", bands->chunks);
  falt_cuda_define(&k, "SLOTS=%d", bands->slots);
  falt_cuda_define(&k, "GROUPS=%d", cut->groups);
  falt_cuda_define(&k, "TILES=%d", cut->tiles);
  falt_cuda_define(&k, "FAR=%d", s->type % 5 == 2);
  falt_cuda_define(&k, "CHANNELS=%d", bands->channels);
  falt_cuda_define(&k, "BIASED=%d", falt_type_is_byte(s->type));
  falt_cuda_define(&k, "BANDS=%d", (int)cut->place);
  falt_cuda_define(&k, "WARPS=%d", FALT_BANDS_WARPS);
  falt_cuda_define(&k, "BLOCKS=%d", cut->blocks);
  falt_cuda_define(&k, "LINEAR=%d", s->taps[0] * s->taps[1] == 1);
  falt_cuda_define(&k, "RINGED=%d", falt_toeplitz_ringed(bands, cut, s->taps[2] / 2 * s->pixel));
  return k;
}

static void test_toeplitz(UNUSED void **state) {
  static const band shapes[] = {
      {"BYTES", "unsigned char", FALT_U8, {1, 3, 3}, 1, 1},
      {"BYTES", "unsigned char", FALT_U8, {1, 5, 5}, 1, 1},
      {"BYTES", "unsigned char", FALT_U8, {1, 5, 5}, 3, 3},
      {"BYTES", "unsigned char", FALT_U8, {1, 5, 5}, 3, 1},
      {"BYTES", "unsigned char", FALT_U8, {1, 3, 3}, 3, 3},
      {"SIGNED_BYTES", "signed char", FALT_S8, {1, 3, 5}, 2, 2},
      {"BYTES", "unsigned char", FALT_U8, {1, 7, 7}, 1, 1},
      {"BYTES", "unsigned char", FALT_U8, {1, 15, 15}, 1, 1},
      {"BYTES", "unsigned char", FALT_U8, {1, 31, 31}, 3, 1},
      {"SIGNED_BYTES", "signed char", FALT_S8, {1, 9, 9}, 1, 1},
      {"HALVES", "unsigned short", FALT_F16, {1, 5, 5}, 1, 1},
      {"HALVES", "unsigned short", FALT_F16, {1, 9, 9}, 1, 1},
      {"HALVES", "unsigned short", FALT_F16, {1, 15, 15}, 1, 1},
      {"HALVES", "unsigned short", FALT_F16, {1, 63, 63}, 1, 1},
      {"HALVES", "unsigned short", FALT_F16, {1, 1, 31}, 1, 1},
      {"HALVES", "unsigned short", FALT_F16, {5, 5, 5}, 1, 1},
      {"BRAINS", "unsigned short", FALT_BF16, {1, 5, 5}, 1, 1},
      {"BRAINS", "unsigned short", FALT_BF16, {1, 15, 15}, 1, 1},
      {"WORDS", "float", FALT_F32, {1, 15, 15}, 1, 1},
      {"WORDS", "float", FALT_F32, {1, 31, 31}, 1, 1},
  };
  static double taps[63 * 63];
  need_compiler();
  for (int i = 0; i < 63 * 63; i++) taps[i] = 1 / (1.1 + i);
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      if (!is_turn(a, i)) continue;
      const int number = atoi(architectures[a] + 3);
      falt_machine machine = h200;
      machine.arch = falt_architecture_of(number / 10, number % 10);
      const falt_toeplitz_kind kind = falt_type_is_byte(shapes[i].type) ? FALT_BANDS_BYTES
                                      : shapes[i].type == FALT_F16      ? FALT_BANDS_HALVES
                                      : shapes[i].type == FALT_F32      ? FALT_BANDS_WORDS
                                                                        : FALT_BANDS_BRAINS;
      const int bytes = falt_type_is_byte(shapes[i].type) ? 1 : shapes[i].type == FALT_F32 ? 4 : 2;
      const falt_toeplitz_image image = {{1, 4096, 4096}, 1, bytes, bytes, true};
      falt_toeplitz bands;
      falt_toeplitz_cut cut;
      falt_toeplitz_make(&bands, kind, shapes[i].taps, shapes[i].channels > 1 ? 1 : shapes[i].pixel, taps);
      bands.channels = shapes[i].channels;
      falt_toeplitz_choose(&bands, &image, &machine, &cut);
      const falt_cuda_kernel kernel = toeplitz_kernel(&shapes[i], &bands, &cut);
      compile(&kernel, architectures[a], 255, 64); /* what stores results that are not finite has a frame */
    }
}

typedef struct many_taps {
  falt_tiled_problem problem;
  const char *element;
  int type, most_stack;
} many_taps;

static falt_cuda_kernel blocked(const many_taps *m, const falt_tiled *b) {
  const falt_tiled_problem *p = &m->problem;
  falt_cuda_kernel k = {.source = "cuda_tiled.cu", .entry = "falt_tiled", .shared_bytes = b->shared_bytes};
  const struct {
    const char *name;
    int value;
  } defines[] = {{"TYPE_X", m->type},
                 {"TYPE_Y", m->type},
                 {"TYPE_W", FALT_F32},
                 {"PIXEL", p->pixel},
                 {"EPILOGUE", p->epilogue},
                 {"STRIDE_T", p->stride[0]},
                 {"STRIDE_R", p->stride[1]},
                 {"STRIDE_S", p->stride[2]},
                 {"DILATE_T", p->dilation[0]},
                 {"DILATE_R", p->dilation[1]},
                 {"DEPTH", b->depth},
                 {"ROWS", b->rows},
                 {"GROUPS", b->groups},
                 {"GROUP", b->group},
                 {"SPREAD", b->spread},
                 {"LANES", b->lanes},
                 {"LINES", b->lines},
                 {"CHUNK", b->chunk},
                 {"REST", b->rest},
                 {"SPACE", b->space},
                 {"NEXT_TAP", b->next_tap},
                 {"NEXT_RESULT", b->next_result},
                 {"SHIFT", b->shift},
                 {"PITCH", b->pitch},
                 {"DENSE", b->dense},
                 {"BAND_R", b->band[0]},
                 {"BAND_S", b->band[1]},
                 {"BUFFERS", b->buffers},
                 {"WALK", b->walk > 0},
                 {"APART", b->apart},
                 {"FLUSH", b->flush},
                 {"BLOCKS", b->blocks}};
  falt_cuda_define(&k, "ELEMENT_X=%s", m->element);
  falt_cuda_define(&k, "ELEMENT_Y=%s", m->element);
  falt_cuda_define(&k, "SUM=%s", p->sum_bytes == 8 ? "double" : "float");
  for (size_t i = 0; i < sizeof defines / sizeof *defines; i++)
    falt_cuda_define(&k, "%s=%d", defines[i].name, defines[i].value);
  return k;
}

/* As blocks.c cuts them; the mathematical library of the epilogue needs a small frame. */
static void test_blocked(UNUSED void **state) {
  static const many_taps filters[] = {
      {{{1, 9, 9}, {1, 1, 1}, {1, 1, 1}, {1, 4096, 4096}, 1, 1, 4, 4, 4, 4, 0, false}, "float", FALT_F32, 0},
      {{{1, 15, 15}, {1, 1, 1}, {1, 1, 1}, {1, 4096, 4096}, 1, 1, 4, 4, 4, 7, 1, false}, "float", FALT_F32, 0},
      {{{1, 63, 63}, {1, 1, 1}, {1, 1, 1}, {1, 4096, 4096}, 1, 1, 4, 4, 4, 31, 0, false}, "float", FALT_F32, 0},
      {{{7, 7, 7}, {1, 1, 1}, {1, 1, 1}, {512, 512, 512}, 1, 1, 4, 4, 4, 3, 0, false}, "float", FALT_F32, 0},
      {{{1, 9, 9}, {1, 2, 2}, {1, 1, 1}, {1, 2048, 2048}, 1, 1, 2, 2, 4, 4, 0, false}, "unsigned short", FALT_F16, 0},
      {{{1, 9, 9}, {1, 1, 1}, {1, 12, 12}, {1, 2048, 2048}, 1, 1, 4, 4, 4, 48, 0, false}, "float", FALT_F32, 0},
      {{{1, 9, 9}, {1, 1, 1}, {1, 1, 1}, {1, 2048, 6144}, 1, 3, 1, 1, 4, 12, 0, false}, "unsigned char", FALT_U8, 0},
      {{{1, 1, 511}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1 << 24}, 1, 1, 4, 4, 4, 255, 0, false}, "float", FALT_F32, 0},
      {{{3, 7, 7}, {1, 2, 2}, {1, 1, 1}, {64, 256, 256}, 1, 1, 4, 4, 4, 3, 2, false}, "float", FALT_F32, 64},
      {{{1, 9, 9}, {1, 1, 1}, {1, 1, 1}, {1, 2048, 2048}, 1, 1, 8, 8, 8, 4, 0, false}, "double", FALT_F64, 0},
  };
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
      if (!is_turn(a, i)) continue;
      falt_tiled block;
      assert_true(falt_tiled_choose(&filters[i].problem, &h200, &block));
      const falt_cuda_kernel kernel = blocked(&filters[i], &block);
      const int totals = block.flush ? 4 * block.depth * block.rows * block.groups * block.group : 0;
      compile(&kernel, architectures[a], 255, filters[i].most_stack + totals);
    }
}

typedef struct few_channels {
  falt_direct_nchw_problem problem;
  const char *element;
  int type, activation;
} few_channels;

static falt_cuda_kernel layer(const few_channels *l, const falt_direct_nchw_tile *tile) {
  const falt_direct_nchw_problem *p = &l->problem;
  falt_cuda_kernel k = {.source = "cuda_direct_nchw.cu", .entry = "falt_direct_nchw"};
  for (int i = 0; i < 2; i++) {
    falt_cuda_define(&k, "TAPS_%c=%d", "RS"[i], p -> taps[i]);
    falt_cuda_define(&k, "STRIDE_%c=%d", "HW"[i], p -> stride[i]);
    falt_cuda_define(&k, "DILATE_%c=%d", "RS"[i], p -> dilation[i]);
    falt_cuda_define(&k, "POOL_%c=%d", "HW"[i], p -> pool[i]);
    falt_cuda_define(&k, "ELEMENT_%c=%s", "XY"[i], l -> element);
    falt_cuda_define(&k, "TYPE_%c=%d", "XY"[i], l -> type);
    falt_cuda_define(&k, "%c_LAST=%d", "XY"[i], p -> y_last);
  }
  falt_cuda_define(&k, "TYPE_W=%d", l->type);
  falt_cuda_define(&k, "SUM=float");
  falt_cuda_define(&k, "TINY=0");
  falt_cuda_define(&k, "FOLD=%d", p->dilation[0] > 1);
  falt_cuda_define(&k, "CHANNELS=%d", p->channels);
  falt_cuda_define(&k, "ACTIVATION=%d", l->activation);
  falt_direct_nchw_defines(&k, tile);
  return k;
}

/* As layers.c cuts them, which counts registers; a few more than it thinks are allowed for. */
static void test_layer(UNUSED void **state) {
  static const few_channels layers[] = {
      {{1, {5, 5}, {1, 1}, {1, 1}, {1, 1}, {28, 28}, 16, 64, 4, 4, 8, false}, "float", FALT_F32, FALT_IDENTITY},
      {{3, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {112, 112}, 64, 16, 2, 2, 8, true}, "unsigned short", FALT_F16, FALT_RELU},
      {{6, {3, 3}, {1, 1}, {2, 2}, {1, 3}, {10, 10}, 24, 3, 1, 1, 8, false}, "signed char", FALT_S8, FALT_CLIP},
  };
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
      if (!is_turn(a, i)) continue;
      falt_direct_nchw_tile tile;
      assert_true(falt_direct_nchw_choose(&layers[i].problem, &h200, &tile));
      const falt_cuda_kernel kernel = layer(&layers[i], &tile);
      compile(&kernel, architectures[a], tile.registers + 24, 0);
    }
}

static void test_bad_source(UNUSED void **state) {
  need_compiler();
  falt_cuda_kernel kernel = generic(0, "no_such_type", "float", false, false);
  falt_cuda_binary binary;
  assert_int_equal(falt_cuda_compile(&kernel, "sm_90a", &binary, NULL), FALT_INTERNAL);
  assert_non_null(strstr(falt_message(), "error"));
  kernel = (falt_cuda_kernel){.source = "no_such.cu"};
  assert_int_equal(falt_cuda_compile(&kernel, "sm_90a", &binary, NULL), FALT_INTERNAL);
}

/* Compile-time parameters that do not fit are never cut silently: one digit less is another kernel. */
static void test_bad_kernel(UNUSED void **state) {
  falt_cuda_kernel kernel = {.source = "cuda_generic.cu"};
  for (int i = 0; i < FALT_CUDA_DEFINES; i++) falt_cuda_define(&kernel, "HOLE_%d=%d", i, i);
  assert_int_equal(falt_cuda_kernel_check(&kernel), FALT_OK);
  falt_cuda_define(&kernel, "ONE_MORE=1");
  assert_int_equal(falt_cuda_kernel_check(&kernel), FALT_INTERNAL);
  kernel = (falt_cuda_kernel){.source = "cuda_generic.cu"};
  falt_cuda_define(&kernel, "%0*d", FALT_CUDA_DEFINE - 1, 1);
  assert_int_equal(falt_cuda_kernel_check(&kernel), FALT_OK);
  falt_cuda_define(&kernel, "%0*d", FALT_CUDA_DEFINE, 1);
  assert_int_equal(falt_cuda_kernel_check(&kernel), FALT_INTERNAL);
}

/* What NVRTC does not know is said in terms of what to install. */
static void test_architectures(UNUSED void **state) {
  need_compiler();
  const falt_cuda_kernel kernel = generic(0, "float", "float", false, false);
  falt_cuda_binary binary;
  assert_int_equal(falt_cuda_compile(&kernel, "sm_35", &binary, NULL), FALT_NO_DEVICE);
  assert_non_null(strstr(falt_message(), "not for sm_35; install an older one"));
  assert_int_equal(falt_cuda_compile(&kernel, "sm_990a", &binary, NULL), FALT_NO_DEVICE);
  assert_non_null(strstr(falt_message(), "not for sm_990a; install a newer one"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_source), cmocka_unit_test(test_bad_kernel), cmocka_unit_test(test_architectures),
      cmocka_unit_test(test_generic),    cmocka_unit_test(test_im2col),     cmocka_unit_test(test_copies),
      cmocka_unit_test(test_rate),       cmocka_unit_test(test_tile),       cmocka_unit_test(test_25d),
      cmocka_unit_test(test_toeplitz),   cmocka_unit_test(test_blocked),    cmocka_unit_test(test_layer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
