/* Expands lines of suites that stand for many problems, and finds cliffs in their speed. */
#include "walk.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- lists */

/* Items of the list that begins after an opening bracket, up to its end; 0 if it has none. */
static int count_items(const char *list, const char *end) {
  int count = 1;
  for (; list && end && list < end; list++) count += *list == ',';
  return end ? count : 0;
}

/* Where the list ends that opens at `open`; NULL if it does not, or another opens in it. */
static const char *find_end(const char *open) {
  const char *end = open + 1 + strcspn(open + 1, "{}[]@");
  return *end == (*open == '{' ? '}' : ']') ? end : NULL;
}

static const char *find_item(const char *list, int index, size_t *length) {
  while (index-- > 0) list += strcspn(list, ",") + 1;
  *length = strcspn(list, ",]}");
  return list;
}

bool cli_walk_measure(const char *line, cli_walk *walk) {
  enum { MOST = 10000 };
  *walk = (cli_walk){.walks = 1, .points = 1};
  bool has_points = false;
  for (const char *at = line + strcspn(line, "{}[]@"); *at && *at != '@'; at += strcspn(at, "{}[]@")) {
    const char *end = strchr("{[", *at) ? find_end(at) : NULL;
    const int count = count_items(at + 1, end);
    if (count == 0 || count > MOST) return false;
    if (*at == '{') {
      if (walk->walks > MOST / count) return false;
      walk->walks *= count;
    } else {
      if (has_points && walk->points != count) return false;
      walk->points = count;
      has_points = true;
    }
    at = end + 1;
  }
  return true;
}

/* ---- one point */

/* Text that grows within bounds. */
typedef struct buffer {
  char *text;
  size_t size, used;
} buffer;

static void append(buffer *to, const char *text, size_t length) {
  if (to->used + length < to->size) {
    memcpy(to->text + to->used, text, length);
    to->text[to->used + length] = '\0';
  }
  to->used += length;
}

static void append_suffix(buffer *suffix, const char *item, size_t length) {
  append(suffix, "-", 1);
  append(suffix, item, length);
}

bool cli_walk_expand(const char *line, int walk, int point, char *text, size_t size, char *suffix, size_t room) {
  buffer whole = {.text = text, .size = size}, name = {.text = suffix, .size = room};
  const char *first_point = NULL;
  append(&whole, "", 0);
  append(&name, "", 0);
  for (;;) {
    const size_t plain = strcspn(line, "{[@");
    append(&whole, line, plain);
    line += plain;
    if (*line != '{' && *line != '[') break;
    const char *end = find_end(line);
    const int count = count_items(line + 1, end), index = *line == '{' ? walk % count : point;
    size_t length;
    const char *item = find_item(line + 1, index, &length);
    append(&whole, item, length);
    if (*line == '{') {
      append_suffix(&name, item, length);
      walk /= count;
    } else if (!first_point) {
      first_point = item;
    }
    line = end + 1;
  }
  append(&whole, line, strlen(line));
  if (first_point) append_suffix(&name, first_point, strcspn(first_point, ",]"));
  return whole.used < size && name.used < room;
}

/* ---- cliffs */

static int next_measured(const double *cost, int count, int from, int step) {
  for (int i = from + step; i >= 0 && i < count; i += step)
    if (cost[i] > 0) return i;
  return -1;
}

double cli_walk_rise(const double *cost, int count, int i, int *neighbour) {
  const int before = next_measured(cost, count, i, -1), after = next_measured(cost, count, i, 1);
  *neighbour = before < 0 || (after >= 0 && cost[after] < cost[before]) ? after : before;
  return *neighbour < 0 ? NAN : cost[i] / cost[*neighbour];
}
