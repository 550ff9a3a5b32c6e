/* The last step of a job: report, sentence, state. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/report_json.h"
#include "server/import_internal.h"

/* The state that the outcome means. */
static void settle_state(struct bh_store_job *row)
{
    switch (row->outcome) {
    case BH_OUTCOME_LAUNCH_NOT_FOUND:
        row->error = BH_E_LAUNCH_NOT_FOUND;
        break;
    case BH_OUTCOME_LAUNCH_NOT_EXECUTABLE:
        row->error = BH_E_LAUNCH_NOT_EXECUTABLE;
        break;
    case BH_OUTCOME_INVALID_CONFIGURATION:
        row->error = BH_E_INVALID_CONFIG;
        break;
    case BH_OUTCOME_NONE:
    case BH_OUTCOME_CHILD_EXITED:
    case BH_OUTCOME_CHILD_SIGNALED:
    case BH_OUTCOME_POLICY_INTERVENTION:
    case BH_OUTCOME_SUPERVISOR_FAILURE:
    case BH_OUTCOME_PARTIAL_ARTIFACT_FAILURE:
    case BH_OUTCOME_SUPERVISOR_LOST:
    case BH_OUTCOME_UNKILLABLE:
        break;
    }
    row->state = row->error ? BH_JOB_FAILED_TO_START : BH_JOB_FINISHED;
}

/* A row for a job whose journal has no outcome: everybody who could have written one is gone. */
static void fill_lost_outcome(struct bh_store_job *row)
{
    if (row->journal_sequence == 0 && !row->external && row->outcome == BH_OUTCOME_NONE &&
        row->state == BH_JOB_STARTING) {
        row->error = BH_E_SUPERVISOR_START;
        row->outcome = BH_OUTCOME_SUPERVISOR_FAILURE;
        snprintf(row->sentence, sizeof row->sentence, "The supervisor did not start.");
    } else if (row->outcome == BH_OUTCOME_NONE) {
        row->outcome = BH_OUTCOME_PARTIAL_ARTIFACT_FAILURE;
        row->cause = BH_CAUSE_UNKNOWN;
        snprintf(row->sentence, sizeof row->sentence,
                 "How it ended is not known: the journal has no outcome.");
    }
    if (row->ended_at.us == 0)
        row->ended_at = bh_clock_wall();
}

/* An external job has no journal: its report says how it ended. */
static void read_foreign_report(struct bh_store_job *row, const struct bh_bytes *report, int dirfd,
                                char *invalid, size_t size)
{
    struct bh_report_facts facts = {0};
    struct bh_problem problem = {0};
    struct stat info;

    if (bh_report_read_facts(report->data, report->length, row->id, &facts, &problem) < 0) {
        snprintf(invalid, size, "The report that was given is not valid");
        return;
    }
    row->outcome = facts.outcome;
    row->cause = facts.cause;
    snprintf(row->sentence, sizeof row->sentence, "%s", facts.sentence);
    /* when it came in; the report is the last thing an external job gets */
    if (row->ended_at.us == 0 && fstatat(dirfd, "report.json", &info, AT_SYMLINK_NOFOLLOW) == 0)
        row->ended_at.us = (int64_t)info.st_mtim.tv_sec * 1000000 + info.st_mtim.tv_nsec / 1000;
}

/* What the last transaction stores. */
struct ending {
    struct bh_store_job row;
    struct bh_bytes report;           /* owned */
    struct bh_series_builder *charge; /* owned; NULL = the stored one stays */
};

/* The report's bytes, and whether they may be served. */
static int take_report(struct bh_import *import, int dirfd, bool whole, struct ending *ending,
                       struct bh_diag *diag)
{
    struct bh_store_job *row = &ending->row;
    char invalid[sizeof row->report_reason] = "";
    int found = bh_import_report_read(dirfd, &ending->report, diag);
    int result = bh_import_outcome(import, row, whole, invalid, sizeof invalid, diag);

    if (found < 0 && found != BH_E_NOT_FOUND && found != BH_E_TOO_LONG)
        return found;
    if (result < 0)
        return result;
    if (found < 0)
        snprintf(invalid, sizeof invalid, "The report was lost; journal and trace are kept");
    else if (row->external)
        read_foreign_report(row, &ending->report, dirfd, invalid, sizeof invalid);
    row->report = invalid[0] ? BH_STORE_REPORT_SUPPRESSED : BH_STORE_REPORT_READY;
    memcpy(row->report_reason, invalid, sizeof invalid);
    return 0;
}

static int prepare(struct bh_import *import, const struct bh_import_job *job, int dirfd, bool whole,
                   struct ending *ending, struct bh_diag *diag)
{
    int result = bh_import_charge_final(import, job, dirfd, &ending->charge, diag);

    if (result >= 0)
        result = take_report(import, dirfd, whole, ending, diag);
    if (result < 0)
        return result;
    fill_lost_outcome(&ending->row);
    settle_state(&ending->row);
    ending->row.bytes += ending->report.length;
    ending->row.import_complete = true;
    return 0;
}

static int store(struct bh_import *import, const struct bh_import_job *job,
                 const struct ending *ending, struct bh_diag *diag)
{
    const struct bh_store_job *row = &ending->row;
    int result = 0;

    if (ending->charge)
        result = bh_import_charge_replace(import, job, ending->charge, diag);
    if (result >= 0 && ending->report.length > 0)
        result = bh_db_run(&import->db, BH_IMPORT_SQL_REPORT_STORE, diag, "ib", row->key,
                           ending->report.data, ending->report.length);
    if (result >= 0)
        result = bh_import_row_store(import, row, &job->place, diag);
    if (result >= 0)
        result = bh_db_run(&import->db, BH_IMPORT_SQL_JOB_COMPLETE, diag, "idtd", row->key,
                           (int)row->report, row->report_reason, row->error);
    return result;
}

int bh_import_complete(struct bh_import *import, const struct bh_import_job *job, int dirfd,
                       bool whole, struct bh_store_job *row, struct bh_diag *diag)
{
    struct ending ending = {.row = *row};
    int result = prepare(import, job, dirfd, whole, &ending, diag);

    if (result >= 0)
        result = bh_db_begin(&import->db, true, diag);
    if (result >= 0)
        result = bh_db_end(&import->db, store(import, job, &ending, diag), diag);
    if (result >= 0) {
        *row = ending.row;
        /* pending for ten seconds more as a rule: the server asks again */
        (void)bh_import_reclamation(import, row->id, dirfd, NULL);
    }
    bh_series_free(ending.charge);
    bh_bytes_done(&ending.report);
    return result < 0 ? result : 0;
}
