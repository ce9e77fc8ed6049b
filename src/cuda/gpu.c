/* Opens and describes GPUs; launches kernels and manages memory. */
#include "cuda/gpu_context.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "cuda/described.h"

static _Thread_local struct {
  int error;
  const falt_cuda_driver *driver;
  falt_status status; /* where it is a library's, with its line */
  char line[160];
} trouble;

/* ---- opening */

falt_status falt_gpu_count(int *count) {
  const falt_cuda_driver *cu;
  *count = 0;
  const falt_status status = falt_cuda_driver_load(&cu);
  if (status != FALT_OK) return falt_cuda_driver_absent() ? FALT_OK : status;
  return falt_cuda_check(cu, cu->device_count(count), "cuda: devices cannot be counted");
}

static falt_status find_device(falt_gpu *gpu, int ordinal, void *context) {
  const falt_cuda_driver *cu = gpu->driver;
  int count = 0;
  if (context) {
    gpu->context = context;
    const falt_gpu_visit v = falt_gpu_enter(gpu);
    FALT_TRY(falt_cuda_check(cu, v.error, "options.context: cannot be made current"));
    const int error = cu->context_device(&gpu->device);
    falt_gpu_leave(gpu, v);
    return falt_cuda_check(cu, error, "options.context: has no device");
  }
  FALT_TRY(falt_cuda_check(cu, cu->device_count(&count), "cuda: devices cannot be counted"));
  if (ordinal < 0 || ordinal >= count)
    return falt_fail(FALT_NO_DEVICE, "options.ordinal: there is no device cuda:%d; this machine has %d", ordinal,
                     count);
  FALT_TRY(falt_cuda_check(cu, cu->device_get(&gpu->device, ordinal), "cuda: the device cannot be opened"));
  FALT_TRY(falt_cuda_check(cu, cu->primary_retain(&gpu->context, gpu->device), "cuda: the context cannot be made"));
  gpu->primary = true;
  return FALT_OK;
}

static int attribute(const falt_gpu *gpu, int which) {
  int value = 0;
  gpu->driver->device_attribute(&value, which, gpu->device);
  return value;
}

static void learn(falt_gpu *gpu) {
  falt_gpu_facts *f = &gpu->facts;
  f->ordinal = gpu->device; /* the driver numbers devices by ordinal */
  f->major = attribute(gpu, FALT_CU_MAJOR);
  f->minor = attribute(gpu, FALT_CU_MINOR);
  f->architecture = falt_architecture_of(f->major, f->minor);
  f->multiprocessors = attribute(gpu, FALT_CU_MULTIPROCESSORS);
  f->clock_khz = attribute(gpu, FALT_CU_CLOCK_KHZ);
  f->memory_khz = attribute(gpu, FALT_CU_MEMORY_CLOCK_KHZ);
  f->bus_bits = attribute(gpu, FALT_CU_MEMORY_BUS_BITS);
  f->l2_bytes = attribute(gpu, FALT_CU_L2_BYTES);
  gpu->reaches_host = attribute(gpu, FALT_CU_PAGEABLE_ACCESS) != 0;
  gpu->driver->device_name(f->name, sizeof f->name, gpu->device);
  snprintf(f->arch, sizeof f->arch, "sm_%d%d%s", f->major, f->minor, f->major >= 9 ? "a" : "");
}

/* The oldest architecture that kernels support. */
static falt_status check_generation(const falt_gpu_facts *f) {
  if (f->major >= 7) return FALT_OK;
  return falt_fail(FALT_NO_DEVICE, "cuda: %s is of architecture %s and kernels need sm_70; use the cpu", f->name,
                   f->arch);
}

/* Hopper has such starts, CUDA 12.3 takes them into graphs too. */
static bool starts_early(const falt_gpu *gpu) {
  enum { GRAPHS = 12030 };
  int version = 0;
  return gpu->facts.major >= 9 && gpu->driver->launch_by && !gpu->driver->version(&version) && version >= GRAPHS;
}

