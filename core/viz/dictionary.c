#include "core/viz/dictionary.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/crc32c.h"

struct string_entry {
    size_t offset; /* into text */
    uint32_t length;
    uint32_t key;
};

struct stack_entry {
    uint32_t offset; /* into frames */
    uint32_t count;
    uint32_t key;
};

/* Content -> lowest id, open addressing; ids are looked up to compare. */
struct index {
    uint32_t *slots; /* id, 0 = empty */
    uint32_t mask, used;
};

struct bh_dictionary {
    struct bh_bytes text;
    struct string_entry *strings; /* [id - 1] */
    uint32_t string_count, string_capacity;
    struct bh_frame *frames;
    uint32_t *frame_keys; /* lowest id with the same content */
    uint32_t frame_count, frame_capacity;
    uint32_t *stack_frames;
    uint32_t stack_frames_used, stack_frames_capacity;
    struct stack_entry *stacks;
    uint32_t stack_count, stack_capacity;
    struct bh_image *images;
    uint32_t image_count, image_capacity;
    struct index string_index, frame_index, stack_index;
};

int bh_dictionary_new(struct bh_dictionary **ret_dictionary)
{
    struct bh_dictionary *dictionary = calloc(1, sizeof *dictionary);
    if (!dictionary)
        return BH_E_NOMEM;
    *ret_dictionary = dictionary;
    return BH_OK;
}

void bh_dictionary_free(struct bh_dictionary *dictionary)
{
    if (!dictionary)
        return;
    bh_bytes_done(&dictionary->text);
    free(dictionary->strings);
    free(dictionary->frames);
    free(dictionary->frame_keys);
    free(dictionary->stack_frames);
    free(dictionary->stacks);
    free(dictionary->images);
    free(dictionary->string_index.slots);
    free(dictionary->frame_index.slots);
    free(dictionary->stack_index.slots);
    free(dictionary);
}

/* Room for `more` elements in an array of count. */
static int grow(void **array, uint32_t *capacity, uint32_t count, uint32_t more, size_t size)
{
    if (more <= *capacity - count)
        return BH_OK;
    if (count > UINT32_MAX / 4 - more)
        return BH_E_NOMEM;
    uint32_t wanted = *capacity ? *capacity * 2 : 64;
    while (wanted < count + more)
        wanted *= 2;
    void *grown = realloc(*array, wanted * size);
    if (!grown)
        return BH_E_NOMEM;
    *array = grown;
    *capacity = wanted;
    return BH_OK;
}

/* ---- content index ---- */

typedef bool same_content(const struct bh_dictionary *dictionary, uint32_t left, uint32_t right);
typedef uint32_t content_hash(const struct bh_dictionary *dictionary, uint32_t id);

static int rehash(const struct bh_dictionary *dictionary, struct index *index, content_hash *hash)
{
    uint32_t size = index->slots ? (index->mask + 1) * 2 : 256;
    uint32_t *slots = calloc(size, sizeof *slots);
    if (!slots)
        return BH_E_NOMEM;
    for (uint32_t i = 0; index->slots && i <= index->mask; i++) {
        if (!index->slots[i])
            continue;
        uint32_t at = hash(dictionary, index->slots[i]) & (size - 1);
        while (slots[at])
            at = (at + 1) & (size - 1);
        slots[at] = index->slots[i];
    }
    free(index->slots);
    index->slots = slots;
    index->mask = size - 1;
    return BH_OK;
}

/* The lowest id whose content is that of `id`, which is entered when it is the first. */
static int intern(const struct bh_dictionary *dictionary, struct index *index, uint32_t id,
                  content_hash *hash, same_content *same, uint32_t *ret_key)
{
    if (!index->slots || index->used >= index->mask / 2) {
        int error = rehash(dictionary, index, hash);
        if (error < 0)
            return error;
    }
    uint32_t at = hash(dictionary, id) & index->mask;
    while (index->slots[at]) {
        if (same(dictionary, index->slots[at], id)) {
            *ret_key = index->slots[at];
            return BH_OK;
        }
        at = (at + 1) & index->mask;
    }
    index->slots[at] = id;
    index->used++;
    *ret_key = id;
    return BH_OK;
}

static uint32_t string_hash(const struct bh_dictionary *dictionary, uint32_t id)
{
    const struct string_entry *entry = &dictionary->strings[id - 1];
    return bh_crc32c(0, dictionary->text.data + entry->offset, entry->length);
}

static bool string_same(const struct bh_dictionary *dictionary, uint32_t left, uint32_t right)
{
    struct bh_text a = bh_dictionary_string(dictionary, left);
    struct bh_text b = bh_dictionary_string(dictionary, right);
    return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}

static uint32_t frame_hash(const struct bh_dictionary *dictionary, uint32_t id)
{
    const struct bh_frame *frame = &dictionary->frames[id - 1];
    uint32_t words[] = {bh_dictionary_string_key(dictionary, frame->file),
                        bh_dictionary_string_key(dictionary, frame->function), frame->line};
    return bh_crc32c(0, words, sizeof words);
}

