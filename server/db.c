#include "server/db.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"

#define BUSY_TIMEOUT_MS 2000

/* Best effort: without the mark the next start checks less. */
static void mark_suspect(sqlite3 *handle)
{
    const char *file = handle ? sqlite3_db_filename(handle, "main") : NULL;
    char path[4200];
    int fd;

    if (!file || !file[0])
        return;
    snprintf(path, sizeof path, "%s" BH_DB_SUSPECT, file);
    fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)close(fd);
}

int bh_db_error(sqlite3 *handle, int code, const char *what, struct bh_diag *diag)
{
    char text[200];
    const char *message = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);

    bh_text_escape(message, strlen(message), text, sizeof text);
    switch (code & 0xff) {
    case SQLITE_FULL:
        return bh_err_set(diag, BH_E_NOSPACE, NULL, "The disk of the state folder is full (%s)",
                          what);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return bh_err_set(diag, BH_E_BUSY, NULL, "The database is in use (%s); try again", what);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        mark_suspect(handle);
        return bh_err_set(diag, BH_E_MALFORMED, NULL,
                          "The database is damaged (%s: %s); a restart rebuilds it", what, text);
    case SQLITE_CONSTRAINT:
        return bh_err_set(diag, BH_E_EXISTS, NULL, "It is in the database already (%s: %s)", what,
                          text);
    case SQLITE_NOMEM:
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory (%s)", what);
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
        return bh_err_set(diag, BH_E_PERMISSION, NULL, "The database cannot be opened (%s: %s)",
                          what, text);
    default:
        return bh_err_set(diag, BH_E_IO, NULL, "The database failed (%s: %s)", what, text);
    }
}

int bh_db_exec(struct bh_db *db, const char *sql, struct bh_diag *diag)
{
    int code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);

    if (code != SQLITE_OK)
        return bh_db_error(db->handle, code, "statement", diag);
    return 0;
}

/* The journal is set to WAL by the creating connection and stays in the file. The loop leaves the
 * checkpoints (tens of milliseconds after a burst) to the import's connection, which makes one
 * every 32 MiB (each waits for the disk twice); only a log of four times that, written while no job
 * runs, does it clear itself. */
static const char *const pragmas[] = {
    [BH_DB_CREATE] = "PRAGMA foreign_keys=ON; PRAGMA synchronous=NORMAL; PRAGMA trusted_schema=OFF;"
                     "PRAGMA wal_autocheckpoint=16384; PRAGMA cache_size=-1024;"
                     "PRAGMA journal_size_limit=67108864;",
    [BH_DB_WRITE] = "PRAGMA foreign_keys=ON; PRAGMA synchronous=NORMAL; PRAGMA trusted_schema=OFF;"
                    "PRAGMA wal_autocheckpoint=4096; PRAGMA cache_size=-2048;"
                    "PRAGMA journal_size_limit=67108864;",
    [BH_DB_READ] = "PRAGMA query_only=ON; PRAGMA trusted_schema=OFF; PRAGMA cache_size=-1024;",
};

int bh_db_open(const char *path, enum bh_db_mode mode, const char *const *texts, size_t count,
               struct bh_db *ret_db, struct bh_diag *diag)
{
    static const int flags[] = {
        [BH_DB_CREATE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
        [BH_DB_WRITE] = SQLITE_OPEN_READWRITE,
        [BH_DB_READ] = SQLITE_OPEN_READONLY,
    };
    struct bh_db db = {.texts = texts, .count = count};
    int code, error = 0;

    db.statements = calloc(count ? count : 1, sizeof *db.statements);
    if (!db.statements)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    code = sqlite3_open_v2(path, &db.handle, flags[mode] | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK) {
        error = bh_db_error(db.handle, code, "open", diag);
    } else {
        sqlite3_extended_result_codes(db.handle, 1);
        sqlite3_busy_timeout(db.handle, BUSY_TIMEOUT_MS);
        error = bh_db_exec(&db, pragmas[mode], diag);
    }
    if (error < 0) {
        bh_db_close(&db);
        return error;
    }
    *ret_db = db;
    return 0;
}

void bh_db_close(struct bh_db *db)
{
    for (size_t i = 0; i < db->count && db->statements; i++)
        sqlite3_finalize(db->statements[i]);
    free(db->statements);
    (void)sqlite3_close_v2(db->handle);
    memset(db, 0, sizeof *db);
}

static int take(struct bh_db *db, size_t index, sqlite3_stmt **ret_statement, struct bh_diag *diag)
{
    BH_BUG_ON(index >= db->count);
    if (!db->statements[index]) {
        int code = sqlite3_prepare_v3(db->handle, db->texts[index], -1, SQLITE_PREPARE_PERSISTENT,
                                      &db->statements[index], NULL);
        if (code != SQLITE_OK)
            return bh_db_error(db->handle, code, "prepare", diag);
    }
    sqlite3_reset(db->statements[index]);
    *ret_statement = db->statements[index];
    return 0;
}

static int bind_all(struct bh_db *db, sqlite3_stmt *statement, const char *format, va_list values,
                    struct bh_diag *diag)
{
    int code = SQLITE_OK, index = 1;

