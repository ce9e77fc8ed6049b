/* Operands as .npy files in a private directory, from which the peers read them. */
#include "exchange.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io/npy_header.h"
#include "report.h"

/* Shared memory is used only if twice as much is free. */
static bool has_room(const char *directory, int64_t bytes) {
  struct statvfs state;
  return statvfs(directory, &state) == 0 && (double)state.f_bavail * (double)state.f_frsize > 2.0 * (double)bytes &&
         access(directory, W_OK) == 0;
}

/* ---- the directory's removal, which a signal handler may have to do */

static char listed[PATH_MAX]; /* complete while `is_listed` */
static volatile sig_atomic_t is_listed;

static void list_directory(const char *path) {
  is_listed = 0;
  snprintf(listed, sizeof listed, "%s", path);
  is_listed = path[0] != '\0';
}

/* Entries as the kernel gives them: opendir allocates. */
void cli_exchange_remove(void) {
  _Alignas(struct dirent64) char room[4096];
  const int directory = is_listed ? open(listed, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (directory < 0) return;
  for (ssize_t got; (got = getdents64(directory, room, sizeof room)) > 0;)
    for (ssize_t at = 0; at < got;) {
      const struct dirent64 *entry = (const void *)(room + at);
      if (entry->d_name[0] != '.') unlinkat(directory, entry->d_name, 0);
      at += entry->d_reclen;
    }
  close(directory);
  rmdir(listed);
  is_listed = 0;
}

bool cli_exchange_open(cli_exchange *exchange, int64_t bytes, io_error *error) {
  const char *temporary = getenv("TMPDIR"), *parent = temporary && *temporary ? temporary : "/tmp";
  if (has_room("/dev/shm", bytes)) parent = "/dev/shm";
  snprintf(exchange->directory, sizeof exchange->directory, "%s/faltung-bench-XXXXXX", parent);
  if (mkdtemp(exchange->directory)) {
    list_directory(exchange->directory);
    return true;
  }
  exchange->directory[0] = '\0';
  return cli_wrong(error, "%.200s: no directory can be made in it: %s; set TMPDIR to one that you may write to", parent,
                   strerror(errno));
}

const char *cli_exchange_path(const cli_exchange *exchange, const char *name, char path[PATH_MAX]) {
  snprintf(path, PATH_MAX, "%s/%.50s.npy", exchange->directory, name);
  return path;
}

static bool write_file(const char *path, npy_header *header, const void *data, io_error *error) {
  char text[NPY_MAX_HEADER];
  if (!npy_header_measure(header)) return cli_wrong(error, "%.200s: too large; use a smaller problem", path);
  const size_t length = npy_header_print(header, text), bytes = (size_t)header->bytes;
  FILE *file = fopen(path, "wxe");
  bool done = file && fwrite(text, 1, length, file) == length && fwrite(data, 1, bytes, file) == bytes;
  const int number = errno;
  if (file) done &= fclose(file) == 0;
  return done || cli_wrong(error, "%.200s: cannot be written: %s; set TMPDIR to a directory with more room", path,
                           strerror(number));
}

static int64_t size_in_memory(const falt_tensor *tensor, int dim) {
  return tensor->stride[dim] == 0 ? 1 : tensor->size[dim];
}

static bool lies_before(const falt_tensor *tensor, int a, int b) {
  const int64_t size_a = size_in_memory(tensor, a), size_b = size_in_memory(tensor, b);
  if (size_a == 1 || size_b == 1) return size_a == 1 && size_b > 1;
  return llabs(tensor->stride[a]) > llabs(tensor->stride[b]);
}

/* Axes by falling stride, those of size 1 first, otherwise in their own order. */
static void sort_axes(const falt_tensor *tensor, int axis[FALT_DIMS]) {
  for (int i = 0; i < FALT_DIMS; i++) {
    int at = i;
    for (; at > 0 && lies_before(tensor, i, axis[at - 1]); at--) axis[at] = axis[at - 1];
    axis[at] = i;
  }
}

bool cli_exchange_tensor(const cli_exchange *exchange, const char *name, const falt_tensor *tensor, const void *data,
                         char order[FALT_DIMS + 1], io_error *error) {
  npy_header header = {.type = tensor->type, .rank = FALT_DIMS};
  int axis[FALT_DIMS];
  int64_t count = 1;
  sort_axes(tensor, axis);
  for (int i = 0; i < FALT_DIMS; i++) {
    header.size[i] = size_in_memory(tensor, axis[i]);
    count *= header.size[i];
    order[i] = "ngcdhw"[axis[i]];
  }
  order[FALT_DIMS] = '\0';
  if (count != falt_tensor_span(tensor)) return cli_wrong(error, "%s: not dense, which no peer can read", name);
  char path[PATH_MAX];
  return write_file(cli_exchange_path(exchange, name, path), &header, data, error);
}

bool cli_exchange_vector(const cli_exchange *exchange, const char *name, falt_type type, int64_t count,
                         const void *data, io_error *error) {
  npy_header header = {.type = type, .rank = 1, .size = {count}};
  char path[PATH_MAX];
  return write_file(cli_exchange_path(exchange, name, path), &header, data, error);
}

void cli_exchange_close(cli_exchange *exchange) {
  if (exchange->directory[0]) cli_exchange_remove();
  exchange->directory[0] = '\0';
}
