/* The layer kernels in f64. */
#define LANE_BITS 64
#include "checkasm_layer.h"

int main(void) {
  return check_all();
}
