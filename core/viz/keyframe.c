#include "core/viz/keyframe.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/crc32c.h"
#include "core/viz/varint.h"
#include "core/wire/le.h"

#define MAGIC        0x464b4842u /* "BHKF" */
#define VERSION      1
#define HEADER_BYTES 128

enum { IMAGE_KNOWN = 1, IMAGE_ENDED = 2, IMAGE_BASED = 4 };
enum { BUFFER_CACHED = 1, BUFFER_LINKED = 2, BUFFER_FRESH = 4 };
enum { FLAG_BEGAN = 1, FLAG_FULL = 2 };

bool bh_keyframe_due(const struct bh_replay *replay, uint64_t events_then)
{
    uint64_t spacing = 2 * (uint64_t)replay->live;
    if (spacing < BH_KEYFRAME_EVENTS)
        spacing = BH_KEYFRAME_EVENTS;
    if (replay->events - events_then < spacing)
        return false;
    for (uint32_t i = 0; i < replay->image_count; i++) {
        if (replay->images[i].collecting)
            return false;
    }
    return true;
}

/* ---- encoding ---- */

static int compare_buffers(const void *left, const void *right)
{
    const struct bh_buffer *a = *(const struct bh_buffer *const *)left;
    const struct bh_buffer *b = *(const struct bh_buffer *const *)right;
    if (a->image != b->image)
        return a->image < b->image ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

static unsigned char *put_buffer(unsigned char *at, const struct bh_buffer *buffer,
                                 const struct bh_buffer *last)
{
    bool same_image = buffer->image == last->image;
    at = bh_varint_put(at, buffer->image - last->image);
    at = bh_varint_put(at, buffer->address - (same_image ? last->address : 0));
    at = bh_varint_put(at, buffer->size_bytes);
    at = bh_varint_put(at, buffer->size_bytes - buffer->requested_bytes);
    at = bh_varint_put(at, buffer->stack);
    at = bh_varint_put(at, buffer->primitive);
    at = bh_varint_put_signed(at, (uint64_t)((int64_t)buffer->stream + 1));
    at = bh_varint_put_signed(at, buffer->sequence - last->sequence);
    at = bh_varint_put_signed(at, (uint64_t)buffer->at_us - (uint64_t)last->at_us);
    return bh_varint_put(at, (buffer->state == BH_BUFFER_CACHED ? BUFFER_CACHED : 0u) |
                                 (buffer->linked ? BUFFER_LINKED : 0u) |
                                 (buffer->fresh ? BUFFER_FRESH : 0u));
}

static int put_buffers(const struct bh_replay *replay, struct bh_bytes *out)
{
    const struct bh_buffer **sorted = malloc((replay->live + 1) * sizeof(*sorted));
    if (!sorted)
        return BH_E_NOMEM;
    uint32_t count = 0;
    for (uint32_t i = 0; i < replay->pool_used; i++) {
        if (replay->pool[i].state != BH_BUFFER_FREE)
            sorted[count++] = &replay->pool[i];
    }
    qsort(sorted, count, sizeof(*sorted), compare_buffers);
    struct bh_buffer none = {0};
    const struct bh_buffer *last = &none;
    for (uint32_t i = 0; i < count; i++) {
        unsigned char *room = bh_bytes_reserve(out, 10 * BH_VARINT_BYTES);
        if (!room)
            break;
        out->length += (size_t)(put_buffer(room, sorted[i], last) - room);
        last = sorted[i];
    }
    free(sorted);
    return out->failed ? BH_E_NOMEM : BH_OK;
}

static void put_header(const struct bh_replay *replay, uint64_t next_segment, unsigned char *header,
                       size_t body_bytes)
{
    memset(header, 0, HEADER_BYTES);
    bh_le_put32(header, MAGIC);
    bh_le_put16(header + 4, VERSION);
    bh_le_put16(header + 6, HEADER_BYTES);
    bh_le_put64(header + 8, next_segment);
    bh_le_put64(header + 16, replay->sequence);
    bh_le_put64(header + 24, (uint64_t)replay->at_us);
    bh_le_put64(header + 32, (uint64_t)replay->began_us);
    bh_le_put64(header + 40, replay->active_bytes);
    bh_le_put64(header + 48, replay->reserved_bytes);
    bh_le_put64(header + 56, replay->events);
    bh_le_put64(header + 64, replay->lost);
    bh_le_put64(header + 72, replay->peak_bytes);
    bh_le_put64(header + 80, replay->peak_sequence);
    bh_le_put64(header + 88, (uint64_t)replay->peak_us);
    bh_le_put32(header + 96, (replay->began ? FLAG_BEGAN : 0u) | (replay->full ? FLAG_FULL : 0u));
    bh_le_put32(header + 100, replay->image_count);
    bh_le_put32(header + 104, replay->live);
    bh_le_put32(header + 108, (uint32_t)body_bytes);
    bh_le_put64(header + 112, (uint64_t)replay->event_us);
    bh_le_put32(header + 120, bh_crc32c(0, header + HEADER_BYTES, body_bytes));
    bh_le_put32(header + 124, bh_crc32c(0, header, 124));
}

int bh_keyframe_encode(const struct bh_replay *replay, uint64_t next_segment,
                       struct bh_bytes *ret_bytes)
{
    size_t start = ret_bytes->length;
    unsigned char *room = bh_bytes_reserve(ret_bytes, HEADER_BYTES + replay->image_count);
    if (!room)
        return BH_E_NOMEM;
    for (uint32_t i = 0; i < replay->image_count; i++) {
        const struct bh_replay_image *image = &replay->images[i];
        room[HEADER_BYTES + i] =
            (unsigned char)((image->known ? IMAGE_KNOWN : 0) | (image->ended ? IMAGE_ENDED : 0) |
                            (image->based ? IMAGE_BASED : 0));
    }
    ret_bytes->length += HEADER_BYTES + replay->image_count;
    int error = put_buffers(replay, ret_bytes);
    size_t body = ret_bytes->length - start - HEADER_BYTES;
    if (error >= 0 && body > UINT32_MAX)
        error = BH_E_TOO_LONG;
    if (error >= 0)
        put_header(replay, next_segment, ret_bytes->data + start, body);
    return error;
}

/* ---- decoding ---- */

static int check(const unsigned char *bytes, size_t length)
{
    if (length < HEADER_BYTES || bh_le_get32(bytes) != MAGIC)
        return BH_E_MALFORMED;
    if (bh_le_get16(bytes + 4) != VERSION || bh_le_get16(bytes + 6) != HEADER_BYTES)
        return BH_E_VERSION;
    if (bh_le_get32(bytes + 124) != bh_crc32c(0, bytes, 124))
        return BH_E_CHECKSUM;
    if (bh_le_get32(bytes + 108) != length - HEADER_BYTES)
        return BH_E_TRUNCATED;
    if (bh_le_get32(bytes + 120) != bh_crc32c(0, bytes + HEADER_BYTES, length - HEADER_BYTES))
        return BH_E_CHECKSUM;
    return BH_OK;
}

static struct bh_keyframe_info info_of(const unsigned char *bytes)
{
    return (struct bh_keyframe_info){
        .next_segment = bh_le_get64(bytes + 8),
        .sequence = bh_le_get64(bytes + 16),
        .at_us = (int64_t)bh_le_get64(bytes + 24),
    };
}

int bh_keyframe_peek(const void *data, size_t length, struct bh_keyframe_info *ret_info)
{
    const unsigned char *bytes = data;
    if (length < HEADER_BYTES || bh_le_get32(bytes) != MAGIC)
        return BH_E_MALFORMED;
    if (bh_le_get32(bytes + 124) != bh_crc32c(0, bytes, 124))
        return BH_E_CHECKSUM;
    *ret_info = info_of(bytes);
    return BH_OK;
}

static void get_buffer(struct bh_varint_reader *reader, struct bh_buffer *buffer)
{
    uint32_t step = bh_varint_get_u32(reader);
    buffer->image += step;
    buffer->address = bh_varint_get(reader) + (step ? 0 : buffer->address);
    buffer->size_bytes = bh_varint_get(reader);
    buffer->requested_bytes = buffer->size_bytes - bh_varint_get(reader);
    buffer->stack = bh_varint_get_u32(reader);
    buffer->primitive = bh_varint_get_u32(reader);
    buffer->stream = (int32_t)((int64_t)bh_varint_get_signed(reader) - 1);
    buffer->sequence += bh_varint_get_signed(reader);
    buffer->at_us = (int64_t)((uint64_t)buffer->at_us + bh_varint_get_signed(reader));
    uint64_t flags = bh_varint_get(reader);
    buffer->state = flags & BUFFER_CACHED ? BH_BUFFER_CACHED : BH_BUFFER_ACTIVE;
    buffer->linked = flags & BUFFER_LINKED;
    buffer->fresh = flags & BUFFER_FRESH;
}

static int get_body(struct bh_replay *replay, struct bh_varint_reader *reader, uint32_t images,
                    uint32_t buffers)
{
    if (images > (size_t)(reader->end - reader->at))
        return BH_E_MALFORMED;
    for (uint32_t i = 0; i < images; i++) {
        unsigned flags = *reader->at++;
        struct bh_replay_image image = {
            .known = flags & IMAGE_KNOWN,
            .ended = flags & IMAGE_ENDED,
            .based = flags & IMAGE_BASED,
        };
        int error = bh_replay_image_put(replay, i, &image);
        if (error < 0)
            return error;
    }
    /* No buffer takes less than ten bytes, so what is reserved is bounded by the blob. */
    if (buffers > (size_t)(reader->end - reader->at) / 10)
        return BH_E_MALFORMED;
    int reserved = bh_replay_reserve(replay, buffers);
    if (reserved < 0)
        return reserved;
    struct bh_buffer buffer = {0};
    for (uint32_t i = 0; i < buffers; i++) {
        get_buffer(reader, &buffer);
        if (reader->bad || buffer.image >= images)
            return BH_E_MALFORMED;
        int error = bh_replay_put(replay, &buffer);
        if (error < 0)
            return error;
    }
    return reader->at == reader->end ? BH_OK : BH_E_MALFORMED;
}

static int get_sums(struct bh_replay *replay, const unsigned char *bytes)
{
    uint32_t flags = bh_le_get32(bytes + 96);
    replay->sequence = bh_le_get64(bytes + 16);
    replay->at_us = (int64_t)bh_le_get64(bytes + 24);
    replay->began_us = (int64_t)bh_le_get64(bytes + 32);
    replay->events = bh_le_get64(bytes + 56);
    replay->lost = bh_le_get64(bytes + 64);
    replay->peak_bytes = bh_le_get64(bytes + 72);
    replay->peak_sequence = bh_le_get64(bytes + 80);
    replay->peak_us = (int64_t)bh_le_get64(bytes + 88);
    replay->event_us = (int64_t)bh_le_get64(bytes + 112);
    replay->began = flags & FLAG_BEGAN;
    replay->full = flags & FLAG_FULL;
    /* The sums follow from the buffers: the ones written say whether all of them came back. */
    return replay->active_bytes == bh_le_get64(bytes + 40) &&
                   replay->reserved_bytes == bh_le_get64(bytes + 48)
               ? BH_OK
               : BH_E_MALFORMED;
}

int bh_keyframe_decode(const void *data, size_t length, struct bh_replay *replay,
                       struct bh_keyframe_info *ret_info)
{
    const unsigned char *bytes = data;
    int error = check(bytes, length);
    if (error < 0)
        return error;
    struct bh_varint_reader reader = {bytes + HEADER_BYTES, bytes + length, false};
    error = get_body(replay, &reader, bh_le_get32(bytes + 100), bh_le_get32(bytes + 104));
    if (error >= 0)
        error = get_sums(replay, bytes);
    if (error >= 0)
        *ret_info = info_of(bytes);
    return error;
}
