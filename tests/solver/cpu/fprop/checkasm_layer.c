/* The layer kernels in f32. */
#define LANE_BITS 32
#include "checkasm_layer.h"

int main(void) {
  return check_all();
}
