/* The machine model of GPUs for solvers and tile searches: the table of architectures, and the facts of one device. */
#ifndef FALT_CUDA_MACHINE_H
#define FALT_CUDA_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* One architecture; src/cuda/machine.c has the sources of the numbers. */
typedef struct falt_architecture {
  int major, minor;
  int block_shared;       /* bytes of shared memory that a block may have */
  bool async;             /* has cp.async, and mma.sync for bf16 and f64 */
  bool wgmma;             /* has wgmma, and TMA that feeds it */
  double mma_bytes;       /* bytes of depth times results that a multiprocessor multiplies in a cycle by mma.sync */
  double mma_f64_bytes;   /* the same for doubles */
  double mma_starts;      /* products of 16 x 8 x 32 bytes that a multiprocessor starts in a cycle */
  int toeplitz_registers; /* of a thread, that the compiler needs more than for sm_90: Toeplitz products, */
  int registers_25d;      /* 2.5D blocking */
} falt_architecture;

/* Rows of the table. */
enum {
  FALT_SM_70,
  FALT_SM_75,
  FALT_SM_80,
  FALT_SM_86,
  FALT_SM_87,
  FALT_SM_89,
  FALT_SM_90,
  FALT_SM_100,
  FALT_SM_103,
  FALT_SM_110,
  FALT_SM_120,
  FALT_ARCHITECTURES
};
extern const falt_architecture falt_architectures[FALT_ARCHITECTURES];

/* The row of the newest architecture that is not newer than this one. */
const falt_architecture *falt_architecture_of(int major, int minor);

/* One device: the vendor's or the driver's numbers, and rates as measured or estimated (falt_limits). */
typedef struct falt_machine {
  const falt_architecture *arch;
  int multiprocessors;
  double bytes_per_s;       /* of a copy, read and written */
  double flops, wide_flops; /* a second, in f32 and f64 of the whole GPU; a multiply-add counts as two */
  double clock_hz;          /* cycles a second */
  double cache_bytes;       /* of the second-level cache */
} falt_machine;

/* Facts of all architectures in the table (CUDA C++ Programming Guide, technical specifications). */
enum {
  FALT_WARP = 32,
  FALT_REGISTERS = 65536,    /* of a multiprocessor, a quarter of them for each of its four parts */
  FALT_BLOCK_RESERVED = 1024 /* bytes of shared memory that the driver takes of each block */
};

/* Bytes of depth times outputs that a multiprocessor multiplies in a cycle, by bytes of an element. */
double falt_mma_bytes(const falt_machine *machine, int element_bytes);

/* Blocks that fit on a multiprocessor by their registers: with one register file for all blocks, or with one for each
 * of its four parts. `registers` is the number per thread. */
int64_t falt_blocks_by_registers(int64_t threads, int64_t registers);
int64_t falt_blocks_by_quarters(int64_t warps, int64_t registers);
/* Blocks that fit on a multiprocessor by their shared memory. */
int64_t falt_blocks_by_shared(const falt_machine *machine, int64_t shared_bytes);

#endif
