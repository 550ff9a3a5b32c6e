/* status.bin and the STATUS item of control frames: struct bh_status in 256 bytes, fixed offsets
 * (table in status_file.c), little-endian, magic "BHST", version 1, CRC-32C at offset 252 over the
 * first 252. Replaced by rename, not synced: a reader gets a whole one or none. */
#ifndef BH_WIRE_STATUS_FILE_H
#define BH_WIRE_STATUS_FILE_H

#include "core/model/status.h"

#define BH_STATUS_FILE_NAME  "status.bin"
#define BH_STATUS_FILE_MAGIC 0x54534842u
#define BH_STATUS_FILE_BYTES 256

void bh_status_file_encode(const struct bh_status *status,
                           unsigned char ret_bytes[static BH_STATUS_FILE_BYTES]);
/* BH_E_MALFORMED, TRUNCATED, CHECKSUM, VERSION; enum values outside their range are MALFORMED. */
int bh_status_file_decode(const void *data, size_t length, struct bh_status *ret_status);

#endif
