/* Retention: which finished jobs go (default 200 finished jobs, 30 days, 10 GiB with both copies
 * counted, oldest first). Runs on the loop thread, a few times an hour and after a job ended; it
 * only marks (bh_store_job_delete), the pool removes (bh_import_purge). Running jobs never count
 * and never go. Unknown sizes count as 0. */
#ifndef BH_SERVER_RETENTION_H
#define BH_SERVER_RETENTION_H

#include "server/store.h"

struct bh_retention {
    uint32_t max_jobs;   /* finished ones; 0 = no bound, as for the others */
    uint64_t max_age_us; /* since the end */
    uint64_t max_bytes;  /* database rows and run directories of finished jobs together */
};
#define BH_RETENTION_DEFAULT ((struct bh_retention){200, 30ull * 24 * 3600 * 1000000, 10ull << 30})

/* Marks what has to go at `now`; *ret_marked is how many. */
int bh_retention_run(struct bh_store *store, const struct bh_retention *retention,
                     struct bh_wall now, uint32_t *ret_marked, struct bh_diag *diag);

#endif
