/*
 * Events. These functions stand in the allocator's virtual table: they call the original under
 * bh_live.lock, compare MLX's own cache total with the mirror, and so tell New from Reuse, ToCache
 * from ToOS, and see evictions that no call announces. Because the lock spans the real call, slots
 * are in the true order and the oracle holds after every one of them: sum(active) and sum(cached)
 * equal MLX's counters.
 *
 * clear_cache and set_cache_limit run outside the lock (they may wait for threads that are inside
 * it); while one is in flight a free is classified as well as it can be and marked doubtful, and
 * the mirror catches up when the call returns.
 */
#include <string.h>

#include "core/record/record.h"

BH_HOT int bh_track_flushes;

struct visit {
    char unused;
};

static inline __attribute__((always_inline)) void leave(const struct visit *visit)
{
    (void)visit;
    if (BH_LIKELY(bh_emit.header != NULL)) {
        bh_emit.header->active_bytes = bh_live.active_bytes;
        bh_emit.header->cache_bytes = bh_live.cache_bytes;
        if (BH_UNLIKELY(bh_events_checking)) {
            bh_events_check();
        }
    }
    bh_thread.inside = false;
    bh_lock_give(&bh_live.lock);
}

/* False: this call is none of ours (not attached, or MLX called itself). */
static inline bool may_enter(void)
{
    return BH_LIKELY(bh_phase_get() == BH_PHASE_ATTACHED) && BH_LIKELY(!bh_thread.inside);
}

static inline struct visit enter(void)
{
    bh_lock_take(&bh_live.lock);
    bh_thread.inside = true;
    return (struct visit){0};
}

/* Until the end of the block, also when an exception of MLX ends it. */
#define VISIT struct visit visit __attribute__((cleanup(leave), unused)) = enter()

/* ---- the cache --------------------------------------------------------------------- */

static uint64_t mlx_cache(void)
{
    if (BH_LIKELY(bh_mlx.cache_word != NULL)) {
        return __atomic_load_n(bh_mlx.cache_word, __ATOMIC_ACQUIRE);
    }
    return bh_mlx.get_cache_memory();
}

static uint64_t expected_cache(void)
{
    return bh_live.cache_bytes + (uint64_t)bh_live.cache_bias;
}

/* MLX's cache holds `now` bytes: whatever the mirror has beyond that was evicted, oldest first. */
static void settle(uint64_t now)
{
    while (expected_cache() > now && bh_mirror_oldest() != NULL) {
        struct bh_buffer *buffer = bh_mirror_oldest();

        (void)bh_events_write(BH_RING_CACHE_TO_OS, buffer);
        bh_mirror_drop(buffer);
    }
    if (BH_UNLIKELY(expected_cache() != now) &&
        __atomic_load_n(&bh_track_flushes, __ATOMIC_RELAXED) == 0) {
        bh_live.cache_bias = (int64_t)(now - bh_live.cache_bytes);
    }
}

/* Out of step for good: the mirror's memory is exhausted. The job goes on without a recorder. */
static void fail(const char *reason)
{
    bh_attach_leave();
    if (bh_emit.header != NULL) {
        bh_emit_text(bh_emit.header->reason, sizeof(bh_emit.header->reason), reason);
        __atomic_store_n(&bh_emit.header->state, (uint32_t)BH_RING_STATE_FAILED, __ATOMIC_RELEASE);
    }
}

/* The address must not be known from here on. Needed when a buffer left without being seen. */
static void forget(struct bh_buffer *buffer)
{
    if (buffer->state == BH_BUFFER_CACHED) {
        (void)bh_events_write(BH_RING_CACHE_TO_OS, buffer);
    } else {
        (void)bh_events_write(BH_RING_FREE_TO_OS, buffer);
    }
    bh_mirror_drop(buffer);
}

/* ---- allocation -------------------------------------------------------------------- */

/* op: the operation that allocates, NULL = none or not known. */
static void start_life(struct bh_buffer *buffer, uint64_t requested_bytes,
                       const struct bh_op_facts *op)
{
    buffer->requested_bytes = requested_bytes;
    buffer->stack = op == NULL ? 0 : op->stack;
    buffer->primitive = op == NULL ? 0 : op->primitive;
    buffer->stream = op == NULL ? -1 : op->stream;
    buffer->device = op == NULL ? BH_RING_DEVICE_CPU : op->device;
    buffer->linked = false;
}

static void add_new(enum bh_ring_kind kind, uint64_t address, uint64_t size_bytes,
                    uint64_t requested_bytes, const struct bh_op_facts *op)
{
    struct bh_buffer *buffer = bh_mirror_add(address);

    if (buffer == NULL) {
        fail("no memory for the recorder's table of buffers");
        return;
    }
    buffer->size_bytes = size_bytes;
    buffer->foreign = kind == BH_RING_ALLOC_MAKE_BUFFER;
    start_life(buffer, requested_bytes, op);
    if (!buffer->foreign) {
        bh_live.active_bytes += size_bytes;
    }
    buffer->ticket = bh_events_write(kind, buffer);
    bh_events_count_small(buffer, 1);
}

