/* queue.bin: the shared mapping between the decider (one writer) and the scribe (one reader), on
 * tmpfs, allocated in full at creation, 0600. What is stored here survives the death of every
 * process of ours; storing costs no system call. "Write before acting" is bh_queue_put.
 *
 *     page 0     constants (magic "BHQU", version 1, header bytes, run id, sizes, anchor) and
 *                the words below, each on its own cache line, native little-endian
 *     page 1..   members: BH_QUEUE_MEMBERS entries of 32 bytes {u64 start token, u32 pid, u32
 * flags, u64 identity (pidfd inode, 0 unknown), u64 reserved}; count in the header. For the one who
 * must stop the tree when the decider is lost then       two status images of 256 bytes
 * (status_file.h) and a generation: the decider writes the older one, then release-stores the
 * generation; generation & 1 names the newer then       record ring, BH_QUEUE_RING_BYTES: entries
 * {u32 bytes, u32 0, encoded record (journal.h), zero padding to 8}; an entry never wraps: bytes
 * 0xffffffff = go to the ring's start. head and tail count bytes for ever; position = count & (size
 * - 1)
 *
 * Single producer, single consumer. The producer fills the entry and release-stores head; the
 * reader acquires head and release-stores tail after the record lies in the journal. Distances as
 * signed differences; anything outside 0..size is corruption. No room: the record is dropped and
 * `dropped` counted; a LOSSES record follows when there is room. Never blocks.
 *
 * Words from the scribe to the decider: scribe_pid, scribe_ready, artifact_error, and the
 * recorder's numbers (events, lost, ring bytes, active, reserved, state). Words from the decider to
 * the scribe: recording (0 leave, 1 on, 2 off), final (tree is empty, outcome stored: finish), wake
 * (bumped to ask for a drain at once; a futex word).
 *
 * A hostile queue file cannot exist (the folder is 0700 of our own uid), yet the reader checks
 * every length: a decider that died may have left anything. */
#ifndef BH_WIRE_QUEUE_H
#define BH_WIRE_QUEUE_H

#include <stdatomic.h>

#include "core/model/record.h"
#include "core/wire/status_file.h"

#define BH_QUEUE_FILE_NAME   "queue.bin"
#define BH_QUEUE_MAGIC       0x55514842u
#define BH_QUEUE_VERSION     1
#define BH_QUEUE_MEMBERS     4096
#define BH_QUEUE_RING_BYTES  (1u << 20)
#define BH_QUEUE_MEMBER_LIVE 1u

struct bh_queue_member {
    uint64_t start_token;
    uint32_t pid;
    uint32_t flags;
    uint64_t identity;
    uint64_t reserved;
};

struct bh_queue; /* one process's handle on the mapping */

/* Creates (decider, before launch) or opens (scribe, adopt) the file in the runtime folder. */
int bh_queue_create(int dirfd, const char *run_id, struct bh_anchor anchor,
                    struct bh_queue **ret_queue, struct bh_diag *diag);
int bh_queue_open(int dirfd, const char *run_id, struct bh_queue **ret_queue, struct bh_diag *diag);
void bh_queue_free(struct bh_queue *queue); /* unmaps, keeps the file */
struct bh_anchor bh_queue_anchor(const struct bh_queue *queue);

/* ---- decider: no allocation, no system call ---- */
/* Gives the record the next sequence (SAMPLE records have a counter of their own), encodes and
 * stores it; returns BH_OK or BH_E_BUSY (no room: dropped and counted). record->sequence is set in
 * both cases. Samples are dropped first: they leave a quarter of the ring to the other records. */
int bh_queue_put(struct bh_queue *queue, struct bh_record *record);
void bh_queue_put_status(struct bh_queue *queue, const struct bh_status *status);
void bh_queue_set_members(struct bh_queue *queue, const struct bh_queue_member *members,
                          size_t count);
void bh_queue_set_recording(struct bh_queue *queue, bool enabled);
void bh_queue_set_final(struct bh_queue *queue);
void bh_queue_wake(struct bh_queue *queue); /* futex wake: one system call, not on the stop path */

/* ---- scribe ---- */
/* The entry behind the one last peeked, as encoded bytes in place, valid until bh_queue_taken. 1, 0
 * when there is none, BH_E_MALFORMED when the ring is beyond repair. A reader that takes over
 * begins at the first entry not taken: it may meet records that lie in the journal already. */
int bh_queue_peek(struct bh_queue *queue, const unsigned char **ret_bytes, size_t *ret_length);
void bh_queue_taken(struct bh_queue *queue); /* releases all entries peeked so far */
/* Sleeps until the decider wakes it, at most timeout_ns. */
void bh_queue_wait(struct bh_queue *queue, uint64_t timeout_ns);
/* Newest whole status; false when none was stored yet. */
bool bh_queue_status(const struct bh_queue *queue, struct bh_status *ret_status);
size_t bh_queue_members(const struct bh_queue *queue, struct bh_queue_member *ret_members,
                        size_t capacity);
/* 0 = leave, 1 = on, 2 = off */
int bh_queue_recording(const struct bh_queue *queue);
bool bh_queue_is_final(const struct bh_queue *queue);
uint64_t bh_queue_dropped(const struct bh_queue *queue);

/* ---- scribe to decider ---- */
struct bh_queue_scribe {
    int pid;
    bool ready;         /* up, and at its last look all that was stored was journalled and synced */
    int artifact_error; /* enum bh_error, 0 none: exit 74 */
    bool report_done;   /* report.json is in place */
    bool report_failed; /* there will be none: nobody need wait */
    uint64_t journal_sequence; /* last one synced */
    uint64_t evlog_bytes;
    struct bh_record_recorder recorder; /* texts are not carried: only numbers and state */
};
void bh_queue_set_scribe(struct bh_queue *queue, const struct bh_queue_scribe *scribe);
void bh_queue_scribe(const struct bh_queue *queue, struct bh_queue_scribe *ret_scribe);

#endif
