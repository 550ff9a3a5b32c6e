/* The charge series. The journal has a second's least, greatest and last value and the time of the
 * greatest; the least gets a time inside of the span, so that both extremes are in the series, and
 * nothing is claimed about a stretch without a usable sample. */
#include <fcntl.h>
#include <stdlib.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/wire/journal.h"
#include "server/import_internal.h"

static void add_point(struct bh_bytes *points, struct bh_anchor anchor, struct bh_mono at,
                      uint64_t value)
{
    struct bh_import_point point = {bh_clock_epoch_us(anchor, at), value};

    bh_bytes_append(points, &point, sizeof point);
}

static void add_loss(struct bh_bytes *losses, struct bh_anchor anchor, struct bh_mono from,
                     struct bh_mono to, uint64_t count, uint64_t number, enum bh_loss_reason reason)
{
    struct bh_import_loss loss = {
        .from_us = bh_clock_epoch_us(anchor, from),
        .to_us = bh_clock_epoch_us(anchor, to),
        .count = count,
        .number = number,
        .reason = reason,
    };

    bh_bytes_append(losses, &loss, sizeof loss);
}

static void take_samples(struct bh_anchor anchor, const struct bh_record_samples *samples,
                         uint64_t number, struct bh_bytes *points, struct bh_bytes *losses)
{
    struct bh_mono from = samples->from, to = samples->to, max_at = samples->max_at;
    struct bh_mono middle = {from.ns + (to.ns - from.ns) / 2};

    if (samples->max.status != BH_VALUE_AVAILABLE || samples->min.status != BH_VALUE_AVAILABLE) {
        add_point(points, anchor, from, BH_SERIES_UNKNOWN);
        add_loss(losses, anchor, from, to, samples->unusable, number, BH_LOSS_SAMPLES);
        return;
    }
    if (max_at.ns > middle.ns) {
        add_point(points, anchor, from, samples->min.value);
        add_point(points, anchor, max_at, samples->max.value);
    } else {
        add_point(points, anchor, max_at.ns < from.ns ? from : max_at, samples->max.value);
        add_point(points, anchor, middle, samples->min.value);
    }
    if (samples->last.status == BH_VALUE_AVAILABLE)
        add_point(points, anchor, to, samples->last.value);
}

void bh_import_charge_take(struct bh_anchor anchor, const struct bh_record *record, uint64_t number,
                           struct bh_bytes *ret_points, struct bh_bytes *ret_losses)
{
    if (record->kind == BH_RECORD_SAMPLES) {
        take_samples(anchor, &record->samples, number, ret_points, ret_losses);
    } else if (record->kind == BH_RECORD_CLOCK_GAP) {
        uint64_t gap = record->clock_gap.gap_ns;
        struct bh_mono from = {record->at.ns > gap ? record->at.ns - gap : 0};
        add_point(ret_points, anchor, from, BH_SERIES_UNKNOWN);
        add_loss(ret_losses, anchor, from, record->at, 0, number, BH_LOSS_CLOCK);
    }
}

static int make_builder(struct bh_import_job *job, const struct bh_level_store *store,
                        struct bh_diag *diag)
{
    int result = 0;

    if (!job->charge) {
        result = bh_series_new(BH_SERIES_CHARGE, &job->charge);
        if (result >= 0)
            result = bh_series_restore(job->charge, store);
    }
    if (result < 0)
        return bh_err_set(diag, result, NULL, "The stored charge series cannot be continued");
    return 0;
}

static int add_points(struct bh_series_builder *builder, const struct bh_bytes *points)
{
    const struct bh_import_point *list = (const void *)points->data;
    size_t count = points->length / sizeof *list;
    int result = 0;

    for (size_t i = 0; i < count && result >= 0; i++)
        result = bh_series_add(builder, list[i].at_us, list[i].value);
    return result;
}

static int store_losses(struct bh_import *import, const struct bh_import_job *job,
                        const struct bh_bytes *losses, struct bh_diag *diag)
{
    const struct bh_import_loss *list = (const void *)losses->data;
    size_t count = losses->length / sizeof *list;
    int result = 0;

    for (size_t i = 0; i < count && result >= 0; i++)
        result = bh_db_run(&import->db, BH_IMPORT_SQL_LOSS_INSERT, diag, "idiiii", job->row.key,
                           (int)list[i].reason, (int64_t)list[i].number, list[i].from_us,
                           list[i].to_us, (int64_t)list[i].count);
    return result;
}

int bh_import_charge_store(struct bh_import *import, struct bh_import_job *job,
                           const struct bh_import_records *records, struct bh_diag *diag)
{
    struct bh_import_levels levels;
    struct bh_level_store store = bh_import_levels(&levels, import, job, diag);
    int result;

    if (records->charge.length == 0)
        return 0;
    result = make_builder(job, &store, diag);
    if (result >= 0)
        result = add_points(job->charge, &records->charge);
    if (result >= 0)
        result = bh_series_flush(job->charge, &store);
    if (result >= 0)
        result = store_losses(import, job, &records->losses, diag);
    return result;
}

