/* What the server has to say to whoever looks at it, beyond the jobs: today, databases that were
 * damaged and moved aside. A notice stands as long as the old file lies in the state folder, across
 * restarts: removing it is the answer. Read once at the start, on the loop thread, served with
 * /v1/info. Names of files only, never paths. */
#ifndef BH_SERVER_NOTICES_H
#define BH_SERVER_NOTICES_H

#include "api/view.h"

#define BH_NOTICES_MAX 8

struct bh_notices {
    size_t count;
    struct bh_notice_view views[BH_NOTICES_MAX]; /* details point into texts: do not copy */
    char texts[BH_NOTICES_MAX][576];
};

/* Newest first; the oldest are left out where there are more. `aside` and `reason` are of the file
 * that was moved at this start, "" = none. Never fails: a folder that cannot be read has no
 * notices. */
void bh_notices_read(struct bh_notices *notices, int state_fd, const char *aside,
                     const char *reason);

#endif
