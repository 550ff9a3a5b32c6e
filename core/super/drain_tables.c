/* Tables of the drain: interned strings, frames and stacks, and the lists that translate a ring's
 * ids into the job's. Content is told apart by a 64-bit hash: a collision would have to be made on
 * purpose by the job, and would garble that job's own names. */
#include <stdlib.h>
#include <string.h>

#include "core/super/drain_parts.h"

#define MAP_MIN 256u

static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

uint64_t bh_drain_hash(uint64_t seed, const void *data, size_t length)
{
    const unsigned char *at = data;
    uint64_t hash = mix(seed + length);
    uint64_t word;

    for (; length >= 8; at += 8, length -= 8) {
        memcpy(&word, at, 8);
        hash = mix(hash ^ word) + 0x9e3779b97f4a7c15u;
    }
    word = 0;
    memcpy(&word, at, length);
    return mix(hash ^ word);
}

/* ---- map --------------------------------------------------------------------------- */

static size_t slot_of(const struct bh_drain_map *map, uint64_t key)
{
    size_t at = (size_t)mix(key) & map->mask;

    while (map->pairs[at].value != 0 && map->pairs[at].key != key) {
        at = (at + 1) & map->mask;
    }
    return at;
}

uint32_t bh_drain_map_get(const struct bh_drain_map *map, uint64_t key)
{
    return map->pairs == NULL ? 0 : map->pairs[slot_of(map, key)].value;
}

static int grow(struct bh_drain_map *map)
{
    struct bh_drain_map bigger = {0};
    size_t size = map->pairs == NULL ? MAP_MIN : (map->mask + 1) * 2;
    size_t at;

    bigger.pairs = calloc(size, sizeof(*bigger.pairs));
    if (bigger.pairs == NULL) {
        return BH_E_NOMEM;
    }
    bigger.mask = size - 1;
    bigger.count = map->count;
    for (at = 0; map->pairs != NULL && at <= map->mask; at++) {
        if (map->pairs[at].value != 0) {
            bigger.pairs[slot_of(&bigger, map->pairs[at].key)] = map->pairs[at];
        }
    }
    free(map->pairs);
    *map = bigger;
    return BH_OK;
}

int bh_drain_map_put(struct bh_drain_map *map, uint64_t key, uint32_t value)
{
    size_t at;

    if (map->pairs == NULL || map->count * 2 > map->mask) {
        int rc = grow(map);

        if (rc != BH_OK) {
            return rc;
        }
    }
    at = slot_of(map, key);
    map->count += map->pairs[at].value == 0;
    map->pairs[at].key = key;
    map->pairs[at].value = value;
    return BH_OK;
}

void bh_drain_map_done(struct bh_drain_map *map)
{
    free(map->pairs);
    *map = (struct bh_drain_map){0};
}

/* ---- ids --------------------------------------------------------------------------- */

enum {
    SEED_STRING = 1,
    SEED_FRAME = 2,
    SEED_STACK = 3,
};

static uint64_t frame_key(uint32_t file, uint32_t function, uint32_t line)
{
    uint32_t words[3] = {file, function, line};

    return bh_drain_hash(SEED_FRAME, words, sizeof(words));
}

static uint64_t stack_key(const uint32_t *frames, uint32_t count)
{
    return bh_drain_hash(SEED_STACK, frames, (size_t)count * sizeof(*frames));
}

/* The id of a key, or 0 and the next free one in *ret_id, entered into the map. */
static int find_or_enter(struct bh_drain_map *map, uint64_t key, uint32_t *next, bool *ret_new,
                         uint32_t *ret_id)
{
    uint32_t id = bh_drain_map_get(map, key);

    *ret_new = id == 0;
    if (id == 0) {
        int rc = *next == UINT32_MAX ? BH_E_RANGE : bh_drain_map_put(map, key, *next);

        if (rc != BH_OK) {
            return rc;
        }
        id = (*next)++;
    }
    *ret_id = id;
    return BH_OK;
}

int bh_drain_string(struct bh_drain_log *log, const char *bytes, size_t length, uint32_t *ret_id)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_STRING};
    bool is_new;
    int rc = find_or_enter(&log->ids.strings, bh_drain_hash(SEED_STRING, bytes, length),
                           &log->ids.next_string, &is_new, ret_id);

    if (rc != BH_OK || !is_new) {
        return rc;
    }
    record.id = *ret_id;
    record.string = bytes;
    record.string_length = length;
    return bh_drain_log_add(log, &record);
}

int bh_drain_frame(struct bh_drain_log *log, uint32_t file, uint32_t function, uint32_t line,
                   uint32_t *ret_id)
{
    struct bh_evlog_record record = {
        .kind = BH_EVLOG_FRAME, .file = file, .function = function, .line = line};
    bool is_new;
    int rc = find_or_enter(&log->ids.frames, frame_key(file, function, line), &log->ids.next_frame,
                           &is_new, ret_id);

    if (rc != BH_OK || !is_new) {
        return rc;
    }
    record.id = *ret_id;
    return bh_drain_log_add(log, &record);
}

int bh_drain_stack(struct bh_drain_log *log, const uint32_t *frames, uint32_t count,
                   uint32_t *ret_id)
{
    struct bh_evlog_record record = {
        .kind = BH_EVLOG_STACK, .frames = frames, .frame_count = count};
    bool is_new;
    int rc = find_or_enter(&log->ids.stacks, stack_key(frames, count), &log->ids.next_stack,
                           &is_new, ret_id);

    if (rc != BH_OK || !is_new) {
        return rc;
    }
    record.stack = *ret_id;
    return bh_drain_log_add(log, &record);
}

static int learn(struct bh_drain_map *map, uint64_t key, uint32_t id, uint32_t *next)
{
    if (id == 0 || id == UINT32_MAX) {
        return BH_E_MALFORMED;
    }
    if (id >= *next) {
        *next = id + 1;
    }
    return bh_drain_map_put(map, key, id);
}

int bh_drain_ids_learn(struct bh_drain_ids *ids, const struct bh_evlog_record *record)
{
    if (record->kind == BH_EVLOG_STRING) {
        return learn(&ids->strings,
                     bh_drain_hash(SEED_STRING, record->string, record->string_length), record->id,
                     &ids->next_string);
    }
    if (record->kind == BH_EVLOG_FRAME) {
        return learn(&ids->frames, frame_key(record->file, record->function, record->line),
                     record->id, &ids->next_frame);
    }
    if (record->kind == BH_EVLOG_STACK) {
        return learn(&ids->stacks, stack_key(record->frames, record->frame_count), record->stack,
                     &ids->next_stack);
    }
    return BH_OK;
}

void bh_drain_ids_done(struct bh_drain_ids *ids)
{
    bh_drain_map_done(&ids->strings);
    bh_drain_map_done(&ids->frames);
    bh_drain_map_done(&ids->stacks);
}

/* ---- lists ------------------------------------------------------------------------- */

int bh_drain_list_add(struct bh_drain_list *list, uint32_t id)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        uint32_t *ids = realloc(list->ids, (size_t)capacity * sizeof(*ids));

        if (ids == NULL) {
            return BH_E_NOMEM;
        }
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return BH_OK;
}

void bh_drain_list_done(struct bh_drain_list *list)
{
    free(list->ids);
    *list = (struct bh_drain_list){0};
}
