/* Tests of the element types: rounding against an independent definition, for every pattern, every tie and random
 * numbers; saturation in every rounding mode; random fills. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/random.h"
#include "core/types.h"

#define UNUSED __attribute__((unused))
enum { ROUNDS = 300000 };

/* A 16-bit format by its definition. */
typedef struct format {
  int mantissa, bias;
  float (*decode)(uint16_t bits);
  uint16_t (*encode)(double value);
} format;

static const format formats[] = {{10, 15, falt_from_f16, falt_to_f16}, {7, 127, falt_from_bf16, falt_to_bf16}};

static uint16_t infinity_of(const format *f) {
  return (uint16_t)((2 * f->bias + 1) << f->mantissa);
}

/* The value of a pattern from sign, exponent and mantissa; infinity counts as the next power of two. */
static double value_of(const format *f, uint16_t bits) {
  const int exponent = (bits & 0x7fff) >> f->mantissa, mantissa = bits & ((1 << f->mantissa) - 1);
  const int hidden = exponent ? 1 << f->mantissa : 0;
  const double magnitude = ldexp(hidden + mantissa, (exponent ? exponent : 1) - f->bias - f->mantissa);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/* The nearest pattern by search: between two neighbours the midpoint decides, and on it the even one. */
static uint16_t nearest_pattern(const format *f, double value) {
  int below = 0, above = infinity_of(f);
  const double magnitude = fabs(value);
  const uint16_t sign = signbit(value) ? 0x8000 : 0;
  if (magnitude >= value_of(f, (uint16_t)above)) return (uint16_t)(sign | above);
  while (above - below > 1) {
    const int middle = (below + above) / 2;
    if (value_of(f, (uint16_t)middle) <= magnitude)
      below = middle;
    else
      above = middle;
  }
  const double half = (value_of(f, (uint16_t)below) + value_of(f, (uint16_t)above)) / 2;
  const int nearest = magnitude < half ? below : magnitude > half ? above : below + (below & 1);
  return (uint16_t)(sign | nearest);
}

static void test_every_pattern(UNUSED void **state) {
  for (const format *f = formats; f < formats + 2; f++)
    for (int bits = 0; bits <= 0xffff; bits++) {
      const float value = f->decode((uint16_t)bits);
      const int magnitude = bits & 0x7fff;
      if (magnitude > infinity_of(f)) {
        assert_true(isnan(value));
        assert_true(isnan(f->decode(f->encode(value))));
        assert_int_equal(f->encode(value), bits | 1 << (f->mantissa - 1));
        continue;
      }
      if (magnitude == infinity_of(f))
        assert_true(isinf(value));
      else
        assert_true(value == value_of(f, (uint16_t)bits));
      assert_int_equal(!!signbit(value), bits >> 15);
      assert_int_equal(f->encode(value), bits);
    }
}

static void check_encode(const format *f, double value) {
  const uint16_t expected = nearest_pattern(f, value), got = f->encode(value);
  if (expected != got) print_error("%a: %04x instead of %04x\n", value, got, expected);
  assert_int_equal(got, expected);
#if defined(__FLT16_MAX__) && !defined(__clang__)
  if (f->mantissa == 10) {
    const _Float16 half = (_Float16)value;
    assert_memory_equal(&half, &got, sizeof got);
  }
#endif
}

/* The midpoint of every pair of neighbours, subnormals and overflow included, and the doubles around it. */
static void test_every_tie(UNUSED void **state) {
  for (const format *f = formats; f < formats + 2; f++)
    for (int bits = 0; bits < infinity_of(f); bits++) {
      const double half = (value_of(f, (uint16_t)bits) + value_of(f, (uint16_t)(bits + 1))) / 2;
      for (int sign = -1; sign <= 1; sign += 2) {
        check_encode(f, sign * half);
        check_encode(f, sign * nextafter(half, 0));
        check_encode(f, sign * nextafter(half, INFINITY));
      }
    }
}

static double random_double(uint64_t *seed) {
  const uint64_t bits = falt_random(seed);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void test_random_doubles(UNUSED void **state) {
  uint64_t seed = 1;
  for (int i = 0; i < ROUNDS; i++)
    for (const format *f = formats; f < formats + 2; f++) {
      const double any = random_double(&seed);
      if (!isnan(any)) check_encode(f, any);
      check_encode(f, ldexp(falt_random_unit(&seed) - 0.5, (int)falt_random_int(&seed, -30, 18)));
    }
  const double edges[] = {0,     -0.0,     INFINITY, -INFINITY, 0x1p-1074, 0x1p-1022,
                          65504, 65519.99, 65520,    1e308,     3.4e38,    3.5e38};
  for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
    for (const format *f = formats; f < formats + 2; f++) check_encode(f, edges[i]);
}

/* What must be stored, by the C library in its default rounding mode. */
static double rounded(falt_type type, double value) {
  if (isnan(value)) return 0;
  return fmin(fmax(nearbyint(value), falt_type_min(type)), falt_type_max(type));
}

static void check_store(falt_type type, double value) {
  static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  const double expected = rounded(type, value);
  for (int m = 0; m < 4; m++) {
    int32_t place[3] = {0x55555555, 0x55555555, 0x55555555};
    fesetround(modes[m]);
    falt_store(place, type, 1, value);
    fesetround(FE_TONEAREST);
    assert_true(falt_load(place, type, 1) == expected);
    const int32_t whole = 0x55555555;
    assert_memory_equal((char *)place + 2 * falt_type_size(type), &whole, falt_type_size(type)); /* neighbours */
    assert_memory_equal(place, &whole, falt_type_size(type));
  }
}

static void test_store_integers(UNUSED void **state) {
  const double values[] = {NAN,
                           INFINITY,
                           -INFINITY,
                           1e300,
                           -1e300,
                           0x1p31,
                           -0x1p31,
                           0x1p31 - 0.5,
                           -0x1p31 - 0.5,
                           0x1p31 - 1.5,
                           0.49999999999999994,
                           -0.49999999999999994,
                           0x1p-1074,
                           4294967296.0,
                           9.3e18,
                           -9.3e18};
  for (falt_type type = FALT_U8; type <= FALT_S32; type++) {
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) check_store(type, values[i]);
    for (int i = -70000; i <= 70000; i++) check_store(type, i * 0.5);
    uint64_t seed = type;
    for (int i = 0; i < 20000; i++) check_store(type, (falt_random_unit(&seed) - 0.5) * 0x1p33);
  }
}

static void test_store_floats(UNUSED void **state) {
  float f32[3] = {7, 7, 7};
  double f64[3] = {7, 7, 7};
  falt_store(f32, FALT_F32, 1, 0.1);
  falt_store(f64, FALT_F64, 1, 0.1);
  assert_true(f32[0] == 7 && f32[1] == 0.1f && f32[2] == 7);
  assert_true(f64[0] == 7 && f64[1] == 0.1 && f64[2] == 7);
  assert_true(falt_load(f32, FALT_F32, 1) == 0.1f && falt_load(f64, FALT_F64, 1) == 0.1);
  uint16_t half[2];
  falt_store(half, FALT_F16, 1, 1.5);
  falt_store(half, FALT_BF16, 0, -2.5);
  assert_true(falt_load(half, FALT_F16, 1) == 1.5 && falt_load(half, FALT_BF16, 0) == -2.5);
}

/* The classes of types that solvers ask for, as the sizes and names say. */
static void test_type_classes(UNUSED void **state) {
  for (falt_type type = 0; type < FALT_TYPE_COUNT; type++) {
    const char *name = falt_type_name(type);
    const size_t size = falt_type_size(type);
    const bool is_float = strchr(name, 'f') != NULL;
    assert_int_equal(strtol(name + strcspn(name, "0123456789"), NULL, 10), 8 * size);
    assert_int_equal(falt_type_is_float(type), is_float);
    assert_int_equal(falt_type_is_integer(type), !is_float);
    assert_int_equal(falt_type_is_narrow(type), size <= 2);
    assert_int_equal(falt_type_is_byte(type), !is_float && size == 1);
    assert_int_equal(falt_type_is_half(type), is_float && size == 2);
    assert_int_equal(falt_type_fits_f32(type), size <= 2 || type == FALT_F32);
    assert_int_equal(falt_type_real(type), type == FALT_F64 ? FALT_F64 : FALT_F32);
    const falt_type sum = falt_type_accumulator(type);
    assert_int_equal(sum, is_float ? falt_type_real(type) : size == 1 ? FALT_S32 : FALT_F64);
  }
  assert_false(falt_type_is_float((falt_type)99) || falt_type_is_narrow((falt_type)99));
}

/* A float's largest number rounds to itself, half a step more to infinity; its smallest normal number is stored with
 * all bits, and the step below it is the smallest number at all. */
static void test_type_ranges(UNUSED void **state) {
  for (falt_type type = FALT_F16; type < FALT_F64; type++) {
    const double beyond = falt_type_beyond(type), epsilon = falt_type_epsilon(type);
    const double small = falt_type_smallest(type), step = 2 * epsilon * small;
    const double kept[] = {beyond * (1 - epsilon), small, small + step, small - step, step};
    uint64_t place;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
      falt_store(&place, type, 0, kept[i]);
      assert_true(falt_load(&place, type, 0) == kept[i]);
    }
    falt_store(&place, type, 0, beyond * (1 - epsilon / 2));
    assert_true(isinf(falt_load(&place, type, 0)));
    falt_store(&place, type, 0, step / 2);
    assert_true(falt_load(&place, type, 0) == 0);
  }
}

