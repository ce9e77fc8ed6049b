/* Tests of the list of allocated spans of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/memory.h"
#include "cuda/spans.h"

#define UNUSED __attribute__((unused))

enum { PLACES = 200, PITCH = 1000 };

/* Spans of 1 to 900 bytes at places 1000 apart come and go; a table says which are there. */
static void test_as_a_table(UNUSED void **state) {
  falt_spans spans;
  size_t bytes[PLACES] = {0};
  uint64_t seed = 7;
  falt_spans_init(&spans);
  for (int i = 0; i < 20000; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const unsigned random = (unsigned)(seed >> 40), place = random % PLACES, offset = random / PLACES % PITCH;
    const uintptr_t begin = (uintptr_t)(place + 1) * PITCH;
    assert_int_equal(falt_spans_have(&spans, begin + offset), offset < bytes[place]);
    if (bytes[place]) {
      falt_spans_remove(&spans, begin);
      bytes[place] = 0;
    } else {
      bytes[place] = 1 + random % 900;
      falt_spans_add(&spans, begin, bytes[place]);
    }
  }
  falt_spans_remove(&spans, 1); /* there is none */
  assert_false(falt_spans_have(&spans, 0));
  assert_false(falt_spans_have(&spans, UINTPTR_MAX));
  falt_spans_free(&spans);
}

static void test_without_memory(UNUSED void **state) {
  falt_spans spans;
  falt_spans_init(&spans);
  falt_alloc_fail_after(0);
  falt_spans_add(&spans, 4096, 16);
  falt_alloc_fail_after(-1);
  assert_false(falt_spans_have(&spans, 4096));
  falt_spans_add(&spans, 4096, 16);
  assert_true(falt_spans_have(&spans, 4096 + 15));
  assert_false(falt_spans_have(&spans, 4096 + 16));
  falt_spans_free(&spans);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_a_table), cmocka_unit_test(test_without_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