static bool frame_same(const struct bh_dictionary *dictionary, uint32_t left, uint32_t right)
{
    const struct bh_frame *a = &dictionary->frames[left - 1], *b = &dictionary->frames[right - 1];
    return a->line == b->line &&
           bh_dictionary_string_key(dictionary, a->file) ==
               bh_dictionary_string_key(dictionary, b->file) &&
           bh_dictionary_string_key(dictionary, a->function) ==
               bh_dictionary_string_key(dictionary, b->function);
}

static uint32_t stack_hash(const struct bh_dictionary *dictionary, uint32_t id)
{
    const struct stack_entry *entry = &dictionary->stacks[id - 1];
    uint32_t crc = 0;
    for (uint32_t i = 0; i < entry->count; i++) {
        uint32_t frame = dictionary->stack_frames[entry->offset + i];
        uint32_t key = frame ? dictionary->frame_keys[frame - 1] : 0;
        crc = bh_crc32c(crc, &key, sizeof key);
    }
    return crc;
}

static bool stack_same(const struct bh_dictionary *dictionary, uint32_t left, uint32_t right)
{
    const struct stack_entry *a = &dictionary->stacks[left - 1];
    const struct stack_entry *b = &dictionary->stacks[right - 1];
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t one = dictionary->stack_frames[a->offset + i];
        uint32_t two = dictionary->stack_frames[b->offset + i];
        if ((one ? dictionary->frame_keys[one - 1] : 0) !=
            (two ? dictionary->frame_keys[two - 1] : 0))
            return false;
    }
    return true;
}

/* ---- adding ---- */

/* Length of the valid UTF-8 character at text, 0 when it is none. */
static size_t character(const unsigned char *text, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = text[0];
    size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first == 0 || (first >= 0x80 && first < 0xc2) || first > 0xf4 || length > left)
        return 0;
    if (length == 1)
        return 1;
    uint32_t value = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (text[i] & 0x3fu);
    }
    bool surrogate = value >= 0xd800 && value < 0xe000;
    return value < least[length] || value > 0x10ffff || surrogate ? 0 : length;
}

static void append_utf8(struct bh_bytes *out, const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t plain = 0; /* start of the valid run not yet copied */
    for (size_t i = 0; i < length;) {
        size_t step = character(bytes + i, length - i);
        if (step) {
            i += step;
            continue;
        }
        bh_bytes_append(out, bytes + plain, i - plain);
        bh_bytes_append(out, "\xef\xbf\xbd", 3);
        plain = ++i;
    }
    bh_bytes_append(out, bytes + plain, length - plain);
    bh_bytes_append(out, "", 1);
}

static int add_string(struct bh_dictionary *dictionary, const struct bh_evlog_record *record)
{
    int error = grow((void **)&dictionary->strings, &dictionary->string_capacity,
                     dictionary->string_count, 1, sizeof *dictionary->strings);
    if (error < 0)
        return error;
    size_t offset = dictionary->text.length;
    append_utf8(&dictionary->text, record->string, record->string_length);
    if (dictionary->text.failed)
        return BH_E_NOMEM;
    struct string_entry *entry = &dictionary->strings[dictionary->string_count++];
    *entry = (struct string_entry){.offset = offset,
                                   .length = (uint32_t)(dictionary->text.length - offset - 1)};
    return intern(dictionary, &dictionary->string_index, record->id, string_hash, string_same,
                  &entry->key);
}

static int add_frame(struct bh_dictionary *dictionary, const struct bh_evlog_record *record)
{
    if (record->file > dictionary->string_count || record->function > dictionary->string_count)
        return BH_E_MALFORMED;
    uint32_t capacity = dictionary->frame_capacity;
    int error = grow((void **)&dictionary->frame_keys, &capacity, dictionary->frame_count, 1,
                     sizeof *dictionary->frame_keys);
    if (error >= 0)
        error = grow((void **)&dictionary->frames, &dictionary->frame_capacity,
                     dictionary->frame_count, 1, sizeof *dictionary->frames);
    if (error < 0)
        return error;
    dictionary->frames[dictionary->frame_count] =
        (struct bh_frame){.file = record->file, .function = record->function, .line = record->line};
    uint32_t *key = &dictionary->frame_keys[dictionary->frame_count++];
    return intern(dictionary, &dictionary->frame_index, record->id, frame_hash, frame_same, key);
}

