/* What answers are made of: plain structs that the backend fills and view_json writes. Everything
 * is borrowed for the time of one write. Unknown times are us 0; unknown values carry their status.
 */
#ifndef BH_API_VIEW_H
#define BH_API_VIEW_H

#include "core/base/json_out.h"
#include "core/model/record.h"

struct bh_view_process {
    int pid;
    char basename[BH_BASENAME_SIZE];
};

struct bh_job_view {
    const struct bh_job_spec *spec; /* command, labels, checkpoint method, interval … */
    const char *id;
    enum bh_job_state state;
    uint8_t policy_state;
    enum bh_mode mode;
    enum bh_boundary boundary;
    struct bh_wall created_at, started_at, ended_at;
    struct bh_anchor anchor; /* wall.us 0 = none */
    int root_pid;            /* 0 = none */
    uint32_t members;
    uint64_t limit_bytes, warning_bytes, recovery_bytes, emergency_bytes; /* limit 0 = none */
    uint32_t limits_revision;
    struct bh_observed charge, peak_charge, active, reserved;
    struct bh_wall peak_at;
    enum bh_recorder_state recorder;
    const char *recorder_reason; /* "" or NULL = none */
    uint64_t events, lost;
    enum bh_checkpoint_word checkpoint;
    struct bh_wall checkpoint_at;
    struct bh_observed checkpoint_bytes;
    const struct bh_view_process *waiting;
    size_t waiting_count;
    enum bh_outcome_kind outcome; /* NONE = null */
    enum bh_cause cause;
    const char *sentence;
    int exit_code, signal; /* -1 unknown, 0 none */
    const char *const *warnings;
    size_t warning_count;
    uint64_t event_sequence;
};

struct bh_member_view {
    int pid;
    uint64_t start_token;
    const char *basename;
    bool root, left_group;
    bool has_joined, has_left;
    uint64_t joined_ms, left_ms;
    struct bh_observed charge;
};

struct bh_charged_view {
    const char *job_id, *name;
    uint64_t charge_bytes;
};

struct bh_host_view {
    struct bh_wall at;
    uint64_t total_bytes, available_bytes, charged_bytes, other_bytes, committed_bytes;
    uint64_t observed_bytes;
    int64_t fits_now_bytes;
    uint32_t committed_jobs, live_jobs;
    uint64_t finished_jobs;
    const struct bh_charged_view *charged;
    size_t charged_count;
    bool has_pressure;
    double some_avg10, full_avg10;
    enum bh_boundary boundary;
    const char *boundary_reason; /* NULL = none */
    const char *metric;
    bool subreaper, cgroup, recorder, pidfd;
};

struct bh_refusal_view {
    struct bh_wall at;
    const char *code;
    uint64_t count;
};

/* Something to know about the server; the code is stable, the detail one or two sentences. */
struct bh_notice_view {
    const char *code, *detail;
    struct bh_wall at;
};

struct bh_info_view {
    const char *epoch;
    int pid;
    struct bh_wall started_at;
    const char *os, *kernel, *machine;
    uint64_t page_bytes;
    uint32_t max_streams;
    uint64_t refused_total;
    const struct bh_refusal_view *refusals;
    size_t refusal_count;
    const struct bh_notice_view *notices;
    size_t notice_count;
};

/* One span of samples, as in the `sample` event. */
struct bh_sample_view {
    const char *job_id;
    int64_t from_us, to_us;
    uint8_t policy_state;
    uint32_t members;
    bool has_charge;
    uint64_t charge_min, charge_max, charge_last;
    struct bh_observed active, reserved; /* last, with the span's extremes: */
    uint64_t active_min, active_max, reserved_min, reserved_max;
};

#endif
