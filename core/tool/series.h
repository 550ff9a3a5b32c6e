/* The three series of a run directory, built in memory: by the same code as the server's. */
#ifndef BH_TOOL_SERIES_H
#define BH_TOOL_SERIES_H

#include "core/tool/facts.h"
#include "core/tool/tool.h"
#include "core/viz/ingest.h"

struct bh_tool_series {
    struct bh_level_memory *memory; /* owned */
    struct bh_level_store store;
    struct bh_series_summary summary[BH_SERIES_COUNT];
    struct bh_loss *losses; /* owned */
    size_t loss_count;
    struct bh_bytes loss_bytes;
    int64_t from_us, to_us; /* of the whole run; 0, 0 = nothing is known */
};

int bh_tool_series_build(const struct bh_tool_trace *trace, const struct bh_tool_facts *facts,
                         struct bh_tool_series *ret_series, struct bh_diag *diag);
void bh_tool_series_done(struct bh_tool_series *series);

#endif
