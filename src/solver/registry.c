/* The list of all solvers. A new solver adds its file and one line here. If estimates are equal, the first one wins. */
#include "planner/backend.h"
#include "planner/planner.h"

enum {
  FILTERS = FALT_SCOPE_FILTERS,
  DEPTHWISE = FALT_SCOPE_DEPTHWISE,
  LAYERS = FALT_SCOPE_LAYERS,
  POOLED = FALT_SCOPE_POOLED,
  ANY = FILTERS | DEPTHWISE | LAYERS | POOLED,
  FORWARD = FALT_SCOPE_FORWARD,
  DATA = FALT_SCOPE_DATA,
  WEIGHTS = FALT_SCOPE_WEIGHTS,
  POOLING = FALT_SCOPE_POOLING,
  ALL = ANY | FORWARD | DATA | WEIGHTS | POOLING
};

/* One line a solver. */
/* clang-format off */
#define SOLVERS(ROW)                                                                                                   \
  ROW(direct, FILTERS | DEPTHWISE | FORWARD, "filters, by direct convolution in register tiles")                       \
  ROW(direct_u8, FILTERS | FORWARD, "filters of u8 images with 8-bit integer taps, exact")                             \
  ROW(separable_u8, FILTERS | FORWARD, "separable filters of bytes, two passes over blocks of rows")                   \
  ROW(separable, FILTERS | FORWARD, "separable filters and sums of a few, in one pass")                                \
  ROW(fft, FILTERS | DEPTHWISE | FORWARD, "filters of many taps, by fast Fourier transforms in tiles (overlap-save)")  \
  ROW(fft_dense, LAYERS | FORWARD, "layers that sum over channels and have many taps, by fast Fourier transforms")     \
  ROW(expand_factors, FILTERS | FORWARD, "filters as factors, expanded to dense taps")                                 \
  ROW(separable_passes_cpu, FILTERS | FORWARD, "filters as factors, one pass for each axis")                           \
  ROW(running_sums, FILTERS | DEPTHWISE | FORWARD, "box filters, in a time that does not depend on their size")        \
  ROW(repeated_boxes, FILTERS | FORWARD, "boxes along one axis, repeated, as Gaussians nearly are")                        \
  ROW(inner_product, LAYERS | FORWARD, "layers of few outputs for each weight, which is read in place")                 \
  ROW(direct_nhwc, LAYERS | FORWARD, "dense NHWC layers, by indirect convolution")                                     \
  ROW(igemm_nchw, LAYERS | FORWARD, "dense NCHW layers, as implicit GEMM")                                             \
  ROW(igemm_nchw_bf16, LAYERS | FORWARD, "dense NCHW layers in bf16, as implicit GEMM in VNNI order (AMX)")            \
  ROW(igemm_vnni, LAYERS | FORWARD, "dense layers of 8-bit and 16-bit types, as implicit GEMM in VNNI order (AMX)")    \
  ROW(fprop_nchw, LAYERS | FORWARD,                                                                                    \
      "dense NCHW layers of narrow types, converted to NHWC and back")                                                 \
  ROW(dgrad_nchw, LAYERS | DATA,                                                                                       \
      "dgrad of dense NCHW layers of narrow types, converted to NHWC and back")                                        \
  ROW(winograd, LAYERS | FORWARD, "dense layers of 3 or 5 taps, by Winograd's minimal filtering")                      \
  ROW(winograd_wgrad, LAYERS | WEIGHTS, "wgrad of dense layers of 3 or 5 taps, by Winograd's minimal filtering")       \
  ROW(dgrad_strided, ANY | DATA, "dgrad with a stride, as a forward problem for each polyphase part")                  \
  ROW(wgrad, LAYERS | WEIGHTS, "wgrad of dense layers, by outer products")                                             \
  ROW(wgrad_rows, LAYERS | WEIGHTS, "wgrad of dense NHWC layers, as GEMM in place")                                    \
  ROW(wgrad_vnni, LAYERS | WEIGHTS, "wgrad of dense bf16 layers, as GEMM in VNNI order (AMX)")                         \
  ROW(wgrad_pairs, LAYERS | WEIGHTS, "wgrad of dense bf16 layers, as GEMM by independent tasks")                       \
  ROW(wgrad_nchw, DEPTHWISE | LAYERS | WEIGHTS, "wgrad of dense and depthwise NCHW layers, transposed to NHWC")        \
  ROW(depthwise_rowtile, DEPTHWISE | FORWARD | DATA, "depthwise NHWC layers of 3x3, 5x5 and 7x7 taps, in row tiles")   \
  ROW(depthwise_rowtile_wgrad, DEPTHWISE | WEIGHTS, "wgrad of depthwise NHWC layers of 3x3 taps, in row tiles")        \
  ROW(depthwise, FILTERS | DEPTHWISE | FORWARD | DATA, "depthwise NHWC layers, fprop and dgrad")                       \
  ROW(depthwise_nchw, FILTERS | DEPTHWISE | FORWARD | DATA, "depthwise NCHW layers, converted to NHWC image by image") \
  ROW(depthwise_wgrad, DEPTHWISE | WEIGHTS, "wgrad of depthwise NHWC layers")                                          \
  ROW(fft_wgrad, DEPTHWISE | WEIGHTS, "wgrad of depthwise layers of many taps, by fast Fourier transforms")            \
  ROW(grouped, LAYERS | FORWARD | DATA, "NHWC layers of small groups, fprop and dgrad")                                \
  ROW(grouped_wgrad, LAYERS | WEIGHTS, "wgrad of NHWC layers of small groups")                                         \
  ROW(dgrad_pixelfold, DEPTHWISE | LAYERS | DATA, "dgrad to few channels, neighbouring pixels as one pixel")           \
  ROW(fprop_pixelfold, LAYERS | FORWARD, "layers of few output channels, neighbouring pixels as one pixel")            \
  ROW(dgrad_col2im, LAYERS | DATA, "dgrad to few channels, by GEMM and col2im")                                        \
  ROW(wgrad_fewchannels, LAYERS | WEIGHTS, "wgrad of layers with few input channels, along lines")                     \
  ROW(pooling, POOLING, "pooling and its gradients, axis by axis")                                                     \
  ROW(fuse_pool, POOLED | FORWARD, "layers with max pooling, fused in cache-sized bands")                              \
  ROW(upconvert_f32, LAYERS | DEPTHWISE | FORWARD | DATA | WEIGHTS,                                                    \
      "layers of narrow types, upconverted to f32 in the cache")                                                       \
  ROW(im2col, LAYERS | FORWARD | DATA | WEIGHTS, "layers, by explicit im2col and BLAS; only if named")                 \
  ROW(generic, ALL, "every problem but filters as factors, at moderate speed")                                         \
  ROW(reference, ALL, "every problem, by its definition")                                                              \
  ROW(cuda_toeplitz, FILTERS | FORWARD, "filters, as Toeplitz products on tensor cores")                               \
  ROW(cuda_25d, FILTERS | FORWARD, "filters, by 2.5D blocking")                                                        \
  ROW(cuda_rows, FILTERS | FORWARD, "filters along rows, through shared memory")                                       \
  ROW(cuda_direct, FILTERS | FORWARD, "filters, by direct convolution in register tiles")                              \
  ROW(cuda_separable, FILTERS | FORWARD, "separable filters, in register tiles")                                       \
  ROW(cuda_separable_25d, FILTERS | FORWARD, "separable filters of images, by 2.5D blocking")                          \
  ROW(cuda_separable_volume, FILTERS | FORWARD, "separable filters of volumes, by 2.5D blocking")                      \
  ROW(cuda_tiled, FILTERS | DEPTHWISE | FORWARD, "filters of many taps, tiles in shared memory")                       \
  ROW(cuda_fft, FILTERS | DEPTHWISE | FORWARD | DATA,                                                                  \
      "filters of many taps, by fast Fourier transforms in tiles (overlap-save)")                                      \
  ROW(cuda_fft_partitioned, FILTERS | DEPTHWISE | FORWARD | DATA,                                                      \
      "filters longer than a tile, by transforms whose spectra are kept (partitioned overlap-save)")                   \
  ROW(cuda_running_sums, FILTERS | DEPTHWISE | FORWARD, "box filters, in a time that does not depend on their size")   \
  ROW(cuda_fft_wgrad, DEPTHWISE | WEIGHTS, "wgrad of depthwise layers of many taps, by fast Fourier transforms")       \
  ROW(cuda_direct_nchw, ANY | FORWARD, "layers of few input channels with fused max pooling")                          \
  ROW(split_pool, POOLED | FORWARD, "layers with max pooling, as two problems")                                        \
  ROW(cuda_pooling, POOLING, "pooling and its gradients")                                                              \
  ROW(cuda_igemm_sm90, FILTERS | LAYERS | FORWARD | DATA | WEIGHTS,                                                    \
      "dense f16 and bf16 layers, as implicit GEMM with wgmma and TMA")                                                \
  ROW(cuda_fewchannels_nhwc, FILTERS | LAYERS | FORWARD, "layers of few input channels, with wgmma")                   \
  ROW(cuda_fewchannels_wgrad, DEPTHWISE | LAYERS | WEIGHTS, "wgrad of layers with few input channels, with wgmma")     \
  ROW(cuda_fewchannels_nchw, FILTERS | LAYERS | FORWARD,                                                               \
      "NCHW layers of few input channels, rows loaded to MMA fragments")                                               \
  ROW(cuda_igemm_sm90_halo, FILTERS | LAYERS | FORWARD | DATA,                                                         \
      "dense f16 and bf16 layers, each halo tile loaded once for all taps")                                            \
  ROW(cuda_wgrad_sm90_halo, LAYERS | WEIGHTS, "wgrad of dense f16 and bf16 layers, each halo tile loaded once")        \
  ROW(cuda_wgrad_sm90_nchw, LAYERS | WEIGHTS, "wgrad of dense NCHW f16 and bf16 layers, with wgmma")                   \
  ROW(separable_passes, FILTERS | FORWARD, "tall separable filters and filters as factors, one pass for each axis")    \
  ROW(cuda_expand_factors, FILTERS | FORWARD, "filters as factors, expanded to dense taps")                            \
  ROW(space_to_depth, DEPTHWISE | LAYERS | FORWARD | WEIGHTS, "layers of adjacent patches, by space-to-depth")         \
  ROW(convert_layout, LAYERS | DEPTHWISE | FORWARD | DATA | WEIGHTS,                                                   \
      "NCHW layers, converted to NHWC in the workspace")                                                               \
  ROW(pad_channels, LAYERS | DEPTHWISE | FORWARD | DATA | WEIGHTS,                                                     \
      "NHWC layers, channels padded to a multiple of 16 bytes in the workspace")                                       \
  ROW(cuda_depthwise_wgrad, DEPTHWISE | WEIGHTS, "wgrad of depthwise layers")                                          \
  ROW(cuda_depthwise_toeplitz_wgrad, DEPTHWISE | WEIGHTS, "wgrad of depthwise layers of many taps, on tensor cores")   \
  ROW(cuda_depthwise_toeplitz, FILTERS | DEPTHWISE | FORWARD | DATA,                                                   \
      "depthwise layers of many taps, as Toeplitz products on tensor cores")                                           \
  ROW(cuda_depthwise, FILTERS | DEPTHWISE | FORWARD | DATA, "depthwise layers, fprop and dgrad")                       \
  ROW(cuda_igemm, ANY | FORWARD | DATA, "layers, fprop and dgrad as implicit GEMM on tensor cores")                    \
  ROW(cuda_winograd, LAYERS | FORWARD | DATA, "dense layers of 3 or 5 taps, by Winograd's minimal filtering")          \
  ROW(cuda_winograd_wgrad, LAYERS | WEIGHTS,                                                                           \
      "wgrad of dense layers of 3 or 5 taps, by Winograd's minimal filtering")                                         \
  ROW(cuda_grouped, LAYERS | FORWARD | DATA, "NHWC layers of small groups, on tensor cores")                           \
  ROW(cuda_wgrad, ANY | WEIGHTS, "wgrad of layers, as implicit GEMM on tensor cores")                                  \
  ROW(cuda_wgrad_halo, DEPTHWISE | LAYERS | WEIGHTS, "wgrad of few channels, each halo tile loaded once for all taps") \
  ROW(cuda_im2col, LAYERS | FORWARD | DATA | WEIGHTS, "layers, by explicit im2col and cuBLAS; only if named")          \
  ROW(cudnn, LAYERS | DEPTHWISE | FORWARD | DATA | WEIGHTS, "layers and their gradients, by cuDNN; only if named")     \
  ROW(cuda_generic, ALL, "every problem on GPUs, by its definition")
