/* The tables of the database and their migrations: PRAGMA user_version counts the steps taken. A
 * step is never changed once released; a new one is appended. A database of a later version than
 * ours is refused (BH_E_VERSION) and left alone. */
#ifndef BH_SERVER_STORE_SCHEMA_H
#define BH_SERVER_STORE_SCHEMA_H

#include "server/db.h"

/* Brings the schema to the newest version, each step in a transaction; *ret_before is the version
 * found (0 = new file). */
int bh_store_schema_migrate(struct bh_db *db, int *ret_before, struct bh_diag *diag);
/* Removes every derived row (--reindex); keys and security events stay. */
int bh_store_schema_clear(struct bh_db *db, struct bh_diag *diag);
int bh_store_schema_version(void);

#endif
