/* The cooperative checkpoint (supervision.md, section 10): the socket protocol with a worker, or a
 * signal and a file to look for. Used by the loop; never blocks, never stops a termination. What
 * happened is said in the words of reports and in CHECKPOINT records. */
#ifndef BH_SUPER_CHECKPOINT_H
#define BH_SUPER_CHECKPOINT_H

#include <sys/types.h>

#include "core/super/members.h"
#include "core/wire/ckpt.h"

#define BH_CHECKPOINT_JOB_FD    198
#define BH_CHECKPOINT_STABLE_NS (500 * BH_NS_PER_MS)
#define BH_CHECKPOINT_WATCH_NS  (50 * BH_NS_PER_MS)

/* What tells one state of a file or directory from another. */
struct bh_checkpoint_mark {
    bool exists;
    uint64_t inode, size_bytes;
    int64_t mtime_ns;
};

struct bh_checkpoint {
    const struct bh_job_spec *spec;
    const struct bh_platform *os;
    struct bh_members *members;
    struct bh_notes *notes;

    int fd;     /* our end, -1 = no channel */
    int job_fd; /* the job's end until it was launched */
    unsigned char nonce[BH_CKPT_NONCE_BYTES];
    bool negotiated; /* ready came */
    int worker_pid;  /* who said ready */
    bool used;       /* the one request of protocol 1 was sent */

    bool active;               /* a request waits for its answer */
    struct bh_mono answer_due; /* of a request that the policy does not wait for */
    uint64_t request_id;
    char reason[16];
    enum bh_checkpoint_word word;
    uint32_t rejected;
    unsigned char input[BH_CKPT_MAX_FRAME];
    size_t input_length;

    int cwd_fd; /* signal checkpoint: where its path starts from */
    struct bh_checkpoint_mark before, last;
    struct bh_mono last_changed, next_watch;
};

/* What the loop has to tell the policy. */
enum bh_checkpoint_news {
    BH_CHECKPOINT_NOTHING,
    BH_CHECKPOINT_BECAME_READY,
    BH_CHECKPOINT_LOST,   /* the channel broke */
    BH_CHECKPOINT_DONE,   /* acknowledged or verified: checkpoint_ack */
    BH_CHECKPOINT_FAILED, /* failed or cancelled: checkpoint_failed */
};

void bh_checkpoint_init(struct bh_checkpoint *checkpoint, const struct bh_job_spec *spec,
                        const struct bh_platform *os, struct bh_members *members,
                        struct bh_notes *notes);
/* Before launch. A channel that cannot be had is no error: the job runs without. nofile: the job's
 * descriptor limit. */
void bh_checkpoint_prepare(struct bh_checkpoint *checkpoint, uint64_t nofile);
void bh_checkpoint_launched(struct bh_checkpoint *checkpoint);
void bh_checkpoint_done(struct bh_checkpoint *checkpoint);

/* Whether the graceful path may ask: negotiated and not used up, or a signal checkpoint. */
bool bh_checkpoint_available(const struct bh_checkpoint *checkpoint);
/* Announces a request; BH_E_CHECKPOINT_UNAVAILABLE when it could not be delivered. */
int bh_checkpoint_request(struct bh_checkpoint *checkpoint, uint64_t id, uint64_t deadline_ns,
                          const char *reason);
/* The socket is readable (call again until it says nothing). */
enum bh_checkpoint_news bh_checkpoint_read(struct bh_checkpoint *checkpoint);
/* The file of a signal checkpoint, looked at every BH_CHECKPOINT_WATCH_NS while a request waits. */
enum bh_checkpoint_news bh_checkpoint_watch(struct bh_checkpoint *checkpoint, struct bh_mono now);
/* The deadline passed (word timed_out), or the job ended. */
void bh_checkpoint_close_request(struct bh_checkpoint *checkpoint, enum bh_checkpoint_word word);

#endif