static void test_type_facts(UNUSED void **state) {
  for (falt_type type = 0; type < FALT_TYPE_COUNT; type++) {
    const char *name = falt_type_name(type);
    assert_int_equal(falt_type_find(name, strlen(name)), type);
    assert_int_equal(falt_type_find(name, strlen(name) - 1), -1);
    const double epsilon = falt_type_epsilon(type);
    if (falt_type_is_integer(type)) {
      assert_true(epsilon == 0);
      assert_true(falt_type_max(type) - falt_type_min(type) == ldexp(1, 8 * (int)falt_type_size(type)) - 1);
      continue;
    }
    assert_true(isinf(falt_type_min(type)) && isinf(falt_type_max(type)));
    uint64_t place;
    falt_store(&place, type, 0, 1 + epsilon); /* half a step above 1 is a tie and goes to 1 */
    assert_true(falt_load(&place, type, 0) == 1);
    falt_store(&place, type, 0, 1 + 2 * epsilon);
    assert_true(falt_load(&place, type, 0) == 1 + 2 * epsilon);
  }
  assert_int_equal(falt_type_size((falt_type)99), 0);
  assert_non_null(falt_type_name((falt_type)-1));
}

/* Mean and variance of a uniform distribution over the range, the range itself, and that shorter fills are a beginning.
 */
