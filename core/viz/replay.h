/* The allocator's state along the event log: which buffers exist, active or cached, in every
 * process image, and the sums. The one place that knows what an event does; pickles, live sets,
 * timelines and keyframes all stand on it.
 *
 * Records go in one by one, in file order. The state stays consistent whatever comes (after losses
 * events can contradict what is known): each record is turned into legal changes of buffers, and
 * what it presupposes is inserted before it (`implied`). A baseline is collected and takes effect
 * as a whole with its last entry, so that the sums never show a half of it; before that, the state
 * is the one before it.
 *
 * Times are the running maximum over the job (a time never goes back), in epoch microseconds.
 * Ended images keep their buffers here (a pickle shows each image's last state) but leave the sums.
 */
#ifndef BH_VIZ_REPLAY_H
#define BH_VIZ_REPLAY_H

#include "core/wire/evlog.h"

enum bh_buffer_state {
    BH_BUFFER_FREE = 0, /* slot of the pool not in use */
    BH_BUFFER_ACTIVE = 1,
    BH_BUFFER_CACHED = 2,
};

struct bh_buffer {
    uint64_t address, size_bytes;
    uint64_t requested_bytes; /* of the last allocation; <= size_bytes */
    uint64_t sequence;        /* of the event that made it what it is: allocation, free, baseline */
    int64_t at_us;            /* of that event */
    uint32_t image;
    uint32_t stack, primitive; /* of the last allocation; 0 = not known (yet) */
    int32_t stream;            /* -1 = not known */
    uint8_t state;             /* enum bh_buffer_state */
    bool linked;               /* nothing is left for a LINK to say */
    bool fresh;                /* the last allocation took it from the system, not the cache */
    bool seen;                 /* scratch of a baseline */
};

#define BH_REPLAY_NONE UINT32_MAX

struct bh_replay_image {
    uint64_t active_bytes, cached_bytes;
    uint64_t baseline_left; /* entries still to come, while collecting */
    bool known;             /* a record named it */
    bool ended;
    bool based; /* its first baseline is done, or it went on without one */
    bool collecting;
};

/* What happens to one buffer. */
enum bh_change {
    BH_CHANGE_NEW = 1,  /* nothing -> active */
    BH_CHANGE_REUSE,    /* cached -> active */
    BH_CHANGE_TO_CACHE, /* active -> cached */
    BH_CHANGE_TO_OS,    /* active -> nothing */
    BH_CHANGE_EVICT,    /* cached -> nothing */
    BH_CHANGE_CACHED,   /* nothing -> cached: only in baselines */
};

/* Called for every change, before the next one is made. `buffer` is the buffer after the change, or
 * as it was for those that take it away. `implied`: no event of its own says so. `base`: it is part
 * of the first state known of its image, not something that happened. < 0 stops the replay. */
struct bh_replay_observer {
    int (*change)(void *context, enum bh_change change, const struct bh_buffer *buffer,
                  bool implied, bool base);
    void *context;
};

struct bh_replay {
    struct bh_anchor anchor;
    struct bh_replay_observer observer; /* change NULL = none */

    /* sums over images that have not ended; not changed while a baseline is collected */
    uint64_t active_bytes, reserved_bytes;
    uint64_t events, lost; /* events applied; events known to be missing */
    uint64_t sequence;     /* of the last event */
    int64_t at_us;         /* running maximum of the times so far */
    int64_t began_us;      /* first time in the log */
    int64_t event_us;      /* time of the last event (at_us counts every record) */
    bool began, full;
    uint64_t peak_bytes, peak_sequence; /* of active, first time it was reached */
    int64_t peak_us;

    /* owned */
    struct bh_buffer *pool;
    uint32_t pool_used, pool_capacity, pool_free, live; /* live: active or cached buffers */
    uint32_t *by_address, *by_sequence;                 /* open addressing, pool index + 1 */
    uint32_t address_mask, sequence_mask;
    uint32_t pending;               /* live allocations whose LINK may still come */
    struct bh_replay_image *images; /* by id */
    uint32_t image_count;
    struct bh_buffer *baseline; /* entries of the baselines being collected */
    uint32_t baseline_used, baseline_capacity;
};

void bh_replay_init(struct bh_replay *replay, struct bh_anchor anchor);
void bh_replay_done(struct bh_replay *replay);
/* BH_E_NOMEM, BH_E_MALFORMED (an image that was never defined), or the observer's error. Names are
 * ignored. */
int bh_replay_apply(struct bh_replay *replay, const struct bh_evlog_record *record);

/* Index into pool, BH_REPLAY_NONE when not there. */
uint32_t bh_replay_find(const struct bh_replay *replay, uint32_t image, uint64_t address);
/* Pool index of the live allocation of that sequence which still waits for its LINK. */
uint32_t bh_replay_find_pending(const struct bh_replay *replay, uint64_t sequence);
/* The epoch microseconds this record's time has in exports: never below replay->at_us. */
int64_t bh_replay_time(const struct bh_replay *replay, const struct bh_evlog_record *record);

/* The allocation that most likely took the job over its limit, in the state of that instant: the
 * newest active buffer that came fresh from the system, else the newest active one. */
uint32_t bh_replay_crossing(const struct bh_replay *replay);

/* For keyframes: room for so many buffers, so that putting them moves nothing. */
int bh_replay_reserve(struct bh_replay *replay, uint32_t buffers);
/* For keyframes: puts a buffer as it is, sums included; no observer call. */
int bh_replay_put(struct bh_replay *replay, const struct bh_buffer *buffer);
int bh_replay_image_put(struct bh_replay *replay, uint32_t image,
                        const struct bh_replay_image *state);

#endif
