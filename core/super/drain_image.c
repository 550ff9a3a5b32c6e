/* One ring of the drain: its arena translated to the job's ids, its slots turned into log records.
 * Every field of a slot is what the job wrote: ids outside the tables become 0, impossible sizes
 * make the ring corrupt, times in the future become now. */
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/super/drain_parts.h"

#define SIZE_BYTES_MAX ((uint64_t)1 << 48)
#define STREAM_MAX     65535

/* ---- arena ------------------------------------------------------------------------- */

static int add_string(struct bh_drain_image *image, struct bh_drain_log *log,
                      const struct bh_ring_record *record)
{
    const char *text = (const char *)record->bytes;
    size_t length = record->count;
    uint32_t id;
    int rc;

    if (!bh_text_is_utf8(text, length) || memchr(text, '\0', length) != NULL) {
        text = "?";
        length = 1;
    }
    rc = bh_drain_string(log, text, length, &id);
    return rc < 0 ? rc : bh_drain_list_add(&image->strings, id);
}

static int add_frame(struct bh_drain_image *image, struct bh_drain_log *log,
                     const struct bh_ring_record *record)
{
    uint32_t id;
    int rc = bh_drain_frame(log, bh_drain_list_at(&image->strings, record->file),
                            bh_drain_list_at(&image->strings, record->function), record->line, &id);

    return rc < 0 ? rc : bh_drain_list_add(&image->frames, id);
}

static int add_stack(struct bh_drain_image *image, struct bh_drain_log *log,
                     const struct bh_ring_record *record)
{
    uint32_t frames[BH_RING_DEPTH_MAX];
    uint32_t id, at;
    int rc;

    memcpy(frames, record->bytes, (size_t)record->count * sizeof(*frames));
    for (at = 0; at < record->count; at++) {
        frames[at] = bh_drain_list_at(&image->frames, frames[at]);
        if (frames[at] == 0) {
            return BH_E_MALFORMED;
        }
    }
    rc = bh_drain_stack(log, frames, record->count, &id);
    return rc < 0 ? rc : bh_drain_list_add(&image->stacks, id);
}

static int add_record(struct bh_drain_image *image, struct bh_drain_log *log,
                      const struct bh_ring_record *record)
{
    if (record->kind == BH_RING_ARENA_STRING) {
        return record->id == image->strings.count + 1 ? add_string(image, log, record)
                                                      : BH_E_MALFORMED;
    }
    if (record->kind == BH_RING_ARENA_FRAME) {
        return record->id == image->frames.count + 1 ? add_frame(image, log, record)
                                                     : BH_E_MALFORMED;
    }
    if (record->kind == BH_RING_ARENA_STACK) {
        return record->id == image->stacks.count + 1 ? add_stack(image, log, record)
                                                     : BH_E_MALFORMED;
    }
    return BH_OK; /* of a later version */
}

static int read_arena(struct bh_drain_image *image, struct bh_drain_log *log,
                      unsigned char *scratch, size_t scratch_size)
{
    uint64_t used = image->header.arena_used;

    while (image->reader.arena_read < used) {
        size_t length = 0, at = 0;
        int taken;
        int rc = bh_ring_arena(&image->reader, used, scratch, scratch_size, &length);

        if (rc < 0) {
            return rc;
        }
        do {
            struct bh_ring_record record;

            taken = bh_ring_record(scratch + at, length - at, &record);
            rc = taken > 0 ? add_record(image, log, &record) : taken;
            if (rc < 0) {
                return rc;
            }
            at += (size_t)taken;
        } while (taken > 0);
        if (at == 0) {
            return BH_E_MALFORMED; /* a record that reaches beyond what is used */
        }
        bh_ring_arena_advance(&image->reader, at);
    }
    return BH_OK;
}

