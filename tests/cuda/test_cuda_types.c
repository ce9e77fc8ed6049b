/* Tests of the element types as CUDA knows them: every type has a row, and kinds of products fit the types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "cuda/types.h"

#define UNUSED __attribute__((unused))

static void test_every_type_has_a_row(UNUSED void **state) {
  for (falt_type type = 0; type < FALT_TYPE_COUNT; type++) {
    const falt_cuda_type *t = &falt_cuda_types[type];
    assert_non_null(t->element);
    assert_int_equal(t->cudnn == FALT_CUDA_NONE, !falt_type_is_float(type));
    assert_int_equal(t->cublas == FALT_CUDA_NONE, !falt_type_is_float(type));
    const bool bits = falt_type_is_half(type) || type == FALT_U8 || type == FALT_U16;
    assert_int_equal(strcmp(t->element, falt_cuda_bits(falt_type_size(type))) == 0, bits);
    for (falt_type other = 0; other < type; other++) {
      if (t->products) assert_ptr_not_equal(t->products, falt_cuda_types[other].products);
      if (t->map != FALT_CUDA_NONE) assert_int_not_equal(t->map, falt_cuda_types[other].map);
      if (t->cublas != FALT_CUDA_NONE) assert_int_not_equal(t->cublas, falt_cuda_types[other].cublas);
    }
  }
}

static void test_products(UNUSED void **state) {
  int pairs = 0;
  for (falt_type a = 0; a < FALT_TYPE_COUNT; a++)
    for (falt_type b = 0; b < FALT_TYPE_COUNT; b++) pairs += falt_cuda_products(a, b) != NULL;
  assert_int_equal(pairs, 4 + 4); /* four floats with themselves, bytes with bytes */
  assert_string_equal(falt_cuda_products(FALT_BF16, FALT_BF16), "BRAINS");
  assert_string_equal(falt_cuda_products(FALT_U8, FALT_S8), "MIXED_BYTES");
  assert_string_equal(falt_cuda_products(FALT_S8, FALT_U8), "BYTES");
  assert_null(falt_cuda_products(FALT_F16, FALT_BF16));
  assert_null(falt_cuda_products(FALT_S16, FALT_S16));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_type_has_a_row), cmocka_unit_test(test_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
