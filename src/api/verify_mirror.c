/* falt_verify on devices with memory of their own: every operand travels with its guards, both ways, so that a kernel
 * that writes beside an element is found there too. */
#include "api/verify.h"

falt_status falt_mirror_open(falt_mirror *mirror, falt_device *device, const falt_bench *bench) {
  *mirror = (falt_mirror){.lead = {0}};
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) {
    if (!bench->operand[i].used) continue;
    mirror->lead[i] = bench->operand[i].lead;
    const falt_status status = falt_device_alloc(device, &mirror->memory[i], bench->operand[i].bytes);
    if (status == FALT_OK) continue;
    falt_mirror_close(mirror, device);
    return status;
  }
  return FALT_OK;
}

void falt_mirror_close(falt_mirror *mirror, falt_device *device) {
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) falt_device_free(device, &mirror->memory[i]);
}

static void *data_of(const falt_mirror *mirror, falt_operand which) {
  return mirror->memory[which] ? (char *)mirror->memory[which] + mirror->lead[which] : NULL;
}

falt_operands falt_mirror_operands(const falt_mirror *mirror) {
  return (falt_operands){.input = data_of(mirror, FALT_OPERAND_X),
                         .filter = data_of(mirror, FALT_OPERAND_W),
                         .output = data_of(mirror, FALT_OPERAND_Y),
                         .bias = data_of(mirror, FALT_OPERAND_BIAS),
                         .scale = data_of(mirror, FALT_OPERAND_SCALE),
                         .residual = data_of(mirror, FALT_OPERAND_RESIDUAL)};
}

falt_status falt_mirror_send(const falt_mirror *mirror, falt_device *device, const falt_bench *bench) {
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) {
    const falt_guarded *o = &bench->operand[i];
    if (mirror->memory[i]) FALT_TRY(falt_device_write(device, mirror->memory[i], o->memory, o->bytes));
  }
  return FALT_OK;
}

falt_status falt_mirror_fetch(const falt_mirror *mirror, falt_device *device, falt_bench *bench) {
  FALT_TRY(falt_device_synchronize(device));
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) {
    const falt_guarded *o = &bench->operand[i];
    if (mirror->memory[i]) FALT_TRY(falt_device_read(device, o->memory, mirror->memory[i], o->bytes));
  }
  return FALT_OK;
}
