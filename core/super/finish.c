#include "core/super/finish.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/base/text.h"
#include "core/super/lost.h"

/* ---- in the decider's place ---- */

static void add_empty(struct bh_store *store, bool proven)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_EMPTY;
    record.at = bh_store_now(store);
    record.empty.proven = proven;
    bh_store_add(store, &record);
}

static void add_outcome(struct bh_store *store, const struct bh_outcome_facts *facts,
                        const struct bh_status *status, uint32_t survivors)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_OUTCOME;
    record.at = bh_store_now(store);
    bh_outcome_decide(facts, &record.outcome);
    record.outcome.survivors = survivors;
    if (status) {
        record.outcome.peak_bytes = status->peak_charge;
        record.outcome.peak_at = status->at;
    }
    bh_store_add(store, &record);
}

void bh_finish_lost(struct bh_store *store, const struct bh_job_spec *spec,
                    const struct bh_queue_member *members, size_t count, bool reboot)
{
    if (store->has_outcome)
        return;
    struct bh_status status;
    bool has_status = store->queue && bh_queue_status(store->queue, &status);
    bool proven = reboot; /* nothing outlives the machine */
    store->other_boot = reboot;
    uint32_t left = 0;
    if (!reboot)
        left = bh_lost_stop(store, spec, members, count, has_status ? &status : NULL, &proven);
    if (store->has_outcome) /* the decider's own, found while its queue was emptied */
        return;
    struct bh_outcome_facts facts = {
        .mode = spec->mode,
        .launched = true,
        .exit_code = -1,
        .supervisor_lost = true,
        .reboot = reboot,
        .unkillable = left > 0,
    };
    if (!store->has_empty && left == 0)
        add_empty(store, proven);
    add_outcome(store, &facts, has_status ? &status : NULL, left);
}

/* ---- the report ---- */

int bh_finish_fold(int run_fd, struct bh_report **ret_report, struct bh_diag *diag)
{
    BH_SCOPED_FD int fd = -1;
    struct bh_journal_reader *reader = NULL;
    struct bh_record record;
    int result = bh_io_open(run_fd, BH_JOURNAL_FILE_NAME, O_RDONLY, &fd, diag);
    if (result == BH_OK)
        result = bh_journal_reader_new(fd, &reader, diag);
    if (result < 0)
        return result;
    struct bh_report *report = bh_report_new();
    if (!report) {
        bh_journal_reader_free(reader);
        return bh_err_set(diag, BH_E_NOMEM, NULL, "no memory for the report");
    }
    const struct bh_journal_header *header = bh_journal_reader_header(reader);
    bh_report_begin(report, header->run_id, header->anchor);
    while (bh_journal_reader_next(reader, &record) == 1)
        bh_report_add(report, &record);
    bh_report_finish(report, bh_journal_reader_end(reader) == BH_JOURNAL_COMPLETE);
    bh_journal_reader_free(reader);
    *ret_report = report;
    return BH_OK;
}

/* Offset of local time, as the machine has it at the end of the run. */
static int utc_offset_s(const struct bh_report *report)
{
    time_t at = (time_t)(bh_clock_epoch_us(report->anchor, report->last_at) / 1000000);
    struct tm local;
    return localtime_r(&at, &local) ? (int)local.tm_gmtoff : 0;
}

static int put_report(const struct bh_report *report, int target_fd, struct bh_diag *diag)
{
    struct bh_bytes json = {0};
    int result = bh_report_validate(report, diag);
    if (result == BH_OK) {
        result = bh_report_render(report, utc_offset_s(report), &json);
        if (result < 0)
            (void)bh_err_set(diag, result, NULL, "no memory for the report");
    }
    if (result == BH_OK)
        result = bh_io_replace(target_fd, BH_RUN_REPORT_NAME, json.data, json.length, true, diag);
    bh_bytes_done(&json);
    return result;
}

int bh_finish_report(int run_fd, int target_fd, struct bh_diag *diag)
{
    struct bh_report *report = NULL;
    int result = bh_finish_fold(run_fd, &report, diag);
    if (result == BH_OK)
        result = put_report(report, target_fd, diag);
    bh_report_free(report);
    return result;
}

