#include "core/viz/live_text.h"

#include <string.h>

#include "core/base/text.h"

#define SHOWN_BYTES 256

static const char *when_text(enum bh_live_when when)
{
    switch (when) {
    case BH_LIVE_AT_US:
    case BH_LIVE_AT_SEQUENCE:
        return "Then";
    case BH_LIVE_AT_PEAK:
        return "At the peak";
    case BH_LIVE_AT_LIMIT:
        return "At the limit";
    case BH_LIVE_AT_END:
        return "At the end";
    }
    return "Then";
}

/* Foreign text: control characters must not reach a terminal. */
static void put_escaped(struct bh_bytes *out, struct bh_text text)
{
    char shown[SHOWN_BYTES];
    bh_bytes_append_text(out, bh_text_escape(text.bytes, text.length, shown, sizeof shown));
}

static void put_frame(struct bh_bytes *out, const struct bh_dictionary *dictionary, uint32_t id)
{
    struct bh_frame frame = bh_dictionary_frame(dictionary, id);
    const char *file = bh_text_basename(bh_dictionary_string(dictionary, frame.file).bytes);
    put_escaped(out, bh_dictionary_string(dictionary, frame.function));
    bh_bytes_append_text(out, " (");
    put_escaped(out, (struct bh_text){file, strlen(file)});
    bh_bytes_printf(out, ":%u)", frame.line);
}

static void put_place(struct bh_bytes *out, const struct bh_dictionary *dictionary,
                      const struct bh_live_group *group)
{
    uint32_t count;
    const uint32_t *frames = bh_dictionary_stack(dictionary, group->stack, &count);
    if (count == 0)
        bh_bytes_append_text(out, "(no Python stack)");
    for (uint32_t i = 0; i < count && i < 3; i++) {
        bh_bytes_append_text(out, i ? " < " : "");
        put_frame(out, dictionary, frames[i]);
    }
    if (count > 3)
        bh_bytes_printf(out, " < %u more", count - 3);
}

static void put_group(struct bh_bytes *out, const struct bh_live *live,
                      const struct bh_dictionary *dictionary, const struct bh_live_group *group)
{
    char bytes[24];
    double share = live->total_bytes ? 100.0 * (double)group->bytes / (double)live->total_bytes : 0;
    bh_bytes_printf(out, "  %9s %5.1f %% %6llu  ",
                    bh_text_format_bytes(group->bytes, bytes, sizeof bytes), share,
                    (unsigned long long)group->count);
    if (group->primitive)
        put_escaped(out, bh_dictionary_string(dictionary, group->primitive));
    else
        bh_bytes_append_text(out, "-");
    if (!live->query.by_primitive) {
        bh_bytes_append_text(out, "  ");
        put_place(out, dictionary, group);
    }
    if (live->query.since) {
        bool less = group->growth_bytes < 0;
        uint64_t growth = (uint64_t)(less ? -group->growth_bytes : group->growth_bytes);
        bh_bytes_printf(out, "  %s%s", less ? "-" : "+",
                        bh_text_format_bytes(growth, bytes, sizeof bytes));
    }
    bh_bytes_append_text(out, group->keeps_growing ? "  keeps growing\n" : "\n");
}

void bh_live_text(struct bh_bytes *out, const struct bh_live *live,
                  const struct bh_dictionary *dictionary)
{
    char bytes[24];
    bh_bytes_printf(out, "%s %s were active in %llu allocations:\n", when_text(live->query.when),
                    bh_text_format_bytes(live->total_bytes, bytes, sizeof bytes),
                    (unsigned long long)live->total_count);
    for (uint32_t i = 0; i < live->group_count; i++)
        put_group(out, live, dictionary, &live->groups[i]);
    if (live->other_groups)
        bh_bytes_printf(out, "  %9s in %u other groups\n",
                        bh_text_format_bytes(live->other.bytes, bytes, sizeof bytes),
                        live->other_groups);
    if (live->crossed_by.known) {
        struct bh_live_group crossing = {.stack = live->crossed_by.stack};
        bh_bytes_printf(out, "The allocation that crossed the limit: %s, ",
                        bh_text_format_bytes(live->crossed_by.bytes, bytes, sizeof bytes));
        if (live->crossed_by.primitive) {
            put_escaped(out, bh_dictionary_string(dictionary, live->crossed_by.primitive));
            bh_bytes_append_text(out, ", ");
        }
        put_place(out, dictionary, &crossing);
        bh_bytes_append_text(out, "\n");
    }
}
