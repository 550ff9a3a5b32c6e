#include "core/model/job.h"

#include <string.h>

#include "core/base/text.h"
#include "core/model/policy.h"

/* One switch per list of states.def. */
#define TEXT(name, number, text)                                                                   \
    case number:                                                                                   \
        return text;

const char *bh_job_state_text(int state)
{
    switch (state) {
#define BH_JOB_STATE TEXT
#include "core/model/states.def"
#undef BH_JOB_STATE
    default:
        return "unknown";
    }
}

const char *bh_mode_text(int mode)
{
    switch (mode) {
#define BH_MODE TEXT
#include "core/model/states.def"
#undef BH_MODE
    default:
        return "unknown";
    }
}

const char *bh_boundary_text(int boundary)
{
    switch (boundary) {
#define BH_BOUNDARY TEXT
#include "core/model/states.def"
#undef BH_BOUNDARY
    default:
        return "unknown";
    }
}

const char *bh_recorder_state_text(int state)
{
    switch (state) {
#define BH_RECORDER_STATE TEXT
#include "core/model/states.def"
#undef BH_RECORDER_STATE
    default:
        return "unknown";
    }
}

const char *bh_outcome_text(int kind)
{
    switch (kind) {
#define BH_OUTCOME TEXT
#include "core/model/states.def"
#undef BH_OUTCOME
    default:
        return "unknown";
    }
}

const char *bh_cause_text(int cause)
{
    switch (cause) {
#define BH_CAUSE TEXT
#include "core/model/states.def"
#undef BH_CAUSE
    default:
        return "unknown";
    }
}

#define MS         1000000ull
#define S          (1000 * MS)
#define SIGNAL_MAX 64
#define TERM       15 /* SIGTERM on every system; this folder knows no OS header */

void bh_job_spec_init(struct bh_job_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    spec->breach_count = 2;
    spec->max_unusable = 3;
    spec->interval_ns = 50 * MS;
    spec->min_interval_ns = MS / 4;
    spec->checkpoint_timeout_ns = 30 * S;
    spec->stop_signal = TERM;
    spec->grace_base_ns = 1 * S;
    spec->grace_per_gib_ns = 250 * MS;
    spec->grace_max_ns = 60 * S;
    spec->kill_retry_ns = 1 * S;
    spec->kill_wait_ns = 30 * S;
    spec->stacks = BH_STACKS_PYTHON;
    spec->depth = 32;
    spec->max_entries = 1000000;
    spec->trace_max_bytes = 2ull << 30;
    spec->log_max_bytes = 256ull << 20;
}

static int refuse(struct bh_diag *diag, const char *field, const char *sentence)
{
    return bh_err_set(diag, BH_E_INVALID_CONFIG, field, "%s", sentence);
}

/* core/model/policy.md, section 1: every band that was not given follows from the limit; then the
 * first one out of order is named. */
static int resolve_bands(struct bh_job_spec *spec, struct bh_diag *diag)
{
    struct bh_policy_bands bands;
    int result = bh_policy_bands_from_limit(spec->limit_bytes, &bands, diag);
    if (result < 0)
        return result;
    if (!spec->recovery_given && spec->recovery_bytes == 0)
        spec->recovery_bytes = bands.recovery_bytes;
    if (!spec->warning_given && spec->warning_bytes == 0)
        spec->warning_bytes = bands.warning_bytes;
    if (!spec->emergency_given && spec->emergency_bytes == 0)
        spec->emergency_bytes = bands.emergency_bytes;
    if (spec->recovery_bytes >= spec->warning_bytes)
        return refuse(diag, "recovery", "recovery must be below warning");
    if (spec->warning_bytes >= spec->limit_bytes)
        return refuse(diag, "warning", "warning must be below the limit");
    if (spec->emergency_bytes <= spec->limit_bytes)
        return refuse(diag, "emergency", "emergency must be above the limit");
    if (spec->emergency_bytes > BH_POLICY_MAX)
        return refuse(diag, "emergency", "emergency must be at most 2^63 - 1");
    return BH_OK;
}

struct duration_rule {
    const char *field;
    size_t offset;
    bool may_be_zero;
};

#define RULE(field, member, zero)                                                                  \
    {                                                                                              \
        field, offsetof(struct bh_job_spec, member), zero                                          \
    }
static const struct duration_rule duration_rules[] = {
    RULE("sample_interval", interval_ns, false),
    RULE("min_sample_interval", min_interval_ns, false),
    RULE("breach/hold", breach_hold_ns, true),
    RULE("wall_time", wall_time_ns, true),
    RULE("checkpoint/timeout", checkpoint_timeout_ns, true),
    RULE("stop/grace/base", grace_base_ns, false),
    RULE("stop/grace/per_gib", grace_per_gib_ns, true),
    RULE("stop/grace/max", grace_max_ns, false),
    RULE("stop/kill_retry", kill_retry_ns, false),
    RULE("stop/kill_wait", kill_wait_ns, false),
};