static falt_status open_by(const falt_cuda_driver *driver, falt_gpu **gpu, int ordinal, void *context) {
  falt_gpu *made = falt_alloc_zero(sizeof *made);
  if (!made) return falt_fail(FALT_NO_MEMORY, "device: memory ran out");
  made->driver = driver;
  const falt_status status = find_device(made, ordinal, context);
  if (status != FALT_OK) {
    falt_free(made);
    return status;
  }
  pthread_mutex_init(&made->lock, NULL);
  falt_spans_init(&made->given);
  learn(made);
  made->early = starts_early(made);
  *gpu = made;
  return check_generation(&made->facts);
}

falt_status falt_gpu_open(falt_gpu **gpu, int ordinal, void *context) {
  const falt_cuda_driver *driver;
  *gpu = NULL;
  FALT_TRY(falt_cuda_driver_load(&driver));
  const falt_status status = open_by(driver, gpu, ordinal, context);
  if (status == FALT_OK) return FALT_OK;
  falt_gpu_close(*gpu);
  *gpu = NULL;
  return status;
}

falt_status falt_gpu_open_described(falt_gpu **gpu, const char *name, bool compile) {
  int ordinal;
  *gpu = NULL;
  FALT_TRY(falt_cuda_described_find(name, &ordinal));
  FALT_TRY(open_by(falt_cuda_described_driver(), gpu, ordinal, NULL));
  (*gpu)->described = true;
  (*gpu)->compiles = compile;
  return FALT_OK;
}

void falt_gpu_close(falt_gpu *gpu) {
  if (!gpu) return;
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  for (falt_gpu_module *m = gpu->modules, *next; m; m = next) {
    next = m->next;
    gpu->driver->module_unload(m->module);
    falt_free(m);
  }
  falt_gpu_leave(gpu, v);
  if (gpu->primary) gpu->driver->primary_release(gpu->device);
  pthread_mutex_destroy(&gpu->lock);
  falt_spans_free(&gpu->given);
  falt_free(gpu);
}

const falt_gpu_facts *falt_gpu_about(const falt_gpu *gpu) {
  return &gpu->facts;
}

/* ---- kernels */

static falt_gpu_module *find(falt_gpu *gpu, const char *key) {
  falt_gpu_module *m = gpu->modules;
  while (m && strcmp(m->key, key) != 0) m = m->next;
  return m;
}

static falt_status load(falt_gpu *gpu, const char *key, const falt_cuda_binary *binary, falt_gpu_module **module) {
  falt_gpu_module *made = falt_alloc_zero(sizeof *made);
  if (!made) return falt_fail(FALT_NO_MEMORY, "cuda: memory ran out");
  const falt_status status =
      falt_cuda_check(gpu->driver, gpu->driver->module_load(&made->module, binary->data), "cuda: loading a kernel");
  if (status != FALT_OK) {
    falt_free(made);
    return status;
  }
  memcpy(made->key, key, sizeof made->key);
  made->next = gpu->modules;
  gpu->modules = *module = made;
  return FALT_OK;
}

/* With the lock held and the context current: a module that is there or in the cache, none where it must be compiled.
 */
static falt_status stored(falt_gpu *gpu, const falt_cuda_kernel *kernel, const char *key, falt_gpu_module **module) {
  falt_cuda_binary binary = {.data = NULL};
  if ((*module = find(gpu, key))) return FALT_OK;
  if (gpu->described && !gpu->compiles) {
    FALT_TRY(falt_cuda_kernel_check(kernel));
    return load(gpu, key, &binary, module);
  }
  if (!falt_cuda_cache_read(key, &binary)) return FALT_OK;
  const falt_status status = load(gpu, key, &binary, module);
  falt_free(binary.data);
  return status == FALT_OK || falt_cuda_compiler() ? FALT_OK : status; /* damaged: compiled again where NVRTC is */
}

