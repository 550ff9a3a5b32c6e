#include "core/base/crc32c.h"

/* Constant tables: no process pays for them or races at start. */
#include "core/base/crc32c_table.inc"

static uint32_t crc_bytes(uint32_t crc, const unsigned char *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        crc = (crc >> 8) ^ crc_table[0][(crc ^ data[i]) & 0xff];
    return crc;
}

uint32_t bh_crc32c(uint32_t crc, const void *data, size_t length)
{
    const unsigned char *p = data;
    crc = ~crc;
    for (; length >= 8; p += 8, length -= 8) {
        /* little-endian by construction of the bytes, so that the host's order does not matter */
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                              (uint32_t)p[3] << 24);
        crc = crc_table[7][low & 0xff] ^ crc_table[6][(low >> 8) & 0xff] ^
              crc_table[5][(low >> 16) & 0xff] ^ crc_table[4][low >> 24] ^ crc_table[3][p[4]] ^
              crc_table[2][p[5]] ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
    }
    return ~crc_bytes(crc, p, length);
}
