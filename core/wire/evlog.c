/* Headers of events.bhe and its segments, and the texts of actions. Layouts: evlog.h. */
#include "core/wire/evlog.h"

#include <string.h>

#include "core/base/crc32c.h"
#include "core/base/text.h"
#include "core/wire/evlog_layout.h"
#include "core/wire/le.h"

#define BODY_BYTES_MAX (BH_EVLOG_SEGMENT_BYTES - BH_EVLOG_HEADER_BYTES)

void bh_evlog_header_encode(const struct bh_evlog_header *header,
                            unsigned char ret_bytes[static BH_EVLOG_HEADER_BYTES])
{
    memset(ret_bytes, 0, BH_EVLOG_HEADER_BYTES);
    bh_le_put32(ret_bytes, BH_EVLOG_MAGIC);
    bh_le_put16(ret_bytes + 4, BH_EVLOG_VERSION);
    bh_le_put16(ret_bytes + 6, BH_EVLOG_HEADER_BYTES);
    memcpy(ret_bytes + 16, header->run_id, BH_JOB_ID_SIZE - 1);
    bh_le_put64(ret_bytes + 40, header->anchor.mono.ns);
    bh_le_put64(ret_bytes + 48, (uint64_t)header->anchor.wall.us);
    bh_le_put32(ret_bytes + 60, bh_crc32c(0, ret_bytes, 60));
}

int bh_evlog_header_decode(const void *data, size_t length, struct bh_evlog_header *ret_header)
{
    const unsigned char *bytes = data;
    if (length < BH_EVLOG_HEADER_BYTES)
        return BH_E_TRUNCATED;
    if (bh_le_get32(bytes) != BH_EVLOG_MAGIC)
        return BH_E_MALFORMED;
    if (bh_le_get16(bytes + 4) != BH_EVLOG_VERSION)
        return BH_E_VERSION;
    if (bh_le_get32(bytes + 60) != bh_crc32c(0, bytes, 60))
        return BH_E_CHECKSUM;
    if (bh_le_get16(bytes + 6) != BH_EVLOG_HEADER_BYTES || bh_le_get32(bytes + 8) != 0)
        return BH_E_VERSION;
    struct bh_evlog_header header = {
        .anchor.mono.ns = bh_le_get64(bytes + 40),
        .anchor.wall.us = (int64_t)bh_le_get64(bytes + 48),
    };
    memcpy(header.run_id, bytes + 16, BH_JOB_ID_SIZE - 1);
    if (!bh_text_is_job_id(header.run_id))
        return BH_E_MALFORMED;
    *ret_header = header;
    return BH_OK;
}

void bh_evlog_segment_encode(const struct bh_evlog_segment *segment,
                             unsigned char ret_bytes[static BH_EVLOG_HEADER_BYTES])
{
    bh_le_put32(ret_bytes, BH_EVLOG_SEGMENT_MAGIC);
    bh_le_put16(ret_bytes + 4, BH_EVLOG_VERSION);
    bh_le_put16(ret_bytes + 6, BH_EVLOG_HEADER_BYTES);
    bh_le_put32(ret_bytes + 8, (uint32_t)segment->number);
    bh_le_put32(ret_bytes + 12, segment->definitions);
    bh_le_put32(ret_bytes + 16, segment->records);
    bh_le_put32(ret_bytes + 20, segment->body_bytes);
    bh_le_put64(ret_bytes + 24, segment->first_sequence);
    bh_le_put64(ret_bytes + 32, segment->last_sequence);
    bh_le_put64(ret_bytes + 40, segment->lost_before);
    bh_le_put64(ret_bytes + 48, segment->first_at.ns);
    bh_le_put32(ret_bytes + 56, bh_crc32c(0, segment->body, segment->body_bytes));
    bh_le_put32(ret_bytes + 60, bh_crc32c(0, ret_bytes, 60));
}

int bh_evlog_segment_decode(const void *data, size_t length, struct bh_evlog_segment *ret_segment)
{
    const unsigned char *bytes = data;
    if (length < BH_EVLOG_HEADER_BYTES)
        return 0;
    if (bh_le_get32(bytes) != BH_EVLOG_SEGMENT_MAGIC)
        return BH_E_MALFORMED;
    if (bh_le_get16(bytes + 4) != BH_EVLOG_VERSION)
        return BH_E_VERSION;
    if (bh_le_get32(bytes + 60) != bh_crc32c(0, bytes, 60))
        return BH_E_CHECKSUM;
    uint32_t body = bh_le_get32(bytes + 20);
    if (bh_le_get16(bytes + 6) != BH_EVLOG_HEADER_BYTES || body > BODY_BYTES_MAX)
        return BH_E_MALFORMED;
    if (length - BH_EVLOG_HEADER_BYTES < body)
        return 0;
    if (bh_le_get32(bytes + 56) != bh_crc32c(0, bytes + BH_EVLOG_HEADER_BYTES, body))
        return BH_E_CHECKSUM;
    *ret_segment = (struct bh_evlog_segment){
        .number = bh_le_get32(bytes + 8),
        .definitions = bh_le_get32(bytes + 12),
        .records = bh_le_get32(bytes + 16),
        .body_bytes = body,
        .first_sequence = bh_le_get64(bytes + 24),
        .last_sequence = bh_le_get64(bytes + 32),
        .lost_before = bh_le_get64(bytes + 40),
        .first_at.ns = bh_le_get64(bytes + 48),
        .body = bytes + BH_EVLOG_HEADER_BYTES,
    };
    return (int)(BH_EVLOG_HEADER_BYTES + body);
}

const char *bh_evlog_action_text(int kind)
{
    switch (kind) {
    case BH_EVLOG_ALLOC_NEW:
        return "AllocNew";
    case BH_EVLOG_ALLOC_REUSE:
        return "AllocReuse";
    case BH_EVLOG_ALLOC_MAKE_BUFFER:
        return "AllocMakeBuffer";
    case BH_EVLOG_FREE_TO_CACHE:
        return "FreeActiveToCache";
    case BH_EVLOG_FREE_TO_OS:
        return "FreeActiveToOS";
    case BH_EVLOG_RELEASE:
        return "Release";
    case BH_EVLOG_CACHE_TO_OS:
        return "FreeCacheToOS";
    case BH_EVLOG_LOST:
        return "Lost";
    case BH_EVLOG_BASELINE:
        return "Baseline";
    case BH_EVLOG_MARK:
        return "Mark";
    default:
        return "unknown";
    }
}
