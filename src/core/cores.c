/* The number of cores that this process may use: its scheduling affinity, limited by its control groups. Version 2
 * groups keep "quota period" in cpu.max, version 1 groups use two files; the strictest group up to the root counts. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/text.h"
#include "core/thread.h"

static int cores_by_affinity(void) {
  cpu_set_t sets[64]; /* room for 65536 cores */
  if (sched_getaffinity(0, sizeof sets, sets) == 0) return CPU_COUNT_S(sizeof sets, sets);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 && online <= INT_MAX ? (int)online : 1;
}

/* Reads a file of a group: root, group, name. */
static bool read_group(const char *root, const char *group, const char *name, char *text, size_t size) {
  char path[2048];
  falt_text path_text = falt_text_over(path, sizeof path);
  falt_text_add(&path_text, "%s%s/%s", root, group, name);
  return path_text.length < sizeof path && falt_file_head(path, text, size);
}

/* Quota in cores, rounded up; INT_MAX if there is none. */
static int cores_of(const char *quota_text, const char *period_text) {
  const long long quota = atoll(quota_text), period = atoll(period_text);
  if (quota <= 0 || period <= 0) return INT_MAX;
  const long long cores = quota / period + (quota % period != 0);
  return cores < INT_MAX ? (int)cores : INT_MAX;
}

static int cores_of_v2(const char *group) {
  char text[128];
  if (!read_group("/sys/fs/cgroup", group, "cpu.max", text, sizeof text)) return INT_MAX;
  const char *period = strchr(text, ' ');
  return period ? cores_of(text, period) : INT_MAX; /* "max 100000" is no number and so no quota */
}

static int cores_of_v1(const char *group) {
  char quota[64], period[64];
  const char *root = "/sys/fs/cgroup/cpu";
  if (!read_group(root, group, "cpu.cfs_quota_us", quota, sizeof quota)) return INT_MAX;
  if (!read_group(root, group, "cpu.cfs_period_us", period, sizeof period)) return INT_MAX;
  return cores_of(quota, period);
}

/* The strictest quota of a group and its ancestors. A container may see the host's name of its group but only its own
 * files; then all files except the root's are missing. */
static int strictest(char *group, int (*quota)(const char *group)) {
  int cores = INT_MAX;
  for (;;) {
    char *slash = strrchr(group, '/');
    const int own = quota(strcmp(group, "/") == 0 ? "" : group);
    if (own < cores) cores = own;
    if (!slash) return cores;
    *slash = '\0';
  }
}

/* Whether "cpu" is an element of a comma-separated list of controllers such as "cpu,cpuacct". */
static bool lists_cpu(const char *controllers) {
  for (const char *at = controllers; (at = strstr(at, "cpu")); at++)
    if ((at == controllers || at[-1] == ',') && (at[3] == ',' || at[3] == '\0')) return true;
  return false;
}

/* A line of /proc/self/cgroup is "id:controllers:group"; version 2 has id 0 and no controllers. */
static int cores_of_line(char *line) {
  char *controllers = strchr(line, ':');
  char *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return INT_MAX;
  *controllers++ = '\0';
  *group++ = '\0';
  if (!controllers[0]) return strictest(group, cores_of_v2);
  return lists_cpu(controllers) ? strictest(group, cores_of_v1) : INT_MAX;
}

static int cores_by_quota(void) {
  char text[8192], *rest = NULL;
  int cores = INT_MAX;
  if (!falt_file_head("/proc/self/cgroup", text, sizeof text)) return cores;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    const int own = cores_of_line(line);
    if (own < cores) cores = own;
  }
  return cores;
}

int falt_cores_available(void) {
  const int affinity = cores_by_affinity(), quota = cores_by_quota();
  const int cores = affinity < quota ? affinity : quota;
  return cores > 1 ? cores : 1;
}