int bh_finish_sentence(int run_fd, char *ret_text, size_t size, struct bh_diag *diag)
{
    struct bh_report *report = NULL;
    int result = bh_finish_fold(run_fd, &report, diag);
    if (result < 0)
        return result;
    if (!report->has_outcome) { /* the end is not in a journal that could not be written */
        bh_report_free(report);
        return bh_err_set(diag, BH_E_NOT_FOUND, NULL, "the journal has no outcome");
    }
    struct bh_outcome_story story;
    char sentence[320], peak_text[24], limit_text[24];
    bh_report_story(report, &story);
    (void)bh_outcome_sentence(&story, utc_offset_s(report), sentence, sizeof sentence);
    bool own = report->outcome.peak_bytes.status == BH_VALUE_AVAILABLE;
    struct bh_observed peak = own ? report->outcome.peak_bytes : report->peak;
    const char *peak_words = "unknown";
    if (peak.status == BH_VALUE_AVAILABLE)
        peak_words = bh_text_format_bytes(peak.value, peak_text, sizeof peak_text);
    if (report->config.mode == BH_MODE_ENFORCE)
        (void)snprintf(
            ret_text, size, "%s Peak %s, limit %s.", sentence, peak_words,
            bh_text_format_bytes(report->config.limit_bytes, limit_text, sizeof limit_text));
    else
        (void)snprintf(ret_text, size, "%s Peak %s, no limit.", sentence, peak_words);
    bh_report_free(report);
    return BH_OK;
}

/* ---- all of it ---- */

/* The event log that a drain of another boot or another life left: what it holds, its torn end cut.
 */
static bool count_events(const struct bh_store *store, struct bh_record_recorder *recorder)
{
    BH_SCOPED_FD int fd = -1;
    struct bh_evlog_resume resume;
    if (bh_io_open(store->run->run_fd, BH_RUN_EVLOG_NAME, O_RDWR | O_APPEND, &fd, NULL) < 0 ||
        bh_evlog_resume(fd, &resume, NULL) < 0 || resume.next_sequence <= 1)
        return false;
    recorder->events = resume.next_sequence - 1;
    recorder->lost = resume.lost;
    recorder->state = resume.lost ? BH_RECORDER_LOSSY : BH_RECORDER_ATTACHED;
    return true;
}

/* drain NULL although recording was asked for: absent, never silently off. */
static void add_recorder(struct bh_store *store, const struct bh_drain *drain)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_RECORDER;
    record.at = bh_store_now(store);
    if (drain) {
        bh_drain_stats(drain, &record.recorder);
        if (store->ring_bytes > record.recorder.ring_bytes)
            record.recorder.ring_bytes = store->ring_bytes;
    } else if (!count_events(store, &record.recorder)) {
        record.recorder.state = BH_RECORDER_ABSENT;
        (void)snprintf(record.recorder.reason, sizeof record.recorder.reason, "%s",
                       store->run->rings_fd < 0 ? "there is no runtime folder for its rings"
                                                : "the event log could not be kept");
    }
    bh_store_add(store, &record);
}

static void add_artifact_error(struct bh_store *store, int error, const char *what)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_ARTIFACT_ERROR;
    record.at = bh_store_now(store);
    record.artifact_error.error = error;
    (void)snprintf(record.artifact_error.what, sizeof record.artifact_error.what, "%s", what);
    bh_store_add(store, &record);
}

static void fill_facts(const struct bh_report *report, struct bh_reclaim_facts *ret_facts)
{
    *ret_facts = (struct bh_reclaim_facts){
        .before_bytes = {report->host.available_bytes ? BH_VALUE_AVAILABLE : BH_VALUE_UNKNOWN,
                         report->host.available_bytes},
        .end_bytes = report->available_at_end,
        .peak_bytes = report->outcome.peak_bytes,
        .ended_at = report->has_empty ? report->empty_at : report->last_at,
    };
}

int bh_finish_run(struct bh_store *store, struct bh_drain *drain,
                  struct bh_reclaim_facts *ret_facts, struct bh_diag *diag)
{
    (void)bh_store_take(store);
    int drained = drain ? bh_drain_finish(drain) : BH_OK;
    if (store->run->spec->record)
        add_recorder(store, drain);
    if (drained < 0)
        add_artifact_error(store, drained, "events");
    bh_store_flush_span(store);
    bh_store_sync(store);
    memset(ret_facts, 0, sizeof *ret_facts);
    if (store->error)
        return bh_err_set(diag, store->error, NULL, "the journal could not be kept: %s",
                          bh_err_title(store->error));
    struct bh_report *report = NULL;
    int result = bh_finish_fold(store->run->run_fd, &report, diag);
    if (result < 0)
        return result;
    fill_facts(report, ret_facts);
    result = put_report(report, store->run->run_fd, diag);
    bh_report_free(report);
    return result;
}
