/* Tests of layers as products of matrices on a GPU: needs no GPU. Polyphases and tables are held against the relation
 * that src/solver/reference/reference.c states, tiles against what the kernels ask of them, and a representative set of
 * plans is compiled for every architecture: none may spill. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "compile_lines.h"
#include "core/random.h"
#include "machines.h"
#include "solver/cuda/common/igemm.h"

#define UNUSED __attribute__((unused))

/* ---- polyphase parts */

static int64_t between(uint64_t *state, int64_t low, int64_t high) {
  return falt_random_int(state, low, high);
}

/* A forward axis whose output is not empty. */
static falt_igemm_axis random_axis(uint64_t *state, int64_t *output) {
  falt_igemm_axis a;
  do {
    a = (falt_igemm_axis){.source = between(state, 1, 20),
                          .taps = between(state, 1, 6),
                          .stride = between(state, 1, 7),
                          .dilation = between(state, 1, 6),
                          .pad = between(state, -2, 9)};
    *output = (a.source + a.pad + between(state, 0, 9) - (a.dilation * (a.taps - 1) + 1)) / a.stride + 1;
  } while (*output < 1 || *output > 30);
  a.results = *output;
  return a;
}

/* How often output o, tap j and input i meet: once or never. */
static int meet(const falt_igemm_axis *a, int64_t o, int64_t j, int64_t i) {
  return o * a->stride + j * a->dilation - a->pad == i;
}

static void check_forward(const falt_igemm_axis *a) {
  const falt_igemm_polyphase p = falt_igemm_forward(a);
  assert_int_equal(p.results, a->results);
  for (int64_t o = 0; o < p.results; o++)
    for (int64_t j = 0; j < p.taps; j++)
      for (int64_t i = 0; i < a->source; i++)
        assert_int_equal(meet(a, o, p.from + j * p.pace, i), o * p.step + p.first + j * p.delta == i);
}

/* Every pair of an output and a tap that meets an input is in the input's polyphase part, and nothing else is. */
static void check_backward(const falt_igemm_axis *forward) {
  falt_igemm_axis a = *forward;
  a.source = forward->results;
  a.results = forward->source;
  int64_t covered = 0, pairs = 0, met = 0;
  for (int64_t f = 0; f < falt_igemm_polyphases(&a); f++) {
    const falt_igemm_polyphase p = falt_igemm_backward(&a, f);
    covered += p.results;
    for (int64_t q = 0; q < p.results; q++)
      for (int64_t n = 0; n < p.taps; n++) {
        const int64_t o = q * p.step + p.first + n * p.delta, j = p.from + n * p.pace;
        assert_true(j < a.taps);
        if (o < 0 || o >= a.source) continue;
        assert_true(meet(forward, o, j, p.begin + q * p.pitch));
        pairs++;
      }
  }
  assert_int_equal(covered, a.results);
  for (int64_t o = 0; o < a.source; o++)
    for (int64_t j = 0; j < a.taps; j++)
      for (int64_t i = 0; i < a.results; i++) met += meet(forward, o, j, i);
  assert_int_equal(pairs, met);
}

static void test_polyphases(UNUSED void **state) {
  uint64_t random = 1;
  for (int k = 0; k < 2000; k++) {
    int64_t output;
    const falt_igemm_axis a = random_axis(&random, &output);
    check_forward(&a);
    check_backward(&a);
  }
}

static void test_divisor(UNUSED void **state) {
  static const int64_t divisors[] = {1, 2, 3, 5, 7, 14, 56, 127, 224, 641, 65535, 65537, (1 << 30) - 1, INT32_MAX};
  uint64_t random = 2;
  for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++) {
    const int64_t d = divisors[i];
    unsigned reciprocal;
    int shift;
    falt_igemm_divisor(d, &reciprocal, &shift);
    for (int k = 0; k < 2000; k++) {
      const int64_t base = between(&random, 0, INT32_MAX / d) * d, near = base + between(&random, -1, 1);
      const int64_t n = near < 0 ? 0 : near > INT32_MAX ? INT32_MAX : near;
      assert_int_equal((uint64_t)n * reciprocal >> shift, n / d);
    }
  }
}

/* ---- tables */

enum { CHANNELS = 12, PIECE = 4, STEP = 8 };

