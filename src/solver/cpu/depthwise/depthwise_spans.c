/* Cuts output rows of layers of small groups into spans of positions that read the source in the same way, and lists
 * the pieces of taps that each span reads. */
#include <string.h>

#include "solver/cpu/depthwise/depthwise.h"

/* Tiles whose windows are inside the source are joined; each other tile is a span. Neighbouring segments whose taps all
 * read one affine piece of the boundary form one piece, so a span has few pieces for any number of taps. Spans are
 * computed for the chosen plan only; estimates use a sample of them. */

enum {
  LONGEST = 64, /* tiles of a span: rows of 1D layers are shared out by spans */
  SAMPLE = 256  /* spans of a row that an estimate looks at */
};
static const int64_t MOST_TABLE = 1 << 24, MOST_LOOKED = 1 << 20; /* elements */

typedef struct builder {
  falt_depthwise *d;
  falt_polyphase polyphase;
  falt_link *links; /* of the polyphase part */
  int64_t link_count, link_room;
  int64_t tiles, first, last; /* of the polyphase part; those inside are [first, last) */
  bool stores;                /* or only counts */
  double weight;              /* spans that the counted one represents */
  double tables;              /* elements, as counted */
} builder;

/* ---- pieces */

/* Whether the tables exceed the limit of an estimate, or of a plan. */
static bool is_too_large(const builder *b) {
  return b->d->table_length > (b->stores ? MOST_TABLE : MOST_LOOKED) || b->tables > (double)MOST_TABLE;
}

static void add_piece(builder *b, int64_t count, const falt_depthwise_piece *piece) {
  falt_depthwise *d = b->d;
  const double segments = b->weight * (double)(1 + piece->repeats);
  if (b->stores) d->pieces[d->piece_count] = *piece;
  d->piece_count++;
  d->segments += 1 + piece->repeats;
  d->products[piece->taps] += segments * (double)count * piece->taps;
  d->columns += segments * (double)(piece->near ? count + piece->taps - 1 : count * piece->taps);
}

/* The column that tap s of output q reads: an element, or NONE; of the constants' row if requested. */
static int64_t column(const builder *b, const falt_link *link, int64_t q, int64_t s, bool constant) {
  if (!falt_link_covers(link, q)) return FALT_DEPTHWISE_NONE;
  const int64_t u = falt_link_source(link, q, s);
  if (constant) return u < 0 ? 0 : FALT_DEPTHWISE_NONE;
  return u < 0 ? FALT_DEPTHWISE_NONE : u * b->d->pixel;
}

/* Columns of a near piece from output q on that are read, if they are consecutive: a boundary that skips outside
 * columns needs no table. */
static bool add_range(builder *b, const falt_link *link, falt_depthwise_piece piece, int64_t q, int64_t count,
                      int64_t s) {
  const int64_t every = piece.tap_every;
  if (!piece.near || !falt_link_covers(link, q) || !falt_link_covers(link, q + count - 1)) return false;
  piece.begin = piece.end = 0;
  for (int64_t i = 0; i < count + piece.taps - 1; i++) {
    const int64_t beyond = falt_max(0, i - (count - 1)); /* columns that only later taps of the last output read */
    const int64_t at = column(b, link, q + i - beyond, s + beyond * every, false);
    if (at == FALT_DEPTHWISE_NONE) continue;
    if (at != piece.from + i * piece.step || (piece.end > 0 && piece.end < i)) return false;
    if (piece.end == 0) piece.begin = i;
    piece.end = i + 1;
  }
  if (piece.end > 0) add_piece(b, count, &piece);
  return true;
}

/* Taps s, s + tap_every, ... of outputs [q, q + count), by a table; left out if nothing is read. */
static void add_listed(builder *b, const falt_link *link, falt_depthwise_piece piece, int64_t q, int64_t count,
                       int64_t s) {
  falt_depthwise *d = b->d;
  bool any = false;
  piece.near = false;
  piece.table = d->table_length;
  piece.table_length = piece.taps * count;
  for (int64_t i = 0; i < piece.table_length && !any; i++)
    any = column(b, link, q + i % count, s + i / count * piece.tap_every, piece.constant) != FALT_DEPTHWISE_NONE;
  if (!any) return;
  for (int64_t i = 0; i < piece.table_length && b->stores; i++)
    d->tables[piece.table + i] = column(b, link, q + i % count, s + i / count * piece.tap_every, piece.constant);
  d->table_length += piece.table_length;
  b->tables += b->weight * (double)piece.table_length;
  add_piece(b, count, &piece);
}

