/* Every format that this build has: files are read back as written, type, sizes and samples; wrong types are refused
 * with the right ones named; truncated files fail; nothing is left behind. Formats without their module are skipped by
 * name.
 */
#include <math.h>
#include <sys/stat.h>

#include "fixture.h"

static const char *path_of(const char *extension) {
  char name[64];
  snprintf(name, sizeof name, "file%s", extension);
  return in_directory(name);
}

static bool has(const char *format) {
  const char *name, *extensions, *state;
  for (int i = 0; io_format(i, &name, &extensions, &state); i++)
    if (strcmp(name, format) == 0) return strncmp(state, "not found", 9) != 0;
  return false;
}

/* Smooth enough for lossy formats, within the range of every type: level 0 to 1 at an element of an info. */
static double level(const io_info *info, int64_t index) {
  const int64_t channels = info->channels, width = info->size[2];
  const double x = (double)(index / channels % width), y = (double)(index / channels / width);
  return 0.5 + 0.2 * sin(x / 9) + 0.2 * cos(y / 7 + (double)(index % channels));
}

static void store(void *data, falt_type type, int64_t i, double value) {
  switch (type) {
    case FALT_U8:
      ((uint8_t *)data)[i] = (uint8_t)(value * 255);
      break;
    case FALT_S8:
      ((int8_t *)data)[i] = (int8_t)(value * 255 - 128);
      break;
    case FALT_U16:
      ((uint16_t *)data)[i] = (uint16_t)(value * 65535);
      break;
    case FALT_S16:
      ((int16_t *)data)[i] = (int16_t)(value * 65535 - 32768);
      break;
    case FALT_S32:
      ((int32_t *)data)[i] = (int32_t)(value * 65535 - 32768) * 65536;
      break;
    case FALT_F64:
      ((double *)data)[i] = value - 0.5;
      break;
    default:
      ((float *)data)[i] = (float)(value - 0.5);
      break;
  }
}

static double load(const void *data, falt_type type, int64_t i) {
  switch (type) {
    case FALT_U8:
      return ((const uint8_t *)data)[i] / 255.0;
    case FALT_S8:
      return (((const int8_t *)data)[i] + 128) / 255.0;
    case FALT_U16:
      return ((const uint16_t *)data)[i] / 65535.0;
    case FALT_S16:
      return (((const int16_t *)data)[i] + 32768) / 65535.0;
    case FALT_S32:
      return (((const int32_t *)data)[i] / 65536.0 + 32768) / 65535.0;
    case FALT_F64:
      return ((const double *)data)[i] + 0.5;
    default:
      return ((const float *)data)[i] + 0.5;
  }
}

static int64_t elements(const io_info *info) {
  return io_row_elements(info) * io_rows(info);
}

static void write_file(const char *path, const io_info *info, const void *data, const io_reader *like) {
  io_error error;
  io_writer *writer = io_create(path, NULL, info, like, &error);
  if (!writer) fail_msg("%s", error.text);
  const int64_t rows = io_rows(info), row = io_row_elements(info) * (int64_t)falt_type_size(info->type);
  for (int64_t i = 0; i < rows; i += 7)
    if (!io_write(writer, rows - i < 7 ? rows - i : 7, (const char *)data + i * row, &error))
      fail_msg("%s", error.text);
  if (!io_finish(&writer, &error)) fail_msg("%s", error.text);
}

/* In bands of five rows, in order or, backwards, in any order. */
static void *read_file(const char *path, io_info *info, bool random) {
  io_error error;
  io_reader *reader = io_open(path, &(io_request){.random = random}, &error);
  if (!reader) fail_msg("%s", error.text);
  *info = *io_reader_info(reader);
  const int64_t rows = io_rows(info), row = io_row_elements(info) * (int64_t)falt_type_size(info->type);
  char *data = malloc((size_t)(rows * row));
  for (int64_t i = 0; i < rows; i += 5) {
    const int64_t n = rows - i < 5 ? rows - i : 5, first = random ? rows - i - n : i;
    if (!io_read(reader, first, n, data + first * row, &error)) fail_msg("%s", error.text);
  }
  io_close(&reader);
  return data;
}

static void check_same(const char *what, const io_info *info, const void *data, const io_info *back, const void *read,
                       double tolerance) {
  if (back->type != info->type) fail_msg("%s: type %d became %d", what, (int)info->type, (int)back->type);
  assert_int_equal(back->space, info->space);
  assert_int_equal(back->channels, info->channels);
  assert_memory_equal(back->size, info->size, sizeof info->size);
  for (int64_t i = 0; i < elements(info); i++) {
    const double difference = fabs(load(data, info->type, i) - load(read, info->type, i));
    if (difference > tolerance) fail_msg("%s: element %lld differs by %g", what, (long long)i, difference);
  }
}

