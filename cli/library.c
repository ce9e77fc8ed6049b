/* Finds optional libraries: a plan that needs one tells. */
#include "library.h"

#include <stdio.h>
#include <string.h>

/* The device's kind, and a problem that only the library's solver plans. */
static const struct {
  const char *name, *kind, *problem;
} libraries[] = {{"blas", "cpu", "forward c=1 w=1 k=1 s=1 method=im2col"},
                 {"cublas", "cuda", "forward c=1 w=1 k=1 s=1 method=cuda-im2col"},
                 {"cudnn", "cuda", "forward c=8 h=8 w=8 k=8 r=1 s=1 method=cudnn"}};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

static int number_of(const char *name) {
  int i = 0;
  while (i < LIBRARIES && strcmp(libraries[i].name, name) != 0) i++;
  return i;
}

const char *cli_library_name(int i) {
  return i < LIBRARIES ? libraries[i].name : NULL;
}

bool cli_library_is_for(const char *name, const falt_device *device) {
  const int i = number_of(name);
  return i < LIBRARIES && strncmp(falt_device_name(device), libraries[i].kind, strlen(libraries[i].kind)) == 0;
}

bool cli_library_find(const char *name, falt_device *device, char text[CLI_LIBRARY_TEXT]) {
  const int i = number_of(name);
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan = NULL;
  char printed[512];
  if (i == LIBRARIES || falt_problem_parse(&problem, &budget, libraries[i].problem) != FALT_OK ||
      falt_plan_create(&plan, device, &problem, &budget, NULL) != FALT_OK) {
    const char *why = strstr(falt_message(), "apply: ");
    snprintf(text, CLI_LIBRARY_TEXT, "%s", why ? why + strlen("apply: ") : falt_message());
    return false;
  }
  falt_plan_print(plan, printed, sizeof printed);
  const char *by = strstr(printed, " by ");
  snprintf(text, CLI_LIBRARY_TEXT, "%.*s", by ? (int)strcspn(by + 4, ")") : 0, by ? by + 4 : "");
  falt_plan_destroy(&plan);
  return true;
}
