#include "server/foreign_names.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/crc32c.h"

struct bh_foreign_name {
    uint32_t hash, id; /* id 0 = free */
    size_t at;         /* of the key in the arena; its first byte is the kind */
    uint32_t length;
};

/* The four name spaces share a table: the key's first byte tells them apart. */
enum space { SPACE_STRING = 's', SPACE_FRAME = 'f', SPACE_STACK = 'k', SPACE_IMAGE = 'i' };

#define FIRST_SLOTS 1024u

int bh_foreign_names_init(struct bh_foreign_names *names)
{
    *names = (struct bh_foreign_names){
        .next_string = 1, .next_frame = 1, .next_stack = 1, .next_image = 1};
    names->table = calloc(FIRST_SLOTS, sizeof *names->table);
    names->mask = FIRST_SLOTS - 1;
    return names->table ? 0 : BH_E_NOMEM;
}

void bh_foreign_names_done(struct bh_foreign_names *names)
{
    free(names->table);
    free(names->arena);
    memset(names, 0, sizeof *names);
}

static bool equal(const struct bh_foreign_names *names, const struct bh_foreign_name *name,
                  uint32_t hash, enum space space, const void *key, size_t length)
{
    return name->hash == hash && name->length == length + 1 &&
           names->arena[name->at] == (unsigned char)space &&
           memcmp(names->arena + name->at + 1, key, length) == 0;
}

static struct bh_foreign_name *slot_of(struct bh_foreign_names *names, uint32_t hash,
                                       enum space space, const void *key, size_t length)
{
    uint32_t at = hash & names->mask;

    while (names->table[at].id && !equal(names, &names->table[at], hash, space, key, length))
        at = (at + 1) & names->mask;
    return &names->table[at];
}

static int grow_table(struct bh_foreign_names *names)
{
    uint32_t slots = (names->mask + 1) * 2;
    struct bh_foreign_name *table = calloc(slots, sizeof *table);

    if (!table)
        return BH_E_NOMEM;
    for (uint32_t i = 0; i <= names->mask; i++) {
        uint32_t at = names->table[i].hash & (slots - 1);
        if (!names->table[i].id)
            continue;
        while (table[at].id)
            at = (at + 1) & (slots - 1);
        table[at] = names->table[i];
    }
    free(names->table);
    names->table = table;
    names->mask = slots - 1;
    return 0;
}

static int keep_key(struct bh_foreign_names *names, enum space space, const void *key,
                    size_t length, size_t *ret_at)
{
    if (names->arena_used + length + 1 > names->arena_size) {
        size_t size = (names->arena_size + length + 1) * 2 + 4096;
        unsigned char *arena = realloc(names->arena, size);
        if (!arena)
            return BH_E_NOMEM;
        names->arena = arena;
        names->arena_size = size;
    }
    *ret_at = names->arena_used;
    names->arena[names->arena_used] = (unsigned char)space;
    if (length > 0)
        memcpy(names->arena + names->arena_used + 1, key, length);
    names->arena_used += length + 1;
    return 0;
}

static uint32_t hash_of(enum space space, const void *key, size_t length)
{
    return bh_crc32c((uint32_t)space, key, length) * 2654435761u;
}

/* 1 found, 0 put under next id (*next moves on), < 0. */
static int intern(struct bh_foreign_names *names, enum space space, const void *key, size_t length,
                  uint32_t *next, uint32_t *ret_id)
{
    uint32_t hash = hash_of(space, key, length);
    struct bh_foreign_name *name = slot_of(names, hash, space, key, length);
    size_t at = 0;
    int result;

    if (name->id) {
        *ret_id = name->id;
        return 1;
    }
    result = keep_key(names, space, key, length, &at);
    if (result < 0)
        return result;
    *name = (struct bh_foreign_name){hash, (*next)++, at, (uint32_t)length + 1};
    *ret_id = name->id;
    if (++names->used * 2 > names->mask)
        return grow_table(names);
    return 0;
}

/* ---- loading ---- */

