/* .npz: archives made byte by byte, so that no library decides what is in them; archives are read back as written;
 * archives of more than 4 GB; lies about sizes; every cut and every flipped bit is an error or changes no element. */
#include <fcntl.h>
#include <sys/mman.h>

#include "fixture.h"
#include "io/npy.h"

enum { ROOM = 4096, ELEMENTS = 20, ARRAY_BYTES = 128 + 4 * ELEMENTS };

/* ---- archives by hand */

typedef struct bytes {
  unsigned char at[ROOM];
  size_t length;
} bytes;

/* One member; zeros: as it ought to be. */
typedef struct member {
  const char *name;
  bool deflated; /* as one block of deflate that is not compressed */
  bool zip64;
  unsigned method, flags;
  int64_t more_size, more_packed, more_offset; /* lies, added to the truth */
  uint32_t crc_flip;
} member;

static void put(bytes *b, int count, uint64_t value) {
  for (int i = 0; i < count; i++) b->at[b->length++] = (unsigned char)(i < 8 ? value >> 8 * i : 0);
}

static void put_data(bytes *b, const void *data, size_t count) {
  memcpy(b->at + b->length, data, count);
  b->length += count;
}

/* An f32 array of 4 x 5 elements: element i is i + first. */
static void make_array(unsigned char array[ARRAY_BYTES], int first) {
  npy_header header = {.type = FALT_F32, .rank = 2, .size = {4, 5}};
  char text[NPY_MAX_HEADER];
  assert_true(npy_header_measure(&header));
  assert_int_equal(npy_header_print(&header, text), 128);
  memcpy(array, text, 128);
  for (int i = 0; i < ELEMENTS; i++) memcpy(array + 128 + 4 * i, &(float){(float)(i + first)}, 4);
}

/* A local header, or an entry of the directory with its offset. */
static void put_header(bytes *b, const member *m, const unsigned char *array, bool local, size_t offset) {
  const uint64_t packed = ARRAY_BYTES + (m->deflated ? 5u : 0u) + (uint64_t)m->more_packed;
  const uint64_t size = ARRAY_BYTES + (uint64_t)m->more_size, where = offset + (uint64_t)m->more_offset;
  put_data(b, local ? "PK\3\4" : "PK\1\2\55\3", local ? 4 : 6);
  put(b, 2, 20);
  put(b, 2, m->flags);
  put(b, 2, m->method ? m->method : m->deflated ? 8 : 0);
  put(b, 4, 0);
  put(b, 4, zip_crc(0, array, ARRAY_BYTES) ^ m->crc_flip);
  put(b, 4, m->zip64 ? UINT32_MAX : packed);
  put(b, 4, m->zip64 ? UINT32_MAX : size);
  put(b, 2, strlen(m->name));
  put(b, 2, m->zip64 ? 28 : 0);
  if (!local) put(b, 10, 0);
  if (!local) put(b, 4, m->zip64 ? UINT32_MAX : where);
  put_data(b, m->name, strlen(m->name));
  if (!m->zip64) return;
  put(b, 2, 1);
  put(b, 2, 24);
  put(b, 8, size);
  put(b, 8, packed);
  put(b, 8, where);
}

/* Member i holds the array that begins with 100 i. */
static void make_archive(bytes *b, const member *members, int count, const char *comment) {
  unsigned char array[ARRAY_BYTES];
  size_t offset[8];
  b->length = 0;
  for (int i = 0; i < count; i++) {
    offset[i] = b->length;
    make_array(array, 100 * i);
    put_header(b, &members[i], array, true, 0);
    if (members[i].deflated) put(b, 5, 1 | (uint64_t)ARRAY_BYTES << 8 | (uint64_t)(0xffff ^ ARRAY_BYTES) << 24);
    put_data(b, array, ARRAY_BYTES);
  }
  const size_t start = b->length;
  for (int i = 0; i < count; i++) {
    make_array(array, 100 * i);
    put_header(b, &members[i], array, false, offset[i]);
  }
  const size_t length = b->length - start;
  put_data(b, "PK\5\6\0\0\0\0", 8);
  put(b, 2, (uint64_t)count);
  put(b, 2, (uint64_t)count);
  put(b, 4, length);
  put(b, 4, start);
  put(b, 2, strlen(comment));
  put_data(b, comment, strlen(comment));
}

/* ---- reading them */

static bool open_bytes(npy_file *file, const bytes *b, const char *name, io_error *error) {
  const int fd = memfd_create("npz", MFD_CLOEXEC);
  assert_int_equal(write(fd, b->at, b->length), b->length);
  error->text[0] = '\0';
  const bool done = npy_open_archive(file, fd, "x.npz", name, error);
  if (!done) expect_line(error, "x.npz");
  return done;
}

