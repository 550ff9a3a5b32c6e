/* The record ring of queue.bin and the futex beside it. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/wire/le.h"
#include "core/wire/queue_map.h"

#define MASK ((uint64_t)BH_QUEUE_RING_BYTES - 1)
_Static_assert((BH_QUEUE_RING_BYTES & (BH_QUEUE_RING_BYTES - 1)) == 0, "power of two");

/* Full-rate samples leave this much to the records that matter when the disk is slow. */
#define SAMPLE_RESERVE (BH_QUEUE_RING_BYTES / 4)

/* ---- decider ---- */

static size_t entry_bytes(size_t length)
{
    return (QUEUE_ENTRY_BYTES + length + 7) & ~(size_t)7;
}

/* Stores one encoded record; false without room for it and `reserve` bytes more. */
static bool store(struct bh_queue *queue, const unsigned char *bytes, size_t length,
                  uint64_t reserve)
{
    uint64_t head = atomic_load_explicit(&queue->words->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&queue->words->tail, memory_order_acquire);
    size_t need = entry_bytes(length);
    uint64_t to_end = BH_QUEUE_RING_BYTES - (head & MASK);
    uint64_t skip = to_end < need ? to_end : 0;
    uint64_t used = head - tail;
    if (used > BH_QUEUE_RING_BYTES || BH_QUEUE_RING_BYTES - used < need + skip + reserve)
        return false;
    unsigned char *ring = queue->map + QUEUE_RING_AT;
    if (skip) { /* to_end is a multiple of 8: the mark always fits */
        bh_le_put32(ring + (head & MASK), QUEUE_SKIP);
        head += skip;
    }
    unsigned char *at = ring + (head & MASK);
    bh_le_put32(at, (uint32_t)length);
    bh_le_put32(at + 4, 0);
    memcpy(at + QUEUE_ENTRY_BYTES, bytes, length);
    memset(at + QUEUE_ENTRY_BYTES + length, 0, need - QUEUE_ENTRY_BYTES - length);
    atomic_store_explicit(&queue->words->head, head + need, memory_order_release);
    return true;
}

static bool encode_and_store(struct bh_queue *queue, const struct bh_record *record,
                             uint64_t reserve)
{
    int length = bh_record_encode(record, queue->run_id, queue->scratch, sizeof queue->scratch);
    return length > 0 && store(queue, queue->scratch, (size_t)length, reserve);
}

/* What was dropped becomes a record as soon as there is room for one. */
static void report_losses(struct bh_queue *queue, struct bh_mono at)
{
    if (queue->unreported_records == 0 && queue->unreported_samples == 0)
        return;
    struct bh_record losses;
    memset(&losses, 0, sizeof losses);
    losses.kind = BH_RECORD_LOSSES;
    losses.at = at;
    losses.sequence = queue->sequence + 1;
    losses.losses.records = queue->unreported_records;
    losses.losses.samples = queue->unreported_samples;
    if (!encode_and_store(queue, &losses, 0))
        return;
    queue->sequence++;
    queue->unreported_records = 0;
    queue->unreported_samples = 0;
}

int bh_queue_put(struct bh_queue *queue, struct bh_record *record)
{
    bool sample = record->kind == BH_RECORD_SAMPLE;
    report_losses(queue, record->at);
    record->by_scribe = false;
    record->sequence = sample ? ++queue->sample_sequence : ++queue->sequence;
    if (encode_and_store(queue, record, sample ? SAMPLE_RESERVE : 0))
        return BH_OK;
    if (sample)
        queue->unreported_samples++;
    else
        queue->unreported_records++;
    uint64_t dropped = atomic_load_explicit(&queue->words->dropped, memory_order_relaxed);
    atomic_store_explicit(&queue->words->dropped, dropped + 1, memory_order_release);
    return BH_E_BUSY;
}

/* ---- scribe ---- */

int bh_queue_peek(struct bh_queue *queue, const unsigned char **ret_bytes, size_t *ret_length)
{
    uint64_t head = atomic_load_explicit(&queue->words->head, memory_order_acquire);
    uint64_t at = queue->cursor;
    if (head == at)
        return 0;
    if (head - at > BH_QUEUE_RING_BYTES || ((head | at) & 7) != 0)
        return BH_E_MALFORMED;
    const unsigned char *ring = queue->map + QUEUE_RING_AT;
    uint32_t length = bh_le_get32(ring + (at & MASK));
    if (length == QUEUE_SKIP) {
        at += BH_QUEUE_RING_BYTES - (at & MASK);
        if (head == at || head - at > BH_QUEUE_RING_BYTES)
            return BH_E_MALFORMED; /* a skip is stored together with the entry behind it */
        length = bh_le_get32(ring + (at & MASK));
    }
    size_t need = entry_bytes(length);
    if (length < BH_JOURNAL_RECORD_BYTES || length > BH_JOURNAL_MAX_RECORD || need > head - at ||
        need > BH_QUEUE_RING_BYTES - (at & MASK))
        return BH_E_MALFORMED;
    *ret_bytes = ring + (at & MASK) + QUEUE_ENTRY_BYTES;
    *ret_length = length;
    queue->cursor = at + need;
    return 1;
}

void bh_queue_taken(struct bh_queue *queue)
{
    atomic_store_explicit(&queue->words->tail, queue->cursor, memory_order_release);
}

/* ---- waking ---- */

void bh_queue_wake(struct bh_queue *queue)
{
    (void)atomic_fetch_add_explicit(&queue->words->wake, 1, memory_order_release);
#ifdef SYS_futex
    int saved = errno;
    (void)syscall(SYS_futex, &queue->words->wake, 1 /* FUTEX_WAKE, not private */, INT32_MAX, NULL,
                  NULL, 0);
    errno = saved;
#endif
}

void bh_queue_wait(struct bh_queue *queue, uint64_t timeout_ns)
{
    uint32_t now = atomic_load_explicit(&queue->words->wake, memory_order_acquire);
    if (now == queue->wake_seen) {
#ifndef SYS_futex /* no futex: look again soon */
        if (timeout_ns > 5 * BH_NS_PER_MS)
            timeout_ns = 5 * BH_NS_PER_MS;
#endif
        struct timespec timeout = {
            .tv_sec = (time_t)(timeout_ns / BH_NS_PER_S),
            .tv_nsec = (long)(timeout_ns % BH_NS_PER_S),
        };
#ifdef SYS_futex
        (void)syscall(SYS_futex, &queue->words->wake, 0 /* FUTEX_WAIT, not private */, now,
                      &timeout, NULL, 0);
#else
        (void)nanosleep(&timeout, NULL);
#endif
        now = atomic_load_explicit(&queue->words->wake, memory_order_acquire);
    }
    queue->wake_seen = now;
}
