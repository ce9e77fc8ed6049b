/* Tests of the search over tiles: which candidate it keeps, and which sizes of pieces it enumerates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/memory.h"
#include "solver/cuda/common/tile_search.h"

#define UNUSED __attribute__((unused))

typedef struct tile {
  int number;
  const char *rejected;
} tile;

static void count(void *context, const void *candidate) {
  int *sum = context;
  *sum += ((const tile *)candidate)->number;
}

static void offer(falt_tile_search *search, int number, const char *rejected, double seconds) {
  const tile t = {number, rejected};
  falt_tile_offer(search, &t, rejected, seconds);
}

static void keeps_the_fastest(UNUSED void **state) {
  tile best;
  falt_tile_search search = falt_tile_search_best(&best, sizeof best);
  offer(&search, 1, "too large", 0);
  offer(&search, 2, NULL, 5);
  offer(&search, 3, NULL, 4);
  offer(&search, 4, NULL, 4);
  offer(&search, 5, "too small", 1);
  assert_true(search.found && search.seen);
  assert_int_equal(best.number, 3);
  assert_true(search.seconds == 4);
}

static void keeps_the_first_reason(UNUSED void **state) {
  tile best;
  falt_tile_search search = falt_tile_search_best(&best, sizeof best);
  assert_true(best.number == 0 && !search.seen);
  offer(&search, 1, "too large", 0);
  offer(&search, 2, "too small", 0);
  assert_true(!search.found && search.seen);
  assert_string_equal(best.rejected, "too large");
}

static void visits_each(UNUSED void **state) {
  int sum = 0;
  falt_tile_search search = {.visit = count, .context = &sum};
  offer(&search, 1, NULL, 1);
  offer(&search, 10, NULL, 2);
  offer(&search, 100, "too large", 0);
  assert_int_equal(sum, 111);
}

/* The sizes of equal pieces, from one piece to `most`, each once. */
static void enumerates_pieces(UNUSED void **state) {
  for (int64_t whole = 1; whole <= 80; whole++)
    for (int64_t most = 1; most <= whole + 2; most++) {
      int64_t size = whole + 1, before = 0;
      for (int64_t pieces = 1; pieces <= most && pieces <= whole; pieces++) {
        const int64_t expected = falt_ceil_div(whole, pieces);
        if (expected == before) continue;
        before = expected;
        size = falt_piece_below(whole, most, size);
        assert_int_equal(size, expected);
      }
      assert_int_equal(falt_piece_below(whole, most, size), 0);
    }
  assert_int_equal(falt_piece_below(100, 100, 33), 25);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_the_fastest), cmocka_unit_test(keeps_the_first_reason),
                                     cmocka_unit_test(visits_each), cmocka_unit_test(enumerates_pieces)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
