/* One axis of a problem: boundaries against folding by hand, and the pairs of outputs and inputs that a tap
 * connects. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/random.h"
#include "problem/problem.h"

/* The boundaries as their pictures say, one fold at a time. */
static int64_t fold(falt_boundary boundary, int64_t n, int64_t u) {
  if (boundary == FALT_CONSTANT) return u < 0 || u >= n ? -1 : u;
  if (boundary == FALT_REFLECT101 && n == 1) return 0;
  while (u < 0 || u >= n) {
    bool before = u < 0;
    switch (boundary) {
      case FALT_EDGE:
        u = before ? 0 : n - 1;
        break;
      case FALT_SYMMETRIC:
        u = before ? -1 - u : 2 * n - 1 - u;
        break;
      case FALT_REFLECT101:
        u = before ? -u : 2 * n - 2 - u;
        break;
      default:
        u += before ? n : -n;
        break;
    }
  }
  return u;
}

static falt_axis axis_with(int before, int after) {
  return (falt_axis){.stride = 1, .dilation = 1, .boundary = {(falt_boundary)before, (falt_boundary)after}};
}

static void test_map_folds(void **state) {
  (void)state;
  for (int pair = 0; pair < FALT_BOUNDARY_COUNT * FALT_BOUNDARY_COUNT; pair++) {
    falt_axis axis = axis_with(pair / FALT_BOUNDARY_COUNT, pair % FALT_BOUNDARY_COUNT);
    for (int64_t n = 1; n <= 6; n++) {
      for (int64_t u = -30; u <= 30; u++)
        assert_int_equal(falt_axis_map(&axis, n, u), fold(axis.boundary[u >= n], n, u));
    }
  }
}

static void test_map_reaches_far(void **state) {
  (void)state;
  const int64_t far = INT64_C(1) << 60, n = (INT64_C(1) << 59) + 3;
  for (int mode = 0; mode < FALT_BOUNDARY_COUNT; mode++) {
    falt_axis axis = axis_with(mode, mode);
    for (int64_t u = far - 2; u <= far; u++) {
      int64_t size = mode == FALT_EDGE ? 5 : n;
      assert_int_equal(falt_axis_map(&axis, size, u), fold((falt_boundary)mode, size, u));
      assert_int_equal(falt_axis_map(&axis, size, -u), fold((falt_boundary)mode, size, -u));
    }
  }
}

static void check_preimage(const falt_axis *axis, int64_t n, int64_t i, int64_t low, int64_t high) {
  int64_t u = low - 1;
  for (int64_t v = low; v <= high; v++) {
    if (falt_axis_map(axis, n, v) != i) continue;
    assert_true(falt_axis_preimage(axis, n, i, low, high, &u));
    assert_int_equal(u, v);
  }
  assert_false(falt_axis_preimage(axis, n, i, low, high, &u));
}

/* Every position of a piece maps where the slope says, and the position behind a piece does not. */
static void check_piece(const falt_axis *axis, int64_t n, int64_t u) {
  int slope;
  const int64_t first = falt_axis_map(axis, n, u), count = falt_min(falt_axis_piece(axis, n, u, &slope), 40);
  assert_true(count >= 1);
  for (int64_t k = 0; k < count; k++) assert_int_equal(falt_axis_map(axis, n, u + k), first + slope * k);
}

static void test_pieces_are_affine(void **state) {
  (void)state;
  for (int before = 0; before < FALT_BOUNDARY_COUNT; before++)
    for (int after = 0; after < FALT_BOUNDARY_COUNT; after++)
      for (int64_t n = 1; n < 6; n++)
        for (int64_t u = -20; u < 20 + n; u++)
          check_piece(&(falt_axis){.boundary = {(falt_boundary)before, (falt_boundary)after}}, n, u);
  int slope;
  const falt_axis axis = {.boundary = {FALT_REFLECT101, FALT_WRAP}};
  assert_int_equal(falt_axis_piece(&axis, 1000, -1997, &slope), 999); /* 1 to 999 */
  assert_int_equal(falt_axis_piece(&axis, 1000, 0, &slope), 1000);
  assert_int_equal(falt_axis_piece(&axis, 1000, 5000, &slope), 1000);
}

static void test_preimage_inverts_map(void **state) {
  (void)state;
  const int64_t ranges[][2] = {{-30, 30}, {-7, -2}, {0, 4}, {3, 17}, {8, 30}, {-30, -30}, {2, 1}, {-1, 0}};
  for (int pair = 0; pair < FALT_BOUNDARY_COUNT * FALT_BOUNDARY_COUNT; pair++) {
    falt_axis axis = axis_with(pair / FALT_BOUNDARY_COUNT, pair % FALT_BOUNDARY_COUNT);
    for (int64_t n = 1; n <= 6; n++) {
      for (int64_t i = 0; i < n; i++) {
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
          check_preimage(&axis, n, i, ranges[r][0], ranges[r][1]);
      }
    }
  }
}

static bool inside(const falt_axis *axis, int64_t in, int64_t taps, int64_t o) {
  int64_t first = o * axis->stride - axis->pad[0];
  return first >= 0 && first + falt_extent(axis, taps) <= in;
}

static void test_inside_counts_pairs(void **state) {
  (void)state;
  uint64_t random = 7;
  for (int i = 0; i < 5000; i++) {
    const falt_axis axis = {.stride = falt_random_int(&random, 1, 4),
                            .dilation = falt_random_int(&random, 1, 4),
                            .pad = {falt_random_int(&random, -9, 30), 0}};
    const int64_t in = falt_random_int(&random, 1, 20), taps = falt_random_int(&random, 1, 12);
    const int64_t out = falt_random_int(&random, 1, 20);
    int64_t inside = 0;
    for (int64_t o = 0; o < out; o++)
      for (int64_t j = 0; j < taps; j++) {
        const int64_t u = o * axis.stride + j * axis.dilation - axis.pad[0];
        inside += u >= 0 && u < in;
      }
    assert_true(falt_axis_inside(&axis, in, taps, out) == (double)inside / (double)(taps * out));
  }
}

static void test_interior_is_exact(void **state) {
  (void)state;
  uint64_t random = 7;
  for (int i = 0; i < 20000; i++) {
    falt_axis axis = axis_with(FALT_EDGE, FALT_EDGE);
    int64_t in = falt_random_int(&random, 1, 12), taps = falt_random_int(&random, 1, 6), begin, end;
    int64_t out = falt_random_int(&random, 1, 14);
    axis.stride = falt_random_int(&random, 1, 4);
    axis.dilation = falt_random_int(&random, 1, 3);
    axis.pad[0] = falt_random_int(&random, -5, 9);
    falt_axis_interior(&axis, in, taps, out, &begin, &end);
    assert_true(0 <= begin && begin <= end && end <= out);
    for (int64_t o = 0; o < out; o++) assert_int_equal(o >= begin && o < end, inside(&axis, in, taps, o));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_map_folds),           cmocka_unit_test(test_map_reaches_far),
      cmocka_unit_test(test_pieces_are_affine),   cmocka_unit_test(test_preimage_inverts_map),
      cmocka_unit_test(test_inside_counts_pairs), cmocka_unit_test(test_interior_is_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
