/* The header of NumPy's .npy format: magic, version, length, and a Python dictionary literal
 * (numpy.lib.format; versions 1 to 3 differ in the width of the length and in the text's encoding only). */
#ifndef FALT_CLI_IO_NPY_HEADER_H
#define FALT_CLI_IO_NPY_HEADER_H

#include "io/format.h"

enum {
  NPY_MAX_RANK = 8,
  NPY_PRELUDE = 12,       /* bytes that hold the magic, the version and the longest length field */
  NPY_MAX_TEXT = 1 << 16, /* far above what any supported array needs; numpy itself refuses more than 10000 */
  NPY_MAX_HEADER = 512    /* bytes that npy_header_print may need */
};

typedef struct npy_header {
  falt_type type; /* of the elements as they are read */
  io_wide wide;   /* how they are stored, where that is no falt_type */
  int64_t stored; /* bytes of a stored element */
  bool swap;      /* not in this machine's byte order */
  bool fortran;   /* the first axis is the fastest, and that matters: there are at least two axes */
  int rank;
  int64_t size[NPY_MAX_RANK];
  int64_t count; /* product of the sizes */
  int64_t bytes; /* of all elements, as stored */
} npy_header;

/* From the first 10 bytes (12 when *prelude comes back as 12): how long the prelude is, and the text after it. Call
 * with available = 10, and again with 12 if *prelude > available. */
bool npy_prelude_parse(const unsigned char *bytes, int available, int *prelude, int64_t *text, const char *name,
                       io_error *error);
/* Reads the dictionary. Strict: exactly the three keys, sizes whose product fits, a type that Faltung has. */
bool npy_header_parse(npy_header *header, const char *text, size_t length, const char *name, io_error *error);
/* Writes a version 1.0 header, the same bytes as numpy.save, padded to a multiple of 64; returns its length. */
size_t npy_header_print(const npy_header *header, char bytes[NPY_MAX_HEADER]);
/* Sets stored, count and bytes; false on overflow, also of the elements as they are read. */
bool npy_header_measure(npy_header *header);

#endif
