/* Wisdom as text. An import is all or nothing, and a section is used only on its device and with its solvers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/memory.h"
#include "planner/wisdom.h"

enum { HEADER = 256 };
static const char magic[] = "faltung-wisdom ";

static uint64_t solver_set(const falt_device *device, const falt_solver *const *solvers) {
  const char *version = falt_version();
  uint64_t hash = falt_hash(FALT_HASH_START, version, strlen(version));
  for (int i = 0; solvers[i]; i++)
    if (strcmp(solvers[i]->device_kind, device->kind) == 0)
      hash = falt_hash(hash, solvers[i]->name, strlen(solvers[i]->name) + 1);
  return hash;
}

static void header_of(const falt_device *device, const falt_solver *const *solvers, char header[HEADER]) {
  snprintf(header, HEADER, "%s1 %016" PRIx64 " %s; %s", magic, solver_set(device, solvers), device->name,
           device->model);
}

/* ---- reading */

typedef struct reader {
  const falt_solver *const *solvers;
  const char *at, *end; /* end is behind the last newline */
  int line;
  char header[HEADER]; /* of the sections to read */
  bool inside;         /* such a section */
  int sections;
  falt_wisdom *found;
} reader;

static falt_status bad_line(const reader *r, const char *why) {
  return falt_fail(FALT_INVALID_TEXT, "wisdom: line %d: %s; delete the file and tune again", r->line, why);
}

/* The next word of a line, ended by a space; false if there is none. */
static bool next_word(const char **at, const char *end, const char **word, size_t *length) {
  const char *space = memchr(*at, ' ', (size_t)(end - *at));
  if (!space || space == *at) return false;
  *word = *at;
  *length = (size_t)(space - *at);
  *at = space + 1;
  return true;
}

static bool read_hex(const char *word, size_t length, uint64_t *value) {
  *value = 0;
  if (length != 16) return false;
  for (size_t i = 0; i < length; i++) {
    const char *digits = "0123456789abcdef", *digit = memchr(digits, word[i], 16);
    if (!digit) return false;
    *value = *value << 4 | (uint64_t)(digit - digits);
  }
  return true;
}

static const char *known_solver(const falt_solver *const *solvers, const char *word, size_t length) {
  for (int i = 0; solvers[i]; i++)
    if (strlen(solvers[i]->name) == length && memcmp(solvers[i]->name, word, length) == 0) return solvers[i]->name;
  return NULL;
}

/* The problem line as this version writes it; false if it is none. */
static bool canonical(const char *line, size_t length, char out[FALT_WISDOM_LINE]) {
  char copy[FALT_WISDOM_LINE];
  falt_problem problem;
  falt_budget budget;
  if (length >= sizeof copy) return false;
  memcpy(copy, line, length);
  copy[length] = '\0';
  if (falt_problem_parse(&problem, &budget, copy) != FALT_OK) return false;
  problem.filter_when = falt_problem_filter_when(&problem);
  return falt_problem_print(&problem, &budget, out, FALT_WISDOM_LINE) < FALT_WISDOM_LINE;
}

static falt_status read_entry(reader *r, const char *at, const char *end) {
  const char *word, *solver;
  size_t length;
  double seconds;
  uint64_t among;
  char line[FALT_WISDOM_LINE];
  if (!next_word(&at, end, &word, &length) || !(solver = known_solver(r->solvers, word, length)))
    return bad_line(r, "does not start with a solver's name");
  if (!next_word(&at, end, &word, &length) || !falt_read_double(word, length, &seconds) ||
      !(seconds > 0 && seconds < 1e9))
    return bad_line(r, "the second word is not a time in seconds");
  if (!next_word(&at, end, &word, &length) || !read_hex(word, length, &among))
    return bad_line(r, "the third word is not a hash of 16 hexadecimal digits");
  if (!canonical(at, (size_t)(end - at), line)) return bad_line(r, "does not end with a problem line");
  if (falt_wisdom_learn(r->found, line, among, solver, seconds)) return FALT_OK;
  return falt_fail(FALT_NO_MEMORY, "wisdom: memory ran out, or the file has too many lines");
}

static bool is_header(const char *at, const char *end) {
  return (size_t)(end - at) >= strlen(magic) && memcmp(at, magic, strlen(magic)) == 0;
}

static falt_status read_line(reader *r, const char *end) {
  r->line++;
  if (is_header(r->at, end)) {
    size_t length = strlen(r->header);
    r->inside = (size_t)(end - r->at) == length && memcmp(r->at, r->header, length) == 0;
    r->sections += r->inside;
    return FALT_OK;
  }
  if (r->line == 1) return bad_line(r, "is not the head of a wisdom file");
  return r->inside ? read_entry(r, r->at, end) : FALT_OK;
}

static falt_status read_all(reader *r) {
  while (r->at < r->end) {
    const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (!newline) newline = r->end;
    FALT_TRY(read_line(r, newline));
    if (newline == r->end) return bad_line(r, "ends without a newline: the file was cut");
    r->at = newline + 1;
  }
  return r->line ? FALT_OK : falt_fail(FALT_INVALID_TEXT, "wisdom: the file is empty; delete it and tune again");
}

falt_status falt_wisdom_import(falt_device *device, const falt_solver *const *solvers, const char *text, size_t length,
                               int *sections) {
  *sections = 0;
  if (length > FALT_WISDOM_FILE || memchr(text, '\0', length))
    return falt_fail(FALT_INVALID_TEXT, "wisdom: too long or not text; delete the file and tune again");
  reader r = {.solvers = solvers, .at = text, .end = text + length, .found = falt_wisdom_create()};
  if (!r.found) return falt_fail(FALT_NO_MEMORY, "wisdom: memory ran out");
  header_of(device, solvers, r.header);
  falt_status status = read_all(&r);
  if (status == FALT_OK) status = falt_wisdom_merge(device->wisdom, r.found);
  if (status == FALT_OK) *sections = r.sections;
  falt_wisdom_destroy(r.found);
  return status;
}

/* ---- writing */

static void write_entry(void *context, const char *line, uint64_t among, const char *solver, double seconds) {
  falt_text_add(context, "%s %.6g %016" PRIx64 " %s\n", solver, seconds, among, line);
}

/* Copies the sections of other devices, as long as the file stays within its limit. */
static void write_others(falt_text *text, const char *header, const char *old) {
  bool inside = false;
  size_t length;
  for (const char *at = old; *at; at += length + 1) {
    const char *newline = strchr(at, '\n');
    if (!newline) return;
    length = (size_t)(newline - at);
    if (is_header(at, newline)) inside = length != strlen(header) || memcmp(at, header, length) != 0;
    if (inside && text->length + length < FALT_WISDOM_FILE) falt_text_add(text, "%.*s\n", (int)length, at);
  }
}

static void write_all(falt_text *text, const falt_device *device, const char *header, const char *old) {
  falt_text_add(text, "%s\n", header);
  falt_wisdom_each(device->wisdom, write_entry, text);
  if (old) write_others(text, header, old);
}

char *falt_wisdom_export(const falt_device *device, const falt_solver *const *solvers, const char *old,
                         size_t *length) {
  char header[HEADER];
  header_of(device, solvers, header);
  falt_text text = falt_text_over(NULL, 0);
  write_all(&text, device, header, old);
  for (;;) { /* another thread may learn between counting and writing */
    size_t size = text.length + 1;
    char *data = falt_alloc(size);
    if (!data) return NULL;
    text = falt_text_over(data, size);
    write_all(&text, device, header, old);
    *length = text.length;
    if (text.length < size) return data;
    falt_free(data);
  }
}
