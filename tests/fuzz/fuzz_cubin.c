/* Fuzzes a file of the kernel cache: an accepted file is the same when it is packed again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/cubin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The label's parameters as a kernel's, one that may be longer than a kernel's own are. */
static void check_round_trip(const falt_cubin_label *label, const falt_cuda_binary *binary, const uint8_t *data,
                             size_t size) {
  falt_cuda_kernel kernel = {.source = label->source, .entry = label->entry};
  size_t length;
  char defines[FALT_CUBIN_DEFINES];
  strcpy(defines, label->defines);
  for (char *at = defines, *end; at; at = end ? end + 2 : NULL) {
    end = strstr(at, "; ");
    if (end) *end = '\0';
    falt_cuda_define(&kernel, "%s", at);
  }
  if (kernel.cut) return;
  char *packed = falt_cubin_pack(&kernel, label->arch, binary, &length);
  if (!packed) abort();
  if (length != size || memcmp(packed, data, size) != 0) abort();
  falt_free(packed);
}

static void try_file(const uint8_t *data, size_t size) {
  falt_cuda_binary binary;
  falt_cubin_label label;
  char *text = malloc(size ? size : 1);
  if (!text) abort();
  if (size) memcpy(text, data, size);
  if (falt_cubin_unpack(text, size, &binary, &label)) check_round_trip(&label, &binary, data, size);
  free(text);
}

/* As it is; and as the body of a file whose first line is right, which no search would find. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const falt_cuda_kernel kernel = {.source = "a.cu", .entry = "b"};
  falt_cuda_binary binary = {.data = (char *)(uintptr_t)data, .size = size, .compiler = 12004};
  size_t length;
  try_file(data, size);
  char *packed = falt_cubin_pack(&kernel, "sm_90a", &binary, &length);
  if (!packed) abort();
  try_file((const uint8_t *)packed, length);
  falt_free(packed);
  return 0;
}