/* Without the lock: threads compile at the same time, and the first of a kernel's loads its binary. */
static falt_status compiled(falt_gpu *gpu, const falt_cuda_kernel *kernel, const char *key, falt_gpu_module **module) {
  falt_cuda_binary binary = {.data = NULL};
  FALT_TRY(falt_cuda_compile(kernel, gpu->facts.arch, &binary, NULL));
  pthread_mutex_lock(&gpu->lock);
  const bool first = !(*module = find(gpu, key));
  falt_status status = first ? load(gpu, key, &binary, module) : FALT_OK;
  pthread_mutex_unlock(&gpu->lock);
  const falt_status written =
      first && status == FALT_OK ? falt_cuda_cache_write(key, kernel, gpu->facts.arch, &binary) : FALT_OK;
  if (gpu->described && status == FALT_OK) status = written; /* that is all it was compiled for */
  falt_free(binary.data);
  return status;
}

falt_status falt_gpu_kernel(falt_gpu *gpu, const falt_cuda_kernel *kernel, falt_cu_function *function) {
  char key[FALT_CUDA_KEY];
  falt_gpu_module *module = NULL;
  falt_cuda_key(kernel, gpu->facts.arch, key);
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  falt_status status = falt_cuda_check(gpu->driver, v.error, "cuda: the context cannot be made current");
  if (status == FALT_OK) {
    pthread_mutex_lock(&gpu->lock);
    status = stored(gpu, kernel, key, &module);
    pthread_mutex_unlock(&gpu->lock);
  }
  if (status == FALT_OK && !module) status = compiled(gpu, kernel, key, &module);
  if (status == FALT_OK)
    status = falt_cuda_check(gpu->driver, gpu->driver->module_function(function, module->module, kernel->entry),
                             "cuda: finding a kernel");
  if (status == FALT_OK && kernel->shared_bytes > 0)
    status = falt_cuda_check(gpu->driver,
                             gpu->driver->function_set(*function, FALT_CU_FUNCTION_SHARED_BYTES, kernel->shared_bytes),
                             "cuda: a kernel needs more shared memory than a block has");
  falt_gpu_leave(gpu, v);
  return status;
}

/* ---- maps and launches */

static void keep_trouble(const falt_gpu *gpu, int error) {
  if (!error || trouble.error || trouble.status) return;
  trouble.error = error;
  trouble.driver = gpu->driver;
}

void falt_gpu_fail(falt_status status, const char *line) {
  if (trouble.error || trouble.status) return;
  trouble.status = status;
  snprintf(trouble.line, sizeof trouble.line, "%s", line);
}

bool falt_gpu_within(const falt_gpu *gpu, void (*body)(void *context), void *context) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  if (!v.error) body(context);
  falt_gpu_leave(gpu, v);
  keep_trouble(gpu, v.error);
  return !v.error;
}

bool falt_gpu_has_maps(const falt_gpu *gpu) {
  return gpu->described || (gpu->driver->map_box && gpu->driver->map_pixels);
}

/* Drivers up to 13.1 set a flag for small tensors that makes TMA read wrong data; it is cleared here, as in CUTLASS. */
static void mend_small(const falt_gpu *gpu, const falt_gpu_map *map, void *to) {
  enum { MENDED_DRIVER = 13010, SMALL = 131072 };
  const uint64_t mark = UINT64_C(1) << 21;
  uint64_t *word = to, bytes = falt_type_size(map->type) * map->size[0];
  int version = 0;
  for (int i = 1; i < map->rank; i++) {
    const uint64_t span = map->size[i] * map->stride[i];
    if (span > bytes) bytes = span;
  }
  if (bytes < SMALL && (gpu->driver->version(&version) || version <= MENDED_DRIVER)) word[1] &= ~mark;
}

