/* CRC-32C (Castagnoli, polynomial 0x1EDC6F41 reflected), the checksum of every file format here.
 * bh_crc32c(0, "123456789", 9) == 0xE3069283. Pass an earlier result to continue, or a seed. */
#ifndef BH_BASE_CRC32C_H
#define BH_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t bh_crc32c(uint32_t crc, const void *data, size_t length);
/* The same by tables alone: what machines without the instruction run, and what it is tested
 * against. */
uint32_t bh_crc32c_portable(uint32_t crc, const void *data, size_t length);

#endif
