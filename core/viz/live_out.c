/* Live sets as JSON and as collapsed stacks. */
#include <string.h>

#include "core/base/json_out.h"
#include "core/base/text.h"
#include "core/viz/live.h"
#include "core/viz/traceback.h"

static const char *why(enum bh_live_when when)
{
    switch (when) {
    case BH_LIVE_AT_US:
    case BH_LIVE_AT_SEQUENCE:
        return "at";
    case BH_LIVE_AT_PEAK:
        return "peak";
    case BH_LIVE_AT_LIMIT:
        return "limit";
    case BH_LIVE_AT_END:
        return "end";
    }
    return "at";
}

static void put_primitive(struct bh_json *json, const struct bh_dictionary *dictionary, uint32_t id)
{
    struct bh_text name = bh_dictionary_string(dictionary, id);
    if (id)
        bh_json_text(json, "primitive_name", name.bytes, name.length);
    else
        bh_json_null(json, "primitive_name");
}

static void put_traceback(struct bh_json *json, struct bh_traceback_cache *cache, uint32_t stack)
{
    size_t length;
    const char *text = bh_traceback_get(cache, stack, &length);
    if (text)
        bh_json_raw(json, "traceback", text, length);
    else
        json->out->failed = true;
}

static void put_growth(struct bh_json *json, const struct bh_live *live, int64_t bytes)
{
    if (live->query.since)
        bh_json_i64(json, "growth_bytes", bytes);
    else
        bh_json_null(json, "growth_bytes");
}

static void put_group(struct bh_json *json, const struct bh_live *live,
                      struct bh_traceback_cache *cache, const struct bh_live_group *group)
{
    /* in millionths, rounded; libm stays out */
    double share = live->total_bytes ? (double)group->bytes / (double)live->total_bytes : 0;
    uint64_t millionths = (uint64_t)(share * 1e6 + 0.5);
    bh_json_object(json, NULL);
    if (!live->query.by_primitive)
        put_traceback(json, cache, group->stack);
    put_primitive(json, cache->dictionary, group->primitive);
    bh_json_u64(json, "bytes", group->bytes);
    bh_json_u64(json, "count", group->count);
    bh_json_double(json, "share", (double)millionths / 1e6);
    put_growth(json, live, group->growth_bytes);
    if (live->growing_known)
        bh_json_bool(json, "keeps_growing", group->keeps_growing);
    else
        bh_json_null(json, "keeps_growing");
    bh_json_end(json);
}

static void put_crossing(struct bh_json *json, const struct bh_live_crossing *crossing,
                         struct bh_traceback_cache *cache)
{
    if (!crossing->known) {
        bh_json_null(json, "crossed_by");
        return;
    }
    bh_json_object(json, "crossed_by");
    bh_json_u64(json, "seq", crossing->sequence);
    bh_json_i64(json, "at_us", crossing->at_us);
    bh_json_u64(json, "bytes", crossing->bytes);
    put_primitive(json, cache->dictionary, crossing->primitive);
    put_traceback(json, cache, crossing->stack);
    bh_json_end(json);
}

static void put_head(struct bh_json *json, const struct bh_live *live, const char *job_id)
{
    bh_json_string(json, "job_id", job_id);
    bh_json_i64(json, "at_us", live->at_us);
    bh_json_string(json, "why", why(live->query.when));
    bh_json_string(json, "group", live->query.by_primitive ? "primitive" : "stack");
    bh_json_u64(json, "total_bytes", live->total_bytes);
    bh_json_u64(json, "total_count", live->total_count);
    if (live->query.since)
        bh_json_i64(json, "since_us", live->query.since_us);
    else
        bh_json_null(json, "since_us");
}

static int give(struct bh_sink sink, struct bh_bytes *out)
{
    int error = out->failed ? BH_E_NOMEM : BH_OK;
    if (error >= 0 && out->length)
        error = sink.write(sink.context, out->data, out->length);
    bh_bytes_done(out);
    return error;
}

int bh_live_json(const struct bh_live *live, const struct bh_dictionary *dictionary,
                 const char *job_id, struct bh_sink sink)
{
    struct bh_bytes out = {0};
    struct bh_json json;
    struct bh_traceback_cache cache;
    bh_traceback_begin(&cache, dictionary);
    bh_json_begin(&json, &out, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    put_head(&json, live, job_id);
    bh_json_array(&json, "groups");
    for (uint32_t i = 0; i < live->group_count; i++)
        put_group(&json, live, &cache, &live->groups[i]);
    bh_json_end(&json);
    bh_json_object(&json, "other");
    bh_json_u64(&json, "groups", live->other_groups);
    bh_json_u64(&json, "bytes", live->other.bytes);
    bh_json_u64(&json, "count", live->other.count);
    put_growth(&json, live, live->other.growth_bytes);
    bh_json_end(&json);
    put_crossing(&json, &live->crossed_by, &cache);
    bh_json_end(&json);
    bh_json_finish(&json);
    bh_traceback_done(&cache);
    return give(sink, &out);
}

/* ---- collapsed ---- */

/* The format has ';' between frames and a line end behind the bytes. */
static void put_plain(struct bh_bytes *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char byte = text[i];
        bool special = byte == ';' || (unsigned char)byte < 0x20;
        bh_bytes_append(out, special ? "_" : &byte, 1);
    }
}

static void put_frames(struct bh_bytes *out, const struct bh_dictionary *dictionary, uint32_t stack)
{
    uint32_t count;
    const uint32_t *frames = bh_dictionary_stack(dictionary, stack, &count);
    if (count == 0)
        bh_bytes_append_text(out, "(no Python stack)");
    for (uint32_t i = count; i > 0; i--) {
        struct bh_frame frame = bh_dictionary_frame(dictionary, frames[i - 1]);
        struct bh_text function = bh_dictionary_string(dictionary, frame.function);
        const char *file = bh_text_basename(bh_dictionary_string(dictionary, frame.file).bytes);
        put_plain(out, function.bytes, function.length);
        bh_bytes_append_text(out, " (");
        put_plain(out, file, strlen(file));
        bh_bytes_printf(out, i > 1 ? ":%u);" : ":%u)", frame.line);
    }
}

int bh_live_collapsed(const struct bh_live *live, const struct bh_dictionary *dictionary,
                      struct bh_sink sink)
{
    struct bh_bytes out = {0};
    for (uint32_t i = 0; i < live->group_count; i++) {
        const struct bh_live_group *group = &live->groups[i];
        struct bh_text name = bh_dictionary_string(dictionary, group->primitive);
        if (!live->query.by_primitive)
            put_frames(&out, dictionary, group->stack);
        else if (group->primitive)
            put_plain(&out, name.bytes, name.length);
        else
            bh_bytes_append_text(&out, "(no primitive)");
        bh_bytes_printf(&out, " %llu\n", (unsigned long long)group->bytes);
    }
    return give(sink, &out);
}
