// Measures the multiply-add rate of the multiprocessors: chains of multiply-adds in registers. A thread has enough
// chains to hide the latency of one, a block enough threads to fill the schedulers.

// Compile-time parameters:
//   REAL      float or double
//   ROUNDS    multiply-adds of a chain
//   CHAINS    chains of a thread

extern "C" __global__ void __launch_bounds__(256) falt_rate(REAL *never, REAL scale, REAL step) {
  REAL x[CHAINS], sum = 0;
#pragma unroll
  for (int i = 0; i < CHAINS; i++) x[i] = REAL(threadIdx.x + i);
#pragma unroll 32
  for (int round = 0; round < ROUNDS; round++) {
#pragma unroll
    for (int i = 0; i < CHAINS; i++) x[i] = x[i] * scale + step;
  }
#pragma unroll
  for (int i = 0; i < CHAINS; i++) sum += x[i];
  if (sum < 0) *never = sum;  // the compiler cannot know that no chain becomes negative
}
