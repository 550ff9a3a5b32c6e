/* Markers: journal records and user marks on the one clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/model/policy.h"
#include "core/wire/journal.h"
#include "server/trace_internal.h"

/* Of each kind at most so many: far above what a run has, but a program may mark every step. */
#define MAX_OF_KIND 5000
#define TWIN_US     2000000 /* how far a mark's two copies lie apart at most: a drain and a queue */

static const enum bh_record_kind shown[] = {
    BH_RECORD_LIMIT_CROSSED, BH_RECORD_TRANSITION, BH_RECORD_SIGNAL,
    BH_RECORD_CHECKPOINT,    BH_RECORD_MARK,       BH_RECORD_OUTCOME,
};

/* Monotonic bounds of an epoch range; wide ends are clamped. */
static int64_t mono_of(const struct bh_trace_job *job, int64_t at_us, bool up)
{
    int64_t base = (int64_t)job->journal_anchor.mono.ns, delta;

    if (at_us == INT64_MIN || at_us == INT64_MAX ||
        __builtin_sub_overflow(at_us, job->journal_anchor.wall.us, &delta) ||
        __builtin_mul_overflow(delta, 1000, &delta) || __builtin_add_overflow(delta, base, &delta))
        return at_us < job->journal_anchor.wall.us ? INT64_MIN : INT64_MAX;
    /* a microsecond holds a thousand nanoseconds */
    if (up && delta < INT64_MAX - 999)
        delta += 999;
    return delta;
}

static int append(struct bh_bytes *list, const struct bh_trace_marker *marker, struct bh_diag *diag)
{
    bh_bytes_append(list, marker, sizeof *marker);
    return list->failed ? bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory") : 0;
}

static int take_records(struct bh_trace *trace, const struct bh_trace_job *job,
                        enum bh_record_kind kind, int64_t from_us, int64_t to_us,
                        struct bh_bytes *list, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result =
        bh_db_bind(&trace->db, BH_READ_SQL_RECORDS, &statement, diag, "idiii", job->key, (int)kind,
                   mono_of(job, from_us, false), mono_of(job, to_us, true), (int64_t)MAX_OF_KIND);

    if (result < 0)
        return result;
    while ((result = bh_db_step(&trace->db, statement, diag)) == 1) {
        struct bh_trace_marker marker = {0};
        int length =
            bh_record_decode(sqlite3_column_blob(statement, 0),
                             (size_t)sqlite3_column_bytes(statement, 0), job->id, &marker.record);
        if (length <= 0)
            continue;
        marker.at_us = bh_clock_epoch_us(job->journal_anchor, marker.record.at);
        marker.order = marker.record.sequence;
        result = append(list, &marker, diag);
        if (result < 0)
            break;
    }
    sqlite3_reset(statement);
    return result;
}

static int take_marks(struct bh_trace *trace, const struct bh_trace_job *job, int64_t from_us,
                      int64_t to_us, struct bh_bytes *list, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&trace->db, BH_READ_SQL_MARKS, &statement, diag, "iiii", job->key,
                            from_us, to_us, (int64_t)MAX_OF_KIND);

    if (result < 0)
        return result;
    while ((result = bh_db_step(&trace->db, statement, diag)) == 1) {
        struct bh_trace_marker marker = {.is_mark = true};
        marker.at_us = sqlite3_column_int64(statement, 0);
        marker.order = UINT64_MAX;
        bh_db_column_text(statement, 1, marker.label, sizeof marker.label);
        result = append(list, &marker, diag);
        if (result < 0)
            break;
    }
    sqlite3_reset(statement);
    return result;
}

