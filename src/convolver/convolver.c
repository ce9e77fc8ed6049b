/* Stateful convolution by partitions of growing size, without added latency: W. G. Gardner, Efficient convolution
 * without input-output delay, JAES 43(3), 1995. The work of each size is spread over its period, so that no call has
 * all. */
#include "convolver/convolver.h"

#include <string.h>

#include "core/memory.h"
#include "planner/planner.h"

enum { PARTITION = 256, MOST_PARTITION = 65536, GROWTH = 8, MOST_GROWTH = 64, FADE = 512, MOST_SIGNALS = 65536 };

/* ---- options */

void falt_convolver_options_default(falt_convolver_options *options) {
  if (options)
    *options = (falt_convolver_options){.inputs = 1, .outputs = 1, .taps = 1, .type = FALT_F32, .fade = FADE};
}

static bool is_power_of_two(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

static falt_status check_sizes(const falt_convolver_options *o) {
  const int64_t most = INT64_C(1) << 40;
  if (o->inputs < 1 || o->outputs < 1 || o->inputs > MOST_SIGNALS || o->outputs > MOST_SIGNALS)
    return falt_fail(FALT_INVALID_ARGUMENT, "options: %d inputs, %d outputs; use 1 to %d of each", o->inputs,
                     o->outputs, MOST_SIGNALS);
  if (o->taps < 1 || o->taps > most)
    return falt_fail(FALT_INVALID_ARGUMENT, "options.taps: %lld; use 1 to 2^40", (long long)o->taps);
  if (o->partition && (!is_power_of_two(o->partition) || o->partition < PARTITION || o->partition > MOST_PARTITION))
    return falt_fail(FALT_INVALID_ARGUMENT, "options.partition: %lld; use 0 or a power of two from %d to %d",
                     (long long)o->partition, PARTITION, MOST_PARTITION);
  if (o->growth && (!is_power_of_two(o->growth) || o->growth > MOST_GROWTH))
    return falt_fail(FALT_INVALID_ARGUMENT, "options.growth: %d; use 0 or a power of two up to %d", o->growth,
                     MOST_GROWTH);
  const int64_t late = 2 * (o->partition ? o->partition : PARTITION);
  if (o->latency < 0 || o->latency > late)
    return falt_fail(FALT_INVALID_ARGUMENT, "options.latency: %lld; use 0 to %lld, two partitions",
                     (long long)o->latency, (long long)late);
  if (o->fade < 0 || o->fade > most)
    return falt_fail(FALT_INVALID_ARGUMENT, "options.fade: %lld; use 0 or more samples", (long long)o->fade);
  return FALT_OK;
}

static falt_status check(const falt_device *device, const falt_convolver_options *options,
                         const void *const *responses) {
  if (!device || !options || !responses)
    return falt_fail(FALT_INVALID_ARGUMENT, "%s is NULL", !device ? "device" : !options ? "options" : "responses");
  if (strcmp(device->kind, "cpu") != 0)
    return falt_fail(FALT_INVALID_ARGUMENT, "device: %s; the convolver runs on a CPU, make one by falt_device_cpu",
                     device->name);
  if (options->type != FALT_F32 && options->type != FALT_F64)
    return falt_fail(FALT_INVALID_TYPE, "options.type: the convolver takes f32 or f64");
  FALT_TRY(FALT_CHECK_RESERVED(options, "falt_convolver_options_default"));
  return check_sizes(options);
}

/* ---- making */

static bool make(falt_convolver *c, falt_isa isa, const void *const *responses) {
  if (!falt_convolver_levels_make(c, isa)) return false;
  c->bank[0] = falt_convolver_bank_make(c, responses);
  if (!c->bank[0]) return false;
  falt_convolver_reset(c);
  return true;
}

falt_status falt_convolver_create(falt_convolver **convolver, const falt_device *device,
                                  const falt_convolver_options *options, const void *const *responses) {
  if (!convolver) return falt_fail(FALT_INVALID_ARGUMENT, "convolver is NULL");
  *convolver = NULL;
  FALT_TRY(check(device, options, responses));
  falt_convolver *c = falt_alloc_zero(sizeof *c);
  if (!c) return falt_fail(FALT_NO_MEMORY, "convolver: memory ran out");
  c->options = *options;
  if (!c->options.partition) c->options.partition = PARTITION;
  if (!c->options.growth) c->options.growth = GROWTH;
  c->element = falt_type_size(options->type);
  *convolver = c;
  if (make(c, device->isa, responses)) return FALT_OK;
  falt_convolver_destroy(convolver);
  return falt_fail(FALT_NO_MEMORY, "convolver: memory for responses of %lld taps ran out; use fewer or shorter ones",
                   (long long)options->taps);
}

/* ---- exchanging */

static void free_retired(falt_convolver *c) {
  falt_convolver_bank *bank = atomic_exchange(&c->retired, NULL);
  while (bank) {
    falt_convolver_bank *next = bank->next;
    falt_convolver_bank_free(bank);
    bank = next;
  }
}

static void retire(falt_convolver *c, falt_convolver_bank *bank) {
  bank->next = atomic_load(&c->retired);
  while (!atomic_compare_exchange_weak(&c->retired, &bank->next, bank)) {
  }
}

falt_status falt_convolver_exchange(falt_convolver *c, const void *const *responses) {
  if (!c || !responses) return falt_fail(FALT_INVALID_ARGUMENT, "%s is NULL", c ? "responses" : "convolver");
  falt_convolver_bank *bank = falt_convolver_bank_make(c, responses);
  if (!bank) return falt_fail(FALT_NO_MEMORY, "convolver: memory for the new responses ran out");
  falt_convolver_bank_free(atomic_exchange(&c->waiting, bank));
  free_retired(c);
  return FALT_OK;
}

/* The next bank has outputs of every level. */
static bool is_warm(const falt_convolver *c) {
  for (int i = 0; i < c->levels; i++)
    if (c->bank[1]->stage[i].periods < 1) return false;
  return true;
}

static void take_waiting(falt_convolver *c) {
  if (c->bank[1]) return;
  c->bank[1] = atomic_exchange(&c->waiting, NULL);
  c->faded = -1;
}

static void end_fade(falt_convolver *c) {
  falt_convolver_levels_drop(c, 0);
  retire(c, c->bank[0]);
  c->bank[0] = c->bank[1];
  c->bank[1] = NULL;
}

/* ---- a chunk: samples within one of the smallest partitions */

static void take_input(falt_convolver *c, const void *const *input, size_t from, int64_t at, int64_t n) {
  const size_t bytes = (size_t)n * c->element, margin = (size_t)c->margin * c->element;
  for (int i = 0; i < c->options.inputs; i++) {
    char *signal = falt_convolver_signal(c, i);
    if (at == 0) memcpy(signal - margin, signal + (size_t)c->ring * c->element - margin, margin);
    memcpy(signal + (size_t)at * c->element, (const char *)input[i] + from, bytes);
  }
}

/* An output from its levels and its pairs' first taps, from pair q on; returns the pair behind. */
static int64_t make_output(const falt_convolver *c, const falt_convolver_bank *bank, int64_t output, int64_t q,
                           int64_t at, int64_t n, char *to) {
  memset(to, 0, (size_t)n * c->element);
  for (int i = 0; i < c->levels; i++) {
    const falt_convolver_level *l = &c->level[i];
    const falt_convolver_stage *s = &bank->stage[i];
    const size_t place = (size_t)(output * l->size + c->time - l->began) * c->element;
    c->lane->add(to, s->result[s->now] + place, n);
  }
  const int64_t first = at - c->options.latency;
  for (; q < bank->pairs && bank->pair[q].output == output; q++)
    if (c->head > 0)
      c->lane->head(falt_convolver_signal(c, bank->pair[q].input) + first * (int64_t)c->element, bank->pair[q].head,
                    c->head, to, n);
  return q;
}

static void make_outputs(falt_convolver *c, void *const *output, size_t from, int64_t at, int64_t n) {
  const bool fades = c->bank[1] && c->faded >= 0;
  const double step = c->options.fade > 0 ? 1 / (double)c->options.fade : 2;
  int64_t q = 0, p = 0;
  for (int o = 0; o < c->options.outputs; o++) {
    q = make_output(c, c->bank[0], o, q, at, n, c->output);
    if (fades) {
      p = make_output(c, c->bank[1], o, p, at, n, c->other);
      c->lane->fade(c->output, c->other, n, c->faded + 1, step);
    }
    memcpy((char *)output[o] + from, c->output, (size_t)n * c->element);
  }
  if (!fades) return;
  c->faded += n;
  if (c->faded >= c->options.fade) end_fade(c);
}

static void run_chunk(falt_convolver *c, const void *const *input, void *const *output, size_t from, int64_t n) {
  const int64_t at = c->time % c->ring;
  take_waiting(c);
  if (c->bank[1] && c->faded < 0 && is_warm(c)) c->faded = 0;
  take_input(c, input, from, at, n);
  make_outputs(c, output, from, at, n);
  c->time += n;
  for (int i = 0; i < c->levels; i++) falt_convolver_level_advance(c, i);
}

static falt_status check_signals(const char *name, const void *const *signal, int count) {
  for (int i = 0; i < count; i++)
    if (!signal[i]) return falt_fail(FALT_INVALID_ARGUMENT, "%s[%d] is NULL", name, i);
  return FALT_OK;
}

falt_status falt_convolver_process(falt_convolver *c, const void *const *input, void *const *output, int64_t samples) {
  if (!c || !input || !output || samples < 0)
    return falt_fail(FALT_INVALID_ARGUMENT, "%s",
                     !c       ? "convolver is NULL"
                     : !input ? "input is NULL"
                     : output ? "samples: less than none"
                              : "output is NULL");
  if (samples == 0) return FALT_OK;
  FALT_TRY(check_signals("input", input, c->options.inputs));
  FALT_TRY(check_signals("output", (const void *const *)output, c->options.outputs));
  for (int64_t done = 0; done < samples;) {
    const int64_t n = falt_min(samples - done, c->options.partition - c->time % c->options.partition);
    run_chunk(c, input, output, (size_t)done * c->element, n);
    done += n;
  }
  return FALT_OK;
}

/* ---- the end */

static void clear_bank(const falt_convolver *c, falt_convolver_bank *bank) {
  for (int i = 0; i < c->levels; i++) {
    falt_convolver_stage *s = &bank->stage[i];
    memset(s->result[0], 0, 2 * (size_t)(c->options.outputs * c->level[i].size) * c->element);
    s->runs = false;
  }
}

void falt_convolver_reset(falt_convolver *c) {
  if (!c) return;
  c->time = 0;
  if (c->bank[1]) end_fade(c);
  clear_bank(c, c->bank[0]);
  falt_convolver_levels_reset(c);
}

void falt_convolver_destroy(falt_convolver **convolver) {
  if (!convolver || !*convolver) return;
  falt_convolver *c = *convolver;
  falt_convolver_bank_free(c->bank[0]);
  falt_convolver_bank_free(c->bank[1]);
  falt_convolver_bank_free(atomic_load(&c->waiting));
  free_retired(c);
  falt_convolver_levels_free(c);
  falt_free(c);
  *convolver = NULL;
}
