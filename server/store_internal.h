/* What the files of the store share. */
#ifndef BH_SERVER_STORE_INTERNAL_H
#define BH_SERVER_STORE_INTERNAL_H

#include "server/db.h"
#include "server/job_row.h"
#include "server/store.h"

#define BH_STATEMENT(name, text) BH_STORE_SQL_##name,
enum bh_store_sql {
#include "server/store_statements.def"
    BH_STORE_SQL_COUNT,
};
#undef BH_STATEMENT

struct bh_store {
    struct bh_db db;
    char *path; /* owned */
    /* security events of the second at hand: written, and only counted */
    int64_t security_second;
    uint32_t security_written;
    uint64_t security_counted;
};

/* Commits of the next transaction wait for the disk (true), or not. */
int bh_store_durable(struct bh_store *store, bool on, struct bh_diag *diag);
/* Row key and state of a job that is not deleted; NOT_FOUND. */
int bh_store_key(struct bh_store *store, const char *id, int64_t *ret_key,
                 enum bh_job_state *ret_state, struct bh_diag *diag);

#endif
