/* A cuDNN that is none: enough of its graph interface for the method cudnn to describe layers of f32 to it, which it
 * computes by definition, in memory that a made-up driver has from the host. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY __attribute__((visibility("default")))

enum { ATTRIBUTES = 12, VALUES = 8, DIMS = 5, MISSING = 2000 };
enum { CONFIG_GRAPH = 9999, FORWARD = 10, FILTER = 11, DATA = 12 };

typedef struct descriptor {
  int kind, count;
  struct {
    int name;
    int64_t value[VALUES];
  } attribute[ATTRIBUTES];
} descriptor;

static int64_t *find(descriptor *d, int name) {
  for (int i = 0; i < d->count; i++)
    if (d->attribute[i].name == name) return d->attribute[i].value;
  return NULL;
}

static descriptor *part(descriptor *d, int name) {
  return (descriptor *)(intptr_t)*find(d, name);
}

ENTRY size_t cudnnGetVersion(void) {
  return 90102;
}

ENTRY const char *cudnnGetErrorString(int status) {
  return status ? "a made-up failure" : "none";
}

ENTRY int cudnnCreate(void **handle) {
  *handle = malloc(1);
  return 0;
}

ENTRY int cudnnDestroy(void *handle) {
  free(handle);
  return 0;
}

ENTRY int cudnnSetStream(void *handle, void *stream) {
  return handle && !stream ? 0 : MISSING;
}

/* ---- descriptors */

ENTRY int cudnnBackendCreateDescriptor(int kind, void **made) {
  descriptor *d = calloc(1, sizeof *d);
  d->kind = kind;
  *made = d;
  return 0;
}

ENTRY int cudnnBackendDestroyDescriptor(void *d) {
  free(d);
  return 0;
}

ENTRY int cudnnBackendFinalize(void *d) {
  return d ? 0 : MISSING;
}

/* Integers, descriptors and pointers have 8 bytes; types, modes and floats 4. */
static size_t bytes_of(int type) {
  return type == 1 || type == 4 || type == 7 || type == 8 ? 4 : 8;
}

ENTRY int cudnnBackendSetAttribute(void *to, int name, int type, int64_t count, const void *values) {
  descriptor *d = to;
  if (count > VALUES || d->count == ATTRIBUTES) return MISSING;
  d->attribute[d->count].name = name;
  for (int64_t i = 0; i < count; i++)
    memcpy(&d->attribute[d->count].value[i], (const char *)values + (size_t)i * bytes_of(type), bytes_of(type));
  d->count++;
  return 0;
}

/* One engine, number 7, without notes and workspace; its configuration remembers the graph. */
ENTRY int cudnnBackendGetAttribute(void *from, int name, int type, int64_t most, int64_t *count, void *values) {
  *count = 1;
  if (name == 202 && most > 0)
    return cudnnBackendSetAttribute(*(void **)values, CONFIG_GRAPH, type, 1, find(from, 201));
  if (name == 1303) *count = 0;
  if (name == 1301) *(int64_t *)values = 7;
  if (name == 402) *(int64_t *)values = 0;
  return 0;
}

/* ---- the layer */

typedef struct tensor {
  float *data;
  int64_t size[DIMS], stride[DIMS]; /* depth is 1 where there is none */
} tensor;

static tensor tensor_of(descriptor *operation, int name, int axes, const int64_t *pointers) {
  descriptor *d = part(operation, name);
  tensor t = {.data = (float *)(intptr_t)pointers[*find(d, 906) - 1]};
  for (int i = 0; i < DIMS; i++) {
    const int at = i < 2 ? i : i - (3 - axes);
    const int absent = i >= 2 && i < 5 - axes;
    t.size[i] = absent ? 1 : find(d, 902)[at];
    t.stride[i] = absent ? 0 : find(d, 903)[at];
  }
  return t;
}

static float *element(const tensor *t, const int64_t at[DIMS]) {
  int64_t offset = 0;
  for (int i = 0; i < DIMS; i++) offset += at[i] * t->stride[i];
  return t->data + offset;
}

/* Counts through all positions of some sizes; 0 after the last. */
static int next(int64_t *at, const int64_t *size, int count) {
  int i = count - 1;
  while (i >= 0 && ++at[i] == size[i]) at[i--] = 0;
  return i >= 0;
}

static void clear(const tensor *t) {
  int64_t at[DIMS] = {0};
  do *element(t, at) = 0;
  while (next(at, t->size, DIMS));
}

/* Each product of y's position and w's, added to what the operation makes. */
static void compute(int kind, descriptor *convolution, const tensor *x, const tensor *w, const tensor *y, int axes) {
  const int64_t *stride = find(convolution, 103), *dilation = find(convolution, 102), *before = find(convolution, 105);
  const int64_t groups = x->size[1] / w->size[1], of_group = w->size[0] / groups;
  const tensor *result = kind == FORWARD ? y : kind == FILTER ? w : x;
  int64_t o[DIMS] = {0};
  clear(result);
  do {
    int64_t j[DIMS] = {o[1]};
    do {
      int64_t i[DIMS] = {o[0], o[1] / of_group * w->size[1] + j[1]};
      int inside = 1;
      for (int a = 2; a < DIMS; a++) {
        const int at = a - (DIMS - axes);
        i[a] = at < 0 ? 0 : o[a] * stride[at] + j[a] * dilation[at] - before[at];
        inside &= i[a] >= 0 && i[a] < x->size[a];
      }
      if (!inside) continue;
      float *const px = element(x, i), *const pw = element(w, j), *const py = element(y, o);
      if (kind == FORWARD) *py += *px * *pw;
      if (kind == DATA) *px += *py * *pw;
      if (kind == FILTER) *pw += *px * *py;
    } while (next(j + 1, w->size + 1, DIMS - 1));
  } while (next(o, y->size, DIMS));
}

ENTRY int cudnnBackendExecute(void *handle, void *plan, void *pack) {
  static const int names[][4] = {
      [FORWARD] = {704, 703, 705, 702}, [FILTER] = {716, 715, 717, 714}, [DATA] = {710, 709, 711, 708}};
  descriptor *operation = part(part(part(plan, 401), CONFIG_GRAPH), 801);
  const int kind = operation->kind;
  descriptor *convolution = part(operation, names[kind][3]);
  const int axes = (int)*find(convolution, 106);
  const int64_t *pointers = find(pack, 1001);
  const tensor x = tensor_of(operation, names[kind][0], axes, pointers),
               w = tensor_of(operation, names[kind][1], axes, pointers),
               y = tensor_of(operation, names[kind][2], axes, pointers);
  if (!handle) return MISSING;
  compute(kind, convolution, &x, &w, &y, axes);
  return 0;
}
