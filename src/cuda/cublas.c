/* cuBLAS, loaded on first use; no cuBLAS header is needed to build. */
#include "cuda/cublas.h"

#include <pthread.h>
#include <stdio.h>

#include "core/memory.h"
#include "core/status.h"

/* cuBLAS's own enumerators. */
enum { AS_IS = 0, TRANSPOSED = 1, DEFAULT_ALGORITHM = -1, EXACT_SUMS = 16 };
enum { SUM_FLOAT = 68, SUM_DOUBLE = 70, SUM_TF32 = 77 };

static struct {
  int (*property)(int which, int *value);
  const char *(*error)(int status);
  int (*open)(void **handle);
  int (*close)(void *handle);
  int (*set_stream)(void *handle, void *stream);
  int (*set_workspace)(void *handle, void *workspace, size_t bytes);
  int (*set_mode)(void *handle, int mode);
  int (*multiply)(void *handle, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, const void *alpha,
                  const void *a, int type_a, int64_t row_a, long long next_a, const void *b, int type_b, int64_t row_b,
                  long long next_b, const void *beta, void *c, int type_c, int64_t row_c, long long next_c,
                  int64_t count, int sum, int algorithm);
} blas;

static char version[32]; /* empty: not available */

static void load_once(void) {
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12"};
  const falt_cuda_entry entries[] = {
      {"cublasGetProperty", &blas.property},    {"cublasGetStatusString", &blas.error},
      {"cublasCreate_v2", &blas.open},          {"cublasDestroy_v2", &blas.close},
      {"cublasSetStream_v2", &blas.set_stream}, {"cublasSetWorkspace_v2", &blas.set_workspace},
      {"cublasSetMathMode", &blas.set_mode},    {"cublasGemmStridedBatchedEx_64", &blas.multiply}};
  int number[3] = {0, 0, 0};
  void *library = falt_cuda_open_named("FALTUNG_CUBLAS", names, 2);
  if (!library || falt_cuda_find(library, entries, sizeof entries / sizeof *entries)) return;
  for (int i = 0; i < 3; i++) blas.property(i, &number[i]);
  snprintf(version, sizeof version, "%d.%d.%d", number[0], number[1], number[2]);
}

const char *falt_cublas_version(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_once);
  if (version[0]) return version;
  falt_fail(FALT_NO_DEVICE, "no cuBLAS 12 or 13 was found; install nvidia-cublas, or name its file in FALTUNG_CUBLAS");
  return NULL;
}

struct falt_cublas {
  falt_gpu *gpu;
  void *handle;
  pthread_mutex_t lock; /* of the handle, which serves one thread at a time */
  falt_type type;
  bool allow_tf32;
  int error;
};

/* ---- opening */

static void open_handle(void *context) {
  falt_cublas *c = context;
  c->error = blas.open(&c->handle);
  if (!c->error) c->error = blas.set_mode(c->handle, EXACT_SUMS);
}

static void close_handle(void *context) {
  const falt_cublas *c = context;
  if (c->handle) blas.close(c->handle);
}

falt_status falt_cublas_open(falt_cublas **made, falt_gpu *gpu, falt_type type, bool allow_tf32) {
  *made = NULL;
  if (!falt_cublas_version()) return FALT_NO_DEVICE;
  falt_cublas *c = falt_alloc_zero(sizeof *c);
  if (!c) return falt_fail(FALT_NO_MEMORY, "memory ran out");
  c->gpu = gpu;
  c->type = type;
  c->allow_tf32 = allow_tf32;
  pthread_mutex_init(&c->lock, NULL);
  falt_status status = falt_gpu_within(gpu, open_handle, c) ? FALT_OK : falt_gpu_trouble();
  if (c->error) status = falt_fail(FALT_NO_DEVICE, "cuBLAS %s does not start: %s", version, blas.error(c->error));
  if (status == FALT_OK)
    *made = c;
  else
    falt_cublas_close(c);
  return status;
}

void falt_cublas_close(falt_cublas *c) {
  if (!c) return;
  falt_gpu_within(c->gpu, close_handle, c);
  pthread_mutex_destroy(&c->lock);
  falt_free(c);
}

/* ---- products */

typedef struct run {
  const falt_cublas *cublas;
  const falt_cublas_product *product;
  void *workspace, *stream;
  int error;
} run;

/* cuBLAS is column-major: it sees the transposed matrices, so the operands are exchanged. */
static void multiply(void *context) {
  run *r = context;
  const falt_cublas *c = r->cublas;
  const falt_cublas_product *p = r->product;
  static const float one = 1, zero = 0;
  static const double wide_one = 1, wide_zero = 0;
  const bool wide = c->type == FALT_F64;
  const int type = falt_cuda_types[c->type].cublas, sum = wide ? SUM_DOUBLE : c->allow_tf32 ? SUM_TF32 : SUM_FLOAT;
  r->error = blas.set_stream(c->handle, r->stream);
  if (!r->error) r->error = blas.set_workspace(c->handle, r->workspace, FALT_CUBLAS_WORKSPACE);
  if (!r->error)
    r->error = blas.multiply(c->handle, p->transposed ? TRANSPOSED : AS_IS, AS_IS, p->n, p->m, p->k,
                             wide ? (const void *)&wide_one : &one, p->b, type, p->row_b, p->next_b, p->a, type,
                             p->row_a, p->next_a, wide ? (const void *)&wide_zero : &zero, p->c, type, p->row_c,
                             p->next_c, p->count, sum, DEFAULT_ALGORITHM);
}

void falt_cublas_multiply(falt_cublas *c, const falt_cublas_product *product, void *workspace, void *stream) {
  run r = {c, product, workspace, stream, 0};
  char line[160];
  pthread_mutex_lock(&c->lock);
  const bool entered = falt_gpu_within(c->gpu, multiply, &r);
  pthread_mutex_unlock(&c->lock);
  if (!entered || !r.error) return;
  snprintf(line, sizeof line, "cuda-im2col: cuBLAS refuses a product: %s; choose another method", blas.error(r.error));
  falt_gpu_fail(FALT_NO_DEVICE, line);
}