int bh_drain_image_refresh(struct bh_drain_image *image, struct bh_drain_log *log,
                           unsigned char *scratch, size_t scratch_size)
{
    int rc = bh_ring_header(&image->reader, &image->header);

    if (rc < 0) {
        return rc;
    }
    return image->id == 0 ? BH_OK : read_arena(image, log, scratch, scratch_size);
}

/* ---- slots ------------------------------------------------------------------------- */

bool bh_drain_image_peek(struct bh_drain_image *image, struct bh_ring_slot **ret_slot)
{
    if (image->batch_at == image->batch_count && !image->corrupt && image->id != 0) {
        int rc;

        image->batch_at = 0;
        image->batch_count = 0;
        if (image->batch == NULL) {
            image->batch = malloc(BH_DRAIN_BATCH * sizeof(*image->batch));
        }
        if (image->batch == NULL) {
            return false; /* the slots stay in the ring for the next step */
        }
        rc = bh_ring_slots(&image->reader, image->header.head, image->batch, BH_DRAIN_BATCH,
                           &image->batch_count);
        image->corrupt = image->corrupt || rc < 0;
    }
    if (image->batch_at == image->batch_count) {
        return false;
    }
    *ret_slot = &image->batch[image->batch_at];
    return true;
}

static void fill_record(const struct bh_drain_image *image, const struct bh_ring_slot *slot,
                        struct bh_mono now, struct bh_evlog_record *ret_record)
{
    *ret_record = (struct bh_evlog_record){
        .at = {slot->time_ns < now.ns ? slot->time_ns : now.ns},
        .image = image->id,
        .address = slot->address,
        .size_bytes = slot->size_bytes,
        .requested_bytes = slot->requested_bytes,
        .thread = slot->thread,
        .stream = slot->stream >= 0 && slot->stream <= STREAM_MAX ? slot->stream : -1,
        .primitive = bh_drain_list_at(&image->strings, slot->primitive),
        .stack = bh_drain_list_at(&image->stacks, slot->stack),
        .doubtful = (slot->flags & BH_RING_SLOT_DOUBTFUL) != 0,
    };
}

/* Writes the event and, before it, the one that the history of its address is missing. */
static int write_action(struct bh_drain_image *image, struct bh_drain_log *log,
                        struct bh_evlog_record *record, uint64_t ticket)
{
    struct bh_drain_buffer *buffer = bh_drain_live_find(&image->live, record->address);
    struct bh_drain_repair repair = {0, record->kind};
    int rc = BH_OK;

    if (!image->live.overflowed) {
        repair =
            bh_drain_live_judge(record->kind, buffer == NULL ? BH_DRAIN_NOWHERE : buffer->place,
                                buffer != NULL && buffer->size_bytes == record->size_bytes);
    }
    if (repair.first != 0) {
        struct bh_evlog_record missing = {.kind = repair.first,
                                          .at = record->at,
                                          .image = record->image,
                                          .address = record->address,
                                          .size_bytes = buffer->size_bytes,
                                          .requested_bytes = buffer->size_bytes,
                                          .stream = -1,
                                          .doubtful = true};

        rc = bh_drain_log_add(log, &missing);
    }
    if (repair.kind == 0 || rc < 0) {
        return rc;
    }
    record->kind = repair.kind;
    rc = bh_drain_log_add(log, record);
    if (rc < 0) {
        return rc;
    }
    rc = bh_drain_image_learn(image, record);
    buffer = bh_drain_live_find(&image->live, record->address);
    if (buffer != NULL && buffer->sequence == record->sequence) {
        buffer->ticket = ticket;
    }
    return rc;
}

static int write_link(const struct bh_drain_image *image, struct bh_drain_log *log,
                      struct bh_evlog_record *record, uint64_t ticket)
{
    const struct bh_drain_buffer *buffer = bh_drain_live_find(&image->live, record->address);