static void check_tables(const falt_igemm_polyphase polyphase[3], int64_t channel_bytes) {
  const int64_t taps = polyphase[0].taps * polyphase[1].taps * polyphase[2].taps, pieces = taps * CHANNELS / PIECE;
  const falt_igemm_depth depth = {.channels = CHANNELS,
                                  .piece = PIECE,
                                  .entries = (pieces + STEP - 1) / STEP * STEP,
                                  .axis_bytes = {100000, 1000, 24},
                                  .channel_bytes = channel_bytes};
  falt_cuda_igemm_entry *entry = calloc((size_t)depth.entries + 1, sizeof *entry);
  falt_cuda_igemm_place *place = calloc((size_t)depth.entries + 1, sizeof *place);
  assert_true(falt_igemm_entries(&depth, polyphase, entry) && falt_igemm_places(&depth, polyphase, place));
  for (int64_t i = 0; i < depth.entries; i++) {
    const int64_t tap = i * PIECE / CHANNELS, channel = i * PIECE % CHANNELS;
    if (i >= pieces) {
      assert_true(entry[i].bits & FALT_CUDA_IGEMM_NOWHERE && place[i].channel == FALT_CUDA_IGEMM_NO_CHANNEL);
      continue;
    }
    int64_t at[3] = {tap / polyphase[2].taps / polyphase[1].taps, tap / polyphase[2].taps % polyphase[1].taps,
                     tap % polyphase[2].taps};
    int64_t way = channel * channel_bytes;
    unsigned bits = FALT_CUDA_IGEMM_EXISTS;
    for (int axis = 0, bit = 0; axis < 3; bit += (int)polyphase[axis++].taps) {
      way += at[axis] * polyphase[axis].delta * depth.axis_bytes[axis];
      bits |= 1u << (bit + at[axis]);
      assert_int_equal(place[i].at[axis], polyphase[axis].first + at[axis] * polyphase[axis].delta);
    }
    assert_int_equal(entry[i].delta, way);
    assert_int_equal(entry[i].bits, bits);
    assert_int_equal(place[i].channel, channel * channel_bytes);
    assert_true(place[i].channel != FALT_CUDA_IGEMM_NO_CHANNEL && place[i].channel != FALT_CUDA_IGEMM_ONES);
  }
  free(entry);
  free(place);
}

static void test_tables(UNUSED void **state) {
  static const int64_t channel_bytes[] = {2, -1, -84}; /* channels may lie in any order */
  uint64_t random = 3;
  for (int k = 0; k < 300; k++) {
    falt_igemm_polyphase forward[3], backward[3];
    for (int i = 0; i < 3; i++) {
      int64_t output;
      falt_igemm_axis a = random_axis(&random, &output);
      forward[i] = falt_igemm_forward(&a);
      a.results = a.source;
      a.source = output;
      backward[i] = falt_igemm_backward(&a, between(&random, 0, falt_igemm_polyphases(&a) - 1));
    }
    for (size_t b = 0; b < sizeof channel_bytes / sizeof *channel_bytes; b++) {
      check_tables(forward, channel_bytes[b]);
      check_tables(backward, channel_bytes[b]);
    }
  }
}

static void test_far(UNUSED void **state) {
  const falt_igemm_polyphase here = {.taps = 1, .pace = 1}, far = {.taps = 3, .delta = 1 << 20, .pace = 1};
  const falt_igemm_polyphase polyphase[3] = {here, far, here};
  const falt_igemm_depth depth = {
      .channels = 1, .piece = 1, .entries = 3, .axis_bytes = {0, 4096, 4}, .channel_bytes = 4};
  falt_cuda_igemm_entry entry[3];
  assert_false(falt_igemm_entries(&depth, polyphase, entry));
}

/* ---- spans */

/* Pixels of a source whose channels 16 bytes do not divide, with the windows of a layer of odd taps that keeps its
 * size, or that reads every second pixel of rows of which 16 bytes divide two. */
typedef struct layer {
  int64_t size[4], channels, pitch; /* images and axes; pitch: elements of a pixel */
  falt_igemm_polyphase polyphase[3];
} layer;

enum { ELEMENT = 2, SPAN = 16 };

static layer random_layer(uint64_t *random) {
  layer l = {.size = {between(random, 1, 3)}, .channels = between(random, 1, 40)};
  l.pitch = l.channels + between(random, 0, 1) * between(random, 1, 9);
  for (int i = 0; i < 3; i++) {
    falt_igemm_axis a = {.source = between(random, 1, 9), .taps = 1 + 2 * between(random, 0, 2), .stride = 1};
    a.dilation = between(random, 1, 2);
    a.pad = a.taps / 2 * a.dilation;
    a.results = l.size[i + 1] = a.source;
    l.polyphase[i] = between(random, 0, 1) ? falt_igemm_forward(&a) : falt_igemm_backward(&a, 0);
  }
  return l;
}

