/* The end of a run: stopping what a lost decider left, the report, and giving the lock up. Runs in
 * the scribe and in adopt; may block, may allocate. */
#ifndef BH_SUPER_FINISH_H
#define BH_SUPER_FINISH_H

#include "core/model/report.h"
#include "core/super/super.h"

/* Folds journal.bhj (the valid prefix) into a report: validates it, renders it and puts report.json
 * in place by rename. BH_E_REPORT_SUPPRESSED with a diag when validation refused it: nothing is
 * written then. Also the whole of `bulkhead-tool report rebuild` (into another directory). */
int bh_finish_report(int run_fd, int target_fd, struct bh_diag *diag);

/* Sentence, peak and limit of a finished run, for the last line of `run`: reads report data from the
 * journal. Text is cut at size. */
int bh_finish_sentence(int run_fd, char *ret_text, size_t size, struct bh_diag *diag);

#endif
