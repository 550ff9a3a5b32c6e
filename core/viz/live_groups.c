#include "core/viz/live_groups.h"

#include <stdlib.h>

#include "core/viz/hash.h"

void bh_live_groups_begin(struct bh_live_groups *groups, const struct bh_dictionary *dictionary,
                          bool by_primitive)
{
    *groups = (struct bh_live_groups){.dictionary = dictionary, .by_primitive = by_primitive};
}

void bh_live_groups_done(struct bh_live_groups *groups)
{
    free(groups->rows);
    free(groups->pairs);
    free(groups->row_index.slots);
    free(groups->pair_index.slots);
}

/* ---- index ---- */

/* items: an array of structs of `size` bytes whose first member is the u64 key. */
static uint64_t key_at(const void *items, size_t size, uint32_t at)
{
    return *(const uint64_t *)(const void *)((const char *)items + at * size);
}

static int index_reserve(struct bh_live_index *index, const void *items, size_t size,
                         uint32_t count)
{
    if (index->slots && count < index->mask / 2)
        return BH_OK;
    uint32_t wanted = index->slots ? (index->mask + 1) * 2 : 256;
    uint32_t *slots = calloc(wanted, sizeof *slots);
    if (!slots)
        return BH_E_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = bh_viz_hash(key_at(items, size, i)) & (wanted - 1);
        while (slots[at])
            at = (at + 1) & (wanted - 1);
        slots[at] = i + 1;
    }
    free(index->slots);
    index->slots = slots;
    index->mask = wanted - 1;
    return BH_OK;
}

/* The slot of a key: holds index + 1, or 0 when the key is new. */
static uint32_t *index_find(const struct bh_live_index *index, const void *items, size_t size,
                            uint64_t key)
{
    uint32_t at = bh_viz_hash(key) & index->mask;
    while (index->slots[at] && key_at(items, size, index->slots[at] - 1) != key)
        at = (at + 1) & index->mask;
    return &index->slots[at];
}

/* Room for one more item of `size` bytes. */
static int reserve(void **items, uint32_t *capacity, uint32_t count, size_t size)
{
    if (count < *capacity)
        return BH_OK;
    if (*capacity > UINT32_MAX / 4)
        return BH_E_NOMEM;
    uint32_t wanted = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*items, wanted * size);
    if (!grown)
        return BH_E_NOMEM;
    *items = grown;
    *capacity = wanted;
    return BH_OK;
}

/* ---- adding ---- */

static int find_row(struct bh_live_groups *groups, uint64_t key, struct bh_live_row **ret_row)
{
    int error =
        index_reserve(&groups->row_index, groups->rows, sizeof *groups->rows, groups->row_count);
    if (error >= 0)
        error = reserve((void **)&groups->rows, &groups->row_capacity, groups->row_count,
                        sizeof *groups->rows);
    if (error < 0)
        return error;
    uint32_t *slot = index_find(&groups->row_index, groups->rows, sizeof *groups->rows, key);
    if (!*slot) {
        groups->rows[groups->row_count] = (struct bh_live_row){.key = key};
        *slot = ++groups->row_count;
    }
    *ret_row = &groups->rows[*slot - 1];
    return BH_OK;
}

static int add_pair(struct bh_live_groups *groups, uint64_t key, uint64_t bytes)
{
    int error = index_reserve(&groups->pair_index, groups->pairs, sizeof *groups->pairs,
                              groups->pair_count);
    if (error >= 0)
        error = reserve((void **)&groups->pairs, &groups->pair_capacity, groups->pair_count,
                        sizeof *groups->pairs);
    if (error < 0)
        return error;
    uint32_t *slot = index_find(&groups->pair_index, groups->pairs, sizeof *groups->pairs, key);
    if (!*slot) {
        groups->pairs[groups->pair_count] = (struct bh_live_pair){.key = key};
        *slot = ++groups->pair_count;
    }
    groups->pairs[*slot - 1].bytes += bytes;
    return BH_OK;
}