/* How many segments from tap s on read, with all their taps and from all `count` outputs, one affine piece of the
 * boundary; 0: this one reads several. */
static int64_t alike(const falt_link *link, const falt_depthwise_piece *piece, int64_t q, int64_t count, int64_t s,
                     int64_t segments, int *slope) {
  const int64_t span = link->step * (count - 1), taps = (piece->taps - 1) * piece->tap_every * link->tap_step;
  const int64_t low = link->base + link->step * q + link->tap_step * s + falt_min(0, span);
  const int64_t reach = taps + (span < 0 ? -span : span); /* from the least position to the greatest */
  int64_t length = low < 0 ? -low : low < link->size ? link->size - low : INT64_MAX - low;
  if (!falt_link_covers(link, q) || !falt_link_covers(link, q + count - 1)) return 0;
  *slope = low >= 0 && low < link->size ? 1 : 0;
  if (link->axis) length = falt_axis_piece(link->axis, link->size, low, slope);
  if (reach >= length) return 0;
  return falt_min(segments, (length - 1 - reach) / (piece->taps * piece->tap_every * link->tap_step) + 1);
}

/* Segments of one affine piece of the boundary, as one piece. Outside columns are the constant, or skipped. */
static void add_alike(builder *b, const falt_link *link, falt_depthwise_piece piece, int64_t q, int64_t count,
                      int64_t s, int slope) {
  const int64_t u = link->base + link->step * q + link->tap_step * s, at = falt_link_fold(link, u);
  const bool constant = at < 0, folded = constant || at != u;
  if (constant && b->d->relation.fill == 0) return;
  piece.constant = constant;
  piece.near &= !folded;
  if (folded) {
    piece.from = constant ? 0 : at * b->d->pixel;
    piece.step *= slope;
    piece.tap_step *= slope;
  }
  if (constant) piece.end = 0;
  add_piece(b, count, &piece);
}

/* One segment that reads several pieces of the boundary. */
static void add_mixed(builder *b, const falt_link *link, falt_depthwise_piece piece, int64_t q, int64_t count,
                      int64_t s) {
  if (!add_range(b, link, piece, q, count, s)) add_listed(b, link, piece, q, count, s);
  piece.constant = true;
  if (b->d->relation.fill != 0) add_listed(b, link, piece, q, count, s);
}

/* Every `every`-th tap of a link from `first` on, cut to the lengths of kernels. */
static void add_taps(builder *b, const falt_link *link, int64_t q, int64_t count, int64_t first, int64_t every) {
  const falt_depthwise_reads reads = b->d->unit.reads;
  const int64_t pixel = b->d->pixel, whole = falt_depthwise_taps(reads, INT64_MAX);
  falt_depthwise_piece piece = {.step = link->step * pixel,
                                .tap_step = link->tap_step * every * pixel,
                                .tap_next = link->tap_next * every,
                                .tap_every = every,
                                .near = link->step == link->tap_step * every};
  for (int64_t s = first; s < link->taps && !is_too_large(b) && !falt_cancelled();) {
    const int64_t left = falt_ceil_div(link->taps - s, every);
    int slope;
    piece.from = (link->base + link->step * q + link->tap_step * s) * pixel;
    piece.tap = link->tap_first + link->tap_next * s;
    piece.taps = falt_depthwise_taps(reads, left);
    piece.begin = 0;
    piece.end = count + piece.taps - 1;
    const int64_t n = alike(link, &piece, q, count, s, piece.taps == whole ? left / whole : 1, &slope);
    piece.repeats = falt_max(0, n - 1);
    if (n > 0)
      add_alike(b, link, piece, q, count, s, slope);
    else
      add_mixed(b, link, piece, q, count, s);
    s += (1 + piece.repeats) * piece.taps * every;
  }
}

/* If a stride is a few taps, taps at that distance are neighbours: one tap of a position and another tap of the next
 * position read the same column. Only groups of one channel are limited by loads. */
