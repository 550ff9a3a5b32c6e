/* ring peek: a recorder ring as it is, for diagnosis. Reads only: what lies there stays there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/scoped.h"
#include "core/base/text.h"
#include "core/tool/tool.h"
#include "core/wire/le.h"
#include "core/wire/ring_read.h"

static const char *state_text(uint32_t state)
{
    switch (state) {
    case BH_RING_STATE_ATTACHED:
        return "attached";
    case BH_RING_STATE_REFUSED:
        return "refused";
    case BH_RING_STATE_FAILED:
        return "failed";
    default:
        return "unknown";
    }
}

static const char *kind_text(uint8_t kind)
{
    switch (kind) {
    case BH_RING_LOST:
        return "Lost";
    case BH_RING_BASELINE_BEGIN:
        return "BaselineBegin";
    case BH_RING_BASELINE:
        return "Baseline";
    case BH_RING_OFF:
        return "Off";
    case BH_RING_LINK:
        return "Link";
    case BH_RING_MARK:
        return "Mark";
    default:
        return bh_evlog_action_text(kind); /* the first seven are the same */
    }
}

/* The arena's records under the ids of the ring, which count as those of a log do. */
static int add_record(struct bh_dictionary *names, const struct bh_ring_record *record)
{
    uint32_t frames[BH_EVLOG_MAX_DEPTH];
    struct bh_evlog_record as = {.id = record->id};
    if (record->kind == BH_RING_ARENA_STRING) {
        as.kind = BH_EVLOG_STRING;
        as.string = (const char *)record->bytes;
        as.string_length = record->count;
    } else if (record->kind == BH_RING_ARENA_FRAME) {
        as.kind = BH_EVLOG_FRAME;
        as.file = record->file;
        as.function = record->function;
        as.line = record->line;
    } else if (record->kind == BH_RING_ARENA_STACK && record->count <= BH_EVLOG_MAX_DEPTH) {
        as.kind = BH_EVLOG_STACK;
        as.stack = record->id;
        for (uint32_t i = 0; i < record->count; i++)
            frames[i] = bh_le_get32(record->bytes + 4 * (size_t)i);
        as.frames = frames;
        as.frame_count = record->count;
    } else {
        return BH_OK;
    }
    return bh_dictionary_add(names, &as);
}

static int read_names(struct bh_ring_reader *reader, uint64_t used, struct bh_dictionary *names)
{
    unsigned char bytes[BH_RING_RECORD_BYTES_MAX];
    for (;;) {
        size_t length, at = 0;
        int error = bh_ring_arena(reader, used, bytes, sizeof bytes, &length);
        if (error < 0 || length == 0)
            return error;
        for (;;) {
            struct bh_ring_record record;
            int size = bh_ring_record(bytes + at, length - at, &record);
            if (size < 0)
                return size;
            if (size == 0)
                break;
            error = add_record(names, &record);
            if (error < 0)
                return error;
            at += (size_t)size;
        }
        if (at == 0)
            return BH_OK; /* a record that is not whole yet */
        bh_ring_arena_advance(reader, at);
    }
}

static void print_header(const struct bh_ring_reader *reader, const struct bh_ring_header *header)
{
    char text[512];
    printf("process    %" PRIu32 " (start token %" PRIu64 "), image %" PRIu32 "\n",
           reader->facts.pid, reader->facts.start_token, reader->facts.image);
    printf("state      %s%s%s\n", state_text(header->state), header->reason[0] ? ": " : "",
           bh_text_escape(header->reason, strlen(header->reason), text, sizeof text));
    printf("recording  %s\n", header->control & BH_RING_CONTROL_ON ? "on" : "off");
    printf("mlx        %s\n",
           bh_text_escape(header->mlx_version, strlen(header->mlx_version), text, sizeof text));
    printf("python     %s\n", bh_text_escape(header->python_version, strlen(header->python_version),
                                             text, sizeof text));
    printf("slots      %" PRIu64 " waiting of %" PRIu32 ", %" PRIu64 " written, %" PRIu64 " lost\n",
           header->head - reader->next, reader->facts.slot_count, header->head, header->lost);
    printf("arena      %" PRIu64 " of %" PRIu64 " bytes, %" PRIu64 " stacks lost\n",
           header->arena_used, reader->facts.arena_bytes, header->stacks_lost);
    printf("memory     %" PRIu64 " active, %" PRIu64 " cached\n", header->active_bytes,
           header->cache_bytes);
}

