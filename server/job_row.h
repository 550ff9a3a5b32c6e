/* struct bh_store_job to and from its row, for the store and the import. The list of columns is
 * job_columns.def; `job_row` is a temporary view of each connection that selects them in that order
 * from the jobs that are not deleted. */
#ifndef BH_SERVER_JOB_ROW_H
#define BH_SERVER_JOB_ROW_H

#include "server/db.h"
#include "server/store.h"

extern const char bh_job_row_view[];   /* "CREATE TEMP VIEW job_row AS SELECT … " */
extern const char bh_job_row_update[]; /* "UPDATE job SET … WHERE key=?", the fold's columns */

void bh_job_row_read(sqlite3_stmt *statement, struct bh_store_job *ret_job);
/* Binds all parameters of bh_job_row_update. */
int bh_job_row_bind(struct bh_db *db, sqlite3_stmt *statement, const struct bh_store_job *job,
                    struct bh_diag *diag);

#endif
