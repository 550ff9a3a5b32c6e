#include "core/viz/traceback.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/json_out.h"

void bh_traceback_begin(struct bh_traceback_cache *cache, const struct bh_dictionary *dictionary)
{
    *cache = (struct bh_traceback_cache){.dictionary = dictionary};
}

void bh_traceback_done(struct bh_traceback_cache *cache)
{
    bh_bytes_done(&cache->text);
    free(cache->entries);
    *cache = (struct bh_traceback_cache){0};
}

static void make(struct bh_bytes *out, const struct bh_dictionary *dictionary, uint32_t stack)
{
    uint32_t count;
    const uint32_t *frames = bh_dictionary_stack(dictionary, stack, &count);
    bh_bytes_append(out, "[", 1);
    for (uint32_t i = count; i > 0; i--) {
        struct bh_frame frame = bh_dictionary_frame(dictionary, frames[i - 1]);
        struct bh_text file = bh_dictionary_string(dictionary, frame.file);
        struct bh_text function = bh_dictionary_string(dictionary, frame.function);
        bh_bytes_append_text(out, i == count ? "[" : ",[");
        bh_json_quote(out, file.bytes, file.length);
        bh_bytes_append(out, ",", 1);
        bh_json_quote(out, function.bytes, function.length);
        bh_bytes_printf(out, ",%u]", frame.line);
    }
    bh_bytes_append(out, "]", 1);
}

static int reserve(struct bh_traceback_cache *cache, uint32_t key)
{
    if (key < cache->count)
        return BH_OK;
    uint32_t count = key < UINT32_MAX / 2 ? key * 2 + 64 : UINT32_MAX;
    void *grown = realloc(cache->entries, count * sizeof *cache->entries);
    if (!grown)
        return BH_E_NOMEM;
    cache->entries = grown;
    memset(cache->entries + cache->count, 0, (count - cache->count) * sizeof *cache->entries);
    cache->count = count;
    return BH_OK;
}

const char *bh_traceback_get(struct bh_traceback_cache *cache, uint32_t stack, size_t *ret_length)
{
    uint32_t key = bh_dictionary_stack_key(cache->dictionary, stack);
    if (key == 0) {
        *ret_length = 4;
        return "null";
    }
    if (reserve(cache, key) < 0)
        return NULL;
    if (cache->entries[key].length == 0) {
        size_t offset = cache->text.length;
        make(&cache->text, cache->dictionary, key);
        if (cache->text.failed)
            return NULL;
        cache->entries[key].offset = offset;
        cache->entries[key].length = cache->text.length - offset;
    }
    *ret_length = cache->entries[key].length;
    return (const char *)cache->text.data + cache->entries[key].offset;
}