static int by_time(const void *left, const void *right)
{
    const struct bh_trace_marker *a = left, *b = right;

    if (a->at_us != b->at_us)
        return a->at_us < b->at_us ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* The recorder's log and the journal both carry a user's mark when the recorder is attached: the
 * journal's is shown, the log's twin (same label, nearest in time) is not. */
static bool is_journal_twin(const struct bh_trace_marker *mark, const struct bh_trace_marker *other)
{
    return !other->is_mark && other->record.kind == BH_RECORD_MARK &&
           strncmp(other->record.mark.label, mark->label, sizeof other->record.mark.label - 1) == 0;
}

static bool is_twin(const struct bh_trace_marker *list, size_t count, size_t at)
{
    const struct bh_trace_marker *mark = &list[at];

    if (!mark->is_mark)
        return false;
    for (size_t i = at; i-- > 0 && mark->at_us - list[i].at_us < TWIN_US;) {
        if (is_journal_twin(mark, &list[i]))
            return true;
    }
    for (size_t i = at + 1; i < count && list[i].at_us - mark->at_us < TWIN_US; i++) {
        if (is_journal_twin(mark, &list[i]))
            return true;
    }
    return false;
}

int bh_trace_markers(struct bh_trace *trace, const struct bh_trace_job *job, int64_t from_us,
                     int64_t to_us, int (*visit)(void *user, const struct bh_trace_marker *marker),
                     void *user, struct bh_diag *diag)
{
    struct bh_bytes bytes = {0};
    const struct bh_trace_marker *list;
    size_t count;
    int result = take_marks(trace, job, from_us, to_us, &bytes, diag);

    for (size_t i = 0; i < sizeof shown / sizeof shown[0] && result >= 0; i++)
        result = take_records(trace, job, shown[i], from_us, to_us, &bytes, diag);
    count = bytes.length / sizeof *list;
    if (result >= 0 && count > 0)
        qsort(bytes.data, count, sizeof *list, by_time);
    list = (const void *)bytes.data;
    for (size_t i = 0; i < count && result >= 0; i++) {
        if (!is_twin(list, count, i))
            result = visit(user, &list[i]);
    }
    bh_bytes_done(&bytes);
    return result < 0 ? result : 0;
}

/* ---- words ---- */

static void transition_text(const struct bh_record_transition *transition, char *buffer,
                            size_t size)
{
    char bytes[24];
    const char *to = bh_policy_state_name(transition->to);

    if (transition->reason[0])
        snprintf(buffer, size, "%s: %s", to, transition->reason);
    else if (transition->to != BH_POLICY_STATE_EXITED &&
             transition->bytes.status == BH_VALUE_AVAILABLE)
        snprintf(buffer, size, "%s: charge %s", to,
                 bh_text_format_bytes(transition->bytes.value, bytes, sizeof bytes));
    else
        snprintf(buffer, size, "%s", to);
}

static void outcome_text(const struct bh_record_outcome *outcome, char *buffer, size_t size)
{
    char name[16];

    if (outcome->signal)
        snprintf(buffer, size, "ended by %s",
                 bh_text_signal_name(outcome->signal, name, sizeof name));
    else if (outcome->exit_code >= 0)
        snprintf(buffer, size, "exited with %d", outcome->exit_code);
    else
        snprintf(buffer, size, "%s", bh_outcome_text((int)outcome->kind));
}

const char *bh_trace_marker_text(const struct bh_trace_marker *marker, char *buffer, size_t size)
{
    const struct bh_record *record = &marker->record;
    char name[16];

    if (marker->is_mark)
        snprintf(buffer, size, "%s", marker->label);
    else if (record->kind == BH_RECORD_LIMIT_CROSSED)
        snprintf(buffer, size, "the charge reached the limit");
    else if (record->kind == BH_RECORD_TRANSITION)
        transition_text(&record->transition, buffer, size);
    else if (record->kind == BH_RECORD_SIGNAL)
        snprintf(buffer, size, "%s", bh_text_signal_name(record->signal.signal, name, sizeof name));
    else if (record->kind == BH_RECORD_CHECKPOINT)
        snprintf(buffer, size, "checkpoint %s",
                 bh_checkpoint_word_text((int)record->checkpoint.word));
    else if (record->kind == BH_RECORD_MARK)
        snprintf(buffer, size, "%s", record->mark.label);
    else if (record->kind == BH_RECORD_OUTCOME)
        outcome_text(&record->outcome, buffer, size);
    else
        snprintf(buffer, size, "%s", bh_record_kind_text((int)record->kind));
    return buffer;
}
