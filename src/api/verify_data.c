/* Operands of falt_verify: guarded, poisoned, with a copy of the inputs for comparison. */
#include <string.h>

#include "api/verify.h"
#include "core/copy.h"
#include "core/memory.h"
#include "core/random.h"

static void describe(falt_bench *bench, const falt_problem *p) {
  for (falt_operand i = 0; i < FALT_OPERANDS; i++)
    bench->operand[i] = (falt_guarded){.used = falt_operands_used(p) >> i & 1,
                                       .written = falt_operands_written(p) >> i & 1,
                                       .tensor = falt_operand_tensor(p, i)};
}

/* ---- memory */

static void mark_element(void *context, int64_t index) {
  const falt_guarded *o = context;
  const size_t size = falt_type_size(o->tensor.type);
  memset(o->elements + o->lead + (size_t)index * size, 0xFF, size);
}

/* Half of the operands start at an aligned address, the others up to 15 elements after one. */
static size_t skew_of(uint64_t *state) {
  return falt_random_int(state, 0, 1) ? 0 : (size_t)falt_random_int(state, 1, 15);
}

/* Under sanitizers the elements end where the allocation does. */
static bool provide(falt_guarded *o, size_t skew) {
  const int64_t size = (int64_t)falt_type_size(o->tensor.type);
  int64_t bytes;
  if (!falt_mul(falt_tensor_span(&o->tensor), size, &bytes)) return false;
  o->lead = FALT_GUARD + skew * (size_t)size;
  o->bytes = o->lead + (size_t)bytes + FALT_GUARD;
  o->memory = falt_alloc(o->bytes);
  o->kept = falt_alloc(o->bytes);
  o->elements = falt_alloc(o->bytes);
  if (!o->memory || !o->kept || !o->elements) return false;
  falt_fill_large(o->kept, 0, o->bytes);
  falt_fill_large(o->elements, 0, o->bytes);
  falt_tensor_visit(&o->tensor, mark_element, o);
  return true;
}

falt_status falt_bench_open(falt_bench *bench, const falt_problem *problem, uint64_t seed) {
  uint64_t state = seed;
  *bench = (falt_bench){0};
  if (falt_cancelled()) return FALT_CANCELLED;
  describe(bench, problem);
  for (int i = 0; i < FALT_OPERANDS; i++) {
    const size_t skew = seed ? skew_of(&state) : 0;
    if (!bench->operand[i].used || provide(&bench->operand[i], skew)) continue;
    falt_bench_close(bench);
    return falt_fail(FALT_NO_MEMORY, "verify: the operands do not fit in memory; use a smaller problem");
  }
  falt_bench_poison(bench, FALT_POISON);
  return FALT_OK;
}

void falt_bench_close(falt_bench *bench) {
  for (int i = 0; i < FALT_OPERANDS; i++) {
    falt_guarded *o = &bench->operand[i];
    falt_free(o->memory);
    falt_free(o->kept);
    falt_free(o->elements);
    o->memory = o->kept = o->elements = NULL;
  }
}

void *falt_guarded_data(const falt_guarded *operand) {
  return operand->used ? operand->memory + operand->lead : NULL;
}

falt_operands falt_bench_operands(const falt_bench *bench) {
  falt_operands o = {.input = NULL};
  for (falt_operand i = 0; i < FALT_OPERANDS; i++) *falt_operand_at(&o, i) = falt_guarded_data(&bench->operand[i]);
  return o;
}

void falt_tensor_visit(const falt_tensor *t, falt_visit visit, void *context) {
  int64_t i[FALT_DIMS];
  for (i[0] = 0; i[0] < t->size[0]; i[0]++)
    for (i[1] = 0; i[1] < t->size[1]; i[1]++)
      for (i[2] = 0; i[2] < t->size[2]; i[2]++)
        for (i[3] = 0; i[3] < t->size[3]; i[3]++)
          for (i[4] = 0; i[4] < t->size[4]; i[4]++)
            for (i[5] = 0; i[5] < t->size[5] && (i[5] % 64 || !falt_cancelled()); i[5]++)
              visit(context, falt_tensor_at(t, i[0], i[1], i[2], i[3], i[4], i[5]));
}

/* ---- poison */

void falt_bench_poison(falt_bench *bench, unsigned char byte) {
  bench->poison = byte;
  for (int i = 0; i < FALT_OPERANDS; i++) {
    falt_guarded *o = &bench->operand[i];
    if (o->used && o->written) falt_fill_large(o->memory, byte, o->bytes);
  }
  falt_bench_restore(bench);
}

