#include "core/wire/record_codec.h"

#include <string.h>

#include "core/base/crc32c.h"
#include "core/wire/journal.h"
#include "core/wire/le.h"

#define PAYLOAD_AT    32
#define CHECK_BYTES   4
#define FLAG_REQUIRED 1u
#define FLAG_SCRIBE   2u

static uint32_t seed(const char *run_id)
{
    return bh_crc32c(0, run_id, BH_JOB_ID_SIZE - 1);
}

int bh_record_encode(const struct bh_record *record, const char *run_id, void *ret_data,
                     size_t capacity)
{
    const struct bh_record_layout *layout = bh_record_layout((int)record->kind);
    if (!layout)
        return BH_E_MALFORMED;
    size_t most = capacity < BH_JOURNAL_MAX_RECORD ? capacity : BH_JOURNAL_MAX_RECORD;
    if (most < BH_JOURNAL_RECORD_BYTES)
        return BH_E_TOO_LONG;
    unsigned char *at = ret_data;
    struct bh_tlv_writer writer;
    bh_tlv_begin(&writer, at + PAYLOAD_AT, most - BH_JOURNAL_RECORD_BYTES);
    bh_fields_encode(layout->fields, layout->count, record, &writer);
    if (writer.overflow)
        return BH_E_TOO_LONG;
    size_t total = BH_JOURNAL_RECORD_BYTES + writer.length;
    memset(at, 0, PAYLOAD_AT);
    bh_le_put32(at, (uint32_t)total);
    bh_le_put16(at + 4, (uint16_t)record->kind);
    bh_le_put16(at + 6, record->by_scribe ? FLAG_SCRIBE : 0);
    bh_le_put64(at + 8, record->sequence);
    bh_le_put64(at + 16, record->at.ns);
    at[24] = record->pool;
    bh_le_put32(at + total - CHECK_BYTES, bh_crc32c(seed(run_id), at, total - CHECK_BYTES));
    return (int)total;
}

static int decode_whole(const unsigned char *at, size_t total, struct bh_record *ret_record)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    uint16_t flags = bh_le_get16(at + 6);
    record.kind = (enum bh_record_kind)bh_le_get16(at + 4);
    record.by_scribe = (flags & FLAG_SCRIBE) != 0;
    record.sequence = bh_le_get64(at + 8);
    record.at.ns = bh_le_get64(at + 16);
    record.pool = at[24];
    const struct bh_record_layout *layout = bh_record_layout((int)record.kind);
    if (!layout && (flags & FLAG_REQUIRED))
        return BH_E_VERSION;
    if (layout) {
        int result = bh_fields_decode(layout->fields, layout->count, at + PAYLOAD_AT,
                                      total - BH_JOURNAL_RECORD_BYTES, &record);
        if (result < 0)
            return result;
    }
    *ret_record = record;
    return (int)total;
}

int bh_record_decode(const void *data, size_t length, const char *run_id,
                     struct bh_record *ret_record)
{
    const unsigned char *at = data;
    if (length < 4)
        return 0;
    size_t total = bh_le_get32(at);
    if (total < BH_JOURNAL_RECORD_BYTES || total > BH_JOURNAL_MAX_RECORD)
        return BH_E_MALFORMED;
    if (length < total)
        return 0;
    if (bh_le_get32(at + total - CHECK_BYTES) != bh_crc32c(seed(run_id), at, total - CHECK_BYTES))
        return BH_E_CHECKSUM;
    return decode_whole(at, total, ret_record);
}
