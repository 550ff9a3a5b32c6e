#include "server/retention.h"

#include <stdlib.h>
#include <string.h>

#include "server/store_internal.h"

/* Newest first, what is kept adds up; the first bound that is passed marks everything older by the
 * same rule. Ids first, marks afterwards: a row is not changed under the statement that reads it.
 */
struct pick {
    struct bh_bytes ids; /* BH_JOB_ID_SIZE bytes each */
    uint32_t kept;
    uint64_t bytes;
};

static bool has_to_go(const struct pick *pick, const struct bh_retention *retention,
                      struct bh_wall now, int64_t ended_us, uint64_t bytes)
{
    if (retention->max_jobs && pick->kept >= retention->max_jobs)
        return true;
    if (retention->max_age_us && ended_us > 0 && now.us > ended_us &&
        (uint64_t)(now.us - ended_us) > retention->max_age_us)
        return true;
    return retention->max_bytes && pick->bytes + bytes > retention->max_bytes;
}

static int pick_jobs(struct bh_store *store, const struct bh_retention *retention,
                     struct bh_wall now, struct pick *pick, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&store->db, BH_STORE_SQL_JOB_OLDEST, &statement, diag, "");

    if (result < 0)
        return result;
    while ((result = bh_db_step(&store->db, statement, diag)) == 1) {
        int64_t ended_us = sqlite3_column_int64(statement, 1);
        /* the run directory holds the same bytes once more */
        uint64_t bytes = 2 * (uint64_t)sqlite3_column_int64(statement, 2);
        char id[BH_JOB_ID_SIZE];

        bh_db_column_text(statement, 0, id, sizeof id);
        if (has_to_go(pick, retention, now, ended_us, bytes)) {
            bh_bytes_append(&pick->ids, id, sizeof id);
        } else {
            pick->kept++;
            pick->bytes += bytes;
        }
    }
    if (result >= 0 && pick->ids.failed)
        result = bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    return result;
}

int bh_retention_run(struct bh_store *store, const struct bh_retention *retention,
                     struct bh_wall now, uint32_t *ret_marked, struct bh_diag *diag)
{
    struct pick pick = {0};
    uint32_t marked = 0;
    int result = pick_jobs(store, retention, now, &pick, diag);

    for (size_t at = 0; result >= 0 && at < pick.ids.length; at += BH_JOB_ID_SIZE) {
        result = bh_store_job_delete(store, (const char *)pick.ids.data + at, diag);
        if (result >= 0)
            marked++;
    }
    bh_bytes_done(&pick.ids);
    if (result < 0)
        return result;
    *ret_marked = marked;
    return 0;
}
