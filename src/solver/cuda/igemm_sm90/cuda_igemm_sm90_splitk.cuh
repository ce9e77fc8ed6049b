// Cluster split-K of cuda_igemm_sm90.cu: CLUSTER_K blocks sum a part of the depth each. A block stages its accumulators
// in shared memory, TMA sends the slices of other blocks to them, and each block adds the sums of its own slice of rows
// in a fixed order and stores four channels at a time. Unsplit wgrad uses the same stores. Part of cuda_igemm_sm90.cu.

// Where a row's columns stand: those of four rows that a warp stores at a time lie in different banks.
__device__ inline unsigned column_place(int row, int column) {
  return column * 4 ^ row % 4 * 32;
}

// The address of a row of this block's sums: in its own slice, or in the staging area until TMA has sent it.
__device__ inline unsigned row_place(const Shared &s, int k_rank, int row) {
  const int block = row / SLICE;
  return block == k_rank ? s.part(k_rank, row % SLICE) : s.staged(block - (block > k_rank), row % SLICE);
}

__device__ inline void stage_sums(const Shared &s, int k_rank, int consumer, const Sums &sums) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
  for (int i = 0; i < BLOCKS; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = consumer * WG_ROWS + i * 64 + warp * 16 + half * 8 + lane / 4;
      const unsigned to = row_place(s, k_rank, row);
#pragma unroll
      for (int j = 0; j < COLUMNS / 8; j++)
        store_pair(to + column_place(row, j % 4 * 8 + lane % 4 * 2) + j / 4 * 128,
                   {sums[i][4 * j + 2 * half], sums[i][4 * j + 2 * half + 1]});
    }
}

// Sends a warp's staged rows to the blocks that finish them, eight rows a lane.
__device__ inline void send_staged(const Shared &s, int k_rank, int consumer) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const int row = consumer * WG_ROWS + lane / 2 * 64 + warp * 16 + lane % 2 * 8, block = row / SLICE;
  copy_fence();
  __syncwarp();
  if (OVER) barrier_wait(s.freed(), 0);
  if (lane < 2 * BLOCKS && block != k_rank)
    copy_to_block(at_block(s.part(k_rank, row % SLICE), block), row_place(s, k_rank, row), 8 * PITCH,
                  at_block(s.settled(), block));
  __syncwarp();
}

// A row's or a column's part of where four neighbouring channels begin, in outputs and in the residual; the two add up.
// `count`: how many of the column's channels exist, of a row whether it does.
struct Part {
  long long place, residual;
  int count;
};

__device__ inline Part row_part(const Args &a, const Polyphase &p, int row) {
  if (BY_FILTER) return {row * p.lines.stride[3], 0, row < a.rows};
  const int number = row < p.pixels ? pixel_of(a, row) : -1;
  if (number < 0) return {0, 0, 0};
  const Pixel at = pixel_at(p, number, true);
  return {place_of(p.lines, at), RESIDUAL ? place_of(a.residual_lines, at) : 0, 1};
}

__device__ inline Part column_part(const Args &a, const Polyphase &p, int column) {
  if (column >= a.columns) return {0, 0, 0};
  if (!BY_FILTER)
    return {column * p.lines.channel, RESIDUAL ? column * a.residual_lines.channel : 0, a.columns - column};
  const int columns = a.span_blocks * SPAN, channel = column % columns;
  long long place = channel * p.lines.channel;
  int tap = column / columns;
#pragma unroll
  for (int i = 0; i < AXES; i++) {
    place += tap % p.axis[2 - i].taps * p.lines.stride[i];
    tap /= p.axis[2 - i].taps;
  }
  return {place, 0, a.channels - channel};
}

__device__ inline float2 residual_pair(const Args &a, long long place) {
  const falt_cuda_lines &r = a.residual_lines;
  if (!RESIDUAL) return {};
  return {load<float>(r.data, TYPE_Y, place), load<float>(r.data, TYPE_Y, place + r.channel)};
}

__device__ inline void store_four(const falt_cuda_lines &to, long long place, int count, float2 low, float2 high) {
  const float v[4] = {low.x, low.y, high.x, high.y};
  if constexpr (PLANAR)
    for (int i = 0; i < 4 && i < count; i++) store<float>(to.data, TYPE_Y, place + i * to.channel, v[i]);
  else if constexpr (OUT_SIZE == 4)
    *(float4 *)((float *)to.data + place) = make_float4(v[0], v[1], v[2], v[3]);
  else
    *(uint2 *)((short *)to.data + place) = make_uint2(pack(low), pack(high));
}

