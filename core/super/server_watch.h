/* Whether the server that asked for this job still lives, for `on_server_exit: terminate`: its lock
 * (server.lock in the state directory, held with flock while it lives) is tried about once a
 * second, never waited for, and given back at once. Owns one descriptor. */
#ifndef BH_SUPER_SERVER_WATCH_H
#define BH_SUPER_SERVER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct bh_server_watch {
    int fd;           /* -1 = not watched */
    uint64_t next_ns; /* of the next look */
    bool free;        /* at the last look nobody held it */
    uint64_t free_since_ns;
};

/* After the helpers were forked: one that inherited the descriptor could keep the lock for us. */
void bh_server_watch_open(struct bh_server_watch *watch, int run_fd);
void bh_server_watch_close(struct bh_server_watch *watch);
/* True once: the lock was free for 5 s. now_ns: time that leaves out a closed lid. */
bool bh_server_watch_gone(struct bh_server_watch *watch, uint64_t now_ns);

#endif