static void print_slot(const struct bh_ring_slot *slot, const struct bh_dictionary *names)
{
    char primitive[128], file[256];
    uint32_t count;
    const uint32_t *frames = bh_dictionary_stack(names, slot->stack, &count);
    struct bh_frame frame = bh_dictionary_frame(names, count ? frames[0] : 0);
    struct bh_text name = bh_dictionary_string(names, slot->primitive);
    const char *base = bh_text_basename(bh_dictionary_string(names, frame.file).bytes);
    printf("%12" PRIu64 " %-17s", slot->sequence - 1, kind_text(slot->kind));
    if (slot->kind == BH_RING_LINK)
        printf(" of %" PRIu64, slot->link_ticket);
    else
        printf(" 0x%012" PRIx64 " %12" PRIu64 " %12" PRIu64, slot->address, slot->size_bytes,
               slot->requested_bytes);
    printf(" thread %" PRIu32 " stream %" PRId32 " %s", slot->thread, slot->stream,
           bh_text_escape(name.bytes, name.length, primitive, sizeof primitive));
    if (count)
        printf(" %s:%" PRIu32, bh_text_escape(base, strlen(base), file, sizeof file), frame.line);
    printf("%s%s\n", slot->flags & BH_RING_SLOT_CACHED ? " cached" : "",
           slot->flags & BH_RING_SLOT_DOUBTFUL ? " doubtful" : "");
}

static int print_slots(struct bh_ring_reader *reader, uint64_t head, uint64_t most,
                       const struct bh_dictionary *names)
{
    struct bh_ring_slot slots[64];
    while (most > 0) {
        size_t count, wanted = most < 64 ? (size_t)most : 64;
        int error = bh_ring_slots(reader, head, slots, wanted, &count);
        if (error < 0 || count == 0)
            return error;
        for (size_t i = 0; i < count; i++)
            print_slot(&slots[i], names);
        most -= count;
    }
    return BH_OK;
}

static int peek(struct bh_ring_reader *reader, uint64_t most, struct bh_diag *diag)
{
    struct bh_ring_header header;
    struct bh_dictionary *names;
    int error = bh_ring_header(reader, &header);
    if (error < 0)
        return bh_err_set(diag, error, NULL, "The ring's header cannot be read");
    print_header(reader, &header);
    error = bh_dictionary_new(&names);
    if (error < 0)
        return error;
    if (reader->facts.slot_count) {
        /* Names that do not fit together are shown as far as they do: this is for diagnosis. */
        if (read_names(reader, header.arena_used, names) < 0)
            printf("arena      some records cannot be read\n");
        error = print_slots(reader, header.head, most, names);
    }
    bh_dictionary_free(names);
    if (error < 0)
        return bh_err_set(diag, error, NULL, "The ring's slots cannot be read");
    return BH_OK;
}

int bh_tool_ring_peek(int argc, char **argv, struct bh_diag *diag)
{
    const char *path, *name;
    uint64_t most = 20;
    struct bh_tool_option options[] = {{"--slots", BH_TOOL_U64, &most, 0, "N",
                                        "slots shown, oldest waiting first; default 20", false}};
    struct bh_tool_usage usage = {"ring peek [--slots N] FILE.ring",
                                  "Nothing is taken from the ring; the scribe's work goes on.\n",
                                  options, 1};
    struct bh_ring_reader reader;
    BH_SCOPED_FD int dirfd = -1;
    int error = bh_tool_parse(&usage, argc, argv, &path, diag);
    if (error != 0)
        return error < 0 ? error : 0;
    error = bh_tool_open_place(path, "", &dirfd, &name, diag);
    if (error >= 0 && name[0] == '\0')
        error = bh_err_set(diag, BH_E_USAGE, NULL, "Name a ring file, <pid>-<token>-<n>.ring");
    if (error >= 0)
        error = bh_ring_open(dirfd, name, &reader, diag);
    if (error < 0)
        return error;
    error = peek(&reader, most, diag);
    bh_ring_close(&reader);
    return error;
}
