/* Server-sent events: one ring of what happened, read by every stream at its own pace. A stream
 * that falls behind the ring's oldest entry gets a `gap` event and goes on from there, so a slow
 * client costs nobody anything. Loop thread only.
 *
 * An event is written once, whatever the number of clients; streams are woken together a few
 * milliseconds after a burst began. A comment goes out after 15 s without anything else. */
#ifndef BH_SERVER_HUB_H
#define BH_SERVER_HUB_H

#include <uv.h>

#include "api/api_types.h"

#define BH_HUB_MAX_EVENTS 16384u
#define BH_HUB_MAX_BYTES  (4u << 20)
#define BH_HUB_BEAT_MS    15000u

struct bh_hub;

/* epoch: 8 characters that name this start of the server. */
int bh_hub_new(uv_loop_t *loop, const char *epoch, struct bh_hub **ret_hub);
/* Every stream gets `bye` and ends after what it still has; new ones end at once. */
void bh_hub_end(struct bh_hub *hub);
/* Closes the timers; bh_hub_free after the loop, when no stream is left. */
void bh_hub_close(struct bh_hub *hub);
void bh_hub_free(struct bh_hub *hub);

/* type: one BH_EVENT_*; job_id NULL for none; job_sequence: the journal's, 0 = none. The data (one
 * line of JSON) is copied. */
void bh_hub_publish(struct bh_hub *hub, unsigned type, const char *job_id, uint64_t job_sequence,
                    const void *data, size_t length);
/* Number the next event gets; ids in use are below. */
uint64_t bh_hub_next(const struct bh_hub *hub);
unsigned bh_hub_streams(const struct bh_hub *hub);

struct bh_stream_options {
    unsigned types;          /* BH_EVENT_* */
    const char *job_id;      /* only of this job; NULL = all */
    bool of_job;             /* ids are journal sequences */
    uint64_t from;           /* first event number wanted */
    uint64_t after_sequence; /* of_job: facts up to here are in `first` already */
};
/* first: text that goes out before (moved, may be empty). The source is the caller's until a reply
 * takes it. */
int bh_hub_stream(struct bh_hub *hub, const struct bh_stream_options *options,
                  struct bh_bytes *first, struct bh_source **ret_source);

/* One event as text: "id: …\nevent: …\ndata: …\n\n"; id NULL = none. */
void bh_hub_format(struct bh_bytes *out, const char *id, const char *type, const void *data,
                   size_t length);
/* "job" for BH_EVENT_JOB … */
const char *bh_hub_type_text(unsigned type);

#endif
