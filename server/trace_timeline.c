/* The timeline: three series cut into equal spans with exact extremes, limits, markers, losses and
 * peaks (openapi/examples/timeline.json). */
#include <stdlib.h>

#include "core/base/json_out.h"
#include "core/base/text.h"
#include "core/model/policy.h"
#include "core/wire/journal.h"
#include "server/trace_internal.h"

#define MAX_LOSSES 1000
#define MAX_LIMITS 1000

struct timeline {
    struct bh_trace *trace;
    struct bh_trace_job *job;
    struct bh_level_store levels;
    struct bh_series_summary summary[BH_SERIES_COUNT];
    int64_t from_us, to_us, until_us;
    uint32_t cells;
    uint64_t *min, *max; /* owned, one series at a time */
    struct bh_bytes text;
    struct bh_json json;
    struct bh_sink sink;
    struct bh_diag *diag;
};

static int give(struct timeline *timeline)
{
    int result = 0;

    if (timeline->text.failed)
        return bh_err_set(timeline->diag, BH_E_NOMEM, NULL, "Out of memory");
    if (timeline->text.length > 0)
        result = timeline->sink.write(timeline->sink.context, timeline->text.data,
                                      timeline->text.length);
    bh_bytes_clear(&timeline->text);
    return result;
}

/* ---- range ---- */

static void extend(int64_t *from_us, int64_t *to_us, int64_t first_us, int64_t last_us)
{
    if (first_us < *from_us)
        *from_us = first_us;
    if (last_us > *to_us)
        *to_us = last_us;
}

/* The job's own span: its start to its end, widened by whatever is known outside of it (a foreign
 * trace begins before its job was made). Nothing known: empty. */
static void job_span(const struct timeline *timeline, int64_t *ret_from_us, int64_t *ret_to_us)
{
    const struct bh_trace_job *job = timeline->job;
    int64_t from_us = INT64_MAX, to_us = INT64_MIN;

    for (int i = 0; i < BH_SERIES_COUNT; i++) {
        const struct bh_series_summary *summary = &timeline->summary[i];
        if (summary->points > 0)
            extend(&from_us, &to_us, summary->first_us, summary->last_us);
    }
    if (job->events > 0)
        extend(&from_us, &to_us, job->began_at.us, job->last_at.us);
    if (job->started_at.us)
        extend(&from_us, &to_us, job->started_at.us, job->started_at.us);
    if (job->ended_at.us && from_us != INT64_MAX)
        extend(&from_us, &to_us, job->ended_at.us, job->ended_at.us);
    if (from_us == INT64_MAX)
        from_us = to_us = job->ended_at.us;
    *ret_from_us = from_us;
    *ret_to_us = to_us;
}

static int set_range(struct timeline *timeline, struct bh_trace_range range, uint32_t points)
{
    int64_t from_us, to_us;

    job_span(timeline, &from_us, &to_us);
    timeline->until_us = timeline->job->finished ? to_us : bh_clock_wall().us;
    if (timeline->until_us < to_us)
        timeline->until_us = to_us;
    if (!timeline->job->finished && timeline->job->started_at.us)
        to_us = timeline->until_us; /* "the end of the job, or now" */
    timeline->from_us = range.from_us == INT64_MIN ? from_us : range.from_us;
    timeline->to_us = range.to_us == INT64_MAX ? to_us : range.to_us;
    if (timeline->from_us > timeline->to_us) {
        if (range.from_us != INT64_MIN && range.to_us != INT64_MAX)
            return bh_err_set(timeline->diag, BH_E_BAD_QUERY, "from_us",
                              "from_us is later than to_us");
        /* one end given, beyond the job's other end: an empty range there */
        if (range.from_us != INT64_MIN)
            timeline->to_us = timeline->from_us;
        else
            timeline->from_us = timeline->to_us;
    }
    timeline->cells = bh_timeline_cells(timeline->from_us, timeline->to_us, points);
    for (int i = 0; i < BH_SERIES_COUNT; i++) {
        if (timeline->summary[i].points > 0)
            return 0;
    }
    timeline->cells = 0; /* no value at all: empty arrays */
    return 0;
}

/* ---- series ---- */

static void write_values(struct bh_json *json, const char *key, const uint64_t *values,
                         uint32_t count)
{
    bh_json_array(json, key);
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] == BH_SERIES_UNKNOWN)
            bh_json_null(json, NULL);
        else
            bh_json_u64(json, NULL, values[i]);
    }
    bh_json_end(json);
}