static void test_fill(UNUSED void **state) {
  enum { COUNT = 100003 };
  double *data = falt_alloc(sizeof *data * (COUNT + 1)), *again = falt_alloc(sizeof *again * (COUNT + 1));
  for (falt_type type = 0; type < FALT_TYPE_COUNT; type++) {
    const size_t size = falt_type_size(type);
    memset(data, 0x5a, sizeof *data * (COUNT + 1));
    memset(again, 0x5a, sizeof *again * (COUNT + 1));
    falt_random_fill(data, type, COUNT, 42);
    falt_random_fill(again, type, 12345, 42);
    assert_memory_equal(data, again, 12345 * size);
    for (size_t i = 0; i < size; i++) {
      assert_int_equal(((unsigned char *)data)[COUNT * size + i], 0x5a);
      assert_int_equal(((unsigned char *)again)[12345 * size + i], 0x5a);
    }
    const bool is_integer = falt_type_is_integer(type);
    const double low = is_integer ? falt_type_min(type) : -1, high = is_integer ? falt_type_max(type) + 1 : 1;
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; i++) {
      const double value = falt_load(data, type, i), unit = (value - low) / (high - low);
      assert_true(value >= low && value < high);
      sum += unit;
      squares += unit * unit;
    }
    const double mean = sum / COUNT, variance = squares / COUNT - mean * mean;
    assert_true(fabs(mean - 0.5) < 0.005 && fabs(variance - 1.0 / 12) < 0.002);
    falt_random_fill(again, type, COUNT, 43);
    assert_memory_not_equal(data, again, COUNT * size);
  }
  falt_free(data);
  falt_free(again);
}

/* Element i is made of word i, however many parts a fill has. */
static void test_fill_by_parts(UNUSED void **state) {
  enum { COUNT = 700001 };
  double *data = falt_alloc(sizeof *data * COUNT);
  uint64_t words = 7;
  falt_random_fill(data, FALT_F64, COUNT, 7);
  for (int i = 0; i < COUNT; i++) {
    const double expected = (double)((int64_t)falt_random(&words) >> 10) * 0x1p-53;
    if (data[i] != expected) fail_msg("element %d: %g, expected %g", i, data[i], expected);
  }
  falt_free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_pattern),  cmocka_unit_test(test_every_tie),    cmocka_unit_test(test_random_doubles),
      cmocka_unit_test(test_store_integers), cmocka_unit_test(test_store_floats), cmocka_unit_test(test_type_facts),
      cmocka_unit_test(test_type_classes),   cmocka_unit_test(test_type_ranges),  cmocka_unit_test(test_fill),
      cmocka_unit_test(test_fill_by_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
