/* The loop that decides: wait, sample, ask the policy, act. One per supervisor, single-threaded; it
 * touches no disk and no peer that can stall it, and allocates nothing. Everything it knows of the
 * outside comes through struct bh_platform, so a test drives it with the fake, turn by turn.
 *
 * boot.c fills and starts it; the parts below work on the same struct: loop.c (one turn), decide.c
 * (events into the policy, actions out of it), act.c (signals), commands.c (control requests),
 * account.c (peaks, latencies, status, the outcome). */
#ifndef BH_SUPER_LOOP_H
#define BH_SUPER_LOOP_H

#include "core/model/outcome.h"
#include "core/model/schedule.h"
#include "core/super/checkpoint.h"
#include "core/super/members.h"
#include "core/super/notes.h"
#include "core/super/peers.h"
#include "core/super/rings_mapped.h"
#include "core/super/sampler.h"
#include "core/super/server_watch.h"
#include "core/super/super.h"

#define BH_PEAK_MEMBERS 32 /* largest members kept for the breakdown at the peak */

struct bh_account {
    struct bh_observed charge, peak;
    struct bh_mono peak_at;
    struct bh_record_peak_member peak_members[BH_PEAK_MEMBERS];
    uint32_t peak_member_count;
    uint64_t breakdown_bytes; /* the peak that peak_members are of */
    uint64_t peak_growth_per_s;
    uint64_t decision_overshoot_bytes, peak_overshoot_bytes;
    struct bh_observed decision_to_signal_ns, signal_to_lower_ns, signal_to_empty_ns;
    struct bh_mono first_signal_at;
    uint64_t bytes_at_signal;
    uint64_t complete_samples, incomplete_samples;
    bool limit_crossed;
    /* growth between consecutive complete samples */
    bool has_earlier, earlier_confirmed;
    struct bh_mono earlier_at;
    uint64_t earlier_bytes, growth_bytes_s;
    /* span since the last EV_SAMPLE */
    uint64_t span_min_bytes, span_max_bytes;
    uint32_t span_count;
    struct bh_mono event_at;
    uint64_t oom_kills_before;
    unsigned quarters;
    uint64_t drained_events, drained_lost, drained_bytes; /* last EV_DRAIN */
};

/* A change of state whose record waits until the signals that it calls for are sent. */
struct bh_untold {
    bool pending;
    enum bh_policy_state_id from, to;
    const char *reason; /* static */
    uint64_t decided_at_ns;
};

struct bh_loop {
    const struct bh_platform *os;
    struct bh_run *run;
    const struct bh_job_spec *spec;

    struct bh_policy_config config;
    struct bh_policy_state policy;
    struct bh_untold untold;
    uint64_t started_ns; /* monotonic: the policy's time 0 */
    uint64_t gap_ns;     /* left out of the policy's time so far */

    struct bh_schedule_config schedule;
    struct bh_governor governor;
    uint64_t paid_cpu_ns; /* our CPU time that the governor knows of */
    bool dense;           /* the next reading follows sooner than the base interval */
    struct bh_charge_tree tree;
    struct bh_members members;
    struct bh_sampler sampler;
    struct bh_notes notes;
    struct bh_peers peers;
    struct bh_checkpoint checkpoint;
    struct bh_account account;
    struct bh_rings_mapped rings;

    struct bh_mono next_sample, next_quarter;
    bool child_ended;          /* SIGCHLD came: reap */
    bool observing;            /* samples are taken */
    bool killing;              /* a KILL was sent: everything that appears is killed at once */
    struct bh_mono next_sweep; /* of the killing */
    bool root_exited, root_exit_told;
    int root_status;            /* wait status of the root */
    bool ours_reached_root[65]; /* signals of ours that were delivered to the root */
    bool requested_signal[65];  /* … over the /signal route */
    enum bh_stop stop;
    int stop_signal_number;
    int stop_error; /* why the observation failed, where that is known; 0 */
    bool killed;    /* a KILL of ours was delivered */
    bool empty, empty_proven, given_up, done;
    bool launched;
    uint64_t root_start_token;
    uint64_t published_arrivals;      /* of the member list in queue.bin */
    struct bh_record_outcome outcome; /* NONE until it is stored */
    bool subreaper, memory_locked, realtime;
    uint32_t limits_revision;
    int mrelease_fd;
    struct bh_cgroup cgroup; /* the kernel ring, where there is one */
    bool braked;             /* memory.high is at the limit, and its events are waited for */
    uint64_t highs;          /* of these: seen so far */
    char cgroup_reason[96];  /* why it is not in force, "" when it is */
    struct bh_proc owner;    /* who asked for the job, while owner_known */
    bool owner_known;
    struct bh_server_watch server;
    int terminal_fd; /* foreground: the terminal that was handed to the job, -1 = none */
    int own_group;
    unsigned foreground_signals;
};