// The sums of a line's four columns, of all blocks.
__device__ inline float4 slice_sum(const Shared &s, int line, int at) {
  float4 sum = {};
#pragma unroll
  for (int i = 0; i < CLUSTER_K; i++) {
    const float4 part = load_four(s.part(i, line) + column_place(line, at));
    sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
  }
  return sum;
}

// Finishes the same four columns of every n-th line in a thread.
struct Slice {
  static constexpr int FOURS = COLUMNS / 4, LINES_APART = 128 * CONSUMERS / FOURS;
  static constexpr int KNOWN = BY_FILTER ? 0 : SLICE / LINES_APART;  // lines whose address takes divisions
  static_assert(!SLICED || BY_FILTER || SLICE % LINES_APART == 0, "threads finish whole rounds of lines");
  Part along, down[KNOWN + 1];
};

__device__ inline Slice slice_of(const Args &a, const Polyphase &p, const Tile &tile, int k_rank) {
  Slice made = {column_part(a, p, tile.column + threadIdx.x % Slice::FOURS * 4)};
#pragma unroll
  for (int i = 0; i < Slice::KNOWN; i++)
    made.down[i] = row_part(a, p, tile.row + k_rank * SLICE + threadIdx.x / Slice::FOURS + i * Slice::LINES_APART);
  return made;
}

__device__ inline void finish_slice(const Args &a, const Polyphase &p, const Shared &s, const Tile &tile,
                                    const Slice &slice, int k_rank) {
  constexpr int lines = Slice::LINES_APART;
  const int first = threadIdx.x / Slice::FOURS, at = threadIdx.x % Slice::FOURS * 4, column = tile.column + at;
  const Part &along = slice.along;
  const float alpha = (float)a.epilogue.alpha, beta = BY_FILTER ? 0 : (float)a.epilogue.beta;
  const Columns low = columns_at(a, alpha, beta, column), high = columns_at(a, alpha, beta, column + 2);
  if (first >= lines || along.count <= 0) return;
#pragma unroll(Slice::KNOWN ? Slice::KNOWN : 2)
  for (int i = 0; i < (SLICE + lines - 1) / lines; i++) {
    const int line = first + i * lines;
    if (line >= SLICE) break;
    const Part down = Slice::KNOWN ? slice.down[i] : row_part(a, p, tile.row + k_rank * SLICE + line);
    if (!down.count) continue;
    const float4 sum = slice_sum(s, line, at);
    const long long residual = down.residual + along.residual;
    store_four(p.lines, down.place + along.place, along.count, finish(a, low, sum.x, sum.y, residual_pair(a, residual)),
               finish(a, high, sum.z, sum.w, residual_pair(a, residual + 2 * a.residual_lines.channel)));
  }
}

// Sums may overwrite the ring once this block has multiplied; other blocks may send theirs once they know it.
__device__ inline void leave_ring(const Shared &s) {
  warps_sync(1, 128 * CONSUMERS);
  if (CLUSTER_K > 1 && threadIdx.x < CLUSTER_K) barrier_arrive_at(s.freed(), threadIdx.x);
}

// The shared memory of other blocks may be written once all blocks have started. A block exits only after it has
// received all sums, and after other blocks have received its own.
__device__ inline void slice_sums(const Args &a, const Polyphase &p, const Shared &s, const Tile &tile,
                                  const Slice &slice, int k_rank, int consumer, const Sums &sums) {
  if (CLUSTER_K > 1) cluster_wait();
  if (OVER) leave_ring(s);
  stage_sums(s, k_rank, consumer, sums);
  if (CLUSTER_K > 1) send_staged(s, k_rank, consumer);
  warps_sync(1, 128 * CONSUMERS);
  if (CLUSTER_K > 1) {
    barrier_wait(s.settled(), 0);
    __syncwarp();
    cluster_arrive();
  }
  finish_slice(a, p, s, tile, slice, k_rank);
  __syncwarp();
  if (CLUSTER_K > 1) cluster_wait();
}
