/* The journal's reader and everything that is folded from it, with any bytes. The first byte
 * chooses: even, the rest is the file as it is; odd, the rest becomes records with right sequences
 * and checksums {u8 kind, u8 flags, u16 length, payload}, so that decoders behind them are reached.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/model/report.h"
#include "core/wire/journal.h"
#include "core/wire/le.h"

#define RUN_ID "0mhq2v9k3dx7c1p5n8tb"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_header(struct bh_bytes *file)
{
    struct bh_journal_header header = {RUN_ID, {{1000000000}, {1796002200120000}}};
    unsigned char bytes[BH_JOURNAL_HEADER_BYTES];
    bh_journal_header_encode(&header, bytes);
    bh_bytes_append(file, bytes, sizeof bytes);
}

static void seal_records(struct bh_bytes *file, const uint8_t *data, size_t size)
{
    uint64_t sequence[2] = {0, 0};
    put_header(file);
    while (size >= 4) {
        unsigned char record[BH_JOURNAL_MAX_RECORD] = {0};
        size_t length = bh_le_get16(data + 2) % (BH_JOURNAL_MAX_RECORD - BH_JOURNAL_RECORD_BYTES);
        size_t total = BH_JOURNAL_RECORD_BYTES + length;
        if (length > size - 4)
            break;
        bh_le_put32(record, (uint32_t)total);
        bh_le_put16(record + 4, data[0]);
        bh_le_put16(record + 6, data[1] & 3);
        bh_le_put64(record + 8, ++sequence[(data[1] >> 1) & 1]);
        bh_le_put64(record + 16, 1000000000 + sequence[0] * 1000000);
        memcpy(record + 32, data + 4, length);
        bh_le_put32(record + total - 4, bh_crc32c(bh_crc32c(0, RUN_ID, 20), record, total - 4));
        bh_bytes_append(file, record, total);
        data += 4 + length;
        size -= 4 + length;
    }
}

/* Every decoded record can be encoded, and decodes to the same bytes again. */
static void check_again(const struct bh_record *record)
{
    unsigned char one[BH_JOURNAL_MAX_RECORD], two[BH_JOURNAL_MAX_RECORD];
    struct bh_record back;
    int length = bh_record_encode(record, RUN_ID, one, sizeof one);
    if (length < 0)
        return; /* a kind of a later version */
    if (bh_record_decode(one, (size_t)length, RUN_ID, &back) != length ||
        bh_record_encode(&back, RUN_ID, two, sizeof two) != length ||
        memcmp(one, two, (size_t)length) != 0)
        abort();
}

static void read_file(int fd, bool render)
{
    struct bh_journal_reader *reader = NULL;
    struct bh_record record;
    static struct bh_report *report;
    if (!report)
        report = bh_report_new();
    if (!report || bh_journal_reader_new(fd, &reader, NULL) < 0)
        return;
    bh_report_begin(report, RUN_ID, bh_journal_reader_header(reader)->anchor);
    while (bh_journal_reader_next(reader, &record) == 1) {
        check_again(&record);
        bh_report_add(report, &record);
    }
    bh_report_finish(report, bh_journal_reader_end(reader) == BH_JOURNAL_COMPLETE);
    bh_journal_reader_free(reader);
    if (!render)
        return;
    struct bh_bytes json = {0};
    (void)bh_report_validate(report, NULL);
    if (bh_report_render(report, 3600, &json) < 0)
        abort();
    bh_bytes_done(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct bh_bytes file = {0};
    struct bh_journal_resume resume;
    if (size < 1)
        return 0;
    if (fd < 0)
        fd = memfd_create("journal", MFD_CLOEXEC);
    if (data[0] & 1)
        seal_records(&file, data + 1, size - 1);
    else
        bh_bytes_append(&file, data + 1, size - 1);
    if (ftruncate(fd, 0) < 0 ||
        bh_io_pwrite_full(fd, file.data ? (void *)file.data : "", file.length, 0) < 0)
        abort();
    bh_bytes_done(&file);
    read_file(fd, true);
    if (bh_journal_resume(fd, RUN_ID, &resume, NULL) == BH_OK)
        read_file(fd, false); /* what was cut can be read on */
    return 0;
}
