/* Declarations that reading and writing volumes share. */
#ifndef FALT_CLI_IO_MODULES_NIFTI_H
#define FALT_CLI_IO_MODULES_NIFTI_H

#include <nifti2_io.h>

#include "io/format.h"

/* A file holds `volumes` arrays one after the other (the fourth and later dimensions: time, directions), each of `rows`
 * rows of `row` voxels. A voxel may have `parts` interleaved samples (RGB). io.h sees them as interleaved channels:
 * sample (row, voxel, volume). */

/* Volumes that are interleaved or separated at a time: at least a line of memory. */
enum { NIFTI_GROUP = 32 };

typedef struct volumes {
  char *path;
  nifti_image *nim;
  znzFile file;
  int64_t base;     /* of the samples in the file */
  int64_t position; /* of the file, in bytes behind base */
  char *whole;      /* all samples as stored, where a compressed file must be read or written out of order */
  int64_t written;  /* rows */
  bool compressed;
  bool nifti2; /* libnifti reads both versions alike and would write the first */
  falt_type type;
  int stored; /* bytes of a sample in the file */
  int64_t rows, row, volumes;
} volumes;

volumes *nifti_new(const char *path, io_error *error);
void nifti_close(void *state);

void *nifti_create(const io_output *output, const io_info *info, const void *like, io_error *error);
bool nifti_write_rows(void *state, int64_t count, const void *buffer, io_error *error);
bool nifti_finish(void *state, io_error *error);

/* NIfTI's code for a type; 0 if there is none. */
int nifti_code(falt_type type);

#endif
