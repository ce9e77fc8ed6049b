/* Declarations that the parts of the image module share. */
#ifndef FALT_CLI_IO_MODULES_VIPS_H
#define FALT_CLI_IO_MODULES_VIPS_H

#include <vips/vips.h>

#include "io/format.h"

/* An image being read. */
typedef struct vips_reader {
  char *path;
  VipsImage *file;  /* as libvips opened it, with all metadata */
  VipsImage *image; /* the same, unpacked to plain samples */
  VipsRegion *region;
  int64_t pages, in_file; /* below each other in the image; in the file */
} vips_reader;

/* How to write a format: its sample types and its options. */
typedef struct vips_saver {
  const char *extensions;
  unsigned types;    /* bit t: falt_type t */
  unsigned channels; /* bit c: c channels; bit 0: any number */
  bool pages;        /* several */
  int (*save)(VipsImage *image, const char *path, int compression);
} vips_saver;

const vips_saver *vips_saver_find(const char *extension);

/* Starts libvips on first use. */
bool vips_start(const char *path, io_error *error);
/* Loads libvips's own modules (HEIF, JPEG XL, PDF, ...), which take as long as all the rest. */
void vips_load_modules(void);
/* Fails with libvips's message on one line. */
bool vips_fail(const char *path, const char *what, const char *todo, io_error *error);

VipsBandFormat vips_format_of(falt_type type);

/* Profile, EXIF, XMP ...: everything except descriptions of the pixels. Delays of an animation are kept if the number
 * of pages is the same. */
void vips_copy_metadata(const vips_reader *from, VipsImage *to, const io_info *info);

/* Corrects the image description where it states sizes and types (OME-TIFF), or removes it where it cannot be. */
void vips_correct_description(const vips_reader *from, VipsImage *to, const io_info *info);

/* The Compression tag of a TIFF file's first image; 0 if path is no TIFF file. */
int vips_tiff_compression(const char *path);

void *vips_create_image(const io_output *output, const io_info *info, const void *like, io_error *error);
bool vips_write_rows(void *state, int64_t count, const void *buffer, io_error *error);
bool vips_finish_image(void *state, io_error *error);
void vips_abandon_image(void *state);

#endif
