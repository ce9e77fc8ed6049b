/* Fuzzes .npy files: read by rows, as a stream, and as a whole array. Reading ends, stays in bounds, and its memory
 * grows with the bytes present, not with the declared size. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIPE_BYTES = 60000 }; /* fits into a pipe that nobody reads yet */

static int file_of(const uint8_t *data, size_t size) {
  const int fd = memfd_create("npy", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0) abort();
  return fd;
}

static int pipe_of(const uint8_t *data, size_t size) {
  int ends[2];
  if (pipe(ends) != 0 || write(ends[1], data, size) != (ssize_t)size) abort();
  close(ends[1]);
  return ends[0];
}

/* Reads a file's rows in bands of three, whose memory the file's own size bounds. */
static void read_bands(npy_file *file) {
  const int64_t rows = file->header.rank ? file->header.size[0] : 1;
  const int64_t row_bytes = npy_row_bytes(&file->header);
  io_error error;
  char *buffer = malloc((size_t)(6 * row_bytes) + 1); /* u32 doubles in size */
  for (int64_t i = 0; buffer && row_bytes > 0 && i < rows; i += 3)
    if (!npy_read_rows(file, i, rows - i < 3 ? rows - i : 3, buffer, &error)) {
      if (file->header.wide == IO_NARROW) abort(); /* the size had been checked */
      break;
    }
  free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  npy_file file;
  io_error error;
  if (npy_open_fd(&file, file_of(data, size), "fuzz", &error)) {
    if (file.header.count > 0) read_bands(&file);
    npy_close(&file);
  }
  if (size <= PIPE_BYTES && npy_open_fd(&file, pipe_of(data, size), "fuzz", &error)) {
    npy_load(&file, &error);
    npy_close(&file);
  }
  return 0;
}
