/* What the tests of the import share: a maker with a database, steps, and the comparison of a
 * database with one that was filled in a single go. cmocka.h must have been included before. */
#ifndef BH_TESTS_IMPORT_FIXTURE_H
#define BH_TESTS_IMPORT_FIXTURE_H

#include <sys/stat.h>

#include "core/base/crc32c.h"
#include "server/import.h"
#include "server/import_internal.h"
#include "server/store.h"
#include "trace_maker.h"

struct fixture {
    struct maker maker;
    struct bh_store *store;
    struct bh_import *import;
};

static inline void open_database(struct fixture *f)
{
    struct bh_store_start start;
    struct bh_diag diag = {0};

    assert_int_equal(bh_store_open(f->maker.state, false, &f->store, &start, &diag), 0);
    assert_int_equal(bh_import_open(bh_store_path_peek(f->store), &f->import, &diag), 0);
}

static inline void close_database(struct fixture *f)
{
    bh_import_close(f->import);
    bh_store_close(f->store);
    f->import = NULL;
    f->store = NULL;
}

static inline int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    maker_state(&f->maker);
    maker_run(&f->maker, MAKER_ID, 1);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;

    close_database(f);
    maker_run_close(&f->maker);
    maker_done(&f->maker);
    free(f);
    return 0;
}

/* Inserts the row as the server does before a launch. */
static inline void insert_row(struct fixture *f)
{
    struct bh_bytes bytes = {0};
    struct bh_job_spec *spec;
    struct bh_diag diag = {0};

    assert_int_equal(bh_io_read_file(f->maker.dirfd, BH_SPEC_FILE_NAME, 1 << 20, &bytes, &diag), 0);
    assert_int_equal(bh_spec_file_decode(bytes.data, bytes.length, &spec, &diag), 0);
    assert_int_equal(bh_store_job_insert(f->store, spec, &diag), 0);
    bh_spec_file_free(spec);
    bh_bytes_done(&bytes);
}

static inline struct bh_import_step step_once(struct fixture *f, bool ended, uint32_t budget)
{
    struct bh_import_step step = {0};
    struct bh_diag diag = {0};
    int result =
        bh_import_step(f->import, f->maker.id, f->maker.dirfd, ended, budget, &step, &diag);

    if (result < 0)
        print_error("step: %s\n", diag.detail);
    assert_int_equal(result, 0);
    return step;
}

static inline struct bh_import_step step_all(struct fixture *f, bool ended, uint32_t budget)
{
    struct bh_import_step step = {.more = true};

    while (step.more)
        step = step_once(f, ended, budget);
    return step;
}

static inline struct bh_store_job row_of(struct fixture *f)
{
    struct bh_store_job job;
    struct bh_diag diag = {0};

    assert_int_equal(bh_store_job_get(f->store, f->maker.id, &job, &diag), 0);
    return job;
}

/* A short run with all that a run has. */
static inline void make_run(struct maker *maker, uint64_t events)
{
    maker_begin(maker);
    maker_events(maker, events / 2);
    maker->now_ns = MAKER_MONO_NS + 1000000000;
    maker_samples(maker, 1000, 5000);
    maker_transition(maker, 1, 2);
    maker_mark(maker, "epoch 2");
    maker_lost(maker, 17);
    maker_events(maker, events - events / 2);
    maker->now_ns = MAKER_MONO_NS + 2000000000;
    maker_samples(maker, 4000, 1096847360);
    maker_limit_crossed(maker, 1096847360);
    maker_transition(maker, 2, 4);
    maker_signal(maker);
    maker->now_ns = MAKER_MONO_NS + 2500000000;
    maker_transition(maker, 4, 6);
    maker_outcome(maker);
    maker_samples(maker, 1000, 1000); /* the scribe's last second */
    maker_flush(maker);
    maker_report(maker);
}

/* ---- comparing ---- */

/* Every row of the derived tables in one order, blobs by checksum, row numbers left out. */
static const char *const dumps[] = {
    "SELECT id, name, state, policy_state, mode, started_us, ended_us, limit_bytes, charge, peak,"
    " peak_us, active, reserved, events, lost, limit_crossed_us, outcome, cause, exit_code, signal,"
    " sentence, journal_sequence, event_sequence, bytes, journal_offset, records, events_offset,"
    " segments, trace_mono_ns, trace_wall_us, trace_peak_sequence, trace_began_us, trace_event_us,"
    " report, report_reason, import_complete FROM job ORDER BY id",
    "SELECT number, sequence, kind, at_ns, data FROM record ORDER BY job, number",
    "SELECT number, first_sequence, last_sequence, lost, data FROM segment ORDER BY job, number",
    "SELECT number, data FROM definition ORDER BY job, number",
    "SELECT series, level, number, data FROM level ORDER BY job, series, level, number",
    "SELECT sequence, at_us, next_segment, data FROM keyframe ORDER BY job, sequence",
    "SELECT reason, number, from_us, to_us, count FROM loss ORDER BY job, reason, number",
    "SELECT sequence, at_us, label FROM mark ORDER BY job, sequence",
    "SELECT report FROM report ORDER BY job",
};

static inline void dump_row(sqlite3_stmt *statement, struct bh_bytes *out)
{
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        if (sqlite3_column_type(statement, i) == SQLITE_BLOB)
            bh_bytes_printf(out, "%08x:%d ",
                            bh_crc32c(0, sqlite3_column_blob(statement, i),
                                      (size_t)sqlite3_column_bytes(statement, i)),
                            sqlite3_column_bytes(statement, i));
        else
            bh_bytes_printf(out, "%s ", (const char *)sqlite3_column_text(statement, i));
    }
    bh_bytes_append_text(out, "\n");
}

static inline void dump(const char *state, struct bh_bytes *out)
{
    sqlite3 *handle;
    char path[192];

    (void)snprintf(path, sizeof path, "%s/" BH_STORE_FILE_NAME, state);
    assert_int_equal(sqlite3_open_v2(path, &handle, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    for (size_t i = 0; i < sizeof dumps / sizeof dumps[0]; i++) {
        sqlite3_stmt *statement;
        assert_int_equal(sqlite3_prepare_v2(handle, dumps[i], -1, &statement, NULL), SQLITE_OK);
        bh_bytes_printf(out, "-- %zu\n", i);
        while (sqlite3_step(statement) == SQLITE_ROW)
            dump_row(statement, out);
        sqlite3_finalize(statement);
    }
    sqlite3_close(handle);
}

static inline void remove_database(const char *state)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};

    for (size_t i = 0; i < 3; i++) {
        char path[192];
        (void)snprintf(path, sizeof path, "%s/" BH_STORE_FILE_NAME "%s", state, suffixes[i]);
        (void)unlink(path);
    }
}

/* What a fresh database holds after one import of the finished run. */
static inline void reference(struct fixture *f, struct bh_bytes *out)
{
    close_database(f);
    remove_database(f->maker.state);
    open_database(f);
    insert_row(f);
    assert_true(step_all(f, true, 64u << 20).complete);
    close_database(f);
    dump(f->maker.state, out);
}

static inline void assert_same(const struct bh_bytes *a, const struct bh_bytes *b)
{
    if (a->length == b->length && memcmp(a->data, b->data, a->length) == 0)
        return;
    for (size_t i = 0, line = 0; i < a->length && i < b->length; i++) {
        if (a->data[i] == '\n')
            line = i + 1;
        if (a->data[i] != b->data[i]) {
            print_error("A: %.200s\nB: %.200s\n", a->data + line, b->data + line);
            break;
        }
    }
    fail_msg("the databases differ");
}

#endif
