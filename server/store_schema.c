#include "server/store_schema.h"

#include <stdio.h>

/* Version 1. Large blobs sit last in their rows and in rowid tables, so that looking at a row's
 * numbers does not walk its overflow pages. */
static const char jobs_1[] =
    "CREATE TABLE job("
    " key INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " name TEXT NOT NULL DEFAULT '',"
    " external INTEGER NOT NULL DEFAULT 0,"
    " created_us INTEGER NOT NULL,"
    " error INTEGER NOT NULL DEFAULT 0,"
    " report INTEGER NOT NULL DEFAULT 0,"
    " report_reason TEXT NOT NULL DEFAULT '',"
    " import_complete INTEGER NOT NULL DEFAULT 0,"
    " deleted INTEGER NOT NULL DEFAULT 0,"
    " state INTEGER NOT NULL DEFAULT 0,"
    " policy_state INTEGER NOT NULL DEFAULT 0,"
    " mode INTEGER NOT NULL DEFAULT 0,"
    " boundary INTEGER NOT NULL DEFAULT 0,"
    " anchor_mono_ns INTEGER NOT NULL DEFAULT 0,"
    " anchor_wall_us INTEGER NOT NULL DEFAULT 0,"
    " started_us INTEGER NOT NULL DEFAULT 0,"
    " ended_us INTEGER NOT NULL DEFAULT 0,"
    " limit_bytes INTEGER NOT NULL DEFAULT 0,"
    " warning_bytes INTEGER NOT NULL DEFAULT 0,"
    " recovery_bytes INTEGER NOT NULL DEFAULT 0,"
    " emergency_bytes INTEGER NOT NULL DEFAULT 0,"
    " limits_revision INTEGER NOT NULL DEFAULT 1,"
    " charge_status INTEGER NOT NULL DEFAULT 0,"
    " charge INTEGER NOT NULL DEFAULT 0,"
    " peak_status INTEGER NOT NULL DEFAULT 0,"
    " peak INTEGER NOT NULL DEFAULT 0,"
    " peak_us INTEGER NOT NULL DEFAULT 0,"
    " active_status INTEGER NOT NULL DEFAULT 0,"
    " active INTEGER NOT NULL DEFAULT 0,"
    " reserved_status INTEGER NOT NULL DEFAULT 0,"
    " reserved INTEGER NOT NULL DEFAULT 0,"
    " recorder INTEGER NOT NULL DEFAULT 0,"
    " recorder_reason TEXT NOT NULL DEFAULT '',"
    " events INTEGER NOT NULL DEFAULT 0,"
    " lost INTEGER NOT NULL DEFAULT 0,"
    " checkpoint INTEGER NOT NULL DEFAULT 0,"
    " checkpoint_us INTEGER NOT NULL DEFAULT 0,"
    " checkpoint_bytes_status INTEGER NOT NULL DEFAULT 0,"
    " checkpoint_bytes INTEGER NOT NULL DEFAULT 0,"
    " limit_crossed_us INTEGER NOT NULL DEFAULT 0,"
    " limit_crossed_bytes INTEGER NOT NULL DEFAULT 0,"
    " outcome INTEGER NOT NULL DEFAULT 0,"
    " cause INTEGER NOT NULL DEFAULT 0,"
    " exit_code INTEGER NOT NULL DEFAULT -1,"
    " signal INTEGER NOT NULL DEFAULT 0,"
    " sentence TEXT NOT NULL DEFAULT '',"
    " journal_sequence INTEGER NOT NULL DEFAULT 0,"
    " event_sequence INTEGER NOT NULL DEFAULT 0,"
    " bytes INTEGER NOT NULL DEFAULT 0,"
    /* where the import is: offsets in the files, counts, the event log's clock anchor */
    " journal_offset INTEGER NOT NULL DEFAULT 0,"
    " records INTEGER NOT NULL DEFAULT 0,"
    " events_offset INTEGER NOT NULL DEFAULT 0,"
    " segments INTEGER NOT NULL DEFAULT 0,"
    " trace_mono_ns INTEGER NOT NULL DEFAULT 0,"
    " trace_wall_us INTEGER NOT NULL DEFAULT 0,"
    " trace_peak_sequence INTEGER NOT NULL DEFAULT 0,"
    " trace_began_us INTEGER NOT NULL DEFAULT 0,"
    " trace_events INTEGER NOT NULL DEFAULT 0,"
    " trace_event_us INTEGER NOT NULL DEFAULT 0,"
    " spec BLOB NOT NULL"
    ") STRICT;"
    "CREATE INDEX job_unfinished ON job(id) WHERE import_complete=0;"
    "CREATE INDEX job_name ON job(name, id) WHERE name<>'';"
    "CREATE TABLE label("
    " job INTEGER NOT NULL REFERENCES job(key) ON DELETE CASCADE,"
    " key TEXT NOT NULL, value TEXT NOT NULL,"
    " PRIMARY KEY(job, key)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE report("
    " job INTEGER PRIMARY KEY REFERENCES job(key) ON DELETE CASCADE,"
    " reclamation BLOB, report BLOB) STRICT;"
    "CREATE TABLE record("
    " job INTEGER NOT NULL REFERENCES job(key) ON DELETE CASCADE,"
    " number INTEGER NOT NULL,"   /* in the file's order */
    " sequence INTEGER NOT NULL," /* the decider's; 0 = added by the scribe */
    " kind INTEGER NOT NULL, at_ns INTEGER NOT NULL, data BLOB NOT NULL,"
    " PRIMARY KEY(job, number)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX record_kind ON record(job, kind, at_ns);"
    "CREATE TABLE idempotency("
    " key TEXT PRIMARY KEY, hash BLOB NOT NULL, job_id TEXT NOT NULL,"
    " created_us INTEGER NOT NULL, status INTEGER NOT NULL, answer BLOB) STRICT, WITHOUT ROWID;"
    "CREATE TABLE security("
    " id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, code TEXT NOT NULL, peer TEXT NOT NULL,"
    " detail TEXT NOT NULL, count INTEGER NOT NULL) STRICT;"
    "CREATE TABLE value(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;";

