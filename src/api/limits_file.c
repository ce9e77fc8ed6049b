/* The file "limits" in the cache: measured limits, one entry for each device. An unreadable file is treated as absent
 * and rewritten by the next measurement. */
#include "api/limits_file.h"

#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/memory.h"

/*   faltung-limits 4
 *   <copy bytes/s> <cache bytes/s> <f32 flop/s> <f64 flop/s> <f16 flop/s> <s8 op/s> <bytes/s in> <bytes/s out>
 *   <device; processor>, on one line
 *
 * The rates of f16, of s8, and to and from host memory are 0 if the device has none of its own. */

enum { LARGEST = 1 << 16, PATH = 4096, KEY = 192, RATES = 8, OPTIONAL = 4 };
static const char head[] = "faltung-limits 4\n";

/* A described GPU uses the limits measured on any GPU of its model: its key is the end of theirs. */
static void key_of(const falt_device *device, char key[KEY]) {
  snprintf(key, KEY, "%s; %s", device->described ? "" : device->name, device->model);
}

/* The text after the head, or NULL; free *memory in both cases. */
static const char *read_lines(const char *path, char **memory) {
  size_t length;
  *memory = NULL;
  if (falt_file_read(path, LARGEST, memory, &length) != FALT_OK) return NULL;
  if (strlen(*memory) != length || strncmp(*memory, head, strlen(head)) != 0) return NULL;
  return *memory + strlen(head);
}

/* Splits a line into rates and key: false if it is not of that form. */
static bool read_rates(const char *line, size_t length, double rates[RATES], const char **key, size_t *key_length) {
  const char *at = line, *end = line + length;
  for (int i = 0; i < RATES; i++) {
    const char *space = memchr(at, ' ', (size_t)(end - at));
    if (!space || !falt_read_double(at, (size_t)(space - at), &rates[i])) return false;
    const bool absent = i >= OPTIONAL && rates[i] == 0;
    if (!absent && !(rates[i] > 1e3 && rates[i] < 1e21)) return false; /* no machine is that slow or that fast */
    at = space + 1;
  }
  *key = at;
  *key_length = (size_t)(end - at);
  return *key_length > 0;
}

static bool is_key(const char *text, size_t length, const char *key) {
  const size_t wanted = strlen(key);
  if (length < wanted || (length > wanted && key[0] != ';')) return false;
  return memcmp(text + length - wanted, key, wanted) == 0;
}

/* Calls visit for each whole and sound line. */
static void each_line(const char *lines,
                      void (*visit)(void *context, const char *line, size_t length, const double rates[RATES],
                                    bool same),
                      void *context, const char *key) {
  const char *newline, *found;
  double rates[RATES];
  size_t found_length;
  for (const char *line = lines; (newline = strchr(line, '\n')); line = newline + 1) {
    size_t length = (size_t)(newline - line);
    if (!read_rates(line, length, rates, &found, &found_length)) continue;
    visit(context, line, length, rates, is_key(found, found_length, key));
  }
}

static void take(void *context, const char *line, size_t length, const double rates[RATES], bool same) {
  (void)line, (void)length;
  falt_limits *limits = context;
  if (!same) return;
  *limits = (falt_limits){.copy_bytes_per_s = rates[0],
                          .cache_bytes_per_s = rates[1],
                          .f32_flops = rates[2],
                          .f64_flops = rates[3],
                          .f16_flops = rates[4],
                          .s8_flops = rates[5],
                          .in_bytes_per_s = rates[6],
                          .out_bytes_per_s = rates[7],
                          .measured = true};
}

void falt_limits_load(falt_device *device) {
  char path[PATH], key[KEY], *memory;
  if (!falt_cache_path("limits", path, sizeof path)) return;
  key_of(device, key);
  const char *lines = read_lines(path, &memory);
  if (lines) each_line(lines, take, &device->limits, key);
  falt_free(memory);
}

static void keep_other(void *context, const char *line, size_t length, const double rates[RATES], bool same) {
  (void)rates;
  falt_text *text = context;
  if (!same && text->length + length + 1 < LARGEST / 2) falt_text_add(text, "%.*s\n", (int)length, line);
}

falt_status falt_limits_store(const falt_device *device) {
  char path[PATH], key[KEY], *old;
  if (!falt_cache_path("limits", path, sizeof path))
    return falt_fail(FALT_NO_FILE, "limits: no cache directory; set FALTUNG_CACHE");
  key_of(device, key);
  char *data = falt_alloc(LARGEST);
  if (!data) return falt_fail(FALT_NO_MEMORY, "limits: memory ran out");
  falt_text text = falt_text_over(data, LARGEST);
  const falt_limits *l = &device->limits;
  falt_text_add(&text, "%s%.4e %.4e %.4e %.4e %.4e %.4e %.4e %.4e %s\n", head, l->copy_bytes_per_s,
                l->cache_bytes_per_s, l->f32_flops, l->f64_flops, l->f16_flops, l->s8_flops, l->in_bytes_per_s,
                l->out_bytes_per_s, key);
  const char *lines = read_lines(path, &old);
  if (lines) each_line(lines, keep_other, &text, key);
  falt_status status = falt_cache_write(path, data, text.length);
  falt_free(old);
  falt_free(data);
  return status;
}
