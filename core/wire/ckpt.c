#include "core/wire/ckpt.h"

#include <string.h>

#define PREFIX_BYTES 6u /* "MGCP", version, kind */

static uint32_t get32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint64_t get64(const unsigned char *at)
{
    return (uint64_t)get32(at) << 32 | get32(at + 4);
}

static void put32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i) & 0xff);
}

static void put64(unsigned char *at, uint64_t value)
{
    put32(at, (uint32_t)(value >> 32));
    put32(at + 4, (uint32_t)(value & 0xffffffffu));
}

static uint32_t body_bytes(unsigned kind)
{
    switch (kind) {
    case BH_CKPT_KIND_HELLO:
    case BH_CKPT_KIND_WORKER_READY:
        return PREFIX_BYTES + BH_CKPT_NONCE_BYTES;
    case BH_CKPT_KIND_REQUEST:
        return PREFIX_BYTES + BH_CKPT_NONCE_BYTES + 16;
    case BH_CKPT_KIND_ACK:
        return PREFIX_BYTES + BH_CKPT_NONCE_BYTES + 19;
    default:
        return 0;
    }
}

int bh_ckpt_encode(const struct bh_ckpt_frame *frame,
                   unsigned char ret_data[static BH_CKPT_MAX_FRAME])
{
    uint32_t body = body_bytes(frame->kind);
    BH_BUG_ON(body == 0);
    put32(ret_data, body);
    memcpy(ret_data + 4, "MGCP", 4);
    ret_data[8] = BH_CKPT_VERSION;
    ret_data[9] = (unsigned char)frame->kind;
    unsigned char *at = ret_data + 10;
    memcpy(at, frame->nonce, BH_CKPT_NONCE_BYTES);
    at += BH_CKPT_NONCE_BYTES;
    if (frame->kind == BH_CKPT_KIND_REQUEST) {
        put64(at, frame->request_id);
        put64(at + 8, frame->deadline_ns);
    } else if (frame->kind == BH_CKPT_KIND_ACK) {
        put64(at, frame->request_id);
        at[8] = (unsigned char)frame->status;
        at[9] = frame->artifact_kind;
        at[10] = frame->has_size;
        put64(at + 11, frame->has_size ? frame->size_bytes : 0);
    }
    return (int)(4 + body);
}

int bh_ckpt_frame_length(const void *data, size_t length)
{
    if (length < 4)
        return 0;
    uint32_t body = get32(data);
    if (body < PREFIX_BYTES || body > BH_CKPT_MAX_BODY)
        return BH_E_TOO_LONG;
    return length < 4 + (size_t)body ? 0 : (int)(4 + body);
}

static bool read_ack(const unsigned char *at, struct bh_ckpt_frame *frame)
{
    frame->request_id = get64(at);
    frame->status = (enum bh_ckpt_status)at[8];
    frame->artifact_kind = at[9];
    frame->has_size = at[10] == 1;
    frame->size_bytes = get64(at + 11);
    return frame->request_id != 0 && at[8] >= BH_CKPT_STATUS_COMPLETED &&
           at[8] <= BH_CKPT_STATUS_CANCELLED && at[9] <= 3 && at[10] <= 1 &&
           (frame->has_size || frame->size_bytes == 0) &&
           (frame->artifact_kind != 0 || !frame->has_size);
}

static bool read_request(const unsigned char *at, struct bh_ckpt_frame *frame)
{
    frame->request_id = get64(at);
    frame->deadline_ns = get64(at + 8);
    return frame->request_id != 0 && frame->deadline_ns != 0;
}

int bh_ckpt_decode(const void *data, size_t length, struct bh_ckpt_frame *ret_frame)
{
    const unsigned char *bytes = data;
    int whole = bh_ckpt_frame_length(data, length);
    if (whole <= 0)
        return whole;
    if (memcmp(bytes + 4, "MGCP", 4) != 0)
        return BH_E_MALFORMED;
    if (bytes[8] != BH_CKPT_VERSION)
        return BH_E_VERSION;
    struct bh_ckpt_frame frame;
    memset(&frame, 0, sizeof frame);
    if (get32(bytes) != body_bytes(bytes[9]) || body_bytes(bytes[9]) == 0)
        return BH_E_MALFORMED;
    frame.kind = (enum bh_ckpt_kind)bytes[9];
    memcpy(frame.nonce, bytes + 10, BH_CKPT_NONCE_BYTES);
    const unsigned char *rest = bytes + 10 + BH_CKPT_NONCE_BYTES;
    bool good = true;
    if (frame.kind == BH_CKPT_KIND_ACK)
        good = read_ack(rest, &frame);
    else if (frame.kind == BH_CKPT_KIND_REQUEST)
        good = read_request(rest, &frame);
    if (!good)
        return BH_E_MALFORMED;
    *ret_frame = frame;
    return whole;
}
