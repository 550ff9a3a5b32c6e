/* LEB128 varints and zigzag differences for the blobs of core/viz. Header-only; the reader's `bad`
 * is sticky and checked once. */
#ifndef BH_VIZ_VARINT_H
#define BH_VIZ_VARINT_H

#include <stdbool.h>
#include <stdint.h>

#define BH_VARINT_BYTES 10 /* the longest */

static inline unsigned char *bh_varint_put(unsigned char *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    *at++ = (unsigned char)value;
    return at;
}

/* The difference as two's complement: it wraps, so any two 64-bit values have one. */
static inline unsigned char *bh_varint_put_signed(unsigned char *at, uint64_t difference)
{
    return bh_varint_put(at, difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0));
}

struct bh_varint_reader {
    const unsigned char *at, *end;
    bool bad;
};

static inline uint64_t bh_varint_get(struct bh_varint_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && reader->at != reader->end; shift += 7) {
        unsigned char byte = *reader->at++;
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    reader->bad = true;
    return 0;
}

static inline uint64_t bh_varint_get_signed(struct bh_varint_reader *reader)
{
    uint64_t value = bh_varint_get(reader);
    return value >> 1 ^ (value & 1 ? UINT64_MAX : 0);
}

static inline uint32_t bh_varint_get_u32(struct bh_varint_reader *reader)
{
    uint64_t value = bh_varint_get(reader);
    if (value > UINT32_MAX)
        reader->bad = true;
    return (uint32_t)value;
}

#endif
