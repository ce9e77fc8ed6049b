/* Output under a temporary name: open, write, sync, rename, and its removal if the process is ended. */
#include "io/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/format.h"

/* A signal handler may only read complete memory, so paths are in a static table whose entries are marked as used after
 * they are filled and as free before they are cleared. */

enum { SLOTS = 16, WRITE_CHUNK = 16 << 20, COPY_BYTES = 1 << 16 }; /* a signal waits for a chunk */

static char slot_path[SLOTS][PATH_MAX];
static volatile sig_atomic_t slot_used[SLOTS];
static pthread_mutex_t slot_lock = PTHREAD_MUTEX_INITIALIZER;

static pid_t slot_owner; /* a forked child leaves them alone */

void io_output_remove_temporaries(void) {
  if (getpid() != slot_owner) return;
  for (int i = 0; i < SLOTS; i++)
    if (slot_used[i]) unlink(slot_path[i]);
}

static void guard(void) {
  slot_owner = getpid();
  atexit(io_output_remove_temporaries);
}

static int slot_take(const char *path) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, guard);
  int slot = -1;
  pthread_mutex_lock(&slot_lock);
  for (int i = 0; i < SLOTS && slot < 0; i++)
    if (!slot_used[i]) slot = i;
  if (slot >= 0) {
    snprintf(slot_path[slot], PATH_MAX, "%s", path);
    slot_used[slot] = 1;
  }
  pthread_mutex_unlock(&slot_lock);
  return slot;
}

static void slot_release(int slot) {
  if (slot < 0) return;
  pthread_mutex_lock(&slot_lock);
  slot_used[slot] = 0;
  pthread_mutex_unlock(&slot_lock);
}

/* Where a path's last part begins. */
static const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Opens a new file, which is in the table before it exists; -1 with errno. */
static int create_listed(const char *name, int *slot) {
  *slot = slot_take(name);
  if (*slot < 0) errno = EMFILE;
  const int fd = *slot < 0 ? -1 : open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  const int number = errno;
  if (fd < 0) slot_release(*slot);
  errno = number;
  return fd;
}