static int64_t every_of(const falt_depthwise *d, const falt_link *link) {
  const int64_t ratio = link->tap_step != 0 ? link->step / link->tap_step : 0;
  const bool spares = d->unit.reads != FALT_READS_EACH;
  return spares && ratio > 0 && ratio * link->tap_step == link->step ? falt_min(ratio, link->taps) : 1;
}

/* ---- spans */

static bool meets(const falt_link *link, int64_t q, int64_t end) {
  return link->first < end && link->first + link->count > q;
}

static void add_span(builder *b, int64_t q, int64_t end) {
  falt_depthwise *d = b->d;
  const int64_t first = d->piece_count;
  d->segments = 0;
  for (int64_t l = 0; l < b->link_count; l++) {
    const falt_link *link = &b->links[l];
    if (!meets(link, q, end)) continue;
    const int64_t every = every_of(d, link);
    for (int64_t i = 0; i < every; i++) add_taps(b, link, q, end - q, i, every);
  }
  if (b->stores)
    d->spans[d->span_count] = (falt_depthwise_span){b->polyphase.origin + b->polyphase.step * q, b->polyphase.step,
                                                    end - q, first, d->piece_count - first};
  d->pieces_most = falt_max(d->pieces_most, d->segments);
  d->longest = falt_max(d->longest, end - q);
  d->span_count++;
}

/* ---- polyphase parts */

/* The links of the polyphase part. False if memory ran out. */
static bool list_links(builder *b) {
  const falt_generic_plan *relation = &b->d->relation;
  falt_link link;
  b->link_count = 0;
  for (bool any = falt_link_first(relation, 2, b->polyphase, &link); any && !falt_cancelled();
       any = falt_link_next(relation, 2, b->polyphase, &link)) {
    if (b->link_count == b->link_room) {
      falt_link *more = falt_alloc((size_t)(2 * b->link_room + 4) * sizeof *more);
      if (!more) return false;
      if (b->link_count > 0) memcpy(more, b->links, (size_t)b->link_count * sizeof *more);
      falt_free(b->links);
      b->links = more;
      b->link_room = 2 * b->link_room + 4;
    }
    b->links[b->link_count++] = link;
  }
  return true;
}

/* Removes the link's part from [*begin, *end): the longer rest stays. */
static void keep_away(const falt_link *link, int64_t *begin, int64_t *end) {
  const int64_t before = link->first - *begin, behind = *end - (link->first + link->count);
  if (!meets(link, *begin, *end)) return;
  if (before > behind)
    *end = link->first;
  else
    *begin = link->first + link->count;
}

/* Outputs [*begin, *end) read by the main link alone, and all of its taps inside the source. */
static void find_inside(const builder *b, int64_t *begin, int64_t *end) {
  const falt_link *main = b->links;
  *begin = *end = 0;
  if (b->link_count == 0 || !falt_link_is_main(main)) return;
  const int64_t last = main->size - 1 - main->base - main->tap_step * (main->taps - 1);
  *begin = falt_max(main->first, main->base < 0 ? falt_ceil_div(-main->base, main->step) : 0);
  *end = last < 0 ? 0 : falt_min(main->first + main->count, last / main->step + 1);
  for (int64_t i = 1; i < b->link_count; i++) keep_away(&b->links[i], begin, end);
}

static bool open_polyphase(builder *b, int64_t index) {
  const int64_t tile = b->d->kernels->tile;
  int64_t begin, end;
  b->polyphase = falt_polyphase_at(&b->d->relation, 2, index);
  if (!list_links(b)) return false;
  find_inside(b, &begin, &end);
  b->tiles = falt_ceil_div(b->polyphase.count, tile);
  b->first = falt_ceil_div(begin, tile);
  b->last = end >= b->polyphase.count ? b->tiles : end / tile;
  if (begin >= end || b->first >= b->last) b->first = b->last = 0;
  return true;
}

static void add_tiles(builder *b, int64_t first, int64_t last) {
  const int64_t tile = b->d->kernels->tile;
  add_span(b, first * tile, falt_min(last * tile, b->polyphase.count));
}

/* ---- counts for the estimate and the memory of a plan */

