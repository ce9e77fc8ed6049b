/* .npy: headers that must parse and must not, round trips of every type and order, lies about sizes, whole-or-nothing
 * output. */
#include <fcntl.h>
#include <sys/stat.h>

#include "fixture.h"
#include "io/npy.h"

static bool parses(const char *text, npy_header *header) {
  io_error error = {""};
  const bool done = npy_header_parse(header, text, strlen(text), "x.npy", &error);
  assert_int_equal(done, error.text[0] == '\0');
  if (!done) expect_line(&error, "x.npy");
  return done;
}

static void headers_parse(void **state) {
  (void)state;
  npy_header h;
  assert_true(parses("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n", &h));
  assert_int_equal(h.type, FALT_F32);
  assert_int_equal(h.rank, 2);
  assert_int_equal(h.count, 12);
  assert_int_equal(h.bytes, 48);
  assert_false(h.swap || h.fortran);
  assert_true(parses("{\"shape\":(3,),\"fortran_order\":True,\"descr\":\">i2\"}", &h));
  assert_int_equal(h.type, FALT_S16);
  assert_true(h.swap);
  assert_false(h.fortran); /* one axis has one order */
  assert_true(parses("{'descr': '|b1', 'fortran_order': True, 'shape': (2L, 3L)}", &h));
  assert_int_equal(h.type, FALT_U8);
  assert_true(h.fortran);
  assert_true(parses("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", &h));
  assert_int_equal(h.count, 1);
  assert_true(parses("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9)}", &h));
  assert_int_equal(h.count, 0);
}

static void bad_headers_are_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      "{",
      "{}",
      "[]",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3,, 4), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (,), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,2,3,4,5,6,7,8,9)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
      "{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,), }",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } x",
      "{'descr' '<f4', 'fortran_order': False, 'shape': (3,), }",
      "{'descr': '<f4' 'fortran_order': False, 'shape': (3,), }",
      "{'descr': '<f16', 'fortran_order': False, 'shape': (3,), }",
      "{'descr': '<u4', 'fortran_order': False, 'shape': (2305843009213693951,)}",
      "{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }",
      "{'descr': '<f4\\x', 'fortran_order': False, 'shape': (3,), }",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }",
      "{'descr': '<f4",
  };
  npy_header h;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    if (parses(bad[i], &h)) fail_msg("accepted %s", bad[i]);
}

static void printing_parses_to_the_same(void **state) {
  (void)state;
  for (int type = 0; type < FALT_TYPE_COUNT; type++) {
    for (int rank = 0; rank <= NPY_MAX_RANK; rank++) {
      npy_header h = {.type = (falt_type)type, .rank = rank, .size = {5, 1, 2, 3, 1, 12, 7, 100000}}, back;
      char bytes[NPY_MAX_HEADER], text[NPY_MAX_HEADER] = "";
      assert_true(npy_header_measure(&h));
      const size_t length = npy_header_print(&h, bytes);
      assert_int_equal(length % 64, 0);
      assert_int_equal(bytes[length - 1], '\n');
      memcpy(text, bytes + 10, length - 10);
      assert_true(parses(text, &back));
      assert_int_equal(back.type, h.type);
      assert_int_equal(back.rank, rank);
      assert_int_equal(back.bytes, h.bytes);
      assert_false(back.swap || back.fortran);
    }
  }
}

static void write_bytes(const char *path, const void *data, size_t bytes) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  assert_int_equal(fclose(f), 0);
}

static size_t file_text(char *to, const char *dictionary) {
  const size_t length = strlen(dictionary);
  memcpy(to, "\x93NUMPY\1\0", 8);
  to[8] = (char)(length & 255);
  to[9] = (char)(length >> 8);
  memcpy(to + 10, dictionary, length);
  return 10 + length;
}

static void arrays_round_trip(void **state) {
  (void)state;
  for (int type = 0; type < FALT_TYPE_COUNT; type++) {
    io_array a = {.type = (falt_type)type, .rank = 4, .size = {3, 1, 5, 7}, .count = 105}, b;
    io_error error;
    const size_t bytes = 105 * falt_type_size(a.type);
    a.data = malloc(bytes);
    falt_random_fill(a.data, a.type, a.count, 42);
    io_array_writer *writer = io_array_create(in_directory("a.npy"), &error);
    assert_non_null(writer);
    assert_true(io_array_write(writer, &a, &error));
    assert_true(io_array_finish(&writer, &error));
    assert_null(writer);
    assert_true(io_array_read(in_directory("a.npy"), &b, &error));
    assert_int_equal(b.type, a.type);
    assert_int_equal(b.rank, a.rank);
    assert_memory_equal(b.size, a.size, 4 * sizeof(int64_t));
    assert_memory_equal(b.data, a.data, bytes);
    io_array_free(&a);
    io_array_free(&b);
    assert_int_equal(unlink(in_directory("a.npy")), 0);
  }
}

