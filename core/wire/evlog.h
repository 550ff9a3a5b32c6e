/* events.bhe: the allocator events of one job, drained from its rings. Append only, readable up to
 * the last whole segment after any kill. Written by the scribe (core/super/drain), imported by the
 * server segment by segment, read offline by bulkhead-tool.
 *
 *     file header, 64 bytes
 *       offset 0   u32 magic "BHEV"
 *       offset 4   u16 version, 1
 *       offset 6   u16 header bytes, 64
 *       offset 8   u32 required flags, 0
 *       offset 12  u32 reserved, 0
 *       offset 16  20 bytes run id
 *       offset 36  u32 reserved, 0
 *       offset 40  u64 monotonic ns of the anchor
 *       offset 48  i64 epoch microseconds of the anchor
 *       offset 56  u32 reserved, 0
 *       offset 60  u32 CRC-32C of the first 60 bytes
 *     segments, at most BH_EVLOG_SEGMENT_BYTES each, header 64 bytes
 *       offset 0   u32 magic "BHES"
 *       offset 4   u16 version, 1
 *       offset 6   u16 header bytes, 64
 *       offset 8   u32 segment number, 0, 1, 2 …
 *       offset 12  u32 how many of the records define something (IMAGE, STRING, FRAME, STACK): a
 *                  reader that wants names alone skips segments without any
 *       offset 16  u32 record count
 *       offset 20  u32 body bytes
 *       offset 24  u64 first event sequence  \ of the events inside; 1 and 0 = none
 *       offset 32  u64 last event sequence   /
 *       offset 40  u64 events lost before this segment, in total
 *       offset 48  u64 greatest monotonic ns of the log up to and with this segment's first timed
 *                  record (served times are a running maximum: a reader can start here)
 *       offset 56  u32 CRC-32C of the body
 *       offset 60  u32 CRC-32C of the first 60 bytes
 *       body       records; every delta starts from zero at a segment's start (event times from the
 *                  header's), so that a segment decodes alone
 *     records: u8 kind and flags, then LEB128 varints (signed ones zigzag), as listed in
 *     evlog_record.c.
 *
 * Ids (image, string, frame, stack) are job-wide, dense from 1, 0 = none; a definition precedes its
 * first use in file order and is given once. Stacks list frames innermost first. An image is one
 * ring: one process image. Its events name it. Event sequence numbers are job-wide, dense from 1.
 *
 * A LINK gives the stack, primitive and stream of an allocation written earlier (by its event
 * sequence); it may come in a later segment than its event. Readers join: it fills in what its
 * event left open (stack and primitive 0, stream -1), and the first one counts. */
#ifndef BH_WIRE_EVLOG_H
#define BH_WIRE_EVLOG_H

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/random.h"

#define BH_EVLOG_FILE_NAME     "events.bhe"
#define BH_EVLOG_MAGIC         0x56454842u
#define BH_EVLOG_SEGMENT_MAGIC 0x53454842u
#define BH_EVLOG_VERSION       1
#define BH_EVLOG_HEADER_BYTES  64
#define BH_EVLOG_SEGMENT_BYTES 65536u
#define BH_EVLOG_STRING_BYTES  4096u /* a longer string is cut by the writer */
#define BH_EVLOG_MAX_DEPTH     256u

/* Kinds 1..7 are MLX's actions, numbered as in ring.h. */
enum bh_evlog_kind {
    BH_EVLOG_ALLOC_NEW = 1,
    BH_EVLOG_ALLOC_REUSE = 2,
    BH_EVLOG_ALLOC_MAKE_BUFFER = 3,
    BH_EVLOG_FREE_TO_CACHE = 4,
    BH_EVLOG_FREE_TO_OS = 5,
    BH_EVLOG_RELEASE = 6,
    BH_EVLOG_CACHE_TO_OS = 7,
    /* event: takes a sequence; count events are missing here. LOST, BASELINE_BEGIN and OFF carry
     * the recorder's own sums as well: address = active bytes, size_bytes = cached bytes (0, 0 =
     * unknown). */
    BH_EVLOG_LOST = 16,
    BH_EVLOG_BASELINE = 17, /* event: takes a sequence; one buffer that exists, active or cached */
    BH_EVLOG_MARK = 18,     /* event: takes a sequence; label */
    BH_EVLOG_LINK = 32,
    BH_EVLOG_IMAGE = 33,     /* definition: pid, start token, n, state texts */
    BH_EVLOG_IMAGE_END = 34, /* the process image is gone: everything it held is gone */
    BH_EVLOG_STRING = 35,
    BH_EVLOG_FRAME = 36,
    BH_EVLOG_STACK = 37,
    BH_EVLOG_BASELINE_BEGIN = 38, /* what the image held before is forgotten; BASELINEs follow */
    BH_EVLOG_OFF = 39,            /* recording switched off in this image */
    BH_EVLOG_HOLE = 40,           /* count slots were taken but never filled (process died) */
    BH_EVLOG_FULL = 41,           /* trace_max_bytes reached: nothing follows but FULL's count */
    BH_EVLOG_TAKEN = 42, /* what the image's ring held before ticket `count` is in the log so far */
};