    for (const char *letter = format; *letter && code == SQLITE_OK; letter++, index++) {
        switch (*letter) {
        case 'i':
            code = sqlite3_bind_int64(statement, index, va_arg(values, int64_t));
            break;
        case 'd':
            code = sqlite3_bind_int(statement, index, va_arg(values, int));
            break;
        case 't':
            code = sqlite3_bind_text(statement, index, va_arg(values, const char *), -1,
                                     SQLITE_STATIC);
            break;
        case 'b': {
            const void *data = va_arg(values, const void *);
            size_t length = va_arg(values, size_t);
            /* a NULL pointer would bind null: an empty blob stays a blob */
            code = sqlite3_bind_blob64(statement, index, data ? data : "", length, SQLITE_STATIC);
            break;
        }
        case 'n':
            code = sqlite3_bind_null(statement, index);
            break;
        default:
            BH_BUG_ON(*letter);
        }
    }
    if (code != SQLITE_OK)
        return bh_db_error(db->handle, code, "bind", diag);
    return 0;
}

int bh_db_bind(struct bh_db *db, size_t index, sqlite3_stmt **ret_statement, struct bh_diag *diag,
               const char *format, ...)
{
    sqlite3_stmt *statement;
    va_list values;
    int error = take(db, index, &statement, diag);

    if (error < 0)
        return error;
    va_start(values, format);
    error = bind_all(db, statement, format, values, diag);
    va_end(values);
    if (error < 0)
        return error;
    *ret_statement = statement;
    return 0;
}

int bh_db_step(struct bh_db *db, sqlite3_stmt *statement, struct bh_diag *diag)
{
    int code = sqlite3_step(statement), error;

    if (code == SQLITE_ROW)
        return 1;
    if (code == SQLITE_DONE) {
        sqlite3_reset(statement);
        return 0;
    }
    error = bh_db_error(db->handle, code, "step", diag);
    sqlite3_reset(statement);
    return error;
}

int bh_db_run(struct bh_db *db, size_t index, struct bh_diag *diag, const char *format, ...)
{
    sqlite3_stmt *statement;
    va_list values;
    int result = take(db, index, &statement, diag);

    if (result < 0)
        return result;
    va_start(values, format);
    result = bind_all(db, statement, format, values, diag);
    va_end(values);
    if (result < 0)
        return result;
    result = bh_db_step(db, statement, diag);
    sqlite3_reset(statement);
    return result < 0 ? result : sqlite3_changes(db->handle);
}

int bh_db_begin(struct bh_db *db, bool write, struct bh_diag *diag)
{
    return bh_db_exec(db, write ? "BEGIN IMMEDIATE" : "BEGIN DEFERRED", diag);
}

int bh_db_end(struct bh_db *db, int result, struct bh_diag *diag)
{
    if (result >= 0) {
        int error = bh_db_exec(db, "COMMIT", diag);
        if (error >= 0)
            return result;
        result = error;
    }
    /* a failed statement may have rolled back by itself already (disk full, I/O) */
    if (!sqlite3_get_autocommit(db->handle))
        (void)sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

void bh_db_column_text(sqlite3_stmt *statement, int column, char *ret_text, size_t size)
{
    const unsigned char *text = sqlite3_column_text(statement, column);

    snprintf(ret_text, size, "%s", text ? (const char *)text : "");
}

int bh_db_column_bytes(sqlite3_stmt *statement, int column, struct bh_bytes *ret_bytes)
{
    const void *data = sqlite3_column_blob(statement, column);
    int length = sqlite3_column_bytes(statement, column);

    bh_bytes_append(ret_bytes, data, (size_t)length);
    return ret_bytes->failed ? BH_E_NOMEM : 0;
}