static int add_buffer(struct bh_live_groups *groups, const struct bh_buffer *buffer,
                      enum bh_live_column column)
{
    uint32_t stack = bh_dictionary_stack_key(groups->dictionary, buffer->stack);
    uint32_t primitive = bh_dictionary_string_key(groups->dictionary, buffer->primitive);
    struct bh_live_row *row;
    int error = find_row(groups, groups->by_primitive ? primitive : stack, &row);
    if (error < 0)
        return error;
    row->bytes[column] += buffer->size_bytes;
    if (column != BH_LIVE_MAIN)
        return BH_OK;
    row->count++;
    return groups->by_primitive
               ? BH_OK
               : add_pair(groups, (uint64_t)stack << 32 | primitive, buffer->size_bytes);
}

int bh_live_groups_add(struct bh_live_groups *groups, const struct bh_replay *state,
                       enum bh_live_column column, bool ended_too)
{
    for (uint32_t i = 0; i < state->pool_used; i++) {
        const struct bh_buffer *buffer = &state->pool[i];
        if (buffer->state != BH_BUFFER_ACTIVE || (!ended_too && state->images[buffer->image].ended))
            continue;
        int error = add_buffer(groups, buffer, column);
        if (error < 0)
            return error;
    }
    return BH_OK;
}

/* ---- result ---- */

/* Largest first; equal ones in the order in which their names were defined. */
static int compare_rows(const void *left, const void *right)
{
    const struct bh_live_row *a = left, *b = right;
    if (a->bytes[BH_LIVE_MAIN] != b->bytes[BH_LIVE_MAIN])
        return a->bytes[BH_LIVE_MAIN] > b->bytes[BH_LIVE_MAIN] ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key;
}

static void choose_primitives(struct bh_live_groups *groups)
{
    for (uint32_t i = 0; i < groups->pair_count; i++) {
        const struct bh_live_pair *pair = &groups->pairs[i];
        uint32_t *slot =
            index_find(&groups->row_index, groups->rows, sizeof *groups->rows, pair->key >> 32);
        struct bh_live_row *row = &groups->rows[*slot - 1];
        if (pair->bytes > row->best_bytes) {
            row->best_bytes = pair->bytes;
            row->best_primitive = (uint32_t)pair->key;
        }
    }
}

static struct bh_live_group group_of(const struct bh_live_groups *groups,
                                     const struct bh_live_row *row)
{
    const uint64_t *at = row->bytes;
    return (struct bh_live_group){
        .stack = groups->by_primitive ? 0 : (uint32_t)row->key,
        .primitive = groups->by_primitive ? (uint32_t)row->key : row->best_primitive,
        .bytes = at[BH_LIVE_MAIN],
        .count = row->count,
        .growth_bytes = (int64_t)(at[BH_LIVE_MAIN] - at[BH_LIVE_SINCE]),
        .keeps_growing = at[BH_LIVE_QUARTER_1] > 0 &&
                         at[BH_LIVE_QUARTER_2] > at[BH_LIVE_QUARTER_1] &&
                         at[BH_LIVE_QUARTER_3] > at[BH_LIVE_QUARTER_2] &&
                         at[BH_LIVE_QUARTER_4] > at[BH_LIVE_QUARTER_3],
    };
}

int bh_live_groups_take(struct bh_live_groups *groups, struct bh_live *live)
{
    uint32_t top = live->query.top ? live->query.top : 100;
    choose_primitives(groups);
    if (groups->row_count)
        qsort(groups->rows, groups->row_count, sizeof *groups->rows, compare_rows);
    uint32_t kept = groups->row_count < top ? groups->row_count : top;
    live->groups = calloc(kept + 1, sizeof *live->groups);
    if (!live->groups)
        return BH_E_NOMEM;
    for (uint32_t i = 0; i < groups->row_count; i++) {
        struct bh_live_group group = group_of(groups, &groups->rows[i]);
        live->total_bytes += group.bytes;
        live->total_count += group.count;
        if (group.count && live->group_count < kept) {
            live->groups[live->group_count++] = group;
            continue;
        }
        /* beyond the top, or gone since the earlier instant */
        live->other_groups += group.count > 0;
        live->other.bytes += group.bytes;
        live->other.count += group.count;
        live->other.growth_bytes += group.growth_bytes;
    }
    return BH_OK;
}
