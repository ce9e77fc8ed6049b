/* SplitMix64: the state counts up by the golden ratio of 2^64 and a bijective mixer makes each count look random.
 * G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
#include "core/random.h"

#include <string.h>

#include "core/thread.h"
#include "core/types.h"

static const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);

uint64_t falt_random(uint64_t *state) {
  uint64_t z = *state += step;
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* The high half of word * range is uniform in [0, range) once the few words that would make some values likelier are
 * thrown away (D. Lemire, "Fast random integer generation in an interval", 2019). */
int64_t falt_random_int(uint64_t *state, int64_t low, int64_t high) {
  uint64_t range = (uint64_t)high - (uint64_t)low + 1;
  if (range == 0) return (int64_t)falt_random(state);
  uint64_t surplus = -range % range;
  unsigned __int128 product;
  do product = (unsigned __int128)falt_random(state) * range;
  while ((uint64_t)product < surplus);
  return (int64_t)((uint64_t)low + (uint64_t)(product >> 64));
}

double falt_random_unit(uint64_t *state) {
  return (double)(falt_random(state) >> 11) * 0x1p-53;
}

enum { CHUNK_WORDS = 512, PART_CHUNKS = 64 /* 256 KiB */, MANY_PARTS = 16 };

/* Random words, read as signed integers of the element's width. */
typedef union chunk {
  uint64_t words[CHUNK_WORDS];
  int16_t s16[4 * CHUNK_WORDS];
  int32_t s32[2 * CHUNK_WORDS];
  int64_t s64[CHUNK_WORDS];
} chunk;

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Each float type keeps as many leading bits as it holds exactly for every value in [-1, 1), so nothing is rounded. No
 * value except 0 is as small as a subnormal half, so f16 differs from f32 only in the exponent bias. */
static void fill_f16(uint16_t *out, const chunk *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const int kept = from->s16[i] >> 4;
    const uint32_t bits = bits_of((float)kept * 0x1p-11f), magnitude = (bits >> 13 & 0x3ffff) - ((127 - 15) << 10);
    out[i] = (uint16_t)((bits >> 16 & 0x8000) | (kept ? magnitude : 0));
  }
}

static void fill_bf16(uint16_t *out, const chunk *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) out[i] = (uint16_t)(bits_of((float)(from->s16[i] >> 7) * 0x1p-8f) >> 16);
}

static void fill_f32(float *out, const chunk *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) out[i] = (float)(from->s32[i] >> 8) * 0x1p-23f;
}

static void fill_f64(double *out, const chunk *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) out[i] = (double)(from->s64[i] >> 10) * 0x1p-53;
}

/* A case for each type, like other switches over types: each has a function of its own. */
static void fill_chunk(void *out, falt_type type, const chunk *from, int64_t count) {
  switch (type) {
    case FALT_F16:
      fill_f16(out, from, count);
      break;
    case FALT_BF16:
      fill_bf16(out, from, count);
      break;
    case FALT_F32:
      fill_f32(out, from, count);
      break;
    case FALT_F64:
      fill_f64(out, from, count);
      break;
    default:
      memcpy(out, from, (size_t)count * falt_type_size(type));
  }
}

/* ---- fills */

typedef struct filling {
  char *data;
  falt_type type;
  int64_t count;
  uint64_t seed;
} filling;

static int64_t chunk_elements(falt_type type) {
  return (int64_t)(sizeof(chunk) / falt_type_size(type));
}

/* The state counts up by the same number for every word: any chunk can be the first. */
static void fill_part(void *context, int64_t part) {
  const filling *f = context;
  const int64_t most = chunk_elements(f->type), end = (part + 1) * PART_CHUNKS * most;
  const int64_t last = end < f->count ? end : f->count;
  uint64_t state = f->seed + (uint64_t)part * PART_CHUNKS * CHUNK_WORDS * step;
  chunk from;
  for (int64_t done = part * PART_CHUNKS * most; done < last; done += most) {
    for (int i = 0; i < CHUNK_WORDS; i++) from.words[i] = falt_random(&state);
    fill_chunk(f->data + (size_t)done * falt_type_size(f->type), f->type, &from,
               last - done < most ? last - done : most);
  }
}

/* Element i depends on the seed and i only: a shorter fill is the beginning of a longer one, and large fills are
 * shared by all cores. */
void falt_random_fill(void *data, falt_type type, int64_t count, uint64_t seed) {
  if (!data || falt_type_size(type) == 0 || count <= 0) return;
  filling f = {data, type, count, seed};
  const int64_t part = PART_CHUNKS * chunk_elements(type), parts = (count - 1) / part + 1;
  falt_threads *threads = parts < MANY_PARTS ? NULL : falt_threads_create(falt_cores_available(), NULL, NULL);
  falt_parallel_for(threads, parts, fill_part, &f);
  falt_threads_destroy(threads);
}