static void note_malloc(uint64_t address, uint64_t size_bytes, uint64_t requested_bytes,
                        const struct bh_op_facts *op)
{
    struct bh_buffer *buffer = bh_mirror_find(address);
    uint64_t now = mlx_cache();

    if (buffer != NULL && buffer->state == BH_BUFFER_CACHED && buffer->size_bytes == size_bytes) {
        bh_mirror_to_active(buffer);
        start_life(buffer, requested_bytes, op);
        buffer->ticket = bh_events_write(BH_RING_ALLOC_REUSE, buffer);
        bh_events_count_small(buffer, 1);
        if (BH_UNLIKELY(expected_cache() != now)) {
            settle(now);
        }
        return;
    }
    if (BH_UNLIKELY(expected_cache() != now)) {
        settle(now); /* evicted under pressure, before the new buffer came */
    }
    if (buffer != NULL && (buffer = bh_mirror_find(address)) != NULL) {
        forget(buffer);
    }
    add_new(BH_RING_ALLOC_NEW, address, size_bytes, requested_bytes, op);
}

static inline void *visit_malloc(void *self, size_t bytes, const struct bh_op *op)
{
    VISIT;
    void *buffer = bh_mlx.malloc(self, bytes);

    if (BH_LIKELY(buffer != NULL)) {
        uint64_t size_bytes;

        bh_mirror_expect((uint64_t)(uintptr_t)buffer);
        size_bytes = bh_mlx.size(self, buffer);
        bh_events_follow_control(true);
        if (BH_LIKELY(size_bytes != 0)) { /* malloc(0) takes nothing and is freed without a trace */
            note_malloc((uint64_t)(uintptr_t)buffer, size_bytes, bytes,
                        op == NULL ? NULL : &op->facts);
        }
    }
    return buffer;
}

void *bh_track_malloc(void *self, size_t bytes)
{
    const struct bh_op *op;
    void *buffer;

    if (!may_enter()) {
        return bh_mlx.malloc(self, bytes);
    }
    op = bh_op_current();
    buffer = visit_malloc(self, bytes, op);
    bh_thread.last_address = (uint64_t)(uintptr_t)buffer;
    bh_thread.last_desc = op == NULL ? NULL : op->desc;
    return buffer;
}

void *bh_track_make_buffer(void *self, void *data, size_t bytes)
{
    if (!may_enter()) {
        return bh_mlx.make_buffer(self, data, bytes);
    }

    VISIT;
    void *buffer = bh_mlx.make_buffer(self, data, bytes);

    if (buffer != NULL) {
        struct bh_buffer *known = bh_mirror_find((uint64_t)(uintptr_t)buffer);

        bh_events_follow_control(true);
        if (known != NULL) {
            forget(known);
        }
        add_new(BH_RING_ALLOC_MAKE_BUFFER, (uint64_t)(uintptr_t)buffer, bytes, bytes, NULL);
    }
    return buffer;
}

/* ---- free -------------------------------------------------------------------------- */

static void note_free(struct bh_buffer *buffer)
{
    uint64_t before = expected_cache();
    uint64_t now = mlx_cache();
    bool kept = now == before + buffer->size_bytes;

    if (BH_UNLIKELY(!kept && now != before) && !buffer->foreign) {
        /* Another thread is emptying the cache. If enough is left for this buffer it was most
         * likely kept, because the newest goes last. */
        kept = now >= buffer->size_bytes;
    }
    bh_events_count_small(buffer, -1);
    if (kept && !buffer->foreign) {
        (void)bh_events_write(BH_RING_FREE_TO_CACHE, buffer);
        bh_mirror_to_cache(buffer);
    } else {
        (void)bh_events_write(buffer->foreign ? BH_RING_RELEASE : BH_RING_FREE_TO_OS, buffer);
        bh_mirror_drop(buffer);
    }
    if (BH_UNLIKELY(expected_cache() != now)) {
        settle(now);
    }
}

static inline void tracked_free(void *self, void *address, void (*real)(void *, void *))
{
    struct bh_buffer *buffer;

    if (BH_UNLIKELY(address == NULL) || !may_enter()) {
        real(self, address);
        return;
    }

    VISIT;
    bh_mirror_expect((uint64_t)(uintptr_t)address);
    bh_events_follow_control(false);
    real(self, address);
    buffer = bh_mirror_find((uint64_t)(uintptr_t)address);
    if (BH_LIKELY(buffer != NULL && buffer->state == BH_BUFFER_ACTIVE)) {
        note_free(buffer);
    } else if (expected_cache() != mlx_cache()) {
        settle(mlx_cache()); /* a buffer from before the recorder went to the cache */
    }
}

