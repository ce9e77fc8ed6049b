/* PTX by NVRTC, which is asked here for less than the library asks: no assembler runs. */
#include "ptx.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "cuda/driver.h"

enum { MOST_SOURCES = 256, MOST_OPTIONS = FALT_CUDA_DEFINES + 8, MOST_NAMES = 1024 };

/* ---- names */

typedef struct names {
  const char *at[MOST_NAMES];
  size_t length[MOST_NAMES];
  int count;
} names;

static bool begins_name(char c) {
  return isalpha((unsigned char)c) || c == '_';
}

static size_t name_length(const char *text) {
  size_t n = 0;
  while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '$') n++;
  return n;
}

static int find_name(const names *known, const char *text, size_t length) {
  for (int i = 0; i < known->count; i++)
    if (known->length[i] == length && memcmp(known->at[i], text, length) == 0) return i;
  return -1;
}

/* Words of a line that declares functions, parameters or variables; directives begin with a dot, registers with %. */
static void add_declared(names *known, const char *line, size_t length) {
  static const char *const kinds[] = {".entry", ".func", ".param", ".shared", ".global", ".const"};
  bool declares = false;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const char *kind = strstr(line, kinds[i]);
    declares |= kind && kind < line + length && (kind == line || isspace((unsigned char)kind[-1]));
  }
  for (const char *at = line; declares && at < line + length; at++) {
    if (!begins_name(*at) || (at > line && (isalnum((unsigned char)at[-1]) || strchr("._%$", at[-1])))) continue;
    const size_t n = name_length(at);
    if (find_name(known, at, n) < 0 && known->count < MOST_NAMES) {
      known->at[known->count] = at;
      known->length[known->count++] = n;
    }
    at += n;
  }
}

/* ---- the hash */

/* Blanks in place of comments: lengths stay. */
static void clear_comments(char *text) {
  for (char *at = text; *at; at++) {
    const bool line = at[0] == '/' && at[1] == '/', block = at[0] == '/' && at[1] == '*';
    const char *end = line ? strchr(at, '\n') : block ? strstr(at + 2, "*/") : NULL;
    if (!line && !block) continue;
    if (!end) end = at + strlen(at);
    memset(at, ' ', (size_t)(end - at));
    if (block && *end) memset((char *)(uintptr_t)end, ' ', 2);
  }
}

static uint64_t hash_word(uint64_t hash, const names *known, names *met, const char *word, size_t length) {
  if (find_name(known, word, length) < 0) return falt_hash(hash, word, length);
  int number = find_name(met, word, length);
  if (number < 0 && met->count < MOST_NAMES) {
    number = met->count++;
    met->at[number] = word;
    met->length[number] = length;
  }
  return falt_hash(hash, &number, sizeof number);
}

static uint64_t hash_text(char *text) {
  static names known, met;
  uint64_t hash = FALT_HASH_START;
  known.count = met.count = 0;
  clear_comments(text);
  for (const char *line = text; *line; line += strcspn(line, "\n") + (strchr(line, '\n') != NULL))
    add_declared(&known, line, strcspn(line, "\n"));
  for (const char *at = text; *at;) {
    const bool inside = at > text && (isalnum((unsigned char)at[-1]) || strchr("._%$", at[-1]));
    const size_t n = begins_name(*at) && !inside ? name_length(at) : 0;
    if (n) hash = hash_word(hash, &known, &met, at, n);
    if (!n && !isspace((unsigned char)*at)) hash = falt_hash(hash, at, 1);
    at += n ? n : 1;
  }
  return hash;
}

/* ---- NVRTC */

typedef struct program *nvrtc_program;
static struct {
  int (*create)(nvrtc_program *program, const char *text, const char *name, int headers, const char *const *texts,
                const char *const *names);
  int (*destroy)(nvrtc_program *program);
  int (*compile)(nvrtc_program program, int options, const char *const *option);
  int (*size)(nvrtc_program program, size_t *size);
  int (*ptx)(nvrtc_program program, char *text);
} nvrtc;

static bool load(void) {
  static const char *const libraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  const struct {
    const char *name;
    void *entry;
  } entries[] = {{"nvrtcCreateProgram", &nvrtc.create},
                 {"nvrtcDestroyProgram", &nvrtc.destroy},
                 {"nvrtcCompileProgram", &nvrtc.compile},
                 {"nvrtcGetPTXSize", &nvrtc.size},
                 {"nvrtcGetPTX", &nvrtc.ptx}};
  if (nvrtc.ptx) return true;
  void *library = falt_cuda_open_library(libraries, 3);
  for (size_t i = 0; library && i < sizeof entries / sizeof *entries; i++) {
    void *symbol = dlsym(library, entries[i].name);
    if (!symbol) return false;
    memcpy(entries[i].entry, &symbol, sizeof symbol);
  }
  return library != NULL;
}

static nvrtc_program make_program(const falt_cuda_kernel *kernel) {
  const char *sources[MOST_SOURCES], *texts[MOST_SOURCES], *text = NULL;
  nvrtc_program program = NULL;
  int count = 0;
  for (const falt_cuda_source *s = falt_cuda_kernel_sources(kernel); s->name && count < MOST_SOURCES; s++) {
    if (strcmp(s->name, kernel->source) == 0) text = s->text;
    sources[count] = s->name;
    texts[count++] = s->text;
  }
  return text && nvrtc.create(&program, text, "kernel", count, texts, sources) == 0 ? program : NULL;
}

static char *compile(nvrtc_program program, const falt_cuda_kernel *kernel, const char *arch) {
  char architecture[48], defines[FALT_CUDA_DEFINES][FALT_CUDA_DEFINE + 2];
  const char *options[MOST_OPTIONS] = {"--std=c++17", "-default-device", "--device-int128", architecture};
  int count = 4;
  size_t size = 0;
  snprintf(architecture, sizeof architecture, "--gpu-architecture=compute_%s", arch + strlen("sm_"));
  for (int i = 0; i < kernel->defines; i++) {
    snprintf(defines[i], sizeof defines[i], "-D%s", kernel->define[i]);
    options[count++] = defines[i];
  }
  if (nvrtc.compile(program, count, options) != 0 || nvrtc.size(program, &size) != 0 || !size) return NULL;
  char *text = calloc(size + 1, 1);
  if (text) nvrtc.ptx(program, text);
  return text;
}

bool record_ptx(const falt_cuda_kernel *kernel, const char *arch, uint64_t *hash) {
  nvrtc_program program = load() ? make_program(kernel) : NULL;
  char *text = program ? compile(program, kernel, arch) : NULL;
  if (text) *hash = hash_text(text);
  if (!text) fprintf(stderr, "%s: no PTX for %s\n", kernel->source, arch);
  free(text);
  if (program) nvrtc.destroy(&program);
  return text != NULL;
}
