/* A store of levels in memory. */
#include <stdlib.h>
#include <string.h>

#include "core/viz/timeline.h"

struct shelf { /* blobs of one series and level, by index */
    struct bh_bytes *blobs;
    uint64_t count;
};

#define SHELVES (BH_LEVEL_MAX + 2u) /* the last one: the root */

struct bh_level_memory {
    struct shelf shelves[BH_SERIES_COUNT][SHELVES];
};

int bh_level_memory_new(struct bh_level_memory **ret_memory)
{
    struct bh_level_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return BH_E_NOMEM;
    *ret_memory = memory;
    return BH_OK;
}

void bh_level_memory_free(struct bh_level_memory *memory)
{
    if (!memory)
        return;
    for (unsigned series = 0; series < BH_SERIES_COUNT; series++) {
        for (unsigned level = 0; level < SHELVES; level++) {
            struct shelf *shelf = &memory->shelves[series][level];
            for (uint64_t i = 0; i < shelf->count; i++)
                bh_bytes_done(&shelf->blobs[i]);
            free(shelf->blobs);
        }
    }
    free(memory);
}

static struct shelf *shelf_of(struct bh_level_memory *memory, unsigned series, unsigned level)
{
    if (level == BH_LEVEL_ROOT)
        level = SHELVES - 1;
    return series < BH_SERIES_COUNT && level < SHELVES ? &memory->shelves[series][level] : NULL;
}

static int put(void *context, unsigned series, unsigned level, uint64_t index, const void *data,
               size_t length)
{
    struct shelf *shelf = shelf_of(context, series, level);
    if (!shelf || index > shelf->count) /* chunks come in order */
        return BH_E_INVALID_VALUE;
    if (index == shelf->count) {
        if ((shelf->count & (shelf->count - 1)) == 0) { /* a power of two: double */
            uint64_t capacity = shelf->count ? shelf->count * 2 : 1;
            struct bh_bytes *grown = realloc(shelf->blobs, capacity * sizeof *grown);
            if (!grown)
                return BH_E_NOMEM;
            shelf->blobs = grown;
        }
        shelf->blobs[shelf->count++] = (struct bh_bytes){0};
    }
    bh_bytes_clear(&shelf->blobs[index]);
    bh_bytes_append(&shelf->blobs[index], data, length);
    return shelf->blobs[index].failed ? BH_E_NOMEM : BH_OK;
}

static int get(void *context, unsigned series, unsigned level, uint64_t index,
               struct bh_bytes *ret_bytes)
{
    const struct shelf *shelf = shelf_of(context, series, level);
    if (!shelf || index >= shelf->count)
        return BH_E_NOT_FOUND;
    bh_bytes_append(ret_bytes, shelf->blobs[index].data, shelf->blobs[index].length);
    return ret_bytes->failed ? BH_E_NOMEM : BH_OK;
}

struct bh_level_store bh_level_memory_store(struct bh_level_memory *memory)
{
    return (struct bh_level_store){.context = memory, .put = put, .get = get};
}

uint64_t bh_level_memory_bytes(const struct bh_level_memory *memory)
{
    uint64_t bytes = 0;
    for (unsigned series = 0; series < BH_SERIES_COUNT; series++) {
        for (unsigned level = 0; level < SHELVES; level++) {
            const struct shelf *shelf = &memory->shelves[series][level];
            for (uint64_t i = 0; i < shelf->count; i++)
                bytes += shelf->blobs[i].length;
        }
    }
    return bytes;
}
