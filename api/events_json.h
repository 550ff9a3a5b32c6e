/* Memory events as clients send them (core/record/recorder.md, section 5): a JSON array, or one
 * object a line. Read one entry at a time, so that a body of 64 MiB never becomes one tree. Runs on
 * a pool thread: touches nothing but its arguments. */
#ifndef BH_API_EVENTS_JSON_H
#define BH_API_EVENTS_JSON_H

#include "api/problem.h"

#define BH_EVENTS_MAX_FRAMES 256

struct bh_event_frame {
    const char *file, *function;
    uint32_t line;
};

/* One entry. Texts and frames are borrowed during the visit. */
struct bh_event_entry {
    const char *action;
    bool has_sequence;
    uint64_t sequence;
    int pid;        /* 0 = null */
    uint32_t image; /* 0 when absent */
    uint64_t address, size_bytes, requested_bytes;
    int64_t timestamp_us;
    const char *primitive;               /* NULL = null */
    int32_t stream;                      /* -1 unknown */
    const struct bh_event_frame *frames; /* outermost first; NULL = null */
    size_t frame_count;
    uint64_t count;    /* Lost */
    const char *label; /* Mark */
    bool cached;       /* Baseline */
};

enum bh_events_form {
    BH_EVENTS_ARRAY,
    BH_EVENTS_LINES,
    BH_EVENTS_EITHER, /* by the first character */
};

/* Calls visit for each entry, in order; its error ends the reading, with diag->field the member of
 * the entry that is wrong ("" = the entry). Pointers in the problem are /N or /N/member, N from 0.
 * Returns the number of entries, or the error that is in problem too. */
int64_t bh_events_read(const char *text, size_t length, enum bh_events_form form,
                       int (*visit)(void *user, const struct bh_event_entry *entry,
                                    struct bh_diag *diag),
                       void *user, struct bh_problem *problem);

#endif
