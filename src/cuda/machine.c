/* The table of GPU architectures. */
#include "cuda/machine.h"

#include "core/memory.h"

/* Shared memory: CUDA C++ Programming Guide, technical specifications per compute capability ("maximum amount of shared
 * memory per thread block"). sm_70 allows 96 KB; kernels use 64 KB, as on sm_75. Rates and registers are fitted: rates
 * of sm_90 to timings on an H200 (docs/internals/cost-model.md), registers to compiled kernels. Rates of other
 * architectures are estimates. Graphics GPUs accumulate f16 in f32 at half the rate, and have two f64 units. */

#define KB(count) ((count)*1024)

/* major, minor; shared memory; async, wgmma; rates of mma.sync: bytes, of doubles, products; registers */
const falt_architecture falt_architectures[FALT_ARCHITECTURES] = {
    [FALT_SM_70] = {7, 0, KB(64), false, false, 950, 16, 0.25, 12, 36},
    [FALT_SM_75] = {7, 5, KB(64), false, false, 950, 16, 0.25, 12, 36},
    [FALT_SM_80] = {8, 0, KB(163), true, false, 1900, 700, 0.4, 12, 36},
    [FALT_SM_86] = {8, 6, KB(99), true, false, 950, 16, 0.4, 12, 36},
    [FALT_SM_87] = {8, 7, KB(163), true, false, 1900, 16, 0.4, 12, 36},
    [FALT_SM_89] = {8, 9, KB(99), true, false, 950, 16, 0.4, 12, 36},
    [FALT_SM_90] = {9, 0, KB(227), true, true, 2400, 700, 0.6, 0, 0},
    [FALT_SM_100] = {10, 0, KB(227), true, false, 1900, 700, 0.25, 12, 40},
    [FALT_SM_103] = {10, 3, KB(227), true, false, 1900, 16, 0.25, 12, 40},
    [FALT_SM_110] = {11, 0, KB(227), true, false, 950, 16, 0.25, 12, 40},
    [FALT_SM_120] = {12, 0, KB(99), true, false, 950, 16, 0.25, 12, 40},
};

const falt_architecture *falt_architecture_of(int major, int minor) {
  const falt_architecture *best = falt_architectures;
  for (int i = 1; i < FALT_ARCHITECTURES; i++) {
    const falt_architecture *a = &falt_architectures[i];
    if (a->major < major || (a->major == major && a->minor <= minor)) best = a;
  }
  return best;
}

double falt_mma_bytes(const falt_machine *m, int element_bytes) {
  return element_bytes == 8 ? m->arch->mma_f64_bytes : m->arch->mma_bytes;
}

int64_t falt_blocks_by_registers(int64_t threads, int64_t registers) {
  return FALT_REGISTERS / (threads * falt_round_up(registers, 8));
}

int64_t falt_blocks_by_quarters(int64_t warps, int64_t registers) {
  return 4 * (FALT_REGISTERS / 4 / (FALT_WARP * falt_round_up(registers, 8))) / warps;
}

int64_t falt_blocks_by_shared(const falt_machine *m, int64_t shared_bytes) {
  return (m->arch->block_shared + FALT_BLOCK_RESERVED) / (shared_bytes + FALT_BLOCK_RESERVED);
}
