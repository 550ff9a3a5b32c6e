#include "core/super/server_watch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"

#define SERVER_LOCK "../../server.lock" /* from <state>/jobs/<id> */
#define LOOK_NS     (1 * BH_NS_PER_S)
#define PATIENCE_NS                                                                                \
    (5 * BH_NS_PER_S) /* a server that is started again meanwhile keeps its jobs                   \
                       */

void bh_server_watch_open(struct bh_server_watch *watch, int run_fd)
{
    watch->fd = openat(run_fd, SERVER_LOCK, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (watch->fd < 0)
        bh_log(BH_LOG_WARNING, "the server's lock cannot be watched: the job outlives the server");
}

void bh_server_watch_close(struct bh_server_watch *watch)
{
    if (watch->fd >= 0)
        (void)close(watch->fd);
    watch->fd = -1;
}

/* Shared, so that the supervisors of many jobs never take each other for the server. */
static bool is_free(const struct bh_server_watch *watch)
{
    if (flock(watch->fd, LOCK_SH | LOCK_NB) < 0)
        return false;
    (void)flock(watch->fd, LOCK_UN);
    return true;
}

bool bh_server_watch_gone(struct bh_server_watch *watch, uint64_t now_ns)
{
    if (watch->fd < 0 || now_ns < watch->next_ns)
        return false;
    watch->next_ns = now_ns + LOOK_NS;
    bool was_free = watch->free;
    watch->free = is_free(watch);
    if (!watch->free)
        return false;
    if (!was_free)
        watch->free_since_ns = now_ns;
    if (now_ns - watch->free_since_ns < PATIENCE_NS)
        return false;
    bh_server_watch_close(watch);
    return true;
}
