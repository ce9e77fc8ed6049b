/* Loads NVRTC and compiles kernels to cubins. */
#include "cuda/compile.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "cuda/driver.h"

enum { MAX_SOURCES = 128, MAX_OPTIONS = FALT_CUDA_DEFINES + 8 };

typedef struct program *nvrtc_program;
static struct {
  bool loaded;
  int version_number;
  int (*version)(int *major, int *minor);
  int (*create)(nvrtc_program *program, const char *text, const char *name, int headers, const char *const *texts,
                const char *const *names);
  int (*destroy)(nvrtc_program *program);
  int (*compile)(nvrtc_program program, int options, const char *const *option);
  int (*cubin_size)(nvrtc_program program, size_t *size);
  int (*cubin)(nvrtc_program program, char *data);
  int (*log_size)(nvrtc_program program, size_t *size);
  int (*log)(nvrtc_program program, char *text);
  int (*arch_count)(int *count);
  int (*archs)(int *archs);
} nvrtc;

static void load_once(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "libnvrtc.so.14"};
  const falt_cuda_entry entries[] = {{"nvrtcVersion", &nvrtc.version},
                                     {"nvrtcCreateProgram", &nvrtc.create},
                                     {"nvrtcDestroyProgram", &nvrtc.destroy},
                                     {"nvrtcCompileProgram", &nvrtc.compile},
                                     {"nvrtcGetCUBINSize", &nvrtc.cubin_size},
                                     {"nvrtcGetCUBIN", &nvrtc.cubin},
                                     {"nvrtcGetProgramLogSize", &nvrtc.log_size},
                                     {"nvrtcGetProgramLog", &nvrtc.log},
                                     {"nvrtcGetNumSupportedArchs", &nvrtc.arch_count},
                                     {"nvrtcGetSupportedArchs", &nvrtc.archs}};
  void *library = falt_cuda_open_library(names, 4);
  if (!library || falt_cuda_find(library, entries, sizeof entries / sizeof *entries)) return;
  int major = 0, minor = 0;
  nvrtc.loaded = nvrtc.version(&major, &minor) == 0;
  nvrtc.version_number = major * 1000 + minor;
}

static bool load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_once);
  return nvrtc.loaded;
}

int falt_cuda_compiler(void) {
  return load() ? nvrtc.version_number : 0;
}

void falt_cuda_define(falt_cuda_kernel *kernel, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (kernel->defines == FALT_CUDA_DEFINES)
    kernel->cut = true;
  else
    kernel->cut |=
        vsnprintf(kernel->define[kernel->defines++], FALT_CUDA_DEFINE, format, arguments) >= FALT_CUDA_DEFINE;
  va_end(arguments);
}

void falt_cuda_defines(falt_cuda_kernel *kernel, const falt_cuda_named_define *defines, size_t count) {
  for (size_t i = 0; i < count; i++) falt_cuda_define(kernel, "%s=%d", defines[i].name, (int)defines[i].value);
}

const falt_cuda_source *falt_cuda_kernel_sources(const falt_cuda_kernel *kernel) {
  return kernel->sources ? kernel->sources : falt_cuda_sources;
}

falt_status falt_cuda_kernel_check(const falt_cuda_kernel *kernel) {
  if (kernel->cut)
    return falt_fail(FALT_INTERNAL,
                     "cuda: %s has more or longer defines than fit; raise FALT_CUDA_DEFINES or FALT_CUDA_DEFINE",
                     kernel->source);
  for (const falt_cuda_source *s = falt_cuda_kernel_sources(kernel); s->name; s++)
    if (strcmp(s->name, kernel->source) == 0) return FALT_OK;
  return falt_fail(FALT_INTERNAL, "cuda: there is no source %s; src/solver and src/cuda have them", kernel->source);
}

/* ---- architectures */

enum { MAX_ARCHS = 64 };

/* FALT_OK if this NVRTC compiles for it. Names such as "sm_90a" have major*10 + minor in them. */
static falt_status check_arch(const char *arch) {
  int known[MAX_ARCHS], count = 0, least = INT32_MAX, most = 0;
  const int wanted = strncmp(arch, "sm_", 3) == 0 ? atoi(arch + 3) : 0;
  if (nvrtc.arch_count(&count) != 0 || count > MAX_ARCHS || nvrtc.archs(known) != 0) return FALT_OK;
  for (int i = 0; i < count; i++) {
    if (known[i] == wanted) return FALT_OK;
    if (known[i] < least) least = known[i];
    if (known[i] > most) most = known[i];
  }
  return falt_fail(FALT_NO_DEVICE, "cuda: NVRTC %d.%d compiles for sm_%d to sm_%d and not for %s; install %s one",
                   nvrtc.version_number / 1000, nvrtc.version_number % 1000, least, most, arch,
                   wanted < least ? "an older" : "a newer");
}

