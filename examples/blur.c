/* Tier 1, one call: blurs an image of interleaved 8-bit pixels with a 5x5 box, continuing it by its mirror image.
 *   cc blur.c $(pkg-config --cflags --libs faltung) */
#include <faltung/faltung.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEIGHT = 240, WIDTH = 320, CHANNELS = 3 };

int main(void) {
  static uint8_t source[HEIGHT * WIDTH * CHANNELS], blurred[HEIGHT * WIDTH * CHANNELS];
  static float box[5 * 5];
  for (int i = 0; i < HEIGHT * WIDTH * CHANNELS; i++) source[i] = (uint8_t)((i / 60) % 2 * 200);
  for (int i = 0; i < 5 * 5; i++) box[i] = 1.0f / 25;

  const falt_const_array src = falt_const_image(source, FALT_U8, HEIGHT, WIDTH, CHANNELS, WIDTH * CHANNELS);
  const falt_array dst = falt_image(blurred, FALT_U8, HEIGHT, WIDTH, CHANNELS, WIDTH * CHANNELS);
  const falt_const_array taps = falt_const_volume(box, FALT_F32, 1, 5, 5);

  falt_options options;
  falt_options_default(&options);
  for (int axis = 0; axis < 3; axis++) options.axis[axis].boundary[0] = options.axis[axis].boundary[1] = FALT_SYMMETRIC;

  if (falt_correlate(&src, &taps, &dst, &options) != FALT_OK) {
    fprintf(stderr, "%s\n", falt_message());
    return EXIT_FAILURE;
  }
  printf("the middle pixel was %d, is %d\n", source[(HEIGHT / 2 * WIDTH + WIDTH / 2) * CHANNELS],
         blurred[(HEIGHT / 2 * WIDTH + WIDTH / 2) * CHANNELS]);
  return EXIT_SUCCESS;
}
