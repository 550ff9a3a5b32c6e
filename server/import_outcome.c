/* What the journal as a whole says at the end: the outcome's sentence, and whether a report made
 * from it holds together. The same fold that wrote report.json. */
#include <stdio.h>
#include <time.h>

#include "core/model/report.h"
#include "core/wire/journal.h"
#include "server/import_internal.h"

static int fold_records(struct bh_import *import, const struct bh_store_job *row,
                        struct bh_report *report, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result =
        bh_db_bind(&import->db, BH_IMPORT_SQL_RECORDS_ALL, &statement, diag, "i", row->key);

    if (result < 0)
        return result;
    while ((result = bh_db_step(&import->db, statement, diag)) == 1) {
        struct bh_record record;
        int length = bh_record_decode(sqlite3_column_blob(statement, 0),
                                      (size_t)sqlite3_column_bytes(statement, 0), row->id, &record);
        if (length > 0)
            bh_report_add(report, &record);
    }
    return result;
}

/* Of the local time in which the sentence speaks, as the supervisor's own report does. */
static int utc_offset_s(const struct bh_store_job *row)
{
    time_t seconds = (time_t)(row->ended_at.us / 1000000);
    struct tm local;

    return localtime_r(&seconds, &local) ? (int)local.tm_gmtoff : 0;
}

int bh_import_outcome(struct bh_import *import, struct bh_store_job *row, bool whole,
                      char *ret_reason, size_t reason_size, struct bh_diag *diag)
{
    struct bh_report *report = bh_report_new();
    struct bh_outcome_story story;
    struct bh_diag why = {0};
    int result;

    if (!report)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    bh_report_begin(report, row->id, row->anchor);
    result = fold_records(import, row, report, diag);
    if (result >= 0 && row->outcome != BH_OUTCOME_NONE) {
        bh_report_finish(report, whole);
        bh_report_story(report, &story);
        (void)bh_outcome_sentence(&story, utc_offset_s(row), row->sentence, sizeof row->sentence);
        if (bh_report_validate(report, &why) < 0)
            snprintf(ret_reason, reason_size, "%.150s", why.detail);
    }
    bh_report_free(report);
    return result < 0 ? result : 0;
}
