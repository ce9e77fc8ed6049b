/* A BLAS that is none: enough of cblas for im2col to multiply by, where no BLAS is installed. */
#define ENTRY __attribute__((visibility("default")))

enum { TRANSPOSED = 112 };

ENTRY void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                       const float *b, int ldb, float beta, float *c, int ldc) {
  (void)order, (void)beta;
  for (long i = 0; i < m; i++)
    for (long j = 0; j < n; j++) {
      float sum = 0;
      for (long l = 0; l < k; l++)
        sum +=
            a[trans_a == TRANSPOSED ? l * lda + i : i * lda + l] * b[trans_b == TRANSPOSED ? j * ldb + l : l * ldb + j];
      c[i * ldc + j] = alpha * sum;
    }
}

ENTRY void cblas_dgemm(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a, int lda,
                       const double *b, int ldb, double beta, double *c, int ldc) {
  (void)order, (void)beta;
  for (long i = 0; i < m; i++)
    for (long j = 0; j < n; j++) {
      double sum = 0;
      for (long l = 0; l < k; l++)
        sum +=
            a[trans_a == TRANSPOSED ? l * lda + i : i * lda + l] * b[trans_b == TRANSPOSED ? j * ldb + l : l * ldb + j];
      c[i * ldc + j] = alpha * sum;
    }
}
