/* The generic kernels of one lane: a template without include guard. generic_tmpl.c includes it once for each lane. */

/* Parameters of the template:
 *   LANE(name)                the lane's own spelling of a name
 *   LANE_ELEMENT, LANE_SUM    types of rows and of sums
 *   LANE_VECTOR, LANE_WIDTH   a register of sums and its number of sums; LANE_LOAD(address) loads elements into one
 */

/* A block of `rows` x `columns` accumulators stays in registers over the whole depth, and is added to the sums then: no
 * chain of roundings is longer than a call. Always inlined with constant
 * sizes, so the loops over the block unroll. */
static inline __attribute__((always_inline)) void LANE(block)(const falt_generic_product *call, int m, int64_t i,
                                                              const int rows, const int columns) {
  LANE_VECTOR sums[ROWS][2 * COLUMN_VECTORS] = {0};
  LANE_SUM *out = (LANE_SUM *)call->sums + m * call->pitch + i;
  const LANE_ELEMENT *a = (const LANE_ELEMENT *)call->a + m * call->a_row;
  for (int j = 0; j < call->depth; j++, a += call->a_step) {
    const LANE_ELEMENT *b = (const LANE_ELEMENT *)call->b[j] + i;
    LANE_VECTOR column[2 * COLUMN_VECTORS];
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) column[c] = LANE_LOAD(b + c * LANE_WIDTH);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
      for (int c = 0; c < columns; c++) sums[r][c] += column[c] * a[r * call->a_row];
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) *(LANE_VECTOR *)(out + r * call->pitch + c * LANE_WIDTH) += sums[r][c];
}

/* `rows` rows of sums over all columns. */
static inline __attribute__((always_inline)) void LANE(band)(const falt_generic_product *call, int m, const int rows,
                                                             const int columns) {
  int64_t i = 0;
  for (; i + columns * LANE_WIDTH <= call->n; i += columns * LANE_WIDTH) LANE(block)(call, m, i, rows, columns);
  for (; i < call->n; i += LANE_WIDTH) LANE(block)(call, m, i, rows, 1);
}

static void LANE(product)(const falt_generic_product *call) {
  int m = 0;
  for (; m + ROWS <= call->rows; m += ROWS) LANE(band)(call, m, ROWS, COLUMN_VECTORS);
  for (; m + 2 <= call->rows; m += 2) LANE(band)(call, m, 2, COLUMN_VECTORS);
  for (; m < call->rows; m++) LANE(band)(call, m, 1, 2 * COLUMN_VECTORS);
}

static inline __attribute__((always_inline)) void LANE(dot_block)(const void *const *a, const int rows,
                                                                  const void *const *b, const int columns, int64_t n,
                                                                  double *totals, int pitch) {
  LANE_VECTOR sums[4][4] = {0};
  for (int64_t i = 0; i < n; i += LANE_WIDTH) {
    LANE_VECTOR row[4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) row[r] = LANE_LOAD((const LANE_ELEMENT *)a[r] + i);
#pragma GCC unroll 4
    for (int c = 0; c < columns; c++) {
      const LANE_VECTOR column = LANE_LOAD((const LANE_ELEMENT *)b[c] + i);
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) sums[r][c] += row[r] * column;
    }
  }
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < columns; c++) {
      LANE_SUM part[LANE_WIDTH];
      *(LANE_VECTOR *)part = sums[r][c];
      for (int half = LANE_WIDTH / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) part[i] += part[i + half];
      totals[r * pitch + c] += part[0];
    }
}

static void LANE(dots)(const void *const *a, int rows, const void *const *b, int columns, int64_t n, void *totals) {
  double *out = totals;
  for (int m = 0; m < rows;) {
    const int step = rows - m >= 4 ? 4 : 1;
    for (int j = 0; j < columns;) {
      const int width = columns - j >= 3 ? 3 : 1;
      if (step == 4 && width == 3)
        LANE(dot_block)(a + m, 4, b + j, 3, n, out + m * columns + j, columns);
      else if (step == 4)
        LANE(dot_block)(a + m, 4, b + j, 1, n, out + m * columns + j, columns);
      else if (width == 3)
        LANE(dot_block)(a + m, 1, b + j, 3, n, out + m * columns + j, columns);
      else
        LANE(dot_block)(a + m, 1, b + j, 1, n, out + m * columns + j, columns);
      j += width;
    }
    m += step;
  }
}

static inline __attribute__((always_inline)) void LANE(pair_block)(const void *const *a, const void *const *b,
                                                                   int depth, int64_t i, const int columns,
                                                                   LANE_SUM *sums) {
  LANE_VECTOR total[4] = {0};
  for (int j = 0; j < depth; j++) {
    const LANE_ELEMENT *x = (const LANE_ELEMENT *)a[j] + i, *y = (const LANE_ELEMENT *)b[j] + i;
#pragma GCC unroll 4
    for (int c = 0; c < columns; c++) total[c] += LANE_LOAD(x + c * LANE_WIDTH) * LANE_LOAD(y + c * LANE_WIDTH);
  }
#pragma GCC unroll 4
  for (int c = 0; c < columns; c++) *(LANE_VECTOR *)(sums + i + c * LANE_WIDTH) += total[c];
}

static void LANE(pairs)(const void *const *a, const void *const *b, int depth, int64_t n, void *sums) {
  int64_t i = 0;
  for (; i + 4 * LANE_WIDTH <= n; i += 4 * LANE_WIDTH) LANE(pair_block)(a, b, depth, i, 4, sums);
  for (; i < n; i += LANE_WIDTH) LANE(pair_block)(a, b, depth, i, 1, sums);
}

static void LANE(largest)(const void *const *b, int depth, int64_t n, void *top) {
  LANE_ELEMENT *restrict most = top;
  for (int j = 0; j < depth; j++) {
    const LANE_ELEMENT *restrict x = b[j];
    for (int64_t i = 0; i < n; i++) most[i] = ((x[i] > most[i]) | LANE_IS_NAN(x[i])) ? x[i] : most[i];
  }
}

static void LANE(first_largest)(const void *b, int32_t tag, int64_t n, void *top, int32_t *which) {
  const LANE_ELEMENT *restrict x = b;
  LANE_ELEMENT *restrict most = top;
  int32_t *restrict tags = which;
  for (int64_t i = 0; i < n; i++) {
    const bool wins = (x[i] > most[i]) | (LANE_IS_NAN(x[i]) & !LANE_IS_NAN(most[i]));
    most[i] = wins ? x[i] : most[i];
    tags[i] = wins ? tag : tags[i];
  }
}

static void LANE(add_where)(const void *b, const int32_t *which, int32_t tag, int64_t n, void *sums) {
  const LANE_ELEMENT *restrict x = b;
  LANE_SUM *restrict out = sums;
  for (int64_t i = 0; i < n; i++) out[i] += which[i] == tag ? x[i] : 0;
}

static void LANE(drain)(void *sums, int64_t n, void *totals) {
  LANE_SUM *restrict from = sums;
  double *restrict to = totals;
  for (int64_t i = 0; i < n; i++) {
    to[i] += from[i];
    from[i] = 0;
  }
}

static const falt_generic_lane LANE(lane) = {sizeof(LANE_ELEMENT), sizeof(LANE_SUM), LANE_WIDTH,    LANE(product),
                                             LANE(dots),           LANE(pairs),      LANE(largest), LANE(first_largest),
                                             LANE(add_where),      LANE(drain)};

#undef LANE
#undef LANE_ELEMENT
#undef LANE_SUM
#undef LANE_VECTOR
#undef LANE_LOAD
#undef LANE_WIDTH
#undef LANE_IS_NAN
