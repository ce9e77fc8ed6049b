/* The tiles of the matrix unit (AMX), for kernels that are compiled for it. */
#ifndef FALT_CPU_AMX_H
#define FALT_CPU_AMX_H

#if defined(__AMX_TILE__)
#include <immintrin.h>
#include <stdint.h>

/* Shapes the tiles: rows of 64 bytes, `rows` of them in tiles 0 to 5, and 16 in tiles 6 and 7. */
static inline void falt_amx_open(int rows) {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } shapes = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    shapes.row_bytes[i] = 64;
    shapes.rows[i] = (uint8_t)(i < 6 ? rows : 16);
  }
  __asm__ volatile("" : : "r"(&shapes) : "memory"); /* compilers do not know that all of it is read */
  _tile_loadconfig(&shapes);
}
#endif

#endif
