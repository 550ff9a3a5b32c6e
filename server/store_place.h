/* Where a database may lie, and what happens to a damaged one. */
#ifndef BH_SERVER_STORE_PLACE_H
#define BH_SERVER_STORE_PLACE_H

#include "core/base/err.h"
#include "server/store.h"

/* BH_E_UNSUPPORTED, with the name of the file system, when path lies on a network file system. */
int bh_store_place_check(const char *path, struct bh_diag *diag);
/* The name of a file system's magic number when it is one on which locks and WAL do not work, else
 * NULL. */
const char *bh_store_place_refused(uint64_t magic);

/* quick_check of an existing database file: 0 sound or absent, BH_E_MALFORMED with the reason. It
 * reads every page: above BH_STORE_CHECK_ALL only the tables without large blobs are checked (the
 * blobs have checksums of their own), unless damage was met since the last start (BH_DB_SUSPECT).
 */
#define BH_STORE_CHECK_ALL (64u << 20)
int bh_store_quick_check(const char *file, uint64_t check_all_bytes, struct bh_diag *diag);
/* Renames the database to "<name>.damaged-<seconds>", its WAL likewise, and drops the shared-memory
 * file. ret_aside gets the new base name. */
int bh_store_move_aside(const char *file, struct bh_wall now, char *ret_aside, size_t size,
                        struct bh_diag *diag);

#endif
