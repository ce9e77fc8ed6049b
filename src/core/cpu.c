/* Instruction sets and cache sizes of this processor. */
#include "core/cpu.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"

static const char *const names[FALT_ISA_COUNT] = {"portable", "neon", "avx2", "avx512", "vnni", "bf16", "amx"};

const char *falt_isa_name(falt_isa isa) {
  return (unsigned)isa < FALT_ISA_COUNT ? names[isa] : "unknown";
}

int falt_isa_find(const char *name) {
  for (int i = 0; i < FALT_ISA_COUNT; i++)
    if (strcmp(names[i], name) == 0) return i;
  return -1;
}

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

/* Which register files the operating system saves when it switches threads. */
static uint32_t saved_registers(void) {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

static bool has_all(uint32_t bits, uint32_t wanted) {
  return (bits & wanted) == wanted;
}

/* Linux enables the tiles (8 KB of state) only for processes that request them; then all their threads may use them. */
static bool may_use_tiles(void) {
#if defined(__linux__)
  enum { REQUEST = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
  return false;
#endif
}

static falt_isa x86_level(void) {
  const uint32_t vex = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
  const uint32_t evex = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  const uint32_t ymm = 0x06, zmm = 0xe6; /* SSE and AVX state; also opmask and both halves of zmm state */
  const uint32_t tiles = 1u << 22 | 1u << 24 | 1u << 25, tile_state = 0x60000; /* bf16, tiles, 8-bit; both states */
  uint32_t a, b, c, d, features;
  if (!__get_cpuid(1, &a, &b, &features, &d) || !has_all(features, vex)) return FALT_ISA_PORTABLE;
  const uint32_t saved = saved_registers();
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_all(b, bit_AVX2) || !has_all(saved, ymm))
    return FALT_ISA_PORTABLE;
  if (!has_all(b, evex) || !has_all(saved, zmm)) return FALT_ISA_AVX2;
  if (!has_all(c, bit_AVX512VNNI)) return FALT_ISA_AVX512;
  const bool has_tiles = has_all(d, tiles) && has_all(saved, tile_state);
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !has_all(a, bit_AVX512BF16)) return FALT_ISA_VNNI;
  return has_tiles && may_use_tiles() ? FALT_ISA_AMX : FALT_ISA_BF16;
}

falt_isa falt_isa_best(void) {
  return x86_level();
}

int falt_isa_runs(falt_isa isa) {
  return isa == FALT_ISA_PORTABLE || (isa != FALT_ISA_NEON && isa <= x86_level());
}

#else

falt_isa falt_isa_best(void) {
#if defined(__aarch64__)
  return FALT_ISA_NEON; /* part of the base architecture */
#else
  return FALT_ISA_PORTABLE;
#endif
}

int falt_isa_runs(falt_isa isa) {
  return isa == FALT_ISA_PORTABLE || isa == falt_isa_best();
}

#endif

/* "48K", "2048K", "32M" in bytes; 0 if it is none of these. */
static size_t bytes_of(const char *text) {
  unsigned long long amount;
  char unit = 0;
  if (sscanf(text, "%llu%c", &amount, &unit) < 1) return 0;
  return (size_t)(amount << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0));
}

static bool read_fact(int index, const char *fact, char *text, size_t size) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, fact);
  return falt_file_head(path, text, size);
}

/* Fills sizes[level] from the kernel's list of the caches that serve core 0. */
static void read_sysfs(size_t sizes[4]) {
  char type[32], level[32], size[32];
  for (int i = 0; i < 16 && read_fact(i, "type", type, sizeof type); i++) {
    if (strncmp(type, "Instruction", 11) == 0) continue;
    if (!read_fact(i, "level", level, sizeof level) || !read_fact(i, "size", size, sizeof size)) continue;
    if (level[0] >= '1' && level[0] <= '3') sizes[level[0] - '0'] = bytes_of(size);
  }
}

static size_t ask_sysconf(int name) {
  const long size = sysconf(name);
  return size > 0 ? (size_t)size : 0;
}

static size_t first_known(size_t a, size_t b, size_t c) {
  return a ? a : b ? b : c;
}

falt_caches falt_cpu_caches(void) {
  size_t sizes[4] = {0}, asked[4] = {0};
  read_sysfs(sizes);
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  asked[1] = ask_sysconf(_SC_LEVEL1_DCACHE_SIZE);
  asked[2] = ask_sysconf(_SC_LEVEL2_CACHE_SIZE);
  asked[3] = ask_sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  falt_caches caches;
  caches.l1d = first_known(sizes[1], asked[1], (size_t)32 << 10);
  caches.l2 = first_known(sizes[2], asked[2], (size_t)512 << 10);
  caches.l3 = first_known(sizes[3], asked[3], 4 * caches.l2);
  return caches;
}
