/* The cache: lists its files and kernels, and empties it. */
#include "cache.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "report.h"

const char *cli_cache_directory(char path[CLI_PATH]) {
  const size_t length = falt_cache_directory(path, CLI_PATH);
  return length && length < CLI_PATH ? path : "none: set FALTUNG_CACHE";
}

/* Bytes of a file, or -1 if it is not there. */
static long long file_size(const char *directory, const char *name) {
  char path[CLI_PATH + 64];
  struct stat state;
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return stat(path, &state) == 0 ? (long long)state.st_size : -1;
}

void cli_cache_print_file(const char *directory, const char *name) {
  const long long bytes = file_size(directory, name);
  if (bytes < 0)
    printf("    %-8s not there\n", name);
  else
    printf("    %-8s %lld bytes\n", name, bytes);
}

/* ---- a list of the kernels */

typedef struct listing {
  bool json;
  int64_t kernels, damaged, bytes;
} listing;

/* An age in the largest unit that leaves a number above 1. */
static const char *age_of(int64_t written, char text[32]) {
  static const struct {
    double seconds;
    const char *unit;
  } units[] = {{86400, "days"}, {3600, "hours"}, {60, "minutes"}, {0, "seconds"}};
  const double age = difftime(time(NULL), (time_t)written);
  int i = 0;
  while (age < 2 * units[i].seconds) i++;
  snprintf(text, 32, "%.0f %s", age > 0 ? age / (units[i].seconds > 0 ? units[i].seconds : 1) : 0, units[i].unit);
  return text;
}

static void print_kernel(const falt_cached_kernel *k) {
  char age[32];
  printf("%s\n", k->path);
  printf("    %lld bytes, %s old", (long long)k->bytes, age_of(k->written, age));
  if (k->damage) {
    printf(", not used: %s\n", k->damage);
    return;
  }
  printf(", %s, NVRTC %d.%d, %d registers, %d bytes spilled, %d bytes shared\n", k->arch, k->nvrtc / 1000,
         k->nvrtc % 1000, k->registers, k->spill_bytes, k->shared_bytes);
  printf("    %s %s: %s\n", k->source, k->entry, k->holes);
}

static void print_kernel_json(const falt_cached_kernel *k) {
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, "kernel", k->path);
  cli_json_integer(&json, "bytes", k->bytes);
  cli_json_integer(&json, "written", k->written);
  cli_json_text(&json, "damage", k->damage);
  if (!k->damage) {
    cli_json_text(&json, "source", k->source);
    cli_json_text(&json, "entry", k->entry);
    cli_json_text(&json, "arch", k->arch);
    cli_json_text(&json, "holes", k->holes);
    cli_json_integer(&json, "nvrtc", k->nvrtc);
    cli_json_integer(&json, "registers", k->registers);
    cli_json_integer(&json, "spill_bytes", k->spill_bytes);
    cli_json_integer(&json, "shared_bytes", k->shared_bytes);
  }
  cli_json_close(&json);
}

static void list_kernel(void *context, const falt_cached_kernel *kernel) {
  listing *list = context;
  list->kernels += !kernel->damage;
  list->damaged += kernel->damage != NULL;
  list->bytes += kernel->bytes;
  (list->json ? print_kernel_json : print_kernel)(kernel);
}

static void print_sum(const char *directory, const listing *list) {
  printf("%s%s\n", list->kernels + list->damaged ? "\n" : "", directory);
  cli_cache_print_file(directory, "limits");
  cli_cache_print_file(directory, "wisdom");
  printf("    %-8s %lld, %lld damaged files, %lld bytes of at most %lld\n", "kernels", (long long)list->kernels,
         (long long)list->damaged, (long long)list->bytes, (long long)FALT_CACHE_BYTES);
}

static void print_sum_json(const char *directory, const listing *list) {
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, "cache", directory);
  cli_json_integer(&json, "limits_bytes", file_size(directory, "limits"));
  cli_json_integer(&json, "wisdom_bytes", file_size(directory, "wisdom"));
  cli_json_integer(&json, "kernels", list->kernels);
  cli_json_integer(&json, "damaged", list->damaged);
  cli_json_integer(&json, "kernel_bytes", list->bytes);
  cli_json_integer(&json, "kernel_bytes_bound", FALT_CACHE_BYTES);
  cli_json_close(&json);
}

int cli_cache_show(const cli_options *options) {
  listing list = {.json = options->json};
  char path[CLI_PATH];
  const falt_status status = falt_cache_kernels(list_kernel, &list);
  if (status != FALT_OK) return cli_fail_library(status);
  (options->json ? print_sum_json : print_sum)(cli_cache_directory(path), &list);
  return CLI_DONE;
}

int cli_cache_clear(const cli_options *options) {
  int64_t removed = 0;
  char path[CLI_PATH];
  const falt_status status = falt_cache_clear(&removed);
  if (status != FALT_OK) return cli_fail_library(status);
  if (options->json) {
    cli_json json = cli_json_open(stdout);
    cli_json_text(&json, "cache", cli_cache_directory(path));
    cli_json_integer(&json, "removed", removed);
    cli_json_close(&json);
  } else if (!options->quiet) {
    printf("removed %lld kernels from %s/cuda\n", (long long)removed, cli_cache_directory(path));
  }
  return CLI_DONE;
}
