/* The server's SQLite database: index of jobs, reports, journal records, traces, idempotency keys
 * and security events. Everything in it but the last two is a derived copy of the run directories
 * and can be rebuilt from them (core/super/supervision.md, section 11).
 *
 * struct bh_store is the loop thread's connection, for small statements only; nothing here touches
 * trace blobs. Bulk writes go through import.h, bulk reads through trace.h: each has a connection
 * of its own and runs on the pool. WAL, synchronous=NORMAL (a commit survives the death of the
 * process; the last ones may be undone by a power cut, and are imported again), except where a
 * function says "durable".
 *
 * Ownership: row structs own nothing but their arrays; blobs come back in the caller's bh_bytes.
 * Failures: BH_E_NOT_FOUND, BH_E_NOSPACE (full disk: the server goes on), BH_E_BUSY (another
 * connection held the write lock for 2 s), BH_E_IO, BH_E_NOMEM, BH_E_MALFORMED (database damaged
 * while in use: restart rebuilds it). */
#ifndef BH_SERVER_STORE_H
#define BH_SERVER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/model/job.h"
#include "core/model/record.h"

#define BH_STORE_FILE_NAME "bulkhead.db"

struct bh_store;

/* What opening had to do; the server says it in the log and on the page. */
struct bh_store_start {
    bool created;     /* no database was there */
    bool moved_aside; /* quick_check failed, or it was no database: now `aside` in the state folder
                       */
    char aside[64];   /* "bulkhead.db.damaged-1796002200" */
    char reason[320]; /* what quick_check said, escaped */
    bool needs_reindex; /* created or moved aside, or --reindex: run bh_reindex (import.h) */
};

/* state_path: absolute path of the state folder, already ours. Refuses a network file system with
 * BH_E_UNSUPPORTED and the reason (locks and WAL do not work there). `reindex` drops every derived
 * row first. */
int bh_store_open(const char *state_path, bool reindex, struct bh_store **ret_store,
                  struct bh_store_start *ret_start, struct bh_diag *diag);
void bh_store_close(struct bh_store *store); /* NULL allowed; checkpoints the WAL */
/* Absolute path of the database file, for bh_import_open and bh_trace_open. Borrowed. */
const char *bh_store_path_peek(const struct bh_store *store);
/* Bytes of database and WAL, for metrics and retention. */
uint64_t bh_store_bytes(const struct bh_store *store);

/* ---- jobs ---- */

enum bh_store_report {
    BH_STORE_REPORT_NONE = 0,
    BH_STORE_REPORT_READY = 1,
    BH_STORE_REPORT_SUPPRESSED = 2, /* lost, or refused by validation: report_reason says why */
};

/* One row. Written by the loop at the start, then by the import as a fold of the journal: whatever
 * is here is true up to journal_sequence. */
struct bh_store_job {
    int64_t key; /* of the row; never leaves the server */
    char id[BH_JOB_ID_SIZE];
    char name[65]; /* "" = none */
    enum bh_job_state state;
    uint8_t policy_state;
    enum bh_mode mode;
    enum bh_boundary boundary; /* 0 = unknown */
    bool external;
    struct bh_anchor anchor;                         /* wall.us 0 = no journal seen yet */
    struct bh_wall created_at, started_at, ended_at; /* us 0 = not yet */
    uint64_t limit_bytes, warning_bytes, recovery_bytes, emergency_bytes;
    uint32_t limits_revision;
    struct bh_observed charge, peak; /* charge: last seen, at the end the final footprint */
    struct bh_wall peak_at;
    struct bh_observed active, reserved;
    enum bh_recorder_state recorder;
    char recorder_reason[160];
    uint64_t events, lost; /* as the scribe counted them, or as imported, whichever is more */
    enum bh_checkpoint_word checkpoint;
    struct bh_wall checkpoint_at;
    struct bh_observed checkpoint_bytes;
    struct bh_wall limit_crossed_at; /* us 0 = never */
    uint64_t limit_crossed_bytes;
    enum bh_outcome_kind outcome; /* NONE while it lives */
    enum bh_cause cause;
    int exit_code, signal; /* -1 unknown; 0 none */
    int error;             /* enum bh_error behind a failed start */
    char sentence[320];    /* the outcome's plain sentence, or the failed start's detail */
    enum bh_store_report report;
    char report_reason[160];
    bool import_complete; /* ended and all of it is here: the run directory is not read again */
    uint64_t journal_sequence; /* last journal record imported */
    uint64_t event_sequence;   /* last recorder event imported */
    uint64_t bytes;            /* of its trace and report in the database, for retention */
};