static int check_durations(const struct bh_job_spec *spec, struct bh_diag *diag)
{
    for (size_t i = 0; i < sizeof duration_rules / sizeof duration_rules[0]; i++) {
        const struct duration_rule *rule = &duration_rules[i];
        uint64_t value;
        memcpy(&value, (const char *)spec + rule->offset, sizeof value);
        if (value == 0 && !rule->may_be_zero)
            return bh_err_set(diag, BH_E_INVALID_CONFIG, rule->field, "%s must be above zero",
                              rule->field);
        if (value > BH_POLICY_MAX)
            return bh_err_set(diag, BH_E_INVALID_CONFIG, rule->field,
                              "%s must be at most 2^63 - 1 ns", rule->field);
    }
    if (spec->min_interval_ns > spec->interval_ns)
        return refuse(diag, "min_sample_interval",
                      "min_sample_interval must not be above sample_interval");
    if (spec->grace_max_ns < spec->grace_base_ns)
        return refuse(diag, "stop/grace/max", "stop.grace.max must not be below stop.grace.base");
    return BH_OK;
}

static int check_checkpoint(const struct bh_job_spec *spec, struct bh_diag *diag)
{
    if (spec->checkpoint_kind == BH_CHECKPOINT_NONE)
        return BH_OK;
    if (spec->checkpoint_timeout_ns == 0)
        return refuse(diag, "checkpoint/timeout", "checkpoint.timeout must be above zero");
    if (spec->checkpoint_kind != BH_CHECKPOINT_SIGNAL)
        return BH_OK;
    if (spec->checkpoint_signal < 1 || spec->checkpoint_signal > SIGNAL_MAX)
        return refuse(diag, "checkpoint/signal", "checkpoint.signal must be a signal, 1 to 64");
    if (!spec->checkpoint_path || spec->checkpoint_path[0] == '\0')
        return refuse(diag, "checkpoint/path",
                      "checkpoint.path must name the file that the signal makes the job write");
    return BH_OK;
}

/* Neither can be caught: a KILL leaves no grace, a STOP only freezes the job until its grace ends.
 */
static int check_stop_signal(const struct bh_job_spec *spec, struct bh_diag *diag)
{
    char name[16];
    if (spec->stop_signal < 1 || spec->stop_signal > SIGNAL_MAX)
        return refuse(diag, "stop/signal", "stop.signal must be a signal, 1 to 64");
    const char *text = bh_text_signal_name(spec->stop_signal, name, sizeof name);
    if (strcmp(text, "SIGKILL") == 0 || strcmp(text, "SIGSTOP") == 0)
        return refuse(diag, "stop/signal",
                      "no program can react to stop.signal SIGKILL or SIGSTOP: use SIGTERM, SIGINT "
                      "or another one that the program handles");
    return BH_OK;
}

static int check_counts(const struct bh_job_spec *spec, struct bh_diag *diag)
{
    if (spec->breach_count == 0)
        return refuse(diag, "breach/count", "breach/count must be at least 1");
    if (spec->max_unusable == 0)
        return refuse(diag, "max_unusable", "max_unusable must be at least 1");
    int result = check_stop_signal(spec, diag);
    if (result < 0)
        return result;
    if (spec->record && (spec->depth == 0 || spec->depth > 256))
        return refuse(diag, "record/depth", "record.depth must be 1 to 256");
    if (!spec->external && (spec->argc == 0 || !spec->argv[0] || spec->argv[0][0] == '\0'))
        return refuse(diag, "command", "command must name a program");
    if (spec->argc > BH_SPEC_MAX_ARGUMENTS)
        return refuse(diag, "command", "command has more than 4096 arguments");
    if (spec->cwd && spec->cwd[0] != '/')
        return refuse(diag, "cwd", "cwd must be an absolute path");
    return BH_OK;
}

int bh_job_spec_resolve(struct bh_job_spec *spec, struct bh_diag *diag)
{
    struct bh_job_spec done = *spec;
    int result = BH_OK;
    switch (done.mode) {
    case BH_MODE_ENFORCE:
        result = resolve_bands(&done, diag);
        break;
    case BH_MODE_OBSERVE: /* bands are ignored */
        break;
    default:
        result = bh_err_set(diag, BH_E_MODE_MISSING, "mode",
                            "give a limit, or mode observe to watch without one");
        break;
    }
    if (result == BH_OK)
        result = check_counts(&done, diag);
    if (result == BH_OK)
        result = check_durations(&done, diag);
    if (result == BH_OK)
        result = check_checkpoint(&done, diag);
    if (result == BH_OK)
        *spec = done;
    return result;
}
