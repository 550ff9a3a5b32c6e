/* A growing byte buffer, for processes that may allocate (scribe, server, tools): never for the
 * deciding supervisor after launch, never for the job's process.
 *
 * A failed growth is sticky (`failed`): appends after it do nothing, and one check at the end is
 * enough. Zero-initialise: struct bh_bytes buffer = {0}; release with bh_bytes_done. */
#ifndef BH_BASE_BYTES_H
#define BH_BASE_BYTES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct bh_bytes {
    unsigned char *data; /* owned; NUL-terminated behind length whenever data is not NULL */
    size_t length;
    size_t capacity;
    bool failed;
};

void bh_bytes_done(struct bh_bytes *buffer);
void bh_bytes_clear(struct bh_bytes *buffer); /* length 0, memory kept */
void bh_bytes_append(struct bh_bytes *buffer, const void *data, size_t length);
void bh_bytes_append_text(struct bh_bytes *buffer, const char *text);
void bh_bytes_printf(struct bh_bytes *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Drops the first n bytes (n <= length). */
void bh_bytes_consume(struct bh_bytes *buffer, size_t n);
/* Room for `extra` more bytes without another allocation; NULL when memory is out. */
unsigned char *bh_bytes_reserve(struct bh_bytes *buffer, size_t extra);

#endif
