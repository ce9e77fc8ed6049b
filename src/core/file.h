/* Small text files that are written atomically. */
#ifndef FALT_CORE_FILE_H
#define FALT_CORE_FILE_H

#include "faltung/faltung.h"

/* Writes text to path through a temporary file beside it, fsync and rename. Makes no directory: FALT_NO_FILE names the
 * one that is missing. */
falt_status falt_file_write(const char *path, const char *text, size_t length);
/* Reads a file of at most `limit` bytes, NUL-terminated; free with falt_free. FALT_NO_FILE if absent, unreadable,
 * larger. */
falt_status falt_file_read(const char *path, size_t limit, char **text, size_t *length);
/* Reads the beginning of a file, at most size - 1 bytes, into text and ends it with NUL. False if it cannot be read.
 * For the one-line facts that the kernel shows as files. */
bool falt_file_head(const char *path, char *text, size_t size);
/* $FALTUNG_CACHE, or $XDG_CACHE_HOME/faltung, or $HOME/.cache/faltung, then "/name". False if none of them is set or
 * the path does not fit. */
bool falt_cache_path(const char *name, char *path, size_t size);
/* falt_file_write for a path of falt_cache_path: makes the cache's directories where they are missing. */
falt_status falt_cache_write(const char *path, const char *text, size_t length);

#endif