/* Written, read in order, read in any order, and written again after the file just read. */
static void round_trip(const char *extension, const io_info *info, double tolerance) {
  char again[32];
  io_info back;
  io_error error;
  void *data = malloc((size_t)elements(info) * falt_type_size(info->type));
  for (int64_t i = 0; i < elements(info); i++) store(data, info->type, i, level(info, i));
  write_file(path_of(extension), info, data, NULL);
  for (int random = 0; random < 2; random++) {
    void *read = read_file(path_of(extension), &back, random);
    check_same(extension, info, data, &back, read, tolerance);
    free(read);
  }
  io_reader *like = io_open(path_of(extension), &(io_request){0}, &error);
  assert_non_null(like);
  snprintf(again, sizeof again, "-again%s", extension);
  write_file(path_of(again), info, data, like);
  io_close(&like);
  void *read = read_file(path_of(again), &back, false);
  check_same(extension, info, data, &back, read, tolerance);
  free(read);
  free(data);
  assert_int_equal(unlink(path_of(extension)), 0);
  assert_int_equal(unlink(path_of(again)), 0);
}

static void round_trips(const char *extension, const io_info *shape, const char *types, double tolerance) {
  for (int t = 0; t < FALT_TYPE_COUNT; t++) {
    io_info info = *shape;
    const char *name = falt_type_name((falt_type)t);
    info.type = (falt_type)t;
    io_error error;
    if (strstr(types, name)) {
      round_trip(extension, &info, tolerance);
    } else {
      assert_null(io_create(path_of(extension), NULL, &info, NULL, &error));
      assert_non_null(strstr(error.text, "hold"));
    }
  }
}

static void images(void **state) {
  (void)state;
  if (!has("images")) skip();
  static const struct {
    const char *extension, *types;
    double tolerance;
    int channels[5];
  } cases[] = {
      {".png", "u8 u16", 0, {1, 2, 3, 4}}, {".ppm", "u8 u16", 0, {3}},
      {".pgm", "u8 u16", 0, {1}},          {".v", "u8 s8 u16 s16 s32 f32 f64", 0, {1, 3, 7}},
      {".jpg", "u8", 0.1, {1, 3}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int c = 0; cases[i].channels[c]; c++) {
      const io_info shape = {.space = 2, .size = {1, 61, 83}, .channels = cases[i].channels[c]};
      round_trips(cases[i].extension, &shape, cases[i].types, cases[i].tolerance);
    }
}

/* TIFF also takes f64, which libvips 8.14 writes but does not read. */
static void tiff(void **state) {
  (void)state;
  if (!has("images")) skip();
  static const falt_type types[] = {FALT_U8, FALT_S8, FALT_U16, FALT_S16, FALT_S32, FALT_F32};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    for (int channels = 1; channels <= 5; channels++) {
      const io_info info = {.type = types[i], .space = 2, .size = {1, 61, 83}, .channels = channels};
      round_trip(".tif", &info, 0);
    }
}

static void audio(void **state) {
  (void)state;
  if (!has("audio")) skip();
  for (int channels = 1; channels <= 3; channels++) {
    const io_info shape = {.space = 1, .size = {1, 1, 5000}, .channels = channels, .rate = 48000};
    round_trips(".wav", &shape, "s8 s16 s32 f32 f64", 0);
    round_trips(".aiff", &shape, "s8 s16 s32 f32 f64", 0);
    round_trips(".flac", &shape, "s8 s16 s32", 1.0 / 65536);
    round_trips(".ogg", &shape, "f32", 0.1);
  }
}

static void rate_is_kept(void **state) {
  (void)state;
  if (!has("audio")) skip();
  const io_info info = {.type = FALT_S16, .space = 1, .size = {1, 1, 4}, .channels = 1, .rate = 22050};
  const int16_t samples[4] = {1, -2, 3, -4};
  io_info back;
  write_file(path_of(".wav"), &info, samples, NULL);
  free(read_file(path_of(".wav"), &back, false));
  assert_true(back.rate > 22049 && back.rate < 22051);
  unlink(path_of(".wav"));
}

/* A stride lowers the rate; a rate that is no whole number is refused before the work. */
static void rate_follows_the_stride(void **state) {
  (void)state;
  if (!has("audio")) skip();
  io_info info = {.type = FALT_S16, .space = 1, .size = {1, 1, 4}, .channels = 1, .rate = 44100, .step = {1, 1, 7}};
  const int16_t samples[4] = {1, -2, 3, -4};
  io_info back;
  io_error error;
  write_file(path_of(".wav"), &info, samples, NULL);
  free(read_file(path_of(".wav"), &back, false));
  assert_true(back.rate > 6299 && back.rate < 6301);
  unlink(path_of(".wav"));
  info.step[2] = 8;
  assert_null(io_create(path_of(".wav"), NULL, &info, NULL, &error));
  assert_non_null(strstr(error.text, "44100 Hz over a stride of 8 is no whole number of hertz; "));
}

/* Overwrites floats of a NIfTI-1 header, or compares them. */
static void header_floats(const char *path, long offset, const float *values, int count, bool write) {
  float there[8];
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, offset, SEEK_SET), 0);
  if (write) {
    assert_int_equal(fwrite(values, sizeof *values, (size_t)count, file), count);
  } else {
    assert_int_equal(fread(there, sizeof *there, (size_t)count, file), count);
    for (int i = 0; i < count; i++)
      if (fabsf(there[i] - values[i]) > 1e-5f)
        fail_msg("float %d at %ld is %g, not %g", i, offset, (double)there[i], (double)values[i]);
  }
  fclose(file);
}

