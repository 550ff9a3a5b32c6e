#include "core/base/bytes.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bh_bytes_done(struct bh_bytes *buffer)
{
    free(buffer->data);
    *buffer = (struct bh_bytes){0};
}

void bh_bytes_clear(struct bh_bytes *buffer)
{
    buffer->length = 0;
    if (buffer->data)
        buffer->data[0] = '\0';
}

unsigned char *bh_bytes_reserve(struct bh_bytes *buffer, size_t extra)
{
    if (buffer->failed || extra > SIZE_MAX / 4 - buffer->length) {
        buffer->failed = true;
        return NULL;
    }
    size_t need = buffer->length + extra + 1;
    if (need > buffer->capacity) {
        size_t capacity = buffer->capacity ? buffer->capacity * 2 : 256;
        while (capacity < need)
            capacity *= 2;
        unsigned char *grown = realloc(buffer->data, capacity);
        if (!grown) {
            buffer->failed = true;
            return NULL;
        }
        buffer->data = grown;
        buffer->capacity = capacity;
    }
    return buffer->data + buffer->length;
}

void bh_bytes_append(struct bh_bytes *buffer, const void *data, size_t length)
{
    unsigned char *room = bh_bytes_reserve(buffer, length);
    if (!room)
        return;
    if (length)
        memcpy(room, data, length);
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
}

void bh_bytes_append_text(struct bh_bytes *buffer, const char *text)
{
    bh_bytes_append(buffer, text, strlen(text));
}

void bh_bytes_printf(struct bh_bytes *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int need = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    unsigned char *room = need >= 0 ? bh_bytes_reserve(buffer, (size_t)need) : NULL;
    if (!room)
        return;
    va_start(arguments, format);
    (void)vsnprintf((char *)room, (size_t)need + 1, format, arguments);
    va_end(arguments);
    buffer->length += (size_t)need;
}

void bh_bytes_consume(struct bh_bytes *buffer, size_t n)
{
    if (n == 0)
        return;
    memmove(buffer->data, buffer->data + n, buffer->length - n);
    buffer->length -= n;
    buffer->data[buffer->length] = '\0';
}
