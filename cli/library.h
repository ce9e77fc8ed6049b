/* The optional libraries that some solvers need, if this machine has them. */
#ifndef FALT_CLI_LIBRARY_H
#define FALT_CLI_LIBRARY_H

#include <faltung/faltung.h>

enum { CLI_LIBRARY_TEXT = 512 };

/* The i-th library, such as "cudnn"; NULL after the last. */
const char *cli_library_name(int i);
/* Whether a solver of this device works by it. */
bool cli_library_is_for(const char *name, const falt_device *device);
/* The library's name and version, or the reason that there is none: false. */
bool cli_library_find(const char *name, falt_device *device, char text[CLI_LIBRARY_TEXT]);

#endif
