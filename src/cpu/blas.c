/* Loads a BLAS library. */
#include "cpu/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static falt_blas table;
static const falt_blas *found;

/* An object pointer becomes a function pointer. */
static void find(void *library, const char *name, void *entry) {
  void *symbol = dlsym(library, name);
  memcpy(entry, &symbol, sizeof symbol);
}

static void use_one_thread(void *library) {
  static const char *const names[] = {"openblas_set_num_threads", "bli_thread_set_num_threads"};
  void (*openblas)(int threads), (*blis)(long threads);
  find(library, names[0], &openblas);
  find(library, names[1], &blis);
  if (openblas) openblas(1);
  if (blis) blis(1);
}

/* "OpenBLAS 0.3.21", from its build configuration; else the file's name. */
static void name_it(void *library, const char *file) {
  char *(*config)(void);
  find(library, "openblas_get_config", &config);
  const char *text = config ? config() : NULL, *base = strrchr(file, '/');
  if (text && strchr(text, ' ')) {
    const size_t first = strcspn(text, " "), second = strcspn(text + first + 1, " ");
    snprintf(table.name, sizeof table.name, "%.*s", (int)(first + 1 + second), text);
  } else {
    snprintf(table.name, sizeof table.name, "%s", base ? base + 1 : file);
  }
}

static void load_once(void) {
  static const char *const names[] = {"libopenblas.so.0", "libblis.so.4", "libopenblas.so", "libblis.so"};
  const char *named = getenv("FALTUNG_BLAS"), *file = named;
  void *library = named && *named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL;
  for (size_t i = 0; !(named && *named) && !library && i < sizeof names / sizeof *names; i++) {
    file = names[i];
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  }
  if (!library) return;
  find(library, "cblas_sgemm", &table.f32);
  find(library, "cblas_dgemm", &table.f64);
  if (!table.f32 || !table.f64) return;
  use_one_thread(library);
  name_it(library, file);
  found = &table;
}

const falt_blas *falt_blas_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_once);
  return found;
}
