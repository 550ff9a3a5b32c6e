/* What was live at an instant, grouped by Python stack or by primitive. The groups add up to the
 * active bytes of that instant, to the byte. Also growth since another instant, whether a group
 * keeps growing, and the allocation that crossed the limit.
 *
 * Runs over a source; with keyframes it starts at the nearest one. An allocation whose LINK comes
 * more than BH_JOIN_EVENTS records after the instant counts as without stack. */
#ifndef BH_VIZ_LIVE_H
#define BH_VIZ_LIVE_H

#include "core/viz/dictionary.h"
#include "core/viz/keyframe.h"
#include "core/viz/sink.h"

enum bh_live_when {
    BH_LIVE_AT_US = 1,   /* after the last event not later than at_us; ended images are gone */
    BH_LIVE_AT_SEQUENCE, /* right after this event */
    BH_LIVE_AT_PEAK,     /* right after the event that first reached the highest active */
    BH_LIVE_AT_LIMIT,    /* after the last event not later than limit_us */
    BH_LIVE_AT_END,      /* after the last event of each image, ended or not */
};

struct bh_live_query {
    enum bh_live_when when;
    int64_t at_us;
    uint64_t sequence;
    bool by_primitive; /* else by stack */
    uint32_t top;      /* groups kept, largest first; the rest is summed. 0 = 100 */
    bool since;        /* growth since since_us */
    int64_t since_us;
    bool growing;       /* fill keeps_growing: rose in each quarter of the run */
    bool limit_crossed; /* the journal has a limit_crossed, at limit_us */
    int64_t limit_us;
};

/* What the caller may know already (struct bh_replay at the log's end has it all); NULL = a pass of
 * its own finds it when it is needed. */
struct bh_live_hint {
    uint64_t events; /* 0: nothing was recorded */
    uint64_t peak_sequence, last_sequence;
    int64_t began_us, event_us; /* the run, for its quarters */
};

struct bh_live_group {
    uint32_t stack;     /* id, 0 = none; by stack only */
    uint32_t primitive; /* string id, 0 = none; by stack: the one with most bytes inside */
    uint64_t bytes, count;
    int64_t growth_bytes; /* since */
    bool keeps_growing;
};

struct bh_live_crossing {
    bool known;
    uint64_t sequence, bytes;
    int64_t at_us;
    uint32_t stack, primitive;
};

struct bh_live {
    struct bh_live_query query;
    bool growing_known; /* keeps_growing is filled */
    int64_t at_us;      /* of the instant */
    uint64_t sequence;  /* of its last event */
    uint64_t total_bytes, total_count;
    struct bh_live_group *groups; /* owned, largest first, query.top at most */
    uint32_t group_count;
    struct bh_live_group other; /* sum of the rest: bytes, count, growth */
    uint32_t other_groups;
    struct bh_live_crossing crossed_by;
};

/* keyframes and hint may be NULL. BH_E_LIMIT_NOT_CROSSED, BH_E_NO_TRACE (at the peak or limit of a
 * trace without events), BH_E_NOMEM, source errors. */
int bh_live_compute(const struct bh_trace_source *source, const struct bh_dictionary *dictionary,
                    const struct bh_keyframe_store *keyframes, const struct bh_live_hint *hint,
                    const struct bh_live_query *query, struct bh_live *ret_live,
                    struct bh_diag *diag);
void bh_live_done(struct bh_live *live);

/* openapi/examples/live_stack.json's shape, one line. */
int bh_live_json(const struct bh_live *live, const struct bh_dictionary *dictionary,
                 const char *job_id, struct bh_sink sink);
/* "outer (file:line);inner (file:line) BYTES" per group; all groups must have been kept. */
int bh_live_collapsed(const struct bh_live *live, const struct bh_dictionary *dictionary,
                      struct bh_sink sink);

#endif
