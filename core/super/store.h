/* What a run keeps on disk besides the event log: journal.bhj, samples.0 and .1, status.bin. Owned
 * by the scribe (or adopt); takes from queue.bin, adds the scribe's own records. May block.
 *
 * The first failed write ends persistence for good (`error`, sticky): the queue is still emptied,
 * so that the decider never meets a full one, and nothing is claimed complete. */
#ifndef BH_SUPER_STORE_H
#define BH_SUPER_STORE_H

#include "core/model/sample.h"
#include "core/super/super.h"
#include "core/wire/journal.h"

#define BH_STORE_SAMPLES_NS 60000000000ull /* of one samples file */
#define BH_STORE_BATCH      65536

struct bh_store {
    const struct bh_run *run;
    struct bh_queue *queue; /* borrowed; NULL in adopt without queue.bin */
    int journal_fd;
    int samples_fd;     /* the one being written, -1 none */
    int samples_number; /* 0 or 1 */
    struct bh_mono samples_since;
    uint64_t sample_sequence; /* last one in a samples file */
    uint64_t sequence;        /* last of the decider's in the journal */
    uint64_t scribe_sequence; /* last of our own */
    uint64_t synced_sequence; /* of the decider's */
    bool dirty;               /* written since the last sync */
    bool sync_wanted;         /* by a record's kind */
    bool has_outcome, has_empty;
    bool began_resumed;
    int error; /* enum bh_error, 0 none */
    struct bh_sample_span span;
    struct bh_observed active, reserved; /* recorder's sums, for the spans; set by the owner */
    uint64_t ring_bytes;                 /* most that was mapped at a time; set by the owner */
    struct bh_mono last_at;              /* of the last record seen */
    bool other_boot; /* adopt after a reboot: the machine's clock is not the run's any more */
    struct bh_mono status_written;
    struct bh_status status; /* as last written */
    bool has_status;
    /* MARK records are passed on to the event log; NULL = nobody */
    void (*on_mark)(void *context, const struct bh_record *record);
    void *mark_context;
    size_t batch_used, samples_used;
    unsigned char batch[BH_STORE_BATCH], samples[BH_STORE_BATCH];
};

/* Opens or takes over the files in run->run_fd. Too large for a stack: the caller allocates. On
 * failure the store is usable all the same, with `error` set. */
int bh_store_open(struct bh_store *store, const struct bh_run *run, struct bh_queue *queue,
                  struct bh_diag *diag);
void bh_store_close(struct bh_store *store);

/* Moves everything that the queue holds to the files and releases it. Returns how many records. */
size_t bh_store_take(struct bh_store *store);
/* Adds a record of the scribe itself (sequence and flag are set here) and writes it. */
void bh_store_add(struct bh_store *store, struct bh_record *record);
/* Time for a record of the scribe: never before what the journal holds already. */
struct bh_mono bh_store_now(const struct bh_store *store);
/* The span under way becomes a SAMPLES record. */
void bh_store_flush_span(struct bh_store *store);
/* Syncs the journal when something unsynced lies in it. */
void bh_store_sync(struct bh_store *store);
/* Replaces status.bin when it says something new: at once for a state, else once a second. */
void bh_store_status(struct bh_store *store, const struct bh_status *status, bool force);

#endif