/* clang-format on */

#define DECLARE(name, scope, about) extern const falt_solver falt_solver_##name;
SOLVERS(DECLARE)

#define ADDRESS(name, scope, about) &falt_solver_##name,
const falt_solver *const falt_solvers[] = {SOLVERS(ADDRESS) NULL};

#define NOTE(name, scope, about) {scope, about},
const falt_solver_note falt_solver_notes[] = {SOLVERS(NOTE){ALL, NULL}};

extern const falt_backend falt_backend_cpu, falt_backend_cuda;
const falt_backend *const falt_backends[] = {&falt_backend_cpu, &falt_backend_cuda, NULL};

/* clang-format off */
const falt_solver_alias falt_solver_aliases[] = {
    {"channels", "direct-nhwc"},
    {"pixels", "igemm-nchw"},
    {"tiles", "igemm-vnni"},
    {"outer", "wgrad"},
    {"lines", "wgrad-fewchannels"},
    {"phases", "dgrad-strided"},
    {"overlap", "dgrad-col2im"},
    {"fold", "dgrad-pixelfold"},
    {"pooled", "fuse-pool"},
    {"widened", "upconvert-f32"},
    {"grouped-filter", "grouped-wgrad"},
    {"outer-rows", "wgrad-rows"},
    {"outer-tiles", "wgrad-vnni"},
    {"fold-results", "fprop-pixelfold"},
    {"depthwise-block", "depthwise-rowtile"},
    {"depthwise-block-filter", "depthwise-rowtile-wgrad"},
    {"depthwise-filter", "depthwise-wgrad"},
    {"cuda-pooled", "split-pool"},
    {"cuda-wgmma", "cuda-igemm-sm90"},
    {"cuda-planes", "cuda-igemm-sm90-halo"},
    {"cuda-planes-filter", "cuda-wgrad-sm90-halo"},
    {"cuda-planar-filter", "cuda-wgrad-sm90-nchw"},
    {"cuda-gemm", "cuda-igemm"},
    {"cuda-gemm-filter", "cuda-wgrad"},
    {"cuda-window", "cuda-wgrad-halo"},
    {"cuda-first", "cuda-fewchannels-nhwc"},
    {"cuda-first-filter", "cuda-fewchannels-wgrad"},
    {"cuda-strips", "cuda-fewchannels-nchw"},
    {"cuda-turned", "convert-layout"},
    {"cuda-patches", "space-to-depth"},
    {"cuda-banded", "cuda-toeplitz"},
    {"cuda-march", "cuda-separable-25d"},
    {"cuda-sweep", "cuda-25d"},
    {"cuda-sweep-terms", "cuda-separable-volume"},
    {"cuda-blocked", "cuda-tiled"},
    {"cuda-row", "cuda-rows"},
    {"cuda-depthwise-bands", "cuda-depthwise-toeplitz"},
    {"cuda-depthwise-bands-filter", "cuda-depthwise-toeplitz-wgrad"},
    {"cuda-depthwise-filter", "cuda-depthwise-wgrad"},
    {"cuda-layer", "cuda-direct-nchw"},
    {"cuda-passes", "separable-passes"},
    {NULL, NULL}};
/* clang-format on */