static falt_igemm_depth depth_of(const layer *l) {
  falt_igemm_depth d = {.channels = l->channels, .channel_bytes = ELEMENT};
  int64_t bytes = l->pitch * ELEMENT;
  for (int i = 2; i >= 0; bytes *= l->size[1 + i--]) d.axis_bytes[i] = bytes;
  return d;
}

/* Pixel m's first position, in bytes behind the first of all. */
static int64_t first_position(const layer *l, const falt_igemm_depth *d, int64_t m) {
  const int64_t rest[4] = {m / (l->size[1] * l->size[2] * l->size[3]), m / (l->size[2] * l->size[3]) % l->size[1],
                           m / l->size[3] % l->size[2], m % l->size[3]};
  int64_t at = rest[0] * l->size[1] * d->axis_bytes[0];
  for (int i = 0; i < 3; i++) at += (rest[i + 1] + l->polyphase[i].first) * d->axis_bytes[i];
  return at;
}

/* What an entry of pixel m's depth names: aligned words, whose bytes between head and end are as far from the tap's
 * first channel as they are in the packed filter. */
static void check_span(const layer *l, const falt_igemm_depth *d, const falt_cuda_igemm_entry *e, int64_t at,
                       int64_t i) {
  const int64_t words = falt_igemm_span_bytes(d) / SPAN, tap = i / words, place = i % words * SPAN;
  const int64_t taps[3] = {tap / l->polyphase[2].taps / l->polyphase[1].taps,
                           tap / l->polyphase[2].taps % l->polyphase[1].taps, tap % l->polyphase[2].taps};
  int64_t way = 0;
  for (int axis = 0; axis < 3; axis++) way += taps[axis] * l->polyphase[axis].delta * d->axis_bytes[axis];
  const int64_t ahead = (at + way) & (SPAN - 1), last = ahead + l->channels * ELEMENT;
  if (place >= last) {
    assert_true(e->bits & FALT_CUDA_IGEMM_NOWHERE);
    return;
  }
  assert_int_equal((at + e->delta) & (SPAN - 1), 0);
  assert_int_equal(at + e->delta, at + way - ahead + place);
  assert_int_equal(e->bits >> FALT_CUDA_IGEMM_HEAD & 15, place == 0 ? ahead : 0);
  assert_int_equal((e->bits >> FALT_CUDA_IGEMM_END & 15) + 1, last - place < SPAN ? last - place : SPAN);
}

/* Every pixel of a polyphase part finds all channels of all its taps with the polyphase part's entries. */
static void test_spans(UNUSED void **state) {
  uint64_t random = 7;
  for (int k = 0; k < 300; k++) {
    const layer l = random_layer(&random);
    falt_igemm_depth d = depth_of(&l);
    falt_igemm_evenly evenly;
    const int64_t image = l.size[1] * d.axis_bytes[0];
    const int64_t bytes[4] = {image, d.axis_bytes[0], d.axis_bytes[1], d.axis_bytes[2]};
    assert_true(falt_igemm_lie_evenly(l.size, bytes, bytes, 0, &evenly));
    assert_true(evenly.polyphases == 1 || (evenly.polyphases <= 8 && l.pitch % 8 != 0));
    d.even = evenly.even;
    const int64_t taps = l.polyphase[0].taps * l.polyphase[1].taps * l.polyphase[2].taps;
    d.entries = taps * falt_igemm_span_bytes(&d) / SPAN + 1;
    falt_cuda_igemm_entry *entry = calloc((size_t)d.entries, sizeof *entry);
    for (int polyphase = 0; polyphase < evenly.polyphases; polyphase++) {
      const int64_t lead = first_position(&l, &d, 0) + polyphase * evenly.apart;
      assert_true(falt_igemm_spans(&d, l.polyphase, lead & (SPAN - 1), entry));
      assert_true(entry[d.entries - 1].bits & FALT_CUDA_IGEMM_NOWHERE);
      for (int64_t m = polyphase; m < l.size[0] * l.size[1] * l.size[2] * l.size[3]; m += evenly.polyphases)
        for (int64_t i = 0; i < d.entries - 1; i++) check_span(&l, &d, &entry[i], first_position(&l, &d, m), i);
    }
    free(entry);
  }
}

