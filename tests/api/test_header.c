/* The examples in faltung.h: pads, boundaries, a part of an image. */
#include "api_fixture.h"

/* Sums of the inputs under three taps of 1, 10 and 100, zeros beyond. */
static void test_pads(UNUSED void **state) {
  static const struct {
    const char *line;
    int inputs, outputs;
    float expected[5];
  } cases[] = {
      {"pad=1", 5, 5, {210, 321, 432, 543, 54}}, {"pad=2:0", 5, 5, {100, 210, 321, 432, 543}},
      {"pad=0", 5, 3, {321, 432, 543}},          {"pad=0:-1", 5, 2, {321, 432}},
      {"pad=1 stride=2", 6, 3, {210, 432, 654}},
  };
  const float x[] = {1, 2, 3, 4, 5, 6}, w[] = {1, 10, 100};
  falt_device *device = device_with("", 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[96];
    float y[5] = {0};
    falt_plan *plan;
    snprintf(line, sizeof line, "forward c=1 k=1 w=%d s=3 %s", cases[i].inputs, cases[i].line);
    assert_int_equal(parse(line).output.size[FALT_W], cases[i].outputs);
    assert_int_equal(falt_plan_create_line(&plan, device, line, w), FALT_OK);
    assert_int_equal(falt_execute_host(plan, &(falt_operands){.input = (void *)(uintptr_t)x, .output = y}), FALT_OK);
    assert_memory_equal(y, cases[i].expected, sizeof y);
    falt_plan_destroy(&plan);
  }
  falt_device_destroy(&device);
}

/* How a b c d goes on: three elements before and behind, constant k. */
static void test_boundaries(UNUSED void **state) {
  static const struct {
    const char *name, *expected;
  } cases[] = {{"constant", "kkkabcdkkk"},
               {"edge", "aaaabcdddd"},
               {"symmetric", "cbaabcddcb"},
               {"reflect101", "dcbabcdcba"},
               {"wrap", "bcdabcdabc"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[64], text[11] = "";
    snprintf(line, sizeof line, "correlate w=4 s=3 boundary=%s", cases[i].name);
    const falt_problem problem = parse(line);
    for (int at = -3; at < 7; at++) {
      const int64_t row = falt_problem_row(&problem, 2, at);
      text[at + 3] = row < 0 ? 'k' : "abcd"[row];
    }
    assert_string_equal(text, cases[i].expected);
  }
}

enum { HEIGHT = 250, WIDTH = 40 };

/* falt_problem_part's example: the first 100 rows equal those of the whole image. */
static void test_part(UNUSED void **state) {
  static float image[HEIGHT * WIDTH], whole[HEIGHT * WIDTH], rows[102 * WIDTH], result[100 * WIDTH];
  float taps[9];
  falt_device *device = device_with("", 1);
  const falt_problem problem = parse("correlate h=250 w=40 r=3 s=3 boundary=edge");
  falt_plan *plan;
  falt_part part;
  falt_random_fill(image, FALT_F32, HEIGHT * WIDTH, 1);
  falt_random_fill(taps, FALT_F32, 9, 2);
  assert_int_equal(falt_plan_create(&plan, device, &problem, NULL, taps), FALT_OK);
  assert_int_equal(falt_execute_host(plan, &(falt_operands){.input = image, .output = whole}), FALT_OK);
  falt_plan_destroy(&plan);

  assert_int_equal(falt_problem_part(&part, &problem, 1, 0, 100), FALT_OK);
  assert_true(part.first == -1 && part.last == 101);
  for (int64_t r = part.first; r < part.last; r++)
    memcpy(rows + (r - part.first) * WIDTH, image + falt_problem_row(&problem, 1, r) * WIDTH, WIDTH * sizeof *rows);
  assert_int_equal(falt_plan_create(&plan, device, &part.problem, NULL, taps), FALT_OK);
  assert_int_equal(falt_execute_host(plan, &(falt_operands){.input = rows, .output = result}), FALT_OK);
  for (int i = 0; i < 100 * WIDTH; i++) assert_float_equal(result[i], whole[i], 1e-6);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

/* Integers, also in floats: sums are exact in any order. */
static void fill(void *data, const falt_tensor *tensor) {
  const int64_t count = falt_tensor_span(tensor);
  if (tensor->type != FALT_F32) falt_random_fill(data, tensor->type, count, 1);
  for (int64_t i = 0; tensor->type == FALT_F32 && i < count; i++) ((float *)data)[i] = (float)(i * 7919 % 17 - 8);
}

/* Operands need the alignment of their elements only. */
static void test_alignment(UNUSED void **state) {
  static const char *const lines[] = {
      "correlate h=9 w=40 r=3 s=3",
      "correlate h=9 w=40 r=3 s=3 type=u8 weight-type=s8 out-type=s32",
      "forward n=2 c=8 h=9 w=9 k=16 r=3 s=3 pad=1 layout=nhwc",
      "forward n=2 c=8 h=9 w=9 k=16 r=3 s=3 pad=1 layout=nhwc type=u8 weight-type=s8 out-type=s32",
  };
  falt_device *device = device_with("", 2);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    falt_plan *plan;
    const falt_problem p = parse(lines[i]);
    static char memory[2][3][1 << 14] __attribute__((aligned(64)));
    static char workspace[1 << 18] __attribute__((aligned(64)));
    assert_int_equal(falt_plan_create(&plan, device, &p, NULL, NULL), FALT_OK);
    assert_true(falt_plan_workspace(plan) <= sizeof workspace);
    for (size_t shift = 0; shift < 2; shift++) {
      char *x = memory[shift][0] + shift * falt_type_size(p.input.type);
      char *w = memory[shift][1] + shift * falt_type_size(p.filter.type);
      char *y = memory[shift][2] + shift * falt_type_size(p.output.type);
      fill(x, &p.input);
      fill(w, &p.filter);
      const falt_operands operands = {.input = x, .filter = w, .output = y, .workspace = workspace};
      assert_int_equal(falt_execute(plan, &operands), FALT_OK);
    }
    assert_memory_equal(memory[0][2], memory[1][2] + falt_type_size(p.output.type), falt_plan_bytes(plan, "output"));
    falt_plan_destroy(&plan);
  }
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_pads, set_up),
      cmocka_unit_test_setup(test_boundaries, set_up),
      cmocka_unit_test_setup(test_part, set_up),
      cmocka_unit_test_setup(test_alignment, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