static int write_series(struct timeline *timeline, enum bh_series series, const char *min_key,
                        const char *max_key)
{
    int result = 0;

    if (timeline->summary[series].points > 0 && timeline->cells > 0) {
        result = bh_series_query(&timeline->levels, series, timeline->from_us, timeline->to_us,
                                 timeline->until_us, timeline->cells, timeline->min, timeline->max);
    } else {
        for (uint32_t i = 0; i < timeline->cells; i++)
            timeline->min[i] = timeline->max[i] = BH_SERIES_UNKNOWN;
    }
    if (result < 0)
        return result;
    write_values(&timeline->json, min_key, timeline->min, timeline->cells);
    write_values(&timeline->json, max_key, timeline->max, timeline->cells);
    return give(timeline);
}

static void write_times(struct timeline *timeline)
{
    bh_json_array(&timeline->json, "t_us");
    for (uint32_t i = 0; i < timeline->cells; i++)
        bh_json_i64(&timeline->json, NULL,
                    bh_timeline_cell_us(timeline->from_us, timeline->to_us, timeline->cells, i));
    bh_json_end(&timeline->json);
}

/* ---- limits ---- */

static void write_limit(struct bh_json *json, int64_t at_us, uint64_t limit, uint64_t warning,
                        uint64_t recovery, uint64_t emergency)
{
    bh_json_object(json, NULL);
    bh_json_i64(json, "at_us", at_us);
    bh_json_u64(json, "limit_bytes", limit);
    bh_json_u64(json, "warning_bytes", warning);
    bh_json_u64(json, "recovery_bytes", recovery);
    bh_json_u64(json, "emergency_bytes", emergency);
    bh_json_end(json);
}

static void write_limit_record(struct timeline *timeline, const struct bh_record *record)
{
    int64_t at_us = bh_clock_epoch_us(timeline->job->journal_anchor, record->at);
    const struct bh_record_config *config = &record->config;
    const struct bh_record_config_change *change = &record->config_change;

    if (record->kind == BH_RECORD_CONFIG && config->limit_bytes)
        write_limit(&timeline->json, at_us, config->limit_bytes, config->warning_bytes,
                    config->recovery_bytes, config->emergency_bytes);
    else if (record->kind == BH_RECORD_CONFIG_CHANGE && change->limit_bytes)
        write_limit(&timeline->json, at_us, change->limit_bytes, change->warning_bytes,
                    change->recovery_bytes, change->emergency_bytes);
}

static int write_limits(struct timeline *timeline)
{
    static const enum bh_record_kind kinds[] = {BH_RECORD_CONFIG, BH_RECORD_CONFIG_CHANGE};
    struct bh_trace *trace = timeline->trace;
    int result = 0;

    bh_json_array(&timeline->json, "limits");
    for (size_t i = 0; i < 2 && result >= 0 && timeline->job->mode != BH_MODE_OBSERVE; i++) {
        sqlite3_stmt *statement;
        result = bh_db_bind(&trace->db, BH_READ_SQL_RECORDS, &statement, timeline->diag, "idiii",
                            timeline->job->key, (int)kinds[i], INT64_MIN, INT64_MAX,
                            (int64_t)MAX_LIMITS);
        while (result >= 0 && (result = bh_db_step(&trace->db, statement, timeline->diag)) == 1) {
            struct bh_record record;
            if (bh_record_decode(sqlite3_column_blob(statement, 0),
                                 (size_t)sqlite3_column_bytes(statement, 0), timeline->job->id,
                                 &record) > 0)
                write_limit_record(timeline, &record);
        }
    }
    bh_json_end(&timeline->json);
    return result < 0 ? result : give(timeline);
}

/* ---- markers ---- */

static void write_observed(struct bh_json *json, const char *key, struct bh_observed value)
{
    if (value.status == BH_VALUE_AVAILABLE)
        bh_json_u64(json, key, value.value);
    else
        bh_json_null(json, key);
}

static void write_signal_name(struct bh_json *json, int signal)
{
    char name[16];

    bh_json_string(json, "signal",
                   signal > 0 ? bh_text_signal_name(signal, name, sizeof name) : NULL);
}

