/* What the files of the import share. */
#ifndef BH_SERVER_IMPORT_INTERNAL_H
#define BH_SERVER_IMPORT_INTERNAL_H

#include "core/base/bytes.h"
#include "core/viz/ingest.h"
#include "server/db.h"
#include "server/import.h"
#include "server/job_row.h"
#include "server/trace_rows.h"

#define BH_STATEMENT(name, text) BH_IMPORT_SQL_##name,
enum bh_import_sql {
    BH_IMPORT_SQL_BASE = BH_TRACE_SQL_COUNT - 1, /* the shared ones come first */
#include "server/import_statements.def"
    BH_IMPORT_SQL_COUNT,
};
#undef BH_STATEMENT

/* Where the import of one job is: the database's own numbers, read with the row. */
struct bh_import_place {
    uint64_t journal_offset; /* 0 = not even the header */
    uint64_t records;        /* journal records stored: the next one's number */
    uint64_t events_offset;
    uint64_t segments;
    uint64_t trace_mono_ns; /* the event log's anchor */
    int64_t trace_wall_us;
    uint64_t trace_events;      /* applied; 0 = nothing was recorded */
    uint64_t peak_sequence;     /* event that first reached the highest active */
    int64_t began_us, event_us; /* first time in the event log, and the last event's */
};

/* A job being imported. Everything here equals the database between two steps. */
struct bh_import_job {
    struct bh_store_job row;
    struct bh_import_place place;
    struct bh_ingest *ingest;         /* owned; NULL until the event log has a header */
    struct bh_series_builder *charge; /* owned; NULL until the first sample */
    uint64_t used;                    /* of the import's step counter, to drop the longest unused */
};

#define BH_IMPORT_KEPT 256 /* jobs whose running state stays in memory between their steps */

struct bh_import {
    struct bh_db db;
    struct bh_import_job *jobs[BH_IMPORT_KEPT]; /* owned; NULL = free place */
    uint64_t steps;
    struct bh_bytes buffer; /* file bytes of the step at hand */
};

/* Reads at most budget bytes from offset on into import->buffer (cleared); *ret_end: nothing
 * follows. A file that is not there (yet) is empty. */
int bh_import_read(struct bh_import *import, int dirfd, const char *name, uint64_t offset,
                   uint32_t budget, bool *ret_end, struct bh_diag *diag);

/* Whether the files still are what was imported; if not, all of the job's derived rows are removed
 * and it starts again (*ret_restarted: the job at hand is stale, load it again). */
int bh_import_check(struct bh_import *import, const struct bh_import_job *job, int dirfd,
                    bool *ret_restarted, struct bh_diag *diag);

/* Removes all of a job's derived rows and sets its place to the beginning. */
int bh_import_restart(struct bh_import *import, int64_t key, struct bh_diag *diag);

/* ---- journal ---- */

/* Journal records decoded from one read and not stored yet. */
struct bh_import_records {
    struct bh_bytes bytes;  /* encoded records, one after the other */
    struct bh_bytes index;  /* struct bh_import_record each */
    struct bh_bytes charge; /* struct bh_import_point each */
    struct bh_bytes losses; /* struct bh_import_loss each */
    uint64_t count;         /* also those that are not kept */
    uint64_t end_offset;
};
struct bh_import_record {
    uint32_t offset, length; /* in bytes */
    uint16_t kind;
    uint64_t sequence; /* the decider's; 0 = the scribe's */
    uint64_t at_ns;
};
/* A point of the charge series; BH_SERIES_UNKNOWN from an unusable stretch on. */
struct bh_import_point {
    int64_t at_us;
    uint64_t value;
};
/* A stretch without a usable sample, or without time. */
struct bh_import_loss {
    int64_t from_us, to_us;
    uint64_t count, number; /* number: of the record */
    enum bh_loss_reason reason;
};
void bh_import_records_done(struct bh_import_records *records);
/* Reads what is new, folds it into row. BH_E_CHECKSUM, MALFORMED: damaged behind end_offset; what
 * was decoded before stays in ret_records and counts. *ret_more: the budget ended first. */
int bh_import_journal_read(struct bh_import *import, const struct bh_import_job *job, int dirfd,
                           uint32_t budget, struct bh_store_job *row,
                           struct bh_import_records *ret_records, bool *ret_more,
                           struct bh_diag *diag);
int bh_import_journal_store(struct bh_import *import, const struct bh_import_job *job,
                            const struct bh_import_records *records, struct bh_diag *diag);

/* One journal record into the job's row. Pure. */
void bh_import_fold(struct bh_store_job *row, const struct bh_record *record);

/* What a SAMPLES or CLOCK_GAP record says about the charge: points and losses are appended. Pure.
 */
void bh_import_charge_take(struct bh_anchor anchor, const struct bh_record *record, uint64_t number,
                           struct bh_bytes *ret_points, struct bh_bytes *ret_losses);
/* Adds the points to the stored series, in the caller's transaction; makes job->charge. */
int bh_import_charge_store(struct bh_import *import, struct bh_import_job *job,
                           const struct bh_import_records *records, struct bh_diag *diag);
/* When the job has ended: the whole series anew, with the last minute's points out of the samples
 * files at full rate; NULL when these are not there. Only reads. */
int bh_import_charge_final(struct bh_import *import, const struct bh_import_job *job, int dirfd,
                           struct bh_series_builder **ret_builder, struct bh_diag *diag);
/* Puts it in the stored one's place, in the caller's transaction. */
int bh_import_charge_replace(struct bh_import *import, const struct bh_import_job *job,
                             struct bh_series_builder *builder, struct bh_diag *diag);

/* Appends a segment that holds nothing but the definitions of the one given, under its number;
 * nothing when it has none. */
void bh_import_names_pack(const struct bh_evlog_segment *segment, struct bh_bytes *ret_bytes);

/* ---- the trace tables' writer ---- */
struct bh_import_levels {
    struct bh_trace_rows rows;
    struct bh_import *import;
    struct bh_diag *diag;
};
struct bh_level_store bh_import_levels(struct bh_import_levels *levels, struct bh_import *import,
                                       const struct bh_import_job *job, struct bh_diag *diag);

/* ---- end of a job ---- */

/* The last step, when all records and events are stored: report, sentence, state, the final charge
 * series. Reading and folding happen before its transaction. whole: no file was damaged. row is
 * changed only on success. */
int bh_import_complete(struct bh_import *import, const struct bh_import_job *job, int dirfd,
                       bool whole, struct bh_store_job *row, struct bh_diag *diag);

/* Fills row->sentence from the stored journal. ret_reason is written only when a report of it does
 * not hold together. whole: the journal's file was undamaged to its end. */
int bh_import_outcome(struct bh_import *import, struct bh_store_job *row, bool whole,
                      char *ret_reason, size_t reason_size, struct bh_diag *diag);

/* report.json; BH_E_NOT_FOUND, BH_E_TOO_LONG. */
int bh_import_report_read(int dirfd, struct bh_bytes *ret_report, struct bh_diag *diag);

/* Stores row and place, in the caller's transaction. */
int bh_import_row_store(struct bh_import *import, const struct bh_store_job *row,
                        const struct bh_import_place *place, struct bh_diag *diag);

#endif
