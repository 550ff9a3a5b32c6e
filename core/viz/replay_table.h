/* The tables under replay.h: the pool of buffers, found by (image, address), and those that wait
 * for a LINK, found by the sequence of their allocation. Used by replay.c alone. */
#ifndef BH_VIZ_REPLAY_TABLE_H
#define BH_VIZ_REPLAY_TABLE_H

#include "core/viz/replay.h"

/* A copy of *buffer into the pool and the address index; BH_E_NOMEM. */
int bh_replay_table_add(struct bh_replay *replay, const struct bh_buffer *buffer, uint32_t *ret_at);
/* Takes it out of all tables. */
void bh_replay_table_remove(struct bh_replay *replay, uint32_t at);
int bh_replay_table_await(struct bh_replay *replay, uint32_t at);   /* by its present sequence */
void bh_replay_table_settle(struct bh_replay *replay, uint32_t at); /* fine when it does not wait */

#endif
