/* Tile search: keeps the candidate with the smallest estimated time. */
#include "solver/cuda/common/tile_search.h"

#include <string.h>

#include "core/memory.h"

falt_tile_search falt_tile_search_best(void *best, size_t bytes) {
  memset(best, 0, bytes);
  return (falt_tile_search){.best = best, .bytes = bytes};
}

void falt_tile_offer(falt_tile_search *s, const void *tile, const char *rejected, double seconds) {
  const bool takes = rejected ? !s->seen : !s->found || seconds < s->seconds;
  if (s->visit) s->visit(s->context, tile);
  s->found |= !rejected;
  s->seen = true;
  if (!takes) return;
  s->seconds = seconds;
  if (s->best) memcpy(s->best, tile, s->bytes);
}

int64_t falt_piece_below(int64_t whole, int64_t most, int64_t limit) {
  if (limit < 2 || whole < 1) return 0;
  const int64_t pieces = falt_ceil_div(whole, limit - 1);
  return pieces > most ? 0 : falt_ceil_div(whole, pieces);
}
