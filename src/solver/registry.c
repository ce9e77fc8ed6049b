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
  ROW(separable, FILTERS | FORWARD, "filters of low rank, two passes in one walk")                                 \
  ROW(channels, LAYERS | FORWARD, "dense layers, vectors along output channels")                                   \
  ROW(pixels, LAYERS | FORWARD, "dense layers, vectors along positions")                                           \
  ROW(tiles, LAYERS | FORWARD, "dense layers of 8 and 16 bits, on matrix units where there are any")               \
  ROW(phases, ANY | DATA, "backward-data with a stride, as forward problems")                                      \
  ROW(outer, LAYERS | WEIGHTS, "backward-filter of dense layers")                                                  \
  ROW(outer_rows, LAYERS | WEIGHTS, "backward-filter of dense layers with adjacent channels")                      \
  ROW(outer_tiles, LAYERS | WEIGHTS, "backward-filter of dense bf16 layers, on matrix units where there are any")  \
  ROW(depthwise_block, DEPTHWISE | FORWARD | DATA,                                                                 \
      "depthwise layers of few taps and adjacent channels, block by block")                                        \
  ROW(block_filter, DEPTHWISE | WEIGHTS, "backward-filter of depthwise 3x3 layers, block by block")                \
  ROW(depthwise, FILTERS | DEPTHWISE | FORWARD | DATA,                                                             \
      "depthwise layers of adjacent channels, forward and backward-data")                                          \
  ROW(depthwise_filter, DEPTHWISE | WEIGHTS, "backward-filter of depthwise layers")                                \
  ROW(grouped, LAYERS | FORWARD | DATA, "layers of small groups of adjacent channels, forward and backward-data")  \
  ROW(grouped_filter, LAYERS | WEIGHTS, "backward-filter of layers of small groups")                               \
  ROW(fold, DEPTHWISE | LAYERS | DATA, "backward-data of few channels, a period of pixels as one")                             \
  ROW(fold_results, LAYERS | FORWARD, "layers of few output channels, a period of pixels as one")                  \
  ROW(overlap, LAYERS | DATA, "backward-data of few channels, rows of taps as columns")                            \
  ROW(lines, LAYERS | WEIGHTS, "backward-filter of few input channels, along lines")                               \
  ROW(pooling, POOLING, "pooling and its gradients, axis by axis")                                                 \
  ROW(pooled, POOLED | FORWARD, "layers with their max pooling, band by band")                                     \
  ROW(widened, LAYERS | DEPTHWISE | FORWARD | DATA | WEIGHTS,                                                      \
      "layers of narrow types, converted to f32 piece by piece")                                                   \
  ROW(im2col, LAYERS | FORWARD | DATA | WEIGHTS, "layers by patches and BLAS; only by name")                       \
  ROW(generic, ALL, "every problem, at a bearable speed")                                                          \
  ROW(reference, ALL, "every problem, by definition")                                                              \
  ROW(cuda_banded, FILTERS | FORWARD, "filters on tensor cores")                                                   \
  ROW(cuda_sweep, FILTERS | FORWARD, "filters that sweep along planes or rows")                                    \
  ROW(cuda_row, FILTERS | FORWARD, "filters along rows, parts of rows in shared memory")                           \
  ROW(cuda_direct, FILTERS | FORWARD, "filters, register tiles")                                                   \
  ROW(cuda_separable, FILTERS | FORWARD, "filters of low rank, register tiles")                                    \
  ROW(cuda_march, FILTERS | FORWARD, "filters of low rank, down the columns of images")                            \
  ROW(cuda_sweep_terms, FILTERS | FORWARD, "filters of low rank, swept along the planes")                          \
  ROW(cuda_blocked, FILTERS | DEPTHWISE | FORWARD, "filters of many taps, tiles in shared memory")                 \
  ROW(cuda_layer, ANY | FORWARD, "layers of few channels, with their max pooling")                                 \
  ROW(cuda_pooled, POOLED | FORWARD, "layers, then their max pooling")                                             \
  ROW(cuda_pooling, POOLING, "pooling and its gradients")                                                          \
  ROW(cuda_wgmma, FILTERS | LAYERS | FORWARD | DATA | WEIGHTS, "dense layers of f16 and bf16 with wgmma")                    \
  ROW(cuda_first, FILTERS | LAYERS | FORWARD, "layers of few input channels, each row read once for all taps")               \
  ROW(cuda_first_filter, DEPTHWISE | LAYERS | WEIGHTS, "backward-filter of few input channels")                                \
  ROW(cuda_strips, FILTERS | LAYERS | FORWARD, "layers of few input channels in planar order, rows read into registers")     \
  ROW(cuda_planes, FILTERS | LAYERS | FORWARD | DATA, "dense f16 and bf16 layers, each window read once for all taps")       \
  ROW(cuda_planes_filter, LAYERS | WEIGHTS, "backward-filter of dense f16 and bf16 layers, each window read once") \
  ROW(cuda_planar_filter, LAYERS | WEIGHTS, "backward-filter of f16 and bf16 layers in planar order")              \
  ROW(cuda_passes, FILTERS | FORWARD, "tall filters of rank one, pass by pass")                                    \
  ROW(cuda_patches, DEPTHWISE | LAYERS | FORWARD | WEIGHTS, "layers of adjacent patches, as layers of one column of taps")     \
  ROW(cuda_turned, LAYERS | DEPTHWISE | FORWARD | DATA | WEIGHTS,                                                  \
      "layers in planar order, turned for the other solvers")                                                      \
  ROW(cuda_depthwise_filter, DEPTHWISE | WEIGHTS, "backward-filter of depthwise layers")                           \
  ROW(cuda_depthwise_bands_filter, DEPTHWISE | WEIGHTS,                                                            \
      "backward-filter of depthwise layers of many taps, on tensor cores")                                         \
  ROW(cuda_depthwise_bands, FILTERS | DEPTHWISE | FORWARD | DATA, "depthwise layers of many taps, on tensor cores")          \
  ROW(cuda_depthwise, FILTERS | DEPTHWISE | FORWARD | DATA, "depthwise layers, forward and backward-data")                   \
  ROW(cuda_gemm, ANY | FORWARD | DATA, "layers forward and backward-data, on tensor cores")                        \
  ROW(cuda_grouped, LAYERS | FORWARD | DATA, "layers of small groups, each window read once for all taps")         \
  ROW(cuda_gemm_filter, ANY | WEIGHTS, "backward-filter of layers, on tensor cores")                               \
  ROW(cuda_window, DEPTHWISE | LAYERS | WEIGHTS, "backward-filter of few channels, each window read once for all taps")        \
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
