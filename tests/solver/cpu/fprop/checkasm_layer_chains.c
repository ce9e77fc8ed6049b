/* Products of short chains, by every instruction set that this machine runs: the error of their
 * sums. checkasm_layer.c has everything else about products. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "solver/cpu/fprop/layer_kernels.h"

enum { SEGMENTS = 5, DEPTH = 4, TERMS = SEGMENTS * DEPTH };

/* 1 and 16 halves of its last place: the sum in sequence loses all but the 1, chains of 4 halves lose nothing. */
static void check_chains(const falt_layer_kernels *kernels) {
  static _Alignas(64) float panel[TERMS * FALT_LAYER_WIDEST];
  const float row[DEPTH] = {1, 1, 1, 1};
  const void *a[SEGMENTS] = {row, row, row, row, row};
  float result = 0;
  void *out[1] = {&result};
  for (int j = 0; j < TERMS; j++) panel[j * kernels->width] = j == 0 ? 1 : j < DEPTH ? 0 : 0x1p-24F;
  falt_layer_product call = {
      .a = a, .b = panel, .out = out, .a_pitch = 1, .segments = SEGMENTS, .depth = DEPTH, .n = 1, .rows = 1};
  kernels->product(&call);
  assert_true(result == 1);
  call.chain = DEPTH;
  kernels->product(&call);
  assert_true(result == 1 + 0x1p-20F);
}

/* A sum of f64 is one chain, which a second call continues. */
static void check_one_chain(const falt_layer_kernels *kernels) {
  static _Alignas(64) double panel[2 * DEPTH * FALT_LAYER_WIDEST];
  const double row[DEPTH] = {1, 1, 1, 1};
  const void *a[1] = {row};
  double whole = 0, parts = 0;
  void *out[1] = {&whole};
  for (int j = 0; j < 2 * DEPTH; j++) panel[j * kernels->width] = j == 0 ? 1 : j < DEPTH ? 0 : 0x1p-53;
  falt_layer_product call = {.a = a, .b = panel, .out = out, .segments = 2, .depth = DEPTH, .n = 1, .rows = 1};
  kernels->product(&call);
  out[0] = &parts;
  call.segments = 1;
  kernels->product(&call);
  call.b = panel + DEPTH * kernels->width;
  call.accumulate = true;
  kernels->product(&call);
  assert_true(whole == 1 && parts == 1);
}

static void test_chains(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (falt_isa_runs((falt_isa)isa)) check_chains(falt_layer_kernels_for((falt_isa)isa));
}

static void test_one_chain(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (falt_isa_runs((falt_isa)isa)) check_one_chain(falt_layer_kernels_f64_for((falt_isa)isa));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains), cmocka_unit_test(test_one_chain)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
