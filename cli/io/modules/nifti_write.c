/* Writes volumes by libnifti: the input's header with the new datatype and sizes, then the samples. Several volumes
 * arrive interleaved and are stored separately: at their places in a plain file, or in memory until the end if it is
 * compressed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/modules/nifti.h"

enum { NIFTI1_LARGEST = 32767 };

/* The file's sizes: the spatial axes, then the input's other dimensions if they still match the channels, else one.
 * Colour stays colour. */
static void set_sizes(nifti_image *nim, const io_info *info, const volumes *like) {
  const bool colour = like && info->type == FALT_U8 && like->volumes == 1 && info->channels > 1 &&
                      (nim->datatype == NIFTI_TYPE_RGB24 || nim->datatype == NIFTI_TYPE_RGBA32) &&
                      info->channels == (nim->datatype == NIFTI_TYPE_RGB24 ? 3 : 4);
  const bool kept = like && like->volumes == info->channels;
  for (int d = 0; d < 3; d++) nim->dim[d + 1] = info->size[2 - d];
  for (int d = 4; d <= 7 && !kept; d++) nim->dim[d] = 1;
  if (!kept && !colour) nim->dim[4] = info->channels;
  if (!kept || nim->dim[0] < info->space) nim->dim[0] = !colour && info->channels > 1 ? 4 : info->space;
  if (!colour) nim->datatype = nifti_code(info->type);
  nifti_datatype_sizes(nim->datatype, &nim->nbyper, &nim->swapsize);
  nifti_update_dims_from_array(nim);
}

/* The world coordinates: voxel i of the output is voxel origin + i * step of the input. */
static void move_affine(nifti_dmat44 *affine, const io_info *info) {
  for (int r = 0; r < 3; r++)
    for (int c = 0; c < 3; c++) {
      affine->m[r][3] += affine->m[r][c] * (double)info->origin[2 - c];
      affine->m[r][c] *= (double)info->step[2 - c];
    }
}

static void set_place(nifti_image *nim, const io_info *info) {
  double *const sizes[3] = {&nim->dx, &nim->dy, &nim->dz};
  for (int d = 0; d < 3; d++) *sizes[d] = nim->pixdim[d + 1] *= (double)info->step[2 - d];
  move_affine(&nim->sto_xyz, info);
  move_affine(&nim->qto_xyz, info);
  nim->qoffset_x = nim->qto_xyz.m[0][3];
  nim->qoffset_y = nim->qto_xyz.m[1][3];
  nim->qoffset_z = nim->qto_xyz.m[2][3];
}

static bool needs_nifti2(const nifti_image *nim) {
  for (int d = 1; d <= 7; d++)
    if (nim->dim[d] > NIFTI1_LARGEST) return true;
  return false;
}

static nifti_image *make_header(const io_info *info, const volumes *like) {
  const int64_t one[8] = {3, 1, 1, 1, 1, 1, 1, 1};
  nifti_image *nim = like ? nifti_copy_nim_info(like->nim) : nifti_make_new_nim(one, nifti_code(info->type), 0);
  if (!nim) return NULL;
  for (int d = 0; like && d < 3; d++)
    if (nim->dim[d + 1] != info->size[2 - d]) nim->slice_code = nim->slice_start = nim->slice_end = 0;
  set_sizes(nim, info, like);
  if (like) set_place(nim, info);
  nim->nifti_type = NIFTI_FTYPE_NIFTI1_1; /* one file; the header's version is chosen when it is written */
  nim->byteorder = nifti_short_order();
  return nim;
}

/* Header, a flag for extensions, the extensions, zeros up to a multiple of 16. libnifti's own function for this opens
 * NIfTI-2 files twice and so loses their header. */
static bool write_header(volumes *v) {
  nifti_1_header first;
  nifti_2_header second;
  nifti_image *nim = v->nim;
  const int64_t length = v->nifti2 ? (int64_t)sizeof second : (int64_t)sizeof first;
  int64_t end = length + 4;
  for (int i = 0; i < nim->num_ext; i++) end += nim->ext_list[i].esize;
  v->base = nim->iname_offset = (end + 15) / 16 * 16;
  const int status = v->nifti2 ? nifti_convert_nim2n2hdr(nim, &second) : nifti_convert_nim2n1hdr(nim, &first);
  const void *header = v->nifti2 ? (const void *)&second : &first;
  bool done = status == 0 && znzwrite(header, 1, (size_t)length, v->file) == (size_t)length;
  done = done && znzwrite((char[4]){nim->num_ext > 0, 0, 0, 0}, 1, 4, v->file) == 4;
  for (int i = 0; i < nim->num_ext && done; i++) {
    const nifti1_extension *e = &nim->ext_list[i];
    const size_t bytes = (size_t)e->esize - 8;
    done = znzwrite((int32_t[2]){e->esize, e->ecode}, 1, 8, v->file) == 8;
    done = done && znzwrite(e->edata, 1, bytes, v->file) == bytes;
  }
  return done && znzwrite((char[16]){0}, 1, (size_t)(v->base - end), v->file) == (size_t)(v->base - end);
}

