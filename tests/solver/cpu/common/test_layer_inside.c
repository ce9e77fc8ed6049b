/* Tests of which taps calls of a layer's kernel leave out: every position is in one call, every tap that it reads
 * inside is summed, and the calls of small planes sum little more than these. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/cpu.h"
#include "solver/cpu/common/layer_inside.h"

enum { MOST_POSITIONS = 4096, MOST_TAPS = 4096 };

static falt_layer layer_of(const char *line) {
  falt_problem problem;
  falt_budget budget;
  falt_layer layer;
  assert_int_equal(falt_problem_parse(&problem, &budget, line), FALT_OK);
  assert_null(falt_layer_init(&layer, &problem, FALT_ISA_PORTABLE));
  return layer;
}

/* Positions in their order, as points and boxes. */
typedef struct order {
  const falt_layer *layer;
  int64_t count;
  int64_t positions[MOST_POSITIONS];
  falt_box boxes[MOST_POSITIONS];
} order;

static void take(void *context, const falt_layer_point *at, int64_t count, const falt_box *taps) {
  order *o = context;
  const int64_t *size = o->layer->p.output.size;
  const int64_t first = ((at->n * size[FALT_D] + at->at[0]) * size[FALT_H] + at->at[1]) * size[FALT_W] + at->at[2];
  assert_true(at->at[2] + count <= size[FALT_W]);
  for (int64_t i = 0; i < count; i++, o->count++) {
    o->positions[o->count] = first + i;
    o->boxes[o->count] = *taps;
  }
}

/* Pairs of a position and a tap that lie inside; each of the position's is in the list. */
static int64_t inside_of(const falt_layer *layer, int64_t position, const int32_t *list, int64_t count) {
  const falt_layer_point at = falt_layer_point_at(layer, position);
  const int64_t *taps = layer->p.filter.size;
  int64_t inside = 0, found = 0;
  for (int64_t tap = 0; tap < layer->taps; tap++) {
    const int64_t s = tap % taps[FALT_W], r = tap / taps[FALT_W] % taps[FALT_H], t = tap / taps[FALT_W] / taps[FALT_H];
    const bool lies = falt_layer_source(layer, 0, at.at[0], t) >= 0 && falt_layer_source(layer, 1, at.at[1], r) >= 0 &&
                      falt_layer_source(layer, 2, at.at[2], s) >= 0;
    bool listed = false;
    for (int64_t i = 0; i < count; i++) listed |= list[i] == tap;
    inside += lies;
    found += lies && listed;
  }
  assert_int_equal(inside, found);
  return inside;
}

/* Pairs that calls of `most` rows sum for positions [first, first + count); *inside gets those that lie inside. */
static int64_t check(const char *line, int64_t first, int64_t count, int64_t most, int64_t *inside) {
  static order o;
  static falt_inside_call calls[MOST_POSITIONS + 1];
  static bool met[MOST_POSITIONS];
  int32_t list[MOST_TAPS];
  const falt_layer layer = layer_of(line);
  falt_inside classes;
  int64_t summed = 0, next = 0;
  falt_inside_init(&classes, &layer);
  o.layer = &layer;
  o.count = 0;
  for (int64_t i = 0; i < count; i++) met[i] = false;
  falt_inside_walk(&classes, &layer, first, count, take, &o);
  assert_int_equal(o.count, count);
  const int64_t cut = falt_inside_cut(o.boxes, count, most, calls);
  *inside = 0;
  for (int64_t i = 0; i < cut; next += calls[i++].count) {
    const int64_t taps = falt_inside_list(&layer, &calls[i].taps, list);
    assert_true(calls[i].begin == next && calls[i].count >= 1 && calls[i].count <= most);
    for (int64_t p = next; p < next + calls[i].count; p++) {
      assert_in_range(o.positions[p], first, first + count - 1);
      assert_false(met[o.positions[p] - first]);
      met[o.positions[p] - first] = true;
      *inside += inside_of(&layer, o.positions[p], list, taps);
    }
    summed += taps * calls[i].count;
  }
  assert_int_equal(next, count);
  return summed;
}

/* A whole problem, and a part that begins and ends within rows. */
static void check_all(const char *line) {
  const falt_layer layer = layer_of(line);
  const int64_t all = layer.positions, part = all / 2 + 1;
  int64_t inside;
  assert_true(check(line, 0, all, 6, &inside) >= inside);
  assert_true(falt_inside_share(&layer) == 1 ||
              falt_inside_share(&layer) * (double)(all * layer.taps) - (double)inside < 0.5);
  check(line, all / 3, falt_min(part, all - all / 3), 12, &inside);
  check(line, all - 1, 1, 6, &inside);
}

static void calls_have_all_taps(void **state) {
  (void)state;
  check_all("forward c=2 h=7 w=7 k=2 r=3 s=3 pad=1 layout=nhwc");
  check_all("forward n=3 c=2 h=5 w=4 k=2 r=5 s=3 pad=2 stride=2 layout=nhwc");
  check_all("forward c=2 d=4 h=5 w=6 k=2 t=3 r=3 s=3 pad=1 layout=ndhwc");
  check_all("forward c=2 h=9 w=40 k=2 r=3 s=3 pad=12 dilation=12 layout=nhwc");
  check_all("forward c=2 h=2 w=3 k=2 r=2 s=2 pad=9 layout=nhwc");               /* positions that read nothing */
  check_all("forward c=2 h=3 w=90 k=2 r=1 s=81 pad=0x80 layout=nhwc");          /* more classes than are told apart */
  check_all("forward c=2 h=6 w=7 k=2 r=3 s=3 pad=2 boundary=wrap layout=nhwc"); /* nothing is outside */
}

/* On planes of 7 x 7 each edge and a corner are a call of 6 positions and 6 taps, the others have 9. */
static void calls_leave_out_taps(void **state) {
  (void)state;
  int64_t inside;
  const char *line = "forward c=2 h=7 w=7 k=2 r=3 s=3 pad=1 layout=nhwc";
  assert_int_equal(check(line, 0, 49, 6, &inside), 4 * 36 + 25 * 9);
  assert_int_equal(inside, 19 * 19);
  assert_true(check("forward c=2 d=16 h=16 w=16 k=2 t=3 r=3 s=3 pad=1 layout=ndhwc", 0, 4096, 6, &inside) <
              inside + inside / 20);
}

/* Zeros alone may be left out. */
static void share_counts_zeros(void **state) {
  (void)state;
  const falt_layer zeros = layer_of("forward c=2 h=7 w=7 k=2 r=3 s=3 pad=1 layout=nhwc"),
                   ones = layer_of("forward c=2 h=7 w=7 k=2 r=3 s=3 pad=1 boundary=constant=1 layout=nhwc"),
                   edge = layer_of("forward c=2 h=7 w=7 k=2 r=3 s=3 pad=1 boundary=edge layout=nhwc");
  assert_float_equal(falt_inside_share(&zeros), 361. / 441, 1e-12);
  assert_true(falt_inside_share(&ones) == 1 && falt_inside_share(&edge) == 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_have_all_taps), cmocka_unit_test(calls_leave_out_taps),
                                     cmocka_unit_test(share_counts_zeros)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