/* Samples the tiles [first, first + count), each representing several. */
static void sample_tiles(builder *b, int64_t first, int64_t count, int64_t most) {
  const int64_t n = falt_min(count, falt_max(2, most));
  b->weight = n > 0 ? (double)count / (double)n : 0;
  for (int64_t i = 0; i < n && !falt_cancelled(); i++) {
    const int64_t at = n > 1 ? first + i * (count - 1) / (n - 1) : first;
    add_tiles(b, at, at + 1);
  }
}

/* Spans inside differ by their positions alone. */
static void sample_inside(builder *b, int64_t spans) {
  const int64_t last = b->first + (spans - 1) * LONGEST;
  b->weight = (double)(spans - 1);
  if (spans > 1) add_tiles(b, b->first, b->first + LONGEST);
  b->weight = 1;
  if (spans > 0) add_tiles(b, last, b->last);
}

/* At most as many segments as a span of the polyphase part may have. */
static int64_t segments_bound(const builder *b) {
  int64_t bound = 0;
  for (int64_t i = 0; i < b->link_count; i++) bound += b->links[i].taps;
  return b->d->relation.fill != 0 ? 2 * bound : bound;
}

static bool sample_polyphase(builder *b, int64_t index, int64_t most) {
  falt_depthwise *d = b->d;
  if (!open_polyphase(b, index)) return false;
  const int64_t inside = falt_ceil_div(b->last - b->first, LONGEST), behind = b->tiles - b->last;
  const int64_t spans = d->span_count + b->first + inside + behind;
  sample_tiles(b, 0, b->first, most);
  sample_inside(b, inside);
  sample_tiles(b, b->last, behind, most);
  d->tile_count += b->tiles;
  d->span_count = spans;
  d->segments_most = falt_max(d->segments_most, segments_bound(b));
  return true;
}

const char *falt_depthwise_count(falt_depthwise *d, bool *no_memory) {
  builder b = {.d = d};
  const int64_t polyphases = falt_polyphase_count(&d->relation, 2);
  for (int64_t i = 0; i < polyphases && !*no_memory && !is_too_large(&b) && !falt_cancelled(); i++)
    *no_memory = !sample_polyphase(&b, i, SAMPLE / polyphases);
  falt_free(b.links);
  return *no_memory ? "memory ran out while planning" : is_too_large(&b) ? "its table of columns is too large" : NULL;
}

/* ---- the spans of a plan that will run */

static bool add_polyphase(builder *b, int64_t index) {
  if (!open_polyphase(b, index)) return false;
  for (int64_t tile = 0, end; tile < b->tiles && !falt_cancelled(); tile = end) {
    const bool inside = tile >= b->first && tile < b->last;
    end = inside ? falt_min(tile + LONGEST, b->last) : tile + 1;
    add_tiles(b, tile, end);
  }
  return true;
}

static bool add_polyphases(builder *b, bool stores) {
  falt_depthwise *d = b->d;
  b->stores = stores;
  b->weight = b->tables = 0;
  d->span_count = d->piece_count = d->table_length = 0;
  for (int64_t i = 0; i < falt_polyphase_count(&d->relation, 2); i++)
    if (!add_polyphase(b, i)) return false;
  return !falt_cancelled();
}

/* Spans are counted, then made. */
static bool make_spans(falt_depthwise *d, builder *b) {
  if (!add_polyphases(b, false)) return false;
  d->spans = falt_alloc((size_t)d->span_count * sizeof *d->spans);
  d->pieces = falt_alloc((size_t)d->piece_count * sizeof *d->pieces);
  d->tables = falt_alloc((size_t)d->table_length * sizeof *d->tables);
  return d->spans && d->pieces && d->tables && add_polyphases(b, true);
}

falt_status falt_depthwise_ready(falt_depthwise *d) {
  builder b = {.d = d};
  const bool made = d->spans || make_spans(d, &b);
  falt_free(b.links);
  if (falt_cancelled()) return FALT_CANCELLED;
  return made ? FALT_OK : falt_fail(FALT_NO_MEMORY, "planning: memory for the spans of a row ran out");
}

void falt_depthwise_free(falt_depthwise *d) {
  falt_free(d->spans);
  falt_free(d->pieces);
  falt_free(d->tables);
}
