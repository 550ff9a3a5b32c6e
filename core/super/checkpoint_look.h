/* Who looks for the file of a signal checkpoint: a helper process, because a disk that does not
 * answer would hold up whoever asks it, and that must not be the decider. The two talk over a
 * socket of whole messages; a helper that is stuck simply does not answer, and the deadline of the
 * request passes.
 *
 *     decider -> BEGIN id, processes       before the job is told: what lies there is remembered
 *     helper  -> MARKED id, process        done; and which of the processes runs Python
 *     decider: sends the signal
 *     helper  -> FOUND id, kind, size      new or changed, the same for 500 ms, and whole
 *     decider -> END id                    nobody waits any more
 *
 * Message bytes are those of the structures: both ends are one program on one machine. */
#ifndef BH_SUPER_CHECKPOINT_LOOK_H
#define BH_SUPER_CHECKPOINT_LOOK_H

#include <stddef.h>
#include <stdint.h>

#define BH_LOOK_PROCESSES 256 /* the first so many members are asked after */
#define BH_LOOK_STABLE_MS 500
#define BH_LOOK_PERIOD_MS 50

enum bh_look_kind {
    BH_LOOK_BEGIN = 1,
    BH_LOOK_END = 2,
    BH_LOOK_MARKED = 3,
    BH_LOOK_FOUND = 4,
};

struct bh_look_process {
    uint64_t start_token;
    int32_t pid;
    uint32_t python; /* by the name of its executable; else whether it maps libpython decides */
};

struct bh_look_request {
    uint32_t kind;
    uint32_t count;
    uint64_t id;
    struct bh_look_process processes[BH_LOOK_PROCESSES]; /* `count` are sent; in BEGIN, else none */
};

struct bh_look_answer {
    uint32_t kind;
    uint32_t artifact_kind; /* of FOUND: 1 file, 2 directory */
    uint64_t id;
    uint64_t start_token; /* of MARKED: the first that runs Python; pid 0 when none does */
    int32_t pid;
    uint32_t unused;
    uint64_t size_bytes; /* of FOUND */
};

/* The pair of ends, close-on-exec; the decider's does not block. */
int bh_look_open(int *ret_decider_fd, int *ret_helper_fd);
/* Never blocks: BH_E_AGAIN when the helper is far behind, BH_E_CLOSED when it is gone. */
int bh_look_ask(int fd, const struct bh_look_request *request);
/* 1 an answer, 0 none is there, BH_E_CLOSED. */
int bh_look_hear(int fd, struct bh_look_answer *ret_answer);

/* The helper's whole life: until the other end closes. cwd_fd: where path starts from. */
_Noreturn void bh_look_serve(int fd, int cwd_fd, const char *path);

#endif
