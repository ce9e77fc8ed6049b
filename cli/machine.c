/* The description of the machine that accompanies a measurement. */
#include "machine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#ifndef FALT_COMMIT
#define FALT_COMMIT ""
#endif

/* The value of the first such line of /proc/cpuinfo, such as "model name : Intel(R) Xeon(R) Processor". */
static int find_value(const char *key, char *value, size_t size) {
  char line[512];
  FILE *file = fopen("/proc/cpuinfo", "re");
  int found = 0;
  while (file && !found && fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (!colon || strncmp(line, key, strlen(key)) != 0) continue;
    const char *start = colon + 1 + strspn(colon + 1, " \t");
    snprintf(value, size, "%.*s", (int)strcspn(start, "\n"), start);
    found = *value != '\0';
  }
  if (file) fclose(file);
  return found;
}

cli_machine cli_machine_describe(void) {
  cli_machine machine = {.commit = FALT_COMMIT};
  struct utsname system;
  if (getloadavg(&machine.load, 1) != 1) machine.load = 0;
  if (!find_value("model name", machine.processor, sizeof machine.processor) && uname(&system) == 0)
    snprintf(machine.processor, sizeof machine.processor, "%.100s", system.machine);
  const time_t now = time(NULL);
  struct tm parts;
  if (gmtime_r(&now, &parts)) strftime(machine.date, sizeof machine.date, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return machine;
}

void cli_machine_json(cli_json *json) {
  const cli_machine machine = cli_machine_describe();
  cli_json_text(json, "machine", machine.processor);
  cli_json_text(json, "date", machine.date);
  cli_json_number(json, "load", machine.load);
  cli_json_text(json, "commit", machine.commit[0] ? machine.commit : NULL);
}

/* Asks NVML, the library behind nvidia-smi. */
void cli_machine_driver(cli_machine *machine) {
  int (*init)(void), (*version)(char *, unsigned), (*shutdown)(void);
  void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!nvml) return;
  void *entries[] = {dlsym(nvml, "nvmlInit_v2"), dlsym(nvml, "nvmlSystemGetDriverVersion"),
                     dlsym(nvml, "nvmlShutdown")};
  memcpy(&init, &entries[0], sizeof init); /* object pointers become function pointers */
  memcpy(&version, &entries[1], sizeof version);
  memcpy(&shutdown, &entries[2], sizeof shutdown);
  if (init && version && shutdown && init() == 0) {
    if (version(machine->driver, sizeof machine->driver) != 0) machine->driver[0] = '\0';
    shutdown();
  }
  dlclose(nvml);
}
