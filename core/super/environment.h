/* The job's environment (supervision.md, section 4), built before launch. */
#ifndef BH_SUPER_ENVIRONMENT_H
#define BH_SUPER_ENVIRONMENT_H

#include "core/super/super.h"

struct bh_environment {
    char **items; /* owned, NULL-terminated */
    size_t count;
};

/* Ours less BULKHEAD_*, MLX_GUARD_*, NOTIFY_SOCKET and LISTEN_*, plus the spec's, plus what the
 * recorder and the checkpoint channel need. own: NULL-terminated, usually environ. BH_E_NOMEM;
 * BH_E_INVALID_VALUE ("env") for names that only we may set. */
int bh_environment_build(const struct bh_run *run, char *const *own, bool checkpoint_channel,
                         struct bh_environment *ret_environment, struct bh_diag *diag);
void bh_environment_done(struct bh_environment *environment);
/* Value of a name, or NULL. */
const char *bh_environment_get(const struct bh_environment *environment, const char *name);

#endif