/* Rows that begin elsewhere than the pixels before them say do not lie evenly, nor do those that run backwards. */
static void test_uneven(UNUSED void **state) {
  const int64_t results[4] = {2, 1, 7, 5}, narrower[4] = {2, 1, 7, 4};
  const int64_t bytes[4] = {490, 490, 70, 14}, back[4] = {490, 490, 70, -14}, aligned[4] = {560, 560, 80, 16};
  falt_igemm_evenly evenly;
  assert_true(falt_igemm_lie_evenly(results, bytes, bytes, 0, &evenly) && evenly.polyphases == 8 && evenly.even == 2);
  assert_false(falt_igemm_lie_evenly(narrower, bytes, bytes, 0, &evenly));
  assert_false(falt_igemm_lie_evenly(results, back, back, 0, &evenly));
  assert_true(falt_igemm_lie_evenly(narrower, aligned, aligned, 0, &evenly) && evenly.polyphases == 1 &&
              evenly.even == 16);
}

/* Of groups that begin anywhere the pixels must begin as the first does. */
static void test_uneven_groups(UNUSED void **state) {
  const int64_t results[4] = {2, 1, 7, 5}, bytes[4] = {490, 490, 70, 14}, aligned[4] = {560, 560, 80, 16};
  falt_igemm_evenly evenly;
  assert_false(falt_igemm_lie_evenly(results, bytes, bytes, 10, &evenly));
  assert_true(falt_igemm_lie_evenly(results, bytes, bytes, 32, &evenly) && !evenly.groups);
  assert_true(falt_igemm_lie_evenly(results, aligned, aligned, 10, &evenly) && evenly.groups);
  assert_true(evenly.polyphases == 8 && evenly.apart == 10 && evenly.even == 2);
  assert_true(falt_igemm_lie_evenly(results, aligned, aligned, 24, &evenly) && evenly.polyphases == 2 &&
              evenly.even == 8);
}

/* ---- tiles */

static const falt_machine machines[] = {H200, A100, L4, RTX5090};
enum { MACHINES = sizeof machines / sizeof *machines };

typedef struct count {
  const falt_machine *machine;
  const falt_igemm_shape *shape;
  int tiles;
} count;

/* What cuda_igemm.cu asserts, and what the launch needs. */
static void check_tile(void *context, const void *candidate) {
  const falt_igemm_tile *t = candidate;
  count *c = context;
  const int threads = 32 * t->warps[0] * t->warps[1];
  c->tiles++;
  assert_true(t->bm / t->warps[0] % 16 == 0 && t->bn / t->warps[1] % 16 == 0);
  assert_true(t->row == 64 || t->row == 128);
  assert_true(t->blocks >= 1 && t->shared_bytes <= c->machine->arch->block_shared && t->seconds > 0);
  if (c->shape->gather)
    assert_true(threads % t->bm == 0 && t->row / 16 % (threads / t->bm) == 0);
  else
    assert_true(threads % (t->row / c->shape->unit) == 0);
}

static void check_filter_tile(void *context, const void *candidate) {
  const falt_igemm_wgrad_tile *t = candidate;
  count *c = context;
  c->tiles++;
  assert_true(t->bm / t->warps[0] % 16 == 0 && t->bn / t->warps[1] % 16 == 0 && t->pixels % 32 == 0);
  assert_true(t->blocks >= 1 && t->shared_bytes <= c->machine->arch->block_shared && t->seconds > 0);
  assert_true(t->split_k >= 1 && t->slice_steps >= 1);
}

/* Pixels that are gathered from many lines, and few results that are stored one by one, take longer, as was measured:
 * 63 channels to 64 and 64 to 63, 64 images of 28x28, 3x3. */
static void test_scattered(UNUSED void **state) {
  falt_igemm_shape s = {.pixels = 50176,
                        .channels = 64,
                        .depth = 1134,
                        .products = 1,
                        .bytes = 1.28e7,
                        .x_bytes = 2,
                        .y_bytes = 2,
                        .unit = 2,
                        .merged = 1,
                        .gather = 1,
                        .real = true};
  falt_igemm_tile near, far, ragged;
  falt_igemm_choose(&s, &machines[0], &near);
  s.apart = 126;
  falt_igemm_choose(&s, &machines[0], &far);
  s.apart = 0, s.ragged = true;
  falt_igemm_choose(&s, &machines[0], &ragged);
  assert_true(far.seconds > 1.4 * near.seconds && far.seconds < 2 * near.seconds);
  assert_true(ragged.seconds > near.seconds && ragged.seconds < 1.2 * near.seconds);
}

