/* Import: journal.bhj, events.bhe, report.json and reclamation.json of a run directory into SQLite,
 * step by step while the job runs, each step in one transaction with the file offsets it reached.
 * So a server killed at any instant neither loses nor doubles an event, and running a step again is
 * always right.
 *
 * One struct bh_import is one write connection with the running state (live buffers, sums) of the
 * jobs it works on. Any pool thread may use it, one at a time: the caller queues the next step when
 * the last one has come back. It never touches the loop's connection. Decoding happens outside of
 * the transaction, which lasts a few milliseconds.
 *
 * Failures leave the database as after the last step: BH_E_NOSPACE, BH_E_BUSY, BH_E_IO: try again
 * later; BH_E_MALFORMED, BH_E_CHECKSUM: the file is damaged from here on, what was before stays
 * (the step still completes the job when `ended`). */
#ifndef BH_SERVER_IMPORT_H
#define BH_SERVER_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/model/job.h"

struct bh_import;

int bh_import_open(const char *database_path, struct bh_import **ret_import, struct bh_diag *diag);
void bh_import_close(struct bh_import *import); /* NULL allowed */

struct bh_import_step {
    bool more;                 /* the budget was used up: call again */
    bool complete;             /* the job ended and all of it is in the database */
    uint64_t new_records;      /* of the journal, this step */
    uint64_t new_events;       /* of the recorder, this step */
    uint64_t journal_sequence; /* last one imported */
    uint64_t event_sequence;
};

/* One step for one job. dirfd: its run directory (borrowed), read only. ended: the lock is free (or
 * FINAL came and the files are closed), so nothing is written any more: take all, then the report,
 * and mark the job finished. budget_bytes bounds what is read (0 = BH_IMPORT_BUDGET). */
#define BH_IMPORT_BUDGET (1u << 20)
int bh_import_step(struct bh_import *import, const char *id, int dirfd, bool ended,
                   uint32_t budget_bytes, struct bh_import_step *ret_step, struct bh_diag *diag);
/* Only reclamation.json, which appears 10 s after the end; BH_E_NOT_FOUND while it is not there. */
int bh_import_reclamation(struct bh_import *import, const char *id, int dirfd,
                          struct bh_diag *diag);
/* Drops the running state kept for a job (it comes back from the database when needed). */
void bh_import_forget(struct bh_import *import, const char *id);

/* Removes what bh_store_job_delete marked: run directory first, then the rows in short
 * transactions; a kill in between is finished at the next call. jobs_fd: the folder of all run
 * directories. Call at start and after deletes; *ret_more as in a step. */
int bh_import_purge(struct bh_import *import, int jobs_fd, bool *ret_more, struct bh_diag *diag);

/* Rebuilds rows for every run directory below jobs_fd that the database does not know (the row from
 * spec.bin) and takes the steps of all whose import is not complete. Right at every start: with a
 * sound database it costs one look-up a directory. Long: run it on the pool; `visit` (may be NULL)
 * is called per job with its number and the total, < 0 stops. Jobs whose lock is held are imported
 * as far as they are and stay running; is_ended (may be NULL: then report.json or a complete
 * journal decides) tells. */
struct bh_reindex_result {
    uint32_t jobs, skipped; /* skipped: no readable spec.bin */
    uint64_t events;
};
int bh_reindex(struct bh_import *import, int jobs_fd, bool (*is_ended)(void *user, int dirfd),
               int (*visit)(void *user, const char *id, uint32_t number, uint32_t total),
               void *user, struct bh_reindex_result *ret_result, struct bh_diag *diag);

#endif
