/* Fuzzes the file "limits" of a cache, with and without the right head: accepted rates are possible for a machine,
 * and a stored file reads back. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/limits_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char head[] = "faltung-limits 4\n";
static char directory[64], path[80];

static void remove_directory(void) {
  unlink(path);
  rmdir(directory);
}

static void open_directory(void) {
  if (directory[0]) return;
  const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* storing waits for the disk */
  snprintf(directory, sizeof directory, "%s/falt-fuzz-limits-XXXXXX", memory);
  if (!mkdtemp(directory)) abort();
  snprintf(path, sizeof path, "%s/limits", directory);
  setenv("FALTUNG_CACHE", directory, 1);
  atexit(remove_directory);
}

static void write_limits(const char *before, const uint8_t *data, size_t size) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(before, 1, strlen(before), file) != strlen(before) || fwrite(data, 1, size, file) != size)
    abort();
  fclose(file);
}

static void check_rates(const falt_limits *l) {
  const double rates[] = {l->copy_bytes_per_s, l->cache_bytes_per_s, l->f32_flops,      l->f64_flops,
                          l->f16_flops,        l->s8_flops,          l->in_bytes_per_s, l->out_bytes_per_s};
  for (int i = 0; i < 8; i++)
    if (!(isfinite(rates[i]) && rates[i] >= 0) || (i < 4 && rates[i] == 0)) abort();
}

static falt_limits load(bool described) {
  falt_device device = {.kind = "fuzz", .name = "fuzz threads=1", .model = "none", .described = described};
  falt_limits_load(&device);
  if (device.limits.measured) check_rates(&device.limits);
  return device.limits;
}

static void check_file(void) {
  static const falt_limits stored = {1e10, 1e11, 1e12, 5e11, 0, 0, 2e10, 3e10, true};
  falt_device device = {.kind = "fuzz", .name = "fuzz threads=1", .model = "none", .limits = stored};
  load(false);
  load(true);
  if (falt_limits_store(&device) != FALT_OK) abort();
  const falt_limits again = load(false);
  if (!again.measured || again.f32_flops != stored.f32_flops || again.out_bytes_per_s != stored.out_bytes_per_s)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  open_directory();
  write_limits(head, data, size);
  check_file();
  write_limits("", data, size);
  check_file();
  return 0;
}
