/*
 * Little-endian loads and stores on byte buffers. Every layout in core/wire is little-endian with
 * fixed offsets; these eight functions are the only way bytes become integers there. Header-only,
 * libc only, no alignment needed, never fail; the caller has checked the bounds.
 */
#ifndef BH_WIRE_LE_H
#define BH_WIRE_LE_H

#include <stdint.h>

static inline uint16_t bh_le_get16(const unsigned char *bytes)
{
    return (uint16_t)(bytes[0] | (unsigned)bytes[1] << 8);
}

static inline uint32_t bh_le_get32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static inline uint64_t bh_le_get64(const unsigned char *bytes)
{
    return (uint64_t)bh_le_get32(bytes) | (uint64_t)bh_le_get32(bytes + 4) << 32;
}

static inline void bh_le_put16(unsigned char *bytes, uint16_t value)
{
    bytes[0] = (unsigned char)(value & 0xff);
    bytes[1] = (unsigned char)(value >> 8);
}

static inline void bh_le_put32(unsigned char *bytes, uint32_t value)
{
    bytes[0] = (unsigned char)(value & 0xff);
    bytes[1] = (unsigned char)(value >> 8 & 0xff);
    bytes[2] = (unsigned char)(value >> 16 & 0xff);
    bytes[3] = (unsigned char)(value >> 24);
}

static inline void bh_le_put64(unsigned char *bytes, uint64_t value)
{
    bh_le_put32(bytes, (uint32_t)(value & 0xffffffffu));
    bh_le_put32(bytes + 4, (uint32_t)(value >> 32));
}

#endif