static const char traces_1[] =
    "CREATE TABLE segment("
    " id INTEGER PRIMARY KEY,"
    " job INTEGER NOT NULL REFERENCES job(key) ON DELETE CASCADE,"
    " number INTEGER NOT NULL, first_sequence INTEGER NOT NULL, last_sequence INTEGER NOT NULL,"
    " lost INTEGER NOT NULL, data BLOB NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX segment_number ON segment(job, number);"
    "CREATE INDEX segment_sequence ON segment(job, first_sequence, number) WHERE last_sequence>0;"
    /* the definitions of a segment that has any, as a segment of their own: names are loaded from
     * here without touching the events */
    "CREATE TABLE definition("
    " job INTEGER NOT NULL REFERENCES job(key) ON DELETE CASCADE,"
    " number INTEGER NOT NULL, data BLOB NOT NULL,"
    " PRIMARY KEY(job, number)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE level("
    " id INTEGER PRIMARY KEY,"
    " job INTEGER NOT NULL REFERENCES job(key) ON DELETE CASCADE,"
    " series INTEGER NOT NULL, level INTEGER NOT NULL, number INTEGER NOT NULL,"
    " data BLOB NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX level_number ON level(job, series, level, number);"
    "CREATE TABLE keyframe("
    " id INTEGER PRIMARY KEY,"
    " job INTEGER NOT NULL REFERENCES job(key) ON DELETE CASCADE,"
    " sequence INTEGER NOT NULL, at_us INTEGER NOT NULL, next_segment INTEGER NOT NULL,"
    " data BLOB NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX keyframe_sequence ON keyframe(job, sequence);"
    "CREATE INDEX keyframe_time ON keyframe(job, at_us, sequence);"
    "CREATE TABLE loss("
    " job INTEGER NOT NULL REFERENCES job(key) ON DELETE CASCADE,"
    " reason INTEGER NOT NULL," /* enum bh_loss_reason */
    " number INTEGER NOT NULL," /* of the event or journal record that says so */
    " from_us INTEGER NOT NULL, to_us INTEGER NOT NULL, count INTEGER NOT NULL,"
    " PRIMARY KEY(job, reason, number)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE mark("
    " job INTEGER NOT NULL REFERENCES job(key) ON DELETE CASCADE,"
    " sequence INTEGER NOT NULL, at_us INTEGER NOT NULL, label TEXT NOT NULL,"
    " PRIMARY KEY(job, sequence)) STRICT, WITHOUT ROWID;";

/* Steps of up to three texts (a string literal may have 4,095 bytes). */
#define TEXTS 3
static const char *const steps[][TEXTS] = {{jobs_1, traces_1}};

#define STEPS ((int)(sizeof steps / sizeof steps[0]))

int bh_store_schema_version(void)
{
    return STEPS;
}

static int read_version(struct bh_db *db, int *ret_version, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int code = sqlite3_prepare_v2(db->handle, "PRAGMA user_version", -1, &statement, NULL);

    if (code != SQLITE_OK)
        return bh_db_error(db->handle, code, "user_version", diag);
    code = sqlite3_step(statement);
    if (code != SQLITE_ROW) {
        int error = bh_db_error(db->handle, code, "user_version", diag);
        sqlite3_finalize(statement);
        return error;
    }
    *ret_version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return 0;
}

static int take_step(struct bh_db *db, int step, struct bh_diag *diag)
{
    char pragma[48];
    int result = bh_db_begin(db, true, diag);

    if (result < 0)
        return result;
    for (int text = 0; text < TEXTS && steps[step][text] && result >= 0; text++)
        result = bh_db_exec(db, steps[step][text], diag);
    if (result >= 0) {
        snprintf(pragma, sizeof pragma, "PRAGMA user_version=%d", step + 1);
        result = bh_db_exec(db, pragma, diag);
    }
    return bh_db_end(db, result, diag);
}

int bh_store_schema_migrate(struct bh_db *db, int *ret_before, struct bh_diag *diag)
{
    int version = 0, result = read_version(db, &version, diag);

    if (result < 0)
        return result;
    if (version > STEPS)
        return bh_err_set(diag, BH_E_VERSION, NULL,
                          "The database was written by a later Bulkhead (schema %d, known to %d); "
                          "use that one, or move bulkhead.db away and start with --reindex",
                          version, STEPS);
    for (int step = version; step < STEPS; step++) {
        result = take_step(db, step, diag);
        if (result < 0)
            return result;
    }
    *ret_before = version;
    return 0;
}

int bh_store_schema_clear(struct bh_db *db, struct bh_diag *diag)
{
    int result = bh_db_begin(db, true, diag);

    if (result < 0)
        return result;
    /* every other derived table goes with its job by the foreign key */
    result = bh_db_exec(db, "DELETE FROM job", diag);
    return bh_db_end(db, result, diag);
}
