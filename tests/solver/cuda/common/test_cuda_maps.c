/* Tests of TMA descriptors: the driver accepts them for every number of pixels and channels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "solver/cuda/common/cuda_maps.h"

#define UNUSED __attribute__((unused))

/* Images of h x 7 contiguous pixels, `pitch` elements from channel to channel. */
static falt_tensor planar(int64_t images, int64_t channels, int64_t h, int64_t pitch) {
  return (falt_tensor){
      .type = FALT_F16, .size = {images, 1, channels, 1, h, 7}, .stride = {channels * pitch, 0, pitch, 0, 7, 1}};
}

static void check(const falt_tensor *t) {
  const falt_gpu_map m = falt_map_planes(t, NULL, 64);
  assert_int_equal(m.rank, 5);
  assert_int_equal(m.size[0], t->size[FALT_H] * 7);
  assert_int_equal(m.size[1], t->size[FALT_C]);
  assert_int_equal(m.size[2], t->size[FALT_N]);
  for (int i = 0; i < m.rank; i++) assert_true(m.size[i] >= 1 && m.box[i] >= 1 && m.box[i] <= 256 && m.pace[i] == 1);
  for (int i = 1; i < m.rank; i++) assert_true(m.stride[i] % 16 == 0 && m.stride[i] < UINT64_C(1) << 40);
  if (t->size[FALT_C] > 1) assert_int_equal(m.stride[1], 2 * t->stride[FALT_C]);
  if (t->size[FALT_N] > 1) assert_int_equal(m.stride[2], 2 * t->stride[FALT_N]);
}

/* A single channel or image has a stride that nobody steps along, and that 16 bytes divide none the less. */
static void test_planes(UNUSED void **state) {
  for (int64_t images = 1; images <= 2; images++)
    for (int64_t channels = 1; channels <= 3; channels++)
      for (int64_t h = 1; h <= 17; h++) {
        const falt_tensor t = planar(images, channels, h, (h * 7 + 7) / 8 * 8);
        check(&t);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_planes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
