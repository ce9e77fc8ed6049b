/* Tests of the table of architectures, and of how many blocks a multiprocessor holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "machines.h"

#define UNUSED __attribute__((unused))

/* Rows ascend, so that the newest that is not newer than a GPU is found. */
static void test_order(UNUSED void **state) {
  for (int i = 0; i < FALT_ARCHITECTURES; i++) {
    const falt_architecture *a = &falt_architectures[i];
    assert_ptr_equal(falt_architecture_of(a->major, a->minor), a);
    assert_true(a->block_shared >= 64 << 10 && a->block_shared % 1024 == 0 && a->mma_bytes > 0 && a->mma_starts > 0);
    if (i > 0) assert_true(10 * a->major + a->minor > 10 * a[-1].major + a[-1].minor);
  }
}

/* GPUs that the table does not have are as the next older ones. */
static void test_unknown(UNUSED void **state) {
  assert_ptr_equal(falt_architecture_of(7, 2), &falt_architectures[FALT_SM_70]);
  assert_ptr_equal(falt_architecture_of(8, 8), &falt_architectures[FALT_SM_87]);
  assert_ptr_equal(falt_architecture_of(12, 1), &falt_architectures[FALT_SM_120]);
  assert_ptr_equal(falt_architecture_of(99, 9), &falt_architectures[FALT_SM_120]);
  assert_ptr_equal(falt_architecture_of(6, 1), &falt_architectures[FALT_SM_70]);
}

/* wgmma is Hopper's alone. */
static void test_features(UNUSED void **state) {
  for (int i = 0; i < FALT_ARCHITECTURES; i++) {
    assert_int_equal(falt_architectures[i].wgmma, i == FALT_SM_90);
    assert_int_equal(falt_architectures[i].async, i >= FALT_SM_80);
  }
}

static void test_blocks(UNUSED void **state) {
  static const falt_machine consumer = RTX5090;
  assert_int_equal(falt_blocks_by_registers(128, 64), 8);
  assert_int_equal(falt_blocks_by_registers(128, 57), 8); /* registers come by eight */
  assert_int_equal(falt_blocks_by_registers(256, 65), 3);
  assert_int_equal(falt_blocks_by_quarters(4, 64), 8);
  assert_int_equal(falt_blocks_by_quarters(4, 200), 2);   /* two warps of each quarter */
  assert_int_equal(falt_blocks_by_registers(96, 200), 3); /* as one file */
  assert_int_equal(falt_blocks_by_quarters(3, 200), 2);   /* eight warps */
  assert_int_equal(falt_blocks_by_shared(&h200, 227 << 10), 1);
  assert_int_equal(falt_blocks_by_shared(&h200, 113 << 10), 2);
  assert_int_equal(falt_blocks_by_shared(&consumer, 113 << 10), 0);
  assert_true(falt_mma_bytes(&h200, 8) < falt_mma_bytes(&h200, 2) &&
              falt_mma_bytes(&h200, 4) == falt_mma_bytes(&h200, 2));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_unknown),
                                     cmocka_unit_test(test_features), cmocka_unit_test(test_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
