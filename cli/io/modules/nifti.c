/* Reads volumes by libnifti: .nii and .nii.gz, NIfTI-1 and -2. libnifti reads the header; samples are read row by row
 * from its (possibly compressed) stream. Values are the stored ones: scl_slope and scl_inter are passed on, not
 * applied. A file with more than three dimensions is a volume with as many channels, which are filtered separately. */
#include "io/modules/nifti.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_GROWTH = 1 << 20, CONVERTED = 4096 };

/* Types that Faltung does not have are read as f64. `parts` samples make one voxel. */
static const struct {
  int code, stored, parts;
  falt_type type;
} codes[] = {
    {NIFTI_TYPE_UINT8, 1, 1, FALT_U8},    {NIFTI_TYPE_INT8, 1, 1, FALT_S8},    {NIFTI_TYPE_UINT16, 2, 1, FALT_U16},
    {NIFTI_TYPE_INT16, 2, 1, FALT_S16},   {NIFTI_TYPE_INT32, 4, 1, FALT_S32},  {NIFTI_TYPE_FLOAT32, 4, 1, FALT_F32},
    {NIFTI_TYPE_FLOAT64, 8, 1, FALT_F64}, {NIFTI_TYPE_UINT32, 4, 1, FALT_F64}, {NIFTI_TYPE_INT64, 8, 1, FALT_F64},
    {NIFTI_TYPE_UINT64, 8, 1, FALT_F64},  {NIFTI_TYPE_RGB24, 1, 3, FALT_U8},   {NIFTI_TYPE_RGBA32, 1, 4, FALT_U8},
};
enum { CODES = sizeof codes / sizeof codes[0] };

int nifti_code(falt_type type) {
  for (int i = 0; i < CODES; i++)
    if (codes[i].type == type) return codes[i].code;
  return 0;
}

static unsigned types(const char *extension) {
  unsigned set = 0;
  (void)extension;
  for (int i = 0; i < CODES; i++) set |= 1u << codes[i].type;
  return set;
}

/* ----------------------------------------------------------------------------------------------------- opening */

volumes *nifti_new(const char *path, io_error *error) {
  volumes *v = calloc(1, sizeof *v);
  if (v) v->path = strdup(path);
  if (v && v->path) return v;
  free(v);
  io_fail_memory(error, path);
  return NULL;
}

void nifti_close(void *state) {
  volumes *v = state;
  if (v->file) znzclose(v->file);
  if (v->nim) nifti_image_free(v->nim);
  free(v->whole);
  free(v->path);
  free(v);
}

static bool truncated(const volumes *v, int64_t got, int64_t wanted, io_error *error) {
  return io_fail(error, "%s: is truncated: %lld of %lld bytes are there; copy or write it again", v->path,
                 (long long)got, (long long)wanted);
}

/* Sizes, with their product checked before anything is multiplied or allocated. */
static bool describe(volumes *v, io_info *info, io_error *error) {
  const nifti_image *nim = v->nim;
  int i = 0;
  while (i < CODES && codes[i].code != nim->datatype) i++;
  if (i == CODES)
    return io_fail(error, "%s: has samples of type %s; convert them to integers of at most 32 bits or to floats",
                   v->path, nifti_datatype_string(nim->datatype));
  int64_t bytes = codes[i].stored, sizes[8] = {0};
  v->volumes = codes[i].parts;
  for (int d = 1; d <= 7; d++) {
    sizes[d] = d <= nim->ndim ? nim->dim[d] : 1;
    if (sizes[d] < 1) return io_fail(error, "%s: is empty: one of its sizes is not positive; check the file", v->path);
    if (__builtin_mul_overflow(bytes, sizes[d], &bytes) || bytes > INT64_MAX / 8)
      return io_fail(error, "%s: declares more than 2^60 bytes of samples; it cannot be real", v->path);
    if (d > 3) v->volumes *= sizes[d];
  }
  if (codes[i].parts > 1 && v->volumes != codes[i].parts)
    return io_fail(error, "%s: has colours in more than one volume; split it first", v->path);
  v->type = codes[i].type;
  v->stored = codes[i].stored;
  info->space = nim->ndim < 3 && v->volumes == codes[i].parts ? (nim->ndim < 2 ? 1 : 2) : 3;
  info->type = v->type;
  info->channels = v->volumes;
  for (int d = 0; d < 3; d++) info->size[d] = sizes[3 - d];
  v->rows = io_rows(info);
  v->row = io_row_elements(info) / v->volumes;
  if (codes[i].parts > 1) { /* samples are interleaved in the file as they are here */
    v->row *= v->volumes;
    v->volumes = 1;
  }
  return true;
}

