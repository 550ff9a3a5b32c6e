/*
 * A mutex for the recorder's two busy locks: taken and given back in the caller's own code. Taking
 * it is one atomic operation; giving it back is a plain store, because an atomic one waits until
 * every store before it has reached the cache, which costs more than all the rest of an event. The
 * price is that a sleeper can be missed in the moment it goes to sleep; so nobody sleeps longer
 * than BH_LOCK_NAP_NS at a stretch. Not recursive, no owner, errno kept. The waiting half is in
 * lock.c.
 */
#ifndef BH_RECORD_LOCK_H
#define BH_RECORD_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#define BH_LOCK_NAP_NS 1000000

struct bh_lock {
    uint32_t word; /* 0 free, 1 taken */
    uint32_t sleepers;
};

void bh_lock_wait(struct bh_lock *lock); /* takes it, sleeping if need be */
void bh_lock_wake(struct bh_lock *lock);

static inline bool bh_lock_try(struct bh_lock *lock)
{
    uint32_t free = 0;

    return __atomic_compare_exchange_n(&lock->word, &free, 1, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static inline void bh_lock_take(struct bh_lock *lock)
{
    if (__builtin_expect(!bh_lock_try(lock), 0)) {
        bh_lock_wait(lock);
    }
}

static inline void bh_lock_give(struct bh_lock *lock)
{
    __atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
    if (__builtin_expect(__atomic_load_n(&lock->sleepers, __ATOMIC_RELAXED) != 0, 0)) {
        bh_lock_wake(lock);
    }
}

/* In a forked child, whose only thread holds it: those who slept are in the parent. */
static inline void bh_lock_reset(struct bh_lock *lock)
{
    __atomic_store_n(&lock->sleepers, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
}

#endif