/* ---- the last minute at full rate ---- */

/* The SAMPLE records of one file, appended as points. A file that is not there or damaged gives
 * what it can. */
static void read_samples(int dirfd, const char *name, struct bh_anchor anchor,
                         struct bh_bytes *points, uint64_t *first_ns)
{
    BH_SCOPED_FD int fd = -1;
    struct bh_journal_reader *reader;
    struct bh_record record;

    if (bh_io_open(dirfd, name, O_RDONLY, &fd, NULL) < 0)
        return;
    if (bh_journal_reader_new(fd, &reader, NULL) < 0)
        return;
    while (bh_journal_reader_next(reader, &record) == 1) {
        const struct bh_sample *sample = &record.sample;
        if (record.kind != BH_RECORD_SAMPLE)
            continue;
        if (sample->captured_at.ns < *first_ns)
            *first_ns = sample->captured_at.ns;
        add_point(points, anchor, sample->captured_at,
                  sample->bytes.status == BH_VALUE_AVAILABLE ? sample->bytes.value
                                                             : BH_SERIES_UNKNOWN);
    }
    bh_journal_reader_free(reader);
}

/* The seconds' points up to the first full-rate sample, from the stored records. */
static int read_seconds(struct bh_import *import, const struct bh_import_job *job,
                        uint64_t until_ns, struct bh_bytes *points, struct bh_diag *diag)
{
    struct bh_bytes losses = {0};
    sqlite3_stmt *statement;
    int result = bh_db_bind(&import->db, BH_IMPORT_SQL_SAMPLES, &statement, diag, "idi",
                            job->row.key, (int)BH_RECORD_SAMPLES, (int64_t)until_ns);

    if (result < 0)
        return result;
    while ((result = bh_db_step(&import->db, statement, diag)) == 1) {
        struct bh_record record;
        int length =
            bh_record_decode(sqlite3_column_blob(statement, 1),
                             (size_t)sqlite3_column_bytes(statement, 1), job->row.id, &record);
        if (length > 0 && record.samples.to.ns <= until_ns)
            bh_import_charge_take(job->row.anchor, &record, 0, points, &losses);
    }
    bh_bytes_done(&losses);
    return result;
}

static int by_time(const void *left, const void *right)
{
    const struct bh_import_point *a = left, *b = right;

    return a->at_us < b->at_us ? -1 : a->at_us > b->at_us;
}

static int build(const struct bh_bytes *points, struct bh_series_builder **ret_builder,
                 struct bh_diag *diag)
{
    struct bh_series_builder *builder = NULL;
    int result = points->failed ? BH_E_NOMEM : bh_series_new(BH_SERIES_CHARGE, &builder);

    if (result >= 0)
        result = add_points(builder, points);
    if (result < 0) {
        bh_series_free(builder);
        return bh_err_set(diag, result, NULL, "The charge series cannot be made");
    }
    *ret_builder = builder;
    return 0;
}

int bh_import_charge_final(struct bh_import *import, const struct bh_import_job *job, int dirfd,
                           struct bh_series_builder **ret_builder, struct bh_diag *diag)
{
    struct bh_bytes points = {0}, full = {0};
    uint64_t first_ns = UINT64_MAX;
    int result = 0;

    *ret_builder = NULL;
    read_samples(dirfd, "samples.0", job->row.anchor, &full, &first_ns);
    read_samples(dirfd, "samples.1", job->row.anchor, &full, &first_ns);
    if (full.length > 0) {
        /* the two files alternate: which one is older changes every minute */
        qsort(full.data, full.length / sizeof(struct bh_import_point),
              sizeof(struct bh_import_point), by_time);
        result = read_seconds(import, job, first_ns, &points, diag);
        bh_bytes_append(&points, full.data, full.length);
        points.failed |= full.failed;
        if (result >= 0)
            result = build(&points, ret_builder, diag);
    }
    bh_bytes_done(&points);
    bh_bytes_done(&full);
    return result;
}

int bh_import_charge_replace(struct bh_import *import, const struct bh_import_job *job,
                             struct bh_series_builder *builder, struct bh_diag *diag)
{
    struct bh_import_levels levels;
    struct bh_level_store store = bh_import_levels(&levels, import, job, diag);
    int result = bh_db_run(&import->db, BH_IMPORT_SQL_LEVEL_CLEAR, diag, "ii", job->row.key,
                           (int64_t)BH_SERIES_CHARGE);

    return result < 0 ? result : bh_series_flush(builder, &store);
}
