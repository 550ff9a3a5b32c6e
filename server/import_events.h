/* The recorder's events in the import: segments of events.bhe as they are, and what core/viz makes
 * of them (levels, keyframes, losses, marks). Reading and decoding happen before the transaction,
 * storing in it. */
#ifndef BH_SERVER_IMPORT_EVENTS_H
#define BH_SERVER_IMPORT_EVENTS_H

#include "server/import_internal.h"

struct bh_import_segment {
    uint64_t number, first_sequence, last_sequence, lost;
    uint32_t offset, length;             /* in bytes */
    uint32_t names_offset, names_length; /* in names; length 0 = it defines nothing */
};

struct bh_import_events {
    struct bh_bytes bytes;    /* whole segments */
    struct bh_bytes names;    /* segments of definitions alone */
    struct bh_bytes segments; /* struct bh_import_segment each */
};

void bh_import_events_done(struct bh_import_events *events);
bool bh_import_events_any(const struct bh_import_events *events);

/* Reads whole segments of at most budget bytes (one at least), hands them to the job's ingest,
 * moves place and the row's event numbers. BH_E_CHECKSUM, MALFORMED, VERSION: damaged behind place;
 * what came before stays in ret_events. */
int bh_import_events_read(struct bh_import *import, struct bh_import_job *job, int dirfd,
                          uint32_t budget, struct bh_store_job *row, struct bh_import_place *place,
                          struct bh_import_events *ret_events, bool *ret_more,
                          struct bh_diag *diag);
int bh_import_events_store(struct bh_import *import, const struct bh_import_job *job,
                           const struct bh_import_events *events, struct bh_diag *diag);
/* The running state of a job whose first place->segments are stored already. */
int bh_import_events_restore(struct bh_import *import, struct bh_import_job *job,
                             struct bh_diag *diag);

#endif
