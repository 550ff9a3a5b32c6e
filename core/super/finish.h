/* The end of a run, in the scribe and in adopt: what must be said when the decider cannot say it
 * any more, the last drain, and the report by rename. May block, may allocate. */
#ifndef BH_SUPER_FINISH_H
#define BH_SUPER_FINISH_H

#include "core/model/report.h"
#include "core/super/drain.h"
#include "core/super/reclaim.h"
#include "core/super/store.h"

/* Stops what a lost decider left and adds EMPTY and OUTCOME in its place; nothing when OUTCOME lies
 * in the journal already. reboot: the boot id changed, so that nothing of the tree can be alive. */
void bh_finish_lost(struct bh_store *store, const struct bh_job_spec *spec,
                    const struct bh_queue_member *members, size_t count, bool reboot);

/* Ends the drain (NULL: nothing was recorded), adds the last RECORDER record, closes the span,
 * syncs the journal and puts the report in place. BH_OK, or why there is no report: the store's
 * error or BH_E_REPORT_SUPPRESSED. ret_facts: for the readings afterwards. */
int bh_finish_run(struct bh_store *store, struct bh_drain *drain,
                  struct bh_reclaim_facts *ret_facts, struct bh_diag *diag);

/* Folds the valid prefix of journal.bhj in run_fd. ret_report: the caller's to free. */
int bh_finish_fold(int run_fd, struct bh_report **ret_report, struct bh_diag *diag);

/* Validates, renders and puts report.json in place in target_fd (the run directory or another one).
 * Nothing is written when validation refuses it. */
int bh_finish_report(int run_fd, int target_fd, struct bh_diag *diag);

/* The outcome sentence of a finished run, for the last line of `run`, with peak and limit.
 * BH_E_NOT_FOUND: the journal does not say how it ended. */
int bh_finish_sentence(int run_fd, char *ret_text, size_t size, struct bh_diag *diag);

#endif