static int add_stack(struct bh_dictionary *dictionary, const struct bh_evlog_record *record)
{
    for (uint32_t i = 0; i < record->frame_count; i++) {
        if (record->frames[i] == 0 || record->frames[i] > dictionary->frame_count)
            return BH_E_MALFORMED;
    }
    int error = grow((void **)&dictionary->stacks, &dictionary->stack_capacity,
                     dictionary->stack_count, 1, sizeof *dictionary->stacks);
    if (error >= 0)
        error = grow((void **)&dictionary->stack_frames, &dictionary->stack_frames_capacity,
                     dictionary->stack_frames_used, record->frame_count,
                     sizeof *dictionary->stack_frames);
    if (error < 0)
        return error;
    struct stack_entry *entry = &dictionary->stacks[dictionary->stack_count++];
    *entry =
        (struct stack_entry){.offset = dictionary->stack_frames_used, .count = record->frame_count};
    if (record->frame_count)
        memcpy(dictionary->stack_frames + entry->offset, record->frames,
               record->frame_count * sizeof *record->frames);
    dictionary->stack_frames_used += record->frame_count;
    return intern(dictionary, &dictionary->stack_index, record->stack, stack_hash, stack_same,
                  &entry->key);
}

static int add_image(struct bh_dictionary *dictionary, const struct bh_evlog_record *record)
{
    int error = grow((void **)&dictionary->images, &dictionary->image_capacity,
                     dictionary->image_count, 1, sizeof *dictionary->images);
    if (error < 0)
        return error;
    dictionary->images[dictionary->image_count++] = (struct bh_image){
        .id = record->image,
        .pid = record->pid,
        .start_token = record->start_token,
        .number = record->image_number,
        .mlx_version = record->text,
    };
    return BH_OK;
}

/* 1 = the next id, 0 = one that is there already, or BH_E_MALFORMED. */
static int check_id(uint32_t id, uint32_t count)
{
    if (id == 0 || id > count + 1)
        return BH_E_MALFORMED;
    return id == count + 1;
}

int bh_dictionary_add(struct bh_dictionary *dictionary, const struct bh_evlog_record *record)
{
    int fresh;
    if (record->kind == BH_EVLOG_STRING) {
        fresh = check_id(record->id, dictionary->string_count);
        return fresh > 0 ? add_string(dictionary, record) : fresh;
    }
    if (record->kind == BH_EVLOG_FRAME) {
        fresh = check_id(record->id, dictionary->frame_count);
        return fresh > 0 ? add_frame(dictionary, record) : fresh;
    }
    if (record->kind == BH_EVLOG_STACK) {
        fresh = check_id(record->stack, dictionary->stack_count);
        return fresh > 0 ? add_stack(dictionary, record) : fresh;
    }
    if (record->kind == BH_EVLOG_IMAGE) {
        fresh = check_id(record->image, dictionary->image_count);
        return fresh > 0 ? add_image(dictionary, record) : fresh;
    }
    return BH_OK;
}

int bh_dictionary_load(struct bh_dictionary *dictionary, const struct bh_trace_source *source)
{
    struct bh_trace_reader reader;
    struct bh_evlog_record record;
    int more = bh_trace_reader_begin(&reader, source, 0, true);
    while (more >= 0 && (more = bh_trace_reader_next(&reader, &record)) > 0)
        more = bh_dictionary_add(dictionary, &record);
    return more;
}

/* ---- asking ---- */

struct bh_text bh_dictionary_string(const struct bh_dictionary *dictionary, uint32_t id)
{
    if (id == 0 || id > dictionary->string_count)
        return (struct bh_text){"", 0};
    const struct string_entry *entry = &dictionary->strings[id - 1];
    return (struct bh_text){(const char *)dictionary->text.data + entry->offset, entry->length};
}

struct bh_frame bh_dictionary_frame(const struct bh_dictionary *dictionary, uint32_t id)
{
    if (id == 0 || id > dictionary->frame_count)
        return (struct bh_frame){0, 0, 0};
    return dictionary->frames[id - 1];
}

const uint32_t *bh_dictionary_stack(const struct bh_dictionary *dictionary, uint32_t id,
                                    uint32_t *ret_count)
{
    *ret_count = 0;
    if (id == 0 || id > dictionary->stack_count)
        return NULL;
    *ret_count = dictionary->stacks[id - 1].count;
    return dictionary->stack_frames + dictionary->stacks[id - 1].offset;
}

uint32_t bh_dictionary_string_key(const struct bh_dictionary *dictionary, uint32_t id)
{
    return id == 0 || id > dictionary->string_count ? 0 : dictionary->strings[id - 1].key;
}

uint32_t bh_dictionary_stack_key(const struct bh_dictionary *dictionary, uint32_t id)
{
    return id == 0 || id > dictionary->stack_count ? 0 : dictionary->stacks[id - 1].key;
}

uint32_t bh_dictionary_images(const struct bh_dictionary *dictionary)
{
    return dictionary->image_count;
}

const struct bh_image *bh_dictionary_image(const struct bh_dictionary *dictionary, uint32_t id)
{
    return id == 0 || id > dictionary->image_count ? NULL : &dictionary->images[id - 1];
}