static int64_t stored_bytes(const volumes *v) {
  return v->volumes * v->rows * v->row * v->stored;
}

/* A file that is not compressed must hold what its header declares. */
static bool open_samples(volumes *v, io_error *error) {
  struct stat status;
  v->compressed = nifti_is_gzfile(v->nim->iname) != 0;
  v->base = v->nim->iname_offset;
  if (v->base < 0 || stat(v->nim->iname, &status) != 0)
    return io_fail(error, "%s: its samples cannot be found; check the header and the file beside it", v->path);
  if (!v->compressed && status.st_size - v->base < stored_bytes(v))
    return truncated(v, status.st_size > v->base ? status.st_size - v->base : 0, stored_bytes(v), error);
  v->file = znzopen(v->nim->iname, "rb", v->compressed);
  if (!v->file || znzseek(v->file, v->base, SEEK_SET) < 0)
    return io_fail(error, "%s: cannot be read; check its permissions", v->path);
  return true;
}

/* After the last sample a compressed file has a checksum, which zlib verifies on the next read. */
static bool check_end(volumes *v, io_error *error) {
  char more;
  const bool sound = znzread(&more, 1, 1, v->file) <= 1;
  const int status = znzclose(v->file);
  v->file = NULL;
  return (sound && status == 0) ||
         io_fail(error, "%s: is damaged: its end or its checksum is wrong; copy or write it again", v->path);
}

/* A compressed file cannot be read out of order: it is read whole, into memory that grows with the data. */
static bool load(volumes *v, io_error *error) {
  const int64_t total = stored_bytes(v);
  int64_t capacity = 0;
  for (int64_t filled = 0; filled < total; filled = capacity) {
    const int64_t grown = capacity == 0 ? FIRST_GROWTH : capacity > total / 2 ? total : capacity * 2;
    capacity = grown < total ? grown : total;
    char *larger = realloc(v->whole, (size_t)capacity);
    if (!larger) return io_fail_memory(error, v->path);
    v->whole = larger;
    const size_t n = znzread(v->whole + filled, 1, (size_t)(capacity - filled), v->file);
    if (n != (size_t)(capacity - filled))
      return truncated(v, n > (size_t)total ? filled : filled + (int64_t)n, total, error);
  }
  return check_end(v, error);
}

/* libnifti prints errors at any debug level. The user gets only our line. */
static nifti_image *read_header(const char *path) {
  fflush(stderr);
  const int kept = dup(STDERR_FILENO), silent = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (kept >= 0 && silent >= 0) dup2(silent, STDERR_FILENO);
  nifti_image *nim = nifti_image_read(path, 0);
  fflush(stderr);
  if (kept >= 0) dup2(kept, STDERR_FILENO);
  if (kept >= 0) close(kept);
  if (silent >= 0) close(silent);
  return nim;
}

static bool is_nifti2(const char *path) {
  int version = 0;
  free(nifti_read_header(path, &version, 0));
  return version == 2;
}

static void *open_volumes(const char *path, const io_request *request, io_info *info, io_error *error) {
  nifti_set_debug_level(0);
  volumes *v = nifti_new(path, error);
  if (!v) return NULL;
  v->nim = read_header(path);
  bool done = v->nim || io_fail(error, "%s: is not a NIfTI file, or its header is damaged; check the file", path);
  done = done && describe(v, info, error) && open_samples(v, error);
  if (done && v->compressed && (request->random || v->volumes > 1)) done = load(v, error);
  v->nifti2 = done && is_nifti2(path);
  if (done) return v;
  nifti_close(v);
  return NULL;
}

/* ----------------------------------------------------------------------------------------------------- reading */

/* count samples as stored, beginning with the index-th of the file, in this machine's byte order. */
static bool fetch(volumes *v, int64_t index, int64_t count, void *to, io_error *error) {
  const int64_t offset = index * v->stored, bytes = count * v->stored;
  if (v->whole) {
    memcpy(to, v->whole + offset, (size_t)bytes);
  } else {
    if (offset != v->position && znzseek(v->file, v->base + offset, SEEK_SET) < 0)
      return io_fail(error, "%s: cannot be read: it may be damaged; copy or write it again", v->path);
    const size_t n = znzread(to, 1, (size_t)bytes, v->file);
    if (n != (size_t)bytes)
      return truncated(v, n > (size_t)bytes ? offset : offset + (int64_t)n, stored_bytes(v), error);
    v->position = offset + bytes;
    if (v->compressed && v->position == stored_bytes(v) && !check_end(v, error)) return false;
  }
  if (v->stored > 1 && v->nim->byteorder != nifti_short_order()) nifti_swap_Nbytes(count, v->stored, to);
  return true;
}