/* Element (z, y, x) = 100 z + 10 y + x, stored in Fortran order and big-endian, comes out in order by any band. */
static void fortran_and_byte_order(void **state) {
  (void)state;
  char file[1024];
  size_t n = file_text(file, "{'descr': '>i4', 'fortran_order': True, 'shape': (4, 5, 6)}");
  for (int x = 0; x < 6; x++)
    for (int y = 0; y < 5; y++)
      for (int z = 0; z < 4; z++, n += 4)
        memcpy(file + n, (char[4]){0, 0, (char)((100 * z + 10 * y + x) >> 8), (char)((100 * z + 10 * y + x) & 255)}, 4);
  write_bytes(in_directory("f.npy"), file, n);
  for (int band = 1; band <= 4; band++) {
    io_error error;
    io_reader *reader = io_open(in_directory("f.npy"), &(io_request){0}, &error);
    assert_non_null(reader);
    assert_int_equal(io_reader_info(reader)->space, 3);
    int32_t values[4 * 30];
    for (int z = 0; z < 4; z += band)
      assert_true(io_read(reader, z, band < 4 - z ? band : 4 - z, values + 30 * z, &error));
    for (int i = 0; i < 120; i++) assert_int_equal(values[i], 100 * (i / 30) + 10 * (i / 6 % 5) + i % 6);
    io_close(&reader);
  }
  unlink(in_directory("f.npy"));
}

/* Reads an array of these bytes as a whole. */
static bool read_array(const char *dictionary, const void *data, size_t bytes, io_array *array, io_error *error) {
  char file[512];
  const size_t n = file_text(file, dictionary);
  memcpy(file + n, data, bytes);
  write_bytes(in_directory("w.npy"), file, n + bytes);
  const bool done = io_array_read(in_directory("w.npy"), array, error);
  unlink(in_directory("w.npy"));
  return done;
}

/* Unsigned 32-bit and 64-bit integers are read as f64, in both byte orders and both orders of axes. */
static void wide_integers(void **state) {
  (void)state;
  const uint32_t u32[6] = {0, 1, UINT32_MAX, 7, 8, 9}, swapped[2] = {__builtin_bswap32(3000000000u), 0};
  const int64_t s64[4] = {-5, INT64_MIN, (1LL << 53) - 1, 1LL << 60};
  const uint64_t u64[2] = {UINT64_MAX - 2047, 3};
  io_error error;
  io_array a;
  assert_true(read_array("{'descr': '<u4', 'fortran_order': True, 'shape': (2, 3)}", u32, 24, &a, &error));
  assert_int_equal(a.type, FALT_F64);
  const double columns[6] = {0, UINT32_MAX, 8, 1, 7, 9};
  assert_memory_equal(a.data, columns, sizeof columns);
  io_array_free(&a);
  assert_true(read_array("{'descr': '>u4', 'fortran_order': False, 'shape': (2,)}", swapped, 8, &a, &error));
  assert_true(((double *)a.data)[0] > 2999999999.5 && ((double *)a.data)[0] < 3000000000.5);
  io_array_free(&a);
  assert_true(read_array("{'descr': '<i8', 'fortran_order': False, 'shape': (4,)}", s64, 32, &a, &error));
  for (int i = 0; i < 4; i++) assert_true((int64_t)((double *)a.data)[i] == s64[i]);
  io_array_free(&a);
  assert_true(read_array("{'descr': '<u8', 'fortran_order': False, 'shape': (2,)}", u64, 16, &a, &error));
  assert_true((uint64_t)((double *)a.data)[0] == u64[0]);
  io_array_free(&a);
}

/* The first value that f64 does not hold is named with its place. */
static void inexact_integers_are_refused(void **state) {
  (void)state;
  const int64_t s64[6] = {0, 1, 2, 3, -(1LL << 53) - 1, 5};
  const uint64_t u64[2] = {UINT64_MAX - 1024, UINT64_MAX};
  io_error error;
  io_array a;
  assert_false(read_array("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2)}", s64, 48, &a, &error));
  assert_non_null(strstr(error.text, "element [2, 0] is -9007199254740993, which f64 does not hold; "));
  assert_false(read_array("{'descr': '<i8', 'fortran_order': True, 'shape': (3, 2)}", s64, 48, &a, &error));
  assert_non_null(strstr(error.text, "element [1, 1] is -9007199254740993"));
  assert_false(read_array("{'descr': '<u8', 'fortran_order': False, 'shape': (2,)}", u64, 16, &a, &error));
  assert_non_null(strstr(error.text, "element [0] is 18446744073709550591"));
  assert_false(read_array("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", u64, 8, &a, &error));
  assert_non_null(strstr(error.text, "complex"));
}

