/* The backend of each extension, and the loading of modules on first use. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/format.h"

/* A module is beside the command (in a build directory), in ../LIBDIR/faltung relative to the command's directory
 * (installed, also after a move), or in the configured directory. */

/* Set by the build to the version found. */
#ifndef FALT_VIPS_VERSION
#define FALT_VIPS_VERSION ""
#endif
#ifndef FALT_SNDFILE_VERSION
#define FALT_SNDFILE_VERSION ""
#endif
#ifndef FALT_NIFTI_VERSION
#define FALT_NIFTI_VERSION ""
#endif
#ifndef FALT_ZLIB_VERSION
#define FALT_ZLIB_VERSION ""
#endif
#ifndef FALT_MODULE_DIR
#define FALT_MODULE_DIR "/usr/local/lib/faltung"
#endif
#ifndef FALT_LIBDIR
#define FALT_LIBDIR "lib"
#endif

typedef struct format {
  const char *name;
  const char *library;
  const char *version; /* empty: built without it */
  const char *package; /* that has it, on Debian */
  const char *module;  /* NULL: built in */
  const char *extensions;
  const io_backend *backend; /* once loaded */
} format;

/* The last accepts all other extensions: libvips knows its own long list, and detects the content. */
static format formats[] = {
    {.name = "arrays", .library = "", .version = "built in", .extensions = ".npy", .backend = &io_npy},
    {"archives", "zlib", FALT_ZLIB_VERSION, "zlib1g-dev", NULL, ".npz", &io_npy},
    {"audio", "libsndfile", FALT_SNDFILE_VERSION, "libsndfile1-dev", "faltung-io-sndfile.so",
     ".wav .flac .ogg .oga .opus .mp3 .aiff .aif .aifc .au .snd .caf .w64 .rf64", NULL},
    {"volumes", "libnifti", FALT_NIFTI_VERSION, "libnifti-dev", "faltung-io-nifti.so", ".nii .nii.gz", NULL},
    {"images", "libvips", FALT_VIPS_VERSION, "libvips-dev", "faltung-io-vips.so",
     ".png .jpg .jpeg .tif .tiff .webp .gif .ppm .pgm .jp2 .jxl .avif .heic .exr .hdr .fits .v and more", NULL},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static format *find(const char *extension) {
  for (int i = 0; i < FORMATS; i++)
    if (io_lists(formats[i].extensions, extension)) return &formats[i];
  return &formats[FORMATS - 1];
}

/* ------------------------------------------------------------------------------------------------------ modules */

static bool join(char *text, size_t size, const char *directory, const char *middle, const char *name) {
  const int n = snprintf(text, size, "%s/%s%s", directory, middle, name);
  return n > 0 && (size_t)n < size && access(text, R_OK) == 0;
}

/* Finds the module's file without loading it. */
static bool locate(const char *module, char *text, size_t size) {
  char directory[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", directory, sizeof directory - 1);
  directory[n > 0 ? n : 0] = '\0';
  char *slash = strrchr(directory, '/');
  if (slash) *slash = '\0';
  return (slash && join(text, size, directory, "", module)) ||
         (slash && join(text, size, directory, "../" FALT_LIBDIR "/faltung/", module)) ||
         join(text, size, FALT_MODULE_DIR, "", module);
}

static bool load(format *f, const char *path, io_error *error) {
  char file[PATH_MAX];
  if (!f->version[0])
    return io_fail(error, "%s: this build reads no %s, as %s was not found; apt install %s and build again", path,
                   f->name, f->library, f->package);
  if (!locate(f->module, file, sizeof file))
    return io_fail(error, "%s: %s, which reads %s, is not beside the command nor in %s; install Faltung again", path,
                   f->module, f->name, FALT_MODULE_DIR);
  void *module = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
  if (!module)
    return io_fail(error, "%s: the reader of %s cannot be loaded: %s; apt install %s", path, f->name, dlerror(),
                   f->package);
  const io_backend *backend = dlsym(module, IO_BACKEND_SYMBOL);
  if (!backend || backend->version != IO_BACKEND_VERSION)
    return io_fail(error, "%s: %s belongs to another version of Faltung; install Faltung again", path, file);
  f->backend = backend;
  return true;
}

const io_backend *io_backend_find(const char *path, const char *extension, io_error *error) {
  format *f = find(extension);
  if (!f->backend && !load(f, path, error)) return NULL;
  return f->backend;
}

bool io_format(int i, const char **name, const char **extensions, const char **state) {
  static char text[FORMATS][160];
  char file[PATH_MAX];
  if (i < 0 || i >= FORMATS) return false;
  const format *f = &formats[i];
  if (!f->library[0])
    snprintf(text[i], sizeof text[i], "built in");
  else if (!f->module && !f->version[0])
    snprintf(text[i], sizeof text[i], "built in, but not compressed ones: apt install %s", f->package);
  else if (!f->module)
    snprintf(text[i], sizeof text[i], "built in, found %s %s", f->library, f->version);
  else if (!f->version[0])
    snprintf(text[i], sizeof text[i], "not found: apt install %s", f->package);
  else if (!locate(f->module, file, sizeof file))
    snprintf(text[i], sizeof text[i], "not found: %s is missing; install Faltung again", f->module);
  else
    snprintf(text[i], sizeof text[i], "found %s %s", f->library, f->version);
  *name = f->name;
  *extensions = f->extensions;
  *state = text[i];
  return true;
}
