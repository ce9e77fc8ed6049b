/* Small text files, replaced atomically: a temporary file in the same directory is renamed over the old one. A reader,
 * a second writer or a power cut sees the old text or the new one, never a part. */
#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"

static falt_status fail_with(const char *path, const char *what, int error) {
  return falt_fail(FALT_NO_FILE, "%s: %s: %s", path, what, strerror(error));
}

/* Makes the directories that lead to path. An error shows when the file is made. */
static void make_parents(const char *path) {
  char directory[PATH_MAX];
  falt_text text = falt_text_over(directory, sizeof directory);
  falt_text_add(&text, "%s", path);
  if (text.length >= sizeof directory) return;
  for (char *slash = strchr(directory + 1, '/'); directory[0] && slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(directory, 0777);
    *slash = '/';
  }
}

/* Opens a new file beside path under a name that nobody else uses, and puts that name into temporary. */
static int open_beside(const char *path, char *temporary, size_t size) {
  static atomic_uint serial;
  for (int attempt = 0; attempt < 100; attempt++) {
    falt_text name = falt_text_over(temporary, size);
    falt_text_add(&name, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1));
    if (name.length >= size) {
      errno = ENAMETOOLONG;
      return -1;
    }
    const int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

/* Whether a directory's entry is a temporary file "NAME.PID.N.tmp" that nobody has written to for a while. */
static bool is_left_behind(int directory, const char *entry, const char *name) {
  enum { SECONDS = 60 };
  struct stat facts;
  const size_t length = strlen(entry), prefix = strlen(name);
  if (strncmp(entry, name, prefix) != 0 || entry[prefix] != '.') return false;
  if (length < 4 || strcmp(entry + length - 4, ".tmp") != 0) return false;
  if (fstatat(directory, entry, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode)) return false;
  return time(NULL) - facts.st_mtime > SECONDS;
}

/* Removes the temporary files that killed writers of the same path left. */
static void remove_left_behind(const char *path) {
  char directory[PATH_MAX];
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  falt_text text = falt_text_over(directory, sizeof directory);
  falt_text_add(&text, "%.*s", (int)(slash ? slash + 1 - path : 2), slash ? path : "./");
  DIR *open = text.length < sizeof directory ? opendir(directory) : NULL;
  if (!open) return;
  for (struct dirent *entry; (entry = readdir(open));)
    if (is_left_behind(dirfd(open), entry->d_name, name)) unlinkat(dirfd(open), entry->d_name, 0);
  closedir(open);
}

static bool write_all(int file, const char *text, size_t length) {
  while (length > 0) {
    const ssize_t written = write(file, text, length);
    if (written < 0 && errno != EINTR) return false;
    if (written <= 0) continue;
    text += written;
    length -= (size_t)written;
  }
  return true;
}

/* Writes, makes sure it is on the disk, and closes; the first error stays in errno. */
static bool fill_and_close(int file, const char *text, size_t length) {
  const bool filled = write_all(file, text, length) && fsync(file) == 0;
  const int error = errno;
  const bool closed = close(file) == 0;
  if (!filled) errno = error;
  return filled && closed;
}

/* Names the directory if it is the directory that is missing. */
static falt_status cannot_open(const char *path, int error) {
  char directory[PATH_MAX];
  struct stat facts;
  const char *slash = strrchr(path, '/');
  const size_t length = slash ? (size_t)(slash - path) : 0;
  if (error != ENOENT || !length || length >= sizeof directory) return fail_with(path, "cannot be written", error);
  memcpy(directory, path, length);
  directory[length] = '\0';
  if (stat(directory, &facts) == 0) return fail_with(path, "cannot be written", error);
  return falt_fail(FALT_NO_FILE, "%s: cannot be written: there is no directory %s; make it first", path, directory);
}

falt_status falt_file_write(const char *path, const char *text, size_t length) {
  char temporary[PATH_MAX];
  if (!path || !path[0]) return falt_fail(FALT_INVALID_ARGUMENT, "path: is empty; name a file");
  remove_left_behind(path);
  const int file = open_beside(path, temporary, sizeof temporary);
  if (file < 0) return cannot_open(path, errno);
  if (fill_and_close(file, text, length) && rename(temporary, path) == 0) return FALT_OK;
  const int error = errno;
  unlink(temporary);
  return fail_with(path, "cannot be written", error);
}

/* Reads until the end or until size bytes are there; -1 on error. */
static ssize_t read_all(int file, char *text, size_t size) {
  size_t length = 0;
  while (length < size) {
    const ssize_t got = read(file, text + length, size - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    length += (size_t)got;
  }
  return (ssize_t)length;
}

/* Bytes to allocate: one more than expected, to detect the end. Pipes and kernel files do not tell their size in
 * advance and get the limit. */
static size_t expected_size(int file, size_t limit) {
  struct stat facts;
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size == 0) return limit + 1;
  return (uint64_t)facts.st_size < limit ? (size_t)facts.st_size + 1 : limit + 1;
}

static falt_status read_open(int file, const char *path, size_t limit, char **text, size_t *length) {
  const size_t size = expected_size(file, limit);
  char *data = falt_alloc(size + 1);
  if (!data) return falt_fail(FALT_NO_MEMORY, "%s: no memory for %zu bytes", path, size);
  const ssize_t got = read_all(file, data, size);
  if (got >= 0 && (size_t)got < size) {
    data[got] = '\0';
    *text = data;
    *length = (size_t)got;
    return FALT_OK;
  }
  const int error = errno;
  falt_free(data);
  if (got < 0) return fail_with(path, "cannot be read", error);
  if (size <= limit) return falt_fail(FALT_NO_FILE, "%s: grew while it was read; try again", path);
  return falt_fail(FALT_NO_FILE, "%s: is larger than %zu bytes, the limit for such files", path, limit);
}

falt_status falt_file_read(const char *path, size_t limit, char **text, size_t *length) {
  *text = NULL;
  *length = 0;
  if (!path || !path[0]) return falt_fail(FALT_INVALID_ARGUMENT, "path: is empty; name a file");
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail_with(path, "cannot be read", errno);
  const falt_status status = read_open(file, path, limit, text, length);
  close(file);
  return status;
}

bool falt_file_head(const char *path, char *text, size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file < 0 ? -1 : read_all(file, text, size - 1);
  if (file >= 0) close(file);
  text[got > 0 ? got : 0] = '\0';
  return got >= 0;
}

bool falt_cache_path(const char *name, char *path, size_t size) {
  static const struct {
    const char *variable, *below;
    bool absolute; /* the XDG rules ignore relative paths */
  } places[] = {{"FALTUNG_CACHE", "", false}, {"XDG_CACHE_HOME", "/faltung", true}, {"HOME", "/.cache/faltung", false}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const char *place = getenv(places[i].variable);
    if (!place || !place[0] || (places[i].absolute && place[0] != '/')) continue;
    falt_text text = falt_text_over(path, size);
    falt_text_add(&text, "%s%s/%s", place, places[i].below, name);
    return text.length < size;
  }
  return false;
}

falt_status falt_cache_write(const char *path, const char *text, size_t length) {
  make_parents(path);
  return falt_file_write(path, text, length);
}