/* Reads four rows one by one, the second and later ones by themselves. */
static bool read_array(const bytes *b, const char *name, float elements[ELEMENTS], io_error *error) {
  npy_file file;
  if (!open_bytes(&file, b, name, error)) return false;
  bool done = file.header.type == FALT_F32 && file.header.rank == 2 && file.header.size[0] == 4;
  assert_true(done); /* the header is under the checksum, but is used before: then opening fails at its size */
  for (int64_t i = 0; i < 4 && done; i++) done = npy_read_rows(&file, i, 1, elements + 5 * i, error);
  npy_close(&file);
  return done;
}

static void expect_array(const bytes *b, const char *name, int first) {
  float elements[ELEMENTS];
  io_error error;
  if (!read_array(b, name, elements, &error)) fail_msg("%s", error.text);
  for (int i = 0; i < ELEMENTS; i++) assert_true(elements[i] == (float)(i + first));
}

static void expect_error(const bytes *b, const char *name, const char *text) {
  float elements[ELEMENTS];
  io_error error;
  assert_false(read_array(b, name, elements, &error));
  if (!strstr(error.text, text)) fail_msg("\"%s\" is not in: %s", text, error.text);
}

static void crc_is_the_standard_one(void **state) {
  (void)state;
  assert_int_equal(zip_crc(0, "123456789", 9), 0xcbf43926);
  assert_int_equal(zip_crc(zip_crc(0, "12345678901", 11), "2345678", 7), zip_crc(0, "123456789012345678", 18));
}

static void members_are_found(void **state) {
  (void)state;
  bytes b;
  const member three[] = {{.name = "a.npy"}, {.name = "dir/b.npy", .deflated = zip_inflates}, {.name = "c.txt"}};
  make_archive(&b, three, 3, "");
  expect_array(&b, "a", 0);
  expect_array(&b, "a.npy", 0);
  expect_array(&b, "dir/b", 100);
  expect_error(&b, NULL, "x.npz: holds 2 arrays; name one behind a colon: a, dir/b");
  expect_error(&b, "b", "holds no array of this name; choose one of a, dir/b");
  expect_error(&b, "", "holds no array of this name");
  expect_error(&b, "c.txt", "holds no array of this name");
  make_archive(&b, (member[]){{.name = "c.txt"}, {.name = "x.npy"}}, 2, "a comment, with PK\5\6 in it");
  expect_array(&b, NULL, 100);
  make_archive(&b, (member[]){{.name = "x.npy"}, {.name = "x.npy", .zip64 = true}}, 2, "");
  expect_array(&b, "x", 100); /* the last one, as in Python */
  make_archive(&b, three + 2, 1, "");
  expect_error(&b, NULL, "holds no .npy array");
  make_archive(&b, NULL, 0, "");
  expect_error(&b, NULL, "holds no .npy array");
}

static void lies_are_noticed(void **state) {
  (void)state;
  static const struct {
    member member;
    const char *text;
  } cases[] = {
      {{"a.npy", .more_size = 1}, "more bytes than it holds"},
      {{"a.npy", .more_packed = 1}, "more bytes than it holds"},
      {{"a.npy", .more_size = 1, .more_packed = 1}, "not where"},
      {{"a.npy", .more_size = 1 << 20, .more_packed = 1 << 20}, "not in the file"},
      {{"a.npy", .zip64 = true, .more_size = INT64_MAX, .more_packed = INT64_MAX}, "not in the file"},
      {{"a.npy", .zip64 = true, .more_offset = INT64_MAX}, "not in the file"},
      {{"a.npy", .more_offset = 1}, "not"},
      {{"a.npy", .more_size = -8, .more_packed = -8}, "72 bytes of elements where its header declares 80"},
      {{"a.npy", .crc_flip = 1}, "x.npz: is damaged: its checksum is wrong"},
      {{"a.npy", .method = 12}, "compressed by method 12"},
      {{"a.npy", .flags = 1}, "encrypted"},
  };
  static const struct {
    member member;
    const char *text;
  } deflated[] = {
      {{"a.npy", .deflated = true, .more_size = 1 << 20}, "more bytes than it holds"},
      {{"a.npy", .deflated = true, .zip64 = true, .more_size = 1ll << 62}, "more bytes than it holds"},
      {{"a.npy", .deflated = true, .more_size = 8}, "88 bytes of elements"},
      {{"a.npy", .deflated = true, .more_packed = -8}, "its data ends early"},
      {{"a.npy", .deflated = true, .crc_flip = 1 << 20}, "its checksum is wrong"},
  };
  bytes b;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    make_archive(&b, &cases[i].member, 1, "");
    expect_error(&b, NULL, cases[i].text);
  }
  for (size_t i = 0; i < sizeof deflated / sizeof deflated[0]; i++) {
    make_archive(&b, &deflated[i].member, 1, "");
    expect_error(&b, NULL, zip_inflates ? deflated[i].text : "no zlib");
  }
}

