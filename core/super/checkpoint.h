/* The cooperative checkpoint (supervision.md, section 10): the socket protocol with a worker, or a
 * signal and a file to look for, which a helper does (checkpoint_look.h). Used by the loop; never
 * blocks, never stops a termination. What happened is said in the words of reports and in
 * CHECKPOINT records. */
#ifndef BH_SUPER_CHECKPOINT_H
#define BH_SUPER_CHECKPOINT_H

#include <sys/types.h>

#include "core/super/members.h"
#include "core/wire/ckpt.h"

#define BH_CHECKPOINT_JOB_FD 198

struct bh_checkpoint {
    const struct bh_job_spec *spec;
    const struct bh_platform *os;
    struct bh_members *members;
    struct bh_notes *notes;

    int fd;     /* our end, of the job's socket or of the helper that looks; -1 = no channel */
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
    uint32_t rejected, rejected_said; /* acknowledgements refused; in the last record */
    unsigned char input[BH_CKPT_MAX_FRAME];
    size_t input_length;

    bool announced; /* signal checkpoint: the signal was sent */
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
/* Before launch, and after all helpers were forked: one that held the job's end would hide that the
 * worker closed it. A channel that cannot be had is no error: the job runs without. nofile: the
 * job's descriptor limit. look_fd: of the helper that looks (bh_helpers_start_look), taken over;
 * -1 none. */
void bh_checkpoint_prepare(struct bh_checkpoint *checkpoint, uint64_t nofile, int look_fd);
void bh_checkpoint_launched(struct bh_checkpoint *checkpoint);
void bh_checkpoint_done(struct bh_checkpoint *checkpoint);

/* Whether the graceful path may ask: negotiated and not used up, or a signal checkpoint. */
bool bh_checkpoint_available(const struct bh_checkpoint *checkpoint);
/* Announces a request; BH_E_CHECKPOINT_UNAVAILABLE when it could not be delivered. */
int bh_checkpoint_request(struct bh_checkpoint *checkpoint, uint64_t id, uint64_t deadline_ns,
                          const char *reason);
/* The socket is readable (call again until it says nothing). */
enum bh_checkpoint_news bh_checkpoint_read(struct bh_checkpoint *checkpoint);
/* At the end of the run: says what was refused since the last word. */
void bh_checkpoint_settle(struct bh_checkpoint *checkpoint);
/* The deadline passed (word timed_out), or the job ended. */
void bh_checkpoint_close_request(struct bh_checkpoint *checkpoint, enum bh_checkpoint_word word);

#endif