static const char *marker_kind(const struct bh_trace_marker *marker)
{
    if (marker->is_mark || marker->record.kind == BH_RECORD_MARK)
        return "mark";
    if (marker->record.kind == BH_RECORD_OUTCOME)
        return "exit";
    return bh_record_kind_text((int)marker->record.kind);
}

static void write_facts(struct bh_json *json, const struct bh_record *record)
{
    if (record->kind == BH_RECORD_TRANSITION) {
        bh_json_string(json, "from", bh_policy_state_name(record->transition.from));
        bh_json_string(json, "to", bh_policy_state_name(record->transition.to));
        write_observed(json, "charge_bytes", record->transition.bytes);
    } else if (record->kind == BH_RECORD_LIMIT_CROSSED) {
        bh_json_u64(json, "charge_bytes", record->limit_crossed.bytes);
    } else if (record->kind == BH_RECORD_SIGNAL) {
        write_signal_name(json, record->signal.signal);
        bh_json_string(json, "result", bh_signal_result_text((int)record->signal.result));
        bh_json_string(json, "reason", record->signal.reason[0] ? record->signal.reason : NULL);
    } else if (record->kind == BH_RECORD_CHECKPOINT) {
        bh_json_string(json, "status", bh_checkpoint_word_text((int)record->checkpoint.word));
        write_observed(json, "size_bytes", record->checkpoint.artifact_bytes);
    } else if (record->kind == BH_RECORD_MARK) {
        bh_json_string(json, "label", record->mark.label);
    } else if (record->kind == BH_RECORD_OUTCOME) {
        if (record->outcome.exit_code >= 0)
            bh_json_i64(json, "exit_code", record->outcome.exit_code);
        else
            bh_json_null(json, "exit_code");
        write_signal_name(json, record->outcome.signal);
    }
}

static int write_marker(void *user, const struct bh_trace_marker *marker)
{
    struct timeline *timeline = user;
    struct bh_json *json = &timeline->json;
    char text[160];

    bh_json_object(json, NULL);
    bh_json_i64(json, "at_us", marker->at_us);
    bh_json_string(json, "kind", marker_kind(marker));
    bh_json_string(json, "text", bh_trace_marker_text(marker, text, sizeof text));
    if (marker->is_mark) {
        bh_json_string(json, "label", marker->label);
    } else {
        if (!marker->record.by_scribe)
            bh_json_u64(json, "seq", marker->record.sequence);
        write_facts(json, &marker->record);
    }
    bh_json_end(json);
    return timeline->text.length > 32768 ? give(timeline) : 0;
}

static int write_markers(struct timeline *timeline)
{
    int result;

    bh_json_array(&timeline->json, "markers");
    result = bh_trace_markers(timeline->trace, timeline->job, timeline->from_us, timeline->to_us,
                              write_marker, timeline, timeline->diag);
    bh_json_end(&timeline->json);
    return result;
}

/* ---- losses ---- */

static const char *reason_text(int64_t reason)
{
    if (reason == BH_LOSS_EVENTS)
        return "events_lost";
    return reason == BH_LOSS_SAMPLES ? "samples_unusable" : "clock_gap";
}

struct loss {
    int64_t reason, from_us, to_us, count;
};

static void write_loss(struct bh_json *json, const struct loss *loss)
{
    bh_json_object(json, NULL);
    bh_json_i64(json, "from_us", loss->from_us);
    bh_json_i64(json, "to_us", loss->to_us);
    bh_json_i64(json, "count", loss->count);
    bh_json_string(json, "reason", reason_text(loss->reason));
    bh_json_end(json);
}

/* Seconds without a usable sample lie in rows of their own; neighbours are one stretch. */
static int write_losses(struct timeline *timeline)
{
    struct loss open = {0};
    sqlite3_stmt *statement;
    int result =
        bh_db_bind(&timeline->trace->db, BH_READ_SQL_LOSSES, &statement, timeline->diag, "iiii",
                   timeline->job->key, timeline->from_us, timeline->to_us, (int64_t)MAX_LOSSES);

    bh_json_array(&timeline->json, "losses");
    while (result >= 0 &&
           (result = bh_db_step(&timeline->trace->db, statement, timeline->diag)) == 1) {
        struct loss loss = {sqlite3_column_int64(statement, 0), sqlite3_column_int64(statement, 1),
                            sqlite3_column_int64(statement, 2), sqlite3_column_int64(statement, 3)};
        if (open.reason == loss.reason && loss.from_us - open.to_us <= 100000) {
            open.to_us = loss.to_us > open.to_us ? loss.to_us : open.to_us;
            open.count += loss.count;
            continue;
        }
        if (open.reason)
            write_loss(&timeline->json, &open);
        open = loss;
    }
    if (open.reason)
        write_loss(&timeline->json, &open);
    bh_json_end(&timeline->json);
    return result < 0 ? result : give(timeline);
}