static void spaces(void **state) {
  (void)state;
  static const struct {
    const char *shape;
    int asked, space; /* 0: refused */
    int64_t size[3], channels;
  } cases[] = {
      {"(9,)", 0, 1, {1, 1, 9}, 1},      {"(9, 2)", 1, 1, {1, 1, 9}, 2},       {"(9, 2)", 0, 2, {1, 9, 2}, 1},
      {"(9, 8, 3)", 0, 2, {1, 9, 8}, 3}, {"(9, 8, 3)", 3, 3, {9, 8, 3}, 1},    {"(9, 8, 5)", 0, 3, {9, 8, 5}, 1},
      {"(9, 8, 5)", 2, 2, {1, 9, 8}, 5}, {"(9, 8, 5, 2)", 0, 3, {9, 8, 5}, 2}, {"(9,)", 2, 0, {0}, 0},
      {"(9, 8, 5, 2)", 2, 0, {0}, 0},    {"(1, 1, 1, 1, 1)", 0, 0, {0}, 0},    {"()", 0, 0, {0}, 0},
      {"(0, 3)", 0, 0, {0}, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[128], file[2048] = {0};
    snprintf(text, sizeof text, "{'descr': '|u1', 'fortran_order': False, 'shape': %s}", cases[i].shape);
    file_text(file, text);
    write_bytes(in_directory("s.npy"), file, sizeof file);
    io_error error;
    io_reader *reader = io_open(in_directory("s.npy"), &(io_request){.space = cases[i].asked, .random = true}, &error);
    assert_int_equal(reader != NULL, cases[i].space > 0);
    if (reader) {
      const io_info *info = io_reader_info(reader);
      assert_int_equal(info->space, cases[i].space);
      assert_int_equal(info->channels, cases[i].channels);
      assert_memory_equal(info->size, cases[i].size, sizeof info->size);
    }
    io_close(&reader);
  }
  unlink(in_directory("s.npy"));
}

static void lies_are_noticed(void **state) {
  (void)state;
  static const char *const shapes[] = {"(1000000, 1000000)", "(4, 4)", "(1000000, 1000000, 1000000)"};
  for (int i = 0; i < 6; i++) {
    char text[128], file[256];
    snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': %s, 'shape': %s}", i % 2 ? "True" : "False",
             shapes[i / 2]);
    const size_t n = file_text(file, text);
    write_bytes(in_directory("lie.npy"), file, n + 63); /* one byte short of (4, 4) */
    io_error error;
    io_array array;
    assert_null(io_open(in_directory("lie.npy"), &(io_request){0}, &error));
    assert_non_null(strstr(error.text, "truncated"));
    assert_false(io_array_read(in_directory("lie.npy"), &array, &error));
  }
  unlink(in_directory("lie.npy"));
}

static void output_is_whole_or_nothing(void **state) {
  (void)state;
  const io_info info = {.type = FALT_U8, .space = 2, .size = {1, 4, 4}, .channels = 1};
  const char rows[16] = "0123456789abcdef";
  char back[256];
  io_error error;
  write_bytes(in_directory("o.npy"), "old", 3);
  io_writer *writer = io_create(in_directory("o.npy"), NULL, &info, NULL, &error);
  assert_non_null(writer);
  assert_true(io_write(writer, 3, rows, &error));
  assert_false(io_write(writer, 2, rows, &error)); /* one too many */
  io_abandon(&writer);
  assert_null(writer);
  writer = io_create(in_directory("o.npy"), NULL, &info, NULL, &error);
  assert_false(io_finish(&writer, &error)); /* rows are missing */
  FILE *f = fopen(in_directory("o.npy"), "rb");
  assert_int_equal(fread(back, 1, sizeof back, f), 3); /* still the old one */
  fclose(f);
  chmod(in_directory("o.npy"), 0640);
  writer = io_create(in_directory("o.npy"), NULL, &info, NULL, &error);
  assert_true(io_write(writer, 4, rows, &error));
  assert_true(io_finish(&writer, &error));
  struct stat status;
  assert_int_equal(stat(in_directory("o.npy"), &status), 0);
  assert_int_equal(status.st_size, 128 + 16);
  assert_int_equal(status.st_mode & 0777, 0640);
  assert_null(io_create(in_directory("none/o.npy"), NULL, &info, NULL, &error));
  assert_null(io_create(directory, NULL, &info, NULL, &error));
  unlink(in_directory("o.npy"));
}

static void full_disk_is_noticed(void **state) {
  (void)state;
  const io_info info = {.type = FALT_F32, .space = 1, .size = {1, 1, 1000}, .channels = 1};
  io_error error;
  symlink("/dev/full", in_directory("full.npy"));
  io_writer *writer = io_create(in_directory("full.npy"), NULL, &info, NULL, &error);
  assert_null(writer); /* already the header does not fit */
  assert_non_null(strstr(error.text, "No space left"));
  unlink(in_directory("full.npy"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(headers_parse),
      cmocka_unit_test(bad_headers_are_refused),
      cmocka_unit_test(printing_parses_to_the_same),
      cmocka_unit_test(arrays_round_trip),
      cmocka_unit_test(fortran_and_byte_order),
      cmocka_unit_test(wide_integers),
      cmocka_unit_test(inexact_integers_are_refused),
      cmocka_unit_test(spaces),
      cmocka_unit_test(lies_are_noticed),
      cmocka_unit_test(output_is_whole_or_nothing),
      cmocka_unit_test(full_disk_is_noticed),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
