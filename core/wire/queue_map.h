/* The bytes of queue.bin, for queue.c and queue_ring.c only: everyone else uses queue.h.
 *
 *     offset 0     u32 magic "BHQU", u16 version 1, u16 header bytes 4096
 *     offset 8     u32 required flags, 0
 *     offset 12    u32 member entries, BH_QUEUE_MEMBERS
 *     offset 16    20 bytes run id
 *     offset 36    u32 record ring bytes, BH_QUEUE_RING_BYTES
 *     offset 40    u64 monotonic ns of the anchor
 *     offset 48    i64 epoch microseconds of the anchor
 *     offset 56    u32 reserved, 0
 *     offset 60    u32 CRC-32C of the first 60 bytes
 *     offset 64    the words of struct bh_queue_words
 *     offset 4096  members, BH_QUEUE_MEMBERS x 32 bytes
 *     offset 135168 two status images of 256 bytes
 *     offset 139264 record ring
 */
#ifndef BH_WIRE_QUEUE_MAP_H
#define BH_WIRE_QUEUE_MAP_H

#include "core/wire/journal.h"
#include "core/wire/queue.h"

#define QUEUE_HEADER_BYTES 4096
#define QUEUE_WORDS_AT     64
#define QUEUE_MEMBERS_AT   4096
#define QUEUE_STATUS_AT    135168
#define QUEUE_RING_AT      139264
#define QUEUE_FILE_BYTES   (QUEUE_RING_AT + BH_QUEUE_RING_BYTES)
#define QUEUE_SKIP         0xffffffffu /* entry length: the next entry is at the ring's start */
#define QUEUE_ENTRY_BYTES  8u          /* in front of each record */

/* One cache line per writer. Native order: the file never leaves the machine. */
struct bh_queue_words {
    _Atomic uint64_t head; /* 64: decider */
    uint64_t pad0[7];
    _Atomic uint64_t tail; /* 128: scribe */
    uint64_t pad1[7];
    _Atomic uint64_t generation; /* 192: decider; of the status images, 0 none yet */
    _Atomic uint64_t dropped;    /* records and samples without room, in total */
    _Atomic uint32_t member_count;
    _Atomic uint32_t recording;
    _Atomic uint32_t final;
    uint32_t pad2[9];
    _Atomic uint32_t wake; /* 256: decider; futex */
    uint32_t pad3[15];
    _Atomic uint32_t scribe_pid; /* 320: scribe */
    _Atomic uint32_t scribe_ready;
    _Atomic int32_t artifact_error;
    _Atomic uint32_t report_done;
    _Atomic uint64_t journal_sequence;
    _Atomic uint64_t evlog_bytes;
    _Atomic uint32_t report_failed;
    uint32_t pad4[7];
    _Atomic uint32_t recorder_state; /* 384: scribe */
    _Atomic uint32_t active_status;
    _Atomic uint32_t reserved_status;
    uint32_t pad5;
    _Atomic uint64_t events, lost, holes, ring_bytes, stacks_lost;
    _Atomic uint64_t active_bytes, reserved_bytes;
};

_Static_assert(offsetof(struct bh_queue_words, tail) == 64, "a line each");
_Static_assert(offsetof(struct bh_queue_words, generation) == 128, "a line each");
_Static_assert(offsetof(struct bh_queue_words, wake) == 192, "a line each");
_Static_assert(offsetof(struct bh_queue_words, scribe_pid) == 256, "a line each");
_Static_assert(offsetof(struct bh_queue_words, recorder_state) == 320, "a line each");
_Static_assert(sizeof(struct bh_queue_member) == 32, "member layout");
_Static_assert(QUEUE_MEMBERS_AT + BH_QUEUE_MEMBERS * 32 <= QUEUE_STATUS_AT, "members fit");

struct bh_queue {
    unsigned char *map; /* QUEUE_FILE_BYTES, shared */
    struct bh_queue_words *words;
    char run_id[BH_JOB_ID_SIZE];
    struct bh_anchor anchor;
    /* decider */
    uint64_t sequence, sample_sequence; /* last given */
    uint64_t unreported_records, unreported_samples;
    unsigned char scratch[BH_JOURNAL_MAX_RECORD];
    /* scribe */
    uint64_t cursor; /* end of the entry last peeked */
    uint32_t wake_seen;
};

#endif
