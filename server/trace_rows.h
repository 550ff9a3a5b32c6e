/* The trace tables as core/viz wants to see them: segments as a source, levels and keyframes as
 * stores. Works on the import's connection (restoring) and on a reader's (answering): both begin
 * their statement tables with trace_statements.def. A view (struct bh_trace_rows) is one job on one
 * connection; what it hands out is valid as long as it. */
#ifndef BH_SERVER_TRACE_ROWS_H
#define BH_SERVER_TRACE_ROWS_H

#include "core/viz/keyframe.h"
#include "core/viz/source.h"
#include "core/viz/timeline.h"
#include "server/db.h"

#define BH_STATEMENT(name, text) BH_TRACE_SQL_##name,
enum bh_trace_sql {
#include "server/trace_statements.def"
    BH_TRACE_SQL_COUNT, /* where the connection's own statements begin */
};
#undef BH_STATEMENT

/* Column reason of table loss. */
enum bh_loss_reason {
    BH_LOSS_EVENTS = 1,
    BH_LOSS_SAMPLES = 2,
    BH_LOSS_CLOCK = 3,
};

struct bh_trace_rows {
    struct bh_db *db; /* borrowed */
    int64_t key;
    uint64_t segments;       /* how many there are: the cut */
    sqlite3_stmt *statement; /* of the pass under way */
    struct bh_trace_source source;
};

void bh_trace_rows_init(struct bh_trace_rows *rows, struct bh_db *db, int64_t key, const char *id,
                        struct bh_anchor anchor, uint64_t segments);
/* put is NULL. */
struct bh_level_store bh_trace_rows_levels(struct bh_trace_rows *rows);
struct bh_keyframe_store bh_trace_rows_keyframes(struct bh_trace_rows *rows);
/* Ends the pass under way, so that its snapshot can go. */
void bh_trace_rows_done(struct bh_trace_rows *rows);

#endif
