/* How a run ended, in three forms: kind and cause (decided from facts, never from the exit code
 * alone), what `run` exits with (core/model/report.md, section 4), and the one plain sentence for
 * people (fact, cause, what to do). Pure. The decider collects the facts and calls
 * bh_outcome_decide before it stores OUTCOME; scribe and adopt do when the decider is lost; the
 * sentence is made from the report. */
#ifndef BH_MODEL_OUTCOME_H
#define BH_MODEL_OUTCOME_H

#include "core/model/record.h"

/* What first made the supervisor act on the job: the event behind the first TERM, forward, KILL or
 * checkpoint request of the policy machine. Later ones (KILL after grace) do not change it. */
enum bh_stop {
    BH_STOP_NONE = 0,
    BH_STOP_LIMIT,     /* the graceful path because of breaches */
    BH_STOP_EMERGENCY, /* the emergency band, KILL or TERM */
    BH_STOP_WALL_TIME,
    BH_STOP_REQUEST,     /* stop or kill over the control socket */
    BH_STOP_SIGNAL,      /* SIGINT, SIGTERM or SIGHUP to the foreground supervisor */
    BH_STOP_OWNER_EXIT,  /* the owner, or the server with on_server_exit terminate */
    BH_STOP_ROOT_EXITED, /* descendants that outlived the root */
    BH_STOP_OBSERVATION_FAILED,
    BH_STOP_SUPERVISOR_FAULT,
};

struct bh_outcome_facts {
    enum bh_mode mode;
    /* enum bh_error of a launch or supervisor failure, or why not all could be watched; 0 none */
    int error;
    bool launched; /* the root has run */
    int exit_code; /* of the root, -1 unknown or ended by a signal */
    int signal;    /* that ended the root, 0 none */
    enum bh_stop stop;
    int stop_signal_number;    /* BH_STOP_SIGNAL: n of 128 + n */
    bool signal_was_ours;      /* a signal of this number was delivered to the root by us: policy,
                                * forward or /signal */
    bool signal_was_requested; /* … and it was the /signal route's */
    bool
        kernel_oom; /* the kernel's own evidence: oom_kill of memory.events rose, for one of ours */
    bool unkillable; /* given up with members alive */
    bool reboot;     /* the boot id changed */
    bool supervisor_lost;
    int artifact_error; /* enum bh_error, 0 none */
};

/* Sets kind, cause, exit_code, signal, reported_exit_code and error; leaves the rest alone. */
void bh_outcome_decide(const struct bh_outcome_facts *facts, struct bh_record_outcome *ret_outcome);

/* What the sentence needs besides kind and cause; the report fills it. */
struct bh_outcome_story {
    enum bh_outcome_kind kind;
    enum bh_cause cause;
    enum bh_mode mode;
    int exit_code, signal; /* of the root; -1, 0 unknown */
    uint64_t limit_bytes, emergency_bytes;
    uint64_t wall_time_ns;
    uint32_t max_unusable;
    uint32_t survivors;
    bool emergency_term; /* emergency_action term */
    bool killed;         /* a KILL of ours was delivered */
    enum bh_checkpoint_word checkpoint;
    struct bh_observed reached_epoch_us; /* T: limit reached, band passed; of supervisor_lost: last
                                          * sample */
    struct bh_observed later_ns;         /* from T to the empty tree */
    int error;                           /* enum bh_error of a failure */
};

/* utc_offset_s: of the local time in which T is spoken. Writes at most size bytes, terminated; 320
 * are enough. Returns ret_text. */
const char *bh_outcome_sentence(const struct bh_outcome_story *story, int utc_offset_s,
                                char *ret_text, size_t size);

#endif
