/* Runs a fuzz target over the files named on the command line: a corpus replayed where there is no libFuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes in a block of exactly their size, so that a sanitizer sees a read beyond them. */
static uint8_t *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  uint8_t *data = NULL;
  long length = -1;
  if (file && fseek(file, 0, SEEK_END) == 0) length = ftell(file);
  if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) data = malloc(length > 0 ? (size_t)length : 1);
  if (data && fread(data, 1, (size_t)length, file) != (size_t)length) {
    free(data);
    data = NULL;
  }
  if (file) fclose(file);
  *size = data ? (size_t)length : 0;
  return data;
}

int main(int count, char **paths) {
  for (int i = 1; i < count; i++) {
    size_t size;
    uint8_t *data = read_file(paths[i], &size);
    if (!data) {
      fprintf(stderr, "replay: %s: cannot be read\n", paths[i]);
      return 2;
    }
    LLVMFuzzerTestOneInput(data, size);
    free(data);
  }
  printf("replayed %d cases\n", count - 1);
  return count > 1 ? 0 : 2;
}