static int load_one(struct bh_foreign_names *names, const struct bh_evlog_record *record)
{
    uint32_t words[3] = {record->file, record->function, record->line};
    uint32_t image[2] = {(uint32_t)record->pid, record->image_number}, id;
    uint32_t next;

    /* a log names each thing once: the id it has is the one to find again */
    if (record->kind == BH_EVLOG_STRING) {
        next = record->id;
        names->next_string = record->id + 1;
        return intern(names, SPACE_STRING, record->string, record->string_length, &next, &id);
    }
    if (record->kind == BH_EVLOG_FRAME) {
        next = record->id;
        names->next_frame = record->id + 1;
        return intern(names, SPACE_FRAME, words, sizeof words, &next, &id);
    }
    if (record->kind == BH_EVLOG_STACK) {
        next = record->stack;
        names->next_stack = record->stack + 1;
        return intern(names, SPACE_STACK, record->frames, record->frame_count * sizeof(uint32_t),
                      &next, &id);
    }
    if (record->kind != BH_EVLOG_IMAGE)
        return 0;
    next = record->image;
    names->next_image = record->image + 1;
    return intern(names, SPACE_IMAGE, image, sizeof image, &next, &id);
}

int bh_foreign_names_load(struct bh_foreign_names *names, const struct bh_trace_source *source)
{
    struct bh_trace_reader reader;
    struct bh_evlog_record record;
    int result = bh_trace_reader_begin(&reader, source, 0, true);

    while (result >= 0 && (result = bh_trace_reader_next(&reader, &record)) == 1)
        result = load_one(names, &record);
    return result < 0 ? result : 0;
}

/* ---- naming ---- */

int bh_foreign_name_string(struct bh_foreign_names *names, const char *text, size_t length,
                           uint32_t *ret_id)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_STRING};
    int result;

    if (length > BH_EVLOG_STRING_BYTES)
        length = BH_EVLOG_STRING_BYTES;
    result = intern(names, SPACE_STRING, text, length, &names->next_string, ret_id);
    if (result != 0)
        return result < 0 ? result : 0;
    record.id = *ret_id;
    record.string = text;
    record.string_length = length;
    return bh_evlog_writer_add(names->writer, &record);
}

static int name_frame(struct bh_foreign_names *names, const struct bh_foreign_frame *frame,
                      uint32_t *ret_id)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_FRAME, .line = frame->line};
    uint32_t words[3];
    int result = bh_foreign_name_string(names, frame->file, strlen(frame->file), &record.file);

    if (result >= 0)
        result = bh_foreign_name_string(names, frame->function, strlen(frame->function),
                                        &record.function);
    if (result < 0)
        return result;
    words[0] = record.file;
    words[1] = record.function;
    words[2] = record.line;
    result = intern(names, SPACE_FRAME, words, sizeof words, &names->next_frame, ret_id);
    if (result != 0)
        return result < 0 ? result : 0;
    record.id = *ret_id;
    return bh_evlog_writer_add(names->writer, &record);
}

int bh_foreign_name_stack(struct bh_foreign_names *names, const struct bh_foreign_frame *frames,
                          size_t count, uint32_t *ret_id)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_STACK};
    uint32_t ids[BH_EVLOG_MAX_DEPTH];
    size_t kept = count > BH_EVLOG_MAX_DEPTH ? BH_EVLOG_MAX_DEPTH : count;
    int result = 0;

    if (count == 0) {
        *ret_id = 0;
        return 0;
    }
    /* given outermost first, kept innermost first; of a deeper one the innermost stay */
    for (size_t i = 0; i < kept && result >= 0; i++)
        result = name_frame(names, &frames[count - 1 - i], &ids[i]);
    if (result < 0)
        return result;
    result = intern(names, SPACE_STACK, ids, kept * sizeof ids[0], &names->next_stack, ret_id);
    if (result != 0)
        return result < 0 ? result : 0;
    record.stack = *ret_id;
    record.frames = ids;
    record.frame_count = (uint32_t)kept;
    return bh_evlog_writer_add(names->writer, &record);
}

int bh_foreign_name_image(struct bh_foreign_names *names, int pid, uint32_t number,
                          struct bh_mono at, uint32_t *ret_id)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_IMAGE, .at = at};
    uint32_t key[2] = {(uint32_t)pid, number};
    int result = intern(names, SPACE_IMAGE, key, sizeof key, &names->next_image, ret_id);

    if (result != 0)
        return result < 0 ? result : 0;
    record.image = *ret_id;
    record.pid = pid;
    record.image_number = number;
    return bh_evlog_writer_add(names->writer, &record);
}
