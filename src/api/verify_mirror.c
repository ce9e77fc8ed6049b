/* falt_verify on devices with their own memory: operands are copied with their guards in both directions, so a kernel
 * that writes beside an element is detected there too. */
#include "api/verify.h"

falt_status falt_mirror_open(falt_mirror *mirror, falt_device *device, const falt_bench *bench) {
  *mirror = (falt_mirror){.lead = {0}};
  for (int i = 0; i < FALT_OPERANDS; i++) {
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
  for (int i = 0; i < FALT_OPERANDS; i++) falt_device_free(device, &mirror->memory[i]);
}

falt_operands falt_mirror_operands(const falt_mirror *mirror) {
  falt_operands o = {.input = NULL};
  for (falt_operand i = 0; i < FALT_OPERANDS; i++)
    *falt_operand_at(&o, i) = mirror->memory[i] ? (char *)mirror->memory[i] + mirror->lead[i] : NULL;
  return o;
}

falt_status falt_mirror_send(const falt_mirror *mirror, falt_device *device, const falt_bench *bench) {
  for (int i = 0; i < FALT_OPERANDS; i++) {
    const falt_guarded *o = &bench->operand[i];
    if (mirror->memory[i]) FALT_TRY(falt_device_write(device, mirror->memory[i], o->memory, o->bytes));
  }
  return FALT_OK;
}

falt_status falt_mirror_fetch(const falt_mirror *mirror, falt_device *device, falt_bench *bench) {
  FALT_TRY(falt_device_synchronize(device));
  for (int i = 0; i < FALT_OPERANDS; i++) {
    const falt_guarded *o = &bench->operand[i];
    if (mirror->memory[i]) FALT_TRY(falt_device_read(device, o->memory, mirror->memory[i], o->bytes));
  }
  return FALT_OK;
}
