/* The drain's way into the event log: sequences, the size limit, and what happens when the log
 * cannot be written. */
#include "core/base/log.h"
#include "core/super/drain_parts.h"

static bool is_event(enum bh_evlog_kind kind)
{
    return kind <= BH_EVLOG_MARK;
}

void bh_drain_log_failed(struct bh_drain_log *log, int error)
{
    if (log->error == BH_OK) {
        bh_log(BH_LOG_ERROR, "the event log cannot be written (%s), recording goes on without it",
               bh_err_title(error));
        log->error = error;
    }
}

/* The limit is reached: one FULL record, then nothing more. */
static int become_full(struct bh_drain_log *log, struct bh_mono at)
{
    struct bh_evlog_record full = {.kind = BH_EVLOG_FULL, .at = at};

    log->full = true;
    log->dirty = true;
    return bh_evlog_writer_add(log->writer, &full);
}

int bh_drain_log_add(struct bh_drain_log *log, struct bh_evlog_record *record)
{
    int rc;

    if (log->error < 0) {
        log->lost += is_event(record->kind);
        return BH_OK;
    }
    if (!log->full && log->trace_max_bytes != 0 &&
        bh_evlog_writer_bytes(log->writer) >= log->trace_max_bytes && is_event(record->kind)) {
        rc = become_full(log, record->at);
        if (rc < 0) {
            bh_drain_log_failed(log, rc);
            return BH_OK;
        }
    }
    if (log->full) {
        log->dropped += is_event(record->kind);
        return BH_OK;
    }
    if (is_event(record->kind)) {
        record->sequence = log->next_sequence;
    }
    rc = bh_evlog_writer_add(log->writer, record);
    if (rc < 0) {
        log->lost += is_event(record->kind);
        bh_drain_log_failed(log, rc);
        return BH_OK; /* rings are still emptied, what they hold counts as lost */
    }
    log->next_sequence += is_event(record->kind);
    log->events += is_event(record->kind);
    log->dirty = true;
    return BH_OK;
}