void bh_track_free(void *self, void *buffer)
{
    tracked_free(self, buffer, bh_mlx.free);
}

void bh_track_release(void *self, void *buffer)
{
    tracked_free(self, buffer, bh_mlx.release);
}

/* ---- everything else --------------------------------------------------------------- */

/* What the array that takes a buffer knows: its own node's facts or, for a temporary, those of the
 * operation that it serves. */
static struct bh_op_facts facts_of(void *desc)
{
    struct bh_desc_facts node;
    const struct bh_op *op;

    bh_desc_read(desc, &node);
    if (node.primitive == NULL && node.stack == 0 && (op = bh_op_current()) != NULL) {
        return op->facts;
    }
    return (struct bh_op_facts){.stack = node.stack,
                                .primitive = bh_op_name(node.primitive),
                                .stream = node.stream,
                                .device = node.device};
}

static bool same_facts(const struct bh_buffer *buffer, const struct bh_op_facts *facts)
{
    return buffer->stack == facts->stack && buffer->primitive == facts->primitive &&
           buffer->stream == facts->stream;
}

/* Did the allocation carry this node's facts already? Asked without a lock, of what this thread
 * remembers of its last allocation. */
static inline bool told_at_allocation(uint64_t address, void *desc)
{
    const struct bh_thread *thread = &bh_thread;
    struct bh_desc_facts node;

    if (thread->last_address != address || thread->last_desc == NULL || thread->last_desc != desc) {
        return false;
    }
    if (thread->op.desc == desc) {
        return true; /* it lives while it is evaluated, so it is the same node */
    }
    if (thread->op.desc != NULL || thread->leaf.desc != desc) {
        return false;
    }
    bh_desc_read(desc, &node);
    return node.primitive == NULL && node.stack == thread->leaf.facts.stack;
}

static void write_link(struct bh_buffer *buffer, const struct bh_op_facts *facts)
{
    struct bh_ring_slot slot = {.kind = BH_RING_LINK,
                                .address = buffer->address,
                                .size_bytes = buffer->size_bytes,
                                .link_ticket = buffer->ticket,
                                .stack = facts->stack,
                                .primitive = facts->primitive,
                                .stream = facts->stream,
                                .device = facts->device};

    buffer->stack = facts->stack;
    buffer->primitive = facts->primitive;
    buffer->stream = facts->stream;
    if (bh_events_recording && buffer->ticket != BH_NO_TICKET) {
        (void)bh_emit_link(&slot);
    }
}

/* An array takes its buffer. Mostly everything is known already, from the operation. */
void bh_track_link(uint64_t address, void *desc)
{
    struct bh_op_facts facts;
    struct bh_buffer *buffer;

    if (!bh_emit_wanted() || !may_enter()) {
        return;
    }
    facts = facts_of(desc);
    bh_thread.leaf.desc = NULL;

    VISIT;
    buffer = bh_mirror_find(address);
    if (buffer != NULL && buffer->state == BH_BUFFER_ACTIVE && !buffer->linked) {
        buffer->linked = true;
        if (!same_facts(buffer, &facts)) {
            write_link(buffer, &facts);
        }
    }
}

/* The same where nobody else can take the buffer later, so that nothing need be remembered. */
void bh_track_link_owned(uint64_t address, void *desc)
{
    if (BH_LIKELY(told_at_allocation(address, desc))) {
        bh_thread.last_address = 0;
        bh_thread.leaf.desc = NULL;
        return;
    }
    bh_track_link(address, desc);
}

void bh_track_follow(void)
{
    if (may_enter()) {
        VISIT;
        bh_events_follow_control(false);
    }
}

void bh_track_flush_begin(void)
{
    __atomic_add_fetch(&bh_track_flushes, 1, __ATOMIC_SEQ_CST);
}

void bh_track_flush_end(void)
{
    if (!may_enter()) {
        __atomic_sub_fetch(&bh_track_flushes, 1, __ATOMIC_SEQ_CST);
        return;
    }

    VISIT;
    /* under the lock, so that nobody relies on sizes before the mirror has caught up */
    __atomic_sub_fetch(&bh_track_flushes, 1, __ATOMIC_SEQ_CST);
    bh_events_follow_control(false);
    settle(mlx_cache());
}

void bh_track_mark(const char *label)
{
    struct bh_ring_slot slot = {.kind = BH_RING_MARK, .stream = -1};

    if (!bh_emit_wanted() || !may_enter()) {
        return;
    }
    bh_lock_take(&bh_arena_lock);
    slot.primitive = bh_names_intern(label, strlen(label));
    bh_lock_give(&bh_arena_lock);
    if (slot.primitive == 0) {
        return;
    }

    VISIT;
    bh_events_follow_control(false);
    if (bh_events_recording) {
        (void)bh_emit_slot(&slot);
    }
}