static void damage_changes_no_element(void **state) {
  (void)state;
  bytes good, bad;
  io_error error;
  float elements[ELEMENTS];
  int errors = 0;
  make_archive(&good, &(member){.name = "a.npy", .deflated = zip_inflates, .zip64 = true}, 1, "note");
  expect_array(&good, NULL, 0);
  for (bad = good; bad.length-- > 0;) assert_false(read_array(&bad, NULL, elements, &error));
  for (size_t bit = 0; bit < 8 * good.length; bit++) {
    bad = good;
    bad.at[bit / 8] ^= (unsigned char)(1 << bit % 8);
    npy_file file;
    if (!open_bytes(&file, &bad, NULL, &error)) {
      errors++;
      continue;
    }
    const bool done = npy_load(&file, &error);
    for (int i = 0; i < ELEMENTS && done; i++) assert_memory_equal(file.whole + 4 * i, &(float){(float)i}, 4);
    errors += !done;
    npy_close(&file);
  }
  assert_true(errors >= 8 * ARRAY_BYTES);
}

/* ---- writing */

static void written_arrays_are_read_back(void **state) {
  (void)state;
  const float data[6] = {1, 2, 3, 4, 5, 6.5f};
  const io_array array = {FALT_F32, 2, {2, 3}, 6, (void *)data};
  static const char *const paths[] = {"o.npz", "o.npz:weight", "o.npz:weight.npy"};
  static const char *const names[] = {"o.npz:arr_0", "o.npz:weight", "o.npz:weight"};
  io_array back;
  io_error error;
  for (int i = 0; i < 3; i++) {
    io_array_writer *writer = io_array_create(in_directory(paths[i]), &error);
    if (!writer) fail_msg("%s", error.text);
    assert_true(io_array_write(writer, &array, &error));
    assert_true(io_array_finish(&writer, &error));
    if (!io_array_read(in_directory(names[i]), &back, &error)) fail_msg("%s", error.text);
    assert_int_equal(back.rank, 2);
    assert_memory_equal(back.data, data, sizeof data);
    io_array_free(&back);
  }
  assert_false(io_array_read(in_directory("o.npz:arr_0"), &back, &error));
  io_array_writer *writer = io_array_create(in_directory("p.npz:"), &error);
  assert_false(io_array_write(writer, &array, &error));
  assert_non_null(strstr(error.text, "no name follows the colon; "));
  io_array_abandon(&writer);
  unlink(in_directory("o.npz"));
}

static void rows_are_written_and_read(void **state) {
  (void)state;
  const io_info info = {.type = FALT_U8, .space = 2, .size = {1, 4, 4}, .channels = 1};
  char rows[17] = "0123456789abcdef", back[4];
  io_error error;
  io_writer *writer = io_create(in_directory("o.npz"), NULL, &info, NULL, &error);
  if (!writer) fail_msg("%s", error.text);
  assert_true(io_write(writer, 3, rows, &error));
  assert_true(io_write(writer, 1, rows + 12, &error));
  assert_true(io_finish(&writer, &error));
  io_reader *reader = io_open(in_directory("o.npz:arr_0"), &(io_request){.random = true}, &error);
  if (!reader) fail_msg("%s", error.text);
  for (int i = 3; i >= 0; i--) {
    assert_true(io_read(reader, i, 1, back, &error));
    assert_memory_equal(back, rows + 4 * i, 4);
  }
  io_close(&reader);
  unlink(in_directory("o.npz"));
  assert_null(io_open(in_directory("o.npz:arr_0"), &(io_request){0}, &error));
  assert_non_null(strstr(error.text, "No such file"));
}

/* The file is sparse: its data is never written. */
static void large_archives_use_zip64(void **state) {
  (void)state;
  static const int64_t sizes[] = {UINT32_MAX - 1, UINT32_MAX, 5ll << 30};
  for (int i = 0; i < 3; i++) {
    io_error error;
    zip_writer writer;
    zip_member found;
    const int fd = open(in_directory("large.npz"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    const io_output output = {.path = (char *)"large.npz", .fd = fd, .sink = -1, .slot = -1};
    assert_true(zip_begin(&writer, &output, sizes[i], &error));
    const off_t start = lseek(fd, 0, SEEK_CUR);
    if (lseek(fd, sizes[i], SEEK_CUR) < 0 || !zip_finish(&writer, &error)) skip(); /* no such files here */
    if (!zip_find(fd, "large.npz", "arr_0", &found, &error)) fail_msg("%s", error.text);
    assert_int_equal(found.size, sizes[i]);
    assert_int_equal(found.packed, sizes[i]);
    assert_int_equal(found.offset, start);
    close(fd);
  }
  unlink(in_directory("large.npz"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(crc_is_the_standard_one),
      cmocka_unit_test(members_are_found),
      cmocka_unit_test(lies_are_noticed),
      cmocka_unit_test(damage_changes_no_element),
      cmocka_unit_test(written_arrays_are_read_back),
      cmocka_unit_test(rows_are_written_and_read),
      cmocka_unit_test(large_archives_use_zip64),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