    if (buffer == NULL || buffer->place != BH_DRAIN_ACTIVE ||
        (buffer->ticket != ticket && buffer->ticket != BH_DRAIN_TICKET_ANY)) {
        return BH_OK; /* its allocation is not in the log */
    }
    record->kind = BH_EVLOG_LINK;
    record->sequence = buffer->sequence;
    return bh_drain_log_add(log, record);
}

static int write_lost(struct bh_drain_image *image, struct bh_drain_log *log,
                      struct bh_evlog_record *record, uint64_t count)
{
    record->kind = BH_EVLOG_LOST;
    record->count = count;
    record->requested_bytes = 0;
    image->lost_told += count;
    log->lost += count;
    return bh_drain_log_add(log, record);
}

static int write_baseline(struct bh_drain_image *image, struct bh_drain_log *log,
                          const struct bh_ring_slot *slot, struct bh_evlog_record *record,
                          uint64_t ticket)
{
    struct bh_drain_buffer *buffer;
    int rc;

    record->kind = BH_EVLOG_BASELINE;
    record->cached = (slot->flags & BH_RING_SLOT_CACHED) != 0;
    if (bh_drain_live_find(&image->live, record->address) != NULL) {
        return BH_OK; /* told twice */
    }
    rc = bh_drain_log_add(log, record);
    if (rc < 0) {
        return rc;
    }
    rc = bh_drain_image_learn(image, record);
    buffer = bh_drain_live_find(&image->live, record->address);
    if (buffer != NULL) {
        buffer->ticket = ticket;
    }
    return rc;
}

static int write_section(struct bh_drain_image *image, struct bh_drain_log *log,
                         struct bh_evlog_record *record, enum bh_evlog_kind kind)
{
    int rc;

    record->kind = kind;
    record->count = kind == BH_EVLOG_BASELINE_BEGIN ? record->requested_bytes : 0;
    record->requested_bytes = 0;
    rc = bh_drain_log_add(log, record);
    return rc < 0 ? rc : bh_drain_image_learn(image, record);
}

static int take_slot(struct bh_drain_image *image, struct bh_drain_log *log,
                     const struct bh_ring_slot *slot, struct bh_mono now)
{
    struct bh_evlog_record record;
    uint64_t ticket = slot->sequence - 1;

    fill_record(image, slot, now, &record);
    if (slot->kind >= BH_RING_ALLOC_NEW && slot->kind <= BH_RING_CACHE_TO_OS) {
        if (slot->size_bytes > SIZE_BYTES_MAX || slot->requested_bytes > SIZE_BYTES_MAX) {
            return BH_E_MALFORMED;
        }
        record.kind = (enum bh_evlog_kind)slot->kind;
        return write_action(image, log, &record, ticket);
    }
    switch (slot->kind) {
    case BH_RING_LINK:
        record.requested_bytes = 0;
        return write_link(image, log, &record, slot->link_ticket);
    case BH_RING_LOST:
        return slot->requested_bytes > SIZE_BYTES_MAX
                   ? BH_E_MALFORMED
                   : write_lost(image, log, &record, slot->requested_bytes);
    case BH_RING_BASELINE_BEGIN:
        return write_section(image, log, &record, BH_EVLOG_BASELINE_BEGIN);
    case BH_RING_BASELINE:
        return slot->size_bytes > SIZE_BYTES_MAX
                   ? BH_E_MALFORMED
                   : write_baseline(image, log, slot, &record, ticket);
    case BH_RING_OFF:
        return write_section(image, log, &record, BH_EVLOG_OFF);
    case BH_RING_MARK:
        record.kind = BH_EVLOG_MARK;
        record.text = record.primitive;
        return record.text == 0 ? BH_OK : bh_drain_log_add(log, &record);
    default:
        return BH_OK; /* of a later version */
    }
}

int bh_drain_image_take(struct bh_drain_image *image, struct bh_drain_log *log, struct bh_mono now)
{
    int rc = take_slot(image, log, &image->batch[image->batch_at], now);

    image->batch_at++;
    return rc;
}