/* Inserts the row of a new job (state starting) with its spec: environment values are blanked
 * before anything is stored. BH_E_EXISTS for a known id. Survives a kill; after a power cut the row
 * comes back from spec.bin, which is synced (bh_reindex). */
int bh_store_job_insert(struct bh_store *store, const struct bh_job_spec *spec,
                        struct bh_diag *diag);
/* The start failed: state failed_to_start with the typed error and its sentence; complete. */
int bh_store_job_fail(struct bh_store *store, const char *id, int error, const char *sentence,
                      struct bh_wall at, struct bh_diag *diag);
/* It ran, and what would say how it ended is gone: finished, kind partial_artifact_failure, no
 * report; complete. */
int bh_store_job_lose(struct bh_store *store, const char *id, const char *sentence,
                      struct bh_wall at, struct bh_diag *diag);
/* For what only the loop knows: a state seen on the control socket before the import saw it. Never
 * moves a finished job back. */
int bh_store_job_set_state(struct bh_store *store, const char *id, enum bh_job_state state,
                           struct bh_diag *diag);
int bh_store_job_get(struct bh_store *store, const char *id, struct bh_store_job *ret_job,
                     struct bh_diag *diag);
/* spec.bin's format without environment values (bh_spec_file_decode). */
int bh_store_job_spec(struct bh_store *store, const char *id, struct bh_bytes *ret_spec,
                      struct bh_diag *diag);
/* The labels are in the spec; this is for the list's filter only. */
struct bh_store_filter {
    int state;             /* enum bh_job_state, -1 = any */
    const char *name;      /* exact; NULL = any */
    const char *label_key; /* NULL = any */
    const char *label_value;
    const char *before_id; /* the cursor: only ids below; NULL = from the newest */
    uint32_t limit;        /* 1..1000 */
    bool unfinished;       /* only jobs whose import is not complete (restart, adoption) */
};
/* Newest first. visit < 0 stops and is returned. Rows are borrowed during the call. */
int bh_store_job_list(struct bh_store *store, const struct bh_store_filter *filter,
                      int (*visit)(void *user, const struct bh_store_job *job), void *user,
                      struct bh_diag *diag);
/* How many jobs are in each state, indexed by enum bh_job_state (6 entries). */
int bh_store_job_counts(struct bh_store *store, uint64_t ret_counts[static 6]);
/* Hides the job at once (every read answers NOT_FOUND); bh_import_purge then removes run directory
 * and rows. BH_E_WRONG_STATE while it runs. Durable. */
int bh_store_job_delete(struct bh_store *store, const char *id, struct bh_diag *diag);

/* ---- report ---- */

/* The bytes of report.json as written. BH_E_REPORT_NOT_READY, BH_E_REPORT_SUPPRESSED (detail says
 * why). */
int bh_store_report_get(struct bh_store *store, const char *id, struct bh_bytes *ret_report,
                        struct bh_diag *diag);
/* reclamation.json's bytes; BH_E_NOT_FOUND while pending. */
int bh_store_reclamation_get(struct bh_store *store, const char *id, struct bh_bytes *ret_bytes,
                             struct bh_diag *diag);
