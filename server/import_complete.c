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
    if (row->journal_sequence == 0 && !row->external && row->outcome == BH_OUTCOME_NONE) {
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
static void read_foreign_report(struct bh_import *import, struct bh_store_job *row, int dirfd,
                                char *invalid, size_t size)
{
    struct bh_report_facts facts = {0};
    struct bh_problem problem = {0};
    struct stat info;

    if (bh_report_read_facts(import->buffer.data, import->buffer.length, row->id, &facts,
                             &problem) < 0) {
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

/* The job ended and all its bytes are in: report, sentence, state, mark. */
int bh_import_complete(struct bh_import *import, struct bh_import_job *job, int dirfd, bool whole,
                       struct bh_store_job *row, struct bh_diag *diag)
{
    char invalid[sizeof row->report_reason] = "";
    int result = bh_import_charge_finish(import, job, dirfd, diag);

    if (result >= 0)
        result = bh_import_report_store(import, row, dirfd, &row->report, diag);
    if (result >= 0)
        result = bh_import_outcome(import, row, whole, invalid, sizeof invalid, diag);
    if (result < 0)
        return result;
    if (row->external && row->report == BH_STORE_REPORT_READY)
        read_foreign_report(import, row, dirfd, invalid, sizeof invalid);
    if (row->report == BH_STORE_REPORT_SUPPRESSED)
        snprintf(invalid, sizeof invalid, "The report was lost; journal and trace are kept");
    else if (invalid[0])
        row->report = BH_STORE_REPORT_SUPPRESSED;
    memcpy(row->report_reason, invalid, sizeof invalid);
    fill_lost_outcome(row);
    settle_state(row);
    row->import_complete = true;
    return bh_db_run(&import->db, BH_IMPORT_SQL_JOB_COMPLETE, diag, "idtd", row->key,
                     (int)row->report, row->report_reason, row->error);
}
