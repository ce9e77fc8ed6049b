/* A reverb in real time: convolves a signal with a room's response in blocks of 64 samples, without added latency.
 *   cc reverb.c $(pkg-config --cflags --libs faltung) -ldl -lm -o reverb
 *   ./reverb [SIGNAL.f32 RESPONSE.f32 [OUTPUT.f32]]    mono, 48 kHz; without arguments, three claps in a hall
 * Plays through ALSA, or writes OUTPUT.f32: all samples, with the reverb's tail. */
#include <dlfcn.h>
#include <faltung/faltung.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, RATE = 48000, LATENCY = 10000 /* us */ };

typedef struct sound {
  float *sample;
  int64_t count;
} sound;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "reverb: %s: %s\n", what, why);
  exit(EXIT_FAILURE);
}

static sound silence(int64_t count) {
  const sound made = {calloc((size_t)count, sizeof(float)), count};
  if (!made.sample) fail("memory", "none left; use shorter files");
  return made;
}

/* ---- sources */

static sound read_sound(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) fail(path, "cannot be read; give a file of f32 samples");
  const long bytes = ftell(file);
  if (bytes < (long)sizeof(float)) fail(path, "holds no samples; give a file of f32 samples");
  const sound from = silence(bytes / (long)sizeof(float));
  rewind(file);
  if (fread(from.sample, sizeof(float), (size_t)from.count, file) != (size_t)from.count) fail(path, "cannot be read");
  fclose(file);
  return from;
}

static sound decaying_noise(int64_t count, double seconds, float level) {
  const sound noise = silence(count);
  falt_random_fill(noise.sample, FALT_F32, count, 1);
  for (int64_t i = 0; i < count; i++) noise.sample[i] *= level * (float)exp(-(double)i / (seconds * RATE));
  return noise;
}

static sound claps(void) {
  const sound clap = decaying_noise(RATE / 50, 0.004, 0.5f), all = silence(2 * RATE);
  for (int i = 0; i < 3; i++)
    memcpy(all.sample + (int64_t)i * RATE / 2, clap.sample, (size_t)clap.count * sizeof(float));
  free(clap.sample);
  return all;
}

/* ---- where samples go: a device, else a file, else nowhere */

typedef struct sink {
  FILE *file;
  void *pcm; /* a snd_pcm_t */
  long (*write)(void *pcm, const void *frames, unsigned long count);
  int (*recover)(void *pcm, int error, int silent);
  int (*drain)(void *pcm);
  int (*close)(void *pcm);
} sink;

static void ignore(const char *file, int line, const char *function, int error, const char *format, ...) {
  (void)file, (void)line, (void)function, (void)error, (void)format;
}

/* The function of that name, into the pointer at `to`. */
static bool find(void *library, const char *name, void *to) {
  void *found = dlsym(library, name);
  memcpy(to, &found, sizeof found);
  return found != NULL;
}

/* ALSA's library is not linked: the program runs where there is none. */
static bool open_device(sink *to) {
  enum { PLAYBACK = 0, INTERLEAVED = 3, FLOAT_LE = 14 };
  int (*open)(void **, const char *, int, int), (*set)(void *, int, int, unsigned, unsigned, int, unsigned);
  int (*report)(void (*)(const char *, int, const char *, int, const char *, ...));
  void *alsa = dlopen("libasound.so.2", RTLD_NOW);
  if (!alsa) return false;
  if (!find(alsa, "snd_pcm_open", &open) || !find(alsa, "snd_pcm_set_params", &set) ||
      !find(alsa, "snd_lib_error_set_handler", &report) || !find(alsa, "snd_pcm_writei", &to->write) ||
      !find(alsa, "snd_pcm_recover", &to->recover) || !find(alsa, "snd_pcm_drain", &to->drain) ||
      !find(alsa, "snd_pcm_close", &to->close))
    return false;
  report(ignore);
  if (open(&to->pcm, "default", PLAYBACK, 0) < 0) {
    to->pcm = NULL;
    return false;
  }
  if (set(to->pcm, FLOAT_LE, INTERLEAVED, 1, RATE, 1, LATENCY) < 0) fail("ALSA", "the device takes no mono f32");
  return true;
}

static void put(const sink *to, const float *samples, int64_t count) {
  if (to->file && fwrite(samples, sizeof *samples, (size_t)count, to->file) != (size_t)count)
    fail("output", "cannot be written; free some space");
  for (int64_t done = 0; to->pcm && done < count;) {
    const long written = to->write(to->pcm, samples + done, (unsigned long)(count - done));
    if (written < 0 && to->recover(to->pcm, (int)written, 1) < 0) fail("ALSA", "the device stopped");
    done += written > 0 ? written : 0;
  }
}

static void close_sink(const sink *to) {
  if (to->file && fclose(to->file) != 0) fail("output", "cannot be written; free some space");
  if (!to->pcm) return;
  to->drain(to->pcm);
  to->close(to->pcm);
}

/* ---- the reverb */

static falt_convolver *make_convolver(const sound *response) {
  falt_device *device = NULL;
  falt_convolver *convolver = NULL;
  falt_convolver_options options;
  falt_convolver_options_default(&options);
  options.taps = response->count;
  if (falt_device_cpu(&device, NULL) != FALT_OK ||
      falt_convolver_create(&convolver, device, &options, &(const void *){response->sample}) != FALT_OK)
    fail("convolver", falt_message());
  falt_device_destroy(&device);
  return convolver;
}

static float run(falt_convolver *convolver, const sound *signal, int64_t samples, const sink *to) {
  float peak = 0;
  for (int64_t at = 0; at < samples; at += BLOCK) {
    float block[BLOCK] = {0};
    const int64_t count = samples - at < BLOCK ? samples - at : BLOCK;
    for (int64_t i = 0; i < count && at + i < signal->count; i++) block[i] = signal->sample[at + i];
    if (falt_convolver_process(convolver, &(const void *){block}, &(void *){block}, BLOCK) != FALT_OK)
      fail("convolver", falt_message());
    for (int64_t i = 0; i < count; i++) peak = fmaxf(peak, fabsf(block[i]));
    put(to, block, count);
  }
  return peak;
}

int main(int count, char **word) {
  if (count == 2 || count > 4) fail("usage", "reverb [SIGNAL.f32 RESPONSE.f32 [OUTPUT.f32]]");
  const sound signal = count > 1 ? read_sound(word[1]) : claps();
  const sound response = count > 1 ? read_sound(word[2]) : decaying_noise(2 * RATE, 0.4, 0.05f);
  const int64_t samples = signal.count + response.count - 1;
  sink to = {.file = count > 3 ? fopen(word[3], "wb") : NULL};
  if (count > 3 && !to.file) fail(word[3], "cannot be written; name a file in a folder that can");
  const bool plays = !to.file && open_device(&to);
  falt_convolver *convolver = make_convolver(&response);
  const float peak = run(convolver, &signal, samples, &to);
  close_sink(&to);
  printf("%.2f s, peak %.3f, %s\n", (double)samples / RATE, (double)peak,
         to.file ? word[3]
         : plays ? "played"
                 : "no audio device; name an output file");
  falt_convolver_destroy(&convolver);
  free(signal.sample), free(response.sample);
  return EXIT_SUCCESS;
}
