/* Standard input as a file: detects its format by its first bytes, and copies it to a temporary file. */
#include "io/standard.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/format.h"

enum { HEAD = 352, COPY_BYTES = 1 << 16 };

static struct {
  unsigned char head[HEAD];
  size_t filled, taken; /* bytes of head; bytes passed on */
  bool copied;
  io_output copy;
} input;

/* The first match counts. Other content is an image, which libvips recognises. */
static const struct {
  int at, length;
  const char *bytes, *extension;
} formats[] = {
    {0, 6, "\x93NUMPY", ".npy"},   {8, 4, "WAVE", ".wav"},     {0, 4, "riff", ".w64"},  {0, 4, "fLaC", ".flac"},
    {0, 4, "OggS", ".ogg"},        {0, 4, "FORM", ".aiff"},    {0, 4, ".snd", ".au"},   {0, 4, "caff", ".caf"},
    {0, 3, "ID3", ".mp3"},         {0, 2, "\xff\xfb", ".mp3"}, {344, 4, "n+1", ".nii"}, {4, 4, "n+2", ".nii"},
    {0, 2, "\x1f\x8b", ".nii.gz"}, {0, 4, "PK\3\4", ".npz"},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static const char *extension_of(const unsigned char *head, size_t bytes) {
  for (int i = 0; i < FORMATS; i++) {
    const size_t at = (size_t)formats[i].at, length = (size_t)formats[i].length;
    if (at + length <= bytes && memcmp(head + at, formats[i].bytes, length) == 0) return formats[i].extension;
  }
  return "";
}

ssize_t io_standard_read(void *buffer, size_t bytes) {
  const size_t left = input.filled - input.taken;
  if (left == 0) return read(STDIN_FILENO, buffer, bytes);
  const size_t n = bytes < left ? bytes : left;
  memcpy(buffer, input.head + input.taken, n);
  input.taken += n;
  return (ssize_t)n;
}

static bool fail_read(io_error *error) {
  return io_fail(error, "standard input: cannot be read: %s; check what is redirected to it", strerror(errno));
}

static bool fill_head(io_error *error) {
  while (input.filled < HEAD) {
    const ssize_t n = read(STDIN_FILENO, input.head + input.filled, HEAD - input.filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_read(error);
    if (n == 0) break;
    input.filled += (size_t)n;
  }
  return input.filled > 0 || io_fail(error, "standard input: is empty; redirect a file to it");
}

static bool copy_all(io_error *error) {
  char *buffer = malloc(COPY_BYTES);
  if (!buffer) return io_fail_memory(error, "standard input");
  ssize_t n = 1;
  bool done = true;
  while (done && n != 0) {
    n = io_standard_read(buffer, COPY_BYTES);
    if (n > 0) done = io_output_write(&input.copy, buffer, n, error);
    if (n < 0 && errno != EINTR) done = fail_read(error);
  }
  free(buffer);
  return done;
}

static bool make_copy(const char *extension, io_error *error) {
  char path[PATH_MAX];
  const char *directory = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/faltung-standard-input%s", directory && *directory ? directory : "/tmp", extension);
  if (!io_output_open(&input.copy, path, extension, false, error)) return false;
  input.copied = copy_all(error);
  if (!input.copied) io_output_discard(&input.copy);
  return input.copied;
}

bool io_standard_open(const char **path, io_error *error) {
  *path = NULL;
  if (!input.copied) {
    if (isatty(STDIN_FILENO)) return io_fail(error, "standard input: is a terminal; redirect a file to it");
    if (input.filled == 0 && !fill_head(error)) return false;
    const char *extension = extension_of(input.head, input.filled);
    if (strcmp(extension, ".npy") == 0) {
      if (lseek(STDIN_FILENO, -(off_t)input.filled, SEEK_CUR) >= 0) input.filled = 0; /* a file, not a pipe */
      return true;
    }
    if (!make_copy(extension, error)) return false;
  }
  *path = input.copy.temporary;
  return true;
}
