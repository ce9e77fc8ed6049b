/* The file format of compiled kernels:
 *
 *   faltung-cubin 2 HASH SIZE
 *   SOURCE ENTRY ARCH nvrtc=N registers=N spills=N stack=N shared=N PARAMETER; PARAMETER; ...
 *   the cubin */
#include "cuda/cubin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/text.h"

/* SIZE counts the bytes after the first line, and HASH is their FNV-1a hash. The reader recomputes the first line from
 * the rest and the second line from its words, so a change of any byte is detected. */

enum { HEAD = 64, LABEL = FALT_CUBIN_DEFINES + 256 };

static int print_head(char head[HEAD], const char *body, size_t size) {
  return snprintf(head, HEAD, "faltung-cubin 2 %016" PRIx64 " %zu\n", falt_hash(FALT_HASH_START, body, size), size);
}

static size_t print_label(char line[LABEL], const falt_cubin_label *label, const falt_cuda_binary *facts) {
  const falt_cuda_use *use = &facts->use;
  falt_text text = falt_text_over(line, LABEL);
  falt_text_add(&text, "%s %s %s nvrtc=%d registers=%d spills=%d stack=%d shared=%d %s\n", label->source, label->entry,
                label->arch, facts->compiler, use->registers, use->spill_bytes, use->stack_bytes, use->shared_bytes,
                label->defines);
  return text.length;
}

static falt_cubin_label label_of(const falt_cuda_kernel *kernel, const char *arch) {
  falt_cubin_label label;
  falt_text defines = falt_text_over(label.defines, sizeof label.defines);
  snprintf(label.source, sizeof label.source, "%s", kernel->source);
  snprintf(label.entry, sizeof label.entry, "%s", kernel->entry);
  snprintf(label.arch, sizeof label.arch, "%s", arch);
  falt_text_add(&defines, "%s", "");
  for (int i = 0; i < kernel->defines; i++) falt_text_add(&defines, "%s%s", i ? "; " : "", kernel->define[i]);
  return label;
}

char *falt_cubin_pack(const falt_cuda_kernel *kernel, const char *arch, const falt_cuda_binary *binary,
                      size_t *length) {
  char head[HEAD], line[LABEL];
  const falt_cubin_label label = label_of(kernel, arch);
  const size_t described = print_label(line, &label, binary), size = described + binary->size;
  char *text = described < LABEL ? falt_alloc(HEAD + size) : NULL;
  if (!text) return NULL;
  memcpy(text + HEAD, line, described);
  memcpy(text + HEAD + described, binary->data, binary->size);
  const size_t used = (size_t)print_head(head, text + HEAD, size);
  memmove(text + used, text + HEAD, size);
  memcpy(text, head, used);
  *length = used + size;
  return text;
}

/* The text after the first line, or NULL if it does not match that line. */
static const char *check_head(const char *text, size_t length) {
  char head[HEAD];
  const char *end = memchr(text, '\n', length < HEAD ? length : HEAD - 1);
  if (!end) return NULL;
  const size_t used = (size_t)(end + 1 - text);
  if ((size_t)print_head(head, end + 1, length - used) != used) return NULL;
  return memcmp(head, text, used) == 0 ? end + 1 : NULL;
}

/* The text after the second line, or NULL. That line may be printed on a terminal: plain characters only. */
static const char *check_label(const char *line, size_t length, falt_cubin_label *label, falt_cuda_binary *facts) {
  char text[LABEL], again[LABEL];
  int read = -1;
  const char *end = memchr(line, '\n', length);
  if (!end || end + 1 - line >= LABEL) return NULL;
  for (const char *c = line; c < end; c++)
    if (*c < ' ' || *c > '~') return NULL;
  const size_t used = (size_t)(end + 1 - line);
  memcpy(text, line, used);
  text[used - 1] = '\0';
  falt_cuda_use *use = &facts->use;
  sscanf(text, "%47s %47s %15s nvrtc=%9d registers=%9d spills=%9d stack=%9d shared=%9d%n", label->source, label->entry,
         label->arch, &facts->compiler, &use->registers, &use->spill_bytes, &use->stack_bytes, &use->shared_bytes,
         &read);
  if (read < 0 || text[read] != ' ' || used - (size_t)read > sizeof label->defines) return NULL;
  snprintf(label->defines, sizeof label->defines, "%s", text + read + 1);
  return print_label(again, label, facts) == used && memcmp(again, line, used) == 0 ? end + 1 : NULL;
}

bool falt_cubin_unpack(char *text, size_t length, falt_cuda_binary *binary, falt_cubin_label *label) {
  falt_cubin_label own;
  const char *body = check_head(text, length), *data = NULL;
  if (body) data = check_label(body, length - (size_t)(body - text), label ? label : &own, binary);
  if (!data) return false;
  binary->size = length - (size_t)(data - text);
  binary->data = text;
  memmove(text, data, binary->size);
  return binary->size > 0;
}