void falt_bench_keep(falt_bench *bench) {
  for (int i = 0; i < FALT_OPERANDS; i++) {
    falt_guarded *o = &bench->operand[i];
    if (o->used && !o->written) falt_copy_large(o->kept, o->memory, o->bytes);
  }
}

void falt_bench_copy(falt_bench *to, const falt_bench *from) {
  to->poison = from->poison;
  for (int i = 0; i < FALT_OPERANDS; i++) {
    const falt_guarded *o = &from->operand[i];
    if (!o->used) continue;
    falt_copy_large(to->operand[i].memory, o->memory, o->bytes);
    falt_copy_large(to->operand[i].kept, o->kept, o->bytes);
  }
}

/* For the memory sanitizer: marks the bytes of elements, or all other bytes, as written. */
static void mark_written(const falt_guarded *o, bool of_elements) {
  for (size_t at = 0; at < o->bytes; at++)
    if (of_elements == (o->elements[at] != 0)) FALT_WRITTEN(o->memory + at, 1);
}

/* All that is no element counts as never written, of results the elements too. */
static void forget(const falt_guarded *o) {
  FALT_UNWRITTEN(o->memory, o->bytes);
  if (!o->written) mark_written(o, true);
}

static void restore_bytes(const falt_guarded *o, unsigned char byte, size_t begin, size_t end) {
  unsigned char *restrict to = o->memory;
  const unsigned char *restrict kept = o->kept, *restrict elements = o->elements;
  for (size_t at = begin; at < end; at++)
    to[at] = (unsigned char)((kept[at] & elements[at]) | (byte & (unsigned char)~elements[at]));
}

static void restore(const falt_guarded *o, unsigned char byte) {
  enum { MOST = 1 << 20 }; /* bytes between looks whether the call was cancelled */
  for (size_t at = 0; at < o->bytes && !falt_cancelled(); at += MOST)
    restore_bytes(o, byte, at, o->bytes - at < MOST ? o->bytes : at + MOST);
}

void falt_bench_restore(falt_bench *bench) {
  for (int i = 0; i < FALT_OPERANDS; i++) {
    const falt_guarded *o = &bench->operand[i];
    if (o->used && !o->written) restore(o, bench->poison);
    if (o->used) forget(o);
  }
}

/* The bits of `read` mark operands that are only read. */
static bool is_intact(const falt_guarded *o, unsigned char byte, unsigned char read) {
  const unsigned char *restrict is = o->memory, *restrict kept = o->kept, *restrict elements = o->elements;
  unsigned char changed = 0;
  mark_written(o, false);
  for (size_t at = 0; at < o->bytes; at++)
    changed |=
        (unsigned char)(((is[at] ^ kept[at]) & elements[at] & read) | ((is[at] ^ byte) & (unsigned char)~elements[at]));
  return !changed;
}

bool falt_bench_intact(const falt_bench *bench) {
  bool intact = true;
  for (int i = 0; i < FALT_OPERANDS; i++) {
    const falt_guarded *o = &bench->operand[i];
    if (o->used) intact &= is_intact(o, bench->poison, o->written ? 0 : 0xFF);
  }
  return intact;
}

/* ---- comparison to the bit */

typedef struct pair {
  const falt_guarded *a, *b, *open;
  bool same;
} pair;

static void compare_bits(void *context, int64_t index) {
  pair *p = context;
  const size_t size = falt_type_size(p->a->tensor.type), at = (size_t)index * size;
  if (memcmp((char *)falt_guarded_data(p->a) + at, (char *)falt_guarded_data(p->b) + at, size) == 0) return;
  const double a = falt_load(falt_guarded_data(p->a), p->a->tensor.type, index);
  const double b = falt_load(falt_guarded_data(p->b), p->b->tensor.type, index);
  const bool both_nan = a != a && b != b, whole = falt_type_is_integer(p->a->tensor.type);
  const double left = p->open ? falt_load(falt_guarded_data(p->open), p->a->tensor.type, index) : 0;
  p->same &= both_nan || left != left || (p->open && whole);
}

bool falt_bench_same(const falt_bench *a, const falt_bench *b, const falt_bench *open) {
  bool same = true;
  for (int i = 0; i < FALT_OPERANDS; i++) {
    pair p = {&a->operand[i], &b->operand[i], open ? &open->operand[i] : NULL, true};
    if (!p.a->used || !p.a->written) continue;
    falt_tensor_visit(&p.a->tensor, compare_bits, &p);
    same &= p.same;
  }
  return same;
}
