/* The BLAS library of this machine, OpenBLAS or BLIS, loaded on first use. */
#ifndef FALT_CPU_BLAS_H
#define FALT_CPU_BLAS_H

/* cblas's own enumerators. */
enum { FALT_BLAS_ROWS = 101, FALT_BLAS_AS_IS = 111, FALT_BLAS_TRANSPOSED = 112 };

/* C = alpha * A B + beta * C, as cblas_sgemm and cblas_dgemm have it. */
typedef struct falt_blas {
  char name[64];
  void (*f32)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
              const float *b, int ldb, float beta, float *c, int ldc);
  void (*f64)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a, int lda,
              const double *b, int ldb, double beta, double *c, int ldc);
} falt_blas;

/* The library that FALTUNG_BLAS names, else the first that is found; NULL: none. It is set to one thread, once for the
 * whole process, because the solver runs its tasks in parallel. */
const falt_blas *falt_blas_load(void);

#endif
