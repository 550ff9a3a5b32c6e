/* journal.bhj: the truth about a run. Append only.
 *
 *     header, 64 bytes
 *       offset 0   u32 magic "BHJL"
 *       offset 4   u16 version, 1
 *       offset 6   u16 header bytes, 64
 *       offset 8   u32 required flags, 0
 *       offset 12  u32 reserved, 0
 *       offset 16  20 bytes run id
 *       offset 36  u32 reserved, 0
 *       offset 40  u64 monotonic ns of the anchor     \ one clock reading of both
 *       offset 48  i64 epoch microseconds of the anchor /
 *       offset 56  u32 reserved, 0
 *       offset 60  u32 CRC-32C of the first 60 bytes
 *     then records
 *       offset 0   u32 record bytes, whole record, 32 + payload + 4, at most BH_JOURNAL_MAX_RECORD
 *       offset 4   u16 kind, enum bh_record_kind
 *       offset 6   u16 flags: bit 0 required, bit 1 added by the scribe itself
 *       offset 8   u64 sequence, 1, 2, 3 … among the records with the same bit 1
 *       offset 16  u64 monotonic ns
 *       offset 24  u8  pool; 7 bytes reserved, 0
 *       offset 32  payload: TLV items, tags per kind in record_codec.c
 *       end        u32 CRC-32C of all before, seeded with CRC-32C of the run id
 *
 * Reader: the valid prefix and one of complete (ends with OUTCOME … and at a record border),
 * truncated, corrupt. The first bad length, sequence or CRC ends the prefix. The decider's sequence
 * may skip numbers only at a LOSSES record, by what it counts. Any number of records is fine.
 * Complete: OUTCOME is there and the file ends at a record border (EMPTY, RECORDER and whatever the
 * scribe still adds may follow it).
 * samples.0, samples.1: the same format, kind SAMPLE only, rewritten in turn every 60 s; their own
 * sequence, from any number. */
#ifndef BH_WIRE_JOURNAL_H
#define BH_WIRE_JOURNAL_H

#include <sys/types.h>

#include "core/base/bytes.h"
#include "core/model/record.h"

#define BH_JOURNAL_FILE_NAME    "journal.bhj"
#define BH_JOURNAL_MAGIC        0x4c4a4842u
#define BH_JOURNAL_VERSION      1
#define BH_JOURNAL_HEADER_BYTES 64
#define BH_JOURNAL_RECORD_BYTES 36 /* of a record without payload */
#define BH_JOURNAL_MAX_RECORD   4096u

/* Codec of one record, header and CRC included: no allocation, used by the decider for queue.bin,
 * by the scribe for the journal and by EV_RECORD frames. encode returns the length or
 * BH_E_TOO_LONG; decode returns the length, 0 when more bytes are needed, or BH_E_MALFORMED,
 * CHECKSUM, VERSION (a required record or member that this version does not know; other unknown
 * kinds come back with an empty payload). run_id has 20 characters. */
int bh_record_encode(const struct bh_record *record, const char *run_id, void *ret_data,
                     size_t capacity);
int bh_record_decode(const void *data, size_t length, const char *run_id,
                     struct bh_record *ret_record);

struct bh_journal_header {
    char run_id[BH_JOB_ID_SIZE];
    struct bh_anchor anchor;
};
void bh_journal_header_encode(const struct bh_journal_header *header,
                              unsigned char ret_bytes[static BH_JOURNAL_HEADER_BYTES]);
int bh_journal_header_decode(const void *data, size_t length, struct bh_journal_header *ret_header);

enum bh_journal_end {
    BH_JOURNAL_COMPLETE = 1,
    BH_JOURNAL_TRUNCATED = 2,
    BH_JOURNAL_CORRUPT = 3,
};
const char *bh_journal_end_text(int end);

/* Reader over a descriptor (borrowed) that may still be growing: next gives 1 and a record, 0 at
 * the present end (call again after it grew), < 0 when the prefix ends for good (BH_E_CHECKSUM,
 * MALFORMED; `end` then says corrupt). Holds 64 KiB. */
struct bh_journal_reader;
int bh_journal_reader_new(int fd, struct bh_journal_reader **ret_reader, struct bh_diag *diag);
void bh_journal_reader_free(struct bh_journal_reader *reader);
const struct bh_journal_header *bh_journal_reader_header(const struct bh_journal_reader *reader);
int bh_journal_reader_next(struct bh_journal_reader *reader, struct bh_record *ret_record);
enum bh_journal_end bh_journal_reader_end(const struct bh_journal_reader *reader);
uint64_t bh_journal_reader_offset(const struct bh_journal_reader *reader); /* of the valid prefix */

/* Where a writer goes on that takes a journal over (standby scribe, adopt): reads it once, cuts a
 * torn or corrupt tail off (fd opened for reading and writing) and tells the last numbers. An empty
 * file gives bytes 0: the header is the caller's to write. */
struct bh_journal_resume {
    uint64_t bytes;            /* length of the valid prefix, now of the file */
    uint64_t sequence;         /* last of the decider, 0 none */
    uint64_t scribe_sequence;  /* last of the scribe, 0 none */
    struct bh_mono last_at;    /* of the last record, 0 none */
    struct bh_anchor anchor;   /* of the header */
    struct bh_mono samples_to; /* end of the last SAMPLES span, 0 none */
    bool has_outcome, has_empty, was_cut;
};
int bh_journal_resume(int fd, const char *run_id, struct bh_journal_resume *ret_resume,
                      struct bh_diag *diag);

#endif
