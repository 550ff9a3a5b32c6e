/* What is the database's own and not derived: idempotency keys, security events, small values. */
#include <string.h>

#include "server/store_internal.h"

#define DAY_US    (24ll * 3600 * 1000000)
#define MINUTE_US 60000000ll

/* ---- idempotency ------------------------------------------------------------------------------
 */

static int known_key(struct bh_store *store, sqlite3_stmt *statement,
                     const unsigned char *body_hash, struct bh_idempotency_row *ret_row,
                     struct bh_diag *diag)
{
    const void *hash = sqlite3_column_blob(statement, 0);
    int result = 0;

    (void)store;
    if (sqlite3_column_bytes(statement, 0) != 32 || memcmp(hash, body_hash, 32) != 0)
        result = bh_err_set(diag, BH_E_IDEMPOTENCY_MISMATCH, "Idempotency-Key",
                            "This key was used with another body; use a new key");
    else if (sqlite3_column_int(statement, 2) == 0)
        result = bh_err_set(diag, BH_E_IDEMPOTENCY_BUSY, "Idempotency-Key",
                            "The first request with this key is in progress; ask again");
    else
        result = bh_db_column_bytes(statement, 3, &ret_row->answer);
    if (result >= 0) {
        ret_row->status = sqlite3_column_int(statement, 2);
        bh_db_column_text(statement, 1, ret_row->job_id, sizeof ret_row->job_id);
    }
    sqlite3_reset(statement);
    return result < 0 ? result : (int)BH_IDEMPOTENCY_DONE;
}

static int begin_key(struct bh_store *store, const char *key, const unsigned char *body_hash,
                     const char *job_id, struct bh_wall now, struct bh_idempotency_row *ret_row,
                     struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_run(&store->db, BH_STORE_SQL_KEY_EXPIRE, diag, "i", now.us - DAY_US);

    if (result >= 0)
        result = bh_db_bind(&store->db, BH_STORE_SQL_KEY_GET, &statement, diag, "t", key);
    if (result >= 0)
        result = bh_db_step(&store->db, statement, diag);
    if (result < 0)
        return result;
    if (result == 1)
        return known_key(store, statement, body_hash, ret_row, diag);
    result = bh_db_run(&store->db, BH_STORE_SQL_KEY_INSERT, diag, "tbti", key, body_hash,
                       (size_t)32, job_id, now.us);
    return result < 0 ? result : (int)BH_IDEMPOTENCY_NEW;
}

int bh_store_idempotency_begin(struct bh_store *store, const char *key,
                               const unsigned char body_hash[static 32], const char *job_id,
                               struct bh_wall now, enum bh_idempotency *ret_state,
                               struct bh_idempotency_row *ret_row, struct bh_diag *diag)
{
    int result = bh_store_durable(store, true, diag);

    if (result >= 0)
        result = bh_db_begin(&store->db, true, diag);
    if (result >= 0)
        result = bh_db_end(&store->db, begin_key(store, key, body_hash, job_id, now, ret_row, diag),
                           diag);
    (void)bh_store_durable(store, false, NULL);
    if (result < 0)
        return result;
    *ret_state = (enum bh_idempotency)result;
    return 0;
}

int bh_store_idempotency_end(struct bh_store *store, const char *key, int status,
                             const void *answer, size_t length, struct bh_diag *diag)
{
    int result = bh_store_durable(store, true, diag);

    if (result >= 0)
        result =
            bh_db_run(&store->db, BH_STORE_SQL_KEY_END, diag, "tdb", key, status, answer, length);
    (void)bh_store_durable(store, false, NULL);
    if (result == 0)
        return bh_err_set(diag, BH_E_NOT_FOUND, NULL, "Unknown idempotency key");
    return result < 0 ? result : 0;
}

int bh_store_idempotency_drop(struct bh_store *store, const char *key, struct bh_diag *diag)
{
    int result = bh_db_run(&store->db, BH_STORE_SQL_KEY_DROP, diag, "t", key);
    return result < 0 ? result : 0;
}

