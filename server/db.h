/* A thin layer over SQLite for the three kinds of connection of the server (store.h, import.h,
 * trace.h): opening with the same pragmas, statements prepared once from a table of texts, binding
 * by a format, SQLite's result codes as errors of errors.def. Nothing outside server/store*,
 * import*, trace* includes this. A connection is used by one thread at a time (opened NOMUTEX).
 *
 * Failures: NOSPACE (SQLITE_FULL), BUSY (locked for longer than the timeout), MALFORMED (CORRUPT,
 * NOTADB), EXISTS (a UNIQUE or PRIMARY KEY constraint), NOMEM, PERMISSION, IO for the rest. */
#ifndef BH_SERVER_DB_H
#define BH_SERVER_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/base/err.h"

struct bh_db {
    sqlite3 *handle;
    const char *const *texts; /* borrowed, static */
    size_t count;
    sqlite3_stmt **statements; /* prepared at first use, kept */
};

enum bh_db_mode {
    BH_DB_CREATE, /* the loop's connection: makes the file, never checkpoints by itself */
    BH_DB_WRITE,  /* the import's: checkpoints the WAL */
    BH_DB_READ,   /* the traces': read only */
};

int bh_db_open(const char *path, enum bh_db_mode mode, const char *const *texts, size_t count,
               struct bh_db *ret_db, struct bh_diag *diag);
void bh_db_close(struct bh_db *db);

/* Beside the database, empty: damage was met in use, the next start checks all of it. */
#define BH_DB_SUSPECT "-suspect"

/* Converts a result code of the connection; the diag names `what` was tried. */
int bh_db_error(sqlite3 *handle, int code, const char *what, struct bh_diag *diag);
/* One or several statements without results. */
int bh_db_exec(struct bh_db *db, const char *sql, struct bh_diag *diag);

/* Statement `index` of the table, reset, with values bound in order by the format, one letter a
 * value: i int64_t, d int, t const char * (NULL = null), b const void * and size_t, n null. */
int bh_db_bind(struct bh_db *db, size_t index, sqlite3_stmt **ret_statement, struct bh_diag *diag,
               const char *format, ...);
/* Binds and runs one without rows; returns the number of rows changed. */
int bh_db_run(struct bh_db *db, size_t index, struct bh_diag *diag, const char *format, ...);
/* Steps: 1 a row, 0 done (and reset). */
int bh_db_step(struct bh_db *db, sqlite3_stmt *statement, struct bh_diag *diag);

/* IMMEDIATE for writers, DEFERRED for a reader's snapshot. end: commits when result >= 0, else
 * rolls back; returns result, or the commit's failure. */
int bh_db_begin(struct bh_db *db, bool write, struct bh_diag *diag);
int bh_db_end(struct bh_db *db, int result, struct bh_diag *diag);

/* Column access. text: copied and cut, "" for null. */
void bh_db_column_text(sqlite3_stmt *statement, int column, char *ret_text, size_t size);
int bh_db_column_bytes(sqlite3_stmt *statement, int column, struct bh_bytes *ret_bytes);

#endif
