#include "core/wire/journal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/crc32c.h"
#include "core/base/text.h"
#include "core/wire/le.h"

void bh_journal_header_encode(const struct bh_journal_header *header,
                              unsigned char ret_bytes[static BH_JOURNAL_HEADER_BYTES])
{
    memset(ret_bytes, 0, BH_JOURNAL_HEADER_BYTES);
    bh_le_put32(ret_bytes, BH_JOURNAL_MAGIC);
    bh_le_put16(ret_bytes + 4, BH_JOURNAL_VERSION);
    bh_le_put16(ret_bytes + 6, BH_JOURNAL_HEADER_BYTES);
    memcpy(ret_bytes + 16, header->run_id, BH_JOB_ID_SIZE - 1);
    bh_le_put64(ret_bytes + 40, header->anchor.mono.ns);
    bh_le_put64(ret_bytes + 48, (uint64_t)header->anchor.wall.us);
    bh_le_put32(ret_bytes + 60, bh_crc32c(0, ret_bytes, 60));
}

int bh_journal_header_decode(const void *data, size_t length, struct bh_journal_header *ret_header)
{
    const unsigned char *at = data;
    if (length < BH_JOURNAL_HEADER_BYTES)
        return BH_E_TRUNCATED;
    if (bh_le_get32(at) != BH_JOURNAL_MAGIC)
        return BH_E_MALFORMED;
    if (bh_le_get16(at + 4) != BH_JOURNAL_VERSION)
        return BH_E_VERSION;
    if (bh_le_get32(at + 60) != bh_crc32c(0, at, 60))
        return BH_E_CHECKSUM;
    if (bh_le_get16(at + 6) != BH_JOURNAL_HEADER_BYTES)
        return BH_E_MALFORMED;
    if (bh_le_get32(at + 8) != 0) /* required flags that this version does not know */
        return BH_E_VERSION;
    struct bh_journal_header header = {0};
    memcpy(header.run_id, at + 16, BH_JOB_ID_SIZE - 1);
    if (!bh_text_is_job_id(header.run_id))
        return BH_E_MALFORMED;
    header.anchor.mono.ns = bh_le_get64(at + 40);
    header.anchor.wall.us = (int64_t)bh_le_get64(at + 48);
    *ret_header = header;
    return BH_OK;
}

const char *bh_journal_end_text(int end)
{
    switch (end) {
    case BH_JOURNAL_COMPLETE:
        return "complete";
    case BH_JOURNAL_TRUNCATED:
        return "truncated";
    case BH_JOURNAL_CORRUPT:
        return "corrupt";
    default:
        return "unknown";
    }
}

static void resume_note(struct bh_journal_resume *resume, const struct bh_record *record)
{
    if (record->by_scribe)
        resume->scribe_sequence = record->sequence;
    else if (record->kind != BH_RECORD_SAMPLE)
        resume->sequence = record->sequence;
    resume->last_at = record->at;
    if (record->kind == BH_RECORD_SAMPLES)
        resume->samples_to = record->samples.to;
    resume->has_outcome |= record->kind == BH_RECORD_OUTCOME;
    resume->has_empty |= record->kind == BH_RECORD_EMPTY;
}

/* The valid prefix of an open journal. */
static int resume_scan(struct bh_journal_reader *reader, struct bh_journal_resume *resume)
{
    struct bh_record record;
    int result;
    while ((result = bh_journal_reader_next(reader, &record)) == 1)
        resume_note(resume, &record);
    resume->bytes = bh_journal_reader_offset(reader);
    resume->anchor = bh_journal_reader_header(reader)->anchor;
    return result == BH_E_NOMEM || result == BH_E_IO ? result : BH_OK;
}

int bh_journal_resume(int fd, const char *run_id, struct bh_journal_resume *ret_resume,
                      struct bh_diag *diag)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return bh_err_sys(diag, errno, "cannot look at the journal");
    struct bh_journal_resume resume = {0};
    struct bh_journal_reader *reader = NULL;
    int result = bh_journal_reader_new(fd, &reader, diag);
    if (result == BH_OK) {
        if (strcmp(bh_journal_reader_header(reader)->run_id, run_id) != 0)
            result = bh_err_set(diag, BH_E_MALFORMED, NULL, "the journal is of another run");
        else
            result = resume_scan(reader, &resume);
        bh_journal_reader_free(reader);
    } else if (result == BH_E_TRUNCATED) {
        result = BH_OK; /* died before the header was whole */
    }
    if (result < 0)
        return result;
    if ((uint64_t)st.st_size > resume.bytes) {
        if (ftruncate(fd, (off_t)resume.bytes) < 0)
            return bh_err_sys(diag, errno, "cannot cut the journal's torn end");
        resume.was_cut = true;
    }
    *ret_resume = resume;
    return BH_OK;
}
