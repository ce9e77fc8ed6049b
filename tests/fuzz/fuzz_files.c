/* Any bytes as an image, an audio file or a volume, by way of the modules: the first byte names the format and how rows
 * are asked for, the rest is the file. Whatever it holds, opening and reading end, stay in bounds, need memory that the
 * file's size or one row bounds, and a failure is one line "what: why; what to do". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 24, MOST_ROWS = 4096, BAND = 3 };

static const char *const extensions[] = {".png",  ".tif", ".gif", ".jpg",  ".ppm",    ".wav", ".flac",
                                         ".aiff", ".au",  ".nii", ".webp", ".nii.gz", ".npy", ".bmp"};
enum { EXTENSIONS = sizeof extensions / sizeof extensions[0] };

static void check_line(const io_error *error) {
  const char *why = strstr(error->text, ": ");
  if (!why || !strstr(why, "; ") || strchr(error->text, '\n')) abort();
}

static void read_rows(io_reader *reader) {
  const io_info *info = io_reader_info(reader);
  const int64_t row = io_row_elements(info), rows = info->pages * io_rows(info);
  const int64_t bytes = row > MOST_BYTES ? MOST_BYTES + 1 : row * (int64_t)falt_type_size(info->type);
  io_error error;
  char *buffer = bytes <= MOST_BYTES ? malloc((size_t)(BAND * bytes)) : NULL;
  for (int64_t i = 0; buffer && i < rows && i < MOST_ROWS; i += BAND) {
    if (io_read(reader, i, rows - i < BAND ? rows - i : BAND, buffer, &error)) continue;
    check_line(&error);
    break;
  }
  free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  io_error error = {""};
  if (size < 1) return 0;
  snprintf(path, sizeof path, "/tmp/faltung-fuzz-%ld%s", (long)getpid(), extensions[data[0] % EXTENSIONS]);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data + 1, 1, size - 1, file) != size - 1 || fclose(file) != 0) abort();
  const io_request request = {.random = data[0] / EXTENSIONS % 2, .page = data[0] / EXTENSIONS / 2 % 3};
  io_reader *reader = io_open(path, &request, &error);
  if (reader)
    read_rows(reader);
  else
    check_line(&error);
  io_close(&reader);
  unlink(path);
  return 0;
}
