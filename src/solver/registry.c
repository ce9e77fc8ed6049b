/* The only list of solvers. Adding an algorithm adds its file, its declaration and one line here. */
#include "planner/planner.h"

extern const falt_solver falt_solver_block_filter;
extern const falt_solver falt_solver_channels;
extern const falt_solver falt_solver_cuda_banded;
extern const falt_solver falt_solver_cuda_blocked;
extern const falt_solver falt_solver_cuda_depthwise;
extern const falt_solver falt_solver_cuda_depthwise_bands;
extern const falt_solver falt_solver_cuda_depthwise_bands_filter;
extern const falt_solver falt_solver_cuda_depthwise_filter;
extern const falt_solver falt_solver_cuda_direct;
extern const falt_solver falt_solver_cuda_first;
extern const falt_solver falt_solver_cuda_first_filter;
extern const falt_solver falt_solver_cuda_gemm;
extern const falt_solver falt_solver_cuda_gemm_filter;
extern const falt_solver falt_solver_cuda_generic;
extern const falt_solver falt_solver_cuda_grouped;
extern const falt_solver falt_solver_cuda_im2col;
extern const falt_solver falt_solver_cuda_layer;
extern const falt_solver falt_solver_cuda_march;
extern const falt_solver falt_solver_cuda_passes;
extern const falt_solver falt_solver_cuda_patches;
extern const falt_solver falt_solver_cuda_planes;
extern const falt_solver falt_solver_cuda_planes_filter;
extern const falt_solver falt_solver_cuda_planar_filter;
extern const falt_solver falt_solver_cuda_pooled;
extern const falt_solver falt_solver_cuda_pooling;
extern const falt_solver falt_solver_cuda_row;
extern const falt_solver falt_solver_cuda_separable;
extern const falt_solver falt_solver_cuda_strips;
extern const falt_solver falt_solver_cuda_sweep;
extern const falt_solver falt_solver_cuda_sweep_terms;
extern const falt_solver falt_solver_cuda_turned;
extern const falt_solver falt_solver_cuda_wgmma;
extern const falt_solver falt_solver_cuda_window;
extern const falt_solver falt_solver_cudnn;
extern const falt_solver falt_solver_depthwise;
extern const falt_solver falt_solver_depthwise_block;
extern const falt_solver falt_solver_depthwise_filter;
extern const falt_solver falt_solver_direct;
extern const falt_solver falt_solver_fold;
extern const falt_solver falt_solver_fold_results;
extern const falt_solver falt_solver_generic;
extern const falt_solver falt_solver_grouped;
extern const falt_solver falt_solver_grouped_filter;
extern const falt_solver falt_solver_im2col;
extern const falt_solver falt_solver_lines;
extern const falt_solver falt_solver_outer;
extern const falt_solver falt_solver_outer_rows;
extern const falt_solver falt_solver_outer_tiles;
extern const falt_solver falt_solver_overlap;
extern const falt_solver falt_solver_phases;
extern const falt_solver falt_solver_pixels;
extern const falt_solver falt_solver_pooled;
extern const falt_solver falt_solver_pooling;
extern const falt_solver falt_solver_reference;
extern const falt_solver falt_solver_separable;
extern const falt_solver falt_solver_tiles;
extern const falt_solver falt_solver_widened;