void falt_gpu_encode(falt_gpu *gpu, const falt_gpu_map *map, void *to) {
  const falt_cuda_driver *cu = gpu->driver;
  const unsigned rank = (unsigned)map->rank;
  const size_t line = map->box[0] * falt_type_size(map->type);
  const int swizzle = line <= 32   ? FALT_CU_MAP_SWIZZLE_32
                      : line <= 64 ? FALT_CU_MAP_SWIZZLE_64
                                   : FALT_CU_MAP_SWIZZLE_128;
  const int type = falt_cuda_types[map->type].map, promote = FALT_CU_MAP_PROMOTE_128;
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  int error = v.error;
  if (!error && map->pixels)
    error = cu->map_pixels(to, type, rank, map->data, map->size, map->stride + 1, map->lower, map->upper, map->box[0],
                           map->pixels, map->pace, 0, swizzle, promote, 0);
  else if (!error)
    error =
        cu->map_box(to, type, rank, map->data, map->size, map->stride + 1, map->box, map->pace, 0, swizzle, promote, 0);
  falt_gpu_leave(gpu, v);
  keep_trouble(gpu, error);
  if (!error) mend_small(gpu, map, to);
}

/* Whether an error of this thread, such as a failed descriptor, has not been reported by falt_gpu_trouble: the next
 * launch might read invalid data. */
static bool troubled(void) {
  return trouble.error || trouble.status != FALT_OK;
}

void falt_gpu_start_grid(falt_gpu *gpu, const falt_gpu_launch *launch, const int blocks_yz[2], int threads_z,
                         void **parameters) {
  if (troubled()) return;
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  int error = v.error;
  if (!error)
    error = gpu->driver->launch(launch->function, (unsigned)launch->blocks, (unsigned)blocks_yz[0],
                                (unsigned)blocks_yz[1], (unsigned)launch->threads[0], (unsigned)launch->threads[1],
                                (unsigned)threads_z, (unsigned)launch->shared_bytes, launch->stream, parameters, NULL);
  falt_gpu_leave(gpu, v);
  keep_trouble(gpu, error);
}

void falt_gpu_start(falt_gpu *gpu, const falt_gpu_launch *launch, void **parameters) {
  static const int one[2] = {1, 1};
  falt_gpu_start_grid(gpu, launch, one, 1, parameters);
}

void falt_gpu_start_early(falt_gpu *gpu, const falt_gpu_launch *launch, const int blocks_yz[2], void **parameters) {
  if (!gpu->early) {
    falt_gpu_start_grid(gpu, launch, blocks_yz, 1, parameters);
    return;
  }
  falt_cu_launch_attribute early = {.which = FALT_CU_LAUNCH_EARLY, .value = {1}};
  if (troubled()) return;
  const falt_cu_launch_config config = {
      .grid = {(unsigned)launch->blocks, (unsigned)blocks_yz[0], (unsigned)blocks_yz[1]},
      .block = {(unsigned)launch->threads[0], (unsigned)launch->threads[1], 1},
      .shared_bytes = (unsigned)launch->shared_bytes,
      .stream = launch->stream,
      .attributes = &early,
      .count = 1};
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? v.error : gpu->driver->launch_by(&config, launch->function, parameters, NULL);
  falt_gpu_leave(gpu, v);
  keep_trouble(gpu, error);
}

falt_status falt_gpu_trouble(void) {
  const int error = trouble.error;
  const falt_status status = trouble.status;
  trouble.error = 0;
  trouble.status = FALT_OK;
  if (status != FALT_OK) return falt_fail(status, "%s", trouble.line);
  return error ? falt_cuda_check(trouble.driver, error, "cuda: a kernel could not be started") : FALT_OK;
}

/* ---- memory */

/* Whole words of 16 bytes: of the last one kernels copy the bytes that exist, which compute-sanitizer's memcheck takes
 * for a read of all of it. */
