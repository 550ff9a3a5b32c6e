/* spec.bin: a job's spec as the server hands it to `bulkhead-supervise start`. Written once before
 * the start, 0600, never changed.
 *
 *     offset 0   u32 magic "BHSP"
 *     offset 4   u16 version, 1
 *     offset 6   u16 header bytes, 24
 *     offset 8   u32 required flags, 0; a reader refuses bits it does not know
 *     offset 12  u32 body bytes, at most BH_SPEC_MAX_BYTES
 *     offset 16  u32 CRC-32C of the body
 *     offset 20  u32 CRC-32C of the first 20 bytes
 *     offset 24  body: TLV items (tlv.h), tags of enum bh_spec_tag in spec_file.c's table
 *
 * encode appends to ret_bytes. decode makes one allocation that owns every pointer of the spec;
 * release it with bh_spec_file_free. Failures: BH_E_MALFORMED, TRUNCATED, CHECKSUM, VERSION, NOMEM,
 * TOO_LONG. */
#ifndef BH_WIRE_SPEC_FILE_H
#define BH_WIRE_SPEC_FILE_H

#include "core/base/bytes.h"
#include "core/model/job.h"

#define BH_SPEC_FILE_NAME         "spec.bin"
#define BH_SPEC_FILE_MAGIC        0x50534842u
#define BH_SPEC_FILE_VERSION      1
#define BH_SPEC_FILE_HEADER_BYTES 24

int bh_spec_file_encode(const struct bh_job_spec *spec, struct bh_bytes *ret_bytes,
                        struct bh_diag *diag);
int bh_spec_file_decode(const void *data, size_t length, struct bh_job_spec **ret_spec,
                        struct bh_diag *diag);
void bh_spec_file_free(struct bh_job_spec *spec); /* NULL allowed */

#endif
