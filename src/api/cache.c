/* Public entries: the cache. */
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/status.h"
#include "cuda/cache.h"

size_t falt_cache_directory(char *path, size_t size) {
  char directory[4096];
  if (!falt_cache_path("", directory, sizeof directory)) return 0;
  const size_t length = strlen(directory);
  if (length > 1 && directory[length - 1] == '/') directory[length - 1] = '\0';
  return (size_t)snprintf(path, size, "%s", directory);
}

falt_status falt_cache_kernels(void (*report)(void *context, const falt_cached_kernel *kernel), void *context) {
  if (!report) return falt_fail(FALT_INVALID_ARGUMENT, "report: NULL; pass the function to call for each kernel");
  return falt_cuda_cache_each(report, context);
}

falt_status falt_cache_clear(int64_t *removed) {
  int64_t own;
  return falt_cuda_cache_clear(removed ? removed : &own);
}
