/* A file is one line, "faltung-cubin 1 NVRTC HASH SIZE", and SIZE bytes with that FNV-1a hash. Files appear by rename,
 * so processes may read and write at once; one that does not read is as good as absent and is written anew. */
#include "cuda/cache.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/text.h"
#include "cuda/sources.h"

static const size_t largest_file = (size_t)64 << 20;
static const int64_t largest_directory = INT64_C(256) << 20;
enum { HEAD = 96, MAX_FILES = 16384 };

static uint64_t hash_text(uint64_t hash, const char *text) {
  return falt_hash(hash, text, strlen(text) + 1);
}

/* All sources count: a header that changed makes every kernel a different one. */
static uint64_t hash_kernel(uint64_t start, const falt_cuda_kernel *kernel, const char *arch) {
  uint64_t hash = hash_text(hash_text(start, kernel->source), arch);
  for (const falt_cuda_source *s = falt_cuda_sources; s->name; s++) hash = hash_text(hash_text(hash, s->name), s->text);
  for (int i = 0; i < kernel->holes; i++) hash = hash_text(hash, kernel->hole[i]);
  return hash;
}

void falt_cuda_key(const falt_cuda_kernel *kernel, const char *arch, char key[FALT_CUDA_KEY]) {
  snprintf(key, FALT_CUDA_KEY, "%016" PRIx64 "%016" PRIx64, hash_kernel(FALT_HASH_START, kernel, arch),
           hash_kernel(~FALT_HASH_START, kernel, arch));
}

static bool path_of(const char *key, char path[PATH_MAX]) {
  char name[FALT_CUDA_KEY + 16];
  snprintf(name, sizeof name, "cuda/%s.cubin", key);
  return falt_cache_path(name, path, PATH_MAX);
}

static int print_head(char head[HEAD], int compiler, const char *data, size_t size) {
  return snprintf(head, HEAD, "faltung-cubin 1 %d %016" PRIx64 " %zu\n", compiler,
                  falt_hash(FALT_HASH_START, data, size), size);
}

/* Whether the file's text is head and data that belong together; moves the data to its front. */
static bool unpack(char *text, size_t length, falt_cuda_binary *binary) {
  char head[HEAD];
  int version = 0;
  const char *end = memchr(text, '\n', length < HEAD ? length : HEAD);
  if (!end || sscanf(text, "faltung-cubin 1 %d ", &version) != 1) return false;
  if (falt_cuda_compiler() && falt_cuda_compiler() != version) return false;
  const size_t used = (size_t)(end + 1 - text);
  const int expected = print_head(head, version, end + 1, length - used);
  if ((size_t)expected != used || memcmp(head, text, used) != 0) return false;
  memmove(text, end + 1, length - used);
  *binary = (falt_cuda_binary){text, length - used};
  return true;
}

bool falt_cuda_cache_read(const char *key, falt_cuda_binary *binary) {
  char path[PATH_MAX], *text;
  size_t length;
  if (!path_of(key, path) || falt_file_read(path, largest_file, &text, &length) != FALT_OK) return false;
  if (unpack(text, length, binary)) return true;
  falt_free(text);
  return false;
}

/* ---- writing */

/* Removes the oldest file of a directory; its size, or 0 if none could be removed. */
static int64_t remove_oldest(const char *directory, int64_t *total) {
  char path[PATH_MAX], oldest[PATH_MAX] = "";
  struct stat facts, found = {.st_size = 0};
  DIR *open = opendir(directory);
  *total = 0;
  for (struct dirent *entry; open && (entry = readdir(open));) {
    snprintf(path, sizeof path, "%.3000s/%s", directory, entry->d_name);
    if (entry->d_name[0] == '.' || stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    *total += facts.st_size;
    if (oldest[0] && facts.st_mtime >= found.st_mtime) continue;
    found = facts;
    snprintf(oldest, sizeof oldest, "%s", path);
  }
  if (open) closedir(open);
  if (*total <= largest_directory || !oldest[0] || unlink(oldest) != 0) return 0;
  return found.st_size;
}

static void bound_directory(void) {
  char directory[PATH_MAX];
  int64_t total;
  if (!falt_cache_path("cuda", directory, sizeof directory)) return;
  for (int i = 0; i < MAX_FILES; i++)
    if (remove_oldest(directory, &total) == 0) return;
}

void falt_cuda_cache_write(const char *key, const falt_cuda_binary *binary) {
  char path[PATH_MAX], head[HEAD];
  if (!path_of(key, path)) return;
  const size_t used = (size_t)print_head(head, falt_cuda_compiler(), binary->data, binary->size);
  char *text = falt_alloc(used + binary->size);
  if (!text) return;
  memcpy(text, head, used);
  memcpy(text + used, binary->data, binary->size);
  if (falt_file_write(path, text, used + binary->size) == FALT_OK) bound_directory();
  falt_free(text);
}