falt_status falt_gpu_allocate(falt_gpu *gpu, void **memory, size_t bytes) {
  enum { WORD = 16 };
  falt_cu_pointer pointer = 0;
  bytes = bytes > SIZE_MAX - WORD ? bytes : (bytes + WORD - 1) / WORD * WORD;
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->allocate(&pointer, bytes ? bytes : 1);
  *memory = (void *)(uintptr_t)pointer;
  if (pointer) falt_spans_add(&gpu->given, (uintptr_t)pointer, bytes ? bytes : 1);
  return falt_gpu_finish(gpu, v, error, "cuda: allocating");
}

void falt_gpu_release(falt_gpu *gpu, void *memory) {
  falt_spans_remove(&gpu->given, (uintptr_t)memory);
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  if (memory && !v.error) gpu->driver->release(falt_gpu_address(memory));
  falt_gpu_leave(gpu, v);
}

/* The driver may return while the last bytes are in flight; streams that do not wait for its own would miss them. */
falt_status falt_gpu_copy_in(falt_gpu *gpu, void *to, const void *from, size_t bytes) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  int error = v.error ? 0 : gpu->driver->copy_in(falt_gpu_address(to), from, bytes);
  if (!v.error && !error) error = gpu->driver->stream_synchronize(NULL);
  return falt_gpu_finish(gpu, v, error, "cuda: copying to the device");
}

falt_status falt_gpu_copy_out(falt_gpu *gpu, void *to, const void *from, size_t bytes) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->copy_out(to, falt_gpu_address(from), bytes);
  return falt_gpu_finish(gpu, v, error, "cuda: copying from the device");
}

falt_status falt_gpu_copy_within(falt_gpu *gpu, void *to, const void *from, size_t bytes) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->copy_within(falt_gpu_address(to), falt_gpu_address(from), bytes, NULL);
  return falt_gpu_finish(gpu, v, error, "cuda: copying on the device");
}

falt_status falt_gpu_synchronize(falt_gpu *gpu) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->context_synchronize();
  return falt_gpu_finish(gpu, v, error, "cuda: waiting for the device");
}

/* The library's own allocations are known. The driver is asked about other memory, which takes longer; it answers 0 for
 * unknown memory, such as ordinary host memory. */
falt_gpu_place falt_gpu_locate(falt_gpu *gpu, const void *pointer) {
  if (falt_spans_have(&gpu->given, (uintptr_t)pointer)) return FALT_GPU_OWN;
  unsigned memory = 0;
  int device = -1, attributes[] = {FALT_CU_POINTER_MEMORY, FALT_CU_POINTER_DEVICE};
  void *facts[] = {&memory, &device};
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? v.error : gpu->driver->pointer_facts(2, attributes, facts, falt_gpu_address(pointer));
  falt_gpu_leave(gpu, v);
  if (error) return FALT_GPU_FOREIGN;
  if (memory == FALT_CU_MEMORY_HOST) return FALT_GPU_PINNED;
  if (memory == 0) return gpu->reaches_host ? FALT_GPU_OWN : FALT_GPU_FOREIGN;
  return device == gpu->device ? FALT_GPU_OWN : FALT_GPU_FOREIGN;
}

falt_status falt_gpu_pin(falt_gpu *gpu, void **memory, size_t bytes) {
  enum { FOR_ALL_CONTEXTS = 1 };
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  *memory = NULL;
  const int error = v.error ? 0 : gpu->driver->pin(memory, bytes, FOR_ALL_CONTEXTS);
  return falt_gpu_finish(gpu, v, error, "cuda: pinning memory of the host");
}

void falt_gpu_unpin(falt_gpu *gpu, void *memory) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  if (memory && !v.error) gpu->driver->unpin(memory);
  falt_gpu_leave(gpu, v);
}

falt_status falt_gpu_room(falt_gpu *gpu, size_t *bytes) {
  size_t all;
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  *bytes = 0;
  const int error = v.error ? 0 : gpu->driver->room(bytes, &all);
  return falt_gpu_finish(gpu, v, error, "cuda: asking for free memory");
}
