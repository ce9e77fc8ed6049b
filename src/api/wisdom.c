/* Public functions that load and save wisdom. */
#include "planner/wisdom.h"

#include "core/file.h"
#include "core/memory.h"

enum { PATH = 4096 };

static falt_status check(const falt_device *device, const char **path, char standard[PATH]) {
  if (!device) return falt_fail(FALT_INVALID_ARGUMENT, "device: NULL; make one with falt_device_cpu");
  if (*path) return FALT_OK;
  if (!falt_cache_path("wisdom", standard, PATH))
    return falt_fail(FALT_NO_FILE, "wisdom: no cache directory; set FALTUNG_CACHE or name a file");
  *path = standard;
  return FALT_OK;
}

falt_status falt_wisdom_load(falt_device *device, const char *path) {
  char standard[PATH], *text;
  size_t length;
  int sections;
  bool named = path != NULL;
  FALT_TRY(check(device, &path, standard));
  FALT_TRY(falt_file_read(path, FALT_WISDOM_FILE, &text, &length));
  falt_status status = falt_wisdom_import(device, falt_solvers, text, length, &sections);
  falt_free(text);
  if (status == FALT_OK && named &&
      !sections) /* the shared file may well know other devices only; this one was meant */
    status = falt_fail(FALT_INVALID_TEXT, "wisdom: '%s' is of another device or version than '%s'; tune again", path,
                       device->name);
  return status;
}

falt_status falt_wisdom_save(const falt_device *device, const char *path) {
  char standard[PATH], *old = NULL;
  size_t length;
  const bool in_cache = !path;
  FALT_TRY(check(device, &path, standard));
  if (falt_file_read(path, FALT_WISDOM_FILE, &old, &length) != FALT_OK) old = NULL;
  char *text = falt_wisdom_export(device, falt_solvers, old, &length);
  falt_free(old);
  if (!text) return falt_fail(FALT_NO_MEMORY, "wisdom: memory ran out");
  falt_status status = (in_cache ? falt_cache_write : falt_file_write)(path, text, length);
  falt_free(text);
  return status;
}

void falt_wisdom_forget(falt_device *device) {
  if (device) falt_wisdom_clear(device->wisdom);
}
