/* The level table as a store that can be written, for the builders of core/viz. */
#include "server/import_internal.h"

static int put_level(void *context, unsigned series, unsigned level, uint64_t index,
                     const void *data, size_t length)
{
    struct bh_import_levels *levels = context;
    int result =
        bh_db_run(&levels->import->db, BH_IMPORT_SQL_LEVEL_PUT, levels->diag, "iiiib",
                  levels->rows.key, (int64_t)series, (int64_t)level, (int64_t)index, data, length);

    return result < 0 ? result : 0;
}

static int get_level(void *context, unsigned series, unsigned level, uint64_t index,
                     struct bh_bytes *ret_bytes)
{
    struct bh_import_levels *levels = context;
    struct bh_level_store rows = bh_trace_rows_levels(&levels->rows);

    return rows.get(rows.context, series, level, index, ret_bytes);
}

struct bh_level_store bh_import_levels(struct bh_import_levels *levels, struct bh_import *import,
                                       const struct bh_import_job *job, struct bh_diag *diag)
{
    *levels = (struct bh_import_levels){.import = import, .diag = diag};
    bh_trace_rows_init(&levels->rows, &import->db, job->row.key, job->row.id, job->row.anchor, 0);
    return (struct bh_level_store){.context = levels, .put = put_level, .get = get_level};
}
