/* Files that are shipped with the command: suites and peers, in the source tree or installed. */
#include "share.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef FALT_SOURCE_DIR
#define FALT_SOURCE_DIR "."
#endif
#ifndef FALT_DATA_DIR
#define FALT_DATA_DIR "/usr/local/share/faltung"
#endif

static bool join(char *path, size_t size, const char *directory, const char *middle, const char *relative) {
  const int length = snprintf(path, size, "%s%s/%s", directory, middle, relative);
  return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}

bool cli_share_find(const char *relative, char *path, size_t size) {
  char command[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", command, sizeof command - 1);
  command[length > 0 ? length : 0] = '\0';
  char *slash = strrchr(command, '/');
  if (slash) *slash = '\0';
  return (slash && join(path, size, command, "/../share/faltung", relative)) ||
         join(path, size, FALT_SOURCE_DIR, "", relative) || join(path, size, FALT_DATA_DIR, "", relative);
}