/* Policy, schedule and parts; nothing is launched. The loop comes zeroed: static (its MiBs of
 * tables cost memory only where they are used) or from calloc. */
void bh_loop_init(struct bh_loop *loop, const struct bh_platform *os, struct bh_run *run);
/* The root runs. */
int bh_loop_launched(struct bh_loop *loop, int root_pid, struct bh_diag *diag);
/* Before launch: the kernel ring with the bands of the spec. */
void bh_loop_make_cgroup(struct bh_loop *loop);
/* Whether the kernel itself holds the job below its emergency band. */
bool bh_loop_kernel_enforced(const struct bh_loop *loop);
/* What it does so with, and the brake, for the report; "" for nothing. */
const char *bh_loop_mechanism(const struct bh_loop *loop);
/* After the limits changed. */
void bh_loop_follow_limits(struct bh_loop *loop);
/* With a brake: brings the next reading forward where memory.high was reached again. */
void bh_loop_watch_brake(struct bh_loop *loop);
/* Lifts the brake once the policy has begun to act; nothing before. */
void bh_loop_let_brake_go(struct bh_loop *loop);
/* The kernel's own evidence that it killed for want of memory since launch. */
bool bh_loop_kernel_killed(const struct bh_loop *loop);
/* One wait and what follows from it. Returns false when the run is over: the tree is empty or given
 * up; EMPTY and OUTCOME are stored then. */
bool bh_loop_turn(struct bh_loop *loop);
/* Stores the outcome of a run that never launched. */
void bh_loop_failed(struct bh_loop *loop, int error);

/* ---- between the parts ------------------------------------------------------------------------
 */

uint64_t bh_loop_policy_time(const struct bh_loop *loop, struct bh_mono at);
/* decide.c: one event through the policy, its actions carried out. */
void bh_loop_feed(struct bh_loop *loop, const struct bh_policy_event *event);
/* decide.c: the same for an event that has only a kind and the present time. */
void bh_loop_feed_simple(struct bh_loop *loop, enum bh_policy_event_kind kind);
/* decide.c: stores the record of the last change of state, where it is not yet stored. */
void bh_loop_tell_transition(struct bh_loop *loop);

/* act.c: one signal to every live member; notes one SIGNAL record; false when nothing could be
 * reached although somebody lives. */
bool bh_loop_signal_tree(struct bh_loop *loop, int signal, const char *reason,
                         uint64_t decided_at_ns);
/* act.c: KILL to everybody until a look finds nobody new. */
bool bh_loop_kill_tree(struct bh_loop *loop, const char *reason, uint64_t decided_at_ns);
/* act.c: KILL for whoever appeared since. */
void bh_loop_sweep(struct bh_loop *loop);

/* commands.c */
void bh_loop_command(void *context, struct bh_peer *peer, const struct bh_frame *frame);
/* Foreground and start: a signal that came to the supervisor itself. */
void bh_loop_own_signals(struct bh_loop *loop, uint64_t signals);

/* account.c */
void bh_account_sample(struct bh_loop *loop, const struct bh_sample *sample);
/* Of the recorder, mapped into the job right now, as the scribe sees it. */
uint64_t bh_account_ring_bytes(struct bh_loop *loop);
/* Four times a second: what the scribe says; once a second the host's memory. */
void bh_account_quarter(struct bh_loop *loop);
void bh_account_publish(struct bh_loop *loop);
/* The member list alone, when somebody came: without a control group it is all that whoever
 * finishes for a killed decider can find an orphan by. */
void bh_account_publish_newcomers(struct bh_loop *loop);
void bh_account_status(const struct bh_loop *loop, struct bh_status *ret_status);
void bh_account_outcome(struct bh_loop *loop, int error);

#endif