/* ---- one compilation */

static nvrtc_program make_program(const falt_cuda_kernel *kernel) {
  const char *names[MAX_SOURCES], *texts[MAX_SOURCES], *text = NULL;
  int headers = 0;
  for (const falt_cuda_source *s = falt_cuda_kernel_sources(kernel); s->name && headers < MAX_SOURCES; s++) {
    if (strcmp(s->name, kernel->source) == 0) text = s->text;
    names[headers] = s->name;
    texts[headers++] = s->text;
  }
  nvrtc_program program = NULL;
  if (!text || nvrtc.create(&program, text, kernel->source, headers, texts, names) != 0) return NULL;
  return program;
}

static int run(nvrtc_program program, const falt_cuda_kernel *kernel, const char *arch) {
  char architecture[48], defines[FALT_CUDA_DEFINES][FALT_CUDA_DEFINE + 2];
  const char *options[MAX_OPTIONS] = {"--std=c++17", "-default-device", "--device-int128", "--ptxas-options=-v"};
  int count = 4;
  snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", arch);
  options[count++] = architecture;
  for (int i = 0; i < kernel->defines; i++) {
    snprintf(defines[i], sizeof defines[i], "-D%s", kernel->define[i]);
    options[count++] = defines[i];
  }
  return nvrtc.compile(program, count, options);
}

static char *read_log(nvrtc_program program) {
  size_t size = 0;
  if (nvrtc.log_size(program, &size) != 0) return NULL;
  char *text = falt_alloc_zero(size + 1);
  if (text && size) nvrtc.log(program, text);
  return text;
}

/* The line of the log with the error. */
static falt_status fail(const falt_cuda_kernel *kernel, const char *arch, const char *log) {
  const char *line = log ? strstr(log, "error") : NULL;
  while (line && line > log && line[-1] != '\n') line--;
  if (!line) line = log ? log : "no log";
  return falt_fail(FALT_INTERNAL, "cuda: %s does not compile for %s: %.*s", kernel->source, arch,
                   (int)strcspn(line, "\n"), line);
}

/* The largest number directly before `after`, or directly after `before`, in a log; -1 if there is none. */
static int largest(const char *log, const char *before, const char *after) {
  int most = -1;
  for (const char *at = log; (at = strstr(at, before ? before : after)); at++) {
    const char *digits = before ? at + strlen(before) : at;
    while (!before && digits > log && digits[-1] >= '0' && digits[-1] <= '9') digits--;
    const int value = *digits >= '0' && *digits <= '9' ? atoi(digits) : -1;
    if (value > most) most = value;
  }
  return most;
}

static falt_cuda_use use_of(const char *log) {
  if (!log) return (falt_cuda_use){-1, -1, -1, -1};
  const int shared = largest(log, NULL, " bytes smem");
  return (falt_cuda_use){.registers = largest(log, "Used ", NULL),
                         .spill_bytes = largest(log, NULL, " bytes spill stores"),
                         .stack_bytes = largest(log, NULL, " bytes stack frame"),
                         .shared_bytes = shared < 0 ? 0 : shared};
}

static falt_status take(nvrtc_program program, falt_cuda_binary *binary) {
  if (nvrtc.cubin_size(program, &binary->size) != 0 || binary->size == 0)
    return falt_fail(FALT_INTERNAL, "cuda: NVRTC gives no cubin; install a newer NVRTC");
  binary->data = falt_alloc(binary->size);
  if (!binary->data) return falt_fail(FALT_NO_MEMORY, "cuda: memory ran out while compiling");
  nvrtc.cubin(program, binary->data);
  return FALT_OK;
}

falt_status falt_cuda_compile(const falt_cuda_kernel *kernel, const char *arch, falt_cuda_binary *binary, char **log) {
  *binary = (falt_cuda_binary){.data = NULL};
  if (log) *log = NULL;
  FALT_TRY(falt_cuda_kernel_check(kernel));
  if (!load())
    return falt_fail(FALT_NO_DEVICE,
                     "cuda: libnvrtc.so.13 (or 12) was not found and the kernel is not in the cache; "
                     "install it (pip: nvidia-cuda-nvrtc) or name its directory in FALTUNG_CUDA_PATH");
  FALT_TRY(check_arch(arch));
  nvrtc_program program = make_program(kernel);
  if (!program) return falt_fail(FALT_INTERNAL, "cuda: NVRTC takes no program of the name %s", kernel->source);
  const int error = run(program, kernel, arch);
  char *text = read_log(program);
  const falt_status status = error ? fail(kernel, arch, text) : take(program, binary);
  nvrtc.destroy(&program);
  binary->compiler = nvrtc.version_number;
  binary->use = use_of(text);
  if (log)
    *log = text;
  else
    falt_free(text);
  return status;
}
