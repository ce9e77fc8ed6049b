/* The cache of compiled kernels on disk. Files appear by rename, so processes may read and write concurrently. An
 * unreadable file is treated as absent and rewritten. src/cuda/cubin.c defines the format. */
#include "cuda/cache.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"

static const size_t largest_file = (size_t)64 << 20;
enum { MAX_FILES = 65536, NAME = 96 };

static uint64_t hash_text(uint64_t hash, const char *text) {
  return falt_hash(hash, text, strlen(text) + 1);
}

/* The key depends on all sources: a changed header changes every kernel. Hashes their digests, because the texts are
 * 0.6 MB and every plan computes the keys of its kernels. */
static uint64_t hash_kernel(uint64_t start, const falt_cuda_kernel *kernel, const char *arch) {
  uint64_t hash = hash_text(hash_text(start, kernel->source), arch);
  for (const falt_cuda_source *s = falt_cuda_kernel_sources(kernel); s->name; s++)
    hash = hash_text(hash_text(hash, s->name), s->digest);
  for (int i = 0; i < kernel->defines; i++) hash = hash_text(hash, kernel->define[i]);
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

static falt_status no_directory(void) {
  return falt_fail(FALT_NO_FILE, "cache: there is no directory for it; set FALTUNG_CACHE");
}

bool falt_cuda_cache_read(const char *key, falt_cuda_binary *binary) {
  char path[PATH_MAX], *text;
  size_t length;
  if (!path_of(key, path) || falt_file_read(path, largest_file, &text, &length) != FALT_OK) return false;
  if (falt_cubin_unpack(text, length, binary, NULL)) return true;
  falt_free(text);
  return false;
}

/* ---- the directory */

typedef struct cached_file {
  char name[NAME];
  int64_t bytes;
  time_t written;
} cached_file;

typedef struct cached_files {
  char directory[PATH_MAX];
  cached_file *file;
  int count, room;
  int64_t bytes;
} cached_files;

/* Kernels, and temporary files of dead processes: "KEY.cubin.PID.N.tmp". Other files are not ours. */
static bool is_ours(const char *name) {
  const char *point = strchr(name, '.');
  if (!point || point - name != FALT_CUDA_KEY - 1 || strspn(name, "0123456789abcdef") != FALT_CUDA_KEY - 1)
    return false;
  const size_t length = strlen(point);
  return strcmp(point, ".cubin") == 0 ||
         (strncmp(point, ".cubin.", 7) == 0 && length > 10 && strcmp(point + length - 4, ".tmp") == 0);
}

static cached_file *append(cached_files *list) {
  if (list->count == list->room) {
    const int room = list->room ? 2 * list->room : 64;
    cached_file *larger = room <= MAX_FILES ? falt_alloc((size_t)room * sizeof *larger) : NULL;
    if (!larger) return NULL;
    if (list->count) memcpy(larger, list->file, (size_t)list->count * sizeof *larger);
    falt_free(list->file);
    list->file = larger;
    list->room = room;
  }
  return &list->file[list->count];
}

static int newest_first(const void *a, const void *b) {
  const cached_file *one = a, *other = b;
  if (one->written != other->written) return one->written < other->written ? 1 : -1;
  return strcmp(one->name, other->name);
}

static bool path_in(const cached_files *list, const char *name, char path[PATH_MAX]) {
  falt_text text = falt_text_over(path, PATH_MAX);
  falt_text_add(&text, "%s%s", list->directory, name);
  return text.length < PATH_MAX;
}

static void look_at(cached_files *list, const char *name) {
  char path[PATH_MAX];
  struct stat facts;
  if (!is_ours(name) || strlen(name) >= NAME || !path_in(list, name, path)) return;
  cached_file *file = append(list);
  if (!file || lstat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) return;
  *file = (cached_file){.bytes = facts.st_size, .written = facts.st_mtime};
  memcpy(file->name, name, strlen(name) + 1);
  list->bytes += file->bytes;
  list->count++;
}

/* Lists the files, as far as memory suffices; free list->file. */
static falt_status list_files(cached_files *list) {
  *list = (cached_files){.count = 0};
  if (!falt_cache_path("cuda/", list->directory, sizeof list->directory)) return no_directory();
  DIR *open = opendir(list->directory);
  for (struct dirent *entry; open && (entry = readdir(open));) look_at(list, entry->d_name);
  if (open) closedir(open);
  if (list->count) qsort(list->file, (size_t)list->count, sizeof *list->file, newest_first);
  return FALT_OK;
}

static bool remove_file(const cached_files *list, const cached_file *file) {
  char path[PATH_MAX];
  return path_in(list, file->name, path) && unlink(path) == 0;
}

/* ---- writing */

static void bound_directory(void) {
  cached_files list;
  if (list_files(&list) != FALT_OK) return;
  for (int i = list.count - 1; i > 0 && list.bytes > FALT_CACHE_BYTES; i--)
    if (remove_file(&list, &list.file[i])) list.bytes -= list.file[i].bytes;
  falt_free(list.file);
}

falt_status falt_cuda_cache_write(const char *key, const falt_cuda_kernel *kernel, const char *arch,
                                  const falt_cuda_binary *binary) {
  char path[PATH_MAX];
  size_t length;
  if (!path_of(key, path)) return no_directory();
  char *text = falt_cubin_pack(kernel, arch, binary, &length);
  if (!text) return falt_fail(FALT_NO_MEMORY, "cache: memory ran out");
  const falt_status status = falt_cache_write(path, text, length);
  falt_free(text);
  if (status == FALT_OK) bound_directory();
  return status;
}

/* ---- showing and clearing */

static const char *examine(char *text, size_t length, falt_cuda_binary *binary, falt_cubin_label *label) {
  if (!text) return "cannot be read";
  return falt_cubin_unpack(text, length, binary, label) ? NULL : "cut, altered or of another version of Faltung";
}

static void report_file(const char *path, const cached_file *file,
                        void (*report)(void *context, const falt_cached_kernel *kernel), void *context) {
  static const falt_cubin_label none = {.source = ""};
  falt_cubin_label read;
  falt_cuda_binary binary;
  char *text;
  size_t length;
  falt_file_read(path, largest_file, &text, &length);
  const char *damage = examine(text, length, &binary, &read);
  const falt_cubin_label *label = damage ? &none : &read;
  const falt_cuda_use use = damage ? (falt_cuda_use){-1, -1, -1, -1} : binary.use;
  const falt_cached_kernel kernel = {.path = path,
                                     .damage = damage,
                                     .source = label->source,
                                     .entry = label->entry,
                                     .arch = label->arch,
                                     .holes = label->defines,
                                     .nvrtc = damage ? 0 : binary.compiler,
                                     .registers = use.registers,
                                     .spill_bytes = use.spill_bytes,
                                     .shared_bytes = use.shared_bytes,
                                     .bytes = file->bytes,
                                     .written = (int64_t)file->written};
  report(context, &kernel);
  falt_free(text);
}

falt_status falt_cuda_cache_each(void (*report)(void *context, const falt_cached_kernel *kernel), void *context) {
  char path[PATH_MAX];
  cached_files list;
  FALT_TRY(list_files(&list));
  for (int i = 0; i < list.count; i++)
    if (path_in(&list, list.file[i].name, path)) report_file(path, &list.file[i], report, context);
  falt_free(list.file);
  return FALT_OK;
}

falt_status falt_cuda_cache_clear(int64_t *removed) {
  cached_files list;
  *removed = 0;
  FALT_TRY(list_files(&list));
  for (int i = 0; i < list.count; i++) *removed += remove_file(&list, &list.file[i]);
  falt_free(list.file);
  if (*removed == list.count) return FALT_OK;
  return falt_fail(FALT_NO_FILE, "%s: some kernels cannot be removed; see its permissions", list.directory);
}