/* External jobs (PUT report): ends the job. Durable. BH_E_WRONG_STATE when it ended already. */
int bh_store_report_put(struct bh_store *store, const char *id, const void *data, size_t length,
                        enum bh_outcome_kind outcome, enum bh_cause cause, const char *sentence,
                        struct bh_wall ended_at, struct bh_diag *diag);
/* Validation (the caller's) refused the imported report: it is kept, and never served. */
int bh_store_report_suppress(struct bh_store *store, const char *id, const char *reason,
                             struct bh_diag *diag);

/* ---- journal records ---- */

#define BH_STORE_KIND(kind) (1ull << BH_RECORD_##kind)
/* Records of the decider with sequence > after (0 = all, the scribe's too) whose kind is in the
 * mask (BH_STORE_KIND(SIGNAL) | …), in the order of the journal. All kinds but SAMPLE are kept. */
int bh_store_records(struct bh_store *store, const char *id, uint64_t kinds, uint64_t after,
                     uint32_t limit, int (*visit)(void *user, const struct bh_record *record),
                     void *user, struct bh_diag *diag);

/* ---- idempotency keys (api/api.md, section 5) ---------------------------------------------------
 */

enum bh_idempotency {
    BH_IDEMPOTENCY_NEW = 1,  /* reserved for the caller's job id */
    BH_IDEMPOTENCY_DONE = 2, /* answered before: status, answer and job id come back */
};
struct bh_idempotency_row {
    int status;
    struct bh_bytes answer; /* caller's; bh_bytes_done */
    char job_id[BH_JOB_ID_SIZE];
};
/* Looks the key up; when unknown or older than 24 h it is reserved with job_id. body_hash: 32 bytes
 * of the caller's choice over the body. BH_E_IDEMPOTENCY_MISMATCH, BH_E_IDEMPOTENCY_BUSY. Durable.
 */
int bh_store_idempotency_begin(struct bh_store *store, const char *key,
                               const unsigned char body_hash[static 32], const char *job_id,
                               struct bh_wall now, enum bh_idempotency *ret_state,
                               struct bh_idempotency_row *ret_row, struct bh_diag *diag);
/* Keeps the answer. Durable. */
int bh_store_idempotency_end(struct bh_store *store, const char *key, int status,
                             const void *answer, size_t length, struct bh_diag *diag);
/* Forgets a key whose request failed before anything was made. */
int bh_store_idempotency_drop(struct bh_store *store, const char *key, struct bh_diag *diag);
/* Keys in progress when the server died, to be settled before it serves (key, job id). */
int bh_store_idempotency_open(struct bh_store *store,
                              int (*visit)(void *user, const char *key, const char *job_id),
                              void *user, struct bh_diag *diag);

/* ---- security events ---------------------------------------------------------------------------
 */

#define BH_STORE_SECURITY_MAX 1000 /* the newest are kept */
struct bh_security_event {
    struct bh_wall at;
    char code[48];    /* of errors.def: "wrong_host", "unauthorized" … */
    char peer[64];    /* "127.0.0.1:4711" or "uid 1000" */
    char detail[192]; /* escaped by the caller */
    uint64_t count;   /* the same code and peer within a minute are one row */
};
/* At most BH_STORE_SECURITY_RATE a second are written; the rest is added to the count of the next
 * one, so that a flood of refused requests fills no disk. */
#define BH_STORE_SECURITY_RATE 20
int bh_store_security_add(struct bh_store *store, const struct bh_security_event *event);
/* Newest first. */
int bh_store_security_list(struct bh_store *store, uint32_t limit,
                           int (*visit)(void *user, const struct bh_security_event *event),
                           void *user, struct bh_diag *diag);

/* ---- small values: server epoch, notices ---- */
int bh_store_value_get(struct bh_store *store, const char *key, struct bh_bytes *ret_value);
int bh_store_value_set(struct bh_store *store, const char *key, const void *data, size_t length);

#endif