int bh_store_idempotency_open(struct bh_store *store,
                              int (*visit)(void *user, const char *key, const char *job_id),
                              void *user, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&store->db, BH_STORE_SQL_KEY_OPEN, &statement, diag, "");

    if (result < 0)
        return result;
    while ((result = bh_db_step(&store->db, statement, diag)) == 1) {
        result = visit(user, (const char *)sqlite3_column_text(statement, 0),
                       (const char *)sqlite3_column_text(statement, 1));
        if (result < 0)
            break;
    }
    sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

/* ---- security events ----------------------------------------------------------------------------
 */

/* Whether this one is written; if not it is counted. */
static bool within_rate(struct bh_store *store, const struct bh_security_event *event)
{
    int64_t second = event->at.us / 1000000;

    if (second != store->security_second) {
        store->security_second = second;
        store->security_written = 0;
    }
    if (store->security_written < BH_STORE_SECURITY_RATE) {
        store->security_written++;
        return true;
    }
    store->security_counted += event->count ? event->count : 1;
    return false;
}

static int write_event(struct bh_store *store, const struct bh_security_event *event, int64_t count)
{
    sqlite3_stmt *statement;
    int64_t id;
    int result = bh_db_bind(&store->db, BH_STORE_SQL_SECURITY_LAST, &statement, NULL, "tti",
                            event->code, event->peer, event->at.us - MINUTE_US);

    if (result >= 0)
        result = bh_db_step(&store->db, statement, NULL);
    if (result < 0)
        return result;
    if (result == 1) {
        id = sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
        return bh_db_run(&store->db, BH_STORE_SQL_SECURITY_AGAIN, NULL, "iii", id, count,
                         event->at.us);
    }
    result = bh_db_run(&store->db, BH_STORE_SQL_SECURITY_ADD, NULL, "ittti", event->at.us,
                       event->code, event->peer, event->detail, count);
    if (result >= 0)
        result = bh_db_run(&store->db, BH_STORE_SQL_SECURITY_TRIM, NULL, "i",
                           (int64_t)BH_STORE_SECURITY_MAX);
    return result;
}

int bh_store_security_add(struct bh_store *store, const struct bh_security_event *event)
{
    uint64_t count = event->count ? event->count : 1;
    int result;

    if (!within_rate(store, event))
        return 0;
    result = write_event(store, event, (int64_t)(count + store->security_counted));
    if (result >= 0)
        store->security_counted = 0;
    return result < 0 ? result : 0;
}

int bh_store_security_list(struct bh_store *store, uint32_t limit,
                           int (*visit)(void *user, const struct bh_security_event *event),
                           void *user, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result =
        bh_db_bind(&store->db, BH_STORE_SQL_SECURITY_LIST, &statement, diag, "i", (int64_t)limit);

    if (result < 0)
        return result;
    while ((result = bh_db_step(&store->db, statement, diag)) == 1) {
        struct bh_security_event event = {0};
        event.at.us = sqlite3_column_int64(statement, 0);
        bh_db_column_text(statement, 1, event.code, sizeof event.code);
        bh_db_column_text(statement, 2, event.peer, sizeof event.peer);
        bh_db_column_text(statement, 3, event.detail, sizeof event.detail);
        event.count = (uint64_t)sqlite3_column_int64(statement, 4);
        result = visit(user, &event);
        if (result < 0)
            break;
    }
    sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

/* ---- small values ---- */

int bh_store_value_get(struct bh_store *store, const char *key, struct bh_bytes *ret_value)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&store->db, BH_STORE_SQL_VALUE_GET, &statement, NULL, "t", key);

    if (result >= 0)
        result = bh_db_step(&store->db, statement, NULL);
    if (result <= 0)
        return result < 0 ? result : BH_E_NOT_FOUND;
    result = bh_db_column_bytes(statement, 0, ret_value);
    sqlite3_reset(statement);
    return result;
}

int bh_store_value_set(struct bh_store *store, const char *key, const void *data, size_t length)
{
    int result = bh_db_run(&store->db, BH_STORE_SQL_VALUE_SET, NULL, "tb", key, data, length);
    return result < 0 ? result : 0;
}