/* On every machine there is a tile for every kind of source, and large layers keep every multiprocessor busy. */
static void test_tiles(UNUSED void **state) {
  static const int units[][3] = {{1, 16, 0}, {2, 16, 0}, {2, 8, 0}, {2, 4, 0}, {4, 16, 0},
                                 {4, 4, 0},  {1, 1, 1},  {2, 2, 1}, {4, 4, 1}};
  for (int m = 0; m < MACHINES; m++)
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
      for (int split = 0; split <= (units[u][0] == 4); split++) {
        const falt_igemm_shape shape = {.pixels = 200704,
                                        .channels = 64,
                                        .depth = 576 * units[u][0],
                                        .products = 1,
                                        .bytes = 5e7,
                                        .x_bytes = units[u][0],
                                        .y_bytes = units[u][0],
                                        .unit = units[u][1],
                                        .merged = 1,
                                        .gather = units[u][2],
                                        .split = split,
                                        .planar = units[u][2],
                                        .real = true};
        const falt_igemm_wgrad_shape filter = {.pixels = 200704,
                                               .rows = 64,
                                               .columns = 576,
                                               .groups = 1,
                                               .bytes = 5e7,
                                               .x_bytes = units[u][0] == 1 ? 2 : units[u][0],
                                               .unit = {units[u][1], units[u][1]},
                                               .gather = {units[u][2], units[u][2]},
                                               .split = split,
                                               .workspace = -1};
        count c = {&machines[m], &shape, 0}, f = {&machines[m], &shape, 0};
        falt_igemm_tile best;
        falt_igemm_each(&shape, &machines[m], &(falt_tile_search){.visit = check_tile, .context = &c});
        falt_igemm_choose(&shape, &machines[m], &best);
        assert_true(c.tiles > 0 && best.bm > 0 && best.bn <= 128);
        if (units[u][1] == 1) continue; /* bytes have no gradient there */
        falt_igemm_wgrad_each(&filter, &machines[m], &(falt_tile_search){.visit = check_filter_tile, .context = &f});
        assert_true(f.tiles > 0);
      }
}

/* The workspace bounds the split-K slices; none is always possible. */
static void test_workspace(UNUSED void **state) {
  falt_igemm_wgrad_shape shape = {.pixels = 200704,
                                  .rows = 64,
                                  .columns = 576,
                                  .groups = 1,
                                  .bytes = 5e7,
                                  .x_bytes = 2,
                                  .unit = {16, 16},
                                  .workspace = -1};
  falt_igemm_wgrad_tile free_tile, none;
  falt_igemm_wgrad_choose(&shape, &machines[0], &free_tile);
  assert_true(free_tile.split_k > 8 && free_tile.workspace > 0);
  assert_true(free_tile.split_k * free_tile.slice_steps * free_tile.pixels >= shape.pixels);
  shape.workspace = 0;
  falt_igemm_wgrad_choose(&shape, &machines[0], &none);
  assert_true(none.split_k == 1 && none.workspace == 0 && none.seconds > free_tile.seconds);
}

/* ---- plans */

/* Channels that 16 bytes do not divide come by spans where their pixels, or else their groups, lie evenly. */
static void test_span_plans(UNUSED void **state) {
  static const struct {
    const char *line;
    const char *has; /* of the plan's text; NULL: no spans */
  } plans[] = {
      {"forward n=1 c=257 h=14 w=14 k=257 r=1 s=1 type=f16 layout=nhwc", "spans polyphases=8"},
      {"backward-data n=64 c=129 h=28 w=28 k=129 r=3 s=3 pad=1 type=bf16 layout=nhwc", "spans polyphases=8"},
      {"forward n=64 c=252 h=14 w=14 k=64 r=1 s=1 type=f16 layout=nhwc input-strides=50176,256,1,50176,3584,256",
       "spans)"},
      {"forward n=64 c=129 h=28 w=27 k=129 r=3 s=3 type=f16 layout=nhwc", NULL},
      {"forward n=64 c=129 h=28 w=28 k=129 r=3 s=3 pad=1 type=f16 layout=nhwc boundary=edge", NULL},
      {"forward n=1 c=257 h=14 w=14 k=257 r=1 s=1 type=f32 layout=nhwc", NULL},
  };
  falt_cuda_options options;
  falt_device *device;
  falt_cuda_options_default(&options);
  snprintf(options.described, sizeof options.described, "h200");
  assert_int_equal(falt_device_cuda(&device, &options), FALT_OK);
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    char line[256], text[256];
    falt_plan *plan;
    snprintf(line, sizeof line, "%s method=cuda-igemm", plans[i].line);
    if (falt_plan_create_line(&plan, device, line, NULL) != FALT_OK) fail_msg("%s: %s", line, falt_message());
    falt_plan_print(plan, text, sizeof text);
    falt_plan_destroy(&plan);
    if (plans[i].has ? !strstr(text, plans[i].has) : !!strstr(text, "spans")) fail_msg("%s: %s", line, text);
  }
  falt_device_destroy(&device);
}

