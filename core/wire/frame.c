#include "core/wire/frame.h"

#include <string.h>

#include "core/wire/le.h"

int bh_frame_encode(const struct bh_frame *frame, void *ret_data, size_t capacity)
{
    if (frame->body_length > BH_FRAME_MAX_BODY ||
        capacity < BH_FRAME_HEADER_BYTES + frame->body_length)
        return BH_E_TOO_LONG;
    unsigned char *at = ret_data;
    bh_le_put32(at, BH_FRAME_MAGIC);
    at[4] = BH_FRAME_VERSION;
    at[5] = (unsigned char)frame->type;
    bh_le_put16(at + 6, frame->flags);
    bh_le_put32(at + 8, frame->sequence);
    bh_le_put32(at + 12, (uint32_t)frame->body_length);
    if (frame->body_length)
        memcpy(at + BH_FRAME_HEADER_BYTES, frame->body, frame->body_length);
    return (int)(BH_FRAME_HEADER_BYTES + frame->body_length);
}

int bh_frame_decode(const void *data, size_t length, struct bh_frame *ret_frame)
{
    const unsigned char *at = data;
    if (length < BH_FRAME_HEADER_BYTES)
        return 0;
    if (bh_le_get32(at) != BH_FRAME_MAGIC)
        return BH_E_MALFORMED;
    if (at[4] != BH_FRAME_VERSION)
        return BH_E_VERSION;
    uint32_t body = bh_le_get32(at + 12);
    if (body > BH_FRAME_MAX_BODY)
        return BH_E_MALFORMED;
    if (length - BH_FRAME_HEADER_BYTES < body)
        return 0;
    *ret_frame = (struct bh_frame){
        .type = (enum bh_msg)at[5],
        .flags = bh_le_get16(at + 6),
        .sequence = bh_le_get32(at + 8),
        .body = at + BH_FRAME_HEADER_BYTES,
        .body_length = body,
    };
    return (int)(BH_FRAME_HEADER_BYTES + body);
}

const char *bh_msg_text(int type)
{
    switch (type) {
#define BH_MSG(name, number)                                                                       \
    case number:                                                                                   \
        return #name;
        BH_MSGS(BH_MSG)
#undef BH_MSG
    default:
        return "unknown";
    }
}
