/* How much of the job's memory is the recorder's own rings: what the charge leaves out.
 *
 * The scribe counts rings too, but learns of a new one up to a drain's pause later, and meanwhile
 * its 24 MiB would look like the job's. So the decider looks into the ring folder itself (tmpfs:
 * nothing that can stall), again whenever the folder changed or a ring is being made. The scribe is
 * told of a change, and need not look itself all the time. No allocation. */
#ifndef BH_SUPER_RINGS_MAPPED_H
#define BH_SUPER_RINGS_MAPPED_H

#include <dirent.h>
#include <time.h>

#include "core/super/members.h"

struct bh_rings_mapped {
    DIR *dir;                /* NULL = nothing is recorded, or the folder could not be opened */
    struct timespec changed; /* of the folder, when last listed */
    bool settled;            /* no ring in the making, and every ring's process was a member */
    uint64_t bytes;          /* files of live members */
    uint64_t changes;        /* how often the folder was seen changed */
};

/* Before the launch: allocates. rings_fd is borrowed; -1 = nothing is recorded. */
void bh_rings_mapped_open(struct bh_rings_mapped *rings, int rings_fd);
void bh_rings_mapped_done(struct bh_rings_mapped *rings);

/* Bytes of the ring files that live members map; those of processes that are gone do not count.
 * 0 where nothing is recorded. */
uint64_t bh_rings_mapped_bytes(struct bh_rings_mapped *rings, struct bh_members *members);

#endif
