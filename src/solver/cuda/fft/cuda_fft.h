/* Shared by the FFT solvers on GPUs: the plan, its kernels, and the spectra of filters. */
#ifndef FALT_SOLVER_CUDA_FFT_CUDA_FFT_H
#define FALT_SOLVER_CUDA_FFT_CUDA_FFT_H

#include "solver/cuda/common/plan.h"
#include "solver/cuda/fft/cuda_fft_args.h"
#include "solver/cuda/fft/cuda_fft_tiles.h"

/* Kernels of every solver; a solver's own follow. */
enum { FALT_FFT_ABOUT, FALT_FFT_SPECTRUM, FALT_FFT_SUMS, FALT_FFT_OWN, FALT_FFT_KERNELS = FALT_FFT_OWN + 3 };

/* A solver's own kernels, up to the first without an entry. */
typedef struct falt_cuda_fft_kernel {
  const char *source, *entry;
  int threads; /* 0: those of a tile, with its shared memory */
} falt_cuda_fft_kernel;

typedef struct falt_cuda_fft_plan {
  falt_cuda_plan cuda;
  const falt_cuda_fft_kernel *own;
  falt_cu_function function[FALT_FFT_KERNELS];
  falt_cuda_fft_args args;
  falt_cuda_fft_tile tile;
  void *twiddles, *known; /* on the GPU; known: what is known of known filters, and their spectra */
  size_t sums_at, about_at, spectra_at, kept_at, products_at, bad_at;
  int epilogue; /* cuda_fft.cu's EPILOGUE */
  bool wide, whole;
} falt_cuda_fft_plan;

/* Steps of falt_cuda_plan_make. `choose` takes the method of the tiles and the solver's own kernels. */
const char *falt_cuda_fft_inapplicable(const falt_ask *ask);
const char *falt_cuda_fft_wgrad_inapplicable(const falt_ask *ask);
const char *falt_cuda_fft_plan_choose(falt_cuda_fft_plan *plan, falt_ask *ask, falt_cuda_fft_method *method,
                                      const falt_cuda_fft_kernel *own);
falt_status falt_cuda_fft_ready(falt_plan *plan);
void falt_cuda_fft_destroy(falt_plan *plan);

/* The tile and the parts; the caller closes the parenthesis. */
void falt_cuda_fft_print(const falt_cuda_fft_plan *plan, falt_text *text);

/* The arguments of an execution, after its filters' spectra are queued where they are not known. */
falt_cuda_fft_args falt_cuda_fft_begin(const falt_cuda_fft_plan *plan, const falt_operands *operands);
/* Queues one of the solver's kernels. */
void falt_cuda_fft_start(const falt_cuda_fft_plan *plan, int kernel, const falt_cuda_fft_args *args, int64_t blocks,
                         void *stream);
/* Of cuda-fft-partitioned and cuda-fft-wgrad, whose own kernels keep spectra, sum products and transform back. */
const char *falt_cuda_fft_kept_choose(falt_plan *plan, falt_ask *ask, falt_cuda_fft_method *method);
void falt_cuda_fft_kept_execute(const falt_plan *plan, const falt_operands *operands);
void falt_cuda_fft_kept_print(const falt_plan *plan, falt_text *text);

/* Queues the sums of the tiles that are not transformed. */
void falt_cuda_fft_end(const falt_cuda_fft_plan *plan, const falt_cuda_fft_args *args, void *stream);

#endif