/* ---- what is in the log ------------------------------------------------------------ */

static void learn_alloc(struct bh_drain_image *image, const struct bh_evlog_record *record)
{
    struct bh_drain_buffer *buffer = bh_drain_live_put(&image->live, record->address);

    if (buffer == NULL) {
        return;
    }
    buffer->place =
        record->kind == BH_EVLOG_BASELINE && record->cached ? BH_DRAIN_CACHED : BH_DRAIN_ACTIVE;
    buffer->size_bytes = record->size_bytes;
    buffer->sequence = record->sequence;
    buffer->ticket = BH_DRAIN_TICKET_ANY;
}

int bh_drain_image_learn(struct bh_drain_image *image, const struct bh_evlog_record *record)
{
    struct bh_drain_buffer *buffer;

    switch ((int)record->kind) {
    case BH_EVLOG_ALLOC_NEW:
    case BH_EVLOG_ALLOC_REUSE:
    case BH_EVLOG_ALLOC_MAKE_BUFFER:
    case BH_EVLOG_BASELINE:
        learn_alloc(image, record);
        break;
    case BH_EVLOG_FREE_TO_CACHE:
        buffer = bh_drain_live_find(&image->live, record->address);
        if (buffer != NULL) {
            buffer->place = BH_DRAIN_CACHED;
        }
        break;
    case BH_EVLOG_FREE_TO_OS:
    case BH_EVLOG_RELEASE:
    case BH_EVLOG_CACHE_TO_OS:
        bh_drain_live_remove(&image->live, record->address);
        break;
    case BH_EVLOG_BASELINE_BEGIN:
        bh_drain_live_clear(&image->live);
        break;
    case BH_EVLOG_LOST:
        image->lost_told += record->count;
        break;
    default:
        break;
    }
    return BH_OK;
}

/* ---- the end ----------------------------------------------------------------------- */

bool bh_drain_image_skip_hole(struct bh_drain_image *image)
{
    if (image->corrupt || image->id == 0 || image->reader.next == image->header.head) {
        return false;
    }
    bh_ring_skip(&image->reader);
    image->holes++;
    return true;
}

static int write_hole(const struct bh_drain_image *image, struct bh_drain_log *log)
{
    struct bh_evlog_record record = {
        .kind = BH_EVLOG_HOLE, .image = image->id, .count = image->holes};

    log->holes += image->holes;
    return bh_drain_log_add(log, &record);
}

int bh_drain_image_end(struct bh_drain_image *image, struct bh_drain_log *log, struct bh_mono now)
{
    struct bh_evlog_record record = {.image = image->id, .at = now, .stream = -1};
    int rc = BH_OK;

    image->ended = true;
    if (image->id == 0) {
        return BH_OK;
    }
    if (image->holes != 0) {
        rc = write_hole(image, log);
    }
    if (rc == BH_OK && !image->corrupt && image->header.lost > image->lost_told) {
        rc = write_lost(image, log, &record, image->header.lost - image->lost_told);
    }
    record.kind = BH_EVLOG_IMAGE_END;
    record.count = 0;
    rc = rc < 0 ? rc : bh_drain_log_add(log, &record);
    bh_drain_live_done(&image->live);
    bh_drain_list_done(&image->strings);
    bh_drain_list_done(&image->frames);
    bh_drain_list_done(&image->stacks);
    free(image->batch);
    image->batch = NULL;
    image->batch_at = image->batch_count = 0;
    return rc;
}

void bh_drain_image_free(struct bh_drain_image *image)
{
    if (image != NULL) {
        bh_ring_close(&image->reader);
        bh_drain_live_done(&image->live);
        bh_drain_list_done(&image->strings);
        bh_drain_list_done(&image->frames);
        bh_drain_list_done(&image->stacks);
        free(image->batch);
        free(image);
    }
}