/* Voxel sizes and affines say where the output's voxels stand, whatever the stride and the first sample. */
static void affine_follows_the_stride(void **state) {
  (void)state;
  if (!has("volumes")) skip();
  enum { PIXDIM = 76, CODES = 252, QOFFSET = 268, SROW = 280 };
  const io_info info = {.type = FALT_U8, .space = 3, .size = {4, 5, 6}, .channels = 1};
  const uint8_t voxels[120] = {0};
  io_error error;
  write_file(path_of(".nii"), &info, voxels, NULL);
  const int16_t codes[2] = {1, 1};
  float both;
  memcpy(&both, codes, sizeof both);
  header_floats(path_of(".nii"), PIXDIM, (float[4]){1, 0.5f, 2, 3}, 4, true);
  header_floats(path_of(".nii"), CODES, &both, 1, true);
  header_floats(path_of(".nii"), QOFFSET, (float[3]){10, 20, 30}, 3, true);
  header_floats(path_of(".nii"), SROW, (float[4]){0.5f, 0, 0.25f, 10}, 4, true);
  io_reader *like = io_open(path_of(".nii"), &(io_request){0}, &error);
  assert_non_null(like);
  io_info out = info;
  memcpy(out.size, (int64_t[3]){4, 3, 2}, sizeof out.size);
  memcpy(out.step, (int64_t[3]){1, 2, 3}, sizeof out.step);
  memcpy(out.origin, (int64_t[3]){2, 0, 1}, sizeof out.origin);
  write_file(path_of("-out.nii"), &out, voxels, like);
  io_close(&like);
  header_floats(path_of("-out.nii"), PIXDIM + 4, (float[3]){1.5f, 4, 3}, 3, false);
  header_floats(path_of("-out.nii"), QOFFSET, (float[3]){10.5f, 20, 36}, 3, false);
  header_floats(path_of("-out.nii"), SROW, (float[4]){1.5f, 0, 0.25f, 11}, 4, false);
  unlink(path_of("-out.nii"));
  unlink(path_of(".nii"));
}

/* Three pages of their own values, written and read together and one by one. */
static void pages(void **state) {
  (void)state;
  if (!has("images")) skip();
  static const char *const extensions[] = {".tif", ".v"};
  const io_info info = {.type = FALT_U8, .space = 2, .size = {1, 40, 50}, .channels = 3, .pages = 3};
  char *data = malloc((size_t)3 * 40 * 150), row[150];
  for (int i = 0; i < 3 * 40 * 150; i++) data[i] = (char)(i / 6000 * 100 + 20);
  for (int e = 0; e < 2; e++) {
    io_error error;
    const char *path = path_of(extensions[e]);
    io_writer *writer = io_create(path, NULL, &info, NULL, &error);
    assert_non_null(writer);
    assert_true(io_write(writer, 70, data, &error) && io_write(writer, 50, data + 70 * 150, &error));
    assert_true(io_finish(&writer, &error));
    for (int page = 0; page <= 3; page++) {
      io_reader *reader = io_open(path, &(io_request){.page = page}, &error);
      if (!reader) fail_msg("%s", error.text);
      const io_info *back = io_reader_info(reader);
      assert_int_equal(back->pages, page ? 1 : 3);
      assert_int_equal(back->in_file, 3);
      assert_int_equal(back->size[1], 40);
      for (int64_t y = 0; y < back->pages * 40; y++) {
        assert_true(io_read(reader, y, 1, row, &error));
        assert_memory_equal(row, data + (page ? (page - 1) * 40 + y : y) * 150, 150);
      }
      io_close(&reader);
    }
    assert_null(io_open(path, &(io_request){.page = 4}, &error));
    assert_non_null(strstr(error.text, "page 4"));
    unlink(path);
  }
  io_error error;
  assert_null(io_create(path_of(".png"), NULL, &info, NULL, &error));
  assert_non_null(strstr(error.text, "hold one page, not 3; "));
  free(data);
}

