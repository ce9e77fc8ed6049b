/* The ladder: one filter or network layer in steps from the definition to the planner's choice, each short enough to
 * read in a minute. The library does not use it; the command runs, checks and times each step. */
#ifndef FALT_LADDER_LADDER_H
#define FALT_LADDER_LADDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "faltung/faltung.h"

/* f32, correlation. A filter: "same" size, anchor K/2, zero beyond the edges; 1D and 2D are 3D with sizes of one. A
 * layer: dense n c h w, one group, then ReLU and 2 x 2 max pooling. A new step is a line in a table, and a function
 * (CPU) or a kernel with the function that launches it (GPU). */

typedef struct ladder_gpu ladder_gpu;

typedef struct ladder_task {
  /* a filter */
  int64_t size[3];    /* depth, height, width; of a layer's images too */
  int64_t taps[3];    /* of the filter, in the same order */
  int64_t channels;   /* interleaved in an image (the CPU's steps know 1); summed over in a layer */
  int64_t pitch;      /* elements from row to row of a filter's x and y; the CPU's steps know the width */
  const float *x, *w; /* dense but for the pitch */
  float *y;
  /* a layer, too */
  int64_t images, filters;
  int64_t stride[2], pad[2]; /* height, width; pad before */
  int64_t out[2], pooled[2]; /* height and width of the convolution's results, of the pooled */
  float *between;            /* room for the results between convolution, ReLU and pooling */
  /* where */
  int threads;            /* of the CPU's steps that use several */
  ladder_gpu *gpu;        /* the GPU that x, w, y and between lie on, */
  const float *host_taps; /* and w in the host's memory: taps may travel as an argument */
} ladder_task;

/* The cost of a step, as the textbook counts it. */
typedef struct ladder_counts {
  double operations_per_byte; /* of the step's reads, if every read that it does not avoid went to memory */
  double reads_saved;         /* by tiles: times fewer than one read a product; 1 without */
  double operations;          /* of the whole step, where it does not make the definition's; else 0 */
  int64_t blocks;             /* of a GPU's (last) kernel; 0 on the CPU */
  int block_threads, shared_bytes;
} ladder_counts;

struct ladder_kernel;

typedef struct ladder_step {
  const char *name;
  const char *idea;                                    /* the change from the previous step, in short */
  const char *book;                                    /* section and figure of the textbook; NULL: not in it */
  double (*bytes_per_output)(const ladder_task *task); /* CPU, transforms: bytes read for an output, as counted above */
  double (*operations_per_output)(const ladder_task *task); /* NULL: those of the definition */
  void (*run)(const ladder_task *task);                     /* CPU */
  const struct ladder_kernel *kernel[3];                    /* GPU: started one after another; NULL: no more */
  const char *(*missing)(const ladder_task *task); /* CPU: why the machine cannot run it, or NULL; NULL: it can */
  const char *solver;                              /* instead of kernels: a solver of the library, by name */
} ladder_step;

/* Each ends with a NULL name. Steps by solvers are the command's to run, and the planner's own its to add. The sections
 * are those of Hwu, Kirk, El Hajj: Programming Massively Parallel Processors, 4th edition, 2022. */
extern const ladder_step ladder_cpu[];
extern const ladder_step ladder_cpu_layer[];                              /* to the convolution's results */
extern const ladder_step ladder_cpu_pooled[];                             /* to the pooled ones */
extern const ladder_step ladder_cpu_fft[], ladder_cuda_fft[];             /* a signal by transforms */
extern const ladder_step ladder_cpu_fft_image[], ladder_cuda_fft_image[]; /* an image by transforms */
extern const ladder_step ladder_cuda_signal[], ladder_cuda_image[], ladder_cuda_volume[];
extern const ladder_step ladder_cuda_layer[], ladder_cuda_pooled[];

/* One ladder: its steps for one device. */
typedef struct ladder_track {
  const char *names; /* that the command knows it by: "1d 2d 3d" */
  bool on_gpu;
  const ladder_step *steps;
  const char *file; /* of the CPU's steps; a kernel knows its own */
} ladder_track;

extern const ladder_track ladder_tracks[]; /* ends with NULL names */

/* The file of a step's source within ladder/; NULL for a step that a solver of the library runs. */
const char *ladder_source_name(const ladder_track *track, const ladder_step *step);
/* Prints that file without the code of its other steps. */
void ladder_print_source(FILE *file, const ladder_track *track, const ladder_step *step);

/* The GPU of that number, for memory of its primary context. */
falt_status ladder_gpu_open(ladder_gpu **gpu, int ordinal);
void ladder_gpu_close(ladder_gpu *gpu);

/* The reason that a step cannot compute the task, or NULL and the step's cost. */
const char *ladder_refusal(const ladder_step *step, const ladder_task *task, ladder_counts *counts);
/* Runs a step repeatedly for about a number of seconds, at least once; returns the shortest time of a run. */
falt_status ladder_time(const ladder_step *step, const ladder_task *task, double seconds, double *least);

/* Bytes of `between` that the GPU's steps by transforms need; 0: they cannot compute the task. */
size_t ladder_fft_bytes(const ladder_task *task);

/* Operations of the whole task: multiply-adds as two. */
double ladder_operations(const ladder_task *task, bool is_layer);

/* The larger of two differences; NaN is larger than any. */
double ladder_worse(double a, double b);
/* Largest difference of results y in the host's memory from sums in f64 at some positions, corners and edges among
 * them, relative to the largest sum. Filters: y has the task's pitch. */
double ladder_check_filter(const ladder_task *task, const float *x, const float *y);
double ladder_check_layer(const ladder_task *task, const float *x, const float *y, bool pooled);

/* Distributes items [0, count) over the task's threads in equal parts. */
void ladder_share(const ladder_task *task, int64_t count,
                  void (*run)(const ladder_task *task, int64_t begin, int64_t end));

#endif
