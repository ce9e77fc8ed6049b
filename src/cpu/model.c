/* Identifies the processor, because measured limits and wisdom hold for one processor only. */
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "cpu/limits.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

static void identify(falt_text *text) {
  unsigned brand[13] = {0}, highest = __get_cpuid_max(0x80000000u, NULL), a, b, c, d;
  for (unsigned i = 0; i < 3 && highest >= 0x80000004u; i++)
    __get_cpuid(0x80000002u + i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2], &brand[4 * i + 3]);
  const char *name = (const char *)brand;
  falt_text_add(text, "%s", name + strspn(name, " "));
  if (__get_cpuid(1, &a, &b, &c, &d)) falt_text_add(text, " %07x", a);
}
#else
static void identify(falt_text *text) {
  char line[64] = "";
  FILE *file = fopen("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "r");
  if (file && fgets(line, sizeof line, file)) line[strcspn(line, "\n")] = '\0';
  if (file) fclose(file);
  falt_text_add(text, "%s", line[0] ? line : "unknown");
}
#endif

void falt_cpu_model(char *text, size_t size) {
  falt_text out = falt_text_over(text, size);
  identify(&out);
  for (char *c = text; size && *c; c++)
    if (*c < ' ' || *c > '~') *c = '?';
}
