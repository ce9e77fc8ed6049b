// Measures the MMA rate of the tensor cores, f16 with f32 accumulators: chains of 16x8x16 products in registers.

// Compile-time parameters:
//   ROUNDS    products of a chain
//   CHAINS    chains of a warp

static __device__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two halves from 0.5 to 1 with bits that differ from thread to thread, for equal ones need less power.
static __device__ unsigned halves(unsigned i) {
  const unsigned bits = (threadIdx.x * 6 + i) * 2654435761u;
  return (bits >> 3 & 0x03ff03ffu) | 0x38003800u;
}

extern "C" __global__ void __launch_bounds__(256) falt_rate(float *never, float scale, float step) {
  unsigned a[4], b[2];
  float d[CHAINS][4], sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) a[i] = halves(i);
#pragma unroll
  for (int i = 0; i < 2; i++) b[i] = halves(4 + i);
#pragma unroll
  for (int i = 0; i < CHAINS; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) d[i][j] = scale * (i + j) + step;
#pragma unroll 8
  for (int round = 0; round < ROUNDS; round++) {
#pragma unroll
    for (int i = 0; i < CHAINS; i++) multiply(d[i], a, b);
  }
#pragma unroll
  for (int i = 0; i < CHAINS; i++) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
  if (sum < 0) *never = sum;  // the compiler cannot know that no chain becomes negative
}
