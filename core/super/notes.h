/* Where the decider's facts go: every record is stored in queue.bin and offered to the watching
 * peers. Member records are bounded, so that a fork storm cannot push out what matters. */
#ifndef BH_SUPER_NOTES_H
#define BH_SUPER_NOTES_H

#include "core/platform/platform.h"
#include "core/wire/queue.h"

struct bh_peers;

#define BH_NOTES_MEMBER_BURST  3000 /* member records at once: less than half of queue.bin */
#define BH_NOTES_MEMBER_SECOND 1000 /* and so many come back each second */

struct bh_notes {
    const struct bh_platform *os;
    struct bh_queue *queue; /* NULL in tests that look at `last` only */
    struct bh_peers *peers; /* NULL = nobody watches */
    uint64_t sequence;      /* of the last record stored */
    uint64_t member_records_left;
    uint64_t members_unsaid; /* member records left out */
    uint64_t came, escaped;  /* all of them, whether a record was left out or not */
    bool wake_wanted;        /* something that should be synced was stored */
    void (*tap)(void *context, const struct bh_record *record); /* tests, --json; NULL = none */
    void *tap_context;
};

/* Zeroed record of this kind at the present time, for the host pool. */
struct bh_record bh_notes_begin(const struct bh_notes *notes, enum bh_record_kind kind);
/* Stores it (sequence is set) and tells the peers. */
void bh_notes_put(struct bh_notes *notes, struct bh_record *record);
/* Once a second: new budget for member records; wakes the scribe if something waits. */
void bh_notes_second(struct bh_notes *notes);
/* Wakes the scribe if something waits; after signals, never before. */
void bh_notes_flush(struct bh_notes *notes);

#endif
