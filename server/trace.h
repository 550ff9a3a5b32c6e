/* Answers out of the trace: timeline, live set, event list, pickle, Chrome trace. Pure reads; each
 * function is one job for a pool thread: it takes a snapshot (one read transaction, so the answer
 * is one consistent cut even while the import runs), writes its text or bytes to the sink piece by
 * piece, and lets the snapshot go. Nothing here waits for the import.
 *
 * struct bh_trace is one read-only connection, used by one thread at a time; keep a few.
 * Failures before the first byte reached the sink are typed and can become a problem document:
 * BH_E_NOT_FOUND, BH_E_BAD_QUERY, BH_E_LIMIT_NOT_CROSSED, BH_E_NO_TRACE (live sets of a job that
 * was not recorded). Later ones mean: break the connection. */
#ifndef BH_SERVER_TRACE_H
#define BH_SERVER_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct bh_trace;

int bh_trace_open(const char *database_path, struct bh_trace **ret_trace, struct bh_diag *diag);
void bh_trace_close(struct bh_trace *trace); /* NULL allowed */

/* Takes the next piece (at most 64 KiB). May block (back pressure); < 0 ends the answer with that
 * error. Called on the pool thread. */
typedef int (*bh_trace_sink)(void *user, const void *data, size_t length);

/* Epoch microseconds; INT64_MIN / INT64_MAX (or from > to as given by the user: BAD_QUERY) are open
 * ends. */
struct bh_trace_range {
    int64_t from_us, to_us;
};
#define BH_TRACE_OPEN_RANGE ((struct bh_trace_range){INT64_MIN, INT64_MAX})

/* timeline.json's shape; points 1..10000. */
int bh_trace_timeline(struct bh_trace *trace, const char *id, struct bh_trace_range range,
                      uint32_t points, bh_trace_sink sink, void *user, struct bh_diag *diag);

enum bh_trace_at {
    BH_TRACE_AT_TIME = 0, /* at_us */
    BH_TRACE_AT_PEAK,
    BH_TRACE_AT_LIMIT,
    BH_TRACE_AT_END,
};
struct bh_trace_live_query {
    enum bh_trace_at at;
    int64_t at_us;
    bool by_primitive; /* else by stack */
    uint32_t top;      /* groups listed; the rest is `other`. 0 = 100 */
    bool since;        /* since_us given: growth between the two */
    int64_t since_us;
    bool collapsed; /* text for flame graph tools instead of JSON; always all groups */
};
/* live_stack.json's shape, or collapsed lines. */
int bh_trace_live(struct bh_trace *trace, const char *id, const struct bh_trace_live_query *query,
                  bh_trace_sink sink, void *user, struct bh_diag *diag);

/* memory_events.json's shape, or one event a line. from: first sequence, inclusive. */
#define BH_TRACE_EVENTS_DEFAULT 10000u
#define BH_TRACE_EVENTS_MAX     100000u
int bh_trace_events(struct bh_trace *trace, const char *id, uint64_t from, uint32_t limit,
                    bool ndjson, bh_trace_sink sink, void *user, struct bh_diag *diag);

/* memory_viz snapshot of the window [from_us, to_us), at most the last max_entries events of it
 * (0 = all; the caller passes the job's record.max_entries). A job without events: an empty, valid
 * pickle. */
int bh_trace_pickle(struct bh_trace *trace, const char *id, struct bh_trace_range range,
                    uint64_t max_entries, bh_trace_sink sink, void *user, struct bh_diag *diag);

/* Chrome trace events (Perfetto): counters active, reserved, charge; instants for markers. */
int bh_trace_chrome(struct bh_trace *trace, const char *id, struct bh_trace_range range,
                    bh_trace_sink sink, void *user, struct bh_diag *diag);

#endif
