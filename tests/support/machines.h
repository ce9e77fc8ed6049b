/* The GPUs for which tile searches are tested. */
#ifndef FALT_TESTS_MACHINES_H
#define FALT_TESTS_MACHINES_H

#include "cuda/machine.h"

#define H200 \
  { &falt_architectures[FALT_SM_90], 132, 4.2e12, 62e12, 31e12, 1.98e9, 60 << 20 }
#define A100 \
  { &falt_architectures[FALT_SM_80], 108, 1.8e12, 19e12, 9.7e12, 1.41e9, 40 << 20 }
#define L4 \
  { &falt_architectures[FALT_SM_89], 58, 2.7e11, 30e12, 0.5e12, 2.04e9, 48 << 20 }
#define B200 \
  { &falt_architectures[FALT_SM_100], 148, 7e12, 75e12, 37e12, 1.9e9, 126 << 20 }
#define RTX5090 \
  { &falt_architectures[FALT_SM_120], 170, 1.6e12, 105e12, 1.6e12, 2.4e9, 96 << 20 }

static const falt_machine h200 = H200;

#endif
