#include "server/store_place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/text.h"
#include "server/db.h"

/* Magic numbers of statfs(2) and linux/magic.h. fuse is refused because nobody can tell what is
 * behind it (sshfs and most cloud disks are). */
static const struct {
    uint64_t magic;
    const char *name;
} refused[] = {
    {0x6969, "nfs"},      {0x517b, "smb"},      {0xff534d42, "cifs"},   {0xfe534d42, "smb2"},
    {0x65735546, "fuse"}, {0x01021997, "9p"},   {0x00c36400, "ceph"},   {0x5346414f, "afs"},
    {0x6b414653, "kafs"}, {0x73757245, "coda"}, {0x0bd00bd0, "lustre"}, {0x7461636f, "ocfs2"},
    {0x01161970, "gfs2"}, {0x47504653, "gpfs"}, {0x19830326, "beegfs"},
};

const char *bh_store_place_refused(uint64_t magic)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (refused[i].magic == magic)
            return refused[i].name;
    }
    return NULL;
}

int bh_store_place_check(const char *path, struct bh_diag *diag)
{
    struct statfs info;
    const char *name;

    if (statfs(path, &info) < 0)
        return bh_err_sys(diag, errno, "The state folder cannot be examined");
    /* f_type is a signed word: cifs and smb2 have its top bit set */
    name = bh_store_place_refused((uint64_t)info.f_type & 0xffffffffu);
    if (name)
        return bh_err_set(diag, BH_E_UNSUPPORTED, "state",
                          "The state folder is on a network file system (%s), where file locks and "
                          "SQLite's write-ahead log are not reliable; choose a local one with "
                          "--state",
                          name);
    return 0;
}

/* Everything, or the tables whose rows are not large blobs with a checksum of their own. */
enum { CHECK_ALL, LIST_SMALL, CHECK_COUNT };
static const char *const check_texts[] = {
    [CHECK_ALL] = "PRAGMA quick_check(1)",
    [LIST_SMALL] = "SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%'"
                   " AND name NOT IN ('segment','level','keyframe')",
};

/* The verdict of a check: its one row. */
static int read_verdict(struct bh_db *db, sqlite3_stmt *statement, struct bh_diag *diag)
{
    char verdict[160], text[200];
    int result = bh_db_step(db, statement, diag);

    if (result <= 0)
        return result;
    bh_db_column_text(statement, 0, verdict, sizeof verdict);
    sqlite3_reset(statement);
    if (strcmp(verdict, "ok") == 0)
        return 0;
    return bh_err_set(diag, BH_E_MALFORMED, NULL, "The database is damaged: %s",
                      bh_text_escape(verdict, strlen(verdict), text, sizeof text));
}

static int check_all(struct bh_db *db, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(db, CHECK_ALL, &statement, diag, "");

    return result < 0 ? result : read_verdict(db, statement, diag);
}

static int check_table(struct bh_db *db, const char *table, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    char sql[128];
    int code, result;

    snprintf(sql, sizeof sql, "PRAGMA quick_check('%.64s')", table);
    code = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return bh_db_error(db->handle, code, "quick_check", diag);
    result = read_verdict(db, statement, diag);
    sqlite3_finalize(statement);
    return result;
}

static int check_small(struct bh_db *db, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(db, LIST_SMALL, &statement, diag, "");

    if (result < 0)
        return result;
    while ((result = bh_db_step(db, statement, diag)) == 1) {
        char table[65];
        bh_db_column_text(statement, 0, table, sizeof table);
        result = check_table(db, table, diag);
        if (result < 0)
            break;
    }
    sqlite3_reset(statement);
    return result;
}

static bool exists(const char *file, const char *suffix, uint64_t *ret_bytes)
{
    char path[4200];
    struct stat info;

    snprintf(path, sizeof path, "%s%s", file, suffix);
    if (stat(path, &info) < 0)
        return false;
    *ret_bytes = (uint64_t)info.st_size;
    return true;
}

int bh_store_quick_check(const char *file, uint64_t check_all_bytes, struct bh_diag *diag)
{
    uint64_t bytes = 0, marker;
    struct bh_db db;
    bool all;
    int result;

    if (!exists(file, "", &bytes) || bytes == 0)
        return 0;
    all = bytes <= check_all_bytes || exists(file, BH_DB_SUSPECT, &marker);
    /* not read-only: a WAL left by a kill must be recovered before the check */
    result = bh_db_open(file, BH_DB_WRITE, check_texts, CHECK_COUNT, &db, diag);
    if (result < 0)
        return result;
    result = all ? check_all(&db, diag) : check_small(&db, diag);
    bh_db_close(&db);
    if (result >= 0 && all) {
        char path[4200];
        snprintf(path, sizeof path, "%s" BH_DB_SUSPECT, file);
        (void)unlink(path);
    }
    return result;
}

static int rename_with(const char *file, const char *suffix, const char *aside)
{
    char from[4200], to[4200];

    snprintf(from, sizeof from, "%s%s", file, suffix);
    snprintf(to, sizeof to, "%.4000s%s", aside, suffix);
    if (rename(from, to) < 0 && errno != ENOENT)
        return -errno;
    return 0;
}

int bh_store_move_aside(const char *file, struct bh_wall now, char *ret_aside, size_t size,
                        struct bh_diag *diag)
{
    char aside[4096], shared[4200];
    int error;

    snprintf(aside, sizeof aside, "%s.damaged-%" PRId64, file, now.us / 1000000);
    error = rename_with(file, "", aside);
    if (error >= 0)
        error = rename_with(file, "-wal", aside);
    if (error < 0)
        return bh_err_sys(diag, -error, "The damaged database cannot be moved aside");
    snprintf(shared, sizeof shared, "%s-shm", file);
    (void)unlink(shared);
    snprintf(shared, sizeof shared, "%s" BH_DB_SUSPECT, file);
    (void)unlink(shared);
    snprintf(ret_aside, size, "%s", bh_text_basename(aside));
    return 0;
}
