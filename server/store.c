#include "server/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/store_internal.h"
#include "server/store_place.h"
#include "server/store_schema.h"

#define BH_STATEMENT(name, text) [BH_STORE_SQL_##name] = text,
static const char *const texts[] = {
#include "server/store_statements.def"
};
#undef BH_STATEMENT

/* 0600 before SQLite makes it 0644, and WAL and shared memory take the mode of the database. */
static int make_file(const char *file, bool *ret_created, struct bh_diag *diag)
{
    int fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 && errno == EEXIST) {
        *ret_created = false;
        return 0;
    }
    if (fd < 0)
        return bh_err_sys(diag, errno, "The database cannot be made");
    (void)close(fd);
    *ret_created = true;
    return 0;
}

static int set_aside_if_damaged(const char *file, struct bh_store_start *start,
                                struct bh_diag *diag)
{
    struct bh_diag why = {0};
    int error = bh_store_quick_check(file, BH_STORE_CHECK_ALL, &why);

    if (error != BH_E_MALFORMED) {
        if (error < 0 && diag)
            *diag = why;
        return error < 0 ? error : 0;
    }
    error = bh_store_move_aside(file, bh_clock_wall(), start->aside, sizeof start->aside, diag);
    if (error < 0)
        return error;
    start->moved_aside = true;
    snprintf(start->reason, sizeof start->reason, "%s", why.detail);
    return 0;
}

static int open_database(struct bh_store *store, bool reindex, struct bh_store_start *start,
                         struct bh_diag *diag)
{
    int before = 0;
    int error = set_aside_if_damaged(store->path, start, diag);

    if (error >= 0)
        error = make_file(store->path, &start->created, diag);
    if (error >= 0)
        error = bh_db_open(store->path, BH_DB_CREATE, texts, BH_STORE_SQL_COUNT, &store->db, diag);
    if (error < 0)
        return error;
    /* the page size counts only before the first table: 8 KiB costs less per 64 KiB segment */
    error = bh_db_exec(
        &store->db,
        "PRAGMA page_size=8192; PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL;", diag);
    if (error >= 0)
        error = bh_store_schema_migrate(&store->db, &before, diag);
    if (error >= 0 && reindex)
        error = bh_store_schema_clear(&store->db, diag);
    if (error >= 0)
        error = bh_db_exec(&store->db, bh_job_row_view, diag);
    start->needs_reindex = before == 0 || reindex;
    return error < 0 ? error : 0;
}

int bh_store_open(const char *state_path, bool reindex, struct bh_store **ret_store,
                  struct bh_store_start *ret_start, struct bh_diag *diag)
{
    struct bh_store_start start = {0};
    struct bh_store *store;
    int error = bh_store_place_check(state_path, diag);

    if (error < 0)
        return error;
    store = calloc(1, sizeof *store);
    if (!store || asprintf(&store->path, "%s/%s", state_path, BH_STORE_FILE_NAME) < 0) {
        free(store);
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    }
    error = open_database(store, reindex, &start, diag);
    if (error < 0) {
        bh_store_close(store);
        return error;
    }
    *ret_store = store;
    *ret_start = start;
    return 0;
}

void bh_store_close(struct bh_store *store)
{
    if (!store)
        return;
    if (store->db.handle)
        bh_db_close(&store->db);
    free(store->path);
    free(store);
}

const char *bh_store_path_peek(const struct bh_store *store)
{
    return store->path;
}

uint64_t bh_store_bytes(const struct bh_store *store)
{
    static const char *const suffixes[] = {"", "-wal"};
    uint64_t total = 0;

    for (size_t i = 0; i < 2; i++) {
        char file[4200];
        struct stat info;
        snprintf(file, sizeof file, "%s%s", store->path, suffixes[i]);
        /* stat never opens the file: opening and closing it would drop SQLite's locks */
        if (stat(file, &info) == 0)
            total += (uint64_t)info.st_size;
    }
    return total;
}

int bh_store_durable(struct bh_store *store, bool on, struct bh_diag *diag)
{
    return bh_db_exec(&store->db, on ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
                      diag);
}

int bh_store_key(struct bh_store *store, const char *id, int64_t *ret_key,
                 enum bh_job_state *ret_state, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&store->db, BH_STORE_SQL_JOB_KEY, &statement, diag, "t", id);

    if (result >= 0)
        result = bh_db_step(&store->db, statement, diag);
    if (result < 0)
        return result;
    if (result == 0)
        return bh_err_set(diag, BH_E_NOT_FOUND, "id", "There is no job with this id");
    *ret_key = sqlite3_column_int64(statement, 0);
    *ret_state = (enum bh_job_state)sqlite3_column_int(statement, 1);
    sqlite3_reset(statement);
    return 0;
}
