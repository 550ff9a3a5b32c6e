#include <string.h>

#include "core/base/io.h"
#include "core/wire/journal.h"
#include "server/import_internal.h"

void bh_import_records_done(struct bh_import_records *records)
{
    bh_bytes_done(&records->bytes);
    bh_bytes_done(&records->index);
    bh_bytes_done(&records->charge);
    bh_bytes_done(&records->losses);
}

/* The header gives the clock's anchor and proves that the file is this job's. */
static int take_header(struct bh_import *import, struct bh_store_job *row, size_t *ret_length,
                       struct bh_diag *diag)
{
    struct bh_journal_header header;
    int result;

    if (import->buffer.length < BH_JOURNAL_HEADER_BYTES) {
        *ret_length = 0; /* not written yet */
        return 0;
    }
    result = bh_journal_header_decode(import->buffer.data, import->buffer.length, &header);
    if (result >= 0 && strcmp(header.run_id, row->id) != 0)
        result = BH_E_MALFORMED;
    if (result < 0)
        return bh_err_set(diag, result, NULL, "The journal's header is not this job's");
    row->anchor = header.anchor;
    *ret_length = BH_JOURNAL_HEADER_BYTES;
    return 0;
}

static void keep(struct bh_import_records *records, const struct bh_record *record,
                 const unsigned char *data, size_t length)
{
    struct bh_import_record entry = {
        .offset = (uint32_t)records->bytes.length,
        .length = (uint32_t)length,
        .kind = (uint16_t)record->kind,
        .sequence = record->by_scribe ? 0 : record->sequence,
        .at_ns = record->at.ns,
    };

    records->count++;
    bh_bytes_append(&records->bytes, data, length);
    bh_bytes_append(&records->index, &entry, sizeof entry);
}

/* Decodes from `at` on; a torn tail (a record being written) is left for the next time. */
static int take_records(struct bh_import *import, size_t at, uint64_t number,
                        struct bh_store_job *row, struct bh_import_records *records,
                        struct bh_diag *diag)
{
    while (at < import->buffer.length) {
        const unsigned char *data = import->buffer.data + at;
        struct bh_record record;
        int length = bh_record_decode(data, import->buffer.length - at, row->id, &record);

        if (length == 0)
            break;
        if (length < 0)
            return bh_err_set(diag, length, NULL, "The journal is damaged behind record %llu",
                              (unsigned long long)row->journal_sequence);
        bh_import_fold(row, &record);
        bh_import_charge_take(row->anchor, &record, number + records->count, &records->charge,
                              &records->losses);
        keep(records, &record, data, (size_t)length);
        at += (size_t)length;
        records->end_offset += (uint64_t)length;
    }
    return 0;
}

int bh_import_journal_read(struct bh_import *import, const struct bh_import_job *job, int dirfd,
                           uint32_t budget, struct bh_store_job *row,
                           struct bh_import_records *ret_records, bool *ret_more,
                           struct bh_diag *diag)
{
    uint64_t offset = job->place.journal_offset;
    size_t header = 0;
    bool end = true;
    int result;

    if (budget < 2 * BH_JOURNAL_MAX_RECORD) /* or a long record would never be whole */
        budget = 2 * BH_JOURNAL_MAX_RECORD;
    result = bh_import_read(import, dirfd, BH_JOURNAL_FILE_NAME, offset, budget, &end, diag);
    ret_records->end_offset = offset;
    *ret_more = false;
    if (result < 0)
        return result;
    if (offset == 0) {
        result = take_header(import, row, &header, diag);
        if (result < 0 || header == 0)
            return result;
        ret_records->end_offset = header;
    }
    result = take_records(import, header, job->place.records, row, ret_records, diag);
    if (ret_records->bytes.failed || ret_records->index.failed || ret_records->charge.failed ||
        ret_records->losses.failed)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    *ret_more = !end && ret_records->end_offset > offset;
    return result;
}

int bh_import_journal_store(struct bh_import *import, const struct bh_import_job *job,
                            const struct bh_import_records *records, struct bh_diag *diag)
{
    const struct bh_import_record *index = (const void *)records->index.data;
    int64_t number = (int64_t)job->place.records;

    for (uint64_t i = 0; i < records->count; i++) {
        const struct bh_import_record *entry = &index[i];
        int result =
            bh_db_run(&import->db, BH_IMPORT_SQL_RECORD_INSERT, diag, "iiidib", job->row.key,
                      number++, (int64_t)entry->sequence, (int)entry->kind, (int64_t)entry->at_ns,
                      records->bytes.data + entry->offset, (size_t)entry->length);
        if (result < 0)
            return result;
    }
    return 0;
}
