/* What a run's journal says that a trace needs beside its events: limits, the moment the limit was
 * crossed, markers, charge samples. One pass; a run directory without journal gives nothing. */
#ifndef BH_TOOL_FACTS_H
#define BH_TOOL_FACTS_H

#include "core/model/record.h"
#include "core/viz/memviz.h"
#include "core/viz/timeline.h"

struct bh_tool_point {
    int64_t at_us;
    uint64_t value; /* BH_SERIES_UNKNOWN: no usable sample */
};

struct bh_tool_limits {
    int64_t at_us;
    uint64_t limit_bytes, warning_bytes, recovery_bytes, emergency_bytes;
};

struct bh_tool_facts {
    bool found; /* there is a journal */
    struct bh_anchor anchor;
    struct bh_tool_limits limits; /* in force at the end */
    bool limit_crossed;           /* the first time */
    int64_t crossed_us;
    uint64_t crossed_bytes;
    int64_t began_us, ended_us;        /* first and last record */
    struct bh_annotation *annotations; /* owned, by time; names lead into texts */
    size_t annotation_count;
    struct bh_tool_point *charge; /* owned, by time */
    size_t charge_count;
    struct bh_tool_limits *changes; /* owned: the limits in force from each time on */
    size_t change_count;
    struct bh_bytes texts, annotation_bytes, charge_bytes, change_bytes; /* where these lie */
};

int bh_tool_facts_read(int dirfd, struct bh_tool_facts *ret_facts, struct bh_diag *diag);
void bh_tool_facts_done(struct bh_tool_facts *facts);

#endif
