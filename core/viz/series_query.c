/* Asking a series: one walk down the pyramid, in order of time. A node that lies in one cell is
 * taken as it is; one that a cell's border cuts is opened. So a query opens at most about one chunk
 * of points per cell. */
#include "core/viz/level.h"

struct query {
    const struct bh_level_store *store;
    unsigned series;
    int64_t from_us, to_us, width_us;
    uint32_t cells, cell; /* cell: the one being filled */
    bool begun;           /* the value carried in counts for cell 0 */
    uint64_t value;       /* that holds at present */
    uint64_t *min, *max;
};

uint32_t bh_timeline_cells(int64_t from_us, int64_t to_us, uint32_t points)
{
    uint64_t span = (uint64_t)to_us - (uint64_t)from_us;
    if (points == 0 || span == 0)
        return 1;
    return span < points ? (uint32_t)span : points;
}

static int64_t cell_width(int64_t from_us, int64_t to_us, uint32_t cells)
{
    uint64_t width = ((uint64_t)to_us - (uint64_t)from_us) / cells;
    return width == 0 ? 1 : width > INT64_MAX ? INT64_MAX : (int64_t)width;
}

int64_t bh_timeline_cell_us(int64_t from_us, int64_t to_us, uint32_t cells, uint32_t i)
{
    return (int64_t)((uint64_t)from_us + (uint64_t)cell_width(from_us, to_us, cells) * i);
}

static uint32_t cell_of(const struct query *query, int64_t at_us)
{
    uint64_t cell = ((uint64_t)at_us - (uint64_t)query->from_us) / (uint64_t)query->width_us;
    return cell < query->cells ? (uint32_t)cell : query->cells - 1;
}

static void fold(struct query *query, uint64_t min, uint64_t max)
{
    if (query->min[query->cell] == BH_SERIES_UNKNOWN) {
        query->min[query->cell] = min;
        query->max[query->cell] = max;
        return;
    }
    if (min < query->min[query->cell])
        query->min[query->cell] = min;
    if (max > query->max[query->cell])
        query->max[query->cell] = max;
}

/* Moves on to a cell; the value that holds counts for every cell it reaches into. */
static void advance(struct query *query, uint32_t cell)
{
    bool known = query->value != BH_SERIES_UNKNOWN;
    if (!query->begun && known)
        fold(query, query->value, query->value);
    query->begun = true;
    while (query->cell < cell) {
        query->cell++;
        if (known)
            fold(query, query->value, query->value);
    }
}

static void take_point(struct query *query, const struct bh_level_point *point)
{
    if (point->at_us >= query->from_us) {
        advance(query, cell_of(query, point->at_us));
        if (point->value != BH_SERIES_UNKNOWN)
            fold(query, point->value, point->value);
    }
    query->value = point->value;
}

/* Takes a node without looking inside, if that is enough. */
static bool take_node(struct query *query, const struct bh_level_node *node)
{
    if (node->last_us < query->from_us) {
        query->value = node->last;
        return true;
    }
    if (node->first_us < query->from_us || node->last_us > query->to_us ||
        cell_of(query, node->first_us) != cell_of(query, node->last_us))
        return false;
    advance(query, cell_of(query, node->first_us));
    if (node->min <= node->max)
        fold(query, node->min, node->max);
    query->value = node->last;
    return true;
}

static int take_block(struct query *query, const struct bh_level_chunk *chunk, uint32_t block)
{
    struct bh_level_point points[BH_LEVEL_BLOCK];
    int count = bh_level_chunk_points(chunk, block, points);
    for (int i = 0; i < count && points[i].at_us <= query->to_us; i++)
        take_point(query, &points[i]);
    return count < 0 ? count : BH_OK;
}

/* Depth is at most BH_LEVEL_MAX. */
static int take_chunk(struct query *query, unsigned level, uint64_t index)
{
    struct bh_bytes blob = {0};
    struct bh_level_chunk chunk;
    int error = query->store->get(query->store->context, query->series, level, index, &blob);
    if (error >= 0)
        error = bh_level_chunk_open(blob.data, blob.length, &chunk);
    else if (error == BH_E_NOT_FOUND)
        error = BH_E_TRUNCATED;
    if (error >= 0 && chunk.nodes != (level > 0))
        error = BH_E_MALFORMED;
    for (uint32_t i = 0; error >= 0 && i < chunk.blocks; i++) {
        struct bh_level_node node = bh_level_chunk_node(&chunk, i);
        if (node.first_us > query->to_us)
            break;
        if (take_node(query, &node))
            continue;
        error = level ? take_chunk(query, level - 1, index * BH_LEVEL_NODES + i)
                      : take_block(query, &chunk, i);
    }
    bh_bytes_done(&blob);
    return error < 0 ? error : BH_OK;
}

static int get_root(const struct bh_level_store *store, enum bh_series series,
                    struct bh_level_node *ret_all, uint32_t *ret_top)
{
    struct bh_bytes blob = {0};
    int error = store->get(store->context, (unsigned)series, BH_LEVEL_ROOT, 0, &blob);
    if (error >= 0)
        error = bh_level_root_decode(blob.data, blob.length, ret_all, ret_top);
    bh_bytes_done(&blob);
    return error;
}

int bh_series_summary(const struct bh_level_store *store, enum bh_series series,
                      struct bh_series_summary *ret_summary)
{
    struct bh_level_node all = {0};
    uint32_t top;
    int error = get_root(store, series, &all, &top);
    if (error < 0 && error != BH_E_NOT_FOUND)
        return error;
    *ret_summary = (struct bh_series_summary){
        .points = all.points,
        .first_us = all.first_us,
        .last_us = all.last_us,
        .last = all.last,
        .min = all.points ? all.min : UINT64_MAX,
        .max = all.max,
        .max_us = all.max_us,
    };
    return BH_OK;
}

int bh_series_query(const struct bh_level_store *store, enum bh_series series, int64_t from_us,
                    int64_t to_us, int64_t until_us, uint32_t cells, uint64_t *ret_min,
                    uint64_t *ret_max)
{
    if (from_us > to_us || cells == 0)
        return BH_E_BAD_QUERY;
    struct query query = {
        .store = store,
        .series = (unsigned)series,
        .from_us = from_us,
        .to_us = until_us < to_us ? until_us : to_us,
        .width_us = cell_width(from_us, to_us, cells),
        .cells = cells,
        .value = BH_SERIES_UNKNOWN,
        .min = ret_min,
        .max = ret_max,
    };
    for (uint32_t i = 0; i < cells; i++)
        ret_min[i] = ret_max[i] = BH_SERIES_UNKNOWN;
    if (query.to_us < from_us)
        return BH_OK;
    struct bh_level_node all;
    uint32_t top;
    int error = get_root(store, series, &all, &top);
    if (error == BH_E_NOT_FOUND)
        return BH_OK;
    if (error >= 0)
        error = take_chunk(&query, top, 0);
    if (error >= 0)
        advance(&query, cell_of(&query, query.to_us));
    return error;
}
