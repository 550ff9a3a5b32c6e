/*
 * Process-wide state: the phase, the locks, thread numbers, and what a fork means. A forked child
 * inherits the mirror and every id but must not write into its parent's ring: it starts without one
 * and opens its own at its first allocation, with a copy of the arena so that inherited ids hold.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/record/record.h"

BH_HOT int bh_phase = BH_PHASE_UNTRIED;
struct bh_options bh_options;
BH_HOT struct bh_live bh_live;
struct bh_lock bh_arena_lock;
bool bh_life_child_pending;
__thread struct bh_thread bh_thread;

/* The parent's ring as it lay in memory at the fork; kept until the child has copied the arena. */
static struct {
    void *mapping;
    size_t bytes;
    const unsigned char *arena;
    uint64_t arena_used;
} inherited;

void bh_phase_set(int phase)
{
    __atomic_store_n(&bh_phase, phase, __ATOMIC_RELEASE);
}

static void before_fork(void)
{
    bh_lock_take(&bh_live.lock);
    pthread_mutex_lock(&bh_desc_lock);
    pthread_mutex_lock(&bh_names_lock);
    bh_lock_take(&bh_arena_lock);
    pthread_mutex_lock(&bh_bind_lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&bh_bind_lock);
    bh_lock_give(&bh_arena_lock);
    pthread_mutex_unlock(&bh_names_lock);
    pthread_mutex_unlock(&bh_desc_lock);
    bh_lock_give(&bh_live.lock);
}

static void after_fork_child(void)
{
    bh_thread.id = 0;
    if (bh_emit.header != NULL) {
        inherited.mapping = bh_emit.header;
        inherited.bytes =
            BH_RING_HEADER_BYTES + (bh_emit.mask + 1) * BH_RING_SLOT_BYTES + bh_emit.arena_bytes;
        inherited.arena = bh_emit.arena;
        inherited.arena_used = bh_emit.arena_used;
        bh_emit.header = NULL;
        bh_life_child_pending = true;
    }
    pthread_mutex_unlock(&bh_bind_lock);
    bh_lock_reset(&bh_arena_lock);
    pthread_mutex_unlock(&bh_names_lock);
    pthread_mutex_unlock(&bh_desc_lock);
    bh_lock_reset(&bh_live.lock);
}

int bh_life_watch_forks(void)
{
    return pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0 ? 0 : -1;
}

void bh_life_child_open(void)
{
    struct bh_ring_header *old = inherited.mapping;
    struct bh_ring_header *header;

    bh_life_child_pending = false;
    if (bh_emit_open(&bh_options, BH_RING_FLAG_CHILD |
                                      (old->flags & ~(BH_RING_FLAG_LOSSY | BH_RING_FLAG_LOCKED))) !=
        0) {
        bh_attach_leave();
        return;
    }
    header = bh_emit.header;
    if (bh_emit.arena_bytes <
        inherited.arena_used) { /* a smaller ring: inherited ids would dangle */
        bh_emit_unmap();
        bh_attach_leave();
        return;
    }
    memcpy(bh_emit.arena, inherited.arena, inherited.arena_used);
    bh_emit.arena_used = inherited.arena_used;
    header->arena_used = inherited.arena_used;
    header->attach_active_bytes = old->attach_active_bytes;
    header->attach_cache_bytes = old->attach_cache_bytes;
    header->walk = old->walk;
    memcpy(header->mlx_version, old->mlx_version, sizeof(header->mlx_version));
    memcpy(header->python_version, old->python_version, sizeof(header->python_version));
    munmap(inherited.mapping, inherited.bytes);
    inherited.mapping = NULL;
}
