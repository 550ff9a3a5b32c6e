/* The life of one supervised run in this process, the same for `run` and `start`: queue, helpers,
 * launch, loop, the wait for the report. super.h lists the order. */
#ifndef BH_SUPER_SUPERVISE_H
#define BH_SUPER_SUPERVISE_H

#include "core/super/loop.h"

struct bh_supervise {
    struct bh_run *run;
    const struct bh_platform *os;
    char *const *own_environment;
    void (*tap)(void *context, const struct bh_record *record); /* may be NULL */
    void *tap_context;
    /* Called once: the job runs (BH_OK) or could not be launched. May be NULL. */
    void (*verdict)(void *context, int result, const struct bh_diag *diag);
    void *verdict_context;
};

struct bh_supervise_end {
    struct bh_record_outcome outcome;
    int artifact_error; /* enum bh_error, 0 none */
    int exit_code;      /* with the precedence of core/model/report.md, section 4 */
};

/* The run has its directory, lock and spec. Returns BH_OK when a run took place (also one that
 * could not be launched: the outcome says so), or an error before anything was begun. */
int bh_supervise_run(const struct bh_supervise *supervise, struct bh_supervise_end *ret_end,
                     struct bh_diag *diag);

#endif
