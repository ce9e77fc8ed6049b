/* Any bytes as a .npz archive: its only array, and the array named "a". Whatever they are, reading ends, stays in
 * bounds, needs memory that the archive's size bounds, and a failure is one line "what: why; what to do". */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_RATIO = 1032 };

static int file_of(const uint8_t *data, size_t size) {
  const int fd = memfd_create("npz", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
  return fd;
}

static void check_line(const io_error *error) {
  const char *why = strstr(error->text, ": ");
  if (!why || !strstr(why, "; ") || strchr(error->text, '\n')) abort();
}

/* In bands of three rows, in order. */
static void read_bands(npy_file *file) {
  const int64_t rows = file->header.rank ? file->header.size[0] : 1;
  const int64_t row_bytes = npy_row_bytes(&file->header);
  io_error error = {""};
  char *buffer = malloc((size_t)(6 * row_bytes) + 1); /* u32 doubles in size */
  for (int64_t i = 0; buffer && row_bytes > 0 && i < rows; i += 3) {
    if (npy_read_rows(file, i, rows - i < 3 ? rows - i : 3, buffer, &error)) continue;
    check_line(&error);
    break;
  }
  free(buffer);
}

static void read_member(const uint8_t *data, size_t size, const char *member, bool whole) {
  npy_file file;
  io_error error = {""};
  if (!npy_open_archive(&file, file_of(data, size), "fuzz", member, &error)) {
    check_line(&error);
    return;
  }
  if ((uint64_t)file.header.bytes > (uint64_t)(size + 1) * MOST_RATIO) abort();
  if (!whole)
    read_bands(&file);
  else if (!npy_load(&file, &error))
    check_line(&error);
  npy_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  read_member(data, size, NULL, false);
  read_member(data, size, "a", true);
  return 0;
}
