/* The table of wisdom: a growing array, searched by hash. It holds thousands of problems at most. */
#include "planner/wisdom.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/memory.h"

enum { MAX_ENTRIES = 1 << 14 };

typedef struct memory {
  uint64_t hash, among; /* of line; of the solvers that competed */
  double seconds;
  char solver[FALT_WISDOM_NAME];
  char *line;
} memory;

struct falt_wisdom {
  pthread_mutex_t lock;
  memory *entries;
  int count, room;
};

falt_wisdom *falt_wisdom_create(void) {
  falt_wisdom *wisdom = falt_alloc_zero(sizeof *wisdom);
  if (wisdom) pthread_mutex_init(&wisdom->lock, NULL);
  return wisdom;
}

static void clear(falt_wisdom *wisdom) {
  for (int i = 0; i < wisdom->count; i++) falt_free(wisdom->entries[i].line);
  falt_free(wisdom->entries);
  wisdom->entries = NULL;
  wisdom->count = wisdom->room = 0;
}

void falt_wisdom_destroy(falt_wisdom *wisdom) {
  if (!wisdom) return;
  clear(wisdom);
  pthread_mutex_destroy(&wisdom->lock);
  falt_free(wisdom);
}

void falt_wisdom_clear(falt_wisdom *wisdom) {
  pthread_mutex_lock(&wisdom->lock);
  clear(wisdom);
  pthread_mutex_unlock(&wisdom->lock);
}

bool falt_wisdom_is_empty(falt_wisdom *wisdom) {
  pthread_mutex_lock(&wisdom->lock);
  bool empty = wisdom->count == 0;
  pthread_mutex_unlock(&wisdom->lock);
  return empty;
}

static memory *find(const falt_wisdom *wisdom, uint64_t hash, uint64_t among, const char *line) {
  for (int i = 0; i < wisdom->count; i++) {
    memory *entry = &wisdom->entries[i];
    if (entry->hash == hash && entry->among == among && strcmp(entry->line, line) == 0) return entry;
  }
  return NULL;
}

bool falt_wisdom_find(falt_wisdom *wisdom, const char *line, uint64_t among, char solver[FALT_WISDOM_NAME]) {
  uint64_t hash = falt_hash(FALT_HASH_START, line, strlen(line));
  pthread_mutex_lock(&wisdom->lock);
  const memory *entry = find(wisdom, hash, among, line);
  if (entry) memcpy(solver, entry->solver, FALT_WISDOM_NAME);
  pthread_mutex_unlock(&wisdom->lock);
  return entry != NULL;
}

/* Makes room for a number of additional entries. */
static bool reserve(falt_wisdom *wisdom, int more) {
  if (more > MAX_ENTRIES - wisdom->count) return false;
  if (wisdom->count + more <= wisdom->room) return true;
  int room = wisdom->count + more + wisdom->room;
  memory *entries = falt_alloc((size_t)room * sizeof *entries);
  if (!entries) return false;
  if (wisdom->count) memcpy(entries, wisdom->entries, (size_t)wisdom->count * sizeof *entries);
  falt_free(wisdom->entries);
  wisdom->entries = entries;
  wisdom->room = room;
  return true;
}

/* Takes the entry's line over. There must be room. */
static void put(falt_wisdom *wisdom, const memory *entry) {
  memory *old = find(wisdom, entry->hash, entry->among, entry->line);
  if (old) falt_free(old->line);
  memory *place = old ? old : &wisdom->entries[wisdom->count++];
  *place = *entry;
}

static char *copy_of(const char *line) {
  size_t size = strlen(line) + 1;
  char *copy = falt_alloc(size);
  if (copy) memcpy(copy, line, size);
  return copy;
}

bool falt_wisdom_learn(falt_wisdom *wisdom, const char *line, uint64_t among, const char *solver, double seconds) {
  memory entry = {.hash = falt_hash(FALT_HASH_START, line, strlen(line)), .among = among, .seconds = seconds};
  if (strlen(solver) >= sizeof entry.solver || !(entry.line = copy_of(line))) return false;
  memcpy(entry.solver, solver, strlen(solver));
  pthread_mutex_lock(&wisdom->lock);
  bool fits = reserve(wisdom, 1);
  if (fits)
    put(wisdom, &entry);
  else
    falt_free(entry.line);
  pthread_mutex_unlock(&wisdom->lock);
  return fits;
}

falt_status falt_wisdom_merge(falt_wisdom *wisdom, falt_wisdom *other) {
  pthread_mutex_lock(&wisdom->lock);
  bool fits = reserve(wisdom, other->count);
  for (int i = 0; fits && i < other->count; i++) put(wisdom, &other->entries[i]);
  pthread_mutex_unlock(&wisdom->lock);
  if (!fits) return falt_fail(FALT_NO_MEMORY, "wisdom: memory ran out, or more than %d problems", MAX_ENTRIES);
  other->count = 0; /* the lines have moved */
  return FALT_OK;
}

void falt_wisdom_each(falt_wisdom *wisdom,
                      void (*visit)(void *context, const char *line, uint64_t among, const char *solver,
                                    double seconds),
                      void *context) {
  pthread_mutex_lock(&wisdom->lock);
  for (int i = 0; i < wisdom->count; i++) {
    const memory *entry = &wisdom->entries[i];
    visit(context, entry->line, entry->among, entry->solver, entry->seconds);
  }
  pthread_mutex_unlock(&wisdom->lock);
}
