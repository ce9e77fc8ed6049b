/* Which transform kernels serve an instruction set. */
#include "solver/cpu/fft/fft_kernels.h"

#include "cpu/isa_table.h"

FALT_ISA_TABLE(falt_fft_lane, falt_fft_f32, FALT_ISA_VECTORS)
FALT_ISA_TABLE(falt_fft_lane, falt_fft_f64, FALT_ISA_VECTORS)

const falt_fft_lane *falt_fft_lane_for(falt_isa isa, size_t element) {
  return element == sizeof(float) ? falt_fft_f32_for(isa) : falt_fft_f64_for(isa);
}