/* The same as Faltung's type. */
static bool fetch_typed(volumes *v, int64_t index, int64_t count, void *to, io_error *error) {
  uint64_t raw[CONVERTED];
  char value[24];
  const int code = v->nim->datatype;
  const io_wide kind = code == NIFTI_TYPE_UINT32   ? IO_U32
                       : code == NIFTI_TYPE_INT64  ? IO_S64
                       : code == NIFTI_TYPE_UINT64 ? IO_U64
                                                   : IO_NARROW;
  if (kind == IO_NARROW) return fetch(v, index, count, to, error);
  for (int64_t i = 0; i < count; i += CONVERTED) {
    const int64_t n = count - i < CONVERTED ? count - i : CONVERTED;
    if (!fetch(v, index + i, n, raw, error)) return false;
    const int64_t exact = io_widen(kind, raw, n, (double *)to + i, value);
    if (exact < n)
      return io_fail(error, "%s: sample %lld is %s, which f64 does not hold; save it as another type", v->path,
                     (long long)(index + i + exact), value);
  }
  return true;
}

static inline __attribute__((always_inline)) void interleave(char *to, int64_t step, const char *from, int64_t apart,
                                                             int64_t count, int64_t group, size_t size) {
  for (int64_t i = 0; i < count; i++)
    for (int64_t g = 0; g < group; g++)
      memcpy(to + i * step + g * (int64_t)size, from + g * apart + i * (int64_t)size, size);
}

/* to[i][g] = from[g][i] for elements of 1, 2, 4 or 8 bytes; step and apart are bytes. */
static void interleave_any(char *to, int64_t step, const char *from, int64_t apart, int64_t count, int64_t group,
                           size_t size) {
  switch (size) {
    case 1:
      interleave(to, step, from, apart, count, group, 1);
      break;
    case 2:
      interleave(to, step, from, apart, count, group, 2);
      break;
    case 4:
      interleave(to, step, from, apart, count, group, 4);
      break;
    default:
      interleave(to, step, from, apart, count, group, 8);
      break;
  }
}

/* One row of all volumes, a group of volumes at a time. */
static bool read_interleaved(volumes *v, int64_t r, char *to, char *group, io_error *error) {
  const int64_t size = (int64_t)falt_type_size(v->type), apart = v->row * size;
  for (int64_t first = 0; first < v->volumes; first += NIFTI_GROUP) {
    const int64_t n = v->volumes - first < NIFTI_GROUP ? v->volumes - first : NIFTI_GROUP;
    for (int64_t g = 0; g < n; g++)
      if (!fetch_typed(v, ((first + g) * v->rows + r) * v->row, v->row, group + g * apart, error)) return false;
    interleave_any(to + first * size, v->volumes * size, group, apart, v->row, n, (size_t)size);
  }
  return true;
}

static bool read_rows(void *state, int64_t first, int64_t count, void *buffer, io_error *error) {
  volumes *v = state;
  if (v->volumes == 1) return fetch_typed(v, first * v->row, count * v->row, buffer, error);
  const int64_t bytes = v->row * (int64_t)falt_type_size(v->type);
  char *group = malloc((size_t)(NIFTI_GROUP * bytes));
  if (!group) return io_fail_memory(error, v->path);
  bool done = true;
  for (int64_t r = 0; r < count && done; r++)
    done = read_interleaved(v, first + r, (char *)buffer + r * v->volumes * bytes, group, error);
  free(group);
  return done;
}

extern const io_backend io_backend_export;
__attribute__((visibility("default"))) const io_backend io_backend_export = {
    .version = IO_BACKEND_VERSION,
    .spaces = 1u << 1 | 1u << 2 | 1u << 3,
    .types = types,
    .open = open_volumes,
    .read = read_rows,
    .close = nifti_close,
    .create = nifti_create,
    .write = nifti_write_rows,
    .finish = nifti_finish,
    .abandon = nifti_close,
};
