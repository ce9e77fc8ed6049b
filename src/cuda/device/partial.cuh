// Blocked summation: in one chain of n roundings equal terms drift by up to n/4 units in the last place; in blocks the
// drift is that of a block and of the number of blocks. N. Higham, "The accuracy of floating point summation", 1993.
#pragma once

constexpr int CHAIN = 512, BLOCK_TERMS = 32;

// Whether blocked summation pays for a number of terms: a tap row costs one addition more and a chain that others wait
// for, a fifth of the time of an execution with 15x15 or 7x7x7 taps on an H100.
template <typename T>
__device__ constexpr bool in_blocks(long long terms, int chain = CHAIN) {
  return sizeof(T) == 4 && terms > chain;
}

// Adds COUNT terms to each of V sums; SPLIT: as blocks. add(part, i) adds term i to V partial sums.
template <bool SPLIT, int COUNT, int V, typename T, typename ADD>
__device__ inline void add_terms(T *sum, const ADD &add) {
  constexpr int block = SPLIT ? BLOCK_TERMS : COUNT;
#pragma unroll
  for (int first = 0; first < COUNT; first += block) {
    T part[V];
#pragma unroll
    for (int v = 0; v < V; v++) part[v] = SPLIT ? (T)0 : sum[v];
#pragma unroll
    for (int i = first; i < first + block; i++)
      if (i < COUNT) add(part, i);
#pragma unroll
    for (int v = 0; v < V; v++) sum[v] = SPLIT ? sum[v] + part[v] : part[v];
  }
}
