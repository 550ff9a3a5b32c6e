/* A live set as lines for people. */
#ifndef BH_VIZ_LIVE_TEXT_H
#define BH_VIZ_LIVE_TEXT_H

#include "core/viz/live.h"

/* "At the limit 1.02 GiB were active in 41 allocations:" and one line a group. */
void bh_live_text(struct bh_bytes *out, const struct bh_live *live,
                  const struct bh_dictionary *dictionary);

#endif
