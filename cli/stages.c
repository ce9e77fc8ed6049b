/* The time of each stage of a run over files. */
#include "stages.h"

#include <math.h>
#include <stdio.h>

#include "report.h"

/* The fraction of the device's work, including copies, that overlapped other work of it. */
static double overlapped(const falt_stages *s) {
  const double work = s->copy_in + s->compute + s->copy_out;
  return work > 0 ? fmax(0, 1 - s->seconds / work) : 0;
}

static void print_json(const cli_stage *stages, int count, double seconds, const falt_stages *device) {
  cli_json json;
  for (int i = 0; i < count; i++) {
    if (!(stages[i].seconds > 0)) continue;
    json = cli_json_open(stdout);
    cli_json_text(&json, "stage", stages[i].name);
    cli_json_number(&json, "seconds", stages[i].seconds);
    cli_json_number(&json, "share", stages[i].seconds / seconds);
    cli_json_number(&json, "gbytes_per_s", stages[i].bytes / stages[i].seconds * 1e-9);
    cli_json_close(&json);
  }
  if (device->slabs == 0) return;
  json = cli_json_open(stdout);
  cli_json_text(&json, "stage", "device");
  cli_json_number(&json, "seconds", device->seconds);
  cli_json_integer(&json, "slabs", device->slabs);
  cli_json_number(&json, "staging_seconds", device->staging);
  cli_json_number(&json, "overlapped", overlapped(device));
  cli_json_close(&json);
}

void cli_stages_print(const cli_stage *stages, int count, double seconds, const falt_stages *device, bool json) {
  char time[32];
  if (json) {
    print_json(stages, count, seconds, device);
    return;
  }
  printf("\n  %-10s %10s %6s %10s\n", "stage", "time", "share", "rate");
  for (int i = 0; i < count; i++)
    if (stages[i].seconds > 0)
      printf("  %-10s %10s %5.0f%% %5.1f GB/s\n", stages[i].name, cli_duration(stages[i].seconds, time),
             100 * stages[i].seconds / seconds, stages[i].bytes / stages[i].seconds * 1e-9);
  if (device->slabs == 0) return;
  printf("  on the device %s for %lld slab%s, %.0f%% of its work overlapped;", cli_duration(device->seconds, time),
         (long long)device->slabs, device->slabs > 1 ? "s" : "", 100 * overlapped(device));
  printf(" the host's copies into and out of pinned memory took %s\n", cli_duration(device->staging, time));
}