const falt_solver *const falt_solvers[] = {
    &falt_solver_direct,           /* filters, register tiles over rows */
    &falt_solver_separable,        /* filters of low rank, two passes in one walk */
    &falt_solver_channels,         /* dense layers, vectors along output channels */
    &falt_solver_pixels,           /* dense layers, vectors along positions */
    &falt_solver_tiles,            /* dense layers of 8 and 16 bits, matrix units where there are */
    &falt_solver_phases,           /* gradients of inputs, as forward problems */
    &falt_solver_outer,            /* gradients of dense layers' filters */
    &falt_solver_outer_rows,       /* those of adjacent channels, rows of the gradient where they lie */
    &falt_solver_outer_tiles,      /* those of bf16, matrix units where there are */
    &falt_solver_depthwise_block,  /* depthwise layers of few taps and adjacent channels, block by block */
    &falt_solver_block_filter,     /* their gradient by the filter, of 3x3 taps */
    &falt_solver_depthwise,        /* depthwise layers of adjacent channels, and their gradient by the data */
    &falt_solver_depthwise_filter, /* their gradient by the filter */
    &falt_solver_grouped,          /* layers of small groups of adjacent channels, and their gradient by the data */
    &falt_solver_grouped_filter,   /* their gradient by the filter */
    &falt_solver_fold,             /* gradients of inputs of few channels, a period of pixels as one */
    &falt_solver_fold_results,     /* layers of few output channels, the same */
    &falt_solver_overlap,          /* gradients of inputs of few channels, rows of taps as columns */
    &falt_solver_lines,            /* gradients of filters of few input channels, along lines */
    &falt_solver_pooling,          /* pooling and its gradients, axis by axis */
    &falt_solver_pooled,           /* layers and their max pooling, band by band */
    &falt_solver_widened,          /* layers of narrow types in f32, piece by piece in a cache */
    &falt_solver_im2col,           /* layers by patches and BLAS; only by name */
    &falt_solver_generic,          /* everything, at a bearable speed */
    &falt_solver_reference,        /* everything, by definition */
    &falt_solver_cuda_banded,      /* filters on tensor cores */
    &falt_solver_cuda_sweep,       /* filters on GPUs, sweeps along planes or rows */
    &falt_solver_cuda_row,         /* filters along rows on GPUs, parts of rows in shared memory */
    &falt_solver_cuda_direct,      /* filters on GPUs, register tiles */
    &falt_solver_cuda_separable,   /* filters of low rank on GPUs, the same tiles */
    &falt_solver_cuda_march,       /* or marches down the columns of images */
    &falt_solver_cuda_sweep_terms, /* and swept along the planes */
    &falt_solver_cuda_blocked,     /* filters of many taps on GPUs, tiles in shared memory */
    &falt_solver_cuda_layer,       /* layers of few channels on GPUs, with their max pooling */
    &falt_solver_cuda_pooled,      /* layers and their max pooling on GPUs, one after the other */
    &falt_solver_cuda_pooling,     /* pooling and its gradients on GPUs */
    &falt_solver_cuda_wgmma,       /* dense layers of 16-bit floats on GPUs with wgmma */
    &falt_solver_cuda_first,       /* layers of few input channels, each row read once for all taps */
    &falt_solver_cuda_first_filter,
    &falt_solver_cuda_strips, /* those whose columns lie side by side, rows read into registers */
    &falt_solver_cuda_planes, /* those of few channels, each window read once for all taps */
    &falt_solver_cuda_planes_filter,
    &falt_solver_cuda_planar_filter,
    &falt_solver_cuda_passes,  /* tall filters of rank one on GPUs, pass by pass */
    &falt_solver_cuda_patches, /* layers of patches side by side, seen as layers of one column of taps */
    &falt_solver_cuda_turned,  /* layers in planar order, turned for those above and below */
    &falt_solver_cuda_depthwise_filter,
    &falt_solver_cuda_depthwise_bands_filter,
    &falt_solver_cuda_depthwise_bands, /* those of many taps on tensor cores */
    &falt_solver_cuda_depthwise,       /* depthwise layers on GPUs, and above: gradients of their filters */
    &falt_solver_cuda_gemm,            /* layers and their gradients on tensor cores */
    &falt_solver_cuda_grouped,         /* those of small groups, each window read once for all taps */
    &falt_solver_cuda_gemm_filter,     /* gradients of layers' filters on tensor cores */
    &falt_solver_cuda_window,          /* those of few channels, each window read once for all taps */
    &falt_solver_cuda_im2col,          /* layers by patches and cuBLAS; only by name */
    &falt_solver_cudnn,                /* layers and their gradients by NVIDIA's library; only by name */
    &falt_solver_cuda_generic,         /* everything on GPUs, by definition */
    NULL,
};
