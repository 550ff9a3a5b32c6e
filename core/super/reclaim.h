/* Whether the machine got its memory back (supervision.md, section 7). Verdict and arithmetic are
 * pure; bh_reclaim_watch is the scribe's last duty: it sleeps until 2 s and 10 s after the end,
 * reads the host's memory and writes reclamation.json each time. Never for a temporary run. */
#ifndef BH_SUPER_RECLAIM_H
#define BH_SUPER_RECLAIM_H

#include "core/super/super.h"

struct bh_reclaim_facts {
    struct bh_observed before_bytes; /* available memory before launch: HOST record */
    struct bh_observed end_bytes;    /* last ADVISORY record */
    struct bh_observed peak_bytes;   /* the job's peak charge: OUTCOME */
    struct bh_mono ended_at;         /* of EMPTY */
};

enum bh_reclaim_verdict {
    BH_RECLAIM_UNKNOWN = 0,
    BH_RECLAIM_RECLAIMED = 1, /* at least 90 % of the peak came back, or within noise of before */
    BH_RECLAIM_PARTLY = 2,    /* at least half */
    BH_RECLAIM_STRANDED = 3,
};
const char *bh_reclaim_verdict_text(enum bh_reclaim_verdict verdict);
/* Available memory is within noise of before when it is less than max(1 % of total, 64 MiB) below.
 * missing = before - now; came back = peak - missing. */
enum bh_reclaim_verdict bh_reclaim_judge(const struct bh_reclaim_facts *facts,
                                         struct bh_observed now_bytes, uint64_t total_bytes);
/* Returns after the second reading (a verdict that lacks a value is
 * `unknown`). Errors are the file's. */
int bh_reclaim_watch(const struct bh_run *run, const struct bh_reclaim_facts *facts);

#endif
