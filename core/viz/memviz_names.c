#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/viz/hash.h"
#include "core/viz/memviz_internal.h"

static const char *const FIXED[BH_NAMES] = {
    [BH_NAME_ACTION] = "action",
    [BH_NAME_ADDR] = "addr",
    [BH_NAME_SIZE] = "size",
    [BH_NAME_STREAM] = "stream",
    [BH_NAME_TIME_US] = "time_us",
    [BH_NAME_FRAMES] = "frames",
    [BH_NAME_CATEGORY] = "category",
    [BH_NAME_USER_METADATA] = "user_metadata",
    [BH_NAME_REQUESTED_SIZE] = "requested_size",
    [BH_NAME_UNKNOWN] = "unknown",
    [BH_NAME_PRIMITIVE] = "primitive",
    [BH_NAME_ALLOCATED_AT] = "allocated_at",
    [BH_NAME_FILENAME] = "filename",
    [BH_NAME_LINE] = "line",
    [BH_NAME_NAME] = "name",
    [BH_NAME_DEVICE] = "device",
    [BH_NAME_DEVICE_FREE] = "device_free",
    [BH_NAME_ADDRESS] = "address",
    [BH_NAME_TOTAL_SIZE] = "total_size",
    [BH_NAME_SEGMENT_TYPE] = "segment_type",
    [BH_NAME_ALLOCATED_SIZE] = "allocated_size",
    [BH_NAME_ACTIVE_SIZE] = "active_size",
    [BH_NAME_SEGMENT_POOL_ID] = "segment_pool_id",
    [BH_NAME_IS_EXPANDABLE] = "is_expandable",
    [BH_NAME_BLOCKS] = "blocks",
    [BH_NAME_STATE] = "state",
    [BH_NAME_ACTIVE_ALLOCATED] = "active_allocated",
    [BH_NAME_INACTIVE] = "inactive",
    [BH_NAME_LARGE] = "large",
    [BH_NAME_SMALL] = "small",
    [BH_NAME_STAGE] = "stage",
    [BH_NAME_START] = "START",
    [BH_NAME_END] = "END",
};

#define BH_VIZ_ENTRY(name, text) [BH_VIZ_ENTRY_##name] = (text),
static const char *const ENTRIES[BH_VIZ_ENTRIES] = {
#include "core/viz/actions.def"
};
#undef BH_VIZ_ENTRY

void bh_names_begin(struct bh_names *names, struct bh_pickle *pickle,
                    const struct bh_dictionary *dictionary)
{
    *names = (struct bh_names){.pickle = pickle, .dictionary = dictionary};
    for (size_t i = 0; i < BH_NAMES; i++)
        names->fixed[i] = BH_PICKLE_NO_MEMO;
    for (size_t i = 0; i < BH_VIZ_ENTRIES; i++)
        names->entries[i] = BH_PICKLE_NO_MEMO;
}

void bh_names_done(struct bh_names *names)
{
    free(names->strings.memo);
    free(names->frames.memo);
    free(names->stacks.memo);
    free(names->metadata);
}

static void shared_text(struct bh_pickle *pickle, uint32_t *memo, const char *text)
{
    if (*memo != BH_PICKLE_NO_MEMO) {
        bh_pickle_get(pickle, *memo);
        return;
    }
    bh_pickle_text(pickle, text, strlen(text));
    *memo = bh_pickle_memoize(pickle);
}

void bh_names_fixed(struct bh_names *names, enum bh_name name)
{
    shared_text(names->pickle, &names->fixed[name], FIXED[name]);
}

void bh_names_entry(struct bh_names *names, enum bh_viz_entry entry)
{
    shared_text(names->pickle, &names->entries[entry], ENTRIES[entry]);
}

/* The memo cell of an id; NULL when memory is out (the error is kept). */
static uint32_t *cell(struct bh_names *names, struct bh_memo_table *table, uint32_t id)
{
    if (id >= table->count) {
        uint32_t count = id < UINT32_MAX / 2 ? id * 2 + 64 : UINT32_MAX;
        uint32_t *grown = realloc(table->memo, count * sizeof *grown);
        if (!grown) {
            names->error = BH_E_NOMEM;
            return NULL;
        }
        memset(grown + table->count, 0, (count - table->count) * sizeof *grown);
        table->memo = grown;
        table->count = count;
    }
    return &table->memo[id];
}

void bh_names_string(struct bh_names *names, uint32_t string)
{
    uint32_t key = bh_dictionary_string_key(names->dictionary, string);
    uint32_t *memo = key ? cell(names, &names->strings, key) : NULL;
    if (!memo) {
        bh_names_fixed(names, BH_NAME_UNKNOWN);
        return;
    }
    if (*memo) {
        bh_pickle_get(names->pickle, *memo - 1);
        return;
    }
    struct bh_text text = bh_dictionary_string(names->dictionary, key);
    bh_pickle_text(names->pickle, text.bytes, text.length);
    *memo = bh_pickle_memoize(names->pickle) + 1;
}

