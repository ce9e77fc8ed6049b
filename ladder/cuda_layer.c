/* The GPU steps for a network layer: kernels and blocks. */
#include "ladder/cuda.h"

enum { D, H, W };
enum { MOST_SIDE = 16, LAYER_FILTERS = 16, FUSED_FILTERS = 8 };

static int64_t ceil_of(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* Inputs along an axis for a tile of outputs. */
static int64_t reach(const ladder_task *k, int axis, int64_t outputs) {
  return (outputs - 1) * k->stride[axis] + k->taps[H + axis];
}

/* Shared memory of a launch: an input tile of a channel, and taps of some filters. */
typedef struct sharing {
  int64_t out[2];    /* outputs that tiles cover, in threads */
  int each, filters; /* outputs along a side of one thread; filters of one block */
  bool tile, taps;
} sharing;

static int64_t shared_bytes(const ladder_task *k, const sharing *s, const int side[2]) {
  const int64_t tile = reach(k, 0, side[0] * s->each) * reach(k, 1, side[1] * s->each);
  return 4 * ((s->tile ? tile : 0) + (s->taps ? k->taps[H] * k->taps[W] * s->filters : 0));
}

static void fill_defines(const ladder_task *k, ladder_launch *l, const int side[2], int filters) {
  for (int a = 0; a < 2; a++) {
    falt_cuda_define(&l->kernel, "TAPS_%c=%d", "RS"[a], (int)k -> taps[H + a]);
    falt_cuda_define(&l->kernel, "STRIDE_%c=%d", "HW"[a], (int)k -> stride[a]);
    falt_cuda_define(&l->kernel, "PAD_%c=%d", "HW"[a], (int)k -> pad[a]);
    falt_cuda_define(&l->kernel, "TILE_%c=%d", "HW"[a], side[a]);
  }
  falt_cuda_define(&l->kernel, "FILTERS=%d", filters);
}

/* Equal tiles, none above 16 a side, so that 28 are two of 14; as few as shared memory allows. */
static const char *shape_layer(const ladder_task *k, ladder_launch *l, const sharing *s) {
  enum { MOST_SHARED = 48 << 10 };
  int side[2];
  int64_t more = 0;
  do {
    for (int a = 0; a < 2; a++) {
      const int64_t parts = ceil_of(s->out[a], MOST_SIDE) + more;
      side[a] = (int)ceil_of(s->out[a], parts < s->out[a] ? parts : s->out[a]);
    }
    more++;
  } while (shared_bytes(k, s, side) > MOST_SHARED && (side[0] > 1 || side[1] > 1));
  l->shared_bytes = shared_bytes(k, s, side);
  l->threads[0] = side[1];
  l->threads[1] = side[0];
  l->blocks[0] = k->images * ceil_of(k->filters, s->filters);
  l->blocks[1] = ceil_of(s->out[0], side[0]);
  l->blocks[2] = ceil_of(s->out[1], side[1]);
  if (s->tile) {
    l->tile_inputs = (double)(reach(k, 0, side[0] * s->each) * reach(k, 1, side[1] * s->each));
    l->tile_outputs = (double)(side[0] * side[1] * s->each * s->each * s->filters);
  }
  fill_defines(k, l, side, s->taps ? s->filters : LAYER_FILTERS);
  return NULL;
}

static const char *shape_direct(const ladder_task *k, ladder_launch *l) {
  return shape_layer(k, l, &(sharing){{k->out[0], k->out[1]}, 1, 1, false, false});
}

static const char *shape_shared(const ladder_task *k, ladder_launch *l) {
  return shape_layer(k, l, &(sharing){{k->out[0], k->out[1]}, 1, 1, true, false});
}

static const char *shape_channels(const ladder_task *k, ladder_launch *l) {
  return shape_layer(k, l, &(sharing){{k->out[0], k->out[1]}, 1, LAYER_FILTERS, true, true});
}

/* Blocks of 64 filters by 64 results, each thread 4 x 4: a step of the depth reads 64 + 64 and multiplies 64 * 64. */
static const char *shape_implicit(const ladder_task *k, ladder_launch *l) {
  const int side[2] = {MOST_SIDE, MOST_SIDE}, all = LADDER_PRODUCT_SIDE;
  l->threads[0] = l->threads[1] = MOST_SIDE;
  l->blocks[0] = ceil_of(k->images * k->out[0] * k->out[1], all);
  l->blocks[1] = ceil_of(k->filters, all);
  l->shared_bytes = 4 * 16 * (2 * all + 1);
  l->tile_inputs = (double)(k->taps[H] * k->taps[W] * 2 * all);
  l->tile_outputs = (double)(all * all);
  fill_defines(k, l, side, LAYER_FILTERS);
  return NULL;
}

static const char *shape_fused(const ladder_task *k, ladder_launch *l) {
  return shape_layer(k, l, &(sharing){{k->pooled[0], k->pooled[1]}, 2, FUSED_FILTERS, true, true});
}

static const char *shape_pool(const ladder_task *k, ladder_launch *l) {
  return shape_layer(k, l, &(sharing){{k->pooled[0], k->pooled[1]}, 1, 1, false, false});
}

static const char *shape_relu(const ladder_task *k, ladder_launch *l) {
  enum { THREADS = 256 };
  static const int side[2] = {1, THREADS};
  l->threads[0] = THREADS;
  l->blocks[0] = ceil_of(k->images * k->filters * k->out[0] * k->out[1], THREADS);
  fill_defines(k, l, side, LAYER_FILTERS);
  return NULL;
}

static const ladder_kernel direct = {"layer.cu", "layer_direct", 1, shape_direct, false, true, LADDER_X_TO_Y},
                           shared = {"layer.cu", "layer_shared", 2, shape_shared, false, true, LADDER_X_TO_Y},
                           channels = {"layer.cu", "layer_channels", 3, shape_channels, false, true, LADDER_X_TO_Y},
                           implicit = {"layer.cu", "layer_implicit", 4, shape_implicit, false, true, LADDER_X_TO_Y},
                           direct_first = {"layer.cu", "layer_direct",     1, shape_direct, false,
                                           true,       LADDER_X_TO_BETWEEN},
                           channels_first = {"layer.cu", "layer_channels",   3, shape_channels, false,
                                             true,       LADDER_X_TO_BETWEEN},
                           relu = {"layer.cu", "layer_relu", 5, shape_relu, false, true, LADDER_BETWEEN},
                           pool = {"layer.cu", "layer_pool", 6, shape_pool, false, true, LADDER_BETWEEN_TO_Y},
                           fused = {"layer.cu", "layer_fused", 7, shape_fused, false, true, LADDER_X_TO_Y};

const ladder_step ladder_cuda_layer[] = {
    {.name = "direct", .idea = "the definition: a thread an output", .book = "16.3", .kernel = {&direct}},
    {.name = "shared", .idea = "an input tile with its halo in shared memory", .book = "16.3", .kernel = {&shared}},
    {.name = "channels", .idea = "a tile serves 16 output channels at once", .kernel = {&channels}},
    {.name = "im2col", .idea = "patches as a matrix, multiplied by cuBLAS", .book = "16.4", .solver = "cuda-im2col"},
    {.name = "implicit",
     .idea = "the same product, patches gathered on the way to shared memory",
     .book = "16.5",
     .kernel = {&implicit}},
    {.name = "tensor-cores", .idea = "the same on tensor cores, an f32 as two tf32", .solver = "cuda-igemm"},
    {.name = "cudnn", .idea = "what the vendor's library picks", .book = "16.5", .solver = "cudnn"},
    {.name = NULL},
};

const ladder_step ladder_cuda_pooled[] = {
    {.name = "direct-apart",
     .idea = "direct, then ReLU, then pooling: 3 kernels",
     .kernel = {&direct_first, &relu, &pool}},
    {.name = "apart",
     .idea = "channels, then ReLU, then pooling: 3 kernels",
     .kernel = {&channels_first, &relu, &pool}},
    {.name = "fused", .idea = "one kernel: the largest of 4 sums, clipped, is all that is written", .kernel = {&fused}},
    {.name = NULL},
};
