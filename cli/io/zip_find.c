/* The directory of a ZIP archive: finds one array by its name. The file is not trusted: each offset and size is
 * compared with the size of the file before use, and sizes that deflate cannot produce are refused. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/format.h"
#include "io/zip.h"

enum {
  END_BYTES = 22, /* of the end record; a comment follows */
  MOST_COMMENT = 65535,
  LOCATOR_BYTES = 20, /* before the end record, where there is a zip64 end record */
  END64_BYTES = 56,
  ENTRY_BYTES = 46, /* of an entry of the directory; name, extra fields and comment follow */
  LOCAL_BYTES = 30, /* before a member's data; name and extra fields follow */
  EXTRA_ZIP64 = 1,
  FLAG_ENCRYPTED = 1,
  MOST_RATIO = 1032, /* the largest expansion of deflate */
  LIST_BYTES = 240
};

typedef struct archive {
  int fd;
  const char *path;
  io_error *error;
  int64_t size;  /* of the file */
  int64_t start; /* of the directory */
  int64_t bytes; /* of the directory */
  unsigned char *directory;
} archive;

typedef struct entry {
  const char *name; /* not terminated */
  int length;       /* without ".npy" */
  bool is_array;
  unsigned flags, method;
  uint32_t crc;
  uint64_t size, packed, offset; /* as declared */
} entry;

static uint64_t load(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  while (bytes-- > 0) value = value << 8 | at[bytes];
  return value;
}

static bool malformed(const archive *a, const char *why) {
  return io_fail(a->error, "%s: is not a valid .npz archive: %s; write it again with numpy.savez", a->path, why);
}

static bool read_at(const archive *a, int64_t offset, void *to, int64_t bytes) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n = pread(a->fd, (char *)to + done, (size_t)(bytes - done), (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_fail(a->error, "%s: cannot be read: %s; check the file", a->path, strerror(errno));
    if (n == 0) return malformed(a, "it became shorter while it was read");
    done += n;
  }
  return true;
}

/* ---- where the directory is */

/* A directory must be before its end record, which starts at `end`. */
static bool set_directory(archive *a, uint64_t start, uint64_t bytes, int64_t end) {
  if (start > (uint64_t)end || bytes > (uint64_t)end - start) return malformed(a, "its directory is not in the file");
  a->start = (int64_t)start;
  a->bytes = (int64_t)bytes;
  return true;
}

/* The zip64 end record has the sizes that do not fit into 32 bits. Without one the 32 bits count. */
static bool read_end64(archive *a, const unsigned char *end, int64_t at) {
  unsigned char locator[LOCATOR_BYTES], record[END64_BYTES];
  const uint64_t bytes = load(end + 12, 4), start = load(end + 16, 4);
  const bool large = bytes == UINT32_MAX || start == UINT32_MAX || load(end + 10, 2) == UINT16_MAX;
  if (!large || at < LOCATOR_BYTES) return set_directory(a, start, bytes, at);
  if (!read_at(a, at - LOCATOR_BYTES, locator, LOCATOR_BYTES)) return false;
  if (memcmp(locator, "PK\6\7", 4) != 0) return set_directory(a, start, bytes, at);
  const uint64_t where = load(locator + 8, 8);
  if (at < LOCATOR_BYTES + END64_BYTES || where > (uint64_t)(at - LOCATOR_BYTES - END64_BYTES))
    return malformed(a, "its zip64 record is not in the file");
  if (!read_at(a, (int64_t)where, record, END64_BYTES)) return false;
  if (memcmp(record, "PK\6\6", 4) != 0) return malformed(a, "its zip64 record is damaged");
  return set_directory(a, load(record + 48, 8), load(record + 40, 8), (int64_t)where);
}

/* The end record is the last one whose comment ends with the file. */
static bool find_directory(archive *a) {
  const int64_t most = END_BYTES + MOST_COMMENT, bytes = a->size < most ? a->size : most;
  unsigned char *tail = malloc((size_t)bytes + 1);
  if (!tail) return io_fail_memory(a->error, a->path);
  bool done = read_at(a, a->size - bytes, tail, bytes), found = false;
  for (int64_t i = bytes - END_BYTES; done && i >= 0 && !found; i--) {
    found = memcmp(tail + i, "PK\5\6", 4) == 0 && (int64_t)load(tail + i + 20, 2) == bytes - i - END_BYTES;
    if (found) done = read_end64(a, tail + i, a->size - bytes + i);
  }
  free(tail);
  if (!done || found) return done;
  return io_fail(a->error,
                 "%s: is not a .npz archive, or is truncated: it does not end as one; write it with numpy.savez",
                 a->path);
}

/* ---- entries */

/* Reads from the zip64 field, in this order, the sizes that the entry has no room for. */
static bool read_extra(const archive *a, entry *e, const unsigned char *extra, const unsigned char *end) {
  uint64_t *const wide[] = {&e->size, &e->packed, &e->offset};
  while (end - extra >= 4) {
    const unsigned id = (unsigned)load(extra, 2);
    const int64_t length = (int64_t)load(extra + 2, 2);
    const unsigned char *value = extra += 4;
    if (length > end - extra) return malformed(a, "a field of its directory is cut off");
    extra += length;
    if (id != EXTRA_ZIP64) continue;
    for (int i = 0; i < 3; i++) {
      if (*wide[i] != UINT32_MAX || extra - value < 8) continue;
      *wide[i] = load(value, 8);
      value += 8;
    }
  }
  return true;
}

