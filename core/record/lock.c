/* The slow half of lock.h: a short spin, because what the locks guard takes some tens of
 * nanoseconds, then naps on a futex. */
#include "core/record/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS 100

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void bh_lock_wait(struct bh_lock *lock)
{
    static const struct timespec nap = {0, BH_LOCK_NAP_NS};
    int saved = errno;
    int spin;

    for (spin = 0; spin < SPINS; spin++) {
        if (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) == 0 && bh_lock_try(lock)) {
            return;
        }
        pause_briefly();
    }
    __atomic_add_fetch(&lock->sleepers, 1, __ATOMIC_SEQ_CST);
    while (!bh_lock_try(lock)) {
        (void)syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 1, &nap, NULL, 0);
    }
    __atomic_sub_fetch(&lock->sleepers, 1, __ATOMIC_SEQ_CST);
    errno = saved;
}

void bh_lock_wake(struct bh_lock *lock)
{
    int saved = errno;

    (void)syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}