/* Nor where the workspace has no room for as many filters as there are polyphase parts. */
static void test_span_workspace(UNUSED void **state) {
  falt_cuda_options options;
  falt_device *device;
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan;
  char text[256];
  falt_cuda_options_default(&options);
  snprintf(options.described, sizeof options.described, "h200");
  assert_int_equal(falt_device_cuda(&device, &options), FALT_OK);
  for (int enough = 0; enough <= 1; enough++) {
    const char *line = "forward n=1 c=65 h=14 w=14 k=65 r=1 s=1 type=f16 layout=nhwc method=cuda-igemm";
    falt_budget_default(&budget);
    assert_int_equal(falt_problem_parse(&problem, &budget, line), FALT_OK);
    budget.max_workspace = enough ? 8 * 65 * 256 : 65 * 256;
    assert_int_equal(falt_plan_create(&plan, device, &problem, &budget, NULL), FALT_OK);
    falt_plan_print(plan, text, sizeof text);
    assert_true(!strstr(text, "spans") == !enough);
    falt_plan_destroy(&plan);
  }
  falt_device_destroy(&device);
}

/* ---- compilation */

static void test_compile(UNUSED void **state) {
  static const char *const gpus[] = {"a100", "h200", "b200", "rtx5090"};
  static const char *const lines[] = {
      "forward n=64 c=256 h=14 w=14 k=256 r=3 s=3 pad=1 layout=nhwc type=f16 bias=1 residual=1 act=relu",
      "forward n=64 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 type=bf16 boundary=reflect101",
      "forward n=64 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 layout=nhwc type=f32 act=gelu",
      "forward n=64 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 type=f32 tf32=1",
      "forward n=64 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 layout=nhwc type=f16",
      "forward n=64 c=256 h=14 w=14 k=256 r=3 s=3 pad=1 layout=nhwc type=s8 out-type=s8 scale=1 value=3",
      "backward-data n=64 c=128 h=56 w=56 k=128 r=3 s=3 stride=2 pad=1 layout=nhwc type=f16",
      "backward-filter n=64 c=256 h=14 w=14 k=256 r=3 s=3 pad=1 layout=nhwc type=bf16 bias=1",
      "forward n=64 c=256 h=56 w=56 k=256 r=3 s=3 pad=1 groups=32 layout=nhwc type=f16",
      "backward-filter n=64 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 type=f32",
      "forward n=1 c=257 h=14 w=14 k=257 r=1 s=1 layout=nhwc type=f16",
      "backward-data n=64 c=129 h=28 w=28 k=129 r=3 s=3 pad=1 layout=nhwc type=bf16",
  };
  compile_all_lines(&(compile_lines){.method = "cuda-igemm",
                                     .wgrad = "cuda-wgrad",
                                     .source = {"cuda_igemm", "cuda_wgrad"},
                                     .gpus = gpus,
                                     .gpu_count = sizeof gpus / sizeof *gpus,
                                     .lines = lines,
                                     .line_count = sizeof lines / sizeof *lines,
                                     .everywhere = 3,
                                     .kernels = 21});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_polyphases),    cmocka_unit_test(test_divisor),    cmocka_unit_test(test_tables),
      cmocka_unit_test(test_far),           cmocka_unit_test(test_spans),      cmocka_unit_test(test_uneven),
      cmocka_unit_test(test_uneven_groups), cmocka_unit_test(test_scattered),  cmocka_unit_test(test_tiles),
      cmocka_unit_test(test_workspace),     cmocka_unit_test(test_span_plans), cmocka_unit_test(test_span_workspace),
      cmocka_unit_test(test_compile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
