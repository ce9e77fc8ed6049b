/* The only list of solvers: adding an algorithm adds its file and one line here. The order breaks ties. */
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
#define SOLVERS(ROW)                                                                                               \
  ROW(direct, FILTERS | DEPTHWISE | FORWARD, "filters, register tiles over rows")                                              \
  ROW(direct_u8, FILTERS | FORWARD, "filters of bytes by integer taps of 8 bits")                                  \
  ROW(separable, FILTERS | FORWARD, "filters of low rank, two passes in one walk")                                 \
  ROW(direct_nhwc, LAYERS | FORWARD, "dense layers, vectors along output channels")                                   \
  ROW(igemm_nchw, LAYERS | FORWARD, "dense layers, vectors along positions")                                           \
  ROW(igemm_vnni, LAYERS | FORWARD, "dense layers of 8 and 16 bits, on matrix units where there are any")               \
  ROW(dgrad_strided, ANY | DATA, "backward-data with a stride, as forward problems")                                      \
  ROW(wgrad, LAYERS | WEIGHTS, "backward-filter of dense layers")                                                  \
  ROW(wgrad_rows, LAYERS | WEIGHTS, "backward-filter of dense layers with adjacent channels")                      \
  ROW(wgrad_vnni, LAYERS | WEIGHTS, "backward-filter of dense bf16 layers, on matrix units where there are any")  \
  ROW(depthwise_rowtile, DEPTHWISE | FORWARD | DATA,                                                                 \
      "depthwise layers of few taps and adjacent channels, block by block")                                        \
  ROW(depthwise_rowtile_wgrad, DEPTHWISE | WEIGHTS, "backward-filter of depthwise 3x3 layers, block by block")                \
  ROW(depthwise, FILTERS | DEPTHWISE | FORWARD | DATA,                                                             \
      "depthwise layers of adjacent channels, forward and backward-data")                                          \
  ROW(depthwise_nchw, DEPTHWISE | FORWARD | DATA,                                                                  \
      "depthwise layers of adjacent pixels, transposed and run along channels")                                    \
  ROW(depthwise_wgrad, DEPTHWISE | WEIGHTS, "backward-filter of depthwise layers")                                \
  ROW(grouped, LAYERS | FORWARD | DATA, "layers of small groups of adjacent channels, forward and backward-data")  \
  ROW(grouped_wgrad, LAYERS | WEIGHTS, "backward-filter of layers of small groups")                               \
  ROW(dgrad_pixelfold, DEPTHWISE | LAYERS | DATA, "backward-data of few channels, a period of pixels as one")                             \
  ROW(fprop_pixelfold, LAYERS | FORWARD, "layers of few output channels, a period of pixels as one")                  \
  ROW(dgrad_col2im, LAYERS | DATA, "backward-data of few channels, rows of taps as columns")                            \
  ROW(wgrad_fewchannels, LAYERS | WEIGHTS, "backward-filter of few input channels, along lines")                               \
  ROW(pooling, POOLING, "pooling and its gradients, axis by axis")                                                 \
  ROW(fuse_pool, POOLED | FORWARD, "layers with their max pooling, band by band")                                     \
  ROW(upconvert_f32, LAYERS | DEPTHWISE | FORWARD | DATA | WEIGHTS,                                                      \
      "layers of narrow types, converted to f32 piece by piece")                                                   \
  ROW(im2col, LAYERS | FORWARD | DATA | WEIGHTS, "layers by patches and BLAS; only by name")                       \
  ROW(generic, ALL, "every problem, at a bearable speed")                                                          \
  ROW(reference, ALL, "every problem, by definition")                                                              \
  ROW(cuda_toeplitz, FILTERS | FORWARD, "filters on tensor cores")                                                   \
  ROW(cuda_25d, FILTERS | FORWARD, "filters that sweep along planes or rows")                                    \
  ROW(cuda_rows, FILTERS | FORWARD, "filters along rows, parts of rows in shared memory")                           \
  ROW(cuda_direct, FILTERS | FORWARD, "filters, register tiles")                                                   \
  ROW(cuda_separable, FILTERS | FORWARD, "filters of low rank, register tiles")                                    \
  ROW(cuda_separable_25d, FILTERS | FORWARD, "filters of low rank, down the columns of images")                            \
  ROW(cuda_separable_volume, FILTERS | FORWARD, "filters of low rank, swept along the planes")                          \
  ROW(cuda_tiled, FILTERS | DEPTHWISE | FORWARD, "filters of many taps, tiles in shared memory")                 \
  ROW(cuda_direct_nchw, ANY | FORWARD, "layers of few channels, with their max pooling")                                 \
  ROW(split_pool, POOLED | FORWARD, "layers, then their max pooling")                                             \
  ROW(cuda_pooling, POOLING, "pooling and its gradients")                                                          \
  ROW(cuda_igemm_sm90, FILTERS | LAYERS | FORWARD | DATA | WEIGHTS, "dense layers of f16 and bf16 with wgmma")                    \
  ROW(cuda_fewchannels_nhwc, FILTERS | LAYERS | FORWARD, "layers of few input channels, each row read once for all taps")               \
  ROW(cuda_fewchannels_wgrad, DEPTHWISE | LAYERS | WEIGHTS, "backward-filter of few input channels")                                \
  ROW(cuda_fewchannels_nchw, FILTERS | LAYERS | FORWARD, "layers of few input channels in planar order, rows read into registers")     \
  ROW(cuda_igemm_sm90_halo, FILTERS | LAYERS | FORWARD | DATA, "dense f16 and bf16 layers, each window read once for all taps")       \
  ROW(cuda_wgrad_sm90_halo, LAYERS | WEIGHTS, "backward-filter of dense f16 and bf16 layers, each window read once") \
  ROW(cuda_wgrad_sm90_nchw, LAYERS | WEIGHTS, "backward-filter of f16 and bf16 layers in planar order")              \
  ROW(separable_passes, FILTERS | FORWARD, "tall filters of rank one, pass by pass")                                    \
  ROW(space_to_depth, DEPTHWISE | LAYERS | FORWARD | WEIGHTS, "layers of adjacent patches, as layers of one column of taps")     \
  ROW(convert_layout, LAYERS | DEPTHWISE | FORWARD | DATA | WEIGHTS,                                                  \
      "layers in planar order, turned for the other solvers")                                                      \
  ROW(cuda_depthwise_wgrad, DEPTHWISE | WEIGHTS, "backward-filter of depthwise layers")                           \
  ROW(cuda_depthwise_toeplitz_wgrad, DEPTHWISE | WEIGHTS,                                                            \
      "backward-filter of depthwise layers of many taps, on tensor cores")                                         \
  ROW(cuda_depthwise_toeplitz, FILTERS | DEPTHWISE | FORWARD | DATA, "depthwise layers of many taps, on tensor cores")          \
  ROW(cuda_depthwise, FILTERS | DEPTHWISE | FORWARD | DATA, "depthwise layers, forward and backward-data")                   \
  ROW(cuda_igemm, ANY | FORWARD | DATA, "layers forward and backward-data, on tensor cores")                        \
  ROW(cuda_grouped, LAYERS | FORWARD | DATA, "layers of small groups, each window read once for all taps")         \
  ROW(cuda_wgrad, ANY | WEIGHTS, "backward-filter of layers, on tensor cores")                               \
  ROW(cuda_wgrad_halo, DEPTHWISE | LAYERS | WEIGHTS, "backward-filter of few channels, each window read once for all taps")        \
  ROW(cuda_im2col, LAYERS | FORWARD | DATA | WEIGHTS, "layers by patches and cuBLAS; only by name")                \
  ROW(cudnn, LAYERS | DEPTHWISE | FORWARD | DATA | WEIGHTS, "layers and their gradients by cuDNN; only by name")   \
  ROW(cuda_generic, ALL, "every problem on GPUs, by definition")
/* clang-format on */

#define DECLARE(name, scope, about) extern const falt_solver falt_solver_##name;
SOLVERS(DECLARE)

#define ADDRESS(name, scope, about) &falt_solver_##name,
const falt_solver *const falt_solvers[] = {SOLVERS(ADDRESS) NULL};

#define NOTE(name, scope, about) {scope, about},
const falt_solver_note falt_solver_notes[] = {SOLVERS(NOTE){ALL, NULL}};

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
