/*
 * Slots out of the mirror's entries: events, the baseline that begins a recording, what is counted
 * and not recorded, and following the switch. Everything here runs under bh_live.lock.
 */
#include <errno.h>

#include "core/record/record.h"

BH_HOT bool bh_events_recording;
BH_HOT bool bh_events_checking;

static bool is_small(const struct bh_buffer *buffer)
{
    return buffer->size_bytes < bh_options.min_size_bytes;
}

static inline uint64_t write_event(enum bh_ring_kind kind, const struct bh_buffer *buffer,
                                   uint16_t flags)
{
    if (BH_UNLIKELY(__atomic_load_n(&bh_track_flushes, __ATOMIC_RELAXED) != 0)) {
        flags |= BH_RING_SLOT_DOUBTFUL;
    }
    return bh_emit_buffer(kind, flags, buffer);
}

uint64_t bh_events_write(enum bh_ring_kind kind, const struct bh_buffer *buffer)
{
    return bh_events_recording && !is_small(buffer) ? write_event(kind, buffer, 0) : BH_NO_TICKET;
}

static void write_sums(enum bh_ring_kind kind, uint64_t count)
{
    struct bh_ring_slot slot = {.kind = (uint8_t)kind,
                                .address = bh_live.active_bytes,
                                .size_bytes = bh_live.cache_bytes,
                                .requested_bytes = count,
                                .stream = -1,
                                .device = BH_RING_DEVICE_UNKNOWN};

    (void)bh_emit_slot(&slot);
}

static void write_baseline(void)
{
    uint64_t index;
    uint64_t count = 0;
    struct bh_buffer *buffer;

    for (index = 0; index < bh_mirror_end(); index++) {
        buffer = bh_mirror_at(index);
        count += buffer->state != BH_BUFFER_FREE && !is_small(buffer);
    }
    write_sums(BH_RING_BASELINE_BEGIN, count);
    for (index = 0; index < bh_mirror_end(); index++) {
        buffer = bh_mirror_at(index);
        if (buffer->state != BH_BUFFER_FREE && !is_small(buffer)) {
            buffer->ticket =
                write_event(BH_RING_BASELINE, buffer,
                            buffer->state == BH_BUFFER_CACHED ? BH_RING_SLOT_CACHED : 0);
        }
    }
}

/* Not every event's way: something is to be followed, or there is no ring. */
void bh_events_follow_slowly(bool may_open)
{
    int saved = errno;
    bool wanted;

    if (bh_life_child_pending) {
        bh_events_recording = false;
        if (!may_open) {
            return;
        }
        bh_life_child_open();
        errno = saved;
    }
    if (bh_emit.gap != 0 && bh_emit_close_gap(bh_live.buffers)) {
        bh_events_recording = false; /* begins again, with a baseline */
    }
    wanted = bh_emit_wanted();
    if (wanted == bh_events_recording) {
        return;
    }
    __atomic_store_n(&bh_events_recording, wanted, __ATOMIC_RELEASE);
    if (wanted) {
        __atomic_add_fetch(&bh_op_period, 1, __ATOMIC_RELAXED);
        write_baseline();
    } else if (bh_emit.header != NULL) {
        write_sums(BH_RING_OFF, 0);
    }
    bh_bind_update();
}

void bh_events_count_small(const struct bh_buffer *buffer, int sign)
{
    struct bh_ring_header *header = bh_emit.header;

    if (BH_LIKELY(!is_small(buffer)) || header == NULL) {
        return;
    }
    if (sign > 0) {
        header->small_count++;
        header->small_bytes += buffer->size_bytes;
        header->small_live_bytes += buffer->size_bytes;
    } else {
        header->small_live_bytes -= buffer->size_bytes;
    }
}

/* The oracle, for tests: the mirror's sums against MLX's own counters. */
void bh_events_check(void)
{
    struct bh_ring_header *header = bh_emit.header;
    uint64_t active = bh_mlx.get_active_memory() - header->attach_active_bytes;
    uint64_t cache = bh_mlx.get_cache_memory() - header->attach_cache_bytes;

    if (__atomic_load_n(&bh_track_flushes, __ATOMIC_RELAXED) == 0) {
        header->checks++;
        header->mismatches += active != bh_live.active_bytes || cache != bh_live.cache_bytes;
    }
}