/* Reads the entry at *at and moves *at behind it. */
static bool read_entry(const archive *a, int64_t *at, entry *e) {
  const unsigned char *from = a->directory + *at;
  if (a->bytes - *at < ENTRY_BYTES || memcmp(from, "PK\1\2", 4) != 0) return malformed(a, "its directory is damaged");
  const int64_t name = (int64_t)load(from + 28, 2), extra = (int64_t)load(from + 30, 2);
  const int64_t length = ENTRY_BYTES + name + extra + (int64_t)load(from + 32, 2);
  if (length > a->bytes - *at) return malformed(a, "its directory is cut off");
  *e = (entry){.name = (const char *)from + ENTRY_BYTES,
               .flags = (unsigned)load(from + 8, 2),
               .method = (unsigned)load(from + 10, 2),
               .crc = (uint32_t)load(from + 16, 4),
               .packed = load(from + 20, 4),
               .size = load(from + 24, 4),
               .offset = load(from + 42, 4)};
  e->is_array = name >= 4 && strncasecmp(e->name + name - 4, ".npy", 4) == 0;
  e->length = (int)(name - (e->is_array ? 4 : 0));
  *at += length;
  return read_extra(a, e, from + ENTRY_BYTES + name, from + ENTRY_BYTES + name + extra);
}

/* Whether a name, with or without ".npy", is the entry's. */
static bool is_named(const entry *e, const char *name) {
  const size_t length = strlen(name), bare = (size_t)e->length;
  if (length < bare || memcmp(e->name, name, bare) != 0) return false;
  return length == bare || (length == bare + 4 && strcasecmp(name + bare, ".npy") == 0);
}

/* "a, b, c", cut at the list's room. */
static void append_name(char list[LIST_BYTES], const entry *e) {
  const size_t used = strlen(list);
  if (used >= 3 && strcmp(list + used - 3, "...") == 0) return;
  const bool fits = used + (size_t)e->length + 2 < LIST_BYTES - 6;
  snprintf(list + used, LIST_BYTES - used, "%s%.*s", used ? ", " : "", fits ? e->length : 3, fits ? e->name : "...");
}

static bool fail_choice(const archive *a, const char *name, int64_t arrays, const char *list) {
  if (arrays == 0) return io_fail(a->error, "%s: holds no .npy array; write it with numpy.savez", a->path);
  if (name) return io_fail(a->error, "%s: holds no array of this name; choose one of %s", a->path, list);
  return io_fail(a->error, "%s: holds %lld arrays; name one behind a colon: %s", a->path, (long long)arrays, list);
}

/* Of entries of one name the last counts, as in Python's zipfile. */
static bool choose(const archive *a, const char *name, entry *chosen) {
  char list[LIST_BYTES] = "";
  int64_t arrays = 0;
  bool found = false;
  entry e;
  for (int64_t at = 0; at < a->bytes;) {
    if (!read_entry(a, &at, &e)) return false;
    if (!e.is_array) continue;
    arrays++;
    append_name(list, &e);
    if (name && !is_named(&e, name)) continue;
    *chosen = e;
    found = true;
  }
  return (found && (name || arrays == 1)) || fail_choice(a, name, arrays, list);
}

/* ---- the member */

/* Sizes that the file can hold, and a method that can be read. */
static bool check_entry(const archive *a, const entry *e) {
  if (e->flags & FLAG_ENCRYPTED)
    return io_fail(a->error, "%s: is encrypted; write it again without a password", a->path);
  if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
    return io_fail(a->error, "%s: is compressed by method %u; write it again with numpy.savez_compressed", a->path,
                   e->method);
  if (e->method == ZIP_DEFLATED && !zip_inflates)
    return io_fail(a->error,
                   "%s: is compressed, and this build has no zlib; apt install zlib1g-dev and build again, or write it "
                   "with numpy.savez",
                   a->path);
  if (e->packed > (uint64_t)a->start || e->offset > (uint64_t)a->start - e->packed)
    return malformed(a, "the array is not in the file");
  if (e->method == ZIP_STORED ? e->size != e->packed : e->size / MOST_RATIO > e->packed)
    return malformed(a, "it declares more bytes than it holds");
  return true;
}

static bool locate(const archive *a, const entry *e, zip_member *member) {
  unsigned char local[LOCAL_BYTES];
  if (!check_entry(a, e)) return false;
  const int64_t offset = (int64_t)e->offset, packed = (int64_t)e->packed, room = a->start - offset - packed;
  if (room < LOCAL_BYTES) return malformed(a, "the array is not in the file");
  if (!read_at(a, offset, local, LOCAL_BYTES)) return false;
  const int64_t before = LOCAL_BYTES + (int64_t)load(local + 26, 2) + (int64_t)load(local + 28, 2);
  if (memcmp(local, "PK\3\4", 4) != 0 || before > room)
    return malformed(a, "the array is not where its directory says");
  *member = (zip_member){e->method, e->crc, offset + before, packed, (int64_t)e->size};
  return true;
}

static bool load_directory(archive *a) {
  struct stat status;
  if (fstat(a->fd, &status) != 0)
    return io_fail(a->error, "%s: cannot be read: %s; check the file", a->path, strerror(errno));
  if (S_ISDIR(status.st_mode)) return io_fail(a->error, "%s: is a directory; name a file in it", a->path);
  if (!S_ISREG(status.st_mode))
    return io_fail(a->error, "%s: is no regular file, and an archive is read from its end; copy it to a file", a->path);
  a->size = status.st_size;
  if (!find_directory(a)) return false;
  a->directory = malloc((size_t)a->bytes + 1);
  return a->directory ? read_at(a, a->start, a->directory, a->bytes) : io_fail_memory(a->error, a->path);
}

bool zip_find(int fd, const char *path, const char *name, zip_member *member, io_error *error) {
  archive a = {.fd = fd, .path = path, .error = error};
  entry chosen = {.name = NULL};
  const bool done = load_directory(&a) && choose(&a, name, &chosen) && locate(&a, &chosen, member);
  free(a.directory);
  return done;
}
