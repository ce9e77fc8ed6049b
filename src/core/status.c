/* Status names, and the message of the last failure, stored per thread. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_SIZE = 512 };

static _Thread_local char message[MESSAGE_SIZE];

static const struct {
  falt_status status;
  const char *name;
} names[] = {
    {FALT_OK, "FALT_OK"},
    {FALT_INVALID_ARGUMENT, "FALT_INVALID_ARGUMENT"},
    {FALT_INVALID_TYPE, "FALT_INVALID_TYPE"},
    {FALT_INVALID_SIZE, "FALT_INVALID_SIZE"},
    {FALT_INVALID_SHAPE, "FALT_INVALID_SHAPE"},
    {FALT_INVALID_TEXT, "FALT_INVALID_TEXT"},
    {FALT_INVALID_METHOD, "FALT_INVALID_METHOD"},
    {FALT_OVER_BUDGET, "FALT_OVER_BUDGET"},
    {FALT_NO_SOLVER, "FALT_NO_SOLVER"},
    {FALT_CANCELLED, "FALT_CANCELLED"},
    {FALT_NO_MEMORY, "FALT_NO_MEMORY"},
    {FALT_NO_DEVICE, "FALT_NO_DEVICE"},
    {FALT_NO_FILE, "FALT_NO_FILE"},
    {FALT_INTERNAL, "FALT_INTERNAL"},
};

const char *falt_status_name(falt_status status) {
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (names[i].status == status) return names[i].name;
  return "unknown status";
}

const char *falt_message(void) {
  return message;
}

/* The text may quote the caller's input; a message stays one line for any input. */
static void keep_one_line(char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 0x7f) *text = ' ';
}

falt_status falt_fail(falt_status status, const char *format, ...) {
  char text[MESSAGE_SIZE]; /* the arguments may include the old message */
  va_list arguments;
  va_start(arguments, format);
  if (vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
  va_end(arguments);
  keep_one_line(text);
  memcpy(message, text, sizeof text);
  return status;
}

falt_status falt_check_reserved(const uint64_t *reserved, size_t count, const char *name, const char *filled_by) {
  for (size_t i = 0; i < count; i++)
    if (reserved[i])
      return falt_fail(FALT_INVALID_ARGUMENT, "%s.reserved[%zu]: not zero; fill the struct with %s first", name, i,
                       filled_by);
  return FALT_OK;
}

#define TEXT_OF(number) #number
#define VERSION(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *falt_version(void) {
  return VERSION(FALT_VERSION_MAJOR, FALT_VERSION_MINOR, FALT_VERSION_PATCH);
}
