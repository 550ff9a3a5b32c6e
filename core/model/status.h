/* The state of a run at a glance: what status.bin holds and a STATUS query answers. 256 bytes on
 * the wire (wire/status_file.h). Written by the scribe from what the decider stores; read by
 * anyone. */
#ifndef BH_MODEL_STATUS_H
#define BH_MODEL_STATUS_H

#include "core/model/record.h"

struct bh_status {
    char run_id[BH_JOB_ID_SIZE];
    enum bh_job_state state;
    uint8_t policy_state; /* enum bh_policy_state */
    enum bh_mode mode;
    enum bh_boundary boundary;
    int supervisor_pid, root_pid; /* 0 = none yet */
    uint64_t root_start_token;
    uint32_t members;
    uint32_t limits_revision; /* 1 at launch */
    struct bh_mono at;        /* of this status */
    struct bh_mono started;   /* of the launch */
    uint64_t sequence;        /* last journal sequence stored */
    struct bh_observed charge, peak_charge;
    uint64_t limit_bytes, warning_bytes, recovery_bytes, emergency_bytes;
    enum bh_recorder_state recorder;
    struct bh_observed active, reserved; /* bytes, sums over live images */
    uint64_t events, lost;
    enum bh_checkpoint_word checkpoint;
    enum bh_outcome_kind outcome; /* NONE while it lives */
    enum bh_cause cause;
    int exit_code, signal;
};

#endif