/* Creates "directory/.faltung-PID-N.ext" with the permissions that the target has or would get. */
static int create_temporary(const char *target, const char *extension, char *name, size_t size, int *slot) {
  const int directory = (int)(base_of(target) - target);
  struct stat old;
  const bool replaces = stat(target, &old) == 0;
  for (int n = 0; n < 1000; n++) {
    const int length = snprintf(name, size, "%.*s.faltung-%ld-%d%s", directory, target, (long)getpid(), n, extension);
    if (length < 0 || (size_t)length >= size) {
      errno = ENAMETOOLONG;
      return -1;
    }
    const int fd = create_listed(name, slot);
    if (fd >= 0 && replaces && fchmod(fd, old.st_mode & 0777) != 0) errno = 0; /* the default permissions will do */
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

static const char *advice(int number) {
  if (number == ENOSPC || number == EDQUOT) return "free some space or write elsewhere";
  if (number == ENOENT || number == ENOTDIR) return "make its directory first";
  if (number == EACCES || number == EPERM || number == EROFS) return "choose a directory that you may write to";
  return "check the path";
}

static bool fail_errno(const io_output *output, const char *what, io_error *error) {
  const int number = errno;
  return io_fail(error, "%s: %s: %s; %s", output->path, what, strerror(number), advice(number));
}

static void release(io_output *output) {
  slot_release(output->slot);
  if (output->fd >= 0 && output->fd != STDOUT_FILENO) close(output->fd);
  if (output->sink >= 0 && output->sink != STDOUT_FILENO) close(output->sink);
  free(output->path);
  free(output->member);
  free(output->target);
  free(output->temporary);
  *output = (io_output){.fd = -1, .sink = -1, .slot = -1};
}

static bool open_direct(io_output *output, const char *path, io_error *error) {
  if (strcmp(path, "-") != 0) {
    output->fd = open(path, O_WRONLY | O_CLOEXEC);
    return output->fd >= 0 || fail_errno(output, "cannot be written", error);
  }
  output->fd = STDOUT_FILENO;
  if (isatty(STDOUT_FILENO))
    return io_fail(error, "standard output: is a terminal; redirect it to a file or another command");
  return true;
}

static char *in_temporary_directory(void) {
  const char *directory = getenv("TMPDIR");
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/output", directory && *directory ? directory : "/tmp");
  return strdup(path);
}

static bool open_temporary(io_output *output, io_error *error) {
  char name[PATH_MAX];
  char *resolved = output->sink < 0 ? realpath(output->path, NULL) : NULL;
  if (output->sink >= 0)
    output->target = in_temporary_directory();
  else
    output->target = resolved ? resolved : strdup(output->path);
  if (!output->target) return io_fail_memory(error, output->path);
  output->fd = create_temporary(output->target, output->extension, name, sizeof name, &output->slot);
  if (output->fd < 0) return fail_errno(output, "cannot be created", error);
  output->temporary = strdup(name);
  if (output->temporary) return true;
  unlink(name);
  return io_fail_memory(error, output->path);
}

/* A pipe is opened before the work, so that an error is reported at once. */
static bool open_copied(io_output *output, const char *path, io_error *error) {
  if (!open_direct(output, path, error)) return false;
  output->sink = output->fd;
  output->fd = -1;
  return open_temporary(output, error);
}

bool io_output_open(io_output *output, const char *named, const char *extension, bool direct, io_error *error) {
  char path[PATH_MAX];
  const char *member = io_split(named, path);
  *output = (io_output){.fd = -1, .sink = -1, .slot = -1};
  output->path = strdup(strcmp(path, "-") == 0 ? "standard output" : path);
  if (member) output->member = strdup(member);
  if (!output->path || (member && !output->member)) {
    io_output_discard(output);
    return io_fail_memory(error, named);
  }
  if (extension)
    snprintf(output->extension, sizeof output->extension, "%s", extension);
  else
    io_extension(path, output->extension, sizeof output->extension);
  struct stat status;
  const bool standard = strcmp(path, "-") == 0;
  const bool exists = !standard && stat(path, &status) == 0;
  bool done;
  if (exists && S_ISDIR(status.st_mode))
    done = io_fail(error, "%s: is a directory; name a file in it", path);
  else if (standard || (exists && !S_ISREG(status.st_mode)))
    done = direct ? open_direct(output, path, error) : open_copied(output, path, error);
  else
    done = open_temporary(output, error);
  if (!done) io_output_discard(output);
  return done;
}

bool io_output_reserve(const io_output *output, int64_t bytes, io_error *error) {
  if (fallocate(output->fd, 0, 0, (off_t)bytes) == 0) return true;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) return fail_errno(output, "cannot be written", error);
  return true;
}

bool io_output_write(const io_output *output, const void *data, int64_t bytes, io_error *error) {
  const char *from = data;
  while (bytes > 0) {
    const ssize_t n = write(output->fd, from, bytes < WRITE_CHUNK ? (size_t)bytes : WRITE_CHUNK);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return fail_errno(output, "cannot be written", error);
    from += n;
    bytes -= n;
  }
  return true;
}

/* Syncs by name, since a library may have written the file through a descriptor of its own. */
static int sync_path(const char *path, int flags) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return -1;
  const int status = fsync(fd);
  const int number = errno;
  close(fd);
  errno = number;
  return status;
}

static void sync_directory(const char *target) {
  char *name = strndup(target, (size_t)(base_of(target) - target));
  if (name) sync_path(name[0] ? name : ".", O_DIRECTORY); /* some file systems refuse: the rename has happened anyway */
  free(name);
}

/* Copies the complete temporary to the pipe. */
static bool copy_to_sink(io_output *output, io_error *error) {
  const int file = open(output->temporary, O_RDONLY | O_CLOEXEC);
  char *buffer = malloc(COPY_BYTES);
  const io_output sink = {.path = output->path, .fd = output->sink};
  bool done = file >= 0 && buffer;
  if (!done) fail_errno(output, "cannot be written", error);
  for (ssize_t n = 1; done && n > 0;) {
    n = read(file, buffer, COPY_BYTES);
    if (n > 0) done = io_output_write(&sink, buffer, n, error);
    if (n < 0) done = fail_errno(output, "cannot be written", error);
  }
  if (done && fsync(output->sink) != 0 && errno == ENOSPC) done = fail_errno(output, "cannot be written", error);
  free(buffer);
  if (file >= 0) close(file);
  return done;
}

bool io_output_commit(io_output *output, io_error *error) {
  bool done = true;
  if (output->sink >= 0) {
    done = copy_to_sink(output, error);
    unlink(output->temporary);
    release(output);
    return done;
  }
  if (!output->temporary) {
    if (fsync(output->fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
      done = fail_errno(output, "cannot be written", error);
  } else if (sync_path(output->temporary, 0) != 0) {
    done = fail_errno(output, "cannot be written", error);
  } else if (rename(output->temporary, output->target) != 0) {
    done = fail_errno(output, "cannot be renamed into place", error);
  }
  if (!done) {
    io_output_discard(output);
    return false;
  }
  if (output->temporary) sync_directory(output->target);
  release(output);
  return true;
}

void io_output_discard(io_output *output) {
  if (output->temporary) unlink(output->temporary);
  release(output);
}
