/* The rows of table job, as the loop sees them. */
#include <string.h>

#include "server/store_internal.h"

int bh_store_job_insert(struct bh_store *store, const struct bh_job_spec *spec,
                        struct bh_diag *diag)
{
    int result = bh_db_begin(&store->db, true, diag);

    if (result < 0)
        return result;
    result = bh_job_row_insert(&store->db, BH_STORE_SQL_JOB_INSERT, BH_STORE_SQL_LABEL_INSERT, spec,
                               diag);
    return bh_db_end(&store->db, result, diag);
}

/* For updates that concern one job: no row changed means that it is not there, or in a state that
 * the statement excludes. */
static int changed(struct bh_store *store, const char *id, int result, struct bh_diag *diag)
{
    enum bh_job_state state;
    int64_t key;

    if (result != 0)
        return result < 0 ? result : 0;
    result = bh_store_key(store, id, &key, &state, diag);
    if (result < 0)
        return result;
    return bh_err_set(diag, BH_E_WRONG_STATE, NULL, "The job is %s", bh_job_state_text((int)state));
}

int bh_store_job_fail(struct bh_store *store, const char *id, int error, const char *sentence,
                      struct bh_wall at, struct bh_diag *diag)
{
    int result =
        bh_db_run(&store->db, BH_STORE_SQL_JOB_FAIL, diag, "tdti", id, error, sentence, at.us);
    return changed(store, id, result, diag);
}

int bh_store_job_lose(struct bh_store *store, const char *id, const char *sentence,
                      struct bh_wall at, struct bh_diag *diag)
{
    int result = bh_db_run(&store->db, BH_STORE_SQL_JOB_LOSE, diag, "tddtti", id,
                           (int)BH_OUTCOME_PARTIAL_ARTIFACT_FAILURE, (int)BH_CAUSE_UNKNOWN,
                           sentence, sentence, at.us);
    return changed(store, id, result, diag);
}

int bh_store_job_set_state(struct bh_store *store, const char *id, enum bh_job_state state,
                           struct bh_diag *diag)
{
    int result = bh_db_run(&store->db, BH_STORE_SQL_JOB_SET_STATE, diag, "td", id, (int)state);
    return changed(store, id, result, diag);
}

int bh_store_job_get(struct bh_store *store, const char *id, struct bh_store_job *ret_job,
                     struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&store->db, BH_STORE_SQL_JOB_GET, &statement, diag, "t", id);

    if (result >= 0)
        result = bh_db_step(&store->db, statement, diag);
    if (result < 0)
        return result;
    if (result == 0)
        return bh_err_set(diag, BH_E_NOT_FOUND, "id", "There is no job with this id");
    bh_job_row_read(statement, ret_job);
    sqlite3_reset(statement);
    return 0;
}

int bh_store_job_spec(struct bh_store *store, const char *id, struct bh_bytes *ret_spec,
                      struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&store->db, BH_STORE_SQL_JOB_SPEC, &statement, diag, "t", id);

    if (result >= 0)
        result = bh_db_step(&store->db, statement, diag);
    if (result < 0)
        return result;
    if (result == 0)
        return bh_err_set(diag, BH_E_NOT_FOUND, "id", "There is no job with this id");
    result = bh_db_column_bytes(statement, 0, ret_spec);
    sqlite3_reset(statement);
    return result;
}

static int bind_list(struct bh_store *store, const struct bh_store_filter *filter,
                     sqlite3_stmt **ret_statement, struct bh_diag *diag)
{
    if (filter->unfinished)
        return bh_db_bind(&store->db, BH_STORE_SQL_JOB_LIST_UNFINISHED, ret_statement, diag, "ti",
                          filter->before_id, (int64_t)filter->limit);
    return bh_db_bind(&store->db, BH_STORE_SQL_JOB_LIST, ret_statement, diag, "dtttti",
                      filter->state, filter->name, filter->before_id, filter->label_key,
                      filter->label_value, (int64_t)filter->limit);
}

int bh_store_job_list(struct bh_store *store, const struct bh_store_filter *filter,
                      int (*visit)(void *user, const struct bh_store_job *job), void *user,
                      struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bind_list(store, filter, &statement, diag);

    if (result < 0)
        return result;
    while ((result = bh_db_step(&store->db, statement, diag)) == 1) {
        struct bh_store_job job;
        bh_job_row_read(statement, &job);
        result = visit(user, &job);
        if (result < 0)
            break;
    }
    sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

int bh_store_job_counts(struct bh_store *store, uint64_t ret_counts[static 6])
{
    uint64_t counts[6] = {0};
    sqlite3_stmt *statement;
    int result = bh_db_bind(&store->db, BH_STORE_SQL_JOB_COUNTS, &statement, NULL, "");

    if (result < 0)
        return result;
    while ((result = bh_db_step(&store->db, statement, NULL)) == 1) {
        int64_t state = sqlite3_column_int64(statement, 0);
        if (state >= 0 && state < 6)
            counts[state] = (uint64_t)sqlite3_column_int64(statement, 1);
    }
    if (result < 0)
        return result;
    memcpy(ret_counts, counts, sizeof counts);
    return 0;
}

int bh_store_job_delete(struct bh_store *store, const char *id, struct bh_diag *diag)
{
    int result = bh_store_durable(store, true, diag);

    if (result < 0)
        return result;
    result = bh_db_run(&store->db, BH_STORE_SQL_JOB_DELETE, diag, "t", id);
    (void)bh_store_durable(store, false, NULL);
    return changed(store, id, result, diag);
}
