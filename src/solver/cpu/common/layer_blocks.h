/* The blocks of rows x vectors of accumulators that kernels of layers and of wgrad are compiled for. Each has up to as
 * many rows as the register file holds; X(rows, vectors) defines one. */
#ifndef FALT_SOLVER_CPU_COMMON_LAYER_BLOCKS_H
#define FALT_SOLVER_CPU_COMMON_LAYER_BLOCKS_H

#define FALT_LAYER_BLOCKS_1(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1)
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
#define FALT_LAYER_BLOCKS_2(X) X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2)
#define FALT_LAYER_BLOCKS_3(X) X(1, 3) X(2, 3) X(3, 3) X(4, 3) X(5, 3) X(6, 3) X(7, 3) X(8, 3)
#define FALT_LAYER_BLOCKS_4(X) X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 4) X(6, 4)
#else
#define FALT_LAYER_BLOCKS_2(X) X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2)
#define FALT_LAYER_BLOCKS_3(X) X(1, 3) X(2, 3) X(3, 3) X(4, 3)
#define FALT_LAYER_BLOCKS_4(X)
#endif
#define FALT_LAYER_BLOCKS(X) FALT_LAYER_BLOCKS_1(X) FALT_LAYER_BLOCKS_2(X) FALT_LAYER_BLOCKS_3(X) FALT_LAYER_BLOCKS_4(X)

/* An element of a table of functions block_ROWS_VECTORS, which is indexed by vectors - 1 and rows - 1. */
#define FALT_LAYER_BLOCK_AT(rows, vectors) [vectors - 1][rows - 1] = block_##rows##_##vectors,

#endif
