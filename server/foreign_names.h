/* Names of a foreign trace: strings, frames, stacks and process images to the ids of the event log.
 * New ones get the next id and are written as definitions. Ids are looked up by content. */
#ifndef BH_SERVER_FOREIGN_NAMES_H
#define BH_SERVER_FOREIGN_NAMES_H

#include "core/viz/source.h"
#include "server/foreign.h"

struct bh_foreign_names {
    struct bh_evlog_writer *writer; /* borrowed; where new definitions go */
    uint32_t next_string, next_frame, next_stack, next_image;
    struct bh_foreign_name *table; /* owned, open addressing */
    uint32_t mask, used;
    unsigned char *arena; /* owned: the keys */
    size_t arena_used, arena_size;
};

int bh_foreign_names_init(struct bh_foreign_names *names);
void bh_foreign_names_done(struct bh_foreign_names *names);
/* All definitions of an existing log. */
int bh_foreign_names_load(struct bh_foreign_names *names, const struct bh_trace_source *source);

/* The id, > 0, defined now when it is new. */
int bh_foreign_name_string(struct bh_foreign_names *names, const char *text, size_t length,
                           uint32_t *ret_id);
int bh_foreign_name_stack(struct bh_foreign_names *names, const struct bh_foreign_frame *frames,
                          size_t count, uint32_t *ret_id);
int bh_foreign_name_image(struct bh_foreign_names *names, int pid, uint32_t number,
                          struct bh_mono at, uint32_t *ret_id);

#endif
