/* What the files of the traces share. */
#ifndef BH_SERVER_TRACE_INTERNAL_H
#define BH_SERVER_TRACE_INTERNAL_H

#include "core/model/record.h"
#include "core/viz/dictionary.h"
#include "core/viz/sink.h"
#include "server/db.h"
#include "server/job_row.h"
#include "server/trace.h"
#include "server/trace_rows.h"

#define BH_STATEMENT(name, text) BH_READ_SQL_##name,
enum bh_read_sql {
    BH_READ_SQL_BASE = BH_TRACE_SQL_COUNT - 1, /* the shared ones come first */
#include "server/trace_own_statements.def"
    BH_READ_SQL_COUNT,
};
#undef BH_STATEMENT

/* One job's trace in one snapshot: from bh_trace_begin to bh_trace_end. */
struct bh_trace_job {
    int64_t key;
    char id[BH_JOB_ID_SIZE];
    struct bh_anchor journal_anchor;     /* of the journal, or of the event log without one */
    struct bh_wall started_at, ended_at; /* us 0 = not yet */
    bool finished;
    struct bh_observed peak;
    struct bh_wall peak_at;
    struct bh_wall limit_crossed_at; /* us 0 = never */
    uint64_t limit_crossed_bytes;
    uint64_t limit_bytes, warning_bytes, recovery_bytes, emergency_bytes;
    uint64_t segments;
    uint64_t events, event_sequence;  /* applied; the last one's */
    uint64_t peak_sequence;           /* event that first reached the highest active */
    struct bh_wall began_at, last_at; /* first time in the event log, and the last event's */
    enum bh_mode mode;
    struct bh_trace_rows rows;
};

struct bh_trace {
    struct bh_db db;
    /* names of the job asked for last: stays valid when the job has not grown since */
    struct bh_dictionary *dictionary; /* owned */
    int64_t dictionary_key;
    uint64_t dictionary_segments;
};

int bh_trace_begin(struct bh_trace *trace, const char *id, struct bh_trace_job *ret_job,
                   struct bh_diag *diag);
/* Lets the snapshot go; returns result. */
int bh_trace_end(struct bh_trace *trace, struct bh_trace_job *job, int result);
/* The job's names, loaded at most once per state of the job. Borrowed. */
int bh_trace_dictionary(struct bh_trace *trace, struct bh_trace_job *job,
                        const struct bh_dictionary **ret_dictionary, struct bh_diag *diag);

/* Everything that is shown at one instant on the time axis. */
struct bh_trace_marker {
    int64_t at_us;
    uint64_t order;          /* of equals: journal before the recorder's marks */
    bool is_mark;            /* from the event log: text is its label */
    struct bh_record record; /* else */
    char label[256];
};
/* Markers with from_us <= at_us <= to_us, in order of time. visit < 0 stops. */
int bh_trace_markers(struct bh_trace *trace, const struct bh_trace_job *job, int64_t from_us,
                     int64_t to_us, int (*visit)(void *user, const struct bh_trace_marker *marker),
                     void *user, struct bh_diag *diag);
/* A marker's plain words: "SIGTERM", "epoch 2", "the charge reached the limit". Returns buffer. */
const char *bh_trace_marker_text(const struct bh_trace_marker *marker, char *buffer, size_t size);

#endif
