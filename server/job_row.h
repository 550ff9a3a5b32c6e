/* struct bh_store_job to and from its row, for the store and the import. The list of columns is
 * job_columns.def; `job_row` is a temporary view of each connection that selects them in that order
 * from the jobs that are not deleted. */
#ifndef BH_SERVER_JOB_ROW_H
#define BH_SERVER_JOB_ROW_H

#include "server/db.h"
#include "server/store.h"

extern const char bh_job_row_view[];   /* "CREATE TEMP VIEW job_row AS SELECT … " */
extern const char bh_job_row_update[]; /* "UPDATE job SET … WHERE key=?", the fold's columns */

/* The row of a new job and its labels, in the caller's transaction; the spec is stored as
 * bh_spec_row_encode makes it. insert, label: indexes of the connection's statements with these
 * texts. */
#define BH_JOB_ROW_INSERT                                                                          \
    "INSERT INTO job(id,name,state,mode,external,created_us,limit_bytes,warning_bytes,"            \
    "recovery_bytes,emergency_bytes,spec) VALUES(?,?,0,?,?,?,?,?,?,?,?)"
#define BH_JOB_ROW_LABEL "INSERT INTO label(job,key,value) VALUES(?,?,?)"
int bh_job_row_insert(struct bh_db *db, size_t insert, size_t label, const struct bh_job_spec *spec,
                      struct bh_diag *diag);

void bh_job_row_read(sqlite3_stmt *statement, struct bh_store_job *ret_job);
/* Binds all parameters of bh_job_row_update. */
int bh_job_row_bind(struct bh_db *db, sqlite3_stmt *statement, const struct bh_store_job *job,
                    struct bh_diag *diag);

#endif
