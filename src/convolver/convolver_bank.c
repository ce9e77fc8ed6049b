/* Banks of responses: copies of their first taps, transforms of the others. */
#include <string.h>

#include "convolver/convolver.h"
#include "core/memory.h"

static int64_t count_pairs(const falt_convolver_options *o, const void *const *responses) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < (int64_t)o->inputs * o->outputs; i++) pairs += responses[i] != NULL;
  return pairs;
}

/* Each partition's taps as the first half of a window of 2n. */
static void fill_filter(const falt_convolver *c, const falt_convolver_level *l, const char *response, char *to,
                        char *room, char *tile) {
  const size_t partition = (size_t)l->size * c->element, spectrum = 2 * partition;
  for (int64_t p = 0; p < l->parts; p++) {
    const int64_t tap = l->first + p * l->size, taps = falt_min(l->size, c->options.taps - tap);
    memset(room, 0, 2 * partition);
    memcpy(room, response + (size_t)tap * c->element, (size_t)taps * c->element);
    c->lane->twist(room, room + partition, l->twiddles, tile, tile + (size_t)l->shape.plane * c->element, l->size);
    falt_fft_spectrum(&l->shape, tile, to + (size_t)p * spectrum, 1 / (double)l->size);
  }
}

static void fill_pair(const falt_convolver *c, falt_convolver_bank *bank, int64_t q, const char *response, char *room) {
  const size_t largest = c->levels ? (size_t)c->level[c->levels - 1].size * c->element : 0;
  memcpy(bank->pair[q].head, response, (size_t)c->head * c->element);
  for (int i = 0; i < c->levels; i++) {
    const falt_convolver_level *l = &c->level[i];
    char *to = bank->stage[i].filter + (size_t)(q * l->parts * 2 * l->size) * c->element;
    fill_filter(c, l, response, to, room, room + 2 * largest);
  }
}

/* Of everything that a bank holds; the bank's pointers into it if there is memory already. */
static size_t lay_out(const falt_convolver *c, falt_convolver_bank *bank) {
  size_t at = 0;
  char *memory = bank->memory;
  for (int64_t q = 0; q < bank->pairs; q++) {
    if (memory) bank->pair[q].head = memory + at;
    at += (size_t)falt_round_up(c->head * (int64_t)c->element, FALT_ALIGN);
  }
  for (int i = 0; i < c->levels; i++) {
    const falt_convolver_level *l = &c->level[i];
    const size_t partition = (size_t)l->size * c->element;
    falt_convolver_stage *s = &bank->stage[i];
    if (memory) s->filter = memory + at;
    at += (size_t)(bank->pairs * l->parts) * 2 * partition;
    for (int r = 0; r < 2; r++) {
      if (memory) s->result[r] = memory + at;
      at += (size_t)c->options.outputs * partition;
    }
  }
  return at;
}

static bool make_memory(const falt_convolver *c, falt_convolver_bank *bank, const void *const *responses) {
  const falt_convolver_options *o = &c->options;
  bank->pairs = count_pairs(o, responses);
  bank->pair = falt_alloc_zero((size_t)bank->pairs * sizeof *bank->pair);
  bank->memory = falt_alloc_zero(lay_out(c, bank));
  if (!bank->pair || !bank->memory) return false;
  lay_out(c, bank);
  int64_t q = 0;
  for (int64_t i = 0; i < (int64_t)o->inputs * o->outputs; i++)
    if (responses[i]) {
      bank->pair[q].input = (int)(i % o->inputs);
      bank->pair[q++].output = (int)(i / o->inputs);
    }
  return true;
}

falt_convolver_bank *falt_convolver_bank_make(const falt_convolver *c, const void *const *responses) {
  const falt_convolver_level *last = &c->level[c->levels > 0 ? c->levels - 1 : 0];
  char *room = falt_alloc((size_t)(c->levels ? 2 * last->size + 2 * last->shape.plane : 0) * c->element);
  falt_convolver_bank *bank = falt_alloc_zero(sizeof *bank);
  if (!room || !bank || !make_memory(c, bank, responses)) {
    falt_free(room);
    falt_convolver_bank_free(bank);
    return NULL;
  }
  int64_t q = 0;
  for (int64_t i = 0; i < (int64_t)c->options.inputs * c->options.outputs; i++)
    if (responses[i]) fill_pair(c, bank, q++, responses[i], room);
  falt_free(room);
  return bank;
}

void falt_convolver_bank_free(falt_convolver_bank *bank) {
  if (!bank) return;
  falt_free(bank->pair);
  falt_free(bank->memory);
  falt_free(bank);
}