static bool cannot_write(const volumes *v, io_error *error) {
  return io_fail(error, "%s: cannot be written: %s; check the space on the disk", v->path,
                 errno ? strerror(errno) : "write error");
}

static bool begin(volumes *v, const io_output *output, const io_info *info, const volumes *like, io_error *error) {
  v->nim = make_header(info, like);
  if (!v->nim) return io_fail_memory(error, v->path);
  const bool colour = v->nim->datatype == NIFTI_TYPE_RGB24 || v->nim->datatype == NIFTI_TYPE_RGBA32;
  v->type = info->type;
  v->stored = (int)falt_type_size(info->type);
  v->rows = io_rows(info);
  v->volumes = colour ? 1 : info->channels;
  v->row = io_row_elements(info) / v->volumes;
  v->compressed = nifti_is_gzfile(output->temporary) != 0;
  if (v->compressed && v->volumes > 1) {
    v->whole = malloc((size_t)(v->volumes * v->rows * v->row * v->stored));
    if (!v->whole) return io_fail_memory(error, v->path);
  }
  v->nifti2 = needs_nifti2(v->nim) || (like && like->nifti2);
  v->file = znzopen(output->temporary, "wb", v->compressed);
  if (!v->file || !write_header(v)) return cannot_write(v, error);
  return true;
}

void *nifti_create(const io_output *output, const io_info *info, const void *like, io_error *error) {
  nifti_set_debug_level(0);
  volumes *v = nifti_new(output->path, error);
  if (!v || begin(v, output, info, like, error)) return v;
  nifti_close(v);
  return NULL;
}

static bool store(volumes *v, int64_t index, int64_t count, const void *from, io_error *error) {
  const int64_t offset = index * v->stored, bytes = count * v->stored;
  const bool there = offset == v->position || znzseek(v->file, v->base + offset, SEEK_SET) >= 0;
  if (!there || znzwrite(from, 1, (size_t)bytes, v->file) != (size_t)bytes) return cannot_write(v, error);
  v->position = offset + bytes;
  return true;
}

static inline __attribute__((always_inline)) void part(char *to, const char *from, int64_t step, int64_t count,
                                                       size_t size) {
  for (int64_t i = 0; i < count; i++) memcpy(to + i * (int64_t)size, from + i * step, size);
}

static void part_any(char *to, const char *from, int64_t step, int64_t count, size_t size) {
  switch (size) {
    case 1:
      part(to, from, step, count, 1);
      break;
    case 2:
      part(to, from, step, count, 2);
      break;
    case 4:
      part(to, from, step, count, 4);
      break;
    default:
      part(to, from, step, count, 8);
      break;
  }
}

/* One row of all volumes to where each belongs. */
static bool write_parted(volumes *v, int64_t r, const char *from, char *line, io_error *error) {
  for (int64_t i = 0; i < v->volumes; i++) {
    const int64_t index = (i * v->rows + r) * v->row;
    char *to = v->whole ? v->whole + index * v->stored : line;
    part_any(to, from + i * v->stored, v->volumes * v->stored, v->row, (size_t)v->stored);
    if (!v->whole && !store(v, index, v->row, line, error)) return false;
  }
  return true;
}

bool nifti_write_rows(void *state, int64_t count, const void *buffer, io_error *error) {
  volumes *v = state;
  if (v->volumes == 1) return store(v, v->position / v->stored, count * v->row, buffer, error);
  const int64_t bytes = v->row * v->stored;
  char *line = malloc((size_t)bytes);
  if (!line) return io_fail_memory(error, v->path);
  bool done = true;
  for (int64_t r = 0; r < count && done; r++)
    done = write_parted(v, v->written++, (const char *)buffer + r * v->volumes * bytes, line, error);
  free(line);
  return done;
}

bool nifti_finish(void *state, io_error *error) {
  volumes *v = state;
  bool done = !v->whole || store(v, 0, v->volumes * v->rows * v->row, v->whole, error);
  const int status = znzclose(v->file);
  v->file = NULL;
  if (done && status != 0) done = cannot_write(v, error);
  nifti_close(v);
  return done;
}