static void put_frame(struct bh_names *names, uint32_t id)
{
    uint32_t *memo = cell(names, &names->frames, id);
    if (memo && *memo) {
        bh_pickle_get(names->pickle, *memo - 1);
        return;
    }
    struct bh_frame frame = bh_dictionary_frame(names->dictionary, id);
    bh_pickle_dict(names->pickle);
    bh_names_fixed(names, BH_NAME_FILENAME);
    bh_names_string(names, frame.file);
    bh_names_fixed(names, BH_NAME_LINE);
    bh_pickle_u64(names->pickle, frame.line);
    bh_names_fixed(names, BH_NAME_NAME);
    bh_names_string(names, frame.function);
    bh_pickle_end(names->pickle);
    if (memo)
        *memo = bh_pickle_memoize(names->pickle) + 1;
}

void bh_names_frames(struct bh_names *names, uint32_t stack)
{
    uint32_t key = bh_dictionary_stack_key(names->dictionary, stack), count;
    uint32_t *memo = key ? cell(names, &names->stacks, key) : NULL;
    if (memo && *memo) {
        bh_pickle_get(names->pickle, *memo - 1);
        return;
    }
    const uint32_t *frames = bh_dictionary_stack(names->dictionary, key, &count);
    bh_pickle_list(names->pickle);
    for (uint32_t i = 0; i < count; i++)
        put_frame(names, frames[i]);
    bh_pickle_end(names->pickle);
    if (memo)
        *memo = bh_pickle_memoize(names->pickle) + 1;
}

/* ---- metadata ---- */

static uint32_t metadata_slot(const struct bh_metadata_slot *slots, uint32_t mask, uint64_t key)
{
    uint32_t at = bh_viz_hash(key) & mask;
    while (slots[at].memo && slots[at].key != key)
        at = (at + 1) & mask;
    return at;
}

static struct bh_metadata_slot *metadata_cell(struct bh_names *names, uint64_t key)
{
    if (!names->metadata || names->metadata_used >= names->metadata_mask / 2) {
        uint32_t size = names->metadata ? (names->metadata_mask + 1) * 2 : 256;
        struct bh_metadata_slot *grown = calloc(size, sizeof *grown);
        if (!grown) {
            names->error = BH_E_NOMEM;
            return NULL;
        }
        for (uint32_t i = 0; names->metadata && i <= names->metadata_mask; i++) {
            if (names->metadata[i].memo)
                grown[metadata_slot(grown, size - 1, names->metadata[i].key)] = names->metadata[i];
        }
        free(names->metadata);
        names->metadata = grown;
        names->metadata_mask = size - 1;
    }
    return &names->metadata[metadata_slot(names->metadata, names->metadata_mask, key)];
}

static void put_place(struct bh_names *names, uint32_t stack)
{
    char text[2 * BH_EVLOG_STRING_BYTES * 3 + 32]; /* a wrong byte takes three as U+FFFD */
    uint32_t count;
    const uint32_t *frames = bh_dictionary_stack(names->dictionary, stack, &count);
    struct bh_frame frame = bh_dictionary_frame(names->dictionary, count ? frames[0] : 0);
    struct bh_text file = bh_dictionary_string(names->dictionary, frame.file);
    struct bh_text function = bh_dictionary_string(names->dictionary, frame.function);
    int length = snprintf(text, sizeof text, "%s:%u %s", file.bytes, frame.line, function.bytes);
    bh_names_fixed(names, BH_NAME_ALLOCATED_AT);
    bh_pickle_text(names->pickle, text, (size_t)length);
}

void bh_names_metadata(struct bh_names *names, uint32_t primitive, uint32_t stack)
{
    uint32_t primitive_key = bh_dictionary_string_key(names->dictionary, primitive);
    uint32_t stack_key = bh_dictionary_stack_key(names->dictionary, stack);
    uint64_t key = (uint64_t)primitive_key << 32 | stack_key;
    struct bh_metadata_slot *slot = metadata_cell(names, key);
    if (slot && slot->memo) {
        bh_pickle_get(names->pickle, slot->memo - 1);
        return;
    }
    bh_pickle_dict(names->pickle);
    bh_names_fixed(names, BH_NAME_PRIMITIVE);
    bh_names_string(names, primitive_key);
    if (stack_key)
        put_place(names, stack_key);
    bh_pickle_end(names->pickle);
    if (!slot)
        return;
    slot->key = key;
    slot->memo = bh_pickle_memoize(names->pickle) + 1;
    names->metadata_used++;
}
