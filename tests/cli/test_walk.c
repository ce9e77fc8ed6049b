/* Tests of suite lines that expand to many problems, and of the definition of a cliff. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "../../cli/walk.h"

#define UNUSED __attribute__((unused))

static void check_point(const char *line, int walk, int point, const char *text, const char *suffix) {
  char got[128], name[32];
  assert_true(cli_walk_expand(line, walk, point, got, sizeof got, name, sizeof name));
  assert_string_equal(got, text);
  assert_string_equal(name, suffix);
}

static void test_lines(UNUSED void **state) {
  const char *line = "x {forward,backward-data} c=[1,16] k=[2,32] layout={nhwc,nchw,ncw} @ [1,2";
  cli_walk walk;
  assert_true(cli_walk_measure(line, &walk));
  assert_int_equal(walk.walks, 6);
  assert_int_equal(walk.points, 2);
  check_point(line, 0, 0, "x forward c=1 k=2 layout=nhwc @ [1,2", "-forward-nhwc-1");
  check_point(line, 1, 1, "x backward-data c=16 k=32 layout=nhwc @ [1,2", "-backward-data-nhwc-16");
  check_point(line, 5, 0, "x backward-data c=1 k=2 layout=ncw @ [1,2", "-backward-data-ncw-1");
}

static void test_plain_line(UNUSED void **state) {
  cli_walk walk;
  assert_true(cli_walk_measure("correlate h=3 w=3 @ 1 2 1", &walk));
  assert_int_equal(walk.walks * walk.points, 1);
  check_point("correlate h=3 w=3 @ 1 2 1", 0, 0, "correlate h=3 w=3 @ 1 2 1", "");
}

static void test_wrong_lines(UNUSED void **state) {
  static const char *const wrong[] = {"c=[1,2",      "c=1,2]",  "c=[1,2} k=3", "c=[1,2] k=[1,2,3]",
                                      "c={1,[2,3]}", "c={1 @ }"};
  cli_walk walk;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(cli_walk_measure(wrong[i], &walk));
}

static void test_bounds(UNUSED void **state) {
  char text[8], name[4];
  assert_false(cli_walk_expand("c=[12345678]", 0, 0, text, sizeof text, name, sizeof name));
  assert_false(cli_walk_expand("c=[1234]", 0, 0, text, sizeof text, name, sizeof name));
  assert_true(cli_walk_expand("c=[12]", 0, 0, text, sizeof text, name, sizeof name));
}

static void test_rises(UNUSED void **state) {
  const double cost[] = {NAN, 8, 2, NAN, 5, 3, 3};
  int beside;
  assert_true(fabs(cli_walk_rise(cost, 7, 1, &beside) - 4) < 1e-12); /* at an end: its only neighbour */
  assert_int_equal(beside, 2);
  assert_true(fabs(cli_walk_rise(cost, 7, 4, &beside) - 2.5) < 1e-12); /* across a point without a time */
  assert_int_equal(beside, 2);
  assert_true(fabs(cli_walk_rise(cost, 7, 5, &beside) - 1) < 1e-12); /* the cheaper neighbour */
  assert_int_equal(beside, 6);
  assert_true(isnan(cli_walk_rise(cost, 7, 0, &beside)));
  assert_true(isnan(cli_walk_rise(cost + 1, 1, 0, &beside)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),  cmocka_unit_test(test_plain_line), cmocka_unit_test(test_wrong_lines),
      cmocka_unit_test(test_bounds), cmocka_unit_test(test_rises),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