static void volumes(void **state) {
  (void)state;
  if (!has("volumes")) skip();
  static const io_info shapes[] = {
      {.space = 3, .size = {9, 8, 7}, .channels = 1},
      {.space = 3, .size = {9, 8, 7}, .channels = 70},
      {.space = 2, .size = {1, 8, 7}, .channels = 1},
      {.space = 1, .size = {1, 1, 17}, .channels = 1},
  };
  for (int i = 0; i < 4; i++) {
    round_trips(".nii", &shapes[i], "u8 s8 u16 s16 s32 f32 f64", 0);
    round_trips(".nii.gz", &shapes[i], "u8 s8 u16 s16 s32 f32 f64", 0);
  }
}

/* Half of a file is not a file, and what was begun from it disappears. */
static void truncation(const char *extension, const io_info *info) {
  io_error error;
  struct stat status;
  char *row = malloc((size_t)io_row_elements(info) * falt_type_size(info->type));
  void *data = malloc((size_t)elements(info) * falt_type_size(info->type));
  falt_random_fill(data, info->type, elements(info), 7); /* does not compress to nothing */
  write_file(path_of(extension), info, data, NULL);
  assert_int_equal(stat(path_of(extension), &status), 0);
  assert_int_equal(truncate(path_of(extension), status.st_size / 2), 0);
  io_reader *reader = io_open(path_of(extension), &(io_request){0}, &error);
  bool sound = reader != NULL;
  for (int64_t i = 0; sound && i < io_rows(info); i++) sound = io_read(reader, i, 1, row, &error);
  if (sound) fail_msg("%s: half of it was read as a whole", extension);
  assert_non_null(strstr(error.text, "; "));
  io_close(&reader);
  free(row);
  free(data);
  unlink(path_of(extension));
}

static void truncated_files_fail(void **state) {
  (void)state;
  const io_info image = {.type = FALT_U8, .space = 2, .size = {1, 61, 83}, .channels = 3};
  const io_info sound = {.type = FALT_S16, .space = 1, .size = {1, 1, 9000}, .channels = 2, .rate = 8000};
  const io_info volume = {.type = FALT_F32, .space = 3, .size = {9, 8, 7}, .channels = 1};
  truncation(".npy", &volume);
  truncation(".npz", &volume);
  if (has("images")) truncation(".png", &image);
  if (has("images")) truncation(".tif", &image);
  if (has("images")) truncation(".jpg", &image);
  if (has("audio")) truncation(".wav", &sound);
  if (has("audio")) truncation(".flac", &sound);
  if (has("volumes")) truncation(".nii", &volume);
  if (has("volumes")) truncation(".nii.gz", &volume);
}

static void abandoned_files_disappear(void **state) {
  (void)state;
  static const struct {
    const char *format, *extension;
    int space;
    falt_type type;
  } cases[] = {{"arrays", ".npy", 2, FALT_U8},    {"archives", ".npz", 2, FALT_U8}, {"images", ".png", 2, FALT_U8},
               {"images", ".tif", 2, FALT_U8},    {"audio", ".wav", 1, FALT_S16},   {"volumes", ".nii", 3, FALT_U8},
               {"volumes", ".nii.gz", 3, FALT_U8}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    io_info info = {.type = cases[i].type, .space = cases[i].space, .size = {1, 1, 90}, .channels = 1};
    io_error error;
    char rows[40 * 90] = {0};
    if (!has(cases[i].format)) continue;
    for (int d = 3 - info.space; d < 3; d++) info.size[d] = 40;
    io_writer *writer = io_create(path_of(cases[i].extension), NULL, &info, NULL, &error);
    assert_non_null(writer);
    assert_true(io_write(writer, 2, rows, &error));
    io_abandon(&writer);
    assert_int_equal(access(path_of(cases[i].extension), F_OK), -1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(images),
      cmocka_unit_test(tiff),
      cmocka_unit_test(audio),
      cmocka_unit_test(rate_is_kept),
      cmocka_unit_test(rate_follows_the_stride),
      cmocka_unit_test(affine_follows_the_stride),
      cmocka_unit_test(pages),
      cmocka_unit_test(volumes),
      cmocka_unit_test(truncated_files_fail),
      cmocka_unit_test(abandoned_files_disappear),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