/* ---- all of it ---- */

static void write_peak(struct timeline *timeline)
{
    const struct bh_series_summary *active = &timeline->summary[BH_SERIES_ACTIVE];
    const struct bh_trace_job *job = timeline->job;
    struct bh_json *json = &timeline->json;

    bh_json_object(json, "peak");
    if (job->peak.status == BH_VALUE_AVAILABLE) {
        bh_json_object(json, "charge");
        bh_json_i64(json, "at_us", job->peak_at.us);
        bh_json_u64(json, "charge_bytes", job->peak.value);
        bh_json_end(json);
    } else {
        bh_json_null(json, "charge");
    }
    if (active->points > 0 && active->min <= active->max) {
        bh_json_object(json, "active");
        bh_json_i64(json, "at_us", active->max_us);
        bh_json_u64(json, "active_bytes", active->max);
        bh_json_end(json);
    } else {
        bh_json_null(json, "active");
    }
    bh_json_end(json);
}

static int write_all(struct timeline *timeline)
{
    struct bh_json *json = &timeline->json;
    int result;

    bh_json_begin(json, &timeline->text, BH_JSON_COMPACT);
    bh_json_object(json, NULL);
    bh_json_string(json, "job_id", timeline->job->id);
    bh_json_i64(json, "from_us", timeline->from_us);
    bh_json_i64(json, "to_us", timeline->to_us);
    write_times(timeline);
    result = write_series(timeline, BH_SERIES_ACTIVE, "active_min", "active_max");
    if (result >= 0)
        result = write_series(timeline, BH_SERIES_RESERVED, "reserved_min", "reserved_max");
    if (result >= 0)
        result = write_series(timeline, BH_SERIES_CHARGE, "charge_min", "charge_max");
    if (result >= 0)
        result = write_limits(timeline);
    if (result >= 0)
        result = write_markers(timeline);
    if (result >= 0)
        result = write_losses(timeline);
    if (result < 0)
        return result;
    write_peak(timeline);
    bh_json_end(json);
    bh_json_finish(json);
    return give(timeline);
}

static int prepare(struct timeline *timeline, struct bh_trace_range range, uint32_t points)
{
    int result = 0;

    timeline->levels = bh_trace_rows_levels(&timeline->job->rows);
    for (unsigned i = 0; i < BH_SERIES_COUNT && result >= 0; i++)
        result = bh_series_summary(&timeline->levels, (enum bh_series)i, &timeline->summary[i]);
    if (result >= 0)
        result = set_range(timeline, range, points);
    if (result < 0)
        return result;
    timeline->min = calloc((size_t)timeline->cells + 1, sizeof *timeline->min);
    timeline->max = calloc((size_t)timeline->cells + 1, sizeof *timeline->max);
    if (!timeline->min || !timeline->max)
        return bh_err_set(timeline->diag, BH_E_NOMEM, NULL, "Out of memory");
    return 0;
}

int bh_trace_timeline(struct bh_trace *trace, const char *id, struct bh_trace_range range,
                      uint32_t points, bh_trace_sink sink, void *user, struct bh_diag *diag)
{
    struct bh_trace_job job;
    struct timeline timeline = {.trace = trace, .job = &job, .sink = {sink, user}, .diag = diag};
    int result;

    if (points < 1 || points > 10000)
        return bh_err_set(diag, BH_E_BAD_QUERY, "points", "points is 1 to 10000");
    result = bh_trace_begin(trace, id, &job, diag);
    if (result < 0)
        return result;
    result = prepare(&timeline, range, points);
    if (result >= 0)
        result = write_all(&timeline);
    free(timeline.min);
    free(timeline.max);
    bh_bytes_done(&timeline.text);
    result = bh_trace_end(trace, &job, result);
    if (result < 0 && diag && diag->detail[0] == '\0')
        return bh_err_set(diag, result, NULL, "The timeline cannot be made");
    return result;
}