/* One record, all kinds; members that a kind does not use are 0. */
struct bh_evlog_record {
    enum bh_evlog_kind kind;
    uint64_t sequence; /* events and LINK (of the allocation it is about) */
    struct bh_mono at; /* events, IMAGE, IMAGE_END, BASELINE_BEGIN, OFF, FULL */
    uint32_t image;    /* all but STRING, FRAME, STACK, FULL; for IMAGE: the id defined */
    uint64_t address, size_bytes, requested_bytes;
    uint32_t thread;
    int32_t stream;
    uint32_t primitive; /* string id */
    uint32_t stack;     /* stack id; STACK: the id defined */
    bool cached;        /* BASELINE */
    bool doubtful;      /* classified while another thread emptied the cache */
    uint64_t count;     /* LOST, HOLE, FULL; BASELINE_BEGIN: how many follow; TAKEN: ticket */
    uint32_t id;        /* STRING, FRAME: the id defined */
    uint32_t text;      /* MARK label: string id; IMAGE: string id of the MLX version */
    /* STRING: bytes (borrowed, not terminated); STACK: frames */
    const char *string;
    size_t string_length;
    uint32_t file, function, line; /* FRAME: string ids and line */
    const uint32_t *frames;
    uint32_t frame_count;
    int pid; /* IMAGE */
    uint64_t start_token;
    uint32_t image_number; /* IMAGE: n of the ring's file name */
};

/* ---- writer (scribe) ------------------------------------------------------------------------
 * Collects records into one segment in memory and writes it whole with one write. The caller
 * assigns sequences and ids in order; the writer checks neither. fd is borrowed, opened O_APPEND;
 * an existing file must have been cut to its last whole segment first (bh_evlog_resume). */
struct bh_evlog_writer;
int bh_evlog_writer_new(int fd, const char *run_id, struct bh_anchor anchor,
                        struct bh_evlog_writer **ret_writer, struct bh_diag *diag);
/* Adds one record; writes the segment out first when it would not fit. A failed write is sticky:
 * nothing is written any more and every call answers that error. */
int bh_evlog_writer_add(struct bh_evlog_writer *writer, const struct bh_evlog_record *record);
/* Writes what is collected, if anything. */
int bh_evlog_writer_flush(struct bh_evlog_writer *writer);
/* Would `records` more small ones (not STRING, not STACK) surely get into the present segment? */
bool bh_evlog_writer_has_room(const struct bh_evlog_writer *writer, size_t records);
/* Counts `lost` into the headers of later segments. */
void bh_evlog_writer_set_lost(struct bh_evlog_writer *writer, uint64_t lost);
uint64_t bh_evlog_writer_bytes(const struct bh_evlog_writer *writer); /* on disk so far */
void bh_evlog_writer_free(struct bh_evlog_writer *writer);            /* does not flush */

/* Where a writer that takes over goes on: cuts a torn tail off and reports the next free numbers.
 * Reads the whole file once. */
struct bh_evlog_resume {
    uint64_t bytes, segments, next_sequence;
    uint32_t next_image, next_string, next_frame, next_stack;
    uint64_t lost;
};
int bh_evlog_resume(int fd, struct bh_evlog_resume *ret_resume, struct bh_diag *diag);

/* ---- segments and records (server, tool, tests) --------------------------------------------- */
struct bh_evlog_header {
    char run_id[BH_JOB_ID_SIZE];
    struct bh_anchor anchor;
};
int bh_evlog_header_decode(const void *data, size_t length, struct bh_evlog_header *ret_header);

struct bh_evlog_segment {
    uint64_t number;
    uint32_t definitions; /* records of kind IMAGE, STRING, FRAME or STACK */
    uint32_t records, body_bytes;
    uint64_t first_sequence, last_sequence, lost_before;
    struct bh_mono first_at;
    const unsigned char *body; /* into data */
};
/* Looks at the segment at the start of data: returns its whole length, 0 when more bytes are
 * needed, BH_E_MALFORMED, VERSION, CHECKSUM. */
int bh_evlog_segment_decode(const void *data, size_t length, struct bh_evlog_segment *ret_segment);

/* Records of one segment, in order. string and frames point into the cursor or the segment's body
 * and stay valid until the next call. 1 with a record, 0 at the end, BH_E_MALFORMED. */
struct bh_evlog_cursor {
    const unsigned char *at, *end;
    uint32_t left;
    uint64_t sequence, time_ns, address; /* running values of the deltas */
    uint32_t image, thread;
    uint32_t frames[BH_EVLOG_MAX_DEPTH];
};
void bh_evlog_cursor_open(struct bh_evlog_cursor *cursor, const struct bh_evlog_segment *segment);
int bh_evlog_cursor_next(struct bh_evlog_cursor *cursor, struct bh_evlog_record *ret_record);

const char *
bh_evlog_action_text(int kind); /* "AllocNew" … "FreeCacheToOS", "Lost", "Baseline", "Mark" */

#endif
